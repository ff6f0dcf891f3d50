//! Operations on 16 lanes at once: the trait and its implementations.
//! Instruction semantics are written against [`Lanes`] and instantiated for every back end.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod double;
mod nan;
mod scalar;

#[cfg(target_arch = "x86_64")]
pub use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub use avx512::Avx512;
pub use scalar::Scalar;

use crate::scalar::transcendental as elementary;

/// Lanes in one vector of a back end. A wave of 64 is four of them, a wave of 32 two.
pub const WIDTH: usize = 16;

/// Directions of [`Lanes::round_f32`], numbered as x86 does.
pub mod round {
    /// To the nearest integer, halves to even.
    pub const NEAREST: i32 = 0;
    /// Down.
    pub const DOWN: i32 = 1;
    /// Up.
    pub const UP: i32 = 2;
    /// Toward zero.
    pub const ZERO: i32 = 3;
}

/// Sixteen lanes of a back end: 32-bit values (`V`), 64-bit values (`W`) and conditions (`M`).
///
/// Float operations round to nearest even, keep subnormals, and return as NaN the first NaN operand
/// made quiet, or 0xffc00000 (0xfff8000000000000) when no operand is NaN: the same bits on every back end.
///
/// # Safety
/// The methods of `Avx2` and `Avx512` execute instructions of those sets. They are safe to call only
/// below a function compiled for these features on a host that has them; [`crate::kernel`] is the one
/// place that sees to it.
pub unsafe trait Lanes: Copy + 'static {
    /// 16 × 32 bits.
    type V: Copy;
    /// 16 × 64 bits.
    type W: Copy;
    /// 16 conditions.
    type M: Copy;

    /// Reads 16 words.
    ///
    /// # Safety
    /// `p` points to 16 readable words.
    unsafe fn load(p: *const u32) -> Self::V;
    /// Writes 16 words.
    ///
    /// # Safety
    /// `p` points to 16 writable words and is a multiple of 64.
    unsafe fn store(p: *mut u32, v: Self::V);
    /// The same word in every lane.
    fn splat(x: u32) -> Self::V;
    /// The lanes as an array, lane 0 first.
    fn to_array(v: Self::V) -> [u32; WIDTH];
    /// The lanes from an array, lane 0 first.
    fn from_array(a: [u32; WIDTH]) -> Self::V;
    /// The 64-bit lanes as an array.
    fn w_to_array(v: Self::W) -> [u64; WIDTH];
    /// The 64-bit lanes from an array.
    fn w_from_array(a: [u64; WIDTH]) -> Self::W;
    /// 64-bit lanes from their low and high words.
    fn join(lo: Self::V, hi: Self::V) -> Self::W;
    /// Low and high words of 64-bit lanes.
    fn split(w: Self::W) -> (Self::V, Self::V);

    /// Conditions from bits, lane 0 in bit 0.
    fn mask(bits: u16) -> Self::M;
    /// Bits from conditions.
    fn bits(m: Self::M) -> u16;
    /// Whether no lane holds, as far as that can be told: where it cannot, the answer is no, and what is then
    /// computed must be right whichever lanes hold.
    #[inline(always)]
    fn none(m: Self::M) -> bool {
        Self::bits(m) == 0
    }
    /// Whether all lanes hold, as far as that can be told.
    #[inline(always)]
    fn all(m: Self::M) -> bool {
        Self::bits(m) == u16::MAX
    }
    /// Group `chunk` of a mask operand.
    #[inline(always)]
    fn mask_operand(mask: u64, chunk: usize) -> Self::M {
        Self::mask((mask >> (chunk * WIDTH)) as u16)
    }
    /// Adds group `chunk` of a mask result, in the lanes of `exec`.
    #[inline(always)]
    fn mask_result(mask: &mut u64, exec: u64, chunk: usize, m: Self::M) {
        *mask |= u64::from(Self::bits(m)) << (chunk * WIDTH) & exec;
    }
    /// `m ? a : b`.
    fn select(m: Self::M, a: Self::V, b: Self::V) -> Self::V;
    /// `m ? a : b`.
    fn w_select(m: Self::M, a: Self::W, b: Self::W) -> Self::W;
    /// Both conditions.
    fn m_and(a: Self::M, b: Self::M) -> Self::M;
    /// Either condition.
    fn m_or(a: Self::M, b: Self::M) -> Self::M;
    /// The opposite condition.
    fn m_not(a: Self::M) -> Self::M;

    /// Wrapping sum.
    fn add(a: Self::V, b: Self::V) -> Self::V;
    /// Wrapping difference.
    fn sub(a: Self::V, b: Self::V) -> Self::V;
    /// Low 32 bits of the product.
    fn mul(a: Self::V, b: Self::V) -> Self::V;
    /// Bitwise and.
    fn and(a: Self::V, b: Self::V) -> Self::V;
    /// Bitwise or.
    fn or(a: Self::V, b: Self::V) -> Self::V;
    /// Bitwise exclusive or.
    fn xor(a: Self::V, b: Self::V) -> Self::V;
    /// `a << (n & 31)`.
    fn shl(a: Self::V, n: Self::V) -> Self::V;
    /// `a >> (n & 31)`, zeros shifted in.
    fn shr(a: Self::V, n: Self::V) -> Self::V;
    /// `a >> (n & 31)`, sign bits shifted in.
    fn sar(a: Self::V, n: Self::V) -> Self::V;
    /// Signed minimum.
    fn min_i(a: Self::V, b: Self::V) -> Self::V;
    /// Signed maximum.
    fn max_i(a: Self::V, b: Self::V) -> Self::V;
    /// Unsigned minimum.
    fn min_u(a: Self::V, b: Self::V) -> Self::V;
    /// Unsigned maximum.
    fn max_u(a: Self::V, b: Self::V) -> Self::V;
    /// `a == b`.
    fn eq(a: Self::V, b: Self::V) -> Self::M;
    /// Signed `a < b`.
    fn lt_i(a: Self::V, b: Self::V) -> Self::M;
    /// Unsigned `a < b`.
    fn lt_u(a: Self::V, b: Self::V) -> Self::M;

    /// High 32 bits of the unsigned product.
    #[inline(always)]
    fn mul_hi_u(a: Self::V, b: Self::V) -> Self::V {
        Self::map2(a, b, |a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32)
    }
    /// High 32 bits of the signed product.
    #[inline(always)]
    fn mul_hi_i(a: Self::V, b: Self::V) -> Self::V {
        Self::map2(a, b, |a, b| {
            ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32
        })
    }
    /// Chooses each byte of the result by a byte of `sel`: 0–3 bytes of `b`, 4–7 bytes of `a`, 8–11 the sign of
    /// byte 1, 3, 5 or 7 of these eight in all bits, 12 zero, greater ones 0xff (manuals, V_PERM_B32).
    #[inline(always)]
    fn perm_bytes(a: Self::V, b: Self::V, sel: Self::V) -> Self::V {
        Self::map3(a, b, sel, |a, b, sel| {
            let table = u64::from(a) << 32 | u64::from(b);
            let byte = |s: u32| match s {
                0..=7 => (table >> (8 * s)) as u8,
                8..=11 => ((table >> (16 * (s - 8) + 8)) as i8 >> 7) as u8,
                12 => 0,
                _ => 0xff,
            };
            u32::from_le_bytes(sel.to_le_bytes().map(|s| byte(u32::from(s))))
        })
    }

    /// f32 sum.
    fn add_f32(a: Self::V, b: Self::V) -> Self::V;
    /// f32 difference.
    fn sub_f32(a: Self::V, b: Self::V) -> Self::V;
    /// f32 product.
    fn mul_f32(a: Self::V, b: Self::V) -> Self::V;
    /// f32 `a * b + c`, rounded once.
    fn fma_f32(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// f32 `a == b`; false for NaN.
    fn eq_f32(a: Self::V, b: Self::V) -> Self::M;
    /// f32 `a < b`; false for NaN.
    fn lt_f32(a: Self::V, b: Self::V) -> Self::M;
    /// f32 `a <= b`; false for NaN.
    fn le_f32(a: Self::V, b: Self::V) -> Self::M;
    /// Whether either f32 is NaN.
    fn unordered_f32(a: Self::V, b: Self::V) -> Self::M;
    /// f32 of a signed integer, to nearest even.
    fn f32_from_i32(a: Self::V) -> Self::V;
    /// f32 of an unsigned integer, to nearest even.
    fn f32_from_u32(a: Self::V) -> Self::V;
    /// Signed integer of an f32: truncated, saturated, 0 for NaN.
    #[inline(always)]
    fn i32_from_f32(a: Self::V) -> Self::V {
        Self::map1(a, crate::scalar::convert::v_cvt_i32_f32)
    }
    /// Unsigned integer of an f32: truncated, saturated, 0 for NaN.
    #[inline(always)]
    fn u32_from_f32(a: Self::V) -> Self::V {
        Self::map1(a, crate::scalar::convert::v_cvt_u32_f32)
    }
    /// f32 times two to the power of a signed integer, rounded once; a signalling NaN becomes quiet.
    #[inline(always)]
    fn scale_f32(a: Self::V, e: Self::V) -> Self::V {
        let mode = crate::fp::Mode::from_bits(0x3f0);
        Self::map2(a, e, |a, e| {
            crate::scalar::rounding::v_ldexp_f32(a, e as i32, mode)
        })
    }
    /// f32 rounded to an integer ([`round`]); signs of zeros stay, a signalling NaN becomes quiet.
    #[inline(always)]
    fn round_f32<const TO: i32>(a: Self::V) -> Self::V {
        use crate::scalar::rounding as r;
        match TO {
            round::NEAREST => Self::map1(a, r::v_rndne_f32),
            round::DOWN => Self::map1(a, r::v_floor_f32),
            round::UP => Self::map1(a, r::v_ceil_f32),
            _ => Self::map1(a, r::v_trunc_f32),
        }
    }
    /// The numbers of the lanes of group `chunk`.
    #[inline(always)]
    fn lane_numbers(chunk: usize) -> Self::V {
        Self::from_array(std::array::from_fn(|lane| (chunk * WIDTH + lane) as u32))
    }
    /// Zero bits above the highest that is set; 32 for zero.
    #[inline(always)]
    fn leading_zeros(a: Self::V) -> Self::V {
        Self::map1(a, u32::leading_zeros)
    }
    /// Bits that are set.
    #[inline(always)]
    fn count_ones(a: Self::V) -> Self::V {
        Self::map1(a, u32::count_ones)
    }
    /// Bits in the opposite order.
    #[inline(always)]
    fn reverse_bits(a: Self::V) -> Self::V {
        Self::map1(a, u32::reverse_bits)
    }
    /// [`elementary::v_rcp_f32`].
    #[inline(always)]
    fn rcp_f32(a: Self::V) -> Self::V {
        Self::map1(a, elementary::v_rcp_f32)
    }
    /// [`elementary::v_sqrt_f32`].
    #[inline(always)]
    fn sqrt_f32(a: Self::V) -> Self::V {
        Self::map1(a, elementary::v_sqrt_f32)
    }
    /// [`elementary::v_rsq_f32`].
    #[inline(always)]
    fn rsq_f32(a: Self::V) -> Self::V {
        Self::map1(a, elementary::v_rsq_f32)
    }
    /// [`elementary::v_exp_f32`].
    #[inline(always)]
    fn exp_f32(a: Self::V) -> Self::V {
        Self::map1(a, elementary::v_exp_f32)
    }
    /// [`elementary::v_log_f32`].
    #[inline(always)]
    fn log_f32(a: Self::V) -> Self::V {
        Self::map1(a, elementary::v_log_f32)
    }
    /// [`elementary::v_sin_f32`].
    #[inline(always)]
    fn sin_f32(a: Self::V) -> Self::V {
        Self::map1(a, elementary::v_sin_f32)
    }
    /// [`elementary::v_cos_f32`].
    #[inline(always)]
    fn cos_f32(a: Self::V) -> Self::V {
        Self::map1(a, elementary::v_cos_f32)
    }
    /// f64 of a signed integer.
    #[inline(always)]
    fn f64_from_i32(a: Self::V) -> Self::W {
        Self::widen(a, crate::scalar::convert::v_cvt_f64_i32)
    }
    /// f64 of an unsigned integer.
    #[inline(always)]
    fn f64_from_u32(a: Self::V) -> Self::W {
        Self::widen(a, crate::scalar::convert::v_cvt_f64_u32)
    }
    /// f64 of an f32; NaNs become quiet and keep sign and payload.
    #[inline(always)]
    fn f64_from_f32(a: Self::V) -> Self::W {
        Self::widen(a, double::widened)
    }
    /// f32 of an f64, to nearest even; NaNs become quiet and keep sign and top of the payload.
    #[inline(always)]
    fn f32_from_f64(a: Self::W) -> Self::V {
        Self::narrow(a, double::narrowed)
    }
    /// Signed integer of an f64: truncated, saturated, 0 for NaN.
    #[inline(always)]
    fn i32_from_f64(a: Self::W) -> Self::V {
        Self::narrow(a, |a| {
            double::truncated(a, -2_147_483_648.0, 2_147_483_647.0)
        })
    }
    /// Unsigned integer of an f64: truncated, saturated, 0 for NaN.
    #[inline(always)]
    fn u32_from_f64(a: Self::W) -> Self::V {
        Self::narrow(a, |a| double::truncated(a, 0.0, 4_294_967_295.0))
    }
    /// [`elementary::v_rcp_f64`].
    #[inline(always)]
    fn rcp_f64(a: Self::W) -> Self::W {
        Self::w_map1(a, elementary::v_rcp_f64)
    }
    /// [`elementary::v_sqrt_f64`].
    #[inline(always)]
    fn sqrt_f64(a: Self::W) -> Self::W {
        Self::w_map1(a, elementary::v_sqrt_f64)
    }
    /// [`elementary::v_rsq_f64`].
    #[inline(always)]
    fn rsq_f64(a: Self::W) -> Self::W {
        Self::w_map1(a, elementary::v_rsq_f64)
    }
    /// f64 times two to the power of a signed integer, rounded once; a signalling NaN becomes quiet.
    #[inline(always)]
    fn scale_f64(a: Self::W, e: Self::V) -> Self::W {
        let mode = crate::fp::Mode::from_bits(0x3f0);
        Self::w_map2(a, Self::widen(e, u64::from), |a, e| {
            crate::scalar::rounding::v_ldexp_f64(a, e as i32, mode)
        })
    }
    /// f64 rounded to an integer ([`round`]); signs of zeros stay, a signalling NaN becomes quiet.
    #[inline(always)]
    fn round_f64<const TO: i32>(a: Self::W) -> Self::W {
        use crate::scalar::rounding as r;
        match TO {
            round::NEAREST => Self::w_map1(a, r::v_rndne_f64),
            round::DOWN => Self::w_map1(a, r::v_floor_f64),
            round::UP => Self::w_map1(a, r::v_ceil_f64),
            _ => Self::w_map1(a, r::v_trunc_f64),
        }
    }
    /// f32 of the f16 in the low half of each lane (exact; a signalling NaN becomes quiet).
    fn f32_from_f16(a: Self::V) -> Self::V;
    /// f16 (high half zero) of an f32, to nearest even, gradual underflow.
    fn f16_from_f32(a: Self::V) -> Self::V;

    /// f16 (high half zero) of an f32, toward zero.
    fn f16_from_f32_toward_zero(a: Self::V) -> Self::V;
    /// f32 sum rounded to odd: a later rounding to fewer bits is that of the exact sum. For sums that do
    /// not overflow.
    fn add_odd_f32(a: Self::V, b: Self::V) -> Self::V;
    /// Whether [`Lanes::min_f32`] and [`Lanes::max_f32`] rank NaNs: the first signalling one wins and becomes quiet,
    /// then a number, then the first of two quiet ones.
    const RANKS_NANS: bool = false;
    /// Whether a lane can hold a signalling NaN, f32 or f16 in the low half, as far as is known.
    #[inline(always)]
    fn may_signal(_: Self::V) -> bool {
        true
    }
    /// Smaller f32, -0 being less than +0. With a NaN operand, unless they are ranked, something that the caller
    /// replaces.
    fn min_f32(a: Self::V, b: Self::V) -> Self::V;
    /// Larger f32, -0 being less than +0. With a NaN operand: the bitwise and, which the caller replaces.
    fn max_f32(a: Self::V, b: Self::V) -> Self::V;

    /// f64 sum.
    fn add_f64(a: Self::W, b: Self::W) -> Self::W;
    /// f64 product.
    fn mul_f64(a: Self::W, b: Self::W) -> Self::W;
    /// f64 `a * b + c`, rounded once.
    fn fma_f64(a: Self::W, b: Self::W, c: Self::W) -> Self::W;
    /// f64 `a == b`; false for NaN.
    fn eq_f64(a: Self::W, b: Self::W) -> Self::M;
    /// f64 `a < b`; false for NaN.
    fn lt_f64(a: Self::W, b: Self::W) -> Self::M;
    /// f64 `a <= b`; false for NaN.
    fn le_f64(a: Self::W, b: Self::W) -> Self::M;
    /// Whether either f64 is NaN.
    fn unordered_f64(a: Self::W, b: Self::W) -> Self::M;

    /// A function of one word, lane by lane.
    #[inline(always)]
    fn map1(a: Self::V, f: impl Fn(u32) -> u32) -> Self::V {
        let a = Self::to_array(a);
        let mut r = [0; WIDTH];
        for i in 0..WIDTH {
            r[i] = f(a[i]);
        }
        Self::from_array(r)
    }
    /// A function of two words, lane by lane.
    #[inline(always)]
    fn map2(a: Self::V, b: Self::V, f: impl Fn(u32, u32) -> u32) -> Self::V {
        let (a, b) = (Self::to_array(a), Self::to_array(b));
        let mut r = [0; WIDTH];
        for i in 0..WIDTH {
            r[i] = f(a[i], b[i]);
        }
        Self::from_array(r)
    }
    /// A function of three words, lane by lane.
    #[inline(always)]
    fn map3(a: Self::V, b: Self::V, c: Self::V, f: impl Fn(u32, u32, u32) -> u32) -> Self::V {
        let (a, b, c) = (Self::to_array(a), Self::to_array(b), Self::to_array(c));
        let mut r = [0; WIDTH];
        for i in 0..WIDTH {
            r[i] = f(a[i], b[i], c[i]);
        }
        Self::from_array(r)
    }
    /// A condition on two words, lane by lane.
    #[inline(always)]
    fn test2(a: Self::V, b: Self::V, f: impl Fn(u32, u32) -> bool) -> Self::M {
        let (a, b) = (Self::to_array(a), Self::to_array(b));
        let mut r = 0;
        for i in 0..WIDTH {
            r |= (f(a[i], b[i]) as u16) << i;
        }
        Self::mask(r)
    }
    /// A function of one 64-bit value, lane by lane.
    #[inline(always)]
    fn w_map1(a: Self::W, f: impl Fn(u64) -> u64) -> Self::W {
        let a = Self::w_to_array(a);
        let mut r = [0; WIDTH];
        for i in 0..WIDTH {
            r[i] = f(a[i]);
        }
        Self::w_from_array(r)
    }
    /// A function of two 64-bit values, lane by lane.
    #[inline(always)]
    fn w_map2(a: Self::W, b: Self::W, f: impl Fn(u64, u64) -> u64) -> Self::W {
        let (a, b) = (Self::w_to_array(a), Self::w_to_array(b));
        let mut r = [0; WIDTH];
        for i in 0..WIDTH {
            r[i] = f(a[i], b[i]);
        }
        Self::w_from_array(r)
    }
    /// A function of three 64-bit values, lane by lane.
    #[inline(always)]
    fn w_map3(a: Self::W, b: Self::W, c: Self::W, f: impl Fn(u64, u64, u64) -> u64) -> Self::W {
        let (a, b, c) = (
            Self::w_to_array(a),
            Self::w_to_array(b),
            Self::w_to_array(c),
        );
        let mut r = [0; WIDTH];
        for i in 0..WIDTH {
            r[i] = f(a[i], b[i], c[i]);
        }
        Self::w_from_array(r)
    }
    /// A condition on two 64-bit values, lane by lane.
    #[inline(always)]
    fn w_test2(a: Self::W, b: Self::W, f: impl Fn(u64, u64) -> bool) -> Self::M {
        let (a, b) = (Self::w_to_array(a), Self::w_to_array(b));
        let mut r = 0;
        for i in 0..WIDTH {
            r |= (f(a[i], b[i]) as u16) << i;
        }
        Self::mask(r)
    }
    /// A word of each 64-bit value, lane by lane.
    #[inline(always)]
    fn narrow(a: Self::W, f: impl Fn(u64) -> u32) -> Self::V {
        let a = Self::w_to_array(a);
        let mut r = [0; WIDTH];
        for i in 0..WIDTH {
            r[i] = f(a[i]);
        }
        Self::from_array(r)
    }
    /// A 64-bit value of each word, lane by lane.
    #[inline(always)]
    fn widen(a: Self::V, f: impl Fn(u32) -> u64) -> Self::W {
        let a = Self::to_array(a);
        let mut r = [0; WIDTH];
        for i in 0..WIDTH {
            r[i] = f(a[i]);
        }
        Self::w_from_array(r)
    }
}
