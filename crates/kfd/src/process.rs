//! What concerns the whole process: version, apertures, the binding of render nodes, policies.

use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::abi::*;
use crate::drm::gb_addr_config;
use crate::table::{Call, Handled};

/// First and last byte of the LDS, scratch and gpuvm apertures, the same on GFX9 to GFX12.
const LDS: (u64, u64) = (1 << 48, (1 << 48) + 0xffff_ffff);
const SCRATCH: (u64, u64) = (2 << 48, (2 << 48) + 0xffff_ffff);
const GPUVM: (u64, u64) = (0x1_0000, 0x7fff_ffff_ffff);

/// A lock whose holder never leaves what it guards half changed: poison is not looked at.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn version(call: &Call<'_>, args: &mut GetVersion) -> Handled {
    args.major_version = 1;
    args.minor_version = call.driver.machine().options.kfd_version.minor();
    Ok(())
}

fn apertures_of(gpu_id: u32) -> ProcessDeviceApertures {
    ProcessDeviceApertures {
        lds_base: LDS.0,
        lds_limit: LDS.1,
        scratch_base: SCRATCH.0,
        scratch_limit: SCRATCH.1,
        gpuvm_base: GPUVM.0,
        gpuvm_limit: GPUVM.1,
        gpu_id,
        pad: 0,
    }
}

pub(crate) fn apertures(call: &Call<'_>, args: &mut GetProcessApertures) -> Handled {
    let gpus = call.driver.gpus();
    for (slot, gpu) in args.process_apertures.iter_mut().zip(gpus) {
        *slot = apertures_of(gpu.identity.gpu_id);
    }
    args.num_of_nodes = gpus.len().min(args.process_apertures.len()) as u32;
    Ok(())
}

/// With a capacity of 0 only counts the GPUs.
pub(crate) fn apertures_new(call: &Call<'_>, args: &mut GetProcessAperturesNew) -> Handled {
    let gpus = call.driver.gpus();
    let capacity = args.num_of_nodes as usize;
    args.num_of_nodes = gpus.len() as u32;
    if capacity == 0 {
        return Ok(());
    }
    let all: Vec<_> = gpus
        .iter()
        .take(capacity)
        .map(|gpu| apertures_of(gpu.identity.gpu_id))
        .collect();
    args.num_of_nodes = all.len() as u32;
    call.user()
        .write_value(args.kfd_process_device_apertures_ptr, all.as_slice())
}

/// Binds a render node's file to the context. The same file again is fine, another one is `EBUSY`.
pub(crate) fn acquire_vm(call: &Call<'_>, args: &mut AcquireVm) -> Handled {
    let index = call.driver.gpu_index(args.gpu_id)?;
    if args.drm_fd < 0 {
        return Err(Errno::INVAL);
    }
    // SAFETY: borrowed only while this call runs; a descriptor that is closed meanwhile makes the
    // look-up fail, nothing else.
    let fd = unsafe { BorrowedFd::borrow_raw(args.drm_fd) };
    let file = call.driver.render_file(fd).ok_or(Errno::INVAL)?;
    if file.gpu != index {
        return Err(Errno::INVAL);
    }
    let mut vm = call.context.gpus[index].vm.lock();
    match &*vm {
        Some(bound) if Arc::ptr_eq(bound, &file) => Ok(()),
        Some(_) => Err(Errno::BUSY),
        None => {
            let mut owner = file.bound.lock();
            if owner.as_ref().is_some_and(|owner| owner.strong_count() > 0) {
                return Err(Errno::BUSY);
            }
            *owner = Some(Arc::downgrade(call.context));
            drop(owner);
            call.context.ranges.attach(index, &file.memory);
            *vm = Some(file);
            Ok(())
        }
    }
}

pub(crate) fn set_memory_policy(call: &Call<'_>, args: &mut SetMemoryPolicy) -> Handled {
    call.driver.gpu_index(args.gpu_id)?;
    // KFD_IOC_CACHE_POLICY_COHERENT is 0, NONCOHERENT 1.
    if args.default_policy > 1 || args.alternate_policy > 1 {
        return Err(Errno::INVAL);
    }
    Ok(())
}

pub(crate) fn set_scratch_backing_va(call: &Call<'_>, args: &mut SetScratchBackingVa) -> Handled {
    call.driver.gpu_index(args.gpu_id)?;
    Ok(())
}

pub(crate) fn set_trap_handler(call: &Call<'_>, args: &mut SetTrapHandler) -> Handled {
    call.driver.gpu_index(args.gpu_id)?;
    Ok(())
}

/// GFX9 and later have no tiling tables.
pub(crate) fn tile_config(call: &Call<'_>, args: &mut GetTileConfig) -> Handled {
    let index = call.driver.gpu_index(args.gpu_id)?;
    args.num_tile_configs = 0;
    args.num_macro_tile_configs = 0;
    args.gb_addr_config = gb_addr_config(&call.driver.machine().gpus[index]);
    args.num_banks = 0;
    args.num_ranks = 0;
    Ok(())
}

/// Mode bit 0 enables, bit 1 asks for saved ttmp registers. There is no debugger interface, so
/// that nothing follows from it but the answers to repeated calls.
pub(crate) fn runtime_enable(call: &Call<'_>, args: &mut RuntimeEnable) -> Handled {
    let mut enabled = call.context.runtime_enabled.lock();
    if args.mode_mask & 1 != 0 {
        if *enabled {
            return Err(Errno::BUSY);
        }
        if call.context.queues.count() > 0 {
            return Err(Errno::EXIST);
        }
        *enabled = true;
    } else {
        *enabled = false;
    }
    args.capabilities_mask = 0;
    Ok(())
}

/// Tells a forked child from the process that made the mark, without a system call: the kernel
/// gives the child a zero page in its place.
#[derive(Debug)]
pub(crate) struct ForkMark {
    page: NonNull<AtomicU8>,
    pid: rustix::process::Pid,
}

// SAFETY: the page belongs to the value and holds one atomic.
unsafe impl Send for ForkMark {}
// SAFETY: as above.
unsafe impl Sync for ForkMark {}

impl ForkMark {
    const PAGE: usize = 4096;

    pub(crate) fn new() -> Result<ForkMark, Errno> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no existing memory.
        let page = unsafe {
            let page = mmap_anonymous(null_mut(), Self::PAGE, protection, MapFlags::PRIVATE)?;
            madvise(page, Self::PAGE, Advice::LinuxWipeOnFork)?;
            page
        };
        let page = NonNull::new(page.cast::<AtomicU8>()).ok_or(Errno::NOMEM)?;
        // SAFETY: the page is mapped, writable and ours.
        unsafe { page.as_ref() }.store(1, Ordering::Relaxed);
        Ok(ForkMark {
            page,
            pid: rustix::process::getpid(),
        })
    }

    /// Whether this process is a forked child.
    pub(crate) fn is_forked(&self) -> bool {
        // SAFETY: the page stays mapped as long as the value.
        unsafe { self.page.as_ref() }.load(Ordering::Relaxed) == 0
    }

    /// Whether this is the very process: a `vfork` child shares the page, so that only its number
    /// tells.
    pub(crate) fn is_own_process(&self) -> bool {
        !self.is_forked() && rustix::process::getpid() == self.pid
    }
}

impl Drop for ForkMark {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, unmapped nowhere else.
        let _ = unsafe { munmap(self.page.as_ptr().cast(), Self::PAGE) };
    }
}
