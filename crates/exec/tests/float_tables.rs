//! Tables of operands and results, worked out here from the manuals' rules and not by the functions under test: the
//! steps of a division, dot products of bf16, stochastic and scaled conversions. Every case runs on every back end.

mod common;

use common::{Bench, Memory};
use rocjitsu_exec::record::Flow;
use rocjitsu_exec::wave::scalar;
use rocjitsu_isa::{Format, Target};
use rocjitsu_lanes::Backend;

/// First registers of operands: the sources from 0 in steps of 32, the destination behind them.
const DST: u32 = 96;

/// `mnemonic v96, v0, v32, v64` as 64 bits; `more` are further bits, such as modifiers.
fn encode(target: Target, mnemonic: &str, more: u64) -> [u8; 8] {
    let rows = target.table().rows();
    let row = rows
        .iter()
        .find(|r| {
            let wide = matches!(r.format, Format::VOP3 | Format::VOP3P | Format::VOP3SD);
            // Of the two kinds of 16-bit operands those that name whole registers.
            r.mnemonic == mnemonic && wide && !r.alternate && !r.record.contains("t16")
                || r.mnemonic == mnemonic && target.generation() == 11 && wide
        })
        .unwrap_or_else(|| panic!("{target} has no {mnemonic}"));
    let sources = 256 | (256 + 32) << 9 | (256 + 64) << 18;
    let vcc = if row.format == Format::VOP3SD {
        106 << 8
    } else {
        0
    };
    // Packed operands take the high halves for the second component.
    let packed = if row.format == Format::VOP3P {
        3 << 59 | 1 << 14
    } else {
        0
    };
    (row.value as u64 | sources << 32 | u64::from(DST) | vcc | packed | more).to_le_bytes()
}

/// A case: words of the operands that begin at v0, v32 and v64, and of the destination before.
type Inputs = [Vec<u32>; 4];

/// Runs the instruction on all cases, 64 or 32 at a time; returns `words` words of each result and its VCC bit.
fn run(
    target: Target,
    backend: Backend,
    mode: u32,
    code: [u8; 8],
    vcc: u64,
    cases: &[Inputs],
    words: u32,
) -> Vec<(Vec<u32>, bool)> {
    let memory = Memory::new(0x1_0000, 64);
    let lanes = target.default_wave();
    let mut out = Vec::new();
    for chunk in cases.chunks(lanes as usize) {
        let mut bench = Bench::new(target, lanes, backend, &memory);
        bench.wave.set_exec(u64::MAX);
        bench.wave.mode = mode;
        bench.wave.set_mask(scalar::VCC, vcc);
        for (lane, case) in chunk.iter().enumerate() {
            for (first, operand) in [0, 32, 64, DST].into_iter().zip(case) {
                for (n, &word) in operand.iter().enumerate() {
                    bench.wave.v.write(first + n as u32, &mut bench.unit.pool)[lane] = word;
                }
            }
        }
        let flow = bench.step(&code, 0x1000);
        assert_eq!(
            flow,
            Ok(Flow::Next),
            "{target} {code:x?}: {:?}",
            bench.fault()
        );
        for lane in 0..chunk.len() {
            let result = (0..words)
                .map(|n| bench.wave.v.read(DST + n)[lane])
                .collect();
            out.push((result, bench.wave.vcc() >> lane & 1 != 0));
        }
    }
    out
}

fn f(x: f64) -> u32 {
    let narrow = x as f32;
    assert!(x.is_nan() || f64::from(narrow) == x, "{x} is no f32");
    narrow.to_bits()
}

/// 2 to the power of `e`, denormals included.
fn p(e: i32) -> f64 {
    // In two parts: `powi` inverts the positive power, which may be infinite.
    2f64.powi(e / 2) * 2f64.powi(e - e / 2)
}

fn words64(x: u64) -> Vec<u32> {
    vec![x as u32, (x >> 32) as u32]
}

/// All denormals kept, nearest even; f32 denormals flushed.
const KEEP: u32 = 0x3f0;
const FLUSH32: u32 = 0x3c0;

const TARGETS: [Target; 4] = [
    Target::Gfx942,
    Target::Gfx1100,
    Target::Gfx1201,
    Target::Gfx1250,
];

/// `None`: some NaN.
type Wanted = (Option<f64>, bool);

/// Operand, denominator, numerator; result and VCC. The rules are those at the head of
/// `crates/lanes/src/scalar/division.rs`, one group of lines for each branch, each of its edges included.
fn scale_cases(step: i32, near: i32, low: i32, bias: i32) -> Vec<([f64; 3], Wanted)> {
    let mut cases = Vec::new();
    // Both uses of the instruction: the denominator is scaled, then the numerator.
    let mut both = |d: f64, n: f64, of_d: Wanted, of_n: Wanted| {
        cases.push(([d, d, n], of_d));
        cases.push(([n, d, n], of_n));
    };
    let same = |x: f64| (Some(x), false);
    // A zero gives NaN and sets VCC.
    both(0.0, 1.0, (None, true), (None, true));
    both(1.0, -0.0, (None, true), (None, true));
    // Infinities pass.
    both(f64::INFINITY, 1.0, same(f64::INFINITY), same(1.0));
    both(3.0, f64::NEG_INFINITY, same(3.0), same(f64::NEG_INFINITY));
    // The quotient is near the largest number: the denominator goes up.
    let (d, n) = (-1.5 * p(-near / 2), 1.25 * p(near - near / 2));
    both(d, n, (Some(d * p(step)), true), (Some(n), true));
    both(2.0 * d, n, same(2.0 * d), same(n));
    // The denominator is denormal, the quotient far from the largest number: both go up.
    let (d, n) = (p(-bias - 3), p(-bias + 20));
    both(d, n, (Some(d * p(step)), false), (Some(n * p(step)), false));
    // The denominator's reciprocal is denormal and so is the quotient: the denominator goes down.
    let top = bias - 1;
    both(
        p(top),
        -1.0,
        (Some(p(top - step)), true),
        (Some(-1.0), true),
    );
    // The same with a quotient that is normal: both go down.
    both(
        p(top),
        2.0,
        (Some(p(top - step)), false),
        (Some(p(1 - step)), false),
    );
    // One binade lower the reciprocal is normal.
    both(p(top - 1), 1.0, same(p(top - 1)), same(1.0));
    // The quotient is denormal: the numerator goes up.
    let (d, n) = (1.75 * p(100), p(100 - bias + 2));
    both(d, n / 2.0, (Some(d), true), (Some(n / 2.0 * p(step)), true));
    both(d, n, same(d), same(n));
    // The numerator is tiny: both go up.
    let n = p(low - bias);
    both(
        -p(-10),
        n,
        (Some(-p(-10 + step)), false),
        (Some(n * p(step)), false),
    );
    both(-p(-10), 2.0 * n, same(-p(-10)), same(2.0 * n));
    // Nothing of the kind.
    both(3.0, -7.0, same(3.0), same(-7.0));
    cases
}

#[test]
fn div_scale_takes_every_branch() {
    let mut cases = scale_cases(64, 96, 23, 127);
    cases.push(([f64::NAN, f64::NAN, 1.0], (None, false)));
    let inputs: Vec<Inputs> = cases
        .iter()
        .map(|(of, _)| [vec![f(of[0])], vec![f(of[1])], vec![f(of[2])], vec![]].map(|v| v))
        .collect();
    let check = |target, backend, mode, flushes: bool| {
        let code = encode(target, "v_div_scale_f32", 0);
        let got = run(target, backend, mode, code, 0, &inputs, 1);
        for ((of, (value, vcc)), (words, got_vcc)) in cases.iter().zip(got) {
            let denormal = |x: f64| x != 0.0 && x.abs() < p(-126);
            let (value, vcc) = if flushes && of.iter().any(|&x| denormal(x)) {
                // It counts as zero.
                (None, true)
            } else {
                (*value, *vcc)
            };
            let got_value = f64::from(f32::from_bits(words[0]));
            assert_eq!(got_vcc, vcc, "{target} {backend} {of:?}: VCC");
            match value {
                None => assert!(got_value.is_nan(), "{target} {backend} {of:?}: {got_value}"),
                Some(v) => assert_eq!(
                    words[0],
                    f(v),
                    "{target} {backend} {of:?}: {got_value} not {v}"
                ),
            }
        }
    };
    for target in TARGETS {
        for backend in Backend::supported() {
            check(target, backend, KEEP, false);
            check(target, backend, FLUSH32, true);
        }
    }
    let cases = scale_cases(128, 768, 53, 1023);
    let inputs: Vec<Inputs> = cases
        .iter()
        .map(|(of, _)| {
            let [a, b, c] = of.map(|x| words64(x.to_bits()));
            [a, b, c, vec![]]
        })
        .collect();
    for target in TARGETS {
        for backend in Backend::supported() {
            let code = encode(target, "v_div_scale_f64", 0);
            let got = run(target, backend, KEEP, code, 0, &inputs, 2);
            for ((of, (value, vcc)), (words, got_vcc)) in cases.iter().zip(got) {
                let got = f64::from_bits(u64::from(words[0]) | u64::from(words[1]) << 32);
                assert_eq!(got_vcc, *vcc, "{target} {backend} {of:?}: VCC");
                match value {
                    None => assert!(got.is_nan(), "{target} {backend} {of:?}: {got:e}"),
                    Some(v) => assert_eq!(
                        got.to_bits(),
                        v.to_bits(),
                        "{target} {backend} {of:?}: {got:e}"
                    ),
                }
            }
        }
    }
}

/// a * b + c without VCC; with it times 2^64 (f64 2^128) where c is at least 2, else divided by it. One rounding.
#[test]
fn div_fmas_scales_by_vcc_and_rounds_once() {
    let narrow: [([f64; 3], f64, f64); 6] = [
        ([2.0, 3.0, 1.0], 7.0, 7.0 * p(-64)),
        ([1.0, 1.0, 2.0], 3.0, 3.0 * p(64)),
        ([-1.0, 0.5, -4.0], -4.5, -4.5 * p(64)),
        ([1.0, 1.0, -1.5], -0.5, -0.5 * p(-64)),
        ([1.0, p(-30), 0.0], p(-30), p(-94)),
        // 2^15 + 1.5 units of the last place of a denormal, once scaled: a tie, to the even one above.
        (
            [p(-70) * (1.0 + p(-15) + p(-16)), 1.0, 0.0],
            p(-70) * (1.0 + p(-15) + p(-16)),
            p(-134) * (1.0 + p(-14)),
        ),
    ];
    let wide: [([f64; 3], f64, f64); 4] = [
        ([2.0, 3.0, 1.0], 7.0, 7.0 * p(-128)),
        ([1.0, 1.0, 2.0], 3.0, 3.0 * p(128)),
        ([-3.0, 2.0, -2.5], -8.5, -8.5 * p(128)),
        ([p(-500), p(-400), 0.0], p(-900), p(-1028)),
    ];
    for target in TARGETS {
        for backend in Backend::supported() {
            for (vcc, scaled) in [(0, false), (u64::MAX, true), (0x5555_5555_5555_5555, true)] {
                let inputs: Vec<Inputs> = narrow
                    .iter()
                    .map(|(of, ..)| {
                        let [a, b, c] = of.map(|x| vec![f(x)]);
                        [a, b, c, vec![]]
                    })
                    .collect();
                let code = encode(target, "v_div_fmas_f32", 0);
                let got = run(target, backend, KEEP, code, vcc, &inputs, 1);
                for (lane, ((of, plain, other), (words, _))) in narrow.iter().zip(got).enumerate() {
                    let wanted = if scaled && vcc >> lane & 1 != 0 {
                        *other
                    } else {
                        *plain
                    };
                    assert_eq!(words[0], f(wanted), "{target} {backend} {vcc:x} {of:?}");
                }
                let inputs: Vec<Inputs> = wide
                    .iter()
                    .map(|(of, ..)| {
                        let [a, b, c] = of.map(|x| words64(x.to_bits()));
                        [a, b, c, vec![]]
                    })
                    .collect();
                let code = encode(target, "v_div_fmas_f64", 0);
                let got = run(target, backend, KEEP, code, vcc, &inputs, 2);
                for (lane, ((of, plain, other), (words, _))) in wide.iter().zip(got).enumerate() {
                    let wanted = if scaled && vcc >> lane & 1 != 0 {
                        *other
                    } else {
                        *plain
                    };
                    assert_eq!(
                        words,
                        words64(wanted.to_bits()),
                        "{target} {backend} {vcc:x} {of:?}"
                    );
                }
            }
        }
    }
}

/// Quotient, denominator, numerator as bits of f32, and the result.
#[test]
fn div_fixup_takes_every_branch() {
    const INF: u32 = 0x7f80_0000;
    const MINUS: u32 = 0x8000_0000;
    let one = f(1.0);
    let cases: [([u32; 3], u32); 24] = [
        // The quotient with the sign of the operands, whatever its own.
        ([f(3.0), f(2.0), f(6.0)], f(3.0)),
        ([f(3.0), f(-2.0), f(6.0)], f(-3.0)),
        ([f(-3.0), f(2.0), f(-6.0)], f(-3.0)),
        ([f(-3.0), f(-2.0), f(-6.0)], f(3.0)),
        // NaN operands: the numerator's goes first, and becomes quiet.
        ([one, one, 0x7f80_0001], 0x7fc0_0001),
        ([one, 0xff80_0002, one], 0xffc0_0002),
        ([one, 0x7fc0_0003, 0x7fa0_0004], 0x7fe0_0004),
        ([one, 0, 0x7fc0_0005], 0x7fc0_0005),
        // 0 / 0 and inf / inf.
        ([one, 0, 0], 0xffc0_0000),
        ([one, MINUS, 0], 0xffc0_0000),
        ([one, INF, INF | MINUS], 0xffc0_0000),
        // x / 0 and inf / y.
        ([one, 0, f(5.0)], INF),
        ([one, MINUS, f(5.0)], INF | MINUS),
        ([one, f(5.0), INF | MINUS], INF | MINUS),
        ([one, 0, INF], INF),
        // 0 / y and x / inf.
        ([one, f(-5.0), 0], MINUS),
        ([one, f(5.0), 0], 0),
        ([one, INF, f(5.0)], 0),
        ([one, INF | MINUS, f(5.0)], MINUS),
        ([one, INF, 0], 0),
        // A quotient that became NaN on the way.
        ([0x7fc0_0000, f(-1.0), one], INF | MINUS),
        // Exponents 151 apart: less than half the smallest denormal. 150 apart: as the quotient says.
        ([f(p(-149)), f(p(60)), f(p(-91))], 0),
        ([f(p(-149)), f(-p(60)), f(p(-91))], MINUS),
        ([f(p(-149)), f(p(60)), f(p(-90))], 1),
    ];
    let inputs: Vec<Inputs> = cases
        .iter()
        .map(|(of, _)| {
            let [a, b, c] = of.map(|x| vec![x]);
            [a, b, c, vec![]]
        })
        .collect();
    for target in TARGETS {
        for backend in Backend::supported() {
            let code = encode(target, "v_div_fixup_f32", 0);
            let got = run(target, backend, KEEP, code, 0, &inputs, 1);
            for ((of, wanted), (words, _)) in cases.iter().zip(got) {
                assert_eq!(
                    words[0], *wanted,
                    "{target} {backend} {of:x?}: {:x}",
                    words[0]
                );
            }
        }
    }
    // The same branches in f64, by widening what is no NaN; NaN payloads stand at the top of the fraction.
    let widen = |x: u32| {
        let x32 = f32::from_bits(x);
        if x32.is_nan() {
            let sign = u64::from(x >> 31) << 63;
            sign | 0x7ff << 52 | u64::from(x & 0x7f_ffff) << 29
        } else {
            f64::from(x32).to_bits()
        }
    };
    let wide: Vec<([u64; 3], u64)> = cases[..21]
        .iter()
        .map(|(of, wanted)| (of.map(widen), widen(*wanted)))
        .chain([
            ([1, p(600).to_bits(), p(-476).to_bits()], 0),
            ([1, (-p(600)).to_bits(), p(-476).to_bits()], 1 << 63),
            ([1, p(600).to_bits(), p(-475).to_bits()], 1),
        ])
        .collect();
    let inputs: Vec<Inputs> = wide
        .iter()
        .map(|(of, _)| {
            let [a, b, c] = of.map(words64);
            [a, b, c, vec![]]
        })
        .collect();
    for target in TARGETS {
        for backend in Backend::supported() {
            let code = encode(target, "v_div_fixup_f64", 0);
            let got = run(target, backend, KEEP, code, 0, &inputs, 2);
            for ((of, wanted), (words, _)) in wide.iter().zip(got) {
                assert_eq!(
                    words,
                    words64(*wanted),
                    "{target} {backend} {of:x?}: {words:x?}"
                );
            }
        }
    }
    // f16: the branches that differ in bits only.
    let cases: [([u32; 3], u32); 9] = [
        ([0x4200, 0xc000, 0x4600], 0xc200), // 3 = 6 / -2
        ([0x3c00, 0, 0], 0xfe00),
        ([0x3c00, 0x7c00, 0xfc00], 0xfe00),
        ([0x3c00, 0x8000, 0x4500], 0xfc00),
        ([0x3c00, 0x4500, 0x7c00], 0x7c00),
        ([0x3c00, 0xfc00, 0x4500], 0x8000),
        ([0x3c00, 0x4500, 0x8000], 0x8000),
        ([0x3c00, 0x7e01, 0x7c02], 0x7e02),
        ([0x3c00, 0x7c01, 0x3c00], 0x7e01),
    ];
    let inputs: Vec<Inputs> = cases
        .iter()
        .map(|(of, _)| {
            let [a, b, c] = of.map(|x| vec![x]);
            [a, b, c, vec![0xabcd_0000]]
        })
        .collect();
    for target in TARGETS {
        for backend in Backend::supported() {
            let code = encode(target, "v_div_fixup_f16", 0);
            let got = run(target, backend, KEEP, code, 0, &inputs, 1);
            for ((of, wanted), (words, _)) in cases.iter().zip(got) {
                assert_eq!(
                    words[0] & 0xffff,
                    *wanted,
                    "{target} {backend} {of:x?}: {:x}",
                    words[0]
                );
            }
        }
    }
}

/// bf16 bits of a number that bf16 has.
fn b(x: f64) -> u32 {
    let bits = f(x);
    assert_eq!(bits & 0xffff, 0, "{x} is no bf16");
    bits >> 16
}

fn pair(low: f64, high: f64) -> u32 {
    b(low) | b(high) << 16
}

/// Sums that every order of additions gives exactly, so that the table does not depend on the order; then what
/// targets do differently.
#[test]
fn dot_products_of_bf16() {
    let exact: [([f64; 2], [f64; 2], f64); 7] = [
        ([1.0, 2.0], [3.0, 4.0], 5.0),
        ([-1.5, 0.25], [8.0, -64.0], 0.0),
        ([1.0, -1.0], [7.0, 7.0], 0.5),
        ([1.0 + p(-7), 1.0], [1.0 + p(-7), -1.0], 0.0),
        ([p(60), p(-20)], [p(-60), p(20)], -2.0),
        ([0.0, -0.0], [3.0, 5.0], -1.25),
        ([p(100), 1.0], [p(20), 0.0], p(110)),
    ];
    let sum = |(a, b, c): &([f64; 2], [f64; 2], f64)| a[0] * b[0] + a[1] * b[1] + c;
    let inputs: Vec<Inputs> = exact
        .iter()
        .map(|(x, y, c)| {
            [
                vec![pair(x[0], x[1])],
                vec![pair(y[0], y[1])],
                vec![f(*c)],
                vec![],
            ]
        })
        .collect();
    let targets = [
        Target::Gfx950,
        Target::Gfx1100,
        Target::Gfx1151,
        Target::Gfx1201,
    ];
    for target in targets {
        for backend in Backend::supported() {
            let code = encode(target, "v_dot2_f32_bf16", 0);
            let got = run(target, backend, KEEP, code, 0, &inputs, 1);
            for (case, (words, _)) in exact.iter().zip(got) {
                assert_eq!(words[0], f(sum(case)), "{target} {backend} {case:?}");
            }
            // A bf16 denormal, and an f32 denormal accumulator: flushed on RDNA3, kept elsewhere
            // (`data/numerics/mfma-arithmetic.md`, section 7).
            let cases = [
                [vec![0x0001], vec![pair(p(120), 0.0)], vec![0], vec![]],
                [vec![0], vec![0], vec![0x0000_0123], vec![]],
                [
                    vec![pair(p(-70), 0.0)],
                    vec![pair(p(-70), 0.0)],
                    vec![0],
                    vec![],
                ],
            ];
            let got = run(target, backend, KEEP, code, 0, &cases, 1);
            let wanted = if target.generation() == 11 {
                [0, 0, 0]
            } else {
                [f(p(-13)), 0x123, f(p(-140))]
            };
            for (n, ((words, _), wanted)) in got.iter().zip(wanted).enumerate() {
                assert_eq!(words[0], wanted, "{target} {backend} denormal case {n}");
            }
            // NaN and inf - inf.
            let cases = [
                [vec![0x7f81], vec![pair(1.0, 0.0)], vec![f(1.0)], vec![]],
                [
                    vec![0x7f80],
                    vec![pair(-1.0, 0.0)],
                    vec![f(f64::INFINITY)],
                    vec![],
                ],
                [vec![0x7f80], vec![pair(0.0, 1.0)], vec![0], vec![]],
            ];
            for (words, _) in run(target, backend, KEEP, code, 0, &cases, 1) {
                assert!(f32::from_bits(words[0]).is_nan(), "{target} {backend}");
            }
        }
    }
    // The accumulator and the result are bf16, the sum is rounded once, to nearest even.
    let cases: [([f64; 2], [f64; 2], f64, f64); 6] = [
        ([1.0, 2.0], [3.0, 4.0], 5.0, 16.0),
        ([1.0, p(-8)], [1.0, 1.0], 0.0, 1.0),
        ([1.0, p(-8)], [1.0, 1.0], p(-20), 1.0 + p(-7)),
        ([1.0 + p(-7), p(-8)], [1.0, 1.0], 0.0, 1.0 + p(-6)),
        ([1.0 + p(-7), p(-8)], [1.0, 1.0], -p(-30), 1.0 + p(-7)),
        ([-1.0, -p(-8)], [1.0, 1.0], -p(-9), -1.0 - p(-7)),
    ];
    let inputs: Vec<Inputs> = cases
        .iter()
        .map(|(x, y, c, _)| {
            [
                vec![pair(x[0], x[1])],
                vec![pair(y[0], y[1])],
                vec![b(*c)],
                vec![0x5a5a_0000],
            ]
        })
        .collect();
    for target in [Target::Gfx1100, Target::Gfx1151, Target::Gfx1201] {
        for backend in Backend::supported() {
            let code = encode(target, "v_dot2_bf16_bf16", 0);
            let got = run(target, backend, KEEP, code, 0, &inputs, 1);
            for (case, (words, _)) in cases.iter().zip(got) {
                assert_eq!(
                    words[0],
                    0x5a5a_0000 | b(case.3),
                    "{target} {backend} {case:?}"
                );
            }
        }
    }
}

/// Of all random numbers as many round up as the part of the number below the last place says. Whichever of their
/// halves the instruction uses: both are swept.
#[test]
fn stochastic_rounding_to_16_bits_goes_up_as_often_as_it_should() {
    let numbers = [
        0x3f80_0000,
        0x3f80_0001,
        0x3f80_4000,
        0xbf81_8000,
        0x4049_0fdb,
        0xc2c8_fffe,
    ];
    let cases = |x: u32| -> Vec<Inputs> {
        (0..1 << 16)
            .step_by(16)
            .map(|k: u32| [vec![x], vec![k * 0x1_0001], vec![], vec![0x1234_5678]])
            .collect()
    };
    for backend in Backend::supported() {
        for x in numbers {
            // bf16 is the upper half of the f32.
            let code = encode(Target::Gfx950, "v_cvt_sr_bf16_f32", 0);
            let got = run(Target::Gfx950, backend, KEEP, code, 0, &cases(x), 1);
            let mut ups = 0;
            for (words, _) in &got {
                assert_eq!(words[0] >> 16, 0x1234, "the other half stays");
                let up = (words[0] & 0xffff).wrapping_sub(x >> 16);
                assert!(up <= 1, "{x:x}: {:x}", words[0]);
                ups += up;
            }
            // Of 4096 evenly spaced random numbers, in sixteenths of 2^16.
            let wanted = (x & 0xffff).div_ceil(16);
            assert!(
                ups.abs_diff(wanted) <= 1,
                "{backend} {x:x}: {ups}, not {wanted}"
            );
            // f16 keeps 10 of 23 bits of the fraction.
            let code = encode(Target::Gfx950, "v_cvt_sr_f16_f32", 0);
            let got = run(Target::Gfx950, backend, KEEP, code, 0, &cases(x), 1);
            let magnitude = (x & 0x7fff_ffff) - (112 << 23);
            let down = x >> 31 << 15 | magnitude >> 13;
            let ups: u32 = got
                .iter()
                .map(|(words, _)| (words[0] & 0xffff) - down)
                .sum();
            let wanted = (magnitude & 0x1fff).div_ceil(2);
            assert!(
                got.iter()
                    .all(|(words, _)| words[0] >> 16 == 0x1234 && (words[0] & 0xffff) - down <= 1)
            );
            assert!(
                ups.abs_diff(wanted) <= 1,
                "{backend} {x:x}: {ups}, not {wanted}"
            );
        }
    }
}

/// CDNA manuals, "V_CVT_SR_FP8_F32", "V_CVT_SR_BF8_F32": the random number's upper 20 (21) bits are added to the
/// fraction, of which the upper 3 (2) bits are kept. Biases: gfx942 8 and 16, gfx950 and later 7 and 15.
#[test]
fn stochastic_rounding_to_8_bits_adds_below_the_last_place() {
    let numbers = [
        0x3f80_0000u32,
        0x3f8f_ffff,
        0xbf94_5678,
        0x4049_0fdb,
        0xc15f_1234,
        0x3dcc_cccd,
    ];
    let randoms = [
        0u32,
        0x0000_0fff,
        0x1234_5678,
        0x8000_0000,
        0xdead_beef,
        0xffff_ffff,
    ];
    let inputs: Vec<Inputs> = numbers
        .iter()
        .flat_map(|&x| randoms.map(|r| [vec![x], vec![r], vec![], vec![0x1122_3344]]))
        .collect();
    for target in [
        Target::Gfx942,
        Target::Gfx950,
        Target::Gfx1201,
        Target::Gfx1250,
    ] {
        for backend in Backend::supported() {
            for (name, kept, bias) in [("v_cvt_sr_fp8_f32", 3, 7), ("v_cvt_sr_bf8_f32", 2, 15)] {
                let bias = bias + u32::from(target == Target::Gfx942);
                for byte in 0..4 {
                    // OPSEL[3:2] chooses the byte.
                    let code = encode(target, name, byte << 13);
                    let got = run(target, backend, KEEP, code, 0, &inputs, 1);
                    for ([x, r, ..], (words, _)) in inputs.iter().zip(got) {
                        let (x, r) = (x[0], r[0]);
                        let dropped = 23 - kept;
                        let magnitude = (x & 0x7fff_ffff) + (r >> (32 - dropped));
                        let code = x >> 31 << 7 | (magnitude - ((127 - bias) << 23)) >> dropped;
                        let wanted = 0x1122_3344 & !(0xff << (8 * byte)) | code << (8 * byte);
                        assert_eq!(
                            words[0], wanted,
                            "{target} {backend} {name} {x:x} {r:x} byte {byte}"
                        );
                    }
                }
            }
        }
    }
}

/// A narrow format by its definition: bits of exponent and fraction, bias, codes that are no numbers.
#[derive(Clone, Copy)]
struct Narrow {
    name: &'static str,
    exponent: u32,
    fraction: u32,
    bias: i32,
}

const FORMATS: [Narrow; 5] = [
    Narrow {
        name: "fp8",
        exponent: 4,
        fraction: 3,
        bias: 7,
    },
    Narrow {
        name: "bf8",
        exponent: 5,
        fraction: 2,
        bias: 15,
    },
    Narrow {
        name: "fp6",
        exponent: 2,
        fraction: 3,
        bias: 1,
    },
    Narrow {
        name: "bf6",
        exponent: 3,
        fraction: 2,
        bias: 3,
    },
    Narrow {
        name: "fp4",
        exponent: 2,
        fraction: 1,
        bias: 1,
    },
];

impl Narrow {
    fn bits(self) -> u32 {
        1 + self.exponent + self.fraction
    }

    /// The value of a code (OCP 8-bit and microscaling formats); `None` for infinities and NaN.
    fn value(self, code: u32) -> Option<f64> {
        let sign = if code >> (self.bits() - 1) & 1 != 0 {
            -1.0
        } else {
            1.0
        };
        let e = code >> self.fraction & ((1 << self.exponent) - 1);
        let m = code & ((1 << self.fraction) - 1);
        let special = match self.name {
            "fp8" => e == 15 && m == 7,
            "bf8" => e == 31,
            _ => false,
        };
        let unit = p(-(self.fraction as i32));
        let size = match e {
            0 => f64::from(m) * unit * p(1 - self.bias),
            _ => (1.0 + f64::from(m) * unit) * p(e as i32 - self.bias),
        };
        (!special).then_some(sign * size)
    }

    /// The code next to a value: by trying all of them, to the even one of two.
    fn nearest(self, x: f64) -> u32 {
        let half = 1 << (self.bits() - 1);
        let codes = (0..half).filter(|&c| self.value(c).is_some());
        let distance = |c: u32| (self.value(c).unwrap_or(f64::NAN) - x.abs()).abs();
        let best = codes
            .min_by(|&a, &b| {
                distance(a)
                    .total_cmp(&distance(b))
                    .then((a & 1).cmp(&(b & 1)))
            })
            .unwrap();
        best | if x.is_sign_negative() { half } else { 0 }
    }
}

/// Packs codes one behind the other.
fn packed(codes: &[u32], bits: u32) -> Vec<u32> {
    let mut words = vec![0u32; (codes.len() as u32 * bits).div_ceil(32) as usize];
    for (i, &code) in codes.iter().enumerate() {
        for bit in 0..bits {
            let at = i as u32 * bits + bit;
            words[at as usize / 32] |= (code >> bit & 1) << (at % 32);
        }
    }
    words
}

/// gfx950: all codes of all formats to f32, times scales of which only the exponent counts.
#[test]
fn scaled_conversions_from_narrow_formats() {
    let scales = [
        (0x3f80_0000u32, 1.0),
        (0x3e00_0000, p(-3)),
        (0x447f_ffff, p(9)),
        (0xc000_0000, 2.0),
    ];
    for backend in Backend::supported() {
        for format in FORMATS {
            let (name, count) = match format.bits() {
                8 => (format!("v_cvt_scalef32_pk_f32_{}", format.name), 2),
                6 => (format!("v_cvt_scalef32_pk32_f32_{}", format.name), 32),
                _ => (format!("v_cvt_scalef32_pk_f32_{}", format.name), 2),
            };
            let codes: Vec<u32> = (0..1 << format.bits())
                .filter(|&c| format.value(c).is_some())
                .collect();
            let mut wanted = Vec::new();
            let mut inputs: Vec<Inputs> = Vec::new();
            for (bits, scale) in scales {
                for some in codes.chunks(count) {
                    let mut some = some.to_vec();
                    some.resize(count, 0);
                    inputs.push([packed(&some, format.bits()), vec![bits], vec![], vec![]]);
                    wanted.push(
                        some.iter()
                            .map(|&c| f(format.value(c).unwrap() * scale))
                            .collect::<Vec<_>>(),
                    );
                }
            }
            let code = encode(Target::Gfx950, &name, 0);
            let got = run(
                Target::Gfx950,
                backend,
                KEEP,
                code,
                0,
                &inputs,
                count as u32,
            );
            for ((of, wanted), (words, _)) in inputs.iter().zip(&wanted).zip(got) {
                assert_eq!(words, *wanted, "{backend} {name} {of:x?}");
            }
        }
    }
}

/// gfx950: f32 divided by the scale, to the nearest code; beyond the largest number of fp6, bf6 and fp4 the largest.
#[test]
fn scaled_conversions_to_narrow_formats() {
    let mut state = 7u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state >> 40
    };
    for backend in Backend::supported() {
        for format in FORMATS {
            let (name, count) = match format.bits() {
                6 => (format!("v_cvt_scalef32_2xpk16_{}_f32", format.name), 32),
                _ => (format!("v_cvt_scalef32_pk_{}_f32", format.name), 2),
            };
            let largest = (0..1 << (format.bits() - 1))
                .filter_map(|c| format.value(c))
                .fold(0.0, f64::max);
            let beyond = if format.bits() == 8 { 1.0 } else { 1.5 };
            let mut inputs: Vec<Inputs> = Vec::new();
            let mut wanted = Vec::new();
            for n in 0..64 {
                let scale = p(n % 7 - 3);
                let values: Vec<f64> = (0..count)
                    .map(|i| {
                        // Ties between neighbours, small numbers, and any.
                        let any = random() as f64 / p(24);
                        let x = match (n + i) % 3 {
                            0 => {
                                let codes = 1 << (format.bits() - 1);
                                let c = (random() % codes) as u32;
                                let middle = (format.value(c), format.value(c + 1));
                                match middle {
                                    (Some(a), Some(b)) if b > a => (a + b) / 2.0,
                                    _ => any,
                                }
                            }
                            1 => any * p(-format.bias),
                            _ => any * largest * beyond,
                        };
                        let x = f64::from((x * scale) as f32);
                        if random() & 1 != 0 { -x } else { x }
                    })
                    .collect();
                let codes: Vec<u32> = values.iter().map(|x| format.nearest(x / scale)).collect();
                let bits: Vec<u32> = values.iter().map(|&x| f(x)).collect();
                let scale = f(scale);
                if count == 2 {
                    inputs.push([vec![bits[0]], vec![bits[1]], vec![scale], vec![0]]);
                    wanted.push(packed(&codes, format.bits()));
                } else {
                    // Sixteen of one operand and sixteen of the other, alternately.
                    inputs.push([
                        bits[..16].to_vec(),
                        bits[16..].to_vec(),
                        vec![scale],
                        vec![],
                    ]);
                    let mixed: Vec<u32> = (0..32).map(|i| codes[i / 2 + i % 2 * 16]).collect();
                    wanted.push(packed(&mixed, 6));
                }
            }
            let code = encode(Target::Gfx950, &name, 0);
            let words = wanted[0].len() as u32;
            let got = run(Target::Gfx950, backend, KEEP, code, 0, &inputs, words);
            for ((of, wanted), (words, _)) in inputs.iter().zip(&wanted).zip(got) {
                assert_eq!(words, *wanted, "{backend} {name} {of:x?}");
            }
        }
    }
}

/// CDNA5 manual, "V_CVT_SR_PK_BF16_F32": the low half of the random number is added below the first result, the high
/// half below the second.
#[test]
fn packed_stochastic_rounding_to_bf16_adds_halves_of_the_random_number() {
    let numbers = [
        0x3f80_0000u32,
        0x3f80_8000,
        0xc049_0fdb,
        0x7f00_ffff,
        0x0000_8001,
    ];
    let randoms = [0u32, 0x7fff_8000, 0x8000_7fff, 0xf025_f024, 0xffff_ffff];
    let mut inputs: Vec<Inputs> = Vec::new();
    for a in numbers {
        for b in numbers {
            inputs.extend(randoms.map(|r| [vec![a], vec![b], vec![r], vec![]]));
        }
    }
    let code = encode(Target::Gfx1250, "v_cvt_sr_pk_bf16_f32", 0);
    for backend in Backend::supported() {
        let got = run(Target::Gfx1250, backend, KEEP, code, 0, &inputs, 1);
        for ([a, b, r, _], (words, _)) in inputs.iter().zip(got) {
            let (a, b, r) = (a[0], b[0], r[0]);
            let wanted = (a + (r & 0xffff)) >> 16 | (b + (r >> 16)) & 0xffff_0000;
            assert_eq!(words[0], wanted, "{backend} {a:x} {b:x} {r:x}");
        }
    }
}

/// Value of bits of f16 or bf16 that are a finite number.
fn half_value(bits: u32, bf16: bool) -> f64 {
    if bf16 {
        return f64::from(f32::from_bits(bits << 16));
    }
    let (e, m) = (bits >> 10 & 31, f64::from(bits & 0x3ff));
    let size = if e == 0 {
        m * p(-24)
    } else {
        (1.0 + m / 1024.0) * p(e as i32 - 15)
    };
    if bits >> 15 != 0 { -size } else { size }
}

/// gfx950: all codes to f16 and bf16, with scales that keep the results normal and exact.
#[test]
fn scaled_conversions_from_narrow_formats_to_halves() {
    for backend in Backend::supported() {
        for (wide, bf16) in [("f16", false), ("bf16", true)] {
            for format in FORMATS {
                let (name, count) = match format.bits() {
                    6 => (format!("v_cvt_scalef32_pk32_{wide}_{}", format.name), 32),
                    _ => (format!("v_cvt_scalef32_pk_{wide}_{}", format.name), 2),
                };
                let codes: Vec<u32> = (0..1 << format.bits())
                    .filter(|&c| format.value(c).is_some())
                    .collect();
                let mut inputs: Vec<Inputs> = Vec::new();
                let mut wanted = Vec::new();
                // The exponents of bf8 leave f16 no room.
                let scales = if format.name == "bf8" && !bf16 {
                    [0, 0, 0]
                } else {
                    [0, -2, 3]
                };
                for e in scales {
                    for some in codes.chunks(count) {
                        let mut some = some.to_vec();
                        some.resize(count, 0);
                        inputs.push([
                            packed(&some, format.bits()),
                            vec![f(1.75 * p(e))],
                            vec![],
                            vec![],
                        ]);
                        wanted.push(
                            some.iter()
                                .map(|&c| format.value(c).unwrap() * p(e))
                                .collect::<Vec<_>>(),
                        );
                    }
                }
                let code = encode(Target::Gfx950, &name, 0);
                let got = run(
                    Target::Gfx950,
                    backend,
                    KEEP,
                    code,
                    0,
                    &inputs,
                    count as u32 / 2,
                );
                for ((of, wanted), (words, _)) in inputs.iter().zip(&wanted).zip(got) {
                    for (i, &x) in wanted.iter().enumerate() {
                        let half = words[i / 2] >> (16 * (i % 2)) & 0xffff;
                        let value = half_value(half, bf16);
                        assert_eq!(
                            value.to_bits(),
                            x.to_bits(),
                            "{backend} {name} {of:x?} value {i}"
                        );
                    }
                }
            }
        }
    }
}

/// gfx950: f16 and bf16 divided by the scale, to the nearest code.
#[test]
fn scaled_conversions_from_halves() {
    for backend in Backend::supported() {
        for (wide, bf16) in [("f16", false), ("bf16", true)] {
            for format in FORMATS {
                let (name, count) = match format.bits() {
                    6 => (format!("v_cvt_scalef32_pk32_{}_{wide}", format.name), 32),
                    _ => (format!("v_cvt_scalef32_pk_{}_{wide}", format.name), 2),
                };
                let largest = (0..1 << (format.bits() - 1))
                    .filter_map(|c| format.value(c))
                    .fold(0.0, f64::max);
                // Halves whose value is in the range of the format after scaling, spread over all of them.
                let halves: Vec<u32> = (0..0x7c00u32)
                    .map(|i| (i * 37 % 0x7c00) | ((i & 1) << 15))
                    .map(|h| {
                        if bf16 {
                            h & 0x8000 | (0x3000 + (h & 0x1fff))
                        } else {
                            h
                        }
                    })
                    .filter(|&h| {
                        half_value(h, bf16).abs() / 8.0 <= largest
                            && half_value(h, bf16).abs() > p(-14)
                    })
                    .collect();
                let mut inputs: Vec<Inputs> = Vec::new();
                let mut wanted = Vec::new();
                for some in halves.chunks_exact(count).take(256) {
                    // Only the exponent of the scale counts: 8.
                    let codes: Vec<u32> = some
                        .iter()
                        .map(|&h| format.nearest(half_value(h, bf16) / 8.0))
                        .collect();
                    let before = if count == 2 { vec![0] } else { vec![] };
                    inputs.push([packed(some, 16), vec![f(12.5)], vec![], before]);
                    wanted.push(packed(&codes, format.bits()));
                }
                assert!(inputs.len() > 100, "{name}: {}", inputs.len());
                let code = encode(Target::Gfx950, &name, 0);
                let words = wanted[0].len() as u32;
                let got = run(Target::Gfx950, backend, KEEP, code, 0, &inputs, words);
                for ((of, wanted), (words, _)) in inputs.iter().zip(&wanted).zip(got) {
                    assert_eq!(words, *wanted, "{backend} {name} {of:x?}");
                }
            }
        }
    }
}

/// gfx950: stochastic conversions of one f32 to fp8 and bf8 with a scale give one of the two neighbours, the upper one
/// as often as the distance says, and leave alone what a code holds exactly.
#[test]
fn scaled_stochastic_conversions_choose_between_neighbours() {
    for backend in Backend::supported() {
        for format in &FORMATS[..2] {
            let name = format!("v_cvt_scalef32_sr_{}_f32", format.name);
            let code = encode(Target::Gfx950, &name, 0);
            for (low, part) in [(0x28, 0.0), (0x31, 0.25), (0x3a, 0.5), (0x33, 0.8125)] {
                let (a, b) = (format.value(low).unwrap(), format.value(low + 1).unwrap());
                let x = f((a + (b - a) * part) * 4.0);
                let inputs: Vec<Inputs> = (0..4096u32)
                    .map(|k| {
                        [
                            vec![x],
                            vec![k << 20 | k << 8 | k >> 4],
                            vec![f(4.0)],
                            vec![0x7700_0000],
                        ]
                    })
                    .collect();
                let got = run(Target::Gfx950, backend, KEEP, code, 0, &inputs, 1);
                let mut ups = 0;
                for (words, _) in got {
                    assert_eq!(words[0] >> 8, 0x77_0000, "{name}: other bytes stay");
                    let up = (words[0] & 0xff).wrapping_sub(low);
                    assert!(up <= 1, "{backend} {name} {x:x}: {:x}", words[0]);
                    ups += up;
                }
                let wanted = (part * 4096.0) as u32;
                assert!(
                    ups.abs_diff(wanted) <= 1,
                    "{backend} {name} {part}: {ups}, not {wanted}"
                );
            }
        }
    }
}
