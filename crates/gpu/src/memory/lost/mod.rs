//! Memory that the program lent and that goes away under an access. On the hardware that is a fault of the GPU; here it is
//! a SIGSEGV or SIGBUS of the thread that accesses it. The handler puts a page of zeros there, the access completes, and
//! the thread finds at its next look ([`take`]) that it has lost memory: as imprecise as the hardware's own faults. The
//! page goes again then.
//!
//! Only threads inside of a [`Scope`] are treated so, and only where memory was ever lent ([`super::LENT`]); all other
//! signals are the program's, whose disposition [`disposition`] keeps. What remains: another thread that reads the page
//! meanwhile finds zeros, and a program's own wild access to it would not be noticed.

pub mod disposition;
mod patch;

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, compiler_fence};

use rocjitsu_exec::memory::FaultKind;

use super::LENT;

pub use disposition::{arm, is_armed};
pub use patch::Held;

/// Pages that a thread may lose between two looks; more are a sign that the handler does not help.
const MOST: u32 = 4096;

thread_local! {
    /// How many [`Scope`]s this thread has. The handler reads these: they have neither destructor nor first use.
    static DEPTH: AtomicU32 = const { AtomicU32::new(0) };
    /// The first address that was lost since the last look, with flags above; 0 for none.
    static LOST: AtomicU64 = const { AtomicU64::new(0) };
    static COUNT: AtomicU32 = const { AtomicU32::new(0) };
    static ADMITTED: Cell<bool> = const { Cell::new(false) };
}

const WRITE: u64 = 1 << 63;
const PROTECTED: u64 = 1 << 62;

/// Memory that was lost under an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The program's address.
    pub host: u64,
    /// Whether it was written.
    pub write: bool,
    /// Gone, or protected.
    pub kind: FaultKind,
}

/// While this lives, accesses of the thread to lost memory complete.
pub struct Scope {
    /// What an outer one has lost: it is not this one's.
    outer: u64,
    _this_thread: PhantomData<*const ()>,
}

impl Scope {
    /// Begins one. They nest.
    pub fn enter() -> Scope {
        DEPTH.with(|depth| depth.store(depth.load(Ordering::Relaxed) + 1, Ordering::Relaxed));
        compiler_fence(Ordering::SeqCst);
        Scope {
            outer: LOST.with(|lost| lost.swap(0, Ordering::Relaxed)),
            _this_thread: PhantomData,
        }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        if self.outer != 0 {
            LOST.with(|lost| lost.store(self.outer, Ordering::Relaxed));
        }
        let left = DEPTH.with(|depth| {
            let left = depth.load(Ordering::Relaxed) - 1;
            depth.store(left, Ordering::Relaxed);
            left
        });
        if left == 0 {
            take();
        }
    }
}

/// Whether this thread is in a scope.
pub(super) fn is_in_scope() -> bool {
    DEPTH.with(|depth| depth.load(Ordering::Relaxed) != 0)
}

/// What this thread has lost since it looked last, the first of it. The pages of zeros go.
#[inline]
pub fn take() -> Option<Lost> {
    compiler_fence(Ordering::SeqCst);
    match LOST.with(|lost| lost.load(Ordering::Relaxed)) {
        0 => None,
        lost => Some(settle(lost)),
    }
}

#[cold]
fn settle(lost: u64) -> Lost {
    patch::undo_own();
    COUNT.with(|count| count.store(0, Ordering::Relaxed));
    LOST.with(|lost| lost.store(0, Ordering::Relaxed));
    let write = lost & WRITE != 0;
    Lost {
        host: lost & !(WRITE | PROTECTED),
        write,
        kind: match lost & PROTECTED {
            0 => FaultKind::Unmapped,
            _ if write => FaultKind::NotWritable,
            _ => FaultKind::NotAccessible,
        },
    }
}

/// Lets the two signals through on this thread, which is the engine's: one that is blocked ends the process.
pub fn admit_signals() {
    if ADMITTED.replace(true) {
        return;
    }
    // SAFETY: the set is filled before it is used; only this thread's mask changes.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGSEGV);
        libc::sigaddset(&mut set, libc::SIGBUS);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
    }
}

/// Takes back what was put into any of `ranges` in place of lost memory, and lets no other thread do so until the result is
/// dropped: for who maps something else there.
pub fn hold(ranges: &[std::ops::Range<u64>]) -> Held {
    patch::hold(ranges)
}

/// To be called in a forked child, where no other thread is.
pub fn after_fork() {
    DEPTH.with(|depth| depth.store(0, Ordering::Relaxed));
    LOST.with(|lost| lost.store(0, Ordering::Relaxed));
    patch::after_fork();
    disposition::after_fork();
    super::flight::after_fork();
}

/// An access of this thread has failed. Whether it will succeed when it is tried again. Runs in the signal handler.
fn rescue(signal: i32, code: i32, address: u64, write: bool) -> bool {
    // The order matters: a thread of the program's that comes here with a broken heap is not asked for its variables.
    if !LENT.touches(address, address.saturating_add(1)) || !is_in_scope() {
        return false;
    }
    let count = COUNT.with(|count| count.fetch_add(1, Ordering::Relaxed));
    let flags = match (signal, code) {
        _ if count >= MOST => return false,
        (libc::SIGSEGV, SEGV_MAPERR) if patch::fill(address, count) => 0,
        (libc::SIGSEGV, SEGV_ACCERR) if patch::open(address, count, write) => PROTECTED,
        (libc::SIGBUS, BUS_ADRERR) if patch::cover(address, count) => 0,
        _ => return false,
    };
    let flags = flags | if write { WRITE } else { 0 };
    LOST.with(|lost| {
        if lost.load(Ordering::Relaxed) == 0 {
            lost.store(address | flags, Ordering::Relaxed);
        }
    });
    true
}

/// `si_code` of the signals (`asm-generic/siginfo.h`).
const SEGV_MAPERR: i32 = 1;
const SEGV_ACCERR: i32 = 2;
const BUS_ADRERR: i32 = 2;

/// Something that one thread has at a time and that a forked child starts without.
struct Spin(AtomicBool);

impl Spin {
    const fn new() -> Spin {
        Spin(AtomicBool::new(false))
    }

    fn lock(&self) {
        while self.0.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
    }

    fn unlock(&self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
