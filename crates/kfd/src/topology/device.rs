//! The directory of a GPU's device: what libdrm, rocm-smi and tinygrad read there.
//! Sensors that a simulation does not have (temperature, power) are left out; programs show them as not available.

use rocjitsu_config::{GC_HWID, Gpu, Machine, MemoryKind, PartitionMode, SDMA0_HWID};

use super::{DRM_MAJOR, Tree};

/// Where a node's device lies.
pub(super) struct Place {
    /// Directory, absolute.
    pub directory: String,
    /// PCI address; none for the further partitions of a card, which are platform devices.
    pub address: Option<String>,
    /// Minor numbers.
    pub card: u32,
    pub render: u32,
}

impl Place {
    pub fn of(gpu: &Gpu, index: u32) -> Self {
        let address = gpu.pci_address();
        let id = &gpu.identity;
        let (directory, address) = if gpu.partition.index == 0 {
            let bus = (id.location_id >> 8) & 0xff;
            (
                format!("/sys/devices/pci{:04x}:{bus:02x}/{address}", id.domain),
                Some(address),
            )
        } else {
            (format!("/sys/devices/platform/amdgpu_xcp_{index}"), None)
        };
        Place {
            directory,
            address,
            card: id.render_minor.saturating_sub(128),
            render: id.render_minor,
        }
    }

    /// The directory relative to `/sys`.
    pub fn below_sys(&self) -> &str {
        self.directory
            .strip_prefix("/sys/")
            .unwrap_or(&self.directory)
    }

    fn name(&self) -> &str {
        self.directory.rsplit('/').next().unwrap_or_default()
    }
}

pub(super) fn add(tree: &mut Tree, machine: &Machine, gpu: &Gpu, place: &Place) {
    let directory = &place.directory;
    tree.own(directory);
    let to_sys = "../".repeat(directory.matches('/').count() - 1);
    let bus = if place.address.is_some() {
        "pci"
    } else {
        "platform"
    };
    tree.link(
        &format!("{directory}/subsystem"),
        &format!("{to_sys}bus/{bus}"),
    );
    tree.link(
        &format!("{directory}/driver"),
        &format!("{to_sys}bus/pci/drivers/amdgpu"),
    );
    let mut files = identity(gpu, place);
    files.extend(memory(machine, gpu));
    files.extend(partitions(gpu));
    files.extend(clocks(gpu));
    for (name, text) in files {
        tree.file(&format!("{directory}/{name}"), text);
    }
    tree.file(&format!("{directory}/config"), config_space(gpu));
    for (name, minor) in [
        (format!("card{}", place.card), place.card),
        (format!("renderD{}", place.render), place.render),
    ] {
        let node = format!("{directory}/drm/{name}");
        tree.file(&format!("{node}/dev"), format!("{DRM_MAJOR}:{minor}\n"));
        tree.file(
            &format!("{node}/uevent"),
            format!("MAJOR={DRM_MAJOR}\nMINOR={minor}\nDEVNAME=dri/{name}\nDEVTYPE=drm_minor\n"),
        );
        tree.link(
            &format!("{node}/device"),
            &format!("../../../{}", place.name()),
        );
        tree.link(
            &format!("{node}/subsystem"),
            &format!("{to_sys}../../class/drm"),
        );
    }
    ip_discovery(tree, gpu, directory);
}

type Files = Vec<(String, String)>;

fn files<const N: usize>(list: [(&str, String); N]) -> Files {
    list.into_iter()
        .map(|(name, text)| (name.to_owned(), text + "\n"))
        .collect()
}

/// The class of the PCI device: accelerators without a display, or displays.
fn class(gpu: &Gpu) -> u32 {
    match gpu.target.as_str() {
        "gfx942" | "gfx950" | "gfx1250" => 0x12_0000,
        "gfx90a" => 0x03_8000,
        _ => 0x03_0000,
    }
}

fn identity(gpu: &Gpu, place: &Place) -> Files {
    let id = &gpu.identity;
    let class = class(gpu);
    let (sub_vendor, sub_device) = id.subsystem;
    let modalias = format!(
        "pci:v{:08X}d{:08X}sv{sub_vendor:08X}sd{sub_device:08X}bc{:02X}sc{:02X}i{:02X}",
        id.vendor_id,
        id.device_id,
        class >> 16,
        class >> 8 & 0xff,
        class & 0xff
    );
    let uevent = match &place.address {
        Some(address) => format!(
            "DRIVER=amdgpu\nPCI_CLASS={class:04X}\nPCI_ID={:04X}:{:04X}\n\
             PCI_SUBSYS_ID={sub_vendor:04X}:{sub_device:04X}\nPCI_SLOT_NAME={address}\n\
             MODALIAS={modalias}",
            id.vendor_id, id.device_id
        ),
        None => format!("DRIVER=amdgpu_xcp_drv\nMODALIAS=platform:{}", place.name()),
    };
    let mut list = files([
        ("vendor", format!("{:#06x}", id.vendor_id)),
        ("device", format!("{:#06x}", id.device_id)),
        ("subsystem_vendor", format!("{sub_vendor:#06x}")),
        ("subsystem_device", format!("{sub_device:#06x}")),
        ("revision", format!("{:#04x}", id.pci_revision)),
        ("class", format!("{class:#08x}")),
        ("modalias", modalias),
        ("uevent", uevent),
        ("enable", "1".to_owned()),
        ("numa_node", "0".to_owned()),
        ("product_name", gpu.product.clone()),
        ("product_number", gpu.name.clone()),
        ("vbios_version", "000-ROCJITSU-000".to_owned()),
        ("current_link_width", "16".to_owned()),
        ("max_link_width", "16".to_owned()),
        ("current_link_speed", "32.0 GT/s PCIe".to_owned()),
        ("max_link_speed", "32.0 GT/s PCIe".to_owned()),
        ("pcie_replay_count", "0".to_owned()),
        (
            "fw_version/mec_fw_version",
            format!("{:#010x}", gpu.firmware.mec),
        ),
        (
            "fw_version/sdma_fw_version",
            format!("{:#010x}", gpu.firmware.sdma),
        ),
    ]);
    if id.unique_id != 0 {
        list.extend(files([
            ("unique_id", format!("{:016x}", id.unique_id)),
            ("serial_number", format!("{:016x}", id.unique_id)),
        ]));
    }
    if id.hive_id != 0 {
        list.extend(files([
            ("xgmi_device_id", format!("{}", id.unique_id)),
            ("xgmi_hive_info/xgmi_hive_id", format!("{}", id.hive_id)),
        ]));
    }
    list
}

/// The driver replaces the `_used` ones by counters.
fn memory(machine: &Machine, gpu: &Gpu) -> Files {
    let vendor = match gpu.memory.kind {
        MemoryKind::Gddr6 => "samsung",
        _ => "unknown",
    };
    let gtt = machine.cpu.memory_bytes / 2;
    files([
        ("mem_info_vram_total", gpu.vram_bytes.to_string()),
        ("mem_info_vram_used", "0".to_owned()),
        ("mem_info_vis_vram_total", gpu.vram_bytes.to_string()),
        ("mem_info_vis_vram_used", "0".to_owned()),
        ("mem_info_gtt_total", gtt.to_string()),
        ("mem_info_gtt_used", "0".to_owned()),
        ("mem_info_preempt_used", "0".to_owned()),
        ("mem_info_vram_vendor", vendor.to_owned()),
    ])
}

fn partitions(gpu: &Gpu) -> Files {
    let modes = &gpu.partition.modes;
    if modes.as_slice() == [PartitionMode::Spx] {
        return Vec::new();
    }
    let known: Vec<_> = modes.iter().map(|mode| mode.name()).collect();
    files([
        (
            "current_compute_partition",
            gpu.partition.mode.name().to_owned(),
        ),
        ("available_compute_partition", known.join(", ")),
        ("current_memory_partition", "NPS1".to_owned()),
        ("available_memory_partition", "NPS1".to_owned()),
    ])
}

fn clocks(gpu: &Gpu) -> Files {
    let mhz = 1_000_000;
    let (engine, memory) = (gpu.clock_mhz, gpu.memory.clock_mhz);
    files([
        ("power_dpm_force_performance_level", "auto".to_owned()),
        ("power_dpm_state", "performance".to_owned()),
        ("gpu_busy_percent", "0".to_owned()),
        ("mem_busy_percent", "0".to_owned()),
        ("pp_dpm_sclk", format!("0: 500Mhz\n1: {engine}Mhz *")),
        ("pp_dpm_mclk", format!("0: {memory}Mhz *")),
        ("hwmon/hwmon0/name", "amdgpu".to_owned()),
        ("hwmon/hwmon0/freq1_label", "sclk".to_owned()),
        (
            "hwmon/hwmon0/freq1_input",
            (u64::from(engine) * mhz).to_string(),
        ),
        ("hwmon/hwmon0/freq2_label", "mclk".to_owned()),
        (
            "hwmon/hwmon0/freq2_input",
            (u64::from(memory) * mhz).to_string(),
        ),
    ])
}

/// The start of the PCI configuration space, with no capabilities.
fn config_space(gpu: &Gpu) -> Vec<u8> {
    let id = &gpu.identity;
    let mut bytes = vec![0; 256];
    let mut put = |offset: usize, value: u32, size: usize| {
        bytes[offset..offset + size].copy_from_slice(&value.to_le_bytes()[..size]);
    };
    put(0x00, id.vendor_id, 2);
    put(0x02, id.device_id, 2);
    // Memory space and bus mastering on.
    put(0x04, 6, 2);
    put(0x08, class(gpu) << 8 | id.pci_revision, 4);
    put(0x2c, id.subsystem.0, 2);
    put(0x2e, id.subsystem.1, 2);
    bytes
}

/// `ip_discovery/die/0/<hardware id>/<instance>/{major,minor,revision}`.
fn ip_discovery(tree: &mut Tree, gpu: &Gpu, directory: &str) {
    let die = format!("{directory}/ip_discovery/die/0");
    let mut count = 0;
    for block in &gpu.ip_blocks {
        let instances = match block.hardware_id {
            GC_HWID => gpu.xccs,
            SDMA0_HWID => gpu.sdma.engines + gpu.sdma.xgmi_engines,
            _ => 1,
        };
        count += instances;
        let (major, minor, revision) = block.version;
        for instance in 0..instances {
            for (name, value) in [
                ("hw_id", block.hardware_id),
                ("num_instance", instance),
                ("major", major.into()),
                ("minor", minor.into()),
                ("revision", revision.into()),
                ("num_base_addresses", 0),
            ] {
                tree.file(
                    &format!("{die}/{}/{instance}/{name}", block.hardware_id),
                    format!("{value}\n"),
                );
            }
        }
    }
    tree.file(&format!("{die}/num_ips"), format!("{count}\n"));
}
