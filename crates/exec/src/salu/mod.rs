//! Scalar arithmetic (SOP1, SOP2, SOPC, SOPK): resolves the operands, and picks the handler from the
//! module that knows the operation.

mod arith;
mod bits;
mod compare;
mod exec_mask;
mod float;
mod float_compare;
mod logic;
mod moves;

use rocjitsu_isa::{Format, Inst, Name, Op, Operand as Coded};

use crate::lower::Lowering;
use crate::record::{Class, Flow, Handler, Operand, Record};
use crate::wave::{Cx, scalar};

/// Lowers a scalar arithmetic instruction.
///
/// Sources stand in `src[0]` and `src[1]`; the 16-bit immediate of SOPK, extended as the operation reads
/// it, is `src[1]`, and its register `src[0]`. `src[2]` is the literal of `s_fmaak` and `s_fmamk`, or the
/// old value of the destination. `imm` is MODE as the float operations need it.
pub fn lower(inst: &Inst, pc: u64, lowering: &mut Lowering) -> Option<Record> {
    let op = inst.op();
    if op == Op::s_movrels_b32
        || op == Op::s_movrels_b64
        || op == Op::s_movreld_b32
        || op == Op::s_movreld_b64
        || op == Op::s_movrelsd_2_b32
    {
        return moves::lower_relative(inst, pc, lowering);
    }
    let handler = arith::handler(op)
        .or_else(|| logic::handler(op))
        .or_else(|| bits::handler(op))
        .or_else(|| compare::handler(op))
        .or_else(|| moves::handler(op))
        .or_else(|| exec_mask::handler(op))
        .or_else(|| float::handler(op))
        .or_else(|| float_compare::handler(op))?;
    let mut record = Record::new(*inst, pc, Class::Salu, handler);
    record.imm = i64::from(float::mode_bits(lowering));
    record.dst = lowering.dest(inst, Name::sdst).unwrap_or_default();
    if writes_ttmp(inst, lowering) && lowering.target.generation() >= 11 {
        record.run = keep_scc;
        record.detail = Some(Box::new(handler));
    }
    if inst.format() == Format::SOPK {
        let field = inst.field(Name::simm16)?;
        let extended = if compare::is_unsigned(op) {
            field
        } else {
            field as u16 as i16 as u32
        };
        record.src[0] = lowering.source(inst, Name::sdst)?;
        record.src[1] = Operand::Const(u64::from(extended));
        return Some(record);
    }
    record.src[0] = source(inst, Name::src0, lowering).unwrap_or_default();
    record.src[1] = source(inst, Name::src1, lowering).unwrap_or_default();
    record.src[2] = match inst.format() {
        Format::SOP2_LIT => Operand::Const(inst.literal()?),
        _ => lowering.source(inst, Name::sdst).unwrap_or_default(),
    };
    Some(record)
}

fn writes_ttmp(inst: &Inst, lowering: &Lowering) -> bool {
    let dst = inst.operand(Name::sdst).map(|o| lowering.resolve(o));
    matches!(dst, Some(Operand::Scalar(n)) if (scalar::TTMP..scalar::NULL).contains(&usize::from(n)))
}

/// An instruction that tries to write a trap temporary does not change SCC either (RDNA4 manual 3.3.1.3).
fn keep_scc(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let scc = cx.wave.scc;
    let flow = match record
        .detail
        .as_ref()
        .and_then(|d| d.downcast_ref::<Handler>())
    {
        Some(handler) => handler(cx, record),
        None => Flow::Next,
    };
    cx.wave.scc = scc;
    flow
}

/// A source; 32-bit literals of 64-bit signed operations are sign-extended (RDNA3 manual, "Literal
/// constant"; the CDNA3 manual says the same under "SALU operands").
fn source(inst: &Inst, name: Name, lowering: &Lowering) -> Option<Operand> {
    let signed = matches!(
        inst.op(),
        Op::s_ashr_i64 | Op::s_bfe_i64 | Op::s_flbit_i32_i64 | Op::s_cls_i32_i64
    );
    let short_literal = name == Name::src0 && inst.len() == 8;
    if let (true, Some(Coded::Literal(k))) = (signed && short_literal, inst.operand(name)) {
        return Some(Operand::Const(k as u32 as i32 as i64 as u64));
    }
    if let (Some(code @ 240..=248), true) = (inst.field(name), reads_f16(inst.op())) {
        // The table types these sources as 32-bit integers, for which the code would be an f32.
        return F16_CONSTANTS
            .get(code as usize - 240)
            .map(|&c| Operand::Const(c));
    }
    lowering.source(inst, name)
}

/// The float inline constants 240 to 248 as f16: +-0.5, +-1, +-2, +-4, 1/(2 pi).
const F16_CONSTANTS: [u64; 9] = [
    0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000, 0xc000, 0x4400, 0xc400, 0x3118,
];

/// SOP1 operations on f16: their inline constants are f16 (RDNA4 manual, "Inline constants": by the
/// operation's type).
fn reads_f16(op: Op) -> bool {
    matches!(
        op,
        Op::s_ceil_f16 | Op::s_floor_f16 | Op::s_trunc_f16 | Op::s_rndne_f16 | Op::s_cvt_f32_f16
    )
}

/// D = f(S0).
#[inline(always)]
fn unary(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u32) -> u32) -> Flow {
    let value = f(cx.get32(record.src[0]));
    cx.set32(record.dst, value);
    Flow::Next
}

/// As [`unary`]; SCC tells whether the result is not zero.
#[inline(always)]
fn unary_scc(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u32) -> u32) -> Flow {
    let value = f(cx.get32(record.src[0]));
    cx.set32(record.dst, value);
    cx.wave.scc = value != 0;
    Flow::Next
}

/// As [`unary`], on 64 bits.
#[inline(always)]
fn unary64(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u64) -> u64) -> Flow {
    let value = f(cx.get64(record.src[0]));
    cx.set64(record.dst, value);
    Flow::Next
}

/// As [`unary64`]; SCC tells whether the result is not zero.
#[inline(always)]
fn unary64_scc(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u64) -> u64) -> Flow {
    let value = f(cx.get64(record.src[0]));
    cx.set64(record.dst, value);
    cx.wave.scc = value != 0;
    Flow::Next
}

/// A 32-bit result of a 64-bit source.
#[inline(always)]
fn narrow(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u64) -> u32) -> Flow {
    let value = f(cx.get64(record.src[0]));
    cx.set32(record.dst, value);
    Flow::Next
}

/// D = f(S0, S1).
#[inline(always)]
fn binary(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u32, u32) -> u32) -> Flow {
    let value = f(cx.get32(record.src[0]), cx.get32(record.src[1]));
    cx.set32(record.dst, value);
    Flow::Next
}

/// As [`binary`]; SCC tells whether the result is not zero.
#[inline(always)]
fn binary_scc(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u32, u32) -> u32) -> Flow {
    let value = f(cx.get32(record.src[0]), cx.get32(record.src[1]));
    cx.set32(record.dst, value);
    cx.wave.scc = value != 0;
    Flow::Next
}

/// As [`binary`]; the function gives SCC too.
#[inline(always)]
fn binary_flag(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    f: impl Fn(u32, u32, bool) -> (u32, bool),
) -> Flow {
    let (value, scc) = f(
        cx.get32(record.src[0]),
        cx.get32(record.src[1]),
        cx.wave.scc,
    );
    cx.set32(record.dst, value);
    cx.wave.scc = scc;
    Flow::Next
}

/// As [`binary`], on 64 bits.
#[inline(always)]
fn binary64(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u64, u64) -> u64) -> Flow {
    let value = f(cx.get64(record.src[0]), cx.get64(record.src[1]));
    cx.set64(record.dst, value);
    Flow::Next
}

/// As [`binary64`]; SCC tells whether the result is not zero.
#[inline(always)]
fn binary64_scc(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u64, u64) -> u64) -> Flow {
    let value = f(cx.get64(record.src[0]), cx.get64(record.src[1]));
    cx.set64(record.dst, value);
    cx.wave.scc = value != 0;
    Flow::Next
}

/// A 64-bit value and a 32-bit one, as shifts and bit fields have; SCC tells whether the result is not zero.
#[inline(always)]
fn shift64_scc(cx: &mut Cx<'_, '_>, record: &Record, f: impl Fn(u64, u32) -> u64) -> Flow {
    let value = f(cx.get64(record.src[0]), cx.get32(record.src[1]));
    cx.set64(record.dst, value);
    cx.wave.scc = value != 0;
    Flow::Next
}
