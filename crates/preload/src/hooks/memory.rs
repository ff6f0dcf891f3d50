//! mmap and its kin: mappings of imported buffers, and pages of the program that vanish under the GPU.

use std::ffi::c_void;
use std::os::fd::BorrowedFd;

use libc::{c_int, off_t, size_t};

use crate::process::{self, finish};
use crate::real;

/// Pages of the program are about to vanish: the GPU must not reach them by old addresses.
#[inline]
fn gone(address: *mut c_void, length: size_t) {
    if process::may_lend(address.addr(), length) {
        process::tell(|driver| driver.host_range_unmapped(address.addr() as u64, length as u64));
    }
}

macro_rules! mmap_hooks {
    ($($name:ident,)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $name(
            address: *mut c_void,
            length: size_t,
            protection: c_int,
            flags: c_int,
            fd: c_int,
            offset: off_t,
        ) -> *mut c_void {
            if flags & libc::MAP_FIXED != 0 {
                gone(address, length);
            }
            if fd >= 0 {
                let answer = process::ask_existing(|driver| {
                    // SAFETY: the number is not negative, and the program keeps it open during its own call.
                    let file = unsafe { BorrowedFd::borrow_raw(fd) };
                    driver.mmap(file, address, length, protection, flags, offset)
                });
                if let Some(answer) = answer {
                    return finish(answer, libc::MAP_FAILED);
                }
            }
            // SAFETY: the program calls as it would call the C library.
            let mapped = unsafe { real::$name(address, length, protection, flags, fd, offset) };
            if flags & libc::MAP_FIXED == 0 && mapped != libc::MAP_FAILED {
                // What was there before has gone where no hook sees it: inside the C library, when a large
                // allocation is freed.
                gone(mapped, length);
            }
            mapped
        }
    )*};
}

mmap_hooks! { mmap, mmap64, }

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn munmap(address: *mut c_void, length: size_t) -> c_int {
    gone(address, length);
    // SAFETY: the program calls as it would call the C library.
    unsafe { real::munmap(address, length) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn mremap(
    address: *mut c_void,
    old: size_t,
    new: size_t,
    flags: c_int,
    target: *mut c_void,
) -> *mut c_void {
    gone(address, old);
    if flags & libc::MREMAP_FIXED != 0 {
        gone(target, new);
    }
    // SAFETY: the program calls as it would call the C library.
    unsafe { real::mremap(address, old, new, flags, target) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn mprotect(address: *mut c_void, length: size_t, protection: c_int) -> c_int {
    // GPUs have registered pages with the protection they had: they look again when they next touch them.
    if process::may_lend(address.addr(), length) {
        process::tell(|driver| driver.host_range_gone(address.addr() as u64, length as u64));
    }
    // SAFETY: the program calls as it would call the C library.
    unsafe { real::mprotect(address, length, protection) }
}
