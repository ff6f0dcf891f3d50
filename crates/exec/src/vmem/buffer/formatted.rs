//! Loads and stores of formatted buffer data: `buffer_*_format_*` with the descriptor's format,
//! `tbuffer_*` with the instruction's.

use rocjitsu_isa::{Inst, Name};

use super::descriptor::{Buffer, Position, Rules};
use super::format::Format;
use super::{descriptor, positions};
use crate::error::Cause;
use crate::lds::access as lds;
use crate::lower::Lowering;
use crate::record::{Flow, Handler, Record};
use crate::target::TargetFacts;
use crate::vmem::LANES;
use crate::vmem::address;
use crate::vmem::half::{f16_to_f32, f32_to_f16};
use crate::vmem::to_lds::{inside_lds, m0_place};
use crate::wave::Cx;

/// What the instruction moves, packed into `record.imm2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    /// 1 to 4 components.
    components: u32,
    /// 16-bit components, two in a register.
    d16: bool,
    /// The one component is in the high half.
    high: bool,
    /// The format is the instruction's.
    typed: bool,
    /// Loads of half a register write zero to the other half.
    zeroes: bool,
}

impl Shape {
    fn pack(self) -> i64 {
        let bits = [self.d16, self.high, self.typed, self.zeroes];
        i64::from(self.components)
            | bits
                .iter()
                .enumerate()
                .map(|(i, &b)| i64::from(b) << (4 + i))
                .sum::<i64>()
    }
    fn of(record: &Record) -> Shape {
        let bit = |n: u32| record.imm2 >> n & 1 != 0;
        Shape {
            components: record.imm2 as u32 & 7,
            d16: bit(4),
            high: bit(5),
            typed: bit(6),
            zeroes: bit(7),
        }
    }
}

/// The handler of a formatted access; `name` is without `buffer_` or `tbuffer_`.
pub fn lower(
    inst: &Inst,
    name: &str,
    typed: bool,
    record: &mut Record,
    lowering: &Lowering,
) -> Option<Handler> {
    let (store, rest) = match name.strip_prefix("load_") {
        Some(rest) => (false, rest),
        None => (true, name.strip_prefix("store_")?),
    };
    let d16 = rest.contains("d16");
    let high = rest.contains("d16_hi");
    if !rest.contains("format") {
        return None;
    }
    let components = match rest.rsplit('_').next()? {
        "x" => 1,
        "xy" => 2,
        "xyz" => 3,
        "xyzw" => 4,
        _ => return None,
    };
    if typed {
        record.mem.format = inst.field(Name::format)? as u8;
        // Codes that mean nothing stop here; the invalid format 0 is an unbound buffer.
        if format_of(record.mem.rules, record.mem.format).is_none() && record.mem.format & 0x7f != 0
        {
            return None;
        }
    }
    let zeroes = lowering.target.d16_clears_rest();
    record.imm2 = Shape {
        components,
        d16,
        high,
        typed,
        zeroes,
    }
    .pack();
    if !store {
        record.dst = record.src[2];
    }
    Some(if store { store_run } else { load_run })
}

/// The format of a code: CDNA has the number format above the data format in instructions.
fn format_of(rules: Rules, code: u8) -> Option<Format> {
    match rules {
        Rules::Cdna => Format::cdna(code & 15, code >> 4 & 7),
        _ => Format::unified(code),
    }
}

/// The code of the format in use.
fn code(record: &Record, buffer: &Buffer) -> u8 {
    if Shape::of(record).typed {
        record.mem.format
    } else if record.mem.rules == Rules::Cdna {
        buffer.format >> 3 | (buffer.format & 7) << 4
    } else {
        buffer.format
    }
}

/// Bytes of a lane's data in memory; `None` for an unbound buffer or a code without a format.
pub fn bytes(record: &Record, buffer: &Buffer) -> Option<usize> {
    format_of(record.mem.rules, code(record, buffer)).map(Format::bytes)
}

/// The format in use, `None` for an unbound buffer.
fn format(cx: &mut Cx<'_, '_>, record: &Record, buffer: &Buffer) -> Result<Option<Format>, Flow> {
    let code = code(record, buffer);
    let unbound = if record.mem.rules == Rules::Cdna {
        code & 15 == 0
    } else {
        code == 0
    };
    match format_of(record.mem.rules, code) {
        Some(f) => Ok(Some(f)),
        None if unbound => Ok(None),
        None => {
            let what = format!("buffer format {code:#x} in {}", record.inst.op().name());
            Err(cx.fault(record, Cause::Unsupported { what }))
        }
    }
}

/// The destination selects of a descriptor applied to components.
fn select(buffer: &Buffer, values: [u32; 4], one: u32) -> [u32; 4] {
    std::array::from_fn(|i| match buffer.dst_sel >> (3 * i) & 7 {
        1 => one,
        c @ 4..=7 => values[usize::from(c - 4)],
        _ => 0,
    })
}

fn load_run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let shape = Shape::of(record);
    let buffer = descriptor(cx, record, true);
    let format = match format(cx, record, &buffer) {
        Ok(f) => f,
        Err(flow) => return flow,
    };
    let at = positions(cx, record);
    let exec = cx.wave.exec();
    let Some(dst) = record.dst.vector() else {
        return Flow::Next;
    };
    for lane in (0..LANES).filter(|l| exec >> l & 1 != 0) {
        let values = match components(cx, record, &buffer, format, at[lane], lane) {
            Ok(values) => values,
            Err(flow) => return flow,
        };
        let integer = format.is_some_and(Format::is_integer);
        give(cx, dst, lane, shape, values, integer);
    }
    Flow::Next
}

/// `buffer_load_format_x` with LDS: one word of each lane to M0 plus offset plus four times the lane.
pub fn to_lds(record: &mut Record, target: rocjitsu_isa::Target) {
    record.imm2 = Shape {
        components: 1,
        d16: false,
        high: false,
        typed: false,
        zeroes: target.d16_clears_rest(),
    }
    .pack();
    record.run = load_to_lds;
}

fn load_to_lds(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let buffer = descriptor(cx, record, true);
    let format = match format(cx, record, &buffer) {
        Ok(f) => f,
        Err(flow) => return flow,
    };
    let at = positions(cx, record);
    let (to, step) = m0_place(cx, record);
    let address = |lane: usize| to.wrapping_add(step * lane as u32);
    let exec = inside_lds(cx, address);
    for lane in (0..LANES).filter(|l| exec >> l & 1 != 0) {
        let values = match components(cx, record, &buffer, format, at[lane], lane) {
            Ok(values) => values,
            Err(flow) => return flow,
        };
        lds::write(&cx.group.lds, address(lane), &values[0].to_le_bytes());
    }
    Flow::Next
}

/// The components that a lane loads, destination selects applied. In range as a whole or not at all; out of range
/// every component but a selected one is zero, and so is everything of an unbound buffer.
fn components(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    buffer: &Buffer,
    format: Option<Format>,
    at: Position,
    lane: usize,
) -> Result<[u32; 4], Flow> {
    let Some(format) = format else {
        return Ok([0; 4]);
    };
    let mut raw = [0; 4];
    if buffer.in_range(at, 0, format.bytes() as u64) {
        let from = buffer.address(at, 0);
        raw = format.unpack(fetch(cx, record, from, lane, format.bytes())?);
    }
    Ok(select(buffer, raw, format.one()))
}

fn fetch(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    from: u64,
    lane: usize,
    bytes: usize,
) -> Result<[u8; 16], Flow> {
    let mut out = [0; 16];
    match cx.unit.memory.locate(from, bytes as u64, false) {
        // SAFETY: `locate` vouches for the bytes; a format has at most sixteen.
        Ok(p) => unsafe { std::ptr::copy_nonoverlapping(p.cast_const(), out.as_mut_ptr(), bytes) },
        Err(kind) => return Err(address::fault(cx, record, "load", bytes, from, lane, kind)),
    }
    Ok(out)
}

/// Writes a lane's components to registers.
fn give(cx: &mut Cx<'_, '_>, dst: u32, lane: usize, shape: Shape, values: [u32; 4], integer: bool) {
    let count = shape.components as usize;
    let mut write = |r: u32, keep: u32, word: u32| {
        let at = &mut cx.wave.v.write(dst + r, &mut cx.unit.pool)[lane];
        *at = *at & keep | word;
    };
    if !shape.d16 {
        for (j, &v) in values[..count].iter().enumerate() {
            write(j as u32, 0, v);
        }
        return;
    }
    let half = |v: u32| {
        u32::from(if integer {
            v as u16
        } else {
            f32_to_f16(f32::from_bits(v))
        })
    };
    for (j, pair) in values[..count].chunks(2).enumerate() {
        match (pair, shape.high) {
            (&[x], true) => write(0, if shape.zeroes { 0 } else { 0xffff }, half(x) << 16),
            (&[x], false) => write(
                j as u32,
                if shape.zeroes { 0 } else { 0xffff_0000 },
                half(x),
            ),
            (pair, _) => write(j as u32, 0, half(pair[0]) | half(pair[1]) << 16),
        }
    }
}

fn store_run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let shape = Shape::of(record);
    let buffer = descriptor(cx, record, true);
    let format = match format(cx, record, &buffer) {
        Ok(Some(f)) => f,
        Ok(None) => return Flow::Next,
        Err(flow) => return flow,
    };
    let at = positions(cx, record);
    let exec = cx.wave.exec();
    let Some(src) = record.src[2].vector() else {
        return Flow::Next;
    };
    let bytes = format.bytes();
    for lane in (0..LANES).filter(|l| exec >> l & 1 != 0) {
        if !buffer.in_range(at[lane], 0, bytes as u64) {
            continue;
        }
        let mut values = [0; 4];
        for (j, v) in values[..shape.components as usize].iter_mut().enumerate() {
            let register = |r: usize| cx.wave.v.read(src + r as u32)[lane];
            *v = if shape.d16 {
                let shift = if shape.high || j % 2 == 1 { 16 } else { 0 };
                let half = (register(j / 2) >> shift) as u16;
                match format.is_integer() {
                    true if format.number == super::format::Number::Sint => half as i16 as u32,
                    true => u32::from(half),
                    false => f16_to_f32(half).to_bits(),
                }
            } else {
                register(j)
            };
        }
        let data = format.pack(values);
        let to = buffer.address(at[lane], 0);
        if let Err(kind) = cx.unit.memory.store(to, &data[..bytes]) {
            return address::fault(cx, record, "store", bytes, to, lane, kind);
        }
    }
    Flow::Next
}
