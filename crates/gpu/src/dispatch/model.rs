//! All interleavings of two threads that take waves from a board, up to a bound on preemptions.

mod atomics {
    pub use loom::sync::atomic::{AtomicBool, AtomicU64};
    pub use std::sync::atomic::Ordering;
}

#[path = "board.rs"]
mod board;

use board::{Board, Claim, State};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

const WAVES: usize = 2;
/// Turns of each wave; behind each but the last it waits for the other one.
const TURNS: u32 = 2;

struct Model {
    board: Board,
    /// How many waves came to the barrier: phase `n` is complete with `WAVES * n` of them.
    arrived: AtomicU64,
    /// Turns that each wave has had. Only the thread that claimed the wave touches it.
    turns: [UnsafeCell<u32>; WAVES],
}

impl Model {
    fn reached(&self, phase: u32) -> bool {
        self.arrived.load(Ordering::Acquire) >= WAVES as u64 * u64::from(phase)
    }

    /// Runs a wave for a turn.
    fn turn(&self, index: usize, me: u8) {
        // SAFETY: loom checks that nobody else is at it.
        let turn = self.turns[index].with_mut(|p| unsafe {
            *p += 1;
            *p
        });
        if turn == TURNS {
            return self.board.put(index, me, State::Held);
        }
        self.arrived.fetch_add(1, Ordering::AcqRel);
        let state = State::Barrier {
            slot: 0,
            phase: turn,
        };
        self.board.put(index, me, state);
    }

    /// What a thread does. The owner stays until nothing can run any more, and closes the board; a helper looks `looks`
    /// times at most.
    fn work(&self, me: u8, looks: Option<usize>) {
        let mut last = self.board.last();
        let mut looked = 0;
        while !self.board.is_closed() && looks.is_none_or(|looks| looked < looks) {
            looked += 1;
            match self
                .board
                .claim(me, last, (true, looked % 2 == 1), |_, phase| {
                    self.reached(phase)
                }) {
                Claim::Wave(index) => {
                    last = index;
                    self.turn(index, me);
                }
                Claim::Stuck if looks.is_none() => self.board.close(),
                Claim::Busy | Claim::Stuck => thread::yield_now(),
            }
        }
    }
}

/// No wave runs twice at a time or misses a turn, and a board is stuck only when all waves have ended.
#[test]
fn every_wave_has_its_turns_on_one_thread_at_a_time() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let model = Arc::new(Model {
            board: Board::new([State::Ready; WAVES]),
            arrived: AtomicU64::new(0),
            turns: std::array::from_fn(|_| UnsafeCell::new(0)),
        });
        let helper = model.clone();
        let thread = thread::spawn(move || helper.work(1, Some(3)));
        model.work(0, None);
        thread.join().unwrap();
        for turns in &model.turns {
            // SAFETY: as in `turn`.
            assert_eq!(turns.with(|p| unsafe { *p }), TURNS);
        }
        assert_eq!(model.board.puts(), u64::from(TURNS) * WAVES as u64);
    });
}
