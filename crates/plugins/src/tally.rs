//! Counting executions on each worker and adding them up when the worker is done: what `instruction_mix` and
//! `coverage` share.

use foldhash::HashMap;
use std::any::Any;
use std::hash::Hash;

use rocjitsu_observe::{Events, Outcome, Plugin, State, Step};

/// One worker's executions, by a key that is found for each instruction.
pub struct Tally<K> {
    counts: HashMap<K, u64>,
    key: fn(&Step<'_>) -> K,
}

impl<K: Eq + Hash + Send + 'static> Tally<K> {
    /// A worker's instance that counts by `key`.
    pub fn of(key: fn(&Step<'_>) -> K) -> Box<dyn Plugin> {
        Box::new(Tally {
            counts: HashMap::default(),
            key,
        })
    }

    /// Adds what a worker's instance has counted.
    ///
    /// # Errors
    /// A worker that is no such instance.
    pub fn join(counts: &mut HashMap<K, u64>, worker: Box<dyn Any>) -> Outcome {
        let worker = worker
            .downcast::<Tally<K>>()
            .map_err(|_| "no worker of it")?;
        for (key, n) in worker.counts {
            *counts.entry(key).or_default() += n;
        }
        Ok(())
    }
}

impl<K: Eq + Hash + Send + 'static> Plugin for Tally<K> {
    fn events(&self) -> Events {
        Events::AFTER
    }

    fn after(&mut self, step: &Step<'_>, _: &dyn State) -> Outcome {
        *self.counts.entry((self.key)(step)).or_default() += 1;
        Ok(())
    }
}
