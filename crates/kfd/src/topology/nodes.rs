//! `/sys/devices/virtual/kfd/kfd`: one directory for the processor and one for each GPU.
//! Keys, their order and their meaning are those of Linux, `kfd_topology.c`.

use rocjitsu_config::{Cpu, Gpu, Machine, Options, PartitionMode};

use super::caches::{Cache, cpu_caches, gpu_caches};
use super::links::{Link, links};
use super::{KFD_MAJOR, Tree, properties};

pub(super) const KFD: &str = "/sys/devices/virtual/kfd/kfd";
/// The number by which the SIMD units of the first GPU begin to be counted.
const FIRST_SIMD: u32 = 0x8000_1000;

pub(super) fn add(tree: &mut Tree, machine: &Machine) {
    tree.own("/sys/devices/virtual/kfd");
    tree.own("/sys/class/kfd");
    tree.link("/sys/class/kfd/kfd", "../../devices/virtual/kfd/kfd");
    tree.file(&format!("{KFD}/dev"), format!("{KFD_MAJOR}:0\n"));
    tree.file(
        &format!("{KFD}/uevent"),
        format!("MAJOR={KFD_MAJOR}\nMINOR=0\nDEVNAME=kfd\n"),
    );
    tree.link(&format!("{KFD}/subsystem"), "../../../../class/kfd");
    tree.char_device("/dev/kfd", KFD_MAJOR, 0);
    tree.link(
        &format!("/sys/dev/char/{KFD_MAJOR}:0"),
        "../../devices/virtual/kfd/kfd",
    );
    // Programs take this device for the Windows subsystem's driver and look no further.
    tree.absent("/dev/dxg");

    let topology = format!("{KFD}/topology");
    tree.file(&format!("{topology}/generation_id"), "2\n");
    tree.file(
        &format!("{topology}/system_properties"),
        properties(&[("platform_oem", 0), ("platform_id", 0), ("platform_rev", 0)]),
    );
    let links = links(machine);
    let of = |node: u32, p2p: bool| -> Vec<&Link> {
        links
            .iter()
            .filter(|link| link.from == node && link.p2p == p2p)
            .collect()
    };
    tree.own(&format!("{topology}/nodes"));
    let node_path = |node: u32| format!("{topology}/nodes/{node}");

    let path = node_path(0);
    let caches = cpu_caches(&machine.cpu);
    let node = Parts {
        banks: vec![bank(0, machine.cpu.memory_bytes, 0, 0)],
        caches,
        io_links: of(0, false),
        p2p_links: of(0, true),
    };
    tree.file(&format!("{path}/gpu_id"), "0\n");
    tree.file(&format!("{path}/name"), "\n");
    tree.file(
        &format!("{path}/properties"),
        cpu_properties(&machine.cpu, &node),
    );
    add_parts(tree, &path, &node);

    let mut simd_id = FIRST_SIMD;
    for (index, gpu) in machine.gpus.iter().enumerate() {
        let number = 1 + index as u32;
        let path = node_path(number);
        // All of the memory is visible to the processor: the kind of bank that says so.
        let public = 1;
        let node = Parts {
            banks: vec![bank(
                public,
                gpu.vram_bytes,
                gpu.memory.width_bits,
                gpu.memory.clock_mhz,
            )],
            caches: gpu_caches(gpu, simd_id),
            io_links: of(number, false),
            p2p_links: of(number, true),
        };
        tree.file(
            &format!("{path}/gpu_id"),
            format!("{}\n", gpu.identity.gpu_id),
        );
        tree.file(&format!("{path}/name"), "ip discovery\n");
        tree.file(
            &format!("{path}/properties"),
            gpu_properties(gpu, &machine.options, simd_id, &node),
        );
        add_parts(tree, &path, &node);
        simd_id += gpu.compute_units;
    }
    tree.own(&format!("{KFD}/proc"));
}

/// The directories below a node.
struct Parts<'a> {
    banks: Vec<String>,
    caches: Vec<Cache>,
    io_links: Vec<&'a Link>,
    p2p_links: Vec<&'a Link>,
}

fn bank(kind: u64, bytes: u64, width: u32, clock: u32) -> String {
    properties(&[
        ("heap_type", kind),
        ("size_in_bytes", bytes),
        ("flags", 0),
        ("width", width.into()),
        ("mem_clk_max", clock.into()),
    ])
}

fn add_parts(tree: &mut Tree, path: &str, node: &Parts) {
    for directory in ["mem_banks", "caches", "io_links", "p2p_links"] {
        tree.own(&format!("{path}/{directory}"));
    }
    let mut write = |directory: &str, index: usize, text: String| {
        tree.file(&format!("{path}/{directory}/{index}/properties"), text);
    };
    for (index, text) in node.banks.iter().enumerate() {
        write("mem_banks", index, text.clone());
    }
    for (index, cache) in node.caches.iter().enumerate() {
        write("caches", index, cache.properties());
    }
    for (index, link) in node.io_links.iter().enumerate() {
        write("io_links", index, link.properties());
    }
    for (index, link) in node.p2p_links.iter().enumerate() {
        write("p2p_links", index, link.properties());
    }
}

impl Parts<'_> {
    fn counts(&self) -> [u64; 4] {
        [
            self.banks.len() as u64,
            self.caches.len() as u64,
            self.io_links.len() as u64,
            self.p2p_links.len() as u64,
        ]
    }
}

fn cpu_properties(cpu: &Cpu, node: &Parts) -> String {
    let [banks, caches, io_links, p2p_links] = node.counts();
    let mut lines = vec![
        ("cpu_cores_count", u64::from(cpu.cores)),
        ("simd_count", 0),
        ("mem_banks_count", banks),
        ("caches_count", caches),
        ("io_links_count", io_links),
        ("p2p_links_count", p2p_links),
        ("cpu_core_id_base", cpu.core_id_base.into()),
    ];
    for key in [
        "simd_id_base",
        "max_waves_per_simd",
        "lds_size_in_kb",
        "gds_size_in_kb",
        "num_gws",
        "wave_front_size",
        "array_count",
        "simd_arrays_per_engine",
        "cu_per_simd_array",
        "simd_per_cu",
        "max_slots_scratch_cu",
        "gfx_target_version",
        "vendor_id",
        "device_id",
        "location_id",
        "domain",
        "drm_render_minor",
        "hive_id",
        "num_sdma_engines",
        "num_sdma_xgmi_engines",
        "num_sdma_queues_per_engine",
        "num_cp_queues",
        "cwsr_size",
        "ctl_stack_size",
    ] {
        lines.push((key, 0));
    }
    // MHz; the runtime only shows it.
    lines.push(("max_engine_clk_ccompute", 3000));
    properties(&lines)
}

fn gpu_properties(gpu: &Gpu, options: &Options, simd_id: u32, node: &Parts) -> String {
    let [banks, caches, io_links, p2p_links] = node.counts();
    let (cwsr, control) = gpu.save_area();
    let id = &gpu.identity;
    let undivided = gpu.partition.mode == PartitionMode::Spx;
    properties(&[
        ("cpu_cores_count", 0),
        ("simd_count", gpu.simd_count().into()),
        ("mem_banks_count", banks),
        ("caches_count", caches),
        ("io_links_count", io_links),
        ("p2p_links_count", p2p_links),
        ("cpu_core_id_base", 0),
        ("simd_id_base", simd_id.into()),
        ("max_waves_per_simd", gpu.waves_per_simd.into()),
        ("lds_size_in_kb", gpu.lds_kib.into()),
        ("gds_size_in_kb", 0),
        // Only the whole card has global wave sync.
        ("num_gws", if undivided { gpu.gws.into() } else { 0 }),
        ("wave_front_size", gpu.wave_size.into()),
        ("array_count", gpu.array_count().into()),
        ("simd_arrays_per_engine", gpu.arrays_per_engine.into()),
        ("cu_per_simd_array", gpu.cus_per_array.into()),
        ("simd_per_cu", gpu.simds_per_cu.into()),
        ("max_slots_scratch_cu", gpu.scratch_slots_per_cu.into()),
        ("gfx_target_version", gpu.gfx_target_version().into()),
        ("vendor_id", id.vendor_id.into()),
        ("device_id", id.device_id.into()),
        ("location_id", id.location_id.into()),
        ("domain", id.domain.into()),
        ("drm_render_minor", id.render_minor.into()),
        ("hive_id", id.hive_id),
        ("num_sdma_engines", gpu.sdma.engines.into()),
        ("num_sdma_xgmi_engines", gpu.sdma.xgmi_engines.into()),
        (
            "num_sdma_queues_per_engine",
            gpu.sdma.queues_per_engine.into(),
        ),
        ("num_cp_queues", gpu.compute_queues.into()),
        ("cwsr_size", cwsr),
        ("ctl_stack_size", control),
        ("max_engine_clk_fcompute", gpu.clock_mhz.into()),
        ("local_mem_size", 0),
        ("fw_version", gpu.firmware.mec.into()),
        ("capability", options.capability(gpu).into()),
        ("capability2", gpu.capability2.into()),
        ("debug_prop", gpu.debug_prop),
        ("sdma_fw_version", gpu.firmware.sdma.into()),
        ("unique_id", id.unique_id),
        ("num_xcc", gpu.xccs.into()),
        ("family_id", id.family.into()),
        ("max_engine_clk_ccompute", 3000),
    ])
}
