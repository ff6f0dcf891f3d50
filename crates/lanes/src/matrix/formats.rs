//! Decoding of matrix elements to f32 (exact for every format of 32 bits or less) and
//! rounding of f32 accumulators to 16-bit results.

use super::op::{Element, ScaleFormat};

/// NaN that a matrix instruction produces: the payload is not known of any hardware.
pub(super) const NAN32: u32 = 0x7fc0_0000;
/// The same for f64.
pub(super) const NAN64: u64 = 0x7ff8_0000_0000_0000;

/// Value of a finite small float: `exp` exponent bits with this bias, `man` mantissa bits.
const fn small(bits: u32, exp: u32, man: u32, bias: i32) -> f32 {
    let negative = bits >> (exp + man) & 1 == 1;
    let e = (bits >> man & ((1 << exp) - 1)) as i32;
    let m = bits & ((1 << man) - 1);
    let (significand, shift) = if e == 0 {
        (m, 1 - bias)
    } else {
        (m | 1 << man, e - bias)
    };
    let power = (shift - man as i32 + 127) as u32;
    let magnitude = significand as f32 * f32::from_bits(power << 23);
    if negative { -magnitude } else { magnitude }
}

const fn table8(element: Element) -> [f32; 256] {
    let mut table = [0.0; 256];
    let mut i = 0;
    while i < 256 {
        let bits = i as u32;
        table[i] = match element {
            Element::Fp8 if bits & 0x7f == 0x7f => f32::NAN,
            Element::Fp8 => small(bits, 4, 3, 7),
            Element::Bf8 if bits & 0x7f == 0x7c => {
                if bits & 0x80 == 0 {
                    f32::INFINITY
                } else {
                    f32::NEG_INFINITY
                }
            }
            Element::Bf8 if bits & 0x7f > 0x7c => f32::NAN,
            Element::Bf8 => small(bits, 5, 2, 15),
            Element::Fp8Fnuz | Element::Bf8Fnuz if bits == 0x80 => f32::NAN,
            Element::Fp8Fnuz => small(bits, 4, 3, 8),
            Element::Bf8Fnuz => small(bits, 5, 2, 16),
            Element::Fp6 => small(bits & 0x3f, 2, 3, 1),
            Element::Bf6 => small(bits & 0x3f, 3, 2, 3),
            Element::Fp4 => small(bits & 0xf, 2, 1, 1),
            _ => 0.0,
        };
        i += 1;
    }
    table
}

static FP8: [f32; 256] = table8(Element::Fp8);
static BF8: [f32; 256] = table8(Element::Bf8);
static FP8_FNUZ: [f32; 256] = table8(Element::Fp8Fnuz);
static BF8_FNUZ: [f32; 256] = table8(Element::Bf8Fnuz);
static FP6: [f32; 256] = table8(Element::Fp6);
static BF6: [f32; 256] = table8(Element::Bf6);
static FP4: [f32; 256] = table8(Element::Fp4);

/// Decoding table of an 8-, 6- or 4-bit float, indexed by the bits.
pub(super) fn table(element: Element) -> Option<&'static [f32; 256]> {
    Some(match element {
        Element::Fp8 => &FP8,
        Element::Bf8 => &BF8,
        Element::Fp8Fnuz => &FP8_FNUZ,
        Element::Bf8Fnuz => &BF8_FNUZ,
        Element::Fp6 => &FP6,
        Element::Bf6 => &BF6,
        Element::Fp4 => &FP4,
        _ => return None,
    })
}

/// f16 to f32, subnormals kept, NaN payloads widened.
pub(super) fn f16_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let e = u32::from(bits >> 10 & 0x1f);
    let m = u32::from(bits & 0x3ff);
    match (e, m) {
        (0x1f, _) => f32::from_bits(sign | 0x7f80_0000 | m << 13),
        // Exact: a subnormal is a small integer times 2^-24.
        (0, _) => f32::from_bits((m as f32 * 2f32.powi(-24)).to_bits() | sign),
        _ => f32::from_bits(sign | (e + 112) << 23 | m << 13),
    }
}

/// bf16 to f32.
pub(super) fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Rounds to f16, to nearest even, with gradual underflow; NaN becomes 0x7e00.
pub(super) fn f32_to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return 0x7e00;
    }
    // 65520, half a unit above the largest f16, and everything beyond it overflows.
    if magnitude >= 0x477f_f000 {
        return sign | 0x7c00;
    }
    if magnitude < 0x3880_0000 {
        // Below 2^-14: adding 0.5 puts the unit of f16 subnormals at the unit of f32.
        let sum = f32::from_bits(magnitude) + 0.5;
        return sign | (sum.to_bits() - 0x3f00_0000) as u16;
    }
    let rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    sign | ((rounded - (112 << 23)) >> 13) as u16
}

/// Rounds to bf16, to nearest even; NaN becomes 0x7fc0.
pub(super) fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return 0x7fc0;
    }
    (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// Decodes the bits of a float element of at most 32 bits.
pub(super) fn decode(element: Element, bits: u32) -> f32 {
    match element {
        Element::F32 => f32::from_bits(bits),
        // Truncation; a NaN whose only set bits are cleared becomes an infinity.
        Element::Xf32 => f32::from_bits(bits & !0x1fff),
        Element::F16 => f16_to_f32(bits as u16),
        Element::Bf16 => bf16_to_f32(bits as u16),
        _ => table(element).map_or(0.0, |table| table[(bits & 0xff) as usize]),
    }
}

/// Smallest normal exponent of a float format.
pub(super) fn min_exponent(element: Element) -> i32 {
    match element {
        Element::F16 => -14,
        Element::Fp8 => -6,
        Element::Bf8 => -14,
        Element::Fp8Fnuz => -7,
        Element::Bf8Fnuz => -15,
        Element::Fp6 => 0,
        Element::Bf6 => -2,
        Element::Fp4 => 0,
        _ => -126,
    }
}

/// A scale factor as `(significand, exponent)`: its value is significand x 2^exponent.
/// `None` for NaN.
pub(super) fn decode_scale(format: ScaleFormat, byte: u8) -> Option<(i64, i32)> {
    let split = |bits: u8, man: u32, bias: i32| {
        let e = i32::from(bits >> man);
        let m = i64::from(bits & ((1 << man) - 1));
        if e == 0 {
            (m, 1 - bias - man as i32)
        } else {
            (m | 1 << man, e - bias - man as i32)
        }
    };
    match format {
        ScaleFormat::E8m0 if byte == 0xff => None,
        ScaleFormat::E8m0 => Some((1, i32::from(byte) - 127)),
        ScaleFormat::E5m3 if byte == 0xff => None,
        ScaleFormat::E5m3 => Some(split(byte, 3, 15)),
        ScaleFormat::E4m3 if byte & 0x7f == 0x7f => None,
        ScaleFormat::E4m3 => Some(split(byte & 0x7f, 3, 7)),
    }
}
