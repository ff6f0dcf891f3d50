//! Packed 16-bit integer arithmetic: two values in each lane.

use rocjitsu_lanes::kernel::Aux;
use rocjitsu_lanes::vector::Lanes;

use super::ops;

ops! {
    v_pk_add_u16[x](a: PkB16, b: PkB16) -> PkB16 {
        if x.clamp() { two::<L>(a, b, u16::saturating_add) } else { two::<L>(a, b, u16::wrapping_add) }
    }
    v_pk_sub_u16[x](a: PkB16, b: PkB16) -> PkB16 {
        if x.clamp() { two::<L>(a, b, u16::saturating_sub) } else { two::<L>(a, b, u16::wrapping_sub) }
    }
    v_pk_add_i16[x](a: PkB16, b: PkB16) -> PkB16 {
        if x.clamp() { two_i::<L>(a, b, i16::saturating_add) } else { two::<L>(a, b, u16::wrapping_add) }
    }
    v_pk_sub_i16[x](a: PkB16, b: PkB16) -> PkB16 {
        if x.clamp() { two_i::<L>(a, b, i16::saturating_sub) } else { two::<L>(a, b, u16::wrapping_sub) }
    }
    v_pk_mul_lo_u16(a: PkB16, b: PkB16) -> PkB16 { two::<L>(a, b, u16::wrapping_mul) }
    v_pk_mad_u16[x](a: PkB16, b: PkB16, c: PkB16) -> PkB16 {
        three::<L>(a, b, c, |a, b, c| {
            let exact = u32::from(a) * u32::from(b) + u32::from(c);
            if x.clamp() { exact.min(0xffff) as u16 } else { exact as u16 }
        })
    }
    v_pk_mad_i16[x](a: PkB16, b: PkB16, c: PkB16) -> PkB16 {
        three::<L>(a, b, c, |a, b, c| {
            let exact = i32::from(a as i16) * i32::from(b as i16) + i32::from(c as i16);
            if x.clamp() { exact.clamp(-0x8000, 0x7fff) as u16 } else { exact as u16 }
        })
    }
    v_pk_lshlrev_b16(n: PkB16, a: PkB16) -> PkB16 { two::<L>(n, a, |n, a| a << (n & 15)) }
    v_pk_lshrrev_b16(n: PkB16, a: PkB16) -> PkB16 { two::<L>(n, a, |n, a| a >> (n & 15)) }
    v_pk_ashrrev_i16(n: PkB16, a: PkB16) -> PkB16 { two::<L>(n, a, |n, a| (a as i16 >> (n & 15)) as u16) }
    v_pk_min_u16(a: PkB16, b: PkB16) -> PkB16 { two::<L>(a, b, u16::min) }
    v_pk_max_u16(a: PkB16, b: PkB16) -> PkB16 { two::<L>(a, b, u16::max) }
    v_pk_min_i16(a: PkB16, b: PkB16) -> PkB16 { two_i::<L>(a, b, i16::min) }
    v_pk_max_i16(a: PkB16, b: PkB16) -> PkB16 { two_i::<L>(a, b, i16::max) }
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
