//! Storage that other processes map: a descriptor names its range and keeps it alive.
//!
//! Each such descriptor is an open file description of the arena that holds a read lock on the range and its
//! header page. The lock travels with the descriptor to other processes, tells them the range (the kernel
//! lists it in `/proc/self/fdinfo`, wherever the file position is), and ends with the last descriptor. Pages of a
//! dropped range are given back once nobody holds a lock on them.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, SealFlags};

use super::fd::{HostFd, reopen};
use super::storage::{PAGE, Storage};

/// Bytes of the arena file that belong to the data at `offset`: from its header page on.
fn whole(offset: u64, bytes: u64) -> (u64, u64) {
    (offset - PAGE, bytes + PAGE)
}

/// Sets or removes a lock of the open file description. `false` if another description's lock is in the way.
fn set_lock(fd: BorrowedFd<'_>, kind: libc::c_int, start: u64, bytes: u64) -> io::Result<bool> {
    let lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: i64::try_from(start).map_err(io::Error::other)?,
        l_len: i64::try_from(bytes).map_err(io::Error::other)?,
        l_pid: 0,
    };
    // SAFETY: F_OFD_SETLK reads the structure and touches nothing else. `fcntl` of the C library may be the
    // driver's in this process, hence the bare system call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_fcntl,
            fd.as_raw_fd(),
            libc::F_OFD_SETLK,
            &raw const lock,
        )
    };
    if done == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::EAGAIN) => Ok(false),
        error => Err(error),
    }
}

/// Whether nobody else's lock is on a range; the caller's own one, if it has any, is gone then.
pub(super) fn unshared(fd: BorrowedFd<'_>, offset: u64, bytes: u64) -> bool {
    let (start, bytes) = whole(offset, bytes);
    let alone = set_lock(fd, libc::F_WRLCK, start, bytes).unwrap_or(false);
    if alone {
        // It can only fail as it did before, and then the lock ends with the arena.
        let _ = set_lock(fd, libc::F_UNLCK, start, bytes);
    }
    alone
}

/// The range that a descriptor of [`Storage::share`] names: offset and bytes in its file. `None` for any other one.
pub fn shared_range(fd: BorrowedFd<'_>) -> Option<(u64, u64)> {
    let seals = rustix::fs::fcntl_get_seals(fd).ok()?;
    if !seals.contains(SealFlags::SHRINK | SealFlags::SEAL) {
        return None;
    }
    let path = format!("/proc/self/fdinfo/{}", fd.as_raw_fd());
    let info =
        HostFd::new(rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?);
    let mut text = [0; 1024];
    let length = rustix::io::read(&info, &mut text).ok()?;
    let text = std::str::from_utf8(text.get(..length)?).ok()?;
    let line = text.lines().find(|line| {
        line.starts_with("lock:") && line.contains("OFDLCK") && line.contains("READ")
    })?;
    let mut words = line.split_whitespace().rev();
    let last: u64 = words.next()?.parse().ok()?;
    let start: u64 = words.next()?.parse().ok()?;
    let offset = start.checked_add(PAGE)?;
    let bytes = last.checked_add(1)?.checked_sub(offset)?;
    let size = u64::try_from(rustix::fs::fstat(fd).ok()?.st_size).ok()?;
    let good = bytes > 0 && start.is_multiple_of(PAGE) && bytes.is_multiple_of(PAGE) && last < size;
    good.then_some((offset, bytes))
}

impl Storage {
    /// A descriptor that names this storage to other processes, which map it by [`Storage::import_shared`]. The pages
    /// live as long as it is open anywhere.
    ///
    /// # Errors
    /// Anonymous and lent memory cannot be shared (`Unsupported`); the host refuses.
    pub fn share(&self) -> io::Result<HostFd> {
        let (file, offset) = self.file().ok_or(io::ErrorKind::Unsupported)?;
        self.mark_shared();
        let fd = reopen(file.as_fd())?;
        let (start, bytes) = whole(offset, self.bytes());
        match set_lock(fd.as_fd(), libc::F_RDLCK, start, bytes)? {
            true => Ok(fd),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Maps the storage that a descriptor of [`Storage::share`] names, of whatever process. It outlives the descriptor.
    ///
    /// # Errors
    /// The descriptor is none of that kind (`InvalidInput`); the host refuses.
    pub fn import_shared(fd: BorrowedFd<'_>) -> io::Result<Arc<Storage>> {
        let (offset, bytes) = shared_range(fd).ok_or(io::ErrorKind::InvalidInput)?;
        let own = HostFd::new(rustix::io::fcntl_dupfd_cloexec(fd, 0)?);
        Storage::import(own, offset, bytes)
    }

    /// Maps `bytes` at `offset` of another process's arena, as long as its storage is not dropped yet, and keeps the
    /// pages alive from then on. `check` looks at the header page once nothing can take the range away any more.
    ///
    /// # Errors
    /// `check` says no (`NotFound`); the host refuses.
    pub fn import_range(
        fd: HostFd,
        offset: u64,
        bytes: u64,
        check: impl FnOnce(&[u8]) -> bool,
    ) -> io::Result<Arc<Storage>> {
        if offset < PAGE {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (start, length) = whole(offset, bytes);
        if !set_lock(fd.as_fd(), libc::F_RDLCK, start, length)? {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut header = [0; 64];
        rustix::io::pread(&fd, &mut header, start)?;
        if !check(&header) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Storage::import(fd, offset, bytes)
    }
}
