//! Barriers of a workgroup: who signals, who waits, when a phase is complete.

use crate::wave::{Group, Waiting, Wave};

/// Whether a wave that waits for a barrier can go on.
pub fn ready(wave: &Wave, group: &Group) -> bool {
    match wave.waiting {
        Waiting::Barrier(slot) => {
            let slot = usize::from(slot) % group.barriers.len();
            group.barriers[slot].phase != wave.barrier_phase[slot]
        }
        Waiting::Ended => false,
        Waiting::No | Waiting::Turn => true,
    }
}

/// A wave has ended: barriers no longer count on it.
pub fn wave_ended(group: &mut Group) {
    let live = group.live;
    let barrier = &mut group.barriers[0];
    barrier.members = live;
    if live > 0 && barrier.signalled >= live {
        barrier.signalled = 0;
        barrier.phase = barrier.phase.wrapping_add(1);
    }
}
