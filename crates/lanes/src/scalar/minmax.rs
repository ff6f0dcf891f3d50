//! Minimum, maximum and median.
//! In every float form -0 is less than +0. NaN rules differ by generation, see each function.

/// NaN rules of `v_min_*` and `v_max_*` on gfx9 to gfx11.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NanRules {
    /// MODE.IEEE: a signaling NaN operand is quieted and returned. Clear: a NaN loses to a number,
    /// quiet or not, and is returned as it is if both are NaNs.
    pub ieee: bool,
    /// Of two NaNs (quiet ones if `ieee`) the second is returned (CDNA3, CDNA4) rather than the
    /// first (RDNA3).
    pub second: bool,
}

macro_rules! float_minmax {
    ($t:ty, $i:ty, $nan:path, $snan:path, $quiet:path, $name:literal,
     $key:ident, $min:ident, $max:ident, $min_num:ident, $max_num:ident, $minimum:ident, $maximum:ident,
     $min3:ident, $max3:ident, $med3:ident, $minmax:ident, $maxmin:ident,
     $min3_num:ident, $max3_num:ident, $med3_num:ident, $minmax_num:ident, $maxmin_num:ident,
     $minimum3:ident, $maximum3:ident, $minimummaximum:ident, $maximumminimum:ident, $legacy:ident, $median:ident) => {
        /// Integer with the order of the number, -0 below +0.
        #[inline(always)]
        const fn $key(x: $t) -> $i {
            let s = x as $i;
            s ^ ((s >> (<$t>::BITS - 1)) as $t >> 1) as $i
        }

        #[inline(always)]
        const fn $legacy(a: $t, b: $t, picked: $t, rules: NanRules) -> $t {
            let (an, bn) = ($nan(a), $nan(b));
            let both = if rules.second { b } else { a };
            let r = if bn { a } else { picked };
            let r = if an { b } else { r };
            let r = if an && bn { both } else { r };
            let r = if rules.ieee && $snan(b) { $quiet(b) } else { r };
            if rules.ieee && $snan(a) { $quiet(a) } else { r }
        }

        #[doc = concat!("Smaller of two ", $name, " values; a number wins over a quiet NaN (gfx9 to gfx11).")]
        #[inline(always)]
        #[must_use]
        pub const fn $min(a: $t, b: $t, rules: NanRules) -> $t {
            $legacy(a, b, if $key(a) < $key(b) { a } else { b }, rules)
        }

        #[doc = concat!("Larger of two ", $name, " values; a number wins over a quiet NaN (gfx9 to gfx11).")]
        #[inline(always)]
        #[must_use]
        pub const fn $max(a: $t, b: $t, rules: NanRules) -> $t {
            $legacy(a, b, if $key(a) > $key(b) { a } else { b }, rules)
        }

        #[doc = concat!("IEEE minimumNumber of ", $name, ": a number wins over any NaN, two NaNs give the first, quieted (gfx12).")]
        #[inline(always)]
        #[must_use]
        pub const fn $min_num(a: $t, b: $t) -> $t {
            let r = if $key(a) < $key(b) { a } else { b };
            let r = if $nan(b) { a } else { r };
            let r = if $nan(a) { b } else { r };
            if $nan(a) && $nan(b) { $quiet(a) } else { r }
        }

        #[doc = concat!("IEEE maximumNumber of ", $name, ": a number wins over any NaN, two NaNs give the first, quieted (gfx12).")]
        #[inline(always)]
        #[must_use]
        pub const fn $max_num(a: $t, b: $t) -> $t {
            let r = if $key(a) > $key(b) { a } else { b };
            let r = if $nan(b) { a } else { r };
            let r = if $nan(a) { b } else { r };
            if $nan(a) && $nan(b) { $quiet(a) } else { r }
        }

        #[doc = concat!("IEEE minimum of ", $name, ": any NaN gives a quiet NaN, signaling before quiet, first before second.")]
        #[inline(always)]
        #[must_use]
        pub const fn $minimum(a: $t, b: $t) -> $t {
            let r = if $key(a) < $key(b) { a } else { b };
            let r = if $nan(b) { $quiet(b) } else { r };
            let r = if $nan(a) { $quiet(a) } else { r };
            if $snan(b) && !$snan(a) { $quiet(b) } else { r }
        }

        #[doc = concat!("IEEE maximum of ", $name, ": any NaN gives a quiet NaN, signaling before quiet, first before second.")]
        #[inline(always)]
        #[must_use]
        pub const fn $maximum(a: $t, b: $t) -> $t {
            let r = if $key(a) > $key(b) { a } else { b };
            let r = if $nan(b) { $quiet(b) } else { r };
            let r = if $nan(a) { $quiet(a) } else { r };
            if $snan(b) && !$snan(a) { $quiet(b) } else { r }
        }

        #[doc = concat!("Smallest of three ", $name, " values: min of (min of a, b) and c.")]
        #[inline(always)]
        #[must_use]
        pub const fn $min3(a: $t, b: $t, c: $t, rules: NanRules) -> $t {
            $min($min(a, b, rules), c, rules)
        }

        #[doc = concat!("Largest of three ", $name, " values: max of (max of a, b) and c.")]
        #[inline(always)]
        #[must_use]
        pub const fn $max3(a: $t, b: $t, c: $t, rules: NanRules) -> $t {
            $max($max(a, b, rules), c, rules)
        }

        /// Median of three values that are not NaN: the larger of the two that remain when the first
        /// operand equal to the largest is taken away (zeros of either sign are equal).
        #[inline(always)]
        const fn $median(a: $t, b: $t, c: $t) -> $t {
            let (ka, kb, kc) = ($key(a), $key(b), $key(c));
            let ab = if ka > kb { ka } else { kb };
            let bc = if kb > kc { kb } else { kc };
            let ac = if ka > kc { ka } else { kc };
            let top = if ab > kc { ab } else { kc };
            // -0 has the key -1.
            let (za, zb, zt) = (ka + (ka == -1) as $i, kb + (kb == -1) as $i, top + (top == -1) as $i);
            let r = if zt == zb { ac } else { ab };
            let r = if zt == za { bc } else { r };
            $key(r as $t) as $t
        }

        #[doc = concat!("Median of three ", $name, " values; with a NaN among them, min3.")]
        #[inline(always)]
        #[must_use]
        pub const fn $med3(a: $t, b: $t, c: $t, rules: NanRules) -> $t {
            let any = $nan(a) | $nan(b) | $nan(c);
            if any { $min3(a, b, c, rules) } else { $median(a, b, c) }
        }

        #[doc = concat!("max of (min of a, b) and c, ", $name, ".")]
        #[inline(always)]
        #[must_use]
        pub const fn $minmax(a: $t, b: $t, c: $t, rules: NanRules) -> $t {
            $max($min(a, b, rules), c, rules)
        }

        #[doc = concat!("min of (max of a, b) and c, ", $name, ".")]
        #[inline(always)]
        #[must_use]
        pub const fn $maxmin(a: $t, b: $t, c: $t, rules: NanRules) -> $t {
            $min($max(a, b, rules), c, rules)
        }

        #[doc = concat!("minimumNumber of three ", $name, " values.")]
        #[inline(always)]
        #[must_use]
        pub const fn $min3_num(a: $t, b: $t, c: $t) -> $t {
            $min_num($min_num(a, b), c)
        }

        #[doc = concat!("maximumNumber of three ", $name, " values.")]
        #[inline(always)]
        #[must_use]
        pub const fn $max3_num(a: $t, b: $t, c: $t) -> $t {
            $max_num($max_num(a, b), c)
        }

        #[doc = concat!("Median of three ", $name, " values; with a NaN among them, min3_num.")]
        #[inline(always)]
        #[must_use]
        pub const fn $med3_num(a: $t, b: $t, c: $t) -> $t {
            let any = $nan(a) | $nan(b) | $nan(c);
            if any { $min3_num(a, b, c) } else { $median(a, b, c) }
        }

        #[doc = concat!("max_num of (min_num of a, b) and c, ", $name, ".")]
        #[inline(always)]
        #[must_use]
        pub const fn $minmax_num(a: $t, b: $t, c: $t) -> $t {
            $max_num($min_num(a, b), c)
        }

        #[doc = concat!("min_num of (max_num of a, b) and c, ", $name, ".")]
        #[inline(always)]
        #[must_use]
        pub const fn $maxmin_num(a: $t, b: $t, c: $t) -> $t {
            $min_num($max_num(a, b), c)
        }

        #[doc = concat!("minimum of three ", $name, " values.")]
        #[inline(always)]
        #[must_use]
        pub const fn $minimum3(a: $t, b: $t, c: $t) -> $t {
            $minimum($minimum(a, b), c)
        }

        #[doc = concat!("maximum of three ", $name, " values.")]
        #[inline(always)]
        #[must_use]
        pub const fn $maximum3(a: $t, b: $t, c: $t) -> $t {
            $maximum($maximum(a, b), c)
        }

        #[doc = concat!("maximum of (minimum of a, b) and c, ", $name, ".")]
        #[inline(always)]
        #[must_use]
        pub const fn $minimummaximum(a: $t, b: $t, c: $t) -> $t {
            $maximum($minimum(a, b), c)
        }

        #[doc = concat!("minimum of (maximum of a, b) and c, ", $name, ".")]
        #[inline(always)]
        #[must_use]
        pub const fn $maximumminimum(a: $t, b: $t, c: $t) -> $t {
            $minimum($maximum(a, b), c)
        }
    };
}

use crate::fp::nan;

float_minmax!(
    u16,
    i16,
    nan::is_nan16,
    nan::is_snan16,
    nan::quiet16,
    "f16",
    key16,
    v_min_f16,
    v_max_f16,
    v_min_num_f16,
    v_max_num_f16,
    v_minimum_f16,
    v_maximum_f16,
    v_min3_f16,
    v_max3_f16,
    v_med3_f16,
    v_minmax_f16,
    v_maxmin_f16,
    v_min3_num_f16,
    v_max3_num_f16,
    v_med3_num_f16,
    v_minmax_num_f16,
    v_maxmin_num_f16,
    v_minimum3_f16,
    v_maximum3_f16,
    v_minimummaximum_f16,
    v_maximumminimum_f16,
    legacy16,
    median16
);
float_minmax!(
    u16,
    i16,
    nan::is_nan_bf16,
    nan::is_snan_bf16,
    nan::quiet_bf16,
    "bf16",
    key_bf16,
    v_min_bf16,
    v_max_bf16,
    v_min_num_bf16,
    v_max_num_bf16,
    v_minimum_bf16,
    v_maximum_bf16,
    v_min3_bf16,
    v_max3_bf16,
    v_med3_bf16,
    v_minmax_bf16,
    v_maxmin_bf16,
    v_min3_num_bf16,
    v_max3_num_bf16,
    v_med3_num_bf16,
    v_minmax_num_bf16,
    v_maxmin_num_bf16,
    v_minimum3_bf16,
    v_maximum3_bf16,
    v_minimummaximum_bf16,
    v_maximumminimum_bf16,
    legacy_bf16,
    median_bf16
);
float_minmax!(
    u32,
    i32,
    nan::is_nan32,
    nan::is_snan32,
    nan::quiet32,
    "f32",
    key32,
    v_min_f32,
    v_max_f32,
    v_min_num_f32,
    v_max_num_f32,
    v_minimum_f32,
    v_maximum_f32,
    v_min3_f32,
    v_max3_f32,
    v_med3_f32,
    v_minmax_f32,
    v_maxmin_f32,
    v_min3_num_f32,
    v_max3_num_f32,
    v_med3_num_f32,
    v_minmax_num_f32,
    v_maxmin_num_f32,
    v_minimum3_f32,
    v_maximum3_f32,
    v_minimummaximum_f32,
    v_maximumminimum_f32,
    legacy32,
    median32
);
float_minmax!(
    u64,
    i64,
    nan::is_nan64,
    nan::is_snan64,
    nan::quiet64,
    "f64",
    key64,
    v_min_f64,
    v_max_f64,
    v_min_num_f64,
    v_max_num_f64,
    v_minimum_f64,
    v_maximum_f64,
    v_min3_f64,
    v_max3_f64,
    v_med3_f64,
    v_minmax_f64,
    v_maxmin_f64,
    v_min3_num_f64,
    v_max3_num_f64,
    v_med3_num_f64,
    v_minmax_num_f64,
    v_maxmin_num_f64,
    v_minimum3_f64,
    v_maximum3_f64,
    v_minimummaximum_f64,
    v_maximumminimum_f64,
    legacy64,
    median64
);

macro_rules! integer_minmax {
    ($t:ty, $v:ty, $name:literal, $min:ident, $max:ident, $min3:ident, $max3:ident, $med3:ident, $minmax:ident,
     $maxmin:ident) => {
        #[doc = concat!("Smaller of two ", $name, " values.")]
        #[inline(always)]
        #[must_use]
        pub const fn $min(a: $t, b: $t) -> $t {
            if (a as $v) < (b as $v) { a } else { b }
        }

        #[doc = concat!("Larger of two ", $name, " values.")]
        #[inline(always)]
        #[must_use]
        pub const fn $max(a: $t, b: $t) -> $t {
            if (a as $v) >= (b as $v) { a } else { b }
        }

        #[doc = concat!("Smallest of three ", $name, " values.")]
        #[inline(always)]
        #[must_use]
        pub const fn $min3(a: $t, b: $t, c: $t) -> $t {
            $min($min(a, b), c)
        }

        #[doc = concat!("Largest of three ", $name, " values.")]
        #[inline(always)]
        #[must_use]
        pub const fn $max3(a: $t, b: $t, c: $t) -> $t {
            $max($max(a, b), c)
        }

        #[doc = concat!("Median of three ", $name, " values.")]
        #[inline(always)]
        #[must_use]
        pub const fn $med3(a: $t, b: $t, c: $t) -> $t {
            $max($min(a, b), $min($max(a, b), c))
        }

        #[doc = concat!("max of (min of a, b) and c, ", $name, ".")]
        #[inline(always)]
        #[must_use]
        pub const fn $minmax(a: $t, b: $t, c: $t) -> $t {
            $max($min(a, b), c)
        }

        #[doc = concat!("min of (max of a, b) and c, ", $name, ".")]
        #[inline(always)]
        #[must_use]
        pub const fn $maxmin(a: $t, b: $t, c: $t) -> $t {
            $min($max(a, b), c)
        }
    };
}

integer_minmax!(
    u16,
    i16,
    "i16",
    v_min_i16,
    v_max_i16,
    v_min3_i16,
    v_max3_i16,
    v_med3_i16,
    v_minmax_i16,
    v_maxmin_i16
);
integer_minmax!(
    u16,
    u16,
    "u16",
    v_min_u16,
    v_max_u16,
    v_min3_u16,
    v_max3_u16,
    v_med3_u16,
    v_minmax_u16,
    v_maxmin_u16
);
integer_minmax!(
    u32,
    i32,
    "i32",
    v_min_i32,
    v_max_i32,
    v_min3_i32,
    v_max3_i32,
    v_med3_i32,
    v_minmax_i32,
    v_maxmin_i32
);
integer_minmax!(
    u32,
    u32,
    "u32",
    v_min_u32,
    v_max_u32,
    v_min3_u32,
    v_max3_u32,
    v_med3_u32,
    v_minmax_u32,
    v_maxmin_u32
);
integer_minmax!(
    u64,
    i64,
    "i64",
    v_min_i64,
    v_max_i64,
    v_min3_i64,
    v_max3_i64,
    v_med3_i64,
    v_minmax_i64,
    v_maxmin_i64
);
integer_minmax!(
    u64,
    u64,
    "u64",
    v_min_u64,
    v_max_u64,
    v_min3_u64,
    v_max3_u64,
    v_med3_u64,
    v_minmax_u64,
    v_maxmin_u64
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    const RDNA3: NanRules = NanRules {
        ieee: true,
        second: false,
    };
    const CDNA: NanRules = NanRules {
        ieee: true,
        second: true,
    };
    const DX: NanRules = NanRules {
        ieee: false,
        second: false,
    };
    const ONE: u32 = 0x3f80_0000;
    const QNAN: u32 = 0x7fc0_0001;
    const SNAN: u32 = 0x7f80_0002;

    #[test]
    fn nan_rules() {
        assert_eq!(v_max_f32(QNAN, ONE, RDNA3), ONE);
        assert_eq!(v_min_f32(ONE, QNAN, RDNA3), ONE);
        assert_eq!(v_min_f32(ONE, SNAN, RDNA3), SNAN | 0x40_0000);
        assert_eq!(v_min_f32(ONE, SNAN, DX), ONE);
        assert_eq!(v_max_f32(SNAN, QNAN, DX), SNAN);
        assert_eq!(v_max_f32(QNAN, QNAN + 1, RDNA3), QNAN);
        assert_eq!(v_max_f32(QNAN, QNAN + 1, CDNA), QNAN + 1);
        assert_eq!(v_max_num_f32(SNAN, ONE), ONE);
        assert_eq!(v_min_num_f32(SNAN, QNAN), SNAN | 0x40_0000);
        assert_eq!(v_maximum_f32(QNAN, SNAN), SNAN | 0x40_0000);
        assert_eq!(v_minimum_f32(ONE, QNAN), QNAN);
        assert_eq!(v_minimum_f32(QNAN, QNAN + 4), QNAN);
        // RDNA3 silicon: med3(NaN, 1, 2) = 1.
        assert_eq!(v_med3_f32(0x7fc0_0000, ONE, 0x4000_0000, RDNA3), ONE);
    }

    #[test]
    fn numbers_follow_the_order_with_minus_zero_first() {
        let mut random = Random(21);
        for _ in 0..100_000 {
            let (a, b, c) = (random.f32(), random.f32(), random.f32());
            let (x, y, z) = (f32::from_bits(a), f32::from_bits(b), f32::from_bits(c));
            if x.is_nan() || y.is_nan() || z.is_nan() {
                continue;
            }
            let mut sorted = [x, y, z];
            sorted.sort_by(f32::total_cmp);
            assert_eq!(v_min3_f32(a, b, c, RDNA3), sorted[0].to_bits());
            assert_eq!(v_max3_num_f32(a, b, c), sorted[2].to_bits());
            assert_eq!(f32::from_bits(v_med3_f32(a, b, c, RDNA3)), sorted[1]);
            assert_eq!(f32::from_bits(v_med3_num_f32(a, b, c)), sorted[1]);
            assert_eq!(
                v_min_f64(u64::from(a) << 32, u64::from(b) << 32, CDNA) >> 32 == u64::from(a),
                x.total_cmp(&y).is_le()
            );
        }
        assert_eq!(v_max_f16(0x8000, 0, RDNA3), 0);
        assert_eq!(v_min_f16(0, 0x8000, RDNA3), 0x8000);
    }

    #[test]
    fn integers() {
        assert_eq!(v_med3_i32(5u32.wrapping_neg(), 0, 10), 0);
        assert_eq!(v_med3_u32(u32::MAX, 0x8000_0000, 0), 0x8000_0000);
        assert_eq!(v_min_i16(0x8000, 1), 0x8000);
        assert_eq!(v_max_u16(0x8000, 1), 0x8000);
        assert_eq!(v_maxmin_i32(1, 5, 3), 3);
        assert_eq!(v_min_u64(1, u64::MAX), 1);
    }
}
