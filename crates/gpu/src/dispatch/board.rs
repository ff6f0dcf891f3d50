//! Which wave of a workgroup which thread runs: one atomic word per wave. Threads take waves that are ready, those they
//! ran before first, and put them back with what they wait for. Nobody is woken: a thread without a wave looks again.

use super::atomics::{AtomicBool, AtomicU64, Ordering};

/// What a wave is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It can run.
    Ready,
    /// It can run once those that are ready have been taken: it has given way to them.
    GaveWay,
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
    slots: Vec<AtomicU64>,
    /// Counts waves that were put back; grows before the wave's word changes.
    version: AtomicU64,
    closed: AtomicBool,
}

const READY: u64 = 0;
const RUNNING: u64 = 1;
const BARRIER: u64 = 2;
const HELD: u64 = 3;
const GAVE_WAY: u64 = 4;

/// Bits 7:0 are the kind, 15:8 the barrier's slot, 23:16 the thread that ran the wave last, 63:32 the phase.
fn pack(state: State, home: u8) -> u64 {
    let rest = match state {
        State::Ready => READY,
        State::GaveWay => GAVE_WAY,
        State::Running => RUNNING,
        State::Held => HELD,
        State::Barrier { slot, phase } => BARRIER | u64::from(slot) << 8 | u64::from(phase) << 32,
    };
    rest | u64::from(home) << 16
}

fn state(word: u64) -> State {
    match word & 0xff {
        READY => State::Ready,
        GAVE_WAY => State::GaveWay,
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
    /// Waves in the given states.
    pub fn new(states: impl IntoIterator<Item = State>) -> Board {
        Board {
            slots: states
                .into_iter()
                .map(|state| AtomicU64::new(pack(state, NOBODY)))
                .collect(),
            version: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        }
    }

    /// The last wave: whoever has run none yet looks behind it.
    pub fn last(&self) -> usize {
        self.slots.len().saturating_sub(1)
    }

    /// Looks for a wave for thread `me`, behind wave `last`. Waves that it ran before go first, except those that gave way if
    /// not `faithful`. While `patient` it leaves waves that are ready to the threads that ran them before.
    /// `reached` says whether a barrier has come to a phase.
    pub fn claim(
        &self,
        me: u8,
        last: usize,
        (faithful, patient): (bool, bool),
        reached: impl Fn(u8, u32) -> bool,
    ) -> Claim {
        let version = self.version.load(Ordering::Acquire);
        let count = self.slots.len();
        let mut running = false;
        // The first of each kind: another thread's that is ready, and of those that gave way one of this thread and any.
        let (mut ready_stranger, mut mine, mut any) = (None, None, None);
        for step in 1..=count {
            let index = (last + step) % count;
            let word = self.slots[index].load(Ordering::Acquire);
            let found = Some((index, word));
            match state(word) {
                State::Barrier { slot, phase } if !reached(slot, phase) => {}
                State::Ready | State::Barrier { .. } if home(word) == me => {
                    if self.take(index, word, me) {
                        return Claim::Wave(index);
                    }
                    running = true;
                }
                State::Ready | State::Barrier { .. } => ready_stranger = ready_stranger.or(found),
                State::GaveWay if home(word) == me => {
                    (mine, any) = (mine.or(found), any.or(found));
                }
                State::GaveWay => any = any.or(found),
                State::Running => running = true,
                State::Held => {}
            }
        }
        let gave_way = if faithful { mine.or(any) } else { any };
        if let Some((index, word)) = ready_stranger.or(gave_way) {
            let theirs = ready_stranger.is_some() && home(word) != NOBODY;
            if !(theirs && patient) && self.take(index, word, me) {
                return Claim::Wave(index);
            }
            return Claim::Busy;
        }
        // A wave that was put back meanwhile may have released others that were looked at before it.
        if running || self.version.load(Ordering::Acquire) != version {
            Claim::Busy
        } else {
            Claim::Stuck
        }
    }

    fn take(&self, index: usize, word: u64, me: u8) -> bool {
        self.slots[index]
            .compare_exchange(
                word,
                pack(State::Running, me),
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .is_ok()
    }

    /// Thread `me` puts a wave back.
    pub fn put(&self, index: usize, me: u8, state: State) {
        self.version.fetch_add(1, Ordering::AcqRel);
        self.slots[index].store(pack(state, me), Ordering::Release);
    }

    /// Waves that were put back since the beginning.
    pub fn puts(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
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
