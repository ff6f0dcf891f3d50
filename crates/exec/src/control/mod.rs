//! Program control (SOPP and its kin): what does nothing here, ends, branches, barriers, modes, messages.
//!
//! Left without semantics, so that a wave that comes to one stops with an error that names it and says why
//! ([`crate::refusal`]): `s_rfe_*`, messages other than those in `message.rs`, hardware registers that the
//! target lacks. A wave that halts itself (`s_sethalt 1`, `s_sendmsghalt`) stops with an error too: only a
//! debugger or a trap handler resumes one, and here is neither.

mod barriers;
mod branch;
mod fork;
mod hwreg;
mod index;
mod message;
mod mode;
mod sleep;

use rocjitsu_isa::{Inst, Name, Op};

use crate::error::Cause;
use crate::lower::Lowering;
use crate::record::{Class, Flow, Handler, Record};
use crate::wave::{Cx, Waiting};

/// Lowers an instruction of this module.
pub fn lower(inst: &Inst, pc: u64, lowering: &mut Lowering) -> Option<Record> {
    let mut record = Record::new(*inst, pc, Class::Control, nop);
    let simm16 = inst.field(Name::simm16).unwrap_or(0);
    if is_nop(inst.op()) {
        return Some(record);
    }
    let (handler, ends): (Handler, bool) = match inst.op() {
        // `s_endpgm_saved` also tells that the wave's context was saved, which concerns nobody here; a killed
        // wave ends as if it had come to its end.
        Op::s_endpgm | Op::s_endpgm_ordered_ps_done | Op::s_endpgm_saved => (endpgm, true),
        Op::s_sethalt | Op::s_setkill if simm16 & 1 == 0 => (nop, false),
        Op::s_sethalt => (halt, true),
        Op::s_setkill => (endpgm, true),
        // 0 is the hardware's own, 3 is `llvm.debugtrap`: the trap handler of the runtime returns from it
        // at once when no debugger is attached. All others stop the wave.
        Op::s_trap if simm16 & 0xff == 3 => (nop, false),
        Op::s_trap => (trap, true),
        // No wave here is launched with dynamic VGPRs; such a wave ignores it (RDNA4 manual 3.3.3; gfx1250 has the
        // same encoding, and the CDNA5 manual does not mention it).
        Op::s_alloc_vgpr => (nop, false),
        Op::s_code_end => (code_end, true),
        Op::s_icache_inv => (icache_inv, true),
        _ => {
            return branch::lower(inst, pc, lowering)
                .or_else(|| barriers::lower(inst, pc, lowering))
                .or_else(|| hwreg::lower(inst, pc, lowering))
                .or_else(|| mode::lower(inst, pc, lowering))
                .or_else(|| index::lower(inst, pc, lowering))
                .or_else(|| sleep::lower(inst, pc, lowering))
                .or_else(|| message::lower(inst, pc, lowering))
                .or_else(|| fork::lower(inst, pc, lowering));
        }
    };
    record.run = handler;
    record.ends_block = ends;
    record.imm = i64::from(simm16);
    Some(record)
}

/// Instructions that change nothing that a program can see: waits for counters (instructions complete in
/// order here), hints, priorities, performance counters, trace data.
pub(crate) fn is_nop(op: Op) -> bool {
    matches!(
        op,
        Op::s_nop
            | Op::s_waitcnt
            | Op::s_waitcnt_vscnt
            | Op::s_waitcnt_vmcnt
            | Op::s_waitcnt_expcnt
            | Op::s_waitcnt_lgkmcnt
            | Op::s_waitcnt_depctr
            | Op::s_wait_alu
            | Op::s_wait_asynccnt
            | Op::s_wait_bvhcnt
            | Op::s_wait_dscnt
            | Op::s_wait_event
            | Op::s_wait_expcnt
            | Op::s_wait_idle
            | Op::s_wait_kmcnt
            | Op::s_wait_loadcnt
            | Op::s_wait_loadcnt_dscnt
            | Op::s_wait_samplecnt
            | Op::s_wait_storecnt
            | Op::s_wait_storecnt_dscnt
            | Op::s_wait_tensorcnt
            | Op::s_wait_xcnt
            | Op::s_delay_alu
            | Op::s_clause
            | Op::s_version
            | Op::s_setprio
            | Op::s_setprio_inc_wg
            | Op::s_set_inst_prefetch_distance
            | Op::s_wakeup
            | Op::s_wakeup_barrier
            | Op::s_incperflevel
            | Op::s_decperflevel
            | Op::s_ttracedata
            | Op::s_ttracedata_imm
    )
}

/// Waits for memory are among these.
fn nop(_: &mut Cx<'_, '_>, _: &Record) -> Flow {
    crate::memory::order();
    Flow::Next
}

fn endpgm(cx: &mut Cx<'_, '_>, _: &Record) -> Flow {
    cx.wave.waiting = Waiting::Ended;
    Flow::Wait
}

fn trap(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let id = record.imm as u32 & 0xff;
    cx.fault(record, Cause::Trap { id })
}

/// The wave halts for good.
fn halt(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let name = record.inst.op().name();
    let what = format!(
        "{name}: the wave halted itself; only a debugger or a trap handler would resume it, and there is neither"
    );
    cx.fault(record, Cause::Illegal { what })
}

/// Manual (RDNA4, "S_CODE_END"): raises an illegal instruction interrupt; it stands behind the program's end.
fn code_end(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let what = "s_code_end: the wave ran past the end of its program".to_owned();
    cx.fault(record, Cause::Illegal { what })
}

/// The run loop drops the decoded code when the wave gives up its turn with this flag.
fn icache_inv(cx: &mut Cx<'_, '_>, _: &Record) -> Flow {
    cx.wave.code_stale = true;
    cx.wave.waiting = Waiting::Turn;
    Flow::Wait
}
