//! A run in terms of what AVX2 has: nodes that no instruction computes become a few that one does.
//!
//! Vectors are of 8 lanes. Where a node speaks of 64-bit lanes, the "low" half of 8 lanes is lanes 0, 1, 4, 5 and the
//! "high" half 2, 3, 6, 7, as unpacking within 16 bytes has it; what 32 bits per lane become or come from follows that.

use rocjitsu_lanes::trace::graph::{Graph, Id, Node, Op};

use super::super::collect::{Run, Step};
use super::build::{Builder, EQUAL, UNORDERED};
use super::logic::Gate;
use crate::wave::scalar;

/// Whether a node can be expressed.
pub fn supports(graph: &Graph, node: &Node) -> bool {
    let operand = |at: usize| graph.get(node.args[at]).op;
    match node.op {
        // Rounding f64 once to a subnormal takes more than products.
        Op::ScaleD => false,
        Op::ScaleF => operand(1) == Op::FromI,
        Op::ToU => operand(0) == Op::MaxOrB,
        Op::Permute => operand(0) == Op::Table,
        _ => true,
    }
}

/// Quarters 0 and 2: words 0, 1, 4, 5 to the low half.
const LOW: u32 = 0x08;
/// Quarters 1 and 3: words 2, 3, 6, 7 to the low half.
const HIGH: u32 = 0x0d;
/// Quarters 1 and 2 change places.
const MIDDLE: u32 = 0xd8;
/// Of each two words the first, and the second.
const EVEN: u32 = 0x88;
const ODD: u32 = 0xdd;

struct Legal<'r> {
    run: &'r Run,
    /// All lanes are active.
    full: bool,
    b: Builder,
    map: Vec<Id>,
}

/// The run in other terms; with `full`, for waves with all lanes active.
pub fn legal(run: &Run, full: bool) -> Run {
    let mut legal = Legal {
        run,
        full,
        b: Builder::default(),
        map: vec![Id::NONE; run.graph.nodes.len()],
    };
    let mut steps = Vec::with_capacity(run.steps.len());
    for step in &run.steps {
        match *step {
            Step::Compute(id) => {
                let first = legal.b.graph.nodes.len();
                legal.map[id.0 as usize] = legal.node(id);
                let nodes = first..legal.b.graph.nodes.len();
                steps.extend(nodes.map(|at| Step::Compute(Id(at as u32))));
            }
            Step::StoreRow(key, id) => steps.push(Step::StoreRow(key, legal.at(id))),
            Step::StoreMask(n, id) => steps.push(Step::StoreMask(n, legal.at(id))),
        }
    }
    let inactive = legal.at(run.inactive);
    let graph = legal.b.graph;
    let mut live = vec![false; graph.nodes.len()];
    live[inactive.0 as usize] = !full;
    steps.reverse();
    steps.retain(|step| {
        let operands = match *step {
            Step::StoreRow(_, id) | Step::StoreMask(_, id) => [id, Id::NONE, Id::NONE],
            Step::Compute(id) if live[id.0 as usize] => graph.get(id).args,
            Step::Compute(_) => return false,
        };
        for id in operands {
            if id != Id::NONE {
                live[id.0 as usize] = true;
            }
        }
        true
    });
    steps.reverse();
    Run {
        graph,
        steps,
        inactive,
        pages: run.pages,
    }
}

impl Legal<'_> {
    /// What a node of the run has become.
    fn at(&self, id: Id) -> Id {
        match id {
            Id::NONE => id,
            _ => self.map[id.0 as usize],
        }
    }

    fn node(&mut self, id: Id) -> Id {
        let node = self.run.graph.get(id);
        let [a, b, c] = node.args.map(|arg| self.at(arg));
        let imm = node.imm;
        use Op::*;
        match node.op {
            Mask if self.full && imm == scalar::EXEC as u32 => self.b.ones(),
            ConstMask => self.b.lanes(imm),
            Table => self.b.graph.table(self.run.graph.tables[imm as usize]),
            Logic => self.b.logic(imm, [a, b, c]),
            MaskAnd => self.b.and(a, b),
            MaskOr => self.b.or(a, b),
            MaskNot => self.b.not(a),
            Select => self.b.select(a, b, c),
            TestSet => self.b.test(a, b),
            TestZero => {
                let set = self.b.test(a, b);
                self.b.not(set)
            }
            CompareI => self.b.compare(true, a, b, imm),
            CompareU => self.b.compare(false, a, b, imm),
            RotrBy => self.rotate(a, imm),
            Permute => self.permute(&node, b),
            LeadingZeros => self.leading_zeros(a),
            MinF | MaxF => self.extreme(&node, a, b),
            AddOdd => self.add_odd(a, b),
            ScaleF => {
                let exponent = self.run.graph.get(node.args[1]).args[0];
                self.scale(a, self.at(exponent))
            }
            FromU => self.unsigned_floats(a),
            ToU => self.unsigned_of_floats(a),
            Narrow => self.narrow(&node, a),
            JoinLow => self.b.unpack(UnpackLow, a, b),
            JoinHigh => self.b.unpack(UnpackHigh, a, b),
            SplitLow | MaskJoin => self.b.put(Shuffle, &[a, b], EVEN),
            SplitHigh => self.b.put(Shuffle, &[a, b], ODD),
            // Conditions of 64-bit lanes have 64 bits.
            MaskHigh => self.b.unpack(UnpackHigh, a, a),
            SelectD if self.old(&node, 0).op == MaskHigh => self.b.put(Select, &[a, b, c], 0),
            SelectD => {
                let condition = self.b.unpack(UnpackLow, a, a);
                self.b.put(Select, &[condition, b, c], 0)
            }
            HighHalf => self.b.put(Quarters, &[a], HIGH),
            Concat => {
                let both = self.b.put(Concat, &[a, b], 0);
                self.b.put(Quarters, &[both], MIDDLE)
            }
            FromID | FromFD => {
                let half = self.half(&node, a);
                self.b.put(node.op, &[half], 0)
            }
            FromUD => self.unsigned_doubles(&node, a),
            ToUD => self.unsigned_of_doubles(a),
            _ => self.b.graph.exact(Node {
                op: node.op,
                args: [a, b, c],
                imm,
            }),
        }
    }

    /// An operand of a node of the run.
    fn old(&self, node: &Node, at: usize) -> Node {
        self.run.graph.get(node.args[at])
    }

    fn rotate(&mut self, a: Id, by: u32) -> Id {
        if by.is_multiple_of(8) {
            let choice = std::array::from_fn(|i| {
                let byte = (i as u32 + by / 8) & 3 | i as u32 & !3;
                byte as u8
            });
            return self.b.bytes(a, choice);
        }
        let right = self.b.put(Op::ShrBy, &[a], by);
        let left = self.b.put(Op::ShlBy, &[a], 32 - by);
        self.b.or(right, left)
    }

    /// Bit `n` of the result's number says that lane `n` comes from the upper eight of its 16.
    fn permute(&mut self, node: &Node, from: Id) -> Id {
        if self.b.known(from).is_some() {
            return from;
        }
        let table = self.run.graph.tables[self.old(node, 0).imm as usize];
        let upper = (0..16).map(|lane| (table[lane] >> 3 & 1) << lane).sum();
        let within = self.b.graph.table(table.map(|lane| lane & 7));
        self.b.put(Op::Permute, &[within, from], upper)
    }

    /// By the exponent of a float; bits far below the highest go first, so that it is not rounded up.
    fn leading_zeros(&mut self, a: Id) -> Id {
        let lower = self.b.put(Op::ShrBy, &[a], 8);
        let top = self.b.gate(Gate::AndNot, lower, a);
        let float = self.b.put(Op::FromI, &[top], 0);
        // Negative numbers have their sign above the exponent.
        let exponent = self.b.put(Op::ShrBy, &[float], 23);
        let (bias, zero, most) = (self.b.word(158), self.b.word(0), self.b.word(32));
        let zeros = self.b.put(Op::Sub, &[bias, exponent], 0);
        let zeros = self.b.put(Op::MaxI, &[zeros, zero], 0);
        self.b.put(Op::MinI, &[zeros, most], 0)
    }

    /// Minimum or maximum with NaNs ranked.
    fn extreme(&mut self, node: &Node, a: Id, b: Id) -> Id {
        if a == b {
            // NaNs become quiet.
            let one = self.b.float(1.0);
            return self.b.put(Op::MulF, &[a, one], 0);
        }
        let max = node.op == Op::MaxF;
        let op = if max { Op::MaxOrB } else { Op::MinOrB };
        let number = |k: Option<u32>| k.filter(|k| k & 0x7fff_ffff <= 0x7f80_0000);
        let (mut x, mut y, mut signals) = (a, b, [0, 1].map(|at| self.may_signal(node, at)));
        if number(self.b.known(x)).is_some() {
            (x, y) = (y, x);
            signals = [signals[1], false];
        }
        let mut result = self.b.put(op, &[x, y], 0);
        match number(self.b.known(y)) {
            // Of zeros of both signs the second is the one that is wanted.
            Some(k) if k & 0x7fff_ffff != 0 || (k == 0) == max => signals[1] = false,
            known => {
                // The second of equal ones: of zeros of both signs the wanted one has the bits of both, or those they share.
                let equal = self.b.compare_f(x, y, EQUAL);
                result = if max {
                    let lacks = self.b.gate(Gate::AndNot, x, equal);
                    self.b.gate(Gate::AndNot, lacks, result)
                } else {
                    let has = self.b.and(x, equal);
                    self.b.or(result, has)
                };
                // Where x is no number it is the second already.
                if known.is_none() {
                    let nan = self.b.compare_f(y, y, UNORDERED);
                    result = self.b.select(nan, x, result);
                } else {
                    signals[1] = false;
                }
            }
        }
        for (value, signals) in [(y, signals[1]), (x, signals[0])] {
            if signals {
                result = self.quiet_if_signalling(value, result);
            }
        }
        result
    }

    fn may_signal(&self, node: &Node, at: usize) -> bool {
        self.run.graph.may_signal(node.args[at])
    }

    /// The value made quiet where it is a signalling NaN, else `other`. The sign of the condition is what counts.
    fn quiet_if_signalling(&mut self, value: Id, other: Id) -> Id {
        let nan = self.b.compare_f(value, value, UNORDERED);
        let shifted = self.b.put(Op::ShlBy, &[value], 9);
        let signalling = self.b.gate(Gate::AndNot, shifted, nan);
        let bit = self.b.word(0x0040_0000);
        let quiet = self.b.or(value, bit);
        self.b.put(Op::Select, &[signalling, quiet, other], 0)
    }

    /// As the lane back end for AVX2 has it: even results move by one unit toward the exact sum.
    fn add_odd(&mut self, a: Id, b: Id) -> Id {
        let g = &mut self.b;
        let sum = g.put(Op::AddF, &[a, b], 0);
        // The exact error of the rounded sum; not a number where the sum is none.
        let part = g.put(Op::SubF, &[sum, a], 0);
        let rest = g.put(Op::SubF, &[sum, part], 0);
        let of_a = g.put(Op::SubF, &[a, rest], 0);
        let of_b = g.put(Op::SubF, &[b, part], 0);
        let error = g.put(Op::AddF, &[of_a, of_b], 0);
        let (zero, one) = (g.word(0), g.word(1));
        const UNEQUAL_AND_ORDERED: u32 = 12;
        let inexact = g.compare_f(error, zero, UNEQUAL_AND_ORDERED);
        let signs = g.xor(sum, error);
        let apart = g.put(Op::SarBy, &[signs], 31);
        let even = g.gate(Gate::AndNot, sum, one);
        let moves = g.and(even, inexact);
        // One unit, negated where the signs differ.
        let step = g.xor(moves, apart);
        let step = g.put(Op::Sub, &[step, apart], 0);
        g.put(Op::Add, &[sum, step], 0)
    }

    /// Times two to the power of an integer, in f64, where that is exact.
    fn scale(&mut self, a: Id, exponent: Id) -> Id {
        let (least, most) = (self.b.word(-300i32 as u32), self.b.word(300));
        let exponent = self.b.put(Op::MaxI, &[exponent, least], 0);
        let exponent = self.b.put(Op::MinI, &[exponent, most], 0);
        let bias = self.b.word(1023);
        let exponent = self.b.put(Op::Add, &[exponent, bias], 0);
        let power = self.b.put(Op::ShlBy, &[exponent], 20);
        let zero = self.b.word(0);
        let halves = [(Op::UnpackLow, LOW), (Op::UnpackHigh, HIGH)].map(|(unpack, quarters)| {
            let factor = self.b.unpack(unpack, zero, power);
            let half = self.b.put(Op::Quarters, &[a], quarters);
            let wide = self.b.put(Op::FromFD, &[half], 0);
            let product = self.b.put(Op::MulD, &[wide, factor], 0);
            self.b.put(Op::ToFD, &[product], 0)
        });
        let both = self.b.put(Op::Concat, &halves, 0);
        self.b.put(Op::Quarters, &[both], MIDDLE)
    }

    /// High and low half words are exact; their sum is rounded once.
    fn unsigned_floats(&mut self, a: Id) -> Id {
        let mask = self.b.word(0xffff);
        let low = self.b.and(a, mask);
        let high = self.b.put(Op::ShrBy, &[a], 16);
        let [low, high] = [low, high].map(|half| self.b.put(Op::FromI, &[half], 0));
        let unit = self.b.float(65536.0);
        self.b.put(Op::FmaF, &[high, unit, low], 0)
    }

    /// Of f32 that are not below zero.
    fn unsigned_of_floats(&mut self, a: Id) -> Id {
        const AT_LEAST: u32 = 13;
        let (half, all) = (self.b.float(2_147_483_648.0), self.b.float(4_294_967_296.0));
        let large = self.b.compare_f(a, half, AT_LEAST);
        let less = self.b.and(large, half);
        let rest = self.b.put(Op::SubF, &[a, less], 0);
        let value = self.b.put(Op::ToI, &[rest], 0);
        let top = self.b.put(Op::ShlBy, &[large], 31);
        let value = self.b.xor(value, top);
        let over = self.b.compare_f(a, all, AT_LEAST);
        self.b.or(value, over)
    }

    /// The low half words in the low half; those that a shift brings there are taken from where they are.
    fn narrow(&mut self, node: &Node, a: Id) -> Id {
        let shift = self.old(node, 0);
        let (from, first) = match (shift.op, shift.imm) {
            (Op::ShrBy, 16) => (self.at(shift.args[0]), 2),
            _ => (a, 0),
        };
        let choice = std::array::from_fn(|i| match i {
            0..8 => 4 * (i as u8 / 2) + first + i as u8 % 2,
            _ => 0x80,
        });
        let packed = self.b.bytes(from, choice);
        self.b.put(Op::Quarters, &[packed], LOW)
    }

    /// The words of one half of 64-bit lanes, for a node that widens them.
    fn half(&mut self, node: &Node, a: Id) -> Id {
        match self.old(node, 0).op {
            Op::HighHalf => a,
            _ => self.b.put(Op::Quarters, &[a], LOW),
        }
    }

    /// Integers as the last bits of 2^52 and more.
    fn unsigned_doubles(&mut self, node: &Node, a: Id) -> Id {
        let above = self.b.word(0x4330_0000);
        let high = self.old(node, 0);
        let sum = match high.op {
            Op::HighHalf => self
                .b
                .unpack(Op::UnpackHigh, self.map[high.args[0].0 as usize], above),
            _ => self.b.unpack(Op::UnpackLow, a, above),
        };
        let less = self.b.double(-4_503_599_627_370_496.0);
        self.b.put(Op::AddD, &[sum, less], 0)
    }

    /// The way back; what is too large, or not a number, becomes the largest. Of numbers below zero any result will do.
    fn unsigned_of_doubles(&mut self, a: Id) -> Id {
        const TOWARD_ZERO: u32 = 3;
        let whole = self.b.put(Op::RoundD, &[a], TOWARD_ZERO);
        let most = self.b.double(4_294_967_295.0);
        let whole = self.b.put(Op::MinOrBD, &[whole, most], 0);
        let above = self.b.double(4_503_599_627_370_496.0);
        let sum = self.b.put(Op::AddD, &[whole, above], 0);
        let words = self.b.put(Op::Shuffle, &[sum, sum], EVEN);
        self.b.put(Op::Quarters, &[words], LOW)
    }
}
