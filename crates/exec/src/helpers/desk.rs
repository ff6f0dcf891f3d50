//! Where a wave lays down jobs that others may take: one number says how many it has laid down, one how many were taken, both
//! since ever, and a word for each job whether it is done. Whoever takes a job acquires what the wave wrote before it laid
//! that down; the wave, when it has seen that it is done, acquires what was written for it.
//!
//! Laying down is a plain store, which the wave does not wait for: helpers look at the number all the time.

use super::sync::{AtomicU32, JOBS, Ordering, UnsafeCell, pause};

/// Places for jobs: a power of two, so that numbers may begin anew behind the last.
const PLACES: usize = (JOBS + 1).next_power_of_two();

/// Values of [`Place::state`].
const OPEN: u32 = 0;
const DONE: u32 = 1;
const FAILED: u32 = 2;

/// A number on cache lines of its own.
#[repr(align(128))]
struct Number(AtomicU32);

/// Jobs of one wave at a time, its owner's.
pub struct Desk<T> {
    /// Jobs that were laid down; only the owner changes it.
    put: Number,
    /// Jobs that were taken, the oldest first.
    taken: Number,
    /// Of the jobs that were laid down, those that the owner knows to be done; only the owner looks at it.
    over: Number,
    places: [Place<T>; PLACES],
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
        let number = || Number(AtomicU32::new(0));
        Desk {
            put: number(),
            taken: number(),
            over: number(),
            places: std::array::from_fn(|_| Place {
                state: AtomicU32::new(OPEN),
                job: UnsafeCell::new(None),
            }),
        }
    }
}

impl<T: Copy> Desk<T> {
    fn place(&self, number: u32) -> &Place<T> {
        &self.places[number as usize % PLACES]
    }

    /// Lays a job down; gives it back if there is no place left. For the owner.
    pub fn put(&self, job: T) -> Result<(), T> {
        let number = self.put.0.load(Ordering::Relaxed);
        if number.wrapping_sub(self.over.0.load(Ordering::Relaxed)) >= JOBS as u32 {
            return Err(job);
        }
        let cell = &self.place(number).job;
        // SAFETY: nobody takes a job that has not been counted, and the one that was here before is done (`drain`).
        cell.with_mut(|to| unsafe { *to = Some(job) });
        self.put.0.store(number.wrapping_add(1), Ordering::Release);
        Ok(())
    }

    /// Takes the next job and has it done by `work`, which says whether it could. False if there is none.
    pub fn take(&self, work: &mut impl FnMut(T) -> bool) -> bool {
        let mut number = self.taken.0.load(Ordering::Relaxed);
        loop {
            let left = self
                .put
                .0
                .load(Ordering::Acquire)
                .wrapping_sub(number)
                .cast_signed();
            if left <= 0 {
                return false;
            }
            let relaxed = Ordering::Relaxed;
            let next = number.wrapping_add(1);
            match self
                .taken
                .0
                .compare_exchange(number, next, relaxed, relaxed)
            {
                Ok(_) => break,
                Err(other) => number = other,
            }
        }
        let place = self.place(number);
        // SAFETY: it is this thread's: each number is taken once.
        let job = place.job.with(|from| unsafe { *from });
        let done = job.is_some_and(work);
        let state = if done { DONE } else { FAILED };
        place.state.store(state, Ordering::Release);
        true
    }

    /// Does what nobody has taken, unless `leave` says that somebody will, and waits for the rest. Returns how many jobs there
    /// were and how many of them others did, or `None` if one could not be done. For the owner.
    pub fn drain(
        &self,
        leave: &mut impl FnMut() -> bool,
        work: &mut impl FnMut(T) -> bool,
    ) -> Option<(u32, u32)> {
        let end = self.put.0.load(Ordering::Relaxed);
        let mut own = 0;
        let mut looks = 0;
        while self.taken.0.load(Ordering::Relaxed) != end {
            if leave() {
                pause(&mut looks);
            } else {
                own += u32::from(self.take(work));
            }
        }
        let (mut good, mut count) = (true, 0);
        let mut number = self.over.0.load(Ordering::Relaxed);
        while number != end {
            let place = self.place(number);
            looks = 0;
            let mut state = place.state.load(Ordering::Acquire);
            while state == OPEN {
                pause(&mut looks);
                state = place.state.load(Ordering::Acquire);
            }
            good &= state == DONE;
            place.state.store(OPEN, Ordering::Relaxed);
            number = number.wrapping_add(1);
            count += 1;
        }
        self.over.0.store(end, Ordering::Relaxed);
        good.then_some((count, count - own))
    }
}
