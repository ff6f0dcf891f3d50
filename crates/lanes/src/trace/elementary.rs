//! Reciprocals, roots, exponentials, logarithms, sines: the steps of [`crate::scalar::transcendental`] as nodes, one
//! by one in the same order, so that the bits are the same.

use super::graph::{Id, Op};
use super::{Trace, one, two};
use crate::fp::nan::DEFAULT_NAN32;
use crate::kernel::flush_f32;
use crate::vector::{Lanes, round};

const ONE: u32 = 0x3f80_0000;
const INFINITY: u32 = 0x7f80_0000;
const SIGN: u32 = 0x8000_0000;
/// 1.5 * 2^23: a small integer added to it stands in the low bits.
const INTEGER: u32 = 0x4b40_0000;

fn word(k: u32) -> Id {
    Trace::splat(k)
}

fn float(k: f32) -> Id {
    Trace::splat(k.to_bits())
}

fn negate(a: Id) -> Id {
    Trace::xor(a, word(SIGN))
}

/// `a * b + c` for each of `terms`, the next one being `c`.
fn polynomial(x: Id, first: u32, terms: &[u32]) -> Id {
    terms
        .iter()
        .fold(word(first), |p, &k| Trace::fma_f32(p, x, word(k)))
}

fn quiet(a: Id) -> Id {
    Trace::or(a, word(0x0040_0000))
}

/// [`crate::fp::nan::nan1_32`].
fn nan1(a: Id, r: Id) -> Id {
    let nan = Trace::select(Trace::unordered_f32(a, a), quiet(a), word(DEFAULT_NAN32));
    Trace::select(Trace::unordered_f32(r, r), nan, r)
}

/// 1/x.
pub fn rcp(x: Id) -> Id {
    let x = flush_f32::<Trace>(x);
    flush_f32::<Trace>(two(Op::DivF, word(ONE), x))
}

/// Square root.
pub fn sqrt(x: Id) -> Id {
    one(Op::SqrtF, flush_f32::<Trace>(x), 0)
}

/// 1/sqrt(x).
pub fn rsq(x: Id) -> Id {
    let x = flush_f32::<Trace>(x);
    let y = two(Op::DivF, word(ONE), one(Op::SqrtF, x, 0));
    let h = Trace::mul_f32(x, y);
    let h_err = Trace::fma_f32(x, y, negate(h));
    let inner = Trace::fma_f32(negate(h), y, word(ONE));
    let residual = Trace::fma_f32(negate(h_err), y, inner);
    let better = Trace::fma_f32(Trace::mul_f32(float(0.5), y), residual, y);
    let positive = Trace::lt_f32(word(0), x);
    let ordinary = Trace::m_and(positive, Trace::lt_f32(x, word(INFINITY)));
    Trace::select(ordinary, better, y)
}

/// 2^x.
pub fn exp(x: Id) -> Id {
    // What becomes of NaNs here does not matter.
    let bounded = Trace::max_f32(Trace::min_f32(x, float(130.0)), float(-130.0));
    let n = Trace::round_f32::<{ round::NEAREST }>(bounded);
    let f = Trace::sub_f32(bounded, n);
    let p = polynomial(
        f,
        0x3920_bd5d,
        &[
            0x3aaf_84a5,
            0x3c1d_96e9,
            0x3d63_57bd,
            0x3e75_fdee,
            0x3f31_7218,
            ONE,
        ],
    );
    let shift = Trace::shl(Trace::add_f32(n, word(INTEGER)), word(23));
    let r = Trace::add(p, shift);
    let r = Trace::select(Trace::lt_f32(x, float(-126.0)), word(0), r);
    let r = Trace::select(Trace::le_f32(float(128.0), x), word(INFINITY), r);
    Trace::select(Trace::unordered_f32(x, x), quiet(x), r)
}

/// log2(x).
pub fn log(x: Id) -> Id {
    let x = flush_f32::<Trace>(x);
    let e = Trace::sar(Trace::sub(x, word(0x3f2a_aaab)), word(23));
    let reduced = Trace::sub(x, Trace::shl(e, word(23)));
    let t = Trace::sub_f32(reduced, word(ONE));
    let e = Trace::f32_from_i32(e);
    let p = polynomial(
        t,
        0x3e31_4416,
        &[
            0xbe46_6c2a,
            0x3e1e_f372,
            0xbe32_09e0,
            0x3e53_501c,
            0xbe76_9659,
            0x3e93_baab,
            0xbeb8_a92e,
            0x3ef6_3850,
            0xbf38_aa3c,
            ((std::f64::consts::LOG2_E - 1.5) as f32).to_bits(),
        ],
    );
    let half = float(1.5);
    let high = Trace::fma_f32(t, half, e);
    let low = Trace::fma_f32(t, half, Trace::sub_f32(e, high));
    let r = Trace::add_f32(high, Trace::fma_f32(p, t, low));
    let r = Trace::select(Trace::eq(x, word(INFINITY)), x, r);
    let zero = Trace::eq(Trace::shl(x, word(1)), word(0));
    let r = Trace::select(Trace::lt_i(x, word(0)), word(DEFAULT_NAN32), r);
    let r = Trace::select(zero, word(0xff80_0000), r);
    Trace::select(Trace::unordered_f32(x, x), quiet(x), r)
}

/// The quarter turn nearest to `x` (in the low two bits), and sine and cosine of the rest.
fn turns(x: Id) -> (Id, Id, Id) {
    let turn = Trace::sub_f32(x, Trace::round_f32::<{ round::NEAREST }>(x));
    let k = Trace::round_f32::<{ round::NEAREST }>(Trace::mul_f32(float(4.0), turn));
    let r = Trace::fma_f32(k, float(-0.25), turn);
    let k = Trace::add_f32(k, word(INTEGER));
    let s = Trace::mul_f32(r, r);
    let p = polynomial(s, 0xc296_cf95, &[0x42a3_2f70, 0xc225_5ddd, 0x3d07_ed4c]);
    let sin = Trace::fma_f32(r, float(6.25), Trace::mul_f32(r, p));
    let cos = polynomial(
        s,
        0x426a_6c26,
        &[0xc2aa_d942, 0x4281_e0d8, 0xc19d_e9e6, ONE],
    );
    (k, sin, cos)
}

/// sin(2 pi x).
pub fn sin(x: Id) -> Id {
    let (k, sin, cos) = turns(x);
    let even = Trace::eq(Trace::and(k, word(1)), word(0));
    let picked = Trace::select(even, sin, cos);
    let sign = Trace::shl(Trace::and(k, word(2)), word(30));
    let r = Trace::add_f32(Trace::xor(picked, sign), word(0));
    let zero = Trace::eq(Trace::shl(x, word(1)), word(0));
    nan1(x, Trace::select(zero, x, r))
}

/// cos(2 pi x).
pub fn cos(x: Id) -> Id {
    let (k, sin, cos) = turns(x);
    let even = Trace::eq(Trace::and(k, word(1)), word(0));
    let picked = Trace::select(even, cos, sin);
    let sign = Trace::shl(Trace::and(Trace::add(k, word(1)), word(2)), word(30));
    nan1(x, Trace::add_f32(Trace::xor(picked, sign), word(0)))
}

/// Sixteen values of four bits, looked up by the low and by the high half of each byte.
fn nibbles(a: Id, low: [u8; 16], high: [u8; 16]) -> [Id; 2] {
    let within = |v| Trace::and(v, word(0x0f0f_0f0f));
    let look_up = |table, v| two(Op::Bytes, super::permute::repeated(table), within(v));
    [look_up(low, a), look_up(high, Trace::shr(a, word(4)))]
}

/// Bits that are set.
pub fn count_ones(a: Id) -> Id {
    let count: [u8; 16] = std::array::from_fn(|n| n.count_ones() as u8);
    let [low, high] = nibbles(a, count, count);
    let bytes = Trace::add(low, high);
    Trace::shr(Trace::mul(bytes, word(0x0101_0101)), word(24))
}

/// Bits in the opposite order.
pub fn reverse_bits(a: Id) -> Id {
    let turned = |n: usize| (n as u8).reverse_bits();
    let low = std::array::from_fn(turned);
    let high = std::array::from_fn(|n| turned(n) >> 4);
    let [low, high] = nibbles(a, low, high);
    let order = super::permute::repeated(std::array::from_fn(|at| at as u8 ^ 3));
    two(Op::Bytes, Trace::or(low, high), order)
}
