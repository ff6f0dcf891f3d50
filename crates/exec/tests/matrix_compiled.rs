//! Matrix products that are compiled together: programs of several, with operands that meet, against the plain lanes'
//! interpreter, on random and on special values.

mod common;

use std::collections::BTreeMap;

use common::{Bench, Memory, hex_bytes, read_xz};
use rocjitsu_exec::matrix::has_form;
use rocjitsu_exec::record::Flow;
use rocjitsu_exec::target::EXECUTABLE;
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;

/// The next random number.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn pick<T: Copy>(state: &mut u64, from: &[T]) -> T {
    from[next(state) as usize % from.len()]
}

/// Words that are special as floats of 64, 32 or 16 bits or as bytes, among ordinary ones. `often` of 16 are special.
fn word(state: &mut u64, often: u64) -> u32 {
    const SPECIAL: [u32; 20] = [
        0,
        0x8000_0000,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0001,
        0xffc1_2345,
        0x7f80_0001,
        0x0000_0001,
        0x807f_ffff,
        0x0080_0000,
        0x7f7f_ffff,
        0x8000_0001,
        0x7c00_fc00,
        0x7e01_0001,
        0x03ff_83ff,
        0x0400_7bff,
        0x7ff0_0000,
        0xfff8_0000,
        0x8080_8080,
        0x7f80_ff01,
    ];
    let bits = next(state);
    if bits >> 60 < often {
        return pick(state, &SPECIAL);
    }
    // About 1, in all formats.
    bits as u32 & 0x81ff_83ff | 0x3c00_3c00
}

/// How the words of an operand look.
#[derive(Clone, Copy, PartialEq)]
enum Style {
    /// About 1, with specials now and then.
    Plain,
    /// Finite numbers of 16 and 8 bits, of any size.
    Wide,
    /// bf16 and f32 of which the largest are 2^48 times as large as 1, and the smallest as much less.
    Far,
    /// Any bits but for infinities: f32 from subnormal ones on.
    Any,
    /// Small whole numbers as f16 or bf16 (in the upper halves; or none), whose sums are exact.
    Whole(bool),
}

impl Style {
    fn word(self, state: &mut u64, often: u64) -> u32 {
        let bits = next(state) as u32;
        if self != Style::Plain && next(state).is_multiple_of(12) {
            return 0;
        }
        match self {
            Style::Plain => word(state, often),
            Style::Wide => bits & 0xfbfb_fbfb | 0x0101_0101,
            Style::Far => {
                let half = |bits: u32| bits & 0x807f | (79 + (bits >> 7 & 0xff) % 96) << 7;
                half(bits & 0xffff) | half(bits >> 16) << 16
            }
            // Many are tiny.
            Style::Any if bits & 3 == 0 => bits & 0x8dff_ffff,
            Style::Any => bits & 0xff7f_ffff,
            Style::Whole(wide) => {
                let mut half = || {
                    let bits = ((next(state) % 17) as f32 - 8.0).to_bits();
                    if wide || bits << 1 == 0 {
                        bits >> 16
                    } else {
                        bits >> 16 & 0x8000 | ((bits << 1 >> 24) - 112) << 10 | bits >> 13 & 0x3ff
                    }
                };
                half() | half() << 16
            }
        }
    }
}

/// The bytes of each matrix instruction of a target whose form is compiled.
fn instances(target: Target) -> BTreeMap<String, [u32; 2]> {
    let mut found = BTreeMap::new();
    let memory = Memory::new(0x1_0000, 64);
    let bench = Bench::new(target, target.default_wave(), Backend::Scalar, &memory);
    for line in read_xz(&format!("isa/vectors.{target}.tsv.xz")).lines() {
        let (bytes, text) = line.split_once('\t').unwrap();
        let name = text.split_whitespace().next().unwrap();
        if !["v_mfma_", "v_wmma_"].iter().any(|m| name.starts_with(m)) {
            continue;
        }
        let bytes = hex_bytes(bytes);
        let words = bytes.chunks_exact(4);
        let words: Vec<u32> = words
            .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
            .collect();
        let &[first, second] = &words[..] else {
            continue;
        };
        let words = placed([first, second], [256, 272, 288, 320]);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        if bench
            .record(&bytes, 0x1000)
            .is_ok_and(|record| has_form(&record))
        {
            // Integers of either sign are forms of their own.
            found.entry(name.to_owned() + &signs(text)).or_insert(words);
        }
    }
    found
}

/// The part of a text that says which bytes are signed.
fn signs(text: &str) -> String {
    let at = text.find("neg_lo");
    at.map_or(String::new(), |at| {
        let signs = text[at..].split_inclusive(']').next();
        format!(" {}", signs.unwrap_or_default())
    })
}

/// The instruction with A, B, C by their source codes and D a register.
fn placed([first, second]: [u32; 2], [a, b, c, d]: [u32; 4]) -> [u32; 2] {
    let mut first = first & !0xff | (d - 256);
    let mut second = second & !0x7ff_ffff | a | b << 9 | c << 18;
    // MFMA: no operand is an accumulation register.
    if first >> 16 & 0xff80 == 0xd380 {
        first &= !(1 << 15);
        second &= !(3 << 27);
    }
    [first, second]
}

/// A program of up to six of one instruction. Some are in place one behind the other, some take the results of others.
fn program(seed: &mut u64, instance: [u32; 2], integer: bool) -> Vec<[u32; 2]> {
    const INPUTS: [u32; 3] = [0, 10, 18];
    const RESULTS: [u32; 4] = [28, 60, 92, 60];
    let mut last = 256 + pick(seed, &RESULTS);
    let count = 1 + next(seed) % 6;
    let mut one = || {
        let d = match next(seed) % 3 {
            0 => last,
            _ => 256 + pick(seed, &RESULTS),
        };
        let c = match next(seed) % 16 {
            0 => 128,            // 0
            1 if integer => 193, // -1
            1 => 242,            // 1.0
            2 => 256 + pick(seed, &RESULTS) + 2,
            3..6 => 256 + pick(seed, &RESULTS),
            _ => d,
        };
        let mut input = || {
            256 + match next(seed) % 16 {
                0 => pick(seed, &RESULTS),
                _ => pick(seed, &INPUTS),
            }
        };
        let (a, b) = (input(), input());
        last = d;
        placed(instance, [a, b, c, d])
    };
    (0..count).map(|_| one()).collect()
}

/// Registers that programs use.
const REGISTERS: u32 = 128;

#[test]
fn programs_of_products() {
    let memory = Memory::new(0x1_0000, 4096);
    let mut seed = 1;
    for target in EXECUTABLE {
        let instances = instances(target);
        assert!(!instances.is_empty(), "{target}");
        for (name, instance) in instances {
            let (mut compiled, mut joined) = (0, 0);
            for round in 0..48 {
                let program = program(&mut seed, instance, name.contains("_i32_"));
                let bytes: Vec<u8> = program
                    .iter()
                    .flatten()
                    .flat_map(|word| word.to_le_bytes())
                    .collect();
                let (values, often) = (next(&mut seed), [0, 0, 1, 6][round % 4]);
                // Registers from here on are absent and read as zero.
                let present = if round % 5 == 4 { 64 } else { REGISTERS };
                let inputs = [
                    Style::Plain,
                    Style::Wide,
                    Style::Far,
                    Style::Wide,
                    Style::Whole(round % 2 == 0),
                    Style::Far,
                ][round / 4 % 6];
                // Lanes whose inputs are zero: whole groups of products are.
                let zeros = [0, 0, 3, 12][(next(&mut seed) % 4) as usize];
                let bench = |backend| {
                    let mut bench = Bench::new(target, target.default_wave(), backend, &memory);
                    let mut values = values;
                    for register in 0..present {
                        let row = bench.wave.v.write(register, &mut bench.unit.pool);
                        // Few rows have any.
                        let often = if next(&mut values).is_multiple_of(4) {
                            often
                        } else {
                            0
                        };
                        let style = if register < 28 {
                            inputs
                        } else {
                            pick(&mut values, &[Style::Plain, inputs, Style::Any])
                        };
                        for (lane, x) in row.iter_mut().enumerate() {
                            *x = style.word(&mut values, often);
                            if register < 28 && lane % 16 < zeros {
                                *x = 0;
                            }
                        }
                    }
                    bench
                };
                let registers = |bench: &Bench<'_>| -> Vec<Vec<u32>> {
                    (0..REGISTERS)
                        .map(|register| bench.wave.v.read(register).to_vec())
                        .collect()
                };
                let mut plain = bench(Backend::Scalar);
                assert_eq!(plain.run_all(&bytes), Ok(Flow::Next));
                let want = registers(&plain);
                for backend in Backend::supported().filter(|&b| b != Backend::Scalar) {
                    let mut bench = bench(backend);
                    bench.wave.set_exec(next(&mut seed));
                    let report = bench.run_compiled(&memory, &bytes);
                    if backend == Backend::Avx512 {
                        compiled += report.instructions;
                        joined += report.instructions - report.runs;
                    }
                    let got = registers(&bench);
                    let differs = (0..REGISTERS).find(|&r| got[r as usize] != want[r as usize]);
                    if let Some(r) = differs {
                        let (got, want) = (&got[r as usize], &want[r as usize]);
                        let lane = (0..got.len())
                            .find(|&lane| got[lane] != want[lane])
                            .unwrap();
                        panic!(
                            "{target} {name} on {backend}, round {round}: v{r}[{lane}] is {:#x}, not {:#x}: {program:x?}",
                            got[lane], want[lane]
                        );
                    }
                }
            }
            if Backend::Avx512.is_supported() {
                assert!(compiled > 48, "{target} {name}: {compiled} compiled");
                assert!(joined > 8, "{target} {name}: {joined} joined");
            }
        }
    }
}
