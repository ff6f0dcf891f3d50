//! `trace`: the instructions of chosen waves with the registers they change, and a time line of dispatches and
//! workgroups in the trace-event format that ui.perfetto.dev and chrome://tracing open.

use foldhash::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::thread::ThreadId;
use std::time::Instant;

use rocjitsu_isa::RegFile;
use rocjitsu_observe::{
    Dispatch, Ended, Events, Lines, Outcome, Plugin, Sink, State, Step, Touch, Wave, Workgroup,
};
use serde_json::{Map, Value, json};

use crate::options::Options;

/// Instructions traced if the options do not say.
const LIMIT: u64 = 10_000;

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
        lines,
        number: HashMap::default(),
        timeline,
        start: Instant::now(),
        running: HashMap::default(),
        threads: HashMap::default(),
        queues: HashMap::default(),
        slices: Vec::new(),
        told: HashSet::default(),
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

impl Trace {
    fn record(&self, step: &Step<'_>, touched: &[Touch], state: &dyn State) -> Value {
        let key = (step.wave.dispatch, step.wave.group, step.wave.index);
        let mut writes = Map::new();
        for touch in touched {
            let mut written = Map::new();
            if touch.lanes != 0 {
                written.insert("lanes".to_owned(), format!("{:#x}", touch.lanes).into());
            }
            if touch.bytes != 0xf {
                written.insert("bytes".to_owned(), format!("{:#x}", touch.bytes).into());
            }
            if self.values {
                written.insert("value".to_owned(), value(touch, state));
            }
            writes.insert(register_name(touch.file, touch.register), written.into());
        }
        json!({
            "plugin": "trace",
            "dispatch": step.wave.dispatch,
            "workgroup": step.wave.workgroup,
            "wave": step.wave.index,
            "number": self.number.get(&key).copied().unwrap_or(0),
            "pc": format!("{:#x}", step.instruction.pc),
            "text": step.instruction.text(),
            "exec": format!("{:#x}", step.exec),
            "writes": writes,
        })
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

/// The value of a touched register: a word, or the words of the lanes in hexadecimal, one behind the other.
fn value(touch: &Touch, state: &dyn State) -> Value {
    let row = match touch.file {
        RegFile::Vgpr => state.vgpr(touch.register),
        RegFile::Agpr => state.agpr(touch.register),
        file => {
            let word = state.scalar(file, touch.register);
            return word.map_or(Value::Null, |word| format!("{word:#x}").into());
        }
    };
    let mut text = String::new();
    for (lane, word) in row.iter().enumerate() {
        if touch.lanes >> lane & 1 != 0 {
            let space = if text.is_empty() { "" } else { " " };
            // Writing to a string does not fail.
            let _ = write!(text, "{space}{word:x}");
        }
    }
    text.into()
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
        let record = self.record(step, touched, state);
        let wave = (step.wave.dispatch, step.wave.group, step.wave.index);
        self.told.insert(wave);
        self.lines.line(&record.to_string())
    }

    fn after(&mut self, step: &Step<'_>, state: &dyn State) -> Outcome {
        if !self.wanted(step.wave) {
            return Ok(());
        }
        let key = (step.wave.dispatch, step.wave.group, step.wave.index);
        // Those that write a register have been told of already.
        if !self.told.remove(&key) {
            let record = self.record(step, &[], state);
            self.lines.line(&record.to_string())?;
        }
        *self.number.entry(key).or_default() += 1;
        self.limit -= 1;
        Ok(())
    }

    fn finish(&mut self) -> Outcome {
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
