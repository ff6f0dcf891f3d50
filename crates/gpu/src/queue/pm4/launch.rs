//! DISPATCH_DIRECT: a dispatch from the COMPUTE_* registers.
//! The user SGPRs are what COMPUTE_USER_DATA holds; nothing is read from a kernel descriptor.

use rocjitsu_exec::target::TargetFacts;
use rocjitsu_isa::Target;

use super::registers::{
    NUM_THREAD_X, PGM_LO, RSRC1, RSRC3_GFX9, RSRC3_GFX11, SCRATCH_BASE_LO, START_X, TMPRING_SIZE,
    USER_DATA_0,
};
use super::{Cx, Interpreter, Trouble, error};
use crate::code_object::{DESCRIPTOR_BYTES, KernelDescriptor};
use crate::dispatch::{Dispatch, MAX_WAVE_SCRATCH, Origin, ScratchMemory};
use crate::queue::run::{run, scratch_ring};

/// COMPUTE_DISPATCH_INITIATOR: run the shader.
const COMPUTE_SHADER_EN: u32 = 1;
/// Workgroups at the upper ends have the partial sizes.
const PARTIAL_TG_EN: u32 = 1 << 1;
/// Ids begin with 0 instead of COMPUTE_START.
const FORCE_START_AT_000: u32 = 1 << 2;
/// The dimensions count work-items instead of workgroups.
const USE_THREAD_DIMENSIONS: u32 = 1 << 5;
/// Waves of 32 lanes (gfx10 and later).
const CS_W32_EN: u32 = 1 << 15;

impl Interpreter {
    /// Runs the dispatch that the registers describe.
    pub(super) fn dispatch(
        &self,
        cx: &mut Cx<'_>,
        dimensions: [u32; 3],
        initiator: u32,
    ) -> Result<(), Trouble> {
        if initiator & COMPUTE_SHADER_EN == 0 || dimensions.contains(&0) {
            return Ok(());
        }
        let target = cx.device.target();
        let entry = self.registers.get64(PGM_LO) << 8;
        let wrong = |what: String| {
            Trouble::packet(
                error::CODE_OBJECT,
                format!("DISPATCH_DIRECT of the program at {entry:#x}: {what}"),
            )
        };
        let descriptor = self.descriptor(target, initiator).map_err(wrong)?;
        let threads: [u32; 3] =
            std::array::from_fn(|axis| self.registers.get(NUM_THREAD_X + axis as u32));
        let workgroup = threads.map(|register| register & 0xffff);
        let mut grid = [0; 3];
        for axis in 0..3 {
            let (full, partial) = (u64::from(workgroup[axis]), u64::from(threads[axis] >> 16));
            let count = u64::from(dimensions[axis]);
            let items = match initiator {
                i if i & USE_THREAD_DIMENSIONS != 0 => count,
                i if i & PARTIAL_TG_EN != 0 && partial != 0 => (count - 1) * full + partial,
                _ => count * full,
            };
            grid[axis] = u32::try_from(items).map_err(|_| {
                wrong(format!(
                    "{count} workgroups of {full} work-items, 2^32 or more in all"
                ))
            })?;
        }
        let first_workgroup = match initiator & FORCE_START_AT_000 {
            0 => std::array::from_fn(|axis| self.registers.get(START_X + axis as u32)),
            _ => [0; 3],
        };
        let (private_segment, scratch) = self.scratch(target, &descriptor);
        let granule = if target == Target::Gfx950 { 1280 } else { 512 };
        let lds = cx.device.limits().lds_per_unit;
        let name = cx
            .platform
            .kernel_name(entry)
            .unwrap_or_else(|| format!("at {entry:#x}"));
        let dispatch = Dispatch {
            name,
            descriptor,
            entry,
            grid,
            workgroup,
            cluster: [1; 3],
            group_segment: (descriptor.rsrc2.granulated_lds * granule).min(lds),
            private_segment,
            kernarg: 0,
            packet: 0,
            queue: 0,
            id: 0,
            origin: Origin {
                user_data: Some(
                    (0..descriptor.rsrc2.user_sgpr_count)
                        .map(|i| self.registers.get(USER_DATA_0 + i))
                        .collect(),
                ),
                first_workgroup,
                xcc: self.xcc,
                scratch,
                doorbell: 0,
            },
        };
        run(cx, &dispatch)
    }

    /// The registers as the fields of a descriptor.
    fn descriptor(&self, target: Target, initiator: u32) -> Result<KernelDescriptor, String> {
        let gfx9 = target.generation() == 9;
        let mut bytes = [0; DESCRIPTOR_BYTES];
        let mut word = |at: usize, value: u32| {
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        };
        let rsrc1 = self.registers.get(RSRC1);
        let mut rsrc3 = self
            .registers
            .get(if gfx9 { RSRC3_GFX9 } else { RSRC3_GFX11 });
        if matches!(target, Target::Gfx90a | Target::Gfx942 | Target::Gfx950) {
            // An ACCUM_OFFSET beyond the registers that RSRC1 declares cannot matter.
            let most = ((rsrc1 & 63) * 2 + 1).min(63);
            rsrc3 = rsrc3 & !63 | (rsrc3 & 63).min(most);
        }
        word(44, rsrc3);
        word(48, rsrc1);
        word(52, self.registers.get(RSRC1 + 1));
        if !gfx9 && initiator & CS_W32_EN != 0 || target == Target::Gfx1250 {
            word(56, 0x400);
        }
        KernelDescriptor::decode(&bytes, target).map_err(|error| error.to_string())
    }

    /// Scratch bytes of a work-item, and the memory for it, from TMPRING_SIZE and the scratch base.
    fn scratch(
        &self,
        target: Target,
        descriptor: &KernelDescriptor,
    ) -> (u32, Option<ScratchMemory>) {
        let ring = self.registers.get(TMPRING_SIZE);
        let (wave_bytes, waves) = scratch_ring(target, ring);
        let wave_bytes = wave_bytes.min(MAX_WAVE_SCRATCH as u32);
        if !descriptor.rsrc2.private_segment || wave_bytes == 0 {
            return (0, None);
        }
        let base = if target.architected_flat_scratch() {
            self.registers.get64(SCRATCH_BASE_LO) << 8
        } else {
            // The program's own buffer descriptor, by convention in the first user SGPRs.
            self.registers.get64(USER_DATA_0) & 0xffff_ffff_ffff
        };
        let memory = ScratchMemory {
            base,
            bytes: u64::from(waves) * u64::from(wave_bytes),
        };
        if base == 0 {
            // Nobody gave any: a kernel that uses it faults, as on the hardware, where nothing is mapped at 0.
            return (0, None);
        }
        // Whole units of 16 bytes fit whatever the kernel was given.
        let per_item = wave_bytes / descriptor.wave_size / 16 * 16;
        (per_item, Some(memory))
    }
}
