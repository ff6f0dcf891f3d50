//! Matrix instructions on registers that straddle pages, and on operands that overlap: the result
//! does not depend on where the registers lie. On every back end of the host.

mod common;

use std::cell::Cell;
use std::collections::BTreeMap;

use common::{Bench, Memory, hex_bytes, read_xz};
use rocjitsu_exec::target::EXECUTABLE;
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

/// Numbers below 2 in most formats, no two words alike; `seed` says for which operand.
fn moderate(seed: u32, register: u32, lane: u32) -> u32 {
    (seed << 24 ^ register << 8 ^ lane).wrapping_mul(0x9e37_79b1) & 0xbfff_bfff
}

/// The first instance of each matrix instruction of a target that `data/isa` has, A, B and C in VGPRs.
fn instances(target: Target) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for line in read_xz(&format!("isa/vectors.{target}.tsv.xz")).lines() {
        let (bytes, text) = line.split_once('\t').unwrap();
        let name = text.split_whitespace().next().unwrap();
        let matrix = ["v_mfma_", "v_smfmac_", "v_wmma_", "v_swmmac_"];
        if !matrix.iter().any(|m| name.starts_with(m)) || name.contains("_ld_") {
            continue;
        }
        found
            .entry(name.to_owned())
            .or_insert_with(|| hex_bytes(bytes));
    }
    found
}

/// The instruction with its operands at `places`, scales and the index of sparse ones at fixed registers.
fn placed(instance: &[u8], places: Places, sparse: bool) -> Vec<u8> {
    let words = instance.chunks_exact(4);
    let mut words: Vec<u32> = words
        .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        .collect();
    let [a, b, c, d] = places;
    let c = if sparse { INDEX } else { c };
    // The pair that loads the scales comes before the product.
    if let [_, registers, _, _] = &mut words[..] {
        *registers = *registers & !0x3_ffff | (256 + SCALES) | (256 + SCALES + 2) << 9;
    }
    if let [.., first, second] = &mut words[..] {
        *first = *first & !0xff | d;
        *second = *second & !0x7ff_ffff | (256 + a) | (256 + b) << 9 | (256 + c) << 18;
        // MFMA: no operand is an accumulation register.
        if *first >> 16 & 0xff80 == 0xd380 {
            *first &= !(1 << 15);
            *second &= !(3 << 27);
        }
    }
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Back ends of the host that blocks are compiled for.
fn compilers() -> impl Iterator<Item = Backend> {
    Backend::supported().filter(|&backend| backend != Backend::Scalar)
}

/// Registers of indices and scales in [`placed`].
const INDEX: u32 = 196;
const SCALES: u32 = 200;
/// No operand has more registers.
const MOST: u32 = 32;

#[test]
fn every_matrix_instruction_may_straddle_pages() {
    let memory = Memory::new(0x1_0000, 4096);
    // Pages have 16 or 32 registers. All operands but the first ones begin two registers or half an accumulator
    // before the end of one; then C and D are the same, and then D begins in the middle of C.
    let plain: Places = [0, 32, 64, 128];
    let straddling: [Places; 4] = [
        [30, 62, 94, 158],
        [14, 46, 90, 154],
        [30, 62, 94, 94],
        [30, 62, 90, 94],
    ];
    // D on A, across B, and with C across both: what is read must be what was there before.
    let overlapping: [Places; 3] = [[64, 96, 128, 64], [64, 96, 128, 94], [64, 80, 70, 70]];
    for target in EXECUTABLE {
        let instances = instances(target);
        assert!(instances.len() > 5, "{target}");
        let mut forms = 0;
        for (name, instance) in instances {
            let sparse = name.contains("smfmac") || name.contains("swmmac");
            let compiles = Cell::new(0);
            let execute = |backend, compiled: bool, places: Places| {
                let mut bench = Bench::new(target, target.default_wave(), backend, &memory);
                let [a, b, c, d] = places;
                let roles = [
                    (SCALES, 4, 5),
                    (INDEX, 2, 4),
                    // Results go over what was accumulated.
                    (if sparse { d } else { c }, MOST, 3),
                    (b, MOST / 2, 2),
                    (a, MOST / 2, 1),
                ];
                for (first, count, seed) in roles {
                    for register in 0..count {
                        let row = bench.wave.v.write(first + register, &mut bench.unit.pool);
                        for (lane, word) in row.iter_mut().enumerate() {
                            *word = moderate(seed, register, lane as u32);
                        }
                    }
                }
                let code = placed(&instance, places, sparse);
                if compiled {
                    // All lanes take part.
                    bench.wave.set_exec(0x1234_5678);
                    let report = bench.run_compiled(&memory, &code);
                    compiles.set(compiles.get() + report.instructions);
                } else {
                    bench.next(&code);
                }
                let results = (d..d + MOST).map(|register| bench.wave.v.read(register).to_vec());
                results.collect::<Vec<_>>()
            };
            let run = |backend, places| execute(backend, false, places);
            let expected = run(Backend::Scalar, plain);
            // Where D is not an operand, the registers behind the result are empty.
            let empty = |row: &Vec<u32>| row.iter().all(|&word| word == 0);
            let written = expected.iter().position(empty).unwrap_or(MOST as usize);
            assert!(written > 0, "{target} {name}");
            // RDNA 3 keeps the other half of D's registers where results have 16 bits: there D must not be C.
            let halves = target.generation() == 11
                && (name.starts_with("v_wmma_f16") || name.starts_with("v_wmma_bf16"));
            let apart = if halves { 2 } else { straddling.len() };
            let interpreted = Backend::supported().map(|backend| (backend, false));
            let compiled = compilers().map(|backend| (backend, true));
            let ways: Vec<_> = interpreted.chain(compiled).collect();
            for &(backend, compiled) in &ways {
                for places in straddling.into_iter().take(apart) {
                    let got = execute(backend, compiled, places);
                    let same = got
                        .iter()
                        .zip(&expected)
                        .take(written)
                        .all(|(got, want)| got == want);
                    assert!(
                        same,
                        "{target} {name} on {backend}, compiled {compiled}: A, B, C, D at {places:?}"
                    );
                }
            }
            for places in overlapping {
                let expected = run(Backend::Scalar, places);
                for &(backend, compiled) in &ways {
                    assert!(
                        execute(backend, compiled, places) == expected,
                        "{target} {name} on {backend}, compiled {compiled}: A, B, C, D at {places:?}"
                    );
                }
            }
            if compiles.get() > 0 {
                forms += 1;
            }
        }
        if compilers().any(|backend| backend == Backend::Avx512) {
            assert!(forms > 0, "{target}: no matrix instruction is compiled");
        }
    }
}
