//! Queue processors: what the command processor and the DMA engines of a GPU do with the packets of a queue.
//! [`Aql`] for HSA queues, [`Pm4`] for compute queues of PM4 packets, [`Sdma`] for DMA queues.
//!
//! A processor is stepped by whoever schedules queues. It works through the packets in order, one after the
//! other: a dispatch has ended when the step that ran it returns. Rings, pointers and signals are GPU virtual addresses.
//!
//! Sources: HSA runtime specification 2.9 (AQL), `amd_hsa_queue.h` and `amd_hsa_signal.h` (the structures in
//! memory), the packet headers of the amdgpu driver (PM4, SDMA).

mod aql;
mod atomic;
mod bus;
mod names;
mod pm4;
mod ring;
mod run;
mod sdma;
mod signal;
mod transfer;

use std::sync::atomic::AtomicBool;

use rocjitsu_exec::memory::FaultKind;
use rocjitsu_observe::Observer;

use crate::dispatch::{Device, Dispatch, DispatchError, Form, Options, Pause, Statistics};

pub use aql::{Aql, AqlParams};
pub use names::{KernelNames, LoadedCode, loaded_code};
pub use pm4::{Pm4, Pm4Params};
pub use sdma::{Sdma, SdmaParams};

/// What a doorbell slot holds before anybody rang.
pub const NO_DOORBELL: u64 = u64::MAX;

/// Bits that a queue's `queue_inactive_signal` receives when the queue stops (ROCr's handlers of that signal).
pub mod error {
    /// More scratch is needed for a kernel of 64 lanes; the queue goes on when the signal is 0 again.
    pub const SCRATCH_WAVE64: u64 = 0x1;
    /// The same for a kernel of 32 lanes.
    pub const SCRATCH_WAVE32: u64 = 0x400;
    /// The scratch lent for one dispatch is no longer used.
    pub const SCRATCH_RETURNED: u64 = 0x200;
    /// Dimensions of a dispatch.
    pub const DIMENSIONS: u64 = 0x2;
    /// More LDS than a workgroup can have.
    pub const GROUP_SEGMENT: u64 = 0x4;
    /// The kernel object.
    pub const CODE_OBJECT: u64 = 0x8;
    /// The packet's type.
    pub const PACKET_FORMAT: u64 = 0x20;
    /// Work-items of a workgroup.
    pub const WORKGROUP: u64 = 0x40;
    /// More vector registers than the waves of a workgroup can have at once.
    pub const REGISTERS: u64 = 0x80;
    /// A vendor packet, or one inside of it.
    pub const VENDOR_PACKET: u64 = 0x100;
    /// A wave accessed memory that is not there.
    pub const MEMORY: u64 = 0x2000_0000;
    /// A wave came to an instruction that is none.
    pub const ILLEGAL_INSTRUCTION: u64 = 0x4000_0000;
    /// A wave executed `s_trap`.
    pub const TRAP: u64 = 0x8000_0000;
}

/// The kinds of engines that work through queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Engine {
    /// AQL packets.
    Aql,
    /// PM4 packets, also those that an AQL queue's vendor packets lead to.
    Pm4,
    /// SDMA packets.
    Sdma,
}

/// What a processor asks of the driver. Called from the thread that steps the queue, and from worker threads.
pub trait Platform: Send + Sync {
    /// An interrupt with the id of an event: its mailbox has been written. Id 0 says that the sender
    /// gave none: any event whose slot of the event page is not all ones is meant.
    fn interrupt(&self, event_id: u32);

    /// `s_sendmsg` INTERRUPT of a wave. The low bits of `data` are those of an event's id, of which the device
    /// libraries send as few as 8: by default, an interrupt without an id. The mailbox has been written.
    fn wave_interrupt(&self, _data: u32) {
        self.interrupt(0);
    }

    /// An access by a wave or a processor to memory that is not there; the queue stops.
    fn memory_fault(&self, _fault: &MemoryFault) {}

    /// The counter of 100 MHz that the driver reports as the GPU's clock; never 0.
    fn clock(&self) -> u64;

    /// Is told of dispatches.
    fn observer(&self) -> &dyn Observer;

    /// A packet begins.
    fn packet(&self, _engine: Engine, _name: &'static str) {}

    /// The name of the kernel whose descriptor (AQL) or first instruction (PM4) is at `address`.
    fn kernel_name(&self, _address: u64) -> Option<String> {
        None
    }

    /// What stops the waves of a dispatch for a while.
    fn pause(&self) -> Option<&Pause> {
        None
    }

    /// Runs a dispatch to its end.
    ///
    /// # Errors
    /// As [`Device::dispatch`].
    fn run(
        &self,
        device: &Device,
        dispatch: &Dispatch,
        options: Options<'_>,
    ) -> Result<Statistics, DispatchError> {
        device.dispatch(dispatch, options, self.observer())
    }

    /// Whether dispatches count executions by instruction form.
    fn counts_forms(&self) -> bool {
        false
    }

    /// A dispatch is over.
    fn finished(&self, _ran: &DispatchReport<'_>) {}
}

/// A dispatch that is over.
#[derive(Debug)]
pub struct DispatchReport<'a> {
    /// Name of the kernel, or where it is.
    pub kernel: &'a str,
    /// Work-items in x, y, z.
    pub grid: [u32; 3],
    /// Work-items of a workgroup in x, y, z.
    pub workgroup: [u32; 3],
    /// What it did, or why it stopped.
    pub outcome: Result<&'a Statistics, String>,
    /// Executions by instruction form, if they are counted and it came to its end.
    pub forms: Vec<(Form, u64)>,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// There was nothing to do.
    Idle,
    /// Packets were processed; there may be more.
    Worked,
    /// The next packet waits for a signal or for memory: step again later.
    Waiting,
    /// The queue has stopped for good. Every further step says so again.
    Fault(QueueFault),
}

/// Why a queue has stopped.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{text}")]
pub struct QueueFault {
    /// One of [`error`]; what an AQL queue's `queue_inactive_signal` received, unless `memory` is set.
    pub code: u64,
    /// What happened, where.
    pub text: String,
    /// The access, if it was one.
    pub memory: Option<MemoryFault>,
}

/// An access to memory that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryFault {
    /// GPU address.
    pub address: u64,
    /// Whether it was a store or an atomic.
    pub write: bool,
    /// Whether it was a fetch of instructions.
    pub fetch: bool,
    /// Why it failed.
    pub kind: FaultKind,
}

/// What the processors work with during a step.
struct Cx<'a> {
    device: &'a Device,
    bus: bus::Bus<'a>,
    platform: &'a dyn Platform,
    stop: &'a AtomicBool,
    threads: usize,
}

impl<'a> Cx<'a> {
    fn new(
        device: &'a Device,
        platform: &'a dyn Platform,
        stop: &'a AtomicBool,
        threads: usize,
    ) -> Self {
        Cx {
            device,
            bus: bus::Bus::new(device.memory()),
            platform,
            stop,
            threads,
        }
    }

    /// One step of a processor of plain commands: what `process` does, unless a fault has stopped the queue for good
    /// (`dead`) or does so now.
    fn step(
        &mut self,
        dead: &mut Option<QueueFault>,
        process: impl FnOnce(&mut Self) -> Result<Step, Trouble>,
    ) -> Step {
        if let Some(fault) = dead {
            return Step::Fault(fault.clone());
        }
        match process(self) {
            Ok(step) => step,
            Err(Trouble::Stopped) => Step::Idle,
            Err(Trouble::Fault(fault)) => {
                if let Some(memory) = &fault.memory {
                    self.platform.memory_fault(memory);
                }
                Step::Fault(dead.insert(fault).clone())
            }
        }
    }
}

/// What stops a processor in the middle of a packet.
#[derive(Debug)]
enum Trouble {
    /// The queue has to stop.
    Fault(QueueFault),
    /// The stop flag was raised: the packet stays where it is.
    Stopped,
}

impl Trouble {
    fn packet(code: u64, text: String) -> Trouble {
        Trouble::Fault(QueueFault {
            code,
            text,
            memory: None,
        })
    }
}

impl From<bus::BusFault> for Trouble {
    fn from(fault: bus::BusFault) -> Trouble {
        Trouble::Fault(QueueFault {
            code: error::MEMORY,
            text: format!("the queue processor's {fault}"),
            memory: Some(fault.fault),
        })
    }
}
