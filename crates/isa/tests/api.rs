//! Names, targets, fields and operands of single instructions.

mod common;

use std::str::FromStr;

use rocjitsu_isa::{
    DecodeError, FeatureSet, Format, Inst, Name, Op, Operand, Special, Target, decode,
};

fn inst(target: Target, set: FeatureSet, words: &[u32]) -> Inst {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    decode(target, set, &bytes).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn targets_have_names() {
    for t in Target::ALL {
        assert_eq!(Target::from_str(&t.to_string()), Ok(t));
    }
    assert_eq!("gfx1103".parse(), Ok(Target::Gfx1100));
    assert_eq!("gfx1150".parse(), Ok(Target::Gfx1151));
    assert_eq!("gfx1200".parse(), Ok(Target::Gfx1201));
    let error = Target::from_str("gfx900").expect_err("unknown");
    assert!(error.to_string().contains("gfx900") && error.to_string().contains("gfx942"));
}

#[test]
fn operations_have_names() {
    for (i, op) in Op::ALL.into_iter().enumerate() {
        assert_eq!(op as usize, i);
        assert_eq!(Op::from_name(op.name()), Some(op));
    }
    assert_eq!(Op::from_name("v_add_f32_e32"), None);
    assert_eq!(Op::from_name("v_dual_fmac_f32"), Some(Op::v_dual_fmac_f32));
}

#[test]
fn scalar_numbers_are_the_same_on_all_targets() {
    // s_mov_b32 s0, CODE
    let source = |target: Target, code: u32| {
        let op = match target.generation() {
            9 | 11 | 12 => 0,
            _ => 3,
        };
        inst(target, FeatureSet::Default, &[0xbe80_0000 | op << 8 | code]).operand(Name::src0)
    };
    for t in Target::ALL {
        let (m0, null) = if t.generation() < 11 {
            (124, 125)
        } else {
            (125, 124)
        };
        assert_eq!(source(t, m0), Some(Operand::Sgpr(125)), "{t}");
        if !t.is_cdna() {
            assert_eq!(source(t, null), Some(Operand::Sgpr(124)), "{t}");
            assert_eq!(source(t, 102), Some(Operand::Sgpr(102)), "{t}");
        } else {
            assert_eq!(
                source(t, 102),
                Some(Operand::Special(Special::FlatScratchLo)),
                "{t}"
            );
        }
        assert_eq!(source(t, 106), Some(Operand::Sgpr(106)), "{t}");
        assert_eq!(source(t, 253), Some(Operand::Special(Special::Scc)), "{t}");
        assert_eq!(source(t, 193), Some(Operand::Const(0xffff_ffff)), "{t}");
        assert_eq!(source(t, 242), Some(Operand::Const(0x3f80_0000)), "{t}");
    }
}

#[test]
fn constants_have_the_bits_of_their_format() {
    let src0 = |words: &[u32]| inst(Target::Gfx942, FeatureSet::Default, words).operand(Name::src0);
    // v_add_f32_e32, v_add_f16_e32, v_add_u16_e32 v0, 1.0, v0
    assert_eq!(src0(&[0x0200_00f2]), Some(Operand::Const(0x3f80_0000)));
    assert_eq!(src0(&[0x3e00_00f2]), Some(Operand::Const(0x3c00)));
    assert_eq!(src0(&[0x4c00_00f2]), Some(Operand::Const(0)));
    // v_cvt_i32_f64_e32 v0, 1.0; v0, -1; v0, 0x40000000
    assert_eq!(
        src0(&[0x7e00_06f2]),
        Some(Operand::Const(0x3ff0_0000_0000_0000))
    );
    assert_eq!(src0(&[0x7e00_06c1]), Some(Operand::Const(u64::MAX)));
    assert_eq!(
        src0(&[0x7e00_06ff, 0x4000_0000]),
        Some(Operand::Literal(0x4000_0000_0000_0000))
    );
    // v_pk_add_f16 v0, 1.0, v0
    assert_eq!(
        src0(&[0xd38f_0000, 0x1800_00f2]),
        Some(Operand::Const(0x3c00))
    );
    // v_fma_mix_f32 v0, 1.0, v0, v0: binary32, but binary16 with op_sel_hi
    assert_eq!(
        src0(&[0xd3a0_0000, 0x0402_00f2]),
        Some(Operand::Const(0x3f80_0000))
    );
    assert_eq!(
        src0(&[0xd3a0_0000, 0x0c02_00f2]),
        Some(Operand::Const(0x3c00))
    );
}

#[test]
fn halves_are_named_with_true16() {
    // v_add_f16_e64 v1.h, v2.l, v3.h on gfx1100 and gfx1201
    let words = [0xd532_5001, 0x0002_0702];
    for (target, set) in [
        (Target::Gfx1100, FeatureSet::Default),
        (Target::Gfx1201, FeatureSet::True16),
    ] {
        let i = inst(target, set, &words);
        assert_eq!(
            i.operand(Name::vdst),
            Some(Operand::Vgpr16 { reg: 1, high: true })
        );
        assert_eq!(
            i.operand(Name::src0),
            Some(Operand::Vgpr16 {
                reg: 2,
                high: false
            })
        );
        assert_eq!(
            i.operand(Name::src1),
            Some(Operand::Vgpr16 { reg: 3, high: true })
        );
        assert_eq!(i.field(Name::op_sel), Some(0b1010));
        assert_eq!(i.text(set), "v_add_f16_e64 v1.h, v2.l, v3.h op_sel:[0,1,1]");
    }
    // v_add_f16_e32 v1.h, v2.l, v3.h: the default set of gfx1201 cannot name it, and says so.
    let bytes = 0x6503_0702u32.to_le_bytes();
    let i = decode(Target::Gfx1201, FeatureSet::True16, &bytes).expect("v_add_f16_e32");
    assert_eq!(
        i.operand(Name::vdst),
        Some(Operand::Vgpr16 { reg: 1, high: true })
    );
    let error = decode(Target::Gfx1201, FeatureSet::Default, &bytes).expect_err("whole registers");
    assert!(
        matches!(
            error,
            DecodeError::Operand {
                operand: Name::vdst,
                code: 129,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn wave64_matrices_have_their_width_with_true16() {
    let target = Target::Gfx1201;
    assert_eq!(target.execution_set(64), FeatureSet::True16Wave64);
    assert_eq!(Target::Gfx942.execution_set(64), FeatureSet::Default);
    assert_eq!(Target::Gfx1100.execution_set(64), FeatureSet::Wave64);
    let mut count = 0;
    for v in common::vectors("vectors.gfx1201.wave64.tsv.xz")
        .iter()
        .filter(|v| v.text.contains("wmma_"))
    {
        let Ok(i) = decode(target, target.execution_set(64), &v.bytes) else {
            continue;
        };
        assert_eq!(i.text(target.execution_set(64)), v.text);
        count += 1;
    }
    assert!(count > 100, "{count}");
}

#[test]
fn tied_operands_are_the_same_register() {
    // v_dual_fmac_f32 v30, v64, v1 :: v_dual_fmac_f32 v73, v26, v11: the second destination is odd.
    let i = inst(
        Target::Gfx1100,
        FeatureSet::Default,
        &[0xc800_0340, 0x1e48_171a],
    );
    assert_eq!(i.format(), Format::VOPD);
    assert_eq!(
        (i.op(), i.op_y()),
        (Op::v_dual_fmac_f32, Some(Op::v_dual_fmac_f32))
    );
    assert_eq!(i.operand(Name::vdstY), Some(Operand::Vgpr(73)));
    assert_eq!(i.operand(Name::src2Y), Some(Operand::Vgpr(73)));
    assert_eq!(i.operand(Name::src2X), i.operand(Name::vdstX));
    // s_bitset0_b32 s60, s28
    let i = inst(Target::Gfx950, FeatureSet::Default, &[0xbebc_181c]);
    assert_eq!(i.operand(Name::sdst_in), Some(Operand::Sgpr(60)));
}

#[test]
fn accumulators_are_told_apart() {
    // v_mfma_f32_32x32x8_f16 a[0:15], v[2:3], a[4:5], a[0:15]
    let i = inst(
        Target::Gfx942,
        FeatureSet::Default,
        &[0xd3cc_8000, 0x1402_0902],
    );
    assert_eq!(i.operand(Name::vdst), Some(Operand::Agpr(0)));
    assert_eq!(i.operand(Name::src0), Some(Operand::Vgpr(2)));
    assert_eq!(i.operand(Name::src1), Some(Operand::Agpr(4)));
    assert_eq!(i.bits(Name::vdst), Some(512));
}

#[test]
fn errors_name_their_cause() {
    let error = decode(
        Target::Gfx942,
        FeatureSet::Default,
        &[0xff, 0xff, 0xff, 0xff],
    )
    .expect_err("no instruction");
    assert_eq!(
        error.to_string(),
        "no instruction of gfx942 begins with ffffffff"
    );
    let error = decode(Target::Gfx942, FeatureSet::Default, &[1, 2]).expect_err("too short");
    assert!(error.to_string().contains("2 bytes left"), "{error}");
    // v_add_f64 v[1:2], ...: not aligned
    let bytes: Vec<u8> = [0xd280_0001u32, 0x0000_0502]
        .iter()
        .flat_map(|w| w.to_le_bytes())
        .collect();
    let error = decode(Target::Gfx90a, FeatureSet::Default, &bytes).expect_err("odd tuple");
    assert!(
        error.to_string().contains("vdst begins at register 1"),
        "{error}"
    );
}

/// The hardware does not look at the VGPR fields that an instruction has no use for; LLVM knows them as zeros only.
#[test]
fn unused_vgpr_fields_are_ignored() {
    // A dual move has one source: v_dual_mov_b32 v2, 0x64 :: v_dual_add_nc_u32 v1, v0, v1, v2 in the idle field.
    for target in [Target::Gfx1100, Target::Gfx1151, Target::Gfx1201] {
        let set = FeatureSet::Default;
        let clean = inst(target, set, &[0xca20_00ff, 0x0200_0300, 0x64]);
        let dirty = inst(target, set, &[0xca20_04ff, 0x0200_0300, 0x64]);
        assert_eq!(clean.text(set), dirty.text(set), "{target}");
        assert_eq!(dirty.len(), 12, "{target}");
    }
    // Bytes 4 to 7 of DS are address, two sources, destination; those of FLAT and GLOBAL address, source,
    // scalar address (which is no VGPR), destination.
    let mut tried = 0;
    for (target, set, name) in common::files() {
        for v in common::vectors(&name).iter().step_by(5) {
            let Ok(clean) = decode(target, set, &v.bytes) else {
                continue;
            };
            let row = clean.row();
            if !matches!(row.format, Format::DS | Format::FLAT | Format::GLOBAL) {
                continue;
            }
            for byte in 4..8 {
                let field = 0xff << (8 * byte);
                let scalar = byte == 6 && row.format != Format::DS;
                if scalar || row.mask & field != field || row.value & field != 0 {
                    continue;
                }
                let mut bytes = v.bytes.clone();
                bytes[byte] = 0x5a;
                let dirty = decode(target, set, &bytes)
                    .unwrap_or_else(|e| panic!("{target} {}, byte {byte}: {e}", v.text));
                assert_eq!(dirty.row().record, row.record, "{target} {}", v.text);
                assert_eq!(dirty.text(set), clean.text(set), "{target}");
                tried += 1;
            }
        }
    }
    assert!(tried > 5000, "{tried}");
}
