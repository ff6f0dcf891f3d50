//! The GPUs that can be simulated by name. Values are those that the driver reports for the
//! cards, unless the comment at a preset says otherwise.

use serde::Serialize;

/// What the simulation needs to know of a GPU.
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
    /// SIMD units of a compute unit.
    pub simds_per_cu: u32,
    /// Wave slots of a SIMD unit.
    pub waves_per_simd: u32,
    /// LDS of a compute unit in KiB, which is also the most that a workgroup can have.
    pub lds_kib: u32,
    /// Device memory in bytes.
    pub vram_bytes: u64,
    /// Accelerator dies, among which workgroups are dealt out.
    pub xccs: u32,
    /// Highest engine clock in MHz.
    pub clock_mhz: u32,
    /// Clock of the GPU's time counter in kHz.
    pub counter_khz: u32,
}

/// A preset as the table below has it.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    name: &'static str,
    product: &'static str,
    target: &'static str,
    compute_units: u32,
    simds_per_cu: u32,
    waves_per_simd: u32,
    lds_kib: u32,
    vram_bytes: u64,
    xccs: u32,
    clock_mhz: u32,
}

const GIB: u64 = 1 << 30;

/// Every preset, by family.
pub const PRESETS: [Preset; 7] = [
    Preset {
        name: "mi210",
        product: "AMD Instinct MI210",
        target: "gfx90a",
        compute_units: 104,
        simds_per_cu: 4,
        waves_per_simd: 8,
        lds_kib: 64,
        vram_bytes: 68_702_699_520,
        xccs: 1,
        clock_mhz: 1700,
    },
    Preset {
        name: "mi300x",
        product: "AMD Instinct MI300X",
        target: "gfx942",
        compute_units: 304,
        simds_per_cu: 4,
        waves_per_simd: 8,
        lds_kib: 64,
        vram_bytes: 205_822_885_888,
        xccs: 8,
        clock_mhz: 2100,
    },
    // From the data sheet: 256 compute units, 288 GB, 2400 MHz; 160 KiB LDS from the ISA manual.
    Preset {
        name: "mi355x",
        product: "AMD Instinct MI355X",
        target: "gfx950",
        compute_units: 256,
        simds_per_cu: 4,
        waves_per_simd: 8,
        lds_kib: 160,
        vram_bytes: 288 * GIB,
        xccs: 8,
        clock_mhz: 2400,
    },
    // Announced: 432 GB of memory. LDS (320 KiB) is the CDNA 5 ISA manual's. The number of
    // compute units (here: WGPs), XCCs, wave slots and the clock are guesses, not published.
    Preset {
        name: "mi455x",
        product: "AMD Instinct MI455X",
        target: "gfx1250",
        compute_units: 256,
        simds_per_cu: 4,
        waves_per_simd: 16,
        lds_kib: 320,
        vram_bytes: 432 * GIB,
        xccs: 8,
        clock_mhz: 2400,
    },
    Preset {
        name: "w7900",
        product: "AMD Radeon PRO W7900",
        target: "gfx1100",
        compute_units: 96,
        simds_per_cu: 2,
        waves_per_simd: 16,
        lds_kib: 64,
        vram_bytes: 48 * GIB,
        xccs: 1,
        clock_mhz: 1760,
    },
    // From the data sheet: 40 compute units, 2900 MHz; up to 96 GiB of the system's memory can be
    // set aside for the GPU.
    Preset {
        name: "strix-halo",
        product: "AMD Radeon 8060S",
        target: "gfx1151",
        compute_units: 40,
        simds_per_cu: 2,
        waves_per_simd: 16,
        lds_kib: 64,
        vram_bytes: 96 * GIB,
        xccs: 1,
        clock_mhz: 2900,
    },
    Preset {
        name: "r9700",
        product: "AMD Radeon AI PRO R9700",
        target: "gfx1201",
        compute_units: 64,
        simds_per_cu: 2,
        waves_per_simd: 16,
        lds_kib: 64,
        vram_bytes: 34_208_743_424,
        xccs: 1,
        clock_mhz: 2350,
    },
];

impl Preset {
    /// The GPU that the preset describes.
    pub fn gpu(&self) -> Gpu {
        Gpu {
            name: self.name.to_owned(),
            product: self.product.to_owned(),
            target: self.target.to_owned(),
            compute_units: self.compute_units,
            simds_per_cu: self.simds_per_cu,
            waves_per_simd: self.waves_per_simd,
            lds_kib: self.lds_kib,
            vram_bytes: self.vram_bytes,
            xccs: self.xccs,
            clock_mhz: self.clock_mhz,
            counter_khz: 100_000,
        }
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
