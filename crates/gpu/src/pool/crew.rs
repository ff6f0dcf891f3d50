//! Worker threads that outlive a dispatch: starting a thread takes longer than many kernels run.
//! The pool grows to what is asked of it at one time, so that dispatches of several queues never wait for each other.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, PoisonError};

use super::threads::{Builder, Condvar, Mutex, MutexGuard};

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
    /// Signalled when there is a job or the pool closes.
    work: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Threads that wait.
    idle: usize,
    closed: bool,
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
    /// Signalled when a member has done its part.
    left: Condvar,
}

#[derive(Default)]
struct Members {
    /// Nobody may begin any more.
    closed: bool,
    /// Threads that run the function now.
    running: usize,
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
        for _ in 0..count {
            queue.jobs.push_back(Job {
                crew: self.state.clone(),
                work: self.work,
            });
        }
        let missing = queue.jobs.len().saturating_sub(queue.idle);
        drop(queue);
        for _ in 0..missing {
            let shared = shared.clone();
            // Without a thread the caller does the work alone.
            let _ = Builder::new()
                .name("rocjitsu-wave".to_owned())
                .spawn(move || serve(&shared));
        }
        match count {
            1 => shared.work.notify_one(),
            _ => shared.work.notify_all(),
        }
    }
}

impl Drop for Crew<'_> {
    fn drop(&mut self) {
        let Recruiter { shared, state, .. } = &self.recruiter;
        lock(&shared.queue)
            .jobs
            .retain(|job| !Arc::ptr_eq(&job.crew, state));
        let mut members = lock(&state.members);
        members.closed = true;
        while members.running > 0 {
            members = state
                .left
                .wait(members)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        lock(&self.shared.queue).closed = true;
        self.shared.work.notify_all();
    }
}

/// A thread of the pool.
fn serve(shared: &Shared) {
    block_signals();
    let mut queue = lock(&shared.queue);
    loop {
        if let Some(job) = queue.jobs.pop_front() {
            drop(queue);
            take_part(&job);
            queue = lock(&shared.queue);
        } else if queue.closed {
            return;
        } else {
            queue.idle += 1;
            queue = shared
                .work
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }
}

fn take_part(job: &Job) {
    {
        let mut members = lock(&job.crew.members);
        if members.closed {
            return;
        }
        members.running += 1;
    }
    // SAFETY: the crew was open when this thread joined it, so the function lives until `running` falls.
    let work = unsafe { &*job.work.0 };
    let outcome = catch_unwind(AssertUnwindSafe(work));
    let mut members = lock(&job.crew.members);
    members.running -= 1;
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
