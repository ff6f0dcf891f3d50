//! Compiles blocks that execute often: runs of lane operations to vector code of the host, scalar instructions and branches
//! to its general instructions. What lane operations do is said once, in the interpreter: each operation's kernel, traced
//! ([`rocjitsu_lanes::trace`]), is what is compiled.

#[cfg(target_arch = "x86_64")]
mod assembler;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod chain;
mod collect;
#[cfg(target_arch = "x86_64")]
mod emit;
#[cfg(target_arch = "x86_64")]
mod flow;
#[cfg(target_arch = "x86_64")]
mod general;
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
#[cfg(target_arch = "x86_64")]
mod product;
#[cfg(target_arch = "x86_64")]
mod scalar;
#[cfg(target_arch = "x86_64")]
mod turn;
mod usage;
#[cfg(target_arch = "x86_64")]
mod values;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use rocjitsu_lanes::Backend;
use rocjitsu_lanes::trace::graph::{Graph, Node};

use crate::code::Body;
#[cfg(target_arch = "x86_64")]
use crate::matrix;
use crate::record::Record;

pub(crate) use chain::{Chain, MEMBERS, Member};
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
    /// Scalar instructions and branches that were compiled.
    pub scalar: u64,
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
    scalar: AtomicU64,
    refused: AtomicU64,
    bytes: AtomicU64,
    nanoseconds: AtomicU64,
}

/// The shortest run worth compiling, in instructions.
const SHORTEST: usize = 1;

/// A part of a block.
enum Piece {
    /// A record that is no lane operation, or one that is not compiled.
    Record(usize),
    /// Lane operations that were compiled.
    #[cfg(target_arch = "x86_64")]
    Code(native::Code),
    /// Matrix products that were compiled. All lanes take part, whatever EXEC is.
    #[cfg(target_arch = "x86_64")]
    Products(Products),
}

/// Matrix products that were compiled.
#[cfg(target_arch = "x86_64")]
struct Products {
    code: native::Code,
    /// The records that they are.
    records: std::ops::Range<usize>,
    /// The code may come back with 1 in EAX: the records are to be executed by their handlers.
    guarded: bool,
}

/// What the records of a block were compiled to, in the order in which they are done.
pub(crate) struct Pieces {
    list: Vec<Piece>,
    /// The lane operations of a block that is a loop, for all turns but the last (see [`turn`]).
    #[cfg(target_arch = "x86_64")]
    inner: Option<native::Code>,
}

impl Pieces {
    /// The records among `records`, those of the block, that stand by themselves.
    fn records<'r>(&self, records: &'r [Record]) -> impl Iterator<Item = &'r Record> {
        self.list.iter().filter_map(|piece| match piece {
            Piece::Record(at) => records.get(*at),
            #[cfg(target_arch = "x86_64")]
            Piece::Code(_) | Piece::Products(_) => None,
        })
    }
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
            scalar: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
        })
    }

    /// How many times a block is interpreted first.
    pub fn threshold(&self) -> u32 {
        self.threshold
    }

    /// Whether matrix products with a simple rule are compiled.
    pub(crate) fn compiles_products(&self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self.native.has_products();
        #[cfg(not(target_arch = "x86_64"))]
        false
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
            scalar: self.scalar.load(Relaxed),
            refused: self.refused.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            seconds: self.nanoseconds.load(Relaxed) as f64 * 1e-9,
        }
    }

    /// How many times a block is executed by itself before it is compiled with those that it goes to.
    pub(crate) fn chain_threshold(&self) -> u32 {
        self.threshold.saturating_mul(4).saturating_add(4)
    }

    /// Compiles a block for waves of `lanes` lanes; `None` if that cannot be.
    #[cold]
    pub(crate) fn compile(&self, body: &Arc<Body>, lanes: u32) -> Option<(Arc<Pieces>, Chain)> {
        let start = Instant::now();
        let pieces = Arc::new(self.pieces(&body.records, lanes));
        let member = Member {
            body: body.clone(),
            pieces: pieces.clone(),
        };
        let chain = self.function(vec![member], lanes);
        let scalar = pieces
            .records(&body.records)
            .filter(|record| usage::by_itself(record));
        self.scalar.fetch_add(scalar.count() as u64, Relaxed);
        self.spent(start);
        Some((pieces, chain?))
    }

    /// Compiles blocks that go to each other as one function, which begins with the first; `None` if there are none
    /// besides that.
    #[cold]
    pub(crate) fn chain(&self, members: Vec<Member>, lanes: u32) -> Option<Chain> {
        if members.len() < 2 {
            return None;
        }
        let start = Instant::now();
        let chain = self.function(members, lanes);
        self.spent(start);
        chain
    }

    fn spent(&self, start: Instant) {
        let nanoseconds = start.elapsed().as_nanos() as u64;
        self.nanoseconds.fetch_add(nanoseconds, Relaxed);
    }

    #[cfg(target_arch = "x86_64")]
    fn function(&self, members: Vec<Member>, lanes: u32) -> Option<Chain> {
        let (chain, bytes) = self.native.chain(members.into(), lanes).ok()?;
        self.bytes.fetch_add(bytes as u64, Relaxed);
        Some(chain)
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn function(&self, _: Vec<Member>, _: u32) -> Option<Chain> {
        None
    }

    fn pieces(&self, records: &[Record], lanes: u32) -> Pieces {
        let mut pieces = Pieces {
            list: Vec::new(),
            #[cfg(target_arch = "x86_64")]
            inner: None,
        };
        let mut at = 0;
        while at < records.len() {
            let mut length = self.run(&records[at..], lanes, at, &mut pieces);
            #[cfg(target_arch = "x86_64")]
            if length == 0 {
                length = self.products(&records[at..], lanes, at, &mut pieces);
            }
            if length == 0 && !crate::control::is_nop(records[at].inst.op()) {
                pieces.list.push(Piece::Record(at));
            }
            at += length.max(1);
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(run) = turn::inner(records, &pieces.list, lanes, &|graph, node| {
            self.supports(graph, node)
        }) && let Ok((code, bytes)) = self.native.compile(&run, lanes)
        {
            pieces.inner = Some(code);
            self.bytes.fetch_add(bytes as u64, Relaxed);
        }
        pieces
    }

    /// Compiles the matrix products that `records` begin with, the first of which is number `at` of the block. Returns how
    /// many there are.
    #[cfg(target_arch = "x86_64")]
    fn products(&self, records: &[Record], lanes: u32, at: usize, pieces: &mut Pieces) -> usize {
        if !self.native.has_products() {
            return 0;
        }
        let mut products = Vec::new();
        for next in records.iter().map_while(matrix::product) {
            if !product::joins(&products, &next) {
                break;
            }
            products.push(next);
        }
        if products.is_empty() {
            return 0;
        }
        let Ok((code, bytes)) = self.native.products(&products, lanes) else {
            return 0;
        };
        pieces.list.push(Piece::Products(Products {
            code,
            records: at..at + products.len(),
            guarded: product::is_guarded(&products[0].form),
        }));
        self.runs.fetch_add(1, Relaxed);
        self.instructions.fetch_add(products.len() as u64, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
        products.len()
    }

    /// Compiles the run that `records` begin with, the first of which is number `at` of the block. Returns how many
    /// records that were.
    fn run(&self, records: &[Record], lanes: u32, at: usize, pieces: &mut Pieces) -> usize {
        let mut limit = records.len();
        loop {
            let found = collect::collect(&records[..limit], lanes, &|graph, node| {
                self.supports(graph, node)
            });
            if found.operations < SHORTEST {
                return 0;
            }
            #[cfg(target_arch = "x86_64")]
            if let Ok((code, bytes)) = self.native.compile(&found.run, lanes) {
                let record = |n: usize| Piece::Record(at + n);
                pieces
                    .list
                    .extend(found.order.before.into_iter().map(record));
                pieces.list.push(Piece::Code(code));
                pieces
                    .list
                    .extend(found.order.after.into_iter().map(record));
                self.runs.fetch_add(1, Relaxed);
                self.instructions
                    .fetch_add(found.operations as u64, Relaxed);
                self.bytes.fetch_add(bytes as u64, Relaxed);
                return found.length;
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = (found.run, found.order, at, &pieces);
            // Half of it has fewer values at a time.
            self.refused.fetch_add(1, Relaxed);
            limit = found.length / 2;
        }
    }
}
