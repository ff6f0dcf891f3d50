//! The registers that packets set and read: those of compute dispatches, and any other as plain storage.
//! Addresses are in words, as in the register headers of the amdgpu driver (`gc_*_offset.h`).

use std::collections::HashMap;

/// First register of SET_SH_REG.
pub const SH_START: u32 = 0x2c00;
/// First register of SET_UCONFIG_REG.
pub const UCONFIG_START: u32 = 0xc000;

/// COMPUTE_START_X; Y and Z follow.
pub const START_X: u32 = 0x2e04;
/// COMPUTE_NUM_THREAD_X; Y and Z follow. Work-items of a workgroup in bits 15:0, of a partial one in 31:16.
pub const NUM_THREAD_X: u32 = 0x2e07;
/// COMPUTE_PGM_LO, then HI: the program's address, without its low 8 bits.
pub const PGM_LO: u32 = 0x2e0c;
/// COMPUTE_DISPATCH_SCRATCH_BASE_LO, then HI: address of the scratch, without its low 8 bits.
pub const SCRATCH_BASE_LO: u32 = 0x2e10;
/// COMPUTE_PGM_RSRC1; RSRC2 follows.
pub const RSRC1: u32 = 0x2e12;
/// COMPUTE_TMPRING_SIZE.
pub const TMPRING_SIZE: u32 = 0x2e18;
/// COMPUTE_PGM_RSRC3 on gfx9.
pub const RSRC3_GFX9: u32 = 0x2e2d;
/// COMPUTE_PGM_RSRC3 on gfx11 and gfx12.
pub const RSRC3_GFX11: u32 = 0x2e28;
/// COMPUTE_USER_DATA_0.
pub const USER_DATA_0: u32 = 0x2e40;

/// Words in registers, 0 where nothing was written.
#[derive(Default)]
pub struct Registers {
    values: HashMap<u32, u32>,
}

impl Registers {
    /// What a register holds.
    pub fn get(&self, address: u32) -> u32 {
        self.values.get(&address).copied().unwrap_or(0)
    }

    /// The 64-bit value of a register and the one behind it.
    pub fn get64(&self, address: u32) -> u64 {
        u64::from(self.get(address)) | u64::from(self.get(address + 1)) << 32
    }

    /// Writes a register. Addresses have 18 bits.
    pub fn set(&mut self, address: u32, value: u32) {
        self.values.insert(address & 0x3_ffff, value);
    }
}
