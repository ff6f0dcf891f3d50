//! All interleavings of two threads that take waves from a board, up to a bound on preemptions.

mod atomics {
    pub use loom::sync::atomic::{AtomicBool, AtomicU64};
    pub use std::sync::atomic::Ordering;
}

#[path = "board.rs"]
mod board;

use board::{Board, Claim, Own, State};
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
            return self.board.put(index, me, State::Held, turn - 1);
        }
        self.arrived.fetch_add(1, Ordering::AcqRel);
        let state = State::Barrier {
            slot: 0,
            phase: turn,
        };
        self.board.put(index, me, state, turn);
    }

    /// What a thread does. The owner stays until nothing can run any more, and closes the board; a helper looks `looks`
    /// times at most.
    fn work(&self, me: u8, looks: Option<usize>) {
        let reached = |_, phase| self.reached(phase);
        work(&self.board, me, looks, reached, |index| {
            self.turn(index, me)
        });
    }
}

fn work(
    board: &Board,
    me: u8,
    looks: Option<usize>,
    reached: impl Fn(u8, u32) -> bool,
    turn: impl Fn(usize),
) {
    let (mut last, mut own) = (board.start(me), Own::default());
    let mut looked = 0;
    while !board.is_closed() && looks.is_none_or(|looks| looked < looks) {
        looked += 1;
        let manner = (true, looked % 2 == 1);
        match board.claim(me, last, &mut own, manner, &reached) {
            Claim::Wave(index) => {
                last = index;
                turn(index);
            }
            Claim::Stuck if looks.is_none() => board.close(),
            Claim::Busy | Claim::Stuck => thread::yield_now(),
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
            board: Board::new([(State::Ready, 0, 0); WAVES], 2),
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

/// Waves that meet at a barrier, ask memory for something, load from LDS, and then store there, with no barrier between.
struct Pivot {
    board: Board,
    arrived: AtomicU64,
    lds: UnsafeCell<u32>,
    /// What each wave does next: 0 comes to the barrier, 1 loads, 2 stores, 3 has done so.
    next: [UnsafeCell<u32>; WAVES],
}

impl Pivot {
    fn reached(&self, phase: u32) -> bool {
        phase == 0 || self.arrived.load(Ordering::Acquire) >= WAVES as u64
    }

    fn turn(&self, index: usize, me: u8) {
        let next = |change: u32| {
            // SAFETY: loom checks that nobody else is at it.
            self.next[index].with_mut(|p| unsafe {
                *p += change;
                *p
            })
        };
        if next(0) == 0 {
            next(1);
            if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 < WAVES as u64 {
                let state = State::Barrier { slot: 0, phase: 1 };
                return self.board.put(index, me, state, 1);
            }
            // The last one goes on at once.
        }
        if next(0) == 1 {
            self.board.goes_on(index, me, 1);
            // SAFETY: loom checks that nobody stores meanwhile, which is what this is about.
            let value = self.lds.with(|p| unsafe { *p });
            assert_eq!(value, 0);
            next(1);
            return self.board.put(index, me, State::Ahead, 1);
        }
        // Two stores at a time would be an error for loom.
        if index == 0 {
            // SAFETY: as above.
            self.lds.with_mut(|p| unsafe { *p = 1 });
        }
        next(1);
        self.board.put(index, me, State::Held, 1);
    }
}

/// No wave stores to LDS what another one has yet to load, which is just running on another thread or was not taken yet.
#[test]
fn no_wave_stores_before_all_have_loaded() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let model = Arc::new(Pivot {
            board: Board::new([(State::Ready, 0, 0); WAVES], 2),
            arrived: AtomicU64::new(0),
            lds: UnsafeCell::new(0),
            next: std::array::from_fn(|_| UnsafeCell::new(0)),
        });
        let helper = model.clone();
        let run = |model: &Pivot, me, looks| {
            let reached = |_, phase| model.reached(phase);
            work(&model.board, me, looks, reached, |index| {
                model.turn(index, me)
            });
        };
        let thread = thread::spawn(move || run(&helper, 1, Some(3)));
        run(&model, 0, None);
        thread.join().unwrap();
        for next in &model.next {
            // SAFETY: nobody else is there any more.
            assert_eq!(next.with(|p| unsafe { *p }), 3);
        }
    });
}
