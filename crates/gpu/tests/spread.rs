//! Waves of one workgroup on several threads: the same bytes, the same errors, an end when it is asked for.
//! The kernels are machine code; `spread.s` has their source.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rocjitsu_gpu::code_object::KernelDescriptor;
use rocjitsu_gpu::dispatch::{
    Device, Dispatch, DispatchError, Limits, Options, Origin, Statistics,
};
use rocjitsu_gpu::memory::{Memory, Request};
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;
use rocjitsu_observe::Silent;

/// Twenty-four times: work, each lane's value to LDS, barrier, that of the next wave's lane, barrier.
#[rustfmt::skip]
const EXCHANGE: &[u32] = &[
    0x2402_0082, 0x6804_00c0, 0x2604_04ff, 0x0000_01ff, 0x2404_0482, 0x7e06_0300, 0xb004_0018, 0xb005_00c8,
    0xd285_0003, 0x0002_0303, 0x6806_06ff, 0x0000_3039, 0x2a06_0503, 0xd1ce_0003, 0x021e_0703, 0x8085_8105,
    0xbf07_8005, 0xbf85_fff6, 0xd81a_0000, 0x0000_0301, 0xbf8c_c07f, 0xbf8a_0000, 0xd86c_0000, 0x0400_0002,
    0xbf8c_c07f, 0x2a06_0903, 0xbf8a_0000, 0x8084_8104, 0xbf07_8004, 0xbf85_ffe9, 0xdc70_8000, 0x0000_0301,
    0xbf81_0000,
];

/// Six times: work, then sums whose order shows (f32 addition, tickets) and sums whose order does not (integers), of LDS and
/// of memory.
#[rustfmt::skip]
const ORDERED: &[u32] = &[
    0x2402_0082, 0x7e12_0280, 0x7e14_0281, 0x7e06_0300, 0x7e0e_0280, 0xb004_0006, 0xb005_00c8, 0xd285_0003,
    0x0002_0303, 0x6806_06ff, 0x0000_3039, 0xd1ce_0003, 0x021e_0703, 0x8085_8105, 0xbf07_8005, 0xbf85_fff7,
    0x2608_06ff, 0x0000_ffff, 0x7e08_0d04, 0x7e08_4f04, 0xd800_0008, 0x0000_0309, 0xd816_000c, 0x0000_0309,
    0xdd08_8804, 0x0000_0309, 0xd82a_0000, 0x0000_0409, 0xd840_0004, 0x0600_0a09, 0xbf8c_c07f, 0xd1c3_0007,
    0x0419_0707, 0xbf8a_0000, 0xd86c_0000, 0x0800_0009, 0xbf8c_c07f, 0x2a0e_1107, 0xbf8a_0000, 0x8084_8104,
    0xbf07_8004, 0xbf85_ffdc, 0xd8ec_0008, 0x0400_0009, 0xbf8c_c07f, 0x2a0e_0907, 0x680e_0b07, 0xdc70_8000,
    0x0000_0701, 0xbf81_0000,
];

/// Integer sums and maxima of LDS and memory that return nothing, all the time.
#[rustfmt::skip]
const COMMUTING: &[u32] = &[
    0x2402_0082, 0x7e12_0280, 0x7e06_0300, 0xb004_000c, 0xb005_00c8, 0xd285_0003, 0x0002_0303, 0x6806_06ff,
    0x0000_3039, 0xd1ce_0003, 0x021e_0703, 0xd800_0008, 0x0000_0309, 0xd810_000c, 0x0000_0309, 0x8085_8105,
    0xbf07_8005, 0xbf85_fff3, 0xdd08_8804, 0x0000_0309, 0xbf8a_0000, 0xd8ec_0008, 0x0400_0009, 0xbf8c_c07f,
    0x2a06_0903, 0x6806_0b03, 0xbf8a_0000, 0x8084_8104, 0xbf07_8004, 0xbf85_ffe6, 0xdc70_8000, 0x0000_0301,
    0xbf81_0000,
];

/// Waves from 3 on load from address 0 after a barrier, later ones sooner.
#[rustfmt::skip]
const FAULT: &[u32] = &[
    0x2002_0086, 0x7e0c_0501, 0x8085_068c, 0x9205_ff05, 0x0000_012c, 0xd285_0003, 0x0002_0103, 0xd1ce_0003,
    0x021e_0703, 0x8085_8105, 0xbf07_8005, 0xbf85_fff9, 0xbf8a_0000, 0x8085_068c, 0x9205_ff05, 0x0000_012c,
    0xd285_0003, 0x0002_0103, 0xd1ce_0003, 0x021e_0703, 0x8085_8105, 0xbf07_8005, 0xbf85_fff9, 0xbf0a_8306,
    0xbf85_0004, 0x7e08_0280, 0x7e0a_0280, 0xdc50_8000, 0x067f_0004, 0xbf8a_0000, 0xbf81_0000,
];

/// Wave 0 waits for a flag in LDS that wave 7 sets after some work.
#[rustfmt::skip]
const SPIN: &[u32] = &[
    0x2402_0082, 0x2004_0086, 0x7e0c_0502, 0x7e12_0280, 0x7e14_0285, 0xbf06_8006, 0xbf85_000d, 0xb005_0fa0,
    0xd285_0003, 0x0002_0103, 0xd1ce_0003, 0x021e_0703, 0x8085_8105, 0xbf07_8005, 0xbf85_fff9, 0xbf07_8706,
    0xbf85_0009, 0xd81a_0000, 0x0000_0a09, 0xbf82_0006, 0xd86c_0000, 0x0400_0009, 0xbf8c_c07f, 0x7e0e_0504,
    0xbf06_8507, 0xbf84_fffa, 0xbf8a_0000, 0xd86c_0000, 0x0400_0009, 0xbf8c_c07f, 0xdc70_8000, 0x0000_0401,
    0xbf81_0000,
];

/// A barrier, and then work without end.
#[rustfmt::skip]
const FOREVER: &[u32] = &[
    0xbf8a_0000, 0xd285_0003, 0x0002_0103, 0xbf82_fffd,
];

/// gfx1201: signal, work, wait, exchange through LDS.
#[rustfmt::skip]
const SPLIT12: &[u32] = &[
    0x3002_0082, 0x4a04_00a0, 0x3604_04ff, 0x0000_00ff, 0x3004_0482, 0x7e06_0300, 0x7e0a_0300, 0xbe84_0098,
    0xd834_0000, 0x0000_0301, 0xbfc6_0000, 0xbe80_4ec1, 0xbe85_00ff, 0x0000_00c8, 0xd72c_0005, 0x0002_0305,
    0x4a0a_0aff, 0x0000_3039, 0x3a0a_0505, 0x8085_8105, 0xbf07_8005, 0xbfa2_fff8, 0xbf94_ffff, 0xd8d8_0000,
    0x0400_0002, 0xbfc6_0000, 0x3a06_0905, 0xbe80_4ec1, 0xbf94_ffff, 0x8084_8104, 0xbf07_8004, 0xbfa2_ffe8,
    0xee06_8000, 0x0180_0000, 0x0000_0001, 0xbfb0_0000,
];

/// gfx1250: pairs of waves meet at named barriers, then all waves at the workgroup's.
#[rustfmt::skip]
const NAMED1250: &[u32] = &[
    0x3002_0082, 0x3a04_00a0, 0x3004_0482, 0x7e06_0300, 0x320c_0086, 0x7e0c_0506, 0x8006_8106, 0xbe87_00ff,
    0x0002_0000, 0x8c7d_0706, 0xbe80_517d, 0xbe80_4ec1, 0xbf94_ffff, 0xbe80_527d, 0xbe84_008c, 0xbe85_00ff,
    0x0000_00c8, 0xd72c_0003, 0x0002_0303, 0x4a06_06ff, 0x0000_3039, 0x8085_8105, 0xbf07_8005, 0xbfa2_fff9,
    0xd834_0000, 0x0000_0301, 0xbfc6_0000, 0xbefd_0006, 0xbe80_4e7d, 0xbf94_0001, 0xd8d8_0000, 0x0400_0002,
    0xbfc6_0000, 0x3a06_0903, 0xbe80_4ec1, 0xbf94_ffff, 0x8084_8104, 0xbf07_8004, 0xbfa2_ffe8, 0xee06_8000,
    0x0180_0000, 0x0000_0001, 0xbfb0_0000,
];

/// Denormal and rounded results of f32, f64 and f16 (128 lanes store, the others over them the same way).
#[rustfmt::skip]
const FLOATS: &[u32] = &[
    0x2402_0085, 0x6804_0081, 0x7e06_0d02, 0x7e08_4503, 0x0a0a_08ff, 0x0080_0001, 0x020c_0b05, 0xd1cb_0007,
    0x0416_0904, 0x7e10_2104, 0xd281_0008, 0x0002_1108, 0x7e14_1504, 0x4414_150a, 0x2602_02ff, 0x0000_0fe0,
    0xdc7c_8000, 0x0000_0401, 0xdc78_8010, 0x0000_0801, 0xbf81_0000,
];

/// All waves load a word of LDS, and the wave that goes on first from the barrier stores to it, with no barrier between.
#[rustfmt::skip]
const PIVOT: &[u32] = &[
    0x2402_0082, 0x7e04_0280, 0x7e06_0281, 0xd81a_0000, 0x0000_0302, 0xbf8c_c07f, 0xbf8a_0000, 0xd86c_0000,
    0x0400_0002, 0xbf8c_c07f, 0x6806_0881, 0x7d94_00ff, 0x0000_01c0, 0xbe82_206a, 0xd81a_0000, 0x0000_0302,
    0xbefe_0102, 0xdc70_8000, 0x0000_0401, 0xbf81_0000,
];

/// Bytes of the buffer that kernels write.
const OUT: usize = 4096;

struct Kernel {
    device: Device,
    memory: Arc<Memory>,
    dispatch: Dispatch,
}

impl Kernel {
    /// A kernel of `groups` workgroups of eight waves.
    fn new(target: Target, code: &[u32], groups: u32) -> Kernel {
        let memory = Arc::new(Memory::new(1 << 26));
        let entry = memory.allocate(&Request::new(4096, "code")).unwrap();
        let bytes: Vec<u8> = code.iter().flat_map(|w| w.to_le_bytes()).collect();
        memory.write(entry, &bytes).unwrap();
        let out = memory.allocate(&Request::new(OUT as u64, "out")).unwrap();
        let wave32 = target.generation() >= 10;
        let mut raw = [0u8; 64];
        // 16 VGPRs or more, none of them accumulators; the kernarg pointer, which is that of the results.
        raw[44..48].copy_from_slice(&if wave32 { 0u32 } else { 3 }.to_le_bytes());
        raw[48..52].copy_from_slice(&1u32.to_le_bytes());
        raw[52..56].copy_from_slice(&(2u32 << 1).to_le_bytes());
        raw[56..58].copy_from_slice(&(1u16 << 3 | u16::from(wave32) << 10).to_le_bytes());
        let items = if wave32 { 256 } else { 512 };
        let limits = Limits {
            compute_units: 8,
            waves_per_unit: 32,
            lds_per_unit: 65536,
            xccs: 1,
        };
        Kernel {
            device: Device::new(target, Backend::best(), limits, memory.clone()).unwrap(),
            memory,
            dispatch: Dispatch {
                name: "spread".to_owned(),
                descriptor: KernelDescriptor::decode(&raw, target).unwrap(),
                entry,
                grid: [items * groups, 1, 1],
                workgroup: [items, 1, 1],
                cluster: [1; 3],
                group_segment: 4096,
                private_segment: 0,
                kernarg: out,
                packet: 0,
                queue: 0,
                id: 0,
                origin: Origin::default(),
            },
        }
    }

    fn run(&self, threads: usize, stop: Option<&AtomicBool>) -> Result<Statistics, DispatchError> {
        let options = Options {
            threads,
            stop,
            ..Options::default()
        };
        self.device.dispatch(&self.dispatch, options, &Silent)
    }

    /// What a run leaves in memory that was zero, and what it counted.
    fn outcome(&self, threads: usize) -> (Vec<u8>, Statistics) {
        let out = self.dispatch.kernarg;
        self.memory.write(out, &[0; OUT]).unwrap();
        let statistics = self.run(threads, None).unwrap();
        let mut bytes = vec![0; OUT];
        self.memory.read(out, &mut bytes).unwrap();
        (bytes, statistics)
    }
}

#[test]
fn results_are_the_same_bytes_on_any_number_of_threads() {
    for (name, target, code) in [
        ("exchange", Target::Gfx90a, EXCHANGE),
        ("ordered", Target::Gfx90a, ORDERED),
        ("commuting", Target::Gfx90a, COMMUTING),
        ("spin", Target::Gfx90a, SPIN),
        ("split", Target::Gfx1201, SPLIT12),
        ("named", Target::Gfx1250, NAMED1250),
    ] {
        let kernel = Kernel::new(target, code, 1);
        let (want, once) = kernel.outcome(1);
        assert!(want.iter().any(|&b| b != 0), "{name}");
        for threads in [2, 3, 8] {
            for _ in 0..4 {
                let (got, statistics) = kernel.outcome(threads);
                assert!(got == want, "{name} with {threads} threads");
                // How often a wave looks at a flag is nobody's business.
                if name != "spin" {
                    assert_eq!(statistics.instructions, once.instructions, "{name}");
                }
                assert_eq!(statistics.waves, 8);
            }
        }
    }
}

/// As on the hardware, where all waves have loaded long before one has computed what it stores.
#[test]
fn waves_load_from_lds_before_one_of_them_stores_there() {
    let (got, _) = Kernel::new(Target::Gfx90a, PIVOT, 1).outcome(1);
    let words: Vec<_> = got.chunks_exact(4).take(512).collect();
    assert!(words.iter().all(|&word| word == [1, 0, 0, 0]), "{words:?}");
}

/// Without this the other tests could pass on one thread. Threads come when the machine lets them.
#[test]
fn other_threads_do_take_waves() {
    for code in [EXCHANGE, COMMUTING] {
        let kernel = Kernel::new(Target::Gfx90a, code, 1);
        assert_eq!(kernel.outcome(1).1.lent_turns, 0);
        let lent = (0..1000).any(|_| kernel.outcome(4).1.lent_turns > 0);
        assert!(lent, "nobody helped in a thousand dispatches");
    }
}

/// The last wave to come to a barrier goes on first.
#[test]
fn the_wave_that_fails_first_is_reported() {
    for threads in [1, 2, 8] {
        for _ in 0..3 {
            let kernel = Kernel::new(Target::Gfx90a, FAULT, 1);
            match kernel.run(threads, None) {
                Err(DispatchError::Stopped { wave, .. }) => {
                    assert_eq!(wave, 7, "{threads} threads")
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_stop_is_heard() {
    for threads in [1, 2, 8] {
        let kernel = Kernel::new(Target::Gfx90a, FOREVER, 1);
        let stop = AtomicBool::new(false);
        let result = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(5));
                stop.store(true, Ordering::Relaxed);
            });
            kernel.run(threads, Some(&stop))
        });
        assert!(matches!(result, Err(DispatchError::Stop { .. })));
    }
}

/// The last workgroups of a dispatch and those of dispatches on one device at a time share threads.
#[test]
fn more_workgroups_than_threads_and_several_dispatches_at_once() {
    let kernel = Kernel::new(Target::Gfx90a, EXCHANGE, 5);
    let (want, _) = kernel.outcome(1);
    std::thread::scope(|scope| {
        for threads in [2, 4] {
            let kernel = &kernel;
            scope.spawn(move || {
                for _ in 0..4 {
                    assert_eq!(kernel.run(threads, None).unwrap().workgroups, 5);
                }
            });
        }
    });
    assert!(kernel.outcome(4).0 == want);
}

/// In a child the pool's threads are not there.
#[test]
fn a_forked_child_runs_alone() {
    let kernel = Kernel::new(Target::Gfx90a, EXCHANGE, 1);
    let (want, _) = kernel.outcome(2);
    // SAFETY: the child calls nothing that a lock of another test's thread could hold up for ever: if an allocator's lock
    // was held, the parent's wait below tells.
    match unsafe { libc::fork() } {
        0 => {
            let same = kernel.outcome(2).0 == want;
            // SAFETY: ends the child at once, without the handlers of the test harness.
            unsafe { libc::_exit(if same { 0 } else { 1 }) }
        }
        child => {
            let mut status = 0;
            // SAFETY: `status` is where the result goes.
            let got = unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!((got, status), (child, 0));
        }
    }
}

/// The floating-point environment is the program's: it comes back as it was, and does not change results.
#[cfg(target_arch = "x86_64")]
#[test]
fn the_control_register_of_the_calling_thread_stays() {
    use std::arch::asm;
    let mxcsr = || {
        let mut word = 0u32;
        // SAFETY: stores a word.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut word) };
        word
    };
    let set = |word: u32| {
        // SAFETY: loads a word without reserved bits; only this test's arithmetic depends on it.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const word) };
    };
    let kernel = Kernel::new(Target::Gfx90a, FLOATS, 1);
    let (want, _) = kernel.outcome(1);
    let usual = mxcsr();
    // Flush to zero, denormals are zero, rounding towards zero, and a sticky flag.
    for changed in [1 << 15 | 1 << 6, 3 << 13, 1 << 15 | 1 << 6 | 1 << 13 | 1] {
        set(usual | changed);
        let (got, _) = kernel.outcome(1);
        let after = mxcsr();
        set(usual);
        assert!(got == want, "{changed:#x}");
        assert_eq!(after, usual | changed);
    }
}
