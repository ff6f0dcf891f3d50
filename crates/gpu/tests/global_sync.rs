//! Waves that wait for other workgroups at global wave sync, waves of a workgroup that wait for memory, and which
//! failure a dispatch reports.

use std::sync::Arc;

use rocjitsu_gpu::code_object::KernelDescriptor;
use rocjitsu_gpu::dispatch::{Device, Dispatch, DispatchError, Limits, Options, Origin};
use rocjitsu_gpu::memory::{Memory, Request};
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;

/// gfx942 code, word by word. The kernarg pointer is in s[0:1], the workgroup's id in s2.
const M0_ZERO: u32 = 0xbefc_0080; // s_mov_b32 m0, 0
const END: u32 = 0xbf81_0000;
const INIT: [u32; 2] = [0xd933_0001, 0]; // ds_gws_init v0 offset:1 gds
const BARRIER: [u32; 2] = [0xd93b_0001, 0]; // ds_gws_barrier v0 offset:1 gds
const SEMA_V: [u32; 2] = [0xd935_0001, 0];
const SEMA_P: [u32; 2] = [0xd939_0001, 0];

/// v_mov_b32 v0, n
fn count(n: u32) -> u32 {
    0x7e00_0280 + n
}

struct Bench {
    memory: Arc<Memory>,
    groups: u32,
    /// Waves of a workgroup.
    waves: u32,
    threads: usize,
    resident: u32,
}

impl Bench {
    fn new(groups: u32, threads: usize) -> Bench {
        Bench {
            memory: Arc::new(Memory::new(1 << 26)),
            groups,
            waves: 1,
            threads,
            resident: 64,
        }
    }

    /// Runs the kernels one after the other on one device, each with all workgroups, and returns the
    /// words that they wrote.
    fn run(&self, kernels: &[&[u32]]) -> (Result<(), DispatchError>, Vec<u32>) {
        let memory = &self.memory;
        let limits = Limits {
            compute_units: self.resident,
            waves_per_unit: self.waves,
            lds_per_unit: 65536,
            xccs: 1,
        };
        let device = Device::new(Target::Gfx942, Backend::Scalar, limits, memory.clone()).unwrap();
        let out = memory.allocate(&Request::new(4096, "out")).unwrap();
        let mut result = Ok(());
        for code in kernels {
            let at = memory.allocate(&Request::new(4096, "code")).unwrap();
            let bytes: Vec<u8> = code.iter().flat_map(|w| w.to_le_bytes()).collect();
            memory.write(at, &bytes).unwrap();
            let mut raw = [0u8; 64];
            // Eight VGPRs, all of them VGPRs; the kernarg pointer and the workgroup's x.
            raw[44..48].copy_from_slice(&1u32.to_le_bytes());
            raw[52..56].copy_from_slice(&(2u32 << 1 | 1 << 7).to_le_bytes());
            raw[56..58].copy_from_slice(&(1u16 << 3).to_le_bytes());
            let dispatch = Dispatch {
                name: "test".to_owned(),
                descriptor: KernelDescriptor::decode(&raw, Target::Gfx942).unwrap(),
                entry: at,
                grid: [64 * self.groups * self.waves, 1, 1],
                workgroup: [64 * self.waves, 1, 1],
                cluster: [1; 3],
                group_segment: 64,
                private_segment: 0,
                kernarg: out,
                packet: 0,
                queue: 0,
                id: 0,
                origin: Origin::default(),
            };
            let options = Options {
                threads: self.threads,
                ..Options::default()
            };
            let done = device.dispatch(&dispatch, options, &rocjitsu_observe::Silent);
            result = result.and(done.map(|_| ()));
        }
        let mut bytes = vec![0u8; 4096];
        memory.read(out, &mut bytes).unwrap();
        let words = bytes
            .chunks_exact(4)
            .map(|w| u32::from_le_bytes(w.try_into().unwrap()))
            .collect();
        (result, words)
    }
}

/// Each workgroup counts itself (word 0), waits, and stores the count it sees as word 16 + id. `counts`: of the
/// initialisation and of the barriers.
fn cooperative(groups: u32) -> [Vec<u32>; 2] {
    let n = count(groups - 1);
    let mut init = vec![M0_ZERO, n];
    init.extend(INIT);
    init.push(END);
    let kernel = vec![
        M0_ZERO,
        0x7e02_0280, // v_mov_b32 v1, 0
        0x7e04_0281, // v_mov_b32 v2, 1
        0xbefe_0181, // s_mov_b64 exec, 1
        0xdd08_8000,
        0x0000_0201, // global_atomic_add v1, v2, s[0:1]
        n,
        BARRIER[0],
        BARRIER[1],
        0xdc50_8000,
        0x0300_0001, // global_load_dword v3, v1, s[0:1]
        0x8e02_8202, // s_lshl_b32 s2, s2, 2
        0x7e08_0202, // v_mov_b32 v4, s2
        0xdc70_8040,
        0x0000_0304, // global_store_dword v4, v3, s[0:1] offset:64
        BARRIER[0],
        BARRIER[1],
        END,
    ];
    [init, kernel]
}

#[test]
fn a_kernel_initialises_the_barrier_of_the_next_ones() {
    for threads in [1, 2, 4] {
        for groups in [1, 2, 5, 33] {
            let [init, kernel] = cooperative(groups);
            let bench = Bench::new(groups, threads);
            // The initialisation is the same for all workgroups, as ROCm's is one wave's.
            let (done, words) = bench.run(&[&init, &kernel, &kernel]);
            done.unwrap();
            assert_eq!(words[0], 2 * groups);
            let seen = &words[16..16 + groups as usize];
            assert!(seen.iter().all(|&n| n == 2 * groups), "{threads}: {seen:?}");
        }
    }
}

#[test]
fn barriers_that_cannot_fill_are_deadlocks() {
    for threads in [1, 2, 4] {
        // For five workgroups of which there are four.
        let [init, kernel] = cooperative(5);
        let bench = Bench::new(4, threads);
        let error = bench.run(&[&init, &kernel]).0.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, DispatchError::Deadlock { .. }), "{text}");
        assert!(text.contains("at global wave sync 1 (before "), "{text}");
        // For as many as there are, but more than the device holds at a time.
        let [init, kernel] = cooperative(8);
        let mut bench = Bench::new(8, threads);
        bench.resident = 4;
        let error = bench.run(&[&init, &kernel]).0.unwrap_err();
        assert!(matches!(error, DispatchError::Deadlock { .. }), "{error}");
    }
}

#[test]
fn a_semaphore_hands_one_wave_on_to_the_next() {
    // P, read, add one without an atomic, write, V: no count gets lost.
    let code = [
        M0_ZERO,
        0xbefe_0181, // s_mov_b64 exec, 1
        0x7e02_0280, // v_mov_b32 v1, 0
        SEMA_P[0],
        SEMA_P[1],
        0xdc50_8000,
        0x0300_0001, // global_load_dword v3, v1, s[0:1]
        0x6806_0681, // v_add_u32 v3, 1, v3
        0xbf8e_0001, // s_sleep 1
        0xdc70_8000,
        0x0000_0301, // global_store_dword v1, v3, s[0:1]
        SEMA_V[0],
        SEMA_V[1],
        END,
    ];
    let mut init = vec![M0_ZERO, count(1)];
    init.extend(INIT);
    init.push(END);
    for threads in [1, 4] {
        let bench = Bench::new(40, threads);
        let (done, words) = bench.run(&[&init, &code]);
        done.unwrap();
        assert_eq!(words[0], 40, "{threads}");
    }
}

/// Workgroups from 3 on fail, later ones sooner; whatever the threads, the report names the first.
#[test]
fn the_lowest_workgroup_that_fails_is_reported() {
    let code = [
        0xbf09_8302, // s_cmp_ge_u32 s2, 3
        0xbf85_0001, // s_cbranch_scc1 to the loop
        END,
        0x8083_02c0u32, // s_sub_u32 s3, 64, s2
        0x8083_8103,    // s_sub_u32 s3, s3, 1
        0xbf07_8003,    // s_cmp_lg_u32 s3, 0
        0xbf85_fffd,    // s_cbranch_scc1 to the subtraction
        0xbf92_0002,    // s_trap 2
        END,
    ];
    for threads in [1, 2, 4] {
        for _ in 0..20 {
            let bench = Bench::new(32, threads);
            match bench.run(&[&code]).0.unwrap_err() {
                DispatchError::Stopped { workgroup, .. } => assert_eq!(workgroup, [3, 0, 0]),
                other => panic!("{other}"),
            }
        }
    }
}

/// The same where workgroups are so short that a thread claims several at a time.
#[test]
fn the_lowest_of_many_short_workgroups_that_fails_is_reported() {
    const FIRST: u32 = 1007;
    let code = [
        0xbf09_ff02, // s_cmp_ge_u32 s2, FIRST
        FIRST,
        0xbf84_0001, // s_cbranch_scc0 to the end
        0xbf92_0002, // s_trap 2
        END,
    ];
    for threads in [1, 2, 4] {
        for _ in 0..20 {
            let bench = Bench::new(6000, threads);
            match bench.run(&[&code]).0.unwrap_err() {
                DispatchError::Stopped { workgroup, .. } => assert_eq!(workgroup, [FIRST, 0, 0]),
                other => panic!("{other}"),
            }
        }
    }
}

/// All of them run, once, and none is counted twice.
#[test]
fn many_short_workgroups_run_once_each() {
    // v_mov_b32 v1, 0; v_mov_b32 v2, 1; s_mov_b64 exec, 1; global_atomic_add v1, v2, s[0:1]
    let code = [
        0x7e02_0280,
        0x7e04_0281,
        0xbefe_0181,
        0xdd08_8000,
        0x0000_0201,
        END,
    ];
    for threads in [1, 2, 4] {
        for groups in [127, 128, 1000, 6001] {
            let (done, words) = Bench::new(groups, threads).run(&[&code]);
            done.unwrap();
            assert_eq!(words[0], groups, "{threads} threads");
        }
    }
}

#[test]
fn registers_beyond_the_descriptor_stop_the_wave_with_their_number() {
    // v_mov_b32 v7, 1; v_mov_b32 v8, 1: the descriptor gives eight.
    let error = Bench::new(1, 1)
        .run(&[&[0x7e0e_0281, 0x7e10_0281, END]])
        .0
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("v8 in v_mov_b32: the kernel's descriptor gives the wave 8 VGPRs (v0 to v7)"),
        "{text}"
    );
}

/// What the user sees of an instruction without semantics: kernel, workgroup, address, target, reason, and the text.
#[test]
fn an_instruction_without_semantics_is_named_with_its_reason() {
    let error = Bench::new(1, 1)
        .run(&[&[M0_ZERO, 0xbe80_1f00, END]])
        .0
        .unwrap_err();
    let text = error.to_string();
    for part in [
        "kernel test, workgroup [0, 0, 0], wave 0, at 0x",
        "(entry + 0x4) on gfx942: instruction without semantics: s_rfe_b64 (SOP1): returns from a trap handler",
        "-> 0x",
        ": s_rfe_b64 s[0:1]",
        ": s_mov_b32 m0, 0",
        "\n  lane 0, exec 0x",
    ] {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

#[test]
fn a_wave_that_waits_for_memory_after_a_barrier_lets_the_others_read_lds_first() {
    let kernel = [
        0x7e02_0280, // v_mov_b32 v1, 0
        0x7e04_0287, // v_mov_b32 v2, 7
        0xd81a_0000,
        0x0000_0201, // ds_write_b32 v1, v2
        0xbf8c_c07f, // s_waitcnt lgkmcnt(0)
        0xbf8a_0000, // s_barrier
        0xd86c_0000,
        0x0300_0001, // ds_read_b32 v3, v1
        0xdc50_8000,
        0x0400_0001, // global_load_dword v4, v1, s[0:1]
        0xbf8c_0070, // s_waitcnt vmcnt(0) lgkmcnt(0)
        0x7e04_0289, // v_mov_b32 v2, 9
        0xd81a_0000,
        0x0000_0201, // ds_write_b32 v1, v2
        0x240a_0082, // v_lshlrev_b32 v5, 2, v0
        0xdc70_8040,
        0x0000_0305, // global_store_dword v5, v3, s[0:1] offset:64
        END,
    ];
    let bench = Bench {
        waves: 4,
        ..Bench::new(1, 1)
    };
    let (done, words) = bench.run(&[&kernel]);
    done.unwrap();
    assert_eq!(words[16..16 + 256], [7; 256]);
}
