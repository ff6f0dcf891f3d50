//! Vector instructions against the definitions of the manuals, where `data/semantics` has no cases: DPP and SDWA,
//! relative registers, lane permutes, saturation, halves of registers, VGPR banks, dual issue.

mod common;

use common::{Bench, Memory};
use rocjitsu_exec::wave::{INDEXING, scalar};
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;

/// A bench on every back end of the host, in turn.
fn on_each(target: Target, lanes: u32, test: impl Fn(&mut Bench<'_>)) {
    let memory = Memory::new(0x1_0000, 4096);
    for backend in Backend::supported() {
        test(&mut Bench::new(target, lanes, backend, &memory));
    }
}

fn set(bench: &mut Bench<'_>, register: u32, value: impl Fn(u32) -> u32) {
    let row = bench.wave.v.write(register, &mut bench.unit.pool);
    row.iter_mut()
        .enumerate()
        .for_each(|(lane, word)| *word = value(lane as u32));
}

#[track_caller]
fn expect(bench: &Bench<'_>, register: u32, value: impl Fn(u32) -> u32) {
    for (lane, &word) in bench.wave.v.read(register).iter().enumerate() {
        let want = value(lane as u32);
        assert_eq!(
            word, want,
            "v{register} lane {lane}: {word:#x}, expected {want:#x}, on {}",
            bench.unit.backend
        );
    }
}

/// v0 holds 100 + lane, v1 holds 900: what v_mov_b32 v1, v0 with a DPP word leaves in v1.
#[track_caller]
fn dpp(target: Target, words: &[u32], exec: u64, value: impl Fn(u32) -> Option<u32> + Copy) {
    let lanes = target.default_wave();
    on_each(target, lanes, |bench| {
        set(bench, 0, |lane| 100 + lane);
        set(bench, 1, |_| 900);
        bench.wave.set_exec(exec);
        bench.run(words);
        expect(bench, 1, |lane| {
            let written = exec >> lane & 1 != 0;
            value(lane).filter(|_| written).unwrap_or(900)
        });
    });
}

const ALL: u64 = u64::MAX;
/// `v_mov_b32_dpp v1, v0`.
const MOV_DPP: u32 = 0x7e02_02fa;

#[test]
fn dpp_patterns_of_gfx9() {
    let t = Target::Gfx942;
    let from = |lane: u32| Some(100 + lane);
    // quad_perm:[3,1,0,2]
    dpp(t, &[MOV_DPP, 0xff00_8700], ALL, |l| {
        from(l & !3 | [3, 1, 0, 2][(l & 3) as usize])
    });
    // row_shl:3 with banks 0 and 2
    dpp(t, &[MOV_DPP, 0xf501_0300], ALL, |l| {
        if l / 4 % 2 == 0 && l % 16 < 13 {
            from(l + 3)
        } else {
            None
        }
    });
    // row_shr:1 without and with bound_ctrl
    dpp(t, &[MOV_DPP, 0xff01_1100], ALL, |l| {
        if l % 16 == 0 { None } else { from(l - 1) }
    });
    dpp(t, &[MOV_DPP, 0xff09_1100], ALL, |l| {
        if l % 16 == 0 { Some(0) } else { from(l - 1) }
    });
    // row_ror:4 in rows 0 and 1
    dpp(t, &[MOV_DPP, 0x3f01_2400], ALL, |l| {
        if l < 32 {
            from(l & !15 | (l + 12) & 15)
        } else {
            None
        }
    });
    // wave_shl:1, wave_ror:1
    dpp(t, &[MOV_DPP, 0xff01_3000], ALL, |l| {
        if l == 63 { None } else { from(l + 1) }
    });
    dpp(t, &[MOV_DPP, 0xff01_3c00], ALL, |l| from((l + 63) % 64));
    // row_mirror, row_half_mirror
    dpp(t, &[MOV_DPP, 0xff01_4000], ALL, |l| {
        from(l & !15 | (15 - l % 16))
    });
    dpp(t, &[MOV_DPP, 0xff01_4100], ALL, |l| {
        from(l & !7 | (7 - l % 8))
    });
    // row_bcast:15, in all rows and in rows 1 and 3; row_bcast:31, in all rows and in rows 2 and 3. Lanes that have
    // no row before them read themselves, with bound_ctrl, too.
    for bound_ctrl in [0, 0x0008_0000] {
        dpp(t, &[MOV_DPP, 0xff01_4200 | bound_ctrl], ALL, |l| {
            from(if l < 16 { l } else { (l & !15) - 1 })
        });
        dpp(t, &[MOV_DPP, 0xaf01_4200 | bound_ctrl], ALL, |l| {
            if l & 16 == 0 {
                None
            } else {
                from((l & !15) - 1)
            }
        });
        dpp(t, &[MOV_DPP, 0xff01_4300 | bound_ctrl], ALL, |l| {
            from(if l < 32 { l } else { 31 })
        });
        dpp(t, &[MOV_DPP, 0xcf01_4300 | bound_ctrl], ALL, |l| {
            if l < 32 { None } else { from(31) }
        });
    }
    // row_newbcast:5
    dpp(t, &[MOV_DPP, 0xff01_5500], ALL, |l| from(l & !15 | 5));
    // A disabled lane is no source: row_shr:1 without and with bound_ctrl.
    let exec = 0xffff_ffff_ffff_fff0;
    dpp(t, &[MOV_DPP, 0xff01_1100], exec, |l| {
        if l % 16 == 0 || l == 4 {
            None
        } else {
            from(l - 1)
        }
    });
    dpp(t, &[MOV_DPP, 0xff09_1100], exec, |l| {
        if l % 16 == 0 || l == 4 {
            Some(0)
        } else {
            from(l - 1)
        }
    });
}

#[test]
fn dpp_of_64_bits_moves_pairs() {
    // v_mov_b64_dpp v[2:3], v[4:5] row_newbcast:9
    on_each(Target::Gfx942, 64, |bench| {
        set(bench, 4, |lane| lane);
        set(bench, 5, |lane| 1000 + lane);
        bench.run(&[0x7e04_70fa, 0xff01_5904]);
        expect(bench, 2, |lane| lane & !15 | 9);
        expect(bench, 3, |lane| 1000 + (lane & !15 | 9));
    });
}

#[test]
fn dpp_patterns_of_gfx11() {
    let t = Target::Gfx1100;
    let from = |lane: u32| Some(100 + lane);
    dpp(t, &[MOV_DPP, 0xff01_5700], ALL, |l| from(l & !15 | 7));
    dpp(t, &[MOV_DPP, 0xff01_6500], ALL, |l| from(l ^ 5));
    // row_shr:2 with lane 5 disabled, under the four combinations of BC and FI.
    let exec = 0xffff_ffdf;
    let shr = |out: Option<u32>, off: fn(u32) -> Option<u32>| {
        move |l: u32| match l % 16 {
            0 | 1 => out,
            _ if l == 7 => off(l - 2),
            _ => Some(98 + l),
        }
    };
    dpp(t, &[MOV_DPP, 0xff01_1200], exec, shr(None, |_| None));
    dpp(t, &[MOV_DPP, 0xff09_1200], exec, shr(Some(0), |_| Some(0)));
    dpp(
        t,
        &[MOV_DPP, 0xff05_1200],
        exec,
        shr(None, |l| Some(100 + l)),
    );
    dpp(
        t,
        &[MOV_DPP, 0xff0d_1200],
        exec,
        shr(Some(0), |l| Some(100 + l)),
    );
    // dpp8:[7,6,5,4,3,2,1,0] without and with FI.
    dpp(t, &[0x7e02_02e9, 0x0539_7700], exec, |l| {
        if l == 2 {
            Some(0)
        } else {
            from(l & !7 | (7 - l % 8))
        }
    });
    dpp(t, &[0x7e02_02ea, 0x0539_7700], exec, |l| {
        from(l & !7 | (7 - l % 8))
    });
}

#[test]
fn dpp_compares_write_zero_where_the_source_is_missing() {
    on_each(Target::Gfx1100, 32, |bench| {
        set(bench, 0, |_| 1);
        set(bench, 2, |_| 2);
        bench.wave.set_s64(scalar::VCC, u64::MAX);
        // v_cmp_lt_u32 vcc_lo, v0, v2 row_shr:2
        bench.run(&[0x7c92_04fa, 0xff01_1200]);
        assert_eq!(bench.wave.s[scalar::VCC], 0xfffc_fffc);
        // v_cmpx_lt_u32_e64_dpp v0, v2 row_shr:2
        bench.run(&[0xd4c9_007e, 0x0002_04fa, 0xff01_1200]);
        assert_eq!(bench.wave.exec(), 0xfffc_fffc);
    });
}

#[test]
fn dpp_of_vop3() {
    // v_add_nc_u32_e64_dpp v1, v0, v2 row_ror:1 bank_mask:0x3
    on_each(Target::Gfx1100, 32, |bench| {
        set(bench, 0, |lane| lane);
        set(bench, 1, |_| 900);
        set(bench, 2, |lane| 1000 * lane);
        bench.run(&[0xd525_0001, 0x0002_04fa, 0xf301_2100]);
        expect(bench, 1, |l| {
            if l % 16 < 8 {
                (l & !15 | (l + 15) & 15) + 1000 * l
            } else {
                900
            }
        });
    });
}

#[test]
fn sdwa_selects_and_keeps() {
    on_each(Target::Gfx942, 64, |bench| {
        set(bench, 0, |_| 0x8899_aabb);
        set(bench, 2, |_| 0x0004_0003);
        let with = |bench: &mut Bench<'_>, words: &[u32]| {
            set(bench, 1, |_| 0x1122_3344);
            bench.run(words);
            bench.wave.v.read(1)[5]
        };
        // v_add_u32_sdwa v1, v0, v2 dst_sel:BYTE_2 UNUSED_PRESERVE src0_sel:BYTE_1 src1_sel:WORD_1: 0xaa + 4
        assert_eq!(with(bench, &[0x6802_04f9, 0x0501_1200]), 0x11ae_3344);
        // dst_sel:BYTE_1 UNUSED_SEXT: 0xae has its sign set
        assert_eq!(with(bench, &[0x6802_04f9, 0x0501_0900]), 0xffff_ae00);
        // dst_sel:DWORD sext(v0) src0_sel:BYTE_0 src1_sel:WORD_0: 0xffffffbb + 3
        assert_eq!(with(bench, &[0x6802_04f9, 0x0408_0600]), 0xffff_ffbe);
        // v_mov_b32_sdwa v1, sext(v0) dst_sel:WORD_1 UNUSED_PAD src0_sel:BYTE_3
        assert_eq!(with(bench, &[0x7e02_02f9, 0x000b_0500]), 0xff88_0000);
    });
}

#[test]
fn sdwa_compares_name_their_destination() {
    on_each(Target::Gfx942, 64, |bench| {
        set(bench, 0, |lane| lane << 3);
        set(bench, 2, |_| 0x0040_0000);
        bench.wave.set_exec(0xffff_ffff_0000_ffff);
        // v_cmp_lt_i16_sdwa s[4:5], sext(v0), v2 src0_sel:BYTE_0 src1_sel:WORD_1
        bench.run(&[0x7d42_04f9, 0x0508_8400]);
        // Bytes from 128 on are negative and less than 64.
        let less = (0..64u64)
            .filter(|l| ((l << 3) as u8 as i8) < 64)
            .fold(0, |m, l| m | 1 << l);
        assert_eq!(bench.wave.s64(4), less & 0xffff_ffff_0000_ffff);
        // v_cmpx_lt_u32_sdwa s[4:5], v0, v2 src0_sel:BYTE_0 src1_sel:WORD_1
        bench.run(&[0x7db2_04f9, 0x0500_8400]);
        let less = (0..64u64)
            .filter(|l| (l << 3 & 0xff) < 64)
            .fold(0, |m, l| m | 1 << l)
            & 0xffff_ffff_0000_ffff;
        assert_eq!((bench.wave.exec(), bench.wave.s64(4)), (less, less));
    });
}

#[test]
fn cmpx_of_gfx9_writes_the_mask_as_well() {
    on_each(Target::Gfx942, 64, |bench| {
        set(bench, 0, |lane| lane);
        set(bench, 2, |_| 20);
        // v_cmpx_lt_u32_e64 s[4:5], v0, v2
        bench.run(&[0xd0d9_0004, 0x0002_0500]);
        assert_eq!(
            (bench.wave.exec(), bench.wave.s64(4), bench.wave.vcc()),
            (0xf_ffff, 0xf_ffff, 0)
        );
        bench.wave.set_exec(0xff);
        // v_cmpx_lt_u32_e32 vcc, v0, v2
        bench.run(&[0x7db2_0500]);
        assert_eq!((bench.wave.exec(), bench.wave.vcc()), (0xff, 0xff));
    });
}

/// One result of an operation on constants in v0, v2 and v3 (v1 is 0x11112222 before).
fn result(target: Target, words: &[u32], sources: [u32; 3]) -> u32 {
    let memory = Memory::new(0x1_0000, 4096);
    let results: Vec<u32> = Backend::supported()
        .map(|backend| {
            let mut bench = Bench::new(target, target.default_wave(), backend, &memory);
            for (register, value) in [0, 2, 3].into_iter().zip(sources) {
                set(&mut bench, register, |_| value);
            }
            set(&mut bench, 1, |_| 0x1111_2222);
            bench.run(words);
            bench.wave.v.read(1)[9]
        })
        .collect();
    assert!(
        results.iter().all(|r| *r == results[0]),
        "{words:x?}: {results:x?}"
    );
    results[0]
}

#[test]
fn clamp_saturates_integers() {
    let t = Target::Gfx942;
    let min = i32::MIN as u32;
    let max = i32::MAX as u32;
    // v_add_u32, v_sub_u32
    assert_eq!(
        result(t, &[0xd134_8001, 0x0002_0500], [0xffff_fff0, 0x20, 0]),
        u32::MAX
    );
    assert_eq!(result(t, &[0xd134_8001, 0x0002_0500], [5, 6, 0]), 11);
    assert_eq!(result(t, &[0xd135_8001, 0x0002_0500], [5, 6, 0]), 0);
    // v_add_i32, v_sub_i32
    assert_eq!(result(t, &[0xd29c_8001, 0x0002_0500], [max, 1, 0]), max);
    assert_eq!(
        result(t, &[0xd29c_8001, 0x0002_0500], [min, u32::MAX, 0]),
        min
    );
    assert_eq!(result(t, &[0xd29d_8001, 0x0002_0500], [min, 1, 0]), min);
    // v_mad_u32_u24, v_mad_i32_i24: the products have 48 bits
    assert_eq!(
        result(
            t,
            &[0xd1c3_8001, 0x040e_0500],
            [0xff00_ffff, 0x0001_0001, 0]
        ),
        u32::MAX
    );
    assert_eq!(
        result(
            t,
            &[0xd1c3_8001, 0x040e_0500],
            [0xff00_0003, 0xff00_0004, 5]
        ),
        17
    );
    assert_eq!(
        result(
            t,
            &[0xd1c2_8001, 0x040e_0500],
            [0x0080_0000, 0x007f_ffff, 0]
        ),
        min
    );
    assert_eq!(
        result(
            t,
            &[0xd1c2_8001, 0x040e_0500],
            [0x00ff_ffff, 0x00ff_ffff, 5]
        ),
        6
    );
    // v_add_u16 (clears the upper half), v_mad_i16 (keeps it), v_pk_add_i16, v_pk_sub_u16
    assert_eq!(
        result(t, &[0xd126_8001, 0x0002_0500], [0xfffe, 3, 0]),
        0xffff
    );
    assert_eq!(
        result(t, &[0xd205_8001, 0x040e_0500], [0x7fff, 0x7fff, 0]),
        0x1111_7fff
    );
    assert_eq!(
        result(
            t,
            &[0xd382_c001, 0x1802_0500],
            [0x7fff_8000, 0x0001_ffff, 0]
        ),
        0x7fff_8000
    );
    assert_eq!(
        result(
            t,
            &[0xd38b_c001, 0x1802_0500],
            [0x0005_0001, 0x0003_0002, 0]
        ),
        0x0002_0000
    );
    // v_sad_u8
    assert_eq!(
        result(
            t,
            &[0xd1d9_8001, 0x040e_0500],
            [0xff00_ff00, 0x00ff_00ff, u32::MAX - 5]
        ),
        u32::MAX
    );
    // v_pk_add_max_i16 of gfx1250: clamp makes a negative result zero
    assert_eq!(
        result(
            Target::Gfx1250,
            &[0xcc14_c001, 0x1c0e_0500],
            [0x8000_7fff, 0xffff_0001, 0xfff0_0003]
        ),
        0x0000_7fff
    );
    // v_add_max_i32: the sum saturates without clamp
    assert_eq!(
        result(Target::Gfx1250, &[0xd65e_0001, 0x040e_0500], [max, 1, 7]),
        max
    );
}

#[test]
fn clamped_64_bit_products() {
    on_each(Target::Gfx942, 64, |bench| {
        for (register, value) in [(0, u32::MAX), (2, u32::MAX), (6, u32::MAX), (7, u32::MAX)] {
            set(bench, register, |_| value);
        }
        bench.wave.set_exec(0xf0f0);
        // v_mad_u64_u32 v[4:5], s[4:5], v0, v2, v[6:7] clamp
        bench.run(&[0xd1e8_8404, 0x041a_0500]);
        expect(bench, 5, |lane| {
            if 0xf0f0u64 >> lane & 1 != 0 {
                u32::MAX
            } else {
                0
            }
        });
        assert_eq!(bench.wave.s64(4), 0xf0f0);
    });
}

#[test]
fn sixteen_bit_results_of_gfx9() {
    let t = Target::Gfx942;
    // v_add_i16 v1, v0, v2 op_sel:[1,0,1]: 3 + 4 into the upper half
    assert_eq!(
        result(t, &[0xd29e_4801, 0x0002_0500], [0x0003_7777, 4, 0]),
        0x0007_2222
    );
    // v_mad_legacy_u16 clears the upper half, v_mad_u16 keeps it
    assert_eq!(result(t, &[0xd1eb_0001, 0x040e_0500], [3, 4, 5]), 17);
    assert_eq!(
        result(t, &[0xd204_0001, 0x040e_0500], [3, 4, 5]),
        0x1111_0011
    );
    // gfx950: v_ashr_pk_u8_i32, v_bitop3_b16 bitop3:0x96 op_sel:[1,0,0,1] (exclusive or)
    let t = Target::Gfx950;
    assert_eq!(
        result(t, &[0xd266_0001, 0x040e_0500], [0x100, 0x7fff_0000, 4]),
        0x1111_ff10
    );
    assert_eq!(
        result(
            t,
            &[0xd233_4a01, 0xd40e_0500],
            [0xf0f0_0000, 0x00ff, 0x0f00]
        ),
        0xff0f_2222
    );
}

#[test]
fn sixteen_bit_halves_of_gfx11() {
    let t = Target::Gfx1100;
    // v_mov_b16 v1.h, v0.l and v1.l, v0.h
    assert_eq!(result(t, &[0x7f02_3900], [0xaaaa_bbbb, 0, 0]), 0xbbbb_2222);
    assert_eq!(result(t, &[0x7e02_3980], [0xaaaa_bbbb, 0, 0]), 0x1111_aaaa);
    // v_add_nc_u16 v1.h, v0.h, v2.l
    assert_eq!(
        result(t, &[0xd703_4801, 0x0002_0500], [0x0003_0000, 4, 0]),
        0x0007_2222
    );
    // v_pk_add_u16 v1, v0, v2 op_sel:[1,0] op_sel_hi:[0,1]
    assert_eq!(
        result(
            t,
            &[0xcc0a_4801, 0x1002_0500],
            [0x0001_0002, 0x0010_0020, 0]
        ),
        0x0012_0021
    );
    // v_sat_pk4_i4_i8 v1.h, v0 (gfx1250)
    assert_eq!(
        result(Target::Gfx1250, &[0x7f02_e700], [0x80_7f_03_fe, 0, 0]),
        0x873e_2222
    );
    on_each(t, 32, |bench| {
        set(bench, 0, |_| 0xaaaa_bbbb);
        set(bench, 1, |_| 0x1111_2222);
        // v_swap_b16 v1.l, v0.h
        bench.run(&[0x7e02_cd80]);
        expect(bench, 0, |_| 0x2222_bbbb);
        expect(bench, 1, |_| 0x1111_aaaa);
        // v_cmp_lt_u16 vcc_lo, v0.h, v2.l
        set(bench, 2, |lane| 0x2222 + lane % 2);
        bench.run(&[0x7c72_0580]);
        assert_eq!(bench.wave.s[scalar::VCC], 0xaaaa_aaaa);
        // v_cndmask_b16 v1.l, v0.l, -v0.h, s4
        bench.wave.s[4] = 0xff;
        bench.run(&[0xd65d_1001, 0x4012_0100]);
        expect(
            bench,
            1,
            |lane| if lane < 8 { 0x1111_a222 } else { 0x1111_bbbb },
        );
    });
}

#[test]
fn relative_moves_add_m0() {
    on_each(Target::Gfx1100, 32, |bench| {
        for register in 0..64 {
            set(bench, register, |lane| register * 100 + lane);
        }
        bench.wave.s[scalar::M0] = 7;
        // v_movreld_b32 v10, v0; v_movrels_b32 v1, v10; v_movrelsd_b32 v10, v20
        bench.run(&[0x7e14_8500]);
        expect(bench, 17, |lane| lane);
        bench.run(&[0x7e02_870a]);
        expect(bench, 1, |lane| lane);
        bench.run(&[0x7e14_8914]);
        expect(bench, 17, |lane| 2700 + lane);
        // v_movrelsd_2_b32 v10, v20; v_swaprel_b32 v10, v20
        bench.wave.s[scalar::M0] = 5 << 16 | 9;
        bench.run(&[0x7e14_9114]);
        expect(bench, 15, |lane| 2900 + lane);
        bench.wave.s[scalar::M0] = 6 << 16 | 11;
        bench.wave.set_exec(0xffff);
        bench.run(&[0x7e14_d114]);
        expect(
            bench,
            16,
            |lane| if lane < 16 { 3100 + lane } else { 1600 + lane },
        );
        expect(
            bench,
            31,
            |lane| if lane < 16 { 1600 + lane } else { 3100 + lane },
        );
    });
}

#[test]
fn indexing_mode_moves_registers() {
    on_each(Target::Gfx942, 64, |bench| {
        for register in 0..64 {
            set(bench, register, |lane| register * 100 + lane);
        }
        // M0[7:0] is the index; M0[15:12] says for which operands: bit 0 src0, bit 1 src1, bit 3 destination.
        bench.wave.decode_state = INDEXING;
        bench.wave.s[scalar::M0] = 0b0001 << 12 | 10;
        // v_mov_b32 v1, v0
        bench.run(&[0x7e02_0300]);
        expect(bench, 1, |lane| 1000 + lane);
        bench.wave.s[scalar::M0] = 0b1000 << 12 | 10;
        bench.run(&[0x7e02_0300]);
        expect(bench, 11, |lane| lane);
        // v_add_u32 v1, v0, v2 with the second source indexed
        bench.wave.s[scalar::M0] = 0b0010 << 12 | 10;
        bench.run(&[0x6802_0500]);
        expect(bench, 1, |lane| 1200 + 2 * lane);
        // v_readlane_b32 s4, v0, 7
        bench.wave.s[scalar::M0] = 0b0001 << 12 | 10;
        bench.run(&[0xd289_0004, 0x0001_0f00]);
        assert_eq!(bench.wave.s[4], 1007);
    });
}

#[test]
fn permutes_within_rows() {
    on_each(Target::Gfx1100, 32, |bench| {
        set(bench, 0, |lane| 100 + lane);
        // Rotation by one within each row, from two scalars.
        bench.wave.s[4] = 0x8765_4321;
        bench.wave.s[5] = 0x0fed_cba9;
        let exec = 0xffff_feff;
        bench.wave.set_exec(exec);
        let rotated = |lane: u32| 100 + (lane & !15 | (lane + 1) & 15);
        // v_permlane16_b32 v1, v0, s4, s5; then with FI, with BOUND_CTRL; v_permlanex16 with FI. Lane 8 is disabled.
        for (words, lane7) in [
            ([0xd65b_0001, 0x0014_0900], 900),
            ([0xd65b_0801, 0x0014_0900], 108),
            ([0xd65b_1001, 0x0014_0900], 0),
        ] {
            set(bench, 1, |_| 900);
            bench.run(&words);
            expect(bench, 1, |lane| match lane {
                8 => 900,
                7 => lane7,
                _ => rotated(lane),
            });
        }
        set(bench, 1, |_| 900);
        bench.run(&[0xd65c_0801, 0x0014_0900]);
        expect(
            bench,
            1,
            |lane| if lane == 8 { 900 } else { rotated(lane ^ 16) },
        );
        // v_permlane64_b32 does nothing in a wave of 32.
        set(bench, 1, |_| 900);
        bench.run(&[0x7e02_cf00]);
        expect(bench, 1, |_| 900);
    });
    on_each(Target::Gfx1100, 64, |bench| {
        set(bench, 0, |lane| 100 + lane);
        set(bench, 1, |_| 900);
        bench.wave.set_exec(0xff);
        bench.run(&[0x7e02_cf00]);
        expect(bench, 1, |lane| if lane < 8 { 132 + lane } else { 900 });
    });
}

#[test]
fn rows_change_places() {
    on_each(Target::Gfx950, 64, |bench| {
        set(bench, 0, |lane| 100 + lane);
        set(bench, 1, |lane| 900 + lane);
        // v_permlane32_swap_b32 v1, v0: lanes 32 and up of v1 against lanes 0 to 31 of v0
        bench.run(&[0x7e02_b500]);
        expect(bench, 1, |lane| {
            if lane < 32 {
                900 + lane
            } else {
                100 + lane - 32
            }
        });
        expect(bench, 0, |lane| {
            if lane < 32 {
                900 + lane + 32
            } else {
                100 + lane
            }
        });
        // Once more brings all back; v_permlane16_swap_b32_e64 v1, v0 bound_ctrl:1 with half the lanes disabled.
        bench.run(&[0x7e02_b500]);
        bench.wave.set_exec(0xffff);
        bench.run(&[0xd199_1001, 0x0000_0100]);
        expect(bench, 1, |lane| 900 + lane);
        expect(bench, 0, |lane| if lane < 16 { 0 } else { 100 + lane });
    });
    on_each(Target::Gfx1250, 32, |bench| {
        set(bench, 0, |lane| 100 + lane);
        set(bench, 1, |lane| 900 + lane);
        bench.wave.set_exec(0xffff);
        // v_permlane16_swap_b32 v1, v0 reads disabled lanes
        bench.run(&[0x7e02_9300]);
        expect(bench, 1, |lane| 900 + lane);
        expect(
            bench,
            0,
            |lane| if lane < 16 { 916 + lane } else { 100 + lane },
        );
    });
}

#[test]
fn permutes_within_groups() {
    on_each(Target::Gfx1250, 32, |bench| {
        set(bench, 0, |lane| 100 + lane);
        bench.wave.s[4] = 3;
        bench.wave.s[5] = 8;
        bench.wave.set_exec(0xffff_0fff);
        let mut check = |word: u32, from: fn(u32) -> u32| {
            set(bench, 1, |_| 900);
            bench.run(&[word, 0x0014_0900]);
            expect(bench, 1, |lane| {
                if 0xffff_0fffu32 >> lane & 1 != 0 {
                    100 + from(lane)
                } else {
                    900
                }
            });
        };
        check(0xd670_0001, |l| l & !7 | 3);
        check(0xd671_0001, |l| if l % 8 < 3 { l } else { l - 3 });
        check(0xd672_0001, |l| if l % 8 + 3 < 8 { l + 3 } else { l });
        check(0xd673_0001, |l| l ^ 3);
        // A group of nine lanes is undefined, a shift beyond the group keeps the lane.
        bench.wave.s[4] = 40;
        set(bench, 1, |_| 900);
        bench.wave.set_exec(u64::MAX);
        bench.run(&[0xd671_0001, 0x0014_0900]);
        expect(bench, 1, |lane| 100 + lane);
    });
}

#[test]
fn banks_extend_register_numbers() {
    on_each(Target::Gfx1250, 32, |bench| {
        for register in [0, 1, 2, 3] {
            for bank in 0..4 {
                set(bench, 256 * bank + register, |_| {
                    1000 * bank + 10 * register + 1
                });
            }
        }
        // Banks: src0 1, src1 2, src2 3, destination 0.
        bench.wave.decode_state = 0b00_11_10_01;
        // v_mad_u32 v1, v0, v2, v3
        bench.run(&[0xd635_0001, 0x040e_0500]);
        expect(bench, 1, |_| 1001 * 2021 + 3031);
        // v_add_nc_u32 v1, v0, v2, destination in bank 3
        bench.wave.decode_state = 0b11_00_10_01;
        bench.run(&[0x4a02_0500]);
        expect(bench, 769, |_| 1001 + 2021);
        // v_fmac_f32 v1, v0, v2: the addend is in the destination's bank
        let one = |value: f32| value.to_bits();
        set(bench, 256, |_| one(2.0));
        set(bench, 514, |_| one(3.0));
        set(bench, 769, |_| one(4.0));
        bench.run(&[0x5602_0500]);
        expect(bench, 769, |_| one(10.0));
        // v_fmamk_f32 v1, v0, 2.0, v2: what is added is in the third source's bank
        bench.wave.decode_state = 0b11_10_00_01;
        bench.run(&[0x5802_0500, 0x4000_0000]);
        expect(bench, 769, |_| one(7.0));
    });
}

#[test]
fn dual_halves_read_before_either_writes() {
    on_each(Target::Gfx1100, 32, |bench| {
        set(bench, 0, |lane| lane);
        set(bench, 1, |lane| 100 + lane);
        bench.wave.set_exec(0x00ff_ffff);
        // v_dual_mov_b32 v0, v1 :: v_dual_mov_b32 v1, v0
        bench.run(&[0xca10_0101, 0x0000_0100]);
        expect(bench, 0, |lane| if lane < 24 { 100 + lane } else { lane });
        expect(bench, 1, |lane| if lane < 24 { lane } else { 100 + lane });
        // v_dual_mov_b32 v0, v1 :: v_dual_add_nc_u32 v1, v0, v0
        bench.run(&[0xca20_0101, 0x0000_0100]);
        expect(bench, 0, |lane| lane);
        expect(bench, 1, |lane| {
            if lane < 24 {
                200 + 2 * lane
            } else {
                100 + lane
            }
        });
    });
    // v_dual_mov_b32 v0, v1 :: v_dual_bitop2_b32 v1, v0, v2 bitop3:0x14 (exclusive or)
    on_each(Target::Gfx1250, 32, |bench| {
        set(bench, 0, |lane| lane);
        set(bench, 1, |_| 7);
        set(bench, 2, |_| 5);
        bench.run(&[0xcf21_2101, 0x0000_0100, 0x0114_0200]);
        expect(bench, 0, |_| 7);
        expect(bench, 1, |lane| lane ^ 5);
    });
}

#[test]
fn tables_of_sixteen_entries() {
    on_each(Target::Gfx1250, 32, |bench| {
        // v_perm_pk16_b4_u4 v[2:3], v0, v1, v[4:5]
        set(bench, 0, |_| 0xfedc_ba98);
        set(bench, 1, |_| 0x7654_3210);
        set(bench, 4, |_| 0x0123_4567);
        set(bench, 5, |_| 0x89ab_cdef);
        bench.run(&[0xd63f_0002, 0x0412_0300]);
        expect(bench, 2, |_| 0x0123_4567);
        expect(bench, 3, |_| 0x89ab_cdef);
        // v_perm_pk16_b6_u4 v[12:14], v0, v[2:3], v[4:5]: entry n of the table is n
        let table = (0..16u128).fold(0, |t, n| t | n << (6 * n));
        set(bench, 2, |_| table as u32);
        set(bench, 3, |_| (table >> 32) as u32);
        set(bench, 0, |_| (table >> 64) as u32);
        bench.run(&[0xd642_000c, 0x0412_0500]);
        let indices = 0x89ab_cdef_0123_4567u64;
        let want = (0..16).fold(0u128, |r, i| {
            r | u128::from(indices >> (4 * i) & 15) << (6 * i)
        });
        for n in 0..3 {
            expect(bench, 12 + n, |_| (want >> (32 * n)) as u32);
        }
        // v_perm_pk16_b8_u4 v[12:15], v[0:1], v[2:3], v[4:5]: entry n is 17 n
        let table = (0..16u128).fold(0, |t, n| t | (17 * n) << (8 * n));
        for (register, n) in [(2, 0), (3, 1), (0, 2), (1, 3)] {
            set(bench, register, |_| (table >> (32 * n)) as u32);
        }
        bench.run(&[0xd643_000c, 0x0412_0500]);
        let want = (0..16).fold(0u128, |r, i| {
            r | (17 * u128::from(indices >> (4 * i) & 15)) << (8 * i)
        });
        for n in 0..4 {
            expect(bench, 12 + n, |_| (want >> (32 * n)) as u32);
        }
    });
}

#[test]
fn great_shift_counts_of_lshl_add_u64() {
    on_each(Target::Gfx1250, 32, |bench| {
        set(bench, 0, |lane| lane % 8);
        set(bench, 4, |_| 0x8000_0001);
        set(bench, 5, |_| 1);
        set(bench, 6, |_| 1);
        set(bench, 7, |_| 0);
        bench.run(&[0xd652_0002, 0x041a_0104]);
        let want = |lane: u32| {
            let n = if lane % 8 > 4 { 0 } else { lane % 8 };
            (0x1_8000_0001u64 << n) + 1
        };
        expect(bench, 2, |lane| want(lane) as u32);
        expect(bench, 3, |lane| (want(lane) >> 32) as u32);
    });
}

#[test]
fn words_of_pairs() {
    // v_pk_mov_b32 v[2:3], v[4:5], v[6:7] op_sel:[1,0]
    on_each(Target::Gfx942, 64, |bench| {
        for register in 4..8 {
            set(bench, register, |lane| 100 * register + lane);
        }
        bench.run(&[0xd3b3_4802, 0x1802_0d04]);
        expect(bench, 2, |lane| 500 + lane);
        expect(bench, 3, |lane| 600 + lane);
    });
}

#[test]
fn classes_ignore_the_denormal_mode() {
    on_each(Target::Gfx942, 64, |bench| {
        bench.wave.mode = 0x300;
        set(bench, 0, |lane| if lane == 0 { 1 } else { 0x3f80_0000 });
        // Negative denormal and negative normal, after -|v0|.
        set(bench, 2, |lane| if lane % 2 == 0 { 1 << 4 } else { 1 << 3 });
        // v_cmp_class_f32_e64 s[4:5], -|v0|, v2
        bench.run(&[0xd010_0104, 0x2002_0500]);
        assert_eq!(bench.wave.s64(4), 0xaaaa_aaaa_aaaa_aaab);
    });
}
