//! A dispatch that stops between two instructions, can be looked at and changed, and goes on later.
//!
//! Whoever asks from outside stops it between turns of waves, on as many threads as it has. A dispatch that is to stop at some
//! instruction or access runs on one thread, waves in the same order each time, by the loop of [`rocjitsu_exec::step`].

use std::sync::atomic::{AtomicBool, Ordering};

use rocjitsu_exec::barrier;
use rocjitsu_exec::registers::PagePool;
pub use rocjitsu_exec::step::{Breakpoint, Watchpoint, Who};
use rocjitsu_exec::step::{Hit, Places, Stepper};
use rocjitsu_exec::target::TargetFacts;
use rocjitsu_exec::wave::{Group, Waiting, Wave, scalar};
use rocjitsu_isa::Target;
use rocjitsu_observe::{Access, Observer};

use super::launch::Resident;
use super::scratch::Regions;
use super::worker::Cluster;
use super::{Device, Dispatch, DispatchError, Options, Statistics};

/// What ends a dispatch's run before the dispatch. With anything but `request` and `faults` it runs on one thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stops<'a> {
    /// Once this is set it stops, at the latest after a turn of each wave that runs.
    pub request: Option<&'a AtomicBool>,
    /// It stops when the dispatch has executed as many wave instructions, those of earlier runs included.
    pub after: Option<u64>,
    /// A wave stops before it executes one of these. One that has stopped there goes on when the dispatch is resumed.
    pub breakpoints: &'a [Breakpoint],
    /// A wave stops behind an instruction that accesses one of these.
    pub watchpoints: &'a [Watchpoint],
    /// Only this wave runs, for one instruction; its workgroup must have been started.
    pub step: Option<Who>,
    /// A fault or a deadlock stops it with its state, instead of ending it. The wave stands before the instruction that failed.
    pub faults: bool,
}

impl Stops<'_> {
    /// Whether waves are looked at instruction by instruction.
    pub(super) fn are_exact(&self) -> bool {
        self.after.is_some()
            || self.step.is_some()
            || !self.breakpoints.is_empty()
            || !self.watchpoints.is_empty()
    }
}

/// A wave of a dispatch, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// Index of its workgroup in dispatch order.
    pub workgroup: u64,
    /// Id of its workgroup in x, y, z.
    pub id: [u32; 3],
    /// Its number in the workgroup.
    pub wave: u32,
    /// Address of its next instruction.
    pub pc: u64,
}

impl At {
    pub(super) fn of(group: &Group, wave: &Wave) -> At {
        At {
            workgroup: group.linear,
            id: group.id,
            wave: wave.index,
            pc: wave.pc,
        }
    }
}

/// Why a dispatch stopped.
#[derive(Debug)]
pub enum Why {
    /// Somebody asked.
    Asked,
    /// The instructions granted have executed; this wave would go on.
    Count(At),
    /// The wave has executed its instruction, or given up its turn to others before it ([`Waiting`] says so).
    Stepped(At, Waiting),
    /// The wave that was to execute an instruction cannot: this is what it waits for, or it has ended.
    Blocked(At, Waiting),
    /// The workgroup of the wave that was to execute an instruction has not been started or has ended, or has no such wave.
    Absent(Who),
    /// A wave came to a breakpoint.
    Breakpoint(At),
    /// A wave has accessed what is watched.
    Watchpoint {
        /// The wave, behind the instruction.
        at: At,
        /// Address of the instruction.
        pc: u64,
        /// Number of the watchpoint.
        number: usize,
        /// The first access that it concerns.
        access: Access,
    },
    /// A wave failed, or none can go on.
    Fault(Option<At>, DispatchError),
}

impl Why {
    /// The wave that the reason is about.
    pub fn at(&self) -> Option<At> {
        match self {
            Why::Count(at)
            | Why::Stepped(at, _)
            | Why::Blocked(at, _)
            | Why::Breakpoint(at)
            | Why::Watchpoint { at, .. } => Some(*at),
            Why::Fault(at, _) => *at,
            Why::Asked | Why::Absent(_) => None,
        }
    }
}

/// How a run of a dispatch ended.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one for a run of a dispatch")]
pub enum Outcome {
    /// With the dispatch.
    Done(Statistics),
    /// The dispatch can go on.
    Suspended(Suspended, Why),
}

/// Where in a round through a workgroup's waves a turn was broken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The wave that had the first turn of the round.
    pub first: u32,
    /// Waves that have had their turn.
    pub place: u32,
    /// Instructions that the next one may still execute.
    pub left: u64,
}

/// How far a dispatch has come.
#[derive(Default)]
pub(super) struct Progress {
    /// Next workgroup to start.
    pub next: u64,
    /// Workgroups that have ended.
    pub finished: u64,
    /// Clusters under way, in the order of their turns.
    pub clusters: Vec<Cluster>,
    /// The one whose turn it is.
    pub turn: usize,
    pub regions: Option<Regions>,
    pub done: Statistics,
    /// Waves that may pass the breakpoint that they stand at.
    pub passed: Vec<(Who, u64)>,
    /// The number by which plugins know the dispatch, if they watch it.
    pub watched: Option<u64>,
}

/// How a run ended inside the dispatcher.
pub(super) enum Left {
    Done(Statistics),
    Suspended(Box<Progress>, Why),
}

/// A dispatch that has stopped between instructions. Dropping it gives up the dispatch.
pub struct Suspended {
    pub(super) dispatch: Dispatch,
    pub(super) target: Target,
    pub(super) progress: Progress,
    pool: PagePool,
    workgroups: u64,
}

impl std::fmt::Debug for Suspended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Suspended")
            .field("kernel", &self.dispatch.name)
            .field("started", &self.progress.next)
            .field("finished", &self.progress.finished)
            .finish_non_exhaustive()
    }
}

/// A workgroup under way.
#[derive(Clone, Copy)]
pub struct Workgroup<'a>(&'a Resident);

impl<'a> Workgroup<'a> {
    /// Id in x, y, z.
    pub fn id(&self) -> [u32; 3] {
        self.0.group.id
    }

    /// Index in dispatch order.
    pub fn linear(&self) -> u64 {
        self.0.group.linear
    }

    /// Its waves, those that have ended included ([`Waiting::Ended`]).
    pub fn waves(&self) -> &'a [Wave] {
        &self.0.waves
    }

    /// Its LDS.
    pub fn lds(&self) -> &'a [u8] {
        // SAFETY: no wave of a suspended dispatch executes.
        unsafe { self.0.group.lds.bytes() }
    }

    /// GPU address of its scratch region, 0 if it has none; [`Wave::scratch`] is a wave's part.
    pub fn scratch(&self) -> u64 {
        self.0.scratch
    }

    /// Whether a wave that waits could go on as far as barriers are concerned.
    pub fn is_ready(&self, wave: &Wave) -> bool {
        barrier::ready(wave, &self.0.group)
    }

    /// A wave and where it is.
    pub fn at(&self, wave: &Wave) -> At {
        At::of(&self.0.group, wave)
    }
}

/// A wave that may be changed.
pub struct WaveMut<'a> {
    wave: &'a mut Wave,
    pool: &'a mut PagePool,
    target: Target,
}

impl WaveMut<'_> {
    /// The wave.
    pub fn get(&self) -> &Wave {
        self.wave
    }

    /// Address of the next instruction.
    pub fn set_pc(&mut self, pc: u64) {
        self.wave.pc = pc;
    }

    /// A word of the scalar file, by its number in [`scalar`]. `false`: there is none that can be written.
    pub fn set_scalar(&mut self, number: usize, value: u32) -> bool {
        match self.wave.s.get_mut(number) {
            Some(slot) if number != scalar::NULL && number < scalar::COUNT => *slot = value,
            _ => return false,
        }
        true
    }

    /// EXEC.
    pub fn set_exec(&mut self, value: u64) {
        self.wave.set_exec(value);
    }

    /// VCC.
    pub fn set_vcc(&mut self, value: u64) {
        self.wave.set_mask(scalar::VCC, value);
    }

    /// SCC.
    pub fn set_scc(&mut self, value: bool) {
        self.wave.scc = value;
    }

    /// MODE, as `s_setreg` sets it.
    pub fn set_mode(&mut self, value: u32) {
        self.wave.set_mode_register(self.target, value);
    }

    /// The lanes of a VGPR. `None`: no wave has so many.
    pub fn vgpr(&mut self, register: u32) -> Option<&mut [u32]> {
        let all = if self.wave.lanes == 64 { 512 } else { 1024 };
        (register < all).then(|| self.wave.v.write(register, self.pool))
    }

    /// The lanes of an AccVGPR.
    pub fn agpr(&mut self, register: u32) -> Option<&mut [u32]> {
        let base = self.target.acc_base();
        (register < 256).then(|| self.wave.v.write(base + register, self.pool))
    }
}

impl Suspended {
    pub(super) fn new(dispatch: &Dispatch, target: Target, progress: Progress) -> Suspended {
        Suspended {
            workgroups: super::groups_of(dispatch).iter().product(),
            dispatch: dispatch.clone(),
            target,
            progress,
            pool: PagePool::default(),
        }
    }

    /// The dispatch.
    pub fn dispatch(&self) -> &Dispatch {
        &self.dispatch
    }

    /// What it has done so far; its workgroups are those of the grid.
    pub fn statistics(&self) -> &Statistics {
        &self.progress.done
    }

    /// Workgroups of the grid.
    pub fn total(&self) -> u64 {
        self.workgroups
    }

    /// Workgroups that have been started.
    pub fn started(&self) -> u64 {
        self.progress.next.min(self.workgroups)
    }

    /// Workgroups that have ended.
    pub fn finished(&self) -> u64 {
        self.progress.finished
    }

    fn residents(&self) -> impl Iterator<Item = &Resident> {
        let all = self.progress.clusters.iter();
        all.flat_map(|cluster| &cluster.groups)
    }

    fn resident(&mut self, linear: u64) -> Option<&mut Resident> {
        let all = self.progress.clusters.iter_mut();
        let mut groups = all.flat_map(|cluster| &mut cluster.groups);
        groups.find(|resident| resident.group.linear == linear)
    }

    /// The workgroups under way, in the order of their turns; of a cluster those that have ended as well.
    pub fn groups(&self) -> impl Iterator<Item = Workgroup<'_>> {
        self.residents().map(Workgroup)
    }

    /// The workgroup with this index in dispatch order, if it is under way.
    pub fn group(&self, linear: u64) -> Option<Workgroup<'_>> {
        self.groups().find(|group| group.linear() == linear)
    }

    /// A wave.
    pub fn wave(&self, (linear, index): Who) -> Option<&Wave> {
        self.group(linear)?.waves().get(index as usize)
    }

    /// A wave that has not ended, to be changed.
    pub fn wave_mut(&mut self, (linear, index): Who) -> Option<WaveMut<'_>> {
        let target = self.target;
        let clusters = &mut self.progress.clusters;
        let mut groups = clusters.iter_mut().flat_map(|c| &mut c.groups);
        let resident = groups.find(|resident| resident.group.linear == linear)?;
        let wave = resident.waves.get_mut(index as usize)?;
        let pool = &mut self.pool;
        (wave.waiting != Waiting::Ended).then_some(WaveMut { wave, pool, target })
    }

    /// LDS of a workgroup, to be changed.
    pub fn lds_mut(&mut self, linear: u64) -> Option<&mut [u8]> {
        Some(self.resident(linear)?.group.lds.bytes_mut())
    }

    /// Lets a wave past the breakpoint that it stands at, as those that have stopped at one are.
    pub fn pass(&mut self, who: Who) {
        if let Some(pc) = self.wave(who).map(|wave| wave.pc) {
            self.progress.passed.retain(|(passed, _)| *passed != who);
            self.progress.passed.push((who, pc));
        }
    }

    /// Takes back what [`Suspended::pass`] or a stop granted: the wave stops at a breakpoint where it stands.
    pub fn hold(&mut self, who: Who) {
        self.progress.passed.retain(|(passed, _)| *passed != who);
    }
}

impl Device {
    /// Runs a dispatch to its end or to where [`Options::stops`] says.
    ///
    /// # Errors
    /// As [`Device::dispatch`]; plugins watch a dispatch that is to stop at some instruction, where waves run by another loop
    /// than theirs.
    pub fn start(
        &self,
        dispatch: &Dispatch,
        options: Options<'_>,
        observer: &dyn Observer,
    ) -> Result<Outcome, DispatchError> {
        self.outcome(dispatch, Progress::default(), options, observer)
    }

    /// Goes on with a dispatch that was suspended on this device, to its end or to where [`Options::stops`] says. Plugins
    /// that watched it hear of what follows as if it had not stopped; they have to be the same.
    ///
    /// # Errors
    /// As [`Device::start`].
    pub fn resume(
        &self,
        suspended: Suspended,
        options: Options<'_>,
        observer: &dyn Observer,
    ) -> Result<Outcome, DispatchError> {
        let Suspended {
            dispatch, progress, ..
        } = suspended;
        self.outcome(&dispatch, progress, options, observer)
    }

    fn outcome(
        &self,
        dispatch: &Dispatch,
        from: Progress,
        options: Options<'_>,
        observer: &dyn Observer,
    ) -> Result<Outcome, DispatchError> {
        if options.stops.is_some_and(Stops::are_exact) && observer.plugins().is_some() {
            return Err(DispatchError::Invalid {
                kernel: dispatch.name.clone(),
                what: "a dispatch that plugins watch cannot stop at an instruction".to_owned(),
            });
        }
        Ok(match self.run(dispatch, from, options, observer)? {
            Left::Done(statistics) => Outcome::Done(statistics),
            Left::Suspended(progress, why) => {
                let mut suspended = Suspended::new(dispatch, self.target(), *progress);
                if let Some(At {
                    workgroup, wave, ..
                }) = why.at()
                {
                    suspended.pass((workgroup, wave));
                }
                Outcome::Suspended(suspended, why)
            }
        })
    }
}

/// What workers share of a dispatch that may be suspended.
#[derive(Default)]
pub(super) struct Halt {
    halted: AtomicBool,
    why: std::sync::Mutex<Option<Why>>,
    failed: std::sync::Mutex<Option<At>>,
    /// What workers left.
    pub left: std::sync::Mutex<Progress>,
}

impl Halt {
    /// Whether workers are to leave.
    pub fn is_wanted(&self, stops: &Stops<'_>) -> bool {
        if self.halted.load(Ordering::Acquire) {
            return true;
        }
        let asked = stops.request.is_some_and(|r| r.load(Ordering::Acquire));
        if asked {
            self.halt(Why::Asked);
        }
        asked
    }

    /// Has all workers leave, for the first reason given.
    pub fn halt(&self, why: Why) {
        let mut slot = self.why.lock().unwrap_or_else(|e| e.into_inner());
        slot.get_or_insert(why);
        self.halted.store(true, Ordering::Release);
    }

    /// Remembers a wave that failed, of several that of the lowest workgroup.
    pub fn fails(&self, at: At) {
        let mut slot = self.failed.lock().unwrap_or_else(|e| e.into_inner());
        if slot.is_none_or(|other| at.workgroup < other.workgroup) {
            *slot = Some(at);
        }
    }

    /// The wave that failed.
    pub fn failed(&self) -> Option<At> {
        *self.failed.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The reason.
    pub fn why(&self) -> Option<Why> {
        let mut slot = self.why.lock().unwrap_or_else(|e| e.into_inner());
        slot.take()
    }

    /// What a wave's stop means.
    pub fn hit(&self, hit: Hit, at: At, stops: &Stops<'_>) {
        self.halt(match hit {
            Hit::Count if stops.step.is_some() => Why::Stepped(at, Waiting::No),
            Hit::Count => Why::Count(at),
            Hit::Breakpoint => Why::Breakpoint(at),
            Hit::Watchpoint(number, access, pc) => Why::Watchpoint {
                at,
                pc,
                number,
                access,
            },
        });
    }
}

/// How the worker of a dispatch runs waves that are to stop at some instruction. `executed`: instructions of earlier runs.
pub(super) fn stepper<'a>(
    stops: Option<&Stops<'a>>,
    executed: u64,
    passed: Vec<(Who, u64)>,
) -> Option<Stepper<'a>> {
    let stops = stops.filter(|stops| stops.are_exact())?;
    let mut places = Places {
        instructions: stops.after.map(|after| after.saturating_sub(executed)),
        breakpoints: stops.breakpoints,
        watchpoints: stops.watchpoints,
    };
    if stops.step.is_some() {
        places.instructions = Some(1);
        places.breakpoints = &[];
    }
    Some(Stepper::new(places, passed))
}
