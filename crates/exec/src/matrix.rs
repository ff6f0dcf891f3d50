//! Matrix instructions (MFMA, SMFMAC, WMMA, SWMMAC): operands in registers, products in `lanes`.
//! They ignore EXEC: all lanes take part (manuals, chapter "Matrix").

use rocjitsu_isa::{Inst, Name};
use rocjitsu_lanes::matrix::{
    COperand, Family, Kind, MatrixOp, Modifiers, Operands, Prepared, Registers, ScaleFormat,
    ScaleOperand,
};

use crate::error::Cause;
use crate::lower::Lowering;
use crate::record::{Class, Exactness, Flow, Operand, Record};
use crate::wave::{Cx, Wave};

/// Most registers that an operand takes: 32x32 results of 64 lanes, or K = 128 in bytes of 32 lanes.
const ROWS: usize = 32;
/// Most registers that A or B takes: 512 bits a lane (K = 128 in bytes, 32 lanes).
const INPUTS: usize = 16;

/// What a matrix instruction needs beyond its record.
pub struct Details {
    prepared: Prepared,
    index: Operand,
    scale: [Operand; 2],
}

/// Lowers a matrix instruction.
pub fn lower(inst: &Inst, pc: u64, lowering: &mut Lowering) -> Option<Record> {
    let family = Family::from_target(lowering.target.name())?;
    let mut op = MatrixOp::from_mnemonic(inst.op().name(), family)?;
    if !family.is_mfma() {
        op.wave = lowering.lanes() as usize;
    }
    let field = |name| inst.field(name).unwrap_or(0);
    let format = |mfma, wmma| inst.field(wmma).unwrap_or_else(|| field(mfma)) as u8;
    let mut mods = Modifiers {
        clamp: field(Name::clamp) != 0,
        fp16_ovfl: lowering.state.fp16_ovfl(),
        flush_f32: lowering.state.float_mode() >> 4 & 1 == 0,
        ..Modifiers::default()
    };
    if op.f8f6f4 {
        op = op.with_formats(
            format(Name::cbsz, Name::matrix_a_fmt),
            format(Name::blgp, Name::matrix_b_fmt),
        )?;
    } else {
        mods.cbsz = field(Name::cbsz) as u8;
        mods.abid = field(Name::abid) as u8;
        mods.blgp = field(Name::blgp) as u8;
    }
    let sources = [
        Name::src0_modifiers,
        Name::src1_modifiers,
        Name::src2_modifiers,
    ]
    .map(field);
    if family.is_mfma() {
        // Byte of the scale register: op_sel, and op_sel_hi above it.
        mods.scale_sel_a = (sources[0] >> 2 & 3) as u8;
        mods.scale_sel_b = (sources[1] >> 2 & 3) as u8;
    } else {
        let collect = |bit: u32| {
            sources
                .iter()
                .enumerate()
                .map(|(i, m)| (m >> bit & 1) << i)
                .sum::<u32>() as u8
        };
        mods.neg = collect(0);
        mods.neg_hi = collect(1);
        mods.op_sel = collect(2);
        mods.scale_sel_a = field(Name::matrix_a_scale) as u8;
        mods.scale_sel_b = field(Name::matrix_b_scale) as u8;
        mods.scale_fmt_a = ScaleFormat::from_code(field(Name::matrix_a_scale_fmt) as u8)?;
        mods.scale_fmt_b = ScaleFormat::from_code(field(Name::matrix_b_scale_fmt) as u8)?;
        mods.index_key = [
            Name::index_key_8bit,
            Name::index_key_16bit,
            Name::index_key_32bit,
        ]
        .into_iter()
        .find_map(|name| inst.field(name))
        .unwrap_or(0) as u8;
    }
    op.mods = mods;

    let mut record = Record::new(*inst, pc, Class::Matrix, run);
    let source = |name, role| Some(lowering.banked(lowering.source(inst, name)?, role));
    let mut index = Operand::None;
    if op.kind != Kind::LoadScale {
        record.dst = lowering.banked(lowering.dest(inst, Name::vdst)?, 3);
        record.src[0] = source(Name::src0, 0)?;
        record.src[1] = source(Name::src1, 1)?;
        if op.kind == Kind::Sparse {
            record.src[2] = record.dst;
            index = source(Name::idx, 2).or_else(|| source(Name::src2, 2))?;
        } else {
            record.src[2] = source(Name::src2, 2)?;
        }
    }
    let scale = |name| lowering.source(inst, name).unwrap_or_default();
    // Integer products wrap or saturate as documented; float ones follow the vectors where there are any.
    if !op.a.is_integer() {
        record.exactness =
            Exactness::Bounded("order and rounding of sums as in data/numerics/mfma-arithmetic.md");
    }
    record.matrix = Some(Box::new(Details {
        prepared: Prepared::new(&op),
        index,
        scale: [scale(Name::scale_src0), scale(Name::scale_src1)],
    }));
    Some(record)
}

/// Registers of an operand: slices of lanes.
type Rows<'w, const N: usize> = [&'w [u32]; N];

/// Fills `found` with the rows of an operand that begins at register `first`, and returns those.
fn rows<'w, 'r, const N: usize>(
    wave: &'w Wave,
    first: u32,
    count: usize,
    found: &'r mut Rows<'w, N>,
) -> &'r [&'w [u32]] {
    let found = &mut found[..count.min(N)];
    for (i, row) in found.iter_mut().enumerate() {
        *row = wave.v.read(first + i as u32);
    }
    found
}

fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let Some(details) = record.matrix.as_deref() else {
        return Flow::Next;
    };
    let Registers {
        a,
        b,
        c,
        d,
        index,
        scale,
    } = details.prepared.registers();
    let (Some(dst), Some(first_a), Some(first_b)) = (
        record.dst.vector(),
        record.src[0].vector(),
        record.src[1].vector(),
    ) else {
        // A prefix that only loads scale factors is decoded together with its instruction.
        return Flow::Next;
    };
    let (mut rows_a, mut rows_b): (Rows<'_, INPUTS>, Rows<'_, INPUTS>) =
        ([&[]; INPUTS], [&[]; INPUTS]);
    let mut rows_c: Rows<'_, ROWS>;
    let (mut rows_i, mut rows_sa, mut rows_sb): (Rows<'_, 2>, Rows<'_, 2>, Rows<'_, 2>) =
        ([&[]; 2], [&[]; 2], [&[]; 2]);
    let shared = details.scale.map(|operand| cx.get32(operand));
    let wave = &*cx.wave;
    let lanes = wave.lanes as usize;
    let c_operand = match record.src[2] {
        Operand::Vector(r) if u32::from(r) == dst && c == d => {
            for (i, row) in cx.unit.matrix[..d.min(ROWS)].iter_mut().enumerate() {
                row[..lanes].copy_from_slice(wave.v.read(dst + i as u32));
            }
            COperand::InPlace
        }
        Operand::Vector(r) => {
            rows_c = [&[]; ROWS];
            COperand::Rows(rows(wave, u32::from(r), c, &mut rows_c))
        }
        Operand::Const(k) => COperand::Constant(k),
        _ => COperand::Constant(0),
    };
    let index = match details.index {
        Operand::Vector(r) => rows(wave, u32::from(r), index, &mut rows_i),
        _ => &[],
    };
    let operands = Operands {
        a: rows(wave, first_a, a, &mut rows_a),
        b: rows(wave, first_b, b, &mut rows_b),
        c: c_operand,
        index,
        scale_a: scale_operand(wave, details.scale[0], shared[0], scale, &mut rows_sa),
        scale_b: scale_operand(wave, details.scale[1], shared[1], scale, &mut rows_sb),
    };
    let results = &mut cx.unit.matrix[..d.min(ROWS)];
    if let Err(error) = details
        .prepared
        .execute(cx.unit.backend, &operands, results)
    {
        return cx.fault(
            record,
            Cause::Illegal {
                what: error.to_string(),
            },
        );
    }
    for (i, result) in cx.unit.matrix[..d.min(ROWS)].iter().enumerate() {
        cx.wave
            .v
            .write(dst + i as u32, &mut cx.unit.pool)
            .copy_from_slice(&result[..lanes]);
    }
    Flow::Next
}

/// The scale factors of an operand: rows of registers, or `shared`, the value that all lanes have.
fn scale_operand<'r>(
    wave: &'r Wave,
    operand: Operand,
    shared: u32,
    count: usize,
    found: &'r mut Rows<'r, 2>,
) -> ScaleOperand<'r> {
    match operand {
        Operand::None => ScaleOperand::One,
        Operand::Vector(r) => ScaleOperand::Rows(rows(wave, u32::from(r), count, found)),
        // An inline float constant stands for its exponent.
        Operand::Const(k) if k > 64 && k <= u64::from(u32::MAX) => {
            ScaleOperand::Constant((k >> 23) as u8)
        }
        _ => ScaleOperand::Constant(shared as u8),
    }
}
