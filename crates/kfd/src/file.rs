//! Descriptors that the driver makes itself: memfds and further open file descriptions of them.
//! Raw system calls only, since libc's names are interposed in this process.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::io::Errno;

/// Which file a descriptor refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

/// The identity of the file behind a descriptor.
pub(crate) fn identity(fd: BorrowedFd<'_>) -> Result<Identity, Errno> {
    let stat = rustix::fs::fstat(fd)?;
    Ok(Identity {
        device: stat.st_dev,
        inode: stat.st_ino,
    })
}

/// A sparse memfd of `bytes` bytes, closed on exec.
pub(crate) fn memfd(name: &str, bytes: u64) -> Result<OwnedFd, Errno> {
    let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&fd, bytes)?;
    Ok(fd)
}

/// Another open file description of `file`, with a file position of its own; where the kernel
/// does not let it be opened again (no `/proc`), a duplicate.
pub(crate) fn reopen(file: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let kept = flags & (OFlags::CLOEXEC | OFlags::NONBLOCK);
    match rustix::fs::open(path, OFlags::RDWR | kept, Mode::empty()) {
        Ok(fd) => Ok(fd),
        Err(_) => rustix::io::fcntl_dupfd_cloexec(file, 0),
    }
}
