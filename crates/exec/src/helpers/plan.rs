//! The windows of a block, found when it is decoded: so they are kept by address and state of the wave, and go when the
//! block's bytes have changed.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rocjitsu_isa::{RegFile, Target};

use super::cost::{Model, Phase};
use super::scoreboard::{Kind, Set, Touched, windows};
use super::sync::JOBS;
use super::{Policy, issue, job};
use crate::control::is_nop;
use crate::lower::State;
use crate::matrix;
use crate::record::{Class, Operand, Record};
use crate::target::TargetFacts;
use crate::watch::{self, Info, Use};
use crate::wave::scalar;

/// What is known of a block with windows, by all threads that execute it.
pub struct Plan {
    /// Executions that are not measured, and whether helpers take part in them.
    left: AtomicU32,
    helped: AtomicBool,
    model: Mutex<Model>,
}

/// The place of a matrix instruction in a window.
pub struct Seat {
    /// Of its block.
    pub plan: Arc<Plan>,
    /// The first one of its block's first window.
    pub opens: bool,
    /// The last one of its window, which the wave keeps.
    pub last: bool,
}

impl Plan {
    fn new() -> Plan {
        let plan = Plan {
            left: AtomicU32::new(0),
            helped: AtomicBool::new(false),
            model: Mutex::default(),
        };
        plan.apply(
            plan.model
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .phase(),
        );
        plan
    }

    fn apply(&self, phase: Phase) {
        if let Phase::Runs { helped, left } = phase {
            self.helped.store(helped, Relaxed);
            self.left.store(left, Relaxed);
        }
    }

    /// Whether helpers take part in the next execution of the block, if it is not to be measured. Threads may overlook each
    /// other's executions.
    pub fn next(&self) -> Option<bool> {
        let left = self.left.load(Relaxed).checked_sub(1)?;
        self.left.store(left, Relaxed);
        Some(self.helped.load(Relaxed))
    }

    /// Whether helpers take part in an execution that is measured.
    pub fn measures_helped(&self) -> bool {
        let mut model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        if let Phase::Runs { .. } = model.phase() {
            model.measure();
        }
        model.phase() == Phase::Measures { helped: true }
    }

    /// An execution took that long.
    pub fn hears(&self, took: Duration, helped: bool) {
        let mut model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        if model.phase() == (Phase::Measures { helped }) {
            model.hears(took.as_nanos().min(u32::MAX.into()) as u32);
            self.apply(model.phase());
        }
    }
}

/// How records are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Finder {
    /// When helpers take part.
    pub policy: Policy,
    /// Whether products are compiled that have a simple rule.
    pub compiles: bool,
    /// The code's target.
    pub target: Target,
}

impl Finder {
    /// Whether helpers may get an instruction. Those that are compiled take a fraction of the time in which one is given away.
    fn is_candidate(&self, record: &Record) -> bool {
        let compiled = self.compiles && self.policy == Policy::Measured && matrix::has_form(record);
        record.class == Class::Matrix && !compiled && job::possible(record)
    }

    /// What the scoreboard is to know of an instruction.
    fn touched(&self, record: &Record, info: &Info, lanes: u32) -> Touched {
        let mut touched = Touched {
            kind: Kind::Passes,
            reads: Set::default(),
            writes: Set::default(),
        };
        let mut known = true;
        let mut insert = |set: &mut Set, uses: &[Use]| {
            for range in uses {
                let base = match range.file {
                    RegFile::Vgpr => 0,
                    RegFile::Agpr => self.target.acc_base(),
                    _ => continue,
                };
                known &= set.insert(base + u32::from(range.first), range.count.into());
            }
        };
        insert(&mut touched.reads, &info.reads);
        insert(&mut touched.writes, &info.writes);
        let is_exec = |range: &Use| {
            let exec = scalar::EXEC as u16;
            range.file == RegFile::Sgpr
                && range.first <= exec + 1
                && exec < range.first + range.count
        };
        let changes_state = |range: &Use| range.file == RegFile::Mode || is_exec(range);
        touched.kind = if self.is_candidate(record) {
            known &= matrix::touch(record, &mut touched.reads, &mut touched.writes);
            Kind::Matrix
        } else if record.ends_block
            || record.class == Class::Control && !is_nop(record.inst.op())
            || info.writes.iter().any(changes_state)
            || record.inst.effects(lanes).indirect
        {
            Kind::Drains
        } else {
            Kind::Passes
        };
        if !known {
            touched.kind = Kind::Drains;
        }
        touched
    }

    /// Finds the windows of a block, decoded under `state`, and has their instructions issued by [`issue::issue`].
    pub fn mark(&self, records: &mut [Record], state: State) {
        let candidates = records.iter().filter(|record| self.is_candidate(record));
        if state.indexing() || candidates.count() < 2 {
            return;
        }
        let lanes = state.lanes();
        let infos = watch::of_block(records, lanes, state.banks());
        let look = |(record, info): (&Record, &Info)| self.touched(record, info, lanes);
        let touched: Vec<_> = records.iter().zip(&infos).map(look).collect();
        let windows = windows(&touched, JOBS + 1);
        if windows.is_empty() {
            return;
        }
        let plan = Arc::new(Plan::new());
        let mut opens = true;
        for window in windows {
            let last = window.last().copied();
            for at in window {
                let record = &mut records[at];
                if let Some(details) = record.matrix.as_deref_mut() {
                    details.seat = Some(Seat {
                        plan: plan.clone(),
                        opens: std::mem::take(&mut opens),
                        last: Some(at) == last,
                    });
                    record.in_order = record.run;
                    record.run = issue::issue;
                }
            }
        }
    }
}

/// Puts the registers of an operand into a set; false if they are beyond the last.
pub fn insert(set: &mut Set, operand: Operand, count: usize) -> bool {
    operand
        .vector()
        .is_none_or(|first| set.insert(first, count as u32))
}
