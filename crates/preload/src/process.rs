//! The one driver of this process: made when a path of ours is first touched, forgotten by a forked child, and
//! asked for its report when the process exits. A program that never touches the GPU gets none of this.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, Ordering};

use libc::c_int;
use rocjitsu_gpu::memory::kept;
use rocjitsu_kfd::{Driver, Errno, around_waits};

use crate::guard::{self, Inside, KeepErrno, set_errno};
use crate::{dirs, fds, gdb, measure, report};

/// Null until the driver is made. Never freed: engine threads may run until the very end of the process.
static DRIVER: AtomicPtr<Driver> = AtomicPtr::new(std::ptr::null_mut());
/// The process that this memory is about: the one that loaded the library, or a forked child. A child of `vfork`
/// shares the memory, but is another process.
static OWNER: AtomicI32 = AtomicI32::new(0);
static STATE: AtomicU32 = AtomicU32::new(NONE);
/// Whether the handler for exit is registered; a forked child inherits it.
static AT_EXIT: AtomicBool = AtomicBool::new(false);

const NONE: u32 = 0;
const BEING_MADE: u32 = 1;
const MADE: u32 = 2;
const FAILED: u32 = 3;

/// The number of this process.
pub fn this_process() -> i32 {
    std::process::id().cast_signed()
}

/// Runs when the library is loaded. Hooks that are called earlier still work: nothing has forked yet.
extern "C" fn loaded() {
    OWNER.store(this_process(), Ordering::Relaxed);
    make_mark();
    measure::start();
    // SAFETY: the handlers are functions of this library, which is never unloaded.
    unsafe {
        libc::pthread_atfork(
            Some(before_fork),
            Some(after_fork_in_parent),
            Some(after_fork_in_child),
        );
    }
}

#[cfg_attr(not(test), used, unsafe(link_section = ".init_array"))]
#[cfg_attr(
    test,
    allow(dead_code, reason = "hooks and constructor are off in unit tests")
)]
static LOADED: extern "C" fn() = loaded;

/// Whether the tables in memory are about this process; false in a child of `vfork`. A child of `_Fork` or of a plain system
/// call, which run no handlers, is noticed here.
pub fn is_this_process() -> bool {
    let owner = OWNER.load(Ordering::Relaxed);
    owner == 0 || owner == this_process() || is_unseen_fork()
}

/// A byte that is 1 here and in a child of `vfork`, which has the same memory; the kernel gives any other child a page of zeros.
static MARK: AtomicPtr<AtomicU8> = AtomicPtr::new(std::ptr::null_mut());

fn make_mark() {
    const PAGE: usize = 4096;
    // SAFETY: a fresh page at an address of the kernel's choice, which is never unmapped.
    unsafe {
        let page = libc::syscall(
            libc::SYS_mmap,
            0usize,
            PAGE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0i64,
        );
        let page = std::ptr::with_exposed_provenance_mut::<AtomicU8>(page as usize);
        if page.addr().is_multiple_of(PAGE)
            && libc::madvise(page.cast(), PAGE, libc::MADV_WIPEONFORK) == 0
        {
            (*page).store(1, Ordering::Relaxed);
            MARK.store(page, Ordering::Release);
        }
    }
}

/// Sets the mark; returns what it was.
fn set_mark() -> Option<u8> {
    let mark = MARK.load(Ordering::Acquire);
    // SAFETY: null, or the page of `make_mark`.
    unsafe { mark.as_ref() }.map(|mark| mark.swap(1, Ordering::AcqRel))
}

/// Whether this is a forked child in which no handler ran; it becomes a process of its own now.
fn is_unseen_fork() -> bool {
    if set_mark() != Some(0) {
        return false;
    }
    fds::after_unseen_fork();
    dirs::after_unseen_fork();
    become_child();
    true
}

/// The driver, if there is one and it is this process's.
pub fn existing() -> Option<&'static Driver> {
    if !is_made() || !is_this_process() {
        return None;
    }
    // SAFETY: null (a forked child may just have been noticed), or from a leaked box.
    unsafe { DRIVER.load(Ordering::Acquire).as_ref() }
}

/// The driver, made now if need be. The caller is [`Inside`].
fn made() -> Option<&'static Driver> {
    if !is_this_process() {
        return None;
    }
    loop {
        match STATE.load(Ordering::Acquire) {
            MADE => return existing(),
            FAILED => return None,
            BEING_MADE => std::thread::yield_now(),
            _ => {
                if STATE
                    .compare_exchange(NONE, BEING_MADE, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
                {
                    make();
                }
            }
        }
    }
}

fn make() {
    if !AT_EXIT.swap(true, Ordering::Relaxed) {
        // SAFETY: the handler is a function of this library, which is never unloaded; it ignores its argument.
        unsafe { on_exit(at_exit, std::ptr::null_mut()) };
    }
    let state = match catch_unwind(crate::machine::driver) {
        Ok(Ok(driver)) => {
            let driver: &'static Driver = Box::leak(Box::new(driver));
            around_waits(guard::outside);
            DRIVER.store(std::ptr::from_ref(driver).cast_mut(), Ordering::Release);
            report::start(driver);
            MADE
        }
        Ok(Err(error)) => {
            eprintln!("rocjitsu: {error}; this program sees no GPU");
            FAILED
        }
        // The panic has printed its message.
        Err(_) => FAILED,
    };
    STATE.store(state, Ordering::Release);
}

/// Whether a driver has been made; costs one load.
pub fn is_made() -> bool {
    !DRIVER.load(Ordering::Relaxed).is_null()
}

/// Whether GPUs may see some of these bytes of the program's. Asked for every mapping that changes: two loads.
pub fn may_lend(address: usize, length: usize) -> bool {
    let driver = DRIVER.load(Ordering::Acquire);
    // SAFETY: null, or from a leaked box. A child of `vfork` may look, too.
    unsafe { driver.as_ref() }.is_some_and(|driver| driver.may_lend(address as u64, length as u64))
}

/// Lets the driver answer, making it if there is none. `None`: the call is the driver's own, or there is no driver,
/// or the driver says that the thing is not its own.
pub fn ask<R>(
    question: impl FnOnce(&'static Driver) -> Option<Result<R, Errno>>,
) -> Option<Result<R, Errno>> {
    let _inside = Inside::enter()?;
    let _errno = KeepErrno::now();
    let driver = made()?;
    guarded(|| question(driver))
}

/// As [`ask`], but only if there is a driver already.
pub fn ask_existing<R>(
    question: impl FnOnce(&'static Driver) -> Option<Result<R, Errno>>,
) -> Option<Result<R, Errno>> {
    if !is_made() {
        return None;
    }
    let _inside = Inside::enter()?;
    let _errno = KeepErrno::now();
    let driver = existing()?;
    guarded(|| question(driver))
}

/// Lets an existing driver make a mapping of a file, in the middle of [`change`] or not. `None` if there is no file, it is not
/// the driver's, or the call is its `own`.
pub fn mapping<R>(
    fd: c_int,
    own: bool,
    map: impl FnOnce(&'static Driver) -> Option<Result<R, Errno>>,
) -> Option<Result<R, Errno>> {
    if own || fd < 0 || !is_made() {
        return None;
    }
    let _inside = Inside::enter();
    let _errno = KeepErrno::now();
    let driver = existing()?;
    guarded(|| map(driver))
}

/// Tells an existing driver something.
pub fn tell(message: impl FnOnce(&'static Driver)) {
    let _ = ask_existing(|driver| {
        message(driver);
        Some(Ok(()))
    });
}

/// Makes a call of the program's that takes away or replaces memory of its own in `ranges`, each a start and bytes: GPUs
/// that may have some of it lose it first. `replaced` says what of it is other memory, if anything, after the call.
pub fn change<R>(
    ranges: &[(usize, usize)],
    call: impl FnOnce() -> R,
    replaced: impl FnOnce(&R, &mut dyn FnMut(usize, usize)),
) -> R {
    if !ranges.iter().any(|&(start, bytes)| may_lend(start, bytes)) {
        return call();
    }
    let Some(_inside) = Inside::enter() else {
        return call();
    };
    let ranges: Vec<_> = ranges
        .iter()
        .map(|&(start, bytes)| (start as u64, bytes as u64))
        .collect();
    let errno = KeepErrno::now();
    let change = existing().and_then(|driver| guarded(|| driver.host_change(&ranges).map(Ok)));
    drop(errno);
    let done = call();
    let _errno = KeepErrno::now();
    if let Some(Ok(change)) = change {
        let _ = catch_unwind(AssertUnwindSafe(|| {
            replaced(&done, &mut |start, bytes| {
                change.replaced(start as u64, bytes as u64);
            });
            drop(change);
        }));
    }
    done
}

/// A panic must not unwind into the program: the call fails with EIO instead.
fn guarded<R>(work: impl FnOnce() -> Option<Result<R, Errno>>) -> Option<Result<R, Errno>> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Some(Err(Errno::IO)))
}

/// The C convention: the value, or `errno` and the failure value.
pub fn finish<R>(answer: Result<R, Errno>, failure: R) -> R {
    answer.unwrap_or_else(|errno| {
        set_errno(errno.raw_os_error());
        failure
    })
}

extern "C" fn before_fork() {
    guard::before_fork();
    fds::before_fork();
    dirs::before_fork();
}

extern "C" fn after_fork_in_parent() {
    dirs::after_fork();
    fds::after_fork_in_parent();
    guard::after_fork();
}

extern "C" fn after_fork_in_child() {
    dirs::after_fork();
    fds::after_fork_in_child();
    set_mark();
    become_child();
    guard::reset_after_fork();
    guard::after_fork();
}

/// Forgets what is the parent's.
fn become_child() {
    kept::forget_all();
    gdb::after_fork_in_child();
    // The threads of the parent's driver are not here, and its locks may be held: it is left alone for ever.
    DRIVER.store(std::ptr::null_mut(), Ordering::Release);
    OWNER.store(this_process(), Ordering::Relaxed);
    STATE.store(NONE, Ordering::Release);
    rocjitsu_kfd::after_fork();
}

unsafe extern "C" {
    /// As `atexit`, for a function that wants to know the status (GNU C library).
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

extern "C" fn at_exit(status: c_int, _: *mut c_void) {
    leave(status);
}

/// The program is about to end with this status, with or without its exit handlers.
pub fn leave(status: c_int) {
    report::finish();
    finish_plugins();
    gdb::exit(status);
}

/// Tells the plugins that the program is over, once. A failure can only be told: the program's status is its own. `rocjitsu run`
/// looks into the folder that ROCJITSU_FINDINGS names.
fn finish_plugins() {
    static FINISHED: AtomicI32 = AtomicI32::new(0);
    let me = this_process();
    tell(|driver| {
        let Some(plugins) = driver.plugins() else {
            return;
        };
        if FINISHED.swap(me, Ordering::Relaxed) == me {
            return;
        }
        if let Err(failure) = plugins.finish() {
            eprintln!("rocjitsu: {failure}");
            if let Some(folder) = std::env::var_os("ROCJITSU_FINDINGS") {
                let file = Path::new(&folder).join(me.to_string());
                if let Err(error) = std::fs::write(&file, failure.to_string()) {
                    eprintln!("rocjitsu: cannot write {}: {error}", file.display());
                }
            }
        }
    });
}
