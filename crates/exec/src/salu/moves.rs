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
        Op::s_cmov_b32 => |cx, r| if cx.wave.scc { unary(cx, r, |a| a) } else { Flow::Next },
        Op::s_cmov_b64 => |cx, r| if cx.wave.scc { unary64(cx, r, |a| a) } else { Flow::Next },
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

/// Lowers `s_movrel*`. `src[0]` and `dst` are as encoded, `imm2` says what is relative.
pub fn lower_relative(inst: &Inst, pc: u64, lowering: &Lowering) -> Option<Record> {
    let handler: Handler = match inst.op() {
        Op::s_movrels_b32 => |cx, r| relative(cx, r, 1, m0, |_| 0),
        Op::s_movrels_b64 => |cx, r| relative(cx, r, 2, m0, |_| 0),
        Op::s_movreld_b32 => |cx, r| relative(cx, r, 1, |_| 0, m0),
        Op::s_movreld_b64 => |cx, r| relative(cx, r, 2, |_| 0, m0),
        Op::s_movrelsd_2_b32 => |cx, r| relative(cx, r, 1, |cx| m0(cx) & 0x3ff, |cx| m0(cx) >> 16 & 0x3ff),
        _ => return None,
    };
    let mut record = Record::new(*inst, pc, Class::Salu, handler);
    record.dst = lowering.dest(inst, Name::sdst)?;
    record.src[0] = lowering.resolve(inst.operand(Name::src0)?);
    // Numbers from here on are no SGPRs that indexing may reach.
    record.imm = if lowering.target.is_cdna() { 102 } else { scalar::VCC as i64 };
    Some(record)
}

fn m0(cx: &Cx<'_, '_>) -> u32 {
    cx.wave.s[scalar::M0]
}

/// Moves `words` words with an offset added to the number of the source and of the destination.
///
/// Out of range (CDNA3 manual 3.6.2, RDNA4 manual 3.3.1.3): a source reads SGPR0 on gfx9 and zero later;
/// a destination is not written. An operand that is no SGPR must not be indexed; it is taken as it is when
/// the offset is zero.
#[inline(always)]
fn relative(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    words: usize,
    source_offset: impl Fn(&Cx<'_, '_>) -> u32,
    dest_offset: impl Fn(&Cx<'_, '_>) -> u32,
) -> Flow {
    let limit = record.imm as usize;
    let place = |operand: Operand, offset: u32| {
        let n = operand.scalar()?;
        if offset == 0 {
            return Some(n);
        }
        let at = n.checked_add(offset as usize)?;
        (n < limit && at + words <= limit).then_some(at)
    };
    let from = match (record.src[0], source_offset(cx)) {
        (source @ (Operand::Const(_) | Operand::Special(_)), _) => Err(source),
        (source, offset) => Ok(place(source, offset)),
    };
    let value = match from {
        Err(source) => cx.get64(source),
        Ok(Some(n)) => cx.wave.s64(n),
        Ok(None) if limit == 102 => cx.wave.s64(0),
        Ok(None) => 0,
    };
    if let Some(n) = place(record.dst, dest_offset(cx)) {
        match words {
            1 => cx.wave.s[n] = value as u32,
            _ => cx.wave.set_s64(n, value),
        }
    }
    Flow::Next
}
