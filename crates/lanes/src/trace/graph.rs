//! Lane operations as a graph of values: what a kernel computes on 16 lanes, written down instead of computed.
//! Equal nodes are one node; constants are folded; a flush of what cannot be subnormal disappears.

use std::collections::HashMap;

/// A node of a [`Graph`]. Nodes come after those that they use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub u32);

impl Id {
    /// No operand.
    pub const NONE: Id = Id(u32::MAX);
}

/// What a node is. Results are 16 words unless another type is named: halves of 64-bit lanes are 8 times
/// 64 bits, conditions are a bit for each lane (8 bits for halves of 64-bit lanes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// The register whose key is `imm`, as it was at the start.
    Row,
    /// Word `imm` of the scalar file, in every lane.
    Scalar,
    /// `imm`, in every lane.
    Const,
    /// Table `imm` of the graph.
    Table,
    /// The numbers of the lanes.
    Lane,
    /// Condition: the lanes' bits of the mask at `imm` in the scalar file.
    Mask,
    /// Condition: the bits of `imm`.
    ConstMask,

    /// Wrapping sum.
    Add,
    /// Wrapping difference.
    Sub,
    /// Low 32 bits of the product.
    Mul,
    /// Signed minimum.
    MinI,
    /// Signed maximum.
    MaxI,
    /// Unsigned minimum.
    MinU,
    /// Unsigned maximum.
    MaxU,
    /// Any bitwise function of three values: bit `4a + 2b + c` of `imm`. Operands that are absent do not matter.
    Logic,
    /// Shift by a count below 32 in each lane.
    Shl,
    /// As `Shl`, right, zeros shifted in.
    Shr,
    /// As `Shl`, right, sign bits shifted in.
    Sar,
    /// Shift by `imm`, below 32.
    ShlBy,
    /// See `ShlBy`.
    ShrBy,
    /// See `ShlBy`.
    SarBy,
    /// Rotate right by `imm`.
    RotrBy,
    /// 64-bit product of the even unsigned words, in pairs of words.
    MulEvenU,
    /// 64-bit product of the even signed words, in pairs of words.
    MulEvenI,
    /// Each pair of words shifted right by 32.
    HighToLow,
    /// Unsigned minimum of bytes.
    MinB,
    /// Bytes of `a` within each 16, chosen by the bytes of `b` as `vpshufb` has it.
    Bytes,
    /// Lanes of `b`, chosen by the words of `a`.
    Permute,
    /// `a ? b : c`.
    Select,

    /// f32 sum.
    AddF,
    /// f32 difference.
    SubF,
    /// f32 product.
    MulF,
    /// f32 `a * b + c`.
    FmaF,
    /// f32 quotient.
    DivF,
    /// f32 square root.
    SqrtF,
    /// Zero bits above the highest that is set.
    LeadingZeros,
    /// f32 minimum, -0 below +0; NaNs are ranked as [`crate::vector::Lanes::RANKS_NANS`] says.
    MinF,
    /// f32 maximum, as `MinF`.
    MaxF,
    /// f32 maximum that is `b` where either is NaN or both are zero.
    MaxOrB,
    /// f32 minimum, as `MaxOrB`.
    MinOrB,
    /// f32 sum rounded to odd; the third operand is the integer 1 in every lane.
    AddOdd,
    /// f32 rounded to an integer as `imm` says: 0 to nearest even, 1 down, 2 up, 3 toward zero.
    RoundF,
    /// f32 `a` times two to the power of `b`, an f32 that is an integer.
    ScaleF,
    /// f32 of a signed integer.
    FromI,
    /// f32 of an unsigned integer.
    FromU,
    /// Signed integer of an f32, truncated; 0x80000000 where it does not fit.
    ToI,
    /// Unsigned integer of an f32, truncated; 0xffffffff where it does not fit.
    ToU,
    /// The low halves of the words, packed into the low half of the vector.
    Narrow,
    /// Words of what [`Op::Narrow`] packs.
    Widen,
    /// f32 of packed f16.
    FromF16,
    /// Packed f16 of f32, rounded as `imm` says: 0 to nearest even, 3 toward zero.
    ToF16,

    /// 64-bit lanes 0–7 of low and high words. The third operand of these four is the table for `vpermt2d`.
    JoinLow,
    /// 64-bit lanes 8–15 of low and high words.
    JoinHigh,
    /// Low words of two halves of 64-bit lanes.
    SplitLow,
    /// High words of two halves of 64-bit lanes.
    SplitHigh,
    /// f64 sum.
    AddD,
    /// f64 product.
    MulD,
    /// f64 `a * b + c`.
    FmaD,
    /// `a ? b : c` on 64-bit lanes.
    SelectD,
    /// f64 quotient.
    DivD,
    /// f64 square root.
    SqrtD,
    /// f64 `a` times two to the power of `b`, an f64 that is an integer.
    ScaleD,
    /// f64 rounded to an integer, as [`Op::RoundF`].
    RoundD,
    /// The upper eight words, in the low half of the vector.
    HighHalf,
    /// The low halves of two vectors.
    Concat,
    /// f64 of the signed integers in the low half.
    FromID,
    /// f64 of the unsigned integers in the low half.
    FromUD,
    /// f64 of the f32 in the low half.
    FromFD,
    /// Signed integers of f64, truncated, in the low half; 0x80000000 where they do not fit.
    ToID,
    /// Unsigned integers of f64, truncated, in the low half; 0xffffffff where they do not fit.
    ToUD,
    /// f32 of f64, in the low half.
    ToFD,

    /// Condition: signed comparison; `imm` is 0 equal, 1 less, 2 less or equal, 4 unequal, 5 not less, 6 greater.
    CompareI,
    /// Condition: unsigned comparison.
    CompareU,
    /// Condition: comparison of f32; `imm` as `vcmpps` has it.
    CompareF,
    /// Condition: comparison of f64 (8 bits).
    CompareD,
    /// Condition: `a & b` is zero.
    TestZero,
    /// Condition: `a & b` is not zero.
    TestSet,
    /// Both conditions.
    MaskAnd,
    /// Either condition.
    MaskOr,
    /// The opposite condition.
    MaskNot,
    /// Bits 15:8 of a condition.
    MaskHigh,
    /// A condition of 16 from two of 8: low, high.
    MaskJoin,

    // What kernels are never traced to: a compiler for a narrower host puts these in place of other nodes.
    /// The lanes of `b` whose bits of `imm` are set, the others of `a`.
    Blend,
    /// The quarters of a vector of 32 bytes that `imm` names, two bits for each.
    Quarters,
    /// In each 16 bytes: the first two words of `a` and of `b`, in turns.
    UnpackLow,
    /// In each 16 bytes: the last two words of `a` and of `b`, in turns.
    UnpackHigh,
    /// In each 16 bytes: two words of `a`, then two of `b`, that `imm` names, two bits for each.
    Shuffle,
    /// f64 minimum that is `b` where either is NaN.
    MinOrBD,
}

impl Op {
    /// Whether the result is a condition.
    pub fn is_condition(self) -> bool {
        use Op::*;
        matches!(
            self,
            Mask | ConstMask
                | CompareI
                | CompareU
                | CompareF
                | CompareD
                | TestZero
                | TestSet
                | MaskAnd
                | MaskOr
                | MaskNot
                | MaskHigh
                | MaskJoin
        )
    }
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

const A: u32 = 0xf0;
const B: u32 = 0xcc;
const C: u32 = 0xaa;
const NONE: Id = Id::NONE;
use table::{AND, OR, XOR};

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

    /// A value whose low half is the low or, with `high`, the high half of `a`; what is above it is anything.
    /// Takes apart what packs halves.
    fn half(&mut self, a: Id, high: bool) -> Id {
        let Node { op, args, imm } = self.get(a);
        match op {
            Op::ShlBy if imm == 16 && high => return self.half(args[0], false),
            Op::ShrBy if imm == 16 && !high => return self.half(args[0], true),
            Op::RotrBy if imm == 16 => return self.half(args[0], !high),
            Op::ShlBy if imm >= 16 && !high => return self.constant(0),
            Op::ShrBy if imm >= 16 && high => return self.constant(0),
            Op::Widen if high => return self.constant(0),
            Op::Logic => {
                if let Some(half) = self.half_of_logic(args, imm, high) {
                    return half;
                }
            }
            _ => {}
        }
        if high { self.one(Op::ShrBy, a, 16) } else { a }
    }

    /// A half of a bitwise function with zeros above it, if that is at hand.
    fn lone_half(&mut self, a: Id, high: bool) -> Option<Id> {
        let Node { op, args, imm } = self.get(a);
        if op != Op::Logic {
            return None;
        }
        let half = self.half_of_logic(args, imm, high)?;
        (self.get(half).op == Op::Widen).then_some(half)
    }

    /// [`Graph::half`] of a bitwise function, if constants leave one value of it.
    fn half_of_logic(&mut self, args: [Id; 3], f: u32, high: bool) -> Option<Id> {
        let known = args.map(|arg| self.known_half(arg, high, 3));
        let mut unknown = (0..3).filter(|&i| args[i] != NONE && known[i].is_none());
        let (at, None) = (unknown.next()?, unknown.next()) else {
            return None;
        };
        // What the half is where the unknown value is zero, and where it is one.
        let [zeros, ones] = [0, 0xffff].map(|bits| outcome(f, known.map(|k| k.unwrap_or(bits))));
        if (zeros, ones) == (0, 0xffff) {
            return Some(self.half(args[at], high));
        }
        // Signs that are turned or cut off.
        let (f, mask) = if zeros ^ ones == 0xffff {
            (XOR, zeros)
        } else if zeros == 0 {
            (AND, ones)
        } else {
            return None;
        };
        let value = self.half(args[at], high);
        let mask = self.constant(mask);
        Some(self.logic(f, value, mask))
    }

    /// The low or the high half, if it is the same in all lanes.
    fn known_half(&self, a: Id, high: bool, depth: u32) -> Option<u32> {
        if a == NONE {
            return None;
        }
        let Node { op, args, imm } = self.get(a);
        match op {
            Op::Const if high => Some(imm >> 16),
            Op::Const => Some(imm & 0xffff),
            Op::ShlBy if imm >= 16 && !high => Some(0),
            Op::ShrBy if imm >= 16 && high => Some(0),
            Op::Widen if high => Some(0),
            Op::Logic if depth > 0 => {
                let known = args.map(|arg| self.known_half(arg, high, depth - 1));
                let [least, most] =
                    [0, 0xffff].map(|k| outcome(imm, known.map(|h| h.unwrap_or(k))));
                // One unknown value: if neither of its values matters, none between them does.
                let single = (0..3)
                    .filter(|&i| args[i] != NONE && known[i].is_none())
                    .count()
                    <= 1;
                (single && least == most).then_some(least)
            }
            _ => None,
        }
    }

    /// f32 of packed halves; signs that are turned or cut off there are so here.
    fn wide_half(&mut self, a: Id) -> Id {
        let inner = self.get(a).args[0];
        let Node { op, args, imm } = self.get(inner);
        let sign = args.get(1).and_then(|&mask| {
            let mask = (mask != NONE).then(|| self.constant_of(mask))??;
            match (op, imm, mask & 0xffff) {
                (Op::Logic, XOR, 0x8000) => Some(0x8000_0000),
                (Op::Logic, AND, 0x7fff) => Some(0x7fff_ffff),
                _ => None,
            }
        });
        match sign {
            Some(mask) if args[2] == NONE => {
                let plain = self.one(Op::Narrow, args[0], 0);
                let wide = self.one(Op::FromF16, plain, 0);
                let mask = self.constant(mask);
                self.logic(imm, wide, mask)
            }
            _ => self.put(Op::FromF16, [a, NONE, NONE], 0),
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
    fn as_and(&self, id: Id) -> Option<(Id, Id)> {
        let node = self.get(id);
        (node.op == Op::Logic && node.imm == AND && node.args[2] == NONE)
            .then_some((node.args[0], node.args[1]))
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

    /// Whether a lane can be a signalling NaN: an f32, or an f16 with zeros above it.
    pub fn may_signal(&self, a: Id) -> bool {
        use Op::*;
        let node = self.get(a);
        match node.op {
            Widen => self.get(node.args[0]).op != ToF16,
            AddF | SubF | MulF | DivF | SqrtF | FmaF | MinF | MaxF | AddOdd | RoundF | ScaleF
            | FromI | FromU | FromF16 => false,
            _ => true,
        }
    }

    /// Whether `a ? b : c` replaces subnormal f32 values of `c` by zeros of their sign.
    fn is_flush(&self, a: Id, b: Id, c: Id) -> bool {
        let test = self.get(a);
        let exponent = test.op == Op::TestZero
            && test.args[0] == c
            && self.constant_of(test.args[1]) == Some(0x7f80_0000);
        exponent
            && self
                .as_and(b)
                .is_some_and(|(x, s)| x == c && self.constant_of(s) == Some(1 << 31))
    }

    /// A number from zero on that no lane is below, as f32, unless it is a NaN. Rounding is monotonic: what an operation
    /// makes of the least operands is not above what it makes of others.
    fn least(&self, id: Id, depth: u32) -> Option<f32> {
        let node = self.get(id);
        let [a, b, c] = node.args;
        let deeper = |id| depth.checked_sub(1).and_then(|depth| self.least(id, depth));
        match node.op {
            Op::Const => Some(f32::from_bits(node.imm)).filter(|k| *k >= 0.0 && k.is_finite()),
            Op::FromU => Some(0.0),
            Op::AddF => Some(deeper(a)? + deeper(b)?),
            Op::MulF => Some(deeper(a)? * deeper(b)?),
            Op::FmaF => {
                let c = deeper(c)?;
                Some(deeper(a)?.mul_add(deeper(b)?, c))
            }
            Op::Select if self.is_flush(a, b, c) => deeper(c).map(|least| {
                if least < f32::MIN_POSITIVE {
                    0.0
                } else {
                    least
                }
            }),
            _ => None,
        }
        .filter(|least| !least.is_nan())
    }

    /// Whether no lane can be a subnormal f32.
    fn is_flushed(&self, id: Id, depth: u32) -> bool {
        let node = self.get(id);
        let [a, b, c] = node.args;
        let deeper = |id| depth > 0 && self.is_flushed(id, depth - 1);
        match node.op {
            Op::Const => node.imm & 0x7f80_0000 != 0 || node.imm & 0x7fff_ffff == 0,
            Op::FromI | Op::FromU | Op::FromF16 | Op::RoundF => true,
            Op::Select => self.is_flush(a, b, c) || deeper(b) && deeper(c),
            Op::MinF | Op::MaxF => deeper(a) && deeper(b),
            Op::AddF | Op::MulF | Op::FmaF => self
                .least(id, depth.min(4))
                .is_some_and(|least| least >= f32::MIN_POSITIVE),
            // The sign cut off, kept alone, set or turned.
            Op::Logic if node.args[2] == NONE && b != NONE => {
                match (node.imm, self.constant_of(b)) {
                    (AND, Some(0x8000_0000)) => true,
                    (AND, Some(0x7fff_ffff)) => deeper(a),
                    (OR | XOR, Some(0x8000_0000)) => deeper(a),
                    _ => false,
                }
            }
            _ => false,
        }
    }
}

/// A two-valued function by its table, applied to tables of its operands.
fn on(table: u32, a: u32, b: u32) -> u32 {
    let f = |x: u32, y: u32| table >> (4 * x + 2 * y) & 1;
    (0..8).fold(0, |all, i| all | f(a >> i & 1, b >> i & 1) << i)
}

/// A three-valued function by its table, applied to half words.
fn outcome(f: u32, [a, b, c]: [u32; 3]) -> u32 {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of a bitwise node for one bit of each of its leaves.
    fn bit(g: &Graph, id: Id, of: &dyn Fn(u32) -> u32) -> u32 {
        let node = g.get(id);
        let arg = |i: usize| {
            if node.args[i] == NONE {
                0
            } else {
                bit(g, node.args[i], of)
            }
        };
        match node.op {
            Op::Row => of(node.imm),
            Op::Const => node.imm & 1,
            Op::Logic => node.imm >> (4 * arg(0) + 2 * arg(1) + arg(2)) & 1,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn logic_of_logic_keeps_its_meaning() {
        let tables = [table::AND, table::OR, table::XOR];
        for (t1, t2, t3) in (0..27).map(|i| (i % 3, i / 3 % 3, i / 9)) {
            let mut g = Graph::default();
            let rows: Vec<Id> = (0..4).map(|i| g.leaf(Op::Row, i)).collect();
            let f = |t: usize, x: u32, y: u32| tables[t] >> (4 * x + 2 * y) & 1;
            for picks in 0..256u32 {
                let [i, j, k, l] = [0, 2, 4, 6].map(|s| (picks >> s & 3) as usize);
                let left = g.logic(tables[t1], rows[i], rows[j]);
                let right = g.logic(tables[t2], rows[k], rows[l]);
                let all = g.logic(tables[t3], left, right);
                for bits in 0..16u32 {
                    let of = |row: u32| bits >> row & 1;
                    let (a, b) = (of(i as u32), of(j as u32));
                    let want = f(t3, f(t1, a, b), f(t2, of(k as u32), of(l as u32)));
                    assert_eq!(bit(&g, all, &of), want, "{picks:b} {bits:b} {t1} {t2} {t3}");
                }
            }
        }
    }

    #[test]
    fn flushing_twice_is_flushing_once() {
        let mut g = Graph::default();
        let x = g.leaf(Op::Row, 0);
        let flush = |g: &mut Graph, x: Id| {
            let (e, s, zero) = (g.constant(0x7f80_0000), g.constant(1 << 31), g.constant(0));
            let exponent = g.logic(table::AND, x, e);
            let tiny = g.two(Op::CompareI, exponent, zero, 0);
            let sign = g.logic(table::AND, x, s);
            g.three(Op::Select, tiny, sign, x)
        };
        let once = flush(&mut g, x);
        assert_ne!(once, x);
        assert_eq!(flush(&mut g, once), once);
    }

    /// Sums that cannot be small need no flush, products and differences may.
    #[test]
    fn what_is_far_from_zero_is_not_flushed() {
        let mut g = Graph::default();
        let flush = |g: &mut Graph, x: Id| {
            let (e, s) = (g.constant(0x7f80_0000), g.constant(1 << 31));
            let tiny = g.two(Op::TestZero, x, e, 0);
            let sign = g.logic(table::AND, x, s);
            g.three(Op::Select, tiny, sign, x)
        };
        let [row, other] = [0, 1].map(|n| g.leaf(Op::Row, n));
        let count = g.one(Op::FromU, row, 0);
        let [four, one, minus, tiny] =
            [4.0, 1.0, -1.0, f32::MIN_POSITIVE / 2.0].map(|k: f32| g.constant(k.to_bits()));
        let sum = g.three(Op::FmaF, count, four, one);
        assert_eq!(flush(&mut g, sum), sum);
        let more = g.three(Op::FmaF, count, sum, sum);
        assert_eq!(flush(&mut g, more), more);
        for (op, args) in [
            (Op::MulF, [count, count, Id::NONE]),
            (Op::MulF, [sum, tiny, Id::NONE]),
            (Op::AddF, [sum, minus, Id::NONE]),
            (Op::AddF, [sum, other, Id::NONE]),
            (Op::FmaF, [count, minus, sum]),
            (Op::FmaF, [count, count, tiny]),
        ] {
            let [a, b, c] = args;
            let small = g.three(op, a, b, c);
            assert_ne!(flush(&mut g, small), small, "{op:?}");
        }
    }

    /// What packs two f16 and takes them apart again leaves nothing but the conversions, signs included.
    #[test]
    fn packed_halves_stay_apart() {
        let mut g = Graph::default();
        let rows = [0, 1].map(|n| g.leaf(Op::Row, n));
        let packed = rows.map(|row| g.one(Op::ToF16, row, 0));
        let wide = packed.map(|half| g.one(Op::Widen, half, 0));
        let high = g.one(Op::ShlBy, wide[1], 16);
        let both = g.logic(table::OR, wide[0], high);
        let signs = g.constant(0x8000_8000);
        let turned = g.logic(table::XOR, both, signs);
        let swapped = g.one(Op::RotrBy, both, 16);
        let sign = g.constant(0x8000_0000);
        for (part, half) in packed.into_iter().enumerate() {
            let taken = |g: &mut Graph, word: Id, high: bool| {
                let word = if high {
                    g.one(Op::ShrBy, word, 16)
                } else {
                    word
                };
                g.one(Op::Narrow, word, 0)
            };
            assert_eq!(taken(&mut g, both, part == 1), half);
            assert_eq!(taken(&mut g, swapped, part == 0), half);
            let f32 = g.one(Op::FromF16, half, 0);
            let negative = g.logic(table::XOR, f32, sign);
            let narrow = taken(&mut g, turned, part == 1);
            assert_eq!(g.one(Op::FromF16, narrow, 0), negative);
        }
        let mask = g.constant(0xffff);
        assert_eq!(g.logic(table::AND, both, mask), wide[0]);
        assert_eq!(g.one(Op::ShrBy, both, 16), wide[1]);
    }
}
