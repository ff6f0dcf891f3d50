//! Bytes that are no instruction: truncated, irregular and random ones give errors and never a panic.

mod common;

#[path = "../../../fuzz/bodies/decode.rs"]
mod fuzz_decode;

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rocjitsu_isa::{DecodeError, FeatureSet, Format, Inst, Name, Target, decode};

/// Does with an instruction all that can be done with one; gives the length of its text.
fn use_all(i: &Inst, set: FeatureSet) -> usize {
    let effects = i.effects(32).writes.len() + i.effects(64).reads.len();
    let fields: usize = Name::ALL
        .iter()
        .filter(|&&n| i.field(n).is_some() | i.operand(n).is_some())
        .count();
    let operands = i.operands().filter(|o| o.bits > 0).count();
    assert!(
        i.len() >= 4 && i.len() <= 20 && i.len().is_multiple_of(4),
        "{i:?}"
    );
    assert!(operands <= fields, "{i:?}");
    i.text(set).len() + effects
}

/// The scale half of a scaled matrix instruction is one of its own (`v_mfma_ld_scale_b32`,
/// `v_wmma_ld_scale_paired_b32`).
fn splits(i: &Inst) -> bool {
    i.format() == Format::VOP3PX
}

#[test]
fn truncations_are_named() {
    for (target, set, name) in common::files() {
        let list: Vec<_> = common::vectors(&name)
            .into_iter()
            .filter(|v| v.flag == 'a')
            .collect();
        let config = Config {
            cases: 3000,
            failure_persistence: None,
            ..Config::default()
        };
        let mut runner = TestRunner::new_with_rng(
            config,
            proptest::test_runner::TestRng::deterministic_rng(
                proptest::test_runner::RngAlgorithm::ChaCha,
            ),
        );
        runner
            .run(
                &(0..list.len(), any::<prop::sample::Index>()),
                |(n, cut)| {
                    let bytes = &list[n].bytes;
                    let Ok(whole) = decode(target, set, bytes) else {
                        return Ok(());
                    };
                    let have = cut.index(bytes.len());
                    match decode(target, set, &bytes[..have]) {
                        Err(DecodeError::Truncated { have: h, need, .. }) => {
                            prop_assert!(
                                h == have && need > have && need <= bytes.len(),
                                "{have} bytes of {}: {need} needed",
                                list[n].text
                            );
                        }
                        Ok(i) if splits(&whole) && i.len() == 8 => {}
                        other => prop_assert!(false, "{have} bytes of {}: {other:?}", list[n].text),
                    }
                    Ok(())
                },
            )
            .unwrap_or_else(|e| panic!("{target} {set:?}: {e}"));
    }
}

#[test]
fn what_follows_does_not_matter() {
    for (target, set, name) in common::files() {
        for v in common::vectors(&name).iter().step_by(7) {
            let Ok(alone) = decode(target, set, &v.bytes) else {
                continue;
            };
            let mut more = v.bytes.clone();
            more.extend([0xff; 20]);
            let followed = decode(target, set, &more).unwrap_or_else(|e| panic!("{}: {e}", v.text));
            assert_eq!(format!("{alone:?}"), format!("{followed:?}"));
        }
    }
}

/// What LLVM refuses (X), takes with a complaint (F, N), or prints with an operand of a kind that the
/// instruction does not take (I) or a misaligned tuple (A). We refuse all that names no operand of the chip.
/// We take more than LLVM where a field that the instruction ignores holds something else than zero, since
/// the hardware does; the numbers below are a record of how much that is.
#[test]
fn irregular_bytes_do_no_harm() {
    let mut taken: BTreeMap<char, (usize, usize)> = BTreeMap::new();
    for target in Target::ALL {
        for line in common::read(&format!("irregular.{target}.tsv.xz")).lines() {
            let mut p = line.split('\t');
            let (hex, code) = (
                p.next().expect("bytes"),
                p.next().and_then(|c| c.chars().next()).expect("code"),
            );
            let bytes = common::unhex(hex);
            let count = taken.entry(code).or_default();
            count.1 += 1;
            for set in FeatureSet::ALL {
                match decode(target, set, &bytes) {
                    Ok(i) => {
                        count.0 += usize::from(set == FeatureSet::Default);
                        use_all(&i, set);
                    }
                    Err(e) => assert!(!e.to_string().is_empty()),
                }
            }
        }
    }
    println!("code: (taken, all) {taken:?}");
    let total: usize = taken.values().map(|t| t.1).sum();
    assert!(total > 15_000, "{total}");
}

/// A small generator, so that failures can be told by their number.
struct Xorshift(u64);

impl Xorshift {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn random_bytes_do_no_harm() {
    const CASES: usize = 130_000;
    let mut instructions = 0;
    let mut rng = Xorshift(0x9e37_79b9_7f4a_7c15);
    for target in Target::ALL {
        // Half of the cases are random bits; half are rows with random bits where the row leaves them open.
        let rows = target.table().rows();
        for n in 0..CASES {
            let mut word = u128::from(rng.next()) << 64 | u128::from(rng.next());
            if n % 2 == 0 {
                let row = &rows[rng.next() as usize % rows.len()];
                word = word & !row.mask | row.value;
            }
            let mut bytes = [0u8; 24];
            bytes[..16].copy_from_slice(&word.to_le_bytes());
            bytes[16..].copy_from_slice(&rng.next().to_le_bytes());
            let bytes = &bytes[..rng.next() as usize % 25];
            let set = FeatureSet::ALL[n / 2 % 4];
            match decode(target, set, bytes) {
                Ok(i) => {
                    instructions += 1;
                    if n % 8 < 2 {
                        use_all(&i, set);
                    }
                }
                Err(e) => {
                    if n % 64 == 0 {
                        assert!(!e.to_string().is_empty());
                    }
                }
            }
        }
    }
    assert!(instructions > CASES, "{instructions}");
}

/// The fuzz target `decode` with inputs that are made here, always the same ones: every target and feature set.
#[test]
fn the_fuzz_target_takes_random_code() {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    for input in 0..720u32 {
        let mut data = vec![(input % 36) as u8];
        for _ in 0..64 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            data.extend(state.to_le_bytes());
        }
        fuzz_decode::run(&data);
    }
}
