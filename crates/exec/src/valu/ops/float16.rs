//! Half-precision arithmetic, one value in each lane. A sum or product is computed in f32, where products
//! are exact; rounding a sum of two f16 values twice gives the same as once, as f32 has more than twice the
//! bits.

use rocjitsu_lanes::scalar::{arithmetic as arith, rounding};
use rocjitsu_lanes::vector::Lanes;

use super::minmax::{Half, Max, Min, Rule, median, three, two};
use super::ops;
use super::support::{PLAIN, half1, half2, half3, mode};

ops! {
    v_add_f16[x](a: F16, b: F16) -> F16 { add::<L>(L::f32_from_f16(a), L::f32_from_f16(b)) }
    => modal { let m = mode(x); half2::<L>(a, b, |a, b| arith::v_add_f16(a, b, m)) }
    v_sub_f16[x](a: F16, b: F16) -> F16 { sub::<L>(L::f32_from_f16(a), L::f32_from_f16(b)) }
    => modal { let m = mode(x); half2::<L>(a, b, |a, b| arith::v_sub_f16(a, b, m)) }
    v_subrev_f16[x](a: F16, b: F16) -> F16 { sub::<L>(L::f32_from_f16(b), L::f32_from_f16(a)) }
    => modal { let m = mode(x); half2::<L>(a, b, |a, b| arith::v_sub_f16(b, a, m)) }
    v_mul_f16[x](a: F16, b: F16) -> F16 { mul::<L>(L::f32_from_f16(a), L::f32_from_f16(b)) }
    => modal { let m = mode(x); half2::<L>(a, b, |a, b| arith::v_mul_f16(a, b, m)) }
    v_fma_f16 | v_fmac_f16 | v_fmaak_f16 | v_fmamk_f16 | v_fma_legacy_f16[x](a: F16, b: F16, c: F16) -> F16 {
        fma::<L>(L::f32_from_f16(a), L::f32_from_f16(b), L::f32_from_f16(c))
    }
    => modal { let m = mode(x); half3::<L>(a, b, c, |a, b, c| arith::v_fma_f16(a, b, c, m)) }
    v_mad_f16 | v_mac_f16 | v_madak_f16 | v_madmk_f16 | v_mad_legacy_f16[x](a: F16, b: F16, c: F16) -> F16 {
        let product = mul::<L>(L::f32_from_f16(a), L::f32_from_f16(b));
        add::<L>(L::f32_from_f16(product), L::f32_from_f16(c))
    }
    => modal { let m = mode(x); half3::<L>(a, b, c, |a, b, c| arith::v_mad_f16(a, b, c, m)) }

    v_min_f16[x](a: F16, b: F16) -> F16 { two::<L, Half>(Rule::legacy(x), Min, a, b) }
    v_max_f16[x](a: F16, b: F16) -> F16 { two::<L, Half>(Rule::legacy(x), Max, a, b) }
    v_min3_f16[x](a: F16, b: F16, c: F16) -> F16 { three::<L, Half>(Rule::legacy(x), (Min, Min), (a, b, c)) }
    v_max3_f16[x](a: F16, b: F16, c: F16) -> F16 { three::<L, Half>(Rule::legacy(x), (Max, Max), (a, b, c)) }
    v_med3_f16[x](a: F16, b: F16, c: F16) -> F16 { median::<L, Half>(Rule::legacy(x), a, b, c) }
    v_minmax_f16[x](a: F16, b: F16, c: F16) -> F16 { three::<L, Half>(Rule::legacy(x), (Min, Max), (a, b, c)) }
    v_maxmin_f16[x](a: F16, b: F16, c: F16) -> F16 { three::<L, Half>(Rule::legacy(x), (Max, Min), (a, b, c)) }
    v_min_num_f16(a: F16, b: F16) -> F16 { two::<L, Half>(Rule::Number, Min, a, b) }
    v_max_num_f16(a: F16, b: F16) -> F16 { two::<L, Half>(Rule::Number, Max, a, b) }
    v_minimum_f16(a: F16, b: F16) -> F16 { two::<L, Half>(Rule::Propagate, Min, a, b) }
    v_maximum_f16(a: F16, b: F16) -> F16 { two::<L, Half>(Rule::Propagate, Max, a, b) }
    v_min3_num_f16(a: F16, b: F16, c: F16) -> F16 { three::<L, Half>(Rule::Number, (Min, Min), (a, b, c)) }
    v_max3_num_f16(a: F16, b: F16, c: F16) -> F16 { three::<L, Half>(Rule::Number, (Max, Max), (a, b, c)) }
    v_med3_num_f16(a: F16, b: F16, c: F16) -> F16 { median::<L, Half>(Rule::Number, a, b, c) }
    v_minmax_num_f16(a: F16, b: F16, c: F16) -> F16 { three::<L, Half>(Rule::Number, (Min, Max), (a, b, c)) }
    v_maxmin_num_f16(a: F16, b: F16, c: F16) -> F16 { three::<L, Half>(Rule::Number, (Max, Min), (a, b, c)) }
    v_minimum3_f16(a: F16, b: F16, c: F16) -> F16 { three::<L, Half>(Rule::Propagate, (Min, Min), (a, b, c)) }
    v_maximum3_f16(a: F16, b: F16, c: F16) -> F16 { three::<L, Half>(Rule::Propagate, (Max, Max), (a, b, c)) }
    v_minimummaximum_f16(a: F16, b: F16, c: F16) -> F16 { three::<L, Half>(Rule::Propagate, (Min, Max), (a, b, c)) }
    v_maximumminimum_f16(a: F16, b: F16, c: F16) -> F16 { three::<L, Half>(Rule::Propagate, (Max, Min), (a, b, c)) }

    v_trunc_f16(a: F16) -> F16 { half1::<L>(a, rounding::v_trunc_f16) }
    v_ceil_f16(a: F16) -> F16 { half1::<L>(a, rounding::v_ceil_f16) }
    v_floor_f16(a: F16) -> F16 { half1::<L>(a, rounding::v_floor_f16) }
    v_rndne_f16(a: F16) -> F16 { half1::<L>(a, rounding::v_rndne_f16) }
    v_fract_f16[x](a: F16) -> F16 { half1::<L>(a, |a| rounding::v_fract_f16(a, PLAIN)) }
    => modal { let m = mode(x); half1::<L>(a, |a| rounding::v_fract_f16(a, m)) }
    v_ldexp_f16[x](a: F16, e: B16) -> F16 { half2::<L>(a, e, |a, e| rounding::v_ldexp_f16(a, e as i16, PLAIN)) }
    => modal { let m = mode(x); half2::<L>(a, e, |a, e| rounding::v_ldexp_f16(a, e as i16, m)) }
    v_frexp_mant_f16(a: F16) -> F16 { half1::<L>(a, rounding::v_frexp_mant_f16) }
    v_frexp_exp_i16_f16(a: F16) -> B16 { half1::<L>(a, rounding::v_frexp_exp_i16_f16) }
}

/// f16 of the sum of f16 values held as f32.
#[inline(always)]
pub fn add<L: Lanes>(a: L::V, b: L::V) -> L::V {
    L::f16_from_f32(L::add_f32(a, b))
}
/// f16 of the difference of f16 values held as f32.
#[inline(always)]
pub fn sub<L: Lanes>(a: L::V, b: L::V) -> L::V {
    L::f16_from_f32(L::sub_f32(a, b))
}
/// f16 of the product of f16 values held as f32.
#[inline(always)]
pub fn mul<L: Lanes>(a: L::V, b: L::V) -> L::V {
    L::f16_from_f32(L::mul_f32(a, b))
}
/// f16 of `a * b + c`, f16 values held as f32: the product is exact, the sum rounded to odd.
#[inline(always)]
pub fn fma<L: Lanes>(a: L::V, b: L::V, c: L::V) -> L::V {
    L::f16_from_f32(L::add_odd_f32(L::mul_f32(a, b), c))
}
