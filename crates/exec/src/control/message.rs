//! Messages to the hardware upstream, with and without an answer.

use rocjitsu_isa::{Format, Inst, Name, Op, Target};

use crate::barrier;
use crate::clock;
use crate::lower::Lowering;
use crate::record::{Class, Exactness, Flow, Handler, Record};
use crate::wave::{Cx, Waiting, hwreg, scalar};

/// Lowers a message. Others than these have no semantics.
///
/// Numbers: RDNA4 manual table "S_SENDMSG Messages" (gfx9 and gfx11 share 1), LLVM `SIDefines.h`.
pub fn lower(inst: &Inst, pc: u64, lowering: &Lowering) -> Option<Record> {
    let target = lowering.target;
    let handler: Handler = match inst.op() {
        Op::s_sendmsg | Op::s_sendmsghalt => match inst.field(Name::simm16)? & 0xff {
            // On gfx9 the number has four bits, the rest is the operation, which INTERRUPT has not.
            1 if inst.op() == Op::s_sendmsghalt => |cx, r| {
                let _ = interrupt(cx, r);
                super::halt(cx, r)
            },
            1 => interrupt,
            // Sent and halted: whatever the message, the wave goes no further.
            _ if inst.op() == Op::s_sendmsghalt => super::halt,
            // GET_DOORBELL: the answer is in EXEC, bit 31 clear (ROCr's trap handler waits for that).
            10 if target.is_cdna() => |cx, _| {
                cx.wave.s[scalar::EXEC] = cx.wave.doorbell & 0x7fff_ffff;
                Flow::Next
            },
            // DEALLOC_VGPRS: the wave promises not to use its registers any more.
            3 if target.generation() >= 11 => |_, _| Flow::Next,
            _ => return None,
        },
        Op::s_sendmsg_rtn_b32 | Op::s_sendmsg_rtn_b64 => match inst.field(Name::src0)? {
            0x80 => |cx, r| answer(cx, r, u64::from(cx.wave.doorbell)),
            // GET_DDID, which the CDNA5 manual does not list.
            0x81 if target != Target::Gfx1250 => |cx, r| answer(cx, r, cx.wave.dispatch_id),
            0x82 => |cx, r| answer(cx, r, pair(cx, hwreg::TMA)),
            0x83 => |cx, r| answer(cx, r, clock::realtime()),
            0x85 => |cx, r| answer(cx, r, pair(cx, hwreg::TBA)),
            // GET_SE_HW_ID: shader engine 0, as HW_ID1 says.
            0x87 if target.generation() >= 12 => |cx, r| answer(cx, r, 0),
            // GET_CLUSTER_BARRIER_STATE: as `s_get_barrier_state` tells of the other barriers.
            0x88 if target == Target::Gfx1250 => |cx, r| {
                let state = barrier::state(cx.group.barriers[barrier::CLUSTER].get());
                answer(cx, r, u64::from(state))
            },
            _ => return None,
        },
        Op::s_memtime | Op::s_get_shader_cycles_u64 => |cx, r| answer(cx, r, clock::cycles()),
        Op::s_memrealtime => |cx, r| answer(cx, r, clock::realtime()),
        _ => return None,
    };
    let class = if inst.format() == Format::SMEM {
        Class::Smem
    } else {
        Class::Control
    };
    let mut record = Record::new(*inst, pc, class, handler);
    record.ends_block = matches!(inst.op(), Op::s_sendmsg | Op::s_sendmsghalt);
    record.dst = lowering.dest(inst, Name::sdst).unwrap_or_default();
    record.imm = i64::from(inst.op() != Op::s_sendmsg_rtn_b32);
    let asks_time = matches!(
        inst.op(),
        Op::s_memtime | Op::s_memrealtime | Op::s_get_shader_cycles_u64
    );
    if asks_time || inst.field(Name::src0) == Some(0x83) {
        record.exactness = Exactness::Default(clock::NOT_THE_CHIPS);
    }
    Some(record)
}

fn answer(cx: &mut Cx<'_, '_>, record: &Record, value: u64) -> Flow {
    match record.imm {
        0 => cx.set32(record.dst, value as u32),
        _ => cx.set64(record.dst, value),
    }
    Flow::Next
}

fn pair(cx: &Cx<'_, '_>, first: usize) -> u64 {
    u64::from(cx.wave.hwreg[first]) | u64::from(cx.wave.hwreg[first + 1]) << 32
}

/// INTERRUPT: M0[23:0] goes to the driver, which looks at the events of the process. The wave gives up
/// its turn so that this happens soon.
fn interrupt(cx: &mut Cx<'_, '_>, _: &Record) -> Flow {
    let data = cx.wave.s[scalar::M0] & 0xff_ffff;
    cx.wave.interrupts.push(data);
    cx.wave.waiting = Waiting::Turn;
    Flow::Wait
}
