//! Sixteen lanes: the operations of the kernels in AVX-512. The names are those of `v256`.

#![allow(missing_docs)]

use core::arch::x86_64::*;

pub type F = __m512;
pub type I = __m512i;
/// Half as many f64.
pub type D = __m512d;
pub type M = __mmask16;
/// Lanes of a vector.
pub const LANES: usize = 16;
/// Rows that a kernel accumulates at a time.
pub const ROWS: usize = 16;

/// f32 lanes of zero.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn zero() -> F {
    _mm512_setzero_ps()
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn splat(x: f32) -> F {
    _mm512_set1_ps(x)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn fma(a: F, b: F, c: F) -> F {
    _mm512_fmadd_ps(a, b, c)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn add(a: F, b: F) -> F {
    _mm512_add_ps(a, b)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn sub(a: F, b: F) -> F {
    _mm512_sub_ps(a, b)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn mul(a: F, b: F) -> F {
    _mm512_mul_ps(a, b)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn splat_i(x: i32) -> I {
    _mm512_set1_epi32(x)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn add_i(a: I, b: I) -> I {
    _mm512_add_epi32(a, b)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn sub_i(a: I, b: I) -> I {
    _mm512_sub_epi32(a, b)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn and(a: I, b: I) -> I {
    _mm512_and_si512(a, b)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn or(a: I, b: I) -> I {
    _mm512_or_si512(a, b)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn xor(a: I, b: I) -> I {
    _mm512_xor_si512(a, b)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn max_i(a: I, b: I) -> I {
    _mm512_max_epi32(a, b)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn max_u(a: I, b: I) -> I {
    _mm512_max_epu32(a, b)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn min_u(a: I, b: I) -> I {
    _mm512_min_epu32(a, b)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn shl<const N: i32>(a: I) -> I {
    _mm512_sll_epi32(a, _mm_cvtsi32_si128(N))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn shr<const N: i32>(a: I) -> I {
    _mm512_srl_epi32(a, _mm_cvtsi32_si128(N))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn shl_each(a: I, n: I) -> I {
    _mm512_sllv_epi32(a, n)
}

/// Arithmetic; counts of 32 and more give the sign.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn sar_each(a: I, n: I) -> I {
    _mm512_srav_epi32(a, n)
}

/// max(a - b, 0) of small non-negative numbers.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn sub_floor(a: I, b: I) -> I {
    _mm512_subs_epu16(a, b)
}

/// Sums of products of 16-bit pairs, added to c.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn dot_pairs(a: I, b: I, c: I) -> I {
    _mm512_dpwssd_epi32(c, a, b)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn shl16<const N: i32>(a: I) -> I {
    _mm512_sll_epi16(a, _mm_cvtsi32_si128(N))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn shr16<const N: i32>(a: I) -> I {
    _mm512_srl_epi16(a, _mm_cvtsi32_si128(N))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn sar16<const N: i32>(a: I) -> I {
    _mm512_sra_epi16(a, _mm_cvtsi32_si128(N))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn bits(x: F) -> I {
    _mm512_castps_si512(x)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn float(x: I) -> F {
    _mm512_castsi512_ps(x)
}

/// Rounds integers to nearest even f32.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn convert(x: I) -> F {
    _mm512_cvtepi32_ps(x)
}

/// Towards zero.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn truncate(x: F) -> I {
    _mm512_cvttps_epi32(x)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn greater(a: I, b: I) -> M {
    _mm512_cmpgt_epi32_mask(a, b)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn equal(a: I, b: I) -> M {
    _mm512_cmpeq_epi32_mask(a, b)
}

/// `a` where the mask is set, else `b`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn select(m: M, a: I, b: I) -> I {
    _mm512_mask_mov_epi32(b, m, a)
}

/// One bit per lane.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn mask_bits(m: M) -> u32 {
    u32::from(m)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn both(a: M, b: M) -> M {
    a & b
}

/// Element `i` of every four lanes, in all four.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn quad(x: F, i: usize) -> F {
    match i {
        0 => _mm512_permute_ps::<0x00>(x),
        1 => _mm512_permute_ps::<0x55>(x),
        2 => _mm512_permute_ps::<0xaa>(x),
        _ => _mm512_permute_ps::<0xff>(x),
    }
}

/// NaN becomes 0x7fc00000.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn canonical(x: F) -> F {
    let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
    _mm512_mask_mov_ps(x, nan, _mm512_set1_ps(f32::from_bits(0x7fc0_0000)))
}

/// |x| < limit becomes a zero of its sign.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn flush(x: F, limit: F) -> F {
    let tiny = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(_mm512_abs_ps(x), limit);
    _mm512_mask_and_ps(x, tiny, x, _mm512_set1_ps(-0.0))
}

/// |x| < limit becomes +0.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn flush_positive(x: F, limit: F) -> F {
    let keep = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(_mm512_abs_ps(x), limit);
    _mm512_maskz_mov_ps(keep, x)
}

/// The low and the high f16 of each word, as f32.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn halves(x: I) -> (F, F) {
    let high = _mm512_srli_epi32::<16>(x);
    (_mm512_cvtph_ps(_mm512_cvtepi32_epi16(x)), _mm512_cvtph_ps(_mm512_cvtepi32_epi16(high)))
}

/// floor(x * scale); the product may underflow: rounded down it keeps its floor. With `NEAR`
/// products below a half in magnitude give 0.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn floor_product<const NEAR: bool>(x: F, scale: F) -> I {
    const DOWN: i32 = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
    let product = _mm512_mul_round_ps::<DOWN>(x, scale);
    if NEAR {
        let near = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(_mm512_abs_ps(product), _mm512_set1_ps(0.5));
        return _mm512_maskz_cvt_roundps_epi32::<DOWN>(near, product);
    }
    _mm512_cvt_roundps_epi32::<DOWN>(product)
}

/// # Safety
/// `p` must be valid for reading 16 floats.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub unsafe fn load(p: *const f32) -> F {
    // SAFETY: by the contract of this function.
    unsafe { _mm512_loadu_ps(p) }
}

/// # Safety
/// `p` must be valid for writing 16 floats.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub unsafe fn store(p: *mut f32, x: F) {
    // SAFETY: by the contract of this function.
    unsafe { _mm512_storeu_ps(p, x) }
}

/// Stores the low byte of each lane.
///
/// # Safety
/// `p` must be valid for writing 16 bytes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub unsafe fn store_bytes(p: *mut i8, x: I) {
    // SAFETY: by the contract of this function.
    unsafe { _mm_storeu_si128(p.cast(), _mm512_cvtepi32_epi8(x)) }
}

/// Zero-extends 16 bytes.
///
/// # Safety
/// `p` must be valid for reading 16 bytes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub unsafe fn load_bytes(p: *const u8) -> I {
    // SAFETY: by the contract of this function.
    _mm512_cvtepu8_epi32(unsafe { _mm_loadu_si128(p.cast()) })
}

/// Stores four lanes here, the next four 16 floats on, and so on in turn.
///
/// # Safety
/// `p` must be valid for writing 24 floats.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub unsafe fn store_interleaved(p: *mut f32, x: F) {
    // SAFETY: by the contract of this function.
    unsafe {
        _mm_storeu_ps(p, _mm512_castps512_ps128(x));
        _mm_storeu_ps(p.add(16), _mm512_extractf32x4_ps::<1>(x));
        _mm_storeu_ps(p.add(4), _mm512_extractf32x4_ps::<2>(x));
        _mm_storeu_ps(p.add(20), _mm512_extractf32x4_ps::<3>(x));
    }
}

/// Largest exponent sums of 16 rows and 16 columns over every `STEP`th k from `START`, at least
/// `floor`, saturating; then plus `bias`, as unsigned bytes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
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
    // Row r in quarter r.
    let pick = _mm512_set_epi32(
        0x0303_0303, 0x0303_0303, 0x0303_0303, 0x0303_0303, 0x0202_0202, 0x0202_0202, 0x0202_0202,
        0x0202_0202, 0x0101_0101, 0x0101_0101, 0x0101_0101, 0x0101_0101, 0, 0, 0, 0,
    );
    let mut tops = [_mm512_set1_epi8(floor); 4];
    for k in (0..a.len() / STEP).map(|k| START + k * STEP) {
        let (a, b) = (&a[k][row..row + 16], &b[k][column..column + 16]);
        // SAFETY: both slices have 16 bytes.
        unsafe {
            let columns = _mm512_broadcast_i32x4(_mm_loadu_si128(b.as_ptr().cast()));
            for (quarter, top) in tops.iter_mut().enumerate() {
                let rows = _mm512_set1_epi32(a.as_ptr().cast::<i32>().add(quarter).read_unaligned());
                let sums = _mm512_adds_epi8(_mm512_shuffle_epi8(rows, pick), columns);
                *top = _mm512_max_epi8(*top, sums);
            }
        }
    }
    for (top, out) in tops.into_iter().zip(out.chunks_exact_mut(4)) {
        let top = _mm512_add_epi8(top, _mm512_set1_epi8(bias as i8));
        // SAFETY: `out` has 64 bytes.
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), top) };
    }
}

/// As `exponents`, for the four rows of 4x4 shapes: each four lanes have a block of their own.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
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
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn to_f16(x: F) -> I {
    let half = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x);
    let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
    _mm512_mask_mov_epi32(_mm512_cvtepu16_epi32(half), nan, _mm512_set1_epi32(0x7e00))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn splat_d(x: f64) -> D {
    _mm512_set1_pd(x)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn fma_d(a: D, b: D, c: D) -> D {
    _mm512_fmadd_pd(a, b, c)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn mul_d(a: D, b: D) -> D {
    _mm512_mul_pd(a, b)
}

/// The lower and the upper lanes as f64.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn widen(x: F) -> (D, D) {
    (_mm512_cvtps_pd(_mm512_castps512_ps256(x)), _mm512_cvtps_pd(_mm512_extractf32x8_ps::<1>(x)))
}

/// Rounds to f32, to nearest even.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn narrow(low: D, high: D) -> F {
    _mm512_insertf32x8::<1>(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high))
}

/// a + b rounded to odd: of the two neighbours of an inexact sum the one whose last bit is set,
/// so that rounding again to f32 rounds just once. A zero sum is +0.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn add_odd(a: D, b: D) -> D {
    let sum = _mm512_add_pd(a, b);
    let back = _mm512_sub_pd(sum, a);
    let error = _mm512_add_pd(_mm512_sub_pd(a, _mm512_sub_pd(sum, back)), _mm512_sub_pd(b, back));
    let bits = _mm512_castpd_si512(sum);
    let inexact = _mm512_cmp_pd_mask::<_CMP_NEQ_OQ>(error, _mm512_setzero_pd());
    let even = _mm512_testn_epi64_mask(bits, _mm512_set1_epi64(1));
    // Away from zero if the error has the sum's sign, else towards it.
    let opposite = _mm512_srai_epi64::<63>(_mm512_xor_si512(bits, _mm512_castpd_si512(error)));
    let step = _mm512_or_si512(opposite, _mm512_set1_epi64(1));
    let odd = _mm512_mask_add_epi64(bits, inexact & even, bits, step);
    _mm512_add_pd(_mm512_castsi512_pd(odd), _mm512_setzero_pd())
}

/// Entry x & 7 of a table.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub fn lookup8(table: &[f32; 8], x: I) -> F {
    // SAFETY: the table has eight floats.
    let table = unsafe { _mm512_broadcast_f32x8(_mm256_loadu_ps(table.as_ptr())) };
    _mm512_permutexvar_ps(x, table)
}

/// # Safety
/// `p` must be valid for reading 8 doubles.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub unsafe fn load_d(p: *const f64) -> D {
    // SAFETY: by the contract of this function.
    unsafe { _mm512_loadu_pd(p) }
}

/// # Safety
/// `p` must be valid for writing 8 doubles.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub unsafe fn store_d(p: *mut f64, x: D) {
    // SAFETY: by the contract of this function.
    unsafe { _mm512_storeu_pd(p, x) }
}
