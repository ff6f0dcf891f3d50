//! A worker thread: takes workgroups, runs their waves in turn, and lets nothing starve.
//!
//! A worker stays with one workgroup until each of its waves has ended or waits. When waves only spin
//! (their quantum ran out, or they sleep), the worker admits one more workgroup, up to what the real
//! device could hold, and gives all of its workgroups their turns. The workgroups of a cluster wait for each
//! other, so a worker starts them together and they share each turn. When no workgroup is left to start, workers
//! help others with their waves.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use rocjitsu_exec::barrier;
use rocjitsu_exec::code::{CodeView, Found};
use rocjitsu_exec::memory::MemoryPort;
use rocjitsu_exec::run::Counts;
use rocjitsu_exec::wave::{Barrier, Buffers, Unit, Waiting};

use super::claims::Claims;
use super::environment::FloatEnvironment;
use super::launch::{self, Resident};
use super::round::{Manner, Round, round};
use super::slice::{Hands, Slice};
use super::spread::{Experience, Plan};
use super::suspend::{At, Who, Why};
use super::watch::Runner;
use super::{DispatchError, Shared};
use crate::memory::Flight;

/// Instructions that a wave may execute before others get their turn.
pub const QUANTUM: u64 = 1 << 18;

/// How long a worker works alone on a small dispatch before it asks for help: about what waking a thread takes.
pub const ALONE: Duration = Duration::from_micros(20);

/// Rounds in which all waves sleep, after which the worker sleeps too, and for how long.
const IDLE_ROUNDS: u32 = 64;
const NAP: Duration = Duration::from_micros(20);

/// Turns that earlier workgroups get after one has failed, so that which failure is reported does not depend on the
/// threads. Those that take longer may wait for the one that failed.
const LAST_TURNS: u32 = 16;

/// Workgroups after whose end a worker tells the others of them: the count lies on a cache line that all of them want.
const TOLD: u64 = 16;

/// Register pages of 4 KiB that a worker keeps for its next dispatch.
const KEPT_PAGES: usize = 1024;

/// What a worker leaves to the next one on its device.
#[derive(Default)]
pub struct Kit {
    /// The thread that left it, in the cache of whose core it is likely to lie.
    thread: Option<ThreadId>,
    buffers: Buffers,
    /// What the worker's view of the code has found.
    pub code: Option<Found>,
    cluster: Cluster,
}

impl Kit {
    /// One of `kits`, this thread's if it has left one.
    fn take(kits: &mut Vec<Kit>) -> Kit {
        let me = Some(std::thread::current().id());
        match kits.iter().rposition(|kit| kit.thread == me) {
            Some(own) => kits.swap_remove(own),
            None => kits.pop().unwrap_or_default(),
        }
    }
}

/// How a turn of a cluster ended.
enum Turn {
    /// Every wave has ended.
    Ended,
    /// Some wave can go on later. `busy`: one has used up its turn, the others only sleep.
    Spins { busy: bool },
    /// All wait, some of them for global wave sync.
    Queued,
}

/// Workgroups that run together: those of a cluster, or just one.
#[derive(Default)]
pub struct Cluster {
    pub groups: Vec<Resident>,
    /// The cluster's barrier, while no workgroup has it (see [`barrier::CLUSTER`]).
    pub barrier: Barrier,
    /// Workgroups that have not ended.
    pub live: usize,
    /// The first workgroup that has not had its turn, where the cluster's was broken off.
    pub next: usize,
}

impl Cluster {
    /// Its workgroups.
    pub fn size(&self) -> u64 {
        self.groups.len() as u64
    }

    /// Index of its first workgroup in dispatch order.
    pub fn first(&self) -> u64 {
        self.groups.first().map_or(u64::MAX, |r| r.group.linear)
    }

    /// Whether its turn was broken off.
    fn is_amid_turn(&self) -> bool {
        self.next > 0 || self.groups.iter().any(|r| r.position.is_some())
    }

    /// Notices that a workgroup has no wave left.
    fn group_ends(&mut self, index: usize, runner: &mut Runner<'_>) -> Result<(), DispatchError> {
        runner.group_ends(&self.groups[index])?;
        self.live -= 1;
        barrier::workgroup_ended(&mut self.barrier);
        Ok(())
    }
}

struct Worker<'s, 'a> {
    hands: Hands<'s, 'a>,
    experience: Experience,
    waves: u64,
    /// Clusters under way.
    resident: Vec<Cluster>,
    /// Workgroups that ended, to be used again.
    spare: Cluster,
    /// Brings other threads to the work; none once it was called.
    recruit: Option<&'s dyn Fn()>,
    started: Instant,
    /// Number of the workgroup that has its turn.
    at: u64,
    /// Where in `resident` the next round of turns begins.
    first: usize,
    /// What the worker told [`super::stall::Stall`] last.
    told: Option<u64>,
    /// Workgroups that ended, which the others have yet to be told of.
    ended: u64,
    /// Workgroups that are this worker's to start.
    claimed: Range<u64>,
    claims: Claims,
}

/// Runs workgroups until none is left or the dispatch is over, and then waves of others. Calls `recruit` when the
/// workgroups take long.
pub fn run(shared: &Shared<'_>, recruit: Option<&dyn Fn()>) {
    let _present = shared.options.pause.map(super::Pause::enter);
    let _environment = FloatEnvironment::usual();
    let device = shared.device;
    let memory = MemoryPort::new(&*device.memory);
    let kit = Kit::take(&mut lock(&device.kits));
    let mut worker = Worker {
        hands: Hands {
            shared,
            unit: Unit::with_buffers(kit.buffers, memory, device.backend, device.target),
            code: match kit.code {
                Some(found) => CodeView::resume(&device.code, found),
                None => CodeView::new(&device.code),
            },
            counts: Counts::default(),
            lent: 0,
            flight: Flight::of_engine(&device.memory),
            runner: Runner::new(
                shared.dispatch,
                shared.watched,
                lock(&shared.stepper).take(),
            ),
        },
        experience: Experience::new(shared),
        waves: 0,
        resident: Vec::new(),
        spare: kit.cluster,
        recruit,
        started: Instant::now(),
        at: 0,
        first: shared.turn,
        told: None,
        ended: 0,
        claimed: 0..0,
        claims: Claims::new(),
    };
    worker.hands.unit.gws = device.sync.gws.clone();
    worker.hands.unit.issuer = shared.issuer();
    if shared.options.count_forms {
        worker.hands.code.count_forms();
    }
    if shared.threads == 1 {
        // All that an earlier run left, in its order.
        while worker.inherit() {}
        worker.own();
    } else {
        worker.take_part();
    }
    if shared.options.stops.is_some() {
        let mut left = lock(&shared.halt.left);
        left.clusters.append(&mut worker.resident);
        left.turn = if shared.threads == 1 { worker.first } else { 0 };
        left.passed.append(&mut worker.hands.runner.passed());
    }
    let mut hands = worker.hands;
    let forms = hands.code.forms();
    if let Err(error) = hands.runner.end() {
        shared.fail(worker.at, error);
    }
    let mut done = lock(&shared.done);
    for (sum, n) in done.instructions.iter_mut().zip(hands.counts) {
        *sum += n;
    }
    if let Some(forms) = forms {
        done.forms.join(&forms);
    }
    done.waves += worker.waves;
    done.lent_turns += hands.lent;
    done.helped += hands.unit.issuer.as_ref().map_or(0, |i| i.helped());
    done.peak_register_pages += hands.unit.pool.peak();
    drop(done);
    if worker.resident.is_empty() {
        let mut buffers = hands.unit.into_buffers();
        buffers.pool.restart(KEPT_PAGES);
        lock(&device.kits).push(Kit {
            thread: Some(std::thread::current().id()),
            buffers,
            code: Some(hands.code.into_found()),
            cluster: worker.spare,
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Worker<'_, '_> {
    /// Runs workgroups if there may be one for this thread, and then waves of others.
    fn take_part(&mut self) {
        let shared = self.hands.shared;
        shared.present.fetch_add(1, Ordering::Relaxed);
        let seat = |seats: u64| seats.checked_sub(1);
        let seats = &shared.seats;
        if seats
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, seat)
            .is_ok()
        {
            shared.owners.fetch_add(1, Ordering::Relaxed);
            self.own();
            self.experience.remember(shared);
            shared.owners.fetch_sub(1, Ordering::Relaxed);
            if self.resident.is_empty() {
                seats.fetch_add(1, Ordering::Relaxed);
            }
        }
        if shared.may_spread {
            shared.teams.help(&mut self.hands, || shared.is_over());
        }
        shared.present.fetch_sub(1, Ordering::Relaxed);
    }

    /// Runs workgroups until none is left, and tells of failures.
    fn own(&mut self) {
        let shared = self.hands.shared;
        shared.stall.enter();
        let mut done = match shared.options.stops.and_then(|stops| stops.step) {
            Some(who) => self.step(who),
            None => self.work(),
        };
        if let Err(error) = done {
            shared.fail(self.at, error);
            // What is to be looked at stays as it is.
            done = match shared.options.stops {
                Some(stops) if stops.faults => Ok(()),
                _ => self.finish(),
            };
        }
        if let Err(error) = done {
            shared.fail(self.at, error);
        }
        self.tell_ended();
        shared.stall.leave(&mut self.told);
    }

    fn work(&mut self) -> Result<(), DispatchError> {
        let mut idle_rounds = 0;
        loop {
            if self.hands.shared.stopped_by_program()
                || self.resident.is_empty() && !self.admit(true)?
            {
                return Ok(());
            }
            let version = self.hands.unit.gws.version();
            let mut index = std::mem::take(&mut self.first);
            let mut all_queued = index == 0;
            let mut all_sleep = true;
            while index < self.resident.len() {
                if self.hands.shared.stopped_by_program() {
                    self.first = index;
                    return Ok(());
                }
                if self.hands.shared.failed.load(Ordering::Acquire) {
                    self.first = index;
                    return match self.hands.shared.options.stops {
                        Some(stops) if stops.faults => Ok(()),
                        _ => self.finish(),
                    };
                }
                let turn = self.turn(index).inspect_err(|_| self.first = index)?;
                all_queued &= matches!(turn, Turn::Queued);
                match turn {
                    Turn::Ended => {
                        all_sleep = false;
                        self.retire(index);
                    }
                    Turn::Spins { busy } => {
                        all_sleep &= !busy;
                        index += usize::from(!self.resident[index].is_amid_turn());
                    }
                    Turn::Queued => index += 1,
                }
                self.call_for_help();
            }
            // Those that are left wait for somebody: perhaps for a workgroup that has not started.
            if !self.resident.is_empty() {
                let shared = self.hands.shared;
                shared.stall.resume(&mut self.told);
                let admitted = self.admit(false)?;
                if all_queued
                    && !admitted
                    && shared
                        .stall
                        .stuck(version, &mut self.told, &shared.device.sync)
                {
                    return Err(deadlock(shared, &self.resident));
                }
                idle_rounds = if all_sleep && !admitted {
                    idle_rounds + 1
                } else {
                    0
                };
                if idle_rounds > IDLE_ROUNDS {
                    std::thread::sleep(NAP);
                } else {
                    std::thread::yield_now();
                }
            }
        }
    }

    /// Recruits other threads if there is work for them and it has taken long so far.
    fn call_for_help(&mut self) {
        let Some(recruit) = self.recruit else { return };
        if self.hands.shared.has_groups() && self.started.elapsed() > ALONE {
            recruit();
            self.recruit = None;
        }
    }

    /// A workgroup has failed: gives those before it some more turns, since they would have failed first if the
    /// workgroups had run one after the other.
    fn finish(&mut self) -> Result<(), DispatchError> {
        loop {
            self.last_turns()?;
            let next = self.claimed.start;
            if self.claimed.is_empty() || self.hands.shared.abandons(next) || !self.admit(true)? {
                return Ok(());
            }
        }
    }

    /// The last turns of workgroups that come before one that has failed.
    fn last_turns(&mut self) -> Result<(), DispatchError> {
        for _ in 0..LAST_TURNS {
            let mut index = 0;
            let mut left = false;
            while index < self.resident.len() {
                let first = self.resident[index].groups.first();
                let number = first.map_or(u64::MAX, |r| r.group.linear);
                if self.hands.shared.abandons(number) {
                    index += 1;
                    continue;
                }
                match self.turn(index)? {
                    Turn::Ended => self.retire(index),
                    Turn::Spins { .. } | Turn::Queued => {
                        left = true;
                        index += 1;
                    }
                }
            }
            if !left {
                break;
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Takes a cluster that a suspended run has left, if there is one.
    fn inherit(&mut self) -> bool {
        let shared = self.hands.shared;
        if shared.inherits.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let Some(cluster) = lock(&shared.inherited).pop_front() else {
            return false;
        };
        shared.inherits.fetch_sub(1, Ordering::Relaxed);
        let waves = cluster.groups.iter().flat_map(|r| &r.waves);
        let pages = waves.map(|wave| wave.v.pages().count()).sum();
        self.hands.unit.pool.adopt(pages);
        if self.resident.is_empty() {
            shared.extra.fetch_sub(cluster.size(), Ordering::Relaxed);
        }
        self.resident.push(cluster);
        true
    }

    /// Has one wave execute one instruction.
    fn step(&mut self, who: Who) -> Result<(), DispatchError> {
        let shared = self.hands.shared;
        let groups =
            |cluster: &Cluster| cluster.groups.iter().position(|r| r.group.linear == who.0);
        let found = self.resident.iter().enumerate();
        let mut found = found.filter_map(|(at, cluster)| Some((at, groups(cluster)?)));
        let Some((at, number)) = found.next() else {
            shared.halt.halt(Why::Absent(who));
            return Ok(());
        };
        self.at = who.0;
        let cluster = &mut self.resident[at];
        let resident = &mut cluster.groups[number];
        resident.group.barriers[barrier::CLUSTER].set(cluster.barrier);
        let Resident { group, waves, .. } = resident;
        let Some(wave) = waves.get_mut(who.1 as usize) else {
            shared.halt.halt(Why::Absent(who));
            return Ok(());
        };
        let ready = match wave.waiting {
            Waiting::Gws(wait) => self.hands.unit.gws.ready(wait),
            _ => barrier::ready(wave, group),
        };
        if !ready {
            shared
                .halt
                .halt(Why::Blocked(At::of(group, wave), wave.waiting));
            return Ok(());
        }
        let mut slice = self.hands.slice(group, wave, QUANTUM);
        if matches!(slice, Ok(Slice::Waits)) && wave.waiting == Waiting::No {
            // It has only given way to the others before it asks memory for anything.
            slice = self.hands.slice(group, wave, QUANTUM);
        }
        let waiting = wave.waiting;
        shared.halt.halt(Why::Stepped(At::of(group, wave), waiting));
        match slice {
            Ok(Slice::Ended) => {
                self.hands.runner.wave_ends(group, wave)?;
                group.live -= 1;
            }
            Ok(_) => {}
            Err(fault) => {
                shared.halt.fails(At::of(group, wave));
                let error = shared.failure_of(fault, group.id, wave);
                cluster.barrier = resident.group.barriers[barrier::CLUSTER].get();
                return Err(error);
            }
        }
        let ended = group.live == 0;
        cluster.barrier = resident.group.barriers[barrier::CLUSTER].get();
        if ended {
            cluster.group_ends(number, &mut self.hands.runner)?;
        }
        if cluster.live == 0 {
            self.retire(at);
            self.first = 0;
        }
        Ok(())
    }

    /// Starts the next cluster, if there is one and (unless it is the worker's `first`) the device has room.
    fn admit(&mut self, first: bool) -> Result<bool, DispatchError> {
        let shared = self.hands.shared;
        if self.inherit() {
            return Ok(true);
        }
        let total: u64 = shared.groups.iter().product();
        let size = shared.cluster_size();
        // One that needs a workgroup takes what there is: looking first would fetch the number's cache line twice.
        let any = || !self.claimed.is_empty() || shared.has_groups();
        let room = || shared.resident() + size <= shared.resident_limit;
        if !(first || any() && room()) {
            return Ok(false);
        }
        let Some(linear) = self.claim(total, size) else {
            return Ok(false);
        };
        if !self.resident.is_empty() {
            shared.extra.fetch_add(size, Ordering::Relaxed);
        }
        let unit = &mut self.hands.unit;
        let mut cluster = std::mem::take(&mut self.spare);
        cluster.groups.resize_with(size as usize, Resident::empty);
        for (resident, linear) in cluster.groups.iter_mut().zip(linear..) {
            self.hands.flight.begin();
            unit.memory.refresh();
            let started = launch::start(shared, linear, &mut unit.memory, &mut unit.pool, resident);
            if let Some(lost) = self.hands.flight.end() {
                shared.loses(&lost);
                return Err(shared.loss(resident.group.id, 0));
            }
            started?;
            self.waves += resident.waves.len() as u64;
            self.hands.runner.group_begins(resident)?;
        }
        cluster.live = cluster.groups.len();
        cluster.next = 0;
        cluster.barrier = Barrier {
            members: size as u32,
            ..Barrier::default()
        };
        self.resident.push(cluster);
        Ok(true)
    }

    /// The number of the next workgroup to start, the first one of its cluster.
    fn claim(&mut self, total: u64, size: u64) -> Option<u64> {
        if self.claimed.is_empty() {
            let next = &self.hands.shared.next;
            let count = size * self.claims.count(self.hands.shared, total / size);
            let first = next.fetch_add(count, Ordering::Relaxed);
            let end = first + count;
            if end > total {
                next.fetch_sub(end - total.max(first), Ordering::Relaxed);
            }
            self.claimed = first..end.min(total);
            self.claims.behind = end;
        }
        let first = self.claimed.start;
        self.claimed.start += size;
        (first < self.claimed.end).then_some(first)
    }

    fn retire(&mut self, index: usize) {
        let cluster = self.resident.swap_remove(index);
        for resident in &cluster.groups {
            self.hands.shared.scratch.give(resident.scratch);
        }
        let size = cluster.groups.len() as u64;
        self.spare = cluster;
        if !self.resident.is_empty() {
            self.hands.shared.extra.fetch_sub(size, Ordering::Relaxed);
        }
        self.ended += size;
        if self.ended >= TOLD {
            self.tell_ended();
        }
    }

    /// Tells the others, and the observer, of workgroups that have ended.
    fn tell_ended(&mut self) {
        let shared = self.hands.shared;
        let ended = std::mem::take(&mut self.ended);
        let before = shared.finished.fetch_add(ended, Ordering::AcqRel);
        let finished = before + ended;
        if finished / 64 != before / 64 {
            let all = shared.groups.iter().product();
            shared.observer.workgroups_ended(finished, all);
        }
    }

    /// Runs the waves of a cluster until each has ended, spins or waits for a barrier that is not full.
    fn turn(&mut self, index: usize) -> Result<Turn, DispatchError> {
        let shared = self.hands.shared;
        let alone = self.resident.len() == 1;
        let cluster = &mut self.resident[index];
        loop {
            let start = std::mem::take(&mut cluster.next);
            let mut done = Round {
                // Those before it may have.
                advanced: start > 0,
                ..Round::default()
            };
            for number in start..cluster.groups.len() {
                let resident = &mut cluster.groups[number];
                if resident.group.live == 0 {
                    continue;
                }
                resident.group.barriers[barrier::CLUSTER].set(cluster.barrier);
                self.at = resident.group.linear;
                let (hands, experience) = (&mut self.hands, &mut self.experience);
                // Asking whether others are left would fetch a cache line that all want.
                let last = alone && self.claimed.is_empty();
                let plan = match last {
                    true => experience.plan(shared, resident, self.started),
                    false => Plan::Alone,
                };
                let round = match plan {
                    Plan::Spread => experience.spread(hands, resident),
                    Plan::Alone => round(hands, resident, Manner::Plain),
                    Plan::Watch => round(hands, resident, Manner::Watchful),
                    Plan::Measure => {
                        let start = Instant::now();
                        round(hands, resident, Manner::Measured(self.started))
                            .inspect(|round| experience.learn(round, start.elapsed()))
                    }
                };
                cluster.barrier = resident.group.barriers[barrier::CLUSTER].get();
                let ended = resident.group.live == 0;
                if ended {
                    resident.position = None;
                }
                let amid = resident.position.is_some();
                let round = round.inspect_err(|_| cluster.next = number)?;
                done.advanced |= round.advanced;
                done.spins |= round.spins;
                done.busy |= round.busy;
                done.queued |= round.queued;
                if ended {
                    cluster.group_ends(number, &mut self.hands.runner)?;
                }
                if shared.abandons(self.at) {
                    if cluster.live == 0 {
                        return Ok(Turn::Ended);
                    }
                    let next = number + usize::from(!amid);
                    cluster.next = next % cluster.groups.len();
                    return Ok(Turn::Spins { busy: true });
                }
            }
            if cluster.live == 0 {
                return Ok(Turn::Ended);
            }
            if done.spins && !done.advanced {
                return Ok(Turn::Spins { busy: done.busy });
            }
            if done.queued && !done.advanced {
                return Ok(Turn::Queued);
            }
            if !done.advanced {
                return Err(deadlock(shared, std::slice::from_ref(cluster)));
            }
        }
    }
}

/// Waves that the text of a deadlock names.
const NAMED: usize = 32;

fn deadlock(shared: &Shared<'_>, clusters: &[Cluster]) -> DispatchError {
    let groups = || clusters.iter().flat_map(|cluster| &cluster.groups);
    let waits: Vec<String> = groups()
        .flat_map(|resident| {
            let id = resident.group.id;
            resident.waves.iter().filter_map(move |w| {
                let at = match w.waiting {
                    Waiting::Barrier(slot) => format!("barrier {slot}"),
                    Waiting::Gws(wait) => format!("global wave sync {}", wait.resource()),
                    _ => return None,
                };
                let (wave, pc) = (w.index, w.pc);
                Some(format!(
                    "workgroup {id:?} wave {wave} at {at} (before {pc:#x})"
                ))
            })
        })
        .collect();
    let mut what = format!(
        "deadlock, no wave can go on: {}",
        waits[..waits.len().min(NAMED)].join(", ")
    );
    if waits.len() > NAMED {
        what += &format!(" and {} more", waits.len() - NAMED);
    }
    DispatchError::Deadlock {
        kernel: shared.dispatch.name.clone(),
        workgroup: groups().next().map_or([0; 3], |r| r.group.id),
        what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gets_the_kit_that_it_left() {
        let me = std::thread::current().id();
        let other = std::thread::spawn(|| std::thread::current().id());
        let other = other.join().expect("it only looks at itself");
        let left_by = |thread| Kit {
            thread: Some(thread),
            ..Kit::default()
        };
        let mut kits = vec![left_by(other), left_by(me), left_by(other)];
        assert_eq!(Kit::take(&mut kits).thread, Some(me));
        // Else any: those of threads that have ended are not lost.
        assert_eq!(Kit::take(&mut kits).thread, Some(other));
        assert_eq!(Kit::take(&mut kits).thread, Some(other));
        assert_eq!(Kit::take(&mut kits).thread, None);
    }
}
