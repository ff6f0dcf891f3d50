//! The kernels, written once for both vector widths: unpacking into panels, and a module for
//! each way of summing.
//!
//! All functions are inlined into the entry points of the back ends, which have the features.

pub mod chain;
pub mod check;
pub mod dot2;
pub mod double;
pub mod fused;
pub mod integer;
pub mod reference;
pub mod results;
pub mod scaled;
pub mod select;
pub mod tree;
pub mod unpack;

use super::plan::{Job, Layout};
use super::scratch::{STRIDE, Scratch};
use super::vector::Vector;

/// Repeats a block for the rows 0 to `$count` - 1 (16 at most), which are constants to it.
macro_rules! unroll {
    ($count:expr, $row:ident => $body:block) => {
        unroll!(@ $count, $row, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (@ $count:expr, $row:ident, $body:block, $($i:literal)*) => {
        $(if $i < $count {
            let $row: usize = $i;
            $body
        })*
    };
}
use unroll;

/// A[row, k] for the lanes of a strip: one element, or for 4x4 shapes one per block.
///
/// # Safety
/// `at` must point to row 0 of the strip in a row of A's panel.
#[inline(always)]
unsafe fn a_at<V: Vector, L: Layout>(at: *const f32, row: usize) -> V::F {
    // SAFETY: by the contract of this function.
    unsafe {
        if L::QUAD {
            V::quad(V::load(at), row)
        } else {
            V::splat(*at.add(L::source(row)))
        }
    }
}

/// Pointers into row 0 of the panels for a strip.
#[inline(always)]
fn sources<V: Vector, L: Layout>(
    scratch: &Scratch,
    job: &Job,
    lane: usize,
) -> (*const f32, *const f32) {
    let a = if L::QUAD { job.a + lane } else { job.a };
    assert!(
        a + if L::QUAD {
            V::LANES
        } else {
            L::source(L::COUNT - 1) + 1
        } <= STRIDE
    );
    assert!(job.b + lane + V::LANES <= STRIDE);
    (
        scratch.a.as_flattened()[a..].as_ptr(),
        scratch.b.as_flattened()[job.b + lane..].as_ptr(),
    )
}
