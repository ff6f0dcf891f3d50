//! When the waves of a workgroup go to several threads: while threads have nothing else to do and turns last long enough.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rocjitsu_exec::wave::Waiting;

use super::board::Claim;
use super::launch::Resident;
use super::slice::Hands;
use super::suspend::At;
use super::team::Team;
use super::worker::{ALONE, Round};
use super::{DispatchError, Shared};

/// The shortest turn that may be worth another thread: some times what it takes to learn that another thread has come to
/// a barrier. Whether longer ones are worth it depends on what the waves share, and is measured.
const WORTH: Duration = Duration::from_nanos(500);
/// Rounds on one thread whose turns are timed: the intervals between a kernel's barriers differ.
const ROUNDS: u32 = 4;
/// Turns over which the owner of a team looks whether they are still worth it.
const SAMPLE: u32 = 64;
/// Instructions after which a turn whose length is not known is looked at.
pub const PROBE: u64 = 512;
/// Rounds on one thread after turns were too short, the first time; twice as many each time after.
const PAUSE: u32 = 8;
const LONGEST_PAUSE: u32 = 1 << 12;
/// Workgroups that came back because the order of their waves matters, after which no other one is given away.
const MOST_RETURNS: u32 = 8;
/// How often threads are called, at most: those that were called may not have come yet.
const CALL: Duration = Duration::from_micros(200);

/// What is to be done with a workgroup that has its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Its waves run on this thread.
    Alone,
    /// The same, and it counts how long their turns are.
    Measure,
    /// They run on several.
    Spread,
}

/// Kernels of which is remembered what their last dispatch taught.
const KERNELS: usize = 1024;

/// What dispatches taught for the next ones of the same kernel: where several threads gained nothing, how many rounds are left
/// until that is tried again, and for how many after that it is not. By the address of the kernel's code: where other code has come to
/// lie there it costs some time.
#[derive(Default)]
pub struct Lessons(Mutex<HashMap<u64, (u32, u32)>>);

impl Lessons {
    fn of(&self, entry: u64) -> (u32, u32) {
        let lessons = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lessons.get(&entry).copied().unwrap_or((0, PAUSE))
    }

    fn learn(&self, entry: u64, pause: u32, next_pause: u32) {
        let mut lessons = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if next_pause == PAUSE {
            lessons.remove(&entry);
            return;
        }
        if lessons.len() >= KERNELS {
            lessons.clear();
        }
        lessons.insert(entry, (pause, next_pause));
    }
}

/// A worker's experience with the dispatch.
pub struct Experience {
    /// Whether there are threads and waves for it at all.
    possible: bool,
    /// Length of turns on one thread, when it is known.
    turn: Option<Duration>,
    /// Whether it is that of whole turns.
    whole: bool,
    /// Rounds that were timed, their turns, and how long these took.
    timed: (u32, u32, Duration),
    pause: u32,
    next_pause: u32,
    returns: u32,
    called: Option<Instant>,
}

impl Experience {
    /// None yet but that of earlier dispatches.
    pub fn new(shared: &Shared<'_>) -> Experience {
        let possible = shared.may_spread;
        let (pause, next_pause) = match possible {
            true => shared.device.lessons.of(shared.dispatch.entry),
            false => (0, PAUSE),
        };
        Experience {
            possible,
            turn: None,
            whole: false,
            timed: Default::default(),
            pause,
            next_pause,
            returns: 0,
            called: None,
        }
    }

    /// What to do with a workgroup now. `started` is when the worker did.
    pub fn plan(&mut self, shared: &Shared<'_>, resident: &Resident, started: Instant) -> Plan {
        if !self.possible || resident.group.live < 2 || resident.in_order || shared.has_groups() {
            return Plan::Alone;
        }
        if self.pause > 0 {
            self.pause -= 1;
            return Plan::Alone;
        }
        if shared.owners.load(Ordering::Relaxed) >= shared.threads {
            return Plan::Alone;
        }
        match self.turn {
            None => Plan::Measure,
            Some(turn) if turn < WORTH => {
                self.short();
                Plan::Alone
            }
            Some(_) if started.elapsed() < ALONE => Plan::Measure,
            Some(_) => Plan::Spread,
        }
    }

    /// Keeps what the next dispatch of this kernel should know.
    pub fn remember(&self, shared: &Shared<'_>) {
        if shared.may_spread {
            let lessons = &shared.device.lessons;
            lessons.learn(shared.dispatch.entry, self.pause, self.next_pause);
        }
    }

    /// Learns from a round that was measured.
    pub fn learn(&mut self, round: &Round, took: Duration) {
        if round.long {
            self.turn = Some(took.max(WORTH));
            self.whole = false;
            self.timed = Default::default();
            return;
        }
        let (rounds, turns, sum) = &mut self.timed;
        (*rounds, *turns, *sum) = (*rounds + 1, *turns + round.turns, *sum + took);
        if *rounds >= ROUNDS && *turns > 0 {
            self.turn = Some(*sum / *turns);
            self.whole = true;
            self.timed = Default::default();
        }
    }

    /// Whether `turns` of a team, all its threads together, took longer than they are worth.
    fn gains_nothing(&self, turns: u64, took: Duration) -> bool {
        let alone = self.turn.filter(|_| self.whole);
        alone.is_some_and(|turn| {
            let alone = u128::from(turns) * turn.as_nanos();
            took.as_nanos() * 10 > alone * 9
        })
    }

    /// Turns are not worth it at present.
    fn short(&mut self) {
        self.turn = None;
        self.pause = self.next_pause;
        self.next_pause = (2 * self.next_pause).min(LONGEST_PAUSE);
    }

    /// Calls threads for `waves` waves, if there may be any.
    fn call(&mut self, shared: &Shared<'_>, waves: u32) {
        if self.called.is_some_and(|at| at.elapsed() < CALL) {
            return;
        }
        let present = shared.present.load(Ordering::Relaxed);
        let missing = shared.threads.saturating_sub(present);
        let count = missing.min(waves.saturating_sub(1) as usize);
        if let (1.., Some(recruiter)) = (count, shared.recruiter.get()) {
            self.called = Some(Instant::now());
            recruiter.recruit(count);
        }
    }

    /// Runs a workgroup's waves together with other threads until none can run any more, or it is not worth it.
    pub fn spread(
        &mut self,
        hands: &mut Hands<'_, '_>,
        resident: &mut Resident,
    ) -> Result<Round, DispatchError> {
        let shared = hands.shared;
        let live = resident.group.live;
        resident.group.shared = true;
        resident.was_shared = true;
        let mut team = Team::new(resident);
        let mut open = shared.teams.open(&team);
        let (mut turns, mut spent, mut looks) = (0, Duration::ZERO, 0);
        let (mut since, mut all) = (Instant::now(), team.turns());
        let mut round = Round::default();
        self.call(shared, live);
        loop {
            if open.is_closed() || shared.abandons(resident.group.linear) {
                round.spins = true;
                round.busy = true;
                break;
            }
            let start = Instant::now();
            match open.step(hands, looks) {
                Claim::Wave(_) => {
                    looks = 0;
                    turns += 1;
                    round.turns += 1;
                    spent += start.elapsed();
                    if turns == SAMPLE {
                        let of_all = team.turns() - all;
                        if spent / turns < WORTH || self.gains_nothing(of_all, since.elapsed()) {
                            self.short();
                            break;
                        }
                        (turns, spent) = (0, Duration::ZERO);
                        (since, all) = (Instant::now(), team.turns());
                        self.next_pause = PAUSE;
                        self.call(shared, live);
                    }
                }
                Claim::Busy => open.wait(&mut looks),
                Claim::Stuck => break,
            }
            if open.fruitless() > 2 * live {
                round.spins = true;
                round.busy = true;
                break;
            }
        }
        drop(open);
        resident.group.shared = false;
        resident.group.live = resident.waves.len() as u32 - resident.waiting(Waiting::Ended);
        // Waves that wait for their turn, for another workgroup or in vain: one thread finds out which.
        if resident.group.live > 0 {
            self.pause = self.pause.max(1);
        }
        if let Some((index, fault)) = team.first_fault(resident) {
            let wave = &resident.waves[index];
            shared.halt.fails(At::of(&resident.group, wave));
            return Err(shared.failure_of(fault, resident.group.id, wave));
        }
        if resident.waiting(Waiting::Order) > 0 {
            resident.in_order = true;
            self.returns += 1;
            self.possible &= self.returns < MOST_RETURNS;
        }
        round.advanced = !round.spins;
        Ok(round)
    }
}
