//! Arithmetic on the lanes of a wave: number formats, vector back ends, matrix products.
//!
//! Nothing here knows a GPU: the crate computes on rows of lanes and on single values.
//!
//! - [`fp`]: number formats, MODE, arithmetic in every rounding mode.
//! - [`backend`]: which vector instruction set of the host computes, chosen at run time.
//! - [`vector`]: one trait, [`vector::Lanes`], of operations on 16 lanes, and its three implementations.
//! - [`kernel`]: the loop that carries an operation over the registers of a whole wave.

pub mod backend;
pub mod fp;
pub mod kernel;
pub mod vector;

pub use backend::Backend;

#[cfg(test)]
mod testing;
