//! The program's own address space: what is mapped where, and how it may be accessed. Nothing here allocates or calls
//! the C library: a signal handler reads it, too.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::fd::HostFd;

/// A run of addresses with one protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Whether it may be read.
    pub read: bool,
    /// Whether it may be written.
    pub write: bool,
    /// Whether it may be executed.
    pub execute: bool,
    /// Device and inode of the mapped file; zeros for anonymous memory.
    pub file: (u64, u64),
    /// A page of the kernel's, such as `[vvar]`.
    pub special: bool,
}

impl Area {
    /// The part in `[start, end)`, if there is one.
    pub fn cut(self, start: u64, end: u64) -> Option<Area> {
        let (start, end) = (self.start.max(start), self.end.min(end));
        (start < end).then_some(Area { start, end, ..self })
    }
}

/// Shows what has a byte in `[start, end)`, in ascending order, each as a whole, until `each` says `false`. `buffer`
/// holds the beginning of a line, as far as the path's first characters: 256 bytes do, more are faster.
///
/// # Errors
/// `/proc/self/maps` cannot be read.
pub fn visit(
    start: u64,
    end: u64,
    buffer: &mut [u8],
    mut each: impl FnMut(Area) -> bool,
) -> Result<(), Errno> {
    let maps = rustix::fs::open(
        c"/proc/self/maps",
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let maps = HostFd::new(maps);
    // Whether `line` is wanted, and more after it.
    let mut show = |line: &[u8]| match parse(line) {
        Some(area) if area.start >= end => false,
        Some(area) if area.end > start => each(area),
        _ => true,
    };
    // Bytes at the front of the buffer that belong to a line whose end has not come, and whether that was shown.
    let (mut kept, mut shown) = (0, false);
    loop {
        let read = rustix::io::read(&maps, &mut buffer[kept..])?;
        let filled = kept + read;
        let mut at = 0;
        while let Some(length) = buffer[at..filled].iter().position(|&byte| byte == b'\n') {
            let line = &buffer[at..at + length];
            at += length + 1;
            if !std::mem::take(&mut shown) && !show(line) {
                return Ok(());
            }
        }
        if read == 0 {
            return Ok(());
        }
        buffer.copy_within(at..filled, 0);
        kept = filled - at;
        if kept == buffer.len() {
            if !std::mem::replace(&mut shown, true) && !show(buffer) {
                return Ok(());
            }
            kept = 0;
        }
    }
}

/// A line of `/proc/self/maps` (proc(5)): `start-end perms offset major:minor inode path`.
fn parse(line: &[u8]) -> Option<Area> {
    let mut words = line
        .split(|&byte| byte == b' ')
        .filter(|word| !word.is_empty());
    let (start, end) = pair(words.next()?, b'-')?;
    let protection = words.next()?;
    let (major, minor) = pair(words.nth(1)?, b':')?;
    let device = rustix::fs::makedev(major as u32, minor as u32);
    let inode = number(words.next()?, 10)?;
    let path = words.next().unwrap_or_default();
    let may = |at: usize, letter: u8| protection.get(at) == Some(&letter);
    Some(Area {
        start,
        end,
        read: may(0, b'r'),
        write: may(1, b'w'),
        execute: may(2, b'x'),
        file: (if inode == 0 { 0 } else { device }, inode),
        special: path.starts_with(b"[v"),
    })
}

/// Two hexadecimal numbers with a sign between them.
fn pair(text: &[u8], sign: u8) -> Option<(u64, u64)> {
    let at = text.iter().position(|&byte| byte == sign)?;
    Some((number(&text[..at], 16)?, number(&text[at + 1..], 16)?))
}

fn number(text: &[u8], base: u32) -> Option<u64> {
    let digits = std::str::from_utf8(text).ok()?;
    u64::from_str_radix(digits, base).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_kinds() {
        let area =
            parse(b"7f0000000000-7f0000002000 rw-s 00001000 00:01 1234   /memfd:x (deleted)")
                .unwrap();
        assert_eq!(area.file, (rustix::fs::makedev(0, 1), 1234));
        assert!(area.read && area.write && !area.execute && !area.special);
        assert!(
            parse(b"7ffe5000-7ffe9000 r--p 00000000 00:00 0   [vvar]")
                .unwrap()
                .special
        );
        assert_eq!(parse(b"nonsense"), None);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn a_small_buffer_sees_the_same() {
        let all = |bytes: usize| {
            let mut found = Vec::new();
            visit(0, u64::MAX, &mut vec![0; bytes], |area| {
                found.push((area.start, area.file));
                true
            })
            .unwrap();
            found
        };
        // Other tests map and unmap meanwhile: what is always there is this program.
        let own = all(1 << 16);
        let code = own.iter().find(|(_, file)| file.1 != 0).unwrap();
        assert!(all(128).contains(code) && all(4096).contains(code));
    }
}
