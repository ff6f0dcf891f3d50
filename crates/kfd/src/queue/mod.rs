//! Queues: doorbells, the threads that work through packets, and the ioctls.
//!
//! Each queue that was ever rung has a thread ([`worker`]); one thread for each context looks at
//! the doorbells of queues whose thread sleeps ([`poller`]).

mod doorbell;
mod engines;
mod exception;
mod ioctl;
mod platform;
mod poller;
mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;

use rocjitsu_gpu::lock::Mutex;
use rustix::io::Errno;

use crate::ranks;
pub(crate) use doorbell::{Doorbells, SLICE};
pub(crate) use engines::CopyEngines;
pub(crate) use ioctl::{alloc_gws, create, destroy, set_cu_mask, update, wave_state};
use poller::Poller;
use worker::Queue;

/// Queues of a context at most, as in the kernel.
const MOST: usize = 1024;

/// The queues of one context.
#[derive(Debug)]
pub(crate) struct Queues {
    state: Mutex<State>,
}

impl Default for Queues {
    fn default() -> Self {
        let state = Mutex::new(ranks::QUEUES, State::default());
        Queues { state }
    }
}

#[derive(Debug, Default)]
struct State {
    queues: BTreeMap<u32, Arc<Queue>>,
    poller: Poller,
}

impl Queues {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.state.lock().queues.len()
    }

    fn get(&self, id: u32) -> Option<Arc<Queue>> {
        self.state.lock().queues.get(&id).cloned()
    }

    /// Whether a queue of a GPU has GWS resources.
    fn any_gws(&self, gpu: usize) -> bool {
        let state = self.state.lock();
        let mut queues = state.queues.values();
        queues.any(|queue| queue.gpu == gpu && queue.gws(None) != 0)
    }

    /// Adds the queue that `make` makes of what wakes the poller.
    ///
    /// # Errors
    /// `ENOMEM` when there are too many, or no thread can be had.
    fn add(&self, make: impl FnOnce(Arc<poller::Shared>) -> Queue) -> Result<u32, Errno> {
        let mut state = self.state.lock();
        if state.queues.len() >= MOST {
            return Err(Errno::NOMEM);
        }
        let free = (0..).zip(state.queues.keys()).find(|(i, id)| i != *id);
        let id = free.map_or(state.queues.len() as u32, |(i, _)| i);
        let queue = Arc::new(make(state.poller.shared().clone()));
        let mut queues: Vec<_> = state.queues.values().cloned().collect();
        queues.push(queue.clone());
        state.poller.watch(queues)?;
        state.queues.insert(id, queue);
        Ok(id)
    }

    /// Takes a queue out and stops it. Its waves have ended when this returns.
    ///
    /// # Errors
    /// `EINVAL` if there is none.
    fn remove(&self, id: u32) -> Result<(), Errno> {
        let mut state = self.state.lock();
        let queue = state.queues.remove(&id).ok_or(Errno::INVAL)?;
        let left = state.queues.values().cloned().collect();
        // The thread is there: only its start can fail.
        let _ = state.poller.watch(left);
        drop(state);
        queue.destroy();
        Ok(())
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        let state = &mut *self.state.lock();
        drop(std::mem::take(&mut state.poller));
        for queue in state.queues.values() {
            queue.destroy();
        }
    }
}
