//! Matrix instructions (MFMA, SMFMAC, WMMA, SWMMAC): operands in registers, products in `lanes`.
//! They ignore EXEC: all lanes take part (manuals, chapter "Matrix").

use std::mem::MaybeUninit;

use rocjitsu_isa::{Inst, Name};
use rocjitsu_lanes::matrix::{
    COperand, Element, Family, Form, Kind, MatrixOp, Modifiers, Pointers, Prepared, ScaleFormat,
    ScaleOperand,
};

use crate::helpers::{self, Seat, Set};
use crate::lower::Lowering;
use crate::record::{Class, Exactness, Flow, Operand, Record};
use crate::wave::Cx;

/// Most registers that an operand takes: 32x32 results of 64 lanes, or K = 128 in bytes of 32 lanes.
pub(crate) const ROWS: usize = 32;
/// Most registers that A or B takes: 512 bits a lane (K = 128 in bytes, 32 lanes).
pub(crate) const INPUTS: usize = 16;

/// What a matrix instruction needs beyond its record.
pub struct Details {
    pub(crate) prepared: Prepared,
    pub(crate) index: Operand,
    pub(crate) scale: [Operand; 2],
    /// Its place in a window of instructions that helper threads may execute.
    pub(crate) seat: Option<Seat>,
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
        fast: lowering.fast_matrix,
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
    record.exactness = exactness(&op);
    let need = op.registers();
    let apart = |source: &Operand, count: usize| match (record.dst.vector(), source.vector()) {
        (Some(d), Some(first)) => first + count as u32 <= d || d + need.d as u32 <= first,
        _ => false,
    };
    let apart = apart(&record.src[0], need.a) && apart(&record.src[1], need.b);
    let prepared = Prepared::new(&op, apart);
    if need.a.max(need.b) > INPUTS || need.c.max(need.d) > ROWS || need.index.max(need.scale) > 2 {
        return None;
    }
    record.matrix = Some(Box::new(Details {
        prepared,
        index,
        scale: [scale(Name::scale_src0), scale(Name::scale_src1)],
        seat: None,
    }));
    Some(record)
}

/// How sure the bits of a product are (`data/numerics/mfma-arithmetic.md`, sections 1, 4 and 7).
fn exactness(op: &MatrixOp) -> Exactness {
    let mods = &op.mods;
    // Integer products wrap or saturate as documented.
    if op.kind == Kind::LoadScale || op.a.is_integer() {
        return Exactness::Exact;
    }
    if mods.fast {
        return Exactness::Default("chains of f32 FMAs, as fast matrix products were asked for");
    }
    let modelled = matches!(op.family, Family::Cdna1 | Family::Cdna2 | Family::Cdna3);
    Exactness::Default(match op.kind {
        Kind::Sparse if op.family.is_mfma() => {
            "the rule of the dense products on the pairs that the index selects; no vectors of sparse products"
        }
        Kind::Scaled => {
            "exact sums of each block, scaled, added with one rounding; no vectors of scaled products"
        }
        _ if op.f8f6f4 => {
            "exact sums of 32, added with one rounding; no vectors of F8F6F4 products"
        }
        _ if modelled && mods.fp16_ovfl => {
            "overflow clamped as the manual says (FP16_OVFL); the vectors have it off"
        }
        _ if modelled && op.a == Element::F32 && mods.flush_f32 => {
            "subnormals of A and B flushed as the manual says; the vectors keep them"
        }
        _ if modelled => {
            return Exactness::Bounded(
                "bits of a reference model compared with hardware (vectors in data/numerics); NaN payloads and \
                 signs of zeros are the model's alone",
            );
        }
        _ => match op.family {
            Family::Cdna4 => {
                "the algorithms of CDNA3, whose rules the manual repeats; no vectors of CDNA4"
            }
            Family::Rdna3 => {
                "steps of two products rounded once; on chips sums of both signs differ by some ulp, and no vectors are known"
            }
            _ => {
                "a chain of f32 FMAs in order of k; documents do not give the order, and no vectors are known"
            }
        },
    })
}

/// Puts the registers that a matrix instruction reads and writes into sets; false if they are beyond the last.
pub(crate) fn touch(record: &Record, reads: &mut Set, writes: &mut Set) -> bool {
    let Some(details) = record.matrix.as_deref() else {
        return false;
    };
    let need = details.prepared.registers();
    let [a, b, c, _] = record.src;
    let [scale_a, scale_b] = details.scale;
    let mut known = helpers::insert(writes, record.dst, need.d);
    for (operand, count) in [
        (a, need.a),
        (b, need.b),
        (c, need.c),
        (details.index, need.index),
        (scale_a, need.scale),
        (scale_b, need.scale),
    ] {
        known &= helpers::insert(reads, operand, count);
    }
    known
}

/// What accumulators are before a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// Those in the registers from this one on.
    Register(u32),
    /// All the same.
    Constant(u64),
}

/// A product whose operands are in registers; D has none of A's and B's, and either all of C's or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    /// What is computed.
    pub form: Form,
    /// First register of A.
    pub a: u32,
    /// First register of B.
    pub b: u32,
    /// C.
    pub c: Start,
    /// First register of D.
    pub d: u32,
    /// Registers of A, B and D; C has as many as D.
    pub counts: [u32; 3],
}

/// Whether a record is a product that can be compiled, if the host has the instructions.
pub fn has_form(record: &Record) -> bool {
    product(record).is_some()
}

/// The product that a record is, if it has a form that can be compiled and is not one for helper threads.
pub(crate) fn product(record: &Record) -> Option<Product> {
    let details = record.matrix.as_deref()?;
    if details.seat.is_some() {
        return None;
    }
    let form = Form::new(details.prepared.op())?;
    let need = details.prepared.registers();
    let counts = [need.a, need.b, need.d].map(|count| count as u32);
    let d = record.dst.vector()?;
    let (a, b) = (record.src[0].vector()?, record.src[1].vector()?);
    let apart = |first: u32, count: u32| first + count <= d || d + counts[2] <= first;
    let c = match record.src[2] {
        Operand::Vector(c) => Start::Register(u32::from(c)),
        Operand::Const(bits) => Start::Constant(bits),
        _ => return None,
    };
    let fits = match c {
        Start::Register(c) => c == d || apart(c, counts[2]),
        Start::Constant(_) => true,
    };
    let fits = fits && apart(a, counts[0]) && apart(b, counts[1]) && need.c == need.d;
    fits.then_some(Product {
        form,
        a,
        b,
        c,
        d,
        counts,
    })
}

/// Room for where the registers of an operand begin.
type Room<T, const N: usize> = [MaybeUninit<T>; N];

fn run(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let Some(details) = record.matrix.as_deref() else {
        return Flow::Next;
    };
    let need = details.prepared.registers();
    let (Some(dst), Some(first_a), Some(first_b)) = (
        record.dst.vector(),
        record.src[0].vector(),
        record.src[1].vector(),
    ) else {
        // A prefix that only loads scale factors is decoded together with its instruction.
        return Flow::Next;
    };
    // D first: a page that it allocates may be read through another operand.
    let mut room_d: Room<*mut u32, ROWS> = [const { MaybeUninit::uninit() }; ROWS];
    let d = cx
        .wave
        .v
        .write_ptrs(dst, &mut cx.unit.pool, &mut room_d[..need.d]);
    let registers = &cx.wave.v;
    let mut room_a: Room<_, INPUTS> = [const { MaybeUninit::uninit() }; INPUTS];
    let mut room_b: Room<_, INPUTS> = [const { MaybeUninit::uninit() }; INPUTS];
    let mut room_c: Room<_, ROWS> = [const { MaybeUninit::uninit() }; ROWS];
    let mut small = [const { [const { MaybeUninit::uninit() }; 2] }; 3];
    let mut copied;
    let c = match record.src[2] {
        Operand::Vector(r) if (u32::from(r), need.c) == (dst, need.d) => COperand::InPlace,
        Operand::Vector(r) => {
            let first = u32::from(r);
            let c = registers.read_ptrs(first, &mut room_c[..need.c]);
            if first + need.c as u32 <= dst || dst + need.d as u32 <= first {
                COperand::Rows(c)
            } else {
                // D lies across C: what a job writes another one would read.
                copied = [std::ptr::null(); ROWS];
                for ((row, to), copy) in c.iter().zip(cx.unit.matrix.iter_mut()).zip(&mut copied) {
                    // SAFETY: a register has the lanes of the wave, 64 at most.
                    unsafe { row.copy_to_nonoverlapping(to.as_mut_ptr(), registers.lanes()) };
                    *copy = to.as_ptr();
                }
                COperand::Rows(&copied[..need.c])
            }
        }
        Operand::Const(k) => COperand::Constant(k),
        _ => COperand::Constant(0),
    };
    let mut operands = Pointers {
        a: registers.read_ptrs(first_a, &mut room_a[..need.a]),
        b: registers.read_ptrs(first_b, &mut room_b[..need.b]),
        c,
        index: &[],
        scale_a: ScaleOperand::One,
        scale_b: ScaleOperand::One,
    };
    let [room_index, room_scale_a, room_scale_b] = &mut small;
    if need.index != 0
        && let Operand::Vector(r) = details.index
    {
        operands.index = registers.read_ptrs(u32::from(r), &mut room_index[..need.index]);
    }
    if need.scale != 0 {
        let [a, b] = details.scale;
        operands.scale_a = scale_operand(cx, a, &mut room_scale_a[..need.scale]);
        operands.scale_b = scale_operand(cx, b, &mut room_scale_b[..need.scale]);
    }
    // SAFETY: the arrays hold the most registers that any instruction takes (`lower` checks), and
    // registers have the lanes of the wave. C was copied if it overlaps D. The host supports the
    // back end of a worker.
    unsafe { details.prepared.execute_at(cx.unit.backend, &operands, d) };
    Flow::Next
}

/// The scale factors of an operand: rows of registers, or a value that all lanes have.
fn scale_operand<'r>(
    cx: &Cx<'_, '_>,
    operand: Operand,
    room: &'r mut [MaybeUninit<*const u32>],
) -> ScaleOperand<'r, *const u32> {
    match operand {
        Operand::None => ScaleOperand::One,
        Operand::Vector(r) => ScaleOperand::Rows(cx.wave.v.read_ptrs(u32::from(r), room)),
        shared => ScaleOperand::Constant(shared_scale(cx, shared)),
    }
}

/// A scale factor that all lanes have.
pub(crate) fn shared_scale(cx: &Cx<'_, '_>, operand: Operand) -> u8 {
    match operand {
        // An inline float constant stands for its exponent.
        Operand::Const(k) if k > 64 && k <= u64::from(u32::MAX) => (k >> 23) as u8,
        shared => cx.get32(shared) as u8,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rocjitsu_isa::Target;

    use super::*;

    /// Only what vectors cover is bounded: those of `data/numerics` are all dense float products of gfx90a and gfx942.
    #[test]
    fn products_without_vectors_are_by_default() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../data/numerics/mfma-vectors.json"
        );
        let index = std::fs::read_to_string(path).expect("a file of the repository");
        let index: serde_json::Value = serde_json::from_str(&index).expect("JSON");
        let entries = index["instructions"].as_array().expect("a list");
        let covered: BTreeSet<(&str, &str)> = entries
            .iter()
            .filter(|entry| entry["source"] == "model")
            .filter_map(|entry| Some((entry["target"].as_str()?, entry["mnemonic"].as_str()?)))
            .collect();
        let mut seen = BTreeSet::new();
        for target in Target::ALL {
            let Some(family) = Family::from_target(target.name()) else {
                continue;
            };
            for row in target.table().rows() {
                let name = row.op.name();
                let Some(op) = MatrixOp::from_mnemonic(name, family) else {
                    continue;
                };
                let has_vectors = covered.contains(&(target.name(), name));
                let exactness = exactness(&op);
                let right = match exactness {
                    Exactness::Exact => op.a.is_integer() || op.kind == Kind::LoadScale,
                    // gfx908 is only disassembled; the model covers it.
                    Exactness::Bounded(_) => has_vectors || target == Target::Gfx908,
                    Exactness::Default(_) => !has_vectors,
                };
                assert!(right, "{target} {name}: {exactness:?}");
                if has_vectors {
                    seen.insert((target.name(), name));
                }
            }
        }
        assert_eq!(seen.len(), covered.len(), "every entry is an instruction");
    }
}
