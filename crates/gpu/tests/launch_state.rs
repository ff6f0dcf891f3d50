//! What waves find when they start, seen by tiny kernels that store it.

use std::sync::Arc;

use rocjitsu_gpu::code_object::KernelDescriptor;
use rocjitsu_gpu::dispatch::{Device, Dispatch, Limits, Options, Origin};
use rocjitsu_gpu::memory::{Memory, Request};
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;
use rocjitsu_observe::Silent;

/// A descriptor of one user SGPR pair, the kernarg address, and work-item ids of the given kind.
fn descriptor(ids: u32) -> KernelDescriptor {
    let mut bytes = [0u8; 64];
    let rsrc2: u32 = 2 << 1 | ids << 11;
    bytes[44..48].copy_from_slice(&1u32.to_le_bytes());
    bytes[52..56].copy_from_slice(&rsrc2.to_le_bytes());
    // KERNEL_CODE_PROPERTIES: the kernarg pointer.
    bytes[56..58].copy_from_slice(&(1u16 << 3).to_le_bytes());
    KernelDescriptor::decode(&bytes, Target::Gfx942).expect("a valid descriptor")
}

/// Runs a gfx942 kernel of one wave in which every lane stores its v0; returns the words.
fn v0_of(ids: u32, workgroup: [u32; 3]) -> Vec<u32> {
    // v_mbcnt_lo_u32_b32 v1, -1, 0; v_mbcnt_hi_u32_b32 v1, -1, v1; v_lshlrev_b32 v1, 2, v1;
    // global_store_dword v1, v0, s[0:1]; s_endpgm
    let code: [u32; 9] = [
        0xd28c_0001,
        0x0001_00c1,
        0xd28d_0001,
        0x0002_02c1,
        0x2402_0282,
        0xdc70_8000,
        0x0000_0001,
        0xbf81_0000,
        0xbf80_0000,
    ];
    let memory = Arc::new(Memory::new(1 << 30));
    let place = |bytes: &[u8], label: &str| {
        let at = memory.allocate(&Request::new(4096, label)).expect("room");
        memory.write(at, bytes).expect("inside");
        at
    };
    let bytes: Vec<u8> = code.iter().flat_map(|w| w.to_le_bytes()).collect();
    let entry = place(&bytes, "code");
    let out = place(&[], "out");
    let limits = Limits {
        compute_units: 1,
        waves_per_unit: 32,
        lds_per_unit: 65536,
        xccs: 1,
    };
    let device =
        Device::new(Target::Gfx942, Backend::best(), limits, memory.clone()).expect("supported");
    let dispatch = Dispatch {
        name: "v0".to_owned(),
        descriptor: descriptor(ids),
        entry,
        grid: workgroup,
        workgroup,
        cluster: [1; 3],
        group_segment: 0,
        private_segment: 0,
        kernarg: out,
        packet: 0,
        queue: 0,
        id: 0,
        origin: Origin::default(),
    };
    let options = Options {
        threads: 1,
        eager_registers: false,
        ..Options::default()
    };
    device.dispatch(&dispatch, options, &Silent).expect("runs");
    let mut words = vec![0u8; 4 * workgroup.iter().product::<u32>() as usize];
    memory.read(out, &mut words).expect("inside");
    words
        .chunks_exact(4)
        .map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]]))
        .collect()
}

#[test]
fn work_item_ids_that_are_not_asked_for_stay_zero() {
    let id = |n: u32| (n % 4, n / 4 % 4, n / 16);
    for (ids, with_y, with_z) in [(0, 0, 0), (1, 1, 0), (2, 1, 1)] {
        let want: Vec<u32> = (0..64)
            .map(id)
            .map(|(x, y, z)| x | (with_y * (y << 10)) | (with_z * (z << 20)))
            .collect();
        assert_eq!(v0_of(ids, [4, 4, 4]), want, "ENABLE_VGPR_WORKITEM_ID {ids}");
    }
}
