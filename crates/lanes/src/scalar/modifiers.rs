//! Operand and result modifiers: neg, abs, omod, clamp.
//! RDNA3 manual 7.2.3, CDNA3 manual 6.2.2.

use crate::fp::nan::{is_nan16, is_nan32, is_nan64};

/// f32 `abs`, then `neg`.
#[inline(always)]
#[must_use]
pub const fn source_f32(x: u32, abs: bool, neg: bool) -> u32 {
    let x = if abs { x & 0x7fff_ffff } else { x };
    x ^ (neg as u32) << 31
}

/// f16 or bf16 `abs`, then `neg`.
#[inline(always)]
#[must_use]
pub const fn source_f16(x: u16, abs: bool, neg: bool) -> u16 {
    let x = if abs { x & 0x7fff } else { x };
    x ^ (neg as u16) << 15
}

/// f64 `abs`, then `neg`.
#[inline(always)]
#[must_use]
pub const fn source_f64(x: u64, abs: bool, neg: bool) -> u64 {
    let x = if abs { x & (u64::MAX >> 1) } else { x };
    x ^ (neg as u64) << 63
}

/// Factor of the OMOD field: 0 none, 1 times 2, 2 times 4, 3 divided by 2.
#[inline(always)]
#[must_use]
pub const fn omod_factor(omod: u32) -> f32 {
    match omod & 3 {
        0 => 1.0,
        1 => 2.0,
        2 => 4.0,
        _ => 0.5,
    }
}

/// f32 result times the OMOD factor. The caller ignores OMOD when output denormals are enabled, as
/// the hardware does, so what gets denormal here is to be flushed.
#[inline(always)]
#[must_use]
pub fn omod_f32(x: u32, omod: u32) -> u32 {
    let scaled = (f32::from_bits(x) * omod_factor(omod)).to_bits();
    if omod & 3 == 0 || is_nan32(x) {
        x
    } else {
        scaled
    }
}

/// f16 result times the OMOD factor; see [`omod_f32`].
#[inline(always)]
#[must_use]
pub fn omod_f16(x: u16, omod: u32) -> u16 {
    let wide = crate::fp::half::f16_to_f32(x) * omod_factor(omod);
    if omod & 3 == 0 || is_nan16(x) {
        x
    } else {
        crate::fp::half::f32_to_f16(wide)
    }
}

/// f64 result times the OMOD factor; see [`omod_f32`].
#[inline(always)]
#[must_use]
pub fn omod_f64(x: u64, omod: u32) -> u64 {
    let scaled = (f64::from_bits(x) * f64::from(omod_factor(omod))).to_bits();
    if omod & 3 == 0 || is_nan64(x) {
        x
    } else {
        scaled
    }
}

/// f32 clamped to \[0, 1\]; -0 becomes +0. A NaN becomes 0 if `dx10_clamp`, else stays.
#[inline(always)]
#[must_use]
pub const fn clamp_f32(x: u32, dx10_clamp: bool) -> u32 {
    let r = if x as i32 > 0x3f80_0000 {
        0x3f80_0000
    } else {
        x
    };
    let r = if (x as i32) < 0 { 0 } else { r };
    let nan = if dx10_clamp { 0 } else { x };
    if is_nan32(x) { nan } else { r }
}

/// f16 clamped to \[0, 1\]; -0 becomes +0. A NaN becomes 0 if `dx10_clamp`, else stays.
#[inline(always)]
#[must_use]
pub const fn clamp_f16(x: u16, dx10_clamp: bool) -> u16 {
    let r = if x as i16 > 0x3c00 { 0x3c00 } else { x };
    let r = if (x as i16) < 0 { 0 } else { r };
    let nan = if dx10_clamp { 0 } else { x };
    if is_nan16(x) { nan } else { r }
}

/// bf16 clamped to \[0, 1\]; -0 becomes +0. A NaN becomes 0 if `dx10_clamp`, else stays.
#[inline(always)]
#[must_use]
pub const fn clamp_bf16(x: u16, dx10_clamp: bool) -> u16 {
    (clamp_f32((x as u32) << 16, dx10_clamp) >> 16) as u16
}

/// f64 clamped to \[0, 1\]; -0 becomes +0. A NaN becomes 0 if `dx10_clamp`, else stays.
#[inline(always)]
#[must_use]
pub const fn clamp_f64(x: u64, dx10_clamp: bool) -> u64 {
    let one = 0x3ff0_0000_0000_0000;
    let r = if x as i64 > one as i64 { one } else { x };
    let r = if (x as i64) < 0 { 0 } else { r };
    let nan = if dx10_clamp { 0 } else { x };
    if is_nan64(x) { nan } else { r }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clamp_and_omod() {
        let f = |x: f32| x.to_bits();
        assert_eq!(clamp_f32(f(2.0), true), f(1.0));
        assert_eq!(clamp_f32(f(f32::INFINITY), true), f(1.0));
        assert_eq!(clamp_f32(f(-3.0), true), 0);
        assert_eq!(clamp_f32(f(-0.0), true), 0);
        assert_eq!(clamp_f32(f(0.25), true), f(0.25));
        assert_eq!(clamp_f32(0x7fc0_0000, true), 0);
        assert_eq!(clamp_f32(0xffc0_0000, false), 0xffc0_0000);
        assert_eq!(clamp_f16(0x4000, false), 0x3c00);
        assert_eq!(clamp_bf16(0x4000, false), 0x3f80);
        assert_eq!(clamp_f64(2f64.to_bits(), false), 1f64.to_bits());
        assert_eq!(omod_f32(f(3.0), 3), f(1.5));
        assert_eq!(omod_f16(0x3c00, 2), 0x4400);
        assert_eq!(omod_f64(1f64.to_bits(), 1), 2f64.to_bits());
        assert_eq!(source_f32(f(-1.0), true, true), f(-1.0));
        assert_eq!(source_f16(0xbc00, true, false), 0x3c00);
        assert_eq!(source_f64(0, false, true), 1 << 63);
    }
}
