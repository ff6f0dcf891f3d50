//! Compiled code against the interpreter with plain lanes: every lane operation of every target, and random
//! sequences of them, on random and on special values, under random EXEC and float modes.

mod sequences;

use proptest::prelude::*;
use rocjitsu_exec::target::EXECUTABLE;
use rocjitsu_isa::Target;
use sequences::{FORMATS, Shape, Start, check, compilers, encode, exec, next};

/// Every operation in every format, one at a time.
#[test]
fn every_operation_alone() {
    for target in EXECUTABLE {
        let mut seed = 7;
        let (mut tried, mut compiled) = (0, vec![0; compilers().count()]);
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
                for (sum, (_, report)) in compiled.iter_mut().zip(check(target, &start, &code)) {
                    *sum += report.instructions;
                }
            }
        }
        for (backend, compiled) in compilers().zip(compiled) {
            assert!(
                compiled > 2000,
                "{target}, {backend}: only {compiled} of {tried} compiled"
            );
        }
    }
}

/// Scalar instructions that stand between lane operations end a run only where a register forbids to move them.
#[test]
fn runs_go_on_across_scalar_instructions() {
    let start = Start {
        lanes: 64,
        mode: 0x3f0,
        exec: 0x0f0f_ffff_0000_1234,
        seed: 3,
    };
    // v_add_u32 (gfx9) of registers, the first source by its 9-bit code.
    let add = |to: u32, a: u32, b: u32| 0x6800_0000 | to << 17 | b << 9 | a;
    let v = |n: u32| 256 + n;
    const NOP: u32 = 0xbf80_0000;
    const S0_PLUS_1: u32 = 0x8000_8100;
    const EXEC_FROM_S2: u32 = 0xbefe_0102;
    let check = |words: &[u32], runs_and_instructions: (u64, u64)| {
        let code: Vec<Vec<u8>> = words.iter().map(|w| w.to_le_bytes().to_vec()).collect();
        for (backend, report) in check(Target::Gfx942, &start, &code) {
            let found = (report.runs, report.instructions);
            assert_eq!(found, runs_and_instructions, "{backend}: {words:x?}");
        }
    };
    // Before the run, and nowhere.
    let (first, second) = (add(1, v(0), 0), add(2, v(1), 1));
    check(&[first, S0_PLUS_1, NOP, second], (1, 2));
    check(&[first, S0_PLUS_1, add(2, 0, 1)], (1, 2));
    // Behind it: the register has been read.
    check(&[add(1, 0, 0), S0_PLUS_1, second], (1, 2));
    // Nowhere: read before and behind.
    let twice = [add(1, 0, 0), first, S0_PLUS_1, add(3, 0, 1), second];
    check(&twice, (2, 4));
    check(&[first, second, EXEC_FROM_S2, first, second], (2, 4));
    // A mask of the run's own that a scalar instruction changes.
    const VCC_IF_GREATER: u32 = 0x7d88_0300; // v_cmp_gt_i32 vcc, v0, v1
    const VCC_AND_S0: u32 = 0x86ea_006a;
    const BY_VCC: u32 = 0x0004_0300; // v_cndmask_b32 v2, v0, v1, vcc
    let masked = [first, VCC_IF_GREATER, VCC_AND_S0, BY_VCC, second];
    check(&masked, (2, 4));
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
