//! Conversions to and from 8-bit floats, stochastic rounding, and its generator of random numbers.
//!
//! The immediate says which byte of a register is meant and which formats the target has, see [`BYTE`] and its
//! neighbours.

use rocjitsu_lanes::fp::format::{self, Format};
use rocjitsu_lanes::fp::small::Fp8Kind;
use rocjitsu_lanes::kernel::Aux;
use rocjitsu_lanes::scalar::convert_small as s;
use rocjitsu_lanes::vector::Lanes;

use super::ops;
use super::support::half1;

/// Immediate: the byte of the source or destination.
pub const BYTE: u32 = 3;
/// Immediate: the formats are FNUZ (gfx942) instead of OCP.
pub const FNUZ: u32 = 4;
/// Immediate: the clamp modifier chooses E5M3 instead of E4M3 (gfx1250).
pub const E5M3: u32 = 8;

ops! {
    v_prng_b32(a: B32) -> B32 { L::map1(a, s::v_prng_b32) }

    v_cvt_f32_fp8[x](a: B32) -> F32 {
        let from = fp8(x);
        L::map1(byte::<L>(x, a), |a| from.decode(a).to_bits())
    }
    v_cvt_f32_bf8[x](a: B32) -> F32 {
        let kind = kind(x);
        L::map1(byte::<L>(x, a), |a| s::v_cvt_f32_bf8(a as u8, kind))
    }
    v_cvt_pk_f32_fp8[x](a: B16) -> PkF32 {
        let from = fp8(x);
        let one = |a: L::V| L::map1(a, |a| from.decode(a & 0xff).to_bits());
        (one(a), one(L::shr(a, L::splat(8))))
    }
    v_cvt_pk_f32_bf8[x](a: B16) -> PkF32 {
        let kind = kind(x);
        let one = |a: L::V| L::map1(a, |a| s::v_cvt_f32_bf8(a as u8, kind));
        (one(a), one(L::shr(a, L::splat(8))))
    }
    v_cvt_f16_fp8[x](a: B32) -> F16 {
        let from = fp8(x);
        L::map1(byte::<L>(x, a), |a| u32::from(to_f16(from, a)))
    }
    v_cvt_f16_bf8[x](a: B32) -> F16 { half1::<L>(byte::<L>(x, a), |a| s::v_cvt_f16_bf8(a as u8)) }
    v_cvt_pk_f16_fp8[x](a: B16) -> PkF16 {
        let from = fp8(x);
        L::map1(a, |a| u32::from(to_f16(from, a & 0xff)) | u32::from(to_f16(from, a >> 8 & 0xff)) << 16)
    }
    v_cvt_pk_f16_bf8(a: B16) -> PkF16 { L::map1(a, |a| s::v_cvt_pk_f16_bf8(a as u16)) }

    v_cvt_pk_fp8_f32[x](a: F32, b: F32) -> B16 {
        let to = fp8(x);
        match (nearest::<L>(to, a), nearest::<L>(to, b)) {
            (Some(low), Some(high)) => L::or(low, L::shl(high, L::splat(8))),
            _ => L::map2(a, b, |a, b| s::v_cvt_pk_fp8_f32(a, b, to, x.fp16_ovfl()).into()),
        }
    }
    v_cvt_pk_bf8_f32[x](a: F32, b: F32) -> B16 {
        let to = kind(x).bf8();
        match (nearest::<L>(to, a), nearest::<L>(to, b)) {
            (Some(low), Some(high)) => L::or(low, L::shl(high, L::splat(8))),
            _ => L::map2(a, b, |a, b| s::v_cvt_pk_fp8_f32(a, b, to, x.fp16_ovfl()).into()),
        }
    }
    v_cvt_pk_fp8_f16[x](a: PkF16) -> B16 {
        let to = fp8(x);
        L::map1(a, |a| s::v_cvt_pk_fp8_f16(a, to, x.fp16_ovfl()).into())
    }
    v_cvt_pk_bf8_f16[x](a: PkF16) -> B16 {
        let to = kind(x).bf8();
        L::map1(a, |a| s::v_cvt_pk_fp8_f16(a, to, x.fp16_ovfl()).into())
    }
    v_cvt_sr_fp8_f32[x](a: F32, random: B32, old: B32) -> B32 {
        let to = fp8(x);
        put_byte::<L>(x, old, L::map2(a, random, |a, r| s::v_cvt_sr_fp8_f32(a, r, to, x.fp16_ovfl()).into()))
    }
    v_cvt_sr_bf8_f32[x](a: F32, random: B32, old: B32) -> B32 {
        let to = kind(x).bf8();
        put_byte::<L>(x, old, L::map2(a, random, |a, r| s::v_cvt_sr_fp8_f32(a, r, to, x.fp16_ovfl()).into()))
    }
    v_cvt_sr_fp8_f16[x](a: F16, random: B32, old: B32) -> B32 {
        let to = fp8(x);
        let code = L::map2(a, random, |a, r| s::v_cvt_sr_fp8_f16(a as u16, r, to, x.fp16_ovfl()).into());
        put_byte::<L>(x, old, code)
    }
    v_cvt_sr_bf8_f16[x](a: F16, random: B32, old: B32) -> B32 {
        let to = kind(x).bf8();
        let code = L::map2(a, random, |a, r| s::v_cvt_sr_fp8_f16(a as u16, r, to, x.fp16_ovfl()).into());
        put_byte::<L>(x, old, code)
    }

    v_cvt_sr_f16_f32[x](a: F32, random: B32) -> F16 {
        L::map2(a, random, |a, r| s::v_cvt_sr_f16_f32(a, r, x.fp16_ovfl()).into())
    }
    v_cvt_sr_bf16_f32[x](a: F32, random: B32) -> Bf16 {
        L::map2(a, random, |a, r| s::v_cvt_sr_bf16_f32(a, r, x.fp16_ovfl()).into())
    }
    v_cvt_sr_pk_f16_f32[x](a: F32, b: F32, random: B32) -> PkF16 {
        L::map3(a, b, random, |a, b, r| s::v_cvt_sr_pk_f16_f32(a, b, r, x.fp16_ovfl()))
    }
    v_cvt_sr_pk_bf16_f32[x](a: F32, b: F32, random: B32) -> PkBf16 {
        L::map3(a, b, random, |a, b, r| s::v_cvt_sr_pk_bf16_f32(a, b, r, x.fp16_ovfl()))
    }
}

fn kind(x: Aux) -> Fp8Kind {
    if x.immediate() & FNUZ != 0 {
        Fp8Kind::Fnuz
    } else {
        Fp8Kind::Ocp
    }
}

/// The E4M3 format, or E5M3 where the clamp modifier says so.
fn fp8(x: Aux) -> Format {
    if x.immediate() & E5M3 != 0 && x.clamp() {
        format::E5M3
    } else {
        kind(x).fp8()
    }
}

/// f16 of a code; E5M3 reaches beyond f16's range and overflows to infinity.
fn to_f16(from: Format, code: u32) -> u16 {
    rocjitsu_lanes::fp::half::f32_to_f16(from.decode(code))
}

/// Codes of f32 values to nearest even, unless one is a NaN or above the largest finite code.
#[inline(always)]
fn nearest<L: Lanes>(to: Format, a: L::V) -> Option<L::V> {
    let Format {
        man_bits,
        bias,
        signed,
        ..
    } = to;
    if !signed {
        return None;
    }
    let magnitude = L::and(a, L::splat(0x7fff_ffff));
    let shift = L::splat(23 - man_bits);
    // Half a unit less one, and one more if the unit's bit is set; then the exponent is rebased.
    let odd = L::and(L::shr(magnitude, shift), L::splat(1));
    let rounded = L::shr(
        L::add(L::add(magnitude, L::splat((1 << (22 - man_bits)) - 1)), odd),
        shift,
    );
    let normal = L::sub(rounded, L::splat(((127 - bias) as u32) << man_bits));
    // A float whose unit is that of the format's subnormals: the sum's low bits are the code.
    let unit = L::splat(((127 + 24 - bias - man_bits as i32) as u32) << 23);
    let subnormal = L::sub(L::add_f32(magnitude, unit), unit);
    let is_small = L::lt_u(magnitude, L::splat(((128 - bias) as u32) << 23));
    let code = L::select(is_small, subnormal, normal);
    let sign = L::and(L::shr(a, L::splat(24)), L::splat(0x80));
    let fits = L::m_and(
        L::lt_u(code, L::splat(to.max_finite() + 1)),
        L::m_not(L::unordered_f32(a, a)),
    );
    // In FNUZ formats the code of -0 is NaN.
    let fits = match to.top {
        format::Top::Fnuz => L::m_and(fits, L::m_not(L::eq(code, L::splat(0)))),
        _ => fits,
    };
    (L::bits(fits) == u16::MAX).then(|| L::or(code, sign))
}

/// The byte of each lane that the immediate names.
#[inline(always)]
fn byte<L: Lanes>(x: Aux, a: L::V) -> L::V {
    L::and(
        L::shr(a, L::splat(8 * (x.immediate() & BYTE))),
        L::splat(0xff),
    )
}

/// `old` with the byte that the immediate names replaced by `code`.
#[inline(always)]
fn put_byte<L: Lanes>(x: Aux, old: L::V, code: L::V) -> L::V {
    let shift = 8 * (x.immediate() & BYTE);
    L::or(
        L::and(old, L::splat(!(0xff << shift))),
        L::shl(code, L::splat(shift)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocjitsu_lanes::vector::Scalar;

    /// The short way against the exact one, over every exponent and the middles between codes.
    #[test]
    fn nearest_codes_are_the_exact_ones() {
        for to in [format::FP8, format::BF8, format::FP8_FNUZ, format::BF8_FNUZ] {
            let mut met = 0;
            for x in (0..=u32::MAX)
                .step_by(4093)
                .chain((0..0x1_0000).map(|h| h << 16))
            {
                let Some(code) = nearest::<Scalar>(to, [x; 16]) else {
                    continue;
                };
                assert_eq!(
                    code[0],
                    u32::from(s::v_cvt_pk_fp8_f32(x, 0, to, false)),
                    "{to:?} {x:#x}"
                );
                met += 1;
            }
            assert!(met > 30_000);
        }
    }
}
