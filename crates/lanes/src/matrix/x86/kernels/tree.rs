//! CDNA1 and CDNA2: groups of two or four products summed as a tree, see `matrix::tree`.

use super::super::plan::{Job, Layout, Plan, by_layout};
use super::super::range::TREE_LEAST;
use super::super::scratch::{MAX_K, STRIDE, Scratch};
use super::super::tile::Tile;
use super::super::vector::Vector;
use super::{Strip, Sums, a_at, columns, strips, unroll};

/// How much of the rules of flushing and rounding the operands leave to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// No product of the operands' type is inexact, and only operands can be subnormal.
    Exact,
    /// The same of these operands, where no accumulator but zero is below [`TREE_LEAST`].
    Checked,
    /// Anything may happen.
    Full,
}

/// The tree of groups of `group` (2 or 4).
///
/// # Safety
/// The host must support the instructions of `V`; the plan must fit the tile.
#[inline(always)]
pub unsafe fn tree<V: Vector>(
    scratch: &Scratch,
    k: usize,
    plan: &Plan,
    tile: &Tile,
    (group, flush, care): (usize, bool, Care),
) {
    macro_rules! rows {
        ($group:literal, $flush:literal, $exact:literal, $checked:literal) => {
            by_layout!(
                plan,
                [Tall, Square, Quad],
                L => rows::<V, L, $group, $flush, $exact, $checked>(scratch, k, plan, tile)
            )
        };
    }
    // SAFETY: by the contract of this function.
    unsafe {
        match (group, flush, care) {
            (4, true, Care::Exact) => rows!(4, true, true, false),
            (4, true, Care::Checked) => rows!(4, true, true, true),
            (4, true, Care::Full) => rows!(4, true, false, false),
            (4, false, Care::Exact) => rows!(4, false, true, false),
            (4, false, _) => rows!(4, false, false, false),
            (_, true, Care::Full) => rows!(2, true, false, false),
            (_, true, _) => rows!(2, true, true, true),
            (_, false, _) => rows!(2, false, false, false),
        }
    }
}

/// # Safety
/// As for `tree`.
#[inline(always)]
unsafe fn rows<
    V: Vector,
    L: Layout,
    const GROUP: usize,
    const FLUSH: bool,
    const EXACT: bool,
    const CHECKED: bool,
>(
    scratch: &Scratch,
    length: usize,
    plan: &Plan,
    tile: &Tile,
) {
    assert!(length <= MAX_K && length.is_multiple_of(GROUP));
    strips!(V, L, plan, (job, number, row, lane) => {
        // SAFETY: by the contract of this function.
        unsafe {
            if !strip::<V, L, GROUP, FLUSH, EXACT, CHECKED>(scratch, length, job, tile) {
                strip::<V, L, GROUP, FLUSH, false, false>(scratch, length, job, tile);
            }
        }
    });
}

/// One strip; false if accumulators are CHECKED and some are too small, and then nothing is done.
///
/// # Safety
/// As for `tree`; the panels must have as many rows as `length` says.
#[inline(always)]
unsafe fn strip<
    V: Vector,
    L: Layout,
    const GROUP: usize,
    const FLUSH: bool,
    const EXACT: bool,
    const CHECKED: bool,
>(
    scratch: &Scratch,
    length: usize,
    job: &Job,
    tile: &Tile,
) -> bool {
    let (rows, columns) = const { (Strip::<V, L>::ROWS, Strip::<V, L>::COLUMNS) };
    let (a, b) = Strip::<V, L>::sources(scratch, job);
    let limit = V::splat(f32::MIN_POSITIVE);
    let mut sums: Sums<V> = [[V::zero(); 2]; 16];
    // SAFETY: rows of D, up to COUNT, are the tile's; `sources` checked the columns.
    unsafe {
        unroll!(rows, row => {
            columns!(columns, column => {
                sums[row][column] = V::load(tile.c::<L>(job, row, column * V::LANES));
            });
        });
        if CHECKED && has_smaller::<V, L>(&sums) {
            return false;
        }
        if FLUSH {
            unroll!(rows, row => {
                columns!(columns, column => {
                    let sum = &mut sums[row][column];
                    // Of CHECKED accumulators only -0 is not what it should be.
                    *sum = if CHECKED {
                        V::add(*sum, V::zero())
                    } else {
                        V::flush_positive(*sum, limit)
                    };
                });
            });
        }
        for k in (0..length / GROUP).map(|i| i * GROUP) {
            let (a, b) = (a.add(k * STRIDE), b.add(k * STRIDE));
            let mut bs = [[V::zero(); 2]; 4];
            unroll!(@ GROUP, k, {
                columns!(columns, column => {
                    bs[k][column] = V::load(b.add(k * STRIDE + column * V::LANES));
                });
            }, 0 1 2 3);
            unroll!(rows, row => {
                columns!(columns, column => {
                    let mut left = [V::zero(); 4];
                    unroll!(@ GROUP, k, {
                        let at = a.add(k * STRIDE + if L::QUAD { column * V::LANES } else { 0 });
                        left[k] = a_at::<V, L>(at, row);
                    }, 0 1 2 3);
                    let [a0, a1, a2, a3] = left;
                    let b = bs.map(|b| b[column]);
                    let mut g = pair::<V, FLUSH, EXACT>([a0, a1], [b[0], b[1]]);
                    if GROUP == 4 {
                        let other = pair::<V, FLUSH, EXACT>([a2, a3], [b[2], b[3]]);
                        g = keep::<V, FLUSH, EXACT>(V::add(g, other));
                    }
                    let sum = &mut sums[row][column];
                    *sum = keep::<V, FLUSH, EXACT>(V::add(*sum, g));
                });
            });
        }
        Strip::<V, L>::store(sums, job, tile);
    }
    true
}

/// Whether an accumulator other than zero is below [`TREE_LEAST`].
#[inline(always)]
fn has_smaller<V: Vector, L: Layout>(sums: &Sums<V>) -> bool {
    let (rows, columns) = const { (Strip::<V, L>::ROWS, Strip::<V, L>::COLUMNS) };
    let all = V::splat_i(-1);
    let mut low = [all; 2];
    unroll!(rows, row => {
        columns!(columns, column => {
            // Zero wraps to the largest number.
            let x = V::and(V::bits(sums[row][column]), V::splat_i(i32::MAX));
            low[row % 2] = V::min_u(low[row % 2], V::add_i(x, all));
        });
    });
    let sign = V::splat_i(i32::MIN);
    let least = V::splat_i((TREE_LEAST.to_bits() - 1) as i32 ^ i32::MIN);
    V::any_greater(least, V::xor(V::min_u(low[0], low[1]), sign))
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
