//! The order in which locks of the driver are taken, lowest first, among those that [`Rank`] lists: handles (10), lent ranges
//! (20), the registry of buffers (25), an address map (30), its users (40). Debug builds check it at every lock.

use rocjitsu_gpu::lock::Rank;

/// Whether the runtime has announced itself; looks at the queues.
pub(crate) const RUNTIME: Rank = Rank(2);
/// The queues of a context; tells the poller.
pub(crate) const QUEUES: Rank = Rank(3);
/// A queue's processor, for as long as packets are worked through: dispatches, copies, interrupts.
pub(crate) const PROCESSOR: Rank = Rank(4);
/// The queues that a poller looks at; wakes them.
pub(crate) const POLLER: Rank = Rank(5);
/// What a queue is to do.
pub(crate) const CONTROL: Rank = Rank(6);
/// The render node's file that a context has acquired for a GPU; asked for while handles are locked.
pub(crate) const VM: Rank = Rank(12);
/// The context that has acquired a render node's file.
pub(crate) const BOUND: Rank = Rank(14);
/// Doorbells, registers, the event page of a context: looks at the events.
pub(crate) const PAGES: Rank = Rank(44);
/// The events of a context.
pub(crate) const EVENTS: Rank = Rank(46);
/// What a thread that waits for events has seen.
pub(crate) const WAITER: Rank = Rank(48);
