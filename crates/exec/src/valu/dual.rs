//! Dual-issue instructions (VOPD, VOPD3): two lane operations that read before either writes.

use rocjitsu_isa::{Inst, Name, Op};
use rocjitsu_lanes::kernel::{Aux, Kernel, Kind};

use super::general;
use super::ops;
use crate::lower::Lowering;
use crate::record::{Class, Flow, Operand, Record};
use crate::wave::{Cx, scalar};

/// One half of a dual instruction.
struct Half {
    kernel: Kernel,
    inputs: [Option<Kind>; 3],
    out: Kind,
    src: [Operand; 3],
    neg: [bool; 3],
    mask: Operand,
    dst: u32,
    aux: Aux,
}

/// The instruction that does what a half does.
fn single(op: Op) -> Option<Op> {
    let name = op.name();
    match name {
        "v_dual_dot2acc_f32_f16" => Op::from_name("v_dot2acc_f32_f16").or(Op::from_name("v_dot2c_f32_f16")),
        "v_dual_dot2acc_f32_bf16" => Op::from_name("v_dot2acc_f32_bf16").or(Op::from_name("v_dot2c_f32_bf16")),
        _ => Op::from_name(&name.replacen("v_dual_", "v_", 1)),
    }
}

/// Lowers a dual instruction.
pub fn lower(inst: &Inst, pc: u64, lowering: &Lowering) -> Option<Record> {
    let x = half(inst, lowering, inst.op(), [Name::vdstX, Name::src0X, Name::vsrc1X, Name::vsrc2X, Name::src2X])?;
    let y = half(inst, lowering, inst.op_y()?, [Name::vdstY, Name::src0Y, Name::vsrc1Y, Name::vsrc2Y, Name::src2Y])?;
    let mut record = Record::new(*inst, pc, Class::Valu, run);
    record.detail = Some(Box::new([x, y]));
    Some(record)
}

fn half(inst: &Inst, lowering: &Lowering, op: Op, names: [Name; 5]) -> Option<Half> {
    let [to, first, second, third, tied] = names;
    let found = ops::find(single(op)?, lowering.target)?;
    let set = found.set;
    let mut half = Half {
        kernel: set.get(lowering.backend),
        inputs: [None; 3],
        out: set.out,
        src: [Operand::None; 3],
        neg: [false; 3],
        mask: Operand::Scalar(scalar::VCC as u8),
        dst: lowering.banked(lowering.resolve(inst.operand(to)?), 3).vector()?,
        aux: Aux(lowering.state.0 & 0x7ff | found.immediate << 16),
    };
    let literal = || inst.literal().map(Operand::Const);
    let modifiers = |name| match name {
        Name::src0X => Name::src0X_modifiers,
        Name::src0Y => Name::src0Y_modifiers,
        Name::vsrc1X => Name::vsrc1X_modifiers,
        Name::vsrc1Y => Name::vsrc1Y_modifiers,
        Name::vsrc2X => Name::vsrc2X_modifiers,
        _ => Name::vsrc2Y_modifiers,
    };
    // fmamk: src0 * literal + src1; fmaak: src0 * src1 + literal.
    let is_mk = op.name().contains("fmamk") || op.name().contains("madmk");
    let is_ak = op.name().contains("fmaak") || op.name().contains("madak");
    let order = [first, second, third];
    let mut slot = 0;
    for &kind in set.inputs {
        if kind == Kind::Mask {
            if let Some(m) = inst.operand(third) {
                half.mask = lowering.resolve_source(m);
            }
            continue;
        }
        if kind == Kind::Lane {
            continue;
        }
        let name = if is_mk && slot == 2 { second } else { order[slot] };
        let operand = if (is_mk && slot == 1) || (is_ak && slot == 2) {
            literal()?
        } else {
            let coded = inst.operand(name).or_else(|| inst.operand(tied)).or_else(|| inst.operand(to))?;
            lowering.banked(lowering.resolve_source(coded), slot as u32)
        };
        half.inputs[slot] = Some(kind);
        half.src[slot] = operand;
        half.neg[slot] = inst.field(modifiers(name)).unwrap_or(0) & 1 != 0;
        slot += 1;
    }
    Some(half)
}

fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let Some([x, y]) = record.detail.as_ref().and_then(|d| d.downcast_ref::<[Half; 2]>()) else {
        return Flow::Next;
    };
    let exec = cx.wave.exec();
    // X goes by way of a temporary, so that Y reads registers as they were.
    execute(cx, record, x, exec, Some(0));
    execute(cx, record, y, exec, None);
    let wide = matches!(x.out, Kind::B64 | Kind::F64);
    for part in 0..1 + u32::from(wide) {
        let row = cx.wave.v.write(x.dst + part, &mut cx.unit.pool);
        for (lane, (to, from)) in row.iter_mut().zip(&cx.unit.temp.dst[part as usize]).enumerate() {
            if exec >> lane & 1 != 0 {
                *to = *from;
            }
        }
    }
    Flow::Next
}

fn execute(cx: &mut Cx<'_, '_>, record: &Record, half: &Half, exec: u64, temp: Option<usize>) {
    let mut args = general::new_args(cx, record);
    args.aux = half.aux;
    for slot in 0..3 {
        let Some(kind) = half.inputs[slot] else { break };
        args.src[slot] = general::source(cx, half.src[slot], kind, slot, 0);
        if half.neg[slot] {
            general::negate(cx, &mut args.src[slot], slot, kind);
        }
    }
    args.mask_in = match half.mask {
        Operand::Scalar(n) => cx.wave.mask(usize::from(n)),
        other => cx.get64(other),
    };
    args.exec = exec;
    let wide = matches!(half.out, Kind::B64 | Kind::F64);
    match temp {
        Some(t) => {
            args.dst = cx.unit.temp.dst[t].as_mut_ptr();
            args.dst_hi = cx.unit.temp.dst[t + 1].as_mut_ptr();
        }
        None => {
            args.dst = cx.wave.v.write_ptr(half.dst, &mut cx.unit.pool);
            args.dst_hi = if wide { cx.wave.v.write_ptr(half.dst + 1, &mut cx.unit.pool) } else { args.dst };
        }
    }
    // SAFETY: sources are rows of this wave, shared words or temporaries; the destination is a temporary or
    // a row of this wave; the back end is supported.
    unsafe { (half.kernel)(&mut args) };
}
