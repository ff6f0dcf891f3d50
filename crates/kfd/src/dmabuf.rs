//! Buffers that leave the process: EXPORT_DMABUF, IMPORT_DMABUF, GET_DMABUF_INFO, and the older
//! share handles of IPC_EXPORT and IPC_IMPORT.
//!
//! A dmabuf is a descriptor that [`Storage::share`] made. A share handle names the exporter's process, its
//! descriptor of the arena and the place in it. The page before the data says what the buffer is.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd};
use std::sync::Arc;

use rocjitsu_gpu::memory::fd::HostFd;
use rocjitsu_gpu::memory::{PAGE, Storage, shared_range};
use rustix::fs::{Mode, OFlags, SealFlags};
use rustix::io::{Errno, FdFlags};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::abi::{
    ExportDmabuf, GetDmabufInfo, ImportDmabuf, IpcExportHandle, IpcImportHandle,
    alloc_flags as flag,
};
use crate::buffer::{Buffer, Made, place};
use crate::driver::Driver;
use crate::drm::metadata_of;
use crate::table::{Call, Handled};

/// First word of the page before an exported buffer.
const MAGIC: u64 = u64::from_le_bytes(*b"RJTSUBUF");

/// What the page before an exported buffer says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Header {
    magic: u64,
    bytes: u64,
    gpu_id: u32,
    flags: u32,
    /// Part of share handles, so that a wrong one is not taken.
    secret: u32,
    pad: u32,
}

/// Writes the page before the data, so that importers know what they get. Returns the secret of share handles.
fn announce(buffer: &Buffer) -> Result<u32, Errno> {
    let (file, offset) = buffer.storage.file().ok_or(Errno::INVAL)?;
    // An imported buffer has its exporter's page; one that was exported before has its own.
    if let Some(header) = header(file.as_fd(), offset) {
        return Ok(header.secret);
    }
    let header = Header {
        magic: MAGIC,
        bytes: buffer.bytes(),
        gpu_id: buffer.made.gpu_id,
        flags: buffer.made.flags,
        secret: buffer.secret(),
        pad: 0,
    };
    match buffer.storage.set_header(header.as_bytes()) {
        true => Ok(header.secret),
        false => Err(Errno::INVAL),
    }
}

/// What the page before the data at `offset` of a file says, if it was exported.
fn header(file: BorrowedFd<'_>, offset: u64) -> Option<Header> {
    let mut bytes = [0; size_of::<Header>()];
    let read = rustix::io::pread(file, &mut bytes, offset.checked_sub(PAGE)?).ok()?;
    let header = Header::read_from_bytes(&bytes).ok()?;
    (read == bytes.len() && header.magic == MAGIC).then_some(header)
}

/// A new dmabuf of a buffer.
///
/// # Errors
/// `EINVAL` for what cannot be shared; no descriptor is left.
pub(crate) fn share(buffer: &Buffer, close_on_exec: bool) -> Result<i32, Errno> {
    announce(buffer)?;
    let fd = buffer.storage.share().map_err(errno)?;
    if !close_on_exec {
        rustix::io::fcntl_setfd(&fd, FdFlags::empty())?;
    }
    Ok(fd.into_owned().into_raw_fd())
}

/// The buffer of a dmabuf, of this process or another.
///
/// # Errors
/// `EBADF` if the descriptor is not open, `EINVAL` if it is no dmabuf of this driver.
pub(crate) fn buffer_of(driver: &Driver, fd: i32) -> Result<Arc<Buffer>, Errno> {
    let fd = open_descriptor(fd)?;
    if let Some(buffer) = driver.buffers().of_descriptor(fd) {
        return Ok(buffer);
    }
    let (offset, bytes) = shared_range(fd).ok_or(Errno::INVAL)?;
    let header = header(fd, offset).filter(|header| header.bytes == bytes);
    let header = header.ok_or(Errno::INVAL)?;
    let storage = Storage::import_shared(fd).map_err(errno)?;
    driver.buffers().imported(storage, made(&header))
}

fn made(header: &Header) -> Made {
    Made {
        gpu_id: header.gpu_id,
        flags: header.flags,
    }
}

/// Borrows a descriptor that the program named.
///
/// # Errors
/// `EBADF` if it is not open.
fn open_descriptor<'a>(fd: i32) -> Result<BorrowedFd<'a>, Errno> {
    if fd < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: borrowed only for the call under way; a descriptor that is closed meanwhile makes the system calls
    // on it fail, nothing else.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    rustix::io::fcntl_getfd(fd)?;
    Ok(fd)
}

fn errno(error: io::Error) -> Errno {
    match error.kind() {
        io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput | io::ErrorKind::NotFound => {
            Errno::INVAL
        }
        _ => Errno::from_io_error(&error).unwrap_or(Errno::NOMEM),
    }
}

/// `EPERM` for user pointers, which are not the driver's to give away.
pub(crate) fn export(call: &Call<'_>, args: &mut ExportDmabuf) -> Handled {
    call.driver.gpu_index((args.handle >> 32) as u32)?;
    let allocations = &call.context.allocations;
    let Some(buffer) = allocations.buffer(args.handle) else {
        return Err(match allocations.contains(args.handle) {
            true => Errno::PERM,
            false => Errno::INVAL,
        });
    };
    let flags = OFlags::from_bits_retain(args.flags);
    args.dmabuf_fd = share(&buffer, flags.contains(OFlags::CLOEXEC))?;
    Ok(())
}

pub(crate) fn import(call: &Call<'_>, args: &mut ImportDmabuf) -> Handled {
    let gpu = call.driver.gpu_index(args.gpu_id)?;
    call.context.memory(gpu)?;
    let buffer = buffer_of(call.driver, args.dmabuf_fd)?;
    let context = call.context;
    args.handle = context
        .allocations
        .import(args.gpu_id, args.va_addr, buffer, &context.ranges)?;
    Ok(())
}

/// The size, GPU, flags and metadata of a dmabuf. Metadata that the program's buffer has no room for fail, and their size is
/// told.
///
/// # Errors
/// `EINVAL` if there is too little room; `EFAULT` for a bad pointer.
pub(crate) fn info(call: &Call<'_>, args: &mut GetDmabufInfo) -> Handled {
    let buffer = buffer_of(call.driver, args.dmabuf_fd)?;
    call.driver.gpu_index(buffer.made.gpu_id)?;
    args.size = buffer.bytes();
    args.gpu_id = buffer.made.gpu_id;
    args.flags = buffer.made.flags & (flag::VRAM | flag::GTT | flag::PUBLIC);
    // Without a pointer the kernel does not look at them.
    if args.metadata_ptr == 0 {
        return Ok(());
    }
    let (file, offset) = buffer.storage.file().ok_or(Errno::INVAL)?;
    let metadata = metadata_of(file.as_fd(), offset)?;
    let room = std::mem::replace(&mut args.metadata_size, metadata.len() as u32);
    if (room as usize) < metadata.len() {
        return Err(Errno::INVAL);
    }
    call.user().write(args.metadata_ptr, &metadata)
}

/// Pages that a share handle can name: the bits that its last two words have beside 14 of the secret.
const PAGE_BITS: u32 = 50;

pub(crate) fn ipc_export(call: &Call<'_>, args: &mut IpcExportHandle) -> Handled {
    call.driver.gpu_index(args.gpu_id)?;
    let buffer = call.context.allocations.buffer(args.handle);
    let buffer = buffer.ok_or(Errno::INVAL)?;
    let secret = announce(&buffer)?;
    buffer.storage.mark_shared();
    let (file, offset) = buffer.storage.file().ok_or(Errno::INVAL)?;
    let pages = offset / PAGE;
    if pages >> PAGE_BITS != 0 {
        return Err(Errno::NOMEM);
    }
    let last = pages | u64::from(secret & 0x3fff) << PAGE_BITS;
    args.share_handle = [
        rustix::process::getpid().as_raw_nonzero().get() as u32,
        file.as_fd().as_raw_fd() as u32,
        last as u32,
        (last >> 32) as u32,
    ];
    args.flags = buffer.made.flags;
    Ok(())
}

pub(crate) fn ipc_import(call: &Call<'_>, args: &mut IpcImportHandle) -> Handled {
    let (driver, context) = (call.driver, call.context);
    let index = driver.gpu_index(args.gpu_id)?;
    let gpu = driver.gpus().get(index).ok_or(Errno::INVAL)?;
    context.memory(index)?;
    let buffer = shared_elsewhere(driver, args.share_handle)?;
    args.handle =
        context
            .allocations
            .import(args.gpu_id, args.va_addr, buffer.clone(), &context.ranges)?;
    args.mmap_offset = driver.buffers().mmap_offset(&buffer, &gpu.arena);
    args.flags = buffer.made.flags;
    Ok(())
}

/// The buffer of a share handle.
///
/// # Errors
/// `EINVAL` if the exporter or the buffer is gone, or it never was a handle.
fn shared_elsewhere(driver: &Driver, [pid, fd, low, high]: [u32; 4]) -> Result<Arc<Buffer>, Errno> {
    let last = u64::from(low) | u64::from(high) << 32;
    let offset = (last & ((1 << PAGE_BITS) - 1))
        .checked_mul(PAGE)
        .filter(|&offset| offset >= PAGE)
        .ok_or(Errno::INVAL)?;
    let secret = (last >> PAGE_BITS) as u32;
    let path = match pid == rustix::process::getpid().as_raw_nonzero().get() as u32 {
        true => format!("/proc/self/fd/{fd}"),
        false => format!("/proc/{pid}/fd/{fd}"),
    };
    let file = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let file = HostFd::new(file.map_err(|_| Errno::INVAL)?);
    let seals = rustix::fs::fcntl_get_seals(&file).map_err(|_| Errno::INVAL)?;
    let stat = rustix::fs::fstat(&file)?;
    let header = header(file.as_fd(), offset).ok_or(Errno::INVAL)?;
    let end = offset.checked_add(header.bytes);
    let good = seals.contains(SealFlags::SHRINK | SealFlags::SEAL)
        && header.secret & 0x3fff == secret
        && header.bytes.is_multiple_of(PAGE)
        && end.is_some_and(|end| header.bytes > 0 && end <= stat.st_size as u64);
    if !good {
        return Err(Errno::INVAL);
    }
    if let Some(buffer) = driver.buffers().at(place(file.as_fd(), offset)?) {
        return Ok(buffer);
    }
    let still = |bytes: &[u8]| Header::read_from_prefix(bytes).is_ok_and(|(now, _)| now == header);
    let storage = Storage::import_range(file, offset, header.bytes, still).map_err(errno)?;
    driver.buffers().imported(storage, made(&header))
}
