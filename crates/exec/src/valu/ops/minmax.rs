//! Minimum, maximum and median on lanes. Numbers are compared as f32; what NaNs give is decided on the bits, by
//! the three rules that the generations have.

use rocjitsu_lanes::kernel::Aux;
use rocjitsu_lanes::vector::Lanes;

/// What happens to NaNs; see [`rocjitsu_lanes::scalar::minmax`] for the same on single values.
#[derive(Clone, Copy)]
pub enum Rule {
    /// gfx9 to gfx11: a number wins over a quiet NaN. With `ieee` (MODE.IEEE) a signalling one is returned, quiet.
    /// Of two NaNs the second is returned if `second`, else the first.
    Legacy {
        /// MODE.IEEE.
        ieee: bool,
        /// Of two NaNs the second.
        second: bool,
    },
    /// IEEE minimumNumber: a number wins, two NaNs give the first, quiet.
    Number,
    /// IEEE minimum: any NaN gives a NaN, signalling before quiet, first before second.
    Propagate,
}

impl Rule {
    /// The rule before gfx12; see [`super::float_facts::adjust`].
    #[inline(always)]
    pub fn legacy(x: Aux) -> Rule {
        Rule::Legacy {
            ieee: x.ieee(),
            second: x.immediate() & 1 != 0,
        }
    }
}

/// Which of two.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// The smaller.
    Min,
    /// The larger.
    Max,
}
pub use Pick::{Max, Min};

/// A float format in the low bits of each lane.
pub trait Format {
    /// Infinity.
    const INFINITY: u32;
    /// The bit that makes a NaN quiet.
    const QUIET: u32;
    /// The bits without the sign.
    const MAGNITUDE: u32;
    /// The smaller or larger of numbers; anything where one is NaN.
    fn choose<L: Lanes>(pick: Pick, a: L::V, b: L::V) -> L::V;
    /// The median of numbers; anything where one is NaN.
    fn median<L: Lanes>(a: L::V, b: L::V, c: L::V) -> L::V;
    /// The smaller or larger of any values where [`Lanes::RANKS_NANS`] holds, if that helps with the rule.
    fn ranked<L: Lanes>(rule: Rule, pick: Pick, a: L::V, b: L::V) -> Option<L::V>;
    /// Lanes with a NaN.
    #[inline(always)]
    fn nan<L: Lanes>(a: L::V) -> L::M {
        let magnitude = L::and(a, L::splat(Self::MAGNITUDE));
        L::lt_u(L::splat(Self::INFINITY), magnitude)
    }
}

/// Single precision.
pub enum Single {}
/// Half precision, zeros above.
pub enum Half {}

impl Format for Single {
    const INFINITY: u32 = 0x7f80_0000;
    const QUIET: u32 = 0x0040_0000;
    const MAGNITUDE: u32 = 0x7fff_ffff;
    #[inline(always)]
    fn choose<L: Lanes>(pick: Pick, a: L::V, b: L::V) -> L::V {
        match pick {
            Min => L::min_f32(a, b),
            Max => L::max_f32(a, b),
        }
    }
    #[inline(always)]
    fn median<L: Lanes>(a: L::V, b: L::V, c: L::V) -> L::V {
        // As the manuals have it: what is left without the (first) largest. With zeros of both signs this is not
        // the middle of the order that min and max use.
        let top = L::max_f32(L::max_f32(a, b), c);
        let rest = L::select(L::eq_f32(top, b), L::max_f32(a, c), L::max_f32(a, b));
        L::select(L::eq_f32(top, a), L::max_f32(b, c), rest)
    }
    #[inline(always)]
    fn ranked<L: Lanes>(rule: Rule, pick: Pick, a: L::V, b: L::V) -> Option<L::V> {
        match rule {
            Rule::Legacy {
                ieee: true,
                second: false,
            } => Some(Self::choose::<L>(pick, a, b)),
            Rule::Legacy {
                ieee: true,
                second: true,
            } => {
                let r = Self::choose::<L>(pick, b, a);
                Some(L::select(signalling::<L, Self>(a), quiet::<L, Self>(a), r))
            }
            Rule::Number => {
                // A product makes NaNs quiet.
                let calm = |v: L::V| {
                    if L::may_signal(v) {
                        L::mul_f32(v, L::splat(0x3f80_0000))
                    } else {
                        v
                    }
                };
                Some(Self::choose::<L>(pick, calm(a), calm(b)))
            }
            _ => None,
        }
    }
    #[inline(always)]
    fn nan<L: Lanes>(a: L::V) -> L::M {
        L::unordered_f32(a, a)
    }
}

impl Format for Half {
    const INFINITY: u32 = 0x7c00;
    const QUIET: u32 = 0x0200;
    const MAGNITUDE: u32 = 0x7fff;
    #[inline(always)]
    fn choose<L: Lanes>(pick: Pick, a: L::V, b: L::V) -> L::V {
        let (a, b) = (L::f32_from_f16(a), L::f32_from_f16(b));
        L::f16_from_f32(Single::choose::<L>(pick, a, b))
    }
    #[inline(always)]
    fn ranked<L: Lanes>(rule: Rule, pick: Pick, a: L::V, b: L::V) -> Option<L::V> {
        // NaNs are quiet when they are compared.
        match rule {
            Rule::Legacy { ieee: true, second } => {
                let (first, last) = if second { (b, a) } else { (a, b) };
                let r = Self::choose::<L>(pick, first, last);
                let r = L::select(signalling::<L, Self>(b), quiet::<L, Self>(b), r);
                Some(L::select(signalling::<L, Self>(a), quiet::<L, Self>(a), r))
            }
            Rule::Number => Some(Self::choose::<L>(pick, a, b)),
            _ => None,
        }
    }
    #[inline(always)]
    fn median<L: Lanes>(a: L::V, b: L::V, c: L::V) -> L::V {
        let (a, b, c) = (L::f32_from_f16(a), L::f32_from_f16(b), L::f32_from_f16(c));
        L::f16_from_f32(Single::median::<L>(a, b, c))
    }
}

#[inline(always)]
fn quiet<L: Lanes, F: Format + ?Sized>(v: L::V) -> L::V {
    L::or(v, L::splat(F::QUIET))
}

/// Lanes with a signalling NaN.
#[inline(always)]
fn signalling<L: Lanes, F: Format + ?Sized>(v: L::V) -> L::M {
    if !L::may_signal(v) {
        return L::mask(0);
    }
    let loud = L::eq(L::and(v, L::splat(F::QUIET)), L::splat(0));
    L::m_and(F::nan::<L>(v), loud)
}

/// The smaller or the larger of two.
#[inline(always)]
pub fn two<L: Lanes, F: Format>(rule: Rule, pick: Pick, a: L::V, b: L::V) -> L::V {
    if L::RANKS_NANS
        && let Some(r) = F::ranked::<L>(rule, pick, a, b)
    {
        return r;
    }
    let picked = F::choose::<L>(pick, a, b);
    let (a_nan, b_nan) = (F::nan::<L>(a), F::nan::<L>(b));
    if L::none(L::m_or(a_nan, b_nan)) {
        return picked;
    }
    let (quiet, signalling) = (quiet::<L, F>, signalling::<L, F>);
    let both = L::m_and(a_nan, b_nan);
    match rule {
        Rule::Legacy { ieee, second } => {
            let r = L::select(b_nan, a, picked);
            let r = L::select(a_nan, b, r);
            let r = if second { r } else { L::select(both, a, r) };
            if !ieee {
                return r;
            }
            let r = L::select(signalling(b), quiet(b), r);
            L::select(signalling(a), quiet(a), r)
        }
        Rule::Number => {
            let r = L::select(b_nan, a, picked);
            let r = L::select(a_nan, b, r);
            L::select(both, quiet(a), r)
        }
        Rule::Propagate => {
            let r = L::select(b_nan, quiet(b), picked);
            let r = L::select(a_nan, quiet(a), r);
            let first = L::m_not(signalling(a));
            L::select(L::m_and(signalling(b), first), quiet(b), r)
        }
    }
}

/// `then` of (`first` of a, b) and c.
#[inline(always)]
pub fn three<L: Lanes, F: Format>(
    rule: Rule,
    (first, then): (Pick, Pick),
    (a, b, c): (L::V, L::V, L::V),
) -> L::V {
    two::<L, F>(rule, then, two::<L, F>(rule, first, a, b), c)
}

/// The median of three; with a NaN among them, the smallest.
#[inline(always)]
pub fn median<L: Lanes, F: Format>(rule: Rule, a: L::V, b: L::V, c: L::V) -> L::V {
    let numbers = F::median::<L>(a, b, c);
    let nan = L::m_or(L::m_or(F::nan::<L>(a), F::nan::<L>(b)), F::nan::<L>(c));
    if L::none(nan) {
        return numbers;
    }
    L::select(nan, three::<L, F>(rule, (Min, Min), (a, b, c)), numbers)
}

/// The 16 bits from bit `at` on.
#[inline(always)]
fn half<L: Lanes>(v: L::V, at: u32) -> L::V {
    L::and(L::shr(v, L::splat(at)), L::splat(0xffff))
}

/// The smaller or the larger of two pairs of halves.
#[inline(always)]
pub fn pairs<L: Lanes>(rule: Rule, pick: Pick, a: L::V, b: L::V) -> L::V {
    // Not by `array::map`: what std calls is compiled without the back end's instructions.
    let low = two::<L, Half>(rule, pick, half::<L>(a, 0), half::<L>(b, 0));
    let high = two::<L, Half>(rule, pick, half::<L>(a, 16), half::<L>(b, 16));
    super::support::pack::<L>(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocjitsu_lanes::scalar::minmax as exact;
    use rocjitsu_lanes::vector::Scalar;

    /// Numbers and NaNs of every kind.
    const WORDS: [u32; 12] = [
        0,
        0x8000_0000,
        0x3f80_0000,
        0xbf80_0000,
        0x7f80_0000,
        0xff80_0000,
        1,
        0x7fc0_0001,
        0xffc0_0002,
        0x7f80_0003,
        0xff80_0004,
        0x7f7f_ffff,
    ];
    const HALVES: [u32; 12] = [
        0, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 1, 0x7e01, 0xfe02, 0x7c03, 0xfc04, 0x7bff,
    ];

    #[test]
    fn rules_agree_with_those_for_single_values() {
        for (i, j, k) in (0..12 * 12 * 12).map(|n| (n % 12, n / 12 % 12, n / 144)) {
            for flags in 0..4 {
                let (ieee, second) = (flags & 1 != 0, flags & 2 != 0);
                let rules = exact::NanRules { ieee, second };
                let legacy = Rule::Legacy { ieee, second };
                let one = |v: [u32; 16]| v[0];
                let [a, b, c] = [WORDS[i], WORDS[j], WORDS[k]];
                let s = |v| [v; 16];
                let f = |rule, pick| one(two::<Scalar, Single>(rule, pick, s(a), s(b)));
                assert_eq!(
                    f(legacy, Min),
                    exact::v_min_f32(a, b, rules),
                    "{a:x} {b:x} {rules:?}"
                );
                assert_eq!(
                    f(legacy, Max),
                    exact::v_max_f32(a, b, rules),
                    "{a:x} {b:x} {rules:?}"
                );
                assert_eq!(
                    f(Rule::Number, Min),
                    exact::v_min_num_f32(a, b),
                    "{a:x} {b:x}"
                );
                assert_eq!(
                    f(Rule::Propagate, Max),
                    exact::v_maximum_f32(a, b),
                    "{a:x} {b:x}"
                );
                let g = |rule| one(median::<Scalar, Single>(rule, s(a), s(b), s(c)));
                assert_eq!(
                    g(legacy),
                    exact::v_med3_f32(a, b, c, rules),
                    "{a:x} {b:x} {c:x}"
                );
                assert_eq!(
                    g(Rule::Number),
                    exact::v_med3_num_f32(a, b, c),
                    "{a:x} {b:x} {c:x}"
                );
                let [a, b, c] = [HALVES[i], HALVES[j], HALVES[k]];
                let h = |rule, pick| one(two::<Scalar, Half>(rule, pick, s(a), s(b))) as u16;
                let [x, y, z] = [a as u16, b as u16, c as u16];
                assert_eq!(
                    h(legacy, Min),
                    exact::v_min_f16(x, y, rules),
                    "{a:x} {b:x} {rules:?}"
                );
                assert_eq!(
                    h(Rule::Number, Max),
                    exact::v_max_num_f16(x, y),
                    "{a:x} {b:x}"
                );
                assert_eq!(
                    h(Rule::Propagate, Min),
                    exact::v_minimum_f16(x, y),
                    "{a:x} {b:x}"
                );
                let g = one(median::<Scalar, Half>(legacy, s(a), s(b), s(c))) as u16;
                assert_eq!(g, exact::v_med3_f16(x, y, z, rules), "{a:x} {b:x} {c:x}");
            }
        }
    }
}
