//! Each rule of events by itself.

use super::*;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Clone)]
struct Slots(Arc<Vec<AtomicU64>>);

impl Slots {
    fn new() -> Slots {
        Slots(Arc::new((0..SLOTS).map(|_| AtomicU64::new(0)).collect()))
    }
}

impl Page for Slots {
    fn load(&self, slot: u32) -> u64 {
        self.0[slot as usize].load(Ordering::Relaxed)
    }
    fn store(&self, slot: u32, value: u64) {
        self.0[slot as usize].store(value, Ordering::Relaxed);
    }
}

const POLL: Option<Duration> = Some(Duration::ZERO);

fn one(id: u32) -> [Wanted; 1] {
    [Wanted { id, age: 0 }]
}

fn complete(index: usize) -> Waited {
    Waited::Complete(vec![(index, News::Nothing)])
}

/// Waits until `count` threads wait for the event.
fn until_waiting(events: &Events, id: u32, count: usize) {
    while events.state.lock().events[&id].waiters.len() < count {
        std::thread::yield_now();
    }
}

#[test]
fn ids_are_slots_from_one_and_other_types_start_high() {
    let events = Events::default();
    assert_eq!(events.create(event_type::SIGNAL, false), Ok(1));
    assert_eq!(events.create(event_type::DEBUG_EVENT, false), Ok(2));
    assert_eq!(events.create(event_type::MEMORY, false), Ok(0x4000_0000));
    assert_eq!(
        events.create(event_type::HW_EXCEPTION, false),
        Ok(0x4000_0001)
    );
    assert_eq!(events.create(9, false), Err(Errno::INVAL));
    events.destroy(1).unwrap();
    assert_eq!(events.create(event_type::SIGNAL, false), Ok(1));
    for id in 3..SLOTS {
        assert_eq!(events.create(event_type::SIGNAL, false), Ok(id));
    }
    assert_eq!(events.create(event_type::SIGNAL, false), Err(Errno::NOSPC));
    for id in [0, 5000, u32::MAX] {
        assert_eq!(events.destroy(id), Err(Errno::INVAL));
        assert_eq!(events.set(id), Err(Errno::INVAL));
        assert_eq!(events.wait(&one(id), false, POLL), Err(Errno::INVAL));
    }
    assert_eq!(events.set(0x4000_0000), Err(Errno::INVAL));
}

#[test]
fn manual_reset_stays_and_auto_reset_is_consumed() {
    let events = Events::default();
    let stays = events.create(event_type::SIGNAL, false).unwrap();
    let once = events.create(event_type::SIGNAL, true).unwrap();
    assert_eq!(events.wait(&one(stays), false, POLL), Ok(Waited::Timeout));
    for id in [stays, once] {
        events.set(id).unwrap();
        assert_eq!(events.wait(&one(id), false, POLL), Ok(complete(0)));
    }
    assert_eq!(events.wait(&one(stays), false, POLL), Ok(complete(0)));
    assert_eq!(events.wait(&one(once), false, POLL), Ok(Waited::Timeout));
    events.reset(stays).unwrap();
    assert_eq!(events.wait(&one(stays), false, POLL), Ok(Waited::Timeout));
}

#[test]
fn one_set_of_an_auto_reset_event_wakes_all_waiters() {
    let events = Events::default();
    let id = events.create(event_type::SIGNAL, true).unwrap();
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| events.wait(&one(id), false, None)))
            .collect();
        until_waiting(&events, id, 3);
        events.set(id).unwrap();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Ok(complete(0)));
        }
    });
    assert_eq!(events.wait(&one(id), false, POLL), Ok(Waited::Timeout));
}

#[test]
fn ages_start_at_one_count_sets_and_skip_the_reserved_ones() {
    let events = Events::default();
    let id = events.create(event_type::SIGNAL, true).unwrap();
    let at = |age| [Wanted { id, age }];
    assert_eq!(events.wait(&at(1), false, POLL), Ok(Waited::Timeout));
    events.set(id).unwrap();
    events.reset(id).unwrap();
    // Not signalled any more, but older than the caller knows: returns at once with the age.
    let aged = |age| Ok(Waited::Complete(vec![(0, News::Age(age))]));
    assert_eq!(events.wait(&at(1), false, POLL), aged(2));
    assert_eq!(events.wait(&at(2), false, POLL), Ok(Waited::Timeout));
    assert_eq!(events.wait(&at(0), false, POLL), Ok(Waited::Timeout));
    events.state.lock().events.get_mut(&id).unwrap().age = u64::MAX;
    events.set(id).unwrap();
    assert_eq!(events.wait(&at(9), false, POLL), aged(2));
}

#[test]
fn a_wait_for_all_needs_all() {
    let events = Events::default();
    let ids: Vec<u32> = (0..3)
        .map(|_| events.create(event_type::SIGNAL, false).unwrap())
        .collect();
    let wanted: Vec<_> = ids.iter().map(|&id| Wanted { id, age: 0 }).collect();
    events.set(ids[0]).unwrap();
    events.set(ids[2]).unwrap();
    assert_eq!(
        events.wait(&wanted, false, POLL),
        Ok(Waited::Complete(vec![
            (0, News::Nothing),
            (2, News::Nothing)
        ]))
    );
    assert_eq!(events.wait(&wanted, true, POLL), Ok(Waited::Timeout));
    let short = Some(Duration::from_millis(5));
    assert_eq!(events.wait(&wanted, true, short), Ok(Waited::Timeout));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| events.wait(&wanted, true, None));
        until_waiting(&events, ids[1], 1);
        events.set(ids[1]).unwrap();
        assert!(matches!(waiter.join().unwrap(), Ok(Waited::Complete(news)) if news.len() == 3));
    });
    assert!(matches!(
        events.wait(&[], false, POLL),
        Ok(Waited::Complete(_))
    ));
}

#[test]
fn a_destroyed_event_wakes_its_waiters_with_failure() {
    let events = Events::default();
    let id = events.create(event_type::SIGNAL, false).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| events.wait(&one(id), false, None));
        until_waiting(&events, id, 1);
        events.destroy(id).unwrap();
        assert_eq!(waiter.join().unwrap(), Ok(Waited::Failed));
    });
}

#[test]
fn waiters_leave_no_trace() {
    let events = Events::default();
    let id = events.create(event_type::SIGNAL, true).unwrap();
    assert_eq!(events.wait(&one(id), false, POLL), Ok(Waited::Timeout));
    let bad = [one(id)[0], one(77)[0]];
    assert_eq!(events.wait(&bad, false, POLL), Err(Errno::INVAL));
    assert!(events.state.lock().events[&id].waiters.is_empty());
    // No stale waiter consumes the signal.
    events.set(id).unwrap();
    assert_eq!(events.wait(&one(id), false, POLL), Ok(complete(0)));
}

#[test]
fn interrupts_set_events_and_clear_slots() {
    let events = Events::default();
    let slots = Slots::new();
    events.set_page(Some(7), Box::new(slots.clone())).unwrap();
    assert!((0..SLOTS).all(|slot| slots.load(slot) == UNSIGNALLED));
    assert!(events.is_page(7) && !events.is_page(8));
    assert_eq!(
        events.set_page(Some(8), Box::new(slots.clone())),
        Err(Errno::INVAL)
    );
    let a = events.create(event_type::SIGNAL, true).unwrap();
    let b = events.create(event_type::SIGNAL, true).unwrap();
    slots.store(a, u64::from(a));
    events.interrupt(a);
    assert_eq!(slots.load(a), UNSIGNALLED);
    assert_eq!(events.wait(&one(a), false, POLL), Ok(complete(0)));
    assert_eq!(events.wait(&one(b), false, POLL), Ok(Waited::Timeout));
    // An id that no event has: the slots say who is meant.
    slots.store(b, u64::from(b));
    events.interrupt(0);
    assert_eq!(slots.load(b), UNSIGNALLED);
    assert_eq!(events.wait(&one(b), false, POLL), Ok(complete(0)));
    assert_eq!(events.wait(&one(a), false, POLL), Ok(Waited::Timeout));
}

#[test]
fn faults_reach_the_events_of_their_type_with_their_data() {
    let events = Events::default();
    let fault = MemoryException {
        not_present: 1,
        va: 0xdead_0000,
        gpu_id: 5,
        ..MemoryException::default()
    };
    assert!(!events.memory_fault(fault));
    let memory = events.create(event_type::MEMORY, false).unwrap();
    let hardware = events.create(event_type::HW_EXCEPTION, false).unwrap();
    let wanted = [one(memory)[0], one(hardware)[0]];
    assert!(events.memory_fault(fault));
    assert_eq!(
        events.wait(&wanted, false, POLL),
        Ok(Waited::Complete(vec![(0, News::Memory(fault))]))
    );
    let fault = HwException {
        reset_cause: 1,
        gpu_id: 5,
        ..HwException::default()
    };
    assert!(events.hardware_fault(fault));
    assert!(matches!(
        events.wait(&wanted, true, POLL),
        Ok(Waited::Complete(news)) if news[1] == (1, News::Hardware(fault))
    ));
}
