//! All interleavings of crews with threads of the pool, up to a bound on preemptions.

mod threads {
    pub use loom::sync::atomic::AtomicUsize;
    pub use loom::sync::{Condvar, Mutex, MutexGuard};
    pub use loom::thread::Builder;
    pub use std::sync::atomic::Ordering;

    /// The model knows no time: a thread looks so many times.
    pub mod patience {
        const LOOKS: u32 = 2;

        #[derive(Default)]
        pub struct Patience {
            jobs: u32,
        }

        impl Patience {
            pub fn begins(&mut self) {
                self.jobs += 1;
            }

            pub fn ends(&mut self) -> bool {
                self.jobs > 0
            }

            pub fn look(&mut self, found: impl Fn() -> bool) {
                look_briefly(found);
            }
        }

        pub fn look_briefly(found: impl Fn() -> bool) {
            for _ in 0..LOOKS {
                if found() {
                    return;
                }
                loom::thread::yield_now();
            }
        }
    }
}

#[path = "crew.rs"]
#[allow(dead_code)] // What the dispatcher calls and the model does not.
mod crew;

use crew::Pool;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering};

/// What a crew's work touches, in the frame of its leader.
struct Frame {
    /// Members that came.
    came: AtomicUsize,
    /// One for each member, and the last for the leader.
    places: [UnsafeCell<u32>; 3],
}

// SAFETY: loom checks who is at the places.
unsafe impl Sync for Frame {}

impl Frame {
    /// What a member does.
    fn work(&self) {
        let place = self.came.fetch_add(1, Ordering::Relaxed);
        // SAFETY: loom checks that nobody else is at it.
        self.places[place].with_mut(|p| unsafe { *p += 1 });
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// A crew of its own whose members write to the leader's frame; behind `with_crew` the leader has it to itself.
fn crew_of(pool: &Pool, members: usize) {
    let frame = Frame {
        came: AtomicUsize::new(0),
        places: std::array::from_fn(|_| UnsafeCell::new(0)),
    };
    let work = || frame.work();
    pool.with_crew(&work, |crew| crew.recruiter().recruit(members));
    let came = frame.came.load(Ordering::Relaxed);
    assert!(came <= members, "{came} came");
    for (place, cell) in frame.places.iter().enumerate() {
        // A member that still wrote, or wrote without being waited for, would be an error for loom.
        // SAFETY: as above.
        let written = cell.with_mut(|p| unsafe { *p });
        assert_eq!(written, u32::from(place < came));
    }
}

/// Whoever comes in time is waited for, and nobody comes behind: the leader's frame is its own again. Threads end with
/// the pool, or loom would find those that wait for ever.
#[test]
fn a_crew_ends_with_its_work() {
    check(|| {
        let pool = Pool::default();
        crew_of(&pool, 1);
    });
}

#[test]
fn several_members_of_one_crew() {
    check(|| {
        let pool = Pool::default();
        crew_of(&pool, 2);
    });
}

/// A thread of the first crew may come to the second, never with the first one's work.
#[test]
fn one_crew_after_another() {
    check(|| {
        let pool = Pool::default();
        crew_of(&pool, 1);
        crew_of(&pool, 1);
    });
}
