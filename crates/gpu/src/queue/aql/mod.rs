//! The packet processor of HSA queues: fetches AQL packets in order, and stops the queue when one is wrong.
//! `packet` reads packets, `kernel` makes dispatches of them, `scratch` asks the runtime for scratch.

mod kernel;
mod packet;
mod scratch;

use std::sync::atomic::{AtomicBool, Ordering};

use packet::{Body, Condition, Packet};
use scratch::Handshake;

use super::bus::Bus;
use super::pm4::{Interpreter, Progress};
use super::{Cx, Engine, NO_DOORBELL, Platform, QueueFault, Step, Trouble, error, signal};
use crate::dispatch::Device;

/// Bytes of a packet.
const PACKET: u64 = 64;
/// Packets that one step processes at most.
const BATCH: usize = 64;
/// A header of type INVALID.
const INVALID: u16 = 1;

/// Offsets in `amd_queue_t` (`amd_hsa_queue.h`).
mod field {
    pub const CAPS: u64 = 40;
    pub const READ_DISPATCH_ID: u64 = 128;
    pub const READ_DISPATCH_ID_OFFSET: u64 = 136;
    pub const TMPRING_SIZE: u64 = 140;
    pub const SCRATCH_BASE: u64 = 160;
    pub const SCRATCH_SIZE: u64 = 168;
    pub const SCRATCH_LANE_BYTES: u64 = 176;
    pub const PROPERTIES: u64 = 180;
    pub const SCRATCH_MAX_USE_INDEX: u64 = 184;
    pub const INACTIVE_SIGNAL: u64 = 192;
    pub const ALT_MAX_USE_INDEX: u64 = 200;
    pub const ALT_SCRATCH_BASE: u64 = 224;
    pub const ALT_DISPATCH_LIMIT: [u64; 3] = [232, 236, 240];
    pub const ALT_LANE_BYTES: u64 = 244;
    pub const ALT_TMPRING_SIZE: u64 = 248;
    /// For each XCC the last dispatch that used the main and the alternate scratch, 8 bytes each.
    pub const SCRATCH_LAST_USED_INDEX: u64 = 256;
}

/// `queue_properties`: timestamps are wanted.
const PROFILING: u32 = 1 << 3;
/// `queue_properties`: the scratch is lent for one dispatch.
const USE_SCRATCH_ONCE: u32 = 1 << 4;

/// An HSA queue, as the driver is told when it is created.
#[derive(Clone, Copy, Debug)]
pub struct AqlParams {
    /// Address of the ring of packets.
    pub ring: u64,
    /// Bytes of the ring, a power of two of at least 64.
    pub ring_bytes: u64,
    /// Address of the read index, `read_dispatch_id` in the `amd_queue_t`.
    pub read_index: u64,
    /// Address of the write index, `write_dispatch_id`.
    pub write_index: u64,
    /// Number of the doorbell, as waves are told it.
    pub doorbell: u32,
    /// Threads that a dispatch may use.
    pub threads: usize,
}

/// The processor of one HSA queue.
pub struct Aql {
    params: AqlParams,
    /// Address of the `amd_queue_t`; found when the queue first has work.
    queue: Option<u64>,
    /// Index of the next packet.
    next: u64,
    /// The highest doorbell so far.
    rung: Option<u64>,
    /// Scratch that was asked for or has to be returned.
    scratch: Handshake,
    /// PM4 packets that vendor packets lead to; state stays from one to the next.
    pm4: Interpreter,
    /// The vendor packet at `next` has begun.
    in_pm4: bool,
    /// Why the queue has stopped.
    dead: Option<QueueFault>,
}

/// What became of the packet at the read index.
enum Next {
    /// It is not there yet.
    Idle,
    /// It is done.
    Done,
    /// It waits.
    Waiting,
}

impl Aql {
    /// A processor of a queue on which nothing has happened.
    pub fn new(params: AqlParams) -> Aql {
        Aql {
            params,
            queue: None,
            next: 0,
            rung: None,
            scratch: Handshake::default(),
            pm4: Interpreter::new(None),
            in_pm4: false,
            dead: None,
        }
    }

    /// Goes on in another ring: the driver has moved the queue. Indices and doorbell stay.
    pub fn move_ring(&mut self, ring: u64, bytes: u64) {
        self.params.ring = ring;
        self.params.ring_bytes = bytes;
    }

    /// Processes packets: those with a valid header up to the highest `doorbell` (index of a published
    /// packet; [`NO_DOORBELL`] if nobody rang). Returns when there are no more, one has to wait, or `stop` is set.
    pub fn step(
        &mut self,
        device: &Device,
        doorbell: u64,
        platform: &dyn Platform,
        stop: &AtomicBool,
    ) -> Step {
        if let Some(fault) = &self.dead {
            return Step::Fault(fault.clone());
        }
        if doorbell != NO_DOORBELL {
            self.rung = self.rung.max(Some(doorbell));
        }
        if self.rung.is_none() {
            return Step::Idle;
        }
        let mut cx = Cx::new(device, platform, stop, self.params.threads);
        let mut worked = false;
        for _ in 0..BATCH {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            match self.next(&mut cx) {
                Ok(Next::Done) => worked = true,
                Ok(Next::Idle) | Err(Trouble::Stopped) => break,
                Ok(Next::Waiting) if worked => break,
                Ok(Next::Waiting) => return Step::Waiting,
                Err(Trouble::Fault(fault)) => return self.die(&mut cx, fault),
            }
        }
        if worked { Step::Worked } else { Step::Idle }
    }

    /// The address of the `amd_queue_t`; takes over the read index when first called.
    fn queue(&mut self, bus: &mut Bus<'_>) -> Result<u64, Trouble> {
        if let Some(queue) = self.queue {
            return Ok(queue);
        }
        self.next = bus.load64(self.params.read_index)?;
        let offset_at = field::READ_DISPATCH_ID_OFFSET - field::READ_DISPATCH_ID;
        let offset = match bus.load32(self.params.read_index.wrapping_add(offset_at))? {
            0 => field::READ_DISPATCH_ID,
            given => u64::from(given),
        };
        let queue = self.params.read_index.wrapping_sub(offset);
        self.queue = Some(queue);
        Ok(queue)
    }

    /// Whether the packet at the read index has been published.
    fn published(&self, bus: &mut Bus<'_>, kind: u8) -> Result<bool, Trouble> {
        match self.rung {
            Some(rung) if self.next <= rung => return Ok(true),
            None => return Ok(false),
            _ => {}
        }
        // Of several doorbells rung in a short time only the last is seen, and it need not be the highest. The
        // write index tells of the others; it is not trusted where the ring still holds zeros (type 0).
        Ok(kind > 1 && self.next < bus.load64(self.params.write_index)?)
    }

    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Next, Trouble> {
        let queue = self.queue(&mut cx.bus)?;
        if !self.scratch.settled(cx, queue)? {
            return Ok(Next::Waiting);
        }
        let slots = (self.params.ring_bytes / PACKET).max(1);
        let at = self.params.ring.wrapping_add(self.next % slots * PACKET);
        // The header is stored last by whoever publishes a packet.
        let header = cx.bus.load32(at)? as u16;
        let kind = header as u8;
        if kind == INVALID as u8 || !self.published(&mut cx.bus, kind)? {
            return Ok(Next::Idle);
        }
        let packet = Packet::decode(&cx.bus.array(at)?).map_err(|(code, what)| {
            Trouble::packet(code, format!("AQL packet {}: {what}", self.next))
        })?;
        if !self.in_pm4 {
            cx.platform.packet(Engine::Aql, packet.body.name());
        }
        let start = cx.platform.clock();
        let mut returns_scratch = false;
        match &packet.body {
            Body::Dispatch(dispatch) => {
                let place = kernel::Place {
                    queue,
                    packet: at,
                    id: self.next,
                    doorbell: self.params.doorbell,
                };
                let Some(dispatch) = kernel::prepare(cx, dispatch, &place, &mut self.scratch)?
                else {
                    return Ok(Next::Waiting);
                };
                super::run::run(cx, &dispatch)?;
                let properties = cx.bus.load32(queue.wrapping_add(field::PROPERTIES))?;
                returns_scratch =
                    dispatch.private_segment > 0 && properties & USE_SCRATCH_ONCE != 0;
            }
            Body::BarrierAnd(signals) => {
                for &signal in signals {
                    if signal != 0 && signal::value(&mut cx.bus, signal)? != 0 {
                        return Ok(Next::Waiting);
                    }
                }
            }
            Body::BarrierOr(signals) => {
                let mut met = signals.iter().all(|&signal| signal == 0);
                for &signal in signals {
                    met |= signal != 0 && signal::value(&mut cx.bus, signal)? == 0;
                }
                if !met {
                    return Ok(Next::Waiting);
                }
            }
            Body::BarrierValue(condition) => {
                if !holds(cx, condition)? {
                    return Ok(Next::Waiting);
                }
            }
            Body::Pm4 { address, dwords } => {
                if !self.in_pm4 {
                    self.in_pm4 = true;
                    self.pm4.enter(*address, *dwords);
                }
                match self.pm4.run(cx).map_err(in_vendor_packet)? {
                    Progress::Done => self.in_pm4 = false,
                    Progress::Waiting => return Ok(Next::Waiting),
                }
            }
        }
        self.complete(cx, queue, at, packet.completion, start)?;
        if returns_scratch {
            self.scratch.give_back(cx, queue)?;
        }
        Ok(Next::Done)
    }

    fn complete(
        &mut self,
        cx: &mut Cx<'_>,
        queue: u64,
        at: u64,
        completion: u64,
        start: u64,
    ) -> Result<(), Trouble> {
        let profiled = cx.bus.load32(queue.wrapping_add(field::PROPERTIES))? & PROFILING != 0;
        let times = profiled.then(|| [start, cx.platform.clock()]);
        // The slot is free before anybody who waits for the packet can look.
        cx.bus.store16(at, INVALID)?;
        self.next += 1;
        cx.bus.store64(self.params.read_index, self.next)?;
        signal::complete(cx, completion, times)?;
        Ok(())
    }

    /// Stops the queue for good and tells the runtime.
    fn die(&mut self, cx: &mut Cx<'_>, fault: QueueFault) -> Step {
        match (&fault.memory, self.queue) {
            (Some(memory), _) => cx.platform.memory_fault(memory),
            (None, Some(queue)) => {
                // If the queue's own structure is gone there is nobody to tell.
                let signal = cx.bus.load64(queue.wrapping_add(field::INACTIVE_SIGNAL));
                if let Ok(signal) = signal
                    && signal != 0
                {
                    let _ = signal::store(&mut cx.bus, cx.platform, signal, fault.code);
                }
            }
            (None, None) => {}
        }
        self.dead = Some(fault.clone());
        Step::Fault(fault)
    }
}

/// What is wrong in a vendor packet's commands is wrong with the vendor packet.
fn in_vendor_packet(trouble: Trouble) -> Trouble {
    match trouble {
        Trouble::Fault(fault) if fault.code == error::PACKET_FORMAT => {
            Trouble::packet(error::VENDOR_PACKET, fault.text)
        }
        other => other,
    }
}

fn holds(cx: &mut Cx<'_>, condition: &Condition) -> Result<bool, Trouble> {
    if condition.signal == 0 {
        return Ok(true);
    }
    let value = signal::value(&mut cx.bus, condition.signal)? & condition.mask;
    Ok(match condition.compare {
        0 => value == condition.value,
        1 => value != condition.value,
        2 => value < condition.value,
        _ => value >= condition.value,
    })
}
