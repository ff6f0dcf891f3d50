//! Exact sums of a few numbers `m x 2^e`, rounded once to f32.

/// The number `m x 2^e`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Term {
    pub m: i128,
    pub e: i32,
}

impl Term {
    /// A finite f32.
    pub fn from_f32(x: f32) -> Term {
        let bits = x.to_bits();
        let field = (bits >> 23 & 0xff) as i32;
        let fraction = i128::from(bits & 0x7f_ffff);
        let (m, e) = if field == 0 {
            (fraction, -149)
        } else {
            (fraction | 0x80_0000, field - 150)
        };
        Term {
            m: if x.is_sign_negative() { -m } else { m },
            e,
        }
    }

    /// The exact product of two finite f32.
    pub fn product(a: f32, b: f32) -> Term {
        let (a, b) = (Term::from_f32(a), Term::from_f32(b));
        Term {
            m: a.m * b.m,
            e: a.e + b.e,
        }
    }

    /// Exponent above the leading bit.
    fn top(self) -> i32 {
        self.e + 128 - self.m.unsigned_abs().leading_zeros() as i32
    }

    /// The same value with the leading bit of m in bit 119.
    fn normal(self) -> Term {
        let shift = self.m.unsigned_abs().leading_zeros() as i32 - 8;
        if shift >= 0 {
            Term {
                m: self.m << shift,
                e: self.e - shift,
            }
        } else {
            jam(self, -shift)
        }
    }
}

/// Shifts right; bits shifted out survive as a set lowest bit of the magnitude.
fn jam(x: Term, shift: i32) -> Term {
    let magnitude = x.m.unsigned_abs();
    let m = if shift >= 127 {
        u128::from(magnitude != 0)
    } else {
        let kept = magnitude >> shift;
        kept | u128::from(kept << shift != magnitude)
    };
    Term {
        m: if x.m < 0 { -(m as i128) } else { m as i128 },
        e: x.e + shift,
    }
}

/// The sum; exact, or with everything far below its leading bit jammed into the lowest bit.
/// Terms must have at most 80 significant bits.
fn add(a: Term, b: Term) -> Term {
    if a.m == 0 {
        return b;
    }
    if b.m == 0 {
        return a;
    }
    let (large, small) = if a.top() >= b.top() { (a, b) } else { (b, a) };
    let large = large.normal();
    let small = if small.e >= large.e {
        Term {
            m: small.m << (small.e - large.e).min(120),
            e: large.e,
        }
    } else {
        jam(small, large.e - small.e)
    };
    Term {
        m: large.m + small.m,
        e: large.e,
    }
}

/// The sum of the terms, rounded to nearest even f32. A zero sum is +0.
///
/// Largest first: if the two largest cancel exactly, the third is the result; if they do not,
/// what is left of them lies at least at their lowest bit.
pub(super) fn sum(terms: &mut [Term]) -> f32 {
    terms.sort_by_key(|term| std::cmp::Reverse(if term.m == 0 { i32::MIN } else { term.top() }));
    round(
        terms
            .iter()
            .fold(Term { m: 0, e: 0 }, |sum, &term| add(sum, term)),
    )
}

/// Rounds to f32, to nearest even, with gradual underflow.
fn round(x: Term) -> f32 {
    if x.m == 0 {
        return 0.0;
    }
    // Keep 24 bits, or fewer where the unit would fall below 2^-149.
    let unit = (x.top() - 24).max(-149);
    let shift = unit - x.e;
    let magnitude = x.m.unsigned_abs();
    let rounded = if shift <= 0 {
        magnitude << -shift
    } else if shift > 127 {
        0
    } else {
        let kept = magnitude >> shift;
        let rest = magnitude & ((1 << shift) - 1);
        let half = 1u128 << (shift - 1);
        kept + u128::from(rest > half || rest == half && kept & 1 == 1)
    };
    // `rounded` has at most 25 bits and the product is exact or overflows.
    let value = (rounded as f64 * 2f64.powi(unit)) as f32;
    if x.m < 0 { -value } else { value }
}
