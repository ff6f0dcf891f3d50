//! Bit fields, bit counts, byte permutation and sums of absolute differences.

use rocjitsu_lanes::kernel::Aux;
use rocjitsu_lanes::vector::Lanes;

use super::integer32::not;
use super::ops;

ops! {
    v_bfrev_b32(a: B32) -> B32 { L::reverse_bits(a) }
    v_ffbh_u32 | v_clz_i32_u32(a: B32) -> B32 { first_high::<L>(a) }
    v_ffbl_b32 | v_ctz_i32_b32(a: B32) -> B32 {
        // The bits below the lowest that is set.
        let below = L::and(not::<L>(a), L::sub(a, L::splat(1)));
        L::select(L::eq(a, L::splat(0)), L::splat(u32::MAX), L::count_ones(below))
    }
    v_ffbh_i32 | v_cls_i32(a: B32) -> B32 { first_high::<L>(L::xor(a, L::sar(a, L::splat(31)))) }
    v_bcnt_u32_b32(a: B32, b: B32) -> B32 { L::add(L::count_ones(a), b) }
    v_mbcnt_lo_u32_b32(a: B32, b: B32, lane: Lane) -> B32 {
        let all = L::lt_u(L::splat(31), lane);
        let below = L::select(all, L::splat(u32::MAX), below::<L>(lane));
        L::add(b, L::count_ones(L::and(a, below)))
    }
    v_mbcnt_hi_u32_b32(a: B32, b: B32, lane: Lane) -> B32 {
        let none = L::lt_u(lane, L::splat(32));
        let below = L::select(none, L::splat(0), below::<L>(lane));
        L::add(b, L::count_ones(L::and(a, below)))
    }
    v_bfe_u32(a: B32, at: B32, size: B32) -> B32 {
        let mask = L::sub(L::shl(L::splat(1), size), L::splat(1));
        L::and(L::shr(a, at), mask)
    }
    v_bfe_i32(a: B32, at: B32, size: B32) -> B32 {
        // Shift counts are taken modulo 32, so that a field of no bits would come out whole.
        let unused = L::sub(L::splat(0), size);
        let field = L::sar(L::shl(L::sar(a, at), unused), unused);
        let empty = L::eq(L::and(size, L::splat(31)), L::splat(0));
        L::select(empty, L::splat(0), field)
    }
    v_bfi_b32(a: B32, b: B32, c: B32) -> B32 { L::or(L::and(a, b), L::and(not::<L>(a), c)) }
    v_bfm_b32(size: B32, at: B32) -> B32 { L::shl(L::sub(L::shl(L::splat(1), size), L::splat(1)), at) }
    v_alignbit_b32(a: B32, b: B32, n: B16) -> B32 { align::<L>(a, b, n) }
    v_alignbyte_b32(a: B32, b: B32, n: B16) -> B32 { align::<L>(a, b, L::shl(L::and(n, L::splat(3)), L::splat(3))) }
    v_perm_b32(a: B32, b: B32, sel: B32) -> B32 { L::perm_bytes(a, b, sel) }
    /// A step of the shift register of the manual (gfx950, gfx1250).
    v_prng_b32(a: B32) -> B32 {
        L::xor(L::shl(a, L::splat(1)), L::and(L::sar(a, L::splat(31)), L::splat(197)))
    }

    v_lerp_u8(a: B32, b: B32, c: B32) -> B32 {
        // The average rounded down of two bytes is (a & b) + ((a ^ b) >> 1); rounding up adds their odd bit.
        L::map3(a, b, c, |a, b, c| {
            let half = (a ^ b) >> 1 & 0x7f7f_7f7f;
            (a & b).wrapping_add(half).wrapping_add((a ^ b) & c & 0x0101_0101)
        })
    }
    v_sad_u8[x](a: B32, b: B32, c: B32) -> B32 { L::map3(a, b, c, |a, b, c| sum(x, sad_u8(a, b), c)) }
    v_msad_u8[x](a: B32, b: B32, c: B32) -> B32 { L::map3(a, b, c, |a, b, c| sum(x, msad_u8(a, b), c)) }
    v_sad_hi_u8[x](a: B32, b: B32, c: B32) -> B32 { L::map3(a, b, c, |a, b, c| sum(x, sad_u8(a, b) << 16, c)) }
    v_sad_u16[x](a: B32, b: B32, c: B32) -> B32 {
        L::map3(a, b, c, |a, b, c| {
            sum(x, (a & 0xffff).abs_diff(b & 0xffff) + (a >> 16).abs_diff(b >> 16), c)
        })
    }
    v_sad_u32[x](a: B32, b: B32, c: B32) -> B32 { L::map3(a, b, c, |a, b, c| sum(x, a.abs_diff(b), c)) }
    v_qsad_pk_u16_u8[x](a: B64, b: B32, c: B64) -> B64 { quad::<L>(x, a, b, c, sad_u8) }
    v_mqsad_pk_u16_u8[x](a: B64, b: B32, c: B64) -> B64 { quad::<L>(x, a, b, c, msad_u8) }
}

/// Zero bits above the highest set one; all ones if there is none.
#[inline(always)]
fn first_high<L: Lanes>(a: L::V) -> L::V {
    L::select(
        L::eq(a, L::splat(0)),
        L::splat(u32::MAX),
        L::leading_zeros(a),
    )
}

/// Bits of the lanes below each lane, in its half of the mask.
#[inline(always)]
fn below<L: Lanes>(lane: L::V) -> L::V {
    L::sub(L::shl(L::splat(1), lane), L::splat(1))
}

/// The low word of `a:b` shifted right by the low five bits of `n`.
#[inline(always)]
fn align<L: Lanes>(a: L::V, b: L::V, n: L::V) -> L::V {
    // `a << 1 << (31 - n)` is `a << (32 - n)` for every n from 0 to 31.
    let high = L::shl(L::shl(a, L::splat(1)), L::xor(n, L::splat(31)));
    L::or(high, L::shr(b, n))
}

#[inline(always)]
fn sum(x: Aux, a: u32, b: u32) -> u32 {
    if x.clamp() {
        a.saturating_add(b)
    } else {
        a.wrapping_add(b)
    }
}

/// Sum of the absolute differences of four bytes.
#[inline(always)]
pub(super) fn sad_u8(a: u32, b: u32) -> u32 {
    (0..4)
        .map(|i| (a >> (8 * i) & 0xff).abs_diff(b >> (8 * i) & 0xff))
        .sum()
}

/// As [`sad_u8`], without the bytes where the reference `b` is zero.
#[inline(always)]
pub(crate) fn msad_u8(a: u32, b: u32) -> u32 {
    (0..4)
        .map(|i| {
            let reference = b >> (8 * i) & 0xff;
            if reference == 0 {
                0
            } else {
                (a >> (8 * i) & 0xff).abs_diff(reference)
            }
        })
        .sum()
}

/// Four sums over bytes 0–3, 1–4, 2–5 and 3–6 of `a`, each added to a 16-bit element of `c`.
#[inline(always)]
fn quad<L: Lanes>(x: Aux, a: L::W, b: L::V, c: L::W, f: impl Fn(u32, u32) -> u32) -> L::W {
    let b = L::widen(b, u64::from);
    L::w_map3(a, b, c, |a, b, c| {
        (0..4).fold(0, |packed, i| {
            let sum = f((a >> (8 * i)) as u32, b as u32) + (c >> (16 * i) & 0xffff) as u32;
            let sum = if x.clamp() {
                sum.min(0xffff)
            } else {
                sum & 0xffff
            };
            packed | u64::from(sum) << (16 * i)
        })
    })
}
