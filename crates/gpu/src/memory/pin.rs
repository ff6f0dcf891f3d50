//! Access for whoever is not a wave: queue processors and copy engines.
//! Ranges are checked as a whole before the first byte moves, and a fault names the first bad address.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rocjitsu_exec::memory::FaultKind;

use super::lost::{Lost, Scope};
use super::map::Map;
use super::{Access, Flight, Memory, Storage};

/// An access that the address map does not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} of {bytes} bytes at {start:#x}: {address:#x} is {kind}; it is {near}", if *.write { "write" } else { "read" })]
pub struct AccessFault {
    /// First address of the access.
    pub start: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Whether it writes.
    pub write: bool,
    /// First address that it may not touch.
    pub address: u64,
    /// Why not.
    pub kind: FaultKind,
    /// What lies around it.
    pub near: String,
}

/// A run of host bytes behind GPU addresses.
#[derive(Clone, Debug)]
struct Piece {
    storage: Arc<Storage>,
    offset: usize,
    bytes: usize,
}

impl Piece {
    /// Host address of the first byte.
    fn host(&self) -> *mut u8 {
        self.storage.base().wrapping_add(self.offset)
    }
}

/// Bytes inside one mapping, held so that their host address stays valid, whatever is unmapped or freed.
/// Memory that the program lent and then unmapped itself reads as zeros.
#[derive(Clone, Debug)]
pub struct Pinned {
    piece: Piece,
    address: u64,
    writable: bool,
}

impl Pinned {
    /// Host address of the first byte.
    pub fn host(&self) -> *mut u8 {
        self.piece.host()
    }

    /// GPU address of the first byte.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        self.piece.bytes as u64
    }

    /// Host address of `N` bytes at `offset`, if they are inside, aligned and, for a write, pinned for it.
    fn cell<const N: usize>(&self, offset: u64, write: bool) -> Option<*mut u8> {
        let offset = usize::try_from(offset).ok()?;
        let host = self.piece.host().wrapping_add(offset);
        let inside = offset.checked_add(N)? <= self.piece.bytes;
        (inside && host.addr() % N == 0 && (self.writable || !write)).then_some(host)
    }

    fn u32_at(&self, offset: u64, write: bool) -> Option<&AtomicU32> {
        let host = self.cell::<4>(offset, write)?;
        // SAFETY: four aligned bytes inside the storage that `self` holds; all sides use atomics or raw copies.
        Some(unsafe { AtomicU32::from_ptr(host.cast()) })
    }

    fn u64_at(&self, offset: u64, write: bool) -> Option<&AtomicU64> {
        let host = self.cell::<8>(offset, write)?;
        // SAFETY: eight aligned bytes inside the storage that `self` holds; all sides use atomics or raw copies.
        Some(unsafe { AtomicU64::from_ptr(host.cast()) })
    }

    /// Loads a word (acquire). `None` if it is not inside or not aligned.
    pub fn load_u32(&self, offset: u64) -> Option<u32> {
        let _scope = Scope::enter();
        Some(self.u32_at(offset, false)?.load(Ordering::Acquire))
    }

    /// Loads a doubleword (acquire). `None` if it is not inside or not aligned.
    pub fn load_u64(&self, offset: u64) -> Option<u64> {
        let _scope = Scope::enter();
        Some(self.u64_at(offset, false)?.load(Ordering::Acquire))
    }

    /// Stores a word (release). `None` if it is not inside, not aligned or pinned for reading.
    pub fn store_u32(&self, offset: u64, value: u32) -> Option<()> {
        let _scope = Scope::enter();
        self.u32_at(offset, true)?.store(value, Ordering::Release);
        Some(())
    }

    /// Stores a doubleword (release). `None` if it is not inside, not aligned or pinned for reading.
    pub fn store_u64(&self, offset: u64, value: u64) -> Option<()> {
        let _scope = Scope::enter();
        self.u64_at(offset, true)?.store(value, Ordering::Release);
        Some(())
    }

    /// Adds to a word, wrapping, and returns what was there. `None` as for a store.
    pub fn fetch_add_u32(&self, offset: u64, value: u32) -> Option<u32> {
        let _scope = Scope::enter();
        Some(
            self.u32_at(offset, true)?
                .fetch_add(value, Ordering::AcqRel),
        )
    }

    /// Adds to a doubleword, wrapping, and returns what was there. `None` as for a store.
    pub fn fetch_add_u64(&self, offset: u64, value: u64) -> Option<u64> {
        let _scope = Scope::enter();
        Some(
            self.u64_at(offset, true)?
                .fetch_add(value, Ordering::AcqRel),
        )
    }

    /// Applies `change` to a word as one atomic step and returns what was there. `None` as for a store.
    pub fn update_u32(&self, offset: u64, mut change: impl FnMut(u32) -> u32) -> Option<u32> {
        let _scope = Scope::enter();
        let cell = self.u32_at(offset, true)?;
        cell.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(change(old)))
            .ok()
    }

    /// Applies `change` to a doubleword as one atomic step and returns what was there. `None` as for a store.
    pub fn update_u64(&self, offset: u64, mut change: impl FnMut(u64) -> u64) -> Option<u64> {
        let _scope = Scope::enter();
        let cell = self.u64_at(offset, true)?;
        cell.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(change(old)))
            .ok()
    }

    /// Copies bytes out from `offset`. `false` if they are not inside.
    #[must_use]
    pub fn read(&self, offset: u64, to: &mut [u8]) -> bool {
        let _scope = Scope::enter();
        match self.cell_range(offset, to.len(), false) {
            None => false,
            Some(from) => {
                // SAFETY: the range is inside the storage that `self` holds; `to` is exclusive.
                unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
                true
            }
        }
    }

    /// Copies bytes in at `offset`. `false` if they are not inside, or pinned for reading.
    #[must_use]
    pub fn write(&self, offset: u64, from: &[u8]) -> bool {
        let _scope = Scope::enter();
        match self.cell_range(offset, from.len(), true) {
            None => false,
            Some(to) => {
                // SAFETY: as for `read`, and the bytes may be written.
                unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
                true
            }
        }
    }

    fn cell_range(&self, offset: u64, bytes: usize, write: bool) -> Option<*mut u8> {
        let offset = usize::try_from(offset).ok()?;
        let inside = offset.checked_add(bytes)? <= self.piece.bytes;
        (inside && (self.writable || !write)).then(|| self.piece.host().wrapping_add(offset))
    }
}

/// What an access needs of the mappings it touches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Read,
    Write,
    /// That they are there, for our own copies. What the program lent is only touched as the GPU may touch it.
    ReadAny,
    WriteAny,
}

/// The host bytes behind `[address, address + bytes)`, or the first address that `need` forbids.
fn pieces(map: &Map, address: u64, bytes: u64, need: Need) -> Result<Vec<Piece>, AccessFault> {
    let write = matches!(need, Need::Write | Need::WriteAny);
    let fault = |at: u64, kind| AccessFault {
        start: address,
        bytes,
        write,
        address: at,
        kind,
        near: map.describe(at),
    };
    let mut found = Vec::with_capacity(1);
    let (mut at, mut left) = (address, bytes);
    while left > 0 {
        let (start, run) = map
            .containing(at)
            .ok_or_else(|| fault(at, FaultKind::Unmapped))?;
        let free = matches!(need, Need::ReadAny | Need::WriteAny) && !run.storage.is_borrowed();
        match run.access {
            _ if free => {}
            Access::None => return Err(fault(at, FaultKind::NotAccessible)),
            Access::Read if write => return Err(fault(at, FaultKind::NotWritable)),
            Access::Read | Access::ReadWrite => {}
        }
        let length = left.min(run.end - at);
        found.push(Piece {
            storage: run.storage.clone(),
            offset: (run.offset + (at - start)) as usize,
            bytes: length as usize,
        });
        left -= length;
        // At the top of the address space nothing follows: `left` is 0 then, or the next look-up fails.
        at = at.wrapping_add(length);
    }
    Ok(found)
}

impl Memory {
    /// Checks a range and asks the pager for what is missing, if there is one.
    fn checked(&self, address: u64, bytes: u64, need: Need) -> Result<Vec<Piece>, AccessFault> {
        loop {
            let found = pieces(&self.map.read(), address, bytes, need);
            match found {
                Err(fault) if fault.kind == FaultKind::Unmapped && self.page_in(fault.address) => {}
                other => return other,
            }
        }
    }

    /// Runs `access` on the pieces that a range lies in. What was lost meanwhile is its fault.
    fn during(
        &self,
        (address, bytes, need): (u64, u64, Need),
        access: impl FnOnce(Vec<Piece>),
    ) -> Result<(), AccessFault> {
        let flight = Flight::new(self);
        flight.begin();
        self.checked(address, bytes, need).map(access)?;
        match flight.end() {
            None => Ok(()),
            Some(lost) => Err(self.fault_of(&lost, address, bytes)),
        }
    }

    /// The fault of an access to `bytes` bytes at `start` during which memory was lost.
    pub fn fault_of(&self, lost: &Lost, start: u64, bytes: u64) -> AccessFault {
        let address = self.address_of(lost);
        AccessFault {
            start,
            bytes,
            write: lost.write,
            address,
            kind: lost.kind,
            near: format!(
                "{} ({:#x} of the program), which went away meanwhile",
                self.describe(address),
                lost.host
            ),
        }
    }

    /// Whether all of a range may be accessed now.
    ///
    /// # Errors
    /// The first address that may not.
    pub fn check(&self, address: u64, bytes: u64, write: bool) -> Result<(), AccessFault> {
        let need = if write { Need::Write } else { Need::Read };
        self.checked(address, bytes, need).map(drop)
    }

    /// Holds `bytes` bytes at `address`, all inside one mapping, for as long as the result lives.
    ///
    /// # Errors
    /// The GPU may not access them; or they span mappings that are not neighbours in the host
    /// ([`FaultKind::Misaligned`] at the border).
    pub fn pin(&self, address: u64, bytes: u64, write: bool) -> Result<Pinned, AccessFault> {
        let need = if write { Need::Write } else { Need::Read };
        // An empty range is looked up as one byte, so that its address is a real one.
        let mut found = self.checked(address, bytes.max(1), need)?.into_iter();
        let first = found.next().filter(|piece| piece.bytes as u64 >= bytes);
        match first {
            Some(piece) => Ok(Pinned {
                piece: Piece {
                    bytes: bytes as usize,
                    ..piece
                },
                address,
                writable: write,
            }),
            None => {
                let map = self.map.read();
                let border = map.containing(address).map_or(address, |(_, run)| run.end);
                Err(AccessFault {
                    start: address,
                    bytes,
                    write,
                    address: border,
                    kind: FaultKind::Misaligned,
                    near: map.describe(border),
                })
            }
        }
    }

    /// Copies GPU memory to `to`, across neighbouring mappings.
    ///
    /// # Errors
    /// A byte that the GPU may not read; nothing is copied then.
    pub fn copy_out(&self, address: u64, to: &mut [u8]) -> Result<(), AccessFault> {
        self.copy_out_for(address, to, Need::Read)
    }

    pub(super) fn copy_out_for(
        &self,
        address: u64,
        to: &mut [u8],
        need: Need,
    ) -> Result<(), AccessFault> {
        let mut rest = to;
        self.during((address, rest.len() as u64, need), |pieces| {
            for piece in pieces {
                let (part, after) = std::mem::take(&mut rest).split_at_mut(piece.bytes);
                let to = part.as_mut_ptr();
                // SAFETY: the piece holds its storage, and its bytes add up to `to`, which is exclusive.
                unsafe { std::ptr::copy_nonoverlapping(piece.host(), to, part.len()) };
                rest = after;
            }
        })
    }

    /// Copies `from` to GPU memory, across neighbouring mappings.
    ///
    /// # Errors
    /// A byte that the GPU may not write; nothing is copied then.
    pub fn copy_in(&self, address: u64, from: &[u8]) -> Result<(), AccessFault> {
        self.copy_in_for(address, from, Need::Write)
    }

    pub(super) fn copy_in_for(
        &self,
        address: u64,
        from: &[u8],
        need: Need,
    ) -> Result<(), AccessFault> {
        let mut rest = from;
        self.during((address, rest.len() as u64, need), |pieces| {
            for piece in pieces {
                let (part, after) = rest.split_at(piece.bytes);
                // SAFETY: the piece holds its storage, whose bytes may be written, and its bytes add up to `from`. The
                // two may be the same memory if the program lent it, hence not `copy_nonoverlapping`.
                unsafe { std::ptr::copy(part.as_ptr(), piece.host(), part.len()) };
                rest = after;
            }
        })
    }

    /// Copies `bytes` bytes of GPU memory from `from` to `to`, in ascending pieces (each as if through a buffer).
    ///
    /// # Errors
    /// A byte that the GPU may not read or write; nothing is copied then.
    pub fn copy_within(&self, to: u64, from: u64, bytes: u64) -> Result<(), AccessFault> {
        let flight = Flight::new(self);
        flight.begin();
        let sources = self.checked(from, bytes, Need::Read)?;
        let targets = self.checked(to, bytes, Need::Write)?;
        let (mut sources, mut targets) = (sources.iter(), targets.iter());
        let (mut source, mut target) = (sources.next(), targets.next());
        let (mut read, mut written) = (0, 0);
        while let (Some(s), Some(t)) = (source, target) {
            let length = (s.bytes - read).min(t.bytes - written);
            // SAFETY: both pieces hold their storage, and `length` bytes are left in each.
            unsafe { std::ptr::copy(s.host().add(read), t.host().add(written), length) };
            read += length;
            written += length;
            if read == s.bytes {
                (source, read) = (sources.next(), 0);
            }
            if written == t.bytes {
                (target, written) = (targets.next(), 0);
            }
        }
        match flight.end() {
            None => Ok(()),
            Some(lost) => Err(self.fault_of(&lost, if lost.write { to } else { from }, bytes)),
        }
    }

    /// Has `write` write to all of a range, run by run of host bytes: it gets the address, the bytes that come before, and how
    /// many there are.
    ///
    /// # Errors
    /// A byte that the GPU may not write; nothing is written then.
    pub fn write_within(
        &self,
        address: u64,
        bytes: u64,
        mut write: impl FnMut(*mut u8, u64, usize),
    ) -> Result<(), AccessFault> {
        self.during((address, bytes, Need::Write), |pieces| {
            let mut done = 0;
            for piece in pieces {
                write(piece.host(), done, piece.bytes);
                done += piece.bytes as u64;
            }
        })
    }

    /// Fills `bytes` bytes (a multiple of 4) at `address` (a multiple of 4) with a word.
    ///
    /// # Errors
    /// A byte that the GPU may not write; nothing is filled then. [`FaultKind::Misaligned`] for another address or size.
    pub fn fill_u32(&self, address: u64, bytes: u64, value: u32) -> Result<(), AccessFault> {
        if !address.is_multiple_of(4) || !bytes.is_multiple_of(4) {
            return Err(AccessFault {
                start: address,
                bytes,
                write: true,
                address,
                kind: FaultKind::Misaligned,
                near: self.describe(address),
            });
        }
        self.during((address, bytes, Need::Write), |pieces| {
            for piece in pieces {
                let words = piece.host().cast::<u32>();
                for word in 0..piece.bytes / 4 {
                    // SAFETY: the piece holds its storage. It starts at a multiple of 4 and ends at one, because
                    // mappings are whole pages.
                    unsafe { words.add(word).write(value) };
                }
            }
        })
    }
}
