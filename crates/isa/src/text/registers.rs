//! Names of registers, constants and literals; source modifiers around them.

use super::Printer;
use crate::generated::names::{Format, Name, Op};
use crate::operand::{FLOATS as FLOAT_BITS, Operand, Special};
use crate::table::{Fmt, Kind, Type};

/// `v5` or `v[5:8]`.
fn run(letter: &str, first: u32, count: u32) -> String {
    if count <= 1 {
        format!("{letter}{first}")
    } else {
        format!("{letter}[{first}:{}]", first + count - 1)
    }
}

fn scalar(first: u8, count: u32) -> String {
    match (first, count) {
        (106, 1) => "vcc_lo".into(),
        (107, 1) => "vcc_hi".into(),
        (106, 2) => "vcc".into(),
        (126, 1) => "exec_lo".into(),
        (127, 1) => "exec_hi".into(),
        (126, 2) => "exec".into(),
        (124, _) => "null".into(),
        (125, _) => "m0".into(),
        (108..=123, _) => run("ttmp", u32::from(first) - 108, count),
        _ => run("s", first.into(), count),
    }
}

fn special(s: Special, count: u32) -> String {
    match (s, count) {
        (Special::FlatScratchLo, 2) => "flat_scratch".into(),
        (Special::XnackMaskLo, 2) => "xnack_mask".into(),
        _ => s.name().into(),
    }
}

const FLOATS: [&str; 8] = ["0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0"];

/// An inline constant from its code.
fn constant(ty: &Type, code: u32) -> String {
    match code {
        128..=192 => (code - 128).to_string(),
        193..=208 => (192 - code as i32).to_string(),
        248 if matches!(ty.fmt, Some(Fmt::Fp64 | Fmt::Int64)) => "0.15915494309189532".into(),
        248 => "0.15915494".into(),
        _ => FLOATS
            .get(code.wrapping_sub(240) as usize)
            .map_or_else(String::new, |s| (*s).into()),
    }
}

/// A literal; one whose value has a shorter encoding is marked, so that it assembles to the same bytes.
fn literal(ty: &Type, value: u64) -> String {
    let v = value as u32;
    let small = match ty.fmt {
        Some(Fmt::Int64) => v <= 64,
        Some(Fmt::Fp64) => v == 0,
        _ => v as i32 >= -16 && v as i32 <= 64,
    };
    let half = matches!(ty.fmt, Some(Fmt::Int16 | Fmt::Fp16 | Fmt::Bf16));
    let float = FLOAT_BITS
        .iter()
        .any(|&(f16, bf16, f32, f64)| match ty.fmt {
            _ if half && v == f32 => true,
            Some(Fmt::Fp16 | Fmt::V2fp16) => v == u32::from(f16),
            Some(Fmt::Bf16 | Fmt::V2bf16) => v == u32::from(bf16),
            Some(Fmt::Fp64) => u64::from(v) << 32 == f64,
            Some(Fmt::Int64) => false,
            _ => v == f32,
        });
    if small || float {
        format!("lit({v:#x})")
    } else if half {
        format!("{:#x}", v & 0xffff)
    } else {
        format!("{value:#x}")
    }
}

/// A float that is an inline constant, by its binary32 pattern.
pub(super) fn float_name(v: u32) -> Option<&'static str> {
    let i = FLOAT_BITS.iter().position(|f| f.2 == v)?;
    FLOATS.get(i).copied().or(Some("0.15915494"))
}

/// A 64-bit literal: a float that 32 bits could hold shows those, one that could be taken for
/// a 32-bit literal is marked.
pub(super) fn literal64(ty: &Type, value: u64) -> String {
    let float = matches!(ty.fmt, Some(Fmt::Fp64 | Fmt::Kimm64));
    if value >> 32 == 0 {
        format!("lit64({value:#x})")
    } else if float && value as u32 == 0 {
        format!("{:#x}", value >> 32)
    } else {
        format!("{value:#x}")
    }
}

impl Printer<'_> {
    /// The source of an export that stands at a place, none if the place is not enabled. Compressed
    /// exports have two sources for four places.
    fn export_source(&self, name: Name) -> Option<Option<Name>> {
        const SOURCES: [Name; 4] = [Name::src0, Name::src1, Name::src2, Name::src3];
        let i = SOURCES.iter().position(|&n| n == name)?;
        if self.inst.format() != Format::EXP {
            return None;
        }
        let shift = u32::from(self.field(Name::compr) == 1);
        Some((self.field(Name::en) >> i & 1 == 1).then_some(SOURCES[i >> shift]))
    }

    pub(super) fn register(&self, name: Name) -> String {
        let Some(info) = self.inst.row().operand(name) else {
            return String::new();
        };
        let ty = info.ty;
        let count = self.inst.registers(info, self.wave64);
        let name = match self.export_source(name) {
            Some(Some(source)) => source,
            Some(None) => return "off".into(),
            None => name,
        };
        match self.inst.operand(name) {
            None => String::new(),
            Some(Operand::Vgpr(v)) => run("v", v.into(), count),
            Some(Operand::Vgpr16 { reg, high }) => {
                format!("v{reg}.{}", if high { 'h' } else { 'l' })
            }
            Some(Operand::Agpr(a)) => run("a", a.into(), count),
            Some(Operand::Sgpr(s)) => scalar(s, count),
            Some(Operand::Special(s)) => special(s, count),
            Some(Operand::Const(_)) => constant(ty, self.field(name) & 0xff),
            Some(Operand::Literal(_)) if self.field(name) & 0xff == 254 => {
                literal64(ty, self.inst.literal().unwrap_or(0))
            }
            Some(Operand::Literal(_)) => literal(ty, self.inst.literal().unwrap_or(0)),
            Some(Operand::Imm(v)) => v.to_string(),
            Some(Operand::Off) => "off".into(),
        }
    }

    /// A source with its modifiers.
    pub(super) fn modified(&self, modifiers: Name, kind: Kind) -> String {
        let name = match modifiers {
            Name::src0_modifiers => Name::src0,
            Name::src1_modifiers => Name::src1,
            Name::src2_modifiers => Name::src2,
            Name::src0X_modifiers => Name::src0X,
            Name::src0Y_modifiers => Name::src0Y,
            Name::vsrc1X_modifiers => Name::vsrc1X,
            Name::vsrc1Y_modifiers => Name::vsrc1Y,
            Name::vsrc2X_modifiers => Name::vsrc2X,
            Name::vsrc2Y_modifiers => Name::vsrc2Y,
            _ => return String::new(),
        };
        let text = self.register(name);
        let v = self.field(modifiers);
        let packed = matches!(
            self.inst.format(),
            Format::VOP3P | Format::VOP3P_DPP16 | Format::VOP3P_DPP8 | Format::VOP3PX
        );
        // LLVM drops what the DPP forms of 16-bit integer instructions say about signs.
        let integer = matches!(
            self.inst.format(),
            Format::VOP1_DPP16 | Format::VOP2_DPP16 | Format::VOPC_DPP16
        ) && match self.inst.op() {
            Op::v_ldexp_f16 => name == Name::src1,
            Op::v_cvt_pk_f16_fp8 | Op::v_cvt_pk_f16_bf8 => true,
            op => ["_i16", "_u16", "_b16"]
                .iter()
                .any(|e| op.name().ends_with(e)),
        };
        let float = !integer && (kind == Kind::FloatMods || kind == Kind::PackedMods && !packed);
        match kind {
            Kind::IntMods if v & 1 != 0 => format!("sext({text})"),
            // SDWA forms of the fp8 conversions have the bit of integers.
            Kind::FloatMods if v & 0x10 != 0 => format!("sext({text})"),
            _ if float => {
                let number = matches!(
                    self.inst.operand(name),
                    Some(Operand::Const(_) | Operand::Literal(_))
                ) && !text.starts_with("lit");
                match (v & 1 != 0, v & 2 != 0) {
                    (true, true) => format!("-|{text}|"),
                    (false, true) => format!("|{text}|"),
                    (true, false) if number => format!("neg({text})"),
                    (true, false) => format!("-{text}"),
                    (false, false) => text,
                }
            }
            _ => text,
        }
    }
}
