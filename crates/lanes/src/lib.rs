//! Arithmetic on the lanes of a wave: number formats, vector back ends, matrix products.
//!
//! Nothing here knows a GPU: the crate computes on rows of lanes and on single values.
//!
//! - [`backend`]: which vector instruction set of the host computes, chosen at run time.
//! - [`vector`]: one trait, [`vector::Lanes`], of operations on 16 lanes, and its three implementations.
//! - [`trace`]: a back end that writes down what it is told to compute, for a compiler.
//! - [`kernel`]: the loop that carries an operation over the registers of a whole wave.
//! - [`modify`]: what modifiers do to sources and results.
//! - [`fp`]: number formats and exact arithmetic in every mode, on single values.
//! - [`scalar`]: the arithmetic of single instructions, on single values.
//! - [`matrix`]: matrix products, from register rows to register rows.

pub mod backend;
pub mod fp;
pub mod kernel;
pub mod matrix;
pub mod modify;
pub mod scalar;
pub mod trace;
pub mod vector;

#[cfg(test)]
mod testing;

pub use backend::Backend;
