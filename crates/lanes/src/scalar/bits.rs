//! Bit fields, counting, permutation and saturating packs of bytes.

/// `width` = c\[4:0\] bits of `a` from bit b\[4:0\], zero-extended.
#[inline(always)]
#[must_use]
pub const fn v_bfe_u32(a: u32, b: u32, c: u32) -> u32 {
    a.wrapping_shr(b) & (1u32.wrapping_shl(c) - 1)
}

/// `width` = c\[4:0\] bits of `a` from bit b\[4:0\], sign-extended; zero if the width is 0.
///
/// The shift is arithmetic, so a field that runs past bit 31 is filled with the sign.
#[inline(always)]
#[must_use]
pub const fn v_bfe_i32(a: u32, b: u32, c: u32) -> u32 {
    let width = c & 31;
    let field = (a as i32).wrapping_shr(b) as u32 & (1u32 << width).wrapping_sub(1);
    let up = (32 - width) & 31;
    let extended = ((field << up) as i32 >> up) as u32;
    if width == 0 { 0 } else { extended }
}

/// Bits of `b` where `a` is set, of `c` elsewhere.
#[inline(always)]
#[must_use]
pub const fn v_bfi_b32(a: u32, b: u32, c: u32) -> u32 {
    a & b | !a & c
}

/// a\[4:0\] ones, shifted left by b\[4:0\].
#[inline(always)]
#[must_use]
pub const fn v_bfm_b32(a: u32, b: u32) -> u32 {
    (1u32.wrapping_shl(a) - 1).wrapping_shl(b)
}

/// Any function of three bits: bit `4 a + 2 b + c` of `table`, for each bit position.
#[inline(always)]
#[must_use]
pub const fn v_bitop3_b32(a: u32, b: u32, c: u32, table: u32) -> u32 {
    let mut r = 0;
    let mut i = 0;
    while i < 8 {
        let x = if i & 4 != 0 { a } else { !a };
        let y = if i & 2 != 0 { b } else { !b };
        let z = if i & 1 != 0 { c } else { !c };
        let on = 0u32.wrapping_sub(table >> i & 1);
        r |= x & y & z & on;
        i += 1;
    }
    r
}

/// As [`v_bitop3_b32`] in 16 bits.
#[inline(always)]
#[must_use]
pub const fn v_bitop3_b16(a: u16, b: u16, c: u16, table: u32) -> u16 {
    v_bitop3_b32(a as u32, b as u32, c as u32, table) as u16
}

/// Bits of {a, b} shifted right by c\[4:0\].
#[inline(always)]
#[must_use]
pub const fn v_alignbit_b32(a: u32, b: u32, c: u32) -> u32 {
    (((a as u64) << 32 | b as u64) >> (c & 31)) as u32
}

/// Bytes of {a, b} shifted right by c\[1:0\] bytes.
#[inline(always)]
#[must_use]
pub const fn v_alignbyte_b32(a: u32, b: u32, c: u32) -> u32 {
    (((a as u64) << 32 | b as u64) >> ((c & 3) * 8)) as u32
}

/// Each byte of `c` selects a byte of {a, b} (0 to 7, `b` lowest), the sign of byte 1, 3, 5 or 7
/// repeated (8 to 11), 0x00 (12) or 0xff (13 and more).
#[inline(always)]
#[must_use]
pub const fn v_perm_b32(a: u32, b: u32, c: u32) -> u32 {
    let mut r = 0;
    let mut shift = 0;
    while shift < 32 {
        let sel = c >> shift & 0xff;
        let byte = (if sel & 4 != 0 { a } else { b }) >> ((sel & 3) * 8) & 0xff;
        let signed = if sel & 2 != 0 { a } else { b };
        let signed = if sel & 1 != 0 { signed } else { signed << 16 };
        let sign = ((signed as i32) >> 31) as u32 & 0xff;
        let special = if sel == 12 { 0 } else { 0xff };
        let special = if sel < 12 { sign } else { special };
        r |= (if sel >= 8 { special } else { byte }) << shift;
        shift += 8;
    }
    r
}

/// Position of the highest one from the top, -1 if there is none (V_FFBH_U32, V_CLZ_I32_U32).
#[inline(always)]
#[must_use]
pub const fn v_clz_i32_u32(x: u32) -> u32 {
    if x == 0 { u32::MAX } else { x.leading_zeros() }
}

pub use v_clz_i32_u32 as v_ffbh_u32;

/// Position of the lowest one, -1 if there is none (V_FFBL_B32, V_CTZ_I32_B32).
#[inline(always)]
#[must_use]
pub const fn v_ctz_i32_b32(x: u32) -> u32 {
    if x == 0 { u32::MAX } else { x.trailing_zeros() }
}

pub use v_ctz_i32_b32 as v_ffbl_b32;

/// Position from the top of the first bit that differs from the sign, -1 if there is none
/// (V_FFBH_I32, V_CLS_I32).
#[inline(always)]
#[must_use]
pub const fn v_cls_i32(x: u32) -> u32 {
    v_clz_i32_u32(x ^ (x as i32 >> 31) as u32)
}

pub use v_cls_i32 as v_ffbh_i32;

/// Number of ones in `a`, plus `b`.
#[inline(always)]
#[must_use]
pub const fn v_bcnt_u32_b32(a: u32, b: u32) -> u32 {
    a.count_ones().wrapping_add(b)
}

/// Bits in reverse order.
#[inline(always)]
#[must_use]
pub const fn v_bfrev_b32(x: u32) -> u32 {
    x.reverse_bits()
}

/// Average of the bytes of `a` and `b`, rounded up where bit 0 of the byte of `c` is set.
#[inline(always)]
#[must_use]
pub const fn v_lerp_u8(a: u32, b: u32, c: u32) -> u32 {
    // Sums of bytes half as many at a time, so that nine bits fit.
    let even = 0x00ff_00ff;
    let one = 0x0001_0001;
    let low = ((a & even) + (b & even) + (c & one)) >> 1 & even;
    let high = ((a >> 8 & even) + (b >> 8 & even) + (c >> 8 & one)) >> 1 & even;
    low | high << 8
}

/// Two signed 16-bit values saturated to u8, in the two low bytes.
#[inline(always)]
#[must_use]
pub fn v_sat_pk_u8_i16(x: u32) -> u16 {
    let one = |v: u16| (v as i16).clamp(0, 255) as u8;
    u16::from_le_bytes([one(x as u16), one((x >> 16) as u16)])
}

/// Four signed bytes saturated to signed 4-bit values (gfx1250).
#[inline(always)]
#[must_use]
pub fn v_sat_pk4_i4_i8(x: u32) -> u16 {
    let nibble = |i: u32| ((x >> (8 * i)) as i8).clamp(-8, 7) as u16 & 15;
    nibble(0) | nibble(1) << 4 | nibble(2) << 8 | nibble(3) << 12
}

/// Four unsigned bytes saturated to unsigned 4-bit values (gfx1250).
#[inline(always)]
#[must_use]
pub fn v_sat_pk4_u4_u8(x: u32) -> u16 {
    let nibble = |i: u32| u16::from(((x >> (8 * i)) as u8).min(15));
    nibble(0) | nibble(1) << 4 | nibble(2) << 8 | nibble(3) << 12
}

#[inline(always)]
const fn perm_pk16(table: u128, indices: u64, bits: u32) -> u128 {
    let mut r = 0;
    let mut i = 0;
    while i < 16 {
        let index = (indices >> (4 * i)) as u32 & 15;
        let code = table >> (index * bits) & ((1 << bits) - 1);
        r |= code << (i * bits);
        i += 1;
    }
    r
}

/// Sixteen 4-bit entries of the table {a, b} looked up by sixteen 4-bit indices (gfx1250).
#[inline(always)]
#[must_use]
pub const fn v_perm_pk16_b4_u4(a: u32, b: u32, indices: u64) -> u64 {
    perm_pk16((a as u128) << 32 | b as u128, indices, 4) as u64
}

/// Sixteen 6-bit entries of the 96-bit table {a, b} looked up by sixteen 4-bit indices (gfx1250).
#[inline(always)]
#[must_use]
pub const fn v_perm_pk16_b6_u4(a: u32, b: u64, indices: u64) -> [u32; 3] {
    let r = perm_pk16((a as u128) << 64 | b as u128, indices, 6);
    [r as u32, (r >> 32) as u32, (r >> 64) as u32]
}

/// Sixteen 8-bit entries of the 128-bit table {a, b} looked up by sixteen 4-bit indices (gfx1250).
#[inline(always)]
#[must_use]
pub const fn v_perm_pk16_b8_u4(a: u64, b: u64, indices: u64) -> [u32; 4] {
    let r = perm_pk16((a as u128) << 64 | b as u128, indices, 8);
    [
        r as u32,
        (r >> 32) as u32,
        (r >> 64) as u32,
        (r >> 96) as u32,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    #[test]
    fn fields() {
        assert_eq!(v_bfe_u32(0x1234_5678, 8, 12), 0x456);
        assert_eq!(v_bfe_u32(u32::MAX, 3, 0), 0);
        assert_eq!(v_bfe_u32(u32::MAX, 3, 32), 0);
        assert_eq!(v_bfe_i32(0x0000_0f00, 8, 4), u32::MAX);
        assert_eq!(v_bfe_i32(0x0000_0700, 8, 4), 7);
        assert_eq!(v_bfe_i32(0x8000_0000, 28, 8), 0xffff_fff8);
        assert_eq!(v_bfe_i32(u32::MAX, 0, 0), 0);
        assert_eq!(v_bfm_b32(4, 8), 0xf00);
        assert_eq!(v_bfi_b32(0xff00, 0x1234, 0x5678), 0x1278);
        assert_eq!(v_alignbit_b32(0x12, 0x3456_789a, 4), 0x2345_6789);
        assert_eq!(v_alignbyte_b32(0x1234_5678, 0x9abc_def0, 5), 0x789a_bcde);
    }

    #[test]
    fn bitop3_is_its_truth_table() {
        let (a, b, c) = (0xf0, 0xcc, 0xaa);
        for table in 0..256 {
            assert_eq!(v_bitop3_b32(a, b, c, table) & 0xff, table);
            assert_eq!(
                u32::from(v_bitop3_b16(0xf0, 0xcc, 0xaa, table)) & 0xff,
                table
            );
        }
    }

    #[test]
    fn perm_selectors() {
        let (a, b) = (0x8877_6655, 0x4433_2211);
        assert_eq!(v_perm_b32(a, b, 0x0706_0100), 0x8877_2211);
        assert_eq!(v_perm_b32(a, b, 0x0c0d_ff0b), 0x00ff_ffff);
        assert_eq!(v_perm_b32(0, 0x8000_8000, 0x0809_0a0b), 0xffff_0000);
    }

    #[test]
    fn counting() {
        assert_eq!(
            [v_ffbh_u32(0), v_ffbh_u32(1), v_ffbl_b32(8), v_ffbl_b32(0)],
            [u32::MAX, 31, 3, u32::MAX]
        );
        assert_eq!(
            [
                v_cls_i32(0),
                v_cls_i32(u32::MAX),
                v_cls_i32(0x7fff_ffff),
                v_cls_i32(1)
            ],
            [u32::MAX, u32::MAX, 1, 31]
        );
        assert_eq!(v_bcnt_u32_b32(0xff, 3), 11);
        assert_eq!(v_bfrev_b32(1), 0x8000_0000);
    }

    #[test]
    fn lerp_is_bytewise() {
        let mut random = Random(61);
        for _ in 0..1000 {
            let (a, b, c) = (
                random.next() as u32,
                random.next() as u32,
                random.next() as u32,
            );
            let want = (0..4).map(|i| {
                let byte = |x: u32| x >> (8 * i) & 0xff;
                (byte(a) + byte(b) + (byte(c) & 1)) >> 1 << (8 * i)
            });
            assert_eq!(v_lerp_u8(a, b, c), want.sum::<u32>());
        }
    }

    #[test]
    fn saturating_packs_and_tables() {
        assert_eq!(v_sat_pk_u8_i16(0x0123_8001), 0xff00);
        assert_eq!(v_sat_pk4_i4_i8(0x7f80_fe05), 0x78e5);
        assert_eq!(v_sat_pk4_u4_u8(0xff10_0f03), 0xfff3);
        assert_eq!(
            v_perm_pk16_b4_u4(0xfedc_ba98, 0x7654_3210, 0x0123_4567_89ab_cdef),
            0x0123_4567_89ab_cdef
        );
        let identity = 0xfedc_ba98_7654_3210;
        assert_eq!(
            v_perm_pk16_b6_u4(0x1111_2222, 0x3333_4444_5555_6666, identity),
            [0x5555_6666, 0x3333_4444, 0x1111_2222]
        );
        assert_eq!(v_perm_pk16_b8_u4(0x11, 0x22, 0), [0x2222_2222; 4]);
    }
}
