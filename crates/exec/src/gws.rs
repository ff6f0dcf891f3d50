//! Global wave sync: 64 resources of a device, at which waves of different workgroups wait for each other.
//!
//! Rules: CDNA3 manual, "DS_GWS_INIT" to "DS_GWS_BARRIER"; RDNA3 manual, 13.4.4. A resource has one counter.
//! As a barrier it is the number of waves that still have to come before the last one (the operation table
//! of the RDNA3 manual decrements before it compares, which contradicts its "total wave count minus one";
//! ROCm passes the count less one on all targets, as CDNA's pseudocode wants). As a semaphore it is the number
//! of waves that may pass.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Resources of a device.
pub const COUNT: usize = 64;

/// What a wave waits for at a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// For the barrier's next phase.
    Barrier {
        /// The resource.
        resource: u8,
        /// The phase in which the wave came.
        phase: u32,
    },
    /// For a release of the semaphore.
    Semaphore {
        /// The resource.
        resource: u8,
        /// The wave's place in the queue.
        ticket: u64,
    },
}

impl Wait {
    /// The number of the resource.
    pub fn resource(self) -> u8 {
        match self {
            Wait::Barrier { resource, .. } | Wait::Semaphore { resource, .. } => resource,
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Resource {
    counter: u32,
    /// Completed barriers: the manuals' flag, which is its lowest bit.
    phase: u32,
    /// Tickets given to waves that came to the semaphore.
    tickets: u64,
    /// Tickets below this one have been released.
    released: u64,
}

impl Resource {
    /// Lets `count` waves pass: those in the queue now, the rest as they come.
    fn release(&mut self, count: u32) {
        let queued = self.tickets - self.released;
        let now = queued.min(u64::from(count));
        self.released += now;
        self.counter = self.counter.wrapping_add(count - now as u32);
    }
}

/// The resources of a device. They outlive dispatches: one kernel initialises them for the next one.
pub struct Gws {
    resources: Mutex<[Resource; COUNT]>,
    version: AtomicU64,
}

impl Default for Gws {
    fn default() -> Gws {
        Gws {
            resources: Mutex::new([Resource::default(); COUNT]),
            version: AtomicU64::new(0),
        }
    }
}

impl Gws {
    fn lock(&self) -> MutexGuard<'_, [Resource; COUNT]> {
        self.resources.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Changes a resource; whoever waits has to look again.
    fn change<R>(&self, resource: u8, f: impl FnOnce(&mut Resource) -> R) -> R {
        let mut all = self.lock();
        let result = f(&mut all[usize::from(resource) % COUNT]);
        self.version.fetch_add(1, Ordering::AcqRel);
        result
    }

    /// Changes whenever a wave that waits may be able to go on: for the detection of deadlocks.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Sets the counter: waves of the next barrier less one, or waves that pass the semaphore.
    pub fn init(&self, resource: u8, count: u32) {
        self.change(resource, |r| {
            r.counter = 0;
            r.release(count);
        });
    }

    /// Lets `count` waves pass the semaphore.
    pub fn release(&self, resource: u8, count: u32) {
        self.change(resource, |r| r.release(count));
    }

    /// Lets all waves pass that are queued at the semaphore.
    pub fn release_all(&self, resource: u8) {
        self.change(resource, |r| r.released = r.tickets);
    }

    /// A wave wants to pass the semaphore. `None`: it does.
    pub fn acquire(&self, resource: u8) -> Option<Wait> {
        self.change(resource, |r| {
            let ticket = r.tickets;
            r.tickets += 1;
            if r.counter == 0 {
                return Some(Wait::Semaphore { resource, ticket });
            }
            r.counter -= 1;
            r.released = r.tickets;
            None
        })
    }

    /// A wave comes to the barrier; `next` is the count for the one after. `None`: it is the last and goes on.
    pub fn barrier(&self, resource: u8, next: u32) -> Option<Wait> {
        self.change(resource, |r| {
            if r.counter != 0 {
                r.counter -= 1;
                let phase = r.phase;
                return Some(Wait::Barrier { resource, phase });
            }
            r.phase = r.phase.wrapping_add(1);
            r.counter = next;
            None
        })
    }

    /// The state of all resources, each as counter, phase, tickets given, tickets released.
    pub fn state(&self) -> Vec<[u64; 4]> {
        let all = self.lock();
        all.iter()
            .map(|r| [r.counter.into(), r.phase.into(), r.tickets, r.released])
            .collect()
    }

    /// Sets the state of the resources from the first on. `false`, and nothing is set, if these are too many or one says what
    /// cannot be.
    #[must_use]
    pub fn set_state(&self, state: &[[u64; 4]]) -> bool {
        let word = |value: u64| u32::try_from(value).is_ok();
        let good = |&[counter, phase, tickets, released]: &[u64; 4]| {
            word(counter) && word(phase) && released <= tickets && tickets < u64::MAX / 2
        };
        if state.len() > COUNT || !state.iter().all(good) {
            return false;
        }
        let mut all = self.lock();
        for (resource, &[counter, phase, tickets, released]) in all.iter_mut().zip(state) {
            *resource = Resource {
                counter: counter as u32,
                phase: phase as u32,
                tickets,
                released,
            };
        }
        self.version.fetch_add(1, Ordering::AcqRel);
        true
    }

    /// Whether a wave that waits can go on.
    pub fn ready(&self, wait: Wait) -> bool {
        let r = self.lock()[usize::from(wait.resource()) % COUNT];
        match wait {
            Wait::Barrier { phase, .. } => r.phase != phase,
            Wait::Semaphore { ticket, .. } => ticket < r.released,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_wave_completes_the_barrier_and_sets_the_next_count() {
        let gws = Gws::default();
        gws.init(3, 2);
        let (a, b) = (gws.barrier(3, 1).unwrap(), gws.barrier(3, 1).unwrap());
        assert!(!gws.ready(a) && !gws.ready(b));
        assert_eq!(gws.barrier(3, 1), None);
        assert!(gws.ready(a) && gws.ready(b));
        // The next one is for two waves. One that waits does not see the phase before.
        let c = gws.barrier(3, 0).unwrap();
        assert!(!gws.ready(c));
        assert_eq!(gws.barrier(3, 0), None);
        assert!(gws.ready(c));
        assert_eq!(gws.barrier(3, 0), None, "a barrier for one wave");
        assert_eq!(gws.barrier(4, 0), None, "other resources are not concerned");
    }

    #[test]
    fn a_semaphore_lets_waves_pass_in_the_order_they_came() {
        let gws = Gws::default();
        gws.init(0, 1);
        assert_eq!(gws.acquire(0), None);
        let queue: Vec<Wait> = (0..4).map(|_| gws.acquire(0).unwrap()).collect();
        gws.release(0, 1);
        assert_eq!(
            queue.iter().map(|&w| gws.ready(w)).collect::<Vec<_>>(),
            [true, false, false, false]
        );
        gws.release_all(0);
        assert!(queue.iter().all(|&w| gws.ready(w)));
        // Nobody is queued: releasing all changes nothing, releasing two is kept for those who come.
        gws.release_all(0);
        gws.release(0, 2);
        assert!(gws.acquire(0).is_none() && gws.acquire(0).is_none());
        let last = gws.acquire(0).unwrap();
        gws.init(0, 1);
        assert!(gws.ready(last), "the initial count counts for the queue");
    }
}
