//! The C library's own functions, found behind this library by `dlsym(RTLD_NEXT)` when they are first needed.
//! While a look-up is under way on a thread (it may call a program's malloc, and that mmap), plain system calls stand in.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{
    DIR, FILE, c_char, c_int, c_long, c_uint, c_ulong, dirent64, iovec, mode_t, off_t, size_t,
    ssize_t,
};

use crate::guard::set_errno;

thread_local! {
    static LOOKING_UP: Cell<bool> = const { Cell::new(false) };
}

/// One function of the C library.
struct Slot {
    name: &'static CStr,
    /// Null: not looked up yet. [`Slot::absent`]: there is none.
    address: AtomicPtr<c_void>,
}

impl Slot {
    const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            address: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    fn absent() -> *mut c_void {
        std::ptr::without_provenance_mut(1)
    }

    /// The function's address; `None` if the C library has no such function, or this thread is just looking one up.
    fn get(&self) -> Option<*mut c_void> {
        let mut address = self.address.load(Ordering::Acquire);
        if address.is_null() {
            if LOOKING_UP.replace(true) {
                return None;
            }
            // SAFETY: the name is a C string; dlsym has no other requirement.
            let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            LOOKING_UP.set(false);
            address = if found.is_null() {
                Self::absent()
            } else {
                found
            };
            self.address.store(address, Ordering::Release);
        }
        (address != Self::absent()).then_some(address)
    }
}

/// Defines callers of C library functions: the C type to call by, and what to do when it cannot be called.
macro_rules! functions {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty, as ($($c_type:tt)*), else $fallback:expr;)*) => {$(
        #[doc = concat!("The C library's `", stringify!($name), "`.")]
        ///
        /// # Safety
        ///
        /// As for the C function.
        pub unsafe fn $name($($argument: $type),*) -> $result {
            static SLOT: Slot = Slot::new(
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => unreachable!(),
                },
            );
            match SLOT.get() {
                Some(address) => {
                    // SAFETY: the C library's function of this name has this type.
                    let function = unsafe {
                        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($c_type)*) -> $result>(address)
                    };
                    // SAFETY: the caller keeps the C function's contract.
                    unsafe { function($($argument),*) }
                }
                None => $fallback,
            }
        }
    )*};
}

/// `errno` = ENOSYS and -1.
fn missing() -> c_int {
    set_errno(libc::ENOSYS);
    -1
}

fn null<T>() -> *mut T {
    set_errno(libc::ENOSYS);
    std::ptr::null_mut()
}

/// `errno` = ENOSYS and the address that says so.
fn failed() -> *mut c_void {
    set_errno(libc::ENOSYS);
    libc::MAP_FAILED
}

/// `errno` = ENOSYS and `SIG_ERR`.
fn refused() -> libc::sighandler_t {
    set_errno(libc::ENOSYS);
    libc::SIG_ERR
}

/// A plain system call, for functions that are needed while dlsym runs.
macro_rules! direct {
    ($number:ident $(, $argument:expr)*) => {
        // SAFETY: the caller keeps the C function's contract, which is that of the system call.
        unsafe { libc::syscall(libc::$number $(, $argument)*) }
    };
}

functions! {
    fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int, as (*const c_char, c_int, ...),
        else direct!(SYS_openat, libc::AT_FDCWD, path, flags, mode) as c_int;
    fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int, as (*const c_char, c_int, ...),
        else direct!(SYS_openat, libc::AT_FDCWD, path, flags, mode) as c_int;
    fn openat(at: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int, as (c_int, *const c_char, c_int, ...),
        else direct!(SYS_openat, at, path, flags, mode) as c_int;
    fn openat64(at: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int, as (c_int, *const c_char, c_int, ...),
        else direct!(SYS_openat, at, path, flags, mode) as c_int;
    fn creat(path: *const c_char, mode: mode_t) -> c_int, as (*const c_char, mode_t), else missing();
    fn creat64(path: *const c_char, mode: mode_t) -> c_int, as (*const c_char, mode_t), else missing();
    fn __open_2(path: *const c_char, flags: c_int) -> c_int, as (*const c_char, c_int), else missing();
    fn __open64_2(path: *const c_char, flags: c_int) -> c_int, as (*const c_char, c_int), else missing();
    fn __openat_2(at: c_int, path: *const c_char, flags: c_int) -> c_int, as (c_int, *const c_char, c_int), else missing();
    fn __openat64_2(at: c_int, path: *const c_char, flags: c_int) -> c_int, as (c_int, *const c_char, c_int), else missing();
    fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE, as (*const c_char, *const c_char), else null();
    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE, as (*const c_char, *const c_char), else null();
    fn freopen(path: *const c_char, mode: *const c_char, file: *mut FILE) -> *mut FILE,
        as (*const c_char, *const c_char, *mut FILE), else null();
    fn freopen64(path: *const c_char, mode: *const c_char, file: *mut FILE) -> *mut FILE,
        as (*const c_char, *const c_char, *mut FILE), else null();
    fn fclose(file: *mut FILE) -> c_int, as (*mut FILE), else missing();

    fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int, as (c_int, c_ulong, ...),
        else direct!(SYS_ioctl, fd, request, argument) as c_int;
    fn fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> c_int, as (c_int, c_int, ...),
        else direct!(SYS_fcntl, fd, command, argument) as c_int;
    fn fcntl64(fd: c_int, command: c_int, argument: *mut c_void) -> c_int, as (c_int, c_int, ...),
        else direct!(SYS_fcntl, fd, command, argument) as c_int;
    fn dup(fd: c_int) -> c_int, as (c_int), else direct!(SYS_dup, fd) as c_int;
    fn dup2(old: c_int, new: c_int) -> c_int, as (c_int, c_int), else missing();
    fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int, as (c_int, c_int, c_int),
        else direct!(SYS_dup3, old, new, flags) as c_int;
    fn close(fd: c_int) -> c_int, as (c_int), else direct!(SYS_close, fd) as c_int;
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int, as (c_uint, c_uint, c_int),
        else direct!(SYS_close_range, first, last, flags) as c_int;
    fn closefrom(first: c_int) -> (), as (c_int), else ();
    fn lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t, as (c_int, off_t, c_int),
        else direct!(SYS_lseek, fd, offset, whence);
    fn lseek64(fd: c_int, offset: off_t, whence: c_int) -> off_t, as (c_int, off_t, c_int),
        else direct!(SYS_lseek, fd, offset, whence);

    fn read(fd: c_int, to: *mut c_void, bytes: size_t) -> ssize_t, as (c_int, *mut c_void, size_t),
        else direct!(SYS_read, fd, to, bytes) as ssize_t;
    fn pread(fd: c_int, to: *mut c_void, bytes: size_t, at: off_t) -> ssize_t, as (c_int, *mut c_void, size_t, off_t),
        else direct!(SYS_pread64, fd, to, bytes, at) as ssize_t;
    fn pread64(fd: c_int, to: *mut c_void, bytes: size_t, at: off_t) -> ssize_t, as (c_int, *mut c_void, size_t, off_t),
        else direct!(SYS_pread64, fd, to, bytes, at) as ssize_t;
    fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t, as (c_int, *const iovec, c_int),
        else direct!(SYS_readv, fd, parts, count) as ssize_t;
    fn write(fd: c_int, from: *const c_void, bytes: size_t) -> ssize_t, as (c_int, *const c_void, size_t),
        else direct!(SYS_write, fd, from, bytes) as ssize_t;
    fn pwrite(fd: c_int, from: *const c_void, bytes: size_t, at: off_t) -> ssize_t,
        as (c_int, *const c_void, size_t, off_t), else direct!(SYS_pwrite64, fd, from, bytes, at) as ssize_t;
    fn pwrite64(fd: c_int, from: *const c_void, bytes: size_t, at: off_t) -> ssize_t,
        as (c_int, *const c_void, size_t, off_t), else direct!(SYS_pwrite64, fd, from, bytes, at) as ssize_t;
    fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t, as (c_int, *const iovec, c_int),
        else direct!(SYS_writev, fd, parts, count) as ssize_t;
    fn fallocate(fd: c_int, mode: c_int, at: off_t, bytes: off_t) -> c_int, as (c_int, c_int, off_t, off_t),
        else direct!(SYS_fallocate, fd, mode, at, bytes) as c_int;
    fn fallocate64(fd: c_int, mode: c_int, at: off_t, bytes: off_t) -> c_int, as (c_int, c_int, off_t, off_t),
        else direct!(SYS_fallocate, fd, mode, at, bytes) as c_int;
    fn ftruncate(fd: c_int, bytes: off_t) -> c_int, as (c_int, off_t), else direct!(SYS_ftruncate, fd, bytes) as c_int;
    fn ftruncate64(fd: c_int, bytes: off_t) -> c_int, as (c_int, off_t), else direct!(SYS_ftruncate, fd, bytes) as c_int;

    fn mmap(address: *mut c_void, length: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void,
        as (*mut c_void, size_t, c_int, c_int, c_int, off_t),
        else std::ptr::with_exposed_provenance_mut(direct!(SYS_mmap, address, length, protection, flags, fd, offset) as usize);
    fn mmap64(address: *mut c_void, length: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void,
        as (*mut c_void, size_t, c_int, c_int, c_int, off_t),
        else std::ptr::with_exposed_provenance_mut(direct!(SYS_mmap, address, length, protection, flags, fd, offset) as usize);
    fn munmap(address: *mut c_void, length: size_t) -> c_int, as (*mut c_void, size_t),
        else direct!(SYS_munmap, address, length) as c_int;
    fn mprotect(address: *mut c_void, length: size_t, protection: c_int) -> c_int, as (*mut c_void, size_t, c_int),
        else direct!(SYS_mprotect, address, length, protection) as c_int;
    fn mremap(address: *mut c_void, old: size_t, new: size_t, flags: c_int, target: *mut c_void) -> *mut c_void,
        as (*mut c_void, size_t, size_t, c_int, ...),
        else std::ptr::with_exposed_provenance_mut(direct!(SYS_mremap, address, old, new, flags, target) as usize);

    fn stat(path: *const c_char, out: *mut Stat) -> c_int, as (*const c_char, *mut Stat), else missing();
    fn lstat(path: *const c_char, out: *mut Stat) -> c_int, as (*const c_char, *mut Stat), else missing();
    fn fstat(fd: c_int, out: *mut Stat) -> c_int, as (c_int, *mut Stat), else missing();
    fn fstatat(at: c_int, path: *const c_char, out: *mut Stat, flags: c_int) -> c_int,
        as (c_int, *const c_char, *mut Stat, c_int), else missing();
    fn statx(at: c_int, path: *const c_char, flags: c_int, mask: c_uint, out: *mut Statx) -> c_int,
        as (c_int, *const c_char, c_int, c_uint, *mut Statx), else missing();
    fn __xstat(version: c_int, path: *const c_char, out: *mut Stat) -> c_int,
        as (c_int, *const c_char, *mut Stat), else missing();
    fn __lxstat(version: c_int, path: *const c_char, out: *mut Stat) -> c_int,
        as (c_int, *const c_char, *mut Stat), else missing();
    fn __fxstat(version: c_int, fd: c_int, out: *mut Stat) -> c_int, as (c_int, c_int, *mut Stat), else missing();
    fn __fxstatat(version: c_int, at: c_int, path: *const c_char, out: *mut Stat, flags: c_int) -> c_int,
        as (c_int, c_int, *const c_char, *mut Stat, c_int), else missing();
    fn access(path: *const c_char, mode: c_int) -> c_int, as (*const c_char, c_int), else missing();
    fn euidaccess(path: *const c_char, mode: c_int) -> c_int, as (*const c_char, c_int), else missing();
    fn faccessat(at: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int,
        as (c_int, *const c_char, c_int, c_int), else missing();

    fn getxattr(path: *const c_char, name: *const c_char, out: *mut c_void, size: size_t) -> ssize_t,
        as (*const c_char, *const c_char, *mut c_void, size_t), else missing() as ssize_t;
    fn lgetxattr(path: *const c_char, name: *const c_char, out: *mut c_void, size: size_t) -> ssize_t,
        as (*const c_char, *const c_char, *mut c_void, size_t), else missing() as ssize_t;
    fn fgetxattr(fd: c_int, name: *const c_char, out: *mut c_void, size: size_t) -> ssize_t,
        as (c_int, *const c_char, *mut c_void, size_t), else missing() as ssize_t;
    fn listxattr(path: *const c_char, out: *mut c_char, size: size_t) -> ssize_t,
        as (*const c_char, *mut c_char, size_t), else missing() as ssize_t;
    fn llistxattr(path: *const c_char, out: *mut c_char, size: size_t) -> ssize_t,
        as (*const c_char, *mut c_char, size_t), else missing() as ssize_t;

    fn readlink(path: *const c_char, out: *mut c_char, size: size_t) -> ssize_t,
        as (*const c_char, *mut c_char, size_t), else missing() as ssize_t;
    fn readlinkat(at: c_int, path: *const c_char, out: *mut c_char, size: size_t) -> ssize_t,
        as (c_int, *const c_char, *mut c_char, size_t), else missing() as ssize_t;
    fn realpath(path: *const c_char, out: *mut c_char) -> *mut c_char, as (*const c_char, *mut c_char), else null();

    fn __realpath_chk(path: *const c_char, out: *mut c_char, room: size_t) -> *mut c_char,
        as (*const c_char, *mut c_char, size_t), else null();

    fn opendir(path: *const c_char) -> *mut DIR, as (*const c_char), else null();
    fn fdopendir(fd: c_int) -> *mut DIR, as (c_int), else null();
    fn readdir(stream: *mut DIR) -> *mut dirent64, as (*mut DIR), else null();
    fn readdir64(stream: *mut DIR) -> *mut dirent64, as (*mut DIR), else null();
    fn readdir_r(stream: *mut DIR, entry: *mut dirent64, result: *mut *mut dirent64) -> c_int,
        as (*mut DIR, *mut dirent64, *mut *mut dirent64), else libc::ENOSYS;
    fn readdir64_r(stream: *mut DIR, entry: *mut dirent64, result: *mut *mut dirent64) -> c_int,
        as (*mut DIR, *mut dirent64, *mut *mut dirent64), else libc::ENOSYS;
    fn rewinddir(stream: *mut DIR) -> (), as (*mut DIR), else ();
    fn telldir(stream: *mut DIR) -> c_long, as (*mut DIR), else c_long::from(missing());
    fn seekdir(stream: *mut DIR, position: c_long) -> (), as (*mut DIR, c_long), else ();
    fn dirfd(stream: *mut DIR) -> c_int, as (*mut DIR), else missing();
    fn closedir(stream: *mut DIR) -> c_int, as (*mut DIR), else missing();
    fn scandir(path: *const c_char, list: *mut *mut *mut dirent64, filter: Filter, compare: Compare) -> c_int,
        as (*const c_char, *mut *mut *mut dirent64, Filter, Compare), else missing();
    fn scandirat(at: c_int, path: *const c_char, list: *mut *mut *mut dirent64, filter: Filter, compare: Compare) -> c_int,
        as (c_int, *const c_char, *mut *mut *mut dirent64, Filter, Compare), else missing();
    fn glob(pattern: *const c_char, flags: c_int, failed: Failed, out: *mut Glob) -> c_int,
        as (*const c_char, c_int, Failed, *mut Glob), else missing();

    fn brk(end: *mut c_void) -> c_int, as (*mut c_void), else missing();
    fn sbrk(bytes: libc::intptr_t) -> *mut c_void, as (libc::intptr_t), else failed();
    fn shmat(id: c_int, at: *const c_void, flags: c_int) -> *mut c_void, as (c_int, *const c_void, c_int), else failed();
    fn shmdt(at: *const c_void) -> c_int, as (*const c_void), else missing();
    fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int,
        as (c_int, *const libc::sigaction, *mut libc::sigaction), else missing();
    fn signal(signal: c_int, handler: libc::sighandler_t) -> libc::sighandler_t, as (c_int, libc::sighandler_t),
        else refused();
    fn sysv_signal(signal: c_int, handler: libc::sighandler_t) -> libc::sighandler_t, as (c_int, libc::sighandler_t),
        else refused();

    fn abort() -> (), as (), else ();
    fn pthread_create(thread: *mut libc::pthread_t, attributes: *const libc::pthread_attr_t, start: Start, argument: *mut c_void) -> c_int,
        as (*mut libc::pthread_t, *const libc::pthread_attr_t, Start, *mut c_void), else libc::ENOSYS;
}

/// What `stat` fills in.
pub type Stat = libc::stat;
/// What `statx` fills in.
pub type Statx = libc::statx;
/// scandir's filter.
pub type Filter = Option<unsafe extern "C" fn(*const dirent64) -> c_int>;
/// scandir's comparison.
pub type Compare =
    Option<unsafe extern "C" fn(*mut *const dirent64, *mut *const dirent64) -> c_int>;
/// glob's handler of errors.
pub type Failed = Option<unsafe extern "C" fn(*const c_char, c_int) -> c_int>;

/// `glob_t` of the GNU C library, with the functions that it lists directories by if GLOB_ALTDIRFUNC is given.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Glob {
    pub pathc: size_t,
    pub pathv: *mut *mut c_char,
    pub offs: size_t,
    pub flags: c_int,
    pub closedir: Option<unsafe extern "C" fn(*mut DIR) -> c_int>,
    pub readdir: Option<unsafe extern "C" fn(*mut DIR) -> *mut dirent64>,
    pub opendir: Option<unsafe extern "C" fn(*const c_char) -> *mut DIR>,
    pub lstat: Option<unsafe extern "C" fn(*const c_char, *mut Stat) -> c_int>,
    pub stat: Option<unsafe extern "C" fn(*const c_char, *mut Stat) -> c_int>,
}

/// A thread's first function.
pub type Start = extern "C" fn(*mut c_void) -> *mut c_void;
