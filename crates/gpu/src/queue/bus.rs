//! A processor's accesses to GPU memory: words, atomics that the host's threads see as such, copies.
//! Whoever has a [`Bus`] also holds the memory's `in_use`, so that storage found here stays mapped. Each access is a flight
//! of its own, so that whoever takes memory away waits for one at most, and what the program took away is a fault.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use rocjitsu_exec::memory::{FaultKind, MemoryPort};

use super::MemoryFault;
use crate::memory::lost::Lost;
use crate::memory::{AccessFault, Flight, InUse, Memory};

/// An access that failed.
#[derive(Debug, thiserror::Error)]
#[error("{} of {bytes} bytes at {:#x}: {}{near}", if .fault.write { "write" } else { "read" }, .fault.address, .fault.kind)]
pub struct BusFault {
    /// Where and why.
    pub fault: MemoryFault,
    bytes: u64,
    near: String,
}

impl From<AccessFault> for BusFault {
    fn from(fault: AccessFault) -> BusFault {
        BusFault {
            fault: MemoryFault {
                address: fault.address,
                write: fault.write,
                fetch: false,
                kind: fault.kind,
            },
            bytes: fault.bytes,
            near: format!("; it is {}", fault.near),
        }
    }
}

type Result<T> = std::result::Result<T, BusFault>;

/// A view of memory.
pub struct Bus<'a> {
    port: MemoryPort<'a>,
    memory: &'a Memory,
    flight: Flight<'a>,
    _in_use: InUse<'a>,
}

impl<'a> Bus<'a> {
    /// A view of `memory`.
    pub fn new(memory: &'a Memory) -> Bus<'a> {
        Bus {
            port: MemoryPort::new(memory),
            memory,
            flight: Flight::of_engine(memory),
            _in_use: memory.in_use(),
        }
    }

    /// Forgets mappings that have changed.
    pub fn refresh(&mut self) {
        self.port.refresh();
    }

    /// Runs `act` on the host address of `bytes` bytes.
    fn access<R>(
        &mut self,
        (address, bytes, write): (u64, u64, bool),
        act: impl FnOnce(*mut u8) -> R,
    ) -> Result<R> {
        self.flight.begin();
        self.port.refresh();
        let found = self.port.locate(address, bytes, write).map(act);
        match self.flight.end() {
            None => found.map_err(|kind| self.fault(address, bytes, write, kind)),
            Some(lost) => Err(self.lost(&lost, address, bytes)),
        }
    }

    #[cold]
    fn lost(&self, lost: &Lost, address: u64, bytes: u64) -> BusFault {
        self.memory.fault_of(lost, address, bytes).into()
    }

    fn fault(&self, address: u64, bytes: u64, write: bool, kind: FaultKind) -> BusFault {
        BusFault {
            fault: MemoryFault {
                address,
                write,
                fetch: false,
                kind,
            },
            bytes,
            near: self.port.near(address),
        }
    }

    /// As [`Bus::access`], of a word of `N` bytes that is aligned.
    fn word<const N: u64, R>(
        &mut self,
        address: u64,
        write: bool,
        act: impl FnOnce(*mut u8) -> R,
    ) -> Result<R> {
        if !address.is_multiple_of(N) {
            return Err(self.fault(address, N, write, FaultKind::Misaligned));
        }
        self.access((address, N, write), act)
    }

    fn atomic16<R>(&mut self, address: u64, act: impl FnOnce(&AtomicU16) -> R) -> Result<R> {
        self.word::<2, R>(address, true, |p| {
            // SAFETY: the storage is mapped while `_in_use` lives, writable, and aligned (extents are of whole pages).
            act(unsafe { AtomicU16::from_ptr(p.cast()) })
        })
    }

    fn atomic32<R>(
        &mut self,
        address: u64,
        write: bool,
        act: impl FnOnce(&AtomicU32) -> R,
    ) -> Result<R> {
        self.word::<4, R>(address, write, |p| {
            // SAFETY: as in `atomic16`; without `write` the callers only load.
            act(unsafe { AtomicU32::from_ptr(p.cast()) })
        })
    }

    fn atomic64<R>(
        &mut self,
        address: u64,
        write: bool,
        act: impl FnOnce(&AtomicU64) -> R,
    ) -> Result<R> {
        self.word::<8, R>(address, write, |p| {
            // SAFETY: as in `atomic32`.
            act(unsafe { AtomicU64::from_ptr(p.cast()) })
        })
    }

    /// Loads a word; what was written before it was stored is seen afterwards.
    pub fn load32(&mut self, address: u64) -> Result<u32> {
        self.atomic32(address, false, |word| word.load(Ordering::Acquire))
    }

    /// Loads a double word in the same way.
    pub fn load64(&mut self, address: u64) -> Result<u64> {
        self.atomic64(address, false, |word| word.load(Ordering::Acquire))
    }

    /// Stores a half word; whoever sees it sees what was written before.
    pub fn store16(&mut self, address: u64, value: u16) -> Result<()> {
        self.atomic16(address, |word| word.store(value, Ordering::Release))
    }

    /// Stores a word in the same way.
    pub fn store32(&mut self, address: u64, value: u32) -> Result<()> {
        self.atomic32(address, true, |word| word.store(value, Ordering::Release))
    }

    /// Stores a double word in the same way.
    pub fn store64(&mut self, address: u64, value: u64) -> Result<()> {
        self.atomic64(address, true, |word| word.store(value, Ordering::Release))
    }

    /// Replaces a word by what `next` makes of it; returns what it was.
    pub fn update32(&mut self, address: u64, mut next: impl FnMut(u32) -> u32) -> Result<u32> {
        self.atomic32(address, true, |word| {
            word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(next(old)))
                .unwrap_or_else(|old| old)
        })
    }

    /// Replaces a double word by what `next` makes of it; returns what it was.
    pub fn update64(&mut self, address: u64, mut next: impl FnMut(u64) -> u64) -> Result<u64> {
        self.atomic64(address, true, |word| {
            word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(next(old)))
                .unwrap_or_else(|old| old)
        })
    }

    /// Reads bytes, from as many mappings as they lie in.
    pub fn read(&mut self, address: u64, to: &mut [u8]) -> Result<()> {
        let bytes = to.len() as u64;
        let located = self.access((address, bytes, false), |p| {
            // SAFETY: the storage at `p` has as many bytes, and `to` is not among them.
            unsafe { std::ptr::copy_nonoverlapping(p, to.as_mut_ptr(), to.len()) };
        });
        match located {
            Ok(()) => Ok(()),
            Err(_) => Ok(self.memory.copy_out(address, to)?),
        }
    }

    /// Reads `N` bytes.
    pub fn array<const N: usize>(&mut self, address: u64) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read(address, &mut bytes)?;
        Ok(bytes)
    }

    /// Whether all of a range may be accessed now.
    pub fn check(&self, address: u64, bytes: u64, write: bool) -> Result<()> {
        Ok(self.memory.check(address, bytes, write)?)
    }

    /// Copies bytes, in ascending order where the ranges span several mappings.
    pub fn copy(&mut self, to: u64, from: u64, bytes: u64) -> Result<()> {
        Ok(self.memory.copy_within(to, from, bytes)?)
    }

    /// Copies rows of as many bytes each, from the second address of a pair to the first; like [`Bus::copy`], but fast for
    /// rows that are few bytes.
    pub fn copy_rows(&mut self, rows: impl Iterator<Item = (u64, u64)>, bytes: u64) -> Result<()> {
        self.flight.begin();
        self.port.refresh();
        for (to, from) in rows {
            let located = self
                .port
                .locate(from, bytes, false)
                .and_then(|source| Ok((source, self.port.locate(to, bytes, true)?)));
            match located {
                // SAFETY: `locate` vouches for both ranges; `copy` lets them overlap.
                Ok((source, target)) => unsafe {
                    std::ptr::copy(source, target, bytes as usize);
                },
                Err(_) => self.memory.copy_within(to, from, bytes)?,
            }
        }
        match self.flight.end() {
            None => Ok(()),
            Some(lost) => {
                let address = self.memory.address_of(&lost);
                Err(self.lost(&lost, address, bytes))
            }
        }
    }

    /// Fills memory with a word over and over, from its low byte on; the last one may be cut.
    pub fn fill(&mut self, to: u64, word: u32, bytes: u64) -> Result<()> {
        let pattern = |done: u64| word.rotate_right(8 * (done % 4) as u32).to_le_bytes();
        Ok(self.memory.write_within(to, bytes, |p, done, n| {
            // SAFETY: the memory vouches for `n` writable bytes.
            unsafe { fill_host(p, n, pattern(done)) };
        })?)
    }
}

/// Fills `bytes` bytes at `to` with a pattern.
///
/// # Safety
/// They are valid for writing.
unsafe fn fill_host(to: *mut u8, bytes: usize, pattern: [u8; 4]) {
    if pattern == [pattern[0]; 4] {
        // SAFETY: the caller vouches for the bytes.
        unsafe { std::ptr::write_bytes(to, pattern[0], bytes) };
        return;
    }
    let word = u32::from_le_bytes(pattern);
    for i in 0..bytes / 4 {
        // SAFETY: as above.
        unsafe { to.cast::<u32>().add(i).write_unaligned(word) };
    }
    for (i, byte) in (bytes / 4 * 4..bytes).zip(pattern) {
        // SAFETY: as above.
        unsafe { to.add(i).write(byte) };
    }
}
