//! Reciprocals, roots, exponentials, logarithms, sines, hyperbolic tangent. Correctly rounded or within the
//! bound that the manuals give; the hardware's own tables are not published.

use rocjitsu_lanes::scalar::transcendental as t;

use super::ops;
use super::support::half1;

ops! {
    #[bounded = "0.501 ulp; manuals: 1 ulp"]
    v_rcp_f32 | v_rcp_iflag_f32(a: F32) -> F32 { L::rcp_f32(a) }
    #[bounded = "0.501 ulp; manuals: 1 ulp"]
    v_rsq_f32(a: F32) -> F32 { L::rsq_f32(a) }
    #[bounded = "0.501 ulp; manuals: 1 ulp"]
    v_sqrt_f32(a: F32) -> F32 { L::sqrt_f32(a) }
    #[bounded = "0.92 ulp; manuals: 1 ulp"]
    v_exp_f32 | v_exp_legacy_f32(a: F32) -> F32 { L::exp_f32(a) }
    #[bounded = "0.78 ulp; manuals: 1 ulp"]
    v_log_f32 | v_log_legacy_f32(a: F32) -> F32 { L::log_f32(a) }
    #[bounded = "0.86 ulp"]
    v_sin_f32(a: F32) -> F32 { L::sin_f32(a) }
    #[bounded = "0.86 ulp"]
    v_cos_f32(a: F32) -> F32 { L::cos_f32(a) }
    #[bounded = "0.501 ulp"]
    v_tanh_f32(a: F32) -> F32 { L::map1(a, t::v_tanh_f32) }

    #[bounded = "0.501 ulp; manuals: 0.51 ulp"]
    v_rcp_f16(a: F16) -> F16 { half1::<L>(a, t::v_rcp_f16) }
    #[bounded = "0.51 ulp"]
    v_rsq_f16(a: F16) -> F16 { half1::<L>(a, t::v_rsq_f16) }
    #[bounded = "0.501 ulp; manuals: 0.51 ulp"]
    v_sqrt_f16(a: F16) -> F16 { half1::<L>(a, t::v_sqrt_f16) }
    #[bounded = "0.51 ulp"]
    v_exp_f16(a: F16) -> F16 { half1::<L>(a, t::v_exp_f16) }
    #[bounded = "0.51 ulp"]
    v_log_f16(a: F16) -> F16 { half1::<L>(a, t::v_log_f16) }
    #[bounded = "0.51 ulp"]
    v_sin_f16(a: F16) -> F16 { half1::<L>(a, t::v_sin_f16) }
    #[bounded = "0.51 ulp"]
    v_cos_f16(a: F16) -> F16 { half1::<L>(a, t::v_cos_f16) }
    #[bounded = "0.51 ulp"]
    v_tanh_f16(a: F16) -> F16 { half1::<L>(a, t::v_tanh_f16) }

    #[bounded = "0.501 ulp"]
    v_rcp_bf16(a: Bf16) -> Bf16 { half1::<L>(a, t::v_rcp_bf16) }
    #[bounded = "0.51 ulp"]
    v_rsq_bf16(a: Bf16) -> Bf16 { half1::<L>(a, t::v_rsq_bf16) }
    #[bounded = "0.501 ulp"]
    v_sqrt_bf16(a: Bf16) -> Bf16 { half1::<L>(a, t::v_sqrt_bf16) }
    #[bounded = "0.51 ulp"]
    v_exp_bf16(a: Bf16) -> Bf16 { half1::<L>(a, t::v_exp_bf16) }
    #[bounded = "0.51 ulp"]
    v_log_bf16(a: Bf16) -> Bf16 { half1::<L>(a, t::v_log_bf16) }
    #[bounded = "0.51 ulp"]
    v_sin_bf16(a: Bf16) -> Bf16 { half1::<L>(a, t::v_sin_bf16) }
    #[bounded = "0.51 ulp"]
    v_cos_bf16(a: Bf16) -> Bf16 { half1::<L>(a, t::v_cos_bf16) }
    #[bounded = "0.51 ulp"]
    v_tanh_bf16(a: Bf16) -> Bf16 { half1::<L>(a, t::v_tanh_bf16) }

    #[bounded = "0.501 ulp; manuals: 2^29 ulp"]
    v_rcp_f64(a: F64) -> F64 { L::rcp_f64(a) }
    #[bounded = "0.501 ulp; manuals: 2^29 ulp"]
    v_sqrt_f64(a: F64) -> F64 { L::sqrt_f64(a) }
    #[bounded = "1.5 ulp; manuals: 2^29 ulp"]
    v_rsq_f64(a: F64) -> F64 { L::rsq_f64(a) }
}
