//! `data_hazard`: registers that an instruction uses before a wait has told that the operation which loads them is
//! complete. Execution here completes every operation at once; on the chip such a program reads the old value.

use std::collections::{BTreeMap, HashMap};

use rocjitsu_isa::{RegFile, Target};
use rocjitsu_observe::{
    Code, Dispatch, Events, Instruction, Lines, Outcome, Plugin, State, Step, Touch, Wave,
};
use serde_json::json;

use crate::counters::{Counter, Issue, Outstanding, issued, waited};
use crate::options::Options;
use crate::symbols::Symbols;
use crate::trace::register_name;

/// Makes the plugin.
pub fn make(mut options: Options, lines: Lines) -> Result<Box<dyn Plugin>, String> {
    let fail = options.switch("fail", false)?;
    options.finish(&["fail", "file"])?;
    Ok(Box::new(Hazard {
        lines,
        fail,
        symbols: Symbols::default(),
        kernels: HashMap::new(),
        target: Target::Gfx942,
        waves: HashMap::new(),
        facts: HashMap::new(),
        found: BTreeMap::new(),
    }))
}

type WaveKey = (u64, u64, u32);
type Register = (RegFile, u16);

/// A load under way.
#[derive(Clone)]
struct Load {
    registers: Vec<Register>,
    instruction: Instruction,
}

/// What is known of an instruction by its address.
#[derive(Clone)]
struct Facts {
    issues: Vec<Issue>,
    waits: Vec<(Counter, usize)>,
}

struct Hazard {
    lines: Lines,
    fail: bool,
    symbols: Symbols,
    kernels: HashMap<u64, String>,
    target: Target,
    waves: HashMap<WaveKey, Outstanding<Load>>,
    facts: HashMap<u64, (u128, Facts)>,
    /// Hazards by the addresses of load and use, with how often they were met.
    found: BTreeMap<(String, u64, u64), u64>,
}

/// Whether the instruction loads the same register by the same counter, in order: the later load arrives later,
/// and keeps what the earlier one loaded into the other half.
fn in_order(step: &Step<'_>, issue: &Issue, touch: &Touch) -> bool {
    let inst = &step.instruction.inst;
    let same = |other: &Issue| other.counter == issue.counter && !other.unordered;
    !issue.unordered
        && issued(inst).iter().any(same)
        && inst
            .effects(step.wave.lanes)
            .writes(touch.file, touch.register)
}

fn key(wave: &Wave) -> WaveKey {
    (wave.dispatch, wave.group, wave.index)
}

impl Hazard {
    fn facts(&mut self, instruction: &Instruction) -> &Facts {
        let inst = &instruction.inst;
        let fresh = || Facts {
            issues: issued(inst),
            waits: waited(inst),
        };
        let entry = self.facts.entry(instruction.pc);
        let (word, facts) = entry.or_insert_with(|| (inst.word(), fresh()));
        if *word != inst.word() {
            (*word, *facts) = (inst.word(), fresh());
        }
        facts
    }

    fn check(&mut self, step: &Step<'_>, touched: &[Touch], writes: bool) -> Outcome {
        let Some(outstanding) = self.waves.get(&key(step.wave)) else {
            return Ok(());
        };
        if outstanding.is_empty() {
            return Ok(());
        }
        for (index, (issue, load)) in outstanding.iter().enumerate() {
            let hit = touched
                .iter()
                .find(|touch| load.registers.contains(&(touch.file, touch.register)));
            let Some(touch) = hit else { continue };
            if in_order(step, issue, touch) {
                continue;
            }
            let kernel = self
                .kernels
                .get(&step.wave.dispatch)
                .cloned()
                .unwrap_or_default();
            let place = (kernel.clone(), load.instruction.pc, step.instruction.pc);
            let count = self.found.entry(place).or_default();
            *count += 1;
            if *count > 1 {
                continue;
            }
            let enough = outstanding.sufficient(index);
            let record = json!({
                "plugin": "data_hazard",
                "hazard": if writes { "write" } else { "read" },
                "kernel": kernel,
                "dispatch": step.wave.dispatch,
                "workgroup": step.wave.workgroup,
                "wave": step.wave.index,
                "register": register_name(touch.file, touch.register),
                "counter": issue.counter.name(self.target),
                "wait": issue.counter.wait(self.target, enough),
                "use": self.symbols.describe(step.instruction),
                "load": self.symbols.describe(&load.instruction),
            });
            self.lines.line(&record.to_string())?;
        }
        Ok(())
    }
}

impl Plugin for Hazard {
    fn events(&self) -> Events {
        Events::DISPATCHES | Events::WAVES | Events::BEFORE | Events::READS | Events::WRITES
    }

    fn code_loaded(&mut self, code: &Code<'_>) -> Outcome {
        self.symbols.add(code);
        Ok(())
    }

    fn dispatch_begins(&mut self, dispatch: &Dispatch<'_>) -> Outcome {
        self.target = dispatch.target;
        self.kernels.insert(dispatch.id, dispatch.kernel.to_owned());
        Ok(())
    }

    fn wave_ends(&mut self, wave: &Wave) -> Outcome {
        self.waves.remove(&key(wave));
        Ok(())
    }

    fn before(&mut self, step: &Step<'_>, _: &dyn State) -> Outcome {
        let waits = self.facts(step.instruction).waits.clone();
        if !waits.is_empty()
            && let Some(outstanding) = self.waves.get_mut(&key(step.wave))
        {
            waits
                .into_iter()
                .for_each(|(counter, n)| outstanding.wait(counter, n));
        }
        // An operation counts when it is issued, whether it loads anything or not; registers come with `writes`.
        let issues = self.facts(step.instruction).issues.clone();
        self.issue(step, &issues);
        Ok(())
    }

    fn reads(&mut self, step: &Step<'_>, touched: &[Touch], _: &dyn State) -> Outcome {
        self.check(step, touched, false)
    }

    fn writes(&mut self, step: &Step<'_>, touched: &[Touch], _: &dyn State) -> Outcome {
        self.check(step, touched, true)?;
        self.load(step, touched);
        Ok(())
    }

    fn finish(&mut self) -> Outcome {
        let count = self.found.len();
        let times: u64 = self.found.values().sum();
        let record = json!({
            "plugin": "data_hazard",
            "event": "summary",
            "hazards": count,
            "times": times,
        });
        self.lines.line(&record.to_string())?;
        self.lines.flush()?;
        if self.fail && count > 0 {
            return Err(format!("{count} data hazards"));
        }
        Ok(())
    }
}

impl Hazard {
    fn issue(&mut self, step: &Step<'_>, issues: &[Issue]) {
        if issues.is_empty() {
            return;
        }
        let outstanding = self.waves.entry(key(step.wave)).or_default();
        for issue in issues {
            let load = Load {
                registers: Vec::new(),
                instruction: step.instruction.clone(),
            };
            outstanding.push(*issue, load);
        }
    }

    /// The registers that the operation which was just issued loads.
    fn load(&mut self, step: &Step<'_>, touched: &[Touch]) {
        let count = self.facts(step.instruction).issues.len();
        let Some(outstanding) = self.waves.get_mut(&key(step.wave)) else {
            return;
        };
        let vector = |t: &&Touch| !matches!(t.file, RegFile::AsyncCount | RegFile::TensorCount);
        let registers: Vec<Register> = touched
            .iter()
            .filter(vector)
            .map(|touch| (touch.file, touch.register))
            .collect();
        for load in outstanding.last_mut(count) {
            load.registers.clone_from(&registers);
        }
    }
}
