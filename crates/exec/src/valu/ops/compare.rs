//! Comparisons: a bit for each lane. `v_cmpx` forms differ only in where the mask goes.
//! Predicates on floats are false for NaN unless their name begins with `n`; `u` and `o` test for NaN.

use rocjitsu_lanes::vector::Lanes;

use super::integer16::sext;
use super::ops;

ops! {
    v_cmp_lt_u16 | v_cmpx_lt_u16(a: B16, b: B16) -> Mask { L::lt_u(a, b) }
    v_cmp_eq_u16 | v_cmpx_eq_u16(a: B16, b: B16) -> Mask { L::eq(a, b) }
    v_cmp_le_u16 | v_cmpx_le_u16(a: B16, b: B16) -> Mask { L::m_not(L::lt_u(b, a)) }
    v_cmp_gt_u16 | v_cmpx_gt_u16(a: B16, b: B16) -> Mask { L::lt_u(b, a) }
    v_cmp_ne_u16 | v_cmpx_ne_u16(a: B16, b: B16) -> Mask { L::m_not(L::eq(a, b)) }
    v_cmp_ge_u16 | v_cmpx_ge_u16(a: B16, b: B16) -> Mask { L::m_not(L::lt_u(a, b)) }
    v_cmp_f_u16 | v_cmpx_f_u16(a: B16, b: B16) -> Mask { L::mask(0) }
    v_cmp_t_u16 | v_cmpx_t_u16(a: B16, b: B16) -> Mask { L::mask(0xffff) }

    v_cmp_lt_i16 | v_cmpx_lt_i16(a: B16, b: B16) -> Mask { L::lt_i(sext::<L>(a), sext::<L>(b)) }
    v_cmp_eq_i16 | v_cmpx_eq_i16(a: B16, b: B16) -> Mask { L::eq(a, b) }
    v_cmp_le_i16 | v_cmpx_le_i16(a: B16, b: B16) -> Mask { L::m_not(L::lt_i(sext::<L>(b), sext::<L>(a))) }
    v_cmp_gt_i16 | v_cmpx_gt_i16(a: B16, b: B16) -> Mask { L::lt_i(sext::<L>(b), sext::<L>(a)) }
    v_cmp_ne_i16 | v_cmpx_ne_i16(a: B16, b: B16) -> Mask { L::m_not(L::eq(a, b)) }
    v_cmp_ge_i16 | v_cmpx_ge_i16(a: B16, b: B16) -> Mask { L::m_not(L::lt_i(sext::<L>(a), sext::<L>(b))) }
    v_cmp_f_i16 | v_cmpx_f_i16(a: B16, b: B16) -> Mask { L::mask(0) }
    v_cmp_t_i16 | v_cmpx_t_i16(a: B16, b: B16) -> Mask { L::mask(0xffff) }

    v_cmp_lt_u32 | v_cmpx_lt_u32(a: B32, b: B32) -> Mask { L::lt_u(a, b) }
    v_cmp_eq_u32 | v_cmpx_eq_u32(a: B32, b: B32) -> Mask { L::eq(a, b) }
    v_cmp_le_u32 | v_cmpx_le_u32(a: B32, b: B32) -> Mask { L::m_not(L::lt_u(b, a)) }
    v_cmp_gt_u32 | v_cmpx_gt_u32(a: B32, b: B32) -> Mask { L::lt_u(b, a) }
    v_cmp_ne_u32 | v_cmpx_ne_u32(a: B32, b: B32) -> Mask { L::m_not(L::eq(a, b)) }
    v_cmp_ge_u32 | v_cmpx_ge_u32(a: B32, b: B32) -> Mask { L::m_not(L::lt_u(a, b)) }
    v_cmp_f_u32 | v_cmpx_f_u32(a: B32, b: B32) -> Mask { L::mask(0) }
    v_cmp_t_u32 | v_cmpx_t_u32(a: B32, b: B32) -> Mask { L::mask(0xffff) }

    v_cmp_lt_i32 | v_cmpx_lt_i32(a: B32, b: B32) -> Mask { L::lt_i(a, b) }
    v_cmp_eq_i32 | v_cmpx_eq_i32(a: B32, b: B32) -> Mask { L::eq(a, b) }
    v_cmp_le_i32 | v_cmpx_le_i32(a: B32, b: B32) -> Mask { L::m_not(L::lt_i(b, a)) }
    v_cmp_gt_i32 | v_cmpx_gt_i32(a: B32, b: B32) -> Mask { L::lt_i(b, a) }
    v_cmp_ne_i32 | v_cmpx_ne_i32(a: B32, b: B32) -> Mask { L::m_not(L::eq(a, b)) }
    v_cmp_ge_i32 | v_cmpx_ge_i32(a: B32, b: B32) -> Mask { L::m_not(L::lt_i(a, b)) }
    v_cmp_f_i32 | v_cmpx_f_i32(a: B32, b: B32) -> Mask { L::mask(0) }
    v_cmp_t_i32 | v_cmpx_t_i32(a: B32, b: B32) -> Mask { L::mask(0xffff) }

    v_cmp_lt_u64 | v_cmpx_lt_u64(a: B64, b: B64) -> Mask { lt_u_64::<L>(a, b) }
    v_cmp_eq_u64 | v_cmpx_eq_u64(a: B64, b: B64) -> Mask { eq_64::<L>(a, b) }
    v_cmp_le_u64 | v_cmpx_le_u64(a: B64, b: B64) -> Mask { L::m_not(lt_u_64::<L>(b, a)) }
    v_cmp_gt_u64 | v_cmpx_gt_u64(a: B64, b: B64) -> Mask { lt_u_64::<L>(b, a) }
    v_cmp_ne_u64 | v_cmpx_ne_u64(a: B64, b: B64) -> Mask { L::m_not(eq_64::<L>(a, b)) }
    v_cmp_ge_u64 | v_cmpx_ge_u64(a: B64, b: B64) -> Mask { L::m_not(lt_u_64::<L>(a, b)) }
    v_cmp_f_u64 | v_cmpx_f_u64(a: B64, b: B64) -> Mask { L::mask(0) }
    v_cmp_t_u64 | v_cmpx_t_u64(a: B64, b: B64) -> Mask { L::mask(0xffff) }

    v_cmp_lt_i64 | v_cmpx_lt_i64(a: B64, b: B64) -> Mask { lt_i_64::<L>(a, b) }
    v_cmp_eq_i64 | v_cmpx_eq_i64(a: B64, b: B64) -> Mask { eq_64::<L>(a, b) }
    v_cmp_le_i64 | v_cmpx_le_i64(a: B64, b: B64) -> Mask { L::m_not(lt_i_64::<L>(b, a)) }
    v_cmp_gt_i64 | v_cmpx_gt_i64(a: B64, b: B64) -> Mask { lt_i_64::<L>(b, a) }
    v_cmp_ne_i64 | v_cmpx_ne_i64(a: B64, b: B64) -> Mask { L::m_not(eq_64::<L>(a, b)) }
    v_cmp_ge_i64 | v_cmpx_ge_i64(a: B64, b: B64) -> Mask { L::m_not(lt_i_64::<L>(a, b)) }
    v_cmp_f_i64 | v_cmpx_f_i64(a: B64, b: B64) -> Mask { L::mask(0) }
    v_cmp_t_i64 | v_cmpx_t_i64(a: B64, b: B64) -> Mask { L::mask(0xffff) }

    v_cmp_lt_f32 | v_cmpx_lt_f32(a: F32, b: F32) -> Mask { L::lt_f32(a, b) }
    v_cmp_eq_f32 | v_cmpx_eq_f32(a: F32, b: F32) -> Mask { L::eq_f32(a, b) }
    v_cmp_le_f32 | v_cmpx_le_f32(a: F32, b: F32) -> Mask { L::le_f32(a, b) }
    v_cmp_gt_f32 | v_cmpx_gt_f32(a: F32, b: F32) -> Mask { L::lt_f32(b, a) }
    v_cmp_ge_f32 | v_cmpx_ge_f32(a: F32, b: F32) -> Mask { L::le_f32(b, a) }
    v_cmp_o_f32 | v_cmpx_o_f32(a: F32, b: F32) -> Mask { L::m_not(L::unordered_f32(a, b)) }
    v_cmp_u_f32 | v_cmpx_u_f32(a: F32, b: F32) -> Mask { L::unordered_f32(a, b) }
    v_cmp_nge_f32 | v_cmpx_nge_f32(a: F32, b: F32) -> Mask { L::m_not(L::le_f32(b, a)) }
    v_cmp_ngt_f32 | v_cmpx_ngt_f32(a: F32, b: F32) -> Mask { L::m_not(L::lt_f32(b, a)) }
    v_cmp_nle_f32 | v_cmpx_nle_f32(a: F32, b: F32) -> Mask { L::m_not(L::le_f32(a, b)) }
    v_cmp_neq_f32 | v_cmpx_neq_f32(a: F32, b: F32) -> Mask { L::m_not(L::eq_f32(a, b)) }
    v_cmp_nlt_f32 | v_cmpx_nlt_f32(a: F32, b: F32) -> Mask { L::m_not(L::lt_f32(a, b)) }
    v_cmp_lg_f32 | v_cmpx_lg_f32(a: F32, b: F32) -> Mask { differ_f32::<L>(a, b) }
    v_cmp_nlg_f32 | v_cmpx_nlg_f32(a: F32, b: F32) -> Mask { L::m_not(differ_f32::<L>(a, b)) }
    v_cmp_f_f32 | v_cmpx_f_f32(a: F32, b: F32) -> Mask { L::mask(0) }
    v_cmp_t_f32 | v_cmpx_t_f32 | v_cmp_tru_f32 | v_cmpx_tru_f32(a: F32, b: F32) -> Mask { L::mask(0xffff) }

    v_cmp_lt_f16 | v_cmpx_lt_f16(a: F16, b: F16) -> Mask { L::lt_f32(L::f32_from_f16(a), L::f32_from_f16(b)) }
    v_cmp_eq_f16 | v_cmpx_eq_f16(a: F16, b: F16) -> Mask { L::eq_f32(L::f32_from_f16(a), L::f32_from_f16(b)) }
    v_cmp_le_f16 | v_cmpx_le_f16(a: F16, b: F16) -> Mask { L::le_f32(L::f32_from_f16(a), L::f32_from_f16(b)) }
    v_cmp_gt_f16 | v_cmpx_gt_f16(a: F16, b: F16) -> Mask { L::lt_f32(L::f32_from_f16(b), L::f32_from_f16(a)) }
    v_cmp_ge_f16 | v_cmpx_ge_f16(a: F16, b: F16) -> Mask { L::le_f32(L::f32_from_f16(b), L::f32_from_f16(a)) }
    v_cmp_o_f16 | v_cmpx_o_f16(a: F16, b: F16) -> Mask { L::m_not(L::unordered_f32(L::f32_from_f16(a), L::f32_from_f16(b))) }
    v_cmp_u_f16 | v_cmpx_u_f16(a: F16, b: F16) -> Mask { L::unordered_f32(L::f32_from_f16(a), L::f32_from_f16(b)) }
    v_cmp_nge_f16 | v_cmpx_nge_f16(a: F16, b: F16) -> Mask { L::m_not(L::le_f32(L::f32_from_f16(b), L::f32_from_f16(a))) }
    v_cmp_ngt_f16 | v_cmpx_ngt_f16(a: F16, b: F16) -> Mask { L::m_not(L::lt_f32(L::f32_from_f16(b), L::f32_from_f16(a))) }
    v_cmp_nle_f16 | v_cmpx_nle_f16(a: F16, b: F16) -> Mask { L::m_not(L::le_f32(L::f32_from_f16(a), L::f32_from_f16(b))) }
    v_cmp_neq_f16 | v_cmpx_neq_f16(a: F16, b: F16) -> Mask { L::m_not(L::eq_f32(L::f32_from_f16(a), L::f32_from_f16(b))) }
    v_cmp_nlt_f16 | v_cmpx_nlt_f16(a: F16, b: F16) -> Mask { L::m_not(L::lt_f32(L::f32_from_f16(a), L::f32_from_f16(b))) }
    v_cmp_lg_f16 | v_cmpx_lg_f16(a: F16, b: F16) -> Mask { differ_f32::<L>(L::f32_from_f16(a), L::f32_from_f16(b)) }
    v_cmp_nlg_f16 | v_cmpx_nlg_f16(a: F16, b: F16) -> Mask { L::m_not(differ_f32::<L>(L::f32_from_f16(a), L::f32_from_f16(b))) }
    v_cmp_f_f16 | v_cmpx_f_f16(a: F16, b: F16) -> Mask { L::mask(0) }
    v_cmp_t_f16 | v_cmpx_t_f16 | v_cmp_tru_f16 | v_cmpx_tru_f16(a: F16, b: F16) -> Mask { L::mask(0xffff) }

    v_cmp_lt_f64 | v_cmpx_lt_f64(a: F64, b: F64) -> Mask { L::lt_f64(a, b) }
    v_cmp_eq_f64 | v_cmpx_eq_f64(a: F64, b: F64) -> Mask { L::eq_f64(a, b) }
    v_cmp_le_f64 | v_cmpx_le_f64(a: F64, b: F64) -> Mask { L::le_f64(a, b) }
    v_cmp_gt_f64 | v_cmpx_gt_f64(a: F64, b: F64) -> Mask { L::lt_f64(b, a) }
    v_cmp_ge_f64 | v_cmpx_ge_f64(a: F64, b: F64) -> Mask { L::le_f64(b, a) }
    v_cmp_o_f64 | v_cmpx_o_f64(a: F64, b: F64) -> Mask { L::m_not(L::unordered_f64(a, b)) }
    v_cmp_u_f64 | v_cmpx_u_f64(a: F64, b: F64) -> Mask { L::unordered_f64(a, b) }
    v_cmp_nge_f64 | v_cmpx_nge_f64(a: F64, b: F64) -> Mask { L::m_not(L::le_f64(b, a)) }
    v_cmp_ngt_f64 | v_cmpx_ngt_f64(a: F64, b: F64) -> Mask { L::m_not(L::lt_f64(b, a)) }
    v_cmp_nle_f64 | v_cmpx_nle_f64(a: F64, b: F64) -> Mask { L::m_not(L::le_f64(a, b)) }
    v_cmp_neq_f64 | v_cmpx_neq_f64(a: F64, b: F64) -> Mask { L::m_not(L::eq_f64(a, b)) }
    v_cmp_nlt_f64 | v_cmpx_nlt_f64(a: F64, b: F64) -> Mask { L::m_not(L::lt_f64(a, b)) }
    v_cmp_lg_f64 | v_cmpx_lg_f64(a: F64, b: F64) -> Mask { differ_f64::<L>(a, b) }
    v_cmp_nlg_f64 | v_cmpx_nlg_f64(a: F64, b: F64) -> Mask { L::m_not(differ_f64::<L>(a, b)) }
    v_cmp_f_f64 | v_cmpx_f_f64(a: F64, b: F64) -> Mask { L::mask(0) }
    v_cmp_t_f64 | v_cmpx_t_f64 | v_cmp_tru_f64 | v_cmpx_tru_f64(a: F64, b: F64) -> Mask { L::mask(0xffff) }

    // The class of a value does not depend on the denormal mode, so these take plain bits.
    v_cmp_class_f32 | v_cmpx_class_f32(a: B32, b: B32) -> Mask { L::test2(a, b, |a, b| b & class_f32(a) != 0) }
    v_cmp_class_f16 | v_cmpx_class_f16(a: B16, b: B16) -> Mask { L::test2(a, b, |a, b| b & class_f16(a) != 0) }
    v_cmp_class_f64 | v_cmpx_class_f64(a: B64, b: B32) -> Mask {
        L::test2(L::narrow(a, class_f64), b, |a, b| b & a != 0)
    }
}

#[inline(always)]
fn eq_64<L: Lanes>(a: L::W, b: L::W) -> L::M {
    let ((a, ah), (b, bh)) = (L::split(a), L::split(b));
    L::m_and(L::eq(a, b), L::eq(ah, bh))
}

#[inline(always)]
pub(super) fn lt_u_64<L: Lanes>(a: L::W, b: L::W) -> L::M {
    let ((a, ah), (b, bh)) = (L::split(a), L::split(b));
    L::m_or(L::lt_u(ah, bh), L::m_and(L::eq(ah, bh), L::lt_u(a, b)))
}

#[inline(always)]
pub(super) fn lt_i_64<L: Lanes>(a: L::W, b: L::W) -> L::M {
    let ((a, ah), (b, bh)) = (L::split(a), L::split(b));
    L::m_or(L::lt_i(ah, bh), L::m_and(L::eq(ah, bh), L::lt_u(a, b)))
}

#[inline(always)]
fn differ_f32<L: Lanes>(a: L::V, b: L::V) -> L::M {
    L::m_or(L::lt_f32(a, b), L::lt_f32(b, a))
}

#[inline(always)]
fn differ_f64<L: Lanes>(a: L::W, b: L::W) -> L::M {
    L::m_or(L::lt_f64(a, b), L::lt_f64(b, a))
}

/// The class of a float as one bit (manuals, V_CMP_CLASS_F32): 0 signalling NaN, 1 quiet NaN, 2 -infinity,
/// 3 -normal, 4 -denormal, 5 -0, 6 +0, 7 +denormal, 8 +normal, 9 +infinity.
#[inline(always)]
fn class(negative: bool, exponent: u32, most: u32, fraction: bool, quiet: bool) -> u32 {
    let kind = if exponent == most {
        3
    } else if exponent != 0 {
        2
    } else {
        u32::from(fraction)
    };
    if kind == 3 && fraction {
        1 << u32::from(quiet)
    } else if negative {
        1 << (5 - kind)
    } else {
        1 << (6 + kind)
    }
}

fn class_f32(a: u32) -> u32 {
    class(
        a >> 31 != 0,
        a >> 23 & 0xff,
        0xff,
        a & 0x7f_ffff != 0,
        a >> 22 & 1 != 0,
    )
}

fn class_f16(a: u32) -> u32 {
    class(
        a >> 15 & 1 != 0,
        a >> 10 & 0x1f,
        0x1f,
        a & 0x3ff != 0,
        a >> 9 & 1 != 0,
    )
}

fn class_f64(a: u64) -> u32 {
    let exponent = (a >> 52) as u32 & 0x7ff;
    class(
        a >> 63 != 0,
        exponent,
        0x7ff,
        a << 12 != 0,
        a >> 51 & 1 != 0,
    )
}
