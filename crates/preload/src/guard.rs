//! Who is calling: the program, or the driver and engine that live in the same process.
//! A per-thread depth; no destructor, no allocation, usable before any constructor has run.

use std::cell::Cell;

use crate::measure;

thread_local! {
    /// Above zero while this thread runs code of the driver: every hook then passes through.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// This thread runs code of the driver until the value is dropped.
pub struct Inside(());

impl Inside {
    /// Marks the thread; `None` if it is inside already, and the call is the driver's own.
    pub fn enter() -> Option<Self> {
        DEPTH.with(|depth| {
            (depth.get() == 0).then(|| {
                depth.set(1);
                measure::begin();
                Self(())
            })
        })
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        measure::end();
        DEPTH.with(|depth| depth.set(depth.get().saturating_sub(1)));
    }
}

/// Runs `work` as the program: a wait in the middle of a call of the driver's, in which the program's signal handlers
/// may run, whose calls are its own.
pub fn outside(work: &mut dyn FnMut()) {
    measure::end();
    let depth = DEPTH.replace(0);
    work();
    DEPTH.set(depth);
    measure::begin();
}

/// Whether the driver itself is calling.
pub fn is_inside() -> bool {
    DEPTH.with(|depth| depth.get() != 0)
}

/// Makes the calling thread one of the engine: all its calls pass through for ever.
pub fn become_engine_thread() {
    DEPTH.with(|depth| depth.set(1));
}

/// A forked child runs the program's code again, wherever its thread was in the parent.
pub fn reset_after_fork() {
    DEPTH.with(|depth| depth.set(0));
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
