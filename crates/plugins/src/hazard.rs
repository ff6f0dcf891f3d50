//! `data_hazard`: registers that an instruction uses before a wait has told that the operation which loads them is
//! complete, and instructions that follow another one too closely for hardware that does not wait by itself. Execution
//! here completes every instruction at once; on the chip such a program reads the old value.

mod class;
mod expert;
mod forwarding;
mod lds;
mod loads;
mod rules;
mod sgprs;
mod states;
#[cfg(test)]
mod tests;

use foldhash::HashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

use rocjitsu_isa::{Format, Name, Op, RegFile, Target};
use rocjitsu_observe::{
    Access, Code, Dispatch, Ended, Events, Instruction, Lines, Outcome, Plugin, Space, State, Step,
    Touch, Wave, Workgroup,
};
use serde_json::{Value, json};

use crate::counters::{Counter, Issue, copies_lds, is_vector_memory, issued, translated, waited};
use crate::options::Options;
use crate::symbols::Symbols;
use crate::trace::register_name;
use expert::Expert;
use forwarding::Forwarding;
use lds::Copies;
use loads::{Early, Loads};
use rules::Unit;
use sgprs::{Kind, Stale};
use states::{Close, Facts, Recent, mend};

/// Makes the plugin.
pub fn make(mut options: Options, lines: Lines) -> Result<Box<dyn Plugin>, String> {
    let fail = options.switch("fail", false)?;
    let replays = options.switch("xcnt", false)?;
    options.finish(&["xcnt", "fail", "file"])?;
    Ok(Box::new(Hazard {
        lines,
        fail,
        replays,
        symbols: Symbols::default(),
        kernels: HashMap::default(),
        waves: HashMap::default(),
        copies: Copies::default(),
        known: HashMap::default(),
        found: BTreeMap::new(),
    }))
}

type WaveKey = (u64, u64, u32);

/// What is known of an instruction by its address.
struct Known {
    facts: Arc<Facts>,
    issues: Vec<Issue>,
    waits: Vec<(Counter, usize)>,
    translation: Option<Issue>,
}

/// The state of a wave.
#[derive(Default)]
struct Following {
    loads: Loads,
    recent: Recent,
    stale: Stale,
    forwarding: Forwarding,
    expert: Expert,
    /// What `s_set_vgpr_msb` has set.
    banks: u32,
}

/// Target, address, lanes and banks of an instruction.
type Place = (Target, u64, u32, u32);

struct Hazard {
    lines: Lines,
    fail: bool,
    /// Whether accesses may be replayed, so that xcnt matters: asked for, or allowed by a code object.
    replays: bool,
    symbols: Symbols,
    kernels: HashMap<u64, String>,
    waves: HashMap<WaveKey, Following>,
    /// Copies between memory and LDS.
    copies: Copies,
    known: HashMap<Place, (u128, Arc<Known>)>,
    /// Hazards by kind and the addresses of both instructions, with how often they were met.
    found: BTreeMap<(String, &'static str, u64, u64), u64>,
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

/// Whether a code object may run with XNACK (LLVM's AMDGPU usage guide, `EF_AMDGPU_FEATURE_XNACK_V4`: any, on). Without,
/// compilers need not wait before they change the registers of an access.
fn allows_replay(file: &[u8]) -> bool {
    let flags = object::File::parse(file).map(|file| object::Object::flags(&file));
    matches!(flags, Ok(object::FileFlags::Elf { e_flags, .. }) if matches!(e_flags & 0x300, 0x100 | 0x300))
}

fn key(wave: &Wave) -> WaveKey {
    (wave.dispatch, wave.group, wave.index)
}

impl Hazard {
    fn known(&mut self, step: &Step<'_>, banks: u32) -> Arc<Known> {
        let instruction = step.instruction;
        let inst = &instruction.inst;
        let lanes = step.wave.lanes;
        let fresh = || {
            Arc::new(Known {
                facts: Arc::new(Facts::new(instruction, lanes, banks)),
                issues: issued(inst),
                waits: waited(inst),
                translation: translated(inst),
            })
        };
        let place = (inst.target(), instruction.pc, lanes, banks);
        let entry = self.known.entry(place);
        let (word, known) = entry.or_insert_with(|| (inst.word(), fresh()));
        if *word != inst.word() {
            (*word, *known) = (inst.word(), fresh());
        }
        known.clone()
    }

    /// Tells of a hazard, once for a pair of instructions.
    fn report(
        &mut self,
        step: &Step<'_>,
        hazard: &'static str,
        first: &Instruction,
        detail: impl FnOnce(&Symbols) -> Value,
    ) -> Outcome {
        let kernel = self.kernels.get(&step.wave.dispatch);
        let kernel = kernel.cloned().unwrap_or_default();
        let place = (kernel.clone(), hazard, first.pc, step.instruction.pc);
        let count = self.found.entry(place).or_default();
        *count += 1;
        if *count > 1 {
            return Ok(());
        }
        let mut record = json!({
            "plugin": "data_hazard",
            "hazard": hazard,
            "kernel": kernel,
            "dispatch": step.wave.dispatch,
            "workgroup": step.wave.workgroup,
            "wave": step.wave.index,
        });
        if let (Value::Object(record), Value::Object(detail)) = (&mut record, detail(&self.symbols))
        {
            record.extend(detail);
        }
        self.lines.line(&record.to_string())
    }

    fn early(&mut self, step: &Step<'_>, hazard: &'static str, early: &Early) -> Outcome {
        let (counter, enough) = early.wait;
        let target = step.instruction.inst.target();
        self.report(step, hazard, &early.instruction, |symbols| {
            json!({
                "register": register_name(early.register.0, early.register.1),
                "counter": counter.name(target),
                "wait": counter.wait(target, enough),
                "use": symbols.describe(step.instruction),
                "load": symbols.describe(&early.instruction),
            })
        })
    }

    /// Bytes of LDS that an instruction uses while a copy to or from them is under way.
    fn copied(&mut self, step: &Step<'_>, accesses: &[Access]) -> Outcome {
        for met in self.copies.met(step.wave, accesses) {
            let issuer = Wave {
                index: met.copy.wave,
                ..*step.wave
            };
            let wave = self.waves.get(&key(&issuer));
            let Some(early) = wave.and_then(|wave| wave.loads.under_way(met.copy.number)) else {
                continue;
            };
            let hazard = ["lds_read", "lds_write"][usize::from(met.writes)];
            let (counter, enough) = early.wait;
            let target = step.instruction.inst.target();
            self.report(step, hazard, &early.instruction, |symbols| {
                json!({
                    "address": format!("{:#x}", met.address),
                    "counter": counter.name(target),
                    "wait": counter.wait(target, enough),
                    "use": symbols.describe(step.instruction),
                    "load": symbols.describe(&early.instruction),
                    "copied_by": issuer.index,
                })
            })?;
        }
        Ok(())
    }

    fn close(&mut self, step: &Step<'_>, close: &Close) -> Outcome {
        let first = &close.first.instruction;
        self.report(step, close.rule.name, first, |symbols| {
            let mut detail = json!({
                "first": symbols.describe(first),
                "second": symbols.describe(step.instruction),
                "between": close.have,
                "needed": close.need,
                "unit": match close.rule.unit {
                    Unit::States => "wait states",
                    Unit::Vector | Unit::VectorDone(_) => "vector instructions",
                },
                "mend": mend(close),
            });
            if let Some((Some(file), register)) = close.register {
                detail["register"] = register_name(file, register).into();
            }
            detail
        })
    }

    /// A register that holds its old value until something has been waited for.
    fn stale(
        &mut self,
        step: &Step<'_>,
        hazard: &'static str,
        first: &Instruction,
        register: String,
        wait: &str,
    ) -> Outcome {
        let name = match step.instruction.inst.target().generation() {
            12.. => "s_wait_alu",
            _ => "s_waitcnt_depctr",
        };
        self.report(step, hazard, first, |symbols| {
            json!({
                "register": register,
                "first": symbols.describe(first),
                "second": symbols.describe(step.instruction),
                "mend": format!("{name} depctr_{wait}"),
            })
        })
    }
}

impl Plugin for Hazard {
    fn events(&self) -> Events {
        Events::DISPATCHES
            | Events::WORKGROUPS
            | Events::WAVES
            | Events::BEFORE
            | Events::READS
            | Events::WRITES
            | Events::ACCESSES
    }

    fn code_loaded(&mut self, code: &Code<'_>) -> Outcome {
        self.symbols.add(code);
        self.replays |= allows_replay(code.file);
        Ok(())
    }

    fn dispatch_begins(&mut self, dispatch: &Dispatch<'_>) -> Outcome {
        self.kernels.insert(dispatch.id, dispatch.kernel.to_owned());
        Ok(())
    }

    fn dispatch_ends(&mut self, ended: &Ended<'_>) -> Outcome {
        self.kernels.remove(&ended.id);
        // Of one that failed, workgroups and waves have not ended.
        self.waves.retain(|(dispatch, ..), _| *dispatch != ended.id);
        self.copies.end_dispatch(ended.id);
        Ok(())
    }

    fn workgroup_ends(&mut self, workgroup: &Workgroup) -> Outcome {
        self.copies.end(workgroup.dispatch, workgroup.linear);
        Ok(())
    }

    fn wave_ends(&mut self, wave: &Wave) -> Outcome {
        self.waves.remove(&key(wave));
        Ok(())
    }

    fn before(&mut self, step: &Step<'_>, state: &dyn State) -> Outcome {
        let mut wave = self.waves.remove(&key(step.wave)).unwrap_or_default();
        let known = self.known(step, wave.banks);
        let facts = &known.facts;
        // An operation counts when it is issued, whether it loads anything or not; registers come with `reads` and
        // `writes`.
        let translation = known.translation.filter(|_| self.replays);
        wave.loads
            .begin(step.instruction, &known.waits, &known.issues, translation);
        for close in wave.recent.check(facts) {
            self.close(step, &close)?;
        }
        wave.recent.issue(facts);
        let lanes = step.wave.lanes;
        if let Some(kind) = Kind::of(step.instruction.inst.target(), lanes) {
            if let Some(old) = wave.stale.step(kind, facts, lanes) {
                let register = register_name(RegFile::Sgpr, old.register);
                self.stale(
                    step,
                    "sgpr_stale",
                    &old.first.instruction,
                    register,
                    old.mend,
                )?;
            }
            if kind == Kind::Masks
                && let Some((first, register)) = wave.forwarding.step(facts)
            {
                let register = register_name(RegFile::Vgpr, register);
                let wait = "va_vdst(0)";
                self.stale(
                    step,
                    "partial_forwarding",
                    &first.instruction,
                    register,
                    wait,
                )?;
            }
        }
        let inst = &step.instruction.inst;
        if Expert::is_possible(step.instruction.inst.target()) {
            wave.expert.follow(inst, state);
            if wave.expert.is_on() {
                for missing in
                    wave.expert
                        .step(facts, &known.waits, &known.issues, known.translation)
                {
                    let register = register_name(RegFile::Vgpr, missing.register);
                    let first = &missing.first.instruction;
                    self.stale(step, missing.hazard, first, register, &missing.mend)?;
                }
            }
        }
        if inst.op() == Op::s_set_vgpr_msb {
            wave.banks = inst.field(Name::simm16).unwrap_or(0) & 0xff;
        }
        self.waves.insert(key(step.wave), wave);
        Ok(())
    }

    fn reads(&mut self, step: &Step<'_>, touched: &[Touch], _: &dyn State) -> Outcome {
        let Some(wave) = self.waves.get_mut(&key(step.wave)) else {
            return Ok(());
        };
        wave.loads.reads(touched);
        let early = wave.loads.early(touched, |i, t| in_order(step, i, t));
        early.iter().try_for_each(|e| self.early(step, "read", e))
    }

    fn accesses(&mut self, step: &Step<'_>, accesses: &[Access], _: &dyn State) -> Outcome {
        let flat = matches!(step.instruction.inst.format(), Format::FLAT | Format::VFLAT);
        if let (true, Some(wave)) = (flat, self.waves.get_mut(&key(step.wave))) {
            let lds = |access: &Access| access.space == Space::Lds;
            wave.loads.flat(
                accesses.iter().any(lds),
                accesses.iter().any(|access| !lds(access)),
            );
        }
        let inst = &step.instruction.inst;
        let number = self.waves.get(&key(step.wave)).map(|w| w.loads.number());
        match number {
            Some(number) if copies_lds(inst) => self.copies.copy(step.wave, number, accesses),
            Some(number) if inst.op().name().contains("barrier_arrive") => {
                self.copies.arrives(step.wave, number);
            }
            _ => self.copied(step, accesses)?,
        }
        Ok(())
    }

    fn writes(&mut self, step: &Step<'_>, touched: &[Touch], _: &dyn State) -> Outcome {
        let Some(wave) = self.waves.get_mut(&key(step.wave)) else {
            return Ok(());
        };
        let early = wave.loads.early(touched, |i, t| in_order(step, i, t));
        let inst = &step.instruction.inst;
        let replayed = match self.replays {
            true => wave
                .loads
                .replayed(touched, is_vector_memory(inst.format())),
            false => Vec::new(),
        };
        let issues = issued(inst).len();
        wave.loads.writes(issues, touched);
        early
            .iter()
            .try_for_each(|e| self.early(step, "write", e))?;
        replayed
            .iter()
            .try_for_each(|e| self.early(step, "replay", e))
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
