//! 32-bit integer arithmetic, logic, shifts and minima; carries have a file of their own.

use rocjitsu_lanes::kernel::Aux;
use rocjitsu_lanes::vector::Lanes;

use super::ops;

ops! {
    v_add_u32 | v_add_nc_u32[x](a: B32, b: B32) -> B32 { add_u::<L>(x, a, b) }
    v_sub_u32 | v_sub_nc_u32[x](a: B32, b: B32) -> B32 { sub_u::<L>(x, a, b) }
    v_subrev_u32 | v_subrev_nc_u32[x](a: B32, b: B32) -> B32 { sub_u::<L>(x, b, a) }
    v_add_i32 | v_add_nc_i32[x](a: B32, b: B32) -> B32 {
        if x.clamp() { L::map2(a, b, |a, b| (a as i32).saturating_add(b as i32) as u32) } else { L::add(a, b) }
    }
    v_sub_i32 | v_sub_nc_i32[x](a: B32, b: B32) -> B32 {
        if x.clamp() { L::map2(a, b, |a, b| (a as i32).saturating_sub(b as i32) as u32) } else { L::sub(a, b) }
    }
    v_add3_u32(a: B32, b: B32, c: B32) -> B32 { L::add(L::add(a, b), c) }
    v_add_lshl_u32(a: B32, b: B32, n: B32) -> B32 { L::shl(L::add(a, b), n) }
    v_lshl_add_u32(a: B32, n: B32, b: B32) -> B32 { L::add(L::shl(a, n), b) }
    v_xad_u32(a: B32, b: B32, c: B32) -> B32 { L::add(L::xor(a, b), c) }

    v_and_b32(a: B32, b: B32) -> B32 { L::and(a, b) }
    v_or_b32(a: B32, b: B32) -> B32 { L::or(a, b) }
    v_xor_b32(a: B32, b: B32) -> B32 { L::xor(a, b) }
    v_xnor_b32(a: B32, b: B32) -> B32 { not::<L>(L::xor(a, b)) }
    v_not_b32(a: B32) -> B32 { not::<L>(a) }
    v_or3_b32(a: B32, b: B32, c: B32) -> B32 { L::or(L::or(a, b), c) }
    v_xor3_b32(a: B32, b: B32, c: B32) -> B32 { L::xor(L::xor(a, b), c) }
    v_and_or_b32(a: B32, b: B32, c: B32) -> B32 { L::or(L::and(a, b), c) }
    v_lshl_or_b32(a: B32, n: B32, b: B32) -> B32 { L::or(L::shl(a, n), b) }
    /// The truth table is the immediate: bit `4a + 2b + c` is the result for those bits.
    v_bitop3_b32[x](a: B32, b: B32, c: B32) -> B32 { bitop3::<L>(x.immediate(), a, b, c) }

    v_lshlrev_b32(n: B32, a: B32) -> B32 { L::shl(a, n) }
    v_lshrrev_b32(n: B32, a: B32) -> B32 { L::shr(a, n) }
    v_ashrrev_i32(n: B32, a: B32) -> B32 { L::sar(a, n) }

    v_min_i32(a: B32, b: B32) -> B32 { L::min_i(a, b) }
    v_max_i32(a: B32, b: B32) -> B32 { L::max_i(a, b) }
    v_min_u32(a: B32, b: B32) -> B32 { L::min_u(a, b) }
    v_max_u32(a: B32, b: B32) -> B32 { L::max_u(a, b) }
    v_min3_i32(a: B32, b: B32, c: B32) -> B32 { L::min_i(L::min_i(a, b), c) }
    v_max3_i32(a: B32, b: B32, c: B32) -> B32 { L::max_i(L::max_i(a, b), c) }
    v_min3_u32(a: B32, b: B32, c: B32) -> B32 { L::min_u(L::min_u(a, b), c) }
    v_max3_u32(a: B32, b: B32, c: B32) -> B32 { L::max_u(L::max_u(a, b), c) }
    v_med3_i32(a: B32, b: B32, c: B32) -> B32 { L::max_i(L::min_i(a, b), L::min_i(L::max_i(a, b), c)) }
    v_med3_u32(a: B32, b: B32, c: B32) -> B32 { L::max_u(L::min_u(a, b), L::min_u(L::max_u(a, b), c)) }
    v_maxmin_i32(a: B32, b: B32, c: B32) -> B32 { L::min_i(L::max_i(a, b), c) }
    v_minmax_i32(a: B32, b: B32, c: B32) -> B32 { L::max_i(L::min_i(a, b), c) }
    v_maxmin_u32(a: B32, b: B32, c: B32) -> B32 { L::min_u(L::max_u(a, b), c) }
    v_minmax_u32(a: B32, b: B32, c: B32) -> B32 { L::max_u(L::min_u(a, b), c) }
    /// The sum saturates whatever the clamp modifier says (gfx1250).
    v_add_max_i32(a: B32, b: B32, c: B32) -> B32 {
        L::max_i(L::map2(a, b, |a, b| (a as i32).saturating_add(b as i32) as u32), c)
    }
    /// As `v_add_max_i32`.
    v_add_min_i32(a: B32, b: B32, c: B32) -> B32 {
        L::min_i(L::map2(a, b, |a, b| (a as i32).saturating_add(b as i32) as u32), c)
    }
    /// As `v_add_max_i32`.
    v_add_max_u32(a: B32, b: B32, c: B32) -> B32 { L::max_u(L::map2(a, b, u32::saturating_add), c) }
    /// As `v_add_max_i32`.
    v_add_min_u32(a: B32, b: B32, c: B32) -> B32 { L::min_u(L::map2(a, b, u32::saturating_add), c) }

    v_mul_lo_u32(a: B32, b: B32) -> B32 { L::mul(a, b) }
    v_mul_hi_u32(a: B32, b: B32) -> B32 { L::mul_hi_u(a, b) }
    v_mul_hi_i32(a: B32, b: B32) -> B32 { L::mul_hi_i(a, b) }
    v_mad_u32(a: B32, b: B32, c: B32) -> B32 { L::add(L::mul(a, b), c) }
    v_mul_u32_u24[x](a: B32, b: B32) -> B32 { mad_u24::<L>(x, a, b, L::splat(0)) }
    v_mul_i32_i24[x](a: B32, b: B32) -> B32 { mad_i24::<L>(x, a, b, L::splat(0)) }
    v_mad_u32_u24[x](a: B32, b: B32, c: B32) -> B32 { mad_u24::<L>(x, a, b, c) }
    v_mad_i32_i24[x](a: B32, b: B32, c: B32) -> B32 { mad_i24::<L>(x, a, b, c) }
    v_mul_hi_u32_u24(a: B32, b: B32) -> B32 { L::mul_hi_u(u24::<L>(a), u24::<L>(b)) }
    v_mul_hi_i32_i24(a: B32, b: B32) -> B32 { L::mul_hi_i(i24::<L>(a), i24::<L>(b)) }
}

/// Every bit inverted.
#[inline(always)]
pub(super) fn not<L: Lanes>(a: L::V) -> L::V {
    L::xor(a, L::splat(u32::MAX))
}

#[inline(always)]
fn add_u<L: Lanes>(x: Aux, a: L::V, b: L::V) -> L::V {
    let sum = L::add(a, b);
    if x.clamp() {
        L::select(L::lt_u(sum, a), L::splat(u32::MAX), sum)
    } else {
        sum
    }
}

#[inline(always)]
fn sub_u<L: Lanes>(x: Aux, a: L::V, b: L::V) -> L::V {
    // The greater of a and b less b is the difference or zero.
    if x.clamp() {
        L::sub(L::max_u(a, b), b)
    } else {
        L::sub(a, b)
    }
}

/// Any function of three bits, bitwise: `table` has its value for `a b c` at bit `4a + 2b + c`.
#[inline(always)]
pub(super) fn bitop3<L: Lanes>(table: u32, a: L::V, b: L::V, c: L::V) -> L::V {
    let mut result = L::splat(0);
    for term in (0..8).filter(|term| table >> term & 1 != 0) {
        let part = |value, bit: u32| {
            if term >> bit & 1 != 0 {
                value
            } else {
                not::<L>(value)
            }
        };
        result = L::or(result, L::and(L::and(part(a, 2), part(b, 1)), part(c, 0)));
    }
    result
}

#[inline(always)]
fn u24<L: Lanes>(a: L::V) -> L::V {
    L::and(a, L::splat(0x00ff_ffff))
}

#[inline(always)]
fn i24<L: Lanes>(a: L::V) -> L::V {
    L::sar(L::shl(a, L::splat(8)), L::splat(8))
}

#[inline(always)]
fn mad_u24<L: Lanes>(x: Aux, a: L::V, b: L::V, c: L::V) -> L::V {
    let (a, b) = (u24::<L>(a), u24::<L>(b));
    if x.clamp() {
        L::map3(a, b, c, |a, b, c| {
            (u64::from(a) * u64::from(b) + u64::from(c)).min(u64::from(u32::MAX)) as u32
        })
    } else {
        L::add(L::mul(a, b), c)
    }
}

#[inline(always)]
fn mad_i24<L: Lanes>(x: Aux, a: L::V, b: L::V, c: L::V) -> L::V {
    let (a, b) = (i24::<L>(a), i24::<L>(b));
    if x.clamp() {
        L::map3(a, b, c, |a, b, c| {
            let exact = i64::from(a as i32) * i64::from(b as i32) + i64::from(c as i32);
            exact.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32
        })
    } else {
        L::add(L::mul(a, b), c)
    }
}
