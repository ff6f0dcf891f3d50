//! RDNA3 WMMA: eight steps of a two-product dot instruction. How the hardware aligns the three
//! terms is not known; this is their exact sum, rounded once, with the flushes that are known:
//! bf16 operands, and f32 accumulators and results below 2^-126.

use super::exact::{Term, sum};

fn flush(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE {
        0f32.copysign(x)
    } else {
        x
    }
}

/// `c + a . b`, two products a step. Operands of bf16 come flushed.
pub(super) fn f32(a: &[f32], b: &[f32], c: f32) -> f32 {
    a.chunks(2)
        .zip(b.chunks(2))
        .fold(c, |sum, (a, b)| step(a, b, flush(sum)))
}

fn step(a: &[f32], b: &[f32], c: f32) -> f32 {
    let finite = a.iter().chain(b).all(|x| x.is_finite()) && c.is_finite();
    if !finite {
        // Only the kind of the result matters; f64 keeps finite products finite.
        let total = a.iter().zip(b).fold(f64::from(c), |sum, (a, b)| {
            sum + f64::from(*a) * f64::from(*b)
        });
        return total as f32;
    }
    let mut terms = [Term { m: 0, e: 0 }; 3];
    terms[0] = Term::from_f32(c);
    for ((a, b), term) in a.iter().zip(b).zip(&mut terms[1..]) {
        *term = Term::product(*a, *b);
    }
    flush(sum(&mut terms))
}
