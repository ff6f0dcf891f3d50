//! 64-bit integer arithmetic and shifts, and multiplications with a 64-bit result.

use rocjitsu_lanes::kernel::Aux;
use rocjitsu_lanes::vector::Lanes;

use super::ops;

ops! {
    v_lshlrev_b64(n: B32, a: B64) -> B64 { L::w_map2(a, L::widen(n, u64::from), |a, n| a << (n & 63)) }
    v_lshrrev_b64(n: B32, a: B64) -> B64 { L::w_map2(a, L::widen(n, u64::from), |a, n| a >> (n & 63)) }
    v_ashrrev_i64(n: B32, a: B64) -> B64 {
        L::w_map2(a, L::widen(n, u64::from), |a, n| (a as i64 >> (n & 63)) as u64)
    }
    /// Three bits of the shift count are used. Counts greater than the immediate shift by nothing.
    v_lshl_add_u64[x](a: B64, n: B32, b: B64) -> B64 {
        let most = x.immediate();
        let n = L::widen(n, |n| u64::from(if n & 7 > most { 0 } else { n & 7 }));
        L::w_map3(a, n, b, |a, n, b| (a << (n & 7)).wrapping_add(b))
    }
    v_add_nc_u64[x](a: B64, b: B64) -> B64 {
        if x.clamp() { L::w_map2(a, b, u64::saturating_add) } else { L::w_map2(a, b, u64::wrapping_add) }
    }
    v_sub_nc_u64[x](a: B64, b: B64) -> B64 {
        if x.clamp() { L::w_map2(a, b, u64::saturating_sub) } else { L::w_map2(a, b, u64::wrapping_sub) }
    }
    v_mul_u64(a: B64, b: B64) -> B64 { L::w_map2(a, b, u64::wrapping_mul) }
    v_min_u64(a: B64, b: B64) -> B64 { L::w_map2(a, b, u64::min) }
    v_max_u64(a: B64, b: B64) -> B64 { L::w_map2(a, b, u64::max) }
    v_min_i64(a: B64, b: B64) -> B64 { L::w_map2(a, b, |a, b| (a as i64).min(b as i64) as u64) }
    v_max_i64(a: B64, b: B64) -> B64 { L::w_map2(a, b, |a, b| (a as i64).max(b as i64) as u64) }

    v_mad_u64_u32 | v_mad_co_u64_u32[x](a: B32, b: B32, c: B64) -> B64, Mask { mad_u::<L>(x, a, b, c) }
    v_mad_i64_i32 | v_mad_co_i64_i32[x](a: B32, b: B32, c: B64) -> B64, Mask {
        let product = product_i::<L>(a, b);
        let sum = L::w_map2(product, c, u64::wrapping_add);
        // The mask is bit 64 of the exact sum, its sign.
        let negative = L::w_test2(product, c, |p, c| {
            let (sum, overflow) = (p as i64).overflowing_add(c as i64);
            (sum < 0) != overflow
        });
        (if x.clamp() { saturated_i::<L>(product, c) } else { sum }, negative)
    }
    v_mad_nc_u64_u32[x](a: B32, b: B32, c: B64) -> B64 { mad_u::<L>(x, a, b, c).0 }
    v_mad_nc_i64_i32[x](a: B32, b: B32, c: B64) -> B64 {
        let product = product_i::<L>(a, b);
        if x.clamp() { saturated_i::<L>(product, c) } else { L::w_map2(product, c, u64::wrapping_add) }
    }
}

#[inline(always)]
fn product_i<L: Lanes>(a: L::V, b: L::V) -> L::W {
    let wide = |v| L::widen(v, |v| v as i32 as i64 as u64);
    L::w_map2(wide(a), wide(b), |a, b| {
        (i64::from(a as i32) * i64::from(b as i32)) as u64
    })
}

#[inline(always)]
fn saturated_i<L: Lanes>(a: L::W, b: L::W) -> L::W {
    L::w_map2(a, b, |a, b| (a as i64).saturating_add(b as i64) as u64)
}

#[inline(always)]
fn mad_u<L: Lanes>(x: Aux, a: L::V, b: L::V, c: L::W) -> (L::W, L::M) {
    let (a, b) = (L::widen(a, u64::from), L::widen(b, u64::from));
    let product = L::w_map2(a, b, |a, b| (a & 0xffff_ffff) * (b & 0xffff_ffff));
    let sum = L::w_map2(product, c, u64::wrapping_add);
    let (sum_lo, sum_hi) = L::split(sum);
    let (lo, hi) = L::split(c);
    let below = L::m_and(L::eq(sum_hi, hi), L::lt_u(sum_lo, lo));
    let carry = L::m_or(L::lt_u(sum_hi, hi), below);
    let most = L::join(L::splat(u32::MAX), L::splat(u32::MAX));
    (
        if x.clamp() {
            L::w_select(carry, most, sum)
        } else {
            sum
        },
        carry,
    )
}
