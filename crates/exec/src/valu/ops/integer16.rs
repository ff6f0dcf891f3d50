//! 16-bit integer arithmetic, one value in each lane. Results have zero above bit 15.

use rocjitsu_lanes::kernel::Aux;
use rocjitsu_lanes::vector::Lanes;

use super::integer32::{bitop3, not};
use super::ops;

ops! {
    v_add_u16 | v_add_nc_u16[x](a: B16, b: B16) -> B16 { unsigned::<L>(x, L::add(a, b)) }
    v_sub_u16 | v_sub_nc_u16[x](a: B16, b: B16) -> B16 { sub_u::<L>(x, a, b) }
    v_subrev_u16[x](a: B16, b: B16) -> B16 { sub_u::<L>(x, b, a) }
    v_add_i16 | v_add_nc_i16[x](a: B16, b: B16) -> B16 { signed::<L>(x, L::add(sext::<L>(a), sext::<L>(b))) }
    v_sub_i16 | v_sub_nc_i16[x](a: B16, b: B16) -> B16 { signed::<L>(x, L::sub(sext::<L>(a), sext::<L>(b))) }
    v_mul_lo_u16(a: B16, b: B16) -> B16 { low::<L>(L::mul(a, b)) }
    v_mad_u16 | v_mad_legacy_u16[x](a: B16, b: B16, c: B16) -> B16 {
        // 0xffff * 0xffff + 0xffff fits 32 bits.
        unsigned::<L>(x, L::add(L::mul(a, b), c))
    }
    v_mad_i16 | v_mad_legacy_i16[x](a: B16, b: B16, c: B16) -> B16 {
        signed::<L>(x, L::add(L::mul(sext::<L>(a), sext::<L>(b)), sext::<L>(c)))
    }
    v_mad_u32_u16[x](a: B16, b: B16, c: B32) -> B32 {
        let product = L::mul(a, b);
        let sum = L::add(product, c);
        if x.clamp() { L::select(L::lt_u(sum, product), L::splat(u32::MAX), sum) } else { sum }
    }
    v_mad_i32_i16[x](a: B16, b: B16, c: B32) -> B32 {
        let product = L::mul(sext::<L>(a), sext::<L>(b));
        if x.clamp() {
            L::map2(product, c, |p, c| (p as i32).saturating_add(c as i32) as u32)
        } else {
            L::add(product, c)
        }
    }

    v_lshlrev_b16(n: B16, a: B16) -> B16 { low::<L>(L::shl(a, L::and(n, L::splat(15)))) }
    v_lshrrev_b16(n: B16, a: B16) -> B16 { L::shr(a, L::and(n, L::splat(15))) }
    v_ashrrev_i16(n: B16, a: B16) -> B16 { low::<L>(L::sar(sext::<L>(a), L::and(n, L::splat(15)))) }
    v_and_b16(a: B16, b: B16) -> B16 { L::and(a, b) }
    v_or_b16(a: B16, b: B16) -> B16 { L::or(a, b) }
    v_xor_b16(a: B16, b: B16) -> B16 { L::xor(a, b) }
    v_not_b16(a: B16) -> B16 { low::<L>(not::<L>(a)) }
    v_bitop3_b16[x](a: B16, b: B16, c: B16) -> B16 { low::<L>(bitop3::<L>(x.immediate(), a, b, c)) }

    v_min_u16(a: B16, b: B16) -> B16 { L::min_u(a, b) }
    v_max_u16(a: B16, b: B16) -> B16 { L::max_u(a, b) }
    v_min_i16(a: B16, b: B16) -> B16 { low::<L>(L::min_i(sext::<L>(a), sext::<L>(b))) }
    v_max_i16(a: B16, b: B16) -> B16 { low::<L>(L::max_i(sext::<L>(a), sext::<L>(b))) }
    v_min3_u16(a: B16, b: B16, c: B16) -> B16 { L::min_u(L::min_u(a, b), c) }
    v_max3_u16(a: B16, b: B16, c: B16) -> B16 { L::max_u(L::max_u(a, b), c) }
    v_med3_u16(a: B16, b: B16, c: B16) -> B16 { L::max_u(L::min_u(a, b), L::min_u(L::max_u(a, b), c)) }
    v_min3_i16(a: B16, b: B16, c: B16) -> B16 {
        low::<L>(L::min_i(L::min_i(sext::<L>(a), sext::<L>(b)), sext::<L>(c)))
    }
    v_max3_i16(a: B16, b: B16, c: B16) -> B16 {
        low::<L>(L::max_i(L::max_i(sext::<L>(a), sext::<L>(b)), sext::<L>(c)))
    }
    v_med3_i16(a: B16, b: B16, c: B16) -> B16 {
        let (a, b, c) = (sext::<L>(a), sext::<L>(b), sext::<L>(c));
        low::<L>(L::max_i(L::min_i(a, b), L::min_i(L::max_i(a, b), c)))
    }

    v_cvt_i32_i16(a: B16) -> B32 { sext::<L>(a) }
    v_cvt_u32_u16(a: B16) -> B32 { a }
    v_sat_pk_u8_i16(a: B32) -> B16 {
        L::map1(a, |a| {
            let byte = |half: u32| (half as u16 as i16).clamp(0, 255) as u32;
            byte(a) | byte(a >> 16) << 8
        })
    }
    v_sat_pk4_i4_i8(a: B32) -> B16 {
        L::map1(a, |a| {
            (0..4).fold(0, |packed, i| {
                let value = ((a >> (8 * i)) as u8 as i8).clamp(-8, 7);
                packed | (value as u32 & 15) << (4 * i)
            })
        })
    }
    v_sat_pk4_u4_u8(a: B32) -> B16 {
        L::map1(a, |a| (0..4).fold(0, |packed, i| packed | (a >> (8 * i) & 0xff).min(15) << (4 * i)))
    }
    /// Writes 16 bits; the other half of the register stays as it is.
    v_ashr_pk_i8_i32(a: B32, b: B32, n: B32) -> B16 {
        let part = |v| L::map2(v, n, |v, n| (v as i32 >> (n & 31)).clamp(-128, 127) as u32 & 0xff);
        L::or(part(a), L::shl(part(b), L::splat(8)))
    }
    v_ashr_pk_u8_i32(a: B32, b: B32, n: B32) -> B16 {
        let part = |v| L::map2(v, n, |v, n| (v as i32 >> (n & 31)).clamp(0, 255) as u32);
        L::or(part(a), L::shl(part(b), L::splat(8)))
    }
}

/// Sign-extends the low half.
#[inline(always)]
pub(super) fn sext<L: Lanes>(a: L::V) -> L::V {
    L::sar(L::shl(a, L::splat(16)), L::splat(16))
}

/// The low half.
#[inline(always)]
pub(super) fn low<L: Lanes>(a: L::V) -> L::V {
    L::and(a, L::splat(0xffff))
}

/// An exact unsigned result, cut or saturated.
#[inline(always)]
fn unsigned<L: Lanes>(x: Aux, exact: L::V) -> L::V {
    if x.clamp() {
        L::min_u(exact, L::splat(0xffff))
    } else {
        low::<L>(exact)
    }
}

/// An exact signed result, cut or saturated.
#[inline(always)]
fn signed<L: Lanes>(x: Aux, exact: L::V) -> L::V {
    let exact = if x.clamp() {
        L::max_i(
            L::min_i(exact, L::splat(0x7fff)),
            L::splat(-0x8000i32 as u32),
        )
    } else {
        exact
    };
    low::<L>(exact)
}

#[inline(always)]
fn sub_u<L: Lanes>(x: Aux, a: L::V, b: L::V) -> L::V {
    if x.clamp() {
        L::sub(L::max_u(a, b), b)
    } else {
        low::<L>(L::sub(a, b))
    }
}
