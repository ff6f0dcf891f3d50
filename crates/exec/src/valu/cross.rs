//! Vector instructions that cross lanes or leave the vector registers: readlane, writelane, permlane.

use rocjitsu_isa::{Inst, Name, Op};

use crate::lower::Lowering;
use crate::record::{Class, Flow, Operand, Record};
use crate::wave::Cx;

/// Lowers an instruction of this module.
pub fn lower(inst: &Inst, pc: u64, lowering: &Lowering) -> Option<Record> {
    let handler = match inst.op() {
        Op::v_nop => nop,
        Op::v_readfirstlane_b32 => readfirstlane,
        Op::v_readlane_b32 => readlane,
        _ => return None,
    };
    let mut record = Record::new(*inst, pc, Class::Valu, handler);
    if inst.op() != Op::v_nop {
        record.dst = lowering.dest(inst, Name::vdst)?;
        record.src[0] = lowering.banked(lowering.source(inst, Name::src0)?, 0);
        record.src[1] = lowering.source(inst, Name::src1).unwrap_or_default();
    }
    Some(record)
}

fn nop(_: &mut Cx<'_, '_>, _: &Record) -> Flow {
    Flow::Next
}

/// Reads a lane of a vector or scalar operand.
fn lane_of(cx: &Cx<'_, '_>, operand: Operand, lane: u32) -> u32 {
    match operand {
        Operand::Vector(r) => cx.wave.v.read(u32::from(r))[(lane % cx.wave.lanes) as usize],
        other => cx.get32(other),
    }
}

/// The lowest active lane, or lane 0 if none is active.
fn readfirstlane(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let exec = cx.wave.exec();
    let lane = if exec == 0 { 0 } else { exec.trailing_zeros() };
    let value = lane_of(cx, record.src[0], lane);
    cx.set32(record.dst, value);
    Flow::Next
}

fn readlane(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let lane = cx.get32(record.src[1]);
    let value = lane_of(cx, record.src[0], lane);
    cx.set32(record.dst, value);
    Flow::Next
}
