//! All interleavings of a wave, its desk and helper threads, up to a bound on preemptions. The wave executes a program on
//! registers that loom watches: whoever touched one that an instruction under way reads or writes would be an error.

mod sync {
    pub use loom::sync::atomic::AtomicU32;
    pub use std::sync::atomic::Ordering;

    pub use loom::cell::UnsafeCell;

    /// So few that places are soon used again.
    pub const JOBS: usize = 1;

    pub fn pause(_: &mut u32) {
        loom::thread::yield_now();
    }
}

#[path = "desk.rs"]
#[allow(dead_code)] // What waves call and the model does not.
mod desk;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::scoreboard::{Kind, Set, Touched, windows};
use desk::Desk;
use sync::JOBS;

/// Puts a sum of the sources into the destination.
#[derive(Clone, Copy)]
struct Instruction {
    kind: Kind,
    sources: [usize; 2],
    destination: usize,
}

const REGISTERS: usize = 6;

#[derive(Default)]
struct Wave {
    desk: Desk<Instruction>,
    registers: [Register; REGISTERS],
}

struct Register(UnsafeCell<u32>);

impl Default for Register {
    fn default() -> Register {
        Register(UnsafeCell::new(1))
    }
}

// SAFETY: loom checks who is at the registers.
unsafe impl Sync for Wave {}
// SAFETY: as above.
unsafe impl Send for Wave {}

impl Wave {
    fn execute(&self, instruction: Instruction) -> bool {
        // SAFETY: loom checks that nobody writes it meanwhile.
        let read = |n: usize| self.registers[n].0.with(|p| unsafe { *p });
        let sum = instruction.sources.map(read).iter().sum::<u32>();
        // SAFETY: loom checks that nobody else is at it.
        self.registers[instruction.destination]
            .0
            .with_mut(|p| unsafe { *p = 3 * sum + 1 });
        true
    }

    /// What a wave does: matrix instructions of windows go to the desk, but for the last ones.
    fn run(&self, program: &[Instruction]) {
        let touched: Vec<_> = program.iter().map(Instruction::touched).collect();
        let windows = windows(&touched, JOBS + 1);
        for (at, &instruction) in program.iter().enumerate() {
            let window = windows.iter().find(|window| window.contains(&at));
            let last = window.is_some_and(|window| window.last() == Some(&at));
            if window.is_some() && !last && self.desk.put(instruction).is_ok() {
                continue;
            }
            self.execute(instruction);
            if last {
                let done = self.desk.drain(&mut || false, &mut |job| self.execute(job));
                assert!(done.is_some());
            }
        }
    }
}

impl Instruction {
    fn touched(&self) -> Touched {
        let [mut reads, mut writes] = [Set::default(); 2];
        assert!(self.sources.iter().all(|&r| reads.insert(r as u32, 1)));
        assert!(writes.insert(self.destination as u32, 1));
        Touched {
            kind: self.kind,
            reads,
            writes,
        }
    }
}

/// Runs a program on a wave with that many helpers, which look at the desk so often, in all orders; the results are those of
/// the program's order.
fn explore(program: &'static [(Kind, [usize; 2], usize)], helpers: usize, looks: usize) {
    let program: Vec<_> = program
        .iter()
        .map(|&(kind, sources, destination)| Instruction {
            kind,
            sources,
            destination,
        })
        .collect();
    let mut want = [1u32; REGISTERS];
    for step in &program {
        let sum = step.sources.map(|n| want[n]).iter().sum::<u32>();
        want[step.destination] = 3 * sum + 1;
    }
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let wave = Arc::new(Wave::default());
        let threads: Vec<_> = (0..helpers)
            .map(|_| {
                let wave = wave.clone();
                thread::spawn(move || {
                    // However often it looks, it is the wave that sees to the rest.
                    for _ in 0..looks {
                        wave.desk.take(&mut |job| wave.execute(job));
                    }
                })
            })
            .collect();
        wave.run(&program);
        // SAFETY: loom checks that nobody is at them.
        let read = |register: &Register| register.0.with(|p| unsafe { *p });
        assert_eq!(wave.registers.each_ref().map(read), want);
        threads.into_iter().for_each(|thread| drop(thread.join()));
    });
}

use Kind::{Drains, Matrix, Passes};

/// Windows one after the other, each of which needs what the one before gave.
#[test]
fn results_are_there_behind_a_window() {
    explore(
        &[
            (Matrix, [0, 1], 2),
            (Matrix, [0, 1], 3),
            (Matrix, [2, 1], 2),
            (Matrix, [3, 1], 3),
            (Matrix, [2, 1], 2),
            (Matrix, [3, 1], 3),
        ],
        1,
        4,
    );
}

#[test]
fn two_helpers_look_at_a_desk() {
    explore(
        &[
            (Matrix, [0, 1], 2),
            (Matrix, [0, 1], 3),
            (Matrix, [1, 2], 2),
            (Matrix, [1, 3], 3),
        ],
        2,
        1,
    );
}

/// Between the products of a window others execute that have nothing to do with them.
#[test]
fn what_passes_does_not_wait() {
    explore(
        &[
            (Matrix, [0, 1], 2),
            (Passes, [0, 4], 5),
            (Matrix, [0, 1], 3),
            (Passes, [2, 3], 4),
        ],
        1,
        3,
    );
}

/// Each hazard: without the scoreboard's look at it, loom finds two threads at a register.
#[test]
fn what_depends_waits() {
    // Read after write, write after read, write after write, drain.
    for between in [
        (Passes, [2, 0], 4),
        (Passes, [4, 4], 1),
        (Passes, [4, 4], 2),
        (Drains, [2, 2], 1),
    ] {
        let program = vec![(Matrix, [0, 1], 2), between, (Matrix, [0, 5], 3)];
        explore(program.leak(), 1, 3);
    }
}
