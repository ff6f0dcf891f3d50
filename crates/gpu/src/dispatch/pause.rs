//! Stopping the waves of a dispatch between two instructions, and letting them go on later: what a driver does with a
//! queue that loses its share of time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A brake for the dispatches that are run with it, one at a time.
#[derive(Debug, Default)]
pub struct Pause {
    wanted: AtomicBool,
    workers: Mutex<Workers>,
    changed: Condvar,
}

/// Threads that run waves of the dispatch.
#[derive(Debug, Default)]
struct Workers {
    here: usize,
    /// Of them, those that have stopped.
    parked: usize,
}

/// A thread whose waves stand still for another reason, until it is dropped.
#[derive(Debug)]
pub struct Standing<'a>(&'a Pause);

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        let mut workers = self.0.lock();
        workers.here -= 1;
        workers.parked -= 1;
    }
}

/// A thread that runs waves, until it is dropped.
pub(crate) struct Worker<'a>(&'a Pause);

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        self.0.lock().here -= 1;
        self.0.changed.notify_all();
    }
}

impl Pause {
    fn lock(&self) -> MutexGuard<'_, Workers> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the waves to stop; they do after a turn at the latest.
    pub fn hold(&self) {
        self.wanted.store(true, Ordering::Release);
    }

    /// Lets them go on.
    pub fn release(&self) {
        self.wanted.store(false, Ordering::Release);
        // Nobody is between looking at the flag and waiting.
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Whether a dispatch is under way of which no wave runs, and none will before [`Pause::release`].
    pub fn is_held(&self) -> bool {
        let workers = self.lock();
        self.wanted.load(Ordering::Acquire) && workers.here > 0 && workers.parked == workers.here
    }

    /// The calling thread has a dispatch of which no wave runs as long as the value lives: it counts as one that has stopped.
    pub fn stand(&self) -> Standing<'_> {
        let mut workers = self.lock();
        workers.here += 1;
        workers.parked += 1;
        Standing(self)
    }

    /// The calling thread is going to run waves.
    pub(crate) fn enter(&self) -> Worker<'_> {
        self.lock().here += 1;
        Worker(self)
    }

    /// Called between turns of waves: stays here as long as they are to stop, and `stop` does not end the dispatch.
    #[inline]
    pub(crate) fn park(&self, stop: &AtomicBool) {
        if self.wanted.load(Ordering::Relaxed) {
            self.wait(stop);
        }
    }

    #[cold]
    fn wait(&self, stop: &AtomicBool) {
        let mut workers = self.lock();
        workers.parked += 1;
        while self.wanted.load(Ordering::Acquire) && !stop.load(Ordering::Acquire) {
            workers = self
                .changed
                .wait(workers)
                .unwrap_or_else(PoisonError::into_inner);
        }
        workers.parked -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_park_until_they_are_released_or_stopped() {
        let (pause, stop) = (Pause::default(), AtomicBool::new(false));
        pause.hold();
        assert!(!pause.is_held(), "nobody is there");
        for ends in [false, true] {
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        let _worker = pause.enter();
                        pause.park(&stop);
                    });
                }
                while !pause.is_held() {
                    std::thread::yield_now();
                }
                stop.store(ends, Ordering::Release);
                pause.release();
            });
            assert!(!pause.is_held());
            pause.hold();
        }
        {
            let _worker = pause.enter();
            pause.park(&stop);
        }
        assert!(!pause.is_held(), "nobody is there");
        let standing = pause.stand();
        assert!(pause.is_held(), "it stands anyway");
        drop(standing);
        assert!(!pause.is_held(), "nobody is there");
    }
}
