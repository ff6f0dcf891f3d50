//! Host memory behind GPU addresses: whole pages that the kernel commits on first touch, so that a large
//! allocation costs nothing until it is used. Where the bytes live is the storage's [`Origin`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::mm::{MapFlags, ProtFlags};

use super::arena::Arena;
use super::fd::HostFd;
use super::kept::{InUse, KeptFd};
use super::lent::LENT;
use super::lost;

/// Size of a page of the simulated GPU, and the unit that storage is rounded to, in bytes.
pub const PAGE: u64 = 4096;

/// Where the bytes of a [`Storage`] live.
#[derive(Debug)]
enum Origin {
    /// Memory private to this process.
    Anonymous,
    /// A range of an arena; its pages are given back when the storage is dropped.
    Arena { arena: Arc<Arena>, offset: u64 },
    /// A range of a memfd that another process, or another driver of this one, made. The descriptor is held
    /// until the end: it is what keeps the range alive.
    Imported { fd: KeptFd, offset: u64 },
    /// Pages of the program itself, which it may unmap at any time.
    Borrowed,
}

/// A run of host pages with one life: mapped once by us, at an address of our choice, until dropped.
/// Shared by everything that maps it for a GPU.
#[derive(Debug)]
pub struct Storage {
    base: NonNull<u8>,
    bytes: usize,
    /// Bytes that are mapped before `base` and belong to the storage: the arena's header page.
    head: usize,
    /// Whether a descriptor that names the range was made: other processes may have it.
    shared: AtomicBool,
    origin: Origin,
}

// SAFETY: the mapping belongs to the value and is not tied to a thread; all access to its bytes
// goes through raw pointers or the copying methods below, whose contracts name the races.
unsafe impl Send for Storage {}
// SAFETY: as above.
unsafe impl Sync for Storage {}

impl Storage {
    /// Maps `bytes` zero bytes that only this process sees.
    ///
    /// # Errors
    /// The host refuses, or `bytes` is no positive multiple of [`PAGE`].
    pub fn anonymous(bytes: u64) -> io::Result<Arc<Storage>> {
        let bytes = whole_pages(bytes)?;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        Self::new(base.cast(), bytes, 0, Origin::Anonymous)
    }

    /// Maps `bytes` at `offset` of a memfd that holds them already, and keeps the descriptor.
    ///
    /// # Errors
    /// The host refuses, `bytes` or `offset` is no multiple of [`PAGE`], or `bytes` is zero.
    pub fn import(fd: HostFd, offset: u64, bytes: u64) -> io::Result<Arc<Storage>> {
        let bytes = whole_pages(bytes)?;
        let base = map_shared(fd.as_fd(), offset, bytes, None)?;
        let fd = KeptFd::new(fd.into_owned(), "an imported buffer")?;
        Self::new(base, bytes, 0, Origin::Imported { fd, offset })
    }

    /// Names `bytes` of this process's own memory at `base`, without owning them. From now on accesses in a
    /// [`Flight`](super::Flight) survive that they are gone.
    ///
    /// # Errors
    /// `base` or `bytes` is no positive multiple of [`PAGE`].
    ///
    /// # Safety
    /// Whoever maps the storage unmaps it from every [`Memory`](super::Memory) before other memory comes to the place of the
    /// pages, and the pages may be read, and if mapped for writing be written, at any time until then.
    pub unsafe fn borrowed(base: u64, bytes: u64) -> io::Result<Arc<Storage>> {
        if !base.is_multiple_of(PAGE) || base.checked_add(bytes).is_none() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        LENT.note(base, base + bytes);
        lost::arm();
        Self::new(base as *mut u8, whole_pages(bytes)?, 0, Origin::Borrowed)
    }

    /// Maps a range of an arena and the header page before `offset`; the latter at host address `at`, which is reserved.
    pub(super) fn in_arena(
        arena: Arc<Arena>,
        offset: u64,
        bytes: u64,
        at: Option<u64>,
    ) -> io::Result<Arc<Storage>> {
        let bytes = whole_pages(bytes)?;
        let head = PAGE as usize;
        let start = map_shared(arena.fd()?.as_fd(), offset - PAGE, bytes + head, at)?;
        Self::new(
            start.wrapping_add(head),
            bytes,
            head,
            Origin::Arena { arena, offset },
        )
    }

    fn new(base: *mut u8, bytes: usize, head: usize, origin: Origin) -> io::Result<Arc<Storage>> {
        let base = NonNull::new(base).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Arc::new(Storage {
            base,
            bytes,
            head,
            shared: AtomicBool::new(false),
            origin,
        }))
    }

    /// Host address of the first byte.
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Size in bytes, whole pages.
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// The file behind the bytes and their offset in it, unless they are anonymous or borrowed, or the program has
    /// closed the file.
    pub fn file(&self) -> Option<(InUse<'_>, u64)> {
        match &self.origin {
            Origin::Arena { arena, offset } => Some((arena.fd().ok()?, *offset)),
            Origin::Imported { fd, offset } => Some((fd.get().ok()?, *offset)),
            Origin::Anonymous | Origin::Borrowed => None,
        }
    }

    /// Where the bytes lie in their file, unless they are anonymous or borrowed.
    pub fn offset(&self) -> Option<u64> {
        match self.origin {
            Origin::Arena { offset, .. } | Origin::Imported { offset, .. } => Some(offset),
            Origin::Anonymous | Origin::Borrowed => None,
        }
    }

    /// The arena that the bytes are a range of.
    pub fn arena(&self) -> Option<&Arc<Arena>> {
        match &self.origin {
            Origin::Arena { arena, .. } => Some(arena),
            _ => None,
        }
    }

    /// Whether the pages are the program's own.
    pub fn is_borrowed(&self) -> bool {
        matches!(self.origin, Origin::Borrowed)
    }

    /// Writes `header` at the start of the page before the data of an arena range, where other processes that
    /// get a descriptor of the arena look. `false` for storage of another origin, or if it is longer than a page.
    pub fn set_header(&self, header: &[u8]) -> bool {
        if self.head < header.len() {
            return false;
        }
        // SAFETY: the `head` bytes before `base` are mapped with it and belong to this storage.
        unsafe {
            let to = self.base.as_ptr().sub(self.head);
            std::ptr::copy_nonoverlapping(header.as_ptr(), to, header.len());
        }
        true
    }

    /// Notes that other processes may have the range, or come to have it: [`Storage::share`] does so itself.
    pub fn mark_shared(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }

    /// Whether the page at `offset` is a hole of the file behind the storage: nobody has written or read it
    /// through any mapping. `false` where that cannot be known.
    pub fn is_untouched(&self, offset: u64) -> bool {
        let page = offset - offset % PAGE;
        let inside = page
            .checked_add(PAGE)
            .is_some_and(|end| end <= self.bytes());
        let Some((fd, start)) = self.file().filter(|_| inside) else {
            return false;
        };
        match rustix::fs::seek(&fd, SeekFrom::Data(start + page)) {
            Ok(data) => data >= start + page + PAGE,
            // There is no data behind.
            Err(error) => error == rustix::io::Errno::NXIO,
        }
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
        // SAFETY: as in `read`; our own mappings are writable, and borrowed pages by their contract.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        true
    }

    fn word(&self, offset: u64) -> Option<&AtomicU64> {
        let host = self.pointer(offset, 8)?;
        // SAFETY: eight aligned bytes inside the mapping, which lives as long as `self`; all sides use atomics
        // or raw copies.
        (host.addr().is_multiple_of(8)).then(|| unsafe { AtomicU64::from_ptr(host.cast()) })
    }

    /// Loads an aligned doubleword (acquire). `None` if it is not inside.
    pub fn load_u64(&self, offset: u64) -> Option<u64> {
        Some(self.word(offset)?.load(Ordering::Acquire))
    }

    /// Stores an aligned doubleword (release). `false` if it is not inside.
    pub fn store_u64(&self, offset: u64, value: u64) -> bool {
        let word = self.word(offset);
        if let Some(word) = word {
            word.store(value, Ordering::Release);
        }
        word.is_some()
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
        if !self.is_borrowed() {
            let start = self.base.as_ptr().wrapping_sub(self.head);
            // SAFETY: the range was mapped when the storage was made and is unmapped nowhere else. A failure
            // would only leave it mapped.
            let _ = unsafe { rustix::mm::munmap(start.cast(), self.bytes + self.head) };
        }
        if let Origin::Arena { arena, offset } = &self.origin {
            arena.give_back(*offset, self.bytes as u64, *self.shared.get_mut());
        }
    }
}

/// Frees the pages of a range of a memfd; it reads as zeros from then on.
pub(super) fn punch(fd: BorrowedFd<'_>, offset: u64, bytes: u64) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(rustix::fs::fallocate(fd, flags, offset, bytes)?)
}

fn whole_pages(bytes: u64) -> io::Result<usize> {
    if bytes == 0 || !bytes.is_multiple_of(PAGE) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory.into())
}

/// Maps a range of a file for reading and writing; at `reserved`, if given, which is the caller's reservation.
fn map_shared(
    fd: BorrowedFd<'_>,
    offset: u64,
    bytes: usize,
    reserved: Option<u64>,
) -> io::Result<*mut u8> {
    if !offset.is_multiple_of(PAGE) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let (at, fixed) = match reserved {
        Some(at) => (at, MapFlags::FIXED),
        None => (0, MapFlags::empty()),
    };
    // SAFETY: the mapping goes to an address of the kernel's choice, or replaces a part of the arena's own
    // reservation that is given out once.
    let base = unsafe {
        rustix::mm::mmap(
            at as *mut std::ffi::c_void,
            bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED | MapFlags::NORESERVE | fixed,
            fd,
            offset,
        )?
    };
    Ok(base.cast())
}
