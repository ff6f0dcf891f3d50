//! Buffer instructions (MUBUF, MTBUF, VBUFFER): plain loads and stores, atomics.

pub mod descriptor;
mod format;
mod formatted;

use std::marker::PhantomData;

use rocjitsu_isa::{Format, Inst, Name};

use super::address::{self, Addresses, all_lanes, for_lanes, highest, is_run};
use super::body::{self, Body};
use super::datum::{Datum, Load, Store, by_load, by_store, rows_to_read, rows_to_write};
use super::rmw::{Rmw, Value, by_rmw};
use super::{Form, LANES, atomic, global, memory_flush, nothing, role};
use crate::lower::Lowering;
use crate::record::{Class, Flow, Operand, Record};
use crate::wave::Cx;
use descriptor::{Buffer, Position, Rules};
pub use formatted::bytes as formatted_bytes;

/// A buffer load.
pub struct BufferLoad<D>(PhantomData<D>);
/// A buffer store.
pub struct BufferStore<D>(PhantomData<D>);
/// A buffer atomic.
pub struct BufferAtomic<O>(PhantomData<O>);

/// Whether an instruction has an offset and an index in vector registers: the bits of its encoding.
fn vector_parts(inst: &Inst) -> (bool, bool) {
    let bit = |n: u32| inst.word() >> n & 1 != 0;
    match (inst.format(), inst.target().generation()) {
        (Format::VBUFFER, _) => (bit(62), bit(63)),
        (_, 9) => (bit(12), bit(13)),
        _ => (bit(54), bit(55)),
    }
}

/// Lowers a buffer instruction.
///
/// TFE asks for a status word when a fetch is refused because the memory is not resident (RDNA3 manual, MUBUF fields).
/// Memory here is resident or unmapped, and an access to unmapped memory stops the dispatch: the word is
/// never written, and TFE changes nothing.
pub fn lower(inst: &Inst, pc: u64, lowering: &mut Lowering) -> Option<Record> {
    let name = inst.op().name();
    let (typed, rest) = match name.strip_prefix("tbuffer_") {
        Some(rest) => (true, rest),
        None => (false, name.strip_prefix("buffer_")?),
    };
    if inst.row().operand(Name::srsrc).is_none() {
        // Cache control: memory is coherent here.
        return Some(nothing(inst, pc, Class::Vmem));
    }
    let (offen, idxen) = vector_parts(inst);
    let mut record = Record::new(*inst, pc, Class::Vmem, |_, _| Flow::Next);
    let vector = |name, role| Some(lowering.banked(lowering.source(inst, name)?, role));
    record.src[0] = vector(Name::vaddr, role::ADDRESS).unwrap_or_default();
    record.src[1] = lowering.source(inst, Name::srsrc)?;
    record.src[2] = vector(Name::vdata, role::DST).unwrap_or_default();
    record.mem.soffset = lowering.source(inst, Name::soffset).unwrap_or_default();
    record.imm = i64::from(inst.field(Name::offset).unwrap_or(0));
    record.mem.form = match (offen, idxen) {
        (false, false) => Form::Buffer,
        (true, false) => Form::BufferOffset,
        (false, true) => Form::BufferIndex,
        (true, true) => Form::BufferBoth,
    };
    record.mem.rules = Rules::of(lowering.target);
    let backend = lowering.backend;
    if inst.row().operand(Name::vdata).is_some()
        && let Some(handler) = formatted::lower(inst, rest, typed, &mut record, lowering)
    {
        record.run = handler;
        return Some(record);
    }
    if typed {
        return None;
    }
    if rest == "load_format_x" && inst.row().operand(Name::vdata).is_none() {
        formatted::to_lds(&mut record, lowering.target);
        return Some(record);
    }
    if rest == "store_lds_dword" {
        return Some(super::to_lds::buffer_store(record, backend));
    }
    if let Some(name) = rest.strip_prefix("atomic_") {
        macro_rules! pick {
            ($op:ident) => {
                body::handler::<BufferAtomic<$op>>(backend)
            };
        }
        record.run = by_rmw!(name, pick)?;
        record.mem.flush = memory_flush(name, lowering.target, lowering.state.float_mode());
        if inst.operand(Name::vdata_in).is_some() {
            record.dst = record.src[2];
        }
        return Some(record);
    }
    if let Some(datum) = rest.strip_prefix("load_").and_then(Datum::of_load) {
        if inst.row().operand(Name::vdata).is_none() {
            return super::to_lds::buffer(record, datum, backend);
        }
        record.dst = record.src[2];
        record.run = by_load!(datum.on(lowering.target), backend, BufferLoad);
        return Some(record);
    }
    if let Some(datum) = rest.strip_prefix("store_").and_then(Datum::of_store) {
        record.run = by_store!(datum, backend, BufferStore);
        return Some(record);
    }
    None
}

/// The descriptor of an instruction.
#[inline(always)]
pub fn descriptor(cx: &Cx<'_, '_>, record: &Record, formatted: bool) -> Buffer {
    // NULL in the place of a descriptor reads as zeros.
    let words = match record.src[1].scalar() {
        Some(s) => [
            cx.wave.s[s],
            cx.wave.s[s + 1],
            cx.wave.s[s + 2],
            cx.wave.s[s + 3],
        ],
        None => [0; 4],
    };
    let indexed = matches!(record.mem.form, Form::BufferIndex | Form::BufferBoth);
    Buffer::new(
        record.mem.rules,
        words,
        cx.get32(record.mem.soffset),
        indexed,
        formatted,
    )
}

/// The part of the offset that lanes share.
#[inline(always)]
fn shared_offset(cx: &Cx<'_, '_>, record: &Record) -> u64 {
    let scalar = if Buffer::offset_has_scalar(record.mem.rules) {
        cx.get32(record.mem.soffset)
    } else {
        0
    };
    record.imm as u64 + u64::from(scalar)
}

/// Positions of all lanes.
#[inline(always)]
pub fn positions(cx: &Cx<'_, '_>, record: &Record) -> [Position; LANES] {
    let mut out = [Position::default(); LANES];
    let first = record.src[0].vector().unwrap_or(0);
    let shared = shared_offset(cx, record);
    let (index, offset) = match record.mem.form {
        Form::BufferOffset => (None, Some(first)),
        Form::BufferIndex => (Some(first), None),
        Form::BufferBoth => (Some(first), Some(first + 1)),
        _ => (None, None),
    };
    for (l, p) in out.iter_mut().enumerate() {
        *p = Position {
            index: 0,
            offset: shared,
            lane: l as u64,
        };
    }
    if let Some(r) = index {
        for (p, &w) in out.iter_mut().zip(cx.wave.v.read(r)) {
            p.index = u64::from(w);
        }
    }
    if let Some(r) = offset {
        for (p, &w) in out.iter_mut().zip(cx.wave.v.read(r)) {
            p.offset += u64::from(w);
        }
    }
    out
}

/// Bytes of the parts that are checked on their own: words, or the whole of something smaller.
#[inline(always)]
fn part(bytes: usize) -> u64 {
    bytes.min(4) as u64
}

/// Address of lane 0 if all lanes are active, in range and one behind the other in a raw buffer.
#[inline(always)]
pub fn run(cx: &Cx<'_, '_>, record: &Record, buffer: &Buffer, bytes: usize) -> Option<u64> {
    if record.mem.form != Form::BufferOffset
        || !buffer.is_raw()
        || cx.wave.exec() != all_lanes(cx.wave.lanes)
    {
        return None;
    }
    let row = cx.wave.v.read(record.src[0].vector()?);
    if !is_run(row, bytes as u32, bytes as u32) {
        return None;
    }
    let first = Position {
        index: 0,
        offset: shared_offset(cx, record) + u64::from(row[0]),
        lane: 0,
    };
    // Offsets grow with the lane: if the last lane's last part is in range, so is everything.
    let last = bytes as u64 * (row.len() as u64 - 1) + bytes as u64 - part(bytes);
    buffer
        .in_range(first, last, part(bytes))
        .then(|| buffer.address(first, 0))
}

/// Addresses of the lanes in a raw buffer if all active ones are in range: the one with the highest offset decides.
#[inline(always)]
pub fn raw(cx: &Cx<'_, '_>, record: &Record, buffer: &Buffer, bytes: usize) -> Option<Addresses> {
    if record.mem.form != Form::BufferOffset || !buffer.is_raw() {
        return None;
    }
    let row = cx.wave.v.read(record.src[0].vector()?);
    let shared = Position {
        index: 0,
        offset: shared_offset(cx, record),
        lane: 0,
    };
    let more = u64::from(highest(row, cx.wave.exec())) + bytes as u64 - part(bytes);
    if !buffer.in_range(shared, more, part(bytes)) {
        return None;
    }
    let base = buffer.address(shared, 0);
    let mut out = [0; LANES];
    for (a, &w) in out.iter_mut().zip(row) {
        *a = base.wrapping_add(w.into());
    }
    Some(out)
}

/// Addresses of lanes, which of them are wholly in range, and which only in part.
pub struct Resolved {
    /// Addresses of the lanes' first bytes.
    pub addresses: Addresses,
    /// Lanes whose data is one piece of memory, all in range.
    pub whole: u64,
    /// Active lanes that are out of range, partly out of range, or in several pieces.
    pub rest: u64,
}

/// Resolves the lanes of an access of `bytes` bytes.
#[inline(always)]
pub fn resolve(buffer: &Buffer, at: &[Position; LANES], exec: u64, bytes: usize) -> Resolved {
    let mut out = Resolved {
        addresses: [0; LANES],
        whole: 0,
        rest: 0,
    };
    let last = bytes as u64 - part(bytes);
    for (l, (a, p)) in out.addresses.iter_mut().zip(at).enumerate() {
        *a = buffer.address(*p, 0);
        let whole = !buffer.splits(*p, bytes as u64)
            && buffer.in_range(*p, 0, part(bytes))
            && buffer.in_range(*p, last, part(bytes));
        out.whole |= u64::from(whole) << l;
    }
    out.whole &= exec;
    out.rest = exec & !out.whole;
    out
}

impl<D: Load> Body for BufferLoad<D> {
    #[inline(always)]
    fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
        let buffer = descriptor(cx, record, false);
        if let Some(base) = run(cx, record, &buffer, D::BYTES)
            && global::load_run::<D>(cx, record, base)
        {
            return Flow::Next;
        }
        let exec = cx.wave.exec();
        if let Some(addresses) = raw(cx, record, &buffer, D::BYTES) {
            return global::load::<D>(cx, record, &addresses, exec);
        }
        let at = positions(cx, record);
        let found = resolve(&buffer, &at, exec, D::BYTES);
        let flow = global::load::<D>(cx, record, &found.addresses, found.whole);
        if flow != Flow::Next || found.rest == 0 {
            return flow;
        }
        let Some(first) = record.dst.vector() else {
            return Flow::Next;
        };
        let rows = rows_to_write::<D>(cx, first);
        for lane in (0..LANES).filter(|l| found.rest >> l & 1 != 0) {
            match read(cx, record, &buffer, at[lane], lane, D::BYTES) {
                // SAFETY: sixteen bytes are there, rows have all lanes.
                Ok(bytes) => unsafe { D::get(bytes.as_ptr(), 4, &rows, lane) },
                Err(flow) => return flow,
            }
        }
        Flow::Next
    }
}

/// The pieces of one lane's data that lie together in memory and are in range: where each begins in the data, its
/// length and its address.
pub fn pieces(
    buffer: &Buffer,
    at: Position,
    bytes: usize,
) -> impl Iterator<Item = (usize, usize, u64)> + '_ {
    let mut next = 0;
    std::iter::from_fn(move || {
        while next < bytes {
            let start = next;
            let word = start & !3;
            let end = (word + 4).min(bytes);
            next = end.min(start + buffer.together(at, start as u64) as usize);
            if buffer.in_range(at, word as u64, (end - word) as u64) {
                return Some((start, next - start, buffer.address(at, start as u64)));
            }
        }
        None
    })
}

/// Reads one lane's data part by part; parts out of range are zero.
pub fn read(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    buffer: &Buffer,
    at: Position,
    lane: usize,
    bytes: usize,
) -> Result<[u8; 16], Flow> {
    let mut out = [0u8; 16];
    for (start, length, address) in pieces(buffer, at, bytes.min(16)) {
        let to = &mut out[start..start + length];
        match cx.unit.memory.locate(address, to.len() as u64, false) {
            // SAFETY: `locate` vouches for the bytes, `out` is the instruction's own.
            Ok(p) => unsafe {
                std::ptr::copy_nonoverlapping(p.cast_const(), to.as_mut_ptr(), to.len())
            },
            Err(kind) => {
                return Err(address::fault(
                    cx,
                    record,
                    "load",
                    to.len(),
                    address,
                    lane,
                    kind,
                ));
            }
        }
    }
    Ok(out)
}

/// Writes one lane's data part by part; parts out of range are dropped.
pub fn write(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    buffer: &Buffer,
    at: Position,
    lane: usize,
    bytes: &[u8],
) -> Result<(), Flow> {
    for (start, length, address) in pieces(buffer, at, bytes.len()) {
        let from = &bytes[start..start + length];
        if let Err(kind) = cx.unit.memory.store(address, from) {
            let bytes = from.len();
            return Err(address::fault(
                cx, record, "store", bytes, address, lane, kind,
            ));
        }
    }
    Ok(())
}

impl<D: Store> Body for BufferStore<D> {
    #[inline(always)]
    fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
        let buffer = descriptor(cx, record, false);
        if let Some(base) = run(cx, record, &buffer, D::BYTES)
            && global::store_run::<D>(cx, record, base)
        {
            return Flow::Next;
        }
        let exec = cx.wave.exec();
        if let Some(addresses) = raw(cx, record, &buffer, D::BYTES) {
            return global::store::<D>(cx, record, &addresses, exec);
        }
        let at = positions(cx, record);
        let mut found = resolve(&buffer, &at, exec, D::BYTES);
        if found.rest != 0 && (D::BYTES > 4 || buffer.swizzled) {
            // Lanes may overlap: all of them in ascending order.
            found = Resolved {
                whole: 0,
                rest: exec,
                ..found
            };
        }
        let flow = global::store::<D>(cx, record, &found.addresses, found.whole);
        if flow != Flow::Next || found.rest == 0 {
            return flow;
        }
        let Some(first) = record.src[2].vector() else {
            return Flow::Next;
        };
        let rows = rows_to_read::<D>(cx, first);
        for lane in (0..LANES).filter(|l| found.rest >> l & 1 != 0) {
            let mut bytes = [0u8; 16];
            // SAFETY: sixteen bytes are there, rows have all lanes.
            unsafe { D::put(bytes.as_mut_ptr(), 4, &rows, lane) };
            if let Err(flow) = write(cx, record, &buffer, at[lane], lane, &bytes[..D::BYTES]) {
                return flow;
            }
        }
        Flow::Next
    }
}

impl<O: Rmw> Body for BufferAtomic<O> {
    #[inline(always)]
    fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
        let buffer = descriptor(cx, record, false);
        let at = positions(cx, record);
        let bytes = O::T::BYTES as u64;
        let exec = cx.wave.exec();
        let mut addresses = [0; LANES];
        let mut inside = 0;
        for (l, (a, p)) in addresses.iter_mut().zip(&at).enumerate() {
            *a = buffer.address(*p, 0);
            inside |= u64::from(buffer.in_range(*p, 0, bytes)) << l;
        }
        let flow = atomic::global::<O>(cx, record, &addresses, exec & inside);
        // Lanes out of range change nothing and return zero.
        if record.dst != Operand::None {
            for_lanes(exec & !inside, |lane| {
                atomic::give_back(cx, record, lane, O::T::default())
            });
        }
        flow
    }
}
