//! What it costs to have another thread execute an instruction: a request and its answer between two pinned threads that
//! spin, with the registers of a matrix instruction going over and coming back.

use std::cell::UnsafeCell;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::Result;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A word on cache lines of its own.
#[repr(align(128))]
#[derive(Default)]
struct Word(AtomicU64);

/// Rows of 256 bytes: a register of 64 lanes.
struct Rows(UnsafeCell<Vec<[u32; 64]>>);

// SAFETY: the two threads touch the rows in turn; the words hand them over.
unsafe impl Sync for Rows {}

impl Rows {
    fn rows(&self) -> *mut Vec<[u32; 64]> {
        self.0.get()
    }
}

const REQUESTS: u64 = 2000;

/// Prints the time of a round trip for several sizes.
pub fn latency(repeat: u32) -> Result<()> {
    println!(
        "== handover: a request to another thread and its answer, both pinned and spinning: ns each"
    );
    let here = sched_getaffinity(None)?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&c| here.is_set(c)).collect();
    let [first, .., last] = cores[..] else {
        println!("only one core: nothing to hand over to");
        return Ok(());
    };
    for (what, input, output) in [
        ("nothing but the request", 0, 0),
        ("16x16 results (A, B, C: 8 registers, D: 4)", 8, 4),
        ("32x32 results (A, B, C: 20 registers, D: 16)", 20, 16),
    ] {
        let mut best = f64::INFINITY;
        for _ in 0..repeat.max(1) {
            best = best.min(round_trip([first, last], input, output)?);
        }
        println!("{what:<46} {best:8.1}");
    }
    sched_setaffinity(None, &here)?;
    Ok(())
}

fn pin(core: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(None, &set)?)
}

/// Nanoseconds of a request: the asking thread writes `input` rows, the other one reads them and writes `output` rows,
/// which the asking thread reads.
fn round_trip([asks, answers]: [usize; 2], input: usize, output: usize) -> Result<f64> {
    let (request, answer) = (Word::default(), Word::default());
    let rows = |n| Rows(UnsafeCell::new(vec![[1; 64]; n]));
    let (there, back) = (rows(input), rows(output));
    std::thread::scope(|scope| {
        let helper = scope.spawn(|| -> Result<()> {
            pin(answers)?;
            for number in 1..=REQUESTS {
                while request.0.load(Ordering::Acquire) != number {
                    spin_loop();
                }
                // SAFETY: the request gives both to this thread until it answers.
                let (from, to) = unsafe { (&*there.rows(), &mut *back.rows()) };
                let sum = from.iter().flatten().fold(0u32, |s, &w| s.wrapping_add(w));
                for row in to {
                    row.fill(sum);
                }
                answer.0.store(number, Ordering::Release);
            }
            Ok(())
        });
        pin(asks)?;
        let mut best = f64::INFINITY;
        const BATCH: u64 = 200;
        for batch in 0..REQUESTS / BATCH {
            let start = Instant::now();
            for number in batch * BATCH + 1..=(batch + 1) * BATCH {
                // SAFETY: until the request the rows are this thread's.
                for row in unsafe { &mut *there.rows() } {
                    row.fill(number as u32);
                }
                request.0.store(number, Ordering::Release);
                while answer.0.load(Ordering::Acquire) != number {
                    spin_loop();
                }
                // SAFETY: after the answer they are this thread's again.
                let got = unsafe { &*back.rows() };
                black_box(got.iter().flatten().fold(0u32, |s, &w| s.wrapping_add(w)));
            }
            best = best.min(start.elapsed().as_nanos() as f64 / BATCH as f64);
        }
        match helper.join() {
            Ok(done) => done?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        Ok(best)
    })
}
