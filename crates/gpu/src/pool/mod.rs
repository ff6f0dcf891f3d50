//! Worker threads that outlive a dispatch, and the crews that they join.

mod crew;
#[cfg(test)]
#[allow(clippy::duplicate_mod)] // It has the crew over loom's threads.
mod model;
mod patience;
#[cfg(test)]
mod tests;

mod threads {
    pub(super) use super::patience;
    pub use std::sync::atomic::{AtomicUsize, Ordering};
    pub use std::sync::{Condvar, Mutex, MutexGuard};
    pub use std::thread::Builder;
}

pub use crew::{Pool, Recruiter, block_signals};
