//! Constants in front of the code of products, by their distance from its beginning.

/// For `vpermw`: the low halves of 16 words, then the high ones.
pub const HALVES: i64 = 0;
/// The NaN of f32 results.
pub const NAN: i64 = 64;
/// The upper half of a word.
pub const UPPER: i64 = 68;
/// The sign of each byte.
pub const SIGNS: i64 = 72;
/// One in each byte.
pub const ONES: i64 = 76;
/// Exponents of two f16.
pub const EXPONENTS16: i64 = 80;
/// The exponent of an f32.
pub const EXPONENT: i64 = 84;
/// The NaN of f64 results.
pub const NAN64: i64 = 88;
/// Of two bytes of 16 bits each, the upper ones.
pub const BYTES: i64 = 96;
/// Sign, exponent and mantissa of E4M3 where f16 has them.
pub const AS_F16: i64 = 100;
/// Signs of two f16.
pub const SIGNS16: i64 = 104;
/// By what f16 that were E4M3 are too small, and products of two.
pub const E4M3_FACTOR: i64 = 108;
pub const E4M3_FACTOR2: i64 = 112;
/// Bytes.
pub const SIZE: usize = 128;

/// The bytes.
pub fn bytes() -> Vec<u8> {
    let halves = (0..32u16).map(|i| if i < 16 { 2 * i } else { 2 * (i - 16) + 1 });
    let mut bytes: Vec<u8> = halves.flat_map(u16::to_le_bytes).collect();
    let words = [
        0x7fc0_0000u32,
        0xffff_0000,
        0x8080_8080,
        0x0101_0101,
        0x7c00_7c00,
        0x7f80_0000,
        0,
        0x7ff8_0000,
        0xff00_ff00,
        0xbf80_bf80,
        0x8000_8000,
        256f32.to_bits(),
        65536f32.to_bits(),
    ];
    bytes.extend(words.into_iter().flat_map(u32::to_le_bytes));
    bytes.resize(SIZE, 0);
    bytes
}
