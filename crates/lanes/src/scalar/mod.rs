//! Per-lane arithmetic of GPU instructions as pure functions on register bits.
//!
//! A function has the instruction's name and takes and returns bit patterns (`u16`, `u32`, `u64`).
//! Unless it takes a [`Mode`](crate::fp::Mode), it neither flushes denormals nor applies modifiers:
//! the caller flushes operands and results (`fp::mode::flush32` and so on), applies `neg` and `abs`
//! before and [`modifiers`] after. Where generations differ, a parameter says so. Sources are the
//! instruction's section in AMD's ISA manuals (CDNA3, CDNA4, CDNA5, RDNA3, RDNA4) and results of
//! RDNA3 chips published with tinygrad.
//!
//! Packed (`v_pk_*`) instructions are their 16-bit functions applied to each half. In a vector loop
//! pass [`Mode::nearest_even`](crate::fp::Mode::nearest_even) so that the loop vectorises.
//!
//! | module | instructions |
//! | --- | --- |
//! | [`arithmetic`] | add, sub, mul, fma, mad of f16, bf16, f32, f64; legacy (DX9) multiplies; mullit; mix; bf16 |
//! | [`modifiers`] | neg, abs, omod, clamp |
//! | [`minmax`] | min, max, min3, max3, med3, minmax, maxmin, `*_num`, minimum, maximum; float and integer |
//! | [`rounding`] | trunc, ceil, floor, rndne, fract, ldexp, frexp_mant, frexp_exp |
//! | [`division`] | div_scale, div_fmas, div_fixup |
//! | [`trig_preop`] | trig_preop_f64 |
//! | [`transcendental`] | rcp, rsq, sqrt, exp, log, sin, cos, tanh of f32, f16, bf16; rcp, rsq, sqrt of f64 |
//! | [`convert`] | between floats and integers, packed, norm, off_i4 |
//! | [`convert_small`] | to and from fp8, bf8, fp6, bf6, fp4, scaled and stochastic; prng |
//! | [`compare`] | ordered and unordered comparisons, class |
//! | [`cube`] | cubeid, cubema, cubesc, cubetc |
//! | [`integer`] | add and sub with carry or saturation, 24-bit and wide multiplies, shifts and their combinations |
//! | [`bits`] | bfe, bfi, bfm, bitop3, perm, align, clz, ctz, cls, bcnt, bfrev, lerp, sat_pk, perm_pk16 |
//! | [`sad`] | sad, msad, qsad, mqsad |
//! | [`dot`] | dot2, dot4, dot8 |

#![forbid(unsafe_code)]

pub mod arithmetic;
pub mod bits;
pub mod compare;
pub mod convert;
pub mod convert_small;
pub mod cube;
pub mod division;
pub mod dot;
pub mod integer;
pub mod minmax;
pub mod modifiers;
pub mod rounding;
pub mod sad;
pub mod transcendental;
pub mod trig_preop;
