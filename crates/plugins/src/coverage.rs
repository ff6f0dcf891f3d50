//! `coverage`: which instructions and source lines executed. A record for each kernel, and an lcov file on request.

use foldhash::HashMap;
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use rocjitsu_isa::{FeatureSet, Target, decode};
use rocjitsu_observe::{Code, Concurrency, Dispatch, Ended, Events, Lines, Outcome, Plugin, Sink};
use serde_json::{Value, json};

use crate::options::Options;
use crate::symbols::Symbols;
use crate::tally::Tally;

/// Makes the plugin.
pub fn make(mut options: Options, lines: Lines) -> Result<Box<dyn Plugin>, String> {
    let coverage = Coverage {
        lines,
        lcov: options.text("lcov").map(PathBuf::from),
        all: options.switch("missed", false)?,
        symbols: Symbols::default(),
        kernels: BTreeMap::new(),
        running: HashMap::default(),
        counts: HashMap::default(),
    };
    options.finish(&["lcov", "missed", "file"])?;
    Ok(Box::new(coverage))
}

/// Longest instruction in bytes.
const LONGEST: usize = 24;

/// The code of a kernel, from its entry to its end.
struct Kernel {
    /// Addresses of its instructions with their text.
    code: BTreeMap<u64, String>,
    /// Executions by address, of functions that it calls, too.
    counts: HashMap<u64, u64>,
}

/// Name, entry and target. Programs load code where other code was, and GPUs have addresses of their own.
type Key = (String, u64, &'static str);

struct Coverage {
    lines: Lines,
    lcov: Option<PathBuf>,
    /// Whether records list what was not executed.
    all: bool,
    symbols: Symbols,
    kernels: BTreeMap<Key, Kernel>,
    /// Kernels of dispatches under way.
    running: HashMap<u64, Key>,
    /// Executions of dispatches under way, by their number and the address.
    counts: HashMap<(u64, u64), u64>,
}

/// Decodes a kernel from its entry to the padding behind its last `s_endpgm`: the function that the compiler made.
/// Functions that it calls are not in it.
fn code_of(dispatch: &Dispatch<'_>) -> BTreeMap<u64, String> {
    let set: FeatureSet = dispatch.target.execution_set(dispatch.lanes);
    let target: Target = dispatch.target;
    let mut code = BTreeMap::new();
    let mut at = dispatch.entry;
    let mut furthest = at;
    loop {
        let mut bytes = [0; LONGEST];
        let mut length = LONGEST;
        while length >= 4 && !dispatch.memory.read(at, &mut bytes[..length]) {
            length -= 4;
        }
        let Ok(inst) = decode(target, set, &bytes[..length]) else {
            return code;
        };
        let name = inst.op().name();
        let next = at + inst.len() as u64;
        code.insert(at, inst.text(set));
        if name.starts_with("s_branch") || name.starts_with("s_cbranch") {
            let words = inst.signed_field(rocjitsu_isa::Name::simm16).unwrap_or(0);
            furthest = furthest.max(next.wrapping_add_signed(4 * i64::from(words)));
        }
        let ends = name == "s_endpgm" || name.starts_with("s_setpc");
        if ends && next > furthest {
            return code;
        }
        at = next;
    }
}

impl Plugin for Coverage {
    fn events(&self) -> Events {
        Events::DISPATCHES | Events::AFTER
    }

    fn concurrency(&self) -> Concurrency {
        Concurrency::PerWorker
    }

    fn worker(&self) -> Option<Box<dyn Plugin>> {
        Some(Tally::of(|step| (step.wave.dispatch, step.instruction.pc)))
    }

    fn join(&mut self, worker: Box<dyn Any>) -> Outcome {
        Tally::join(&mut self.counts, worker)
    }

    fn code_loaded(&mut self, code: &Code<'_>) -> Outcome {
        self.symbols.add(code);
        Ok(())
    }

    fn dispatch_begins(&mut self, dispatch: &Dispatch<'_>) -> Outcome {
        let target = dispatch.target.name();
        let key = (dispatch.kernel.to_owned(), dispatch.entry, target);
        self.running.insert(dispatch.id, key.clone());
        self.kernels.entry(key).or_insert_with(|| Kernel {
            code: code_of(dispatch),
            counts: HashMap::default(),
        });
        Ok(())
    }

    fn dispatch_ends(&mut self, ended: &Ended<'_>) -> Outcome {
        let key = self.running.remove(&ended.id);
        let mut kernel = key.and_then(|key| self.kernels.get_mut(&key));
        self.counts.retain(|&(dispatch, pc), n| {
            if dispatch == ended.id
                && let Some(kernel) = &mut kernel
            {
                *kernel.counts.entry(pc).or_default() += *n;
            }
            dispatch != ended.id
        });
        Ok(())
    }

    fn finish(&mut self) -> Outcome {
        for ((name, entry, _), kernel) in &self.kernels {
            let executed = |pc: &u64| kernel.counts.contains_key(pc);
            let hit = kernel.code.keys().filter(|pc| executed(pc)).count();
            let mut record = json!({
                "plugin": "coverage",
                "kernel": name,
                "entry": format!("{entry:#x}"),
                "instructions": kernel.code.len(),
                "executed": hit,
            });
            if self.all {
                let missed = kernel.code.iter().filter(|(pc, _)| !executed(pc));
                let missed: Vec<Value> = missed
                    .map(|(pc, text)| json!({ "pc": format!("{pc:#x}"), "text": text }))
                    .collect();
                record["missed"] = missed.into();
            }
            self.lines.line(&record.to_string())?;
        }
        let lcov = self.lcov.as_ref().map(|path| (path, self.lcov()));
        if let Some((_, text)) = &lcov
            && text.is_empty()
        {
            let record = json!({
                "plugin": "coverage",
                "event": "nothing",
                "note": "the lcov file is empty: no line tables (-g) are known of the code that ran",
            });
            self.lines.line(&record.to_string())?;
        }
        self.lines.flush()?;
        let Some((path, text)) = &lcov else {
            return Ok(());
        };
        let failed = |e: std::io::Error| format!("cannot write {}: {e}", path.display());
        let sink = Sink::file(path).map_err(failed)?;
        sink.write(text).map_err(failed)?;
        sink.flush().map_err(failed)
    }
}

impl Coverage {
    /// The lines of kernels that ran, in lcov's format: a line counts as often as its instruction that executed most
    /// often.
    fn lcov(&self) -> String {
        let mut files: BTreeMap<&str, BTreeMap<u32, u64>> = BTreeMap::new();
        let mut add = |pc: u64, count: u64| {
            if let Some(place) = self.symbols.place(pc).filter(|place| place.line > 0) {
                let lines = files.entry(&place.file).or_default();
                let line = lines.entry(place.line).or_default();
                *line = (*line).max(count);
            }
        };
        let mut counts: HashMap<u64, u64> = HashMap::default();
        for kernel in self.kernels.values() {
            kernel.code.keys().for_each(|&pc| add(pc, 0));
            for (&pc, &count) in &kernel.counts {
                *counts.entry(pc).or_default() += count;
            }
        }
        counts.iter().for_each(|(&pc, &count)| add(pc, count));
        let mut out = String::new();
        for (file, lines) in files {
            // Writing to a string does not fail.
            let _ = writeln!(out, "TN:\nSF:{file}");
            for (line, count) in &lines {
                let _ = writeln!(out, "DA:{line},{count}");
            }
            let hit = lines.values().filter(|&&count| count > 0).count();
            let _ = writeln!(out, "LF:{}\nLH:{hit}\nend_of_record", lines.len());
        }
        out
    }
}
