//! Which scalar instructions of each target's table have no semantics; all others must lower.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use rocjitsu_exec::families;
use rocjitsu_exec::lower::{Lowering, State};
use rocjitsu_exec::refusal;
use rocjitsu_exec::target::EXECUTABLE;
use rocjitsu_exec::wave::Wave;
use rocjitsu_isa::{Format, Target, decode};
use rocjitsu_lanes::Backend;

fn is_scalar(format: Format) -> bool {
    use Format::*;
    matches!(
        format,
        SOP1 | SOP2 | SOP2_LIT | SOPC | SOPK | SOPK_LIT | SOPP | SMEM
    )
}

/// No operand makes these work: returns from trap handlers, of which there is none here. Where the table has one, its
/// reason must be stated.
const WITHOUT_SEMANTICS: &[&str] = &["s_rfe_b64", "s_rfe_restore_b64", "s_rfe_i64"];

/// These work with some operands and not with others: hardware registers and messages that the target lacks
/// or that only trap handlers and graphics use; barriers named by a register other than M0.
const PARTLY: &[&str] = &[
    "s_getreg_b32",
    "s_setreg_b32",
    "s_setreg_imm32_b32",
    "s_sendmsg",
    "s_sendmsg_rtn_b32",
    "s_sendmsg_rtn_b64",
    "s_barrier_signal",
    "s_barrier_signal_isfirst",
    "s_barrier_init",
    "s_barrier_join",
    "s_get_barrier_state",
];

/// Instructions that no vector has with operands that work (gfx12): `s_sendmsg` INTERRUPT,
/// `s_sendmsg_rtn_b64` GET_REALTIME.
const EXTRA: &str = "0100b6bf\ts_sendmsg sendmsg(MSG_INTERRUPT)\n834d80be\ts_sendmsg_rtn_b64";

/// Lines of the target's vectors: bytes in hex, text.
fn vectors(target: Target) -> String {
    let mut lines = common::read_xz(&format!("isa/vectors.{target}.tsv.xz"));
    if target.generation() == 12 {
        lines.push_str(EXTRA);
    }
    lines
}

#[test]
fn all_but_the_listed_lower() {
    let mut wrong = Vec::new();
    for target in EXECUTABLE {
        let state = State::of(&Wave::new(target.default_wave()));
        // Mnemonic: vectors that lower, vectors that do not, one of those.
        let mut seen: BTreeMap<String, (usize, usize, String)> = BTreeMap::new();
        let mut records = BTreeSet::new();
        for line in vectors(target).lines() {
            let mut parts = line.split('\t');
            let (Some(hex), Some(text)) = (parts.next(), parts.next()) else {
                panic!("{line}")
            };
            let bytes = common::hex_bytes(hex);
            let Ok(inst) = decode(target, target.execution_set(target.default_wave()), &bytes)
            else {
                continue;
            };
            if !is_scalar(inst.format()) {
                continue;
            }
            records.insert(inst.row().record);
            let mut lowering = Lowering::new(target, Backend::Scalar, state);
            let entry = seen.entry(inst.row().mnemonic.to_owned()).or_default();
            match families::lower(&inst, 0x1000, &mut lowering) {
                Some(_) => entry.0 += 1,
                None => {
                    assert!(
                        refusal::reason(inst.op()).is_some()
                            || text.contains("s_barrier")
                            || text.contains("barrier_state"),
                        "{target} {text}: no reason"
                    );
                    entry.1 += 1;
                    entry.2 = text.to_owned();
                }
            }
        }
        for row in target
            .table()
            .rows()
            .iter()
            .filter(|r| is_scalar(r.format) && !records.contains(r.record))
        {
            wrong.push(format!("{target}: no vector of {}", row.record));
        }
        for (mnemonic, (good, bad, example)) in &seen {
            let name = mnemonic.as_str();
            let listed = WITHOUT_SEMANTICS.contains(&name);
            match (listed, *good, *bad) {
                (true, 0, _) | (false, _, 0) => {}
                (true, ..) => wrong.push(format!(
                    "{target} {name}: listed as without semantics, but has some"
                )),
                (false, 1.., _) if PARTLY.contains(&name) => {}
                (false, good, bad) => wrong.push(format!(
                    "{target} {name}: {bad} of {} do not lower, e.g. {example}",
                    good + bad
                )),
            }
        }
        // Every mnemonic of the table that no vector reached would be missed above.
        assert!(seen.len() > 150, "{target}: only {} mnemonics", seen.len());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What compilers emit (`data/corpus`) lowers, all of it.
#[test]
fn the_corpus_lowers() {
    for target in EXECUTABLE {
        let Ok(list) =
            std::fs::read_to_string(common::data(&format!("corpus/mnemonics.{target}.txt")))
        else {
            continue;
        };
        let wanted: BTreeSet<&str> = list
            .lines()
            .filter_map(|l| l.split_whitespace().next())
            .collect();
        let mut missing: BTreeSet<&str> = wanted
            .iter()
            .copied()
            .filter(|m| m.starts_with("s_"))
            .collect();
        assert!(missing.len() > 50, "{target}");
        let state = State::of(&Wave::new(target.default_wave()));
        for line in vectors(target).lines() {
            let bytes = common::hex_bytes(line.split('\t').next().unwrap_or(""));
            let Ok(inst) = decode(target, target.execution_set(target.default_wave()), &bytes)
            else {
                continue;
            };
            let mut lowering = Lowering::new(target, Backend::Scalar, state);
            if missing.contains(inst.row().mnemonic)
                && families::lower(&inst, 0, &mut lowering).is_some()
            {
                missing.remove(inst.row().mnemonic);
            }
        }
        assert!(missing.is_empty(), "{target}: {missing:?}");
    }
}
