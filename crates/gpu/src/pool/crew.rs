//! Worker threads that outlive a dispatch: starting a thread takes longer than many kernels run.
//! The pool grows to what is asked of it at one time, so that dispatches of several queues never wait for each other.
//! A thread that has done its job watches for the next one for a while before it parks (`patience.rs`).

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, PoisonError};

use super::threads::patience::{Patience, look_briefly};
use super::threads::{AtomicUsize, Builder, Condvar, Mutex, MutexGuard, Ordering};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Threads that wait for work. Dropping the pool lets them end.
#[derive(Default)]
pub struct Pool {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Signalled when there is a job for a thread that is parked, or the pool closes.
    work: Condvar,
    /// Jobs in the queue, and one more when the pool is closed, for those that watch: changes with the queue locked.
    posted: AtomicUsize,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Threads that are parked.
    parked: usize,
    /// Threads that watch, each sure to look into the queue before it parks.
    watching: usize,
    closed: bool,
}

impl Shared {
    /// Says how many jobs there are, when that has changed.
    fn post(&self, queue: &Queue) {
        let posted = queue.jobs.len() + usize::from(queue.closed);
        self.posted.store(posted, Ordering::Relaxed);
    }
}

/// One thread's part of a crew's work.
struct Job {
    crew: Arc<CrewState>,
    work: Work,
}

/// The function that the members of a crew run.
#[derive(Clone, Copy)]
struct Work(*const (dyn Fn() + Sync));

// SAFETY: the function is `Sync`, so any thread may call it; `CrewState` keeps it alive for as long as one does.
unsafe impl Send for Work {}
// SAFETY: as above; a shared pointer is as good as a copy.
unsafe impl Sync for Work {}

#[derive(Default)]
struct CrewState {
    members: Mutex<Members>,
    /// Threads that run the function now; changes with `members` locked.
    running: AtomicUsize,
    /// Signalled when a member has done its part.
    left: Condvar,
}

#[derive(Default)]
struct Members {
    /// Nobody may begin any more.
    closed: bool,
    panic: Option<Box<dyn Any + Send>>,
}

/// Those who do one piece of work together: the caller, and the threads it recruits.
pub struct Crew<'p> {
    recruiter: Recruiter,
    pool: std::marker::PhantomData<&'p Pool>,
}

/// Brings threads to a crew. Once the crew has done its work nobody comes any more.
#[derive(Clone)]
pub struct Recruiter {
    shared: Arc<Shared>,
    state: Arc<CrewState>,
    work: Work,
}

impl Pool {
    /// Calls `lead`, which may recruit threads that call `work`; returns when all of them have returned.
    ///
    /// # Panics
    /// If `lead` or `work` did, in any thread.
    pub fn with_crew<R>(&self, work: &(dyn Fn() + Sync), lead: impl FnOnce(&Crew<'_>) -> R) -> R {
        // SAFETY: only the lifetime changes. The pointer is followed only by members that began before the
        // crew closed, and `Crew`'s drop closes it and waits for them before `work`'s borrow ends.
        let work = unsafe {
            std::mem::transmute::<*const (dyn Fn() + Sync + '_), *const (dyn Fn() + Sync + 'static)>(
                work,
            )
        };
        let crew = Crew {
            recruiter: Recruiter {
                shared: self.shared.clone(),
                state: Arc::default(),
                work: Work(work),
            },
            pool: std::marker::PhantomData,
        };
        let result = lead(&crew);
        let state = crew.recruiter.state.clone();
        drop(crew);
        let panic = lock(&state.members).panic.take();
        match panic {
            Some(panic) => resume_unwind(panic),
            None => result,
        }
    }
}

impl Crew<'_> {
    /// What brings threads, for any thread of the crew.
    pub fn recruiter(&self) -> Recruiter {
        self.recruiter.clone()
    }
}

impl Recruiter {
    /// Asks `count` more threads to call the work. Those that do not come in time are not waited for.
    pub fn recruit(&self, count: usize) {
        let shared = &self.shared;
        let mut queue = lock(&shared.queue);
        // Those that watch take the first jobs without being woken.
        let unwatched = |queue: &Queue| queue.jobs.len().saturating_sub(queue.watching);
        let before = unwatched(&queue);
        for _ in 0..count {
            queue.jobs.push_back(Job {
                crew: self.state.clone(),
                work: self.work,
            });
        }
        shared.post(&queue);
        let for_parked = unwatched(&queue) - before;
        let missing = unwatched(&queue).saturating_sub(queue.parked);
        drop(queue);
        for _ in 0..missing {
            let shared = shared.clone();
            // Without a thread the caller does the work alone.
            let _ = Builder::new()
                .name("rocjitsu-wave".to_owned())
                .spawn(move || serve(&shared));
        }
        match for_parked {
            0 => {}
            1 => shared.work.notify_one(),
            _ => shared.work.notify_all(),
        }
    }
}

impl Drop for Crew<'_> {
    fn drop(&mut self) {
        let Recruiter { shared, state, .. } = &self.recruiter;
        let mut queue = lock(&shared.queue);
        queue.jobs.retain(|job| !Arc::ptr_eq(&job.crew, state));
        shared.post(&queue);
        drop(queue);
        lock(&state.members).closed = true;
        look_briefly(|| state.running.load(Ordering::Relaxed) == 0);
        let mut members = lock(&state.members);
        while state.running.load(Ordering::Relaxed) > 0 {
            members = state
                .left
                .wait(members)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut queue = lock(&self.shared.queue);
        queue.closed = true;
        self.shared.post(&queue);
        drop(queue);
        self.shared.work.notify_all();
    }
}

/// A thread of the pool.
fn serve(shared: &Shared) {
    block_signals();
    let mut patience = Patience::default();
    let mut watches = false;
    let mut queue = lock(&shared.queue);
    loop {
        if let Some(job) = queue.jobs.pop_front() {
            shared.post(&queue);
            drop(queue);
            patience.begins();
            take_part(&job);
            watches = patience.ends();
            queue = lock(&shared.queue);
        } else if queue.closed {
            return;
        } else if std::mem::take(&mut watches) {
            queue.watching += 1;
            drop(queue);
            patience.look(|| shared.posted.load(Ordering::Relaxed) > 0);
            queue = lock(&shared.queue);
            queue.watching -= 1;
        } else {
            queue.parked += 1;
            queue = shared
                .work
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
            queue.parked -= 1;
        }
    }
}

fn take_part(job: &Job) {
    {
        let members = lock(&job.crew.members);
        if members.closed {
            return;
        }
        job.crew.running.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the crew was open when this thread joined it, so the function lives until `running` falls.
    let work = unsafe { &*job.work.0 };
    let outcome = catch_unwind(AssertUnwindSafe(work));
    let mut members = lock(&job.crew.members);
    job.crew.running.fetch_sub(1, Ordering::Relaxed);
    if let Err(panic) = outcome {
        members.panic.get_or_insert(panic);
    }
    drop(members);
    job.crew.left.notify_all();
}

/// The program's signal handlers run on its own threads.
pub fn block_signals() {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` initialises the set it is given; blocking signals affects this thread only.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut());
    }
}
