//! Rounding to integers, fractions, and splitting or scaling by powers of two.
//! Signaling NaNs are quieted, sign and payload stay. Results of trunc, ceil, floor, rndne keep the
//! sign of the operand also where they are zero.

use crate::fp::format::{F16, Overflow};
use crate::fp::half::{f16_to_f32, f32_to_f16};
use crate::fp::nan::{self, quiet16, quiet32, quiet64};
use crate::fp::soft::{BINARY32, BINARY64};
use crate::fp::{Mode, Rounding};

macro_rules! to_integral {
    ($f32:ident, $f64:ident, $f16:ident, $method:ident, $what:literal) => {
        #[doc = concat!("f32 rounded ", $what, ".")]
        #[inline(always)]
        #[must_use]
        pub fn $f32(x: u32) -> u32 {
            let r = f32::from_bits(x).$method().to_bits();
            if nan::is_nan32(x) { quiet32(x) } else { r }
        }

        #[doc = concat!("f64 rounded ", $what, ".")]
        #[inline(always)]
        #[must_use]
        pub fn $f64(x: u64) -> u64 {
            let r = f64::from_bits(x).$method().to_bits();
            if nan::is_nan64(x) { quiet64(x) } else { r }
        }

        #[doc = concat!("f16 rounded ", $what, ".")]
        #[inline(always)]
        #[must_use]
        pub fn $f16(x: u16) -> u16 {
            let r = f32_to_f16(f16_to_f32(x).$method());
            if nan::is_nan16(x) { quiet16(x) } else { r }
        }
    };
}

to_integral!(v_trunc_f32, v_trunc_f64, v_trunc_f16, trunc, "toward zero");
to_integral!(v_ceil_f32, v_ceil_f64, v_ceil_f16, ceil, "up");
to_integral!(v_floor_f32, v_floor_f64, v_floor_f16, floor, "down");
to_integral!(
    v_rndne_f32,
    v_rndne_f64,
    v_rndne_f16,
    round_ties_even,
    "to nearest even"
);

/// `x - floor(x)`, rounded by MODE and kept below one (0x3f7fffff). ±infinity gives -QNaN.
#[inline(always)]
#[must_use]
pub fn v_fract_f32(x: u32, mode: Mode) -> u32 {
    let floor = f32::from_bits(x).floor();
    let difference = match mode.round32 {
        Rounding::NearestEven => (f32::from_bits(x) - floor).to_bits(),
        r => BINARY32.add(x.into(), (-floor).to_bits().into(), r) as u32,
    };
    let r = if difference == 0x3f80_0000 {
        0x3f7f_ffff
    } else {
        difference
    };
    nan::nan1_32(x, r)
}

/// `x - floor(x)`, rounded by MODE and kept below one. ±infinity gives -QNaN.
#[inline(always)]
#[must_use]
pub fn v_fract_f64(x: u64, mode: Mode) -> u64 {
    let floor = f64::from_bits(x).floor();
    let difference = match mode.round16_64 {
        Rounding::NearestEven => (f64::from_bits(x) - floor).to_bits(),
        r => BINARY64.add(x, (-floor).to_bits(), r),
    };
    let r = if difference == 0x3ff0_0000_0000_0000 {
        0x3fef_ffff_ffff_ffff
    } else {
        difference
    };
    nan::nan1_64(x, r)
}

/// `x - floor(x)`, rounded by MODE and kept below one. ±infinity gives -QNaN.
#[inline(always)]
#[must_use]
pub fn v_fract_f16(x: u16, mode: Mode) -> u16 {
    let wide = f16_to_f32(x);
    // f32 holds the difference exactly unless x is a negative number above -2^-13; one last place
    // of f32 does not matter below f16's 1 - 2^-11, where the clamp applies in nearest rounding.
    let exact = crate::fp::half::add_to_odd32(wide, -wide.floor());
    let difference = F16.encode(exact.to_bits(), mode.round16_64, Overflow::IEEE) as u16;
    let r = if difference == 0x3c00 {
        0x3bff
    } else {
        difference
    };
    nan::nan1_16(x, r)
}

/// `x * 2^e`, rounded once. ±0, ±infinity and NaN stay (NaN quieted).
#[inline(always)]
#[must_use]
pub fn v_ldexp_f32(x: u32, e: i32, mode: Mode) -> u32 {
    let r = match mode.round32 {
        Rounding::NearestEven => scale_f32(f32::from_bits(x), e).to_bits(),
        r => BINARY32.scale(x.into(), e, r) as u32,
    };
    if nan::is_nan32(x) { quiet32(x) } else { r }
}

/// `x * 2^e` in up to three steps. Below -126 a step leaves at least 24 more bits to go, so that
/// where it rounds, the final result is zero; hence one rounding.
#[inline(always)]
fn scale_f32(x: f32, e: i32) -> f32 {
    let step = |e: i32| {
        let high = if e > 127 { 127 } else { e };
        if e < -126 { -102 } else { high }
    };
    let power = |e: i32| f32::from_bits(((e + 127) as u32) << 23);
    let e = if e > 400 { 400 } else { e };
    let e = if e < -400 { -400 } else { e };
    let first = step(e);
    let second = step(e - first);
    let rest = e - first - second;
    let third = if rest < -126 { -126 } else { rest };
    let third = if third > 127 { 127 } else { third };
    x * power(first) * power(second) * power(third)
}

/// `x * 2^e`, rounded once; `e` is the signed 16-bit second operand.
#[inline(always)]
#[must_use]
pub fn v_ldexp_f16(x: u16, e: i16, mode: Mode) -> u16 {
    let e = i32::from(e).clamp(-50, 50);
    let factor = f32::from_bits(((e + 127) as u32) << 23);
    let exact = (f16_to_f32(x) * factor).to_bits();
    let r = F16.encode(exact, mode.round16_64, Overflow::finite(mode.fp16_ovfl)) as u16;
    if nan::is_nan16(x) { quiet16(x) } else { r }
}

/// `x * 2^e`, rounded once.
#[inline]
#[must_use]
pub fn v_ldexp_f64(x: u64, e: i32, mode: Mode) -> u64 {
    let exp = (x >> 52 & 0x7ff) as i32;
    let moved = exp.saturating_add(e);
    if exp != 0 && exp != 0x7ff && moved > 0 && moved < 0x7ff {
        return x & !(0x7ff << 52) | (moved as u64) << 52;
    }
    if nan::is_nan64(x) {
        quiet64(x)
    } else {
        BINARY64.scale(x, e, mode.round16_64)
    }
}

/// Mantissa in \[0.5, 1) with the sign of `x`; ±0, ±infinity, NaN stay (NaN quieted).
#[inline(always)]
#[must_use]
pub fn v_frexp_mant_f32(x: u32) -> u32 {
    let abs = x & 0x7fff_ffff;
    let normal = if abs < 0x0080_0000 {
        (abs as i32 as f32).to_bits()
    } else {
        abs
    };
    let r = normal & 0x007f_ffff | 0x3f00_0000 | x & 0x8000_0000;
    let r = if abs == 0 || abs == 0x7f80_0000 { x } else { r };
    if nan::is_nan32(x) { quiet32(x) } else { r }
}

/// Exponent that goes with [`v_frexp_mant_f32`]; 0 for ±0, ±infinity and NaN.
///
/// The pseudocode's `exponent(0.0) - 127 + 1` for zeros is not meant literally: compilers map
/// `frexp` to this instruction without a special case.
#[inline(always)]
#[must_use]
pub fn v_frexp_exp_i32_f32(x: u32) -> u32 {
    let abs = x & 0x7fff_ffff;
    let denormal = abs < 0x0080_0000;
    let normal = if denormal {
        (abs as i32 as f32).to_bits()
    } else {
        abs
    };
    let e = (normal >> 23) as i32 - if denormal { 126 + 149 } else { 126 };
    (if abs == 0 || abs >= 0x7f80_0000 { 0 } else { e }) as u32
}

/// Mantissa in \[0.5, 1) with the sign of `x`; ±0, ±infinity, NaN stay (NaN quieted).
#[inline(always)]
#[must_use]
pub fn v_frexp_mant_f16(x: u16) -> u16 {
    let abs = x & 0x7fff;
    let wide = f16_to_f32(abs).to_bits();
    let r = f32_to_f16(f32::from_bits(wide & 0x007f_ffff | 0x3f00_0000)) | x & 0x8000;
    let r = if abs == 0 || abs == 0x7c00 { x } else { r };
    if nan::is_nan16(x) { quiet16(x) } else { r }
}

/// Exponent that goes with [`v_frexp_mant_f16`]; 0 for ±0, ±infinity and NaN.
#[inline(always)]
#[must_use]
pub fn v_frexp_exp_i16_f16(x: u16) -> u16 {
    let abs = x & 0x7fff;
    let e = (f16_to_f32(abs).to_bits() >> 23) as i32 - 126;
    (if abs == 0 || abs >= 0x7c00 { 0 } else { e }) as u16
}

/// Mantissa in \[0.5, 1) with the sign of `x`; ±0, ±infinity, NaN stay (NaN quieted).
#[inline(always)]
#[must_use]
pub fn v_frexp_mant_f64(x: u64) -> u64 {
    let abs = x & (u64::MAX >> 1);
    let denormal = abs >> 52 == 0;
    let normal = if denormal {
        (abs as i64 as f64).to_bits()
    } else {
        abs
    };
    let r = normal & 0x000f_ffff_ffff_ffff | 0x3fe0_0000_0000_0000 | x & 1 << 63;
    let r = if abs == 0 || abs == 0x7ff0_0000_0000_0000 {
        x
    } else {
        r
    };
    if nan::is_nan64(x) { quiet64(x) } else { r }
}

/// Exponent that goes with [`v_frexp_mant_f64`]; 0 for ±0, ±infinity and NaN.
#[inline(always)]
#[must_use]
pub fn v_frexp_exp_i32_f64(x: u64) -> u32 {
    let abs = x & (u64::MAX >> 1);
    let denormal = abs >> 52 == 0;
    let normal = if denormal {
        (abs as i64 as f64).to_bits()
    } else {
        abs
    };
    let e = (normal >> 52) as i32 - if denormal { 1022 + 1074 } else { 1022 };
    (if abs == 0 || abs >= 0x7ff0_0000_0000_0000 {
        0
    } else {
        e
    }) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    fn f(x: f32) -> u32 {
        x.to_bits()
    }

    /// Results of RDNA3 silicon and the manuals' examples.
    #[test]
    fn known_results() {
        let mode = Mode::default();
        for (x, r) in [(2.5, 2.0), (3.5, 4.0), (4.5, 4.0), (-0.25, -0.0)] {
            assert_eq!(v_rndne_f32(f(x)), f(r));
        }
        for (x, r) in [
            (3.75, 0.75),
            (-1.25, 0.75),
            (-0.25, 0.75),
            (5.0, 0.0),
            (-5.0, 0.0),
            (0.0, 0.0),
        ] {
            assert_eq!(v_fract_f32(f(x), mode), f(r));
        }
        assert_eq!(v_fract_f32(0x7f80_0000, mode), 0xffc0_0000);
        assert_eq!(v_fract_f32(0x8000_0001, mode), 0x3f7f_ffff);
        assert_eq!(v_fract_f16(0x8001, mode), 0x3bff);
        assert_eq!(
            v_fract_f64(0x8000_0000_0000_0001, mode),
            0x3fef_ffff_ffff_ffff
        );
        assert_eq!(v_frexp_mant_f64(2f64.to_bits()), 0.5f64.to_bits());
        assert_eq!(v_frexp_exp_i32_f64(2f64.to_bits()), 2);
        assert_eq!(v_ceil_f32(f(-0.5)), f(-0.0));
        assert_eq!(v_floor_f32(0x7f80_0001), 0x7fc0_0001);
        assert_eq!(v_trunc_f16(0xbe00), 0xbc00);
    }

    #[test]
    fn frexp_and_ldexp_are_inverse() {
        let mode = Mode::default();
        let mut random = Random(31);
        for _ in 0..100_000 {
            let (x, y) = (random.f32(), random.f64());
            if f32::from_bits(x).is_finite() {
                let m = f32::from_bits(v_frexp_mant_f32(x)).abs();
                assert!(x << 1 == 0 || (0.5..1.0).contains(&m));
                assert_eq!(
                    v_ldexp_f32(v_frexp_mant_f32(x), v_frexp_exp_i32_f32(x) as i32, mode),
                    x
                );
            }
            if f64::from_bits(y).is_finite() {
                assert_eq!(
                    v_ldexp_f64(v_frexp_mant_f64(y), v_frexp_exp_i32_f64(y) as i32, mode),
                    y
                );
            }
        }
        for x in (0..=u16::MAX).filter(|x| x & 0x7c00 != 0x7c00) {
            assert_eq!(
                v_ldexp_f16(v_frexp_mant_f16(x), v_frexp_exp_i16_f16(x) as i16, mode),
                x
            );
        }
    }

    #[test]
    fn ldexp_rounds_once() {
        let mode = Mode::default();
        let mut random = Random(37);
        for _ in 0..100_000 {
            let (x, e) = (random.f32(), (random.next() % 700) as i32 - 350);
            if f32::from_bits(x).is_nan() {
                continue;
            }
            for bits in [0x3f0, 0x3f1, 0x3f2, 0x3f3] {
                let mode = Mode::from_bits(bits);
                let want = crate::fp::soft::BINARY32.scale(x.into(), e, mode.round32) as u32;
                assert_eq!(v_ldexp_f32(x, e, mode), want, "{x:#x} {e} {bits:#x}");
            }
            let y = random.float(5, 10) as u16;
            if y & 0x7c00 != 0x7c00 {
                let want =
                    crate::fp::soft::BINARY16.scale(y.into(), e, Rounding::NearestEven) as u16;
                assert_eq!(v_ldexp_f16(y, e as i16, mode), want);
            }
        }
        assert_eq!(v_ldexp_f32(f(1.0), i32::MAX, mode), 0x7f80_0000);
        assert_eq!(v_ldexp_f64(1f64.to_bits(), i32::MIN, mode), 0);
        assert_eq!(
            v_ldexp_f64((3f64).to_bits(), -32, mode),
            (3.0 / 4_294_967_296f64).to_bits()
        );
    }

    #[test]
    fn f16_fract_in_every_direction() {
        for x in (0..=u16::MAX).filter(|x| x & 0x7c00 != 0x7c00) {
            let wide = f64::from(f16_to_f32(x));
            for bits in [0x3f0, 0x3f4, 0x3f8, 0x3fc] {
                let mode = Mode::from_bits(bits);
                let exact = (wide - wide.floor()).to_bits();
                let want = F16.encode64(exact, mode.round16_64, Overflow::IEEE) as u16;
                let want = if want == 0x3c00 { 0x3bff } else { want };
                let got = v_fract_f16(x, mode);
                assert!(
                    got == want || (got | want) << 1 == 0,
                    "{x:#x} {got:#x} {want:#x}"
                );
            }
        }
    }
}
