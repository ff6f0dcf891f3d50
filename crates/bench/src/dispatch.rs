//! What a dispatch costs besides its waves: packets of an HSA queue that launch a kernel of one instruction.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use rocjitsu_gpu::dispatch::{Device, Limits};
use rocjitsu_gpu::memory::{Memory, Request};
use rocjitsu_gpu::queue::{Aql, AqlParams, Platform, Step};
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;
use rocjitsu_observe::{Observer, Silent};

/// A driver that hears nothing.
struct Nobody;

impl Platform for Nobody {
    fn interrupt(&self, _event_id: u32) {}
    fn clock(&self) -> u64 {
        1
    }
    fn observer(&self) -> &dyn Observer {
        &Silent
    }
}

const SLOTS: u64 = 1024;

/// Prints microseconds for each packet, and packets in a second, for grids of several sizes.
pub fn packets(repeat: u32) -> Result<()> {
    println!(
        "== dispatch: AQL packets with a completion signal, an empty kernel (gfx942, two threads)"
    );
    for (groups, waves) in [(1, 1), (1, 16), (16, 4), (256, 4), (4096, 4)] {
        let mut best = f64::INFINITY;
        for _ in 0..repeat.max(1) {
            best = best.min(time(groups, waves)?);
        }
        println!(
            "{groups:5} workgroups of {waves:2} waves: {:9.2} us a packet, {:9.0} packets a second, {:8.1} ns a wave",
            best * 1e6,
            1.0 / best,
            best * 1e9 / f64::from(groups * waves)
        );
    }
    Ok(())
}

/// Seconds for each packet.
fn time(groups: u32, waves: u32) -> Result<f64> {
    let memory = Arc::new(Memory::new(1 << 30));
    let limits = Limits {
        compute_units: 304,
        waves_per_unit: 32,
        lds_per_unit: 65536,
        xccs: 8,
    };
    let device = Device::new(Target::Gfx942, Backend::best(), limits, memory.clone())
        .map_err(|e| anyhow!(e))?;
    let place = |bytes: u64, label: &str| memory.allocate(&Request::new(bytes, label));
    let (queue, ring, signal) = (
        place(4096, "queue")?,
        place(64 * SLOTS, "ring")?,
        place(4096, "signal")?,
    );
    // A descriptor with the entry 256 bytes behind it, and s_endpgm.
    let object = place(4096, "kernel")?;
    memory.write(object + 16, &256u64.to_le_bytes())?;
    memory.write(object + 256, &0xbf81_0000u32.to_le_bytes())?;
    let mut packet = [0u8; 64];
    packet[0..4].copy_from_slice(&(2u32 | 1 << 16).to_le_bytes());
    packet[4..6].copy_from_slice(&(waves as u16 * 64).to_le_bytes());
    packet[12..16].copy_from_slice(&(groups * waves * 64).to_le_bytes());
    packet[32..40].copy_from_slice(&object.to_le_bytes());
    packet[56..64].copy_from_slice(&signal.to_le_bytes());
    let mut aql = Aql::new(AqlParams {
        ring,
        ring_bytes: 64 * SLOTS,
        read_index: queue + 128,
        write_index: queue + 56,
        doorbell: 0,
        threads: 2,
    });
    let stop = AtomicBool::new(false);
    let count = (200_000 / u64::from(groups * waves)).clamp(20, 5000);
    let start = Instant::now();
    for index in 0..count {
        memory.write(ring + index % SLOTS * 64, &packet)?;
        let step = aql.step(&device, index, &Nobody, &stop);
        ensure!(step == Step::Worked, "the queue says {step:?}");
    }
    Ok(start.elapsed().as_secs_f64() / count as f64)
}
