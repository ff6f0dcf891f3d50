//! The GPU's virtual memory: allocations with their own storage, found by address.
//! Unmapped guard gaps lie between allocations, so that an access past the end faults.

mod storage;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

use rocjitsu_exec::memory::{AddressSpace, Extent, FaultKind};
pub use storage::{Backing, PAGE, Storage};

/// First address that is handed out by default. Above 4 GiB, so that a truncated pointer faults.
const BASE: u64 = 0x7f00_0000_0000;
/// End of the GPU's virtual addresses (exclusive), the `gpuvm` aperture of GFX9 to GFX12.
const LIMIT: u64 = 0x7fff_ffff_f000;
/// Bytes left unmapped after each allocation.
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
    /// Where the bytes come from.
    pub backing: Backing,
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
            backing: Backing::Anonymous,
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
        "address {address:#x} for {label} is not a multiple of the page size {PAGE}, or {bytes} bytes there leave the address space"
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
    #[error("no allocation starts at {0:#x}")]
    NotAllocated(u64),
    #[error("{bytes} bytes at {address:#x} are not inside one allocation: {near}")]
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

#[derive(Debug)]
struct Allocation {
    storage: Storage,
    access: Access,
    label: String,
}

impl Allocation {
    fn describe(&self, start: u64) -> String {
        let access = match self.access {
            Access::None => ", not accessible",
            Access::Read => ", read-only",
            Access::ReadWrite => "",
        };
        let end = start + self.storage.bytes();
        format!("{} [{start:#x}, {end:#x}){access}", self.label)
    }
}

#[derive(Debug, Default)]
struct Map {
    allocations: BTreeMap<u64, Allocation>,
    used: u64,
    next: u64,
}

impl Map {
    /// The allocation that contains `address`, with its start.
    fn containing(&self, address: u64) -> Option<(u64, &Allocation)> {
        let (&start, allocation) = self.allocations.range(..=address).next_back()?;
        (address - start < allocation.storage.bytes()).then_some((start, allocation))
    }

    /// The first allocation that has a byte in `[start, start + bytes)` or in the guards around.
    fn conflict(&self, start: u64, bytes: u64, guard: u64) -> Option<(u64, &Allocation)> {
        let end = start.saturating_add(bytes).saturating_add(guard);
        let (&at, allocation) = self.allocations.range(..end).next_back()?;
        (at + allocation.storage.bytes() + guard > start).then_some((at, allocation))
    }
}

/// The memory of one simulated GPU. Thread-safe; waves read it through [`AddressSpace`].
#[derive(Debug)]
pub struct Memory {
    capacity: u64,
    map: RwLock<Map>,
    generation: AtomicU64,
    users: Mutex<Users>,
}

/// Who runs now, and the freed storage that waits for them to end.
#[derive(Debug, Default)]
struct Users {
    count: usize,
    retired: Vec<Storage>,
}

/// While this lives, storage that is freed stays mapped on the host: whoever executes waves holds
/// one, so that an extent looked up just before a `free` never points at nothing.
#[derive(Debug)]
pub struct InUse<'a>(&'a Memory);

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        let mut users = self.0.users.lock().unwrap_or_else(PoisonError::into_inner);
        users.count -= 1;
        if users.count == 0 {
            users.retired.clear();
        }
    }
}

impl Memory {
    /// A memory of `capacity` bytes, all free. Nothing is committed on the host.
    pub fn new(capacity: u64) -> Self {
        Memory {
            capacity,
            map: RwLock::new(Map {
                next: BASE,
                ..Map::default()
            }),
            generation: AtomicU64::new(1),
            users: Mutex::default(),
        }
    }

    /// Size in bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes that are allocated, in whole pages.
    pub fn used(&self) -> u64 {
        self.map.read().unwrap_or_else(PoisonError::into_inner).used
    }

    /// Declares that waves run on this memory; see [`InUse`].
    pub fn in_use(&self) -> InUse<'_> {
        self.users
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .count += 1;
        InUse(self)
    }

    /// Allocates zeroed memory and returns its address.
    ///
    /// # Errors
    ///
    /// Every variant of [`MemoryError`] but `NotAllocated` and `OutOfRange`.
    pub fn allocate(&self, request: &Request) -> Result<u64, MemoryError> {
        let label = || request.label.clone();
        if request.bytes == 0 {
            return Err(MemoryError::Empty(label()));
        }
        if !request.align.is_power_of_two() {
            return Err(MemoryError::Alignment(request.align));
        }
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
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
                let end = address.checked_add(bytes).filter(|&end| end <= LIMIT);
                if address % PAGE != 0 || end.is_none() {
                    return Err(MemoryError::Address {
                        label: label(),
                        address,
                        bytes,
                    });
                }
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
        let storage = Storage::new(bytes, request.backing).map_err(|source| MemoryError::Host {
            label: label(),
            bytes,
            source,
        })?;
        map.used += bytes;
        map.allocations.insert(
            address,
            Allocation {
                storage,
                access: request.access,
                label: label(),
            },
        );
        Ok(address)
    }

    /// An address after everything placed before; once the top is reached, the first gap.
    fn place(&self, map: &mut Map, bytes: u64, request: &Request) -> Result<u64, MemoryError> {
        let align = request.align.max(PAGE);
        let fits = |start: u64| {
            let start = start.checked_next_multiple_of(align)?;
            (start.checked_add(bytes)? <= LIMIT).then_some(start)
        };
        let mut candidate = map.next;
        let mut wrapped = false;
        loop {
            match fits(candidate) {
                Some(start) => match map.conflict(start, bytes, GUARD) {
                    None => {
                        map.next = start + bytes + GUARD;
                        return Ok(start);
                    }
                    Some((at, other)) => candidate = at + other.storage.bytes() + GUARD,
                },
                None if !wrapped => {
                    wrapped = true;
                    candidate = BASE;
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

    /// Gives an allocation back. Its addresses fault from now on.
    ///
    /// # Errors
    ///
    /// [`MemoryError::NotAllocated`] unless an allocation starts at `address`.
    pub fn free(&self, address: u64) -> Result<(), MemoryError> {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        let allocation = map
            .allocations
            .remove(&address)
            .ok_or(MemoryError::NotAllocated(address))?;
        map.used -= allocation.storage.bytes();
        self.generation.fetch_add(1, Ordering::Release);
        drop(map);
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if users.count > 0 {
            users.retired.push(allocation.storage);
        }
        Ok(())
    }

    /// Changes what the GPU may do with the allocation that starts at `address`.
    ///
    /// # Errors
    ///
    /// [`MemoryError::NotAllocated`] unless an allocation starts at `address`.
    pub fn set_access(&self, address: u64, access: Access) -> Result<(), MemoryError> {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        let allocation = map
            .allocations
            .get_mut(&address)
            .ok_or(MemoryError::NotAllocated(address))?;
        allocation.access = access;
        self.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Copies bytes out of one allocation, whatever the GPU may do with it.
    ///
    /// # Errors
    ///
    /// [`MemoryError::OutOfRange`] if the range is not inside one allocation.
    pub fn read(&self, address: u64, to: &mut [u8]) -> Result<(), MemoryError> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        match map.containing(address) {
            Some((start, allocation)) if allocation.storage.read(address - start, to) => Ok(()),
            _ => Err(out_of_range(&map, address, to.len())),
        }
    }

    /// Copies bytes into one allocation, whatever the GPU may do with it.
    ///
    /// # Errors
    ///
    /// [`MemoryError::OutOfRange`] if the range is not inside one allocation.
    pub fn write(&self, address: u64, from: &[u8]) -> Result<(), MemoryError> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        match map.containing(address) {
            Some((start, allocation)) if allocation.storage.write(address - start, from) => Ok(()),
            _ => Err(out_of_range(&map, address, from.len())),
        }
    }

    /// Where `address` lies, in words: the allocation that holds it, or the nearest ones below
    /// and above with the distance in bytes.
    pub fn describe(&self, address: u64) -> String {
        describe(
            &self.map.read().unwrap_or_else(PoisonError::into_inner),
            address,
        )
    }
}

fn out_of_range(map: &Map, address: u64, bytes: usize) -> MemoryError {
    MemoryError::OutOfRange {
        address,
        bytes: bytes as u64,
        near: describe(map, address),
    }
}

fn describe(map: &Map, address: u64) -> String {
    if let Some((start, allocation)) = map.containing(address) {
        return format!(
            "{:#x} bytes into {}",
            address - start,
            allocation.describe(start)
        );
    }
    let below = map
        .allocations
        .range(..=address)
        .next_back()
        .map(|(&start, a)| {
            let past = address - (start + a.storage.bytes());
            format!("{past:#x} bytes past the end of {}", a.describe(start))
        });
    let above = address
        .checked_add(1)
        .and_then(|next| map.allocations.range(next..).next())
        .map(|(&start, a)| format!("{:#x} bytes before {}", start - address, a.describe(start)));
    match (below, above) {
        (Some(below), Some(above)) => format!("{below}, {above}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => "nothing is allocated".to_owned(),
    }
}

fn extent(start: u64, allocation: &Allocation) -> Extent {
    Extent {
        start,
        end: start + allocation.storage.bytes(),
        host: allocation.storage.base(),
        writable: allocation.access == Access::ReadWrite,
    }
}

// SAFETY: an extent is the whole of one allocation's storage, which stays mapped and at its place
// until `free`; `free` and every change of access advance the generation before they return, and
// storage freed while waves run is kept until the last `InUse` ends.
unsafe impl AddressSpace for Memory {
    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn find(&self, address: u64) -> Result<Extent, FaultKind> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        match map.containing(address) {
            None => Err(FaultKind::Unmapped),
            Some((_, allocation)) if allocation.access == Access::None => {
                Err(FaultKind::NotAccessible)
            }
            Some((start, allocation)) => Ok(extent(start, allocation)),
        }
    }

    fn extent_near(&self, address: u64) -> Option<Extent> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        let below = map.allocations.range(..=address).next_back();
        let above = map.allocations.range(address..).next();
        let nearest = match (below, above) {
            (Some(below), Some(above)) => {
                let past = address.saturating_sub(below.0 + below.1.storage.bytes());
                if past <= above.0 - address {
                    below
                } else {
                    above
                }
            }
            (one, None) => one?,
            (None, one) => one?,
        };
        Some(extent(*nearest.0, nearest.1))
    }
}

#[cfg(test)]
mod tests;
