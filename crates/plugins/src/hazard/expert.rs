//! What a program has to wait for by itself in the expert scheduling mode of gfx12 and gfx1250, in which SCHED_MODE switches
//! off that memory instructions wait for vector arithmetic and that registers are kept for them. No manual tells of it.
//! Source: LLVM, which sets the mode at a kernel's entry and inserts these waits (`SIInsertWaitcnts`, expert scheduling mode).

use std::sync::Arc;

use rocjitsu_isa::{Format, Inst, Name, Op, Target};
use rocjitsu_observe::State;

use super::class::{Class, Role, Span};
use super::states::{Facts, depctr};
use crate::counters::{Counter, Issue, Outstanding};

/// WAVE_SCHED_MODE as `s_setreg` names it, and the mode in its two lowest bits that switches both checks off.
const SCHED_MODE: u32 = 26;
const EXPERT: u32 = 2;

/// The largest values of the fields of `s_wait_alu`, which wait for nothing.
const VA_VDST: u32 = 15;
const VM_VSRC: u32 = 7;

/// More operations than a counter can tell of.
const MANY: usize = 64;

/// What completes in the order of issue; operations of different pipes overtake each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pipe {
    Plain,
    Double,
    Trans,
    Matrix,
    Lds,
    Flat,
    Memory,
}

impl Pipe {
    fn of(facts: &Facts) -> Pipe {
        let inst = &facts.instruction.inst;
        let name = inst.op().name();
        if matches!(
            inst.format(),
            Format::FLAT | Format::VFLAT | Format::VGLOBAL | Format::VSCRATCH
        ) {
            return Pipe::Flat;
        }
        let classes = facts.classes;
        match () {
            () if classes.any(Class::DS) => Pipe::Lds,
            () if classes.any(Class::VMEM) => Pipe::Memory,
            () if classes.any(Class::WMMA) => Pipe::Matrix,
            () if classes.any(Class::TRANS) => Pipe::Trans,
            () if name.contains("_f64") => Pipe::Double,
            () => Pipe::Plain,
        }
    }
}

/// VGPRs of a matrix product's result from which on it completes behind all vector arithmetic before it (LLVM, of gfx1250).
const ORDERED: u16 = 8;

/// An instruction under way.
struct Event {
    facts: Arc<Facts>,
    pipe: Pipe,
    number: u64,
    /// How often it counts.
    weight: usize,
    /// It completes behind all before it.
    ordered: bool,
    /// Vector arithmetic whose results it reads or overwrites: hardware waits for these.
    needs: Vec<u64>,
}

/// A counter of the arithmetic unit.
#[derive(Default)]
struct Queue(Vec<Event>);

impl Queue {
    fn push(&mut self, event: Event) {
        if self.0.len() >= MANY {
            self.0.remove(0);
        }
        self.0.push(event);
    }

    /// The operations one of whose results is among `spans`.
    fn writers(&self, spans: &[Span]) -> Vec<u64> {
        let writes = |event: &&Event| {
            let mut own = event.facts.spans(Role::Written).iter();
            own.any(|a| spans.iter().any(|b| a.common(b).is_some()))
        };
        let found = self.0.iter().filter(writes);
        found.map(|event| event.number).collect()
    }

    /// For each operation the count as long as it is under way: then those behind it in its pipe are as well, those that complete
    /// behind all, those that need it, and what these hold up.
    fn counts(&self) -> Vec<usize> {
        let mut held = vec![0u64; self.0.len()];
        for i in (0..self.0.len()).rev() {
            let first = &self.0[i];
            let behind = self.0.iter().enumerate().skip(i + 1).filter(|(_, later)| {
                later.pipe == first.pipe || later.ordered || later.needs.contains(&first.number)
            });
            held[i] = behind.fold(1 << i, |all, (j, _)| all | held[j]);
        }
        let weight = |set: &u64| {
            let within = self.0.iter().enumerate().filter(|(i, _)| set >> i & 1 != 0);
            within.map(|(_, event)| event.weight).sum()
        };
        held.iter().map(weight).collect()
    }

    /// At most `n` are left, if that is less than `most`, by which a field says that nothing is waited for: what is certainly
    /// complete is forgotten.
    fn wait(&mut self, n: u32, most: u32) {
        if n == most {
            return;
        }
        let mut counts = self.counts().into_iter();
        self.0
            .retain(|_| counts.next().is_none_or(|count| count <= n as usize));
    }

    /// The latest operation one of whose registers of a role is among `spans`, the register, and the wait that is enough.
    fn find(&self, role: Role, spans: &[Span]) -> Option<(&Event, u16, usize)> {
        let common = |event: &Event| {
            let own = event.facts.spans(role).iter();
            own.flat_map(|a| spans.iter().filter_map(|b| a.common(b)))
                .next()
        };
        let all = self.0.iter().enumerate().rev();
        let (index, event, register) = all
            .filter_map(|(index, event)| Some((index, event, common(event)?)))
            .next()?;
        Some((event, register, self.counts()[index] - 1))
    }
}

/// What a program has not waited for.
pub struct Missing {
    /// The hazard's name.
    pub hazard: &'static str,
    /// The instruction before.
    pub first: Arc<Facts>,
    /// A VGPR of both.
    pub register: u16,
    /// The wait.
    pub mend: String,
}

/// The state of a wave.
#[derive(Default)]
pub struct Expert {
    /// SCHED_MODE.
    mode: u32,
    arithmetic: Queue,
    memory: Queue,
    /// Memory operations by the counters of their results: a complete one has read its registers.
    results: Outstanding<u64>,
    number: u64,
}

impl Expert {
    /// Whether a target has the mode.
    pub fn is_possible(target: Target) -> bool {
        target.generation() >= 12
    }

    /// Whether the wave is in the mode.
    pub fn is_on(&self) -> bool {
        self.mode & 3 == EXPERT
    }

    /// Follows what an instruction writes into SCHED_MODE.
    pub fn follow(&mut self, inst: &Inst, state: &dyn State) {
        let value = match inst.op() {
            Op::s_setreg_imm32_b32 => inst.field(Name::imm),
            Op::s_setreg_b32 => match inst.operand(Name::sdst) {
                Some(rocjitsu_isa::Operand::Sgpr(register)) => Some(state.sgpr(register.into())),
                _ => None,
            },
            _ => return,
        };
        let field = inst.field(Name::simm16).unwrap_or(0);
        let (id, offset) = (field & 0x3f, field >> 6 & 0x1f);
        if let (SCHED_MODE, Some(value)) = (id, value) {
            let mask = (u32::MAX >> (31 - (field >> 11 & 0x1f))) << offset;
            let mode = self.mode & !mask | value << offset & mask;
            let was_on = self.is_on();
            self.mode = mode;
            if self.is_on() != was_on {
                *self = Expert {
                    mode,
                    ..Expert::default()
                };
            }
        }
    }

    /// Notes an instruction of a wave in the mode; what it should have waited for.
    pub fn step(
        &mut self,
        facts: &Arc<Facts>,
        waits: &[(Counter, usize)],
        issues: &[Issue],
        translation: Option<Issue>,
    ) -> Vec<Missing> {
        let inst = &facts.instruction.inst;
        if let Some(field) = depctr(inst) {
            self.arithmetic.wait(field >> 12 & VA_VDST, VA_VDST);
            self.memory.wait(field >> 2 & VM_VSRC, VM_VSRC);
            return Vec::new();
        }
        for &(counter, n) in waits {
            let under_way = |all: &Outstanding<u64>| -> Vec<u64> {
                let of = all.iter().filter(|(issue, _)| issue.counter == counter);
                of.map(|(_, number)| *number).collect()
            };
            let before = under_way(&self.results);
            let _ = self.results.wait(counter, n);
            let after = under_way(&self.results);
            let complete = |number: u64| before.contains(&number) && !after.contains(&number);
            self.memory.0.retain(|event| !complete(event.number));
        }
        let memory = facts.classes.any(Class::MEMORY);
        let arithmetic = facts.classes.any(Class::VALU) && !memory;
        if !memory && !arithmetic {
            return Vec::new();
        }
        let writes = facts.spans(Role::Written);
        let touched = [facts.spans(Role::Read), writes].concat();
        let mut missing = Vec::new();
        let mut tell = |hazard, found: Option<(&Event, u16, usize)>, counter: &str, most: u32| {
            if let Some((event, register, n)) = found {
                let n = n.min(most as usize - 1);
                missing.push(Missing {
                    hazard,
                    first: event.facts.clone(),
                    register,
                    mend: format!("{counter}({n})"),
                });
            }
        };
        if memory {
            let result = self.arithmetic.find(Role::Written, &touched);
            tell("expert_result", result, "va_vdst", VA_VDST);
        }
        let source = self.memory.find(Role::Read, writes);
        tell("expert_memory_source", source, "vm_vsrc", VM_VSRC);
        self.number += 1;
        let results: u16 = writes.iter().map(|span| span.count).sum();
        let event = Event {
            ordered: facts.classes.any(Class::WMMA) && results >= ORDERED,
            needs: match arithmetic {
                true => self.arithmetic.writers(&touched),
                false => Vec::new(),
            },
            facts: facts.clone(),
            pipe: Pipe::of(facts),
            number: self.number,
            // A scale and its product are two.
            weight: 1 + usize::from(inst.op().name().starts_with("v_wmma_scale")),
        };
        if arithmetic {
            self.arithmetic.push(event);
        } else {
            self.memory.push(event);
            // What is translated has read its address, and data at the latest then.
            for issue in issues.iter().copied().chain(translation) {
                self.results.push(issue, self.number);
            }
        }
        missing
    }
}
