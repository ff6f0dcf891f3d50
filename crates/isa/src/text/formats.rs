//! Names of buffer formats, export targets and image dimensions.

use crate::target::Target;

/// Default of `format`, which is not printed.
const DEFAULT: u32 = 1;

const DATA: [&str; 16] = [
    "INVALID",
    "8",
    "16",
    "8_8",
    "32",
    "16_16",
    "10_11_11",
    "11_11_10",
    "10_10_10_2",
    "2_10_10_10",
    "8_8_8_8",
    "32_32",
    "16_16_16_16",
    "32_32_32",
    "32_32_32_32",
    "RESERVED_15",
];

const NUMBER: [&str; 8] = [
    "UNORM",
    "SNORM",
    "USCALED",
    "SSCALED",
    "UINT",
    "SINT",
    "RESERVED_6",
    "FLOAT",
];

/// Number formats of a run of unified formats.
const ALL: &[&str] = &[
    "UNORM", "SNORM", "USCALED", "SSCALED", "UINT", "SINT", "FLOAT",
];
const NO_FLOAT: &[&str] = &["UNORM", "SNORM", "USCALED", "SSCALED", "UINT", "SINT"];
const WHOLE: &[&str] = &["UINT", "SINT", "FLOAT"];
const FLOAT: &[&str] = &["FLOAT"];
const NO_SCALED: &[&str] = &["UNORM", "SNORM", "UINT", "SINT"];

/// Unified formats from 1 on, as runs of number formats for a data format.
const GFX10: [(&str, &[&str]); 14] = [
    ("8", NO_FLOAT),
    ("16", ALL),
    ("8_8", NO_FLOAT),
    ("32", WHOLE),
    ("16_16", ALL),
    ("10_11_11", ALL),
    ("11_11_10", ALL),
    ("10_10_10_2", NO_FLOAT),
    ("2_10_10_10", NO_FLOAT),
    ("8_8_8_8", NO_FLOAT),
    ("32_32", WHOLE),
    ("16_16_16_16", ALL),
    ("32_32_32", WHOLE),
    ("32_32_32_32", WHOLE),
];

const GFX11: [(&str, &[&str]); 14] = [
    ("8", NO_FLOAT),
    ("16", ALL),
    ("8_8", NO_FLOAT),
    ("32", WHOLE),
    ("16_16", ALL),
    ("10_11_11", FLOAT),
    ("11_11_10", FLOAT),
    ("10_10_10_2", NO_SCALED),
    ("2_10_10_10", NO_FLOAT),
    ("8_8_8_8", NO_FLOAT),
    ("32_32", WHOLE),
    ("16_16_16_16", ALL),
    ("32_32_32", WHOLE),
    ("32_32_32_32", WHOLE),
];

/// `format` of typed buffer instructions.
pub(super) fn buffer(target: Target, v: u32) -> String {
    if v == DEFAULT {
        return String::new();
    }
    if target.generation() == 9 {
        let (data, number) = (v & 15, v >> 4 & 7);
        let mut parts = Vec::new();
        if data != DEFAULT {
            parts.push(format!("BUF_DATA_FORMAT_{}", DATA[data as usize]));
        }
        if number != 0 {
            parts.push(format!("BUF_NUM_FORMAT_{}", NUMBER[number as usize]));
        }
        return format!("format:[{}]", parts.join(","));
    }
    if v == 0 {
        return "format:[BUF_FMT_INVALID]".into();
    }
    let runs = if target.generation() == 10 {
        &GFX10
    } else {
        &GFX11
    };
    let mut next = v as usize - 1;
    for (data, numbers) in runs {
        match numbers.get(next) {
            Some(number) => return format!("format:[BUF_FMT_{data}_{number}]"),
            None => next -= numbers.len(),
        }
    }
    format!("format:{v}")
}

/// Target of an export.
pub(super) fn export_target(target: Target, v: u32) -> String {
    let generation = target.generation();
    match v {
        0..=7 => format!("mrt{v}"),
        8 => "mrtz".into(),
        9 if generation < 11 => "null".into(),
        12..=15 => format!("pos{}", v - 12),
        16 if generation >= 10 => "pos4".into(),
        20 if generation >= 10 => "prim".into(),
        21 | 22 if generation >= 11 => format!("dual_src_blend{}", v - 21),
        32..=63 if generation < 11 => format!("param{}", v - 32),
        _ => format!("invalid_target_{v}"),
    }
}

const DIMS: [&str; 8] = [
    "1D",
    "2D",
    "3D",
    "CUBE",
    "1D_ARRAY",
    "2D_ARRAY",
    "2D_MSAA",
    "2D_MSAA_ARRAY",
];

/// `dim` of image instructions.
pub(super) fn dim(v: u32) -> String {
    DIMS.get(v as usize)
        .map_or_else(|| format!("dim:{v}"), |d| format!("dim:SQ_RSRC_IMG_{d}"))
}
