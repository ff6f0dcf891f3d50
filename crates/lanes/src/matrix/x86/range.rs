//! What the floats of an operand span, and what follows from it for the sums of an instruction.

use super::super::formats;
use super::super::op::{Element, MatrixOp};

/// Positive normal f32.
const NORMAL: std::ops::Range<u32> = 0x0080_0000..0x7f80_0000;

/// What the floats of an operand span, as bits of positive f32.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    /// Largest magnitude.
    pub top: u32,
    /// Smallest magnitude but for zero; 0 if all are zero.
    pub low: u32,
    /// A power of two that all numbers are multiples of; 0 if all are zero.
    pub unit: u32,
    /// Some are zero.
    pub zeros: bool,
}

/// Exponent of a positive normal f32.
fn exponent(bits: u32) -> i32 {
    (bits >> 23) as i32 - 127
}

/// log2 of a count, rounded up.
fn log2(count: usize) -> i32 {
    (count as u32).next_power_of_two().trailing_zeros() as i32
}

impl Range {
    /// Exponents of the smallest and the largest magnitude; any will do if all are zero.
    fn exponents(self) -> (i32, i32) {
        if self.top == 0 {
            (0, 0)
        } else {
            (exponent(self.low), exponent(self.top))
        }
    }

    /// Neither zero nor subnormal, infinite or NaN.
    fn is_normal(self) -> bool {
        NORMAL.contains(&self.unit) && NORMAL.contains(&self.top)
    }

    /// For the test whether the range spans a number x that is not negative: 2^(u + 23), u being the exponent of its unit,
    /// and the bits that x plus that has beside its own if x is too large. `None` if numbers of f32 are too short.
    pub fn test(self) -> Option<(f32, i32)> {
        if !self.is_normal() {
            return None;
        }
        let unit = exponent(self.unit);
        let bits = exponent(self.top) + 1 - unit;
        ((-100..=100).contains(&unit) && (0..=23).contains(&bits)).then(|| {
            let magic = f32::from_bits(((unit + 23 + 127) as u32) << 23);
            (magic, !((1 << bits) - 1))
        })
    }

    /// All finite.
    fn is_finite(self) -> bool {
        self.top < NORMAL.end
    }

    /// The exponents of the unit of all products, and of a bound of the sum of `k` products.
    fn products(a: Range, b: Range, k: usize) -> (i32, i32) {
        (
            exponent(a.unit) + exponent(b.unit),
            exponent(a.top) + exponent(b.top) + 2 + log2(k),
        )
    }

    /// Whether every sum of up to `k` products fits `bits` significant bits.
    pub fn fits(a: Range, b: Range, k: usize, bits: i32) -> bool {
        if a.top == 0 || b.top == 0 {
            return a.is_finite() && b.is_finite();
        }
        let (unit, top) = Range::products(a, b, k);
        a.is_normal() && b.is_normal() && top - unit <= bits
    }

    /// Whether f64 holds every sum of up to `k` products and `c`, none of them subnormal in f32
    /// and none beyond it.
    pub fn fits_f64(a: Range, b: Range, c: Range, k: usize) -> bool {
        if !(a.is_normal() && b.is_normal()) {
            return false;
        }
        let (mut unit, mut top) = Range::products(a, b, k);
        if c.top != 0 {
            if !c.is_normal() {
                return false;
            }
            unit = unit.min(exponent(c.unit));
            top = top.max(exponent(c.top) + 1) + 1;
        }
        unit >= -126 && top < 127 && top - unit <= 53
    }

    /// Whether a tree of bf16 products meets no number that CDNA2 flushes, and no product that
    /// overflows: products are multiples of the product of the units, so are their sums, and so
    /// are the accumulators if they start as zeros or above [`TREE_LEAST`].
    pub fn nothing_to_flush(a: Range, b: Range) -> bool {
        a.is_normal()
            && b.is_normal()
            && exponent(a.unit) + exponent(b.unit) >= -126
            && exponent(a.top) + exponent(b.top) <= 120
    }

    /// What all numbers of a finite format below eight bits span.
    pub fn of_format(element: Element) -> Option<Range> {
        let (unit, top) = match element {
            Element::Fp4 => (0.5f32, 6f32),
            Element::Fp6 => (0.125, 7.5),
            Element::Bf6 => (0.0625, 28.0),
            _ => return None,
        };
        Some(Range {
            top: top.to_bits(),
            low: unit.to_bits(),
            unit: unit.to_bits(),
            zeros: true,
        })
    }
}

/// What the floats of 16 or 8 bits of an operand span, by their magnitudes as they are encoded. Eight bytes, so that it is
/// returned in a register.
#[derive(Clone, Copy, Debug)]
pub(super) struct Encoded {
    pub element: Element,
    /// Some are zero.
    pub zeros: bool,
    /// The largest; [`Encoded::NAN`] if some are the NaN that a format has in place of -0.
    pub top: u16,
    /// The smallest other than zero; 0 if there is none.
    pub low: u16,
    /// The bits that are set in any.
    pub bits: u16,
}

/// Magnitudes of 16 or 8 bits that leave an [`Exact`] as it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub element: Element,
    /// The largest.
    pub top: u32,
    /// The smallest but for zero.
    pub low: u32,
    /// Bits that none may have.
    pub dropped: u32,
}

impl Encoded {
    /// Above all magnitudes.
    pub const NAN: u16 = u16::MAX;

    /// Bits of a mantissa.
    fn mantissa(self) -> u32 {
        match self.element {
            Element::F16 => 10,
            Element::Bf16 => 7,
            Element::Fp8 | Element::Fp8Fnuz => 3,
            _ => 2,
        }
    }

    /// The lowest mantissa bit that is set in any number; the bits of a mantissa if there is none.
    fn lowest(self) -> u32 {
        self.bits.trailing_zeros().min(self.mantissa())
    }

    /// The least exponent field, those of subnormals counting as 1.
    fn field(self) -> u32 {
        (u32::from(self.low) >> self.mantissa()).max(1)
    }

    /// The same as floats: all are multiples of the lowest bit of the smallest exponent.
    #[inline]
    pub fn range(self) -> Range {
        let value = |bits| formats::decode(self.element, bits).to_bits();
        let unit = match self.low {
            0 => 0,
            _ => value(self.field() << self.mantissa())
                .saturating_sub((self.mantissa() - self.lowest()) << 23),
        };
        Range {
            top: match self.top {
                Encoded::NAN => u32::MAX,
                top => value(top.into()),
            },
            low: value(self.low.into()),
            unit,
            zeros: self.zeros,
        }
    }

    /// Numbers for which [`Exact::new`] gives what it gives for these: with the same extreme exponents, and no lower bits.
    pub fn limits(self) -> Limits {
        let top = u32::from(self.top);
        let whole = top | ((1 << self.mantissa()) - 1);
        Limits {
            element: self.element,
            top: if formats::decode(self.element, whole).is_finite() {
                whole
            } else {
                top
            },
            low: match self.field() {
                1 => 1,
                field => field << self.mantissa(),
            },
            dropped: (1 << self.lowest()) - 1,
        }
    }
}

/// Numbers for which sums are exact that were it before, by what is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) enum Within {
    /// Multiples of the unit that are below the power of two behind the largest.
    Floats(Range),
    Encoded(Limits),
}

/// Sums that were exact: of `k` products of numbers within limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub k: usize,
    pub exact: Exact,
    pub limits: [Within; 2],
}

/// 2^-102: the lowest bit of this and larger accumulators is not below 2^-126.
pub(super) const TREE_LEAST: f32 = f32::from_bits((127 - 102) << 23);

/// Sums that f32 holds exactly, in any order: all products are multiples of one power of two, and
/// so are accumulators that pass the check of the kernels.
///
/// Then fused sums lose nothing either: their grids, 2^(E - 24), 2^(E2 - 24) and 2^(E2 - 31), are
/// finer than that power of two, since 2^E and 2^E2 are not above the bound of all sums. A plain
/// FMA chain gives the same bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exact {
    /// 1.5 x 2^(u + 23), u being the unit's exponent: adding it to a multiple of the unit
    /// below 2^(u + 22) is exact and leaves its upper ten bits; other numbers fail one of the two.
    pub magic: f32,
}

impl Exact {
    /// `None` if sums of `k` products may be inexact. `mins` are the smallest normal exponents of the formats, which
    /// count for smaller numbers, too.
    #[inline]
    pub fn new(a: Range, b: Range, k: usize, mins: (i32, i32)) -> Option<Exact> {
        if !(a.is_normal() && b.is_normal()) {
            return None;
        }
        let (top_a, top_b) = (exponent(a.top).max(mins.0), exponent(b.top).max(mins.1));
        // A zero has the exponent -126: together with a large factor it could set the grid.
        if top_a.max(top_b) > 50 {
            return None;
        }
        let unit = exponent(a.unit) + exponent(b.unit);
        let top = top_a + top_b + 2 + log2(k);
        (unit > -100 && unit < 76 && top <= unit + 23).then(|| Exact {
            magic: f32::from_bits(((unit + 23 + 127) as u32) << 23 | 1 << 22),
        })
    }
}

/// Fused sums of one instruction: what the kernels need besides the panels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fused {
    /// What the exponent bytes of A and B are relative to.
    pub bases: (i32, i32),
    /// Exponent byte of a group without products.
    pub floor: i8,
    /// Smallest normal exponents of A and B.
    pub mins: (i32, i32),
    /// Accumulators below this, zero excepted, are for the reference.
    pub least: f32,
    /// Some of A or B are infinite or NaN: their rows and columns are for the reference.
    pub specials: bool,
    /// Everything is for the reference.
    pub all: bool,
    /// Columns of A's and B's panels, and rows of B's.
    pub panels: (usize, usize, usize),
}

impl Fused {
    /// Ranges within which the kernels are exact; beyond them they ask the reference.
    ///
    /// With e the exponents of non-zero elements, L the least and H the largest sum of two:
    /// products and scaled products stay inside f32 if H <= 125 and L >= -90. All sums lie
    /// within 90 of each other, so bytes relative to the largest hold them; a zero is -128.
    /// A group of zeros only has no products, and its true exponent sum is at most
    /// -126 + max e. That is at most L - 8, the value used here. With either, an accumulator
    /// that comes from earlier groups (a multiple of 2^(L - 31)) loses nothing, and neither does
    /// a C of 2^(L - 8) or more: the result is the accumulator.
    pub fn new(op: &MatrixOp, a: Range, b: Range, panels: (usize, usize, usize)) -> Fused {
        let specials = !a.is_finite() || !b.is_finite();
        let zeros = a.zeros || b.zeros;
        let least = |exponent: i32| {
            if zeros {
                f32::from_bits(((exponent + 127) as u32) << 23)
            } else {
                0.0
            }
        };
        let mut fused = Fused {
            // Of f16 and 8-bit floats sums of exponents lie between -30 and 30 by format.
            bases: (0, 0),
            floor: -64,
            mins: (formats::min_exponent(op.a), formats::min_exponent(op.b)),
            least: least(-64),
            specials,
            all: false,
            panels,
        };
        if op.a.bits() == 8 || op.a == Element::F16 {
            return fused;
        }
        let ((low_a, top_a), (low_b, top_b)) = (a.exponents(), b.exponents());
        let (low, top) = (low_a + low_b, top_a + top_b);
        if specials
            || top > 125
            || low < -90
            || top - low > 90
            || zeros && top_a.max(top_b) - 126 > low - 8
        {
            fused.all = true;
            return fused;
        }
        fused.bases = (top_a, top_b);
        fused.floor = (low - 8 - top) as i8;
        fused.least = least(low - 8);
        fused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(element: Element, numbers: &[u32]) -> Encoded {
        Encoded {
            element,
            zeros: numbers.contains(&0),
            top: numbers.iter().copied().max().unwrap_or(0) as u16,
            low: numbers
                .iter()
                .copied()
                .filter(|&x| x != 0)
                .min()
                .unwrap_or(0) as u16,
            bits: numbers.iter().fold(0, |all, x| all | x) as u16,
        }
    }

    #[test]
    fn numbers_within_limits_leave_exact_sums_as_they_are() {
        let mut seed = 1u64;
        let mut below = |n: u32| {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (seed >> 33) as u32 % n
        };
        let (mut exact, mut within) = (0, 0);
        for element in [
            Element::F16,
            Element::Bf16,
            Element::Fp8,
            Element::Bf8,
            Element::Fp8Fnuz,
            Element::Bf8Fnuz,
        ] {
            let most = if element.bits() == 8 { 0x80 } else { 0x8000 };
            let min = formats::min_exponent(element);
            for _ in 0..4000 {
                // Numbers of about one size, as wide formats have to be.
                let near = below(most);
                let step = 1 << below(if most == 0x80 { 3 } else { 10 });
                let mut number = || (near + below(8) * step) % most / step * step;
                let mut numbers = vec![number(), number(), number()];
                let span = of(element, &numbers);
                let sums = |a: Encoded| Exact::new(a.range(), a.range(), 8, (min, min));
                let Some(before) = sums(span) else { continue };
                exact += 1;
                let limits = span.limits();
                for other in [number(), below(most), below(most) / step * step] {
                    let is_within = other <= limits.top
                        && (other == 0 || other >= limits.low)
                        && other & limits.dropped == 0;
                    if is_within {
                        within += 1;
                        numbers.push(other);
                        let after = sums(of(element, &numbers)).map(|exact| exact.magic);
                        assert_eq!(after, Some(before.magic), "{element:?} {numbers:x?}");
                    }
                }
            }
        }
        assert!(exact > 2000 && within > 2000, "{exact} {within}");
    }
}
