//! Descriptors that the driver makes itself, and what they refer to.
//! Raw system calls only, since libc's names are interposed in this process.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

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

/// Whether two descriptors of this process are duplicates of each other: one open file. `None` where the host does not
/// say, for `kcmp` may be forbidden.
pub(crate) fn is_duplicate(one: BorrowedFd<'_>, other: RawFd) -> Option<bool> {
    /// `KCMP_FILE` of `linux/kcmp.h`.
    const FILE: libc::c_int = 0;
    let process = rustix::process::getpid().as_raw_nonzero().get();
    let one = one.as_raw_fd();
    // SAFETY: the call compares two entries of this process's table of descriptors, and changes nothing.
    let answer = unsafe { libc::syscall(libc::SYS_kcmp, process, process, FILE, one, other) };
    (answer >= 0).then_some(answer == 0)
}
