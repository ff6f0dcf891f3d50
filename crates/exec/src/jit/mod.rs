//! Compiles runs of lane operations in blocks that execute often to vector code of the host. The semantics are those of the
//! interpreter: each operation's kernel, traced ([`rocjitsu_lanes::trace`]), is what is compiled.

#[cfg(target_arch = "x86_64")]
mod assembler;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod collect;
#[cfg(target_arch = "x86_64")]
mod emit;
#[cfg(target_arch = "x86_64")]
mod host;
#[cfg(target_arch = "x86_64")]
mod memory;
#[cfg(target_arch = "x86_64")]
mod native;
mod order;
#[cfg(target_arch = "x86_64")]
mod plan;
#[cfg(target_arch = "x86_64")]
mod pool;
mod usage;
#[cfg(target_arch = "x86_64")]
mod values;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use rocjitsu_lanes::Backend;
use rocjitsu_lanes::trace::graph::{Graph, Node};

use crate::record::Record;

#[cfg(target_arch = "x86_64")]
pub use native::Code;
pub(crate) use usage::Tally;
pub use usage::{Interpreted, Usage};
#[cfg(target_arch = "x86_64")]
use values::SPILL_ROWS;

/// Rows for values that compiled code has no registers for.
#[cfg(not(target_arch = "x86_64"))]
const SPILL_ROWS: usize = 1;

/// What compiled code has besides the state of a wave.
#[repr(C, align(64))]
pub struct Area {
    /// Rows for values that registers have no room for.
    spill: [[u32; 16]; SPILL_ROWS],
    /// The numbers of the lanes.
    lanes: [[u32; 16]; 4],
    /// The bit of each of eight lanes.
    bits: [u32; 8],
}

impl Default for Area {
    fn default() -> Area {
        let row = |row: u32| std::array::from_fn(|lane| 16 * row + lane as u32);
        Area {
            spill: [[0; 16]; SPILL_ROWS],
            lanes: [0, 1, 2, 3].map(row),
            bits: std::array::from_fn(|lane| 1 << lane),
        }
    }
}

/// Whether and when code is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Compile at all.
    pub enabled: bool,
    /// How many times a block is interpreted first.
    pub threshold: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            enabled: true,
            threshold: 32,
        }
    }
}

impl Options {
    /// Interpret everything.
    pub const OFF: Options = Options {
        enabled: false,
        threshold: 0,
    };

    /// What the environment variable `ROCJITSU_JIT` says, 0 or 1; the default if it is not there.
    ///
    /// # Errors
    /// Any other value, which the text names.
    pub fn from_environment() -> Result<Options, String> {
        let value = std::env::var_os("ROCJITSU_JIT").unwrap_or_default();
        match &*value.to_string_lossy() {
            "" | "1" => Ok(Options::default()),
            "0" => Ok(Options::OFF),
            other => Err(format!("ROCJITSU_JIT is `{other}`: it takes 0 or 1")),
        }
    }
}

/// What compiling has given and cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    /// Runs compiled.
    pub runs: u64,
    /// Instructions in them.
    pub instructions: u64,
    /// Runs that were not compiled: too many values at a time, or no memory.
    pub refused: u64,
    /// Bytes of code.
    pub bytes: u64,
    /// Time spent, on all threads together.
    pub seconds: f64,
}

/// Why a lane operation is not compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is of a kind that the compiler does not know.
    Kind,
    /// A float mode that it does not know.
    Mode,
    /// It looks at single lanes.
    Lanes,
    /// It comes behind a write of EXEC.
    Exec,
    /// Its registers are found by an index.
    Index,
    /// An operand of a kind that the compiler does not know.
    Operand,
    /// Lanes move across rows of 16, or from inactive lanes.
    Dpp,
    /// It uses words of the scalar file that the run has written.
    Order,
    /// The host has no short code for what it computes.
    Host,
}

impl Why {
    /// The reason in words.
    pub fn text(self) -> &'static str {
        match self {
            Why::Kind => "no lane operation that the compiler knows",
            Why::Mode => "float mode",
            Why::Lanes => "looks at single lanes",
            Why::Exec => "EXEC was written",
            Why::Index => "indexed registers",
            Why::Operand => "operand",
            Why::Dpp => "DPP across rows or from inactive lanes",
            Why::Order => "order of scalar registers",
            Why::Host => "no short code with the host's vector instructions",
        }
    }
}

/// The compiler of a device.
pub struct Jit {
    threshold: u32,
    #[cfg(target_arch = "x86_64")]
    native: native::Native,
    runs: AtomicU64,
    instructions: AtomicU64,
    refused: AtomicU64,
    bytes: AtomicU64,
    nanoseconds: AtomicU64,
}

/// The shortest run worth compiling, in instructions.
const SHORTEST: usize = 2;

/// A part of a block.
pub enum Part {
    /// Records that are interpreted.
    Records(Range<usize>),
    /// Records that were compiled.
    #[cfg(target_arch = "x86_64")]
    Code(Code),
}

impl Jit {
    /// A compiler for devices whose lanes `backend` computes.
    ///
    /// # Errors
    /// Why there is none: switched off, or the host cannot do it.
    pub fn new(backend: Backend, options: Options) -> Result<Jit, String> {
        if !options.enabled {
            return Err("switched off".to_owned());
        }
        #[cfg(target_arch = "x86_64")]
        let native = {
            let host = host::Host::of(backend)
                .ok_or_else(|| format!("the lane back end is {backend}, not avx2 or avx512"))?;
            native::Native::new(host)?
        };
        #[cfg(not(target_arch = "x86_64"))]
        if backend == Backend::Scalar {
            return Err("there is no compiler for this host's instructions".to_owned());
        }
        Ok(Jit {
            threshold: options.threshold,
            #[cfg(target_arch = "x86_64")]
            native,
            runs: AtomicU64::new(0),
            instructions: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
        })
    }

    /// How many times a block is interpreted first.
    pub fn threshold(&self) -> u32 {
        self.threshold
    }

    /// Whether the host has code for a node.
    pub(crate) fn supports(&self, _graph: &Graph, _node: &Node) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self.native.supports(_graph, _node);
        #[cfg(not(target_arch = "x86_64"))]
        true
    }

    /// Lets go of code memory; pieces of code keep what they lie in.
    pub fn reset(&self) {
        #[cfg(target_arch = "x86_64")]
        self.native.reset();
    }

    /// What was compiled up to now.
    pub fn report(&self) -> Report {
        Report {
            runs: self.runs.load(Relaxed),
            instructions: self.instructions.load(Relaxed),
            refused: self.refused.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            seconds: self.nanoseconds.load(Relaxed) as f64 * 1e-9,
        }
    }

    /// Compiles what can be of a block for waves of `lanes` lanes; `None` if that is nothing.
    #[cold]
    pub fn compile(&self, records: &[Record], lanes: u32) -> Option<Box<[Part]>> {
        let start = Instant::now();
        let mut parts = Parts {
            records,
            list: Vec::new(),
            changed: false,
        };
        let (mut at, mut done) = (0, 0);
        while at < records.len() {
            let length = self.run(lanes, at, done, &mut parts);
            if length > 0 {
                done = at + length;
            }
            at += length.max(1);
        }
        parts.interpret(done..records.len());
        let nanoseconds = start.elapsed().as_nanos() as u64;
        self.nanoseconds.fetch_add(nanoseconds, Relaxed);
        parts.changed.then(|| parts.list.into())
    }

    /// Compiles the run that begins at record `at` of the block; those from `done` on have no part yet. Returns
    /// how many records that were.
    fn run(&self, lanes: u32, at: usize, done: usize, parts: &mut Parts<'_>) -> usize {
        let mut limit = parts.records.len();
        loop {
            let found = collect::collect(&parts.records[at..limit], lanes, &|graph, node| {
                self.supports(graph, node)
            });
            if found.operations < SHORTEST {
                return 0;
            }
            #[cfg(target_arch = "x86_64")]
            if let Ok((code, bytes)) = self.native.compile(&found.run, lanes) {
                parts.interpret(done..at);
                for record in found.order.before {
                    parts.interpret(at + record..at + record + 1);
                }
                parts.list.push(Part::Code(code));
                parts.changed = true;
                for record in found.order.after {
                    parts.interpret(at + record..at + record + 1);
                }
                self.runs.fetch_add(1, Relaxed);
                self.instructions
                    .fetch_add(found.operations as u64, Relaxed);
                self.bytes.fetch_add(bytes as u64, Relaxed);
                return found.length;
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = (found.run, found.order, done, &parts);
            // Half of it has fewer values at a time.
            self.refused.fetch_add(1, Relaxed);
            limit = at + found.length / 2;
        }
    }
}

/// The parts of a block as they come.
struct Parts<'r> {
    records: &'r [Record],
    list: Vec<Part>,
    /// Whether the block executes otherwise than record by record.
    changed: bool,
}

impl Parts<'_> {
    /// Adds records that are interpreted; those that do nothing go.
    fn interpret(&mut self, range: Range<usize>) {
        for at in range {
            if crate::control::is_nop(self.records[at].inst.op()) {
                self.changed = true;
                continue;
            }
            match self.list.last_mut() {
                Some(Part::Records(last)) if last.end == at => last.end += 1,
                _ => self.list.push(Part::Records(at..at + 1)),
            }
        }
    }
}
