//! Scalar arithmetic (SOP1, SOP2, SOPC, SOPK).

use rocjitsu_isa::{Inst, Name, Op};

use crate::lower::Lowering;
use crate::record::{Class, Flow, Handler, Record};
use crate::wave::Cx;

/// Lowers a scalar arithmetic instruction.
pub fn lower(inst: &Inst, pc: u64, lowering: &mut Lowering) -> Option<Record> {
    let handler: Handler = match inst.op() {
        Op::s_mov_b32 => |cx, r| one(cx, r, |a| a),
        Op::s_mul_i32 => |cx, r| two(cx, r, u32::wrapping_mul),
        Op::s_lshl_b32 => |cx, r| two_scc(cx, r, |a, b| a << (b & 31)),
        Op::s_and_b32 => |cx, r| two_scc(cx, r, |a, b| a & b),
        Op::s_add_u32 | Op::s_add_co_u32 => add_u32,
        Op::s_mov_b64 => |cx, r| {
            let value = cx.get64(r.src[0]);
            cx.set64(r.dst, value);
            Flow::Next
        },
        Op::s_and_saveexec_b64 | Op::s_and_saveexec_b32 => and_saveexec,
        _ => return None,
    };
    let mut record = Record::new(*inst, pc, Class::Salu, handler);
    record.dst = lowering.dest(inst, Name::sdst).unwrap_or_default();
    record.src[0] = lowering.source(inst, Name::src0).unwrap_or_default();
    record.src[1] = lowering.source(inst, Name::src1).unwrap_or_default();
    Some(record)
}

#[inline(always)]
fn one(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u32) -> u32) -> Flow {
    let value = f(cx.get32(record.src[0]));
    cx.set32(record.dst, value);
    Flow::Next
}

#[inline(always)]
fn two(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u32, u32) -> u32) -> Flow {
    let value = f(cx.get32(record.src[0]), cx.get32(record.src[1]));
    cx.set32(record.dst, value);
    Flow::Next
}

/// As [`two`]; SCC tells whether the result is not zero.
#[inline(always)]
fn two_scc(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u32, u32) -> u32) -> Flow {
    let value = f(cx.get32(record.src[0]), cx.get32(record.src[1]));
    cx.set32(record.dst, value);
    cx.wave.scc = value != 0;
    Flow::Next
}

fn add_u32(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let (value, carry) = cx.get32(record.src[0]).overflowing_add(cx.get32(record.src[1]));
    cx.set32(record.dst, value);
    cx.wave.scc = carry;
    Flow::Next
}

fn and_saveexec(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let old = cx.wave.exec();
    let new = old & if cx.wave.lanes == 64 { cx.get64(record.src[0]) } else { u64::from(cx.get32(record.src[0])) };
    if let Some(n) = record.dst.scalar() {
        cx.wave.set_mask(n, old);
    }
    cx.wave.set_exec(new);
    cx.wave.scc = new != 0;
    Flow::Next
}
