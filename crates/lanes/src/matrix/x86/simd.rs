//! The few vector operations that the kernels need, for 8 lanes (AVX2) and 16 lanes (AVX-512).
//!
//! Every function here may only be called where the instruction set has been enabled: the
//! kernels are inlined into the two `#[target_feature]` functions of the parent module.

use core::arch::x86_64::*;

/// Vectors of f32 lanes.
pub(super) trait Simd {
    /// Lanes.
    const LANES: usize;
    /// Accumulators that fit the register file.
    const ROWS: usize;
    /// A vector of f32.
    type F: Copy;
    /// Loads; `p` must be valid for LANES floats.
    unsafe fn load(p: *const f32) -> Self::F;
    /// Stores; `p` must be valid for LANES floats.
    unsafe fn store(p: *mut f32, x: Self::F);
    fn splat(x: f32) -> Self::F;
    fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    fn add(a: Self::F, b: Self::F) -> Self::F;
    /// Element `i` of every four lanes, in all four.
    fn quad(x: Self::F, i: usize) -> Self::F;
    /// NaN becomes 0x7fc00000.
    fn canonical(x: Self::F) -> Self::F;
    /// |x| < 2^-126 becomes a zero of its sign.
    fn flush(x: Self::F) -> Self::F;
    /// |x| < 2^-126 becomes +0.
    fn flush_positive(x: Self::F) -> Self::F;
}

pub(super) enum Avx2 {}

// SAFETY (all blocks below): AVX2 and FMA are enabled where these functions are inlined, see the
// module's documentation; pointers are valid by the callers' contracts.
impl Simd for Avx2 {
    const LANES: usize = 8;
    const ROWS: usize = 8;
    type F = __m256;
    #[inline(always)]
    unsafe fn load(p: *const f32) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, x: __m256) {
        // SAFETY: see above.
        unsafe { _mm256_storeu_ps(p, x) }
    }
    #[inline(always)]
    fn splat(x: f32) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_set1_ps(x) }
    }
    #[inline(always)]
    fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn add(a: __m256, b: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_add_ps(a, b) }
    }
    #[inline(always)]
    fn quad(x: __m256, i: usize) -> __m256 {
        // SAFETY: see above.
        unsafe {
            match i {
                0 => _mm256_permute_ps::<0x00>(x),
                1 => _mm256_permute_ps::<0x55>(x),
                2 => _mm256_permute_ps::<0xaa>(x),
                _ => _mm256_permute_ps::<0xff>(x),
            }
        }
    }
    #[inline(always)]
    fn canonical(x: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe {
            let nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x);
            _mm256_blendv_ps(x, _mm256_set1_ps(f32::from_bits(0x7fc0_0000)), nan)
        }
    }
    #[inline(always)]
    fn flush(x: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe {
            let sign = _mm256_set1_ps(-0.0);
            let tiny = _mm256_cmp_ps::<_CMP_LT_OQ>(
                _mm256_andnot_ps(sign, x),
                _mm256_set1_ps(f32::MIN_POSITIVE),
            );
            _mm256_andnot_ps(_mm256_andnot_ps(sign, tiny), x)
        }
    }
    #[inline(always)]
    fn flush_positive(x: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe {
            let tiny = _mm256_cmp_ps::<_CMP_LT_OQ>(
                _mm256_andnot_ps(_mm256_set1_ps(-0.0), x),
                _mm256_set1_ps(f32::MIN_POSITIVE),
            );
            _mm256_andnot_ps(tiny, x)
        }
    }
}

pub(super) enum Avx512 {}

// SAFETY (all blocks below): AVX-512 F, BW, DQ and VL are enabled where these functions are
// inlined, see the module's documentation; pointers are valid by the callers' contracts.
impl Simd for Avx512 {
    const LANES: usize = 16;
    const ROWS: usize = 16;
    type F = __m512;
    #[inline(always)]
    unsafe fn load(p: *const f32) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, x: __m512) {
        // SAFETY: see above.
        unsafe { _mm512_storeu_ps(p, x) }
    }
    #[inline(always)]
    fn splat(x: f32) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_set1_ps(x) }
    }
    #[inline(always)]
    fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn add(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    fn quad(x: __m512, i: usize) -> __m512 {
        // SAFETY: see above.
        unsafe {
            match i {
                0 => _mm512_permute_ps::<0x00>(x),
                1 => _mm512_permute_ps::<0x55>(x),
                2 => _mm512_permute_ps::<0xaa>(x),
                _ => _mm512_permute_ps::<0xff>(x),
            }
        }
    }
    #[inline(always)]
    fn canonical(x: __m512) -> __m512 {
        // SAFETY: see above.
        unsafe {
            let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
            _mm512_mask_mov_ps(x, nan, _mm512_set1_ps(f32::from_bits(0x7fc0_0000)))
        }
    }
    #[inline(always)]
    fn flush(x: __m512) -> __m512 {
        // SAFETY: see above.
        unsafe {
            let tiny = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(
                _mm512_abs_ps(x),
                _mm512_set1_ps(f32::MIN_POSITIVE),
            );
            _mm512_mask_and_ps(x, tiny, x, _mm512_set1_ps(-0.0))
        }
    }
    #[inline(always)]
    fn flush_positive(x: __m512) -> __m512 {
        // SAFETY: see above.
        unsafe {
            let keep = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(
                _mm512_abs_ps(x),
                _mm512_set1_ps(f32::MIN_POSITIVE),
            );
            _mm512_maskz_mov_ps(keep, x)
        }
    }
}
