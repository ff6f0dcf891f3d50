//! Compiled code against the interpreter with plain lanes: every lane operation of every target, and random
//! sequences of them, on random and on special values, under random EXEC and float modes.

mod sequences;

use proptest::prelude::*;
use rocjitsu_exec::target::EXECUTABLE;
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;
use sequences::{FORMATS, Shape, Start, check, encode, exec, next};

/// Every operation in every format, one at a time.
#[test]
fn every_operation_alone() {
    if !Backend::Avx512.is_supported() {
        return;
    }
    for target in EXECUTABLE {
        let mut seed = 7;
        let (mut tried, mut compiled) = (0, 0);
        for format in 0..FORMATS {
            for op in 0..0x400u16 {
                let lanes = if target.generation() == 9 { 64 } else { 32 };
                let start = Start {
                    lanes,
                    mode: 0x3f0,
                    exec: next(&mut seed),
                    seed: next(&mut seed),
                };
                // Twice, on registers that differ, with modifiers off.
                let registers = |r: u64| (r as u32 & 0x7f7f_7f7f).to_le_bytes();
                let code: Vec<Vec<u8>> = [next(&mut seed), next(&mut seed)]
                    .iter()
                    .filter_map(|&r| encode(target, &start, (format, op, registers(r), 0xff)))
                    .collect();
                if code.len() < 2 {
                    continue;
                }
                tried += 2;
                compiled += check(target, &start, &code).instructions;
            }
        }
        assert!(
            compiled > 2000,
            "{target}: only {compiled} of {tried} compiled"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn sequences(
        target in 0..EXECUTABLE.len(),
        wide: bool,
        shapes in prop::collection::vec(any::<Shape>(), 1..200),
        round in prop_oneof![4 => Just(0u32), 1 => 0..16u32],
        denorm in 0..16u32,
        flags in 0..4u32,
        kind: u8,
        bits: u64,
        seed: u64,
    ) {
        prop_assume!(Backend::Avx512.is_supported());
        let target = EXECUTABLE[target];
        let start = Start {
            lanes: if target.generation() == 9 || wide && target != Target::Gfx1250 { 64 } else { 32 },
            mode: round | denorm << 4 | flags << 8,
            exec: exec(kind, bits),
            seed,
        };
        let mut code: Vec<Vec<u8>> = shapes.iter().filter_map(|&s| encode(target, &start, s)).collect();
        code.truncate(120);
        check(target, &start, &code);
    }
}
