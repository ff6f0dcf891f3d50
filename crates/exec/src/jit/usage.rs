//! What executed compiled and what was interpreted, by instruction, and why.

use std::collections::HashMap;

use super::{Pieces, Why, collect};
use crate::record::{Class, Record};

/// Wave instructions, as far as blocks of code were counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// All of them.
    pub instructions: u64,
    /// Lane operations, scalar instructions and branches in compiled code, and instructions that do nothing there.
    pub compiled: u64,
    /// Those of blocks that did not execute often enough to be compiled.
    pub cold: u64,
    /// The others by instruction, most frequent first: those that compiled code calls handlers for, too.
    pub interpreted: Vec<Interpreted>,
}

/// Executions of an instruction by the interpreter, in blocks that were compiled as far as they can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreted {
    /// Its name.
    pub name: &'static str,
    /// Why it was not compiled.
    pub why: &'static str,
    /// How often.
    pub instructions: u64,
}

/// Counts that are being put together.
pub(crate) struct Tally<'h> {
    supports: collect::Supports<'h>,
    total: Usage,
    by_name: HashMap<(&'static str, &'static str), u64>,
}

impl<'h> Tally<'h> {
    /// No counts yet, on a host that has code for what `supports` says.
    pub fn new(supports: collect::Supports<'h>) -> Tally<'h> {
        Tally {
            supports,
            total: Usage::default(),
            by_name: HashMap::new(),
        }
    }

    /// Adds `times` executions of a block for waves of `lanes` lanes. `pieces` is `None` if it was not decided
    /// how the block executes.
    pub fn add(
        &mut self,
        records: &[Record],
        pieces: Option<Option<&Pieces>>,
        lanes: u32,
        times: u64,
    ) {
        let all = records.len() as u64 * times;
        self.total.instructions += all;
        let Some(pieces) = pieces else {
            self.total.cold += all;
            return;
        };
        let mut interpreted = |record: &Record| {
            let why = reason(record, lanes, self.supports);
            let key = (record.inst.op().name(), why);
            *self.by_name.entry(key).or_default() += times;
            times
        };
        let count: u64 = match pieces {
            None => records.iter().map(&mut interpreted).sum(),
            Some(pieces) => {
                let called = pieces.records(records).filter(|record| !by_itself(record));
                called.map(&mut interpreted).sum()
            }
        };
        self.total.compiled += all - count;
    }

    /// The counts.
    pub fn finish(self) -> Usage {
        let mut usage = self.total;
        let rows = self.by_name.into_iter();
        usage.interpreted = rows
            .map(|((name, why), instructions)| Interpreted {
                name,
                why,
                instructions,
            })
            .collect();
        usage
            .interpreted
            .sort_by_key(|row| (std::cmp::Reverse(row.instructions), row.name, row.why));
        usage
    }
}

fn reason(record: &Record, lanes: u32, supports: collect::Supports<'_>) -> &'static str {
    match record.class {
        Class::Valu => {
            collect::obstacle(record, lanes, supports).map_or("alone among others", Why::text)
        }
        Class::Salu => "scalar operation that the compiler does not know",
        Class::Matrix => {
            "matrix product of a rule that the compiler does not know, or whose operands meet"
        }
        _ => "neither lane operation nor scalar arithmetic nor branch",
    }
}

/// Whether compiled code does a record that is no lane operation itself.
#[cfg(target_arch = "x86_64")]
pub fn by_itself(record: &Record) -> bool {
    super::flow::knows(record)
}

/// As above: nothing is compiled for this host.
#[cfg(not(target_arch = "x86_64"))]
pub fn by_itself(_: &Record) -> bool {
    false
}
