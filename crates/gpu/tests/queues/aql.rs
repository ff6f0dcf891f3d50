//! HSA queues.

use rocjitsu_gpu::queue::{Aql, AqlParams, NO_DOORBELL, Step, error};
use rocjitsu_isa::Target;

use crate::rig::{END, Event, Rig, STORE_IDS};

const SLOTS: u64 = 16;
const DISPATCH: u32 = 2;
const BARRIER_AND: u32 = 3;
const BARRIER_OR: u32 = 5;

/// RSRC2 of a kernel with the kernarg address in two user SGPRs, and its properties.
const TWO_SGPRS: u32 = 2 << 1;
const KERNARG: u32 = 1 << 3;

struct Queue {
    rig: Rig,
    queue: u64,
    ring: u64,
    inactive: u64,
    aql: Aql,
    written: u64,
    doorbell: u64,
}

impl Queue {
    /// A queue as ROCr makes it: its ring full of INVALID packets.
    fn new(target: Target) -> Queue {
        Queue::on(Rig::new(target))
    }

    fn on(rig: Rig) -> Queue {
        let queue = rig.room(4096, "amd_queue_t");
        let ring = rig.room(64 * SLOTS, "ring");
        for slot in 0..SLOTS {
            rig.write(ring + 64 * slot, &[1]);
        }
        let inactive = rig.signal(0, 77);
        rig.write(queue + 136, &[128]);
        rig.set_long(queue + 192, inactive);
        let aql = Aql::new(AqlParams {
            ring,
            ring_bytes: 64 * SLOTS,
            read_index: queue + 128,
            write_index: queue + 56,
            doorbell: 9,
            threads: 2,
        });
        Queue {
            rig,
            queue,
            ring,
            inactive,
            aql,
            written: 0,
            doorbell: NO_DOORBELL,
        }
    }

    fn slot(&self, index: u64) -> u64 {
        self.ring + index % SLOTS * 64
    }

    /// Writes a packet but does not publish it: its header stays INVALID.
    fn place(&mut self, words: [u32; 16]) -> u64 {
        let index = self.written;
        self.written += 1;
        self.rig.set_long(self.queue + 56, self.written);
        self.rig.write(self.slot(index) + 4, &words[1..]);
        index
    }

    /// Writes a packet, its header last, and rings.
    fn push(&mut self, words: [u32; 16]) -> u64 {
        let index = self.place(words);
        self.rig.write(self.slot(index), &words[..1]);
        self.doorbell = index;
        index
    }

    fn step(&mut self) -> Step {
        let Queue {
            rig, aql, doorbell, ..
        } = self;
        aql.step(&rig.device, *doorbell, &rig.platform, &rig.stop)
    }

    fn read_index(&self) -> u64 {
        self.rig.long(self.queue + 128)
    }

    /// The code and text of the fault that the queue must stop with.
    fn fault(&mut self) -> (u64, String) {
        match self.step() {
            Step::Fault(fault) => {
                assert_eq!(self.step(), Step::Fault(fault.clone()), "it stays stopped");
                (fault.code, fault.text)
            }
            other => panic!("{other:?}"),
        }
    }
}

fn dispatch(object: u64, kernarg: u64, grid: u32, group: u32, completion: u64) -> [u32; 16] {
    let mut words = [0; 16];
    words[0] = DISPATCH | 1 << 8 | 1 << 16;
    words[1] = group;
    words[3] = grid;
    words[8..10].copy_from_slice(&[object as u32, (object >> 32) as u32]);
    words[10..12].copy_from_slice(&[kernarg as u32, (kernarg >> 32) as u32]);
    words[14..16].copy_from_slice(&[completion as u32, (completion >> 32) as u32]);
    words
}

fn barrier(kind: u32, signals: &[u64], completion: u64) -> [u32; 16] {
    let mut words = [0; 16];
    words[0] = kind;
    for (i, signal) in signals.iter().chain(&[]).enumerate() {
        words[2 + 2 * i..4 + 2 * i].copy_from_slice(&[*signal as u32, (signal >> 32) as u32]);
    }
    words[14..16].copy_from_slice(&[completion as u32, (completion >> 32) as u32]);
    words
}

/// A queue, a kernel that stores work-item ids, and the memory where it does.
fn with_kernel() -> (Queue, u64, u64) {
    let q = Queue::new(Target::Gfx942);
    let object = q.rig.kernel(&STORE_IDS, [0, TWO_SGPRS, 0], KERNARG);
    let out = q.rig.room(4096, "out");
    (q, object, out)
}

#[test]
fn a_dispatch_runs_and_completes() {
    let (mut q, object, out) = with_kernel();
    let done = q.rig.signal(1, 5);
    assert_eq!(q.step(), Step::Idle, "nobody rang");
    q.push(dispatch(object, out, 40, 40, done));
    assert_eq!(q.step(), Step::Worked);
    assert_eq!(q.rig.read(out, 41), (0..40).chain([0]).collect::<Vec<_>>());
    assert_eq!(q.rig.value(done), 0);
    assert_eq!(q.rig.long(done + 64), 5, "the mailbox");
    let events = q.rig.platform.take();
    assert!(
        matches!(&events[..], [Event::Finished { waves: Ok(1), kernel }, Event::Interrupt(5)] if kernel.contains("0x")),
        "{events:?}"
    );
    assert_eq!((q.read_index(), q.rig.word(q.ring) & 0xffff), (1, 1));
    // Timestamps only where the queue is profiled.
    assert_eq!(q.rig.long(done + 32), 0);
    q.rig.write(q.queue + 180, &[8]);
    q.push(dispatch(object, out, 40, 40, done));
    assert_eq!(q.step(), Step::Worked);
    let (start, end) = (q.rig.long(done + 32), q.rig.long(done + 40));
    assert!(start > 0 && end > start, "{start} {end}");
    assert_eq!((q.rig.value(done), q.step()), (-1, Step::Idle));
}

#[test]
fn a_real_kernel_computes_through_the_ring_again_and_again() {
    let mut q = Queue::new(Target::Gfx942);
    let object = q.rig.corpus("asm_axpy");
    let count = 230u32;
    let float = |f: fn(u32) -> f32| (0..count).map(|i| f(i).to_bits()).collect::<Vec<_>>();
    let x = q.rig.words(&float(|i| i as f32 * 0.5), "x");
    let y = q.rig.words(&float(|i| 100.0 - i as f32), "y");
    let done = q.rig.signal(50, 0);
    // More dispatches than the ring has slots.
    for turn in 0..50u32 {
        let out = q.rig.room(1024, "out");
        let long = |a: u64| [a as u32, (a >> 32) as u32];
        let arguments = [
            long(out),
            long(x),
            long(y),
            [(turn as f32).to_bits(), count],
        ]
        .concat();
        let kernarg = q.rig.words(&arguments, "kernarg");
        q.push(dispatch(object, kernarg, 256, 64, done));
        assert_eq!(q.step(), Step::Worked);
        let got = q.rig.read(out, count as usize);
        for (i, got) in got.iter().enumerate() {
            let want = turn as f32 * (i as f32 * 0.5) + (100.0 - i as f32);
            assert_eq!(f32::from_bits(*got), want, "turn {turn}, element {i}");
        }
        assert_eq!(q.read_index(), u64::from(turn) + 1);
    }
    assert_eq!(q.rig.value(done), 0);
}

#[test]
fn packets_are_taken_only_when_published_and_in_order() {
    let (mut q, object, out) = with_kernel();
    let first = q.rig.signal(1, 0);
    let second = q.rig.signal(1, 0);
    // One producer has reserved slot 0; another has published slot 1 and rung.
    q.place(dispatch(object, out, 64, 64, first));
    q.push(dispatch(object, out, 64, 64, second));
    assert_eq!(q.step(), Step::Idle);
    assert_eq!((q.rig.value(first), q.rig.value(second)), (1, 1));
    // Now slot 0 is published; its doorbell comes late and is lower than the one before.
    q.rig.write(q.slot(0), &[DISPATCH | 1 << 16]);
    q.doorbell = 0;
    assert_eq!(q.step(), Step::Worked);
    assert_eq!((q.rig.value(first), q.rig.value(second)), (0, 0));
    assert_eq!(q.read_index(), 2);
}

#[test]
fn a_doorbell_that_another_one_hid_is_made_up_for() {
    let (mut q, object, out) = with_kernel();
    let done = q.rig.signal(2, 0);
    q.push(dispatch(object, out, 64, 64, done));
    q.push(dispatch(object, out, 64, 64, done));
    // The slot held 1 and then 0 before anybody looked.
    q.doorbell = 0;
    assert_eq!(q.step(), Step::Worked);
    assert_eq!((q.rig.value(done), q.read_index()), (0, 2));
}

#[test]
fn a_zeroed_ring_is_read_only_as_far_as_the_doorbell() {
    let (mut q, object, out) = with_kernel();
    for slot in 0..SLOTS {
        q.rig.write(q.ring + 64 * slot, &[0]);
    }
    let done = q.rig.signal(1, 0);
    assert_eq!(q.step(), Step::Idle);
    q.push(dispatch(object, out, 64, 64, done));
    // Somebody is about to write more packets.
    q.rig.set_long(q.queue + 56, 3);
    assert_eq!(q.step(), Step::Worked);
    assert_eq!(
        (q.step(), q.read_index(), q.rig.value(done)),
        (Step::Idle, 1, 0)
    );
}

#[test]
fn barriers_wait_for_their_signals() {
    let mut q = Queue::new(Target::Gfx942);
    let [a, b, done] = [1, 1, 3].map(|value| q.rig.signal(value, 0));
    q.push(barrier(BARRIER_AND, &[a, 0, b], done));
    assert_eq!(q.step(), Step::Waiting);
    q.rig.set_long(a + 8, 0);
    assert_eq!(q.step(), Step::Waiting);
    q.rig.set_long(b + 8, 0);
    assert_eq!((q.step(), q.rig.value(done)), (Step::Worked, 2));

    q.rig.set_long(a + 8, 5);
    q.rig.set_long(b + 8, 5);
    q.push(barrier(BARRIER_OR, &[0, a, b], done));
    assert_eq!((q.step(), q.read_index()), (Step::Waiting, 1));
    q.rig.set_long(b + 8, 0);
    assert_eq!((q.step(), q.rig.value(done)), (Step::Worked, 1));

    // Barrier-value: (value & mask) >= 6.
    let mut words = barrier(0, &[a, 6, 0xff], done);
    words[0] = 2 << 16;
    words[8] = 3;
    q.push(words);
    q.rig.set_long(a + 8, 0xf05);
    assert_eq!(q.step(), Step::Waiting);
    q.rig.set_long(a + 8, 0xf06);
    assert_eq!((q.step(), q.rig.value(done)), (Step::Worked, 0));
    assert_eq!(q.rig.platform.packets().last(), Some(&"BARRIER_VALUE"));
}

#[test]
fn a_barrier_without_signals_only_completes() {
    let mut q = Queue::new(Target::Gfx942);
    let done = q.rig.signal(2, 0);
    q.push(barrier(BARRIER_AND, &[], done));
    q.push(barrier(BARRIER_OR, &[], done));
    assert_eq!((q.step(), q.rig.value(done)), (Step::Worked, 0));
}

/// Runs `private_sort` of the corpus with too little scratch at first; `request` is what the queue asks for.
fn scratch_by_request(target: Target, lane_bytes: u32, request: u64) {
    let mut q = Queue::new(target);
    let object = q.rig.corpus("hip_private_sort");
    let rows: Vec<u32> = (0..200 * 24u32)
        .map(|i| i.wrapping_mul(0x9e37_79b1) >> 8)
        .collect();
    let input = q.rig.words(&rows, "in");
    let out = q.rig.room(4 * rows.len() as u64, "out");
    let long = |a: u64| [a as u32, (a >> 32) as u32];
    let kernarg = q
        .rig
        .words(&[long(input), long(out), [200, 0]].concat(), "kernarg");
    let done = q.rig.signal(2, 0);
    let mut packet = dispatch(object, kernarg, 256, 64, done);
    packet[6] = 112;
    // Not enough yet.
    let scratch = q.rig.room(1 << 20, "scratch");
    q.rig.set_long(q.queue + 160, scratch);
    q.rig.set_long(q.queue + 168, 1 << 20);
    q.rig.write(q.queue + 176, &[lane_bytes - 1]);
    q.push(packet);
    q.push(packet);
    assert_eq!(q.step(), Step::Waiting);
    assert_eq!(q.rig.value(q.inactive) as u64, request);
    assert_eq!(q.rig.platform.take(), [Event::Interrupt(77)]);
    assert_eq!((q.step(), q.read_index()), (Step::Waiting, 0));
    // The runtime gives more, for one dispatch only. It need not say how much in bytes: 64 waves of 8 KiB.
    q.rig.write(q.queue + 176, &[lane_bytes]);
    q.rig.set_long(q.queue + 168, 0);
    let unit = if target.generation() == 9 { 1024 } else { 256 };
    q.rig.write(q.queue + 140, &[64 | (8192 / unit) << 12]);
    q.rig.write(q.queue + 180, &[1 << 4]);
    q.rig.set_long(q.inactive + 8, 0);
    assert_eq!(q.step(), Step::Worked);
    assert_eq!((q.rig.value(done), q.read_index()), (1, 1));
    let got: Vec<i32> = q
        .rig
        .read(out, rows.len())
        .iter()
        .map(|&w| w as i32)
        .collect();
    for (got, row) in got.chunks(24).zip(rows.chunks(24)) {
        let mut want: Vec<i32> = row.iter().map(|&w| w as i32).collect();
        want.sort_unstable();
        assert_eq!(got, want);
    }
    assert!(
        q.rig.read(scratch, 1024).iter().any(|&w| w != 0),
        "the queue's own scratch"
    );
    // It is offered back, and the next dispatch waits until it has been taken.
    assert_eq!(q.rig.value(q.inactive), 512);
    assert_eq!(q.step(), Step::Waiting);
    q.rig.set_long(q.inactive + 8, 0);
    assert_eq!(q.step(), Step::Waiting, "the property is still set");
    q.rig.write(q.queue + 180, &[0]);
    assert_eq!((q.step(), q.rig.value(done)), (Step::Worked, 0));
    assert_eq!((q.rig.value(q.inactive), q.step()), (0, Step::Idle));
}

#[test]
fn scratch_is_asked_for_in_waves_of_64() {
    scratch_by_request(Target::Gfx942, 112, 0x1);
    scratch_by_request(Target::Gfx90a, 112, 0x1);
}

#[test]
fn scratch_is_asked_for_in_waves_of_32_which_need_half() {
    scratch_by_request(Target::Gfx1100, 56, 0x400);
    scratch_by_request(Target::Gfx1201, 56, 0x400);
}

/// A queue of version 2 whose runtime may take scratch back, and a dispatch of one workgroup that needs 112 bytes of it.
fn reclaimable() -> (Queue, [u32; 16], u64) {
    let q = Queue::new(Target::Gfx942);
    let object = q.rig.corpus("hip_private_sort");
    let input = q.rig.room(200 * 96, "in");
    let out = q.rig.room(200 * 96, "out");
    let long = |a: u64| [a as u32, (a >> 32) as u32];
    let kernarg = q
        .rig
        .words(&[long(input), long(out), [200, 0]].concat(), "kernarg");
    let done = q.rig.signal(9, 0);
    let mut packet = dispatch(object, kernarg, 64, 64, done);
    packet[6] = 112;
    q.rig.write(q.queue + 40, &[3]);
    q.rig.set_long(q.queue + 184, u64::MAX);
    q.rig.set_long(q.queue + 200, u64::MAX);
    (q, packet, done)
}

#[test]
fn scratch_that_is_taken_back_is_not_used_any_more_and_its_last_use_is_noted() {
    let (mut q, packet, done) = reclaimable();
    let scratch = q.rig.room(1 << 20, "scratch");
    q.rig.set_long(q.queue + 160, scratch);
    q.rig.write(q.queue + 140, &[64 | 8 << 12]);
    q.rig.write(q.queue + 176, &[112]);
    for _ in 0..3 {
        q.push(packet);
    }
    // Two packets may use it; then the runtime wants it back.
    q.rig.set_long(q.queue + 184, 1);
    assert_eq!(q.step(), Step::Worked);
    assert_eq!((q.rig.value(done), q.read_index()), (7, 2));
    assert_eq!(q.rig.read(q.queue + 256, 4), [1, 0, 0, 0]);
    assert_eq!((q.step(), q.rig.value(q.inactive)), (Step::Waiting, 1));
    q.rig.set_long(q.queue + 184, u64::MAX);
    q.rig.set_long(q.inactive + 8, 0);
    assert_eq!((q.step(), q.rig.value(done)), (Step::Worked, 6));
    assert_eq!(q.rig.read(q.queue + 256, 4), [2, 0, 0, 0]);
}

/// ROCr before 6.2 has an `amd_queue_t` of 256 bytes, and its own queue object behind it.
#[test]
fn a_runtime_that_does_not_take_scratch_back_keeps_what_lies_behind_its_queue() {
    for capabilities in [0, 1, 2] {
        let (mut q, packet, done) = reclaimable();
        q.rig.write(q.queue + 40, &[capabilities]);
        let scratch = q.rig.room(1 << 20, "scratch");
        q.rig.set_long(q.queue + 160, scratch);
        q.rig.write(q.queue + 140, &[64 | 8 << 12]);
        q.rig.write(q.queue + 176, &[112]);
        q.rig.set_long(q.queue + 184, 0);
        q.rig.write(q.queue + 256, &[0xdead_beef; 8]);
        q.push(packet);
        q.push(packet);
        assert_eq!((q.step(), q.rig.value(done)), (Step::Worked, 7));
        assert_eq!(q.rig.read(q.queue + 256, 8), [0xdead_beef; 8]);
    }
}

#[test]
fn a_small_dispatch_uses_alternate_scratch_a_larger_one_asks() {
    let (mut q, packet, done) = reclaimable();
    let scratch = q.rig.room(1 << 20, "alternate scratch");
    q.rig.set_long(q.queue + 224, scratch);
    q.rig.write(q.queue + 232, &[64, 1, 1, 112, 64 | 8 << 12]);
    q.push(packet);
    assert_eq!((q.step(), q.rig.value(done)), (Step::Worked, 8));
    assert_eq!(q.rig.read(q.queue + 256, 4), [0, 0, 0, 0]);
    q.push(packet);
    assert_eq!((q.step(), q.rig.value(done)), (Step::Worked, 7));
    assert_eq!(q.rig.read(q.queue + 256, 4), [0, 0, 1, 0]);
    let mut larger = packet;
    larger[3] = 128;
    q.push(larger);
    assert_eq!((q.step(), q.rig.value(q.inactive)), (Step::Waiting, 1));
}

#[test]
fn wrong_packets_stop_the_queue_with_their_code() {
    type Change = fn(&mut [u32; 16]);
    let cases: [(u64, Change, &str); 14] = [
        (error::PACKET_FORMAT, |w| w[0] = 4, "agent dispatch"),
        (error::PACKET_FORMAT, |w| w[0] = 6, "type 6"),
        (error::PACKET_FORMAT, |w| w[0] = 255, "type 255"),
        (error::VENDOR_PACKET, |w| w[0] = 0, "format 0"),
        (
            error::VENDOR_PACKET,
            |w| w[0] = 1 << 16,
            "INDIRECT_BUFFER belongs",
        ),
        (
            error::VENDOR_PACKET,
            |w| (w[0], w[8]) = (2 << 16, 4),
            "condition 4",
        ),
        (error::DIMENSIONS, |w| w[0] = DISPATCH, "0 dimensions"),
        (error::DIMENSIONS, |w| w[3] = 0, "[0, 1, 1]"),
        (error::WORKGROUP, |w| w[1] = 0, "[0, 1, 1]"),
        (error::WORKGROUP, |w| w[1] = 1025, "1 to 1024"),
        (error::GROUP_SEGMENT, |w| w[7] = 65537, "65537 bytes of LDS"),
        (error::CODE_OBJECT, |w| w[8] += 4096 * 100, "not mapped"),
        (error::CODE_OBJECT, |w| w[8] += 64, "not a multiple of 256"),
        (error::REGISTERS, |w| w[8] += 512, "16 waves of 512"),
    ];
    for (code, change, text) in cases {
        let (mut q, object, out) = with_kernel();
        // A second descriptor, of a kernel with all the registers there are.
        let mut words = q.rig.read(object, 16);
        words[12] = 63;
        words[11] = 63;
        q.rig.write(object + 512, &words);
        let done = q.rig.signal(1, 0);
        let mut packet = dispatch(object, out, 1024, 1024, done);
        change(&mut packet);
        q.push(packet);
        let (got, said) = q.fault();
        assert_eq!(got, code, "{said}");
        assert!(
            said.contains(text) && said.starts_with("AQL packet 0"),
            "{said}"
        );
        assert_eq!(q.rig.value(q.inactive) as u64, code);
        assert_eq!(q.rig.platform.take(), [Event::Interrupt(77)], "{said}");
        assert_eq!((q.rig.value(done), q.read_index()), (1, 0), "{said}");
    }
}

#[test]
fn a_stopped_wave_stops_the_queue() {
    let run = |code: &[u32]| {
        let mut q = Queue::new(Target::Gfx942);
        let object = q.rig.kernel(code, [0, TWO_SGPRS, 0], KERNARG);
        let done = q.rig.signal(1, 0);
        q.push(dispatch(object, 0, 64, 64, done));
        let fault = match q.step() {
            Step::Fault(fault) => fault,
            other => panic!("{other:?}"),
        };
        assert_eq!((q.rig.value(done), q.read_index()), (1, 0));
        (fault, q.rig.value(q.inactive) as u64, q.rig.platform.take())
    };
    // s_trap 2, the abort of the device libraries.
    let (fault, bits, _) = run(&[0xbf92_0002, END]);
    assert_eq!((fault.code, bits), (error::TRAP, 0x8000_0000), "{fault}");
    let (fault, bits, _) = run(&[0xffff_ffff, END]);
    assert_eq!(
        (fault.code, bits),
        (error::ILLEGAL_INSTRUCTION, 0x4000_0000),
        "{fault}"
    );
    // A store to address 0: the driver hears of it, not the signal.
    let (fault, bits, events) = run(&STORE_IDS);
    let memory = fault.memory.unwrap();
    assert_eq!((fault.code, bits), (error::MEMORY, 0));
    assert!(memory.write && memory.address < 256, "{memory:?}");
    assert!(events.contains(&Event::Fault(memory)), "{events:?}");
    assert!(fault.text.contains("global_store_dword"), "{fault}");
    // Memory that is mapped without leave to execute: a memory fault of the fetch, and nothing ran.
    let (mut q, object, out) = with_kernel();
    q.rig.memory.forbid_execution(object & !0xfff, 4096);
    q.push(dispatch(object, out, 64, 64, 0));
    let Step::Fault(fault) = q.step() else {
        panic!("it ran")
    };
    let memory = fault.memory.unwrap();
    assert_eq!(fault.code, error::MEMORY);
    assert!(memory.fetch && memory.address > object && memory.address <= object + 4096);
    assert!(fault.text.contains("EXECUTABLE"), "{fault}");
    assert_eq!(q.rig.read(out, 64), vec![0; 64]);
    let events = q.rig.platform.take();
    assert!(
        matches!(
            &events[..],
            [Event::Finished { waves: Err(_), .. }, Event::Fault(_)]
        ),
        "{events:?}"
    );
    // s_trap 3, the debug trap, does nothing.
    let mut q = Queue::new(Target::Gfx942);
    let object = q
        .rig
        .kernel(&[0xbf92_0003, END], [0, TWO_SGPRS, 0], KERNARG);
    q.push(dispatch(object, 0, 64, 64, 0));
    assert_eq!(q.step(), Step::Worked);
}

#[test]
fn waves_raise_interrupts() {
    let mut q = Queue::new(Target::Gfx942);
    // s_movk_i32 m0, 0x123; s_sendmsg INTERRUPT; s_endpgm.
    let object = q
        .rig
        .kernel(&[0xb07c_0123, 0xbf90_0001, END], [0, TWO_SGPRS, 0], KERNARG);
    q.push(dispatch(object, 0, 64, 64, 0));
    assert_eq!(q.step(), Step::Worked);
    assert_eq!(q.rig.platform.take()[0], Event::WaveInterrupt(0x123));
}

#[test]
fn a_spinning_kernel_sees_the_host_and_can_be_stopped() {
    // s_load_dword s2, s[0:1], 0; s_waitcnt; s_cmp_eq_u32 s2, 0; s_cbranch_scc1 back; s_endpgm.
    const SPIN: [u32; 6] = [0xc002_0080, 0, 0xbf8c_0000, 0xbf06_8002, 0xbf85_fffb, END];
    for released in [true, false] {
        let mut q = Queue::new(Target::Gfx942);
        let object = q.rig.kernel(&SPIN, [0x40, TWO_SGPRS, 0], KERNARG);
        let flag = q.rig.room(64, "flag");
        let done = q.rig.signal(1, 0);
        q.push(dispatch(object, flag, 640, 64, done));
        let memory = q.rig.memory.clone();
        let Queue {
            rig, aql, doorbell, ..
        } = &mut q;
        let step = std::thread::scope(|scope| {
            let rig = &*rig;
            scope.spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(20));
                if released {
                    memory.write(flag, &[1]).unwrap();
                } else {
                    rig.stop.store(true, std::sync::atomic::Ordering::Relaxed);
                }
            });
            aql.step(&rig.device, *doorbell, &rig.platform, &rig.stop)
        });
        if released {
            assert_eq!((step, q.rig.value(done)), (Step::Worked, 0));
        } else {
            assert_eq!(
                (step, q.rig.value(done), q.read_index()),
                (Step::Idle, 1, 0)
            );
            let events = q.rig.platform.take();
            assert!(
                matches!(&events[..], [Event::Finished { waves: Err(text), .. }] if text.contains("0 of 10 workgroups")),
                "{events:?}"
            );
        }
    }
}

#[test]
fn workgroups_are_dealt_to_the_xccs() {
    let mut q = Queue::on(Rig::with(Target::Gfx942, 8));
    // s_getreg_b32 s3, hwreg(HW_REG_XCC_ID); v_mov_b32 v0, s3; v_mov_b32 v1, s2; v_lshlrev_b32 v1, 2, v1;
    // global_store_dword v1, v0, s[0:1]; s_endpgm. The workgroup's id is in s2.
    let code = [
        0xb883_f814,
        0x7e00_0203,
        0x7e02_0202,
        0x2402_0282,
        0xdc70_8000,
        0x0000_0001,
        END,
    ];
    let object = q.rig.kernel(&code, [0x40, TWO_SGPRS | 1 << 7, 0], KERNARG);
    let out = q.rig.room(4096, "out");
    q.push(dispatch(object, out, 64 * 20, 64, 0));
    assert_eq!(q.step(), Step::Worked);
    assert_eq!(
        q.rig.read(out, 20),
        (0..20).map(|i| i % 8).collect::<Vec<_>>()
    );
}

#[test]
fn kernels_of_the_runtime_have_other_things_where_descriptors_are_reserved() {
    let (mut q, object, out) = with_kernel();
    // An amd_kernel_code_t: version 1.2, machine kind 1, 9.4.2; flags in the upper half of the properties.
    q.rig.write(object, &[1, 2, 1 | 9 << 16, 4 | 2 << 16]);
    q.rig.write(object + 40, &[0xffff_ffff, 0xffff_ffff]);
    q.rig.write(object + 56, &[KERNARG | 0xa << 16, 16]);
    q.push(dispatch(object, out, 64, 64, 0));
    assert_eq!(q.step(), Step::Worked);
    assert_eq!(q.rig.read(out, 64), (0..64).collect::<Vec<_>>());
}

#[test]
fn vendor_packets_run_pm4() {
    let mut q = Queue::new(Target::Gfx942);
    let flag = q.rig.room(64, "flag");
    let [low, high] = [flag as u32, (flag >> 32) as u32];
    let buffer = q.rig.words(
        &[
            // WAIT_REG_MEM until *flag == 3; WRITE_DATA 7 behind it; ACQUIRE_MEM.
            0xc005_3c00,
            3 | 1 << 4,
            low,
            high,
            3,
            0xffff_ffff,
            4,
            0xc003_3700,
            5 << 8,
            low + 4,
            high,
            7,
            0xc005_5800,
            1 << 29,
            0xffff_ffff,
            0xff,
            0,
            0,
            10,
        ],
        "pm4",
    );
    let done = q.rig.signal(1, 0);
    let mut words = [0; 16];
    words[0] = 1 << 16;
    words[1] = 0xc002_3f00;
    words[2..5].copy_from_slice(&[buffer as u32, (buffer >> 32) as u32, 19 | 1 << 23]);
    words[5] = 10;
    words[14..16].copy_from_slice(&[done as u32, (done >> 32) as u32]);
    q.push(words);
    assert_eq!((q.step(), q.step()), (Step::Waiting, Step::Waiting));
    q.rig.write(flag, &[3]);
    assert_eq!(
        (q.step(), q.rig.word(flag + 4), q.rig.value(done)),
        (Step::Worked, 7, 0)
    );
    let packets = q.rig.platform.packets();
    assert_eq!(
        packets.iter().filter(|p| **p == "PM4_IB").count(),
        1,
        "{packets:?}"
    );
    // Something that is no PM4 packet.
    q.rig.write(buffer, &[0x1234]);
    q.push(words);
    let (code, text) = q.fault();
    assert_eq!(code, error::VENDOR_PACKET, "{text}");
}

/// In a queue of all XCCs what any of them does is done, once.
#[test]
fn predicated_packets_of_any_xcc_run() {
    for (mask, value) in [(0x01, 7), (0x02, 7), (0x80, 7), (0xff, 7), (0x00, 0)] {
        let mut q = Queue::new(Target::Gfx942);
        let flag = q.rig.room(64, "flag");
        let [low, high] = [flag as u32, (flag >> 32) as u32];
        let buffer = q.rig.words(
            // PRED_EXEC over WRITE_DATA 7, WRITE_DATA 8 behind it.
            &[
                0xc000_2300,
                mask << 24 | 5,
                0xc003_3700,
                5 << 8,
                low,
                high,
                7,
                0xc003_3700,
                5 << 8,
                low + 4,
                high,
                8,
            ],
            "pm4",
        );
        let mut words = [0; 16];
        words[0] = 1 << 16;
        words[1] = 0xc002_3f00;
        words[2..5].copy_from_slice(&[buffer as u32, (buffer >> 32) as u32, 12 | 1 << 23]);
        words[5] = 10;
        q.push(words);
        assert_eq!(q.step(), Step::Worked);
        assert_eq!(q.rig.read(flag, 2), [value, 8], "mask {mask:#x}");
    }
}
