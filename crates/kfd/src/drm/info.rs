//! DRM_IOCTL_VERSION, GET_CLIENT and AMDGPU_INFO: what the render node says of the GPU.

use rocjitsu_config::{CacheKind, CacheScope, GC_HWID, Gpu, Machine, SDMA0_HWID};
use rustix::io::Errno;
use zerocopy::IntoBytes;

use super::DrmCall;
use crate::abi::{
    DrmClient, DrmDevice, DrmFirmware, DrmHeap, DrmHwIp, DrmInfo, DrmMemory, DrmVbios, DrmVersion,
};
use crate::clock;
use crate::table::Handled;

/// Version 3.x of "amdgpu". Strings are copied as far as there is room, lengths come back whole.
pub(crate) fn version(call: &DrmCall<'_>, args: &mut DrmVersion) -> Handled {
    args.version_major = 3;
    args.version_minor = 59;
    args.version_patchlevel = 0;
    for (length, address, text) in [
        (&mut args.name_len, args.name, "amdgpu"),
        (&mut args.date_len, args.date, "20150101"),
        (&mut args.desc_len, args.desc, "AMD GPU"),
    ] {
        let room = (*length).min(text.len() as u64) as usize;
        if room > 0 && address != 0 {
            call.driver
                .user()
                .write(address, &text.as_bytes()[..room])?;
        }
        *length = text.len() as u64;
    }
    Ok(())
}

/// The only client is the caller, and it is authenticated.
pub(crate) fn client(_call: &DrmCall<'_>, args: &mut DrmClient) -> Handled {
    if args.idx != 0 {
        return Err(Errno::INVAL);
    }
    args.auth = 1;
    args.pid = rustix::process::getpid().as_raw_nonzero().get() as u64;
    args.uid = u64::from(rustix::process::getuid().as_raw());
    args.magic = 0;
    args.iocs = 0;
    Ok(())
}

/// Queries (`AMDGPU_INFO_*` of `amdgpu_drm.h`).
mod query {
    pub const ACCEL_WORKING: u32 = 0x00;
    pub const HW_IP_INFO: u32 = 0x02;
    pub const HW_IP_COUNT: u32 = 0x03;
    pub const TIMESTAMP: u32 = 0x05;
    pub const FW_VERSION: u32 = 0x0e;
    pub const NUM_BYTES_MOVED: u32 = 0x0f;
    pub const VRAM_USAGE: u32 = 0x10;
    pub const GTT_USAGE: u32 = 0x11;
    pub const GDS_CONFIG: u32 = 0x13;
    pub const VRAM_GTT: u32 = 0x14;
    pub const READ_MMR_REG: u32 = 0x15;
    pub const DEV_INFO: u32 = 0x16;
    pub const VIS_VRAM_USAGE: u32 = 0x17;
    pub const NUM_EVICTIONS: u32 = 0x18;
    pub const MEMORY: u32 = 0x19;
    pub const VBIOS: u32 = 0x1b;
    pub const SENSOR: u32 = 0x1d;
    pub const NUM_VRAM_CPU_PAGE_FAULTS: u32 = 0x1e;
    pub const VRAM_LOST_COUNTER: u32 = 0x1f;
    pub const RAS_ENABLED_FEATURES: u32 = 0x20;
    pub const VIDEO_CAPS: u32 = 0x21;
    pub const MAX_IBS: u32 = 0x22;
    pub const GPUVM_FAULT: u32 = 0x23;
}

/// Answers a query with the machine's values.
///
/// # Errors
/// `EINVAL` for a query that is not answered, or one without room for the answer; `EFAULT` for a
/// bad address.
pub(crate) fn info(call: &DrmCall<'_>, args: &mut DrmInfo) -> Handled {
    let machine = call.driver.machine();
    let gpu = machine.gpus.get(call.file.gpu).ok_or(Errno::NODEV)?;
    if args.return_size == 0 || args.return_pointer == 0 {
        return Err(Errno::INVAL);
    }
    let used = Used {
        vram: call
            .driver
            .gpus()
            .get(call.file.gpu)
            .map_or(0, |gpu| gpu.vram.used()),
        gtt: call.driver.gtt().used(),
    };
    let bytes = answer(gpu, machine, used, args.query, args.parameters)?;
    let room = bytes.len().min(args.return_size as usize);
    call.driver
        .user()
        .write(args.return_pointer, &bytes[..room])
}

/// Bytes that this process holds.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    vram: u64,
    gtt: u64,
}

/// The bytes of an answer.
fn answer(
    gpu: &Gpu,
    machine: &Machine,
    used: Used,
    query: u32,
    parameters: [u32; 4],
) -> Result<Vec<u8>, Errno> {
    let vram = gpu.vram_bytes;
    let gtt = machine.cpu.memory_bytes / 2;
    let word = |value: u32| Ok(value.to_le_bytes().to_vec());
    let long = |value: u64| Ok(value.to_le_bytes().to_vec());
    match query {
        query::ACCEL_WORKING => word(1),
        query::DEV_INFO => Ok(device(gpu).as_bytes().to_vec()),
        query::READ_MMR_REG => registers(gpu, parameters),
        query::HW_IP_INFO => hw_ip(gpu, parameters[0]).map(|ip| ip.as_bytes().to_vec()),
        query::HW_IP_COUNT => word(hw_ip(gpu, parameters[0]).map_or(0, |_| 1)),
        query::TIMESTAMP => long(clock::ticks()),
        query::FW_VERSION => firmware(gpu, parameters[0]),
        query::VRAM_GTT => Ok([vram, vram, gtt].as_bytes().to_vec()),
        query::MEMORY => {
            let heap = |total, used| DrmHeap {
                total,
                usable: total,
                used,
                max_allocation: total / 4 * 3,
            };
            let memory = DrmMemory {
                vram: heap(vram, used.vram),
                cpu_accessible_vram: heap(vram, used.vram),
                gtt: heap(gtt, used.gtt),
            };
            Ok(memory.as_bytes().to_vec())
        }
        query::VRAM_USAGE | query::VIS_VRAM_USAGE => long(used.vram),
        query::GTT_USAGE => long(used.gtt),
        // Counters of what does not happen here.
        query::NUM_BYTES_MOVED | query::NUM_EVICTIONS | query::NUM_VRAM_CPU_PAGE_FAULTS => long(0),
        query::VRAM_LOST_COUNTER => word(0),
        query::RAS_ENABLED_FEATURES => long(0),
        // No global data share, no video engines, no fault yet.
        query::GDS_CONFIG => Ok(vec![0; 32]),
        query::VIDEO_CAPS => Ok(vec![0; 264]),
        query::GPUVM_FAULT => Ok(vec![0; 16]),
        query::MAX_IBS => Ok(vec![0; 40]),
        query::SENSOR => word(sensor(gpu, parameters[0])?),
        query::VBIOS => vbios(gpu, parameters[0]),
        _ => Err(Errno::INVAL),
    }
}

/// `AMDGPU_IDS_FLAGS_FUSION`.
const APU: u64 = 1;
/// The lower half of the GPU's addresses ends here (`AMDGPU_GMC_HOLE_START`).
const HOLE_START: u64 = 1 << 47;
/// Where the upper half begins.
const HOLE_END: u64 = 0xffff_8000_0000_0000;
/// The first address that programs get: the driver keeps two mebibytes for itself.
const FIRST_ADDRESS: u64 = 2 << 20;

fn device(gpu: &Gpu) -> DrmDevice {
    let id = &gpu.identity;
    let mut cu_bitmap = [[0; 4]; 4];
    // As the kernel lays out more than four engines: the further ones in columns 2 and 3.
    for engine in 0..gpu.shader_engines {
        for array in 0..gpu.arrays_per_engine {
            let column = array + engine / 4 * 2;
            let row = (engine % 4) as usize;
            if let Some(place) = cu_bitmap[row].get_mut(column as usize) {
                *place = gpu.cu_mask(engine * gpu.arrays_per_engine + array);
            }
        }
    }
    let kib = |level, kind| gpu.cache(level, kind).map_or(0, |cache| cache.kib);
    let of_array = gpu
        .caches
        .iter()
        .find(|cache| cache.scope == CacheScope::Array);
    let modern = !gpu.target.starts_with("gfx9");
    let if_modern = |value: u32| if modern { value } else { 0 };
    let l2_kib = kib(2, CacheKind::Data);
    DrmDevice {
        device_id: id.device_id,
        chip_rev: id.chip_revision,
        external_rev: id.external_revision,
        pci_rev: id.pci_revision,
        family: id.family,
        num_shader_engines: gpu.shader_engines,
        num_shader_arrays_per_engine: gpu.arrays_per_engine,
        gpu_counter_freq: gpu.counter_khz,
        max_engine_clock: u64::from(gpu.clock_mhz) * 1000,
        max_memory_clock: u64::from(gpu.memory.clock_mhz) * 1000,
        cu_active_number: gpu.compute_units,
        cu_bitmap,
        num_hw_gfx_contexts: 8,
        pcie_gen: 5,
        ids_flags: if gpu.apu { APU } else { 0 },
        virtual_address_offset: FIRST_ADDRESS,
        virtual_address_max: HOLE_START,
        virtual_address_alignment: 4096,
        pte_fragment_size: 2 << 20,
        gart_page_size: 4096,
        vram_type: gpu.memory.kind.number(),
        vram_bit_width: gpu.memory.width_bits,
        wave_front_size: gpu.wave_size,
        num_shader_visible_vgprs: match gpu.target.as_str() {
            "gfx90a" | "gfx942" | "gfx950" => 512,
            "gfx1250" => 1024,
            _ => 256,
        },
        num_cu_per_sh: gpu.cus_per_array,
        // A channel of the L2 has 256 KiB on all these chips.
        num_tcc_blocks: l2_kib / 256,
        pcie_num_lanes: 16,
        high_va_offset: HOLE_END,
        high_va_max: HOLE_END | (HOLE_START - 1),
        tcp_cache_size: if_modern(kib(1, CacheKind::Data)),
        num_sqc_per_wgp: if_modern(1),
        sqc_data_cache_size: if_modern(kib(1, CacheKind::Scalar)),
        sqc_inst_cache_size: if_modern(kib(1, CacheKind::Instruction)),
        gl1c_cache_size: of_array.map_or(0, |cache| cache.kib),
        gl2c_cache_size: if_modern(l2_kib),
        mall_size: u64::from(kib(3, CacheKind::Data)) << 10,
        ..DrmDevice::default()
    }
}

/// Dword address of GB_ADDR_CONFIG, the one register that libdrm reads of these chips.
const GB_ADDR_CONFIG: u32 = 0x263e;

/// GB_ADDR_CONFIG: how surfaces are spread over pipes and banks. Of the chips without images as
/// the kernel's golden value for GC 9.4; of the others the value for GC 11.0, from memory.
pub(crate) fn gb_addr_config(gpu: &Gpu) -> u32 {
    if gpu.target.starts_with("gfx9") {
        0x2a11_4042
    } else {
        0x0000_0545
    }
}

/// `{ first dword, count, instance, flags }`.
fn registers(gpu: &Gpu, [first, count, _, _]: [u32; 4]) -> Result<Vec<u8>, Errno> {
    // Others are not to be read, as with the kernel's list of permitted ones.
    if (first, count) != (GB_ADDR_CONFIG, 1) {
        return Err(Errno::INVAL);
    }
    Ok(gb_addr_config(gpu).to_le_bytes().to_vec())
}

/// `AMDGPU_HW_IP_COMPUTE` and `_DMA`. No rings: command submission through DRM is not simulated.
fn hw_ip(gpu: &Gpu, kind: u32) -> Result<DrmHwIp, Errno> {
    let block = match kind {
        1 => GC_HWID,
        2 => SDMA0_HWID,
        _ => return Err(Errno::INVAL),
    };
    let (major, minor, revision) = gpu.ip_version(block).ok_or(Errno::INVAL)?;
    Ok(DrmHwIp {
        version_major: major.into(),
        version_minor: minor.into(),
        ib_start_alignment: 32,
        ib_size_alignment: 32,
        ip_discovery_version: u32::from_be_bytes([0, major, minor, revision]),
        ..DrmHwIp::default()
    })
}

/// `AMDGPU_INFO_FW_*`: those that run here have a version, the others none (0).
fn firmware(gpu: &Gpu, kind: u32) -> Result<Vec<u8>, Errno> {
    let version = match kind {
        0x08 => gpu.firmware.mec,
        0x0b => gpu.firmware.sdma,
        0x01..=0x1c => 0,
        _ => return Err(Errno::INVAL),
    };
    let answer = DrmFirmware {
        version,
        feature: 0,
    };
    Ok(answer.as_bytes().to_vec())
}

/// `AMDGPU_INFO_SENSOR_*`: clocks in MHz and load in percent; there is no temperature or power.
fn sensor(gpu: &Gpu, kind: u32) -> Result<u32, Errno> {
    match kind {
        0x1 | 0x8 | 0xa => Ok(gpu.clock_mhz),
        0x2 | 0x9 | 0xb => Ok(gpu.memory.clock_mhz),
        0x4 => Ok(0),
        _ => Err(Errno::INVAL),
    }
}

/// `AMDGPU_INFO_VBIOS_SIZE` (there is no image) and `_INFO`.
fn vbios(gpu: &Gpu, kind: u32) -> Result<Vec<u8>, Errno> {
    let text = |text: &str| {
        let mut field = [0; 32];
        let length = text.len().min(31);
        field[..length].copy_from_slice(&text.as_bytes()[..length]);
        field
    };
    match kind {
        1 => Ok(0u32.to_le_bytes().to_vec()),
        3 => {
            let answer = DrmVbios {
                name: [text(&gpu.name), [0; 32]],
                version_text: text("000-ROCJITSU-000"),
                ..DrmVbios::default()
            };
            Ok(answer.as_bytes().to_vec())
        }
        _ => Err(Errno::INVAL),
    }
}

#[cfg(test)]
mod tests {
    use rocjitsu_config::{preset, preset_names};
    use zerocopy::FromBytes;

    use super::*;

    fn ask(name: &str, query: u32, parameters: [u32; 4]) -> Result<Vec<u8>, Errno> {
        let machine = Machine::new(vec![preset(name).unwrap()]);
        let used = Used {
            vram: 4096,
            gtt: 8192,
        };
        answer(&machine.gpus[0], &machine, used, query, parameters)
    }

    fn word(bytes: &[u8], offset: usize) -> u32 {
        u32::from_le_bytes(bytes[offset..offset + 4].try_into().unwrap())
    }

    /// Offsets as in `amdgpu_drm.h`, not taken from the structure above.
    #[test]
    fn device_information_of_cards() {
        let mi300x = ask("mi300x", 0x16, [0; 4]).unwrap();
        assert_eq!(mi300x.len(), 440);
        let values = [0, 4, 12, 16, 20, 24, 28, 32, 48].map(|offset| word(&mi300x, offset));
        let max = 2_100_000;
        assert_eq!(values, [0x74a1, 1, 0, 141, 4, 1, 100_000, max, 304]);
        assert_eq!(
            [56, 72, 88, 104].map(|at| word(&mi300x, at)),
            [0x3ff, 0x3ff, 0x1ff, 0x1ff]
        );
        assert_eq!(
            [136, 160, 176, 180, 240].map(|at| word(&mi300x, at)),
            [0, 4096, 6, 8192, 64]
        );
        assert_eq!(word(&mi300x, 252), 16);
        let w7900 = ask("w7900", 0x16, [0; 4]).unwrap();
        assert_eq!([16, 20, 24, 48].map(|at| word(&w7900, at)), [145, 6, 2, 96]);
        // Engines 4 and 5 lie in columns 2 and 3 of rows 0 and 1.
        let bitmap: Vec<u32> = (0..16).map(|at| word(&w7900, 56 + 4 * at)).collect();
        assert_eq!(bitmap.iter().map(|mask| mask.count_ones()).sum::<u32>(), 96);
        assert_eq!(bitmap[8..], [0xff, 0xff, 0, 0, 0xff, 0xff, 0, 0]);
        assert_eq!(
            [384, 392, 396, 400, 404].map(|at| word(&w7900, at)),
            [32, 16, 32, 256, 6144]
        );
        let apu = ask("strix-halo", 0x16, [0; 4]).unwrap();
        assert_eq!((word(&apu, 136), word(&apu, 176)), (1, 12));
    }

    #[test]
    fn every_preset_answers_what_libraries_ask_at_start() {
        for name in preset_names() {
            assert_eq!(ask(name, 0x00, [0; 4]).unwrap(), [1, 0, 0, 0]);
            let register = ask(name, 0x15, [0x263e, 1, u32::MAX, 0]).unwrap();
            assert_ne!(word(&register, 0), 0);
            assert_eq!(ask(name, 0x15, [0x2000, 1, 0, 0]), Err(Errno::INVAL));
            let memory = ask(name, 0x19, [0; 4]).unwrap();
            let memory = DrmMemory::read_from_bytes(&memory).unwrap();
            assert_eq!(memory.vram.total, preset(name).unwrap().vram_bytes);
            assert_eq!((memory.vram.used, memory.gtt.used), (4096, 8192));
            let ip = DrmHwIp::read_from_bytes(&ask(name, 0x02, [1, 0, 0, 0]).unwrap()).unwrap();
            assert!(ip.version_major >= 9 && ip.available_rings == 0);
            assert_eq!(ask(name, 0x03, [0; 4]).unwrap(), [0; 4]);
            let mec = ask(name, 0x0e, [8, 0, 0, 0]).unwrap();
            assert_eq!(word(&mec, 0), preset(name).unwrap().firmware.mec);
        }
        let clock = ask("r9700", 0x1d, [1, 0, 0, 0]).unwrap();
        assert_eq!(word(&clock, 0), 2350);
        assert_eq!(ask("r9700", 0x1d, [3, 0, 0, 0]), Err(Errno::INVAL));
        assert_eq!(ask("r9700", 0xff, [0; 4]), Err(Errno::INVAL));
    }

    #[test]
    fn no_query_panics() {
        for query in 0..64 {
            for parameter in [0, 1, 2, 3, 31, 0x263e, u32::MAX] {
                if let Ok(bytes) = ask("mi300x", query, [parameter; 4]) {
                    assert!(!bytes.is_empty() && bytes.len() <= 4096);
                }
            }
        }
    }
}
