//! CDNA1 and CDNA2: groups of two or four products summed as a tree, see `matrix::tree`.

use super::super::plan::{Job, Layout, Plan, by_layout};
use super::super::scratch::{MAX_K, STRIDE, Scratch};
use super::super::tile::Tile;
use super::super::vector::Vector;
use super::{a_at, sources, unroll};

/// The tree of groups of `group` (2 or 4). `exact`: no product of the operands' type is inexact,
/// and only operands can be subnormal.
///
/// # Safety
/// The host must support the instructions of `V`; the plan must fit the tile.
#[inline(always)]
pub unsafe fn tree<V: Vector>(
    scratch: &Scratch,
    k: usize,
    plan: &Plan,
    tile: &Tile,
    (group, flush, exact): (usize, bool, bool),
) {
    macro_rules! rows {
        ($group:literal, $flush:literal, $exact:literal) => {
            by_layout!(
                plan,
                [Tall, Square, Quad],
                L => rows::<V, L, $group, $flush, $exact>(scratch, k, plan, tile)
            )
        };
    }
    // SAFETY: by the contract of this function.
    unsafe {
        match (group, flush, exact) {
            (4, true, true) => rows!(4, true, true),
            (4, true, false) => rows!(4, true, false),
            (4, false, true) => rows!(4, false, true),
            (4, false, false) => rows!(4, false, false),
            (_, true, true) => rows!(2, true, true),
            (_, true, false) => rows!(2, true, false),
            (_, false, _) => rows!(2, false, false),
        }
    }
}

/// # Safety
/// As for `tree`.
#[inline(always)]
unsafe fn rows<V: Vector, L: Layout, const GROUP: usize, const FLUSH: bool, const EXACT: bool>(
    scratch: &Scratch,
    length: usize,
    plan: &Plan,
    tile: &Tile,
) {
    assert!(length <= MAX_K && length.is_multiple_of(GROUP));
    for job in plan.jobs() {
        for lane in (0..16 / V::LANES).map(|i| i * V::LANES) {
            let (a, b) = sources::<V, L>(scratch, job, lane);
            // SAFETY: rows of D, up to COUNT, are the tile's; `sources` checked the columns.
            unsafe {
                strip::<V, L, GROUP, FLUSH, EXACT, 0>(a, b, length, job, tile, lane);
                if L::COUNT > 8 {
                    strip::<V, L, GROUP, FLUSH, EXACT, 8>(a, b, length, job, tile, lane);
                }
            }
        }
    }
}

/// Eight rows from FIRST on.
///
/// # Safety
/// As for `tree`; `a` and `b` must point into as many panel rows as `length` says.
#[inline(always)]
unsafe fn strip<
    V: Vector,
    L: Layout,
    const GROUP: usize,
    const FLUSH: bool,
    const EXACT: bool,
    const FIRST: usize,
>(
    a: *const f32,
    b: *const f32,
    length: usize,
    job: &Job,
    tile: &Tile,
    lane: usize,
) {
    let count = const { if 8 < L::COUNT { 8 } else { L::COUNT } };
    let limit = V::splat(f32::MIN_POSITIVE);
    let mut sums = [V::zero(); 16];
    // SAFETY: by the contract of this function.
    unsafe {
        unroll!(count, row => {
            sums[row] = V::load(tile.c::<L>(job, FIRST + row, lane));
            if FLUSH {
                sums[row] = V::flush_positive(sums[row], limit);
            }
        });
        for k in (0..length / GROUP).map(|i| i * GROUP) {
            let (a, b) = (a.add(k * STRIDE), b.add(k * STRIDE));
            let bs = [
                V::load(b),
                V::load(b.add(STRIDE)),
                if GROUP == 4 {
                    V::load(b.add(2 * STRIDE))
                } else {
                    V::zero()
                },
                if GROUP == 4 {
                    V::load(b.add(3 * STRIDE))
                } else {
                    V::zero()
                },
            ];
            unroll!(count, row => {
                let row_a = FIRST + row;
                let mut g = pair::<V, FLUSH, EXACT>(
                    [a_at::<V, L>(a, row_a), a_at::<V, L>(a.add(STRIDE), row_a)],
                    [bs[0], bs[1]],
                );
                if GROUP == 4 {
                    let other = pair::<V, FLUSH, EXACT>(
                        [
                            a_at::<V, L>(a.add(2 * STRIDE), row_a),
                            a_at::<V, L>(a.add(3 * STRIDE), row_a),
                        ],
                        [bs[2], bs[3]],
                    );
                    g = keep::<V, FLUSH, EXACT>(V::add(g, other));
                }
                sums[row] = keep::<V, FLUSH, EXACT>(V::add(sums[row], g));
            });
        }
        unroll!(count, row => {
            V::store(tile.d::<L>(job, FIRST + row, lane), V::canonical(sums[row]));
        });
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
fn pair<V: Vector, const FLUSH: bool, const EXACT: bool>(a: [V::F; 2], b: [V::F; 2]) -> V::F {
    // The product with +0 added, so that it is not -0.
    let first = keep::<V, FLUSH, EXACT>(V::fma(a[0], b[0], V::zero()));
    if EXACT {
        V::fma(a[1], b[1], first)
    } else {
        let second = keep::<V, FLUSH, EXACT>(V::fma(a[1], b[1], V::zero()));
        keep::<V, FLUSH, EXACT>(V::add(first, second))
    }
}
