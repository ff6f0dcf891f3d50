//! Which wave of a workgroup which thread runs: one atomic word per wave. Threads take waves that are ready, those they
//! ran before first, and put them back with what they wait for. Nobody is woken: a thread without a wave looks again.
//!
//! Waves of one interval between barriers go on together: one that stops before its first store to LDS behind a barrier
//! ([`State::Ahead`]) waits until the others have had as many turns in that interval, as if all ran in turn on one thread. So
//! no wave stores where another one, which some thread is just running, has yet to load. A stop before its first load counts as
//! a turn, but it goes on at once ([`Board::goes_on`]): what it may only do later than the others is to store.

use super::atomics::{AtomicBool, AtomicU64, Ordering};

/// What a wave is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It can run.
    Ready,
    /// It can run once those that are ready have been taken: it spins, sleeps or has used up its turn.
    GaveWay,
    /// It can run once the others have come as far behind the barrier that it passed last.
    Ahead,
    /// A thread runs it.
    Running,
    /// It can run once a barrier has come to a phase.
    Barrier {
        /// The barrier's slot.
        slot: u8,
        /// The phase.
        phase: u32,
    },
    /// It cannot run while the workgroup is on several threads: it has ended, failed, or waits for something else.
    Held,
}

/// What a thread finds that looks for a wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// This wave is the thread's now.
    Wave(usize),
    /// None is ready, but some run.
    Busy,
    /// None is ready, and none runs that could change that.
    Stuck,
}

/// The waves of a workgroup.
pub struct Board {
    slots: Slots,
    /// Waves that can run and that no thread has run yet.
    fresh: AtomicU64,
    closed: AtomicBool,
}

/// A wave's words.
struct Slot {
    word: AtomicU64,
    /// How often the wave was put back; grows before the word changes.
    puts: AtomicU64,
}

/// The words of all waves. Those of waves that one thread is likely to run lie together, apart from the others: a thread that
/// runs the same waves again and again fetches nothing from another core but what these have to tell.
struct Slots {
    lines: Box<[Line]>,
    count: usize,
    /// Two to the power of this waves have their words on a line.
    shift: u32,
}

/// Waves that have their words on a line, at most.
const TOGETHER: usize = 8;

#[repr(align(128))]
struct Line([Slot; TOGETHER]);

/// Two to the power of this waves of `count` have their words on a line, where so many threads are to have equal shares.
pub fn shift(count: usize, threads: usize) -> u32 {
    (count / threads.max(1)).clamp(1, TOGETHER).ilog2()
}

impl Slots {
    /// Words for so many threads.
    fn new(words: &[u64], threads: usize) -> Slots {
        let shift = shift(words.len(), threads);
        let slot = |&word: &u64| Slot {
            word: AtomicU64::new(word),
            puts: AtomicU64::new(0),
        };
        let nobody = pack(State::Held, NOBODY, Mark::new(0, 0));
        let line = |words: &[u64]| {
            Line(std::array::from_fn(|i| {
                slot(words.get(i).unwrap_or(&nobody))
            }))
        };
        Slots {
            lines: words.chunks(1 << shift).map(line).collect(),
            count: words.len(),
            shift,
        }
    }

    #[inline(always)]
    fn at(&self, index: usize) -> &Slot {
        &self.lines[index >> self.shift].0[index & ((1 << self.shift) - 1)]
    }

    fn iter(&self) -> impl Iterator<Item = &Slot> {
        (0..self.count).map(|index| self.at(index))
    }
}

/// The waves that a thread was the last one to run, a bit for each, as far as it knows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Own(u64);

impl Own {
    fn bit(index: usize) -> u64 {
        1u64.checked_shl(index as u32).unwrap_or(0)
    }

    fn add(&mut self, index: usize) {
        self.0 |= Own::bit(index);
    }

    fn remove(&mut self, index: usize) {
        self.0 &= !Own::bit(index);
    }

    fn has(self, index: usize) -> bool {
        self.0 & Own::bit(index) != 0
    }
}

const READY: u64 = 0;
const RUNNING: u64 = 1;
const BARRIER: u64 = 2;
const HELD: u64 = 3;
const GAVE_WAY: u64 = 4;
const AHEAD: u64 = 5;

/// Bits 7:0 are the kind, 15:8 the barrier's slot, 23:16 the thread that ran the wave last, 31:24 how far it has come
/// ([`Mark`]), 63:32 the phase.
fn pack(state: State, home: u8, mark: Mark) -> u64 {
    let rest = match state {
        State::Ready => READY,
        State::GaveWay => GAVE_WAY,
        State::Ahead => AHEAD,
        State::Running => RUNNING,
        State::Held => HELD,
        State::Barrier { slot, phase } => BARRIER | u64::from(slot) << 8 | u64::from(phase) << 32,
    };
    rest | u64::from(home) << 16 | u64::from(mark.0) << 24
}

/// How far a wave has come: the low bits of its interval, which is the number of the workgroup's barriers that it has passed
/// (or will have when it runs again), and how many turns it has had in it, counted to [`Mark::MOST`]. Of one that runs, it is
/// what was known when it was taken.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mark(u8);

impl Mark {
    /// A wave that has had so many turns runs freely: it may spin until another one, that waits for it, stores.
    const MOST: u8 = 3;

    fn new(interval: u32, turns: u8) -> Mark {
        Mark((interval as u8) << 2 | turns.min(Mark::MOST))
    }

    fn of(word: u64) -> Mark {
        Mark((word >> 24) as u8)
    }

    fn turns(self) -> u8 {
        self.0 & Mark::MOST
    }

    /// Intervals from `other`'s to its own: waves of a workgroup are never far from each other.
    fn intervals_since(self, other: Mark) -> i8 {
        ((self.0 >> 2).wrapping_sub(other.0 >> 2) << 2) as i8 >> 2
    }

    /// The mark after a turn that ends in an interval.
    fn after_turn(self, interval: u32) -> Mark {
        let same = self.0 >> 2 == (interval as u8) << 2 >> 2;
        Mark::new(interval, if same { self.turns() + 1 } else { 1 })
    }

    /// The mark of a wave that goes on from a barrier.
    fn past_barrier(self) -> Mark {
        Mark(self.0 & !Mark::MOST)
    }

    /// Whether a wave has yet to be let to come as far as one with the mark `other`.
    fn is_behind(self, other: Mark) -> bool {
        match self.intervals_since(other) {
            0 => self.turns() < other.turns(),
            since => since < 0,
        }
    }

    /// Whether it goes before one with the mark `other`, where both can.
    fn goes_before(self, other: Mark) -> bool {
        let free = |mark: Mark| mark.turns() == Mark::MOST;
        match (free(self), free(other)) {
            (false, false) => self.is_behind(other),
            (mine, theirs) => !mine && theirs,
        }
    }
}

fn state(word: u64) -> State {
    match word & 0xff {
        READY => State::Ready,
        GAVE_WAY => State::GaveWay,
        AHEAD => State::Ahead,
        RUNNING => State::Running,
        BARRIER => State::Barrier {
            slot: (word >> 8) as u8,
            phase: (word >> 32) as u32,
        },
        _ => State::Held,
    }
}

fn home(word: u64) -> u8 {
    (word >> 16) as u8
}

/// The home of a wave that no thread has run.
const NOBODY: u8 = u8::MAX;

impl Board {
    /// Waves in the given states, each with its interval and how many turns it has had in it, for so many threads.
    pub fn new(waves: impl IntoIterator<Item = (State, u32, u8)>, threads: usize) -> Board {
        let word = |(state, interval, turns)| pack(state, NOBODY, Mark::new(interval, turns));
        let words: Vec<u64> = waves.into_iter().map(word).collect();
        let runs = |&&word: &&u64| state(word) != State::Held;
        Board {
            fresh: AtomicU64::new(words.iter().filter(runs).count() as u64),
            slots: Slots::new(&words, threads),
            closed: AtomicBool::new(false),
        }
    }

    /// The wave behind which the thread with this number begins to look, the first one from the first wave on.
    pub fn start(&self, number: u8) -> usize {
        let count = self.slots.count.max(1);
        (usize::from(number) * (1 << self.slots.shift) + count - 1) % count
    }

    /// Looks for a wave for thread `me`, behind wave `last`, which is one of them. Waves that it ran before (`own`) go first,
    /// except those that gave way if not `faithful`. While `patient` it leaves waves that are ready to the threads that ran them
    /// before, and does not look at those of others while its own wait for a barrier. `reached` says whether a barrier has come
    /// to a phase.
    pub fn claim(
        &self,
        me: u8,
        last: usize,
        own: &mut Own,
        (faithful, patient): (bool, bool),
        reached: impl Fn(u8, u32) -> bool,
    ) -> Claim {
        let count = self.slots.count;
        let behind = |step: usize| match last + step {
            index if index >= count => index - count,
            index => index,
        };
        let (mut waits, known) = (false, *own);
        for index in (1..=count).map(behind).filter(|&index| known.has(index)) {
            let word = self.slots.at(index).word.load(Ordering::Acquire);
            match state(word) {
                _ if home(word) != me => own.remove(index),
                State::Barrier { slot, phase } if !reached(slot, phase) => waits = patient,
                State::Ready | State::Barrier { .. } => {
                    if self.take(index, word, me) {
                        return Claim::Wave(index);
                    }
                    own.remove(index);
                }
                State::Held => own.remove(index),
                // It goes on before or after those of others.
                State::GaveWay | State::Ahead | State::Running => {
                    waits = false;
                    break;
                }
            }
        }
        if waits && self.fresh.load(Ordering::Relaxed) == 0 {
            return Claim::Busy;
        }
        let claim = self.claim_any(me, (faithful, patient), (1..=count).map(behind), reached);
        if let Claim::Wave(index) = claim {
            own.add(index);
        }
        claim
    }

    /// Looks at all waves, in this order.
    fn claim_any(
        &self,
        me: u8,
        (faithful, patient): (bool, bool),
        order: impl Iterator<Item = usize>,
        reached: impl Fn(u8, u32) -> bool,
    ) -> Claim {
        let before = self.puts();
        let mut running = false;
        // The first that another thread may take, and of those that gave way the least far one of this thread and of any.
        let (mut ready_stranger, mut mine, mut any) = (None, None, None);
        let least = |best: Option<(usize, u64)>, index, word| match best {
            Some(best) if !Mark::of(word).goes_before(Mark::of(best.1)) => Some(best),
            _ => Some((index, word)),
        };
        for index in order {
            let word = self.slots.at(index).word.load(Ordering::Acquire);
            match state(word) {
                State::Barrier { slot, phase } if !reached(slot, phase) => {}
                State::Ready | State::Barrier { .. } if home(word) == me => {
                    if self.take(index, word, me) {
                        return Claim::Wave(index);
                    }
                    running = true;
                }
                State::Ready | State::Barrier { .. } => {
                    ready_stranger = ready_stranger.or(Some((index, word)));
                }
                State::GaveWay | State::Ahead => {
                    any = least(any, index, word);
                    if home(word) == me {
                        mine = least(mine, index, word);
                    }
                }
                State::Running => running = true,
                State::Held => {}
            }
        }
        let gave_way = match (mine, any) {
            (Some(mine), Some(any))
                if faithful && !Mark::of(any.1).goes_before(Mark::of(mine.1)) =>
            {
                Some(mine)
            }
            _ => any,
        };
        if let Some((index, word)) = ready_stranger.or(gave_way) {
            let theirs = ready_stranger.is_some() && home(word) != NOBODY;
            let waits = state(word) == State::Ahead && !self.have_come(index, word, reached);
            if !(waits || theirs && patient) && self.take(index, word, me) {
                return Claim::Wave(index);
            }
            return Claim::Busy;
        }
        // A wave that was put back meanwhile may have released others that were looked at before it.
        if running || self.puts() != before {
            Claim::Busy
        } else {
            Claim::Stuck
        }
    }

    /// Whether all waves that can go on have come as far as wave `index`, whose word is `word`. Waves never go back, so that
    /// this stays true; and the wave least far of all never waits, so that somebody goes on.
    fn have_come(&self, index: usize, word: u64, reached: impl Fn(u8, u32) -> bool) -> bool {
        let mark = Mark::of(word);
        let mut others = self.slots.iter().enumerate().filter(|&(i, _)| i != index);
        others.all(|(_, slot)| {
            let word = slot.word.load(Ordering::Acquire);
            let other = Mark::of(word);
            match state(word) {
                State::Barrier { slot, phase } => {
                    !reached(slot, phase) || !other.past_barrier().is_behind(mark)
                }
                State::Running => !other.is_behind(mark),
                State::Ready | State::GaveWay | State::Ahead => {
                    other.turns() == Mark::MOST || !other.is_behind(mark)
                }
                State::Held => true,
            }
        })
    }

    fn take(&self, index: usize, word: u64, me: u8) -> bool {
        let mark = match state(word) {
            State::Barrier { .. } => Mark::of(word).past_barrier(),
            _ => Mark::of(word),
        };
        let taken = self.slots.at(index).word.compare_exchange(
            word,
            pack(State::Running, me, mark),
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        if taken.is_ok() && home(word) == NOBODY {
            self.fresh.fetch_sub(1, Ordering::Relaxed);
        }
        taken.is_ok()
    }

    /// A wave that thread `me` runs comes to a stop in this interval at which it need not wait. That it has come so far is
    /// what others wait for.
    pub fn goes_on(&self, index: usize, me: u8, interval: u32) {
        let word = &self.slots.at(index).word;
        let mark = Mark::of(word.load(Ordering::Relaxed)).after_turn(interval);
        word.store(pack(State::Running, me, mark), Ordering::Release);
    }

    /// Thread `me` puts a wave back, which is in this interval now.
    pub fn put(&self, index: usize, me: u8, state: State, interval: u32) {
        let Slot { word, puts } = self.slots.at(index);
        // Nobody else writes them now. Whoever sees the count sees what the wave did.
        puts.store(puts.load(Ordering::Relaxed) + 1, Ordering::Release);
        let mark = Mark::of(word.load(Ordering::Relaxed)).after_turn(interval);
        word.store(pack(state, me, mark), Ordering::Release);
    }

    /// Waves that were put back since the beginning. Where two answers are the same, none was between them.
    pub fn puts(&self) -> u64 {
        let puts = |slot: &Slot| slot.puts.load(Ordering::Acquire);
        self.slots.iter().map(puts).sum()
    }

    /// Asks all threads to leave.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Whether to leave.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}
