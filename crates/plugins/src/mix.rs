//! `instruction_mix`: how often each mnemonic executed: a record of each dispatch and a summary, as AMD's schema
//! `rocjitsu.instruction_mix.v1` has them.

use foldhash::HashMap;
use std::any::Any;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use rocjitsu_isa::Row;
use rocjitsu_observe::{
    Concurrency, Dispatch, Ended, Events, Family, Lines, Outcome, Plugin, Step,
};
use serde_json::{Map, Value, json};

use crate::geometry::{Geometry, describe, record};
use crate::options::Options;
use crate::tally::Tally;

/// The schema of the records.
const SCHEMA: &str = "rocjitsu.instruction_mix.v1";

/// Makes the plugin.
pub fn make(options: Options, lines: Lines) -> Result<Box<dyn Plugin>, String> {
    options.finish(&["file"])?;
    Ok(Box::new(Mix {
        lines,
        running: HashMap::default(),
        counts: HashMap::default(),
        dispatches: 0,
        all: Counts::default(),
    }))
}

/// A form of an instruction; tables have each once.
#[derive(Clone, Copy)]
struct Form(&'static Row, Family);

impl PartialEq for Form {
    fn eq(&self, other: &Form) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Form {}

impl Hash for Form {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self.0).hash(state);
    }
}

impl Form {
    /// The mnemonic without the encoding's suffix; a dual instruction has two.
    fn name(self) -> String {
        match self.0.op_y {
            Some(other) => format!("{} :: {}", self.0.op.name(), other.name()),
            None => self.0.op.name().to_owned(),
        }
    }
}

/// Executions of a mnemonic, by form.
#[derive(Default)]
struct Named {
    forms: Vec<(Form, u64)>,
    /// The first dispatch that executed it.
    first: u64,
}

impl Named {
    fn executions(&self) -> u64 {
        self.forms.iter().map(|(_, n)| n).sum()
    }

    /// The record of the mnemonic. Encoding, opcode and size are those of the form that executed most often.
    fn record(&self) -> Option<Value> {
        let order = |(form, n): &&(Form, u64)| (*n, std::cmp::Reverse(form.0.record));
        let (Form(row, family), _) = self.forms.iter().max_by_key(order)?;
        let mut encodings: BTreeMap<String, u64> = BTreeMap::new();
        for (Form(row, _), n) in &self.forms {
            *encodings.entry(format!("{:?}", row.format)).or_default() += n;
        }
        Some(json!({
            "executions": self.executions(),
            "encoding": format!("{:?}", row.format),
            "opcode": row.opcode,
            "bytes": row.bits / 8,
            "family": family.name(),
            "first_dispatch": self.first,
            "encodings": encodings,
        }))
    }
}

/// Executions by mnemonic.
#[derive(Default)]
struct Counts(BTreeMap<String, Named>);

impl Counts {
    fn add(&mut self, form: Form, n: u64, dispatch: u64) {
        let named = self.0.entry(form.name()).or_default();
        match named.first {
            0 => named.first = dispatch,
            first => named.first = first.min(dispatch),
        }
        match named.forms.iter_mut().find(|(known, _)| *known == form) {
            Some((_, all)) => *all += n,
            None => named.forms.push((form, n)),
        }
    }

    fn describe(&self, record: &mut Map<String, Value>) {
        let mut families = [0; Family::ALL.len()];
        for (Form(_, family), n) in self.0.values().flat_map(|named| &named.forms) {
            families[*family as usize] += n;
        }
        let by_name = Family::ALL.iter().zip(families);
        let by_name = by_name.map(|(f, n)| (f.name().to_owned(), json!({ "instructions": n })));
        let named = |(name, named): (&String, &Named)| Some((name.clone(), named.record()?));
        let mut add = |key: &str, value: Value| record.insert(key.to_owned(), value);
        add("wave_instructions", families.iter().sum::<u64>().into());
        add("families", Map::from_iter(by_name).into());
        add("distinct_mnemonics", self.0.len().into());
        add("mnemonics", self.0.iter().filter_map(named).collect());
    }
}

struct Mix {
    lines: Lines,
    /// Dispatches under way.
    running: HashMap<u64, Geometry>,
    /// Executions of dispatches under way, by their number and the form.
    counts: HashMap<(u64, Form), u64>,
    dispatches: u64,
    all: Counts,
}

fn key(step: &Step<'_>) -> (u64, Form) {
    let form = Form(step.instruction.inst.row(), step.instruction.family);
    (step.wave.dispatch, form)
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
        let geometry = Geometry::of(dispatch);
        self.running.insert(dispatch.id, geometry);
        Ok(())
    }

    fn dispatch_ends(&mut self, ended: &Ended<'_>) -> Outcome {
        let geometry = self.running.remove(&ended.id);
        let mut counts = Counts::default();
        self.counts.retain(|&(dispatch, form), n| {
            if dispatch == ended.id {
                counts.add(form, *n, dispatch);
                self.all.add(form, *n, dispatch);
            }
            dispatch != ended.id
        });
        self.dispatches += 1;
        let mut record = record("instruction_mix", SCHEMA, "dispatch");
        describe(&mut record, ended.id, ended.kernel, geometry.as_ref());
        counts.describe(&mut record);
        self.lines.line(&Value::from(record).to_string())
    }

    fn finish(&mut self) -> Outcome {
        let mut record = record("instruction_mix", SCHEMA, "summary");
        record.insert("dispatches".to_owned(), self.dispatches.into());
        self.all.describe(&mut record);
        self.lines.line(&Value::from(record).to_string())?;
        self.lines.flush()
    }
}
