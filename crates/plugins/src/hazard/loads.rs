//! Operations of a wave that are under way: the registers that they load, and (gfx1250) those that they may read again.

use rocjitsu_isa::RegFile;
use rocjitsu_observe::{Instruction, Touch};

use crate::counters::{Counter, Issue, Outstanding};

/// A register.
pub type Register = (RegFile, u16);

/// An operation.
#[derive(Clone)]
pub struct Operation {
    /// Its number in the wave.
    number: u64,
    /// Registers that it loads, or whose values it needs until its addresses are translated.
    registers: Vec<Register>,
    /// The instruction.
    pub instruction: Instruction,
}

/// An operation that is under way.
pub struct UnderWay {
    /// Its instruction.
    pub instruction: Instruction,
    /// The counter, and how many operations may be left for this one to be complete.
    pub wait: (Counter, usize),
}

/// A register that is used before a wait.
pub struct Early {
    /// The register.
    pub register: Register,
    /// The operation's instruction.
    pub instruction: Instruction,
    /// The counter, and how many operations may be left for this one to be complete.
    pub wait: (Counter, usize),
}

/// The operations under way of a wave.
#[derive(Default)]
pub struct Loads {
    issued: u64,
    loading: Outstanding<Operation>,
    translating: Outstanding<Operation>,
    /// The access that is executing. It may overwrite its own registers.
    access: Option<(Issue, Operation)>,
    /// The memories that the lanes of the flat access go to which is executing: LDS, others.
    flat: Option<(bool, bool)>,
}

fn registers(touched: &[Touch]) -> impl Iterator<Item = Register> {
    let counter = |t: &&Touch| !matches!(t.file, RegFile::AsyncCount | RegFile::TensorCount);
    touched.iter().filter(counter).map(|t| (t.file, t.register))
}

/// Registers of programs: what compilers wait for before they change them.
fn is_replayed(register: &Register) -> bool {
    matches!(register, (RegFile::Vgpr, _) | (RegFile::Sgpr, ..108))
}

impl Loads {
    /// An instruction is about to execute.
    pub fn begin(
        &mut self,
        instruction: &Instruction,
        waits: &[(Counter, usize)],
        issues: &[Issue],
        translation: Option<Issue>,
    ) {
        if let Some((issue, access)) = self.access.take() {
            // Hardware does not translate for scalar and vector memory at once: it waits for the one first.
            if self.translating.is_mixed(&issue) {
                self.translating.clear();
            }
            self.translating.push(issue, access);
        }
        for &(counter, n) in waits {
            let translated = self.translating.wait(counter, n).is_some();
            let complete = self.loading.wait(counter, n);
            let needs_none = matches!(counter, Counter::Lds | Counter::Export);
            if let (false, false, Some(last)) = (translated, needs_none, complete) {
                // What is complete has been translated, and what was issued before it: each memory keeps the order of
                // translations, and only one of them is under way.
                self.translating.retain(|other| other.number > last.number);
            }
        }
        self.flat = None;
        self.issued += u64::from(!issues.is_empty());
        let operation = || Operation {
            number: self.issued,
            registers: Vec::new(),
            instruction: instruction.clone(),
        };
        self.access = translation.map(|issue| (issue, operation()));
        for issue in issues {
            self.loading.push(*issue, operation());
        }
    }

    /// It reads these registers.
    pub fn reads(&mut self, touched: &[Touch]) {
        if let Some((_, access)) = &mut self.access {
            access.registers = registers(touched).filter(is_replayed).collect();
        }
    }

    /// The number of the latest operation.
    pub fn number(&self) -> u64 {
        self.issued
    }

    /// Operation `number`, if no wait has told that it is complete.
    pub fn under_way(&self, number: u64) -> Option<UnderWay> {
        let is = |(_, operation): &(Issue, Operation)| operation.number == number;
        let index = self.loading.iter().position(is)?;
        let (issue, operation) = self.loading.iter().nth(index)?;
        Some(UnderWay {
            instruction: operation.instruction.clone(),
            wait: (issue.counter, self.loading.sufficient(index)),
        })
    }

    /// It is a flat access, some of whose lanes go to LDS, and some elsewhere.
    pub fn flat(&mut self, lds: bool, elsewhere: bool) {
        self.flat = Some((lds, elsewhere));
    }

    /// The operation with `issues` counters that was just issued loads these registers. A flat one counts on two, but only
    /// the memories that its lanes go to load anything.
    pub fn writes(&mut self, issues: usize, touched: &[Touch]) {
        let (lds, elsewhere) = self.flat.unwrap_or((true, true));
        for (issue, operation) in self.loading.last_mut(issues) {
            let loads = match issue.counter {
                Counter::Lds => lds,
                _ => elsewhere,
            };
            operation.registers = registers(touched).filter(|_| loads).collect();
        }
    }

    /// Registers that it uses before they are loaded. `in_order`: whether it loads a register by the counter, behind
    /// the operation.
    pub fn early(
        &self,
        touched: &[Touch],
        in_order: impl Fn(&Issue, &Touch) -> bool,
    ) -> Vec<Early> {
        find(&self.loading, touched, in_order)
    }

    /// Registers that an instruction changes although an access may read them again. `vector`: whether it is of vector
    /// memory, which changes registers only when accesses before it are translated.
    pub fn replayed(&self, touched: &[Touch], vector: bool) -> Vec<Early> {
        find(&self.translating, touched, |issue, _| {
            vector && !issue.unordered
        })
    }
}

fn find(
    outstanding: &Outstanding<Operation>,
    touched: &[Touch],
    skip: impl Fn(&Issue, &Touch) -> bool,
) -> Vec<Early> {
    if outstanding.is_empty() {
        return Vec::new();
    }
    let early = |(index, (issue, operation)): (usize, &(Issue, Operation))| {
        let hit = |touch: &&Touch| operation.registers.contains(&(touch.file, touch.register));
        let touch = touched.iter().find(hit)?;
        (!skip(issue, touch)).then(|| Early {
            register: (touch.file, touch.register),
            instruction: operation.instruction.clone(),
            wait: (issue.counter, outstanding.sufficient(index)),
        })
    };
    outstanding.iter().enumerate().filter_map(early).collect()
}
