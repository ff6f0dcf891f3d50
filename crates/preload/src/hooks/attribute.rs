//! Extended attributes: the trees have none. Programs that list directories ask for access lists.

use std::ffi::c_void;

use libc::{c_char, c_int, size_t, ssize_t};
use rocjitsu_kfd::Errno;

use crate::process::{self, finish};
use crate::{fds, paths, real, tree};

/// # Safety
///
/// `path` is null or a C string.
unsafe fn none_ours(
    path: *const c_char,
    follow: bool,
    none: Result<ssize_t, Errno>,
) -> Option<Result<ssize_t, Errno>> {
    // SAFETY: the caller's promise.
    let path = unsafe { paths::candidate(libc::AT_FDCWD, path) }?;
    process::ask(|driver| Some(tree::find(driver, &path, follow)?.and(none)))
}

macro_rules! attribute_hooks {
    ($($name:ident, $list:ident, $follow:expr;)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $name(path: *const c_char, name: *const c_char, out: *mut c_void, size: size_t) -> ssize_t {
            // SAFETY: the program calls as it would call the C library.
            unsafe {
                match none_ours(path, $follow, Err(Errno::NODATA)) {
                    Some(answer) => finish(answer, -1),
                    None => real::$name(path, name, out, size),
                }
            }
        }

        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $list(path: *const c_char, out: *mut c_char, size: size_t) -> ssize_t {
            // SAFETY: the program calls as it would call the C library.
            unsafe {
                match none_ours(path, $follow, Ok(0)) {
                    Some(answer) => finish(answer, -1),
                    None => real::$list(path, out, size),
                }
            }
        }
    )*};
}

attribute_hooks! { getxattr, listxattr, true; lgetxattr, llistxattr, false; }

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn fgetxattr(
    fd: c_int,
    name: *const c_char,
    out: *mut c_void,
    size: size_t,
) -> ssize_t {
    if fds::kind(fd).is_some() {
        return finish(Err(Errno::NODATA), -1);
    }
    // SAFETY: the program calls as it would call the C library.
    unsafe { real::fgetxattr(fd, name, out, size) }
}
