//! Who is calling: the program, or the driver and engine that live in the same process.
//! A per-thread depth; no destructor, no allocation, usable before any constructor has run.
//!
//! Signals that arrive while a thread is in the driver are delivered on the way out, as the kernel delivers them on the way out of
//! a system call: a handler may make any call, and may leave by a jump. They are blocked meanwhile.

use std::cell::Cell;

use crate::measure;

thread_local! {
    /// Above zero while this thread runs code of the driver: every hook then passes through.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// The signals that the program has blocked on this thread, while it runs code of the driver.
    static PROGRAMS: Cell<u64> = const { Cell::new(0) };
}

/// The bit of a signal in the kernel's set.
const fn bit(signal: libc::c_int) -> u64 {
    1 << (signal - 1)
}

/// What the driver's code has blocked: all but the signals that an instruction raises, and the two that the C library
/// keeps for itself (32 and 33).
const BLOCKED: u64 = !(bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGILL)
    | bit(libc::SIGFPE)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGSYS)
    | bit(32)
    | bit(33));

/// Changes the signals that this thread has blocked; returns those that it had. One system call, which the C library's function
/// would only wrap. Signals that may come now are delivered before it returns.
fn change_blocked(how: libc::c_int, signals: u64) -> u64 {
    let mut old = 0u64;
    // SAFETY: the kernel reads and writes eight bytes, the size of its set.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            how,
            &raw const signals,
            &raw mut old,
            size_of::<u64>(),
        )
    };
    old
}

/// The thread's code is the driver's from here on. A handler that runs before the signals are blocked is the program's, between two of
/// its calls.
fn begin() {
    PROGRAMS.set(change_blocked(libc::SIG_BLOCK, BLOCKED));
    DEPTH.set(1);
    measure::begin();
}

/// The thread's code is the program's again; last of all its signals come.
fn end() {
    measure::end();
    DEPTH.set(0);
    change_blocked(libc::SIG_SETMASK, PROGRAMS.get());
}

/// This thread runs code of the driver until the value is dropped.
pub struct Inside(());

impl Inside {
    /// Marks the thread; `None` if it is inside already, and the call is the driver's own.
    pub fn enter() -> Option<Self> {
        (DEPTH.get() == 0).then(|| {
            begin();
            Self(())
        })
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        end();
    }
}

/// Runs `work` as the program: a wait in the middle of a call of the driver's, in which the program's signal handlers
/// may run, whose calls are its own.
pub fn outside(work: &mut dyn FnMut()) {
    if !is_inside() {
        return work();
    }
    end();
    work();
    begin();
}

/// Whether the driver itself is calling.
pub fn is_inside() -> bool {
    DEPTH.get() != 0
}

/// Makes the calling thread one of the engine: all its calls pass through for ever.
pub fn become_engine_thread() {
    DEPTH.set(1);
}

/// A forked child runs the program's code again, wherever its thread was in the parent.
pub fn reset_after_fork() {
    DEPTH.set(0);
}

/// The calling thread's `errno`.
pub fn errno() -> i32 {
    // SAFETY: the C library's pointer to this thread's errno is always valid.
    unsafe { *libc::__errno_location() }
}

/// Sets the calling thread's `errno`.
pub fn set_errno(value: i32) {
    // SAFETY: the C library's pointer to this thread's errno is always valid.
    unsafe { *libc::__errno_location() = value }
}

/// Keeps `errno` as it was when the value is dropped: a successful call must not change it.
pub struct KeepErrno(i32);

impl KeepErrno {
    /// Remembers the value of now.
    pub fn now() -> Self {
        Self(errno())
    }
}

impl Drop for KeepErrno {
    fn drop(&mut self) {
        set_errno(self.0);
    }
}
