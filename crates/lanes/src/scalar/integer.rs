//! Integer add, sub, multiply and shift instructions and their combinations.
//! Shift counts use only the low bits of their operand, as the hardware does.

/// `a + b`; with `clamp` saturated to 0..=u32::MAX (V_ADD_U32, V_ADD_NC_U32).
#[inline(always)]
#[must_use]
pub const fn v_add_nc_u32(a: u32, b: u32, clamp: bool) -> u32 {
    if clamp {
        a.saturating_add(b)
    } else {
        a.wrapping_add(b)
    }
}

/// `a - b`; with `clamp` saturated to 0..=u32::MAX (V_SUB_U32, V_SUB_NC_U32).
#[inline(always)]
#[must_use]
pub const fn v_sub_nc_u32(a: u32, b: u32, clamp: bool) -> u32 {
    if clamp {
        a.saturating_sub(b)
    } else {
        a.wrapping_sub(b)
    }
}

/// `a + b`, signed; with `clamp` saturated (V_ADD_I32, V_ADD_NC_I32).
#[inline(always)]
#[must_use]
pub const fn v_add_nc_i32(a: u32, b: u32, clamp: bool) -> u32 {
    if clamp {
        (a as i32).saturating_add(b as i32) as u32
    } else {
        a.wrapping_add(b)
    }
}

/// `a - b`, signed; with `clamp` saturated (V_SUB_I32, V_SUB_NC_I32).
#[inline(always)]
#[must_use]
pub const fn v_sub_nc_i32(a: u32, b: u32, clamp: bool) -> u32 {
    if clamp {
        (a as i32).saturating_sub(b as i32) as u32
    } else {
        a.wrapping_sub(b)
    }
}

/// `a + b` in 16 bits; with `clamp` saturated unsigned (V_ADD_U16, V_ADD_NC_U16, V_PK_ADD_U16).
#[inline(always)]
#[must_use]
pub const fn v_add_nc_u16(a: u16, b: u16, clamp: bool) -> u16 {
    if clamp {
        a.saturating_add(b)
    } else {
        a.wrapping_add(b)
    }
}

/// `a - b` in 16 bits; with `clamp` saturated unsigned (V_SUB_U16, V_SUB_NC_U16, V_PK_SUB_U16).
#[inline(always)]
#[must_use]
pub const fn v_sub_nc_u16(a: u16, b: u16, clamp: bool) -> u16 {
    if clamp {
        a.saturating_sub(b)
    } else {
        a.wrapping_sub(b)
    }
}

/// `a + b` in 16 bits, signed; with `clamp` saturated (V_ADD_I16, V_ADD_NC_I16, V_PK_ADD_I16).
#[inline(always)]
#[must_use]
pub const fn v_add_nc_i16(a: u16, b: u16, clamp: bool) -> u16 {
    if clamp {
        (a as i16).saturating_add(b as i16) as u16
    } else {
        a.wrapping_add(b)
    }
}

/// `a - b` in 16 bits, signed; with `clamp` saturated (V_SUB_I16, V_SUB_NC_I16, V_PK_SUB_I16).
#[inline(always)]
#[must_use]
pub const fn v_sub_nc_i16(a: u16, b: u16, clamp: bool) -> u16 {
    if clamp {
        (a as i16).saturating_sub(b as i16) as u16
    } else {
        a.wrapping_sub(b)
    }
}

pub use {
    v_add_nc_i16 as v_add_i16, v_add_nc_i32 as v_add_i32, v_add_nc_u16 as v_add_u16,
    v_add_nc_u32 as v_add_u32, v_sub_nc_i16 as v_sub_i16, v_sub_nc_i32 as v_sub_i32,
    v_sub_nc_u16 as v_sub_u16, v_sub_nc_u32 as v_sub_u32,
};

/// `a + b` in 64 bits, wrapping (gfx1250).
#[inline(always)]
#[must_use]
pub const fn v_add_nc_u64(a: u64, b: u64) -> u64 {
    a.wrapping_add(b)
}

/// `a - b` in 64 bits, wrapping (gfx1250).
#[inline(always)]
#[must_use]
pub const fn v_sub_nc_u64(a: u64, b: u64) -> u64 {
    a.wrapping_sub(b)
}

/// `a + b + carry` and the carry out (V_ADD_CO_U32 with `carry` false, V_ADDC_CO_U32,
/// V_ADD_CO_CI_U32); with `clamp` the sum saturates.
#[inline(always)]
#[must_use]
pub const fn v_add_co_ci_u32(a: u32, b: u32, carry: bool, clamp: bool) -> (u32, bool) {
    let sum = a as u64 + b as u64 + carry as u64;
    let over = sum >> 32 != 0;
    (if over && clamp { u32::MAX } else { sum as u32 }, over)
}

/// `a - b - borrow` and the borrow out (V_SUB_CO_U32 with `borrow` false, V_SUBB_CO_U32,
/// V_SUB_CO_CI_U32; reversed forms with operands exchanged); with `clamp` the difference saturates at 0.
#[inline(always)]
#[must_use]
pub const fn v_sub_co_ci_u32(a: u32, b: u32, borrow: bool, clamp: bool) -> (u32, bool) {
    let under = b as u64 + borrow as u64 > a as u64;
    let difference = a.wrapping_sub(b).wrapping_sub(borrow as u32);
    (if under && clamp { 0 } else { difference }, under)
}

/// `a + b + c`.
#[inline(always)]
#[must_use]
pub const fn v_add3_u32(a: u32, b: u32, c: u32) -> u32 {
    a.wrapping_add(b).wrapping_add(c)
}

/// `(a + b) << c`.
#[inline(always)]
#[must_use]
pub const fn v_add_lshl_u32(a: u32, b: u32, c: u32) -> u32 {
    a.wrapping_add(b).wrapping_shl(c)
}

/// `(a << b) + c`.
#[inline(always)]
#[must_use]
pub const fn v_lshl_add_u32(a: u32, b: u32, c: u32) -> u32 {
    a.wrapping_shl(b).wrapping_add(c)
}

/// `(a << (b & 7)) + c` in 64 bits.
#[inline(always)]
#[must_use]
pub const fn v_lshl_add_u64(a: u64, b: u32, c: u64) -> u64 {
    (a << (b & 7)).wrapping_add(c)
}

/// `(a << b) | c`.
#[inline(always)]
#[must_use]
pub const fn v_lshl_or_b32(a: u32, b: u32, c: u32) -> u32 {
    a.wrapping_shl(b) | c
}

/// `(a & b) | c`.
#[inline(always)]
#[must_use]
pub const fn v_and_or_b32(a: u32, b: u32, c: u32) -> u32 {
    a & b | c
}

/// `a | b | c`.
#[inline(always)]
#[must_use]
pub const fn v_or3_b32(a: u32, b: u32, c: u32) -> u32 {
    a | b | c
}

/// `a ^ b ^ c`.
#[inline(always)]
#[must_use]
pub const fn v_xor3_b32(a: u32, b: u32, c: u32) -> u32 {
    a ^ b ^ c
}

/// `!(a ^ b)`.
#[inline(always)]
#[must_use]
pub const fn v_xnor_b32(a: u32, b: u32) -> u32 {
    !(a ^ b)
}

/// `(a ^ b) + c`.
#[inline(always)]
#[must_use]
pub const fn v_xad_u32(a: u32, b: u32, c: u32) -> u32 {
    (a ^ b).wrapping_add(c)
}

/// `b << a`.
#[inline(always)]
#[must_use]
pub const fn v_lshlrev_b32(a: u32, b: u32) -> u32 {
    b.wrapping_shl(a)
}

/// `b >> a`, zeros in.
#[inline(always)]
#[must_use]
pub const fn v_lshrrev_b32(a: u32, b: u32) -> u32 {
    b.wrapping_shr(a)
}

/// `b >> a`, sign in.
#[inline(always)]
#[must_use]
pub const fn v_ashrrev_i32(a: u32, b: u32) -> u32 {
    (b as i32).wrapping_shr(a) as u32
}

/// `b << a` in 16 bits, `a` modulo 16.
#[inline(always)]
#[must_use]
pub const fn v_lshlrev_b16(a: u16, b: u16) -> u16 {
    b << (a & 15)
}

/// `b >> a` in 16 bits, zeros in, `a` modulo 16.
#[inline(always)]
#[must_use]
pub const fn v_lshrrev_b16(a: u16, b: u16) -> u16 {
    b >> (a & 15)
}

/// `b >> a` in 16 bits, sign in, `a` modulo 16.
#[inline(always)]
#[must_use]
pub const fn v_ashrrev_i16(a: u16, b: u16) -> u16 {
    ((b as i16) >> (a & 15)) as u16
}

/// `b << a` in 64 bits, `a` modulo 64.
#[inline(always)]
#[must_use]
pub const fn v_lshlrev_b64(a: u32, b: u64) -> u64 {
    b.wrapping_shl(a)
}

/// `b >> a` in 64 bits, zeros in, `a` modulo 64.
#[inline(always)]
#[must_use]
pub const fn v_lshrrev_b64(a: u32, b: u64) -> u64 {
    b.wrapping_shr(a)
}

/// `b >> a` in 64 bits, sign in, `a` modulo 64.
#[inline(always)]
#[must_use]
pub const fn v_ashrrev_i64(a: u32, b: u64) -> u64 {
    (b as i64).wrapping_shr(a) as u64
}

/// `a >> (c & 31)` and `b >> (c & 31)`, signed, saturated to i8, in the two low bytes (gfx950).
#[inline(always)]
#[must_use]
pub fn v_ashr_pk_i8_i32(a: u32, b: u32, c: u32) -> u16 {
    let one = |x: u32| (x as i32).wrapping_shr(c).clamp(-128, 127) as u8;
    u16::from_le_bytes([one(a), one(b)])
}

/// `a >> (c & 31)` and `b >> (c & 31)`, signed, saturated to u8, in the two low bytes (gfx950).
#[inline(always)]
#[must_use]
pub fn v_ashr_pk_u8_i32(a: u32, b: u32, c: u32) -> u16 {
    let one = |x: u32| (x as i32).wrapping_shr(c).clamp(0, 255) as u8;
    u16::from_le_bytes([one(a), one(b)])
}

#[inline(always)]
const fn i24(x: u32) -> i64 {
    ((x << 8) as i32 >> 8) as i64
}

#[inline(always)]
const fn u24(x: u32) -> u64 {
    (x & 0x00ff_ffff) as u64
}

/// Low half of the product.
#[inline(always)]
#[must_use]
pub const fn v_mul_lo_u32(a: u32, b: u32) -> u32 {
    a.wrapping_mul(b)
}

/// Low half of the 16-bit product.
#[inline(always)]
#[must_use]
pub const fn v_mul_lo_u16(a: u16, b: u16) -> u16 {
    a.wrapping_mul(b)
}

/// High half of the unsigned product.
#[inline(always)]
#[must_use]
pub const fn v_mul_hi_u32(a: u32, b: u32) -> u32 {
    ((a as u64 * b as u64) >> 32) as u32
}

/// High half of the signed product.
#[inline(always)]
#[must_use]
pub const fn v_mul_hi_i32(a: u32, b: u32) -> u32 {
    ((a as i32 as i64 * b as i32 as i64) >> 32) as u32
}

/// 64-bit product modulo 2^64 (gfx1250).
#[inline(always)]
#[must_use]
pub const fn v_mul_u64(a: u64, b: u64) -> u64 {
    a.wrapping_mul(b)
}

/// Low 32 bits of the product of signed 24-bit operands.
#[inline(always)]
#[must_use]
pub const fn v_mul_i32_i24(a: u32, b: u32) -> u32 {
    (i24(a) * i24(b)) as u32
}

/// Bits 32 and up of the product of signed 24-bit operands.
#[inline(always)]
#[must_use]
pub const fn v_mul_hi_i32_i24(a: u32, b: u32) -> u32 {
    ((i24(a) * i24(b)) >> 32) as u32
}

/// Low 32 bits of the product of unsigned 24-bit operands.
#[inline(always)]
#[must_use]
pub const fn v_mul_u32_u24(a: u32, b: u32) -> u32 {
    (u24(a) * u24(b)) as u32
}

/// Bits 32 and up of the product of unsigned 24-bit operands.
#[inline(always)]
#[must_use]
pub const fn v_mul_hi_u32_u24(a: u32, b: u32) -> u32 {
    ((u24(a) * u24(b)) >> 32) as u32
}

/// Signed 24-bit product plus `c`; with `clamp` the exact sum saturates to i32.
#[inline(always)]
#[must_use]
pub const fn v_mad_i32_i24(a: u32, b: u32, c: u32, clamp: bool) -> u32 {
    saturate_i32(i24(a) * i24(b) + c as i32 as i64, clamp)
}

/// Unsigned 24-bit product plus `c`; with `clamp` the exact sum saturates to u32.
#[inline(always)]
#[must_use]
pub const fn v_mad_u32_u24(a: u32, b: u32, c: u32, clamp: bool) -> u32 {
    saturate_u32(u24(a) * u24(b) + c as u64, clamp)
}

#[inline(always)]
const fn saturate_i32(x: i64, clamp: bool) -> u32 {
    let high = if x > i32::MAX as i64 {
        i32::MAX as i64
    } else {
        x
    };
    let bounded = if high < i32::MIN as i64 {
        i32::MIN as i64
    } else {
        high
    };
    (if clamp { bounded } else { x }) as u32
}

#[inline(always)]
const fn saturate_u32(x: u64, clamp: bool) -> u32 {
    (if clamp && x > u32::MAX as u64 {
        u32::MAX as u64
    } else {
        x
    }) as u32
}

/// `a * b` of the low 16 bits, signed, plus `c`; with `clamp` saturated to i32.
#[inline(always)]
#[must_use]
pub const fn v_mad_i32_i16(a: u16, b: u16, c: u32, clamp: bool) -> u32 {
    saturate_i32(a as i16 as i64 * b as i16 as i64 + c as i32 as i64, clamp)
}

/// `a * b` of the low 16 bits, unsigned, plus `c`; with `clamp` saturated to u32.
#[inline(always)]
#[must_use]
pub const fn v_mad_u32_u16(a: u16, b: u16, c: u32, clamp: bool) -> u32 {
    saturate_u32(a as u64 * b as u64 + c as u64, clamp)
}

/// `a * b + c` in 16 bits; with `clamp` the exact sum saturates to u16 (V_MAD_U16, V_PK_MAD_U16).
#[inline(always)]
#[must_use]
pub const fn v_mad_u16(a: u16, b: u16, c: u16, clamp: bool) -> u16 {
    let sum = a as u64 * b as u64 + c as u64;
    (if clamp && sum > 0xffff { 0xffff } else { sum }) as u16
}

/// `a * b + c` in 16 bits, signed; with `clamp` the exact sum saturates to i16 (V_MAD_I16, V_PK_MAD_I16).
#[inline(always)]
#[must_use]
pub const fn v_mad_i16(a: u16, b: u16, c: u16, clamp: bool) -> u16 {
    let sum = a as i16 as i64 * b as i16 as i64 + c as i16 as i64;
    let high = if sum > 0x7fff { 0x7fff } else { sum };
    let bounded = if high < -0x8000 { -0x8000 } else { high };
    (if clamp { bounded } else { sum }) as u16
}

/// `a * b + c` with a 64-bit sum, unsigned, and the carry out (V_MAD_U64_U32, V_MAD_CO_U64_U32,
/// V_MAD_NC_U64_U32).
#[inline(always)]
#[must_use]
pub const fn v_mad_u64_u32(a: u32, b: u32, c: u64) -> (u64, bool) {
    (a as u64 * b as u64).overflowing_add(c)
}

/// `a * b + c` with a 64-bit sum, signed, and bit 64 of the exact sum (V_MAD_I64_I32,
/// V_MAD_CO_I64_I32, V_MAD_NC_I64_I32).
#[inline(always)]
#[must_use]
pub const fn v_mad_i64_i32(a: u32, b: u32, c: u64) -> (u64, bool) {
    let product = a as i32 as i64 * b as i32 as i64;
    let sum = product as i128 + c as i64 as i128;
    (sum as u64, sum < 0)
}

/// max of the saturated signed sum of a, b and c (gfx1250).
#[inline(always)]
#[must_use]
pub const fn v_add_max_i32(a: u32, b: u32, c: u32) -> u32 {
    super::minmax::v_max_i32(v_add_nc_i32(a, b, true), c)
}

/// min of the saturated signed sum of a, b and c (gfx1250).
#[inline(always)]
#[must_use]
pub const fn v_add_min_i32(a: u32, b: u32, c: u32) -> u32 {
    super::minmax::v_min_i32(v_add_nc_i32(a, b, true), c)
}

/// max of the saturated unsigned sum of a, b and c (gfx1250).
#[inline(always)]
#[must_use]
pub const fn v_add_max_u32(a: u32, b: u32, c: u32) -> u32 {
    super::minmax::v_max_u32(v_add_nc_u32(a, b, true), c)
}

/// min of the saturated unsigned sum of a, b and c (gfx1250).
#[inline(always)]
#[must_use]
pub const fn v_add_min_u32(a: u32, b: u32, c: u32) -> u32 {
    super::minmax::v_min_u32(v_add_nc_u32(a, b, true), c)
}

/// One half of V_PK_ADD_MAX_I16 (gfx1250).
#[inline(always)]
#[must_use]
pub const fn v_add_max_i16(a: u16, b: u16, c: u16) -> u16 {
    super::minmax::v_max_i16(v_add_nc_i16(a, b, true), c)
}

/// One half of V_PK_ADD_MIN_I16 (gfx1250).
#[inline(always)]
#[must_use]
pub const fn v_add_min_i16(a: u16, b: u16, c: u16) -> u16 {
    super::minmax::v_min_i16(v_add_nc_i16(a, b, true), c)
}

/// One half of V_PK_ADD_MAX_U16 (gfx1250).
#[inline(always)]
#[must_use]
pub const fn v_add_max_u16(a: u16, b: u16, c: u16) -> u16 {
    super::minmax::v_max_u16(v_add_nc_u16(a, b, true), c)
}

/// One half of V_PK_ADD_MIN_U16 (gfx1250).
#[inline(always)]
#[must_use]
pub const fn v_add_min_u16(a: u16, b: u16, c: u16) -> u16 {
    super::minmax::v_min_u16(v_add_nc_u16(a, b, true), c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    #[test]
    fn carries_chain_to_wide_sums() {
        let mut random = Random(51);
        for _ in 0..10_000 {
            let (a, b) = (random.next(), random.next());
            let (low, c) = v_add_co_ci_u32(a as u32, b as u32, false, false);
            let (high, c) = v_add_co_ci_u32((a >> 32) as u32, (b >> 32) as u32, c, false);
            assert_eq!(
                (u64::from(high) << 32 | u64::from(low), c),
                a.overflowing_add(b)
            );
            let (low, c) = v_sub_co_ci_u32(a as u32, b as u32, false, false);
            let (high, c) = v_sub_co_ci_u32((a >> 32) as u32, (b >> 32) as u32, c, false);
            assert_eq!(
                (u64::from(high) << 32 | u64::from(low), c),
                a.overflowing_sub(b)
            );
            let (x, y) = (a as u32, b as u32);
            assert_eq!(
                u64::from(v_mul_hi_u32(x, y)) << 32 | u64::from(v_mul_lo_u32(x, y)),
                u64::from(x) * u64::from(y)
            );
            let signed = i64::from(x as i32) * i64::from(y as i32);
            assert_eq!(
                u64::from(v_mul_hi_i32(x, y)) << 32 | u64::from(v_mul_lo_u32(x, y)),
                signed as u64
            );
            let wide =
                i64::from(v_mul_hi_i32_i24(x, y) as i32) << 32 | i64::from(v_mul_i32_i24(x, y));
            assert_eq!(wide, i24(x) * i24(y));
        }
        assert_eq!(v_add_co_ci_u32(u32::MAX, 0, true, true), (u32::MAX, true));
        assert_eq!(v_sub_co_ci_u32(5, 5, true, true), (0, true));
        assert_eq!(v_sub_co_ci_u32(5, u32::MAX, true, false), (5, true));
    }

    #[test]
    fn saturation() {
        assert_eq!(v_add_nc_i32(0x7fff_ffff, 1, true), 0x7fff_ffff);
        assert_eq!(v_add_nc_i32(0x7fff_ffff, 1, false), 0x8000_0000);
        assert_eq!(v_sub_nc_u32(1, 2, true), 0);
        assert_eq!(v_sub_nc_i16(0x8000, 1, true), 0x8000);
        assert_eq!(v_add_nc_u16(0xffff, 1, true), 0xffff);
        assert_eq!(
            v_mad_i32_i24(0x007f_ffff, 0x007f_ffff, 0, true),
            0x7fff_ffff
        );
        assert_eq!(
            v_mad_i32_i24(0x0080_0000, 0x007f_ffff, 0, true),
            0x8000_0000
        );
        assert_eq!(v_mad_u32_u24(0xffff_ffff, 0xffff_ffff, 1, true), u32::MAX);
        assert_eq!(v_mad_i16(0x8000, 0x8000, 0, true), 0x7fff);
        assert_eq!(v_mad_u16(0x100, 0x100, 5, false), 5);
        assert_eq!(v_mad_u32_u16(0xffff, 0xffff, u32::MAX, false), 0xfffe_0000);
        assert_eq!(
            v_mad_u64_u32(u32::MAX, u32::MAX, u64::MAX),
            (0xffff_fffe_0000_0000, true)
        );
        assert_eq!(v_mad_i64_i32(u32::MAX, 1, 0), (u64::MAX, true));
        assert_eq!(v_ashr_pk_i8_i32(0x0000_8000, 0xffff_8000, 4), 0x807f);
        assert_eq!(v_ashr_pk_u8_i32(0x0000_0ff0, 0xffff_8000, 4), 0x00ff);
        assert_eq!(v_add_max_i32(0x7fff_ffff, 5, 0), 0x7fff_ffff);
        assert_eq!(v_add_min_u16(0xfff0, 0x20, 0xfff8), 0xfff8);
    }

    #[test]
    fn shift_counts_wrap() {
        assert_eq!(v_lshlrev_b32(33, 1), 2);
        assert_eq!(v_ashrrev_i32(36, 0x8000_0000), 0xf800_0000);
        assert_eq!(v_lshrrev_b16(17, 4), 2);
        assert_eq!(v_ashrrev_i64(65, 1 << 63), 3 << 62);
        assert_eq!(v_lshl_add_u64(1, 9, 1), 3);
        assert_eq!(v_lshl_or_b32(1, 32, 2), 3);
        assert_eq!(v_add_lshl_u32(1, 1, 33), 4);
        assert_eq!(v_xad_u32(3, 1, 1), 3);
    }
}
