//! A launch through the simulated driver, as a runtime makes it: memory from ioctls, a packet in a queue's ring, a
//! doorbell, an event at the end. The demo runs so.

use anyhow::{Context, Result, bail};
use rocjitsu_config::Machine;
use rocjitsu_gpu::memory::Memory;
use rocjitsu_kfd::Report;
use rocjitsu_kfd::abi::alloc_flags;
use rocjitsu_kfd::client::{Buffer, Client, signal};

use super::Launch;

/// How often a fault is looked for while the kernel runs, in milliseconds.
const LOOK: u32 = 100;
const PAGE: u64 = 4096;
/// Bytes of the `amd_queue_t` that kernels may read.
const QUEUE_BYTES: u64 = 2304;

/// What a launch did.
#[derive(Debug)]
pub struct Outcome {
    /// Contents of the launch's buffers, in their order.
    pub contents: Vec<Vec<u8>>,
    /// What the driver tells of the run.
    pub report: Report,
    /// Ioctls that it took.
    pub ioctls: u64,
}

/// Copies `bytes` bytes of `plan` at `address` to the same address of the GPU.
fn upload(client: &Client, plan: &Memory, address: u64, bytes: u64, flags: u32) -> Result<Buffer> {
    let mut content = vec![0; usize::try_from(bytes)?];
    plan.read(address, &mut content)?;
    let start = address & !(PAGE - 1);
    let buffer = client.allocate(0, start, address + bytes - start, flags)?;
    buffer.write(address - start, &content)?;
    Ok(buffer)
}

/// Runs a launch on the first GPU of a machine.
///
/// # Errors
///
/// A launch that cannot be placed; whatever the driver refuses; a kernel that stops, with the reason.
pub fn run(launch: &Launch, machine: Machine) -> Result<Outcome> {
    let client = Client::new(machine)?;
    // Laid out as for a launch without a driver; the GPU gets the same bytes at the same addresses.
    let plan = Memory::new(1 << 40);
    let placed = launch.place(&plan)?;
    let vram = |address, bytes| upload(&client, &plan, address, bytes, alloc_flags::VRAM);
    let gtt = |address, bytes| upload(&client, &plan, address, bytes, alloc_flags::GTT);
    let _code = vram(placed.code.address, placed.code.bytes)?;
    let _arguments = gtt(
        placed.kernarg_address,
        u64::from(placed.kernarg_bytes).max(1),
    )?;
    let _queue = gtt(placed.queue_address, QUEUE_BYTES)?;
    let mut buffers = Vec::new();
    for (buffer, &address) in launch.buffers.iter().zip(&placed.buffers) {
        let bytes = buffer.content.len().max(1) as u64;
        buffers.push((vram(address, bytes)?, address, buffer.content.len()));
    }
    let (events, event) = client.first_event()?;
    let signals = client.allocate(0, 0, PAGE, alloc_flags::GTT)?;
    let mut queue = client.aql_queue(0)?;
    let mut packet = [0; 64];
    plan.read(placed.packet_address, &mut packet)?;
    packet[56..].copy_from_slice(&signal(&signals, 0, &events, event)?.to_le_bytes());
    queue.submit(&packet)?;
    while client.wait(event, LOOK)?.is_none() {
        if let Some(fault) = client.driver.report().faults.first() {
            bail!("the queue stopped: {}", fault.text);
        }
    }
    let report = client.driver.report();
    let mut contents = Vec::new();
    for (buffer, address, bytes) in &buffers {
        let content = buffer.read(address - buffer.va, *bytes);
        contents.push(content.context("a buffer of the launch")?);
    }
    client.destroy(&queue)?;
    Ok(Outcome {
        contents,
        report,
        ioctls: client.ioctls(),
    })
}
