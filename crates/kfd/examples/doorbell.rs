//! What the driver costs: an ioctl, a doorbell from the ring to the event, and doing nothing.
//! `cargo run --release -p rocjitsu-kfd --example doorbell`

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rocjitsu_config::{Machine, preset_for_target};
use rocjitsu_kfd::abi::{self, alloc_flags};
use rocjitsu_kfd::client::{Buffer, Client, Queue, signal};

/// A barrier packet that depends on nothing.
fn barrier(completion: u64) -> [u8; 64] {
    let mut packet = [0; 64];
    packet[..2].copy_from_slice(&(3u16 | 1 << 8).to_le_bytes());
    packet[56..].copy_from_slice(&completion.to_le_bytes());
    packet
}

struct Ringer {
    client: Client,
    queue: Queue,
    signals: Buffer,
    page: Buffer,
    event: u32,
}

impl Ringer {
    /// Rings and spins until the signal is 0.
    fn spin(&mut self) -> Duration {
        let completion = signal(&self.signals, 128, &self.page, self.event).unwrap();
        let start = Instant::now();
        self.queue.submit(&barrier(completion)).unwrap();
        while self.signals.word(136).unwrap().load(Ordering::Acquire) != 0 {
            std::hint::spin_loop();
        }
        start.elapsed()
    }

    /// Rings and waits for the event.
    fn wait(&mut self) -> Duration {
        let completion = signal(&self.signals, 128, &self.page, self.event).unwrap();
        let start = Instant::now();
        self.queue.submit(&barrier(completion)).unwrap();
        assert!(self.client.wait(self.event, 10_000).unwrap().is_some());
        start.elapsed()
    }
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}

/// Processor time of this process.
fn processor_time() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

fn main() {
    let client = Client::new(Machine::new(vec![preset_for_target("gfx942").unwrap()])).unwrap();
    let rounds = 200_000;
    let start = Instant::now();
    for _ in 0..rounds {
        let mut args = abi::GetClockCounters {
            gpu_id: client.gpus[0].id,
            ..Default::default()
        };
        client.raw(0x05, &mut args).unwrap();
    }
    let each = start.elapsed().as_secs_f64() / f64::from(rounds) * 1e6;
    println!("GET_CLOCK_COUNTERS             {each:8.2} us");
    let (page, event) = client.first_event().unwrap();
    let signals = client.allocate(0, 0, 4096, alloc_flags::GTT).unwrap();
    let queue = client.aql_queue(0).unwrap();
    let mut ringer = Ringer {
        client,
        queue,
        signals,
        page,
        event,
    };
    ringer.spin();
    let busy = median((0..2000).map(|_| ringer.spin()).collect());
    println!("ring to signal, busy           {busy:8.2} us");
    // The event of each ring of the loop above has been set: take it back.
    ringer.client.wait(event, 0).unwrap();
    let busy = median((0..2000).map(|_| ringer.wait()).collect());
    println!("ring to event, busy            {busy:8.2} us");
    for pause in [200, 1000, 20_000] {
        let times = (0..50)
            .map(|_| {
                std::thread::sleep(Duration::from_micros(pause));
                ringer.wait()
            })
            .collect();
        println!(
            "ring to event, after {pause:>6} us {:8.2} us",
            median(times)
        );
    }
    let (start, before) = (Instant::now(), processor_time());
    std::thread::sleep(Duration::from_secs(3));
    let share = (processor_time() - before) / start.elapsed().as_secs_f64() * 100.0;
    println!("idle with one queue            {share:8.2} % of a core");
}
