//! One open `/dev/kfd`: the program's allocations, events and queues on every GPU.

use std::sync::{Arc, OnceLock};

use rocjitsu_gpu::dispatch::{Device, HelperPolicy, Limits, jit};
use rocjitsu_gpu::lock::Mutex;
use rocjitsu_gpu::memory::{Memory, PAGE, Storage};
use rustix::io::Errno;

use crate::alloc::{Allocations, EVENT_PAGE, EventPage};
use crate::driver::Driver;
use crate::drm::RenderFile;
use crate::event::Events;
use crate::queue::{Doorbells, Queues};
use crate::ranks;
use crate::svm::{OwnFiles, Ranges};

/// What the kernel keeps for a process that has opened `/dev/kfd`.
#[derive(Debug)]
pub(crate) struct Context {
    /// Before what they run on: queues stop first.
    pub(crate) queues: Queues,
    /// Before the ranges and memories, from which they unmap themselves.
    pub(crate) allocations: Allocations,
    pub(crate) ranges: Arc<Ranges>,
    pub(crate) events: Arc<Events>,
    /// The event page that the driver made, because the program gave none.
    event_page: Mutex<Option<Arc<Storage>>>,
    /// By index of the driver's GPUs.
    pub(crate) gpus: Vec<ContextGpu>,
    /// Whether RUNTIME_ENABLE has been called.
    pub(crate) runtime_enabled: Mutex<bool>,
}

/// One GPU as a context sees it.
pub(crate) struct ContextGpu {
    /// The render node's file that ACQUIRE_VM named.
    pub(crate) vm: Mutex<Option<Arc<RenderFile>>>,
    /// What executes; made with the first queue, for it allocates.
    device: OnceLock<Arc<Device>>,
    /// Made when they are first asked for.
    doorbells: Mutex<Option<Arc<Doorbells>>>,
    registers: Mutex<Option<Arc<Storage>>>,
}

impl ContextGpu {
    fn new() -> ContextGpu {
        ContextGpu {
            vm: Mutex::new(ranks::VM, None),
            device: OnceLock::new(),
            doorbells: Mutex::new(ranks::PAGES, None),
            registers: Mutex::new(ranks::PAGES, None),
        }
    }
}

impl std::fmt::Debug for ContextGpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ContextGpu")
            .field("vm", &self.vm)
            .finish_non_exhaustive()
    }
}

impl Context {
    pub(crate) fn new(gpus: usize, own: OwnFiles) -> Context {
        Context {
            queues: Queues::default(),
            allocations: Allocations::new(),
            ranges: Ranges::new(gpus, own),
            events: Arc::default(),
            event_page: Mutex::new(ranks::PAGES, None),
            gpus: (0..gpus).map(|_| ContextGpu::new()).collect(),
            runtime_enabled: Mutex::new(ranks::RUNTIME, false),
        }
    }

    /// The address map of a GPU.
    ///
    /// # Errors
    /// `ENODEV` before ACQUIRE_VM.
    pub(crate) fn memory(&self, gpu: usize) -> Result<Arc<Memory>, Errno> {
        let gpu = self.gpus.get(gpu).ok_or(Errno::INVAL)?;
        let vm = gpu.vm.lock();
        Ok(vm.as_ref().ok_or(Errno::NODEV)?.memory.clone())
    }

    /// Waits until no GPU uses what was unmapped before, as the driver flushes TLBs. Nobody holds a lock of the context.
    pub(crate) fn settle(&self) {
        for gpu in 0..self.gpus.len() {
            // One without an address map has nothing.
            if let Ok(memory) = self.memory(gpu) {
                memory.settle();
            }
        }
    }

    /// A GPU's doorbells: 1024 doublewords in the file of `/dev/kfd`, at an offset that is a multiple of their size.
    ///
    /// # Errors
    /// `ENOMEM` if the host refuses.
    pub(crate) fn doorbells(&self, driver: &Driver, gpu: usize) -> Result<Arc<Doorbells>, Errno> {
        let gpu = self.gpus.get(gpu).ok_or(Errno::INVAL)?;
        let mut doorbells = gpu.doorbells.lock();
        if let Some(doorbells) = &*doorbells {
            return Ok(doorbells.clone());
        }
        let made = Doorbells::new(driver.kfd_arena()).map_err(|_| Errno::NOMEM)?;
        Ok(doorbells.insert(made).clone())
    }

    /// A GPU's page of registers: HDP_MEM_FLUSH and HDP_REG_FLUSH, which need do nothing.
    ///
    /// # Errors
    /// `ENOMEM` if the host refuses.
    pub(crate) fn registers(&self, driver: &Driver, gpu: usize) -> Result<Arc<Storage>, Errno> {
        let gpu = self.gpus.get(gpu).ok_or(Errno::INVAL)?;
        let mut registers = gpu.registers.lock();
        if let Some(registers) = &*registers {
            return Ok(registers.clone());
        }
        let made = driver.kfd_arena().allocate(PAGE, PAGE);
        Ok(registers.insert(made.map_err(|_| Errno::NOMEM)?).clone())
    }

    /// Where the event page lies in the file of `/dev/kfd`; `None` if the program gave it. Without any, one is made.
    ///
    /// # Errors
    /// `ENOMEM` if the host refuses.
    pub(crate) fn event_page(&self, driver: &Driver) -> Result<Option<u64>, Errno> {
        let mut own = self.event_page.lock();
        if own.is_none() && !self.events.has_page() {
            let made = driver.kfd_arena().allocate(EVENT_PAGE, PAGE);
            let made = made.map_err(|_| Errno::NOMEM)?;
            // Another thread may just have given one.
            if let Ok(()) = self.events.set_page(None, EventPage::own(made.clone())) {
                *own = Some(made);
            }
        }
        Ok(own.as_ref().and_then(|page| page.offset()))
    }

    /// Whether `mmap` of `/dev/kfd` may map these bytes: exactly one GPU's doorbells, or its page of registers, or the
    /// event page, of which old programs map less.
    pub(crate) fn may_map(&self, offset: u64, bytes: u64) -> bool {
        let starts = |storage: &Storage| storage.offset() == Some(offset);
        let mut event_page = self.event_page.lock().clone().into_iter();
        if event_page.any(|page| starts(&page) && bytes <= page.bytes()) {
            return true;
        }
        let is = |storage: &Storage| starts(storage) && storage.bytes() == bytes;
        self.gpus.iter().any(|gpu| {
            let doorbells = gpu.doorbells.lock().clone();
            let registers = gpu.registers.lock().clone();
            doorbells.is_some_and(|doorbells| is(doorbells.storage()))
                || registers.is_some_and(|page| is(&page))
        })
    }

    /// The devices that exist.
    pub(crate) fn devices(&self) -> impl Iterator<Item = &Device> {
        self.gpus
            .iter()
            .filter_map(|gpu| gpu.device.get().map(Arc::as_ref))
    }

    /// The device that executes a GPU's dispatches on this context's memory.
    ///
    /// # Errors
    /// `EINVAL` for an index that is none, `ENODEV` before ACQUIRE_VM or if it cannot be made.
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
        // A value that is neither 0 nor 1 was refused before the program started.
        let compiler = jit::Options::from_environment().unwrap_or_default();
        let memory = self.memory(index)?;
        let device = Device::compiling(target, driver.backend(), compiler, limits, memory)
            .map_err(|_| Errno::NODEV)?
            .with_helpers(driver.helpers(index), HelperPolicy::Measured);
        Ok(gpu.device.get_or_init(|| Arc::new(device)).clone())
    }
}
