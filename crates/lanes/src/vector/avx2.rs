//! The AVX2 back end: two 256-bit registers hold 16 lanes, conditions are vectors of all ones or zeros.
//! Needs AVX2, FMA and F16C (see [`crate::Backend::Avx2`]).

// Every block below executes AVX2 instructions; the contract of `Lanes` says where that is allowed.
#![allow(clippy::undocumented_unsafe_blocks)]

use std::arch::x86_64::*;

use super::{Lanes, WIDTH, nan};

/// Lanes in pairs of 256-bit registers.
#[derive(Clone, Copy, Debug)]
pub struct Avx2;

/// Lanes 0–7 and 8–15.
#[derive(Clone, Copy)]
pub struct Pair(__m256i, __m256i);
/// 64-bit lanes, four in each register.
#[derive(Clone, Copy)]
pub struct Quad([__m256i; 4]);

#[inline(always)]
fn f(v: __m256i) -> __m256 {
    unsafe { _mm256_castsi256_ps(v) }
}
#[inline(always)]
fn i(v: __m256) -> __m256i {
    unsafe { _mm256_castps_si256(v) }
}
#[inline(always)]
fn d(v: __m256i) -> __m256d {
    unsafe { _mm256_castsi256_pd(v) }
}
#[inline(always)]
fn id(v: __m256d) -> __m256i {
    unsafe { _mm256_castpd_si256(v) }
}
#[inline(always)]
fn both(a: Pair, b: Pair, f: impl Fn(__m256i, __m256i) -> __m256i) -> Pair {
    Pair(f(a.0, b.0), f(a.1, b.1))
}
#[inline(always)]
fn quad2(a: Quad, b: Quad, f: impl Fn(__m256i, __m256i) -> __m256i) -> Quad {
    Quad([
        f(a.0[0], b.0[0]),
        f(a.0[1], b.0[1]),
        f(a.0[2], b.0[2]),
        f(a.0[3], b.0[3]),
    ])
}
#[inline(always)]
fn not(v: __m256i) -> __m256i {
    unsafe { _mm256_xor_si256(v, _mm256_set1_epi32(-1)) }
}

/// Replaces the NaNs of `r` by those the operands call for.
#[inline(always)]
fn fix<const N: usize>(r: Pair, operands: [Pair; N]) -> Pair {
    let bad = Avx2::bits(Avx2::unordered_f32(r, r));
    if bad == 0 {
        return r;
    }
    let mut lanes = Avx2::to_array(r);
    fix_lanes(&mut lanes, &operands.map(Avx2::to_array), bad);
    Avx2::from_array(lanes)
}
#[cold]
#[inline(never)]
fn fix_lanes<const N: usize>(r: &mut [u32; WIDTH], operands: &[[u32; WIDTH]; N], bad: u16) {
    for lane in (0..WIDTH).filter(|l| bad >> l & 1 != 0) {
        r[lane] = nan::of_f32(&operands.map(|o| o[lane]));
    }
}
#[inline(always)]
fn fix_d<const N: usize>(r: Quad, operands: [Quad; N]) -> Quad {
    let bad = Avx2::bits(Avx2::unordered_f64(r, r));
    if bad == 0 {
        return r;
    }
    let mut lanes = Avx2::w_to_array(r);
    fix_wide_lanes(&mut lanes, &operands.map(Avx2::w_to_array), bad);
    Avx2::w_from_array(lanes)
}
#[cold]
#[inline(never)]
fn fix_wide_lanes<const N: usize>(r: &mut [u64; WIDTH], operands: &[[u64; WIDTH]; N], bad: u16) {
    for lane in (0..WIDTH).filter(|l| bad >> l & 1 != 0) {
        r[lane] = nan::of_f64(&operands.map(|o| o[lane]));
    }
}
/// f32 sum rounded to odd.
#[inline(always)]
fn add_odd(x: __m256i, y: __m256i) -> __m256i {
    unsafe {
        let (x, y) = (f(x), f(y));
        let sum = _mm256_add_ps(x, y);
        // The exact error of the rounded sum; not a number where the sum is none.
        let part = _mm256_sub_ps(sum, x);
        let err = _mm256_add_ps(
            _mm256_sub_ps(x, _mm256_sub_ps(sum, part)),
            _mm256_sub_ps(y, part),
        );
        let inexact = i(_mm256_cmp_ps::<_CMP_NEQ_OQ>(err, _mm256_setzero_ps()));
        // Even results move by one unit toward the exact sum: up in magnitude if the error has its sign.
        let sum = i(sum);
        let apart = _mm256_srai_epi32::<31>(_mm256_xor_si256(sum, i(err)));
        let step = _mm256_or_si256(apart, _mm256_set1_epi32(1));
        let one = _mm256_set1_epi32(1);
        let even = _mm256_sub_epi32(_mm256_and_si256(sum, one), one);
        _mm256_add_epi32(sum, _mm256_and_si256(step, _mm256_and_si256(inexact, even)))
    }
}
/// Conditions of 32-bit lanes from four registers of 64-bit ones.
#[inline(always)]
fn narrow_mask(q: Quad) -> Pair {
    unsafe {
        let order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
        let half = |a, b| {
            let a = _mm256_permutevar8x32_epi32(a, order);
            let b = _mm256_permutevar8x32_epi32(b, order);
            _mm256_permute2x128_si256::<0x20>(a, b)
        };
        Pair(half(q.0[0], q.0[1]), half(q.0[2], q.0[3]))
    }
}

// SAFETY: the instructions are those of the sets named above; callers keep the contract of `Lanes`.
unsafe impl Lanes for Avx2 {
    type V = Pair;
    type W = Quad;
    type M = Pair;

    #[inline(always)]
    unsafe fn load(p: *const u32) -> Pair {
        unsafe {
            Pair(
                _mm256_loadu_si256(p.cast()),
                _mm256_loadu_si256(p.add(8).cast()),
            )
        }
    }
    #[inline(always)]
    unsafe fn store(p: *mut u32, v: Pair) {
        unsafe {
            _mm256_storeu_si256(p.cast(), v.0);
            _mm256_storeu_si256(p.add(8).cast(), v.1);
        }
    }
    #[inline(always)]
    fn splat(x: u32) -> Pair {
        let v = unsafe { _mm256_set1_epi32(x as i32) };
        Pair(v, v)
    }
    #[inline(always)]
    fn to_array(v: Pair) -> [u32; WIDTH] {
        unsafe { std::mem::transmute([v.0, v.1]) }
    }
    #[inline(always)]
    fn from_array(a: [u32; WIDTH]) -> Pair {
        let [lo, hi]: [__m256i; 2] = unsafe { std::mem::transmute(a) };
        Pair(lo, hi)
    }
    #[inline(always)]
    fn w_to_array(v: Quad) -> [u64; WIDTH] {
        unsafe { std::mem::transmute(v.0) }
    }
    #[inline(always)]
    fn w_from_array(a: [u64; WIDTH]) -> Quad {
        Quad(unsafe { std::mem::transmute::<[u64; WIDTH], [__m256i; 4]>(a) })
    }
    #[inline(always)]
    fn join(lo: Pair, hi: Pair) -> Quad {
        unsafe {
            let half = |l: __m256i, h: __m256i| {
                let even = _mm256_unpacklo_epi32(l, h);
                let odd = _mm256_unpackhi_epi32(l, h);
                [
                    _mm256_permute2x128_si256::<0x20>(even, odd),
                    _mm256_permute2x128_si256::<0x31>(even, odd),
                ]
            };
            let [a, b] = half(lo.0, hi.0);
            let [c, e] = half(lo.1, hi.1);
            Quad([a, b, c, e])
        }
    }
    #[inline(always)]
    fn split(w: Quad) -> (Pair, Pair) {
        unsafe {
            let order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
            let half = |a, b| {
                let a = _mm256_permutevar8x32_epi32(a, order);
                let b = _mm256_permutevar8x32_epi32(b, order);
                (
                    _mm256_permute2x128_si256::<0x20>(a, b),
                    _mm256_permute2x128_si256::<0x31>(a, b),
                )
            };
            let (l0, h0) = half(w.0[0], w.0[1]);
            let (l1, h1) = half(w.0[2], w.0[3]);
            (Pair(l0, l1), Pair(h0, h1))
        }
    }
    #[inline(always)]
    fn mask(bits: u16) -> Pair {
        unsafe {
            let select = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            let lo = _mm256_and_si256(_mm256_set1_epi32(i32::from(bits & 0xff)), select);
            let hi = _mm256_and_si256(_mm256_set1_epi32(i32::from(bits >> 8)), select);
            Pair(
                _mm256_cmpeq_epi32(lo, select),
                _mm256_cmpeq_epi32(hi, select),
            )
        }
    }
    #[inline(always)]
    fn bits(m: Pair) -> u16 {
        unsafe { (_mm256_movemask_ps(f(m.0)) | _mm256_movemask_ps(f(m.1)) << 8) as u16 }
    }
    #[inline(always)]
    fn select(m: Pair, a: Pair, b: Pair) -> Pair {
        unsafe {
            Pair(
                _mm256_blendv_epi8(b.0, a.0, m.0),
                _mm256_blendv_epi8(b.1, a.1, m.1),
            )
        }
    }
    #[inline(always)]
    fn w_select(m: Pair, a: Quad, b: Quad) -> Quad {
        let m = Self::join(m, m);
        Quad(std::array::from_fn(|k| unsafe {
            _mm256_blendv_epi8(b.0[k], a.0[k], m.0[k])
        }))
    }
    #[inline(always)]
    fn m_and(a: Pair, b: Pair) -> Pair {
        Self::and(a, b)
    }
    #[inline(always)]
    fn m_or(a: Pair, b: Pair) -> Pair {
        Self::or(a, b)
    }
    #[inline(always)]
    fn m_not(a: Pair) -> Pair {
        Pair(not(a.0), not(a.1))
    }
    #[inline(always)]
    fn add(a: Pair, b: Pair) -> Pair {
        both(a, b, |x, y| unsafe { _mm256_add_epi32(x, y) })
    }
    #[inline(always)]
    fn sub(a: Pair, b: Pair) -> Pair {
        both(a, b, |x, y| unsafe { _mm256_sub_epi32(x, y) })
    }
    #[inline(always)]
    fn mul(a: Pair, b: Pair) -> Pair {
        both(a, b, |x, y| unsafe { _mm256_mullo_epi32(x, y) })
    }
    #[inline(always)]
    fn and(a: Pair, b: Pair) -> Pair {
        both(a, b, |x, y| unsafe { _mm256_and_si256(x, y) })
    }
    #[inline(always)]
    fn or(a: Pair, b: Pair) -> Pair {
        both(a, b, |x, y| unsafe { _mm256_or_si256(x, y) })
    }
    #[inline(always)]
    fn xor(a: Pair, b: Pair) -> Pair {
        both(a, b, |x, y| unsafe { _mm256_xor_si256(x, y) })
    }
    #[inline(always)]
    fn shl(a: Pair, n: Pair) -> Pair {
        both(a, n, |x, n| unsafe {
            _mm256_sllv_epi32(x, _mm256_and_si256(n, _mm256_set1_epi32(31)))
        })
    }
    #[inline(always)]
    fn shr(a: Pair, n: Pair) -> Pair {
        both(a, n, |x, n| unsafe {
            _mm256_srlv_epi32(x, _mm256_and_si256(n, _mm256_set1_epi32(31)))
        })
    }
    #[inline(always)]
    fn sar(a: Pair, n: Pair) -> Pair {
        both(a, n, |x, n| unsafe {
            _mm256_srav_epi32(x, _mm256_and_si256(n, _mm256_set1_epi32(31)))
        })
    }
    #[inline(always)]
    fn min_i(a: Pair, b: Pair) -> Pair {
        both(a, b, |x, y| unsafe { _mm256_min_epi32(x, y) })
    }
    #[inline(always)]
    fn max_i(a: Pair, b: Pair) -> Pair {
        both(a, b, |x, y| unsafe { _mm256_max_epi32(x, y) })
    }
    #[inline(always)]
    fn min_u(a: Pair, b: Pair) -> Pair {
        both(a, b, |x, y| unsafe { _mm256_min_epu32(x, y) })
    }
    #[inline(always)]
    fn max_u(a: Pair, b: Pair) -> Pair {
        both(a, b, |x, y| unsafe { _mm256_max_epu32(x, y) })
    }
    #[inline(always)]
    fn eq(a: Pair, b: Pair) -> Pair {
        both(a, b, |x, y| unsafe { _mm256_cmpeq_epi32(x, y) })
    }
    #[inline(always)]
    fn lt_i(a: Pair, b: Pair) -> Pair {
        both(a, b, |x, y| unsafe { _mm256_cmpgt_epi32(y, x) })
    }
    #[inline(always)]
    fn lt_u(a: Pair, b: Pair) -> Pair {
        both(a, b, |x, y| unsafe {
            not(_mm256_cmpeq_epi32(_mm256_max_epu32(x, y), x))
        })
    }
    #[inline(always)]
    fn mul_hi_u(a: Pair, b: Pair) -> Pair {
        both(a, b, |x, y| unsafe {
            let even = _mm256_srli_epi64::<32>(_mm256_mul_epu32(x, y));
            let odd = _mm256_mul_epu32(_mm256_srli_epi64::<32>(x), _mm256_srli_epi64::<32>(y));
            _mm256_blend_epi32::<0b1010_1010>(even, odd)
        })
    }
    #[inline(always)]
    fn mul_hi_i(a: Pair, b: Pair) -> Pair {
        both(a, b, |x, y| unsafe {
            let even = _mm256_srli_epi64::<32>(_mm256_mul_epi32(x, y));
            let odd = _mm256_mul_epi32(_mm256_srli_epi64::<32>(x), _mm256_srli_epi64::<32>(y));
            _mm256_blend_epi32::<0b1010_1010>(even, odd)
        })
    }
    #[inline(always)]
    fn perm_bytes(a: Pair, b: Pair, sel: Pair) -> Pair {
        let one = |a, b, sel| unsafe {
            let set = |x: i8| _mm256_set1_epi8(x);
            // Bytes of the other lanes in the same 128 bits are reached by adding the lane's place.
            let place = _mm256_setr_epi8(
                0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12, 0, 0, 0, 0, 4, 4, 4, 4, 8, 8,
                8, 8, 12, 12, 12, 12,
            );
            let special = _mm256_cmpeq_epi8(_mm256_max_epu8(sel, set(8)), sel);
            let pair = _mm256_and_si256(sel, set(3));
            let odd = _mm256_or_si256(_mm256_add_epi8(pair, pair), set(1));
            let index = _mm256_blendv_epi8(sel, odd, special);
            let within = _mm256_or_si256(_mm256_and_si256(index, set(3)), place);
            let upper = _mm256_cmpeq_epi8(_mm256_and_si256(index, set(4)), set(4));
            let byte = _mm256_blendv_epi8(
                _mm256_shuffle_epi8(b, within),
                _mm256_shuffle_epi8(a, within),
                upper,
            );
            let sign = _mm256_cmpgt_epi8(_mm256_setzero_si256(), byte);
            let ones = _mm256_cmpeq_epi8(_mm256_max_epu8(sel, set(13)), sel);
            let filled = _mm256_or_si256(
                _mm256_andnot_si256(_mm256_cmpeq_epi8(sel, set(12)), sign),
                ones,
            );
            _mm256_blendv_epi8(byte, filled, special)
        };
        Pair(one(a.0, b.0, sel.0), one(a.1, b.1, sel.1))
    }
    #[inline(always)]
    fn add_f32(a: Pair, b: Pair) -> Pair {
        fix(
            both(a, b, |x, y| unsafe { i(_mm256_add_ps(f(x), f(y))) }),
            [a, b],
        )
    }
    #[inline(always)]
    fn sub_f32(a: Pair, b: Pair) -> Pair {
        fix(
            both(a, b, |x, y| unsafe { i(_mm256_sub_ps(f(x), f(y))) }),
            [a, b],
        )
    }
    #[inline(always)]
    fn mul_f32(a: Pair, b: Pair) -> Pair {
        fix(
            both(a, b, |x, y| unsafe { i(_mm256_mul_ps(f(x), f(y))) }),
            [a, b],
        )
    }
    #[inline(always)]
    fn fma_f32(a: Pair, b: Pair, c: Pair) -> Pair {
        let r = unsafe {
            Pair(
                i(_mm256_fmadd_ps(f(a.0), f(b.0), f(c.0))),
                i(_mm256_fmadd_ps(f(a.1), f(b.1), f(c.1))),
            )
        };
        fix(r, [a, b, c])
    }
    #[inline(always)]
    fn eq_f32(a: Pair, b: Pair) -> Pair {
        both(a, b, |x, y| unsafe {
            i(_mm256_cmp_ps::<_CMP_EQ_OQ>(f(x), f(y)))
        })
    }
    #[inline(always)]
    fn lt_f32(a: Pair, b: Pair) -> Pair {
        both(a, b, |x, y| unsafe {
            i(_mm256_cmp_ps::<_CMP_LT_OQ>(f(x), f(y)))
        })
    }
    #[inline(always)]
    fn le_f32(a: Pair, b: Pair) -> Pair {
        both(a, b, |x, y| unsafe {
            i(_mm256_cmp_ps::<_CMP_LE_OQ>(f(x), f(y)))
        })
    }
    #[inline(always)]
    fn unordered_f32(a: Pair, b: Pair) -> Pair {
        both(a, b, |x, y| unsafe {
            i(_mm256_cmp_ps::<_CMP_UNORD_Q>(f(x), f(y)))
        })
    }
    #[inline(always)]
    fn f32_from_i32(a: Pair) -> Pair {
        unsafe { Pair(i(_mm256_cvtepi32_ps(a.0)), i(_mm256_cvtepi32_ps(a.1))) }
    }
    #[inline(always)]
    fn f32_from_u32(a: Pair) -> Pair {
        Self::map1(a, |x| (x as f32).to_bits())
    }
    #[inline(always)]
    fn f32_from_f16(a: Pair) -> Pair {
        unsafe {
            let halves = |v: __m256i| {
                let v = _mm256_and_si256(v, _mm256_set1_epi32(0xffff));
                let packed =
                    _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
                i(_mm256_cvtph_ps(packed))
            };
            Pair(halves(a.0), halves(a.1))
        }
    }
    #[inline(always)]
    fn f16_from_f32(a: Pair) -> Pair {
        unsafe {
            let halves =
                |v| _mm256_cvtepu16_epi32(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(f(v)));
            Pair(halves(a.0), halves(a.1))
        }
    }
    #[inline(always)]
    fn f16_from_f32_toward_zero(a: Pair) -> Pair {
        unsafe {
            let halves = |v| _mm256_cvtepu16_epi32(_mm256_cvtps_ph::<_MM_FROUND_TO_ZERO>(f(v)));
            Pair(halves(a.0), halves(a.1))
        }
    }
    #[inline(always)]
    fn add_odd_f32(a: Pair, b: Pair) -> Pair {
        let sum = Pair(add_odd(a.0, b.0), add_odd(a.1, b.1));
        fix(sum, [a, b])
    }
    #[inline(always)]
    fn min_f32(a: Pair, b: Pair) -> Pair {
        both(a, b, |x, y| unsafe {
            i(_mm256_or_ps(
                _mm256_min_ps(f(x), f(y)),
                _mm256_min_ps(f(y), f(x)),
            ))
        })
    }
    #[inline(always)]
    fn max_f32(a: Pair, b: Pair) -> Pair {
        both(a, b, |x, y| unsafe {
            i(_mm256_and_ps(
                _mm256_max_ps(f(x), f(y)),
                _mm256_max_ps(f(y), f(x)),
            ))
        })
    }
    #[inline(always)]
    fn add_f64(a: Quad, b: Quad) -> Quad {
        fix_d(
            quad2(a, b, |x, y| unsafe { id(_mm256_add_pd(d(x), d(y))) }),
            [a, b],
        )
    }
    #[inline(always)]
    fn mul_f64(a: Quad, b: Quad) -> Quad {
        fix_d(
            quad2(a, b, |x, y| unsafe { id(_mm256_mul_pd(d(x), d(y))) }),
            [a, b],
        )
    }
    #[inline(always)]
    fn fma_f64(a: Quad, b: Quad, c: Quad) -> Quad {
        let r = Quad(std::array::from_fn(|k| unsafe {
            id(_mm256_fmadd_pd(d(a.0[k]), d(b.0[k]), d(c.0[k])))
        }));
        fix_d(r, [a, b, c])
    }
    #[inline(always)]
    fn eq_f64(a: Quad, b: Quad) -> Pair {
        narrow_mask(quad2(a, b, |x, y| unsafe {
            id(_mm256_cmp_pd::<_CMP_EQ_OQ>(d(x), d(y)))
        }))
    }
    #[inline(always)]
    fn lt_f64(a: Quad, b: Quad) -> Pair {
        narrow_mask(quad2(a, b, |x, y| unsafe {
            id(_mm256_cmp_pd::<_CMP_LT_OQ>(d(x), d(y)))
        }))
    }
    #[inline(always)]
    fn le_f64(a: Quad, b: Quad) -> Pair {
        narrow_mask(quad2(a, b, |x, y| unsafe {
            id(_mm256_cmp_pd::<_CMP_LE_OQ>(d(x), d(y)))
        }))
    }
    #[inline(always)]
    fn unordered_f64(a: Quad, b: Quad) -> Pair {
        narrow_mask(quad2(a, b, |x, y| unsafe {
            id(_mm256_cmp_pd::<_CMP_UNORD_Q>(d(x), d(y)))
        }))
    }
}
