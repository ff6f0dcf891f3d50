//! Barriers: who has signalled, when a phase is complete, who may go on.
//!
//! Rules: CDNA5 manual section 5.6 (RDNA4 5.6). Each wave has, for each barrier, one bit "complete since I
//! last waited"; here it is set when the barrier's phase differs from the wave's. A barrier is complete when
//! as many waves have signalled (or, for the workgroup's own barrier, ended) as it has members.
//!
//! The waves of a workgroup may run on several threads: all state is in atomic words ([`Cell`]), and nobody is woken.
//! A scheduler asks whether a wave is ready.

mod cell;
#[cfg(test)]
#[allow(clippy::duplicate_mod)] // It has the cell over loom's atomics.
mod model;

mod atomics {
    pub use std::sync::atomic::{AtomicU64, Ordering};
}

pub use cell::Cell;

use crate::wave::{Barrier, Group, Waiting, Wave};

/// Slot of the workgroup's own barrier in [`Group::barriers`]. Named barriers 1–16 have their number as slot.
pub const WORKGROUP: usize = 0;
/// The highest named barrier.
pub const NAMED_LIMIT: u32 = 16;
/// Slot of the cluster's barrier, whose members are workgroups (CDNA5 section 5.6.6). The workgroups of a cluster
/// take turns; the one whose turn it is has the barrier's state here, the scheduler keeps it in between.
pub const CLUSTER: usize = 17;

/// Whether the workgroup has more than one wave. If not, barrier instructions do nothing.
#[inline]
pub fn in_workgroup(group: &Group) -> bool {
    group.barriers[WORKGROUP].get().members > 1
}

/// A wave signals a barrier. Returns whether it is the first in this phase.
#[inline]
pub fn signal(group: &Group, slot: usize) -> bool {
    group.barriers[slot].update(group.shared, |barrier| {
        let first = barrier.signalled == 0;
        barrier.signalled += 1;
        complete(barrier);
        first
    })
}

/// A wave waits for a barrier. Returns whether it can go on at once; if not, [`Wave::waiting`] says so.
#[inline]
pub fn wait(wave: &mut Wave, group: &Group, slot: usize) -> bool {
    let phase = group.barriers[slot].phase();
    wave.past_barrier = u8::MAX;
    if wave.barrier_phase[slot] != phase {
        wave.barrier_phase[slot] = phase;
        return true;
    }
    // It will have consumed the next completion when it runs again.
    wave.barrier_phase[slot] = phase.wrapping_add(1);
    wave.waiting = Waiting::Barrier(slot as u8);
    false
}

/// Whether a wave that is not running can run: for the scheduler.
#[inline]
pub fn ready(wave: &Wave, group: &Group) -> bool {
    match wave.waiting {
        Waiting::No | Waiting::Turn | Waiting::Order => true,
        // The scheduler asks the device.
        Waiting::Gws(_) | Waiting::Ended => false,
        Waiting::Barrier(slot) => {
            let slot = usize::from(slot) % group.barriers.len();
            reached(group, slot, wave.barrier_phase[slot])
        }
    }
}

/// Whether a barrier has come to a phase.
#[inline]
pub fn reached(group: &Group, slot: usize, phase: u32) -> bool {
    group.barriers[slot].phase().wrapping_sub(phase) as i32 >= 0
}

/// Whether a barrier has completed since the wave last waited for it.
pub fn is_complete(wave: &Wave, group: &Group, slot: usize) -> bool {
    group.barriers[slot].phase() != wave.barrier_phase[slot]
}

/// A wave has ended: the workgroup's barrier no longer waits for it.
#[inline]
pub fn wave_ended(group: &Group) {
    group.barriers[WORKGROUP].update(group.shared, |barrier| {
        barrier.ended += 1;
        if barrier.signalled > 0 {
            complete(barrier);
        }
    });
}

/// A workgroup has ended: its cluster's barrier no longer waits for it.
pub fn workgroup_ended(cluster: &mut Barrier) {
    cluster.ended += 1;
    if cluster.signalled > 0 {
        complete(cluster);
    }
}

/// Sets the members of a named barrier, unless `members` is 0.
#[inline]
pub fn set_members(group: &Group, slot: usize, members: u32) {
    if members != 0 {
        group.barriers[slot].update(group.shared, |barrier| barrier.members = members);
    }
}

/// Forgets the signals of the present phase.
pub fn restart(group: &Group, slot: usize) {
    group.barriers[slot].update(group.shared, |barrier| barrier.signalled = 0);
}

/// A wave joins a named barrier: from now on it hears when that one completes.
pub fn join(wave: &mut Wave, group: &Group, slot: usize) {
    wave.named_barrier = slot as u8;
    wave.barrier_phase[slot] = group.barriers[slot].phase();
}

/// A wave leaves the named barrier it has joined, which then has one member less. Returns whether it was
/// the last one (false if it had joined none).
pub fn leave(wave: &mut Wave, group: &Group) -> bool {
    let slot = usize::from(std::mem::take(&mut wave.named_barrier));
    if slot == 0 {
        return false;
    }
    group.barriers[slot].update(group.shared, |barrier| {
        barrier.members = barrier.members.saturating_sub(1);
        if barrier.signalled > 0 {
            complete(barrier);
        }
        barrier.members == 0
    })
}

/// What `s_get_barrier_state` reads: valid, member count, signal count.
pub fn state(barrier: Barrier) -> u32 {
    let members = barrier.members.saturating_sub(barrier.ended);
    1 | (members & 0x7f) << 4 | (barrier.signalled & 0x7f) << 16
}

fn complete(barrier: &mut Barrier) {
    if barrier.signalled + barrier.ended >= barrier.members {
        barrier.signalled = 0;
        barrier.phase = barrier.phase.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(waves: u32) -> Group {
        let group = Group {
            live: waves,
            ..Group::default()
        };
        set_members(&group, WORKGROUP, waves);
        group
    }

    #[test]
    fn the_last_signal_releases_all() {
        let group = group(3);
        let mut waves = [Wave::new(32), Wave::new(32), Wave::new(32)];
        for round in 0..3 {
            for (i, wave) in waves.iter_mut().enumerate() {
                assert_eq!(signal(&group, WORKGROUP), i == 0, "round {round}");
                let passed = wait(wave, &group, WORKGROUP);
                assert_eq!(passed, i == 2, "round {round}: wave {i}");
            }
            for wave in &mut waves[..2] {
                assert!(ready(wave, &group));
                wave.waiting = Waiting::No;
            }
        }
    }

    #[test]
    fn a_signal_may_come_long_before_the_wait_and_counts_once() {
        let group = group(2);
        let (mut a, mut b) = (Wave::new(32), Wave::new(32));
        signal(&group, WORKGROUP);
        signal(&group, WORKGROUP);
        assert!(is_complete(&a, &group, WORKGROUP));
        assert!(wait(&mut a, &group, WORKGROUP));
        assert!(!is_complete(&a, &group, WORKGROUP));
        assert!(
            !wait(&mut a, &group, WORKGROUP),
            "the bit was cleared by the first wait"
        );
        assert!(!ready(&a, &group));
        assert!(wait(&mut b, &group, WORKGROUP));
    }

    #[test]
    fn waves_that_end_are_not_waited_for() {
        let group = group(3);
        let mut waves = [Wave::new(32), Wave::new(32)];
        signal(&group, WORKGROUP);
        assert!(!wait(&mut waves[0], &group, WORKGROUP));
        wave_ended(&group);
        assert!(!ready(&waves[0], &group));
        signal(&group, WORKGROUP);
        assert!(wait(&mut waves[1], &group, WORKGROUP) && ready(&waves[0], &group));
        // The end itself can be what completes the phase; and an end without a signal starts no phase.
        signal(&group, WORKGROUP);
        waves[0].waiting = Waiting::No;
        assert!(!wait(&mut waves[0], &group, WORKGROUP));
        let phase = group.barriers[WORKGROUP].phase();
        wave_ended(&group);
        assert!(ready(&waves[0], &group) && group.barriers[WORKGROUP].phase() == phase + 1);
        wave_ended(&group);
        assert_eq!(group.barriers[WORKGROUP].phase(), phase + 1);
    }

    #[test]
    fn named_barriers_have_their_own_members() {
        let group = group(4);
        let (mut a, mut b) = (Wave::new(32), Wave::new(32));
        set_members(&group, 5, 2);
        set_members(&group, 5, 0);
        join(&mut a, &group, 5);
        join(&mut b, &group, 5);
        assert_eq!(state(group.barriers[5].get()), 1 | 2 << 4);
        signal(&group, 5);
        assert_eq!(state(group.barriers[5].get()), 1 | 2 << 4 | 1 << 16);
        assert!(!wait(&mut a, &group, 5));
        // One leaves: the barrier is complete without its signal.
        assert!(!leave(&mut b, &group));
        assert!(ready(&a, &group));
        assert!(leave(&mut a, &group));
        assert!(!leave(&mut a, &group), "it has joined none");
    }
}
