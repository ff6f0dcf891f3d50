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
/// The lowest bits of accumulators of trees that need no care: twice their magnitude, less one.
pub const LEAST: i64 = 108;
/// Bits of which magnitudes from 2^-95 on have one.
pub const LARGE: i64 = 112;
/// The sign of an f32.
pub const SIGN: i64 = 116;
/// Exponent fields.
pub const FIELD_278: i64 = 120;
pub const FIELD_254: i64 = 124;
pub const FIELD_283: i64 = 128;
pub const FIELD_251: i64 = 132;
pub const FIELD_29: i64 = 136;
pub const FIELD_5: i64 = 140;
/// 2^30, and the integers 3, 2, 1 and -1.
pub const UP_30: i64 = 144;
pub const THREE: i64 = 148;
pub const TWO: i64 = 152;
pub const ONE: i64 = 156;
pub const MINUS_1: i64 = 160;
/// The exponent of a group without products, -100, and the bias of exponents, in each byte; the bias as a word.
pub const NO_PRODUCT: i64 = 164;
pub const BYTE_BIAS: i64 = 168;
pub const BIAS: i64 = 172;
/// Twice 2^-100 as bits, less one.
pub const TINY: i64 = 176;
/// What an exponent field lacks that has been multiplied by 2^64: of 2^(24 - E), and of 2^(E - 24).
pub const LEFT_OF_SCALE: i64 = 180;
pub const LEFT_OF_UNIT: i64 = 184;
/// f32: magnitudes, 2^-1, 2^64, 2^-64.
pub const SIZE_OF_F32: i64 = 188;
pub const HALF: i64 = 192;
pub const UP_64: i64 = 196;
pub const DOWN_64: i64 = 200;
/// The exponent field of 2^(24 - E) for which products of whole numbers, E4M3 by their bias, are in units of 2^(E - 24).
pub const WHOLE_7: i64 = 204;
pub const WHOLE_8: i64 = 208;
/// The bits of an xf32.
pub const XF32: i64 = 212;
/// For `vpshufb`: the bytes of four words by their place, and the lower bytes of their halves.
pub const BYTES_OF_8: i64 = 224;
pub const BYTES_OF_16: i64 = 240;
/// For `vpermd`: word `i` of each quarter, then word `i + 1`.
pub const QUARTERS: i64 = 256;
/// For `vpshufb`: byte `i` in quarter `i`.
pub const ROWS: i64 = 320;
/// Bytes.
pub const SIZE: usize = 384;

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
        ((127 - 102) << 24) - 1,
        0x7000_0000,
        0x8000_0000,
        278 << 23,
        254 << 23,
        283 << 23,
        251 << 23,
        29 << 23,
        5 << 23,
        1 << 30,
        3,
        2,
        1,
        u32::MAX,
        (-100i8 as u8 as u32) * 0x0101_0101,
        0x7f7f_7f7f,
        127,
        ((127 - 100) << 24) - 1,
        127 + 24 - 64,
        127 - 24 + 64,
        0x7fff_ffff,
        0.5f32.to_bits(),
        2f32.powi(64).to_bits(),
        2f32.powi(-64).to_bits(),
        145,
        147,
        0xffff_e000,
    ];
    bytes.extend(words.into_iter().flat_map(u32::to_le_bytes));
    bytes.resize(BYTES_OF_8 as usize, 0);
    bytes.extend((0..16u8).map(|i| i % 4 * 4 + i / 4));
    bytes.extend((0..16u8).map(|i| i % 4 * 4 + i / 4 % 2 * 2));
    let quarters = (0..16u32).map(|i| i % 4 * 4 + i / 4);
    bytes.extend(quarters.flat_map(u32::to_le_bytes));
    bytes.extend((0..64u8).map(|i| i / 16));
    bytes
}
