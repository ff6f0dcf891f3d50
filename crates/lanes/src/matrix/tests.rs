//! Tests of the matrix instructions: names, reference vectors, equality of the back ends.

mod apart;
mod backends;
mod cases;
mod names;
mod vectors;
