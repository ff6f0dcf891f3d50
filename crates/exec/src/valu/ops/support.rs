//! What the files of float semantics share: the float mode in [`Aux`], values of 16 bits one by one, packing.

use rocjitsu_lanes::fp::Mode;
use rocjitsu_lanes::kernel::Aux;
use rocjitsu_lanes::vector::{Lanes, WIDTH};

/// Round to nearest even, keep subnormals. The engine flushes sources and results where MODE says so.
pub const PLAIN: Mode = Mode::from_bits(0x3f0);

/// The float mode that the wave is in.
#[inline(always)]
pub fn mode(x: Aux) -> Mode {
    Mode::from_bits(x.0 & 0x3ff | u32::from(x.fp16_ovfl()) << 23)
}

/// A function of one 16-bit value.
#[inline(always)]
pub fn half1<L: Lanes>(a: L::V, f: impl Fn(u16) -> u16) -> L::V {
    L::map1(a, |a| u32::from(f(a as u16)))
}
/// A function of two 16-bit values.
#[inline(always)]
pub fn half2<L: Lanes>(a: L::V, b: L::V, f: impl Fn(u16, u16) -> u16) -> L::V {
    L::map2(a, b, |a, b| u32::from(f(a as u16, b as u16)))
}
/// A function of three 16-bit values.
#[inline(always)]
pub fn half3<L: Lanes>(a: L::V, b: L::V, c: L::V, f: impl Fn(u16, u16, u16) -> u16) -> L::V {
    L::map3(a, b, c, |a, b, c| {
        u32::from(f(a as u16, b as u16, c as u16))
    })
}
/// A function of two pairs of 16-bit values, half by half.
#[inline(always)]
pub fn pair2<L: Lanes>(a: L::V, b: L::V, f: impl Fn(u16, u16) -> u16) -> L::V {
    L::map2(a, b, |a, b| {
        u32::from(f(a as u16, b as u16)) | u32::from(f((a >> 16) as u16, (b >> 16) as u16)) << 16
    })
}
/// A function of three pairs of 16-bit values, half by half.
#[inline(always)]
pub fn pair3<L: Lanes>(a: L::V, b: L::V, c: L::V, f: impl Fn(u16, u16, u16) -> u16) -> L::V {
    L::map3(a, b, c, |a, b, c| {
        let low = f(a as u16, b as u16, c as u16);
        let high = f((a >> 16) as u16, (b >> 16) as u16, (c >> 16) as u16);
        u32::from(low) | u32::from(high) << 16
    })
}

/// Three sources lane by lane, out of line.
#[cold]
#[inline(never)]
pub fn cold3(
    a: &[u32; WIDTH],
    b: &[u32; WIDTH],
    c: &[u32; WIDTH],
    f: impl Fn(u32, u32, u32) -> u32,
) -> [u32; WIDTH] {
    std::array::from_fn(|i| f(a[i], b[i], c[i]))
}

/// f32 of both halves of packed f16 values: low, high.
#[inline(always)]
pub fn unpack_f16<L: Lanes>(a: L::V) -> (L::V, L::V) {
    (L::f32_from_f16(a), L::f32_from_f16(L::shr(a, L::splat(16))))
}
/// Packed values from a low half without bits above it and a high half likewise.
#[inline(always)]
pub fn pack<L: Lanes>(low: L::V, high: L::V) -> L::V {
    L::or(low, L::shl(high, L::splat(16)))
}

/// `low < a` and `a < high`, for signed numbers.
#[inline(always)]
pub fn within<L: Lanes>(a: L::V, low: i32, high: i32) -> L::M {
    L::m_and(
        L::lt_i(L::splat(low as u32), a),
        L::lt_i(a, L::splat(high as u32)),
    )
}
