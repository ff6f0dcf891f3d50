//! Memory as a wave's flat instructions address it: global, LDS and scratch by their apertures.

use rocjitsu_exec::record::{GLOBAL_SCRATCH_BASE, PRIVATE_BASE, SHARED_BASE};
use rocjitsu_exec::vmem::flat::from_shared_scratch;
use rocjitsu_gpu::dispatch::{Watchpoint, Who};
use rocjitsu_isa::Target;

use crate::debugger::Debugger;

/// Bytes that are read at once, where there may not be as many: a page.
const PAGE: u64 = 4096;

/// What a flat address stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// LDS of the wave's workgroup.
    Lds(u64),
    /// Virtual memory.
    Memory(u64),
}

impl Debugger<'_> {
    /// The lane whose scratch a wave's scratch addresses mean: the one chosen, or the first that is active.
    pub(crate) fn lane_of(&self, who: Who) -> u32 {
        let active = self
            .wave(who)
            .map_or(0, |wave| wave.exec().trailing_zeros());
        let lane = self.lane.unwrap_or(active);
        if lane < self.facts.lanes { lane } else { 0 }
    }

    /// What a wave means by an address, and how many bytes from there on lie together.
    fn place(&self, who: Who, address: u64) -> Option<(Place, u64)> {
        if address >> 32 == SHARED_BASE >> 32 {
            let offset = address & 0xffff_ffff;
            return Some((Place::Lds(offset), (1 << 32) - offset));
        }
        let word = 4 - address % 4;
        if self.runner.device().target() == Target::Gfx1250 {
            if address >> 58 == GLOBAL_SCRATCH_BASE >> 58 {
                return Some((Place::Memory(from_shared_scratch(address)), word));
            }
        } else if address >> 32 == PRIVATE_BASE >> 32 {
            let wave = self.wave(who)?;
            let offset = address & 0xffff_ffff;
            if wave.scratch == 0 || offset >= wave.scratch_size.into() {
                return None;
            }
            let row = offset / 4 * u64::from(wave.lanes) + u64::from(self.lane_of(who));
            return Some((Place::Memory(wave.scratch + row * 4 + offset % 4), word));
        }
        Some((Place::Memory(address), PAGE - address % PAGE))
    }

    /// Reads memory as a wave sees it. Returns how many bytes from the first on are there.
    pub(crate) fn read_memory(&self, who: Who, address: u64, to: &mut [u8]) -> usize {
        let mut done = 0;
        while let Some(rest) = to.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let Some(at) = address.checked_add(done as u64) else {
                break;
            };
            let Some((place, together)) = self.place(who, at) else {
                break;
            };
            let count = rest.len().min(together.try_into().unwrap_or(usize::MAX));
            let (part, _) = rest.split_at_mut(count);
            match place {
                Place::Memory(at) => {
                    if self.runner.device().memory().read(at, part).is_err() {
                        break;
                    }
                }
                Place::Lds(offset) => {
                    let lds = self.lds(who).unwrap_or_default();
                    let there = lds.get(offset as usize..).unwrap_or_default();
                    let count = there.len().min(part.len());
                    let (part, beyond) = part.split_at_mut(count);
                    part.copy_from_slice(there.get(..count).unwrap_or_default());
                    if !beyond.is_empty() {
                        return done + count;
                    }
                }
            }
            done += count;
        }
        done
    }

    /// LDS of a wave's workgroup.
    pub(crate) fn lds(&self, who: Who) -> Option<&[u8]> {
        Some(self.suspended.as_ref()?.group(who.0)?.lds())
    }

    /// Writes memory as a wave sees it. `false`: not all of it is there; what was before that is written.
    pub(crate) fn write_memory(&mut self, who: Who, address: u64, from: &[u8]) -> bool {
        let mut done = 0;
        while let Some(rest) = from.get(done..).filter(|rest| !rest.is_empty()) {
            let place = address
                .checked_add(done as u64)
                .and_then(|at| self.place(who, at));
            let Some((place, together)) = place else {
                return false;
            };
            let count = rest.len().min(together.try_into().unwrap_or(usize::MAX));
            let part = rest.get(..count).unwrap_or_default();
            let written = match place {
                Place::Memory(at) => self.runner.device().memory().write(at, part).is_ok(),
                Place::Lds(offset) => {
                    let lds = self.suspended.as_mut().and_then(|s| s.lds_mut(who.0));
                    let end = offset.saturating_add(count as u64) as usize;
                    let slot = lds.and_then(|lds| lds.get_mut(offset as usize..end));
                    slot.map(|slot| slot.copy_from_slice(part)).is_some()
                }
            };
            if !written {
                return false;
            }
            done += count;
        }
        // It may have been code.
        self.runner.device().invalidate_code();
        true
    }

    /// The watchpoint for bytes as a wave addresses them. `None`: they do not lie together.
    pub(crate) fn watchpoint(&self, who: Who, address: u64, bytes: u64) -> Option<Watchpoint> {
        address.checked_add(bytes)?;
        let (place, together) = self.place(who, address)?;
        let (lds, start) = match place {
            Place::Lds(offset) => (true, offset),
            Place::Memory(at) => (false, at),
        };
        let scattered = !lds && start != address && bytes > together;
        (bytes > 0 && !scattered).then_some(Watchpoint {
            lds,
            start,
            bytes,
            loads: false,
            stores: false,
            workgroup: lds.then_some(who.0),
        })
    }
}
