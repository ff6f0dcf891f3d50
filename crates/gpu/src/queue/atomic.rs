//! Atomic operations of packets (SDMA ATOMIC, PM4 ATOMIC_MEM), numbered as the texture cache's operations
//! (`TC_OP_ATOMIC_*`): bit 5 set for 64 bits, bit 6 for those that return nothing.

use super::bus::{Bus, BusFault};

/// An operation on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atomic {
    /// 64 bits instead of 32.
    wide: bool,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Swap,
    CompareSwap,
    Add,
    Sub,
    SignedMin,
    UnsignedMin,
    SignedMax,
    UnsignedMax,
    And,
    Or,
    Xor,
    Increment,
    Decrement,
}

/// What an atomic did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What was in memory.
    pub old: u64,
    /// For a compare-and-swap: it was what was expected.
    pub matched: bool,
}

impl Atomic {
    /// The operation with a number, unless it is a floating-point or unknown one.
    pub fn from_number(number: u32) -> Option<Atomic> {
        let kind = match number & 0x1f {
            0x07 => Kind::Swap,
            0x08 => Kind::CompareSwap,
            0x0f => Kind::Add,
            0x10 => Kind::Sub,
            0x11 => Kind::SignedMin,
            0x12 => Kind::UnsignedMin,
            0x13 => Kind::SignedMax,
            0x14 => Kind::UnsignedMax,
            0x15 => Kind::And,
            0x16 => Kind::Or,
            0x17 => Kind::Xor,
            0x18 => Kind::Increment,
            0x19 => Kind::Decrement,
            _ => return None,
        };
        Some(Atomic {
            wide: number & 0x20 != 0,
            kind,
        })
    }

    /// Whether it compares.
    pub fn compares(self) -> bool {
        self.kind == Kind::CompareSwap
    }

    /// Applies the operation.
    pub fn apply(
        self,
        bus: &mut Bus<'_>,
        address: u64,
        source: u64,
        compare: u64,
    ) -> Result<Outcome, BusFault> {
        let (old, compare) = if self.wide {
            let signed =
                |old: u64, take: fn(i64, i64) -> i64| take(old as i64, source as i64) as u64;
            let old = bus.update64(address, |old| self.next(old, source, compare, signed))?;
            (old, compare)
        } else {
            let (source, compare) = (source as u32, compare as u32);
            let old = bus.update32(address, |old| {
                let signed = |old: u64, take: fn(i64, i64) -> i64| {
                    take((old as i32).into(), (source as i32).into()) as u64
                };
                self.next(old.into(), source.into(), compare.into(), signed) as u32
            })?;
            (old.into(), compare.into())
        };
        Ok(Outcome {
            old,
            matched: !self.compares() || old == compare,
        })
    }

    fn next(
        self,
        old: u64,
        source: u64,
        compare: u64,
        signed: impl Fn(u64, fn(i64, i64) -> i64) -> u64,
    ) -> u64 {
        match self.kind {
            Kind::Swap => source,
            Kind::CompareSwap if old == compare => source,
            Kind::CompareSwap => old,
            Kind::Add => old.wrapping_add(source),
            Kind::Sub => old.wrapping_sub(source),
            Kind::SignedMin => signed(old, Ord::min),
            Kind::SignedMax => signed(old, Ord::max),
            Kind::UnsignedMin => old.min(source),
            Kind::UnsignedMax => old.max(source),
            Kind::And => old & source,
            Kind::Or => old | source,
            Kind::Xor => old ^ source,
            Kind::Increment if old >= source => 0,
            Kind::Increment => old + 1,
            Kind::Decrement if old == 0 || old > source => source,
            Kind::Decrement => old - 1,
        }
    }
}
