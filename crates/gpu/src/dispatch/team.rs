//! The waves of one workgroup on several threads: the worker whose workgroup it is, and those that have none.
//!
//! The owner opens a team, works in it like the others, and closes it when no wave can run any more, when turns are too
//! short to be worth it, or when the dispatch is over. Then the workgroup is its own again.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rocjitsu_exec::barrier;
use rocjitsu_exec::error::Fault;
use rocjitsu_exec::wave::{Group, Waiting, Wave};

use super::board::{Board, Claim, Own, State};
use super::launch::Resident;
use super::slice::{Hands, Slice};
use super::worker::QUANTUM;

/// How long a thread looks for a wave before it leaves: some times what waking it again takes.
pub const PATIENCE: Duration = Duration::from_micros(100);
/// Looks for a wave in quick succession, then with the processor offered to others.
const EAGER_LOOKS: u32 = 256;
/// Looks after which a thread takes waves that another one ran before and has not come to.
const PATIENT_LOOKS: u32 = 32;

/// Bits of [`Wave::past_barrier`]: the wave has not stopped before a load or atomic, or before a store to LDS, since a barrier.
const LOADS: u8 = 1;
const STORES: u8 = 2;
/// How much later than the owner a thread begins with the stores of waves that all stopped before them: about what asking
/// for some dozen lines takes.
const STAGGER: Duration = Duration::from_nanos(120);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A workgroup whose waves any thread may run.
pub struct Team {
    board: Board,
    group: *const Group,
    waves: *mut Wave,
    /// Waves that stopped: their number, and why.
    faults: Mutex<Vec<(usize, Option<Box<Fault>>)>>,
    /// Threads besides the owner.
    inside: AtomicUsize,
    /// Threads that ever were.
    numbers: AtomicU8,
    /// Turns in a row that ended because the wave spins or sleeps.
    fruitless: AtomicU32,
    /// Whether threads begin one after the other with stores to LDS that waves stopped before. Waves that store to the same
    /// lines, each a part, else take them from each other before the first of them has stored.
    staggers: AtomicBool,
}

// SAFETY: a wave is touched only by the thread that claimed it from the board, whose words acquire and release; the group
// is `Sync`. Both outlive the team's time on the list and its members (`Open`).
unsafe impl Sync for Team {}

/// The owner's number on the board.
const OWNER: u8 = 0;

impl Team {
    /// A team for a workgroup that no thread runs.
    pub fn new(resident: &mut Resident, threads: usize) -> Team {
        let waves = resident.waves.iter().map(|wave| {
            let turns = wave.stops_past_barrier();
            let state = match state(wave) {
                // Whoever comes first takes any that can run.
                State::GaveWay => State::Ready,
                State::Ahead if turns == 0 => State::Ready,
                other => other,
            };
            (state, interval(wave), turns)
        });
        Team {
            board: Board::new(waves, threads),
            group: &resident.group,
            waves: resident.waves.as_mut_ptr(),
            faults: Mutex::default(),
            inside: AtomicUsize::new(0),
            numbers: AtomicU8::new(0),
            fruitless: AtomicU32::new(0),
            staggers: AtomicBool::new(false),
        }
    }

    /// Says whether threads begin with stores one after the other.
    pub fn stagger(&self, staggers: bool) {
        self.staggers.store(staggers, Ordering::Relaxed);
    }

    /// Turns that waves have had.
    pub fn turns(&self) -> u64 {
        self.board.puts()
    }

    /// Looks for a wave behind `seat`'s last one and gives it a turn.
    fn step(&self, hands: &mut Hands<'_, '_>, seat: &mut Seat, looks: u32) -> Claim {
        // SAFETY: the group outlives the team.
        let group = unsafe { &*self.group };
        let reached = |slot: u8, phase| barrier::reached(group, usize::from(slot), phase);
        let manner = (seat.faithful, looks < PATIENT_LOOKS);
        let (me, last) = (seat.number, seat.last);
        let claim = self.board.claim(me, last, &mut seat.own, manner, reached);
        let Claim::Wave(index) = claim else {
            return claim;
        };
        // SAFETY: the board has as many waves, and this one is this thread's until it puts it back.
        let wave = unsafe { &mut *self.waves.add(index) };
        if seat.number != OWNER && stores_next(wave) && self.staggers.load(Ordering::Relaxed) {
            let (start, wait) = (Instant::now(), STAGGER * u32::from(seat.number).min(4));
            while start.elapsed() < wait {
                std::hint::spin_loop();
            }
        }
        let slice = loop {
            let (before, passed) = (wave.past_barrier, interval(wave));
            let slice = hands.turn(group, wave, QUANTUM, &mut false);
            let before = if interval(wave) == passed {
                before
            } else {
                u8::MAX
            };
            let stops = matches!(slice, Ok(Slice::Waits)) && wave.waiting == Waiting::No;
            if !stops || !stopped_to_load(before, wave.past_barrier) {
                break slice;
            }
            self.board.goes_on(index, seat.number, interval(wave));
        };
        hands.lent += u64::from(seat.number != OWNER);
        seat.last = index;
        let next = match &slice {
            Ok(Slice::Turn { .. } | Slice::Hit { .. }) => {
                self.fruitless.fetch_add(1, Ordering::Relaxed);
                State::GaveWay
            }
            Ok(Slice::Ended | Slice::Waits) => {
                // All threads look at it.
                if self.fruitless.load(Ordering::Relaxed) != 0 {
                    self.fruitless.store(0, Ordering::Relaxed);
                }
                state(wave)
            }
            Err(_) => State::Held,
        };
        // A wave that spins may wait for any other one: the next in line, whoever ran it before.
        seat.faithful = !matches!(slice, Ok(Slice::Turn { .. }));
        if let Err(fault) = slice {
            lock(&self.faults).push((index, fault));
        }
        self.board.put(index, seat.number, next, interval(wave));
        claim
    }

    /// The wave that failed first, had they run one after the other: of those in the earliest interval between barriers the
    /// first in the order of turns.
    pub fn first_fault(&mut self, resident: &Resident) -> Option<(usize, Option<Box<Fault>>)> {
        let faults = self.faults.get_mut().unwrap_or_else(|e| e.into_inner());
        let rank = |index: usize| {
            let interval = interval(&resident.waves[index]);
            let count = resident.waves.len();
            let place = (index + count - start_of(interval, count)) % count;
            (interval, place)
        };
        faults.sort_by_key(|&(index, _)| rank(index));
        faults.drain(..).next()
    }
}

/// What a wave that nobody runs waits for.
fn state(wave: &Wave) -> State {
    match wave.waiting {
        Waiting::Turn => State::GaveWay,
        // Behind a barrier a wave lets the others catch up before it asks memory for anything.
        Waiting::No => State::Ahead,
        Waiting::Barrier(slot) => State::Barrier {
            slot,
            phase: wave.barrier_phase[usize::from(slot) % wave.barrier_phase.len()],
        },
        Waiting::Gws(_) | Waiting::Order | Waiting::Ended => State::Held,
    }
}

/// Whether a wave that was stopped before its first store to LDS behind a barrier goes on with that.
fn stores_next(wave: &Wave) -> bool {
    let stopped = wave.waiting == Waiting::No && wave.stops_past_barrier() > 0;
    stopped && wave.past_barrier & STORES == 0
}

/// Whether a turn that ended with a stop did so before a load or atomic, from [`Wave::past_barrier`] before and after it.
fn stopped_to_load(before: u8, after: u8) -> bool {
    before & LOADS != 0 && after & LOADS == 0 && (before ^ after) & STORES == 0
}

/// How many barriers of its workgroup a wave has passed or will have when it runs again.
fn interval(wave: &Wave) -> u32 {
    wave.barrier_phase[barrier::WORKGROUP]
}

/// Which of `count` waves has the first turn in an interval when they run on one thread: the last one to come to a barrier
/// goes on, the others follow in their order, so that the first place moves back by one at each barrier.
fn start_of(interval: u32, count: usize) -> usize {
    (count - interval as usize % count) % count
}

/// Whether a wave that has stopped before its first load or store behind a barrier has come further than another one that can
/// run: threads that leave a team may leave its waves so.
pub fn is_ahead(waves: &[Wave], index: usize, group: &Group) -> bool {
    let Some(wave) = waves.get(index) else {
        return false;
    };
    let place = |wave: &Wave| (interval(wave), wave.stops_past_barrier());
    let runs = |wave: &Wave| match wave.waiting {
        Waiting::No => true,
        Waiting::Barrier(_) => barrier::ready(wave, group),
        // One that spins may do so until the other one stores.
        _ => false,
    };
    let behind = |other: &Wave| place(other) < place(wave) && runs(other);
    wave.waiting == Waiting::No && waves.iter().any(behind)
}

/// Which wave has the first turn now.
pub fn first_turn(waves: &[Wave]) -> usize {
    let live = waves.iter().filter(|w| w.waiting != Waiting::Ended);
    live.map(interval)
        .min()
        .map_or(0, |interval| start_of(interval, waves.len()))
}

/// A thread's place in a team.
struct Seat {
    number: u8,
    last: usize,
    own: Own,
    faithful: bool,
}

/// The teams of a dispatch that threads may join.
#[derive(Default)]
pub struct Teams {
    open: AtomicUsize,
    list: Mutex<Vec<Entry>>,
}

struct Entry(NonNull<Team>);

// SAFETY: `Team` is `Sync`, and one on the list is alive (`Open`).
unsafe impl Send for Entry {}

/// A team on the list. Dropping it closes the team and waits for its members.
pub struct Open<'t> {
    teams: &'t Teams,
    team: &'t Team,
    seat: Seat,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.team.board.close();
        lock(&self.teams.list).retain(|entry| !std::ptr::eq(entry.0.as_ptr(), self.team));
        self.teams.open.fetch_sub(1, Ordering::Relaxed);
        let mut looks = 0;
        while self.team.inside.load(Ordering::Acquire) > 0 {
            pause(&mut looks);
        }
    }
}

/// A thread in another worker's team.
struct Member(NonNull<Team>);

impl Member {
    fn team(&self) -> &Team {
        // SAFETY: `Open` waits until no member is left.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The wave that it ran is lost; the owner must not wait for it.
            self.team().board.close();
        }
        self.team().inside.fetch_sub(1, Ordering::Release);
    }
}

fn pause(looks: &mut u32) {
    *looks += 1;
    if *looks < EAGER_LOOKS {
        // A look takes the lines from the threads that are about to change them.
        for _ in 0..4 {
            std::hint::spin_loop();
        }
    } else {
        std::thread::yield_now();
    }
}

impl Teams {
    /// Lets other threads in.
    pub fn open<'t>(&'t self, team: &'t Team) -> Open<'t> {
        lock(&self.list).push(Entry(NonNull::from(team)));
        self.open.fetch_add(1, Ordering::Release);
        Open {
            teams: self,
            team,
            seat: Seat {
                number: OWNER,
                last: team.board.start(OWNER),
                own: Own::default(),
                faithful: true,
            },
        }
    }

    /// Joins the team that has the fewest threads.
    fn join(&self) -> Option<Member> {
        if self.open.load(Ordering::Acquire) == 0 {
            return None;
        }
        let list = lock(&self.list);
        let members = |entry: &&Entry| {
            // SAFETY: a team on the list is alive.
            unsafe { entry.0.as_ref() }.inside.load(Ordering::Relaxed)
        };
        let entry = list.iter().min_by_key(members)?;
        // SAFETY: as above; it stays so while it has members.
        unsafe { entry.0.as_ref() }
            .inside
            .fetch_add(1, Ordering::Relaxed);
        Some(Member(entry.0))
    }

    /// Runs waves of others until there has been nothing to do for a while or `over` says that there will not be.
    pub fn help(&self, hands: &mut Hands<'_, '_>, over: impl Fn() -> bool) {
        let (mut idle, mut looks) = (None, 0);
        // Most looks find something soon: the clock is asked only of those that do not.
        let tired = |idle: &mut Option<Instant>, looks: u32| {
            looks >= EAGER_LOOKS && idle.get_or_insert_with(Instant::now).elapsed() > PATIENCE
        };
        while !over() {
            if let Some(member) = self.join() {
                let team = member.team();
                let number = team.numbers.fetch_add(1, Ordering::Relaxed) % (u8::MAX - 1) + 1;
                let mut seat = Seat {
                    number,
                    last: team.board.start(number),
                    own: Own::default(),
                    faithful: true,
                };
                while !team.board.is_closed() {
                    match team.step(hands, &mut seat, looks) {
                        Claim::Wave(_) => {
                            (idle, looks) = (None, 0);
                        }
                        _ if tired(&mut idle, looks) => return,
                        Claim::Busy | Claim::Stuck => pause(&mut looks),
                    }
                }
            }
            if tired(&mut idle, looks) {
                return;
            }
            pause(&mut looks);
        }
    }
}

impl Open<'_> {
    /// The owner's part of a step.
    pub fn step(&mut self, hands: &mut Hands<'_, '_>, looks: u32) -> Claim {
        self.team.step(hands, &mut self.seat, looks)
    }

    /// Whether a thread has left it broken.
    pub fn is_closed(&self) -> bool {
        self.team.board.is_closed()
    }

    /// Turns in a row that ended because waves spin or sleep.
    pub fn fruitless(&self) -> u32 {
        self.team.fruitless.load(Ordering::Relaxed)
    }

    /// Passes the time until another look.
    pub fn wait(&self, looks: &mut u32) {
        pause(looks);
    }
}

#[cfg(test)]
mod tests {
    use super::super::board::shift;
    use super::*;

    #[test]
    fn threads_begin_with_waves_whose_words_lie_apart() {
        for (waves, threads) in [(1, 2), (3, 2), (4, 2), (16, 2), (16, 4), (32, 2), (7, 8)] {
            let board = Board::new((0..waves).map(|_| (State::Ready, 0, 0)), threads);
            let line = |number| ((board.start(number) + 1) % waves) >> shift(waves, threads);
            let mut lines: Vec<usize> = (0..threads.min(waves) as u8).map(line).collect();
            assert_eq!(lines.first(), Some(&0));
            let all = lines.len();
            lines.dedup();
            assert_eq!(lines.len(), all, "{waves} waves, {threads} threads");
        }
    }

    #[test]
    fn a_turn_ends_before_a_load_or_before_a_store() {
        let (all, load, store, both) = (u8::MAX, !LOADS, !STORES, !(LOADS | STORES));
        for (before, after, loads) in [
            (all, load, true),
            (all, store, false),
            (load, both, false),
            (store, both, true),
            // No stop that these would tell: it waits.
            (both, both, false),
            (0, 0, false),
        ] {
            let found = stopped_to_load(before, after);
            assert_eq!(found, loads, "{before:x} {after:x}");
        }
    }

    #[test]
    fn a_wave_is_ahead_of_those_that_have_yet_to_come_to_its_stop() {
        let group = Group::default();
        barrier::set_members(&group, barrier::WORKGROUP, 2);
        let mut waves = [Wave::new(64), Wave::new(64)];
        // Wave 0 waits for the barrier, wave 1 completes it, goes on and stops before its first store to LDS.
        for wave in &mut waves {
            barrier::signal(&group, barrier::WORKGROUP);
            barrier::wait(wave, &group, barrier::WORKGROUP);
        }
        assert_eq!(waves[0].waiting, Waiting::Barrier(0));
        assert_eq!((waves[1].waiting, interval(&waves[1])), (Waiting::No, 1));
        assert!(!is_ahead(&waves, 1, &group), "neither has stopped");
        waves[1].past_barrier &= !2;
        assert!(is_ahead(&waves, 1, &group) && !is_ahead(&waves, 0, &group));
        // One that spins is not waited for, and one that has come as far neither.
        waves[0].waiting = Waiting::Turn;
        assert!(!is_ahead(&waves, 1, &group));
        waves[0].waiting = Waiting::No;
        assert!(is_ahead(&waves, 1, &group));
        waves[0].past_barrier &= !1;
        assert!(!is_ahead(&waves, 1, &group));
    }
}
