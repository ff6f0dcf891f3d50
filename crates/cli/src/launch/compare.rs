//! Comparing a buffer with what it should hold: bit for bit or within a tolerance, with a report
//! of where and by how much they differ.

use serde::{Deserialize, Serialize};

use super::element::{ElementType, Number};

/// When two buffers count as equal.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(tag = "mode", rename_all = "lowercase", deny_unknown_fields)]
pub enum Tolerance {
    /// Bit for bit.
    Exact {},
    /// `|got - want| <= atol + rtol * |want|` for every element; NaN equals NaN.
    Close {
        /// Part of the expected value.
        rtol: f64,
        /// Absolute part.
        atol: f64,
    },
}

/// One element that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Index in each dimension, outermost first.
    pub index: Vec<usize>,
    /// What the buffer holds.
    pub got: String,
    /// What it should hold.
    pub want: String,
}

/// The element that is off by most.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LargestError {
    /// Index in each dimension, outermost first.
    pub index: Vec<usize>,
    /// `|got - want|`; infinite (`null` in JSON) where one is NaN or infinite and the other not.
    pub absolute: f64,
    /// The same divided by `|want|`; infinite where that is zero.
    pub relative: f64,
}

/// The outcome of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Number of elements.
    pub elements: usize,
    /// How many are not equal under the tolerance.
    pub differing: usize,
    /// The first of them in row-major order.
    pub first: Option<Difference>,
    /// The largest error of any element, differing or not; `None` if all are bitwise equal.
    pub largest: Option<LargestError>,
}

impl Comparison {
    /// Whether the buffers count as equal.
    pub fn equal(&self) -> bool {
        self.differing == 0
    }
}

/// Compares two buffers of the same length, element by element.
pub fn compare(
    element: ElementType,
    shape: &[usize],
    got: &[u8],
    want: &[u8],
    tolerance: Tolerance,
) -> Comparison {
    let size = element.bytes();
    let mut outcome = Comparison {
        elements: want.len() / size,
        differing: 0,
        first: None,
        largest: None,
    };
    let pairs = got.chunks_exact(size).zip(want.chunks_exact(size));
    for (position, (got, want)) in pairs.enumerate() {
        if got == want {
            continue;
        }
        let (a, b) = (element.decode(got), element.decode(want));
        let absolute = distance(a, b);
        let equal = match tolerance {
            Tolerance::Exact {} => false,
            Tolerance::Close { rtol, atol } => {
                let allowed = atol + rtol * b.to_f64().abs();
                absolute == 0.0 || (absolute.is_finite() && absolute <= allowed)
            }
        };
        if outcome
            .largest
            .as_ref()
            .is_none_or(|largest| absolute > largest.absolute)
        {
            let relative = if absolute == 0.0 {
                0.0
            } else {
                absolute / b.to_f64().abs()
            };
            let relative = if relative.is_nan() {
                f64::INFINITY
            } else {
                relative
            };
            outcome.largest = Some(LargestError {
                index: unravel(position, shape),
                absolute,
                relative,
            });
        }
        if !equal {
            outcome.differing += 1;
            outcome.first.get_or_insert_with(|| Difference {
                index: unravel(position, shape),
                got: element.show(got),
                want: element.show(want),
            });
        }
    }
    outcome
}

/// `|a - b|`; zero for two NaNs or equal infinities, infinite if one is not finite.
fn distance(a: Number, b: Number) -> f64 {
    match (a, b) {
        (Number::Int(a), Number::Int(b)) => a.abs_diff(b) as f64,
        _ => {
            let (a, b) = (a.to_f64(), b.to_f64());
            if a == b || (a.is_nan() && b.is_nan()) {
                0.0
            } else if a.is_finite() && b.is_finite() {
                (a - b).abs()
            } else {
                f64::INFINITY
            }
        }
    }
}

/// The index in each dimension of the element at a row-major position.
pub fn unravel(mut position: usize, shape: &[usize]) -> Vec<usize> {
    let mut index: Vec<usize> = shape
        .iter()
        .rev()
        .map(|&extent| {
            let extent = extent.max(1);
            let here = position % extent;
            position /= extent;
            here
        })
        .collect();
    index.reverse();
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(values: &[f32]) -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    }

    #[test]
    fn exact_reports_the_first_and_the_count() {
        let want = floats(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let got = floats(&[0.0, 1.0, 2.0, 3.5, 4.0, 7.0]);
        let outcome = compare(ElementType::F32, &[2, 3], &got, &want, Tolerance::Exact {});
        assert_eq!((outcome.elements, outcome.differing), (6, 2));
        let first = outcome.first.unwrap();
        assert_eq!(
            (first.index, first.got.as_str(), first.want.as_str()),
            (vec![1, 0], "3.5 (0x40600000)", "3 (0x40400000)")
        );
        let largest = outcome.largest.unwrap();
        assert_eq!(
            (largest.index, largest.absolute, largest.relative),
            (vec![1, 2], 2.0, 0.4)
        );
    }

    #[test]
    fn close_allows_the_tolerance_and_nan_equals_nan() {
        let close = Tolerance::Close {
            rtol: 0.1,
            atol: 0.5,
        };
        let other_nan = f32::from_bits(0x7fc0_0001);
        let want = floats(&[10.0, f32::NAN, f32::INFINITY, 0.0]);
        let within = floats(&[11.5, other_nan, f32::INFINITY, -0.5]);
        assert!(compare(ElementType::F32, &[4], &within, &want, close).equal());
        let beyond = floats(&[11.6, 1.0, f32::NEG_INFINITY, 0.6]);
        let outcome = compare(ElementType::F32, &[4], &beyond, &want, close);
        assert_eq!(outcome.differing, 4);
        assert_eq!(outcome.largest.unwrap().absolute, f64::INFINITY);
        let zeros = compare(
            ElementType::F32,
            &[1],
            &floats(&[-0.0]),
            &floats(&[0.0]),
            Tolerance::Exact {},
        );
        assert_eq!((zeros.differing, zeros.largest.unwrap().absolute), (1, 0.0));
    }

    #[test]
    fn large_integers_are_told_apart() {
        let outcome = compare(
            ElementType::U64,
            &[1],
            &u64::MAX.to_le_bytes(),
            &(u64::MAX - 1).to_le_bytes(),
            Tolerance::Exact {},
        );
        assert_eq!(
            (outcome.differing, outcome.largest.unwrap().absolute),
            (1, 1.0)
        );
        assert_eq!(unravel(5, &[]), Vec::<usize>::new());
    }
}
