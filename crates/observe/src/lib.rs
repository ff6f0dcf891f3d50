//! What a run can be asked about: the observer trait, the plugin interface, and the host that runs plugins.
//!
//! Whoever executes tells an [`Observer`] what happens; the observer does not know who calls it. Events of
//! single workgroups, waves and instructions go to [`Plugin`]s, which a [`Plugins`] host holds; a run
//! without one is executed by a loop that knows nothing of them.

#![forbid(unsafe_code)]

mod event;
mod host;
mod plugin;
mod sink;
mod watcher;

pub use event::{
    Access, AccessKind, Allocation, Barrier, Code, Dispatch, Ended, Events, Exactness, Family,
    Given, Instruction, MemoryView, Scope, Source, Space, State, Step, Touch, Wave, Workgroup,
};
pub use host::{Failure, Plugins};
pub use plugin::{Concurrency, Outcome, Plugin};
pub use sink::{Lines, Sink};
pub use watcher::Watcher;

/// A dispatch that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin<'a> {
    /// Kernel name.
    pub kernel: &'a str,
    /// Workgroups of the grid.
    pub workgroups: u64,
    /// Waves of one whole workgroup.
    pub waves_per_workgroup: u32,
}

/// A dispatch that has ended without a fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct End<'a> {
    /// Kernel name.
    pub kernel: &'a str,
    /// Wave instructions executed.
    pub instructions: u64,
    /// Waves that ran.
    pub waves: u64,
    /// Seconds from the first wave to the last.
    pub seconds: f64,
}

/// Is told what happens. Every method does nothing by default; they may be called from any thread.
pub trait Observer: Sync {
    /// A dispatch begins.
    fn dispatch_begins(&self, _begin: &Begin<'_>) {}
    /// `ended` of `of` workgroups have ended; told now and then, not for each of them.
    fn workgroups_ended(&self, _ended: u64, _of: u64) {}
    /// A dispatch has ended.
    fn dispatch_ends(&self, _end: &End<'_>) {}
    /// The plugins that watch the run, if there are any.
    fn plugins(&self) -> Option<&Plugins> {
        None
    }
}

impl Observer for Plugins {
    fn plugins(&self) -> Option<&Plugins> {
        Some(self)
    }
}

/// An observer, and plugins beside it.
pub struct With<'a, O>(pub O, pub Option<&'a Plugins>);

impl<O: Observer> Observer for With<'_, O> {
    fn dispatch_begins(&self, begin: &Begin<'_>) {
        self.0.dispatch_begins(begin);
    }
    fn workgroups_ended(&self, ended: u64, of: u64) {
        self.0.workgroups_ended(ended, of);
    }
    fn dispatch_ends(&self, end: &End<'_>) {
        self.0.dispatch_ends(end);
    }
    fn plugins(&self) -> Option<&Plugins> {
        self.1
    }
}

/// Observes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}

/// Passes the number of ended workgroups on to a function.
#[derive(Clone, Copy, Debug)]
pub struct Progress<F>(pub F);

impl<F: Fn(u64, u64) + Sync> Observer for Progress<F> {
    fn workgroups_ended(&self, ended: u64, of: u64) {
        (self.0)(ended, of);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn progress_passes_the_counts_on() {
        let seen = AtomicU64::new(0);
        let observer = Progress(|ended, of| seen.store(ended * 1000 + of, Ordering::Relaxed));
        observer.workgroups_ended(64, 128);
        observer.dispatch_begins(&Begin {
            kernel: "k",
            workgroups: 1,
            waves_per_workgroup: 1,
        });
        assert_eq!(seen.load(Ordering::Relaxed), 64_128);
    }
}
