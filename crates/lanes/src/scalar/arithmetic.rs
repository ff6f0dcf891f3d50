//! Float add, sub, mul, fma, mad and their relatives, as VALU instructions perform them.
//! Plain forms are those of [`crate::fp::arith`]; this file names them and adds the odd ones.

pub use crate::fp::arith::{
    add_f16 as v_add_f16, add_f32 as v_add_f32, add_f64 as v_add_f64, fma_f16 as v_fma_f16,
    fma_f32 as v_fma_f32, fma_f64 as v_fma_f64, mul_f16 as v_mul_f16, mul_f32 as v_mul_f32,
    mul_f64 as v_mul_f64, sub_f16 as v_sub_f16, sub_f32 as v_sub_f32, sub_f64 as v_sub_f64,
};

pub use {
    v_fma_f16 as v_fma_legacy_f16, v_fma_f16 as v_fmac_f16, v_fma_f32 as v_fmac_f32,
    v_fma_f64 as v_fmac_f64, v_mad_f16 as v_mac_f16, v_mad_f16 as v_mad_legacy_f16,
};

use crate::fp::half;
use crate::fp::mode::{flush_bf16, flush32};
use crate::fp::{Mode, arith};

/// `b - a` in f32.
#[inline(always)]
#[must_use]
pub fn v_subrev_f32(a: u32, b: u32, mode: Mode) -> u32 {
    arith::sub_f32(b, a, mode)
}

/// `b - a` in f16.
#[inline(always)]
#[must_use]
pub fn v_subrev_f16(a: u16, b: u16, mode: Mode) -> u16 {
    arith::sub_f16(b, a, mode)
}

/// f16 `a * b + c` with the product rounded before the sum (gfx9 v_mad_f16, v_mac_f16, v_madak, v_madmk).
#[inline(always)]
#[must_use]
pub fn v_mad_f16(a: u16, b: u16, c: u16, mode: Mode) -> u16 {
    arith::add_f16(arith::mul_f16(a, b, mode), c, mode)
}

/// f32 `a * b + c` with the product rounded before the sum (gfx9 v_mad_f32, v_mac_f32, v_mad_mix_f32).
#[inline(always)]
#[must_use]
pub fn v_mad_f32(a: u32, b: u32, c: u32, mode: Mode) -> u32 {
    arith::add_f32(arith::mul_f32(a, b, mode), c, mode)
}

/// f32 `a * b` where a zero (or flushed) operand gives +0 whatever the other is
/// (V_MUL_LEGACY_F32, V_MUL_DX9_ZERO_F32).
#[inline(always)]
#[must_use]
pub fn v_mul_dx9_zero_f32(a: u32, b: u32, mode: Mode) -> u32 {
    let (a, b) = (flush32(a, mode.flush_in32), flush32(b, mode.flush_in32));
    let r = arith::mul_f32(a, b, mode);
    if a << 1 == 0 || b << 1 == 0 { 0 } else { r }
}

pub use v_mul_dx9_zero_f32 as v_mul_legacy_f32;

/// f32 `a * b + c` where a zero `a` or `b` gives `c`. Denormals are flushed whatever MODE says
/// (RDNA4 manual 7.2.4). V_FMAC_DX9_ZERO_F32 is the same with `c` the destination.
#[inline(always)]
#[must_use]
pub fn v_fma_dx9_zero_f32(a: u32, b: u32, c: u32, mode: Mode) -> u32 {
    let mode = Mode {
        flush_in32: true,
        flush_out32: true,
        ..mode
    };
    let (a, b, c) = (flush32(a, true), flush32(b, true), flush32(c, true));
    let r = arith::fma_f32(a, b, c, mode);
    if a << 1 == 0 || b << 1 == 0 { c } else { r }
}

/// f32 `a * b`, or -MAX if `b` is -MAX, -infinity or NaN, or `c` is NaN or not positive.
#[inline(always)]
#[must_use]
pub fn v_mullit_f32(a: u32, b: u32, c: u32, mode: Mode) -> u32 {
    let y = f32::from_bits(flush32(b, mode.flush_in32));
    let z = f32::from_bits(flush32(c, mode.flush_in32));
    let guard = (y <= -f32::MAX) | y.is_nan() | (z <= 0.0) | z.is_nan();
    if guard {
        0xff7f_ffff
    } else {
        arith::mul_f32(a, b, mode)
    }
}

/// `fma` of three f32 values that the caller selected and widened (V_FMA_MIX_F32, V_FMA_MIX_F32_BF16).
#[inline(always)]
#[must_use]
pub fn v_fma_mix_f32(a: u32, b: u32, c: u32, mode: Mode) -> u32 {
    arith::fma_f32(a, b, c, mode)
}

/// As [`v_fma_mix_f32`], then rounded to f16 (V_FMA_MIXLO_F16, V_FMA_MIXHI_F16), in the direction of
/// MODE's f16 field: two roundings, as in the pseudocode and in compilers' use of it.
#[inline(always)]
#[must_use]
pub fn v_fma_mixlo_f16(a: u32, b: u32, c: u32, mode: Mode) -> u16 {
    super::convert::v_cvt_f16_f32(arith::fma_f32(a, b, c, mode), mode)
}

/// As [`v_mad_f32`], then rounded to f16 (gfx9 V_MAD_MIXLO_F16, V_MAD_MIXHI_F16).
#[inline(always)]
#[must_use]
pub fn v_mad_mixlo_f16(a: u32, b: u32, c: u32, mode: Mode) -> u16 {
    super::convert::v_cvt_f16_f32(v_mad_f32(a, b, c, mode), mode)
}

/// As [`v_fma_mix_f32`], then rounded to bf16 (V_FMA_MIXLO_BF16, V_FMA_MIXHI_BF16 of gfx1250).
#[inline(always)]
#[must_use]
pub fn v_fma_mixlo_bf16(a: u32, b: u32, c: u32, mode: Mode) -> u16 {
    let r = f32::from_bits(arith::fma_f32(a, b, c, mode));
    half::f32_to_bf16_round(r, mode.round16_64, mode.fp16_ovfl)
}

/// One half of V_PK_ADD_BF16 (gfx1250): rounding, denormals and overflow by MODE's 16-bit fields;
/// the manual says nothing of bf16 there.
#[inline(always)]
#[must_use]
pub fn v_add_bf16(a: u16, b: u16, mode: Mode) -> u16 {
    let (a, b) = (
        flush_bf16(a, mode.flush_in16_64),
        flush_bf16(b, mode.flush_in16_64),
    );
    flush_bf16(
        half::add_bf16(a, b, mode.round16_64, mode.fp16_ovfl),
        mode.flush_out16_64,
    )
}

/// One half of V_PK_MUL_BF16 (gfx1250); see [`v_add_bf16`].
#[inline(always)]
#[must_use]
pub fn v_mul_bf16(a: u16, b: u16, mode: Mode) -> u16 {
    let (a, b) = (
        flush_bf16(a, mode.flush_in16_64),
        flush_bf16(b, mode.flush_in16_64),
    );
    flush_bf16(
        half::mul_bf16(a, b, mode.round16_64, mode.fp16_ovfl),
        mode.flush_out16_64,
    )
}

/// bf16 `a * b + c`, rounded once; see [`v_add_bf16`].
#[inline(always)]
#[must_use]
pub fn v_fma_bf16(a: u16, b: u16, c: u16, mode: Mode) -> u16 {
    let flush = mode.flush_in16_64;
    let (a, b, c) = (
        flush_bf16(a, flush),
        flush_bf16(b, flush),
        flush_bf16(c, flush),
    );
    flush_bf16(
        half::fma_bf16(a, b, c, mode.round16_64, mode.fp16_ovfl),
        mode.flush_out16_64,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legacy_and_guards() {
        let mode = Mode::default();
        let f = |x: f32| x.to_bits();
        assert_eq!(v_mul_legacy_f32(0x8000_0000, 0x7f80_0000, mode), 0);
        assert_eq!(v_mul_dx9_zero_f32(f(2.0), f(3.0), mode), f(6.0));
        assert_eq!(v_fma_dx9_zero_f32(0, 0x7fc0_0000, f(5.0), mode), f(5.0));
        assert_eq!(v_fma_dx9_zero_f32(1, 0x7fc0_0000, f(5.0), mode), f(5.0));
        // RDNA3 silicon.
        assert_eq!(v_mullit_f32(f(2.0), f(3.0), f(1.0), mode), f(6.0));
        assert_eq!(v_mullit_f32(f(2.0), f(3.0), f(0.0), mode), 0xff7f_ffff);
        assert_eq!(v_mullit_f32(f(2.0), 0xff80_0000, f(1.0), mode), 0xff7f_ffff);
    }

    #[test]
    fn mad_rounds_twice() {
        let mode = Mode::default();
        // (1 + 2^-10)^2 = 1 + 2^-9 + 2^-20: the last term is lost before the subtraction.
        let (a, c) = (0x3c01, 0xbc02);
        assert_eq!(v_mad_f16(a, a, c, mode), 0);
        assert_eq!(v_fma_f16(a, a, c, mode), 0x0010);
        assert_eq!(v_add_bf16(0x3f80, 0x3f80, mode), 0x4000);
        assert_eq!(v_fma_mixlo_f16(0x3f80_0000, 0x4000_0000, 0, mode), 0x4000);
    }
}
