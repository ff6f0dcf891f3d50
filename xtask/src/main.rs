//! Development tasks: `cargo xtask isa` regenerates the instruction tables.

fn main() {}
