//! Blocks of decoded code, made once and shared by every wave and thread that runs them.
//! A block is a straight run of instructions; its records hold all that executing them needs.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use rocjitsu_isa::{FeatureSet, Target, decode};
use rocjitsu_lanes::Backend;

use crate::error::{Cause, Fault};
use crate::forms::{Form, Forms, Tally};
use crate::jit::{self, Jit, Part};
use crate::lower::{Lowering, State, lower};
use crate::memory::MemoryPort;
use crate::record::{COUNTERS, Record};
use crate::watch::{self, Info};

/// The longest block, in instructions.
pub(crate) const BLOCK_LIMIT: usize = 256;
/// The longest instruction in bytes: VOP3PX with a literal does not exist, MIMG with NSA is shorter.
const LONGEST: usize = 24;

/// Code at an address, decoded under a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    pc: u64,
    state: State,
}

/// A straight run of instructions.
pub struct Block {
    /// The instructions in order.
    pub records: Box<[Record]>,
    /// The number of each one's form.
    forms: Box<[u32]>,
    /// How many there are of each class, and how many that are not exact.
    pub counts: [u32; COUNTERS],
    /// Address behind the last one.
    pub end: u64,
    /// Lanes of the waves that execute it.
    lanes: u32,
    /// How often it was interpreted, roughly: threads may overlook each other.
    heat: AtomicU32,
    /// Whether a thread has begun to compile it.
    claimed: AtomicBool,
    /// How often it executed, as far as views have told.
    turns: AtomicU64,
    /// How it executes once that is decided: in parts, or record by record.
    parts: OnceLock<Option<Box<[Part]>>>,
    /// State that it was decoded under.
    state: State,
    /// What those who watch are told of its instructions, made when the first one asks.
    infos: OnceLock<Box<[Info]>>,
}

impl Block {
    /// What it is found by.
    pub(crate) fn key(&self) -> BlockKey {
        BlockKey(Key {
            pc: self.records.first().map_or(self.end, |first| first.pc),
            state: self.state,
        })
    }

    /// What those who watch are told of its instructions.
    pub(crate) fn watched(&self) -> &[Info] {
        self.infos
            .get_or_init(|| watch::of_block(&self.records, self.lanes, self.state.banks()))
    }
}

/// All decoded code of a device.
pub struct CodeCache {
    target: Target,
    backend: Backend,
    /// The compiler, or why there is none.
    jit: Result<Jit, String>,
    fast_matrix: bool,
    blocks: RwLock<HashMap<Key, Arc<Block>>>,
    /// Bytes that blocks were made from, by address.
    watched: Mutex<HashMap<u64, Box<[u8]>>>,
    epoch: AtomicU64,
    /// All forms that were ever decoded, those of code that is gone included.
    forms: Mutex<Forms>,
}

impl CodeCache {
    /// An empty cache for code of `target`, executed by `backend`; `options` say what is compiled.
    pub fn new(target: Target, backend: Backend, options: jit::Options) -> CodeCache {
        CodeCache {
            target,
            backend,
            jit: Jit::new(backend, options),
            fast_matrix: false,
            blocks: RwLock::default(),
            watched: Mutex::default(),
            epoch: AtomicU64::new(0),
            forms: Mutex::default(),
        }
    }

    /// What was compiled, or why nothing is.
    ///
    /// # Errors
    /// The reason: switched off, another back end, no memory for code.
    pub fn compiled(&self) -> Result<jit::Report, &str> {
        match &self.jit {
            Ok(jit) => Ok(jit.report()),
            Err(why) => Err(why),
        }
    }

    /// What executed compiled and what was interpreted, of the blocks that are cached and that views which are
    /// settled or gone have executed.
    pub fn usage(&self) -> jit::Usage {
        let supports = |graph: &_, node: &_| match &self.jit {
            Ok(jit) => jit.supports(graph, node),
            Err(_) => true,
        };
        let mut tally = jit::Tally::new(&supports);
        let blocks = self.blocks.read().unwrap_or_else(|e| e.into_inner());
        for block in blocks.values() {
            let turns = block.turns.load(Ordering::Relaxed);
            if turns > 0 {
                let parts = block.parts.get().map(Option::as_deref);
                tally.add(&block.records, parts, block.lanes, turns);
            }
        }
        tally.finish()
    }

    /// The parts of a block, or `None` where it is interpreted as a whole.
    #[inline(always)]
    pub(crate) fn parts<'b>(&self, block: &'b Block) -> Option<&'b [Part]> {
        match block.parts.get() {
            Some(parts) => parts.as_deref(),
            None => self.warm(block),
        }
    }

    /// Counts an execution of a block that is not compiled; enough of them, and it is.
    fn warm<'b>(&self, block: &'b Block) -> Option<&'b [Part]> {
        let Ok(jit) = &self.jit else { return None };
        let heat = block.heat.load(Ordering::Relaxed);
        if heat < jit.threshold() {
            block.heat.store(heat + 1, Ordering::Relaxed);
            return None;
        }
        if block.claimed.swap(true, Ordering::Relaxed) {
            return None;
        }
        let parts = jit.compile(&block.records, block.lanes);
        block.parts.get_or_init(|| parts).as_deref()
    }

    /// Whether matrix products of code that is decoded from now on are plain chains of FMAs.
    pub fn set_fast_matrix(&mut self, fast: bool) {
        self.fast_matrix = fast;
    }

    /// The instruction forms of all code that waves came to, by the numbers that [`Tally`] counts with. Numbers stay.
    pub fn forms(&self) -> Vec<Form> {
        let forms = self.forms.lock().unwrap_or_else(|e| e.into_inner());
        forms.list().to_vec()
    }

    /// Drops all decoded code, as an invalidation of the instruction cache asks for.
    pub fn invalidate(&self) {
        self.blocks
            .write()
            .unwrap_or_else(|e| e.into_inner())
            .clear();
        self.watched
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .clear();
        if let Ok(jit) = &self.jit {
            jit.reset();
        }
        self.epoch.fetch_add(1, Ordering::Release);
    }

    /// Drops decoded code whose bytes have changed since.
    pub fn revalidate(&self, memory: &mut MemoryPort<'_>) {
        let mut watched = self.watched.lock().unwrap_or_else(|e| e.into_inner());
        let stale: HashSet<u64> = watched
            .iter()
            .filter(|&(&at, bytes)| !holds(memory, at, bytes))
            .map(|(&at, _)| at)
            .collect();
        if stale.is_empty() {
            return;
        }
        watched.retain(|at, _| !stale.contains(at));
        drop(watched);
        self.blocks
            .write()
            .unwrap_or_else(|e| e.into_inner())
            .retain(|key, _| !stale.contains(&key.pc));
        self.epoch.fetch_add(1, Ordering::Release);
    }

    fn block(&self, key: Key, memory: &mut MemoryPort<'_>) -> Result<Arc<Block>, Fault> {
        if let Some(block) = self
            .blocks
            .read()
            .unwrap_or_else(|e| e.into_inner())
            .get(&key)
        {
            return Ok(block.clone());
        }
        let block = Arc::new(self.build(key, memory)?);
        self.watch(key.pc, block.end, memory);
        let mut blocks = self.blocks.write().unwrap_or_else(|e| e.into_inner());
        Ok(blocks.entry(key).or_insert(block).clone())
    }

    /// Remembers the bytes of a block, the longest of those that begin at `start`.
    fn watch(&self, start: u64, end: u64, memory: &mut MemoryPort<'_>) {
        let Some(bytes) = read_bytes(memory, start, (end - start) as usize) else {
            return;
        };
        let mut watched = self.watched.lock().unwrap_or_else(|e| e.into_inner());
        let known = watched.entry(start).or_default();
        if known.len() < bytes.len() {
            *known = bytes.into();
        }
    }

    fn build(&self, key: Key, memory: &mut MemoryPort<'_>) -> Result<Block, Fault> {
        let mut lowering = Lowering::new(self.target, self.backend, key.state);
        lowering.fast_matrix = self.fast_matrix;
        let set = self.target.execution_set(key.state.lanes());
        let mut records = Vec::new();
        let mut counts = [0; COUNTERS];
        let mut pc = key.pc;
        while records.len() < BLOCK_LIMIT {
            let record = match self.record(pc, set, &mut lowering, memory) {
                Ok(record) => record,
                Err(fault) if records.is_empty() => return Err(fault),
                // The wave may never come here; if it does, the fault is its own.
                Err(_) => break,
            };
            pc = record.next_pc;
            record.count(&mut counts);
            let last = record.ends_block;
            records.push(record);
            if last {
                break;
            }
        }
        let mut known = self.forms.lock().unwrap_or_else(|e| e.into_inner());
        let number = |record: &Record| known.number(Form::of(record));
        let forms = records.iter().map(number).collect();
        drop(known);
        Ok(Block {
            records: records.into(),
            forms,
            counts,
            end: pc,
            lanes: key.state.lanes(),
            heat: AtomicU32::new(0),
            claimed: AtomicBool::new(false),
            turns: AtomicU64::new(0),
            parts: match self.jit {
                Ok(_) => OnceLock::new(),
                Err(_) => OnceLock::from(None),
            },
            state: key.state,
            infos: OnceLock::new(),
        })
    }

    fn record(
        &self,
        pc: u64,
        set: FeatureSet,
        lowering: &mut Lowering,
        memory: &mut MemoryPort<'_>,
    ) -> Result<Record, Fault> {
        let bytes = fetch(memory, pc)?;
        let inst = decode(self.target, set, &bytes).map_err(|error| Fault {
            cause: Cause::Undecodable {
                why: error.to_string(),
            },
            pc,
        })?;
        Ok(lower(inst, pc, lowering))
    }
}

/// Up to [`LONGEST`] bytes of code, at least 4.
fn fetch(memory: &mut MemoryPort<'_>, pc: u64) -> Result<Vec<u8>, Fault> {
    let mut length = LONGEST;
    loop {
        match memory.locate(pc, length as u64, false) {
            Ok(_) => return Ok(read_bytes(memory, pc, length).unwrap_or_default()),
            Err(_) if length > 4 => length -= 4,
            Err(kind) => {
                let near = memory.near(pc);
                return Err(Fault {
                    cause: Cause::Fetch {
                        address: pc,
                        kind,
                        near,
                    },
                    pc,
                });
            }
        }
    }
}

fn read_bytes(memory: &mut MemoryPort<'_>, address: u64, length: usize) -> Option<Vec<u8>> {
    let host = memory.locate(address, length as u64, false).ok()?;
    let mut bytes = vec![0; length];
    // SAFETY: `locate` vouches for `length` readable bytes, and the vector is not among them.
    unsafe { std::ptr::copy_nonoverlapping(host, bytes.as_mut_ptr(), length) };
    Some(bytes)
}

/// Whether memory holds these bytes.
fn holds(memory: &mut MemoryPort<'_>, address: u64, bytes: &[u8]) -> bool {
    let Ok(host) = memory.locate(address, bytes.len() as u64, false) else {
        return false;
    };
    let mut copy = [0; 256];
    bytes.chunks(copy.len()).enumerate().all(|(i, part)| {
        let copy = &mut copy[..part.len()];
        // SAFETY: `locate` vouches for all of the bytes, of which these are some; `copy` is not among them.
        unsafe { std::ptr::copy_nonoverlapping(host.add(256 * i), copy.as_mut_ptr(), part.len()) };
        copy == part
    })
}

/// Entries of a [`CodeView`].
const VIEW: usize = 1024;

/// The entry for a block.
#[inline(always)]
fn slot_of(key: Key) -> usize {
    ((key.pc >> 2) ^ (key.pc >> 12) ^ u64::from(key.state.0)) as usize % VIEW
}

/// What a block is found by, for [`CodeView::ended_early`].
#[derive(Clone, Copy)]
pub(crate) struct BlockKey(Key);

/// A block that ran before.
struct Seen {
    key: Key,
    block: Arc<Block>,
    /// Executions that the block was not told of.
    turns: u64,
    /// How many of them ended early, by the number of instructions that they executed.
    early: Vec<(u32, u64)>,
}

impl Seen {
    fn ended_early(&mut self, executed: usize) {
        let executed = executed as u32;
        match self.early.iter_mut().find(|(at, _)| *at == executed) {
            Some((_, times)) => *times += 1,
            None => self.early.push((executed, 1)),
        }
    }

    /// Tells the block of its executions, and the tally, if there is one, of its instructions'.
    fn settle(&mut self, tally: Option<&mut Tally>) {
        let turns = std::mem::take(&mut self.turns);
        if turns == 0 {
            return;
        }
        self.block.turns.fetch_add(turns, Ordering::Relaxed);
        let Some(tally) = tally else {
            self.early.clear();
            return;
        };
        let mut times = turns;
        self.early.sort_unstable();
        let mut early = self.early.drain(..).peekable();
        for (at, &form) in self.block.forms.iter().enumerate() {
            while let Some((_, ended)) = early.next_if(|(executed, _)| *executed as usize <= at) {
                times = times.saturating_sub(ended);
            }
            tally.add(form, times);
        }
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        self.settle(None);
    }
}

type Entries = Box<[Option<Seen>]>;

/// What a [`CodeView`] has found; goes with its cache.
pub struct Found {
    epoch: u64,
    entries: Entries,
}

impl Found {
    /// Tells blocks how often they executed, for [`CodeCache::usage`].
    pub fn settle(&mut self) {
        let entries = self.entries.iter_mut().flatten();
        entries.for_each(|seen| seen.settle(None));
    }
}

/// One worker's view of the cache: finds blocks that ran before without a lock.
pub struct CodeView<'a> {
    cache: &'a CodeCache,
    epoch: u64,
    entries: Entries,
    /// Executions by form, if they are counted.
    tally: Option<Tally>,
}

impl<'a> CodeView<'a> {
    /// A view that has seen nothing yet.
    pub fn new(cache: &'a CodeCache) -> CodeView<'a> {
        CodeView {
            cache,
            epoch: cache.epoch.load(Ordering::Acquire),
            entries: (0..VIEW).map(|_| None).collect(),
            tally: None,
        }
    }

    /// From now on counts executions by form.
    pub fn count_forms(&mut self) {
        self.settle();
        self.tally = Some(Tally::default());
    }

    /// The executions since [`CodeView::count_forms`], if that was called; counting ends.
    pub fn forms(&mut self) -> Option<Tally> {
        self.tally.as_ref()?;
        self.settle();
        self.tally.take()
    }

    fn settle(&mut self) {
        for seen in self.entries.iter_mut().flatten() {
            seen.settle(self.tally.as_mut());
        }
    }

    /// The last execution of `block`, whose `key` this is, ended behind its first `executed` instructions.
    #[cold]
    pub(crate) fn ended_early(&mut self, key: BlockKey, executed: usize) {
        if self.tally.is_none() {
            return;
        }
        let slot = slot_of(key.0);
        if let Some(Some(seen)) = self.entries.get_mut(slot)
            && seen.key == key.0
        {
            seen.ended_early(executed);
        }
    }

    /// The cache behind the view.
    pub(crate) fn cache(&self) -> &'a CodeCache {
        self.cache
    }

    /// A view of the same `cache` that an earlier one was of, with what that one had found.
    pub fn resume(cache: &'a CodeCache, found: Found) -> CodeView<'a> {
        CodeView {
            cache,
            epoch: found.epoch,
            entries: found.entries,
            tally: None,
        }
    }

    /// What the view has found, for a later one.
    pub fn into_found(self) -> Found {
        Found {
            epoch: self.epoch,
            entries: self.entries,
        }
    }

    /// Drops all decoded code of the device.
    #[cold]
    pub fn invalidate(&mut self) {
        self.cache.invalidate();
        self.refresh();
    }

    /// Forgets what was invalidated; call before a wave's turn.
    pub fn refresh(&mut self) {
        let now = self.cache.epoch.load(Ordering::Acquire);
        if now != self.epoch {
            self.epoch = now;
            if self.tally.is_some() {
                self.settle();
            }
            self.entries.fill_with(|| None);
        }
    }

    /// The block at `pc`, decoded under `state`.
    #[inline]
    pub fn block(
        &mut self,
        pc: u64,
        state: State,
        memory: &mut MemoryPort<'_>,
    ) -> Result<&Block, Fault> {
        let key = Key { pc, state };
        let slot = slot_of(key);
        let hit = matches!(&self.entries[slot], Some(seen) if seen.key == key);
        if !hit {
            let block = self.cache.block(key, memory)?;
            let seen = Seen {
                key,
                block,
                turns: 0,
                early: Vec::new(),
            };
            if let Some(mut before) = self.entries[slot].replace(seen) {
                before.settle(self.tally.as_mut());
            }
        }
        match &mut self.entries[slot] {
            Some(seen) => {
                seen.turns += 1;
                Ok(&seen.block)
            }
            None => unreachable!("filled above"),
        }
    }
}
