//! Room beside allocations, for those who look for accesses that miss one: pages of the program's address space directly
//! before and behind each allocation are reserved, so that the kernel gives the next one an address elsewhere.

use rocjitsu_gpu::memory::PAGE;
use rocjitsu_gpu::memory::kept::KeptFd;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::file::{self, Identity};
use crate::host;

/// Reserves room beside allocations.
#[derive(Debug)]
pub(crate) struct RedZones {
    /// Bytes on each side, whole pages.
    bytes: u64,
    /// The file that reserved pages are of, by which they are known; nobody can read them.
    file: KeptFd,
}

/// Room that is reserved, until dropped.
#[derive(Debug)]
pub(crate) struct Room {
    start: u64,
    end: u64,
    identity: Identity,
}

impl RedZones {
    /// Room of `bytes` bytes, rounded up to pages, on each side.
    ///
    /// # Errors
    /// The host refuses a file in memory.
    pub(crate) fn new(bytes: u64) -> Result<RedZones, Errno> {
        let file = KeptFd::new(file::memfd("rocjitsu-redzone", PAGE)?, "red zones");
        let bytes = bytes.max(1).next_multiple_of(PAGE);
        Ok(RedZones {
            bytes,
            file: file.map_err(|_| Errno::NFILE)?,
        })
    }

    /// Reserves what is free of the room beside `[start, end)`: all of it, or half, or a quarter, and so on. Where the program
    /// has reserved its addresses as a whole, as ROCm's runtime does, that is nothing.
    pub(crate) fn beside(&self, start: u64, end: u64) -> Vec<Room> {
        let sizes = || {
            let halved = |&bytes: &u64| (bytes > PAGE).then(|| (bytes / 2).next_multiple_of(PAGE));
            std::iter::successors(Some(self.bytes), halved)
        };
        let before = sizes().find_map(|bytes| self.reserve(start.checked_sub(bytes)?, bytes));
        let behind = sizes().find_map(|bytes| self.reserve(end, bytes));
        before.into_iter().chain(behind).collect()
    }

    fn reserve(&self, start: u64, bytes: u64) -> Option<Room> {
        let end = start.checked_add(bytes)?;
        if start == 0 {
            return None;
        }
        let file = self.file.get().ok()?;
        // SAFETY: with FIXED_NOREPLACE the call makes a mapping where nothing is mapped, or none.
        let mapped = unsafe {
            rustix::mm::mmap(
                std::ptr::without_provenance_mut(start as usize),
                bytes as usize,
                ProtFlags::empty(),
                MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE,
                &file,
                0,
            )
        };
        let room = Room {
            start: mapped.ok()?.addr() as u64,
            end: mapped.ok()?.addr() as u64 + bytes,
            identity: self.file.identity(),
        };
        // A kernel before Linux 4.17 takes the address as a hint; what it made instead goes at once.
        (room.start == start && room.end == end).then_some(room)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // The program may have put something of its own there.
        let Ok(areas) = host::areas(self.start, self.end) else {
            return;
        };
        let own = |area: &host::Area| area.file == self.identity;
        let parts = areas.into_iter().filter(own);
        for part in parts.filter_map(|area| area.cut(self.start, self.end)) {
            let at = std::ptr::without_provenance_mut(part.start as usize);
            // SAFETY: pages of the file of red zones, which nobody else knows. Where it fails they stay, which harms nobody.
            let _ = unsafe { rustix::mm::munmap(at, (part.end - part.start) as usize) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reserved(bytes: u64) -> u64 {
        // SAFETY: a fresh reservation.
        let at = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                bytes as usize,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        at.unwrap() as u64
    }

    #[test]
    fn room_is_what_is_free_and_goes_with_its_owner() {
        let zones = RedZones::new(4 * PAGE - 5).unwrap();
        // Of a free range of 16 pages the program has pages 6 to 9, and page 12.
        let all = reserved(16 * PAGE);
        let page = |n: u64| all + n * PAGE;
        for (first, last) in [(0, 6), (9, 12), (13, 16)] {
            // SAFETY: parts of the reservation.
            unsafe { rustix::mm::munmap(page(first) as *mut _, ((last - first) * PAGE) as usize) }
                .unwrap();
        }
        let rooms = zones.beside(page(6), page(9));
        let found: Vec<_> = rooms.iter().map(|room| (room.start, room.end)).collect();
        // Three pages are free behind it: half of four.
        assert_eq!(found, [(page(2), page(6)), (page(9), page(11))]);
        let taken = host::areas(page(0), page(16)).unwrap();
        assert!(taken.iter().all(|area| !area.read && !area.write));
        // The program puts something of its own into the room, which stays.
        // SAFETY: pages that the room has reserved.
        unsafe {
            rustix::mm::mmap_anonymous(
                page(3) as *mut _,
                PAGE as usize,
                ProtFlags::READ,
                MapFlags::PRIVATE | MapFlags::FIXED,
            )
        }
        .unwrap();
        drop(rooms);
        let left: Vec<_> = host::areas(page(0), page(16))
            .unwrap()
            .into_iter()
            .filter_map(|area| area.cut(page(0), page(16)))
            .map(|area| ((area.start - all) / PAGE, (area.end - all) / PAGE))
            .collect();
        assert_eq!(left, [(3, 4), (6, 9), (12, 13)]);
        for (first, last) in [(3, 4), (6, 9), (12, 13)] {
            // SAFETY: what is left of the reservation.
            unsafe { rustix::mm::munmap(page(first) as *mut _, ((last - first) * PAGE) as usize) }
                .unwrap();
        }
    }
}
