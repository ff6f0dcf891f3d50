//! Every scalar instruction of the tables under random register states: no panic, no write outside the file.

mod common;

use common::{Bench, Memory, hex_bytes};
use rocjitsu_exec::record::Flow;
use rocjitsu_exec::target::EXECUTABLE;
use rocjitsu_exec::wave::{Wave, scalar};
use rocjitsu_isa::{Format, decode};
use rocjitsu_lanes::Backend;

const BASE: u64 = 0x10_0000;

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn scramble(wave: &mut Wave, seed: &mut u64) {
    for word in &mut wave.s {
        *word = match random(seed) % 4 {
            // Addresses that are mapped, small numbers, anything.
            0 => BASE as u32 + (random(seed) as u32 & 0xffc),
            1 => random(seed) as u32 & 0x3f,
            _ => random(seed) as u32,
        };
    }
    for n in (1..104).step_by(2) {
        if random(seed) & 1 == 0 {
            wave.s[n] = 0;
        }
    }
    wave.scc = random(seed) & 1 == 0;
    wave.mode = random(seed) as u32;
    wave.named_barrier = (random(seed) % 17) as u8;
}

#[test]
fn no_register_state_makes_a_scalar_instruction_panic() {
    let memory = Memory::new(BASE, 4096);
    let mut seed = 0x9e37_79b9_7f4a_7c15;
    for target in EXECUTABLE {
        let mut executed = 0;
        for line in common::read_xz(&format!("isa/vectors.{target}.tsv.xz")).lines() {
            let bytes = hex_bytes(line.split('\t').next().unwrap_or(""));
            let lanes = target.default_wave();
            let Ok(inst) = decode(target, target.execution_set(lanes), &bytes) else {
                continue;
            };
            use Format::*;
            if !matches!(
                inst.format(),
                SOP1 | SOP2 | SOP2_LIT | SOPC | SOPK | SOPK_LIT | SOPP | SMEM
            ) {
                continue;
            }
            let mut bench = Bench::new(target, lanes, Backend::Scalar, &memory);
            scramble(&mut bench.wave, &mut seed);
            bench.group.barriers[0].update(false, |b| b.members = (random(&mut seed) % 3) as u32);
            let ttmp = bench.wave.s[scalar::TTMP..scalar::NULL].to_vec();
            let flow = bench.step(&bytes, BASE).unwrap();
            assert_eq!(
                bench.wave.s[scalar::TTMP..scalar::NULL],
                ttmp,
                "{target} {line}"
            );
            assert_eq!(
                flow == Flow::Fault,
                bench.unit.fault.is_some(),
                "{target} {line}"
            );
            executed += usize::from(flow != Flow::Fault);
        }
        assert!(executed > 5000, "{target}: only {executed}");
    }
}
