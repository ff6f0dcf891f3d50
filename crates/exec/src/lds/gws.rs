//! `ds_gws_*`: global wave sync ([`crate::gws`]). These instructions have no address: the resource is
//! (M0\[21:16\] + offset) modulo 64, the count that of the first active lane.

use rocjitsu_isa::{Inst, Name, Op};

use crate::gws::Wait;
use crate::lower::Lowering;
use crate::record::{Class, Flow, Handler, Record};
use crate::wave::{Cx, Waiting, scalar};

/// Lowers an instruction of this module. `src[0]` has the count, `imm` the offset of the resource.
pub fn lower(inst: &Inst, pc: u64, lowering: &Lowering) -> Option<Record> {
    let (handler, waits): (Handler, bool) = match inst.op() {
        Op::ds_gws_init => (init, false),
        Op::ds_gws_sema_v => (sema_v, false),
        Op::ds_gws_sema_br => (sema_br, false),
        Op::ds_gws_sema_release_all => (release_all, false),
        Op::ds_gws_sema_p => (sema_p, true),
        Op::ds_gws_barrier => (barrier, true),
        _ => return None,
    };
    let mut record = Record::new(*inst, pc, Class::Lds, handler);
    record.ends_block = waits;
    record.src[0] = lowering.source(inst, Name::data0).unwrap_or_default();
    record.imm = i64::from(inst.field(Name::offset).unwrap_or(0) & 0x3f);
    Some(record)
}

fn resource(cx: &Cx<'_, '_>, record: &Record) -> u8 {
    (cx.wave.s[scalar::M0] >> 16).wrapping_add(record.imm as u32) as u8 & 0x3f
}

/// The word of the first active lane; lane 0 if none is (RDNA3 manual, 13.4.2).
fn count(cx: &Cx<'_, '_>, record: &Record) -> u32 {
    let exec = cx.wave.exec();
    let lane = if exec == 0 { 0 } else { exec.trailing_zeros() };
    let register = record.src[0].vector().unwrap_or(0);
    cx.wave
        .v
        .read(register)
        .get(lane as usize)
        .copied()
        .unwrap_or(0)
}

fn wait(cx: &mut Cx<'_, '_>, wait: Option<Wait>) -> Flow {
    match wait {
        None => Flow::Next,
        Some(wait) => {
            cx.wave.waiting = Waiting::Gws(wait);
            Flow::Wait
        }
    }
}

fn init(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    cx.unit.gws.init(resource(cx, record), count(cx, record));
    Flow::Next
}

fn sema_br(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    cx.unit.gws.release(resource(cx, record), count(cx, record));
    Flow::Next
}

fn barrier(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let found = cx.unit.gws.barrier(resource(cx, record), count(cx, record));
    wait(cx, found)
}

/// The operations without a count do nothing when no lane is active (RDNA3 manual, 13.4.2).
fn sema_v(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    if cx.wave.exec() != 0 {
        cx.unit.gws.release(resource(cx, record), 1);
    }
    Flow::Next
}

fn release_all(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    if cx.wave.exec() != 0 {
        cx.unit.gws.release_all(resource(cx, record));
    }
    Flow::Next
}

fn sema_p(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    if cx.wave.exec() == 0 {
        return Flow::Next;
    }
    let found = cx.unit.gws.acquire(resource(cx, record));
    wait(cx, found)
}
