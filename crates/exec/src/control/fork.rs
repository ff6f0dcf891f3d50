//! gfx9's divergent branches, which keep the path not taken on a stack of SGPRs.
//! CDNA3 manual, "S_CBRANCH_I_FORK", "S_CBRANCH_G_FORK", "S_CBRANCH_JOIN".

use rocjitsu_isa::{Inst, Name, Op};

use crate::lower::Lowering;
use crate::record::{Class, Flow, Handler, Record};
use crate::wave::{Cx, scalar};

/// MODE.CSP: how many entries of four SGPRs the stack holds.
const CSP: u32 = 29;

/// Lowers a fork or join. `src[0]` is the mask, `src[1]` or `imm` the address.
pub fn lower(inst: &Inst, pc: u64, lowering: &Lowering) -> Option<Record> {
    let (handler, mask): (Handler, Name) = match inst.op() {
        Op::s_cbranch_i_fork => (|cx, r| fork(cx, r, r.imm as u64), Name::sdst),
        Op::s_cbranch_g_fork => (|cx, r| fork(cx, r, cx.get64(r.src[1])), Name::src0),
        Op::s_cbranch_join => (join, Name::src0),
        _ => return None,
    };
    let mut record = Record::new(*inst, pc, Class::Control, handler);
    record.ends_block = true;
    record.src[0] = lowering.source(inst, mask)?;
    record.src[1] = lowering.source(inst, Name::src1).unwrap_or_default();
    let offset = inst.field(Name::simm16).unwrap_or(0) as u16 as i16;
    record.imm = record.next_pc.wrapping_add_signed(i64::from(offset) * 4) as i64;
    Some(record)
}

fn fork(cx: &mut Cx<'_, '_>, record: &Record, target: u64) -> Flow {
    let (mask, exec) = (cx.get64(record.src[0]), cx.wave.s64(scalar::EXEC));
    let (pass, fail) = (mask & exec, !mask & exec);
    let (exec, pc, later) = if pass == exec {
        (exec, target, None)
    } else if fail == exec {
        (exec, record.next_pc, None)
    } else if fail.count_ones() < pass.count_ones() {
        (fail, record.next_pc, Some((target, pass)))
    } else {
        (pass, target, Some((record.next_pc, fail)))
    };
    if let Some((address, lanes)) = later {
        let csp = cx.wave.mode >> CSP;
        // At most 7 * 4 + 4 registers.
        cx.wave.set_s64(4 * csp as usize, lanes);
        cx.wave.set_s64(4 * csp as usize + 2, address);
        set_csp(cx, csp + 1);
    }
    cx.wave.set_s64(scalar::EXEC, exec);
    cx.wave.pc = pc;
    Flow::Jump
}

fn join(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let csp = cx.wave.mode >> CSP;
    if csp == cx.get32(record.src[0]) {
        return Flow::Next;
    }
    let csp = csp.wrapping_sub(1) & 7;
    set_csp(cx, csp);
    let (lanes, address) = (
        cx.wave.s64(4 * csp as usize),
        cx.wave.s64(4 * csp as usize + 2),
    );
    cx.wave.set_s64(scalar::EXEC, lanes);
    cx.wave.pc = address & !3;
    Flow::Jump
}

fn set_csp(cx: &mut Cx<'_, '_>, csp: u32) {
    cx.wave.mode = cx.wave.mode & !(7 << CSP) | (csp & 7) << CSP;
}
