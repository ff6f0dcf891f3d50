//! Dot products of packed operands.
//!
//! What is known of the float ones: on RDNA3 the three terms of v_dot2 are added on one grid (see
//! `data/numerics/mfma-arithmetic.md` section 7, "The RDNA3 dot product"); bf16 denormal operands and
//! f32 denormals of accumulator and result are flushed, f16 denormals are not. gfx90a flushes f16
//! denormals, gfx950 does not. The grid's width and rounding are unknown, so [`Sum::Exact`] stands
//! for RDNA3: the exact sum, rounded once; the chip may differ by a few ulp where signs oppose. For
//! the others the pseudocode's order of additions is the only statement there is.

use crate::fp::format::{self, Format};
use crate::fp::half::{
    add_to_odd64, bf16_to_f32, f16_to_f32, f32_to_f64, f64_to_bf16, f64_to_f16, f64_to_f32,
};
use crate::fp::mode::{flush_bf16, flush16, flush32};
use crate::fp::nan::{DEFAULT_NAN32, is_nan32};
use crate::fp::{Rounding, arith};

/// How the terms of a float dot product are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// Exact sum, one rounding to nearest even (our RDNA3 default).
    Exact,
    /// `fma(a1, b1, fma(a0, b0, c))` in f32: the pseudocode's order, gfx12 and CDNA.
    Chain,
    /// `(a0 * b0 + a1 * b1) + c` in f32, products exact (CDNA4 V_DOT2_F32_BF16's pseudocode).
    PairFirst,
}

/// Which denormals a float dot product flushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DotRules {
    /// Order of additions.
    pub sum: Sum,
    /// Narrow operands that are denormal count as zero.
    pub flush_operands: bool,
    /// A denormal f32 accumulator counts as zero, a denormal result becomes zero.
    pub flush_f32: bool,
}

impl DotRules {
    /// v_dot2 with f16 operands on RDNA3.
    pub const RDNA3_F16: Self = Self {
        sum: Sum::Exact,
        flush_operands: false,
        flush_f32: true,
    };
    /// v_dot2 with bf16 operands on RDNA3.
    pub const RDNA3_BF16: Self = Self {
        sum: Sum::Exact,
        flush_operands: true,
        flush_f32: true,
    };
    /// v_dot2_f32_f16 and v_dot2c_f32_f16 on gfx90a and gfx942.
    pub const CDNA2_F16: Self = Self {
        sum: Sum::Chain,
        flush_operands: true,
        flush_f32: false,
    };
    /// v_dot2 with f16 operands on gfx950, gfx12, gfx1250.
    pub const CHAIN: Self = Self {
        sum: Sum::Chain,
        flush_operands: false,
        flush_f32: false,
    };
    /// v_dot2_f32_bf16 on gfx950.
    pub const CDNA4_BF16: Self = Self {
        sum: Sum::PairFirst,
        flush_operands: false,
        flush_f32: false,
    };
}

/// Two exact products and an accumulator as f64, summed exactly enough for one more rounding: the
/// result is the sum rounded to odd.
#[inline(always)]
#[must_use]
pub fn sum3_to_odd(p0: f64, p1: f64, c: f64) -> f64 {
    let two_sum = |a: f64, b: f64| {
        let s = a + b;
        let t = s - a;
        (s, (a - (s - t)) + (b - t))
    };
    let (s, e0) = two_sum(p0, p1);
    let (t, e1) = two_sum(s, c);
    // The two errors form an exact pair again; then the leading parts are renormalised.
    let (u, v) = two_sum(e0, e1);
    let (h, l) = two_sum(t, u);
    let exact = add_to_odd64(h, add_to_odd64(l, v));
    // A non-finite sum has lost itself in the error terms.
    if t.is_finite() { exact } else { p0 + p1 + c }
}

#[inline(always)]
fn dot2(a: [f32; 2], b: [f32; 2], c: u32, rules: DotRules) -> u32 {
    let c = flush32(c, rules.flush_f32);
    let r = match rules.sum {
        Sum::Exact => {
            let wide = |x: f32| f64::from_bits(f32_to_f64(x.to_bits()));
            let products = [wide(a[0]) * wide(b[0]), wide(a[1]) * wide(b[1])];
            let sum = sum3_to_odd(products[0], products[1], wide(f32::from_bits(c)));
            f64_to_f32(sum.to_bits(), Rounding::NearestEven)
        }
        Sum::Chain => {
            let first = arith::fma_f32_ne(a[0].to_bits(), b[0].to_bits(), c);
            arith::fma_f32_ne(a[1].to_bits(), b[1].to_bits(), first)
        }
        Sum::PairFirst => {
            let first = arith::mul_f32_ne(a[0].to_bits(), b[0].to_bits());
            let pair = arith::fma_f32_ne(a[1].to_bits(), b[1].to_bits(), first);
            arith::add_f32_ne(pair, c)
        }
    };
    let r = flush32(r, rules.flush_f32);
    // Payloads are unknown; one NaN for all of them keeps hosts alike.
    if is_nan32(r) { DEFAULT_NAN32 } else { r }
}

#[inline(always)]
fn f16_pair(x: u32, flush: bool) -> [f32; 2] {
    [
        f16_to_f32(flush16(x as u16, flush)),
        f16_to_f32(flush16((x >> 16) as u16, flush)),
    ]
}

#[inline(always)]
fn bf16_pair(x: u32, flush: bool) -> [f32; 2] {
    [
        bf16_to_f32(flush_bf16(x as u16, flush)),
        bf16_to_f32(flush_bf16((x >> 16) as u16, flush)),
    ]
}

/// f16 pairs, f32 accumulator (V_DOT2_F32_F16; V_DOT2C_F32_F16, V_DOT2ACC_F32_F16 with `c` the destination).
#[inline(always)]
#[must_use]
pub fn v_dot2_f32_f16(a: u32, b: u32, c: u32, rules: DotRules) -> u32 {
    dot2(
        f16_pair(a, rules.flush_operands),
        f16_pair(b, rules.flush_operands),
        c,
        rules,
    )
}

/// bf16 pairs, f32 accumulator (V_DOT2_F32_BF16; V_DOT2C_F32_BF16 with `c` the destination).
#[inline(always)]
#[must_use]
pub fn v_dot2_f32_bf16(a: u32, b: u32, c: u32, rules: DotRules) -> u32 {
    dot2(
        bf16_pair(a, rules.flush_operands),
        bf16_pair(b, rules.flush_operands),
        c,
        rules,
    )
}

/// f16 pairs, f16 accumulator: the exact sum rounded once to nearest even; denormals are kept
/// (RDNA3, RDNA4 manuals 7.2.4: "DOT2_F16_F16 supports denorms", nearest even).
#[inline(always)]
#[must_use]
pub fn v_dot2_f16_f16(a: u32, b: u32, c: u16) -> u16 {
    let (a, b) = (f16_pair(a, false), f16_pair(b, false));
    let wide = |x: f32| f64::from_bits(f32_to_f64(x.to_bits()));
    let sum = sum3_to_odd(
        wide(a[0]) * wide(b[0]),
        wide(a[1]) * wide(b[1]),
        wide(f16_to_f32(c)),
    );
    let r = f64_to_f16(sum.to_bits(), Rounding::NearestEven, false);
    if sum.is_nan() {
        crate::fp::nan::DEFAULT_NAN16
    } else {
        r
    }
}

/// bf16 pairs, bf16 accumulator: the exact sum rounded once; denormal operands and results are
/// flushed. The manuals say nearest even; gfx1200 was seen to truncate (`Rounding::TowardZero`).
#[inline(always)]
#[must_use]
pub fn v_dot2_bf16_bf16(a: u32, b: u32, c: u16, rounding: Rounding) -> u16 {
    let (a, b) = (bf16_pair(a, true), bf16_pair(b, true));
    let wide = |x: f32| f64::from_bits(f32_to_f64(x.to_bits()));
    let c = wide(bf16_to_f32(flush_bf16(c, true)));
    let sum = sum3_to_odd(wide(a[0]) * wide(b[0]), wide(a[1]) * wide(b[1]), c);
    let r = f64_to_bf16(sum.to_bits(), rounding, false);
    if sum.is_nan() {
        crate::fp::nan::DEFAULT_NAN_BF16
    } else {
        flush_bf16(r, true)
    }
}

/// Four fp8 or bf8 pairs, f32 accumulator, one fused multiply-add each in order of the bytes
/// (V_DOT4_F32_{FP8,BF8}_{FP8,BF8} of gfx12; the manual's order, rounding assumed).
#[inline(always)]
#[must_use]
pub fn v_dot4_f32_f8(a: u32, b: u32, c: u32, a_format: Format, b_format: Format) -> u32 {
    let mut sum = c;
    for i in 0..4 {
        let x = a_format.decode(a >> (8 * i) & 0xff).to_bits();
        let y = b_format.decode(b >> (8 * i) & 0xff).to_bits();
        sum = arith::fma_f32_ne(x, y, sum);
    }
    if is_nan32(sum) { DEFAULT_NAN32 } else { sum }
}

/// V_DOT4_F32_FP8_FP8: [`v_dot4_f32_f8`] with OCP E4M3 operands.
#[inline(always)]
#[must_use]
pub fn v_dot4_f32_fp8_fp8(a: u32, b: u32, c: u32) -> u32 {
    v_dot4_f32_f8(a, b, c, format::FP8, format::FP8)
}

/// V_DOT4_F32_FP8_BF8: [`v_dot4_f32_f8`] with OCP E4M3 and E5M2 operands.
#[inline(always)]
#[must_use]
pub fn v_dot4_f32_fp8_bf8(a: u32, b: u32, c: u32) -> u32 {
    v_dot4_f32_f8(a, b, c, format::FP8, format::BF8)
}

/// V_DOT4_F32_BF8_FP8: [`v_dot4_f32_f8`] with OCP E5M2 and E4M3 operands.
#[inline(always)]
#[must_use]
pub fn v_dot4_f32_bf8_fp8(a: u32, b: u32, c: u32) -> u32 {
    v_dot4_f32_f8(a, b, c, format::BF8, format::FP8)
}

/// V_DOT4_F32_BF8_BF8: [`v_dot4_f32_f8`] with OCP E5M2 operands.
#[inline(always)]
#[must_use]
pub fn v_dot4_f32_bf8_bf8(a: u32, b: u32, c: u32) -> u32 {
    v_dot4_f32_f8(a, b, c, format::BF8, format::BF8)
}

/// Field `i` of `BITS` bits, extended to i64.
#[inline(always)]
const fn field<const BITS: u32>(x: u32, i: u32, signed: bool) -> i64 {
    let raw = x >> (BITS * i) & ((1 << BITS) - 1);
    let extended = (raw << (32 - BITS)) as i32 >> (32 - BITS);
    if signed { extended as i64 } else { raw as i64 }
}

#[inline(always)]
const fn integer_dot<const BITS: u32>(a: u32, b: u32, a_signed: bool, b_signed: bool) -> i64 {
    let mut sum = 0;
    let mut i = 0;
    while i < 32 / BITS {
        sum += field::<BITS>(a, i, a_signed) * field::<BITS>(b, i, b_signed);
        i += 1;
    }
    sum
}

#[inline(always)]
const fn finish_signed(sum: i64, c: u32, clamp: bool) -> u32 {
    let total = sum + c as i32 as i64;
    let high = if total > i32::MAX as i64 {
        i32::MAX as i64
    } else {
        total
    };
    let bounded = if high < i32::MIN as i64 {
        i32::MIN as i64
    } else {
        high
    };
    (if clamp { bounded } else { total }) as u32
}

#[inline(always)]
const fn finish_unsigned(sum: i64, c: u32, clamp: bool) -> u32 {
    let total = sum as u64 + c as u64;
    (if clamp && total > u32::MAX as u64 {
        u32::MAX as u64
    } else {
        total
    }) as u32
}

/// Signed 16-bit pairs (V_DOT2_I32_I16, V_DOT2C_I32_I16); with `clamp` the exact sum saturates.
#[inline(always)]
#[must_use]
pub const fn v_dot2_i32_i16(a: u32, b: u32, c: u32, clamp: bool) -> u32 {
    finish_signed(integer_dot::<16>(a, b, true, true), c, clamp)
}

/// Unsigned 16-bit pairs; with `clamp` the exact sum saturates.
#[inline(always)]
#[must_use]
pub const fn v_dot2_u32_u16(a: u32, b: u32, c: u32, clamp: bool) -> u32 {
    finish_unsigned(integer_dot::<16>(a, b, false, false), c, clamp)
}

/// Bytes of chosen signedness (V_DOT4_I32_IU8; V_DOT4_I32_I8 and V_DOT4C_I32_I8 with both signed);
/// with `clamp` the exact sum saturates to i32.
#[inline(always)]
#[must_use]
pub const fn v_dot4_i32_iu8(
    a: u32,
    b: u32,
    c: u32,
    a_signed: bool,
    b_signed: bool,
    clamp: bool,
) -> u32 {
    finish_signed(integer_dot::<8>(a, b, a_signed, b_signed), c, clamp)
}

/// Unsigned bytes; with `clamp` the exact sum saturates to u32.
#[inline(always)]
#[must_use]
pub const fn v_dot4_u32_u8(a: u32, b: u32, c: u32, clamp: bool) -> u32 {
    finish_unsigned(integer_dot::<8>(a, b, false, false), c, clamp)
}

/// Nibbles of chosen signedness (V_DOT8_I32_IU4; V_DOT8_I32_I4 and V_DOT8C_I32_I4 with both
/// signed); with `clamp` the exact sum saturates to i32.
#[inline(always)]
#[must_use]
pub const fn v_dot8_i32_iu4(
    a: u32,
    b: u32,
    c: u32,
    a_signed: bool,
    b_signed: bool,
    clamp: bool,
) -> u32 {
    finish_signed(integer_dot::<4>(a, b, a_signed, b_signed), c, clamp)
}

/// Unsigned nibbles; with `clamp` the exact sum saturates to u32.
#[inline(always)]
#[must_use]
pub const fn v_dot8_u32_u4(a: u32, b: u32, c: u32, clamp: bool) -> u32 {
    finish_unsigned(integer_dot::<4>(a, b, false, false), c, clamp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fp::soft::BINARY32;
    use crate::testing::Random;

    fn f(x: f32) -> u32 {
        x.to_bits()
    }

    /// Results of RDNA3 silicon.
    #[test]
    fn known_results() {
        assert_eq!(
            v_dot2_f32_bf16(0x3f80_3f80, 0x4000_3f80, 0, DotRules::RDNA3_BF16),
            f(3.0)
        );
        assert_eq!(
            v_dot2_f32_f16(0x4000_3c00, 0x4400_4200, 0, DotRules::RDNA3_F16),
            f(11.0)
        );
        assert_eq!(
            v_dot2_f32_f16(0x3c00_3c00, 0x3c00_3c00, f(5.0), DotRules::RDNA3_F16),
            f(7.0)
        );
        assert_eq!(v_dot2_f16_f16(0x4000_4000, 0x4000_4000, 0), 0x4800);
        assert_eq!(
            v_dot2_bf16_bf16(0x3f80_3f80, 0x4000_3f80, 0x3f80, Rounding::NearestEven),
            0x4080
        );
    }

    /// The exact sum against i128 fixed point: f16 products and accumulators within its range.
    #[test]
    fn exact_sum_is_exact() {
        let mut random = Random(71);
        for _ in 0..200_000 {
            let (a, b) = (
                u32::from(random.f16()) << 16 | u32::from(random.f16()),
                random.next() as u32,
            );
            let c = random.f32();
            let (x, y) = (f16_pair(a, false), f16_pair(b, false));
            let value = f32::from_bits(c);
            let finite = |v: &[f32; 2]| v.iter().all(|v| v.is_finite());
            if !finite(&x) || !finite(&y) || !value.is_finite() || value.abs() > 1e12 {
                continue;
            }
            let c = if value != 0.0 && value.abs() < 1e-15 {
                0
            } else {
                c
            };
            // Units of 2^-74: products are multiples of 2^-48, the accumulator of 2^-73.
            let fixed = |v: f64| (v * 2f64.powi(37) * 2f64.powi(37)) as i128;
            let sum = fixed(f64::from(x[0]) * f64::from(y[0]))
                + fixed(f64::from(x[1]) * f64::from(y[1]))
                + fixed(f64::from(f32::from_bits(c)));
            let want = BINARY32.round(
                sum < 0,
                -74,
                sum.unsigned_abs(),
                false,
                Rounding::NearestEven,
            ) as u32;
            let got = v_dot2_f32_f16(
                a,
                b,
                c,
                DotRules {
                    flush_f32: false,
                    ..DotRules::RDNA3_F16
                },
            );
            assert!(
                got == want || (got | want) << 1 == 0,
                "{a:#x} {b:#x} {c:#x}: {got:#x} {want:#x}"
            );
        }
    }

    #[test]
    fn non_finite_and_denormal() {
        let (inf, ninf) = (0x7f80_0000, 0xff80_0000);
        for sum in [Sum::Exact, Sum::Chain, Sum::PairFirst] {
            let rules = DotRules {
                sum,
                ..DotRules::CHAIN
            };
            assert_eq!(v_dot2_f32_f16(0x7c00, 0x3c00, 0, rules), inf);
            assert_eq!(v_dot2_f32_f16(0x7c00, 0x3c00, ninf, rules), DEFAULT_NAN32);
            assert_eq!(v_dot2_f32_f16(0x7c00, 0, 0, rules), DEFAULT_NAN32);
            assert_eq!(v_dot2_f32_f16(0, 0, 0x7fc0_0001, rules), DEFAULT_NAN32);
        }
        assert_eq!(v_dot2_f32_f16(1, 0x3c00, 0, DotRules::CDNA2_F16), 0);
        assert_eq!(
            v_dot2_f32_f16(1, 0x3c00, 0, DotRules::CHAIN),
            f(2f32.powi(-24))
        );
        assert_eq!(v_dot2_f32_bf16(0, 0, 1, DotRules::RDNA3_BF16), 0);
        assert_eq!(v_dot2_f16_f16(0x7c00, 0x3c00, 0xfc00), 0xfe00);
        // 1 + 2^-8 * (1 + 2^-8): nearest goes up, truncation does not.
        assert_eq!(
            v_dot2_bf16_bf16(0x3b80, 0x3f81, 0x3f80, Rounding::NearestEven),
            0x3f81
        );
        assert_eq!(
            v_dot2_bf16_bf16(0x3b80, 0x3f81, 0x3f80, Rounding::TowardZero),
            0x3f80
        );
    }

    #[test]
    fn integers() {
        assert_eq!(
            v_dot4_i32_iu8(0x0102_03ff, 0x0101_0101, 10, true, true, false),
            15
        );
        assert_eq!(
            v_dot4_i32_iu8(0x0102_03ff, 0x0101_0101, 10, false, true, false),
            271
        );
        assert_eq!(
            v_dot4_u32_u8(0xffff_ffff, 0xffff_ffff, u32::MAX, true),
            u32::MAX
        );
        assert_eq!(
            v_dot4_u32_u8(0xffff_ffff, 0xffff_ffff, 0, false),
            4 * 255 * 255
        );
        assert_eq!(
            v_dot8_i32_iu4(0x8888_8888, 0x8888_8888, 0, true, true, false),
            8 * 64
        );
        assert_eq!(
            v_dot8_i32_iu4(0x8888_8888, 0x7777_7777, 0, true, false, false),
            (8i32 * -56) as u32
        );
        assert_eq!(v_dot8_u32_u4(0xffff_ffff, 0xffff_ffff, 0, false), 8 * 225);
        assert_eq!(
            v_dot2_i32_i16(0x8000_8000, 0x8000_8000, 0, true),
            0x7fff_ffff
        );
        assert_eq!(
            v_dot2_i32_i16(0x8000_8000, 0x8000_8000, 0, false),
            0x8000_0000
        );
        assert_eq!(
            v_dot2_u32_u16(0xffff_0001, 0x0001_0002, 3, false),
            0xffff + 2 + 3
        );
        assert_eq!(v_dot4_f32_fp8_fp8(0x3838_3838, 0x4038_3838, f(1.0)), f(6.0));
        assert_eq!(v_dot4_f32_bf8_fp8(0x0000_003c, 0x0000_0038, 0), f(1.0));
        assert_eq!(v_dot4_f32_fp8_bf8(0x0000_0038, 0x0000_007c, 0), 0x7f80_0000);
        assert_eq!(v_dot4_f32_bf8_bf8(0x0000_007c, 0x0000_00fc, 0), 0xff80_0000);
    }
}
