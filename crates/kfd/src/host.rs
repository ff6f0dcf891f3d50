//! The program's own address space: what is mapped where, and how it may be accessed.
//! Asked before host memory is lent to GPUs, and never under the lock of an address map.

use rocjitsu_gpu::memory::fd::HostFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// A run of addresses with one protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) start: u64,
    /// Address after the last.
    pub(crate) end: u64,
    pub(crate) read: bool,
    pub(crate) write: bool,
    /// Device and inode of the mapped file; zeros for anonymous memory.
    pub(crate) file: (u64, u64),
    /// A page of the kernel's, such as `[vvar]`.
    pub(crate) special: bool,
}

impl Area {
    /// The part in `[start, end)`, if there is one.
    pub(crate) fn cut(self, start: u64, end: u64) -> Option<Area> {
        let (start, end) = (self.start.max(start), self.end.min(end));
        (start < end).then_some(Area { start, end, ..self })
    }
}

/// What has a byte in `[start, end)`, in ascending order, each as a whole.
///
/// # Errors
/// `/proc/self/maps` cannot be read.
pub(crate) fn areas(start: u64, end: u64) -> Result<Vec<Area>, Errno> {
    let maps = rustix::fs::open(
        "/proc/self/maps",
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let maps = HostFd::new(maps);
    let mut found = Vec::new();
    let mut buffer = vec![0u8; 64 * 1024];
    let mut kept = 0;
    loop {
        let read = rustix::io::read(&maps, &mut buffer[kept..])?;
        let filled = kept + read;
        let mut at = 0;
        while let Some(length) = buffer[at..filled].iter().position(|&byte| byte == b'\n') {
            let line = &buffer[at..at + length];
            at += length + 1;
            let Some(area) = parse(line) else { continue };
            if area.start >= end {
                return Ok(found);
            }
            if area.end > start {
                found.push(area);
            }
        }
        if read == 0 {
            return Ok(found);
        }
        buffer.copy_within(at..filled, 0);
        kept = filled - at;
        if kept == buffer.len() {
            // A line longer than any path can make it.
            return Err(Errno::INVAL);
        }
    }
}

/// A line of `/proc/self/maps` (proc(5)): `start-end perms offset major:minor inode path`.
fn parse(line: &[u8]) -> Option<Area> {
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let protection = words.next()?.as_bytes();
    let (major, minor) = words.nth(1)?.split_once(':')?;
    let device = rustix::fs::makedev(hex(major)? as u32, hex(minor)? as u32);
    let inode = words.next()?.parse().ok()?;
    let path = words.next().unwrap_or_default();
    Some(Area {
        start: hex(start)?,
        end: hex(end)?,
        read: protection.first() == Some(&b'r'),
        write: protection.get(1) == Some(&b'w'),
        file: (if inode == 0 { 0 } else { device }, inode),
        special: path.starts_with("[v"),
    })
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
    fn lines_of_all_kinds() {
        let area =
            parse(b"7f0000000000-7f0000002000 rw-s 00001000 00:01 1234   /memfd:x (deleted)")
                .unwrap();
        assert_eq!(area.file, (rustix::fs::makedev(0, 1), 1234));
        assert!(area.read && area.write && !area.special);
        assert!(
            parse(b"7ffe5000-7ffe9000 r--p 00000000 00:00 0   [vvar]")
                .unwrap()
                .special
        );
        assert_eq!(parse(b"nonsense"), None);
        assert_eq!(parse(b""), None);
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
