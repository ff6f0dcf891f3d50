//! What a queue's processor asks of the driver: interrupts, the clock, the report, faults.

use std::sync::Arc;

use rocjitsu_exec::memory::FaultKind;
use rocjitsu_gpu::dispatch::{Device, Dispatch, DispatchError, Options, Pause, Statistics};
use rocjitsu_gpu::memory::Memory;
use rocjitsu_gpu::queue::{DispatchReport, Engine, KernelNames, MemoryFault, Platform, QueueFault};
use rocjitsu_observe::{Observer, Plugins, Silent};

use super::exception;
use crate::abi::{HwException, MemoryException};
use crate::clock;
use crate::conductor::Conductor;
use crate::event::Events;
use crate::report::Recorder;
use crate::smi::Monitors;

/// Offsets in `amd_queue_t` (`amd_hsa_queue.h`): the write index, whose address the driver is
/// told, and the signal that learns of errors.
const WRITE_DISPATCH_ID: u64 = 56;
const INACTIVE_SIGNAL: u64 = 192;

/// `KFD_HW_EXCEPTION_GPU_HANG`, the cause that is left for faults without an address.
const GPU_HANG: u32 = 0;
/// `KFD_HW_EXCEPTION_WHOLE_GPU_RESET`.
const WHOLE_GPU_RESET: u32 = 0;

/// The driver as one queue sees it.
pub(super) struct QueuePlatform {
    pub(super) events: Arc<Events>,
    pub(super) recorder: Arc<Recorder>,
    /// Who listens to what happens to the GPU.
    pub(super) monitors: Arc<Monitors>,
    pub(super) memory: Arc<Memory>,
    /// The plugins that watch, if there are any.
    pub(super) plugins: Option<Arc<Plugins>>,
    /// Names of the kernels in that memory.
    pub(super) names: KernelNames,
    /// What works through the queue.
    pub(super) engine: Engine,
    /// Name of the GPU for messages.
    pub(super) gpu: String,
    pub(super) gpu_id: u32,
    /// Address of the write index, for an AQL queue.
    pub(super) write_index: Option<u64>,
    /// Address of the context save area, if the runtime has enabled its interface.
    pub(super) save_area: Option<u64>,
    /// Stops its waves while it is suspended.
    pub(super) pause: Pause,
    /// Who runs its dispatches, if that is not the driver, and the device for that.
    pub(super) conductor: Option<(Arc<dyn Conductor>, Arc<Device>)>,
}

impl Platform for QueuePlatform {
    fn interrupt(&self, event_id: u32) {
        self.events.interrupt(event_id);
    }

    fn clock(&self) -> u64 {
        clock::ticks()
    }

    fn observer(&self) -> &dyn Observer {
        match &self.plugins {
            Some(plugins) => &**plugins,
            None => &Silent,
        }
    }

    fn packet(&self, engine: Engine, name: &'static str) {
        self.recorder.packet(engine, name);
    }

    fn kernel_name(&self, address: u64) -> Option<String> {
        self.names.find(&self.memory, address)
    }

    fn pause(&self) -> Option<&Pause> {
        Some(&self.pause)
    }

    fn run(
        &self,
        device: &Device,
        dispatch: &Dispatch,
        options: Options<'_>,
    ) -> Result<Statistics, DispatchError> {
        match &self.conductor {
            None => device.dispatch(dispatch, options, self.observer()),
            Some((conductor, device)) => {
                conductor.run(&self.gpu, device, dispatch, options, self.observer())
            }
        }
    }

    fn counts_forms(&self) -> bool {
        self.recorder.counts_forms()
    }

    fn finished(&self, ran: &DispatchReport<'_>) {
        self.recorder.dispatch(ran);
    }
}

impl QueuePlatform {
    /// The queue has stopped: says why, and tells the program in the way that its runtime listens
    /// to. Memory faults have an event of their own; other errors of an AQL queue went to its
    /// signal, if it has one.
    pub(super) fn queue_fault(&self, fault: &QueueFault) {
        self.recorder.fault(&self.gpu, self.engine, fault);
        let raised = self
            .save_area
            .is_some_and(|area| exception::raise(&self.memory, &self.events, area, fault));
        let heard = match &fault.memory {
            Some(memory) => {
                let near = self.memory.describe(memory.address);
                say(&format!(
                    "{}: {}\n  {:#x} is {near}",
                    self.gpu, fault.text, memory.address
                ));
                self.monitors.memory_fault(self.gpu_id);
                self.events.memory_fault(self.exception(memory))
            }
            None => {
                say(&format!("{}: {}", self.gpu, fault.text));
                raised || self.has_inactive_signal()
            }
        };
        if !heard {
            self.events.hardware_fault(HwException {
                reset_type: WHOLE_GPU_RESET,
                reset_cause: GPU_HANG,
                memory_lost: 0,
                gpu_id: self.gpu_id,
                pad: [0; 4],
            });
        }
    }

    fn exception(&self, fault: &MemoryFault) -> MemoryException {
        MemoryException {
            // Pages that are there, from which nothing may be fetched, are present.
            not_present: u32::from(match fault.kind {
                FaultKind::Unmapped => true,
                FaultKind::NotAccessible => !fault.fetch,
                _ => false,
            }),
            read_only: u32::from(fault.kind == FaultKind::NotWritable),
            no_execute: u32::from(fault.fetch),
            imprecise: 0,
            va: fault.address & !0xfff,
            gpu_id: self.gpu_id,
            error_type: 0,
        }
    }

    fn has_inactive_signal(&self) -> bool {
        let mut signal = [0; 8];
        let address = self.write_index.and_then(|at| {
            at.checked_sub(WRITE_DISPATCH_ID)?
                .checked_add(INACTIVE_SIGNAL)
        });
        address.is_some_and(|at| self.memory.copy_out(at, &mut signal).is_ok()) && signal != [0; 8]
    }
}

/// A line for the person at the terminal. That it cannot be written is no reason to fail.
fn say(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "rocjitsu: {text}");
}
