//! A turn of one wave: what a thread needs for it, and how it ended.

use std::sync::atomic::Ordering;

use rocjitsu_exec::barrier;
use rocjitsu_exec::code::CodeView;
use rocjitsu_exec::error::Fault;
use rocjitsu_exec::run::{Counts, Stop};
use rocjitsu_exec::wave::{Cx, Group, Unit, Waiting, Wave};

use super::Shared;
use super::suspend::At;
use super::watch::Runner;
use crate::memory::Flight;

/// What a thread runs waves with.
pub struct Hands<'s, 'a> {
    /// The dispatch.
    pub shared: &'s Shared<'a>,
    /// Buffers, and the view of memory.
    pub unit: Unit<'s>,
    /// Decoded code.
    pub code: CodeView<'s>,
    /// Instructions executed.
    pub counts: Counts,
    /// Turns given to waves of other workers' workgroups.
    pub lent: u64,
    /// What tells others that this thread uses memory.
    pub flight: Flight<'s>,
    /// How: watched by plugins, or not.
    pub runner: Runner<'s>,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slice {
    /// With the wave. Its registers are free, and barriers do not wait for it any more.
    Ended,
    /// `wave.waiting` says what for.
    Waits,
    /// The wave could go on: it sleeps, or `busy`, it has used up its quantum.
    Turn {
        /// Whether it has.
        busy: bool,
    },
    /// The wave was stopped and can go on.
    Hit {
        /// Instructions that are left of its turn.
        left: u64,
    },
}

impl Hands<'_, '_> {
    /// Runs a wave that is ready until it waits, ends or has executed about `quantum` instructions.
    ///
    /// # Errors
    /// What stopped the wave, if that is known.
    #[inline]
    pub fn slice(
        &mut self,
        group: &Group,
        wave: &mut Wave,
        quantum: u64,
    ) -> Result<Slice, Option<Box<Fault>>> {
        wave.waiting = Waiting::No;
        let unit = &mut self.unit;
        if let Some(issuer) = &mut unit.issuer {
            // Whole waves are the better unit: helpers take instructions where other threads can take neither workgroups nor
            // waves of them.
            let owners = self.shared.owners.load(Ordering::Relaxed);
            issuer.allow(owners <= 1 && !self.shared.may_spread);
        }
        let mut cx = Cx { wave, group, unit };
        self.flight.begin();
        let stop = self
            .runner
            .run(&mut cx, &mut self.code, quantum, &mut self.counts);
        if let Some(lost) = self.flight.end() {
            self.shared.loses(&lost);
            return Err(None);
        }
        for data in wave.interrupts.drain(..) {
            if let Some(interrupt) = self.shared.options.interrupt {
                interrupt(data);
            }
        }
        if let Some(hit) = self.runner.take_hit()
            && let Some(stops) = self.shared.options.stops
        {
            self.shared.halt.hit(hit, At::of(group, wave), stops);
        }
        match stop {
            Stop::Hit => Ok(Slice::Hit {
                left: self.runner.rest(),
            }),
            Stop::Fault => {
                let fault = self.unit.fault.take();
                // Whoever looks at the wave finds it before the instruction.
                wave.pc = fault.as_ref().map_or(wave.pc, |fault| fault.pc);
                Err(fault)
            }
            Stop::Waits if wave.waiting == Waiting::Ended => {
                wave.v.release(&mut self.unit.pool);
                barrier::wave_ended(group);
                Ok(Slice::Ended)
            }
            Stop::Waits | Stop::Quantum if wave.waiting == Waiting::Turn => Ok(Slice::Turn {
                busy: stop == Stop::Quantum,
            }),
            Stop::Waits | Stop::Quantum => Ok(Slice::Waits),
        }
    }
}
