//! The plain back end: arrays and loops, no host vector instruction named.
//! It is the oracle of the tests, and what runs where the host has no better.

use super::{Lanes, WIDTH, nan};
use crate::fp::{Rounding, half};

/// Lanes as arrays.
#[derive(Clone, Copy, Debug)]
pub struct Scalar;

#[inline(always)]
fn f(x: u32) -> f32 {
    f32::from_bits(x)
}
#[inline(always)]
fn d(x: u64) -> f64 {
    f64::from_bits(x)
}
#[inline(always)]
fn fix1(r: f32, operands: &[u32]) -> u32 {
    if r.is_nan() {
        nan::of_f32(operands)
    } else {
        r.to_bits()
    }
}
#[inline(always)]
fn fix_d(r: f64, operands: &[u64]) -> u64 {
    if r.is_nan() {
        nan::of_f64(operands)
    } else {
        r.to_bits()
    }
}

// SAFETY: nothing here executes an instruction that the build target lacks.
unsafe impl Lanes for Scalar {
    type V = [u32; WIDTH];
    type W = [u64; WIDTH];
    type M = u16;

    #[inline(always)]
    unsafe fn load(p: *const u32) -> Self::V {
        // SAFETY: the caller gives 16 readable words.
        unsafe { p.cast::<[u32; WIDTH]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(p: *mut u32, v: Self::V) {
        // SAFETY: the caller gives 16 writable words.
        unsafe { p.cast::<[u32; WIDTH]>().write_unaligned(v) }
    }
    #[inline(always)]
    fn splat(x: u32) -> Self::V {
        [x; WIDTH]
    }
    #[inline(always)]
    fn to_array(v: Self::V) -> [u32; WIDTH] {
        v
    }
    #[inline(always)]
    fn from_array(a: [u32; WIDTH]) -> Self::V {
        a
    }
    #[inline(always)]
    fn w_to_array(v: Self::W) -> [u64; WIDTH] {
        v
    }
    #[inline(always)]
    fn w_from_array(a: [u64; WIDTH]) -> Self::W {
        a
    }
    #[inline(always)]
    fn join(lo: Self::V, hi: Self::V) -> Self::W {
        std::array::from_fn(|i| u64::from(lo[i]) | u64::from(hi[i]) << 32)
    }
    #[inline(always)]
    fn split(w: Self::W) -> (Self::V, Self::V) {
        (
            std::array::from_fn(|i| w[i] as u32),
            std::array::from_fn(|i| (w[i] >> 32) as u32),
        )
    }
    #[inline(always)]
    fn mask(bits: u16) -> u16 {
        bits
    }
    #[inline(always)]
    fn bits(m: u16) -> u16 {
        m
    }
    #[inline(always)]
    fn select(m: u16, a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| if m >> i & 1 != 0 { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn w_select(m: u16, a: Self::W, b: Self::W) -> Self::W {
        std::array::from_fn(|i| if m >> i & 1 != 0 { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn m_and(a: u16, b: u16) -> u16 {
        a & b
    }
    #[inline(always)]
    fn m_or(a: u16, b: u16) -> u16 {
        a | b
    }
    #[inline(always)]
    fn m_not(a: u16) -> u16 {
        !a
    }
    #[inline(always)]
    fn add(a: Self::V, b: Self::V) -> Self::V {
        Self::map2(a, b, u32::wrapping_add)
    }
    #[inline(always)]
    fn sub(a: Self::V, b: Self::V) -> Self::V {
        Self::map2(a, b, u32::wrapping_sub)
    }
    #[inline(always)]
    fn mul(a: Self::V, b: Self::V) -> Self::V {
        Self::map2(a, b, u32::wrapping_mul)
    }
    #[inline(always)]
    fn and(a: Self::V, b: Self::V) -> Self::V {
        Self::map2(a, b, |x, y| x & y)
    }
    #[inline(always)]
    fn or(a: Self::V, b: Self::V) -> Self::V {
        Self::map2(a, b, |x, y| x | y)
    }
    #[inline(always)]
    fn xor(a: Self::V, b: Self::V) -> Self::V {
        Self::map2(a, b, |x, y| x ^ y)
    }
    #[inline(always)]
    fn shl(a: Self::V, n: Self::V) -> Self::V {
        Self::map2(a, n, |x, n| x << (n & 31))
    }
    #[inline(always)]
    fn shr(a: Self::V, n: Self::V) -> Self::V {
        Self::map2(a, n, |x, n| x >> (n & 31))
    }
    #[inline(always)]
    fn sar(a: Self::V, n: Self::V) -> Self::V {
        Self::map2(a, n, |x, n| (x as i32 >> (n & 31)) as u32)
    }
    #[inline(always)]
    fn min_i(a: Self::V, b: Self::V) -> Self::V {
        Self::map2(a, b, |x, y| (x as i32).min(y as i32) as u32)
    }
    #[inline(always)]
    fn max_i(a: Self::V, b: Self::V) -> Self::V {
        Self::map2(a, b, |x, y| (x as i32).max(y as i32) as u32)
    }
    #[inline(always)]
    fn min_u(a: Self::V, b: Self::V) -> Self::V {
        Self::map2(a, b, u32::min)
    }
    #[inline(always)]
    fn max_u(a: Self::V, b: Self::V) -> Self::V {
        Self::map2(a, b, u32::max)
    }
    #[inline(always)]
    fn eq(a: Self::V, b: Self::V) -> u16 {
        Self::test2(a, b, |x, y| x == y)
    }
    #[inline(always)]
    fn lt_i(a: Self::V, b: Self::V) -> u16 {
        Self::test2(a, b, |x, y| (x as i32) < y as i32)
    }
    #[inline(always)]
    fn lt_u(a: Self::V, b: Self::V) -> u16 {
        Self::test2(a, b, |x, y| x < y)
    }
    #[inline(always)]
    fn add_f32(a: Self::V, b: Self::V) -> Self::V {
        Self::map2(a, b, |x, y| fix1(f(x) + f(y), &[x, y]))
    }
    #[inline(always)]
    fn sub_f32(a: Self::V, b: Self::V) -> Self::V {
        Self::map2(a, b, |x, y| fix1(f(x) - f(y), &[x, y]))
    }
    #[inline(always)]
    fn mul_f32(a: Self::V, b: Self::V) -> Self::V {
        Self::map2(a, b, |x, y| fix1(f(x) * f(y), &[x, y]))
    }
    #[inline(always)]
    fn fma_f32(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        Self::map3(a, b, c, |x, y, z| {
            fix1(f(x).mul_add(f(y), f(z)), &[x, y, z])
        })
    }
    #[inline(always)]
    fn eq_f32(a: Self::V, b: Self::V) -> u16 {
        Self::test2(a, b, |x, y| f(x) == f(y))
    }
    #[inline(always)]
    fn lt_f32(a: Self::V, b: Self::V) -> u16 {
        Self::test2(a, b, |x, y| f(x) < f(y))
    }
    #[inline(always)]
    fn le_f32(a: Self::V, b: Self::V) -> u16 {
        Self::test2(a, b, |x, y| f(x) <= f(y))
    }
    #[inline(always)]
    fn unordered_f32(a: Self::V, b: Self::V) -> u16 {
        Self::test2(a, b, |x, y| f(x).is_nan() || f(y).is_nan())
    }
    #[inline(always)]
    fn f32_from_i32(a: Self::V) -> Self::V {
        Self::map1(a, |x| (x as i32 as f32).to_bits())
    }
    #[inline(always)]
    fn f32_from_u32(a: Self::V) -> Self::V {
        Self::map1(a, |x| (x as f32).to_bits())
    }
    #[inline(always)]
    fn f32_from_f16(a: Self::V) -> Self::V {
        Self::map1(a, widen_f16)
    }
    #[inline(always)]
    fn f16_from_f32(a: Self::V) -> Self::V {
        Self::map1(a, narrow_f16)
    }
    #[inline(always)]
    fn f16_from_f32_toward_zero(a: Self::V) -> Self::V {
        Self::map1(a, |x| {
            u32::from(half::f32_to_f16_round(f(x), Rounding::TowardZero, false))
        })
    }
    #[inline(always)]
    fn add_odd_f32(a: Self::V, b: Self::V) -> Self::V {
        Self::map2(a, b, |x, y| fix1(half::add_to_odd32(f(x), f(y)), &[x, y]))
    }
    #[inline(always)]
    fn min_f32(a: Self::V, b: Self::V) -> Self::V {
        let pick = |x, y| if f(x) < f(y) { x } else { y };
        Self::map2(a, b, |x, y| pick(x, y) | pick(y, x))
    }
    #[inline(always)]
    fn max_f32(a: Self::V, b: Self::V) -> Self::V {
        let pick = |x, y| if f(x) > f(y) { x } else { y };
        Self::map2(a, b, |x, y| pick(x, y) & pick(y, x))
    }
    #[inline(always)]
    fn add_f64(a: Self::W, b: Self::W) -> Self::W {
        Self::w_map2(a, b, |x, y| fix_d(d(x) + d(y), &[x, y]))
    }
    #[inline(always)]
    fn mul_f64(a: Self::W, b: Self::W) -> Self::W {
        Self::w_map2(a, b, |x, y| fix_d(d(x) * d(y), &[x, y]))
    }
    #[inline(always)]
    fn fma_f64(a: Self::W, b: Self::W, c: Self::W) -> Self::W {
        Self::w_map3(a, b, c, |x, y, z| {
            fix_d(d(x).mul_add(d(y), d(z)), &[x, y, z])
        })
    }
    #[inline(always)]
    fn eq_f64(a: Self::W, b: Self::W) -> u16 {
        Self::w_test2(a, b, |x, y| d(x) == d(y))
    }
    #[inline(always)]
    fn lt_f64(a: Self::W, b: Self::W) -> u16 {
        Self::w_test2(a, b, |x, y| d(x) < d(y))
    }
    #[inline(always)]
    fn le_f64(a: Self::W, b: Self::W) -> u16 {
        Self::w_test2(a, b, |x, y| d(x) <= d(y))
    }
    #[inline(always)]
    fn unordered_f64(a: Self::W, b: Self::W) -> u16 {
        Self::w_test2(a, b, |x, y| d(x).is_nan() || d(y).is_nan())
    }
}

/// f32 bits of the f16 in the low half of `x`; a signalling NaN becomes quiet.
#[inline(always)]
fn widen_f16(x: u32) -> u32 {
    let sign = (x & 0x8000) << 16;
    let magnitude = x & 0x7fff;
    let bits = if magnitude >= 0x7c00 {
        let quiet = if magnitude > 0x7c00 { 0x0040_0000 } else { 0 };
        0x7f80_0000 | (magnitude & 0x3ff) << 13 | quiet
    } else if magnitude >= 0x400 {
        (magnitude << 13) + (112 << 23)
    } else {
        // Subnormal: an integer multiple of 2^-24.
        (magnitude as f32 * (1.0 / 16_777_216.0)).to_bits()
    };
    sign | bits
}

/// f16 bits of the f32 `x`, to nearest even.
#[inline(always)]
fn narrow_f16(x: u32) -> u32 {
    let sign = x >> 16 & 0x8000;
    let magnitude = x & 0x7fff_ffff;
    let bits = if magnitude > 0x7f80_0000 {
        0x7e00 | (magnitude >> 13 & 0x3ff)
    } else if magnitude >= 0x477f_f000 {
        0x7c00
    } else if magnitude >= 0x3880_0000 {
        let rebased = magnitude - (112 << 23);
        (rebased + 0xfff + (rebased >> 13 & 1)) >> 13
    } else {
        // Adding 0.5 leaves the rounded multiple of 2^-24 in the low bits of the significand.
        (f32::from_bits(magnitude) + 0.5).to_bits() - 0.5f32.to_bits()
    };
    sign | bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_conversions_agree_with_exact_values() {
        for h in 0..=0xffffu32 {
            let w = f(widen_f16(h));
            let (e, m) = ((h >> 10 & 31) as i32, (h & 0x3ff) as f64);
            if e == 31 {
                assert_eq!(w.is_nan(), m != 0.0, "{h:#x}");
                assert_eq!(narrow_f16(widen_f16(h)) & !0x200, h & !0x200);
                continue;
            }
            let exact = if e == 0 {
                m * 2f64.powi(-24)
            } else {
                (m + 1024.0) * 2f64.powi(e - 25)
            };
            assert_eq!(f64::from(w.abs()), exact, "{h:#x}");
            assert_eq!(narrow_f16(widen_f16(h)), h);
        }
    }

    #[test]
    fn narrowing_rounds_to_nearest_even() {
        // Between each pair of neighbours: below, at and above the middle.
        for h in 0..0x7bffu32 {
            let lo = f64::from(f(widen_f16(h)));
            let hi = f64::from(f(widen_f16(h + 1)));
            let mid = ((lo + hi) / 2.0) as f32;
            assert_eq!(f64::from(mid), (lo + hi) / 2.0);
            assert_eq!(
                narrow_f16(mid.to_bits()),
                h + (h & 1),
                "middle above {h:#x}"
            );
            assert_eq!(narrow_f16(mid.to_bits() - 1), h);
            assert_eq!(narrow_f16(mid.to_bits() + 1), h + 1);
        }
        assert_eq!(narrow_f16(65520f32.to_bits()), 0x7c00);
        assert_eq!(narrow_f16(65519f32.to_bits()), 0x7bff);
    }
}
