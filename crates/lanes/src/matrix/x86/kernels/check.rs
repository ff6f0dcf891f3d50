//! Checks of operands and accumulators that decide which kernel may take them.

use super::super::super::op::Element;
use super::super::range::Range;
use super::super::scratch::STRIDE;
use super::super::vector::Vector;

/// What the floats of 16 or 8 bits in some registers span.
///
/// # Safety
/// The host must support the instructions of `V`; the registers must have `lanes` lanes.
#[inline(always)]
pub unsafe fn encoded<V: Vector>(element: Element, rows: &[*const u32], lanes: usize) -> Range {
    let byte = element.bits() == 8;
    let (magnitude, mantissa, nan): (i32, u32, u32) = match element {
        Element::F16 => (0x7fff_7fff, 0x3ff, 0),
        Element::Bf16 => (0x7fff_7fff, 0x7f, 0),
        Element::Fp8 => (0x7f7f_7f7f, 7, 0),
        Element::Bf8 => (0x7f7f_7f7f, 3, 0),
        Element::Fp8Fnuz => (0x7f7f_7f7f, 7, 0x8080_8080),
        _ => (0x7f7f_7f7f, 3, 0x8080_8080),
    };
    let nan = V::splat_i(nan as i32);
    let magnitude = V::splat_i(magnitude);
    let ones = V::splat_i(-1);
    // The largest, the smallest, the smallest less one, all bits, and the smallest distance from the NaN of the FNUZ
    // formats.
    let (mut top, mut zero, mut low, mut bits, mut special) =
        (V::splat_i(0), ones, ones, V::splat_i(0), ones);
    for row in rows {
        for lane in (0..lanes / V::LANES).map(|i| i * V::LANES) {
            // SAFETY: registers have `lanes` lanes.
            let x = V::bits(unsafe { V::load(row.add(lane).cast()) });
            let y = V::and(x, magnitude);
            bits = V::or(bits, y);
            if byte {
                top = V::max_u8(top, y);
                zero = V::min_u8(zero, y);
                low = V::min_u8(low, V::add_i8(y, ones));
                special = V::min_u8(special, V::xor(x, nan));
            } else {
                top = V::max_u16(top, y);
                zero = V::min_u16(zero, y);
                low = V::min_u16(low, V::add_i16(y, ones));
            }
        }
    }
    let mask = if byte { 0xff } else { 0xffff };
    // Zeros wrap to the largest number, and so does the smallest if there are only zeros.
    let low = least::<V>(low, byte).wrapping_add(1) & mask;
    let mut bits = V::any_bits(bits);
    bits |= bits >> 16;
    if byte {
        bits |= bits >> 8;
    }
    let mut range = Range::of_encoded(
        element,
        !least::<V>(V::xor(top, ones), byte) & mask,
        low,
        bits & mantissa & mask,
        least::<V>(zero, byte) == 0,
    );
    let fnuz = matches!(element, Element::Fp8Fnuz | Element::Bf8Fnuz);
    if fnuz && V::any_zero_byte(special) {
        range.top = u32::MAX;
    }
    range
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
