//! One open `/dev/kfd`: the program's allocations, events and queues on every GPU.

use std::sync::{Arc, Mutex, OnceLock};

use rocjitsu_gpu::dispatch::{Device, Limits};
use rocjitsu_gpu::memory::Memory;
use rustix::io::Errno;

use crate::alloc::Allocations;
use crate::driver::Driver;
use crate::drm::RenderFile;
use crate::event::Events;
use crate::process::lock;
use crate::queue::{Doorbells, Queues};
use crate::svm::Ranges;

/// What the kernel keeps for a process that has opened `/dev/kfd`.
#[derive(Debug)]
pub(crate) struct Context {
    /// Stopped and dropped first, while what they use is there.
    pub(crate) queues: Queues,
    /// By index of the driver's GPUs.
    pub(crate) gpus: Vec<ContextGpu>,
    pub(crate) allocations: Allocations,
    pub(crate) ranges: Ranges,
    pub(crate) events: Arc<Events>,
    /// Whether RUNTIME_ENABLE has been called.
    pub(crate) runtime_enabled: Mutex<bool>,
}

/// One GPU as a context sees it.
pub(crate) struct ContextGpu {
    /// The render node's file that ACQUIRE_VM named.
    pub(crate) vm: Mutex<Option<Arc<RenderFile>>>,
    /// The GPU's virtual addresses.
    pub(crate) memory: Arc<Memory>,
    /// What executes; made with the first queue, for it allocates.
    device: OnceLock<Arc<Device>>,
    doorbells: Mutex<Option<Arc<Doorbells>>>,
}

impl std::fmt::Debug for ContextGpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ContextGpu")
            .field("vm", &self.vm)
            .finish_non_exhaustive()
    }
}

impl Context {
    pub(crate) fn new(driver: &Driver) -> Context {
        let gpus = driver.machine().gpus.iter().map(|gpu| ContextGpu {
            vm: Mutex::default(),
            memory: Arc::new(Memory::new(gpu.vram_bytes)),
            device: OnceLock::new(),
            doorbells: Mutex::default(),
        });
        let events = Arc::new(Events::default());
        Context {
            queues: Queues::default(),
            gpus: gpus.collect(),
            allocations: Allocations::default(),
            ranges: Ranges::default(),
            events,
            runtime_enabled: Mutex::default(),
        }
    }

    /// The doorbell slice of a GPU, made when first asked for.
    ///
    /// # Errors
    /// `EINVAL` for an index that is none, `ENOMEM`.
    pub(crate) fn doorbells(&self, driver: &Driver, gpu: usize) -> Result<Arc<Doorbells>, Errno> {
        let gpu = self.gpus.get(gpu).ok_or(Errno::INVAL)?;
        let mut doorbells = lock(&gpu.doorbells);
        if let Some(doorbells) = &*doorbells {
            return Ok(doorbells.clone());
        }
        let made = Doorbells::new(driver.kfd_arena()).map_err(|_| Errno::NOMEM)?;
        Ok(doorbells.insert(made).clone())
    }

    /// The device that executes a GPU's dispatches on this context's memory.
    ///
    /// # Errors
    /// `EINVAL` for an index that is none, `ENODEV` if it cannot be made on this host.
    pub(crate) fn device(&self, driver: &Driver, index: usize) -> Result<Arc<Device>, Errno> {
        let gpu = self.gpus.get(index).ok_or(Errno::INVAL)?;
        if let Some(device) = gpu.device.get() {
            return Ok(device.clone());
        }
        let config = driver.machine().gpus.get(index).ok_or(Errno::INVAL)?;
        let target = driver.gpus().get(index).ok_or(Errno::INVAL)?.target;
        let limits = Limits {
            compute_units: config.compute_units,
            waves_per_unit: config.simds_per_cu * config.waves_per_simd,
            lds_per_unit: config.lds_kib << 10,
            xccs: config.xccs,
        };
        let device = Device::new(target, driver.backend(), limits, gpu.memory.clone())
            .map_err(|_| Errno::NODEV)?;
        Ok(gpu.device.get_or_init(|| Arc::new(device)).clone())
    }
}
