//! Dispatches: a kernel over a grid, run by worker threads to its end.
//! `launch` sets waves up, `worker` schedules them, `scratch` gives them private memory.

mod launch;
mod scratch;
mod worker;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use rocjitsu_exec::code::CodeCache;
use rocjitsu_exec::error::Fault;
use rocjitsu_exec::memory::MemoryPort;
use rocjitsu_exec::record::Class;
use rocjitsu_exec::run::Counts;
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;
use rocjitsu_observe::{Begin, End, Observer};

use crate::code_object::KernelDescriptor;
use crate::memory::Memory;

/// Scratch bytes that a wave can have: WAVESIZE of TMPRING_SIZE (13 bits of 1 KiB on gfx9, more later).
const MAX_WAVE_SCRATCH: u64 = 8_387_584;

/// A simulated GPU: its memory and the code it has decoded.
pub struct Device<'m> {
    target: Target,
    backend: Backend,
    limits: Limits,
    memory: &'m Memory,
    code: CodeCache,
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
}

/// How to run a dispatch.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Worker threads, at least 1.
    pub threads: usize,
    /// Allocate all registers that the kernel declares when a wave starts, instead of those it
    /// touches (for comparison).
    pub eager_registers: bool,
}

/// What a dispatch did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Wave instructions executed, by [`Class`].
    pub instructions: Counts,
    /// Waves that ran.
    pub waves: u64,
    /// Workgroups that ran.
    pub workgroups: u64,
    /// Seconds from the first wave to the last.
    pub seconds: f64,
    /// Register pages of 4 KiB in use at most, summed over workers.
    pub peak_register_pages: usize,
}

impl Statistics {
    /// Wave instructions of all classes.
    pub fn total(&self) -> u64 {
        self.instructions.iter().sum()
    }

    /// Instructions of a class.
    pub fn of(&self, class: Class) -> u64 {
        self.instructions[class as usize]
    }
}

/// Why a dispatch did not finish.
#[derive(Debug, thiserror::Error)]
pub enum DispatchError {
    /// The dispatch asks for what the target cannot do.
    #[error("kernel {kernel}: {what}")]
    Invalid {
        /// Kernel name.
        kernel: String,
        /// What is wrong.
        what: String,
    },
    /// A wave was stopped.
    #[error(
        "kernel {kernel}, workgroup {workgroup:?}, wave {wave}, at {pc:#x} (entry + {offset:#x}) on {target}: {cause}{code}"
    )]
    Stopped {
        /// Kernel name.
        kernel: String,
        /// Workgroup id.
        workgroup: [u32; 3],
        /// Wave in the workgroup.
        wave: u32,
        /// Address of the instruction.
        pc: u64,
        /// The same from the kernel's entry.
        offset: i64,
        /// Target.
        target: Target,
        /// What happened.
        cause: rocjitsu_exec::error::Cause,
        /// Disassembly around the instruction, one line each.
        code: String,
    },
    /// All waves of a workgroup wait for something that cannot come.
    #[error("kernel {kernel}, workgroup {workgroup:?}: {what}")]
    Deadlock {
        /// Kernel name.
        kernel: String,
        /// Workgroup id.
        workgroup: [u32; 3],
        /// Which waves wait where.
        what: String,
    },
    /// No memory for scratch.
    #[error("kernel {kernel}: scratch of {bytes} bytes for a workgroup: {cause}")]
    Scratch {
        /// Kernel name.
        kernel: String,
        /// Bytes wanted.
        bytes: u64,
        /// Why not.
        cause: String,
    },
}

/// What the workers of one dispatch share.
struct Shared<'a> {
    device: &'a Device<'a>,
    dispatch: &'a Dispatch,
    options: Options,
    /// Workgroups in x, y, z, partial ones included.
    groups: [u64; 3],
    /// Next workgroup to start, the first one of its cluster.
    next: AtomicU64,
    /// Workgroups under way.
    resident: AtomicU64,
    /// Most workgroups that may be under way.
    resident_limit: u64,
    failed: AtomicBool,
    failure: Mutex<Option<DispatchError>>,
    scratch: scratch::Scratch<'a>,
    finished: AtomicU64,
    observer: &'a dyn Observer,
}

impl<'m> Device<'m> {
    /// A device of `target` with `memory`, whose lanes are computed by `backend`.
    ///
    /// # Errors
    /// The host lacks the back end.
    pub fn new(
        target: Target,
        backend: Backend,
        limits: Limits,
        memory: &'m Memory,
    ) -> Result<Device<'m>, String> {
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
            code: CodeCache::new(target, backend),
        })
    }

    /// The memory.
    pub fn memory(&self) -> &'m Memory {
        self.memory
    }

    /// The target.
    pub fn target(&self) -> Target {
        self.target
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

    /// Runs a dispatch to its end and tells `observer` of it.
    ///
    /// # Errors
    /// A dispatch that the target cannot run, or a wave that was stopped; memory keeps what was
    /// written up to then.
    pub fn dispatch(
        &self,
        dispatch: &Dispatch,
        options: Options,
        observer: &dyn Observer,
    ) -> Result<Statistics, DispatchError> {
        self.check(dispatch)?;
        let _in_use = self.memory.in_use();
        self.code.revalidate(&mut MemoryPort::new(self.memory));
        let groups = groups_of(dispatch);
        let total = groups.iter().product::<u64>();
        let waves_per_group = launch::waves_of(dispatch.workgroup, dispatch.descriptor.wave_size);
        let shared = Shared {
            device: self,
            dispatch,
            options,
            groups,
            next: AtomicU64::new(0),
            resident: AtomicU64::new(0),
            resident_limit: self.resident_limit(dispatch, waves_per_group),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            scratch: scratch::Scratch::new(self.memory, dispatch, waves_per_group),
            finished: AtomicU64::new(0),
            observer,
        };
        let threads = (options.threads.max(1) as u64).min((total / shared.cluster_size()).max(1));
        observer.dispatch_begins(&Begin {
            kernel: &dispatch.name,
            workgroups: total,
            waves_per_workgroup: waves_per_group,
        });
        let start = Instant::now();
        let mut statistics = Statistics {
            workgroups: total,
            ..Statistics::default()
        };
        let mut add = |part: worker::Part| {
            for (sum, n) in statistics.instructions.iter_mut().zip(part.counts) {
                *sum += n;
            }
            statistics.waves += part.waves;
            statistics.peak_register_pages += part.peak_pages;
        };
        if threads == 1 {
            add(worker::run(&shared));
        } else {
            std::thread::scope(|scope| {
                let handles: Vec<_> = (0..threads)
                    .map(|_| scope.spawn(|| worker::run(&shared)))
                    .collect();
                for handle in handles {
                    match handle.join() {
                        Ok(part) => add(part),
                        Err(panic) => std::panic::resume_unwind(panic),
                    }
                }
            });
        }
        statistics.seconds = start.elapsed().as_secs_f64();
        match shared
            .failure
            .into_inner()
            .unwrap_or_else(|e| e.into_inner())
        {
            Some(error) => Err(error),
            None => {
                observer.dispatch_ends(&End {
                    kernel: &dispatch.name,
                    instructions: statistics.total(),
                    waves: statistics.waves,
                    seconds: statistics.seconds,
                });
                Ok(statistics)
            }
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
        let items = d.workgroup.iter().map(|&n| u64::from(n)).product::<u64>();
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
    std::array::from_fn(|i| u64::from(dispatch.grid[i]).div_ceil(u64::from(dispatch.workgroup[i])))
}

impl Shared<'_> {
    /// Workgroups of a cluster.
    fn cluster_size(&self) -> u64 {
        self.dispatch
            .cluster
            .iter()
            .map(|&n| u64::from(n))
            .product()
    }

    /// Records the first failure and tells all workers to stop.
    fn fail(&self, error: DispatchError) {
        let mut slot = self.failure.lock().unwrap_or_else(|e| e.into_inner());
        if slot.is_none() {
            *slot = Some(error);
        }
        self.failed.store(true, Ordering::Release);
    }

    fn stopped(&self, fault: Fault, workgroup: [u32; 3], wave: u32) -> DispatchError {
        let code = launch::disassembly(self.device, self.dispatch, fault.pc);
        DispatchError::Stopped {
            kernel: self.dispatch.name.clone(),
            workgroup,
            wave,
            pc: fault.pc,
            offset: fault.pc.wrapping_sub(self.dispatch.entry) as i64,
            target: self.device.target,
            cause: fault.cause,
            code,
        }
    }
}
