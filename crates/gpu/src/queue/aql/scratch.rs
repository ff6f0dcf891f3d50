//! Scratch by request: the queue stops at a dispatch that needs more than it has, and asks the runtime for it
//! through `queue_inactive_signal`; the runtime finds the packet by the read index and changes the queue's fields.
//! Newer runtimes take scratch back while the queue goes on: dispatches beyond an index may not use it any more, and
//! the processor notes which dispatch used it last. They may also lend a second, alternate one for small dispatches.
//! Source: the protocol that ROCr's `AqlQueue` describes (`amd_aql_queue.cpp`), fields of `amd_queue_v2_t`.

use super::kernel::Place;
use super::{Cx, Trouble, USE_SCRATCH_ONCE, error, field, signal};
use crate::dispatch::ScratchMemory;
use crate::queue::bus::Bus;
use crate::queue::run::scratch_ring;

/// Bits of `amd_queue_t`'s capabilities: the processor (bit 0) and the runtime (bit 1) know the fields by which scratch is
/// taken back. What an older runtime has at their place is its own: it never sets its bit.
const ASYNC_RECLAIM: u32 = 3;

/// What the queue waits for.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum Handshake {
    /// Nothing.
    #[default]
    Settled,
    /// The signal to be 0, for more scratch has been asked for.
    Asked,
    /// The bit of returned scratch to be clear.
    Returned,
}

/// Notes for every XCC that a dispatch uses the main (`offset` 0) or the alternate (8) scratch.
fn note_use(cx: &mut Cx<'_>, place: &Place, offset: u64) -> Result<(), Trouble> {
    for xcc in 0..u64::from(cx.device.limits().xccs) {
        let at = field::SCRATCH_LAST_USED_INDEX + 16 * xcc + offset;
        cx.bus.store64(place.queue.wrapping_add(at), place.id)?;
    }
    Ok(())
}

fn inactive_signal(bus: &mut Bus<'_>, queue: u64) -> Result<u64, Trouble> {
    Ok(bus.load64(queue.wrapping_add(field::INACTIVE_SIGNAL))?)
}

impl Handshake {
    /// Whether the queue may go on.
    pub fn settled(&mut self, cx: &mut Cx<'_>, queue: u64) -> Result<bool, Trouble> {
        if *self != Handshake::Settled {
            let signal = inactive_signal(&mut cx.bus, queue)?;
            let value = signal::value(&mut cx.bus, signal)? as u64;
            let open = match self {
                Handshake::Asked => value != 0,
                // The runtime clears the signal first and the property last.
                _ => {
                    let properties = cx.bus.load32(queue.wrapping_add(field::PROPERTIES))?;
                    value & error::SCRATCH_RETURNED != 0 || properties & USE_SCRATCH_ONCE != 0
                }
            };
            if open {
                return Ok(false);
            }
            *self = Handshake::Settled;
        }
        Ok(true)
    }

    /// The queue's scratch for waves of `lanes` lanes that use `bytes` bytes each. If it is too little, more
    /// is asked for and the answer is `None`.
    pub fn memory(
        &mut self,
        cx: &mut Cx<'_>,
        place: &Place,
        grid: [u32; 3],
        lanes: u32,
        bytes: u32,
    ) -> Result<Option<ScratchMemory>, Trouble> {
        let queue = place.queue;
        let at = |field: u64| queue.wrapping_add(field);
        // The field counts for 64 lanes; 32 lanes have twice as much each.
        let fits =
            |lane_bytes: u32| u64::from(bytes) <= u64::from(lane_bytes) * (64 / u64::from(lanes));
        let lane_bytes = cx.bus.load32(at(field::SCRATCH_LANE_BYTES))?;
        let ring = cx.bus.load32(at(field::TMPRING_SIZE))?;
        let (wave_bytes, waves) = scratch_ring(cx.device.target(), ring);
        let mut memory = ScratchMemory {
            base: cx.bus.load64(at(field::SCRATCH_BASE))?,
            bytes: cx.bus.load64(at(field::SCRATCH_SIZE))?,
        };
        // The processor itself only knows the ring; the field is the runtime's, and not every one sets it.
        if memory.bytes == 0 {
            memory.bytes = u64::from(waves) * u64::from(wave_bytes);
        }
        // A runtime that may take scratch back at any time says up to which packet it is lent, and reads which packet
        // was the last to use it, for each XCC.
        let reclaims = cx.bus.load32(at(field::CAPS))? & ASYNC_RECLAIM == ASYNC_RECLAIM;
        let lent = !reclaims || place.id <= cx.bus.load64(at(field::SCRATCH_MAX_USE_INDEX))?;
        if fits(lane_bytes) && memory.base != 0 && lent {
            if reclaims {
                note_use(cx, place, 0)?;
            }
            return Ok(Some(memory));
        }
        if reclaims && fits(cx.bus.load32(at(field::ALT_LANE_BYTES))?) {
            let mut lent = place.id <= cx.bus.load64(at(field::ALT_MAX_USE_INDEX))?;
            for (size, limit) in grid.into_iter().zip(field::ALT_DISPATCH_LIMIT) {
                lent &= size <= cx.bus.load32(at(limit))?;
            }
            let ring = cx.bus.load32(at(field::ALT_TMPRING_SIZE))?;
            let (wave_bytes, waves) = scratch_ring(cx.device.target(), ring);
            let alternate = ScratchMemory {
                base: cx.bus.load64(at(field::ALT_SCRATCH_BASE))?,
                bytes: u64::from(waves) * u64::from(wave_bytes),
            };
            if lent && alternate.base != 0 {
                note_use(cx, place, 8)?;
                return Ok(Some(alternate));
            }
        }
        let signal = inactive_signal(&mut cx.bus, queue)?;
        if signal == 0 {
            return Err(Trouble::packet(
                error::SCRATCH_WAVE64,
                format!(
                    "a dispatch needs {bytes} bytes of scratch for each work-item; the queue has {lane_bytes} for each of 64 lanes of {waves} waves at {:#x}, and no queue_inactive_signal to ask for more",
                    memory.base
                ),
            ));
        }
        let code = match lanes {
            64 => error::SCRATCH_WAVE64,
            _ => error::SCRATCH_WAVE32,
        };
        *self = Handshake::Asked;
        signal::store(&mut cx.bus, cx.platform, signal, code)?;
        Ok(None)
    }

    /// Tells the runtime that scratch lent for one dispatch can be taken back.
    pub fn give_back(&mut self, cx: &mut Cx<'_>, queue: u64) -> Result<(), Trouble> {
        let signal = inactive_signal(&mut cx.bus, queue)?;
        if signal != 0 {
            *self = Handshake::Returned;
            signal::store(&mut cx.bus, cx.platform, signal, error::SCRATCH_RETURNED)?;
        }
        Ok(())
    }
}
