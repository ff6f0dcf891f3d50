//! A round: each wave of a workgroup that can run has its turn, on one thread.

use std::time::{Duration, Instant};

use rocjitsu_exec::barrier;
use rocjitsu_exec::wave::Waiting;

use super::launch::Resident;
use super::slice::{Hands, Slice};
use super::spread::PROBE;
use super::suspend::{At, Position};
use super::worker::{ALONE, QUANTUM};
use super::{DispatchError, team};

/// A turn of a dispatch's last workgroup behind which it may be worth it to give others away: some times what that takes.
const TAKES_LONG: Duration = Duration::from_micros(4);

/// What one round through the waves of a workgroup did.
#[derive(Default)]
pub struct Round {
    /// A wave came to an end or to a barrier.
    pub advanced: bool,
    /// A wave can go on later.
    pub spins: bool,
    /// One of these used up its turn.
    pub busy: bool,
    /// A wave waits for global wave sync.
    pub queued: bool,
    /// Turns that waves had.
    pub turns: u32,
    /// The last of these lasted long and was broken off.
    pub long: bool,
}

/// How a round is to go.
#[derive(Clone, Copy, Debug)]
pub enum Manner {
    /// Through all waves.
    Plain,
    /// It stops behind a turn of [`TAKES_LONG`] when a thread has nothing to do, which might take some of the others.
    Watchful,
    /// It stops early at a turn that lasts long. The worker started then.
    Measured(Instant),
}

/// Gives each wave of a workgroup that can run its turn.
///
/// # Errors
/// A wave that was stopped.
pub fn round(
    hands: &mut Hands<'_, '_>,
    resident: &mut Resident,
    manner: Manner,
) -> Result<Round, DispatchError> {
    let shared = hands.shared;
    let mut done = Round::default();
    let Resident {
        group,
        waves,
        was_shared,
        spinning,
        position,
        ..
    } = resident;
    let count = waves.len();
    let from = position.take().unwrap_or_else(|| Position {
        // Where the waves always ran one after the other, the first one that is ready is the one whose turn it is.
        first: match *was_shared {
            true => team::first_turn(waves) as u32,
            false => 0,
        },
        place: 0,
        left: QUANTUM,
    });
    // Those before it may have.
    done.advanced = from.place > 0;
    let mut left = from.left;
    for place in from.place..count as u32 {
        let quantum = std::mem::replace(&mut left, QUANTUM);
        let mut at = (from.first + place) as usize;
        if at >= count {
            at -= count;
        }
        if *was_shared && team::is_ahead(waves, at, group) {
            continue;
        }
        let Some(wave) = waves.get_mut(at) else { break };
        match wave.waiting {
            Waiting::Ended => continue,
            Waiting::Barrier(_) if !barrier::ready(wave, group) => continue,
            Waiting::Gws(wait) if !hands.unit.gws.ready(wait) => {
                done.queued = true;
                continue;
            }
            _ => {}
        }
        let watched = matches!(manner, Manner::Watchful).then(Instant::now);
        let slice = match manner {
            Manner::Plain | Manner::Watchful => {
                let bit = 1 << (at % 64);
                let mut spun = *spinning & bit != 0;
                let slice = hands.turn(group, wave, quantum, &mut spun);
                *spinning = *spinning & !bit | if spun { bit } else { 0 };
                slice
            }
            Manner::Measured(started) => {
                let mut left = quantum;
                loop {
                    let slice = hands.slice(group, wave, PROBE);
                    left = left.saturating_sub(PROBE);
                    if !matches!(slice, Ok(Slice::Turn { busy: true })) || left == 0 {
                        break slice;
                    }
                    if started.elapsed() > ALONE {
                        done.long = true;
                        break slice;
                    }
                }
            }
        };
        done.turns += 1;
        match slice {
            Ok(Slice::Ended) => {
                hands.runner.wave_ends(group, wave)?;
                group.live -= 1;
                done.advanced = true;
            }
            Ok(Slice::Waits) => done.advanced = true,
            // It goes on at once.
            Ok(Slice::Turn { .. }) if done.long => done.advanced = true,
            Ok(Slice::Turn { busy }) => {
                done.spins = true;
                done.busy |= busy;
            }
            Ok(Slice::Hit { left }) => {
                *position = Some(Position {
                    place,
                    left,
                    ..from
                });
                done.spins = true;
                break;
            }
            Err(fault) => {
                shared.halt.fails(At::of(group, wave));
                *position = Some(Position {
                    place,
                    left: quantum,
                    ..from
                });
                return Err(shared.failure_of(fault, group.id, wave));
            }
        }
        if done.long {
            break;
        }
        let gives_away = || {
            let took_long = watched.is_some_and(|start| start.elapsed() > TAKES_LONG);
            took_long && shared.has_idle_threads()
        };
        if shared.abandons(group.linear) || gives_away() {
            *position = (place + 1 < count as u32).then_some(Position {
                place: place + 1,
                left: QUANTUM,
                ..from
            });
            break;
        }
    }
    Ok(done)
}
