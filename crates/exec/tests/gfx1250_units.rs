//! Instructions and modifiers that only gfx1250 has, against the CDNA5 manual, where `data/semantics` has no
//! cases.

mod common;

use common::{Bench, Memory};
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;

#[test]
fn dual_selections_negate_their_sources() {
    let memory = Memory::new(0x1_0000, 4096);
    for backend in Backend::supported() {
        let mut bench = Bench::new(Target::Gfx1250, 32, backend, &memory);
        let mut run = |words: &[u32]| {
            for (register, value) in [(3, 1.5f32), (4, 2.5), (7, 3.5), (8, 4.5)] {
                bench
                    .wave
                    .v
                    .write(register, &mut bench.unit.pool)
                    .fill(value.to_bits());
            }
            bench.wave.set_exec(u64::MAX);
            (bench.wave.s[0], bench.wave.s[1]) = (0xffff_0000, 0x0000_ffff);
            bench.run(words);
            [(3, 0), (3, 16), (4, 0), (4, 16)]
                .map(|(r, lane)| f32::from_bits(bench.wave.v.read(r)[lane]))
        };
        // v_dual_cndmask_b32 v3, -v3, v4, s0 :: v_dual_cndmask_b32 v4, v8, v7, s1
        assert_eq!(
            run(&[0xcf24_9103, 0x0004_0308, 0x0401_0703]),
            [-1.5, 2.5, 3.5, 4.5],
            "{backend}"
        );
        // v_dual_cndmask_b32 v3, v3, v4, s0 :: v_dual_cndmask_b32 v4, -v8, v7, s1
        assert_eq!(
            run(&[0xcf24_9103, 0x0004_1108, 0x0401_0703]),
            [1.5, 2.5, 3.5, -4.5],
            "{backend}"
        );
    }
}

#[test]
fn flat_accesses_to_scratch_find_words_a_row_of_lanes_apart() {
    let base = 0x1_0000;
    let memory = Memory::new(base, 4096);
    for word in 0..4 * 32u32 {
        memory.put(base + 4 * u64::from(word), &(0xab00 + word).to_le_bytes());
    }
    for backend in Backend::supported() {
        let mut bench = Bench::new(Target::Gfx1250, 32, backend, &memory);
        bench.wave.set_exec(u64::MAX);
        bench.wave.scratch = base;
        let flat = bench.wave.flat_scratch_base();
        let pool = &mut bench.unit.pool;
        for (lane, word) in bench.wave.v.write(0, pool).iter_mut().enumerate() {
            // Lane 7 reads one word further on.
            *word = flat as u32 + if lane == 7 { 4 } else { 0 };
        }
        for (lane, word) in bench.wave.v.write(1, pool).iter_mut().enumerate() {
            *word = (flat >> 32) as u32 + ((lane as u32) << 20);
        }
        // flat_load_b96 v[2:4], v[0:1]
        bench.run(&[0xec05_807c, 0x0000_0002, 0x0000_0000]);
        for j in 0..3 {
            for lane in 0..32u32 {
                let word = j + u32::from(lane == 7);
                let got = bench.wave.v.read(2 + j)[lane as usize];
                assert_eq!(
                    got,
                    0xab00 + word * 32 + lane,
                    "word {j} of lane {lane}, {backend}"
                );
            }
        }
    }
}
