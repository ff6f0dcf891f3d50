//! The reference: unpacks the registers and computes one element after the other.

use super::formats::{self, NAN32, NAN64};
use super::op::{Element, Family, Kind, MatrixOp};
use super::{Pointers, chain, dot2, fused, integer, scaled, tree, unpack};

/// How the sums of an instruction are formed (see the modules of these names).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Chain,
    Tree { group: usize, flush: bool },
    Fused { group: usize, parity: bool },
    Dot2,
    Scaled { block: usize },
    Integer,
}

/// The algorithm of an instruction.
pub(super) fn algorithm(op: &MatrixOp) -> Algorithm {
    if op.a.is_integer() {
        return Algorithm::Integer;
    }
    if op.f8f6f4 || op.kind == Kind::Scaled || op.a == Element::Fp4 {
        return Algorithm::Scaled {
            block: if op.scale_block == 16 { 16 } else { 32 },
        };
    }
    if op.mods.fast || matches!(op.a, Element::F32 | Element::F64) {
        return Algorithm::Chain;
    }
    match op.family {
        Family::Cdna1 | Family::Cdna2 => {
            let group = if op.a == Element::Bf16 && !op.bf16_1k {
                2
            } else {
                4
            };
            Algorithm::Tree {
                group,
                flush: op.family == Family::Cdna2,
            }
        }
        Family::Cdna3 | Family::Cdna4 => match op.a {
            Element::Xf32 => Algorithm::Fused {
                group: 4,
                parity: false,
            },
            Element::F16 | Element::Bf16 => Algorithm::Fused {
                group: 8,
                parity: false,
            },
            _ => Algorithm::Fused {
                group: 16,
                parity: true,
            },
        },
        Family::Rdna3 => Algorithm::Dot2,
        Family::Rdna4 | Family::Gfx1250 => Algorithm::Chain,
    }
}

/// Computes the instruction. All operands are read before D is written.
///
/// # Safety
/// The operands must have the registers that the instruction needs, with the lanes of a wave.
pub(super) unsafe fn execute(op: &MatrixOp, operands: &Pointers<'_>, d: &[*mut u32]) {
    // SAFETY: by the contract of this function.
    let (a, b, c, columns) = unsafe {
        (
            unpack::a_bits(op, operands.a),
            unpack::b_bits(op, operands.b),
            unpack::c_bits(op, operands.c, d),
            match op.kind {
                Kind::Sparse => unpack::sparse_columns(op, operands.index),
                _ => Vec::new(),
            },
        )
    };
    let scales = match op.kind {
        // SAFETY: by the contract of this function.
        Kind::Scaled => unsafe { scales(op, operands) },
        _ => Vec::new(),
    };
    // SAFETY: by the contract of this function.
    let put = |block, row, column, bits| unsafe {
        unpack::store(op, d, block, row, column, bits);
    };
    match algorithm(op) {
        Algorithm::Integer => {
            let saturate = op.mods.clamp
                || op.mods.fp16_ovfl
                    && matches!(op.family, Family::Cdna3 | Family::Cdna4 | Family::Gfx1250);
            let a: Vec<i32> = a.iter().map(|&x| unpack::integer(op, op.a, x, 0)).collect();
            let b: Vec<i32> = b.iter().map(|&x| unpack::integer(op, op.b, x, 1)).collect();
            each(op, &a, &b, &columns, |at, a, b| {
                let result = integer::i32(a, b, c[at.c] as i32, saturate);
                put(at.block, at.row, at.column, u64::from(result as u32));
            });
        }
        Algorithm::Chain if op.a == Element::F64 => {
            let a: Vec<f64> = a.iter().map(|&x| f64::from_bits(x)).collect();
            let b: Vec<f64> = b.iter().map(|&x| f64::from_bits(x)).collect();
            each(op, &a, &b, &columns, |at, a, b| {
                let result = chain::f64(a, b, f64::from_bits(c[at.c]));
                put(
                    at.block,
                    at.row,
                    at.column,
                    if result.is_nan() {
                        NAN64
                    } else {
                        result.to_bits()
                    },
                );
            });
        }
        algorithm => {
            let a = unpack::floats(op, op.a, &a);
            let b = unpack::floats(op, op.b, &b);
            let mins = (formats::min_exponent(op.a), formats::min_exponent(op.b));
            each(op, &a, &b, &columns, |at, a, b| {
                let c = formats::decode(op.c, c[at.c] as u32);
                let result = match algorithm {
                    Algorithm::Tree { group, flush } => tree::f32(a, b, c, group, flush),
                    Algorithm::Fused { group, parity } => fused::f32(a, b, c, group, mins, parity),
                    Algorithm::Dot2 => dot2::f32(a, b, c),
                    Algorithm::Scaled { block } => scaled_f32(op, &scales, &at, a, b, c, block),
                    _ => chain::f32(a, b, c),
                };
                let finite = || c.is_finite() && a.iter().chain(b).all(|x| x.is_finite());
                put(
                    at.block,
                    at.row,
                    at.column,
                    u64::from(result_bits(op, result, finite)),
                );
            });
        }
    }
}

/// Rounds a sum to D's type, with the one NaN and the clamp of MODE.FP16_OVFL.
fn result_bits(op: &MatrixOp, result: f32, finite: impl Fn() -> bool) -> u32 {
    let clamp = |infinite: bool| infinite && op.mods.fp16_ovfl && finite();
    match op.d {
        Element::F16 => {
            let bits = formats::f32_to_f16(result);
            let infinite = bits & 0x7fff == 0x7c00;
            u32::from(if clamp(infinite) { bits - 1 } else { bits })
        }
        Element::Bf16 => {
            let bits = formats::f32_to_bf16(result);
            let infinite = bits & 0x7fff == 0x7f80;
            u32::from(if clamp(infinite) { bits - 1 } else { bits })
        }
        _ if result.is_nan() => NAN32,
        _ => {
            let bits = result.to_bits();
            let mode = matches!(op.family, Family::Cdna3 | Family::Cdna4);
            if mode && clamp(result.is_infinite()) {
                bits - 1
            } else {
                bits
            }
        }
    }
}

/// Position of an element of D: block, row, column, and index into C.
struct At {
    block: usize,
    row: usize,
    column: usize,
    c: usize,
}

/// Calls `f` with the row of A and the column of B of every element of D; for sparse
/// instructions only the selected elements of B, in the order of k.
fn each<T: Copy>(
    op: &MatrixOp,
    a: &[T],
    b: &[T],
    columns: &[usize],
    mut f: impl FnMut(At, &[T], &[T]),
) {
    let stored = op.stored_k();
    let mut selected = Vec::with_capacity(stored);
    for block in 0..op.blocks {
        for row in 0..op.m {
            let a = &a[(block * op.m + row) * stored..][..stored];
            for column in 0..op.n {
                let mut b = &b[(block * op.n + column) * op.k..][..op.k];
                if op.kind == Kind::Sparse {
                    selected.clear();
                    selected.extend(columns[row * stored..][..stored].iter().map(|&k| b[k]));
                    b = &selected;
                }
                f(
                    At {
                        block,
                        row,
                        column,
                        c: (block * op.m + row) * op.n + column,
                    },
                    a,
                    b,
                );
            }
        }
    }
}

/// Scale factors by block of K: of the rows of A, then of the columns of B.
///
/// # Safety
/// As for `execute`.
unsafe fn scales(op: &MatrixOp, operands: &Pointers<'_>) -> Vec<[Vec<scaled::Scale>; 2]> {
    let block = if op.scale_block == 16 { 16 } else { 32 };
    let of = |scale, lines, group, sel, format| {
        (0..lines)
            .map(|line| {
                // SAFETY: by the contract of this function.
                let byte = unsafe { unpack::scale_byte(op, scale, lines, line, group, sel) };
                formats::decode_scale(format, byte)
            })
            .collect()
    };
    let mods = &op.mods;
    (0..op.k / block)
        .map(|group| {
            [
                of(
                    operands.scale_a,
                    op.m,
                    group,
                    mods.scale_sel_a,
                    mods.scale_fmt_a,
                ),
                of(
                    operands.scale_b,
                    op.n,
                    group,
                    mods.scale_sel_b,
                    mods.scale_fmt_b,
                ),
            ]
        })
        .collect()
}

fn scaled_f32(
    op: &MatrixOp,
    scales: &[[Vec<scaled::Scale>; 2]],
    at: &At,
    a: &[f32],
    b: &[f32],
    c: f32,
    block: usize,
) -> f32 {
    a.chunks(block)
        .zip(b.chunks(block))
        .enumerate()
        .fold(c, |sum, (group, (a, b))| {
            let one = Some((1, 0));
            let (sa, sb) = match scales.get(group) {
                Some([rows, columns]) if op.kind == Kind::Scaled => {
                    (rows[at.row], columns[at.column])
                }
                _ => (one, one),
            };
            let both = sa.zip(sb).map(|((ma, ea), (mb, eb))| (ma * mb, ea + eb));
            scaled::block(a, b, sum, both)
        })
}
