//! Bitwise functions: made one over at most three values, by tables.

use super::{Graph, Id, NONE, Node, Op};
use table::{AND, OR, XOR};

const A: u32 = 0xf0;
const B: u32 = 0xcc;
const C: u32 = 0xaa;

impl Graph {
    /// A bitwise function of two values.
    pub fn logic(&mut self, table: u32, a: Id, b: Id) -> Id {
        // `table` over the values A and B; made one over at most three values where operands are such
        // functions themselves.
        if let (Some(x), Some(y)) = (self.constant_of(a), self.constant_of(b)) {
            let bit = |x: u32, y: u32| {
                (0..32).fold(0, |all, i| {
                    all | (table >> (4 * (x >> i & 1) + 2 * (y >> i & 1)) & 1) << i
                })
            };
            return self.constant(bit(x, y));
        }
        let table = on(table, A, B);
        if let Some(x) = self.constant_of(a) {
            if let Some(f) = match x {
                0 => Some(on(table, 0, A)),
                u32::MAX => Some(on(table, 0xff, A)),
                _ => None,
            } {
                return self.of_one(f, b);
            }
            return self.pair(on(table, B, A), b, a);
        }
        if let Some(y) = self.constant_of(b)
            && let Some(f) = match y {
                0 => Some(on(table, A, 0)),
                u32::MAX => Some(on(table, A, 0xff)),
                _ => None,
            }
        {
            return self.of_one(f, a);
        }
        if table == AND
            && self.constant_of(b) == Some(0xffff)
            && let Some(half) = self.lone_half(a, false)
        {
            return half;
        }
        // Two constants in a row of the same function.
        if let Some(y) = self.constant_of(b)
            && matches!(table, AND | OR | XOR)
        {
            let inner = self.get(a);
            if inner.op == Op::Logic
                && inner.imm == table
                && inner.args[2] == NONE
                && let Some(x) = self.constant_of(inner.args[1])
            {
                let both = match table {
                    AND => x & y,
                    OR => x | y,
                    _ => x ^ y,
                };
                let both = self.constant(both);
                return self.logic(table, inner.args[0], both);
            }
        }
        self.pair(table, a, b)
    }

    /// A function of one value by its table over A.
    fn of_one(&mut self, f: u32, a: Id) -> Id {
        match f {
            0 => self.constant(0),
            0xff => self.constant(u32::MAX),
            A => a,
            _ => self.put(Op::Logic, [a, NONE, NONE], !A & 0xff),
        }
    }

    fn pair(&mut self, table: u32, a: Id, b: Id) -> Id {
        if a == b {
            return self.of_one(on(table, A, A), a);
        }
        if let Some(rotated) = self.rotation(table, a, b) {
            return rotated;
        }
        let (x, y) = (self.get(a), self.get(b));
        // Operands of both that are functions of fewer values: at most three distinct ones.
        for (into_a, into_b) in [(true, true), (true, false), (false, true)] {
            let mut values: Vec<Id> = Vec::with_capacity(4);
            let mut part = |node: Node, id: Id, inside: bool| -> Option<u32> {
                let (args, f) = if inside && node.op == Op::Logic {
                    (node.args, node.imm)
                } else if inside {
                    return None;
                } else {
                    ([id, NONE, NONE], A)
                };
                let mut tables = [0; 3];
                for (t, &arg) in tables.iter_mut().zip(&args) {
                    if arg == NONE {
                        continue;
                    }
                    let at = values.iter().position(|&v| v == arg).unwrap_or_else(|| {
                        values.push(arg);
                        values.len() - 1
                    });
                    *t = *[A, B, C].get(at)?;
                }
                Some(compose(f, tables))
            };
            let (Some(fa), Some(fb)) = (part(x, a, into_a), part(y, b, into_b)) else {
                continue;
            };
            let f = on(table, fa, fb);
            let args = std::array::from_fn(|i| values.get(i).copied().unwrap_or(NONE));
            if values.len() == 1 {
                return self.of_one(f, values[0]);
            }
            return self.put(Op::Logic, args, f);
        }
        self.put(Op::Logic, [a, b, NONE], table)
    }

    /// `a >> n | a << (32 - n)` as a rotation.
    fn rotation(&mut self, table: u32, a: Id, b: Id) -> Option<Id> {
        let (x, y) = (self.get(a), self.get(b));
        let (left, right) = match (x.op, y.op) {
            (Op::ShlBy, Op::ShrBy) => (x, y),
            (Op::ShrBy, Op::ShlBy) => (y, x),
            _ => return None,
        };
        let whole = left.args[0] == right.args[0] && left.imm + right.imm == 32;
        let disjoint = matches!(table & 0xff, t if t == OR || t == XOR);
        (whole && disjoint).then(|| self.one(Op::RotrBy, right.args[0], right.imm))
    }

    /// The operands of an `and` of two values, a constant second.
    pub(super) fn as_and(&self, id: Id) -> Option<(Id, Id)> {
        let node = self.get(id);
        (node.op == Op::Logic && node.imm == AND && node.args[2] == NONE)
            .then_some((node.args[0], node.args[1]))
    }
}

/// A two-valued function by its table, applied to tables of its operands.
fn on(table: u32, a: u32, b: u32) -> u32 {
    let f = |x: u32, y: u32| table >> (4 * x + 2 * y) & 1;
    (0..8).fold(0, |all, i| all | f(a >> i & 1, b >> i & 1) << i)
}

/// A three-valued function by its table, applied to half words.
pub(super) fn outcome(f: u32, [a, b, c]: [u32; 3]) -> u32 {
    (0..16).fold(0, |all, i| {
        let at = 4 * (a >> i & 1) + 2 * (b >> i & 1) + (c >> i & 1);
        all | (f >> at & 1) << i
    })
}

/// A three-valued function by its table, applied to tables of its operands.
fn compose(f: u32, [a, b, c]: [u32; 3]) -> u32 {
    (0..8).fold(0, |all, i| {
        let at = 4 * (a >> i & 1) + 2 * (b >> i & 1) + (c >> i & 1);
        all | (f >> at & 1) << i
    })
}

/// Tables of bitwise functions of two values for [`Graph::logic`].
pub mod table {
    /// `a & b`.
    pub const AND: u32 = super::A & super::B;
    /// `a | b`.
    pub const OR: u32 = super::A | super::B;
    /// `a ^ b`.
    pub const XOR: u32 = super::A ^ super::B;
}
