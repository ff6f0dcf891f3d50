//! Buffers: storage that the driver allocated or imported, whoever names it (KFD handles of several contexts,
//! GEM handles, dmabufs), and the accounts of memory.

use std::collections::{BTreeMap, HashMap};
use std::ffi::c_void;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use rocjitsu_gpu::lock::{Mutex, Rank};
use rocjitsu_gpu::memory::{Arena, PAGE, Storage, shared_range};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

/// Offsets from here on, larger than any arena, stand for buffers that are not in the file they are mapped
/// through; the native call fails there and [`Buffers::mmap`] knows them.
const FOREIGN: u64 = 1 << 62;
/// Rank of the lock of [`Buffers`]: taken while handles and ranges are locked.
const REGISTRY: Rank = Rank(25);

/// How much of some memory is given out, in bytes: of a GPU's own, or of the system's for GPUs.
#[derive(Debug)]
pub(crate) struct Account {
    total: u64,
    used: AtomicU64,
}

impl Account {
    pub(crate) fn new(total: u64) -> Arc<Account> {
        let used = AtomicU64::new(0);
        Arc::new(Account { total, used })
    }

    /// Bytes that are free.
    pub(crate) fn available(&self) -> u64 {
        self.total.saturating_sub(self.used())
    }

    /// Bytes that are given out.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Takes `bytes` until the result is dropped.
    ///
    /// # Errors
    /// `ENOMEM` if they are not free.
    fn charge(self: &Arc<Self>, bytes: u64) -> Result<Charge, Errno> {
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|&used| used <= self.total)
            })
            .map_err(|_| Errno::NOMEM)?;
        let account = self.clone();
        Ok(Charge { account, bytes })
    }
}

/// Bytes of memory that a buffer holds.
#[derive(Debug)]
struct Charge {
    account: Arc<Account>,
    bytes: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// How a buffer was made, as importers learn it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    /// The GPU that it was allocated for.
    pub(crate) gpu_id: u32,
    /// Flags of ALLOC_MEMORY_OF_GPU, or what they would have been.
    pub(crate) flags: u32,
}

/// Storage of the driver's with what is known of it.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub(crate) storage: Arc<Storage>,
    pub(crate) made: Made,
    /// Part of share handles.
    secret: OnceLock<u32>,
    /// The mmap offset in files other than its own arena, once one is asked for.
    foreign: OnceLock<u64>,
    _charge: Option<Charge>,
}

impl Buffer {
    /// Size in bytes, whole pages.
    pub(crate) fn bytes(&self) -> u64 {
        self.storage.bytes()
    }

    /// A number that nobody can guess, always the same for one buffer.
    pub(crate) fn secret(&self) -> u32 {
        *self
            .secret
            .get_or_init(|| RandomState::new().build_hasher().finish() as u32)
    }
}

/// Where a buffer lies: file (device and inode) and offset in it.
type Place = (u64, u64, u64);

/// The buffers of the process.
#[derive(Debug)]
pub(crate) struct Buffers {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    by_place: HashMap<Place, Weak<Buffer>>,
    /// By mmap offset.
    foreign: BTreeMap<u64, Weak<Buffer>>,
    next: u64,
    /// Entries when the dead ones were last removed.
    swept: usize,
}

impl Buffers {
    pub(crate) fn new() -> Buffers {
        let state = State {
            by_place: HashMap::new(),
            foreign: BTreeMap::new(),
            next: FOREIGN,
            swept: 0,
        };
        Buffers {
            state: Mutex::new(REGISTRY, state),
        }
    }

    /// A new buffer of zeros in `arena`; `account` is charged for it.
    ///
    /// # Errors
    /// `ENOMEM` if there is no more or the host refuses.
    pub(crate) fn allocate(
        &self,
        arena: &Arc<Arena>,
        bytes: u64,
        align: u64,
        account: &Arc<Account>,
        made: Made,
    ) -> Result<Arc<Buffer>, Errno> {
        let bytes = bytes.checked_next_multiple_of(PAGE).ok_or(Errno::NOMEM)?;
        let charge = Some(account.charge(bytes)?);
        let storage = arena.allocate(bytes, align).map_err(|_| Errno::NOMEM)?;
        self.register(storage, made, charge)
    }

    /// The buffer of imported storage: the one that is there already, if this process has it.
    ///
    /// # Errors
    /// `EINVAL` for storage without a file.
    pub(crate) fn imported(&self, storage: Arc<Storage>, made: Made) -> Result<Arc<Buffer>, Errno> {
        self.register(storage, made, None)
    }

    fn register(
        &self,
        storage: Arc<Storage>,
        made: Made,
        charge: Option<Charge>,
    ) -> Result<Arc<Buffer>, Errno> {
        let place = {
            let (file, offset) = storage.file().ok_or(Errno::INVAL)?;
            place(file.as_fd(), offset)?
        };
        let mut state = self.state.lock();
        if let Some(known) = state.by_place.get(&place).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let buffer = Arc::new(Buffer {
            storage,
            made,
            secret: OnceLock::new(),
            foreign: OnceLock::new(),
            _charge: charge,
        });
        state.by_place.insert(place, Arc::downgrade(&buffer));
        state.sweep();
        Ok(buffer)
    }

    /// The buffer of this process that a dmabuf descriptor names.
    pub(crate) fn of_descriptor(&self, fd: BorrowedFd<'_>) -> Option<Arc<Buffer>> {
        let (offset, _) = shared_range(fd)?;
        self.at(place(fd, offset).ok()?)
    }

    /// The buffer of this process at an offset of a file.
    pub(crate) fn at(&self, place: Place) -> Option<Arc<Buffer>> {
        self.state.lock().by_place.get(&place)?.upgrade()
    }

    /// The buffer that [`Buffers::mmap_offset`] gave an offset for.
    pub(crate) fn at_offset(&self, arena: &Arena, offset: u64) -> Option<Arc<Buffer>> {
        if offset >= FOREIGN {
            return self.state.lock().foreign.get(&offset)?.upgrade();
        }
        let (device, inode) = arena.identity();
        self.at((device, inode, offset))
    }

    /// What the program passes to `mmap` on a descriptor of `arena` to see a buffer.
    pub(crate) fn mmap_offset(&self, buffer: &Arc<Buffer>, arena: &Arena) -> u64 {
        if let (Some(home), Some(offset)) = (buffer.storage.arena(), buffer.storage.offset())
            && home.identity() == arena.identity()
        {
            return offset;
        }
        *buffer.foreign.get_or_init(|| {
            let mut state = self.state.lock();
            let offset = state.next;
            state.next += buffer.bytes() + PAGE;
            state.foreign.insert(offset, Arc::downgrade(buffer));
            state.sweep();
            offset
        })
    }

    /// Maps a part of a buffer that is not in the file the program names, which is that of `arena`. `None` if it is in there: the
    /// native call does. `EINVAL` for what is no buffer's beginning, or goes beyond its end.
    pub(crate) fn mmap(&self, how: &Mmap, arena: &Arena) -> Option<Result<*mut c_void, Errno>> {
        if how.offset < FOREIGN {
            let (device, inode) = arena.identity();
            let buffer = self.at((device, inode, how.offset));
            let bytes = buffer.map_or(0, |buffer| buffer.bytes());
            let good = how.bytes as u64 <= bytes;
            return (!good).then_some(Err(Errno::INVAL));
        }
        let found = {
            let state = self.state.lock();
            let found = state.foreign.range(..=how.offset).next_back();
            found.and_then(|(&start, buffer)| Some((start, buffer.upgrade()?)))
        };
        let Some((start, buffer)) = found else {
            return Some(Err(Errno::INVAL));
        };
        let Some((file, at)) = buffer.storage.file() else {
            return Some(Err(Errno::INVAL));
        };
        Some(how.part(file.as_fd(), at, buffer.bytes(), how.offset - start))
    }
}

impl State {
    /// Removes the entries of buffers that are gone, once there are twice as many as last time.
    fn sweep(&mut self) {
        let now = self.by_place.len() + self.foreign.len();
        if now > 2 * self.swept + 16 {
            self.by_place.retain(|_, buffer| buffer.strong_count() > 0);
            self.foreign.retain(|_, buffer| buffer.strong_count() > 0);
            self.swept = self.by_place.len() + self.foreign.len();
        }
    }
}

/// The place of an offset of a file.
///
/// # Errors
/// The host cannot say what the descriptor is.
pub(crate) fn place(file: BorrowedFd<'_>, offset: u64) -> Result<Place, Errno> {
    let stat = rustix::fs::fstat(file)?;
    Ok((stat.st_dev, stat.st_ino, offset))
}

/// What the program passed to `mmap`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mmap {
    pub(crate) address: *mut c_void,
    pub(crate) bytes: usize,
    pub(crate) protection: i32,
    pub(crate) flags: i32,
    pub(crate) offset: u64,
}

impl Mmap {
    /// Maps a part of a buffer of `size` bytes at `start` of a file, from `offset` in the buffer on.
    ///
    /// # Errors
    /// `EINVAL` if it leaves the buffer; what the host says.
    pub(crate) fn part(
        &self,
        file: BorrowedFd<'_>,
        start: u64,
        size: u64,
        offset: u64,
    ) -> Result<*mut c_void, Errno> {
        let end = (self.bytes as u64)
            .checked_next_multiple_of(PAGE)
            .and_then(|bytes| offset.checked_add(bytes));
        if end.is_none_or(|end| end > size) {
            return Err(Errno::INVAL);
        }
        // SAFETY: this is the program's own call with another file and offset: the address and what becomes of what
        // lies there are as it asked.
        unsafe {
            rustix::mm::mmap(
                self.address,
                self.bytes,
                ProtFlags::from_bits_retain(self.protection as u32),
                MapFlags::from_bits_retain(self.flags as u32),
                file.as_fd(),
                start + offset,
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MADE: Made = Made {
        gpu_id: 7,
        flags: 1,
    };

    #[test]
    fn device_memory_is_charged_until_the_buffer_goes() {
        let (arena, buffers) = (Arena::new("test").unwrap(), Buffers::new());
        let vram = Account::new(3 * PAGE);
        let one = buffers.allocate(&arena, PAGE + 1, 1, &vram, MADE).unwrap();
        assert_eq!((one.bytes(), vram.available()), (2 * PAGE, PAGE));
        let full = buffers.allocate(&arena, 2 * PAGE, 1, &vram, MADE);
        assert_eq!(full.unwrap_err(), Errno::NOMEM);
        let huge = buffers.allocate(&arena, u64::MAX, 1, &vram, MADE);
        assert_eq!(huge.unwrap_err(), Errno::NOMEM);
        drop(one);
        assert_eq!(vram.available(), 3 * PAGE);
    }

    #[test]
    fn importing_what_is_there_gives_the_same_buffer() {
        let (arena, buffers) = (Arena::new("test").unwrap(), Buffers::new());
        let one = buffers
            .allocate(&arena, 1, 1, &Account::new(1 << 40), MADE)
            .unwrap();
        let fd = one.storage.share().unwrap();
        assert!(Arc::ptr_eq(
            &buffers.of_descriptor(fd.as_fd()).unwrap(),
            &one
        ));
        let storage = Storage::import_shared(fd.as_fd()).unwrap();
        assert!(Arc::ptr_eq(&buffers.imported(storage, MADE).unwrap(), &one));
        assert!(buffers.of_descriptor(arena.fd().unwrap().as_fd()).is_none());
        drop(one);
        assert!(buffers.of_descriptor(fd.as_fd()).is_none());
    }

    #[test]
    fn the_registry_forgets_what_is_gone() {
        let (arena, buffers) = (Arena::new("test").unwrap(), Buffers::new());
        for _ in 0..1000 {
            buffers
                .allocate(&arena, 1, 1, &Account::new(1 << 40), MADE)
                .unwrap();
        }
        assert!(buffers.state.lock().by_place.len() < 50);
    }

    #[test]
    fn foreign_offsets_map_the_storage_and_nothing_beside_it() {
        let (home, other) = (Arena::new("home").unwrap(), Arena::new("other").unwrap());
        let buffers = Buffers::new();
        let one = buffers
            .allocate(&home, 2 * PAGE, 1, &Account::new(1 << 40), MADE)
            .unwrap();
        assert_eq!(
            buffers.mmap_offset(&one, &home),
            one.storage.offset().unwrap()
        );
        let offset = buffers.mmap_offset(&one, &other);
        assert!(offset >= FOREIGN && buffers.mmap_offset(&one, &other) == offset);
        let how = |offset, bytes| Mmap {
            address: std::ptr::null_mut(),
            bytes,
            protection: 3,
            flags: 1,
            offset,
        };
        let mmap = |offset, bytes| buffers.mmap(&how(offset, bytes), &other);
        let native = |offset, bytes| buffers.mmap(&how(offset, bytes), &home);
        let start = one.storage.offset().unwrap();
        assert!(native(start, 1).is_none() && native(start, 8192).is_none());
        for (offset, bytes) in [(start, 8193), (start + PAGE, 1), (start + (1 << 30), 1)] {
            assert_eq!(native(offset, bytes), Some(Err(Errno::INVAL)));
        }
        assert_eq!(mmap(start, 1), Some(Err(Errno::INVAL)));
        assert_eq!(mmap(offset + PAGE, 4097), Some(Err(Errno::INVAL)));
        assert_eq!(mmap(offset + (1 << 30), 1), Some(Err(Errno::INVAL)));
        let at = mmap(offset + PAGE, 5).unwrap().unwrap();
        assert!(one.storage.write(PAGE, &[42]));
        // SAFETY: mapped just now, a page long.
        assert_eq!(unsafe { at.cast::<u8>().read_volatile() }, 42);
        // SAFETY: as above, and nobody else knows it.
        unsafe { rustix::mm::munmap(at, 4096) }.unwrap();
        drop(one);
        assert_eq!(mmap(offset, 1), Some(Err(Errno::INVAL)));
        assert_eq!(native(start, 1), Some(Err(Errno::INVAL)), "freed");
    }
}
