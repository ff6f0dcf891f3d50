//! Barrier instructions: which barrier is meant, and what does nothing. The rules are in [`crate::barrier`].

use rocjitsu_isa::{Inst, Name, Op, Operand as Coded, Target};

use crate::barrier;
use crate::lower::Lowering;
use crate::record::{Class, Flow, Handler, Operand, Record};
use crate::wave::{Cx, scalar};

/// Workgroup barrier.
const WORKGROUP: i64 = -1;
/// Cluster barrier of user programs.
const CLUSTER: i64 = -3;
/// IB_STS2 on gfx1250; bits 9:6 are zero for a wave in no cluster.
const IB_STS2: usize = 28;

/// Lowers a barrier instruction. `imm` is the barrier's number; `imm2` is 1 where M0 holds it instead.
pub fn lower(inst: &Inst, pc: u64, lowering: &Lowering) -> Option<Record> {
    let handler: Handler = match inst.op() {
        Op::s_barrier => legacy,
        Op::s_barrier_signal => signal,
        Op::s_barrier_signal_isfirst => signal_isfirst,
        Op::s_barrier_wait => wait,
        Op::s_get_barrier_state => state,
        // gfx1201 has the encodings and no way to allocate named barriers; without any, the instructions do nothing
        // (CDNA5 manual, 5.6.5.3).
        Op::s_barrier_init => init,
        Op::s_barrier_join => join,
        Op::s_barrier_leave => leave,
        _ => return None,
    };
    let mut record = Record::new(*inst, pc, Class::Control, handler);
    record.ends_block = matches!(inst.op(), Op::s_barrier | Op::s_barrier_wait);
    record.dst = lowering.dest(inst, Name::sdst).unwrap_or_default();
    match (inst.op(), inst.operand(Name::src0)) {
        (Op::s_barrier_wait, _) => record.imm = i64::from(inst.field(Name::simm16)? as u16 as i16),
        // The field is a source code: an inline constant, or M0.
        (_, Some(Coded::Imm(code))) => match code {
            128..=192 => record.imm = i64::from(code) - 128,
            193..=208 => record.imm = 192 - i64::from(code),
            125 => record.imm2 = 1,
            _ => return None,
        },
        (_, Some(Coded::Const(k))) => record.imm = i64::from(k as u32 as i32),
        (_, Some(other)) => match lowering.resolve(other) {
            Operand::Scalar(n) if usize::from(n) == scalar::M0 => record.imm2 = 1,
            _ => return None,
        },
        (_, None) => record.imm2 = 1,
    }
    Some(record)
}

/// The slot of the barrier that the instruction names, if it does anything. Trap barriers and barriers that do
/// not exist are ignored (manual); a wave in no cluster ignores the cluster's.
fn target(cx: &Cx<'_, '_>, record: &Record) -> Option<usize> {
    let number = if record.imm2 != 0 {
        i64::from(cx.wave.s[scalar::M0] & 0x1f)
    } else {
        record.imm
    };
    match number {
        WORKGROUP if barrier::in_workgroup(cx.group) => Some(barrier::WORKGROUP),
        CLUSTER if cx.wave.hwreg[IB_STS2] >> 6 & 0xf != 0 => Some(barrier::CLUSTER),
        1.. if number <= i64::from(barrier::NAMED_LIMIT)
            && barrier::in_workgroup(cx.group)
            && cx.unit.target == Target::Gfx1250 =>
        {
            Some(number as usize)
        }
        _ => None,
    }
}

/// Sets the member count that M0[22:16] gives, if the instruction reads M0. Not the cluster's (CDNA5 5.6.6).
fn set_members(cx: &mut Cx<'_, '_>, record: &Record, slot: usize) {
    if record.imm2 != 0 && slot != barrier::CLUSTER {
        let members = cx.wave.s[scalar::M0] >> 16 & 0x7f;
        barrier::set_members(cx.group, slot, members);
    }
}

/// `s_barrier`: signal and wait in one.
fn legacy(cx: &mut Cx<'_, '_>, _: &Record) -> Flow {
    if !barrier::in_workgroup(cx.group) {
        return Flow::Next;
    }
    barrier::signal(cx.group, barrier::WORKGROUP);
    if barrier::wait(cx.wave, cx.group, barrier::WORKGROUP) {
        Flow::Next
    } else {
        Flow::Wait
    }
}

fn signal(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    match target(cx, record) {
        Some(slot) => {
            set_members(cx, record, slot);
            barrier::signal(cx.group, slot);
            Flow::Next
        }
        None => Flow::Next,
    }
}

/// Where the signal does nothing, SCC becomes 0 on gfx1201 and stays on gfx1250 (manuals).
fn signal_isfirst(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    match target(cx, record) {
        Some(slot) => {
            set_members(cx, record, slot);
            cx.wave.scc = barrier::signal(cx.group, slot);
            Flow::Next
        }
        None => {
            cx.wave.scc &= cx.unit.target == Target::Gfx1250;
            Flow::Next
        }
    }
}

/// A number from 0 means the named barrier that the wave has joined, whichever it is.
fn wait(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let slot = match record.imm {
        0.. if cx.wave.named_barrier != 0 => usize::from(cx.wave.named_barrier),
        0.. => return Flow::Next,
        _ => match target(cx, record) {
            Some(slot) => slot,
            None => return Flow::Next,
        },
    };
    if barrier::wait(cx.wave, cx.group, slot) {
        Flow::Next
    } else {
        Flow::Wait
    }
}

fn state(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let value = match target(cx, record) {
        Some(slot) => barrier::state(cx.group.barriers[slot].get()),
        None => 0,
    };
    // gfx1250: bits 26:24 are the named barriers allocated, in groups of four.
    let named = if cx.unit.target == Target::Gfx1250 {
        (barrier::NAMED_LIMIT / 4) << 24
    } else {
        0
    };
    cx.set32(record.dst, value | named);
    Flow::Next
}

fn init(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    if let Some(slot @ 1..barrier::CLUSTER) = target(cx, record) {
        set_members(cx, record, slot);
        barrier::restart(cx.group, slot);
    }
    Flow::Next
}

/// Joining barrier 0 is leaving without a change of the barrier.
fn join(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    match target(cx, record) {
        Some(slot @ 1..barrier::CLUSTER) => barrier::join(cx.wave, cx.group, slot),
        _ if record.imm2 == 0 && record.imm == 0 => cx.wave.named_barrier = 0,
        _ => {}
    }
    Flow::Next
}

/// SCC of a wave that has joined none is 0, as in the instruction's pseudocode (CDNA5 section 5.6.5.4 says 1).
fn leave(cx: &mut Cx<'_, '_>, _: &Record) -> Flow {
    cx.wave.scc = barrier::leave(cx.wave, cx.group);
    Flow::Next
}
