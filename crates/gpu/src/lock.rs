//! Locks with a rank: a thread takes them in ascending order only.
//! Debug builds check it at every lock, so that an inversion shows in a test and not as a rare deadlock.

use std::ops::{Deref, DerefMut};
use std::sync::{
    Condvar, Mutex as StdMutex, MutexGuard, PoisonError, RwLock as StdRwLock, RwLockReadGuard,
    RwLockWriteGuard,
};
use std::time::Duration;

/// The place of a lock in the order, below 64. A thread that holds a lock takes only locks of higher rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(pub u16);

impl Rank {
    /// The tables of a driver's context: handles and their allocations.
    pub const CONTEXT: Rank = Rank(10);
    /// Registered ranges of the program's own memory.
    pub const RANGES: Rank = Rank(20);
    /// The address map of a memory. Nothing that looks at the program's address space runs under it.
    pub const MAP: Rank = Rank(30);
    /// Who uses a memory, and the storage that waits for them.
    pub const USERS: Rank = Rank(40);
    /// What is locked last: nothing is called that locks.
    pub const LEAF: Rank = Rank(63);
}

#[cfg(debug_assertions)]
thread_local! {
    /// A bit for each rank that is held. It has no destructor: programs free GPU memory from their own destructors,
    /// which may run after those of this thread's variables.
    static HELD: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Notes that this thread holds a rank, until dropped.
#[derive(Debug)]
struct Held(#[cfg_attr(not(debug_assertions), allow(dead_code))] Rank);

impl Held {
    fn new(rank: Rank) -> Held {
        #[cfg(debug_assertions)]
        HELD.with(|held| {
            let (now, bit) = (held.get(), 1u64 << rank.0);
            assert!(
                now < bit,
                "a lock of rank {} is taken while ranks {:?} are held: the order is ascending",
                rank.0,
                (0..64)
                    .filter(|other| now >> other & 1 == 1)
                    .collect::<Vec<_>>()
            );
            held.set(now | bit);
        });
        Held(rank)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        #[cfg(debug_assertions)]
        HELD.with(|held| held.set(held.get() & !(1 << self.0.0)));
    }
}

/// A lock that is held, of whatever kind `G` is.
#[derive(Debug)]
pub struct Guard<G> {
    guard: G,
    _held: Held,
}

impl<'a, T> Guard<MutexGuard<'a, T>> {
    /// Gives the lock up until `changed` is notified, and has it again.
    #[must_use]
    pub fn wait(self, changed: &Condvar) -> Self {
        let Guard { guard, _held } = self;
        let guard = changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
        Guard { guard, _held }
    }

    /// As [`Guard::wait`], for this long at most.
    #[must_use]
    pub fn wait_timeout(self, changed: &Condvar, most: Duration) -> Self {
        let Guard { guard, _held } = self;
        let waited = changed.wait_timeout(guard, most);
        let guard = waited.unwrap_or_else(PoisonError::into_inner).0;
        Guard { guard, _held }
    }
}

impl<G: Deref> Deref for Guard<G> {
    type Target = G::Target;
    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Guard<G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

/// A mutex with a rank. A panic of another holder does not poison it.
#[derive(Debug)]
pub struct Mutex<T> {
    rank: Rank,
    inner: StdMutex<T>,
}

impl<T> Mutex<T> {
    /// A mutex of `rank` around `value`.
    pub const fn new(rank: Rank, value: T) -> Self {
        let inner = StdMutex::new(value);
        Mutex { rank, inner }
    }

    /// Waits for the lock.
    pub fn lock(&self) -> Guard<MutexGuard<'_, T>> {
        let held = Held::new(self.rank);
        let guard = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        Guard { guard, _held: held }
    }
}

/// A readers-writer lock with a rank. A panic of another holder does not poison it.
#[derive(Debug)]
pub struct RwLock<T> {
    rank: Rank,
    inner: StdRwLock<T>,
}

impl<T> RwLock<T> {
    /// A lock of `rank` around `value`.
    pub const fn new(rank: Rank, value: T) -> Self {
        let inner = StdRwLock::new(value);
        RwLock { rank, inner }
    }

    /// Waits until no writer has the lock.
    pub fn read(&self) -> Guard<RwLockReadGuard<'_, T>> {
        let held = Held::new(self.rank);
        let guard = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        Guard { guard, _held: held }
    }

    /// Waits until nobody else has the lock.
    pub fn write(&self) -> Guard<RwLockWriteGuard<'_, T>> {
        let held = Held::new(self.rank);
        let guard = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        Guard { guard, _held: held }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascending_order_is_fine_and_ends_with_the_guard() {
        let outer = Mutex::new(Rank::CONTEXT, 1);
        let inner = RwLock::new(Rank::MAP, 2);
        let held = outer.lock();
        assert_eq!(*held + *inner.read(), 3);
        *inner.write() += 1;
        drop(held);
        let map = inner.read();
        drop(map);
        assert_eq!(*outer.lock(), 1);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "the order is ascending")]
    fn an_inversion_is_found() {
        let outer = Mutex::new(Rank::CONTEXT, ());
        let inner = RwLock::new(Rank::MAP, ());
        let _map = inner.read();
        let _context = outer.lock();
    }
}
