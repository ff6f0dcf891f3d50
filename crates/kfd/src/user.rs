//! Checked copies between this process's own memory and the driver's: an address that the program
//! passes in an ioctl may be anything, and a bad one must give EFAULT, not a signal.
//!
//! The bytes go through a small memfd: the kernel checks the program's address when it copies
//! (`pwrite` from it, `pread` to it), and the memfd's own mapping is always there. One system call
//! per copy, about half a microsecond; `process_vm_readv` takes three times as long. Another one looks whether the memfd is
//! still there, a tenth of a microsecond.

use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rocjitsu_gpu::memory::kept::KeptFd;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use zerocopy::IntoBytes;

use crate::abi::Abi;
use crate::file;

/// Bytes that go through at a time; an ioctl's argument has less than 16 KiB.
const WINDOW: usize = 16 * 1024;
/// Copies that can be under way at the same time.
const WINDOWS: u32 = 64;

/// The way to the program's memory.
#[derive(Debug)]
pub(crate) struct User {
    memfd: KeptFd,
    base: NonNull<u8>,
    free: AtomicU64,
}

// SAFETY: the mapping belongs to the value; a window is touched only by the thread that took it.
unsafe impl Send for User {}
// SAFETY: as above.
unsafe impl Sync for User {}

impl User {
    pub(crate) fn new() -> Result<User, Errno> {
        let bytes = WINDOW * WINDOWS as usize;
        let memfd = file::memfd("rocjitsu-copies", bytes as u64)?;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &memfd,
                0,
            )?
        };
        Ok(User {
            memfd: KeptFd::new(memfd, "copies of arguments").map_err(|_| Errno::NFILE)?,
            base: NonNull::new(base.cast()).ok_or(Errno::NOMEM)?,
            free: AtomicU64::new(u64::MAX),
        })
    }

    /// Copies the program's bytes at `address` into `to`.
    ///
    /// # Errors
    /// `EFAULT` if they cannot all be read; `EBADF` if the program has closed what copies go through.
    pub(crate) fn read(&self, address: u64, to: &mut [u8]) -> Result<(), Errno> {
        let mut at = address;
        for part in to.chunks_mut(WINDOW) {
            let window = self.take();
            self.transfer(libc::SYS_pwrite64, &window, at, part.len())?;
            // SAFETY: the window is ours, WINDOW bytes long, and no slice of Rust's refers to it.
            unsafe { std::ptr::copy_nonoverlapping(window.base, part.as_mut_ptr(), part.len()) };
            at = at.wrapping_add(part.len() as u64);
        }
        Ok(())
    }

    /// Copies `from` to the program's `address`.
    ///
    /// # Errors
    /// `EFAULT` if not all of it can be written.
    pub(crate) fn write(&self, address: u64, from: &[u8]) -> Result<(), Errno> {
        let mut at = address;
        for part in from.chunks(WINDOW) {
            let window = self.take();
            // SAFETY: as in `read`.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), window.base, part.len()) };
            self.transfer(libc::SYS_pread64, &window, at, part.len())?;
            at = at.wrapping_add(part.len() as u64);
        }
        Ok(())
    }

    /// Reads `count` elements.
    ///
    /// # Errors
    /// As [`User::read`]; `EINVAL` for more than a mebibyte.
    pub(crate) fn read_array<T: Abi>(&self, address: u64, count: usize) -> Result<Vec<T>, Errno> {
        let bytes = count.checked_mul(size_of::<T>());
        if bytes.is_none_or(|bytes| bytes > 1 << 20) {
            return Err(Errno::INVAL);
        }
        let mut values = vec![T::default(); count];
        self.read(address, values.as_mut_slice().as_mut_bytes())?;
        Ok(values)
    }

    /// Writes a structure or a slice of them.
    ///
    /// # Errors
    /// As [`User::write`].
    pub(crate) fn write_value<T>(&self, address: u64, value: &T) -> Result<(), Errno>
    where
        T: zerocopy::IntoBytes + zerocopy::Immutable + ?Sized,
    {
        self.write(address, value.as_bytes())
    }

    fn transfer(
        &self,
        call: libc::c_long,
        window: &Window<'_>,
        address: u64,
        bytes: usize,
    ) -> Result<(), Errno> {
        let memfd = self.memfd.get().map_err(|_| Errno::BADF)?;
        // SAFETY: `pwrite64` and `pread64` move at most `bytes` between the program's address,
        // which the kernel checks, and a part of the memfd that belongs to this window. What the
        // program passes as an address of its own is the program's to have read or overwritten.
        let moved = unsafe {
            libc::syscall(
                call,
                memfd.as_fd().as_raw_fd(),
                address as *mut libc::c_void,
                bytes,
                window.offset as libc::off64_t,
            )
        };
        if moved == bytes as libc::c_long {
            Ok(())
        } else {
            Err(Errno::FAULT)
        }
    }

    /// Takes a free window, waiting for one if all are in use.
    fn take(&self) -> Window<'_> {
        loop {
            let free = self.free.load(Ordering::Relaxed);
            if free == 0 {
                rustix::thread::sched_yield();
                continue;
            }
            let bit = free.trailing_zeros();
            if self
                .free
                .compare_exchange_weak(
                    free,
                    free & !(1 << bit),
                    Ordering::Acquire,
                    Ordering::Relaxed,
                )
                .is_ok()
            {
                let offset = bit as usize * WINDOW;
                return Window {
                    user: self,
                    bit,
                    offset,
                    base: self.base.as_ptr().wrapping_add(offset),
                };
            }
        }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // SAFETY: the range was mapped in `new`, and no window outlives the value.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), WINDOW * WINDOWS as usize) };
    }
}

/// A part of the memfd in one thread's hands.
struct Window<'a> {
    user: &'a User,
    bit: u32,
    offset: usize,
    base: *mut u8,
}

impl Drop for Window<'_> {
    fn drop(&mut self) {
        self.user.free.fetch_or(1 << self.bit, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::EventId;

    #[test]
    fn copies_both_ways_across_windows() {
        let user = User::new().unwrap();
        let from: Vec<u8> = (0..WINDOW * 3 + 5).map(|i| (i * 7) as u8).collect();
        let mut to = vec![0; from.len()];
        user.read(from.as_ptr() as u64, &mut to).unwrap();
        assert_eq!(from, to);
        let mut back = vec![0u8; from.len()];
        user.write(back.as_mut_ptr() as u64, &to).unwrap();
        assert_eq!(from, back);
    }

    #[test]
    fn bad_addresses_fault() {
        let user = User::new().unwrap();
        for address in [0, 8, 0x1_0000_0000_0000, u64::MAX, u64::MAX - 4096] {
            assert_eq!(user.read(address, &mut [0; 16]), Err(Errno::FAULT));
            assert_eq!(user.write(address, &[0; 16]), Err(Errno::FAULT));
        }
        assert_eq!(user.read_array::<EventId>(8, 1), Err(Errno::FAULT));
        assert_eq!(
            user.read_array::<EventId>(8, usize::MAX / 4),
            Err(Errno::INVAL)
        );
        static CONSTANT: [u8; 16] = [1; 16];
        assert_eq!(
            user.write(CONSTANT.as_ptr() as u64, &[0; 16]),
            Err(Errno::FAULT)
        );
    }

    #[test]
    fn many_threads_share_the_windows() {
        let user = User::new().unwrap();
        std::thread::scope(|scope| {
            for seed in 0..80u64 {
                let user = &user;
                scope.spawn(move || {
                    for i in 0..50 {
                        let value = seed << 32 | i;
                        let mut seen = [0; 8];
                        user.read(&raw const value as u64, &mut seen).unwrap();
                        assert_eq!(u64::from_ne_bytes(seen), value);
                    }
                });
            }
        });
        assert_eq!(user.free.load(Ordering::Relaxed), u64::MAX);
    }
}
