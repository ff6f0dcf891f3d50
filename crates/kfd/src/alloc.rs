//! Allocations: ALLOC_MEMORY_OF_GPU, FREE, MAP, UNMAP, AVAILABLE_MEMORY.
//! Errors as `kfd_chardev.c` and `amdgpu_amdkfd_gpuvm.c` give them.

use std::collections::BTreeMap;
use std::sync::Arc;

use rocjitsu_gpu::lock::{Mutex, Rank};
use rocjitsu_gpu::memory::{Access, Memory, PAGE, Storage};
use rustix::io::Errno;

use crate::abi::{
    AllocMemoryOfGpu, FreeMemoryOfGpu, GetAvailableMemory, MapMemory, alloc_flags as flag,
};
use crate::buffer::{Buffer, Made};
use crate::context::Context;
use crate::queue::SLICE;
use crate::redzone::Room;
use crate::svm::Ranges;
use crate::table::{Call, Handled};

/// Last address that GPUs reach, exclusive.
const ADDRESSES: u64 = 0x7fff_ffff_f000;
/// Flags that there are.
const FLAGS: u32 = flag::VRAM
    | flag::GTT
    | flag::USERPTR
    | flag::DOORBELL
    | flag::MMIO_REMAP
    | flag::CONTIGUOUS
    | flag::EXT_COHERENT
    | flag::UNCACHED
    | flag::COHERENT
    | flag::AQL_QUEUE_MEM
    | flag::NO_SUBSTITUTE
    | flag::PUBLIC
    | flag::EXECUTABLE
    | flag::WRITABLE;
/// Bytes of the event page: 4096 slots.
pub(crate) const EVENT_PAGE: u64 = 4096 * 8;

/// The allocations of one context, by handle.
#[derive(Debug)]
pub(crate) struct Allocations {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    by_handle: BTreeMap<u64, Allocation>,
    /// Low half of the handle given last.
    last: u32,
}

/// What lies behind an allocation.
#[derive(Clone, Debug)]
pub(crate) enum Backing {
    /// The driver's own memory.
    Buffer(Arc<Buffer>),
    /// The context's doorbells or registers.
    Pages(Arc<Storage>),
    /// The program's memory at this address.
    Host(u64),
}

/// An allocation, which GPUs see where it is mapped.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) address: u64,
    /// Whole pages.
    pub(crate) bytes: u64,
    /// What the program asked for, if that is known and less.
    asked: Option<u64>,
    pub(crate) flags: u32,
    pub(crate) backing: Backing,
    /// By index of the GPU.
    mapped: BTreeMap<usize, Mapped>,
    /// Room beside it, if that is wanted.
    _room: Vec<Room>,
}

/// A mapping in a GPU's address map, until dropped.
#[derive(Debug)]
struct Mapped {
    gpu: usize,
    memory: Arc<Memory>,
    address: u64,
    bytes: u64,
    /// Who lent the pages, for a user pointer.
    lender: Option<Arc<Ranges>>,
}

impl Drop for Mapped {
    fn drop(&mut self) {
        match &self.lender {
            Some(ranges) => ranges.take_back(self.gpu, &self.memory, self.address),
            None => {
                // The range was mapped, so it is a good one.
                let _ = self.memory.unmap(self.address, self.bytes);
            }
        }
    }
}

impl Allocation {
    /// What a GPU may do with it, and how errors call it.
    fn access(&self) -> (Access, &'static str) {
        let access = match self.flags & flag::WRITABLE {
            0 => Access::Read,
            _ => Access::ReadWrite,
        };
        let label = match &self.backing {
            Backing::Buffer(buffer) if buffer.made.flags & flag::VRAM != 0 => "VRAM",
            Backing::Buffer(_) => "GTT",
            Backing::Pages(_) => "doorbells or registers",
            Backing::Host(_) => "user pointer",
        };
        (access, label)
    }

    /// Makes the allocation visible at its address. Twice is as good as once.
    ///
    /// # Errors
    /// `EINVAL` without an address or if something else is mapped there; `EFAULT` if the program has unmapped
    /// what it lent.
    fn map(&mut self, gpu: usize, memory: Arc<Memory>, ranges: &Arc<Ranges>) -> Result<(), Errno> {
        if self.mapped.contains_key(&gpu) {
            return Ok(());
        }
        let (address, bytes) = (self.address, self.bytes);
        if address == 0 || memory.mapped(address, bytes).is_some() {
            return Err(Errno::INVAL);
        }
        let (access, label) = self.access();
        let mut lender = None;
        match &self.backing {
            Backing::Host(host) => {
                ranges.lend(gpu, &memory, address, *host, bytes, access)?;
                lender = Some(ranges.clone());
            }
            Backing::Buffer(buffer) => {
                // The queue memory of gfx7 and gfx8 is seen twice, one after the other.
                let part = buffer.bytes();
                for at in (0..bytes).step_by(part as usize) {
                    let storage = buffer.storage.clone();
                    memory
                        .map(address + at, storage, 0, part, access, label)
                        .map_err(|_| Errno::INVAL)?;
                }
                if self.flags & flag::EXECUTABLE == 0 {
                    memory.forbid_execution(address, bytes);
                }
                if let Some(asked) = self.asked {
                    memory.set_requested(address, asked);
                }
            }
            Backing::Pages(storage) => memory
                .map(address, storage.clone(), 0, bytes, access, label)
                .map_err(|_| Errno::INVAL)?,
        }
        let mapped = Mapped {
            gpu,
            memory,
            address,
            bytes,
            lender,
        };
        self.mapped.insert(gpu, mapped);
        Ok(())
    }
}

impl Allocations {
    pub(crate) fn new() -> Allocations {
        Allocations {
            table: Mutex::new(Rank::CONTEXT, Table::default()),
        }
    }

    /// Adds an allocation for a GPU and returns its handle.
    ///
    /// # Errors
    /// `ENOMEM` when no handle is left; `EADDRINUSE` if an SVM range lies there.
    fn insert(&self, gpu_id: u32, allocation: Allocation, ranges: &Ranges) -> Result<u64, Errno> {
        let mut table = self.table.lock();
        // Without an address nothing can be in the way.
        if allocation.address != 0 && ranges.has_range(allocation.address, allocation.bytes)? {
            return Err(Errno::ADDRINUSE);
        }
        if let Backing::Host(host) = allocation.backing
            && ranges.has_range(host, allocation.bytes)?
        {
            return Err(Errno::ADDRINUSE);
        }
        let last = table.last.checked_add(1).ok_or(Errno::NOMEM)?;
        table.last = last;
        let handle = u64::from(gpu_id) << 32 | u64::from(last);
        table.by_handle.insert(handle, allocation);
        Ok(handle)
    }

    /// Adds an imported buffer at `address`.
    ///
    /// # Errors
    /// `EINVAL` for a misaligned address, or one where another allocation lies; as [`Allocations::insert`].
    pub(crate) fn import(
        &self,
        gpu_id: u32,
        address: u64,
        buffer: Arc<Buffer>,
        ranges: &Ranges,
    ) -> Result<u64, Errno> {
        let bytes = buffer.bytes();
        check_address(address, bytes)?;
        if address != 0 && self.overlaps(address, bytes) {
            return Err(Errno::INVAL);
        }
        let allocation = Allocation {
            address,
            bytes,
            // The exporter knows.
            asked: None,
            // Importers may write and execute, whatever the exporter allows itself.
            flags: buffer.made.flags | flag::WRITABLE | flag::EXECUTABLE,
            backing: Backing::Buffer(buffer),
            mapped: BTreeMap::new(),
            _room: Vec::new(),
        };
        self.insert(gpu_id, allocation, ranges)
    }

    fn overlaps(&self, address: u64, bytes: u64) -> bool {
        let end = address.saturating_add(bytes);
        let table = self.table.lock();
        table.overlaps(address, end)
    }

    /// Runs `what` unless an allocation has an address in `[address, address + bytes)`; none comes meanwhile.
    ///
    /// # Errors
    /// `EADDRINUSE`; those of `what`.
    pub(crate) fn apart_from(
        &self,
        address: u64,
        bytes: u64,
        what: impl FnOnce() -> Handled,
    ) -> Handled {
        let table = self.table.lock();
        match table.overlaps(address, address.saturating_add(bytes)) {
            true => Err(Errno::ADDRINUSE),
            false => what(),
        }
    }

    /// The buffer of a handle. `None` if there is no such handle, or it has no buffer.
    pub(crate) fn buffer(&self, handle: u64) -> Option<Arc<Buffer>> {
        match &self.table.lock().by_handle.get(&handle)?.backing {
            Backing::Buffer(buffer) => Some(buffer.clone()),
            Backing::Pages(_) | Backing::Host(_) => None,
        }
    }

    /// Whether a handle names the buffer. Looked for from the newest one on: programs map what they have just allocated.
    pub(crate) fn has(&self, buffer: &Arc<Buffer>) -> bool {
        let table = self.table.lock();
        let mut allocations = table.by_handle.values().rev();
        allocations.any(
            |other| matches!(&other.backing, Backing::Buffer(known) if Arc::ptr_eq(known, buffer)),
        )
    }

    /// Whether there is such a handle.
    pub(crate) fn contains(&self, handle: u64) -> bool {
        self.table.lock().by_handle.contains_key(&handle)
    }
}

impl Table {
    fn overlaps(&self, start: u64, end: u64) -> bool {
        self.by_handle.values().any(|other| {
            let last = other.address.saturating_add(other.bytes);
            other.address != 0 && other.address < end && last > start
        })
    }
}

/// Whether an allocation may have an address; 0 is none.
fn check_address(address: u64, bytes: u64) -> Result<(), Errno> {
    let end = address.checked_add(bytes).filter(|&end| end <= ADDRESSES);
    match end {
        Some(_) if address.is_multiple_of(PAGE) => Ok(()),
        _ => Err(Errno::INVAL),
    }
}

pub(crate) fn alloc(call: &Call<'_>, args: &mut AllocMemoryOfGpu) -> Handled {
    let (driver, context) = (call.driver, call.context);
    if args.size == 0 || args.flags & !FLAGS != 0 {
        return Err(Errno::INVAL);
    }
    let index = driver.gpu_index(args.gpu_id)?;
    context.memory(index)?;
    let gpu = driver.gpus().get(index).ok_or(Errno::INVAL)?;
    let bytes = args
        .size
        .checked_next_multiple_of(PAGE)
        .ok_or(Errno::INVAL)?;
    let made = Made {
        gpu_id: args.gpu_id,
        flags: args.flags,
    };
    let buffer = |account| {
        let part = match args.flags & flag::AQL_QUEUE_MEM {
            0 => bytes,
            _ => (bytes / 2).next_multiple_of(PAGE),
        };
        driver
            .buffers()
            .allocate(&gpu.arena, part, PAGE, account, made)
            .map(Backing::Buffer)
    };
    check_address(args.va_addr, bytes)?;
    let backing = if args.flags & flag::VRAM != 0 {
        buffer(&gpu.vram)?
    } else if args.flags & flag::GTT != 0 {
        buffer(driver.gtt())?
    } else if args.flags & flag::USERPTR != 0 {
        let host = args.mmap_offset - args.mmap_offset % PAGE;
        if host == 0 {
            return Err(Errno::INVAL);
        }
        let write = args.flags & flag::WRITABLE != 0;
        context.ranges.check_host(host, bytes, write)?;
        Backing::Host(host)
    } else if args.flags & flag::DOORBELL != 0 {
        if args.size != SLICE {
            return Err(Errno::INVAL);
        }
        Backing::Pages(context.doorbells(driver, index)?.storage().clone())
    } else if args.flags & flag::MMIO_REMAP != 0 {
        if args.size != PAGE {
            return Err(Errno::INVAL);
        }
        Backing::Pages(context.registers(driver, index)?)
    } else {
        return Err(Errno::INVAL);
    };
    let bytes = match &backing {
        // Twice the buffer, if that is rounded up.
        Backing::Buffer(buffer) if args.flags & flag::AQL_QUEUE_MEM != 0 => 2 * buffer.bytes(),
        _ => bytes,
    };
    let offset = match &backing {
        Backing::Buffer(buffer) => driver.buffers().mmap_offset(buffer, &gpu.arena),
        Backing::Pages(storage) => storage.offset().ok_or(Errno::NOMEM)?,
        Backing::Host(_) => args.mmap_offset,
    };
    // The queue memory of gfx7 and gfx8 is seen twice, and what is lent has its neighbours: no end of these is known.
    let own = matches!(backing, Backing::Buffer(_)) && args.flags & flag::AQL_QUEUE_MEM == 0;
    let room = match driver.red_zones() {
        Some(zones) if own && args.va_addr != 0 => zones.beside(args.va_addr, args.va_addr + bytes),
        _ => Vec::new(),
    };
    let allocation = Allocation {
        address: args.va_addr,
        bytes,
        asked: Some(args.size).filter(|&asked| own && asked < bytes),
        flags: args.flags,
        backing,
        mapped: BTreeMap::new(),
        _room: room,
    };
    args.handle = context
        .allocations
        .insert(args.gpu_id, allocation, &context.ranges)?;
    args.mmap_offset = offset;
    Ok(())
}

/// `EPERM` for the event page, `EBUSY` while a GPU has it mapped.
pub(crate) fn free(call: &Call<'_>, args: &mut FreeMemoryOfGpu) -> Handled {
    if call.context.events.is_page(args.handle) {
        return Err(Errno::PERM);
    }
    let mut table = call.context.allocations.table.lock();
    let allocation = table.by_handle.get(&args.handle).ok_or(Errno::INVAL)?;
    if !allocation.mapped.is_empty() {
        return Err(Errno::BUSY);
    }
    let removed = table.by_handle.remove(&args.handle);
    drop(table);
    // Its storage goes without the lock.
    drop(removed);
    Ok(())
}

/// Runs `one` for each of the GPUs that MAP and UNMAP name, from the first that is not done yet.
fn each(
    call: &Call<'_>,
    args: &mut MapMemory,
    one: impl Fn(&Context, &mut Allocation, usize) -> Handled,
) -> Handled {
    if args.n_devices == 0 || args.n_success > args.n_devices {
        return Err(Errno::INVAL);
    }
    // More than there are GPUs only with repetitions; a page of them is more than anybody has.
    if args.n_devices > 1024 {
        return Err(Errno::NOMEM);
    }
    let mut ids = vec![0; args.n_devices as usize * size_of::<u32>()];
    call.user().read(args.device_ids_array_ptr, &mut ids)?;
    let (ids, _) = ids.as_chunks();
    call.driver.gpu_index((args.handle >> 32) as u32)?;
    let mut table = call.context.allocations.table.lock();
    let allocation = table.by_handle.get_mut(&args.handle).ok_or(Errno::NOMEM)?;
    for &id in ids.iter().skip(args.n_success as usize) {
        let gpu = call.driver.gpu_index(u32::from_ne_bytes(id))?;
        one(call.context, allocation, gpu)?;
        args.n_success += 1;
    }
    Ok(())
}

pub(crate) fn map(call: &Call<'_>, args: &mut MapMemory) -> Handled {
    each(call, args, |context, allocation, gpu| {
        allocation.map(gpu, context.memory(gpu)?, &context.ranges)
    })
}

/// `EINVAL` where it is not mapped. No GPU uses it any more when this returns.
pub(crate) fn unmap(call: &Call<'_>, args: &mut MapMemory) -> Handled {
    let done = each(call, args, |_, allocation, gpu| {
        let mapped = allocation.mapped.remove(&gpu);
        mapped.map(drop).ok_or(Errno::INVAL)
    });
    call.context.settle();
    done
}

pub(crate) fn available(call: &Call<'_>, args: &mut GetAvailableMemory) -> Handled {
    let index = call.driver.gpu_index(args.gpu_id)?;
    let gpu = call.driver.gpus().get(index).ok_or(Errno::INVAL)?;
    args.available = gpu.vram.available();
    Ok(())
}

/// The words of the event page.
#[derive(Debug)]
pub(crate) struct EventPage {
    storage: Arc<Storage>,
    /// The program's allocation, if it is one.
    _buffer: Option<Arc<Buffer>>,
}

impl EventPage {
    /// A page in memory of the driver's.
    pub(crate) fn own(storage: Arc<Storage>) -> Box<EventPage> {
        let _buffer = None;
        Box::new(EventPage { storage, _buffer })
    }
}

impl crate::event::Page for EventPage {
    fn load(&self, slot: u32) -> u64 {
        let word = self.storage.load_u64(u64::from(slot) * 8);
        word.unwrap_or(u64::MAX)
    }

    fn store(&self, slot: u32, value: u64) {
        // A slot beyond the page is one that nobody can signal.
        self.storage.store_u64(u64::from(slot) * 8, value);
    }
}

/// The words of the event page, in the allocation of `handle`.
///
/// # Errors
/// `EINVAL` if there is no such allocation or it is too small.
pub(crate) fn event_page(
    call: &Call<'_>,
    handle: u64,
) -> Result<Box<dyn crate::event::Page>, Errno> {
    let buffer = call.context.allocations.buffer(handle);
    let buffer = buffer.filter(|buffer| buffer.bytes() >= EVENT_PAGE);
    let buffer = buffer.ok_or(Errno::INVAL)?;
    Ok(Box::new(EventPage {
        storage: buffer.storage.clone(),
        _buffer: Some(buffer),
    }))
}
