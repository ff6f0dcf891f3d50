//! Conversions to and from fp8, bf8, fp6, bf6, fp4, and the pseudorandom generator of stochastic
//! rounding. Formats and overflow rules: [`crate::fp::small`]. A byte or word of a register is chosen
//! by the caller (OPSEL, SDWA); wide packed forms work on dword slices.

use crate::fp::format::{self, Format};
use crate::fp::half::{bf16_to_f32, f16_to_f32};
use crate::fp::nan::quiet32;
use crate::fp::small::{
    self, Fp8Kind, f32_to_bf16_sr, f32_to_f16_sr, f32_to_fp8, f32_to_fp8_sr, from_f32_scale, pack,
    to_bf16_scale, to_f16_scale, to_f32_scale, unpack,
};

/// Next state of the 32-bit linear feedback shift register (CDNA4, CDNA5).
#[inline(always)]
#[must_use]
pub const fn v_prng_b32(x: u32) -> u32 {
    x << 1 ^ if x >> 31 != 0 { 197 } else { 0 }
}

/// fp8 (E4M3) to f32, exact.
#[inline(always)]
#[must_use]
pub const fn v_cvt_f32_fp8(x: u8, kind: Fp8Kind) -> u32 {
    kind.fp8().decode(x as u32).to_bits()
}

/// bf8 (E5M2) to f32, exact; NaNs are quiet.
#[inline(always)]
#[must_use]
pub const fn v_cvt_f32_bf8(x: u8, kind: Fp8Kind) -> u32 {
    quiet32(kind.bf8().decode(x as u32).to_bits())
}

/// E5M3 to f32, exact (V_CVT_F32_FP8 with CLAMP on gfx1250).
#[inline(always)]
#[must_use]
pub const fn v_cvt_f32_e5m3(x: u8) -> u32 {
    format::E5M3.decode(x as u32).to_bits()
}

/// Two fp8 bytes of a word to two f32.
#[inline(always)]
#[must_use]
pub const fn v_cvt_pk_f32_fp8(x: u16, kind: Fp8Kind) -> [u32; 2] {
    [
        v_cvt_f32_fp8(x as u8, kind),
        v_cvt_f32_fp8((x >> 8) as u8, kind),
    ]
}

/// Two bf8 bytes of a word to two f32.
#[inline(always)]
#[must_use]
pub const fn v_cvt_pk_f32_bf8(x: u16, kind: Fp8Kind) -> [u32; 2] {
    [
        v_cvt_f32_bf8(x as u8, kind),
        v_cvt_f32_bf8((x >> 8) as u8, kind),
    ]
}

/// fp8 to f16, exact (gfx1250).
#[inline(always)]
#[must_use]
pub const fn v_cvt_f16_fp8(x: u8) -> u16 {
    crate::fp::half::f32_to_f16(format::FP8.decode(x as u32))
}

/// bf8 to f16, exact (gfx1250); NaNs are quiet.
#[inline(always)]
#[must_use]
pub const fn v_cvt_f16_bf8(x: u8) -> u16 {
    crate::fp::half::f32_to_f16(format::BF8.decode(x as u32))
}

/// Two fp8 bytes of a word to packed f16 (gfx1250).
#[inline(always)]
#[must_use]
pub const fn v_cvt_pk_f16_fp8(x: u16) -> u32 {
    super::convert::pack(v_cvt_f16_fp8(x as u8), v_cvt_f16_fp8((x >> 8) as u8))
}

/// Two bf8 bytes of a word to packed f16 (gfx1250).
#[inline(always)]
#[must_use]
pub const fn v_cvt_pk_f16_bf8(x: u16) -> u32 {
    super::convert::pack(v_cvt_f16_bf8(x as u8), v_cvt_f16_bf8((x >> 8) as u8))
}

/// Two f32 to two bytes of `to`, first in the low byte, to nearest even
/// (V_CVT_PK_FP8_F32, V_CVT_PK_BF8_F32; with CLAMP on gfx1250 `to` is E5M3 in place of fp8, here and in the next three).
#[inline(always)]
#[must_use]
pub const fn v_cvt_pk_fp8_f32(a: u32, b: u32, to: Format, fp16_ovfl: bool) -> u16 {
    u16::from_le_bytes([f32_to_fp8(a, to, fp16_ovfl), f32_to_fp8(b, to, fp16_ovfl)])
}

/// Packed f16 to two bytes of `to`, to nearest even (V_CVT_PK_FP8_F16, V_CVT_PK_BF8_F16 of gfx1250).
#[inline(always)]
#[must_use]
pub const fn v_cvt_pk_fp8_f16(x: u32, to: Format, fp16_ovfl: bool) -> u16 {
    v_cvt_pk_fp8_f32(
        f16_to_f32(x as u16).to_bits(),
        f16_to_f32((x >> 16) as u16).to_bits(),
        to,
        fp16_ovfl,
    )
}

/// f32 to a byte of `to`, stochastic (V_CVT_SR_FP8_F32, V_CVT_SR_BF8_F32).
#[inline(always)]
#[must_use]
pub const fn v_cvt_sr_fp8_f32(x: u32, random: u32, to: Format, fp16_ovfl: bool) -> u8 {
    f32_to_fp8_sr(x, random, to, fp16_ovfl)
}

/// f16 to a byte of `to`, stochastic (V_CVT_SR_FP8_F16, V_CVT_SR_BF8_F16 of gfx1250): the top bits of
/// `random`, 7 for E4M3 and 8 for E5M2, are added below the target's last place.
#[inline(always)]
#[must_use]
pub const fn v_cvt_sr_fp8_f16(x: u16, random: u32, to: Format, fp16_ovfl: bool) -> u8 {
    f32_to_fp8_sr(f16_to_f32(x).to_bits(), random, to, fp16_ovfl)
}

/// f32 to f16, stochastic (gfx950).
#[inline(always)]
#[must_use]
pub const fn v_cvt_sr_f16_f32(x: u32, random: u32, fp16_ovfl: bool) -> u16 {
    f32_to_f16_sr(x, random, fp16_ovfl)
}

/// f32 to bf16, stochastic (gfx950).
#[inline(always)]
#[must_use]
pub const fn v_cvt_sr_bf16_f32(x: u32, random: u32, fp16_ovfl: bool) -> u16 {
    f32_to_bf16_sr(x, random, fp16_ovfl)
}

/// Two f32 to packed bf16, stochastic (gfx1250): the low and the high half of `random` are the
/// 16 bits added below the first and the second result.
#[inline(always)]
#[must_use]
pub const fn v_cvt_sr_pk_bf16_f32(a: u32, b: u32, random: u32, fp16_ovfl: bool) -> u32 {
    let low = f32_to_bf16_sr(a, random << 16, fp16_ovfl);
    super::convert::pack(low, f32_to_bf16_sr(b, random & 0xffff_0000, fp16_ovfl))
}

/// Two f32 to packed f16, stochastic (gfx1250). Of each half of `random` the top 13 bits are used;
/// the pseudocode's adding all 16 at the bottom of an f32 would add up to eight units of f16.
#[inline(always)]
#[must_use]
pub const fn v_cvt_sr_pk_f16_f32(a: u32, b: u32, random: u32, fp16_ovfl: bool) -> u32 {
    let low = f32_to_f16_sr(a, random << 16, fp16_ovfl);
    super::convert::pack(low, f32_to_f16_sr(b, random & 0xffff_0000, fp16_ovfl))
}

/// Source or destination type of a wide scaled conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wide {
    /// One dword each.
    F32,
    /// Two to a dword.
    F16,
    /// Two to a dword.
    Bf16,
}

/// How scaled conversions of a target behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleRules {
    /// MODE.FP16_OVFL.
    pub fp16_ovfl: bool,
    /// gfx1250: an infinite source gives NaN in fp8 and bf8 even with FP16_OVFL.
    pub infinity_is_nan: bool,
    /// gfx1250: each draw serves two elements with 16 bits each, low half first; gfx950 draws 32
    /// bits for every element.
    pub halves: bool,
}

#[inline(always)]
fn load(source: &[u32], i: usize, wide: Wide) -> u32 {
    match wide {
        Wide::F32 => source.get(i).copied().unwrap_or(0),
        Wide::F16 => f16_to_f32(unpack::<16>(source, i) as u16).to_bits(),
        Wide::Bf16 => bf16_to_f32(unpack::<16>(source, i) as u16).to_bits(),
    }
}

/// `N` wide elements divided by the scale, to packed codes of `to`, `BITS` wide
/// (V_CVT_SCALEF32_PK*_{FP8,BF8,FP6,BF6,FP4}_* and, with `random`, their SR forms).
///
/// `scale` is the f32 scale operand; only its exponent field counts. Missing source dwords read as 0,
/// codes past the end of `out` are dropped. `out` is overwritten.
#[inline]
pub fn v_cvt_scalef32_pack<const N: usize, const BITS: usize>(
    source: &[u32],
    wide: Wide,
    scale: u32,
    to: Format,
    random: Option<u32>,
    rules: ScaleRules,
    out: &mut [u32],
) {
    out.fill(0);
    let scale = small::scale_of_f32(scale);
    let mut state = random.unwrap_or(0);
    for i in 0..N {
        let half = if i % 2 == 0 {
            state << 16
        } else {
            state & 0xffff_0000
        };
        let drawn = if rules.halves { half } else { state };
        let code = from_f32_scale(
            load(source, i, wide),
            scale,
            to,
            random.map(|_| drawn),
            rules.fp16_ovfl,
            rules.infinity_is_nan,
        );
        pack::<BITS>(out, i, code.into());
        if !rules.halves || i % 2 == 1 {
            state = v_prng_b32(state);
        }
    }
}

/// V_CVT_SCALEF32_2XPK16_{FP6,BF6}_F32 (gfx950): sixteen f32 of `a` and of `b`, interleaved.
#[inline]
pub fn v_cvt_scalef32_2xpk16(
    a: &[u32],
    b: &[u32],
    scale: u32,
    to: Format,
    rules: ScaleRules,
    out: &mut [u32],
) {
    out.fill(0);
    let scale = small::scale_of_f32(scale);
    for i in 0..32 {
        let source = if i % 2 == 0 { a } else { b };
        let x = load(source, i / 2, Wide::F32);
        let code = from_f32_scale(x, scale, to, None, rules.fp16_ovfl, rules.infinity_is_nan);
        pack::<6>(out, i, code.into());
    }
}

/// `N` packed codes of `from`, `BITS` wide, times 2^(`scale` - 127), to wide elements
/// (V_CVT_SCALEF32_PK*_{F32,F16,BF16}_* of gfx950 with the exponent field of the f32 scale;
/// V_CVT_SCALE_PK* of gfx1250 with the selected scale byte). `out` is overwritten.
#[inline]
pub fn v_cvt_scale_unpack<const N: usize, const BITS: usize>(
    source: &[u32],
    from: Format,
    scale: u8,
    wide: Wide,
    fp16_ovfl: bool,
    out: &mut [u32],
) {
    out.fill(0);
    for i in 0..N {
        let code = unpack::<BITS>(source, i);
        match wide {
            Wide::F32 => {
                if let Some(d) = out.get_mut(i) {
                    *d = to_f32_scale(code, from, scale);
                }
            }
            Wide::F16 => pack::<16>(out, i, to_f16_scale(code, from, scale, fp16_ovfl).into()),
            Wide::Bf16 => pack::<16>(out, i, to_bf16_scale(code, from, scale, fp16_ovfl).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fp::format::{BF6, BF8, E5M3, FP4, FP6, FP8};

    const GFX950: ScaleRules = ScaleRules {
        fp16_ovfl: false,
        infinity_is_nan: false,
        halves: false,
    };
    const GFX1250: ScaleRules = ScaleRules {
        fp16_ovfl: false,
        infinity_is_nan: true,
        halves: true,
    };

    fn f(x: f32) -> u32 {
        x.to_bits()
    }

    #[test]
    fn generator_has_full_period_steps() {
        assert_eq!(v_prng_b32(1), 2);
        assert_eq!(v_prng_b32(0x8000_0000), 197);
        assert_eq!(v_prng_b32(0), 0);
    }

    #[test]
    fn eight_bit_formats() {
        for kind in [Fp8Kind::Ocp, Fp8Kind::Fnuz] {
            for x in 0..=255u8 {
                let (fp8, bf8) = (v_cvt_f32_fp8(x, kind), v_cvt_f32_bf8(x, kind));
                if !f32::from_bits(fp8).is_nan() {
                    assert_eq!(v_cvt_pk_fp8_f32(fp8, 0, kind.fp8(), false), u16::from(x));
                    assert_eq!(v_cvt_sr_fp8_f32(fp8, 0, kind.fp8(), false), x);
                }
                if f32::from_bits(bf8).is_finite() {
                    assert_eq!(
                        v_cvt_pk_fp8_f32(0, bf8, kind.bf8(), false),
                        u16::from(x) << 8
                    );
                    assert_eq!(v_cvt_sr_fp8_f32(bf8, 0, kind.bf8(), false), x);
                }
            }
        }
        for x in (0..=255u8).filter(|x| x & 0x7f != 0x7f) {
            assert_eq!(
                v_cvt_pk_fp8_f16(v_cvt_f16_fp8(x).into(), FP8, false) as u8,
                x
            );
            assert_eq!(v_cvt_sr_fp8_f16(v_cvt_f16_fp8(x), 0, FP8, false), x);
        }
        assert_eq!(v_cvt_pk_f16_bf8(0x7c3c), 0x7c00_3c00);
        assert_eq!(v_cvt_pk_f16_fp8(0x3840), 0x3c00_4000);
        assert_eq!(v_cvt_pk_f32_fp8(0x3840, Fp8Kind::Ocp), [f(2.0), f(1.0)]);
        assert_eq!(v_cvt_f32_e5m3(0x78), f(1.0));
        assert_eq!(v_cvt_pk_fp8_f32(f(1.0), f(-1.0), E5M3, false) as u8, 0x78);
        // 1 + 2^-10 in f16: one of the 128 random values rounds up.
        let ups = (0..128u32)
            .filter(|i| v_cvt_sr_fp8_f16(0x3c01, i << 25, FP8, false) == 0x39)
            .count();
        assert_eq!(ups, 1);
        assert_eq!(
            v_cvt_sr_pk_bf16_f32(0x3f80_8000, 0x3f80_8000, 0x8000_7fff, false),
            0x3f81_3f80
        );
        assert_eq!(
            v_cvt_sr_pk_f16_f32(0x3f80_1000, 0x3f80_1000, 0x8000_7fff, false),
            0x3c01_3c00
        );
    }

    #[test]
    fn packed_scaled_round_trip() {
        let values: Vec<u32> = (0..32).map(|i| f((i as f32 - 16.0) * 0.25)).collect();
        let scale = f(0.5);
        let mut codes = [0u32; 6];
        v_cvt_scalef32_pack::<32, 6>(&values, Wide::F32, scale, FP6, None, GFX950, &mut codes);
        let mut back = [0u32; 32];
        v_cvt_scale_unpack::<32, 6>(
            &codes,
            FP6,
            small::scale_of_f32(scale),
            Wide::F32,
            false,
            &mut back,
        );
        for (v, b) in values.iter().zip(back) {
            // Magnitudes up to 7.5 * 0.5 are representable within a sixteenth.
            let (v, b) = (f32::from_bits(*v), f32::from_bits(b));
            assert!((v.clamp(-3.75, 3.75) - b).abs() <= 0.125, "{v} {b}");
        }
        let mut interleaved = [0u32; 6];
        v_cvt_scalef32_2xpk16(
            &values[..16],
            &values[16..],
            scale,
            BF6,
            GFX950,
            &mut interleaved,
        );
        let mut one = [0u32; 1];
        v_cvt_scalef32_pack::<1, 6>(
            &values[16..17],
            Wide::F32,
            scale,
            BF6,
            None,
            GFX950,
            &mut one,
        );
        assert_eq!(unpack::<6>(&interleaved, 1), one[0]);

        let halves = [0x4000_3c00u32, 0xc400_b800];
        let mut fp4 = [0u32; 1];
        v_cvt_scalef32_pack::<4, 4>(&halves, Wide::F16, f(1.0), FP4, None, GFX1250, &mut fp4);
        assert_eq!(fp4, [0xe942]);
        let mut wide = [0u32; 2];
        v_cvt_scale_unpack::<4, 4>(&fp4, FP4, 127, Wide::F16, false, &mut wide);
        assert_eq!(wide, halves);
        v_cvt_scale_unpack::<4, 4>(&fp4, FP4, 127, Wide::Bf16, false, &mut wide);
        assert_eq!(wide, [0x4000_3f80, 0xc080_bf00]);
    }

    #[test]
    fn stochastic_draws() {
        // 0.25 is half way from 0 to 0.5 in fp4: it goes up iff the top random bit is set.
        let source = [f(0.25); 4];
        let mut out = [0u32; 1];
        let run = |rules, out: &mut [u32]| {
            v_cvt_scalef32_pack::<4, 4>(
                &source,
                Wide::F32,
                f(1.0),
                FP4,
                Some(0x4000_8000),
                rules,
                out,
            );
        };
        // gfx950: states 0x40008000, 0x80010000, 0x000200c5, 0x0004018a.
        run(GFX950, &mut out);
        assert_eq!(out, [0x0010]);
        // gfx1250: halves 0x8000, 0x4000, then 0x0000, 0x8001.
        run(GFX1250, &mut out);
        assert_eq!(out, [0x1001]);
        let mut byte = [0u32; 1];
        v_cvt_scalef32_pack::<1, 8>(
            &[0x7f80_0000],
            Wide::F32,
            f(1.0),
            BF8,
            None,
            GFX1250,
            &mut byte,
        );
        assert_eq!(byte, [0x7c]);
    }
}
