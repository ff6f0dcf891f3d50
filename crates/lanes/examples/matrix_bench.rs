//! Nanoseconds per matrix instruction, and the ratio to a native f32 FMA loop that does as many
//! multiply-adds, measured in the same run: `cargo run --release --example matrix_bench [part of a name] [back end] [integers]`.

use std::hint::black_box;
use std::time::Instant;

use rocjitsu_lanes::backend::Backend;
use rocjitsu_lanes::matrix::{
    COperand, Element, Family, MatrixOp, Operands, Prepared, ScaleOperand,
};

/// Best nanoseconds per call of several rounds.
fn time(mut f: impl FnMut()) -> f64 {
    let mut rounds = 64u32;
    let mut best = f64::MAX;
    for _ in 0..40 {
        let start = Instant::now();
        for _ in 0..rounds {
            f();
        }
        let ns = start.elapsed().as_nanos() as f64;
        best = best.min(ns / f64::from(rounds));
        if ns < 200_000.0 {
            rounds *= 2;
        }
    }
    best
}

/// A matrix product of `m` x 32 x `k` with C and D in memory, as a compiler for this host would
/// emit it: columns in vector lanes, A broadcast.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,fma,avx2")]
fn native(a: &[[f32; 32]], b: &[[f32; 32]], d: &mut [[f32; 32]]) {
    use core::arch::x86_64::*;
    for rows in d.chunks_exact_mut(8) {
        for half in [0, 16] {
            // SAFETY: every row has 32 elements and `half` is 0 or 16.
            unsafe {
                let mut sums: [__m512; 8] =
                    std::array::from_fn(|r| _mm512_loadu_ps(rows[r].as_ptr().add(half)));
                for (a, b) in a.iter().zip(b) {
                    let b = _mm512_loadu_ps(b.as_ptr().add(half));
                    for (r, sum) in sums.iter_mut().enumerate() {
                        *sum = _mm512_fmadd_ps(_mm512_set1_ps(a[r]), b, *sum);
                    }
                }
                for (r, sum) in sums.into_iter().enumerate() {
                    _mm512_storeu_ps(rows[r].as_mut_ptr().add(half), sum);
                }
            }
        }
    }
}

/// The lanes of a register, aligned as in a wave's pages.
#[derive(Clone, Copy)]
#[repr(align(256))]
struct Register([u32; 64]);

/// Pseudo-random normal numbers (sum of uniform ones), rounded to integers if so wished.
struct Random(u64, bool);

impl Random {
    /// A normal number, or a small integer.
    fn next(&mut self) -> f32 {
        let x = self.normal();
        if self.1 { (x * 2.0).round() } else { x }
    }

    fn normal(&mut self) -> f32 {
        (0..6)
            .map(|_| {
                self.0 = self
                    .0
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                (self.0 >> 40) as f32 / (1u64 << 24) as f32 - 0.5
            })
            .sum::<f32>()
            * 1.4
    }

    /// Registers filled with random values of an element type.
    fn registers(&mut self, count: usize, element: Element) -> Vec<Register> {
        let word = |random: &mut Random| match element {
            Element::F16 => {
                let half = |x: f32| u32::from(half_bits(x));
                half(random.next()) | half(random.next()) << 16
            }
            Element::Bf16 => random.next().to_bits() >> 16 | random.next().to_bits() & 0xffff_0000,
            Element::F32 | Element::Xf32 => random.next().to_bits(),
            Element::F64 => 0x3ff0_0000 | (random.next().to_bits() & 0x000f_ffff),
            // Whole numbers in OCP FP8, or values of moderate size in every 8-bit format.
            _ if random.1 => (0..4).fold(0, |word, _| {
                word << 8 | [0x38, 0x40, 0xb8, 0x44][random.next().abs() as usize % 4]
            }),
            _ => (0..4).fold(0, |word, _| {
                word << 8
                    | (random.next().to_bits() >> 24 & 0x80
                        | random.next().to_bits() >> 18 & 0x3f
                        | 1)
            }),
        };
        (0..count)
            .map(|_| Register(std::array::from_fn(|_| word(self))))
            .collect()
    }
}

fn half_bits(x: f32) -> u16 {
    let bits = x.to_bits();
    let exponent = (bits >> 23 & 0xff) as i32 - 112;
    if exponent <= 0 {
        return (bits >> 16 & 0x8000) as u16;
    }
    (bits >> 16 & 0x8000 | (exponent as u32) << 10 | bits >> 13 & 0x3ff) as u16
}

fn main() {
    let names = [
        (Family::Cdna2, "v_mfma_f32_32x32x2f32"),
        (Family::Cdna2, "v_mfma_f32_16x16x4f32"),
        (Family::Cdna2, "v_mfma_f32_32x32x8f16"),
        (Family::Cdna2, "v_mfma_f32_16x16x16f16"),
        (Family::Cdna2, "v_mfma_f32_4x4x4f16"),
        (Family::Cdna2, "v_mfma_f32_32x32x8bf16_1k"),
        (Family::Cdna2, "v_mfma_f64_16x16x4f64"),
        (Family::Cdna2, "v_mfma_i32_32x32x8i8"),
        (Family::Cdna3, "v_mfma_f32_32x32x8_f16"),
        (Family::Cdna3, "v_mfma_f32_16x16x16_f16"),
        (Family::Cdna3, "v_mfma_f32_32x32x8_bf16"),
        (Family::Cdna3, "v_mfma_f32_32x32x16_fp8_fp8"),
        (Family::Cdna3, "v_mfma_f32_16x16x8_xf32"),
        (Family::Cdna3, "v_mfma_i32_32x32x16_i8"),
        (Family::Cdna3, "v_smfmac_f32_32x32x16_f16"),
        (Family::Cdna4, "v_mfma_f32_16x16x32_f16"),
        (Family::Cdna4, "v_mfma_f32_16x16x128_f8f6f4"),
        (Family::Rdna3, "v_wmma_f32_16x16x16_f16"),
        (Family::Rdna3, "v_wmma_i32_16x16x16_iu8"),
        (Family::Rdna4, "v_wmma_f32_16x16x16_f16"),
        (Family::Rdna4, "v_wmma_f16_16x16x16_f16"),
        (Family::Rdna4, "v_wmma_f32_16x16x16_fp8_fp8"),
        (Family::Gfx1250, "v_wmma_f32_16x16x32_f16"),
        (Family::Gfx1250, "v_wmma_f32_16x16x64_fp8_fp8"),
        (Family::Gfx1250, "v_wmma_scale_f32_16x16x128_f8f6f4"),
        (Family::Gfx1250, "v_swmmac_f32_16x16x64_f16"),
    ];
    println!(
        "{:<36} {:>8} {:>10} {:>10} {:>10} {:>10} {:>7}",
        "instruction", "madds", "native ns", "scalar ns", "avx2 ns", "avx512 ns", "ratio"
    );
    let mut random = Random(1, std::env::args().nth(3).is_some());
    let only = std::env::args().nth(1).unwrap_or_default();
    let backends = std::env::args().nth(2).unwrap_or_default();
    for (family, name) in names {
        if !name.contains(&only) {
            continue;
        }
        let op = MatrixOp::from_mnemonic(name, family).expect("a matrix instruction");
        let prepared = Prepared::new(&op);
        let madds = op.m * op.n * op.stored_k() * op.blocks;
        let need = op.registers();
        let a = random.registers(need.a, op.a);
        let b = random.registers(need.b, op.b);
        let index = vec![Register([0x4444_4444; 64]); need.index];
        let rows = |registers: &[Register]| -> Vec<*const u32> {
            registers.iter().map(|row| row.0.as_ptr()).collect()
        };
        let (a_rows, b_rows, index_rows) = (rows(&a), rows(&b), rows(&index));
        let mut d = random.registers(need.d.max(need.c), op.d);
        let start = d.clone();
        let d_rows: Vec<*mut u32> = d.iter_mut().map(|row| row.0.as_mut_ptr()).collect();
        let c_rows: Vec<*const u32> = d_rows.iter().map(|row| row.cast_const()).collect();
        let operands = Operands {
            a: &a_rows,
            b: &b_rows,
            c: COperand::Rows(&c_rows),
            index: &index_rows,
            scale_a: ScaleOperand::One,
            scale_b: ScaleOperand::One,
        };
        let mut times = Vec::new();
        for backend in Backend::ALL {
            if !backend.is_supported() || !backends.is_empty() && backends != backend.name() {
                times.push(f64::NAN);
                continue;
            }
            let mut count = 0;
            times.push(time(|| {
                // Start again now and then, as a kernel does with its next tile.
                if count % 64 == 0 {
                    for (row, start) in d_rows.iter().zip(&start) {
                        // SAFETY: a row of D has 64 words.
                        unsafe { row.copy_from_nonoverlapping(start.0.as_ptr(), 64) };
                    }
                }
                count += 1;
                // SAFETY: the host supports the back end, the registers are as many as the instruction needs, C is D.
                unsafe {
                    black_box(&prepared).execute_at(
                        backend,
                        black_box(&operands),
                        black_box(&d_rows),
                    );
                }
            }));
        }
        let native = native_time(madds);
        println!(
            "{name:<36} {madds:>8} {native:>10.1} {:>10.1} {:>10.1} {:>10.1} {:>7.2}",
            times[0],
            times[1],
            times[2],
            times[2] / native
        );
    }
}

#[cfg(target_arch = "x86_64")]
fn native_time(madds: usize) -> f64 {
    let (m, k) = (32.min(madds / 32), (madds / 32 / 32).max(1));
    let a = vec![[1.25f32; 32]; k];
    let b = vec![[0.75f32; 32]; k];
    let mut d = vec![[0f32; 32]; m.max(8)];
    if !Backend::Avx512.is_supported() {
        return f64::NAN;
    }
    // SAFETY: AVX-512 is supported.
    time(|| unsafe { native(black_box(&a), black_box(&b), black_box(&mut d)) })
}

#[cfg(not(target_arch = "x86_64"))]
fn native_time(_: usize) -> f64 {
    f64::NAN
}
