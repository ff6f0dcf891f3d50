//! LDS instructions with an address that lanes share: lane-numbered access, append and consume,
//! direct loads.

use rocjitsu_isa::{Inst, Name, Op, Target};

use super::access::{self, Outside};
use super::atomic;
use crate::lower::Lowering;
use crate::record::{Class, Flow, Handler, Record};
use crate::vmem::address::for_lanes;
use crate::vmem::datum::Words;
use crate::wave::{Cx, scalar};

/// The handler of a DS instruction of this module, by its name without `ds_`.
pub fn lower(name: &str) -> Option<Handler> {
    Some(match name {
        "read_addtid_b32" | "load_addtid_b32" => load_by_lane,
        "write_addtid_b32" | "store_addtid_b32" => store_by_lane,
        "append" => |cx, r| count(cx, r, u32::wrapping_add),
        "consume" => |cx, r| count(cx, r, u32::wrapping_sub),
        _ => return None,
    })
}

/// Lowers `lds_direct_load` and `ds_direct_load`.
pub fn direct(inst: &Inst, pc: u64, lowering: &Lowering) -> Option<Record> {
    if !matches!(inst.op(), Op::lds_direct_load | Op::ds_direct_load) {
        return None;
    }
    let mut record = Record::new(*inst, pc, Class::Lds, direct_load);
    record.dst = lowering.dest(inst, Name::vdst)?;
    record.dst.vector()?;
    Some(record)
}

/// M0 as an LDS address: 16 bits where the allocation cannot be larger.
fn base(cx: &Cx<'_, '_>) -> u32 {
    let m0 = cx.wave.s[scalar::M0];
    if matches!(cx.unit.target, Target::Gfx950 | Target::Gfx1250) {
        m0 & 0xf_ffff
    } else {
        m0 & 0xffff
    }
}

/// Address of each lane: M0, the offset, and four times the lane. M0 has 20 bits of it on gfx1250 (CDNA5 manual,
/// DS_LOAD_ADDTID_B32: `M0[19 : 0]`), 16 elsewhere, on gfx950 as well (CDNA4 manual, DS_READ_ADDTID_B32).
pub fn by_lane(cx: &Cx<'_, '_>, record: &Record) -> access::Addresses {
    let bits = if cx.unit.target == Target::Gfx1250 {
        0xf_ffff
    } else {
        0xffff
    };
    let base = (cx.wave.s[scalar::M0] & bits).wrapping_add(record.imm as u32);
    std::array::from_fn(|lane| base.wrapping_add(4 * lane as u32))
}

fn load_by_lane(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let (at, exec) = (by_lane(cx, record), cx.wave.exec());
    let outside = Outside::of_ds(cx.unit.target);
    match record.dst.vector() {
        Some(first) => access::load::<Words<1>>(cx, record, first, &at, exec, outside),
        None => Flow::Next,
    }
}

fn store_by_lane(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let (at, exec) = (by_lane(cx, record), cx.wave.exec());
    let outside = Outside::of_ds(cx.unit.target);
    match record.src[2].vector() {
        Some(first) => access::store::<Words<1>>(cx, record, first, &at, exec, outside),
        None => Flow::Next,
    }
}

/// The LDS address of a counter: M0 plus the offset.
pub fn shared_address(cx: &Cx<'_, '_>, record: &Record) -> u32 {
    base(cx).wrapping_add(record.imm as u32) & !3
}

/// Adds or subtracts the number of active lanes at M0 plus offset; all active lanes get the old value.
/// LLVM gives M0 the counter's LDS address (`selectDSAppendConsume`).
fn count(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u32, u32) -> u32) -> Flow {
    let exec = cx.wave.exec();
    if exec == 0 {
        return Flow::Next;
    }
    let at = shared_address(cx, record);
    let old = atomic::update::<u32>(cx.group, at, |old| f(old, exec.count_ones()));
    if old.is_none() && Outside::of_ds(cx.unit.target).stops(at) {
        return access::fault(cx, record, at, 4, exec.trailing_zeros() as usize);
    }
    let old = old.unwrap_or_default();
    if let Some(dst) = record.dst.vector() {
        let row = cx.wave.v.write(dst, &mut cx.unit.pool);
        for_lanes(exec, |lane| row[lane] = old);
    }
    Flow::Next
}

/// One value of LDS for all lanes; EXEC counts for groups of four lanes (RDNA3 manual, 12.4).
fn direct_load(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let m0 = cx.wave.s[scalar::M0];
    let size = match m0 >> 16 & 7 {
        0 | 4 => 1,
        1 | 5 => 2,
        _ => 4,
    };
    let exec = cx.wave.exec();
    if exec == 0 {
        return Flow::Next;
    }
    let (at, outside) = (m0 & 0xffff, Outside::of_ds(cx.unit.target));
    let Some(bytes) = access::read(&cx.group.lds, at, size, outside) else {
        return access::fault(cx, record, at, size, exec.trailing_zeros() as usize);
    };
    let value = match m0 >> 16 & 7 {
        0 => u32::from(bytes[0]),
        1 => u32::from(u16::from_le_bytes([bytes[0], bytes[1]])),
        4 => bytes[0] as i8 as u32,
        5 => i16::from_le_bytes([bytes[0], bytes[1]]) as u32,
        _ => u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
    };
    if let Some(dst) = record.dst.vector() {
        let row = cx.wave.v.write(dst, &mut cx.unit.pool);
        for (lane, word) in row.iter_mut().enumerate() {
            if exec >> (lane & !3) & 15 != 0 {
                *word = value;
            }
        }
    }
    Flow::Next
}
