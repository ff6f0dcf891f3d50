//! Dispatches: a kernel over a grid, run by worker threads to its end.
//! `launch` sets waves up, `worker` schedules them, `spread` and `team` give the waves of one workgroup to several threads,
//! `scratch` gives them private memory, `suspend` stops them and goes on.

mod board;
mod claims;
mod environment;
mod error;
mod image;
mod launch;
#[cfg(test)]
#[allow(clippy::duplicate_mod)] // It has the board over loom's atomics.
mod model;
mod origin;
mod pause;
mod round;
mod scratch;
mod slice;
mod spin;
mod spread;
mod stall;
mod suspend;
mod team;
mod watch;
mod worker;

mod atomics {
    pub use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
}

pub(crate) use environment::FloatEnvironment;
pub use error::DispatchError;
pub use image::{Image, RestoreError};
pub use pause::{Pause, Standing};
pub use suspend::{
    At, Breakpoint, Outcome, Stops, Suspended, Watchpoint, WaveMut, Who, Why, Workgroup,
};

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use rocjitsu_exec::code::CodeCache;
use rocjitsu_exec::error::{Cause, Fault};
pub use rocjitsu_exec::forms::{Form, Tally};
use rocjitsu_exec::helpers::Issuer;
pub use rocjitsu_exec::helpers::Policy as HelperPolicy;
pub use rocjitsu_exec::jit;
use rocjitsu_exec::memory::{AddressSpace, MemoryPort};
use rocjitsu_exec::record::Class;
pub use rocjitsu_exec::record::Exactness;
use rocjitsu_exec::run::Counts;
use rocjitsu_exec::step::Stepper;
use rocjitsu_exec::wave::Wave;
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;
use rocjitsu_observe::{Begin, End, Observer};

use crate::code_object::KernelDescriptor;
use crate::helpers;
use crate::memory::lost::Lost;
use crate::memory::{AccessFault, Memory};
use crate::pool::{Pool, Recruiter};
use scratch::Regions;
use suspend::{Left, Progress};
use worker::Cluster;

/// Scratch bytes that a wave can have: WAVESIZE of TMPRING_SIZE (13 bits of 1 KiB on gfx9, more later).
pub(crate) const MAX_WAVE_SCRATCH: u64 = 8_387_584;

/// Waves of a dispatch from which on other threads are asked for help at once. With fewer the first thread
/// looks how long they take.
const RECRUIT_WAVES: u64 = 16;

/// A simulated GPU: its memory and the code it has decoded.
pub struct Device {
    target: Target,
    backend: Backend,
    limits: Limits,
    memory: Arc<Memory>,
    code: CodeCache,
    /// Generation of the memory for which decoded code was last compared with it.
    code_checked: AtomicU64,
    pool: Pool,
    /// Threads that take matrix instructions off waves.
    helpers: Option<helpers::Threads>,
    sync: stall::GlobalSync,
    /// What workers of earlier dispatches left.
    kits: Mutex<Vec<worker::Kit>>,
    /// Which kernels gain nothing from several threads.
    lessons: spread::Lessons,
}

/// What the device can hold at one time. Decides how many workgroups may be under way when waves
/// wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Compute units.
    pub compute_units: u32,
    /// Waves that one compute unit holds.
    pub waves_per_unit: u32,
    /// LDS bytes of one compute unit.
    pub lds_per_unit: u32,
    /// XCCs, over which workgroups are dealt one by one.
    pub xccs: u32,
}

/// A kernel dispatch, as an AQL packet and its kernel descriptor describe it.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// Kernel name, for error texts.
    pub name: String,
    /// The descriptor.
    pub descriptor: KernelDescriptor,
    /// Address of the first instruction, preloading not regarded.
    pub entry: u64,
    /// Work-items in x, y, z.
    pub grid: [u32; 3],
    /// Work-items of a workgroup in x, y, z.
    pub workgroup: [u32; 3],
    /// Workgroups of a cluster in x, y, z (gfx1250); 1, 1, 1 elsewhere.
    pub cluster: [u32; 3],
    /// LDS bytes of a workgroup.
    pub group_segment: u32,
    /// Scratch bytes of a work-item.
    pub private_segment: u32,
    /// Address of the kernarg segment.
    pub kernarg: u64,
    /// Address of the AQL packet.
    pub packet: u64,
    /// Address of the queue.
    pub queue: u64,
    /// Number of the dispatch in its queue.
    pub id: u64,
    /// What a queue adds.
    pub origin: Origin,
}

/// What a dispatch owes to the queue that it comes from. The default is a dispatch without a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// User SGPRs as they stand in COMPUTE_USER_DATA (PM4). `None`: set up as the descriptor says.
    pub user_data: Option<Vec<u32>>,
    /// Id of the first workgroup in x, y, z (COMPUTE_START_X, Y, Z).
    pub first_workgroup: [u32; 3],
    /// The XCC that runs all workgroups. `None`: they are dealt to all XCCs one by one.
    pub xcc: Option<u32>,
    /// Memory of the queue for scratch. `None`: allocated for the dispatch.
    pub scratch: Option<ScratchMemory>,
    /// Number of the queue's doorbell, which waves can ask for.
    pub doorbell: u32,
}

/// Memory that a queue has for the scratch of its waves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScratchMemory {
    /// GPU address.
    pub base: u64,
    /// Size in bytes.
    pub bytes: u64,
}

/// How to run a dispatch.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Worker threads, at least 1.
    pub threads: usize,
    /// Allocate all registers that the kernel declares when a wave starts, instead of those it
    /// touches (for comparison).
    pub eager_registers: bool,
    /// Once this is set, the dispatch ends as soon as each wave that runs has had its turn.
    pub stop: Option<&'a AtomicBool>,
    /// Stops the waves for a while; needs `stop`, which ends that, too.
    pub pause: Option<&'a Pause>,
    /// Trust code that was decoded before, unless mappings have changed or [`Device::invalidate_code`] was
    /// called: what the instruction caches do. Otherwise all of it is compared with memory first.
    pub trust_code: bool,
    /// Count executions by form ([`Statistics::forms`]): some microseconds for each worker.
    pub count_forms: bool,
    /// Receives M0\[23:0\] of each `s_sendmsg` INTERRUPT, on the thread of the worker.
    pub interrupt: Option<&'a (dyn Fn(u32) + Sync)>,
    /// Where [`Device::start`] and [`Device::resume`] return before the end; [`Device::dispatch`] does not ask.
    pub stops: Option<&'a Stops<'a>>,
}

impl Default for Options<'_> {
    /// One thread, registers allocated when they are touched, nobody stops it or hears interrupts.
    fn default() -> Self {
        Options {
            threads: 1,
            eager_registers: false,
            stop: None,
            pause: None,
            trust_code: false,
            count_forms: false,
            interrupt: None,
            stops: None,
        }
    }
}

/// What a dispatch did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Wave instructions executed, by [`Class`], and those that are not exact.
    pub instructions: Counts,
    /// The same by form, as [`Device::forms`] numbers them, if [`Options::count_forms`] asks for it.
    pub forms: Tally,
    /// Waves that ran.
    pub waves: u64,
    /// Workgroups that ran.
    pub workgroups: u64,
    /// Seconds from the first wave to the last.
    pub seconds: f64,
    /// Register pages of 4 KiB in use at most, summed over workers.
    pub peak_register_pages: usize,
    /// Turns of waves on threads that do not own their workgroup.
    pub lent_turns: u64,
    /// Matrix instructions that helper threads executed; those before a checkpoint are not known.
    pub helped: u64,
}

impl Statistics {
    /// Wave instructions of all classes.
    pub fn total(&self) -> u64 {
        self.instructions.iter().take(Class::COUNT).sum()
    }

    /// Wave instructions whose results are only within a bound of the hardware's, of all classes.
    pub fn bounded(&self) -> u64 {
        self.instructions[Class::COUNT]
    }

    /// Wave instructions that follow a rule which nothing confirms, of all classes.
    pub fn by_default(&self) -> u64 {
        self.instructions[Class::COUNT + 1]
    }

    /// Instructions of a class.
    pub fn of(&self, class: Class) -> u64 {
        self.instructions[class as usize]
    }
}

/// A value that threads change often, on cache lines of its own: those that read what lies beside it are not disturbed.
#[derive(Default)]
#[repr(align(128))]
struct Apart<T>(T);

impl<T> std::ops::Deref for Apart<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// What the workers of one dispatch share.
struct Shared<'a> {
    device: &'a Device,
    dispatch: &'a Dispatch,
    options: Options<'a>,
    /// Workgroups in x, y, z, partial ones included.
    groups: [u64; 3],
    /// Next workgroup to start, the first one of its cluster.
    next: Apart<AtomicU64>,
    /// Clusters that a suspended run left, to be taken before new ones are started.
    inherited: Mutex<VecDeque<worker::Cluster>>,
    /// How many these are.
    inherits: AtomicUsize,
    /// The one of a suspended run on one thread whose turn it is.
    turn: usize,
    /// Workgroups under way, the first one of each worker left out: most workers never have another.
    extra: Apart<AtomicU64>,
    /// Most workgroups that may be under way.
    resident_limit: u64,
    failed: AtomicBool,
    /// Lowest number of a workgroup that failed.
    failed_at: AtomicU64,
    /// The first access to memory that the program took away.
    lost: Mutex<Option<AccessFault>>,
    failure: Mutex<Option<DispatchError>>,
    stall: stall::Stall,
    scratch: scratch::Scratch<'a>,
    finished: Apart<AtomicU64>,
    /// Most threads.
    threads: usize,
    /// Threads at work or looking for it.
    present: AtomicUsize,
    /// Threads that may still become owners of workgroups: each is sure to find room for its first one.
    seats: AtomicU64,
    /// Threads that own workgroups.
    owners: AtomicUsize,
    /// Whether waves of one workgroup may run on several threads.
    may_spread: bool,
    teams: team::Teams,
    /// Brings more threads; not there if there are none.
    recruiter: OnceLock<Recruiter>,
    /// What the workers did, added up as they end.
    done: Mutex<Statistics>,
    /// For the worker of a dispatch that is to stop at some instruction.
    stepper: Mutex<Option<Stepper<'a>>>,
    observer: &'a dyn Observer,
    watched: Option<watch::Watched<'a>>,
    halt: suspend::Halt,
}

impl Device {
    /// A device of `target` with `memory`, whose lanes are computed by `backend`.
    ///
    /// # Errors
    /// The host lacks the back end.
    pub fn new(
        target: Target,
        backend: Backend,
        limits: Limits,
        memory: Arc<Memory>,
    ) -> Result<Device, String> {
        Device::compiling(target, backend, jit::Options::default(), limits, memory)
    }

    /// As [`Device::new`]; `jit` says what is compiled.
    ///
    /// # Errors
    /// As [`Device::new`].
    pub fn compiling(
        target: Target,
        backend: Backend,
        jit: jit::Options,
        limits: Limits,
        memory: Arc<Memory>,
    ) -> Result<Device, String> {
        if !backend.is_supported() {
            return Err(format!(
                "this host cannot run the lane back end `{backend}`"
            ));
        }
        Ok(Device {
            target,
            backend,
            limits,
            memory,
            code: CodeCache::new(target, backend, jit),
            code_checked: AtomicU64::new(0),
            pool: Pool::default(),
            helpers: None,
            sync: stall::GlobalSync::default(),
            kits: Mutex::default(),
            lessons: spread::Lessons::default(),
        })
    }

    /// The memory.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// The target.
    pub fn target(&self) -> Target {
        self.target
    }

    /// What it can hold.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// What was compiled since the device exists.
    ///
    /// # Errors
    /// Why nothing is.
    pub fn compiled(&self) -> Result<jit::Report, &str> {
        self.code.compiled()
    }

    /// Instruction forms in all code that waves came to since the device exists, by the numbers of
    /// [`Statistics::forms`].
    pub fn forms(&self) -> Vec<Form> {
        self.code.forms()
    }

    /// How often each form executed in a dispatch that counted them; empty for others.
    pub fn executed(&self, done: &Statistics) -> Vec<(Form, u64)> {
        let mut counts = done.forms.iter().peekable();
        if counts.peek().is_none() {
            return Vec::new();
        }
        let forms = self.forms();
        counts
            .filter_map(|(form, times)| Some((*forms.get(form as usize)?, times)))
            .collect()
    }

    /// What executed compiled and what was interpreted since the device exists, dispatches under way and code that
    /// has changed since left out.
    pub fn usage(&self) -> jit::Usage {
        let mut kits = self.kits.lock().unwrap_or_else(|e| e.into_inner());
        for found in kits.iter_mut().filter_map(|kit| kit.code.as_mut()) {
            found.settle();
        }
        drop(kits);
        self.code.usage()
    }

    /// The lane back end.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Makes matrix products plain chains of f32 FMAs: faster, but not the hardware's bits.
    #[must_use]
    pub fn with_fast_matrix(mut self, fast: bool) -> Self {
        self.code.set_fast_matrix(fast);
        self
    }

    /// Gives it threads that take matrix instructions off waves, besides those that run waves; 0 for none. Asked for before
    /// any code is decoded.
    #[must_use]
    pub fn with_helpers(mut self, count: usize, policy: HelperPolicy) -> Self {
        self.code.set_helpers((count > 0).then_some(policy));
        self.helpers = (count > 0).then(|| helpers::Threads::new(count, policy));
        self
    }

    /// Runs a dispatch to its end and tells `observer` of it.
    ///
    /// # Errors
    /// A dispatch that the target cannot run, or a wave that was stopped; memory keeps what was
    /// written up to then.
    pub fn dispatch(
        &self,
        dispatch: &Dispatch,
        options: Options<'_>,
        observer: &dyn Observer,
    ) -> Result<Statistics, DispatchError> {
        let options = Options {
            stops: None,
            ..options
        };
        match self.run(dispatch, Progress::default(), options, observer)? {
            Left::Done(statistics) => Ok(statistics),
            Left::Suspended(..) => unreachable!("nothing suspends it"),
        }
    }

    /// Runs a dispatch on from where it has come to.
    fn run(
        &self,
        dispatch: &Dispatch,
        from: Progress,
        options: Options<'_>,
        observer: &dyn Observer,
    ) -> Result<Left, DispatchError> {
        self.check(dispatch)?;
        let _in_use = self.memory.in_use();
        let _running = self.sync.begin();
        self.check_code(options.trust_code);
        let groups = groups_of(dispatch);
        let total = groups.iter().product::<u64>();
        let waves_per_group = launch::waves_of(dispatch.workgroup, dispatch.descriptor.wave_size);
        let regions = from.regions.unwrap_or_else(|| Regions::new(&self.memory));
        let scratch = scratch::Scratch::new(dispatch, waves_per_group, regions);
        let room = scratch.room();
        let watched = match observer.plugins() {
            Some(plugins) => Some(match from.watched {
                Some(id) => watch::Watched::again(plugins, id),
                None => watch::Watched::begin(plugins, self, dispatch, total)?,
            }),
            None => None,
        };
        let cluster: u64 = dispatch.cluster.iter().map(|&n| u64::from(n)).product();
        let units = (total.min(room) / cluster).max(1);
        let waves = total.saturating_mul(u64::from(waves_per_group));
        // Plugins hear of a wave's instructions in order: its workgroup stays on one thread.
        let exact = options.stops.is_some_and(Stops::are_exact);
        let may_spread = watched.is_none() && !exact && waves_per_group > 1;
        let threads = match watched {
            Some(watched) if watched.one_thread() => 1,
            _ if exact => 1,
            _ => {
                let most = if may_spread { waves.max(1) } else { units };
                (options.threads.max(1) as u64).min(most) as usize
            }
        };
        // Of these, the ones that can have a workgroup of their own.
        let workers = (threads as u64).min(units) as usize;
        let shared = Shared {
            device: self,
            dispatch,
            options,
            groups,
            next: Apart(AtomicU64::new(from.next)),
            extra: Apart(AtomicU64::new(
                from.clusters.iter().map(Cluster::size).sum(),
            )),
            inherits: AtomicUsize::new(from.clusters.len()),
            inherited: Mutex::new(from.clusters.into()),
            turn: from.turn,
            resident_limit: self.resident_limit(dispatch, waves_per_group).min(room),
            failed: AtomicBool::new(false),
            failed_at: AtomicU64::new(u64::MAX),
            failure: Mutex::new(None),
            lost: Mutex::new(None),
            stall: stall::Stall::default(),
            scratch,
            finished: Apart(AtomicU64::new(from.finished)),
            threads,
            present: AtomicUsize::new(0),
            seats: AtomicU64::new(units),
            owners: AtomicUsize::new(0),
            may_spread: may_spread && threads > 1,
            teams: team::Teams::default(),
            recruiter: OnceLock::new(),
            stepper: Mutex::new(suspend::stepper(
                options.stops,
                from.done.total(),
                from.passed,
            )),
            done: Mutex::new(from.done),
            observer,
            watched,
            halt: suspend::Halt::default(),
        };
        if from.next == 0 {
            observer.dispatch_begins(&Begin {
                kernel: &dispatch.name,
                workgroups: total,
                waves_per_workgroup: waves_per_group,
            });
        }
        let start = Instant::now();
        if threads == 1 {
            worker::run(&shared, None);
        } else {
            self.pool.with_crew(&|| worker::run(&shared, None), |crew| {
                let recruiter = shared.recruiter.get_or_init(|| crew.recruiter());
                let recruit = || recruiter.recruit(workers - 1);
                if workers == 1 {
                    worker::run(&shared, None);
                } else if waves >= RECRUIT_WAVES {
                    recruit();
                    worker::run(&shared, None);
                } else {
                    worker::run(&shared, Some(&recruit));
                }
            });
        }
        let mut statistics = shared.done.into_inner().unwrap_or_else(|e| e.into_inner());
        statistics.workgroups = total;
        statistics.seconds += start.elapsed().as_secs_f64();
        let failure = shared
            .failure
            .into_inner()
            .unwrap_or_else(|e| e.into_inner());
        let finished = shared.finished.0.into_inner();
        let mut why = shared.halt.why().filter(|_| finished < total);
        let faults = options.stops.is_some_and(|stops| stops.faults);
        let stands = match failure {
            Some(_) => faults,
            None => why.is_some(),
        };
        if let Some(watched) = watched.filter(|_| !stands) {
            let error = failure.as_ref().map(ToString::to_string);
            let told = watched.end(dispatch, &statistics, error.as_deref());
            if failure.is_none() {
                told?;
            }
        }
        if let Some(error) = failure {
            if !faults {
                return Err(error);
            }
            why = Some(Why::Fault(shared.halt.failed(), error));
        }
        if let Some(why) = why {
            let left = shared.halt.left.into_inner();
            let left = left.unwrap_or_else(|e| e.into_inner());
            let mut waiting = shared
                .inherited
                .into_inner()
                .unwrap_or_else(|e| e.into_inner());
            let mut clusters = left.clusters;
            clusters.extend(waiting.drain(..));
            if threads > 1 {
                clusters.sort_by_key(Cluster::first);
            }
            return Ok(Left::Suspended(
                Box::new(Progress {
                    next: shared.next.0.into_inner(),
                    finished,
                    clusters,
                    regions: Some(shared.scratch.into_regions()),
                    done: statistics,
                    watched: watched.map(watch::Watched::id),
                    ..left
                }),
                why,
            ));
        }
        if finished < total {
            return Err(DispatchError::Stop {
                kernel: dispatch.name.clone(),
                finished,
                workgroups: total,
            });
        }
        observer.dispatch_ends(&End {
            kernel: &dispatch.name,
            instructions: statistics.total(),
            waves: statistics.waves,
            seconds: statistics.seconds,
        });
        Ok(Left::Done(statistics))
    }

    /// Makes sure that code changed since it was decoded is decoded again, as an invalidation of the
    /// instruction caches does.
    pub fn invalidate_code(&self) {
        self.check_code(false);
    }

    /// Compares decoded code with memory, if it is not to be trusted or mappings have changed.
    fn check_code(&self, trust: bool) {
        let now = self.memory.generation();
        if !trust || self.code_checked.load(Ordering::Acquire) != now {
            self.code.revalidate(&mut MemoryPort::new(&*self.memory));
            self.code_checked.store(now, Ordering::Release);
        }
    }

    fn check(&self, d: &Dispatch) -> Result<(), DispatchError> {
        let invalid = |what: String| DispatchError::Invalid {
            kernel: d.name.clone(),
            what,
        };
        if d.workgroup.contains(&0) {
            return Err(invalid(format!(
                "a workgroup of {:?} work-items",
                d.workgroup
            )));
        }
        let items = d
            .workgroup
            .iter()
            .fold(1u64, |all, &n| all.saturating_mul(n.into()));
        if items > 1024 {
            return Err(invalid(format!(
                "{items} work-items in a workgroup: at most 1024"
            )));
        }
        let lds = self.limits.lds_per_unit;
        if d.group_segment > lds {
            return Err(invalid(format!(
                "{} bytes of LDS for a workgroup: {} has {lds}",
                d.group_segment, self.target
            )));
        }
        let scratch =
            u64::from(d.private_segment).next_multiple_of(16) * u64::from(d.descriptor.wave_size);
        if scratch > MAX_WAVE_SCRATCH {
            return Err(invalid(format!(
                "{} bytes of scratch for a work-item: a wave of {} lanes can have {MAX_WAVE_SCRATCH} in all",
                d.private_segment, d.descriptor.wave_size
            )));
        }
        let in_cluster = d
            .cluster
            .iter()
            .try_fold(1u32, |all, &n| all.checked_mul(n));
        if !in_cluster.is_some_and(|n| (1..=16).contains(&n)) {
            return Err(invalid(format!(
                "a cluster of {:?} workgroups: 1 to 16 are possible",
                d.cluster
            )));
        }
        let groups = groups_of(d);
        if groups
            .iter()
            .try_fold(1u64, |all, &n| all.checked_mul(n))
            .is_none_or(|all| all > 1 << 62)
        {
            return Err(invalid(format!(
                "a grid of {groups:?} workgroups, more than anyone can run"
            )));
        }
        if groups
            .iter()
            .zip(d.cluster)
            .any(|(n, c)| n % u64::from(c) != 0)
        {
            return Err(invalid(format!(
                "{groups:?} workgroups are not whole clusters of {:?}",
                d.cluster
            )));
        }
        Ok(())
    }

    /// How many workgroups the real device could hold at once.
    fn resident_limit(&self, dispatch: &Dispatch, waves_per_group: u32) -> u64 {
        let by_waves = (self.limits.waves_per_unit / waves_per_group.max(1)).max(1);
        let by_lds = self
            .limits
            .lds_per_unit
            .checked_div(dispatch.group_segment)
            .unwrap_or(u32::MAX)
            .max(1);
        u64::from(self.limits.compute_units.max(1)) * u64::from(by_waves.min(by_lds))
    }
}

/// Workgroups in x, y, z, partial ones included.
fn groups_of(dispatch: &Dispatch) -> [u64; 3] {
    std::array::from_fn(|i| {
        let end = u64::from(dispatch.grid[i]).div_ceil(u64::from(dispatch.workgroup[i]));
        end.saturating_sub(u64::from(dispatch.origin.first_workgroup[i]))
    })
}

impl Shared<'_> {
    /// What a worker gives matrix instructions away by: none if there are no helpers, if a debugger may look at the dispatch
    /// between any two instructions, or if plugins do not follow instructions whose results come later. Who stops a dispatch
    /// between turns finds nothing under way.
    fn issuer(&self) -> Option<Box<Issuer>> {
        let helpers = self.device.helpers.as_ref()?;
        let followed = self.watched.is_none_or(|w| w.asynchronous_matrix());
        let stops = self.options.stops;
        let debugged = stops.is_some_and(|stops| stops.are_exact() || stops.faults);
        (followed && !debugged)
            .then(|| helpers.issuer().map(Box::new))
            .flatten()
    }

    /// Workgroups of a cluster.
    fn cluster_size(&self) -> u64 {
        self.dispatch
            .cluster
            .iter()
            .map(|&n| u64::from(n))
            .product()
    }

    /// Whether the program asked for the dispatch to end before its work is done. Asked between turns of waves: if
    /// they are to pause, the answer comes when they may go on. That it is to be suspended counts, too.
    fn stopped_by_program(&self) -> bool {
        if let Some(stops) = self.options.stops
            && self.halt.is_wanted(stops)
        {
            return true;
        }
        let Some(stop) = self.options.stop else {
            return false;
        };
        if let Some(pause) = self.options.pause {
            pause.park(stop);
        }
        stop.load(Ordering::Relaxed)
    }

    /// Records the failure of a workgroup and tells all workers to stop. Of several failures that of the lowest
    /// workgroup is kept.
    fn fail(&self, workgroup: u64, error: DispatchError) {
        let mut slot = self.failure.lock().unwrap_or_else(|e| e.into_inner());
        if slot.is_none() || workgroup < self.failed_at.load(Ordering::Relaxed) {
            *slot = Some(error);
            self.failed_at.store(workgroup, Ordering::Relaxed);
        }
        self.failed.store(true, Ordering::Release);
    }

    /// Whether to leave a workgroup as it is, because it or an earlier one has failed.
    fn abandons(&self, workgroup: u64) -> bool {
        self.stopped_by_program()
            || self.failed.load(Ordering::Acquire)
                && self.failed_at.load(Ordering::Relaxed) <= workgroup
    }

    /// Workgroups under way, at most.
    fn resident(&self) -> u64 {
        let workers = self.owners.load(Ordering::Relaxed).max(1) as u64;
        self.extra.load(Ordering::Relaxed) + workers * self.cluster_size()
    }

    /// Whether there are workgroups that nobody has started.
    fn has_groups(&self) -> bool {
        self.inherits.load(Ordering::Relaxed) > 0
            || self.next.load(Ordering::Relaxed) < self.groups.iter().product()
    }

    /// Whether threads are left over, with no workgroup to start.
    fn has_idle_threads(&self) -> bool {
        self.owners.load(Ordering::Relaxed) < self.threads && !self.has_groups()
    }

    /// Whether nothing is left to help with.
    fn is_over(&self) -> bool {
        self.finished.load(Ordering::Acquire) >= self.groups.iter().product()
            || self.failed.load(Ordering::Acquire)
            || self.stopped_by_program()
    }

    /// Notes that a wave has accessed memory that the program took away. The first time counts.
    #[cold]
    fn loses(&self, lost: &Lost) {
        let mut first = self.lost.lock().unwrap_or_else(|e| e.into_inner());
        first.get_or_insert_with(|| self.device.memory.fault_of(lost, lost.host, 0));
    }

    /// The error of a wave that has lost memory.
    fn loss(&self, workgroup: [u32; 3], wave: u32) -> DispatchError {
        let kernel = self.dispatch.name.clone();
        let lost = self.lost.lock().unwrap_or_else(|e| e.into_inner()).clone();
        match lost {
            Some(fault) => DispatchError::Lost {
                kernel,
                workgroup,
                wave,
                fault,
            },
            None => DispatchError::Invalid {
                kernel,
                what: "a wave stopped without a reason".to_owned(),
            },
        }
    }

    /// The error of a wave that stopped.
    fn failure_of(
        &self,
        fault: Option<Box<Fault>>,
        workgroup: [u32; 3],
        wave: &Wave,
    ) -> DispatchError {
        let Some(fault) = fault else {
            return self.loss(workgroup, wave.index);
        };
        let from = match &fault.cause {
            Cause::Fetch { .. } | Cause::Undecodable { .. } => {
                origin::jumps(self.device, self.dispatch, wave, fault.pc)
            }
            _ => Vec::new(),
        };
        let place = from.first().copied().unwrap_or(fault.pc);
        let mut code = launch::disassembly(self.device, self.dispatch, place);
        let lane = match &fault.cause {
            Cause::Memory {
                lane: Some(lane), ..
            }
            | Cause::Lds { lane, .. } => *lane,
            _ => wave.exec().trailing_zeros() % wave.lanes,
        };
        code += &launch::registers(self.device, place, wave, lane);
        if let [_, others @ ..] = from.as_slice() {
            code.insert_str(0, &origin::came_from(others));
        } else if !code.contains("\n  ->") {
            code = origin::UNKNOWN.to_owned();
        }
        DispatchError::Stopped {
            kernel: self.dispatch.name.clone(),
            workgroup,
            wave: wave.index,
            pc: fault.pc,
            offset: fault.pc.wrapping_sub(self.dispatch.entry) as i64,
            target: self.device.target,
            from: from.first().copied(),
            cause: fault.cause,
            code,
        }
    }
}
