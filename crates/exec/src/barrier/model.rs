//! All interleavings of threads that signal a barrier, end and wait for it, up to a bound on preemptions.

mod atomics {
    pub use loom::sync::atomic::AtomicU64;
    pub use std::sync::atomic::Ordering;
}

#[path = "cell.rs"]
#[allow(dead_code)]
mod cell;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::complete;
use crate::wave::Barrier;
use cell::Cell;

fn explore(f: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(f);
}

fn signal(cell: &Cell) -> bool {
    cell.update(true, |barrier| {
        let first = barrier.signalled == 0;
        barrier.signalled += 1;
        complete(barrier);
        first
    })
}

fn wait(cell: &Cell, phase: u32) {
    while cell.phase() == phase {
        thread::yield_now();
    }
}

fn barrier(members: u32) -> Cell {
    Cell::new(Barrier {
        members,
        ..Barrier::default()
    })
}

/// What each wave wrote before it signalled is there for all behind the barrier, phase after phase.
#[test]
fn writes_before_a_barrier_are_seen_behind_it() {
    explore(|| {
        let shared = Arc::new((barrier(2), [UnsafeCell::new(0u32), UnsafeCell::new(0u32)]));
        let run = |me: usize, shared: &(Cell, [UnsafeCell<u32>; 2])| {
            let (cell, data) = shared;
            for phase in 0..2 {
                // The other one reads this only behind the barrier, and has read it before this one writes again: two
                // barriers are between.
                // SAFETY: loom checks that nobody else is at it.
                data[me].with_mut(|p| unsafe { *p = phase * 10 + me as u32 });
                signal(cell);
                wait(cell, 2 * phase);
                // SAFETY: as above.
                let other = data[1 - me].with(|p| unsafe { *p });
                assert_eq!(other, phase * 10 + (1 - me) as u32);
                signal(cell);
                wait(cell, 2 * phase + 1);
            }
        };
        let second = shared.clone();
        let thread = thread::spawn(move || run(1, &second));
        run(0, &shared);
        thread.join().unwrap();
        assert_eq!(shared.0.phase(), 4);
    });
}

/// Exactly one wave is the first of a phase, and an end completes what the others wait for, whichever comes first.
#[test]
fn one_signal_is_the_first_and_ends_count() {
    explore(|| {
        let cell = Arc::new(barrier(3));
        let other = cell.clone();
        let signaller = thread::spawn(move || signal(&other));
        let other = cell.clone();
        let ender = thread::spawn(move || {
            other.update(true, |barrier| {
                barrier.ended += 1;
                if barrier.signalled > 0 {
                    complete(barrier);
                }
            });
        });
        let mine = signal(&cell);
        let theirs = signaller.join().unwrap();
        ender.join().unwrap();
        assert!(mine != theirs);
        let state = cell.get();
        assert_eq!((state.phase, state.signalled, state.ended), (1, 0, 1));
    });
}
