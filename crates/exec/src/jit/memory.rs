//! Memory for compiled code: one file in memory, mapped once to be written and once to be executed, so that
//! no address is ever both.

use std::io;
use std::sync::Arc;

/// Bytes of a region, unless one piece of code needs more.
const REGION: usize = 1 << 20;
/// Pieces of code begin at multiples of this.
pub const ALIGNMENT: usize = 64;

/// A run of code memory. It goes when the last piece of code in it goes.
#[derive(Debug)]
pub struct Region {
    writable: *mut u8,
    executable: *const u8,
    len: usize,
}

// SAFETY: the bytes are written by one thread, before any other thread is given their address.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `len` bytes, a multiple of the page size.
    fn new(len: usize) -> io::Result<Region> {
        // SAFETY: system calls on a descriptor of our own; the name is a C string.
        unsafe {
            let file = libc::memfd_create(c"rocjitsu-code".as_ptr(), libc::MFD_CLOEXEC);
            if file < 0 {
                return Err(io::Error::last_os_error());
            }
            let result = Region::map(file, len);
            libc::close(file);
            result
        }
    }

    /// Maps `len` bytes of `file` twice.
    ///
    /// # Safety
    /// `file` is a descriptor that nobody else changes the size of.
    unsafe fn map(file: i32, len: usize) -> io::Result<Region> {
        // SAFETY: new mappings at addresses of the kernel's choice.
        unsafe {
            if libc::ftruncate(file, len as libc::off_t) != 0 {
                return Err(io::Error::last_os_error());
            }
            let map = |protection| {
                let null = std::ptr::null_mut();
                let at = libc::mmap(null, len, protection, libc::MAP_SHARED, file, 0);
                if at == libc::MAP_FAILED {
                    Err(io::Error::last_os_error())
                } else {
                    Ok(at)
                }
            };
            let writable = map(libc::PROT_READ | libc::PROT_WRITE)?;
            match map(libc::PROT_READ | libc::PROT_EXEC) {
                Ok(executable) => Ok(Region {
                    writable: writable.cast(),
                    executable: executable.cast_const().cast(),
                    len,
                }),
                Err(error) => {
                    libc::munmap(writable, len);
                    Err(error)
                }
            }
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: both mappings are this region's own, and no code in it is left.
        unsafe {
            libc::munmap(self.writable.cast(), self.len);
            libc::munmap(self.executable.cast_mut().cast(), self.len);
        }
    }
}

/// A region that is being filled.
#[derive(Debug, Default)]
pub struct Arena {
    current: Option<(Arc<Region>, usize)>,
}

impl Arena {
    /// Gives the region up; it stays for the code in it.
    pub fn reset(&mut self) {
        self.current = None;
    }

    /// The address at which the next piece of code, of at most `bytes`, will execute.
    ///
    /// # Errors
    /// The system gives no memory for code.
    pub fn place(&mut self, bytes: usize) -> io::Result<u64> {
        let room = |(region, used): &(Arc<Region>, usize)| region.len - used >= bytes;
        if !self.current.as_ref().is_some_and(room) {
            let len = bytes.max(REGION).next_multiple_of(REGION);
            self.current = Some((Arc::new(Region::new(len)?), 0));
        }
        let at = self
            .current
            .as_ref()
            .map(|(region, used)| region.executable.expose_provenance() as u64 + *used as u64);
        Ok(at.unwrap_or_default())
    }

    /// Puts code where the last [`Arena::place`] said; `None` if it is longer than announced.
    pub fn put(&mut self, code: &[u8]) -> Option<Arc<Region>> {
        let (region, used) = self.current.as_mut()?;
        if code.len() > region.len - *used {
            return None;
        }
        // SAFETY: the bytes lie in the region, and no code was put there yet.
        unsafe {
            let to = region.writable.add(*used);
            std::ptr::copy_nonoverlapping(code.as_ptr(), to, code.len());
        }
        *used = (*used + code.len())
            .next_multiple_of(ALIGNMENT)
            .min(region.len);
        Some(region.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_seen_where_it_executes_and_not_writable_there() {
        let mut arena = Arena::default();
        let first = arena.place(100).unwrap();
        let region = arena.put(&[0x90; 100]).unwrap();
        assert_eq!(first, region.executable.addr() as u64);
        let second = arena.place(3).unwrap();
        assert_eq!(second, first + 128);
        arena.put(&[1, 2, 3]).unwrap();
        // SAFETY: inside the mapping.
        let seen = unsafe { std::slice::from_raw_parts(region.executable.add(128), 3) };
        assert_eq!(seen, [1, 2, 3]);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let ours: Vec<_> = maps
            .lines()
            .filter(|l| l.contains("rocjitsu-code"))
            .collect();
        assert!(
            ours.len() >= 2 && ours.iter().all(|l| !l.contains("wx")),
            "{ours:?}"
        );
        arena.place(2 * REGION).unwrap();
        assert!(arena.put(&[0; 2 * REGION]).is_some());
    }
}
