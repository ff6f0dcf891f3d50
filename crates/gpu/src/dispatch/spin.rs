//! Waves that only spin give up their turn.
//!
//! A wave that looks again and again at a flag uses up its whole quantum for nothing, since the one that would set the flag
//! does not run meanwhile: kernels that solve triangular systems have hundreds of waves which wait for each other in this way.
//! A wave that comes back to the same place with the same registers would do so for ever as long as memory stays as it is.

use rocjitsu_exec::error::Fault;
use rocjitsu_exec::wave::{Group, Wave};

use super::slice::{Hands, Slice};

/// Instructions of a turn after which the wave is looked at for the first time; after that whenever it has executed
/// as many again as in the whole turn before.
const LOOK: u64 = 2048;
/// Blocks of code that a loop in which a wave spins has at most.
const BLOCKS: u32 = 24;

impl Hands<'_, '_> {
    /// As [`Hands::slice`], but a wave that only spins gives up the rest of its turn. `spun` says, and is told, whether it did.
    ///
    /// # Errors
    /// What stopped the wave, if that is known.
    pub fn turn(
        &mut self,
        group: &Group,
        wave: &mut Wave,
        quantum: u64,
        spun: &mut bool,
    ) -> Result<Slice, Option<Box<Fault>>> {
        // Whoever counts instructions in order to stop after some of them gets whole turns.
        if self.shared.options.stops.is_some() {
            return self.slice(group, wave, quantum);
        }
        let mut next = if std::mem::take(spun) { 1 } else { LOOK };
        let mut left = quantum;
        loop {
            let part = next.min(left);
            let slice = self.slice(group, wave, part)?;
            left -= part;
            if left == 0 || slice != (Slice::Turn { busy: true }) {
                return Ok(slice);
            }
            if let Some(slice) = self.look(group, wave, spun)? {
                return Ok(slice);
            }
            next = LOOK.max(quantum - left);
        }
    }

    /// Follows a wave for one turn of a loop, if it is in a small one; a second time if its scalar registers
    /// are then the same. Returns how the turn ended, if it did.
    fn look(
        &mut self,
        group: &Group,
        wave: &mut Wave,
        spun: &mut bool,
    ) -> Result<Option<Slice>, Option<Box<Fault>>> {
        // What a loop counts is mostly in one of these, so they are compared first.
        let scalars = |wave: &Wave| (wave.s, wave.scc, wave.mode, wave.decode_state);
        let (before, pc) = (scalars(wave), wave.pc);
        let mut vectors = None;
        for _ in 0..2 {
            match self.around(group, wave, pc)? {
                Around::Ended(slice) => return Ok(Some(slice)),
                Around::Back if scalars(wave) == before => {}
                Around::Back | Around::Elsewhere => return Ok(None),
            }
            let now: Vec<_> = wave.v.pages().map(|(n, page)| (n, *page)).collect();
            match &vectors {
                None => vectors = Some(now),
                Some(then) => *spun = *then == now,
            }
        }
        Ok(spun.then_some(Slice::Turn { busy: true }))
    }

    /// Runs the wave until it comes back to `pc`.
    fn around(
        &mut self,
        group: &Group,
        wave: &mut Wave,
        pc: u64,
    ) -> Result<Around, Option<Box<Fault>>> {
        for _ in 0..BLOCKS {
            let slice = self.slice(group, wave, 1)?;
            if slice != (Slice::Turn { busy: true }) {
                return Ok(Around::Ended(slice));
            }
            if wave.pc == pc {
                return Ok(Around::Back);
            }
        }
        Ok(Around::Elsewhere)
    }
}

/// Where a wave that was followed has come.
enum Around {
    /// To the end of its turn.
    Ended(Slice),
    /// To where it was.
    Back,
    /// Neither, for too long.
    Elsewhere,
}
