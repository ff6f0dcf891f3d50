//! Random rings: whatever a program writes there, a processor works, waits or stops the queue, and returns.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rocjitsu_gpu::queue::{Aql, AqlParams, Pm4, Pm4Params, Sdma, SdmaParams, Step};
use rocjitsu_isa::Target;

use crate::rig::{Rig, STORE_IDS};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut s = self.0;
        s = (s ^ s >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        s = (s ^ s >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        s ^ s >> 31
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

const RING: u64 = 4096;

/// Opcodes of PM4 with the words that belong to them.
const PM4: [(u32, u64); 15] = [
    (0x10, 3),
    (0x15, 4),
    (0x1e, 8),
    (0x23, 1),
    (0x37, 5),
    (0x3c, 6),
    (0x3f, 3),
    (0x40, 5),
    (0x46, 1),
    (0x49, 7),
    (0x50, 6),
    (0x58, 7),
    (0x76, 6),
    (0x79, 3),
    (0x99, 1),
];

/// Headers of SDMA with the words that belong to them.
const SDMA: [(u32, u64); 13] = [
    (0, 1),
    (1, 7),
    (1 | 4 << 8 | 2 << 29, 13),
    (2, 7),
    (4, 6),
    (5, 4),
    (6, 2),
    (8 | 3 << 28 | 1 << 31, 6),
    (8 | 1 << 26, 6),
    (10 | 47 << 25, 8),
    (11 | 2 << 30, 5),
    (13 | 2 << 8, 3),
    (17, 5),
];

/// Fills `out` with what a packet may be: addresses in memory, small numbers, single bits, anything.
fn fields(random: &mut Random, places: &[u64], count: u64, out: &mut Vec<u32>) {
    let end = out.len() + count as usize;
    while out.len() < end {
        let place = places[random.below(places.len() as u64) as usize];
        match random.below(12) {
            0 => out.push(random.next() as u32),
            1 => out.push(1 << random.below(32)),
            2 => out.push(5 << 8 | 1 << 4 | random.below(8) as u32),
            3..=5 => out.push(random.below(6) as u32),
            _ => {
                let at = place + random.below(16) * 8;
                out.extend([at as u32, (at >> 32) as u32]);
            }
        }
    }
    out.truncate(end);
}

/// One packet of the kind of queue, now and then damaged.
fn packet(random: &mut Random, kind: u64, places: &[u64], out: &mut Vec<u32>) {
    let first = out.len();
    let pick = random.next() as usize;
    match kind {
        0 => {
            let header = [2, 2, 3, 5, 1 << 16, 2 << 16, 4][pick % 7];
            out.push(header | if header == 2 { 1 << 16 } else { 0 });
            match header {
                2 => {
                    let kernel = places[places.len() - 2];
                    let size = random.below(70) as u32;
                    out.extend([size | 1 << 16, 1, 100, 1, 1, random.below(2) as u32 * 64, 0]);
                    out.extend([kernel as u32, (kernel >> 32) as u32]);
                    fields(random, places, 6, out);
                }
                0x1_0000 => {
                    out.push(0xc002_3f00);
                    fields(random, places, 2, out);
                    out.push(random.below(40) as u32);
                    fields(random, places, 11, out);
                }
                _ => fields(random, places, 15, out),
            }
        }
        1 => {
            let (opcode, count) = PM4[pick % PM4.len()];
            out.push(3 << 30 | (count as u32 - 1) << 16 | opcode << 8);
            fields(random, places, count, out);
        }
        _ => {
            let (header, count) = SDMA[pick % SDMA.len()];
            out.push(header);
            fields(random, places, count - 1, out);
            if header == 2 {
                out[first + 3] = 2;
            }
        }
    }
    if random.below(20) == 0 {
        let length = (out.len() - first) as u64;
        out[first + random.below(length) as usize] = random.next() as u32;
    }
}

/// Steps queues of random packets, some hundred rings of each kind and target.
fn storm(seed: u64, targets: &[Target], rounds: u64) -> [u64; 4] {
    let mut random = Random(seed);
    let mut ends = [0u64; 4];
    for &target in targets {
        let rig = Rig::with(target, 8);
        let ring = rig.room(RING, "ring");
        let queue = rig.room(4096, "queue");
        let data = rig.room(1 << 16, "data");
        let signal = rig.signal(0, 3);
        let kernel = rig.kernel(&STORE_IDS, [0, 2 << 1, 0], 8);
        let places = [
            data,
            data,
            signal,
            signal + 8,
            data + 4096,
            ring,
            kernel,
            queue,
        ];
        let rounds_done = AtomicU64::new(0);
        std::thread::scope(|scope| {
            // A kernel of random bytes may never end: somebody stops it after a while, as a driver would.
            let (rig, rounds_done) = (&rig, &rounds_done);
            scope.spawn(move || {
                let mut seen = 0;
                loop {
                    std::thread::sleep(Duration::from_millis(20));
                    let now = rounds_done.load(Ordering::Relaxed);
                    if now == seen {
                        rig.stop.store(true, Ordering::Relaxed);
                    }
                    seen = now;
                    if now >= rounds {
                        return;
                    }
                }
            });
            for round in 0..rounds {
                rig.stop.store(false, Ordering::Relaxed);
                let mut words = Vec::new();
                while words.len() < RING as usize / 4 {
                    packet(&mut random, round % 3, &places, &mut words);
                }
                rig.write(ring, &words[..RING as usize / 4]);
                rig.write(queue, &[0; 64]);
                rig.write(queue + 136, &[128 * random.below(2) as u32]);
                if random.below(2) == 0 {
                    rig.set_long(queue + 192, signal);
                }
                rig.set_long(signal + 8, random.below(2));
                let first = match random.below(8) {
                    0 => random.next(),
                    1 => 0x8000,
                    _ => 0,
                };
                rig.set_long(queue + 128, first);
                // Packets in an AQL queue, words in a PM4 queue, bytes in a DMA queue.
                let bell = first
                    .wrapping_add([60, 1024, 4096][(round % 3) as usize] * random.below(9) / 8);
                let step: &mut dyn FnMut() -> Step = match round % 3 {
                    0 => {
                        let mut aql = Aql::new(AqlParams {
                            ring,
                            ring_bytes: RING,
                            read_index: queue + 128,
                            write_index: queue + 56,
                            doorbell: 0,
                            threads: 2,
                        });
                        &mut move || aql.step(&rig.device, bell, &rig.platform, &rig.stop)
                    }
                    1 => {
                        let mut pm4 = Pm4::new(Pm4Params {
                            ring,
                            ring_bytes: RING,
                            read_pointer: queue + 128,
                            xcc: 0,
                            threads: 2,
                        });
                        &mut move || pm4.step(&rig.device, bell, &rig.platform, &rig.stop)
                    }
                    _ => {
                        let mut sdma = Sdma::new(SdmaParams {
                            ring,
                            ring_bytes: RING,
                            read_pointer: queue + 128,
                        });
                        &mut move || sdma.step(&rig.device, bell, &rig.platform, &rig.stop)
                    }
                };
                for _ in 0..4 {
                    match step() {
                        Step::Idle => ends[0] += 1,
                        Step::Worked => ends[1] += 1,
                        Step::Waiting => ends[2] += 1,
                        Step::Fault(fault) => {
                            assert!(!fault.text.is_empty());
                            ends[3] += 1;
                            break;
                        }
                    }
                }
                rounds_done.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    ends
}

#[test]
fn random_rings_never_panic() {
    let targets = [
        Target::Gfx90a,
        Target::Gfx942,
        Target::Gfx1100,
        Target::Gfx1201,
        Target::Gfx1250,
    ];
    let ends = storm(1, &targets, 900);
    // Each way to end has been seen often: the rings were not all refused at their first word.
    assert!(ends.iter().all(|&n| n > 50), "{ends:?}");
}
