//! LDS instructions against the register and LDS states of `data/semantics`, on every back end.

mod common;

use std::collections::BTreeMap;

use common::{Case, Memory, Semantics, hex, hex_bytes, hex_words};
use rocjitsu_exec::record::Flow;
use rocjitsu_exec::target::TargetFacts;
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;

/// Whether two words are the same as far as the case cares: any NaN may stand for any other.
fn same(case: &Case, got: u32, want: u32) -> bool {
    if got == want || case.cmp.k == "bits" {
        return got == want;
    }
    let nan32 = |v: u32| v & 0x7fff_ffff > 0x7f80_0000;
    let halves = |f: &dyn Fn(u32) -> bool| {
        [0, 16].iter().all(|s| {
            got >> s & 0xffff == want >> s & 0xffff || f(got >> s & 0x7fff) && f(want >> s & 0x7fff)
        })
    };
    match case.m.rsplit('_').next() {
        Some("f16") => halves(&|v| v > 0x7c00),
        Some("bf16") => halves(&|v| v > 0x7f80),
        _ => nan32(got) && nan32(want),
    }
}

/// The lanes of a register after the case.
fn expected(case: &Case, before: &[u32], text: &str) -> Vec<u32> {
    let words = hex_words(text);
    if words.len() == before.len() {
        return words;
    }
    let exec = hex(&case.exec);
    let mut next = words.iter();
    let mut all = before.to_vec();
    for (lane, word) in all.iter_mut().enumerate() {
        if exec >> lane & 1 != 0 {
            *word = *next.next().unwrap();
        }
    }
    assert!(next.next().is_none());
    all
}

fn run(
    all: &Semantics,
    case: &Case,
    target: Target,
    backend: Backend,
    memory: &Memory,
) -> Result<(), String> {
    let mut bench = all.prepare(case, target, backend, memory);
    let mut want: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let known = case
        .v
        .keys()
        .copied()
        .chain(case.a.keys().map(|r| r + target.acc_base()));
    for r in known {
        want.insert(r, bench.wave.v.read(r).to_vec());
    }
    let outs = case.out.v.iter().map(|(r, t)| (*r, t));
    for (r, text) in outs.chain(case.out.a.iter().map(|(r, t)| (r + target.acc_base(), t))) {
        want.insert(r, expected(case, bench.wave.v.read(r), text));
    }
    let mut lds: Vec<u32> = bench
        .group
        .lds
        .bytes_mut()
        .chunks_exact(4)
        .map(|b| u32::from_le_bytes(b.try_into().unwrap()))
        .collect();
    for (address, text) in case.out.lds.iter().flatten() {
        lds[address.parse::<usize>().unwrap() / 4] = hex(text) as u32;
    }
    let flow = bench.step(&hex_bytes(&case.hex), 0x1000)?;
    if flow != Flow::Next {
        return Err(format!("{flow:?} {:?}", bench.fault()));
    }
    // The emulator's permutations write inactive lanes too; the manuals say that EXEC holds for the result.
    let inactive = if case.m.contains("permute") {
        !hex(&case.exec)
    } else {
        0
    };
    let skip =
        inactive | case.skip.as_deref().map_or(0, hex) | case.denorm.as_deref().map_or(0, hex);
    let mut wrong = Vec::new();
    for (r, words) in &want {
        let got = bench.wave.v.read(*r);
        for lane in (0..words.len()).filter(|l| skip >> l & 1 == 0) {
            if !same(case, got[lane], words[lane]) {
                wrong.push(format!(
                    "v{r}[{lane}] = {:08x}, not {:08x}",
                    got[lane], words[lane]
                ));
            }
        }
    }
    for (i, bytes) in bench.group.lds.bytes_mut().chunks_exact(4).enumerate() {
        let got = u32::from_le_bytes(bytes.try_into().unwrap());
        if skip == 0 && !same(case, got, lds[i]) {
            wrong.push(format!("lds[{:#x}] = {got:08x}, not {:08x}", 4 * i, lds[i]));
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong[..wrong.len().min(4)].join("; "))
    }
}

/// Cases where the emulator that made the file is wrong by the manuals, with what it does.
fn wrong(case: &Case) -> Option<&'static str> {
    let m = case.m.as_str();
    let float = m.ends_with("f32") || m.ends_with("f64");
    let two =
        m.contains("rtn") || m.contains("write2") || m.contains("mskor") || m.contains("cmpst");
    if m.contains("_d16") {
        Some("overwrites the half of the register that stays, and extends to 32 bits")
    } else if !case.a.is_empty() && (two || m.contains("permute")) {
        Some("reads AccVGPR data of returning and two-operand instructions from the wrong register")
    } else if m.starts_with("ds_wrxchg2") && m.ends_with("b32") {
        Some("returns what it has just written")
    } else if m == "ds_permute_b32" && case.asm.contains("offset") {
        Some("does not wrap an index that the offset pushes past the last lane")
    } else if m == "ds_add_rtn_f64" {
        Some("returns a value that was never in memory")
    } else if float && (m.contains("min_") || m.contains("max_")) && !m.contains("num") {
        Some("compares as numbers: a NaN in memory stays; the manuals' rules order NaN and zeros")
    } else {
        None
    }
}

fn check(file: &str, also: &[Target]) {
    let all = common::semantics(file, |f| f == "DS");
    let memory = Memory::new(0x10000, 4096);
    let mut failures: BTreeMap<String, (usize, String)> = BTreeMap::new();
    let mut done = 0;
    for target in [all.target].iter().chain(also) {
        for case in &all.cases {
            if wrong(case).is_some() || *target != all.target && lacks(*target, case) {
                continue;
            }
            for backend in Backend::supported() {
                done += 1;
                if let Err(why) = run(&all, case, *target, backend, &memory) {
                    let entry = failures
                        .entry(format!("{target} {}", case.m))
                        .or_insert((0, format!("{backend} {}: {why}", case.asm)));
                    entry.0 += 1;
                }
            }
        }
    }
    let text: String = failures
        .iter()
        .map(|(m, (n, why))| format!("{m}: {n} cases, first {why}\n"))
        .collect();
    assert!(failures.is_empty(), "{text}of {done}");
    assert!(done > 300);
}

/// Instructions that a relative of the file's target does not have.
fn lacks(target: Target, case: &Case) -> bool {
    target == Target::Gfx942 && case.m.contains("_tr_")
}

#[test]
fn gfx950_and_gfx942() {
    check("gfx950", &[Target::Gfx942]);
}

#[test]
fn gfx1100_and_gfx1151() {
    check("gfx1100", &[Target::Gfx1151]);
}

#[test]
fn gfx1201() {
    check("gfx1201", &[]);
}
