//! CDNA1 and CDNA2: groups of two or four products summed as a tree, see `matrix::tree`.

use super::super::plan::Plan;
use super::super::scratch::{MAX_K, STRIDE, Scratch};
use super::super::tile::Tile;
use super::super::vector::Vector;
use super::{a_at, sources};

/// The tree of groups of `group` (2 or 4). `exact`: no product of the operands' type is inexact,
/// and only operands can be subnormal.
///
/// # Safety
/// The host must support the instructions of `V`; the plan must fit the tile.
#[inline(always)]
pub unsafe fn tree<V: Vector, const ROWS: usize>(
    scratch: &Scratch,
    k: usize,
    plan: &Plan,
    tile: &Tile,
    (group, flush, exact): (usize, bool, bool),
) {
    // SAFETY: by the contract of this function.
    unsafe {
        match (group, flush, exact, plan.quad) {
            (4, true, true, false) => rows::<V, ROWS, false, 4, true, true>(scratch, k, plan, tile),
            (4, true, false, false) => {
                rows::<V, ROWS, false, 4, true, false>(scratch, k, plan, tile)
            }
            (4, false, true, false) => {
                rows::<V, ROWS, false, 4, false, true>(scratch, k, plan, tile)
            }
            (4, false, false, false) => {
                rows::<V, ROWS, false, 4, false, false>(scratch, k, plan, tile)
            }
            (_, true, true, false) => rows::<V, ROWS, false, 2, true, true>(scratch, k, plan, tile),
            (_, true, false, false) => {
                rows::<V, ROWS, false, 2, true, false>(scratch, k, plan, tile)
            }
            (_, false, _, false) => rows::<V, ROWS, false, 2, false, false>(scratch, k, plan, tile),
            (4, true, true, true) => rows::<V, 4, true, 4, true, true>(scratch, k, plan, tile),
            (4, true, false, true) => rows::<V, 4, true, 4, true, false>(scratch, k, plan, tile),
            (4, false, _, true) => rows::<V, 4, true, 4, false, false>(scratch, k, plan, tile),
            (_, true, _, true) => rows::<V, 4, true, 2, true, false>(scratch, k, plan, tile),
            (_, false, _, true) => rows::<V, 4, true, 2, false, false>(scratch, k, plan, tile),
        }
    }
}

/// # Safety
/// As for `tree`.
#[inline(always)]
unsafe fn rows<
    V: Vector,
    const ROWS: usize,
    const QUAD: bool,
    const GROUP: usize,
    const FLUSH: bool,
    const EXACT: bool,
>(
    scratch: &Scratch,
    length: usize,
    plan: &Plan,
    tile: &Tile,
) {
    assert!(length <= MAX_K && length.is_multiple_of(GROUP));
    let limit = V::splat(f32::MIN_POSITIVE);
    for job in plan.jobs() {
        for first in (0..if QUAD { 4 } else { 16 } / ROWS).map(|i| i * ROWS) {
            for lane in (0..16 / V::LANES).map(|i| i * V::LANES) {
                let (a, b) = sources::<V, ROWS, QUAD>(scratch, job, first, lane);
                let mut sums = [V::zero(); ROWS];
                for (row, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: the plan fits the tile.
                    *sum = unsafe { V::load(tile.c(plan, job, first + row, lane)) };
                    if FLUSH {
                        *sum = V::flush_positive(*sum, limit);
                    }
                }
                for k in (0..length / GROUP).map(|i| i * GROUP) {
                    let mut bs = [V::zero(); GROUP];
                    for (i, x) in bs.iter_mut().enumerate() {
                        // SAFETY: k + i is a row of the panels, `sources` checked the columns.
                        *x = unsafe { V::load(b.add((k + i) * STRIDE)) };
                    }
                    for (row, sum) in sums.iter_mut().enumerate() {
                        let mut xs = [V::zero(); GROUP];
                        for (i, x) in xs.iter_mut().enumerate() {
                            // SAFETY: as for B.
                            *x = unsafe { a_at::<V, QUAD>(a.add((k + i) * STRIDE), row) };
                        }
                        let mut g = pair::<V, FLUSH, EXACT>(&xs, &bs, 0);
                        if GROUP == 4 {
                            let other = pair::<V, FLUSH, EXACT>(&xs, &bs, 2);
                            g = keep::<V, FLUSH, EXACT>(V::add(g, other));
                        }
                        *sum = keep::<V, FLUSH, EXACT>(V::add(*sum, g));
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

#[inline(always)]
fn keep<V: Vector, const FLUSH: bool, const EXACT: bool>(x: V::F) -> V::F {
    if FLUSH && !EXACT {
        V::flush(x, V::splat(f32::MIN_POSITIVE))
    } else {
        x
    }
}

/// The sum of two products of a tree.
///
/// An exact product may be added by the FMA that forms it: fma(a1, b1, p0) rounds
/// p0 + p1 just once. A product of -0 makes no difference to p0, which is not -0.
#[inline(always)]
fn pair<V: Vector, const FLUSH: bool, const EXACT: bool>(a: &[V::F], b: &[V::F], i: usize) -> V::F {
    let first = keep::<V, FLUSH, EXACT>(V::fma(a[i], b[i], V::zero()));
    if EXACT {
        V::fma(a[i + 1], b[i + 1], first)
    } else {
        let second = keep::<V, FLUSH, EXACT>(V::fma(a[i + 1], b[i + 1], V::zero()));
        keep::<V, FLUSH, EXACT>(V::add(first, second))
    }
}
