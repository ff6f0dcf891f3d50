//! Program control (SOPP and its kin): ends, branches, waits, barriers, sleep.

use rocjitsu_isa::{Inst, Name, Op};

use crate::lower::Lowering;
use crate::record::{Class, Flow, Record};
use crate::wave::{Cx, Waiting};

/// Lowers an instruction of this module.
pub fn lower(inst: &Inst, pc: u64, _lowering: &mut Lowering) -> Option<Record> {
    let (handler, ends): (crate::record::Handler, bool) = match inst.op() {
        Op::s_nop
        | Op::s_waitcnt
        | Op::s_clause
        | Op::s_delay_alu
        | Op::s_wait_loadcnt
        | Op::s_wait_kmcnt
        | Op::s_wait_dscnt
        | Op::s_wait_storecnt
        | Op::s_waitcnt_vscnt
        | Op::s_waitcnt_depctr => (nop, false),
        Op::s_endpgm => (endpgm, true),
        Op::s_branch => (branch, true),
        Op::s_cbranch_scc0 => (cbranch_scc0, true),
        Op::s_cbranch_scc1 => (cbranch_scc1, true),
        Op::s_cbranch_vccz => (cbranch_vccz, true),
        Op::s_cbranch_vccnz => (cbranch_vccnz, true),
        Op::s_cbranch_execz => (cbranch_execz, true),
        Op::s_cbranch_execnz => (cbranch_execnz, true),
        _ => return None,
    };
    let mut record = Record::new(*inst, pc, Class::Control, handler);
    record.ends_block = ends;
    let offset = inst.field(Name::simm16).unwrap_or(0) as u16 as i16;
    record.imm = record.next_pc.wrapping_add_signed(i64::from(offset) * 4) as i64;
    Some(record)
}

fn nop(_: &mut Cx<'_, '_>, _: &Record) -> Flow {
    Flow::Next
}

fn endpgm(cx: &mut Cx<'_, '_>, _: &Record) -> Flow {
    cx.wave.waiting = Waiting::Ended;
    Flow::Wait
}

fn take(cx: &mut Cx<'_, '_>, record: &Record, taken: bool) -> Flow {
    if taken {
        cx.wave.pc = record.imm as u64;
        Flow::Jump
    } else {
        Flow::Next
    }
}

fn branch(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    take(cx, record, true)
}
fn cbranch_scc0(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let taken = !cx.wave.scc;
    take(cx, record, taken)
}
fn cbranch_scc1(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let taken = cx.wave.scc;
    take(cx, record, taken)
}
fn cbranch_vccz(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let taken = cx.wave.vcc() == 0;
    take(cx, record, taken)
}
fn cbranch_vccnz(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let taken = cx.wave.vcc() != 0;
    take(cx, record, taken)
}
fn cbranch_execz(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let taken = cx.wave.exec() == 0;
    take(cx, record, taken)
}
fn cbranch_execnz(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let taken = cx.wave.exec() != 0;
    take(cx, record, taken)
}
