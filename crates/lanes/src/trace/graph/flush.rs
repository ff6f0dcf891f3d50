//! What a value cannot be: a signalling NaN, a subnormal f32.

use super::table::{AND, OR, XOR};
use super::{Graph, Id, NONE, Op};

impl Graph {
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
    pub(super) fn is_flush(&self, a: Id, b: Id, c: Id) -> bool {
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
    pub(super) fn is_flushed(&self, id: Id, depth: u32) -> bool {
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
