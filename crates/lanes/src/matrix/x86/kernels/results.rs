//! 16-bit accumulators: C widened to f32 before, D rounded after the sums.

use super::super::super::op::Element;
use super::super::vector::Vector;

/// How 16-bit accumulators lie in registers.
#[derive(Clone, Copy, Debug)]
pub struct Halves {
    pub element: Element,
    /// A row takes this half of its registers (RDNA3); else two rows share a register.
    pub half: Option<u8>,
    /// Lanes of a register.
    pub lanes: usize,
}

/// 16-bit C to f32 accumulators.
///
/// # Safety
/// The host must support the instructions of `V`; `c` must hold a register for each or each two
/// of `sums`.
#[inline(always)]
pub unsafe fn widen<V: Vector>(how: Halves, c: &[*const u32], sums: &mut [[u32; 64]]) {
    let Halves {
        element,
        half,
        lanes,
    } = how;
    let per_register = if half.is_some() { 1 } else { 2 };
    for (from, out) in c.iter().zip(sums.chunks_mut(per_register)) {
        for lane in (0..lanes / V::LANES).map(|i| i * V::LANES) {
            // SAFETY: registers have `lanes` words.
            let x = V::bits(unsafe { V::load(from.add(lane).cast()) });
            let (low, high) = if element == Element::F16 {
                V::halves(x)
            } else {
                (
                    V::float(V::shl::<16>(x)),
                    V::float(V::and(x, V::splat_i(!0xffff))),
                )
            };
            let values = if half == Some(1) {
                [high, high]
            } else {
                [low, high]
            };
            for (row, value) in out.iter_mut().zip(values) {
                // SAFETY: a row has 64 words.
                unsafe { V::store(row.as_mut_ptr().add(lane).cast(), value) };
            }
        }
    }
}

/// Rounds f32 sums to 16-bit D: the reverse of `widen`.
///
/// # Safety
/// As for `widen`.
#[inline(always)]
pub unsafe fn narrow<V: Vector>(how: Halves, sums: &[[u32; 64]], d: &[*mut u32]) {
    let Halves {
        element,
        half,
        lanes,
    } = how;
    let per_register = if half.is_some() { 1 } else { 2 };
    for (sums, to) in sums.chunks_exact(per_register).zip(d) {
        for lane in (0..lanes / V::LANES).map(|i| i * V::LANES) {
            // SAFETY: rows of sums have 64 words, registers `lanes`.
            unsafe {
                let to = to.add(lane);
                let first = rounded::<V>(element, V::load(sums[0].as_ptr().add(lane).cast()));
                let old = V::bits(V::load(to.cast()));
                let new = match (half, sums) {
                    (None, [_, second]) => {
                        let second = V::load(second.as_ptr().add(lane).cast());
                        V::or(first, V::shl::<16>(rounded::<V>(element, second)))
                    }
                    (Some(1), _) => V::or(V::and(old, V::splat_i(0xffff)), V::shl::<16>(first)),
                    _ => V::or(V::and(old, V::splat_i(!0xffff)), first),
                };
                V::store(to.cast(), V::float(new));
            }
        }
    }
}

/// Rounds to 16 bits, in the low halves.
#[inline(always)]
fn rounded<V: Vector>(element: Element, x: V::F) -> V::I {
    if element == Element::F16 {
        V::to_f16(x)
    } else {
        to_bf16::<V>(x)
    }
}

/// Rounds to bf16, in the low halves; NaN becomes 0x7fc0.
#[inline(always)]
fn to_bf16<V: Vector>(x: V::F) -> V::I {
    let bits = V::bits(V::canonical(x));
    let odd = V::and(V::shr::<16>(bits), V::splat_i(1));
    let rounded = V::add_i(V::add_i(bits, V::splat_i(0x7fff)), odd);
    // The NaN has no low bits: rounding leaves it.
    V::shr::<16>(rounded)
}
