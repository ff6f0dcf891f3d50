//! Dual-issue instructions (VOPD, VOPD3): two lane operations that read before either writes.

use rocjitsu_isa::{Inst, Name, Op, Operand as Coded};
use rocjitsu_lanes::kernel::Kind;

use super::{Source, assemble, ops};
use crate::lower::Lowering;
use crate::record::{Class, Flow, Operand, Record};
use crate::wave::Cx;

/// The two operations in the order in which they are executed.
struct Pair {
    halves: [Record; 2],
    /// The second one reads what the first one writes, and the other way round.
    crossed: bool,
}

/// The instruction that does what a half does.
fn single(op: Op) -> Option<Op> {
    let name = op.name();
    match name {
        "v_dual_dot2acc_f32_f16" => {
            Op::from_name("v_dot2acc_f32_f16").or(Op::from_name("v_dot2c_f32_f16"))
        }
        "v_dual_dot2acc_f32_bf16" => {
            Op::from_name("v_dot2acc_f32_bf16").or(Op::from_name("v_dot2c_f32_bf16"))
        }
        // The table of three inputs, the third being zero.
        "v_dual_bitop2_b32" => Some(Op::v_bitop3_b32),
        _ => Op::from_name(&name.replacen("v_dual_", "v_", 1)),
    }
}

/// Names of a half's operands: destination, sources, modifiers of the sources, the source that is the destination.
struct Names {
    to: Name,
    sources: [(Name, Name); 3],
    tied: Name,
}

const X: Names = Names {
    to: Name::vdstX,
    sources: [
        (Name::src0X, Name::src0X_modifiers),
        (Name::vsrc1X, Name::vsrc1X_modifiers),
        (Name::vsrc2X, Name::vsrc2X_modifiers),
    ],
    tied: Name::src2X,
};
const Y: Names = Names {
    to: Name::vdstY,
    sources: [
        (Name::src0Y, Name::src0Y_modifiers),
        (Name::vsrc1Y, Name::vsrc1Y_modifiers),
        (Name::vsrc2Y, Name::vsrc2Y_modifiers),
    ],
    tied: Name::src2Y,
};

/// Lowers a dual instruction.
pub fn lower(inst: &Inst, pc: u64, lowering: &Lowering) -> Option<Record> {
    let x = half(inst, pc, lowering, inst.op(), &X)?;
    let y = half(inst, pc, lowering, inst.op_y()?, &Y)?;
    let mut record = Record::new(*inst, pc, Class::Valu, run);
    record.exactness = x.exactness.max(y.exactness);
    // Without a register that one writes and the other reads, they run one after the other.
    let (y_reads_x, x_reads_y) = (reads(&y, &x), reads(&x, &y));
    let halves = if y_reads_x { [y, x] } else { [x, y] };
    record.detail = Some(Box::new(Pair {
        halves,
        crossed: y_reads_x && x_reads_y,
    }));
    Some(record)
}

/// The two operations of a dual instruction, if that is what the record is.
pub(crate) fn halves(record: &Record) -> Option<&[Record; 2]> {
    let pair = record.detail.as_ref()?.downcast_ref::<Pair>()?;
    Some(&pair.halves)
}

fn words(kind: Kind) -> u32 {
    if matches!(kind, Kind::B64 | Kind::F64) {
        2
    } else {
        1
    }
}

/// Whether a half reads a register that the other one writes.
fn reads(reader: &Record, writer: &Record) -> bool {
    let (Some(read), Some(written), Some(to)) = (&reader.valu, &writer.valu, writer.dst.vector())
    else {
        return false;
    };
    let end = to + words(written.out);
    read.inputs
        .iter()
        .zip(reader.src)
        .any(|(kind, operand)| match (kind, operand) {
            (Some(kind), Operand::Vector(r)) => {
                u32::from(r) < end && to < u32::from(r) + words(*kind)
            }
            _ => false,
        })
}

fn half(inst: &Inst, pc: u64, lowering: &Lowering, op: Op, names: &Names) -> Option<Record> {
    let found = ops::find(single(op)?, lowering.target)?;
    let name = op.name();
    let literal = || inst.literal().map(Coded::Literal);
    let mut coded = names.sources.map(|(source, _)| inst.operand(source));
    if name.contains("fmamk") {
        // a * literal + b
        coded = [coded[0], literal(), coded[1]];
    } else if name.contains("fmaak") {
        coded[2] = literal();
    } else if op == Op::v_dual_bitop2_b32 {
        coded[2] = Some(Coded::Const(0));
    }
    let mut sources = [None; 3];
    for (slot, source) in sources.iter_mut().enumerate() {
        let number = slot as u8;
        let modifiers = Some(names.sources[slot].1);
        *source = match coded[slot] {
            Some(coded) => Some(Source {
                coded,
                modifiers,
                number,
                role: number,
            }),
            None if slot == 2 && inst.row().operand(names.tied).is_some() => Some(Source {
                coded: inst.operand(names.to)?,
                modifiers: None,
                number,
                role: 3,
            }),
            None => None,
        };
    }
    let dst = lowering.banked(lowering.resolve(inst.operand(names.to)?), 3);
    assemble(inst, pc, lowering, &found, &sources, dst)
}

fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let Some(Pair {
        halves: [first, second],
        crossed,
    }) = record
        .detail
        .as_ref()
        .and_then(|d| d.downcast_ref::<Pair>())
    else {
        return Flow::Next;
    };
    if !crossed {
        let _ = (first.run)(cx, first);
        return (second.run)(cx, second);
    }
    // The second half has to see the registers as they were: the first one's result is put back afterwards.
    let count = first.valu.as_deref().map_or(1, |d| words(d.out));
    let to = first.dst.vector().unwrap_or(0);
    let row = |cx: &Cx<'_, '_>, n: u32| super::cross::row_of(cx, Operand::Vector((to + n) as u16));
    let put = |cx: &mut Cx<'_, '_>, n: u32, row: &[u32; 64]| {
        let lanes = cx.wave.lanes as usize;
        cx.wave
            .v
            .write(to + n, &mut cx.unit.pool)
            .copy_from_slice(&row[..lanes]);
    };
    let old = [row(cx, 0), row(cx, count - 1)];
    let _ = (first.run)(cx, first);
    let new = [row(cx, 0), row(cx, count - 1)];
    for n in 0..count {
        put(cx, n, &old[n as usize]);
    }
    let flow = (second.run)(cx, second);
    for n in 0..count {
        put(cx, n, &new[n as usize]);
    }
    flow
}
