//! Register effects: single cases, properties of every vector, and what an emulator observed.

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};

use rocjitsu_isa::{Effects, FeatureSet, Flag, RegFile, Target, decode};

fn effects(target: Target, wave: u32, words: &[u32]) -> Effects {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    decode(target, target.execution_set(wave), &bytes)
        .expect("an instruction")
        .effects(wave)
}

fn shown(e: &Effects) -> String {
    format!("{:?} <- {:?}", e.writes, e.reads)
}

#[test]
fn single_cases() {
    let cases: [(Target, u32, &[u32], &str); 11] = [
        // v_add_f32_e32 v1, s2, v3
        (
            Target::Gfx942,
            64,
            &[0x02020602],
            "[Vgpr[1..2]] <- [Sgpr[2..3], Vgpr[3..4], Sgpr[126..128], Mode[0..1]]",
        ),
        // v_cmp_lt_f32_e32 vcc, v1, v2
        (
            Target::Gfx942,
            64,
            &[0x7c820501],
            "[Sgpr[106..108]] <- [Vgpr[1..2], Vgpr[2..3], Sgpr[126..128], Mode[0..1]]",
        ),
        // the same opcode on gfx1100 in both wave sizes: v_cmp_lt_f32_e32
        (
            Target::Gfx1100,
            32,
            &[0x7c220501],
            "[Sgpr[106..107]] <- [Vgpr[1..2], Vgpr[2..3], Sgpr[126..127], Mode[0..1]]",
        ),
        (
            Target::Gfx1100,
            64,
            &[0x7c220501],
            "[Sgpr[106..108]] <- [Vgpr[1..2], Vgpr[2..3], Sgpr[126..128], Mode[0..1]]",
        ),
        // s_and_saveexec_b64 s[2:3], vcc
        (
            Target::Gfx942,
            64,
            &[0xbe82206a],
            "[Sgpr[2..4], Scc[0..1], Sgpr[126..128]] <- [Sgpr[106..108], Sgpr[126..128]]",
        ),
        // s_and_saveexec_b64 s[2:3], vcc in a wave of 32 lanes
        (
            Target::Gfx1100,
            32,
            &[0xbe82216a],
            "[Sgpr[2..4], Scc[0..1], Sgpr[126..128]] <- [Sgpr[106..108], Sgpr[126..128]]",
        ),
        // s_add_u32 s0, s1, 5
        (
            Target::Gfx942,
            64,
            &[0x80008501],
            "[Sgpr[0..1], Scc[0..1]] <- [Sgpr[1..2]]",
        ),
        // global_load_dwordx4 a[4:7], v[2:3], off
        (
            Target::Gfx942,
            64,
            &[0xdc5c8000, 0x04ff0002],
            "[Agpr[4..8]] <- [Vgpr[2..4], Sgpr[126..128]]",
        ),
        // v_mfma_f32_32x32x8_f16 a[0:15], v[2:3], v[4:5], a[0:15]
        (
            Target::Gfx942,
            64,
            &[0xd3cc8000, 0x04020902],
            "[Agpr[0..16]] <- [Vgpr[2..4], Vgpr[4..6], Agpr[0..16], Sgpr[126..128], Mode[0..1]]",
        ),
        // v_mov_b16_e32 v1.h, v2.l
        (
            Target::Gfx1100,
            32,
            &[0x7f023902],
            "[Vgpr[1..2].h] <- [Vgpr[2..3].l, Sgpr[126..127]]",
        ),
        // s_load_dwordx2 s[4:5], s[0:1], 0x0
        (
            Target::Gfx942,
            64,
            &[0xc0060100, 0],
            "[Sgpr[4..6]] <- [Sgpr[0..2]]",
        ),
    ];
    for (target, wave, words, want) in cases {
        assert_eq!(
            shown(&effects(target, wave, words)),
            want,
            "{target} {words:08x?}"
        );
    }
}

/// How far a file reaches.
fn limit(target: Target, file: RegFile) -> u16 {
    match file {
        RegFile::Vgpr if target == Target::Gfx1250 => 1024,
        RegFile::Vgpr | RegFile::Agpr => 256,
        RegFile::Sgpr => 128,
        RegFile::FlatScratch | RegFile::XnackMask => 2,
        RegFile::Scc | RegFile::Mode | RegFile::AsyncCount | RegFile::TensorCount => 1,
    }
}

#[test]
fn every_vector_stays_in_the_register_files() {
    let mut checked = 0;
    for (target, set, name) in common::files() {
        let wave = if set == FeatureSet::Wave64 || target.is_cdna() {
            64
        } else {
            32
        };
        for v in common::vectors(&name) {
            let Ok(i) = decode(target, set, &v.bytes) else {
                continue;
            };
            let e = i.effects(wave);
            for r in e.reads.iter().chain(&e.writes) {
                assert!(
                    r.count > 0 && r.first + r.count <= limit(target, r.file),
                    "{target} {}: {r:?}",
                    v.text
                );
                assert!(
                    !r.contains(RegFile::Sgpr, 124),
                    "{target} {}: {r:?} holds null",
                    v.text
                );
                assert!(
                    target.is_cdna() || r.file != RegFile::Agpr,
                    "{target} {}: {r:?}",
                    v.text
                );
            }
            // What stores writes no VGPR; a vector instruction that EXEC rules reads EXEC.
            if i.row().has_flag(Flag::mayStore) && !i.row().has_flag(Flag::mayLoad) {
                assert!(
                    e.writes.iter().all(|r| r.file != RegFile::Vgpr),
                    "{target} {}: {e:?}",
                    v.text
                );
            }
            let name = i.op().name();
            let everywhere = ["lane_b32", "movrelsd_2", "swaprel", "tensor"]
                .iter()
                .any(|n| name.contains(n));
            if i.row().has_flag(Flag::VALU) && !everywhere {
                assert!(e.reads(RegFile::Sgpr, 126), "{target} {}: {e:?}", v.text);
            }
            checked += 1;
        }
    }
    assert!(checked > 900_000, "{checked}");
}

/// Registers of `data/semantics` cases: what was given was enough, what changed was announced.
#[test]
fn observed_effects_are_announced() {
    for target in [Target::Gfx950, Target::Gfx1100, Target::Gfx1201] {
        let wave = target.default_wave();
        let path = format!(
            "{}/../../data/semantics/{target}.jsonl.xz",
            env!("CARGO_MANIFEST_DIR")
        );
        let mut file =
            liblzma::read::XzDecoder::new(std::fs::File::open(&path).expect("semantics"));
        let mut raw = Vec::new();
        file.read_to_end(&mut raw).expect("xz data");
        let mut cases = 0;
        for line in BufReader::new(&raw[..]).lines() {
            let line = line.expect("UTF-8");
            if !line.contains("\"asm\"") {
                continue;
            }
            let case: serde_json::Value = serde_json::from_str(&line).expect("JSON");
            let text = |k: &str| case[k].as_str().unwrap_or_default().to_string();
            let bytes = common::unhex(&text("hex"));
            let i = decode(target, target.execution_set(wave), &bytes)
                .unwrap_or_else(|e| panic!("{}: {e}", text("asm")));
            if let Ok(whole) = decode(target, FeatureSet::Default, &bytes) {
                assert_eq!(whole.text(FeatureSet::Default), text("asm"));
            }
            let e = i.effects(wave);
            let keys = |v: &serde_json::Value| -> BTreeSet<u16> {
                v.as_object()
                    .map(|o| o.keys().map(|k| k.parse().expect("register")).collect())
                    .unwrap_or_default()
            };
            let out = &case["out"];
            let what = format!("{target} {}: {}", text("asm"), shown(&e));
            for (key, file) in [
                ("v", RegFile::Vgpr),
                ("a", RegFile::Agpr),
                ("s", RegFile::Sgpr),
            ] {
                let given = keys(&case[key]);
                for r in keys(&out[key]) {
                    assert!(e.writes(file, r), "{what}: {key}{r} changed");
                }
                for r in e.reads.iter().filter(|r| r.file == file) {
                    for n in r.first..r.first + r.count {
                        assert!(
                            given.contains(&n) || file == RegFile::Sgpr && n >= 106,
                            "{what}: {key}{n} is not given"
                        );
                    }
                }
            }
            for (key, file, register) in [
                ("vcc", RegFile::Sgpr, 106),
                ("exec", RegFile::Sgpr, 126),
                ("m0", RegFile::Sgpr, 125),
                ("scc", RegFile::Scc, 0),
            ] {
                assert!(
                    out[key].is_null() || e.writes(file, register),
                    "{what}: {key} changed"
                );
            }
            cases += 1;
        }
        assert!(cases > 6000, "{cases} cases of {target}");
    }
}
