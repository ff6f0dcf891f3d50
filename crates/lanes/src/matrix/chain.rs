//! One fused multiply-add per k, in ascending order, one rounding each: f32 and f64 of every
//! family, and by default all small floats of RDNA4 and gfx1250.

/// `c + a . b` in f32.
pub(super) fn f32(a: &[f32], b: &[f32], c: f32) -> f32 {
    a.iter().zip(b).fold(c, |sum, (a, b)| a.mul_add(*b, sum))
}

/// `c + a . b` in f64.
pub(super) fn f64(a: &[f64], b: &[f64], c: f64) -> f64 {
    a.iter().zip(b).fold(c, |sum, (a, b)| a.mul_add(*b, sum))
}
