//! readlink and realpath.

use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use libc::{c_char, c_int, size_t, ssize_t};
use rocjitsu_kfd::Errno;

use crate::process::{self, finish};
use crate::{fds, guard, paths, real, tree};

/// # Safety
///
/// `path` is null or a C string.
unsafe fn link_ours(at: c_int, path: *const c_char) -> Option<Result<PathBuf, Errno>> {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(path) = of_descriptor(path) {
            return Some(Ok(path));
        }
        let path = paths::candidate(at, path)?;
        process::ask(|driver| tree::read_link(driver, &path))
    }
}

/// The name behind `/proc/self/fd/N`, where the kernel would show the memfd.
///
/// # Safety
///
/// `path` is null or a C string.
unsafe fn of_descriptor(path: *const c_char) -> Option<PathBuf> {
    if path.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let number = unsafe { CStr::from_ptr(path) }
        .to_bytes()
        .strip_prefix(b"/proc/self/fd/")?;
    let fd = std::str::from_utf8(number).ok()?.parse().ok()?;
    if guard::is_inside() {
        return None;
    }
    fds::path(fd).map(|path| path.to_path_buf())
}

/// # Safety
///
/// `out` has `size` bytes.
unsafe fn give(answer: Result<PathBuf, Errno>, out: *mut c_char, size: size_t) -> ssize_t {
    finish(
        answer.and_then(|path| {
            let bytes = path.as_os_str().as_bytes();
            if size == 0 {
                return Err(Errno::INVAL);
            }
            let count = bytes.len().min(size);
            // SAFETY: both are at least `count` bytes long, and ours is not the program's.
            unsafe { out.copy_from_nonoverlapping(bytes.as_ptr().cast(), count) };
            Ok(count as ssize_t)
        }),
        -1,
    )
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn readlink(path: *const c_char, out: *mut c_char, size: size_t) -> ssize_t {
    // SAFETY: the program calls as it would call the C library.
    unsafe {
        match link_ours(libc::AT_FDCWD, path) {
            Some(answer) => give(answer, out, size),
            None => real::readlink(path, out, size),
        }
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn readlinkat(
    at: c_int,
    path: *const c_char,
    out: *mut c_char,
    size: size_t,
) -> ssize_t {
    // SAFETY: the program calls as it would call the C library.
    unsafe {
        match link_ours(at, path) {
            Some(answer) => give(answer, out, size),
            None => real::readlinkat(at, path, out, size),
        }
    }
}

/// The checked form; its last argument is the size of the buffer, which the compiler knew.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn __readlink_chk(
    path: *const c_char,
    out: *mut c_char,
    size: size_t,
    room: size_t,
) -> ssize_t {
    // SAFETY: the program calls as it would call the C library.
    unsafe { readlink(path, out, size.min(room)) }
}

/// The checked form; its last argument is the size of the buffer, which the compiler knew.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn __readlinkat_chk(
    at: c_int,
    path: *const c_char,
    out: *mut c_char,
    size: size_t,
    room: size_t,
) -> ssize_t {
    // SAFETY: the program calls as it would call the C library.
    unsafe { readlinkat(at, path, out, size.min(room)) }
}

/// # Safety
///
/// As for `realpath`.
unsafe fn realpath_ours(path: *const c_char, out: *mut c_char) -> Option<*mut c_char> {
    // SAFETY: the caller's promise.
    let answer = unsafe {
        let path = paths::candidate(libc::AT_FDCWD, path)?;
        process::ask(|driver| tree::canonical(driver, &path))?
    };
    let answer = answer.and_then(|path| {
        let bytes = path.as_os_str().as_bytes();
        if bytes.len() >= libc::PATH_MAX as usize {
            return Err(Errno::NAMETOOLONG);
        }
        let out = if out.is_null() {
            // The program frees it.
            // SAFETY: malloc has no requirement.
            unsafe { libc::malloc(bytes.len() + 1) }.cast::<c_char>()
        } else {
            out
        };
        if out.is_null() {
            return Err(Errno::NOMEM);
        }
        // SAFETY: `out` is as long as the path and a zero, or PATH_MAX bytes as realpath demands.
        unsafe {
            out.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len());
            out.add(bytes.len()).write(0);
        }
        Ok(out)
    });
    Some(finish(answer, std::ptr::null_mut()))
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn realpath(path: *const c_char, out: *mut c_char) -> *mut c_char {
    // SAFETY: the program calls as it would call the C library.
    unsafe { realpath_ours(path, out).unwrap_or_else(|| real::realpath(path, out)) }
}

/// The checked form; a buffer shorter than PATH_MAX is the program's mistake, which the C library reports.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn __realpath_chk(
    path: *const c_char,
    out: *mut c_char,
    room: size_t,
) -> *mut c_char {
    // SAFETY: the program calls as it would call the C library.
    unsafe {
        if room < libc::PATH_MAX as usize {
            return real::__realpath_chk(path, out, room);
        }
        realpath(path, out)
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn canonicalize_file_name(path: *const c_char) -> *mut c_char {
    // SAFETY: the program calls as it would call the C library.
    unsafe { realpath(path, std::ptr::null_mut()) }
}
