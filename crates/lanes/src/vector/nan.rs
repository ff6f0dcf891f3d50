//! Which NaN an operation returns, for single values: the rules of [`crate::fp::nan`] for any number of operands.
//! Hosts differ; every back end repairs NaN results with these functions.

use crate::fp::nan::{DEFAULT_NAN32, DEFAULT_NAN64, is_nan32, is_nan64, quiet32, quiet64};

/// The NaN result of an f32 operation on `operands`: the first NaN among them, made quiet.
#[inline]
pub fn of_f32(operands: &[u32]) -> u32 {
    let first = operands.iter().find(|&&x| is_nan32(x));
    first.map_or(DEFAULT_NAN32, |&x| quiet32(x))
}

/// The NaN result of an f64 operation on `operands`.
#[inline]
pub fn of_f64(operands: &[u64]) -> u64 {
    let first = operands.iter().find(|&&x| is_nan64(x));
    first.map_or(DEFAULT_NAN64, |&x| quiet64(x))
}
