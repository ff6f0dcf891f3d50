//! What a matrix instruction computes: shape, element types, hardware generation, modifiers.
//! [`MatrixOp::from_mnemonic`] reads all of it that the name says.

/// Hardware generation; it decides the arithmetic, the register layout and the 8-bit formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// gfx908.
    Cdna1,
    /// gfx90a.
    Cdna2,
    /// gfx942.
    Cdna3,
    /// gfx950.
    Cdna4,
    /// gfx1250 (manual "CDNA5").
    Gfx1250,
    /// gfx1100 and gfx1151.
    Rdna3,
    /// gfx1201.
    Rdna4,
}

impl Family {
    /// The family of a target name such as `gfx942`.
    pub fn from_target(target: &str) -> Option<Family> {
        Some(match target {
            "gfx908" => Family::Cdna1,
            "gfx90a" => Family::Cdna2,
            "gfx942" => Family::Cdna3,
            "gfx950" => Family::Cdna4,
            "gfx1250" => Family::Gfx1250,
            "gfx1100" | "gfx1151" => Family::Rdna3,
            "gfx1201" => Family::Rdna4,
            _ => return None,
        })
    }

    /// Whether the family has MFMA (wave64) rather than WMMA.
    pub fn is_mfma(self) -> bool {
        matches!(
            self,
            Family::Cdna1 | Family::Cdna2 | Family::Cdna3 | Family::Cdna4
        )
    }
}

/// Type of a matrix element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// IEEE double.
    F64,
    /// IEEE single.
    F32,
    /// Single whose low 13 bits are ignored.
    Xf32,
    /// IEEE half.
    F16,
    /// bfloat16.
    Bf16,
    /// OCP E4M3: bias 7, no infinity, 0x7f and 0xff are NaN.
    Fp8,
    /// OCP E5M2: bias 15, IEEE specials.
    Bf8,
    /// E4M3 FNUZ: bias 8, 0x80 is the only NaN, no infinity, no -0.
    Fp8Fnuz,
    /// E5M2 FNUZ: bias 16, 0x80 is the only NaN, no infinity, no -0.
    Bf8Fnuz,
    /// E2M3, finite.
    Fp6,
    /// E3M2, finite.
    Bf6,
    /// E2M1, finite.
    Fp4,
    /// 32-bit integer accumulator.
    I32,
    /// Signed 8-bit integer.
    I8,
    /// 8-bit integer, signed if the operand's NEG bit is set.
    Iu8,
    /// 4-bit integer, signed if the operand's NEG bit is set.
    Iu4,
}

impl Element {
    /// Width in bits in the registers.
    pub const fn bits(self) -> usize {
        match self {
            Element::F64 => 64,
            Element::F32 | Element::Xf32 | Element::I32 => 32,
            Element::F16 | Element::Bf16 => 16,
            Element::Fp8
            | Element::Bf8
            | Element::Fp8Fnuz
            | Element::Bf8Fnuz
            | Element::I8
            | Element::Iu8 => 8,
            Element::Fp6 | Element::Bf6 => 6,
            Element::Fp4 | Element::Iu4 => 4,
        }
    }

    /// Whether the elements are integers.
    pub const fn is_integer(self) -> bool {
        matches!(
            self,
            Element::I32 | Element::I8 | Element::Iu8 | Element::Iu4
        )
    }

    /// The format that a three-bit code of an F8F6F4 instruction names
    /// (CDNA4 section 7.1.5 "Matrix Format", CDNA5 section 7.12.6).
    pub fn from_f8f6f4_code(code: u8) -> Option<Element> {
        Some(match code {
            0 => Element::Fp8,
            1 => Element::Bf8,
            2 => Element::Fp6,
            3 => Element::Bf6,
            4 => Element::Fp4,
            _ => return None,
        })
    }
}

/// What kind of instruction it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// D = A x B + C.
    Dense,
    /// D = A x B + D, two of four elements of A along K stored, chosen by an index register.
    Sparse,
    /// Dense with a scale factor per row of A, column of B and block of K.
    Scaled,
    /// Only loads scale factors: the prefix of a scaled instruction. Computes nothing.
    LoadScale,
}

/// Format of a block scale factor (CDNA5 section 7.12.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ScaleFormat {
    /// Power of two, bias 127, 0xff is NaN.
    #[default]
    E8m0,
    /// Unsigned, five exponent bits, bias 15, 0xff is NaN.
    E5m3,
    /// Unsigned (top bit ignored), four exponent bits, bias 7, 0x7f is NaN.
    E4m3,
}

impl ScaleFormat {
    /// The format that the two-bit code of `matrix_a_scale_fmt` names.
    pub fn from_code(code: u8) -> Option<ScaleFormat> {
        Some(match code {
            0 => ScaleFormat::E8m0,
            1 => ScaleFormat::E5m3,
            2 => ScaleFormat::E4m3,
            _ => return None,
        })
    }
}

/// Modifiers of one instruction as encoded, and the mode bits that matrix instructions read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modifiers {
    /// CBSZ field (MFMA): log2 of the A broadcast, or the choice of the index set (SMFMAC).
    pub cbsz: u8,
    /// ABID field (MFMA): the block of A that is broadcast, or the index set (SMFMAC).
    pub abid: u8,
    /// BLGP field (MFMA): permutation of B's lanes; for f64 negation of A, B, C (bits 0, 1, 2).
    pub blgp: u8,
    /// NEG (neg_lo) bits for A, B, C (WMMA). For iu8 and iu4: signedness of A and B.
    pub neg: u8,
    /// NEG_HI bits for A, B, C (WMMA); bit 2 takes the absolute value of C.
    pub neg_hi: u8,
    /// OP_SEL bits: half of the C and D registers (RDNA3, bit 2).
    pub op_sel: u8,
    /// Index set of SWMMAC (`index_key`).
    pub index_key: u8,
    /// CLAMP bit: integer results saturate.
    pub clamp: bool,
    /// MODE.FP16_OVFL.
    pub fp16_ovfl: bool,
    /// Sums of floats are plain chains of f32 FMAs whatever the hardware does (block scaled ones
    /// excepted): not the hardware's bits, but the host's speed.
    pub fast: bool,
    /// MODE.denorm flushes f32 inputs: A and B of f32 MFMA lose their subnormals.
    pub flush_f32: bool,
    /// Which scale factors of the scale register apply to A: byte 0 to 3 (CDNA4, from
    /// OP_SEL_HI and OP_SEL), or upper half of the lanes (gfx1250, `matrix_a_scale`).
    pub scale_sel_a: u8,
    /// The same for B.
    pub scale_sel_b: u8,
    /// Format of A's scale factors (gfx1250).
    pub scale_fmt_a: ScaleFormat,
    /// Format of B's scale factors (gfx1250).
    pub scale_fmt_b: ScaleFormat,
}

/// A matrix instruction: everything that decides its result but the registers' contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixOp {
    /// Hardware generation.
    pub family: Family,
    /// Dense, sparse, scaled.
    pub kind: Kind,
    /// Rows of A and D in one block.
    pub m: usize,
    /// Columns of B and D in one block.
    pub n: usize,
    /// Length of the dot products (for sparse instructions, before compression).
    pub k: usize,
    /// Independent products in one instruction.
    pub blocks: usize,
    /// Element type of A.
    pub a: Element,
    /// Element type of B.
    pub b: Element,
    /// Element type of C.
    pub c: Element,
    /// Element type of D.
    pub d: Element,
    /// Elements along K that share a scale factor: 0, 16 or 32.
    pub scale_block: usize,
    /// The formats of A and B come from the instruction's fields, not its name.
    pub f8f6f4: bool,
    /// gfx90a `bf16_1k` and everything newer: four bf16 per group instead of two.
    pub bf16_1k: bool,
    /// Lanes of the wave: 32 or 64.
    pub wave: usize,
    /// Modifiers and mode bits.
    pub mods: Modifiers,
}

impl MatrixOp {
    /// Reads a mnemonic (LLVM spelling, any target's) such as `v_mfma_f32_32x32x8_f16`.
    ///
    /// F8F6F4 instructions come back with FP8 for A and B: set them with
    /// [`MatrixOp::with_formats`]. WMMA of RDNA3 and RDNA4 comes back for wave32: set `wave`
    /// for wave64. `None` for names that are no matrix instructions.
    pub fn from_mnemonic(name: &str, family: Family) -> Option<MatrixOp> {
        let wave = if family.is_mfma() { 64 } else { 32 };
        let base = MatrixOp {
            family,
            kind: Kind::Dense,
            m: 16,
            n: 16,
            k: 16,
            blocks: 1,
            a: Element::F32,
            b: Element::F32,
            c: Element::F32,
            d: Element::F32,
            scale_block: 0,
            f8f6f4: false,
            bf16_1k: true,
            wave,
            mods: Modifiers::default(),
        };
        let load = |scale_block| {
            Some(MatrixOp {
                kind: Kind::LoadScale,
                scale_block,
                ..base
            })
        };
        match name {
            "v_mfma_ld_scale_b32" | "v_wmma_ld_scale_paired_b32" => return load(32),
            "v_wmma_ld_scale16_paired_b64" => return load(16),
            _ => {}
        }
        const PREFIXES: [(&str, Kind, usize); 7] = [
            ("v_mfma_scale_", Kind::Scaled, 32),
            ("v_wmma_scale16_", Kind::Scaled, 16),
            ("v_wmma_scale_", Kind::Scaled, 32),
            ("v_mfma_", Kind::Dense, 0),
            ("v_wmma_", Kind::Dense, 0),
            ("v_smfmac_", Kind::Sparse, 0),
            ("v_swmmac_", Kind::Sparse, 0),
        ];
        let (rest, kind, scale_block) = PREFIXES
            .iter()
            .find_map(|&(prefix, kind, block)| Some((name.strip_prefix(prefix)?, kind, block)))?;
        let (accumulator, rest) = rest.split_once('_')?;
        let (c, d) = match accumulator {
            "f32" => (Element::F32, Element::F32),
            "f64" => (Element::F64, Element::F64),
            "f16" => (Element::F16, Element::F16),
            "bf16" => (Element::Bf16, Element::Bf16),
            "bf16f32" => (Element::F32, Element::Bf16),
            "i32" => (Element::I32, Element::I32),
            _ => return None,
        };
        let (m, rest) = number(rest)?;
        let (n, rest) = number(rest.strip_prefix('x')?)?;
        let (k, rest) = number(rest.strip_prefix('x')?)?;
        let rest = rest.strip_prefix('_').unwrap_or(rest);
        let (blocks, rest) = match rest.split_once("b_") {
            Some((count, rest)) => (Some(count.parse::<usize>().ok()?), rest),
            None => (None, rest),
        };
        let (types, one_k) = match rest.strip_suffix("_1k") {
            Some(types) => (types, true),
            None => (rest, false),
        };
        let (a, b) = elements(types, family)?;
        let bf16_1k = one_k || !matches!(family, Family::Cdna1 | Family::Cdna2);
        let mut op = MatrixOp {
            kind,
            m,
            n,
            k,
            a,
            b,
            c,
            d,
            scale_block,
            f8f6f4: types == "f8f6f4",
            bf16_1k,
            ..base
        };
        op.blocks = blocks.unwrap_or_else(|| op.implied_blocks());
        Some(op)
    }

    /// The block count that older names leave out: the lanes hold `per_lane` values of K each.
    fn implied_blocks(&self) -> usize {
        if !matches!(self.family, Family::Cdna1 | Family::Cdna2) {
            return 1;
        }
        let per_lane = match self.a {
            Element::F16 | Element::I8 => 4,
            Element::Bf16 => {
                if self.bf16_1k {
                    4
                } else {
                    2
                }
            }
            _ => 1,
        };
        (64 * per_lane / (self.k * self.m)).max(1)
    }

    /// The same instruction with the formats of an F8F6F4 instruction's fields (0 to 4).
    pub fn with_formats(mut self, a_code: u8, b_code: u8) -> Option<MatrixOp> {
        if self.f8f6f4 {
            self.a = Element::from_f8f6f4_code(a_code)?;
            self.b = Element::from_f8f6f4_code(b_code)?;
        }
        Some(self)
    }

    /// Length of A's rows as stored: K, or K/2 for sparse instructions.
    pub fn stored_k(&self) -> usize {
        if self.kind == Kind::Sparse {
            self.k / 2
        } else {
            self.k
        }
    }
}

fn number(text: &str) -> Option<(usize, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// The types at the end of a name: one for both operands, or one for each.
fn elements(types: &str, family: Family) -> Option<(Element, Element)> {
    let fnuz = family == Family::Cdna3;
    let fp8 = if fnuz { Element::Fp8Fnuz } else { Element::Fp8 };
    let bf8 = if fnuz { Element::Bf8Fnuz } else { Element::Bf8 };
    Some(match types {
        "f32" => (Element::F32, Element::F32),
        "f64" => (Element::F64, Element::F64),
        "xf32" => (Element::Xf32, Element::Xf32),
        "f16" => (Element::F16, Element::F16),
        "bf16" => (Element::Bf16, Element::Bf16),
        "i8" => (Element::I8, Element::I8),
        "iu8" => (Element::Iu8, Element::Iu8),
        "iu4" => (Element::Iu4, Element::Iu4),
        "f4" => (Element::Fp4, Element::Fp4),
        "f8f6f4" => (Element::Fp8, Element::Fp8),
        "fp8_fp8" | "fp8fp8" => (fp8, fp8),
        "fp8_bf8" | "fp8bf8" => (fp8, bf8),
        "bf8_fp8" | "bf8fp8" => (bf8, fp8),
        "bf8_bf8" | "bf8bf8" => (bf8, bf8),
        _ => return None,
    })
}
