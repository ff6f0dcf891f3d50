//! Decoded operands: registers, inline constants, literals, special sources.

use crate::table::{Fmt, Reading, Type};
use crate::target::Target;

/// What an operand field names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// First VGPR of the operand.
    Vgpr(u16),
    /// Half of a VGPR.
    Vgpr16 {
        /// The VGPR.
        reg: u16,
        /// Its upper half.
        high: bool,
    },
    /// First AccVGPR of the operand.
    Agpr(u16),
    /// First scalar register, in one numbering for all targets: 0 to 105 SGPRs, 106 and 107 VCC,
    /// 108 to 123 `ttmp0` to `ttmp15`, 124 null, 125 M0, 126 and 127 EXEC.
    Sgpr(u8),
    /// An inline constant, as the bits that the operand's format gives it:
    ///
    /// - Integers are sign-extended to the width of the format (32 bits for packed 16-bit formats).
    /// - Floats have the format's width; packed f16 has them in the low half with zero above, but for
    ///   `v_pk_fmac_f16`, where gfx11 and later fill both halves.
    /// - bf16 has the upper half of the binary32 number; packed bf16 the whole binary32 number,
    ///   of which `op_sel` has to choose the upper half (RDNA3 manual 7.5.1, CDNA5 manual 4.1).
    /// - 16-bit integers read the low half of the binary32 number, packed ones the whole (LLVM's
    ///   assembler says so of the hardware).
    /// - The mix instructions read binary32 unless `op_sel_hi` asks for 16 bits.
    /// - 64-bit packed formats give the constant of one 32-bit half.
    Const(u64),
    /// A literal: the 32 bits of the code, or 64 of a 64-bit literal. For a 64-bit float operand the
    /// 32 bits stand in the upper half, as it reads them; a 64-bit integer operand has
    /// them zero-extended: signed operations have to extend the sign (manuals, "Literal Expansion to 64 bits").
    Literal(u64),
    /// A source that is no register of the register file.
    Special(Special),
    /// A number in the encoding, its bits as they stand there.
    Imm(u32),
    /// A source of an export that is not enabled.
    Off,
}

/// Scalar sources and destinations outside SGPRs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Special {
    /// gfx908 to gfx950: `flat_scratch`, at 102.
    FlatScratchLo,
    FlatScratchHi,
    /// gfx908 to gfx950: `xnack_mask`, at 104.
    XnackMaskLo,
    XnackMaskHi,
    /// gfx1250, at 230.
    FlatScratchBaseLo,
    FlatScratchBaseHi,
    SharedBase,
    SharedLimit,
    PrivateBase,
    PrivateLimit,
    PopsExitingWaveId,
    Vccz,
    Execz,
    Scc,
    LdsDirect,
}

impl Special {
    /// The name of a 32-bit use, as printed.
    pub fn name(self) -> &'static str {
        match self {
            Special::FlatScratchLo => "flat_scratch_lo",
            Special::FlatScratchHi => "flat_scratch_hi",
            Special::XnackMaskLo => "xnack_mask_lo",
            Special::XnackMaskHi => "xnack_mask_hi",
            Special::FlatScratchBaseLo => "src_flat_scratch_base_lo",
            Special::FlatScratchBaseHi => "src_flat_scratch_base_hi",
            Special::SharedBase => "src_shared_base",
            Special::SharedLimit => "src_shared_limit",
            Special::PrivateBase => "src_private_base",
            Special::PrivateLimit => "src_private_limit",
            Special::PopsExitingWaveId => "src_pops_exiting_wave_id",
            Special::Vccz => "src_vccz",
            Special::Execz => "src_execz",
            Special::Scc => "src_scc",
            Special::LdsDirect => "src_lds_direct",
        }
    }
}

/// Scalar encodings below 128.
fn scalar(target: Target, code: u32) -> Option<Operand> {
    let special = |s| Some(Operand::Special(s));
    let generation = target.generation();
    match code {
        102 if generation == 9 => special(Special::FlatScratchLo),
        103 if generation == 9 => special(Special::FlatScratchHi),
        104 if generation == 9 => special(Special::XnackMaskLo),
        105 if generation == 9 => special(Special::XnackMaskHi),
        124 if generation < 11 => Some(Operand::Sgpr(125)),
        125 if generation == 9 => None,
        125 if generation == 10 => Some(Operand::Sgpr(124)),
        0..=127 => Some(Operand::Sgpr(code as u8)),
        _ => None,
    }
}

/// Inline constants 0.5 to 1/(2 pi), encodings 240 to 248, in four formats.
pub(crate) const FLOATS: [(u16, u16, u32, u64); 9] = [
    (0x3800, 0x3f00, 0x3f00_0000, 0x3fe0_0000_0000_0000),
    (0xb800, 0xbf00, 0xbf00_0000, 0xbfe0_0000_0000_0000),
    (0x3c00, 0x3f80, 0x3f80_0000, 0x3ff0_0000_0000_0000),
    (0xbc00, 0xbf80, 0xbf80_0000, 0xbff0_0000_0000_0000),
    (0x4000, 0x4000, 0x4000_0000, 0x4000_0000_0000_0000),
    (0xc000, 0xc000, 0xc000_0000, 0xc000_0000_0000_0000),
    (0x4400, 0x4080, 0x4080_0000, 0x4010_0000_0000_0000),
    (0xc400, 0xc080, 0xc080_0000, 0xc010_0000_0000_0000),
    (0x3118, 0x3e22, 0x3e22_f983, 0x3fc4_5f30_6dc9_c882),
];

fn integer(fmt: Fmt, value: i64) -> u64 {
    match fmt {
        Fmt::Int16 | Fmt::Fp16 | Fmt::Bf16 | Fmt::Kimm16 => value as u16 as u64,
        Fmt::Int64 | Fmt::Fp64 | Fmt::Kimm64 => value as u64,
        _ => value as u32 as u64,
    }
}

fn float(target: Target, fmt: Fmt, code: u32) -> Option<u64> {
    let &(f16, bf16, f32, f64) = FLOATS.get(code.checked_sub(240)? as usize)?;
    Some(match fmt {
        Fmt::Fp16 | Fmt::V2fp16 => f16.into(),
        Fmt::V2fp16Splat if target.generation() >= 11 => u64::from(f16) << 16 | u64::from(f16),
        Fmt::V2fp16Splat => f16.into(),
        Fmt::Bf16 => bf16.into(),
        Fmt::Int16 => (f32 as u16).into(),
        Fmt::Fp64 | Fmt::Int64 => f64,
        _ => f32.into(),
    })
}

/// A source below 256: scalar register, constant or literal. `fmt` is how a constant is read.
fn source(
    target: Target,
    ty: &Type,
    fmt: Option<Fmt>,
    code: u32,
    literal: Option<u64>,
) -> Option<Operand> {
    let special = |s| Some(Operand::Special(s));
    match code {
        254 if target.generation() < 11 && ty.class.ends_with("OrLds_32") => {
            special(Special::LdsDirect)
        }
        // The null register reads as zero where a constant may stand (WMMA's addend).
        124 if target.generation() >= 11 && ty.inline => Some(Operand::Sgpr(124)),
        // LLVM takes the sources from 230 on where it takes no SGPR (matrix addends); their value is defined.
        0..=127 | 254 if !ty.scalar => None,
        0..=127 => scalar(target, code),
        230 => special(Special::FlatScratchBaseLo),
        231 => special(Special::FlatScratchBaseHi),
        235 => special(Special::SharedBase),
        236 => special(Special::SharedLimit),
        237 => special(Special::PrivateBase),
        238 => special(Special::PrivateLimit),
        239 => special(Special::PopsExitingWaveId),
        251 => special(Special::Vccz),
        252 => special(Special::Execz),
        253 => special(Special::Scc),
        254 if target.generation() < 11 && ty.class.starts_with("VS_") => {
            special(Special::LdsDirect)
        }
        254 if target != Target::Gfx1250 || ty.bits != 64 => None,
        254 | 255 => {
            let value = literal?;
            let wide = code == 254;
            Some(Operand::Literal(match fmt {
                Some(Fmt::Fp64) if !wide => value << 32,
                _ => value,
            }))
        }
        128..=192 => Some(Operand::Const(integer(fmt?, i64::from(code) - 128))),
        193..=208 => Some(Operand::Const(integer(fmt?, 192 - i64::from(code)))),
        240..=248 => Some(Operand::Const(float(target, fmt?, code)?)),
        _ => None,
    }
}

/// What a register field of the given type names. `half` is the modifier bit that chooses the
/// half of a VGPR; `partner` the first VGPR of a VOPD.
pub(crate) fn read(
    target: Target,
    ty: &Type,
    fmt: Option<Fmt>,
    raw: u32,
    literal: Option<u64>,
    half: bool,
    partner: u32,
) -> Option<Operand> {
    let low = (raw & 0xff) as u16;
    match ty.reading {
        Reading::Plain => Some(Operand::Imm(raw)),
        Reading::Scalar | Reading::Mask => source(target, ty, fmt, raw, literal),
        // Rows for whole registers do not know the upper halves that 16-bit instructions name from 128 on.
        Reading::Vgpr if low >= 128 && ty.class.ends_with("_Lo128") => None,
        Reading::Source if raw >= 384 && ty.class.ends_with("_Lo128") => None,
        Reading::Vgpr => Some(Operand::Vgpr(low)),
        Reading::Agpr => Some(Operand::Agpr(low)),
        Reading::VgprOrAgpr if raw & 0x200 != 0 && target == Target::Gfx908 => None,
        Reading::VgprOrAgpr if raw & 0x200 != 0 => Some(Operand::Agpr(low)),
        Reading::VgprOrAgpr => Some(Operand::Vgpr(low)),
        Reading::Source
            if raw >= 256 && (ty.class.starts_with('S') || ty.class.starts_with("AReg")) =>
        {
            None
        }
        Reading::Source if raw >= 256 => Some(Operand::Vgpr(low)),
        Reading::SourceAgpr if raw >= 256 => Some(Operand::Agpr(low)),
        Reading::SourceVgprOrAgpr if raw & 0x300 == 0x300 => Some(Operand::Agpr(low)),
        Reading::SourceVgprOrAgpr if raw & 0x100 != 0 => Some(Operand::Vgpr(low)),
        Reading::Source16 if raw & 0x100 != 0 => Some(Operand::Vgpr16 {
            reg: low,
            high: half || raw & 0x200 != 0,
        }),
        Reading::Source16Low if raw & 0x100 != 0 => Some(Operand::Vgpr16 {
            reg: low & 0x7f,
            high: raw & 0x80 != 0,
        }),
        Reading::Source
        | Reading::SourceAgpr
        | Reading::SourceVgprOrAgpr
        | Reading::Source16
        | Reading::Source16Low => source(target, ty, fmt, raw & 0xff, literal),
        Reading::Vgpr16 => Some(Operand::Vgpr16 {
            reg: low,
            high: half || raw & 0x200 != 0,
        }),
        Reading::Vgpr16Low => Some(Operand::Vgpr16 {
            reg: low & 0x7f,
            high: raw & 0x80 != 0,
        }),
        Reading::Sdwa if raw & 0x100 == 0 => Some(Operand::Vgpr(low)),
        Reading::Sdwa => match raw & 0xff {
            254 | 255 => None,
            code => source(target, ty, fmt, code, None),
        },
        Reading::SdwaMask if raw & 0x80 == 0 => Some(Operand::Sgpr(106)),
        Reading::SdwaMask => scalar(target, raw & 0x7f),
        Reading::VopdY => Some(Operand::Vgpr((raw & 0xfe | !partner & 1) as u16)),
    }
}
