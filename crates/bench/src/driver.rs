//! What the simulated driver costs: an ioctl, a dispatch from the doorbell to the signal, DMA copies, doing nothing.
//! The client is this process, with the driver inside, as in a program that the library is loaded into.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rocjitsu_config::{Machine, preset_for_target};
use rocjitsu_kfd::abi::{self, alloc_flags};
use rocjitsu_kfd::client::{Buffer, Client, Queue, WordEngine, signal};

use crate::limits::{IDLE, Limits};

/// `s_endpgm` of gfx9.
const END: u32 = 0xbf81_0000;
/// Packets that are in the ring at the same time when the rate is measured.
const BATCH: u64 = 32;

/// A program with one queue, an event and an empty kernel.
struct Program {
    client: Client,
    queue: Queue,
    signals: Buffer,
    page: Buffer,
    event: u32,
    packet: [u8; 64],
    _code: Buffer,
}

impl Program {
    fn new() -> Result<Program> {
        let gpu = preset_for_target("gfx942").into_iter().collect();
        let client = Client::new(Machine::new(gpu))?;
        let (page, event) = client.first_event()?;
        let signals = client.allocate(0, 0, 4096, alloc_flags::GTT)?;
        let queue = client.aql_queue(0)?;
        // A descriptor with the entry 256 bytes behind it.
        let code = client.allocate(0, 0, 4096, alloc_flags::VRAM)?;
        code.write(16, &256u64.to_le_bytes())?;
        code.write(256, &END.to_le_bytes())?;
        // One wave of 64 work-items.
        let mut packet = [0; 64];
        packet[..4].copy_from_slice(&(2u32 | 1 << 8 | 1 << 16).to_le_bytes());
        for (at, size) in [(4, 64), (6, 1), (8, 1)] {
            packet[at..at + 2].copy_from_slice(&u16::to_le_bytes(size));
        }
        for (at, size) in [(12, 64), (16, 1), (20, 1)] {
            packet[at..at + 4].copy_from_slice(&u32::to_le_bytes(size));
        }
        packet[32..40].copy_from_slice(&code.va.to_le_bytes());
        Ok(Program {
            client,
            queue,
            signals,
            page,
            event,
            packet,
            _code: code,
        })
    }

    /// Publishes a packet with a fresh completion signal; `wakes` says whether it has an event.
    fn submit(&mut self, wakes: bool) -> Result<()> {
        let completion = signal(&self.signals, 128, &self.page, self.event)?;
        if !wakes {
            self.signals.write(128 + 16, &[0; 8])?;
        }
        self.packet[56..].copy_from_slice(&completion.to_le_bytes());
        self.queue.submit(&self.packet)?;
        Ok(())
    }

    /// Time from the ring until the signal is 0, the program spinning as ROCr does at first.
    fn spin(&mut self) -> Result<Duration> {
        let start = Instant::now();
        self.submit(false)?;
        let value = self.signals.word(136)?;
        while value.load(Ordering::Acquire) != 0 {
            std::hint::spin_loop();
        }
        Ok(start.elapsed())
    }

    /// Time from the ring until WAIT_EVENTS returns.
    fn sleep(&mut self) -> Result<Duration> {
        let start = Instant::now();
        self.submit(true)?;
        let came = self.client.wait(self.event, 10_000)?;
        ensure!(came.is_some(), "no event in ten seconds");
        Ok(start.elapsed())
    }
}

/// The median and the largest but one in a hundred, in microseconds.
fn spread(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort();
    let at = |share: f64| {
        let index = (times.len() as f64 * share) as usize;
        times.get(index.min(times.len() - 1))
    };
    let us = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e6);
    (us(at(0.5)), us(at(0.99)))
}

fn line(what: &str, times: Vec<Duration>) {
    let (median, late) = spread(times);
    println!("{what:44} {median:9.1} us, 99 in 100 within {late:9.1} us");
}

/// Processor time of this process in seconds.
fn processor_time() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

/// Prints all figures.
pub fn all(repeat: u32, limits: &mut Limits) -> Result<()> {
    println!(
        "== driver: an empty kernel of one wave through ioctls, a ring and a doorbell (gfx942)"
    );
    let mut program = Program::new()?;
    ioctl(&program.client)?;
    program.spin()?;
    let many = |count: u32, run: &mut dyn FnMut() -> Result<Duration>| {
        (0..count).map(|_| run()).collect::<Result<Vec<_>>>()
    };
    line(
        "doorbell to signal, busy",
        many(2000, &mut || program.spin())?,
    );
    line(
        "doorbell to event, busy",
        many(2000, &mut || program.sleep())?,
    );
    for (idle, count) in [(200, 100), (2_000, 100), (20_000, 100), (500_000, 6)] {
        let what = format!("doorbell to signal, after {:5} ms idle", idle as f64 / 1e3);
        let mut run = || {
            std::thread::sleep(Duration::from_micros(idle));
            program.spin()
        };
        line(&what, many(count, &mut run)?);
    }
    rate(&mut program, repeat)?;
    for bytes in [1 << 20, 64 << 20] {
        // A client each: allocations stay with it, and addresses that one leaves are used again.
        let gpu = preset_for_target("gfx942").into_iter().collect();
        copies(&Client::new(Machine::new(gpu))?, bytes, repeat)?;
    }
    std::thread::sleep(Duration::from_secs(1));
    let (start, before) = (Instant::now(), processor_time());
    std::thread::sleep(Duration::from_secs(3));
    let share = (processor_time() - before) / start.elapsed().as_secs_f64() * 100.0;
    println!("idle, three queues                           {share:9.2} % of a core");
    limits.at_most("idle queues", share, IDLE, "% of a core");
    hooks(repeat)?;
    Ok(())
}

fn ioctl(client: &Client) -> Result<()> {
    const ROUNDS: u32 = 100_000;
    let start = Instant::now();
    for _ in 0..ROUNDS {
        client.kfd(0x05, &mut abi::GetClockCounters::default())?;
    }
    let each = start.elapsed().as_secs_f64() / f64::from(ROUNDS) * 1e6;
    println!("GET_CLOCK_COUNTERS                           {each:9.2} us");
    Ok(())
}

/// Packets a second, with some in the ring at the same time.
fn rate(program: &mut Program, repeat: u32) -> Result<()> {
    const PACKETS: u64 = 20_000;
    let mut best = f64::INFINITY;
    for _ in 0..repeat.max(1) {
        let start = Instant::now();
        let first = program.queue.read_index()?;
        let mut packet = program.packet;
        packet[56..].fill(0);
        for index in 0..PACKETS {
            while first + index - program.queue.read_index()? >= BATCH {
                std::hint::spin_loop();
            }
            program.queue.submit(&packet)?;
        }
        while program.queue.read_index()? < first + PACKETS {
            std::hint::spin_loop();
        }
        best = best.min(start.elapsed().as_secs_f64());
    }
    let each = best / PACKETS as f64;
    println!(
        "rate, {BATCH} packets in the ring                  {:9.2} us a packet, {:.0} a second",
        each * 1e6,
        1.0 / each
    );
    Ok(())
}

/// SDMA copies from GTT to VRAM beside `memcpy` between two buffers of the program's.
fn copies(client: &Client, bytes: u64, repeat: u32) -> Result<()> {
    let from = client.allocate(0, 0, bytes, alloc_flags::GTT)?;
    let to = client.allocate(0, 0, bytes, alloc_flags::VRAM)?;
    let fence = client.allocate(0, 0, 4096, alloc_flags::GTT)?;
    let mut queue = client.word_queue(0, WordEngine::Sdma, 1 << 16)?;
    let (low, high) = (|va: u64| va as u32, |va: u64| (va >> 32) as u32);
    let source = vec![0x5au8; bytes as usize];
    from.write(0, &source)?;
    let mut target = vec![0u8; bytes as usize];
    let (mut dma, mut host) = (f64::INFINITY, f64::INFINITY);
    for round in 1..=3 * repeat.max(1) {
        let start = Instant::now();
        queue.submit(&[
            1,
            bytes as u32 - 1,
            0,
            low(from.va),
            high(from.va),
            low(to.va),
            high(to.va),
        ])?;
        queue.submit(&[5, low(fence.va), high(fence.va), round])?;
        let word = fence.word(0)?;
        while word.load(Ordering::Acquire) as u32 != round {
            std::hint::spin_loop();
        }
        dma = dma.min(start.elapsed().as_secs_f64());
        let start = Instant::now();
        target.copy_from_slice(std::hint::black_box(&source));
        std::hint::black_box(&mut target);
        host = host.min(start.elapsed().as_secs_f64());
    }
    ensure!(
        to.read(bytes - 8, 8)? == [0x5a; 8],
        "the copy has not arrived"
    );
    let rate = |seconds: f64| bytes as f64 / seconds / 1e9;
    println!(
        "SDMA copy of {:3} MiB                         {:9.2} GB/s, memcpy {:.2} GB/s, ratio {:.2}",
        bytes >> 20,
        rate(dma),
        rate(host),
        dma / host
    );
    Ok(())
}

/// What the library asks at every `munmap` of a program that uses GPUs, beside the call itself.
fn hooks(repeat: u32) -> Result<()> {
    const ROUNDS: u32 = 100_000;
    let gpu = preset_for_target("gfx942").into_iter().collect();
    let client = Client::new(Machine::new(gpu))?;
    let (mut asked, mut plain) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..repeat.max(1) {
        let start = Instant::now();
        for page in 0..u64::from(ROUNDS) {
            std::hint::black_box(
                client
                    .driver
                    .may_lend(0x7000_0000_0000 + (page << 12), 65536),
            );
        }
        asked = asked.min(start.elapsed().as_secs_f64());
        let start = Instant::now();
        for _ in 0..ROUNDS / 10 {
            let flags = rustix::mm::MapFlags::PRIVATE;
            let bytes = 65536;
            // SAFETY: a fresh mapping that nobody else knows, removed at once.
            unsafe {
                let at = rustix::mm::mmap_anonymous(
                    std::ptr::null_mut(),
                    bytes,
                    rustix::mm::ProtFlags::READ,
                    flags,
                )?;
                rustix::mm::munmap(at, bytes)?;
            }
        }
        plain = plain.min(start.elapsed().as_secs_f64() * 10.0);
    }
    let each = |seconds: f64| seconds / f64::from(ROUNDS) * 1e9;
    println!(
        "asking whether a mapping is lent             {:9.1} ns, mmap and munmap themselves {:.0} ns",
        each(asked),
        each(plain)
    );
    Ok(())
}
