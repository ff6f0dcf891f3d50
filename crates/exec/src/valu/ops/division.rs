//! The steps of a division: scaling of the operands, the last multiply-add, the fix-up of special cases.
//! Ordinary operands of all lanes take a short way.

use rocjitsu_lanes::scalar::division as d;
use rocjitsu_lanes::vector::{Lanes, WIDTH};

use super::ops;
use super::support::{PLAIN, cold3, half3, mode, within};

ops! {
    v_div_scale_f32[x](a: F32, b: F32, c: F32) -> F32, Mask {
        if L::all(unscaled32::<L>(a, b, c)) {
            return (a, L::mask(0));
        }
        let same = [L::eq_f32(a, b), L::eq_f32(a, c)];
        let (by, vcc, zero) = scaling::<L>([L::splat(0), b], [L::splat(0), c], same, &SINGLE);
        (L::select(zero, L::splat(SINGLE.default), L::scale_f32(a, by)), vcc)
    }
    => modal {
        let (r, vcc) = scale32(&L::to_array(a), &L::to_array(b), &L::to_array(c), mode(x));
        (L::from_array(r), L::mask(vcc))
    }
    v_div_scale_f64[x](a: F64, b: F64, c: F64) -> F64, Mask {
        if L::all(unscaled64::<L>(a, b, c)) {
            return (a, L::mask(0));
        }
        let same = [L::eq_f64(a, b), L::eq_f64(a, c)];
        let (by, vcc, zero) = scaling::<L>(L::split(b).into(), L::split(c).into(), same, &DOUBLE);
        let nan = L::join(L::splat(0), L::splat(DOUBLE.default));
        (L::w_select(zero, nan, L::scale_f64(a, by)), vcc)
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
        if L::all(ordinary32::<L>(q, b, c)) {
            let sign = L::splat(1 << 31);
            let quotient = L::and(q, L::splat(0x7fff_ffff));
            return L::or(L::and(L::xor(b, c), sign), quotient);
        }
        let zero = L::splat(0);
        fixed::<L>([zero, q], [zero, b], [zero, c], &SINGLE)[1]
    }
    => modal { let m = mode(x); L::map3(q, b, c, |q, b, c| d::v_div_fixup_f32(q, b, c, m)) }
    v_div_fixup_f64[x](q: F64, b: F64, c: F64) -> F64 {
        let [low, high] =
            fixed::<L>(L::split(q).into(), L::split(b).into(), L::split(c).into(), &DOUBLE);
        L::join(low, high)
    }
    => modal { let m = mode(x); L::w_map3(q, b, c, |q, b, c| d::v_div_fixup_f64(q, b, c, m)) }
    v_div_fixup_f16 | v_div_fixup_legacy_f16[x](q: F16, b: F16, c: F16) -> F16 {
        half3::<L>(q, b, c, |q, b, c| d::v_div_fixup_f16(q, b, c, PLAIN))
    }
    => modal { let m = mode(x); half3::<L>(q, b, c, |q, b, c| d::v_div_fixup_f16(q, b, c, m)) }
}

/// A float format as its words are looked at: a low one, which f32 has not, and the high one.
struct Layout {
    /// First bit of the exponent.
    at: u32,
    /// Infinity.
    infinity: u32,
    /// The NaN of operations without NaN operands.
    default: u32,
    /// Numbers of [`d::v_div_scale_f32`]: quotients from `near` on overflow nearly; sources are scaled by `step`;
    /// numerators up to `tiny` lose bits.
    near: i32,
    step: i32,
    tiny: i32,
    /// Differences of exponents below this give a quotient of zero.
    least: i32,
}

const SINGLE: Layout = Layout {
    at: 23,
    infinity: 0x7f80_0000,
    default: 0xffc0_0000,
    near: 96,
    step: 64,
    tiny: 23,
    least: -150,
};
const DOUBLE: Layout = Layout {
    at: 20,
    infinity: 0x7ff0_0000,
    default: 0xfff8_0000,
    near: 768,
    step: 128,
    tiny: 53,
    least: -1075,
};

/// The high word without its sign, its last bit set where the low word is not zero: enough for zero, infinity and NaN.
#[inline(always)]
fn magnitude<L: Lanes>([low, high]: [L::V; 2]) -> L::V {
    let rest = L::select(L::eq(low, L::splat(0)), L::splat(0), L::splat(1));
    L::or(L::and(high, L::splat(0x7fff_ffff)), rest)
}

/// How the source of a division step is scaled: the power of two, the mask result, and lanes that become NaN.
/// `same` says whether the source is the denominator, and whether it is the numerator. The cases are those of
/// [`d::v_div_scale_f32`], the last one first.
#[inline(always)]
fn scaling<L: Lanes>(
    denominator: [L::V; 2],
    numerator: [L::V; 2],
    [is_d, is_n]: [L::M; 2],
    layout: &Layout,
) -> (L::V, L::M, L::M) {
    let max = (layout.infinity >> layout.at) as i32;
    let number = |k: i32| L::splat(k as u32);
    let (d, n) = (magnitude::<L>(denominator), magnitude::<L>(numerator));
    let (de, ne) = (
        L::shr(d, L::splat(layout.at)),
        L::shr(n, L::splat(layout.at)),
    );
    let difference = L::sub(ne, de);
    let (up, down, none) = (number(layout.step), number(-layout.step), number(0));

    let small = L::lt_i(difference, number(2 - (max >> 1)));
    let huge = L::lt_i(number(max - 3), de);
    let by = L::select(L::lt_i(ne, number(layout.tiny + 1)), up, none);
    let by = L::select(small, L::select(is_n, up, none), by);
    let huge_by = L::select(L::m_and(small, L::m_not(is_d)), none, down);
    let by = L::select(huge, huge_by, by);
    let subnormal = L::eq(de, none);
    let by = L::select(subnormal, up, by);
    let vcc = L::m_and(small, L::m_not(subnormal));
    let far = L::lt_i(number(layout.near - 1), difference);
    let by = L::select(far, L::select(is_d, up, none), by);
    let vcc = L::m_or(vcc, far);
    let special = L::m_or(L::eq(de, number(max)), L::eq(ne, number(max)));
    let by = L::select(special, none, by);
    let zero = L::m_or(L::eq(d, none), L::eq(n, none));
    let vcc = L::m_or(L::m_and(vcc, L::m_not(special)), zero);
    (by, vcc, zero)
}

/// The last step of a division, [`d::v_div_fixup_f32`] to nearest even.
#[inline(always)]
fn fixed<L: Lanes>(q: [L::V; 2], d: [L::V; 2], n: [L::V; 2], layout: &Layout) -> [L::V; 2] {
    let (infinity, none) = (L::splat(layout.infinity), L::splat(0));
    let pick =
        |m: L::M, a: [L::V; 2], b: [L::V; 2]| [L::select(m, a[0], b[0]), L::select(m, a[1], b[1])];
    let (qm, dm, nm) = (magnitude::<L>(q), magnitude::<L>(d), magnitude::<L>(n));
    let nan = |m: L::V| L::lt_u(infinity, m);
    let quiet = |v: [L::V; 2]| [v[0], L::or(v[1], L::splat(1 << (layout.at - 1)))];
    let (d_zero, n_zero) = (L::eq(dm, none), L::eq(nm, none));
    let (d_infinite, n_infinite) = (L::eq(dm, infinity), L::eq(nm, infinity));

    let plain = [q[0], L::and(q[1], L::splat(0x7fff_ffff))];
    let r = pick(nan(qm), [none, infinity], plain);
    let exponent = |m: L::V| L::shr(m, L::splat(layout.at));
    let below = L::lt_i(
        L::sub(exponent(nm), exponent(dm)),
        L::splat(layout.least as u32),
    );
    let vanishes = L::m_or(below, L::m_or(d_infinite, n_zero));
    let r = pick(vanishes, [none, none], r);
    let r = pick(L::m_or(d_zero, n_infinite), [none, infinity], r);
    let sign = L::and(L::xor(d[1], n[1]), L::splat(1 << 31));
    let r = [r[0], L::or(r[1], sign)];
    let invalid = L::m_or(L::m_and(d_zero, n_zero), L::m_and(d_infinite, n_infinite));
    let r = pick(invalid, [none, L::splat(layout.default)], r);
    let r = pick(nan(dm), quiet(d), r);
    pick(nan(nm), quiet(n), r)
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
