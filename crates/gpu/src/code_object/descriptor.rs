//! The 64-byte kernel descriptor, decoded for a target: registers, modes, user SGPRs.
//! Source: LLVM's AMDGPU usage guide, "Kernel Descriptor", and AMDHSAKernelDescriptor.h.

use rocjitsu_isa::Target;

/// Size of a kernel descriptor in bytes.
pub const DESCRIPTOR_BYTES: usize = 64;

/// Bytes that a kernel's entry skips when its arguments were preloaded into user SGPRs: the
/// prologue that loads them for firmware without preloading.
pub const PRELOAD_PROLOGUE_BYTES: u64 = 256;

/// What makes a descriptor unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum DescriptorError {
    #[error("address {0:#x} is not in a segment with 64 bytes there")]
    Outside(u64),
    #[error(
        "the entry, {offset} bytes from the descriptor at {descriptor:#x}, is not in executable bytes of the file"
    )]
    Entry { descriptor: u64, offset: i64 },
    #[error("the entry {0:#x} is not a multiple of 256")]
    EntryAlignment(u64),
    #[error("reserved bytes at offset {offset} hold {value:#x}")]
    Reserved { offset: usize, value: u64 },
    #[error("it asks for waves of 32 lanes, which {0} does not have")]
    Wave32(Target),
    #[error("it asks for waves of 64 lanes, which {0} does not have")]
    Wave64(Target),
    #[error("its AccVGPRs start at {first}, beyond the {total} registers it declares")]
    AccumOffset { first: u32, total: u32 },
    #[error("it preloads {length} dwords of arguments, which {target} does not do")]
    Preload { length: u32, target: Target },
    #[error("its user SGPRs take {needed} registers, but USER_SGPR_COUNT is {count}")]
    UserSgprs { needed: u32, count: u32 },
    #[error("waves of {descriptor} lanes, but the metadata says {metadata}")]
    WaveSize { descriptor: u32, metadata: u32 },
}

/// COMPUTE_PGM_RSRC1. A field that the target does not have is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rsrc1 {
    /// The register as stored.
    pub raw: u32,
    /// GRANULATED_WORKITEM_VGPR_COUNT, bits 5:0.
    pub granulated_vgprs: u32,
    /// GRANULATED_WAVEFRONT_SGPR_COUNT, bits 9:6; ignored from GFX10 on.
    pub granulated_sgprs: u32,
    /// PRIORITY, bits 11:10.
    pub priority: u32,
    /// FLOAT_ROUND_MODE_32, bits 13:12: 0 nearest even, 1 up, 2 down, 3 to zero.
    pub round_32: u32,
    /// FLOAT_ROUND_MODE_16_64, bits 15:14.
    pub round_16_64: u32,
    /// FLOAT_DENORM_MODE_32, bits 17:16: bit 0 keeps sources, bit 1 keeps results.
    pub denorm_32: u32,
    /// FLOAT_DENORM_MODE_16_64, bits 19:18.
    pub denorm_16_64: u32,
    /// PRIV, bit 20.
    pub privileged: bool,
    /// ENABLE_DX10_CLAMP, bit 21, up to GFX11.
    pub dx10_clamp: Option<bool>,
    /// WG_RR_EN, bit 21, GFX12.
    pub workgroup_round_robin: Option<bool>,
    /// DEBUG_MODE, bit 22.
    pub debug: bool,
    /// ENABLE_IEEE_MODE, bit 23, up to GFX11.
    pub ieee: Option<bool>,
    /// DISABLE_PERF, bit 23, GFX12.
    pub disable_perf: Option<bool>,
    /// FP16_OVFL, bit 26.
    pub fp16_overflow: bool,
    /// FLAT_SCRATCH_IS_NV, bit 27, gfx1250.
    pub flat_scratch_is_nv: Option<bool>,
    /// WGP_MODE, bit 29, GFX10 on.
    pub wgp_mode: Option<bool>,
    /// MEM_ORDERED, bit 30, GFX10 on.
    pub mem_ordered: Option<bool>,
    /// FWD_PROGRESS, bit 31, GFX10 on.
    pub forward_progress: Option<bool>,
}

/// COMPUTE_PGM_RSRC2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rsrc2 {
    /// The register as stored.
    pub raw: u32,
    /// ENABLE_PRIVATE_SEGMENT, bit 0.
    pub private_segment: bool,
    /// USER_SGPR_COUNT, bits 5:1 (6:1 on gfx1250). System SGPRs begin at this number.
    pub user_sgpr_count: u32,
    /// ENABLE_TRAP_HANDLER, bit 6, up to GFX11.
    pub trap_handler: Option<bool>,
    /// ENABLE_DYNAMIC_VGPR, bit 6, gfx12 other than gfx1250.
    pub dynamic_vgpr: Option<bool>,
    /// ENABLE_SGPR_WORKGROUP_ID_X, Y, Z, bits 9:7.
    pub workgroup_id: [bool; 3],
    /// ENABLE_SGPR_WORKGROUP_INFO, bit 10.
    pub workgroup_info: bool,
    /// ENABLE_VGPR_WORKITEM_ID, bits 12:11: 0 x, 1 x and y, 2 x, y and z.
    pub workitem_id: u32,
    /// ENABLE_EXCEPTION_*, bits 13, 14 and 30:24, as they stand in the register.
    pub exceptions: u32,
    /// GRANULATED_LDS_SIZE, bits 23:15: written by the packet processor, zero in files.
    pub granulated_lds: u32,
}

/// COMPUTE_PGM_RSRC3. A field that the target does not have is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rsrc3 {
    /// The register as stored.
    pub raw: u32,
    /// First AccVGPR in the unified register file, (ACCUM_OFFSET + 1) * 4; gfx90a, gfx942, gfx950.
    pub accum_offset: Option<u32>,
    /// TG_SPLIT, bit 16; gfx90a, gfx942, gfx950.
    pub tg_split: Option<bool>,
    /// SHARED_VGPR_COUNT, bits 3:0; GFX10 and GFX11.
    pub shared_vgprs: Option<u32>,
    /// INST_PREF_SIZE in units of 128 bytes; GFX11 (bits 9:4) and GFX12 (bits 11:4).
    pub instruction_prefetch: Option<u32>,
    /// GLG_EN, bit 13; GFX12.
    pub glg: Option<bool>,
    /// NAMED_BAR_CNT, bits 16:14: named barriers in units of four; gfx1250.
    pub named_barriers: Option<u32>,
    /// ENABLE_DYNAMIC_VGPR, bit 17; gfx1250.
    pub dynamic_vgpr: Option<bool>,
    /// IMAGE_OP, bit 31; GFX11 on.
    pub image_op: Option<bool>,
}

/// KERNEL_CODE_PROPERTIES: which user SGPRs are set up, and how waves run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Properties {
    /// The field as stored.
    pub raw: u16,
    pub private_segment_buffer: bool,
    pub dispatch_ptr: bool,
    pub queue_ptr: bool,
    pub kernarg_segment_ptr: bool,
    pub dispatch_id: bool,
    pub flat_scratch_init: bool,
    pub private_segment_size: bool,
    pub wavefront_size32: bool,
    pub uses_dynamic_stack: bool,
}

/// Numbers of the user SGPRs in which a wave finds its inputs. `None`: not set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserSgprs {
    /// Buffer descriptor of the scratch memory, 4 registers.
    pub private_segment_buffer: Option<u32>,
    /// Address of the AQL dispatch packet, 2 registers.
    pub dispatch_ptr: Option<u32>,
    /// Address of the `amd_queue_t`, 2 registers.
    pub queue_ptr: Option<u32>,
    /// Address of the kernarg segment, 2 registers.
    pub kernarg_segment_ptr: Option<u32>,
    /// Number of the dispatch, 2 registers.
    pub dispatch_id: Option<u32>,
    /// FLAT_SCRATCH initialisation, 2 registers.
    pub flat_scratch_init: Option<u32>,
    /// Scratch bytes per thread, 1 register.
    pub private_segment_size: Option<u32>,
    /// First register of the preloaded arguments.
    pub preload: Option<u32>,
    /// Registers taken, all together.
    pub used: u32,
}

/// Kernel arguments that are placed in user SGPRs before the wave starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preload {
    /// Number of dwords; zero means that nothing is preloaded and the entry is not moved.
    pub length: u32,
    /// First dword of the kernarg segment that is preloaded.
    pub offset: u32,
}

/// A kernel descriptor, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelDescriptor {
    /// Static LDS per workgroup in bytes.
    pub group_segment_fixed_size: u32,
    /// Scratch per thread in bytes.
    pub private_segment_fixed_size: u32,
    /// Size of the kernarg segment in bytes; zero if the compiler did not say.
    pub kernarg_size: u32,
    /// Entry of the code, in bytes from the descriptor's own address.
    pub entry_offset: i64,
    /// Modes and register counts.
    pub rsrc1: Rsrc1,
    /// Inputs of the wave.
    pub rsrc2: Rsrc2,
    /// More of both, different in each family.
    pub rsrc3: Rsrc3,
    /// User SGPRs, wave size.
    pub properties: Properties,
    /// Arguments in user SGPRs.
    pub preload: Preload,
    /// Where the user SGPRs lie.
    pub user_sgprs: UserSgprs,
    /// Lanes of a wave, 32 or 64.
    pub wave_size: u32,
    /// Vector registers that a lane may name as VGPRs.
    pub vgprs: u32,
    /// Accumulation registers that a lane may name as AccVGPRs.
    pub agprs: u32,
    /// Scalar registers of a wave, VCC included where it lies among them.
    pub sgprs: u32,
}

/// What differs between targets.
struct Family {
    /// GFX10 and later.
    gfx10: bool,
    gfx11: bool,
    gfx12: bool,
    gfx1250: bool,
    /// VGPRs and AccVGPRs share one file: gfx90a, gfx942, gfx950.
    unified: bool,
    preload: bool,
}

impl Family {
    fn of(target: Target) -> Self {
        use Target::*;
        let gfx1250 = target == Gfx1250;
        let gfx12 = gfx1250 || target == Gfx1201;
        let gfx11 = gfx12 || matches!(target, Gfx1100 | Gfx1151);
        let gfx10 = gfx11 || target == Gfx1030;
        let unified = matches!(target, Gfx90a | Gfx942 | Gfx950);
        Family {
            gfx10,
            gfx11,
            gfx12,
            gfx1250,
            unified,
            preload: unified || gfx1250,
        }
    }
}

impl KernelDescriptor {
    /// Decodes a descriptor for a target and checks that its fields fit together.
    pub fn decode(bytes: &[u8; DESCRIPTOR_BYTES], target: Target) -> Result<Self, DescriptorError> {
        let family = Family::of(target);
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from(half(at)) | u32::from(half(at + 2)) << 16;
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        for (offset, value) in [
            (12, word(12).into()),
            (24, long(24)),
            (32, long(32)),
            (40, word(40).into()),
            (60, word(60).into()),
        ] {
            if value != 0 {
                return Err(DescriptorError::Reserved { offset, value });
            }
        }
        let rsrc1 = Rsrc1::decode(word(48), &family);
        let rsrc2 = Rsrc2::decode(word(52), &family);
        let rsrc3 = Rsrc3::decode(word(44), &family);
        let properties = Properties::decode(half(56));
        let preload = Preload {
            length: u32::from(half(58) & 0x7f),
            offset: u32::from(half(58) >> 7),
        };
        if preload.length != 0 && !family.preload {
            return Err(DescriptorError::Preload {
                length: preload.length,
                target,
            });
        }
        let wave_size = match (properties.wavefront_size32, family.gfx10) {
            (true, false) => return Err(DescriptorError::Wave32(target)),
            (false, _) if family.gfx1250 => return Err(DescriptorError::Wave64(target)),
            (true, true) => 32,
            (false, _) => 64,
        };
        let user_sgprs = UserSgprs::layout(&properties, &preload);
        if user_sgprs.used > rsrc2.user_sgpr_count {
            return Err(DescriptorError::UserSgprs {
                needed: user_sgprs.used,
                count: rsrc2.user_sgpr_count,
            });
        }
        let granule = match (wave_size, family.gfx10) {
            _ if family.gfx1250 => 16,
            _ if family.unified => 8,
            (32, _) => 8,
            _ => 4,
        };
        let total = (rsrc1.granulated_vgprs + 1) * granule;
        let (vgprs, agprs) = match rsrc3.accum_offset {
            Some(first) if first > total => {
                return Err(DescriptorError::AccumOffset { first, total });
            }
            Some(first) => (first, total - first),
            None if target == Target::Gfx908 => (total, total),
            None => (total, 0),
        };
        let sgprs = if family.gfx10 {
            108
        } else {
            (rsrc1.granulated_sgprs + 1) * 8
        };
        Ok(KernelDescriptor {
            group_segment_fixed_size: word(0),
            private_segment_fixed_size: word(4),
            kernarg_size: word(8),
            entry_offset: long(16) as i64,
            rsrc1,
            rsrc2,
            rsrc3,
            properties,
            preload,
            user_sgprs,
            wave_size,
            vgprs,
            agprs,
            sgprs,
        })
    }
}

fn field(raw: u32, low: u32, width: u32) -> u32 {
    raw >> low & ((1 << width) - 1)
}

fn bit(raw: u32, at: u32) -> bool {
    field(raw, at, 1) == 1
}

impl Rsrc1 {
    fn decode(raw: u32, family: &Family) -> Self {
        let when = |has: bool, at: u32| has.then(|| bit(raw, at));
        Rsrc1 {
            raw,
            granulated_vgprs: field(raw, 0, 6),
            granulated_sgprs: field(raw, 6, 4),
            priority: field(raw, 10, 2),
            round_32: field(raw, 12, 2),
            round_16_64: field(raw, 14, 2),
            denorm_32: field(raw, 16, 2),
            denorm_16_64: field(raw, 18, 2),
            privileged: bit(raw, 20),
            dx10_clamp: when(!family.gfx12, 21),
            workgroup_round_robin: when(family.gfx12, 21),
            debug: bit(raw, 22),
            ieee: when(!family.gfx12, 23),
            disable_perf: when(family.gfx12, 23),
            fp16_overflow: bit(raw, 26),
            flat_scratch_is_nv: when(family.gfx1250, 27),
            wgp_mode: when(family.gfx10, 29),
            mem_ordered: when(family.gfx10, 30),
            forward_progress: when(family.gfx10, 31),
        }
    }
}

impl Rsrc2 {
    fn decode(raw: u32, family: &Family) -> Self {
        Rsrc2 {
            raw,
            private_segment: bit(raw, 0),
            user_sgpr_count: field(raw, 1, if family.gfx1250 { 6 } else { 5 }),
            trap_handler: (!family.gfx12).then(|| bit(raw, 6)),
            dynamic_vgpr: (family.gfx12 && !family.gfx1250).then(|| bit(raw, 6)),
            workgroup_id: [bit(raw, 7), bit(raw, 8), bit(raw, 9)],
            workgroup_info: bit(raw, 10),
            workitem_id: field(raw, 11, 2),
            exceptions: raw & 0x7f00_6000,
            granulated_lds: field(raw, 15, 9),
        }
    }
}

impl Rsrc3 {
    fn decode(raw: u32, family: &Family) -> Self {
        let gfx11_only = family.gfx11 && !family.gfx12;
        Rsrc3 {
            raw,
            accum_offset: family.unified.then(|| (field(raw, 0, 6) + 1) * 4),
            tg_split: family.unified.then(|| bit(raw, 16)),
            shared_vgprs: (family.gfx10 && !family.gfx12).then(|| field(raw, 0, 4)),
            instruction_prefetch: match (family.gfx12, gfx11_only) {
                (true, _) => Some(field(raw, 4, 8)),
                (_, true) => Some(field(raw, 4, 6)),
                _ => None,
            },
            glg: family.gfx12.then(|| bit(raw, 13)),
            named_barriers: family.gfx1250.then(|| field(raw, 14, 3)),
            dynamic_vgpr: family.gfx1250.then(|| bit(raw, 17)),
            image_op: family.gfx11.then(|| bit(raw, 31)),
        }
    }
}

impl Properties {
    fn decode(raw: u16) -> Self {
        let bit = |at: u32| raw >> at & 1 == 1;
        Properties {
            raw,
            private_segment_buffer: bit(0),
            dispatch_ptr: bit(1),
            queue_ptr: bit(2),
            kernarg_segment_ptr: bit(3),
            dispatch_id: bit(4),
            flat_scratch_init: bit(5),
            private_segment_size: bit(6),
            wavefront_size32: bit(10),
            uses_dynamic_stack: bit(11),
        }
    }
}

impl UserSgprs {
    /// The fixed order of the ABI: each input that is asked for follows the one before it.
    fn layout(properties: &Properties, preload: &Preload) -> Self {
        let mut used = 0;
        let mut take = |wanted: bool, registers: u32| {
            wanted.then(|| {
                used += registers;
                used - registers
            })
        };
        let mut layout = UserSgprs {
            private_segment_buffer: take(properties.private_segment_buffer, 4),
            dispatch_ptr: take(properties.dispatch_ptr, 2),
            queue_ptr: take(properties.queue_ptr, 2),
            kernarg_segment_ptr: take(properties.kernarg_segment_ptr, 2),
            dispatch_id: take(properties.dispatch_id, 2),
            flat_scratch_init: take(properties.flat_scratch_init, 2),
            private_segment_size: take(properties.private_segment_size, 1),
            preload: take(preload.length != 0, preload.length),
            used: 0,
        };
        layout.used = used;
        layout
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(rsrc: [u32; 3], properties: u16, preload: u16) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes[0..4].copy_from_slice(&96u32.to_le_bytes());
        bytes[16..24].copy_from_slice(&(-256i64).to_le_bytes());
        bytes[48..52].copy_from_slice(&rsrc[0].to_le_bytes());
        bytes[52..56].copy_from_slice(&rsrc[1].to_le_bytes());
        bytes[44..48].copy_from_slice(&rsrc[2].to_le_bytes());
        bytes[56..58].copy_from_slice(&properties.to_le_bytes());
        bytes[58..60].copy_from_slice(&preload.to_le_bytes());
        bytes
    }

    #[test]
    fn unified_register_file_splits_at_accum_offset() {
        let bytes = descriptor([0xaf_00c6, 0x1a0, 13], 8, 14);
        let kd = KernelDescriptor::decode(&bytes, Target::Gfx942).unwrap();
        assert_eq!(
            (kd.wave_size, kd.vgprs, kd.agprs, kd.sgprs),
            (64, 56, 0, 32)
        );
        assert_eq!((kd.rsrc2.user_sgpr_count, kd.user_sgprs.used), (16, 16));
        assert_eq!(
            (kd.user_sgprs.kernarg_segment_ptr, kd.user_sgprs.preload),
            (Some(0), Some(2))
        );
        assert_eq!(
            (kd.rsrc1.ieee, kd.rsrc1.dx10_clamp, kd.rsrc1.denorm_32),
            (Some(true), Some(true), 3)
        );
        assert_eq!((kd.entry_offset, kd.group_segment_fixed_size), (-256, 96));
        let past = descriptor([0, 0x1a0, 13], 8, 14);
        assert_eq!(
            KernelDescriptor::decode(&past, Target::Gfx942),
            Err(DescriptorError::AccumOffset {
                first: 56,
                total: 8
            })
        );
    }

    #[test]
    fn wave_size_sets_the_granule_from_gfx10_on() {
        let wave32 =
            KernelDescriptor::decode(&descriptor([3, 0, 0], 0x400, 0), Target::Gfx1100).unwrap();
        assert_eq!((wave32.wave_size, wave32.vgprs), (32, 32));
        let wave64 =
            KernelDescriptor::decode(&descriptor([3, 0, 0], 0, 0), Target::Gfx1100).unwrap();
        assert_eq!((wave64.wave_size, wave64.vgprs), (64, 16));
        let big = KernelDescriptor::decode(&descriptor([0x3f, 0x7e, 0], 0x400, 0), Target::Gfx1250)
            .unwrap();
        assert_eq!(
            (big.vgprs, big.rsrc2.user_sgpr_count, big.rsrc1.ieee),
            (1024, 63, None)
        );
        let decode = |target| KernelDescriptor::decode(&descriptor([3, 0, 0], 0x400, 0), target);
        assert_eq!(
            decode(Target::Gfx90a),
            Err(DescriptorError::Wave32(Target::Gfx90a))
        );
        let wave64 = KernelDescriptor::decode(&descriptor([3, 0, 0], 0, 0), Target::Gfx1250);
        assert_eq!(wave64, Err(DescriptorError::Wave64(Target::Gfx1250)));
    }

    #[test]
    fn contradictions_are_named() {
        let crowded = KernelDescriptor::decode(&descriptor([0, 0x4, 0], 0x7f, 0), Target::Gfx90a);
        assert_eq!(
            crowded,
            Err(DescriptorError::UserSgprs {
                needed: 15,
                count: 2
            })
        );
        let preload = KernelDescriptor::decode(&descriptor([0, 0x10, 0], 0, 2), Target::Gfx1201);
        assert_eq!(
            preload,
            Err(DescriptorError::Preload {
                length: 2,
                target: Target::Gfx1201
            })
        );
        let mut reserved = descriptor([0, 0, 0], 0, 0);
        reserved[33] = 1;
        let error = KernelDescriptor::decode(&reserved, Target::Gfx90a);
        assert_eq!(
            error,
            Err(DescriptorError::Reserved {
                offset: 32,
                value: 0x100
            })
        );
    }
}
