//! The floating-point part of the MODE register, decoded.
//! Bits: RDNA3 manual section 3.5 "Mode register", CDNA3 manual section 3.5, the same on all targets.

/// Rounding direction, numbered as in MODE.FP_ROUND.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Rounding {
    /// To nearest, ties to even.
    #[default]
    NearestEven = 0,
    /// Toward plus infinity.
    TowardPlus = 1,
    /// Toward minus infinity.
    TowardMinus = 2,
    /// Toward zero.
    TowardZero = 3,
}

impl Rounding {
    /// The low two bits of `bits`, as MODE.FP_ROUND encodes a direction.
    #[inline(always)]
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        match bits & 3 {
            0 => Self::NearestEven,
            1 => Self::TowardPlus,
            2 => Self::TowardMinus,
            _ => Self::TowardZero,
        }
    }
}

/// Floating-point control of one wave, decoded from the MODE register.
///
/// gfx12 has neither DX10_CLAMP nor IEEE: there NaN clamps to zero and signaling NaNs are always
/// quieted; set both fields (see [`Mode::from_bits_gfx12`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// Rounding of f32 operations, MODE\[1:0\].
    pub round32: Rounding,
    /// Rounding of f16 and f64 operations, MODE\[3:2\].
    pub round16_64: Rounding,
    /// f32 denormal inputs are replaced by zeros of their sign (MODE\[4\] clear).
    pub flush_in32: bool,
    /// f32 denormal results are replaced by zeros of their sign (MODE\[5\] clear).
    pub flush_out32: bool,
    /// f16 and f64 denormal inputs are replaced by zeros (MODE\[6\] clear).
    pub flush_in16_64: bool,
    /// f16 and f64 denormal results are replaced by zeros (MODE\[7\] clear).
    pub flush_out16_64: bool,
    /// The clamp modifier turns NaN into zero (MODE\[8\]).
    pub dx10_clamp: bool,
    /// Min and max follow IEEE 754-2008 for signaling NaNs (MODE\[9\]).
    pub ieee: bool,
    /// An f16 (fp8, bf8) overflow gives the largest finite value (MODE\[23\]).
    pub fp16_ovfl: bool,
}

impl Default for Mode {
    /// [`Mode::PLAIN`].
    #[inline(always)]
    fn default() -> Self {
        Self::PLAIN
    }
}

impl Mode {
    /// What the ROCm ABI starts a kernel with: nearest even, all denormals, DX10_CLAMP, IEEE.
    pub const PLAIN: Self = Self::from_bits(0x3f0);

    /// Decodes MODE of gfx9 to gfx11.
    #[inline(always)]
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self {
            round32: Rounding::from_bits(bits),
            round16_64: Rounding::from_bits(bits >> 2),
            flush_in32: bits & 0x10 == 0,
            flush_out32: bits & 0x20 == 0,
            flush_in16_64: bits & 0x40 == 0,
            flush_out16_64: bits & 0x80 == 0,
            dx10_clamp: bits & 0x100 != 0,
            ieee: bits & 0x200 != 0,
            fp16_ovfl: bits & 0x80_0000 != 0,
        }
    }

    /// Decodes MODE of gfx12, where DX10_CLAMP and IEEE behaviour is fixed to one
    /// (RDNA4 manual section 7.2.3: "any NaN result is clamped to zero", "quiet SNaNs").
    #[inline(always)]
    #[must_use]
    pub const fn from_bits_gfx12(bits: u32) -> Self {
        Self::from_bits(bits | 0x300)
    }

    /// This mode with both rounding fields replaced by the constant "nearest even".
    ///
    /// A vector loop tests the direction once, outside, and runs on this: the compiler then drops
    /// the calls for directed rounding, which would keep it from vectorising.
    #[inline(always)]
    #[must_use]
    pub const fn nearest_even(self) -> Self {
        Self {
            round32: Rounding::NearestEven,
            round16_64: Rounding::NearestEven,
            ..self
        }
    }

    /// True when f32 operations need neither flushing nor directed rounding.
    #[inline(always)]
    #[must_use]
    pub const fn is_plain32(self) -> bool {
        matches!(self.round32, Rounding::NearestEven) && !self.flush_in32 && !self.flush_out32
    }

    /// True when f16 and f64 operations need neither flushing nor directed rounding nor clamping.
    #[inline(always)]
    #[must_use]
    pub const fn is_plain16_64(self) -> bool {
        matches!(self.round16_64, Rounding::NearestEven)
            && !self.flush_in16_64
            && !self.flush_out16_64
            && !self.fp16_ovfl
    }
}

/// `x` (f32 bits), or a zero of its sign if `flush` and `x` is denormal.
#[inline(always)]
#[must_use]
pub const fn flush32(x: u32, flush: bool) -> u32 {
    if flush && x & 0x7f80_0000 == 0 {
        x & 0x8000_0000
    } else {
        x
    }
}

/// `x` (f64 bits), or a zero of its sign if `flush` and `x` is denormal.
#[inline(always)]
#[must_use]
pub const fn flush64(x: u64, flush: bool) -> u64 {
    if flush && x & 0x7ff0_0000_0000_0000 == 0 {
        x & 0x8000_0000_0000_0000
    } else {
        x
    }
}

/// `x` (f16 bits), or a zero of its sign if `flush` and `x` is denormal.
#[inline(always)]
#[must_use]
pub const fn flush16(x: u16, flush: bool) -> u16 {
    if flush && x & 0x7c00 == 0 {
        x & 0x8000
    } else {
        x
    }
}

/// `x` (bf16 bits), or a zero of its sign if `flush` and `x` is denormal.
#[inline(always)]
#[must_use]
pub const fn flush_bf16(x: u16, flush: bool) -> u16 {
    if flush && x & 0x7f80 == 0 {
        x & 0x8000
    } else {
        x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mode_bits() {
        let m = Mode::from_bits(0b11_0110_1101);
        assert_eq!(m.round32, Rounding::TowardPlus);
        assert_eq!(m.round16_64, Rounding::TowardZero);
        assert!(m.flush_in32 && !m.flush_out32 && !m.flush_in16_64 && m.flush_out16_64);
        assert!(!Mode::from_bits(0).ieee && Mode::from_bits_gfx12(0).ieee);
        assert!(Mode::default().is_plain32() && Mode::default().is_plain16_64());
    }

    #[test]
    fn flushing_keeps_the_sign() {
        assert_eq!(flush32(0x807f_ffff, true), 0x8000_0000);
        assert_eq!(flush32(0x8080_0000, true), 0x8080_0000);
        assert_eq!(flush32(1, false), 1);
        assert_eq!(flush16(0x83ff, true), 0x8000);
        assert_eq!(flush_bf16(0x0040, true), 0);
        assert_eq!(flush64(0x800f_ffff_ffff_ffff, true), 1 << 63);
    }
}
