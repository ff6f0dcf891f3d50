//! Bytes of two words chosen by a third, out of the byte shuffle of the host.

use super::graph::{Id, Op, table};
use super::{Trace, logic, one, two, with};
use crate::vector::Lanes;

/// Sixteen bytes, repeated over the vector.
pub fn repeated(bytes: [u8; 16]) -> Id {
    with(|g| {
        g.table(std::array::from_fn(|lane| {
            let at = 4 * (lane % 4);
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        }))
    })
}

/// [`Lanes::perm_bytes`].
pub fn bytes(a: Id, b: Id, sel: Id) -> Id {
    let node = with(|g| g.get(sel));
    let choice = node.imm.to_le_bytes();
    if node.op == Op::Const && !choice.iter().any(|s| (8..12).contains(s)) {
        return constant(a, b, choice);
    }
    // Selectors from 13 on mean the same. What the others mean is looked up; where `sel` is one value for all
    // lanes, that is done once.
    let sel = two(Op::MinB, sel, Trace::splat(0x0d0d_0d0d));
    let look_up = |f: &dyn Fn(u8) -> u8| {
        let values = repeated(std::array::from_fn(|s| f(s as u8)));
        two(Op::Bytes, values, sel)
    };
    let within = |s: u8| match s {
        0..=7 => s % 4,
        8..=11 => 2 * (s % 2) + 1,
        _ => 0,
    };
    let all = |is: bool| if is { 0xff } else { 0 };
    let place = repeated(std::array::from_fn(|i| i as u8 & !3));
    let index = logic(table::OR, look_up(&within), place);
    let from_a = look_up(&|s| all(matches!(s, 4..=7 | 10 | 11)));
    let (in_a, in_b) = (two(Op::Bytes, a, index), two(Op::Bytes, b, index));
    let not_a = logic(table::XOR, from_a, Trace::splat(u32::MAX));
    let byte = logic(
        table::OR,
        logic(table::AND, in_a, from_a),
        logic(table::AND, in_b, not_a),
    );
    // The sign bit of each byte, in all of its bits.
    let sign = logic(
        table::AND,
        one(Op::ShrBy, byte, 7),
        Trace::splat(0x0101_0101),
    );
    let sign = Trace::sub(one(Op::ShlBy, sign, 8), sign);
    let plain = look_up(&|s| all(s < 8));
    let signs = look_up(&|s| all((8..12).contains(&s)));
    let ones = look_up(&|s| all(s > 12));
    let chosen = logic(
        table::OR,
        logic(table::AND, byte, plain),
        logic(table::AND, sign, signs),
    );
    logic(table::OR, chosen, ones)
}

/// As [`bytes`], for selectors that are known and choose no sign.
fn constant(a: Id, b: Id, choice: [u8; 4]) -> Id {
    // `vpshufb` gives zero where bit 7 is set.
    let part = |first: u8| {
        let of = |i: usize| match choice[i % 4] {
            s if (first..first + 4).contains(&s) => s - first + (i as u8 & !3),
            _ => 0x80,
        };
        repeated(std::array::from_fn(of))
    };
    let both = logic(
        table::OR,
        two(Op::Bytes, b, part(0)),
        two(Op::Bytes, a, part(4)),
    );
    let ones = choice.map(|s| if s > 12 { 0xff } else { 0 });
    logic(table::OR, both, Trace::splat(u32::from_le_bytes(ones)))
}
