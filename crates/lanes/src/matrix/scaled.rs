//! F8F6F4 of gfx950 and gfx1250: per block of K an exact dot product, times the two scale
//! factors, added to the f32 accumulator with one rounding.

use super::exact::{Term, sum};

/// Scale factors of one block: significands and exponents multiplied, `None` if one is NaN.
pub(super) type Scale = Option<(i64, i32)>;

/// `c + scale x (a . b)` for one block of K.
///
/// Finite elements are multiples of 2^-16 below 2^16, so 32 products fit 70 bits.
pub(super) fn block(a: &[f32], b: &[f32], c: f32, scale: Scale) -> f32 {
    let Some((significand, exponent)) = scale else {
        return f32::NAN;
    };
    let finite = a.iter().chain(b).all(|x| x.is_finite()) && c.is_finite();
    if !finite {
        let dot = a
            .iter()
            .zip(b)
            .map(|(a, b)| f64::from(*a) * f64::from(*b))
            .sum::<f64>();
        // A zero scale turns an infinite dot product into NaN; a finite one cannot overflow f64.
        return (f64::from(c) + dot * significand as f64) as f32;
    }
    let fixed = |x: f32| (x * 65536.0) as i64;
    let dot: i128 = a
        .iter()
        .zip(b)
        .map(|(a, b)| i128::from(fixed(*a)) * i128::from(fixed(*b)))
        .sum();
    sum(&mut [
        Term {
            m: dot * i128::from(significand),
            e: exponent - 32,
        },
        Term::from_f32(c),
    ])
}
