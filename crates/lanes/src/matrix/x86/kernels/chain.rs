//! One FMA per k: f32, and the 16- and 8-bit floats of RDNA4 and gfx1250.

use super::super::plan::{Job, Layout, Plan, by_layout};
use super::super::scratch::{MAX_K, STRIDE, Scratch};
use super::super::tile::Tile;
use super::super::vector::Vector;
use super::{a_at, sources, unroll};

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
        if CLEAR {
            // Only sums that are fused by rule may need it.
            by_layout!(plan, [Tall, Square, Quad], L => rows::<V, L, ROWS, CLEAR>(scratch, length, plan, tile));
        } else {
            by_layout!(
                plan,
                [Tall, Square, Quad, Wave32, Wave64, Rdna3Wave32, Rdna3Wave64],
                L => rows::<V, L, ROWS, CLEAR>(scratch, length, plan, tile)
            );
        }
    }
}

/// # Safety
/// As for `chain`.
#[inline(always)]
unsafe fn rows<V: Vector, L: Layout, const ROWS: usize, const CLEAR: bool>(
    scratch: &Scratch,
    length: usize,
    plan: &Plan,
    tile: &Tile,
) {
    assert!(length <= MAX_K);
    for job in plan.jobs() {
        for lane in (0..16 / V::LANES).map(|i| i * V::LANES) {
            let (a, b) = sources::<V, L>(scratch, job, lane);
            // SAFETY: rows of D, up to COUNT, are the tile's; `sources` checked the columns.
            unsafe {
                strip::<V, L, ROWS, CLEAR, 0>(a, b, length, job, tile, lane);
                if ROWS < L::COUNT {
                    strip::<V, L, ROWS, CLEAR, 8>(a, b, length, job, tile, lane);
                }
            }
        }
    }
}

/// ROWS rows from FIRST on.
///
/// # Safety
/// As for `chain`; `a` and `b` must point into as many panel rows as `length` says.
#[inline(always)]
unsafe fn strip<V: Vector, L: Layout, const ROWS: usize, const CLEAR: bool, const FIRST: usize>(
    a: *const f32,
    b: *const f32,
    length: usize,
    job: &Job,
    tile: &Tile,
    lane: usize,
) {
    let count = const { if ROWS < L::COUNT { ROWS } else { L::COUNT } };
    let mut sums = [V::zero(); 16];
    // SAFETY: by the contract of this function.
    unsafe {
        unroll!(count, row => {
            sums[row] = V::load(tile.c::<L>(job, FIRST + row, lane));
            if CLEAR {
                sums[row] = V::add(sums[row], V::zero());
            }
        });
        for k in 0..length {
            let (a, b) = (a.add(k * STRIDE), V::load(b.add(k * STRIDE)));
            unroll!(count, row => {
                sums[row] = V::fma(a_at::<V, L>(a, FIRST + row), b, sums[row]);
            });
        }
        unroll!(count, row => {
            V::store(tile.d::<L>(job, FIRST + row, lane), V::canonical(sums[row]));
        });
    }
}
