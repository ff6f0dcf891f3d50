//! The state that waves start with: SGPRs, VGPRs, EXEC, MODE, scratch.
//! Sources: LLVM's AMDGPU usage guide ("Initial Kernel Execution State"), manuals ("Wave state").

use rocjitsu_exec::barrier;
use rocjitsu_exec::memory::MemoryPort;
use rocjitsu_exec::registers::PagePool;
use rocjitsu_exec::target::TargetFacts;
use rocjitsu_exec::wave::{Group, Waiting, Wave, mode, scalar};
use rocjitsu_isa::{FeatureSet, RegFile, Target, decode};
use rocjitsu_observe::Given;

use super::suspend::Position;
use super::{Device, Dispatch, DispatchError, Shared};
use crate::code_object::{KernelDescriptor, PRELOAD_PROLOGUE_BYTES};

/// HW_REG_IB_STS2 (gfx1250): in a wave of a cluster, bits 9:6 are not zero and bits 24:21 are the number of its
/// workgroup in the cluster (CDNA5 3.4.9).
const IB_STS2: usize = 28;

/// HW_REG_GPR_ALLOC.
const GPR_ALLOC: usize = 5;
/// HW_REG_XCC_ID (gfx942, gfx950).
const XCC_ID: usize = 20;

/// What HW_REG_GPR_ALLOC tells a wave of the registers it was given. The bases are zero.
///
/// gfx90a, gfx942, gfx950: VGPR_SIZE 11:6, ACCV_OFF 17:12, SGPR_SIZE 27:24, each less one (CDNA3 and CDNA4 manuals,
/// table "GPR_ALLOC"). ACCV_OFF counts fours and SGPR_SIZE sixteens, as the tables say. VGPR_SIZE counts eights: the
/// tables still say fours, which 6 bits cannot hold for the 512 registers of a unified file, and the handler with which
/// Linux saves waves on these chips takes (VGPR_SIZE + 1) * 8 registers (`cwsr_trap_handler_gfx9.asm`,
/// `get_num_acc_vgprs`). It also takes the field from bit 6 on gfx90a, where the CDNA2 manual's table 18 has bit 8 and
/// no ACCV_OFF: the fields of chips without a unified file.
///
/// gfx11, gfx12: VGPR_SIZE 19:12 in fours, less one (`cwsr_trap_handler_gfx10.asm`; the manuals have no table).
fn gpr_alloc(target: Target, d: &KernelDescriptor) -> u32 {
    let size =
        |count: u32, unit: u32, bits: u32| (count.div_ceil(unit).max(1) - 1) & ((1 << bits) - 1);
    if target.generation() == 9 {
        let vgprs = size(d.vgprs + d.agprs, 8, 6);
        let offset = size(d.vgprs, 4, 6);
        let sgprs = size(d.sgprs, 16, 4);
        vgprs << 6 | offset << 12 | sgprs << 24
    } else {
        size(d.vgprs, 4, 8) << 12
    }
}

/// Bytes of the blocks in which LDS is allocated (CDNA2 to CDNA4 manuals 3.6.5, RDNA3 3.3.4, RDNA4 3.3.5, CDNA5 3.3.4):
/// a workgroup may use all of its last one.
fn lds_block(target: Target) -> usize {
    match target {
        Target::Gfx950 => 1280,
        Target::Gfx1250 => 2048,
        _ if target.generation() == 9 => 512,
        _ => 1024,
    }
}

/// Waves that `items` work-items in x, y, z make.
pub fn waves_of(items: [u32; 3], wave_size: u32) -> u32 {
    items.iter().product::<u32>().div_ceil(wave_size)
}

/// Work-items of a workgroup: fewer at the upper ends of a grid that is no multiple.
fn extent(dispatch: &Dispatch, id: [u32; 3]) -> [u32; 3] {
    std::array::from_fn(|i| {
        let first = u64::from(id[i]) * u64::from(dispatch.workgroup[i]);
        (u64::from(dispatch.grid[i]) - first).min(u64::from(dispatch.workgroup[i])) as u32
    })
}

/// A workgroup and its waves, ready to run.
pub struct Resident {
    /// What the waves share.
    pub group: Group,
    /// The waves.
    pub waves: Vec<Wave>,
    /// Scratch region.
    pub scratch: u64,
    /// Whether its waves have run on several threads: then they need not have had their turns in the usual order.
    pub was_shared: bool,
    /// Whether the order of its waves has turned out to matter: from then on they run on one thread.
    pub in_order: bool,
    /// A bit for each wave whose last turn ended because it only span.
    pub spinning: u64,
    /// Where the round through its waves was broken off.
    pub position: Option<Position>,
}

impl Resident {
    /// A workgroup that has not been started.
    pub fn empty() -> Resident {
        Resident {
            group: Group::default(),
            waves: Vec::new(),
            scratch: 0,
            was_shared: false,
            in_order: false,
            spinning: 0,
            position: None,
        }
    }

    /// Waves that wait for something.
    pub fn waiting(&self, what: Waiting) -> u32 {
        self.waves.iter().filter(|w| w.waiting == what).count() as u32
    }
}

/// The id of workgroup number `linear`. Workgroups of a cluster follow each other.
fn place(dispatch: &Dispatch, groups: [u64; 3], linear: u64) -> ([u32; 3], [u32; 3]) {
    let cluster = dispatch.cluster.map(u64::from);
    let size: u64 = cluster.iter().product();
    let split =
        |n: u64, dims: [u64; 3]| [n % dims[0], n / dims[0] % dims[1], n / (dims[0] * dims[1])];
    let clusters: [u64; 3] = std::array::from_fn(|i| groups[i].div_ceil(cluster[i]));
    let outer = split(linear / size, clusters);
    let inner = split(linear % size, cluster);
    let first = dispatch.origin.first_workgroup;
    let id = std::array::from_fn(|i| (outer[i] * cluster[i] + inner[i]) as u32 + first[i]);
    (id, inner.map(|n| n as u32))
}

/// Sets up workgroup number `linear`, using again what an earlier one left in `resident`.
pub fn start(
    shared: &Shared<'_>,
    linear: u64,
    memory: &mut MemoryPort<'_>,
    pool: &mut PagePool,
    resident: &mut Resident,
) -> Result<(), DispatchError> {
    let dispatch = shared.dispatch;
    let (id, in_cluster) = place(dispatch, shared.groups, linear);
    let scratch = shared.scratch.take()?;
    let items = set_up_group(
        shared.device.target,
        dispatch,
        (linear, id),
        scratch,
        resident,
    );
    let count = resident.group.live;
    resident.waves.truncate(count as usize);
    for index in 0..count {
        let mut wave = new_wave(shared.device.target, dispatch, index, scratch);
        let place = Place {
            linear,
            id,
            in_cluster,
            items,
            index,
            scratch: wave.scratch,
            region: scratch,
        };
        set_up(shared, &mut wave, memory, pool, place)?;
        match resident.waves.get_mut(index as usize) {
            Some(slot) => *slot = wave,
            None => resident.waves.push(wave),
        }
    }
    Ok(())
}

/// Sets up workgroup number `linear` as far as it follows from the dispatch: without registers of waves.
pub fn shape(
    device: &Device,
    dispatch: &Dispatch,
    linear: u64,
    scratch: u64,
    resident: &mut Resident,
) {
    let (id, _) = place(dispatch, super::groups_of(dispatch), linear);
    set_up_group(device.target, dispatch, (linear, id), scratch, resident);
    let waves = 0..resident.group.live;
    resident.waves = waves
        .map(|index| new_wave(device.target, dispatch, index, scratch))
        .collect();
}

/// Sets up what the waves of a workgroup share; returns its work-items.
fn set_up_group(
    target: Target,
    dispatch: &Dispatch,
    (linear, id): (u64, [u32; 3]),
    scratch: u64,
    resident: &mut Resident,
) -> [u32; 3] {
    let items = extent(dispatch, id);
    let count = waves_of(items, dispatch.descriptor.wave_size);
    let group = &mut resident.group;
    group.id = id;
    group.linear = linear;
    group.live = count;
    group
        .lds
        .restart((dispatch.group_segment as usize).next_multiple_of(lds_block(target)));
    group.barriers = Default::default();
    barrier::set_members(group, barrier::WORKGROUP, count);
    resident.scratch = scratch;
    resident.was_shared = false;
    resident.in_order = false;
    resident.spinning = 0;
    resident.position = None;
    items
}

/// A wave without registers, of a workgroup whose scratch is at `region`.
fn new_wave(target: Target, dispatch: &Dispatch, index: u32, region: u64) -> Wave {
    let d = &dispatch.descriptor;
    let mut wave = Wave::new(d.wave_size);
    let (per_item, per_wave) = super::scratch::sizes(dispatch);
    wave.index = index;
    wave.scratch = region.wrapping_add(per_wave * u64::from(index));
    wave.scratch_size = per_item as u32;
    wave.dispatch_id = dispatch.id;
    wave.doorbell = dispatch.origin.doorbell;
    // Waves of 64 on gfx10 and gfx11 may share registers beyond their own.
    if d.rsrc3.shared_vgprs.unwrap_or(0) == 0 {
        wave.set_vgprs(d.vgprs, target);
    }
    wave
}

/// Where a wave stands.
struct Place {
    linear: u64,
    id: [u32; 3],
    in_cluster: [u32; 3],
    items: [u32; 3],
    index: u32,
    scratch: u64,
    region: u64,
}

fn set_up(
    shared: &Shared<'_>,
    wave: &mut Wave,
    memory: &mut MemoryPort<'_>,
    pool: &mut PagePool,
    place: Place,
) -> Result<(), DispatchError> {
    let dispatch = shared.dispatch;
    let d = &dispatch.descriptor;
    let target = shared.device.target;
    let preloads = d.preload.length != 0;
    let skipped = if preloads { PRELOAD_PROLOGUE_BYTES } else { 0 };
    wave.pc = dispatch.entry.wrapping_add(skipped);
    let r1 = &d.rsrc1;
    wave.hwreg[GPR_ALLOC] = gpr_alloc(target, d);
    if matches!(target, Target::Gfx942 | Target::Gfx950) {
        // Workgroups are dealt to the XCCs one by one.
        wave.hwreg[XCC_ID] = dispatch
            .origin
            .xcc
            .unwrap_or_else(|| (place.linear % u64::from(shared.device.limits.xccs.max(1))) as u32);
    }
    wave.mode = r1.round_32
        | r1.round_16_64 << 2
        | r1.denorm_32 << 4
        | r1.denorm_16_64 << 6
        | if r1.dx10_clamp == Some(true) {
            mode::DX10_CLAMP
        } else {
            0
        }
        | if r1.ieee == Some(true) { mode::IEEE } else { 0 }
        | if r1.fp16_overflow { mode::FP16_OVFL } else { 0 };
    user_sgprs(shared, wave, memory, &place)?;
    system_sgprs(shared, wave, target, &place);

    // Work-items of this wave: packed ids in v0 (gfx90a and later).
    let total: u32 = place.items.iter().product();
    let first = place.index * wave.lanes;
    let active = (total - first).min(wave.lanes);
    wave.set_exec(if active == 64 {
        u64::MAX
    } else {
        (1 << active) - 1
    });
    if shared.options.eager_registers {
        wave.v.allocate_all(d.vgprs.min(target.acc_base()), pool);
        for register in (0..d.agprs).step_by(16) {
            wave.v.write_ptr(target.acc_base() + register, pool);
        }
    }
    // ENABLE_VGPR_WORKITEM_ID: 0 x, 1 x and y, 2 all three; the fields of the others stay zero.
    let ids = d.rsrc2.workitem_id;
    if ids > 0 || place.items[0] > 1 {
        let [sx, sy, _] = place.items;
        let packed = &mut wave.v.write(0, pool)[..active as usize];
        let keep = [0x3ff, 0xf_ffff, 0x3fff_ffff][ids.min(2) as usize];
        let id = [first % sx, first / sx % sy, first / (sx * sy)];
        let start = id[0] | id[1] << 10 | id[2] << 20;
        if id[0] + active <= sx {
            for (slot, lane) in packed.iter_mut().zip(0..) {
                *slot = (start & keep) + lane;
            }
        } else {
            let [mut x, mut y, mut z] = id;
            for slot in packed {
                *slot = (x | y << 10 | z << 20) & keep;
                x += 1;
                if x == sx {
                    (x, y) = (0, y + 1);
                }
                if y == sy {
                    (y, z) = (0, z + 1);
                }
            }
        }
    }
    Ok(())
}

fn user_sgprs(
    shared: &Shared<'_>,
    wave: &mut Wave,
    memory: &mut MemoryPort<'_>,
    place: &Place,
) -> Result<(), DispatchError> {
    let dispatch = shared.dispatch;
    if let Some(data) = &dispatch.origin.user_data {
        let count = dispatch.descriptor.rsrc2.user_sgpr_count as usize;
        for (slot, &value) in wave.s[..scalar::VCC].iter_mut().zip(data).take(count) {
            *slot = value;
        }
        return Ok(());
    }
    let u = &dispatch.descriptor.user_sgprs;
    let mut pair = |n: Option<u32>, value: u64| {
        if let Some(n) = n {
            wave.set_s64(n as usize, value);
        }
    };
    pair(u.dispatch_ptr, dispatch.packet);
    pair(u.queue_ptr, dispatch.queue);
    pair(u.kernarg_segment_ptr, dispatch.kernarg);
    pair(u.dispatch_id, dispatch.id);
    // Low word: the wave adds its scratch offset to it; high word: bytes of scratch per work-item.
    pair(u.flat_scratch_init, place.region);
    if let Some(n) = u.private_segment_size {
        wave.s[n as usize] = wave.scratch_size;
    }
    if let Some(n) = u.private_segment_buffer {
        // A swizzled buffer over this workgroup's scratch, element size 4 bytes, index stride of a wave,
        // thread id added (LLVM: "Private Segment Buffer").
        let words = [
            place.region as u32,
            (place.region >> 32) as u32 & 0xffff | 1 << 31,
            u32::MAX,
            scratch_descriptor_word3(wave.lanes),
        ];
        for (i, word) in words.into_iter().enumerate() {
            wave.s[n as usize + i] = word;
        }
    }
    if let Some(first) = u.preload {
        let p = dispatch.descriptor.preload;
        for i in 0..p.length {
            let address = dispatch.kernarg.wrapping_add(4 * u64::from(p.offset + i));
            let word = memory
                .read_u32(address)
                .map_err(|kind| DispatchError::Invalid {
                    kernel: dispatch.name.clone(),
                    what: format!(
                        "argument dword {} to be preloaded at {address:#x} is {kind}",
                        p.offset + i
                    ),
                })?;
            wave.s[(first + i) as usize] = word;
        }
    }
    Ok(())
}

/// Word 3 of the scratch descriptor on gfx9 (manual, "Buffer resource descriptor"): DATA_FORMAT 32
/// (bits 18:15 = 4), element size 4 bytes (bits 20:19 = 1), index stride 64 (bits 22:21 = 3), ADD_TID_ENABLE
/// (bit 23).
fn scratch_descriptor_word3(lanes: u32) -> u32 {
    let index_stride = if lanes == 64 { 3 } else { 2 };
    4 << 15 | 1 << 19 | index_stride << 21 | 1 << 23
}

fn system_sgprs(shared: &Shared<'_>, wave: &mut Wave, target: Target, place: &Place) {
    let dispatch = shared.dispatch;
    let r2 = &dispatch.descriptor.rsrc2;
    if target.generation() >= 12 {
        let [x, y, z] = dispatch.cluster;
        let clustered = x * y * z > 1;
        let shown = if clustered {
            let outer: [u32; 3] = std::array::from_fn(|i| place.id[i] / dispatch.cluster[i]);
            let [ix, iy, iz] = place.in_cluster;
            let flat = x * y * z - 1;
            wave.s[scalar::TTMP + 6] =
                ix | iy << 4 | iz << 8 | (x - 1) << 12 | (y - 1) << 16 | (z - 1) << 20 | flat << 24;
            wave.hwreg[IB_STS2] |= 1 << 6 | (ix + x * (iy + y * iz)) << 21;
            outer
        } else {
            place.id
        };
        wave.s[scalar::TTMP + 9] = shown[0];
        wave.s[scalar::TTMP + 7] = shown[1] & 0xffff | shown[2] << 16;
        // ttmp8 bits 29:25: the wave's number in its workgroup.
        wave.s[scalar::TTMP + 8] = place.index << 25;
        return;
    }
    let mut next = r2.user_sgpr_count as usize;
    let mut push = |value: u32| {
        if next < scalar::VCC {
            wave.s[next] = value;
        }
        next += 1;
    };
    for axis in 0..3 {
        if r2.workgroup_id[axis] {
            push(place.id[axis]);
        }
    }
    if r2.workgroup_info {
        // Ordered-append terms are not used by compute kernels; bits 5:0 hold the waves of the workgroup.
        push(waves_of(place.items, dispatch.descriptor.wave_size));
    }
    if r2.private_segment && !target.architected_flat_scratch() {
        // From the descriptor's base: that of the queue's memory if the program wrote the descriptor.
        let base = match (&dispatch.origin.user_data, dispatch.origin.scratch) {
            (Some(_), Some(memory)) => memory.base,
            _ => place.region,
        };
        push(place.scratch.wrapping_sub(base) as u32);
    }
}

/// The registers that [`set_up`] fills: user and system SGPRs, and v0 with the packed ids of work-items.
pub fn given(target: Target, descriptor: &KernelDescriptor) -> Given {
    let r2 = &descriptor.rsrc2;
    let ids = r2.workgroup_id.iter().filter(|&&wanted| wanted).count() as u32;
    let system = match target.generation() {
        12.. => 0,
        _ => {
            let offset = r2.private_segment && !target.architected_flat_scratch();
            ids + u32::from(r2.workgroup_info) + u32::from(offset)
        }
    };
    Given {
        sgprs: (r2.user_sgpr_count + system).min(scalar::VCC as u32) as u16,
        vgprs: 1,
    }
}

/// Lines of disassembly around `pc`, the instruction itself marked.
pub fn disassembly(device: &Device, dispatch: &Dispatch, pc: u64) -> String {
    const BEFORE: usize = 6;
    const AFTER: usize = 3;
    let set: FeatureSet = device.target.execution_set(dispatch.descriptor.wave_size);
    let mut lines: Vec<(u64, String)> = Vec::new();
    // Instructions vary in length: walk from the kernel's entry, where the boundaries are known.
    let mut at = dispatch.entry;
    let mut after = 0;
    let far = pc < at || pc - at > 1 << 20;
    if far {
        at = pc;
    }
    while after <= AFTER {
        let mut bytes = [0; 24];
        let got = (1..=6)
            .rev()
            .map(|n| 4 * n)
            .find(|&n| device.memory.read(at, &mut bytes[..n]).is_ok());
        let Some(got) = got else { break };
        let (text, length) = match decode(device.target, set, &bytes[..got]) {
            Ok(inst) => (inst.text(set), inst.len() as u64),
            Err(_) => {
                let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                (format!(".long {word:#010x}"), 4)
            }
        };
        lines.push((at, text));
        if at >= pc {
            after += 1;
        } else if lines.len() > BEFORE {
            lines.remove(0);
        }
        at += length;
    }
    let show = |(address, text): &(u64, String)| {
        let mark = if *address == pc { "->" } else { "  " };
        format!("\n  {mark} {address:#x}: {text}")
    };
    lines.iter().map(show).collect()
}

/// The registers that the instruction at `pc` uses, with what they hold in a stopped wave: scalar ones, and of vector
/// registers the value of a lane. For the text of an error; empty where there is nothing to show.
pub fn registers(device: &Device, pc: u64, wave: &Wave, lane: u32) -> String {
    const MOST: usize = 16;
    let set = device.target.execution_set(wave.lanes);
    let mut bytes = [0; 24];
    let whole = device.memory.read(pc, &mut bytes).is_ok();
    if !whole && device.memory.read(pc, &mut bytes[..8]).is_err() {
        return String::new();
    }
    let Ok(inst) = decode(device.target, set, &bytes) else {
        return String::new();
    };
    let lane = lane % wave.lanes;
    let mut shown: Vec<String> = Vec::new();
    for range in inst.effects(wave.lanes).reads {
        for register in range.first..range.first + range.count {
            let n = u32::from(register);
            let scalar = || wave.s.get(usize::from(register)).copied().unwrap_or(0);
            let (name, value) = match range.file {
                RegFile::Vgpr => (format!("v{n}"), wave.v.read(n)[lane as usize]),
                RegFile::Agpr => {
                    let row = wave.v.read(n + device.target.acc_base());
                    (format!("a{n}"), row[lane as usize])
                }
                RegFile::Sgpr => match usize::from(register) {
                    scalar::EXEC..scalar::SINK => continue,
                    scalar::M0 => ("m0".to_owned(), scalar()),
                    scalar::VCC => ("vcc_lo".to_owned(), scalar()),
                    107 => ("vcc_hi".to_owned(), scalar()),
                    _ => (format!("s{n}"), scalar()),
                },
                _ => continue,
            };
            let text = format!("{name} {value:#x}");
            if !shown.contains(&text) {
                shown.push(text);
            }
        }
    }
    if shown.is_empty() {
        return String::new();
    }
    if shown.len() > MOST {
        let more = shown.len() - MOST;
        shown.truncate(MOST);
        shown.push(format!("and {more} more"));
    }
    let exec = wave.exec();
    format!("\n  lane {lane}, exec {exec:#x}: {}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code_object::DESCRIPTOR_BYTES;

    fn descriptor(target: Target, rsrc1: u32, rsrc3: u32, properties: u16) -> KernelDescriptor {
        let mut bytes = [0; DESCRIPTOR_BYTES];
        bytes[44..48].copy_from_slice(&rsrc3.to_le_bytes());
        bytes[48..52].copy_from_slice(&rsrc1.to_le_bytes());
        bytes[56..58].copy_from_slice(&properties.to_le_bytes());
        KernelDescriptor::decode(&bytes, target).unwrap()
    }

    #[test]
    fn waves_read_what_they_were_given() {
        // 128 registers, 96 of them VGPRs; 112 SGPRs.
        for target in [Target::Gfx90a, Target::Gfx942, Target::Gfx950] {
            let value = gpr_alloc(target, &descriptor(target, 15 | 12 << 6, 23, 0));
            assert_eq!(value, 15 << 6 | 23 << 12 | 6 << 24, "{target}");
            // All there are: the fields are full and do not run into each other.
            let value = gpr_alloc(target, &descriptor(target, 63 | 12 << 6, 63, 0));
            assert_eq!(value, 63 << 6 | 63 << 12 | 6 << 24, "{target}");
        }
        let wave32 = 1 << 10;
        for target in [Target::Gfx1100, Target::Gfx1151, Target::Gfx1201] {
            let value = gpr_alloc(target, &descriptor(target, 3, 0, wave32));
            assert_eq!(value, 7 << 12, "{target}: 32 VGPRs");
        }
        let value = gpr_alloc(Target::Gfx1250, &descriptor(Target::Gfx1250, 63, 0, wave32));
        assert_eq!(value, 255 << 12, "1024 VGPRs");
    }

    #[test]
    fn lds_is_allocated_in_blocks_that_fill_it() {
        for target in rocjitsu_exec::target::EXECUTABLE {
            assert_eq!(
                target.lds_limit() as usize % lds_block(target),
                0,
                "{target}"
            );
        }
    }
}
