//! Sixteen lanes in AVX-512.

// Every block below executes instructions of the extension; the contract of `Vector` says where that is allowed.
#![allow(clippy::undocumented_unsafe_blocks)]

use core::arch::x86_64::*;

use super::vector::{Bytes, Vector};

/// Sixteen lanes.
#[derive(Clone, Copy, Debug)]
pub(super) struct V512;

impl Vector for V512 {
    type F = __m512;
    type I = __m512i;
    type D = __m512d;
    type M = __mmask16;
    const LANES: usize = 16;
    const SUMS: usize = 16;

    #[inline(always)]
    fn zero() -> Self::F {
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    fn splat(x: f32) -> Self::F {
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn add(a: Self::F, b: Self::F) -> Self::F {
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    fn sub(a: Self::F, b: Self::F) -> Self::F {
        unsafe { _mm512_sub_ps(a, b) }
    }

    #[inline(always)]
    fn mul(a: Self::F, b: Self::F) -> Self::F {
        unsafe { _mm512_mul_ps(a, b) }
    }

    #[inline(always)]
    fn splat_i(x: i32) -> Self::I {
        unsafe { _mm512_set1_epi32(x) }
    }

    #[inline(always)]
    fn add_i(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm512_add_epi32(a, b) }
    }

    #[inline(always)]
    fn sub_i(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm512_sub_epi32(a, b) }
    }

    #[inline(always)]
    fn and(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm512_and_si512(a, b) }
    }

    #[inline(always)]
    fn or(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm512_or_si512(a, b) }
    }

    #[inline(always)]
    fn xor(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm512_xor_si512(a, b) }
    }

    #[inline(always)]
    fn max_i(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm512_max_epi32(a, b) }
    }

    #[inline(always)]
    fn min_u(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm512_min_epu32(a, b) }
    }

    #[inline(always)]
    fn shl<const N: i32>(a: Self::I) -> Self::I {
        unsafe { _mm512_sll_epi32(a, _mm_cvtsi32_si128(N)) }
    }

    #[inline(always)]
    fn shr<const N: i32>(a: Self::I) -> Self::I {
        unsafe { _mm512_srl_epi32(a, _mm_cvtsi32_si128(N)) }
    }

    #[inline(always)]
    fn shl_each(a: Self::I, n: Self::I) -> Self::I {
        unsafe { _mm512_sllv_epi32(a, n) }
    }

    #[inline(always)]
    fn sar_each(a: Self::I, n: Self::I) -> Self::I {
        unsafe { _mm512_srav_epi32(a, n) }
    }

    #[inline(always)]
    fn sub_floor(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm512_subs_epu16(a, b) }
    }

    #[inline(always)]
    fn dot_pairs(a: Self::I, b: Self::I, c: Self::I) -> Self::I {
        unsafe { _mm512_dpwssd_epi32(c, a, b) }
    }

    #[inline(always)]
    fn shl16<const N: i32>(a: Self::I) -> Self::I {
        unsafe { _mm512_sll_epi16(a, _mm_cvtsi32_si128(N)) }
    }

    #[inline(always)]
    fn shr16<const N: i32>(a: Self::I) -> Self::I {
        unsafe { _mm512_srl_epi16(a, _mm_cvtsi32_si128(N)) }
    }

    #[inline(always)]
    fn sar16<const N: i32>(a: Self::I) -> Self::I {
        unsafe { _mm512_sra_epi16(a, _mm_cvtsi32_si128(N)) }
    }

    #[inline(always)]
    fn bits(x: Self::F) -> Self::I {
        unsafe { _mm512_castps_si512(x) }
    }

    #[inline(always)]
    fn float(x: Self::I) -> Self::F {
        unsafe { _mm512_castsi512_ps(x) }
    }

    #[inline(always)]
    fn convert(x: Self::I) -> Self::F {
        unsafe { _mm512_cvtepi32_ps(x) }
    }

    #[inline(always)]
    fn truncate(x: Self::F) -> Self::I {
        unsafe { _mm512_cvttps_epi32(x) }
    }

    #[inline(always)]
    fn equal(a: Self::I, b: Self::I) -> Self::M {
        unsafe { _mm512_cmpeq_epi32_mask(a, b) }
    }

    #[inline(always)]
    fn select(m: Self::M, a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm512_mask_mov_epi32(b, m, a) }
    }

    #[inline(always)]
    fn quad(x: Self::F, i: usize) -> Self::F {
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
    fn canonical(x: Self::F) -> Self::F {
        unsafe {
            let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
            _mm512_mask_mov_ps(x, nan, _mm512_set1_ps(f32::from_bits(0x7fc0_0000)))
        }
    }

    #[inline(always)]
    fn flush(x: Self::F, limit: Self::F) -> Self::F {
        unsafe {
            let tiny = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(_mm512_abs_ps(x), limit);
            _mm512_mask_and_ps(x, tiny, x, _mm512_set1_ps(-0.0))
        }
    }

    #[inline(always)]
    fn flush_positive(x: Self::F, limit: Self::F) -> Self::F {
        unsafe {
            let keep = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(_mm512_abs_ps(x), limit);
            _mm512_maskz_mov_ps(keep, x)
        }
    }

    #[inline(always)]
    fn halves(x: Self::I) -> (Self::F, Self::F) {
        unsafe {
            let high = _mm512_srli_epi32::<16>(x);
            (
                _mm512_cvtph_ps(_mm512_cvtepi32_epi16(x)),
                _mm512_cvtph_ps(_mm512_cvtepi32_epi16(high)),
            )
        }
    }

    #[inline(always)]
    fn floor_product<const NEAR: bool>(x: Self::F, scale: Self::F) -> Self::I {
        unsafe {
            const DOWN: i32 = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
            let product = _mm512_mul_round_ps::<DOWN>(x, scale);
            if NEAR {
                let near =
                    _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(_mm512_abs_ps(product), _mm512_set1_ps(0.5));
                return _mm512_maskz_cvt_roundps_epi32::<DOWN>(near, product);
            }
            _mm512_cvt_roundps_epi32::<DOWN>(product)
        }
    }

    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self::F {
        unsafe { _mm512_loadu_ps(p) }
    }

    #[inline(always)]
    unsafe fn store(p: *mut f32, x: Self::F) {
        unsafe { _mm512_storeu_ps(p, x) }
    }

    #[inline(always)]
    unsafe fn store_bytes(p: *mut i8, x: Self::I) {
        unsafe { _mm_storeu_si128(p.cast(), _mm512_cvtepi32_epi8(x)) }
    }

    #[inline(always)]
    unsafe fn load_bytes(p: *const u8) -> Self::I {
        unsafe { _mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast())) }
    }

    #[inline(always)]
    fn exponents<const START: usize, const STEP: usize>(
        a: &[[i8; 64]],
        (row, next): (usize, usize),
        b: &[[i8; 64]],
        column: usize,
        (floor, bias): (i8, u8),
        out: &mut [[u8; 16]; 16],
    ) {
        unsafe {
            // Row r in quarter r. Hidden from the compiler, which would take the shuffle of a
            // broadcast apart, into more instructions.
            let pick =
                _mm512_cvtepu8_epi32(_mm_set_epi8(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0));
            let pick =
                std::hint::black_box(_mm512_mullo_epi32(pick, _mm512_set1_epi32(0x0101_0101)));
            let mut tops = [_mm512_set1_epi8(floor); 4];
            for k in (0..a.len() / STEP).map(|k| START + k * STEP) {
                let (a, b) = (&a[k][row..row + 3 * next + 4], &b[k][column..column + 16]);
                {
                    let columns = _mm512_broadcast_i32x4(_mm_loadu_si128(b.as_ptr().cast()));
                    for (quarter, top) in tops.iter_mut().enumerate() {
                        let rows = _mm512_set1_epi32(
                            a.as_ptr()
                                .add(quarter * next)
                                .cast::<i32>()
                                .read_unaligned(),
                        );
                        let sums = _mm512_adds_epi8(_mm512_shuffle_epi8(rows, pick), columns);
                        *top = _mm512_max_epi8(*top, sums);
                    }
                }
            }
            for (top, out) in tops.into_iter().zip(out.chunks_exact_mut(4)) {
                let top = _mm512_add_epi8(top, _mm512_set1_epi8(bias as i8));
                _mm512_storeu_si512(out.as_mut_ptr().cast(), top);
            }
        }
    }

    #[inline(always)]
    fn quad_exponents(
        a: &[[i8; 64]],
        b: &[[i8; 64]],
        at: usize,
        floor: i8,
        bias: u8,
        out: &mut [[u8; 16]; 16],
    ) {
        unsafe {
            let blocks = _mm_set_epi8(12, 12, 12, 12, 8, 8, 8, 8, 4, 4, 4, 4, 0, 0, 0, 0);
            for (row, out) in out.iter_mut().enumerate().take(4) {
                let pick = _mm_add_epi8(blocks, _mm_set1_epi8(row as i8));
                let mut top = _mm_set1_epi8(floor);
                for (a, b) in a.iter().zip(b) {
                    let (a, b) = (&a[at..at + 16], &b[at..at + 16]);
                    let (a, b) = {
                        (
                            _mm_loadu_si128(a.as_ptr().cast()),
                            _mm_loadu_si128(b.as_ptr().cast()),
                        )
                    };
                    top = _mm_max_epi8(top, _mm_adds_epi8(_mm_shuffle_epi8(a, pick), b));
                }
                let top = _mm_add_epi8(top, _mm_set1_epi8(bias as i8));
                _mm_storeu_si128(out.as_mut_ptr().cast(), top);
            }
        }
    }

    #[inline(always)]
    fn to_f16(x: Self::F) -> Self::I {
        unsafe {
            let half = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x);
            let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
            _mm512_mask_mov_epi32(_mm512_cvtepu16_epi32(half), nan, _mm512_set1_epi32(0x7e00))
        }
    }

    #[inline(always)]
    fn splat_d(x: f64) -> Self::D {
        unsafe { _mm512_set1_pd(x) }
    }

    #[inline(always)]
    fn fma_d(a: Self::D, b: Self::D, c: Self::D) -> Self::D {
        unsafe { _mm512_fmadd_pd(a, b, c) }
    }

    #[inline(always)]
    fn mul_d(a: Self::D, b: Self::D) -> Self::D {
        unsafe { _mm512_mul_pd(a, b) }
    }

    #[inline(always)]
    fn widen(x: Self::F) -> (Self::D, Self::D) {
        unsafe {
            (
                _mm512_cvtps_pd(_mm512_castps512_ps256(x)),
                _mm512_cvtps_pd(_mm512_extractf32x8_ps::<1>(x)),
            )
        }
    }

    #[inline(always)]
    fn narrow(low: Self::D, high: Self::D) -> Self::F {
        unsafe {
            _mm512_insertf32x8::<1>(
                _mm512_castps256_ps512(_mm512_cvtpd_ps(low)),
                _mm512_cvtpd_ps(high),
            )
        }
    }

    #[inline(always)]
    fn add_odd(a: Self::D, b: Self::D) -> Self::D {
        unsafe {
            let sum = _mm512_add_pd(a, b);
            let back = _mm512_sub_pd(sum, a);
            let error = _mm512_add_pd(
                _mm512_sub_pd(a, _mm512_sub_pd(sum, back)),
                _mm512_sub_pd(b, back),
            );
            let bits = _mm512_castpd_si512(sum);
            let inexact = _mm512_cmp_pd_mask::<_CMP_NEQ_OQ>(error, _mm512_setzero_pd());
            let even = _mm512_testn_epi64_mask(bits, _mm512_set1_epi64(1));
            // Away from zero if the error has the sum's sign, else towards it.
            let opposite =
                _mm512_srai_epi64::<63>(_mm512_xor_si512(bits, _mm512_castpd_si512(error)));
            let step = _mm512_or_si512(opposite, _mm512_set1_epi64(1));
            let odd = _mm512_mask_add_epi64(bits, inexact & even, bits, step);
            _mm512_add_pd(_mm512_castsi512_pd(odd), _mm512_setzero_pd())
        }
    }

    #[inline(always)]
    fn lookup_signed(table: &[f32; 8], x: Self::I) -> Self::F {
        unsafe {
            let low = _mm256_loadu_ps(table.as_ptr());
            let high = _mm256_xor_ps(low, _mm256_set1_ps(-0.0));
            let table = _mm512_insertf32x8::<1>(_mm512_castps256_ps512(low), high);
            _mm512_permutexvar_ps(x, table)
        }
    }

    #[inline(always)]
    fn flush16(x: Self::I, mask: i32) -> Self::I {
        unsafe { _mm512_maskz_mov_epi16(_mm512_test_epi16_mask(x, _mm512_set1_epi32(mask)), x) }
    }

    #[inline(always)]
    fn any_zero_byte(x: Self::I) -> bool {
        unsafe { _mm512_testn_epi8_mask(x, x) != 0 }
    }

    #[inline(always)]
    fn max_u16(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm512_max_epu16(a, b) }
    }

    #[inline(always)]
    fn max_u8(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm512_max_epu8(a, b) }
    }

    #[inline(always)]
    fn all() -> Self::M {
        0xffff
    }

    #[inline(always)]
    fn ordered(m: Self::M, a: Self::F, b: Self::F) -> Self::M {
        unsafe { _mm512_mask_cmp_ps_mask::<_CMP_ORD_Q>(m, a, b) }
    }

    #[inline(always)]
    fn both(a: Self::M, b: Self::M) -> Self::M {
        a & b
    }

    #[inline(always)]
    fn max_u(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm512_max_epu32(a, b) }
    }

    #[inline(always)]
    fn is_any(m: Self::M) -> bool {
        m != 0
    }

    #[inline(always)]
    fn is_all(m: Self::M) -> bool {
        m == 0xffff
    }

    #[inline(always)]
    unsafe fn load_d(p: *const f64) -> Self::D {
        unsafe { _mm512_loadu_pd(p) }
    }

    #[inline(always)]
    unsafe fn store_d(p: *mut f64, x: Self::D) {
        unsafe { _mm512_storeu_pd(p, x) }
    }

    #[inline(always)]
    fn sar<const N: u32>(a: Self::I) -> Self::I {
        unsafe { _mm512_srai_epi32::<N>(a) }
    }

    #[inline(always)]
    fn any_greater(a: Self::I, b: Self::I) -> bool {
        unsafe { _mm512_cmpgt_epi32_mask(a, b) != 0 }
    }

    #[inline(always)]
    fn min_u16(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm512_min_epu16(a, b) }
    }

    #[inline(always)]
    fn min_u8(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm512_min_epu8(a, b) }
    }

    #[inline(always)]
    fn add_i16(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm512_add_epi16(a, b) }
    }

    #[inline(always)]
    fn add_i8(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm512_add_epi8(a, b) }
    }

    #[inline(always)]
    fn or_xor(a: Self::I, b: Self::I, c: Self::I) -> Self::I {
        unsafe { _mm512_ternarylogic_epi32::<0xf6>(a, b, c) }
    }

    #[inline(always)]
    fn least_u16(x: Self::I) -> u32 {
        unsafe {
            let x = _mm256_min_epu16(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64::<1>(x));
            let x = _mm_min_epu16(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
            _mm_cvtsi128_si32(_mm_minpos_epu16(x)) as u32 & 0xffff
        }
    }

    #[inline(always)]
    fn any_bits(x: Self::I) -> u32 {
        unsafe {
            let x = _mm256_or_si256(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64::<1>(x));
            let x = _mm_or_si128(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
            let x = (_mm_cvtsi128_si64(x) | _mm_extract_epi64::<1>(x)) as u64;
            x as u32 | (x >> 32) as u32
        }
    }

    #[inline(always)]
    fn zip_d(low: Self::F, high: Self::F) -> (Self::D, Self::D) {
        unsafe {
            let first = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
            let second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
            (
                _mm512_castps_pd(_mm512_permutex2var_ps(low, first, high)),
                _mm512_castps_pd(_mm512_permutex2var_ps(low, second, high)),
            )
        }
    }

    #[inline(always)]
    fn unzip_d(low: Self::D, high: Self::D) -> (Self::F, Self::F) {
        unsafe {
            let even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
            let odd = _mm512_or_si512(even, _mm512_set1_epi32(1));
            let (low, high) = (_mm512_castpd_ps(low), _mm512_castpd_ps(high));
            (
                _mm512_permutex2var_ps(low, even, high),
                _mm512_permutex2var_ps(low, odd, high),
            )
        }
    }

    #[inline(always)]
    fn xor_d(a: Self::D, b: Self::D) -> Self::D {
        unsafe { _mm512_xor_pd(a, b) }
    }

    #[inline(always)]
    fn canonical_d(x: Self::D, nan: f64) -> Self::D {
        unsafe {
            _mm512_mask_mov_pd(
                x,
                _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(x, x),
                _mm512_set1_pd(nan),
            )
        }
    }

    #[inline(always)]
    fn add_saturating(a: Self::I, b: Self::I) -> Self::I {
        unsafe {
            let sum = _mm512_add_epi32(a, b);
            // Same signs, and the sum has another one.
            let over = _mm512_movepi32_mask(_mm512_ternarylogic_epi32::<0x42>(a, b, sum));
            let most = _mm512_xor_si512(_mm512_srai_epi32::<31>(a), _mm512_set1_epi32(i32::MAX));
            _mm512_mask_mov_epi32(sum, over, most)
        }
    }
}

impl Bytes for V512 {
    #[inline(always)]
    fn dot_bytes(a: Self::I, b: Self::I, c: Self::I) -> Self::I {
        unsafe { _mm512_dpbusd_epi32(c, a, b) }
    }

    #[inline(always)]
    fn lookup_bytes(table: &[i8; 16], x: Self::I) -> Self::I {
        unsafe {
            let table = _mm_loadu_si128(table.as_ptr().cast());
            _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), x)
        }
    }
}
