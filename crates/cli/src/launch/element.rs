//! Element types of buffers and scalars: sizes, conversion from and to numbers, to text.
//! Narrow floats are rounded to nearest even, as in the corpus's definition.

use std::fmt;

use serde::Deserialize;

/// The type of a scalar or of one element of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum ElementType {
    F64,
    F32,
    F16,
    Bf16,
    F8e4m3fn,
    F8e5m2,
    F8e4m3fnuz,
    F8e5m2fnuz,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
}

use ElementType::*;

/// Every element type with its name.
const NAMES: [(ElementType, &str); 16] = [
    (F64, "f64"),
    (F32, "f32"),
    (F16, "f16"),
    (Bf16, "bf16"),
    (F8e4m3fn, "f8e4m3fn"),
    (F8e5m2, "f8e5m2"),
    (F8e4m3fnuz, "f8e4m3fnuz"),
    (F8e5m2fnuz, "f8e5m2fnuz"),
    (I8, "i8"),
    (U8, "u8"),
    (I16, "i16"),
    (U16, "u16"),
    (I32, "i32"),
    (U32, "u32"),
    (I64, "i64"),
    (U64, "u64"),
];

/// A number that an element holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Of an integer type.
    Int(i128),
    /// Of a floating-point type; `f64` holds all of them exactly.
    Float(f64),
}

impl Number {
    /// The number as `f64`, rounded if it is a large integer.
    pub fn to_f64(self) -> f64 {
        match self {
            Number::Int(value) => value as f64,
            Number::Float(value) => value,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Int(value) => write!(f, "{value}"),
            Number::Float(value) => {
                let size = value.abs();
                if size != 0.0 && size.is_finite() && !(1e-4..1e9).contains(&size) {
                    write!(f, "{value:e}")
                } else {
                    write!(f, "{value}")
                }
            }
        }
    }
}

/// What the codes above the largest finite number mean.
#[derive(Clone, Copy, PartialEq)]
enum Special {
    /// Infinities and NaNs as in IEEE 754.
    Ieee,
    /// The code with all bits set is NaN; no infinities (OCP e4m3).
    OneNan,
    /// Minus zero is NaN; no infinities.
    NegativeZeroNan,
}

/// A floating-point format of at most 16 bits.
struct Narrow {
    exponent: u32,
    mantissa: u32,
    bias: i32,
    special: Special,
}

impl ElementType {
    /// Reads a name such as `bf16`.
    pub fn from_name(name: &str) -> Option<Self> {
        NAMES
            .iter()
            .find(|entry| entry.1 == name)
            .map(|entry| entry.0)
    }

    /// The names of all types, for messages.
    pub fn names() -> String {
        NAMES.map(|entry| entry.1).join(", ")
    }

    /// The name, such as `bf16`.
    pub fn name(self) -> &'static str {
        NAMES
            .iter()
            .find(|entry| entry.0 == self)
            .map_or("?", |entry| entry.1)
    }

    /// Size in bytes.
    pub fn bytes(self) -> usize {
        match self {
            F64 | I64 | U64 => 8,
            F32 | I32 | U32 => 4,
            F16 | Bf16 | I16 | U16 => 2,
            F8e4m3fn | F8e5m2 | F8e4m3fnuz | F8e5m2fnuz | I8 | U8 => 1,
        }
    }

    /// Whether it is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self, F64 | F32) || self.narrow().is_some()
    }

    fn narrow(self) -> Option<Narrow> {
        let (exponent, mantissa, bias, special) = match self {
            F16 => (5, 10, 15, Special::Ieee),
            Bf16 => (8, 7, 127, Special::Ieee),
            F8e4m3fn => (4, 3, 7, Special::OneNan),
            F8e5m2 => (5, 2, 15, Special::Ieee),
            F8e4m3fnuz => (4, 3, 8, Special::NegativeZeroNan),
            F8e5m2fnuz => (5, 2, 16, Special::NegativeZeroNan),
            _ => return None,
        };
        Some(Narrow {
            exponent,
            mantissa,
            bias,
            special,
        })
    }

    /// The smallest and largest integer of an integer type.
    fn range(self) -> Option<(i128, i128)> {
        let bits = self.bytes() as u32 * 8;
        match self {
            I8 | I16 | I32 | I64 => Some((-(1 << (bits - 1)), (1 << (bits - 1)) - 1)),
            U8 | U16 | U32 | U64 => Some((0, (1 << bits) - 1)),
            _ => None,
        }
    }

    /// Appends a number as one element, little-endian. `f64` rounds to `f32` first where the type
    /// is narrower, each time to nearest even. `None` if an integer type cannot hold the number.
    pub fn encode(self, number: Number, to: &mut Vec<u8>) -> Option<()> {
        if let Some((low, high)) = self.range() {
            let value = match number {
                Number::Int(value) => value,
                Number::Float(value) if value.fract() == 0.0 => value as i128,
                Number::Float(_) => return None,
            };
            if !(low..=high).contains(&value) {
                return None;
            }
            to.extend(value.to_le_bytes().iter().take(self.bytes()));
            return Some(());
        }
        let value = number.to_f64();
        match self.narrow() {
            None if self == F64 => to.extend(value.to_le_bytes()),
            None => to.extend((value as f32).to_le_bytes()),
            Some(format) => {
                let code = format.encode(value as f32);
                to.extend(code.to_le_bytes().iter().take(self.bytes()));
            }
        }
        Some(())
    }

    /// Reads one element from its bytes, which must be exactly as many as [`bytes`](Self::bytes);
    /// missing bytes count as zero.
    pub fn decode(self, bytes: &[u8]) -> Number {
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(bytes.iter().take(self.bytes())) {
            *to = *from;
        }
        let bits = u64::from_le_bytes(word);
        match self {
            F64 => Number::Float(f64::from_bits(bits)),
            F32 => Number::Float(f64::from(f32::from_bits(bits as u32))),
            I8 => Number::Int((bits as i8).into()),
            I16 => Number::Int((bits as i16).into()),
            I32 => Number::Int((bits as i32).into()),
            I64 => Number::Int((bits as i64).into()),
            U8 | U16 | U32 | U64 => Number::Int(bits.into()),
            F16 | Bf16 | F8e4m3fn | F8e5m2 | F8e4m3fnuz | F8e5m2fnuz => Number::Float(
                self.narrow()
                    .map_or(0.0, |format| format.decode(bits as u16)),
            ),
        }
    }

    /// An element as text: the number, and for floats the bits as well.
    pub fn show(self, bytes: &[u8]) -> String {
        let number = self.decode(bytes);
        if !self.is_float() {
            return number.to_string();
        }
        let bits: String = bytes
            .iter()
            .rev()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("{number} (0x{bits})")
    }

    /// The type string of NumPy, and of `.npy` files. NumPy has no bf16 and no 8-bit floats;
    /// files hold them as unsigned words of the same width.
    pub fn numpy(self) -> &'static str {
        match self {
            F64 => "<f8",
            F32 => "<f4",
            F16 => "<f2",
            Bf16 | U16 => "<u2",
            F8e4m3fn | F8e5m2 | F8e4m3fnuz | F8e5m2fnuz | U8 => "|u1",
            I8 => "|i1",
            I16 => "<i2",
            I32 => "<i4",
            U32 => "<u4",
            I64 => "<i8",
            U64 => "<u8",
        }
    }
}

impl Narrow {
    /// Code of +NaN. Formats without a sign for it have one code only.
    fn nan(&self) -> u32 {
        let top = ((1 << self.exponent) - 1) << self.mantissa;
        match self.special {
            Special::Ieee => top | 1 << (self.mantissa - 1),
            Special::OneNan => top | ((1 << self.mantissa) - 1),
            Special::NegativeZeroNan => 1 << (self.exponent + self.mantissa),
        }
    }

    /// Code of the first number that overflows, sign aside.
    fn limit(&self) -> u32 {
        match self.special {
            Special::Ieee => ((1 << self.exponent) - 1) << self.mantissa,
            Special::OneNan => (1 << (self.exponent + self.mantissa)) - 1,
            Special::NegativeZeroNan => 1 << (self.exponent + self.mantissa),
        }
    }

    fn encode(&self, value: f32) -> u16 {
        let sign = u32::from(value.is_sign_negative()) << (self.exponent + self.mantissa);
        let unsigned_nan = self.special == Special::NegativeZeroNan;
        let with_sign = |code: u32| {
            if unsigned_nan && code == 0 {
                0
            } else {
                code | sign
            }
        };
        let overflow = if self.special == Special::Ieee {
            self.limit()
        } else {
            self.nan()
        };
        let size = f64::from(value.abs());
        let code = if value.is_nan() {
            return (self.nan() | if unsigned_nan { 0 } else { sign }) as u16;
        } else if size.is_infinite() {
            with_sign(overflow)
        } else {
            let smallest = 1 - self.bias;
            let exponent = if size == 0.0 {
                smallest
            } else {
                exponent_of(size).max(smallest)
            };
            let unit = exponent - self.mantissa as i32;
            let mantissa = (size * 2f64.powi(-unit)).round_ties_even() as u32;
            // A normal number's leading one carries into the exponent field.
            let code = (((exponent + self.bias - 1) as u32) << self.mantissa) + mantissa;
            with_sign(if code >= self.limit() { overflow } else { code })
        };
        code as u16
    }

    fn decode(&self, code: u16) -> f64 {
        let code = u32::from(code);
        let sign_bit = 1 << (self.exponent + self.mantissa);
        let sign = if code & sign_bit != 0 { -1.0 } else { 1.0 };
        let rest = code & (sign_bit - 1);
        let mantissa = rest & ((1 << self.mantissa) - 1);
        match self.special {
            Special::Ieee if rest == self.limit() => return sign * f64::INFINITY,
            Special::Ieee if rest > self.limit() => return f64::NAN,
            Special::OneNan if rest == self.nan() => return f64::NAN,
            Special::NegativeZeroNan if code == self.nan() => return f64::NAN,
            _ => {}
        }
        let field = (rest >> self.mantissa) as i32;
        let (significand, exponent) = match field {
            0 => (mantissa, 1),
            _ => (mantissa | 1 << self.mantissa, field),
        };
        sign * f64::from(significand) * 2f64.powi(exponent - self.bias - self.mantissa as i32)
    }
}

/// Exponent of a positive normal `f64`.
fn exponent_of(value: f64) -> i32 {
    (value.to_bits() >> 52) as i32 - 1023
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(element: ElementType, value: f64) -> u64 {
        let mut bytes = Vec::new();
        element.encode(Number::Float(value), &mut bytes).unwrap();
        bytes.resize(8, 0);
        u64::from_le_bytes(bytes.try_into().unwrap())
    }

    #[test]
    fn known_codes() {
        for (element, value, expected) in [
            (F16, 1.0, 0x3c00),
            (F16, -2.0, 0xc000),
            (F16, 65504.0, 0x7bff),
            (F16, 65520.0, 0x7c00),
            (F16, 65519.99, 0x7bff),
            (F16, 5.960464477539063e-8, 1),
            (F16, 2.980232238769531e-8, 0),
            (F16, f64::NAN, 0x7e00),
            (F16, -0.0, 0x8000),
            (Bf16, 1.0, 0x3f80),
            (Bf16, 1.00390625, 0x3f80),
            (Bf16, 1.01171875, 0x3f82),
            (Bf16, f64::INFINITY, 0x7f80),
            (F8e4m3fn, 1.0, 0x38),
            (F8e4m3fn, 448.0, 0x7e),
            (F8e4m3fn, 1000.0, 0x7f),
            (F8e4m3fn, -0.001953125, 0x81),
            (F8e5m2, 57344.0, 0x7b),
            (F8e5m2, 1e6, 0x7c),
            (F8e4m3fnuz, 1.0, 0x40),
            (F8e4m3fnuz, 240.0, 0x7f),
            (F8e4m3fnuz, -0.0, 0),
            (F8e4m3fnuz, f64::NAN, 0x80),
            (F8e4m3fnuz, 300.0, 0x80 | 0x80),
            (F8e5m2fnuz, -57344.0, 0xff),
        ] {
            assert_eq!(code(element, value), expected, "{} {value}", element.name());
        }
    }

    #[test]
    fn every_code_of_a_narrow_format_survives() {
        for element in [F16, Bf16, F8e4m3fn, F8e5m2, F8e4m3fnuz, F8e5m2fnuz] {
            for bits in 0..=(0xffffu16 >> (16 - 8 * element.bytes())) {
                let Number::Float(value) = element.decode(&bits.to_le_bytes()) else {
                    unreachable!()
                };
                if !value.is_nan() {
                    assert_eq!(
                        code(element, value),
                        u64::from(bits),
                        "{} {bits:#x}",
                        element.name()
                    );
                }
            }
        }
    }

    #[test]
    fn integers_out_of_range_are_refused() {
        let fits = |element: ElementType, value: i128| {
            element
                .encode(Number::Int(value), &mut Vec::new())
                .is_some()
        };
        assert!(fits(I8, -128) && !fits(I8, 128) && fits(U8, 255) && !fits(U8, -1));
        assert!(fits(U64, u64::MAX.into()) && fits(I64, i64::MIN.into()) && !fits(I64, 1 << 63));
        assert_eq!(I16.decode(&[0xff, 0xff]), Number::Int(-1));
        assert_eq!(F32.show(&1.5f32.to_le_bytes()), "1.5 (0x3fc00000)");
    }
}
