//! Reciprocals, roots, exponentials, logarithms and trigonometry.
//!
//! Manuals allow 1 ulp for f32 and f16 (2^29 ulp for f64 rcp, rsq, sqrt). Bounds stated here were
//! measured over all 2^32 f32 operands against f64 references. Everything is built from correctly
//! rounded +, -, *, /, sqrt and fma, so the bits are the same on every host. Real chips use
//! tables and may differ by the ulp that the manuals leave open.
//!
//! f32 rcp, rsq, sqrt, exp, log flush denormal operands and results whatever MODE says (RDNA4
//! manual 7.2.4, "denormals are flushed" in all manuals). sin, cos, tanh and the f16, bf16 and f64
//! forms flush nothing: the caller does, by MODE.

use crate::fp::half::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use crate::fp::mode::flush32;
use crate::fp::nan::{DEFAULT_NAN32, is_nan32, nan1_16, nan1_32, nan1_64, nan1_bf16, quiet32};

/// 1/x, correctly rounded to nearest even. Denormal operands and results are flushed to zero.
#[inline(always)]
#[must_use]
pub fn v_rcp_f32(x: u32) -> u32 {
    let x = flush32(x, true);
    flush32(nan1_32(x, (1.0 / f32::from_bits(x)).to_bits()), true)
}

pub use v_rcp_f32 as v_rcp_iflag_f32;
pub use v_rcp_f32 as v_s_rcp_f32;

/// Square root, correctly rounded to nearest even; -0 gives -0, other negative numbers -QNaN.
/// Denormal operands are flushed to zero.
#[inline(always)]
#[must_use]
pub fn v_sqrt_f32(x: u32) -> u32 {
    let x = flush32(x, true);
    nan1_32(x, f32::from_bits(x).sqrt().to_bits())
}

pub use v_sqrt_f32 as v_s_sqrt_f32;

/// 1/sqrt(x) within 0.501 ulp; ±0 gives ±infinity, negative numbers -QNaN. Denormal operands are
/// flushed to zero.
#[inline(always)]
#[must_use]
pub fn v_rsq_f32(x: u32) -> u32 {
    let x = flush32(x, true);
    nan1_32(x, rsqrt(f32::from_bits(x)).to_bits())
}

pub use v_rsq_f32 as v_s_rsq_f32;

#[inline(always)]
fn rsqrt(x: f32) -> f32 {
    let y = 1.0 / x.sqrt();
    // One Newton step with the residual 1 - x*y*y computed exactly enough.
    let h = x * y;
    let h_err = x.mul_add(y, -h);
    let residual = (-h_err).mul_add(y, (-h).mul_add(y, 1.0));
    let better = (0.5 * y).mul_add(residual, y);
    if (x > 0.0) & (x < f32::INFINITY) {
        better
    } else {
        y
    }
}

/// 2^x within 0.80 ulp. Results below 2^-126 are flushed to zero, denormal operands count as zero.
#[inline(always)]
#[must_use]
pub fn v_exp_f32(x: u32) -> u32 {
    nan1_32(x, exp2(f32::from_bits(x)).to_bits())
}

pub use v_exp_f32 as v_s_exp_f32;

/// 2^x; zero below 2^-126; NaN stays NaN.
#[inline(always)]
fn exp2(x: f32) -> f32 {
    let bounded = if x > 130.0 { 130.0 } else { x };
    let bounded = if bounded < -130.0 { -130.0 } else { bounded };
    let n = bounded.round_ties_even();
    let f = bounded - n;
    // (2^f - 1) / f on [-1/2, 1/2], relative error of 2^f below 2^-28.3.
    let p = f32::from_bits(0x3920_bd5d);
    let p = p.mul_add(f, f32::from_bits(0x3aaf_84a5));
    let p = p.mul_add(f, f32::from_bits(0x3c1d_96e9));
    let p = p.mul_add(f, f32::from_bits(0x3d63_57bd));
    let p = p.mul_add(f, f32::from_bits(0x3e75_fdee));
    let p = p.mul_add(f, f32::from_bits(0x3f31_7218));
    let p = p.mul_add(f, 1.0);
    // Adding 1.5 * 2^23 leaves n in the low bits; n moves into the exponent field.
    let shift = (n + 12_582_912.0).to_bits() << 23;
    let scaled = f32::from_bits(p.to_bits().wrapping_add(shift));
    let r = if x < -126.0 { 0.0 } else { scaled };
    let r = if x >= 128.0 { f32::INFINITY } else { r };
    if x.is_nan() { x } else { r }
}

/// log2(x) within 0.92 ulp; ±0 gives -infinity, negative numbers -QNaN. Denormal operands are
/// flushed to zero.
#[inline(always)]
#[must_use]
pub fn v_log_f32(x: u32) -> u32 {
    nan1_32(x, log2(flush32(x, true)))
}

pub use v_log_f32 as v_s_log_f32;

/// log2 of f32 bits that are not denormal.
#[inline(always)]
fn log2(x: u32) -> u32 {
    // x = 2^e * (1 + t), 1 + t in [2/3, 4/3).
    let e = (x.wrapping_sub(0x3f2a_aaab) as i32) >> 23;
    let t = f32::from_bits(x.wrapping_sub((e as u32) << 23)) - 1.0;
    let e = e as f32;
    // (log2(1 + t) - t / ln 2) / t^2, error below 2^-29.7 of the result.
    let p = f32::from_bits(0x3e31_4416);
    let p = p.mul_add(t, f32::from_bits(0xbe46_6c2a));
    let p = p.mul_add(t, f32::from_bits(0x3e1e_f372));
    let p = p.mul_add(t, f32::from_bits(0xbe32_09e0));
    let p = p.mul_add(t, f32::from_bits(0x3e53_501c));
    let p = p.mul_add(t, f32::from_bits(0xbe76_9659));
    let p = p.mul_add(t, f32::from_bits(0x3e93_baab));
    let p = p.mul_add(t, f32::from_bits(0xbeb8_a92e));
    let p = p.mul_add(t, f32::from_bits(0x3ef6_3850));
    let p = p.mul_add(t, f32::from_bits(0xbf38_aa3c));
    // log2(1 + t) = 1.5 t + t * ((1/ln 2 - 1.5) + t * p): the first term has most of the value, and
    // the rounding of e + 1.5 t is recovered exactly.
    let tail = p.mul_add(t, (std::f64::consts::LOG2_E - 1.5) as f32);
    let high = t.mul_add(1.5, e);
    let low = t.mul_add(1.5, e - high);
    let value = (high + tail.mul_add(t, low)).to_bits();
    let r = if x == 0x7f80_0000 { x } else { value };
    let r = if x << 1 == 0 { 0xff80_0000 } else { r };
    let invalid = (x >> 31 != 0) & (x << 1 != 0);
    let r = if invalid { DEFAULT_NAN32 } else { r };
    if is_nan32(x) { quiet32(x) } else { r }
}

/// sin and cos of 2 pi times `r`, for |r| <= 1/8.
#[inline(always)]
fn sin_cos_octant(r: f32) -> (f32, f32) {
    let s = r * r;
    let p = f32::from_bits(0xc296_cf95);
    let p = p.mul_add(s, f32::from_bits(0x42a3_2f70));
    let p = p.mul_add(s, f32::from_bits(0xc225_5ddd));
    let p = p.mul_add(s, f32::from_bits(0x3d07_ed4c));
    // 2 pi = 6.25 + 0.0331...: the large part is multiplied exactly.
    let sin = r.mul_add(6.25, r * p);
    let q = f32::from_bits(0x426a_6c26);
    let q = q.mul_add(s, f32::from_bits(0xc2aa_d942));
    let q = q.mul_add(s, f32::from_bits(0x4281_e0d8));
    let q = q.mul_add(s, f32::from_bits(0xc19d_e9e6));
    let cos = q.mul_add(s, 1.0);
    (sin, cos)
}

/// `x` modulo one turn: the quarter turn nearest to it (mod 4) and the rest, exact.
#[inline(always)]
fn quarter(x: f32) -> (u32, f32) {
    // Exact; an integer (every number from 2^23 on) leaves 0.
    let turn = x - x.round_ties_even();
    let k = (4.0 * turn).round_ties_even();
    ((k + 12_582_912.0).to_bits() & 3, k.mul_add(-0.25, turn))
}

/// sin(2 pi x) within 0.90 ulp over all of f32; integers give +0, -0 gives -0, ±infinity -QNaN.
#[inline(always)]
#[must_use]
pub fn v_sin_f32(x: u32) -> u32 {
    let value = f32::from_bits(x);
    let (k, r) = quarter(value);
    let (sin, cos) = sin_cos_octant(r);
    let picked = if k & 1 == 0 { sin } else { cos };
    let signed = f32::from_bits(picked.to_bits() ^ (k & 2) << 30);
    // + 0.0 turns the -0 of half turns into +0.
    let r = if value == 0.0 {
        x
    } else {
        (signed + 0.0).to_bits()
    };
    nan1_32(x, r)
}

/// cos(2 pi x) within 0.90 ulp over all of f32; zeros are +0, ±infinity gives -QNaN.
#[inline(always)]
#[must_use]
pub fn v_cos_f32(x: u32) -> u32 {
    let (k, r) = quarter(f32::from_bits(x));
    let (sin, cos) = sin_cos_octant(r);
    let picked = if k & 1 == 0 { cos } else { sin };
    // Negative in the second and third quarter.
    let signed = f32::from_bits(picked.to_bits() ^ (k.wrapping_add(1) & 2) << 30);
    nan1_32(x, (signed + 0.0).to_bits())
}

/// tanh(x) within 0.501 ulp where |x| is in \[2^-10, 8); below that `x` itself, above ±1 (CDNA5
/// manual, V_TANH_F32). The chip's "cubic approximation" in between is not published.
#[inline(always)]
#[must_use]
pub fn v_tanh_f32(x: u32) -> u32 {
    let value = f32::from_bits(x);
    let magnitude = f64::from(value.abs());
    // e^2|x| = 2^y by Taylor series around the nearest integer, in f64.
    let y = magnitude * (2.0 * std::f64::consts::LOG2_E);
    let y = if y < 40.0 { y } else { 40.0 };
    let n = y.round_ties_even();
    let f = (y - n) * std::f64::consts::LN_2;
    let mut p = 1.0;
    let mut k = 12.0;
    while k > 0.5 {
        p = p * f / k + 1.0;
        k -= 1.0;
    }
    let power = f64::from_bits(
        p.to_bits()
            .wrapping_add((n + 6_755_399_441_055_744.0).to_bits() << 52),
    );
    let tanh = ((power - 1.0) / (power + 1.0)) as f32;
    let r = if value.abs() >= 8.0 { 1.0 } else { tanh };
    let r = if value.abs() < 1.0 / 1024.0 {
        value.abs()
    } else {
        r
    };
    let r = r.to_bits() | x & 0x8000_0000;
    if is_nan32(x) { quiet32(x) } else { r }
}

macro_rules! narrow {
    ($t:ty, $widen:ident, $round:ident, $nan1:ident, $name:literal, $rcp:ident, $sqrt:ident, $rsq:ident, $exp:ident,
     $log:ident, $sin:ident, $cos:ident, $tanh:ident) => {
        #[doc = concat!("1/x in ", $name, ", correctly rounded to nearest even.")]
        #[inline(always)]
        #[must_use]
        pub fn $rcp(x: $t) -> $t {
            $nan1(x, $round(1.0 / $widen(x)))
        }

        #[doc = concat!("Square root in ", $name, ", correctly rounded; -0 gives -0, other negative numbers -QNaN.")]
        #[inline(always)]
        #[must_use]
        pub fn $sqrt(x: $t) -> $t {
            $nan1(x, $round($widen(x).sqrt()))
        }

        #[doc = concat!("1/sqrt(x) in ", $name, " within 0.51 ulp; ±0 gives ±infinity.")]
        #[inline(always)]
        #[must_use]
        pub fn $rsq(x: $t) -> $t {
            $nan1(x, $round(rsqrt($widen(x))))
        }

        #[doc = concat!("2^x in ", $name, " within 0.51 ulp.")]
        #[inline(always)]
        #[must_use]
        pub fn $exp(x: $t) -> $t {
            $nan1(x, $round(exp2($widen(x))))
        }

        #[doc = concat!("log2(x) in ", $name, " within 0.51 ulp; ±0 gives -infinity, negative numbers -QNaN.")]
        #[inline(always)]
        #[must_use]
        pub fn $log(x: $t) -> $t {
            $nan1(x, $round(f32::from_bits(log2($widen(x).to_bits()))))
        }

        #[doc = concat!("sin(2 pi x) in ", $name, " within 0.51 ulp.")]
        #[inline(always)]
        #[must_use]
        pub fn $sin(x: $t) -> $t {
            $nan1(x, $round(f32::from_bits(v_sin_f32($widen(x).to_bits()))))
        }

        #[doc = concat!("cos(2 pi x) in ", $name, " within 0.51 ulp.")]
        #[inline(always)]
        #[must_use]
        pub fn $cos(x: $t) -> $t {
            $nan1(x, $round(f32::from_bits(v_cos_f32($widen(x).to_bits()))))
        }

        #[doc = concat!("tanh(x) in ", $name, ": [`v_tanh_f32`], rounded to nearest even (CDNA5).")]
        #[inline(always)]
        #[must_use]
        pub fn $tanh(x: $t) -> $t {
            $nan1(x, $round(f32::from_bits(v_tanh_f32($widen(x).to_bits()))))
        }
    };
}

narrow!(
    u16, f16_to_f32, f32_to_f16, nan1_16, "f16", v_rcp_f16, v_sqrt_f16, v_rsq_f16, v_exp_f16,
    v_log_f16, v_sin_f16, v_cos_f16, v_tanh_f16
);
narrow!(
    u16,
    bf16_to_f32_flushed,
    f32_to_bf16,
    nan1_bf16,
    "bf16 (denormal operands count as zero)",
    v_rcp_bf16,
    v_sqrt_bf16,
    v_rsq_bf16,
    v_exp_bf16,
    v_log_bf16,
    v_sin_bf16,
    v_cos_bf16,
    v_tanh_bf16
);

pub use {
    v_exp_f16 as v_s_exp_f16, v_log_f16 as v_s_log_f16, v_rcp_f16 as v_s_rcp_f16,
    v_rsq_f16 as v_s_rsq_f16, v_sqrt_f16 as v_s_sqrt_f16,
};

/// The bf16 forms share the f32 pipeline, which has no denormals; the CDNA5 manual says nothing.
#[inline(always)]
const fn bf16_to_f32_flushed(x: u16) -> f32 {
    f32::from_bits(flush32(bf16_to_f32(x).to_bits(), true))
}

/// 1/x, correctly rounded to nearest even (the manuals allow 2^29 ulp).
#[inline(always)]
#[must_use]
pub fn v_rcp_f64(x: u64) -> u64 {
    nan1_64(x, (1.0 / f64::from_bits(x)).to_bits())
}

/// Square root, correctly rounded to nearest even (the manuals allow 2^29 ulp).
#[inline(always)]
#[must_use]
pub fn v_sqrt_f64(x: u64) -> u64 {
    nan1_64(x, f64::from_bits(x).sqrt().to_bits())
}

/// 1/sqrt(x) within 1.5 ulp (the manuals allow 2^29).
#[inline(always)]
#[must_use]
pub fn v_rsq_f64(x: u64) -> u64 {
    nan1_64(x, (1.0 / f64::from_bits(x).sqrt()).to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Examples in the manuals (all of CDNA2 to CDNA5, RDNA3, RDNA4) and results of RDNA3 silicon.
    #[test]
    fn special_values() {
        type F = fn(u32) -> u32;
        let (inf, ninf, nan, nzero) = (0x7f80_0000, 0xff80_0000, 0xffc0_0000, 0x8000_0000u32);
        let table: &[(F, u32, u32)] = &[
            (v_rcp_f32, ninf, nzero),
            (v_rcp_f32, 0xc000_0000, 0xbf00_0000),
            (v_rcp_f32, nzero, ninf),
            (v_rcp_f32, 0, inf),
            (v_rcp_f32, inf, 0),
            (v_rcp_f32, 0x0000_0001, inf),
            (v_rcp_f32, 0x7f00_0001, 0),
            (v_rsq_f32, ninf, nan),
            (v_rsq_f32, nzero, ninf),
            (v_rsq_f32, 0, inf),
            (v_rsq_f32, 0x4080_0000, 0x3f00_0000),
            (v_rsq_f32, inf, 0),
            (v_sqrt_f32, ninf, nan),
            (v_sqrt_f32, nzero, nzero),
            (v_sqrt_f32, 0x4080_0000, 0x4000_0000),
            (v_sqrt_f32, inf, inf),
            (v_exp_f32, ninf, 0),
            (v_exp_f32, nzero, 0x3f80_0000),
            (v_exp_f32, inf, inf),
            (v_exp_f32, 128f32.to_bits(), inf),
            (v_exp_f32, (-126f32).to_bits(), 0x0080_0000),
            (v_exp_f32, (-126.5f32).to_bits(), 0),
            (v_log_f32, ninf, nan),
            (v_log_f32, 0xbf80_0000, nan),
            (v_log_f32, nzero, ninf),
            (v_log_f32, 0, ninf),
            (v_log_f32, 1, ninf),
            (v_log_f32, 0x3f80_0000, 0),
            (v_log_f32, inf, inf),
            (v_sin_f32, ninf, nan),
            (v_sin_f32, 0xff7f_ffff, 0),
            (v_sin_f32, nzero, nzero),
            (v_sin_f32, 0x3e80_0000, 0x3f80_0000),
            (v_sin_f32, inf, nan),
            (v_cos_f32, ninf, nan),
            (v_cos_f32, 0xff7f_ffff, 0x3f80_0000),
            (v_cos_f32, nzero, 0x3f80_0000),
            (v_cos_f32, 0x3e80_0000, 0),
            (v_cos_f32, 0x3f00_0000, 0xbf80_0000),
            (v_tanh_f32, ninf, 0xbf80_0000),
            (v_tanh_f32, 0x8000_0001, 0x8000_0001),
            (v_tanh_f32, 0x3a7f_ffff, 0x3a7f_ffff),
        ];
        for (i, (f, x, want)) in table.iter().enumerate() {
            assert_eq!(f(*x), *want, "row {i}: {x:#x}");
        }
        for f in [
            v_rcp_f32, v_rsq_f32, v_sqrt_f32, v_exp_f32, v_log_f32, v_sin_f32, v_cos_f32,
            v_tanh_f32,
        ] {
            assert_eq!(f(0xff80_0001), 0xffc0_0001);
        }
        assert_eq!(
            [
                v_sin_f16(0xfbff),
                v_sin_f16(0x8000),
                v_sin_f16(0x3400),
                v_cos_f16(0xfbff)
            ],
            [0, 0x8000, 0x3c00, 0x3c00]
        );
        assert_eq!(
            [v_exp_f16(0xfc00), v_exp_f16(0x8000), v_exp_f16(0x7c00)],
            [0, 0x3c00, 0x7c00]
        );
        assert_eq!(
            [v_log_f16(0xbc00), v_log_f16(0x8000), v_log_f16(0x3c00)],
            [0xfe00, 0xfc00, 0]
        );
        assert_eq!(
            [v_rcp_f16(0x8000), v_rsq_f16(0x4400), v_sqrt_f16(0x4400)],
            [0xfc00, 0x3800, 0x4000]
        );
        assert_eq!(
            [v_rcp_bf16(0xc000), v_exp_bf16(0x3f80), v_rcp_bf16(0x0001)],
            [0xbf00, 0x4000, 0x7f80]
        );
    }

    /// Distance of `got` from the real value in units of the last place of the real value.
    fn ulps(got: f32, real: f64) -> f64 {
        let exp = ((real.abs().to_bits() >> 52) as i32 - 1023).max(-126);
        (f64::from(got) - real).abs() / 2f64.powi(exp - 23)
    }

    /// sin of 2 pi x in f64, reduced exactly.
    fn sin_turns(x: f64) -> f64 {
        let turn = x - x.round();
        let quarter = (turn * 4.0).round();
        let r = (turn - quarter / 4.0) * std::f64::consts::TAU;
        match quarter as i32 & 3 {
            0 => r.sin(),
            1 => r.cos(),
            2 => -r.sin(),
            _ => -r.cos(),
        }
    }

    fn worst(stride: usize, f: fn(u32) -> u32, reference: fn(f64) -> f64) -> (f64, u32) {
        let mut worst = (0.0, 0);
        for x in (0..=u32::MAX).step_by(stride) {
            let value = f32::from_bits(x);
            let got = f32::from_bits(f(x));
            if !value.is_normal() || !got.is_normal() {
                continue;
            }
            let error = ulps(got, reference(f64::from(value)));
            if error > worst.0 {
                worst = (error, x);
            }
        }
        worst
    }

    /// Strided over all operands; every exponent and sign is met. With stride 1 the same holds.
    #[test]
    fn error_bounds() {
        let stride = 1009;
        let check = |name: &str, f: fn(u32) -> u32, reference: fn(f64) -> f64, bound: f64| {
            let (error, at) = worst(stride, f, reference);
            assert!(error <= bound, "{name}: {error} ulp at {at:#x}");
        };
        check("rcp", v_rcp_f32, |x| 1.0 / x, 0.501);
        check("sqrt", v_sqrt_f32, f64::sqrt, 0.501);
        check("rsq", v_rsq_f32, |x| 1.0 / x.sqrt(), 0.501);
        check("exp", v_exp_f32, f64::exp2, 0.80);
        check("log", v_log_f32, f64::log2, 0.92);
        check("sin", v_sin_f32, sin_turns, 0.90);
        check(
            "cos",
            v_cos_f32,
            |x| sin_turns((x - x.round()) + 0.25),
            0.86,
        );
        check(
            "tanh",
            |x| {
                if f32::from_bits(x).abs() < 1.0 / 1024.0 {
                    0
                } else {
                    v_tanh_f32(x)
                }
            },
            |x| {
                if x.abs() >= 8.0 { x.signum() } else { x.tanh() }
            },
            0.501,
        );
    }

    #[test]
    fn narrow_forms_are_within_an_ulp() {
        type Form = (fn(u16) -> u16, fn(f64) -> f64);
        let forms: [Form; 7] = [
            (v_rcp_f16, |x| 1.0 / x),
            (v_sqrt_f16, f64::sqrt),
            (v_rsq_f16, |x| 1.0 / x.sqrt()),
            (v_exp_f16, f64::exp2),
            (v_log_f16, f64::log2),
            (v_sin_f16, sin_turns),
            (v_tanh_f16, f64::tanh),
        ];
        for (i, (f, reference)) in forms.iter().enumerate() {
            for x in 0..=u16::MAX {
                let real = reference(f64::from(f16_to_f32(x)));
                let got = f(x);
                let want = ::half::f16::from_f64(real).to_bits();
                if ::half::f16::from_bits(x).is_nan() || real.is_nan() || want << 1 == 0 {
                    continue;
                }
                assert!(
                    got.abs_diff(want) <= 1,
                    "form {i}: {x:#x} {got:#x} {want:#x}"
                );
            }
        }
    }
}
