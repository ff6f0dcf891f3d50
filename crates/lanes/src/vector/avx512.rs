//! The AVX-512 back end: one register holds 16 lanes, conditions are k-masks.
//! Needs F, BW, CD, DQ, VL, FMA and F16C (see [`crate::Backend::Avx512`]).

// Every block below executes AVX-512 instructions; the contract of `Lanes` says where that is allowed.
#![allow(clippy::undocumented_unsafe_blocks)]

use std::arch::x86_64::*;

use super::{Lanes, WIDTH, nan, round};

/// Lanes in 512-bit registers.
#[derive(Clone, Copy, Debug)]
pub struct Avx512;

/// f64 or u64 lanes 0–7 and 8–15.
#[derive(Clone, Copy)]
pub struct Wide(__m512i, __m512i);

#[inline(always)]
fn f(v: __m512i) -> __m512 {
    unsafe { _mm512_castsi512_ps(v) }
}
#[inline(always)]
fn i(v: __m512) -> __m512i {
    unsafe { _mm512_castps_si512(v) }
}
#[inline(always)]
fn d(v: __m512i) -> __m512d {
    unsafe { _mm512_castsi512_pd(v) }
}
#[inline(always)]
fn id(v: __m512d) -> __m512i {
    unsafe { _mm512_castpd_si512(v) }
}

/// Replaces the NaNs of `r` by those the operands call for.
#[inline(always)]
fn fix<const N: usize>(r: __m512, operands: [__m512i; N]) -> __m512i {
    let bad = unsafe { _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(r, r) };
    if bad == 0 {
        i(r)
    } else {
        fix_cold(i(r), operands, bad)
    }
}
#[cold]
#[inline(never)]
#[target_feature(enable = "avx512f")]
fn fix_lanes<const N: usize>(r: &mut [u32; WIDTH], operands: &[[u32; WIDTH]; N], bad: u16) {
    for lane in (0..WIDTH).filter(|l| bad >> l & 1 != 0) {
        r[lane] = nan::of_f32(&operands.map(|o| o[lane]));
    }
}
#[inline(always)]
fn fix_cold<const N: usize>(r: __m512i, operands: [__m512i; N], bad: u16) -> __m512i {
    let mut lanes = Avx512::to_array(r);
    unsafe { fix_lanes(&mut lanes, &operands.map(Avx512::to_array), bad) };
    Avx512::from_array(lanes)
}
#[inline(always)]
fn fix_d<const N: usize>(r0: __m512d, r1: __m512d, operands: [Wide; N]) -> Wide {
    let bad = unsafe {
        u16::from(_mm512_cmp_pd_mask::<_CMP_UNORD_Q>(r0, r0))
            | u16::from(_mm512_cmp_pd_mask::<_CMP_UNORD_Q>(r1, r1)) << 8
    };
    let r = Wide(id(r0), id(r1));
    if bad == 0 {
        return r;
    }
    let mut lanes = Avx512::w_to_array(r);
    unsafe { fix_wide_lanes(&mut lanes, &operands.map(Avx512::w_to_array), bad) };
    Avx512::w_from_array(lanes)
}
#[cold]
#[inline(never)]
#[target_feature(enable = "avx512f")]
fn fix_wide_lanes<const N: usize>(r: &mut [u64; WIDTH], operands: &[[u64; WIDTH]; N], bad: u16) {
    for lane in (0..WIDTH).filter(|l| bad >> l & 1 != 0) {
        r[lane] = nan::of_f64(&operands.map(|o| o[lane]));
    }
}
#[inline(always)]
fn two(lo: u8, hi: u8) -> u16 {
    u16::from(lo) | u16::from(hi) << 8
}

// SAFETY: the instructions are those of the sets named above; callers keep the contract of `Lanes`.
unsafe impl Lanes for Avx512 {
    type V = __m512i;
    type W = Wide;
    type M = __mmask16;

    #[inline(always)]
    unsafe fn load(p: *const u32) -> __m512i {
        unsafe { _mm512_loadu_si512(p.cast()) }
    }
    #[inline(always)]
    unsafe fn store(p: *mut u32, v: __m512i) {
        // Volatile, since a blend followed by an ordinary store becomes a masked store.
        unsafe { p.cast::<__m512i>().write_volatile(v) }
    }
    #[inline(always)]
    fn splat(x: u32) -> __m512i {
        unsafe { _mm512_set1_epi32(x as i32) }
    }
    #[inline(always)]
    fn to_array(v: __m512i) -> [u32; WIDTH] {
        unsafe { std::mem::transmute(v) }
    }
    #[inline(always)]
    fn from_array(a: [u32; WIDTH]) -> __m512i {
        unsafe { std::mem::transmute(a) }
    }
    #[inline(always)]
    fn w_to_array(v: Wide) -> [u64; WIDTH] {
        unsafe { std::mem::transmute([v.0, v.1]) }
    }
    #[inline(always)]
    fn w_from_array(a: [u64; WIDTH]) -> Wide {
        let [lo, hi]: [__m512i; 2] = unsafe { std::mem::transmute(a) };
        Wide(lo, hi)
    }
    #[inline(always)]
    fn join(lo: __m512i, hi: __m512i) -> Wide {
        unsafe {
            let low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            let high =
                _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
            Wide(
                _mm512_permutex2var_epi32(lo, low, hi),
                _mm512_permutex2var_epi32(lo, high, hi),
            )
        }
    }
    #[inline(always)]
    fn split(w: Wide) -> (__m512i, __m512i) {
        unsafe {
            let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
            (
                _mm512_permutex2var_epi32(w.0, even, w.1),
                _mm512_permutex2var_epi32(w.0, odd, w.1),
            )
        }
    }
    #[inline(always)]
    fn mask(bits: u16) -> u16 {
        bits
    }
    #[inline(always)]
    fn bits(m: u16) -> u16 {
        m
    }
    #[inline(always)]
    fn select(m: u16, a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_mask_mov_epi32(b, m, a) }
    }
    #[inline(always)]
    fn w_select(m: u16, a: Wide, b: Wide) -> Wide {
        unsafe {
            Wide(
                _mm512_mask_mov_epi64(b.0, m as u8, a.0),
                _mm512_mask_mov_epi64(b.1, (m >> 8) as u8, a.1),
            )
        }
    }
    #[inline(always)]
    fn m_and(a: u16, b: u16) -> u16 {
        a & b
    }
    #[inline(always)]
    fn m_or(a: u16, b: u16) -> u16 {
        a | b
    }
    #[inline(always)]
    fn m_not(a: u16) -> u16 {
        !a
    }
    #[inline(always)]
    fn add(a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_add_epi32(a, b) }
    }
    #[inline(always)]
    fn sub(a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_sub_epi32(a, b) }
    }
    #[inline(always)]
    fn mul(a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_mullo_epi32(a, b) }
    }
    #[inline(always)]
    fn and(a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_and_si512(a, b) }
    }
    #[inline(always)]
    fn or(a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_or_si512(a, b) }
    }
    #[inline(always)]
    fn xor(a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_xor_si512(a, b) }
    }
    #[inline(always)]
    fn shl(a: __m512i, n: __m512i) -> __m512i {
        unsafe { _mm512_sllv_epi32(a, _mm512_and_si512(n, _mm512_set1_epi32(31))) }
    }
    #[inline(always)]
    fn shr(a: __m512i, n: __m512i) -> __m512i {
        unsafe { _mm512_srlv_epi32(a, _mm512_and_si512(n, _mm512_set1_epi32(31))) }
    }
    #[inline(always)]
    fn sar(a: __m512i, n: __m512i) -> __m512i {
        unsafe { _mm512_srav_epi32(a, _mm512_and_si512(n, _mm512_set1_epi32(31))) }
    }
    #[inline(always)]
    fn min_i(a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_min_epi32(a, b) }
    }
    #[inline(always)]
    fn max_i(a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_max_epi32(a, b) }
    }
    #[inline(always)]
    fn min_u(a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_min_epu32(a, b) }
    }
    #[inline(always)]
    fn max_u(a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_max_epu32(a, b) }
    }
    #[inline(always)]
    fn eq(a: __m512i, b: __m512i) -> u16 {
        unsafe { _mm512_cmpeq_epi32_mask(a, b) }
    }
    #[inline(always)]
    fn lt_i(a: __m512i, b: __m512i) -> u16 {
        unsafe { _mm512_cmplt_epi32_mask(a, b) }
    }
    #[inline(always)]
    fn lt_u(a: __m512i, b: __m512i) -> u16 {
        unsafe { _mm512_cmplt_epu32_mask(a, b) }
    }
    #[inline(always)]
    fn mul_hi_u(a: __m512i, b: __m512i) -> __m512i {
        unsafe {
            let even = _mm512_srli_epi64::<32>(_mm512_mul_epu32(a, b));
            let odd = _mm512_mul_epu32(_mm512_srli_epi64::<32>(a), _mm512_srli_epi64::<32>(b));
            _mm512_mask_mov_epi32(even, 0xaaaa, odd)
        }
    }
    #[inline(always)]
    fn mul_hi_i(a: __m512i, b: __m512i) -> __m512i {
        unsafe {
            let even = _mm512_srli_epi64::<32>(_mm512_mul_epi32(a, b));
            let odd = _mm512_mul_epi32(_mm512_srli_epi64::<32>(a), _mm512_srli_epi64::<32>(b));
            _mm512_mask_mov_epi32(even, 0xaaaa, odd)
        }
    }
    #[inline(always)]
    fn perm_bytes(a: __m512i, b: __m512i, sel: __m512i) -> __m512i {
        unsafe {
            let set = |x: i8| _mm512_set1_epi8(x);
            // Bytes of the other lanes in the same 128 bits are reached by adding the lane's place.
            let place = _mm512_broadcast_i32x4(_mm_setr_epi8(
                0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12,
            ));
            let special = _mm512_cmpge_epu8_mask(sel, set(8));
            let pair = _mm512_and_si512(sel, set(3));
            let odd = _mm512_or_si512(_mm512_add_epi8(pair, pair), set(1));
            let index = _mm512_mask_mov_epi8(sel, special, odd);
            let within = _mm512_or_si512(_mm512_and_si512(index, set(3)), place);
            let upper = _mm512_test_epi8_mask(index, set(4));
            let byte = _mm512_mask_mov_epi8(
                _mm512_shuffle_epi8(b, within),
                upper,
                _mm512_shuffle_epi8(a, within),
            );
            let sign = _mm512_movm_epi8(
                _mm512_movepi8_mask(byte) & !_mm512_cmpeq_epi8_mask(sel, set(12))
                    | _mm512_cmpge_epu8_mask(sel, set(13)),
            );
            _mm512_mask_mov_epi8(byte, special, sign)
        }
    }
    #[inline(always)]
    fn add_f32(a: __m512i, b: __m512i) -> __m512i {
        fix(unsafe { _mm512_add_ps(f(a), f(b)) }, [a, b])
    }
    #[inline(always)]
    fn sub_f32(a: __m512i, b: __m512i) -> __m512i {
        fix(unsafe { _mm512_sub_ps(f(a), f(b)) }, [a, b])
    }
    #[inline(always)]
    fn mul_f32(a: __m512i, b: __m512i) -> __m512i {
        fix(unsafe { _mm512_mul_ps(f(a), f(b)) }, [a, b])
    }
    #[inline(always)]
    fn fma_f32(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
        fix(unsafe { _mm512_fmadd_ps(f(a), f(b), f(c)) }, [a, b, c])
    }
    #[inline(always)]
    fn eq_f32(a: __m512i, b: __m512i) -> u16 {
        unsafe { _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(f(a), f(b)) }
    }
    #[inline(always)]
    fn lt_f32(a: __m512i, b: __m512i) -> u16 {
        unsafe { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(f(a), f(b)) }
    }
    #[inline(always)]
    fn le_f32(a: __m512i, b: __m512i) -> u16 {
        unsafe { _mm512_cmp_ps_mask::<_CMP_LE_OQ>(f(a), f(b)) }
    }
    #[inline(always)]
    fn unordered_f32(a: __m512i, b: __m512i) -> u16 {
        unsafe { _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(f(a), f(b)) }
    }
    #[inline(always)]
    fn f32_from_i32(a: __m512i) -> __m512i {
        i(unsafe { _mm512_cvtepi32_ps(a) })
    }
    #[inline(always)]
    fn f32_from_u32(a: __m512i) -> __m512i {
        i(unsafe { _mm512_cvtepu32_ps(a) })
    }
    #[inline(always)]
    fn i32_from_f32(a: __m512i) -> __m512i {
        unsafe {
            let number = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(f(a), f(a));
            let great = _mm512_cmp_ps_mask::<_CMP_LE_OQ>(_mm512_set1_ps(2_147_483_648.0), f(a));
            let value = _mm512_maskz_cvttps_epi32(number, f(a));
            _mm512_mask_mov_epi32(value, great, _mm512_set1_epi32(i32::MAX))
        }
    }
    #[inline(always)]
    fn u32_from_f32(a: __m512i) -> __m512i {
        // The maximum of a NaN and zero is the second operand.
        unsafe { _mm512_cvttps_epu32(_mm512_max_ps(f(a), _mm512_setzero_ps())) }
    }
    #[inline(always)]
    fn scale_f32(a: __m512i, e: __m512i) -> __m512i {
        // Counts that are not exact as f32 are far beyond the range of results.
        i(unsafe { _mm512_scalef_ps(f(a), _mm512_cvtepi32_ps(e)) })
    }
    #[inline(always)]
    fn round_f32<const TO: i32>(a: __m512i) -> __m512i {
        i(unsafe {
            match TO {
                round::NEAREST => _mm512_roundscale_ps::<{ round::NEAREST }>(f(a)),
                round::DOWN => _mm512_roundscale_ps::<{ round::DOWN }>(f(a)),
                round::UP => _mm512_roundscale_ps::<{ round::UP }>(f(a)),
                _ => _mm512_roundscale_ps::<{ round::ZERO }>(f(a)),
            }
        })
    }
    #[inline(always)]
    fn f32_from_f16(a: __m512i) -> __m512i {
        i(unsafe { _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a)) })
    }
    #[inline(always)]
    fn f16_from_f32(a: __m512i) -> __m512i {
        unsafe { _mm512_cvtepu16_epi32(_mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(f(a))) }
    }
    #[inline(always)]
    fn f16_from_f32_toward_zero(a: __m512i) -> __m512i {
        unsafe { _mm512_cvtepu16_epi32(_mm512_cvtps_ph::<_MM_FROUND_TO_ZERO>(f(a))) }
    }
    #[inline(always)]
    fn add_odd_f32(a: __m512i, b: __m512i) -> __m512i {
        unsafe {
            const DOWN: i32 = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
            const UP: i32 = _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC;
            const CUT: i32 = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;
            let down = _mm512_add_round_ps::<DOWN>(f(a), f(b));
            let up = _mm512_add_round_ps::<UP>(f(a), f(b));
            let cut = i(_mm512_add_round_ps::<CUT>(f(a), f(b)));
            let inexact = _mm512_cmp_ps_mask::<_CMP_NEQ_OQ>(down, up);
            let odd = _mm512_mask_or_epi32(cut, inexact, cut, _mm512_set1_epi32(1));
            fix(f(odd), [a, b])
        }
    }
    #[inline(always)]
    fn min_f32(a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_or_si512(i(_mm512_min_ps(f(a), f(b))), i(_mm512_min_ps(f(b), f(a)))) }
    }
    #[inline(always)]
    fn max_f32(a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_and_si512(i(_mm512_max_ps(f(a), f(b))), i(_mm512_max_ps(f(b), f(a)))) }
    }
    #[inline(always)]
    fn add_f64(a: Wide, b: Wide) -> Wide {
        unsafe {
            fix_d(
                _mm512_add_pd(d(a.0), d(b.0)),
                _mm512_add_pd(d(a.1), d(b.1)),
                [a, b],
            )
        }
    }
    #[inline(always)]
    fn mul_f64(a: Wide, b: Wide) -> Wide {
        unsafe {
            fix_d(
                _mm512_mul_pd(d(a.0), d(b.0)),
                _mm512_mul_pd(d(a.1), d(b.1)),
                [a, b],
            )
        }
    }
    #[inline(always)]
    fn fma_f64(a: Wide, b: Wide, c: Wide) -> Wide {
        unsafe {
            fix_d(
                _mm512_fmadd_pd(d(a.0), d(b.0), d(c.0)),
                _mm512_fmadd_pd(d(a.1), d(b.1), d(c.1)),
                [a, b, c],
            )
        }
    }
    #[inline(always)]
    fn eq_f64(a: Wide, b: Wide) -> u16 {
        unsafe {
            two(
                _mm512_cmp_pd_mask::<_CMP_EQ_OQ>(d(a.0), d(b.0)),
                _mm512_cmp_pd_mask::<_CMP_EQ_OQ>(d(a.1), d(b.1)),
            )
        }
    }
    #[inline(always)]
    fn lt_f64(a: Wide, b: Wide) -> u16 {
        unsafe {
            two(
                _mm512_cmp_pd_mask::<_CMP_LT_OQ>(d(a.0), d(b.0)),
                _mm512_cmp_pd_mask::<_CMP_LT_OQ>(d(a.1), d(b.1)),
            )
        }
    }
    #[inline(always)]
    fn le_f64(a: Wide, b: Wide) -> u16 {
        unsafe {
            two(
                _mm512_cmp_pd_mask::<_CMP_LE_OQ>(d(a.0), d(b.0)),
                _mm512_cmp_pd_mask::<_CMP_LE_OQ>(d(a.1), d(b.1)),
            )
        }
    }
    #[inline(always)]
    fn unordered_f64(a: Wide, b: Wide) -> u16 {
        unsafe {
            two(
                _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(d(a.0), d(b.0)),
                _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(d(a.1), d(b.1)),
            )
        }
    }
}
