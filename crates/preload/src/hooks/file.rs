//! Streams of the C library: fopen and its kin open files by internal calls, and fclose closes them so.

use std::ffi::{CStr, CString};

use libc::{FILE, c_char, c_int};

use crate::guard::KeepErrno;
use crate::{fds, process, real};

use super::descriptor;
use super::open::open_ours;

/// Flags of `open` for a mode of `fopen`; `None` if the mode is not valid.
fn flags(mode: &[u8]) -> Option<c_int> {
    let rest = mode.get(1..)?;
    let both = rest.contains(&b'+');
    let access = |alone: c_int| if both { libc::O_RDWR } else { alone };
    let base = match mode[0] {
        b'r' => access(libc::O_RDONLY),
        b'w' => access(libc::O_WRONLY) | libc::O_CREAT | libc::O_TRUNC,
        b'a' => access(libc::O_WRONLY) | libc::O_CREAT | libc::O_APPEND,
        _ => return None,
    };
    let close = if rest.contains(&b'e') {
        libc::O_CLOEXEC
    } else {
        0
    };
    let new = if rest.contains(&b'x') {
        libc::O_EXCL
    } else {
        0
    };
    Some(base | close | new)
}

/// # Safety
///
/// As for `fopen`.
unsafe fn fopen_ours(path: *const c_char, mode: *const c_char) -> Option<*mut FILE> {
    if mode.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let flags = flags(CStr::from_ptr(mode).to_bytes())?;
        Some(match open_ours(libc::AT_FDCWD, path, flags)? {
            Ok(fd) => {
                let file = libc::fdopen(fd, mode);
                if file.is_null() {
                    descriptor::close_ours(fd);
                }
                file
            }
            Err(errno) => process::finish(Err(errno), std::ptr::null_mut()),
        })
    }
}

/// Makes a stream one of a file of ours: by `reopen`, from the text that a descriptor of ours has.
///
/// # Safety
///
/// As for `freopen`.
unsafe fn freopen_ours(
    path: *const c_char,
    mode: *const c_char,
    reopen: impl FnOnce(*const c_char) -> *mut FILE,
) -> Option<*mut FILE> {
    if mode.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let flags = flags(CStr::from_ptr(mode).to_bytes())?;
        let fd = open_ours(libc::AT_FDCWD, path, flags)?.ok()?;
        // The name of the descriptor is short and has no NUL.
        let own = CString::new(format!("/proc/self/fd/{fd}")).ok();
        let file = own.map(|own| reopen(own.as_ptr()));
        if let Some(file) = file.filter(|file| !file.is_null()) {
            fds::duplicate(fd, libc::fileno(file));
        }
        let _errno = KeepErrno::now();
        descriptor::close_ours(fd);
        file
    }
}

macro_rules! fopen_hooks {
    ($($name:ident, $reopen:ident;)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $name(path: *const c_char, mode: *const c_char) -> *mut FILE {
            // SAFETY: the program calls as it would call the C library.
            unsafe { fopen_ours(path, mode).unwrap_or_else(|| real::$name(path, mode)) }
        }

        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $reopen(path: *const c_char, mode: *const c_char, file: *mut FILE) -> *mut FILE {
            // SAFETY: the program calls as it would call the C library.
            unsafe {
                if !file.is_null() {
                    forget(libc::fileno(file));
                }
                freopen_ours(path, mode, |path| real::$reopen(path, mode, file))
                    .unwrap_or_else(|| real::$reopen(path, mode, file))
            }
        }
    )*};
}

fopen_hooks! { fopen, freopen; fopen64, freopen64; }

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn fclose(file: *mut FILE) -> c_int {
    // SAFETY: the program calls as it would call the C library.
    unsafe {
        if !file.is_null() {
            forget(libc::fileno(file));
        }
        real::fclose(file)
    }
}

/// The C library is about to close a descriptor by itself.
fn forget(fd: c_int) {
    if fds::kind(fd).is_some() {
        descriptor::forget(fd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_of_fopen_become_flags_of_open() {
        assert_eq!(flags(b"r"), Some(libc::O_RDONLY));
        assert_eq!(flags(b"rb+e"), Some(libc::O_RDWR | libc::O_CLOEXEC));
        assert_eq!(
            flags(b"wx"),
            Some(libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_EXCL)
        );
        assert_eq!(
            flags(b"a"),
            Some(libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND)
        );
        assert_eq!(flags(b"q"), None);
        assert_eq!(flags(b""), None);
    }
}
