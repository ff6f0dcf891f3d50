//! Decoding of registers into panels of f32: one row per k, rows of A or columns of B side by side.

use super::super::super::op::Element;
use super::super::plan::Unpack;
use super::super::scratch::{MAX_K, Panel, STRIDE};
use super::super::vector::Vector;

/// Magnitudes of E2M1.
const FP4: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

/// Decodes an operand into its panel, from column `first` on.
///
/// # Safety
/// The host must support the instructions of `V`; every row must have the lanes that `what` names.
#[inline(always)]
pub unsafe fn unpack<V: Vector>(
    what: &Unpack,
    first: usize,
    rows: &[*const u32],
    out: &mut Panel<f32>,
) {
    let Unpack {
        element,
        signs,
        limit,
        ..
    } = *what;
    let flushes = limit != 0.0;
    let limit = V::splat(limit);
    let flip = V::splat_i(signs as i32);
    let nan = V::splat_i(0x7fc0_0000);
    // SAFETY: the contract of `each` is that of this function.
    unsafe {
        match element {
            Element::F32 if flushes => {
                each::<V, 1>(what, first, rows, out, |x| {
                    [V::flush_positive(V::float(x), limit)]
                });
            }
            Element::F32 => each::<V, 1>(what, first, rows, out, |x| [V::float(x)]),
            Element::Xf32 => {
                each::<V, 1>(what, first, rows, out, |x| {
                    [V::float(V::and(x, V::splat_i(!0x1fff)))]
                });
            }
            // What is flushed is subnormal in the element's format, or zero.
            Element::F16 if flushes => each::<V, 2>(what, first, rows, out, |x| {
                halves::<V>(V::flush16(V::xor(x, flip), 0x7c00_7c00))
            }),
            Element::F16 => each::<V, 2>(what, first, rows, out, |x| halves::<V>(V::xor(x, flip))),
            Element::Bf16 if flushes => each::<V, 2>(what, first, rows, out, |x| {
                bf16_halves::<V>(V::flush16(V::xor(x, flip), 0x7f80_7f80))
            }),
            Element::Bf16 => each::<V, 2>(what, first, rows, out, |x| {
                bf16_halves::<V>(V::xor(x, flip))
            }),
            Element::Bf8 => each::<V, 4>(what, first, rows, out, bf8_quarters::<V>),
            Element::Fp8 | Element::Fp8Fnuz | Element::Bf8Fnuz => {
                if element != Element::Bf8Fnuz && !e4m3::<V>(what, first, rows, out) {
                    return;
                }
                // Exponent and mantissa go where f32 has them; a product with a power
                // of two corrects the bias, exactly and for subnormals too.
                let (up, power, nan_mask, nan_bits) = match element {
                    Element::Fp8 => (20, 120, 0x7f, 0x7f),
                    Element::Fp8Fnuz => (20, 119, 0xff, 0x80),
                    _ => (21, 111, 0xff, 0x80),
                };
                let power = V::splat(f32::from_bits((power + 127) << 23));
                let (nan_mask, nan_bits) = (V::splat_i(nan_mask), V::splat_i(nan_bits));
                let up = V::splat_i(up);
                each::<V, 4>(what, first, rows, out, |x| {
                    let mut out = [V::zero(); 4];
                    for (item, out) in out.iter_mut().enumerate() {
                        let x = V::sar_each(x, V::splat_i(8 * item as i32));
                        let magnitude = V::shl_each(V::and(x, V::splat_i(0x7f)), up);
                        let value = V::bits(V::mul(V::float(magnitude), power));
                        let sign = V::shl::<24>(V::and(x, V::splat_i(0x80)));
                        let is_nan = V::equal(V::and(x, nan_mask), nan_bits);
                        *out = V::float(V::select(is_nan, nan, V::or(value, sign)));
                    }
                    out
                });
            }
            Element::Fp4 => each::<V, 8>(what, first, rows, out, |x| {
                let mut out = [V::zero(); 8];
                for (item, out) in out.iter_mut().enumerate() {
                    *out = V::lookup_signed(&FP4, V::sar_each(x, V::splat_i(4 * item as i32)));
                }
                out
            }),
            Element::Fp6 | Element::Bf6 => {
                let (up, power) = if element == Element::Fp6 {
                    (20, 126)
                } else {
                    (21, 124)
                };
                let power = V::splat(f32::from_bits((power + 127) << 23));
                let up = V::splat_i(up);
                sixes::<V>(what, first, rows, out, |x| {
                    let magnitude = V::shl_each(V::and(x, V::splat_i(0x1f)), up);
                    let value = V::bits(V::mul(V::float(magnitude), power));
                    V::float(V::or(value, V::shl::<26>(V::and(x, V::splat_i(0x20)))))
                });
            }
            // Whole numbers, for sparse instructions.
            Element::I8 | Element::Iu8 => each::<V, 4>(what, first, rows, out, |x| {
                let mut out = [V::zero(); 4];
                for (item, out) in out.iter_mut().enumerate() {
                    let x = V::shl_each(x, V::splat_i(24 - 8 * item as i32));
                    *out = V::convert(if what.signed {
                        V::sar::<24>(x)
                    } else {
                        V::shr::<24>(x)
                    });
                }
                out
            }),
            Element::Iu4 => each::<V, 8>(what, first, rows, out, |x| {
                let mut out = [V::zero(); 8];
                for (item, out) in out.iter_mut().enumerate() {
                    let x = V::shl_each(x, V::splat_i(28 - 4 * item as i32));
                    *out = V::convert(if what.signed {
                        V::sar::<28>(x)
                    } else {
                        V::shr::<28>(x)
                    });
                }
                out
            }),
            _ => {}
        }
    }
}

/// The low and the high f16 of each word.
#[inline(always)]
pub fn halves<V: Vector>(x: V::I) -> [V::F; 2] {
    V::halves(x).into()
}

/// The four E5M2 of each word, which are upper halves of f16.
#[inline(always)]
pub fn bf8_quarters<V: Vector>(x: V::I) -> [V::F; 4] {
    let odd = V::and(x, V::splat_i(0xff00_ff00_u32 as i32));
    let even = V::and(V::shl::<8>(x), V::splat_i(0xff00_ff00_u32 as i32));
    let ((k0, k2), (k1, k3)) = (V::halves(even), V::halves(odd));
    [k0, k1, k2, k3]
}

/// The four E4M3 of each word, none of them NaN: exponent and mantissa go where f16 has them, and a product with a power
/// of two corrects the bias.
#[inline(always)]
pub fn e4m3_quarters<V: Vector>(element: Element, x: V::I) -> [V::F; 4] {
    let power = V::splat(if element == Element::Fp8 {
        256.0
    } else {
        128.0
    });
    let [k0, k2] = halves::<V>(e4m3_as_f16::<V>(V::shl::<8>(x)));
    let [k1, k3] = halves::<V>(e4m3_as_f16::<V>(x));
    [k0, k1, k2, k3].map(|x| V::mul(x, power))
}

/// The low and the high bf16 of each word.
#[inline(always)]
pub fn bf16_halves<V: Vector>(x: V::I) -> [V::F; 2] {
    [
        V::float(V::shl::<16>(x)),
        V::float(V::and(x, V::splat_i(!0xffff))),
    ]
}

/// E4M3 without NaN. True if there are NaN, and then the panel is to be filled again.
///
/// # Safety
/// As for `unpack`.
#[inline(always)]
unsafe fn e4m3<V: Vector>(
    what: &Unpack,
    first: usize,
    rows: &[*const u32],
    out: &mut Panel<f32>,
) -> bool {
    let mut seen = V::splat_i(-1);
    // SAFETY: the contract of `each` is that of this function.
    unsafe {
        each::<V, 4>(what, first, rows, out, |x| {
            seen = V::min_u8(seen, e4m3_nan::<V>(what.element, x));
            e4m3_quarters::<V>(what.element, x)
        });
    }
    V::any_zero_byte(seen)
}

/// Bytes that are zero where those of E4M3 are NaN.
#[inline(always)]
pub fn e4m3_nan<V: Vector>(element: Element, x: V::I) -> V::I {
    let (mask, nan) = if element == Element::Fp8 {
        (0x7f7f_7f7f, 0x7f7f_7f7f)
    } else {
        (-1, 0x8080_8080_u32 as i32)
    };
    V::xor(V::and(x, V::splat_i(mask)), V::splat_i(nan))
}

/// The upper bytes of 16-bit items as f16.
#[inline(always)]
fn e4m3_as_f16<V: Vector>(x: V::I) -> V::I {
    let sign = V::and(x, V::splat_i(0x8000_8000_u32 as i32));
    let magnitude = V::and(V::shr::<1>(x), V::splat_i(0x3f80_3f80));
    V::or(sign, magnitude)
}

/// As `each` for elements of six bits: 32 of them in six registers, in chunks of 32.
///
/// # Safety
/// As for `unpack`.
#[inline(always)]
unsafe fn sixes<V: Vector>(
    what: &Unpack,
    column: usize,
    rows: &[*const u32],
    out: &mut Panel<f32>,
    decode: impl Fn(V::I) -> V::F,
) {
    let Unpack { split, lanes, .. } = *what;
    assert!(column + lanes <= STRIDE && split.chunk == 32 && lanes.is_power_of_two());
    let out = out.as_mut_ptr().cast::<f32>();
    for (pass, rows) in rows.chunks_exact(6).enumerate() {
        for lane in (0..split.groups * lanes / V::LANES).map(|i| i * V::LANES) {
            let (group, within) = (lane / lanes, lane % lanes);
            let first = (pass * split.groups + split.order(group)) * 32;
            assert!(first + 32 <= MAX_K);
            for item in 0..32 {
                let (word, shift) = (item * 6 / 32, item * 6 % 32);
                // SAFETY: the assertions above; as in `each` for the stores.
                unsafe {
                    let get = |word: usize| V::bits(V::load(rows[word].add(lane).cast()));
                    let mut x = V::sar_each(get(word), V::splat_i(shift as i32));
                    if shift > 26 {
                        let low = V::and(x, V::splat_i((1 << (32 - shift)) - 1));
                        x = V::or(
                            low,
                            V::shl_each(get(word + 1), V::splat_i(32 - shift as i32)),
                        );
                    }
                    let to = out.add((first + item) * STRIDE);
                    V::store(to.add(column + within), decode(x));
                }
            }
        }
    }
}

/// Walks registers, lanes and the `ITEMS` vectors that a vector of words decodes to.
///
/// # Safety
/// As for `unpack`.
#[inline(always)]
pub unsafe fn each<V: Vector, const ITEMS: usize>(
    what: &Unpack,
    first: usize,
    rows: &[*const u32],
    out: &mut Panel<f32>,
    mut decode: impl FnMut(V::I) -> [V::F; ITEMS],
) {
    let lanes = what.split.groups * what.lanes;
    assert!(first + what.lanes <= STRIDE && lanes.is_multiple_of(16));
    assert!(what.places.len() == rows.len() * (lanes / 16) * ITEMS);
    let out = out.as_flattened_mut()[first..].as_mut_ptr();
    let mut place = what.places.as_ptr();
    for row in rows {
        for lane in (0..lanes / 16).map(|i| i * 16) {
            for half in (0..16 / V::LANES).map(|i| i * V::LANES) {
                // SAFETY: the row has `lanes` lanes; there are ITEMS places for each 16 of them, each with 16
                // words behind it in its row of the panel, `first` columns further on too.
                unsafe {
                    let values = decode(V::bits(V::load(row.add(lane + half).cast())));
                    for (i, value) in values.into_iter().enumerate() {
                        V::store(out.add(usize::from(*place.add(i)) + half), value);
                    }
                }
            }
            // SAFETY: as above.
            place = unsafe { place.add(ITEMS) };
        }
    }
}
