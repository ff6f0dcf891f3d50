//! Test inputs: a small deterministic generator that favours the corners of float formats.

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Bits of a float with the given field widths: special values, denormals, near-equal exponents,
    /// sparse mantissas and uniform bits, about equally often.
    pub(crate) fn float(&mut self, exp_bits: u32, man_bits: u32) -> u64 {
        let width = exp_bits + man_bits + 1;
        let all = u64::MAX >> (64 - width);
        let top = (1u64 << exp_bits) - 1;
        let bias = top >> 1;
        let r = self.next();
        let sign = (r >> 8 & 1) << (width - 1);
        let man = self.next() & ((1 << man_bits) - 1);
        let sparse = if r >> 9 & 1 == 0 {
            1 << (man & 63).min(u64::from(man_bits) - 1)
        } else {
            0
        };
        let near = bias
            .wrapping_add(self.next() % 40)
            .wrapping_sub(20)
            .min(top);
        sign | match r & 7 {
            0 => top << man_bits | sparse,
            1 => man >> ((r >> 16) % u64::from(man_bits)),
            2 => near << man_bits | man,
            3 => near << man_bits | sparse,
            4 => (top - 1) << man_bits | man,
            5 => (bias + 1) << man_bits | (((1 << man_bits) - 1) ^ sparse),
            6 => 0,
            _ => self.next() & all >> 1,
        }
    }

    pub(crate) fn f32(&mut self) -> u32 {
        self.float(8, 23) as u32
    }

    pub(crate) fn f64(&mut self) -> u64 {
        self.float(11, 52)
    }

    pub(crate) fn f16(&mut self) -> u16 {
        self.float(5, 10) as u16
    }
}
