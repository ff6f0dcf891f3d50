//! Where a wave lays down jobs that others may take: one atomic word says how many there are and how many are taken, one
//! word for each job whether it is done. Whoever takes a job acquires what the wave wrote before it laid that down; the
//! wave, when it has seen that it is done, acquires what was written for it.

use super::sync::{AtomicU32, Ordering, UnsafeCell, pause};

/// The most jobs that a window leaves to others.
pub const JOBS: usize = 15;

/// In [`Desk::word`], one job that was taken; below are those that were laid down.
const TAKEN: u32 = 1 << 16;

/// Values of [`Place::state`].
const OPEN: u32 = 0;
const DONE: u32 = 1;
const FAILED: u32 = 2;

/// Jobs of one wave at a time, its owner's.
#[repr(align(128))]
pub struct Desk<T> {
    word: AtomicU32,
    places: [Place<T>; JOBS],
}

/// A job, on cache lines of its own.
#[repr(align(128))]
struct Place<T> {
    state: AtomicU32,
    job: UnsafeCell<Option<T>>,
}

// SAFETY: a job is written by the owner while nobody else can take it, and read by the one who took it.
unsafe impl<T: Send> Sync for Desk<T> {}

impl<T: Copy> Default for Desk<T> {
    fn default() -> Desk<T> {
        Desk {
            word: AtomicU32::new(0),
            places: std::array::from_fn(|_| Place {
                state: AtomicU32::new(OPEN),
                job: UnsafeCell::new(None),
            }),
        }
    }
}

impl<T: Copy> Desk<T> {
    /// Lays a job down; gives it back if there is no place left. For the owner.
    pub fn put(&self, job: T) -> Result<(), T> {
        // Only the owner changes the number of jobs.
        let count = self.word.load(Ordering::Relaxed) % TAKEN;
        let Some(place) = self.places.get(count as usize) else {
            return Err(job);
        };
        // SAFETY: nobody takes a job that has not been counted, and those who took the one that was here before have
        // done it (`drain`).
        place.job.with_mut(|to| unsafe { *to = Some(job) });
        self.word.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Takes the next job and has it done by `work`, which says whether it could. False if there is none.
    pub fn take(&self, work: &mut impl FnMut(T) -> bool) -> bool {
        let next = |word: u32| (word / TAKEN < word % TAKEN).then(|| word + TAKEN);
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        let Ok(word) = self.word.fetch_update(acquire, relaxed, next) else {
            return false;
        };
        let place = &self.places[(word / TAKEN) as usize];
        // SAFETY: it is this thread's: the count above was taken once for each job.
        let job = place.job.with(|from| unsafe { *from });
        let done = job.is_some_and(work);
        let state = if done { DONE } else { FAILED };
        place.state.store(state, Ordering::Release);
        true
    }

    /// Does what nobody has taken, unless `leave` says that somebody will, and waits for the rest. Returns how many jobs there were
    /// and how many of them others did, or `None` if one could not be done. For the owner.
    pub fn drain(
        &self,
        leave: &mut impl FnMut() -> bool,
        work: &mut impl FnMut(T) -> bool,
    ) -> Option<(u32, u32)> {
        let count = self.word.load(Ordering::Relaxed) % TAKEN;
        let mut own = 0;
        let mut looks = 0;
        while self.word.load(Ordering::Relaxed) / TAKEN < count {
            if leave() {
                pause(&mut looks);
            } else {
                own += u32::from(self.take(work));
            }
        }
        let mut good = true;
        for place in self.places.iter().take(count as usize) {
            looks = 0;
            let mut state = place.state.load(Ordering::Acquire);
            while state == OPEN {
                pause(&mut looks);
                state = place.state.load(Ordering::Acquire);
            }
            good &= state == DONE;
            place.state.store(OPEN, Ordering::Relaxed);
        }
        // All that were taken are done, and none is left to be taken. Whoever takes one from now on has seen a later `put`.
        self.word.store(0, Ordering::Relaxed);
        good.then_some((count, count - own))
    }
}
