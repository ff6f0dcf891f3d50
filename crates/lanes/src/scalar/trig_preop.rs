//! V_TRIG_PREOP_F64: segments of 2/pi for argument reduction.
//! CDNA4 and RDNA4 manuals, section of the instruction.

/// 2/pi = 0.b1200 b1199 ... b0 in 1201 fraction bits, the highest dword first; the lowest dword holds
/// 17 bits at its top. Computed from pi to 1300 bits and truncated.
const TWO_OVER_PI: [u32; 38] = [
    0xa2f9_836e,
    0x4e44_1529,
    0xfc27_57d1,
    0xf534_ddc0,
    0xdb62_9599,
    0x3c43_9041,
    0xfe51_63ab,
    0xdebb_c561,
    0xb724_6e3a,
    0x424d_d2e0,
    0x0649_2eea,
    0x09d1_921c,
    0xfe1d_eb1c,
    0xb129_a73e,
    0xe882_35f5,
    0x2ebb_4484,
    0xe99c_7026,
    0xb45f_7e41,
    0x3991_d639,
    0x8353_39f4,
    0x9c84_5f8b,
    0xbdf9_283b,
    0x1ff8_97ff,
    0xde05_980f,
    0xef2f_118b,
    0x5a0a_6d1f,
    0x6d36_7ecf,
    0x27cb_09b7,
    0x4f46_3f66,
    0x9e5f_ea2d,
    0x7527_bac7,
    0xebe5_f17b,
    0x3d07_39f7,
    0x8a52_92ea,
    0x6bfb_5fb1,
    0x1f8d_5d08,
    0x5603_3046,
    0xfc7b_0000,
];

/// 53 bits of 2/pi from fraction bit `first` (0 is the one worth 1/2) on; bits past the table are 0.
#[inline(always)]
fn segment(first: u32) -> u64 {
    let dword = |i: usize| u64::from(TWO_OVER_PI.get(i).copied().unwrap_or(0));
    let i = (first / 32) as usize;
    let high = dword(i) << 32 | dword(i + 1);
    let shift = first % 32;
    // 64 bits from `first`: up to 32 come from the third dword.
    let low = if shift == 0 {
        0
    } else {
        dword(i + 2) >> (32 - shift)
    };
    (high << shift | low) >> 11
}

/// Segment `index & 31` of 2/pi, aligned for multiplication with `x`.
///
/// `53 * index` fraction bits are skipped, and one more for each step of the exponent of `x` above
/// 1077; the next 53 bits are returned as a double of their weight (times 2^128 if the exponent is
/// 1968 or more).
#[inline]
#[must_use]
pub fn v_trig_preop_f64(x: u64, index: u32) -> u64 {
    let exp = (x >> 52 & 0x7ff) as i32;
    let shift = (index & 31) as i32 * 53 + (exp - 1077).max(0);
    let scale = -53 - shift + if exp >= 1968 { 128 } else { 0 };
    let result = segment(shift as u32) as f64;
    // Scale is at least -53 - 31*53 - 970 + 128: two exact factors, one rounding at the bottom.
    let half = scale / 2;
    let power = |e: i32| f64::from_bits(((e + 1023) as u64) << 52);
    let scaled = if scale >= -1022 {
        result * power(scale)
    } else {
        truncated(result, half, scale - half)
    };
    scaled.to_bits()
}

/// `result * 2^(a + b)`, rounded toward zero where it is denormal (the manual: "rounding is toward zero").
fn truncated(result: f64, a: i32, b: i32) -> f64 {
    let bits =
        crate::fp::soft::BINARY64.scale(result.to_bits(), a + b, crate::fp::Rounding::TowardZero);
    f64::from_bits(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_add_up_to_two_over_pi() {
        let one = 1f64.to_bits();
        let part = |i| f64::from_bits(v_trig_preop_f64(one, i));
        assert_eq!(part(0), 0.636_619_772_367_581_3);
        assert!(
            part(0) <= std::f64::consts::FRAC_2_PI
                && part(1) > 0.0
                && part(1) < 1.2e-16
                && part(2) < 1.3e-32
        );
        assert_eq!(part(0) + (part(1) + part(2)), std::f64::consts::FRAC_2_PI);
        // Index 32 is index 0.
        assert_eq!(v_trig_preop_f64(one, 32), v_trig_preop_f64(one, 0));
    }

    #[test]
    fn bits_of_the_table_are_consecutive() {
        // Every window must be made of the bits that the windows one further start with.
        for first in 0..1300 {
            let (here, next) = (segment(first), segment(first + 1));
            assert_eq!(here & ((1 << 52) - 1), next >> 1, "{first}");
        }
        assert_eq!(segment(1201), 0);
    }

    #[test]
    fn large_exponents_shift_and_scale() {
        let x = |e: u64| e << 52;
        assert_eq!(
            v_trig_preop_f64(x(1078), 0) as f64,
            v_trig_preop_f64(x(1078), 0) as f64
        );
        let shifted = f64::from_bits(v_trig_preop_f64(x(1078), 0));
        assert_eq!(shifted, segment(1) as f64 * 2f64.powi(-54));
        let scaled = f64::from_bits(v_trig_preop_f64(x(1968), 0));
        assert_eq!(scaled, segment(891) as f64 * 2f64.powi(-53 - 891 + 128));
    }
}
