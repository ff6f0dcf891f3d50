//! The memory accesses that an instruction of a wave is about to make, lane by lane, by the address functions of
//! the handlers that make them.

use rocjitsu_isa::{Format, Inst, Name, Op};
use rocjitsu_observe::{Access, AccessKind, Scope, Space};

use super::info::Info;
use crate::lds::access as lds;
use crate::record::{Class, Record};
use crate::smem;
use crate::vmem::address::{self, for_lanes};
use crate::vmem::datum::Datum;
use crate::vmem::rmw::by_rmw;
use crate::vmem::{Form, LANES, buffer, flat, scratch, tensor, to_lds, transpose};
use crate::wave::{Cx, scalar};

/// How an instruction finds what it accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    /// Global or flat addresses, or scratch offsets.
    Memory,
    /// Registers of a block, those that M0 has a bit for.
    Block,
    /// Transposed loads from memory: lanes 0 to 31, whatever EXEC says.
    Tile,
    /// A buffer.
    Buffer,
    /// A buffer's formatted data.
    Formatted,
    /// From memory or a buffer to LDS at M0, or back.
    LdsAtM0 { buffer: bool, store: bool },
    /// Between memory and LDS at a register's address (gfx1250).
    Async { store: bool },
    /// LDS.
    Lds,
    /// Two places of LDS.
    Lds2,
    /// Transposed loads from LDS: all lanes.
    LdsTile,
    /// LDS at M0 plus the lane's number times 4.
    LdsByLane,
    /// One word of LDS at M0.
    LdsAppend,
    /// One value of LDS at M0 (direct loads).
    LdsDirect,
    /// Scalar memory.
    Scalar { buffer: bool },
    /// A tensor copy.
    Tensor,
}

/// How an instruction accesses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    path: Path,
    kind: AccessKind,
    bytes: u32,
    scope: Scope,
}

impl Shape {
    /// The shape of a record's instruction; `None` if it accesses nothing.
    pub fn of(record: &Record) -> Option<Shape> {
        let inst = &record.inst;
        let name = inst.op().name();
        let (path, kind, bytes) = match record.class {
            Class::Smem => scalar(inst, record)?,
            Class::Lds => lds_shape(inst, name)?,
            Class::Vmem => vector(inst, name, record)?,
            _ => return None,
        };
        Some(Shape {
            path,
            kind,
            bytes,
            scope: Scope::of(inst),
        })
    }
}

fn scalar(inst: &Inst, record: &Record) -> Option<(Path, AccessKind, u32)> {
    let name = inst.op().name();
    let buffer = name.starts_with("s_buffer_");
    let path = Path::Scalar { buffer };
    if name.contains("atomic") {
        let bytes = if name.contains("_x2") { 8 } else { 4 };
        return Some((path, AccessKind::Atomic, bytes));
    }
    let kind = if name.contains("_store_") {
        AccessKind::Store
    } else if name.contains("_load_") {
        AccessKind::Load
    } else {
        return None;
    };
    Some((path, kind, smem::bytes_of(record)))
}

fn atomic_bytes(operation: &str) -> Option<u32> {
    macro_rules! pick {
        ($op:ident) => {
            <<$op as Rmw>::T as Value>::BYTES as u32
        };
    }
    by_rmw!(operation, pick)
}

fn lds_shape(inst: &Inst, name: &str) -> Option<(Path, AccessKind, u32)> {
    use AccessKind::{Atomic, Load, Store};
    if inst.format() == Format::LDSDIR {
        return Some((Path::LdsDirect, Load, 4));
    }
    let name = name.strip_prefix("ds_")?;
    match name {
        "read_addtid_b32" | "load_addtid_b32" => return Some((Path::LdsByLane, Load, 4)),
        "write_addtid_b32" | "store_addtid_b32" => return Some((Path::LdsByLane, Store, 4)),
        "append" | "consume" => return Some((Path::LdsAppend, Atomic, 4)),
        "atomic_async_barrier_arrive_b64" | "atomic_barrier_arrive_rtn_b64" => {
            return Some((Path::Lds, Atomic, 8));
        }
        _ => {}
    }
    if name.starts_with("gws_")
        || ["permute", "swizzle", "nop"]
            .iter()
            .any(|n| name.contains(n))
    {
        return None;
    }
    let two = |rest: &str, kind| {
        let bytes = if rest.ends_with("b64") { 8 } else { 4 };
        Some((Path::Lds2, kind, bytes))
    };
    for (prefix, kind) in [
        ("read2", Load),
        ("load_2addr", Load),
        ("write2", Store),
        ("store_2addr", Store),
        ("wrxchg2", Atomic),
        ("storexchg_2addr", Atomic),
    ] {
        if let Some(rest) = name.strip_prefix(prefix) {
            return two(rest, kind);
        }
    }
    let load = name.strip_prefix("read_").or(name.strip_prefix("load_"));
    if let Some(rest) = load {
        if let Some((_, bytes)) = transpose::shape(rest) {
            return Some((Path::LdsTile, Load, bytes));
        }
        return Some((Path::Lds, Load, Datum::of_load(rest)?.bytes()));
    }
    let store = name.strip_prefix("write_").or(name.strip_prefix("store_"));
    if let Some(datum) = store.and_then(Datum::of_store) {
        return Some((Path::Lds, Store, datum.bytes()));
    }
    let operation = name.replace("rtn_", "");
    Some((Path::Lds, Atomic, atomic_bytes(&operation)?))
}

fn vector(inst: &Inst, name: &str, record: &Record) -> Option<(Path, AccessKind, u32)> {
    use AccessKind::{Atomic, Load, Store};
    match inst.op() {
        Op::tensor_load_to_lds => return Some((Path::Tensor, Load, 0)),
        Op::tensor_store_from_lds => return Some((Path::Tensor, Store, 0)),
        _ => {}
    }
    let (segment, rest) = name.split_once('_')?;
    let is_buffer = matches!(segment, "buffer" | "tbuffer");
    if is_buffer && inst.row().operand(Name::srsrc).is_none() {
        return None;
    }
    let memory = if is_buffer {
        Path::Buffer
    } else {
        Path::Memory
    };
    if let Some(operation) = rest.strip_prefix("atomic_") {
        return Some((memory, Atomic, atomic_bytes(operation)?));
    }
    let kind = if rest.starts_with("load") {
        Load
    } else if rest.starts_with("store") {
        Store
    } else {
        return None;
    };
    match rest {
        "load_block" | "store_block" => return Some((Path::Block, kind, 4)),
        "store_lds_dword" => {
            let (buffer, store) = (true, true);
            return Some((Path::LdsAtM0 { buffer, store }, kind, 4));
        }
        _ => {}
    }
    let to_lds = is_to_lds(inst, rest);
    if rest.contains("format") {
        let path = if to_lds {
            Path::LdsAtM0 {
                buffer: true,
                store: false,
            }
        } else {
            Path::Formatted
        };
        return Some((path, kind, 4));
    }
    let (_, datum) = rest.split_once('_')?;
    if let Some(datum) = datum.strip_prefix("async_to_lds_") {
        let bytes = Datum::of_load(datum)?.bytes();
        return Some((Path::Async { store: false }, kind, bytes));
    }
    if let Some(datum) = datum.strip_prefix("async_from_lds_") {
        let bytes = Datum::of_load(datum)?.bytes();
        return Some((Path::Async { store: true }, kind, bytes));
    }
    if let (Load, Some((_, bytes))) = (kind, transpose::shape(datum)) {
        return Some((Path::Tile, kind, bytes));
    }
    if to_lds {
        let bytes = record.mem.datum.bytes();
        let (buffer, store) = (is_buffer, false);
        return Some((Path::LdsAtM0 { buffer, store }, kind, bytes));
    }
    let datum = datum
        .strip_prefix("monitor_")
        .or(datum.strip_prefix("addtid_"))
        .unwrap_or(datum);
    let datum = match kind {
        Load => Datum::of_load(datum)?,
        _ => Datum::of_store(datum)?,
    };
    Some((memory, kind, datum.bytes()))
}

/// Loads without a destination register go to LDS.
fn is_to_lds(inst: &Inst, rest: &str) -> bool {
    let data = [Name::vdst, Name::vdata];
    rest.starts_with("load") && data.iter().all(|&name| inst.row().operand(name).is_none())
}

/// Which half of its register a load writes, if it leaves the other one alone: true for the upper one.
pub fn loaded_half(record: &Record) -> Option<bool> {
    let name = record.inst.op().name();
    let (_, rest) = name.split_once('_')?;
    let datum = rest.strip_prefix("load_").or(rest.strip_prefix("read_"))?;
    match Datum::of_load(datum)?.on(record.inst.target()) {
        Datum::LowU8 | Datum::LowI8 | Datum::Low16 => Some(false),
        Datum::HighU8 | Datum::HighI8 | Datum::High16 => Some(true),
        _ => None,
    }
}

/// Collects accesses of one instruction.
struct Log<'o> {
    shape: Shape,
    /// Addresses of the wave's scratch, which buffer instructions reach as memory.
    scratch: std::ops::Range<u64>,
    out: &'o mut Vec<Access>,
}

impl Log<'_> {
    fn add(&mut self, space: Space, kind: AccessKind, lane: usize, address: u64, bytes: u32) {
        let scratch = space == Space::Global && self.scratch.contains(&address);
        self.out.push(Access {
            space: if scratch { Space::Scratch } else { space },
            kind,
            lane: lane as u8,
            address,
            bytes,
            scope: self.shape.scope,
        });
    }

    /// An access to LDS, as it is addressed: it may be outside the allocation ([`lds::Outside`]). Where no LDS
    /// reaches there is none: such a lane is switched off ([`lds::FAR`]).
    fn lds(&mut self, kind: AccessKind, lane: usize, address: u32, bytes: u32) {
        if address < lds::FAR {
            self.add(Space::Lds, kind, lane, address.into(), bytes);
        }
    }
}

/// The accesses that an instruction is about to make. Accesses that the hardware drops are not among them; the
/// one that stops its wave is.
pub fn of(cx: &Cx<'_, '_>, record: &Record, info: &Info, out: &mut Vec<Access>) {
    out.clear();
    let Some(shape) = info.shape else { return };
    let exec = cx.wave.exec();
    let scratch = cx.wave.scratch;
    let bytes = u64::from(cx.wave.scratch_size.next_multiple_of(4)) * u64::from(cx.wave.lanes);
    let mut log = Log {
        shape,
        scratch: scratch..scratch.saturating_add(bytes),
        out,
    };
    let (kind, bytes) = (shape.kind, shape.bytes);
    match shape.path {
        Path::Memory => memory(cx, record, &mut log),
        Path::Block => block(cx, record, &mut log),
        Path::Tile if exec != 0 => {
            let at = address::global(cx, record);
            (0..32).for_each(|lane| log.add(Space::Global, kind, lane, at[lane], bytes));
        }
        Path::Tile => {}
        Path::Buffer | Path::Formatted => buffer_lanes(cx, record, exec, &mut log),
        Path::LdsAtM0 { buffer, store } => {
            let (at, step) = if store {
                (to_lds::m0_place(cx, record).0, 4)
            } else {
                to_lds::m0_place(cx, record)
            };
            let place = |lane: usize| at.wrapping_add(step * lane as u32);
            let lanes = if store {
                exec
            } else {
                to_lds::inside_lds(cx, place)
            };
            if buffer {
                buffer_lanes(cx, record, lanes, &mut log);
            } else if record.mem.form == Form::Scratch {
                let at = scratch::addresses(cx, record);
                for_lanes(lanes, |l| log.add(Space::Scratch, kind, l, at[l], bytes));
            } else {
                let at = address::global(cx, record);
                for_lanes(lanes, |l| log.add(Space::Global, kind, l, at[l], bytes));
            }
            let (kind, bytes) = if store {
                (AccessKind::Load, 4)
            } else {
                (AccessKind::Store, bytes.max(4))
            };
            for_lanes(lanes, |lane| log.lds(kind, lane, place(lane), bytes));
        }
        Path::Async { store } => {
            let register = if store { record.src[2] } else { record.dst };
            let row = cx.wave.v.read(register.vector().unwrap_or(0));
            let in_lds = lds::addresses(row, record.imm as u32);
            let lanes = to_lds::inside_lds(cx, |lane| in_lds[lane]);
            let at = address::global(cx, record);
            for_lanes(lanes, |l| log.add(Space::Global, kind, l, at[l], bytes));
            let other = if store {
                AccessKind::Load
            } else {
                AccessKind::Store
            };
            for_lanes(lanes, |lane| log.lds(other, lane, in_lds[lane], bytes));
        }
        Path::Lds | Path::Lds2 | Path::LdsTile => {
            let row = cx.wave.v.read(record.src[0].vector().unwrap_or(0));
            let lanes = if shape.path == Path::LdsTile {
                address::all_lanes(cx.wave.lanes)
            } else {
                exec
            };
            let mut at = |offset: i64| {
                let at = lds::addresses(row, offset as u32);
                for_lanes(lanes, |lane| log.lds(kind, lane, at[lane], bytes));
            };
            at(record.imm);
            if shape.path == Path::Lds2 {
                at(record.imm2);
            }
        }
        Path::LdsByLane => {
            let at = crate::lds::by_lane(cx, record);
            for_lanes(exec, |lane| log.lds(kind, lane, at[lane], 4));
        }
        Path::LdsAppend if exec != 0 => {
            let at = crate::lds::shared_address(cx, record);
            log.lds(kind, exec.trailing_zeros() as usize, at, 4);
        }
        Path::LdsAppend => {}
        Path::LdsDirect => log.lds(kind, 0, cx.wave.s[scalar::M0] & 0xffff, 4),
        Path::Scalar { buffer } => {
            let (address, bytes) = smem::place(cx, record, buffer, bytes);
            if bytes > 0 {
                log.add(Space::Global, kind, 0, address, bytes);
            }
        }
        Path::Tensor => {
            let store = kind == AccessKind::Store;
            for row in tensor::rows(cx, record) {
                if row.bytes > 0 {
                    log.add(Space::Global, kind, 0, row.address, row.bytes);
                }
                for (at, bytes) in row.lds {
                    let kind = if store {
                        AccessKind::Load
                    } else {
                        AccessKind::Store
                    };
                    log.lds(kind, 0, at, bytes);
                }
            }
            if let Some(at) = tensor::barrier_address(cx, record) {
                log.lds(AccessKind::Atomic, 0, at, 8);
            }
        }
    }
}

/// Lanes of global, flat and scratch instructions.
fn memory(cx: &Cx<'_, '_>, record: &Record, log: &mut Log<'_>) {
    let exec = cx.wave.exec();
    let (kind, bytes) = (log.shape.kind, log.shape.bytes);
    if record.mem.form == Form::Scratch {
        let (offsets, _) = scratch::offsets(cx, record);
        for_lanes(exec, |lane| {
            scratch_lane(cx, record, offsets[lane], lane, log)
        });
        return;
    }
    let at = address::global(cx, record);
    if !record.mem.flat {
        for_lanes(exec, |l| log.add(Space::Global, kind, l, at[l], bytes));
        return;
    }
    let found = flat::sort(record, &at, exec);
    for_lanes(found.global, |l| {
        log.add(Space::Global, kind, l, at[l], bytes)
    });
    if found.lds != 0 {
        let in_lds = flat::lds_words(cx.unit.target, &flat::low_words(&at));
        for_lanes(found.lds, |l| log.lds(kind, l, in_lds[l], bytes));
    }
    for_lanes(found.scratch, |lane| {
        scratch_lane(cx, record, at[lane] as u32, lane, log)
    });
    for_lanes(found.shared_scratch, |lane| {
        for more in (0..bytes).step_by(4) {
            let at = flat::from_shared_scratch(at[lane].wrapping_add(more.into()));
            log.add(Space::Scratch, kind, lane, at, (bytes - more).min(4));
        }
    });
}

/// The words of a lane's access to scratch, each by its virtual address.
fn scratch_lane(cx: &Cx<'_, '_>, record: &Record, offset: u32, lane: usize, log: &mut Log<'_>) {
    let (base, lanes) = (scratch::base(cx, record), cx.wave.lanes as usize);
    let end = u64::from(offset) + u64::from(log.shape.bytes);
    let mut at = u64::from(offset);
    while at < end {
        let part = (4 - at % 4).min(end - at);
        let address = base.wrapping_add(scratch::place(at as u32, lane, lanes) as u64);
        log.add(Space::Scratch, log.shape.kind, lane, address, part as u32);
        at += part;
    }
}

fn block(cx: &Cx<'_, '_>, record: &Record, log: &mut Log<'_>) {
    let exec = cx.wave.exec();
    let in_scratch = record.mem.form == Form::Scratch;
    let at = address::global(cx, record);
    let offsets = if in_scratch {
        scratch::offsets(cx, record).0
    } else {
        [0; LANES]
    };
    for_lanes(u64::from(cx.wave.s[scalar::M0]), |i| {
        for_lanes(exec, |lane| {
            if in_scratch {
                scratch_lane(
                    cx,
                    record,
                    offsets[lane].wrapping_add(4 * i as u32),
                    lane,
                    log,
                );
            } else {
                let at = at[lane].wrapping_add(4 * i as u64);
                log.add(Space::Global, log.shape.kind, lane, at, 4);
            }
        });
    });
}

/// Lanes of a buffer instruction: the pieces that are in range.
fn buffer_lanes(cx: &Cx<'_, '_>, record: &Record, lanes: u64, log: &mut Log<'_>) {
    let kind = log.shape.kind;
    let formatted = record.inst.op().name().contains("format");
    let descriptor = buffer::descriptor(cx, record, formatted);
    let bytes = if formatted {
        match buffer::formatted_bytes(record, &descriptor) {
            Some(bytes) => bytes,
            None => return,
        }
    } else {
        log.shape.bytes as usize
    };
    let at = buffer::positions(cx, record);
    let whole = formatted || kind == AccessKind::Atomic;
    for_lanes(lanes, |lane| {
        if whole {
            if descriptor.in_range(at[lane], 0, bytes as u64) {
                let address = descriptor.address(at[lane], 0);
                log.add(Space::Global, kind, lane, address, bytes as u32);
            }
            return;
        }
        for (_, length, address) in buffer::pieces(&descriptor, at[lane], bytes) {
            log.add(Space::Global, kind, lane, address, length as u32);
        }
    });
}
