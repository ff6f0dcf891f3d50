//! The thread that looks at the doorbells of queues which have nothing to do.
//!
//! A doorbell is a plain store that nobody announces. Soon after a queue's thread went to sleep it looks every
//! few microseconds, later less and less often: idle, 250 times a second. The time between two looks grows with
//! the time that the queue has been quiet, so that the looks between 2 and 800 ms, where programs come back from their own
//! work, are only about twelve hundred, and a ring waits no longer than a two hundredth of the queue's idle time before it.
//! A queue whose thread runs, or waits for a processor of the host, asks for none.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::io::Errno;

use super::worker::{Queue, precise_sleeps, spawn};
use crate::process::lock;

/// Bounds of the time between two looks.
const SOONEST: Duration = Duration::from_micros(10);
const LATEST: Duration = Duration::from_millis(4);
/// Between them it is this part of the time that the queue has been quiet.
const PATIENCE: u32 = 200;

/// The thread; ends when dropped.
#[derive(Debug, Default)]
pub(super) struct Poller {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread and those who wake it share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queues: Vec<Arc<Queue>>,
    end: bool,
}

impl Shared {
    /// A queue's thread goes to sleep: whoever waited for its work will soon ring again.
    pub(super) fn poke(&self) {
        // With the lock: not between the thread's look at this queue and its wait.
        let _state = lock(&self.state);
        self.changed.notify_one();
    }
}

impl Poller {
    /// What a queue needs to wake the thread.
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Replaces the queues to look at; starts the thread if there is none.
    ///
    /// # Errors
    /// `ENOMEM` if there can be no thread.
    pub(super) fn watch(&mut self, queues: Vec<Arc<Queue>>) -> Result<(), Errno> {
        if self.thread.is_none() {
            let shared = self.shared.clone();
            self.thread = Some(spawn("rocjitsu-poll", move || poll(&shared))?);
        }
        lock(&self.shared.state).queues = queues;
        self.shared.poke();
        Ok(())
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.end = true;
        // The queues hold what the thread shares: no circle stays behind.
        let queues = std::mem::take(&mut state.queues);
        drop(state);
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic there has left its message; nobody rings any more.
            let _ = thread.join();
        }
        drop(queues);
    }
}

fn poll(shared: &Shared) {
    precise_sleeps();
    let mut state = lock(&shared.state);
    while !state.end {
        if state.queues.is_empty() {
            state = shared
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        let pause = pause(state.queues.iter().filter_map(|queue| {
            if queue.ring_if_rung() {
                None
            } else {
                queue.quiet()
            }
        }));
        state = shared
            .changed
            .wait_timeout(state, pause)
            .unwrap_or_else(PoisonError::into_inner)
            .0;
    }
}

/// The time until the next look, of how long the sleeping queues have been quiet.
fn pause(quiet: impl Iterator<Item = Duration>) -> Duration {
    quiet
        .min()
        .map_or(LATEST, |quiet| (quiet / PATIENCE).clamp(SOONEST, LATEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_that_slept_last_says_how_soon_to_look() {
        let pause = |quiet: &[u64]| pause(quiet.iter().map(|&ms| Duration::from_millis(ms)));
        assert_eq!(pause(&[0, 5000]), SOONEST);
        assert_eq!(pause(&[5000, 20]), Duration::from_micros(100));
        assert_eq!(pause(&[5000]), LATEST);
        // All queues work: their threads watch their doorbells themselves.
        assert_eq!(pause(&[]), LATEST);
    }
}
