//! RDNA3's steps of two products, see `matrix::dot2`.

use super::super::plan::{Job, Layout, Plan, by_layout};
use super::super::scratch::{MAX_K, STRIDE, Scratch};
use super::super::tile::Tile;
use super::super::vector::Vector;
use super::{sources, unroll};

/// Steps of two products, where f64 holds every sum exactly.
///
/// # Safety
/// The host must support the instructions of `V`; the plan must fit the tile.
#[inline(always)]
pub unsafe fn dot2<V: Vector>(scratch: &Scratch, length: usize, plan: &Plan, tile: &Tile) {
    // SAFETY: by the contract of this function.
    unsafe {
        by_layout!(plan, [Rdna3Wave32, Rdna3Wave64], L => rows::<V, L>(scratch, length, plan, tile));
    }
}

/// # Safety
/// As for `dot2`.
#[inline(always)]
unsafe fn rows<V: Vector, L: Layout>(scratch: &Scratch, length: usize, plan: &Plan, tile: &Tile) {
    assert!(length <= MAX_K && length.is_multiple_of(2));
    for job in plan.jobs() {
        for lane in (0..16 / V::LANES).map(|i| i * V::LANES) {
            let (a, b) = sources::<V, L>(scratch, job, lane);
            // SAFETY: rows of D, up to COUNT, are the tile's; `sources` checked the columns.
            unsafe {
                strip::<V, L, 0>(a, b, length, job, tile, lane);
                strip::<V, L, 8>(a, b, length, job, tile, lane);
            }
        }
    }
}

/// Eight rows from FIRST on.
///
/// # Safety
/// As for `dot2`; `a` and `b` must point into as many panel rows as `length` says.
#[inline(always)]
unsafe fn strip<V: Vector, L: Layout, const FIRST: usize>(
    a: *const f32,
    b: *const f32,
    length: usize,
    job: &Job,
    tile: &Tile,
    lane: usize,
) {
    let mut sums = [V::zero(); 16];
    // SAFETY: by the contract of this function.
    unsafe {
        unroll!(8, row => {
            // Zeros become +0.
            sums[row] = V::add(V::load(tile.c::<L>(job, FIRST + row, lane)), V::zero());
        });
        for k in (0..length / 2).map(|i| i * 2) {
            let (a0, a1) = (a.add(k * STRIDE), a.add((k + 1) * STRIDE));
            let b0 = V::widen(V::load(b.add(k * STRIDE)));
            let b1 = V::widen(V::load(b.add((k + 1) * STRIDE)));
            unroll!(8, row => {
                let a0 = V::splat_d(f64::from(*a0.add(L::source(FIRST + row))));
                let a1 = V::splat_d(f64::from(*a1.add(L::source(FIRST + row))));
                let (low, high) = V::widen(sums[row]);
                let low = V::fma_d(a1, b1.0, V::fma_d(a0, b0.0, low));
                let high = V::fma_d(a1, b1.1, V::fma_d(a0, b0.1, high));
                sums[row] = V::narrow(low, high);
            });
        }
        unroll!(8, row => {
            V::store(tile.d::<L>(job, FIRST + row, lane), sums[row]);
        });
    }
}
