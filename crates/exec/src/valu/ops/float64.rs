//! Double-precision arithmetic.

use rocjitsu_lanes::scalar::{arithmetic as arith, minmax, rounding, trig_preop};
use rocjitsu_lanes::vector::round;

use super::float32::nan_rules;
use super::ops;
use super::support::{PLAIN, mode, within};

ops! {
    v_add_f64[x](a: F64, b: F64) -> F64 { L::add_f64(a, b) }
    => modal { let m = mode(x); L::w_map2(a, b, |a, b| arith::v_add_f64(a, b, m)) }
    v_mul_f64[x](a: F64, b: F64) -> F64 { L::mul_f64(a, b) }
    => modal { let m = mode(x); L::w_map2(a, b, |a, b| arith::v_mul_f64(a, b, m)) }
    v_fma_f64 | v_fmac_f64 | v_fmaak_f64 | v_fmamk_f64[x](a: F64, b: F64, c: F64) -> F64 { L::fma_f64(a, b, c) }
    => modal { let m = mode(x); L::w_map3(a, b, c, |a, b, c| arith::v_fma_f64(a, b, c, m)) }

    v_min_f64[x](a: F64, b: F64) -> F64 {
        let rules = nan_rules(x);
        L::w_map2(a, b, |a, b| minmax::v_min_f64(a, b, rules))
    }
    v_max_f64[x](a: F64, b: F64) -> F64 {
        let rules = nan_rules(x);
        L::w_map2(a, b, |a, b| minmax::v_max_f64(a, b, rules))
    }
    v_min_num_f64(a: F64, b: F64) -> F64 { L::w_map2(a, b, minmax::v_min_num_f64) }
    v_max_num_f64(a: F64, b: F64) -> F64 { L::w_map2(a, b, minmax::v_max_num_f64) }
    v_minimum_f64(a: F64, b: F64) -> F64 { L::w_map2(a, b, minmax::v_minimum_f64) }
    v_maximum_f64(a: F64, b: F64) -> F64 { L::w_map2(a, b, minmax::v_maximum_f64) }

    v_trunc_f64(a: F64) -> F64 { L::round_f64::<{ round::ZERO }>(a) }
    v_ceil_f64(a: F64) -> F64 { L::round_f64::<{ round::UP }>(a) }
    v_floor_f64(a: F64) -> F64 { L::round_f64::<{ round::DOWN }>(a) }
    v_rndne_f64(a: F64) -> F64 { L::round_f64::<{ round::NEAREST }>(a) }
    v_fract_f64[x](a: F64) -> F64 { L::w_map1(a, |a| rounding::v_fract_f64(a, PLAIN)) }
    => modal { let m = mode(x); L::w_map1(a, |a| rounding::v_fract_f64(a, m)) }
    v_ldexp_f64[x](a: F64, e: B32) -> F64 {
        let (lo, hi) = L::split(a);
        let exponent = L::and(L::shr(hi, L::splat(20)), L::splat(0x7ff));
        // Where the number and the result are normal, or the number is zero, the exponent alone moves.
        let moved = L::add(exponent, L::max_i(L::min_i(e, L::splat(4096)), L::splat(-4096i32 as u32)));
        let normal = L::m_and(within::<L>(exponent, 0, 0x7ff), within::<L>(moved, 0, 0x7ff));
        let zero = L::eq(L::or(lo, L::shl(hi, L::splat(1))), L::splat(0));
        if L::all(L::m_or(normal, zero)) {
            let scaled = L::or(L::and(hi, L::splat(0x800f_ffff)), L::shl(moved, L::splat(20)));
            return L::join(lo, L::select(zero, hi, scaled));
        }
        L::scale_f64(a, e)
    }
    => modal {
        let m = mode(x);
        L::w_map2(a, L::widen(e, u64::from), |a, e| rounding::v_ldexp_f64(a, e as i32, m))
    }
    v_frexp_mant_f64(a: F64) -> F64 { L::w_map1(a, rounding::v_frexp_mant_f64) }
    v_frexp_exp_i32_f64(a: F64) -> B32 { L::narrow(a, rounding::v_frexp_exp_i32_f64) }
    v_trig_preop_f64(a: F64, i: B32) -> F64 {
        L::w_map2(a, L::widen(i, u64::from), |a, i| trig_preop::v_trig_preop_f64(a, i as u32))
    }
}
