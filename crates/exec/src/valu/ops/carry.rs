//! 32-bit sums and differences with carry: the mask result holds the carry of each lane.

use rocjitsu_lanes::kernel::Aux;
use rocjitsu_lanes::vector::Lanes;

use super::ops;

ops! {
    v_add_co_u32[x](a: B32, b: B32) -> B32, Mask {
        let sum = L::add(a, b);
        saturate::<L>(x, sum, L::lt_u(sum, a), u32::MAX)
    }
    v_sub_co_u32[x](a: B32, b: B32) -> B32, Mask { saturate::<L>(x, L::sub(a, b), L::lt_u(a, b), 0) }
    v_subrev_co_u32[x](a: B32, b: B32) -> B32, Mask { saturate::<L>(x, L::sub(b, a), L::lt_u(b, a), 0) }
    v_addc_co_u32 | v_add_co_ci_u32[x](a: B32, b: B32, carry: Mask) -> B32, Mask {
        let sum = L::add(a, b);
        let overflow = L::lt_u(sum, a);
        let total = L::add(sum, one::<L>(carry));
        // Adding the carry overflows where it turns the sum to zero.
        let again = L::m_and(carry, L::eq(total, L::splat(0)));
        saturate::<L>(x, total, L::m_or(overflow, again), u32::MAX)
    }
    v_subb_co_u32 | v_sub_co_ci_u32[x](a: B32, b: B32, borrow: Mask) -> B32, Mask {
        subtract::<L>(x, a, b, borrow)
    }
    v_subbrev_co_u32 | v_subrev_co_ci_u32[x](a: B32, b: B32, borrow: Mask) -> B32, Mask {
        subtract::<L>(x, b, a, borrow)
    }
}

#[inline(always)]
fn one<L: Lanes>(m: L::M) -> L::V {
    L::select(m, L::splat(1), L::splat(0))
}

#[inline(always)]
fn subtract<L: Lanes>(x: Aux, a: L::V, b: L::V, borrow: L::M) -> (L::V, L::M) {
    let difference = L::sub(a, b);
    let again = L::m_and(borrow, L::eq(difference, L::splat(0)));
    let total = L::sub(difference, one::<L>(borrow));
    saturate::<L>(x, total, L::m_or(L::lt_u(a, b), again), 0)
}

/// The clamp modifier replaces a result that overflows by `limit`.
#[inline(always)]
fn saturate<L: Lanes>(x: Aux, value: L::V, overflow: L::M, limit: u32) -> (L::V, L::M) {
    (
        if x.clamp() {
            L::select(overflow, L::splat(limit), value)
        } else {
            value
        },
        overflow,
    )
}
