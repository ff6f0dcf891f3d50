//! The file that allocations live in: one sealed, sparse memfd whose ranges are handed out once and never
//! again, so that a mapping that a program kept after a free can never show a later allocation.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

use super::fd::{HostFd, reopen};
use super::kept::{InUse, KeptFd};
use super::share::unshared;
use super::storage::{PAGE, Storage, punch};

/// Sizes to try for the file, in bytes. It is sparse; its size is what can ever be handed out.
const SIZES: [u64; 4] = [1 << 62, 1 << 56, 1 << 46, 1 << 40];

/// Bytes of host addresses to reserve at a time.
const WINDOW: u64 = 256 << 30;

/// A sparse file of pages. Each range has a header page before its data.
#[derive(Debug)]
pub struct Arena {
    fd: KeptFd,
    bytes: u64,
    cursor: Mutex<Cursor>,
    /// Dropped ranges that others still have, looked at again whenever another one is dropped.
    lingering: Mutex<Vec<(u64, u64)>>,
}

impl Arena {
    /// An empty arena; `name` shows in `/proc/self/maps`.
    ///
    /// # Errors
    /// The host refuses a memfd.
    pub fn new(name: &str) -> io::Result<Arc<Arena>> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create(name, flags)?;
        let mut sizes = SIZES.into_iter();
        let bytes = loop {
            let bytes = sizes.next().ok_or(io::ErrorKind::FileTooLarge)?;
            if rustix::fs::ftruncate(&fd, bytes).is_ok() {
                break bytes;
            }
        };
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&fd, seals)?;
        Ok(Arc::new(Arena {
            fd: KeptFd::new(fd, "memory of the GPUs")?,
            bytes,
            cursor: Mutex::default(),
            lingering: Mutex::default(),
        }))
    }

    /// Size of the file in bytes: far more than is ever used.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// `(st_dev, st_ino)` of the file, by which any descriptor of it is known.
    pub fn identity(&self) -> (u64, u64) {
        self.fd.identity()
    }

    /// The arena's own descriptor.
    ///
    /// # Errors
    /// The program has closed it.
    pub fn fd(&self) -> io::Result<InUse<'_>> {
        self.fd.get()
    }

    /// A further open file description of the arena, with a position of its own, close-on-exec.
    ///
    /// # Errors
    /// The host refuses both ways: opening it again through `/proc`, and duplicating.
    pub fn reopen(&self) -> io::Result<HostFd> {
        reopen(self.fd()?.as_fd())
    }

    /// A new range of `bytes` zero bytes, rounded up to whole pages, whose offset is a multiple of `align`.
    ///
    /// # Errors
    /// Zero bytes, an alignment that is no power of two, no room, or the host refuses.
    pub fn allocate(self: &Arc<Self>, bytes: u64, align: u64) -> io::Result<Arc<Storage>> {
        if bytes == 0 || !align.is_power_of_two() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut cursor = self.cursor.lock().unwrap_or_else(PoisonError::into_inner);
        let place = || -> Option<(u64, u64)> {
            let bytes = bytes.checked_next_multiple_of(PAGE)?;
            let offset = cursor.next.checked_add(PAGE)?;
            let offset = offset.checked_next_multiple_of(align.max(PAGE))?;
            let end = offset.checked_add(bytes)?;
            (end <= self.bytes).then_some((offset, end))
        };
        let (offset, end) = place().ok_or(io::ErrorKind::OutOfMemory)?;
        let at = cursor.window.place(offset - PAGE, end);
        cursor.next = end;
        drop(cursor);
        Storage::in_arena(self.clone(), offset, end - offset, at)
    }

    /// Frees the pages of a range and its header, if it was `shared` once nobody else has it any more. The range
    /// itself is not handed out again.
    pub(super) fn give_back(&self, offset: u64, bytes: u64, shared: bool) {
        let mut lingering = self
            .lingering
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if shared {
            lingering.push((offset, bytes));
        } else {
            self.punch(offset, bytes);
        }
        lingering.retain(|&(offset, bytes)| {
            let alone = self
                .fd()
                .is_ok_and(|fd| unshared(fd.as_fd(), offset, bytes));
            if alone {
                self.punch(offset, bytes);
            }
            !alone
        });
    }

    fn punch(&self, offset: u64, bytes: u64) {
        // A failure costs memory and nothing else: the range is never used again.
        let _ = self
            .fd()
            .and_then(|fd| punch(fd.as_fd(), offset - PAGE, bytes + PAGE));
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let cursor = self
            .cursor
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        cursor.window.release(cursor.next);
    }
}

/// Where the next range goes in the file and in the host.
#[derive(Debug, Default)]
struct Cursor {
    /// First offset that was not handed out.
    next: u64,
    window: Window,
}

/// Reserved host addresses for the part `[start, end)` of the file. Ranges that are neighbours in the file are
/// neighbours there, so the host sees one mapping: a process can only have some 65 thousand of them.
#[derive(Debug, Default)]
struct Window {
    start: u64,
    end: u64,
    host: u64,
}

impl Window {
    /// Host address for the range `[start, end)` of the file, behind all earlier ones. `None` if the host has no
    /// reservation to give; the range may lie anywhere then.
    fn place(&mut self, start: u64, end: u64) -> Option<u64> {
        if start < self.start || end > self.end {
            self.release(start);
            let bytes = (end - start).max(WINDOW);
            // SAFETY: a fresh reservation at an address of the kernel's choice touches no existing memory.
            let host = unsafe {
                rustix::mm::mmap_anonymous(
                    std::ptr::null_mut(),
                    usize::try_from(bytes).ok()?,
                    ProtFlags::empty(),
                    MapFlags::PRIVATE | MapFlags::NORESERVE,
                )
            };
            *self = Window {
                start,
                end: start + bytes,
                host: host.ok()? as u64,
            };
        }
        Some(self.host + (start - self.start))
    }

    /// Gives back the reservation for offsets from `next` on, which no range was placed in.
    fn release(&mut self, next: u64) {
        let next = next.max(self.start);
        if next < self.end {
            let host = self.host + (next - self.start);
            // SAFETY: this part is still the bare reservation that `place` made. A failure leaves it reserved.
            let _ = unsafe { rustix::mm::munmap(host as *mut _, (self.end - next) as usize) };
        }
        *self = Window::default();
    }
}
