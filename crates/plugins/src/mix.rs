//! `instruction_mix`: how often each mnemonic executed, by kernel.

use foldhash::HashMap;
use std::any::Any;
use std::collections::BTreeMap;

use rocjitsu_isa::Op;
use rocjitsu_observe::{Concurrency, Dispatch, Ended, Events, Lines, Outcome, Plugin, Step};
use serde_json::{Map, Value, json};

use crate::options::Options;
use crate::tally::Tally;

/// Makes the plugin.
pub fn make(options: Options, lines: Lines) -> Result<Box<dyn Plugin>, String> {
    options.finish(&["file"])?;
    Ok(Box::new(Mix {
        lines,
        running: HashMap::default(),
        kernels: BTreeMap::new(),
        counts: HashMap::default(),
    }))
}

/// Dispatch and operation; a dual instruction has two.
type Key = (u64, Op, Option<Op>);

struct Mix {
    lines: Lines,
    /// Kernels of dispatches under way.
    running: HashMap<u64, String>,
    /// Counts by kernel and mnemonic.
    kernels: BTreeMap<String, BTreeMap<String, u64>>,
    counts: HashMap<Key, u64>,
}

fn key(step: &Step<'_>) -> Key {
    let inst = &step.instruction.inst;
    (step.wave.dispatch, inst.op(), inst.op_y())
}

impl Plugin for Mix {
    fn events(&self) -> Events {
        Events::DISPATCHES | Events::AFTER
    }

    fn concurrency(&self) -> Concurrency {
        Concurrency::PerWorker
    }

    fn worker(&self) -> Option<Box<dyn Plugin>> {
        Some(Tally::of(key))
    }

    fn join(&mut self, worker: Box<dyn Any>) -> Outcome {
        Tally::join(&mut self.counts, worker)
    }

    fn dispatch_begins(&mut self, dispatch: &Dispatch<'_>) -> Outcome {
        self.running.insert(dispatch.id, dispatch.kernel.to_owned());
        Ok(())
    }

    fn dispatch_ends(&mut self, ended: &Ended<'_>) -> Outcome {
        let kernel = self.running.remove(&ended.id).unwrap_or_default();
        let all = self.kernels.entry(kernel).or_default();
        self.counts.retain(|&(dispatch, op, other), n| {
            if dispatch != ended.id {
                return true;
            }
            let name = match other {
                Some(other) => format!("{} :: {}", op.name(), other.name()),
                None => op.name().to_owned(),
            };
            *all.entry(name).or_default() += *n;
            false
        });
        Ok(())
    }

    fn finish(&mut self) -> Outcome {
        for (kernel, counts) in &self.kernels {
            let total: u64 = counts.values().sum();
            let mut sorted: Vec<_> = counts.iter().collect();
            sorted.sort_by_key(|&(name, &n)| (std::cmp::Reverse(n), name));
            let mnemonics: Map<String, Value> = sorted
                .into_iter()
                .map(|(name, &n)| (name.clone(), n.into()))
                .collect();
            let record = json!({
                "plugin": "instruction_mix",
                "kernel": kernel,
                "wave_instructions": total,
                "mnemonics": mnemonics,
            });
            self.lines.line(&record.to_string())?;
        }
        self.lines.flush()
    }
}
