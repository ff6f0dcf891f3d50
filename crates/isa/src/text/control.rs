//! Immediates of program control: wait counters, hardware registers, messages, delays.

use super::registers::float_name;
use crate::target::Target;

/// An immediate without a form of its own: decimal where it could be an inline constant.
pub(super) fn plain(v: u32, bits: u16) -> String {
    if bits == 32 && v as i32 >= -16 && v as i32 <= 64 {
        return (v as i32).to_string();
    }
    if let (32, Some(name)) = (bits, float_name(v)) {
        return name.into();
    }
    if v <= 64 {
        v.to_string()
    } else {
        format!("{v:#x}")
    }
}

/// A 16-bit immediate.
pub(super) fn u16_operand(v: u32) -> String {
    format!("{:#x}", v & 0xffff)
}

/// `s_version`: the version in bits 0 to 7, wave size and MDP bits in 13 to 15.
pub(super) fn version(v: u32) -> String {
    if v & 0x1f00 != 0 {
        return format!("{v:#x}");
    }
    let mut out = match v & 0xff {
        0 => "UC_VERSION_GFX7".into(),
        4 => "UC_VERSION_GFX10".into(),
        6 => "UC_VERSION_GFX11".into(),
        9 => "UC_VERSION_GFX12".into(),
        n => n.to_string(),
    };
    let mut flags = 0;
    for (bit, name) in [(0x2000, "W64"), (0x4000, "W32"), (0x8000, "MDP")] {
        if v & bit != 0 {
            if flags > 0 {
                out = format!("({out})");
            }
            out = format!("{out}|UC_VERSION_{name}_BIT");
            flags += 1;
        }
    }
    out
}

/// `s_waitcnt`: counters that are not at their maximum, or all if every one is.
pub(super) fn waitcnt(target: Target, v: u32) -> String {
    let (vm, exp, lgkm, vm_max, lgkm_max) = match target.generation() {
        9 => (v & 15 | v >> 10 & 0x30, v >> 4 & 7, v >> 8 & 15, 63, 15),
        10 => (v & 15 | v >> 10 & 0x30, v >> 4 & 7, v >> 8 & 63, 63, 63),
        _ => (v >> 10 & 63, v & 7, v >> 4 & 63, 63, 63),
    };
    let all = vm == vm_max && exp == 7 && lgkm == lgkm_max;
    let mut out = Vec::new();
    if all || vm != vm_max {
        out.push(format!("vmcnt({vm})"));
    }
    if all || exp != 7 {
        out.push(format!("expcnt({exp})"));
    }
    if all || lgkm != lgkm_max {
        out.push(format!("lgkmcnt({lgkm})"));
    }
    out.join(" ")
}

/// Counters of `s_waitcnt_depctr` and `s_wait_alu`: name, lowest bit, width, in the order of printing.
const DEPCTR: [(&str, u32, u32); 7] = [
    ("hold_cnt", 7, 1),
    ("sa_sdst", 0, 1),
    ("va_vdst", 12, 4),
    ("va_sdst", 9, 3),
    ("va_ssrc", 8, 1),
    ("va_vcc", 1, 1),
    ("vm_vsrc", 2, 3),
];

pub(super) fn depctr(v: u32) -> String {
    if v & 0x60 != 0 {
        return format!("{v:#x}");
    }
    let fields =
        DEPCTR.map(|(n, low, width)| (n, v >> low & ((1 << width) - 1), (1u32 << width) - 1));
    let all = fields.iter().all(|f| f.1 == f.2);
    let list: Vec<String> = fields
        .iter()
        .filter(|f| all || f.1 != f.2)
        .map(|f| format!("depctr_{}({})", f.0, f.1))
        .collect();
    list.join(" ")
}

/// Hardware registers: name, number, first and last generation, and the targets of CDNA that have it.
fn hwreg_name(target: Target, id: u32) -> Option<&'static str> {
    let generation = target.generation();
    let mi300 = matches!(target, Target::Gfx942 | Target::Gfx950);
    if generation == 12 {
        return Some(match id {
            1 => "WAVE_MODE",
            2 => "WAVE_STATUS",
            4 => "WAVE_STATE_PRIV",
            5 => "WAVE_GPR_ALLOC",
            6 => "WAVE_LDS_ALLOC",
            7 => "IB_STS",
            10 => "PERF_SNAPSHOT_DATA",
            11 => "PERF_SNAPSHOT_PC_LO",
            12 => "PERF_SNAPSHOT_PC_HI",
            15 => "PERF_SNAPSHOT_DATA1",
            16 => "PERF_SNAPSHOT_DATA2",
            17 => "WAVE_EXCP_FLAG_PRIV",
            18 => "WAVE_EXCP_FLAG_USER",
            19 => "WAVE_TRAP_CTRL",
            20 => "WAVE_SCRATCH_BASE_LO",
            21 => "WAVE_SCRATCH_BASE_HI",
            23 => "WAVE_HW_ID1",
            24 => "WAVE_HW_ID2",
            26 => "WAVE_SCHED_MODE",
            28 if target == Target::Gfx1250 => "IB_STS2",
            29 => "SHADER_CYCLES_LO",
            30 => "SHADER_CYCLES_HI",
            31 => "WAVE_DVGPR_ALLOC_LO",
            32 => "WAVE_DVGPR_ALLOC_HI",
            33 if target == Target::Gfx1250 => "XNACK_STATE_PRIV",
            34 if target == Target::Gfx1250 => "XNACK_MASK",
            _ => return None,
        });
    }
    Some(match (id, generation) {
        (1, _) => "MODE",
        (2, _) => "STATUS",
        (3, _) => "TRAPSTS",
        (4, 9) => "HW_ID",
        (5, _) => "GPR_ALLOC",
        (6, _) => "LDS_ALLOC",
        (7, _) => "IB_STS",
        (15, _) => "SH_MEM_BASES",
        (16, 9 | 10) => "TBA_LO",
        (17, 9 | 10) => "TBA_HI",
        (18, 9 | 10) => "TMA_LO",
        (19, 9 | 10) => "TMA_HI",
        (18, 11) => "PERF_SNAPSHOT_PC_LO",
        (19, 11) => "PERF_SNAPSHOT_PC_HI",
        (20, 9) if mi300 => "XCC_ID",
        (21, 9) if mi300 => "SQ_PERF_SNAPSHOT_DATA",
        (22, 9) if mi300 => "SQ_PERF_SNAPSHOT_DATA1",
        (23, 9) if mi300 => "SQ_PERF_SNAPSHOT_PC_LO",
        (24, 9) if mi300 => "SQ_PERF_SNAPSHOT_PC_HI",
        (20, 10 | 11) => "FLAT_SCR_LO",
        (21, 10 | 11) => "FLAT_SCR_HI",
        (23, 10 | 11) => "HW_ID1",
        (24, 10 | 11) => "HW_ID2",
        (25, 10) => "POPS_PACKER",
        (27, 11) => "PERF_SNAPSHOT_DATA",
        (29, 10 | 11) => "SHADER_CYCLES",
        _ => return None,
    })
}

/// `hwreg(NAME, offset, size)`; offset 0 and size 32 are left out.
pub(super) fn hwreg(target: Target, v: u32) -> String {
    let (id, offset, size) = (v & 63, v >> 6 & 31, (v >> 11 & 31) + 1);
    let name = hwreg_name(target, id).map_or_else(|| id.to_string(), |n| format!("HW_REG_{n}"));
    if offset == 0 && size == 32 {
        format!("hwreg({name})")
    } else {
        format!("hwreg({name}, {offset}, {size})")
    }
}

fn message_name(target: Target, id: u32) -> Option<&'static str> {
    let generation = target.generation();
    let mi300 = matches!(target, Target::Gfx942 | Target::Gfx950);
    Some(match (id, generation) {
        (1, _) => "INTERRUPT",
        (2, 9 | 10) => "GS",
        (3, 9 | 10) => "GS_DONE",
        (2, _) => "HS_TESSFACTOR",
        (3, _) => "DEALLOC_VGPRS",
        (4, 9 | 10) => "SAVEWAVE",
        (5, 9) if !mi300 => "STALL_WAVE_GEN",
        (5, 10 | 11) => "STALL_WAVE_GEN",
        (6, 9) if mi300 => "HALT_WAVES",
        (6, 10 | 11) => "HALT_WAVES",
        (7, 9 | 10) => "ORDERED_PS_DONE",
        (8, 9 | 10) => "EARLY_PRIM_DEALLOC",
        (9, _) => "GS_ALLOC_REQ",
        (10, 9) if !mi300 => "GET_DOORBELL",
        (10, 10) => "GET_DOORBELL",
        (11, 10) => "GET_DDID",
        (10, 12) if target == Target::Gfx1250 => "SAVEWAVE_HAS_TDM",
        (15, 9 | 10) => "SYSMSG",
        (128, 11 | 12) => "RTN_GET_DOORBELL",
        (129, 11 | 12) => "RTN_GET_DDID",
        (130, 11 | 12) => "RTN_GET_TMA",
        (131, 11 | 12) => "RTN_GET_REALTIME",
        (132, 11 | 12) => "RTN_SAVE_WAVE",
        (133, 11 | 12) => "RTN_GET_TBA",
        (134, 11 | 12) => "RTN_GET_TBA_TO_PC",
        (135, 12) => "RTN_GET_SE_AID_ID",
        (136, 12) if target == Target::Gfx1250 => "RTN_GET_CLUSTER_BARRIER_STATE",
        _ => return None,
    })
}

/// `sendmsg(MESSAGE, OPERATION, STREAM)`. Before gfx11 bits 0 to 3 are the message, 4 to 6 the operation,
/// 8 and 9 the stream; later the message has eight bits.
pub(super) fn sendmsg(target: Target, v: u32) -> String {
    if target.generation() >= 11 {
        return match message_name(target, v & 0xff) {
            Some(n) => format!("sendmsg(MSG_{n})"),
            None if v < 256 => format!("sendmsg({v}, 0, 0)"),
            None => v.to_string(),
        };
    }
    let (id, op, stream) = (v & 15, v >> 4 & 7, v >> 8 & 3);
    let operation = match (id, op) {
        (3, 0) => Some("GS_OP_NOP"),
        (2 | 3, 1) => Some("GS_OP_CUT"),
        (2 | 3, 2) => Some("GS_OP_EMIT"),
        (2 | 3, 3) => Some("GS_OP_EMIT_CUT"),
        (15, 1) => Some("SYSMSG_OP_ECC_ERR_INTERRUPT"),
        (15, 2) => Some("SYSMSG_OP_REG_RD"),
        (15, 4) => Some("SYSMSG_OP_TTRACE_PC"),
        _ => None,
    };
    let has_operation = matches!(id, 2 | 3 | 15);
    let has_stream = matches!(id, 2 | 3) && op != 0;
    let valid = if has_operation {
        operation.is_some()
    } else {
        op == 0
    } && (has_stream || stream == 0);
    match (message_name(target, id), operation) {
        (Some(n), Some(o)) if valid && has_stream => format!("sendmsg(MSG_{n}, {o}, {stream})"),
        (Some(n), Some(o)) if valid && has_operation => format!("sendmsg(MSG_{n}, {o})"),
        (Some(n), _) if valid => format!("sendmsg(MSG_{n})"),
        _ if v == id | op << 4 | stream << 8 => format!("sendmsg({id}, {op}, {stream})"),
        _ => v.to_string(),
    }
}

const DELAYS: [&str; 12] = [
    "NO_DEP",
    "VALU_DEP_1",
    "VALU_DEP_2",
    "VALU_DEP_3",
    "VALU_DEP_4",
    "TRANS32_DEP_1",
    "TRANS32_DEP_2",
    "TRANS32_DEP_3",
    "FMA_ACCUM_CYCLE_1",
    "SALU_CYCLE_1",
    "SALU_CYCLE_2",
    "SALU_CYCLE_3",
];

const SKIPS: [&str; 6] = ["SAME", "NEXT", "SKIP_1", "SKIP_2", "SKIP_3", "SKIP_4"];

/// `s_delay_alu`: dependency in bits 0 to 3, skip in 4 to 6, second dependency in 7 to 10.
pub(super) fn delay_alu(v: u32) -> String {
    let mut out = Vec::new();
    let mut part = |key: &str, value: u32, names: &[&str], bad: &str| {
        if value != 0 {
            let name = names
                .get(value as usize)
                .map_or_else(|| bad.to_string(), |n| (*n).to_string());
            out.push(format!("{key}({name})"));
        }
    };
    part("instid0", v & 15, &DELAYS, "/* invalid instid value */");
    part(
        "instskip",
        v >> 4 & 7,
        &SKIPS,
        "/* invalid instskip value */",
    );
    part(
        "instid1",
        v >> 7 & 15,
        &DELAYS,
        "/* invalid instid value */",
    );
    if out.is_empty() {
        "0".into()
    } else {
        out.join(" | ")
    }
}

/// `s_set_gpr_idx_on` and `s_set_gpr_idx_mode`.
pub(super) fn gpr_idx(v: u32) -> String {
    if v > 15 {
        return format!("{v:#x}");
    }
    let names: Vec<&str> = ["SRC0", "SRC1", "SRC2", "DST"]
        .iter()
        .enumerate()
        .filter(|(i, _)| v >> i & 1 == 1)
        .map(|(_, n)| *n)
        .collect();
    format!("gpr_idx({})", names.join(","))
}
