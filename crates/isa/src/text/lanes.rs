//! Movement between lanes: DPP, DPP8, LDS swizzles; SDWA selections.

use crate::target::Target;

/// Does the chip have this `dpp_ctrl`?
pub(crate) fn dpp_control_exists(target: Target, v: u32) -> bool {
    let generation = target.generation();
    match v {
        0..=0xff | 0x101..=0x10f | 0x111..=0x11f | 0x121..=0x12f | 0x140 | 0x141 => true,
        0x130 | 0x134 | 0x138 | 0x13c | 0x142 | 0x143 => generation == 9,
        0x150..=0x15f => target != Target::Gfx908,
        0x160..=0x16f => generation >= 10,
        _ => false,
    }
}

/// `dpp_ctrl` of DPP16.
pub(super) fn dpp(target: Target, v: u32) -> String {
    let n = v & 15;
    match v {
        _ if !dpp_control_exists(target, v) => format!("dpp_ctrl:{v:#x}"),
        0..=0xff => format!(
            "quad_perm:[{},{},{},{}]",
            v & 3,
            v >> 2 & 3,
            v >> 4 & 3,
            v >> 6 & 3
        ),
        0x100..=0x10f => format!("row_shl:{n}"),
        0x110..=0x11f => format!("row_shr:{n}"),
        0x120..=0x12f => format!("row_ror:{n}"),
        0x130 => "wave_shl:1".into(),
        0x134 => "wave_rol:1".into(),
        0x138 => "wave_shr:1".into(),
        0x13c => "wave_ror:1".into(),
        0x140 => "row_mirror".into(),
        0x141 => "row_half_mirror".into(),
        0x142 => "row_bcast:15".into(),
        0x143 => "row_bcast:31".into(),
        0x150..=0x15f if target.generation() >= 10 => format!("row_share:{n}"),
        0x150..=0x15f => format!("row_newbcast:{n}"),
        _ => format!("row_xmask:{n}"),
    }
}

/// Eight selections of three bits.
pub(super) fn dpp8(v: u32) -> String {
    let list: Vec<String> = (0..8).map(|i| (v >> (3 * i) & 7).to_string()).collect();
    format!("dpp8:[{}]", list.join(","))
}

/// Offset of `ds_swizzle_b32`.
pub(super) fn swizzle(v: u32) -> String {
    let v = v & 0xffff;
    if v == 0 {
        return String::new();
    }
    if v & 0xff00 == 0x8000 {
        return format!(
            "offset:swizzle(QUAD_PERM,{},{},{},{})",
            v & 3,
            v >> 2 & 3,
            v >> 4 & 3,
            v >> 6 & 3
        );
    }
    if v >= 0xe000 {
        return format!("offset:swizzle(FFT,{})", v & 31);
    }
    if v >= 0xc000 {
        return format!("offset:swizzle(ROTATE,{},{})", v >> 10 & 1, v >> 5 & 31);
    }
    if v & 0x8000 != 0 {
        return format!("offset:{v}");
    }
    let (and, or, xor) = (v & 31, v >> 5 & 31, v >> 10 & 31);
    if and == 31 && or == 0 && xor.is_power_of_two() {
        return format!("offset:swizzle(SWAP,{xor})");
    }
    if and == 31 && or == 0 && xor > 0 && (xor + 1).is_power_of_two() {
        return format!("offset:swizzle(REVERSE,{})", xor + 1);
    }
    let group = 32 - and;
    if group > 1 && group.is_power_of_two() && or < group && xor == 0 {
        return format!("offset:swizzle(BROADCAST,{group},{or})");
    }
    let mask: String = (0..5)
        .rev()
        .map(|i| {
            let bit = |x: u32| x >> i & 1;
            match (bit(and), bit(or), bit(xor)) {
                (0, o, x) => {
                    if o ^ x == 1 {
                        '1'
                    } else {
                        '0'
                    }
                }
                (_, 1, x) => {
                    if x == 1 {
                        '0'
                    } else {
                        '1'
                    }
                }
                (_, _, 0) => 'p',
                _ => 'i',
            }
        })
        .collect();
    format!("offset:swizzle(BITMASK_PERM,\"{mask}\")")
}

/// Part of a register that SDWA reads or writes.
pub(super) fn sdwa_sel(v: u32) -> String {
    [
        "BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD",
    ]
    .get(v as usize)
    .map_or_else(|| v.to_string(), |s| (*s).into())
}

/// What SDWA does with the rest of the destination.
pub(super) fn sdwa_unused(v: u32) -> String {
    // The fourth code is reserved; LLVM prints it as the first.
    ["UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE", "UNUSED_PAD"][(v & 3) as usize].into()
}
