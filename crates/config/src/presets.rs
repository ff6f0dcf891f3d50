//! The GPUs that can be simulated by name. Values are those that the driver reports for the
//! cards, unless the comment at a preset says otherwise.

use crate::gpu::{
    Cache, CacheKind, CacheScope, Firmware, GC_HWID, Gpu, Identity, IpBlock, MemoryInterface,
    MemoryKind, NBIF_HWID, Partition, PartitionMode, SDMA0_HWID, Sdma,
};

/// A preset as the table below has it. One line of the table may hold several values; their
/// order is given here.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    name: &'static str,
    product: &'static str,
    target: &'static str,
    compute_units: u32,
    waves_per_simd: u32,
    lds_kib: u32,
    vram_bytes: u64,
    xccs: u32,
    clock_mhz: u32,
    /// Shader engines of an XCC, arrays of an engine, places for compute units in an array.
    geometry: [u32; 3],
    /// Hardware queues of the compute micro engine.
    compute_queues: u32,
    /// `capability`, `capability2`, `debug_prop`.
    promises: [u32; 3],
    /// PCI device and revision; chip and external revision; family.
    ids: [u32; 5],
    gpu_id: u32,
    unique_id: u64,
    /// PCI bus << 8 of the first card.
    location_id: u32,
    memory: (MemoryKind, u32, u32),
    /// Engines for any copy, for XGMI; queues of an engine.
    sdma: [u32; 3],
    /// Compute micro engine, copy engine.
    firmware: [u32; 2],
    /// Vector L1: KiB, line. L2: KiB, line. L3: KiB.
    caches: [u32; 5],
    /// Versions of graphics core, copy engine, bus interface.
    ip: [(u8, u8, u8); 3],
    /// Ways to divide the card besides SPX.
    modes: &'static [PartitionMode],
}

const GIB: u64 = 1 << 30;
const INSTINCT: &[PartitionMode] = &[PartitionMode::Dpx, PartitionMode::Qpx, PartitionMode::Cpx];

/// Every preset, by family.
pub const PRESETS: [Preset; 7] = [
    // Array geometry, XGMI engines and the clock are from memory of public dumps.
    Preset {
        name: "mi210",
        product: "AMD Instinct MI210",
        target: "gfx90a",
        compute_units: 104,
        waves_per_simd: 8,
        lds_kib: 64,
        vram_bytes: 68_702_699_520,
        xccs: 1,
        clock_mhz: 1700,
        geometry: [8, 1, 14],
        compute_queues: 24,
        promises: [0x2C77_A280, 0, 470],
        ids: [0x740f, 0x02, 1, 0x3d, 141],
        gpu_id: 50149,
        unique_id: 0x5f5c_9a21_0d31_7401,
        location_id: 0xc100,
        memory: (MemoryKind::Hbm, 4096, 1600),
        sdma: [2, 3, 8],
        firmware: [78, 8],
        caches: [16, 64, 8192, 128, 0],
        ip: [(9, 4, 2), (4, 4, 0), (7, 4, 4)],
        modes: &[],
    },
    Preset {
        name: "mi300x",
        product: "AMD Instinct MI300X",
        target: "gfx942",
        compute_units: 304,
        waves_per_simd: 8,
        lds_kib: 64,
        vram_bytes: 205_822_885_888,
        xccs: 8,
        clock_mhz: 2100,
        geometry: [4, 1, 10],
        compute_queues: 24,
        promises: [0x2C77_A280, 0, 1511],
        ids: [0x74a1, 0x00, 1, 0x47, 141],
        gpu_id: 28851,
        unique_id: 0x6b1d_03c2_55e0_74a1,
        location_id: 0x0300,
        memory: (MemoryKind::Hbm, 8192, 1300),
        sdma: [2, 14, 8],
        firmware: [192, 25],
        caches: [32, 128, 4096, 128, 262_144],
        ip: [(9, 4, 3), (4, 4, 2), (7, 9, 0)],
        modes: INSTINCT,
    },
    // From the data sheet: 256 compute units, 288 GB, 2400 MHz; 160 KiB LDS from the ISA manual.
    // Capabilities, memory size and clock as published for the MI350X; firmware is a guess (below
    // the version that turns on asynchronous scratch reclaim).
    Preset {
        name: "mi355x",
        product: "AMD Instinct MI355X",
        target: "gfx950",
        compute_units: 256,
        waves_per_simd: 8,
        lds_kib: 160,
        vram_bytes: 309_220_868_096,
        xccs: 8,
        clock_mhz: 2400,
        geometry: [4, 1, 9],
        compute_queues: 24,
        promises: [0xAC37_A280, 1, 1494],
        ids: [0x75a3, 0x00, 0, 0x50, 141],
        gpu_id: 38144,
        unique_id: 0x524a_5f00_11c4_75a3,
        location_id: 0x0300,
        memory: (MemoryKind::Hbm3e, 8192, 1900),
        sdma: [2, 14, 8],
        firmware: [20, 9],
        caches: [32, 128, 4096, 128, 262_144],
        ip: [(9, 5, 0), (4, 4, 5), (7, 9, 1)],
        modes: INSTINCT,
    },
    // Announced: 432 GB of memory. LDS (320 KiB) is the CDNA 5 ISA manual's. Compute units (here:
    // WGPs), XCCs, wave slots, clock, caches, memory bus and engines are those of public
    // configurations of AMD's simulator; capabilities, ids, firmware and versions are guesses.
    Preset {
        name: "mi455x",
        product: "AMD Instinct MI455X",
        target: "gfx1250",
        compute_units: 256,
        waves_per_simd: 16,
        lds_kib: 320,
        vram_bytes: 432 * GIB,
        xccs: 8,
        clock_mhz: 2700,
        geometry: [2, 2, 8],
        compute_queues: 24,
        promises: [0x6803_A280, 0, 1495],
        ids: [0x75c1, 0x00, 1, 0x01, 152],
        gpu_id: 1250,
        unique_id: 0x3c21_88f0_61a7_75c1,
        location_id: 0x0300,
        memory: (MemoryKind::Hbm4, 24_576, 1600),
        sdma: [5, 12, 2],
        firmware: [100, 10],
        caches: [64, 128, 196_608, 128, 0],
        ip: [(12, 1, 0), (7, 1, 0), (7, 11, 4)],
        modes: INSTINCT,
    },
    // The L3's size and the clock are from memory of public dumps.
    Preset {
        name: "w7900",
        product: "AMD Radeon PRO W7900",
        target: "gfx1100",
        compute_units: 96,
        waves_per_simd: 16,
        lds_kib: 64,
        vram_bytes: 48 * GIB,
        xccs: 1,
        clock_mhz: 1760,
        geometry: [6, 2, 8],
        compute_queues: 8,
        promises: [0x2807_A280, 0, 1495],
        ids: [0x7448, 0x00, 0, 0x01, 145],
        gpu_id: 7019,
        unique_id: 0x634d_bd6e_5d31_7448,
        location_id: 0xe300,
        memory: (MemoryKind::Gddr6, 384, 1124),
        sdma: [2, 0, 6],
        firmware: [2140, 20],
        caches: [32, 128, 6144, 128, 98_304],
        ip: [(11, 0, 0), (6, 0, 0), (4, 3, 0)],
        modes: &[],
    },
    // From the data sheet: 40 compute units, 2900 MHz, 2 MiB L2, 32 MiB L3, 256 bit LPDDR5X; up
    // to 96 GiB of the system's memory can be set aside for the GPU. Capabilities and firmware are
    // guesses after the W7900's.
    Preset {
        name: "strix-halo",
        product: "AMD Radeon 8060S",
        target: "gfx1151",
        compute_units: 40,
        waves_per_simd: 16,
        lds_kib: 64,
        vram_bytes: 96 * GIB,
        xccs: 1,
        clock_mhz: 2900,
        geometry: [2, 2, 10],
        compute_queues: 8,
        promises: [0x2807_A280, 0, 1495],
        ids: [0x1586, 0xc1, 0, 0x40, 150],
        gpu_id: 5510,
        unique_id: 0,
        location_id: 0xc300,
        memory: (MemoryKind::Lpddr5, 256, 1000),
        sdma: [1, 0, 6],
        firmware: [30, 14],
        caches: [32, 128, 2048, 128, 32_768],
        ip: [(11, 5, 1), (6, 1, 1), (7, 11, 1)],
        modes: &[],
    },
    // The version of the copy engine's firmware is a guess.
    Preset {
        name: "r9700",
        product: "AMD Radeon AI PRO R9700",
        target: "gfx1201",
        compute_units: 64,
        waves_per_simd: 16,
        lds_kib: 64,
        vram_bytes: 34_208_743_424,
        xccs: 1,
        clock_mhz: 2350,
        geometry: [4, 2, 8],
        compute_queues: 8,
        promises: [0x6803_A280, 0, 1495],
        ids: [0x7551, 0xc0, 1, 0x51, 152],
        gpu_id: 8716,
        unique_id: 0x6994_a18f_2c50_7551,
        location_id: 0xc300,
        memory: (MemoryKind::Gddr6, 256, 1258),
        sdma: [2, 0, 6],
        firmware: [3010, 380],
        caches: [32, 128, 8192, 256, 65_536],
        ip: [(12, 0, 1), (7, 0, 1), (6, 3, 1)],
        modes: &[],
    },
];

impl Preset {
    /// The processor.
    pub fn target(&self) -> &'static str {
        self.target
    }

    /// The GPU that the preset describes, as the first of a machine, undivided.
    pub fn gpu(&self) -> Gpu {
        let [shader_engines, arrays_per_engine, cus_per_array] = self.geometry;
        let [capability, capability2, debug_prop] = self.promises;
        let [
            device_id,
            pci_revision,
            chip_revision,
            external_revision,
            family,
        ] = self.ids;
        let [engines, xgmi_engines, queues_per_engine] = self.sdma;
        let gfx9 = self.target.starts_with("gfx9");
        let mut modes = vec![PartitionMode::Spx];
        modes.extend(self.modes);
        let [gc, sdma, nbif] = self.ip;
        Gpu {
            name: self.name.to_owned(),
            product: self.product.to_owned(),
            target: self.target.to_owned(),
            compute_units: self.compute_units,
            simds_per_cu: if gfx9 || self.target == "gfx1250" {
                4
            } else {
                2
            },
            waves_per_simd: self.waves_per_simd,
            lds_kib: self.lds_kib,
            vram_bytes: self.vram_bytes,
            xccs: self.xccs,
            clock_mhz: self.clock_mhz,
            counter_khz: 100_000,
            wave_size: if gfx9 { 64 } else { 32 },
            shader_engines,
            arrays_per_engine,
            cus_per_array,
            scratch_slots_per_cu: 32,
            gws: 64,
            compute_queues: self.compute_queues,
            capability,
            capability2,
            debug_prop: debug_prop.into(),
            apu: matches!(self.memory.0, MemoryKind::Lpddr5),
            identity: Identity {
                gpu_id: self.gpu_id,
                vendor_id: 0x1002,
                device_id,
                pci_revision,
                subsystem: (0x1002, device_id),
                chip_revision,
                external_revision,
                family,
                unique_id: self.unique_id,
                domain: 0,
                location_id: self.location_id,
                hive_id: 0,
                render_minor: 128,
            },
            memory: MemoryInterface {
                kind: self.memory.0,
                width_bits: self.memory.1,
                clock_mhz: self.memory.2,
            },
            sdma: Sdma {
                engines,
                xgmi_engines,
                queues_per_engine,
            },
            firmware: Firmware {
                mec: self.firmware[0],
                sdma: self.firmware[1],
            },
            caches: self.caches(),
            ip_blocks: [(GC_HWID, gc), (SDMA0_HWID, sdma), (NBIF_HWID, nbif)]
                .map(|(hardware_id, version)| IpBlock {
                    hardware_id,
                    version,
                })
                .to_vec(),
            partition: Partition {
                mode: PartitionMode::Spx,
                modes,
                index: 0,
                count: 1,
            },
        }
    }

    /// Levels and sharing follow Linux, `kfd_crat.c`: on GFX9 two compute units share a scalar and
    /// an instruction cache, on GFX10 and later the two of a WGP, and GFX10 and 11 have an L1 for
    /// each shader array.
    fn caches(&self) -> Vec<Cache> {
        let [vector_kib, vector_line, l2_kib, l2_line, l3_kib] = self.caches;
        let cache = |level, kind, kib, line, scope| Cache {
            level,
            kind,
            kib,
            line,
            scope,
        };
        let (inst_kib, line) = match self.target {
            "gfx942" | "gfx950" => (64, 128),
            "gfx90a" => (32, 64),
            _ => (32, 128),
        };
        let mut caches = vec![
            cache(
                1,
                CacheKind::Data,
                vector_kib,
                vector_line,
                CacheScope::Cus(1),
            ),
            cache(1, CacheKind::Scalar, 16, line, CacheScope::Cus(2)),
            cache(
                1,
                CacheKind::Instruction,
                inst_kib,
                line,
                CacheScope::Cus(2),
            ),
        ];
        if self.target.starts_with("gfx11") {
            caches.push(cache(1, CacheKind::Data, 256, 128, CacheScope::Array));
        }
        caches.push(cache(2, CacheKind::Data, l2_kib, l2_line, CacheScope::Node));
        if l3_kib > 0 {
            caches.push(cache(
                3,
                CacheKind::Data,
                l3_kib,
                l2_line.min(128),
                CacheScope::Node,
            ));
        }
        caches
    }
}

/// The preset of a name.
pub fn preset(name: &str) -> Option<Gpu> {
    PRESETS
        .iter()
        .find(|preset| preset.name == name)
        .map(Preset::gpu)
}

/// The preset that stands for a processor.
pub fn preset_for_target(target: &str) -> Option<Gpu> {
    PRESETS
        .iter()
        .find(|preset| preset.target == target)
        .map(Preset::gpu)
}

/// The names of all presets.
pub fn preset_names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|preset| preset.name)
}
