//! One FMA per k: f32, and the 16- and 8-bit floats of RDNA4 and gfx1250.

use super::super::plan::Plan;
use super::super::scratch::{MAX_K, STRIDE, Scratch};
use super::super::tile::Tile;
use super::super::vector::Vector;
use super::{a_at, sources};

/// Chains over `length` panel rows. `CLEAR` turns accumulators of -0 into +0 first.
///
/// # Safety
/// The host must support the instructions of `V`; the plan must fit the tile.
#[inline(always)]
pub unsafe fn chain<V: Vector, const ROWS: usize, const CLEAR: bool>(
    scratch: &Scratch,
    length: usize,
    plan: &Plan,
    tile: &Tile,
) {
    // SAFETY: by the contract of this function.
    unsafe {
        if plan.quad {
            rows::<V, 4, true, CLEAR>(scratch, length, plan, tile);
        } else {
            rows::<V, ROWS, false, CLEAR>(scratch, length, plan, tile);
        }
    }
}

/// # Safety
/// As for `chain`.
#[inline(always)]
unsafe fn rows<V: Vector, const ROWS: usize, const QUAD: bool, const CLEAR: bool>(
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
                let mut sums = [V::zero(); ROWS];
                for (row, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: the plan fits the tile.
                    *sum = unsafe { V::load(tile.c(plan, job, first + row, lane)) };
                    if CLEAR {
                        *sum = V::add(*sum, V::zero());
                    }
                }
                for k in 0..length {
                    // SAFETY: k is a row of the panels, `sources` checked the columns.
                    unsafe {
                        let b = V::load(b.add(k * STRIDE));
                        for (row, sum) in sums.iter_mut().enumerate() {
                            *sum = V::fma(a_at::<V, QUAD>(a.add(k * STRIDE), row), b, *sum);
                        }
                    }
                }
                for (row, sum) in sums.into_iter().enumerate() {
                    // SAFETY: the plan fits the tile.
                    unsafe { V::store(tile.d(plan, job, first + row, lane), V::canonical(sum)) };
                }
            }
        }
    }
}
