//! A barrier that waves on several threads signal: one atomic word. Whoever signals releases what its wave
//! wrote before, whoever sees the phase change acquires that of all who signalled.

use super::atomics::{AtomicU64, Ordering};
use crate::wave::Barrier;

/// The state of a barrier. Bits 7:0 are the members, 15:8 those that have ended, 23:16 those that have signalled, and
/// 63:32 the phase: counts reach 128 at most (M0 holds seven bits of them, a workgroup has 32 waves).
pub struct Cell(AtomicU64);

#[inline(always)]
fn pack(b: Barrier) -> u64 {
    let byte = |n: u32| u64::from(n & 0xff);
    byte(b.members) | byte(b.ended) << 8 | byte(b.signalled) << 16 | u64::from(b.phase) << 32
}

#[inline(always)]
fn unpack(word: u64) -> Barrier {
    let byte = |shift: u32| (word >> shift) as u32 & 0xff;
    Barrier {
        members: byte(0),
        ended: byte(8),
        signalled: byte(16),
        phase: (word >> 32) as u32,
    }
}

impl Default for Cell {
    fn default() -> Cell {
        Cell::new(Barrier::default())
    }
}

impl Cell {
    /// A barrier in the given state.
    pub fn new(state: Barrier) -> Cell {
        Cell(AtomicU64::new(pack(state)))
    }

    /// The state now.
    #[inline(always)]
    pub fn get(&self) -> Barrier {
        unpack(self.0.load(Ordering::Acquire))
    }

    /// Completed phases.
    #[inline(always)]
    pub fn phase(&self) -> u32 {
        self.get().phase
    }

    /// Changes the state in one step. `f` may be called several times, with the state as it is then. If not `shared`, the
    /// caller knows that no other thread uses the barrier now.
    #[inline(always)]
    pub fn update<R>(&self, shared: bool, mut f: impl FnMut(&mut Barrier) -> R) -> R {
        let mut old = self.0.load(Ordering::Relaxed);
        if !shared {
            let mut state = unpack(old);
            let result = f(&mut state);
            self.0.store(pack(state), Ordering::Relaxed);
            return result;
        }
        loop {
            let mut state = unpack(old);
            let result = f(&mut state);
            match self.0.compare_exchange_weak(
                old,
                pack(state),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return result,
                Err(now) => old = now,
            }
        }
    }

    /// Sets the state, while no other thread uses the barrier.
    pub fn set(&mut self, state: Barrier) {
        *self = Cell::new(state);
    }
}
