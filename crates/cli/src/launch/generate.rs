//! Generated contents of buffers: SplitMix64 and the generators of the corpus's descriptions.

use serde::Deserialize;

use super::element::{ElementType, Number};

/// How the content of a buffer comes about. Elements are counted in row-major order; `z(i)` is
/// output number i of SplitMix64 with the seed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "gen", rename_all = "lowercase", deny_unknown_fields)]
pub enum Generator {
    /// The same value everywhere.
    Fill {
        /// That value.
        value: serde_json::Number,
    },
    /// `lo + (hi - lo) * ((z >> 40) * 2^-24)` in `f64`, rounded to `f32` and to the type if that is
    /// narrower.
    Uniform {
        /// Seed of the generator.
        seed: u64,
        /// Least value.
        lo: f64,
        /// Upper bound, not reached but by rounding.
        hi: f64,
    },
    /// `lo + (z >> 33) % (hi - lo + 1)`, times `scale`.
    Int {
        /// Seed of the generator.
        seed: u64,
        /// Least integer.
        lo: i64,
        /// Greatest integer.
        hi: i64,
        /// Factor applied to the integer.
        scale: Option<f64>,
    },
    /// The low bits of z.
    Bits {
        /// Seed of the generator.
        seed: u64,
    },
    /// `start + step * i`.
    Arange {
        /// First value.
        start: f64,
        /// Distance of neighbours.
        step: f64,
    },
    /// Element k is the index of the k-th smallest z.
    Perm {
        /// Seed of the generator.
        seed: u64,
    },
    /// The values as listed.
    List {
        /// One for each element.
        values: Vec<serde_json::Number>,
    },
}

/// Why a content cannot be generated.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum GenerateError {
    #[error("element {index} would be {value}, which {element} cannot hold")]
    Range {
        index: usize,
        value: Number,
        element: &'static str,
    },
    #[error("{listed} values are listed for {wanted} elements")]
    Length { listed: usize, wanted: usize },
    #[error("{0} elements do not fit the host's memory")]
    Memory(usize),
    #[error("`int` from {lo} to {hi} is empty")]
    Empty { lo: i64, hi: i64 },
}

/// Output number `index` of SplitMix64.
pub fn split_mix(seed: u64, index: u64) -> u64 {
    let mut s = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    s = (s ^ s >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    s = (s ^ s >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    s ^ s >> 31
}

/// A JSON number, exact if it is an integer.
pub fn number(value: &serde_json::Number) -> Number {
    match (value.as_i64(), value.as_u64()) {
        (Some(value), _) => Number::Int(value.into()),
        (_, Some(value)) => Number::Int(value.into()),
        _ => Number::Float(value.as_f64().unwrap_or(f64::NAN)),
    }
}

/// An empty vector with room for that many elements.
fn room(element: ElementType, elements: usize) -> Result<Vec<u8>, GenerateError> {
    let too_large = GenerateError::Memory(elements);
    let Some(size) = elements.checked_mul(element.bytes()) else {
        return Err(too_large);
    };
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size).map_err(|_| too_large)?;
    Ok(bytes)
}

/// The bytes of `elements` times the same value.
///
/// # Errors
///
/// [`GenerateError::Range`] and [`GenerateError::Memory`].
pub fn filled(
    element: ElementType,
    elements: usize,
    value: Number,
) -> Result<Vec<u8>, GenerateError> {
    let mut bytes = room(element, elements)?;
    let mut one = Vec::new();
    let range = GenerateError::Range {
        index: 0,
        value,
        element: element.name(),
    };
    element.encode(value, &mut one).ok_or(range)?;
    for _ in 0..elements {
        bytes.extend_from_slice(&one);
    }
    Ok(bytes)
}

impl Generator {
    /// The bytes of `elements` elements.
    ///
    /// # Errors
    ///
    /// [`GenerateError`] for a value that the element type cannot hold or a list of another length.
    pub fn bytes(&self, element: ElementType, elements: usize) -> Result<Vec<u8>, GenerateError> {
        let mut bytes = room(element, elements)?;
        let mut put = |index: usize, value: Number| {
            element
                .encode(value, &mut bytes)
                .ok_or(GenerateError::Range {
                    index,
                    value,
                    element: element.name(),
                })
        };
        let z = |seed: &u64, index: usize| split_mix(*seed, index as u64);
        match self {
            Generator::Fill { value } => return filled(element, elements, number(value)),
            Generator::Uniform { seed, lo, hi } => {
                let unit = 2f64.powi(-24);
                for index in 0..elements {
                    let value = lo + (hi - lo) * ((z(seed, index) >> 40) as f64 * unit);
                    put(index, Number::Float(value))?;
                }
            }
            Generator::Int {
                seed,
                lo,
                hi,
                scale,
            } => {
                let span = (i128::from(*hi) - i128::from(*lo) + 1).max(0) as u128;
                if span == 0 {
                    return Err(GenerateError::Empty { lo: *lo, hi: *hi });
                }
                for index in 0..elements {
                    let value = i128::from(*lo) + (u128::from(z(seed, index) >> 33) % span) as i128;
                    put(
                        index,
                        scale.map_or(Number::Int(value), |scale| {
                            Number::Float(value as f64 * scale)
                        }),
                    )?;
                }
            }
            Generator::Bits { seed } => {
                for index in 0..elements {
                    bytes.extend(z(seed, index).to_le_bytes().iter().take(element.bytes()));
                }
            }
            Generator::Arange { start, step } => {
                (0..elements)
                    .try_for_each(|index| put(index, Number::Float(start + step * index as f64)))?;
            }
            Generator::Perm { seed } => {
                let mut order: Vec<(u64, usize)> = Vec::new();
                order
                    .try_reserve_exact(elements)
                    .map_err(|_| GenerateError::Memory(elements))?;
                order.extend((0..elements).map(|index| (z(seed, index), index)));
                order.sort_unstable();
                for (index, (_, from)) in order.into_iter().enumerate() {
                    put(index, Number::Int(from as i128))?;
                }
            }
            Generator::List { values } => {
                if values.len() != elements {
                    return Err(GenerateError::Length {
                        listed: values.len(),
                        wanted: elements,
                    });
                }
                values
                    .iter()
                    .enumerate()
                    .try_for_each(|(index, value)| put(index, number(value)))?;
            }
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_mix_is_the_published_one() {
        // First outputs for the seed 1234567, from the reference implementation's test vectors.
        let outputs: Vec<u64> = (0..3).map(|index| split_mix(1234567, index)).collect();
        assert_eq!(
            outputs,
            [
                6457827717110365317,
                3203168211198807973,
                9817491932198370423
            ]
        );
    }

    #[test]
    fn small_generators() {
        let arange = Generator::Arange {
            start: 2.0,
            step: -1.0,
        };
        assert_eq!(arange.bytes(ElementType::I8, 4).unwrap(), [2, 1, 0, 255]);
        let list = Generator::List {
            values: vec![1.into(), 2.into()],
        };
        assert_eq!(list.bytes(ElementType::U16, 2).unwrap(), [1, 0, 2, 0]);
        let short = list.bytes(ElementType::U16, 3).unwrap_err().to_string();
        assert_eq!(short, "2 values are listed for 3 elements");
        let fill = Generator::Fill { value: 300.into() };
        let wide = fill.bytes(ElementType::U8, 1).unwrap_err().to_string();
        assert_eq!(wide, "element 0 would be 300, which u8 cannot hold");
        let huge = list
            .bytes(ElementType::F64, usize::MAX / 4)
            .unwrap_err()
            .to_string();
        assert!(huge.contains("do not fit the host's memory"), "{huge}");
        let empty = Generator::Int {
            seed: 1,
            lo: 2,
            hi: 1,
            scale: None,
        };
        assert!(empty.bytes(ElementType::U8, 1).is_err());
    }
}
