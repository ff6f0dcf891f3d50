//! Matrix instructions on helper threads: windows of independent ones are found when a block is decoded (`plan`, by the
//! rules of `scoreboard`); a wave that comes to one lays it down on a desk (`desk`, `issue`), where helpers take it. The wave
//! goes on with what does not need the result, executes the last one of the window itself, then those that nobody has
//! taken, and waits for the others. Where that gains nothing, which is measured (`cost`), nobody is asked.
//!
//! When the last instruction of a window has executed, or a wave's turn ends for whatever reason, nothing is under way: so
//! branches, barriers, faults and whoever looks at registers find them as if there were no helpers.

mod cost;
mod desk;
mod issue;
mod job;
#[cfg(test)]
#[allow(clippy::duplicate_mod)] // It has the desk and the scoreboard over loom's atomics.
mod model;
mod plan;
mod scoreboard;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use desk::Desk;
use job::Job;

pub use issue::{Issuer, Turn};
pub(crate) use plan::{Finder, Seat, insert};
pub(crate) use scoreboard::Set;

mod sync {
    pub use std::sync::atomic::{AtomicU32, Ordering};

    /// The most jobs that a window leaves to others.
    pub const JOBS: usize = 15;

    /// A cell as loom's.
    pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub const fn new(value: T) -> UnsafeCell<T> {
            UnsafeCell(std::cell::UnsafeCell::new(value))
        }

        #[inline(always)]
        pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }

        #[inline(always)]
        pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }

    /// Looks before a thread lets others have its core.
    const SPINS: u32 = 1 << 10;

    /// Waits a little for another thread.
    pub fn pause(looks: &mut u32) {
        *looks += 1;
        if looks.is_multiple_of(SPINS) {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Workers that can give instructions away at a time; others execute all of theirs.
const DESKS: usize = 16;

/// Looks at all desks after which a helper sleeps until it is called: about 100 µs.
const LOOKS: u32 = 1 << 12;

/// When helpers take part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Where that was measured to gain time, and cores are free.
    #[default]
    Measured,
    /// Wherever registers allow it, and they take all that a wave does not keep: for tests, and to measure what that costs.
    Always,
}

/// What helper threads and waves share.
pub struct Helpers {
    policy: Policy,
    desks: [Desk<Job>; DESKS],
    /// Desks in use, a bit for each.
    open: AtomicU32,
    /// Threads that look for jobs.
    awake: AtomicU32,
    /// Threads that are there, asleep or not.
    present: AtomicU32,
    calls: Mutex<Calls>,
    called: Condvar,
}

#[derive(Default)]
struct Calls {
    count: u64,
    closed: bool,
}

impl Helpers {
    /// Without threads: nobody has called [`Helpers::serve`] yet.
    pub fn new(policy: Policy) -> Helpers {
        Helpers {
            policy,
            desks: Default::default(),
            open: AtomicU32::new(0),
            awake: AtomicU32::new(0),
            present: AtomicU32::new(0),
            calls: Mutex::default(),
            called: Condvar::new(),
        }
    }

    /// When they take part.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that a thread is about to [`Helpers::serve`].
    pub fn expect_one(&self) {
        self.present.fetch_add(1, Ordering::Relaxed);
    }

    /// Says that one that was expected does not come.
    pub fn miss_one(&self) {
        self.present.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether there is a thread at all.
    pub fn has_any(&self) -> bool {
        self.present.load(Ordering::Relaxed) > 0
    }

    /// Takes jobs until [`Helpers::close`], on a thread of its own with the usual floating-point environment.
    pub fn serve(&self) {
        let mut seen = 0;
        loop {
            let mut calls = self.calls();
            while calls.count == seen && !calls.closed {
                calls = self
                    .called
                    .wait(calls)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            seen = calls.count;
            let closed = calls.closed;
            drop(calls);
            if closed {
                break;
            }
            self.awake.fetch_add(1, Ordering::Relaxed);
            self.look();
            self.awake.fetch_sub(1, Ordering::Relaxed);
        }
        self.present.fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes jobs as long as there are some now and then.
    fn look(&self) {
        let mut looks = 0;
        while looks < LOOKS {
            let open = self.open.load(Ordering::Acquire);
            let desks = self.desks.iter().enumerate();
            for (_, desk) in desks.filter(|(at, _)| open >> at & 1 != 0) {
                while desk.take(&mut issue::perform) {
                    looks = 0;
                }
            }
            sync::pause(&mut looks);
        }
    }

    /// Wakes those that sleep.
    fn call(&self) {
        self.calls().count += 1;
        self.called.notify_all();
    }

    /// Whether a helper will look at the desks; wakes one if not.
    fn surely_come(&self) -> bool {
        if self.awake.load(Ordering::Relaxed) == 0 {
            self.call();
        }
        self.has_any()
    }

    /// Has the threads end.
    pub fn close(&self) {
        self.calls().closed = true;
        self.called.notify_all();
    }

    fn open_desk(&self) -> Option<usize> {
        let free = |open: u32| {
            let at = open.trailing_ones();
            (at < DESKS as u32).then(|| open | 1 << at)
        };
        let (acquire, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
        let before = self.open.fetch_update(acquire, relaxed, free).ok()?;
        Some(before.trailing_ones() as usize)
    }

    /// Gives a desk without jobs back.
    fn close_desk(&self, at: usize) {
        self.open.fetch_and(!(1 << at), Ordering::AcqRel);
    }
}
