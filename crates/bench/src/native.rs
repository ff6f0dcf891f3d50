//! Native loops to compare with: the work of the emulated loops written for this host.
//! AVX-512 where the host has it, else what the compiler makes of plain loops.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Lanes of a wave.
const LANES: usize = 64;

/// Nanoseconds for one lane operation on 64 lanes in the loop of `data/perf`'s `valu_mix`, written as plain
/// Rust and compiled for this host's vectors; best of `repeat`. A turn is 16 lane operations.
pub fn valu(repeat: u32) -> f64 {
    const TURNS: u64 = 300_000;
    const OPS: u64 = 16;
    best(repeat, || {
        let mut state = [[0u32; LANES]; 3];
        let [a, b, c] = &mut state;
        for (lane, ((a, b), c)) in a.iter_mut().zip(b).zip(c).enumerate() {
            *a = (lane as u32).wrapping_mul(0x9e37_79b1);
            *b = *a ^ 0x85eb_ca6b;
            *c = lane as u32;
        }
        let start = Instant::now();
        run_valu(TURNS, black_box(&mut state));
        start.elapsed().as_nanos() as f64 / (TURNS * OPS) as f64
    })
}

fn run_valu(turns: u64, state: &mut [[u32; LANES]; 3]) {
    #[cfg(target_arch = "x86_64")]
    if rocjitsu_lanes::Backend::Avx512.is_supported() {
        // SAFETY: the host has the features.
        unsafe { valu_avx512(turns, state) };
        return;
    }
    valu_body(turns, state);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma")]
fn valu_avx512(turns: u64, state: &mut [[u32; LANES]; 3]) {
    valu_body(turns, state);
}

/// The arithmetic of `valu_mix` (`data/perf/kernels/perf_asm.py`), one turn after the other over all lanes.
#[inline(always)]
fn valu_body(turns: u64, state: &mut [[u32; LANES]; 3]) {
    let [mut a, mut b, mut c] = *state;
    for _ in 0..turns {
        for ((a, b), c) in a.iter_mut().zip(&mut b).zip(&mut c) {
            let t = *a & 255;
            let f = t as f32;
            let g = f.mul_add(4.0, 1.0);
            let h = f.mul_add(g, 2.0);
            let p = (0.5 * g + h).mul_add(2.0, f);
            // SAFETY: p lies between 0 and 2^20.
            let p = unsafe { p.to_int_unchecked::<u32>() };
            *a ^= p;
            *b = (*a << 3).wrapping_add(*b);
            *c = (*b & 0xff_ffff).wrapping_mul(t).wrapping_add(*c);
            *a = a.rotate_right(13).wrapping_add(*c);
            *b = b.wrapping_sub(if *b > *c { p } else { t });
        }
    }
    *state = [a, b, c];
}

/// Nanoseconds for `fmas` multiply-adds of f32 at the host's peak.
pub fn fma(fmas: u64, repeat: u32) -> f64 {
    const TURNS: u64 = 400_000;
    const LANES: usize = 192;
    let per_turn = LANES as f64;
    let each = best(repeat, || {
        let mut sums = [0.0f32; LANES];
        let start = Instant::now();
        run_fma(TURNS, black_box(&mut sums));
        start.elapsed().as_nanos() as f64 / (TURNS as f64 * per_turn)
    });
    each * fmas as f64
}

/// f32 FMA throughput in GFLOP/s of `threads` threads at once, two operations a multiply-add; best of `repeat`.
pub fn peak_gflops(threads: usize, repeat: u32) -> f64 {
    const FMAS: u64 = 1_000_000_000;
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..threads.max(1))
            .map(|_| scope.spawn(|| 2.0 * FMAS as f64 / fma(FMAS, repeat)))
            .collect();
        // A thread that panicked has printed why; its share is missing then.
        runs.into_iter().map(|run| run.join().unwrap_or(0.0)).sum()
    })
}

fn run_fma(turns: u64, sums: &mut [f32; 192]) {
    #[cfg(target_arch = "x86_64")]
    if rocjitsu_lanes::Backend::Avx512.is_supported() {
        // SAFETY: the host has the features.
        unsafe { fma_avx512(turns, sums) };
        return;
    }
    fma_body(turns, sums);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,fma")]
fn fma_avx512(turns: u64, sums: &mut [f32; 192]) {
    use std::arch::x86_64::*;
    let mut acc = [_mm512_setzero_ps(); 12];
    let b = _mm512_set1_ps(black_box(0.999));
    let c = _mm512_set1_ps(black_box(0.001));
    for _ in 0..turns {
        for x in &mut acc {
            *x = _mm512_fmadd_ps(*x, b, c);
        }
    }
    for (x, out) in acc.iter().zip(sums.chunks_exact_mut(16)) {
        // SAFETY: the chunk has 16 floats.
        unsafe { _mm512_storeu_ps(out.as_mut_ptr(), *x) };
    }
}

fn fma_body(turns: u64, sums: &mut [f32; 192]) {
    let (b, c) = (black_box(0.999f32), black_box(0.001f32));
    for _ in 0..turns {
        for x in sums.iter_mut() {
            *x = x.mul_add(b, c);
        }
    }
}

/// Nanoseconds to copy 256 bytes within a working set of `bytes`.
pub fn copy(bytes: usize, repeat: u32) -> f64 {
    let from = vec![1u8; bytes];
    let mut to = vec![0u8; bytes];
    best(repeat, || {
        let start = Instant::now();
        for (t, f) in to.chunks_exact_mut(256).zip(from.chunks_exact(256)) {
            t.copy_from_slice(f);
        }
        black_box(&mut to);
        start.elapsed().as_nanos() as f64 / (bytes / 256) as f64
    })
}

/// How many times as fast two threads copy `bytes` bytes as one does, each of them a half, when one has just written all
/// that is read and overwritten, as a launch does; best of `repeat` for each. The other thread is awake.
pub fn copy_scaling(bytes: usize, repeat: u32) -> f64 {
    let (mut from, mut to) = (vec![1u8; bytes], vec![1u8; bytes]);
    let mut once = |threads: u32| {
        from.fill(threads as u8);
        to.fill(0);
        // Counts those that are awake, then those that have done their part.
        let (awake, done) = (AtomicU32::new(0), AtomicU32::new(0));
        let wait = |count: &AtomicU32| {
            while count.load(Ordering::Acquire) < threads {
                spin_loop();
            }
        };
        let part = |to: &mut [u8], from: &[u8]| {
            awake.fetch_add(1, Ordering::AcqRel);
            wait(&awake);
            let start = Instant::now();
            to.copy_from_slice(from);
            done.fetch_add(1, Ordering::AcqRel);
            wait(&done);
            start.elapsed().as_secs_f64()
        };
        if threads == 1 {
            return part(&mut to, &from);
        }
        let (first, second) = to.split_at_mut(bytes / 2);
        std::thread::scope(|scope| {
            scope.spawn(|| part(second, &from[bytes / 2..]));
            part(first, &from[..bytes / 2])
        })
    };
    best(repeat, || once(1)) / best(repeat, || once(2))
}

fn best(repeat: u32, mut f: impl FnMut() -> f64) -> f64 {
    (0..repeat.max(1))
        .map(|_| f())
        .fold(f64::INFINITY, f64::min)
}
