//! Configuration files of AMD's rocjitsu (ROCm/rocm-systems, `emulation/rocjitsu/docs/configuration.md`).
//! They load as they are; what they ask for and is not simulated (timing, links between components) becomes a warning.

use serde_json::Value;

use crate::components::{self, Components};
use crate::cpu::Cpu;
use crate::file::{Config, Warning};
use crate::gpu::{Gpu, MemoryKind, PartitionMode, target_version};
use crate::json::{Result, Section, fault};
use crate::machine::{MOST_NODES, Options};
use crate::overrides::{VRAM_BYTES, check, lines, read_ip_versions, set_cache, widen_arrays};
use crate::plugins;
use crate::presets::{PRESETS, preset_for_target};
use crate::threads::{Place, Threads};

/// Families of instruction sets by the names that the format has for them.
const ARCHITECTURES: [(&str, Option<&str>); 11] = [
    ("cdna1", None),
    ("cdna2", Some("gfx90a")),
    ("cdna3", Some("gfx942")),
    ("cdna4", Some("gfx950")),
    ("cdna5", Some("gfx1250")),
    ("gfx1250", Some("gfx1250")),
    ("rdna1", None),
    ("rdna2", None),
    ("rdna3", Some("gfx1100")),
    ("rdna3_5", Some("gfx1151")),
    ("rdna4", Some("gfx1201")),
];

/// Whether a file is in this format: it has a key that only this format has.
pub(crate) fn is_reference(value: &Value) -> bool {
    ["vm", "topology", "dbt_guest"]
        .iter()
        .any(|key| value.get(key).is_some())
}

/// Reads a file in this format.
pub(crate) fn read(top: &Section<'_>) -> Result<Config> {
    if top.value("dbt_guest").is_some() {
        return fault(
            "dbt_guest",
            "translation of code for another target is not built; describe the GPU whose code \
             runs in `vm`",
        );
    }
    let mut warnings = Vec::new();
    let mut unused = |key: String, text: &str| {
        warnings.push(Warning {
            key,
            text: text.to_owned(),
        });
    };
    if top
        .number("max_ticks", 0..=u64::MAX)?
        .is_some_and(|ticks| ticks > 0)
    {
        unused(
            "max_ticks".to_owned(),
            "no effect: programs run to their end, there is no clock to count ticks of",
        );
    }
    match top.text("exec_mode")? {
        None | Some("functional") => {}
        Some("clocked") => {
            return fault("exec_mode", "`clocked`: simulation of time is not built");
        }
        Some(other) => {
            return fault(
                "exec_mode",
                format!("`{other}` is none of functional, clocked"),
            );
        }
    }
    let threads = Threads::read(top)?;
    let Some(vm) = top.section("vm")? else {
        return fault("vm", "the key is missing");
    };
    let mut gpu = base(&vm)?;
    let components = components::read(top)?;
    let mut count = 1;
    if let Some(section) = vm.section("gpu")? {
        count = section
            .small("num_gpus", 1..=MOST_NODES as u32)?
            .unwrap_or(1);
        components.apply(&mut gpu);
        if let Some(device) = section.section("device")? {
            read_device(&device, &mut gpu, &mut unused)?;
            device.finish()?;
        }
        if let Some(pci) = section.section("pci")? {
            let aperture = pci.number("vram_aperture_bytes", 0..=u64::MAX)?;
            if aperture.is_some() {
                unused(
                    pci.path("vram_aperture_bytes"),
                    "no effect: there is no PCI device for virtual machines, and programs see all \
                     device memory",
                );
            }
            pci.finish()?;
        }
        section.finish()?;
    } else {
        components.apply(&mut gpu);
    }
    vm.finish()?;
    check(&gpu, "vm.gpu.device", "simd_count")?;
    for (key, text) in components.differences(&gpu) {
        unused(key, &text);
    }
    for (key, text) in components.unused() {
        unused(key, text);
    }
    let plugins = plugins::read(top, &mut warnings)?;
    top.finish()?;
    let (table, warning) =
        threads.resolve(Place::here(count, gpu.xccs, gpu.compute_units / gpu.xccs))?;
    warnings.extend(warning);
    let options = Options {
        threads: Some(table.threads),
        helpers: table.helpers,
        plugins,
        ..Options::default()
    };
    Ok(Config {
        cards: vec![(gpu, PartitionMode::Spx); count as usize],
        cpu: Cpu::host(),
        options,
        threads: Some(table),
        warnings,
    })
}

/// The preset of the target that `vm.target`, `vm.gpu.device.gfx_target_version` or `vm.arch`
/// names, if they agree.
fn base(vm: &Section<'_>) -> Result<Gpu> {
    let names = ARCHITECTURES.map(|(name, _)| name);
    let family = vm.one_of("arch", &names)?;
    let by_family = family.and_then(|family| {
        ARCHITECTURES
            .iter()
            .find(|(name, _)| *name == family)
            .and_then(|(_, target)| *target)
    });
    if let (Some(family), None) = (family, by_family) {
        return fault("vm.arch", format!("{family} is not simulated"));
    }
    let version_key = "vm.gpu.device.gfx_target_version";
    let version = vm
        .value("gpu")
        .and_then(|gpu| gpu.get("device")?.get("gfx_target_version"))
        .and_then(Value::as_u64)
        .filter(|&version| version != 0);
    let by_version = version.and_then(|version| {
        PRESETS.iter().map(|preset| preset.target()).find(|target| {
            target_version(target).map(u64::from) == Some(version)
                // Earlier steppings of GC 9.4.3 run the same code.
                || (*target == "gfx942" && (90_400..=90_402).contains(&version))
        })
    });
    let targets: Vec<&'static str> = PRESETS.iter().map(|preset| preset.target()).collect();
    if let (Some(version), None) = (version, by_version) {
        return fault(
            version_key,
            format!(
                "{version} is no target that is simulated: {}",
                targets.join(", ")
            ),
        );
    }
    let target = vm.one_of("target", &targets)?;
    let mut chosen: Option<(&str, &str)> = None;
    for (key, named) in [
        ("vm.target", target),
        (version_key, by_version),
        ("vm.arch", by_family),
    ] {
        match (chosen, named) {
            (None, Some(named)) => chosen = Some((key, named)),
            (Some((first, target)), Some(named)) if target != named => {
                return fault(
                    key,
                    format!("it stands for {named}, but `{first}` for {target}"),
                );
            }
            _ => {}
        }
    }
    match chosen.and_then(|(_, target)| preset_for_target(target)) {
        Some(gpu) => Ok(gpu),
        None => fault("vm.arch", "the key is missing"),
    }
}

/// The section of a device.
fn read_device(
    device: &Section<'_>,
    gpu: &mut Gpu,
    unused: &mut impl FnMut(String, &str),
) -> Result<()> {
    let all = 0..=u32::MAX;
    // Read by `base`; here its type is checked.
    device.small("gfx_target_version", all.clone())?;
    for (key, value) in [
        ("simd_per_cu", gpu.simds_per_cu),
        ("wave_front_size", gpu.wave_size),
        ("vendor_id", gpu.identity.vendor_id),
    ] {
        match device.small(key, all.clone())? {
            Some(other) if other != value => {
                return fault(
                    device.path(key),
                    format!("{other}: it is {value} on {}", gpu.target),
                );
            }
            _ => {}
        }
    }
    if let Some(simds) = device.small("simd_count", 1..=16_384)? {
        if !simds.is_multiple_of(gpu.simds_per_cu) {
            return fault(
                device.path("simd_count"),
                format!(
                    "{simds} is no multiple of {} SIMDs of a compute unit",
                    gpu.simds_per_cu
                ),
            );
        }
        gpu.compute_units = simds / gpu.simds_per_cu;
    }
    if let Some(name) = device.text("marketing_name")? {
        name.clone_into(&mut gpu.product);
    }
    let id = &mut gpu.identity;
    for (key, range, to) in [
        ("gpu_id", 1..=0xffff, &mut id.gpu_id),
        ("device_id", 1..=0xffff, &mut id.device_id),
        ("revision_id", 0..=0xffff, &mut id.chip_revision),
        ("pci_revision_id", 0..=0xff, &mut id.pci_revision),
        ("drm_render_minor", 128..=255, &mut id.render_minor),
        ("location_id", 0..=0xffff, &mut id.location_id),
        ("domain", 0..=0xffff, &mut id.domain),
        ("max_waves_per_simd", 1..=32, &mut gpu.waves_per_simd),
        ("num_shader_engines", 1..=32, &mut gpu.shader_engines),
        (
            "num_shader_arrays_per_engine",
            1..=8,
            &mut gpu.arrays_per_engine,
        ),
        (
            "max_slots_scratch_cu",
            1..=64,
            &mut gpu.scratch_slots_per_cu,
        ),
        ("lds_size_kb", 1..=4096, &mut gpu.lds_kib),
        ("mem_width", 1..=65_536, &mut gpu.memory.width_bits),
        ("mem_clk_max", 1..=20_000, &mut gpu.memory.clock_mhz),
        ("num_sdma_engines", 1..=32, &mut gpu.sdma.engines),
        ("num_sdma_xgmi_engines", 0..=32, &mut gpu.sdma.xgmi_engines),
        (
            "num_sdma_queues_per_engine",
            1..=64,
            &mut gpu.sdma.queues_per_engine,
        ),
        ("num_cp_queues", 1..=1024, &mut gpu.compute_queues),
        ("max_engine_clk_fcompute", 1..=10_000, &mut gpu.clock_mhz),
        ("capability", all.clone(), &mut gpu.capability),
        ("capability2", all.clone(), &mut gpu.capability2),
    ] {
        if let Some(value) = device.small(key, range)? {
            *to = value;
        }
    }
    match device.small("num_cu_per_sh", 1..=32)? {
        Some(count) => gpu.cus_per_array = count,
        None => widen_arrays(gpu),
    }
    // 0 stands for a family that is not known yet.
    if let Some(family) = device
        .small("family_id", 0..=0xffff)?
        .filter(|&family| family != 0)
    {
        gpu.identity.family = family;
    }
    for (key, range, to) in [
        ("local_mem_size", VRAM_BYTES, &mut gpu.vram_bytes),
        ("unique_id", 0..=u64::MAX, &mut gpu.identity.unique_id),
        ("hive_id", 0..=u64::MAX, &mut gpu.identity.hive_id),
        ("debug_prop", 0..=u64::MAX, &mut gpu.debug_prop),
    ] {
        if let Some(value) = device.number(key, range)? {
            *to = value;
        }
    }
    if let Some(number) = device.small("vram_type", all.clone())? {
        let Some(kind) = MemoryKind::ALL
            .into_iter()
            .find(|kind| kind.number() == number)
        else {
            let known = MemoryKind::ALL.map(|kind| format!("{} ({kind:?})", kind.number()));
            return fault(
                device.path("vram_type"),
                format!("{number} is none of {}", known.join(", ")),
            );
        };
        gpu.memory.kind = kind;
    }
    for (level, kib, line, ways) in [
        (1, "l1_size_kb", "l1_line_size", "l1_assoc"),
        (2, "l2_size_kb", "l2_line_size", "l2_assoc"),
    ] {
        set_cache(
            gpu,
            level,
            device.small(kib, 1..=1 << 24)?,
            lines(device, line)?,
        );
        if device.small(ways, 0..=1024)?.is_some() {
            unused(
                device.path(ways),
                "no effect: caches are not simulated, and the driver does not tell it",
            );
        }
    }
    if let Some(blocks) = device.sections("ip_versions")? {
        read_ip_versions(&blocks, gpu)?;
    }
    Ok(())
}

impl Components {
    /// Takes numbers that the device's section may refine.
    fn apply(&self, gpu: &mut Gpu) {
        if let Some(xcds) = self.xcds {
            if let (true, Some(engines), Some(cus)) = (xcds > 0, self.engines, self.cus) {
                gpu.compute_units = xcds * engines * cus;
                gpu.shader_engines = engines;
                gpu.cus_per_array = cus.div_ceil(gpu.arrays_per_engine);
            }
            gpu.xccs = xcds.max(1);
        }
        if let Some(kib) = self.lds_kib {
            gpu.lds_kib = kib;
        }
        if let Some(slots) = self.wave_slots {
            gpu.waves_per_simd = (slots / gpu.simds_per_cu).max(1);
        }
    }

    /// Warnings about what the device's section says differently: it counts, since it is what
    /// programs are told.
    fn differences(&self, gpu: &Gpu) -> Vec<(String, String)> {
        let mut list = Vec::new();
        if let (Some(xcds), Some(engines), Some(cus)) = (self.xcds, self.engines, self.cus) {
            let places = xcds * engines * cus;
            if gpu.compute_units > places {
                list.push((
                    "vm.gpu.device.simd_count".to_owned(),
                    format!(
                        "{} compute units count, although `topology` has {xcds} XCDs with \
                         {engines} shader engines of {cus} compute units",
                        gpu.compute_units
                    ),
                ));
            }
        }
        if let Some(kib) = self.lds_kib.filter(|&kib| kib != gpu.lds_kib) {
            list.push((
                "vm.gpu.device.lds_size_kb".to_owned(),
                format!(
                    "{} KiB count, although compute units of `topology` have {kib}",
                    gpu.lds_kib
                ),
            ));
        }
        list
    }
}
