//! Small kernels of eight waves to a workgroup; `kernels.s` has their source.

#![allow(dead_code, missing_docs)] // Each test needs some of it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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
pub const EXCHANGE: &[u32] = &[
    0x2402_0082, 0x6804_00c0, 0x2604_04ff, 0x0000_01ff, 0x2404_0482, 0x7e06_0300, 0xb004_0018, 0xb005_00c8,
    0xd285_0003, 0x0002_0303, 0x6806_06ff, 0x0000_3039, 0x2a06_0503, 0xd1ce_0003, 0x021e_0703, 0x8085_8105,
    0xbf07_8005, 0xbf85_fff6, 0xd81a_0000, 0x0000_0301, 0xbf8c_c07f, 0xbf8a_0000, 0xd86c_0000, 0x0400_0002,
    0xbf8c_c07f, 0x2a06_0903, 0xbf8a_0000, 0x8084_8104, 0xbf07_8004, 0xbf85_ffe9, 0xdc70_8000, 0x0000_0301,
    0xbf81_0000,
];

/// Six times: work, then sums whose order shows (f32 addition, tickets) and sums whose order does not (integers), of LDS and
/// of memory.
#[rustfmt::skip]
pub const ORDERED: &[u32] = &[
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
pub const COMMUTING: &[u32] = &[
    0x2402_0082, 0x7e12_0280, 0x7e06_0300, 0xb004_000c, 0xb005_00c8, 0xd285_0003, 0x0002_0303, 0x6806_06ff,
    0x0000_3039, 0xd1ce_0003, 0x021e_0703, 0xd800_0008, 0x0000_0309, 0xd810_000c, 0x0000_0309, 0x8085_8105,
    0xbf07_8005, 0xbf85_fff3, 0xdd08_8804, 0x0000_0309, 0xbf8a_0000, 0xd8ec_0008, 0x0400_0009, 0xbf8c_c07f,
    0x2a06_0903, 0x6806_0b03, 0xbf8a_0000, 0x8084_8104, 0xbf07_8004, 0xbf85_ffe6, 0xdc70_8000, 0x0000_0301,
    0xbf81_0000,
];

/// Waves from 3 on load from address 0 after a barrier, later ones sooner.
#[rustfmt::skip]
pub const FAULT: &[u32] = &[
    0x2002_0086, 0x7e0c_0501, 0x8085_068c, 0x9205_ff05, 0x0000_012c, 0xd285_0003, 0x0002_0103, 0xd1ce_0003,
    0x021e_0703, 0x8085_8105, 0xbf07_8005, 0xbf85_fff9, 0xbf8a_0000, 0x8085_068c, 0x9205_ff05, 0x0000_012c,
    0xd285_0003, 0x0002_0103, 0xd1ce_0003, 0x021e_0703, 0x8085_8105, 0xbf07_8005, 0xbf85_fff9, 0xbf0a_8306,
    0xbf85_0004, 0x7e08_0280, 0x7e0a_0280, 0xdc50_8000, 0x067f_0004, 0xbf8a_0000, 0xbf81_0000,
];

/// Wave 0 waits for a flag in LDS that wave 7 sets after some work.
#[rustfmt::skip]
pub const SPIN: &[u32] = &[
    0x2402_0082, 0x2004_0086, 0x7e0c_0502, 0x7e12_0280, 0x7e14_0285, 0xbf06_8006, 0xbf85_000d, 0xb005_0fa0,
    0xd285_0003, 0x0002_0103, 0xd1ce_0003, 0x021e_0703, 0x8085_8105, 0xbf07_8005, 0xbf85_fff9, 0xbf07_8706,
    0xbf85_0009, 0xd81a_0000, 0x0000_0a09, 0xbf82_0006, 0xd86c_0000, 0x0400_0009, 0xbf8c_c07f, 0x7e0e_0504,
    0xbf06_8507, 0xbf84_fffa, 0xbf8a_0000, 0xd86c_0000, 0x0400_0009, 0xbf8c_c07f, 0xdc70_8000, 0x0000_0401,
    0xbf81_0000,
];

/// Each wave but the last waits for the flag in LDS that the next one sets.
#[rustfmt::skip]
pub const CHAIN: &[u32] = &[
    0x2402_0082, 0x2004_0086, 0x7e0c_0502, 0x2412_0482, 0x7e14_0285, 0xbf06_8706, 0xbf85_0006, 0xd86c_0004,
    0x0400_0009, 0xbf8c_c07f, 0x7e0e_0504, 0xbf06_8507, 0xbf84_fffa, 0xd81a_0000, 0x0000_0a09, 0xbf8c_c07f,
    0xdc70_8000, 0x0000_0a01, 0xbf81_0000,
];

/// A barrier, and then work without end.
#[rustfmt::skip]
pub const FOREVER: &[u32] = &[
    0xbf8a_0000, 0xd285_0003, 0x0002_0103, 0xbf82_fffd,
];

/// gfx1201: signal, work, wait, exchange through LDS.
#[rustfmt::skip]
pub const SPLIT12: &[u32] = &[
    0x3002_0082, 0x4a04_00a0, 0x3604_04ff, 0x0000_00ff, 0x3004_0482, 0x7e06_0300, 0x7e0a_0300, 0xbe84_0098,
    0xd834_0000, 0x0000_0301, 0xbfc6_0000, 0xbe80_4ec1, 0xbe85_00ff, 0x0000_00c8, 0xd72c_0005, 0x0002_0305,
    0x4a0a_0aff, 0x0000_3039, 0x3a0a_0505, 0x8085_8105, 0xbf07_8005, 0xbfa2_fff8, 0xbf94_ffff, 0xd8d8_0000,
    0x0400_0002, 0xbfc6_0000, 0x3a06_0905, 0xbe80_4ec1, 0xbf94_ffff, 0x8084_8104, 0xbf07_8004, 0xbfa2_ffe8,
    0xee06_8000, 0x0180_0000, 0x0000_0001, 0xbfb0_0000,
];

/// gfx1250: pairs of waves meet at named barriers, then all waves at the workgroup's.
#[rustfmt::skip]
pub const NAMED1250: &[u32] = &[
    0x3002_0082, 0x3a04_00a0, 0x3004_0482, 0x7e06_0300, 0x320c_0086, 0x7e0c_0506, 0x8006_8106, 0xbe87_00ff,
    0x0002_0000, 0x8c7d_0706, 0xbe80_517d, 0xbe80_4ec1, 0xbf94_ffff, 0xbe80_527d, 0xbe84_008c, 0xbe85_00ff,
    0x0000_00c8, 0xd72c_0003, 0x0002_0303, 0x4a06_06ff, 0x0000_3039, 0x8085_8105, 0xbf07_8005, 0xbfa2_fff9,
    0xd834_0000, 0x0000_0301, 0xbfc6_0000, 0xbefd_0006, 0xbe80_4e7d, 0xbf94_0001, 0xd8d8_0000, 0x0400_0002,
    0xbfc6_0000, 0x3a06_0903, 0xbe80_4ec1, 0xbf94_ffff, 0x8084_8104, 0xbf07_8004, 0xbfa2_ffe8, 0xee06_8000,
    0x0180_0000, 0x0000_0001, 0xbfb0_0000,
];

/// Denormal and rounded results of f32, f64 and f16 (128 lanes store, the others over them the same way).
#[rustfmt::skip]
pub const FLOATS: &[u32] = &[
    0x2402_0085, 0x6804_0081, 0x7e06_0d02, 0x7e08_4503, 0x0a0a_08ff, 0x0080_0001, 0x020c_0b05, 0xd1cb_0007,
    0x0416_0904, 0x7e10_2104, 0xd281_0008, 0x0002_1108, 0x7e14_1504, 0x4414_150a, 0x2602_02ff, 0x0000_0fe0,
    0xdc7c_8000, 0x0000_0401, 0xdc78_8010, 0x0000_0801, 0xbf81_0000,
];

/// All waves load a word of LDS, and the wave that goes on first from the barrier stores to it, with no barrier between.
#[rustfmt::skip]
pub const PIVOT: &[u32] = &[
    0x2402_0082, 0x7e04_0280, 0x7e06_0281, 0xd81a_0000, 0x0000_0302, 0xbf8c_c07f, 0xbf8a_0000, 0xd86c_0000,
    0x0400_0002, 0xbf8c_c07f, 0x6806_0881, 0x7d94_00ff, 0x0000_01c0, 0xbe82_206a, 0xd81a_0000, 0x0000_0302,
    0xbefe_0102, 0xdc70_8000, 0x0000_0401, 0xbf81_0000,
];

/// Twenty-four times: barrier, work that is shortest for wave 7, all waves load a word of LDS, and wave 7 stores to it, with no
/// barrier between.
#[rustfmt::skip]
pub const PIVOTS: &[u32] = &[
    0x2402_0082, 0x2006_0086, 0x7e0c_0503, 0x7e04_0280, 0x7e06_0300, 0x7e0e_0280, 0xb004_0018, 0xb005_00c8,
    0xd285_0003, 0x0002_0303, 0x6806_06ff, 0x0000_3039, 0x8085_8105, 0xbf07_8005, 0xbf85_fff9, 0xbf8a_0000,
    0x8e05_8506, 0x8085_05ff, 0x0000_0100, 0xd285_0003, 0x0002_0303, 0x6806_06ff, 0x0000_3039, 0x8085_8105,
    0xbf07_8005, 0xbf85_fff9, 0xd86c_0000, 0x0400_0002, 0xbf8c_c07f, 0xd1c3_0007, 0x0411_0707, 0xbf07_8706,
    0xbf85_0003, 0x6808_0881, 0xd81a_0000, 0x0000_0402, 0xbf8a_0000, 0x8084_8104, 0xbf07_8004, 0xbf85_ffdf,
    0xdc70_8000, 0x0000_0701, 0xbf81_0000,
];

/// A thousand times: work that is long for sixty-four rounds and short for the next, then as in [`PIVOTS`].
#[rustfmt::skip]
pub const PHASES: &[u32] = &[
    0x2402_0082, 0x2006_0086, 0x7e0c_0503, 0x7e04_0280, 0x7e06_0300, 0x7e0e_0280, 0xb004_03e8, 0xbf8a_0000,
    0x8605_c004, 0x8e05_8105, 0x8705_8105, 0xd285_0003, 0x0002_0303, 0x6806_06ff, 0x0000_3039, 0x8085_8105,
    0xbf07_8005, 0xbf85_fff9, 0xd86c_0000, 0x0400_0002, 0xbf8c_c07f, 0xd1c3_0007, 0x0411_0707, 0xbf07_8706,
    0xbf85_0003, 0x6808_0881, 0xd81a_0000, 0x0000_0402, 0xbf8a_0000, 0x8084_8104, 0xbf07_8004, 0xbf85_ffe8,
    0xdc70_8000, 0x0000_0701, 0xbf81_0000,
];

/// Bytes of the buffer that kernels write.
pub const OUT: usize = 4096;

pub struct Kernel {
    pub device: Device,
    pub memory: Arc<Memory>,
    pub dispatch: Dispatch,
}

impl Kernel {
    /// A kernel of `groups` workgroups of eight waves.
    pub fn new(target: Target, code: &[u32], groups: u32) -> Kernel {
        Kernel::with_backend(target, code, groups, Backend::best())
    }

    /// The same on another lane back end.
    pub fn with_backend(target: Target, code: &[u32], groups: u32, backend: Backend) -> Kernel {
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
            device: Device::new(target, backend, limits, memory.clone()).unwrap(),
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

    /// Runs it.
    pub fn run(
        &self,
        threads: usize,
        stop: Option<&AtomicBool>,
    ) -> Result<Statistics, DispatchError> {
        let options = Options {
            threads,
            stop,
            ..Options::default()
        };
        self.device.dispatch(&self.dispatch, options, &Silent)
    }

    /// What a run leaves in memory that was zero, and what it counted.
    pub fn outcome(&self, threads: usize) -> (Vec<u8>, Statistics) {
        let out = self.dispatch.kernarg;
        self.memory.write(out, &[0; OUT]).unwrap();
        let statistics = self.run(threads, None).unwrap();
        let mut bytes = vec![0; OUT];
        self.memory.read(out, &mut bytes).unwrap();
        (bytes, statistics)
    }
}
