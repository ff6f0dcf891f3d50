//! Scratch: memory private to a lane, swizzled by words: word k of lane l lies `(k * lanes + l) * 4`
//! bytes behind the wave's base. Manuals: flat memory instructions, "Scratch".

use std::marker::PhantomData;

use super::LANES;
use super::address::{self, for_lanes, is_uniform};
use super::body::Body;
use super::datum::{Load, Store, rows_to_read, rows_to_write};
use crate::error::Cause;
use crate::record::{Flow, Record};
use crate::wave::{Cx, scalar};

/// A byte offset in scratch for each lane.
pub type Offsets = [u32; LANES];

/// A scratch load.
pub struct ScratchLoad<D>(PhantomData<D>);
/// A scratch store.
pub struct ScratchStore<D>(PhantomData<D>);

/// GPU address of the wave's scratch: what hardware sets up, or FLAT_SCRATCH where the program does.
pub fn base(cx: &Cx<'_, '_>, record: &Record) -> u64 {
    if record.mem.flat_scratch {
        cx.wave.s64(scalar::FLAT_SCRATCH)
    } else {
        cx.wave.scratch
    }
}

/// Offsets of the lanes, and whether all lanes have the same.
#[inline(always)]
pub fn offsets(cx: &Cx<'_, '_>, record: &Record) -> (Offsets, bool) {
    let shared = cx.get32(record.src[1]).wrapping_add(record.imm as u32);
    match record.src[0].vector() {
        None => ([shared; LANES], true),
        Some(v) => {
            let mut out = [0; LANES];
            let row = cx.wave.v.read(v);
            for (o, &w) in out.iter_mut().zip(row) {
                *o = shared.wrapping_add(w.wrapping_mul(record.mem.scale));
            }
            (out, is_uniform(row))
        }
    }
}

/// Host address of the wave's scratch, whole.
#[inline(always)]
fn host(cx: &mut Cx<'_, '_>, record: &Record, write: bool) -> Option<*mut u8> {
    let bytes = u64::from(cx.wave.scratch_size.next_multiple_of(4)) * u64::from(cx.wave.lanes);
    let base = base(cx, record);
    if bytes == 0 {
        return None;
    }
    cx.unit.memory.locate(base, bytes, write).ok()
}

/// Whether a lane's bytes lie in its scratch.
#[inline(always)]
fn inside(cx: &Cx<'_, '_>, offset: u32, bytes: usize) -> bool {
    u64::from(offset) + bytes as u64 <= u64::from(cx.wave.scratch_size)
}

/// Stops the wave at an access outside a lane's scratch.
#[cold]
#[inline(never)]
pub fn outside(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    access: &str,
    offset: u32,
    bytes: usize,
    lane: usize,
) -> Flow {
    let (size, base) = (cx.wave.scratch_size, base(cx, record));
    let what = format!(
        "scratch {access} of {bytes} bytes at offset {:#x} ({}) by lane {lane}: \
         the lane has {size} bytes (scratch of the wave at {base:#x})",
        offset, offset as i32
    );
    cx.fault(record, Cause::Illegal { what })
}

/// Where the byte at `offset` of a lane lies, relative to the wave's scratch.
#[inline(always)]
pub fn place(offset: u32, lane: usize, lanes: usize) -> usize {
    ((offset as usize >> 2) * lanes + lane) * 4 + (offset as usize & 3)
}

/// Whether data of `bytes` bytes at `offset` are made of whole words, or lie inside one.
#[inline(always)]
fn is_aligned(offset: u32, bytes: usize) -> bool {
    if bytes >= 4 {
        offset & 3 == 0
    } else {
        (offset & 3) as usize + bytes <= 4
    }
}

/// Loads lanes of `mask` from scratch.
#[inline(always)]
pub fn load<D: Load>(cx: &mut Cx<'_, '_>, record: &Record, offsets: &Offsets, mask: u64) -> Flow {
    let Some(first) = record.dst.vector() else {
        return Flow::Next;
    };
    let Some(p) = host(cx, record, false) else {
        return outside(
            cx,
            record,
            "load",
            offsets[mask.trailing_zeros() as usize % LANES],
            D::BYTES,
            mask.trailing_zeros() as usize,
        );
    };
    let lanes = cx.wave.lanes as usize;
    let rows = rows_to_write::<D>(cx, first);
    for lane in (0..LANES).filter(|l| mask >> l & 1 != 0) {
        let offset = offsets[lane];
        if !inside(cx, offset, D::BYTES) {
            return outside(cx, record, "load", offset, D::BYTES, lane);
        }
        // SAFETY: `host` vouches for the scratch of all lanes, and the lane's bytes are inside.
        unsafe {
            if is_aligned(offset, D::BYTES) {
                D::get(p.add(place(offset, lane, lanes)), 4 * lanes, &rows, lane);
            } else {
                let mut bytes = [0u8; 16];
                for (b, byte) in bytes[..D::BYTES].iter_mut().enumerate() {
                    *byte = p.add(place(offset + b as u32, lane, lanes)).read();
                }
                D::get(bytes.as_ptr(), 4, &rows, lane);
            }
        }
    }
    Flow::Next
}

/// Stores lanes of `mask` to scratch.
#[inline(always)]
pub fn store<D: Store>(cx: &mut Cx<'_, '_>, record: &Record, offsets: &Offsets, mask: u64) -> Flow {
    let Some(first) = record.src[2].vector() else {
        return Flow::Next;
    };
    let Some(p) = host(cx, record, true) else {
        return outside(
            cx,
            record,
            "store",
            offsets[mask.trailing_zeros() as usize % LANES],
            D::BYTES,
            mask.trailing_zeros() as usize,
        );
    };
    let lanes = cx.wave.lanes as usize;
    let rows = rows_to_read::<D>(cx, first);
    for lane in (0..LANES).filter(|l| mask >> l & 1 != 0) {
        let offset = offsets[lane];
        if !inside(cx, offset, D::BYTES) {
            return outside(cx, record, "store", offset, D::BYTES, lane);
        }
        // SAFETY: as in `load`, for writing.
        unsafe {
            if is_aligned(offset, D::BYTES) {
                D::put(p.add(place(offset, lane, lanes)), 4 * lanes, &rows, lane);
            } else {
                let mut bytes = [0u8; 16];
                D::put(bytes.as_mut_ptr(), 4, &rows, lane);
                for (b, &byte) in bytes[..D::BYTES].iter().enumerate() {
                    p.add(place(offset + b as u32, lane, lanes)).write(byte);
                }
            }
        }
    }
    Flow::Next
}

impl<D: Load> Body for ScratchLoad<D> {
    #[inline(always)]
    fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
        let mask = cx.wave.exec();
        if mask == 0 {
            return Flow::Next;
        }
        let (offsets, uniform) = offsets(cx, record);
        let offset = offsets[0];
        if uniform && offset & 3 == 0 && D::BYTES == 4 * D::WORDS && inside(cx, offset, D::BYTES) {
            let lanes = cx.wave.lanes as usize;
            if let (Some(first), Some(p)) = (record.dst.vector(), host(cx, record, false)) {
                let rows = rows_to_write::<D>(cx, first);
                for (j, &row) in rows[..D::WORDS].iter().enumerate() {
                    // SAFETY: the row of scratch words is inside what `host` vouches for.
                    unsafe {
                        let from = p.add(place(offset, 0, lanes) + j * 4 * lanes);
                        if mask == address::all_lanes(cx.wave.lanes) {
                            std::ptr::copy_nonoverlapping(from, row.cast::<u8>(), 4 * lanes);
                        } else {
                            for_lanes(mask, |l| {
                                row.add(l).write(from.cast::<u32>().add(l).read_unaligned())
                            });
                        }
                    }
                }
                return Flow::Next;
            }
        }
        load::<D>(cx, record, &offsets, mask)
    }
}

impl<D: Store> Body for ScratchStore<D> {
    #[inline(always)]
    fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
        let mask = cx.wave.exec();
        if mask == 0 {
            return Flow::Next;
        }
        let (offsets, uniform) = offsets(cx, record);
        let offset = offsets[0];
        if uniform && offset & 3 == 0 && D::BYTES == 4 * D::WORDS && inside(cx, offset, D::BYTES) {
            let lanes = cx.wave.lanes as usize;
            if let (Some(first), Some(p)) = (record.src[2].vector(), host(cx, record, true)) {
                let rows = rows_to_read::<D>(cx, first);
                for (j, &row) in rows[..D::WORDS].iter().enumerate() {
                    // SAFETY: as for loads, for writing.
                    unsafe {
                        let to = p.add(place(offset, 0, lanes) + j * 4 * lanes);
                        if mask == address::all_lanes(cx.wave.lanes) {
                            std::ptr::copy_nonoverlapping(row.cast::<u8>(), to, 4 * lanes);
                        } else {
                            for_lanes(mask, |l| {
                                to.cast::<u32>().add(l).write_unaligned(row.add(l).read())
                            });
                        }
                    }
                }
                return Flow::Next;
            }
        }
        store::<D>(cx, record, &offsets, mask)
    }
}

/// GPU address of a word of a lane's scratch, if it is inside.
pub fn word_address(cx: &Cx<'_, '_>, record: &Record, offset: u32, lane: usize) -> Option<u64> {
    let lanes = cx.wave.lanes as usize;
    inside(cx, offset, 4).then(|| base(cx, record).wrapping_add(place(offset, lane, lanes) as u64))
}

/// GPU addresses of the lanes' first bytes in scratch; an offset outside is an address that no
/// allocation has.
pub fn addresses(cx: &Cx<'_, '_>, record: &Record) -> address::Addresses {
    let (offsets, _) = offsets(cx, record);
    let (base, lanes) = (base(cx, record), cx.wave.lanes as usize);
    std::array::from_fn(|lane| {
        if inside(cx, offsets[lane], record.mem.datum.bytes() as usize) {
            base.wrapping_add(place(offsets[lane], lane, lanes) as u64)
        } else {
            0
        }
    })
}
