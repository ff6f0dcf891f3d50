//! The vector operations of the kernels, written once for both widths.

/// A vector extension: f32 and i32 lanes, and half as many f64 lanes.
///
/// The methods execute instructions of the extension: a function that calls them must be inlined
/// into one that has its `target_feature`s, and run only where the host supports them.
#[allow(missing_docs)]
pub(super) trait Vector: Copy {
    /// f32 lanes.
    type F: Copy;
    /// i32 lanes.
    type I: Copy;
    /// Half as many f64.
    type D: Copy;
    /// A condition per lane.
    type M: Copy;
    /// Lanes of a vector.
    const LANES: usize;
    /// Vectors of sums that a kernel holds in registers, with room for its operands.
    const SUMS: usize;

    /// f32 lanes of zero.
    fn zero() -> Self::F;

    fn splat(x: f32) -> Self::F;

    fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F;

    fn add(a: Self::F, b: Self::F) -> Self::F;

    fn sub(a: Self::F, b: Self::F) -> Self::F;

    fn mul(a: Self::F, b: Self::F) -> Self::F;

    fn splat_i(x: i32) -> Self::I;

    fn add_i(a: Self::I, b: Self::I) -> Self::I;

    fn sub_i(a: Self::I, b: Self::I) -> Self::I;

    fn and(a: Self::I, b: Self::I) -> Self::I;

    fn or(a: Self::I, b: Self::I) -> Self::I;

    fn xor(a: Self::I, b: Self::I) -> Self::I;

    fn max_i(a: Self::I, b: Self::I) -> Self::I;

    fn min_u(a: Self::I, b: Self::I) -> Self::I;

    fn max_u(a: Self::I, b: Self::I) -> Self::I;

    fn shl<const N: i32>(a: Self::I) -> Self::I;

    fn shr<const N: i32>(a: Self::I) -> Self::I;

    fn shl_each(a: Self::I, n: Self::I) -> Self::I;

    /// Arithmetic; counts of 32 and more give the sign.
    fn sar_each(a: Self::I, n: Self::I) -> Self::I;

    /// max(a - b, 0) of small non-negative numbers.
    fn sub_floor(a: Self::I, b: Self::I) -> Self::I;

    /// Sums of products of 16-bit pairs, added to c.
    fn dot_pairs(a: Self::I, b: Self::I, c: Self::I) -> Self::I;

    fn shl16<const N: i32>(a: Self::I) -> Self::I;

    fn shr16<const N: i32>(a: Self::I) -> Self::I;

    fn sar16<const N: i32>(a: Self::I) -> Self::I;

    fn bits(x: Self::F) -> Self::I;

    fn float(x: Self::I) -> Self::F;

    /// Rounds integers to nearest even f32.
    fn convert(x: Self::I) -> Self::F;

    /// Towards zero.
    fn truncate(x: Self::F) -> Self::I;

    fn equal(a: Self::I, b: Self::I) -> Self::M;

    /// `a` where the mask is set, else `b`.
    fn select(m: Self::M, a: Self::I, b: Self::I) -> Self::I;

    /// A condition that holds in all lanes.
    fn all() -> Self::M;

    /// `m` where neither `a` nor `b` is NaN.
    fn ordered(m: Self::M, a: Self::F, b: Self::F) -> Self::M;

    /// Where both conditions hold.
    fn both(a: Self::M, b: Self::M) -> Self::M;

    /// Whether a condition holds in any lane.
    fn is_any(m: Self::M) -> bool;

    /// Whether a condition holds in all lanes.
    fn is_all(m: Self::M) -> bool;

    /// Element `i` of every four lanes, in all four.
    fn quad(x: Self::F, i: usize) -> Self::F;

    /// NaN becomes 0x7fc00000.
    fn canonical(x: Self::F) -> Self::F;

    /// |x| < limit becomes a zero of its sign.
    fn flush(x: Self::F, limit: Self::F) -> Self::F;

    /// |x| < limit becomes +0.
    fn flush_positive(x: Self::F, limit: Self::F) -> Self::F;

    /// The low and the high f16 of each word, as f32.
    fn halves(x: Self::I) -> (Self::F, Self::F);

    /// floor(x * scale); the product may underflow: rounded down it keeps its floor. With `NEAR`
    /// products below a half in magnitude give 0.
    fn floor_product<const NEAR: bool>(x: Self::F, scale: Self::F) -> Self::I;

    /// # Safety
    /// `p` must be valid for reading LANES floats.
    unsafe fn load(p: *const f32) -> Self::F;

    /// # Safety
    /// `p` must be valid for writing LANES floats.
    unsafe fn store(p: *mut f32, x: Self::F);

    /// Stores the low byte of each lane.
    ///
    /// # Safety
    /// `p` must be valid for writing LANES bytes.
    unsafe fn store_bytes(p: *mut i8, x: Self::I);

    /// Zero-extends LANES bytes.
    ///
    /// # Safety
    /// `p` must be valid for reading LANES bytes.
    unsafe fn load_bytes(p: *const u8) -> Self::I;

    /// Largest exponent sums of 16 rows and 16 columns over every `STEP`th k from `START`, at least
    /// `floor`, saturating; then plus `bias`, as unsigned bytes.
    fn exponents<const START: usize, const STEP: usize>(
        a: &[[i8; 64]],
        rows: (usize, usize),
        b: &[[i8; 64]],
        column: usize,
        limits: (i8, u8),
        out: &mut [[u8; 16]; 16],
    );

    /// As `exponents`, for the four rows of 4x4 shapes: each four lanes have a block of their own.
    fn quad_exponents(
        a: &[[i8; 64]],
        b: &[[i8; 64]],
        at: usize,
        floor: i8,
        bias: u8,
        out: &mut [[u8; 16]; 16],
    );

    /// Rounds to f16, to nearest even, in the low halves; NaN becomes 0x7e00.
    fn to_f16(x: Self::F) -> Self::I;

    fn splat_d(x: f64) -> Self::D;

    fn fma_d(a: Self::D, b: Self::D, c: Self::D) -> Self::D;

    fn mul_d(a: Self::D, b: Self::D) -> Self::D;

    /// The lower and the upper lanes as f64.
    fn widen(x: Self::F) -> (Self::D, Self::D);

    /// Rounds to f32, to nearest even.
    fn narrow(low: Self::D, high: Self::D) -> Self::F;

    /// a + b rounded to odd: of the two neighbours of an inexact sum the one whose last bit is set,
    /// so that rounding again to f32 rounds just once. A zero sum is +0.
    fn add_odd(a: Self::D, b: Self::D) -> Self::D;

    /// Entry x & 7 of a table, with bit 3 of x for a sign.
    fn lookup_signed(table: &[f32; 8], x: Self::I) -> Self::F;

    /// 16-bit items without any of the bits of `mask` become 0.
    fn flush16(x: Self::I, mask: i32) -> Self::I;

    /// Whether any byte is zero.
    fn any_zero_byte(x: Self::I) -> bool;

    fn max_u16(a: Self::I, b: Self::I) -> Self::I;

    fn max_u8(a: Self::I, b: Self::I) -> Self::I;

    /// # Safety
    /// `p` must be valid for reading LANES / 2 doubles.
    unsafe fn load_d(p: *const f64) -> Self::D;

    /// # Safety
    /// `p` must be valid for writing LANES / 2 doubles.
    unsafe fn store_d(p: *mut f64, x: Self::D);

    /// Arithmetic.
    fn sar<const N: u32>(a: Self::I) -> Self::I;

    /// Whether a lane of `a` is greater than that of `b`, signed.
    fn any_greater(a: Self::I, b: Self::I) -> bool;

    fn min_u16(a: Self::I, b: Self::I) -> Self::I;

    fn min_u8(a: Self::I, b: Self::I) -> Self::I;

    fn add_i16(a: Self::I, b: Self::I) -> Self::I;

    fn add_i8(a: Self::I, b: Self::I) -> Self::I;

    /// a | (b ^ c).
    fn or_xor(a: Self::I, b: Self::I, c: Self::I) -> Self::I;

    /// The smallest of all unsigned 16-bit items.
    fn least_u16(x: Self::I) -> u32;

    /// The bits that are set in any lane.
    fn any_bits(x: Self::I) -> u32;

    /// Doubles from their low and high words: those of the lower and of the upper lanes.
    fn zip_d(low: Self::F, high: Self::F) -> (Self::D, Self::D);

    /// The reverse of `zip_d`.
    fn unzip_d(low: Self::D, high: Self::D) -> (Self::F, Self::F);

    /// Exclusive or of the bits.
    fn xor_d(a: Self::D, b: Self::D) -> Self::D;

    /// NaN becomes `nan`.
    fn canonical_d(x: Self::D, nan: f64) -> Self::D;

    /// Clamped to the range of i32.
    fn add_saturating(a: Self::I, b: Self::I) -> Self::I;
}

/// Bytes of 16 words: products, which AVX2 has no instruction for.
pub(super) trait Bytes: Vector {
    /// Sums of products of four bytes, unsigned ones of `a` and signed ones of `b`, added to `c`.
    fn dot_bytes(a: Self::I, b: Self::I, c: Self::I) -> Self::I;
    /// Entries of a table by the bytes of `x`, which are below 16.
    fn lookup_bytes(table: &[i8; 16], x: Self::I) -> Self::I;
}
