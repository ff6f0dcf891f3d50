//! The run loop of a dispatch that is to stop at some instruction: every record on its own, looked at before it executes.
//! [`crate::run`] executes all other dispatches and knows nothing of this.

use std::collections::HashSet;

use rocjitsu_observe::{Access, AccessKind, Space};

use crate::code::{BLOCK_LIMIT, CodeView};
use crate::lower::State;
use crate::record::{Class, Flow, Record};
use crate::run::{Counts, Stop, gives_way};
use crate::watch::access;
use crate::wave::{Cx, Waiting};

/// An instruction before which waves stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breakpoint {
    /// Its address.
    pub pc: u64,
    /// Only in this workgroup, by its index in dispatch order.
    pub workgroup: Option<u64>,
    /// Only the wave with this number in its workgroup.
    pub wave: Option<u32>,
}

impl Breakpoint {
    /// Any wave that comes to `pc`.
    pub fn at(pc: u64) -> Breakpoint {
        Breakpoint {
            pc,
            workgroup: None,
            wave: None,
        }
    }
}

/// Bytes whose accesses stop a wave behind the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watchpoint {
    /// Bytes of LDS, by byte address; else bytes of memory, by virtual address (scratch is memory).
    pub lds: bool,
    /// The first byte.
    pub start: u64,
    /// How many.
    pub bytes: u64,
    /// Loads count; atomics load and store.
    pub loads: bool,
    /// Stores count.
    pub stores: bool,
    /// Only by this workgroup, by its index in dispatch order.
    pub workgroup: Option<u64>,
}

impl Watchpoint {
    fn concerns(&self, access: &Access, workgroup: u64) -> bool {
        let kind = match access.kind {
            AccessKind::Load => self.loads,
            AccessKind::Store => self.stores,
            AccessKind::Atomic => true,
        };
        let overlap = access.address < self.start.saturating_add(self.bytes)
            && self.start < access.address.saturating_add(access.bytes.into());
        kind && overlap
            && self.lds == (access.space == Space::Lds)
            && self.workgroup.is_none_or(|w| w == workgroup)
    }
}

/// Where waves stop.
#[derive(Clone, Copy, Debug, Default)]
pub struct Places<'a> {
    /// Wave instructions that may still execute.
    pub instructions: Option<u64>,
    /// Instructions before which a wave stops.
    pub breakpoints: &'a [Breakpoint],
    /// Accesses behind which a wave stops.
    pub watchpoints: &'a [Watchpoint],
}

/// Why a wave stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    /// The instructions granted have executed.
    Count,
    /// The next one is a breakpoint.
    Breakpoint,
    /// The last one accessed what is watched: the number of the watchpoint, the access, the instruction's address.
    Watchpoint(usize, Access, u64),
}

/// A wave: its workgroup's index in dispatch order, its number in the workgroup.
pub type Who = (u64, u32);

/// What a worker keeps that runs waves step by step.
pub struct Stepper<'a> {
    watchpoints: &'a [Watchpoint],
    breakpoints: &'a [Breakpoint],
    /// Addresses of breakpoints.
    pcs: HashSet<u64>,
    left: u64,
    /// Waves that have stopped before an instruction and will execute it when they run again.
    passed: Vec<(Who, u64)>,
    accesses: Vec<Access>,
    hit: Option<Hit>,
    rest: u64,
}

impl<'a> Stepper<'a> {
    /// Stops at `places`. The waves in `passed` are let past the breakpoint at the address with which they stand there.
    pub fn new(places: Places<'a>, passed: Vec<(Who, u64)>) -> Stepper<'a> {
        Stepper {
            watchpoints: places.watchpoints,
            breakpoints: places.breakpoints,
            pcs: places.breakpoints.iter().map(|b| b.pc).collect(),
            left: places.instructions.unwrap_or(u64::MAX),
            passed,
            accesses: Vec::new(),
            hit: None,
            rest: 0,
        }
    }

    /// Why the last turn ended, if it was not by itself.
    pub fn take_hit(&mut self) -> Option<Hit> {
        self.hit.take()
    }

    /// Instructions that were left of the turn that a stop ended, at least 1.
    pub fn rest(&self) -> u64 {
        self.rest.max(1)
    }

    /// Waves that have not executed the instruction that they stopped before.
    pub fn into_passed(self) -> Vec<(Who, u64)> {
        self.passed
    }

    /// Whether nothing can stop a turn of `quantum` instructions before its end.
    fn is_far(&self, quantum: u64) -> bool {
        let instructions = quantum.saturating_add(BLOCK_LIMIT as u64);
        self.breakpoints.is_empty() && self.watchpoints.is_empty() && self.left > instructions
    }

    /// Runs a wave as [`crate::run::run`] does, but no further than to where it is to stop. With [`Stop::Hit`] the wave can go
    /// on at `wave.pc`. [`Stepper::take_hit`] may say something whatever is returned.
    pub fn run(
        &mut self,
        cx: &mut Cx<'_, '_>,
        code: &mut CodeView<'_>,
        quantum: u64,
        counts: &mut Counts,
    ) -> Stop {
        if self.is_far(quantum) {
            let total = |counts: &Counts| counts[..Class::COUNT].iter().sum::<u64>();
            let before = total(counts);
            let stop = crate::run::run(cx, code, quantum, counts);
            self.left = self.left.saturating_sub(total(counts) - before);
            return stop;
        }
        cx.unit.memory.refresh();
        cx.wave.v.set_shared(cx.unit.temp.splat.as_ptr().cast());
        code.refresh();
        let mut left = quantum as i64;
        loop {
            let state = State::of(cx.wave);
            let pc = cx.wave.pc;
            // Nothing executes any more: the address need not be that of an instruction.
            if let Some(hit) = self.before(cx, pc) {
                return self.stop(cx, pc, left, hit);
            }
            let block = match code.block(pc, state, &mut cx.unit.memory) {
                Ok(block) => block,
                Err(fault) => {
                    cx.unit.fault = Some(Box::new(fault));
                    return Stop::Fault;
                }
            };
            cx.wave.pc = block.end;
            let (key, count) = (block.key(), block.records.len());
            let infos = match self.watchpoints {
                [] => &[],
                _ => block.watched(),
            };
            for (at, record) in block.records.iter().enumerate() {
                if let Some(hit) = self.before(cx, record.pc) {
                    let next = record.pc;
                    code.ended_early(key, at);
                    return self.stop(cx, next, left - at as i64, hit);
                }
                if gives_way(cx, record) {
                    code.ended_early(key, at);
                    return Stop::Waits;
                }
                let touched = infos.get(at).and_then(|info| {
                    access::of(cx, record, info, &mut self.accesses);
                    self.touched(cx.group.linear, record)
                });
                let flow = (record.run)(cx, record);
                if let Flow::Again | Flow::Fault = flow {
                    code.ended_early(key, at);
                    return match flow {
                        Flow::Again => Stop::Waits,
                        _ => Stop::Fault,
                    };
                }
                record.count(counts);
                self.left -= 1;
                let who = (cx.group.linear, cx.wave.index);
                self.passed.retain(|(passed, _)| *passed != who);
                let is_last = at + 1 == count;
                match (flow, touched) {
                    (Flow::Wait, _) => {
                        self.hit = touched;
                        if !is_last {
                            code.ended_early(key, at + 1);
                        }
                        if std::mem::take(&mut cx.wave.code_stale) {
                            code.invalidate();
                        }
                        return Stop::Waits;
                    }
                    (_, Some(hit)) => {
                        let next = match flow {
                            Flow::Jump => cx.wave.pc,
                            _ => record.next_pc,
                        };
                        if !is_last {
                            code.ended_early(key, at + 1);
                        }
                        return self.stop(cx, next, left - at as i64 - 1, hit);
                    }
                    (Flow::Jump, None) => {
                        if !is_last {
                            code.ended_early(key, at + 1);
                        }
                        break;
                    }
                    _ => {}
                }
            }
            left -= count as i64;
            if left <= 0 {
                cx.wave.waiting = Waiting::Turn;
                return Stop::Quantum;
            }
        }
    }

    fn stop(&mut self, cx: &mut Cx<'_, '_>, pc: u64, left: i64, hit: Hit) -> Stop {
        cx.wave.pc = pc;
        if hit == Hit::Breakpoint {
            self.passed.push(((cx.group.linear, cx.wave.index), pc));
        }
        self.hit = Some(hit);
        self.rest = left.max(0) as u64;
        Stop::Hit
    }

    /// Whether the wave stops before the instruction at `pc`.
    #[inline]
    fn before(&self, cx: &Cx<'_, '_>, pc: u64) -> Option<Hit> {
        if self.left == 0 {
            return Some(Hit::Count);
        }
        if !self.pcs.contains(&pc) {
            return None;
        }
        let who = (cx.group.linear, cx.wave.index);
        let meant = |b: &&Breakpoint| {
            b.pc == pc
                && b.workgroup.is_none_or(|w| w == who.0)
                && b.wave.is_none_or(|w| w == who.1)
        };
        let passed = self.passed.contains(&(who, pc));
        (!passed && self.breakpoints.iter().any(|b| meant(&b))).then_some(Hit::Breakpoint)
    }

    /// The first access that is watched, of those that an instruction is about to make.
    fn touched(&self, workgroup: u64, record: &Record) -> Option<Hit> {
        self.accesses.iter().find_map(|access| {
            let number = self
                .watchpoints
                .iter()
                .position(|watch| watch.concerns(access, workgroup))?;
            Some(Hit::Watchpoint(number, *access, record.pc))
        })
    }
}
