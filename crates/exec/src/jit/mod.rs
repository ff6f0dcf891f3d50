//! Compiles runs of lane operations in blocks that execute often to AVX-512 code. The semantics are those of the
//! interpreter: each operation's kernel, traced ([`rocjitsu_lanes::trace`]), is what is compiled.

#[cfg(target_arch = "x86_64")]
mod assembler;
mod collect;
#[cfg(target_arch = "x86_64")]
mod emit;
#[cfg(target_arch = "x86_64")]
mod memory;
#[cfg(target_arch = "x86_64")]
mod native;
#[cfg(target_arch = "x86_64")]
mod plan;
#[cfg(target_arch = "x86_64")]
mod select;
#[cfg(target_arch = "x86_64")]
mod values;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use rocjitsu_lanes::Backend;

use crate::record::Record;

#[cfg(target_arch = "x86_64")]
pub use native::Code;
#[cfg(target_arch = "x86_64")]
pub use values::SPILL_ROWS;

/// Rows for values that compiled code has no registers for.
#[cfg(not(target_arch = "x86_64"))]
pub const SPILL_ROWS: usize = 1;

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
        if backend != Backend::Avx512 {
            return Err(format!("the lane back end is {backend}, not avx512"));
        }
        Ok(Jit {
            threshold: options.threshold,
            #[cfg(target_arch = "x86_64")]
            native: native::Native::new()?,
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
        let mut parts = Vec::new();
        let (mut at, mut done) = (0, 0);
        while at < records.len() {
            let length = self.run(&records[at..], lanes, at, done, &mut parts);
            if length > 0 {
                done = at + length;
            }
            at += length.max(1);
        }
        let nanoseconds = start.elapsed().as_nanos() as u64;
        self.nanoseconds.fetch_add(nanoseconds, Relaxed);
        if parts.is_empty() {
            return None;
        }
        if done < records.len() {
            parts.push(Part::Records(done..records.len()));
        }
        Some(parts.into())
    }

    /// Compiles the run at the start of `records`, the first of which is number `at` of the block; those from
    /// `done` on have no part yet. Returns how many records that were.
    fn run(
        &self,
        records: &[Record],
        lanes: u32,
        at: usize,
        done: usize,
        parts: &mut Vec<Part>,
    ) -> usize {
        let mut limit = records.len();
        loop {
            let (run, length) = collect::collect(&records[..limit], lanes);
            if length < SHORTEST {
                return 0;
            }
            #[cfg(target_arch = "x86_64")]
            if let Ok((code, bytes)) = self.native.compile(&run, lanes / 16) {
                if done < at {
                    parts.push(Part::Records(done..at));
                }
                parts.push(Part::Code(code));
                self.runs.fetch_add(1, Relaxed);
                self.instructions.fetch_add(length as u64, Relaxed);
                self.bytes.fetch_add(bytes as u64, Relaxed);
                return length;
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = (run, at, done, &parts);
            // Half of it has fewer values at a time.
            self.refused.fetch_add(1, Relaxed);
            limit = length / 2;
        }
    }
}
