//! What execution asks of GPU memory: which host bytes lie behind an address.
//! The device implements [`AddressSpace`]; waves keep the extents they used last.
//!
//! # Access by several threads
//!
//! The workers of a dispatch, the host program that mapped a buffer and other queues reach the same bytes at the same
//! time, as the processors of a GPU do. Nothing but raw pointers ever refers to them: no reference is made that would
//! claim bytes for one thread.
//!
//! - Atomic: the read-modify-write operations (`vmem::rmw`, `smem::atomic`) are host atomics on aligned values,
//!   sequentially consistent; an address that is not aligned stops the wave. Aligned words and pairs that scalar
//!   instructions load are relaxed atomic loads.
//! - Plain: all other loads and stores of vector and scalar instructions, copies to and from LDS, scratch.
//!
//! A kernel without races on the GPU orders its plain accesses by atomics, barriers and the ends of dispatches, which
//! are host atomics, locks or one thread here. What remains is the flag that one wave stores and another one loads
//! with an ordinary instruction and cache-policy bits, as compilers implement atomic loads and stores. Rust's rules
//! call that a data race. It is accepted, since making all vector accesses atomic would cost their vector
//! instructions: each access is a machine load or store, in a handler that is reached through a function pointer or in
//! code compiled instruction by instruction, so nothing merges the accesses of two instructions or repeats one, and aligned words, pairs and
//! quadruples of a lane are not torn (`vmem::whole`). On x86-64 the host keeps their order too; elsewhere the instructions that
//! wait for memory or act on caches are fences ([`order`]).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A run of GPU addresses with storage in this process.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Host address of `start`.
    pub host: *mut u8,
    /// Whether stores are allowed.
    pub writable: bool,
}

/// Why an address cannot be accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Nothing is there.
    Unmapped,
    /// The storage may only be read.
    NotWritable,
    /// The address is not a multiple of what the access needs.
    Misaligned,
    /// Reserved, but not accessible to this GPU.
    NotAccessible,
}

impl std::fmt::Display for FaultKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            FaultKind::Unmapped => "not mapped",
            FaultKind::NotWritable => "mapped read-only",
            FaultKind::Misaligned => "misaligned",
            FaultKind::NotAccessible => "reserved but not accessible to this GPU",
        })
    }
}

/// GPU addresses to host storage.
///
/// # Safety
/// An [`Extent`] stays valid, for reading and if `writable` for writing, as long as
/// [`AddressSpace::generation`] returns what it returned when the extent was found.
pub unsafe trait AddressSpace: Sync {
    /// Changes whenever an extent found earlier may no longer hold.
    fn generation(&self) -> u64;
    /// The extent that contains `address`.
    fn find(&self, address: u64) -> Result<Extent, FaultKind>;
    /// The extent nearest to `address`, for the text of an error.
    fn extent_near(&self, address: u64) -> Option<Extent>;
}

/// Orders the accesses of a wave before and after, where the host does not by itself: for instructions that wait for
/// memory or act on caches.
#[inline(always)]
pub fn order() {
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// How many extents a [`MemoryPort`] remembers.
const WAYS: usize = 4;
/// Bytes of the longest load that is put together from several extents.
const GATHER: usize = 64;

/// A view of memory that remembers the extents used last. Not shared between threads.
pub struct MemoryPort<'a> {
    space: &'a dyn AddressSpace,
    generation: u64,
    recent: [Extent; WAYS],
    next: usize,
    /// A load that crosses extents, put together.
    gathered: [u8; GATHER],
}

impl<'a> MemoryPort<'a> {
    const EMPTY: Extent = Extent {
        start: 1,
        end: 0,
        host: std::ptr::null_mut(),
        writable: false,
    };

    /// A view of `space` that remembers nothing yet.
    pub fn new(space: &'a dyn AddressSpace) -> Self {
        MemoryPort {
            space,
            generation: space.generation(),
            recent: [Self::EMPTY; WAYS],
            next: 0,
            gathered: [0; GATHER],
        }
    }

    /// The address space behind this view.
    pub fn space(&self) -> &'a dyn AddressSpace {
        self.space
    }

    /// Forgets what changed since; call before a wave's turn.
    pub fn refresh(&mut self) {
        let now = self.space.generation();
        if now != self.generation {
            self.generation = now;
            self.recent = [Self::EMPTY; WAYS];
        }
    }

    /// Host address of `bytes` bytes at `address`, all of them inside one extent. A load of at most 64 bytes may cross
    /// extents: the address is then that of a copy, good until the next call.
    #[inline(always)]
    pub fn locate(&mut self, address: u64, bytes: u64, write: bool) -> Result<*mut u8, FaultKind> {
        let e = &self.recent[0];
        if address >= e.start
            && address < e.end
            && bytes <= e.end - address
            && (!write || e.writable)
        {
            // `host` may be any pointer: the offset is inside the extent.
            return Ok(e.host.wrapping_add((address - e.start) as usize));
        }
        self.locate_slowly(address, bytes, write)
    }

    #[inline(never)]
    fn locate_slowly(
        &mut self,
        address: u64,
        bytes: u64,
        write: bool,
    ) -> Result<*mut u8, FaultKind> {
        let hit = (1..WAYS).find(|&i| {
            let e = &self.recent[i];
            address >= e.start && address < e.end
        });
        match hit {
            Some(i) => self.recent.swap(0, i),
            None => {
                let found = self.space.find(address)?;
                self.next = self.next % (WAYS - 1) + 1;
                self.recent[self.next] = self.recent[0];
                self.recent[0] = found;
            }
        }
        let e = &self.recent[0];
        if write && !e.writable {
            return Err(FaultKind::NotWritable);
        }
        if bytes > e.end - address {
            return match bytes as usize {
                length @ ..=GATHER if !write => self.gather(address, length),
                _ => Err(FaultKind::Unmapped),
            };
        }
        Ok(e.host.wrapping_add((address - e.start) as usize))
    }

    /// Copies bytes that lie in several extents.
    #[cold]
    fn gather(&mut self, address: u64, length: usize) -> Result<*mut u8, FaultKind> {
        let mut done = 0;
        while done < length {
            let at = address
                .checked_add(done as u64)
                .ok_or(FaultKind::Unmapped)?;
            let e = self.space.find(at)?;
            let part = (e.end - at).min((length - done) as u64) as usize;
            let from = e.host.wrapping_add((at - e.start) as usize);
            // SAFETY: `part` bytes from there on are in the extent, which was found just now, and there is room for
            // them: `length` is at most GATHER.
            unsafe {
                let to = self.gathered.as_mut_ptr().add(done);
                std::ptr::copy_nonoverlapping(from, to, part);
            }
            done += part;
        }
        Ok(self.gathered.as_mut_ptr())
    }

    /// Stores bytes, across extents too. After an error nothing was stored.
    pub fn store(&mut self, address: u64, bytes: &[u8]) -> Result<(), FaultKind> {
        match self.locate(address, bytes.len() as u64, true) {
            Ok(to) => {
                // SAFETY: `locate` vouches for as many writable bytes.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
                Ok(())
            }
            Err(FaultKind::Unmapped) => self.scatter(address, bytes),
            Err(kind) => Err(kind),
        }
    }

    /// Stores bytes that lie in several extents: first looks at all of them, then stores.
    #[cold]
    fn scatter(&mut self, address: u64, bytes: &[u8]) -> Result<(), FaultKind> {
        for write in [false, true] {
            let mut rest = bytes;
            let mut at = address;
            while !rest.is_empty() {
                let e = self.space.find(at)?;
                if !e.writable {
                    return Err(FaultKind::NotWritable);
                }
                let part = (e.end - at).min(rest.len() as u64) as usize;
                let to = e.host.wrapping_add((at - e.start) as usize);
                if write {
                    // SAFETY: `part` bytes from there on are in the extent, which was found just now and is writable.
                    unsafe { std::ptr::copy_nonoverlapping(rest.as_ptr(), to, part) };
                }
                rest = &rest[part..];
                at = match at.checked_add(part as u64) {
                    Some(next) => next,
                    None if rest.is_empty() => break,
                    None => return Err(FaultKind::Unmapped),
                };
            }
        }
        Ok(())
    }

    /// Reads `N` bytes.
    #[inline(always)]
    pub fn read<const N: usize>(&mut self, address: u64) -> Result<[u8; N], FaultKind> {
        let p = self.locate(address, N as u64, false)?;
        // SAFETY: `locate` vouches for N readable bytes; for other threads see the head of this module.
        Ok(unsafe { p.cast::<[u8; N]>().read_unaligned() })
    }

    /// Reads a word.
    #[inline(always)]
    pub fn read_u32(&mut self, address: u64) -> Result<u32, FaultKind> {
        let p = self.locate(address, 4, false)?.cast::<u32>();
        let word = if p.is_aligned() {
            // SAFETY: `locate` vouches for the bytes, they are aligned, and this process may write all storage.
            unsafe { AtomicU32::from_ptr(p) }.load(Ordering::Relaxed)
        } else {
            // SAFETY: `locate` vouches for the bytes; for other threads see the head of this module.
            unsafe { p.read_unaligned() }
        };
        Ok(u32::from_le(word))
    }

    /// Reads words in a row, aligned pairs each as a whole. After an error some may have been read.
    #[inline(always)]
    pub fn read_words(&mut self, address: u64, words: &mut [u32]) -> Result<(), FaultKind> {
        let p = self.locate(address, 4 * words.len() as u64, false)?;
        if !p.cast::<u64>().is_aligned() {
            for (word, at) in words.iter_mut().zip((address..).step_by(4)) {
                *word = self.read_u32(at)?;
            }
            return Ok(());
        }
        let (pairs, last) = words.as_chunks_mut::<2>();
        for (at, pair) in pairs.iter_mut().enumerate() {
            let from = p.cast::<u64>().wrapping_add(at);
            // SAFETY: `locate` vouches for the bytes, they are aligned, and this process may write all storage.
            let both = u64::from_le(unsafe { AtomicU64::from_ptr(from) }.load(Ordering::Relaxed));
            *pair = [both as u32, (both >> 32) as u32];
        }
        if let [last] = last {
            let from = p.cast::<u32>().wrapping_add(2 * pairs.len());
            // SAFETY: as above.
            *last = u32::from_le(unsafe { AtomicU32::from_ptr(from) }.load(Ordering::Relaxed));
        }
        Ok(())
    }

    /// Writes `N` bytes.
    #[inline(always)]
    pub fn write<const N: usize>(&mut self, address: u64, bytes: [u8; N]) -> Result<(), FaultKind> {
        match self.locate(address, N as u64, true) {
            // SAFETY: as for `read`, for writing.
            Ok(p) => unsafe { p.cast::<[u8; N]>().write_unaligned(bytes) },
            Err(_) => return self.store(address, &bytes),
        }
        Ok(())
    }
}

impl MemoryPort<'_> {
    /// A phrase about the allocation closest to `address`, for the text of an error.
    pub fn near(&self, address: u64) -> String {
        match self.space.extent_near(address) {
            None => "; nothing is mapped".to_owned(),
            Some(e) if address.abs_diff(e.start) > 1 << 40 => "; no allocation is near".to_owned(),
            Some(e) => {
                let place = if address < e.start {
                    format!("{:#x} bytes before", e.start - address)
                } else if address >= e.end {
                    format!("{:#x} bytes behind the end of", address - e.end)
                } else {
                    "inside".to_owned()
                };
                format!("; {place} the allocation {:#x}..{:#x}", e.start, e.end)
            }
        }
    }
}
