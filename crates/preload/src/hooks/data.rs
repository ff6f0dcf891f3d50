//! Reading, writing and sizing devices: the files behind them hold all buffers of all who opened them, which real devices
//! show to nobody this way. Asking about another descriptor costs one load.

use std::ffi::c_void;

use libc::{c_int, iovec, off_t, size_t, ssize_t};
use rocjitsu_kfd::Errno;

use crate::fds::{self, Kind};
use crate::process::{self, finish};
use crate::real;

/// What a call would do to a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    Write,
    /// Give pages to it or take them away.
    Allocate,
    Truncate,
}

/// The error of a call on one of the devices; `None` for all other descriptors.
#[inline]
fn refused(fd: c_int, what: Use) -> Option<Errno> {
    match fds::kind(fd) {
        Some(Kind::Device) => refused_device(fd, what),
        _ => None,
    }
}

#[cold]
fn refused_device(fd: c_int, what: Use) -> Option<Errno> {
    // The number may be another file by now, closed and opened behind the hooks' back.
    let ours = process::ask_existing(|driver| driver.is_ours(fd).then_some(Ok(())));
    ours?.ok()?;
    let path = fds::path(fd);
    Some(match what {
        // Events of a display, of which there are none. A real one would wait for ever.
        Use::Read if path.is_some_and(|path| path.starts_with("/dev/dri")) => Errno::AGAIN,
        Use::Read | Use::Write | Use::Truncate => Errno::INVAL,
        Use::Allocate => Errno::NODEV,
    })
}

macro_rules! data_hooks {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty, $what:ident;)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $name(fd: c_int, $($argument: $type),*) -> $result {
            match refused(fd, Use::$what) {
                Some(errno) => finish(Err(errno), -1),
                // SAFETY: the program calls as it would call the C library.
                None => unsafe { real::$name(fd, $($argument),*) },
            }
        }
    )*};
}

data_hooks! {
    read(to: *mut c_void, bytes: size_t) -> ssize_t, Read;
    pread(to: *mut c_void, bytes: size_t, at: off_t) -> ssize_t, Read;
    pread64(to: *mut c_void, bytes: size_t, at: off_t) -> ssize_t, Read;
    readv(parts: *const iovec, count: c_int) -> ssize_t, Read;
    write(from: *const c_void, bytes: size_t) -> ssize_t, Write;
    pwrite(from: *const c_void, bytes: size_t, at: off_t) -> ssize_t, Write;
    pwrite64(from: *const c_void, bytes: size_t, at: off_t) -> ssize_t, Write;
    writev(parts: *const iovec, count: c_int) -> ssize_t, Write;
    fallocate(mode: c_int, at: off_t, bytes: off_t) -> c_int, Allocate;
    fallocate64(mode: c_int, at: off_t, bytes: off_t) -> c_int, Allocate;
    ftruncate(bytes: off_t) -> c_int, Truncate;
    ftruncate64(bytes: off_t) -> c_int, Truncate;
}
