//! The GPU's virtual memory: an address map over storage that lives as long as anyone holds it. A driver maps and
//! unmaps storage; [`Memory::allocate`] is a thin allocator on top, with unmapped guard gaps between allocations.

pub mod arena;
pub mod fd;
mod flight;
mod image;
pub mod kept;
mod lent;
pub mod lost;
mod map;
pub mod maps;
mod pin;
mod share;
mod storage;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock as StdRwLock};

pub use arena::Arena;
pub use flight::{Flight, aside};
pub use image::{ImageError, MapImage, RunImage};
pub use lent::{LENT, LentFilter};
use lost::Lost;
use map::{Map, Mapping};
use pin::Need;
pub use pin::{AccessFault, Pinned};
use rocjitsu_exec::memory::{AddressSpace, Extent, FaultKind};
pub use share::shared_range;
pub use storage::{PAGE, Storage};

use crate::lock::{Mutex, Rank, RwLock};

/// First address that is handed out by default. Above 4 GiB, so that a truncated pointer faults.
const BASE: u64 = 0x7f00_0000_0000;
/// End of the GPU's virtual addresses (exclusive), the `gpuvm` aperture of GFX9 to GFX12.
const LIMIT: u64 = 0x7fff_ffff_f000;
/// Addresses for the engine's own allocations in a program's memory: 48 bits, as buffer descriptors hold, and above
/// what a program on x86-64 can map.
const OWN: std::ops::Range<u64> = 0x8000_0000_0000..0xffff_ffff_f000;
/// Bytes left unmapped after each allocation, unless [`Memory::set_guard`] says otherwise.
const GUARD: u64 = 64 * 1024;

/// What the GPU may do with an allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Nothing: an access is a fault, although the address is taken.
    None,
    /// Loads and instruction fetches.
    Read,
    /// Loads, stores and atomics.
    #[default]
    ReadWrite,
}

/// What to allocate; [`Request::new`] fills in the usual choices.
#[derive(Clone, Debug)]
pub struct Request {
    /// Size in bytes, rounded up to whole pages.
    pub bytes: u64,
    /// Alignment of the address, a power of two; at least a page.
    pub align: u64,
    /// A fixed page-aligned address, or `None` for one of the allocator's choice.
    pub address: Option<u64>,
    /// What the GPU may do with it.
    pub access: Access,
    /// What the allocation is for; appears in error texts.
    pub label: String,
}

impl Request {
    /// `bytes` of anonymous read-write memory anywhere.
    pub fn new(bytes: u64, label: impl Into<String>) -> Self {
        Request {
            bytes,
            align: PAGE,
            address: None,
            access: Access::ReadWrite,
            label: label.into(),
        }
    }
}

/// Why a request to the memory failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum MemoryError {
    #[error(
        "cannot allocate {requested} bytes for {label}: {free} of {capacity} bytes of GPU memory are free"
    )]
    OutOfMemory {
        label: String,
        requested: u64,
        free: u64,
        capacity: u64,
    },
    #[error("cannot allocate zero bytes for {0}")]
    Empty(String),
    #[error("alignment {0} of an allocation is not a power of two")]
    Alignment(u64),
    #[error(
        "address {address:#x} for {label} is not a multiple of the page size {PAGE}, or {bytes} bytes there are no whole pages or leave the address space"
    )]
    Address {
        label: String,
        address: u64,
        bytes: u64,
    },
    #[error("{bytes} bytes at {address:#x} for {label} overlap {other}")]
    Overlap {
        label: String,
        address: u64,
        bytes: u64,
        other: String,
    },
    #[error("no room for {bytes} bytes ({label}) in the GPU's virtual addresses")]
    NoAddress { label: String, bytes: u64 },
    #[error(
        "{label}: {bytes} bytes at {offset:#x} are no whole pages inside storage of {size} bytes"
    )]
    Storage {
        label: String,
        offset: u64,
        bytes: u64,
        size: u64,
    },
    #[error("no allocation starts at {0:#x}")]
    NotAllocated(u64),
    #[error("{bytes} bytes at {address:#x} are not all mapped: {near}")]
    OutOfRange {
        address: u64,
        bytes: u64,
        near: String,
    },
    #[error("the host refused {bytes} bytes for {label}: {source}")]
    Host {
        label: String,
        bytes: u64,
        source: std::io::Error,
    },
}

/// Brings in what an address map does not hold yet: the program's own memory, when the GPU may touch all of it.
pub trait Pager: Send + Sync + std::fmt::Debug {
    /// Maps what belongs at `address` into `memory`. `false` if nothing does. No lock of `memory` is held.
    fn page_in(&self, memory: &Memory, address: u64) -> bool;
}

type PagerSlot = StdRwLock<Option<Arc<dyn Pager>>>;

/// The virtual addresses of one GPU for one program. Thread-safe; waves read it through [`AddressSpace`].
#[derive(Debug)]
pub struct Memory {
    capacity: u64,
    map: RwLock<Map>,
    generation: AtomicU64,
    users: Mutex<Users>,
    pager: PagerSlot,
    /// Where [`Memory::allocate`] places.
    own: std::ops::Range<u64>,
    /// Bytes left unmapped between allocations.
    guard: AtomicU64,
    /// Where the storage of allocations comes from, if it is to be known which pages were touched.
    arena: OnceLock<Arc<Arena>>,
}

/// Who runs now, and what was unmapped and waits for them to end.
#[derive(Debug, Default)]
struct Users {
    count: usize,
    retired: Vec<(u64, Mapping)>,
}

/// While this lives, storage that is unmapped stays mapped on the host: whoever executes waves holds
/// one, so that an extent looked up just before an `unmap` never points at nothing.
#[derive(Debug)]
pub struct InUse<'a>(&'a Memory);

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        let mut users = self.0.users.lock();
        users.count -= 1;
        let retired = match users.count {
            0 => std::mem::take(&mut users.retired),
            _ => Vec::new(),
        };
        // The storage goes away after the lock.
        drop(users);
        drop(retired);
    }
}

impl Memory {
    /// A memory of which [`Memory::allocate`] gives out `capacity` bytes, all free. Nothing is committed on the host.
    pub fn new(capacity: u64) -> Self {
        let map = Map {
            next: BASE,
            ..Map::default()
        };
        Memory {
            capacity,
            map: RwLock::new(Rank::MAP, map),
            generation: AtomicU64::new(1),
            users: Mutex::new(Rank::USERS, Users::default()),
            pager: PagerSlot::default(),
            own: BASE..LIMIT,
            guard: AtomicU64::new(GUARD),
            arena: OnceLock::new(),
        }
    }

    /// Leaves at least `bytes` unmapped between all allocations from now on, so that an access past the end of one
    /// does not meet the next. In whole pages.
    pub fn set_guard(&self, bytes: u64) {
        let bytes = bytes.clamp(GUARD, LIMIT).next_multiple_of(PAGE);
        self.guard.store(bytes, Ordering::Relaxed);
    }

    /// Has allocations from now on lie where [`Memory::is_untouched`] can tell.
    ///
    /// # Errors
    /// The host makes no file in memory.
    pub fn follow_touches(&self) -> std::io::Result<()> {
        let arena = Arena::new("rocjitsu-followed")?;
        let _ = self.arena.set(arena);
        Ok(())
    }

    /// Whether [`Memory::follow_touches`] was asked for.
    pub fn follows_touches(&self) -> bool {
        self.arena.get().is_some()
    }

    /// Whether it is known that nobody has ever touched the page that holds `address`, so that it holds zeros by
    /// chance. A driver's allocations can tell, others after [`Memory::follow_touches`].
    pub fn is_untouched(&self, address: u64) -> bool {
        let map = self.map.read();
        let run = map.containing(address);
        run.is_some_and(|(start, run)| run.storage.is_untouched(address - start + run.offset))
    }

    /// A memory whose addresses belong to a program. [`Memory::allocate`] places what the engine itself needs (scratch)
    /// above all that a program can have.
    pub fn for_program() -> Self {
        let mut memory = Memory::new(LIMIT);
        memory.own = OWN;
        memory.map.write().next = OWN.start;
        memory
    }

    /// Has `pager` asked from now on about addresses where nothing is mapped.
    pub fn set_pager(&self, pager: Arc<dyn Pager>) {
        *self.pager.write().unwrap_or_else(PoisonError::into_inner) = Some(pager);
    }

    fn page_in(&self, address: u64) -> bool {
        let pager = self
            .pager
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        pager.is_some_and(|pager| pager.page_in(self, address))
    }

    /// Size in bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes that [`Memory::allocate`] gave out, in whole pages.
    pub fn used(&self) -> u64 {
        self.map.read().used
    }

    /// Declares that waves run on this memory; see [`InUse`].
    pub fn in_use(&self) -> InUse<'_> {
        self.users.lock().count += 1;
        InUse(self)
    }

    /// Maps `bytes` of `storage`, from `offset`, at `address`. All three are multiples of [`PAGE`]. The memory holds
    /// the storage until it is unmapped.
    ///
    /// # Errors
    /// [`MemoryError::Empty`], [`MemoryError::Address`], [`MemoryError::Overlap`] with what is mapped, and
    /// [`MemoryError::Storage`] if the storage is smaller.
    pub fn map(
        &self,
        address: u64,
        storage: Arc<Storage>,
        offset: u64,
        bytes: u64,
        access: Access,
        label: &str,
    ) -> Result<(), MemoryError> {
        let label = || label.to_owned();
        let end = self.range(address, bytes, label)?;
        check(&storage, offset, bytes, label)?;
        let mut map = self.map.write();
        if let Some((at, other)) = map.conflict(address, bytes, 0) {
            let other = other.describe(at);
            return Err(MemoryError::Overlap {
                label: label(),
                address,
                bytes,
                other,
            });
        }
        let run = Mapping {
            end,
            storage,
            offset,
            access,
            executable: true,
            label: label().into(),
        };
        map.runs.insert(address, run);
        Ok(())
    }

    /// Notes that of the mapping that starts at `address` only the first `bytes` were asked for, and the rest is there
    /// because memory comes in pages: [`Memory::allocation`] tells so.
    pub fn set_requested(&self, address: u64, bytes: u64) {
        let mut map = self.map.write();
        if map.runs.contains_key(&address) {
            map.requested.insert(address, bytes);
        }
    }

    /// Kernels do not run from these bytes, which are mapped: a dispatch whose first instruction lies there is a fault.
    /// Waves that jump there are not stopped: their code is decoded without a look at this.
    pub fn forbid_execution(&self, address: u64, bytes: u64) {
        let end = address.saturating_add(bytes);
        self.map.write().forbid_execution(address, end);
    }

    /// Where `address` lies, in words, if kernels do not run from there although something is mapped.
    pub fn execution_forbidden(&self, address: u64) -> Option<String> {
        let map = self.map.read();
        let (_, run) = map.containing(address)?;
        (!run.executable).then(|| map.describe(address))
    }

    /// Maps those pages of a range where nothing is mapped yet, as [`Memory::map`] does.
    ///
    /// # Errors
    /// As [`Memory::map`], but there is no overlap.
    pub fn map_gaps(
        &self,
        address: u64,
        storage: &Arc<Storage>,
        offset: u64,
        bytes: u64,
        access: Access,
        label: &str,
    ) -> Result<(), MemoryError> {
        let label = || label.to_owned();
        let end = self.range(address, bytes, label)?;
        check(storage, offset, bytes, label)?;
        let label: Arc<str> = label().into();
        let mut map = self.map.write();
        let mut at = address;
        while at < end {
            if let Some((_, run)) = map.containing(at) {
                at = run.end;
                continue;
            }
            let next = map
                .runs
                .range(at..end)
                .next()
                .map_or(end, |(&start, _)| start);
            let run = Mapping {
                end: next,
                storage: storage.clone(),
                offset: offset + (at - address),
                access,
                executable: true,
                label: label.clone(),
            };
            map.runs.insert(at, run);
            at = next;
        }
        Ok(())
    }

    /// Unmaps what the program lent in `bytes` bytes at `address`, and leaves the rest. Returns how many bytes that were.
    ///
    /// # Errors
    /// [`MemoryError::Empty`] and [`MemoryError::Address`].
    pub fn unmap_borrowed(&self, address: u64, bytes: u64) -> Result<u64, MemoryError> {
        self.unmap_if(address, bytes, Storage::is_borrowed)
    }

    /// Unmaps whatever lies in `bytes` bytes at `address`, splitting what is only partly inside. An access
    /// there is a fault from now on. Returns how many bytes were mapped.
    ///
    /// # Errors
    /// [`MemoryError::Empty`] and [`MemoryError::Address`].
    pub fn unmap(&self, address: u64, bytes: u64) -> Result<u64, MemoryError> {
        self.unmap_if(address, bytes, |_| true)
    }

    fn unmap_if(
        &self,
        address: u64,
        bytes: u64,
        which: impl Fn(&Storage) -> bool,
    ) -> Result<u64, MemoryError> {
        let end = self.range(address, bytes, || "unmap".to_owned())?;
        let mut map = self.map.write();
        let removed = map.remove(address, end, which);
        for (start, _) in &removed {
            map.requested.remove(start);
        }
        let bytes = removed.iter().map(|(start, run)| run.end - start).sum();
        if !removed.is_empty() {
            self.generation.fetch_add(1, Ordering::Release);
        }
        drop(map);
        let mut users = self.users.lock();
        if users.count > 0 {
            users.retired.extend(removed);
        }
        Ok(bytes)
    }

    /// Waits until nobody uses an address any more that was unmapped or protected before, as a driver flushes the TLBs of a
    /// GPU: a turn of waves is let come to its end, a copy a piece of it. `false` if that takes longer than a second.
    pub fn settle(&self) -> bool {
        flight::settle(self)
    }

    /// The GPU's address of memory that was lost at an address of the program's, also if it was unmapped since the waves
    /// that run now have started. Where none is known the GPU has the program's addresses.
    pub fn address_of(&self, lost: &Lost) -> u64 {
        let of = |(start, run): (&u64, &Mapping)| {
            let offset = lost.host.checked_sub(run.host().addr() as u64)?;
            (run.storage.is_borrowed() && offset < run.end - start).then_some(start + offset)
        };
        let mapped = self.map.read().runs.iter().find_map(of);
        mapped
            .or_else(|| {
                let users = self.users.lock();
                users
                    .retired
                    .iter()
                    .rev()
                    .find_map(|(start, run)| of((start, run)))
            })
            .unwrap_or(lost.host)
    }

    /// Changes what the GPU may do with whatever is mapped in `bytes` bytes at `address`.
    ///
    /// # Errors
    /// [`MemoryError::Empty`] and [`MemoryError::Address`].
    pub fn protect(&self, address: u64, bytes: u64, access: Access) -> Result<(), MemoryError> {
        let end = self.range(address, bytes, || "protect".to_owned())?;
        let mut map = self.map.write();
        map.protect(address, end, access);
        self.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Whether anything is mapped in `bytes` bytes at `address`; what, in words.
    pub fn mapped(&self, address: u64, bytes: u64) -> Option<String> {
        let map = self.map.read();
        let (at, run) = map.conflict(address, bytes, 0)?;
        Some(run.describe(at))
    }

    /// Allocates zeroed memory and returns its address.
    ///
    /// # Errors
    ///
    /// Every variant of [`MemoryError`] but `NotAllocated`, `Storage` and `OutOfRange`.
    pub fn allocate(&self, request: &Request) -> Result<u64, MemoryError> {
        let label = || request.label.clone();
        if request.bytes == 0 {
            return Err(MemoryError::Empty(label()));
        }
        if !request.align.is_power_of_two() {
            return Err(MemoryError::Alignment(request.align));
        }
        let mut map = self.map.write();
        let free = self.capacity - map.used;
        let bytes = request
            .bytes
            .checked_next_multiple_of(PAGE)
            .filter(|&bytes| bytes <= free)
            .ok_or_else(|| MemoryError::OutOfMemory {
                label: label(),
                requested: request.bytes,
                free,
                capacity: self.capacity,
            })?;
        let address = match request.address {
            Some(address) => {
                self.range(address, bytes, label)?;
                if let Some((at, other)) = map.conflict(address, bytes, 0) {
                    let other = other.describe(at);
                    return Err(MemoryError::Overlap {
                        label: label(),
                        address,
                        bytes,
                        other,
                    });
                }
                address
            }
            None => self.place(&mut map, bytes, request)?,
        };
        let storage = match self.arena.get() {
            Some(arena) => arena.allocate(bytes, PAGE),
            None => Storage::anonymous(bytes),
        };
        let storage = storage.map_err(|source| MemoryError::Host {
            label: label(),
            bytes,
            source,
        })?;
        let run = Mapping {
            end: address + bytes,
            storage,
            offset: 0,
            access: request.access,
            executable: true,
            label: label().into(),
        };
        map.used += bytes;
        map.placed.insert(address, bytes);
        if request.bytes != bytes {
            map.requested.insert(address, request.bytes);
        }
        map.runs.insert(address, run);
        Ok(address)
    }

    /// Gives an allocation back. Its addresses fault from now on.
    ///
    /// # Errors
    ///
    /// [`MemoryError::NotAllocated`] unless an allocation starts at `address`.
    pub fn free(&self, address: u64) -> Result<(), MemoryError> {
        let mut map = self.map.write();
        let bytes = map
            .placed
            .remove(&address)
            .ok_or(MemoryError::NotAllocated(address))?;
        map.requested.remove(&address);
        map.used -= bytes;
        drop(map);
        self.unmap(address, bytes)?;
        Ok(())
    }

    /// Changes what the GPU may do with the allocation that starts at `address`.
    ///
    /// # Errors
    ///
    /// [`MemoryError::NotAllocated`] unless an allocation starts at `address`.
    pub fn set_access(&self, address: u64, access: Access) -> Result<(), MemoryError> {
        let placed = self.map.read().placed.get(&address).copied();
        let bytes = placed.ok_or(MemoryError::NotAllocated(address))?;
        self.protect(address, bytes, access)
    }

    /// Copies bytes out, whatever the GPU may do with them.
    ///
    /// # Errors
    ///
    /// [`MemoryError::OutOfRange`] if a byte is not mapped.
    pub fn read(&self, address: u64, to: &mut [u8]) -> Result<(), MemoryError> {
        self.copy_out_for(address, to, Need::ReadAny)
            .map_err(out_of_range)
    }

    /// Copies bytes in, whatever the GPU may do with them.
    ///
    /// # Errors
    ///
    /// [`MemoryError::OutOfRange`] if a byte is not mapped.
    pub fn write(&self, address: u64, from: &[u8]) -> Result<(), MemoryError> {
        self.copy_in_for(address, from, Need::WriteAny)
            .map_err(out_of_range)
    }

    /// The end of a range of whole pages inside the GPU's addresses.
    fn range(
        &self,
        address: u64,
        bytes: u64,
        label: impl Fn() -> String,
    ) -> Result<u64, MemoryError> {
        if bytes == 0 {
            return Err(MemoryError::Empty(label()));
        }
        let end = address
            .checked_add(bytes)
            .filter(|&end| end <= self.own.end);
        match end {
            Some(end) if address.is_multiple_of(PAGE) && bytes.is_multiple_of(PAGE) => Ok(end),
            _ => Err(MemoryError::Address {
                label: label(),
                address,
                bytes,
            }),
        }
    }

    /// An address after everything placed before; once the top is reached, the first gap.
    fn place(&self, map: &mut Map, bytes: u64, request: &Request) -> Result<u64, MemoryError> {
        let align = request.align.max(PAGE);
        let fits = |start: u64| {
            let start = start.checked_next_multiple_of(align)?;
            (start.checked_add(bytes)? <= self.own.end).then_some(start)
        };
        let guard = self.guard.load(Ordering::Relaxed);
        let mut candidate = map.next;
        let mut wrapped = false;
        loop {
            match fits(candidate) {
                Some(start) => match map.conflict(start, bytes, guard) {
                    None => {
                        map.next = start + bytes + guard;
                        return Ok(start);
                    }
                    Some((_, other)) => candidate = other.end + guard,
                },
                None if !wrapped => {
                    wrapped = true;
                    candidate = self.own.start;
                }
                None => {
                    return Err(MemoryError::NoAddress {
                        label: request.label.clone(),
                        bytes,
                    });
                }
            }
        }
    }

    /// The allocation or mapping that holds `address`: its start, the bytes that were asked for, and its label.
    /// An address behind those bytes, in the rest of the last page, belongs to it too.
    pub fn allocation(&self, address: u64) -> Option<(u64, u64, String)> {
        let map = self.map.read();
        let (start, run) = map.containing(address)?;
        Some(map.allocation(start, run))
    }

    /// All allocations and mappings, as [`Memory::allocation`] has them, by their start.
    pub fn allocations(&self) -> Vec<(u64, u64, String)> {
        let map = self.map.read();
        let all = map.runs.iter();
        all.map(|(&start, run)| map.allocation(start, run))
            .collect()
    }

    /// Where `address` lies, in words: the allocation that holds it, or the nearest ones below
    /// and above with the distance in bytes.
    pub fn describe(&self, address: u64) -> String {
        self.map.read().describe(address)
    }
}

/// That a part of storage is whole pages inside it.
fn check(
    storage: &Storage,
    offset: u64,
    bytes: u64,
    label: impl Fn() -> String,
) -> Result<(), MemoryError> {
    let inside = offset
        .checked_add(bytes)
        .is_some_and(|end| end <= storage.bytes());
    if offset.is_multiple_of(PAGE) && inside {
        return Ok(());
    }
    Err(MemoryError::Storage {
        label: label(),
        offset,
        bytes,
        size: storage.bytes(),
    })
}

fn out_of_range(fault: AccessFault) -> MemoryError {
    MemoryError::OutOfRange {
        address: fault.start,
        bytes: fault.bytes,
        near: fault.near,
    }
}

// SAFETY: an extent is a run of the map, whose storage stays mapped and at its place until `unmap`; `unmap` and
// every change of access advance the generation before they return, and storage unmapped while waves run is kept
// until the last `InUse` ends. Lent memory of the program may go at any time: whoever accesses it has a `Flight`, in which
// such an access completes with zeros and is found out afterwards (`lost`).
unsafe impl AddressSpace for Memory {
    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn find(&self, address: u64) -> Result<Extent, FaultKind> {
        loop {
            match self.map.read().containing(address) {
                Some((_, run)) if run.access == Access::None => {
                    return Err(FaultKind::NotAccessible);
                }
                Some((start, run)) => return Ok(run.extent(start)),
                None => {}
            }
            if !self.page_in(address) {
                return Err(FaultKind::Unmapped);
            }
        }
    }

    fn extent_near(&self, address: u64) -> Option<Extent> {
        self.map.read().near(address)
    }
}

#[cfg(test)]
mod tests;
