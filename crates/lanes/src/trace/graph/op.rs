//! The operations of a graph.

/// What a node is. Results are 16 words unless another type is named: halves of 64-bit lanes are 8 times
/// 64 bits, conditions are a bit for each lane (8 bits for halves of 64-bit lanes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// The register whose key is `imm`, as it was at the start.
    Row,
    /// Word `imm` of the scalar file, in every lane.
    Scalar,
    /// `imm`, in every lane.
    Const,
    /// Table `imm` of the graph.
    Table,
    /// The numbers of the lanes.
    Lane,
    /// Condition: the lanes' bits of the mask at `imm` in the scalar file.
    Mask,
    /// Condition: the bits of `imm`.
    ConstMask,

    /// Wrapping sum.
    Add,
    /// Wrapping difference.
    Sub,
    /// Low 32 bits of the product.
    Mul,
    /// Signed minimum.
    MinI,
    /// Signed maximum.
    MaxI,
    /// Unsigned minimum.
    MinU,
    /// Unsigned maximum.
    MaxU,
    /// Any bitwise function of three values: bit `4a + 2b + c` of `imm`. Operands that are absent do not matter.
    Logic,
    /// Shift by a count below 32 in each lane.
    Shl,
    /// As `Shl`, right, zeros shifted in.
    Shr,
    /// As `Shl`, right, sign bits shifted in.
    Sar,
    /// Shift by `imm`, below 32.
    ShlBy,
    /// See `ShlBy`.
    ShrBy,
    /// See `ShlBy`.
    SarBy,
    /// Rotate right by `imm`.
    RotrBy,
    /// 64-bit product of the even unsigned words, in pairs of words.
    MulEvenU,
    /// 64-bit product of the even signed words, in pairs of words.
    MulEvenI,
    /// Each pair of words shifted right by 32.
    HighToLow,
    /// Unsigned minimum of bytes.
    MinB,
    /// Bytes of `a` within each 16, chosen by the bytes of `b` as `vpshufb` has it.
    Bytes,
    /// Lanes of `b`, chosen by the words of `a`.
    Permute,
    /// `a ? b : c`.
    Select,

    /// f32 sum.
    AddF,
    /// f32 difference.
    SubF,
    /// f32 product.
    MulF,
    /// f32 `a * b + c`.
    FmaF,
    /// f32 quotient.
    DivF,
    /// f32 square root.
    SqrtF,
    /// Zero bits above the highest that is set.
    LeadingZeros,
    /// f32 minimum, -0 below +0; NaNs are ranked as [`crate::vector::Lanes::RANKS_NANS`] says.
    MinF,
    /// f32 maximum, as `MinF`.
    MaxF,
    /// f32 maximum that is `b` where either is NaN or both are zero.
    MaxOrB,
    /// f32 minimum, as `MaxOrB`.
    MinOrB,
    /// f32 sum rounded to odd; the third operand is the integer 1 in every lane.
    AddOdd,
    /// f32 rounded to an integer as `imm` says: 0 to nearest even, 1 down, 2 up, 3 toward zero.
    RoundF,
    /// f32 `a` times two to the power of `b`, an f32 that is an integer.
    ScaleF,
    /// f32 of a signed integer.
    FromI,
    /// f32 of an unsigned integer.
    FromU,
    /// Signed integer of an f32, truncated; 0x80000000 where it does not fit.
    ToI,
    /// Unsigned integer of an f32, truncated; 0xffffffff where it does not fit.
    ToU,
    /// The low halves of the words, packed into the low half of the vector.
    Narrow,
    /// Words of what [`Op::Narrow`] packs.
    Widen,
    /// f32 of packed f16.
    FromF16,
    /// Packed f16 of f32, rounded as `imm` says: 0 to nearest even, 3 toward zero.
    ToF16,

    /// 64-bit lanes 0–7 of low and high words. The third operand of these four is the table for `vpermt2d`.
    JoinLow,
    /// 64-bit lanes 8–15 of low and high words.
    JoinHigh,
    /// Low words of two halves of 64-bit lanes.
    SplitLow,
    /// High words of two halves of 64-bit lanes.
    SplitHigh,
    /// f64 sum.
    AddD,
    /// f64 product.
    MulD,
    /// f64 `a * b + c`.
    FmaD,
    /// `a ? b : c` on 64-bit lanes.
    SelectD,
    /// f64 quotient.
    DivD,
    /// f64 square root.
    SqrtD,
    /// f64 `a` times two to the power of `b`, an f64 that is an integer.
    ScaleD,
    /// f64 rounded to an integer, as [`Op::RoundF`].
    RoundD,
    /// The upper eight words, in the low half of the vector.
    HighHalf,
    /// The low halves of two vectors.
    Concat,
    /// f64 of the signed integers in the low half.
    FromID,
    /// f64 of the unsigned integers in the low half.
    FromUD,
    /// f64 of the f32 in the low half.
    FromFD,
    /// Signed integers of f64, truncated, in the low half; 0x80000000 where they do not fit.
    ToID,
    /// Unsigned integers of f64, truncated, in the low half; 0xffffffff where they do not fit.
    ToUD,
    /// f32 of f64, in the low half.
    ToFD,

    /// Condition: signed comparison; `imm` is 0 equal, 1 less, 2 less or equal, 4 unequal, 5 not less, 6 greater.
    CompareI,
    /// Condition: unsigned comparison.
    CompareU,
    /// Condition: comparison of f32; `imm` as `vcmpps` has it.
    CompareF,
    /// Condition: comparison of f64 (8 bits).
    CompareD,
    /// Condition: `a & b` is zero.
    TestZero,
    /// Condition: `a & b` is not zero.
    TestSet,
    /// Both conditions.
    MaskAnd,
    /// Either condition.
    MaskOr,
    /// The opposite condition.
    MaskNot,
    /// Bits 15:8 of a condition.
    MaskHigh,
    /// A condition of 16 from two of 8: low, high.
    MaskJoin,

    // What kernels are never traced to: a compiler for a narrower host puts these in place of other nodes.
    /// The lanes of `b` whose bits of `imm` are set, the others of `a`.
    Blend,
    /// The quarters of a vector of 32 bytes that `imm` names, two bits for each.
    Quarters,
    /// In each 16 bytes: the first two words of `a` and of `b`, in turns.
    UnpackLow,
    /// In each 16 bytes: the last two words of `a` and of `b`, in turns.
    UnpackHigh,
    /// In each 16 bytes: two words of `a`, then two of `b`, that `imm` names, two bits for each.
    Shuffle,
    /// f64 minimum that is `b` where either is NaN.
    MinOrBD,
}

impl Op {
    /// Whether the result is a condition.
    pub fn is_condition(self) -> bool {
        use Op::*;
        matches!(
            self,
            Mask | ConstMask
                | CompareI
                | CompareU
                | CompareF
                | CompareD
                | TestZero
                | TestSet
                | MaskAnd
                | MaskOr
                | MaskNot
                | MaskHigh
                | MaskJoin
        )
    }
}
