//! fp8, bf8, fp6, bf6, fp4, E8M0 and E5M3, stochastic rounding, and the scaled conversions.
//!
//! Overflow to fp8 and bf8 (CDNA3 7.2, CDNA4 7.3, CDNA5 and RDNA4 7.6.2, "FP16_OVFL rule"): with
//! FP16_OVFL set, finite overflow and ±infinity give ±max; clear, they give NaN (fp8) or ±infinity
//! (bf8). NaN stays NaN. fp6, bf6, fp4 always saturate (CDNA4 7.3, "Converts with Scale").

use super::format::{self, Discard, Format, Overflow};
use super::half;
use super::mode::Rounding;

/// The 8-bit formats of a target: OCP (gfx950, gfx12, gfx1250) or FNUZ (gfx940 to gfx942).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fp8Kind {
    /// OCP E4M3 and E5M2.
    Ocp,
    /// FNUZ E4M3 and E5M2.
    Fnuz,
}

impl Fp8Kind {
    /// The E4M3 format.
    #[inline(always)]
    #[must_use]
    pub const fn fp8(self) -> Format {
        match self {
            Self::Ocp => format::FP8,
            Self::Fnuz => format::FP8_FNUZ,
        }
    }

    /// The E5M2 format.
    #[inline(always)]
    #[must_use]
    pub const fn bf8(self) -> Format {
        match self {
            Self::Ocp => format::BF8,
            Self::Fnuz => format::BF8_FNUZ,
        }
    }
}

/// f32 bits to an 8-bit format, to nearest even, overflow by FP16_OVFL (see the module).
#[inline(always)]
#[must_use]
pub const fn f32_to_fp8(x: u32, to: Format, fp16_ovfl: bool) -> u8 {
    to.encode(x, Rounding::NearestEven, Overflow::both(fp16_ovfl)) as u8
}

/// f32 bits to an 8-bit format by stochastic rounding (V_CVT_SR_FP8_F32, V_CVT_SR_BF8_F32).
///
/// The top bits of `random` (20 for E4M3, 21 for E5M2: S1\[31:12\], S1\[31:11\]) are added to the
/// f32 mantissa and the sum is truncated ("add a random value and then truncate", CDNA3 7.2).
/// The carry goes into the exponent: the pseudocode's "wrap around" would halve values, and its
/// second rounding to nearest would bias them. Where the result is denormal, correspondingly more
/// bits are discarded and added.
#[inline(always)]
#[must_use]
pub const fn f32_to_fp8_sr(x: u32, random: u32, to: Format, fp16_ovfl: bool) -> u8 {
    to.encode_scaled(x, 0, Discard::Stochastic(random), Overflow::both(fp16_ovfl)) as u8
}

/// f32 bits to f16 by stochastic rounding (V_CVT_SR_F16_F32): the top 13 bits of `random` are added
/// below the f16 mantissa, the sum is truncated. `clamp`: MODE.FP16_OVFL.
#[inline(always)]
#[must_use]
pub const fn f32_to_f16_sr(x: u32, random: u32, clamp: bool) -> u16 {
    format::F16.encode_scaled(x, 0, Discard::Stochastic(random), Overflow::finite(clamp)) as u16
}

/// f32 bits to bf16 by stochastic rounding (V_CVT_SR_BF16_F32): the top 16 bits of `random` are
/// added below the bf16 mantissa, the sum is truncated. `clamp`: MODE.FP16_OVFL.
#[inline(always)]
#[must_use]
pub const fn f32_to_bf16_sr(x: u32, random: u32, clamp: bool) -> u16 {
    format::BF16.encode_scaled(x, 0, Discard::Stochastic(random), Overflow::finite(clamp)) as u16
}

/// E8M0 scale as f32: 2^(`code` - 127), 0xff is NaN. Code 0 is the denormal 2^-127.
#[inline(always)]
#[must_use]
pub const fn e8m0_to_f32(code: u8) -> f32 {
    let bits = if code == 0 {
        0x0040_0000
    } else {
        (code as u32) << 23
    };
    f32::from_bits(if code == 0xff { 0x7fc0_0000 } else { bits })
}

/// Format of a block scale (gfx1250 WMMA), numbered as in the instruction's scale format field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ScaleFormat {
    /// Power of two.
    E8m0 = 0,
    /// Unsigned, five exponent and three mantissa bits, bias 15.
    E5m3 = 1,
    /// Unsigned, four exponent and three mantissa bits, bias 7; bit 7 is ignored.
    E4m3 = 2,
}

impl ScaleFormat {
    /// The scale `code` as f32, exact; NaN codes give a quiet NaN (CDNA5 manual 7.12.6).
    #[inline(always)]
    #[must_use]
    pub const fn decode(self, code: u8) -> f32 {
        match self {
            Self::E8m0 => e8m0_to_f32(code),
            Self::E5m3 => format::E5M3.decode(code as u32),
            Self::E4m3 => format::FP8.decode(code as u32 & 0x7f),
        }
    }
}

/// The E8M0 scale in an f32 operand of V_CVT_SCALEF32_*: its exponent field.
#[inline(always)]
#[must_use]
pub const fn scale_of_f32(x: u32) -> u8 {
    (x >> 23) as u8
}

/// Narrow format to f32 bits times 2^(`scale` - 127), rounded once to nearest even.
/// Scale 0xff gives NaN.
#[inline(always)]
#[must_use]
pub const fn to_f32_scale(code: u32, from: Format, scale: u8) -> u32 {
    // The scaled value is exact in f64.
    half::f64_to_f32(scaled64(code, from, scale), Rounding::NearestEven)
}

/// Narrow format to f16 bits times 2^(`scale` - 127), rounded once to nearest even.
/// Scale 0xff gives NaN; `clamp`: MODE.FP16_OVFL.
#[inline(always)]
#[must_use]
pub const fn to_f16_scale(code: u32, from: Format, scale: u8, clamp: bool) -> u16 {
    half::f64_to_f16(scaled64(code, from, scale), Rounding::NearestEven, clamp)
}

/// Narrow format to bf16 bits times 2^(`scale` - 127), rounded once to nearest even.
/// Scale 0xff gives NaN; `clamp`: MODE.FP16_OVFL.
#[inline(always)]
#[must_use]
pub const fn to_bf16_scale(code: u32, from: Format, scale: u8, clamp: bool) -> u16 {
    half::f64_to_bf16(scaled64(code, from, scale), Rounding::NearestEven, clamp)
}

#[inline(always)]
const fn scaled64(code: u32, from: Format, scale: u8) -> u64 {
    let value = half::f32_to_f64(from.decode(code).to_bits());
    let factor = f64::from_bits((scale as u64 + 1023 - 127) << 52);
    let scaled = (f64::from_bits(value) * factor).to_bits();
    let nan = value & (u64::MAX >> 1) > 0x7ff0_0000_0000_0000;
    let scaled = if nan { value } else { scaled };
    if scale == 0xff {
        0x7ff8_0000_0000_0000
    } else {
        scaled
    }
}

/// f32 bits divided by 2^(`scale` - 127), to a narrow format, rounded once (V_CVT_SCALEF32_*).
///
/// `random`: `None` rounds to nearest even; `Some` rounds stochastically, the top bits of the
/// number being added to all the bits that are discarded. Scale 0xff gives NaN (fp6, bf6, fp4: the
/// largest magnitude). For f16 and bf16 sources widen first, which is exact.
///
/// `infinity_is_nan`: CDNA5 7.6.2 says that in its scaled conversions an infinite source gives NaN
/// in fp8 and bf8 even with FP16_OVFL (clear: NaN in fp8, infinity in bf8); CDNA4 has no such line.
#[inline(always)]
#[must_use]
pub const fn from_f32_scale(
    x: u32,
    scale: u8,
    to: Format,
    random: Option<u32>,
    fp16_ovfl: bool,
    infinity_is_nan: bool,
) -> u8 {
    let discard = match random {
        Some(r) => Discard::Stochastic(r),
        None => Discard::Round(Rounding::NearestEven),
    };
    let infinite = x & 0x7fff_ffff == 0x7f80_0000;
    let spoil = scale == 0xff || (infinite && infinity_is_nan && fp16_ovfl);
    // Finite formats have no NaN: an infinity saturates either way.
    let x = if spoil { x | 0x7fc0_0000 } else { x };
    to.encode_scaled(x, scale as i32 - 127, discard, Overflow::both(fp16_ovfl)) as u8
}

/// Element `i` of codes packed `BITS` wide, lowest first, in little-endian dwords. Past the end: 0.
#[inline(always)]
#[must_use]
pub fn unpack<const BITS: usize>(dwords: &[u32], i: usize) -> u32 {
    let bit = i * BITS;
    let dword = |n: usize| u64::from(dwords.get(n).copied().unwrap_or(0));
    let pair = dword(bit / 32) | dword(bit / 32 + 1) << 32;
    (pair >> (bit % 32)) as u32 & ((1 << BITS) - 1)
}

/// Puts `code` in place `i` of codes packed `BITS` wide; the place must hold zero. Past the end: no effect.
#[inline(always)]
pub fn pack<const BITS: usize>(dwords: &mut [u32], i: usize, code: u32) {
    let bit = i * BITS;
    let pair = u64::from(code & ((1 << BITS) - 1)) << (bit % 32);
    if let Some(d) = dwords.get_mut(bit / 32) {
        *d |= pair as u32;
    }
    if pair >> 32 != 0
        && let Some(d) = dwords.get_mut(bit / 32 + 1)
    {
        *d |= (pair >> 32) as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::format::{BF6, BF8, BF8_FNUZ, E5M3, FP4, FP6, FP8, FP8_FNUZ};
    use super::*;
    use crate::testing::Random;

    #[test]
    fn overflow_table_of_the_manuals() {
        let (inf, big, nan) = (0x7f80_0000, 1e9f32.to_bits(), 0x7fc0_0000);
        for x in [inf, big] {
            assert_eq!(f32_to_fp8(x, FP8, true), 0x7e);
            assert_eq!(f32_to_fp8(x, FP8, false), 0x7f);
            assert_eq!(f32_to_fp8(x, BF8, true), 0x7b);
            assert_eq!(f32_to_fp8(x, BF8, false), 0x7c);
            assert_eq!(f32_to_fp8(x | 1 << 31, FP8_FNUZ, true), 0xff);
            assert_eq!(f32_to_fp8(x | 1 << 31, BF8_FNUZ, false), 0x80);
        }
        assert_eq!(f32_to_fp8(nan, FP8, true), 0x7f);
        // E5M3 has no sign; 114688 is the largest.
        assert_eq!(f32_to_fp8(114_688f32.to_bits(), E5M3, false), 0xfe);
        assert_eq!(f32_to_fp8(big, E5M3, false), 0xff);
        assert_eq!(f32_to_fp8(big, E5M3, true), 0xfe);
        // CDNA5: an infinite source of a scaled conversion is NaN even with FP16_OVFL.
        assert_eq!(from_f32_scale(inf, 127, FP8, None, true, true), 0x7f);
        assert_eq!(from_f32_scale(inf, 127, BF8, None, false, true), 0x7c);
        assert_eq!(from_f32_scale(inf, 127, FP4, None, false, true), 0x7);
    }

    #[test]
    fn stochastic_rounding_is_unbiased_between_neighbours() {
        // 1.03125 is a quarter of the way from 1 to 1.125 in E4M3.
        let x = 1.03125f32.to_bits();
        let ups = (0..1024u32)
            .filter(|i| f32_to_fp8_sr(x, i << 22, FP8, false) == 0x39)
            .count();
        assert_eq!(ups, 256);
        assert_eq!(f32_to_fp8_sr(1f32.to_bits(), u32::MAX, FP8, false), 0x38);
        // The carry enters the exponent.
        assert_eq!(f32_to_fp8_sr(1.99f32.to_bits(), u32::MAX, FP8, false), 0x40);
        assert_eq!(f32_to_bf16_sr(0x3f80_4000, 0xc000_0000, false), 0x3f81);
        assert_eq!(f32_to_bf16_sr(0x3f80_4000, 0xbfff_0000, false), 0x3f80);
        assert_eq!(f32_to_f16_sr(0x3f80_1000, 0x8000_0000, false), 0x3c01);
        // Near the largest finite value the random number decides about NaN.
        assert_eq!(f32_to_fp8_sr(449f32.to_bits(), 0, FP8, false), 0x7e);
        assert_eq!(f32_to_fp8_sr(449f32.to_bits(), u32::MAX, FP8, false), 0x7f);
        // A quarter and a 2^-10 of the smallest denormal, 2^-9.
        for (x, want) in [(2f32.powi(-11), 256), (2f32.powi(-19), 1)] {
            let ups = (0..1024u32)
                .filter(|i| f32_to_fp8_sr(x.to_bits(), i << 22, FP8, false) == 1)
                .count();
            assert_eq!(ups, want);
        }
        // A denormal fp4 result: 0.25 is half of 0.5.
        let ups = (0..1024u32).filter(|i| {
            from_f32_scale(0.25f32.to_bits(), 127, FP4, Some(i << 22), false, false) == 1
        });
        assert_eq!(ups.count(), 512);
    }

    #[test]
    fn scaled_conversions_divide_and_multiply() {
        let mut random = Random(17);
        for f in [FP8, BF8, FP6, BF6, FP4] {
            for code in 0..=f.max_finite() {
                for scale in [0u8, 1, 100, 127, 140, 254] {
                    let factor = 2f64.powi(i32::from(scale) - 127);
                    let exact = f64::from(f.decode(code)) * factor;
                    let wide = to_f32_scale(code, f, scale);
                    assert_eq!(f32::from_bits(wide), exact as f32);
                    let model = ::half::f16::from_f64(exact).to_bits();
                    assert_eq!(
                        to_f16_scale(code, f, scale, false),
                        model,
                        "{f:?} {code:#x} {scale}"
                    );
                    if f64::from(exact as f32) == exact && (exact as f32).is_finite() {
                        assert_eq!(
                            u32::from(from_f32_scale(wide, scale, f, None, false, false)),
                            code
                        );
                    }
                }
            }
            for _ in 0..20_000 {
                let (x, scale) = (random.f32(), random.next() as u8);
                if scale == 0xff || x & 0x7f80_0000 == 0x7f80_0000 {
                    continue;
                }
                let exact = f64::from(f32::from_bits(x)) / 2f64.powi(i32::from(scale) - 127);
                // 2^-40 and 2^40 lie far outside every format: clamp into f32's exact range.
                let near = exact
                    .abs()
                    .clamp(2f64.powi(-40), 2f64.powi(40))
                    .copysign(exact) as f32;
                let near = if exact == 0.0 { exact as f32 } else { near };
                let want = f.encode(near.to_bits(), Rounding::NearestEven, Overflow::SATURATE);
                assert_eq!(
                    u32::from(from_f32_scale(x, scale, f, None, true, false)),
                    want,
                    "{f:?} {x:#x} {scale}"
                );
            }
        }
        assert_eq!(to_f32_scale(0x38, FP8, 0xff), 0x7fc0_0000);
        assert_eq!(e8m0_to_f32(0).to_bits(), 0x0040_0000);
        assert_eq!(e8m0_to_f32(127), 1.0);
        assert!(e8m0_to_f32(0xff).is_nan());
        // The ranges that CDNA5 7.12.6 tabulates.
        assert_eq!(ScaleFormat::E8m0.decode(0xfe), 2f32.powi(127));
        assert_eq!(
            [ScaleFormat::E5m3.decode(0xfe), ScaleFormat::E5m3.decode(1)],
            [114_688.0, 2f32.powi(-17)]
        );
        assert_eq!(
            [
                ScaleFormat::E4m3.decode(0x7e),
                ScaleFormat::E4m3.decode(0x81)
            ],
            [448.0, 2f32.powi(-9)]
        );
        assert!(ScaleFormat::E5m3.decode(0xff).is_nan() && ScaleFormat::E4m3.decode(0x7f).is_nan());
    }

    #[test]
    fn packing_round_trips() {
        let mut dwords = [0u32; 6];
        let codes: Vec<u32> = (0..32).map(|i| (i * 37 + 5) % 64).collect();
        for (i, c) in codes.iter().enumerate() {
            pack::<6>(&mut dwords, i, *c);
        }
        let back: Vec<u32> = (0..32).map(|i| unpack::<6>(&dwords, i)).collect();
        assert_eq!(back, codes);
        assert_eq!(unpack::<6>(&dwords, 32), 0);
    }
}
