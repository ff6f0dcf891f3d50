//! How long a thread of the pool looks for its next job before it parks: waking it takes 20 to 50 µs, which many
//! dispatches last no longer than.

use std::hint::spin_loop;
use std::time::{Duration, Instant};

/// The longest look, some times what waking takes.
const MOST: Duration = Duration::from_micros(200);
/// Looks in vain after which a thread parks at once, until jobs follow each other quickly again.
const VAIN: u32 = 2;
/// A thread that offered its processor and got it back later than this shares it with somebody.
const LATE: Duration = Duration::from_micros(10);
/// Jobs for which it parks at once after that.
const LOADED: u32 = 64;
/// Looks until the processor is offered to others.
const LOOKS: u32 = 32;
/// How long the leader of a crew looks for the end of its members: about what waking it takes.
const BRIEF: Duration = Duration::from_micros(50);

/// What a thread of the pool knows of the jobs that it had.
#[derive(Debug, Default)]
pub struct Patience {
    began: Option<Instant>,
    ended: Option<Instant>,
    /// Looks in vain since jobs followed each other quickly.
    vain: u32,
    /// Jobs until it looks again after it had to share its processor.
    loaded: u32,
}

impl Patience {
    /// A job begins.
    pub fn begins(&mut self) {
        let now = Instant::now();
        if self.ended.is_some_and(|ended| now - ended < MOST) {
            self.vain = 0;
        }
        self.began = Some(now);
    }

    /// It has ended. Returns whether to look for another one.
    pub fn ends(&mut self) -> bool {
        self.ended = Some(Instant::now());
        if self.loaded > 0 {
            self.loaded -= 1;
            return false;
        }
        self.vain < VAIN
    }

    /// Looks until `found` for as long as the last job took, some time at most, or as long as nobody else wants the processor.
    pub fn look(&mut self, found: impl Fn() -> bool) {
        let Some((began, ended)) = self.began.zip(self.ended) else {
            return;
        };
        match look(MOST.min(ended - began), found) {
            Looked::Found => {}
            Looked::Long => self.vain += 1,
            Looked::Late => self.loaded = LOADED,
        }
    }
}

/// Looks for a short while whether a crew's members have left.
pub fn look_briefly(left: impl Fn() -> bool) {
    look(BRIEF, left);
}

/// What a look came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looked {
    Found,
    /// Nothing in all that time.
    Long,
    /// Somebody else needs the processor.
    Late,
}

fn look(limit: Duration, found: impl Fn() -> bool) -> Looked {
    let start = Instant::now();
    loop {
        for _ in 0..LOOKS {
            if found() {
                return Looked::Found;
            }
            spin_loop();
        }
        let offered = Instant::now();
        if offered - start > limit {
            return Looked::Long;
        }
        std::thread::yield_now();
        if offered.elapsed() > LATE {
            return Looked::Late;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job that took as long, after a pause.
    fn job(patience: &mut Patience, pause: Duration, took: Duration) -> bool {
        let now = Instant::now();
        let ended = patience.ended.map(|_| now - pause);
        patience.ended = ended;
        patience.begins();
        patience.began = Some(now - took);
        patience.ends()
    }

    #[test]
    fn a_thread_looks_while_jobs_follow_each_other_quickly() {
        let mut patience = Patience::default();
        let (short, long) = (Duration::ZERO, 1000 * MOST);
        for _ in 0..10 {
            assert!(job(&mut patience, short, long));
            patience.look(|| true);
            assert_eq!(patience.vain, 0);
        }
        patience.vain = VAIN;
        assert!(
            !job(&mut patience, long, long),
            "the last looks were in vain"
        );
        assert!(job(&mut patience, short, long), "they are quick again");
    }

    #[test]
    fn a_look_ends_with_the_time_that_the_job_took() {
        let mut patience = Patience::default();
        job(&mut patience, Duration::ZERO, Duration::ZERO);
        let looks = std::cell::Cell::new(0u32);
        patience.look(|| {
            looks.set(looks.get() + 1);
            false
        });
        assert!(looks.get() >= 1, "it looks once in any case");
        assert!(patience.vain == 1 || patience.loaded > 0);
    }

    #[test]
    fn who_shares_a_processor_parks_for_some_jobs() {
        let mut patience = Patience {
            loaded: LOADED,
            ..Patience::default()
        };
        let looked = (0..=LOADED).map(|_| job(&mut patience, Duration::ZERO, MOST));
        let looked: Vec<bool> = looked.collect();
        assert_eq!(looked.iter().filter(|&&looks| looks).count(), 1);
        assert_eq!(looked.last(), Some(&true));
    }
}
