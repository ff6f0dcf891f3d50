//! `logging`: dispatches with kernel, geometry and arguments, loaded code, and the first matrix instruction of each
//! kernel.

use foldhash::HashSet;

use rocjitsu_observe::{Code, Dispatch, Ended, Events, Lines, Outcome, Plugin, Step};
use serde_json::{Value, json};

use crate::options::Options;

/// Words of the kernarg segment that a record shows at most.
const WORDS: usize = 32;

/// Makes the plugin.
pub fn make(mut options: Options, lines: Lines) -> Result<Box<dyn Plugin>, String> {
    let matrix = options.switch("matrix", true)?;
    options.finish(&["matrix", "file"])?;
    Ok(Box::new(Logging {
        lines,
        matrix,
        seen: HashSet::default(),
    }))
}

struct Logging {
    lines: Lines,
    /// Whether matrix instructions are looked at.
    matrix: bool,
    /// Dispatches that have executed one.
    seen: HashSet<u64>,
}

impl Logging {
    fn record(&self, mut record: Value) -> Outcome {
        record["plugin"] = "logging".into();
        self.lines.line(&record.to_string())
    }
}

/// The 64-bit words of a kernarg segment, and what those that are addresses point to.
fn arguments(dispatch: &Dispatch<'_>) -> Vec<Value> {
    let count = (dispatch.kernarg_bytes as usize / 8).min(WORDS);
    let mut words = Vec::new();
    for i in 0..count {
        let mut bytes = [0; 8];
        if !dispatch
            .memory
            .read(dispatch.kernarg + 8 * i as u64, &mut bytes)
        {
            break;
        }
        let word = u64::from_le_bytes(bytes);
        let mut value = json!({ "offset": 8 * i, "word": format!("{word:#x}") });
        if let Some(found) = dispatch.memory.allocation(word) {
            value["points_to"] = found.label.into();
            value["bytes"] = found.bytes.into();
        }
        words.push(value);
    }
    words
}

impl Plugin for Logging {
    fn events(&self) -> Events {
        if self.matrix {
            Events::DISPATCHES | Events::MATRIX
        } else {
            Events::DISPATCHES
        }
    }

    fn follows_asynchronous_matrix(&self) -> bool {
        true
    }

    fn code_loaded(&mut self, code: &Code<'_>) -> Outcome {
        self.record(json!({
            "event": "code",
            "base": format!("{:#x}", code.base),
            "bytes": code.file.len(),
        }))
    }

    fn dispatch_begins(&mut self, dispatch: &Dispatch<'_>) -> Outcome {
        self.record(json!({
            "event": "dispatch",
            "dispatch": dispatch.id,
            "queue": format!("{:#x}", dispatch.queue),
            "kernel": dispatch.kernel,
            "target": dispatch.target.name(),
            "wave_size": dispatch.lanes,
            "grid": dispatch.grid,
            "workgroup": dispatch.workgroup,
            "workgroups": dispatch.workgroups,
            "lds_bytes": dispatch.lds,
            "scratch_bytes": dispatch.scratch,
            "entry": format!("{:#x}", dispatch.entry),
            "kernarg": format!("{:#x}", dispatch.kernarg),
            "arguments": arguments(dispatch),
        }))
    }

    fn dispatch_ends(&mut self, ended: &Ended<'_>) -> Outcome {
        self.seen.remove(&ended.id);
        self.record(json!({
            "event": "end",
            "dispatch": ended.id,
            "kernel": ended.kernel,
            "waves": ended.waves,
            "wave_instructions": ended.instructions,
            "wall_seconds": ended.seconds,
            "error": ended.error,
        }))?;
        self.lines.flush()
    }

    fn matrix(&mut self, step: &Step<'_>) -> Outcome {
        if !self.seen.insert(step.wave.dispatch) {
            return Ok(());
        }
        self.record(json!({
            "event": "first_matrix",
            "dispatch": step.wave.dispatch,
            "workgroup": step.wave.workgroup,
            "wave": step.wave.index,
            "pc": format!("{:#x}", step.instruction.pc),
            "text": step.instruction.text(),
        }))
    }

    fn finish(&mut self) -> Outcome {
        self.lines.flush()
    }
}
