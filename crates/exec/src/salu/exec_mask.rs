//! Operations that read and write EXEC: saveexec and wrexec.
//! The 32-bit forms touch EXEC_LO only, the 64-bit ones both words, whatever the size of the wave.

use rocjitsu_isa::Op;

use crate::record::{Flow, Handler, Record};
use crate::wave::{Cx, scalar};

/// The handler of an operation of this module. In the functions `s` is the source and `e` EXEC.
pub fn handler(op: Op) -> Option<Handler> {
    Some(match op {
        Op::s_and_saveexec_b32 => |cx, r| save32(cx, r, |s, e| s & e),
        Op::s_or_saveexec_b32 => |cx, r| save32(cx, r, |s, e| s | e),
        Op::s_xor_saveexec_b32 => |cx, r| save32(cx, r, |s, e| s ^ e),
        Op::s_nand_saveexec_b32 => |cx, r| save32(cx, r, |s, e| !(s & e)),
        Op::s_nor_saveexec_b32 => |cx, r| save32(cx, r, |s, e| !(s | e)),
        Op::s_xnor_saveexec_b32 => |cx, r| save32(cx, r, |s, e| !(s ^ e)),
        Op::s_and_not0_saveexec_b32 => |cx, r| save32(cx, r, |s, e| !s & e),
        Op::s_or_not0_saveexec_b32 => |cx, r| save32(cx, r, |s, e| !s | e),
        Op::s_and_not1_saveexec_b32 => |cx, r| save32(cx, r, |s, e| s & !e),
        Op::s_or_not1_saveexec_b32 => |cx, r| save32(cx, r, |s, e| s | !e),
        Op::s_and_saveexec_b64 => |cx, r| save64(cx, r, |s, e| s & e),
        Op::s_or_saveexec_b64 => |cx, r| save64(cx, r, |s, e| s | e),
        Op::s_xor_saveexec_b64 => |cx, r| save64(cx, r, |s, e| s ^ e),
        Op::s_nand_saveexec_b64 => |cx, r| save64(cx, r, |s, e| !(s & e)),
        Op::s_nor_saveexec_b64 => |cx, r| save64(cx, r, |s, e| !(s | e)),
        Op::s_xnor_saveexec_b64 => |cx, r| save64(cx, r, |s, e| !(s ^ e)),
        Op::s_andn1_saveexec_b64 | Op::s_and_not0_saveexec_b64 => {
            |cx, r| save64(cx, r, |s, e| !s & e)
        }
        Op::s_orn1_saveexec_b64 | Op::s_or_not0_saveexec_b64 => {
            |cx, r| save64(cx, r, |s, e| !s | e)
        }
        Op::s_andn2_saveexec_b64 | Op::s_and_not1_saveexec_b64 => {
            |cx, r| save64(cx, r, |s, e| s & !e)
        }
        Op::s_orn2_saveexec_b64 | Op::s_or_not1_saveexec_b64 => {
            |cx, r| save64(cx, r, |s, e| s | !e)
        }
        Op::s_and_not0_wrexec_b32 => |cx, r| write32(cx, r, |s, e| !s & e),
        Op::s_and_not1_wrexec_b32 => |cx, r| write32(cx, r, |s, e| s & !e),
        Op::s_andn1_wrexec_b64 | Op::s_and_not0_wrexec_b64 => |cx, r| write64(cx, r, |s, e| !s & e),
        Op::s_andn2_wrexec_b64 | Op::s_and_not1_wrexec_b64 => |cx, r| write64(cx, r, |s, e| s & !e),
        _ => return None,
    })
}

/// EXEC = f(S0, EXEC); D = the old EXEC; SCC = (EXEC != 0). A destination that is EXEC itself keeps the
/// old value, as the manuals write D last.
#[inline(always)]
fn save32(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u32, u32) -> u32) -> Flow {
    let old = cx.wave.s[scalar::EXEC];
    let new = f(cx.get32(record.src[0]), old);
    cx.wave.s[scalar::EXEC] = new;
    cx.set32(record.dst, old);
    cx.wave.scc = new != 0;
    Flow::Next
}

#[inline(always)]
fn save64(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u64, u64) -> u64) -> Flow {
    let old = cx.wave.s64(scalar::EXEC);
    let new = f(cx.get64(record.src[0]), old);
    cx.wave.set_s64(scalar::EXEC, new);
    cx.set64(record.dst, old);
    cx.wave.scc = new != 0;
    Flow::Next
}

/// EXEC = D = f(S0, EXEC); SCC = (EXEC != 0).
#[inline(always)]
fn write32(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u32, u32) -> u32) -> Flow {
    let new = f(cx.get32(record.src[0]), cx.wave.s[scalar::EXEC]);
    cx.wave.s[scalar::EXEC] = new;
    cx.set32(record.dst, new);
    cx.wave.scc = new != 0;
    Flow::Next
}

#[inline(always)]
fn write64(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u64, u64) -> u64) -> Flow {
    let new = f(cx.get64(record.src[0]), cx.wave.s64(scalar::EXEC));
    cx.wave.set_s64(scalar::EXEC, new);
    cx.set64(record.dst, new);
    cx.wave.scc = new != 0;
    Flow::Next
}
