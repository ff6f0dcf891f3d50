//! Packed floats: two f16 or bf16 in a word, two f32 in a pair of registers.

use rocjitsu_lanes::kernel::Aux;
use rocjitsu_lanes::scalar::{arithmetic as arith, minmax};
use rocjitsu_lanes::vector::Lanes;

use super::float16;
use super::float32::nan_rules;
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

    v_pk_min_f16[x](a: PkF16, b: PkF16) -> PkF16 {
        let rules = nan_rules(x);
        two::<L>(a, b, L::min_f32, move |a, b| minmax::v_min_f16(a, b, rules))
    }
    v_pk_max_f16[x](a: PkF16, b: PkF16) -> PkF16 {
        let rules = nan_rules(x);
        two::<L>(a, b, L::max_f32, move |a, b| minmax::v_max_f16(a, b, rules))
    }
    v_pk_min_num_f16(a: PkF16, b: PkF16) -> PkF16 { two::<L>(a, b, L::min_f32, minmax::v_min_num_f16) }
    v_pk_max_num_f16(a: PkF16, b: PkF16) -> PkF16 { two::<L>(a, b, L::max_f32, minmax::v_max_num_f16) }
    v_pk_minimum_f16(a: PkF16, b: PkF16) -> PkF16 { two::<L>(a, b, L::min_f32, minmax::v_minimum_f16) }
    v_pk_maximum_f16(a: PkF16, b: PkF16) -> PkF16 { two::<L>(a, b, L::max_f32, minmax::v_maximum_f16) }
    v_pk_min3_num_f16(a: PkF16, b: PkF16, c: PkF16) -> PkF16 { pair3::<L>(a, b, c, minmax::v_min3_num_f16) }
    v_pk_max3_num_f16(a: PkF16, b: PkF16, c: PkF16) -> PkF16 { pair3::<L>(a, b, c, minmax::v_max3_num_f16) }
    v_pk_minimum3_f16(a: PkF16, b: PkF16, c: PkF16) -> PkF16 { pair3::<L>(a, b, c, minmax::v_minimum3_f16) }
    v_pk_maximum3_f16(a: PkF16, b: PkF16, c: PkF16) -> PkF16 { pair3::<L>(a, b, c, minmax::v_maximum3_f16) }

    v_pk_add_bf16[x](a: PkBf16, b: PkBf16) -> PkBf16 { pair2::<L>(a, b, |a, b| arith::v_add_bf16(a, b, flush(x))) }
    => modal { let m = mode(x); pair2::<L>(a, b, |a, b| arith::v_add_bf16(a, b, m)) }
    v_pk_mul_bf16[x](a: PkBf16, b: PkBf16) -> PkBf16 { pair2::<L>(a, b, |a, b| arith::v_mul_bf16(a, b, flush(x))) }
    => modal { let m = mode(x); pair2::<L>(a, b, |a, b| arith::v_mul_bf16(a, b, m)) }
    v_pk_fma_bf16[x](a: PkBf16, b: PkBf16, c: PkBf16) -> PkBf16 {
        pair3::<L>(a, b, c, |a, b, c| arith::v_fma_bf16(a, b, c, flush(x)))
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
    rocjitsu_lanes::fp::Mode { fp16_ovfl: false, round16_64: PLAIN.round16_64, ..mode(x) }
}

/// A choice among f16 halves, made on them as f32 unless one is NaN.
#[inline(always)]
fn two<L: Lanes>(a: L::V, b: L::V, pick: impl Fn(L::V, L::V) -> L::V, slow: impl Fn(u16, u16) -> u16) -> L::V {
    let ((al, ah), (bl, bh)) = (unpack_f16::<L>(a), unpack_f16::<L>(b));
    let nan = L::m_or(L::unordered_f32(al, bl), L::unordered_f32(ah, bh));
    if L::bits(nan) == 0 {
        return pack::<L>(L::f16_from_f32(pick(al, bl)), L::f16_from_f32(pick(ah, bh)));
    }
    pair2::<L>(a, b, slow)
}
