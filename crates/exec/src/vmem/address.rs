//! Addresses of a memory instruction's lanes, for global, flat and scratch instructions.
//! Manuals: chapter on flat memory instructions, section "Addressing".

use super::{Form, LANES};
use crate::error::Cause;
use crate::memory::FaultKind;
use crate::record::{Flow, Record};
use crate::wave::Cx;

/// One 64-bit address for each lane; those of inactive lanes have no meaning.
pub type Addresses = [u64; LANES];

/// Calls `f` with each lane of a mask, in ascending order.
#[inline(always)]
pub fn for_lanes(mask: u64, mut f: impl FnMut(usize)) {
    let mut left = mask;
    while left != 0 {
        f(left.trailing_zeros() as usize);
        left &= left - 1;
    }
}

/// The mask of all lanes of a wave.
#[inline(always)]
pub fn all_lanes(lanes: u32) -> u64 {
    if lanes == 64 { !0 } else { 0xffff_ffff }
}

/// Whether the lanes' words are `first + lane * step`, and do not run past 2^32 with `bytes` behind each.
/// A loop over all lanes without an early end, which compiles to whole vectors.
#[inline(always)]
pub fn is_run(row: &[u32], step: u32, bytes: u32) -> bool {
    let first = row[0];
    let (mut want, mut different) = (first, 0);
    for &w in row {
        different |= w ^ want;
        want = want.wrapping_add(step);
    }
    let last = u64::from(first) + u64::from(step) * (row.len() as u64 - 1) + u64::from(bytes);
    different == 0 && last <= 1 << 32
}

/// Whether all lanes hold the same word.
#[inline(always)]
pub fn is_uniform(row: &[u32]) -> bool {
    let first = row[0];
    row.iter().fold(0, |different, &w| different | w ^ first) == 0
}

/// The scalar part of a global address: base and immediate offset.
#[inline(always)]
fn scalar_base(cx: &Cx<'_, '_>, record: &Record) -> u64 {
    cx.get64(record.src[1]).wrapping_add_signed(record.imm)
}

/// The address of lane 0 if all lanes are active and their data of `bytes` bytes lie one behind the other.
#[inline(always)]
pub fn contiguous(cx: &Cx<'_, '_>, record: &Record, bytes: u32) -> Option<u64> {
    if cx.wave.exec() != all_lanes(cx.wave.lanes) {
        return None;
    }
    let first = record.src[0].vector()?;
    let low = cx.wave.v.read(first);
    match record.mem.form {
        Form::Vector64 => {
            let high = cx.wave.v.read(first + 1);
            let found = is_run(low, bytes, bytes) && is_uniform(high);
            let base = u64::from(high[0]) << 32 | u64::from(low[0]);
            found.then(|| base.wrapping_add_signed(record.imm))
        }
        Form::Scalar64 => {
            let step = bytes / record.mem.scale;
            if step * record.mem.scale != bytes || !is_run(low, step, bytes) {
                return None;
            }
            // A run that passes 2^31 is no run for signed offsets.
            let signed =
                record.mem.signed && low[0].wrapping_add(step * cx.wave.lanes) > i32::MAX as u32;
            let offset = u64::from(low[0]) * u64::from(record.mem.scale);
            (!signed).then(|| scalar_base(cx, record).wrapping_add(offset))
        }
        _ => None,
    }
}

/// The addresses of all lanes of a global or flat instruction.
#[inline(always)]
pub fn global(cx: &Cx<'_, '_>, record: &Record) -> Addresses {
    let mut out = [0; LANES];
    let first = record.src[0].vector().unwrap_or(0);
    match record.mem.form {
        Form::Vector64 => {
            let (low, high) = (cx.wave.v.read(first), cx.wave.v.read(first + 1));
            for ((a, &l), &h) in out.iter_mut().zip(low).zip(high) {
                *a = (u64::from(h) << 32 | u64::from(l)).wrapping_add_signed(record.imm);
            }
        }
        Form::Scalar64 => {
            let (base, scale) = (scalar_base(cx, record), record.mem.scale);
            if record.mem.signed {
                for (a, &v) in out.iter_mut().zip(cx.wave.v.read(first)) {
                    *a = base.wrapping_add_signed(i64::from(v as i32) * i64::from(scale));
                }
            } else {
                for (a, &v) in out.iter_mut().zip(cx.wave.v.read(first)) {
                    *a = base.wrapping_add(u64::from(v) * u64::from(scale));
                }
            }
        }
        // Thread id times 4 behind a scalar base (GLOBAL_*_ADDTID); scratch and buffers have their own.
        _ => {
            let base = scalar_base(cx, record);
            for (l, a) in out.iter_mut().enumerate() {
                *a = base.wrapping_add(4 * l as u64);
            }
        }
    }
    out
}

/// Least and greatest address of the active lanes. The mask must not be empty.
#[inline(always)]
pub fn span(addresses: &Addresses, mask: u64) -> (u64, u64) {
    let first = addresses[mask.trailing_zeros() as usize % LANES];
    let (mut low, mut high) = (first, first);
    if mask == !0 {
        for &a in addresses {
            low = low.min(a);
            high = high.max(a);
        }
    } else {
        for (l, &a) in addresses.iter().enumerate() {
            let a = if mask >> l & 1 != 0 { a } else { first };
            low = low.min(a);
            high = high.max(a);
        }
    }
    (low, high)
}

/// Stops the wave at an access that failed.
#[cold]
#[inline(never)]
pub fn fault(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    access: &'static str,
    bytes: usize,
    address: u64,
    lane: usize,
    kind: FaultKind,
) -> Flow {
    let near = cx.unit.memory.near(address);
    let (bytes, lane) = (bytes as u32, lane as u32);
    cx.fault(
        record,
        Cause::Memory {
            access,
            bytes,
            address,
            lane: Some(lane),
            kind,
            near,
        },
    )
}
