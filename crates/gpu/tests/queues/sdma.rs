//! DMA queues.

use rocjitsu_gpu::memory::{Access, Storage};
use rocjitsu_gpu::queue::{NO_DOORBELL, Sdma, SdmaParams, Step, error};
use rocjitsu_isa::Target;

use crate::rig::{Event, Rig};

const BYTES: u64 = 1024;

struct Queue {
    rig: Rig,
    ring: u64,
    pointer: u64,
    sdma: Sdma,
    written: u64,
}

fn long(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

fn copy(to: u64, from: u64, bytes: u32) -> Vec<u32> {
    [&[1, bytes - 1, 0][..], &long(from), &long(to)].concat()
}

impl Queue {
    fn new(target: Target) -> Queue {
        let rig = Rig::new(target);
        let ring = rig.room(BYTES, "ring");
        let pointer = rig.room(64, "read pointer");
        let sdma = Sdma::new(SdmaParams {
            ring,
            ring_bytes: BYTES,
            read_pointer: pointer,
        });
        Queue {
            rig,
            ring,
            pointer,
            sdma,
            written: 0,
        }
    }

    fn place(&mut self, words: &[u32]) {
        for word in words {
            self.rig.write(self.ring + self.written % BYTES, &[*word]);
            self.written += 4;
        }
    }

    fn step(&mut self) -> Step {
        let Queue {
            rig, sdma, written, ..
        } = self;
        sdma.step(&rig.device, *written, &rig.platform, &rig.stop)
    }

    fn run(&mut self, words: &[u32]) {
        self.place(words);
        assert_eq!(self.step(), Step::Worked);
        assert_eq!(self.rig.long(self.pointer), self.written);
        assert_eq!(self.step(), Step::Idle);
    }

    fn fault(words: &[u32]) -> String {
        let mut q = Queue::new(Target::Gfx942);
        q.place(words);
        match q.step() {
            Step::Fault(fault) => {
                assert_eq!(q.step(), Step::Fault(fault.clone()));
                assert_eq!(fault.code, error::PACKET_FORMAT, "{fault}");
                fault.text
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn copies_of_any_size_and_alignment() {
    let mut q = Queue::new(Target::Gfx942);
    let from = q.rig.room(1 << 20, "from");
    let to = q.rig.room(1 << 20, "to");
    let bytes: Vec<u8> = (0..1u32 << 20)
        .map(|i| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8)
        .collect();
    q.rig.memory.write(from, &bytes).unwrap();
    let mut want = vec![0; 1 << 20];
    for (target, source, length) in [
        (0usize, 0usize, 1usize),
        (5, 3, 4097),
        (8191, 1, 70_000),
        (100_000, 200_001, 800_000),
    ] {
        q.run(&copy(
            to + target as u64,
            from + source as u64,
            length as u32,
        ));
        want[target..target + length].copy_from_slice(&bytes[source..source + length]);
    }
    let mut got = vec![0; 1 << 20];
    q.rig.memory.read(to, &mut got).unwrap();
    assert!(got == want);
}

#[test]
fn the_ring_wraps_and_the_pointer_does_not() {
    let mut q = Queue::new(Target::Gfx1100);
    let at = q.rig.room(4096, "data");
    for i in 0..100 {
        q.run(&[&[2][..], &long(at), &[2, i, i + 1, i + 2]].concat());
        assert_eq!(q.rig.read(at, 3), [i, i + 1, i + 2]);
        // Padding: zero words, and a NOP with words of its own.
        q.run(&[0, 0, 3 << 16, 0xdead, 0xbeef, 0xffff]);
    }
    assert!(q.rig.long(q.pointer) > 5 * BYTES);
    let step = q
        .sdma
        .step(&q.rig.device, NO_DOORBELL, &q.rig.platform, &q.rig.stop);
    assert_eq!(step, Step::Idle);
    let far = q.written + BYTES + 4;
    let step = q
        .sdma
        .step(&q.rig.device, far, &q.rig.platform, &q.rig.stop);
    assert!(matches!(step, Step::Fault(f) if f.text.contains("doorbell")));
}

/// Copies a box of 5 x 4 x 3 elements of 4 bytes; the pitch begins at bit `pitch_at` of its word.
fn rect(target: Target, pitch_at: u32) {
    let mut q = Queue::new(target);
    let words: Vec<u32> = (0..4096).collect();
    let from = q.rig.words(&words, "from");
    let to = q.rig.room(4 * 4096, "to");
    let volume = |base: u64, offset: [u32; 3], pitch: u32, slice: u32| {
        let [low, high] = long(base);
        vec![
            low,
            high,
            offset[0] | offset[1] << 16,
            offset[2] | (pitch - 1) << pitch_at,
            slice - 1,
        ]
    };
    let packet = [
        vec![1 | 4 << 8 | 2 << 29],
        volume(from, [1, 2, 3], 16, 160),
        volume(to, [0, 1, 2], 8, 64),
        vec![4 | 3 << 16, 2],
    ]
    .concat();
    assert_eq!(packet.len(), 13);
    q.run(&packet);
    let got = q.rig.read(to, 4096);
    let mut want = vec![0; 4096];
    for z in 0..3 {
        for y in 0..4 {
            for x in 0..5 {
                want[(2 + z) * 64 + (1 + y) * 8 + x] =
                    ((3 + z) * 160 + (2 + y) * 16 + 1 + x) as u32;
            }
        }
    }
    assert!(got == want, "{target}");
}

#[test]
fn boxes_in_both_layouts() {
    rect(Target::Gfx90a, 13);
    rect(Target::Gfx942, 13);
    rect(Target::Gfx1100, 13);
    rect(Target::Gfx1201, 16);
}

#[test]
fn fills_fences_traps_and_times() {
    let mut q = Queue::new(Target::Gfx1201);
    let at = q.rig.room(4096, "data");
    let field = |offset: u64| long(at + offset);
    q.run(
        &[
            &[11 | 2 << 30][..],
            &field(0),
            &[0x0102_0304, 16 - 4],
            &[11],
            &field(19),
            &[0xaa, 3 - 1],
            &[5 | 3 << 16],
            &field(64),
            &[42],
            &[13 | 2 << 8],
            &field(96),
            &[6, 99],
            &[17 | 1 << 8, 0, 0, 0, 0],
            &[17, 0, 0, 0, 0],
        ]
        .concat(),
    );
    assert_eq!(
        q.rig.read(at, 6),
        [
            0x0102_0304,
            0x0102_0304,
            0x0102_0304,
            0x0102_0304,
            0xaa00_0000,
            0xaaaa
        ]
    );
    assert_eq!(q.rig.word(at + 64), 42);
    assert!(q.rig.long(at + 96) >= 1000);
    assert_eq!(q.rig.platform.take(), [Event::Interrupt(99)]);
    assert_eq!(
        q.rig.platform.packets(),
        [
            "CONST_FILL",
            "CONST_FILL",
            "FENCE",
            "TIMESTAMP",
            "TRAP",
            "GCR",
            "GCR"
        ]
    );
}

#[test]
fn a_copy_waits_and_counts_a_signal_down() {
    let mut q = Queue::new(Target::Gfx942);
    let flag = q.rig.room(64, "flag");
    let data = q.rig.words(&[7, 8], "data");
    let done = q.rig.signal(1, 0);
    // POLL_REGMEM: (*flag & 0xff) == 2. First a flush, which is nothing.
    let poll = [
        &[8 | 3 << 28 | 1 << 31][..],
        &long(flag),
        &[2, 0xff, 4 | 0xfff << 16],
    ]
    .concat();
    let flush = [8 | 1 << 26 | 3 << 28, 0x1234, 0x5678, 1, 1, 10];
    let atomic = [
        &[10 | 47 << 25][..],
        &long(done + 8),
        &[u32::MAX, u32::MAX, 0, 0, 0],
    ]
    .concat();
    q.place(&[&flush[..], &poll, &copy(data, data + 4, 4), &atomic].concat());
    assert_eq!((q.step(), q.rig.long(q.pointer)), (Step::Worked, 24));
    assert_eq!(q.step(), Step::Waiting);
    q.rig.write(flag, &[0x102]);
    assert_eq!(q.step(), Step::Worked);
    assert_eq!((q.rig.value(done), q.rig.read(data, 2)), (0, vec![8, 8]));
}

#[test]
fn a_poll_gives_up_after_its_retries() {
    let mut q = Queue::new(Target::Gfx942);
    let flag = q.rig.words(&[1], "flag");
    let poll = |tries: u32| {
        let head = [8 | 3 << 28 | 1 << 31];
        [&head[..], &long(flag), &[2, 0xff, 4 | tries << 16]].concat()
    };
    q.place(&poll(3));
    assert_eq!([q.step(), q.step()], [Step::Waiting, Step::Waiting]);
    q.rig.write(flag, &[2]);
    assert_eq!(q.step(), Step::Worked);
    q.rig.write(flag, &[1]);
    q.place(&poll(3));
    for _ in 0..3 {
        assert_eq!(q.step(), Step::Waiting);
    }
    assert!(matches!(q.step(), Step::Fault(f) if f.text.contains("gives up after 3 retries")));
}

#[test]
fn indirect_buffers_run_in_between() {
    let mut q = Queue::new(Target::Gfx942);
    let at = q.rig.words(&[1, 2, 3], "data");
    let buffer = [copy(at + 8, at, 4), vec![0; 1], copy(at + 4, at, 4)].concat();
    let address = q.rig.words(&buffer, "buffer");
    q.run(&[&[4][..], &long(address), &[buffer.len() as u32, 0, 0, 0]].concat());
    assert_eq!(q.rig.read(at, 3), [1, 1, 1]);
    let nested = q.rig.room(64, "nested");
    q.rig
        .write(nested, &[&[4][..], &long(nested), &[6, 0, 0]].concat());
    q.place(&[&[4][..], &long(nested), &[6, 0, 0]].concat());
    assert!(matches!(q.step(), Step::Fault(f) if f.text.contains("inside of another")));
}

#[test]
fn packets_wait_for_their_last_word() {
    let mut q = Queue::new(Target::Gfx942);
    let at = q.rig.room(64, "data");
    q.place(&[&[2][..], &long(at), &[0, 5]].concat());
    for bytes in [4, 8, 12, 16] {
        let step = q
            .sdma
            .step(&q.rig.device, bytes, &q.rig.platform, &q.rig.stop);
        assert_eq!((step, q.rig.word(at)), (Step::Idle, 0), "{bytes}");
    }
    assert_eq!((q.step(), q.rig.word(at)), (Step::Worked, 5));
}

#[test]
fn wrong_packets_stop_the_queue_and_say_why() {
    let cases: [(Vec<u32>, &str); 12] = [
        (vec![3], "opcode 3"),
        (vec![1 | 1 << 8], "opcode 1, sub-opcode 1"),
        (vec![1 | 1 << 27], "opcode 1, sub-opcode 0"),
        (vec![14], "opcode 14"),
        (vec![13, 0, 0], "opcode 13, sub-opcode 0"),
        (vec![8 | 3 << 28, 0, 0, 0, 0, 0], "polls a register"),
        (
            vec![10 | 1 << 25, 0, 0, 0, 0, 0, 0, 0],
            "atomic operation 1",
        ),
        (vec![11 | 3 << 30, 0, 0, 0, 0], "units of 8 bytes"),
        (vec![1 << 8], "opcode 0, sub-opcode 1"),
        (vec![4 | 1 << 8, 0, 0, 0, 0, 0], "opcode 4, sub-opcode 1"),
        // The engines of gfx9 have no GCR.
        (vec![17, 0, 0, 0, 0], "opcode 17"),
        (vec![17 | 1 << 8, 0, 0, 0, 0], "opcode 17"),
    ];
    for (words, text) in cases {
        let said = Queue::fault(&words);
        assert!(said.contains(text), "{said} (wanted {text})");
    }
}

#[test]
fn a_copy_from_nowhere_is_a_fault_at_its_address() {
    let mut q = Queue::new(Target::Gfx942);
    let at = q.rig.room(4096, "data");
    q.place(&copy(at, at + 4000, 200));
    let Step::Fault(fault) = q.step() else {
        panic!()
    };
    let memory = fault.memory.unwrap();
    assert_eq!(
        (memory.address, memory.write),
        (at + 4096, false),
        "{fault}"
    );
    assert_eq!(q.rig.platform.take(), [Event::Fault(memory)]);
    assert_eq!(q.rig.long(q.pointer), 0);
}

/// Transfers that are made in pieces give what one piece would.
#[test]
fn large_copies_may_overlap_and_large_fills_keep_their_pattern() {
    const SIZE: usize = 4 << 20;
    let mut q = Queue::new(Target::Gfx942);
    let at = q.rig.room(SIZE as u64, "data");
    let mut want: Vec<u8> = (0..SIZE as u32)
        .map(|i| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8)
        .collect();
    q.rig.memory.write(at, &want).unwrap();
    let length = 3_000_001;
    for (to, from) in [(7_777, 0), (3, 100_000), (1_000_000, 1_000_001)] {
        q.run(&copy(at + to as u64, at + from as u64, length as u32));
        want.copy_within(from..from + length, to);
    }
    let words = [
        &[11 | 2 << 30][..],
        &long(at + 8),
        &[0x0403_0201, 2_000_000 - 4],
    ]
    .concat();
    q.run(&words);
    for (i, byte) in want[8..2_000_008].iter_mut().enumerate() {
        *byte = (i % 4 + 1) as u8;
    }
    let mut got = vec![0; SIZE];
    q.rig.memory.read(at, &mut got).unwrap();
    assert!(got == want);
}

/// What is unmapped in the middle of a transfer is a fault, and is not touched once that was waited for.
#[test]
fn what_is_unmapped_under_a_transfer_is_not_touched_any_more() {
    const SIZE: u64 = 128 << 20;
    for is_copy in [false, true] {
        let mut q = Queue::new(Target::Gfx942);
        let storage = Storage::anonymous(SIZE).unwrap();
        let (to, from) = (0x1_0000_0000, 0x2_0000_0000);
        let map = |at, storage: &_| {
            let storage = std::sync::Arc::clone(storage);
            let access = Access::ReadWrite;
            q.rig
                .memory
                .map(at, storage, 0, SIZE, access, "data")
                .unwrap();
        };
        map(to, &storage);
        let mut packet = [&[11 | 2 << 30][..], &long(to), &[1, SIZE as u32 - 4]].concat();
        if is_copy {
            let source = Storage::anonymous(SIZE).unwrap();
            assert!(source.write(0, &vec![1; SIZE as usize]));
            map(from, &source);
            packet = copy(to, from, SIZE as u32);
        }
        q.place(&packet);
        let memory = q.rig.memory.clone();
        let byte = |at: u64| {
            let mut byte = [0];
            assert!(storage.read(at, &mut byte));
            byte[0]
        };
        let step = std::thread::scope(|scope| {
            let step = scope.spawn(|| q.step());
            while byte(0) == 0 {
                std::thread::yield_now();
            }
            memory.unmap(to, SIZE).unwrap();
            assert!(memory.settle());
            let end = || (0..SIZE).step_by(4096).find(|&at| byte(at) == 0);
            let now = end();
            let step = step.join().unwrap();
            assert_eq!(now, end());
            step
        });
        let Step::Fault(fault) = step else {
            panic!("{step:?}");
        };
        let address = fault.memory.map(|fault| fault.address);
        assert!(
            address.is_some_and(|at| (to + 1..to + SIZE).contains(&at)),
            "{fault}"
        );
    }
}
