//! The steps of a division: scaling of the operands, the last multiply-add, the fix-up of special cases.
//! Ordinary operands of all lanes take a short way.

use rocjitsu_lanes::scalar::division as d;
use rocjitsu_lanes::vector::{Lanes, WIDTH};

use super::ops;
use super::support::{PLAIN, cold3, half3, mode, within};

ops! {
    v_div_scale_f32[x](a: F32, b: F32, c: F32) -> F32, Mask {
        if L::bits(unscaled32::<L>(a, b, c)) == u16::MAX {
            return (a, L::mask(0));
        }
        let (r, vcc) = scale32(&L::to_array(a), &L::to_array(b), &L::to_array(c), PLAIN);
        (L::from_array(r), L::mask(vcc))
    }
    => modal {
        let (r, vcc) = scale32(&L::to_array(a), &L::to_array(b), &L::to_array(c), mode(x));
        (L::from_array(r), L::mask(vcc))
    }
    v_div_scale_f64[x](a: F64, b: F64, c: F64) -> F64, Mask {
        if L::bits(unscaled64::<L>(a, b, c)) == u16::MAX {
            return (a, L::mask(0));
        }
        let (r, vcc) = scale64(&L::w_to_array(a), &L::w_to_array(b), &L::w_to_array(c), PLAIN);
        (L::w_from_array(r), L::mask(vcc))
    }
    => modal {
        let (r, vcc) = scale64(&L::w_to_array(a), &L::w_to_array(b), &L::w_to_array(c), mode(x));
        (L::w_from_array(r), L::mask(vcc))
    }

    v_div_fmas_f32[x](a: F32, b: F32, c: F32, vcc: Mask) -> F32 {
        let r = L::fma_f32(a, b, c);
        if L::bits(vcc) == 0 {
            return r;
        }
        let scaled = cold3(&L::to_array(a), &L::to_array(b), &L::to_array(c), |a, b, c| {
            d::v_div_fmas_f32(a, b, c, true, PLAIN)
        });
        L::select(vcc, L::from_array(scaled), r)
    }
    => modal {
        let m = mode(x);
        let plain = L::map3(a, b, c, |a, b, c| d::v_div_fmas_f32(a, b, c, false, m));
        L::select(vcc, L::map3(a, b, c, |a, b, c| d::v_div_fmas_f32(a, b, c, true, m)), plain)
    }
    v_div_fmas_f64[x](a: F64, b: F64, c: F64, vcc: Mask) -> F64 {
        let r = L::fma_f64(a, b, c);
        if L::bits(vcc) == 0 {
            return r;
        }
        L::w_select(vcc, L::w_map3(a, b, c, |a, b, c| d::v_div_fmas_f64(a, b, c, true, PLAIN)), r)
    }
    => modal {
        let m = mode(x);
        let plain = L::w_map3(a, b, c, |a, b, c| d::v_div_fmas_f64(a, b, c, false, m));
        L::w_select(vcc, L::w_map3(a, b, c, |a, b, c| d::v_div_fmas_f64(a, b, c, true, m)), plain)
    }

    v_div_fixup_f32[x](q: F32, b: F32, c: F32) -> F32 {
        if L::bits(ordinary32::<L>(q, b, c)) == u16::MAX {
            let sign = L::splat(1 << 31);
            let quotient = L::and(q, L::splat(0x7fff_ffff));
            return L::or(L::and(L::xor(b, c), sign), quotient);
        }
        let r = cold3(&L::to_array(q), &L::to_array(b), &L::to_array(c), |q, b, c| {
            d::v_div_fixup_f32(q, b, c, PLAIN)
        });
        L::from_array(r)
    }
    => modal { let m = mode(x); L::map3(q, b, c, |q, b, c| d::v_div_fixup_f32(q, b, c, m)) }
    v_div_fixup_f64[x](q: F64, b: F64, c: F64) -> F64 {
        L::w_map3(q, b, c, |q, b, c| d::v_div_fixup_f64(q, b, c, PLAIN))
    }
    => modal { let m = mode(x); L::w_map3(q, b, c, |q, b, c| d::v_div_fixup_f64(q, b, c, m)) }
    v_div_fixup_f16 | v_div_fixup_legacy_f16[x](q: F16, b: F16, c: F16) -> F16 {
        half3::<L>(q, b, c, |q, b, c| d::v_div_fixup_f16(q, b, c, PLAIN))
    }
    => modal { let m = mode(x); half3::<L>(q, b, c, |q, b, c| d::v_div_fixup_f16(q, b, c, m)) }
}

/// Lanes whose operand passes unscaled, by the biased exponents of denominator and numerator: `near_max`,
/// `bias` and `tiny` as [`d::v_div_scale_f32`] has them.
#[inline(always)]
fn moderate<L: Lanes>(de: L::V, ne: L::V, max: i32, near_max: i32, bias: i32, tiny: i32) -> L::M {
    let quotient = L::sub(ne, de);
    let operands = L::m_and(within::<L>(de, 0, max - 2), within::<L>(ne, tiny, max));
    L::m_and(operands, within::<L>(quotient, 1 - bias, near_max))
}

#[inline(always)]
fn unscaled32<L: Lanes>(a: L::V, b: L::V, c: L::V) -> L::M {
    let exponent = |x: L::V| L::and(L::shr(x, L::splat(23)), L::splat(0xff));
    let one_of_them = L::m_or(L::eq(a, b), L::eq(a, c));
    L::m_and(
        one_of_them,
        moderate::<L>(exponent(b), exponent(c), 0xff, 96, 127, 23),
    )
}

#[inline(always)]
fn unscaled64<L: Lanes>(a: L::W, b: L::W, c: L::W) -> L::M {
    let exponent = |x: L::W| L::and(L::shr(L::split(x).1, L::splat(20)), L::splat(0x7ff));
    let same = |x: L::W, y: L::W| {
        let ((xl, xh), (yl, yh)) = (L::split(x), L::split(y));
        L::m_and(L::eq(xl, yl), L::eq(xh, yh))
    };
    let one_of_them = L::m_or(same(a, b), same(a, c));
    L::m_and(
        one_of_them,
        moderate::<L>(exponent(b), exponent(c), 0x7ff, 768, 1023, 53),
    )
}

/// Lanes without zero, infinity, NaN, subnormal or vanishing quotient.
#[inline(always)]
fn ordinary32<L: Lanes>(q: L::V, b: L::V, c: L::V) -> L::M {
    let exponent = |x: L::V| L::and(L::shr(x, L::splat(23)), L::splat(0xff));
    let (be, ce) = (exponent(b), exponent(c));
    let operands = L::m_and(within::<L>(be, 0, 0xff), within::<L>(ce, 0, 0xff));
    let quotient = L::m_and(
        within::<L>(L::sub(ce, be), -151, 256),
        L::m_not(L::unordered_f32(q, q)),
    );
    L::m_and(operands, quotient)
}

#[cold]
#[inline(never)]
fn scale32(
    a: &[u32; WIDTH],
    b: &[u32; WIDTH],
    c: &[u32; WIDTH],
    mode: rocjitsu_lanes::fp::Mode,
) -> ([u32; WIDTH], u16) {
    let mut vcc = 0;
    let r = std::array::from_fn(|i| {
        let (r, post) = d::v_div_scale_f32(a[i], b[i], c[i], mode);
        vcc |= u16::from(post) << i;
        r
    });
    (r, vcc)
}

#[cold]
#[inline(never)]
fn scale64(
    a: &[u64; WIDTH],
    b: &[u64; WIDTH],
    c: &[u64; WIDTH],
    mode: rocjitsu_lanes::fp::Mode,
) -> ([u64; WIDTH], u16) {
    let mut vcc = 0;
    let r = std::array::from_fn(|i| {
        let (r, post) = d::v_div_scale_f64(a[i], b[i], c[i], mode);
        vcc |= u16::from(post) << i;
        r
    });
    (r, vcc)
}
