//! The thread that looks at the doorbells of queues which have nothing to do.
//!
//! A doorbell is a plain store that nobody announces. Soon after the last ring it looks every
//! few microseconds, later less and less often: idle, 250 times a second. The time between two looks grows with
//! the time since the last ring, so that the looks between 2 and 800 ms, where programs come back from their own
//! work, are only about twelve hundred, and a ring waits no longer than a two hundredth of the idle time before it.

use std::sync::{Arc, Condvar};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rocjitsu_gpu::lock::Mutex;
use rustix::io::Errno;

use super::worker::{Queue, precise_sleeps, spawn};
use crate::ranks;

/// Bounds of the time between two looks.
const SOONEST: Duration = Duration::from_micros(10);
const LATEST: Duration = Duration::from_millis(4);
/// Between them it is this part of the time since the last ring.
const PATIENCE: u32 = 200;

/// The thread; ends when dropped.
#[derive(Debug, Default)]
pub(super) struct Poller {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread and those who wake it share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Default for Shared {
    fn default() -> Self {
        Shared {
            state: Mutex::new(ranks::POLLER, State::default()),
            changed: Condvar::new(),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    queues: Vec<Arc<Queue>>,
    /// Something has happened: look often for a while.
    poked: bool,
    end: bool,
}

impl Shared {
    /// A queue's thread goes to sleep: whoever waited for its work will soon ring again.
    pub(super) fn poke(&self) {
        self.state.lock().poked = true;
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
        self.shared.state.lock().queues = queues;
        self.shared.poke();
        Ok(())
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
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
    let mut active = Instant::now();
    let mut state = shared.state.lock();
    while !state.end {
        if std::mem::take(&mut state.poked) {
            active = Instant::now();
        }
        if state.queues.is_empty() {
            state = state.wait(&shared.changed);
            continue;
        }
        let mut rung = false;
        for queue in &state.queues {
            rung |= queue.ring_if_rung();
        }
        if rung {
            active = Instant::now();
        }
        let pause = (active.elapsed() / PATIENCE).clamp(SOONEST, LATEST);
        state = state.wait_timeout(&shared.changed, pause);
    }
}
