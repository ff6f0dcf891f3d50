//! The program's own address space: what is mapped where, and how it may be accessed.
//! Asked before host memory is lent to GPUs, and never under the lock of an address map.

use rocjitsu_gpu::memory::maps;
pub(crate) use rocjitsu_gpu::memory::maps::Area;
use rustix::io::Errno;

/// What has a byte in `[start, end)`, in ascending order, each as a whole.
///
/// # Errors
/// `/proc/self/maps` cannot be read.
pub(crate) fn areas(start: u64, end: u64) -> Result<Vec<Area>, Errno> {
    let mut found = Vec::new();
    maps::visit(start, end, &mut vec![0; 64 * 1024], |area| {
        found.push(area);
        true
    })?;
    Ok(found)
}

/// Whether the areas cover `[start, end)` without a gap.
pub(crate) fn covers(areas: &[Area], start: u64, end: u64) -> bool {
    let mut at = start;
    for area in areas {
        if at >= end || area.start > at {
            break;
        }
        at = at.max(area.end);
    }
    at >= end
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

    #[test]
    fn protections_and_gaps_are_seen() {
        const PAGE: u64 = 4096;
        // SAFETY: a fresh mapping; the parts below change only that.
        let start = unsafe {
            let at = rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                5 * PAGE as usize,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
            .unwrap() as u64;
            rustix::mm::mprotect((at + PAGE) as *mut _, 4096, MprotectFlags::READ).unwrap();
            rustix::mm::mprotect((at + 2 * PAGE) as *mut _, 4096, MprotectFlags::empty()).unwrap();
            rustix::mm::munmap((at + 3 * PAGE) as *mut _, 4096).unwrap();
            at
        };
        let found = areas(start, start + 5 * PAGE).unwrap();
        let seen: Vec<_> = found
            .iter()
            .map(|a| a.cut(start, start + 5 * PAGE).unwrap())
            .map(|a| {
                (
                    (a.start - start) / PAGE,
                    (a.end - start) / PAGE,
                    a.read,
                    a.write,
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                (0, 1, true, true),
                (1, 2, true, false),
                (2, 3, false, false),
                (4, 5, true, true)
            ]
        );
        assert!(covers(&found, start, start + 3 * PAGE));
        assert!(!covers(&found, start, start + 5 * PAGE));
        assert!(!covers(&[], 0, 1));
        assert_eq!(found[0].file, (0, 0));
        // SAFETY: what is left of the mapping above.
        unsafe { rustix::mm::munmap(start as *mut _, 5 * PAGE as usize) }.unwrap();
    }

    #[test]
    fn files_are_known_by_their_inode() {
        let arena = rocjitsu_gpu::memory::Arena::new("host-test").unwrap();
        let storage = arena.allocate(1, 1).unwrap();
        let at = storage.base() as u64;
        let found = areas(at, at + 4096).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].file, arena.identity());
    }
}
