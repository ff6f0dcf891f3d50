//! Halves of words: what packs them and takes them apart again leaves nothing.

use super::logic::outcome;
use super::table::{AND, XOR};
use super::{Graph, Id, NONE, Node, Op};

impl Graph {
    /// A value whose low half is the low or, with `high`, the high half of `a`; what is above it is anything.
    /// Takes apart what packs halves.
    pub(super) fn half(&mut self, a: Id, high: bool) -> Id {
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
    pub(super) fn lone_half(&mut self, a: Id, high: bool) -> Option<Id> {
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
    pub(super) fn wide_half(&mut self, a: Id) -> Id {
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
}
