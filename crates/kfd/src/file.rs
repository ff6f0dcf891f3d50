//! Descriptors that the driver makes itself, and what they refer to.
//! Raw system calls only, since libc's names are interposed in this process.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::MemfdFlags;
use rustix::io::Errno;

/// Which file a descriptor refers to: `st_dev` and `st_ino`.
pub(crate) type Identity = (u64, u64);

/// The identity of the file behind a descriptor.
pub(crate) fn identity(fd: BorrowedFd<'_>) -> Result<Identity, Errno> {
    let stat = rustix::fs::fstat(fd)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// A sparse memfd of `bytes` bytes, closed on exec.
pub(crate) fn memfd(name: &str, bytes: u64) -> Result<OwnedFd, Errno> {
    let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&fd, bytes)?;
    Ok(fd)
}
