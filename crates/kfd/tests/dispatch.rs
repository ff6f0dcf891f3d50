//! Kernels of the corpus through the driver: memory from ioctls, packets in a ring, a doorbell
//! store, an event at the end. On every target that the corpus has.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rocjitsu_cli::launch::Launch;
use rocjitsu_cli::launch::from_description::Selection;
use rocjitsu_cli::launch::place::Placed;
use rocjitsu_config::{Machine, preset_for_target};
use rocjitsu_gpu::memory::Memory;
use rocjitsu_isa::Target;
use rocjitsu_kfd::Driver;
use rocjitsu_kfd::abi::{self, alloc_flags, event_type};
use rocjitsu_kfd::client::{Buffer, Client, signal};
use rocjitsu_observe::{Lines, Plugins, Sink};
use serde_json::Value;

fn description(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../data/corpus/built/{name}.json"))
}

fn machine(target: Target) -> Machine {
    Machine::new(vec![preset_for_target(target.name()).unwrap()])
}

/// Copies `bytes` of what a launch placed to the same address of the GPU.
fn copy(client: &Client, from: &Memory, address: u64, bytes: u64, flags: u32) -> Buffer {
    let mut content = vec![0; bytes as usize];
    from.read(address, &mut content).unwrap();
    let start = address & !0xfff;
    let buffer = client
        .allocate(0, start, address + bytes - start, flags)
        .unwrap();
    buffer.write(address - start, &content).unwrap();
    buffer
}

/// A dispatch packet for a launch that lies in the GPU's memory.
struct Ready {
    launch: Launch,
    packet: [u8; 64],
    buffers: Vec<(Buffer, u64)>,
    _kept: Vec<Buffer>,
}

/// Places a kernel of the corpus in the GPU's memory through the driver.
fn upload(client: &Client, name: &str, selection: Selection) -> Ready {
    let launch = Launch::from_description(&description(name), selection).unwrap();
    upload_launch(client, launch, |_, _| {})
}

/// The same with a launch; `change` may change what lies in memory before it is copied.
fn upload_launch(client: &Client, launch: Launch, change: impl FnOnce(&Memory, &Placed)) -> Ready {
    // The launch library lays everything out in a memory of its own; the GPU gets the same bytes
    // at the same addresses.
    let plan = Memory::new(1 << 40);
    let placed = launch.place(&plan).unwrap();
    change(&plan, &placed);
    let mut kept = vec![
        copy(
            client,
            &plan,
            placed.code.address,
            placed.code.bytes,
            alloc_flags::VRAM,
        ),
        copy(
            client,
            &plan,
            placed.kernarg_address,
            u64::from(placed.kernarg_bytes).max(1),
            alloc_flags::GTT,
        ),
    ];
    kept.push(copy(
        client,
        &plan,
        placed.queue_address,
        2304,
        alloc_flags::GTT,
    ));
    let buffers = launch.buffers.iter().zip(&placed.buffers);
    let buffers = buffers
        .map(|(buffer, &address)| {
            let bytes = buffer.content.len().max(1) as u64;
            let copied = copy(client, &plan, address, bytes, alloc_flags::VRAM);
            (copied, address)
        })
        .collect();
    let mut packet = [0; 64];
    plan.read(placed.packet_address, &mut packet).unwrap();
    Ready {
        launch,
        packet,
        buffers,
        _kept: kept,
    }
}

impl Ready {
    fn check(&self) -> Result<(), String> {
        let contents: Vec<Vec<u8>> = self
            .launch
            .buffers
            .iter()
            .zip(&self.buffers)
            .map(|(buffer, (copied, address))| {
                copied
                    .read(address - copied.va, buffer.content.len())
                    .unwrap()
            })
            .collect();
        let outcomes = self.launch.judge(&contents);
        let bad: Vec<String> = outcomes
            .iter()
            .filter(|outcome| !outcome.verdict.good())
            .map(|outcome| format!("{}: {}", outcome.name, outcome.describe()))
            .collect();
        if bad.is_empty() {
            Ok(())
        } else {
            Err(bad.join("; "))
        }
    }
}

fn run(name: &str, target: Target, as_target: Target) {
    let client = Client::new(machine(as_target)).unwrap();
    let selection = Selection {
        target,
        run_as: (target != as_target).then_some(as_target),
    };
    let (page, event) = client.first_event().unwrap();
    let mut ready = upload(&client, name, selection);
    let signals = client.allocate(0, 0, 4096, alloc_flags::GTT).unwrap();
    let mut queue = client.aql_queue(0).unwrap();
    let completion = signal(&signals, 128, &page, event).unwrap();
    ready.packet[56..].copy_from_slice(&completion.to_le_bytes());
    queue.submit(&ready.packet).unwrap();
    let came = client.wait(event, 60_000).unwrap();
    assert!(came.is_some(), "{name} on {as_target}: no event");
    assert_eq!(signals.word(136).unwrap().load(Ordering::Acquire), 0);
    assert_eq!(
        page.word(8 * u64::from(event))
            .unwrap()
            .load(Ordering::Acquire),
        u64::MAX
    );
    assert_eq!(queue.read_index().unwrap(), 1);
    if let Err(why) = ready.check() {
        panic!("{name} on {as_target}: {why}");
    }
    client.destroy(&queue).unwrap();
    let report = client.driver.report();
    assert_eq!(report.dispatches.len(), 1);
    let instructions = report.dispatches[0].instructions;
    assert!(instructions > 0);
    assert_eq!(report.dispatches[0].kernel, ready.launch.kernel.name);
    let results = report.results;
    assert_eq!(results.exact + results.bounded, instructions);
    assert_eq!((results.by_default, results.refused), (0, 0));
    let forms = &report.forms[as_target.name()];
    let stores = forms.exact.iter().filter(|form| form.contains("_store_"));
    assert!(stores.count() > 0, "{forms:?}");
    assert!(report.packets_refused.is_empty());
    assert_eq!(report.ioctls["CREATE_QUEUE"].calls, 1);
    assert!(report.faults.is_empty());
}

#[test]
fn a_kernel_on_every_target() {
    let targets = [
        (Target::Gfx90a, Target::Gfx90a),
        (Target::Gfx942, Target::Gfx942),
        (Target::Gfx950, Target::Gfx950),
        (Target::Gfx1100, Target::Gfx1100),
        (Target::Gfx1100, Target::Gfx1151),
        (Target::Gfx1201, Target::Gfx1201),
        (Target::Gfx1250, Target::Gfx1250),
    ];
    for name in ["asm_axpy", "hip_lds_reduce"] {
        for (target, as_target) in targets {
            run(name, target, as_target);
        }
    }
}

#[test]
fn several_dispatches_wait_for_one_doorbell_each() {
    let client = Client::new(machine(Target::Gfx942)).unwrap();
    let (page, event) = client.first_event().unwrap();
    let mut ready = upload(&client, "asm_axpy", Selection::of(Target::Gfx942));
    let signals = client.allocate(0, 0, 4096, alloc_flags::GTT).unwrap();
    let mut queue = client.aql_queue(0).unwrap();
    for round in 0..200 {
        let completion = signal(&signals, 128, &page, event).unwrap();
        ready.packet[56..].copy_from_slice(&completion.to_le_bytes());
        queue.submit(&ready.packet).unwrap();
        assert!(
            client.wait(event, 60_000).unwrap().is_some(),
            "round {round}"
        );
        assert_eq!(signals.word(136).unwrap().load(Ordering::Acquire), 0);
    }
    assert_eq!(queue.read_index().unwrap(), 200);
    client.destroy(&queue).unwrap();
}

#[test]
fn a_suspended_queue_runs_nothing_until_it_is_resumed() {
    let client = Client::new(machine(Target::Gfx1100)).unwrap();
    let (page, event) = client.first_event().unwrap();
    let mut ready = upload(&client, "asm_axpy", Selection::of(Target::Gfx1100));
    let signals = client.allocate(0, 0, 4096, alloc_flags::GTT).unwrap();
    let mut queue = client.aql_queue(0).unwrap();
    let update = |percentage| {
        let mut args = abi::UpdateQueue {
            ring_base_address: queue.ring.va,
            queue_id: queue.id,
            ring_size: queue.ring.bytes as u32,
            queue_percentage: percentage,
            queue_priority: 7,
        };
        client.raw(0x07, &mut args).unwrap();
    };
    update(0);
    let completion = signal(&signals, 128, &page, event).unwrap();
    ready.packet[56..].copy_from_slice(&completion.to_le_bytes());
    queue.submit(&ready.packet).unwrap();
    assert!(client.wait(event, 50).unwrap().is_none());
    assert_eq!(queue.read_index().unwrap(), 0);
    let queue_id = queue.id;
    let mut args = abi::UpdateQueue {
        ring_base_address: queue.ring.va,
        queue_id,
        ring_size: queue.ring.bytes as u32,
        queue_percentage: 100,
        queue_priority: 7,
    };
    client.raw(0x07, &mut args).unwrap();
    assert!(client.wait(event, 60_000).unwrap().is_some());
    assert_eq!(queue.read_index().unwrap(), 1);
}

#[test]
fn a_memory_fault_reaches_the_event_with_page_and_cause() {
    let client = Client::new(machine(Target::Gfx942)).unwrap();
    let (page, event) = client.first_event().unwrap();
    let memory = client.event(event_type::MEMORY).unwrap();
    let hardware = client.event(event_type::HW_EXCEPTION).unwrap();
    let mut ready = upload(&client, "asm_axpy", Selection::of(Target::Gfx942));
    let signals = client.allocate(0, 0, 4096, alloc_flags::GTT).unwrap();
    let mut queue = client.aql_queue(0).unwrap();
    let completion = signal(&signals, 128, &page, event).unwrap();
    ready.packet[56..].copy_from_slice(&completion.to_le_bytes());
    // Take the output away from the GPU.
    let (out, _) = ready.buffers.last().unwrap();
    let ids = [client.gpus[0].id];
    let mut unmap = abi::MapMemory {
        handle: out.handle,
        device_ids_array_ptr: ids.as_ptr() as u64,
        n_devices: 1,
        n_success: 0,
    };
    client.raw(0x19, &mut unmap).unwrap();
    queue.submit(&ready.packet).unwrap();
    let data = client.wait(memory, 60_000).unwrap().expect("a fault");
    let va = u64::from(data.payload[4]) | u64::from(data.payload[5]) << 32;
    assert!((out.va..out.va + out.bytes).contains(&va) && va % 4096 == 0);
    assert_eq!(data.payload[0], 1, "not present");
    assert_eq!(data.payload[6], client.gpus[0].id);
    assert!(client.wait(hardware, 0).unwrap().is_none());
    assert!(client.wait(event, 0).unwrap().is_none());
    assert_eq!(client.driver.report().faults.len(), 1);
    client.destroy(&queue).unwrap();
}

/// What `memcheck` with red zones records of `asm_axpy` whose second argument points `offset` bytes into an allocation of `bytes`
/// bytes.
fn misses(bytes: usize, offset: i64) -> Vec<Value> {
    let selection: rocjitsu_plugins::Selection = "memcheck:redzone=65536".parse().unwrap();
    let (sink, records) = Sink::memory();
    let plugin = rocjitsu_plugins::make(&selection, Lines::new(vec![sink])).unwrap();
    let mut plugins = Plugins::new();
    plugins.add("memcheck", plugin);
    let plugins = Arc::new(plugins);
    let driver = Driver::new(machine(Target::Gfx942)).unwrap();
    let driver = driver.with_red_zones(65536).unwrap();
    let client = Client::of(driver.with_plugins(plugins.clone())).unwrap();
    let (page, event) = client.first_event().unwrap();
    let fault = client.event(event_type::MEMORY).unwrap();
    let selection = Selection::of(Target::Gfx942);
    let mut launch = Launch::from_description(&description("asm_axpy"), selection).unwrap();
    launch.buffers[1].content.resize(bytes, 0);
    let mut ready = upload_launch(&client, launch, |plan, placed| {
        let pointer = placed.buffers[1].wrapping_add_signed(offset);
        let argument = placed.kernarg_address + 8;
        plan.write(argument, &pointer.to_le_bytes()).unwrap();
    });
    let signals = client.allocate(0, 0, 4096, alloc_flags::GTT).unwrap();
    let mut queue = client.aql_queue(0).unwrap();
    let completion = signal(&signals, 128, &page, event).unwrap();
    ready.packet[56..].copy_from_slice(&completion.to_le_bytes());
    queue.submit(&ready.packet).unwrap();
    let ended = || {
        let done = client.wait(event, 20).unwrap();
        done.or_else(|| client.wait(fault, 20).unwrap())
    };
    let came = std::iter::repeat_with(ended)
        .take(1000)
        .find(Option::is_some);
    assert!(came.is_some(), "neither an end nor a fault");
    client.destroy(&queue).unwrap();
    plugins.finish().unwrap();
    let text = String::from_utf8(records.lock().unwrap().clone()).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn accesses_beside_allocations_are_named_with_side_and_distance() {
    // 230 words of 4 bytes are read.
    for (bytes, offset, side, distance, address) in [
        (920, 0, None, 0, 0),
        // The rest of the last page.
        (900, 0, Some("behind"), 1, 900),
        (4098, 4000, Some("behind"), 0, 4096),
        // No page at all.
        (4096, 4096 - 400, Some("behind"), 1, 4096),
        (4096, 4096 + 800, Some("behind"), 801, 4896),
        (4096, -400, Some("before"), 400, -400),
        (4096, -4096, Some("before"), 4096, -4096),
    ] {
        let records = misses(bytes, offset);
        let (summary, found) = records.split_last().unwrap();
        let text = format!("{bytes} {offset}: {records:#?}");
        assert_eq!(summary["event"], "summary", "{text}");
        let Some(side) = side else {
            assert!(found.is_empty(), "{text}");
            continue;
        };
        let [record] = found else { panic!("{text}") };
        assert_eq!(record["error"], "out_of_bounds", "{text}");
        assert_eq!(record["allocation"], "VRAM", "{text}");
        assert_eq!(record["bytes"], bytes, "{text}");
        assert_eq!(record["side"], side, "{text}");
        assert_eq!(record["offset"], address, "{text}");
        assert_eq!(record["distance"], distance, "{text}");
    }
}
