//! Eight lanes in AVX2 and FMA.

// Every block below executes instructions of the extension; the contract of `Vector` says where that is allowed.
#![allow(clippy::undocumented_unsafe_blocks)]

use core::arch::x86_64::*;

use super::vector::Vector;

/// Eight lanes.
#[derive(Clone, Copy, Debug)]
pub(super) struct V256;

impl Vector for V256 {
    type F = __m256;
    type I = __m256i;
    type D = __m256d;
    type M = __m256i;
    const LANES: usize = 8;
    const SUMS: usize = 8;

    #[inline(always)]
    fn zero() -> Self::F {
        unsafe { _mm256_setzero_ps() }
    }

    #[inline(always)]
    fn splat(x: f32) -> Self::F {
        unsafe { _mm256_set1_ps(x) }
    }

    #[inline(always)]
    fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn add(a: Self::F, b: Self::F) -> Self::F {
        unsafe { _mm256_add_ps(a, b) }
    }

    #[inline(always)]
    fn sub(a: Self::F, b: Self::F) -> Self::F {
        unsafe { _mm256_sub_ps(a, b) }
    }

    #[inline(always)]
    fn mul(a: Self::F, b: Self::F) -> Self::F {
        unsafe { _mm256_mul_ps(a, b) }
    }

    #[inline(always)]
    fn splat_i(x: i32) -> Self::I {
        unsafe { _mm256_set1_epi32(x) }
    }

    #[inline(always)]
    fn add_i(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm256_add_epi32(a, b) }
    }

    #[inline(always)]
    fn sub_i(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm256_sub_epi32(a, b) }
    }

    #[inline(always)]
    fn and(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm256_and_si256(a, b) }
    }

    #[inline(always)]
    fn or(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm256_or_si256(a, b) }
    }

    #[inline(always)]
    fn xor(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm256_xor_si256(a, b) }
    }

    #[inline(always)]
    fn max_i(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm256_max_epi32(a, b) }
    }

    #[inline(always)]
    fn min_u(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm256_min_epu32(a, b) }
    }

    #[inline(always)]
    fn shl<const N: i32>(a: Self::I) -> Self::I {
        unsafe { _mm256_slli_epi32::<N>(a) }
    }

    #[inline(always)]
    fn shr<const N: i32>(a: Self::I) -> Self::I {
        unsafe { _mm256_srli_epi32::<N>(a) }
    }

    #[inline(always)]
    fn shl_each(a: Self::I, n: Self::I) -> Self::I {
        unsafe { _mm256_sllv_epi32(a, n) }
    }

    #[inline(always)]
    fn sar_each(a: Self::I, n: Self::I) -> Self::I {
        unsafe { _mm256_srav_epi32(a, n) }
    }

    #[inline(always)]
    fn sub_floor(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm256_subs_epu16(a, b) }
    }

    #[inline(always)]
    fn dot_pairs(a: Self::I, b: Self::I, c: Self::I) -> Self::I {
        unsafe { _mm256_add_epi32(_mm256_madd_epi16(a, b), c) }
    }

    #[inline(always)]
    fn shl16<const N: i32>(a: Self::I) -> Self::I {
        unsafe { _mm256_slli_epi16::<N>(a) }
    }

    #[inline(always)]
    fn shr16<const N: i32>(a: Self::I) -> Self::I {
        unsafe { _mm256_srli_epi16::<N>(a) }
    }

    #[inline(always)]
    fn sar16<const N: i32>(a: Self::I) -> Self::I {
        unsafe { _mm256_srai_epi16::<N>(a) }
    }

    #[inline(always)]
    fn bits(x: Self::F) -> Self::I {
        unsafe { _mm256_castps_si256(x) }
    }

    #[inline(always)]
    fn float(x: Self::I) -> Self::F {
        unsafe { _mm256_castsi256_ps(x) }
    }

    #[inline(always)]
    fn convert(x: Self::I) -> Self::F {
        unsafe { _mm256_cvtepi32_ps(x) }
    }

    #[inline(always)]
    fn truncate(x: Self::F) -> Self::I {
        unsafe { _mm256_cvttps_epi32(x) }
    }

    #[inline(always)]
    fn equal(a: Self::I, b: Self::I) -> Self::M {
        unsafe { _mm256_cmpeq_epi32(a, b) }
    }

    #[inline(always)]
    fn select(m: Self::M, a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm256_blendv_epi8(b, a, m) }
    }

    #[inline(always)]
    fn quad(x: Self::F, i: usize) -> Self::F {
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
    fn canonical(x: Self::F) -> Self::F {
        unsafe {
            let nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x);
            _mm256_blendv_ps(x, _mm256_set1_ps(f32::from_bits(0x7fc0_0000)), nan)
        }
    }

    #[inline(always)]
    fn flush(x: Self::F, limit: Self::F) -> Self::F {
        unsafe {
            let sign = _mm256_set1_ps(-0.0);
            let tiny = _mm256_cmp_ps::<_CMP_LT_OQ>(_mm256_andnot_ps(sign, x), limit);
            _mm256_andnot_ps(_mm256_andnot_ps(sign, tiny), x)
        }
    }

    #[inline(always)]
    fn flush_positive(x: Self::F, limit: Self::F) -> Self::F {
        unsafe {
            let tiny =
                _mm256_cmp_ps::<_CMP_LT_OQ>(_mm256_andnot_ps(_mm256_set1_ps(-0.0), x), limit);
            _mm256_andnot_ps(tiny, x)
        }
    }

    #[inline(always)]
    fn halves(x: Self::I) -> (Self::F, Self::F) {
        unsafe {
            let low = _mm256_and_si256(x, _mm256_set1_epi32(0xffff));
            let packed = _mm256_permute4x64_epi64::<0xd8>(_mm256_packus_epi32(
                low,
                _mm256_srli_epi32::<16>(x),
            ));
            (
                _mm256_cvtph_ps(_mm256_castsi256_si128(packed)),
                _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(packed)),
            )
        }
    }

    #[inline(always)]
    fn floor_product<const NEAR: bool>(x: Self::F, scale: Self::F) -> Self::I {
        unsafe {
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
    }

    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self::F {
        unsafe { _mm256_loadu_ps(p) }
    }

    #[inline(always)]
    unsafe fn store(p: *mut f32, x: Self::F) {
        unsafe { _mm256_storeu_ps(p, x) }
    }

    #[inline(always)]
    unsafe fn store_bytes(p: *mut i8, x: Self::I) {
        unsafe {
            let words = _mm256_packs_epi32(x, x);
            let words = _mm256_permute4x64_epi64::<0x08>(words);
            let bytes =
                _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_castsi256_si128(words));
            _mm_storel_epi64(p.cast(), bytes)
        }
    }

    #[inline(always)]
    unsafe fn load_bytes(p: *const u8) -> Self::I {
        unsafe { _mm256_cvtepu8_epi32(_mm_loadl_epi64(p.cast())) }
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
            for (first, out) in out.chunks_exact_mut(2).enumerate() {
                // Row 0 in the lower half, row 1 in the upper half.
                let pick = _mm256_set_m128i(_mm_set1_epi8(1), _mm_setzero_si128());
                let mut top = _mm256_set1_epi8(floor);
                for k in (0..a.len() / STEP).map(|k| START + k * STEP) {
                    let rows = &a[k][row + first / 2 * next + first % 2 * 2..][..2];
                    let rows =
                        _mm256_set1_epi16(i16::from_le_bytes([rows[0] as u8, rows[1] as u8]));
                    let columns = &b[k][column..column + 16];
                    let columns =
                        _mm256_broadcastsi128_si256(_mm_loadu_si128(columns.as_ptr().cast()));
                    top = _mm256_max_epi8(
                        top,
                        _mm256_adds_epi8(_mm256_shuffle_epi8(rows, pick), columns),
                    );
                }
                let top = _mm256_add_epi8(top, _mm256_set1_epi8(bias as i8));
                _mm256_storeu_si256(out.as_mut_ptr().cast(), top);
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
            let half = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x);
            let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(x, x));
            _mm256_blendv_epi8(_mm256_cvtepu16_epi32(half), _mm256_set1_epi32(0x7e00), nan)
        }
    }

    #[inline(always)]
    fn splat_d(x: f64) -> Self::D {
        unsafe { _mm256_set1_pd(x) }
    }

    #[inline(always)]
    fn fma_d(a: Self::D, b: Self::D, c: Self::D) -> Self::D {
        unsafe { _mm256_fmadd_pd(a, b, c) }
    }

    #[inline(always)]
    fn mul_d(a: Self::D, b: Self::D) -> Self::D {
        unsafe { _mm256_mul_pd(a, b) }
    }

    #[inline(always)]
    fn widen(x: Self::F) -> (Self::D, Self::D) {
        unsafe {
            (
                _mm256_cvtps_pd(_mm256_castps256_ps128(x)),
                _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(x)),
            )
        }
    }

    #[inline(always)]
    fn narrow(low: Self::D, high: Self::D) -> Self::F {
        unsafe { _mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low)) }
    }

    #[inline(always)]
    fn add_odd(a: Self::D, b: Self::D) -> Self::D {
        unsafe {
            let sum = _mm256_add_pd(a, b);
            let back = _mm256_sub_pd(sum, a);
            let error = _mm256_add_pd(
                _mm256_sub_pd(a, _mm256_sub_pd(sum, back)),
                _mm256_sub_pd(b, back),
            );
            let bits = _mm256_castpd_si256(sum);
            let zero = _mm256_setzero_si256();
            let inexact =
                _mm256_castpd_si256(_mm256_cmp_pd::<_CMP_NEQ_OQ>(error, _mm256_setzero_pd()));
            let even = _mm256_cmpeq_epi64(_mm256_and_si256(bits, _mm256_set1_epi64x(1)), zero);
            // Away from zero if the error has the sum's sign, else towards it.
            let opposite =
                _mm256_cmpgt_epi64(zero, _mm256_xor_si256(bits, _mm256_castpd_si256(error)));
            let step = _mm256_or_si256(opposite, _mm256_set1_epi64x(1));
            let step = _mm256_and_si256(step, _mm256_and_si256(inexact, even));
            _mm256_add_pd(
                _mm256_castsi256_pd(_mm256_add_epi64(bits, step)),
                _mm256_setzero_pd(),
            )
        }
    }

    #[inline(always)]
    fn lookup_signed(table: &[f32; 8], x: Self::I) -> Self::F {
        unsafe {
            let table = _mm256_loadu_ps(table.as_ptr());
            let sign = _mm256_and_si256(_mm256_slli_epi32::<28>(x), _mm256_set1_epi32(i32::MIN));
            _mm256_xor_ps(
                _mm256_permutevar8x32_ps(table, x),
                _mm256_castsi256_ps(sign),
            )
        }
    }

    #[inline(always)]
    fn flush16(x: Self::I, mask: i32) -> Self::I {
        unsafe {
            let bits = _mm256_and_si256(x, _mm256_set1_epi32(mask));
            _mm256_andnot_si256(_mm256_cmpeq_epi16(bits, _mm256_setzero_si256()), x)
        }
    }

    #[inline(always)]
    fn any_zero_byte(x: Self::I) -> bool {
        unsafe { _mm256_movemask_epi8(_mm256_cmpeq_epi8(x, _mm256_setzero_si256())) != 0 }
    }

    #[inline(always)]
    fn max_u16(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm256_max_epu16(a, b) }
    }

    #[inline(always)]
    fn max_u8(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm256_max_epu8(a, b) }
    }

    #[inline(always)]
    fn all() -> Self::M {
        unsafe { _mm256_set1_epi32(-1) }
    }

    #[inline(always)]
    fn ordered(m: Self::M, a: Self::F, b: Self::F) -> Self::M {
        unsafe {
            let ordered = _mm256_cmp_ps::<_CMP_ORD_Q>(a, b);
            _mm256_and_si256(m, _mm256_castps_si256(ordered))
        }
    }

    #[inline(always)]
    fn both(a: Self::M, b: Self::M) -> Self::M {
        unsafe { _mm256_and_si256(a, b) }
    }

    #[inline(always)]
    fn max_u(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm256_max_epu32(a, b) }
    }

    #[inline(always)]
    fn is_any(m: Self::M) -> bool {
        unsafe { _mm256_testz_si256(m, m) == 0 }
    }

    #[inline(always)]
    fn is_all(m: Self::M) -> bool {
        unsafe { _mm256_movemask_epi8(m) == -1 }
    }

    #[inline(always)]
    unsafe fn load_d(p: *const f64) -> Self::D {
        unsafe { _mm256_loadu_pd(p) }
    }

    #[inline(always)]
    unsafe fn store_d(p: *mut f64, x: Self::D) {
        unsafe { _mm256_storeu_pd(p, x) }
    }

    #[inline(always)]
    fn sar<const N: u32>(a: Self::I) -> Self::I {
        unsafe { _mm256_sra_epi32(a, _mm_cvtsi32_si128(N as i32)) }
    }

    #[inline(always)]
    fn any_greater(a: Self::I, b: Self::I) -> bool {
        unsafe { _mm256_movemask_epi8(_mm256_cmpgt_epi32(a, b)) != 0 }
    }

    #[inline(always)]
    fn min_u16(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm256_min_epu16(a, b) }
    }

    #[inline(always)]
    fn min_u8(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm256_min_epu8(a, b) }
    }

    #[inline(always)]
    fn add_i16(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm256_add_epi16(a, b) }
    }

    #[inline(always)]
    fn add_i8(a: Self::I, b: Self::I) -> Self::I {
        unsafe { _mm256_add_epi8(a, b) }
    }

    #[inline(always)]
    fn or_xor(a: Self::I, b: Self::I, c: Self::I) -> Self::I {
        unsafe { _mm256_or_si256(a, _mm256_xor_si256(b, c)) }
    }

    #[inline(always)]
    fn least_u16(x: Self::I) -> u32 {
        unsafe {
            let x = _mm_min_epu16(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
            _mm_cvtsi128_si32(_mm_minpos_epu16(x)) as u32 & 0xffff
        }
    }

    #[inline(always)]
    fn any_bits(x: Self::I) -> u32 {
        unsafe {
            let x = _mm_or_si128(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
            let x = (_mm_cvtsi128_si64(x) | _mm_extract_epi64::<1>(x)) as u64;
            x as u32 | (x >> 32) as u32
        }
    }

    #[inline(always)]
    fn zip_d(low: Self::F, high: Self::F) -> (Self::D, Self::D) {
        unsafe {
            let first = _mm256_unpacklo_ps(low, high);
            let second = _mm256_unpackhi_ps(low, high);
            (
                _mm256_castps_pd(_mm256_permute2f128_ps::<0x20>(first, second)),
                _mm256_castps_pd(_mm256_permute2f128_ps::<0x31>(first, second)),
            )
        }
    }

    #[inline(always)]
    fn unzip_d(low: Self::D, high: Self::D) -> (Self::F, Self::F) {
        unsafe {
            let (low, high) = (_mm256_castpd_ps(low), _mm256_castpd_ps(high));
            let first = _mm256_permute2f128_ps::<0x20>(low, high);
            let second = _mm256_permute2f128_ps::<0x31>(low, high);
            (
                _mm256_shuffle_ps::<0x88>(first, second),
                _mm256_shuffle_ps::<0xdd>(first, second),
            )
        }
    }

    #[inline(always)]
    fn xor_d(a: Self::D, b: Self::D) -> Self::D {
        unsafe { _mm256_xor_pd(a, b) }
    }

    #[inline(always)]
    fn canonical_d(x: Self::D, nan: f64) -> Self::D {
        unsafe { _mm256_blendv_pd(x, _mm256_set1_pd(nan), _mm256_cmp_pd::<_CMP_UNORD_Q>(x, x)) }
    }

    #[inline(always)]
    fn add_saturating(a: Self::I, b: Self::I) -> Self::I {
        unsafe {
            let sum = _mm256_add_epi32(a, b);
            // Same signs, and the sum has another one.
            let over = _mm256_andnot_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(a, sum));
            let most = _mm256_xor_si256(_mm256_srai_epi32::<31>(a), _mm256_set1_epi32(i32::MAX));
            _mm256_castps_si256(_mm256_blendv_ps(
                _mm256_castsi256_ps(sum),
                _mm256_castsi256_ps(most),
                _mm256_castsi256_ps(over),
            ))
        }
    }
}
