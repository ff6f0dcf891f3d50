//! What the fuzz target `queues` does with an input; a test of the crate runs the same with inputs of its own.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use rocjitsu_gpu::dispatch::{Device, Limits};
use rocjitsu_gpu::memory::{Memory, Request};
use rocjitsu_gpu::queue::{Aql, AqlParams, Platform, Pm4, Pm4Params, Sdma, SdmaParams, Step};
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;
use rocjitsu_observe::{Observer, Silent};

const RING: u64 = 4096;
/// Inputs that have begun, and the flag that stops one that runs for long.
static BEGUN: AtomicU64 = AtomicU64::new(0);
static STOP: AtomicBool = AtomicBool::new(false);
static WATCH: Once = Once::new();

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

/// Raises the flag when an input has run for 50 ms: a kernel of fuzzed registers may never end.
fn watch() {
    std::thread::spawn(|| {
        let mut seen = 0;
        loop {
            std::thread::sleep(Duration::from_millis(50));
            let now = BEGUN.load(Ordering::Relaxed);
            STOP.store(now == seen, Ordering::Relaxed);
            seen = now;
        }
    });
}

/// One input.
pub fn run(data: &[u8]) {
    let [choice, low, high, ring_bytes @ ..] = data else {
        return;
    };
    WATCH.call_once(watch);
    BEGUN.fetch_add(1, Ordering::Relaxed);
    STOP.store(false, Ordering::Relaxed);
    let targets = [
        Target::Gfx90a,
        Target::Gfx942,
        Target::Gfx1100,
        Target::Gfx1201,
    ];
    let target = targets[usize::from(choice / 3) % targets.len()];
    let memory = Arc::new(Memory::new(1 << 28));
    let limits = Limits {
        compute_units: 4,
        waves_per_unit: 16,
        lds_per_unit: 65536,
        xccs: 8,
    };
    let device = Device::new(target, Backend::best(), limits, memory.clone()).expect("supported");
    // At addresses that an input can know.
    let place = |address: u64, label: &str| {
        let request = Request {
            address: Some(address),
            ..Request::new(RING, label)
        };
        memory.allocate(&request).expect("free")
    };
    let (ring, queue) = (place(0x10_0000, "ring"), place(0x20_0000, "queue"));
    place(0x30_0000, "data");
    let used = ring_bytes.len().min(RING as usize);
    memory.write(ring, &ring_bytes[..used]).expect("inside");
    let bell = u64::from(*low) | u64::from(*high) << 8;
    let step: &mut dyn FnMut() -> Step = match choice % 3 {
        0 => {
            let params = AqlParams {
                ring,
                ring_bytes: RING,
                read_index: queue + 128,
                write_index: queue + 56,
                doorbell: 0,
                threads: 1,
            };
            let mut queue = Aql::new(params);
            &mut move || queue.step(&device, bell % 64, &Nobody, &STOP)
        }
        1 => {
            let params = Pm4Params {
                ring,
                ring_bytes: RING,
                read_pointer: queue + 128,
                xcc: 0,
                threads: 1,
            };
            let mut queue = Pm4::new(params);
            &mut move || queue.step(&device, bell % 1025, &Nobody, &STOP)
        }
        _ => {
            let mut queue = Sdma::new(SdmaParams {
                ring,
                ring_bytes: RING,
                read_pointer: queue + 128,
            });
            &mut move || queue.step(&device, bell % 4097, &Nobody, &STOP)
        }
    };
    for _ in 0..4 {
        if let Step::Fault(fault) = step() {
            assert!(!fault.text.is_empty());
            break;
        }
    }
}
