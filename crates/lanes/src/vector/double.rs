//! Conversions between f64 and other types in forms that vectorise.

/// f64 of f32 bits; NaNs become quiet and keep sign and payload.
#[inline(always)]
pub fn widened(x: u32) -> u64 {
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
pub fn narrowed(x: u64) -> u32 {
    let value = f64::from_bits(x);
    let nan = (x >> 32) as u32 & 0x8000_0000 | 0x7fc0_0000 | (x >> 29) as u32 & 0x003f_ffff;
    if value.is_nan() {
        nan
    } else {
        (value as f32).to_bits()
    }
}

/// f64 truncated to an integer between two bounds; NaN is zero.
#[inline(always)]
pub fn truncated(x: u64, low: f64, high: f64) -> u32 {
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
    use crate::fp::{Mode, half};
    use crate::scalar::convert as c;

    /// To nearest even, subnormals kept.
    const PLAIN: Mode = Mode::from_bits(0x3f0);

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
