//! What a run did: dispatches, packets and ioctls, faults. Written when the program ends.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use rocjitsu_exec::record::Class;
use rocjitsu_gpu::dispatch::{Device, Exactness, Form, Statistics, jit};
use rocjitsu_gpu::queue::{DispatchReport, Engine, QueueFault, error};
use rustix::io::Errno;
use serde::Serialize;

use crate::fidelity::FormCount;
use crate::process::lock;
use crate::table::{DRM, KFD};

/// Dispatches that are listed one by one; later ones are only counted with their kernel.
const LISTED: usize = 4096;

/// More than a table has rows.
const ROWS: usize = 64;
const _: () = assert!(KFD.len() <= ROWS && DRM.len() <= ROWS);

/// Counts while the program runs.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// Calls by table (KFD, DRM) and row: counted without a lock, since an ioctl takes a microsecond.
    calls: [[AtomicU64; ROWS]; 2],
    /// Failed calls by name, and unknown ioctls by number.
    failed: Mutex<BTreeMap<String, IoctlCount>>,
    packets: Mutex<BTreeMap<(Engine, &'static str), u64>>,
    work: Mutex<Work>,
    code: Mutex<Code>,
    started: Instant,
    /// Whether executions are counted by form: somebody wants the report.
    counts_forms: AtomicBool,
    /// Grows with everything that is recorded; says whether a report that was written is still true.
    changes: AtomicU64,
}

/// Instruction forms by target, name and encoding, with how exact they are.
type Seen = BTreeMap<(&'static str, String, String), Exactness>;

/// What code ran.
#[derive(Debug, Default)]
struct Code {
    /// Devices that may still run some.
    devices: Vec<Live>,
    /// The forms of those that are gone.
    seen: Seen,
}

/// A device, by what a queue of it holds.
struct Live(Weak<Device>);

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Live")
    }
}

impl Code {
    fn add(seen: &mut Seen, device: &Device) {
        let target = device.target().name();
        for form in device.forms() {
            let key = (target, form.name(), format!("{:?}", form.format));
            let known = seen.entry(key).or_insert(form.exactness);
            *known = form.exactness.max(*known);
        }
    }

    fn all(&self) -> Seen {
        let mut seen = self.seen.clone();
        for device in self.devices.iter().filter_map(|live| live.0.upgrade()) {
            Self::add(&mut seen, &device);
        }
        seen
    }
}

#[derive(Debug, Default)]
struct Work {
    dispatches: Vec<DispatchLine>,
    dispatches_not_listed: u64,
    kernels: BTreeMap<String, KernelCount>,
    /// Executions by form, for each kernel.
    forms: HashMap<String, HashMap<Form, u64>>,
    faults: Vec<Fault>,
    refused_packets: BTreeMap<&'static str, u64>,
    refused_instructions: u64,
}

/// What the preloaded library costs the program by itself, kernels aside.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Own {
    /// Calls of the program's that the driver looked at.
    pub calls: u64,
    /// Seconds that the program's threads spent in them, without waits for events.
    pub seconds: f64,
    /// Processor seconds of the driver's threads.
    pub thread_seconds: f64,
    /// KiB of the library's file that were resident when it had been loaded.
    pub loaded_kib: u64,
    /// KiB that became resident during calls.
    pub resident_kib: i64,
}

/// How often an ioctl was called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct IoctlCount {
    /// Calls.
    pub calls: u64,
    /// Failed calls, by error.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
}

/// A dispatch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DispatchLine {
    /// Kernel name, or where it is.
    pub kernel: String,
    /// Work-items in x, y, z.
    pub grid: [u32; 3],
    /// Work-items of a workgroup in x, y, z.
    pub workgroup: [u32; 3],
    /// Waves that ran.
    pub waves: u64,
    /// Wave instructions.
    pub instructions: u64,
    /// Seconds from the start of the driver to the dispatch's first wave.
    pub start: f64,
    /// Seconds from the first wave to the last.
    pub seconds: f64,
    /// Why it stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// All dispatches of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct KernelCount {
    /// Dispatches, failed ones included.
    pub dispatches: u64,
    /// Dispatches that were stopped.
    pub failed: u64,
    /// Waves that ran.
    pub waves: u64,
    /// Wave instructions by class.
    pub instructions: BTreeMap<&'static str, u64>,
    /// Those of them whose results are only within a bound of the hardware's.
    pub bounded: u64,
    /// Those that follow a rule which nothing confirms.
    pub by_default: u64,
    /// Wave instructions by form, those that are not exact first.
    pub forms: Vec<FormCount>,
    /// Seconds.
    pub seconds: f64,
}

impl KernelCount {
    fn add(&mut self, statistics: &Statistics) {
        self.waves += statistics.waves;
        self.seconds += statistics.seconds;
        self.bounded += statistics.bounded();
        self.by_default += statistics.by_default();
        for class in Class::ALL {
            let count = statistics.of(class);
            if count > 0 {
                *self.instructions.entry(class.name()).or_default() += count;
            }
        }
    }
}

/// A queue that stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The GPU.
    pub gpu: String,
    /// What happened where.
    pub text: String,
}

/// How true the results of the executed wave instructions are to the hardware's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Results {
    /// As the manuals define them, bit for bit.
    pub exact: u64,
    /// Within a bound that is stated with the form.
    pub bounded: u64,
    /// By a rule that no results of hardware and no vectors confirm; it is stated with the form.
    pub by_default: u64,
    /// Refused: each stopped its queue.
    pub refused: u64,
}

/// The instruction forms of one target in code that waves came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Forms {
    /// Those with the hardware's bits, as `name (encoding)`.
    pub exact: Vec<String>,
    /// Those that are bounded, with the bound.
    pub bounded: BTreeMap<String, &'static str>,
    /// Those that follow an unconfirmed rule, with the rule.
    pub by_default: BTreeMap<String, &'static str>,
}

/// How wave instructions executed. Code that has changed or gone since is left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Executed {
    /// Wave instructions counted here.
    pub instructions: u64,
    /// Those in compiled runs.
    pub compiled: u64,
    /// Those in blocks that did not execute often enough to be compiled.
    pub cold: u64,
    /// The others, which the interpreter executed, by instruction: the most frequent ones first.
    pub interpreted: Vec<Interpreted>,
}

/// An instruction that was interpreted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interpreted {
    /// Its name.
    pub instruction: &'static str,
    /// Why it was not compiled.
    pub why: &'static str,
    /// How often.
    pub count: u64,
}

impl From<jit::Usage> for Executed {
    fn from(usage: jit::Usage) -> Executed {
        let mut executed = Executed::default();
        executed.add(usage);
        executed
    }
}

impl Executed {
    /// Instructions that [`Executed::interpreted`] names at most.
    const NAMED: usize = 40;

    /// Adds the counts of a device.
    pub fn add(&mut self, usage: jit::Usage) {
        self.instructions += usage.instructions;
        self.compiled += usage.compiled;
        self.cold += usage.cold;
        for row in usage.interpreted {
            let mut known = self.interpreted.iter_mut();
            match known.find(|known| known.instruction == row.name && known.why == row.why) {
                Some(known) => known.count += row.instructions,
                None => self.interpreted.push(Interpreted {
                    instruction: row.name,
                    why: row.why,
                    count: row.instructions,
                }),
            }
        }
        self.interpreted
            .sort_by_key(|row| std::cmp::Reverse(row.count));
        self.interpreted.truncate(Executed::NAMED);
    }
}

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Number of the process.
    pub process: u32,
    /// Its command line.
    pub command: Vec<String>,
    /// Whether the process was at its end. A report that says no was written while it ran, and it was killed later.
    pub complete: bool,
    /// The GPUs, by name and target.
    pub gpus: Vec<String>,
    /// Most memory that the process had resident, in KiB.
    pub peak_memory_kib: u64,
    /// How much of the process's time and memory is the library's, if that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own: Option<Own>,
    /// Dispatches in the order of their ends, the first few thousand.
    pub dispatches: Vec<DispatchLine>,
    /// Dispatches that are counted with their kernels only.
    pub dispatches_not_listed: u64,
    /// Sums over dispatches, by kernel.
    pub kernels: BTreeMap<String, KernelCount>,
    /// Wave instructions by class, over all kernels.
    pub instructions: BTreeMap<&'static str, u64>,
    /// The same by how true their results are.
    pub results: Results,
    /// Instruction forms by target.
    pub forms: BTreeMap<&'static str, Forms>,
    /// How they executed, as far as the contexts exist that executed them.
    pub executed: Executed,
    /// Queues that stopped.
    pub faults: Vec<Fault>,
    /// Packets by engine and name.
    pub packets: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
    /// Packets that were refused, by engine; each stopped its queue.
    pub packets_refused: BTreeMap<&'static str, u64>,
    /// Ioctls by name; those that the driver does not know by number.
    pub ioctls: BTreeMap<String, IoctlCount>,
}

fn engine_name(engine: Engine) -> &'static str {
    match engine {
        Engine::Aql => "aql",
        Engine::Pm4 => "pm4",
        Engine::Sdma => "sdma",
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Recorder {
            calls: std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))),
            failed: Mutex::default(),
            packets: Mutex::default(),
            work: Mutex::default(),
            code: Mutex::default(),
            started: Instant::now(),
            counts_forms: AtomicBool::new(false),
            changes: AtomicU64::new(0),
        }
    }
}

/// Whether a fault is a packet's own, not that of the waves it started.
fn is_packets(fault: &QueueFault) -> bool {
    matches!(
        fault.code,
        error::DIMENSIONS
            | error::GROUP_SEGMENT
            | error::CODE_OBJECT
            | error::PACKET_FORMAT
            | error::WORKGROUP
            | error::REGISTERS
            | error::VENDOR_PACKET
    )
}

impl Recorder {
    /// Counts a call of a row of a table: 0 for KFD, 1 for DRM.
    pub(crate) fn ioctl(&self, table: usize, row: usize, name: &str, result: Result<(), Errno>) {
        if let Some(calls) = self.calls.get(table).and_then(|calls| calls.get(row)) {
            calls.fetch_add(1, Ordering::Relaxed);
        }
        self.changes.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = result {
            self.failed(name, error, 0);
        }
    }

    /// Counts a call that the driver does not know.
    pub(crate) fn unknown_ioctl(&self, number: u32) {
        self.failed(&format!("{number:#010x}"), Errno::NOTTY, 1);
    }

    fn failed(&self, name: &str, error: Errno, calls: u64) {
        let mut failed = lock(&self.failed);
        let count = failed.entry(name.to_owned()).or_default();
        count.calls += calls;
        *count.errors.entry(error.to_string()).or_default() += 1;
    }

    fn ioctls(&self) -> BTreeMap<String, IoctlCount> {
        let mut ioctls = lock(&self.failed).clone();
        for (rows, calls) in [KFD, DRM].into_iter().zip(&self.calls) {
            for (row, calls) in rows.iter().zip(calls) {
                let calls = calls.load(Ordering::Relaxed);
                if calls > 0 {
                    ioctls.entry(row.name.to_owned()).or_default().calls = calls;
                }
            }
        }
        ioctls
    }

    pub(crate) fn packet(&self, engine: Engine, name: &'static str) {
        *lock(&self.packets).entry((engine, name)).or_default() += 1;
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// From now on dispatches count executions by form.
    pub(crate) fn count_forms(&self) {
        self.counts_forms.store(true, Ordering::Relaxed);
    }

    /// Whether they do.
    pub(crate) fn counts_forms(&self) -> bool {
        self.counts_forms.load(Ordering::Relaxed)
    }

    /// A number that grows with everything that is recorded.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// A queue of the device begins: its code counts until [`Recorder::leave`].
    pub(crate) fn enter(&self, device: &Arc<Device>) {
        let live = Arc::downgrade(device);
        let devices = &mut lock(&self.code).devices;
        devices.retain(|other| other.0.strong_count() > 0);
        if !devices.iter().any(|other| other.0.ptr_eq(&live)) {
            devices.push(Live(live));
        }
    }

    /// A queue of the device is gone, perhaps its last.
    pub(crate) fn leave(&self, device: &Device) {
        let mut seen = Seen::new();
        Code::add(&mut seen, device);
        lock(&self.code).seen.extend(seen);
    }

    pub(crate) fn dispatch(&self, ran: &DispatchReport<'_>) {
        let work = &mut *lock(&self.work);
        let kernel = work.kernels.entry(ran.kernel.to_owned()).or_default();
        kernel.dispatches += 1;
        match &ran.outcome {
            Ok(statistics) => kernel.add(statistics),
            Err(_) => kernel.failed += 1,
        }
        if !ran.forms.is_empty() {
            let counts = work.forms.entry(ran.kernel.to_owned()).or_default();
            for (form, count) in &ran.forms {
                *counts.entry(*form).or_default() += count;
            }
        }
        if work.dispatches.len() >= LISTED {
            work.dispatches_not_listed += 1;
            return;
        }
        let nothing = Statistics::default();
        let statistics = ran.outcome.as_ref().map_or(&nothing, |done| *done);
        work.dispatches.push(DispatchLine {
            kernel: ran.kernel.to_owned(),
            grid: ran.grid,
            workgroup: ran.workgroup,
            waves: statistics.waves,
            instructions: statistics.total(),
            start: (self.started.elapsed().as_secs_f64() - statistics.seconds).max(0.0),
            seconds: statistics.seconds,
            error: ran.outcome.as_ref().err().cloned(),
        });
    }

    pub(crate) fn fault(&self, gpu: &str, engine: Engine, fault: &QueueFault) {
        let mut work = lock(&self.work);
        if fault.memory.is_none() && is_packets(fault) {
            *work.refused_packets.entry(engine_name(engine)).or_default() += 1;
        }
        work.refused_instructions += u64::from(fault.code == error::ILLEGAL_INSTRUCTION);
        work.faults.push(Fault {
            gpu: gpu.to_owned(),
            text: fault.text.clone(),
        });
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// The counts; who ran and on what is the driver's to add.
    pub(crate) fn report(&self) -> Report {
        let mut packets: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for (&(engine, name), &count) in &*lock(&self.packets) {
            let engine = packets.entry(engine_name(engine)).or_default();
            engine.insert(name, count);
        }
        let mut forms: BTreeMap<_, Forms> = BTreeMap::new();
        for ((target, name, encoding), exactness) in lock(&self.code).all() {
            let forms = forms.entry(target).or_default();
            let form = format!("{name} ({encoding})");
            match exactness {
                Exactness::Exact => forms.exact.push(form),
                Exactness::Bounded(bound) => {
                    forms.bounded.insert(form, bound);
                }
                Exactness::Default(rule) => {
                    forms.by_default.insert(form, rule);
                }
            }
        }
        let work = lock(&self.work);
        let mut instructions = BTreeMap::new();
        let mut results = Results {
            refused: work.refused_instructions,
            ..Results::default()
        };
        for kernel in work.kernels.values() {
            for (&class, count) in &kernel.instructions {
                *instructions.entry(class).or_default() += count;
                results.exact += count;
            }
            results.bounded += kernel.bounded;
            results.by_default += kernel.by_default;
        }
        results.exact -= results.bounded + results.by_default;
        let mut kernels = work.kernels.clone();
        for (name, kernel) in &mut kernels {
            let counts = work.forms.get(name).into_iter().flatten();
            kernel.forms = FormCount::list(counts.map(|(form, count)| (*form, *count)));
        }
        Report {
            results,
            forms,
            packets_refused: work.refused_packets.clone(),
            dispatches: work.dispatches.clone(),
            dispatches_not_listed: work.dispatches_not_listed,
            kernels,
            instructions,
            faults: work.faults.clone(),
            packets,
            ioctls: self.ioctls(),
            ..Report::default()
        }
    }
}

impl Report {
    /// Fills in what the host knows of this process.
    pub(crate) fn with_process(mut self) -> Report {
        self.process = std::process::id();
        // The arguments as the kernel keeps them: `std::env::args` is empty in a preloaded library.
        self.command = std::fs::read("/proc/self/cmdline").map_or(Vec::new(), |bytes| {
            let bytes = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
            let args = bytes.split(|&byte| byte == 0);
            args.map(|arg| String::from_utf8_lossy(arg).into_owned())
                .collect()
        });
        self.peak_memory_kib = std::fs::read_to_string("/proc/self/status")
            .ok()
            .and_then(|status| {
                let line = status
                    .lines()
                    .find_map(|line| line.strip_prefix("VmHWM:"))?;
                line.split_whitespace().next()?.parse().ok()
            })
            .unwrap_or(0);
        self
    }
}

/// A summary for people: a few lines.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dispatches = self.dispatches.len() as u64 + self.dispatches_not_listed;
        let instructions: u64 = self.instructions.values().sum();
        // A sum of nothing would be -0.
        let seconds = self
            .kernels
            .values()
            .fold(0.0, |sum, kernel| sum + kernel.seconds);
        writeln!(
            f,
            "{dispatches} dispatches of {} kernels, {instructions} wave instructions in {seconds:.3} s; {} MiB at most",
            self.kernels.len(),
            self.peak_memory_kib / 1024
        )?;
        writeln!(
            f,
            "  results: {} exact, {} within a bound, {} by default, {} refused",
            self.results.exact, self.results.bounded, self.results.by_default, self.results.refused
        )?;
        if let Some(own) = &self.own {
            let mib = |kib: i64| kib as f64 / 1024.0;
            writeln!(
                f,
                "  the driver itself: {} calls in {:.1} ms, {:.1} ms of its threads; {:.1} MiB loaded, {:.1} MiB more",
                own.calls,
                own.seconds * 1e3,
                own.thread_seconds * 1e3,
                mib(own.loaded_kib.cast_signed()),
                mib(own.resident_kib)
            )?;
        }
        let mut kernels: Vec<_> = self.kernels.iter().collect();
        kernels.sort_by(|a, b| b.1.seconds.total_cmp(&a.1.seconds));
        for (name, kernel) in kernels.iter().take(10) {
            writeln!(
                f,
                "  {:>9.3} s  {:>7} x  {name}",
                kernel.seconds, kernel.dispatches
            )?;
        }
        let rows = self.kernels.values().flat_map(|kernel| &kernel.forms);
        for row in FormCount::sum(rows.filter(|row| row.is_inexact()).cloned()) {
            writeln!(f, "  {}", row.line())?;
        }
        for fault in &self.faults {
            writeln!(f, "  stopped: {}: {}", fault.gpu, fault.text)?;
        }
        for (name, count) in &self.ioctls {
            for (error, times) in &count.errors {
                writeln!(f, "  ioctl {name}: {times} x {error}")?;
            }
        }
        Ok(())
    }
}
