//! LDS instructions against the register and LDS states of `data/semantics`, on every back end.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{Bench, Case, Memory, Semantics, hex, hex_bytes, hex_words};
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

/// How a case is checked where the data is not what the manuals say.
#[derive(Clone, Copy)]
enum Check {
    /// A loaded register: from the target, the data's word and the word before.
    Register(fn(Target, u32, u32) -> u32),
    /// Returned registers: what LDS held before.
    Returned,
    /// LDS: the smaller or larger of what it held and the data; returned registers as with [`Check::Returned`].
    Extreme,
    /// The result: that of the same instruction with VGPRs in the place of AccVGPRs.
    AsVgprs,
    /// Nothing.
    Not,
}

/// Where the emulator that made the files is wrong by the manuals: which cases, how they are checked instead, why, and
/// how many cases of each of [`FILES`]. The first entry that applies counts.
type Exception = (fn(&Case) -> bool, Check, &'static str, [usize; 3]);

/// Files with cases of LDS instructions.
const FILES: [&str; 3] = ["gfx950", "gfx1100", "gfx1201"];

const EXCEPTIONS: &[Exception] = &[
    (
        |c| is_load(c) && c.m.ends_with("_d16"),
        Check::Register(|target, data, before| {
            if target.d16_clears_rest() {
                data & 0xffff
            } else {
                before & 0xffff_0000 | data & 0xffff
            }
        }),
        "the emulator extends to 32 bits (RDNA3 manual, DS_LOAD_U8_D16: \"the upper 16 bits are preserved\"; CDNA3 manual \
         9.1.6: with ECC they become zero, whatever DS_READ_U8_D16 says)",
        [12, 12, 0],
    ),
    (
        |c| is_load(c) && c.m.ends_with("_d16_hi"),
        Check::Register(|target, data, before| {
            if target.d16_clears_rest() {
                data << 16
            } else {
                before & 0xffff | data << 16
            }
        }),
        "the emulator loads to the low half (DS_LOAD_U8_D16_HI: RETURN_DATA[31 : 16]; CDNA3 manual 9.1.6)",
        [12, 12, 0],
    ),
    (
        |c| {
            let two = ["rtn", "write2", "mskor", "cmpst"];
            !c.a.is_empty() && two.iter().any(|part| c.m.contains(part))
        },
        Check::AsVgprs,
        "the emulator takes AccVGPR data of returning and two-operand instructions from VGPRs (CDNA3 manual, table \
         \"DS\", ACC: \"vdst and data are accumulation VGPRs\")",
        [328, 0, 0],
    ),
    (
        |c| c.m.starts_with("ds_wrxchg2") && c.m.ends_with("b32") || c.m == "ds_add_rtn_f64",
        Check::Returned,
        "the emulator returns what was never in memory, or has just been written (DS_WRXCHG2_RTN_B32, DS_ADD_RTN_F64: \
         RETURN_DATA is the value before)",
        [28, 0, 0],
    ),
    (
        |c| c.m == "ds_permute_b32" && c.asm.contains("offset"),
        Check::Not,
        "the emulator does not wrap an index that the offset pushes past the last lane (DS_PERMUTE_B32: \"mod 64\")",
        [4, 0, 0],
    ),
    (
        |c| {
            let float = c.m.ends_with("f32") || c.m.ends_with("f64");
            float
                && (c.m.starts_with("ds_min_") || c.m.starts_with("ds_max_"))
                && !c.m.contains("num")
        },
        Check::Extreme,
        "the emulator compares as numbers (CDNA3 manual 9.2.3, RDNA3 manual 13.3: \"FP Min Selection Rules\" order \
         zeros and NaNs)",
        [48, 32, 0],
    ),
];

fn is_load(case: &Case) -> bool {
    case.m.starts_with("ds_read_") || case.m.starts_with("ds_load_")
}

/// The number of the exception that a case falls under.
fn exception(case: &Case) -> Option<usize> {
    EXCEPTIONS.iter().position(|(applies, ..)| applies(case))
}

/// A minimum or maximum of floats of `width` bits by the manuals' selection rules; of two signalling NaNs the data's.
fn extreme(max: bool, width: u32, data: u64, memory: u64) -> u64 {
    let mantissa = if width == 32 { 23 } else { 52 };
    let quiet = 1u64 << (mantissa - 1);
    let magnitude = |v: u64| v & (u64::MAX >> (65 - width));
    let infinity = magnitude(u64::MAX) >> mantissa << mantissa;
    let nan = |v: u64| magnitude(v) > infinity;
    for v in [data, memory] {
        if nan(v) && v & quiet == 0 {
            return v | quiet;
        }
    }
    let order = |v: u64| match (nan(v), v >> (width - 1) != 0) {
        (true, _) if max => i128::MIN,
        (true, _) => i128::MAX,
        (_, true) => -1 - i128::from(magnitude(v)),
        (_, false) => i128::from(magnitude(v)),
    };
    let take_data = if max {
        order(data) > order(memory)
    } else {
        order(data) < order(memory)
    };
    if take_data { data } else { memory }
}

/// The registers and LDS words that are expected.
struct Expected {
    registers: BTreeMap<u32, Vec<u32>>,
    lds: Vec<u32>,
}

fn words_of(lds: &[u8]) -> Vec<u32> {
    lds.chunks_exact(4)
        .map(|b| u32::from_le_bytes(b.try_into().unwrap()))
        .collect()
}

/// What the data says.
fn by_data(case: &Case, target: Target, bench: &Bench<'_>) -> Expected {
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
    let mut lds = words_of(bench.lds());
    for (address, text) in case.out.lds.iter().flatten() {
        lds[address.parse::<usize>().unwrap() / 4] = hex(text) as u32;
    }
    Expected {
        registers: want,
        lds,
    }
}

/// Makes of what the data says what the manuals say.
fn correct(case: &Case, target: Target, bench: &Bench<'_>, want: &mut Expected, check: Check) {
    let code = hex_bytes(&case.hex);
    let row = |r: u32| bench.wave.v.read(r).to_vec();
    let at = row(code[4].into());
    let before = words_of(bench.lds());
    let active = |lane: &usize| hex(&case.exec) >> lane & 1 != 0;
    let lanes = (0..at.len()).filter(active);
    let dst = u32::from(code[7]);
    let offset = u32::from(code[0]) | u32::from(code[1]) << 8;
    let wide = case.m.ends_with("64");
    match check {
        Check::Register(f) => {
            let old = row(dst);
            let new = want.registers.get_mut(&dst).unwrap();
            lanes.for_each(|lane| new[lane] = f(target, new[lane], old[lane]));
        }
        Check::Returned | Check::Extreme => {
            let unit = if case.m.contains("st64") { 256 } else { 4 };
            let places = match case.m.contains("wrxchg2") {
                true => vec![u32::from(code[0]) * unit, u32::from(code[1]) * unit],
                false => (0..1 + u32::from(wide)).map(|j| offset + 4 * j).collect(),
            };
            // Places of several lanes may meet. DS_WRXCHG2_RTN_B32's pseudocode is that of one lane and states no order
            // among lanes; here they exchange one after the other, each after it has read both of its places. The data have
            // another order, so words that are exchanged more than once follow this one.
            let mut now = before.clone();
            let (mut exchanged, mut again) = (BTreeSet::new(), BTreeSet::new());
            for lane in lanes {
                let word = |place: &u32| ((at[lane] + place) / 4) as usize;
                if case.m.contains("rtn") {
                    let old: Vec<u32> = places.iter().map(|place| now[word(place)]).collect();
                    for ((j, place), old) in (0..).zip(&places).zip(old) {
                        want.registers.get_mut(&(dst + j)).unwrap()[lane] = old;
                        if case.m.contains("wrxchg2") {
                            let data = bench.wave.v.read(code[5 + j as usize].into());
                            now[word(place)] = data[lane];
                            if !exchanged.insert(word(place)) {
                                again.insert(word(place));
                            }
                        }
                    }
                }
                if matches!(check, Check::Extreme) {
                    let first = u32::from(code[5])
                        + if case.a.is_empty() {
                            0
                        } else {
                            target.acc_base()
                        };
                    let data: Vec<u32> = (first..)
                        .take(places.len())
                        .map(|r| bench.wave.v.read(r)[lane])
                        .collect();
                    let memory: Vec<u32> = places.iter().map(|p| before[word(p)]).collect();
                    let whole =
                        |w: &[u32]| w.iter().rev().fold(0, |sum, &w| sum << 32 | u64::from(w));
                    let width = 32 * places.len() as u32;
                    let max = case.m.contains("max");
                    let result = extreme(max, width, whole(&data), whole(&memory));
                    for (j, place) in places.iter().enumerate() {
                        want.lds[word(place)] = (result >> (32 * j)) as u32;
                    }
                }
            }
            for word in again {
                want.lds[word] = now[word];
            }
        }
        Check::AsVgprs | Check::Not => {}
    }
}

/// What the same instruction makes of the same data in VGPRs.
fn by_vgprs(
    all: &Semantics,
    case: &Case,
    target: Target,
    backend: Backend,
    memory: &Memory,
) -> Result<Expected, String> {
    let base = target.acc_base();
    let mut plain = case.clone();
    plain.v.extend(std::mem::take(&mut plain.a));
    assert_eq!(plain.v.len(), case.v.len() + case.a.len());
    let mut bench = all.prepare(&plain, target, backend, memory);
    let mut code = hex_bytes(&case.hex);
    // ACC, bit 25.
    code[3] &= !2;
    if bench.step(&code, 0x1000)? != Flow::Next {
        return Err(format!("{:?}", bench.fault()));
    }
    let registers = case
        .a
        .keys()
        .chain(case.out.a.keys())
        .map(|r| (r + base, bench.wave.v.read(*r).to_vec()))
        .chain(case.v.keys().map(|r| (*r, bench.wave.v.read(*r).to_vec())))
        .collect();
    Ok(Expected {
        registers,
        lds: words_of(bench.lds()),
    })
}

fn run(
    all: &Semantics,
    case: &Case,
    target: Target,
    backend: Backend,
    memory: &Memory,
) -> Result<(), String> {
    let mut bench = all.prepare(case, target, backend, memory);
    let check = exception(case).map(|n| EXCEPTIONS[n].1);
    let mut want = match check {
        Some(Check::AsVgprs) => by_vgprs(all, case, target, backend, memory)?,
        _ => by_data(case, target, &bench),
    };
    if let Some(check) = check {
        correct(case, target, &bench, &mut want, check);
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
    let skip = inactive | case.skip.as_deref().map_or(0, hex);
    let mut wrong = Vec::new();
    for (r, words) in &want.registers {
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
    for (i, (&got, &want)) in words_of(bench.lds()).iter().zip(&want.lds).enumerate() {
        if skip == 0 && !same(case, got, want) {
            wrong.push(format!("lds[{:#x}] = {got:08x}, not {want:08x}", 4 * i));
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong[..wrong.len().min(4)].join("; "))
    }
}

fn check(file: &str, also: &[Target]) {
    let all = common::semantics(file, |f| f == "DS");
    let memory = Memory::new(0x10000, 4096);
    let mut failures: BTreeMap<String, (usize, String)> = BTreeMap::new();
    let (mut done, mut lacking) = (0, BTreeMap::<String, usize>::new());
    for target in [all.target].iter().chain(also) {
        for case in &all.cases {
            if exception(case).is_some_and(|n| matches!(EXCEPTIONS[n].1, Check::Not)) {
                continue;
            }
            if !all.is_same_on(case, *target) {
                *lacking.entry(case.m.clone()).or_default() += 1;
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
    // Instructions that relatives of the file's target do not have.
    let lacks = |m: &str| m.contains("_tr_") || m.starts_with("ds_pk_add");
    let odd: Vec<_> = lacking.keys().filter(|m| !lacks(m)).collect();
    assert!(odd.is_empty(), "not decoded: {odd:?}");
}

/// An exception that covers more or fewer cases than it did hides something new, or should be narrower.
#[test]
fn exceptions_apply_to_as_many_cases_as_they_did() {
    for (file, name) in FILES.iter().enumerate() {
        let all = common::semantics(name, |f| f == "DS");
        let mut found = [0; EXCEPTIONS.len()];
        for n in all.cases.iter().filter_map(exception) {
            found[n] += 1;
        }
        for ((_, _, why, counts), got) in EXCEPTIONS.iter().zip(found) {
            assert_eq!(got, counts[file], "{name}: cases of {why}");
        }
    }
}

#[test]
fn gfx950_and_relatives() {
    check("gfx950", &[Target::Gfx942, Target::Gfx90a]);
}

#[test]
fn gfx1100_and_gfx1151() {
    check("gfx1100", &[Target::Gfx1151]);
}

#[test]
fn gfx1201_and_gfx1250() {
    check("gfx1201", &[Target::Gfx1250]);
}
