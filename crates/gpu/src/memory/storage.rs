//! Host memory behind one allocation: whole pages from `mmap`, committed by the kernel on first
//! touch, so that a large allocation costs nothing until it is used.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// Size of a page of the simulated GPU, and the unit that storage is rounded to, in bytes.
pub const PAGE: u64 = 4096;

/// Where the bytes of an allocation come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backing {
    /// Memory private to this process.
    #[default]
    Anonymous,
    /// A memfd of exactly the allocation's size, sealed against shrinking and growing, which
    /// other mappings of the same bytes can be made from.
    Memfd,
}

/// A mapping of whole pages that is unmapped when dropped.
#[derive(Debug)]
pub struct Storage {
    base: NonNull<u8>,
    bytes: usize,
    fd: Option<OwnedFd>,
}

// SAFETY: the mapping belongs to the value and is not tied to a thread; all access to its bytes
// goes through raw pointers or the copying methods below, whose contracts name the races.
unsafe impl Send for Storage {}
// SAFETY: as above.
unsafe impl Sync for Storage {}

impl Storage {
    /// Maps `bytes` zero bytes; `bytes` must be a positive multiple of [`PAGE`].
    pub fn new(bytes: u64, backing: Backing) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let fd = match backing {
            Backing::Anonymous => None,
            Backing::Memfd => Some(sealed_memfd(bytes)?),
        };
        let (flags, raw) = match &fd {
            None => (
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
            ),
            Some(fd) => (libc::MAP_SHARED | libc::MAP_NORESERVE, fd.as_raw_fd()),
        };
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                raw,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Storage { base, bytes, fd })
    }

    /// Host address of the first byte.
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// The memfd behind the bytes, if there is one.
    pub fn fd(&self) -> Option<&OwnedFd> {
        self.fd.as_ref()
    }

    /// Copies bytes out, from `offset`. `false` if the range leaves the storage.
    ///
    /// A wave that writes the same bytes at the same time makes their values unspecified, as on
    /// a GPU; the copy itself goes byte by byte through a raw pointer.
    #[must_use]
    pub fn read(&self, offset: u64, to: &mut [u8]) -> bool {
        let Some(from) = self.pointer(offset, to.len()) else {
            return false;
        };
        // SAFETY: `pointer` checked that the range lies inside the mapping, and `to` is an
        // exclusive slice that cannot overlap it.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        true
    }

    /// Copies bytes in, at `offset`. `false` if the range leaves the storage.
    #[must_use]
    pub fn write(&self, offset: u64, from: &[u8]) -> bool {
        let Some(to) = self.pointer(offset, from.len()) else {
            return false;
        };
        // SAFETY: as in `read`; the mapping is always writable by the host.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        true
    }

    fn pointer(&self, offset: u64, bytes: usize) -> Option<*mut u8> {
        let offset = usize::try_from(offset).ok()?;
        if offset.checked_add(bytes)? > self.bytes {
            return None;
        }
        Some(self.base.as_ptr().wrapping_add(offset))
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        // SAFETY: the range was mapped in `new` and is unmapped nowhere else.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

fn sealed_memfd(bytes: usize) -> io::Result<OwnedFd> {
    // SAFETY: the name is a NUL-terminated string; the flags are valid for the call.
    let fd = unsafe {
        libc::memfd_create(
            c"rocjitsu".as_ptr(),
            libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let length = libc::off_t::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
    // SAFETY: plain system call on an owned descriptor.
    if unsafe { libc::ftruncate(fd.as_raw_fd(), length) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: plain system call on an owned descriptor.
    if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(fd)
}
