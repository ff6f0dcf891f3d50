//! Registers to panels: plain loops over 16 lanes that the compiler turns into vector code.

use super::super::layout::{self, KSplit};
use super::super::op::{Element, Family, MatrixOp};
use super::super::{COperand, formats};

/// Longest K of a dense instruction.
const MAX_K: usize = 128;

/// One row per k.
pub(in super::super) type Panel<T> = [[T; 64]; MAX_K];

/// Working storage of one instruction, kept per thread so that it need not be cleared.
#[repr(C, align(64))]
pub(in super::super) struct Scratch {
    /// A as f32: `a[k][row]`, rows of all blocks side by side, in the order of the jobs.
    pub a: Panel<f32>,
    /// B as f32: `b[k][column]`.
    pub b: Panel<f32>,
    /// Exponents of A and B for the fused kernels.
    pub ea: Panel<i8>,
    pub eb: Panel<i8>,
    /// A register with its lanes permuted by CBSZ, ABID or BLGP.
    permuted: [[u32; 64]; 16],
}

impl Scratch {
    pub fn new() -> Box<Scratch> {
        Box::new(Scratch {
            a: [[0.0; 64]; MAX_K],
            b: [[0.0; 64]; MAX_K],
            ea: [[0; 64]; MAX_K],
            eb: [[0; 64]; MAX_K],
            permuted: [[0; 64]; 16],
        })
    }
}

/// Fills the panel of A.
#[inline(always)]
pub(super) fn unpack_a(op: &MatrixOp, rows: &[&[u32]], scratch: &mut Scratch) {
    let split = layout::a_split(op);
    let lanes = layout::a_lanes(op);
    let signs = signs(op, 0);
    let Scratch { a, permuted, .. } = scratch;
    if op.family.is_mfma() && op.mods.cbsz != 0 {
        permute(rows, permuted, |lane| layout::broadcast_a(op, lane));
        unpack(op, op.a, permuted.iter().map(|row| &row[..]).take(rows.len()), split, lanes, signs, a);
    } else {
        unpack(op, op.a, rows.iter().copied(), split, lanes, signs, a);
    }
    if op.family.is_mfma() && op.m == 32 {
        interleave(&mut a[..op.k]);
    }
}

/// Fills the panel of B.
#[inline(always)]
pub(super) fn unpack_b(op: &MatrixOp, rows: &[&[u32]], scratch: &mut Scratch) {
    let split = layout::b_split(op);
    let lanes = layout::b_lanes(op);
    let signs = signs(op, 1);
    let Scratch { b, permuted, .. } = scratch;
    if op.family.is_mfma() && op.mods.blgp != 0 {
        permute(rows, permuted, |lane| layout::permute_b(op, lane));
        unpack(op, op.b, permuted.iter().map(|row| &row[..]).take(rows.len()), split, lanes, signs, b);
    } else {
        unpack(op, op.b, rows.iter().copied(), split, lanes, signs, b);
    }
}

/// The sign bits that NEG and NEG_HI of WMMA flip in a register of two 16-bit floats.
fn signs(op: &MatrixOp, operand: u32) -> u32 {
    if op.family.is_mfma() || op.a.bits() != 16 {
        return 0;
    }
    let bit = |field: u8| u32::from(field >> operand & 1);
    bit(op.mods.neg) << 15 | bit(op.mods.neg_hi) << 31
}

#[cold]
fn permute(rows: &[&[u32]], out: &mut [[u32; 64]; 16], from: impl Fn(usize) -> usize) {
    for (row, out) in rows.iter().zip(out) {
        for (lane, word) in out.iter_mut().enumerate() {
            *word = row[from(lane)];
        }
    }
}

/// Puts the rows of 32-row blocks in the order of the accumulator registers: the first 16 of a
/// block become those whose bit 2 is clear, in ascending order, then come the others.
#[inline(always)]
fn interleave(panel: &mut [[f32; 64]]) {
    for row in panel {
        for block in row.chunks_exact_mut(32) {
            let mut out = [0.0; 32];
            for (i, quad) in block.chunks_exact(4).enumerate() {
                let to = i / 2 + i % 2 * 4;
                out[4 * to..4 * to + 4].copy_from_slice(quad);
            }
            block.copy_from_slice(&out);
        }
    }
}

/// Copies C into D, where the kernels accumulate.
#[inline(always)]
pub(super) fn copy_c(op: &MatrixOp, c: COperand<'_>, d: &mut [[u32; 64]]) {
    match c {
        COperand::InPlace => {}
        COperand::Constant(bits) => {
            for row in d.iter_mut().take(layout::registers(op).d) {
                row[..op.wave].fill(bits as u32);
            }
        }
        COperand::Rows(rows) => {
            for (row, from) in d.iter_mut().zip(rows).take(layout::registers(op).d) {
                row[..op.wave].copy_from_slice(&from[..op.wave]);
            }
        }
    }
}

/// Decodes every item of every lane into its place in the panel.
#[inline(always)]
fn unpack<'a>(
    op: &MatrixOp,
    element: Element,
    rows: impl Iterator<Item = &'a [u32]>,
    split: KSplit,
    lanes: usize,
    signs: u32,
    out: &mut Panel<f32>,
) {
    let limit = match (op.family, element) {
        (Family::Cdna2, Element::F16) => 0x3880_0000,
        (Family::Cdna2 | Family::Rdna3, Element::Bf16) => 0x0080_0000,
        (_, Element::F32) if op.mods.flush_f32 && op.family.is_mfma() => 0x0080_0000,
        _ => 0,
    };
    let flush = |bits: u32| {
        let keep = bits & 0x7fff_ffff >= limit;
        f32::from_bits(if keep { bits } else { 0 })
    };
    match element {
        Element::F32 => each::<1>(rows, split, lanes, out, |word, _| flush(word)),
        Element::Xf32 => each::<1>(rows, split, lanes, out, |word, _| f32::from_bits(word & !0x1fff)),
        Element::F16 => each::<2>(rows, split, lanes, out, |word, item| {
            flush(f16_bits((word ^ signs) >> (16 * item) & 0xffff))
        }),
        Element::Bf16 => each::<2>(rows, split, lanes, out, |word, item| {
            flush((word ^ signs) >> (16 * item) << 16)
        }),
        Element::Fp8 => each::<4>(rows, split, lanes, out, |word, item| {
            let x = word >> (8 * item);
            small(x, x & 0x7f, 20, 120, x & 0x7f == 0x7f)
        }),
        Element::Fp8Fnuz => each::<4>(rows, split, lanes, out, |word, item| {
            let x = word >> (8 * item);
            small(x, x & 0x7f, 20, 119, x & 0xff == 0x80)
        }),
        Element::Bf8Fnuz => each::<4>(rows, split, lanes, out, |word, item| {
            let x = word >> (8 * item);
            small(x, x & 0x7f, 21, 111, x & 0xff == 0x80)
        }),
        // The upper half of an f16.
        Element::Bf8 => each::<4>(rows, split, lanes, out, |word, item| {
            f32::from_bits(f16_bits((word >> (8 * item) & 0xff) << 8))
        }),
        _ => {}
    }
}

/// Bits of the f32 of an f16; exact, also for subnormals (the product is exact).
#[inline(always)]
fn f16_bits(x: u32) -> u32 {
    let magnitude = (x & 0x7fff) << 13;
    let scaled = (f32::from_bits(magnitude) * f32::from_bits((112 + 127) << 23)).to_bits();
    let special = magnitude | 0x7f80_0000;
    (if magnitude >= 0x0f80_0000 { special } else { scaled }) | (x & 0x8000) << 16
}

/// An 8-bit float with its exponent and mantissa at `shift` of an f32, times 2^`power`.
#[inline(always)]
fn small(x: u32, magnitude: u32, shift: u32, power: u32, nan: bool) -> f32 {
    let value = (f32::from_bits(magnitude << shift) * f32::from_bits((power + 127) << 23)).to_bits();
    f32::from_bits(if nan { formats::NAN32 } else { value | (x & 0x80) << 24 })
}

/// Walks registers, chunks of 16 lanes and the `ITEMS` elements of a word.
#[inline(always)]
fn each<'a, const ITEMS: usize>(
    rows: impl Iterator<Item = &'a [u32]>,
    split: KSplit,
    lanes: usize,
    out: &mut Panel<f32>,
    decode: impl Fn(u32, u32) -> f32,
) {
    for (register, row) in rows.enumerate() {
        for (chunk, words) in row.as_chunks::<16>().0.iter().enumerate().take(split.groups * lanes / 16) {
            let (group, within) = (chunk * 16 / lanes, chunk * 16 % lanes);
            for item in 0..ITEMS {
                let k = split.index(group, register * ITEMS + item);
                let Some(to) = out.get_mut(k).and_then(|row| row[within..].first_chunk_mut::<16>()) else {
                    continue;
                };
                for (to, word) in to.iter_mut().zip(words) {
                    *to = decode(*word, item as u32);
                }
            }
        }
    }
}
