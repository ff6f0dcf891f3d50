//! One FMA per k: f32, the 16- and 8-bit floats of RDNA4 and gfx1250, and sums that f32 holds
//! exactly, those of integers of sparse instructions among them.

use super::super::plan::{Job, Layout, Plan, by_layout};
use super::super::scratch::{MAX_K, STRIDE, Scratch};
use super::super::tile::Tile;
use super::super::vector::Vector;
use super::{a_at, sources, unroll};

/// What the chains start from, and what comes of them.
pub mod start {
    /// The accumulators.
    pub const PLAIN: u8 = 0;
    /// The accumulators, -0 as +0.
    pub const CLEARED: u8 = 1;
    /// Zero; the sums are whole numbers and added to i32 accumulators, wrapping.
    pub const WRAPPING: u8 = 2;
    /// The same, saturating.
    pub const SATURATING: u8 = 3;
}

/// Chains over `length` panel rows; `SPARSE` takes the rows of B that `select` names.
///
/// # Safety
/// The host must support the instructions of `V`; the plan must fit the tile.
#[inline(always)]
pub unsafe fn chain<V: Vector, const ROWS: usize, const START: u8, const SPARSE: bool>(
    scratch: &Scratch,
    length: usize,
    plan: &Plan,
    tile: &Tile,
) {
    // SAFETY: by the contract of this function.
    unsafe {
        if SPARSE {
            by_layout!(
                plan,
                [Tall, Square, Wave32, Wave64],
                L => rows::<V, L, ROWS, START, SPARSE>(scratch, length, plan, tile)
            );
        } else {
            by_layout!(
                plan,
                [Tall, Square, Quad, Wave32, Wave64, Rdna3Wave32, Rdna3Wave64],
                L => rows::<V, L, ROWS, START, SPARSE>(scratch, length, plan, tile)
            );
        }
    }
}

/// # Safety
/// As for `chain`.
#[inline(always)]
unsafe fn rows<V: Vector, L: Layout, const ROWS: usize, const START: u8, const SPARSE: bool>(
    scratch: &Scratch,
    length: usize,
    plan: &Plan,
    tile: &Tile,
) {
    for job in plan.jobs() {
        // SAFETY: by the contract of this function.
        unsafe { one::<V, L, ROWS, START, SPARSE>(scratch, length, job, tile) };
    }
}

/// One job of a plan.
///
/// # Safety
/// As for `chain`; the layout must be that of the plan.
#[inline(always)]
pub unsafe fn one<V: Vector, L: Layout, const ROWS: usize, const START: u8, const SPARSE: bool>(
    scratch: &Scratch,
    length: usize,
    job: &Job,
    tile: &Tile,
) {
    assert!(length <= if SPARSE { MAX_K / 2 } else { MAX_K });
    for lane in (0..16 / V::LANES).map(|i| i * V::LANES) {
        let (a, b) = sources::<V, L>(scratch, job, lane);
        let select = scratch.select.as_flattened()[job.a..].as_ptr();
        let panels = (a, b, select);
        // SAFETY: rows of D, up to COUNT, are the tile's; `sources` checked the columns.
        unsafe {
            strip::<V, L, ROWS, START, SPARSE, 0>(panels, length, job, tile, lane);
            if ROWS < L::COUNT {
                strip::<V, L, ROWS, START, SPARSE, 8>(panels, length, job, tile, lane);
            }
        }
    }
}

/// ROWS rows from FIRST on.
///
/// # Safety
/// As for `chain`; the pointers must point into as many panel rows as `length` says.
#[inline(always)]
unsafe fn strip<
    V: Vector,
    L: Layout,
    const ROWS: usize,
    const START: u8,
    const SPARSE: bool,
    const FIRST: usize,
>(
    (a, b, select): (*const f32, *const f32, *const u32),
    length: usize,
    job: &Job,
    tile: &Tile,
    lane: usize,
) {
    let count = const { if ROWS < L::COUNT { ROWS } else { L::COUNT } };
    let mut sums = [V::zero(); 16];
    // SAFETY: by the contract of this function.
    unsafe {
        if START <= start::CLEARED {
            unroll!(count, row => {
                sums[row] = V::load(tile.c::<L>(job, FIRST + row, lane));
                if START == start::CLEARED {
                    sums[row] = V::add(sums[row], V::zero());
                }
            });
        }
        for k in 0..length {
            let a = a.add(k * STRIDE);
            if SPARSE {
                let select = select.add(k * STRIDE);
                unroll!(count, row => {
                    let from = *select.add(L::source(FIRST + row)) as usize;
                    let b = V::load(b.add(from));
                    sums[row] = V::fma(a_at::<V, L>(a, FIRST + row), b, sums[row]);
                });
            } else {
                let b = V::load(b.add(k * STRIDE));
                unroll!(count, row => {
                    sums[row] = V::fma(a_at::<V, L>(a, FIRST + row), b, sums[row]);
                });
            }
        }
        unroll!(count, row => {
            let sum = if START <= start::CLEARED {
                V::canonical(sums[row])
            } else {
                let sum = V::truncate(sums[row]);
                let old = V::bits(V::load(tile.c::<L>(job, FIRST + row, lane)));
                V::float(if START == start::SATURATING {
                    V::add_saturating(old, sum)
                } else {
                    V::add_i(old, sum)
                })
            };
            V::store(tile.d::<L>(job, FIRST + row, lane), sum);
        });
    }
}
