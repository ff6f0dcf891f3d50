//! Description of a float format, and one generic branch-free decoder and encoder.
//! With a constant [`Format`] everything folds to a few integer instructions that vectorise.

use super::mode::Rounding;

/// Meaning of the codes at the top of a format's range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Top {
    /// IEEE 754: all-ones exponent is infinity or NaN.
    Ieee,
    /// OCP E4M3 ("FN"), E5M3: no infinity; the all-ones code is the only NaN.
    OneNan,
    /// FNUZ: no infinity, no minus zero; the code of minus zero is the NaN.
    Fnuz,
    /// fp6, bf6, fp4: every code is a finite number.
    Finite,
}

/// A binary floating-point format of at most 32 bits: sign (if `signed`), exponent, mantissa.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Width of the exponent field in bits.
    pub exp_bits: u32,
    /// Width of the mantissa field in bits, without the hidden bit.
    pub man_bits: u32,
    /// Exponent bias.
    pub bias: i32,
    /// Meaning of the top codes.
    pub top: Top,
    /// Has a sign bit; without one the encoder drops the sign.
    pub signed: bool,
}

/// IEEE binary16.
pub const F16: Format = Format::ieee(5, 10);
/// bfloat16.
pub const BF16: Format = Format::ieee(8, 7);
/// IEEE binary32.
pub const F32: Format = Format::ieee(8, 23);
/// OCP FP8 E4M3 (gfx950, gfx12, gfx1250 "FP8"): bias 7, max 448, NaN 0x7f and 0xff.
pub const FP8: Format = Format {
    exp_bits: 4,
    man_bits: 3,
    bias: 7,
    top: Top::OneNan,
    signed: true,
};
/// OCP FP8 E5M2 (gfx950, gfx12, gfx1250 "BF8"): bias 15, max 57344, IEEE-like.
pub const BF8: Format = Format::ieee(5, 2);
/// FNUZ E4M3 (gfx942 "FP8"): bias 8, max 240, NaN 0x80.
pub const FP8_FNUZ: Format = Format {
    exp_bits: 4,
    man_bits: 3,
    bias: 8,
    top: Top::Fnuz,
    signed: true,
};
/// FNUZ E5M2 (gfx942 "BF8"): bias 16, max 57344, NaN 0x80.
pub const BF8_FNUZ: Format = Format {
    exp_bits: 5,
    man_bits: 2,
    bias: 16,
    top: Top::Fnuz,
    signed: true,
};
/// OCP FP6 E2M3: bias 1, max 7.5.
pub const FP6: Format = Format {
    exp_bits: 2,
    man_bits: 3,
    bias: 1,
    top: Top::Finite,
    signed: true,
};
/// OCP FP6 E3M2 ("BF6"): bias 3, max 28.
pub const BF6: Format = Format {
    exp_bits: 3,
    man_bits: 2,
    bias: 3,
    top: Top::Finite,
    signed: true,
};
/// OCP FP4 E2M1: bias 1, max 6.
pub const FP4: Format = Format {
    exp_bits: 2,
    man_bits: 1,
    bias: 1,
    top: Top::Finite,
    signed: true,
};
/// E5M3 scale of gfx1250 (CDNA5 manual 7.12.6): unsigned, bias 15, max 114688, NaN 0xff.
pub const E5M3: Format = Format {
    exp_bits: 5,
    man_bits: 3,
    bias: 15,
    top: Top::OneNan,
    signed: false,
};

/// What an encoder does above the largest finite value of a format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overflow {
    /// A finite source that overflows gives the largest finite value (FP16_OVFL).
    pub clamp_finite: bool,
    /// An infinite source gives the largest finite value (FP16_OVFL for fp8 and bf8).
    pub clamp_infinite: bool,
}

impl Overflow {
    /// IEEE: infinity by rounding direction, NaN in formats without infinity.
    pub const IEEE: Self = Self {
        clamp_finite: false,
        clamp_infinite: false,
    };
    /// Everything saturates.
    pub const SATURATE: Self = Self {
        clamp_finite: true,
        clamp_infinite: true,
    };
    /// Finite overflow saturates, infinity stays (f16 with FP16_OVFL).
    #[inline(always)]
    #[must_use]
    pub const fn finite(clamp: bool) -> Self {
        Self {
            clamp_finite: clamp,
            clamp_infinite: false,
        }
    }
    /// Both saturate if `clamp` (fp8 and bf8 with FP16_OVFL).
    #[inline(always)]
    #[must_use]
    pub const fn both(clamp: bool) -> Self {
        Self {
            clamp_finite: clamp,
            clamp_infinite: clamp,
        }
    }
}

/// How the bits below the target's last place are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// Ordinary rounding.
    Round(Rounding),
    /// Stochastic: the top bits of the 32-bit random number, as many as are discarded, are added
    /// below the last place, then the sum is truncated.
    Stochastic(u32),
}

impl Format {
    /// An IEEE-like format with bias 2^(exp_bits-1) - 1.
    #[must_use]
    pub const fn ieee(exp_bits: u32, man_bits: u32) -> Self {
        Self {
            exp_bits,
            man_bits,
            bias: (1 << (exp_bits - 1)) - 1,
            top: Top::Ieee,
            signed: true,
        }
    }

    /// Mask of exponent and mantissa.
    #[inline(always)]
    #[must_use]
    pub const fn magnitude_mask(self) -> u32 {
        (1 << (self.exp_bits + self.man_bits)) - 1
    }

    /// The sign bit (0 for unsigned formats).
    #[inline(always)]
    #[must_use]
    pub const fn sign_mask(self) -> u32 {
        if self.signed {
            self.magnitude_mask() + 1
        } else {
            0
        }
    }

    /// Code of the largest finite magnitude.
    #[inline(always)]
    #[must_use]
    pub const fn max_finite(self) -> u32 {
        match self.top {
            Top::Ieee => (((1 << self.exp_bits) - 1) << self.man_bits) - 1,
            Top::OneNan => self.magnitude_mask() - 1,
            Top::Fnuz | Top::Finite => self.magnitude_mask(),
        }
    }

    /// The value of the low bits of `code` as f32. Exact for every format here. NaNs keep sign and,
    /// in IEEE-like formats, payload (left-aligned, not quieted); other NaNs are quiet.
    #[inline(always)]
    #[must_use]
    pub const fn decode(self, code: u32) -> f32 {
        let mag = code & self.magnitude_mask();
        let sign = if self.signed {
            (code >> (self.exp_bits + self.man_bits) & 1) << 31
        } else {
            0
        };
        let exp = mag >> self.man_bits;
        let normal = (mag << (23 - self.man_bits)).wrapping_add(((127 - self.bias) as u32) << 23);
        let value = if self.exp_bits == 8 {
            mag << (23 - self.man_bits)
        } else {
            let unit = f32::from_bits(((127 + 1 - self.bias - self.man_bits as i32) as u32) << 23);
            let subnormal = ((mag as i32) as f32 * unit).to_bits();
            if exp == 0 { subnormal } else { normal }
        };
        let bits = match self.top {
            Top::Ieee => {
                let special = 0x7f80_0000 | mag << (23 - self.man_bits);
                (if exp == (1 << self.exp_bits) - 1 {
                    special
                } else {
                    value
                }) | sign
            }
            Top::OneNan => {
                (if mag == self.magnitude_mask() {
                    0x7fc0_0000
                } else {
                    value
                }) | sign
            }
            Top::Fnuz => {
                if mag == 0 && sign != 0 {
                    0x7fc0_0000
                } else {
                    value | sign
                }
            }
            Top::Finite => value | sign,
        };
        f32::from_bits(bits)
    }

    /// Encodes the f32 bits `x` times 2^`-scale`, rounded once.
    ///
    /// `|scale| <= 255`. NaN becomes a quiet NaN with the top payload bits (IEEE-like), the
    /// format's NaN with the sign of `x` (`OneNan`), 0x80 (`Fnuz`), or the largest magnitude with
    /// the sign of `x` (`Finite`; the manuals do not say, this is what AMD's open emulations of the
    /// conversion do).
    #[inline(always)]
    #[must_use]
    pub const fn encode_scaled(
        self,
        x: u32,
        scale: i32,
        discard: Discard,
        overflow: Overflow,
    ) -> u32 {
        let abs = x & 0x7fff_ffff;
        let negative = x >> 31 != 0;
        // A denormal source is normalised by an exact int-to-float conversion.
        let denormal = abs < 0x0080_0000;
        let normal_bits = if denormal {
            (abs as i32 as f32).to_bits()
        } else {
            abs
        };
        let source_bias = if denormal { 127 + 149 } else { 127 };
        let exp = (normal_bits >> 23) as i32 - source_bias - scale + self.bias;
        let sig = if abs == 0 {
            0
        } else {
            normal_bits & 0x007f_ffff | 0x0080_0000
        };
        let below = if exp < 1 { 1 - exp } else { 0 };
        let shift = (23 - self.man_bits as i32 + below) as u32;
        // From 26 discarded bits on an ordinary rounding only depends on "not zero"; a stochastic one
        // goes up with a probability that a shorter significand still expresses.
        let excess = shift.saturating_sub(31);
        let excess = if excess > 24 { 24 } else { excess };
        let stochastic = matches!(discard, Discard::Stochastic(_));
        let nonzero = sig != 0;
        let sig = if stochastic { sig >> excess } else { sig };
        let shift = if shift > 31 { 31 } else { shift };
        let odd = sig >> shift & 1;
        let mask = (1u32 << shift) - 1;
        let add = match discard {
            Discard::Round(Rounding::NearestEven) => (mask >> 1) + odd,
            Discard::Round(Rounding::TowardPlus) => {
                if negative {
                    0
                } else {
                    mask
                }
            }
            Discard::Round(Rounding::TowardMinus) => {
                if negative {
                    mask
                } else {
                    0
                }
            }
            Discard::Round(Rounding::TowardZero) => 0,
            Discard::Stochastic(random) => ((random as u64) >> (32 - shift)) as u32,
        };
        let kept = (sig + add) >> shift;
        let base = if exp < 1 { 0 } else { (exp - 1) as u32 };
        // Far above every format here: keep the shift below from wrapping.
        let base = if base > 1023 { 1023 } else { base };
        let mag = kept + (base << self.man_bits);
        let mag = if nonzero { mag } else { 0 };
        let max = self.max_finite();
        let infinity = (((1u32 << self.exp_bits) - 1) << self.man_bits) & self.magnitude_mask();
        let beyond = match self.top {
            Top::Ieee => infinity,
            Top::OneNan => self.magnitude_mask(),
            Top::Fnuz => self.magnitude_mask() + 1,
            Top::Finite => max,
        };
        let directed_to_max = match discard {
            Discard::Round(Rounding::NearestEven) | Discard::Stochastic(_) => false,
            Discard::Round(Rounding::TowardPlus) => negative,
            Discard::Round(Rounding::TowardMinus) => !negative,
            Discard::Round(Rounding::TowardZero) => true,
        };
        let over = if overflow.clamp_finite || directed_to_max {
            max
        } else {
            beyond
        };
        let mag = if mag > max { over } else { mag };
        let inf = if overflow.clamp_infinite { max } else { beyond };
        let mag = if abs == 0x7f80_0000 { inf } else { mag };
        let nan = match self.top {
            Top::Ieee => {
                infinity
                    | abs >> (23 - self.man_bits) & ((1 << self.man_bits) - 1)
                    | 1 << (self.man_bits - 1)
            }
            Top::OneNan => self.magnitude_mask(),
            Top::Fnuz => self.magnitude_mask() + 1,
            Top::Finite => max,
        };
        let is_nan = abs > 0x7f80_0000;
        let mag = if is_nan { nan } else { mag };
        // FNUZ has no minus zero; the code of its NaN is the sign bit already.
        let unsigned = matches!(self.top, Top::Fnuz) && mag == 0;
        if negative && !unsigned {
            mag | self.sign_mask()
        } else {
            mag
        }
    }

    /// Encodes the f32 bits `x`, rounded once; NaN and overflow as in [`Format::encode_scaled`].
    #[inline(always)]
    #[must_use]
    pub const fn encode(self, x: u32, rounding: Rounding, overflow: Overflow) -> u32 {
        self.encode_scaled(x, 0, Discard::Round(rounding), overflow)
    }

    /// Encodes the f64 bits `x`, rounded once, for formats of up to 32 bits with infinities.
    ///
    /// NaN becomes a quiet NaN with the top payload bits.
    #[inline(always)]
    #[must_use]
    pub const fn encode64(self, x: u64, rounding: Rounding, overflow: Overflow) -> u32 {
        let abs = x & (u64::MAX >> 1);
        let negative = x >> 63 != 0;
        let exp = (abs >> 52) as i32 - 1023 + self.bias;
        // f64 denormals are below half the smallest value of every format here: only "not zero" counts.
        let hidden = if abs >> 52 == 0 { 0 } else { 1u64 << 52 };
        let sig = abs & 0x000f_ffff_ffff_ffff | hidden;
        let below = if exp < 1 { 1 - exp } else { 0 };
        let shift = (52 - self.man_bits as i32 + below) as u32;
        let shift = if shift > 54 { 54 } else { shift };
        let odd = sig >> shift & 1;
        let mask = (1u64 << shift) - 1;
        let add = match rounding {
            Rounding::NearestEven => (mask >> 1) + odd,
            Rounding::TowardPlus => {
                if negative {
                    0
                } else {
                    mask
                }
            }
            Rounding::TowardMinus => {
                if negative {
                    mask
                } else {
                    0
                }
            }
            Rounding::TowardZero => 0,
        };
        let kept = ((sig + add) >> shift) as u32;
        let base = if exp < 1 { 0 } else { (exp - 1) as u32 };
        let top_exp = (1u32 << self.exp_bits) - 1;
        let base = if base > top_exp { top_exp } else { base };
        let mag = kept + (base << self.man_bits);
        let max = self.max_finite();
        let infinity = top_exp << self.man_bits;
        let directed_to_max = match rounding {
            Rounding::NearestEven => false,
            Rounding::TowardPlus => negative,
            Rounding::TowardMinus => !negative,
            Rounding::TowardZero => true,
        };
        let over = if overflow.clamp_finite || directed_to_max {
            max
        } else {
            infinity
        };
        let mag = if mag > max { over } else { mag };
        let inf = if overflow.clamp_infinite {
            max
        } else {
            infinity
        };
        let mag = if abs == 0x7ff0_0000_0000_0000 {
            inf
        } else {
            mag
        };
        let payload = (abs >> (52 - self.man_bits)) as u32 & ((1 << self.man_bits) - 1);
        let nan = infinity | payload | 1 << (self.man_bits - 1);
        let mag = if abs > 0x7ff0_0000_0000_0000 {
            nan
        } else {
            mag
        };
        if negative {
            mag | self.sign_mask()
        } else {
            mag
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    const NARROW: [Format; 10] = [F16, BF16, FP8, BF8, FP8_FNUZ, BF8_FNUZ, FP6, BF6, FP4, E5M3];
    const DIRECTIONS: [Rounding; 4] = [
        Rounding::NearestEven,
        Rounding::TowardPlus,
        Rounding::TowardMinus,
        Rounding::TowardZero,
    ];

    /// Value of a finite code from the definition, or None for infinity and NaN.
    fn value(f: Format, code: u32) -> Option<f64> {
        let mag = code & ((1 << (f.exp_bits + f.man_bits)) - 1);
        let exp = (mag >> f.man_bits) as i32;
        let man = f64::from(mag & ((1 << f.man_bits) - 1)) / f64::from(1u32 << f.man_bits);
        let special = match f.top {
            Top::Ieee => exp == (1 << f.exp_bits) - 1,
            Top::OneNan => mag + 1 == 1 << (f.exp_bits + f.man_bits),
            Top::Fnuz => code == 1 << (f.exp_bits + f.man_bits),
            Top::Finite => false,
        };
        let v = if exp == 0 {
            man * 2f64.powi(1 - f.bias)
        } else {
            (1.0 + man) * 2f64.powi(exp - f.bias)
        };
        let negative = f.signed && code >> (f.exp_bits + f.man_bits) & 1 == 1;
        (!special).then_some(if negative { -v } else { v })
    }

    #[test]
    fn decode_is_the_definition() {
        for f in NARROW {
            let codes = 1u32 << (f.exp_bits + f.man_bits + u32::from(f.signed));
            for code in 0..codes {
                let got = f.decode(code);
                match value(f, code) {
                    Some(v) => assert_eq!(f64::from(got).to_bits(), v.to_bits(), "{f:?} {code:#x}"),
                    None => assert!(!got.is_finite(), "{f:?} {code:#x}"),
                }
                if f == F16 {
                    let model = half::f16::from_bits(code as u16);
                    assert_eq!(got.is_nan(), model.is_nan());
                    assert!(got.is_nan() || got == model.to_f32());
                }
            }
        }
        assert_eq!(FP8.decode(FP8.max_finite()), 448.0);
        assert_eq!(BF8.decode(BF8.max_finite()), 57344.0);
        assert_eq!(FP8_FNUZ.decode(FP8_FNUZ.max_finite()), 240.0);
        assert_eq!(BF8_FNUZ.decode(BF8_FNUZ.max_finite()), 57344.0);
        assert_eq!(FP6.decode(FP6.max_finite()), 7.5);
        assert_eq!(BF6.decode(BF6.max_finite()), 28.0);
        assert_eq!(FP4.decode(FP4.max_finite()), 6.0);
        assert_eq!(E5M3.decode(E5M3.max_finite()), 114_688.0);
    }

    /// Correct rounding of a finite `x` by search over the non-negative codes.
    /// The code after the largest stands for overflow.
    fn search(f: Format, values: &[f64], x: f64, rounding: Rounding) -> u32 {
        let a = x.abs();
        let lower = values.partition_point(|v| *v <= a) - 1;
        let next = if lower + 1 < values.len() {
            values[lower + 1]
        } else {
            // The value the grid would continue with.
            values[lower] + (values[lower] - values[lower - 1])
        };
        let middle = (values[lower] + next) / 2.0;
        let up = match rounding {
            _ if a == values[lower] => false,
            Rounding::TowardPlus => x > 0.0,
            Rounding::TowardMinus => x < 0.0,
            Rounding::TowardZero => false,
            Rounding::NearestEven => a > middle || (a == middle && lower % 2 == 1),
        };
        let beyond = a >= next;
        let code = if beyond {
            lower as u32 + 1
        } else {
            lower as u32 + u32::from(up)
        };
        if code > f.max_finite() {
            f.max_finite() + 1
        } else {
            code
        }
    }

    #[test]
    fn encode_rounds_correctly() {
        for f in NARROW {
            let values: Vec<f64> = (0..=f.max_finite())
                .map(|c| value(f, c).unwrap_or(0.0))
                .collect();
            let mut inputs: Vec<f32> = Vec::new();
            for w in values.windows(2) {
                let (lo, hi) = (w[0] as f32, w[1] as f32);
                let mid = (lo + hi) / 2.0;
                for v in [
                    lo,
                    mid,
                    f32::from_bits(mid.to_bits() + 1),
                    f32::from_bits(mid.to_bits().saturating_sub(1)),
                ] {
                    inputs.extend([v, -v]);
                }
            }
            let max = f.decode(f.max_finite());
            for k in 0..64 {
                inputs.push(max * (1.0 + k as f32 / 256.0));
                inputs.push(-max * (1.0 + k as f32 / 256.0));
            }
            let mut random = Random(7);
            inputs.extend((0..20_000).map(|_| f32::from_bits(random.f32())));
            inputs.retain(|x| x.is_finite());
            for x in inputs {
                for rounding in DIRECTIONS {
                    let mag = search(f, &values, f64::from(x), rounding);
                    let overflows = mag > f.max_finite();
                    let code = f.encode(x.to_bits(), rounding, Overflow::SATURATE);
                    let want = mag.min(f.max_finite());
                    let sign = if x.is_sign_negative() && !(f.top == Top::Fnuz && want == 0) {
                        f.sign_mask()
                    } else {
                        0
                    };
                    assert_eq!(code, want | sign, "{f:?} {x:e} {rounding:?}");
                    let code = f.encode(x.to_bits(), rounding, Overflow::IEEE);
                    if !overflows {
                        assert_eq!(code, want | sign, "{f:?} {x:e} {rounding:?}");
                    } else if rounding == Rounding::NearestEven && f.top != Top::Finite {
                        assert!(!f.decode(code).is_finite(), "{f:?} {x:e}");
                    }
                }
            }
        }
    }

    #[test]
    fn encode64_agrees_with_soft_arithmetic() {
        use super::super::soft::{BFLOAT16, BINARY16, BINARY32, BINARY64};
        let mut random = Random(3);
        for _ in 0..200_000 {
            let x = random.f64();
            // Bring half of them into the small range.
            let x = if x & 1 == 0 {
                x
            } else {
                (f64::from_bits(x) as f32 as f64 * 1e-3).to_bits()
            };
            let abs = x & (u64::MAX >> 1);
            if abs >= 0x7ff0_0000_0000_0000 {
                continue;
            }
            for rounding in DIRECTIONS {
                for (f, soft) in [(F16, BINARY16), (BF16, BFLOAT16), (F32, BINARY32)] {
                    let want = BINARY64.convert(x, soft, rounding) as u32;
                    assert_eq!(
                        f.encode64(x, rounding, Overflow::IEEE),
                        want,
                        "{f:?} {x:#x} {rounding:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn special_values() {
        let (inf, nan) = (0x7f80_0000, 0x7fc0_0000);
        let ne = Rounding::NearestEven;
        assert_eq!(FP8.encode(inf, ne, Overflow::IEEE), 0x7f);
        assert_eq!(FP8.encode(inf | 1 << 31, ne, Overflow::SATURATE), 0xfe);
        assert_eq!(BF8.encode(inf, ne, Overflow::IEEE), 0x7c);
        assert_eq!(BF8.encode(inf, ne, Overflow::SATURATE), 0x7b);
        assert_eq!(BF8.encode(nan, ne, Overflow::SATURATE), 0x7e);
        assert_eq!(FP8_FNUZ.encode(nan, ne, Overflow::SATURATE), 0x80);
        assert_eq!(FP8_FNUZ.encode(1 << 31, ne, Overflow::IEEE), 0);
        assert_eq!(FP8_FNUZ.encode(inf, ne, Overflow::IEEE), 0x80);
        assert_eq!(FP8.encode(464f32.to_bits(), ne, Overflow::IEEE), 0x7e);
        assert_eq!(FP8.encode(464.1f32.to_bits(), ne, Overflow::IEEE), 0x7f);
        assert_eq!(F16.encode(inf, ne, Overflow::finite(true)), 0x7c00);
        assert_eq!(
            F16.encode(1e6f32.to_bits(), ne, Overflow::finite(true)),
            0x7bff
        );
        assert_eq!(FP4.encode(inf | 1 << 31, ne, Overflow::IEEE), 0xf);
    }
}
