//! Moves, conditional moves, moves with SGPR numbers computed from M0.

use rocjitsu_isa::{Inst, Name, Op};

use super::{unary, unary64};
use crate::lower::Lowering;
use crate::record::{Class, Flow, Handler, Operand, Record};
use crate::wave::{Cx, scalar};

/// The handler of an operation of this module.
pub fn handler(op: Op) -> Option<Handler> {
    Some(match op {
        Op::s_mov_b32 => |cx, r| unary(cx, r, |a| a),
        Op::s_mov_b64 => |cx, r| unary64(cx, r, |a| a),
        Op::s_movk_i32 => |cx, r| {
            let value = cx.get32(r.src[1]);
            cx.set32(r.dst, value);
            Flow::Next
        },
        Op::s_cmov_b32 => |cx, r| {
            if cx.wave.scc {
                unary(cx, r, |a| a)
            } else {
                Flow::Next
            }
        },
        Op::s_cmov_b64 => |cx, r| {
            if cx.wave.scc {
                unary64(cx, r, |a| a)
            } else {
                Flow::Next
            }
        },
        Op::s_cmovk_i32 => |cx, r| {
            if cx.wave.scc {
                let value = cx.get32(r.src[1]);
                cx.set32(r.dst, value);
            }
            Flow::Next
        },
        Op::s_cselect_b32 => |cx, r| {
            let value = cx.get32(r.src[usize::from(!cx.wave.scc)]);
            cx.set32(r.dst, value);
            Flow::Next
        },
        Op::s_cselect_b64 => |cx, r| {
            let value = cx.get64(r.src[usize::from(!cx.wave.scc)]);
            cx.set64(r.dst, value);
            Flow::Next
        },
        _ => return None,
    })
}

/// Lowers `s_movrel*`. `src[0]` and `dst` are as encoded; `imm` is 1 on gfx9.
pub fn lower_relative(inst: &Inst, pc: u64, lowering: &Lowering) -> Option<Record> {
    let handler: Handler = match inst.op() {
        Op::s_movrels_b32 => |cx, r| relative(cx, r, 1, m0, |_| 0),
        Op::s_movrels_b64 => |cx, r| relative(cx, r, 2, m0, |_| 0),
        Op::s_movreld_b32 => |cx, r| relative(cx, r, 1, |_| 0, m0),
        Op::s_movreld_b64 => |cx, r| relative(cx, r, 2, |_| 0, m0),
        Op::s_movrelsd_2_b32 => {
            |cx, r| relative(cx, r, 1, |cx| m0(cx) & 0x3ff, |cx| m0(cx) >> 16 & 0x3ff)
        }
        _ => return None,
    };
    let mut record = Record::new(*inst, pc, Class::Salu, handler);
    record.dst = lowering.resolve(inst.operand(Name::sdst)?);
    record.src[0] = lowering.resolve(inst.operand(Name::src0)?);
    record.imm = i64::from(lowering.target.is_cdna());
    Some(record)
}

fn m0(cx: &Cx<'_, '_>) -> u32 {
    cx.wave.s[scalar::M0]
}

/// The register `offset` behind the one that an operand names, or `None` if an operand of `words` words
/// there leaves the range that the operand names: SGPRs with VCC (on gfx9 without), or trap temporaries.
fn place(operand: Operand, offset: u32, words: usize, gfx9: bool) -> Option<usize> {
    let n = operand.scalar()?;
    let at = n.checked_add(offset as usize)?;
    let sgprs = if gfx9 { 0..102 } else { 0..scalar::TTMP };
    let ttmps = scalar::TTMP..scalar::NULL;
    let range = if sgprs.contains(&n) {
        sgprs
    } else if ttmps.contains(&n) {
        ttmps
    } else {
        // Any other register, as it is.
        n..n + words
    };
    (range.contains(&at) && at + words <= range.end).then_some(at)
}

/// Moves `words` words with an offset added to the number of the source and of the destination.
///
/// Out of range (CDNA3 manual 3.6.1, RDNA4 manual 3.3.1.3): a source reads SGPR0, a destination is not
/// written. Trap temporaries cannot be written outside a trap handler.
#[inline(always)]
fn relative(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    words: usize,
    source_offset: impl Fn(&Cx<'_, '_>) -> u32,
    dest_offset: impl Fn(&Cx<'_, '_>) -> u32,
) -> Flow {
    let gfx9 = record.imm != 0;
    let value = match record.src[0] {
        source @ Operand::Scalar(_) => {
            let from = place(source, source_offset(cx), words, gfx9).unwrap_or(0);
            if from == scalar::NULL {
                0
            } else {
                cx.wave.s64(from)
            }
        }
        constant => cx.get64(constant),
    };
    let to = place(record.dst, dest_offset(cx), words, gfx9);
    match to {
        None | Some(scalar::TTMP..=scalar::NULL) => {}
        Some(n) if words == 1 => cx.wave.s[n] = value as u32,
        Some(n) => cx.wave.set_s64(n, value),
    }
    Flow::Next
}
