//! The registers that packets set and read: those of compute dispatches. Others do something that is not simulated, or belong to
//! graphics; they are refused.
//! Addresses are in words, as in the register headers of the amdgpu driver (`gc_*_offset.h`).

use std::collections::HashMap;

use rocjitsu_isa::Target;

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

/// GRBM_GFX_INDEX: which of several instances later accesses of registers mean.
const GFX_INDEX: u32 = 0xc200;
/// TA_CS_BC_BASE_ADDR, then HI: colours of the borders of images, which kernels here do not have.
const BORDER_COLORS: u32 = 0xc380;

/// Whether packets may touch a register: what a dispatch here is made of, and what makes no difference to its results (on which
/// compute units waves may run, how many of them, identifications for tools). `gc_9_4_3_offset.h`, `gc_11_0_0_offset.h`,
/// `gc_12_0_0_offset.h`; `v9_structs.h` for those of shader engines 4 to 7 on gfx9.
pub fn is_known(target: Target, address: u32) -> bool {
    let common = matches!(
        address,
        // START, NUM_THREAD, PIPELINESTAT_ENABLE, PERFCOUNT_ENABLE, PGM, DISPATCH_PKT_ADDR, DISPATCH_SCRATCH_BASE, RSRC1, RSRC2
        START_X..=0x2e13
            // RESOURCE_LIMITS, STATIC_THREAD_MGMT_SE0 and 1, TMPRING_SIZE, STATIC_THREAD_MGMT_SE2 and 3, RESTART,
            // THREAD_TRACE_ENABLE, MISC_RESERVED, DISPATCH_ID, THREADGROUP_ID
            | 0x2e15..=0x2e21
            | USER_DATA_0..=0x2e4f
            | GFX_INDEX
            | BORDER_COLORS..=0xc381
    );
    common
        || match target.generation() {
            // STATIC_THREAD_MGMT_SE4 to SE7 (of gfx908), which share a number with TG_CHUNK_SIZE; SHADER_CHKSUM, RSRC3.
            9 => matches!(address, 0x2e25..=0x2e28 | 0x2e2c..=RSRC3_GFX9),
            // REQ_CTRL, STATIC_THREAD_MGMT_SE8, USER_ACCUM, RSRC3, DDID_INDEX, SHADER_CHKSUM, STATIC_THREAD_MGMT_SE4 to SE7,
            // DISPATCH_INTERLEAVE; DISPATCH_TUNNEL.
            _ => matches!(address, 0x2e22..=0x2e2f | 0x2e7d),
        }
}

/// What a known register would switch on with any value but 0, if that is not simulated.
pub fn asks_for(address: u32) -> Option<&'static str> {
    match address {
        0x2e0b => Some("performance counters"),
        0x2e1b..=0x2e1d => Some("a dispatch that was preempted to go on"),
        0x2e1e => Some("a thread trace"),
        _ => None,
    }
}

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
