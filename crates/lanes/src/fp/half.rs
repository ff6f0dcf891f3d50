//! f16 and bf16: conversions and arithmetic with a single rounding, written to vectorise.
//! Sums are formed in a wider type as "round to odd" (inexact results get an odd last bit), which
//! makes the second rounding, in any direction, equal to one rounding of the exact value.

use super::format::{self, Overflow};
use super::mode::Rounding;
use super::nan::{nan2_16, nan2_bf16, nan3_16, nan3_bf16, quiet32, quiet64};

/// f16 bits to f32, exact. NaN payloads stay, signaling NaNs are not quieted.
#[inline(always)]
#[must_use]
pub const fn f16_to_f32(x: u16) -> f32 {
    format::F16.decode(x as u32)
}

/// bf16 bits to f32, exact.
#[inline(always)]
#[must_use]
pub const fn bf16_to_f32(x: u16) -> f32 {
    f32::from_bits((x as u32) << 16)
}

/// f16 bits to f64 bits, exact; signaling NaNs become quiet.
#[inline(always)]
#[must_use]
pub const fn f16_to_f64(x: u16) -> u64 {
    f32_to_f64(f16_to_f32(x).to_bits())
}

/// f32 bits to f64 bits, exact; signaling NaNs become quiet, sign and payload stay.
#[inline(always)]
#[must_use]
pub const fn f32_to_f64(x: u32) -> u64 {
    let nan =
        ((x & 0x8000_0000) as u64) << 32 | 0x7ff8_0000_0000_0000 | ((x & 0x007f_ffff) as u64) << 29;
    if x & 0x7fff_ffff > 0x7f80_0000 {
        nan
    } else {
        (f32::from_bits(x) as f64).to_bits()
    }
}

/// f32 to f16 bits, to nearest even. NaNs become quiet, sign and top payload bits stay.
#[inline(always)]
#[must_use]
pub const fn f32_to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let abs = bits & 0x7fff_ffff;
    let sign = bits >> 16 & 0x8000;
    // Rebias the exponent and round in one addition; a carry moves into the exponent.
    let normal = abs.wrapping_add(0xc800_0fff + (abs >> 13 & 1)) >> 13;
    // Below 2^-14 an addition of 1/2 shifts the value to the right place and rounds it.
    let denormal = (f32::from_bits(abs) + 0.5)
        .to_bits()
        .wrapping_sub(0x3f00_0000);
    let r = if abs < 0x3880_0000 { denormal } else { normal };
    let r = if abs >= 0x477f_f000 { 0x7c00 } else { r };
    let nan = 0x7e00 | abs >> 13 & 0x03ff;
    (if abs > 0x7f80_0000 {
        nan | sign
    } else {
        r | sign
    }) as u16
}

/// f32 to f16 bits in any direction; `clamp`: finite overflow gives ±65504 (MODE.FP16_OVFL).
#[inline(always)]
#[must_use]
pub const fn f32_to_f16_round(x: f32, rounding: Rounding, clamp: bool) -> u16 {
    match rounding {
        Rounding::NearestEven => {
            let r = f32_to_f16(x);
            let overflowed = r & 0x7fff == 0x7c00 && x.to_bits() & 0x7fff_ffff != 0x7f80_0000;
            if clamp && overflowed { r - 1 } else { r }
        }
        r => format::F16.encode(x.to_bits(), r, Overflow::finite(clamp)) as u16,
    }
}

/// f32 to bf16 bits, to nearest even. NaNs become quiet, sign and top payload bits stay.
#[inline(always)]
#[must_use]
pub const fn f32_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = (bits.wrapping_add(0x7fff + (bits >> 16 & 1))) >> 16;
    (if bits & 0x7fff_ffff > 0x7f80_0000 {
        bits >> 16 | 0x40
    } else {
        rounded
    }) as u16
}

/// f32 to bf16 bits in any direction; `clamp`: finite overflow gives the largest finite value.
#[inline(always)]
#[must_use]
pub const fn f32_to_bf16_round(x: f32, rounding: Rounding, clamp: bool) -> u16 {
    format::BF16.encode(x.to_bits(), rounding, Overflow::finite(clamp)) as u16
}

/// f64 bits to f16 bits, rounded once.
#[inline(always)]
#[must_use]
pub const fn f64_to_f16(x: u64, rounding: Rounding, clamp: bool) -> u16 {
    format::F16.encode64(x, rounding, Overflow::finite(clamp)) as u16
}

/// f64 bits to bf16 bits, rounded once.
#[inline(always)]
#[must_use]
pub const fn f64_to_bf16(x: u64, rounding: Rounding, clamp: bool) -> u16 {
    format::BF16.encode64(x, rounding, Overflow::finite(clamp)) as u16
}

/// `a + b` in f32, rounded to odd. Inputs must be far from overflow and underflow.
#[inline(always)]
#[must_use]
pub fn add_to_odd32(a: f32, b: f32) -> f32 {
    let sum = a + b;
    // Two-sum: the exact error of the rounded sum.
    let b_part = sum - a;
    let err = (a - (sum - b_part)) + (b - b_part);
    let bits = sum.to_bits();
    let away = (err.to_bits() ^ bits) >> 31 == 0;
    let odd = if away {
        bits.wrapping_add(1)
    } else {
        bits.wrapping_sub(1)
    };
    // An infinite or NaN sum gives a NaN error, which is not "inexact".
    let inexact = (err < 0.0) | (err > 0.0);
    f32::from_bits(if inexact & (bits & 1 == 0) { odd } else { bits })
}

/// `a + b` in f64, rounded to odd. Inputs must be far from overflow and underflow.
#[inline(always)]
#[must_use]
pub fn add_to_odd64(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let b_part = sum - a;
    let err = (a - (sum - b_part)) + (b - b_part);
    let bits = sum.to_bits();
    let away = (err.to_bits() ^ bits) >> 63 == 0;
    let odd = if away {
        bits.wrapping_add(1)
    } else {
        bits.wrapping_sub(1)
    };
    let inexact = (err < 0.0) | (err > 0.0);
    f64::from_bits(if inexact & (bits & 1 == 0) { odd } else { bits })
}

/// The sign an exact zero sum takes: -0 when rounding toward minus infinity.
#[inline(always)]
fn zero_sum32(a: f32, b: f32, sum: f32, rounding: Rounding) -> f32 {
    let cancel = (sum == 0.0) & (a.to_bits() >> 31 != b.to_bits() >> 31);
    let down = matches!(rounding, Rounding::TowardMinus);
    if cancel & down { -0.0 } else { sum }
}

#[inline(always)]
fn zero_sum64(a: f64, b: f64, sum: f64, rounding: Rounding) -> f64 {
    let cancel = (sum == 0.0) & (a.to_bits() >> 63 != b.to_bits() >> 63);
    let down = matches!(rounding, Rounding::TowardMinus);
    if cancel & down { -0.0 } else { sum }
}

/// f16 `a + b`; `clamp`: finite overflow gives ±65504. Denormals are kept.
#[inline(always)]
#[must_use]
pub fn add_f16(a: u16, b: u16, rounding: Rounding, clamp: bool) -> u16 {
    let (x, y) = (f16_to_f32(a), f16_to_f32(b));
    let sum = zero_sum32(x, y, add_to_odd32(x, y), rounding);
    nan2_16(a, b, f32_to_f16_round(sum, rounding, clamp))
}

/// f16 `a * b`; `clamp`: finite overflow gives ±65504. Denormals are kept.
#[inline(always)]
#[must_use]
pub fn mul_f16(a: u16, b: u16, rounding: Rounding, clamp: bool) -> u16 {
    // Exact in f32: 22 significant bits, exponents -48 to 32.
    nan2_16(
        a,
        b,
        f32_to_f16_round(f16_to_f32(a) * f16_to_f32(b), rounding, clamp),
    )
}

/// f16 `a * b + c`, rounded once; `clamp`: finite overflow gives ±65504. Denormals are kept.
#[inline(always)]
#[must_use]
pub fn fma_f16(a: u16, b: u16, c: u16, rounding: Rounding, clamp: bool) -> u16 {
    let product = f16_to_f32(a) * f16_to_f32(b);
    let addend = f16_to_f32(c);
    let sum = zero_sum32(product, addend, add_to_odd32(product, addend), rounding);
    nan3_16(a, b, c, f32_to_f16_round(sum, rounding, clamp))
}

/// f16 `a * b + c`, to nearest even, rounded once, denormals kept.
#[inline(always)]
#[must_use]
pub fn f16_fma(a: u16, b: u16, c: u16) -> u16 {
    fma_f16(a, b, c, Rounding::NearestEven, false)
}

/// bf16 `a + b`; `clamp`: finite overflow gives the largest finite value. Denormals are kept.
#[inline(always)]
#[must_use]
pub fn add_bf16(a: u16, b: u16, rounding: Rounding, clamp: bool) -> u16 {
    let (x, y) = (bf16_to_f64(a), bf16_to_f64(b));
    let sum = zero_sum64(x, y, add_to_odd64(x, y), rounding);
    nan2_bf16(a, b, f64_to_bf16(sum.to_bits(), rounding, clamp))
}

/// bf16 `a * b`; `clamp`: finite overflow gives the largest finite value. Denormals are kept.
#[inline(always)]
#[must_use]
pub fn mul_bf16(a: u16, b: u16, rounding: Rounding, clamp: bool) -> u16 {
    let product = bf16_to_f64(a) * bf16_to_f64(b);
    nan2_bf16(a, b, f64_to_bf16(product.to_bits(), rounding, clamp))
}

/// bf16 `a * b + c`, rounded once; `clamp`: finite overflow gives the largest finite value.
/// Denormals are kept.
#[inline(always)]
#[must_use]
pub fn fma_bf16(a: u16, b: u16, c: u16, rounding: Rounding, clamp: bool) -> u16 {
    let product = bf16_to_f64(a) * bf16_to_f64(b);
    let addend = bf16_to_f64(c);
    let sum = zero_sum64(product, addend, add_to_odd64(product, addend), rounding);
    nan3_bf16(a, b, c, f64_to_bf16(sum.to_bits(), rounding, clamp))
}

#[inline(always)]
const fn bf16_to_f64(x: u16) -> f64 {
    f64::from_bits(f32_to_f64((x as u32) << 16))
}

/// f64 bits to f32 bits, rounded once; NaNs become quiet, sign and top payload bits stay.
#[inline(always)]
#[must_use]
pub const fn f64_to_f32(x: u64, rounding: Rounding) -> u32 {
    let nan = x & (u64::MAX >> 1) > 0x7ff0_0000_0000_0000;
    let q = quiet64(x);
    let nan_bits = (q >> 32) as u32 & 0x8000_0000 | 0x7f80_0000 | (q >> 29) as u32 & 0x007f_ffff;
    let value = match rounding {
        Rounding::NearestEven => (f64::from_bits(x) as f32).to_bits(),
        _ => format::F32.encode64(x, rounding, Overflow::IEEE),
    };
    if nan { quiet32(nan_bits) } else { value }
}

#[cfg(test)]
mod tests {
    use super::super::soft::{BFLOAT16, BINARY16, BINARY32, BINARY64};
    use super::*;
    use crate::testing::Random;

    const DIRECTIONS: [Rounding; 4] = [
        Rounding::NearestEven,
        Rounding::TowardPlus,
        Rounding::TowardMinus,
        Rounding::TowardZero,
    ];

    #[test]
    fn f16_conversions_equal_the_half_crate() {
        for x in 0..=u16::MAX {
            let wide = f16_to_f32(x);
            let model = ::half::f16::from_bits(x);
            if !model.is_nan() {
                assert_eq!(wide.to_bits(), model.to_f32().to_bits());
                assert_eq!(f32_to_f16(wide), x);
                assert_eq!(f32_to_bf16(bf16_to_f32(x & !0x40)), x & !0x40);
            } else {
                assert_eq!(f32_to_f16(wide), x | 0x200);
            }
        }
        let mut random = Random(1);
        for _ in 0..1_000_000 {
            let x = f32::from_bits(random.f32());
            if !x.is_nan() {
                assert_eq!(f32_to_f16(x), ::half::f16::from_f32(x).to_bits(), "{x:e}");
                assert_eq!(f32_to_bf16(x), ::half::bf16::from_f32(x).to_bits(), "{x:e}");
                assert_eq!(
                    f32_to_bf16(x),
                    f32_to_bf16_round(x, Rounding::NearestEven, false),
                    "{x:e}"
                );
            }
        }
        assert_eq!(f32_to_bf16(f32::from_bits(0xff80_0001)), 0xffc0);
        assert_eq!(f32_to_f64(0xff80_0001), 0xfff8_0000_2000_0000);
        assert_eq!(
            f64_to_f32(0xfff0_0000_0000_0001, Rounding::NearestEven),
            0xffc0_0000
        );
    }

    #[test]
    fn half_arithmetic_equals_soft_arithmetic() {
        let mut random = Random(2);
        for _ in 0..300_000 {
            let (a, b, c) = (random.f16(), random.f16(), random.f16());
            let (p, q, s) = (
                random.float(8, 7) as u16,
                random.float(8, 7) as u16,
                random.float(8, 7) as u16,
            );
            let (wa, wb, wc) = (u64::from(a), u64::from(b), u64::from(c));
            let (wp, wq, ws) = (u64::from(p), u64::from(q), u64::from(s));
            for r in DIRECTIONS {
                assert_eq!(
                    add_f16(a, b, r, false),
                    nan2_16(a, b, BINARY16.add(wa, wb, r) as u16),
                    "{a:#x} {b:#x} {r:?}"
                );
                assert_eq!(
                    mul_f16(a, b, r, false),
                    nan2_16(a, b, BINARY16.mul(wa, wb, r) as u16),
                    "{a:#x} {b:#x} {r:?}"
                );
                let want = nan3_16(a, b, c, BINARY16.fma(wa, wb, wc, r) as u16);
                assert_eq!(
                    fma_f16(a, b, c, r, false),
                    want,
                    "{a:#x} {b:#x} {c:#x} {r:?}"
                );
                assert_eq!(
                    add_bf16(p, q, r, false),
                    nan2_bf16(p, q, BFLOAT16.add(wp, wq, r) as u16),
                    "{p:#x} {q:#x} {r:?}"
                );
                assert_eq!(
                    mul_bf16(p, q, r, false),
                    nan2_bf16(p, q, BFLOAT16.mul(wp, wq, r) as u16),
                    "{p:#x} {q:#x} {r:?}"
                );
                let want = nan3_bf16(p, q, s, BFLOAT16.fma(wp, wq, ws, r) as u16);
                assert_eq!(
                    fma_bf16(p, q, s, r, false),
                    want,
                    "{p:#x} {q:#x} {s:#x} {r:?}"
                );
            }
        }
        // 65504 + 65504 overflows; MODE.FP16_OVFL keeps it finite, but not a true infinity.
        assert_eq!(add_f16(0x7bff, 0x7bff, Rounding::NearestEven, true), 0x7bff);
        assert_eq!(add_f16(0x7c00, 0x7bff, Rounding::NearestEven, true), 0x7c00);
    }

    #[test]
    fn f64_to_f32_in_all_directions() {
        let mut random = Random(5);
        for _ in 0..300_000 {
            let x = random.f64();
            let x = if x & 2 == 0 {
                x
            } else {
                x & !(0x7ff << 52) | (0x360 + (x >> 3 & 0xff)) << 52
            };
            for r in DIRECTIONS {
                assert_eq!(
                    f64_to_f32(x, r),
                    BINARY64.convert(x, BINARY32, r) as u32,
                    "{x:#x} {r:?}"
                );
            }
        }
    }
}
