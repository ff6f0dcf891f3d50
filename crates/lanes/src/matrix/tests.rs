//! Tests of the matrix instructions: names, reference vectors, equality of the back ends.

mod backends;
mod cases;
mod names;
mod vectors;
