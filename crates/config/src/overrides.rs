//! Values of a configuration file that replace those of a preset, and whether they fit together.

use crate::gpu::{Cache, CacheKind, CacheScope, Gpu, IpBlock, MemoryKind};
use crate::json::{Result, Section, fault};

/// Bytes of device memory: 1 MiB to 64 TiB.
pub(crate) const VRAM_BYTES: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 46;
/// The most compute units in a shader array: a mask of them has 32 bits.
const MOST_IN_ARRAY: u32 = 32;

/// Takes the values that a section has.
pub(crate) fn override_gpu(section: &Section<'_>, gpu: &mut Gpu) -> Result<()> {
    let all = 0..=u32::MAX;
    if let Some(product) = section.text("product")? {
        product.clone_into(&mut gpu.product);
    }
    let id = &mut gpu.identity;
    for (key, range, to) in [
        ("compute_units", 1..=4096, &mut gpu.compute_units),
        ("waves_per_simd", 1..=32, &mut gpu.waves_per_simd),
        ("lds_kib", 1..=4096, &mut gpu.lds_kib),
        ("xccs", 1..=64, &mut gpu.xccs),
        ("clock_mhz", 1..=10_000, &mut gpu.clock_mhz),
        ("shader_engines", 1..=32, &mut gpu.shader_engines),
        ("arrays_per_engine", 1..=8, &mut gpu.arrays_per_engine),
        (
            "scratch_slots_per_cu",
            1..=64,
            &mut gpu.scratch_slots_per_cu,
        ),
        ("gws", 0..=64, &mut gpu.gws),
        ("compute_queues", 1..=1024, &mut gpu.compute_queues),
        ("capability", all.clone(), &mut gpu.capability),
        ("capability2", all.clone(), &mut gpu.capability2),
        ("gpu_id", 1..=0xffff, &mut id.gpu_id),
        ("device_id", 1..=0xffff, &mut id.device_id),
        ("pci_revision", 0..=0xff, &mut id.pci_revision),
        ("chip_revision", 0..=0xffff, &mut id.chip_revision),
        ("external_revision", 0..=0xffff, &mut id.external_revision),
        ("family", 0..=0xffff, &mut id.family),
        ("domain", 0..=0xffff, &mut id.domain),
        ("location_id", 0..=0xffff, &mut id.location_id),
        ("render_minor", 128..=255, &mut id.render_minor),
        ("memory_width_bits", 1..=65_536, &mut gpu.memory.width_bits),
        ("memory_clock_mhz", 1..=20_000, &mut gpu.memory.clock_mhz),
        ("sdma_engines", 1..=32, &mut gpu.sdma.engines),
        ("sdma_xgmi_engines", 0..=32, &mut gpu.sdma.xgmi_engines),
        (
            "sdma_queues_per_engine",
            1..=64,
            &mut gpu.sdma.queues_per_engine,
        ),
        ("mec_firmware", all.clone(), &mut gpu.firmware.mec),
        ("sdma_firmware", all, &mut gpu.firmware.sdma),
    ] {
        if let Some(value) = section.small(key, range)? {
            *to = value;
        }
    }
    for (key, range, to) in [
        ("vram_bytes", VRAM_BYTES, &mut gpu.vram_bytes),
        ("debug_prop", 0..=u64::MAX, &mut gpu.debug_prop),
        ("unique_id", 0..=u64::MAX, &mut gpu.identity.unique_id),
        ("hive_id", 0..=u64::MAX, &mut gpu.identity.hive_id),
    ] {
        if let Some(value) = section.number(key, range)? {
            *to = value;
        }
    }
    match section.small("cus_per_array", 1..=MOST_IN_ARRAY)? {
        Some(count) => gpu.cus_per_array = count,
        None => widen_arrays(gpu),
    }
    if let Some(kind) = section.one_of("memory_kind", &MEMORY_KINDS.map(|(name, _)| name))? {
        for (name, value) in MEMORY_KINDS {
            if name == kind {
                gpu.memory.kind = value;
            }
        }
    }
    for (level, kib, line) in [
        (1, "l1_kib", "l1_line"),
        (2, "l2_kib", "l2_line"),
        (3, "l3_kib", "l3_line"),
    ] {
        set_cache(
            gpu,
            level,
            section.small(kib, 0..=1 << 24)?,
            lines(section, line)?,
        );
    }
    if let Some(blocks) = section.sections("ip_versions")? {
        read_ip_versions(&blocks, gpu)?;
    }
    Ok(())
}

const MEMORY_KINDS: [(&str, MemoryKind); 6] = [
    ("hbm", MemoryKind::Hbm),
    ("gddr6", MemoryKind::Gddr6),
    ("ddr5", MemoryKind::Ddr5),
    ("lpddr5", MemoryKind::Lpddr5),
    ("hbm3e", MemoryKind::Hbm3e),
    ("hbm4", MemoryKind::Hbm4),
];

/// Bytes of a cache's line.
pub(crate) fn lines(section: &Section<'_>, key: &'static str) -> Result<Option<u32>> {
    match section.small(key, 16..=1024)? {
        Some(line) if !line.is_power_of_two() => {
            fault(section.path(key), format!("{line} is no power of two"))
        }
        line => Ok(line),
    }
}

/// Makes the shader arrays large enough for the compute units.
pub(crate) fn widen_arrays(gpu: &mut Gpu) {
    let arrays = gpu.arrays_per_xcc().max(1);
    let needed = (gpu.compute_units / gpu.xccs.max(1)).div_ceil(arrays);
    gpu.cus_per_array = gpu.cus_per_array.max(needed);
}

/// Changes the vector L1, L2 or L3; a size of 0 takes it away.
pub(crate) fn set_cache(gpu: &mut Gpu, level: u32, kib: Option<u32>, line: Option<u32>) {
    let wanted = |cache: &Cache| {
        cache.level == level && cache.kind == CacheKind::Data && cache.scope != CacheScope::Array
    };
    if kib == Some(0) {
        gpu.caches.retain(|cache| !wanted(cache));
        return;
    }
    if let Some(cache) = gpu.caches.iter_mut().find(|cache| wanted(cache)) {
        cache.kib = kib.unwrap_or(cache.kib);
        cache.line = line.unwrap_or(cache.line);
    } else if let Some(kib) = kib {
        gpu.caches.push(Cache {
            level,
            kind: CacheKind::Data,
            kib,
            line: line.unwrap_or(128),
            scope: if level == 1 {
                CacheScope::Cus(1)
            } else {
                CacheScope::Node
            },
        });
    }
}

/// Versions of blocks of hardware, which replace those of the same hardware id.
pub(crate) fn read_ip_versions(blocks: &[Section<'_>], gpu: &mut Gpu) -> Result<()> {
    for block in blocks {
        let get = |key, most| match block.small(key, 0..=most) {
            Ok(Some(value)) => Ok(value),
            Ok(None) => fault(block.path(key), "the key is missing"),
            Err(error) => Err(error),
        };
        let hardware_id = get("hardware_id", 0xffff)?;
        let part = |key| get(key, 0xff).map(|value| value as u8);
        let version = (part("major")?, part("minor")?, part("revision")?);
        block.finish()?;
        gpu.ip_blocks.retain(|old| old.hardware_id != hardware_id);
        gpu.ip_blocks.push(IpBlock {
            hardware_id,
            version,
        });
    }
    Ok(())
}

/// Whether the values fit together; `path` is where they were written, `units` the key there for
/// the number of compute units.
pub(crate) fn check(gpu: &Gpu, path: &str, units: &str) -> Result<()> {
    let at = |key: &str| format!("{path}.{key}");
    let Gpu {
        compute_units,
        xccs,
        shader_engines,
        arrays_per_engine,
        cus_per_array,
        ..
    } = *gpu;
    if !compute_units.is_multiple_of(xccs) {
        return fault(
            at(units),
            format!("{compute_units} compute units cannot be shared among {xccs} XCCs"),
        );
    }
    let places = gpu.arrays_per_xcc() * cus_per_array;
    let needed = compute_units / xccs;
    if needed > places || cus_per_array > MOST_IN_ARRAY {
        return fault(
            at(units),
            format!(
                "{needed} compute units of an XCC do not fit into {shader_engines} shader engines \
                 with {arrays_per_engine} arrays of {cus_per_array} (at most {MOST_IN_ARRAY}) each"
            ),
        );
    }
    let doorbell = gpu.capability >> 12 & 3;
    if doorbell != 2 {
        return fault(
            at("capability"),
            format!(
                "{:#x}: bits 13:12 (doorbell type) are {doorbell}, must be 2",
                gpu.capability
            ),
        );
    }
    Ok(())
}
