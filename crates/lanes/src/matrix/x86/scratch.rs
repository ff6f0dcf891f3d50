//! Working storage of one instruction.

use super::range::Known;

/// Longest K of an instruction.
pub(super) const MAX_K: usize = 128;
/// Words of a panel's row.
pub(super) const STRIDE: usize = 64;

/// One row per k.
pub(super) type Panel<T> = [[T; STRIDE]; MAX_K];

/// Panels, kept per thread so that they need not be cleared.
#[repr(C, align(64))]
pub(super) struct Scratch {
    /// A as f32: `a[k][row]`, rows of all blocks side by side, in the order of the jobs.
    pub a: Panel<f32>,
    /// So that rows of A and of B, of up to 32 words, lie in different sets of the host's first cache: rows are 256 bytes
    /// apart, and of one quarter of its sets two long panels need more than there is.
    apart: [f32; STRIDE / 2],
    /// B as f32: `b[k][column]`.
    pub b: Panel<f32>,
    /// Exponents of A for the fused kernels.
    pub ea: Panel<i8>,
    /// Exponents of B.
    pub eb: Panel<i8>,
    /// Sparse instructions: for each stored k and row of A the row of B's panel that it
    /// multiplies, as a number of words.
    pub select: [[u32; STRIDE]; MAX_K / 2],
    /// A and B of one block of K as f64, for scaled sums.
    pub wide: [[[f64; STRIDE]; 32]; 2],
    /// The sums that were exact the last time: what is tried first.
    pub exact: Option<Known>,
}

impl Scratch {
    pub fn new() -> Box<Scratch> {
        Box::new(Scratch {
            a: [[0.0; STRIDE]; MAX_K],
            apart: [0.0; STRIDE / 2],
            b: [[0.0; STRIDE]; MAX_K],
            ea: [[0; STRIDE]; MAX_K],
            eb: [[0; STRIDE]; MAX_K],
            select: [[0; STRIDE]; MAX_K / 2],
            wide: [[[0.0; STRIDE]; 32]; 2],
            exact: None,
        })
    }
}
