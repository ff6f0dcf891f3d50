//! Scalar loads and stores.

use rocjitsu_isa::{Op, Target};

use super::{address, fault, words};
use crate::error::Cause;
use crate::memory::FaultKind;
use crate::record::{Flow, Operand, Record};
use crate::wave::{Cx, scalar};

/// Size of an access in bytes.
pub fn bytes(op: Op, words: u32) -> u32 {
    match op {
        Op::s_load_u8 | Op::s_load_i8 | Op::s_buffer_load_u8 | Op::s_buffer_load_i8 => 1,
        Op::s_load_u16 | Op::s_load_i16 | Op::s_buffer_load_u16 | Op::s_buffer_load_i16 => 2,
        _ => 4 * words,
    }
}

/// Whether data registers lie in one range: SGPRs (with VCC behind them from gfx11 on), VCC, trap
/// temporaries, FLAT_SCRATCH with XNACK_MASK, or nowhere (NULL).
pub fn fits(data: Operand, words: u32, target: Target) -> bool {
    let Operand::Scalar(first) = data else {
        return false;
    };
    let (first, words) = (usize::from(first), words as usize);
    let inside =
        |range: std::ops::Range<usize>| range.contains(&first) && first + words <= range.end;
    let sgprs = if target.is_cdna() {
        0..102
    } else {
        0..scalar::TTMP
    };
    inside(sgprs)
        || inside(scalar::VCC..scalar::TTMP)
        || inside(scalar::TTMP..scalar::NULL)
        || inside(scalar::FLAT_SCRATCH..scalar::XNACK_MASK + 2)
        || first == scalar::NULL
}

/// Data registers that leave their range. The hardware drops the access (CDNA3 manual 8.4, RDNA3 8.4.1);
/// no program wants that, so it is an error here.
pub fn out_of_range(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let what = format!(
        "{}: data registers out of range ({:?}, {} words)",
        record.inst.op().name(),
        record.dst,
        words(record)
    );
    cx.fault(record, Cause::Illegal { what })
}

/// Puts loaded words into registers. Trap temporaries and NULL are not written.
#[inline(always)]
fn put(cx: &mut Cx<'_, '_>, record: &Record, values: &[u32]) {
    let Operand::Scalar(first) = record.dst else {
        return;
    };
    let first = usize::from(first);
    if (scalar::TTMP..=scalar::NULL).contains(&first) {
        return;
    }
    if let Some(place) = cx.wave.s.get_mut(first..first + values.len()) {
        place.copy_from_slice(values);
    }
}

/// Reads words in a row; an error tells the address of the one that failed.
#[inline(always)]
fn read(cx: &mut Cx<'_, '_>, address: u64, values: &mut [u32]) -> Result<(), (u64, FaultKind)> {
    if cx.unit.memory.read_words(address, values).is_ok() {
        return Ok(());
    }
    for (i, value) in values.iter_mut().enumerate() {
        let at = address.wrapping_add(4 * i as u64);
        *value = cx.unit.memory.read_u32(at).map_err(|kind| (at, kind))?;
    }
    Ok(())
}

/// `s_load_*` of whole words.
pub fn load(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let address = address::plain(cx, record, 4);
    let mut values = [0; 16];
    let values = &mut values[..words(record).min(16)];
    match read(cx, address, values) {
        Ok(()) => put(cx, record, values),
        Err((at, kind)) => return fault(cx, record, "scalar load", 4, at, kind),
    }
    Flow::Next
}

/// `s_buffer_load_*` of whole words. Words behind the end of the buffer read as zero.
pub fn buffer_load(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let buffer = match buffer(cx, record, 4) {
        Ok(buffer) => buffer,
        Err(flow) => return flow,
    };
    let mut values = [0; 16];
    let values = &mut values[..words(record).min(16)];
    let inside = buffer
        .size
        .saturating_sub(buffer.offset)
        .div_ceil(4)
        .min(values.len() as u64) as usize;
    let address = buffer.base.wrapping_add(buffer.offset);
    match read(cx, address, &mut values[..inside]) {
        Ok(()) => put(cx, record, values),
        Err((at, kind)) => return fault(cx, record, "scalar buffer load", 4, at, kind),
    }
    Flow::Next
}

pub(super) fn buffer(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    align: u64,
) -> Result<address::Buffer, Flow> {
    let wide = cx.unit.target == Target::Gfx1250;
    address::buffer(cx, record, align, wide)
}

fn read_small<const N: usize>(cx: &mut Cx<'_, '_>, address: u64) -> Result<u32, FaultKind> {
    let bytes = cx.unit.memory.read::<N>(address)?;
    Ok(bytes
        .iter()
        .rev()
        .fold(0, |value, &b| value << 8 | u32::from(b)))
}

/// `s_load` of 8 or 16 bits.
#[inline(always)]
pub fn load_small<const N: usize>(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    extend: impl Fn(u32) -> u32,
) -> Flow {
    let address = address::plain(cx, record, N as u64);
    match read_small::<N>(cx, address) {
        Ok(value) => put(cx, record, &[extend(value)]),
        Err(kind) => return fault(cx, record, "scalar load", N as u32, address, kind),
    }
    Flow::Next
}

/// `s_buffer_load` of 8 or 16 bits.
#[inline(always)]
pub fn buffer_load_small<const N: usize>(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    extend: impl Fn(u32) -> u32,
) -> Flow {
    let buffer = match buffer(cx, record, N as u64) {
        Ok(buffer) => buffer,
        Err(flow) => return flow,
    };
    let address = buffer.base.wrapping_add(buffer.offset);
    let value = if buffer.offset < buffer.size {
        read_small::<N>(cx, address)
    } else {
        Ok(0)
    };
    match value {
        Ok(value) => put(cx, record, &[extend(value)]),
        Err(kind) => return fault(cx, record, "scalar buffer load", N as u32, address, kind),
    }
    Flow::Next
}

/// The words to store.
fn data(cx: &Cx<'_, '_>, record: &Record) -> [u32; 4] {
    let mut values = [0; 4];
    if let Operand::Scalar(first) = record.dst {
        let first = usize::from(first);
        if let Some(place) = cx.wave.s.get(first..first + 4) {
            values.copy_from_slice(place);
        }
    }
    values
}

fn write(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    access: &'static str,
    address: u64,
    count: usize,
) -> Flow {
    let values = data(cx, record);
    for (i, value) in values.iter().take(count).enumerate() {
        let at = address.wrapping_add(4 * i as u64);
        if let Err(kind) = cx.unit.memory.write(at, value.to_le_bytes()) {
            return fault(cx, record, access, 4, at, kind);
        }
    }
    Flow::Next
}

/// `s_store_*`, `s_scratch_store_*`.
pub fn store(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let address = address::plain(cx, record, 4);
    write(cx, record, "scalar store", address, words(record))
}

/// `s_buffer_store_*`. Words behind the end of the buffer are not stored.
pub fn buffer_store(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let buffer = match buffer(cx, record, 4) {
        Ok(buffer) => buffer,
        Err(flow) => return flow,
    };
    let inside = buffer
        .size
        .saturating_sub(buffer.offset)
        .div_ceil(4)
        .min(words(record) as u64) as usize;
    write(
        cx,
        record,
        "scalar buffer store",
        buffer.base.wrapping_add(buffer.offset),
        inside,
    )
}
