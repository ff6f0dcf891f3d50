//! Products of integers of 8 and 4 bits, spread to pairs of 16 bits.

use super::super::plan::{Plan, Unpack};
use super::super::scratch::{MAX_K, Panel, STRIDE, Scratch};
use super::super::tile::Tile;
use super::super::vector::Vector;
use super::unpack::each;
use super::{a_at, sources};

/// Spreads integers into pairs of 16 bits: bytes 0 and 2, bytes 1 and 3 of a word, or
/// nibbles 0 and 4, 1 and 5, and so on. The order of k is one of its own, the same for A
/// and B: sums of integers do not depend on it.
///
/// # Safety
/// As for `unpack`.
#[inline(always)]
pub unsafe fn unpack_pairs<V: Vector>(what: &Unpack, rows: &[*const u32], out: &mut Panel<f32>) {
    // SAFETY: the contract of `each` is that of this function.
    unsafe {
        match (what.element.bits(), what.signed) {
            (8, true) => each::<V, 2>(what, rows, out, |x| {
                let (even, odd) = (V::sar16::<8>(V::shl16::<8>(x)), V::sar16::<8>(x));
                [V::float(even), V::float(odd)]
            }),
            (8, false) => each::<V, 2>(what, rows, out, |x| {
                let (even, odd) = (V::shr16::<8>(V::shl16::<8>(x)), V::shr16::<8>(x));
                [V::float(even), V::float(odd)]
            }),
            (_, signed) => each::<V, 4>(what, rows, out, |x| {
                let mut out = [V::zero(); 4];
                let shifted = [V::shl16::<12>(x), V::shl16::<8>(x), V::shl16::<4>(x), x];
                for (out, x) in out.iter_mut().zip(shifted) {
                    let top = if signed {
                        V::sar16::<12>(x)
                    } else {
                        V::shr16::<12>(x)
                    };
                    *out = V::float(top);
                }
                out
            }),
        }
    }
}

/// Products of pairs over `length` panel rows, added to i32 accumulators, wrapping.
///
/// # Safety
/// The host must support the instructions of `V`; the plan must fit the tile.
#[inline(always)]
pub unsafe fn integer<V: Vector, const ROWS: usize>(
    scratch: &Scratch,
    length: usize,
    plan: &Plan,
    tile: &Tile,
) {
    // SAFETY: by the contract of this function.
    unsafe {
        if plan.quad {
            rows::<V, 4, true>(scratch, length, plan, tile);
        } else {
            rows::<V, ROWS, false>(scratch, length, plan, tile);
        }
    }
}

/// # Safety
/// As for `integer`.
#[inline(always)]
unsafe fn rows<V: Vector, const ROWS: usize, const QUAD: bool>(
    scratch: &Scratch,
    length: usize,
    plan: &Plan,
    tile: &Tile,
) {
    assert!(length <= MAX_K);
    for job in plan.jobs() {
        for first in (0..if QUAD { 4 } else { 16 } / ROWS).map(|i| i * ROWS) {
            for lane in (0..16 / V::LANES).map(|i| i * V::LANES) {
                let (a, b) = sources::<V, ROWS, QUAD>(scratch, job, first, lane);
                let mut sums = [V::splat_i(0); ROWS];
                for (row, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: the plan fits the tile.
                    *sum = V::bits(unsafe { V::load(tile.c(plan, job, first + row, lane)) });
                }
                for k in 0..length {
                    // SAFETY: k is a row of the panels, `sources` checked the columns.
                    unsafe {
                        let b = V::bits(V::load(b.add(k * STRIDE)));
                        for (row, sum) in sums.iter_mut().enumerate() {
                            let a = V::bits(a_at::<V, QUAD>(a.add(k * STRIDE), row));
                            *sum = V::dot_pairs(a, b, *sum);
                        }
                    }
                }
                for (row, sum) in sums.into_iter().enumerate() {
                    // SAFETY: the plan fits the tile.
                    unsafe { V::store(tile.d(plan, job, first + row, lane), V::float(sum)) };
                }
            }
        }
    }
}
