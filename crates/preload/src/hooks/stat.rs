//! The stat family and access.

use std::os::fd::BorrowedFd;

use libc::{c_char, c_int, c_uint};
use rocjitsu_kfd::Errno;

use crate::fds::{self, Kind};
use crate::guard::is_inside;
use crate::process::{self, finish};
use crate::real::{self, Stat, Statx};
use crate::{paths, tree};

/// # Safety
///
/// `path` is null or a C string.
unsafe fn stat_ours(at: c_int, path: *const c_char, flags: c_int) -> Option<Result<Stat, Errno>> {
    // SAFETY: the caller's promise.
    unsafe {
        // An empty path with AT_EMPTY_PATH means the descriptor; glibc's fstat asks so, and others may.
        if means_descriptor(path, flags) {
            return fstat_ours(at);
        }
        let path = paths::candidate(at, path)?;
        process::ask(|driver| tree::stat(driver, &path, flags & libc::AT_SYMLINK_NOFOLLOW == 0))
    }
}

/// What `fstat` says of a descriptor of ours: the node that it was opened by.
fn fstat_ours(fd: c_int) -> Option<Result<Stat, Errno>> {
    let kind = fds::kind(fd)?;
    if is_inside() {
        return None;
    }
    let path = fds::path(fd)?;
    let answer = process::ask(|driver| tree::stat(driver, &path, true))?;
    Some(answer.map(|mut stat| {
        // A reader that allocates what fstat says must get the whole text.
        if kind == Kind::File {
            // SAFETY: zeros are valid for the structure, and the call fills it in.
            unsafe {
                let mut own: Stat = std::mem::zeroed();
                if real::fstat(fd, &raw mut own) == 0 {
                    stat.st_size = own.st_size;
                }
            }
        }
        stat
    }))
}

/// What the driver knows of a file that the hooks have not seen opened.
enum Known {
    /// A buffer that was exported, of so many bytes: its file is larger.
    Buffer(u64),
    /// A device, which came in a message.
    Device(Stat),
}

/// What the driver knows of a descriptor whose file has so many names.
fn known(fd: c_int, links: u64) -> Option<Known> {
    // Files in memory have no name. Others cost no more than this look.
    if links != 0 || fd < 0 {
        return None;
    }
    // SAFETY: the number is not negative, and the program keeps it open during its own call.
    let file = unsafe { BorrowedFd::borrow_raw(fd) };
    let answer = process::ask_existing(|driver| {
        let buffer = driver.seek_end(file).map(Known::Buffer);
        let device = || Some(Known::Device(tree::to_c(&driver.stat_of_fd(file)?)));
        buffer.or_else(device).map(Ok)
    });
    answer?.ok()
}

/// Gives the C library's answer, unless the driver knows better.
///
/// # Safety
///
/// As for `fstat`; `real` is the C library's call of the same kind.
unsafe fn fstat_real(fd: c_int, out: *mut Stat, real: impl FnOnce(*mut Stat) -> c_int) -> c_int {
    let status = real(out);
    if status == 0 {
        // SAFETY: the call has filled the structure in.
        let stat = unsafe { &mut *out };
        match known(fd, stat.st_nlink) {
            None => {}
            Some(Known::Buffer(bytes)) => {
                stat.st_size = bytes.cast_signed();
                stat.st_blocks = (bytes / 512).cast_signed();
            }
            Some(Known::Device(device)) => *stat = device,
        }
    }
    status
}

/// Whether a call with a path means the descriptor.
///
/// # Safety
///
/// `path` is null or a C string.
unsafe fn means_descriptor(path: *const c_char, flags: c_int) -> bool {
    // SAFETY: the caller's promise.
    flags & libc::AT_EMPTY_PATH != 0 && (path.is_null() || unsafe { *path } == 0)
}

/// Writes the answer where the program wants it.
///
/// # Safety
///
/// `out` is valid for writing, as the C function demands.
unsafe fn give(answer: Result<Stat, Errno>, out: *mut Stat) -> c_int {
    finish(
        answer.and_then(|stat| {
            if out.is_null() {
                return Err(Errno::FAULT);
            }
            // SAFETY: the caller's promise.
            unsafe { out.write(stat) };
            Ok(0)
        }),
        -1,
    )
}

macro_rules! stat_hooks {
    ($($name:ident($($argument:ident: $type:ty),*): $answer:expr, $real:expr;)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn $name($($argument: $type,)* out: *mut Stat) -> c_int {
            // SAFETY: the program calls as it would call the C library.
            unsafe {
                match $answer {
                    Some(answer) => give(answer, out),
                    None => $real(out),
                }
            }
        }
    )*};
}

// `struct stat` and `struct stat64` are the same on 64-bit machines. The functions with a version number are what
// programs built against C libraries before 2.33 call.
stat_hooks! {
    stat(path: *const c_char): stat_ours(libc::AT_FDCWD, path, 0), |out| real::stat(path, out);
    stat64(path: *const c_char): stat_ours(libc::AT_FDCWD, path, 0), |out| real::stat(path, out);
    lstat(path: *const c_char): stat_ours(libc::AT_FDCWD, path, libc::AT_SYMLINK_NOFOLLOW), |out| real::lstat(path, out);
    lstat64(path: *const c_char): stat_ours(libc::AT_FDCWD, path, libc::AT_SYMLINK_NOFOLLOW), |out| real::lstat(path, out);
    fstat(fd: c_int): fstat_ours(fd), |out| fstat_real(fd, out, |out| real::fstat(fd, out));
    fstat64(fd: c_int): fstat_ours(fd), |out| fstat_real(fd, out, |out| real::fstat(fd, out));
    __xstat(version: c_int, path: *const c_char): stat_ours(libc::AT_FDCWD, path, 0), |out| real::__xstat(version, path, out);
    __xstat64(version: c_int, path: *const c_char): stat_ours(libc::AT_FDCWD, path, 0), |out| real::__xstat(version, path, out);
    __lxstat(version: c_int, path: *const c_char):
        stat_ours(libc::AT_FDCWD, path, libc::AT_SYMLINK_NOFOLLOW), |out| real::__lxstat(version, path, out);
    __lxstat64(version: c_int, path: *const c_char):
        stat_ours(libc::AT_FDCWD, path, libc::AT_SYMLINK_NOFOLLOW), |out| real::__lxstat(version, path, out);
    __fxstat(version: c_int, fd: c_int):
        fstat_ours(fd), |out| fstat_real(fd, out, |out| real::__fxstat(version, fd, out));
    __fxstat64(version: c_int, fd: c_int):
        fstat_ours(fd), |out| fstat_real(fd, out, |out| real::__fxstat(version, fd, out));
}

macro_rules! statat_hooks {
    ($($name:ident($($version:ident)?) $real:ident;)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $name($($version: c_int,)? at: c_int, path: *const c_char, out: *mut Stat, flags: c_int) -> c_int {
            // SAFETY: the program calls as it would call the C library.
            unsafe {
                match stat_ours(at, path, flags) {
                    Some(answer) => give(answer, out),
                    None if means_descriptor(path, flags) => {
                        fstat_real(at, out, |out| real::$real($($version,)? at, path, out, flags))
                    }
                    None => real::$real($($version,)? at, path, out, flags),
                }
            }
        }
    )*};
}

statat_hooks! {
    fstatat() fstatat;
    fstatat64() fstatat;
    __fxstatat(version) __fxstatat;
    __fxstatat64(version) __fxstatat;
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn statx(
    at: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    out: *mut Statx,
) -> c_int {
    // SAFETY: the program calls as it would call the C library.
    unsafe {
        match stat_ours(at, path, flags) {
            Some(Ok(_)) if out.is_null() => finish(Err(Errno::FAULT), -1),
            Some(Ok(stat)) => {
                out.write(tree::to_statx(&stat));
                0
            }
            Some(Err(errno)) => finish(Err(errno), -1),
            None => {
                let status = real::statx(at, path, flags, mask, out);
                if status == 0 && means_descriptor(path, flags) {
                    match known(at, (*out).stx_nlink.into()) {
                        None => {}
                        Some(Known::Buffer(bytes)) => {
                            (*out).stx_size = bytes;
                            (*out).stx_blocks = bytes / 512;
                        }
                        Some(Known::Device(device)) => *out = tree::to_statx(&device),
                    }
                }
                status
            }
        }
    }
}

/// # Safety
///
/// `path` is null or a C string.
unsafe fn access_ours(
    at: c_int,
    path: *const c_char,
    mode: c_int,
    flags: c_int,
) -> Option<Result<c_int, Errno>> {
    // SAFETY: the caller's promise.
    let path = unsafe { paths::candidate(at, path) }?;
    process::ask(|driver| tree::access(driver, &path, mode, flags & libc::AT_SYMLINK_NOFOLLOW == 0))
}

macro_rules! access_hooks {
    ($($name:ident, $real:ident;)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $name(path: *const c_char, mode: c_int) -> c_int {
            // SAFETY: the program calls as it would call the C library.
            unsafe {
                match access_ours(libc::AT_FDCWD, path, mode, 0) {
                    Some(answer) => finish(answer, -1),
                    None => real::$real(path, mode),
                }
            }
        }
    )*};
}

access_hooks! { access, access; euidaccess, euidaccess; eaccess, euidaccess; }

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn faccessat(at: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int {
    // SAFETY: the program calls as it would call the C library.
    unsafe {
        match access_ours(at, path, mode, flags) {
            Some(answer) => finish(answer, -1),
            None => real::faccessat(at, path, mode, flags),
        }
    }
}
