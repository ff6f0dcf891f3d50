//! Branches, jumps, calls, reading the program counter.

use rocjitsu_isa::{Inst, Name, Op};

use crate::lower::Lowering;
use crate::record::{Class, Flow, Handler, Record};
use crate::wave::{Cx, scalar};

/// Lowers a branch. `imm` is the address it goes to.
pub fn lower(inst: &Inst, pc: u64, lowering: &Lowering) -> Option<Record> {
    let handler: Handler = match inst.op() {
        Op::s_branch => |cx, r| take(cx, r, true),
        Op::s_cbranch_scc0 => |cx, r| take(cx, r, !cx.wave.scc),
        Op::s_cbranch_scc1 => |cx, r| take(cx, r, cx.wave.scc),
        Op::s_cbranch_vccz => |cx, r| take(cx, r, cx.wave.vcc() == 0),
        Op::s_cbranch_vccnz => |cx, r| take(cx, r, cx.wave.vcc() != 0),
        Op::s_cbranch_execz => |cx, r| take(cx, r, cx.wave.exec() == 0),
        Op::s_cbranch_execnz => |cx, r| take(cx, r, cx.wave.exec() != 0),
        // STATUS.COND_DBG_SYS and COND_DBG_USER are never set here.
        Op::s_cbranch_cdbgsys
        | Op::s_cbranch_cdbguser
        | Op::s_cbranch_cdbgsys_or_user
        | Op::s_cbranch_cdbgsys_and_user => |cx, r| take(cx, r, false),
        Op::s_getpc_b64 | Op::s_get_pc_i64 => |cx, r| {
            cx.set64(r.dst, r.next_pc);
            Flow::Next
        },
        Op::s_setpc_b64 | Op::s_set_pc_i64 => |cx, r| jump(cx, r, cx.get64(r.src[0])),
        Op::s_add_pc_i64 => |cx, r| jump(cx, r, r.next_pc.wrapping_add(cx.get64(r.src[0]))),
        Op::s_swappc_b64 | Op::s_swap_pc_i64 => |cx, r| {
            let target = cx.get64(r.src[0]);
            cx.set64(r.dst, r.next_pc);
            jump(cx, r, target)
        },
        Op::s_call_b64 | Op::s_call_i64 => |cx, r| {
            cx.set64(r.dst, r.next_pc);
            jump(cx, r, r.imm as u64)
        },
        Op::s_subvector_loop_begin => subvector_loop_begin,
        Op::s_subvector_loop_end => subvector_loop_end,
        _ => return None,
    };
    let mut record = Record::new(*inst, pc, Class::Control, handler);
    record.ends_block = !matches!(inst.op(), Op::s_getpc_b64 | Op::s_get_pc_i64);
    record.dst = lowering.dest(inst, Name::sdst).unwrap_or_default();
    record.src[0] = lowering.source(inst, Name::src0).unwrap_or_default();
    let offset = inst.field(Name::simm16).unwrap_or(0) as u16 as i16;
    record.imm = record.next_pc.wrapping_add_signed(i64::from(offset) * 4) as i64;
    Some(record)
}

#[inline(always)]
fn take(cx: &mut Cx<'_, '_>, record: &Record, taken: bool) -> Flow {
    if taken {
        cx.wave.pc = record.imm as u64;
        Flow::Jump
    } else {
        Flow::Next
    }
}

/// The low two bits of an address are ignored: instructions are words.
#[inline(always)]
fn jump(cx: &mut Cx<'_, '_>, _: &Record, target: u64) -> Flow {
    cx.wave.pc = target & !3;
    Flow::Jump
}

/// RDNA2 manual (SOPK 27; RDNA3 keeps the encoding): runs a block once for each half of EXEC. D keeps the half that
/// is not being run.
fn subvector_loop_begin(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let (low, high) = (cx.wave.s[scalar::EXEC], cx.wave.s[scalar::EXEC + 1]);
    if low == 0 && high == 0 {
        return take(cx, record, true);
    }
    if low == 0 {
        // Only the second half has lanes: skip the first pass.
        cx.set32(record.dst, low);
    } else {
        cx.set32(record.dst, high);
        cx.wave.s[scalar::EXEC + 1] = 0;
    }
    Flow::Next
}

/// RDNA2 manual (SOPK 28).
fn subvector_loop_end(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let saved = cx.get32(record.dst);
    if cx.wave.s[scalar::EXEC + 1] != 0 {
        cx.wave.s[scalar::EXEC] = saved;
        return Flow::Next;
    }
    if saved == 0 {
        return Flow::Next;
    }
    cx.wave.s[scalar::EXEC + 1] = saved;
    cx.set32(record.dst, cx.wave.s[scalar::EXEC]);
    cx.wave.s[scalar::EXEC] = 0;
    take(cx, record, true)
}
