//! `memcheck`: accesses outside allocations and to freed ones, LDS accesses outside the workgroup's, atomics that are
//! not aligned; on request reads of LDS bytes, VGPR lanes and bytes of global memory that nothing has written.

mod written;

use foldhash::HashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rocjitsu_isa::RegFile;
use rocjitsu_observe::{
    Access, AccessKind, Allocation, Code, Concurrency, Dispatch, Events, Family, Lines, MemoryView,
    Outcome, Plugin, Space, State, Step, Touch, Wave, Workgroup,
};
use serde_json::{Value, json};

use crate::options::Options;
use crate::symbols::Symbols;
use crate::trace::register_name;
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
        written: uninitialised.global.then(Written::default),
        redzone: redzone.unwrap_or(0),
        room: BTreeMap::new(),
        heat: heat.then(BTreeMap::new),
        symbols: Symbols::default(),
        memory: None,
        kernels: HashMap::default(),
        recent: None,
        past: BTreeMap::new(),
        lds: HashMap::default(),
        registers: HashMap::default(),
        found: BTreeMap::new(),
    }))
}

/// Bytes of a line of the scalar cache.
const LINE: u64 = 64;

/// Red zones are no larger, so that addresses suffice.
const LARGEST_REDZONE: u64 = 1 << 32;

/// VGPRs that a wave may start with: work-item ids.
const GIVEN: u16 = 3;

type WaveKey = (u64, u64, u32);

/// Bytes read and written, by page of 4 KiB from the start of an allocation.
type Heat = BTreeMap<u64, [u64; 2]>;

struct Memcheck {
    lines: Lines,
    fail: bool,
    /// Whether reads of LDS and registers are looked at.
    uninitialised: bool,
    /// Bytes of global memory that were written, if reads of others are looked for.
    written: Option<Written>,
    /// Bytes around allocations in which an access is meant for these.
    redzone: u64,
    /// Allocations by their start, and whether they have such room beside them.
    room: BTreeMap<u64, bool>,
    /// The heat of allocations, by their start, if it is wanted.
    heat: Option<BTreeMap<u64, (Allocation, Heat)>>,
    symbols: Symbols,
    memory: Option<Arc<dyn MemoryView>>,
    /// Name and LDS bytes of the kernels, by dispatch.
    kernels: HashMap<u64, (String, u32)>,
    /// The allocation that the last access was in.
    recent: Option<Allocation>,
    /// Allocations that existed when an earlier dispatch began.
    past: BTreeMap<u64, Allocation>,
    /// LDS bytes that have been written, by workgroup.
    lds: HashMap<(u64, u64), Vec<bool>>,
    /// Lanes of VGPRs that have been written, by wave.
    registers: HashMap<WaveKey, HashMap<(bool, u16), u64>>,
    /// Errors by kind and address of the instruction, with how often they were met.
    found: BTreeMap<(&'static str, String, u64), u64>,
}

/// Counts an access that lies in an allocation.
fn warm(heat: &mut BTreeMap<u64, (Allocation, Heat)>, inside: &Allocation, access: &Access) {
    let offset = access.address.wrapping_sub(inside.start);
    if offset >= inside.bytes {
        return;
    }
    let (known, pages) = heat
        .entry(inside.start)
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

impl Memcheck {
    fn report(&mut self, error: &'static str, step: &Step<'_>, detail: Value) -> Outcome {
        let kernel = self
            .kernels
            .get(&step.wave.dispatch)
            .map(|(name, _)| name.clone())
            .unwrap_or_default();
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
    fn global(&mut self, access: &Access, scalar: bool) -> Option<(&'static str, Value)> {
        // Compilers widen scalar loads as far as the line that they are in goes.
        let room = if scalar { LINE } else { 1 };
        let inside = |a: &Allocation| {
            let offset = access.address.wrapping_sub(a.start);
            let end = a.bytes.next_multiple_of(room);
            offset < a.bytes && u64::from(access.bytes) <= end - offset
        };
        if self.recent.as_ref().is_some_and(inside) {
            return None;
        }
        let memory = self.memory.as_ref()?;
        let found = memory.allocation(access.address);
        let near = memory.describe(access.address);
        match found {
            Some(allocation) if inside(&allocation) => {
                self.recent = Some(allocation);
                None
            }
            // Runs that lie one behind the other may be parts of one allocation of the program.
            Some(allocation) if is_followed(&**memory, &allocation, access) => None,
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
                let earlier = self.past.range(..=access.address).next_back();
                let freed = earlier.filter(|(_, a)| access.address - a.start < a.bytes);
                Some(match freed {
                    Some((_, a)) => ("use_after_free", outside(a, access.address)),
                    None => match beside(&**memory, access.address, self.redzone) {
                        Some(a) => ("out_of_bounds", outside(&a, access.address)),
                        None => ("unmapped", json!({ "near": near })),
                    },
                })
            }
        }
    }

    fn check(&mut self, step: &Step<'_>, access: &Access, state: &dyn State) -> Outcome {
        let mut wrong = match access.space {
            Space::Global => {
                let scalar = step.instruction.family == Family::Scalar;
                self.global(access, scalar)
            }
            // The engine itself checks every lane's scratch.
            Space::Scratch => None,
            Space::Lds => {
                // Hardware allocates blocks; what the kernel asked for is less.
                let asked = self.kernels.get(&step.wave.dispatch);
                let size = asked.map_or(state.lds().len() as u64, |(_, bytes)| {
                    u64::from(bytes.next_multiple_of(4))
                });
                let end = access.address + u64::from(access.bytes);
                (end > size).then(|| ("lds_out_of_bounds", json!({ "bytes": size })))
            }
        };
        if wrong.is_none() && access.space == Space::Global {
            wrong = self.global_bytes(step, access);
        }
        if access.kind == AccessKind::Atomic && !access.address.is_multiple_of(access.bytes.into())
        {
            wrong = Some(("misaligned_atomic", json!({})));
        }
        if wrong.is_none() && self.uninitialised && access.space == Space::Lds {
            wrong = self.lds_bytes(step, access, state.lds().len());
        }
        let Some((error, mut detail)) = wrong else {
            return Ok(());
        };
        detail["access"] = kind_name(access.kind).into();
        detail["address"] = format!("{:#x}", access.address).into();
        detail["size"] = access.bytes.into();
        detail["lane"] = access.lane.into();
        self.report(error, step, detail)
    }

    /// Notes bytes of global memory that are written, and looks whether those read have been.
    fn global_bytes(&mut self, step: &Step<'_>, access: &Access) -> Option<(&'static str, Value)> {
        let written = self.written.as_mut()?;
        let memory = self.memory.as_ref()?;
        let inside = self.recent.as_ref()?;
        // The host reads and writes it while kernels run.
        if matches!(inside.label.as_str(), "GTT" | "user pointer") {
            return None;
        }
        let scalar = step.instruction.family == Family::Scalar;
        let byte = written.access(&**memory, access, scalar)?;
        let mut detail = outside(inside, byte);
        detail["byte"] = format!("{byte:#x}").into();
        Some(("uninitialised_memory", detail))
    }

    /// Notes LDS bytes that are written, and looks whether those read have been.
    fn lds_bytes(
        &mut self,
        step: &Step<'_>,
        access: &Access,
        size: usize,
    ) -> Option<(&'static str, Value)> {
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

fn is_vector(touch: &&Touch) -> bool {
    matches!(touch.file, RegFile::Vgpr | RegFile::Agpr)
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
        let kernel = (dispatch.kernel.to_owned(), dispatch.lds);
        self.kernels.insert(dispatch.id, kernel);
        self.recent = None;
        if let Some(written) = &mut self.written {
            written.forget();
        }
        let now = dispatch.memory.allocations();
        if self.redzone > 0 {
            self.room.extend(with_room(&now, self.redzone));
        }
        self.past.extend(now.into_iter().map(|a| (a.start, a)));
        self.memory = Some(dispatch.memory.clone());
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
            if let (Some(heat), Some(inside)) = (&mut self.heat, &self.recent)
                && access.space == Space::Global
            {
                warm(heat, inside, access);
            }
            Ok(())
        })
    }

    fn reads(&mut self, step: &Step<'_>, touched: &[Touch], _: &dyn State) -> Outcome {
        let wave = (step.wave.dispatch, step.wave.group, step.wave.index);
        let mut missing = BTreeSet::new();
        let known = self.registers.entry(wave).or_default();
        for touch in touched.iter().filter(is_vector) {
            let is_agpr = touch.file == RegFile::Agpr;
            if !is_agpr && touch.register < GIVEN {
                continue;
            }
            let written = known.entry((is_agpr, touch.register)).or_default();
            let unwritten = touch.lanes & step.exec & !*written;
            if unwritten != 0 {
                *written |= unwritten;
                missing.insert((register_name(touch.file, touch.register), unwritten));
            }
        }
        missing.into_iter().try_for_each(|(register, lanes)| {
            let detail = json!({ "register": register, "lanes": format!("{lanes:#x}") });
            self.report("uninitialised_register", step, detail)
        })
    }

    fn writes(&mut self, step: &Step<'_>, touched: &[Touch], _: &dyn State) -> Outcome {
        let wave = (step.wave.dispatch, step.wave.group, step.wave.index);
        let known = self.registers.entry(wave).or_default();
        for touch in touched.iter().filter(is_vector) {
            *known
                .entry((touch.file == RegFile::Agpr, touch.register))
                .or_default() |= touch.lanes;
        }
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
