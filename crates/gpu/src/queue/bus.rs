//! A processor's accesses to GPU memory: words, atomics that the host's threads see as such, copies.
//! Whoever has a [`Bus`] also holds the memory's `in_use`, so that storage found here stays mapped.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use rocjitsu_exec::memory::{AddressSpace, FaultKind, MemoryPort};

use super::MemoryFault;
use crate::memory::{AccessFault, InUse, Memory};

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
    _in_use: InUse<'a>,
}

impl<'a> Bus<'a> {
    /// A view of `memory`.
    pub fn new(memory: &'a Memory) -> Bus<'a> {
        Bus {
            port: MemoryPort::new(memory),
            memory,
            _in_use: memory.in_use(),
        }
    }

    /// Forgets mappings that have changed.
    pub fn refresh(&mut self) {
        self.port.refresh();
    }

    fn locate(&mut self, address: u64, bytes: u64, write: bool) -> Result<*mut u8> {
        self.port.refresh();
        self.port
            .locate(address, bytes, write)
            .map_err(|kind| self.fault(address, bytes, write, kind))
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

    fn aligned(&mut self, address: u64, bytes: u64, write: bool) -> Result<*mut u8> {
        if !address.is_multiple_of(bytes) {
            return Err(self.fault(address, bytes, write, FaultKind::Misaligned));
        }
        self.locate(address, bytes, write)
    }

    fn atomic16(&mut self, address: u64) -> Result<&AtomicU16> {
        let p = self.aligned(address, 2, true)?;
        // SAFETY: the storage is mapped while `_in_use` lives, writable, and aligned (extents are of whole pages).
        Ok(unsafe { AtomicU16::from_ptr(p.cast()) })
    }

    fn atomic32(&mut self, address: u64, write: bool) -> Result<&AtomicU32> {
        let p = self.aligned(address, 4, write)?;
        // SAFETY: as in `atomic16`; without `write` the callers only load.
        Ok(unsafe { AtomicU32::from_ptr(p.cast()) })
    }

    fn atomic64(&mut self, address: u64, write: bool) -> Result<&AtomicU64> {
        let p = self.aligned(address, 8, write)?;
        // SAFETY: as in `atomic32`.
        Ok(unsafe { AtomicU64::from_ptr(p.cast()) })
    }

    /// Loads a word; what was written before it was stored is seen afterwards.
    pub fn load32(&mut self, address: u64) -> Result<u32> {
        Ok(self.atomic32(address, false)?.load(Ordering::Acquire))
    }

    /// Loads a double word in the same way.
    pub fn load64(&mut self, address: u64) -> Result<u64> {
        Ok(self.atomic64(address, false)?.load(Ordering::Acquire))
    }

    /// Stores a half word; whoever sees it sees what was written before.
    pub fn store16(&mut self, address: u64, value: u16) -> Result<()> {
        self.atomic16(address)?.store(value, Ordering::Release);
        Ok(())
    }

    /// Stores a word in the same way.
    pub fn store32(&mut self, address: u64, value: u32) -> Result<()> {
        self.atomic32(address, true)?
            .store(value, Ordering::Release);
        Ok(())
    }

    /// Stores a double word in the same way.
    pub fn store64(&mut self, address: u64, value: u64) -> Result<()> {
        self.atomic64(address, true)?
            .store(value, Ordering::Release);
        Ok(())
    }

    /// Replaces a word by what `next` makes of it; returns what it was.
    pub fn update32(&mut self, address: u64, mut next: impl FnMut(u32) -> u32) -> Result<u32> {
        let cell = self.atomic32(address, true)?;
        let done = cell.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(next(old)));
        Ok(done.unwrap_or_else(|old| old))
    }

    /// Replaces a double word by what `next` makes of it; returns what it was.
    pub fn update64(&mut self, address: u64, mut next: impl FnMut(u64) -> u64) -> Result<u64> {
        let cell = self.atomic64(address, true)?;
        let done = cell.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(next(old)));
        Ok(done.unwrap_or_else(|old| old))
    }

    /// The host bytes from `address` on, at most `bytes` of them.
    fn run(&mut self, address: u64, bytes: u64, write: bool) -> Result<(*mut u8, u64)> {
        let found = self.memory.find(address);
        let extent = found.map_err(|kind| self.fault(address, bytes, write, kind))?;
        if write && !extent.writable {
            return Err(self.fault(address, bytes, write, FaultKind::NotWritable));
        }
        let offset = address - extent.start;
        let host = extent.host.wrapping_add(offset as usize);
        Ok((host, bytes.min(extent.end - address)))
    }

    /// Reads bytes, from as many mappings as they lie in.
    pub fn read(&mut self, address: u64, to: &mut [u8]) -> Result<()> {
        self.port.refresh();
        if let Ok(p) = self.port.locate(address, to.len() as u64, false) {
            // SAFETY: `locate` vouches for the bytes, and `to` is not among them.
            unsafe { std::ptr::copy_nonoverlapping(p, to.as_mut_ptr(), to.len()) };
            return Ok(());
        }
        Ok(self.memory.copy_out(address, to)?)
    }

    /// Reads `N` bytes.
    pub fn array<const N: usize>(&mut self, address: u64) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read(address, &mut bytes)?;
        Ok(bytes)
    }

    /// Copies bytes, in ascending order where the ranges span several mappings.
    pub fn copy(&mut self, to: u64, from: u64, bytes: u64) -> Result<()> {
        Ok(self.memory.copy_within(to, from, bytes)?)
    }

    /// Copies one row of a rectangle; like [`Bus::copy`], but fast for rows that are few bytes.
    pub fn copy_row(&mut self, to: u64, from: u64, bytes: u64) -> Result<()> {
        let located = self
            .port
            .locate(from, bytes, false)
            .and_then(|source| Ok((source, self.port.locate(to, bytes, true)?)));
        match located {
            Ok((source, target)) => {
                // SAFETY: `locate` vouches for both ranges; `copy` lets them overlap.
                unsafe { std::ptr::copy(source, target, bytes as usize) };
                Ok(())
            }
            Err(_) => self.copy(to, from, bytes),
        }
    }

    /// Fills memory with a word over and over, from its low byte on; the last one may be cut.
    pub fn fill(&mut self, to: u64, word: u32, bytes: u64) -> Result<()> {
        let mut done = 0;
        while done < bytes {
            let (p, n) = self.run(to.wrapping_add(done), bytes - done, true)?;
            let pattern = word.rotate_right(8 * (done % 4) as u32).to_le_bytes();
            // SAFETY: `run` vouches for `n` writable bytes.
            unsafe { fill_host(p, n as usize, pattern) };
            done += n;
        }
        Ok(())
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
