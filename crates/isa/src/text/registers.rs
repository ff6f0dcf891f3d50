//! Names of registers, constants and literals; source modifiers around them.

use super::Printer;
use crate::generated::names::Name;
use crate::operand::{Operand, Special};
use crate::table::{Fmt, Kind, Type};

/// `v5` or `v[5:8]`.
fn run(letter: &str, first: u32, count: u32) -> String {
    if count <= 1 { format!("{letter}{first}") } else { format!("{letter}[{first}:{}]", first + count - 1) }
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
        _ => FLOATS.get(code.wrapping_sub(240) as usize).map_or_else(String::new, |s| (*s).into()),
    }
}

impl Printer<'_> {
    pub(super) fn register(&self, name: Name) -> String {
        let Some(info) = self.inst.row().operand(name) else { return String::new() };
        let ty = info.ty;
        let count = self.inst.registers(info, self.wave64);
        match self.inst.operand(name) {
            None => String::new(),
            Some(Operand::Vgpr(v)) => run("v", v.into(), count),
            Some(Operand::Vgpr16 { reg, high }) => format!("v{reg}.{}", if high { 'h' } else { 'l' }),
            Some(Operand::Agpr(a)) => run("a", a.into(), count),
            Some(Operand::Sgpr(s)) => scalar(s, count),
            Some(Operand::Special(s)) => special(s, count),
            Some(Operand::Const(_)) => constant(ty, self.field(name) & 0xff),
            Some(Operand::Literal(_)) => format!("{:#x}", self.inst.literal().unwrap_or(0)),
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
        match kind {
            Kind::IntMods if v & 1 != 0 => format!("sext({text})"),
            Kind::FloatMods => {
                let number = matches!(self.inst.operand(name), Some(Operand::Const(_) | Operand::Literal(_)));
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
