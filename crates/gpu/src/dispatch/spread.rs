//! When the waves of a workgroup go to several threads: while threads have nothing else to do and turns last long enough.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rocjitsu_exec::wave::Waiting;

use super::board::Claim;
use super::launch::Resident;
use super::round::Round;
use super::slice::Hands;
use super::suspend::At;
use super::team::Team;
use super::worker::ALONE;
use super::{DispatchError, Shared};

/// The shortest turn that may be worth another thread: some times what it takes to learn that another thread has come to
/// a barrier. Whether longer ones are worth it depends on what the waves share, and is measured.
const WORTH: Duration = Duration::from_nanos(500);
/// Turns on one thread that are timed together, since the intervals between a kernel's barriers differ, unless they take
/// as long as `LONG`.
const WINDOW: u32 = 64;
const LONG: Duration = Duration::from_micros(40);
/// Turns over which the owner of a team looks whether they are still worth it.
const SAMPLE: u32 = 64;
/// Of its turns, how many it times: the clock takes about a tenth as long as a short turn.
const TIMED: u32 = SAMPLE / 8;
/// Samples of a team in a row that gained nothing, after which it is given up: one may have met with a page fault.
const BAD: u32 = 2;
/// Tenths of the time on one thread from which on one sample suffices: where cache lines take long from one core to the other
/// (between processors of a host they do) a team may take twice as long as one thread.
const LOSS: u128 = 12;
/// Samples of teams after which turns on one thread are timed again: soon at first, when code was just compiled, then after
/// twice as many each time up to the last.
const FIRST_STALE: u32 = 4;
const STALE: u32 = 64;
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
    /// The same, until another thread has nothing to do.
    Watch,
    /// The same, and it counts how long their turns are.
    Measure,
    /// They run on several.
    Spread,
}

/// Kernels of which is remembered what their last dispatch taught.
const KERNELS: usize = 1024;

/// What dispatches taught for the next ones of the same kernel, by the address of its code: where other code has come to lie
/// there it costs some time.
#[derive(Default)]
pub struct Lessons(Mutex<HashMap<u64, Lesson>>);

/// What is known of a kernel.
#[derive(Clone, Copy, Debug)]
struct Lesson {
    /// Length of turns on one thread, when it is known.
    turn: Option<Duration>,
    /// Whether it is that of whole turns.
    whole: bool,
    /// Rounds on one thread until several are tried again.
    pause: u32,
    /// How many it will be the next time.
    next_pause: u32,
    /// Samples of teams since turns on one thread were timed.
    samples: u32,
    /// Samples after which they are timed again.
    stale: u32,
    /// Of these, the last ones that gained nothing.
    bad: u32,
    /// Whether threads begin with stores to LDS one after the other.
    staggers: bool,
    /// Nanoseconds of a team's turn before the other way was tried.
    before: f64,
}

impl Default for Lesson {
    fn default() -> Lesson {
        Lesson {
            turn: None,
            whole: false,
            pause: 0,
            next_pause: PAUSE,
            samples: 0,
            stale: FIRST_STALE,
            bad: 0,
            staggers: true,
            before: 0.0,
        }
    }
}

impl Lesson {
    /// Tries both ways of beginning with stores and keeps the shorter one: the first sample of some is that in which threads
    /// come, the second has the one, the third the other. `length` in nanoseconds.
    fn compares(&mut self, length: f64) {
        match self.samples {
            2 => {
                self.before = length;
                self.staggers = !self.staggers;
            }
            3 if length > self.before => self.staggers = !self.staggers,
            _ => {}
        }
    }

    /// Takes in how long `turns` of a team, all its threads together, took, `length` being that of one of them. Returns
    /// whether to go on.
    fn hears(&mut self, turns: u64, took: Duration, length: Duration) -> bool {
        if length < WORTH {
            self.gives_up(2);
            return false;
        }
        let alone = self.turn.filter(|_| self.whole);
        // Tenths of the time that it took on one thread.
        let tenths = alone.map_or(0, |turn| {
            took.as_nanos() * 10 / (u128::from(turns) * turn.as_nanos()).max(1)
        });
        let gains_nothing = tenths >= 9;
        self.samples += 1;
        self.compares(took.as_nanos() as f64 / turns.max(1) as f64);
        if !gains_nothing {
            self.bad = 0;
            self.next_pause = PAUSE;
            if self.samples >= self.stale {
                (self.turn, self.samples) = (None, 0);
                self.stale = (2 * self.stale).min(STALE);
            }
            return self.turn.is_some();
        }
        self.bad += 1;
        let loses = tenths >= LOSS;
        if loses || self.bad == BAD {
            self.gives_up(if loses { 8 } else { 2 });
            return false;
        }
        true
    }

    /// Several threads gain nothing at present: the pause before they are tried again, the next time `growth` times as long.
    fn gives_up(&mut self, growth: u32) {
        self.turn = None;
        self.pause = self.next_pause;
        self.next_pause = (growth * self.next_pause).min(LONGEST_PAUSE);
        (self.samples, self.bad) = (0, 0);
    }
}

impl Lessons {
    fn of(&self, entry: u64) -> Lesson {
        let lessons = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lessons.get(&entry).copied().unwrap_or_default()
    }

    fn learn(&self, entry: u64, lesson: Lesson) {
        let mut lessons = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lessons.len() >= KERNELS {
            lessons.clear();
        }
        lessons.insert(entry, lesson);
    }
}

/// A worker's experience with the dispatch.
pub struct Experience {
    /// Whether there are threads and waves for it at all.
    possible: bool,
    lesson: Lesson,
    /// Turns that were timed on one thread, and how long these took.
    timed: (u32, Duration),
    returns: u32,
    called: Option<Instant>,
}

impl Experience {
    /// None yet but that of earlier dispatches.
    pub fn new(shared: &Shared<'_>) -> Experience {
        let possible = shared.may_spread;
        let mut lesson = match possible {
            true => shared.device.lessons.of(shared.dispatch.entry),
            false => Lesson::default(),
        };
        let units = shared.groups.iter().product::<u64>() / shared.cluster_size();
        if units >= shared.threads as u64 {
            // Only what is left of the last workgroup would be given away, often not worth it: a look at its turns first.
            lesson.turn = None;
        }
        Experience {
            possible,
            lesson,
            timed: Default::default(),
            returns: 0,
            called: None,
        }
    }

    /// What to do with a workgroup now. `started` is when the worker did.
    pub fn plan(&mut self, shared: &Shared<'_>, resident: &Resident, started: Instant) -> Plan {
        if !self.possible || resident.group.live < 2 || resident.in_order || shared.has_groups() {
            return Plan::Alone;
        }
        let lesson = &mut self.lesson;
        if lesson.pause > 0 {
            lesson.pause -= 1;
            return Plan::Alone;
        }
        if shared.owners.load(Ordering::Relaxed) >= shared.threads {
            return Plan::Watch;
        }
        match lesson.turn {
            None => Plan::Measure,
            Some(turn) if turn < WORTH => {
                lesson.gives_up(2);
                Plan::Alone
            }
            Some(_) if lesson.samples == 0 && started.elapsed() < ALONE => Plan::Measure,
            Some(_) => Plan::Spread,
        }
    }

    /// Keeps what the next dispatch of this kernel should know.
    pub fn remember(&self, shared: &Shared<'_>) {
        let Lesson {
            turn, next_pause, ..
        } = self.lesson;
        if self.possible && (turn.is_some() || next_pause != PAUSE) {
            let lessons = &shared.device.lessons;
            lessons.learn(shared.dispatch.entry, self.lesson);
        }
    }

    /// Learns from a round that was measured.
    pub fn learn(&mut self, round: &Round, took: Duration) {
        let lesson = &mut self.lesson;
        if round.long {
            (lesson.turn, lesson.whole) = (Some(took.max(WORTH)), false);
            self.timed = Default::default();
            return;
        }
        let (turns, sum) = &mut self.timed;
        (*turns, *sum) = (*turns + round.turns, *sum + took);
        if *turns >= WINDOW || *turns > 0 && *sum >= LONG {
            (lesson.turn, lesson.whole) = (Some(*sum / *turns), true);
            self.timed = Default::default();
        }
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
        // Whichever wave the round that was broken off would have come to: all are the team's.
        resident.position = None;
        let mut team = Team::new(resident, shared.threads);
        team.stagger(self.lesson.staggers);
        let mut open = shared.teams.open(&team);
        let (mut turns, mut spent, mut looks) = (0u32, Duration::ZERO, 0);
        let (mut since, mut all) = (Instant::now(), team.turns());
        let mut round = Round::default();
        self.call(shared, live);
        loop {
            if open.is_closed() || shared.abandons(resident.group.linear) {
                round.spins = true;
                round.busy = true;
                break;
            }
            let start = turns.is_multiple_of(SAMPLE / TIMED).then(Instant::now);
            match open.step(hands, looks) {
                Claim::Wave(_) => {
                    looks = 0;
                    turns += 1;
                    round.turns += 1;
                    spent += start.map_or(Duration::ZERO, |start| start.elapsed());
                    if turns == SAMPLE {
                        let of_all = team.turns() - all;
                        // Nobody has come yet: that says nothing of how it is with others.
                        let length = spent / TIMED;
                        let alone = of_all <= u64::from(turns) && length >= WORTH;
                        if !alone && !self.lesson.hears(of_all, since.elapsed(), length) {
                            break;
                        }
                        team.stagger(self.lesson.staggers);
                        (turns, spent) = (0, Duration::ZERO);
                        (since, all) = (Instant::now(), team.turns());
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
            self.lesson.pause = self.lesson.pause.max(1);
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

#[cfg(test)]
mod tests {
    use super::*;

    const TURN: Duration = Duration::from_micros(2);
    const TURNS: u64 = 128;

    fn known() -> Lesson {
        Lesson {
            turn: Some(TURN),
            whole: true,
            ..Lesson::default()
        }
    }

    /// A sample of a team that took so many tenths of the time on one thread.
    fn hears(lesson: &mut Lesson, tenths: u32) -> bool {
        lesson.hears(TURNS, TURN * TURNS as u32 * tenths / 10, TURN)
    }

    #[test]
    fn a_team_that_loses_is_given_up_at_once_and_for_long() {
        let mut lesson = known();
        assert!(!hears(&mut lesson, 20));
        assert_eq!((lesson.turn, lesson.pause), (None, PAUSE));
        assert_eq!(lesson.next_pause, 8 * PAUSE);
    }

    #[test]
    fn one_that_gains_nothing_has_a_second_sample() {
        let mut lesson = known();
        assert!(hears(&mut lesson, 10));
        assert!(!hears(&mut lesson, 10));
        assert_eq!((lesson.pause, lesson.next_pause), (PAUSE, 2 * PAUSE));
        let mut lesson = known();
        assert!(hears(&mut lesson, 10) && hears(&mut lesson, 6) && hears(&mut lesson, 10));
    }

    #[test]
    fn what_was_timed_while_code_was_cold_does_not_count_for_long() {
        let mut lesson = known();
        let mut samples = Vec::new();
        for _ in 0..4 {
            let more = (1..).find(|_| !hears(&mut lesson, 6));
            samples.push(more.expect("it ends"));
            (lesson.turn, lesson.whole) = (Some(TURN), true);
        }
        assert_eq!(samples, [4, 8, 16, 32]);
    }

    #[test]
    fn the_shorter_way_to_begin_with_stores_is_kept() {
        for staggered_is_shorter in [true, false] {
            let mut lesson = known();
            let mut ways = Vec::new();
            for _ in 0..4 {
                ways.push(lesson.staggers);
                let tenths = if lesson.staggers == staggered_is_shorter {
                    6
                } else {
                    8
                };
                hears(&mut lesson, tenths);
            }
            assert_eq!(ways, [true, true, false, staggered_is_shorter]);
        }
    }
}
