//! Checks of operands and accumulators that decide which kernel may take them.

use super::super::super::op::Element;
use super::super::range::{Encoded, Limits, Range};
use super::super::scratch::STRIDE;
use super::super::vector::Vector;

/// The bits of magnitudes of 16 or 8 bits in a word, and the NaN that a format has in place of -0 (else 0).
fn masks(element: Element) -> (i32, i32) {
    let nan = match element {
        Element::Fp8Fnuz | Element::Bf8Fnuz => 0x8080_8080,
        _ => 0u32,
    };
    let magnitude = if element.bits() == 8 {
        0x7f7f_7f7f
    } else {
        0x7fff_7fff
    };
    (magnitude, nan as i32)
}

/// Extremes of the floats of 16 or 8 bits seen so far, by item: the largest magnitude, the smallest, the smallest less
/// one, all bits, and the smallest distance from the NaN of the FNUZ formats.
struct Extremes<V: Vector> {
    top: V::I,
    zero: V::I,
    low: V::I,
    bits: V::I,
    special: V::I,
}

impl<V: Vector> Extremes<V> {
    /// # Safety
    /// As for `encoded`.
    #[inline(always)]
    unsafe fn of(element: Element, rows: &[*const u32], lanes: usize) -> Self {
        let byte = element.bits() == 8;
        let (magnitude, nan) = masks(element);
        let (magnitude, nan) = (V::splat_i(magnitude), V::splat_i(nan));
        let ones = V::splat_i(-1);
        let mut all = Extremes::<V> {
            top: V::splat_i(0),
            zero: ones,
            low: ones,
            bits: V::splat_i(0),
            special: ones,
        };
        for row in rows {
            for lane in (0..lanes / V::LANES).map(|i| i * V::LANES) {
                // SAFETY: registers have `lanes` lanes.
                let x = V::bits(unsafe { V::load(row.add(lane).cast()) });
                let y = V::and(x, magnitude);
                all.bits = V::or(all.bits, y);
                if byte {
                    all.top = V::max_u8(all.top, y);
                    all.zero = V::min_u8(all.zero, y);
                    all.low = V::min_u8(all.low, V::add_i8(y, ones));
                    all.special = V::min_u8(all.special, V::xor(x, nan));
                } else {
                    all.top = V::max_u16(all.top, y);
                    all.zero = V::min_u16(all.zero, y);
                    all.low = V::min_u16(all.low, V::add_i16(y, ones));
                }
            }
        }
        all
    }
}

/// What the floats of 16 or 8 bits in some registers span.
///
/// # Safety
/// The host must support the instructions of `V`; the registers must have `lanes` lanes.
#[inline(always)]
pub unsafe fn encoded<V: Vector>(element: Element, rows: &[*const u32], lanes: usize) -> Encoded {
    let byte = element.bits() == 8;
    // SAFETY: by the contract of this function.
    let all = unsafe { Extremes::<V>::of(element, rows, lanes) };
    let mask = if byte { 0xff } else { 0xffff };
    let mut bits = V::any_bits(all.bits);
    bits |= bits >> 16;
    if byte {
        bits |= bits >> 8;
    }
    let top = !least::<V>(V::xor(all.top, V::splat_i(-1)), byte) & mask;
    let nan = masks(element).1 != 0 && V::any_zero_byte(all.special);
    Encoded {
        element,
        zeros: least::<V>(all.zero, byte) == 0,
        top: if nan { Encoded::NAN } else { top as u16 },
        // Zeros wrap to the largest number, and so does the smallest if there are only zeros.
        low: (least::<V>(all.low, byte).wrapping_add(1) & mask) as u16,
        bits: (bits & mask) as u16,
    }
}

/// Whether the floats of 16 or 8 bits in some registers are within limits.
///
/// # Safety
/// As for [`encoded`].
#[inline(always)]
pub unsafe fn is_within<V: Vector>(limits: &Limits, rows: &[*const u32], lanes: usize) -> bool {
    let Limits {
        element,
        top,
        low,
        dropped,
    } = *limits;
    let byte = element.bits() == 8;
    let spread = |x: u32| V::splat_i((x * if byte { 0x0101_0101 } else { 0x1_0001 }) as i32);
    let (most, least) = (spread(top), spread(low - 1));
    // SAFETY: by the contract of this function.
    let all = unsafe { Extremes::<V>::of(element, rows, lanes) };
    let (larger, smaller) = if byte {
        (V::max_u8(all.top, most), V::min_u8(all.low, least))
    } else {
        (V::max_u16(all.top, most), V::min_u16(all.low, least))
    };
    let wrong = V::and(all.bits, spread(dropped));
    let wrong = V::or_xor(V::or_xor(wrong, larger, most), smaller, least);
    V::is_all(V::equal(wrong, V::splat_i(0)))
        && !(masks(element).1 != 0 && V::any_zero_byte(all.special))
}

/// Whether all bf16 in some registers are zero or of a moderate size: from 2^-50 to below 2^51.
///
/// # Safety
/// The host must support the instructions of `V`; the registers must have `lanes` lanes.
#[inline(always)]
pub unsafe fn is_moderate<V: Vector>(rows: &[*const u32], lanes: usize) -> bool {
    let ones = V::splat_i(-1);
    // The bits of 2^-50 less one, and the largest below those of 2^51.
    let (least, most) = (V::splat_i(0x267f_267f), V::splat_i(0x58ff_58ff));
    let (mut low, mut top) = (ones, V::splat_i(0));
    for row in rows {
        for lane in (0..lanes / V::LANES).map(|i| i * V::LANES) {
            // SAFETY: registers have `lanes` lanes.
            let x = V::bits(unsafe { V::load(row.add(lane).cast()) });
            let x = V::and(x, V::splat_i(0x7fff_7fff));
            top = V::max_u16(top, x);
            // Zero wraps to the largest number.
            low = V::min_u16(low, V::add_i16(x, ones));
        }
    }
    let small = V::xor(V::max_u16(low, least), low);
    let large = V::xor(V::max_u16(top, most), most);
    V::is_all(V::equal(V::or(small, large), V::splat_i(0)))
}

/// The smallest 16-bit item, or byte.
#[inline(always)]
fn least<V: Vector>(x: V::I, byte: bool) -> u32 {
    if byte {
        // Of each two bytes the smaller one.
        let x = V::min_u8(x, V::shr16::<8>(x));
        V::least_u16(V::and(x, V::splat_i(0x00ff_00ff)))
    } else {
        V::least_u16(x)
    }
}

/// What the first `lanes` floats of every row span.
///
/// # Safety
/// The host must support the instructions of `V`.
#[inline(always)]
pub unsafe fn floats<V: Vector>(rows: &[[f32; STRIDE]], lanes: usize) -> Range {
    let mut found = Found::new::<V>();
    for row in rows {
        for lane in (0..lanes.min(STRIDE) / V::LANES).map(|i| i * V::LANES) {
            // SAFETY: `lane + LANES` is at most STRIDE.
            found.add::<V>(V::bits(unsafe { V::load(row.as_ptr().add(lane)) }));
        }
    }
    found.range::<V>()
}

/// Whether a range spans all of the first `lanes` floats of every row, but for its smallest one and zeros: they are
/// multiples of its unit and below the power of two behind its largest.
///
/// # Safety
/// The host must support the instructions of `V`.
#[inline(always)]
pub unsafe fn within<V: Vector>(rows: &[[f32; STRIDE]], lanes: usize, range: &Range) -> bool {
    let Some((magic, beyond)) = range.test() else {
        return false;
    };
    let magic = V::splat(magic);
    let (mut upper, mut changed) = (V::splat_i(0), V::splat_i(0));
    for row in rows {
        for lane in (0..lanes.min(STRIDE) / V::LANES).map(|i| i * V::LANES) {
            // SAFETY: `lane + LANES` is at most STRIDE.
            let x = V::bits(unsafe { V::load(row.as_ptr().add(lane)) });
            let x = V::float(V::and(x, V::splat_i(i32::MAX)));
            let sum = V::add(x, magic);
            upper = V::or_xor(upper, V::bits(sum), V::bits(magic));
            changed = V::or_xor(changed, V::bits(V::sub(sum, magic)), V::bits(x));
        }
    }
    let beyond = V::and(upper, V::splat_i(beyond));
    V::is_all(V::equal(V::or(changed, beyond), V::splat_i(0)))
}

/// What the f32 of some registers span.
///
/// # Safety
/// The host must support the instructions of `V`; the registers must have `lanes` lanes.
#[inline(always)]
pub unsafe fn registers<V: Vector>(rows: &[*const u32], lanes: usize) -> Range {
    let mut found = Found::new::<V>();
    for row in rows {
        for lane in (0..lanes / V::LANES).map(|i| i * V::LANES) {
            // SAFETY: registers have `lanes` lanes.
            found.add::<V>(V::bits(unsafe { V::load(row.add(lane).cast()) }));
        }
    }
    found.range::<V>()
}

/// What the floats seen so far span, by lane.
struct Found<I> {
    top: I,
    /// Less one: zero wraps to the largest number.
    low: I,
    zero: I,
    /// Less one.
    unit: I,
}

impl<I: Copy> Found<I> {
    #[inline(always)]
    fn new<V: Vector<I = I>>() -> Self {
        let all = V::splat_i(-1);
        Found {
            top: V::splat_i(0),
            low: all,
            zero: all,
            unit: V::splat_i(i32::MAX),
        }
    }

    #[inline(always)]
    fn add<V: Vector<I = I>>(&mut self, x: I) {
        let all = V::splat_i(-1);
        let x = V::and(x, V::splat_i(i32::MAX));
        let less = V::add_i(x, all);
        self.top = V::max_i(self.top, x);
        self.low = V::min_u(self.low, less);
        self.zero = V::min_u(self.zero, x);
        // Without its lowest bit a number is smaller by this bit's value; a power of two (no
        // fraction bits, or a zero) is its own lowest bit.
        let bit = V::bits(V::sub(V::float(x), V::float(V::and(x, less))));
        let power = V::equal(V::and(x, V::splat_i(0x7f_ffff)), V::splat_i(0));
        let bit = V::select(power, x, bit);
        self.unit = V::min_u(self.unit, V::add_i(bit, all));
    }

    #[inline(always)]
    fn range<V: Vector<I = I>>(self) -> Range {
        Range {
            top: !least_lane::<V>(V::xor(self.top, V::splat_i(-1))),
            low: least_lane::<V>(self.low).wrapping_add(1),
            unit: least_lane::<V>(self.unit).wrapping_add(1),
            zeros: least_lane::<V>(self.zero) == 0,
        }
    }
}

/// The smallest lane, unsigned.
#[inline(always)]
fn least_lane<V: Vector>(x: V::I) -> u32 {
    let mut out = [u32::MAX; 16];
    // SAFETY: `out` has 16 words.
    unsafe { V::store(out.as_mut_ptr().cast(), V::float(x)) };
    out.into_iter().min().unwrap_or(0)
}

/// Whether the magnitude of any f32, as bits, is `least` or more.
///
/// # Safety
/// The host must support the instructions of `V`; the registers must have `lanes` lanes.
#[inline(always)]
pub unsafe fn has_larger<V: Vector>(rows: &[*const u32], lanes: usize, least: u32) -> bool {
    let mut top = V::splat_i(0);
    for row in rows {
        for lane in (0..lanes / V::LANES).map(|i| i * V::LANES) {
            // SAFETY: registers have `lanes` lanes.
            let x = V::bits(unsafe { V::load(row.add(lane).cast()) });
            top = V::max_i(top, V::and(x, V::splat_i(i32::MAX)));
        }
    }
    V::any_greater(top, V::splat_i(least as i32 - 1))
}
