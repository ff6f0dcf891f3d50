//! Which NaN an operation returns, for single values.
//! (RDNA4 manual 13.3, CDNA4 manual 9.2.3: the first NaN operand made quiet, else -QNaN.) Hosts differ; every back end repairs NaN results with these functions.

/// The f32 NaN of an operation without a NaN operand (RDNA4 manual, "Float Add rules": -QNaN).
pub const NAN_F32: u32 = 0xffc0_0000;
/// The f64 NaN of an operation without a NaN operand.
pub const NAN_F64: u64 = 0xfff8_0000_0000_0000;

/// The NaN result of an f32 operation on `operands`: the first NaN among them, made quiet.
#[inline]
pub fn of_f32(operands: &[u32]) -> u32 {
    operands
        .iter()
        .find(|&&x| x & 0x7fff_ffff > 0x7f80_0000)
        .map_or(NAN_F32, |x| x | 0x0040_0000)
}

/// The NaN result of an f64 operation on `operands`.
#[inline]
pub fn of_f64(operands: &[u64]) -> u64 {
    operands
        .iter()
        .find(|&&x| x & (u64::MAX >> 1) > 0x7ff0_0000_0000_0000)
        .map_or(NAN_F64, |x| x | 0x0008_0000_0000_0000)
}
