//! Exact arithmetic in integers, in any rounding mode, on IEEE formats up to binary64.
//! Slow and plain: the path for directed rounding, and the model that fast paths are tested against.
//! NaN results are [`Ieee::default_nan`]; which NaN an instruction returns is decided in `nan`.

use super::mode::Rounding;

/// An IEEE 754 binary interchange format of at most 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ieee {
    /// Width of the exponent field in bits.
    pub exp_bits: u32,
    /// Width of the mantissa field in bits, without the hidden bit.
    pub man_bits: u32,
}

/// binary16.
pub const BINARY16: Ieee = Ieee {
    exp_bits: 5,
    man_bits: 10,
};
/// bfloat16.
pub const BFLOAT16: Ieee = Ieee {
    exp_bits: 8,
    man_bits: 7,
};
/// binary32.
pub const BINARY32: Ieee = Ieee {
    exp_bits: 8,
    man_bits: 23,
};
/// binary64.
pub const BINARY64: Ieee = Ieee {
    exp_bits: 11,
    man_bits: 52,
};

/// A decoded number; a finite one is `sig * 2^exp`.
#[derive(Clone, Copy, Debug)]
struct Number {
    class: Class,
    negative: bool,
    exp: i32,
    sig: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Zero,
    Finite,
    Infinite,
    Nan,
}

impl Ieee {
    const fn bias(self) -> i32 {
        (1 << (self.exp_bits - 1)) - 1
    }

    /// Bits of +infinity.
    #[must_use]
    pub const fn infinity(self) -> u64 {
        ((1 << self.exp_bits) - 1) << self.man_bits
    }

    /// The sign bit.
    #[must_use]
    pub const fn sign(self) -> u64 {
        1 << (self.exp_bits + self.man_bits)
    }

    /// -QNaN, the result of an invalid operation.
    #[must_use]
    pub const fn default_nan(self) -> u64 {
        self.sign() | self.infinity() | 1 << (self.man_bits - 1)
    }

    fn unpack(self, bits: u64) -> Number {
        let mag = bits & (self.sign() - 1);
        let exp = (mag >> self.man_bits) as i32;
        let man = mag & ((1 << self.man_bits) - 1);
        let hidden = u64::from(exp != 0) << self.man_bits;
        let class = match mag {
            0 => Class::Zero,
            m if m < self.infinity() => Class::Finite,
            m if m == self.infinity() => Class::Infinite,
            _ => Class::Nan,
        };
        let exp = exp.max(1) - self.bias() - self.man_bits as i32;
        Number {
            class,
            negative: bits & self.sign() != 0,
            exp,
            sig: man | hidden,
        }
    }

    /// Rounds `sig * 2^exp` (plus something smaller than `2^exp` if `sticky`) into this format.
    /// An overflow gives infinity or the largest finite value, by direction.
    #[must_use]
    pub fn round(
        self,
        negative: bool,
        exp: i32,
        sig: u128,
        sticky: bool,
        rounding: Rounding,
    ) -> u64 {
        let sign = if negative { self.sign() } else { 0 };
        let up = match rounding {
            Rounding::TowardPlus => !negative,
            Rounding::TowardMinus => negative,
            _ => false,
        };
        if sig == 0 {
            return sign | u64::from(sticky && up);
        }
        let shift_up = sig.leading_zeros() as i32;
        let sig = sig << shift_up;
        let exp = exp - shift_up;
        let leading = exp + 127;
        let min = 1 - self.bias();
        let overflow = if up || rounding == Rounding::NearestEven {
            self.infinity()
        } else {
            self.infinity() - 1
        };
        if leading > self.bias() {
            return sign | overflow;
        }
        let place = leading.max(min) - self.man_bits as i32;
        let drop = (place - exp) as u32;
        let (kept, half, rest) = match drop {
            0..128 => {
                let low = sig & ((1 << drop) - 1);
                let half = 1u128 << (drop - 1);
                (
                    (sig >> drop) as u64,
                    low & half != 0,
                    low & (half - 1) != 0 || sticky,
                )
            }
            128 => (0, true, sig << 1 != 0 || sticky),
            _ => (0, false, true),
        };
        let inc = match rounding {
            Rounding::NearestEven => half && (rest || kept & 1 != 0),
            Rounding::TowardZero => false,
            _ => up && (half || rest),
        };
        let mag = kept + u64::from(inc) + (((leading.max(min) - min) as u64) << self.man_bits);
        sign | if mag >= self.infinity() {
            overflow
        } else {
            mag
        }
    }

    /// `a + b`.
    #[must_use]
    pub fn add(self, a: u64, b: u64, rounding: Rounding) -> u64 {
        let one = (self.bias() as u64) << self.man_bits;
        self.fma(a, one, b, rounding)
    }

    /// `a * b`.
    #[must_use]
    pub fn mul(self, a: u64, b: u64, rounding: Rounding) -> u64 {
        let (x, y) = (self.unpack(a), self.unpack(b));
        let negative = x.negative != y.negative;
        let sign = if negative { self.sign() } else { 0 };
        match (x.class, y.class) {
            (Class::Nan, _)
            | (_, Class::Nan)
            | (Class::Infinite, Class::Zero)
            | (Class::Zero, Class::Infinite) => self.default_nan(),
            (Class::Infinite, _) | (_, Class::Infinite) => sign | self.infinity(),
            (Class::Zero, _) | (_, Class::Zero) => sign,
            _ => self.round(
                negative,
                x.exp + y.exp,
                u128::from(x.sig) * u128::from(y.sig),
                false,
                rounding,
            ),
        }
    }

    /// `a * b + c`, rounded once.
    #[must_use]
    pub fn fma(self, a: u64, b: u64, c: u64, rounding: Rounding) -> u64 {
        self.fma_scaled(a, b, c, 0, rounding)
    }

    /// `(a * b + c) * 2^e`, rounded once; `|e|` below 10,000.
    #[must_use]
    pub fn fma_scaled(self, a: u64, b: u64, c: u64, e: i32, rounding: Rounding) -> u64 {
        let (x, y, z) = (self.unpack(a), self.unpack(b), self.unpack(c));
        let negative = x.negative != y.negative;
        let signed_zero = |n: bool| if n { self.sign() } else { 0 };
        let product = match (x.class, y.class) {
            (Class::Nan, _)
            | (_, Class::Nan)
            | (Class::Infinite, Class::Zero)
            | (Class::Zero, Class::Infinite) => Class::Nan,
            (Class::Infinite, _) | (_, Class::Infinite) => Class::Infinite,
            (Class::Zero, _) | (_, Class::Zero) => Class::Zero,
            _ => Class::Finite,
        };
        let exact_zero = rounding == Rounding::TowardMinus;
        match (product, z.class) {
            (Class::Nan, _) | (_, Class::Nan) => self.default_nan(),
            (Class::Infinite, Class::Infinite) if negative != z.negative => self.default_nan(),
            (Class::Infinite, _) => signed_zero(negative) | self.infinity(),
            (_, Class::Infinite) => c,
            (Class::Zero, Class::Zero) if negative == z.negative => signed_zero(negative),
            (Class::Zero, Class::Zero) => signed_zero(exact_zero),
            (Class::Zero, _) => {
                self.round(z.negative, z.exp + e, u128::from(z.sig), false, rounding)
            }
            (_, Class::Zero) => self.round(
                negative,
                x.exp + y.exp + e,
                u128::from(x.sig) * u128::from(y.sig),
                false,
                rounding,
            ),
            (Class::Finite, Class::Finite) => {
                // Both terms with the leading bit at 126: a sum fits, and enough zeros lie below.
                let raise = |exp: i32, sig: u128| {
                    let up = sig.leading_zeros() as i32 - 1;
                    (exp - up, sig << up)
                };
                let p = raise(x.exp + y.exp, u128::from(x.sig) * u128::from(y.sig));
                let q = raise(z.exp, u128::from(z.sig));
                let ((big, big_negative), (small, small_negative)) = if p >= q {
                    ((p, negative), (q, z.negative))
                } else {
                    ((q, z.negative), (p, negative))
                };
                let distance = (big.0 - small.0) as u32;
                let (aligned, sticky) = if distance < 127 {
                    (small.1 >> distance, small.1 & ((1 << distance) - 1) != 0)
                } else {
                    (0, true)
                };
                if big_negative == small_negative {
                    return self.round(big_negative, big.0 + e, big.1 + aligned, sticky, rounding);
                }
                let difference = big.1 - aligned - u128::from(sticky);
                if difference == 0 && !sticky {
                    return signed_zero(exact_zero);
                }
                self.round(big_negative, big.0 + e, difference, sticky, rounding)
            }
        }
    }

    /// `a / b`.
    #[must_use]
    pub fn div(self, a: u64, b: u64, rounding: Rounding) -> u64 {
        let (x, y) = (self.unpack(a), self.unpack(b));
        let negative = x.negative != y.negative;
        let sign = if negative { self.sign() } else { 0 };
        match (x.class, y.class) {
            (Class::Nan, _)
            | (_, Class::Nan)
            | (Class::Infinite, Class::Infinite)
            | (Class::Zero, Class::Zero) => self.default_nan(),
            (Class::Infinite, _) | (_, Class::Zero) => sign | self.infinity(),
            (Class::Zero, _) | (_, Class::Infinite) => sign,
            _ => {
                // At least 64 quotient bits: enough for 53 and a sticky remainder.
                let up = x.sig.leading_zeros() + 63;
                let dividend = u128::from(x.sig) << up;
                let divisor = u128::from(y.sig);
                let quotient = dividend / divisor;
                let sticky = !dividend.is_multiple_of(divisor);
                self.round(
                    negative,
                    x.exp - y.exp - up as i32,
                    quotient,
                    sticky,
                    rounding,
                )
            }
        }
    }

    /// Square root of `a`; -0 gives -0, other negative numbers the default NaN.
    #[must_use]
    pub fn sqrt(self, a: u64, rounding: Rounding) -> u64 {
        let x = self.unpack(a);
        match (x.class, x.negative) {
            (Class::Zero, _) | (Class::Infinite, false) => a,
            (Class::Nan, _) | (_, true) => self.default_nan(),
            _ => {
                let up = (u128::from(x.sig).leading_zeros() as i32 - 2) & !1;
                let up = if (x.exp - up) & 1 == 0 { up } else { up - 1 };
                let wide = u128::from(x.sig) << up;
                let root = wide.isqrt();
                self.round(false, (x.exp - up) / 2, root, root * root != wide, rounding)
            }
        }
    }

    /// `a * 2^e`, rounded once.
    #[must_use]
    pub fn scale(self, a: u64, e: i32, rounding: Rounding) -> u64 {
        let x = self.unpack(a);
        match x.class {
            Class::Nan => self.default_nan(),
            Class::Zero | Class::Infinite => a,
            // Beyond 10,000 every format here over- or underflows.
            Class::Finite => self.round(
                x.negative,
                x.exp + e.clamp(-10_000, 10_000),
                u128::from(x.sig),
                false,
                rounding,
            ),
        }
    }

    /// Converts `a` to the format `to`. NaNs keep sign and top payload bits and become quiet.
    #[must_use]
    pub fn convert(self, a: u64, to: Self, rounding: Rounding) -> u64 {
        let x = self.unpack(a);
        let sign = if x.negative { to.sign() } else { 0 };
        match x.class {
            Class::Zero => sign,
            Class::Infinite => sign | to.infinity(),
            Class::Nan => {
                let man = x.sig & ((1 << self.man_bits) - 1);
                let man = man << (64 - self.man_bits) >> (64 - to.man_bits);
                sign | to.infinity() | man | 1 << (to.man_bits - 1)
            }
            Class::Finite => to.round(x.negative, x.exp, u128::from(x.sig), false, rounding),
        }
    }

    /// The integer `magnitude`, negated if `negative`, in this format. Zero is +0.
    #[must_use]
    pub fn from_integer(self, negative: bool, magnitude: u64, rounding: Rounding) -> u64 {
        self.round(
            negative && magnitude != 0,
            0,
            u128::from(magnitude),
            false,
            rounding,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    const NE: Rounding = Rounding::NearestEven;

    fn same(got: u64, want: f64, what: &str) {
        assert!(
            got == want.to_bits() || (want.is_nan() && got == BINARY64.default_nan()),
            "{what}: {got:#x} {want:e}"
        );
    }

    #[test]
    fn nearest_even_equals_the_host() {
        let mut random = Random(11);
        for _ in 0..300_000 {
            let (a, b, c) = (random.f64(), random.f64(), random.f64());
            let (x, y, z) = (f64::from_bits(a), f64::from_bits(b), f64::from_bits(c));
            same(BINARY64.add(a, b, NE), x + y, "add");
            same(BINARY64.mul(a, b, NE), x * y, "mul");
            same(BINARY64.div(a, b, NE), x / y, "div");
            same(BINARY64.sqrt(a, NE), x.sqrt(), "sqrt");
            same(BINARY64.fma(a, b, c, NE), x.mul_add(y, z), "fma");
            let narrow = BINARY64.convert(a, BINARY32, NE) as u32;
            assert!(x.is_nan() || narrow == (x as f32).to_bits(), "{a:#x}");
            let (p, q, s) = (random.f32(), random.f32(), random.f32());
            let fma = f32::from_bits(p).mul_add(f32::from_bits(q), f32::from_bits(s));
            let got = BINARY32.fma(p.into(), q.into(), s.into(), NE) as u32;
            assert!(got == fma.to_bits() || (fma.is_nan() && got == 0xffc0_0000));
            assert_eq!(BINARY32.from_integer(a >> 63 != 0, a >> 1, NE) as u32, {
                let v = (a >> 1) as f32;
                (if a >> 63 != 0 && a >> 1 != 0 { -v } else { v }).to_bits()
            });
        }
    }

    /// Directed results against exact values: f32 products and sums that f64 holds exactly.
    #[test]
    fn directed_rounding_brackets_the_exact_value() {
        let mut random = Random(13);
        let mut seen = 0;
        while seen < 100_000 {
            let (a, b) = (random.f32(), random.f32());
            let (x, y) = (f64::from(f32::from_bits(a)), f64::from(f32::from_bits(b)));
            if !x.is_finite() || !y.is_finite() {
                continue;
            }
            seen += 1;
            let close = x == 0.0 || y == 0.0 || (x.abs().log2() - y.abs().log2()).abs() < 25.0;
            for (exact, op) in [(Some(x * y), 0), (close.then_some(x + y), 1)] {
                let Some(exact) = exact else { continue };
                let run = |r| match op {
                    0 => BINARY32.mul(a.into(), b.into(), r),
                    _ => BINARY32.add(a.into(), b.into(), r),
                };
                let float = |bits: u64| f64::from(f32::from_bits(bits as u32));
                let (down, up) = (
                    float(run(Rounding::TowardMinus)),
                    float(run(Rounding::TowardPlus)),
                );
                let (zero, near) = (float(run(Rounding::TowardZero)), float(run(NE)));
                assert!(down <= exact && exact <= up, "{a:#x} {b:#x} {op}");
                assert_eq!(zero, if exact < 0.0 { up } else { down });
                assert!(near == up || near == down || near.is_infinite());
                let is_f32 = f64::from(exact as f32) == exact;
                assert_eq!(is_f32, down == up);
                if !is_f32 && down.is_finite() && up.is_finite() {
                    assert_eq!((down as f32).next_up(), up as f32);
                }
            }
        }
        assert_eq!(
            BINARY32.add(0x3f80_0000, 0xbf80_0000, Rounding::TowardMinus),
            0x8000_0000
        );
        assert_eq!(
            BINARY32.div(0x3f80_0000, 0x4040_0000, Rounding::TowardZero),
            0x3eaa_aaaa
        );
        assert_eq!(
            BINARY32.div(0x3f80_0000, 0x4040_0000, Rounding::TowardPlus),
            0x3eaa_aaab
        );
        assert_eq!(
            BINARY32.sqrt(0x4000_0000, Rounding::TowardPlus),
            0x3fb5_04f4
        );
        assert_eq!(BINARY32.mul(1, 1, Rounding::TowardPlus), 1);
        assert_eq!(
            BINARY32.mul(0x7f7f_ffff, 0x7f7f_ffff, Rounding::TowardZero),
            0x7f7f_ffff
        );
    }
}
