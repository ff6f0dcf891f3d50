//! Eight lanes: the operations of the kernels in AVX2 and FMA. The names are those of `v512`.

#![allow(missing_docs)]

use core::arch::x86_64::*;

pub type F = __m256;
pub type I = __m256i;
/// Half as many f64.
pub type D = __m256d;
pub type M = __m256i;
/// Lanes of a vector.
pub const LANES: usize = 8;
/// Rows that a kernel accumulates at a time.
pub const ROWS: usize = 8;

/// f32 lanes of zero.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn zero() -> F {
    _mm256_setzero_ps()
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn splat(x: f32) -> F {
    _mm256_set1_ps(x)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn fma(a: F, b: F, c: F) -> F {
    _mm256_fmadd_ps(a, b, c)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn add(a: F, b: F) -> F {
    _mm256_add_ps(a, b)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn sub(a: F, b: F) -> F {
    _mm256_sub_ps(a, b)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn mul(a: F, b: F) -> F {
    _mm256_mul_ps(a, b)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn splat_i(x: i32) -> I {
    _mm256_set1_epi32(x)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn add_i(a: I, b: I) -> I {
    _mm256_add_epi32(a, b)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn sub_i(a: I, b: I) -> I {
    _mm256_sub_epi32(a, b)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn and(a: I, b: I) -> I {
    _mm256_and_si256(a, b)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn or(a: I, b: I) -> I {
    _mm256_or_si256(a, b)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn xor(a: I, b: I) -> I {
    _mm256_xor_si256(a, b)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn max_i(a: I, b: I) -> I {
    _mm256_max_epi32(a, b)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn max_u(a: I, b: I) -> I {
    _mm256_max_epu32(a, b)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn min_u(a: I, b: I) -> I {
    _mm256_min_epu32(a, b)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn shl<const N: i32>(a: I) -> I {
    _mm256_slli_epi32::<N>(a)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn shr<const N: i32>(a: I) -> I {
    _mm256_srli_epi32::<N>(a)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn shl_each(a: I, n: I) -> I {
    _mm256_sllv_epi32(a, n)
}

/// Arithmetic; counts of 32 and more give the sign.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn sar_each(a: I, n: I) -> I {
    _mm256_srav_epi32(a, n)
}

/// max(a - b, 0) of small non-negative numbers.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn sub_floor(a: I, b: I) -> I {
    _mm256_subs_epu16(a, b)
}

/// Sums of products of 16-bit pairs, added to c.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn dot_pairs(a: I, b: I, c: I) -> I {
    _mm256_add_epi32(_mm256_madd_epi16(a, b), c)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn shl16<const N: i32>(a: I) -> I {
    _mm256_slli_epi16::<N>(a)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn shr16<const N: i32>(a: I) -> I {
    _mm256_srli_epi16::<N>(a)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn sar16<const N: i32>(a: I) -> I {
    _mm256_srai_epi16::<N>(a)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn bits(x: F) -> I {
    _mm256_castps_si256(x)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn float(x: I) -> F {
    _mm256_castsi256_ps(x)
}

/// Rounds integers to nearest even f32.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn convert(x: I) -> F {
    _mm256_cvtepi32_ps(x)
}

/// Towards zero.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn truncate(x: F) -> I {
    _mm256_cvttps_epi32(x)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn greater(a: I, b: I) -> M {
    _mm256_cmpgt_epi32(a, b)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn equal(a: I, b: I) -> M {
    _mm256_cmpeq_epi32(a, b)
}

/// `a` where the mask is set, else `b`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn select(m: M, a: I, b: I) -> I {
    _mm256_blendv_epi8(b, a, m)
}

/// One bit per lane.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn mask_bits(m: M) -> u32 {
    _mm256_movemask_ps(_mm256_castsi256_ps(m)) as u32
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn both(a: M, b: M) -> M {
    _mm256_and_si256(a, b)
}

/// Element `i` of every four lanes, in all four.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn quad(x: F, i: usize) -> F {
    match i {
        0 => _mm256_permute_ps::<0x00>(x),
        1 => _mm256_permute_ps::<0x55>(x),
        2 => _mm256_permute_ps::<0xaa>(x),
        _ => _mm256_permute_ps::<0xff>(x),
    }
}

/// NaN becomes 0x7fc00000.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn canonical(x: F) -> F {
    let nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x);
    _mm256_blendv_ps(x, _mm256_set1_ps(f32::from_bits(0x7fc0_0000)), nan)
}

/// |x| < limit becomes a zero of its sign.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn flush(x: F, limit: F) -> F {
    let sign = _mm256_set1_ps(-0.0);
    let tiny = _mm256_cmp_ps::<_CMP_LT_OQ>(_mm256_andnot_ps(sign, x), limit);
    _mm256_andnot_ps(_mm256_andnot_ps(sign, tiny), x)
}

/// |x| < limit becomes +0.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn flush_positive(x: F, limit: F) -> F {
    let tiny = _mm256_cmp_ps::<_CMP_LT_OQ>(_mm256_andnot_ps(_mm256_set1_ps(-0.0), x), limit);
    _mm256_andnot_ps(tiny, x)
}

/// The low and the high f16 of each word, as f32.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn halves(x: I) -> (F, F) {
    let low = _mm256_and_si256(x, _mm256_set1_epi32(0xffff));
    let packed = _mm256_permute4x64_epi64::<0xd8>(_mm256_packus_epi32(low, _mm256_srli_epi32::<16>(x)));
    (
        _mm256_cvtph_ps(_mm256_castsi256_si128(packed)),
        _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(packed)),
    )
}

/// floor(x * scale); the product may underflow without changing the result. With `NEAR`
/// products below a half in magnitude give 0.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn floor_product<const NEAR: bool>(x: F, scale: F) -> I {
    let product = _mm256_mul_ps(x, scale);
    let floor = _mm256_cvttps_epi32(_mm256_floor_ps(product));
    if NEAR {
        let magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0), product);
        let far = _mm256_cmp_ps::<_CMP_LT_OQ>(magnitude, _mm256_set1_ps(0.5));
        return _mm256_andnot_si256(_mm256_castps_si256(far), floor);
    }
    // A negative number that underflowed to zero has the floor -1, which a mask is.
    let zero = _mm256_setzero_ps();
    let negative = _mm256_cmp_ps::<_CMP_LT_OQ>(x, zero);
    let lost = _mm256_and_ps(negative, _mm256_cmp_ps::<_CMP_EQ_OQ>(product, zero));
    _mm256_add_epi32(floor, _mm256_castps_si256(lost))
}

/// # Safety
/// `p` must be valid for reading 8 floats.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn load(p: *const f32) -> F {
    // SAFETY: by the contract of this function.
    unsafe { _mm256_loadu_ps(p) }
}

/// # Safety
/// `p` must be valid for writing 8 floats.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn store(p: *mut f32, x: F) {
    // SAFETY: by the contract of this function.
    unsafe { _mm256_storeu_ps(p, x) }
}

/// Stores the low byte of each lane.
///
/// # Safety
/// `p` must be valid for writing 8 bytes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn store_bytes(p: *mut i8, x: I) {
    let words = _mm256_packs_epi32(x, x);
    let words = _mm256_permute4x64_epi64::<0x08>(words);
    let bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_castsi256_si128(words));
    // SAFETY: by the contract of this function.
    unsafe { _mm_storel_epi64(p.cast(), bytes) }
}

/// Zero-extends 8 bytes.
///
/// # Safety
/// `p` must be valid for reading 8 bytes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn load_bytes(p: *const u8) -> I {
    // SAFETY: by the contract of this function.
    _mm256_cvtepu8_epi32(unsafe { _mm_loadl_epi64(p.cast()) })
}

/// Stores four lanes here, the next four 16 floats on, and so on in turn.
///
/// # Safety
/// `p` must be valid for writing 24 floats.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn store_interleaved(p: *mut f32, x: F) {
    // SAFETY: by the contract of this function.
    unsafe {
        _mm_storeu_ps(p, _mm256_castps256_ps128(x));
        _mm_storeu_ps(p.add(16), _mm256_extractf128_ps::<1>(x));
    }
}

/// Largest exponent sums of 16 rows and 16 columns over every `STEP`th k from `START`, at least
/// `floor`, saturating; then plus `bias`, as unsigned bytes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
#[allow(clippy::too_many_arguments)]
pub fn exponents<const START: usize, const STEP: usize>(
    a: &[[i8; 64]],
    row: usize,
    b: &[[i8; 64]],
    column: usize,
    floor: i8,
    bias: u8,
    out: &mut [[u8; 16]; 16],
) {
    for (first, out) in out.chunks_exact_mut(2).enumerate() {
        // Row 0 in the lower half, row 1 in the upper half.
        let pick = _mm256_set_m128i(_mm_set1_epi8(1), _mm_setzero_si128());
        let mut top = _mm256_set1_epi8(floor);
        for k in (0..a.len() / STEP).map(|k| START + k * STEP) {
            let rows = &a[k][row + 2 * first..][..2];
            let rows = _mm256_set1_epi16(i16::from_le_bytes([rows[0] as u8, rows[1] as u8]));
            let columns = &b[k][column..column + 16];
            // SAFETY: `columns` has 16 bytes.
            let columns = unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(columns.as_ptr().cast())) };
            top = _mm256_max_epi8(top, _mm256_adds_epi8(_mm256_shuffle_epi8(rows, pick), columns));
        }
        let top = _mm256_add_epi8(top, _mm256_set1_epi8(bias as i8));
        // SAFETY: `out` has 32 bytes.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), top) };
    }
}

/// As `exponents`, for the four rows of 4x4 shapes: each four lanes have a block of their own.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn quad_exponents(a: &[[i8; 64]], b: &[[i8; 64]], at: usize, floor: i8, bias: u8, out: &mut [[u8; 16]; 16]) {
    let blocks = _mm_set_epi8(12, 12, 12, 12, 8, 8, 8, 8, 4, 4, 4, 4, 0, 0, 0, 0);
    for (row, out) in out.iter_mut().enumerate().take(4) {
        let pick = _mm_add_epi8(blocks, _mm_set1_epi8(row as i8));
        let mut top = _mm_set1_epi8(floor);
        for (a, b) in a.iter().zip(b) {
            let (a, b) = (&a[at..at + 16], &b[at..at + 16]);
            // SAFETY: both slices have 16 bytes.
            let (a, b) = unsafe { (_mm_loadu_si128(a.as_ptr().cast()), _mm_loadu_si128(b.as_ptr().cast())) };
            top = _mm_max_epi8(top, _mm_adds_epi8(_mm_shuffle_epi8(a, pick), b));
        }
        let top = _mm_add_epi8(top, _mm_set1_epi8(bias as i8));
        // SAFETY: `out` has 16 bytes.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), top) };
    }
}

/// Rounds to f16, to nearest even, in the low halves; NaN becomes 0x7e00.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn to_f16(x: F) -> I {
    let half = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x);
    let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(x, x));
    _mm256_blendv_epi8(_mm256_cvtepu16_epi32(half), _mm256_set1_epi32(0x7e00), nan)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn splat_d(x: f64) -> D {
    _mm256_set1_pd(x)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn fma_d(a: D, b: D, c: D) -> D {
    _mm256_fmadd_pd(a, b, c)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn mul_d(a: D, b: D) -> D {
    _mm256_mul_pd(a, b)
}

/// The lower and the upper lanes as f64.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn widen(x: F) -> (D, D) {
    (_mm256_cvtps_pd(_mm256_castps256_ps128(x)), _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(x)))
}

/// Rounds to f32, to nearest even.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn narrow(low: D, high: D) -> F {
    _mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low))
}

/// a + b rounded to odd: of the two neighbours of an inexact sum the one whose last bit is set,
/// so that rounding again to f32 rounds just once. A zero sum is +0.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn add_odd(a: D, b: D) -> D {
    let sum = _mm256_add_pd(a, b);
    let back = _mm256_sub_pd(sum, a);
    let error = _mm256_add_pd(_mm256_sub_pd(a, _mm256_sub_pd(sum, back)), _mm256_sub_pd(b, back));
    let bits = _mm256_castpd_si256(sum);
    let zero = _mm256_setzero_si256();
    let inexact = _mm256_castpd_si256(_mm256_cmp_pd::<_CMP_NEQ_OQ>(error, _mm256_setzero_pd()));
    let even = _mm256_cmpeq_epi64(_mm256_and_si256(bits, _mm256_set1_epi64x(1)), zero);
    // Away from zero if the error has the sum's sign, else towards it.
    let opposite = _mm256_cmpgt_epi64(zero, _mm256_xor_si256(bits, _mm256_castpd_si256(error)));
    let step = _mm256_or_si256(opposite, _mm256_set1_epi64x(1));
    let step = _mm256_and_si256(step, _mm256_and_si256(inexact, even));
    _mm256_add_pd(_mm256_castsi256_pd(_mm256_add_epi64(bits, step)), _mm256_setzero_pd())
}

/// Entry x & 7 of a table.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn lookup8(table: &[f32; 8], x: I) -> F {
    // SAFETY: the table has eight floats.
    let table = unsafe { _mm256_loadu_ps(table.as_ptr()) };
    _mm256_permutevar8x32_ps(table, x)
}

/// # Safety
/// `p` must be valid for reading 4 doubles.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn load_d(p: *const f64) -> D {
    // SAFETY: by the contract of this function.
    unsafe { _mm256_loadu_pd(p) }
}

/// # Safety
/// `p` must be valid for writing 4 doubles.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn store_d(p: *mut f64, x: D) {
    // SAFETY: by the contract of this function.
    unsafe { _mm256_storeu_pd(p, x) }
}
