//! MODE: rounding and denormal modes set by immediates.

use rocjitsu_isa::{Inst, Name, Op};

use crate::lower::Lowering;
use crate::record::{Class, Flow, Handler, Record};
use crate::wave::{Cx, mode};

/// Lowers `s_round_mode` and `s_denorm_mode`. `imm` is the four bits.
pub fn lower(inst: &Inst, pc: u64, _: &Lowering) -> Option<Record> {
    let handler: Handler = match inst.op() {
        Op::s_round_mode => |cx, r| set(cx, r, mode::ROUND),
        Op::s_denorm_mode => |cx, r| set(cx, r, mode::DENORM),
        _ => return None,
    };
    let mut record = Record::new(*inst, pc, Class::Control, handler);
    record.ends_block = true;
    record.imm = i64::from(inst.field(Name::simm16)? & 0xf);
    Some(record)
}

fn set(cx: &mut Cx<'_, '_>, record: &Record, shift: u32) -> Flow {
    cx.wave.mode = cx.wave.mode & !(0xf << shift) | (record.imm as u32) << shift;
    Flow::Next
}
