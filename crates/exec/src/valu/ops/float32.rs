//! Single-precision arithmetic.

use super::ops;

ops! {
    v_add_f32(a: F32, b: F32) -> F32 { L::add_f32(a, b) }
    v_sub_f32(a: F32, b: F32) -> F32 { L::sub_f32(a, b) }
    v_subrev_f32(a: F32, b: F32) -> F32 { L::sub_f32(b, a) }
    v_mul_f32(a: F32, b: F32) -> F32 { L::mul_f32(a, b) }
    v_fma_f32 | v_fmac_f32 | v_fmaak_f32 | v_fmamk_f32(a: F32, b: F32, c: F32) -> F32 { L::fma_f32(a, b, c) }
}
