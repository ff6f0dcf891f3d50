//! PM4 compute queues. [`Pm4`] follows a ring, [`Interpreter`] executes packets and indirect buffers;
//! `packets` has what each packet does, `launch` makes dispatches of registers.

mod launch;
mod packets;
mod registers;

use std::sync::atomic::{AtomicBool, Ordering};

use registers::Registers;

use super::ring::{self, Ring};
use super::{Cx, Platform, QueueFault, Step, Trouble, error};
use crate::dispatch::Device;

/// Packets that one step processes at most.
const BATCH: usize = 4096;
/// Indirect buffers in indirect buffers; the hardware has two levels.
const DEPTH: usize = 4;

/// A PM4 queue, as the driver is told when it is created.
#[derive(Clone, Copy, Debug)]
pub struct Pm4Params {
    /// Address of the ring.
    pub ring: u64,
    /// Bytes of the ring.
    pub ring_bytes: u64,
    /// Address of the read pointer: 64 bits, in words, only growing.
    pub read_pointer: u64,
    /// The XCC that the queue runs on.
    pub xcc: u32,
    /// Threads that a dispatch may use.
    pub threads: usize,
}

/// The processor of one PM4 queue.
pub struct Pm4 {
    params: Pm4Params,
    ring: Ring,
    interpreter: Interpreter,
    /// Words of the ring that are done when the indirect buffer that they start is.
    pending: u64,
    words: Vec<u32>,
    dead: Option<QueueFault>,
}

impl Pm4 {
    /// A processor of a queue on which nothing has happened.
    pub fn new(params: Pm4Params) -> Pm4 {
        Pm4 {
            ring: Ring::new(params.ring, params.ring_bytes),
            interpreter: Interpreter::new(Some(params.xcc)),
            params,
            pending: 0,
            words: Vec::new(),
            dead: None,
        }
    }

    /// Goes on in another ring: the driver has moved the queue. Pointers and doorbell stay.
    pub fn move_ring(&mut self, ring: u64, bytes: u64) {
        self.ring.move_to(ring, bytes);
    }

    /// Processes packets up to `doorbell` (words written since the queue exists). Returns when there are no
    /// more, one has to wait, or `stop` is set.
    pub fn step(
        &mut self,
        device: &Device,
        doorbell: u64,
        platform: &dyn Platform,
        stop: &AtomicBool,
    ) -> Step {
        let mut dead = self.dead.take();
        let step = Cx::new(device, platform, stop, self.params.threads)
            .step(&mut dead, |cx| self.process(cx, doorbell));
        self.dead = dead;
        step
    }

    fn process(&mut self, cx: &mut Cx<'_>, doorbell: u64) -> Result<Step, Trouble> {
        let read_pointer = self.params.read_pointer;
        let first = || Ok(cx.bus.load64(read_pointer)?);
        if !self.ring.rung(ring::doorbell(doorbell), first)? {
            return Ok(Step::Idle);
        }
        let mut worked = false;
        for _ in 0..BATCH {
            if cx.stop.load(Ordering::Relaxed) {
                break;
            }
            let before = self.ring.read;
            match self.next(cx)? {
                Progress::Done if self.ring.read == before => break,
                Progress::Done => worked = true,
                Progress::Waiting if worked => break,
                Progress::Waiting => return Ok(Step::Waiting),
            }
        }
        Ok(if worked { Step::Worked } else { Step::Idle })
    }

    /// Processes the packet at the read pointer, or goes on with the indirect buffer that it started. Does
    /// nothing if the packet has not been published to its end.
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Progress, Trouble> {
        if self.pending == 0 {
            let mut header = [0];
            if self.ring.left() == 0 {
                return Ok(Progress::Done);
            }
            self.ring.peek(&mut cx.bus, &mut header)?;
            let length = packets::length(header[0])?;
            if u64::from(length) > self.ring.left() {
                return Ok(Progress::Done);
            }
            self.words.resize(length as usize, 0);
            self.ring.peek(&mut cx.bus, &mut self.words)?;
            match self.interpreter.packet(cx, &self.words)? {
                Effect::Wait => return Ok(Progress::Waiting),
                Effect::Next => self.pending = length.into(),
                Effect::Skip(words) => {
                    self.pending = (u64::from(length) + u64::from(words)).min(self.ring.left());
                }
                Effect::Enter(frame) | Effect::Chain(frame) => {
                    self.interpreter.enter(frame.address, frame.left);
                    self.pending = length.into();
                }
            }
        }
        if self.interpreter.run(cx)? == Progress::Waiting {
            return Ok(Progress::Waiting);
        }
        self.ring.read += self.pending;
        self.pending = 0;
        cx.bus.store64(self.params.read_pointer, self.ring.read)?;
        Ok(Progress::Done)
    }
}

/// How far an interpreter came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All buffers are done.
    Done,
    /// A packet waits, or the step has lasted long enough.
    Waiting,
}

/// A piece of an indirect buffer.
#[derive(Clone, Copy, Debug)]
struct Frame {
    address: u64,
    /// Words that are left.
    left: u32,
}

/// What follows a packet.
enum Effect {
    /// The next one.
    Next,
    /// The same one again, later.
    Wait,
    /// The next one behind so many words.
    Skip(u32),
    /// An indirect buffer, then the next one.
    Enter(Frame),
    /// An indirect buffer instead of the rest of this one.
    Chain(Frame),
}

/// Executes PM4 packets; holds the registers of a queue.
pub struct Interpreter {
    registers: Registers,
    frames: Vec<Frame>,
    words: Vec<u32>,
    /// The XCC that the queue runs on; `None`: all of them, and the packets are executed by the first.
    xcc: Option<u32>,
}

impl Interpreter {
    /// An interpreter with all registers 0.
    pub fn new(xcc: Option<u32>) -> Interpreter {
        Interpreter {
            registers: Registers::default(),
            frames: Vec::new(),
            words: Vec::new(),
            xcc,
        }
    }

    /// Begins an indirect buffer of `words` words.
    pub fn enter(&mut self, address: u64, words: u32) {
        self.frames.push(Frame {
            address,
            left: words,
        });
    }

    /// Executes indirect buffers until none is left, a packet waits, or the step has lasted long enough.
    pub fn run(&mut self, cx: &mut Cx<'_>) -> Result<Progress, Trouble> {
        for _ in 0..BATCH {
            while self.frames.last().is_some_and(|frame| frame.left == 0) {
                self.frames.pop();
            }
            let Some(&frame) = self.frames.last() else {
                return Ok(Progress::Done);
            };
            if cx.stop.load(Ordering::Relaxed) {
                return Err(Trouble::Stopped);
            }
            let mut words = std::mem::take(&mut self.words);
            let effect = self.fetch(cx, frame, &mut words);
            let length = words.len() as u32;
            self.words = words;
            let effect = effect?;
            if let Some(top) = self.frames.last_mut()
                && !matches!(effect, Effect::Wait)
            {
                top.address = top.address.wrapping_add(4 * u64::from(length));
                top.left -= length;
            }
            match effect {
                Effect::Next => {}
                Effect::Wait => return Ok(Progress::Waiting),
                Effect::Skip(words) => {
                    if let Some(top) = self.frames.last_mut() {
                        let words = words.min(top.left);
                        top.address = top.address.wrapping_add(4 * u64::from(words));
                        top.left -= words;
                    }
                }
                Effect::Enter(frame) if self.frames.len() < DEPTH => self.frames.push(frame),
                Effect::Enter(frame) => {
                    return Err(Trouble::packet(
                        error::PACKET_FORMAT,
                        format!(
                            "an indirect buffer at {:#x} inside of {DEPTH} others",
                            frame.address
                        ),
                    ));
                }
                Effect::Chain(frame) => {
                    if let Some(top) = self.frames.last_mut() {
                        *top = frame;
                    }
                }
            }
        }
        Ok(Progress::Waiting)
    }

    /// Reads and executes the first packet of a frame; leaves its words in `words`.
    fn fetch(
        &mut self,
        cx: &mut Cx<'_>,
        frame: Frame,
        words: &mut Vec<u32>,
    ) -> Result<Effect, Trouble> {
        words.resize(1, 0);
        ring::words(&mut cx.bus, frame.address, words)?;
        let length = packets::length(words[0])?;
        if length > frame.left {
            return Err(Trouble::packet(
                error::PACKET_FORMAT,
                format!(
                    "the PM4 packet {:#010x} at {:#x} takes {length} words, its buffer has {} left",
                    words[0], frame.address, frame.left
                ),
            ));
        }
        words.resize(length as usize, 0);
        ring::words(&mut cx.bus, frame.address, words)?;
        self.packet(cx, words)
    }
}
