//! What the simulation and the simulated driver tell of a GPU.
//! Counts are those of one topology node: a partition of a GPU is a [`Gpu`] of its own.

use serde::Serialize;

/// A simulated GPU, or one compute partition of it.
///
/// Numbers without a unit in their name are counts. The names of the kernel's topology properties
/// stand in the comments (Linux, `drivers/gpu/drm/amd/amdkfd/kfd_topology.c`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gpu {
    /// Name of the preset, such as `mi300x`.
    pub name: String,
    /// The product's name.
    pub product: String,
    /// Processor, such as `gfx942`.
    pub target: String,
    /// Compute units, over all XCCs.
    pub compute_units: u32,
    /// SIMD units of a compute unit (`simd_per_cu`).
    pub simds_per_cu: u32,
    /// Wave slots of a SIMD unit (`max_waves_per_simd`).
    pub waves_per_simd: u32,
    /// LDS of a compute unit in KiB, which is also the most that a workgroup can have.
    pub lds_kib: u32,
    /// Device memory in bytes.
    pub vram_bytes: u64,
    /// Accelerator dies, among which workgroups are dealt out (`num_xcc`).
    pub xccs: u32,
    /// Highest engine clock in MHz (`max_engine_clk_fcompute`).
    pub clock_mhz: u32,
    /// Clock of the GPU's time counter in kHz.
    pub counter_khz: u32,
    /// Lanes of a wave in the default mode (`wave_front_size`).
    pub wave_size: u32,
    /// Shader engines of one XCC.
    pub shader_engines: u32,
    /// Shader arrays of a shader engine (`simd_arrays_per_engine`).
    pub arrays_per_engine: u32,
    /// Places for compute units in a shader array, of which some may be fused off
    /// (`cu_per_simd_array`).
    pub cus_per_array: u32,
    /// Waves of a compute unit that can have scratch (`max_slots_scratch_cu`).
    pub scratch_slots_per_cu: u32,
    /// Global wave sync resources (`num_gws`).
    pub gws: u32,
    /// Hardware queues of the compute micro engine (`num_cp_queues`).
    pub compute_queues: u32,
    /// `capability` as the real driver reports it; [`crate::Options::debugger`] decides whether
    /// the bits that promise a debugger are shown.
    pub capability: u32,
    /// `capability2`.
    pub capability2: u32,
    /// `debug_prop`.
    pub debug_prop: u64,
    /// True for a GPU that shares the processor's memory controller.
    pub apu: bool,
    /// How it is found: ids, buses.
    pub identity: Identity,
    /// The interface to device memory.
    pub memory: MemoryInterface,
    /// Copy engines.
    pub sdma: Sdma,
    /// Versions of firmware.
    pub firmware: Firmware,
    /// Caches, nearest first.
    pub caches: Vec<Cache>,
    /// Versions of the blocks of hardware, as the IP discovery table has them.
    pub ip_blocks: Vec<IpBlock>,
    /// Which part of a card this is.
    pub partition: Partition,
}

/// Ids of a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Identity {
    /// The driver's id, a nonzero 16-bit number, different for each node.
    pub gpu_id: u32,
    /// PCI vendor.
    pub vendor_id: u32,
    /// PCI device.
    pub device_id: u32,
    /// PCI revision, by which `amdgpu.ids` tells products apart.
    pub pci_revision: u32,
    /// PCI subsystem vendor and device.
    pub subsystem: (u32, u32),
    /// Revision of the chip, as `chip_rev` of DRM's device information.
    pub chip_revision: u32,
    /// `external_rev` of DRM's device information.
    pub external_revision: u32,
    /// Family (`AMDGPU_FAMILY_*` of `amdgpu_drm.h`).
    pub family: u32,
    /// Serial number of the chip; the UUID is made of it.
    pub unique_id: u64,
    /// PCI domain.
    pub domain: u32,
    /// PCI bus << 8 | device << 3 | function; a partition's index is ORed in.
    pub location_id: u32,
    /// Which XGMI hive it belongs to; 0 for none.
    pub hive_id: u64,
    /// Minor number of `/dev/dri/renderD*`.
    pub render_minor: u32,
}

/// The interface to device memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryInterface {
    /// What kind of memory it is.
    pub kind: MemoryKind,
    /// Width in bits.
    pub width_bits: u32,
    /// Highest clock in MHz.
    pub clock_mhz: u32,
}

/// Kinds of device memory (`AMDGPU_VRAM_TYPE_*` of `amdgpu_drm.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum MemoryKind {
    Hbm = 6,
    Gddr6 = 9,
    Ddr5 = 10,
    Lpddr5 = 12,
    Hbm3e = 13,
    Hbm4 = 14,
}

impl MemoryKind {
    /// All kinds with their number.
    pub const ALL: [MemoryKind; 6] = [
        MemoryKind::Hbm,
        MemoryKind::Gddr6,
        MemoryKind::Ddr5,
        MemoryKind::Lpddr5,
        MemoryKind::Hbm3e,
        MemoryKind::Hbm4,
    ];

    /// The number in `amdgpu_drm.h`.
    pub fn number(self) -> u32 {
        self as u32
    }
}

/// Copy engines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sdma {
    /// Engines for any copy.
    pub engines: u32,
    /// Engines for copies between GPUs of a hive.
    pub xgmi_engines: u32,
    /// Queues of an engine.
    pub queues_per_engine: u32,
}

/// Versions of firmware that programs ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Firmware {
    /// Compute micro engine (`fw_version`).
    pub mec: u32,
    /// Copy engine (`sdma_fw_version`).
    pub sdma: u32,
}

/// Kinds of caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// Vector data, or data of any kind.
    Data,
    /// Scalar data.
    Scalar,
    /// Instructions.
    Instruction,
}

/// Who shares one cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheScope {
    /// This many neighbouring compute units of a shader array.
    Cus(u32),
    /// A shader array.
    Array,
    /// All compute units of the node: one entry in the topology, with the size of one instance.
    Node,
}

/// A level of cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cache {
    /// 1 is the nearest to the compute units.
    pub level: u32,
    /// What it holds.
    pub kind: CacheKind,
    /// Size of one instance in KiB.
    pub kib: u32,
    /// Bytes of a line.
    pub line: u32,
    /// Who shares an instance.
    pub scope: CacheScope,
}

/// A block of hardware with its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct IpBlock {
    /// Hardware id (Linux, `include/soc15_hw_ip.h` of amdgpu): 11 is GC, 42 SDMA0, 108 NBIF.
    pub hardware_id: u32,
    /// Major, minor and revision of its version.
    pub version: (u8, u8, u8),
}

/// Hardware id of the graphics core.
pub const GC_HWID: u32 = 11;
/// Hardware id of the first copy engine.
pub const SDMA0_HWID: u32 = 42;
/// Hardware id of the bus interface.
pub const NBIF_HWID: u32 = 108;

/// Which part of a card a node is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Partition {
    /// How the card is divided.
    pub mode: PartitionMode,
    /// How it could be divided.
    pub modes: Vec<PartitionMode>,
    /// This part, from 0.
    pub index: u32,
    /// Parts of the card.
    pub count: u32,
}

/// How the XCCs of a card are divided into nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum PartitionMode {
    /// One node.
    Spx,
    /// Two nodes.
    Dpx,
    /// Three nodes.
    Tpx,
    /// Four nodes.
    Qpx,
    /// A node for each XCC.
    Cpx,
}

impl PartitionMode {
    /// All modes.
    pub const ALL: [PartitionMode; 5] = [
        PartitionMode::Spx,
        PartitionMode::Dpx,
        PartitionMode::Tpx,
        PartitionMode::Qpx,
        PartitionMode::Cpx,
    ];

    /// Its name, such as `SPX`.
    pub fn name(self) -> &'static str {
        match self {
            PartitionMode::Spx => "SPX",
            PartitionMode::Dpx => "DPX",
            PartitionMode::Tpx => "TPX",
            PartitionMode::Qpx => "QPX",
            PartitionMode::Cpx => "CPX",
        }
    }

    /// The mode of a name in capital or small letters.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.name().eq_ignore_ascii_case(name))
    }

    /// The number of nodes that a card with this many XCCs is divided into; none if they cannot be
    /// divided so.
    pub fn parts(self, xccs: u32) -> Option<u32> {
        let parts = match self {
            PartitionMode::Spx => 1,
            PartitionMode::Dpx => 2,
            PartitionMode::Tpx => 3,
            PartitionMode::Qpx => 4,
            PartitionMode::Cpx => xccs,
        };
        (parts > 0 && parts <= xccs && xccs.is_multiple_of(parts)).then_some(parts)
    }
}

impl Gpu {
    /// `gfx_target_version`: major * 10000 + minor * 100 + stepping, each decimal.
    ///
    /// GC 9.4.3 is reported as 9.4.2 of gfx942 by production chips, hence 90402; gfx1250 is 120500.
    pub fn gfx_target_version(&self) -> u32 {
        target_version(&self.target).unwrap_or(0)
    }

    /// SIMD units over all XCCs (`simd_count`).
    pub fn simd_count(&self) -> u32 {
        self.compute_units * self.simds_per_cu
    }

    /// Shader arrays over all XCCs (`array_count`).
    pub fn array_count(&self) -> u32 {
        self.xccs * self.arrays_per_xcc()
    }

    /// Shader arrays of one XCC.
    pub fn arrays_per_xcc(&self) -> u32 {
        self.shader_engines * self.arrays_per_engine
    }

    /// Which compute units of a shader array work, as a bit mask.
    ///
    /// `array` counts over all arrays of an XCC. Units that are fused off are spread evenly, the
    /// last ones of the last arrays first.
    pub fn cu_mask(&self, array: u32) -> u32 {
        let arrays = self.arrays_per_xcc().max(1);
        let per_xcc = self.compute_units / self.xccs.max(1);
        let here = per_xcc / arrays + u32::from(array < per_xcc % arrays);
        if here >= 32 {
            u32::MAX
        } else {
            (1 << here) - 1
        }
    }

    /// Waves that the context save area of an XCC has room for (`kfd_queue_ctx_save_restore_size`).
    pub fn save_area_waves(&self) -> u64 {
        let cus = u64::from(self.compute_units / self.xccs.max(1));
        match self.gfx_target_version() {
            ..100_100 => (cus * 40).min(u64::from(self.shader_engines) * 512),
            _ => cus * 32,
        }
    }

    /// Bytes that the save area of one XCC needs, and how many of them are the control stack:
    /// `(cwsr_size, ctl_stack_size)`.
    ///
    /// Linux, `kfd_queue.c`, `kfd_queue_ctx_save_restore_size`.
    pub fn save_area(&self) -> (u64, u64) {
        let version = self.gfx_target_version();
        let page = |bytes: u64| bytes.next_multiple_of(4096);
        let cus = u64::from(self.compute_units / self.xccs.max(1));
        let gfx9 = version < 100_100;
        let waves = self.save_area_waves();
        let mut control = page(waves * if gfx9 { 8 } else { 12 } + 8 + 40);
        if (100_100..110_000).contains(&version) {
            control = control.min(0x7000);
        }
        let vgprs: u64 = match version {
            90_008 | 90_010 | 90_400..=90_402 | 90_500 => 0x8_0000,
            110_000 | 110_001 | 120_000 | 120_001 => 0x6_0000,
            _ => 0x4_0000,
        };
        let (sgprs, registers) = (0x4000, 0x1000);
        let groups = page(cus * (vgprs + sgprs + (u64::from(self.lds_kib) << 10) + registers));
        (control + groups, control)
    }

    /// The version of a block of hardware.
    pub fn ip_version(&self, hardware_id: u32) -> Option<(u8, u8, u8)> {
        self.ip_blocks
            .iter()
            .find(|block| block.hardware_id == hardware_id)
            .map(|block| block.version)
    }

    /// The cache of a level and kind.
    pub fn cache(&self, level: u32, kind: CacheKind) -> Option<&Cache> {
        self.caches
            .iter()
            .find(|cache| (cache.level, cache.kind) == (level, kind))
    }

    /// `domain:bus:device.function`, as PCI addresses are written.
    pub fn pci_address(&self) -> String {
        let Identity {
            domain,
            location_id,
            ..
        } = self.identity;
        format!(
            "{domain:04x}:{:02x}:{:02x}.{:x}",
            (location_id >> 8) & 0xff,
            (location_id >> 3) & 0x1f,
            // A partition's index is no function of the device.
            if self.partition.count > 1 {
                0
            } else {
                location_id & 7
            }
        )
    }
}

/// The packed version of a target's name: the last two characters are minor and stepping in
/// hexadecimal.
pub(crate) fn target_version(target: &str) -> Option<u32> {
    let digits = target.strip_prefix("gfx")?;
    if !digits.is_ascii() || digits.len() < 3 {
        return None;
    }
    let (major, rest) = digits.split_at(digits.len() - 2);
    let (minor, stepping) = rest.split_at(1);
    Some(
        major.parse::<u32>().ok().filter(|&major| major < 100)? * 10_000
            + u32::from_str_radix(minor, 16).ok()? * 100
            + u32::from_str_radix(stepping, 16).ok()?,
    )
}
