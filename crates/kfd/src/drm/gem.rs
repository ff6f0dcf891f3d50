//! GEM: buffers of a render node by handle, their mmap offsets and addresses, PRIME.
//! Errors as `amdgpu_gem.c`, `amdgpu_vm.c` and `drm_prime.c` give them.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rocjitsu_gpu::lock::{Mutex, Rank};
use rocjitsu_gpu::memory::{Access, Memory, PAGE};
use rustix::io::Errno;
use zerocopy::IntoBytes;

use super::DrmCall;
use crate::abi::{
    DrmGemClose, DrmGemCreate, DrmGemMetadata, DrmGemMmap, DrmGemOp, DrmGemVa, DrmPrimeHandle,
    alloc_flags,
};
use crate::buffer::{Buffer, Made};
use crate::dmabuf;
use crate::table::Handled;

/// Domains of a buffer (`AMDGPU_GEM_DOMAIN_*`).
mod domain {
    pub const CPU: u64 = 1;
    pub const GTT: u64 = 2;
    pub const VRAM: u64 = 4;
}

/// `AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED`.
const CPU_ACCESS: u64 = 1;

/// Operations and flags of GEM_VA (`AMDGPU_VA_OP_*`, `AMDGPU_VM_PAGE_*`).
mod va {
    pub const MAP: u32 = 1;
    pub const UNMAP: u32 = 2;
    pub const CLEAR: u32 = 3;
    pub const REPLACE: u32 = 4;
    pub const DELAY_UPDATE: u32 = 1;
    pub const READABLE: u32 = 2;
    pub const WRITEABLE: u32 = 4;
    pub const EXECUTABLE: u32 = 8;
    pub const MTYPE: u32 = 0xf << 5;
    pub const NOALLOC: u32 = 1 << 9;
    pub const FLAGS: u32 = DELAY_UPDATE | READABLE | WRITEABLE | EXECUTABLE | MTYPE | NOALLOC;
    /// `AMDGPU_VA_RESERVED_BOTTOM`: below is the kernel's.
    pub const BOTTOM: u64 = 2 << 20;
    pub const TOP: u64 = 0x7fff_ffff_f000;
}

/// Operations of GEM_OP (`AMDGPU_GEM_OP_*`).
mod operation {
    pub const GET_CREATE_INFO: u32 = 0;
    pub const SET_PLACEMENT: u32 = 1;
}

/// Operations of GEM_METADATA (`AMDGPU_GEM_METADATA_OP_*`), and the most bytes of data.
const SET_METADATA: u32 = 1;
const GET_METADATA: u32 = 2;
const MOST_METADATA: u32 = 256;
/// Where they lie in the page before a buffer, which goes with it to other processes.
const METADATA: u64 = 512;
/// The bytes of GEM_METADATA that lie there: all but the handle and the operation.
const NOTES: std::ops::RangeFrom<usize> = 8..;

/// Flags of PRIME_HANDLE_TO_FD: `DRM_CLOEXEC` and `DRM_RDWR`.
const CLOEXEC: u32 = 0o2_000_000;
const READ_WRITE: u32 = 2;

/// The GEM handles of one open render node.
#[derive(Debug)]
pub(crate) struct Handles {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    by_handle: BTreeMap<u32, Entry>,
    last: u32,
}

/// A buffer with a handle.
#[derive(Debug)]
struct Entry {
    buffer: Arc<Buffer>,
    /// Bytes that were asked for.
    asked: u64,
    alignment: u64,
    domains: u64,
    domain_flags: u64,
    /// What GEM_VA mapped, by address.
    mapped: BTreeMap<u64, Mapped>,
}

/// A mapping in the file's address map, until dropped.
#[derive(Debug)]
struct Mapped {
    memory: Arc<Memory>,
    address: u64,
    bytes: u64,
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // The range was mapped, so it is a good one.
        let _ = self.memory.unmap(self.address, self.bytes);
    }
}

impl Default for Handles {
    fn default() -> Self {
        Handles {
            table: Mutex::new(Rank::CONTEXT, Table::default()),
        }
    }
}

impl Handles {
    /// Whether a handle names the buffer.
    pub(super) fn has(&self, buffer: &Arc<Buffer>) -> bool {
        let table = self.table.lock();
        let mut entries = table.by_handle.values();
        entries.any(|entry| Arc::ptr_eq(&entry.buffer, buffer))
    }
}

impl Table {
    fn insert(&mut self, entry: Entry) -> Result<u32, Errno> {
        self.last = self.last.checked_add(1).ok_or(Errno::NOMEM)?;
        self.by_handle.insert(self.last, entry);
        Ok(self.last)
    }

    fn get(&self, handle: u32) -> Result<&Entry, Errno> {
        self.by_handle.get(&handle).ok_or(Errno::NOENT)
    }

    /// Unmaps what lies in `[start, end)`, of whatever handle; mappings that are only partly inside keep the rest.
    fn clear(&mut self, memory: &Arc<Memory>, start: u64, end: u64) -> Handled {
        for entry in self.by_handle.values_mut() {
            let hit: Vec<u64> = entry
                .mapped
                .range(..end)
                .filter(|(_, mapped)| mapped.address + mapped.bytes > start)
                .map(|(&address, _)| address)
                .collect();
            for address in hit {
                let Some(mapped) = entry.mapped.remove(&address) else {
                    continue;
                };
                let last = mapped.address + mapped.bytes;
                std::mem::forget(mapped);
                memory
                    .unmap(address.max(start), last.min(end) - address.max(start))
                    .map_err(|_| Errno::INVAL)?;
                for (from, to) in [(address, start), (end, last)] {
                    if from < to {
                        let rest = Mapped {
                            memory: memory.clone(),
                            address: from,
                            bytes: to - from,
                        };
                        entry.mapped.insert(from, rest);
                    }
                }
            }
        }
        Ok(())
    }
}

pub(crate) fn create(call: &DrmCall<'_>, args: &mut DrmGemCreate) -> Handled {
    let gpu = call.driver.gpus().get(call.file.gpu).ok_or(Errno::INVAL)?;
    let known = domain::CPU | domain::GTT | domain::VRAM;
    if args.bo_size == 0 || args.domains & !known != 0 {
        return Err(Errno::INVAL);
    }
    let alignment = args.alignment.max(PAGE);
    if !alignment.is_power_of_two() || alignment > 1 << 40 {
        return Err(Errno::INVAL);
    }
    let in_vram = args.domains & domain::VRAM != 0;
    let mut flags = if in_vram {
        alloc_flags::VRAM
    } else {
        alloc_flags::GTT
    };
    if in_vram && args.domain_flags & CPU_ACCESS != 0 {
        flags |= alloc_flags::PUBLIC;
    }
    let made = Made {
        gpu_id: gpu.identity.gpu_id,
        flags: flags | alloc_flags::WRITABLE | alloc_flags::EXECUTABLE,
    };
    let account = if in_vram {
        &gpu.vram
    } else {
        call.driver.gtt()
    };
    let buffer =
        call.driver
            .buffers()
            .allocate(&gpu.arena, args.bo_size, alignment, account, made)?;
    let entry = Entry {
        buffer,
        asked: args.bo_size,
        alignment: args.alignment,
        domains: args.domains,
        domain_flags: args.domain_flags,
        mapped: BTreeMap::new(),
    };
    let handle = call.file.gem.table.lock().insert(entry)?;
    args.bo_size = u64::from(handle);
    Ok(())
}

pub(crate) fn close(call: &DrmCall<'_>, args: &mut DrmGemClose) -> Handled {
    let removed = call.file.gem.table.lock().by_handle.remove(&args.handle);
    removed.map(drop).ok_or(Errno::INVAL)
}

pub(crate) fn prime_export(call: &DrmCall<'_>, args: &mut DrmPrimeHandle) -> Handled {
    if args.flags & !(CLOEXEC | READ_WRITE) != 0 {
        return Err(Errno::INVAL);
    }
    let buffer = call.file.gem.table.lock().get(args.handle)?.buffer.clone();
    args.fd = dmabuf::share(&buffer, args.flags & CLOEXEC != 0)?;
    Ok(())
}

/// A buffer that the file has already keeps its handle.
pub(crate) fn prime_import(call: &DrmCall<'_>, args: &mut DrmPrimeHandle) -> Handled {
    let buffer = dmabuf::buffer_of(call.driver, args.fd)?;
    let mut table = call.file.gem.table.lock();
    let known = table
        .by_handle
        .iter()
        .find(|(_, entry)| Arc::ptr_eq(&entry.buffer, &buffer));
    if let Some((&handle, _)) = known {
        args.handle = handle;
        return Ok(());
    }
    let in_vram = buffer.made.flags & alloc_flags::VRAM != 0;
    let public = buffer.made.flags & alloc_flags::PUBLIC != 0;
    args.handle = table.insert(Entry {
        // The exporter knows more.
        asked: buffer.bytes(),
        buffer,
        alignment: PAGE,
        domains: if in_vram { domain::VRAM } else { domain::GTT },
        domain_flags: if public { CPU_ACCESS } else { 0 },
        mapped: BTreeMap::new(),
    })?;
    Ok(())
}

pub(crate) fn mmap(call: &DrmCall<'_>, args: &mut DrmGemMmap) -> Handled {
    let gpu = call.driver.gpus().get(call.file.gpu).ok_or(Errno::INVAL)?;
    let handle = args.value as u32;
    let buffer = call.file.gem.table.lock().get(handle)?.buffer.clone();
    args.value = call.driver.buffers().mmap_offset(&buffer, &gpu.arena);
    Ok(())
}

/// Maps buffers at addresses of the file's GPU. Pages without a buffer (`AMDGPU_VM_PAGE_PRT`) are refused: compute
/// never asks for them. The GPU does not use what was unmapped any more when this returns.
pub(crate) fn va(call: &DrmCall<'_>, args: &mut DrmGemVa) -> Handled {
    let done = change_mapping(call, args);
    call.file.memory.settle();
    done
}

fn change_mapping(call: &DrmCall<'_>, args: &mut DrmGemVa) -> Handled {
    let end = args
        .va_address
        .checked_add(args.map_size)
        .filter(|&end| end <= va::TOP)
        .ok_or(Errno::INVAL)?;
    if args.va_address < va::BOTTOM || args.flags & !va::FLAGS != 0 {
        return Err(Errno::INVAL);
    }
    let aligned = [args.va_address, args.map_size, args.offset_in_bo]
        .iter()
        .all(|value| value.is_multiple_of(PAGE));
    let memory = &call.file.memory;
    let mut table = call.file.gem.table.lock();
    if args.operation != va::CLEAR {
        table.get(args.handle)?;
    }
    match args.operation {
        va::UNMAP => {
            let entry = table.by_handle.get_mut(&args.handle);
            let mapped = entry.and_then(|entry| entry.mapped.remove(&args.va_address));
            mapped.map(drop).ok_or(Errno::NOENT)
        }
        va::MAP | va::REPLACE | va::CLEAR if !aligned || args.map_size == 0 => Err(Errno::INVAL),
        va::CLEAR => table.clear(memory, args.va_address, end),
        va::MAP | va::REPLACE => {
            let entry = table.get(args.handle)?;
            let (buffer, asked) = (entry.buffer.clone(), entry.asked);
            let last = args.offset_in_bo.checked_add(args.map_size);
            if last.is_none_or(|last| last > buffer.bytes()) {
                return Err(Errno::INVAL);
            }
            if args.operation == va::REPLACE {
                table.clear(memory, args.va_address, end)?;
            }
            let access = match args.flags & (va::READABLE | va::WRITEABLE) {
                0 => Access::None,
                va::READABLE => Access::Read,
                _ => Access::ReadWrite,
            };
            memory
                .map(
                    args.va_address,
                    buffer.storage.clone(),
                    args.offset_in_bo,
                    args.map_size,
                    access,
                    "buffer object",
                )
                .map_err(|_| Errno::INVAL)?;
            if args.flags & va::EXECUTABLE == 0 {
                memory.forbid_execution(args.va_address, args.map_size);
            }
            // Where the mapping has the end of the buffer.
            let part = asked.saturating_sub(args.offset_in_bo);
            if (1..args.map_size).contains(&part)
                && asked.next_multiple_of(PAGE) == args.offset_in_bo + args.map_size
            {
                memory.set_requested(args.va_address, part);
            }
            let mapped = Mapped {
                memory: memory.clone(),
                address: args.va_address,
                bytes: args.map_size,
            };
            if let Some(entry) = table.by_handle.get_mut(&args.handle) {
                entry.mapped.insert(args.va_address, mapped);
            }
            Ok(())
        }
        _ => Err(Errno::INVAL),
    }
}

/// What a program notes on a buffer, and what importers read.
pub(crate) fn metadata(call: &DrmCall<'_>, args: &mut DrmGemMetadata) -> Handled {
    let buffer = call.file.gem.table.lock().get(args.handle)?.buffer.clone();
    let (file, offset) = buffer.storage.file().ok_or(Errno::INVAL)?;
    let at = offset.checked_sub(PAGE).ok_or(Errno::INVAL)? + METADATA;
    match args.op {
        SET_METADATA if args.data_size_bytes > MOST_METADATA => Err(Errno::INVAL),
        SET_METADATA => rustix::io::pwrite(file, &args.as_bytes()[NOTES], at).map(drop),
        GET_METADATA => rustix::io::pread(file, &mut args.as_mut_bytes()[NOTES], at).map(drop),
        _ => Err(Errno::INVAL),
    }
}

/// What a program has noted on the buffer whose data begin at `offset` of a file, without flags and tiling: at most
/// [`MOST_METADATA`] bytes.
///
/// # Errors
/// `EINVAL` for an offset without a page before it; what the host says.
pub(crate) fn metadata_of(file: BorrowedFd<'_>, offset: u64) -> Result<Vec<u8>, Errno> {
    let mut notes = DrmGemMetadata::default();
    let at = offset.checked_sub(PAGE).ok_or(Errno::INVAL)? + METADATA;
    rustix::io::pread(file, &mut notes.as_mut_bytes()[NOTES], at)?;
    // Another process may have written the page: its word is no promise.
    let most = notes.data_size_bytes.min(MOST_METADATA) as usize;
    Ok(notes.data.as_bytes()[..most].to_vec())
}

pub(crate) fn op(call: &DrmCall<'_>, args: &mut DrmGemOp) -> Handled {
    let mut table = call.file.gem.table.lock();
    let entry = table.by_handle.get_mut(&args.handle).ok_or(Errno::NOENT)?;
    match args.op {
        operation::GET_CREATE_INFO => {
            let info = DrmGemCreate {
                bo_size: entry.buffer.bytes(),
                alignment: entry.alignment,
                domains: entry.domains,
                domain_flags: entry.domain_flags,
            };
            drop(table);
            call.driver.user().write_value(args.value, &info)
        }
        // Where the bytes are makes no difference here, but what was asked for is remembered.
        operation::SET_PLACEMENT => {
            let known = domain::CPU | domain::GTT | domain::VRAM;
            if args.value & !known != 0 {
                return Err(Errno::INVAL);
            }
            entry.domains = args.value;
            Ok(())
        }
        _ => Err(Errno::INVAL),
    }
}
