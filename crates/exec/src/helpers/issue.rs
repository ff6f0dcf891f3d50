//! The wave's side: which of its matrix instructions go to the desk, and when it waits for them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::job::Job;
use super::plan::{Plan, Seat};
use super::{Helpers, Policy};
use crate::matrix::Details;
use crate::record::{Flow, Record};
use crate::wave::Cx;

/// How often helpers are called, at most: those that were called may not have come yet.
const CALL: Duration = Duration::from_micros(200);

/// How often a wave looks whether a helper takes what it would rather not do itself; half as often after each time that none
/// did, since threads may wait long for a core.
const PATIENCE: u32 = 1 << 16;

/// What a worker gives matrix instructions away by: a desk of its own, and what it knows of the present window.
pub struct Issuer {
    helpers: Arc<Helpers>,
    desk: usize,
    /// Whether helpers may take part now.
    allowed: bool,
    /// Whether they take part in the windows of the present block.
    active: bool,
    /// Jobs may be under way.
    out: bool,
    /// The execution of a block that is being measured, and whether helpers take part.
    measured: Option<(Arc<Plan>, Instant, bool)>,
    called: Option<Instant>,
    /// See [`PATIENCE`].
    patience: u32,
    /// Jobs that others did.
    helped: u64,
}

/// Executes a job; false if it panicked.
pub fn perform(job: Job) -> bool {
    // SAFETY: it comes from a desk, whose wave waits for it; the worker that laid it down checked that the host supports its
    // back end.
    catch_unwind(AssertUnwindSafe(|| unsafe { job.execute() })).is_ok()
}

impl Issuer {
    /// A desk, if one is free and there are helpers in this process.
    pub fn new(helpers: &Arc<Helpers>) -> Option<Issuer> {
        let desk = helpers.open_desk()?;
        Some(Issuer {
            helpers: helpers.clone(),
            desk,
            allowed: false,
            active: false,
            out: false,
            measured: None,
            called: None,
            patience: PATIENCE,
            helped: 0,
        })
    }

    /// Says whether cores are free for helpers. Those that are forced take part anyway.
    #[inline]
    pub fn allow(&mut self, free: bool) {
        self.allowed = free || self.helpers.policy == Policy::Always;
    }

    /// Matrix instructions that helpers executed.
    pub fn helped(&self) -> u64 {
        self.helped
    }

    fn call(&mut self) {
        if self.called.is_none_or(|at| at.elapsed() > CALL) {
            self.called = Some(Instant::now());
            self.helpers.call();
        }
    }

    /// Whether a helper is there that looks for jobs; calls one if not.
    fn have_company(&mut self) -> bool {
        let company = self.helpers.awake.load(Relaxed) > 0;
        if !company {
            self.call();
        }
        company
    }

    /// A block with windows begins to execute: decides whether helpers take part in it.
    fn begins(&mut self, plan: &Arc<Plan>) {
        let measured = self.measured.take();
        if !self.allowed {
            self.active = false;
            return;
        }
        if self.helpers.policy == Policy::Always {
            self.active = true;
            return;
        }
        if let Some((plan, start, helped)) = measured {
            plan.hears(start.elapsed(), helped);
        }
        match plan.next() {
            Some(helped) => self.active = helped && self.have_company(),
            None => {
                let helped = plan.measures_helped();
                self.active = helped && self.have_company();
                if self.active == helped {
                    self.measured = Some((plan.clone(), Instant::now(), helped));
                }
            }
        }
    }

    /// The turn of a wave ends: what is under way is done before anybody looks at its registers.
    pub fn ends_turn(&mut self) {
        self.drain();
        self.active = false;
        self.measured = None;
    }

    /// Waits for all jobs, and does those that nobody has taken.
    fn drain(&mut self) {
        if !std::mem::take(&mut self.out) {
            return;
        }
        let helpers = &*self.helpers;
        let mut looks = 0;
        let leave = &mut || {
            looks += 1;
            helpers.policy == Policy::Always && looks < self.patience && helpers.surely_come()
        };
        let done = helpers.desks[self.desk].drain(leave, &mut perform);
        if looks >= self.patience {
            self.patience /= 2;
        }
        match done {
            Some((_, helped)) => self.helped += u64::from(helped),
            // The panic was told where it happened.
            None if std::thread::panicking() => {}
            None => panic!("a matrix instruction panicked on a helper thread"),
        }
    }

    fn issue(
        &mut self,
        cx: &mut Cx<'_, '_>,
        record: &Record,
        details: &Details,
        seat: &Seat,
    ) -> Flow {
        if seat.opens {
            self.begins(&seat.plan);
        }
        if !self.active {
            return (record.in_order)(cx, record);
        }
        if !seat.last
            && let Some(job) = Job::new(cx, record, details)
            && self.helpers.desks[self.desk].put(job).is_ok()
        {
            self.out = true;
            return Flow::Next;
        }
        let flow = (record.in_order)(cx, record);
        if seat.last {
            self.drain();
        }
        flow
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.ends_turn();
        self.helpers.close_desk(self.desk);
    }
}

/// Executes a matrix instruction of a window, or has it executed.
pub fn issue(cx: &mut Cx<'_, '_>, record: &Record) -> Flow {
    let seated = record.matrix.as_deref().and_then(|details| {
        let seat = details.seat.as_ref()?;
        Some((details, seat))
    });
    let (Some((details, seat)), Some(mut issuer)) = (seated, cx.unit.issuer.take()) else {
        return (record.in_order)(cx, record);
    };
    let flow = issuer.issue(cx, record, details, seat);
    cx.unit.issuer = Some(issuer);
    flow
}

/// The turn of a wave. When it is over, even by a panic, no matrix instruction is under way.
pub struct Turn<'t, 'c, 'a>(pub &'t mut Cx<'c, 'a>);

impl Drop for Turn<'_, '_, '_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(issuer) = &mut self.0.unit.issuer {
            issuer.ends_turn();
        }
    }
}
