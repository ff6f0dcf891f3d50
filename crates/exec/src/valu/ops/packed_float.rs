//! Packed floats: two f16 or bf16 in a word, two f32 in a pair of registers.

use rocjitsu_lanes::kernel::Aux;
use rocjitsu_lanes::scalar::{arithmetic as arith, minmax};
use rocjitsu_lanes::vector::Lanes;

use super::float16;
use super::minmax::{Max, Min, Rule, pairs};
use super::ops;
use super::support::{PLAIN, mode, pack, pair2, pair3, unpack_f16};

ops! {
    v_pk_add_f16[x](a: PkF16, b: PkF16) -> PkF16 {
        let ((al, ah), (bl, bh)) = (unpack_f16::<L>(a), unpack_f16::<L>(b));
        pack::<L>(float16::add::<L>(al, bl), float16::add::<L>(ah, bh))
    }
    => modal { let m = mode(x); pair2::<L>(a, b, |a, b| arith::v_add_f16(a, b, m)) }
    v_pk_mul_f16[x](a: PkF16, b: PkF16) -> PkF16 {
        let ((al, ah), (bl, bh)) = (unpack_f16::<L>(a), unpack_f16::<L>(b));
        pack::<L>(float16::mul::<L>(al, bl), float16::mul::<L>(ah, bh))
    }
    => modal { let m = mode(x); pair2::<L>(a, b, |a, b| arith::v_mul_f16(a, b, m)) }
    v_pk_fma_f16 | v_pk_fmac_f16[x](a: PkF16, b: PkF16, c: PkF16) -> PkF16 {
        let ((al, ah), (bl, bh), (cl, ch)) = (unpack_f16::<L>(a), unpack_f16::<L>(b), unpack_f16::<L>(c));
        pack::<L>(float16::fma::<L>(al, bl, cl), float16::fma::<L>(ah, bh, ch))
    }
    => modal { let m = mode(x); pair3::<L>(a, b, c, |a, b, c| arith::v_fma_f16(a, b, c, m)) }

    v_pk_min_f16[x](a: PkF16, b: PkF16) -> PkF16 { pairs::<L>(Rule::legacy(x), Min, a, b) }
    v_pk_max_f16[x](a: PkF16, b: PkF16) -> PkF16 { pairs::<L>(Rule::legacy(x), Max, a, b) }
    v_pk_min_num_f16(a: PkF16, b: PkF16) -> PkF16 { pairs::<L>(Rule::Number, Min, a, b) }
    v_pk_max_num_f16(a: PkF16, b: PkF16) -> PkF16 { pairs::<L>(Rule::Number, Max, a, b) }
    v_pk_minimum_f16(a: PkF16, b: PkF16) -> PkF16 { pairs::<L>(Rule::Propagate, Min, a, b) }
    v_pk_maximum_f16(a: PkF16, b: PkF16) -> PkF16 { pairs::<L>(Rule::Propagate, Max, a, b) }
    v_pk_min3_num_f16(a: PkF16, b: PkF16, c: PkF16) -> PkF16 {
        pairs::<L>(Rule::Number, Min, pairs::<L>(Rule::Number, Min, a, b), c)
    }
    v_pk_max3_num_f16(a: PkF16, b: PkF16, c: PkF16) -> PkF16 {
        pairs::<L>(Rule::Number, Max, pairs::<L>(Rule::Number, Max, a, b), c)
    }
    v_pk_minimum3_f16(a: PkF16, b: PkF16, c: PkF16) -> PkF16 {
        pairs::<L>(Rule::Propagate, Min, pairs::<L>(Rule::Propagate, Min, a, b), c)
    }
    v_pk_maximum3_f16(a: PkF16, b: PkF16, c: PkF16) -> PkF16 {
        pairs::<L>(Rule::Propagate, Max, pairs::<L>(Rule::Propagate, Max, a, b), c)
    }

    v_pk_add_bf16[x](a: PkBf16, b: PkBf16) -> PkBf16 {
        let (m, (al, ah), (bl, bh)) = (flush(x), unpack_bf16::<L>(a), unpack_bf16::<L>(b));
        let r = (L::add_f32(al, bl), L::add_f32(ah, bh));
        bf16_pair::<L>(m.flush_in16_64, r, L::mask(u16::MAX), || {
            pair2::<L>(a, b, |a, b| arith::v_add_bf16(a, b, m))
        })
    }
    => modal { let m = mode(x); pair2::<L>(a, b, |a, b| arith::v_add_bf16(a, b, m)) }
    v_pk_mul_bf16[x](a: PkBf16, b: PkBf16) -> PkBf16 {
        let (m, (al, ah), (bl, bh)) = (flush(x), unpack_bf16::<L>(a), unpack_bf16::<L>(b));
        let r = (L::mul_f32(al, bl), L::mul_f32(ah, bh));
        bf16_pair::<L>(m.flush_in16_64, r, L::mask(u16::MAX), || {
            pair2::<L>(a, b, |a, b| arith::v_mul_bf16(a, b, m))
        })
    }
    => modal { let m = mode(x); pair2::<L>(a, b, |a, b| arith::v_mul_bf16(a, b, m)) }
    v_pk_fma_bf16[x](a: PkBf16, b: PkBf16, c: PkBf16) -> PkBf16 {
        let (m, (al, ah), (bl, bh), (cl, ch)) =
            (flush(x), unpack_bf16::<L>(a), unpack_bf16::<L>(b), unpack_bf16::<L>(c));
        let (low, high) = (L::mul_f32(al, bl), L::mul_f32(ah, bh));
        let exact = L::m_and(ample::<L>(low), ample::<L>(high));
        let r = (L::add_odd_f32(low, cl), L::add_odd_f32(high, ch));
        bf16_pair::<L>(m.flush_in16_64, r, exact, || {
            pair3::<L>(a, b, c, |a, b, c| arith::v_fma_bf16(a, b, c, m))
        })
    }
    => modal { let m = mode(x); pair3::<L>(a, b, c, |a, b, c| arith::v_fma_bf16(a, b, c, m)) }
    v_pk_min_num_bf16(a: PkBf16, b: PkBf16) -> PkBf16 { pair2::<L>(a, b, minmax::v_min_num_bf16) }
    v_pk_max_num_bf16(a: PkBf16, b: PkBf16) -> PkBf16 { pair2::<L>(a, b, minmax::v_max_num_bf16) }

    v_pk_add_f32[x](a: PkF32, b: PkF32) -> PkF32 {
        let (a, b) = (signed::<L>(x, 0, a), signed::<L>(x, 1, b));
        (L::add_f32(a.0, b.0), L::add_f32(a.1, b.1))
    }
    => modal {
        let (m, a, b) = (mode(x), signed::<L>(x, 0, a), signed::<L>(x, 1, b));
        (
            L::map2(a.0, b.0, |a, b| arith::v_add_f32(a, b, m)),
            L::map2(a.1, b.1, |a, b| arith::v_add_f32(a, b, m)),
        )
    }
    v_pk_mul_f32[x](a: PkF32, b: PkF32) -> PkF32 {
        let (a, b) = (signed::<L>(x, 0, a), signed::<L>(x, 1, b));
        (L::mul_f32(a.0, b.0), L::mul_f32(a.1, b.1))
    }
    => modal {
        let (m, a, b) = (mode(x), signed::<L>(x, 0, a), signed::<L>(x, 1, b));
        (
            L::map2(a.0, b.0, |a, b| arith::v_mul_f32(a, b, m)),
            L::map2(a.1, b.1, |a, b| arith::v_mul_f32(a, b, m)),
        )
    }
    v_pk_fma_f32[x](a: PkF32, b: PkF32, c: PkF32) -> PkF32 {
        let (a, b, c) = (signed::<L>(x, 0, a), signed::<L>(x, 1, b), signed::<L>(x, 2, c));
        (L::fma_f32(a.0, b.0, c.0), L::fma_f32(a.1, b.1, c.1))
    }
    => modal {
        let (m, a, b, c) = (mode(x), signed::<L>(x, 0, a), signed::<L>(x, 1, b), signed::<L>(x, 2, c));
        (
            L::map3(a.0, b.0, c.0, |a, b, c| arith::v_fma_f32(a, b, c, m)),
            L::map3(a.1, b.1, c.1, |a, b, c| arith::v_fma_f32(a, b, c, m)),
        )
    }
}

/// Source `slot` of a packed f32 operation with its signs: bits `2 * slot` and `2 * slot + 1` of the
/// immediate negate the low and the high element.
#[inline(always)]
fn signed<L: Lanes>(x: Aux, slot: u32, a: (L::V, L::V)) -> (L::V, L::V) {
    let bits = x.immediate() >> (2 * slot);
    let sign = |bit: u32| L::splat((bits >> bit & 1) << 31);
    (L::xor(a.0, sign(0)), L::xor(a.1, sign(1)))
}

/// Round to nearest even, subnormals by MODE: the engine does not flush bf16.
#[inline(always)]
fn flush(x: Aux) -> rocjitsu_lanes::fp::Mode {
    rocjitsu_lanes::fp::Mode {
        fp16_ovfl: false,
        round16_64: PLAIN.round16_64,
        ..mode(x)
    }
}

/// bf16 of f32 values, to nearest even: the value in the low half of each lane.
#[inline(always)]
fn to_bf16<L: Lanes>(v: L::V) -> L::V {
    let odd = L::and(L::shr(v, L::splat(16)), L::splat(1));
    L::shr(L::add(L::add(v, L::splat(0x7fff)), odd), L::splat(16))
}

/// Whether f32 values are zero or normal numbers of more than the least size: then their arithmetic is exact
/// enough for bf16.
#[inline(always)]
fn ample<L: Lanes>(v: L::V) -> L::M {
    let magnitude = L::and(v, L::splat(0x7fff_ffff));
    let sized = L::m_and(
        L::lt_u(L::splat(0x00ff_ffff), magnitude),
        L::lt_u(magnitude, L::splat(0x7f80_0000)),
    );
    L::m_or(sized, L::eq(magnitude, L::splat(0)))
}

/// Both halves of packed bf16 values as f32: low, high.
#[inline(always)]
fn unpack_bf16<L: Lanes>(a: L::V) -> (L::V, L::V) {
    (L::shl(a, L::splat(16)), L::and(a, L::splat(0xffff_0000)))
}

/// Packed bf16 of f32 results where all of `checked` are ample; the lanes of `slow` otherwise. No subnormal is
/// met then, so that flushing makes no difference to the results; `flushes` says whether MODE flushes sources.
#[inline(always)]
fn bf16_pair<L: Lanes>(
    flushes: bool,
    r: (L::V, L::V),
    checked: L::M,
    slow: impl FnOnce() -> L::V,
) -> L::V {
    let ok = L::m_and(checked, L::m_and(ample::<L>(r.0), ample::<L>(r.1)));
    if flushes || L::bits(ok) != u16::MAX {
        return slow();
    }
    pack::<L>(to_bf16::<L>(r.0), to_bf16::<L>(r.1))
}
