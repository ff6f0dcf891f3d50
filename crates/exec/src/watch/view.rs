//! The state of a wave as plugins see it.

use rocjitsu_observe::{Source, State};

use crate::target::TargetFacts;
use crate::wave::{Cx, scalar};

/// What an instruction can reach, for reading, and how it moves values between lanes.
pub struct View<'v, 'c, 'a>(pub &'v Cx<'c, 'a>, pub Option<&'v [Source; 64]>);

impl State for View<'_, '_, '_> {
    fn vgpr(&self, register: u16) -> &[u32] {
        self.0.wave.v.read(register.into())
    }

    fn agpr(&self, register: u16) -> &[u32] {
        let base = self.0.unit.target.acc_base();
        self.0.wave.v.read(base + u32::from(register))
    }

    fn sgpr(&self, register: u16) -> u32 {
        match usize::from(register) {
            scalar::NULL => 0,
            n => self.0.wave.s.get(n).copied().unwrap_or(0),
        }
    }

    fn scc(&self) -> bool {
        self.0.wave.scc
    }

    fn mode(&self) -> u32 {
        self.0.wave.mode
    }

    fn lds(&self) -> &[u8] {
        // SAFETY: the waves of a watched workgroup run on one thread, which stands still while a plugin looks.
        unsafe { self.0.group.lds.bytes() }
    }

    fn exchange(&self) -> Option<&[Source; 64]> {
        self.1
    }

    fn read(&self, address: u64, to: &mut [u8]) -> bool {
        let space = self.0.unit.memory.space();
        let mut done = 0;
        while done < to.len() {
            let Some(at) = address.checked_add(done as u64) else {
                return false;
            };
            let Ok(extent) = space.find(at) else {
                return false;
            };
            let part = (extent.end - at).min((to.len() - done) as u64) as usize;
            let from = extent.host.wrapping_add((at - extent.start) as usize);
            // SAFETY: the extent was found just now, `part` bytes from there on are in it, and there is room.
            unsafe {
                std::ptr::copy_nonoverlapping(from.cast_const(), to.as_mut_ptr().add(done), part);
            }
            done += part;
        }
        true
    }
}
