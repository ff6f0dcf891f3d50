//! ioctl, dup, fcntl, close, lseek: calls on descriptors.

use std::ffi::c_void;
use std::os::fd::BorrowedFd;
use std::path::Path;

use libc::{c_int, c_uint, c_ulong, off_t};
use rocjitsu_gpu::memory::kept;
use rocjitsu_kfd::{Errno, table};

use crate::fds::{self, Kind};
use crate::guard::{KeepErrno, is_inside, set_errno};
use crate::process::{self, finish};
use crate::real;

/// The descriptor is about to be closed, or is another file now.
pub fn forget(fd: c_int) {
    let _errno = KeepErrno::now();
    if process::existing().is_some_and(|driver| driver.may_be_ours(fd)) {
        process::tell(|driver| driver.closed(fd));
    }
    fds::remove(fd);
}

/// Closes a descriptor of ours.
///
/// # Safety
///
/// As for `close`.
pub unsafe fn close_ours(fd: c_int) -> c_int {
    forget(fd);
    // SAFETY: the caller's promise.
    unsafe { real::close(fd) }
}

/// Whether this process may change the table: a child of `vfork` has descriptors of its own but shares our memory.
fn table_is_mine() -> bool {
    process::is_this_process()
}

/// Whether the driver keeps this descriptor for itself: the program must find it closed.
fn is_kept(fd: c_int) -> bool {
    kept::is_kept(fd) && !is_inside() && table_is_mine()
}

/// The answer to calls on a descriptor that is not open.
fn not_open() -> c_int {
    set_errno(libc::EBADF);
    -1
}

/// Runs `duplicate`, which makes `new` a duplicate of `old`; what the driver keeps there goes elsewhere.
fn replace(old: c_int, new: c_int, duplicate: impl FnOnce() -> c_int) -> c_int {
    if is_kept(old) {
        return not_open();
    }
    let mut moved = false;
    if old != new && is_kept(new) {
        let errno = KeepErrno::now();
        let Ok(done) = kept::make_room(new) else {
            drop(errno);
            set_errno(libc::EBUSY);
            return -1;
        };
        moved = done;
    }
    let result = duplicate();
    if result < 0 && moved {
        let _errno = KeepErrno::now();
        // SAFETY: what was there has another number now, and nothing has replaced it.
        unsafe { real::close(new) };
    }
    duplicated(old, result);
    result
}

/// `new` has just become a duplicate of `old`, if not negative.
fn duplicated(old: c_int, new: c_int) {
    if new < 0 || new == old || is_inside() || !table_is_mine() {
        return;
    }
    let _errno = KeepErrno::now();
    fds::duplicate(old, new);
    // The driver knows descriptors that are not in the table: those that its ioctls hand out.
    process::tell(|driver| driver.duplicated(old, new));
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    // SAFETY: the program calls as it would call the C library.
    unsafe {
        match ioctl_ours(fd, request as u32, argument) {
            Some(answer) => finish(answer, -1),
            None => real::ioctl(fd, request, argument),
        }
    }
}

/// `_IOC_TYPE` of KFD, DRM and dma-buf requests.
fn is_gpu_request(request: u32) -> bool {
    matches!((request >> 8) as u8, b'K' | b'd' | b'b')
}

unsafe fn ioctl_ours(
    fd: c_int,
    request: u32,
    argument: *mut c_void,
) -> Option<Result<c_int, Errno>> {
    match fds::kind(fd) {
        Some(Kind::Inherited) => return Some(Err(Errno::BADF)),
        Some(Kind::File | Kind::Directory) => return Some(Err(Errno::NOTTY)),
        Some(Kind::Device) => {}
        // A descriptor may have come from another process, or out of an ioctl.
        None if fd >= 0 && is_gpu_request(request) => {}
        None => return None,
    }
    let answer = process::ask_existing(|driver| {
        // SAFETY: the number is not negative, and the program keeps it open during its own call.
        let file = unsafe { BorrowedFd::borrow_raw(fd) };
        let answer = driver.ioctl(file, request, argument)?;
        let verbose = driver.machine().options.verbose;
        if verbose >= 3 || verbose == 2 && answer.is_err() {
            tell_of(request, fd, &answer);
        }
        Some(answer)
    });
    // A forked child may have been noticed only now.
    answer.or_else(|| (fds::kind(fd) == Some(Kind::Inherited)).then_some(Err(Errno::BADF)))
}

/// With `-vv` the program's failing ioctls are named, with `-vvv` all.
fn tell_of(request: u32, fd: c_int, answer: &Result<c_int, Errno>) {
    let table = if (request >> 8) as u8 == b'K' {
        table::KFD
    } else {
        table::DRM
    };
    let name = table::row(table, request as u8).map_or("unknown", |(_, row)| row.name);
    let path = fds::path(fd);
    let path = path
        .as_deref()
        .unwrap_or(Path::new("a received descriptor"));
    let result = match answer {
        Ok(value) => value.to_string(),
        Err(errno) => errno.to_string(),
    };
    eprintln!(
        "rocjitsu: ioctl {request:#010x} {name} of {}: {result}",
        path.display()
    );
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn dup(old: c_int) -> c_int {
    if is_kept(old) {
        return not_open();
    }
    // SAFETY: the program calls as it would call the C library.
    let new = unsafe { real::dup(old) };
    duplicated(old, new);
    new
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn dup2(old: c_int, new: c_int) -> c_int {
    // SAFETY: the program calls as it would call the C library.
    replace(old, new, || unsafe { real::dup2(old, new) })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    // SAFETY: the program calls as it would call the C library.
    replace(old, new, || unsafe { real::dup3(old, new, flags) })
}

macro_rules! fcntl_hooks {
    ($($name:ident,)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $name(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
            if is_kept(fd) {
                return not_open();
            }
            // SAFETY: the program calls as it would call the C library.
            let result = unsafe { real::$name(fd, command, argument) };
            if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
                duplicated(fd, result);
            }
            result
        }
    )*};
}

fcntl_hooks! { fcntl, fcntl64, }

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn close(fd: c_int) -> c_int {
    if is_kept(fd) {
        return not_open();
    }
    if is_inside() {
        kept::released(fd);
    }
    if (fds::kind(fd).is_some() || process::is_made()) && !is_inside() && table_is_mine() {
        forget(fd);
    }
    // SAFETY: the program calls as it would call the C library.
    unsafe { real::close(fd) }
}

/// The descriptors from `first` to `last` are about to be closed.
fn forget_range(first: c_uint, last: c_uint) {
    if is_inside() || !table_is_mine() {
        return;
    }
    let number = |fd: c_uint| c_int::try_from(fd).unwrap_or(c_int::MAX);
    for fd in fds::range(number(first), number(last)) {
        forget(fd);
    }
    // The driver knows descriptors that are not in the table, in the numbers below its own limit.
    let _errno = KeepErrno::now();
    process::tell(|driver| {
        let last = number(last).min(fds::LIMIT as c_int - 1);
        (number(first)..=last).for_each(|fd| driver.closed(fd));
    });
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    // With CLOSE_RANGE_CLOEXEC nothing is closed now, and what the driver keeps has the flag. CLOSE_RANGE_UNSHARE is for
    // threads with tables of their own, which this library does not follow.
    let closes = flags & !(libc::CLOSE_RANGE_UNSHARE as c_int) == 0 && first <= last;
    if !closes {
        // SAFETY: the program calls as it would call the C library.
        return unsafe { real::close_range(first, last, flags) };
    }
    forget_range(first, last);
    // SAFETY: as above, for parts of its range.
    let close = |first, last| unsafe { real::close_range(first, last, flags) };
    around_kept(first, last)
        .into_iter()
        .map(|(first, last)| close(first, last))
        .find(|&answer| answer != 0)
        .unwrap_or(0)
}

/// The parts of a range of descriptors that lie between those that the driver keeps; without these, the whole range.
fn around_kept(first: c_uint, last: c_uint) -> Vec<(c_uint, c_uint)> {
    let mut parts = Vec::new();
    let mut next = Some(first);
    if !is_inside() && table_is_mine() {
        let end = c_int::try_from(last).unwrap_or(c_int::MAX);
        for fd in kept::kept_within(c_int::try_from(first).unwrap_or(c_int::MAX), end) {
            let fd = fd.cast_unsigned();
            if let Some(from) = next.filter(|&from| from < fd) {
                parts.push((from, fd - 1));
            }
            next = fd.checked_add(1);
        }
    }
    parts.extend(next.filter(|&from| from <= last).map(|from| (from, last)));
    parts
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn closefrom(first: c_int) {
    let first = first.max(0).cast_unsigned();
    forget_range(first, c_uint::MAX);
    for (first, last) in around_kept(first, c_uint::MAX) {
        // SAFETY: the program calls as it would call the C library, for parts of its range.
        unsafe {
            if last == c_uint::MAX {
                real::closefrom(first.cast_signed());
            } else if real::close_range(first, last, 0) != 0 {
                // Kernels before 5.9.
                for fd in first..=last {
                    real::close(fd.cast_signed());
                }
            }
        }
    }
}

/// The size of an exported buffer, whose file is larger than it.
fn seek_ours(fd: c_int, offset: off_t, whence: c_int) -> Option<Result<off_t, Errno>> {
    if whence != libc::SEEK_END || offset != 0 || fd < 0 {
        return None;
    }
    process::ask_existing(|driver| {
        // SAFETY: the number is not negative, and the program keeps it open during its own call.
        let bytes = driver.seek_end(unsafe { BorrowedFd::borrow_raw(fd) })?;
        Some(off_t::try_from(bytes).map_err(|_| Errno::OVERFLOW))
    })
}

macro_rules! seek_hooks {
    ($($name:ident,)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $name(fd: c_int, offset: off_t, whence: c_int) -> off_t {
            match seek_ours(fd, offset, whence) {
                Some(answer) => finish(answer, -1),
                // SAFETY: the program calls as it would call the C library.
                None => unsafe { real::$name(fd, offset, whence) },
            }
        }
    )*};
}

seek_hooks! { lseek, lseek64, }
