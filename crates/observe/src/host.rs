//! The host: holds the plugins of a run, calls them one at a time, and turns their errors and panics into the
//! end of the run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::event::{Code, Dispatch, Ended, Events};
use crate::plugin::{Concurrency, Outcome, Plugin};

/// A plugin that has failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("plugin `{plugin}`: {what}")]
pub struct Failure {
    /// Its name.
    pub plugin: String,
    /// What it says.
    pub what: String,
}

/// A plugin and what it asked for.
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) events: Events,
    pub(crate) concurrency: Concurrency,
    follows_asynchronous_matrix: bool,
    pub(crate) plugin: Mutex<Box<dyn Plugin>>,
}

/// The plugins of a run.
#[derive(Default)]
pub struct Plugins {
    pub(crate) entries: Vec<Entry>,
    events: Events,
    dispatches: AtomicU64,
    failed: OnceLock<Failure>,
}

impl std::fmt::Debug for Plugins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.entries.iter().map(|entry| &entry.name);
        f.debug_set().entries(names).finish()
    }
}

impl Plugins {
    /// No plugins.
    pub fn new() -> Plugins {
        Plugins::default()
    }

    /// Adds a plugin. Its name stands in errors. One that fails already is told of when the run begins.
    pub fn add(&mut self, name: impl Into<String>, plugin: Box<dyn Plugin>) {
        let name = name.into();
        let mut asked = (Events::NONE, Concurrency::Serial, false);
        let done = guard(&name, || {
            let follows = plugin.follows_asynchronous_matrix();
            asked = (plugin.events(), plugin.concurrency(), follows);
            Ok(())
        });
        if let Err(failure) = done {
            self.fail(failure);
        }
        let (events, concurrency, follows_asynchronous_matrix) = asked;
        self.events = self.events | events;
        self.entries.push(Entry {
            name,
            events,
            concurrency,
            follows_asynchronous_matrix,
            plugin: Mutex::new(plugin),
        });
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What any of them subscribes to.
    pub fn events(&self) -> Events {
        self.events
    }

    /// Whether one of them asks for dispatches to run on one thread.
    pub fn one_thread(&self) -> bool {
        let one = |e: &Entry| e.concurrency == Concurrency::OneThread;
        self.entries.iter().any(one)
    }

    /// Whether helper threads may execute matrix instructions while their waves go on: all plugins follow that
    /// ([`Plugin::follows_asynchronous_matrix`]), and none is shown the state of a wave.
    pub fn asynchronous_matrix(&self) -> bool {
        let shown =
            Events::BEFORE | Events::AFTER | Events::READS | Events::WRITES | Events::ACCESSES;
        self.entries.iter().all(|e| e.follows_asynchronous_matrix) && !self.events.any(shown)
    }

    /// A number for a dispatch.
    pub fn next_dispatch(&self) -> u64 {
        self.dispatches.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The first failure of a plugin.
    pub fn failure(&self) -> Option<&Failure> {
        self.failed.get()
    }

    /// Tells of a loaded code object.
    ///
    /// # Errors
    /// The plugin that failed.
    pub fn code_loaded(&self, code: &Code<'_>) -> Result<(), Failure> {
        self.tell(Events::DISPATCHES, |plugin| plugin.code_loaded(code))
    }

    /// Tells of a dispatch that begins.
    ///
    /// # Errors
    /// The plugin that failed.
    pub fn dispatch_begins(&self, dispatch: &Dispatch<'_>) -> Result<(), Failure> {
        self.tell(Events::DISPATCHES, |plugin| {
            plugin.dispatch_begins(dispatch)
        })
    }

    /// Tells of a dispatch that has ended.
    ///
    /// # Errors
    /// The plugin that failed, now or earlier.
    pub fn dispatch_ends(&self, ended: &Ended<'_>) -> Result<(), Failure> {
        self.tell(Events::DISPATCHES, |plugin| plugin.dispatch_ends(ended))
    }

    /// Tells that the run is over. Plugins that failed are told as well: they may have lines to write.
    ///
    /// # Errors
    /// The plugin that failed, now or earlier.
    pub fn finish(&self) -> Result<(), Failure> {
        let earlier = self.failed.get().cloned();
        for entry in &self.entries {
            let done = guard(&entry.name, || lock(&entry.plugin).finish());
            if let Err(failure) = done {
                self.fail(failure);
            }
        }
        match earlier.or_else(|| self.failed.get().cloned()) {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    fn tell(
        &self,
        event: Events,
        mut call: impl FnMut(&mut dyn Plugin) -> Outcome,
    ) -> Result<(), Failure> {
        if let Some(failure) = self.failed.get() {
            return Err(failure.clone());
        }
        for entry in self.entries.iter().filter(|e| e.events.any(event)) {
            let done = guard(&entry.name, || call(&mut **lock(&entry.plugin)));
            if let Err(failure) = done {
                self.fail(failure.clone());
                return Err(failure);
            }
        }
        Ok(())
    }

    /// Notes a failure; the first one counts.
    pub(crate) fn fail(&self, failure: Failure) {
        let _ = self.failed.set(failure);
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls a plugin; a panic is a failure as an error is.
pub(crate) fn guard(plugin: &str, call: impl FnOnce() -> Outcome) -> Result<(), Failure> {
    let what = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(what)) => what,
        Err(panic) => {
            let text = panic
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned());
            format!("panicked: {}", text.as_deref().unwrap_or("no message"))
        }
    };
    Err(Failure {
        plugin: plugin.to_owned(),
        what,
    })
}
