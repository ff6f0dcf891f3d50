//! Instructions and modifiers that only gfx1250 has, against the CDNA5 manual, where `data/semantics` has no
//! cases.

mod common;

use common::{Bench, Memory};
use rocjitsu_exec::wave::Waiting;
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;

/// A wave whose registers hold the given words in every lane.
fn bench<'m>(backend: Backend, memory: &'m Memory, registers: &[(u32, u32)]) -> Bench<'m> {
    let mut bench = Bench::new(Target::Gfx1250, 32, backend, memory);
    for &(register, word) in registers {
        bench
            .wave
            .v
            .write(register, &mut bench.unit.pool)
            .fill(word);
    }
    bench
}

/// What an instruction leaves in a register, on every back end.
fn result_of(words: &[u32], registers: &[(u32, u32)], result: u32) -> u32 {
    let memory = Memory::new(0x1_0000, 4096);
    let results: Vec<u32> = Backend::supported()
        .map(|backend| {
            let mut bench = bench(backend, &memory, registers);
            bench.run(words);
            let row = bench.wave.v.read(result);
            assert!(row.iter().all(|&w| w == row[0]), "{words:x?} on {backend}");
            row[0]
        })
        .collect();
    assert!(
        results.iter().all(|&r| r == results[0]),
        "{words:x?}: {results:x?}"
    );
    results[0]
}

/// Two halves as a word: low, high.
fn pair(low: u32, high: u32) -> u32 {
    high << 16 | low
}

/// A bf16 that holds the value exactly.
fn bf16(value: f32) -> u32 {
    assert_eq!(value.to_bits() & 0xffff, 0);
    value.to_bits() >> 16
}

/// CDNA5 manual, V_PK_ADD_BF16 and those behind it: component by component, rounded to nearest even.
#[test]
fn packed_bf16() {
    let binary = |opcode: u32, a: [f32; 2], b: [f32; 2]| {
        let code = [0xcc00_4005 | opcode << 16, 0x1802_0501];
        let word = |v: [f32; 2]| pair(bf16(v[0]), bf16(v[1]));
        result_of(&code, &[(1, word(a)), (2, word(b))], 5)
    };
    let (add, mul, min, max) = (0x23, 0x2a, 0x2b, 0x2c);
    let want = |low: f32, high: f32| pair(bf16(low), bf16(high));
    // 257 and 259 lie between two bf16: 256 and 260 have the even significands.
    assert_eq!(binary(add, [1.5, -8.0], [2.25, 3.0]), want(3.75, -5.0));
    assert_eq!(binary(add, [256.0, 258.0], [1.0, 1.0]), want(256.0, 260.0));
    assert_eq!(binary(mul, [1.5, -8.0], [2.5, 3.0]), want(3.75, -24.0));
    let (inf, nan) = (f32::INFINITY, f32::from_bits(0x7fc0_0000));
    let sum = binary(add, [inf, 1.0], [-inf, nan]);
    assert!(
        sum & 0x7fff > 0x7f80 && sum >> 16 & 0x7fff > 0x7f80,
        "{sum:x}"
    );
    assert_eq!(binary(min, [nan, -0.0], [2.0, 0.0]), want(2.0, -0.0));
    assert_eq!(binary(max, [nan, -0.0], [2.0, 0.0]), want(2.0, 0.0));
    assert_eq!(binary(max, [3.0, -7.0], [-2.0, -inf]), want(3.0, -7.0));

    // v_pk_add_bf16 v5, v1, v2 op_sel:[1,0] op_sel_hi:[0,1]: the first source's halves change places.
    let halves = [(1, want(1.0, 2.0)), (2, want(16.0, 32.0))];
    assert_eq!(
        result_of(&[0xcc23_4805, 0x1002_0501], &halves, 5),
        want(18.0, 33.0)
    );
    // v_pk_add_bf16 v5, v1, v2 clamp
    let ends = [(1, want(0.75, -1.0)), (2, want(0.75, 0.5))];
    assert_eq!(
        result_of(&[0xcc23_c005, 0x1802_0501], &ends, 5),
        want(1.0, 0.0)
    );

    // v_pk_fma_bf16 v5, v1, v2, v3: rounded once, which leaves what the product alone would lose.
    let a = 1.0078125;
    let three = [
        (1, want(a, 3.0)),
        (2, want(a, 5.0)),
        (3, want(-1.015625, 1.0)),
    ];
    assert_eq!(
        result_of(&[0xcc11_4005, 0x1c0e_0501], &three, 5),
        want(6.103_515_6e-5, 16.0)
    );
    // neg_lo:[1,0,0] neg_hi:[0,1,0]
    let three = [
        (1, want(2.0, 3.0)),
        (2, want(4.0, 5.0)),
        (3, want(1.0, 1.0)),
    ];
    assert_eq!(
        result_of(&[0xcc11_4205, 0x3c0e_0501], &three, 5),
        want(-7.0, -14.0)
    );
}

/// CDNA5 manual, V_PK_MIN3_NUM_F16: "a numeric argument is favoured over NaN".
#[test]
fn packed_extremes_of_three() {
    let run = |opcode: u32, a: u32, b: u32, c: u32| {
        let code = [0xcc00_4005 | opcode << 16, 0x1c0e_0501];
        result_of(&code, &[(1, a), (2, b), (3, c)], 5)
    };
    let (min_num, max_num, minimum, maximum) = (0x38, 0x39, 0x36, 0x37);
    let (one, two, three, nan) = (0x3c00, 0x4000, 0x4200, 0x7e01);
    let lows = (pair(nan, 0x8000), pair(three, 0), pair(two, one));
    assert_eq!(run(min_num, lows.0, lows.1, lows.2), pair(two, 0x8000));
    assert_eq!(run(max_num, lows.0, lows.1, lows.2), pair(three, one));
    assert_eq!(
        run(max_num, pair(two, nan), pair(nan, nan), pair(nan, one)),
        pair(two, one)
    );
    let all = run(min_num, pair(nan, one), pair(nan, two), pair(nan, three));
    assert!(all & 0x7fff > 0x7c00, "{all:x}");
    assert_eq!(all >> 16, one);
    // V_PK_MINIMUM3_F16: a NaN goes on.
    for (opcode, number) in [(minimum, 0x8000), (maximum, one)] {
        let got = run(opcode, lows.0, lows.1, lows.2);
        assert!(got & 0x7fff > 0x7c00, "{got:x}");
        assert_eq!(got >> 16, number);
    }
}

/// The words of f64 registers.
fn doubles(values: &[(u32, f64)]) -> Vec<(u32, u32)> {
    let words = |&(r, v): &(u32, f64)| {
        let bits = v.to_bits();
        [(r, bits as u32), (r + 1, (bits >> 32) as u32)]
    };
    values.iter().flat_map(words).collect()
}

fn double_of(words: &[u32], registers: &[(u32, u32)], result: u32) -> u64 {
    let low = result_of(words, registers, result);
    u64::from(low) | u64::from(result_of(words, registers, result + 1)) << 32
}

/// CDNA5 manual, V_FMAAK_F64, V_FMAMK_F64, V_DUAL_FMA_F64.
#[test]
fn f64_with_literals_and_in_pairs() {
    let sources = doubles(&[(2, 2.0), (4, 5.0), (8, -7.0)]);
    // v_fmaak_f64 v[6:7], v[2:3], v[4:5], 3.0; v_fmamk_f64 v[6:7], v[2:3], 3.0, v[4:5]
    let code = |opcode: u32| [opcode << 24 | 0x000c_0902, 0, 0x4008_0000];
    let of = |words: &[u32]| f64::from_bits(double_of(words, &sources, 6));
    assert_eq!(of(&code(0x48)), 13.0);
    assert_eq!(of(&code(0x46)), 11.0);
    // v_dual_fma_f64 v[6:7], v[2:3], v[4:5], v[8:9] :: v_dual_mov_b32 v11, v12
    let dual = [0xcf80_8102, 0x0804_010c, 0x0b00_0006];
    assert_eq!(of(&dual), 3.0);
    assert_eq!(result_of(&dual, &[(12, 77)], 11), 77);
    // v_dual_add_f64 v[6:7], v[2:3], v[4:5] :: v_dual_mov_b32 v11, v12
    assert_eq!(of(&[0xcf84_8102, 0x0004_010c, 0x0b00_0006]), 7.0);
}

/// CDNA5 manual, V_MAD_NC_U64_U32, V_MAD_NC_I64_I32: 64 bits, no carry.
#[test]
fn wide_products_without_carry() {
    let run = |opcode: u32, a: u32, b: u32, c: u64| {
        let code = [0xd600_0006 | opcode << 16, 0x0422_0902];
        let c = [(8, c as u32), (9, (c >> 32) as u32)];
        double_of(&code, &[(2, a), (4, b), c[0], c[1]], 6)
    };
    let (unsigned, signed) = (0xfa, 0xfb);
    assert_eq!(
        run(unsigned, u32::MAX, u32::MAX, u64::MAX),
        0xffff_fffe_0000_0000
    );
    assert_eq!(run(unsigned, u32::MAX, 2, 5), 0x2_0000_0003);
    assert_eq!(run(signed, u32::MAX - 1, 3, u64::MAX), -7i64 as u64);
    assert_eq!(run(signed, 1 << 31, 1 << 31, 1), 0x4000_0000_0000_0001);
}

/// CDNA5 manual, S_WAKEUP_BARRIER: wakes from S_SLEEP only, "does not release the waves from an S_BARRIER_WAIT".
#[test]
fn waking_a_barrier_releases_nobody() {
    let memory = Memory::new(0x1_0000, 4096);
    let mut bench = bench(Backend::best(), &memory, &[]);
    bench.group.barriers[1].update(false, |b| (b.members, b.signalled) = (2, 1));
    for code in [0xbe80_57c1, 0xbe80_5781, 0xbe80_577d] {
        bench.run(&[code]);
    }
    let barrier = bench.group.barriers[1].get();
    assert_eq!(
        (barrier.members, barrier.signalled, barrier.phase),
        (2, 1, 0)
    );
    assert_eq!(bench.wave.waiting, Waiting::No);
}

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
