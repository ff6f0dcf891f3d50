//! 64-bit integer arithmetic and shifts, and multiplications with a 64-bit result.

use rocjitsu_lanes::kernel::Aux;
use rocjitsu_lanes::vector::Lanes;

use super::compare::{lt_i_64, lt_u_64};
use super::ops;

ops! {
    v_lshlrev_b64(n: B32, a: B64) -> B64 { shl::<L>(a, n) }
    v_lshrrev_b64(n: B32, a: B64) -> B64 {
        let high = L::split(a).1;
        shr::<L>(a, n, L::shr(high, n), L::splat(0))
    }
    v_ashrrev_i64(n: B32, a: B64) -> B64 {
        let high = L::split(a).1;
        shr::<L>(a, n, L::sar(high, n), L::sar(high, L::splat(31)))
    }
    /// Three bits of the shift count are used. Counts greater than the immediate shift by nothing.
    v_lshl_add_u64[x](a: B64, n: B32, b: B64) -> B64 {
        let n = L::and(n, L::splat(7));
        let great = L::lt_u(L::splat(x.immediate()), n);
        sum::<L>(shl::<L>(a, L::select(great, L::splat(0), n)), b)
    }
    v_add_nc_u64[x](a: B64, b: B64) -> B64 {
        if x.clamp() { L::w_map2(a, b, u64::saturating_add) } else { sum::<L>(a, b) }
    }
    v_sub_nc_u64[x](a: B64, b: B64) -> B64 {
        if x.clamp() { L::w_map2(a, b, u64::saturating_sub) } else { difference::<L>(a, b) }
    }
    v_mul_u64(a: B64, b: B64) -> B64 {
        let ((a, ah), (b, bh)) = (L::split(a), L::split(b));
        let crossed = L::add(L::mul(a, bh), L::mul(ah, b));
        L::join(L::mul(a, b), L::add(L::mul_hi_u(a, b), crossed))
    }
    v_min_u64(a: B64, b: B64) -> B64 { choose::<L>(lt_u_64::<L>(a, b), a, b) }
    v_max_u64(a: B64, b: B64) -> B64 { choose::<L>(lt_u_64::<L>(b, a), a, b) }
    v_min_i64(a: B64, b: B64) -> B64 { choose::<L>(lt_i_64::<L>(a, b), a, b) }
    v_max_i64(a: B64, b: B64) -> B64 { choose::<L>(lt_i_64::<L>(b, a), a, b) }

    v_mad_u64_u32 | v_mad_co_u64_u32[x](a: B32, b: B32, c: B64) -> B64, Mask { mad_u::<L>(x, a, b, c) }
    v_mad_i64_i32 | v_mad_co_i64_i32[x](a: B32, b: B32, c: B64) -> B64, Mask {
        let product = L::join(L::mul(a, b), L::mul_hi_i(a, b));
        let sum = sum::<L>(product, c);
        // The mask is bit 64 of the exact sum: its sign, or the opposite of that where it overflows.
        let (p, c_high, s) = (L::split(product).1, L::split(c).1, L::split(sum).1);
        let overflow = L::and(L::xor(p, s), L::xor(c_high, s));
        let negative = L::lt_i(L::xor(s, overflow), L::splat(0));
        (if x.clamp() { saturated_i::<L>(product, c) } else { sum }, negative)
    }
    v_mad_nc_u64_u32[x](a: B32, b: B32, c: B64) -> B64 { mad_u::<L>(x, a, b, c).0 }
    v_mad_nc_i64_i32[x](a: B32, b: B32, c: B64) -> B64 {
        let product = L::join(L::mul(a, b), L::mul_hi_i(a, b));
        if x.clamp() { saturated_i::<L>(product, c) } else { sum::<L>(product, c) }
    }
}

/// `m ? a : b`, by words.
#[inline(always)]
fn choose<L: Lanes>(m: L::M, a: L::W, b: L::W) -> L::W {
    let ((a, ah), (b, bh)) = (L::split(a), L::split(b));
    L::join(L::select(m, a, b), L::select(m, ah, bh))
}

#[inline(always)]
fn sum<L: Lanes>(a: L::W, b: L::W) -> L::W {
    let ((a, ah), (b, bh)) = (L::split(a), L::split(b));
    let (low, high) = (L::add(a, b), L::add(ah, bh));
    let carry = L::lt_u(low, a);
    L::join(low, L::select(carry, L::add(high, L::splat(1)), high))
}

#[inline(always)]
fn difference<L: Lanes>(a: L::W, b: L::W) -> L::W {
    let ((a, ah), (b, bh)) = (L::split(a), L::split(b));
    let high = L::sub(ah, bh);
    let borrow = L::lt_u(a, b);
    L::join(
        L::sub(a, b),
        L::select(borrow, L::sub(high, L::splat(1)), high),
    )
}

/// Lanes whose shift count has bit 5.
#[inline(always)]
fn great<L: Lanes>(n: L::V) -> L::M {
    L::m_not(L::eq(L::and(n, L::splat(32)), L::splat(0)))
}

#[inline(always)]
fn shl<L: Lanes>(a: L::W, n: L::V) -> L::W {
    let (low, high) = L::split(a);
    // Shifts take five bits of the count: this is what moves into the low word, or from it into the high one.
    let shifted = L::shl(low, n);
    let across = L::shr(L::shr(low, L::splat(1)), L::xor(n, L::splat(31)));
    let near = L::or(L::shl(high, n), across);
    let great = great::<L>(n);
    L::join(
        L::select(great, L::splat(0), shifted),
        L::select(great, shifted, near),
    )
}

/// `a >> n`: `shifted` is the high word shifted, `fill` what comes in from above.
#[inline(always)]
fn shr<L: Lanes>(a: L::W, n: L::V, shifted: L::V, fill: L::V) -> L::W {
    let (low, high) = L::split(a);
    let across = L::shl(L::shl(high, L::splat(1)), L::xor(n, L::splat(31)));
    let near = L::or(L::shr(low, n), across);
    let great = great::<L>(n);
    L::join(
        L::select(great, shifted, near),
        L::select(great, fill, shifted),
    )
}

#[inline(always)]
fn saturated_i<L: Lanes>(a: L::W, b: L::W) -> L::W {
    L::w_map2(a, b, |a, b| (a as i64).saturating_add(b as i64) as u64)
}

#[inline(always)]
fn mad_u<L: Lanes>(x: Aux, a: L::V, b: L::V, c: L::W) -> (L::W, L::M) {
    let sum = sum::<L>(L::join(L::mul(a, b), L::mul_hi_u(a, b)), c);
    let carry = lt_u_64::<L>(sum, c);
    let most = L::join(L::splat(u32::MAX), L::splat(u32::MAX));
    (
        if x.clamp() {
            choose::<L>(carry, most, sum)
        } else {
            sum
        },
        carry,
    )
}
