//! CDNA3 (and by default CDNA4), f16, bf16, xf32, fp8, bf8: the products of a group are
//! truncated to one grid, added as integers, aligned with the accumulator and rounded once.

/// A finite float as `significand x 2^exponent`, with the exponent of its leading position:
/// floor(log2 |x|), not below `min`; that of zero is -126.
#[derive(Clone, Copy)]
struct Split {
    significand: i64,
    exponent: i32,
    leading: i32,
}

fn split(x: f32, min: i32) -> Split {
    let bits = x.to_bits();
    let field = (bits >> 23 & 0xff) as i32;
    let fraction = i64::from(bits & 0x7f_ffff);
    let (magnitude, exponent) = if field == 0 {
        (fraction, -149)
    } else {
        (fraction | 0x80_0000, field - 150)
    };
    let significand = if x.is_sign_negative() {
        -magnitude
    } else {
        magnitude
    };
    let leading = if magnitude == 0 {
        -126
    } else {
        (exponent + 63 - magnitude.leading_zeros() as i32).max(min)
    };
    Split {
        significand,
        exponent,
        leading,
    }
}

/// `value x 2^shift` towards zero.
fn shift_toward_zero(value: i64, shift: i32) -> i64 {
    match shift {
        0.. => value << shift.min(62),
        -62..0 => {
            let magnitude = (value.unsigned_abs() >> -shift) as i64;
            if value < 0 { -magnitude } else { magnitude }
        }
        _ => 0,
    }
}

/// `value x 2^shift` towards minus infinity.
fn shift_down(value: i64, shift: i32) -> i64 {
    if shift >= 0 {
        value << shift.min(62)
    } else {
        value >> (-shift).min(63)
    }
}

/// Largest exponent sum of the group and the truncated products in units of 2^(it - 24).
fn products(a: &[Split], b: &[Split]) -> (i32, i64) {
    let top = a
        .iter()
        .zip(b)
        .map(|(a, b)| a.leading + b.leading)
        .max()
        .unwrap_or(-252);
    let sum = a
        .iter()
        .zip(b)
        .map(|(a, b)| {
            let product = a.significand * b.significand;
            shift_toward_zero(product, a.exponent + b.exponent + 24 - top)
        })
        .sum();
    (top, sum)
}

/// Infinities and NaN, or products that overflow f32; `None` if the group is ordinary.
///
/// Infinite operands and accumulators decide as in IEEE arithmetic; only if there are none do
/// finite products of 2^128 and more count as infinities.
pub(super) fn special(a: &[f32], b: &[f32], c: f32) -> Option<f32> {
    let (mut infinite, mut overflow) = (Signs::of(c.into(), c.is_infinite()), Signs::default());
    let mut nan = c.is_nan();
    for (&a, &b) in a.iter().zip(b) {
        // f64 holds the product exactly.
        let product = f64::from(a) * f64::from(b);
        nan |= product.is_nan();
        infinite = infinite.or(Signs::of(product, product.is_infinite()));
        overflow = overflow.or(Signs::of(product, product.abs() >= 2f64.powi(128)));
    }
    if nan {
        Some(f32::NAN)
    } else {
        infinite.value().or_else(|| overflow.value())
    }
}

/// Which infinities were seen.
#[derive(Clone, Copy, Default)]
struct Signs {
    positive: bool,
    negative: bool,
}

impl Signs {
    fn of(x: f64, seen: bool) -> Signs {
        Signs {
            positive: seen && x > 0.0,
            negative: seen && x < 0.0,
        }
    }

    fn or(self, other: Signs) -> Signs {
        Signs {
            positive: self.positive | other.positive,
            negative: self.negative | other.negative,
        }
    }

    fn value(self) -> Option<f32> {
        match (self.positive, self.negative) {
            (true, true) => Some(f32::NAN),
            (true, false) => Some(f32::INFINITY),
            (false, true) => Some(f32::NEG_INFINITY),
            (false, false) => None,
        }
    }
}

/// Accumulates one group. `min_a`, `min_b`: smallest normal exponents of the formats.
/// `parity`: even and odd k have grids of their own (fp8 and bf8).
pub(super) fn group(a: &[f32], b: &[f32], c: f32, min_a: i32, min_b: i32, parity: bool) -> f32 {
    if let Some(result) = special(a, b, c) {
        return result;
    }
    let mut sa = [Split {
        significand: 0,
        exponent: 0,
        leading: -126,
    }; 16];
    let mut sb = sa;
    let len = a.len().min(16);
    for k in 0..len {
        // Even k first, then odd k, if they are to be apart.
        let to = if parity {
            k / 2 + k % 2 * len.div_ceil(2)
        } else {
            k
        };
        sa[to] = split(a[k], min_a);
        sb[to] = split(b[k], min_b);
    }
    let (top, sum) = if parity {
        let half = len.div_ceil(2);
        let (top0, sum0) = products(&sa[..half], &sb[..half]);
        let (top1, sum1) = products(&sa[half..len], &sb[half..len]);
        let top = top0.max(top1);
        (
            top,
            shift_down(sum0, top0 - top) + shift_down(sum1, top1 - top),
        )
    } else {
        products(&sa[..len], &sb[..len])
    };
    let s = split(c, -126);
    let top2 = top.max(s.leading);
    let products = shift_down(sum, 7 + top - top2);
    let accumulator = if parity && s.leading < top2 - 25 {
        0
    } else {
        shift_down(s.significand, s.exponent + 24 - top2)
    };
    // At most 37 bits: f64 holds the sum, and the scaled sum, exactly.
    let total = (products + 128 * accumulator) as f64;
    (total * 2f64.powi(top2 - 31)) as f32
}

/// `c + a . b` in groups of `size`, the accumulator rounded to f32 after each.
pub(super) fn f32(
    a: &[f32],
    b: &[f32],
    c: f32,
    size: usize,
    (min_a, min_b): (i32, i32),
    parity: bool,
) -> f32 {
    a.chunks(size)
        .zip(b.chunks(size))
        .fold(c, |sum, (a, b)| group(a, b, sum, min_a, min_b, parity))
}
