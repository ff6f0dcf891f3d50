//! f64 values from other types and back, rounding, minimum and maximum, as nodes on halves of 64-bit lanes.

use super::graph::{Id, Op};
use super::{one, two};

/// 64-bit lanes of 32-bit ones, by an operation that takes the low half of a vector.
pub fn widened(op: Op, a: Id) -> [Id; 2] {
    [one(op, a, 0), one(op, one(Op::HighHalf, a, 0), 0)]
}

/// 32-bit lanes of 64-bit ones, by an operation that fills the low half of a vector.
pub fn narrowed(op: Op, a: [Id; 2]) -> Id {
    let [low, high] = a.map(|half| one(op, half, 0));
    two(Op::Concat, low, high)
}

/// One operand, both halves.
pub fn each(op: Op, a: [Id; 2], imm: u32) -> [Id; 2] {
    a.map(|half| one(op, half, imm))
}
