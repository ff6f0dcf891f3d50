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
pub mod results;
pub mod scaled;
pub mod tree;
pub mod unpack;

use super::plan::Job;
use super::scratch::{STRIDE, Scratch};
use super::vector::Vector;

/// A[row, k] for the lanes of a strip: one element, or for 4x4 shapes one per block.
///
/// # Safety
/// `at` must point to row 0 of the strip in a row of A's panel.
#[inline(always)]
unsafe fn a_at<V: Vector, const QUAD: bool>(at: *const f32, row: usize) -> V::F {
    // SAFETY: by the contract of this function.
    unsafe {
        if QUAD {
            V::quad(V::load(at), row)
        } else {
            V::splat(*at.add(row))
        }
    }
}

/// Pointers into row 0 of the panels for a strip.
#[inline(always)]
fn sources<V: Vector, const ROWS: usize, const QUAD: bool>(
    scratch: &Scratch,
    job: &Job,
    first: usize,
    lane: usize,
) -> (*const f32, *const f32) {
    let a = if QUAD { job.a + lane } else { job.a + first };
    assert!(a + if QUAD { V::LANES } else { ROWS } <= STRIDE);
    assert!(job.b + lane + V::LANES <= STRIDE);
    (
        scratch.a[0][a..].as_ptr(),
        scratch.b[0][job.b + lane..].as_ptr(),
    )
}
