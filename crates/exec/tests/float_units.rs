//! Float vector instructions whose results the manuals fix: modes, modifiers, packed and mixed operands, 8-bit
//! floats, scaled conversions, division. On every back end of the host.

mod common;

use common::{Bench, Memory};
use rocjitsu_exec::wave::scalar;
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;

/// Runs `test` on every back end.
fn on_each(target: Target, test: impl Fn(&mut Bench<'_>)) {
    let memory = Memory::new(0x1_0000, 64);
    for backend in Backend::supported() {
        test(&mut Bench::new(
            target,
            target.default_wave(),
            backend,
            &memory,
        ));
    }
}

fn set(bench: &mut Bench<'_>, register: u32, word: u32) {
    bench
        .wave
        .v
        .write(register, &mut bench.unit.pool)
        .fill(word);
}

fn get(bench: &Bench<'_>, register: u32) -> u32 {
    let row = bench.wave.v.read(register);
    assert!(row.iter().all(|&w| w == row[0]), "lanes differ: {row:x?}");
    row[0]
}

/// v_add_f32 v2, v0, v1 under each rounding direction, and with subnormals flushed.
#[test]
fn sums_follow_mode() {
    on_each(Target::Gfx942, |bench| {
        set(bench, 0, 0x3f80_0000);
        set(bench, 1, 0x3300_0001);
        for (mode, want) in [
            (0x3f0, 0x3f80_0000),
            (0x3f1, 0x3f80_0001),
            (0x3f2, 0x3f80_0000),
            (0x3f3, 0x3f80_0000),
        ] {
            bench.wave.mode = mode;
            bench.run(&[0x0204_0300]);
            assert_eq!(get(bench, 2), want, "mode {mode:x}");
        }
        // Half the least normal number twice.
        set(bench, 0, 0x0040_0000);
        set(bench, 1, 0x0040_0000);
        for (mode, want) in [(0x3f0, 0x0080_0000), (0x3c0, 0)] {
            bench.wave.mode = mode;
            bench.run(&[0x0204_0300]);
            assert_eq!(get(bench, 2), want, "mode {mode:x}");
        }
    });
}

/// v_cvt_f16_f32 v2, v0: FP16_OVFL keeps finite results finite.
#[test]
fn overflow_of_f16_follows_mode() {
    on_each(Target::Gfx942, |bench| {
        set(bench, 0, 1e6f32.to_bits());
        bench.run(&[0x7e04_1500]);
        assert_eq!(get(bench, 2), 0x7c00);
        bench.wave.mode |= 1 << 23;
        bench.run(&[0x7e04_1500]);
        assert_eq!(get(bench, 2), 0x7bff);
    });
}

/// v_pk_fma_f32 v[4:5], v[0:1], v[2:3], v[0:1] with op_sel and neg.
#[test]
fn packed_f32_selects_registers_and_signs() {
    on_each(Target::Gfx942, |bench| {
        for (r, x) in [2f32, 3.0, 5.0, 7.0].into_iter().enumerate() {
            set(bench, r as u32, x.to_bits());
        }
        let value = |bench: &Bench<'_>, r| f32::from_bits(get(bench, r));
        // Plain: 2 * 5 + 2, 3 * 7 + 3.
        bench.run(&[0xd3b0_4004, 0x1c02_0500]);
        assert_eq!([value(bench, 4), value(bench, 5)], [12.0, 24.0]);
        // op_sel:[1,0,0] op_sel_hi:[0,1,1]: 3 * 5 + 2, 2 * 7 + 3.
        bench.run(&[0xd3b0_4804, 0x1402_0500]);
        assert_eq!([value(bench, 4), value(bench, 5)], [17.0, 17.0]);
        // neg_lo:[1,0,0] neg_hi:[0,1,0]: -2 * 5 + 2, 3 * -7 + 3.
        bench.run(&[0xd3b0_4204, 0x3c02_0500]);
        assert_eq!([value(bench, 4), value(bench, 5)], [-8.0, -18.0]);
    });
}

/// v_fma_mix_f32 and v_fma_mixhi_f16: each source as f32 or as one half.
#[test]
fn mixed_sources_are_chosen_one_by_one() {
    on_each(Target::Gfx942, |bench| {
        // v0: f16 halves 2 (low) and 3 (high); v1: f32 0.5; v2 keeps its low half.
        set(bench, 0, 0x4200_4000);
        set(bench, 1, 0.5f32.to_bits());
        set(bench, 2, 0x1234_5678);
        // v_fma_mix_f32 v3, v0, v1, v0 op_sel:[1,0,0] op_sel_hi:[1,0,1]: 3 * 0.5 + 2.
        bench.run(&[0xd3a0_4803, 0x0c02_0300]);
        assert_eq!(f32::from_bits(get(bench, 3)), 3.5);
        // The inline constant 1.0 as an f32: v_fma_mix_f32 v3, v0, v1, 1.0 op_sel_hi:[1,0,0]: 2 * 0.5 + 1.
        bench.run(&[0xd3a0_0003, 0x0bca_0300]);
        assert_eq!(f32::from_bits(get(bench, 3)), 2.0);
        // v_fma_mixhi_f16 v2, v0, v1, v0 op_sel:[1,0,0] op_sel_hi:[1,0,1]
        bench.run(&[0xd3a2_4802, 0x0c02_0300]);
        assert_eq!(get(bench, 2), 0x4300_5678);
    });
}

/// Division of 1 by 3 as compilers write it, v_div_scale to v_div_fixup.
#[test]
fn division_is_correctly_rounded() {
    on_each(Target::Gfx942, |bench| {
        for (n, d) in [
            (1f32, 3f32),
            (7.0, -1e-40),
            (1e-40, 3.0),
            (3e38, 1e-3),
            (5.0, 3e38),
            (0.0, 2.0),
            (1.0, 0.0),
        ] {
            // v0 numerator, v1 denominator.
            set(bench, 0, n.to_bits());
            set(bench, 1, d.to_bits());
            for code in [
                // v_div_scale_f32 v2, s[4:5], v1, v1, v0; v_div_scale_f32 v3, vcc, v0, v1, v0; v_rcp_f32 v4, v2
                &[0xd1e0_0402, 0x0402_0301][..],
                &[0xd1e0_6a03, 0x0402_0300],
                &[0x7e08_4502],
                // v_fma_f32 v5, -v2, v4, 1.0; v_fma_f32 v4, v5, v4, v4; v_mul_f32 v5, v3, v4
                &[0xd1cb_0005, 0x23ca_0902],
                &[0xd1cb_0004, 0x0412_0905],
                &[0x0a0a_0903],
                // v_fma_f32 v6, -v2, v5, v3; v_fma_f32 v5, v6, v4, v5; v_fma_f32 v2, -v2, v5, v3
                &[0xd1cb_0006, 0x240e_0b02],
                &[0xd1cb_0005, 0x0416_0906],
                &[0xd1cb_0002, 0x240e_0b02],
                // v_div_fmas_f32 v2, v2, v4, v5; v_div_fixup_f32 v2, v2, v1, v0
                &[0xd1e2_0002, 0x0416_0902],
                &[0xd1de_0002, 0x0402_0302],
            ] {
                bench.run(code);
            }
            assert_eq!(get(bench, 2), (n / d).to_bits(), "{n} / {d}");
        }
    });
}

/// v_cvt_pk_fp8_f32 and v_cvt_f32_fp8: FNUZ on gfx942, OCP on gfx950.
#[test]
fn formats_of_8_bits_differ_by_target() {
    for (target, code) in [
        (Target::Gfx942, 0xc840_c840u32),
        (Target::Gfx950, 0xc038_c038),
    ] {
        on_each(target, |bench| {
            set(bench, 0, 1f32.to_bits());
            set(bench, 1, (-2f32).to_bits());
            // v_cvt_pk_fp8_f32 v2, v0, v1, and to the high half with op_sel:[0,0,1].
            bench.run(&[0xd2a2_0002, 0x0002_0300]);
            bench.run(&[0xd2a2_4002, 0x0002_0300]);
            assert_eq!(get(bench, 2), code);
            // v_cvt_f32_fp8 v3, v2
            bench.run(&[0x7e06_a902]);
            assert_eq!(f32::from_bits(get(bench, 3)), 1.0);
        });
    }
}

/// v_cvt_scalef32_pk_fp8_f32 v2, v0, v1, v3 op_sel:[0,0,0,1] on gfx950: the other half stays.
#[test]
fn scaled_conversions_keep_the_rest() {
    on_each(Target::Gfx950, |bench| {
        set(bench, 0, 2f32.to_bits());
        set(bench, 1, (-4f32).to_bits());
        set(bench, 2, 0x1111_2222);
        set(bench, 3, 2f32.to_bits());
        bench.run(&[0xd235_4002, 0x040e_0300]);
        assert_eq!(get(bench, 2), 0xc038_2222);
    });
}

/// v_s_rcp_f32 s2, s4: the result is scalar, whatever EXEC is.
#[test]
fn scalar_transcendentals_ignore_exec() {
    on_each(Target::Gfx1201, |bench| {
        bench.wave.set_exec(0);
        bench.wave.s[4] = 4f32.to_bits();
        bench.run(&[0xd684_0002, 0x0000_0004]);
        assert_eq!(f32::from_bits(bench.wave.s[2]), 0.25);
        assert_eq!(bench.wave.s[scalar::EXEC], 0);
    });
}
