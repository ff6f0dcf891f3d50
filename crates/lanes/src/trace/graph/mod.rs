//! Lane operations as a graph of values: what a kernel computes on 16 lanes, written down instead of computed.
//! Equal nodes are one node; constants are folded; a flush of what cannot be subnormal disappears.

mod flush;
mod halves;
mod logic;
mod op;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

pub use logic::table;
use logic::table::AND;
pub use op::Op;

/// A node of a [`Graph`]. Nodes come after those that they use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub u32);

impl Id {
    /// No operand.
    pub const NONE: Id = Id(u32::MAX);
}

/// A node: operation, operands, and a number whose meaning the operation tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// The operation.
    pub op: Op,
    /// Its operands; [`Id::NONE`] where there is none.
    pub args: [Id; 3],
    /// See [`Op`].
    pub imm: u32,
}

impl Node {
    /// The operands that are there.
    pub fn operands(&self) -> impl Iterator<Item = Id> + '_ {
        self.args.iter().copied().filter(|&a| a != Id::NONE)
    }
}

/// Values that depend on each other.
#[derive(Debug, Default)]
pub struct Graph {
    /// All nodes.
    pub nodes: Vec<Node>,
    /// Constants that differ between lanes.
    pub tables: Vec<[u32; 16]>,
    known: HashMap<Node, Id>,
}

const NONE: Id = Id::NONE;

impl Graph {
    /// The node.
    pub fn get(&self, id: Id) -> Node {
        self.nodes[id.0 as usize]
    }

    fn constant_of(&self, id: Id) -> Option<u32> {
        let node = self.get(id);
        (node.op == Op::Const).then_some(node.imm)
    }

    /// The node of that operation, new or not.
    fn put(&mut self, op: Op, args: [Id; 3], imm: u32) -> Id {
        let node = Node { op, args, imm };
        let next = Id(self.nodes.len() as u32);
        let id = *self.known.entry(node).or_insert(next);
        if id == next {
            self.nodes.push(node);
        }
        id
    }

    /// The node as it is, for those who choose nodes by what their host has.
    pub fn exact(&mut self, node: Node) -> Id {
        self.put(node.op, node.args, node.imm)
    }

    /// A node without operands.
    pub fn leaf(&mut self, op: Op, imm: u32) -> Id {
        self.put(op, [NONE; 3], imm)
    }

    /// A constant.
    pub fn constant(&mut self, value: u32) -> Id {
        self.leaf(Op::Const, value)
    }

    /// A constant that differs between lanes.
    pub fn table(&mut self, table: [u32; 16]) -> Id {
        let at = self.tables.iter().position(|t| *t == table);
        let at = at.unwrap_or_else(|| {
            self.tables.push(table);
            self.tables.len() - 1
        });
        self.leaf(Op::Table, at as u32)
    }

    /// An operation on one value.
    pub fn one(&mut self, op: Op, a: Id, imm: u32) -> Id {
        let node = self.get(a);
        match (op, node.op) {
            (Op::ShlBy | Op::ShrBy | Op::SarBy | Op::RotrBy, _) if imm == 0 => a,
            (Op::ShlBy, Op::Const) => self.constant(node.imm << imm),
            (Op::ShrBy, Op::Const) => self.constant(node.imm >> imm),
            (Op::SarBy, Op::Const) => self.constant((node.imm as i32 >> imm) as u32),
            // The low half is all that is taken.
            (Op::Narrow, _) => {
                let low = self.half(a, false);
                match self.get(low) {
                    Node {
                        op: Op::Widen,
                        args,
                        ..
                    } => args[0],
                    _ => self.put(op, [low, NONE, NONE], imm),
                }
            }
            (Op::FromF16, Op::Narrow) => self.wide_half(a),
            (Op::ShrBy, Op::Logic) if imm == 16 => match self.lone_half(a, true) {
                Some(half) => half,
                None => self.put(op, [a, NONE, NONE], imm),
            },
            (Op::MaskNot, _) => self.opposite(a),
            _ => self.put(op, [a, NONE, NONE], imm),
        }
    }

    fn opposite(&mut self, a: Id) -> Id {
        let Node { op, args, imm } = self.get(a);
        match op {
            Op::MaskNot => args[0],
            Op::ConstMask => self.leaf(op, !imm & 0xffff),
            // Bit 2 of a predicate turns it round; for floats that makes it true for NaN, as it must be.
            Op::CompareI | Op::CompareU | Op::CompareF => self.put(op, args, imm ^ 4),
            Op::TestZero => self.put(Op::TestSet, args, imm),
            Op::TestSet => self.put(Op::TestZero, args, imm),
            _ => self.put(Op::MaskNot, [a, NONE, NONE], 0),
        }
    }

    /// An operation on two values.
    pub fn two(&mut self, op: Op, a: Id, b: Id, imm: u32) -> Id {
        match op {
            Op::Add | Op::Mul | Op::MinI | Op::MaxI | Op::MinU | Op::MaxU => {
                self.commutative(op, a, b)
            }
            Op::Sub => match (self.constant_of(a), self.constant_of(b)) {
                (Some(x), Some(y)) => self.constant(x.wrapping_sub(y)),
                (None, Some(y)) => {
                    let less = self.constant(0u32.wrapping_sub(y));
                    self.commutative(Op::Add, a, less)
                }
                _ => self.put(op, [a, b, NONE], imm),
            },
            Op::Shl | Op::Shr | Op::Sar => self.shift(op, a, b),
            Op::CompareI | Op::CompareU => self.compare(op, a, b, imm),
            Op::MaskAnd | Op::MaskOr => self.conditions(op, a, b),
            Op::AddF | Op::MulF if self.is_number(a) && self.constant_of(b).is_none() => {
                // Which operand is first matters only where both are NaN.
                self.put(op, [b, a, NONE], imm)
            }
            // No constant that is a number is unordered with itself.
            Op::CompareF if imm == 3 && a == b && self.is_number(a) => self.leaf(Op::ConstMask, 0),
            Op::SplitLow | Op::SplitHigh | Op::JoinLow | Op::JoinHigh => self.rearrange(op, a, b),
            _ => self.put(op, [a, b, NONE], imm),
        }
    }

    /// An operation on three values.
    pub fn three(&mut self, op: Op, a: Id, b: Id, c: Id) -> Id {
        if op == Op::Select {
            if b == c {
                return b;
            }
            let condition = self.get(a);
            match (condition.op, condition.imm & 0xffff) {
                (Op::ConstMask, 0) => return c,
                (Op::ConstMask, 0xffff) => return b,
                (Op::MaskNot, _) => return self.three(op, condition.args[0], c, b),
                _ => {}
            }
            if self.is_flush(a, b, c) && self.is_flushed(c, 6) {
                return c;
            }
        }
        if op == Op::FmaF && self.is_number(a) && self.constant_of(b).is_none() {
            return self.put(op, [b, a, c], 0);
        }
        self.put(op, [a, b, c], 0)
    }

    /// Whether the value is a constant that is no NaN as an f32.
    fn is_number(&self, id: Id) -> bool {
        self.constant_of(id)
            .is_some_and(|k| k & 0x7fff_ffff <= 0x7f80_0000)
    }

    /// Words of 64-bit lanes, or the lanes of words. Each undoes the other.
    fn rearrange(&mut self, op: Op, a: Id, b: Id) -> Id {
        let (low, high) = (self.get(a), self.get(b));
        let splits = matches!(op, Op::SplitLow | Op::SplitHigh);
        let undone = match splits {
            true => [Op::JoinLow, Op::JoinHigh],
            false => [Op::SplitLow, Op::SplitHigh],
        };
        let is_high = matches!(op, Op::SplitHigh | Op::JoinHigh);
        if [low.op, high.op] == undone && low.args[..2] == high.args[..2] {
            return low.args[usize::from(is_high)];
        }
        // The words of both operands as `vpermt2d` numbers them.
        let from = |i: u32| match (splits, is_high) {
            (true, _) => 2 * i + u32::from(is_high),
            (false, _) => 8 * u32::from(is_high) + i / 2 + 16 * (i % 2),
        };
        let table = self.table(std::array::from_fn(|i| from(i as u32)));
        self.put(op, [a, b, table], 0)
    }

    fn commutative(&mut self, op: Op, a: Id, b: Id) -> Id {
        let (a, b) = match (self.constant_of(a), self.constant_of(b)) {
            (Some(x), Some(y)) => {
                let (i, j) = (x as i32, y as i32);
                return self.constant(match op {
                    Op::Add => x.wrapping_add(y),
                    Op::Mul => x.wrapping_mul(y),
                    Op::MinI => i.min(j) as u32,
                    Op::MaxI => i.max(j) as u32,
                    Op::MinU => x.min(y),
                    _ => x.max(y),
                });
            }
            (Some(_), None) => (b, a),
            _ => (a, b),
        };
        match (op, self.constant_of(b)) {
            (Op::Add, Some(0)) | (Op::Mul, Some(1)) => a,
            (Op::Mul, Some(0)) => self.constant(0),
            (Op::Mul, Some(y)) if y.is_power_of_two() => self.one(Op::ShlBy, a, y.trailing_zeros()),
            // Sums of constants meet.
            (Op::Add, Some(y)) => {
                let inner = self.get(a);
                if inner.op == Op::Add
                    && let Some(x) = self.constant_of(inner.args[1])
                {
                    let both = self.constant(x.wrapping_add(y));
                    return self.commutative(Op::Add, inner.args[0], both);
                }
                self.put(op, [a, b, NONE], 0)
            }
            _ => self.put(op, [a, b, NONE], 0),
        }
    }

    fn shift(&mut self, op: Op, a: Id, n: Id) -> Id {
        let by = match op {
            Op::Shl => Op::ShlBy,
            Op::Shr => Op::ShrBy,
            _ => Op::SarBy,
        };
        if let Some(n) = self.constant_of(n) {
            let n = n & 31;
            let inner = self.get(a);
            if inner.op == by && by != Op::SarBy {
                let sum = inner.imm + n;
                return if sum < 32 {
                    self.one(by, inner.args[0], sum)
                } else {
                    self.constant(0)
                };
            }
            return self.one(by, a, n);
        }
        let most = self.constant(31);
        let n = self.logic(AND, n, most);
        self.put(op, [a, n, NONE], 0)
    }

    fn compare(&mut self, op: Op, a: Id, b: Id, imm: u32) -> Id {
        if let (Some(x), Some(y)) = (self.constant_of(a), self.constant_of(b)) {
            let less = if op == Op::CompareI {
                (x as i32) < y as i32
            } else {
                x < y
            };
            let holds = match imm & 3 {
                0 => x == y,
                1 => less,
                _ => less || x == y,
            } != (imm & 4 != 0);
            return self.leaf(Op::ConstMask, if holds { 0xffff } else { 0 });
        }
        if imm & 3 == 0 {
            if self.constant_of(a).is_some() {
                return self.compare(op, b, a, imm);
            }
            if self.constant_of(b) == Some(0)
                && let Some((x, y)) = self.as_and(a)
            {
                let test = if imm & 4 == 0 {
                    Op::TestZero
                } else {
                    Op::TestSet
                };
                return self.put(test, [x, y, NONE], 0);
            }
        }
        self.put(op, [a, b, NONE], imm)
    }

    fn conditions(&mut self, op: Op, a: Id, b: Id) -> Id {
        let (x, y) = (self.get(a), self.get(b));
        let (zero, one) = if op == Op::MaskAnd {
            (0, 0xffff)
        } else {
            (0xffff, 0)
        };
        let is = |n: Node, k: u32| n.op == Op::ConstMask && n.imm & 0xffff == k;
        if a == b || is(y, one) || is(x, zero) {
            return a;
        }
        if is(x, one) || is(y, zero) {
            return b;
        }
        self.put(op, [a, b, NONE], 0)
    }
}
