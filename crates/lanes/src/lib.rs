//! Arithmetic on the lanes of a wave: number formats, vector back ends, matrix products.

pub mod fp;
pub mod scalar;

#[cfg(test)]
mod testing;
