//! The division macro: div_scale, div_fmas, div_fixup.
//!
//! Numerator n, denominator d, both scaled by V_DIV_SCALE so that a Newton iteration loses nothing
//! to denormals; V_DIV_FMAS undoes the scaling where V_DIV_SCALE of the numerator set VCC;
//! V_DIV_FIXUP handles special operands. The manuals' pseudocode (CDNA3, CDNA4, RDNA3, RDNA4 alike)
//! is wrong in four places; corrected here from results of RDNA3 silicon published with tinygrad and
//! from the requirement that quotients come out right:
//! - VCC is set with the NaN of a zero operand (silicon);
//! - V_DIV_FMAS scales by 2^64 (f64 2^128) up if src2 >= 2, else down (silicon);
//! - a huge denominator with a denormal quotient is scaled down, not up, which would overflow;
//! - whether a quotient or reciprocal is denormal is judged by exponents (silicon scales 2^-126 / 1).

use crate::fp::Mode;
use crate::fp::mode::{flush16, flush32, flush64};
use crate::fp::nan::{self, DEFAULT_NAN16, DEFAULT_NAN32, DEFAULT_NAN64};
use crate::fp::soft::{BINARY32, BINARY64, Ieee};

macro_rules! div_scale {
    ($fn:ident, $t:ty, $float:ty, $flush:ident, $in:ident, $ldexp:ident, $man:expr, $max_exp:expr, $near_max:expr,
     $step:expr, $tiny:expr, $nan:expr, $name:literal) => {
        #[doc = concat!("Pre-scales the ", $name, " operand `s0`, which must be `denominator` or `numerator`.")]
        ///
        /// Returns the scaled value and the VCC bit ("post-scaling needed"). Denormal operands count
        /// as zero where MODE flushes them.
        #[inline]
        #[must_use]
        pub fn $fn(s0: $t, denominator: $t, numerator: $t, mode: Mode) -> ($t, bool) {
            let s0 = $flush(s0, mode.$in);
            let d = $flush(denominator, mode.$in);
            let n = $flush(numerator, mode.$in);
            let exp = |x: $t| (x >> $man & $max_exp) as i32;
            let (de, ne) = (exp(d), exp(n));
            let value = <$float>::from_bits;
            let is_d = value(s0) == value(d);
            let is_n = value(s0) == value(n);
            let scale = |e: i32| super::rounding::$ldexp(s0, e, mode);
            let kept = super::rounding::$ldexp(s0, 0, mode);
            let bias = $max_exp as i32 >> 1;
            // Denominators whose reciprocal is or may be denormal, quotients that are or may be.
            let huge = de >= $max_exp as i32 - 2;
            let small_quotient = ne - de < 2 - bias;
            if d << 1 == 0 || n << 1 == 0 {
                ($nan, true)
            } else if ne == $max_exp as i32 || de == $max_exp as i32 {
                // Infinity or NaN: V_DIV_FIXUP decides.
                (kept, false)
            } else if ne - de >= $near_max {
                (if is_d { scale($step) } else { kept }, true)
            } else if de == 0 {
                (scale($step), false)
            } else if huge && small_quotient {
                (if is_d { scale(-$step) } else { kept }, true)
            } else if huge {
                (scale(-$step), false)
            } else if small_quotient {
                (if is_n { scale($step) } else { kept }, true)
            } else if ne <= $tiny {
                (scale($step), false)
            } else {
                (kept, false)
            }
        }
    };
}

div_scale!(
    v_div_scale_f32,
    u32,
    f32,
    flush32,
    flush_in32,
    v_ldexp_f32,
    23,
    0xff,
    96,
    64,
    23,
    DEFAULT_NAN32,
    "f32"
);
div_scale!(
    v_div_scale_f64,
    u64,
    f64,
    flush64,
    flush_in16_64,
    v_ldexp_f64,
    52,
    0x7ff,
    768,
    128,
    53,
    DEFAULT_NAN64,
    "f64"
);

/// `a * b + c`; if `vcc`, times 2^64 where |c| >= 2 and times 2^-64 elsewhere, rounded once.
///
/// Input denormals are never flushed, results by MODE.
#[inline]
#[must_use]
pub fn v_div_fmas_f32(a: u32, b: u32, c: u32, vcc: bool, mode: Mode) -> u32 {
    let keep = Mode {
        flush_in32: false,
        ..mode
    };
    if !vcc {
        return crate::fp::arith::fma_f32(a, b, c, keep);
    }
    let step = if c >> 23 & 0xff > 127 { 64 } else { -64 };
    let r = scaled_fma(BINARY32, a.into(), b.into(), c.into(), step, mode.round32) as u32;
    flush32(nan::nan3_32(a, b, c, r), mode.flush_out32)
}

/// `a * b + c`; if `vcc`, times 2^128 where |c| >= 2 and times 2^-128 elsewhere, rounded once.
///
/// Input denormals are never flushed, results by MODE.
#[inline]
#[must_use]
pub fn v_div_fmas_f64(a: u64, b: u64, c: u64, vcc: bool, mode: Mode) -> u64 {
    let keep = Mode {
        flush_in16_64: false,
        ..mode
    };
    if !vcc {
        return crate::fp::arith::fma_f64(a, b, c, keep);
    }
    let step = if c >> 52 & 0x7ff > 1023 { 128 } else { -128 };
    let r = scaled_fma(BINARY64, a, b, c, step, mode.round16_64);
    flush64(nan::nan3_64(a, b, c, r), mode.flush_out16_64)
}

fn scaled_fma(format: Ieee, a: u64, b: u64, c: u64, e: i32, rounding: crate::fp::Rounding) -> u64 {
    format.fma_scaled(a, b, c, e, rounding)
}

macro_rules! div_fixup {
    ($fn:ident, $t:ty, $flush:ident, $in:ident, $out:ident, $nan:path, $quiet:path, $default:expr, $inf:expr,
     $underflow:expr, $name:literal) => {
        #[doc = concat!("Final step of a ", $name, " division: `quotient` with the sign of numerator / denominator,")]
        /// or the result that special operands demand.
        ///
        /// NaN: the numerator's, else the denominator's, quieted. 0/0 and inf/inf: -QNaN. A NaN
        /// quotient of ordinary operands becomes infinity (RDNA3 silicon).
        #[inline(always)]
        #[must_use]
        pub fn $fn(quotient: $t, denominator: $t, numerator: $t, mode: Mode) -> $t {
            let q = $flush(quotient, mode.$in);
            let d = $flush(denominator, mode.$in);
            let n = $flush(numerator, mode.$in);
            let sign = (d ^ n) & !(<$t>::MAX >> 1);
            let (da, na) = (d & (<$t>::MAX >> 1), n & (<$t>::MAX >> 1));
            let qa = if $nan(q) { $inf } else { q & (<$t>::MAX >> 1) };
            let qa = ($underflow)(da, na, sign, qa, mode);
            let r = if da == $inf || na == 0 { 0 } else { qa };
            let r = if da == 0 || na == $inf { $inf } else { r };
            let r = sign | r;
            let r = if (da == 0 && na == 0) || (da == $inf && na == $inf) { $default } else { r };
            let r = if $nan(d) { $quiet(d) } else { r };
            let r = if $nan(n) { $quiet(n) } else { r };
            $flush(r, mode.$out)
        }
    };
}

/// A quotient below half the smallest denormal: zero, or the smallest denormal in the direction away.
#[inline(always)]
fn underflow32(d: u32, n: u32, sign: u32, q: u32, mode: Mode) -> u32 {
    let below = ((n >> 23) as i32 - (d >> 23) as i32) < -150;
    if below {
        directed(sign != 0, mode.round32) as u32
    } else {
        q
    }
}

#[inline(always)]
fn underflow64(d: u64, n: u64, sign: u64, q: u64, mode: Mode) -> u64 {
    let below = ((n >> 52) as i32 - (d >> 52) as i32) < -1075;
    if below {
        directed(sign != 0, mode.round16_64)
    } else {
        q
    }
}

#[inline(always)]
fn directed(negative: bool, rounding: crate::fp::Rounding) -> u64 {
    use crate::fp::Rounding::{NearestEven, TowardMinus, TowardPlus, TowardZero};
    match rounding {
        NearestEven | TowardZero => 0,
        TowardPlus => u64::from(!negative),
        TowardMinus => u64::from(negative),
    }
}

div_fixup!(
    v_div_fixup_f32,
    u32,
    flush32,
    flush_in32,
    flush_out32,
    nan::is_nan32,
    nan::quiet32,
    DEFAULT_NAN32,
    0x7f80_0000,
    underflow32,
    "f32"
);
div_fixup!(
    v_div_fixup_f64,
    u64,
    flush64,
    flush_in16_64,
    flush_out16_64,
    nan::is_nan64,
    nan::quiet64,
    DEFAULT_NAN64,
    0x7ff0_0000_0000_0000,
    underflow64,
    "f64"
);
div_fixup!(
    v_div_fixup_f16,
    u16,
    flush16,
    flush_in16_64,
    flush_out16_64,
    nan::is_nan16,
    nan::quiet16,
    DEFAULT_NAN16,
    0x7c00,
    |_d, _n, _sign, q, _mode| q,
    "f16"
);

pub use v_div_fixup_f16 as v_div_fixup_legacy_f16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fp::arith::{fma_f32, fma_f64, mul_f32, mul_f64};
    use crate::scalar::transcendental::{v_rcp_f32, v_rcp_f64};
    use crate::testing::Random;

    fn f(x: f32) -> u32 {
        x.to_bits()
    }

    /// The mode of tinygrad's hardware tests: f32 denormals flushed, others kept.
    fn silicon() -> Mode {
        Mode::from_bits(0x3c0)
    }

    /// Results of RDNA3 silicon.
    #[test]
    fn known_results() {
        let mode = silicon();
        let nan32 = |(x, vcc): (u32, bool)| nan::is_nan32(x) && vcc;
        assert_eq!(
            v_div_scale_f32(f(2.0), f(4.0), f(2.0), mode),
            (f(2.0), false)
        );
        assert!(nan32(v_div_scale_f32(f(1.0), 0, f(1.0), mode)));
        assert!(nan32(v_div_scale_f32(0, f(1.0), 0, mode)));
        assert!(nan32(v_div_scale_f32(1, 1, f(1.0), mode)));
        assert_eq!(
            v_div_scale_f32(f(1.0), f(1.0), 0x7f7f_ffff, mode),
            (f(2f32.powi(64)), true)
        );
        assert_eq!(
            v_div_scale_f32(0x0080_0000, f(1.0), 0x0080_0000, mode),
            (f(2f32.powi(-62)), true)
        );
        assert_eq!(
            v_div_scale_f32(f(1.0), 0x7f00_0000, f(1.0), mode),
            (f(1.0), true)
        );
        let one = 1f64.to_bits();
        let zero = v_div_scale_f64(one, 0, one, mode);
        assert!(nan::is_nan64(zero.0) && zero.1);

        assert_eq!(v_div_fmas_f32(f(2.0), f(3.0), f(1.0), false, mode), f(7.0));
        assert_eq!(
            v_div_fmas_f32(f(1.0), f(1.0), f(2.0), true, mode),
            f(3.0 * 2f32.powi(64))
        );
        assert_eq!(
            v_div_fmas_f32(f(2.0), f(3.0), f(1.0), true, mode),
            f(7.0 * 2f32.powi(-64))
        );
        let two = 2f64.to_bits();
        assert_eq!(
            v_div_fmas_f64(one, one, two, true, mode),
            (3.0 * 2f64.powi(128)).to_bits()
        );
        assert_eq!(
            v_div_fmas_f64(one, one, one, true, mode),
            (2.0 * 2f64.powi(-128)).to_bits()
        );

        let inf = 0x7f80_0000;
        assert_eq!(v_div_fixup_f32(f(3.0), f(-2.0), f(6.0), mode), f(-3.0));
        assert_eq!(v_div_fixup_f32(f(1.0), 0, 0, mode), DEFAULT_NAN32);
        assert_eq!(v_div_fixup_f32(f(1.0), 0, f(-1.0), mode), inf | 1 << 31);
        assert_eq!(v_div_fixup_f32(0, inf, inf, mode), DEFAULT_NAN32);
        assert_eq!(v_div_fixup_f32(0, inf | 1 << 31, f(1.0), mode), 1 << 31);
        assert_eq!(v_div_fixup_f32(f(1.0), f(1.0), inf, mode), inf);
        assert_eq!(
            v_div_fixup_f32(0x7fc0_0000, f(-1.0), f(1.0), mode),
            inf | 1 << 31
        );
        assert_eq!(
            v_div_fixup_f32(f(1.0), 0x7fc0_0005, 0x7f80_0001, mode),
            0x7fc0_0001
        );
        assert_eq!(v_div_fixup_f16(0x3c00, 0, 0, mode), DEFAULT_NAN16);
    }

    /// LLVM's expansion of an f32 division, in denormal mode as compiled code sets it.
    fn divide32(n: u32, d: u32) -> u32 {
        let mode = Mode::default();
        let one = f(1.0);
        let neg = |x: u32| x ^ 1 << 31;
        let (ds, _) = v_div_scale_f32(d, d, n, mode);
        let (ns, vcc) = v_div_scale_f32(n, d, n, mode);
        let r = v_rcp_f32(ds);
        let e = fma_f32(neg(ds), r, one, mode);
        let r = fma_f32(e, r, r, mode);
        let q = mul_f32(ns, r, mode);
        let e = fma_f32(neg(ds), q, ns, mode);
        let q = fma_f32(e, r, q, mode);
        let e = fma_f32(neg(ds), q, ns, mode);
        v_div_fixup_f32(v_div_fmas_f32(e, r, q, vcc, mode), d, n, mode)
    }

    /// LLVM's expansion of an f64 division.
    fn divide64(n: u64, d: u64) -> u64 {
        let mode = Mode::default();
        let one = 1f64.to_bits();
        let neg = |x: u64| x ^ 1 << 63;
        let (ds, _) = v_div_scale_f64(d, d, n, mode);
        let r = v_rcp_f64(ds);
        let e = fma_f64(neg(ds), r, one, mode);
        let r = fma_f64(r, e, r, mode);
        let e = fma_f64(neg(ds), r, one, mode);
        let r = fma_f64(r, e, r, mode);
        let (ns, vcc) = v_div_scale_f64(n, d, n, mode);
        let q = mul_f64(ns, r, mode);
        let e = fma_f64(neg(ds), q, ns, mode);
        v_div_fixup_f64(v_div_fmas_f64(e, r, q, vcc, mode), d, n, mode)
    }

    #[test]
    fn compiled_division_is_correctly_rounded() {
        let mut random = Random(41);
        for _ in 0..400_000 {
            let (n, d) = (random.f32(), random.f32());
            let want = f32::from_bits(n) / f32::from_bits(d);
            let got = divide32(n, d);
            assert!(
                got == want.to_bits() || (want.is_nan() && nan::is_nan32(got)),
                "{n:#x} / {d:#x} = {got:#x}"
            );
            let (n, d) = (random.f64(), random.f64());
            let want = f64::from_bits(n) / f64::from_bits(d);
            let got = divide64(n, d);
            assert!(
                got == want.to_bits() || (want.is_nan() && nan::is_nan64(got)),
                "{n:#x} / {d:#x} = {got:#x}"
            );
        }
    }
}
