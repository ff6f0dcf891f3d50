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
    v_cmp_class_f32 | v_cmpx_class_f32(a: B32, b: B32) -> Mask {
        class::<L>(L::and(a, L::splat(0x7fff_ffff)), sign::<L>(a, 31), b, 23)
    }
    v_cmp_class_f16 | v_cmpx_class_f16(a: B16, b: B16) -> Mask {
        class::<L>(L::and(a, L::splat(0x7fff)), sign::<L>(a, 15), b, 10)
    }
    v_cmp_class_f64 | v_cmpx_class_f64(a: B64, b: B32) -> Mask {
        // Of the low word matters only whether it is zero.
        let (low, high) = L::split(a);
        let rest = L::select(L::eq(low, L::splat(0)), L::splat(0), L::splat(1));
        class::<L>(L::or(L::and(high, L::splat(0x7fff_ffff)), rest), sign::<L>(high, 31), b, 20)
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

/// Lanes whose bit `at` is set.
#[inline(always)]
fn sign<L: Lanes>(a: L::V, at: u32) -> L::M {
    L::lt_i(L::shl(a, L::splat(31 - at)), L::splat(0))
}

/// Whether the bit of `wanted` is set whose number is the class of a float (manuals, V_CMP_CLASS_F32): 0 signalling
/// NaN, 1 quiet NaN, 2 -infinity, 3 -normal, 4 -denormal, 5 -0, 6 +0, 7 +denormal, 8 +normal, 9 +infinity. The float
/// comes without its sign, its exponent from bit `at` on.
#[inline(always)]
fn class<L: Lanes>(magnitude: L::V, negative: L::M, wanted: L::V, at: u32) -> L::M {
    // Every format has its exponent below the sign.
    let infinity = match at {
        10 => 0x7c00,
        20 => 0x7ff0_0000,
        _ => 0x7f80_0000,
    };
    let below = |limit: u32| L::lt_u(magnitude, L::splat(limit));
    let kind = L::select(below(infinity), L::splat(2), L::splat(3));
    let kind = L::select(below(1 << at), L::splat(1), kind);
    let kind = L::select(below(1), L::splat(0), kind);
    let number = L::select(
        negative,
        L::sub(L::splat(5), kind),
        L::add(L::splat(6), kind),
    );
    let quiet = L::select(below(infinity | 1 << (at - 1)), L::splat(0), L::splat(1));
    let number = L::select(below(infinity + 1), number, quiet);
    L::lt_i(L::shl(wanted, L::sub(L::splat(31), number)), L::splat(0))
}
