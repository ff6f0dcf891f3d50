//! Events: how GPUs and the driver wake the program. Rules as `kfd_events.c` has them.
//!
//! An event is signalled or not, and counts how often it was set (its age). Waiters are told at
//! once by whoever sets the event, so that one that resets itself wakes all who wait for it.

mod ioctl;
mod sleep;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rocjitsu_gpu::lock::Mutex;
use rustix::io::Errno;
use zerocopy::FromZeros;

use crate::abi::{HwException, MemoryException, event_type};
use crate::ranks;
pub(crate) use ioctl::{create, destroy, reset, set, wait};
use sleep::{Deadline, Slept};
pub use sleep::{around_waits, has_futex_waitv};

/// Slots of the event page, and so signal events of a context: 1 to 4095, 0 is never given.
const SLOTS: u32 = 4096;
/// First id of an event without a slot.
const FIRST_OTHER: u32 = 0x4000_0000;
/// Content of a slot that no agent has written to.
const UNSIGNALLED: u64 = u64::MAX;

/// Whether agents signal events of a type through the event page.
fn has_slot(kind: u32) -> bool {
    matches!(kind, event_type::SIGNAL | event_type::DEBUG_EVENT)
}

/// The words of the event page, one for each signal event, that agents write to.
pub(crate) trait Page: Send + Sync + std::fmt::Debug {
    /// The word of a slot.
    fn load(&self, slot: u32) -> u64;
    /// Replaces the word of a slot.
    fn store(&self, slot: u32, value: u64);
}

/// The events of one context.
#[derive(Debug)]
pub(crate) struct Events {
    state: Mutex<State>,
}

impl Default for Events {
    fn default() -> Self {
        let state = Mutex::new(ranks::EVENTS, State::default());
        Events { state }
    }
}

#[derive(Debug, Default)]
struct State {
    events: BTreeMap<u32, Event>,
    /// The slots, with the handle of the allocation that they are in, if it is one of the program's.
    page: Option<(Option<u64>, Box<dyn Page>)>,
}

#[derive(Debug)]
struct Event {
    kind: u32,
    auto_reset: bool,
    signalled: bool,
    age: u64,
    memory: MemoryException,
    hardware: HwException,
    waiters: Vec<(Arc<Waiter>, usize)>,
}

/// What a waiter knows of one of its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Nothing,
    Set,
    Destroyed,
}

/// A thread in WAIT_EVENTS.
#[derive(Debug)]
struct Waiter {
    seen: Mutex<Vec<Seen>>,
    /// Grows with every change of `seen`: what the thread sleeps on.
    changes: AtomicU32,
}

impl Waiter {
    fn tell(&self, index: usize, what: Seen) {
        if let Some(seen) = self.seen.lock().get_mut(index) {
            *seen = what;
        }
        self.changes.fetch_add(1, Ordering::Release);
        sleep::wake(&self.changes);
    }
}

impl Event {
    fn set(&mut self) {
        self.signalled = !self.auto_reset || self.waiters.is_empty();
        // Ages 0 and 1 are reserved.
        self.age = self.age.checked_add(1).unwrap_or(2);
        for (waiter, index) in &self.waiters {
            waiter.tell(*index, Seen::Set);
        }
    }
}

/// What is waited for: an event, and the age that the program saw last (0: it does not care).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) id: u32,
    pub(crate) age: u64,
}

/// What the program learns of an event that was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    Nothing,
    Age(u64),
    Memory(MemoryException),
    Hardware(HwException),
}

/// How a wait ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// What was waited for has come; news by index.
    Complete(Vec<(usize, News)>),
    Timeout,
    /// An event was destroyed meanwhile.
    Failed,
    /// A signal handler of the program ran that does not restart system calls. This much of the timeout is left.
    Interrupted(Option<Duration>),
}

impl Events {
    /// Makes `page` the event page, all slots unsignalled: the allocation of `handle`, or memory of the driver's.
    ///
    /// # Errors
    /// `EINVAL` if there is one already.
    pub(crate) fn set_page(&self, handle: Option<u64>, page: Box<dyn Page>) -> Result<(), Errno> {
        let mut state = self.state.lock();
        if state.page.is_some() {
            return Err(Errno::INVAL);
        }
        for slot in 0..SLOTS {
            page.store(slot, UNSIGNALLED);
        }
        state.page = Some((handle, page));
        Ok(())
    }

    /// Whether the allocation of `handle` is the event page, which must not be freed.
    pub(crate) fn is_page(&self, handle: u64) -> bool {
        matches!(&self.state.lock().page, Some((page, _)) if *page == Some(handle))
    }

    /// Whether there is an event page.
    pub(crate) fn has_page(&self) -> bool {
        self.state.lock().page.is_some()
    }

    /// Makes an event and returns its id, which is its slot for those that agents signal.
    ///
    /// # Errors
    /// `EINVAL` for an unknown type; `ENOSPC` when all slots are taken.
    pub(crate) fn create(&self, kind: u32, auto_reset: bool) -> Result<u32, Errno> {
        if kind > event_type::MEMORY {
            return Err(Errno::INVAL);
        }
        let (mut id, end) = match has_slot(kind) {
            true => (1, SLOTS),
            false => (FIRST_OTHER, 2 * FIRST_OTHER),
        };
        let mut state = self.state.lock();
        // The lowest free number.
        for &taken in state.events.range(id..end).map(|(id, _)| id) {
            if taken != id {
                break;
            }
            id += 1;
        }
        if id >= end {
            return Err(Errno::NOSPC);
        }
        let event = Event {
            kind,
            auto_reset,
            signalled: false,
            age: 1,
            memory: MemoryException::new_zeroed(),
            hardware: HwException::new_zeroed(),
            waiters: Vec::new(),
        };
        state.events.insert(id, event);
        Ok(id)
    }

    /// Removes an event; whoever waits for it fails.
    ///
    /// # Errors
    /// `EINVAL` if there is none.
    pub(crate) fn destroy(&self, id: u32) -> Result<(), Errno> {
        let event = self.state.lock().events.remove(&id).ok_or(Errno::INVAL)?;
        for (waiter, index) in event.waiters {
            waiter.tell(index, Seen::Destroyed);
        }
        Ok(())
    }

    /// Signals an event for the program, which may do so only for those of type SIGNAL.
    ///
    /// # Errors
    /// `EINVAL` if there is none.
    pub(crate) fn set(&self, id: u32) -> Result<(), Errno> {
        match self.state.lock().events.get_mut(&id) {
            Some(event) if event.kind == event_type::SIGNAL => {
                event.set();
                Ok(())
            }
            _ => Err(Errno::INVAL),
        }
    }

    /// Takes a signal back.
    ///
    /// # Errors
    /// `EINVAL` if there is no such event of type SIGNAL.
    pub(crate) fn reset(&self, id: u32) -> Result<(), Errno> {
        match self.state.lock().events.get_mut(&id) {
            Some(event) if event.kind == event_type::SIGNAL => {
                event.signalled = false;
                Ok(())
            }
            _ => Err(Errno::INVAL),
        }
    }

    /// An agent's interrupt that carries an event's id. If no event has it, those whose slots
    /// were written to are set, as the kernel does with ids it cannot use.
    pub(crate) fn interrupt(&self, id: u32) {
        let state = &mut *self.state.lock();
        match state.events.get_mut(&id) {
            Some(event) if id < FIRST_OTHER => {
                if let Some((_, page)) = &state.page {
                    page.store(id, UNSIGNALLED);
                }
                event.set();
            }
            _ => {
                let Some((_, page)) = &state.page else { return };
                for (&slot, event) in state.events.range_mut(1..SLOTS) {
                    if page.load(slot) != UNSIGNALLED {
                        page.store(slot, UNSIGNALLED);
                        event.set();
                    }
                }
            }
        }
    }

    /// A GPU's memory fault: sets every event of type MEMORY. Returns whether there is one.
    pub(crate) fn memory_fault(&self, fault: MemoryException) -> bool {
        self.set_all(event_type::MEMORY, |event| event.memory = fault)
    }

    /// Another fault: sets every event of type HW_EXCEPTION. Returns whether there is one.
    pub(crate) fn hardware_fault(&self, fault: HwException) -> bool {
        self.set_all(event_type::HW_EXCEPTION, |event| event.hardware = fault)
    }

    fn set_all(&self, kind: u32, fill: impl Fn(&mut Event)) -> bool {
        let mut any = false;
        for event in self.state.lock().events.values_mut() {
            if event.kind == kind {
                fill(event);
                event.set();
                any = true;
            }
        }
        any
    }

    /// Waits for one or, if `all`, every one of `wanted`; `None` waits forever.
    ///
    /// # Errors
    /// `EINVAL` if one of them does not exist.
    pub(crate) fn wait(
        &self,
        wanted: &[Wanted],
        all: bool,
        timeout: Option<Duration>,
    ) -> Result<Waited, Errno> {
        let waiter = Arc::new(Waiter {
            seen: Mutex::new(ranks::WAITER, vec![Seen::Nothing; wanted.len()]),
            changes: AtomicU32::new(0),
        });
        let deadline = timeout.map(Deadline::after);
        let enrolled = self.enrol(wanted, &waiter);
        let result = enrolled.map(|()| waiter.wait(all, deadline.as_ref()));
        let mut state = self.state.lock();
        for wanted in wanted {
            if let Some(event) = state.events.get_mut(&wanted.id) {
                event
                    .waiters
                    .retain(|(other, _)| !Arc::ptr_eq(other, &waiter));
            }
        }
        Ok(match result? {
            Condition::Failed => Waited::Failed,
            Condition::Open => Waited::Timeout,
            Condition::Interrupted => {
                // The program will ask again: what was taken is put back (`free_waiters`).
                let seen = waiter.seen.lock().clone();
                for (wanted, seen) in wanted.iter().zip(&seen) {
                    if let Some(event) = state.events.get_mut(&wanted.id)
                        && event.auto_reset
                        && *seen == Seen::Set
                    {
                        event.set();
                    }
                }
                Waited::Interrupted(deadline.map(|deadline| deadline.left()))
            }
            Condition::Met => {
                let seen = waiter.seen.lock();
                let set = wanted.iter().enumerate().zip(seen.iter());
                let set = set.filter(|(_, seen)| **seen == Seen::Set);
                Waited::Complete(
                    set.map(|((i, wanted), _)| (i, state.news(wanted)))
                        .collect(),
                )
            }
        })
    }

    /// Takes what is signalled already and joins the waiters of the other events.
    fn enrol(&self, wanted: &[Wanted], waiter: &Arc<Waiter>) -> Result<(), Errno> {
        let mut state = self.state.lock();
        for (i, wanted) in wanted.iter().enumerate() {
            let event = state.events.get_mut(&wanted.id).ok_or(Errno::INVAL)?;
            let aged =
                event.kind == event_type::SIGNAL && wanted.age != 0 && wanted.age != event.age;
            if event.signalled || aged {
                waiter.tell(i, Seen::Set);
                event.signalled &= !event.auto_reset;
            } else {
                event.waiters.push((waiter.clone(), i));
            }
        }
        Ok(())
    }
}

impl State {
    fn news(&self, wanted: &Wanted) -> News {
        match self.events.get(&wanted.id) {
            Some(event) if event.kind == event_type::MEMORY => News::Memory(event.memory),
            Some(event) if event.kind == event_type::HW_EXCEPTION => News::Hardware(event.hardware),
            Some(event) if event.kind == event_type::SIGNAL && wanted.age != 0 => {
                News::Age(event.age)
            }
            _ => News::Nothing,
        }
    }
}

/// Whether what a waiter waits for has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Open,
    Met,
    Failed,
    Interrupted,
}

impl Waiter {
    fn wait(&self, all: bool, deadline: Option<&Deadline>) -> Condition {
        loop {
            let changes = self.changes.load(Ordering::Acquire);
            let condition = condition(&self.seen.lock(), all);
            if condition != Condition::Open || deadline.is_some_and(|end| end.left().is_zero()) {
                return condition;
            }
            if sleep::sleep(&self.changes, changes, deadline) == Slept::Interrupted {
                return match self::condition(&self.seen.lock(), all) {
                    Condition::Open => Condition::Interrupted,
                    other => other,
                };
            }
        }
    }
}

fn condition(seen: &[Seen], all: bool) -> Condition {
    if seen.contains(&Seen::Destroyed) {
        return Condition::Failed;
    }
    let set = seen.iter().filter(|&&seen| seen == Seen::Set).count();
    if set == seen.len() || (!all && set > 0) {
        Condition::Met
    } else {
        Condition::Open
    }
}
