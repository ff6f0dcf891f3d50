//! Arithmetic as a VALU instruction performs it: input denormals flushed, one rounding in the
//! direction of MODE, NaN chosen as in `nan`, denormal results flushed (judged after rounding).

use super::half;
use super::mode::{Mode, Rounding, flush16, flush32, flush64};
use super::nan::{nan1_32, nan1_64, nan2_32, nan2_64, nan3_32, nan3_64};
use super::soft::{BINARY32, BINARY64};

macro_rules! wide {
    ($bits:ty, $float:ty, $soft:expr, $round:ident, $in:ident, $out:ident, $flush:ident, $nan1:ident, $nan2:ident,
     $nan3:ident, $name:literal,
     $add:ident, $sub:ident, $mul:ident, $fma:ident, $div:ident, $sqrt:ident,
     $add_ne:ident, $mul_ne:ident, $fma_ne:ident, $div_ne:ident, $sqrt_ne:ident) => {
        #[doc = concat!($name, " `a + b` on bit patterns, to nearest even, denormals kept.")]
        #[inline(always)]
        #[must_use]
        pub fn $add_ne(a: $bits, b: $bits) -> $bits {
            $nan2(a, b, (<$float>::from_bits(a) + <$float>::from_bits(b)).to_bits())
        }

        #[doc = concat!($name, " `a * b` on bit patterns, to nearest even, denormals kept.")]
        #[inline(always)]
        #[must_use]
        pub fn $mul_ne(a: $bits, b: $bits) -> $bits {
            $nan2(a, b, (<$float>::from_bits(a) * <$float>::from_bits(b)).to_bits())
        }

        #[doc = concat!($name, " `a * b + c` on bit patterns, rounded once to nearest even, denormals kept.")]
        #[inline(always)]
        #[must_use]
        pub fn $fma_ne(a: $bits, b: $bits, c: $bits) -> $bits {
            let r = <$float>::from_bits(a).mul_add(<$float>::from_bits(b), <$float>::from_bits(c));
            $nan3(a, b, c, r.to_bits())
        }

        #[doc = concat!($name, " `a / b` on bit patterns, to nearest even, denormals kept.")]
        #[inline(always)]
        #[must_use]
        pub fn $div_ne(a: $bits, b: $bits) -> $bits {
            $nan2(a, b, (<$float>::from_bits(a) / <$float>::from_bits(b)).to_bits())
        }

        #[doc = concat!($name, " square root on bit patterns, to nearest even, denormals kept.")]
        #[inline(always)]
        #[must_use]
        pub fn $sqrt_ne(a: $bits) -> $bits {
            $nan1(a, <$float>::from_bits(a).sqrt().to_bits())
        }

        #[doc = concat!($name, " `a + b` under `mode`.")]
        #[inline]
        #[must_use]
        pub fn $add(a: $bits, b: $bits, mode: Mode) -> $bits {
            let (a, b) = ($flush(a, mode.$in), $flush(b, mode.$in));
            let r = match mode.$round {
                Rounding::NearestEven => $add_ne(a, b),
                r => $nan2(a, b, $soft.add(a.into(), b.into(), r) as $bits),
            };
            $flush(r, mode.$out)
        }

        #[doc = concat!($name, " `a - b` under `mode`. A NaN `b` keeps its sign.")]
        #[inline]
        #[must_use]
        pub fn $sub(a: $bits, b: $bits, mode: Mode) -> $bits {
            let (a, b) = ($flush(a, mode.$in), $flush(b, mode.$in));
            let negated = b ^ !(<$bits>::MAX >> 1);
            let r = match mode.$round {
                Rounding::NearestEven => (<$float>::from_bits(a) + <$float>::from_bits(negated)).to_bits(),
                r => $soft.add(a.into(), negated.into(), r) as $bits,
            };
            $flush($nan2(a, b, r), mode.$out)
        }

        #[doc = concat!($name, " `a * b` under `mode`.")]
        #[inline]
        #[must_use]
        pub fn $mul(a: $bits, b: $bits, mode: Mode) -> $bits {
            let (a, b) = ($flush(a, mode.$in), $flush(b, mode.$in));
            let r = match mode.$round {
                Rounding::NearestEven => $mul_ne(a, b),
                r => $nan2(a, b, $soft.mul(a.into(), b.into(), r) as $bits),
            };
            $flush(r, mode.$out)
        }

        #[doc = concat!($name, " `a * b + c`, rounded once, under `mode`.")]
        #[inline]
        #[must_use]
        pub fn $fma(a: $bits, b: $bits, c: $bits, mode: Mode) -> $bits {
            let (a, b, c) = ($flush(a, mode.$in), $flush(b, mode.$in), $flush(c, mode.$in));
            let r = match mode.$round {
                Rounding::NearestEven => $fma_ne(a, b, c),
                r => $nan3(a, b, c, $soft.fma(a.into(), b.into(), c.into(), r) as $bits),
            };
            $flush(r, mode.$out)
        }

        #[doc = concat!($name, " `a / b`, correctly rounded, under `mode`.")]
        #[inline]
        #[must_use]
        pub fn $div(a: $bits, b: $bits, mode: Mode) -> $bits {
            let (a, b) = ($flush(a, mode.$in), $flush(b, mode.$in));
            let r = match mode.$round {
                Rounding::NearestEven => $div_ne(a, b),
                r => $nan2(a, b, $soft.div(a.into(), b.into(), r) as $bits),
            };
            $flush(r, mode.$out)
        }

        #[doc = concat!($name, " square root, correctly rounded, under `mode`.")]
        #[inline]
        #[must_use]
        pub fn $sqrt(a: $bits, mode: Mode) -> $bits {
            let a = $flush(a, mode.$in);
            let r = match mode.$round {
                Rounding::NearestEven => $sqrt_ne(a),
                r => $nan1(a, $soft.sqrt(a.into(), r) as $bits),
            };
            $flush(r, mode.$out)
        }
    };
}

wide!(
    u32,
    f32,
    BINARY32,
    round32,
    flush_in32,
    flush_out32,
    flush32,
    nan1_32,
    nan2_32,
    nan3_32,
    "f32",
    add_f32,
    sub_f32,
    mul_f32,
    fma_f32,
    div_f32,
    sqrt_f32,
    add_f32_ne,
    mul_f32_ne,
    fma_f32_ne,
    div_f32_ne,
    sqrt_f32_ne
);
wide!(
    u64,
    f64,
    BINARY64,
    round16_64,
    flush_in16_64,
    flush_out16_64,
    flush64,
    nan1_64,
    nan2_64,
    nan3_64,
    "f64",
    add_f64,
    sub_f64,
    mul_f64,
    fma_f64,
    div_f64,
    sqrt_f64,
    add_f64_ne,
    mul_f64_ne,
    fma_f64_ne,
    div_f64_ne,
    sqrt_f64_ne
);

/// f16 `a + b` under `mode`.
#[inline(always)]
#[must_use]
pub fn add_f16(a: u16, b: u16, mode: Mode) -> u16 {
    let (a, b) = (
        flush16(a, mode.flush_in16_64),
        flush16(b, mode.flush_in16_64),
    );
    flush16(
        half::add_f16(a, b, mode.round16_64, mode.fp16_ovfl),
        mode.flush_out16_64,
    )
}

/// f16 `a - b` under `mode`. A NaN `b` keeps its sign.
#[inline(always)]
#[must_use]
pub fn sub_f16(a: u16, b: u16, mode: Mode) -> u16 {
    let keep = super::nan::is_nan16(b);
    add_f16(a, if keep { b } else { b ^ 0x8000 }, mode)
}

/// f16 `a * b` under `mode`.
#[inline(always)]
#[must_use]
pub fn mul_f16(a: u16, b: u16, mode: Mode) -> u16 {
    let (a, b) = (
        flush16(a, mode.flush_in16_64),
        flush16(b, mode.flush_in16_64),
    );
    flush16(
        half::mul_f16(a, b, mode.round16_64, mode.fp16_ovfl),
        mode.flush_out16_64,
    )
}

/// f16 `a * b + c`, rounded once, under `mode`.
#[inline(always)]
#[must_use]
pub fn fma_f16(a: u16, b: u16, c: u16, mode: Mode) -> u16 {
    let flush = mode.flush_in16_64;
    let (a, b, c) = (flush16(a, flush), flush16(b, flush), flush16(c, flush));
    flush16(
        half::fma_f16(a, b, c, mode.round16_64, mode.fp16_ovfl),
        mode.flush_out16_64,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes() {
        let all = Mode::default();
        let flush = Mode::from_bits(0x300);
        let tiny = 0x0040_0000;
        assert_eq!(add_f32(tiny, tiny, all), 0x0080_0000);
        assert_eq!(add_f32(tiny, tiny, flush), 0);
        // 2^-100 * 2^-28 is denormal: flushed on output, sign kept.
        assert_eq!(mul_f32(0x0d80_0000, 0xb180_0000, flush), 0x8000_0000);
        assert_eq!(mul_f32(0x0d80_0000, 0xb180_0000, all), 0x8020_0000);
        let up = Mode::from_bits(0x3f1);
        assert_eq!(add_f32(0x3f80_0000, 1, up), 0x3f80_0001);
        assert_eq!(
            fma_f64(
                0x3ff0_0000_0000_0000,
                0x3ff0_0000_0000_0000,
                1,
                Mode::from_bits(0x3f4)
            ),
            0x3ff0_0000_0000_0001
        );
        // inf - inf is -QNaN; a NaN src1 of a subtraction keeps its sign.
        assert_eq!(sub_f32(0x7f80_0000, 0x7f80_0000, all), 0xffc0_0000);
        assert_eq!(sub_f32(0, 0x7f80_0001, all), 0x7fc0_0001);
        assert_eq!(sub_f16(0x3c00, 0x7c01, all), 0x7e01);
        assert_eq!(sqrt_f32(0xbf80_0000, all), 0xffc0_0000);
        assert_eq!(fma_f16(0x0001, 0x3c00, 0, Mode::from_bits(0x330)), 0);
        assert_eq!(
            div_f64(0x3ff0_0000_0000_0000, 0, all),
            0x7ff0_0000_0000_0000
        );
    }
}
