//! A worker's view of the plugins: what the run loop of a watched dispatch calls.

use crate::event::{Access, Barrier, Events, State, Step, Touch, Wave, Workgroup};
use crate::host::{Entry, Failure, Plugins, guard, lock};
use crate::plugin::{Outcome, Plugin};

/// Tells plugins what a worker does. Plugins that can are given an instance for this worker alone.
pub struct Watcher<'p> {
    host: &'p Plugins,
    events: Events,
    seats: Vec<Seat<'p>>,
}

struct Seat<'p> {
    entry: &'p Entry,
    /// The instance of this worker.
    own: Option<Box<dyn Plugin>>,
}

macro_rules! tell {
    ($(#[$doc:meta])* $name:ident, $event:ident, ($($arg:ident: $type:ty),*)) => {
        $(#[$doc])*
        ///
        /// # Errors
        /// The plugin that failed.
        pub fn $name(&mut self, $($arg: $type),*) -> Result<(), Failure> {
            self.tell(Events::$event, |plugin| plugin.$name($($arg),*))
        }
    };
}

impl<'p> Watcher<'p> {
    /// The view of a worker that begins. A plugin that fails to make an instance for it fails the dispatch.
    pub fn new(host: &'p Plugins) -> Watcher<'p> {
        let seat = |entry: &'p Entry| {
            let mut own = None;
            let made = guard(&entry.name, || {
                own = lock(&entry.plugin).worker();
                Ok(())
            });
            if let Err(failure) = made {
                host.fail(failure);
            }
            Seat { entry, own }
        };
        Watcher {
            host,
            events: host.events(),
            seats: host.entries.iter().map(seat).collect(),
        }
    }

    /// What plugins subscribe to.
    pub fn events(&self) -> Events {
        self.events
    }

    /// Ends the view: joins the worker's instances to their plugins.
    ///
    /// # Errors
    /// The plugin that failed.
    pub fn end(self) -> Result<(), Failure> {
        for seat in self.seats {
            let Some(own) = seat.own else { continue };
            let entry = seat.entry;
            let done = guard(&entry.name, || lock(&entry.plugin).join(own));
            if let Err(failure) = done {
                self.host.fail(failure.clone());
                return Err(failure);
            }
        }
        Ok(())
    }

    tell!(
        /// A workgroup begins.
        workgroup_begins, WORKGROUPS, (workgroup: &Workgroup));
    tell!(
        /// A workgroup has ended.
        workgroup_ends, WORKGROUPS, (workgroup: &Workgroup));
    tell!(
        /// A wave begins.
        wave_begins, WAVES, (wave: &Wave));
    tell!(
        /// A wave has ended.
        wave_ends, WAVES, (wave: &Wave));
    tell!(
        /// An instruction is about to execute.
        before, BEFORE, (step: &Step<'_>, state: &dyn State));
    tell!(
        /// An instruction has executed.
        after, AFTER, (step: &Step<'_>, state: &dyn State));
    tell!(
        /// Registers are about to be read.
        reads, READS, (step: &Step<'_>, touched: &[Touch], state: &dyn State));
    tell!(
        /// Registers have been written.
        writes, WRITES, (step: &Step<'_>, touched: &[Touch], state: &dyn State));
    tell!(
        /// Memory is about to be accessed.
        accesses, ACCESSES, (step: &Step<'_>, accesses: &[Access], state: &dyn State));
    tell!(
        /// A wave has come to a barrier.
        barrier, BARRIERS, (step: &Step<'_>, barrier: Barrier));
    tell!(
        /// A matrix instruction is issued.
        matrix, MATRIX, (step: &Step<'_>));

    /// Tells the plugins that want an event. After a failure nobody is told anything: it ends the dispatch where it
    /// happened, and what other workers do until they notice is no failure of theirs.
    #[inline]
    fn tell(
        &mut self,
        event: Events,
        mut call: impl FnMut(&mut dyn Plugin) -> Outcome,
    ) -> Result<(), Failure> {
        if !self.events.any(event) {
            return Ok(());
        }
        for seat in &mut self.seats {
            let entry = seat.entry;
            if !entry.events.any(event) {
                continue;
            }
            // Held until a failure is noted: whoever waits for the lock must not be told any more.
            let mut shared;
            let plugin = match &mut seat.own {
                Some(own) => &mut **own,
                None => {
                    shared = lock(&entry.plugin);
                    &mut **shared
                }
            };
            if self.host.failure().is_some() {
                return Ok(());
            }
            if let Err(failure) = guard(&entry.name, || call(plugin)) {
                self.host.fail(failure.clone());
                return Err(failure);
            }
        }
        Ok(())
    }
}
