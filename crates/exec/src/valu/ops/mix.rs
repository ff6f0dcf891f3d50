//! Multiply-add of mixed precision: each source is an f32, or an f16 or bf16 half that is widened.
//!
//! The operation itself applies op_sel, op_sel_hi, neg and abs, since they mean something else in each source.
//! Its immediate has four bits for each source: 0 narrow, 1 the high half, 2 absolute value, 3 negated.

use rocjitsu_lanes::fp::Mode;
use rocjitsu_lanes::kernel::Aux;
use rocjitsu_lanes::scalar::arithmetic as arith;
use rocjitsu_lanes::scalar::convert;
use rocjitsu_lanes::vector::Lanes;

use super::ops;
use super::support::mode;

ops! {
    v_fma_mix_f32[x](a: Mixed, b: Mixed, c: Mixed) -> F32 {
        let [a, b, c] = halves::<L>(x, [a, b, c]);
        L::fma_f32(a, b, c)
    }
    => modal { let m = mode(x); three::<L>(halves::<L>(x, [a, b, c]), |a, b, c| arith::v_fma_f32(a, b, c, m)) }
    v_fma_mixlo_f16 | v_fma_mixhi_f16[x](a: Mixed, b: Mixed, c: Mixed) -> F16 {
        let [a, b, c] = halves::<L>(x, [a, b, c]);
        L::f16_from_f32(flushed::<L>(x, L::fma_f32(a, b, c)))
    }
    => modal {
        let m = mode(x);
        three::<L>(halves::<L>(x, [a, b, c]), |a, b, c| arith::v_fma_mixlo_f16(a, b, c, m).into())
    }
    v_fma_mix_f32_bf16[x](a: Mixed, b: Mixed, c: Mixed) -> F32 {
        let [a, b, c] = brain_halves::<L>(x, [a, b, c]);
        L::fma_f32(a, b, c)
    }
    => modal { let m = mode(x); three::<L>(brain_halves::<L>(x, [a, b, c]), |a, b, c| arith::v_fma_f32(a, b, c, m)) }
    v_fma_mixlo_bf16 | v_fma_mixhi_bf16[x](a: Mixed, b: Mixed, c: Mixed) -> Bf16 {
        let [a, b, c] = brain_halves::<L>(x, [a, b, c]);
        let sum = flushed::<L>(x, L::fma_f32(a, b, c));
        L::map1(sum, |r| convert::v_cvt_pk_bf16_f32(r, 0, false))
    }
    => modal {
        let m = mode(x);
        three::<L>(brain_halves::<L>(x, [a, b, c]), |a, b, c| arith::v_fma_mixlo_bf16(a, b, c, m).into())
    }
}

#[inline(always)]
fn three<L: Lanes>([a, b, c]: [L::V; 3], f: impl Fn(u32, u32, u32) -> u32) -> L::V {
    L::map3(a, b, c, f)
}

/// An f32 with subnormals flushed, if MODE flushes f32 results.
#[inline(always)]
fn flushed<L: Lanes>(x: Aux, v: L::V) -> L::V {
    if mode(x).flush_out32 {
        zeroed::<L>(v, 0x7f80_0000, 1 << 31)
    } else {
        v
    }
}

/// `v`, or a zero of its sign where the bits of `exponent` are clear.
#[inline(always)]
fn zeroed<L: Lanes>(v: L::V, exponent: u32, sign: u32) -> L::V {
    let subnormal = L::eq(L::and(v, L::splat(exponent)), L::splat(0));
    L::select(subnormal, L::and(v, L::splat(sign)), v)
}

/// The sources as f32, with f16 halves.
#[inline(always)]
fn halves<L: Lanes>(x: Aux, [a, b, c]: [L::V; 3]) -> [L::V; 3] {
    let m = mode(x);
    [
        source::<L, false>(x, 0, a, m),
        source::<L, false>(x, 1, b, m),
        source::<L, false>(x, 2, c, m),
    ]
}

/// The sources as f32, with bf16 halves.
#[inline(always)]
fn brain_halves<L: Lanes>(x: Aux, [a, b, c]: [L::V; 3]) -> [L::V; 3] {
    let m = mode(x);
    [
        source::<L, true>(x, 0, a, m),
        source::<L, true>(x, 1, b, m),
        source::<L, true>(x, 2, c, m),
    ]
}

/// Source `slot` as an f32.
#[inline(always)]
fn source<L: Lanes, const BRAIN: bool>(x: Aux, slot: u32, v: L::V, m: Mode) -> L::V {
    let bits = x.immediate() >> (4 * slot);
    let mut v = v;
    if bits & 1 != 0 {
        v = L::and(L::shr(v, L::splat(bits << 3 & 16)), L::splat(0xffff));
        if BRAIN {
            v = L::shl(v, L::splat(16));
        } else {
            if m.flush_in16_64 {
                v = zeroed::<L>(v, 0x7c00, 1 << 15);
            }
            v = L::f32_from_f16(v);
        }
    } else if m.flush_in32 {
        v = zeroed::<L>(v, 0x7f80_0000, 1 << 31);
    }
    let keep = if bits & 4 != 0 { 0x7fff_ffff } else { u32::MAX };
    L::xor(L::and(v, L::splat(keep)), L::splat((bits >> 3 & 1) << 31))
}
