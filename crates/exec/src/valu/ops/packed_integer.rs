//! Packed 16-bit integer arithmetic: two values in each lane.

use rocjitsu_lanes::kernel::Aux;
use rocjitsu_lanes::vector::Lanes;

use super::integer16::{low, sext};
use super::ops;

ops! {
    v_pk_add_u16[x](a: PkB16, b: PkB16) -> PkB16 {
        if x.clamp() { two::<L>(a, b, u16::saturating_add) } else { sums::<L>(a, b) }
    }
    v_pk_sub_u16[x](a: PkB16, b: PkB16) -> PkB16 {
        if x.clamp() { two::<L>(a, b, u16::saturating_sub) } else { differences::<L>(a, b) }
    }
    v_pk_add_i16[x](a: PkB16, b: PkB16) -> PkB16 {
        if x.clamp() { two_i::<L>(a, b, i16::saturating_add) } else { sums::<L>(a, b) }
    }
    v_pk_sub_i16[x](a: PkB16, b: PkB16) -> PkB16 {
        if x.clamp() { two_i::<L>(a, b, i16::saturating_sub) } else { differences::<L>(a, b) }
    }
    v_pk_mul_lo_u16(a: PkB16, b: PkB16) -> PkB16 { halves::<L, _>([a, b], low::<L>, |[a, b]| L::mul(a, b)) }
    v_pk_mad_u16[x](a: PkB16, b: PkB16, c: PkB16) -> PkB16 {
        halves::<L, _>([a, b, c], low::<L>, |[a, b, c]| {
            let exact = L::add(L::mul(a, b), c);
            if x.clamp() { L::min_u(exact, L::splat(0xffff)) } else { exact }
        })
    }
    v_pk_mad_i16[x](a: PkB16, b: PkB16, c: PkB16) -> PkB16 {
        halves::<L, _>([a, b, c], sext::<L>, |[a, b, c]| {
            let exact = L::add(L::mul(a, b), c);
            if x.clamp() {
                L::max_i(L::min_i(exact, L::splat(0x7fff)), L::splat(-0x8000i32 as u32))
            } else {
                exact
            }
        })
    }
    v_pk_lshlrev_b16(n: PkB16, a: PkB16) -> PkB16 { halves::<L, _>([n, a], low::<L>, |[n, a]| L::shl(a, count::<L>(n))) }
    v_pk_lshrrev_b16(n: PkB16, a: PkB16) -> PkB16 { halves::<L, _>([n, a], low::<L>, |[n, a]| L::shr(a, count::<L>(n))) }
    v_pk_ashrrev_i16(n: PkB16, a: PkB16) -> PkB16 { halves::<L, _>([n, a], sext::<L>, |[n, a]| L::sar(a, count::<L>(n))) }
    v_pk_min_u16(a: PkB16, b: PkB16) -> PkB16 { halves::<L, _>([a, b], low::<L>, |[a, b]| L::min_u(a, b)) }
    v_pk_max_u16(a: PkB16, b: PkB16) -> PkB16 { halves::<L, _>([a, b], low::<L>, |[a, b]| L::max_u(a, b)) }
    v_pk_min_i16(a: PkB16, b: PkB16) -> PkB16 { halves::<L, _>([a, b], sext::<L>, |[a, b]| L::min_i(a, b)) }
    v_pk_max_i16(a: PkB16, b: PkB16) -> PkB16 { halves::<L, _>([a, b], sext::<L>, |[a, b]| L::max_i(a, b)) }
    v_pk_min3_u16(a: PkB16, b: PkB16, c: PkB16) -> PkB16 { three::<L>(a, b, c, |a, b, c| a.min(b).min(c)) }
    v_pk_max3_u16(a: PkB16, b: PkB16, c: PkB16) -> PkB16 { three::<L>(a, b, c, |a, b, c| a.max(b).max(c)) }
    v_pk_min3_i16[x](a: PkB16, b: PkB16, c: PkB16) -> PkB16 {
        three_i::<L>(a, b, c, |a, b, c| relu(x, a.min(b).min(c)))
    }
    v_pk_max3_i16[x](a: PkB16, b: PkB16, c: PkB16) -> PkB16 {
        three_i::<L>(a, b, c, |a, b, c| relu(x, a.max(b).max(c)))
    }
    v_pk_add_min_u16(a: PkB16, b: PkB16, c: PkB16) -> PkB16 {
        three::<L>(a, b, c, |a, b, c| a.saturating_add(b).min(c))
    }
    v_pk_add_max_u16(a: PkB16, b: PkB16, c: PkB16) -> PkB16 {
        three::<L>(a, b, c, |a, b, c| a.saturating_add(b).max(c))
    }
    v_pk_add_min_i16[x](a: PkB16, b: PkB16, c: PkB16) -> PkB16 {
        three_i::<L>(a, b, c, |a, b, c| relu(x, a.saturating_add(b).min(c)))
    }
    v_pk_add_max_i16[x](a: PkB16, b: PkB16, c: PkB16) -> PkB16 {
        three_i::<L>(a, b, c, |a, b, c| relu(x, a.saturating_add(b).max(c)))
    }

    v_cvt_pk_u16_u32(a: B32, b: B32) -> PkB16 {
        let part = |v| L::min_u(v, L::splat(0xffff));
        L::or(part(a), L::shl(part(b), L::splat(16)))
    }
    v_cvt_pk_i16_i32(a: B32, b: B32) -> PkB16 {
        let part = |v| L::max_i(L::min_i(v, L::splat(0x7fff)), L::splat(-0x8000i32 as u32));
        L::or(L::and(part(a), L::splat(0xffff)), L::shl(part(b), L::splat(16)))
    }
}

/// What the clamp modifier does to these signed results (CDNA5 manual, V_PK_MIN3_I16): negative ones become zero.
#[inline(always)]
fn relu(x: Aux, value: i16) -> i16 {
    if x.clamp() { value.max(0) } else { value }
}

const SIGNS: u32 = 0x8000_8000;

/// Sums of halves: the lower bits cannot carry across, signs are added without carry.
#[inline(always)]
fn sums<L: Lanes>(a: L::V, b: L::V) -> L::V {
    let rest = |v| L::and(v, L::splat(!SIGNS));
    let signs = L::and(L::xor(a, b), L::splat(SIGNS));
    L::xor(L::add(rest(a), rest(b)), signs)
}

/// Differences of halves: the minuend's signs are set so that nothing is borrowed across.
#[inline(always)]
fn differences<L: Lanes>(a: L::V, b: L::V) -> L::V {
    let difference = L::sub(L::or(a, L::splat(SIGNS)), L::and(b, L::splat(!SIGNS)));
    // The sign that was set is right where the operands' signs are one apart.
    L::xor(
        difference,
        L::xor(L::and(L::xor(a, b), L::splat(SIGNS)), L::splat(SIGNS)),
    )
}

/// A shift count.
#[inline(always)]
fn count<L: Lanes>(v: L::V) -> L::V {
    L::and(v, L::splat(15))
}

/// A function of words for both halves of its operands, which `extend` takes out of the low half of a word.
#[inline(always)]
fn halves<L: Lanes, const N: usize>(
    operands: [L::V; N],
    extend: impl Fn(L::V) -> L::V,
    f: impl Fn([L::V; N]) -> L::V,
) -> L::V {
    let (mut lows, mut highs) = (operands, operands);
    for ((low, high), &word) in lows.iter_mut().zip(&mut highs).zip(&operands) {
        *low = extend(word);
        *high = extend(L::shr(word, L::splat(16)));
    }
    L::or(low::<L>(f(lows)), L::shl(f(highs), L::splat(16)))
}

#[inline(always)]
fn two<L: Lanes>(a: L::V, b: L::V, f: impl Fn(u16, u16) -> u16) -> L::V {
    L::map2(a, b, |a, b| {
        u32::from(f(a as u16, b as u16)) | u32::from(f((a >> 16) as u16, (b >> 16) as u16)) << 16
    })
}

#[inline(always)]
fn two_i<L: Lanes>(a: L::V, b: L::V, f: impl Fn(i16, i16) -> i16) -> L::V {
    two::<L>(a, b, |a, b| f(a as i16, b as i16) as u16)
}

#[inline(always)]
fn three<L: Lanes>(a: L::V, b: L::V, c: L::V, f: impl Fn(u16, u16, u16) -> u16) -> L::V {
    L::map3(a, b, c, |a, b, c| {
        let high = f((a >> 16) as u16, (b >> 16) as u16, (c >> 16) as u16);
        u32::from(f(a as u16, b as u16, c as u16)) | u32::from(high) << 16
    })
}

#[inline(always)]
fn three_i<L: Lanes>(a: L::V, b: L::V, c: L::V, f: impl Fn(i16, i16, i16) -> i16) -> L::V {
    three::<L>(a, b, c, |a, b, c| f(a as i16, b as i16, c as i16) as u16)
}
