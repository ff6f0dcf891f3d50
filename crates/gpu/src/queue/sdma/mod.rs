//! DMA queues: copies, fills, fences. `packets` has what each packet does, `rect` the copy of a rectangle.

mod packets;
mod rect;

use std::sync::atomic::{AtomicBool, Ordering};

use super::ring::{self, Ring};
use super::{Cx, Platform, QueueFault, Step, Trouble, error};
use crate::dispatch::Device;

/// Packets that one step processes at most.
const BATCH: usize = 1024;

/// A DMA queue, as the driver is told when it is created.
#[derive(Clone, Copy, Debug)]
pub struct SdmaParams {
    /// Address of the ring.
    pub ring: u64,
    /// Bytes of the ring.
    pub ring_bytes: u64,
    /// Address of the read pointer: 64 bits, in bytes, only growing.
    pub read_pointer: u64,
}

/// The processor of one DMA queue.
pub struct Sdma {
    params: SdmaParams,
    ring: Ring,
    /// What is left of the indirect buffer that runs, in words, and where.
    indirect: Option<Indirect>,
    words: Vec<u32>,
    /// How often the packet at the read pointer was tried again.
    tries: u32,
    dead: Option<QueueFault>,
}

/// An indirect buffer that runs.
#[derive(Clone, Copy, Debug)]
struct Indirect {
    address: u64,
    left: u32,
    /// Words of the packet in the ring that started it.
    length: u64,
}

/// What follows a packet.
enum Effect {
    /// The next one.
    Next,
    /// The same one again, later.
    Wait,
    /// The same one again, so many times at most.
    Retry(u32),
    /// An indirect buffer of `left` words, then the next one.
    Enter { address: u64, left: u32 },
}

impl Sdma {
    /// A processor of a queue on which nothing has happened.
    pub fn new(params: SdmaParams) -> Sdma {
        Sdma {
            ring: Ring::new(params.ring, params.ring_bytes),
            params,
            indirect: None,
            words: Vec::new(),
            tries: 0,
            dead: None,
        }
    }

    /// Goes on in another ring: the driver has moved the queue. Pointers and doorbell stay.
    pub fn move_ring(&mut self, ring: u64, bytes: u64) {
        self.ring.move_to(ring, bytes);
    }

    /// Processes packets up to `doorbell` (bytes written since the queue exists). Returns when there are no
    /// more, one has to wait, or `stop` is set.
    pub fn step(
        &mut self,
        device: &Device,
        doorbell: u64,
        platform: &dyn Platform,
        stop: &AtomicBool,
    ) -> Step {
        let mut dead = self.dead.take();
        let step =
            Cx::new(device, platform, stop, 1).step(&mut dead, |cx| self.process(cx, doorbell));
        self.dead = dead;
        step
    }

    fn process(&mut self, cx: &mut Cx<'_>, doorbell: u64) -> Result<Step, Trouble> {
        let read_pointer = self.params.read_pointer;
        let first = || Ok(cx.bus.load64(read_pointer)? / 4);
        let doorbell = ring::doorbell(doorbell).map(|bytes| bytes / 4);
        if !self.ring.rung(doorbell, first)? {
            return Ok(Step::Idle);
        }
        let mut worked = false;
        for _ in 0..BATCH {
            if cx.stop.load(Ordering::Relaxed) {
                break;
            }
            match self.next(cx)? {
                Progress::Nothing => break,
                Progress::Packet => {
                    worked = true;
                    self.tries = 0;
                }
                Progress::Waiting if worked => break,
                Progress::Waiting => return Ok(Step::Waiting),
            }
        }
        Ok(if worked { Step::Worked } else { Step::Idle })
    }

    /// Processes one packet.
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Progress, Trouble> {
        let mut words = std::mem::take(&mut self.words);
        let done = match self.indirect {
            Some(buffer) => self.next_indirect(cx, buffer, &mut words),
            None => self.next_in_ring(cx, &mut words),
        };
        self.words = words;
        done
    }

    fn next_in_ring(&mut self, cx: &mut Cx<'_>, words: &mut Vec<u32>) -> Result<Progress, Trouble> {
        let left = self.ring.left();
        words.resize(left.min(packets::HEAD as u64) as usize, 0);
        if words.is_empty() {
            return Ok(Progress::Nothing);
        }
        self.ring.peek(&mut cx.bus, words)?;
        let length = packets::length(words, cx.device.target().generation())?;
        if length.is_none_or(|length| u64::from(length) > left) {
            // The rest has not been published.
            return Ok(Progress::Nothing);
        }
        let length = length.unwrap_or(1);
        words.resize(length as usize, 0);
        self.ring.peek(&mut cx.bus, words)?;
        let length = u64::from(length);
        match packets::execute(cx, words)? {
            Effect::Wait => return Ok(Progress::Waiting),
            Effect::Retry(most) => return self.again(most, words),
            Effect::Next => self.advance(cx, length)?,
            Effect::Enter { address, left } => {
                self.indirect = Some(Indirect {
                    address,
                    left,
                    length,
                });
                self.leave(cx)?;
            }
        }
        Ok(Progress::Packet)
    }

    fn next_indirect(
        &mut self,
        cx: &mut Cx<'_>,
        mut buffer: Indirect,
        words: &mut Vec<u32>,
    ) -> Result<Progress, Trouble> {
        words.resize(buffer.left.min(packets::HEAD) as usize, 0);
        ring::words(&mut cx.bus, buffer.address, words)?;
        let length = packets::length(words, cx.device.target().generation())?
            .filter(|&length| length <= buffer.left);
        let Some(length) = length else {
            return Err(Trouble::packet(
                error::PACKET_FORMAT,
                format!(
                    "the SDMA packet {:#010x} at {:#x} is longer than the {} words left of its indirect buffer",
                    words.first().copied().unwrap_or(0),
                    buffer.address,
                    buffer.left
                ),
            ));
        };
        words.resize(length as usize, 0);
        ring::words(&mut cx.bus, buffer.address, words)?;
        match packets::execute(cx, words)? {
            Effect::Wait => return Ok(Progress::Waiting),
            Effect::Retry(most) => return self.again(most, words),
            Effect::Next => {}
            Effect::Enter { .. } => {
                return Err(Trouble::packet(
                    error::PACKET_FORMAT,
                    format!(
                        "an SDMA indirect buffer inside of another, at {:#x}",
                        buffer.address
                    ),
                ));
            }
        }
        buffer.address = buffer.address.wrapping_add(4 * u64::from(length));
        buffer.left -= length;
        self.indirect = Some(buffer);
        self.leave(cx)?;
        Ok(Progress::Packet)
    }

    /// Lets the packet wait, unless it has done so often enough: the engine gives up then.
    fn again(&mut self, most: u32, words: &[u32]) -> Result<Progress, Trouble> {
        if self.tries < most {
            self.tries += 1;
            return Ok(Progress::Waiting);
        }
        Err(Trouble::packet(
            error::PACKET_FORMAT,
            format!("an SDMA POLL_REGMEM gives up after {most} retries; its words are {words:#x?}"),
        ))
    }

    /// Goes back to the ring if the indirect buffer is done.
    fn leave(&mut self, cx: &mut Cx<'_>) -> Result<(), Trouble> {
        if let Some(buffer) = self.indirect
            && buffer.left == 0
        {
            self.indirect = None;
            self.advance(cx, buffer.length)?;
        }
        Ok(())
    }

    fn advance(&mut self, cx: &mut Cx<'_>, words: u64) -> Result<(), Trouble> {
        self.ring.read += words;
        cx.bus
            .store64(self.params.read_pointer, 4 * self.ring.read)?;
        Ok(())
    }
}

/// How far one attempt came.
enum Progress {
    /// Nothing is there.
    Nothing,
    /// A packet was processed.
    Packet,
    /// A packet waits.
    Waiting,
}
