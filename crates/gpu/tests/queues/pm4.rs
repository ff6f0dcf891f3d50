//! PM4 queues.

use rocjitsu_gpu::code_object::KernelDescriptor;
use rocjitsu_gpu::queue::{NO_DOORBELL, Pm4, Pm4Params, Step, error};
use rocjitsu_isa::Target;

use crate::rig::{END, Event, Rig, STORE_IDS};

const WORDS: u64 = 512;
const BY_TARGET: [Target; 4] = [
    Target::Gfx90a,
    Target::Gfx942,
    Target::Gfx1100,
    Target::Gfx1201,
];

struct Queue {
    rig: Rig,
    ring: u64,
    pointer: u64,
    pm4: Pm4,
    written: u64,
}

/// A type-3 packet.
fn packet(opcode: u32, words: &[u32]) -> Vec<u32> {
    let mut all = vec![3 << 30 | (words.len() as u32 - 1) << 16 | opcode << 8];
    all.extend(words);
    all
}

fn long(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

fn set_sh(register: u32, values: &[u32]) -> Vec<u32> {
    packet(0x76, &[&[register - 0x2c00], values].concat())
}

impl Queue {
    fn new(target: Target) -> Queue {
        let rig = Rig::with(target, 8);
        let ring = rig.room(4 * WORDS, "ring");
        let pointer = rig.room(64, "read pointer");
        let pm4 = Pm4::new(Pm4Params {
            ring,
            ring_bytes: 4 * WORDS,
            read_pointer: pointer,
            xcc: 3,
            threads: 2,
        });
        Queue {
            rig,
            ring,
            pointer,
            pm4,
            written: 0,
        }
    }

    fn place(&mut self, words: &[u32]) {
        for word in words {
            self.rig
                .write(self.ring + self.written % WORDS * 4, &[*word]);
            self.written += 1;
        }
    }

    fn step(&mut self) -> Step {
        let Queue {
            rig, pm4, written, ..
        } = self;
        pm4.step(&rig.device, *written, &rig.platform, &rig.stop)
    }

    /// Runs packets to their end.
    fn run(&mut self, words: &[u32]) {
        self.place(words);
        assert_eq!(self.step(), Step::Worked);
        assert_eq!(self.rig.long(self.pointer), self.written);
        assert_eq!(self.step(), Step::Idle);
    }

    fn fault(&mut self, words: &[u32]) -> String {
        self.place(words);
        match self.step() {
            Step::Fault(fault) => {
                assert_eq!(fault.code, error::PACKET_FORMAT, "{fault}");
                assert_eq!(self.step(), Step::Fault(fault.clone()));
                fault.text
            }
            other => panic!("{other:?}"),
        }
    }

    /// The packets that launch a kernel as its descriptor at `object` says, with these user SGPRs.
    fn launch(&self, object: u64, user: &[u32], groups: [u32; 3], group: [u32; 3]) -> Vec<u32> {
        let gfx9 = self.rig.device.target().generation() == 9;
        let words = self.rig.read(object, 16);
        let entry = object + u64::from(words[4]);
        let wave32 = u32::from(words[14] & 0x400 != 0) << 15;
        [
            set_sh(0x2e0c, &long(entry >> 8)),
            set_sh(0x2e12, &[words[12], words[13]]),
            set_sh(if gfx9 { 0x2e2d } else { 0x2e28 }, &[words[11]]),
            set_sh(0x2e40, user),
            set_sh(0x2e04, &[&[0; 3][..], &group, &[0; 2]].concat()),
            packet(0x15, &[groups[0], groups[1], groups[2], 1 | 4 | wave32]),
            packet(0x46, &[7 | 4 << 8]),
        ]
        .concat()
    }

    /// The user SGPRs of a kernel that has its kernarg and scratch addresses in them.
    fn user_data(&self, object: u64, kernarg: u64, scratch: u64) -> Vec<u32> {
        let mut bytes = [0; 64];
        self.rig.memory.read(object, &mut bytes).unwrap();
        let d = KernelDescriptor::decode(&bytes, self.rig.device.target()).unwrap();
        let mut user = vec![0; d.rsrc2.user_sgpr_count as usize];
        let mut put = |n: Option<u32>, words: &[u32]| {
            if let Some(n) = n {
                user[n as usize..n as usize + words.len()].copy_from_slice(words);
            }
        };
        let [low, high] = long(scratch);
        let buffer = [low, high | 1 << 31, 0xffff_ffff, 0x00ea_0000];
        put(d.user_sgprs.private_segment_buffer, &buffer);
        put(d.user_sgprs.kernarg_segment_ptr, &long(kernarg));
        put(d.user_sgprs.flat_scratch_init, &long(scratch));
        user
    }
}

#[test]
fn a_dispatch_runs_with_the_user_sgprs_given() {
    for target in BY_TARGET {
        let mut q = Queue::new(target);
        let object = q.rig.corpus("asm_axpy");
        let count = 230u32;
        let x = q.rig.words(
            &(0..count).map(|i| (i as f32).to_bits()).collect::<Vec<_>>(),
            "x",
        );
        let out = q.rig.room(1024, "out");
        let arguments = [long(out), long(x), long(x), [2f32.to_bits(), count]].concat();
        let kernarg = q.rig.words(&arguments, "kernarg");
        let user = q.user_data(object, kernarg, 0);
        let group = if q.rig.word(object + 56) & 0x400 != 0 {
            32
        } else {
            64
        };
        // The kernel takes 64 work-items for each workgroup id.
        let words = q.launch(object, &user, [4, 1, 1], [64, 1, 1]);
        q.run(&words);
        let got = q.rig.read(out, count as usize);
        for (i, got) in got.iter().enumerate() {
            assert_eq!(f32::from_bits(*got), 3.0 * i as f32, "{target} {i}");
        }
        assert_eq!(q.rig.read(out, 256)[count as usize], 0);
        let events = q.rig.platform.take();
        let waves = 4 * 64 / group;
        assert!(
            matches!(&events[..], [Event::Finished { waves: Ok(n), .. }] if *n == waves),
            "{target} {events:?}"
        );
    }
}

#[test]
fn a_kernel_that_uses_scratch_nobody_gave_faults() {
    for target in BY_TARGET {
        let mut q = Queue::new(target);
        let object = q.rig.corpus("hip_private_sort");
        let input = q.rig.words(&[1; 24 * 64], "in");
        let out = q.rig.room(4 * 24 * 64, "out");
        let arguments = [long(input), long(out), [64, 0]].concat();
        let kernarg = q.rig.words(&arguments, "kernarg");
        let user = q.user_data(object, kernarg, 0);
        let size = if target.generation() == 9 { 8 } else { 32 };
        let words = [
            set_sh(0x2e18, &[8 | size << 12]),
            set_sh(0x2e10, &[0, 0]),
            q.launch(object, &user, [1, 1, 1], [64, 1, 1]),
        ]
        .concat();
        q.place(&words);
        match q.step() {
            // A flat access to the aperture of scratch is illegal for a wave without any, others miss memory.
            Step::Fault(fault) => assert!(
                matches!(fault.code, error::MEMORY | error::ILLEGAL_INSTRUCTION),
                "{target} {fault}"
            ),
            other => panic!("{target} {other:?}"),
        }
    }
}

#[test]
fn scratch_is_that_of_the_queue() {
    for target in BY_TARGET {
        let mut q = Queue::new(target);
        let object = q.rig.corpus("hip_private_sort");
        let rows: Vec<u32> = (0..200 * 24u32)
            .map(|i| i.wrapping_mul(0x9e37_79b1) >> 8)
            .collect();
        let input = q.rig.words(&rows, "in");
        let out = q.rig.room(4 * rows.len() as u64, "out");
        let kernarg = q
            .rig
            .words(&[long(input), long(out), [200, 0]].concat(), "kernarg");
        let scratch = q.rig.room(1 << 20, "scratch");
        // 8 waves of 8 KiB; the unit is 1 KiB on gfx9 and 256 bytes later.
        let size = if target.generation() == 9 { 8 } else { 32 };
        let user = q.user_data(object, kernarg, scratch);
        let words = [
            set_sh(0x2e18, &[8 | size << 12]),
            set_sh(0x2e10, &long(scratch >> 8)),
            q.launch(object, &user, [4, 1, 1], [64, 1, 1]),
        ]
        .concat();
        q.run(&words);
        let got = q.rig.read(out, rows.len());
        for (got, row) in got.chunks(24).zip(rows.chunks(24)) {
            let mut want = row.to_vec();
            want.sort_unstable();
            assert_eq!(got, want, "{target}");
        }
        assert!(
            q.rig.read(scratch, 2048).iter().any(|&w| w != 0),
            "{target}"
        );
    }
}

#[test]
fn ids_begin_at_the_start_registers_and_ends_may_be_partial() {
    let mut q = Queue::new(Target::Gfx942);
    // v_mov_b32 v0, s2 (workgroup x) or s3 (XCC_ID); out[s2] = v0.
    let code = [
        0xb883_f814, // s_getreg_b32 s3, hwreg(HW_REG_XCC_ID)
        0x7e00_0203, // v_mov_b32 v0, s3
        0x7e02_0202,
        0x2402_0282,
        0xdc70_8000,
        0x0000_0001,
        END,
    ];
    let object = q.rig.kernel(&code, [0x40, 2 << 1 | 1 << 7, 0], 0);
    let out = q.rig.room(4096, "out");
    let mut words = q.launch(object, &long(out), [8, 1, 1], [64, 1, 1]);
    // Without FORCE_START_AT_000; START_X is 5.
    let initiator = words.len() - 3;
    assert_eq!(words[initiator], 5);
    words[initiator] = 1;
    let start = words
        .windows(2)
        .position(|w| w == [0xc008_7600, 0x204])
        .unwrap();
    words[start + 2] = 5;
    q.run(&words);
    assert_eq!(q.rig.read(out, 9), [0, 0, 0, 0, 0, 3, 3, 3, 0]);

    // A last workgroup of 10 work-items.
    let object = q.rig.kernel(&STORE_IDS, [0, 2 << 1, 0], 0);
    let mut words = q.launch(object, &long(out), [1, 1, 1], [64 | 10 << 16, 1, 1]);
    let initiator = words.len() - 3;
    words[initiator] = 1 | 2 | 4;
    q.rig.write(out, &[9; 64]);
    q.run(&words);
    assert_eq!(q.rig.read(out, 11), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9]);
}

#[test]
fn data_is_written_copied_and_released() {
    for target in [Target::Gfx942, Target::Gfx1100] {
        let mut q = Queue::new(target);
        let at = q.rig.room(4096, "data");
        let [low, high] = long(at);
        q.run(
            &[
                packet(0x37, &[5 << 8, low, high, 11, 22, 33]),
                packet(0x37, &[5 << 8 | 1 << 16, low + 16, high, 1, 2, 3]),
                // A register, written and copied to memory; a copy in memory of 64 bits; a constant; the clock.
                packet(0x79, &[0x380, 44, 55]),
                packet(0x40, &[5 << 8, 0xc381, 0, low + 20, high]),
                packet(0x40, &[2 | 2 << 8 | 1 << 16, low, high, low + 24, high]),
                packet(0x40, &[5 | 2 << 8, 66, 0, low + 32, high]),
                packet(0x40, &[9 | 5 << 8 | 1 << 16, 0, 0, low + 40, high]),
                packet(0x49, &[0x514, 1 << 29, low + 48, high, 77, 88, 0]),
                packet(0x49, &[0x514, 2 << 29, low + 56, high, 77, 88, 0]),
                packet(0x49, &[0x514, 3 << 29 | 2 << 24, low + 64, high, 0, 0, 123]),
                packet(0x10, &[0; 5]),
                vec![0xffff_1000, 0x8000_0000],
                packet(0x50, &[0, low, high, low + 128, high, 12]),
                packet(0x50, &[2 << 29, 9, 0, low + 144, high, 8]),
            ]
            .concat(),
        );
        assert_eq!(q.rig.read(at, 9), [11, 22, 33, 0, 3, 55, 11, 22, 66]);
        assert_eq!(q.rig.read(at + 48, 4), [77, 0, 77, 88]);
        assert!(q.rig.long(at + 40) >= 1000 && q.rig.long(at + 64) >= 1000);
        assert_eq!(q.rig.read(at + 128, 6), [11, 22, 33, 0, 9, 9]);
        assert_eq!(q.rig.platform.take(), [Event::Interrupt(123)]);
    }
}

#[test]
fn atomics_return_and_compare() {
    let mut q = Queue::new(Target::Gfx942);
    let at = q.rig.words(&[5, 0, 7, 1], "data");
    let [low, high] = long(at);
    q.run(
        &[
            packet(0x1e, &[0x27, low, high, 8, 9, 0, 0, 0]),
            packet(0x1e, &[0x0f, low + 8, high, 3, 0, 0, 0, 0]),
        ]
        .concat(),
    );
    assert_eq!(q.rig.read(at, 4), [8, 9, 10, 1]);
    // A compare-and-swap that is tried until it succeeds.
    q.place(&packet(0x1e, &[0x08 | 1 << 8, low, high, 50, 0, 4, 0, 0]));
    assert_eq!(q.step(), Step::Waiting);
    q.rig.write(at, &[4]);
    assert_eq!((q.step(), q.rig.word(at)), (Step::Worked, 50));
}

#[test]
fn waits_compare_memory_and_pass_flushes() {
    let mut q = Queue::new(Target::Gfx1100);
    let at = q.rig.words(&[0xf0], "flag");
    let [low, high] = long(at);
    // (*at & 0xf) >= 3; then a flush request that waits for a register to say it is done.
    q.place(&packet(0x3c, &[5 | 1 << 4, low, high, 3, 0xf, 4]));
    q.place(&packet(
        0x3c,
        &[5 | 1 << 6, 0x106, 0x107, 0xffff_ffff, 0xffff_ffff, 4],
    ));
    assert_eq!((q.step(), q.rig.long(q.pointer)), (Step::Waiting, 0));
    q.rig.write(at, &[0xf3]);
    assert_eq!((q.step(), q.rig.long(q.pointer)), (Step::Worked, 14));
    // A register that is what is waited for, and one that never will be.
    q.run(&packet(0x3c, &[3, 0xc200, 0, 0, 0xffff_ffff, 4]));
    let text = q.fault(&packet(0x3c, &[3, 0xc200, 0, 1, 0xffff_ffff, 4]));
    assert!(text.contains("nothing here will change it"), "{text}");
}

#[test]
fn indirect_buffers_nest_chain_and_skip() {
    let mut q = Queue::new(Target::Gfx942);
    let at = q.rig.room(4096, "data");
    let write = |n: u32| packet(0x37, &[5 << 8, long(at)[0] + 4 * n, long(at)[1], n + 1]);
    let call = |buffer: u64, words: u32, chain: u32| {
        packet(
            0x3f,
            &[
                long(buffer)[0],
                long(buffer)[1],
                words | chain << 20 | 1 << 23,
            ],
        )
    };
    let inner = q.rig.words(&write(1), "inner");
    let chained = q.rig.words(&write(2), "chained");
    let body = [
        write(0),
        call(inner, 5, 0),
        // For XCC 3: this one is skipped, the next is not.
        packet(0x23, &[!(1 << 27) & 0xff00_0000 | 5]),
        write(7),
        packet(0x23, &[1 << 27 | 5]),
        write(3),
        call(chained, 5, 1),
        write(6),
    ]
    .concat();
    let outer = q.rig.words(&body, "outer");
    let words = [call(outer, body.len() as u32, 0), write(4)].concat();
    q.run(&words);
    assert_eq!(q.rig.read(at, 8), [1, 2, 3, 4, 5, 0, 0, 0]);

    // Around the end of the ring, many times.
    for _ in 0..200 {
        q.rig.write(at, &[0; 8]);
        q.run(&words);
        assert_eq!(q.rig.read(at, 8), [1, 2, 3, 4, 5, 0, 0, 0]);
    }
    assert!(q.written > 3 * WORDS);

    // One that calls itself.
    let own = q.rig.room(64, "own");
    q.rig.write(own, &call(own, 4, 0));
    let text = q.fault(&call(own, 4, 0));
    assert!(text.contains("inside of 4 others"), "{text}");
}

#[test]
fn a_buffer_that_chains_to_itself_can_be_stopped() {
    let mut q = Queue::new(Target::Gfx942);
    let own = q.rig.room(64, "own");
    let call = packet(0x3f, &[long(own)[0], long(own)[1], 4 | 1 << 20 | 1 << 23]);
    q.rig.write(own, &call);
    q.place(&call);
    assert_eq!(q.step(), Step::Waiting);
    q.rig.stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(q.step(), Step::Idle);
}

#[test]
fn packets_wait_for_their_last_word() {
    let mut q = Queue::new(Target::Gfx942);
    let at = q.rig.room(64, "data");
    let write = packet(0x37, &[5 << 8, long(at)[0], long(at)[1], 1]);
    let step = |q: &mut Queue, doorbell| {
        q.pm4
            .step(&q.rig.device, doorbell, &q.rig.platform, &q.rig.stop)
    };
    q.place(&write);
    assert_eq!(step(&mut q, NO_DOORBELL), Step::Idle);
    assert_eq!((step(&mut q, 3), q.rig.word(at)), (Step::Idle, 0));
    assert_eq!((step(&mut q, 5), q.rig.word(at)), (Step::Worked, 1));
    // An old doorbell changes nothing; one beyond the ring is wrong.
    assert_eq!(step(&mut q, 2), Step::Idle);
    assert!(matches!(step(&mut q, 6 + WORDS), Step::Fault(f) if f.text.contains("doorbell")));
}

#[test]
fn code_that_changed_runs_anew_after_an_acquire() {
    for (target, acquire) in [
        (
            Target::Gfx942,
            packet(0x58, &[1 << 29, 0xffff_ffff, 0xff, 0, 0, 10]),
        ),
        (
            Target::Gfx1100,
            packet(0x58, &[0, 0xffff_ffff, 0xff, 0, 0, 0, 1]),
        ),
    ] {
        let mut q = Queue::new(target);
        let object = q.rig.corpus("asm_axpy");
        let kernarg = q.rig.room(64, "kernarg");
        let user = q.user_data(object, kernarg, 0);
        let launch = q.launch(object, &user, [1, 1, 1], [1, 1, 1]);
        q.run(&launch);
        // No work-item is below the count of 0: nothing happened. Now the code is a trap.
        let entry = object + q.rig.long(object + 16);
        let trap = if target.generation() == 9 {
            0xbf92_0002
        } else {
            0xbf90_0002
        };
        q.rig.write(entry, &[trap]);
        q.place(&[acquire, launch].concat());
        match q.step() {
            Step::Fault(fault) => assert_eq!(fault.code, error::TRAP, "{fault}"),
            other => panic!("{target} {other:?}"),
        }
    }
}

#[test]
fn wrong_packets_stop_the_queue_and_say_why() {
    let unknown = "none of a compute dispatch";
    let cases: [(Vec<u32>, &str); 34] = [
        (vec![0x0000_0000], "type 0"),
        (vec![0x4000_0000], "type 1"),
        (packet(0x99, &[0]), "opcode 0x99"),
        (packet(0x15, &[1, 1]), "DISPATCH_DIRECT: 2 words, 4 belong"),
        (packet(0x1e, &[0x21, 0, 0, 0, 0, 0, 0, 0]), "operation 0x21"),
        (packet(0x37, &[3 << 8, 0, 0, 0]), "destination 3"),
        (packet(0x3c, &[7 | 1 << 4, 0, 0, 0, 0, 0]), "read"),
        (packet(0x3c, &[3 | 2 << 4, 0, 0, 0, 0, 0]), "memory space 2"),
        (packet(0x40, &[3, 0, 0, 0, 0]), "source 3"),
        (packet(0x40, &[5 | 3 << 8, 0, 0, 0, 0]), "destination 3"),
        (
            packet(0x49, &[0x514, 7 << 29, 0, 0, 0, 0]),
            "data selection 7",
        ),
        (
            packet(0x49, &[0x515, 0, 0, 0, 0, 0]),
            "event 0x15 with index 5",
        ),
        (
            packet(0x49, &[0x614, 0, 0, 0, 0, 0]),
            "event 0x14 with index 6",
        ),
        (packet(0x49, &[0x514, 2 << 16, 0, 0, 0, 0]), "destination 2"),
        (
            packet(0x49, &[0x514, 4 << 24, 0, 0, 0, 0]),
            "interrupt selection 4",
        ),
        (
            packet(0x46, &[0x15 | 1 << 8, 0x1000, 0]),
            "event 0x15 with index 1",
        ),
        (
            packet(0x46, &[0x1e | 2 << 8, 0x1000, 0]),
            "event 0x1e with index 2",
        ),
        (packet(0x46, &[0x17]), "event 0x17 with index 0"),
        (
            packet(0x46, &[7 | 4 << 8, 0x1000, 0]),
            "event 0x7 with index 4",
        ),
        (packet(0x3f, &[0, 0, 4]), "not VALID"),
        (packet(0x76, &[0, 1]), unknown),
        (packet(0x76, &[0x200, 1]), unknown),
        (packet(0x76, &[0x222, 1]), unknown),
        (packet(0x76, &[0x20b, 1]), "performance counters"),
        (packet(0x76, &[0x21b, 1]), "preempted"),
        (packet(0x79, &[0x40, 1]), unknown),
        (packet(0x37, &[0, 0xd000, 0, 1]), unknown),
        (packet(0x40, &[4 | 2 << 8, 0xd000, 0, 0, 0]), unknown),
        (
            packet(0x3c, &[3 | 1 << 4 | 1 << 6, 0, 0, 0, 0, 0]),
            "operation 1 on memory space 1",
        ),
        (
            packet(0x3c, &[3 | 1 << 6, 0x106, 0x200, 0, 0, 0]),
            "no flush",
        ),
        (packet(0x50, &[0, 0, 0, 0, 0, 4 | 1 << 29]), "do not grow"),
        (packet(0x50, &[1 << 29, 0, 0, 0, 0, 4]), "source 1"),
        (packet(0x58, &[0, 0]), "ACQUIRE_MEM: 2 words, 6 belong"),
        (packet(0x3f, &[0, 0]), "INDIRECT_BUFFER: 2 words"),
    ];
    for (words, text) in cases {
        let mut q = Queue::new(Target::Gfx942);
        q.place(&words);
        match q.step() {
            Step::Fault(fault) => assert!(fault.text.contains(text), "{fault} (wanted {text})"),
            other => panic!("{other:?} (wanted {text})"),
        }
    }
    // A packet longer than its buffer.
    let mut q = Queue::new(Target::Gfx942);
    let buffer = q.rig.words(&packet(0x10, &[0; 9]), "buffer");
    let text = q.fault(&packet(
        0x3f,
        &[long(buffer)[0], long(buffer)[1], 5 | 1 << 23],
    ));
    assert!(
        text.contains("takes 10 words, its buffer has 5 left"),
        "{text}"
    );
    // A wait on memory that is not there.
    let mut q = Queue::new(Target::Gfx942);
    q.place(&packet(0x3c, &[3 | 1 << 4, 0x1000, 0, 0, 0, 0]));
    let Step::Fault(fault) = q.step() else {
        panic!()
    };
    let memory = fault.memory.unwrap();
    assert_eq!((memory.address, memory.write), (0x1000, false));
    assert_eq!(q.rig.platform.take(), [Event::Fault(memory)]);
}
