//! Sums of absolute differences of unsigned bytes, words and dwords.

#[inline(always)]
const fn byte_sad(a: u32, b: u32, masked: bool) -> u32 {
    let mut sum = 0;
    let mut shift = 0;
    while shift < 32 {
        let (x, y) = (a >> shift & 0xff, b >> shift & 0xff);
        let skip = masked && y == 0;
        sum += if skip { 0 } else { x.abs_diff(y) };
        shift += 8;
    }
    sum
}

/// Sum of four byte differences plus `c`.
#[inline(always)]
#[must_use]
pub const fn v_sad_u8(a: u32, b: u32, c: u32) -> u32 {
    c.wrapping_add(byte_sad(a, b, false))
}

/// Sum of four byte differences, shifted left by 16, plus `c`.
#[inline(always)]
#[must_use]
pub const fn v_sad_hi_u8(a: u32, b: u32, c: u32) -> u32 {
    (byte_sad(a, b, false) << 16).wrapping_add(c)
}

/// Sum of two word differences plus `c`.
#[inline(always)]
#[must_use]
pub const fn v_sad_u16(a: u32, b: u32, c: u32) -> u32 {
    let low = (a & 0xffff).abs_diff(b & 0xffff);
    c.wrapping_add(low)
        .wrapping_add((a >> 16).abs_diff(b >> 16))
}

/// Difference of two dwords plus `c`.
#[inline(always)]
#[must_use]
pub const fn v_sad_u32(a: u32, b: u32, c: u32) -> u32 {
    a.abs_diff(b).wrapping_add(c)
}

/// As [`v_sad_u8`], bytes where `b` is zero left out.
#[inline(always)]
#[must_use]
pub const fn v_msad_u8(a: u32, b: u32, c: u32) -> u32 {
    c.wrapping_add(byte_sad(a, b, true))
}

#[inline(always)]
const fn quad_pk(a: u64, b: u32, c: u64, masked: bool) -> u64 {
    let mut out = 0;
    let mut i = 0;
    while i < 4 {
        let sum = byte_sad((a >> (8 * i)) as u32, b, masked) as u64;
        let acc = (c >> (16 * i)) & 0xffff;
        out |= ((acc + sum) & 0xffff) << (16 * i);
        i += 1;
    }
    out
}

/// Four 16-bit sums: bytes 0..4, 1..5, 2..6, 3..7 of `a` against `b`, each plus a word of `c`, modulo 2^16.
#[inline(always)]
#[must_use]
pub const fn v_qsad_pk_u16_u8(a: u64, b: u32, c: u64) -> u64 {
    quad_pk(a, b, c, false)
}

/// As [`v_qsad_pk_u16_u8`], bytes where `b` is zero left out.
#[inline(always)]
#[must_use]
pub const fn v_mqsad_pk_u16_u8(a: u64, b: u32, c: u64) -> u64 {
    quad_pk(a, b, c, true)
}

/// As [`v_mqsad_pk_u16_u8`] with 32-bit sums.
#[inline(always)]
#[must_use]
pub const fn v_mqsad_u32_u8(a: u64, b: u32, c: [u32; 4]) -> [u32; 4] {
    let mut out = c;
    let mut i = 0;
    while i < 4 {
        out[i] = c[i].wrapping_add(byte_sad((a >> (8 * i)) as u32, b, true));
        i += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of RDNA3 silicon.
    #[test]
    fn sums() {
        assert_eq!(v_sad_u8(0x0403_0201, 0x0504_0302, 0), 4);
        assert_eq!(v_sad_u8(0x0403_0201, 0x0403_0201, 10), 10);
        assert_eq!(v_sad_hi_u8(0x0403_0201, 0x0807_0605, 100), (16 << 16) + 100);
        assert_eq!(v_sad_u16(0x0003_0001, 0x0005_0002, 0), 3);
        assert_eq!(v_sad_u32(70, 100, 1), 31);
        assert_eq!(v_msad_u8(0x0403_0201, 0x0504_0002, 0), 3);
    }

    #[test]
    fn quads_slide_by_a_byte() {
        let a = 0x0706_0504_0302_0100;
        assert_eq!(v_qsad_pk_u16_u8(a, 0x0302_0100, 0), 0x000c_0008_0004_0000);
        assert_eq!(
            v_mqsad_pk_u16_u8(a, 0x0302_0100, 0xffff),
            0x0009_0006_0003_ffff
        );
        assert_eq!(
            v_mqsad_u32_u8(a, 0x0302_0100, [1, 2, 3, u32::MAX]),
            [1, 5, 9, 8]
        );
    }
}
