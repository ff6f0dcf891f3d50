//! open, openat, creat and the checked forms.

use std::io::{Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::path::Path;

use libc::{c_char, c_int, mode_t};
use rocjitsu_gpu::memory::kept;
use rocjitsu_kfd::{Driver, Errno, topology};

use crate::fds::{self, Kind};
use crate::guard::{KeepErrno, is_inside};
use crate::tree::{self, Found};
use crate::{paths, process, real, runtime};

/// Opens a path of ours; `None` if it is none.
///
/// # Safety
///
/// `path` is null or a C string.
pub unsafe fn open_ours(
    at: c_int,
    path: *const c_char,
    flags: c_int,
) -> Option<Result<c_int, Errno>> {
    // SAFETY: the caller's promise.
    let path = unsafe { paths::candidate(at, path) }?;
    process::ask(|driver| open_path(driver, &path, flags))
}

fn open_path(driver: &Driver, path: &Path, flags: c_int) -> Option<Result<c_int, Errno>> {
    let (canonical, found) = match tree::find(driver, path, flags & libc::O_NOFOLLOW == 0)? {
        Ok(found) => found,
        Err(errno) => return Some(Err(errno)),
    };
    let kind = found.stat().kind;
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
    let answer = if flags & (libc::O_CREAT | libc::O_EXCL) == libc::O_CREAT | libc::O_EXCL {
        Err(Errno::EXIST)
    } else if flags & libc::O_DIRECTORY != 0 && kind != topology::Kind::Dir {
        Err(Errno::NOTDIR)
    } else {
        match kind {
            topology::Kind::Link => Err(Errno::LOOP),
            topology::Kind::Dir if writes || flags & libc::O_CREAT != 0 => Err(Errno::ISDIR),
            // A directory's descriptor is an empty file: only the hooks give it meaning.
            topology::Kind::Dir => {
                memory_file(&[]).and_then(|file| give(file, Kind::Directory, path, flags))
            }
            topology::Kind::File if writes => Err(Errno::ACCESS),
            topology::Kind::File => {
                let text = match found {
                    Found::Node(node) => node.bytes().unwrap_or_default(),
                    Found::Bare(_) => Vec::new(),
                };
                memory_file(&text).and_then(|file| give(file, Kind::File, path, flags))
            }
            topology::Kind::CharDevice => driver.open(&canonical, flags)?.and_then(|file| {
                if canonical == Path::new("/dev/kfd") {
                    runtime::check(driver);
                }
                let number = file.as_raw_fd();
                give(file, Kind::Device, &canonical, flags).inspect_err(|_| driver.closed(number))
            }),
        }
    };
    Some(answer)
}

/// A file in memory with this text, at its beginning.
fn memory_file(text: &[u8]) -> Result<OwnedFd, Errno> {
    // SAFETY: the name is a C string.
    let fd = unsafe { libc::memfd_create(c"rocjitsu".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(Errno::MFILE);
    }
    // SAFETY: a new descriptor that nobody else owns.
    let mut file = unsafe { std::fs::File::from_raw_fd(fd) };
    let write = file.write_all(text).and_then(|()| file.rewind());
    write.map(|()| file.into()).map_err(|_| Errno::NOSPC)
}

/// Hands a descriptor to the program, close-on-exec as it asked.
fn give(file: OwnedFd, kind: Kind, path: &Path, flags: c_int) -> Result<c_int, Errno> {
    let keep = if flags & libc::O_CLOEXEC != 0 {
        libc::FD_CLOEXEC
    } else {
        0
    };
    let number = file.as_raw_fd();
    // SAFETY: F_SETFD takes an integer.
    unsafe { libc::fcntl(number, libc::F_SETFD, keep) };
    if !fds::insert(number, kind, path.to_owned()) {
        return Err(Errno::MFILE);
    }
    Ok(file.into_raw_fd())
}

/// Files that the driver opens for itself (what plugins write) are out of the program's reach.
fn adopt(fd: c_int) -> c_int {
    if fd < 0 || !is_inside() {
        return fd;
    }
    let _errno = KeepErrno::now();
    // SAFETY: just opened by the caller, who gets the file back.
    kept::adopt(unsafe { OwnedFd::from_raw_fd(fd) }).into_raw_fd()
}

macro_rules! open_hooks {
    ($($name:ident($at:ident),)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $name($at: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
            // SAFETY: the program calls as it would call the C library.
            unsafe {
                match open_ours($at, path, flags) {
                    Some(answer) => process::finish(answer, -1),
                    None => adopt(real::$name($at, path, flags, mode)),
                }
            }
        }
    )*};
    ($($name:ident,)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $name(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
            // SAFETY: the program calls as it would call the C library.
            unsafe {
                match open_ours(libc::AT_FDCWD, path, flags) {
                    Some(answer) => process::finish(answer, -1),
                    None => adopt(real::$name(path, flags, mode)),
                }
            }
        }
    )*};
}

open_hooks! { open, open64, }
open_hooks! { openat(at), openat64(at), }

macro_rules! checked_hooks {
    ($($name:ident($($at:ident)?) else $from:expr;)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $name($($at: c_int,)? path: *const c_char, flags: c_int) -> c_int {
            // SAFETY: the program calls as it would call the C library.
            unsafe {
                match open_ours($from, path, flags) {
                    Some(answer) => process::finish(answer, -1),
                    None => real::$name($($at,)? path, flags),
                }
            }
        }
    )*};
}

checked_hooks! {
    __open_2() else libc::AT_FDCWD;
    __open64_2() else libc::AT_FDCWD;
    __openat_2(at) else at;
    __openat64_2(at) else at;
}

macro_rules! create_hooks {
    ($($name:ident,)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $name(path: *const c_char, mode: mode_t) -> c_int {
            // SAFETY: the program calls as it would call the C library.
            unsafe {
                match open_ours(libc::AT_FDCWD, path, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC) {
                    Some(answer) => process::finish(answer, -1),
                    None => real::$name(path, mode),
                }
            }
        }
    )*};
}

create_hooks! { creat, creat64, }
