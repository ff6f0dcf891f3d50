//! Queues of words, as CREATE_QUEUE makes them: every type of SDMA queue, and PM4. What their packets do is tested with
//! the processors; here it is what the driver hands them: pointers and their unit, the XCC, interrupts and faults.

use std::time::{Duration, Instant};

use rocjitsu_config::{Machine, preset_for_target};
use rocjitsu_kfd::abi::{alloc_flags, event_type};
use rocjitsu_kfd::client::{Buffer, Client, WordEngine, WordQueue};

/// A program of its own: allocations stay as long as their client, and addresses that a buffer leaves are used again.
fn client() -> Client {
    Client::new(Machine::new(vec![preset_for_target("gfx942").unwrap()])).unwrap()
}

fn memory(client: &Client) -> Buffer {
    client.allocate(0, 0, 1 << 16, alloc_flags::GTT).unwrap()
}

fn long(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

/// COPY, linear.
fn copy(from: u64, to: u64, bytes: u32) -> [u32; 7] {
    let ([a, b], [c, d]) = (long(from), long(to));
    [1, bytes - 1, 0, a, b, c, d]
}

/// FENCE.
fn fence(at: u64, value: u32) -> [u32; 4] {
    let [low, high] = long(at);
    [5, low, high, value]
}

/// TRAP.
fn trap(event: u32) -> [u32; 2] {
    [6, event]
}

/// A PM4 packet of type 3.
fn pm4(opcode: u32, words: &[u32]) -> Vec<u32> {
    let header = 3 << 30 | (words.len() as u32 - 1) << 16 | opcode << 8;
    std::iter::once(header)
        .chain(words.iter().copied())
        .collect()
}

/// WRITE_DATA to memory.
fn write_data(at: u64, value: u32) -> Vec<u32> {
    let [low, high] = long(at);
    pm4(0x37, &[5 << 8, low, high, value])
}

/// RELEASE_MEM: a long word, then an interrupt for an event.
fn release_mem(at: u64, value: u64, event: u32) -> Vec<u32> {
    let ([low, high], [data_low, data_high]) = (long(at), long(value));
    pm4(
        0x49,
        &[
            0x14 | 5 << 8,
            2 << 29 | 2 << 24,
            low,
            high,
            data_low,
            data_high,
            event,
        ],
    )
}

fn word(buffer: &Buffer, at: u64) -> u32 {
    u32::from_le_bytes(buffer.read(at, 4).unwrap().try_into().unwrap())
}

/// The read pointer as it lies in memory.
fn pointer(queue: &WordQueue) -> u64 {
    let word = queue.state.word(64).unwrap();
    word.load(std::sync::atomic::Ordering::Acquire)
}

/// The read pointer moves after what the last packet does.
fn until_done(queue: &WordQueue) {
    let start = Instant::now();
    while !queue.is_done().unwrap() {
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::yield_now();
    }
}

#[test]
fn every_type_of_sdma_queue_copies_fences_and_traps() {
    let sdma = preset_for_target("gfx942").unwrap().sdma;
    let last = sdma.engines + sdma.xgmi_engines - 1;
    let engines = [
        WordEngine::Sdma,
        WordEngine::SdmaXgmi,
        WordEngine::SdmaOf(0),
        WordEngine::SdmaOf(last),
    ];
    for engine in engines {
        let client = client();
        let (_page, event) = client.first_event().unwrap();
        let memory = memory(&client);
        memory.write(0, &[7; 5000]).unwrap();
        let mut queue = client.word_queue(0, engine, 4096).unwrap();
        queue
            .submit(&copy(memory.va, memory.va + 8192, 5000))
            .unwrap();
        queue.submit(&fence(memory.va + 16384, 0xfeed)).unwrap();
        queue.submit(&trap(event)).unwrap();
        assert!(client.wait(event, 60_000).unwrap().is_some(), "{engine:?}");
        assert_eq!(
            memory.read(8192, 5001).unwrap(),
            [&[7; 5000][..], &[0]].concat()
        );
        assert_eq!(word(&memory, 16384), 0xfeed);
        until_done(&queue);
        // In bytes.
        assert_eq!(pointer(&queue), 4 * 13);
    }
    let beyond = WordEngine::SdmaOf(last + 1);
    assert!(client().word_queue(0, beyond, 4096).is_err());
}

#[test]
fn a_pm4_queue_writes_and_releases_on_its_xcc() {
    for xcc in [0, 5] {
        let client = client();
        let (_page, event) = client.first_event().unwrap();
        let memory = memory(&client);
        let mut queue = client.word_queue(0, WordEngine::Pm4 { xcc }, 4096).unwrap();
        queue.submit(&write_data(memory.va, 0xfeed)).unwrap();
        // Only where the bit of the XCC is set.
        for other in [0u32, 5] {
            let write = write_data(memory.va + 4 + 4 * u64::from(other), 1);
            let predicate = pm4(0x23, &[1 << (24 + other) | write.len() as u32]);
            queue.submit(&[predicate, write].concat()).unwrap();
        }
        queue
            .submit(&release_mem(memory.va + 64, 1 << 40 | 3, event))
            .unwrap();
        assert!(client.wait(event, 60_000).unwrap().is_some());
        assert_eq!(word(&memory, 0), 0xfeed);
        assert_eq!(
            [word(&memory, 4), word(&memory, 24)],
            [u32::from(xcc == 0), u32::from(xcc == 5)]
        );
        assert_eq!(memory.read(64, 8).unwrap(), (1u64 << 40 | 3).to_le_bytes());
        until_done(&queue);
        // In words.
        assert_eq!(pointer(&queue), 5 + 14 + 8);
    }
}

/// Both kinds go around their rings.
#[test]
fn rings_wrap() {
    for engine in [WordEngine::Sdma, WordEngine::Pm4 { xcc: 0 }] {
        let client = client();
        let memory = memory(&client);
        let mut queue = client.word_queue(0, engine, 4096).unwrap();
        for value in 1..=1000 {
            let pm4 = write_data(memory.va, value);
            match engine {
                WordEngine::Pm4 { .. } => queue.submit(&pm4),
                _ => queue.submit(&fence(memory.va, value)),
            }
            .unwrap();
            until_done(&queue);
            assert_eq!(word(&memory, 0), value);
        }
    }
}

#[test]
fn a_wrong_packet_stops_its_queue_and_no_other() {
    // Opcodes that there are not, and a PM4 packet of type 0.
    let wrong: [(WordEngine, &[u32]); 5] = [
        (WordEngine::Sdma, &[99]),
        (WordEngine::SdmaXgmi, &[1 | 9 << 8]),
        (WordEngine::SdmaOf(1), &[99]),
        (WordEngine::Pm4 { xcc: 0 }, &[3 << 30 | 0x99 << 8, 0]),
        (WordEngine::Pm4 { xcc: 0 }, &[1]),
    ];
    for (engine, packet) in wrong {
        let client = client();
        let (_page, event) = client.first_event().unwrap();
        let hardware = client.event(event_type::HW_EXCEPTION).unwrap();
        let memory = memory(&client);
        let is_pm4 = matches!(engine, WordEngine::Pm4 { .. });
        let mark = |value| match is_pm4 {
            true => write_data(memory.va, value),
            false => fence(memory.va, value).to_vec(),
        };
        let mut queue = client.word_queue(0, engine, 4096).unwrap();
        queue.submit(&mark(1)).unwrap();
        until_done(&queue);
        let before = queue.done().unwrap();
        queue.submit(packet).unwrap();
        let data = client.wait(hardware, 60_000).unwrap().unwrap();
        // reset_type, reset_cause, memory_lost, gpu_id.
        assert_eq!(data.payload[3], client.gpus[0].id, "{engine:?}");
        queue.submit(&mark(2)).unwrap();
        let mut other = client.word_queue(0, engine, 4096).unwrap();
        match is_pm4 {
            true => other.submit(&release_mem(memory.va + 64, 1, event)),
            false => other.submit(&trap(event)),
        }
        .unwrap();
        assert!(client.wait(event, 60_000).unwrap().is_some(), "{engine:?}");
        assert_eq!(
            (queue.done().unwrap(), word(&memory, 0)),
            (before, 1),
            "{engine:?}"
        );
        assert_eq!(client.driver.report().faults.len(), 1);
    }
}

#[test]
fn an_access_to_nothing_reaches_the_memory_event() {
    let nothing = 0x7654_3210_0000;
    for engine in [WordEngine::Sdma, WordEngine::Pm4 { xcc: 0 }] {
        let client = client();
        let memory = memory(&client);
        let fault = client.event(event_type::MEMORY).unwrap();
        let mut queue = client.word_queue(0, engine, 4096).unwrap();
        match engine {
            WordEngine::Pm4 { .. } => queue.submit(&write_data(nothing + 8, 1)),
            _ => queue.submit(&copy(memory.va, nothing + 8, 64)),
        }
        .unwrap();
        let data = client.wait(fault, 60_000).unwrap().unwrap();
        // not_present, read_only, no_execute, imprecise; the page; gpu_id.
        assert_eq!(data.payload[..4], [1, 0, 0, 0], "{engine:?}");
        assert_eq!(data.payload[4..6], long(nothing), "{engine:?}");
        assert_eq!(data.payload[6], client.gpus[0].id, "{engine:?}");
        assert_eq!(queue.done().unwrap(), 0);
    }
}
