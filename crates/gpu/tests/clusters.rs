//! Workgroup clusters of gfx1250: their barrier, and what a dispatch with them asks for.

use std::sync::Arc;

use rocjitsu_gpu::code_object::KernelDescriptor;
use rocjitsu_gpu::dispatch::{
    Device, Dispatch, DispatchError, Limits, Options, Origin, Statistics,
};
use rocjitsu_gpu::memory::{Memory, Request};
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;

const SIGNAL: u32 = 0xbe80_4ec3;
const WAIT: u32 = 0xbf94_fffd;
const END: u32 = 0xbfb0_0000;

/// Runs `code` with workgroups of one wave, in clusters along x. The kernarg pointer, in s[0:1], is that of the
/// eight words that are returned.
fn run(
    code: &[u32],
    workgroups: u32,
    cluster: u32,
) -> (Result<Statistics, DispatchError>, [u32; 8]) {
    let memory = Arc::new(Memory::new(1 << 24));
    let code_at = memory.allocate(&Request::new(4096, "code")).unwrap();
    let data = memory.allocate(&Request::new(4096, "data")).unwrap();
    let bytes: Vec<u8> = code.iter().flat_map(|w| w.to_le_bytes()).collect();
    memory.write(code_at, &bytes).unwrap();
    let mut descriptor = [0; 64];
    descriptor[52] = 2 << 1;
    // ENABLE_SGPR_KERNARG_SEGMENT_PTR and ENABLE_WAVEFRONT_SIZE32.
    descriptor[56..58].copy_from_slice(&0x408u16.to_le_bytes());
    let dispatch = Dispatch {
        name: "test".to_owned(),
        descriptor: KernelDescriptor::decode(&descriptor, Target::Gfx1250).unwrap(),
        entry: code_at,
        grid: [32 * workgroups, 1, 1],
        workgroup: [32, 1, 1],
        cluster: [cluster, 1, 1],
        group_segment: 0,
        private_segment: 0,
        kernarg: data,
        packet: 0,
        queue: 0,
        id: 0,
        origin: Origin::default(),
    };
    let limits = Limits {
        compute_units: 4,
        waves_per_unit: 16,
        lds_per_unit: 1 << 16,
        xccs: 1,
    };
    let device = Device::new(Target::Gfx1250, Backend::Scalar, limits, memory.clone()).unwrap();
    let options = Options {
        threads: 2,
        eager_registers: false,
        ..Options::default()
    };
    let done = device.dispatch(&dispatch, options, &rocjitsu_observe::Silent);
    let mut out = [0; 32];
    memory.read(data, &mut out).unwrap();
    let word = |i: usize| u32::from_le_bytes(out[4 * i..4 * i + 4].try_into().unwrap());
    (done, std::array::from_fn(word))
}

#[test]
fn workgroups_see_what_others_wrote_before_the_barrier() {
    let code = [
        0x8b02_8f72, // s_and_b32 s2, ttmp6, 15: the workgroup's x in the cluster
        0x7e08_0202, // v_mov_b32 v4, s2
        0x7e06_0287, // v_mov_b32 v3, 7
        0xee06_8000,
        0x0181_0000,
        0x0000_0004, // global_store_b32 v4, v3, s[0:1] scale_offset
        SIGNAL,
        WAIT,
        0x3a0a_0881, // v_xor_b32 v5, 1, v4
        0xee05_0000,
        0x0001_0003,
        0x0000_0005, // global_load_b32 v3, v5, s[0:1] scale_offset
        0x4a0c_0884, // v_add_nc_u32 v6, 4, v4
        0xee06_8000,
        0x0181_0000,
        0x0000_0006, // global_store_b32 v6, v3, s[0:1] scale_offset
        END,
    ];
    let (done, words) = run(&code, 2, 2);
    let done = done.unwrap();
    assert_eq!((done.workgroups, done.waves), (2, 2));
    assert_eq!(words, [7, 7, 0, 0, 7, 7, 0, 0]);
}

#[test]
fn a_barrier_does_not_wait_for_workgroups_that_ended() {
    // s_and_b32 s2, ttmp6, 15; s_cbranch_scc0 to the end: workgroup 0 takes no part.
    let code = [0x8b02_8f72, 0xbfa1_0002, SIGNAL, WAIT, END];
    run(&code, 6, 3).0.unwrap();
}

#[test]
fn waiting_without_a_signal_is_a_deadlock_that_names_the_workgroups() {
    let error = run(&[WAIT, END], 4, 2).0.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, DispatchError::Deadlock { .. }), "{text}");
    assert!(
        text.contains("workgroup [0, 0, 0] wave 0 at barrier 17")
            || text.contains("workgroup [2, 0, 0] wave 0"),
        "{text}"
    );
    // Without a cluster the same instruction does nothing.
    run(&[WAIT, END], 4, 1).0.unwrap();
}

#[test]
fn a_grid_is_made_of_whole_clusters() {
    let text = run(&[END], 5, 2).0.unwrap_err().to_string();
    assert!(
        text.contains("[5, 1, 1] workgroups are not whole clusters of [2, 1, 1]"),
        "{text}"
    );
}
