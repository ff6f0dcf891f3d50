//! Blocks of decoded code, made once and shared by every wave and thread that runs them.
//! A block is a straight run of instructions; its records hold all that executing them needs.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use rocjitsu_isa::{FeatureSet, Target, decode};
use rocjitsu_lanes::Backend;

use crate::error::{Cause, Fault};
use crate::forms::{Form, Forms, Tally};
use crate::helpers::{Finder, Policy};
use crate::jit::{self, Chain, Jit, Member, Pieces};
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
pub struct Body {
    /// The instructions in order.
    pub records: Box<[Record]>,
    /// The number of each one's form.
    forms: Box<[u32]>,
    /// For each number of them from none to all: how many of the first ones are of each class, and how many are not
    /// exact.
    sums: Box<[[u16; COUNTERS]]>,
    /// Address behind the last one.
    pub end: u64,
    /// Lanes of the waves that execute it.
    lanes: u32,
    /// How often it executed, as far as views have told.
    turns: AtomicU64,
    /// State that it was decoded under.
    state: State,
    /// What those who watch are told of its instructions, made when the first one asks.
    infos: OnceLock<Box<[Info]>>,
}

impl Body {
    /// Address of the first instruction.
    pub(crate) fn pc(&self) -> u64 {
        self.records.first().map_or(self.end, |first| first.pc)
    }

    /// What it is found by.
    pub(crate) fn key(&self) -> BlockKey {
        BlockKey(Key {
            pc: self.pc(),
            state: self.state,
        })
    }

    /// How many of the first `count` instructions are of each class, and how many are not exact; of all if there are
    /// fewer.
    #[inline(always)]
    pub(crate) fn sums(&self, count: usize) -> &[u16; COUNTERS] {
        const NONE: [u16; COUNTERS] = [0; COUNTERS];
        self.sums.get(count).or(self.sums.last()).unwrap_or(&NONE)
    }

    /// What those who watch are told of its instructions.
    pub(crate) fn watched(&self) -> &[Info] {
        self.infos
            .get_or_init(|| watch::of_block(&self.records, self.lanes, self.state.banks()))
    }
}

/// A straight run of instructions, and how it executes.
pub struct Block {
    body: Arc<Body>,
    /// How often it was interpreted, or entered as compiled code, roughly: threads may overlook each other.
    heat: AtomicU32,
    /// Whether a thread has begun to compile it: by itself, and with those that it goes to.
    claimed: [AtomicBool; 2],
    /// What it was compiled to, and that as a function; `None` if it is interpreted for good.
    near: OnceLock<Option<(Arc<Pieces>, Chain)>>,
    /// With the blocks that it goes to; `None` if there are none.
    far: OnceLock<Option<Chain>>,
}

impl std::ops::Deref for Block {
    type Target = Body;
    fn deref(&self) -> &Body {
        &self.body
    }
}

impl Block {
    fn new(body: Body, compiled: bool) -> Block {
        /// `None` for good where nothing is compiled.
        fn undecided<T>(compiled: bool) -> OnceLock<Option<T>> {
            if compiled {
                OnceLock::new()
            } else {
                OnceLock::from(None)
            }
        }
        Block {
            body: Arc::new(body),
            heat: AtomicU32::new(0),
            claimed: Default::default(),
            near: undecided(compiled),
            far: undecided(compiled),
        }
    }

    fn alone(&self) -> Option<&Chain> {
        self.near.get()?.as_ref().map(|(_, chain)| chain)
    }

    /// As a block in a chain, if it is compiled.
    fn member(&self) -> Option<Member> {
        let (pieces, _) = self.near.get()?.as_ref()?;
        Some(Member {
            body: self.body.clone(),
            pieces: pieces.clone(),
        })
    }

    /// Whether its code was made from bytes at one of these addresses.
    fn is_of(&self, addresses: &HashSet<u64>) -> bool {
        let chained = self.far.get().and_then(Option::as_ref);
        let others = chained.map_or(&[][..], Chain::members);
        addresses.contains(&self.body.pc())
            || others.iter().any(|m| addresses.contains(&m.body.pc()))
    }
}

/// All decoded code of a device.
pub struct CodeCache {
    target: Target,
    backend: Backend,
    /// The compiler, or why there is none.
    jit: Result<Jit, String>,
    fast_matrix: bool,
    /// Finds what helper threads may execute, if there are any.
    windows: Option<Finder>,
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
            windows: None,
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
                let near = block.near.get().map(Option::as_ref);
                let pieces = near.map(|near| near.map(|(pieces, _)| &**pieces));
                tally.add(&block.records, pieces, block.lanes, turns);
            }
        }
        tally.finish()
    }

    /// What executes a block, perhaps with those that follow it; `None` where it is interpreted.
    #[inline(always)]
    pub(crate) fn chain<'b>(&self, block: &'b Block) -> Option<&'b Chain> {
        match block.far.get() {
            Some(Some(chain)) => Some(chain),
            Some(None) => block.alone(),
            None => self.warm(block),
        }
    }

    /// Counts an execution of a block that may still be compiled; enough of them, and it is.
    fn warm<'b>(&self, block: &'b Block) -> Option<&'b Chain> {
        let Ok(jit) = &self.jit else { return None };
        let heat = block.heat.load(Ordering::Relaxed);
        if heat < jit.chain_threshold() {
            block.heat.store(heat + 1, Ordering::Relaxed);
        }
        if heat < jit.threshold() {
            return None;
        }
        if !block.claimed[0].load(Ordering::Relaxed)
            && !block.claimed[0].swap(true, Ordering::Relaxed)
        {
            let compiled = || jit.compile(&block.body, block.lanes);
            block.near.get_or_init(compiled);
        }
        if heat >= jit.chain_threshold() && !block.claimed[1].swap(true, Ordering::Relaxed) {
            let chained = || jit.chain(self.followers(block), block.lanes);
            if let Some(chain) = block.far.get_or_init(chained) {
                return Some(chain);
            }
        }
        block.alone()
    }

    /// A block and those that it goes to, directly or by others of them, as far as they are compiled.
    fn followers(&self, block: &Block) -> Vec<Member> {
        let mut members: Vec<Member> = block.member().into_iter().collect();
        let blocks = self.blocks.read().unwrap_or_else(|e| e.into_inner());
        let mut at = 0;
        while let Some(member) = members.get(at) {
            at += 1;
            for pc in member.successors() {
                let key = Key {
                    pc,
                    state: block.state,
                };
                let known = members.iter().any(|m| m.body.pc() == pc);
                if let (false, Some(next)) =
                    (known || members.len() == jit::MEMBERS, blocks.get(&key))
                {
                    members.extend(next.member());
                }
            }
        }
        members
    }

    /// Whether matrix products of code that is decoded from now on are plain chains of FMAs.
    pub fn set_fast_matrix(&mut self, fast: bool) {
        self.fast_matrix = fast;
    }

    /// Whether and when helper threads take matrix instructions of code that is decoded from now on.
    pub fn set_helpers(&mut self, policy: Option<Policy>) {
        let compiles = self.jit.as_ref().is_ok_and(Jit::compiles_products);
        self.windows = policy.map(|policy| Finder {
            policy,
            compiles,
            target: self.target,
        });
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
            .retain(|_, block| !block.is_of(&stale));
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
        let mut counts = [0u16; COUNTERS];
        let mut sums = vec![counts];
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
            sums.push(counts);
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
        if let Some(finder) = &self.windows {
            finder.mark(&mut records, key.state);
        }
        let body = Body {
            records: records.into(),
            forms,
            sums: sums.into(),
            end: pc,
            lanes: key.state.lanes(),
            turns: AtomicU64::new(0),
            state: key.state,
            infos: OnceLock::new(),
        };
        Ok(Block::new(body, self.jit.is_ok()))
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

/// Executions of a block that it was not told of.
#[derive(Default)]
pub(crate) struct Executed {
    /// How many.
    pub turns: u64,
    /// How many of them ended early, by the number of instructions that they executed.
    early: Vec<(u32, u64)>,
}

impl Executed {
    /// The last execution ended behind the first `executed` instructions.
    #[cold]
    pub fn ended_early(&mut self, executed: usize) {
        let executed = executed as u32;
        match self.early.iter_mut().find(|(at, _)| *at == executed) {
            Some((_, times)) => *times += 1,
            None => self.early.push((executed, 1)),
        }
    }

    /// Tells the block of its executions, and the tally, if there is one, of its instructions'.
    fn settle(&mut self, body: &Body, tally: Option<&mut Tally>) {
        let turns = std::mem::take(&mut self.turns);
        if turns == 0 {
            return;
        }
        body.turns.fetch_add(turns, Ordering::Relaxed);
        let Some(tally) = tally else {
            self.early.clear();
            return;
        };
        let mut times = turns;
        self.early.sort_unstable();
        let mut early = self.early.drain(..).peekable();
        for (at, &form) in body.forms.iter().enumerate() {
            while let Some((_, ended)) = early.next_if(|(executed, _)| *executed as usize <= at) {
                times = times.saturating_sub(ended);
            }
            tally.add(form, times);
        }
    }
}

/// A block that ran before.
pub(crate) struct Seen {
    key: Key,
    pub block: Arc<Block>,
    /// Its executions.
    pub own: Executed,
    /// Those of the other blocks of its chain, in their order.
    pub chained: Vec<Executed>,
}

impl Seen {
    fn settle(&mut self, mut tally: Option<&mut Tally>) {
        self.own.settle(&self.block, tally.as_deref_mut());
        let Some(Some(chain)) = self.block.far.get() else {
            return;
        };
        let others = chain.members().iter().skip(1);
        for (executed, member) in self.chained.iter_mut().zip(others) {
            executed.settle(&member.body, tally.as_deref_mut());
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
            seen.own.ended_early(executed);
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

    /// The block at `pc`, decoded under `state`, which is about to execute.
    #[inline]
    pub fn block(
        &mut self,
        pc: u64,
        state: State,
        memory: &mut MemoryPort<'_>,
    ) -> Result<&Block, Fault> {
        let seen = self.seen(pc, state, memory)?;
        seen.own.turns += 1;
        Ok(&seen.block)
    }

    /// The block at `pc`, decoded under `state`, with the counts of its executions.
    #[inline(always)]
    pub(crate) fn seen(
        &mut self,
        pc: u64,
        state: State,
        memory: &mut MemoryPort<'_>,
    ) -> Result<&mut Seen, Fault> {
        let key = Key { pc, state };
        let slot = slot_of(key);
        let hit = matches!(&self.entries[slot], Some(seen) if seen.key == key);
        if !hit {
            self.look_up(key, slot, memory)?;
        }
        match &mut self.entries[slot] {
            Some(seen) => Ok(seen),
            None => unreachable!("filled above"),
        }
    }

    /// Finds a block that is not in its place.
    #[inline(never)]
    fn look_up(&mut self, key: Key, slot: usize, memory: &mut MemoryPort<'_>) -> Result<(), Fault> {
        let seen = Seen {
            key,
            block: self.cache.block(key, memory)?,
            own: Executed::default(),
            chained: Vec::new(),
        };
        if let Some(mut before) = self.entries[slot].replace(seen) {
            before.settle(self.tally.as_mut());
        }
        Ok(())
    }
}
