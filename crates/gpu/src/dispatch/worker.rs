//! A worker thread: takes workgroups, runs their waves in turn, and lets nothing starve.
//!
//! A worker stays with one workgroup until each of its waves has ended or waits. When waves only spin
//! (their quantum ran out, or they sleep), the worker admits one more workgroup, up to what the real
//! device could hold, and gives all of its workgroups their turns. The workgroups of a cluster wait for each
//! other, so a worker starts them together and they share each turn.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rocjitsu_exec::barrier;
use rocjitsu_exec::code::{CodeView, Found};
use rocjitsu_exec::memory::MemoryPort;
use rocjitsu_exec::run::{Counts, Stop, run as run_wave};
use rocjitsu_exec::wave::{Barrier, Buffers, Cx, Unit, Waiting};

use super::launch::{self, Resident};
use super::{DispatchError, Shared};

/// Instructions that a wave may execute before others get their turn.
const QUANTUM: u64 = 1 << 18;

/// How long a worker works alone on a small dispatch before it asks for help: about what waking a thread takes.
const ALONE: Duration = Duration::from_micros(20);

/// Rounds in which all waves sleep, after which the worker sleeps too, and for how long.
const IDLE_ROUNDS: u32 = 64;
const NAP: Duration = Duration::from_micros(20);

/// Register pages of 4 KiB that a worker keeps for its next dispatch.
const KEPT_PAGES: usize = 1024;

/// What a worker leaves to the next one on its device.
#[derive(Default)]
pub struct Kit {
    buffers: Buffers,
    code: Option<Found>,
    cluster: Cluster,
}

/// How a turn of a cluster ended.
enum Turn {
    /// Every wave has ended.
    Ended,
    /// Some wave can go on later. `busy`: one has used up its turn, the others only sleep.
    Spins { busy: bool },
}

/// Workgroups that run together: those of a cluster, or just one.
#[derive(Default)]
struct Cluster {
    groups: Vec<Resident>,
    /// The cluster's barrier, while no workgroup has it (see [`barrier::CLUSTER`]).
    barrier: Barrier,
    /// Workgroups that have not ended.
    live: usize,
}

/// What one round through the waves of a workgroup did.
#[derive(Default)]
struct Round {
    /// A wave came to an end or to a barrier.
    advanced: bool,
    /// A wave can go on later.
    spins: bool,
    /// One of these used up its turn.
    busy: bool,
}

struct Worker<'s, 'a> {
    shared: &'s Shared<'a>,
    unit: Unit<'s>,
    code: CodeView<'s>,
    counts: Counts,
    waves: u64,
    /// Clusters under way.
    resident: Vec<Cluster>,
    /// Workgroups that ended, to be used again.
    spare: Cluster,
    /// Brings other threads to the work; none once it was called.
    recruit: Option<&'s dyn Fn()>,
    started: Instant,
}

/// Runs workgroups until none is left or the dispatch is over. Calls `recruit` when that takes long.
pub fn run(shared: &Shared<'_>, recruit: Option<&dyn Fn()>) {
    let device = shared.device;
    let memory = MemoryPort::new(&*device.memory);
    let kit = lock(&device.kits).pop().unwrap_or_default();
    let mut worker = Worker {
        shared,
        unit: Unit::with_buffers(kit.buffers, memory, device.backend, device.target),
        code: match kit.code {
            Some(found) => CodeView::resume(&device.code, found),
            None => CodeView::new(&device.code),
        },
        counts: Counts::default(),
        waves: 0,
        resident: Vec::new(),
        spare: kit.cluster,
        recruit,
        started: Instant::now(),
    };
    if let Err(error) = worker.work() {
        shared.fail(error);
    }
    let mut done = lock(&shared.done);
    for (sum, n) in done.instructions.iter_mut().zip(worker.counts) {
        *sum += n;
    }
    done.waves += worker.waves;
    done.peak_register_pages += worker.unit.pool.peak();
    drop(done);
    if worker.resident.is_empty() {
        let mut buffers = worker.unit.into_buffers();
        buffers.pool.restart(KEPT_PAGES);
        lock(&device.kits).push(Kit {
            buffers,
            code: Some(worker.code.into_found()),
            cluster: worker.spare,
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Worker<'_, '_> {
    fn work(&mut self) -> Result<(), DispatchError> {
        let mut idle_rounds = 0;
        loop {
            if self.shared.halted() || self.resident.is_empty() && !self.admit(true)? {
                return Ok(());
            }
            let mut index = 0;
            let mut all_sleep = true;
            while index < self.resident.len() {
                if self.shared.halted() {
                    return Ok(());
                }
                match self.turn(index)? {
                    Turn::Ended => {
                        all_sleep = false;
                        self.retire(index);
                    }
                    Turn::Spins { busy } => {
                        all_sleep &= !busy;
                        index += 1;
                    }
                }
                self.call_for_help();
            }
            // Those that are left wait for somebody: perhaps for a workgroup that has not started.
            if !self.resident.is_empty() {
                let admitted = self.admit(false)?;
                idle_rounds = if all_sleep && !admitted {
                    idle_rounds + 1
                } else {
                    0
                };
                if idle_rounds > IDLE_ROUNDS {
                    std::thread::sleep(NAP);
                } else {
                    std::thread::yield_now();
                }
            }
        }
    }

    /// Recruits other threads if there is work for them and it has taken long so far.
    fn call_for_help(&mut self) {
        let Some(recruit) = self.recruit else { return };
        let total: u64 = self.shared.groups.iter().product();
        if self.shared.next.load(Ordering::Relaxed) < total && self.started.elapsed() > ALONE {
            recruit();
            self.recruit = None;
        }
    }

    /// Starts the next cluster, if there is one and (unless it is the worker's `first`) the device has room.
    fn admit(&mut self, first: bool) -> Result<bool, DispatchError> {
        let shared = self.shared;
        let total: u64 = shared.groups.iter().product();
        if shared.next.load(Ordering::Relaxed) >= total {
            return Ok(false);
        }
        let size = shared.cluster_size();
        if !first && shared.resident.load(Ordering::Relaxed) + size > shared.resident_limit {
            return Ok(false);
        }
        let linear = shared.next.fetch_add(size, Ordering::Relaxed);
        if linear >= total {
            return Ok(false);
        }
        shared.resident.fetch_add(size, Ordering::Relaxed);
        let unit = &mut self.unit;
        let mut cluster = std::mem::take(&mut self.spare);
        cluster.groups.resize_with(size as usize, Resident::empty);
        for (resident, linear) in cluster.groups.iter_mut().zip(linear..) {
            launch::start(shared, linear, &mut unit.memory, &mut unit.pool, resident)?;
            self.waves += resident.waves.len() as u64;
        }
        cluster.live = cluster.groups.len();
        cluster.barrier = Barrier {
            members: size as u32,
            ..Barrier::default()
        };
        self.resident.push(cluster);
        Ok(true)
    }

    fn retire(&mut self, index: usize) {
        let cluster = self.resident.swap_remove(index);
        for resident in &cluster.groups {
            self.shared.scratch.give(resident.scratch);
        }
        let size = cluster.groups.len() as u64;
        self.spare = cluster;
        self.shared.resident.fetch_sub(size, Ordering::Relaxed);
        let before = self.shared.finished.fetch_add(size, Ordering::Relaxed);
        let finished = before + size;
        if finished / 64 != before / 64 {
            let all = self.shared.groups.iter().product();
            self.shared.observer.workgroups_ended(finished, all);
        }
    }

    /// Runs the waves of a cluster until each has ended, spins or waits for a barrier that is not full.
    fn turn(&mut self, index: usize) -> Result<Turn, DispatchError> {
        let (shared, unit) = (self.shared, &mut self.unit);
        let cluster = &mut self.resident[index];
        loop {
            let mut done = Round::default();
            for resident in cluster.groups.iter_mut().filter(|r| r.group.live != 0) {
                resident.group.barriers[barrier::CLUSTER] = cluster.barrier;
                let round = round(shared, unit, &mut self.code, &mut self.counts, resident)?;
                cluster.barrier = resident.group.barriers[barrier::CLUSTER];
                done.advanced |= round.advanced;
                done.spins |= round.spins;
                done.busy |= round.busy;
                if resident.group.live == 0 {
                    cluster.live -= 1;
                    barrier::workgroup_ended(&mut cluster.barrier);
                }
                if shared.halted() {
                    return Ok(Turn::Spins { busy: true });
                }
            }
            if cluster.live == 0 {
                return Ok(Turn::Ended);
            }
            if done.spins && !done.advanced {
                return Ok(Turn::Spins { busy: done.busy });
            }
            if !done.advanced && !done.spins {
                return Err(deadlock(shared, cluster));
            }
        }
    }
}

/// Gives each wave of a workgroup that can run its turn.
fn round<'u>(
    shared: &Shared<'_>,
    unit: &mut Unit<'u>,
    code: &mut CodeView<'_>,
    counts: &mut Counts,
    resident: &mut Resident,
) -> Result<Round, DispatchError> {
    let mut done = Round::default();
    for wave in &mut resident.waves {
        match wave.waiting {
            Waiting::Ended => continue,
            Waiting::Barrier(_) if !barrier::ready(wave, &resident.group) => continue,
            _ => wave.waiting = Waiting::No,
        }
        let mut cx = Cx {
            wave,
            group: &mut resident.group,
            unit,
        };
        let stop = run_wave(&mut cx, code, QUANTUM, counts);
        for data in wave.interrupts.drain(..) {
            if let Some(interrupt) = shared.options.interrupt {
                interrupt(data);
            }
        }
        match stop {
            Stop::Waits if wave.waiting == Waiting::Ended => {
                wave.v.release(&mut unit.pool);
                resident.group.live -= 1;
                barrier::wave_ended(&mut resident.group);
                done.advanced = true;
            }
            Stop::Waits | Stop::Quantum if wave.waiting == Waiting::Turn => {
                done.spins = true;
                done.busy |= stop == Stop::Quantum;
            }
            Stop::Waits | Stop::Quantum => done.advanced = true,
            Stop::Fault => {
                let (id, number) = (resident.group.id, wave.index);
                return Err(match unit.fault.take() {
                    Some(fault) => shared.stopped(*fault, id, number),
                    None => DispatchError::Invalid {
                        kernel: shared.dispatch.name.clone(),
                        what: "a wave stopped without a reason".to_owned(),
                    },
                });
            }
        }
        if shared.halted() {
            break;
        }
    }
    Ok(done)
}

fn deadlock(shared: &Shared<'_>, cluster: &Cluster) -> DispatchError {
    let waits = cluster.groups.iter().flat_map(|resident| {
        let id = resident.group.id;
        resident.waves.iter().filter_map(move |w| match w.waiting {
            Waiting::Barrier(slot) => Some(format!(
                "workgroup {id:?} wave {} at barrier {slot} (before {:#x})",
                w.index, w.pc
            )),
            _ => None,
        })
    });
    let what = format!(
        "deadlock, no wave can go on: {}",
        waits.collect::<Vec<_>>().join(", ")
    );
    DispatchError::Deadlock {
        kernel: shared.dispatch.name.clone(),
        workgroup: cluster.groups.first().map_or([0; 3], |r| r.group.id),
        what,
    }
}
