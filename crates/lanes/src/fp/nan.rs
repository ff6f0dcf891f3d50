//! NaN classification and propagation.
//!
//! Rules (RDNA4 manual 13.3, CDNA4 manual 9.2.3, RDNA3 manual 13.3, "Float Add rules"): if src0 is a
//! NaN the result is src0 made quiet, else if src1 is one the result is src1 made quiet (sign and
//! payload kept), else an invalid operation gives -QNaN (f32 0xffc00000). The manuals state this for
//! add; it is applied here to every arithmetic operation, in the order src0, src1, src2.

/// Result of an invalid f16 operation.
pub const DEFAULT_NAN16: u16 = 0xfe00;
/// Result of an invalid bf16 operation.
pub const DEFAULT_NAN_BF16: u16 = 0xffc0;
/// Result of an invalid f32 operation.
pub const DEFAULT_NAN32: u32 = 0xffc0_0000;
/// Result of an invalid f64 operation.
pub const DEFAULT_NAN64: u64 = 0xfff8_0000_0000_0000;

macro_rules! nan_functions {
    ($t:ty, $is_nan:ident, $is_snan:ident, $quiet:ident, $nan1:ident, $nan2:ident, $nan3:ident,
     $inf:expr, $quiet_bit:expr, $default:expr, $name:literal) => {
        #[doc = concat!("True if the ", $name, " bits `x` are a NaN.")]
        #[inline(always)]
        #[must_use]
        pub const fn $is_nan(x: $t) -> bool {
            (x & (<$t>::MAX >> 1)) > $inf
        }

        #[doc = concat!("True if the ", $name, " bits `x` are a signaling NaN.")]
        #[inline(always)]
        #[must_use]
        pub const fn $is_snan(x: $t) -> bool {
            $is_nan(x) && x & $quiet_bit == 0
        }

        #[doc = concat!("`x` (", $name, " bits) with a signaling NaN made quiet.")]
        #[inline(always)]
        #[must_use]
        pub const fn $quiet(x: $t) -> $t {
            if $is_nan(x) { x | $quiet_bit } else { x }
        }

        #[doc = concat!("`r`, or where `r` is a NaN the ", $name, " NaN that an operation on `a` returns.")]
        #[inline(always)]
        #[must_use]
        pub const fn $nan1(a: $t, r: $t) -> $t {
            let n = if $is_nan(a) { a | $quiet_bit } else { $default };
            if $is_nan(r) { n } else { r }
        }

        #[doc = concat!("`r`, or where `r` is a NaN the ", $name, " NaN that an operation on `a`, `b` returns.")]
        #[inline(always)]
        #[must_use]
        pub const fn $nan2(a: $t, b: $t, r: $t) -> $t {
            let n = if $is_nan(b) { b | $quiet_bit } else { $default };
            let n = if $is_nan(a) { a | $quiet_bit } else { n };
            if $is_nan(r) { n } else { r }
        }

        #[doc = concat!("`r`, or where `r` is a NaN the ", $name, " NaN that an operation on `a`, `b`, `c` returns.")]
        #[inline(always)]
        #[must_use]
        pub const fn $nan3(a: $t, b: $t, c: $t, r: $t) -> $t {
            let n = if $is_nan(c) { c | $quiet_bit } else { $default };
            let n = if $is_nan(b) { b | $quiet_bit } else { n };
            let n = if $is_nan(a) { a | $quiet_bit } else { n };
            if $is_nan(r) { n } else { r }
        }
    };
}

nan_functions!(
    u16,
    is_nan16,
    is_snan16,
    quiet16,
    nan1_16,
    nan2_16,
    nan3_16,
    0x7c00,
    0x0200,
    DEFAULT_NAN16,
    "f16"
);
nan_functions!(
    u16,
    is_nan_bf16,
    is_snan_bf16,
    quiet_bf16,
    nan1_bf16,
    nan2_bf16,
    nan3_bf16,
    0x7f80,
    0x0040,
    DEFAULT_NAN_BF16,
    "bf16"
);
nan_functions!(
    u32,
    is_nan32,
    is_snan32,
    quiet32,
    nan1_32,
    nan2_32,
    nan3_32,
    0x7f80_0000,
    0x0040_0000,
    DEFAULT_NAN32,
    "f32"
);
nan_functions!(
    u64,
    is_nan64,
    is_snan64,
    quiet64,
    nan1_64,
    nan2_64,
    nan3_64,
    0x7ff0_0000_0000_0000,
    0x0008_0000_0000_0000,
    DEFAULT_NAN64,
    "f64"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_nan_wins_and_is_quieted() {
        let nan = DEFAULT_NAN32;
        assert_eq!(nan2_32(0x7f80_0001, 0xffff_ffff, nan), 0x7fc0_0001);
        assert_eq!(nan2_32(0x3f80_0000, 0xff80_0005, nan), 0xffc0_0005);
        assert_eq!(
            nan2_32(0x7f80_0000, 0xff80_0000, 0x7fc0_0000),
            DEFAULT_NAN32
        );
        assert_eq!(nan3_32(0, 1, 0x7f80_0001, 0x7fff_ffff), 0x7fc0_0001);
        assert_eq!(nan2_32(1, 2, 3), 3);
        assert!(is_snan16(0x7c01) && !is_snan16(0x7e00) && is_nan16(0xfe00) && !is_nan16(0xfc00));
        assert_eq!(quiet64(0x7ff0_0000_0000_0001), 0x7ff8_0000_0000_0001);
    }
}
