//! Every vector case of `data/semantics` on every back end of the host, and the programs whose results come from
//! RDNA3 chips. Wrong results fail; instructions without semantics are counted and named.

mod common;

use std::collections::BTreeMap;

use common::{Bench, Case, HardwareCase, Memory, Semantics, hex, hex_bytes, hex_words, semantics};
use rocjitsu_exec::error::Cause;
use rocjitsu_exec::record::Flow;
use rocjitsu_exec::wave::scalar;
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;

/// How the elements of a result are laid out.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Element {
    Halves(Float),
    Word,
    Pair,
    Bits,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Float {
    F16,
    Bf16,
}

fn element(mnemonic: &str) -> Element {
    let name = mnemonic.strip_prefix("v_").unwrap_or(mnemonic);
    if name.starts_with("dual_") {
        return Element::Word;
    }
    if name.starts_with("pack_b32_f16") {
        return Element::Halves(Float::F16);
    }
    for token in name.split('_') {
        return match token {
            "f16" => Element::Halves(Float::F16),
            "bf16" => Element::Halves(Float::Bf16),
            "f32" => Element::Word,
            "f64" => Element::Pair,
            "i16" | "u16" | "b16" | "i32" | "u32" | "b32" | "b64" | "i64" | "u64" | "u8" => {
                Element::Bits
            }
            _ => continue,
        };
    }
    Element::Bits
}

/// A float as a number that counts its neighbours, and whether it is NaN.
fn ordered(bits: u64, width: u32, mantissa: u32) -> (i128, bool) {
    let magnitude = bits & ((1 << (width - 1)) - 1);
    let infinity = ((1u64 << (width - 1 - mantissa)) - 1) << mantissa;
    let signed = if bits >> (width - 1) & 1 != 0 {
        -i128::from(magnitude)
    } else {
        i128::from(magnitude)
    };
    (signed, magnitude > infinity)
}

fn value(bits: u64, width: u32, mantissa: u32) -> f64 {
    match (width, mantissa) {
        (64, _) => f64::from_bits(bits),
        (32, _) => f64::from(f32::from_bits(bits as u32)),
        (_, 7) => f64::from(f32::from_bits((bits as u32) << 16)),
        _ => {
            let (e, m) = (bits >> 10 & 31, (bits & 0x3ff) as f64);
            let size = match e {
                31 if m == 0.0 => f64::INFINITY,
                31 => f64::NAN,
                0 => m * 2f64.powi(-24),
                _ => (1.0 + m / 1024.0) * 2f64.powi(e as i32 - 15),
            };
            if bits >> 15 & 1 != 0 { -size } else { size }
        }
    }
}

/// Whether `got` is what `want` allows.
fn close(case: &Case, got: u64, want: u64, width: u32, mantissa: u32) -> bool {
    if got == want {
        return true;
    }
    let ((a, a_nan), (b, b_nan)) = (
        ordered(got, width, mantissa),
        ordered(want, width, mantissa),
    );
    if case.cmp.k == "bits" {
        return false;
    }
    if a_nan || b_nan {
        return a_nan && b_nan;
    }
    let n = case.cmp.n.unwrap_or(0.0);
    let (x, y) = (value(got, width, mantissa), value(want, width, mantissa));
    match case.cmp.k.as_str() {
        "ulp" => {
            (a - b).unsigned_abs() as f64 <= n
                || case.cmp.abs.is_some_and(|limit| (x - y).abs() <= limit)
        }
        "abs" => (x - y).abs() <= n,
        "rel" => (x - y).abs() <= n * y.abs(),
        "num" => x == y,
        _ => false,
    }
}

/// The lanes of a register after the case, or `None` where it is not given.
fn expected(case: &Case, text: &str, before: &[u32]) -> Vec<u32> {
    let words = hex_words(text);
    if words.len() == before.len() {
        return words;
    }
    let exec = hex(&case.exec);
    let mut next = words.iter();
    (0..before.len())
        .map(|lane| {
            if exec >> lane & 1 != 0 {
                *next.next().unwrap()
            } else {
                before[lane]
            }
        })
        .collect()
}

/// What differs from the case in the state of the bench, if anything. `swallowed` counts the lanes that each of
/// [`LANE_EXCEPTIONS`] excuses.
fn differs(
    all: &Semantics,
    case: &Case,
    bench: &Bench<'_>,
    swallowed: &mut [usize; LANE_EXCEPTIONS.len()],
) -> Option<String> {
    let mut skip = case.skip.as_deref().map_or(0, hex);
    if !keeps_subnormals(&case.m) {
        skip |= case.denorm.as_deref().map_or(0, hex);
    }
    let exec = hex(&case.exec);
    let kind = element(&case.m);
    let half = case.half.as_deref();
    let zeros = vec![0; all.wave as usize];
    let wave = &bench.wave;
    let registers: Vec<u32> = case.out.v.keys().copied().collect();
    let before = |r: &u32| case.v.get(r).map_or(&zeros, |&plane| &all.planes[plane]);
    let wants: BTreeMap<u32, Vec<u32>> = case
        .out
        .v
        .iter()
        .map(|(r, text)| (*r, expected(case, text, before(r))))
        .collect();
    for (&r, want) in &wants {
        let got = wave.v.read(r);
        for lane in (0..all.wave as usize).filter(|l| skip >> l & 1 == 0) {
            let (g, w) = (got[lane], want[lane]);
            let active = exec >> lane & 1 != 0;
            let equal = if g == w || !active {
                g == w
            } else {
                match kind {
                    Element::Bits => false,
                    Element::Word => close(case, g.into(), w.into(), 32, 23),
                    Element::Pair => {
                        let first = registers.iter().position(|&x| x == r).unwrap() % 2 == 0;
                        let (lo, hi) = if first { (r, r + 1) } else { (r - 1, r) };
                        let whole = |lo: u32, hi: u32| u64::from(lo) | u64::from(hi) << 32;
                        match (wants.get(&lo), wants.get(&hi)) {
                            (Some(l), Some(h)) => close(
                                case,
                                whole(wave.v.read(lo)[lane], wave.v.read(hi)[lane]),
                                whole(l[lane], h[lane]),
                                64,
                                52,
                            ),
                            _ => false,
                        }
                    }
                    Element::Halves(float) => {
                        let mantissa = if float == Float::F16 { 10 } else { 7 };
                        [0, 16].iter().all(|s| {
                            close(
                                case,
                                (g >> s & 0xffff).into(),
                                (w >> s & 0xffff).into(),
                                16,
                                mantissa,
                            )
                        })
                    }
                }
            };
            let equal = equal
                || match half {
                    Some("lo") => {
                        matches!(kind, Element::Halves(Float::F16))
                            && close(case, (g & 0xffff).into(), (w & 0xffff).into(), 16, 10)
                            || matches!(kind, Element::Halves(Float::Bf16))
                                && close(case, (g & 0xffff).into(), (w & 0xffff).into(), 16, 7)
                            || (g ^ w) & 0xffff == 0
                    }
                    Some("hi") => {
                        close(case, (g >> 16).into(), (w >> 16).into(), 16, 10)
                            || (g ^ w) >> 16 == 0
                    }
                    _ => false,
                };
            let inputs = || -> Vec<u32> {
                let scalars = case.s.values().map(|v| hex(v) as u32);
                case.v
                    .values()
                    .map(|&plane| all.planes[plane][lane])
                    .chain(scalars)
                    .collect()
            };
            let mut excused = || {
                let inputs = inputs();
                let found = LANE_EXCEPTIONS
                    .iter()
                    .position(|(applies, ..)| applies(case, &inputs, g, w));
                if let Some(n) = found {
                    swallowed[n] += 1;
                }
                found.is_some()
            };
            if !equal && !excused() {
                return Some(format!("v{r} lane {lane}: {g:08x}, expected {w:08x}"));
            }
        }
    }
    for r in case.v.keys().filter(|r| !wants.contains_key(r)) {
        if wave.v.read(*r) != before(r).as_slice() {
            return Some(format!("v{r} changed"));
        }
    }
    for (r, text) in &case.out.a {
        let zero = vec![0; all.wave as usize];
        let before = case.a.get(r).map_or(&zero, |&plane| &all.planes[plane]);
        if wave.v.read(r + 256) != expected(case, text, before).as_slice() {
            return Some(format!("a{r}"));
        }
    }
    if exception(case) == Some(Scope::Masks) {
        return None;
    }
    // Scalars: lane masks, or a value.
    let scalar_only = case.out.v.is_empty()
        && (case.m.contains("readlane")
            || case.m.contains("readfirstlane")
            || case.m.contains("v_s_"));
    if scalar_only && skip != 0 {
        return None;
    }
    let mask = if case.masks.as_deref() == Some("active") {
        exec & !skip
    } else {
        !skip
    };
    let sgprs: Vec<usize> = case.out.s.keys().copied().collect();
    for (&n, text) in &case.out.s {
        let (got, want) = (wave.s[n], hex(text) as u32);
        let equal = if scalar_only {
            match kind {
                Element::Word => close(case, got.into(), want.into(), 32, 23),
                _ => got == want,
            }
        } else {
            let high = sgprs.iter().position(|&x| x == n).unwrap() % 2 == 1;
            (got ^ want) & (if high { mask >> 32 } else { mask }) as u32 == 0
        };
        if !equal {
            return Some(format!("s{n}: {got:08x}, expected {want:08x}"));
        }
    }
    for (n, text) in &case.s {
        if !case.out.s.contains_key(n) && wave.s[*n] != hex(text) as u32 {
            return Some(format!("s{n} changed"));
        }
    }
    let width = |x: u64| if all.wave == 64 { x } else { x & 0xffff_ffff };
    let want_vcc = hex(case.out.vcc.as_ref().unwrap_or(&case.vcc));
    if width(wave.s64(scalar::VCC) ^ want_vcc)
        & if case.out.vcc.is_some() {
            mask
        } else {
            u64::MAX
        }
        != 0
    {
        return Some(format!(
            "vcc: {:x}, expected {want_vcc:x}",
            wave.s64(scalar::VCC)
        ));
    }
    let want_exec = hex(case.out.exec.as_ref().unwrap_or(&case.exec));
    if (wave.exec() ^ want_exec)
        & if case.out.exec.is_some() {
            mask
        } else {
            u64::MAX
        }
        != 0
    {
        return Some(format!("exec: {:x}, expected {want_exec:x}", wave.exec()));
    }
    if u32::from(wave.scc) != case.out.scc.unwrap_or(case.scc) {
        return Some("scc".to_owned());
    }
    if wave.s[scalar::M0] != hex(case.out.m0.as_ref().unwrap_or(&case.m0)) as u32 {
        return Some("m0".to_owned());
    }
    None
}

/// What of a case is not compared.
#[derive(Clone, Copy, PartialEq)]
enum Scope {
    Case,
    Masks,
}

/// Whether lanes with subnormal numbers are compared, too: of sums and products, which the emulator rounds as IEEE says
/// and MODE lets be. Other operations may flush on their own, and the emulator does not know which.
fn keeps_subnormals(mnemonic: &str) -> bool {
    const EXACT: [&str; 9] = [
        "v_add_f",
        "v_sub_f",
        "v_subrev_f",
        "v_mul_f",
        "v_fma_f",
        "v_fmac_f",
        "v_pk_add_f",
        "v_pk_mul_f",
        "v_pk_fma_f",
    ];
    EXACT.iter().any(|name| mnemonic.starts_with(name))
}

/// Files of `data/semantics` with vector cases, and the target that each is for.
const FILES: [Target; 3] = [Target::Gfx950, Target::Gfx1100, Target::Gfx1201];

/// Where the data differ from the manuals, which we follow: which cases, what of them, why, and how many cases of
/// each of [`FILES`]. The first entry that applies counts.
type Exception = (fn(&Case) -> bool, Scope, &'static str, [usize; 3]);
const EXCEPTIONS: &[Exception] = &[
    (
        |c| c.m.starts_with("v_cndmask_b32_dpp"),
        Scope::Case,
        "the emulator ignores neg and abs (V_CNDMASK_B32: floating-point modifiers are valid)",
        [4, 4, 4],
    ),
    (
        |c| c.asm.contains("clamp") && element(&c.m) == Element::Bits,
        Scope::Case,
        "the emulator does not saturate integers (\"ALU Clamp Bit Usage\": largest and smallest representable value)",
        [50, 52, 36],
    ),
    (
        |c| c.m.contains("_i64") && c.m.starts_with("v_cmp") && c.asm.contains(" 0x"),
        Scope::Case,
        "the emulator extends literals of signed 64-bit operations with zeros (\"Literal constants\": sign-extended)",
        [2, 4, 4],
    ),
    (
        |c| {
            matches!(
                c.m.as_str(),
                "v_mad_u64_u32" | "v_mad_i64_i32" | "v_mad_co_u64_u32" | "v_mad_co_i64_i32"
            )
        },
        Scope::Masks,
        "the emulator leaves the mask result as it was (V_MAD_U64_U32: { D1.u1, D0.u64 } = ...)",
        [10, 16, 8],
    ),
    (
        |c| c.f == "VOP2_SDWA" && c.m.contains("_co_"),
        Scope::Masks,
        "the emulator leaves the carry as it was (V_ADD_CO_U32: VCC.u64[laneId] = ...)",
        [24, 0, 0],
    ),
    (
        |c| c.m == "v_mqsad_pk_u16_u8" && c.trust.is_some(),
        Scope::Case,
        "the emulator does not mask the reference bytes of the packed forms (V_MSAD_U8)",
        [4, 6, 6],
    ),
    (
        |c| c.m.starts_with("v_permlane") && c.exec.contains(|digit| digit != 'f'),
        Scope::Case,
        "the emulator reads disabled lanes without FI and, on gfx950, writes them (V_PERMLANE16_B32: OPSEL is FI and \
         BOUND_CTRL; \"EXECute Mask\")",
        [3, 8, 14],
    ),
    (
        |c| c.m == "v_swap_b16",
        Scope::Case,
        "the emulator clears the upper half of one register (\"16-bit VGPR Naming\")",
        [0, 4, 0],
    ),
    (
        |c| c.m.starts_with("v_mad_legacy_i16"),
        Scope::Case,
        "the emulator sign-extends the result (V_MAD_LEGACY_I16: { 16'0, tmp.i16 })",
        [4, 0, 0],
    ),
    (
        |c| c.m.starts_with("v_bitop3_b16") && c.half.is_none(),
        Scope::Case,
        "the emulator clears the upper half (V_BITOP3_B16 writes D.b16, as the other instructions with op_sel)",
        [6, 0, 0],
    ),
    (
        |c| c.m.starts_with("v_cvt_off_f32_i4"),
        Scope::Case,
        "the emulator gives zero (V_CVT_OFF_F32_I4: 4-bit signed to float)",
        [18, 18, 20],
    ),
    (
        |c| c.m.starts_with("v_div_scale") || c.m.starts_with("v_div_fmas"),
        Scope::Case,
        "the manuals' pseudocode, which the emulator follows, contradicts itself: V_DIV_SCALE_F32 scales by 2^64, \
         V_DIV_FMAS_F32 undoes 2^32. RDNA3 chips undo 2^64 and set VCC for zero operands; the CDNA manuals have the same \
         text, so the same is taken for CDNA, of which no results of chips are published \
         (`rocjitsu_lanes::scalar::division`)",
        [24, 32, 12],
    ),
    (
        |c| c.m.contains("dot2") && c.m.contains("_bf16"),
        Scope::Case,
        "the emulator takes bf16 for f16 (V_DOT2_F32_BF16: S0[15 : 0].bf16)",
        [14, 18, 12],
    ),
    (
        |c| c.m.starts_with("v_dot4_f32_"),
        Scope::Case,
        "the emulator multiplies the bytes as unsigned integers (V_DOT4_F32_FP8_FP8: 32'F(S0[7 : 0].fp8) * ...)",
        [0, 0, 24],
    ),
    (
        |c| c.m == "v_cvt_pkaccum_u8_f32",
        Scope::Case,
        "the emulator loses the other bytes (V_CVT_PKACCUM_U8_F32: other bytes are preserved)",
        [4, 0, 0],
    ),
    (
        |c| c.m == "v_cvt_sr_bf16_f32",
        Scope::Case,
        "the emulator changes values that bf16 holds exactly (V_CVT_SR_BF16_F32: nothing is below the last place)",
        [6, 0, 0],
    ),
    (
        |c| c.m.contains("_f16_sdwa") && c.asm.contains("dst_sel:BYTE") && c.cmp.k != "bits",
        Scope::Case,
        "a byte of a result that is given within a few ulp (\"SDWA\": DST_SEL)",
        [70, 0, 0],
    ),
    (
        |c| {
            ["dot2", "v_pk_fmac_f16"].iter().any(|n| c.m.contains(n))
                && c.f != "VOP3P"
                && c.asm.contains(['-', '|'])
        },
        Scope::Case,
        "the emulator applies neg and abs to one half of packed sources (\"VOP3P\": NEG, NEG_HI)",
        [4, 6, 4],
    ),
    (
        |c| c.m.contains("f64") && c.asm.contains("0.15915494309189532"),
        Scope::Case,
        "the emulator has 1/(2*pi) in single precision (\"Inline constants\")",
        [4, 12, 18],
    ),
    (
        |c| c.m == "v_pack_b32_f16" && c.asm.contains("clamp"),
        Scope::Case,
        "the emulator ignores clamp (\"ALU Clamp Bit Usage\")",
        [0, 0, 2],
    ),
    (
        |c| c.m.starts_with("v_s_") && c.asm.contains("clamp"),
        Scope::Case,
        "the emulator does not clamp a NaN to zero (RDNA4 manual, \"DX10_CLAMP\")",
        [0, 0, 2],
    ),
    (
        |c| c.m == "v_mad_legacy_f16" || c.m == "v_fma_legacy_f16",
        Scope::Case,
        "the emulator makes an integer of the sum (V_MAD_LEGACY_F16, V_FMA_LEGACY_F16: D0 = { 16'0, tmp.f16 })",
        [12, 0, 0],
    ),
    (
        |c| c.m == "v_subrev_u16_sdwa",
        Scope::Case,
        "the emulator computes 32 bits (V_SUBREV_U16: D0.u16)",
        [4, 0, 0],
    ),
];

/// Where single lanes differ: which, by the case, the words of its sources in the lane, our word and the data's; why,
/// and how many words of each of [`FILES`].
type LaneException = (
    fn(&Case, &[u32], u32, u32) -> bool,
    &'static str,
    [usize; 3],
);
const LANE_EXCEPTIONS: &[LaneException] = &[
    (
        |c, inputs, got, want| {
            let nan = |w: &u32| {
                if c.m.contains("f32") {
                    f32::from_bits(*w).is_nan()
                } else {
                    w & 0x7fff > 0x7c00 || w >> 16 & 0x7fff > 0x7c00
                }
            };
            // Results that are zeros of either sign, or have such a half.
            let zero = |w: &u32| match c.m.contains("f32") {
                true => w << 1 == 0,
                false => w & 0x7fff == 0 || w >> 16 & 0x7fff == 0,
            };
            let results = [got, want];
            combines_extremes(&c.m)
                && (inputs.iter().chain(&results).any(nan) || results.iter().all(zero))
        },
        "the emulator's combined, packed and dual forms do not treat NaNs and zeros as V_MIN_F32, V_MAX_F32 and \
         V_MINIMUM_F32 do, nor clamp a NaN to zero (\"DX10_CLAMP forces a NAN to zero\")",
        [195, 112, 287],
    ),
    (
        |c, _, got, want| {
            // A zero of the other sign, in a word or in a half.
            let half = |s: u32| {
                let (g, w) = (got >> s & 0xffff, want >> s & 0xffff);
                g == w || (g | w) & 0x7fff == 0
            };
            let halves = matches!(element(&c.m), Element::Halves(_));
            c.asm.contains("clamp")
                && if halves {
                    half(0) && (c.half.as_deref() == Some("lo") || half(16))
                } else {
                    (got | want) << 1 == 0
                }
        },
        "the emulator keeps -0 (RDNA4 manual, \"Output Modifiers\": clamp to the range [0.0, 1.0])",
        [25, 27, 119],
    ),
    (
        |c, _, got, want| {
            c.m.contains("norm_")
                && [0, 16].iter().all(|s| {
                    let (g, w) = (got >> s & 0xffff, want >> s & 0xffff);
                    g.abs_diff(w) <= 1 || [0, 0xffff, 0x7fff, 0x8001].contains(&g)
                })
                || c.asm.contains("dst_sel:BYTE") && c.m.contains("norm_")
        },
        "the emulator does not saturate (V_CVT_NORM_I16_F16: float to signed normalised) and rounds halves up",
        [1414, 743, 775],
    ),
    (
        |c, _, got, want| {
            ["v_cvt_pk_i16_f32", "v_cvt_pk_u16_f32"].contains(&c.m.as_str())
                && [0, 16].iter().all(|s| {
                    let (g, w) = (got >> s & 0xffff, want >> s & 0xffff);
                    g == w || [0, 0xffff, 0x7fff, 0x8000].contains(&g)
                })
                || c.m == "v_cvt_pk_u8_f32"
                    && [0, 8, 16, 24].iter().all(|s| {
                        let (g, w) = (got >> s & 0xff, want >> s & 0xff);
                        g == w || g == 0 || g == 0xff
                    })
        },
        "the emulator neither saturates nor turns NaN into zero (V_CVT_U32_F32: \"NAN is converted to 0\")",
        [2, 34, 42],
    ),
    (
        |c, _, got, want| {
            c.m.starts_with("v_fract_")
                && (got == 0x3f7f_ffff
                    || got & 0xffff == 0x3bff
                    || got == u32::MAX
                    || got == 0x3fef_ffff)
                && (want & 0xffff == 0x3c00
                    || want == 0x3f80_0000
                    || want == 0
                    || want == 0x3ff0_0000)
        },
        "the emulator gives 1.0 for small negative numbers (V_FRACT_F32: \"result clamped to 0x3f7fffff\")",
        [76, 31, 43],
    ),
    (
        |c, _, got, want| {
            c.m.starts_with("v_ldexp_f16") && (got & 0x7fff <= 0x400 && want & 0x7fff == 0)
                || c.m.starts_with("v_ldexp_f32")
                    && got & 0x7fff_ffff <= 0x80_0000
                    && want << 1 == 0
        },
        "the emulator flushes subnormal results (V_LDEXP_F32; MODE.FP_DENORM allows them)",
        [14, 4, 15],
    ),
    (
        |c, inputs, _, _| c.m == "v_cvt_pk_bf16_f32" && has_nan(inputs),
        "the emulator cuts a NaN's payload, which makes an infinity of it (V_CVT_PK_BF16_F32)",
        [1, 0, 0],
    ),
    (
        |c, inputs, got, want| {
            let normal = if c.m.contains("bf8") { 4 } else { 8 };
            (c.m == "v_cvt_pk_fp8_f32" || c.m == "v_cvt_pk_bf8_f32")
                && (has_nan(inputs)
                    || [0, 8, 16, 24].iter().all(|s| {
                        let (g, w) = (got >> s & 0xff, want >> s & 0xff);
                        g == w
                            || g & 0x7f <= normal && w & 0x7f == 0
                            || (g & 0x7f, w & 0x7f) == (0x7b, 0x7c)
                    }))
        },
        "the emulator flushes subnormal results and overflows early (CDNA4 manual, 7.3: subnormals are supported; nearest even)",
        [25, 0, 11],
    ),
    (
        |c, inputs, _, _| {
            c.m.starts_with("v_fmac_dx9_zero") && inputs.iter().any(|&w| w & 0x7f80_0000 == 0)
        },
        "the emulator's product with zero (V_FMAC_DX9_ZERO_F32: 0.0 * anything = 0.0)",
        [0, 1, 0],
    ),
    (
        |c, _, got, want| c.m == "v_mad_f16" && (got & 0xffff).abs_diff(want & 0xffff) <= 1,
        "the emulator rounds once (V_MAD_F16 multiplies, then adds)",
        [8, 0, 0],
    ),
    (
        |c, _, _, want| c.m.starts_with("v_trig_preop") && want == 0,
        "the emulator's 2/pi ends early (V_TRIG_PREOP_F64: 1201 bits of it)",
        [3, 0, 1],
    ),
];

/// Whether an instruction has a minimum or maximum as one operation of several, or of several values.
fn combines_extremes(mnemonic: &str) -> bool {
    const COMBINED: [&str; 11] = [
        "v_min3_",
        "v_max3_",
        "v_med3_",
        "v_minimum3_",
        "v_maximum3_",
        "v_minmax_",
        "v_maxmin_",
        "v_minimummaximum_",
        "v_maximumminimum_",
        "v_pk_min",
        "v_pk_max",
    ];
    COMBINED.iter().any(|name| mnemonic.starts_with(name))
        || ["v_dual_min_num_", "v_dual_max_num_"]
            .iter()
            .any(|name| mnemonic.contains(name))
}

/// Whether a word is a NaN as an f32, or one of its halves as an f16.
fn has_nan(words: &[u32]) -> bool {
    words
        .iter()
        .any(|w| w & 0x7fff_ffff > 0x7f80_0000 || w & 0x7fff > 0x7c00 || w >> 16 & 0x7fff > 0x7c00)
}

fn exception(case: &Case) -> Option<Scope> {
    EXCEPTIONS
        .iter()
        .find(|(applies, ..)| applies(case))
        .map(|(_, scope, ..)| *scope)
}

/// Instructions that other tests run: matrix products.
fn is_matrix(mnemonic: &str) -> bool {
    ["v_mfma", "v_smfmac", "v_wmma", "v_swmmac"]
        .iter()
        .any(|p| mnemonic.starts_with(p))
}

/// Runs the cases of `file` as `target`. Returns the number of cases passed.
fn check(file: &str, target: Target) -> usize {
    let all = semantics(file, |format| format.starts_with("VOP"));
    let memory = Memory::new(0x1_0000, 4096);
    let mut skipped = BTreeMap::<String, usize>::new();
    let mut wrong = BTreeMap::<String, (usize, String)>::new();
    let mut passed = 0;
    let mut swallowed = [0; LANE_EXCEPTIONS.len()];
    for case in all
        .cases
        .iter()
        .filter(|c| !is_matrix(&c.m) && exception(c) != Some(Scope::Case))
        .filter(|c| all.is_same_on(c, target))
    {
        let bytes = hex_bytes(&case.hex);
        for backend in Backend::supported() {
            let mut bench = all.prepare(case, target, backend, &memory);
            let problem = match bench.step(&bytes, 0x1000) {
                // gfx942's 8-bit floats have other codes, and the dot products of gfx90a and gfx942 flush subnormal f16
                // values (`rocjitsu_lanes::scalar::dot`). gfx90a has no 8-bit floats.
                _ if matches!(target, Target::Gfx90a | Target::Gfx942)
                    && ["fp8", "bf8", "dot2c_f32_f16"]
                        .iter()
                        .any(|n| case.m.contains(n)) =>
                {
                    break;
                }
                Err(text) => Some(text),
                Ok(Flow::Next) => {
                    let mut lanes = [0; LANE_EXCEPTIONS.len()];
                    let problem = differs(&all, case, &bench, &mut lanes);
                    if backend == Backend::Scalar {
                        swallowed
                            .iter_mut()
                            .zip(lanes)
                            .for_each(|(sum, n)| *sum += n);
                    }
                    problem
                }
                Ok(_)
                    if matches!(
                        bench.fault().map(|f| &f.cause),
                        Some(Cause::Unsupported { .. })
                    ) =>
                {
                    *skipped.entry(case.m.clone()).or_default() += 1;
                    break;
                }
                Ok(flow) => Some(format!("{flow:?} {:?}", bench.fault())),
            };
            match problem {
                None => passed += 1,
                Some(text) => {
                    let form = format!("{} [{}]", case.m, case.f);
                    let text = || {
                        format!(
                            "{} ({}) on {backend}, exec {}: {text}",
                            case.asm, case.hex, case.exec
                        )
                    };
                    wrong.entry(form).or_insert_with(|| (0, text())).0 += 1;
                    break;
                }
            }
        }
    }
    let total: usize = skipped.values().sum();
    eprintln!("{target}: {passed} passed, {total} cases without semantics: {skipped:?}");
    for (form, (count, text)) in &wrong {
        eprintln!("{target} {form}: {count} wrong, such as {text}");
    }
    assert!(
        wrong.is_empty(),
        "{target}: {} forms with wrong results",
        wrong.len()
    );
    assert!(
        skipped.is_empty(),
        "{target}: without semantics: {skipped:?}"
    );
    if let Some(file) = FILES.iter().position(|t| *t == target) {
        for ((_, why, counts), got) in LANE_EXCEPTIONS.iter().zip(swallowed) {
            assert_eq!(
                got, counts[file],
                "{target}: words that are excused since {why}"
            );
        }
    }
    let least = 3000 * Backend::supported().count();
    assert!(
        passed > least,
        "{target}: only {passed} cases, {least} expected at least"
    );
    passed
}

/// An exception that hides more or fewer cases than it did hides something new, or should be narrower.
#[test]
fn exceptions_apply_to_as_many_cases_as_they_did() {
    for (file, target) in FILES.iter().enumerate() {
        let all = semantics(target.name(), |format| format.starts_with("VOP"));
        let mut found = [0; EXCEPTIONS.len()];
        for case in all.cases.iter().filter(|c| !is_matrix(&c.m)) {
            if let Some(n) = EXCEPTIONS.iter().position(|(applies, ..)| applies(case)) {
                found[n] += 1;
            }
        }
        for ((_, _, why, counts), got) in EXCEPTIONS.iter().zip(found) {
            assert_eq!(
                got, counts[file],
                "{target}: cases that are excused since {why}"
            );
        }
    }
}

#[test]
fn gfx950() {
    assert!(check("gfx950", Target::Gfx950) > 0);
}
#[test]
fn gfx942() {
    assert!(check("gfx950", Target::Gfx942) > 0);
}
#[test]
fn gfx90a() {
    assert!(check("gfx950", Target::Gfx90a) > 0);
}
#[test]
fn gfx1100() {
    assert!(check("gfx1100", Target::Gfx1100) > 0);
}
#[test]
fn gfx1151() {
    assert!(check("gfx1100", Target::Gfx1151) > 0);
}
#[test]
fn gfx1201() {
    assert!(check("gfx1201", Target::Gfx1201) > 0);
}
#[test]
fn gfx1250() {
    assert!(check("gfx1201", Target::Gfx1250) > 0);
}

/// What differs from the chip's results, if anything.
fn differs_from_chip(case: &HardwareCase, bench: &Bench<'_>) -> Option<String> {
    let equal = |got: u32, want: u32| {
        let (g, w) = (f32::from_bits(got), f32::from_bits(want));
        got == want
            || case.cmp == "near" && (g.is_nan() && w.is_nan() || (g - w).abs() <= 1e-5 * w.abs())
            || case.cmp == "near" && {
                // Results that are halves.
                let near = |s: u32| {
                    let (g, w) = (
                        value((got >> s & 0xffff).into(), 16, 10),
                        value((want >> s & 0xffff).into(), 16, 10),
                    );
                    g.is_nan() && w.is_nan() || (g - w).abs() <= 1e-3 * w.abs()
                };
                near(0) && near(16)
            }
    };
    let wave = &bench.wave;
    for (&r, lanes) in &case.out.v {
        for (&lane, text) in lanes {
            let (got, want) = (wave.v.read(r)[lane], hex(text) as u32);
            if !equal(got, want) {
                return Some(format!("v{r} lane {lane}: {got:08x}, expected {want:08x}"));
            }
        }
    }
    for (&n, text) in &case.out.s {
        if !equal(wave.s[n], hex(text) as u32) {
            return Some(format!("s{n}: {:08x}, expected {text}", wave.s[n]));
        }
    }
    let mask = |name: &str, got: u64, want: &Option<String>| {
        let want = hex(want.as_ref()?);
        (got != want).then(|| format!("{name}: {got:x}, expected {want:x}"))
    };
    mask("vcc", wave.vcc(), &case.out.vcc)
        .or_else(|| mask("exec", wave.exec(), &case.out.exec))
        .or_else(|| {
            let want = case.out.scc?;
            (u32::from(wave.scc) != want).then(|| format!("scc, expected {want}"))
        })
}

/// Programs that are not run: part of the name, why.
const NOT_RUN: &[(&str, &str)] = &[
    (
        "test_s_fmamk_f32",
        "scalar float arithmetic came with gfx1150; gfx1100 has no such instruction",
    ),
    (
        "VInterp.",
        "interpolation is graphics; these programs give it scalar sources, which it does not take",
    ),
];

/// Runs a program, branches included, to its end.
fn run_program(bench: &mut Bench<'_>, bytes: &[u8]) -> Result<Flow, String> {
    const START: u64 = 0x1000;
    let mut pc = START;
    for _ in 0..1000 {
        let at = (pc - START) as usize;
        if at >= bytes.len() {
            return Ok(Flow::Next);
        }
        match bench.step(&bytes[at..], pc)? {
            Flow::Next | Flow::Jump => pc = bench.wave.pc,
            other => return Ok(other),
        }
    }
    Err("runs on".to_owned())
}

#[test]
fn results_of_chips() {
    let all = semantics("gfx1100", |_| false);
    let memory = Memory::new(0x1_0000, 4096);
    for target in [Target::Gfx1100, Target::Gfx1151] {
        let mut skipped = BTreeMap::<String, usize>::new();
        let mut wrong = Vec::new();
        let mut passed = 0;
        for case in all
            .hardware
            .iter()
            .filter(|c| !NOT_RUN.iter().any(|(name, _)| c.t.contains(name)))
        {
            let bytes = hex_bytes(&case.hex);
            for backend in Backend::supported() {
                let mut bench = all.prepare_hardware(case, target, backend, &memory);
                let problem = match run_program(&mut bench, &bytes) {
                    Ok(Flow::Next) => differs_from_chip(case, &bench),
                    other => {
                        if let Some(Cause::Unsupported { what }) = bench.fault().map(|f| &f.cause) {
                            *skipped.entry(what.clone()).or_default() += 1;
                            break;
                        }
                        Some(format!("{other:?} {:?}", bench.fault()))
                    }
                };
                match problem {
                    None => passed += 1,
                    Some(text) => {
                        wrong.push(format!("{} on {backend}: {text} ({})", case.t, case.hex));
                        break;
                    }
                }
            }
        }
        eprintln!("{target}: {passed} passed, without semantics: {skipped:?}");
        for line in &wrong {
            eprintln!("{target} {line}");
        }
        assert!(
            wrong.is_empty(),
            "{target}: {} programs with wrong results",
            wrong.len()
        );
        assert!(
            skipped.is_empty(),
            "{target}: without semantics: {skipped:?}"
        );
        let least = 600 * Backend::supported().count();
        assert!(
            passed > least,
            "{target}: only {passed} runs, {least} expected at least"
        );
    }
}
