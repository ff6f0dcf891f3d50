//! mmap and its kin: mappings of imported buffers, and pages of the program that vanish under the GPU.

use std::ffi::c_void;
use std::os::fd::BorrowedFd;

use libc::{c_int, intptr_t, off_t, size_t};

use crate::guard::is_inside;
use crate::process::{self, finish};
use crate::real;

/// Something new lies at `address`. What was there before has gone where no hook sees it: inside the C library, when a
/// large allocation is freed.
#[inline]
fn is_new(address: *mut c_void, length: size_t) {
    if process::may_lend(address.addr(), length) {
        process::tell(|driver| driver.host_range_unmapped(address.addr() as u64, length as u64));
    }
}

/// Pages of the program's get another protection: GPUs have registered them with the one they had, and look again when
/// they next touch them.
#[inline]
fn is_protected(address: *mut c_void, length: size_t) {
    if process::may_lend(address.addr(), length) {
        process::tell(|driver| driver.host_range_gone(address.addr() as u64, length as u64));
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
            let own = is_inside();
            let map = || {
                let answer = process::mapping(fd, own, |driver| {
                    // SAFETY: the number is not negative, and the program keeps it open during its own call.
                    let file = unsafe { BorrowedFd::borrow_raw(fd) };
                    driver.mmap(file, address, length, protection, flags, offset)
                });
                match answer {
                    Some(answer) => finish(answer, libc::MAP_FAILED),
                    // SAFETY: the program calls as it would call the C library.
                    None => unsafe { real::$name(address, length, protection, flags, fd, offset) },
                }
            };
            if flags & libc::MAP_FIXED != 0 {
                return process::change(&[(address.addr(), length)], map, |&at, replaced| {
                    if at != libc::MAP_FAILED {
                        replaced(at.addr(), length);
                    }
                });
            }
            let mapped = map();
            if mapped != libc::MAP_FAILED {
                is_new(mapped, length);
            }
            mapped
        }
    )*};
}

mmap_hooks! { mmap, mmap64, }

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn munmap(address: *mut c_void, length: size_t) -> c_int {
    let place = (address.addr(), length);
    // SAFETY: the program calls as it would call the C library.
    let unmap = || unsafe { real::munmap(address, length) };
    process::change(&[place], unmap, |&done, replaced| {
        if done == 0 {
            replaced(place.0, place.1);
        }
    })
}

/// Bytes in whole pages, the unit of mremap's lengths.
fn pages(bytes: size_t) -> size_t {
    bytes.checked_next_multiple_of(4096).unwrap_or(bytes)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn mremap(
    address: *mut c_void,
    old: size_t,
    new: size_t,
    flags: c_int,
    target: *mut c_void,
) -> *mut c_void {
    let fixed = flags & libc::MREMAP_FIXED != 0;
    let from = (address.addr(), pages(old));
    let to = (target.addr(), if fixed { pages(new) } else { 0 });
    // SAFETY: the program calls as it would call the C library.
    let remap = || unsafe { real::mremap(address, old, new, flags, target) };
    let moved = process::change(&[from, to], remap, |&at, replaced| {
        if at == libc::MAP_FAILED {
            return;
        }
        // The attributes of what stays where it is stay, too.
        let kept = if at == address { pages(new) } else { 0 };
        if kept < from.1 && flags & libc::MREMAP_DONTUNMAP == 0 {
            replaced(from.0 + kept, from.1 - kept);
        }
        if fixed {
            replaced(to.0, to.1);
        }
    });
    if moved != libc::MAP_FAILED && moved != address && !fixed {
        is_new(moved, new);
    }
    moved
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn mprotect(address: *mut c_void, length: size_t, protection: c_int) -> c_int {
    is_protected(address, length);
    // SAFETY: the program calls as it would call the C library.
    let done = unsafe { real::mprotect(address, length, protection) };
    // Again, for those that looked before the call.
    is_protected(address, length);
    done
}

/// The end of the program's data segment, which `brk` moves.
fn end() -> usize {
    // SAFETY: asks where it is.
    unsafe { real::sbrk(0) }.addr()
}

/// Moves the end of the data segment down to `new`, or up.
fn move_end<R>(new: usize, call: impl FnOnce() -> R) -> R {
    let old = end();
    let vanishes = (new, old.saturating_sub(new));
    process::change(&[vanishes], call, |_, replaced| {
        // As far as it has moved.
        let now = pages(end());
        if now < old {
            replaced(now, old - now);
        }
    })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn brk(new: *mut c_void) -> c_int {
    // SAFETY: the program calls as it would call the C library.
    move_end(new.addr(), || unsafe { real::brk(new) })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn sbrk(bytes: intptr_t) -> *mut c_void {
    // SAFETY: the program calls as it would call the C library.
    let call = || unsafe { real::sbrk(bytes) };
    match bytes {
        0.. => call(),
        _ => move_end(end().saturating_add_signed(bytes), call),
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn shmat(id: c_int, at: *const c_void, flags: c_int) -> *mut c_void {
    // SAFETY: the program calls as it would call the C library.
    let attached = unsafe { real::shmat(id, at, flags) };
    if attached != libc::MAP_FAILED {
        is_new(attached, segment(attached));
    }
    attached
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn shmdt(at: *const c_void) -> c_int {
    let place = (at.addr(), segment(at));
    // SAFETY: the program calls as it would call the C library.
    let detach = || unsafe { real::shmdt(at) };
    process::change(&[place], detach, |&done, replaced| {
        if done == 0 {
            replaced(place.0, place.1);
        }
    })
}

/// Bytes of the shared memory segment at an address; 0 while no driver is there that could have lent it.
fn segment(at: *const c_void) -> usize {
    let found = process::ask_existing(|driver| driver.host_segment(at.addr() as u64).map(Ok));
    found.and_then(Result::ok).unwrap_or(0) as usize
}
