//! Tests of the matrix instructions: names, reference vectors, equality of the back ends.

mod names;
mod vectors;
