//! `trace`: the instructions of chosen waves with the registers they change, and a time line of dispatches and
//! workgroups in the trace-event format that ui.perfetto.dev and chrome://tracing open.

use foldhash::{HashMap, HashSet};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::thread::ThreadId;
use std::time::Instant;

use rocjitsu_isa::RegFile;
use rocjitsu_observe::{
    Dispatch, Ended, Events, Lines, Outcome, Plugin, Sink, State, Step, Touch, Wave, Workgroup,
};
use serde_json::{Value, json};

use crate::options::Options;

/// Instructions traced if the options do not say.
const LIMIT: u64 = 10_000;
/// Kernels that are named where none of the waves was to be traced.
const NAMED: usize = 20;

/// Makes the plugin.
pub fn make(mut options: Options, lines: Lines) -> Result<Box<dyn Plugin>, String> {
    let timeline = options.text("timeline").map(PathBuf::from);
    let trace = Trace {
        instructions: options.switch("instructions", timeline.is_none())?,
        values: options.switch("values", true)?,
        limit: options.parse("limit")?.unwrap_or(LIMIT),
        workgroup: match options.text("workgroup").as_deref() {
            None => Some(0),
            Some("all") => None,
            Some(text) => Some(text.parse().map_err(|_| {
                format!("`{text}` is no value for the option `workgroup`: a number or all")
            })?),
        },
        wave: options.parse("wave")?,
        dispatch: options.parse("dispatch")?,
        kernel: options.text("kernel"),
        any: false,
        met: BTreeSet::new(),
        lines,
        number: HashMap::default(),
        timeline,
        start: Instant::now(),
        running: HashMap::default(),
        threads: HashMap::default(),
        queues: HashMap::default(),
        slices: Vec::new(),
        told: HashSet::default(),
        texts: HashMap::default(),
        line: String::new(),
    };
    options.finish(&[
        "timeline",
        "instructions",
        "values",
        "limit",
        "workgroup",
        "wave",
        "dispatch",
        "kernel",
        "file",
    ])?;
    Ok(Box::new(trace))
}

/// A slice of the time line, in microseconds.
struct Slice {
    name: String,
    process: u32,
    thread: u64,
    start: f64,
    end: f64,
    arguments: Value,
}

struct Running {
    kernel: String,
    queue: u64,
    start: f64,
}

struct Trace {
    lines: Lines,
    instructions: bool,
    values: bool,
    limit: u64,
    /// The workgroup in dispatch order; `None` for all.
    workgroup: Option<u64>,
    wave: Option<u32>,
    dispatch: Option<u64>,
    kernel: Option<String>,
    /// Whether an instruction was recorded.
    any: bool,
    /// Kernels that were dispatched, as long as none was.
    met: BTreeSet<String>,
    /// Instructions of each wave so far.
    number: HashMap<(u64, u64, u32), u64>,
    timeline: Option<PathBuf>,
    start: Instant,
    running: HashMap<u64, Running>,
    threads: HashMap<ThreadId, u64>,
    /// When workgroups under way began, and on which thread.
    queues: HashMap<(u64, u64), (f64, u64)>,
    slices: Vec<Slice>,
    /// Waves whose instruction has been told of with its writes.
    told: HashSet<(u64, u64, u32)>,
    /// Texts of instructions as JSON, by address; the word tells whether it is still the same one.
    texts: HashMap<u64, (Option<u128>, String)>,
    /// Room for a record.
    line: String,
}

/// Processes of the time line.
const QUEUES: u32 = 1;
const WORKERS: u32 = 2;

impl Trace {
    fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64() * 1e6
    }

    fn thread(&mut self) -> u64 {
        let next = self.threads.len() as u64 + 1;
        let id = std::thread::current().id();
        *self.threads.entry(id).or_insert(next)
    }

    fn wanted(&self, wave: &Wave) -> bool {
        self.instructions
            && self.limit > 0
            && self.workgroup.is_none_or(|n| n == wave.group)
            && self.wave.is_none_or(|n| n == wave.index)
            && self.dispatch.is_none_or(|n| n == wave.dispatch)
            && self.kernel.as_ref().is_none_or(|kernel| {
                let running = self.running.get(&wave.dispatch);
                running.is_some_and(|running| running.kernel == *kernel)
            })
    }
}

/// Appends a number in hexadecimal, as `{:x}` writes it. A record has hundreds, and formatting took most of its time.
fn push_hex(text: &mut String, value: u64) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let count = (64 - value.leading_zeros()).div_ceil(4).max(1);
    for place in (0..count).rev() {
        text.push(char::from(DIGITS[(value >> (4 * place) & 15) as usize]));
    }
}

impl Trace {
    /// Writes the record of an instruction.
    fn record(&mut self, step: &Step<'_>, touched: &[Touch], state: &dyn State) -> Outcome {
        let (wave, instruction) = (step.wave, step.instruction);
        let number = self.number.get(&(wave.dispatch, wave.group, wave.index));
        let number = number.copied().unwrap_or(0);
        let word = instruction.inst.word();
        let known = self.texts.entry(instruction.pc).or_default();
        if known.0 != Some(word) {
            *known = (Some(word), Value::from(instruction.text()).to_string());
        }
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        let [x, y, z] = wave.workgroup;
        // Writing to a string does not fail.
        let _ = write!(
            line,
            "{{\"plugin\":\"trace\",\"dispatch\":{},\"workgroup\":[{x},{y},{z}],\"wave\":{},\"number\":{number},\"pc\":\"{:#x}\",\"text\":{},\"exec\":\"{:#x}\",\"writes\":{{",
            wave.dispatch, wave.index, instruction.pc, known.1, step.exec
        );
        for (index, touch) in touched.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let name = register_name(touch.file, touch.register);
            let _ = write!(line, "{comma}\"{name}\":{{");
            if touch.lanes != 0 {
                let _ = write!(line, "\"lanes\":\"{:#x}\",", touch.lanes);
            }
            if touch.bytes != 0xf {
                let _ = write!(line, "\"bytes\":\"{:#x}\",", touch.bytes);
            }
            if self.values {
                line.push_str("\"value\":");
                push_value(&mut line, touch, state);
            }
            if line.ends_with(',') {
                line.pop();
            }
            line.push('}');
        }
        line.push_str("}}\n");
        let written = self.lines.text(&line);
        self.line = line;
        written
    }
}

/// A document of trace events: complete events (`X`) in two processes, one with a track for each queue, the other
/// with one for each worker.
fn timeline(slices: &[Slice]) -> String {
    let mut events = vec![
        json!({ "ph": "M", "pid": QUEUES, "name": "process_name", "args": { "name": "queues" } }),
        json!({ "ph": "M", "pid": WORKERS, "name": "process_name", "args": { "name": "workers" } }),
    ];
    // Track numbers are small: viewers read them as 32-bit integers.
    let mut queues: Vec<u64> = Vec::new();
    for slice in slices {
        let thread = if slice.process == QUEUES {
            let known = queues.iter().position(|&queue| queue == slice.thread);
            known.unwrap_or_else(|| {
                queues.push(slice.thread);
                queues.len() - 1
            }) as u64
                + 1
        } else {
            slice.thread
        };
        events.push(json!({
            "ph": "X",
            "pid": slice.process,
            "tid": thread,
            "name": slice.name,
            "ts": slice.start,
            "dur": slice.end - slice.start,
            "args": slice.arguments,
        }));
    }
    for (i, queue) in queues.iter().enumerate() {
        events.push(json!({
            "ph": "M",
            "pid": QUEUES,
            "tid": i + 1,
            "name": "thread_name",
            "args": { "name": format!("queue {queue:#x}") },
        }));
    }
    json!({ "traceEvents": events, "displayTimeUnit": "ms" }).to_string()
}

/// The name of a register as assemblers write it.
pub fn register_name(file: RegFile, register: u16) -> String {
    match (file, register) {
        (RegFile::Vgpr, n) => format!("v{n}"),
        (RegFile::Agpr, n) => format!("a{n}"),
        (RegFile::Sgpr, 106) => "vcc_lo".to_owned(),
        (RegFile::Sgpr, 107) => "vcc_hi".to_owned(),
        (RegFile::Sgpr, 125) => "m0".to_owned(),
        (RegFile::Sgpr, 126) => "exec_lo".to_owned(),
        (RegFile::Sgpr, 127) => "exec_hi".to_owned(),
        (RegFile::Sgpr, n @ 108..=123) => format!("ttmp{}", n - 108),
        (RegFile::Sgpr, n) => format!("s{n}"),
        (RegFile::Scc, _) => "scc".to_owned(),
        (RegFile::Mode, _) => "mode".to_owned(),
        (RegFile::FlatScratch, n) => {
            ["flat_scratch_lo", "flat_scratch_hi"][usize::from(n) & 1].to_owned()
        }
        (RegFile::XnackMask, n) => {
            ["xnack_mask_lo", "xnack_mask_hi"][usize::from(n) & 1].to_owned()
        }
        (RegFile::AsyncCount, _) => "asynccnt".to_owned(),
        (RegFile::TensorCount, _) => "tensorcnt".to_owned(),
    }
}

/// Appends the value of a touched register: a word, or the words of the lanes in hexadecimal, one behind the other.
fn push_value(text: &mut String, touch: &Touch, state: &dyn State) {
    let row = match touch.file {
        RegFile::Vgpr => state.vgpr(touch.register),
        RegFile::Agpr => state.agpr(touch.register),
        file => {
            match state.scalar(file, touch.register) {
                Some(word) => {
                    text.push_str("\"0x");
                    push_hex(text, word.into());
                    text.push('"');
                }
                None => text.push_str("null"),
            }
            return;
        }
    };
    text.push('"');
    let mut first = true;
    for (lane, word) in row.iter().enumerate() {
        if touch.lanes >> lane & 1 != 0 {
            if !std::mem::take(&mut first) {
                text.push(' ');
            }
            push_hex(text, (*word).into());
        }
    }
    text.push('"');
}

impl Plugin for Trace {
    fn events(&self) -> Events {
        let mut events = Events::DISPATCHES;
        if self.timeline.is_some() {
            events = events | Events::WORKGROUPS;
        }
        if self.instructions {
            events = events | Events::WRITES | Events::AFTER | Events::WAVES;
        }
        events
    }

    fn dispatch_begins(&mut self, dispatch: &Dispatch<'_>) -> Outcome {
        if !self.any && self.met.len() < NAMED {
            self.met.insert(dispatch.kernel.to_owned());
        }
        let running = Running {
            kernel: dispatch.kernel.to_owned(),
            queue: dispatch.queue,
            start: self.now(),
        };
        self.running.insert(dispatch.id, running);
        Ok(())
    }

    fn dispatch_ends(&mut self, ended: &Ended<'_>) -> Outcome {
        let end = self.now();
        if let Some(running) = self.running.remove(&ended.id)
            && self.timeline.is_some()
        {
            self.slices.push(Slice {
                name: running.kernel,
                process: QUEUES,
                thread: running.queue,
                start: running.start,
                end,
                arguments: json!({
                    "dispatch": ended.id,
                    "waves": ended.waves,
                    "wave_instructions": ended.instructions,
                }),
            });
        }
        Ok(())
    }

    fn workgroup_begins(&mut self, workgroup: &Workgroup) -> Outcome {
        let (now, thread) = (self.now(), self.thread());
        let key = (workgroup.dispatch, workgroup.linear);
        self.queues.insert(key, (now, thread));
        Ok(())
    }

    fn workgroup_ends(&mut self, workgroup: &Workgroup) -> Outcome {
        let end = self.now();
        let key = (workgroup.dispatch, workgroup.linear);
        if let Some((start, thread)) = self.queues.remove(&key) {
            let [x, y, z] = workgroup.id;
            self.slices.push(Slice {
                name: format!("workgroup {x},{y},{z}"),
                process: WORKERS,
                thread,
                start,
                end,
                arguments: json!({ "dispatch": workgroup.dispatch, "waves": workgroup.waves }),
            });
        }
        Ok(())
    }

    fn wave_ends(&mut self, wave: &Wave) -> Outcome {
        self.number.remove(&(wave.dispatch, wave.group, wave.index));
        Ok(())
    }

    fn writes(&mut self, step: &Step<'_>, touched: &[Touch], state: &dyn State) -> Outcome {
        if !self.wanted(step.wave) {
            return Ok(());
        }
        let wave = (step.wave.dispatch, step.wave.group, step.wave.index);
        self.told.insert(wave);
        self.record(step, touched, state)
    }

    fn after(&mut self, step: &Step<'_>, state: &dyn State) -> Outcome {
        if !self.wanted(step.wave) {
            return Ok(());
        }
        let key = (step.wave.dispatch, step.wave.group, step.wave.index);
        // Those that write a register have been told of already.
        if !self.told.remove(&key) {
            self.record(step, &[], state)?;
        }
        *self.number.entry(key).or_default() += 1;
        self.any = true;
        self.limit -= 1;
        Ok(())
    }

    fn finish(&mut self) -> Outcome {
        if self.instructions && !self.any {
            let note = "no wave was what the options ask for";
            let record = json!({
                "plugin": "trace",
                "event": "nothing",
                "note": note,
                "kernels_dispatched": self.met,
            });
            self.lines.line(&record.to_string())?;
        }
        self.lines.flush()?;
        let Some(path) = &self.timeline else {
            return Ok(());
        };
        let failed = |e: std::io::Error| format!("cannot write {}: {e}", path.display());
        let sink = Sink::file(path).map_err(failed)?;
        sink.write(&timeline(&self.slices)).map_err(failed)?;
        sink.flush().map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_formatting_does() {
        for value in [
            0,
            1,
            9,
            10,
            15,
            16,
            255,
            0x1234_5678,
            u64::from(u32::MAX),
            u64::MAX,
        ] {
            let mut text = String::new();
            push_hex(&mut text, value);
            assert_eq!(text, format!("{value:x}"));
        }
    }
}
