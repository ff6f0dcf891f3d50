//! Copies between memory and LDS that pass no register: loads with LDS address in M0 (CDNA), and
//! gfx1250's asynchronous loads and stores, whose LDS address comes from a register.

use rocjitsu_lanes::Backend;

use super::address::{self, Addresses};
use super::body::{Body, handler};
use super::buffer;
use super::datum::Datum;
use super::{Form, LANES};
use crate::lds::access::{self as lds, Outside};
use crate::record::{Flow, Record};
use crate::wave::{Cx, scalar};

/// A load from global memory to LDS at M0.
struct GlobalToLds;
/// A load from a buffer to LDS at M0.
struct BufferToLds;
/// A store of a word of LDS at M0 to a buffer (gfx90a).
struct BufferFromLds;
/// An asynchronous load of `BYTES` bytes to LDS.
struct AsyncLoad<const BYTES: usize>;
/// An asynchronous store from LDS.
struct AsyncStore;

/// Bytes of a lane's data in memory, and how it becomes a word.
fn widen(datum: Datum, bytes: &mut [u8; 16]) -> usize {
    let word = match datum {
        Datum::U8 => u32::from(bytes[0]),
        Datum::I8 => bytes[0] as i8 as u32,
        Datum::U16 => u32::from(u16::from_le_bytes([bytes[0], bytes[1]])),
        Datum::I16 => i16::from_le_bytes([bytes[0], bytes[1]]) as u32,
        other => return other.bytes() as usize,
    };
    bytes[..4].copy_from_slice(&word.to_le_bytes());
    4
}

/// Finishes a record of a global load to LDS.
pub fn global(mut record: Record, datum: Datum, backend: Backend) -> Option<Record> {
    record.mem.datum = datum;
    record.run = handler::<GlobalToLds>(backend);
    Some(record)
}

/// Finishes a record of a buffer load to LDS.
pub fn buffer(mut record: Record, datum: Datum, backend: Backend) -> Option<Record> {
    record.mem.datum = datum;
    record.run = handler::<BufferToLds>(backend);
    Some(record)
}

/// Finishes a record of `buffer_store_lds_dword`.
pub fn buffer_store(mut record: Record, backend: Backend) -> Record {
    record.run = handler::<BufferFromLds>(backend);
    record
}

/// Finishes a record of an asynchronous load.
pub fn async_load(mut record: Record, datum: Datum, backend: Backend) -> Option<Record> {
    record.mem.datum = datum;
    record.dst.vector()?;
    record.run = match datum.bytes() {
        1 => handler::<AsyncLoad<1>>(backend),
        4 => handler::<AsyncLoad<4>>(backend),
        8 => handler::<AsyncLoad<8>>(backend),
        16 => handler::<AsyncLoad<16>>(backend),
        _ => return None,
    };
    Some(record)
}

/// Finishes a record of an asynchronous store.
pub fn async_store(mut record: Record, datum: Datum, backend: Backend) -> Option<Record> {
    record.mem.datum = datum;
    record.src[2].vector()?;
    record.run = handler::<AsyncStore>(backend);
    Some(record)
}

/// LDS address of lane 0 and the step to the next lane: M0's offset plus the immediate one (CDNA manuals,
/// "Memory Buffer Load to LDS"; M0 has 18 bits of it on gfx950, 16 before).
pub fn m0_place(cx: &Cx<'_, '_>, record: &Record) -> (u32, u32) {
    let bits = if cx.unit.target == rocjitsu_isa::Target::Gfx950 {
        0x3_ffff
    } else {
        0xffff
    };
    let base = (cx.wave.s[scalar::M0] & bits).wrapping_add(record.imm as u32);
    (base, record.mem.datum.bytes().max(4))
}

/// Copies one lane's bytes from memory.
fn fetch(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    at: u64,
    lane: usize,
    bytes: usize,
) -> Result<[u8; 16], Flow> {
    let mut out = [0u8; 16];
    match cx.unit.memory.locate(at, bytes as u64, false) {
        // SAFETY: `locate` vouches for the bytes; a datum has at most sixteen.
        Ok(p) => unsafe { std::ptr::copy_nonoverlapping(p.cast_const(), out.as_mut_ptr(), bytes) },
        Err(kind) => return Err(address::fault(cx, record, "load", bytes, at, lane, kind)),
    }
    Ok(out)
}

/// Copies the data of all lanes at once to consecutive LDS, if it is one run of one extent.
#[inline(always)]
fn copy_run(cx: &mut Cx<'_, '_>, base: u64, to: u32, step: u32, bytes: usize) -> bool {
    let total = cx.wave.lanes as usize * bytes;
    if step as usize != bytes {
        return false;
    }
    let Some(lds) = cx.group.lds.at(to as usize, total) else {
        return false;
    };
    let Ok(p) = cx.unit.memory.locate(base, total as u64, false) else {
        return false;
    };
    // SAFETY: `locate` and `at` vouch for the bytes; LDS has storage of its own.
    unsafe { std::ptr::copy_nonoverlapping(p.cast_const(), lds, total) };
    true
}

/// Copies the data of the lanes of `mask`, `bytes` bytes each from its address to `step` bytes of LDS each from `to` on, if all
/// of it lies in one extent and whole words move. A lane's data moves at once: others may load it meanwhile.
#[inline(always)]
fn copy_lanes(
    cx: &mut Cx<'_, '_>,
    addresses: &Addresses,
    mask: u64,
    (to, step): (u32, u32),
    bytes: usize,
) -> bool {
    if mask == 0 || bytes < 4 {
        return mask == 0;
    }
    let (low, high) = address::span(addresses, mask);
    let Some(total) = (high - low).checked_add(bytes as u64) else {
        return false;
    };
    let Ok(p) = cx.unit.memory.locate(low, total, false) else {
        return false;
    };
    for lane in (0..LANES).filter(|l| mask >> l & 1 != 0) {
        let from = p
            .wrapping_add((addresses[lane] - low) as usize)
            .cast_const();
        let at = to.wrapping_add(step * lane as u32);
        // SAFETY: the lane's bytes lie inside what `locate` vouched for, and inside LDS where `at` says so.
        unsafe {
            match (bytes, cx.group.lds.at(at as usize, bytes)) {
                (16, Some(inside)) => {
                    let data = from.cast::<[u8; 16]>().read_unaligned();
                    inside.cast::<[u8; 16]>().write_unaligned(data);
                }
                (4, Some(inside)) => {
                    let data = from.cast::<[u8; 4]>().read_unaligned();
                    inside.cast::<[u8; 4]>().write_unaligned(data);
                }
                (_, Some(inside)) => std::ptr::copy_nonoverlapping(from, inside, bytes),
                (_, None) => {
                    let mut data = [0u8; 16];
                    std::ptr::copy_nonoverlapping(from, data.as_mut_ptr(), bytes.min(16));
                    lds::write(&cx.group.lds, at, &data[..bytes.min(16)]);
                }
            }
        }
    }
    true
}

impl Body for GlobalToLds {
    #[inline(always)]
    fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
        let (to, step) = m0_place(cx, record);
        let datum = record.mem.datum;
        let bytes = datum.bytes() as usize;
        if let Some(base) = address::contiguous(cx, record, bytes as u32)
            && copy_run(cx, base, to, step, bytes)
        {
            return Flow::Next;
        }
        let scratch = record.mem.form == Form::Scratch;
        let addresses = if scratch {
            super::scratch::addresses(cx, record)
        } else {
            address::global(cx, record)
        };
        let exec = inside_lds(cx, |lane| to.wrapping_add(step * lane as u32));
        if copy_lanes(cx, &addresses, exec, (to, step), bytes) {
            return Flow::Next;
        }
        for lane in (0..LANES).filter(|l| exec >> l & 1 != 0) {
            let mut data = match fetch(cx, record, addresses[lane], lane, bytes) {
                Ok(data) => data,
                Err(flow) => return flow,
            };
            let size = widen(datum, &mut data);
            lds::write(
                &cx.group.lds,
                to.wrapping_add(step * lane as u32),
                &data[..size],
            );
        }
        Flow::Next
    }
}

impl Body for BufferToLds {
    #[inline(always)]
    fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
        let (to, step) = m0_place(cx, record);
        let datum = record.mem.datum;
        let bytes = datum.bytes() as usize;
        let buffer = buffer::descriptor(cx, record, false);
        if let Some(base) = buffer::run(cx, record, &buffer, bytes)
            && copy_run(cx, base, to, step, bytes)
        {
            return Flow::Next;
        }
        let mut exec = inside_lds(cx, |lane| to.wrapping_add(step * lane as u32));
        if let Some(addresses) = buffer::raw(cx, record, &buffer, bytes)
            && copy_lanes(cx, &addresses, exec, (to, step), bytes)
        {
            return Flow::Next;
        }
        let at = buffer::positions(cx, record);
        let found = buffer::resolve(&buffer, &at, exec, bytes);
        if copy_lanes(cx, &found.addresses, found.whole, (to, step), bytes) {
            exec = found.rest;
        }
        for lane in (0..LANES).filter(|l| exec >> l & 1 != 0) {
            let mut data = match buffer::read(cx, record, &buffer, at[lane], lane, bytes) {
                Ok(data) => data,
                Err(flow) => return flow,
            };
            let size = widen(datum, &mut data);
            lds::write(
                &cx.group.lds,
                to.wrapping_add(step * lane as u32),
                &data[..size],
            );
        }
        Flow::Next
    }
}

impl Body for BufferFromLds {
    #[inline(always)]
    fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
        let (from, step) = m0_place(cx, record);
        let buffer = buffer::descriptor(cx, record, false);
        let at = buffer::positions(cx, record);
        let exec = cx.wave.exec();
        for lane in (0..LANES).filter(|l| exec >> l & 1 != 0) {
            let place = from.wrapping_add(step * lane as u32);
            let data = lds::read(&cx.group.lds, place, 4, Outside::Parts).unwrap_or_default();
            if let Err(flow) = buffer::write(cx, record, &buffer, at[lane], lane, &data[..4]) {
                return flow;
            }
        }
        Flow::Next
    }
}

/// Lanes of `exec` whose LDS address is inside the allocation. The others move nothing, and memory is not
/// touched for them: compilers mask lanes so, with memory addresses that need not exist (CDNA5 manual,
/// 3.3.3; CDNA3 manual, 9.1.9.1: "set the active-mask to limit buffer reads").
pub fn inside_lds(cx: &Cx<'_, '_>, at: impl Fn(usize) -> u32) -> u64 {
    let size = cx.group.lds.len();
    let inside = (0..LANES)
        .map(|lane| u64::from((at(lane) as usize) < size) << lane)
        .sum::<u64>();
    inside & cx.wave.exec()
}

/// LDS addresses from a register; the immediate offset counts here too (CDNA5 manual, 10.8.1).
fn lds_addresses(cx: &Cx<'_, '_>, record: &Record, register: Option<u32>) -> [u32; LANES] {
    lds::addresses(cx.wave.v.read(register.unwrap_or(0)), record.imm as u32)
}

/// Lanes whose data land in LDS, at least in part. What the others load is dropped (CDNA5 manual, 3.3.3); compilers
/// give lanes that must not load such an address, together with a memory address that may be anything.
fn landing(to: &[u32; LANES], size: usize) -> u64 {
    let inside = |mask, (lane, &at): (usize, &u32)| mask | u64::from((at as usize) < size) << lane;
    to.iter().enumerate().fold(0, inside)
}

impl<const BYTES: usize> Body for AsyncLoad<BYTES> {
    #[inline(always)]
    fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
        let to = lds_addresses(cx, record, record.dst.vector());
        let lanes = cx.wave.lanes as usize;
        if let Some(base) = address::contiguous(cx, record, BYTES as u32) {
            let run = address::is_run(&to[..lanes], BYTES as u32, BYTES as u32);
            if run && copy_run(cx, base, to[0], BYTES as u32, BYTES) {
                return Flow::Next;
            }
        }
        let addresses: Addresses = address::global(cx, record);
        let exec = cx.wave.exec() & landing(&to, cx.group.lds.len());
        let (mut low, mut high) = (0, 0);
        if exec != 0 {
            (low, high) = address::span(&addresses, exec);
        }
        if let Ok(p) = cx
            .unit
            .memory
            .locate(low, (high - low).saturating_add(BYTES as u64), false)
        {
            for lane in (0..LANES).filter(|l| exec >> l & 1 != 0) {
                let mut data = [0u8; BYTES];
                // SAFETY: the lane's bytes lie inside what `locate` vouched for.
                unsafe {
                    let from = p.add((addresses[lane] - low) as usize).cast_const();
                    std::ptr::copy_nonoverlapping(from, data.as_mut_ptr(), BYTES);
                }
                let at = to[lane] as usize;
                match cx.group.lds.at(at, BYTES) {
                    // SAFETY: `at` vouches for the bytes.
                    Some(inside) => unsafe { inside.cast::<[u8; BYTES]>().write_unaligned(data) },
                    None => lds::write(&cx.group.lds, to[lane], &data),
                }
            }
            return Flow::Next;
        }
        for lane in (0..LANES).filter(|l| exec >> l & 1 != 0) {
            match fetch(cx, record, addresses[lane], lane, BYTES) {
                Ok(data) => lds::write(&cx.group.lds, to[lane], &data[..BYTES]),
                Err(flow) => return flow,
            }
        }
        Flow::Next
    }
}

impl Body for AsyncStore {
    #[inline(always)]
    fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
        let from = lds_addresses(cx, record, record.src[2].vector());
        let bytes = record.mem.datum.bytes() as usize;
        let addresses = address::global(cx, record);
        let exec = inside_lds(cx, |lane| from[lane]);
        for lane in (0..LANES).filter(|l| exec >> l & 1 != 0) {
            let data =
                lds::read(&cx.group.lds, from[lane], bytes, Outside::Parts).unwrap_or_default();
            if let Err(kind) = cx.unit.memory.store(addresses[lane], &data[..bytes]) {
                return address::fault(cx, record, "store", bytes, addresses[lane], lane, kind);
            }
        }
        Flow::Next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_that_miss_lds_do_not_load() {
        let mut to = [0x7fff_ffff; LANES];
        (to[1], to[5], to[31]) = (0, 1020, 1024);
        assert_eq!(landing(&to, 1024), 1 << 1 | 1 << 5);
    }
}
