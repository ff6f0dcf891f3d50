//! Global wave sync of a device, and how a dispatch finds out that all its waves wait for it in vain.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use rocjitsu_exec::gws::Gws;

/// The resources of a device, and how many dispatches run on it: those of another one may release a wave.
#[derive(Default)]
pub struct GlobalSync {
    /// The resources.
    pub gws: Arc<Gws>,
    dispatches: AtomicUsize,
}

/// A dispatch under way.
pub struct Running<'a>(&'a GlobalSync);

impl GlobalSync {
    /// Counts a dispatch until the guard is dropped.
    pub fn begin(&self) -> Running<'_> {
        self.dispatches.fetch_add(1, Ordering::AcqRel);
        Running(self)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.dispatches.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Counts the workers of a dispatch, and those whose waves all wait for global wave sync.
#[derive(Default)]
pub struct Stall(Mutex<State>);

#[derive(Default)]
struct State {
    workers: usize,
    /// Of the workers, those that found no wave ready at `version`.
    stuck: usize,
    version: u64,
}

impl Stall {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A worker begins.
    pub fn enter(&self) {
        self.lock().workers += 1;
    }

    /// A worker ends. `told` is what it told last.
    pub fn leave(&self, told: &mut Option<u64>) {
        self.resume(told);
        self.lock().workers -= 1;
    }

    /// A worker may go on: it is about to look for another workgroup. Called before it takes one, so that nobody
    /// counts it as stuck once it has.
    pub fn resume(&self, told: &mut Option<u64>) {
        let mut state = self.lock();
        if told.take() == Some(state.version) && state.stuck > 0 {
            state.stuck -= 1;
        }
    }

    /// A worker has looked at all its waves since the resources were at `version`, none can go on, and it can start
    /// no workgroup. Returns whether that is so for all workers of the only dispatch: then it stays so.
    pub fn stuck(&self, version: u64, told: &mut Option<u64>, sync: &GlobalSync) -> bool {
        let mut state = self.lock();
        if version < state.version {
            return false;
        }
        if version > state.version {
            state.version = version;
            state.stuck = 0;
        }
        if *told != Some(version) {
            *told = Some(version);
            state.stuck += 1;
        }
        state.stuck == state.workers
            && sync.gws.version() == version
            && sync.dispatches.load(Ordering::Acquire) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_workers_have_to_be_stuck_at_the_present_version() {
        let sync = GlobalSync::default();
        let first = sync.begin();
        let stall = Stall::default();
        let (mut a, mut b) = (None, None);
        stall.enter();
        stall.enter();
        let version = sync.gws.version();
        assert!(!stall.stuck(version, &mut a, &sync));
        assert!(!stall.stuck(version, &mut a, &sync), "one counts once");
        assert!(stall.stuck(version, &mut b, &sync));
        // A release that nobody has seen yet.
        sync.gws.release(0, 1);
        assert!(!stall.stuck(version, &mut b, &sync));
        let later = sync.gws.version();
        assert!(!stall.stuck(later, &mut b, &sync));
        assert!(!stall.stuck(version, &mut a, &sync), "it looked too early");
        assert!(stall.stuck(later, &mut a, &sync));
        // One finds a workgroup to start; then it ends.
        stall.resume(&mut a);
        assert!(!stall.stuck(later, &mut b, &sync));
        stall.leave(&mut a);
        assert!(stall.stuck(later, &mut b, &sync));
        let second = sync.begin();
        assert!(
            !stall.stuck(later, &mut b, &sync),
            "the other dispatch may release it"
        );
        drop((first, second));
    }
}
