//! The run loop of a watched dispatch: every instruction is interpreted on its own, and plugins are told
//! what it is, reads, writes and accesses. [`crate::run`] executes all other dispatches and knows nothing of this.
//!
//! What an instruction touches is worked out before it executes, from the same operands and address functions
//! that its handler uses (`registers`, `access`): handlers do not report, so that they cost the same watched or
//! not.

pub(crate) mod access;
mod exchange;
mod info;
mod registers;
mod view;

use rocjitsu_isa::Op;
use rocjitsu_observe::{Access, Barrier, Events, Failure, Step, Touch, Watcher};

pub(crate) use info::Use;
pub(crate) use info::of_block;
pub use info::{Info, family};

use crate::code::CodeView;
use crate::error::{Cause, Fault};
use crate::helpers::Turn;
use crate::lower::State;
use crate::record::{Flow, Record};
use crate::run::{Counts, Stop, gives_way};
use crate::wave::{Cx, Group, Waiting};
use view::View;

/// What a worker keeps while it watches.
pub struct Watch<'p> {
    /// Tells the plugins.
    pub watcher: Watcher<'p>,
    touched: Vec<Touch>,
    accesses: Vec<Access>,
}

impl<'p> Watch<'p> {
    /// A worker that watches for `watcher`.
    pub fn new(watcher: Watcher<'p>) -> Watch<'p> {
        Watch {
            watcher,
            touched: Vec::new(),
            accesses: Vec::new(),
        }
    }
}

/// Runs a wave for about `quantum` instructions, as [`crate::run::run`] does, and tells of each. `wave` is who
/// it is.
pub fn run(
    cx: &mut Cx<'_, '_>,
    code: &mut CodeView<'_>,
    quantum: u64,
    counts: &mut Counts,
    watch: &mut Watch<'_>,
    wave: &rocjitsu_observe::Wave,
) -> Stop {
    cx.unit.memory.refresh();
    cx.wave.v.set_shared(cx.unit.temp.splat.as_ptr().cast());
    code.refresh();
    let events = watch.watcher.events();
    let registers = events.any(Events::READS | Events::WRITES);
    let run = match (registers, events.any(Events::ACCESSES)) {
        (false, false) => run_loop::<false, false>,
        (false, true) => run_loop::<false, true>,
        (true, false) => run_loop::<true, false>,
        (true, true) => run_loop::<true, true>,
    };
    let turn = Turn(cx);
    run(turn.0, code, quantum, counts, watch, wave)
}

fn run_loop<const REGISTERS: bool, const ACCESSES: bool>(
    cx: &mut Cx<'_, '_>,
    code: &mut CodeView<'_>,
    quantum: u64,
    counts: &mut Counts,
    watch: &mut Watch<'_>,
    wave: &rocjitsu_observe::Wave,
) -> Stop {
    let mut left = quantum as i64;
    loop {
        let state = State::of(cx.wave);
        let block = match code.block(cx.wave.pc, state, &mut cx.unit.memory) {
            Ok(block) => block,
            Err(fault) => {
                cx.unit.fault = Some(Box::new(fault));
                return Stop::Fault;
            }
        };
        cx.wave.pc = block.end;
        let key = block.key();
        let all = block.records.len();
        for (at, (record, info)) in block.records.iter().zip(block.watched()).enumerate() {
            if gives_way(cx, record) {
                code.ended_early(key, at);
                return Stop::Waits;
            }
            let step = Step {
                wave,
                instruction: &info.instruction,
                exec: cx.wave.exec(),
            };
            match one::<REGISTERS, ACCESSES>(cx, record, info, &step, watch) {
                Ok(Flow::Next) => record.count(counts),
                Ok(Flow::Jump) => {
                    record.count(counts);
                    if at + 1 < all {
                        code.ended_early(key, at + 1);
                    }
                    break;
                }
                Ok(Flow::Wait) => {
                    record.count(counts);
                    if at + 1 < all {
                        code.ended_early(key, at + 1);
                    }
                    if std::mem::take(&mut cx.wave.code_stale) {
                        code.invalidate();
                    }
                    return Stop::Waits;
                }
                Ok(Flow::Again) => {
                    code.ended_early(key, at);
                    return Stop::Waits;
                }
                Ok(Flow::Fault) => {
                    code.ended_early(key, at);
                    return Stop::Fault;
                }
                Err(failure) => {
                    let (cause, pc) = (failed(&failure), record.pc);
                    code.ended_early(key, at);
                    cx.unit.fault = Some(Box::new(Fault { cause, pc }));
                    return Stop::Fault;
                }
            }
        }
        left -= all as i64;
        if left <= 0 {
            cx.wave.waiting = Waiting::Turn;
            return Stop::Quantum;
        }
    }
}

/// The cause of a wave's end that a plugin asks for.
pub fn failed(failure: &Failure) -> Cause {
    Cause::Plugin {
        plugin: failure.plugin.clone(),
        what: failure.what.clone(),
    }
}

/// The barriers of a workgroup.
fn states(group: &Group) -> [crate::wave::Barrier; 32] {
    std::array::from_fn(|slot| group.barriers[slot].get())
}

/// Executes one instruction and tells of it.
#[inline(always)]
fn one<const REGISTERS: bool, const ACCESSES: bool>(
    cx: &mut Cx<'_, '_>,
    record: &Record,
    info: &Info,
    step: &Step<'_>,
    watch: &mut Watch<'_>,
) -> Result<Flow, Failure> {
    let watcher = &mut watch.watcher;
    watcher.before(step, &View(cx, None))?;
    if info.is_matrix {
        watcher.matrix(step)?;
    }
    let exchange = match REGISTERS && info.exchanges {
        true => exchange::of(cx, record),
        false => None,
    };
    if REGISTERS && watcher.events().any(Events::READS) {
        registers::reads(cx, info, step.exec, &mut watch.touched);
        if !watch.touched.is_empty() {
            watcher.reads(step, &watch.touched, &View(cx, exchange.as_ref()))?;
        }
    }
    if ACCESSES && info.shape.is_some() {
        access::of(cx, record, info, &mut watch.accesses);
        if !watch.accesses.is_empty() {
            watcher.accesses(step, &watch.accesses, &View(cx, None))?;
        }
    }
    if REGISTERS && watcher.events().any(Events::WRITES) {
        // Before it executes, as lanes may depend on registers that the instruction changes.
        registers::writes(cx, record, info, step.exec, &mut watch.touched);
    }
    let barriers = (info.is_barrier && watcher.events().any(Events::BARRIERS))
        .then(|| (states(cx.group), cx.wave.barrier_phase));
    let flow = (record.run)(cx, record);
    if flow == Flow::Fault {
        return Ok(flow);
    }
    if let Some((before, phases)) = barriers {
        for (slot, (old, new)) in before.iter().zip(states(cx.group)).enumerate() {
            let signals = !matches!(
                record.inst.op(),
                Op::s_barrier_wait | Op::s_barrier_init | Op::s_barrier_join | Op::s_barrier_leave
            );
            if signals && (old.phase, old.signalled) != (new.phase, new.signalled) {
                let phase = old.phase;
                let slot = slot as u8;
                watcher.barrier(step, Barrier::Signal { slot, phase })?;
            }
        }
        if matches!(record.inst.op(), Op::s_barrier | Op::s_barrier_wait) {
            for (slot, (old, new)) in phases.iter().zip(&cx.wave.barrier_phase).enumerate() {
                if old != new {
                    let phase = new.wrapping_sub(1);
                    let slot = slot as u8;
                    watcher.barrier(step, Barrier::Wait { slot, phase })?;
                }
            }
        }
    }
    if REGISTERS && !watch.touched.is_empty() && watcher.events().any(Events::WRITES) {
        watcher.writes(step, &watch.touched, &View(cx, exchange.as_ref()))?;
    }
    watcher.after(step, &View(cx, None))?;
    Ok(flow)
}
