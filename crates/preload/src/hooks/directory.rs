//! opendir and what follows it, scandir, glob. The C library's ftw and fts use internal calls instead and see only the
//! real directories.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use libc::{DIR, c_char, c_int, c_long, c_void, dirent64};
use rocjitsu_kfd::Errno;

use crate::dirs::{self, Entry};
use crate::fds::{self, Kind};
use crate::guard::{KeepErrno, is_inside};
use crate::process::{self, finish};
use crate::real::{self, Compare, Failed, Filter, Glob};
use crate::{paths, tree};

use super::descriptor;
use super::open::open_ours;
use super::stat::{lstat, stat};

const FLAGS: c_int = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;

/// Opens a directory of the trees, or a real one that has additional entries.
///
/// # Safety
///
/// `path` is null or a C string.
unsafe fn opendir_ours(at: c_int, path: *const c_char) -> Option<Result<*mut DIR, Errno>> {
    // SAFETY: the caller's promise.
    unsafe {
        let name = paths::directory(at, path)?;
        if let Some(answer) = listing(&name) {
            return Some(answer.and_then(|entries| {
                let fd = open_ours(at, path, FLAGS).unwrap_or(Err(Errno::NOENT))?;
                Ok(dirs::open(fd, entries))
            }));
        }
        let fd = real::openat(at, path, FLAGS, 0);
        if fd < 0 {
            return None;
        }
        let Some(entries) = merged(&name, fd) else {
            real::close(fd);
            return None;
        };
        fds::insert(fd, Kind::Directory, name);
        Some(Ok(dirs::open(fd, entries)))
    }
}

fn listing(path: &Path) -> Option<Result<Vec<Entry>, Errno>> {
    process::ask(|driver| tree::entries(driver, path))
}

/// What the program sees in a real directory, if the trees change that.
fn merged(path: &Path, fd: c_int) -> Option<Vec<Entry>> {
    process::ask(|driver| tree::merged(driver, path, || real_entries(fd)).map(Ok))?.ok()
}

/// All entries of the real directory behind `fd`.
fn real_entries(fd: c_int) -> Vec<Entry> {
    let mut entries = Vec::new();
    // SAFETY: the stream is used here only; an entry is read before the next one replaces it.
    unsafe {
        let copy = real::fcntl(fd, libc::F_DUPFD_CLOEXEC, std::ptr::null_mut());
        let stream = if copy < 0 {
            std::ptr::null_mut()
        } else {
            real::fdopendir(copy)
        };
        if !stream.is_null() {
            loop {
                let entry = real::readdir64(stream);
                if entry.is_null() {
                    break;
                }
                entries.push(dirs::from_c(entry));
            }
            real::closedir(stream);
        }
    }
    entries
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn opendir(path: *const c_char) -> *mut DIR {
    // SAFETY: the program calls as it would call the C library.
    unsafe {
        match opendir_ours(libc::AT_FDCWD, path) {
            Some(answer) => finish(answer, std::ptr::null_mut()),
            None => real::opendir(path),
        }
    }
}

/// The path of a directory's descriptor: the one recorded, or for a real directory what the kernel says.
fn path_of(fd: c_int) -> Option<PathBuf> {
    match fds::kind(fd) {
        Some(Kind::Directory) => fds::path(fd).map(|path| path.to_path_buf()),
        Some(_) => None,
        None => std::fs::read_link(format!("/proc/self/fd/{fd}"))
            .ok()
            .filter(|path| paths::has_additions(path.as_os_str().as_bytes())),
    }
}

fn fdopendir_ours(fd: c_int) -> Option<Result<*mut DIR, Errno>> {
    if is_inside() || fd < 0 {
        return None;
    }
    let _errno = KeepErrno::now();
    let path = path_of(fd)?;
    if let Some(answer) = listing(&path) {
        return Some(answer.map(|entries| dirs::open(fd, entries)));
    }
    let entries = merged(&path, fd)?;
    fds::insert(fd, Kind::Directory, path);
    Some(Ok(dirs::open(fd, entries)))
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn fdopendir(fd: c_int) -> *mut DIR {
    match fdopendir_ours(fd) {
        Some(answer) => finish(answer, std::ptr::null_mut()),
        // SAFETY: the program calls as it would call the C library.
        None => unsafe { real::fdopendir(fd) },
    }
}

macro_rules! stream_hooks {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty, $ours:expr;)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $name(stream: *mut DIR $(, $argument: $type)*) -> $result {
            // SAFETY: the program calls as it would call the C library; the stream is ours if it is in the set.
            unsafe {
                if dirs::is_ours(stream) {
                    $ours(stream)
                } else {
                    real::$name(stream $(, $argument)*)
                }
            }
        }
    )*};
}

stream_hooks! {
    readdir() -> *mut dirent64, |stream| dirs::read(stream);
    readdir64() -> *mut dirent64, |stream| dirs::read(stream);
    readdir_r(entry: *mut dirent64, result: *mut *mut dirent64) -> c_int, |stream| read_into(stream, entry, result);
    readdir64_r(entry: *mut dirent64, result: *mut *mut dirent64) -> c_int, |stream| read_into(stream, entry, result);
    rewinddir() -> (), |stream| dirs::seek(stream, 0);
    telldir() -> c_long, |stream| dirs::tell(stream);
    seekdir(position: c_long) -> (), |stream| dirs::seek(stream, position);
    dirfd() -> c_int, |stream| dirs::fd(stream);
    closedir() -> c_int, |stream| descriptor::close_ours(dirs::close(stream));
}

/// # Safety
///
/// As for `readdir_r`.
unsafe fn read_into(stream: *mut DIR, entry: *mut dirent64, result: *mut *mut dirent64) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let next = dirs::read(stream);
        if next.is_null() {
            result.write(std::ptr::null_mut());
        } else {
            entry.copy_from_nonoverlapping(next, 1);
            result.write(entry);
        }
    }
    0
}

/// # Safety
///
/// As for `scandirat`.
unsafe fn scandir_ours(
    at: c_int,
    path: *const c_char,
    list: *mut *mut *mut dirent64,
    filter: Filter,
    compare: Compare,
) -> Option<Result<c_int, Errno>> {
    // SAFETY: the caller's promise; the stream is ours and used here only.
    unsafe {
        let stream = match opendir_ours(at, path)? {
            Ok(stream) => stream,
            Err(errno) => return Some(Err(errno)),
        };
        let mut found: Vec<*mut dirent64> = Vec::new();
        loop {
            let entry = dirs::read(stream);
            if entry.is_null() {
                break;
            }
            if filter.is_none_or(|wanted| wanted(entry) != 0) {
                found.push(dirs::allocate(entry));
            }
        }
        descriptor::close_ours(dirs::close(stream));
        let out =
            libc::calloc(found.len().max(1), size_of::<*mut dirent64>()).cast::<*mut dirent64>();
        if out.is_null() || found.iter().any(|entry| entry.is_null()) {
            found.iter().for_each(|entry| libc::free(entry.cast()));
            libc::free(out.cast());
            return Some(Err(Errno::NOMEM));
        }
        out.copy_from_nonoverlapping(found.as_ptr(), found.len());
        if let Some(compare) = compare {
            let compare = std::mem::transmute::<
                unsafe extern "C" fn(*mut *const dirent64, *mut *const dirent64) -> c_int,
                unsafe extern "C" fn(*const c_void, *const c_void) -> c_int,
            >(compare);
            libc::qsort(
                out.cast(),
                found.len(),
                size_of::<*mut dirent64>(),
                Some(compare),
            );
        }
        list.write(out);
        Some(c_int::try_from(found.len()).map_err(|_| Errno::OVERFLOW))
    }
}

macro_rules! scandir_hooks {
    ($($name:ident($($at:ident)?) else $from:expr, $real:ident;)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $name(
            $($at: c_int,)?
            path: *const c_char,
            list: *mut *mut *mut dirent64,
            filter: Filter,
            compare: Compare,
        ) -> c_int {
            // SAFETY: the program calls as it would call the C library.
            unsafe {
                match scandir_ours($from, path, list, filter, compare) {
                    Some(answer) => finish(answer, -1),
                    None => real::$real($($at,)? path, list, filter, compare),
                }
            }
        }
    )*};
}

scandir_hooks! {
    scandir() else libc::AT_FDCWD, scandir;
    scandir64() else libc::AT_FDCWD, scandir;
    scandirat(at) else at, scandirat;
    scandirat64(at) else at, scandirat;
}

/// `GLOB_ALTDIRFUNC`: list directories by the functions in the result's structure.
const OWN_FUNCTIONS: c_int = 1 << 9;

macro_rules! glob_hooks {
    ($($name:ident,)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $name(pattern: *const c_char, flags: c_int, failed: Failed, out: *mut Glob) -> c_int {
            // SAFETY: the program calls as it would call the C library, so the structure is its own and writable.
            unsafe {
                if flags & OWN_FUNCTIONS != 0 || out.is_null() || !paths::may_match(pattern) {
                    return real::glob(pattern, flags, failed, out);
                }
                (*out).closedir = Some(closedir);
                (*out).readdir = Some(readdir);
                (*out).opendir = Some(opendir);
                (*out).lstat = Some(lstat);
                (*out).stat = Some(stat);
                real::glob(pattern, flags | OWN_FUNCTIONS, failed, out)
            }
        }
    )*};
}

glob_hooks! { glob, glob64, }
