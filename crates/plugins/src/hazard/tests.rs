//! Every row of the table finds its pair of instructions, asks for as much between them as it says, and for no more.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use rocjitsu_isa::{Inst, RegRange, Target, decode};
use rocjitsu_observe::{Exactness, Family, Instruction, Touch};

use crate::counters::{is_vector_memory, issued, translated, waited};

use super::expert::Expert;
use super::forwarding::Forwarding;
use super::loads::Loads;
use super::rules::{RULES, Unit};
use super::sgprs::{Kind, Stale};
use super::states::{Facts, Recent, mend};

const V_NOP: [u8; 4] = 0x7e00_0000u32.to_le_bytes();

fn s_nop(states: u64) -> [u8; 4] {
    (0xbf80_0000 | (states as u32 - 1)).to_le_bytes()
}

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |i| u8::from_str_radix(&hex[i..i + 2], 16).expect("a number");
    (0..hex.len()).step_by(2).map(byte).collect()
}

fn facts(inst: Inst, lanes: u32) -> Arc<Facts> {
    let set = inst.target().execution_set(lanes);
    let instruction = Instruction {
        inst,
        pc: 0,
        next_pc: 0,
        set,
        family: Family::Other,
        exactness: Exactness::Exact,
    };
    Arc::new(Facts::new(&instruction, lanes, 0))
}

/// The instructions that lie in some bytes.
fn decoded(target: Target, lanes: u32, mut code: &[u8]) -> Vec<Arc<Facts>> {
    let mut all = Vec::new();
    while !code.is_empty() {
        let mut padded = code.to_vec();
        padded.resize(32, 0);
        let inst = decode(target, target.execution_set(lanes), &padded).expect("an instruction");
        code = &code[inst.len()..];
        all.push(facts(inst, lanes));
    }
    all
}

fn lanes(target: Target) -> u32 {
    if target.is_cdna() { 64 } else { 32 }
}

/// The rules by which the second comes too close, with what they need and the mend.
fn close(target: Target, first: &[u8], between: &[u8], second: &[u8]) -> Vec<(usize, u64, String)> {
    let lanes = lanes(target);
    let mut recent = Recent::default();
    for code in [first, between] {
        for facts in decoded(target, lanes, code) {
            recent.issue(&facts);
        }
    }
    let second = decoded(target, lanes, second);
    let found = recent.check(&second[0]);
    let index = |name: &str| {
        let is = |r: &super::rules::Rule| r.name == name && r.targets.contains(&target);
        RULES.iter().position(is).expect("a rule")
    };
    found
        .iter()
        .map(|c| (index(c.rule.name), c.need - c.have, mend(c)))
        .collect()
}

#[test]
fn every_row_finds_its_pair_and_asks_for_what_it_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/plugins/wait_states.tsv");
    let text = std::fs::read_to_string(path).expect("a file of the repository");
    let mut covered = BTreeSet::new();
    let mut wrong = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [target, rule, need, _, _, first, second] = fields[..] else {
            panic!("{line}");
        };
        let target: Target = target.parse().expect("a target");
        let need: u64 = need.parse().expect("a number");
        let (first, second) = (bytes(first), bytes(second));
        let unit = RULES
            .iter()
            .find(|r| r.name == rule && r.targets.contains(&target))
            .expect("a rule")
            .unit;
        for between in 0..=need {
            let filler = match unit {
                Unit::States if between == 0 => Vec::new(),
                Unit::States if between > 16 => [s_nop(16), s_nop(between - 16)].concat(),
                Unit::States => s_nop(between).to_vec(),
                Unit::Vector | Unit::VectorDone(_) => V_NOP.repeat(between as usize),
            };
            let found = close(target, &first, &filler, &second);
            let of_rule: Vec<_> = found.iter().filter(|f| RULES[f.0].name == rule).collect();
            let right = match between == need {
                true => found.is_empty(),
                false => of_rule.len() == 1 && of_rule[0].1 == need - between,
            };
            if !right {
                wrong.push(format!("{between} between: {found:?} for {line}"));
            }
            if unit == Unit::States && between < need {
                let missing = need - between;
                let nops = if missing > 16 {
                    "s_nop 15; s_nop "
                } else {
                    "s_nop "
                };
                let want = format!("{nops}{}", (missing - 1) % 16);
                assert!(of_rule.iter().all(|f| f.2 == want), "{of_rule:?}: {want}");
            }
        }
        covered.insert((rule.to_owned(), target));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for rule in RULES {
        for &target in rule.targets {
            let key = (rule.name.to_owned(), target);
            assert!(covered.contains(&key), "no pair for {key:?}");
        }
    }
}

/// What hardware waits for, and instructions that have nothing to do with each other.
#[test]
fn nothing_is_told_of_others() {
    // v_mov_b32 v8, v1; then v_add_f32 v3, v8, v4 is interlocked, v_mov_b32_dpp of another register independent.
    let write = 0x7e10_0301u32.to_le_bytes();
    let add = 0x0206_0908u32.to_le_bytes();
    let other = bytes("fa02067e0901 01ff".replace(' ', "").as_str());
    for target in [Target::Gfx90a, Target::Gfx942, Target::Gfx950] {
        assert!(close(target, &write, &[], &add).is_empty());
        assert!(close(target, &write, &[], &other).is_empty());
    }
}

/// gfx1100: transcendental results are safe behind two more, a memory instruction or a wait.
#[test]
fn other_instructions_settle_a_transcendental_result() {
    let target = Target::Gfx1100;
    let exp = 0x7e10_4b01u32.to_le_bytes();
    let other = 0x7e12_4b02u32.to_le_bytes();
    let add = 0x0606_0908u32.to_le_bytes();
    let wait = 0xbf88_0fffu32.to_le_bytes();
    assert_eq!(close(target, &exp, &[], &add).len(), 1);
    assert_eq!(close(target, &exp, &other, &add).len(), 1);
    assert!(close(target, &exp, &[other, other].concat(), &add).is_empty());
    assert!(close(target, &exp, &wait, &add).is_empty());
}

fn run_stale(target: Target, lanes: u32, code: &[u32]) -> Vec<(u16, &'static str)> {
    let mut stale = Stale::default();
    let kind = Kind::of(target, lanes).expect("a hazard");
    let code: Vec<u8> = code.iter().flat_map(|w| w.to_le_bytes()).collect();
    let all = decoded(target, lanes, &code);
    all.iter()
        .filter_map(|facts| stale.step(kind, facts, lanes))
        .map(|old| (old.register, old.mend))
        .collect()
}

#[test]
fn an_sgpr_that_vector_arithmetic_has_read_may_be_stale() {
    let (read, write) = (0x4a00_0004, 0xbe84_0005); // v_add_nc_u32 v0, s4, v0; s_mov_b32 s4, s5
    let wait = 0xbf88_fffe; // s_wait_alu depctr_sa_sdst(0)
    let run = |code: &[u32]| run_stale(Target::Gfx1201, 32, code);
    assert_eq!(run(&[read, write, read]), [(4, "sa_sdst(0)")]);
    assert!(run(&[read, write, wait, read]).is_empty());
    // Never read before, so nothing old is kept.
    assert!(run(&[write, read]).is_empty());
}

#[test]
fn a_lane_mask_of_gfx11_may_be_stale() {
    // v_cndmask_b32 v0, v1, v2, s[4:5]; s_mov_b64 s[4:5], s[6:7]; s_mov_b64 s[8:9], s[4:5]
    let code = [0xd501_0000, 0x0012_0501, 0xbe84_0106, 0xbe88_0104];
    let run = |code: &[u32]| run_stale(Target::Gfx1100, 64, code);
    assert_eq!(run(&code), [(4, "sa_sdst(0)")]);
    let [a, b, c, d] = code;
    assert!(run(&[a, b, c, 0xbf88_fffe, d]).is_empty());
    assert_eq!(Kind::of(Target::Gfx1100, 32), None);
}

#[test]
fn vgprs_written_around_a_change_of_exec_are_not_read_at_once() {
    // v_mov_b32 v1, v3; s_mov_b64 exec, s[4:5]; v_mov_b32 v2, v3; v_add_f32 v0, v1, v2
    let code = [0x7e02_0303u32, 0xbefe_0104, 0x7e04_0303, 0x0600_0501];
    let run = |code: &[u32]| -> usize {
        let mut forwarding = Forwarding::default();
        let code: Vec<u8> = code.iter().flat_map(|w| w.to_le_bytes()).collect();
        let all = decoded(Target::Gfx1100, 64, &code);
        all.iter()
            .filter_map(|facts| forwarding.step(facts))
            .count()
    };
    let nop = 0x7e00_0000;
    let [a, b, c, d] = code;
    assert_eq!(run(&code), 1);
    assert_eq!(run(&[a, b, c, nop, nop, nop, nop, d]), 1);
    assert_eq!(run(&[a, b, c, nop, nop, nop, nop, nop, d]), 0);
    assert_eq!(run(&[a, nop, nop, nop, b, c, d]), 0);
    assert_eq!(run(&[a, b, c, 0xbf88_0fff, d]), 0);
    assert_eq!(run(&[a, c, b, d]), 0);
}

/// The registers that are changed although an access may be replayed, with the wait, on gfx1250.
fn replayed(code: &[&str]) -> Vec<(u16, String)> {
    let target = Target::Gfx1250;
    let code: Vec<u8> = code.iter().flat_map(|hex| bytes(hex)).collect();
    let mut loads = Loads::default();
    let mut found = Vec::new();
    for facts in decoded(target, 32, &code) {
        let inst = &facts.instruction.inst;
        let touched = |writes: bool| -> Vec<Touch> {
            let effects = inst.effects(32);
            let ranges = if writes {
                effects.writes
            } else {
                effects.reads
            };
            let each = |r: RegRange| (r.first..r.first + r.count).map(move |n| (r.file, n));
            let touch = |(file, register)| Touch {
                file,
                register,
                bytes: 15,
                lanes: 1,
            };
            ranges.into_iter().flat_map(each).map(touch).collect()
        };
        let issues = issued(inst);
        loads.begin(&facts.instruction, &waited(inst), &issues, translated(inst));
        loads.reads(&touched(false));
        let vector = is_vector_memory(inst.format());
        for early in loads.replayed(&touched(true), vector) {
            let (counter, n) = early.wait;
            found.push((early.register.1, counter.wait(target, n)));
        }
        loads.writes(issues.len(), &touched(true));
    }
    found
}

#[test]
fn registers_of_accesses_keep_their_values_until_addresses_are_translated() {
    let load = "7c0005ee0000000002000000"; // global_load_b32 v0, v[2:3], off
    let store = "7c8006ee0000000202000000"; // global_store_b32 v[2:3], v4, off
    let scalar = "000100f4000000f8"; // s_load_b32 s4, s[0:1], 0x0
    let over_v2 = "0903047e"; // v_mov_b32 v2, v9
    let over_s0 = "800080be"; // s_mov_b32 s0, 0
    let (wait_x, wait_load, wait_km) = ("0000c5bf", "0000c0bf", "0000c7bf");
    let told = |register, n| [(register, format!("s_wait_xcnt {n:#x}"))];
    assert_eq!(replayed(&[load, over_v2]), told(2, 0));
    assert_eq!(replayed(&[store, over_v2]), told(2, 0));
    assert_eq!(replayed(&[scalar, over_s0]), told(0, 0));
    assert!(replayed(&[load, wait_x, over_v2]).is_empty());
    // A load that is complete has been translated, and the store before it.
    assert!(replayed(&[store, load, wait_load, over_v2]).is_empty());
    assert_eq!(replayed(&[store, wait_load, over_v2]), told(2, 0));
    assert!(replayed(&[scalar, wait_km, over_s0]).is_empty());
    // LDS has nothing to do with it: ds_load_b32 v5, v6; s_wait_dscnt 0x0.
    assert_eq!(
        replayed(&[load, "0000d8d806000005", "0000c6bf", over_v2]),
        told(2, 0)
    );
    // Hardware waits between scalar and vector memory.
    assert!(replayed(&[scalar, load, over_s0]).is_empty());
    // global_load_b32 v2, v[6:7], off: behind the other, so it writes later.
    assert!(replayed(&[load, "7c0005ee0200000006000000", wait_x]).is_empty());
}

/// Registers of a wave, none of which matters.
struct Nothing;

impl rocjitsu_observe::State for Nothing {
    fn vgpr(&self, _: u16) -> &[u32] {
        &[]
    }
    fn agpr(&self, _: u16) -> &[u32] {
        &[]
    }
    fn sgpr(&self, register: u16) -> u32 {
        register.into()
    }
    fn scc(&self) -> bool {
        false
    }
    fn mode(&self) -> u32 {
        0
    }
    fn lds(&self) -> &[u8] {
        &[]
    }
    fn read(&self, _: u64, _: &mut [u8]) -> bool {
        false
    }
}

/// What is missing in a program, in the expert scheduling mode or not: the hazard, the register, the mend.
fn missing(setreg: &str, program: &[&str]) -> Vec<(&'static str, u16, String)> {
    let mut expert = Expert::default();
    let mut all = Vec::new();
    for code in std::iter::once(&setreg).chain(program) {
        for facts in decoded(Target::Gfx1250, 32, &bytes(code)) {
            let inst = &facts.instruction.inst;
            expert.follow(inst, &Nothing);
            if expert.is_on() {
                let found = expert.step(&facts, &waited(inst), &issued(inst), translated(inst));
                all.extend(found.into_iter().map(|m| (m.hazard, m.register, m.mend)));
            }
        }
    }
    all
}

#[test]
fn the_expert_scheduling_mode_leaves_waits_to_the_program() {
    /// `s_setreg_imm32_b32 hwreg(HW_REG_WAVE_SCHED_MODE, 0, 2), 2`.
    const ON: &str = "1a0880b902000000";
    /// `v_add_f32 v1, v2, v3`, `v_mov_b32 v4, v9`, `v_exp_f32 v1, v1`.
    const ADD: &str = "02070206";
    const MOVE: &str = "0903087e";
    const EXP: &str = "014b027e";
    /// `v_wmma_f32_16x16x32_f16 v[16:23], v[0:7], v[8:15], v[16:23]`, `v_mov_b32 v30, v17`, `ds_store_b32 v16, v16`.
    const PRODUCT: &str = "100060cc0011421c";
    const READS: &str = "11033c7e";
    const STORES: &str = "000034d810100000";
    /// `global_load_b32 v2, v1, s[0:1]`, `ds_store_b32 v4, v1`.
    const LOAD: &str = "000005ee0200000001000000";
    const STORE: &str = "000034d804010000";
    /// `s_wait_alu depctr_va_vdst(0)`, `(1)`, `depctr_vm_vsrc(0)`, `s_wait_loadcnt 0`, `s_wait_dscnt 0`.
    const RESULTS: &str = "9f0f88bf";
    const BUT_ONE: &str = "9f1f88bf";
    const SOURCES: &str = "83ff88bf";
    const LOADED: &str = "0000c0bf";
    const STORED: &str = "0000c6bf";
    let result = |register, n| ("expert_result", register, format!("va_vdst({n})"));
    let memory = |register, n| ("expert_memory_source", register, format!("vm_vsrc({n})"));
    type Missing = (&'static str, u16, String);
    let cases: [(&[&str], Vec<Missing>); 16] = [
        // The load's address is a result.
        (&[ADD, LOAD], vec![result(1, 0)]),
        (&[ADD, RESULTS, LOAD], vec![]),
        // Another addition behind it may be left.
        (&[ADD, MOVE, LOAD], vec![result(1, 1)]),
        (&[ADD, MOVE, BUT_ONE, LOAD], vec![]),
        // A function behind it may overtake it, and is the one that wrote the register last.
        (&[ADD, EXP, BUT_ONE, LOAD], vec![result(1, 0)]),
        (&[MOVE, ADD, BUT_ONE, STORE], vec![result(1, 0)]),
        // A product of eight registers ends behind what came before; what reads its result ends behind it.
        (&[ADD, PRODUCT, BUT_ONE, STORE], vec![]),
        (&[PRODUCT, READS, BUT_ONE, STORES], vec![]),
        (&[PRODUCT, ADD, BUT_ONE, STORES], vec![result(16, 0)]),
        // What LDS reads is overwritten.
        (&[STORE, MOVE], vec![memory(4, 0)]),
        (&[STORE, SOURCES, MOVE], vec![]),
        (&[STORE, STORED, MOVE], vec![]),
        (&[STORE, LOADED, MOVE], vec![memory(4, 0)]),
        (&[LOAD, STORE, ADD], vec![memory(1, 0)]),
        (&[LOAD, LOADED, EXP], vec![]),
        // A load overwrites the address of the one before it by no register.
        (&[LOAD, LOAD], vec![]),
    ];
    for (program, expected) in cases {
        assert_eq!(missing(ON, program), expected, "{program:?}");
        // `hwreg(HW_REG_WAVE_SCHED_MODE, 0, 2), 0`, and bit 2 alone.
        assert_eq!(missing("1a0880b900000000", program), []);
        assert_eq!(missing("9a0080b901000000", program), []);
    }
    // From an SGPR whose number is its value here; one bit of the mode after the other.
    assert_eq!(missing("1a0802b9", &[ADD, LOAD]).len(), 1);
    assert_eq!(missing("5a0080b901000000", &[ADD, LOAD]).len(), 1);
    assert_eq!(missing("1a0080b901000000", &[ADD, LOAD]).len(), 0);
}
