//! Conversions between floats and integers of 16, 32 and 64 bits.

use rocjitsu_lanes::scalar::convert as c;
use rocjitsu_lanes::vector::round;

use super::minmax::{Format, Half};
use super::ops;
use super::support::{PLAIN, half1, mode, pack};

ops! {
    v_cvt_f32_i32[x](a: B32) -> F32 { L::f32_from_i32(a) }
    => modal { let m = mode(x); L::map1(a, |a| c::v_cvt_f32_i32(a, m)) }
    v_cvt_f32_u32[x](a: B32) -> F32 { L::f32_from_u32(a) }
    => modal { let m = mode(x); L::map1(a, |a| c::v_cvt_f32_u32(a, m)) }
    v_cvt_f32_ubyte0(a: B32) -> F32 { L::f32_from_i32(L::and(a, L::splat(0xff))) }
    v_cvt_f32_ubyte1(a: B32) -> F32 { L::f32_from_i32(L::and(L::shr(a, L::splat(8)), L::splat(0xff))) }
    v_cvt_f32_ubyte2(a: B32) -> F32 { L::f32_from_i32(L::and(L::shr(a, L::splat(16)), L::splat(0xff))) }
    v_cvt_f32_ubyte3(a: B32) -> F32 { L::f32_from_i32(L::shr(a, L::splat(24))) }
    v_cvt_off_f32_i4(a: B32) -> F32 { L::map1(a, c::v_cvt_off_f32_i4) }
    v_cvt_i32_f32(a: F32) -> B32 { L::i32_from_f32(a) }
    v_cvt_u32_f32(a: F32) -> B32 { L::u32_from_f32(a) }
    v_cvt_rpi_i32_f32 | v_cvt_nearest_i32_f32(a: F32) -> B32 { L::map1(a, c::v_cvt_nearest_i32_f32) }
    v_cvt_flr_i32_f32 | v_cvt_floor_i32_f32(a: F32) -> B32 { L::i32_from_f32(L::round_f32::<{ round::DOWN }>(a)) }

    v_cvt_f64_i32(a: B32) -> F64 { L::widen(a, c::v_cvt_f64_i32) }
    v_cvt_f64_u32(a: B32) -> F64 { L::widen(a, c::v_cvt_f64_u32) }
    v_cvt_i32_f64(a: F64) -> B32 { L::narrow(a, |a| truncated(a, -2_147_483_648.0, 2_147_483_647.0)) }
    v_cvt_u32_f64(a: F64) -> B32 { L::narrow(a, |a| truncated(a, 0.0, 4_294_967_295.0)) }
    v_cvt_f64_f32(a: F32) -> F64 { L::widen(a, widened) }
    v_cvt_f32_f64[x](a: F64) -> F32 { L::narrow(a, narrowed) }
    => modal { let m = mode(x); L::narrow(a, |a| c::v_cvt_f32_f64(a, m)) }

    v_cvt_f32_f16(a: F16) -> F32 { L::f32_from_f16(a) }
    v_cvt_f16_f32[x](a: F32) -> F16 { L::f16_from_f32(a) }
    => modal { let m = mode(x); L::map1(a, |a| u32::from(c::v_cvt_f16_f32(a, m))) }
    v_cvt_f32_bf16(a: Bf16) -> F32 { L::shl(a, L::splat(16)) }
    v_cvt_f16_i16[x](a: B16) -> F16 { half1::<L>(a, |a| c::v_cvt_f16_i16(a, PLAIN)) }
    => modal { let m = mode(x); half1::<L>(a, |a| c::v_cvt_f16_i16(a, m)) }
    v_cvt_f16_u16[x](a: B16) -> F16 { half1::<L>(a, |a| c::v_cvt_f16_u16(a, PLAIN)) }
    => modal { let m = mode(x); half1::<L>(a, |a| c::v_cvt_f16_u16(a, m)) }
    v_cvt_i16_f16(a: F16) -> B16 { half1::<L>(a, c::v_cvt_i16_f16) }
    v_cvt_u16_f16(a: F16) -> B16 { half1::<L>(a, c::v_cvt_u16_f16) }
    v_cvt_norm_i16_f16(a: F16) -> B16 { half1::<L>(a, c::v_cvt_norm_i16_f16) }
    v_cvt_norm_u16_f16(a: F16) -> B16 { half1::<L>(a, c::v_cvt_norm_u16_f16) }

    v_cvt_pkrtz_f16_f32 | v_cvt_pk_rtz_f16_f32[x](a: F32, b: F32) -> PkF16 {
        pack::<L>(L::f16_from_f32_toward_zero(a), L::f16_from_f32_toward_zero(b))
    }
    => modal { let m = mode(x); L::map2(a, b, |a, b| c::v_cvt_pkrtz_f16_f32(a, b, m)) }
    v_cvt_pk_f16_f32[x](a: F32, b: F32) -> PkF16 { pack::<L>(L::f16_from_f32(a), L::f16_from_f32(b)) }
    => modal { let m = mode(x); L::map2(a, b, |a, b| c::v_cvt_pk_f16_f32(a, b, m)) }
    v_cvt_pk_bf16_f32[x](a: F32, b: F32) -> PkBf16 { L::map2(a, b, |a, b| c::v_cvt_pk_bf16_f32(a, b, false)) }
    => modal { L::map2(a, b, |a, b| c::v_cvt_pk_bf16_f32(a, b, x.fp16_ovfl())) }
    v_pack_b32_f16(a: F16, b: F16) -> PkF16 {
        let quiet = |v| L::select(Half::nan::<L>(v), L::or(v, L::splat(Half::QUIET)), v);
        pack::<L>(quiet(a), quiet(b))
    }
    v_cvt_pk_i16_f32(a: F32, b: F32) -> B32 { L::map2(a, b, c::v_cvt_pk_i16_f32) }
    v_cvt_pk_u16_f32(a: F32, b: F32) -> B32 { L::map2(a, b, c::v_cvt_pk_u16_f32) }
    v_cvt_pk_i16_i32(a: B32, b: B32) -> B32 { L::map2(a, b, c::v_cvt_pk_i16_i32) }
    v_cvt_pk_u16_u32(a: B32, b: B32) -> B32 { L::map2(a, b, c::v_cvt_pk_u16_u32) }
    v_cvt_pk_u8_f32 | v_cvt_pkaccum_u8_f32(a: F32, b: B32, d: B32) -> B32 { L::map3(a, b, d, c::v_cvt_pk_u8_f32) }
    v_cvt_pknorm_i16_f32 | v_cvt_pk_norm_i16_f32(a: F32, b: F32) -> B32 { L::map2(a, b, c::v_cvt_pknorm_i16_f32) }
    v_cvt_pknorm_u16_f32 | v_cvt_pk_norm_u16_f32(a: F32, b: F32) -> B32 { L::map2(a, b, c::v_cvt_pknorm_u16_f32) }
    v_cvt_pknorm_i16_f16 | v_cvt_pk_norm_i16_f16(a: F16, b: F16) -> B32 {
        L::map2(a, b, |a, b| c::v_cvt_pknorm_i16_f16(a as u16, b as u16))
    }
    v_cvt_pknorm_u16_f16 | v_cvt_pk_norm_u16_f16(a: F16, b: F16) -> B32 {
        L::map2(a, b, |a, b| c::v_cvt_pknorm_u16_f16(a as u16, b as u16))
    }
}

/// f64 of f32 bits; NaNs become quiet and keep sign and payload.
#[inline(always)]
fn widened(x: u32) -> u64 {
    let sign = u64::from(x >> 31) << 63;
    let nan = sign | 0x7ff8 << 48 | u64::from(x & 0x007f_ffff) << 29;
    if x & 0x7fff_ffff > 0x7f80_0000 {
        nan
    } else {
        f64::from(f32::from_bits(x)).to_bits()
    }
}

/// f32 of f64 bits, to nearest even; NaNs become quiet and keep sign and top of the payload.
#[inline(always)]
fn narrowed(x: u64) -> u32 {
    let value = f64::from_bits(x);
    let nan = (x >> 32) as u32 & 0x8000_0000 | 0x7fc0_0000 | (x >> 29) as u32 & 0x003f_ffff;
    if value.is_nan() {
        nan
    } else {
        (value as f32).to_bits()
    }
}

/// f64 truncated to an integer between two bounds; NaN is zero. In a form that vectorises.
#[inline(always)]
fn truncated(x: u64, low: f64, high: f64) -> u32 {
    let value = f64::from_bits(x).trunc();
    let value = if value < low { low } else { value };
    let value = if value > high { high } else { value };
    // Adding 1.5 * 2^52 leaves an integer in the low bits of the significand.
    let bits = (value + 6_755_399_441_055_744.0).to_bits() as u32;
    if value.is_nan() { 0 } else { bits }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocjitsu_lanes::fp::half;

    /// The short ways of this file against the exact functions.
    #[test]
    fn widths_agree_with_exact_conversions() {
        let mut state = 1u64;
        for _ in 0..100_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let x = state >> 16 ^ state << 40;
            assert_eq!(widened(x as u32), half::f32_to_f64(x as u32), "{x:#x}");
            let near = x & !(0xff << 52) | 0x380 << 52;
            for x in [x, near, near | 0xfff << 17] {
                assert_eq!(narrowed(x), c::v_cvt_f32_f64(x, PLAIN), "{x:#x}");
            }
        }
        for x in [
            0x7ff0_0000_0000_0001,
            0xfff8_0000_2000_0000,
            0x7ff0_0000_0000_0000,
            1,
            1 << 63,
        ] {
            assert_eq!(narrowed(x), c::v_cvt_f32_f64(x, PLAIN), "{x:#x}");
        }
        let mut state = 5u64;
        for _ in 0..100_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            // Exponents from -3 to 40.
            let x = state & !(0x7ff << 52) | (1020 + state % 44) << 52;
            assert_eq!(
                truncated(x, -2_147_483_648.0, 2_147_483_647.0),
                c::v_cvt_i32_f64(x),
                "{x:#x}"
            );
            assert_eq!(
                truncated(x, 0.0, 4_294_967_295.0),
                c::v_cvt_u32_f64(x),
                "{x:#x}"
            );
        }
        for x in [f64::NAN, f64::INFINITY, -f64::INFINITY, -0.5, 1e300].map(f64::to_bits) {
            assert_eq!(
                truncated(x, -2_147_483_648.0, 2_147_483_647.0),
                c::v_cvt_i32_f64(x),
                "{x:#x}"
            );
            assert_eq!(
                truncated(x, 0.0, 4_294_967_295.0),
                c::v_cvt_u32_f64(x),
                "{x:#x}"
            );
        }
        assert_eq!(widened(0xff80_0001), half::f32_to_f64(0xff80_0001));
    }
}
