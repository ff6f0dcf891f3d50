//! Nodes that AVX2 has an instruction for, simplified as they are made. Conditions are vectors of zeros and ones.

use rocjitsu_lanes::trace::graph::{Graph, Id, Node, Op};

use super::logic::{Gate, Tree, tree};

/// A graph that is being made.
#[derive(Default)]
pub struct Builder {
    /// What there is.
    pub graph: Graph,
}

/// Predicates of `vcmpps`.
pub const EQUAL: u32 = 0;
/// As above: not a number.
pub const UNORDERED: u32 = 3;

impl Builder {
    /// A node with these operands.
    pub fn put(&mut self, op: Op, operands: &[Id], imm: u32) -> Id {
        let mut args = [Id::NONE; 3];
        args[..operands.len()].copy_from_slice(operands);
        self.graph.exact(Node { op, args, imm })
    }

    /// A word in every lane.
    pub fn word(&mut self, word: u32) -> Id {
        self.graph.constant(word)
    }

    /// An f32 in every lane.
    pub fn float(&mut self, value: f32) -> Id {
        self.word(value.to_bits())
    }

    /// All bits set.
    pub fn ones(&mut self) -> Id {
        self.word(u32::MAX)
    }

    /// The word that every lane has, if that is known.
    pub fn known(&self, id: Id) -> Option<u32> {
        let node = self.graph.get(id);
        (node.op == Op::Const).then_some(node.imm)
    }

    /// A condition of the lanes whose bits are set.
    pub fn lanes(&mut self, bits: u32) -> Id {
        match bits & 0xffff {
            0 => self.word(0),
            0xffff => self.ones(),
            _ => self.graph.table(std::array::from_fn(|lane| {
                0u32.wrapping_sub(bits >> lane & 1)
            })),
        }
    }

    /// Sixteen bytes of `vpshufb`, repeated over the vector.
    pub fn bytes(&mut self, a: Id, choice: [u8; 16]) -> Id {
        let table = self.graph.table(std::array::from_fn(|lane| {
            let at = 4 * (lane % 4);
            u32::from_le_bytes(std::array::from_fn(|i| choice[at + i]))
        }));
        self.put(Op::Bytes, &[a, table], 0)
    }

    /// A bitwise function of two values.
    pub fn gate(&mut self, gate: Gate, a: Id, b: Id) -> Id {
        let (x, y) = (self.known(a), self.known(b));
        let (a, b) = match (gate, x, y) {
            (Gate::And, Some(0), _) | (Gate::And | Gate::AndNot, _, Some(0)) => {
                return self.word(0);
            }
            (Gate::AndNot, Some(u32::MAX), _) => return self.word(0),
            (Gate::And, Some(u32::MAX), _) | (Gate::Or | Gate::Xor | Gate::AndNot, Some(0), _) => {
                return b;
            }
            (Gate::And, _, Some(u32::MAX)) | (Gate::Or | Gate::Xor, _, Some(0)) => return a,
            (Gate::Or, Some(u32::MAX), _) | (Gate::Or, _, Some(u32::MAX)) => return self.ones(),
            (Gate::And | Gate::Or, _, _) if a == b => return a,
            (Gate::Xor, Some(x), Some(y)) => return self.word(x ^ y),
            // A condition turned twice.
            (Gate::Xor, _, Some(u32::MAX)) if self.negated(a).is_some() => {
                return self.negated(a).unwrap_or(a);
            }
            (Gate::And | Gate::Or | Gate::Xor, Some(_), _) => (b, a),
            (Gate::AndNot, _, Some(u32::MAX)) => return self.not(a),
            _ => (a, b),
        };
        if gate == Gate::And {
            if let Some(a) = self.negated(a) {
                return self.gate(Gate::AndNot, a, b);
            }
            if let Some(b) = self.negated(b) {
                return self.gate(Gate::AndNot, b, a);
            }
        }
        self.put(Op::Logic, &[a, b], gate.table())
    }

    /// `a & b`.
    pub fn and(&mut self, a: Id, b: Id) -> Id {
        self.gate(Gate::And, a, b)
    }

    /// `a | b`.
    pub fn or(&mut self, a: Id, b: Id) -> Id {
        self.gate(Gate::Or, a, b)
    }

    /// `a ^ b`.
    pub fn xor(&mut self, a: Id, b: Id) -> Id {
        self.gate(Gate::Xor, a, b)
    }

    /// The opposite of all bits.
    pub fn not(&mut self, a: Id) -> Id {
        let ones = self.ones();
        self.gate(Gate::Xor, a, ones)
    }

    /// What a value is the opposite of.
    fn negated(&self, id: Id) -> Option<Id> {
        let node = self.graph.get(id);
        let is = node.op == Op::Logic
            && node.imm == Gate::Xor.table()
            && self.known(node.args[1]) == Some(u32::MAX);
        is.then_some(node.args[0])
    }

    /// The bitwise function of three values with that table.
    pub fn logic(&mut self, table: u32, args: [Id; 3]) -> Id {
        match tree(table) {
            Tree::Value(at) => args[at],
            Tree::All(set) => self.word(0u32.wrapping_sub(set.into())),
            Tree::Gate(gate, a, b) => {
                let (a, b) = (self.logic(a.into(), args), self.logic(b.into(), args));
                self.gate(gate, a, b)
            }
        }
    }

    /// `condition ? a : b`.
    pub fn select(&mut self, condition: Id, a: Id, b: Id) -> Id {
        if a == b {
            return a;
        }
        if let Some(condition) = self.negated(condition) {
            return self.select(condition, b, a);
        }
        match (self.known(condition), self.known(a), self.known(b)) {
            (Some(0), _, _) => b,
            (Some(u32::MAX), _, _) => a,
            (_, Some(0), _) => self.gate(Gate::AndNot, condition, b),
            (_, _, Some(0)) => self.and(condition, a),
            (_, Some(u32::MAX), _) => self.or(condition, b),
            _ => match self.blend(condition) {
                Some(lanes) => self.put(Op::Blend, &[b, a], lanes),
                None => self.put(Op::Select, &[condition, a, b], 0),
            },
        }
    }

    /// The lanes of a condition that is the same in every eight lanes, and known.
    fn blend(&self, condition: Id) -> Option<u32> {
        let node = self.graph.get(condition);
        let table = self.graph.tables.get(node.imm as usize);
        let table = table.filter(|_| node.op == Op::Table)?;
        let (low, high) = table.split_at(8);
        let lanes = low.iter().zip(0..).map(|(word, lane)| (word & 1) << lane);
        (low == high).then(|| lanes.sum())
    }

    /// Integers equal.
    pub fn equal(&mut self, a: Id, b: Id) -> Id {
        match self.known(a) {
            Some(_) => self.put(Op::CompareI, &[b, a], 0),
            None => self.put(Op::CompareI, &[a, b], 0),
        }
    }

    /// Signed integers, `a > b`.
    pub fn greater(&mut self, a: Id, b: Id) -> Id {
        self.put(Op::CompareI, &[a, b], 6)
    }

    /// A comparison of integers; `imm` as [`Op::CompareI`] has it.
    pub fn compare(&mut self, signed: bool, a: Id, b: Id, imm: u32) -> Id {
        let (x, y) = (self.known(a), self.known(b));
        match (imm & 7, signed) {
            (0, _) => self.equal(a, b),
            (4, _) => {
                let equal = self.equal(a, b);
                self.not(equal)
            }
            (1, _) => self.compare(signed, b, a, 6),
            (2, _) => self.compare(signed, b, a, 5),
            (6, true) => self.greater(a, b),
            // At least a number: more than the one below it.
            (_, true) => match (x, y) {
                (_, Some(y)) if y != 1 << 31 => {
                    let below = self.word(y.wrapping_sub(1));
                    self.greater(a, below)
                }
                (Some(x), _) if x != i32::MAX as u32 => {
                    let above = self.word(x.wrapping_add(1));
                    self.greater(above, b)
                }
                _ => {
                    let less = self.greater(b, a);
                    self.not(less)
                }
            },
            (6, false) => match (x, y) {
                (_, Some(y)) if y != u32::MAX => {
                    let above = self.word(y + 1);
                    self.compare(false, a, above, 5)
                }
                (Some(x), _) if x != 0 => {
                    let below = self.word(x - 1);
                    self.compare(false, below, b, 5)
                }
                _ => {
                    let most = self.put(Op::MinU, &[a, b], 0);
                    let at_most = self.equal(most, a);
                    self.not(at_most)
                }
            },
            // Unsigned, at least: the larger one, or the smaller one, is that.
            (_, false) => {
                if x.is_some() {
                    let least = self.put(Op::MinU, &[b, a], 0);
                    return self.equal(least, b);
                }
                let most = self.put(Op::MaxU, &[a, b], 0);
                self.equal(most, a)
            }
        }
    }

    /// A comparison of f32.
    pub fn compare_f(&mut self, a: Id, b: Id, imm: u32) -> Id {
        self.put(Op::CompareF, &[a, b], imm)
    }

    /// Whether each lane is all zeros or all ones.
    fn is_condition(&self, id: Id, depth: u32) -> bool {
        let node = self.graph.get(id);
        match node.op {
            Op::CompareI | Op::CompareF | Op::Mask => true,
            Op::Const => matches!(node.imm, 0 | u32::MAX),
            Op::Permute => self.is_condition(node.args[1], depth),
            Op::Logic if depth > 0 => node.operands().all(|arg| self.is_condition(arg, depth - 1)),
            _ => false,
        }
    }

    /// Lanes where `a & b` is not zero.
    pub fn test(&mut self, a: Id, b: Id) -> Id {
        if a == b && self.is_condition(a, 3) {
            return a;
        }
        let both = self.and(a, b);
        // A single bit is there or not.
        if self.known(b).is_some_and(u32::is_power_of_two) {
            return self.equal(both, b);
        }
        let zero = self.word(0);
        let clear = self.equal(both, zero);
        self.not(clear)
    }

    /// Words of two values in turns, in each 16 bytes.
    pub fn unpack(&mut self, op: Op, a: Id, b: Id) -> Id {
        match (self.known(a), self.known(b)) {
            (Some(x), Some(y)) => {
                self.graph.table(std::array::from_fn(
                    |word| if word % 2 == 0 { x } else { y },
                ))
            }
            _ => self.put(op, &[a, b], 0),
        }
    }

    /// An f64 in every 64-bit lane.
    pub fn double(&mut self, value: f64) -> Id {
        let bits = value.to_bits();
        let (low, high) = (self.word(bits as u32), self.word((bits >> 32) as u32));
        self.unpack(Op::UnpackLow, low, high)
    }
}
