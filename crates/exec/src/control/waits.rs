//! Waits for vector memory. Instructions complete in order here, so nothing is waited for; but the first such wait
//! after a barrier is where the waves of a workgroup catch up with each other.
//!
//! On the hardware all waves go on from a barrier within some cycles, and memory takes hundreds. Kernels have come to
//! count on that: rocPRIM's `ordered_block_id` reads from LDS after a barrier what the first wave overwrites as soon as
//! its next load of global memory is back, without a barrier in between. Here a wave runs to its next wait at once, so
//! it gives the others a turn before it sees what memory answers.

use rocjitsu_isa::{Inst, Name, Op, Target};

use crate::record::{Flow, Record};
use crate::wave::Cx;

/// Whether the instruction waits for loads, stores or atomics of vector memory.
pub fn for_memory(inst: &Inst, target: Target) -> bool {
    match inst.op() {
        // The counter's bits are all ones when it is not waited for (manuals: S_WAITCNT).
        Op::s_waitcnt => {
            let imm = inst.field(Name::simm16).unwrap_or(0);
            match target.generation() {
                9 | 10 => imm & 0xf != 0xf || imm >> 14 & 3 != 3,
                _ => imm >> 10 & 0x3f != 0x3f,
            }
        }
        Op::s_waitcnt_vmcnt
        | Op::s_waitcnt_vscnt
        | Op::s_wait_loadcnt
        | Op::s_wait_loadcnt_dscnt
        | Op::s_wait_storecnt
        | Op::s_wait_storecnt_dscnt
        | Op::s_wait_asynccnt
        | Op::s_wait_tensorcnt => true,
        _ => false,
    }
}

/// Executes such a wait.
pub fn memory(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    crate::memory::order();
    if std::mem::take(&mut cx.wave.past_barrier) {
        cx.wave.pc = record.next_pc;
        return Flow::Wait;
    }
    Flow::Next
}
