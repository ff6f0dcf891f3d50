//! A dense product as whoever compiles it sees it: where its elements lie and how its sums are formed, if that is one of
//! the ways that depend on the operands not at all, or by simple bounds.

use super::layout::{self, KSplit, Slot};
use super::op::{Element, Kind, MatrixOp};
use super::scalar::{Algorithm, algorithm};
use super::unpack::flush_limit;

/// Where the bits of an element begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Register of the operand. An f64 goes on in the next one.
    pub register: u32,
    /// Lane.
    pub lane: u32,
    /// Bit within the word.
    pub bit: u32,
}

/// How sums are formed. A NaN becomes the one that matrix instructions give, 0x7fc00000 or 0x7ff8000000000000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// Accumulators, to which products are added by FMAs of f32 in order of k.
    Chain,
    /// The same in f64.
    Double,
    /// Of four k each: two products and two products, each pair by an FMA, then their sum; all of them added to the
    /// accumulators one after the other, in f32. Accumulators that are subnormal or zero are +0. A and B are f16, or bf16
    /// within the bounds of [`Form::guard`].
    Tree,
    /// CDNA 3's rule, of groups of so many products; with `parity` even and odd k have grids of their own. A and B are
    /// finite, and bf16 and xf32 within the bounds of [`Form::guard`].
    Fused {
        /// Products.
        group: usize,
        /// Of 8-bit floats.
        parity: bool,
    },
    /// Products of bytes of which A's or B's are signed, added to accumulators of 32 bits, which wrap.
    Bytes {
        /// A's and B's.
        signed: [bool; 2],
    },
}

/// What operands have to be within.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Elements of A and B, of 16 or 32 bits, are zero or have a magnitude from the first to below the second of these bits.
    pub elements: [u32; 2],
    /// If no element has any of these bits, sums are likely to be exact, which there are shorter ways for; 0 if there are
    /// none.
    pub whole: u32,
}

/// A dense product that can be compiled. Vectors of 16 lanes of D hold 16 columns of a row, and the lanes of B that have
/// these columns for a k are side by side; so are 16 rows of A. Operands have no modifiers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Form {
    op: MatrixOp,
    sums: Sums,
    flushes: bool,
    splits: [KSplit; 2],
}

impl Form {
    /// The form of an instruction; `None` if it has none.
    pub fn new(op: &MatrixOp) -> Option<Form> {
        let mods = &op.mods;
        let integer = op.a.is_integer();
        let permutes = op.family.is_mfma() && (mods.cbsz != 0 || mods.blgp != 0);
        // Bit 2 is of accumulators; of integers the others say that they are signed.
        let signs = !op.family.is_mfma() && !integer && mods.neg | mods.neg_hi != 0;
        if op.kind != Kind::Dense
            || permutes
            || signs
            || mods.clamp
            || mods.fp16_ovfl
            || op.c != op.d
            || op.a.bits() != op.b.bits()
            || op.m != op.n
            || !op.n.is_multiple_of(16)
        {
            return None;
        }
        let flushes = flush_limit(op, op.a) != 0.0;
        let sums = match (algorithm(op), op.a) {
            (Algorithm::Chain, Element::F64) if op.d == Element::F64 => Sums::Double,
            (
                Algorithm::Chain,
                Element::F32 | Element::F16 | Element::Bf16 | Element::Fp8 | Element::Bf8,
            ) if op.d == Element::F32 && (!flushes || op.a == Element::F32) => Sums::Chain,
            (
                Algorithm::Tree {
                    group: 4,
                    flush: true,
                },
                Element::F16 | Element::Bf16,
            ) if op.d == Element::F32 && flushes && op.k.is_multiple_of(4) => Sums::Tree,
            (
                Algorithm::Fused { group, parity },
                Element::Xf32
                | Element::F16
                | Element::Bf16
                | Element::Fp8
                | Element::Bf8
                | Element::Fp8Fnuz
                | Element::Bf8Fnuz,
            ) if op.d == Element::F32 && !flushes && op.k.is_multiple_of(group.min(op.k)) => {
                let group = group.min(op.k);
                Sums::Fused { group, parity }
            }
            (Algorithm::Integer, Element::I8 | Element::Iu8) if op.d == Element::I32 => {
                let signed = |operand: u8| op.a == Element::I8 || mods.neg >> operand & 1 == 1;
                Sums::Bytes {
                    signed: [signed(0), signed(1)],
                }
            }
            _ => return None,
        };
        let form = Form {
            op: *op,
            sums,
            flushes,
            splits: [layout::a_split(op), layout::b_split(op)],
        };
        form.is_regular().then_some(form)
    }

    /// How its sums are formed.
    pub fn sums(&self) -> Sums {
        self.sums
    }

    /// Whether elements of A and B that are subnormal or zero are +0; then they are f16 or f32.
    pub fn flushes(&self) -> bool {
        self.flushes
    }

    /// What A and B have to be within for its sums to be formed as it says.
    ///
    /// Trees: from 2^-50 to below 2^51 no product of bf16 and no sum of them is subnormal: all are multiples of 2^-114. Nor
    /// are sums with accumulators from 2^-102 on, which are multiples of 2^-125.
    ///
    /// Fused sums: from 2^-49 to below 2^49 sums of two exponents fit a byte, and 2^(24 - E) is within f32.
    pub fn guard(&self) -> Option<Guard> {
        match (self.sums, self.op.a) {
            (Sums::Tree, Element::Bf16) => Some(Guard {
                elements: [(127 - 50) << 7, (127 + 51) << 7],
                whole: 0,
            }),
            (Sums::Fused { .. }, Element::Bf16) => Some(Guard {
                elements: [(127 - 49) << 7, (127 + 49) << 7],
                whole: 0x7,
            }),
            (Sums::Fused { .. }, Element::Xf32) => Some(Guard {
                elements: [(127 - 49) << 23, (127 + 49) << 23],
                whole: 0x7_e000,
            }),
            (Sums::Fused { .. }, Element::F16) => Some(Guard {
                elements: [1, 0x7c00],
                whole: 0x3f,
            }),
            _ => None,
        }
    }

    /// The types of A and B, which have the same number of bits.
    pub fn elements(&self) -> [Element; 2] {
        [self.op.a, self.op.b]
    }

    /// Blocks, each a product of its own.
    pub fn blocks(&self) -> usize {
        self.op.blocks
    }

    /// Rows and columns of D, of which there are as many, and the length of the sums.
    pub fn shape(&self) -> [usize; 3] {
        [self.op.m, self.op.n, self.op.k]
    }

    /// Elements of A and B with successive k that share a word, the first in its lowest bits.
    pub fn per_word(&self) -> usize {
        (32 / self.op.a.bits()).max(1)
    }

    /// A\[block, row, k\].
    pub fn a(&self, block: usize, row: usize, k: usize) -> Place {
        let slot = layout::a_slot(&self.op, self.splits[0], block, row, k);
        place(slot, self.op.a)
    }

    /// B\[block, k, column\].
    pub fn b(&self, block: usize, k: usize, column: usize) -> Place {
        let slot = layout::b_slot(&self.op, self.splits[1], block, k, column);
        place(slot, self.op.b)
    }

    /// D\[block, row, column\], and that of C.
    pub fn d(&self, block: usize, row: usize, column: usize) -> Place {
        place(layout::d_slot(&self.op, block, row, column), self.op.d)
    }

    /// Whether rows, columns and words lie side by side as the type promises.
    fn is_regular(&self) -> bool {
        let [m, n, k] = self.shape();
        let items = self.per_word();
        let beside = |first: Place, other: Place, lane: usize| {
            other
                == Place {
                    lane: first.lane + lane as u32,
                    ..first
                }
        };
        let sixteen = |first: usize, at: &dyn Fn(usize) -> Place| {
            (0..16).all(|i| beside(at(first), at(first + i), i))
                && at(first).lane.is_multiple_of(16)
        };
        let strided = |count: usize, at: &dyn Fn(usize) -> Place| {
            (0..count).step_by(16).all(|first| sixteen(first, at))
        };
        let in_word = |at: &dyn Fn(usize) -> Place| {
            (0..k).all(|k| {
                let (first, place) = (at(k / items * items), at(k));
                let bit = (k % items * self.op.a.bits()) as u32;
                first.bit == 0 && place == Place { bit, ..first }
            })
        };
        k.is_multiple_of(items)
            && (0..self.op.blocks).all(|block| {
                (0..k).all(|k| {
                    strided(m, &|row| self.a(block, row, k))
                        && strided(n, &|column| self.b(block, k, column))
                }) && (0..m).all(|row| strided(n, &|column| self.d(block, row, column)))
                    && in_word(&|k| self.a(block, 0, k))
                    && in_word(&|k| self.b(block, k, 0))
            })
    }
}

fn place(slot: Slot, element: Element) -> Place {
    let bit = slot.item * element.bits();
    Place {
        register: (bit / 32) as u32,
        lane: slot.lane as u32,
        bit: (bit % 32) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::Family;

    #[test]
    fn the_common_shapes_have_forms() {
        for (family, name, sums) in [
            (Family::Cdna2, "v_mfma_f32_32x32x2f32", Sums::Chain),
            (Family::Cdna3, "v_mfma_f32_16x16x1_4b_f32", Sums::Chain),
            (Family::Cdna3, "v_mfma_f32_32x32x1_2b_f32", Sums::Chain),
            (Family::Cdna2, "v_mfma_f64_16x16x4f64", Sums::Double),
            (Family::Cdna2, "v_mfma_f32_32x32x8f16", Sums::Tree),
            (Family::Cdna2, "v_mfma_f32_32x32x8bf16_1k", Sums::Tree),
            (
                Family::Cdna3,
                "v_mfma_f32_32x32x8_f16",
                Sums::Fused {
                    group: 8,
                    parity: false,
                },
            ),
            (
                Family::Cdna3,
                "v_mfma_f32_16x16x8_xf32",
                Sums::Fused {
                    group: 4,
                    parity: false,
                },
            ),
            (
                Family::Cdna4,
                "v_mfma_f32_16x16x32_bf8_fp8",
                Sums::Fused {
                    group: 16,
                    parity: true,
                },
            ),
            (Family::Rdna4, "v_wmma_f32_16x16x16_bf16", Sums::Chain),
            (Family::Rdna4, "v_wmma_f32_16x16x16_fp8_bf8", Sums::Chain),
            (Family::Gfx1250, "v_wmma_f32_16x16x32_f16", Sums::Chain),
            (
                Family::Cdna3,
                "v_mfma_i32_32x32x16_i8",
                Sums::Bytes {
                    signed: [true, true],
                },
            ),
            (
                Family::Rdna3,
                "v_wmma_i32_16x16x16_iu8",
                Sums::Bytes {
                    signed: [false, false],
                },
            ),
        ] {
            let op = MatrixOp::from_mnemonic(name, family).expect(name);
            let form = Form::new(&op).unwrap_or_else(|| panic!("{family:?} {name}"));
            assert_eq!(form.sums(), sums, "{family:?} {name}");
        }
    }

    #[test]
    fn what_looks_at_its_operands_has_none() {
        for (family, name) in [
            (Family::Cdna2, "v_mfma_f32_32x32x4bf16"),
            (Family::Cdna3, "v_mfma_f32_4x4x1_16b_f32"),
            (Family::Cdna3, "v_smfmac_i32_32x32x32_i8"),
            (Family::Rdna3, "v_wmma_f32_16x16x16_f16"),
            (Family::Rdna4, "v_wmma_f16_16x16x16_f16"),
        ] {
            let op = MatrixOp::from_mnemonic(name, family).expect(name);
            assert!(Form::new(&op).is_none(), "{family:?} {name}");
        }
        let mut flushing = MatrixOp::from_mnemonic("v_mfma_f32_32x32x8f16", Family::Cdna2).unwrap();
        flushing.mods.fast = true;
        assert!(Form::new(&flushing).is_none());
    }
}
