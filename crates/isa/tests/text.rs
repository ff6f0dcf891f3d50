//! Every vector disassembles to LLVM's text, but for the exceptions that are listed with their reason and
//! codes that are no operand of the chip, which LLVM prints and this crate refuses.

mod common;

use std::collections::{BTreeMap, HashMap};

use rocjitsu_isa::{DecodeError, Format, Target, decode};

/// Why the code of an operand, which LLVM prints, is no operand of the chip; none if that needs a look.
fn refusal(error: &DecodeError) -> Option<&'static str> {
    let (target, operand, code, words) = match error {
        DecodeError::Operand {
            target,
            operand,
            code,
            words,
            ..
        } => (*target, operand.to_string(), *code, *words),
        DecodeError::Registers { .. } => return Some("register tuple out of range or not aligned"),
        _ => return None,
    };
    let scalar = code & 0xff;
    let top = words.as_slice()[0] >> 26;
    Some(match scalar {
        _ if code >= 512 && target == Target::Gfx908 => {
            "memory instructions of gfx908 reach no AccVGPR"
        }
        _ if code >= 128 && operand.ends_with("dst") => {
            "no destination, but a constant or another source"
        }
        254 if operand == "src2" && target.generation() == 10 => "a lane mask is a scalar register",
        _ if code >= 256 && operand == "src2" => "a lane mask is a scalar register",
        _ if code >= 256 && scalar == 125 && target.is_cdna() => "gfx9 has no null register",
        125 | 253 if target.is_cdna() => "gfx9 has no null register",
        254 if target.generation() >= 11 => "gfx11 and later have no LDS direct source",
        124 | 125 if target.generation() >= 10 => "null where only a VGPR can be",
        255 if operand == "soffset" => "the offset of a buffer instruction takes no literal",
        255 if top == 0x35 => "DPP takes no literal",
        0..=127 if operand == "src0" && target.generation() == 12 => {
            "s_barrier_signal takes a constant or M0"
        }
        _ => return None,
    })
}

#[test]
fn every_vector_reads_as_in_llvm() {
    let mut exceptions: HashMap<(String, String), bool> = include_str!("exceptions.tsv")
        .lines()
        .filter(|l| !l.starts_with('#'))
        .map(|l| {
            let mut p = l.split('\t');
            let mut next = || p.next().expect("target, bytes, reason");
            let (target, bytes, reason) = (next(), next(), next());
            assert!(!reason.is_empty(), "{l} has no reason");
            ((target.into(), bytes.into()), false)
        })
        .collect();
    let mut wrong = Vec::new();
    let mut counts: BTreeMap<String, [usize; 4]> = BTreeMap::new();
    for (target, set, name) in common::files() {
        for v in common::vectors(&name) {
            let count = counts.entry(target.to_string()).or_default();
            let got = match decode(target, set, &v.bytes) {
                Ok(i) if i.len() != v.bytes.len() => format!("{} bytes of {i:?}", i.len()),
                Ok(i) => i.text(set),
                Err(e) if v.flag != 'a' && refusal(&e).is_some() => {
                    count[2] += 1;
                    continue;
                }
                Err(e) => e.to_string(),
            };
            if got == v.text {
                count[0] += 1;
            } else if let Some(used) = exceptions.get_mut(&(target.to_string(), v.hex())) {
                *used = true;
                count[1] += 1;
            } else {
                count[3] += 1;
                wrong.push(format!(
                    "{target} {set:?} {} {}\n  LLVM {}\n  ours {got}",
                    v.hex(),
                    v.flag,
                    v.text
                ));
            }
        }
    }
    for (target, [matched, excepted, refused, wrong]) in &counts {
        println!(
            "{target}: {matched} the same, {excepted} exceptions, {refused} refused, {wrong} wrong"
        );
    }
    let unused: Vec<_> = exceptions.iter().filter(|e| !e.1).map(|e| e.0).collect();
    assert!(unused.is_empty(), "exceptions that are none: {unused:?}");
    assert!(
        wrong.is_empty(),
        "{} texts differ:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(400)].join("\n")
    );
    assert!(counts.len() == Target::ALL.len());
}

#[test]
fn formats_are_those_of_the_encoding() {
    let i = decode(
        Target::Gfx942,
        Default::default(),
        &[0x00, 0x00, 0x80, 0xbf],
    )
    .expect("s_nop");
    assert_eq!(i.format(), Format::SOPP);
    assert_eq!(i.text(Default::default()), "s_nop 0");
}
