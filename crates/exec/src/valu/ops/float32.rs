//! Single-precision arithmetic: sums, products, minimum, maximum, rounding to integers, scaling.

use rocjitsu_lanes::kernel::Aux;
use rocjitsu_lanes::scalar::arithmetic as arith;
use rocjitsu_lanes::scalar::minmax::NanRules;
use rocjitsu_lanes::scalar::{cube, rounding};
use rocjitsu_lanes::vector::{Lanes, round};

use super::minmax::{Max, Min, Rule, Single, median, three, two};
use super::ops;
use super::support::{PLAIN, mode, within};

ops! {
    v_add_f32[x](a: F32, b: F32) -> F32 { L::add_f32(a, b) }
    => modal { let m = mode(x); L::map2(a, b, |a, b| arith::v_add_f32(a, b, m)) }
    v_sub_f32[x](a: F32, b: F32) -> F32 { L::sub_f32(a, b) }
    => modal { let m = mode(x); L::map2(a, b, |a, b| arith::v_sub_f32(a, b, m)) }
    v_subrev_f32[x](a: F32, b: F32) -> F32 { L::sub_f32(b, a) }
    => modal { let m = mode(x); L::map2(a, b, |a, b| arith::v_sub_f32(b, a, m)) }
    v_mul_f32[x](a: F32, b: F32) -> F32 { L::mul_f32(a, b) }
    => modal { let m = mode(x); L::map2(a, b, |a, b| arith::v_mul_f32(a, b, m)) }
    v_fma_f32 | v_fmac_f32 | v_fmaak_f32 | v_fmamk_f32[x](a: F32, b: F32, c: F32) -> F32 { L::fma_f32(a, b, c) }
    => modal { let m = mode(x); L::map3(a, b, c, |a, b, c| arith::v_fma_f32(a, b, c, m)) }
    v_mad_f32 | v_mac_f32 | v_madak_f32 | v_madmk_f32[x](a: F32, b: F32, c: F32) -> F32 {
        L::add_f32(L::mul_f32(a, b), c)
    }
    => modal { let m = mode(x); L::map3(a, b, c, |a, b, c| arith::v_mad_f32(a, b, c, m)) }

    v_mul_legacy_f32 | v_mul_dx9_zero_f32[x](a: F32, b: F32) -> F32 {
        L::select(either_zero::<L>(a, b), L::splat(0), L::mul_f32(a, b))
    }
    => modal { let m = mode(x); L::map2(a, b, |a, b| arith::v_mul_dx9_zero_f32(a, b, m)) }
    v_mad_legacy_f32[x](a: F32, b: F32, c: F32) -> F32 {
        L::add_f32(L::select(either_zero::<L>(a, b), L::splat(0), L::mul_f32(a, b)), c)
    }
    => modal {
        let m = mode(x);
        L::map3(a, b, c, |a, b, c| arith::v_add_f32(arith::v_mul_dx9_zero_f32(a, b, m), c, m))
    }
    v_fma_dx9_zero_f32 | v_fmac_dx9_zero_f32[x](a: F32, b: F32, c: F32) -> F32 {
        L::map3(a, b, c, |a, b, c| arith::v_fma_dx9_zero_f32(a, b, c, PLAIN))
    }
    => modal { let m = mode(x); L::map3(a, b, c, |a, b, c| arith::v_fma_dx9_zero_f32(a, b, c, m)) }
    v_mullit_f32[x](a: F32, b: F32, c: F32) -> F32 {
        L::map3(a, b, c, |a, b, c| arith::v_mullit_f32(a, b, c, PLAIN))
    }
    => modal { let m = mode(x); L::map3(a, b, c, |a, b, c| arith::v_mullit_f32(a, b, c, m)) }

    v_min_f32[x](a: F32, b: F32) -> F32 { two::<L, Single>(Rule::legacy(x), Min, a, b) }
    v_max_f32[x](a: F32, b: F32) -> F32 { two::<L, Single>(Rule::legacy(x), Max, a, b) }
    v_min3_f32[x](a: F32, b: F32, c: F32) -> F32 { three::<L, Single>(Rule::legacy(x), (Min, Min), (a, b, c)) }
    v_max3_f32[x](a: F32, b: F32, c: F32) -> F32 { three::<L, Single>(Rule::legacy(x), (Max, Max), (a, b, c)) }
    v_med3_f32[x](a: F32, b: F32, c: F32) -> F32 { median::<L, Single>(Rule::legacy(x), a, b, c) }
    v_minmax_f32[x](a: F32, b: F32, c: F32) -> F32 { three::<L, Single>(Rule::legacy(x), (Min, Max), (a, b, c)) }
    v_maxmin_f32[x](a: F32, b: F32, c: F32) -> F32 { three::<L, Single>(Rule::legacy(x), (Max, Min), (a, b, c)) }
    v_min_num_f32(a: F32, b: F32) -> F32 { two::<L, Single>(Rule::Number, Min, a, b) }
    v_max_num_f32(a: F32, b: F32) -> F32 { two::<L, Single>(Rule::Number, Max, a, b) }
    v_minimum_f32(a: F32, b: F32) -> F32 { two::<L, Single>(Rule::Propagate, Min, a, b) }
    v_maximum_f32(a: F32, b: F32) -> F32 { two::<L, Single>(Rule::Propagate, Max, a, b) }
    v_min3_num_f32(a: F32, b: F32, c: F32) -> F32 { three::<L, Single>(Rule::Number, (Min, Min), (a, b, c)) }
    v_max3_num_f32(a: F32, b: F32, c: F32) -> F32 { three::<L, Single>(Rule::Number, (Max, Max), (a, b, c)) }
    v_med3_num_f32(a: F32, b: F32, c: F32) -> F32 { median::<L, Single>(Rule::Number, a, b, c) }
    v_minmax_num_f32(a: F32, b: F32, c: F32) -> F32 { three::<L, Single>(Rule::Number, (Min, Max), (a, b, c)) }
    v_maxmin_num_f32(a: F32, b: F32, c: F32) -> F32 { three::<L, Single>(Rule::Number, (Max, Min), (a, b, c)) }
    v_minimum3_f32(a: F32, b: F32, c: F32) -> F32 { three::<L, Single>(Rule::Propagate, (Min, Min), (a, b, c)) }
    v_maximum3_f32(a: F32, b: F32, c: F32) -> F32 { three::<L, Single>(Rule::Propagate, (Max, Max), (a, b, c)) }
    v_minimummaximum_f32(a: F32, b: F32, c: F32) -> F32 { three::<L, Single>(Rule::Propagate, (Min, Max), (a, b, c)) }
    v_maximumminimum_f32(a: F32, b: F32, c: F32) -> F32 { three::<L, Single>(Rule::Propagate, (Max, Min), (a, b, c)) }

    v_trunc_f32(a: F32) -> F32 { L::round_f32::<{ round::ZERO }>(a) }
    v_ceil_f32(a: F32) -> F32 { L::round_f32::<{ round::UP }>(a) }
    v_floor_f32(a: F32) -> F32 { L::round_f32::<{ round::DOWN }>(a) }
    v_rndne_f32(a: F32) -> F32 { L::round_f32::<{ round::NEAREST }>(a) }
    v_fract_f32[x](a: F32) -> F32 {
        let part = L::sub_f32(a, L::round_f32::<{ round::DOWN }>(a));
        // Just below an integer the difference rounds up to one.
        L::select(L::eq(part, L::splat(0x3f80_0000)), L::splat(0x3f7f_ffff), part)
    }
    => modal { let m = mode(x); L::map1(a, |a| rounding::v_fract_f32(a, m)) }
    v_ldexp_f32[x](a: F32, e: B32) -> F32 { L::scale_f32(a, e) }
    => modal { let m = mode(x); L::map2(a, e, |a, e| rounding::v_ldexp_f32(a, e as i32, m)) }
    v_frexp_mant_f32(a: F32) -> F32 {
        let exponent = L::and(a, L::splat(0x7f80_0000));
        if L::all(within::<L>(exponent, 0, 0x7f80_0000)) {
            return L::or(L::and(a, L::splat(0x807f_ffff)), L::splat(0x3f00_0000));
        }
        L::map1(a, rounding::v_frexp_mant_f32)
    }
    v_frexp_exp_i32_f32(a: F32) -> B32 { L::map1(a, rounding::v_frexp_exp_i32_f32) }

    v_cubeid_f32(a: F32, b: F32, c: F32) -> F32 { L::map3(a, b, c, cube::v_cubeid_f32) }
    v_cubema_f32(a: F32, b: F32, c: F32) -> F32 { L::map3(a, b, c, cube::v_cubema_f32) }
    v_cubesc_f32(a: F32, b: F32, c: F32) -> F32 { L::map3(a, b, c, cube::v_cubesc_f32) }
    v_cubetc_f32(a: F32, b: F32, c: F32) -> F32 { L::map3(a, b, c, cube::v_cubetc_f32) }
}

/// How min and max treat NaNs before gfx12; see [`super::float_facts::adjust`].
#[inline(always)]
pub fn nan_rules(x: Aux) -> NanRules {
    NanRules {
        ieee: x.ieee(),
        second: x.immediate() & 1 != 0,
    }
}

#[inline(always)]
fn either_zero<L: Lanes>(a: L::V, b: L::V) -> L::M {
    let zero = L::splat(0);
    L::m_or(L::eq_f32(a, zero), L::eq_f32(b, zero))
}
