//! From a dispatch packet to a dispatch: the kernel's descriptor in memory, and what can be wrong with either.

use rocjitsu_isa::Target;

use super::packet::KernelDispatch;
use super::scratch::Handshake;
use super::{Cx, Trouble, error};
use crate::code_object::{DESCRIPTOR_BYTES, KernelDescriptor};
use crate::dispatch::{Dispatch, Origin};

/// Where a dispatch comes from.
pub struct Place {
    /// Address of the `amd_queue_t`.
    pub queue: u64,
    /// Address of the packet.
    pub packet: u64,
    /// Index of the packet.
    pub id: u64,
    /// Number of the doorbell.
    pub doorbell: u32,
}

/// Makes a dispatch of a packet; `None` if it has to wait for scratch.
pub fn prepare(
    cx: &mut Cx<'_>,
    packet: &KernelDispatch,
    place: &Place,
    scratch: &mut Handshake,
) -> Result<Option<Dispatch>, Trouble> {
    let target = cx.device.target();
    let wrong =
        |code: u64, what: String| Trouble::packet(code, format!("AQL packet {}: {what}", place.id));
    if packet.dimensions == 0 || packet.grid.contains(&0) {
        return Err(wrong(
            error::DIMENSIONS,
            format!(
                "a grid of {:?} work-items in {} dimensions",
                packet.grid, packet.dimensions
            ),
        ));
    }
    let items = packet
        .workgroup
        .iter()
        .fold(1u64, |all, &n| all.saturating_mul(n.into()));
    if items == 0 || items > 1024 {
        return Err(wrong(
            error::WORKGROUP,
            format!(
                "a workgroup of {:?} work-items: 1 to 1024 are possible",
                packet.workgroup
            ),
        ));
    }
    let lds = cx.device.limits().lds_per_unit;
    if packet.group_segment > lds {
        return Err(wrong(
            error::GROUP_SEGMENT,
            format!(
                "{} bytes of LDS for a workgroup: {target} has {lds}",
                packet.group_segment
            ),
        ));
    }
    let object = packet.kernel_object;
    let bytes = cx
        .bus
        .array(object)
        .map_err(|fault| wrong(error::CODE_OBJECT, format!("the kernel object: {fault}")))?;
    let descriptor = descriptor(&bytes, target).map_err(|what| {
        wrong(
            error::CODE_OBJECT,
            format!("the kernel object at {object:#x}: {what}"),
        )
    })?;
    let entry = object.wrapping_add(descriptor.entry_offset as u64);
    if !entry.is_multiple_of(256) {
        return Err(wrong(
            error::CODE_OBJECT,
            format!(
                "the kernel object at {object:#x} has its entry at {entry:#x}, not a multiple of 256"
            ),
        ));
    }
    let waves = (items as u32).div_ceil(descriptor.wave_size);
    if let Some(room) = registers_short(target, &descriptor, waves) {
        return Err(wrong(
            error::REGISTERS,
            format!(
                "{waves} waves of {} vector registers for a workgroup: {target} has room for {room} registers each",
                descriptor.vgprs + descriptor.agprs
            ),
        ));
    }
    let memory = match packet.private_segment {
        0 => None,
        bytes => match scratch.memory(cx, place, packet.grid, descriptor.wave_size, bytes)? {
            Some(memory) => Some(memory),
            None => return Ok(None),
        },
    };
    let name = cx
        .platform
        .kernel_name(object)
        .unwrap_or_else(|| format!("with the descriptor at {object:#x}"));
    Ok(Some(Dispatch {
        name,
        descriptor,
        entry,
        grid: packet.grid,
        workgroup: packet.workgroup,
        cluster: [1; 3],
        group_segment: packet.group_segment,
        private_segment: packet.private_segment,
        kernarg: packet.kernarg,
        packet: place.packet,
        queue: place.queue,
        id: place.id,
        origin: Origin {
            scratch: memory,
            doorbell: place.doorbell,
            ..Origin::default()
        },
    }))
}

/// Reads a descriptor as the packet processor does: only the fields it needs. ROCr's own kernels stand behind
/// an `amd_kernel_code_t`, which has other things where a kernel descriptor is reserved.
fn descriptor(bytes: &[u8; DESCRIPTOR_BYTES], target: Target) -> Result<KernelDescriptor, String> {
    let mut bytes = *bytes;
    for reserved in [12..16, 24..44, 60..64] {
        bytes[reserved].fill(0);
    }
    // amd_kernel_code_version_major 1, amd_machine_kind AMDGPU: the upper half of the properties is flags.
    let old = bytes[0..4] == [1, 0, 0, 0] && bytes[8..10] == [1, 0];
    if old {
        bytes[58..60].fill(0);
    }
    let decode = |bytes: &[u8; DESCRIPTOR_BYTES]| KernelDescriptor::decode(bytes, target);
    if let Ok(descriptor) = decode(&bytes)
        && !old
    {
        return Ok(descriptor);
    }
    // ACCUM_OFFSET that cannot be: all registers are VGPRs.
    let rsrc1 = u32::from_le_bytes([bytes[48], bytes[49], bytes[50], bytes[51]]);
    let accum = ((rsrc1 & 63) * 2 + 1).min(63);
    bytes[44..48].copy_from_slice(&accum.to_le_bytes());
    decode(&bytes)
        .or_else(|_| {
            bytes[58..60].fill(0);
            decode(&bytes)
        })
        .map_err(|error| error.to_string())
}

/// If the waves of a workgroup do not fit into the register files at once: how many registers each could have.
fn registers_short(target: Target, descriptor: &KernelDescriptor, waves: u32) -> Option<u32> {
    // Rows of 64 lanes (wave64) or 32 (wave32) in the register file of one SIMD, and SIMDs that a workgroup has.
    let (rows, simds) = match target {
        Target::Gfx90a | Target::Gfx942 | Target::Gfx950 => (512, 4),
        Target::Gfx908 => (256, 4),
        Target::Gfx1100 | Target::Gfx1151 | Target::Gfx1201 => {
            let simds = match descriptor.rsrc1.wgp_mode {
                Some(true) => 4,
                _ => 2,
            };
            (1536 * 32 / descriptor.wave_size, simds)
        }
        // How many waves with more than 256 registers gfx1250 holds is not documented.
        _ => return None,
    };
    let used = match target {
        Target::Gfx908 => descriptor.vgprs.max(descriptor.agprs),
        _ => descriptor.vgprs + descriptor.agprs,
    };
    let room = rows / waves.div_ceil(simds);
    (used > room).then_some(room)
}
