//! Number formats of AMD GPUs and exact arithmetic on them, as pure functions on bit patterns.
//! Every function gives the same bits on every host; no libm function is called.
//!
//! | module | what |
//! | --- | --- |
//! | [`mode`] | [`Rounding`], [`Mode`] (the decoded MODE register), denormal flushing |
//! | [`mod@format`] | [`Format`]: description of a float format, generic `decode` and `encode` |
//! | [`half`] | f16 and bf16: conversions, single-rounding arithmetic that vectorises |
//! | [`small`] | fp8, bf8 (OCP and FNUZ), fp6, bf6, fp4, E8M0, E5M3; stochastic rounding; scaled conversions |
//! | [`nan`] | classification, quieting, which NaN a result carries |
//! | [`soft`] | add, mul, fma, div, sqrt, conversions in integers, any rounding mode, any IEEE format |
//! | [`arith`] | the operations as an instruction performs them: denormals, rounding and NaN rules by [`Mode`] |

#![forbid(unsafe_code)]

pub mod arith;
pub mod format;
pub mod half;
pub mod mode;
pub mod nan;
pub mod small;
pub mod soft;

pub use format::Format;
pub use mode::{Mode, Rounding};
