//! Formats of typed buffer data: fields in memory, number formats, and conversion to and from registers.
//! Manuals: "Buffer Image formats" (unified numbers, gfx10 and later) and the MTBUF fields DFMT and NFMT (gfx9).

use crate::vmem::half::{f16_to_f32, f32_to_f16};

/// What the bits of a field mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// 0 to 1.
    Unorm,
    /// -1 to 1.
    Snorm,
    /// Unsigned integer, as float in the register.
    Uscaled,
    /// Signed integer, as float in the register.
    Sscaled,
    /// Unsigned integer.
    Uint,
    /// Signed integer.
    Sint,
    /// Floating point of the field's width.
    Float,
}

/// A format: widths of the fields from the lowest bit on, zero where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Widths of x, y, z, w in bits.
    pub widths: [u8; 4],
    /// What they mean.
    pub number: Number,
}

impl Format {
    /// Bytes in memory.
    pub fn bytes(self) -> usize {
        self.widths.iter().map(|&w| usize::from(w)).sum::<usize>() / 8
    }

    /// The format of CDNA's data format and number format fields. `None` for invalid and reserved codes.
    pub fn cdna(data: u8, number: u8) -> Option<Format> {
        use Number::*;
        let widths = match data {
            1 => [8, 0, 0, 0],
            2 => [16, 0, 0, 0],
            3 => [8, 8, 0, 0],
            4 => [32, 0, 0, 0],
            5 => [16, 16, 0, 0],
            6 => [11, 11, 10, 0],
            7 => [10, 11, 11, 0],
            8 => [2, 10, 10, 10],
            9 => [10, 10, 10, 2],
            10 => [8, 8, 8, 8],
            11 => [32, 32, 0, 0],
            12 => [16, 16, 16, 16],
            13 => [32, 32, 32, 0],
            14 => [32, 32, 32, 32],
            _ => return None,
        };
        let number = match number {
            0 => Unorm,
            1 => Snorm,
            2 => Uscaled,
            3 => Sscaled,
            4 => Uint,
            5 => Sint,
            7 => Float,
            _ => return None,
        };
        let narrow = matches!(widths[0], 2 | 8) || widths == [10, 10, 10, 2];
        let valid = match number {
            Float => !narrow,
            Uint | Sint => true,
            // Words have integers and floats only.
            _ => widths[0] != 32,
        };
        valid.then_some(Format { widths, number })
    }

    /// The format of a unified number (RDNA3 and RDNA4). `None` for invalid ones and those without a
    /// meaning for buffers.
    pub fn unified(code: u8) -> Option<Format> {
        use Number::*;
        const SEVEN: [Number; 7] = [Unorm, Snorm, Uscaled, Sscaled, Uint, Sint, Float];
        const THREE: [Number; 3] = [Uint, Sint, Float];
        const FOUR: [Number; 4] = [Unorm, Snorm, Uint, Sint];
        let (widths, number) = match code {
            1..=6 => ([8, 0, 0, 0], SEVEN[usize::from(code - 1)]),
            7..=13 => ([16, 0, 0, 0], SEVEN[usize::from(code - 7)]),
            14..=19 => ([8, 8, 0, 0], SEVEN[usize::from(code - 14)]),
            20..=22 => ([32, 0, 0, 0], THREE[usize::from(code - 20)]),
            23..=29 => ([16, 16, 0, 0], SEVEN[usize::from(code - 23)]),
            30 => ([11, 11, 10, 0], Float),
            31 => ([10, 11, 11, 0], Float),
            32..=35 => ([2, 10, 10, 10], FOUR[usize::from(code - 32)]),
            36..=41 => ([10, 10, 10, 2], SEVEN[usize::from(code - 36)]),
            42..=47 => ([8, 8, 8, 8], SEVEN[usize::from(code - 42)]),
            48..=50 => ([32, 32, 0, 0], THREE[usize::from(code - 48)]),
            51..=57 => ([16, 16, 16, 16], SEVEN[usize::from(code - 51)]),
            58..=60 => ([32, 32, 32, 0], THREE[usize::from(code - 58)]),
            61..=63 => ([32, 32, 32, 32], THREE[usize::from(code - 61)]),
            _ => return None,
        };
        Some(Format { widths, number })
    }

    /// Whether a register holds an integer.
    pub fn is_integer(self) -> bool {
        matches!(self.number, Number::Uint | Number::Sint)
    }

    /// The value 1 in a register of 32 bits.
    pub fn one(self) -> u32 {
        if self.is_integer() { 1 } else { 1f32.to_bits() }
    }

    /// The fields of data as 32-bit register values; absent ones are 0, 0, 0, 1.
    pub fn unpack(self, bytes: [u8; 16]) -> [u32; 4] {
        let data = u128::from_le_bytes(bytes);
        let mut out = [0, 0, 0, self.one()];
        let mut low = 0;
        for (o, &width) in out.iter_mut().zip(&self.widths) {
            if width > 0 {
                let raw = (data >> low) as u64 & ((1 << width) - 1);
                *o = self.to_register(raw as u32, u32::from(width));
            }
            low += u32::from(width);
        }
        out
    }

    /// Data of 32-bit register values.
    pub fn pack(self, values: [u32; 4]) -> [u8; 16] {
        let mut data = 0u128;
        let mut low = 0;
        for (v, &width) in values.iter().zip(&self.widths) {
            if width > 0 {
                let mask = (1u64 << width) - 1;
                data |= u128::from(u64::from(self.to_memory(*v, u32::from(width))) & mask) << low;
            }
            low += u32::from(width);
        }
        data.to_le_bytes()
    }

    fn to_register(self, raw: u32, width: u32) -> u32 {
        let signed = (raw << (32 - width)) as i32 >> (32 - width);
        let full = ((1u64 << width) - 1) as f64;
        let half = ((1u64 << (width - 1)) - 1) as f64;
        match self.number {
            Number::Unorm => ((f64::from(raw) / full) as f32).to_bits(),
            Number::Snorm => ((f64::from(signed) / half).max(-1.0) as f32).to_bits(),
            Number::Uscaled => (raw as f32).to_bits(),
            Number::Sscaled => (signed as f32).to_bits(),
            Number::Uint => raw,
            Number::Sint => signed as u32,
            Number::Float => match width {
                32 => raw,
                16 => f16_to_f32(raw as u16).to_bits(),
                // Unsigned floats with the exponent of f16 and 6 or 5 bits of mantissa.
                _ => f16_to_f32((raw << (15 - width)) as u16).to_bits(),
            },
        }
    }

    fn to_memory(self, value: u32, width: u32) -> u32 {
        let x = f64::from(f32::from_bits(value));
        let x = if x.is_nan() { 0.0 } else { x };
        let full = ((1u64 << width) - 1) as f64;
        let half = ((1u64 << (width - 1)) - 1) as f64;
        match self.number {
            Number::Unorm => (x.clamp(0.0, 1.0) * full).round_ties_even() as u32,
            Number::Snorm => (x.clamp(-1.0, 1.0) * half).round_ties_even() as i32 as u32,
            Number::Uscaled => x.clamp(0.0, full) as u32,
            Number::Sscaled => x.clamp(-half - 1.0, half) as i32 as u32,
            Number::Uint => u64::from(value).min((1 << width) - 1) as u32,
            Number::Sint => {
                i64::from(value as i32).clamp(-(1 << (width - 1)), (1 << (width - 1)) - 1) as u32
            }
            Number::Float => match width {
                32 => value,
                16 => u32::from(f32_to_f16(f32::from_bits(value))),
                _ => small_float(value, width),
            },
        }
    }
}

/// An f32 as an unsigned float of 10 or 11 bits: negative values become zero, the mantissa is cut.
fn small_float(value: u32, width: u32) -> u32 {
    let x = f32::from_bits(value);
    let infinity = 31 << (width - 5);
    if x.is_nan() {
        return infinity | 1;
    }
    if x <= 0.0 {
        return 0;
    }
    if x.is_infinite() {
        return infinity;
    }
    // The largest value is one below infinity.
    let half = u32::from(f32_to_f16(x)).min(0x7bff);
    let cut = half >> (15 - width);
    let back = f16_to_f32((cut << (15 - width)) as u16);
    if back > x { cut - 1 } else { cut }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_of_the_exact_formats_survives_a_round_trip() {
        let cdna = (1..15).flat_map(|d| (0..8).filter_map(move |n| Format::cdna(d, n)));
        for format in cdna.chain((0..=255).filter_map(Format::unified)) {
            for seed in 0..2000u64 {
                let mut bytes = [0u8; 16];
                for (i, b) in bytes.iter_mut().enumerate().take(format.bytes()) {
                    *b = (seed
                        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                        .rotate_left(8 * i as u32)
                        >> 24) as u8;
                }
                let values = format.unpack(bytes);
                let nan = format.number == Number::Float
                    && values.iter().any(|&v| f32::from_bits(v).is_nan());
                let least = format.number == Number::Snorm;
                if !nan && !least {
                    assert_eq!(format.pack(values), bytes, "{format:?}");
                }
            }
        }
    }

    #[test]
    fn values_by_hand() {
        let f = |data, number| Format::cdna(data, number).unwrap();
        let bytes = |b: &[u8]| {
            let mut out = [0; 16];
            out[..b.len()].copy_from_slice(b);
            out
        };
        let one = 1f32.to_bits();
        assert_eq!(
            f(10, 0).unpack(bytes(&[255, 0, 51, 255])),
            [one, 0, 0.2f32.to_bits(), one]
        );
        assert_eq!(
            f(1, 1).unpack(bytes(&[0x80])),
            [(-1f32).to_bits(), 0, 0, one]
        );
        assert_eq!(
            f(9, 4).unpack((0xc000_0401u128).to_le_bytes()),
            [1, 1, 0, 3]
        );
        assert_eq!(
            f(5, 5).unpack(bytes(&[0xff, 0xff, 1, 0])),
            [u32::MAX, 1, 0, 1]
        );
        // 11-bit 1.0 is 0x3c0, 10-bit 1.0 is 0x1e0.
        let packed = 0x3c0 | 0x3c0 << 11 | 0x1e0 << 22;
        assert_eq!(
            Format::unified(30)
                .unwrap()
                .unpack((packed as u128).to_le_bytes()),
            [one, one, one, one]
        );
        assert_eq!(
            Format::unified(30).unwrap().pack([one, one, one, 0]),
            (packed as u128).to_le_bytes()
        );
        assert_eq!(f(1, 0).pack([2f32.to_bits(), 0, 0, 0])[0], 255);
        assert_eq!(f(1, 5).pack([300, 0, 0, 0])[0], 127);
        assert_eq!(Format::cdna(0, 0), None);
        assert_eq!(Format::unified(64), None);
    }
}
