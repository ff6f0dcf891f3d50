//! Copies and fills of any size, piece by piece: a piece is what UNMAP and the end of the queue wait for. What is unmapped
//! between two pieces is a fault, as on the hardware, whose engines ask for the address of every page.

use std::sync::atomic::Ordering;

use super::{Cx, Trouble};
use crate::dispatch::Pause;

/// Bytes of a piece: some ten microseconds.
pub const PIECE: u64 = 512 * 1024;

impl Cx<'_> {
    /// Copies bytes. Both ranges are looked at first. Where they overlap the result is as if there was a buffer between
    /// them, within one mapping.
    pub fn copy(&mut self, to: u64, from: u64, bytes: u64) -> Result<(), Trouble> {
        if bytes <= PIECE {
            return Ok(self.bus.copy(to, from, bytes)?);
        }
        self.bus.check(from, bytes, false)?;
        self.bus.check(to, bytes, true)?;
        let pieces = bytes.div_ceil(PIECE);
        // A piece must not overwrite what is still to be read.
        let backwards = to > from && to - from < bytes;
        self.pieces(pieces, |cx, number| {
            let number = if backwards {
                pieces - 1 - number
            } else {
                number
            };
            let done = number * PIECE;
            let length = PIECE.min(bytes - done);
            Ok(cx
                .bus
                .copy(to.wrapping_add(done), from.wrapping_add(done), length)?)
        })
    }

    /// Fills memory with a word over and over, from its low byte on; the last one may be cut.
    pub fn fill(&mut self, to: u64, word: u32, bytes: u64) -> Result<(), Trouble> {
        if bytes <= PIECE {
            return Ok(self.bus.fill(to, word, bytes)?);
        }
        self.bus.check(to, bytes, true)?;
        self.pieces(bytes.div_ceil(PIECE), |cx, number| {
            let done = number * PIECE;
            let length = PIECE.min(bytes - done);
            // A piece is whole words.
            Ok(cx.bus.fill(to.wrapping_add(done), word, length)?)
        })
    }

    /// Does the pieces of a packet, and between them what the queue is asked for: to end, or to stand still for a while.
    pub fn pieces(
        &mut self,
        count: u64,
        mut one: impl FnMut(&mut Self, u64) -> Result<(), Trouble>,
    ) -> Result<(), Trouble> {
        let pause = self.platform.pause();
        let _working = pause.map(Pause::enter);
        for number in 0..count {
            if let Some(pause) = pause {
                pause.park(self.stop);
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(Trouble::Stopped);
            }
            one(self, number)?;
        }
        Ok(())
    }
}
