//! A small lock around data, which a forked child can open by force.
//! The sections it protects are a few instructions long, hold no other lock and call nothing that is hooked.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// A spinning lock that yields; usable in statics.
pub struct Lock<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `with` gives out the value to one thread at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// A lock that nobody holds.
    pub const fn new(value: T) -> Self {
        Self {
            held: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Runs `work` with the value. `work` must not lock again.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        struct Held<'a>(&'a AtomicBool);
        impl Drop for Held<'_> {
            fn drop(&mut self) {
                self.0.store(false, Ordering::Release);
            }
        }
        while self.held.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
        let _held = Held(&self.held);
        // SAFETY: `held` was false and is now ours until `_held` is dropped.
        work(unsafe { &mut *self.value.get() })
    }

    /// Takes the lock for the time of a fork, so that the child finds the value whole.
    pub fn hold_for_fork(&self) {
        while self.held.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
    }

    /// In a forked child that nothing was prepared for: whoever held the lock is not here, and what it guards may be half changed. It is
    /// left where it is, and `fresh` takes its place.
    pub fn renew_after_fork(&self, fresh: T) {
        if self.held.swap(true, Ordering::Acquire) {
            // SAFETY: no other thread of this process has been here; the old value is not dropped.
            unsafe { self.value.get().write(fresh) };
        }
        self.held.store(false, Ordering::Release);
    }

    /// Opens the lock after [`Lock::hold_for_fork`], in parent and child.
    pub fn release_after_fork(&self) {
        self.held.store(false, Ordering::Release);
    }
}
