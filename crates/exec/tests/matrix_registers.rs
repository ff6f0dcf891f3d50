//! Matrix instructions on registers that straddle pages, and on operands that overlap: the result
//! does not depend on where the registers lie. On every back end of the host.

mod common;

use common::{Bench, Memory};
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;

/// Where the registers of A, B, C and D begin.
type Places = [u32; 4];

/// An instruction: target, its two words without registers, registers of A (and B) and of D.
struct Case {
    target: Target,
    words: [u32; 2],
    inputs: u32,
    results: u32,
    places: &'static [Places],
}

/// f16 numbers of moderate size, no two lanes alike, the same in every run.
fn input(seed: u32, register: u32, lane: u32) -> u32 {
    let x = (seed + 64 * register + lane).wrapping_mul(0x9e37_79b1);
    let half = |bits: u32| bits & 0x8000 | (0x3000 + (bits & 0xfff));
    half(x) | half(x >> 16) << 16
}

/// Executes with the registers at `places` and returns D.
fn run(case: &Case, bench: &mut Bench<'_>, places: Places) -> Vec<Vec<u32>> {
    let [a, b, c, d] = places;
    let mut set = |first: u32, count: u32, value: &dyn Fn(u32, u32) -> u32| {
        for register in 0..count {
            let row = bench.wave.v.write(first + register, &mut bench.unit.pool);
            for (lane, word) in row.iter_mut().enumerate() {
                *word = value(register, lane as u32);
            }
        }
    };
    set(c, case.results, &|register, lane| {
        (register as f32 - lane as f32 / 3.0).to_bits()
    });
    set(a, case.inputs, &|register, lane| input(1, register, lane));
    set(b, case.inputs, &|register, lane| {
        input(7777, register, lane)
    });
    let vector = |register: u32| 256 + register;
    bench.run(&[
        case.words[0] | d,
        case.words[1] | vector(a) | vector(b) << 9 | vector(c) << 18,
    ]);
    (d..d + case.results)
        .map(|register| bench.wave.v.read(register).to_vec())
        .collect()
}

#[test]
fn results_do_not_depend_on_where_the_registers_lie() {
    // v_mfma_f32_32x32x8_f16: pages of 16 registers.
    let places: &[Places] = &[
        // In place, across two pages; C and D apart, both across pages.
        [0, 2, 24, 24],
        [14, 30, 40, 72],
        // D across C from either side, across A and B, and at the end of the registers.
        [0, 2, 40, 44],
        [0, 2, 44, 40],
        [50, 52, 100, 44],
        [58, 60, 16, 44],
        [0, 2, 240, 240],
    ];
    let mfma = |target| Case {
        target,
        words: [0xd3cc_0000, 0],
        inputs: 2,
        results: 16,
        places,
    };
    let cases = [
        mfma(Target::Gfx90a),
        mfma(Target::Gfx942),
        mfma(Target::Gfx950),
        // v_wmma_f32_16x16x16_f16: pages of 32 registers.
        Case {
            target: Target::Gfx1201,
            words: [0xcc40_4000, 0x1800_0000],
            inputs: 4,
            results: 8,
            places: &[
                [0, 4, 60, 60],
                [30, 62, 92, 124],
                [0, 4, 60, 62],
                [62, 66, 100, 60],
            ],
        },
    ];
    let memory = Memory::new(0x1_0000, 64);
    for case in cases {
        let lanes = case.target.default_wave();
        let bench = |backend| Bench::new(case.target, lanes, backend, &memory);
        let expected = run(&case, &mut bench(Backend::Scalar), [0, 8, 32, 128]);
        assert!(expected.iter().flatten().any(|&word| word != 0));
        for backend in Backend::supported() {
            for &places in case.places {
                let got = run(&case, &mut bench(backend), places);
                let (target, differs) = (case.target, got != expected);
                assert!(!differs, "{target} on {backend}: A, B, C, D at {places:?}");
            }
        }
    }
}
