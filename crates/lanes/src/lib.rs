//! Arithmetic on the lanes of a wave: number formats, vector back ends, matrix products.

pub mod fp;

#[cfg(test)]
mod testing;
