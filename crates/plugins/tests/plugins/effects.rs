//! What instructions change is what they are said to change: registers, LDS and memory before and after. What they read
//! and write is what their text names, in the lanes of EXEC, and no more bytes than that.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use rocjitsu_isa::{RegFile, Target};
use rocjitsu_observe::{
    Access, AccessKind, Events, Outcome, Plugin, Plugins, Space, State, Step, Touch,
};

use super::rig::{Run, described, descriptions};

const REGISTERS: u16 = 256;
/// Instructions of the first wave that are compared.
const COMPARED: u64 = 1500;

/// A copy of a wave's state.
#[derive(Default, Clone)]
struct Copy {
    vector: Vec<Vec<u32>>,
    scalar: Vec<u32>,
    scc: bool,
    lds: Vec<u8>,
}

impl Copy {
    fn of(state: &dyn State) -> Copy {
        let vgprs = (0..REGISTERS).map(|r| state.vgpr(r).to_vec());
        let agprs = (0..REGISTERS).map(|r| state.agpr(r).to_vec());
        Copy {
            vector: vgprs.chain(agprs).collect(),
            scalar: (0..128).map(|r| state.sgpr(r)).collect(),
            scc: state.scc(),
            lds: state.lds().to_vec(),
        }
    }
}

#[derive(Default)]
struct Seen {
    wrong: Vec<String>,
    compared: u64,
    /// Bytes of memory said to be stored to.
    stored: Vec<(u64, u64)>,
}

struct Compare {
    seen: Arc<Mutex<Seen>>,
    before: Copy,
    reads: Vec<Touch>,
    writes: Vec<Touch>,
    stores: Vec<Access>,
    cdna: bool,
}

impl Compare {
    fn wanted(step: &Step<'_>) -> bool {
        step.wave.group == 0 && step.wave.index == 0
    }

    fn wrong(&self, step: &Step<'_>, what: String) {
        let mut seen = self.seen.lock().expect("not poisoned");
        if seen.wrong.len() < 20 {
            seen.wrong
                .push(format!("{}: {what}", step.instruction.text()));
        }
    }
}

/// The registers that an operand of a text names: `v3`, `s[4:7]`, `a0`, `v1.h`.
fn named(operand: &str) -> Vec<(RegFile, u16)> {
    // `sext(v3)` and the like.
    let operand = operand.split_once('(').map_or(operand, |(_, inner)| inner);
    let operand = operand.trim_end_matches(')');
    let text = operand
        .trim()
        .trim_start_matches(['-', '|'])
        .trim_end_matches('|');
    let file = match text.chars().next() {
        Some('v') => RegFile::Vgpr,
        Some('a') => RegFile::Agpr,
        Some('s') => RegFile::Sgpr,
        _ => return Vec::new(),
    };
    let rest = text[1..].trim_end_matches(".l").trim_end_matches(".h");
    let range = match rest.strip_prefix('[').and_then(|r| r.strip_suffix(']')) {
        Some(range) => range.split_once(':').unwrap_or((range, range)),
        None => (rest, rest),
    };
    match (range.0.parse::<u16>(), range.1.parse::<u16>()) {
        (Ok(first), Ok(last)) => (first..=last).map(|n| (file, n)).collect(),
        _ => Vec::new(),
    }
}

/// Operands of a text: separated by commas and blanks, but not within brackets.
fn operands(text: &str) -> Vec<&str> {
    let (_, rest) = text.split_once(' ').unwrap_or((text, ""));
    rest.split([',', ' '])
        .filter(|part| !part.is_empty())
        .collect()
}

/// What is wrong with the registers that were told, by the instruction's text.
fn by_text(step: &Step<'_>, reads: &[Touch], writes: &[Touch]) -> Vec<String> {
    let text = step.instruction.text();
    let name = step.instruction.mnemonic();
    let operands = operands(&text);
    let texts: BTreeSet<(RegFile, u16)> = operands.iter().flat_map(|o| named(o)).collect();
    // Banks of VGPRs (gfx1250) are not in the text.
    let bank = |t: &Touch| match t.file {
        RegFile::Vgpr => (t.file, t.register % REGISTERS),
        file => (file, t.register),
    };
    let told: BTreeSet<(RegFile, u16)> = reads.iter().chain(writes).map(bank).collect();
    let mut wrong = Vec::new();
    let is_scalar = |r: &(RegFile, u16)| r.0 == RegFile::Sgpr;
    for register in texts.difference(&told) {
        // Vector registers are told of if lanes take part.
        if step.exec != 0 || is_scalar(register) {
            wrong.push(format!("{register:?} is not told of"));
        }
    }
    let own = |r: &&(RegFile, u16)| match r.0 {
        RegFile::Vgpr | RegFile::Agpr => true,
        RegFile::Sgpr => r.1 < 106,
        _ => false,
    };
    for register in told.difference(&texts).filter(own) {
        wrong.push(format!("{register:?} is told of"));
    }
    let all = u64::MAX >> (64 - step.wave.lanes);
    let vector = |t: &&Touch| matches!(t.file, RegFile::Vgpr | RegFile::Agpr);
    for touch in reads.iter().filter(vector) {
        if ![step.exec, all].contains(&touch.lanes) {
            wrong.push(format!("reads lanes {:#x} of {touch:?}", touch.lanes));
        }
    }
    // Those that write lanes whatever EXEC says.
    let whole = [
        "mfma",
        "mfmac",
        "mmac",
        "wmma",
        "_tr",
        "lane",
        "direct_load",
    ];
    let exempt = whole.iter().any(|part| name.contains(part));
    for touch in writes.iter().filter(vector) {
        if touch.lanes & !step.exec != 0 && !exempt {
            wrong.push(format!("writes lanes {:#x} beside EXEC", touch.lanes));
        }
    }
    // Halves: of the destination, or of a load's.
    let half = match operands.first() {
        Some(dst) if dst.ends_with(".l") => Some(0x3),
        Some(dst) if dst.ends_with(".h") => Some(0xc),
        _ if name.contains("load") && name.contains("d16_hi") => Some(0xc),
        _ if name.contains("load") && name.contains("d16") && !name.contains("format") => Some(0x3),
        _ => None,
    };
    let wide = |t: &&Touch| half.is_some_and(|half| t.bytes != half);
    let tells = writes.iter().filter(vector).filter(wide);
    wrong.extend(tells.map(|t| format!("writes bytes {:#x}, not a half", t.bytes)));
    wrong
}

impl Plugin for Compare {
    fn events(&self) -> Events {
        Events::BEFORE | Events::AFTER | Events::READS | Events::WRITES | Events::ACCESSES
    }
    fn before(&mut self, step: &Step<'_>, state: &dyn State) -> Outcome {
        self.reads.clear();
        self.writes.clear();
        self.stores.clear();
        if Compare::wanted(step) && self.seen.lock().expect("not poisoned").compared < COMPARED {
            self.before = Copy::of(state);
        }
        Ok(())
    }
    fn accesses(&mut self, _: &Step<'_>, accesses: &[Access], _: &dyn State) -> Outcome {
        let stores = accesses.iter().filter(|a| a.kind != AccessKind::Load);
        self.stores.extend(stores.clone());
        let mut seen = self.seen.lock().expect("not poisoned");
        let global = stores.filter(|a| a.space == Space::Global);
        seen.stored
            .extend(global.map(|a| (a.address, a.address + u64::from(a.bytes))));
        Ok(())
    }
    fn reads(&mut self, _: &Step<'_>, touched: &[Touch], _: &dyn State) -> Outcome {
        self.reads.extend(touched);
        Ok(())
    }
    fn writes(&mut self, _: &Step<'_>, touched: &[Touch], _: &dyn State) -> Outcome {
        self.writes.extend(touched);
        Ok(())
    }
    fn after(&mut self, step: &Step<'_>, state: &dyn State) -> Outcome {
        if !Compare::wanted(step) || self.seen.lock().expect("not poisoned").compared >= COMPARED {
            return Ok(());
        }
        self.seen.lock().expect("not poisoned").compared += 1;
        for what in by_text(step, &self.reads, &self.writes) {
            self.wrong(step, what);
        }
        let now = Copy::of(state);
        for (r, (old, new)) in self.before.vector.iter().zip(&now.vector).enumerate() {
            if old == new {
                continue;
            }
            // Elsewhere than on CDNA the second half of the file is the upper banks of VGPRs.
            let register = (r as u16) % REGISTERS;
            let (file, register) = match (r as u16 >= REGISTERS, self.cdna) {
                (false, _) => (RegFile::Vgpr, register),
                (true, true) => (RegFile::Agpr, register),
                (true, false) => (RegFile::Vgpr, r as u16),
            };
            for (lane, (old, new)) in old.iter().zip(new).enumerate() {
                let changed = old ^ new;
                let bytes = (0..4).fold(0u8, |m, i| {
                    m | u8::from(changed >> (8 * i) & 0xff != 0) << i
                });
                let told = self.writes.iter().fold(0u8, |told, t| {
                    let same = t.file == file && t.register == register && t.lanes >> lane & 1 != 0;
                    told | if same { t.bytes } else { 0 }
                });
                if bytes & !told != 0 {
                    self.wrong(step, format!("{file:?} {register} lane {lane} bytes {bytes:#x}, told {told:#x} of {:?}", self.writes));
                    break;
                }
            }
        }
        for (r, (old, new)) in self.before.scalar.iter().zip(&now.scalar).enumerate() {
            let told = self
                .writes
                .iter()
                .any(|t| t.file == RegFile::Sgpr && t.register == r as u16);
            if old != new && !told {
                self.wrong(step, format!("s{r}"));
            }
        }
        if self.before.scc != now.scc && !self.writes.iter().any(|t| t.file == RegFile::Scc) {
            self.wrong(step, "scc".to_owned());
        }
        for (at, (old, new)) in self.before.lds.iter().zip(&now.lds).enumerate() {
            let at = at as u64;
            let told = |a: &Access| {
                a.space == Space::Lds && at >= a.address && at < a.address + u64::from(a.bytes)
            };
            if old != new && !self.stores.iter().any(told) {
                self.wrong(step, format!("LDS byte {at}"));
                break;
            }
        }
        Ok(())
    }
}

fn compare(target: Target) {
    let mut wrong = Vec::new();
    let mut compared = 0;
    for path in descriptions(target) {
        let launch = described(&path, target);
        let groups: u64 = launch.grid.iter().map(|&n| u64::from(n)).product();
        if groups > 64 || launch.expected_instructions.is_some_and(|n| n > 200_000) {
            continue;
        }
        let seen = Arc::new(Mutex::new(Seen::default()));
        let mut plugins = Plugins::new();
        plugins.add(
            "compare",
            Box::new(Compare {
                seen: seen.clone(),
                before: Copy::default(),
                reads: Vec::new(),
                writes: Vec::new(),
                stores: Vec::new(),
                cdna: target.is_cdna(),
            }),
        );
        let run = Run::new(&launch);
        run.go(&launch, &plugins, 1).expect("runs");
        let mut seen = seen.lock().expect("not poisoned");
        let name = path.file_stem().unwrap_or_default().display().to_string();
        // Bytes of buffers that changed, but that no store was told of.
        seen.stored.sort_unstable();
        let contents = launch
            .read_buffers(&run.memory, &run.placed)
            .expect("readable");
        for ((buffer, now), &start) in launch
            .buffers
            .iter()
            .zip(&contents)
            .zip(&run.placed.buffers)
        {
            let mut next = 0;
            let mut reach = 0;
            for (at, (old, new)) in buffer.content.iter().zip(now).enumerate() {
                let at = start + at as u64;
                while next < seen.stored.len() && seen.stored[next].0 <= at {
                    reach = reach.max(seen.stored[next].1);
                    next += 1;
                }
                if old != new && at >= reach {
                    wrong.push(format!("{name}: {} changed at {at:#x}", buffer.name));
                    break;
                }
            }
        }
        compared += seen.compared;
        wrong.extend(seen.wrong.iter().map(|what| format!("{name}: {what}")));
    }
    assert!(compared > 10_000, "only {compared} instructions compared");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn gfx90a() {
    compare(Target::Gfx90a);
}
#[test]
fn gfx942() {
    compare(Target::Gfx942);
}
#[test]
fn gfx950() {
    compare(Target::Gfx950);
}
#[test]
fn gfx1100() {
    compare(Target::Gfx1100);
}
#[test]
fn gfx1201() {
    compare(Target::Gfx1201);
}
#[test]
fn gfx1250() {
    compare(Target::Gfx1250);
}
