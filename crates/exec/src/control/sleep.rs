//! Sleeping: the wave gives up its turn.

use rocjitsu_isa::{Inst, Name, Op};

use crate::lower::Lowering;
use crate::record::{Class, Flow, Handler, Record};
use crate::wave::{Cx, Waiting};

/// Lowers `s_sleep`, `s_sleep_var`, `s_monitor_sleep`. `imm` is the duration; how long a turn of the
/// others takes does not depend on it.
pub fn lower(inst: &Inst, pc: u64, lowering: &Lowering) -> Option<Record> {
    let handler: Handler = match inst.op() {
        Op::s_sleep | Op::s_monitor_sleep => |cx, r| sleep(cx, r.imm as u32),
        Op::s_sleep_var => |cx, r| sleep(cx, cx.get32(r.src[0]) & 0x7f),
        _ => return None,
    };
    let mut record = Record::new(*inst, pc, Class::Control, handler);
    record.ends_block = true;
    record.src[0] = lowering.source(inst, Name::src0).unwrap_or_default();
    record.imm = i64::from(inst.field(Name::simm16).unwrap_or(0));
    Some(record)
}

fn sleep(cx: &mut Cx<'_, '_>, duration: u32) -> Flow {
    if duration == 0 {
        return Flow::Next;
    }
    cx.wave.waiting = Waiting::Turn;
    Flow::Wait
}
