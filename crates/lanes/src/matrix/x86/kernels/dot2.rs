//! RDNA3's steps of two products, see `matrix::dot2`.

use super::super::plan::Plan;
use super::super::scratch::{MAX_K, STRIDE, Scratch};
use super::super::tile::Tile;
use super::super::vector::Vector;
use super::sources;

/// RDNA3's steps of two products, where f64 holds every sum exactly.
///
/// # Safety
/// The host must support the instructions of `V`; the plan must fit the tile.
#[inline(always)]
pub unsafe fn dot2<V: Vector>(scratch: &Scratch, length: usize, plan: &Plan, tile: &Tile) {
    assert!(length <= MAX_K && length.is_multiple_of(2));
    for job in plan.jobs() {
        for first in (0..4).map(|i| i * 4) {
            for lane in (0..16 / V::LANES).map(|i| i * V::LANES) {
                let (a, b) = sources::<V, 4, false>(scratch, job, first, lane);
                let mut sums = [V::zero(); 4];
                for (row, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: the plan fits the tile. Zeros become +0.
                    *sum = V::add(
                        unsafe { V::load(tile.c(plan, job, first + row, lane)) },
                        V::zero(),
                    );
                }
                for k in (0..length / 2).map(|i| i * 2) {
                    // SAFETY: k + 1 is a row of the panels, `sources` checked the columns.
                    unsafe {
                        let (a0, a1) = (a.add(k * STRIDE), a.add((k + 1) * STRIDE));
                        let b0 = V::widen(V::load(b.add(k * STRIDE)));
                        let b1 = V::widen(V::load(b.add((k + 1) * STRIDE)));
                        for (row, sum) in sums.iter_mut().enumerate() {
                            let a0 = V::splat_d(f64::from(*a0.add(row)));
                            let a1 = V::splat_d(f64::from(*a1.add(row)));
                            let (low, high) = V::widen(*sum);
                            let low = V::fma_d(a1, b1.0, V::fma_d(a0, b0.0, low));
                            let high = V::fma_d(a1, b1.1, V::fma_d(a0, b0.1, high));
                            *sum = V::narrow(low, high);
                        }
                    }
                }
                for (row, sum) in sums.into_iter().enumerate() {
                    // SAFETY: the plan fits the tile.
                    unsafe { V::store(tile.d(plan, job, first + row, lane), sum) };
                }
            }
        }
    }
}
