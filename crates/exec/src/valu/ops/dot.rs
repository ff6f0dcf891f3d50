//! Dot products of packed values with an accumulator.

use rocjitsu_lanes::fp::Rounding;
use rocjitsu_lanes::kernel::Aux;
use rocjitsu_lanes::scalar::dot::{self, DotRules};

use super::ops;

ops! {
    /// Immediate: bits 0 and 1 say whether the bytes of the first and the second source are signed.
    v_dot4_i32_iu8[x](a: B32, b: B32, c: B32) -> B32 {
        let (s0, s1) = signs(x);
        L::map3(a, b, c, |a, b, c| dot::v_dot4_i32_iu8(a, b, c, s0, s1, x.clamp()))
    }
    v_dot4_i32_i8 | v_dot4c_i32_i8[x](a: B32, b: B32, c: B32) -> B32 {
        L::map3(a, b, c, |a, b, c| dot::v_dot4_i32_iu8(a, b, c, true, true, x.clamp()))
    }
    v_dot4_u32_u8[x](a: B32, b: B32, c: B32) -> B32 {
        L::map3(a, b, c, |a, b, c| dot::v_dot4_u32_u8(a, b, c, x.clamp()))
    }
    v_dot8_i32_iu4[x](a: B32, b: B32, c: B32) -> B32 {
        let (s0, s1) = signs(x);
        L::map3(a, b, c, |a, b, c| dot::v_dot8_i32_iu4(a, b, c, s0, s1, x.clamp()))
    }
    v_dot8_i32_i4 | v_dot8c_i32_i4[x](a: B32, b: B32, c: B32) -> B32 {
        L::map3(a, b, c, |a, b, c| dot::v_dot8_i32_iu4(a, b, c, true, true, x.clamp()))
    }
    v_dot8_u32_u4[x](a: B32, b: B32, c: B32) -> B32 {
        L::map3(a, b, c, |a, b, c| dot::v_dot8_u32_u4(a, b, c, x.clamp()))
    }
    v_dot2_i32_i16 | v_dot2c_i32_i16[x](a: PkB16, b: PkB16, c: B32) -> B32 {
        L::map3(a, b, c, |a, b, c| dot::v_dot2_i32_i16(a, b, c, x.clamp()))
    }
    v_dot2_u32_u16[x](a: PkB16, b: PkB16, c: B32) -> B32 {
        L::map3(a, b, c, |a, b, c| dot::v_dot2_u32_u16(a, b, c, x.clamp()))
    }

    #[by_default = "order and rounding of the sum as the manual's pseudocode has them"]
    v_dot2_f32_f16 | v_dot2c_f32_f16 | v_dot2acc_f32_f16[x](a: PkF16, b: PkF16, c: F32) -> F32 {
        match x.immediate() {
            RDNA3 => L::map3(a, b, c, |a, b, c| dot::v_dot2_f32_f16(a, b, c, DotRules::RDNA3_F16)),
            CDNA2 => L::map3(a, b, c, |a, b, c| dot::v_dot2_f32_f16(a, b, c, DotRules::CDNA2_F16)),
            _ => L::map3(a, b, c, |a, b, c| dot::v_dot2_f32_f16(a, b, c, DotRules::CHAIN)),
        }
    }
    #[by_default = "order and rounding of the sum as the manual's pseudocode has them"]
    v_dot2_f32_bf16 | v_dot2c_f32_bf16[x](a: PkBf16, b: PkBf16, c: F32) -> F32 {
        match x.immediate() {
            RDNA3 => L::map3(a, b, c, |a, b, c| dot::v_dot2_f32_bf16(a, b, c, DotRules::RDNA3_BF16)),
            CDNA2 => L::map3(a, b, c, |a, b, c| dot::v_dot2_f32_bf16(a, b, c, DotRules::CDNA4_BF16)),
            _ => L::map3(a, b, c, |a, b, c| dot::v_dot2_f32_bf16(a, b, c, DotRules::CHAIN)),
        }
    }
    #[by_default = "rounding of the sum as the manual has it"]
    v_dot2_f16_f16(a: PkF16, b: PkF16, c: F16) -> F16 {
        L::map3(a, b, c, |a, b, c| u32::from(dot::v_dot2_f16_f16(a, b, c as u16)))
    }
    #[by_default = "rounding of the sum as the manual has it"]
    v_dot2_bf16_bf16(a: PkBf16, b: PkBf16, c: Bf16) -> Bf16 {
        L::map3(a, b, c, |a, b, c| u32::from(dot::v_dot2_bf16_bf16(a, b, c as u16, Rounding::NearestEven)))
    }
    #[by_default = "order and rounding of the sum as the manual's pseudocode has them"]
    v_dot4_f32_fp8_fp8(a: B32, b: B32, c: F32) -> F32 { L::map3(a, b, c, dot::v_dot4_f32_fp8_fp8) }
    #[by_default = "order and rounding of the sum as the manual's pseudocode has them"]
    v_dot4_f32_fp8_bf8(a: B32, b: B32, c: F32) -> F32 { L::map3(a, b, c, dot::v_dot4_f32_fp8_bf8) }
    #[by_default = "order and rounding of the sum as the manual's pseudocode has them"]
    v_dot4_f32_bf8_fp8(a: B32, b: B32, c: F32) -> F32 { L::map3(a, b, c, dot::v_dot4_f32_bf8_fp8) }
    #[by_default = "order and rounding of the sum as the manual's pseudocode has them"]
    v_dot4_f32_bf8_bf8(a: B32, b: B32, c: F32) -> F32 { L::map3(a, b, c, dot::v_dot4_f32_bf8_bf8) }
}

/// Immediate of float dot products: the rules of RDNA3.
pub const RDNA3: u32 = 1;
/// The rules of CDNA 2 to 4.
pub const CDNA2: u32 = 2;

fn signs(x: Aux) -> (bool, bool) {
    (x.immediate() & 1 != 0, x.immediate() & 2 != 0)
}
