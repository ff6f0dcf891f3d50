//! Cache policy bits, which every generation names in its own way.

use crate::generated::names::{Flag, Format};
use crate::inst::Inst;
use crate::target::Target;

/// `cpol` of memory instructions.
pub(super) fn policy(inst: &Inst, v: u32) -> String {
    let target = inst.target();
    if target.generation() >= 12 {
        return modern(inst, v);
    }
    let new_names = matches!(target, Target::Gfx942 | Target::Gfx950);
    let mut out = Vec::new();
    if v & 1 != 0 {
        out.push(if new_names && inst.format() != Format::SMEM {
            "sc0"
        } else {
            "glc"
        });
    }
    if v & 2 != 0 {
        out.push(if new_names { "nt" } else { "slc" });
    }
    if v & 4 != 0 && target.generation() >= 10 {
        out.push("dlc");
    }
    if v & 16 != 0 && target != Target::Gfx908 {
        out.push(if new_names { "sc1" } else { "scc" });
    }
    out.join(" ")
}

/// gfx12: temporal hint in bits 0 to 2, scope in 3 and 4, non-volatile in 5, scale_offset in 11.
fn modern(inst: &Inst, v: u32) -> String {
    let mut out = Vec::new();
    let (th, scope) = (v & 7, v >> 3 & 3);
    if v & 0x800 != 0 {
        out.push("scale_offset".into());
    }
    if th != 0 {
        out.push(format!("th:{}", hint(inst, th, scope)));
    }
    if scope != 0 {
        out.push(format!(
            "scope:{}",
            ["SCOPE_CU", "SCOPE_SE", "SCOPE_DEV", "SCOPE_SYS"][scope as usize]
        ));
    }
    if v & 0x20 != 0 {
        out.push("nv".into());
    }
    out.join(" ")
}

fn hint(inst: &Inst, th: u32, scope: u32) -> String {
    let row = inst.row();
    if row.has_flag(Flag::IsAtomicRet) || row.has_flag(Flag::IsAtomicNoRet) {
        return match th {
            1 => "TH_ATOMIC_RETURN".into(),
            2 => "TH_ATOMIC_NT".into(),
            3 => "TH_ATOMIC_NT_RETURN".into(),
            4 | 5 if scope >= 2 => "TH_ATOMIC_CASCADE_RT".into(),
            6 | 7 if scope >= 2 => "TH_ATOMIC_CASCADE_NT".into(),
            _ => format!("TH_ATOMIC_{th:#x}"),
        };
    }
    // Copies from LDS to memory count as stores, though they load from LDS.
    let store = row.has_flag(Flag::mayStore)
        && (!row.has_flag(Flag::mayLoad) || row.op.name().contains("_store_"));
    let prefix = if store { "TH_STORE_" } else { "TH_LOAD_" };
    let name = match th {
        1 => "NT",
        2 => "HT",
        3 if scope == 3 => "BYPASS",
        3 if store => "WB",
        3 => "LU",
        4 => "NT_RT",
        5 => "RT_NT",
        6 => "NT_HT",
        _ if store => "NT_WB",
        _ => return format!("{th:#x}"),
    };
    format!("{prefix}{name}")
}
