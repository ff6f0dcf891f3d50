//! Decoding of registers into panels of f32: one row per k, rows of A or columns of B side by side.

use super::super::super::layout::KSplit;
use super::super::super::op::Element;
use super::super::plan::Unpack;
use super::super::scratch::{MAX_K, Panel, STRIDE};
use super::super::vector::Vector;

/// Magnitudes of E2M1.
const FP4: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

/// Decodes an operand into its panel.
///
/// # Safety
/// The host must support the instructions of `V`; every row must have the lanes that `what` names.
#[inline(always)]
pub unsafe fn unpack<V: Vector>(what: &Unpack, rows: &[*const u32], out: &mut Panel<f32>) {
    let Unpack {
        element,
        signs,
        limit,
        ..
    } = *what;
    let limit = V::splat(limit);
    let flip = V::splat_i(signs as i32);
    let nan = V::splat_i(0x7fc0_0000);
    // SAFETY: the contract of `each` is that of this function.
    unsafe {
        match element {
            Element::F32 => {
                each::<V, 1>(what, rows, out, |x| [V::flush_positive(V::float(x), limit)])
            }
            Element::Xf32 => {
                each::<V, 1>(what, rows, out, |x| {
                    [V::float(V::and(x, V::splat_i(!0x1fff)))]
                });
            }
            Element::F16 => each::<V, 2>(what, rows, out, |x| {
                let (low, high) = V::halves(V::xor(x, flip));
                [
                    V::flush_positive(low, limit),
                    V::flush_positive(high, limit),
                ]
            }),
            Element::Bf16 => each::<V, 2>(what, rows, out, |x| {
                let x = V::xor(x, flip);
                let (low, high) = (V::shl::<16>(x), V::and(x, V::splat_i(!0xffff)));
                let (low, high) = (V::float(low), V::float(high));
                [
                    V::flush_positive(low, limit),
                    V::flush_positive(high, limit),
                ]
            }),
            // The upper half of an f16.
            Element::Bf8 => each::<V, 4>(what, rows, out, |x| {
                let odd = V::and(x, V::splat_i(0xff00_ff00_u32 as i32));
                let even = V::and(V::shl::<8>(x), V::splat_i(0xff00_ff00_u32 as i32));
                let ((k0, k2), (k1, k3)) = (V::halves(even), V::halves(odd));
                [k0, k1, k2, k3]
            }),
            Element::Fp8 | Element::Fp8Fnuz | Element::Bf8Fnuz => {
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
                each::<V, 4>(what, rows, out, |x| {
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
            Element::Fp4 => each::<V, 8>(what, rows, out, |x| {
                let mut out = [V::zero(); 8];
                for (item, out) in out.iter_mut().enumerate() {
                    let x = V::sar_each(x, V::splat_i(4 * item as i32));
                    let sign = V::shl::<28>(V::and(x, V::splat_i(8)));
                    *out = V::float(V::or(V::bits(V::lookup8(&FP4, x)), sign));
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
                sixes::<V>(what, rows, out, |x| {
                    let magnitude = V::shl_each(V::and(x, V::splat_i(0x1f)), up);
                    let value = V::bits(V::mul(V::float(magnitude), power));
                    V::float(V::or(value, V::shl::<26>(V::and(x, V::splat_i(0x20)))))
                });
            }
            // Whole numbers, for sparse instructions.
            Element::I8 | Element::Iu8 => each::<V, 4>(what, rows, out, |x| {
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
            Element::Iu4 => each::<V, 8>(what, rows, out, |x| {
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

/// As `each` for elements of six bits: 32 of them in six registers, in chunks of 32.
///
/// # Safety
/// As for `unpack`.
#[inline(always)]
unsafe fn sixes<V: Vector>(
    what: &Unpack,
    rows: &[*const u32],
    out: &mut Panel<f32>,
    decode: impl Fn(V::I) -> V::F,
) {
    let Unpack {
        split,
        lanes,
        first: column,
        ..
    } = *what;
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

/// Walks registers, lanes and the `ITEMS` elements of a word.
///
/// # Safety
/// As for `unpack`.
#[inline(always)]
pub unsafe fn each<V: Vector, const ITEMS: usize>(
    what: &Unpack,
    rows: &[*const u32],
    out: &mut Panel<f32>,
    decode: impl Fn(V::I) -> [V::F; ITEMS],
) {
    let Unpack {
        split,
        lanes,
        first,
        ..
    } = *what;
    assert!(first + lanes <= STRIDE);
    let KSplit { chunk, groups, .. } = split;
    let (chunk_log, lanes_log) = (chunk.trailing_zeros(), lanes.trailing_zeros());
    let total = groups << lanes_log;
    let out = out.as_mut_ptr().cast::<f32>();
    for (register, row) in rows.iter().enumerate() {
        for lane in (0..total / V::LANES).map(|i| i * V::LANES) {
            let (group, within) = (lane >> lanes_log, lane & (lanes - 1));
            let group = split.order(group);
            // SAFETY: the row has `total` lanes, a multiple of the vector's.
            let values = decode(V::bits(unsafe { V::load(row.add(lane).cast()) }));
            for (i, value) in values.into_iter().enumerate() {
                let item = register * ITEMS + i;
                let k =
                    (((item >> chunk_log) * groups + group) << chunk_log) + (item & (chunk - 1));
                assert!(k < MAX_K);
                // SAFETY: k is a row of the panel, `within + LANES` at most `lanes`, which
                // is at most STRIDE; interleaved stores stay within their 32 floats.
                unsafe {
                    let to = out.add(k * STRIDE);
                    V::store(to.add(first + within), value);
                }
            }
        }
    }
}
