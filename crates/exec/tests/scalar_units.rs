//! Scalar arithmetic by examples from the manuals' definitions, on every target that has the instruction.

mod common;

use common::asm::{Asm, LITERAL, int};
use common::{Bench, Memory};
use rocjitsu_exec::record::Flow;
use rocjitsu_exec::target::EXECUTABLE;
use rocjitsu_exec::wave::scalar;
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;

fn bench(target: Target, memory: &Memory) -> Bench<'_> {
    Bench::new(target, target.default_wave(), Backend::Scalar, memory)
}

/// The instruction under any of its names, if the target has it.
fn name(asm: Asm, names: &str) -> Option<&str> {
    names.split('/').find(|n| asm.has(n))
}

/// Names, sources (s[0:1], s[2:3]), destination (s[4:5]) before, SCC before, destination and SCC after.
type Example = (&'static str, u64, u64, u64, bool, u64, bool);

const NONE: u64 = 0xdead_beef_0bad_cafe;

#[test]
fn two_sources() {
    let examples: &[Example] = &[
        (
            "s_add_u32/s_add_co_u32",
            0xffff_ffff,
            1,
            NONE,
            false,
            0,
            true,
        ),
        (
            "s_sub_u32/s_sub_co_u32",
            0,
            1,
            NONE,
            false,
            0xffff_ffff,
            true,
        ),
        (
            "s_add_i32/s_add_co_i32",
            0x7fff_ffff,
            1,
            NONE,
            false,
            0x8000_0000,
            true,
        ),
        (
            "s_add_i32/s_add_co_i32",
            0xffff_ffff,
            1,
            NONE,
            true,
            0,
            false,
        ),
        (
            "s_sub_i32/s_sub_co_i32",
            0x8000_0000,
            1,
            NONE,
            false,
            0x7fff_ffff,
            true,
        ),
        (
            "s_addc_u32/s_add_co_ci_u32",
            0xffff_ffff,
            0,
            NONE,
            true,
            0,
            true,
        ),
        (
            "s_subb_u32/s_sub_co_ci_u32",
            5,
            5,
            NONE,
            true,
            0xffff_ffff,
            true,
        ),
        (
            "s_subb_u32/s_sub_co_ci_u32",
            0,
            0xffff_ffff,
            NONE,
            true,
            0,
            true,
        ),
        ("s_absdiff_i32", 2, 5, NONE, false, 3, true),
        (
            "s_absdiff_i32",
            0x8000_0000,
            0,
            NONE,
            false,
            0x8000_0000,
            true,
        ),
        (
            "s_absdiff_i32",
            0x8000_0000,
            1,
            NONE,
            false,
            0x7fff_ffff,
            true,
        ),
        (
            "s_absdiff_i32",
            0x8000_0000,
            0xffff_fffe,
            NONE,
            false,
            0x7fff_fffe,
            true,
        ),
        (
            "s_absdiff_i32",
            0x7fff_ffff,
            0xffff_fffe,
            NONE,
            false,
            0x7fff_ffff,
            true,
        ),
        ("s_min_i32", 7, 7, NONE, true, 7, false),
        ("s_max_i32", 7, 7, NONE, false, 7, true),
        ("s_min_u32", 0x8000_0000, 1, NONE, true, 1, false),
        ("s_min_i32", 0x8000_0000, 1, NONE, false, 0x8000_0000, true),
        (
            "s_mul_hi_i32",
            0xffff_ffff,
            2,
            NONE,
            true,
            0xffff_ffff,
            true,
        ),
        ("s_mul_hi_u32", 0xffff_ffff, 2, NONE, true, 1, true),
        ("s_lshl4_add_u32", 0x1000_0000, 5, NONE, false, 5, true),
        ("s_lshl1_add_u32", 3, 5, NONE, true, 11, false),
        ("s_lshl_b32", 1, 33, NONE, false, 2, true),
        (
            "s_ashr_i32",
            0x8000_0000,
            31,
            NONE,
            false,
            0xffff_ffff,
            true,
        ),
        ("s_lshl_b64", 1, 64 + 40, NONE, false, 1 << 40, true),
        ("s_ashr_i64", 1 << 63, 63, NONE, false, u64::MAX, true),
        (
            "s_bfe_u32",
            0x1234_5678,
            8 << 16 | 8,
            NONE,
            false,
            0x56,
            true,
        ),
        ("s_bfe_u32", 0x1234_5678, 4, NONE, true, 0, false),
        (
            "s_bfe_u32",
            0xf000_0000,
            0x7f << 16 | 28,
            NONE,
            false,
            0xf,
            true,
        ),
        (
            "s_bfe_i32",
            0xf000_0000,
            32 << 16 | 28,
            NONE,
            false,
            0xffff_ffff,
            true,
        ),
        (
            "s_bfe_i32",
            0x0000_0080,
            8 << 16,
            NONE,
            false,
            0xffff_ff80,
            true,
        ),
        (
            "s_bfe_u64",
            u64::MAX,
            40 << 16 | 4,
            NONE,
            false,
            (1 << 40) - 1,
            true,
        ),
        (
            "s_bfe_i64",
            1 << 43,
            40 << 16 | 4,
            NONE,
            false,
            0xffff_ff80_0000_0000,
            true,
        ),
        ("s_bfe_i64", 1 << 63, 64 << 16, NONE, false, 1 << 63, true),
        ("s_bfm_b32", 4, 8, NONE, true, 0xf00, true),
        (
            "s_bfm_b64",
            40,
            8,
            NONE,
            false,
            0x0000_ffff_ffff_ff00,
            false,
        ),
        (
            "s_pack_ll_b32_b16",
            0x1111_2222,
            0x3333_4444,
            NONE,
            false,
            0x4444_2222,
            false,
        ),
        (
            "s_pack_lh_b32_b16",
            0x1111_2222,
            0x3333_4444,
            NONE,
            false,
            0x3333_2222,
            false,
        ),
        (
            "s_pack_hh_b32_b16",
            0x1111_2222,
            0x3333_4444,
            NONE,
            false,
            0x3333_1111,
            false,
        ),
        (
            "s_pack_hl_b32_b16",
            0x1111_2222,
            0x3333_4444,
            NONE,
            false,
            0x4444_1111,
            false,
        ),
        ("s_cselect_b32", 1, 2, NONE, true, 1, true),
        (
            "s_cselect_b64",
            1 << 40,
            2 << 40,
            NONE,
            false,
            2 << 40,
            false,
        ),
        (
            "s_andn2_b64/s_and_not1_b64",
            0xff << 32,
            0x0f << 32,
            NONE,
            false,
            0xf0 << 32,
            true,
        ),
        ("s_xnor_b64", 5, 5, NONE, false, u64::MAX, true),
        ("s_add_nc_u64", 0xffff_ffff, 1, NONE, true, 1 << 32, true),
        ("s_sub_nc_u64", 0, 1, NONE, false, u64::MAX, false),
        (
            "s_mul_u64",
            0x1_0000_0001,
            0x1_0000_0001,
            NONE,
            false,
            0x2_0000_0001,
            false,
        ),
        // 1 + 2^-24 is 1; -0 is below +0; a number wins over a NaN, or not.
        (
            "s_add_f32",
            0x3f80_0000,
            0x3380_0000,
            NONE,
            true,
            0x3f80_0000,
            true,
        ),
        (
            "s_min_num_f32",
            0,
            0x8000_0000,
            NONE,
            false,
            0x8000_0000,
            false,
        ),
        (
            "s_max_num_f32",
            0x7fc0_0000,
            0x3f80_0000,
            NONE,
            false,
            0x3f80_0000,
            false,
        ),
        (
            "s_maximum_f32",
            0x7fc0_0001,
            0x3f80_0000,
            NONE,
            false,
            0x7fc0_0001,
            false,
        ),
        // 65504 + 16 is halfway to the next power: infinity. The high half becomes zero.
        (
            "s_add_f16",
            0xffff_7bff,
            0xffff_4c00,
            NONE,
            false,
            0x7c00,
            false,
        ),
        (
            "s_fmac_f32",
            0x4000_0000,
            0x4040_0000,
            0x3f80_0000,
            false,
            0x40e0_0000,
            false,
        ),
        (
            "s_cvt_pk_rtz_f16_f32",
            0x3f80_1fff,
            0xbf80_1fff,
            NONE,
            false,
            0xbc00_3c00,
            false,
        ),
    ];
    run(examples, |asm, name| asm.sop2(name, 4, 0, 2));
}

#[test]
fn one_source() {
    let examples: &[Example] = &[
        ("s_mov_b64", NONE, 0, 0, true, NONE, true),
        ("s_cmov_b32", 1, 0, NONE, true, 1, true),
        ("s_cmov_b64", 1, 0, NONE, false, NONE, false),
        ("s_cmov_b64", 1, 0, NONE, true, 1, true),
        ("s_not_b32", 0xffff_ffff, 0, NONE, true, 0, false),
        ("s_brev_b64", 1, 0, NONE, false, 1 << 63, false),
        ("s_bcnt0_i32_b32", 0xffff_ffff, 0, NONE, true, 0, false),
        ("s_bcnt1_i32_b64", u64::MAX, 0, NONE, false, 64, true),
        (
            "s_ff0_i32_b32",
            0xffff_ffff,
            0,
            NONE,
            false,
            0xffff_ffff,
            false,
        ),
        ("s_ff0_i32_b64", 0xffff_ffff, 0, NONE, false, 32, false),
        (
            "s_ff1_i32_b64/s_ctz_i32_b64",
            0,
            0,
            NONE,
            false,
            0xffff_ffff,
            false,
        ),
        ("s_ff1_i32_b32/s_ctz_i32_b32", 8, 0, NONE, false, 3, false),
        (
            "s_flbit_i32_b32/s_clz_i32_u32",
            1,
            0,
            NONE,
            false,
            31,
            false,
        ),
        (
            "s_flbit_i32_b64/s_clz_i32_u64",
            1,
            0,
            NONE,
            false,
            63,
            false,
        ),
        (
            "s_flbit_i32/s_cls_i32",
            0xffff_ffff,
            0,
            NONE,
            false,
            0xffff_ffff,
            false,
        ),
        (
            "s_flbit_i32/s_cls_i32",
            0xf7ff_ffff,
            0,
            NONE,
            false,
            4,
            false,
        ),
        (
            "s_flbit_i32_i64/s_cls_i32_i64",
            0x7fff_ffff_ffff_ffff,
            0,
            NONE,
            false,
            1,
            false,
        ),
        ("s_sext_i32_i8", 0x1280, 0, NONE, false, 0xffff_ff80, false),
        ("s_bitset0_b32", 35, 0, 0xff, false, 0xf7, false),
        ("s_bitset1_b32", 35, 0, 0, true, 8, true),
        ("s_bitset0_b64", 32, 0, u64::MAX, false, !(1 << 32), false),
        ("s_bitset1_b64", 0x28, 0, 1, false, 1 << 40 | 1, false),
        (
            "s_bitreplicate_b64_b32",
            0x8000_0005,
            0,
            NONE,
            false,
            0xc000_0000_0000_0033,
            false,
        ),
        ("s_quadmask_b32", 0xf000_0010, 0, NONE, false, 0x82, true),
        ("s_quadmask_b64", 1 << 63, 0, NONE, false, 1 << 15, true),
        ("s_wqm_b32", 0x0200_0000, 0, NONE, false, 0x0f00_0000, true),
        ("s_wqm_b64", 1 << 62, 0, NONE, false, 0xf << 60, true),
        ("s_abs_i32", 0x8000_0000, 0, NONE, false, 0x8000_0000, true),
        (
            "s_cvt_f32_u32",
            0xffff_ffff,
            0,
            NONE,
            false,
            0x4f80_0000,
            false,
        ),
        ("s_cvt_i32_f32", 0x7fc0_0000, 0, NONE, false, 0, false),
        (
            "s_cvt_u32_f32",
            0x4f80_0000,
            0,
            NONE,
            false,
            0xffff_ffff,
            false,
        ),
        (
            "s_cvt_hi_f32_f16",
            0x3c00_0000,
            0,
            NONE,
            false,
            0x3f80_0000,
            false,
        ),
        (
            "s_rndne_f32",
            0x4020_0000,
            0,
            NONE,
            false,
            0x4000_0000,
            false,
        ),
        ("s_ceil_f16", 0xffff_3c01, 0, NONE, false, 0x4000, false),
    ];
    run(examples, |asm, name| asm.sop1(name, 4, 0));
}

fn run(examples: &[Example], code: impl Fn(Asm, &str) -> Vec<u8>) {
    let memory = Memory::new(0x10_0000, 16);
    let mut used = vec![false; examples.len()];
    for target in EXECUTABLE {
        let asm = Asm(target);
        for (example, used) in examples.iter().zip(&mut used) {
            let &(names, a, b, before, scc, after, scc_after) = example;
            let Some(name) = name(asm, names) else {
                continue;
            };
            *used = true;
            let mut bench = bench(target, &memory);
            bench.wave.set_s64(0, a);
            bench.wave.set_s64(2, b);
            bench.wave.set_s64(4, before);
            bench.wave.scc = scc;
            assert_eq!(
                bench.step(&code(asm, name), 0),
                Ok(Flow::Next),
                "{target} {name}"
            );
            let wide = bench.wave.s[5] != (before >> 32) as u32;
            let mask = if wide || after >> 32 != 0 {
                u64::MAX
            } else {
                0xffff_ffff
            };
            let got = (bench.wave.s64(4) & mask, bench.wave.scc);
            assert_eq!(
                got,
                (after & mask, scc_after),
                "{target} {name} {a:x} {b:x}: {:x}",
                got.0
            );
            assert_eq!(
                (bench.wave.s64(0), bench.wave.s64(2)),
                (a, b),
                "{target} {name} changed its sources"
            );
        }
    }
    assert!(used.iter().all(|&u| u), "an example that no target has");
}

#[test]
fn signed_64_bit_operations_extend_the_sign_of_a_literal() {
    let memory = Memory::new(0x10_0000, 16);
    for target in EXECUTABLE {
        let asm = Asm(target);
        let mut bench = bench(target, &memory);
        for (name, want) in [
            ("s_ashr_i64", 0xffff_ffff_f800_0000),
            ("s_lshr_b64", 0x0800_0000),
        ] {
            let mut code = asm.sop2(name, 4, LITERAL, int(4));
            code.extend(0x8000_0000u32.to_le_bytes());
            assert_eq!(bench.step(&code, 0), Ok(Flow::Next));
            assert_eq!(bench.wave.s64(4), want, "{target} {name}");
        }
    }
}

#[test]
fn relative_moves_stay_in_their_range() {
    let memory = Memory::new(0x10_0000, 16);
    for target in EXECUTABLE {
        let asm = Asm(target);
        let last = if target.is_cdna() { 101 } else { 107 };
        let mut bench = bench(target, &memory);
        for n in 0..108 {
            bench.wave.s[n] = 1000 + n as u32;
        }
        let mut go = |m0: u32, code: Vec<u8>| {
            bench.wave.s[scalar::M0] = m0;
            assert_eq!(bench.step(&code, 0), Ok(Flow::Next));
            bench.wave.s
        };
        assert_eq!(go(10, asm.sop1("s_movrels_b32", 4, 7))[4], 1017);
        assert_eq!(
            go(last - 7, asm.sop1("s_movrels_b32", 4, 7))[4],
            1000 + last,
            "{target}"
        );
        // One too far, and far too far: SGPR0.
        assert_eq!(
            go(last - 6, asm.sop1("s_movrels_b32", 4, 7))[4],
            1000,
            "{target}"
        );
        assert_eq!(go(u32::MAX, asm.sop1("s_movrels_b32", 4, 7))[4], 1000);
        assert_eq!(
            go(last - 6, asm.sop1("s_movrels_b64", 4, 6))[4..6],
            [1000, 1001]
        );
        let before = go(0, asm.sop1("s_movrels_b64", 8, 6));
        assert_eq!(before[8..10], [1006, 1007]);
        assert_eq!(
            go(20, asm.sop1("s_movreld_b64", 4, 6))[24..26],
            [1006, 1007]
        );
        let before = go(0, asm.sop1("s_mov_b32", 40, 6));
        for m0 in [last - 3, u32::MAX, u32::MAX - 3, 0x8000_0000] {
            let mut after = go(m0, asm.sop1("s_movreld_b64", 4, 6));
            after[scalar::M0] = before[scalar::M0];
            assert_eq!(
                after, before,
                "{target} {m0}: a destination out of range is not written"
            );
        }
        if asm.has("s_movrelsd_2_b32") {
            // The manual's example: s25 = s17.
            assert_eq!(
                go(20 << 16 | 10, asm.sop1("s_movrelsd_2_b32", 5, 7))[25],
                1017
            );
        }
    }
}

#[test]
fn exec_masks_of_both_sizes() {
    let memory = Memory::new(0x10_0000, 16);
    for target in EXECUTABLE {
        let asm = Asm(target);
        for lanes in if target.is_cdna() {
            vec![64]
        } else {
            vec![32, 64]
        } {
            let mut bench = Bench::new(target, lanes, Backend::Scalar, &memory);
            bench.wave.set_s64(scalar::EXEC, 0xf0f0_f0f0_0000_ffff);
            bench.wave.set_s64(2, 0xffff_0000_0000_0ff0);
            assert_eq!(
                bench.step(&asm.sop1("s_and_saveexec_b64", 4, 2), 0),
                Ok(Flow::Next)
            );
            assert_eq!(bench.wave.s64(scalar::EXEC), 0xf0f0_0000_0000_0ff0);
            assert_eq!(
                (bench.wave.s64(4), bench.wave.scc),
                (0xf0f0_f0f0_0000_ffff, true)
            );
            if asm.has("s_and_not1_saveexec_b32") {
                bench.wave.s[2] = 0x0ff0;
                assert_eq!(
                    bench.step(&asm.sop1("s_and_not1_saveexec_b32", 4, 2), 0),
                    Ok(Flow::Next)
                );
                // The 32-bit form leaves the high words alone.
                assert_eq!(bench.wave.s64(scalar::EXEC), 0xf0f0_0000_0000_0000);
                assert_eq!(
                    (bench.wave.s64(4), bench.wave.scc),
                    (0xf0f0_f0f0_0000_0ff0, false)
                );
                assert_eq!(
                    bench.step(&asm.sop1("s_and_not0_wrexec_b64", 4, int(0)), 0),
                    Ok(Flow::Next)
                );
                assert_eq!(
                    (bench.wave.s64(4), bench.wave.scc),
                    (0xf0f0_0000_0000_0000, true)
                );
            }
        }
    }
}

#[test]
fn trap_temporaries_are_read_only() {
    let memory = Memory::new(0x10_0000, 16);
    for target in EXECUTABLE {
        let asm = Asm(target);
        let mut bench = bench(target, &memory);
        bench.wave.s[scalar::TTMP + 9] = 77;
        assert_eq!(
            bench.step(&asm.sop1("s_mov_b32", 4, 108 + 9), 0),
            Ok(Flow::Next)
        );
        assert_eq!(bench.wave.s[4], 77);
        bench.wave.scc = false;
        assert_eq!(
            bench.step(&asm.sop2("s_or_b32", 108 + 9, int(3), int(0)), 0),
            Ok(Flow::Next)
        );
        assert_eq!(bench.wave.s[scalar::TTMP + 9], 77);
        // gfx9 sets SCC all the same (CDNA3 manual 5.2), later targets do not (RDNA4 manual 3.3.1.3).
        assert_eq!(bench.wave.scc, target.is_cdna(), "{target}");
    }
}

#[test]
fn floats_follow_mode() {
    let memory = Memory::new(0x10_0000, 16);
    for target in EXECUTABLE.into_iter().filter(|&t| Asm(t).has("s_add_f32")) {
        let asm = Asm(target);
        let mut bench = bench(target, &memory);
        bench.wave.s[0..4].copy_from_slice(&[0x3f80_0000, 0x3380_0000, 1, 0x0000_0001]);
        let mut value = |code: Vec<u8>| {
            assert_eq!(bench.step(&code, 0), Ok(Flow::Next));
            bench.wave.s[4]
        };
        assert_eq!(value(asm.sop2("s_add_f32", 4, 0, 1)), 0x3f80_0000);
        value(asm.sopp("s_round_mode", 1));
        assert_eq!(
            value(asm.sop2("s_add_f32", 4, 0, 1)),
            0x3f80_0001,
            "{target}: toward plus infinity"
        );
        value(asm.sopp("s_round_mode", 0));
        assert_eq!(
            value(asm.sop2("s_add_f32", 4, 2, 3)),
            2,
            "{target}: denormals"
        );
        value(asm.sopp("s_denorm_mode", 0));
        assert_eq!(
            value(asm.sop2("s_add_f32", 4, 2, 3)),
            0,
            "{target}: flushed"
        );
        bench.wave.s[5] = 0;
        assert_eq!(
            bench.step(&asm.sopc("s_cmp_eq_f32", 2, 5), 0),
            Ok(Flow::Next)
        );
        assert!(bench.wave.scc, "{target}: a flushed denormal equals zero");
    }
}
