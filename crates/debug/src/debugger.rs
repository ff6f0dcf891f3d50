//! A dispatch under a debugger: how it goes on and where it stops.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gdbstub::common::{Signal, Tid};
use gdbstub::stub::MultiThreadStopReason as Stop;
use gdbstub::target::ext::breakpoints::WatchKind;
use rocjitsu_exec::error::Cause;
use rocjitsu_exec::wave::{Waiting, Wave};
use rocjitsu_gpu::dispatch::{
    At, Breakpoint, Device, Dispatch, DispatchError, Outcome, Statistics, Stops, Suspended,
    Watchpoint, Who, Why,
};

use crate::program::Program;
use crate::registers::Layout;

/// A watchpoint as the client knows it, and as the dispatch does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Watched {
    pub address: u64,
    pub bytes: u64,
    pub kind: WatchKind,
    pub place: Watchpoint,
}

/// How the dispatch goes on when the client says so.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Action {
    /// One instruction of this wave.
    pub step: Option<Who>,
    /// The wave that goes on.
    pub only: Option<Who>,
    /// Others stand still.
    pub locked: bool,
}

/// What runs the dispatch that a debugger moves.
pub trait Runner {
    /// The device that it runs on.
    fn device(&self) -> &Device;

    /// Runs it from its beginning, or on from where it was suspended, as far as the stops say.
    ///
    /// # Errors
    /// As [`Device::resume`].
    fn go(&mut self, from: Option<Suspended>, stops: &Stops<'_>) -> Result<Outcome, DispatchError>;

    /// Whether the same dispatch follows one that has ended, with memory made ready for it.
    fn again(&mut self) -> bool {
        false
    }

    /// A dispatch has ended, and did this; told once the next one begins, or nothing is left to do.
    fn ended(&mut self, _done: Statistics) {}
}

/// What a debugger has to know of a dispatch.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Name of the kernel.
    pub kernel: String,
    /// Address of its first instruction.
    pub entry: u64,
    /// Lanes of a wave.
    pub lanes: u32,
    /// Waves of a workgroup.
    pub waves: u64,
    /// Where the code object lies, relative to its file's addresses.
    pub bias: u64,
}

impl Facts {
    /// Those of a dispatch; `bias` is what was added to the addresses of the code object's file.
    pub fn of(dispatch: &Dispatch, bias: u64) -> Facts {
        let lanes = dispatch.descriptor.wave_size;
        let threads = dispatch.workgroup.iter().map(|&n| u64::from(n)).product();
        Facts {
            kernel: dispatch.name.clone(),
            entry: dispatch.entry,
            lanes,
            waves: u64::div_ceil(threads, lanes.max(1).into()).max(1),
            bias,
        }
    }
}

/// A dispatch under a debugger.
pub struct Debugger<'a> {
    pub(crate) runner: Box<dyn Runner + 'a>,
    pub(crate) facts: Facts,
    pub(crate) layout: Layout,
    pub(crate) xml: String,
    /// What else is known of the program that the dispatch belongs to.
    pub(crate) program: Option<Arc<Program>>,
    /// Whether the dispatch has not begun.
    fresh: bool,
    pub(crate) suspended: Option<Suspended>,
    ended: Option<Result<Statistics, DispatchError>>,
    /// Why the dispatch cannot go on, if it has stopped for that.
    pub(crate) fault: Option<DispatchError>,
    /// The wave that the client looked at last, or that stopped.
    pub(crate) current: Who,
    pub(crate) software: BTreeSet<u64>,
    pub(crate) hardware: BTreeSet<u64>,
    pub(crate) watched: Vec<Watched>,
    pub(crate) action: Action,
    /// The lane whose scratch is looked at.
    pub(crate) lane: Option<u32>,
}

impl<'a> Debugger<'a> {
    /// A debugger of a dispatch that has not begun, or was suspended.
    pub fn new(
        runner: Box<dyn Runner + 'a>,
        facts: Facts,
        layout: Layout,
        suspended: Option<Suspended>,
    ) -> Debugger<'a> {
        Debugger {
            runner,
            facts,
            xml: layout.xml(),
            layout,
            program: None,
            fresh: suspended.is_none(),
            suspended,
            ended: None,
            fault: None,
            current: (0, 0),
            software: BTreeSet::new(),
            hardware: BTreeSet::new(),
            watched: Vec::new(),
            action: Action::default(),
            lane: None,
        }
    }

    /// Puts another dispatch in the place of the one before; what the client has set stays.
    pub(crate) fn take(
        &mut self,
        runner: Box<dyn Runner + 'a>,
        facts: Facts,
        suspended: Option<Suspended>,
    ) {
        self.runner = runner;
        self.facts = facts;
        self.fresh = suspended.is_none();
        self.suspended = suspended;
        self.ended = None;
        self.fault = None;
        self.action = Action::default();
    }

    /// Stops the dispatch before its first instruction, if it has not begun, and chooses a wave to look at.
    ///
    /// # Errors
    /// As [`Device::start`].
    pub fn begin(&mut self) -> Result<(), DispatchError> {
        if self.fresh {
            let stops = Stops {
                after: Some(0),
                ..Stops::default()
            };
            self.go(stops);
            if let Some(Err(_)) = self.ended
                && let Some(Err(error)) = self.ended.take()
            {
                return Err(error);
            }
        }
        let first = self.all().next();
        if let Some(at) = first {
            self.current = (at.workgroup, at.wave);
        }
        Ok(())
    }

    /// The dispatch has ended, and what became of it is its queue's matter.
    pub(crate) fn has_gone(&mut self) {
        self.ended = None;
        self.fresh = false;
    }

    /// Starts the dispatch again if it has ended and is to follow itself.
    fn next(&mut self) -> bool {
        if !matches!(self.ended, Some(Ok(_))) || !self.runner.again() {
            return false;
        }
        if let Some(Ok(statistics)) = self.ended.take() {
            self.runner.ended(statistics);
        }
        self.fresh = true;
        true
    }

    /// Runs what is left of the dispatch, and those that follow, without stops.
    ///
    /// # Errors
    /// As [`Device::resume`]; of a dispatch that has ended, its own.
    pub fn finish(mut self) -> Result<(), DispatchError> {
        loop {
            self.go(Stops::default());
            if self.suspended.is_none() && !self.next() {
                break;
            }
        }
        if let Some(ended) = self.ended {
            self.runner.ended(ended?);
        }
        Ok(())
    }

    /// Gives the dispatch up. Returns why it could not go on, if that was so.
    pub fn give_up(self) -> Option<DispatchError> {
        match self.ended {
            Some(ended) => ended.err(),
            None => self.fault,
        }
    }

    /// Whether the dispatch has ended.
    pub fn has_ended(&self) -> bool {
        self.suspended.is_none() && !self.fresh
    }

    /// What the client calls a wave.
    pub(crate) fn tid(&self, (workgroup, wave): Who) -> Tid {
        let number = workgroup
            .saturating_mul(self.facts.waves)
            .saturating_add(wave.into())
            .saturating_add(1);
        Tid::new(number as usize).unwrap_or(Tid::MIN)
    }

    /// The wave that the client calls so.
    pub(crate) fn who(&self, tid: Tid) -> Who {
        let number = tid.get() as u64 - 1;
        let waves = self.facts.waves;
        (number / waves, (number % waves) as u32)
    }

    /// A wave that has not ended.
    pub(crate) fn wave(&self, who: Who) -> Option<&Wave> {
        let wave = self.suspended.as_ref()?.wave(who)?;
        (wave.waiting != Waiting::Ended).then_some(wave)
    }

    /// All waves that have been started and have not ended.
    pub(crate) fn all(&self) -> impl Iterator<Item = At> {
        let groups = self.suspended.iter().flat_map(Suspended::groups);
        groups.flat_map(|group| {
            let waves = group.waves().iter();
            let live = waves.filter(|wave| wave.waiting != Waiting::Ended);
            live.map(move |wave| group.at(wave))
        })
    }

    /// Notes what became of the dispatch. Returns why it stopped.
    fn took(&mut self, outcome: Result<Outcome, DispatchError>) -> Option<Why> {
        self.fault = None;
        match outcome {
            Ok(Outcome::Suspended(suspended, why)) => {
                self.suspended = Some(suspended);
                if let Some(at) = why.at() {
                    self.current = (at.workgroup, at.wave);
                }
                return Some(why);
            }
            Ok(Outcome::Done(statistics)) => self.ended = Some(Ok(statistics)),
            Err(error) => self.ended = Some(Err(error)),
        }
        None
    }

    fn go(&mut self, stops: Stops<'_>) -> Option<Why> {
        let from = self.suspended.take();
        if from.is_none() && !std::mem::take(&mut self.fresh) {
            return None;
        }
        let outcome = self.runner.go(from, &stops);
        self.took(outcome)
    }

    /// Goes on as the client said. `None`: `request` was set before there was anything to tell, or the dispatch has ended.
    pub(crate) fn advance(&mut self, request: &AtomicBool) -> Option<Stop<u64>> {
        let Action { step, only, locked } = self.action;
        match (step, only) {
            (Some(who), _) => self.step(who, locked, request),
            (None, Some(who)) if locked => self.alone(who, request),
            _ => self.run(request, &[]),
        }
    }

    /// The same, with the dispatches that follow. `None`: `request` was set before there was anything to tell.
    pub(crate) fn proceed(&mut self, request: &AtomicBool) -> Option<Stop<u64>> {
        loop {
            let stop = self.advance(request);
            if stop.is_some() || self.suspended.is_some() {
                return stop;
            }
            if !self.next() {
                return Some(self.end());
            }
            self.action = Action::default();
        }
    }

    /// What the client is told of the end.
    pub(crate) fn end(&self) -> Stop<u64> {
        match &self.ended {
            Some(Err(_)) => Stop::Terminated(Signal::SIGABRT),
            _ => Stop::Exited(0),
        }
    }

    /// What the client is told when it has interrupted the dispatch.
    pub(crate) fn interrupted(&mut self) -> Option<Stop<u64>> {
        match self.settle(Signal::SIGINT) {
            None if self.suspended.is_none() => Some(self.end()),
            stop => stop,
        }
    }

    /// Stops where the dispatch is, at any wave. `None`: it has ended.
    pub(crate) fn settle(&mut self, signal: Signal) -> Option<Stop<u64>> {
        if self.wave(self.current).is_none() {
            let total = self.suspended.as_ref()?.statistics().total();
            let stops = Stops {
                after: Some(total),
                faults: true,
                ..Stops::default()
            };
            let why = self.go(stops)?;
            if !matches!(why, Why::Count(_)) {
                return self.told(why);
            }
        }
        let tid = self.tid(self.current);
        Some(Stop::SignalWithThread { tid, signal })
    }

    /// All waves go on.
    fn run(&mut self, request: &AtomicBool, more: &[Breakpoint]) -> Option<Stop<u64>> {
        let all = self.software.union(&self.hardware);
        let mut breakpoints: Vec<Breakpoint> = all.map(|&pc| Breakpoint::at(pc)).collect();
        breakpoints.extend(more);
        let watchpoints: Vec<Watchpoint> = self.watched.iter().map(|w| w.place).collect();
        let stops = Stops {
            request: Some(request),
            breakpoints: &breakpoints,
            watchpoints: &watchpoints,
            faults: true,
            ..Stops::default()
        };
        let why = self.go(stops)?;
        self.told(why)
    }

    /// One instruction of one wave. If it waits for others, these go on first, unless they are to stand still.
    fn step(&mut self, who: Who, locked: bool, request: &AtomicBool) -> Option<Stop<u64>> {
        let why = self.one(who)?;
        let Why::Blocked(at, waiting) = why else {
            return self.stepped(why);
        };
        if locked || waiting == Waiting::Ended {
            return self.settle(Signal::SIGTRAP);
        }
        // What it waits for has come when it would execute that instruction.
        let there = Breakpoint {
            pc: at.pc,
            workgroup: Some(at.workgroup),
            wave: Some(at.wave),
        };
        if let Some(suspended) = &mut self.suspended {
            suspended.hold(who);
        }
        let stop = self.run(request, &[there])?;
        let is_there = matches!(stop, Stop::SwBreak(tid) | Stop::HwBreak(tid) if tid == self.tid(who))
            && self.wave(who).is_some_and(|wave| wave.pc == at.pc);
        if !is_there {
            return Some(stop);
        }
        let why = self.one(who)?;
        self.stepped(why)
    }

    fn one(&mut self, who: Who) -> Option<Why> {
        let watchpoints: Vec<Watchpoint> = self.watched.iter().map(|w| w.place).collect();
        self.go(Stops {
            step: Some(who),
            watchpoints: &watchpoints,
            faults: true,
            ..Stops::default()
        })
    }

    fn stepped(&mut self, why: Why) -> Option<Stop<u64>> {
        match why {
            // The client is told of another wave: this one is not there any more.
            Why::Stepped(_, Waiting::Ended) | Why::Absent(_) => self.settle(Signal::SIGTRAP),
            why => self.told(why),
        }
    }

    /// One wave goes on, the others stand still.
    fn alone(&mut self, who: Who, request: &AtomicBool) -> Option<Stop<u64>> {
        loop {
            if request.load(Ordering::Acquire) {
                return None;
            }
            let why = self.one(who)?;
            match why {
                Why::Stepped(at, waiting) if waiting != Waiting::Ended => {
                    if let Some(stop) = self.at_breakpoint(at) {
                        return Some(stop);
                    }
                }
                Why::Stepped(..) | Why::Absent(_) | Why::Blocked(..) => {
                    return self.settle(Signal::SIGTRAP);
                }
                why => return self.told(why),
            }
        }
    }

    fn at_breakpoint(&self, at: At) -> Option<Stop<u64>> {
        let tid = self.tid((at.workgroup, at.wave));
        if self.software.contains(&at.pc) {
            return Some(Stop::SwBreak(tid));
        }
        let hard = self.hardware.contains(&at.pc);
        hard.then_some(Stop::HwBreak(tid))
    }

    /// What the client is told of a stop; nothing if somebody asked for it.
    fn told(&mut self, why: Why) -> Option<Stop<u64>> {
        let tid = self.tid(self.current);
        let trap = Stop::SignalWithThread {
            tid,
            signal: Signal::SIGTRAP,
        };
        Some(match why {
            Why::Asked => return None,
            Why::Breakpoint(at) => self.at_breakpoint(at).unwrap_or(Stop::SwBreak(tid)),
            Why::Watchpoint { number, .. } => match self.watched.get(number) {
                Some(watched) => Stop::Watch {
                    tid,
                    kind: watched.kind,
                    addr: watched.address,
                },
                None => trap,
            },
            Why::Count(_) | Why::Stepped(..) | Why::Blocked(..) | Why::Absent(_) => trap,
            Why::Fault(at, error) => {
                let signal = signal_of(&error);
                let other = self.all().next();
                if at.is_none()
                    && self.wave(self.current).is_none()
                    && let Some(other) = other
                {
                    self.current = (other.workgroup, other.wave);
                }
                self.fault = Some(error);
                let tid = self.tid(self.current);
                Stop::SignalWithThread { tid, signal }
            }
        })
    }
}

/// The signal that stands for a failure.
fn signal_of(error: &DispatchError) -> Signal {
    match error {
        DispatchError::Stopped { cause, .. } => match cause {
            Cause::Memory { .. } | Cause::Lds { .. } | Cause::Fetch { .. } => Signal::SIGSEGV,
            Cause::Undecodable { .. } | Cause::Unsupported { .. } | Cause::Illegal { .. } => {
                Signal::SIGILL
            }
            Cause::Trap { .. } | Cause::Plugin { .. } => Signal::SIGABRT,
        },
        DispatchError::Lost { .. } => Signal::SIGSEGV,
        _ => Signal::SIGABRT,
    }
}
