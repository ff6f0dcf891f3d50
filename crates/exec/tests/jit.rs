//! Compiled code against the interpreter with plain lanes: every lane operation of every target, and random
//! sequences of them, on random and on special values, under random EXEC and float modes.

mod sequences;

use std::collections::BTreeSet;

use proptest::prelude::*;
use rocjitsu_exec::code::{CodeCache, CodeView};
use rocjitsu_exec::memory::{AddressSpace, Extent, FaultKind, MemoryPort};
use rocjitsu_exec::run::run;
use rocjitsu_exec::target::EXECUTABLE;
use rocjitsu_exec::wave::{Cx, Group, Unit, Waiting, Wave};
use rocjitsu_isa::{Target, decode};
use rocjitsu_lanes::Backend;
use sequences::{
    BASE, COMPILED, FORMATS, Program, Shape, Start, check, compilers, encode, exec, looped, memory,
    next,
};

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
                    quantum: 1000,
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
        quantum: 1000,
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
            quantum: 1000,
        };
        let mut code: Vec<Vec<u8>> = shapes.iter().filter_map(|&s| encode(target, &start, s)).collect();
        code.truncate(120);
        check(target, &start, &code);
    }

    #[test]
    fn loops(
        target in 0..EXECUTABLE.len(),
        wide: bool,
        shapes in prop::collection::vec(any::<Shape>(), 1..80),
        branches in prop::collection::vec(any::<(u8, u8, u8)>(), 0..8),
        accesses in prop::collection::vec(any::<(u8, u8, u8)>(), 0..8),
        sleeps in prop_oneof![3 => Just(false), 1 => Just(true)],
        quantum in prop_oneof![Just(1u64), 2..100u64, 100..2000u64],
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
            quantum,
        };
        let mut body: Vec<Vec<u8>> = shapes.iter().filter_map(|&s| encode(target, &start, s)).collect();
        body.truncate(40);
        prop_assume!(!body.is_empty());
        for access in accesses {
            let at = usize::from(access.0 / 6) % body.len();
            body.insert(at, memory(target, access));
        }
        check(target, &start, &looped(target, body, &branches, sleeps));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// Loops of lane operations alone, which store less in all turns but the last.
    #[test]
    fn loops_of_one_block(
        target in 0..EXECUTABLE.len(),
        wide: bool,
        shapes in prop::collection::vec((0..6u8, any::<u16>(), any::<[u8; 4]>(), any::<u8>()), 1..24),
        quantum in prop_oneof![Just(1u64), 2..100u64, Just(2000u64)],
        kind: u8,
        bits: u64,
        seed: u64,
    ) {
        let target = EXECUTABLE[target];
        let start = Start {
            lanes: if target.generation() == 9 || wide && target != Target::Gfx1250 { 64 } else { 32 },
            mode: 0x3f0,
            exec: exec(kind, bits),
            seed,
            quantum,
        };
        let body: Vec<Vec<u8>> = shapes.iter().filter_map(|&s| encode(target, &start, s)).collect();
        prop_assume!(!body.is_empty());
        check(target, &start, &looped(target, body, &[], false));
    }
}

/// What [`memory`] makes is what it says.
#[test]
fn accesses_are_what_they_should_be() {
    for target in EXECUTABLE {
        let set = target.execution_set(if target.generation() == 9 { 64 } else { 32 });
        let mut names = BTreeSet::new();
        for kind in 0..=u8::MAX {
            let mut code = &memory(target, (kind, 3, 5))[..];
            while !code.is_empty() {
                let inst = decode(target, set, code).unwrap();
                names.insert(inst.op().name());
                code = &code[inst.len()..];
            }
        }
        let gfx9 = target.generation() == 9;
        let want: &[&str] = match gfx9 {
            true => &[
                "ds_read_b32",
                "ds_write_b32",
                "global_load_dword",
                "global_load_dwordx4",
                "global_store_dword",
                "global_store_dwordx4",
                "s_load_dword",
                "v_and_b32",
            ],
            false => &[
                "ds_load_b32",
                "ds_store_b32",
                "global_load_b128",
                "global_load_b32",
                "global_store_b128",
                "global_store_b32",
                "s_load_b32",
                "v_and_b32",
            ],
        };
        assert_eq!(names.iter().copied().collect::<Vec<_>>(), want, "{target}");
    }
}

/// Every scalar operation, many times, on all kinds of operands.
#[test]
fn every_scalar_operation() {
    if compilers().next().is_none() {
        return;
    }
    for target in EXECUTABLE {
        let mut seed = 11;
        let (mut known, mut called) = (BTreeSet::new(), BTreeSet::new());
        for (format, op) in (0..0x400u16).flat_map(|op| [(6, op), (7, op)]) {
            // Numbers of which an instruction is made without dropping bits.
            let used = match (format, op >> 8) {
                (6, 0) => op < 0x60,
                (7, 0) => op < 0x40,
                (7, 1) => op & 0xff < 0x20,
                (7, 2) => op & 0xff < 0x80,
                _ => false,
            };
            if !used {
                continue;
            }
            let lanes = if target.generation() == 9 || op & 1 != 0 && target != Target::Gfx1250 {
                64
            } else {
                32
            };
            let start = |seed: &mut u64| Start {
                lanes,
                mode: 0x3f0,
                exec: next(seed),
                seed: next(seed),
                quantum: 1000,
            };
            for _ in 0..12 {
                let start = start(&mut seed);
                let shape = |r: u64| (format, op, (r as u32).to_le_bytes(), (r >> 32) as u8);
                let code: Vec<Vec<u8>> = (0..24)
                    .filter_map(|_| encode(target, &start, shape(next(&mut seed))))
                    .collect();
                if code.is_empty() {
                    continue;
                }
                let reports = check(target, &start, &code);
                let set = target.execution_set(lanes);
                for bytes in &code {
                    let name = decode(target, set, bytes).unwrap().op().name();
                    if reports.iter().all(|(_, report)| report.scalar > 0) {
                        known.insert(name)
                    } else {
                        called.insert(name)
                    };
                }
            }
        }
        let never: Vec<_> = called.difference(&known).copied().collect();
        println!(
            "{target}: {} of {} by themselves, not {never:?}",
            known.len(),
            known.len() + never.len()
        );
        assert!(
            known.len() > 100,
            "{target}: only {} by themselves",
            known.len()
        );
    }
}

/// Memory whose provider fails.
struct Broken(Program);

// SAFETY: extents are those of the program.
unsafe impl AddressSpace for Broken {
    fn generation(&self) -> u64 {
        self.0.generation()
    }
    fn find(&self, address: u64) -> Result<Extent, FaultKind> {
        assert!(address >= BASE, "nobody looks there");
        self.0.find(address)
    }
    fn extent_near(&self, address: u64) -> Option<Extent> {
        self.0.extent_near(address)
    }
}

/// It would end the process if it went through compiled code.
#[test]
fn a_panic_of_a_handler_comes_out_of_compiled_code() {
    // gfx9: s_add_u32 s4, s4, 1; s_load_dword s5, s[2:3], 0x0; s_endpgm
    let code = [0x8004_8104u32, 0xc002_0141, 0, 0xbf81_0000];
    for backend in compilers() {
        let cache = CodeCache::new(Target::Gfx942, backend, COMPILED);
        let memory = Broken(Program(code.as_ptr().cast(), 4 * code.len() as u64));
        let mut unit = Unit::new(MemoryPort::new(&memory), backend, Target::Gfx942);
        let mut wave = Wave::new(64);
        wave.pc = BASE;
        wave.set_exec(u64::MAX);
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut cx = Cx {
                wave: &mut wave,
                group: &Group::default(),
                unit: &mut unit,
            };
            let mut view = CodeView::new(&cache);
            run(&mut cx, &mut view, 1000, &mut Default::default())
        }));
        let panic = panic.expect_err("the panic");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"nobody looks there"));
        assert_eq!(wave.s[4], 1, "{backend}: what stands before it was done");
        assert!(cache.compiled().unwrap().scalar > 0, "{backend}");
    }
}

/// A block that other blocks go to in compiled code changes in memory.
#[test]
fn changed_code_is_compiled_again_in_chains_too() {
    compilers().for_each(changed_code);
}

fn changed_code(backend: Backend) {
    const TURNS: u32 = 40;
    // gfx9. Two blocks make the loop: the first ends with a branch to what follows it.
    let mut code = [
        0xbe80_00ff | 9 << 16, // s_mov_b32 s9, TURNS
        TURNS,
        0x6802_0101, // v_add_u32 v1, v1, v0
        0xbf88_0000, // s_cbranch_execz, to the next instruction
        0x8004_8104, // s_add_u32 s4, s4, 1
        0x8089_8109, // s_sub_u32 s9, s9, 1
        0xbf07_8009, // s_cmp_lg_u32 s9, 0
        0xbf85_fffa, // s_cbranch_scc1, to the third
        0xbf81_0000, // s_endpgm
    ];
    let target = Target::Gfx942;
    let cache = CodeCache::new(target, backend, COMPILED);
    let run_all = |code: &[u32]| {
        let memory = Program(code.as_ptr().cast(), 4 * code.len() as u64);
        let mut unit = Unit::new(MemoryPort::new(&memory), backend, target);
        cache.revalidate(&mut unit.memory);
        let mut wave = Wave::new(64);
        wave.pc = BASE;
        wave.set_exec(u64::MAX);
        let group = Group::default();
        let mut view = CodeView::new(&cache);
        while wave.waiting != Waiting::Ended {
            let mut cx = Cx {
                wave: &mut wave,
                group: &group,
                unit: &mut unit,
            };
            run(&mut cx, &mut view, 1000, &mut Default::default());
        }
        wave.s[4]
    };
    assert_eq!(run_all(&code), TURNS);
    assert_eq!(run_all(&code), TURNS);
    // Only the second block of the loop changes.
    code[4] += 0x100;
    assert_eq!(run_all(&code), 2 * TURNS);
}
