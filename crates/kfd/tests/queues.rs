//! Queues: what CREATE_QUEUE refuses, kernels that never end or are none, queues that share a GPU.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rocjitsu_config::{Machine, preset_for_target};
use rocjitsu_kfd::abi::{self, alloc_flags, event_type, queue_type};
use rocjitsu_kfd::client::{Buffer, Client, Queue, signal};
use rocjitsu_kfd::{Errno, Fault};

/// `s_endpgm` and `s_branch -1` (itself) of gfx9.
const END: u32 = 0xbf81_0000;
const FOREVER: u32 = 0xbf82_ffff;
/// No instruction of any target.
const ILLEGAL: u32 = 0xffff_ffff;

fn client() -> Client {
    Client::new(Machine::new(vec![preset_for_target("gfx942").unwrap()])).unwrap()
}

/// A kernel of these words: a descriptor at 0, the code at 256.
fn kernel(client: &Client, words: &[u32]) -> Buffer {
    let buffer = client.allocate(0, 0, 4096, alloc_flags::VRAM).unwrap();
    buffer.write(16, &256u64.to_le_bytes()).unwrap();
    for (i, word) in words.iter().enumerate() {
        buffer
            .write(256 + 4 * i as u64, &word.to_le_bytes())
            .unwrap();
    }
    buffer
}

/// A dispatch of one wave.
fn packet(kernel: &Buffer, completion: u64) -> [u8; 64] {
    let mut packet = [0; 64];
    let mut put = |at: usize, bytes: &[u8]| packet[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &(2u16 | 1 << 8).to_le_bytes());
    put(2, &1u16.to_le_bytes());
    for axis in 0..3 {
        put(4 + 2 * axis, &[if axis == 0 { 64 } else { 1 }, 0]);
        put(12 + 4 * axis, &[if axis == 0 { 64 } else { 1 }, 0, 0, 0]);
    }
    put(32, &kernel.va.to_le_bytes());
    put(56, &completion.to_le_bytes());
    packet
}

/// Waits until the first packet's wave runs: nobody tells, but packets are counted when they begin.
fn until_begun(client: &Client) {
    while client.driver.report().packets.is_empty() {
        std::thread::yield_now();
    }
}

/// The driver's faults, once there is one: the program may hear of it a moment before the report does.
fn faults(client: &Client) -> Vec<Fault> {
    let start = Instant::now();
    loop {
        let faults = client.driver.report().faults;
        if !faults.is_empty() || start.elapsed() > Duration::from_secs(60) {
            return faults;
        }
        std::thread::yield_now();
    }
}

fn arguments(client: &Client, ring: &Buffer, state: &Buffer) -> abi::CreateQueue {
    abi::CreateQueue {
        ring_base_address: ring.va,
        write_pointer_address: state.va + 56,
        read_pointer_address: state.va + 128,
        ring_size: ring.bytes as u32,
        gpu_id: client.gpus[0].id,
        queue_type: queue_type::COMPUTE_AQL,
        queue_percentage: 100,
        queue_priority: 7,
        ctx_save_restore_size: client.gpus[0].save_area,
        ctl_stack_size: client.gpus[0].ctl_stack,
        ..Default::default()
    }
}

#[test]
fn create_refuses_what_the_kernel_refuses() {
    let client = client();
    let ring = client.allocate(0, 0, 8192, alloc_flags::GTT).unwrap();
    let state = client.allocate(0, 0, 4096, alloc_flags::GTT).unwrap();
    let good = arguments(&client, &ring, &state);
    let create = |args: abi::CreateQueue| {
        let mut args = args;
        client.raw(0x02, &mut args).map(|()| args)
    };
    type Change = fn(&mut abi::CreateQueue);
    let changes: [(&str, Change, Errno); 16] = [
        ("ring size", |a| a.ring_size = 3 << 10, Errno::INVAL),
        ("small ring", |a| a.ring_size = 0x200, Errno::INVAL),
        ("percentage", |a| a.queue_percentage = 101, Errno::INVAL),
        ("priority", |a| a.queue_priority = 16, Errno::INVAL),
        ("type", |a| a.queue_type = 5, Errno::INVAL),
        ("GPU", |a| a.gpu_id ^= 1, Errno::INVAL),
        ("control stack", |a| a.ctl_stack_size += 4096, Errno::INVAL),
        ("save area", |a| a.ctx_save_restore_size -= 1, Errno::INVAL),
        ("ring", |a| a.ring_base_address = 1 << 20, Errno::INVAL),
        ("end of the ring", |a| a.ring_size *= 2, Errno::INVAL),
        (
            "size of the EOP buffer",
            |a| {
                a.eop_buffer_address = a.ring_base_address;
                a.eop_buffer_size = 8192;
            },
            Errno::INVAL,
        ),
        (
            "end of the EOP buffer",
            |a| {
                a.eop_buffer_address = a.ring_base_address + 8;
                a.eop_buffer_address += u64::from(a.ring_size) - 4096;
                a.eop_buffer_size = 4096;
            },
            Errno::INVAL,
        ),
        (
            "end of the save area",
            |a| a.ctx_save_restore_address = a.ring_base_address,
            Errno::INVAL,
        ),
        (
            "kernel address",
            |a| a.ring_base_address = 1 << 63,
            Errno::FAULT,
        ),
        ("read index", |a| a.read_pointer_address = 8, Errno::INVAL),
        (
            "engine",
            |a| {
                a.queue_type = queue_type::SDMA_BY_ENGINE_ID;
                a.sdma_engine_id = 99;
            },
            Errno::INVAL,
        ),
    ];
    for (what, change, errno) in changes {
        let mut args = good;
        change(&mut args);
        assert_eq!(create(args), Err(errno), "{what}");
    }
    let mut complete = good;
    complete.eop_buffer_address = ring.va;
    complete.eop_buffer_size = 4096;
    let area = (u64::from(good.ctx_save_restore_size) + (64 << 10)) * 8;
    let area = client.allocate(0, 0, area, alloc_flags::GTT).unwrap();
    complete.ctx_save_restore_address = area.va;
    let mut complete = abi::DestroyQueue {
        queue_id: create(complete).unwrap().queue_id,
        pad: 0,
    };
    client.raw(0x03, &mut complete).unwrap();
    let first = create(good).unwrap();
    let second = create(good).unwrap();
    // What rocm-smi reads of this process and its queues.
    let path = format!("/sys/class/kfd/kfd/proc/{}", std::process::id());
    let read = |name: &str| {
        let bytes = client
            .driver
            .tree()
            .read(Path::new(&format!("{path}/{name}")));
        bytes.map(|bytes| String::from_utf8(bytes).unwrap())
    };
    let id = client.gpus[0].id;
    assert_eq!(read("queues/1/gpuid"), Some(id.to_string()));
    assert_eq!(read("queues/1/size"), Some("8192".to_owned()));
    assert_eq!(read("queues/1/type"), Some("2".to_owned()));
    assert_eq!(read("queues/2/type"), None);
    let listed = client
        .driver
        .tree()
        .read_dir(Path::new(&format!("{path}/queues")));
    let listed: Vec<_> = listed
        .unwrap()
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    assert_eq!(listed, ["0", "1"]);
    let used = read(&format!("vram_{id}")).unwrap();
    assert!(used.trim_end().parse::<u64>().is_ok(), "{used:?}");
    assert_eq!((first.queue_id, second.queue_id), (0, 1));
    assert_eq!(second.doorbell_offset, first.doorbell_offset + 8);
    assert_eq!(first.doorbell_offset % 8192, 0);
    let mut destroy = abi::DestroyQueue {
        queue_id: 0,
        pad: 0,
    };
    client.raw(0x03, &mut destroy).unwrap();
    assert_eq!(client.raw(0x03, &mut destroy), Err(Errno::INVAL));
    let again = create(good).unwrap();
    assert_eq!(
        (again.queue_id, again.doorbell_offset),
        (0, first.doorbell_offset)
    );
    // RUNTIME_ENABLE comes before queues.
    let mut runtime = abi::RuntimeEnable {
        mode_mask: 1,
        ..Default::default()
    };
    assert_eq!(client.raw(0x25, &mut runtime), Err(Errno::EXIST));
    runtime.mode_mask = 0;
    assert_eq!(client.raw(0x25, &mut runtime), Ok(()));
}

#[test]
fn masks_and_global_wave_sync_are_checked() {
    let client = client();
    let (one, two) = (client.aql_queue(0).unwrap(), client.aql_queue(0).unwrap());
    let mask = [u32::MAX; 4];
    let set = |queue_id, num_cu_mask, cu_mask_ptr| {
        let mut args = abi::SetCuMask {
            queue_id,
            num_cu_mask,
            cu_mask_ptr,
        };
        client.raw(0x1a, &mut args)
    };
    assert_eq!(set(one.id, 128, mask.as_ptr() as u64), Ok(()));
    assert_eq!(set(one.id, 100, mask.as_ptr() as u64), Err(Errno::INVAL));
    assert_eq!(set(one.id, 128, 8), Err(Errno::FAULT));
    assert_eq!(set(99, 128, mask.as_ptr() as u64), Err(Errno::FAULT));
    let gws = |queue_id, num_gws| {
        let mut args = abi::AllocQueueGws {
            queue_id,
            num_gws,
            ..Default::default()
        };
        client.raw(0x1e, &mut args)
    };
    assert_eq!(gws(one.id, 65), Err(Errno::INVAL));
    assert_eq!(gws(one.id, 64), Ok(()));
    assert_eq!(gws(two.id, 64), Err(Errno::BUSY));
    assert_eq!(gws(one.id, 0), Ok(()));
    assert_eq!(gws(two.id, 1), Ok(()));
    assert_eq!(gws(99, 1), Err(Errno::INVAL));
    let mut state = abi::GetQueueWaveState {
        queue_id: one.id,
        ..Default::default()
    };
    assert_eq!(client.raw(0x1b, &mut state), Err(Errno::PERM));
}

#[test]
fn a_kernel_without_end_ends_with_its_queue() {
    let client = client();
    let kernel = kernel(&client, &[FOREVER]);
    let mut queue = client.aql_queue(0).unwrap();
    queue.submit(&packet(&kernel, 0)).unwrap();
    until_begun(&client);
    client.destroy(&queue).unwrap();
    assert_eq!(queue.read_index().unwrap(), 0);
    assert!(client.driver.report().faults.is_empty());
}

#[test]
fn an_inactivated_queue_has_no_waves() {
    let client = client();
    let kernel = kernel(&client, &[FOREVER]);
    let mut queue = client.aql_queue(0).unwrap();
    queue.submit(&packet(&kernel, 0)).unwrap();
    until_begun(&client);
    // As `hsa_queue_inactivate` does.
    let mut args = abi::UpdateQueue {
        queue_id: queue.id,
        queue_priority: 7,
        ..Default::default()
    };
    client.raw(0x07, &mut args).unwrap();
    assert_eq!(queue.read_index().unwrap(), 0);
    client.destroy(&queue).unwrap();
}

/// A kernel that counts up a word for ever.
fn counter(client: &Client, word: u64) -> Buffer {
    let code = [
        // s_mov_b32 s0, low; s_mov_b32 s1, high; v_mov_b32 v0, 0; s_mov_b32 s2, 0
        0xbe80_00ff,
        word as u32,
        0xbe81_00ff,
        (word >> 32) as u32,
        0x7e00_0280,
        0xbe82_0080,
        // s_add_u32 s2, s2, 1; v_mov_b32 v1, s2; global_store_dword v0, v1, s[0:1]; s_branch -5
        0x8002_8102,
        0x7e02_0202,
        0xdc70_8000,
        0x0000_0100,
        0xbf82_fffb,
    ];
    kernel(client, &code)
}

#[test]
fn waves_of_a_suspended_queue_stand_still_and_go_on() {
    let client = client();
    let words = client.allocate(0, 0, 4096, alloc_flags::GTT).unwrap();
    let kernel = counter(&client, words.va);
    let mut queue = client.aql_queue(0).unwrap();
    queue.submit(&packet(&kernel, 0)).unwrap();
    let count = || words.word(0).unwrap().load(Ordering::Acquire);
    let more_than = |least: u64| {
        while count() <= least {
            std::thread::yield_now();
        }
    };
    let update = |ring_base_address, queue_percentage| {
        let mut args = abi::UpdateQueue {
            ring_base_address,
            queue_id: queue.id,
            ring_size: queue.ring.bytes as u32,
            queue_percentage,
            queue_priority: 7,
        };
        client.raw(0x07, &mut args)
    };
    more_than(0);
    let mut last = 0;
    for inactive in [(queue.ring.va, 0), (0, 100), (queue.ring.va, 0)] {
        update(inactive.0, inactive.1).unwrap();
        let now = count();
        assert!(now > last);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(count(), now, "no wave runs");
        update(queue.ring.va, 100).unwrap();
        more_than(now);
        last = now;
    }
    update(queue.ring.va, 0).unwrap();
    client.destroy(&queue).unwrap();
    assert_eq!(queue.read_index().unwrap(), 0);
}

#[test]
fn a_ring_can_move_and_the_indices_stay() {
    let client = client();
    let (page, event) = client.first_event().unwrap();
    let signals = client.allocate(0, 0, 4096, alloc_flags::GTT).unwrap();
    let mut queue = client.aql_queue(0).unwrap();
    let kernel = kernel(&client, &[END]);
    let run = |queue: &mut Queue| {
        let completion = signal(&signals, 256, &page, event).unwrap();
        queue.submit(&packet(&kernel, completion)).unwrap();
        assert!(client.wait(event, 60_000).unwrap().is_some());
    };
    for _ in 0..3 {
        run(&mut queue);
    }
    let other = client.allocate(0, 0, 8192, alloc_flags::GTT).unwrap();
    for slot in 0..other.bytes / 64 {
        other.write(slot * 64, &1u16.to_le_bytes()).unwrap();
    }
    let update = |queue: &Queue, ring_base_address, bytes: u64| {
        let mut args = abi::UpdateQueue {
            ring_base_address,
            queue_id: queue.id,
            ring_size: bytes as u32,
            queue_percentage: 100,
            queue_priority: 7,
        };
        client.raw(0x07, &mut args)
    };
    assert_eq!(update(&queue, 1 << 20, 4096), Err(Errno::INVAL));
    assert_eq!(update(&queue, other.va, 1 << 30), Err(Errno::INVAL));
    update(&queue, other.va, other.bytes).unwrap();
    let old = std::mem::replace(&mut queue.ring, other);
    for _ in 0..200 {
        run(&mut queue);
    }
    assert_eq!(queue.read_index().unwrap(), 203);
    assert_eq!(
        old.read(3 * 64, 2).unwrap(),
        [1, 0],
        "the old ring is left alone"
    );
}

#[test]
fn a_refused_packet_is_counted() {
    let client = client();
    let mut queue = client.aql_queue(0).unwrap();
    let hardware = client.event(event_type::HW_EXCEPTION).unwrap();
    // An agent dispatch.
    let mut packet = [0; 64];
    packet[0] = 4;
    queue.submit(&packet).unwrap();
    assert!(client.wait(hardware, 60_000).unwrap().is_some());
    faults(&client);
    let report = client.driver.report();
    assert_eq!(report.packets_refused["aql"], 1);
    assert_eq!(report.results.refused, 0);
}

#[test]
fn closing_the_device_ends_what_runs() {
    let client = client();
    let kernel = kernel(&client, &[FOREVER]);
    let mut queue = client.aql_queue(0).unwrap();
    queue.submit(&packet(&kernel, 0)).unwrap();
    until_begun(&client);
    use std::os::fd::AsRawFd;
    client.driver.closed(client.kfd.as_raw_fd());
    assert!(!client.driver.is_ours(client.kfd.as_raw_fd()));
}

#[test]
fn an_illegal_instruction_goes_to_the_inactive_signal() {
    let client = client();
    let (page, event) = client.first_event().unwrap();
    let hardware = client.event(event_type::HW_EXCEPTION).unwrap();
    let kernel = kernel(&client, &[ILLEGAL, END]);
    let signals = client.allocate(0, 0, 4096, alloc_flags::GTT).unwrap();
    let mut queue = client.aql_queue(0).unwrap();
    let inactive = signal(&signals, 0, &page, event).unwrap();
    signals.word(8).unwrap().store(0, Ordering::Release);
    queue.state.write(192, &inactive.to_le_bytes()).unwrap();
    queue.submit(&packet(&kernel, 0)).unwrap();
    assert!(client.wait(event, 60_000).unwrap().is_some());
    assert_eq!(
        signals.word(8).unwrap().load(Ordering::Acquire),
        0x4000_0000
    );
    assert!(client.wait(hardware, 0).unwrap().is_none());
    let faults = faults(&client);
    assert_eq!(faults.len(), 1);
    assert!(faults[0].text.contains("gfx942"), "{}", faults[0].text);
    let report = client.driver.report();
    assert_eq!(report.results.refused, 1);
    assert!(report.packets_refused.is_empty());
    // The queue is dead, not the others.
    let mut other = client.aql_queue(0).unwrap();
    finish(&client, &mut other, &page, event, &signals);
}

#[test]
fn a_queue_without_that_signal_raises_a_hardware_exception() {
    let client = client();
    let hardware = client.event(event_type::HW_EXCEPTION).unwrap();
    let kernel = kernel(&client, &[ILLEGAL, END]);
    let mut queue = client.aql_queue(0).unwrap();
    queue.submit(&packet(&kernel, 0)).unwrap();
    let data = client.wait(hardware, 60_000).unwrap().expect("a fault");
    assert_eq!(data.payload[3], client.gpus[0].id);
}

/// Runs an empty kernel to its end.
fn finish(client: &Client, queue: &mut Queue, page: &Buffer, event: u32, signals: &Buffer) {
    finish_often(client, queue, (page, event), signals, 1);
}

/// The same, so many times.
fn finish_often(
    client: &Client,
    queue: &mut Queue,
    (page, event): (&Buffer, u32),
    signals: &Buffer,
    times: u32,
) {
    let kernel = kernel(client, &[END]);
    for _ in 0..times {
        let completion = signal(signals, 256, page, event).unwrap();
        queue.submit(&packet(&kernel, completion)).unwrap();
        assert!(client.wait(event, 60_000).unwrap().is_some());
        assert_eq!(signals.word(264).unwrap().load(Ordering::Acquire), 0);
    }
}

#[test]
fn one_queue_goes_on_while_another_is_busy() {
    let client = client();
    let (page, event) = client.first_event().unwrap();
    let forever = kernel(&client, &[FOREVER]);
    let signals = client.allocate(0, 0, 4096, alloc_flags::GTT).unwrap();
    let (mut busy, mut free) = (client.aql_queue(0).unwrap(), client.aql_queue(0).unwrap());
    busy.submit(&packet(&forever, 0)).unwrap();
    until_begun(&client);
    finish(&client, &mut free, &page, event, &signals);
    assert_eq!(
        (busy.read_index().unwrap(), free.read_index().unwrap()),
        (0, 1)
    );
    client.destroy(&busy).unwrap();
}

/// Tells the test below that it is the child.
const SIDE: &str = "ROCJITSU_TEST_SIDE_BY_SIDE";

/// The test runs itself twice more: each process has a driver of its own, a kernel that never ends on one queue, and
/// finishes kernels on another one while the others do the same.
#[test]
fn processes_dispatch_side_by_side() {
    use std::io::{BufRead, BufReader, Write};
    if std::env::var_os(SIDE).is_some() {
        let client = client();
        let (page, event) = client.first_event().unwrap();
        let signals = client.allocate(0, 0, 4096, alloc_flags::GTT).unwrap();
        let forever = kernel(&client, &[FOREVER]);
        let (mut busy, mut free) = (client.aql_queue(0).unwrap(), client.aql_queue(0).unwrap());
        busy.submit(&packet(&forever, 0)).unwrap();
        until_begun(&client);
        // The other one's kernel runs, too, before either goes on.
        println!("\nrunning");
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
        assert_eq!(line, "go on\n");
        finish_often(&client, &mut free, (&page, event), &signals, 20);
        assert_eq!(
            (busy.read_index().unwrap(), free.read_index().unwrap()),
            (0, 20)
        );
        client.destroy(&busy).unwrap();
        println!("\nfinished");
        return;
    }
    let start = || {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "processes_dispatch_side_by_side", "--nocapture"]);
        child.env(SIDE, "1").env("ROCJITSU_THREADS", "1");
        child.stdin(std::process::Stdio::piped());
        child.stdout(std::process::Stdio::piped());
        let mut child = child.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, lines)
    };
    let mut children = [start(), start()];
    let mut until = |which: usize, word: &str| {
        let (_, lines) = &mut children[which];
        assert!(lines.any(|line| line.unwrap() == word), "no `{word}`");
    };
    until(0, "running");
    until(1, "running");
    for (child, _) in &mut children {
        child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    }
    for (child, lines) in &mut children {
        assert!(lines.any(|line| line.unwrap() == "finished"));
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn a_packet_is_found_although_a_lower_doorbell_came_last() {
    let client = client();
    let (page, event) = client.first_event().unwrap();
    let kernel = kernel(&client, &[END]);
    let signals = client.allocate(0, 0, 4096, alloc_flags::GTT).unwrap();
    let queue = client.aql_queue(0).unwrap();
    let completion = signal(&signals, 128, &page, event).unwrap();
    // Two producers: both packets are there, only the lower doorbell is seen.
    queue.state.word(56).unwrap().store(2, Ordering::Release);
    queue.ring.write(64, &packet(&kernel, completion)).unwrap();
    queue.ring.write(0, &packet(&kernel, 0)).unwrap();
    queue.ring_doorbell(0).unwrap();
    assert!(client.wait(event, 60_000).unwrap().is_some());
    assert_eq!(queue.read_index().unwrap(), 2);
}

#[test]
fn a_report_is_json_and_a_few_lines() {
    let client = client();
    let (page, event) = client.first_event().unwrap();
    let signals = client.allocate(0, 0, 4096, alloc_flags::GTT).unwrap();
    let mut queue = client.aql_queue(0).unwrap();
    finish(&client, &mut queue, &page, event, &signals);
    client.destroy(&queue).unwrap();
    let report = client.driver.report();
    assert_eq!(report.dispatches[0].grid, [64, 1, 1]);
    assert_eq!(report.dispatches[0].waves, 1);
    assert_eq!(report.instructions["control"], 1);
    assert!(report.packets["aql"].values().sum::<u64>() >= 1);
    assert!(report.peak_memory_kib > 0 && !report.command.is_empty());
    let text = report.to_string();
    assert!(
        text.starts_with("1 dispatches of 1 kernels, 1 wave instructions"),
        "{text}"
    );
}
