//! Descriptors of the engine's own.
//! They are closed by a system call, because `close` of the C library may be the driver's in this process.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

/// An owned descriptor that nothing outside the engine hears of.
#[derive(Debug)]
pub struct HostFd(ManuallyDrop<OwnedFd>);

impl HostFd {
    /// Takes a descriptor over.
    pub fn new(fd: OwnedFd) -> HostFd {
        HostFd(ManuallyDrop::new(fd))
    }

    /// Gives the descriptor away, to a program for instance.
    pub fn into_owned(self) -> OwnedFd {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped and not used again.
        unsafe { ManuallyDrop::take(&mut this.0) }
    }
}

impl AsFd for HostFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for HostFd {
    fn drop(&mut self) {
        // SAFETY: the descriptor is taken out once, here, and nobody else has it.
        unsafe { rustix::io::close(ManuallyDrop::take(&mut self.0).into_raw_fd()) };
    }
}

/// A further open file description of the same file, with a position of its own; a duplicate of the old one
/// where `/proc` is not mounted. Close-on-exec.
///
/// # Errors
/// The host refuses both.
pub fn reopen(fd: BorrowedFd<'_>) -> io::Result<HostFd> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let opened = match rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        Ok(fd) => fd,
        Err(_) => rustix::io::fcntl_dupfd_cloexec(fd, 0)?,
    };
    Ok(HostFd::new(opened))
}
