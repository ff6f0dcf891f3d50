//! Float comparisons and class tests.
//! The results are the per-lane condition bits of `v_cmp_*`; integer comparisons need no help.

macro_rules! compares {
    ($t:ty, $name:literal, $less:expr, $equal:expr, $nan:path,
     $f:ident, $lt:ident, $eq:ident, $le:ident, $gt:ident, $lg:ident, $ge:ident, $o:ident, $u:ident, $nge:ident,
     $nlg:ident, $ngt:ident, $nle:ident, $neq:ident, $nlt:ident, $tru:ident) => {
        compares!(@one $t, $f, "never", $name, |_a: $t, _b: $t| false);
        compares!(@one $t, $lt, "a < b", $name, |a: $t, b: $t| $less(a, b));
        compares!(@one $t, $eq, "a == b", $name, |a: $t, b: $t| $equal(a, b));
        compares!(@one $t, $le, "a <= b", $name, |a: $t, b: $t| $less(a, b) | $equal(a, b));
        compares!(@one $t, $gt, "a > b", $name, |a: $t, b: $t| $less(b, a));
        compares!(@one $t, $lg, "a < b or a > b", $name, |a: $t, b: $t| $less(a, b) | $less(b, a));
        compares!(@one $t, $ge, "a >= b", $name, |a: $t, b: $t| $less(b, a) | $equal(a, b));
        compares!(@one $t, $o, "neither is a NaN", $name, |a: $t, b: $t| !($nan(a) | $nan(b)));
        compares!(@one $t, $u, "either is a NaN", $name, |a: $t, b: $t| $nan(a) | $nan(b));
        compares!(@one $t, $nge, "not a >= b", $name, |a: $t, b: $t| !($less(b, a) | $equal(a, b)));
        compares!(@one $t, $nlg, "not (a < b or a > b)", $name, |a: $t, b: $t| !($less(a, b) | $less(b, a)));
        compares!(@one $t, $ngt, "not a > b", $name, |a: $t, b: $t| !$less(b, a));
        compares!(@one $t, $nle, "not a <= b", $name, |a: $t, b: $t| !($less(a, b) | $equal(a, b)));
        compares!(@one $t, $neq, "not a == b", $name, |a: $t, b: $t| !$equal(a, b));
        compares!(@one $t, $nlt, "not a < b", $name, |a: $t, b: $t| !$less(a, b));
        compares!(@one $t, $tru, "always", $name, |_a: $t, _b: $t| true);
    };
    (@one $t:ty, $fn:ident, $what:literal, $name:literal, $test:expr) => {
        #[doc = concat!("True if ", $what, " (", $name, "). Flush denormal operands first where MODE says so.")]
        #[inline(always)]
        #[must_use]
        pub fn $fn(a: $t, b: $t) -> bool {
            ($test)(a, b)
        }
    };
}

use crate::fp::half::f16_to_f32;
use crate::fp::nan;

compares!(
    u32,
    "f32",
    |a, b| f32::from_bits(a) < f32::from_bits(b),
    |a, b| f32::from_bits(a) == f32::from_bits(b),
    nan::is_nan32,
    v_cmp_f_f32,
    v_cmp_lt_f32,
    v_cmp_eq_f32,
    v_cmp_le_f32,
    v_cmp_gt_f32,
    v_cmp_lg_f32,
    v_cmp_ge_f32,
    v_cmp_o_f32,
    v_cmp_u_f32,
    v_cmp_nge_f32,
    v_cmp_nlg_f32,
    v_cmp_ngt_f32,
    v_cmp_nle_f32,
    v_cmp_neq_f32,
    v_cmp_nlt_f32,
    v_cmp_t_f32
);
compares!(
    u64,
    "f64",
    |a, b| f64::from_bits(a) < f64::from_bits(b),
    |a, b| f64::from_bits(a) == f64::from_bits(b),
    nan::is_nan64,
    v_cmp_f_f64,
    v_cmp_lt_f64,
    v_cmp_eq_f64,
    v_cmp_le_f64,
    v_cmp_gt_f64,
    v_cmp_lg_f64,
    v_cmp_ge_f64,
    v_cmp_o_f64,
    v_cmp_u_f64,
    v_cmp_nge_f64,
    v_cmp_nlg_f64,
    v_cmp_ngt_f64,
    v_cmp_nle_f64,
    v_cmp_neq_f64,
    v_cmp_nlt_f64,
    v_cmp_t_f64
);
compares!(
    u16,
    "f16",
    |a, b| f16_to_f32(a) < f16_to_f32(b),
    |a, b| f16_to_f32(a) == f16_to_f32(b),
    nan::is_nan16,
    v_cmp_f_f16,
    v_cmp_lt_f16,
    v_cmp_eq_f16,
    v_cmp_le_f16,
    v_cmp_gt_f16,
    v_cmp_lg_f16,
    v_cmp_ge_f16,
    v_cmp_o_f16,
    v_cmp_u_f16,
    v_cmp_nge_f16,
    v_cmp_nlg_f16,
    v_cmp_ngt_f16,
    v_cmp_nle_f16,
    v_cmp_neq_f16,
    v_cmp_nlt_f16,
    v_cmp_t_f16
);

macro_rules! class {
    ($fn:ident, $t:ty, $exp_bits:expr, $man_bits:expr, $name:literal) => {
        #[doc = concat!("True if the class of the ", $name, " value `x` is selected in `mask`.")]
        ///
        /// Mask bits: 0 signaling NaN, 1 quiet NaN, 2 -infinity, 3 -normal, 4 -denormal, 5 -0, 6 +0,
        /// 7 +denormal, 8 +normal, 9 +infinity. Denormals are not flushed before the test.
        #[inline(always)]
        #[must_use]
        pub const fn $fn(x: $t, mask: u32) -> bool {
            let abs = x & (<$t>::MAX >> 1);
            let negative = x >> (<$t>::BITS - 1) != 0;
            let infinity: $t = ((1 << $exp_bits) - 1) << $man_bits;
            let exp = abs >> $man_bits;
            let side = if exp == 0 {
                if negative { 4 } else { 7 }
            } else if negative {
                3
            } else {
                8
            };
            let side = if abs == 0 {
                if negative { 5 } else { 6 }
            } else {
                side
            };
            let side = if abs == infinity {
                if negative { 2 } else { 9 }
            } else {
                side
            };
            let nan = (abs >> ($man_bits - 1) & 1) as u32;
            let bit = if abs > infinity { nan } else { side };
            mask >> bit & 1 != 0
        }
    };
}

class!(v_cmp_class_f16, u16, 5, 10, "f16");
class!(v_cmp_class_f32, u32, 8, 23, "f32");
class!(v_cmp_class_f64, u64, 11, 52, "f64");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_bits() {
        let samples32: [u32; 10] = [
            0x7f80_0001,
            0xffc0_0000,
            0xff80_0000,
            0xbf80_0000,
            0x8000_0001,
            0x8000_0000,
            0,
            0x007f_ffff,
            0x0080_0000,
            0x7f80_0000,
        ];
        let samples16: [u16; 10] = [
            0x7c01, 0xfe00, 0xfc00, 0xbc00, 0x8001, 0x8000, 0, 0x03ff, 0x0400, 0x7c00,
        ];
        for bit in 0..10 {
            for other in 0..10 {
                assert_eq!(v_cmp_class_f32(samples32[bit], 1 << other), bit == other);
                assert_eq!(v_cmp_class_f16(samples16[bit], 1 << other), bit == other);
            }
        }
        assert!(v_cmp_class_f64(0x7ff0_0000_0000_0001, 1));
        assert!(v_cmp_class_f64(0x7ff8_0000_0000_0000, 2));
        assert!(v_cmp_class_f64(0x000f_ffff_ffff_ffff, 0x80));
    }

    #[test]
    fn nan_compares_unordered() {
        let (nan, one) = (0x7fc0_0000, 0x3f80_0000);
        assert!(!v_cmp_lg_f32(nan, one) && v_cmp_neq_f32(nan, one) && v_cmp_nlt_f32(nan, one));
        assert!(
            !v_cmp_ge_f32(nan, 0)
                && v_cmp_u_f32(one, nan)
                && !v_cmp_o_f32(one, nan)
                && v_cmp_nlg_f32(nan, one)
        );
        assert!(
            v_cmp_eq_f32(0x8000_0000, 0)
                && v_cmp_le_f16(0x3c00, 0x3c00)
                && v_cmp_gt_f16(0x4000, 0x3c00)
        );
        assert!(
            v_cmp_nge_f64(1f64.to_bits(), 2f64.to_bits())
                && v_cmp_t_f64(0, 0)
                && !v_cmp_f_f16(0, 0)
        );
    }
}
