//! A ring of words with pointers that only grow: what PM4 and SDMA queues are.

use super::bus::Bus;
use super::{NO_DOORBELL, Trouble, error};

/// A ring and how far it has been read and written, in words.
pub struct Ring {
    base: u64,
    words: u64,
    /// Words that have been processed.
    pub read: u64,
    /// Words that have been published.
    write: u64,
    started: bool,
}

impl Ring {
    /// An empty ring at `base`.
    pub fn new(base: u64, bytes: u64) -> Ring {
        Ring {
            base,
            words: (bytes / 4).max(1),
            read: 0,
            write: 0,
            started: false,
        }
    }

    /// Goes on in another ring, at the same place in the sequence of words.
    pub fn move_to(&mut self, base: u64, bytes: u64) {
        self.base = base;
        self.words = (bytes / 4).max(1);
    }

    /// Takes a doorbell, in words, or `None` if nobody rang; `first` tells where reading begins and is asked
    /// once. Whether there is something to read.
    pub fn rung(
        &mut self,
        doorbell: Option<u64>,
        first: impl FnOnce() -> Result<u64, Trouble>,
    ) -> Result<bool, Trouble> {
        let Some(write) = doorbell else {
            return Ok(self.write > self.read);
        };
        if !self.started {
            self.read = first()?;
            self.write = self.read;
            self.started = true;
        }
        self.write = self.write.max(write);
        if self.write - self.read > self.words {
            return Err(Trouble::packet(
                error::PACKET_FORMAT,
                format!(
                    "the doorbell says {:#x} words, the queue is at {:#x}: more than the {:#x} words of the ring",
                    self.write, self.read, self.words
                ),
            ));
        }
        Ok(self.write > self.read)
    }

    /// Words published and not yet processed.
    pub fn left(&self) -> u64 {
        self.write - self.read
    }

    /// Reads `to.len()` words from the next one on.
    pub fn peek(&self, bus: &mut Bus<'_>, to: &mut [u32]) -> Result<(), Trouble> {
        let start = self.read % self.words;
        let straight = ((self.words - start) as usize).min(to.len());
        let (first, rest) = to.split_at_mut(straight);
        words(bus, self.base.wrapping_add(4 * start), first)?;
        // More words than the ring has were refused by `rung`, so the rest is in front of the start.
        words(bus, self.base, rest)
    }
}

/// The doorbell's value as words of `bytes` bytes each, or `None` if nobody rang.
pub fn doorbell(value: u64) -> Option<u64> {
    (value != NO_DOORBELL).then_some(value)
}

/// Reads words.
pub fn words(bus: &mut Bus<'_>, address: u64, to: &mut [u32]) -> Result<(), Trouble> {
    let mut bytes = [0; 256];
    let mut at = address;
    for part in to.chunks_mut(64) {
        let bytes = &mut bytes[..4 * part.len()];
        bus.read(at, bytes)?;
        for (word, four) in part.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        }
        at = at.wrapping_add(bytes.len() as u64);
    }
    Ok(())
}

/// The 64-bit value in two words.
pub fn long(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// Whether `value function reference` holds: the comparisons of WAIT_REG_MEM and POLL_REGMEM. `None`: no such
/// function.
pub fn compare(function: u32, value: u32, reference: u32) -> Option<bool> {
    Some(match function {
        0 => true,
        1 => value < reference,
        2 => value <= reference,
        3 => value == reference,
        4 => value != reference,
        5 => value >= reference,
        6 => value > reference,
        _ => return None,
    })
}
