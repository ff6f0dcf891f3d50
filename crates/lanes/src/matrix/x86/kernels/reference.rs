//! Sums of the fused kernels that are beyond them, one by one: infinities and NaN in A or B,
//! accumulators or products at the ends of f32's range.

use super::super::super::formats::NAN32;
use super::super::super::fused::group;
use super::super::plan::{Job, Layout};
use super::super::range::Fused;
use super::super::scratch::Scratch;
use super::super::tile::Tile;
use super::super::vector::Vector;
use super::fused::rows_of;

/// Sums of one group of a job, where a bit is set for the lane of a row.
pub struct Apart {
    lanes: [u16; 16],
    sums: [[u32; 16]; 16],
}

impl Apart {
    /// Stores the sums in D.
    ///
    /// # Safety
    /// The job and its layout must fit the tile.
    pub unsafe fn store<L: Layout>(&self, job: &Job, tile: &Tile) {
        for (row, (lanes, sums)) in self.lanes.iter().zip(&self.sums).enumerate() {
            for lane in (0..16).filter(|lane| lanes >> lane & 1 == 1) {
                // SAFETY: by the contract of this function; only rows of the layout have bits.
                unsafe {
                    tile.d::<L>(job, row, lane)
                        .write(f32::from_bits(sums[lane]))
                };
            }
        }
    }
}

/// The sums of the rows that are left, over the panel rows `first` to `first + count`, that the kernels do not form,
/// if there are any.
///
/// # Safety
/// The host must support the instructions of `V`; the job and its layout must fit the tile.
#[inline(always)]
pub unsafe fn sums<V: Vector, L: Layout, const SPARSE: bool>(
    scratch: &Scratch,
    (job, left): (&Job, u16),
    rows: (usize, usize),
    tile: &Tile,
    shape: &Fused,
    parity: bool,
) -> Option<Apart> {
    // SAFETY: by the contract of this function.
    let tiny = shape.least > 0.0 && unsafe { has_tiny::<V, L>((job, left), tile, shape.least) };
    if !(tiny || shape.specials || shape.all) {
        return None;
    }
    // SAFETY: by the contract of this function.
    Some(unsafe { apart::<L, SPARSE>(scratch, (job, left), rows, tile, shape, parity) })
}

/// # Safety
/// As for `sums`.
#[inline(always)]
unsafe fn has_tiny<V: Vector, L: Layout>(
    (job, left): (&Job, u16),
    tile: &Tile,
    least: f32,
) -> bool {
    let all = V::splat_i(-1);
    let mut low = all;
    for lane in (0..16 / V::LANES).map(|i| i * V::LANES) {
        for row in rows_of::<L>(left) {
            // SAFETY: by the contract of this function.
            let x = V::bits(unsafe { V::load(tile.c::<L>(job, row, lane)) });
            // Zero wraps to the largest number.
            low = V::min_u(low, V::add_i(V::and(x, V::splat_i(i32::MAX)), all));
        }
    }
    // Unsigned: both sides moved by 2^31.
    let sign = i32::MIN;
    let limit = (least.to_bits() - 1) as i32 ^ sign;
    V::any_greater(V::splat_i(limit), V::xor(low, V::splat_i(sign)))
}

/// # Safety
/// As for `sums`.
#[cold]
#[inline(never)]
unsafe fn apart<L: Layout, const SPARSE: bool>(
    scratch: &Scratch,
    (job, left): (&Job, u16),
    (first, count): (usize, usize),
    tile: &Tile,
    shape: &Fused,
    parity: bool,
) -> Apart {
    let mut apart = Apart {
        lanes: [0; 16],
        sums: [[0; 16]; 16],
    };
    let b = scratch.b.as_flattened();
    for row in rows_of::<L>(left) {
        for lane in 0..16 {
            let at = if L::QUAD {
                job.a + lane / 4 * 4 + row
            } else {
                job.a + L::source(row)
            };
            let (mut left, mut right) = ([0f32; 16], [0f32; 16]);
            let terms = left.iter_mut().zip(&mut right).take(count);
            for (k, (left, right)) in (first..).zip(terms) {
                let from = if SPARSE {
                    scratch.select[k][at] as usize
                } else {
                    k * super::STRIDE
                };
                *left = scratch.a[k][at];
                *right = b[from + job.b + lane];
            }
            let (left, right) = (&left[..count], &right[..count]);
            // SAFETY: by the contract of this function.
            let c = unsafe { tile.c::<L>(job, row, lane).read() };
            let tiny = c != 0.0 && c.abs() < shape.least;
            if shape.all || tiny || left.iter().chain(right).any(|x| !x.is_finite()) {
                let sum = group(left, right, c, shape.mins.0, shape.mins.1, parity);
                apart.lanes[row] |= 1 << lane;
                apart.sums[row][lane] = if sum.is_nan() { NAN32 } else { sum.to_bits() };
            }
        }
    }
    apart
}
