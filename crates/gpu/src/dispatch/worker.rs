//! A worker thread: takes workgroups, runs their waves in turn, and lets nothing starve.
//!
//! A worker stays with one workgroup until each of its waves has ended or waits. When waves only spin
//! (their quantum ran out, or they sleep), the worker admits one more workgroup, up to what the real
//! device could hold, and gives all of its workgroups their turns.

use std::sync::atomic::Ordering;

use rocjitsu_exec::barrier;
use rocjitsu_exec::code::CodeView;
use rocjitsu_exec::memory::MemoryPort;
use rocjitsu_exec::run::{Counts, Stop, run as run_wave};
use rocjitsu_exec::wave::{Cx, Unit, Waiting};

use super::launch::{self, Resident};
use super::{DispatchError, Shared};

/// Instructions that a wave may execute before others get their turn.
const QUANTUM: u64 = 1 << 18;

/// What one worker did.
pub struct Part {
    pub counts: Counts,
    pub waves: u64,
    pub peak_pages: usize,
}

/// How a turn of a workgroup ended.
enum Turn {
    /// Every wave has ended.
    Ended,
    /// Some wave can go on later.
    Spins,
}

struct Worker<'s, 'a> {
    shared: &'s Shared<'a>,
    unit: Unit<'s>,
    code: CodeView<'s>,
    counts: Counts,
    waves: u64,
    /// Workgroups under way.
    resident: Vec<Resident>,
    /// A workgroup that ended, to be used again.
    spare: Option<Resident>,
}

/// Runs workgroups until none is left or the dispatch has failed.
pub fn run(shared: &Shared<'_>) -> Part {
    let device = shared.device;
    let memory = MemoryPort::new(device.memory);
    let mut worker = Worker {
        shared,
        unit: Unit::new(memory, device.backend, device.target),
        code: CodeView::new(&device.code),
        counts: Counts::default(),
        waves: 0,
        resident: Vec::new(),
        spare: None,
    };
    if let Err(error) = worker.work() {
        shared.fail(error);
    }
    Part {
        counts: worker.counts,
        waves: worker.waves,
        peak_pages: worker.unit.pool.peak(),
    }
}

impl Worker<'_, '_> {
    fn work(&mut self) -> Result<(), DispatchError> {
        loop {
            if self.resident.is_empty() && !self.admit(true)? {
                return Ok(());
            }
            let mut index = 0;
            while index < self.resident.len() {
                if self.shared.failed.load(Ordering::Acquire) {
                    return Ok(());
                }
                match self.turn(index)? {
                    Turn::Ended => self.retire(index),
                    Turn::Spins => index += 1,
                }
            }
            // Those that are left wait for somebody: perhaps for a workgroup that has not started.
            if !self.resident.is_empty() {
                self.admit(false)?;
                std::thread::yield_now();
            }
        }
    }

    /// Starts the next workgroup, if there is one and (unless it is the worker's `first`) the device has room.
    fn admit(&mut self, first: bool) -> Result<bool, DispatchError> {
        let shared = self.shared;
        let total: u64 = shared.groups.iter().product();
        if shared.next.load(Ordering::Relaxed) >= total {
            return Ok(false);
        }
        if !first && shared.resident.load(Ordering::Relaxed) >= shared.resident_limit {
            return Ok(false);
        }
        let linear = shared.next.fetch_add(1, Ordering::Relaxed);
        if linear >= total {
            return Ok(false);
        }
        shared.resident.fetch_add(1, Ordering::Relaxed);
        let unit = &mut self.unit;
        let resident = launch::start(
            shared,
            linear,
            &mut unit.memory,
            &mut unit.pool,
            self.spare.take(),
        )?;
        self.waves += resident.waves.len() as u64;
        self.resident.push(resident);
        Ok(true)
    }

    fn retire(&mut self, index: usize) {
        let resident = self.resident.swap_remove(index);
        self.shared.scratch.give(resident.scratch);
        self.spare = Some(resident);
        self.shared.resident.fetch_sub(1, Ordering::Relaxed);
        let finished = self.shared.finished.fetch_add(1, Ordering::Relaxed) + 1;
        if finished % 64 == 0 {
            (self.shared.progress)(finished, self.shared.groups.iter().product());
        }
    }

    /// Runs the waves of a workgroup until each has ended, spins or waits for a barrier that is not full.
    fn turn(&mut self, index: usize) -> Result<Turn, DispatchError> {
        let resident = &mut self.resident[index];
        loop {
            let mut advanced = false;
            let mut spins = false;
            for wave in &mut resident.waves {
                match wave.waiting {
                    Waiting::Ended => continue,
                    Waiting::Barrier(_) if !barrier::ready(wave, &resident.group) => continue,
                    _ => wave.waiting = Waiting::No,
                }
                let mut cx = Cx {
                    wave,
                    group: &mut resident.group,
                    unit: &mut self.unit,
                };
                match run_wave(&mut cx, &mut self.code, QUANTUM, &mut self.counts) {
                    Stop::Waits if wave.waiting == Waiting::Ended => {
                        wave.v.release(&mut self.unit.pool);
                        resident.group.live -= 1;
                        barrier::wave_ended(&mut resident.group);
                        advanced = true;
                    }
                    Stop::Waits | Stop::Quantum if wave.waiting == Waiting::Turn => spins = true,
                    Stop::Waits | Stop::Quantum => advanced = true,
                    Stop::Fault => {
                        let (id, number) = (resident.group.id, wave.index);
                        return Err(match self.unit.fault.take() {
                            Some(fault) => self.shared.stopped(*fault, id, number),
                            None => DispatchError::Invalid {
                                kernel: self.shared.dispatch.name.clone(),
                                what: "a wave stopped without a reason".to_owned(),
                            },
                        });
                    }
                }
                if self.shared.failed.load(Ordering::Relaxed) {
                    return Ok(Turn::Spins);
                }
            }
            if resident.group.live == 0 {
                return Ok(Turn::Ended);
            }
            if spins && !advanced {
                return Ok(Turn::Spins);
            }
            if !advanced && !spins {
                return Err(deadlock(self.shared, resident));
            }
        }
    }
}

fn deadlock(shared: &Shared<'_>, resident: &Resident) -> DispatchError {
    let waits = resident.waves.iter().filter_map(|w| match w.waiting {
        Waiting::Barrier(slot) => Some(format!(
            "wave {} at barrier {slot} (before {:#x})",
            w.index, w.pc
        )),
        _ => None,
    });
    let what = format!(
        "deadlock, no wave can go on: {}",
        waits.collect::<Vec<_>>().join(", ")
    );
    DispatchError::Deadlock {
        kernel: shared.dispatch.name.clone(),
        workgroup: resident.group.id,
        what,
    }
}
