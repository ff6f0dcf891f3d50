//! Conversions between floats and integers of 16, 32 and 64 bits, packed and normalised forms.
//!
//! Float to integer truncates, saturates at the ends of the range and turns NaN into 0 (manual notes:
//! "out-of-range floating point values (including infinity) saturate. NAN is converted to 0").
//! Rounding fields: f16 results and f64 to f32 follow MODE's f16/f64 field, integer to f32 its f32 field.

use crate::fp::format::F16;
use crate::fp::half::{self, bf16_to_f32, f16_to_f32, f32_to_bf16};
use crate::fp::mode::{flush16, flush32, flush64};
use crate::fp::nan::{quiet16, quiet32};
use crate::fp::soft::BINARY32;
use crate::fp::{Mode, Rounding};

/// Signed integer to f32, rounded by MODE.
#[inline(always)]
#[must_use]
pub fn v_cvt_f32_i32(x: u32, mode: Mode) -> u32 {
    let x = x as i32;
    match mode.round32 {
        Rounding::NearestEven => (x as f32).to_bits(),
        r => BINARY32.from_integer(x < 0, x.unsigned_abs().into(), r) as u32,
    }
}

/// Unsigned integer to f32, rounded by MODE.
#[inline(always)]
#[must_use]
pub fn v_cvt_f32_u32(x: u32, mode: Mode) -> u32 {
    match mode.round32 {
        Rounding::NearestEven => (x as f32).to_bits(),
        r => BINARY32.from_integer(false, x.into(), r) as u32,
    }
}

/// Byte `byte & 3` of `x` to f32 (V_CVT_F32_UBYTE0 to V_CVT_F32_UBYTE3), exact.
#[inline(always)]
#[must_use]
pub fn v_cvt_f32_ubyte(x: u32, byte: u32) -> u32 {
    ((x >> (byte % 4 * 8) & 0xff) as f32).to_bits()
}

/// Signed integer to f64, exact.
#[inline(always)]
#[must_use]
pub fn v_cvt_f64_i32(x: u32) -> u64 {
    f64::from(x as i32).to_bits()
}

/// Unsigned integer to f64, exact.
#[inline(always)]
#[must_use]
pub fn v_cvt_f64_u32(x: u32) -> u64 {
    f64::from(x).to_bits()
}

/// Signed 16-bit integer to f16, rounded by MODE.
#[inline(always)]
#[must_use]
pub fn v_cvt_f16_i16(x: u16, mode: Mode) -> u16 {
    half::f32_to_f16_round(f32::from(x as i16), mode.round16_64, mode.fp16_ovfl)
}

/// Unsigned 16-bit integer to f16, rounded by MODE; 65520 and more overflow.
#[inline(always)]
#[must_use]
pub fn v_cvt_f16_u16(x: u16, mode: Mode) -> u16 {
    half::f32_to_f16_round(f32::from(x), mode.round16_64, mode.fp16_ovfl)
}

/// |x| truncated, 32 bits and what lies beyond lost; 0 for NaN. In integers, because the compiler's
/// saturating conversion does not vectorise well.
#[inline(always)]
const fn magnitude(x: u32) -> u32 {
    let abs = x & 0x7fff_ffff;
    let exp = abs >> 23;
    let sig = abs & 0x007f_ffff | 0x0080_0000;
    let down = 150u32.saturating_sub(exp);
    let down = if down > 31 { 31 } else { down };
    let up = exp.saturating_sub(150);
    let up = if up > 31 { 31 } else { up };
    if abs > 0x7f80_0000 {
        0
    } else {
        sig >> down << up
    }
}

/// f32 to signed integer, truncated.
#[inline(always)]
#[must_use]
pub const fn v_cvt_i32_f32(x: u32) -> u32 {
    let sign = (x as i32 >> 31) as u32;
    let value = (magnitude(x) ^ sign).wrapping_sub(sign);
    // From 2^31 on, infinities included.
    let abs = x & 0x7fff_ffff;
    let saturated = 0x7fff_ffff ^ sign;
    if abs >= 0x4f00_0000 && abs <= 0x7f80_0000 {
        saturated
    } else {
        value
    }
}

/// f32 to unsigned integer, truncated.
#[inline(always)]
#[must_use]
pub const fn v_cvt_u32_f32(x: u32) -> u32 {
    let abs = x & 0x7fff_ffff;
    let value = if abs >= 0x4f80_0000 && abs <= 0x7f80_0000 {
        u32::MAX
    } else {
        magnitude(x)
    };
    if x >> 31 != 0 { 0 } else { value }
}

/// f64 to signed integer, truncated.
#[inline(always)]
#[must_use]
pub fn v_cvt_i32_f64(x: u64) -> u32 {
    f64::from_bits(x) as i32 as u32
}

/// f64 to unsigned integer, truncated.
#[inline(always)]
#[must_use]
pub fn v_cvt_u32_f64(x: u64) -> u32 {
    f64::from_bits(x) as u32
}

/// f16 to signed 16-bit integer, truncated.
#[inline(always)]
#[must_use]
pub fn v_cvt_i16_f16(x: u16) -> u16 {
    f16_to_f32(x) as i16 as u16
}

/// f16 to unsigned 16-bit integer, truncated.
#[inline(always)]
#[must_use]
pub fn v_cvt_u16_f16(x: u16) -> u16 {
    f16_to_f32(x) as u16
}

/// `floor(x + 1/2)` as a signed integer (V_CVT_RPI_I32_F32, V_CVT_NEAREST_I32_F32), as if the sum
/// were exact ("0.5ULP accuracy"); an f32 sum would be wrong from 2^23 on and just below 1/2.
#[inline(always)]
#[must_use]
pub fn v_cvt_nearest_i32_f32(x: u32) -> u32 {
    let value = f32::from_bits(x);
    let floor = value.floor();
    // Where the difference is inexact it is above 1/2 and stays so.
    let up = if value - floor >= 0.5 { 1.0 } else { 0.0 };
    v_cvt_i32_f32((floor + up).to_bits())
}

pub use v_cvt_nearest_i32_f32 as v_cvt_rpi_i32_f32;

/// `floor(x)` as a signed integer (V_CVT_FLR_I32_F32, V_CVT_FLOOR_I32_F32).
#[inline(always)]
#[must_use]
pub fn v_cvt_floor_i32_f32(x: u32) -> u32 {
    v_cvt_i32_f32(f32::from_bits(x).floor().to_bits())
}

pub use v_cvt_floor_i32_f32 as v_cvt_flr_i32_f32;

/// f32 to f16, rounded by MODE.
#[inline(always)]
#[must_use]
pub fn v_cvt_f16_f32(x: u32, mode: Mode) -> u16 {
    let x = flush32(x, mode.flush_in32);
    let r = half::f32_to_f16_round(f32::from_bits(x), mode.round16_64, mode.fp16_ovfl);
    flush16(r, mode.flush_out16_64)
}

/// f16 to f32, exact; NaNs become quiet. A denormal operand counts as zero where MODE's f16 field says so.
#[inline(always)]
#[must_use]
pub fn v_cvt_f32_f16(x: u16, mode: Mode) -> u32 {
    quiet32(f16_to_f32(flush16(x, mode.flush_in16_64)).to_bits())
}

/// f64 to f32, rounded by MODE's f16/f64 field (the one that compilers set for it).
#[inline(always)]
#[must_use]
pub fn v_cvt_f32_f64(x: u64, mode: Mode) -> u32 {
    let x = flush64(x, mode.flush_in16_64);
    flush32(half::f64_to_f32(x, mode.round16_64), mode.flush_out32)
}

/// f32 to f64, exact; NaNs become quiet.
#[inline(always)]
#[must_use]
pub fn v_cvt_f64_f32(x: u32, mode: Mode) -> u64 {
    half::f32_to_f64(flush32(x, mode.flush_in32))
}

/// bf16 to f32: `{x, 0}`, NaNs unchanged (CDNA4, CDNA5).
#[inline(always)]
#[must_use]
pub fn v_cvt_f32_bf16(x: u16) -> u32 {
    bf16_to_f32(x).to_bits()
}

/// Two f32 to packed f16, toward zero (V_CVT_PKRTZ_F16_F32, V_CVT_PK_RTZ_F16_F32).
#[inline(always)]
#[must_use]
pub fn v_cvt_pkrtz_f16_f32(a: u32, b: u32, mode: Mode) -> u32 {
    pack_f16(
        a,
        b,
        Mode {
            round16_64: Rounding::TowardZero,
            ..mode
        },
    )
}

pub use v_cvt_pkrtz_f16_f32 as v_cvt_pk_rtz_f16_f32;

/// Two f32 to packed f16, to nearest even (V_CVT_PK_F16_F32).
#[inline(always)]
#[must_use]
pub fn v_cvt_pk_f16_f32(a: u32, b: u32, mode: Mode) -> u32 {
    pack_f16(
        a,
        b,
        Mode {
            round16_64: Rounding::NearestEven,
            ..mode
        },
    )
}

#[inline(always)]
fn pack_f16(a: u32, b: u32, mode: Mode) -> u32 {
    pack(v_cvt_f16_f32(a, mode), v_cvt_f16_f32(b, mode))
}

/// Two f32 to packed bf16, to nearest even (V_CVT_PK_BF16_F32). `fp16_ovfl`: finite overflow gives
/// the largest finite value (CDNA5 7.6: FP16_OVFL applies to bf16 destinations).
#[inline(always)]
#[must_use]
pub fn v_cvt_pk_bf16_f32(a: u32, b: u32, fp16_ovfl: bool) -> u32 {
    let one = |x: u32| {
        let r = f32_to_bf16(f32::from_bits(x));
        let overflowed = r & 0x7fff == 0x7f80 && x & 0x7fff_ffff != 0x7f80_0000;
        if fp16_ovfl && overflowed { r - 1 } else { r }
    };
    pack(one(a), one(b))
}

/// Low and high half of a register.
#[inline(always)]
#[must_use]
pub const fn pack(low: u16, high: u16) -> u32 {
    (high as u32) << 16 | low as u32
}

/// Two f16 halves side by side, signaling NaNs quieted (V_PACK_B32_F16 is a float instruction).
#[inline(always)]
#[must_use]
pub fn v_pack_b32_f16(a: u16, b: u16) -> u32 {
    pack(quiet16(a), quiet16(b))
}

/// Two f32 to packed signed 16-bit integers, truncated.
#[inline(always)]
#[must_use]
pub fn v_cvt_pk_i16_f32(a: u32, b: u32) -> u32 {
    v_cvt_pk_i16_i32(v_cvt_i32_f32(a), v_cvt_i32_f32(b))
}

/// Two f32 to packed unsigned 16-bit integers, truncated.
#[inline(always)]
#[must_use]
pub fn v_cvt_pk_u16_f32(a: u32, b: u32) -> u32 {
    v_cvt_pk_u16_u32(v_cvt_u32_f32(a), v_cvt_u32_f32(b))
}

/// Two signed integers to packed signed 16-bit ones, saturated.
#[inline(always)]
#[must_use]
pub fn v_cvt_pk_i16_i32(a: u32, b: u32) -> u32 {
    let one = |x: u32| (x as i32).clamp(-0x8000, 0x7fff) as u16;
    pack(one(a), one(b))
}

/// Two unsigned integers to packed unsigned 16-bit ones, saturated.
#[inline(always)]
#[must_use]
pub fn v_cvt_pk_u16_u32(a: u32, b: u32) -> u32 {
    pack(a.min(0xffff) as u16, b.min(0xffff) as u16)
}

/// f32 to unsigned byte, truncated and saturated, put into byte `b & 3` of `c`
/// (V_CVT_PK_U8_F32; V_CVT_PKACCUM_U8_F32 with `c` the destination).
#[inline(always)]
#[must_use]
pub fn v_cvt_pk_u8_f32(a: u32, b: u32, c: u32) -> u32 {
    let shift = b % 4 * 8;
    c & !(0xff << shift) | v_cvt_u32_f32(a).min(0xff) << shift
}

/// \[-1, 1\] to -32767..32767, rounded to nearest even.
#[inline(always)]
fn snorm(x: f32) -> u16 {
    let scaled = (f64::from(x) * 32767.0).round_ties_even() as i32;
    scaled.clamp(-32767, 32767) as u16
}

/// \[0, 1\] to 0..65535, rounded to nearest even.
#[inline(always)]
fn unorm(x: f32) -> u16 {
    (f64::from(x) * 65535.0).round_ties_even() as u16
}

/// f16 in \[-1, 1\] to a signed normalised 16-bit integer; -1 is -32767 (RDNA3 silicon).
#[inline(always)]
#[must_use]
pub fn v_cvt_norm_i16_f16(x: u16) -> u16 {
    snorm(f16_to_f32(x))
}

/// f16 in \[0, 1\] to an unsigned normalised 16-bit integer.
#[inline(always)]
#[must_use]
pub fn v_cvt_norm_u16_f16(x: u16) -> u16 {
    unorm(f16_to_f32(x))
}

/// Two f32 to packed signed normalised 16-bit integers.
#[inline(always)]
#[must_use]
pub fn v_cvt_pknorm_i16_f32(a: u32, b: u32) -> u32 {
    pack(snorm(f32::from_bits(a)), snorm(f32::from_bits(b)))
}

/// Two f32 to packed unsigned normalised 16-bit integers.
#[inline(always)]
#[must_use]
pub fn v_cvt_pknorm_u16_f32(a: u32, b: u32) -> u32 {
    pack(unorm(f32::from_bits(a)), unorm(f32::from_bits(b)))
}

/// Two f16 to packed signed normalised 16-bit integers.
#[inline(always)]
#[must_use]
pub fn v_cvt_pknorm_i16_f16(a: u16, b: u16) -> u32 {
    pack(v_cvt_norm_i16_f16(a), v_cvt_norm_i16_f16(b))
}

/// Two f16 to packed unsigned normalised 16-bit integers.
#[inline(always)]
#[must_use]
pub fn v_cvt_pknorm_u16_f16(a: u16, b: u16) -> u32 {
    pack(v_cvt_norm_u16_f16(a), v_cvt_norm_u16_f16(b))
}

pub use {
    v_cvt_pknorm_i16_f16 as v_cvt_pk_norm_i16_f16, v_cvt_pknorm_i16_f32 as v_cvt_pk_norm_i16_f32,
    v_cvt_pknorm_u16_f16 as v_cvt_pk_norm_u16_f16, v_cvt_pknorm_u16_f32 as v_cvt_pk_norm_u16_f32,
};

/// The low four bits as a signed number of sixteenths, -0.5 to 0.4375.
#[inline(always)]
#[must_use]
pub fn v_cvt_off_f32_i4(x: u32) -> u32 {
    let signed = (x as i32) << 28 >> 28;
    (signed as f32 * 0.0625).to_bits()
}

/// Sign-extends 16 bits to 32.
#[inline(always)]
#[must_use]
pub const fn v_cvt_i32_i16(x: u16) -> u32 {
    x as i16 as i32 as u32
}

/// Zero-extends 16 bits to 32.
#[inline(always)]
#[must_use]
pub const fn v_cvt_u32_u16(x: u16) -> u32 {
    x as u32
}

/// f16 `r` of an instruction whose finite operands overflowed, clamped to ±65504 if `clamp`
/// (MODE.FP16_OVFL keeps infinities that come from infinite operands).
#[inline(always)]
#[must_use]
pub const fn overflow_f16(r: u16, infinite_operand: bool, clamp: bool) -> u16 {
    if clamp && !infinite_operand && r & 0x7fff == 0x7c00 {
        r & 0x8000 | F16.max_finite() as u16
    } else {
        r
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f(x: f32) -> u32 {
        x.to_bits()
    }

    /// Results of RDNA3 silicon.
    #[test]
    fn known_results() {
        assert_eq!(v_cvt_i32_f32(f(42.7)), 42);
        assert_eq!(v_cvt_i32_f32(f(-42.7)), 42u32.wrapping_neg());
        assert_eq!(v_cvt_u32_f32(f(-1.0)), 0);
        assert_eq!(v_cvt_i16_f16(0xc000), 0xfffe);
        assert_eq!(v_cvt_norm_i16_f16(0x3c00), 32767);
        assert_eq!(v_cvt_norm_i16_f16(0xbc00), 0x8001);
        assert_eq!(v_cvt_norm_u16_f16(0x3c00), 65535);
        assert_eq!(v_cvt_pk_norm_i16_f32(f(1.0), f(-1.0)), 0x8001_7fff);
        assert_eq!(v_cvt_pk_norm_u16_f32(f(1.0), f(0.5)), 0x8000_ffff);
        assert_eq!(v_cvt_pk_i16_i32(100, 100u32.wrapping_neg()), 0xff9c_0064);
        assert_eq!(v_cvt_pk_i16_f32(f(100.5), f(-50.7)), 0xffce_0064);
        assert_eq!(v_cvt_pk_u16_f32(f(100.9), f(200.1)), 0x00c8_0064);
        assert_eq!(v_cvt_pk_u8_f32(f(128.5), 0, 0), 128);
        assert_eq!(v_cvt_i32_f64((-1f64).to_bits()), u32::MAX);
        let mode = Mode::default();
        assert_eq!(v_cvt_f16_f32(f(100_000.0), mode), 0x7c00);
        assert_eq!(v_cvt_f16_f32(f(1.5), mode), 0x3e00);
    }

    #[test]
    fn integer_conversions_equal_the_hosts() {
        let mut random = crate::testing::Random(81);
        for _ in 0..300_000 {
            let x = random.f32();
            let value = f32::from_bits(x);
            assert_eq!(v_cvt_i32_f32(x), value as i32 as u32, "{value:e}");
            assert_eq!(v_cvt_u32_f32(x), value as u32, "{value:e}");
            assert_eq!(
                v_cvt_nearest_i32_f32(x),
                (f64::from(value) + 0.5).floor() as i32 as u32,
                "{value:e}"
            );
            assert_eq!(
                v_cvt_floor_i32_f32(x),
                value.floor() as i32 as u32,
                "{value:e}"
            );
            let near =
                (value.to_bits() & 0x83ff_ffff | 0x4400_0000) & !0x3000_0000 | x & 0x3000_0000;
            assert_eq!(v_cvt_i32_f32(near), f32::from_bits(near) as i32 as u32);
        }
    }

    #[test]
    fn saturation_and_nan() {
        let nan = 0x7fc0_0000;
        for cvt in [
            v_cvt_i32_f32,
            v_cvt_u32_f32,
            v_cvt_nearest_i32_f32,
            v_cvt_floor_i32_f32,
        ] {
            assert_eq!(cvt(nan), 0);
        }
        assert_eq!(v_cvt_i32_f32(0x7f80_0000), 0x7fff_ffff);
        assert_eq!(v_cvt_i32_f32(0xff80_0000), 0x8000_0000);
        assert_eq!(v_cvt_u32_f32(f(5e9)), u32::MAX);
        assert_eq!(v_cvt_pk_u16_f32(f(-5.0), f(1e9)), 0xffff_0000);
        assert_eq!(v_cvt_pk_u16_u32(70_000, 3), 0x0003_ffff);
        assert_eq!(
            v_cvt_pk_i16_i32(70_000, 70_000u32.wrapping_neg()),
            0x8000_7fff
        );
        assert_eq!(v_cvt_pknorm_i16_f32(f(7.0), nan), 0x0000_7fff);
        assert_eq!(v_cvt_pknorm_u16_f32(f(-7.0), 0x7f80_0000), 0xffff_0000);
        assert_eq!(v_cvt_pk_u8_f32(f(300.0), 6, 0x1122_3344), 0x11ff_3344);
        assert_eq!(v_cvt_u16_f16(0x7c00), 0xffff);
        assert_eq!(v_cvt_i16_f16(0xfc00), 0x8000);
    }

    #[test]
    fn rounding_and_modes() {
        let mode = Mode::default();
        let up = Mode::from_bits(0x3f5);
        assert_eq!(v_cvt_f32_i32(0x8000_0001, mode), f(-2_147_483_648.0));
        assert_eq!(v_cvt_f32_i32(0x8000_0001, up), f(-2_147_483_520.0));
        assert_eq!(v_cvt_f32_u32(0x0100_0001, up), f(16_777_218.0));
        assert_eq!(v_cvt_nearest_i32_f32(f(0.499_999_97)), 0);
        assert_eq!(v_cvt_nearest_i32_f32(f(2.5)), 3);
        assert_eq!(v_cvt_nearest_i32_f32(f(-2.5)), 2u32.wrapping_neg());
        assert_eq!(v_cvt_nearest_i32_f32(f(8_388_609.0)), 8_388_609);
        assert_eq!(v_cvt_floor_i32_f32(f(-0.25)), u32::MAX);
        assert_eq!(v_cvt_f16_u16(65_535, mode), 0x7c00);
        assert_eq!(v_cvt_f16_u16(65_535, Mode::from_bits(0x0080_03f0)), 0x7bff);
        assert_eq!(v_cvt_f16_i16(0x8000, mode), 0xf800);
        assert_eq!(v_cvt_pkrtz_f16_f32(f(1.9999), f(1e9), mode), 0x7bff_3fff);
        assert_eq!(v_cvt_f16_f32(f(1e-6), Mode::from_bits(0x370)), 0);
        assert_eq!(v_cvt_f32_f16(0x0001, Mode::from_bits(0x330)), 0);
        assert_eq!(v_cvt_f32_f64(0x3690_0000_0000_0000, mode), 0);
        assert_eq!(v_cvt_f32_f64(0x3690_0000_0000_0000, up), 1);
        assert_eq!(v_cvt_f64_f32(1, mode), 2f64.powi(-149).to_bits());
        assert_eq!(
            v_cvt_pk_bf16_f32(0x7f7f_ffff, 0x7f80_0000, true),
            0x7f80_7f7f
        );
        assert_eq!(overflow_f16(0xfc00, false, true), 0xfbff);
    }

    #[test]
    fn small_tables() {
        let off = |x| f32::from_bits(v_cvt_off_f32_i4(x));
        assert_eq!(
            [off(0), off(1), off(7), off(8), off(15), off(0x18)],
            [0.0, 0.0625, 0.4375, -0.5, -0.0625, -0.5]
        );
        assert_eq!(v_cvt_f32_ubyte(0x1122_3344, 2), f(34.0));
        assert_eq!(v_cvt_i32_i16(0x8000), 0xffff_8000);
    }
}
