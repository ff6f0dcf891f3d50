//! Scalar instructions against the register states of `data/semantics`, and against real RDNA3 chips.

mod common;

use std::collections::BTreeMap;

use common::{Bench, Case, Compare, Memory, Semantics, hex, hex_bytes};
use rocjitsu_exec::record::{Flow, Operand as ExecOperand};
use rocjitsu_exec::wave::{Wave, scalar};
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;

/// Where the emulator that made the files is wrong by the manuals: mnemonic, why, and what the manual says, for cases
/// without an M0 or EXEC operand.
type Exception = (&'static str, &'static str, fn(&Inputs) -> Outputs);

/// Sources and destination of an instruction as 64-bit numbers, and SCC.
struct Inputs {
    sources: [u64; 2],
    dst: u64,
    scc: u32,
}

/// The destination, its words, and SCC.
type Outputs = (u64, usize, u32);

const EXCEPTIONS: &[Exception] = &[
    (
        "s_bitset0_b64",
        "the emulator clears the high word or takes 5 bits (S_BITSET0_B64: D0.u64[S0.u32[5 : 0]] = 1'0U)",
        |i| (i.dst & !(1 << (i.sources[0] & 63)), 2, i.scc),
    ),
    (
        "s_bitset1_b64",
        "as above (S_BITSET1_B64: D0.u64[S0.u32[5 : 0]] = 1'1U)",
        |i| (i.dst | 1 << (i.sources[0] & 63), 2, i.scc),
    ),
    (
        "s_cmov_b64",
        "the emulator writes the high word if SCC is 0 (S_CMOV_B64: if SCC then D0.u64 = S0.u64)",
        |i| (if i.scc != 0 { i.sources[0] } else { i.dst }, 2, i.scc),
    ),
    (
        "s_absdiff_i32",
        "the emulator's difference is wider than 32 bits (S_ABSDIFF_I32: D0.i32 = S0.i32 - S1.i32; if D0.i32 < 0 ...)",
        |i| {
            let difference = (i.sources[0] as i32).wrapping_sub(i.sources[1] as i32);
            let result = difference.wrapping_abs() as u32;
            (result.into(), 1, u32::from(result != 0))
        },
    ),
];

/// What the manual says of a case that an exception covers: the scalar registers, VCC and SCC written.
fn corrected(case: &Case, bench: &Bench<'_>) -> Option<BTreeMap<String, u64>> {
    let (_, _, manual) = EXCEPTIONS.iter().find(|e| e.0 == case.m)?;
    let record = bench.record(&hex_bytes(&case.hex), 0).unwrap();
    let wave = &bench.wave;
    let long = |operand: ExecOperand| match operand {
        ExecOperand::Scalar(n) => wave.s64(n.into()),
        ExecOperand::Const(k) => k,
        ExecOperand::Special(special) => wave.special(special),
        _ => 0,
    };
    let ExecOperand::Scalar(dst) = record.dst else {
        return Some(BTreeMap::new());
    };
    let dst = usize::from(dst);
    let (result, words, scc) = manual(&Inputs {
        sources: [long(record.src[0]), long(record.src[1])],
        dst: wave.s64(dst),
        scc: wave.scc.into(),
    });
    let mut after = Wave::new(wave.lanes);
    after.s = wave.s;
    after.s[dst] = result as u32;
    if words == 2 {
        after.s[dst + 1] = (result >> 32) as u32;
    }
    after.scc = scc != 0;
    Some(state(&after))
}

fn is_nan(bits: u32, half: bool) -> bool {
    if half {
        bits & 0x7fff > 0x7c00
    } else {
        bits & 0x7fff_ffff > 0x7f80_0000
    }
}

/// Whether a result is as near to the expected one as the case asks.
fn close(case: &Case, got: u32, want: u32) -> bool {
    let Compare { k, n, .. } = &case.cmp;
    let half = case.m.ends_with("f16") || case.m.contains("f16_");
    match k.as_str() {
        "nan" => got == want || is_nan(got, half) && is_nan(want, half),
        "ulp" => {
            f64::from(got.abs_diff(want)) <= n.unwrap_or(0.0)
                || is_nan(got, half) && is_nan(want, half)
        }
        _ => got == want,
    }
}

/// State that an instruction can change, by name.
fn state(wave: &Wave) -> BTreeMap<String, u64> {
    let mut all: BTreeMap<String, u64> = (0..106)
        .map(|n| (format!("s{n}"), u64::from(wave.s[n])))
        .collect();
    all.insert("vcc".into(), wave.s64(scalar::VCC));
    all.insert("exec".into(), wave.s64(scalar::EXEC));
    all.insert("m0".into(), u64::from(wave.s[scalar::M0]));
    all.insert("scc".into(), u64::from(wave.scc));
    all
}

fn run(all: &Semantics, case: &Case, target: Target, memory: &Memory) -> Result<(), String> {
    let mut bench = all.prepare(case, target, Backend::Scalar, memory);
    let mut want = state(&bench.wave);
    let mut free: Vec<String> = case.nocheck.clone();
    for (n, value) in &case.out.s {
        want.insert(format!("s{n}"), hex(value));
    }
    for (name, value) in [
        ("vcc", &case.out.vcc),
        ("exec", &case.out.exec),
        ("m0", &case.out.m0),
    ] {
        if let Some(value) = value {
            want.insert(name.into(), hex(value));
        }
    }
    if let Some(scc) = case.out.scc {
        want.insert("scc".into(), u64::from(scc));
    }
    if all.wave == 32 {
        // The cases say nothing of the high words of a wave of 32.
        free.extend(["vcc_hi".into(), "exec_hi".into()]);
        for name in ["vcc", "exec"] {
            want.entry(name.into()).and_modify(|v| *v &= 0xffff_ffff);
        }
    }
    if let Some(manual) = corrected(case, &bench) {
        want = manual;
        if all.wave == 32 {
            for name in ["vcc", "exec"] {
                want.entry(name.into()).and_modify(|v| *v &= 0xffff_ffff);
            }
        }
    }
    let bytes = hex_bytes(&case.hex);
    match bench.step(&bytes, 0x1000)? {
        Flow::Next | Flow::Jump => {}
        other => return Err(format!("{other:?} {:?}", bench.fault())),
    }
    if bench.wave.pc != 0x1000 + bytes.len() as u64 {
        return Err(format!(
            "length {} instead of {}",
            bench.wave.pc - 0x1000,
            bytes.len()
        ));
    }
    let mut got = state(&bench.wave);
    if all.wave == 32 {
        for name in ["vcc", "exec"] {
            got.entry(name.into()).and_modify(|v| *v &= 0xffff_ffff);
        }
    }
    let differ: Vec<String> = want
        .iter()
        .filter(|(name, value)| !free.contains(name) && got[*name] != **value)
        .filter(|(name, value)| {
            !(name.starts_with('s') && close(case, got[*name] as u32, **value as u32))
        })
        .map(|(name, value)| format!("{name} is {:x}, not {value:x}", got[name]))
        .collect();
    if differ.is_empty() {
        Ok(())
    } else {
        Err(differ.join(", "))
    }
}

fn compare(file: &str, targets: &[Target]) {
    let all = common::semantics(file, |format| format.starts_with("SOP"));
    let memory = Memory::new(0x10_0000, 4096);
    let mut wrong: BTreeMap<String, (usize, String)> = BTreeMap::new();
    let mut checked = 0;
    for &target in targets {
        for case in all.cases.iter().filter(|c| all.is_same_on(c, target)) {
            let flagged = |mask: &Option<String>| mask.as_ref().is_some_and(|m| hex(m) != 0);
            if flagged(&case.skip) {
                continue;
            }
            checked += 1;
            if let Err(what) = run(&all, case, target, &memory) {
                let entry = wrong
                    .entry(format!("{target} {}", case.m))
                    .or_insert((0, String::new()));
                entry.0 += 1;
                entry.1 = format!(
                    "{} [{}]: {what} (scc {}, s {:?})",
                    case.asm, case.hex, case.scc, case.s
                );
            }
        }
    }
    // Cases in `skip` are the only ones left out, and scalar instructions have none.
    let same = |target: &Target| {
        all.cases
            .iter()
            .filter(|c| all.is_same_on(c, *target))
            .count()
    };
    assert_eq!(checked, targets.iter().map(same).sum::<usize>());
    let least = if targets == [Target::Gfx1151] {
        400
    } else {
        1300
    };
    assert!(checked > least * targets.len(), "only {checked} cases");
    let list: Vec<String> = wrong
        .iter()
        .map(|(m, (n, example))| format!("{m}: {n}, e.g. {example}"))
        .collect();
    assert!(
        list.is_empty(),
        "{} of {checked} wrong:\n{}",
        wrong.values().map(|w| w.0).sum::<usize>(),
        list.join("\n")
    );
}

#[test]
fn gfx9() {
    compare("gfx950", &[Target::Gfx950, Target::Gfx942, Target::Gfx90a]);
}

#[test]
fn gfx11() {
    compare("gfx1100", &[Target::Gfx1100, Target::Gfx1151]);
}

#[test]
fn gfx12() {
    compare("gfx1201", &[Target::Gfx1201, Target::Gfx1250]);
}

/// Scalar float arithmetic, which gfx1100 does not have.
#[test]
fn gfx1151_by_the_cases_of_gfx1201() {
    compare("gfx1201", &[Target::Gfx1151]);
}

/// The chip's results for programs of scalar instructions only.
#[test]
fn rdna3_chips() {
    let all = common::semantics("gfx1100", |_| false);
    let memory = Memory::new(0x10_0000, 4096);
    let (mut checked, mut wrong) = (0, Vec::new());
    for case in &all.hardware {
        let bytes = hex_bytes(&case.hex);
        let mut bench = all.prepare_hardware(case, Target::Gfx1100, Backend::Scalar, &memory);
        let mut at = 0;
        let scalar_only = loop {
            if at >= bytes.len() {
                break true;
            }
            match bench.record(&bytes[at..], 0) {
                Ok(r) if format!("{:?}", r.inst.format()).starts_with("SOP") => at += r.inst.len(),
                _ => break false,
            }
        };
        if !scalar_only || !case.out.v.is_empty() {
            continue;
        }
        checked += 1;
        let flow = bench.run_all(&bytes);
        if !matches!(flow, Ok(Flow::Next)) {
            wrong.push(format!("{}: {flow:?} {:?}", case.t, bench.fault()));
            continue;
        }
        let mut differ = Vec::new();
        for (&n, value) in &case.out.s {
            if u64::from(bench.wave.s[n]) != hex(value) {
                differ.push(format!("s{n} is {:x}, not {value}", bench.wave.s[n]));
            }
        }
        if case.out.scc.is_some_and(|scc| (scc != 0) != bench.wave.scc) {
            differ.push(format!("scc is {}", bench.wave.scc));
        }
        for (name, want, got) in [
            ("vcc", &case.out.vcc, bench.wave.vcc()),
            ("exec", &case.out.exec, bench.wave.exec()),
        ] {
            if want.as_ref().is_some_and(|w| hex(w) & 0xffff_ffff != got) {
                differ.push(format!("{name} is {got:x}"));
            }
        }
        if !differ.is_empty() {
            wrong.push(format!("{}: {}", case.t, differ.join(", ")));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {checked}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(checked >= 40, "only {checked} programs");
}
