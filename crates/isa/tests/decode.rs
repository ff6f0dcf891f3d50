//! Every vector decodes to the instruction that LLVM names, with its length.

mod common;

use std::collections::BTreeMap;

use rocjitsu_isa::{DecodeError, decode};

/// The mnemonics of a text: the first word of each half.
fn mnemonic(text: &str) -> String {
    text.split(" :: ")
        .map(|p| p.split(' ').next().unwrap_or(""))
        .collect::<Vec<_>>()
        .join(" :: ")
}

#[test]
fn every_vector_decodes() {
    let mut wrong: BTreeMap<String, usize> = BTreeMap::new();
    let mut total = 0;
    for (target, set, name) in common::files() {
        for v in common::vectors(&name) {
            total += 1;
            let problem = match decode(target, set, &v.bytes) {
                Ok(i) if i.row().mnemonic != mnemonic(&v.text) => {
                    format!("{:?} for {}", i.row(), v.record)
                }
                Ok(i) if i.len() != v.bytes.len() => {
                    format!(
                        "{:?} has length {}, not {}",
                        i.row(),
                        i.len(),
                        v.bytes.len()
                    )
                }
                Ok(_) => continue,
                // Codes that are no operand of the chip, which LLVM decodes all the same (gfx11 has no LDS direct source).
                Err(DecodeError::Operand { .. })
                    if v.flag != 'a' || v.text.contains("src_lds_direct") =>
                {
                    continue;
                }
                Err(e) => format!(
                    "{}: {}",
                    v.record,
                    e.to_string().chars().take(70).collect::<String>()
                ),
            };
            *wrong
                .entry(format!(
                    "{target} {set:?} {} {problem} e.g. {}",
                    v.flag, v.text
                ))
                .or_default() += 1;
        }
    }
    let count: usize = wrong.values().sum();
    let list: Vec<_> = wrong
        .iter()
        .take(60)
        .map(|(k, n)| format!("{n} {k}"))
        .collect();
    assert!(
        count == 0,
        "{count} of {total} vectors:\n{}",
        list.join("\n")
    );
}
