//! Modifiers that are lists of bits or numbers.

use crate::generated::names::{Flag, Format, Name};
use crate::inst::Inst;
use crate::target::Target;

/// `word:value`; masks of DPP in hexadecimal and always, others if they are not zero.
pub(super) fn number(inst: &Inst, name: Name, word: &str, v: u32) -> String {
    match name {
        Name::offset if inst.format() == Format::SMEM => {
            format!("{word}:{}", signed_hex(inst, name, v))
        }
        Name::row_mask | Name::bank_mask | Name::dmask if v != 0 || name != Name::dmask => {
            format!("{word}:{v:#x}")
        }
        Name::waitexp | Name::waitvdst | Name::waitvsrc => format!("{word}:{v}"),
        _ if v == 0 => String::new(),
        _ => format!("{word}:{v}"),
    }
}

/// Output modifier.
pub(super) fn omod(v: u32) -> &'static str {
    ["", "mul:2", "mul:4", "div:2"][(v & 3) as usize]
}

fn bits(v: u32, n: usize) -> String {
    let list: Vec<&str> = (0..n)
        .map(|i| if v >> i & 1 == 1 { "1" } else { "0" })
        .collect();
    list.join(",")
}

/// Sources that have modifiers, and whether matrix instructions print three in any case.
fn sources(inst: &Inst) -> usize {
    let row = inst.row();
    let modifiers = [
        Name::src0_modifiers,
        Name::src1_modifiers,
        Name::src2_modifiers,
    ];
    let n = modifiers
        .iter()
        .rposition(|&n| row.operand(n).is_some())
        .map_or(0, |i| i + 1);
    let matrix =
        row.has_flag(Flag::IsWMMA) || row.has_flag(Flag::IsSWMMAC) || row.has_flag(Flag::IsMAI);
    if matrix { 3 } else { n }
}

/// `word:[a,b,c]` if any is set.
pub(super) fn list(inst: &Inst, word: &str, v: u32) -> String {
    let n = sources(inst);
    if v & ((1 << n) - 1) == 0 {
        String::new()
    } else {
        format!("{word}:[{}]", bits(v, n))
    }
}

/// `op_sel`: one for each source, and one for the destination where it can be chosen.
pub(super) fn op_sel(inst: &Inst, v: u32) -> String {
    let n = sources(inst);
    if inst.op().name().starts_with("v_permlane16") || inst.op().name().starts_with("v_permlanex16")
    {
        // Fetch-inactive and bound-control.
        return if v & 3 == 0 {
            String::new()
        } else {
            format!("op_sel:[{}]", bits(v, 2))
        };
    }
    if !inst.row().has_flag(Flag::VOP3_OPSEL) || !inst.row().operands.iter().any(|o| o.dst) {
        return list(inst, "op_sel", v);
    }
    let all = v & ((1 << n) - 1) | (v >> 3 & 1) << n;
    if all == 0 {
        String::new()
    } else {
        format!("op_sel:[{}]", bits(all, n + 1))
    }
}

/// `op_sel_hi`: packed instructions do not print all ones, others not all zeros.
pub(super) fn op_sel_hi(inst: &Inst, v: u32) -> String {
    let n = sources(inst);
    let mask = (1 << n) - 1;
    let default = if inst.row().has_flag(Flag::IsPacked) {
        mask
    } else {
        0
    };
    if v & mask == default {
        String::new()
    } else {
        format!("op_sel_hi:[{}]", bits(v, n))
    }
}

/// Offset of a scalar memory instruction, in hexadecimal with its sign.
pub(super) fn smem_offset(inst: &Inst, name: Name, v: u32) -> String {
    signed_hex(inst, name, v)
}

fn signed_hex(inst: &Inst, name: Name, v: u32) -> String {
    match inst.signed_field(name) {
        Some(s) if s < 0 => format!("-{:#x}", s.unsigned_abs()),
        _ => format!("{v:#x}"),
    }
}

/// Offset of a flat instruction.
pub(super) fn flat_offset(inst: &Inst, v: u32) -> String {
    let flat = inst.format() == Format::FLAT;
    let s = match inst.signed_field(Name::offset) {
        Some(s) if !flat => s,
        _ => v as i32,
    };
    if s == 0 {
        String::new()
    } else {
        format!("offset:{s}")
    }
}

/// Truth table of `v_bitop3`.
pub(super) fn bitop3(v: u32) -> String {
    if v == 0 {
        String::new()
    } else if v <= 10 {
        format!("bitop3:{v}")
    } else {
        format!("bitop3:{v:#x}")
    }
}

/// `blgp`, which is `neg` of the sources for the f64 matrix instructions of gfx942 and later.
pub(super) fn blgp(inst: &Inst, v: u32) -> String {
    if v == 0 {
        return String::new();
    }
    let f64_form = inst.op().name().starts_with("v_mfma_f64");
    if f64_form && matches!(inst.target(), Target::Gfx942 | Target::Gfx950) {
        return format!("neg:[{}]", bits(v, 3));
    }
    format!("blgp:{v}")
}

pub(super) const MATRIX_FORMATS: [&str; 5] = [
    "MATRIX_FMT_FP8",
    "MATRIX_FMT_BF8",
    "MATRIX_FMT_FP6",
    "MATRIX_FMT_BF6",
    "MATRIX_FMT_FP4",
];
pub(super) const MATRIX_SCALES: [&str; 2] = ["MATRIX_SCALE_ROW0", "MATRIX_SCALE_ROW1"];
pub(super) const MATRIX_SCALE_FORMATS: [&str; 3] = [
    "MATRIX_SCALE_FMT_E8",
    "MATRIX_SCALE_FMT_E5M3",
    "MATRIX_SCALE_FMT_E4M3",
];

/// `word:NAME`, left out for the first name.
pub(super) fn matrix(word: &str, names: &[&str], v: u32) -> String {
    match names.get(v as usize) {
        _ if v == 0 => String::new(),
        Some(n) => format!("{word}:{n}"),
        None => format!("{word}:{v}"),
    }
}
