//! Accesses under way. Whoever uses host addresses that an address map gave says when it begins and when it is done with
//! them; whoever has taken pages away waits until those who may still have their addresses are done.
//!
//! A thread that runs waves does so for a turn, a queue processor for an access or a piece of a copy.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rocjitsu_exec::memory::AddressSpace;

use super::Memory;
use super::lost::{self, Lost};

/// Users at one time of whom [`settle`] knows.
const SLOTS: usize = 1024;
/// How long [`settle`] waits at most. Turns of waves take milliseconds, with plugins that watch each instruction some
/// tenths of a second.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is known of one user.
#[repr(align(64))]
struct Slot {
    taken: AtomicBool,
    /// The address map's generation when the access began; 0 between accesses.
    since: AtomicU64,
    /// Which address map.
    memory: AtomicUsize,
}

static USERS: [Slot; SLOTS] = [const {
    Slot {
        taken: AtomicBool::new(false),
        since: AtomicU64::new(0),
        memory: AtomicUsize::new(0),
    }
}; SLOTS];
/// Slots from here on were never taken.
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Where this thread looks for a slot first.
    static HINT: Cell<usize> = const { Cell::new(0) };
    /// The slot of the access that it began last, and that has not ended.
    static CURRENT: Cell<Option<&'static Slot>> = const { Cell::new(None) };
}

/// A user of an address map, on the thread that made it. Accesses to what the program has lent are safe while it
/// lives: see [`super::lost`].
pub struct Flight<'a> {
    memory: &'a Memory,
    /// None: there are too many users.
    slot: Option<&'static Slot>,
    _scope: lost::Scope,
    _this_thread: PhantomData<*const ()>,
}

impl<'a> Flight<'a> {
    /// A user of `memory` with no access under way.
    pub fn new(memory: &'a Memory) -> Flight<'a> {
        let slot = take();
        if let Some(slot) = slot {
            slot.memory.store(address(memory), Ordering::Relaxed);
        }
        Flight {
            memory,
            slot,
            _scope: lost::Scope::enter(),
            _this_thread: PhantomData,
        }
    }

    /// As [`Flight::new`], on a thread of the engine's: the signals that accesses to lost memory bring are let through.
    pub fn of_engine(memory: &'a Memory) -> Flight<'a> {
        lost::admit_signals();
        Flight::new(memory)
    }

    /// Accesses begin. Addresses that were looked up before are good only if the generation is still the same.
    pub fn begin(&self) {
        if let Some(slot) = self.slot {
            // Whoever changes the map and does not see this is seen by the look at the generation that follows.
            slot.since
                .store(self.memory.generation(), Ordering::Relaxed);
            std::sync::atomic::fence(Ordering::SeqCst);
            CURRENT.set(Some(slot));
        }
    }

    /// No address is used any more. What memory was lost meanwhile, if any.
    pub fn end(&self) -> Option<Lost> {
        if let Some(slot) = self.slot {
            slot.since.store(0, Ordering::Release);
            CURRENT.set(None);
        }
        lost::take()
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            slot.since.store(0, Ordering::Release);
            slot.taken.store(false, Ordering::Release);
        }
    }
}

fn address(memory: &Memory) -> usize {
    std::ptr::from_ref(memory).addr()
}

fn take() -> Option<&'static Slot> {
    let first = HINT.get();
    let slots = (first..SLOTS).chain(0..first);
    for at in slots {
        let slot = &USERS[at];
        if !slot.taken.load(Ordering::Relaxed) && !slot.taken.swap(true, Ordering::Acquire) {
            HIGHEST.fetch_max(at + 1, Ordering::SeqCst);
            HINT.set(at);
            return Some(slot);
        }
    }
    None
}

/// Lets this thread's access count as done during `wait`, which waits for somebody who may be waiting for it. It goes
/// on with addresses that may have become bad: those that are lost are noticed as ever.
pub fn aside<R>(wait: impl FnOnce() -> R) -> R {
    let Some(slot) = CURRENT.get() else {
        return wait();
    };
    let since = slot.since.swap(0, Ordering::SeqCst);
    let done = wait();
    slot.since.store(since, Ordering::SeqCst);
    done
}

/// Waits until no access is under way that began before `memory` came to its present generation. Whether that is so: it
/// waits for a second at most, and not at all if the caller itself has such an access.
pub(super) fn settle(memory: &Memory) -> bool {
    std::sync::atomic::fence(Ordering::SeqCst);
    let now = memory.generation();
    let me = address(memory);
    let busy = |slot: &Slot| {
        let since = slot.since.load(Ordering::SeqCst);
        since != 0 && since < now && slot.memory.load(Ordering::Relaxed) == me
    };
    let mut deadline = None;
    let mut looks = 0u32;
    for slot in &USERS[..HIGHEST.load(Ordering::SeqCst)] {
        while busy(slot) {
            if lost::is_in_scope() {
                return false;
            }
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + PATIENCE);
            looks += 1;
            match looks {
                ..100 => std::hint::spin_loop(),
                100..200 => std::thread::yield_now(),
                _ if Instant::now() > deadline => return false,
                _ => std::thread::sleep(Duration::from_micros(20)),
            }
        }
    }
    true
}

/// In a forked child the other threads are gone, and with them their accesses.
pub(super) fn after_fork() {
    CURRENT.set(None);
    for slot in &USERS {
        slot.since.store(0, Ordering::Relaxed);
        slot.taken.store(false, Ordering::Relaxed);
    }
}
