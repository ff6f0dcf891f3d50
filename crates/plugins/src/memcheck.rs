//! `memcheck`: accesses outside allocations and to freed ones, LDS accesses outside the workgroup's, atomics that are
//! not aligned; on request reads of LDS bytes, VGPR lanes and bytes of global memory that nothing has written.

mod registers;
mod written;

use foldhash::HashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rocjitsu_isa::Target;
use rocjitsu_observe::{
    Access, AccessKind, Allocation, Code, Concurrency, Dispatch, Ended, Events, Given, Lines,
    MemoryView, Outcome, Plugin, Space, State, Step, Touch, Wave, Workgroup,
};
use serde_json::{Value, json};

use crate::options::Options;
use crate::symbols::Symbols;
use crate::trace::register_name;
use registers::{Needs, Registers};
use written::Written;

/// What a run has to do with its memory so that `memcheck` finds what it was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryWishes {
    /// Bytes to leave unmapped between allocations.
    pub redzone: Option<u64>,
    /// It is to be known which pages nobody has touched.
    pub touches: bool,
}

/// Reads of what nothing has written.
#[derive(Clone, Copy, Default)]
struct Uninitialised {
    /// LDS and registers.
    local: bool,
    /// Global memory.
    global: bool,
}

/// The options that say how the run's memory is to be.
fn wishes(options: &mut Options) -> Result<(Uninitialised, Option<u64>), String> {
    let uninitialised = match options.text("uninitialised").as_deref() {
        None | Some("off" | "false" | "0") => (false, false),
        Some("" | "on" | "true" | "1") => (true, false),
        Some("global") => (false, true),
        Some("all") => (true, true),
        Some(other) => {
            return Err(format!(
                "`{other}` is no value for the option `uninitialised`: it takes on, off, global or all"
            ));
        }
    };
    let (local, global) = uninitialised;
    let redzone: Option<u64> = options.parse("redzone")?;
    if redzone.is_some_and(|bytes| bytes == 0 || bytes > LARGEST_REDZONE) {
        return Err(format!(
            "the option `redzone` takes 1 to {LARGEST_REDZONE} bytes"
        ));
    }
    Ok((Uninitialised { local, global }, redzone))
}

impl MemoryWishes {
    /// What the options of `memcheck` ask of the memory.
    ///
    /// # Errors
    /// A value that is none.
    pub fn of(options: &Options) -> Result<MemoryWishes, String> {
        let (uninitialised, redzone) = wishes(&mut options.clone())?;
        Ok(MemoryWishes {
            redzone,
            touches: uninitialised.global,
        })
    }
}

/// Makes the plugin.
pub fn make(mut options: Options, lines: Lines) -> Result<Box<dyn Plugin>, String> {
    let fail = options.switch("fail", false)?;
    let (uninitialised, redzone) = wishes(&mut options)?;
    let heat = options.switch("heat", false)?;
    options.finish(&["uninitialised", "redzone", "heat", "fail", "file"])?;
    Ok(Box::new(Memcheck {
        lines,
        fail,
        uninitialised: uninitialised.local,
        follows: uninitialised.global,
        redzone: redzone.unwrap_or(0),
        room: BTreeMap::new(),
        heat: heat.then(BTreeMap::new),
        symbols: Symbols::default(),
        gpus: HashMap::default(),
        running: HashMap::default(),
        lds: HashMap::default(),
        registers: HashMap::default(),
        needs: HashMap::default(),
        found: BTreeMap::new(),
    }))
}

/// Bytes of a line of the scalar cache.
const LINE: u64 = 64;

/// Red zones are no larger, so that addresses suffice.
const LARGEST_REDZONE: u64 = 1 << 32;

type WaveKey = (u64, u64, u32);

/// Bytes read and written, by page of 4 KiB from the start of an allocation.
type Heat = BTreeMap<u64, [u64; 2]>;

/// A GPU's memory, by [`Dispatch::gpu`].
struct Gpu {
    memory: Arc<dyn MemoryView>,
    /// Allocations that existed when an earlier dispatch began.
    past: BTreeMap<u64, Allocation>,
    /// Bytes that were written, if reads of others are looked for.
    written: Option<Written>,
}

/// A dispatch under way: queues and GPUs work at the same time.
struct Running {
    gpu: usize,
    kernel: String,
    /// LDS bytes that it asked for.
    lds: u32,
    /// Registers that waves start with.
    given: Given,
    /// The allocation that the last access was in.
    recent: Option<Allocation>,
}

struct Memcheck {
    lines: Lines,
    fail: bool,
    /// Whether reads of LDS and registers are looked at.
    uninitialised: bool,
    /// Whether reads of global memory that nothing has written are looked for.
    follows: bool,
    /// Bytes around allocations in which an access is meant for these.
    redzone: u64,
    /// Allocations by GPU and start, and whether they have such room beside them.
    room: BTreeMap<(usize, u64), bool>,
    /// The heat of allocations, by GPU and start, if it is wanted.
    heat: Option<BTreeMap<(usize, u64), (Allocation, Heat)>>,
    symbols: Symbols,
    gpus: HashMap<usize, Gpu>,
    /// By the dispatch's number.
    running: HashMap<u64, Running>,
    /// LDS bytes that have been written, by workgroup.
    lds: HashMap<(u64, u64), Vec<bool>>,
    /// What the registers of waves hold.
    registers: HashMap<WaveKey, Registers>,
    /// What instructions need of registers, by target, address and word.
    needs: HashMap<(Target, u64, u128), Arc<Needs>>,
    /// Errors by kind and address of the instruction, with how often they were met.
    found: BTreeMap<(&'static str, String, u64), u64>,
}

/// Counts an access that lies in an allocation.
fn warm(
    heat: &mut BTreeMap<(usize, u64), (Allocation, Heat)>,
    gpu: usize,
    inside: &Allocation,
    access: &Access,
) {
    let offset = access.address.wrapping_sub(inside.start);
    if offset >= inside.bytes {
        return;
    }
    let (known, pages) = heat
        .entry((gpu, inside.start))
        .or_insert_with(|| (inside.clone(), Heat::new()));
    if known != inside {
        // Another one lies where one was freed; its pages are its own.
        *known = inside.clone();
        pages.clear();
    }
    let sums = pages.entry(offset >> 12).or_default();
    let (reads, writes) = (
        access.kind != AccessKind::Store,
        access.kind != AccessKind::Load,
    );
    sums[0] += u64::from(reads) * u64::from(access.bytes);
    sums[1] += u64::from(writes) * u64::from(access.bytes);
}

fn kind_name(kind: AccessKind) -> &'static str {
    match kind {
        AccessKind::Load => "load",
        AccessKind::Store => "store",
        AccessKind::Atomic => "atomic",
    }
}

/// Something wrong with an access: its kind and what is known of it.
type Wrong = (&'static str, Value);

impl Memcheck {
    fn report(&mut self, error: &'static str, step: &Step<'_>, detail: Value) -> Outcome {
        let running = self.running.get(&step.wave.dispatch);
        let kernel = running.map(|r| r.kernel.clone()).unwrap_or_default();
        let place = (error, kernel, step.instruction.pc);
        let count = self.found.entry(place.clone()).or_default();
        *count += 1;
        if *count > 1 {
            return Ok(());
        }
        let mut record = json!({
            "plugin": "memcheck",
            "error": error,
            "kernel": place.1,
            "dispatch": step.wave.dispatch,
            "workgroup": step.wave.workgroup,
            "wave": step.wave.index,
            "instruction": self.symbols.describe(step.instruction),
        });
        if let (Value::Object(record), Value::Object(detail)) = (&mut record, detail) {
            record.extend(detail);
        }
        self.lines.line(&record.to_string())
    }

    /// What is wrong with a global access.
    fn global(&mut self, step: &Step<'_>, access: &Access) -> Option<Wrong> {
        let scalar = step.instruction.is_scalar();
        let running = self.running.get_mut(&step.wave.dispatch)?;
        let gpu = self.gpus.get(&running.gpu)?;
        // Compilers widen scalar loads as far as the line that they are in goes.
        let room = if scalar { LINE } else { 1 };
        let inside = |a: &Allocation| {
            let offset = access.address.wrapping_sub(a.start);
            let end = a.bytes.next_multiple_of(room);
            offset < a.bytes && u64::from(access.bytes) <= end - offset
        };
        if running.recent.as_ref().is_some_and(inside) {
            return None;
        }
        match gpu.memory.allocation(access.address) {
            Some(allocation) if inside(&allocation) => {
                running.recent = Some(allocation);
                None
            }
            // Runs that lie one behind the other may be parts of one allocation of the program.
            Some(allocation) if is_followed(&*gpu.memory, &allocation, access) => None,
            Some(allocation) => {
                let mut place = outside(&allocation, access.address);
                if place.get("side").is_none() {
                    // It begins inside and goes on behind the end.
                    place["side"] = "behind".into();
                    place["distance"] = 0.into();
                }
                Some(("out_of_bounds", place))
            }
            None => {
                let earlier = gpu.past.range(..=access.address).next_back();
                let freed = earlier.filter(|(_, a)| access.address - a.start < a.bytes);
                Some(match freed {
                    Some((_, a)) => ("use_after_free", outside(a, access.address)),
                    None => match beside(&*gpu.memory, access.address, self.redzone) {
                        Some(a) => ("out_of_bounds", outside(&a, access.address)),
                        None => {
                            let near = gpu.memory.describe(access.address);
                            ("unmapped", json!({ "near": near }))
                        }
                    },
                })
            }
        }
    }

    /// What is wrong with an access of LDS.
    fn lds(&self, step: &Step<'_>, access: &Access, allocated: usize) -> Option<Wrong> {
        // Hardware allocates blocks; what the kernel asked for is less.
        let running = self.running.get(&step.wave.dispatch);
        let asked = running.map(|r| u64::from(r.lds.next_multiple_of(4)));
        let size = asked.unwrap_or(allocated as u64);
        let end = access.address + u64::from(access.bytes);
        (end > size).then(|| ("lds_out_of_bounds", json!({ "bytes": size })))
    }

    /// Whether an atomic access is not aligned, with the memory that it is to.
    fn misaligned(&self, step: &Step<'_>, access: &Access, allocated: usize) -> Option<Wrong> {
        let aligned = access.address.is_multiple_of(access.bytes.into());
        if access.kind != AccessKind::Atomic || aligned {
            return None;
        }
        let running = self.running.get(&step.wave.dispatch);
        let memory = running.and_then(|r| self.gpus.get(&r.gpu));
        let memory = memory.map(|gpu| &gpu.memory);
        let detail = match (access.space, memory) {
            (Space::Lds, _) => {
                json!({ "bytes": running.map_or(allocated as u64, |r| r.lds.into()) })
            }
            (_, Some(memory)) => match memory.allocation(access.address) {
                Some(found) => outside(&found, access.address),
                None => json!({ "near": memory.describe(access.address) }),
            },
            (_, None) => json!({}),
        };
        Some(("misaligned_atomic", detail))
    }

    fn check(&mut self, step: &Step<'_>, access: &Access, state: &dyn State) -> Outcome {
        let allocated = state.lds().len();
        let mut wrong = match access.space {
            Space::Global => self.global(step, access),
            // The engine itself checks every lane's scratch.
            Space::Scratch => None,
            Space::Lds => self.lds(step, access, allocated),
        };
        if wrong.is_none() {
            wrong = match access.space {
                Space::Global => self.global_bytes(step, access),
                Space::Lds if self.uninitialised => self.lds_bytes(step, access, allocated),
                _ => None,
            };
        }
        let misaligned = self.misaligned(step, access, allocated);
        for (error, mut detail) in wrong.into_iter().chain(misaligned) {
            detail["access"] = kind_name(access.kind).into();
            detail["address"] = format!("{:#x}", access.address).into();
            detail["size"] = access.bytes.into();
            detail["lane"] = access.lane.into();
            self.report(error, step, detail)?;
        }
        Ok(())
    }

    /// Notes bytes of global memory that are written, and looks whether those read have been.
    fn global_bytes(&mut self, step: &Step<'_>, access: &Access) -> Option<Wrong> {
        if !self.follows {
            return None;
        }
        let running = self.running.get(&step.wave.dispatch)?;
        if access.kind != AccessKind::Load {
            // Where GPUs share addresses they share memory.
            let others = self.gpus.iter_mut().filter(|(id, _)| **id != running.gpu);
            others.for_each(|(_, gpu)| {
                if let Some(written) = &mut gpu.written {
                    written.store(access);
                }
            });
        }
        let Gpu {
            memory, written, ..
        } = self.gpus.get_mut(&running.gpu)?;
        let inside = running.recent.as_ref()?;
        // The host reads and writes it while kernels run.
        if matches!(inside.label.as_str(), "GTT" | "user pointer") {
            return None;
        }
        let scalar = step.instruction.is_scalar();
        let byte = written.as_mut()?.access(&**memory, access, scalar)?;
        let mut detail = outside(inside, byte);
        detail["byte"] = format!("{byte:#x}").into();
        Some(("uninitialised_memory", detail))
    }

    /// What an instruction needs of registers.
    fn needs(&mut self, step: &Step<'_>) -> Arc<Needs> {
        let inst = &step.instruction.inst;
        let place = (inst.target(), step.instruction.pc, inst.word());
        let needs = self.needs.entry(place);
        needs.or_insert_with(|| Arc::new(Needs::of(inst))).clone()
    }

    /// What the registers of a wave hold.
    fn registers(&mut self, wave: &Wave) -> &mut Registers {
        let running = self.running.get(&wave.dispatch);
        let given = running.map(|running| running.given).unwrap_or_default();
        let key = (wave.dispatch, wave.group, wave.index);
        let known = self.registers.entry(key);
        known.or_insert_with(|| Registers::new(&given))
    }

    /// Notes LDS bytes that are written, and looks whether those read have been.
    fn lds_bytes(&mut self, step: &Step<'_>, access: &Access, size: usize) -> Option<Wrong> {
        // Rows of tensors are told of with the padding between them, which is not read.
        if access.kind == AccessKind::Load && step.instruction.mnemonic().starts_with("tensor_") {
            return None;
        }
        let group = (step.wave.dispatch, step.wave.group);
        let written = self.lds.entry(group).or_insert_with(|| vec![false; size]);
        let start = access.address as usize;
        let bytes = written.get_mut(start..start + access.bytes as usize)?;
        match access.kind {
            AccessKind::Store => {
                bytes.fill(true);
                None
            }
            _ => {
                let missing = bytes.iter().position(|written| !written);
                // Told once for a place.
                bytes.fill(true);
                missing.map(|at| ("uninitialised_lds", json!({ "byte": start + at })))
            }
        }
    }
}

/// Where an access lies as seen from an allocation, which may begin behind it: also on which side and how many bytes from the
/// nearest one of it, if it begins outside.
fn outside(allocation: &Allocation, address: u64) -> Value {
    let offset = address.wrapping_sub(allocation.start).cast_signed();
    let mut place = json!({
        "allocation": allocation.label,
        "start": format!("{:#x}", allocation.start),
        "bytes": allocation.bytes,
        "offset": offset,
    });
    let behind = address.checked_sub(allocation.start.saturating_add(allocation.bytes));
    let (side, distance) = match behind {
        // The byte behind the last one is one byte from it.
        Some(behind) => ("behind", behind + 1),
        None if offset < 0 => ("before", offset.unsigned_abs()),
        None => return place,
    };
    place["side"] = side.into();
    place["distance"] = distance.into();
    place
}

/// The allocation in whose red zone an address lies; of two the nearer one.
fn beside(memory: &dyn MemoryView, address: u64, redzone: u64) -> Option<Allocation> {
    if redzone == 0 {
        return None;
    }
    let all = memory.allocations();
    let behind = all.partition_point(|a| a.start <= address);
    let before = behind.checked_sub(1).and_then(|i| all.get(i));
    let past = |a: &Allocation| (address - a.start).saturating_sub(a.bytes) + 1;
    let ahead = |a: &Allocation| a.start - address;
    let before = before.filter(|a| past(a) <= redzone);
    let next = all.get(behind).filter(|a| ahead(a) <= redzone);
    match (before, next) {
        (Some(before), Some(next)) if ahead(next) < past(before) => Some(next.clone()),
        (before, next) => before.or(next).cloned(),
    }
}

/// Which allocations have room of at least `bytes` bytes on both sides, by their start: where another one begins at their end,
/// an access that misses them hits that one.
fn with_room(all: &[Allocation], bytes: u64) -> impl Iterator<Item = (u64, bool)> {
    const PAGE: u64 = 4096;
    let end = |a: &Allocation| a.start + a.bytes.next_multiple_of(PAGE);
    (0..all.len()).filter_map(move |i| {
        let this = all.get(i)?;
        let before = i.checked_sub(1).and_then(|i| all.get(i)).map_or(0, end);
        let next = all.get(i + 1).map_or(u64::MAX, |next| next.start);
        let room = this.start.saturating_sub(before);
        let room = room.min(next.saturating_sub(end(this)));
        Some((this.start, room >= bytes))
    })
}

/// Whether the runs that follow an allocation without a gap hold the rest of an access.
fn is_followed(memory: &dyn MemoryView, first: &Allocation, access: &Access) -> bool {
    let end = access.address + u64::from(access.bytes);
    let mut at = first.start + first.bytes;
    if access.address >= at {
        return false;
    }
    while at < end {
        match memory.allocation(at) {
            Some(next) if next.start == at && next.label == first.label && next.bytes > 0 => {
                at += next.bytes
            }
            _ => return false,
        }
    }
    true
}

impl Plugin for Memcheck {
    fn events(&self) -> Events {
        let always = Events::DISPATCHES | Events::ACCESSES | Events::WORKGROUPS;
        if self.uninitialised {
            always | Events::WAVES | Events::READS | Events::WRITES
        } else {
            always
        }
    }

    fn concurrency(&self) -> Concurrency {
        Concurrency::Serial
    }

    fn code_loaded(&mut self, code: &Code<'_>) -> Outcome {
        self.symbols.add(code);
        Ok(())
    }

    fn dispatch_begins(&mut self, dispatch: &Dispatch<'_>) -> Outcome {
        let gpu = self.gpus.entry(dispatch.gpu()).or_insert_with(|| Gpu {
            memory: dispatch.memory.clone(),
            past: BTreeMap::new(),
            written: self.follows.then(Written::default),
        });
        if let Some(written) = &mut gpu.written {
            written.forget();
        }
        let now = gpu.memory.allocations();
        if self.redzone > 0 {
            let room = with_room(&now, self.redzone);
            let of = dispatch.gpu();
            self.room
                .extend(room.map(|(start, has)| ((of, start), has)));
        }
        gpu.past.extend(now.into_iter().map(|a| (a.start, a)));
        let running = Running {
            gpu: dispatch.gpu(),
            kernel: dispatch.kernel.to_owned(),
            lds: dispatch.lds,
            given: dispatch.given,
            recent: None,
        };
        self.running.insert(dispatch.id, running);
        Ok(())
    }

    fn dispatch_ends(&mut self, ended: &Ended<'_>) -> Outcome {
        self.running.remove(&ended.id);
        // Of one that failed, workgroups and waves have not ended.
        self.lds.retain(|(dispatch, _), _| *dispatch != ended.id);
        self.registers
            .retain(|(dispatch, ..), _| *dispatch != ended.id);
        Ok(())
    }

    fn workgroup_ends(&mut self, workgroup: &Workgroup) -> Outcome {
        self.lds.remove(&(workgroup.dispatch, workgroup.linear));
        Ok(())
    }

    fn wave_ends(&mut self, wave: &Wave) -> Outcome {
        self.registers
            .remove(&(wave.dispatch, wave.group, wave.index));
        Ok(())
    }

    fn accesses(&mut self, step: &Step<'_>, accesses: &[Access], state: &dyn State) -> Outcome {
        accesses.iter().try_for_each(|access| {
            self.check(step, access, state)?;
            let running = self.running.get(&step.wave.dispatch);
            if let (Some(heat), Some(running)) = (&mut self.heat, running)
                && let Some(inside) = &running.recent
                && access.space == Space::Global
            {
                warm(heat, running.gpu, inside, access);
            }
            Ok(())
        })
    }

    fn reads(&mut self, step: &Step<'_>, touched: &[Touch], _: &dyn State) -> Outcome {
        let needs = self.needs(step);
        let known = self.registers(step.wave);
        let mut missing = BTreeSet::new();
        for touch in touched {
            if let Some((lanes, bytes)) = known.read(step, &needs, touch) {
                let register = register_name(touch.file, touch.register);
                missing.insert((register, lanes, bytes));
            }
        }
        missing
            .into_iter()
            .try_for_each(|(register, lanes, bytes)| {
                let mut detail = json!({ "register": register });
                if lanes != 0 {
                    detail["lanes"] = format!("{lanes:#x}").into();
                    detail["bytes"] = format!("{bytes:#x}").into();
                }
                self.report("uninitialised_register", step, detail)
            })
    }

    fn writes(&mut self, step: &Step<'_>, touched: &[Touch], _: &dyn State) -> Outcome {
        let needs = self.needs(step);
        self.registers(step.wave).write(&needs, touched);
        Ok(())
    }

    fn finish(&mut self) -> Outcome {
        for (allocation, pages) in self.heat.iter().flat_map(BTreeMap::values) {
            let pages: Vec<_> = pages.iter().map(|(page, [r, w])| (page, r, w)).collect();
            let record = json!({
                "plugin": "memcheck",
                "event": "heat",
                "label": allocation.label,
                "start": format!("{:#x}", allocation.start),
                "bytes": allocation.bytes,
                "pages": pages,
            });
            self.lines.line(&record.to_string())?;
        }
        let count = self.found.len();
        let mut record = json!({
            "plugin": "memcheck",
            "event": "summary",
            "errors": count,
            "times": self.found.values().sum::<u64>(),
        });
        if self.redzone > 0 {
            let with_room = self.room.values().filter(|room| **room).count();
            record["allocations"] = self.room.len().into();
            record["with_room"] = with_room.into();
        }
        self.lines.line(&record.to_string())?;
        self.lines.flush()?;
        if self.fail && count > 0 {
            return Err(format!("{count} memory errors"));
        }
        Ok(())
    }
}
