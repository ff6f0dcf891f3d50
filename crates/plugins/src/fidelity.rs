//! `fidelity`: follows values that are not exact through registers, LDS and memory, and tells where one decided an
//! address, a branch or a synchronisation, and how much of memory holds such values.

mod roles;
mod shadow;

use foldhash::HashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rocjitsu_isa::{Name, Op, Operand, RegFile};
use rocjitsu_observe::{
    Access, AccessKind, Code, Concurrency, Dispatch, Ended, Events, Exactness, Family, Lines,
    MemoryView, Outcome, Plugin, Source, Space, State, Step, Touch, Wave, Workgroup,
};
use serde_json::{Value, json};

use crate::options::Options;
use crate::symbols::Symbols;
use crate::trace::register_name;
use roles::{Role, role};
use shadow::{Bytes, Registers};

/// Makes the plugin.
pub fn make(mut options: Options, lines: Lines) -> Result<Box<dyn Plugin>, String> {
    let fail = options.switch("fail", false)?;
    let bounded = options.switch("bounded", true)?;
    options.finish(&["bounded", "fail", "file"])?;
    Ok(Box::new(Fidelity {
        lines,
        fail,
        bounded,
        symbols: Symbols::default(),
        views: BTreeMap::new(),
        kernels: HashMap::default(),
        waves: HashMap::default(),
        lds: HashMap::default(),
        memory: Bytes::default(),
        now: Now::default(),
        current: NONE,
        others: HashMap::default(),
        found: BTreeMap::new(),
        stored: BTreeMap::new(),
    }))
}

/// The number of no dispatch.
const NONE: u64 = 0;

/// Dispatch, workgroup, wave.
type WaveKey = (u64, u64, u32);

/// What the instruction that is under way has taken from its sources.
struct Now {
    /// Lanes with a source that is not exact.
    lanes: u64,
    /// A source that all lanes share is not exact.
    shared: bool,
    /// Bits of the sources of a bitwise scalar instruction that are not exact, by word.
    words: [u32; 2],
    /// Bytes that each lane loads, and which of them are not exact.
    loads: [Load; 64],
    /// Whether any lane loads.
    loading: bool,
}

impl Default for Now {
    fn default() -> Now {
        Now {
            lanes: 0,
            shared: false,
            words: [0; 2],
            loads: [Load::default(); 64],
            loading: false,
        }
    }
}

/// Bytes of a lane's loads, in the order of its accesses.
#[derive(Clone, Copy, Default)]
struct Load {
    bytes: u32,
    /// Bit n: byte n is not exact. Beyond 128 bytes, bit 127 stands for all others.
    inexact: u128,
}

impl Load {
    fn push(&mut self, bytes: u32, inexact: u128) {
        if inexact != 0 {
            self.inexact |= match self.bytes {
                at @ 0..128 => inexact << at,
                _ => 1 << 127,
            };
        }
        self.bytes += bytes;
    }
}

/// A place where something that is not exact arrived: what it decided, kernel, address of the instruction.
type Place = (&'static str, String, u64);

/// What arrived there.
struct Arrival {
    times: u64,
    /// The first one.
    record: Value,
}

/// Bytes that a kernel stored.
#[derive(Default)]
struct Stored {
    bytes: u64,
    inexact: u64,
}

struct Fidelity {
    lines: Lines,
    fail: bool,
    /// Follow results within a bound as well, not only those by default.
    bounded: bool,
    symbols: Symbols,
    /// The memory of GPUs, by [`Dispatch::gpu`].
    views: BTreeMap<usize, Arc<dyn MemoryView>>,
    kernels: HashMap<u64, String>,
    waves: HashMap<WaveKey, Registers>,
    /// LDS by dispatch and workgroup.
    lds: HashMap<(u64, u64), Bytes>,
    /// Global and scratch memory. GPUs that share addresses share what lies there.
    memory: Bytes,
    /// Of the dispatch `current`, if that is not [`NONE`]; each dispatch runs on one thread, but several may run at once.
    now: Now,
    current: u64,
    /// Of other dispatches under way.
    others: HashMap<u64, Now>,
    found: BTreeMap<Place, Arrival>,
    stored: BTreeMap<String, Stored>,
}

fn key(step: &Step<'_>) -> WaveKey {
    (step.wave.dispatch, step.wave.group, step.wave.index)
}

/// The lane that `v_readlane_b32` reads.
fn selected(step: &Step<'_>, state: &dyn State) -> u64 {
    let inst = &step.instruction.inst;
    let select = match inst.operand(Name::src1) {
        Some(Operand::Sgpr(register)) => state.sgpr(register.into()),
        Some(Operand::Const(value) | Operand::Literal(value)) => value as u32,
        _ => return u64::MAX,
    };
    1 << (select & (step.wave.lanes - 1))
}

/// Which lanes of `v_cndmask_b32` take which of its sources, where its mask is exact.
#[derive(Clone, Copy)]
struct Chosen {
    /// The registers of the sources that it takes by clear and by set bits.
    sources: [Option<u16>; 2],
    set: u64,
    /// Lanes of which that is known.
    known: u64,
}

impl Chosen {
    fn new(step: &Step<'_>, registers: &Registers, state: &dyn State) -> Option<Chosen> {
        let inst = &step.instruction.inst;
        // DPP moves the first source before it is chosen.
        if inst.op() != Op::v_cndmask_b32 || state.exchange().is_some() {
            return None;
        }
        let first = match inst.operand(Name::src2) {
            Some(Operand::Sgpr(register)) => register.into(),
            _ => roles::VCC,
        };
        let word = |register: u16| u64::from(state.sgpr(register));
        let inexact = |register: u16| {
            let touch = Touch {
                file: RegFile::Sgpr,
                register,
                bytes: 0xf,
                lanes: 0,
            };
            registers.read(&touch, 0)
        };
        let both = |of: &dyn Fn(u16) -> u64| match step.wave.lanes {
            64 => of(first) | of(first + 1) << 32,
            _ => of(first),
        };
        let vgpr = |name| match inst.operand(name) {
            Some(Operand::Vgpr(register)) => Some(register),
            _ => None,
        };
        Some(Chosen {
            sources: [vgpr(Name::src0), vgpr(Name::src1)],
            set: both(&word),
            known: !both(&inexact),
        })
    }

    /// The lanes that may take a register.
    fn of(&self, touch: &Touch) -> u64 {
        let takes = |source: Option<u16>, lanes: u64| match source {
            Some(register) if (touch.file, touch.register) == (RegFile::Vgpr, register) => lanes,
            _ => 0,
        };
        takes(self.sources[0], !self.set) | takes(self.sources[1], self.set) | !self.known
    }
}

/// The lanes that get the value of one of `from`.
fn gathered(sources: &[Source; 64], from: u64) -> u64 {
    let gets =
        |source: &Source| matches!(source, Source::Lane(lane) if from >> (lane & 63) & 1 != 0);
    let lanes = sources.iter().enumerate();
    lanes.fold(0, |all, (lane, source)| {
        all | u64::from(gets(source)) << lane
    })
}

/// The lanes that keep what they have.
fn kept(sources: &[Source; 64]) -> u64 {
    let lanes = sources.iter().enumerate();
    lanes.fold(0, |all, (lane, source)| {
        all | u64::from(*source == Source::Keeps) << lane
    })
}

impl Fidelity {
    /// An instruction of a dispatch is under way.
    fn turn_to(&mut self, dispatch: u64) {
        if self.current != dispatch {
            let now = self.others.remove(&dispatch).unwrap_or_default();
            let other = std::mem::replace(&mut self.now, now);
            if self.current != NONE {
                self.others.insert(self.current, other);
            }
            self.current = dispatch;
        }
    }

    fn kernel(&self, step: &Step<'_>) -> String {
        let name = self.kernels.get(&step.wave.dispatch);
        name.cloned().unwrap_or_default()
    }

    /// Something that is not exact decides `what`.
    fn arrives(&mut self, what: &'static str, step: &Step<'_>, lanes: u64, operand: &str) {
        let place = (what, self.kernel(step), step.instruction.pc);
        if let Some(known) = self.found.get_mut(&place) {
            known.times += 1;
            return;
        }
        let mut record = json!({
            "plugin": "fidelity",
            "reached": what,
            "kernel": place.1,
            "operand": operand,
            "dispatch": step.wave.dispatch,
            "workgroup": step.wave.workgroup,
            "wave": step.wave.index,
            "instruction": self.symbols.describe(step.instruction),
        });
        if lanes != 0 {
            record["lane"] = lanes.trailing_zeros().into();
        }
        self.found.insert(place, Arrival { times: 1, record });
    }

    /// Whether the results of an instruction are what is followed.
    fn begins(&self, step: &Step<'_>) -> bool {
        match step.instruction.exactness {
            Exactness::Exact => false,
            Exactness::Bounded(_) => self.bounded,
            Exactness::Default(_) => true,
        }
    }

    /// The shadow of the memory that an access is to.
    fn shadow(&mut self, step: &Step<'_>, space: Space) -> &mut Bytes {
        match space {
            Space::Lds => self
                .lds
                .entry((step.wave.dispatch, step.wave.group))
                .or_default(),
            Space::Global | Space::Scratch => &mut self.memory,
        }
    }

    /// What a lane stores: by byte, if the data registers hold just as many as are stored.
    fn data(&self, step: &Step<'_>, lane: u8, stored: u32) -> Load {
        let mut data = Load::default();
        let Some(registers) = self.waves.get(&key(step)) else {
            return data;
        };
        for touch in roles::data(&step.instruction.inst) {
            data.push(4, registers.bytes(touch.file, touch.register, lane).into());
        }
        if data.bytes != stored && data.inexact != 0 {
            data.inexact = u128::MAX;
        }
        data
    }

    fn access(&mut self, step: &Step<'_>, accesses: &[Access]) {
        let lane_of = |access: &Access| usize::from(access.lane & 63);
        for access in accesses.iter().filter(|a| a.kind != AccessKind::Store) {
            let inexact = self
                .shadow(step, access.space)
                .get(access.address, access.bytes);
            let load = &mut self.now.loads[lane_of(access)];
            load.push(access.bytes, inexact);
            self.now.loading = true;
        }
        // Copies between memories have no data registers: what is loaded is stored.
        let copies = accesses.iter().any(|a| a.kind == AccessKind::Load);
        let mut sums = [0u32; 64];
        for access in accesses.iter().filter(|a| a.kind != AccessKind::Load) {
            sums[lane_of(access)] += access.bytes;
        }
        let mut done = [0u32; 64];
        let mut total = Stored::default();
        for access in accesses.iter().filter(|a| a.kind != AccessKind::Load) {
            let lane = lane_of(access);
            let source = if copies {
                let mut load = self.now.loads[lane];
                if load.bytes != sums[lane] && load.inexact != 0 {
                    load.inexact = u128::MAX;
                }
                load
            } else {
                self.data(step, access.lane, sums[lane])
            };
            let mut inexact = match done[lane] {
                at @ 0..128 => source.inexact >> at,
                _ if source.inexact == 0 => 0,
                _ => u128::MAX,
            };
            done[lane] += access.bytes;
            if access.kind == AccessKind::Atomic {
                if source.inexact != 0 {
                    self.arrives("atomic", step, 1 << lane, "data");
                    inexact = u128::MAX;
                }
                // The old value is part of the new one.
                let old = self.now.loads[lane].inexact;
                if old != 0 {
                    inexact = u128::MAX;
                }
            }
            let shadow = self.shadow(step, access.space);
            let marked = shadow.set(access.address, access.bytes, inexact);
            if access.space == Space::Global {
                total.bytes += u64::from(access.bytes);
                total.inexact += u64::from(marked);
            }
        }
        if total.bytes > 0 {
            let sum = self.stored.entry(self.kernel(step)).or_default();
            sum.bytes += total.bytes;
            sum.inexact += total.inexact;
        }
    }

    /// Memory that holds values which are not exact, by allocation.
    fn memory_records(&self) -> Vec<Value> {
        const LISTED: usize = 16;
        let mut records = Vec::new();
        let mut listed = BTreeSet::new();
        for allocation in self.views.values().flat_map(|view| view.allocations()) {
            if !listed.insert((allocation.start, allocation.bytes)) {
                continue;
            }
            let ranges = self.memory.ranges(allocation.start, allocation.bytes);
            let sum: u64 = ranges.iter().map(|(_, bytes)| bytes).sum();
            if sum == 0 {
                continue;
            }
            let first: Vec<Value> = ranges
                .iter()
                .take(LISTED)
                .map(|(at, bytes)| json!({ "offset": at - allocation.start, "bytes": bytes }))
                .collect();
            records.push(json!({
                "plugin": "fidelity",
                "event": "memory",
                "allocation": allocation.label,
                "start": format!("{:#x}", allocation.start),
                "bytes": allocation.bytes,
                "inexact_bytes": sum,
                "ranges": ranges.len(),
                "first_ranges": first,
            }));
        }
        records
    }
}

impl Plugin for Fidelity {
    fn events(&self) -> Events {
        Events::DISPATCHES
            | Events::WORKGROUPS
            | Events::WAVES
            | Events::BEFORE
            | Events::READS
            | Events::WRITES
            | Events::ACCESSES
    }

    fn concurrency(&self) -> Concurrency {
        Concurrency::OneThread
    }

    fn code_loaded(&mut self, code: &Code<'_>) -> Outcome {
        self.symbols.add(code);
        Ok(())
    }

    fn dispatch_begins(&mut self, dispatch: &Dispatch<'_>) -> Outcome {
        let kernel = dispatch.kernel.to_owned();
        self.kernels.insert(dispatch.id, kernel);
        self.views.insert(dispatch.gpu(), dispatch.memory.clone());
        Ok(())
    }

    fn dispatch_ends(&mut self, ended: &Ended<'_>) -> Outcome {
        self.kernels.remove(&ended.id);
        self.others.remove(&ended.id);
        if self.current == ended.id {
            self.current = NONE;
        }
        // Of one that failed, workgroups and waves have not ended.
        self.waves.retain(|(dispatch, ..), _| *dispatch != ended.id);
        self.lds.retain(|(dispatch, _), _| *dispatch != ended.id);
        Ok(())
    }

    fn workgroup_ends(&mut self, workgroup: &Workgroup) -> Outcome {
        self.lds.remove(&(workgroup.dispatch, workgroup.linear));
        Ok(())
    }

    fn wave_ends(&mut self, wave: &Wave) -> Outcome {
        self.waves.remove(&(wave.dispatch, wave.group, wave.index));
        Ok(())
    }

    fn before(&mut self, step: &Step<'_>, _: &dyn State) -> Outcome {
        self.turn_to(step.wave.dispatch);
        self.now.lanes = 0;
        self.now.shared = false;
        self.now.words = [0; 2];
        if self.now.loading {
            self.now.loads = [Load::default(); 64];
            self.now.loading = false;
        }
        Ok(())
    }

    fn reads(&mut self, step: &Step<'_>, touched: &[Touch], state: &dyn State) -> Outcome {
        self.turn_to(step.wave.dispatch);
        let Some(registers) = self.waves.get(&key(step)) else {
            return Ok(());
        };
        if registers.is_exact() {
            return Ok(());
        }
        let inst = &step.instruction.inst;
        let vector = !step.instruction.is_scalar() && step.instruction.family != Family::Other;
        let bitwise = !vector && roles::is_bitwise(inst);
        let exchange = state.exchange();
        let chosen = Chosen::new(step, registers, state);
        let mut arrivals: Vec<(&'static str, u64, String)> = Vec::new();
        for touch in touched {
            // Which lanes take part is not a value: EXEC was looked at when it was written.
            if vector && touch.file == RegFile::Sgpr && touch.register >= roles::EXEC {
                continue;
            }
            let lanes = match inst.op() {
                // It reads the first lane of EXEC; the event names all.
                Op::v_readfirstlane_b32 if touch.lanes != 0 && step.exec != 0 => {
                    1 << step.exec.trailing_zeros()
                }
                Op::v_readlane_b32 if touch.lanes != 0 => selected(step, state),
                _ => touch.lanes,
            };
            let inexact = registers.read(touch, lanes);
            if inexact == 0 {
                continue;
            }
            match role(inst, touch) {
                Role::Value => {}
                Role::Decides(what) => {
                    let lanes = if touch.lanes == 0 { 0 } else { inexact & lanes };
                    arrivals.push((what, lanes, register_name(touch.file, touch.register)));
                }
            }
            // A lane takes nothing of the value that an exact mask leaves out.
            let inexact = match chosen {
                Some(chosen) if touch.lanes != 0 => inexact & chosen.of(touch),
                _ => inexact,
            };
            let word = || roles::word_of(inst, touch.register, false) & 1;
            match (touch.lanes, exchange) {
                (0, _)
                    if touch.file == RegFile::Sgpr
                        && vector
                        && roles::is_mask(inst, touch.register) =>
                {
                    self.now.lanes |= inexact << (32 * word()) & step.exec;
                }
                (0, _) if touch.file == RegFile::Sgpr && bitwise => {
                    self.now.words[word() as usize] |= inexact as u32;
                }
                (0, _) => self.now.shared = true,
                (_, Some(sources)) => {
                    let (moved, as_well) = roles::exchanged(inst, touch);
                    if moved {
                        self.now.lanes |= gathered(sources, inexact);
                    }
                    if as_well {
                        self.now.lanes |= inexact & step.exec;
                    }
                }
                (_, None) => self.now.lanes |= inexact,
            }
        }
        for (what, lanes, operand) in arrivals {
            self.arrives(what, step, lanes, &operand);
        }
        Ok(())
    }

    fn accesses(&mut self, step: &Step<'_>, accesses: &[Access], _: &dyn State) -> Outcome {
        self.turn_to(step.wave.dispatch);
        let quiet = self.memory.is_exact()
            && self.lds.values().all(Bytes::is_exact)
            && self.waves.get(&key(step)).is_none_or(Registers::is_exact);
        if quiet {
            let stores = accesses.iter();
            let stores = stores.filter(|a| a.kind != AccessKind::Load && a.space == Space::Global);
            let bytes: u64 = stores.map(|a| u64::from(a.bytes)).sum();
            if bytes > 0 {
                self.stored.entry(self.kernel(step)).or_default().bytes += bytes;
            }
            return Ok(());
        }
        self.access(step, accesses);
        Ok(())
    }

    fn writes(&mut self, step: &Step<'_>, touched: &[Touch], state: &dyn State) -> Outcome {
        self.turn_to(step.wave.dispatch);
        let begins = self.begins(step);
        let loaded = self.now.loading && self.now.loads.iter().any(|load| load.inexact != 0);
        let words = self.now.words;
        let sources = self.now.shared || self.now.lanes != 0 || words != [0; 2];
        let registers = self.waves.entry(key(step)).or_default();
        if !begins && !loaded && !sources && registers.is_exact() {
            return Ok(());
        }
        let inst = &step.instruction.inst;
        // Lanes see each other's values where an instruction exchanges them, unless it is known whose.
        let exchange = state.exchange();
        let crosses = exchange.is_none() && roles::crosses(step.instruction);
        let all = begins || self.now.shared || crosses && self.now.lanes != 0;
        let from_sources = if all { u64::MAX } else { self.now.lanes };
        let vector = step.instruction.family == Family::Vector;
        let is_mask = vector && !roles::reads_lane(inst);
        let bitwise = !vector && roles::is_bitwise(inst);
        let results = touched
            .iter()
            .filter(|touch| matches!(touch.file, RegFile::Vgpr | RegFile::Agpr) || loaded)
            .count() as u32;
        let mut decided = Vec::new();
        for (number, touch) in touched.iter().enumerate() {
            if touch.lanes == 0 {
                let load = &self.now.loads[0];
                let word = match load.bytes == 4 * results {
                    true => load.inexact >> (4 * number.min(31)) & 0xf != 0,
                    false => loaded,
                };
                let of_pair = || roles::word_of(inst, touch.register, true) & 1;
                let whole = |inexact: bool| if inexact { u32::MAX } else { 0 };
                let inexact = match touch.file {
                    RegFile::Sgpr if is_mask => (from_sources & step.exec) >> (32 * of_pair()),
                    RegFile::Sgpr if bitwise && !all => words[of_pair() as usize].into(),
                    _ => whole(all || self.now.lanes != 0 || words != [0; 2] || word).into(),
                } as u32;
                registers.write_scalar(touch, inexact);
                if inexact != 0 && touch.file == RegFile::Sgpr && touch.register >= roles::EXEC {
                    decided.push(register_name(touch.file, touch.register));
                }
                continue;
            }
            let mut touch = *touch;
            touch.lanes &= !exchange.map_or(0, kept);
            for byte in (0..4).filter(|byte| touch.bytes >> byte & 1 != 0) {
                let mut lanes = from_sources;
                if loaded {
                    for (lane, load) in self.now.loads.iter().enumerate() {
                        let at = 4 * number as u32 + byte;
                        let inexact = match load.bytes == 4 * results && at < 128 {
                            true => load.inexact >> at & 1 != 0,
                            false => load.inexact != 0,
                        };
                        lanes |= u64::from(inexact) << lane;
                    }
                }
                registers.write(&touch, byte, lanes);
            }
        }
        for register in decided {
            self.arrives("exec", step, 0, &register);
        }
        Ok(())
    }

    fn finish(&mut self) -> Outcome {
        let mut times = 0;
        for arrival in self.found.values_mut() {
            times += arrival.times;
            arrival.record["times"] = arrival.times.into();
            self.lines.line(&arrival.record.to_string())?;
        }
        for (kernel, sum) in &self.stored {
            let record = json!({
                "plugin": "fidelity",
                "event": "stores",
                "kernel": kernel,
                "bytes": sum.bytes,
                "inexact_bytes": sum.inexact,
            });
            self.lines.line(&record.to_string())?;
        }
        for record in self.memory_records() {
            self.lines.line(&record.to_string())?;
        }
        let record = json!({
            "plugin": "fidelity",
            "event": "summary",
            "places": self.found.len(),
            "times": times,
        });
        self.lines.line(&record.to_string())?;
        self.lines.flush()?;
        if self.fail && !self.found.is_empty() {
            return Err(format!(
                "values that are not exact decided addresses, branches or synchronisation at {} places",
                self.found.len()
            ));
        }
        Ok(())
    }
}
