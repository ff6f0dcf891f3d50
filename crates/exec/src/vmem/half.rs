//! Scalar float helpers of atomics: denormals, signalling NaNs, sums of 16-bit floats.

use super::rmw::Flush;

/// An f32 with a denormal replaced by zero of the same sign.
#[inline(always)]
pub fn flush32(x: u32) -> u32 {
    if x & 0x7f80_0000 == 0 {
        x & 0x8000_0000
    } else {
        x
    }
}

/// An f64 with a denormal replaced by zero of the same sign.
#[inline(always)]
pub fn flush64(x: u64) -> u64 {
    if x & 0x7ff0_0000_0000_0000 == 0 {
        x & 1 << 63
    } else {
        x
    }
}

/// Whether an f32 is a signalling NaN.
#[inline(always)]
pub fn is_snan32(x: u32) -> bool {
    f32::from_bits(x).is_nan() && x & 0x0040_0000 == 0
}

/// Whether an f64 is a signalling NaN.
#[inline(always)]
pub fn is_snan64(x: u64) -> bool {
    f64::from_bits(x).is_nan() && x & 1 << 51 == 0
}

/// An f16 as f32, exactly. The payload of a NaN keeps its place below the quiet bit.
pub fn f16_to_f32(h: u16) -> f32 {
    let sign = u32::from(h & 0x8000) << 16;
    let magnitude = u32::from(h & 0x7fff);
    let bits = match magnitude >> 10 {
        0 => return f32::from_bits(sign | (magnitude as f32 * 2f32.powi(-24)).to_bits()),
        31 => 0x7f80_0000 | (magnitude & 0x3ff) << 13,
        _ => (magnitude << 13) + (112 << 23),
    };
    f32::from_bits(sign | bits)
}

/// An f32 rounded to f16, to nearest even. NaNs become quiet.
pub fn f32_to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return sign | 0x7e00 | (magnitude >> 13 & 0x3ff) as u16;
    }
    if magnitude >= 0x477f_f000 {
        return sign | 0x7c00;
    }
    let rounded = if magnitude < 0x3880_0000 {
        // Denormal: the sum with 0.5 leaves multiples of 2^-24 in the lowest bits, rounded.
        (f32::from_bits(magnitude) + 0.5).to_bits() - 0.5f32.to_bits()
    } else {
        let odd = magnitude >> 13 & 1;
        (magnitude - (112 << 23) + 0xfff + odd) >> 13
    };
    sign | rounded as u16
}

/// An f32 rounded to bf16, to nearest even. NaNs become quiet.
pub fn f32_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    if x.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// Sum of two f16. The f32 sum of two f16 rounds to f16 as the exact sum does, since f32 has more than
/// twice the precision.
pub fn add_f16(x: u16, y: u16, flush: Flush) -> u16 {
    let f = |v: u16, on: bool| if on && v & 0x7c00 == 0 { v & 0x8000 } else { v };
    let (x, y) = (f(x, flush.input), f(y, flush.input));
    for v in [x, y] {
        if v & 0x7fff > 0x7c00 {
            return v | 0x200;
        }
    }
    let sum = f16_to_f32(x) + f16_to_f32(y);
    if sum.is_nan() {
        0xfe00
    } else {
        f(f32_to_f16(sum), flush.output)
    }
}

/// Sum of two bf16.
pub fn add_bf16(x: u16, y: u16, flush: Flush) -> u16 {
    let f = |v: u16, on: bool| if on && v & 0x7f80 == 0 { v & 0x8000 } else { v };
    let (x, y) = (f(x, flush.input), f(y, flush.input));
    for v in [x, y] {
        if v & 0x7fff > 0x7f80 {
            return v | 0x40;
        }
    }
    let wide = |v: u16| f32::from_bits(u32::from(v) << 16);
    let sum = wide(x) + wide(y);
    if sum.is_nan() {
        0xffc0
    } else {
        f(f32_to_bf16(sum), flush.output)
    }
}
