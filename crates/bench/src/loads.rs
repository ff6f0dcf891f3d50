//! Contiguous global loads alone: a loop of sixteen `global_load_dword` of a wave of 64, and nothing to wait for.
//! The kernels of `data/perf` mix loads with stores; this figure is for the load.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use rocjitsu_gpu::code_object::KernelDescriptor;
use rocjitsu_gpu::dispatch::{Device, Dispatch, Limits, Options, Origin};
use rocjitsu_gpu::memory::{Memory, Request};
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;
use rocjitsu_observe::Silent;

/// Turns of the loop.
const TURNS: u32 = 200_000;
/// Loads in a turn.
const LOADS: usize = 16;

/// The machine code (gfx942): `v1 = 4 * lane`, then the loop over `s[0:1] + v1`.
fn code() -> Vec<u32> {
    let mut code = vec![
        0xd28c_0001,
        0x0001_00c1, // v_mbcnt_lo_u32_b32 v1, -1, 0
        0xd28d_0001,
        0x0002_02c1, // v_mbcnt_hi_u32_b32 v1, -1, v1
        0x2402_0282, // v_lshlrev_b32 v1, 2, v1
        0xbe84_00ff,
        TURNS, // s_mov_b32 s4, TURNS
    ];
    let start = code.len();
    for n in 0..LOADS as u32 {
        code.extend([0xdc50_8000, (4 + n) << 24 | 1]); // global_load_dword v[4 + n], v1, s[0:1]
    }
    code.extend([0x8084_8104, 0xbf07_8004]); // s_sub_u32 s4, s4, 1; s_cmp_lg_u32 s4, 0
    let back = start as i32 - (code.len() as i32 + 1);
    code.extend([0xbf85_0000 | u32::from(back as u16), 0xbf81_0000]); // s_cbranch_scc1; s_endpgm
    code
}

/// Prints nanoseconds for each load, on every back end.
pub fn contiguous(repeat: u32) -> Result<()> {
    let mut line = format!("{:<28}", "global load, contiguous");
    for backend in Backend::supported() {
        let memory = Arc::new(Memory::new(1 << 30));
        let place = |bytes: &[u8], label: &str| -> Result<u64> {
            let at = memory.allocate(&Request::new(4096, label))?;
            memory.write(at, bytes)?;
            Ok(at)
        };
        let words = code();
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let entry = place(&bytes, "code")?;
        let data = place(&[1; 256], "data")?;
        let mut descriptor = [0u8; 64];
        descriptor[44..48].copy_from_slice(&7u32.to_le_bytes());
        descriptor[48..52].copy_from_slice(&(3u32 | 0xf << 16).to_le_bytes());
        descriptor[52..56].copy_from_slice(&(2u32 << 1).to_le_bytes());
        descriptor[56..58].copy_from_slice(&(1u16 << 3).to_le_bytes());
        let descriptor = KernelDescriptor::decode(&descriptor, Target::Gfx942)?;
        let limits = Limits {
            compute_units: 1,
            waves_per_unit: 32,
            lds_per_unit: 65536,
            xccs: 1,
        };
        let device =
            Device::new(Target::Gfx942, backend, limits, memory.clone()).map_err(|e| anyhow!(e))?;
        let dispatch = Dispatch {
            name: "loads".to_owned(),
            descriptor,
            entry,
            grid: [64, 1, 1],
            workgroup: [64, 1, 1],
            cluster: [1; 3],
            group_segment: 0,
            private_segment: 0,
            kernarg: data,
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
        let mut best = f64::INFINITY;
        for _ in 0..repeat.max(1) {
            best = best.min(device.dispatch(&dispatch, options, &Silent)?.seconds);
        }
        line += &format!(
            "  {backend} {:7.2}",
            best * 1e9 / (f64::from(TURNS) * LOADS as f64)
        );
    }
    println!("{line}   (three scalar instructions for each {LOADS} loads included)");
    Ok(())
}
