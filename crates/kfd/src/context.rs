//! One open `/dev/kfd`: the program's allocations, events and queues on every GPU.

use std::sync::{Arc, Mutex};

use rocjitsu_gpu::memory::{Arena, Memory, PAGE, Storage};
use rustix::io::Errno;

use crate::alloc::Allocations;
use crate::driver::Driver;
use crate::drm::RenderFile;
use crate::event::Events;
use crate::process::lock;
use crate::queue::Queues;
use crate::svm::{OwnFiles, Ranges};

/// Bytes of a GPU's doorbells in one context: 1024 slots.
pub(crate) const DOORBELLS: u64 = 8192;

/// What the kernel keeps for a process that has opened `/dev/kfd`.
#[derive(Debug)]
pub(crate) struct Context {
    /// Before what they run on: queues stop first.
    pub(crate) queues: Queues,
    /// Before the ranges and memories, from which they unmap themselves.
    pub(crate) allocations: Allocations,
    pub(crate) ranges: Arc<Ranges>,
    pub(crate) events: Events,
    /// By index of the driver's GPUs.
    pub(crate) gpus: Vec<ContextGpu>,
    /// Whether RUNTIME_ENABLE has been called.
    pub(crate) runtime_enabled: Mutex<bool>,
}

/// One GPU as a context sees it.
#[derive(Debug, Default)]
pub(crate) struct ContextGpu {
    /// The render node's file that ACQUIRE_VM named.
    pub(crate) vm: Mutex<Option<Arc<RenderFile>>>,
    /// Made when they are first asked for.
    doorbells: Mutex<Option<Arc<Storage>>>,
    registers: Mutex<Option<Arc<Storage>>>,
}

impl Context {
    pub(crate) fn new(gpus: usize, own: OwnFiles) -> Context {
        Context {
            queues: Queues::default(),
            allocations: Allocations::new(),
            ranges: Ranges::new(gpus, own),
            events: Events::default(),
            gpus: (0..gpus).map(|_| ContextGpu::default()).collect(),
            runtime_enabled: Mutex::default(),
        }
    }

    /// The address map of a GPU.
    ///
    /// # Errors
    /// `ENODEV` before ACQUIRE_VM.
    pub(crate) fn memory(&self, gpu: usize) -> Result<Arc<Memory>, Errno> {
        let gpu = self.gpus.get(gpu).ok_or(Errno::INVAL)?;
        let vm = lock(&gpu.vm);
        Ok(vm.as_ref().ok_or(Errno::NODEV)?.memory.clone())
    }

    /// A GPU's doorbells: 1024 doublewords in the file of `/dev/kfd`, at an offset that is a multiple of their size.
    /// Until somebody rings they hold all ones, because the first value that is rung is 0.
    ///
    /// # Errors
    /// `ENOMEM` if the host refuses.
    pub(crate) fn doorbells(&self, driver: &Driver, gpu: usize) -> Result<Arc<Storage>, Errno> {
        let gpu = self.gpus.get(gpu).ok_or(Errno::INVAL)?;
        pages(&gpu.doorbells, driver.kfd_arena(), DOORBELLS, u64::MAX)
    }

    /// A GPU's page of registers: HDP_MEM_FLUSH and HDP_REG_FLUSH, which need do nothing.
    ///
    /// # Errors
    /// `ENOMEM` if the host refuses.
    pub(crate) fn registers(&self, driver: &Driver, gpu: usize) -> Result<Arc<Storage>, Errno> {
        let gpu = self.gpus.get(gpu).ok_or(Errno::INVAL)?;
        pages(&gpu.registers, driver.kfd_arena(), PAGE, 0)
    }

    /// Whether `mmap` of `/dev/kfd` may map these bytes: exactly one GPU's doorbells, or its page of registers.
    pub(crate) fn may_map(&self, offset: u64, bytes: u64) -> bool {
        let is = |slot: &Mutex<Option<Arc<Storage>>>| {
            lock(slot).as_ref().is_some_and(|storage| {
                storage.file().is_some_and(|(_, at)| at == offset) && storage.bytes() == bytes
            })
        };
        self.gpus
            .iter()
            .any(|gpu| is(&gpu.doorbells) || is(&gpu.registers))
    }
}

/// What is in a slot, or new storage of doublewords `value`.
fn pages(
    slot: &Mutex<Option<Arc<Storage>>>,
    arena: &Arc<Arena>,
    bytes: u64,
    value: u64,
) -> Result<Arc<Storage>, Errno> {
    let mut slot = lock(slot);
    if let Some(storage) = &*slot {
        return Ok(storage.clone());
    }
    let storage = arena.allocate(bytes, bytes).map_err(|_| Errno::NOMEM)?;
    if value != 0 {
        for offset in (0..bytes).step_by(8) {
            storage.store_u64(offset, value);
        }
    }
    *slot = Some(storage.clone());
    Ok(storage)
}
