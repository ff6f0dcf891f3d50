//! Modifiers of lane operations: what happens to sources before an operation and to its result after it.
//! Written once for all back ends, as the operations are. A value is a low and a high word; the high word means
//! something for 64-bit kinds and pairs only.

use crate::kernel::Kind;
use crate::vector::Lanes;

/// What happens to a source: first flushing, then the halves of packed values, absolute value, sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// Subnormals become zeros of their sign.
    pub flush: bool,
    /// Absolute value; of both halves of a packed source.
    pub abs: bool,
    /// Negate (packed: the low half).
    pub neg: bool,
    /// Negate the high half of a packed source.
    pub neg_hi: bool,
    /// Two halves, from which these say what the result's halves are.
    pub packed: bool,
    /// Packed: the low half of the result is the high one.
    pub low_from_high: bool,
    /// Packed: the high half of the result is the low one.
    pub high_from_low: bool,
}

/// What happens to a result: scaling, flushing, clamping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finish {
    /// 0 none, 1 times 2, 2 times 4, 3 divided by 2. Flushes subnormals and gives no -0.
    pub omod: u8,
    /// Subnormals become zeros of their sign.
    pub flush: bool,
    /// To 0..1.
    pub clamp: bool,
    /// A NaN clamps to zero.
    pub clamp_nan: bool,
}

#[inline(always)]
fn and<L: Lanes>(v: L::V, k: u32) -> L::V {
    L::and(v, L::splat(k))
}

/// `v`, or its bits of `keep` where those of `exponent` are clear.
#[inline(always)]
fn flushed<L: Lanes>(v: L::V, exponent: u32, keep: u32) -> L::V {
    let tiny = L::eq(and::<L>(v, exponent), L::splat(0));
    L::select(tiny, and::<L>(v, keep), v)
}

/// Both halves of packed f16 with subnormals flushed.
#[inline(always)]
fn flushed_halves<L: Lanes>(v: L::V) -> L::V {
    let low = flushed::<L>(v, 0x7c00, 0xffff_8000);
    flushed::<L>(low, 0x7c00_0000, 0x8000_ffff)
}

/// f64 words with subnormals flushed.
#[inline(always)]
fn flushed_pair<L: Lanes>(lo: L::V, hi: L::V) -> (L::V, L::V) {
    let tiny = L::eq(and::<L>(hi, 0x7ff0_0000), L::splat(0));
    (
        L::select(tiny, L::splat(0), lo),
        L::select(tiny, and::<L>(hi, 1 << 31), hi),
    )
}

impl Source {
    /// Whether the source is used as it is.
    pub fn is_none(&self) -> bool {
        let plain = Source {
            packed: self.packed,
            ..Source::default()
        };
        *self == plain
    }

    /// The source as the operation sees it. A 16-bit one is in the low half; what is above it does not matter.
    #[inline(always)]
    pub fn apply<L: Lanes>(&self, kind: Kind, mut lo: L::V, mut hi: L::V) -> (L::V, L::V) {
        if self.flush {
            match kind {
                Kind::F32 => lo = flushed::<L>(lo, 0x7f80_0000, 1 << 31),
                Kind::PkF32 => {
                    lo = flushed::<L>(lo, 0x7f80_0000, 1 << 31);
                    hi = flushed::<L>(hi, 0x7f80_0000, 1 << 31);
                }
                Kind::F16 => lo = flushed::<L>(lo, 0x7c00, 0xffff_8000),
                Kind::PkF16 => lo = flushed_halves::<L>(lo),
                Kind::F64 => (lo, hi) = flushed_pair::<L>(lo, hi),
                _ => {}
            }
        }
        if self.packed {
            let word = if self.abs {
                and::<L>(lo, 0x7fff_7fff)
            } else {
                lo
            };
            let (low, high) = (and::<L>(word, 0xffff), L::shr(word, L::splat(16)));
            let new_low = if self.low_from_high { high } else { low };
            let new_high = if self.high_from_low { low } else { high };
            let signs = u32::from(self.neg) << 15 | u32::from(self.neg_hi) << 31;
            let both = L::or(new_low, L::shl(new_high, L::splat(16)));
            return (L::xor(both, L::splat(signs)), hi);
        }
        let (part, sign) = match kind {
            Kind::F64 | Kind::B64 => (&mut hi, 1 << 31),
            Kind::F16 | Kind::Bf16 | Kind::B16 => (&mut lo, 1 << 15),
            _ => (&mut lo, 1u32 << 31),
        };
        if self.abs {
            *part = and::<L>(*part, !sign);
        }
        if self.neg {
            *part = L::xor(*part, L::splat(sign));
        }
        (lo, hi)
    }
}

impl Finish {
    /// Whether the result stays as it is.
    pub fn is_none(&self) -> bool {
        self.omod == 0 && !self.flush && !self.clamp
    }

    /// The result with its modifiers. A 16-bit one comes and goes with a high half of zeros.
    #[inline(always)]
    pub fn apply<L: Lanes>(&self, kind: Kind, lo: L::V, hi: L::V) -> (L::V, L::V) {
        match kind {
            Kind::F32 => (self.single::<L>(lo), hi),
            Kind::PkF32 => (self.single::<L>(lo), self.single::<L>(hi)),
            Kind::F16 => (self.half::<L>(lo), hi),
            Kind::PkF16 => {
                let high = self.half::<L>(L::shr(lo, L::splat(16)));
                (
                    L::or(
                        self.half::<L>(and::<L>(lo, 0xffff)),
                        L::shl(high, L::splat(16)),
                    ),
                    hi,
                )
            }
            Kind::Bf16 => {
                let wide = self.single::<L>(L::shl(lo, L::splat(16)));
                (L::shr(wide, L::splat(16)), hi)
            }
            Kind::PkBf16 => {
                let low = self.single::<L>(L::shl(lo, L::splat(16)));
                let high = self.single::<L>(and::<L>(lo, 0xffff_0000));
                (
                    L::or(L::shr(low, L::splat(16)), and::<L>(high, 0xffff_0000)),
                    hi,
                )
            }
            Kind::F64 => self.double::<L>(lo, hi),
            _ => (lo, hi),
        }
    }

    /// The factor of the output modifier.
    fn factor(&self) -> f64 {
        [1.0, 2.0, 4.0, 0.5][usize::from(self.omod & 3)]
    }

    #[inline(always)]
    fn single<L: Lanes>(&self, mut v: L::V) -> L::V {
        let scales = self.omod != 0;
        if scales {
            v = L::mul_f32(v, L::splat((self.factor() as f32).to_bits()));
        }
        if self.flush || scales {
            v = flushed::<L>(v, 0x7f80_0000, 1 << 31);
        }
        if scales {
            v = L::select(L::eq(v, L::splat(1 << 31)), L::splat(0), v);
        }
        if self.clamp {
            v = self.clamped::<L>(v, 0x3f80_0000, 0x7f80_0000, 1 << 31);
        }
        v
    }

    /// Scaling by a power of two is exact but for overflow and underflow.
    #[inline(always)]
    fn half<L: Lanes>(&self, mut v: L::V) -> L::V {
        let scales = self.omod != 0;
        if scales {
            let by = [0, 1, 2, u32::MAX][usize::from(self.omod & 3)];
            let exponent = and::<L>(L::shr(v, L::splat(10)), 31);
            let moved = L::add(exponent, L::splat(by));
            let sign = and::<L>(v, 0x8000);
            let scaled = L::or(and::<L>(v, 0x83ff), L::shl(moved, L::splat(10)));
            let infinity = L::or(sign, L::splat(0x7c00));
            let scaled = L::select(L::lt_i(L::splat(30), moved), infinity, scaled);
            let none = L::m_or(L::eq(exponent, L::splat(0)), L::lt_i(moved, L::splat(1)));
            let scaled = L::select(none, sign, scaled);
            v = L::select(L::eq(exponent, L::splat(31)), v, scaled);
        }
        if self.flush || scales {
            v = flushed::<L>(v, 0x7c00, 0x8000);
        }
        if scales {
            v = L::select(L::eq(v, L::splat(0x8000)), L::splat(0), v);
        }
        if self.clamp {
            v = self.clamped::<L>(v, 0x3c00, 0x7c00, 0x8000);
        }
        v
    }

    /// Clamps the bits of a float: `one`, `infinity` and the sign bit tell the format.
    #[inline(always)]
    fn clamped<L: Lanes>(&self, v: L::V, one: u32, infinity: u32, sign: u32) -> L::V {
        let nan = L::lt_u(L::splat(infinity), and::<L>(v, !sign));
        let negative = L::m_not(L::eq(and::<L>(v, sign), L::splat(0)));
        let zero = L::splat(0);
        let within = L::select(negative, zero, L::min_u(v, L::splat(one)));
        L::select(nan, if self.clamp_nan { zero } else { v }, within)
    }

    #[inline(always)]
    fn double<L: Lanes>(&self, mut lo: L::V, mut hi: L::V) -> (L::V, L::V) {
        let scales = self.omod != 0;
        let zero = L::splat(0);
        if scales {
            let bits = self.factor().to_bits();
            let factor = L::join(L::splat(bits as u32), L::splat((bits >> 32) as u32));
            (lo, hi) = L::split(L::mul_f64(L::join(lo, hi), factor));
        }
        if self.flush || scales {
            (lo, hi) = flushed_pair::<L>(lo, hi);
        }
        if scales {
            let minus_zero = L::m_and(L::eq(hi, L::splat(1 << 31)), L::eq(lo, zero));
            hi = L::select(minus_zero, zero, hi);
        }
        if self.clamp {
            let magnitude = and::<L>(hi, 0x7fff_ffff);
            let infinity = L::splat(0x7ff0_0000);
            let fraction = L::m_and(L::eq(magnitude, infinity), L::m_not(L::eq(lo, zero)));
            let nan = L::m_or(L::lt_u(infinity, magnitude), fraction);
            let one = L::splat(0x3ff0_0000);
            let (negative, great) = (L::lt_i(hi, zero), L::m_not(L::lt_u(hi, one)));
            let cut = L::m_or(negative, great);
            let (within_lo, within_hi) = (
                L::select(cut, zero, lo),
                L::select(negative, zero, L::select(great, one, hi)),
            );
            let of_nan = |v: L::V| if self.clamp_nan { zero } else { v };
            lo = L::select(nan, of_nan(lo), within_lo);
            hi = L::select(nan, of_nan(hi), within_hi);
        }
        (lo, hi)
    }
}

/// Applies modifiers to the words of a whole wave.
pub mod rows {
    use super::{Finish, Kind, Source};
    use crate::backend::Backend;
    use crate::vector::{Lanes, Scalar, WIDTH};

    /// Low and high words of 64 lanes, at an address that is a multiple of 64.
    pub type Rows = [[u32; 64]; 2];

    #[inline(always)]
    fn each<L: Lanes>(rows: &mut Rows, f: impl Fn(L::V, L::V) -> (L::V, L::V)) {
        let [lo, hi] = rows;
        for (lo, hi) in lo.chunks_exact_mut(WIDTH).zip(hi.chunks_exact_mut(WIDTH)) {
            // SAFETY: groups of 16 words; the row begins at a multiple of 64, as the type asks for.
            unsafe {
                let (a, b) = f(L::load(lo.as_ptr()), L::load(hi.as_ptr()));
                L::store(lo.as_mut_ptr(), a);
                L::store(hi.as_mut_ptr(), b);
            }
        }
    }

    macro_rules! dispatch {
        ($(#[$doc:meta])* $name:ident, $what:ident) => {
            $(#[$doc])*
            ///
            /// # Safety
            /// The host supports `backend`; the rows begin at a multiple of 64.
            pub unsafe fn $name(backend: Backend, modifiers: &$what, kind: Kind, rows: &mut Rows) {
                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
                fn avx2(m: &$what, kind: Kind, rows: &mut Rows) {
                    each::<crate::vector::Avx2>(rows, |lo, hi| m.apply::<crate::vector::Avx2>(kind, lo, hi));
                }
                #[cfg(target_arch = "x86_64")]
                #[target_feature(
                    enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512cd,avx512dq,avx512vl"
                )]
                fn avx512(m: &$what, kind: Kind, rows: &mut Rows) {
                    each::<crate::vector::Avx512>(rows, |lo, hi| m.apply::<crate::vector::Avx512>(kind, lo, hi));
                }
                match backend {
                    // SAFETY: the caller vouches for the features.
                    #[cfg(target_arch = "x86_64")]
                    Backend::Avx2 => unsafe { avx2(modifiers, kind, rows) },
                    // SAFETY: as above.
                    #[cfg(target_arch = "x86_64")]
                    Backend::Avx512 => unsafe { avx512(modifiers, kind, rows) },
                    _ => each::<Scalar>(rows, |lo, hi| modifiers.apply::<Scalar>(kind, lo, hi)),
                }
            }
        };
    }
    dispatch!(
        /// Applies what happens to a source.
        source,
        Source
    );
    dispatch!(
        /// Applies what happens to a result.
        finish,
        Finish
    );
}
