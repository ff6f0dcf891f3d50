//! Matrix instructions alone, from registers to registers, beside native loops of as many
//! multiply-adds: a plain FMA chain, and the instruction's own rule of summing.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use rocjitsu_exec::helpers::{Helpers, Policy};
use rocjitsu_lanes::Backend;
use rocjitsu_lanes::matrix::{
    COperand, Element, Family, Kind, MatrixOp, Operands, Prepared, ScaleOperand,
};

use crate::compiled::{self, Common};
use crate::native;
use crate::rules::{self, Rule};

/// Nanoseconds a call, the best of `repeat` rounds.
fn time(repeat: u32, mut f: impl FnMut()) -> f64 {
    let mut calls = 64u32;
    let mut best = f64::INFINITY;
    let mut rounds = 0;
    while rounds < repeat.max(1) {
        let start = Instant::now();
        for _ in 0..calls {
            f();
        }
        let ns = start.elapsed().as_nanos() as f64;
        best = best.min(ns / f64::from(calls));
        if ns < 1e6 {
            calls *= 2;
        } else {
            rounds += 1;
        }
    }
    best
}

/// What the operands are.
#[derive(Clone, Copy, PartialEq)]
enum Data {
    /// Normal numbers.
    Normal,
    /// Small whole numbers, whose sums are exact.
    Whole,
    /// Normal numbers times 64.
    Large,
}

/// The lanes of a register, aligned as in a wave's pages.
#[derive(Clone, Copy)]
#[repr(align(256))]
struct Register([u32; 64]);

/// A small deterministic generator.
struct Random(u64, Data);

impl Random {
    fn next(&mut self) -> f32 {
        let mut uniform = || {
            self.0 = self
                .0
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (self.0 >> 40) as f32 / (1u64 << 24) as f32 - 0.5
        };
        let x = (0..6).map(|_| uniform()).sum::<f32>() * 1.4;
        match self.1 {
            Data::Normal => x,
            Data::Whole => (2.0 * x).round(),
            Data::Large => 64.0 * x,
        }
    }

    /// Registers of elements.
    fn registers(&mut self, count: usize, element: Element) -> Vec<Register> {
        let mut word = || {
            let x = self.next();
            match element {
                Element::F16 => half_bits(x) | half_bits(self.next()) << 16,
                Element::Bf16 => x.to_bits() >> 16 | self.next().to_bits() & 0xffff_0000,
                Element::F32 | Element::Xf32 => x.to_bits(),
                // The upper halves of doubles from 1 to 2, and what lower halves may be.
                Element::F64 => 0x3ff0_0000 | x.to_bits() & 0x000f_ffff,
                Element::Fp4 | Element::Iu4 => (x.to_bits() >> 3).wrapping_mul(0x9e37_79b1),
                _ => (0..4).fold(0, |word, _| word << 8 | byte(element, self.next())),
            }
        };
        (0..count)
            .map(|_| Register(std::array::from_fn(|_| word())))
            .collect()
    }
}

/// Nearest lower f16, zero below its range.
fn half_bits(x: f32) -> u32 {
    let bits = x.to_bits();
    let exponent = (bits >> 23 & 0xff) as i32 - 112;
    if exponent <= 0 {
        return bits >> 16 & 0x8000;
    }
    bits >> 16 & 0x8000 | (exponent as u32) << 10 | bits >> 13 & 0x3ff
}

/// An element of eight bits near `x`; whole numbers stay whole in E4M3.
fn byte(element: Element, x: f32) -> u32 {
    let bits = x.to_bits();
    let (mantissa, bias) = match element {
        Element::Fp8 => (3, 7),
        Element::Fp8Fnuz => (3, 8),
        Element::Bf8 => (2, 15),
        Element::Bf8Fnuz => (2, 16),
        _ => return (x * 20.0) as i32 as u32 & 0xff,
    };
    let exponent = (bits >> 23 & 0xff) as i32 - 127 + bias;
    if exponent <= 0 {
        return 0;
    }
    bits >> 24 & 0x80 | (exponent as u32) << mantissa | (bits & 0x7f_ffff) >> (23 - mantissa)
}

/// Rows of the registers of A, B and D, the same each time.
fn operands(op: &MatrixOp, data: Data) -> [Vec<[u32; 64]>; 3] {
    let need = op.registers();
    let mut random = Random(1, data);
    [(need.a, op.a), (need.b, op.b), (need.d, op.d)].map(|(count, element)| {
        let registers = random.registers(count, element);
        registers.into_iter().map(|register| register.0).collect()
    })
}

/// Best nanoseconds of an instruction in a compiled loop of a wave; `None` if it has another form than the loop is made of.
fn in_a_wave(
    (target, name): (&str, &str),
    op: &MatrixOp,
    backend: Backend,
    (data, common): (Data, Common),
    repeat: u32,
) -> Option<f64> {
    if op.kind != Kind::Dense || op.f8f6f4 {
        return None;
    }
    let [a, b, d] = operands(op, data);
    let data = ([&a[..], &b[..], &d[..]], common);
    compiled::time(target.parse().ok()?, name, op, backend, data, repeat)
        .inspect_err(|error| eprintln!("{target} {name}: {error:#}"))
        .ok()
}

/// Best nanoseconds of an instruction on `backend`.
fn instruction(op: &MatrixOp, backend: Backend, data: Data, repeat: u32) -> f64 {
    let prepared = Prepared::new(op, true);
    let need = op.registers();
    let mut random = Random(1, data);
    let (a, b) = (
        random.registers(need.a, op.a),
        random.registers(need.b, op.b),
    );
    let index = vec![Register([0x4444_4444; 64]); need.index];
    let scale = vec![Register([0x7f80_7e7f; 64]); need.scale];
    let mut d = random.registers(need.d.max(need.c), op.d);
    let start = d.clone();
    let rows = |registers: &[Register]| -> Vec<*const u32> {
        registers.iter().map(|row| row.0.as_ptr()).collect()
    };
    let (a, b, index, scale) = (rows(&a), rows(&b), rows(&index), rows(&scale));
    let d: Vec<*mut u32> = d.iter_mut().map(|row| row.0.as_mut_ptr()).collect();
    let scale = if op.kind == Kind::Scaled {
        ScaleOperand::Rows(&scale[..])
    } else {
        ScaleOperand::One
    };
    let operands = Operands {
        a: &a,
        b: &b,
        c: COperand::InPlace,
        index: &index,
        scale_a: scale,
        scale_b: scale,
    };
    let mut count = 0;
    time(repeat, || {
        // Start again now and then, as a kernel does with its next tile.
        if count % 64 == 0 {
            for (row, start) in d.iter().zip(&start) {
                // SAFETY: a row of D has 64 words.
                unsafe { row.copy_from_nonoverlapping(start.0.as_ptr(), 64) };
            }
        }
        count += 1;
        // SAFETY: the host supports the back end, the registers are as many as the instruction
        // needs, with 64 lanes; C is D.
        unsafe { black_box(&prepared).execute_at(backend, black_box(&operands), black_box(&d)) };
    })
}

/// The instructions: target, name, format code of A and B where the name leaves it open.
const INSTRUCTIONS: [(&str, &str, u8); 33] = [
    ("gfx90a", "v_mfma_f32_32x32x2f32", 0),
    ("gfx942", "v_mfma_f32_32x32x2_f32", 0),
    ("gfx950", "v_mfma_f32_32x32x2_f32", 0),
    ("gfx1250", "v_wmma_f32_16x16x4_f32", 0),
    ("gfx90a", "v_mfma_f64_16x16x4f64", 0),
    ("gfx942", "v_mfma_f32_16x16x8_xf32", 0),
    ("gfx90a", "v_mfma_f32_32x32x8f16", 0),
    ("gfx942", "v_mfma_f32_32x32x8_f16", 0),
    ("gfx950", "v_mfma_f32_32x32x16_f16", 0),
    ("gfx1201", "v_wmma_f32_16x16x16_f16", 0),
    ("gfx1250", "v_wmma_f32_16x16x32_f16", 0),
    ("gfx90a", "v_mfma_f32_32x32x8bf16_1k", 0),
    ("gfx942", "v_mfma_f32_32x32x8_bf16", 0),
    ("gfx950", "v_mfma_f32_32x32x16_bf16", 0),
    ("gfx1201", "v_wmma_f32_16x16x16_bf16", 0),
    ("gfx1250", "v_wmma_f32_16x16x32_bf16", 0),
    ("gfx942", "v_mfma_f32_16x16x32_fp8_fp8", 0),
    ("gfx950", "v_mfma_f32_16x16x32_fp8_fp8", 0),
    ("gfx950", "v_mfma_f32_32x32x64_f8f6f4", 0),
    ("gfx1201", "v_wmma_f32_16x16x16_fp8_fp8", 0),
    ("gfx1250", "v_wmma_f32_16x16x64_fp8_fp8", 0),
    ("gfx950", "v_mfma_scale_f32_32x32x64_f8f6f4", 2),
    ("gfx950", "v_mfma_scale_f32_32x32x64_f8f6f4", 4),
    ("gfx1250", "v_wmma_scale_f32_16x16x128_f8f6f4", 4),
    ("gfx90a", "v_mfma_i32_32x32x8i8", 0),
    ("gfx942", "v_mfma_i32_32x32x16_i8", 0),
    ("gfx950", "v_mfma_i32_32x32x16_i8", 0),
    ("gfx1201", "v_wmma_i32_16x16x16_iu8", 0),
    ("gfx1250", "v_wmma_i32_16x16x64_iu8", 0),
    ("gfx942", "v_smfmac_f32_32x32x16_f16", 0),
    ("gfx942", "v_smfmac_i32_32x32x32_i8", 0),
    ("gfx1201", "v_swmmac_f32_16x16x32_f16", 0),
    ("gfx1250", "v_swmmac_f32_16x16x64_f16", 0),
];

/// How the sums of an instruction are formed.
fn rule(op: &MatrixOp) -> Rule {
    match (op.family, op.a) {
        (_, Element::F64) => Rule::Double,
        (_, element) if element.is_integer() => Rule::Integer,
        _ if op.f8f6f4 || op.kind == Kind::Scaled => Rule::Scaled,
        (_, Element::F32) => Rule::Chain,
        (Family::Cdna1 | Family::Cdna2, _) => Rule::Tree,
        (Family::Cdna3 | Family::Cdna4, Element::Xf32) => Rule::Fused(4),
        (Family::Cdna3 | Family::Cdna4, Element::F16 | Element::Bf16) => Rule::Fused(8),
        (Family::Cdna3 | Family::Cdna4, _) => Rule::FusedByParity,
        _ => Rule::Chain,
    }
}

/// Instructions that take long: with all their products, and with one helper thread that takes those that the wave does not
/// keep, always and where it was measured to gain.
///
/// # Errors
/// They do not execute.
pub fn helpers(repeat: u32) -> anyhow::Result<()> {
    println!(
        "== helpers: four independent instructions in a loop of a wave, ns each, medians: alone; with one helper thread always, \
         in brackets the part that it executed; where that was measured to gain"
    );
    for (target, name) in [
        ("gfx950", "v_mfma_f32_32x32x64_f8f6f4"),
        ("gfx950", "v_mfma_f32_16x16x128_f8f6f4"),
        ("gfx942", "v_mfma_f32_32x32x8_f16"),
        ("gfx942", "v_mfma_f32_32x32x16_fp8_fp8"),
        ("gfx942", "v_mfma_f32_16x16x32_fp8_fp8"),
        ("gfx942", "v_mfma_i32_32x32x16_i8"),
        ("gfx90a", "v_mfma_f32_32x32x8f16"),
        ("gfx1250", "v_wmma_f32_16x16x128_fp8_fp8"),
        ("gfx1201", "v_wmma_f32_16x16x16_f16"),
    ] {
        let op = Family::from_target(target)
            .and_then(|family| MatrixOp::from_mnemonic(name, family))
            .and_then(|op| op.with_formats(0, 0));
        let Some(op) = op else {
            println!("{name}: not known");
            continue;
        };
        let mut line = format!("{name:<34} {target:<8}");
        for (data, what) in [(Data::Normal, ""), (Data::Whole, "; exact sums:")] {
            let [a, b, d] = operands(&op, data);
            let looped = compiled::Looped {
                target: target.parse().map_err(|_| anyhow::anyhow!("{target}"))?,
                name,
                op: &op,
                backend: Backend::best(),
            };
            line += what;
            for policy in [None, Some(Policy::Always), Some(Policy::Measured)] {
                let pool = policy.map(|policy| Arc::new(Helpers::new(policy)));
                let (times, helped) = std::thread::scope(|scope| {
                    if let Some(pool) = &pool {
                        pool.expect_one();
                        scope.spawn(|| pool.serve());
                    }
                    let data = ([&a[..], &b[..], &d[..]], compiled::Common::Nothing);
                    let times = looped.times(data, repeat, pool.as_ref());
                    if let Some(pool) = &pool {
                        pool.close();
                    }
                    times
                })?;
                line += &format!(" {:6.0}", times[times.len() / 2]);
                if policy.is_some() {
                    line += &format!(" ({:2.0} %)", 100.0 * helped);
                }
            }
        }
        println!("{line}");
    }
    Ok(())
}

/// Every type on every target, on every vector back end, by its own rule and with `--fast-matrix`.
pub fn instructions(repeat: u32) {
    println!(
        "== matrix instructions alone, GMAC/s: native f32 FMA loop, native loop of the same rule (operands in the first \
         cache, sums in registers), where these are quick the same loop with sums loaded and stored for each instruction; then per back end normal numbers | small whole numbers, each in percent of the \
         native loop of the same rule, a compiled loop of four such instructions of a wave with the same A and B (or with their own, \
         or with the same accumulators, or of numbers 64 times as large, or of whole ones), and fast matrix products in percent of the FMA loop"
    );
    for (target, name, format) in INSTRUCTIONS {
        let op = Family::from_target(target)
            .and_then(|family| MatrixOp::from_mnemonic(name, family))
            .and_then(|op| op.with_formats(format, format));
        let Some(op) = op else {
            println!("{name}: not known");
            continue;
        };
        let madds = op.m * op.n * op.stored_k() * op.blocks;
        let peak = native::fma(madds as u64, repeat);
        let rule = rule(&op);
        let same = rules::time(rule, madds, repeat).unwrap_or(f64::NAN);
        let words = op.m * op.n * op.blocks * op.d.bits().div_ceil(32);
        let through_memory = rules::time_through_memory(rule, op.stored_k(), words, repeat);
        let rate = |ns: f64| madds as f64 / ns;
        let format = if op.f8f6f4 {
            format!(" {:?}", op.a)
        } else {
            String::new()
        };
        let mut line = format!(
            "{:<42} {target:<8} FMA {:6.1}, {rule:?} {:6.1}",
            format!("{name}{format}"),
            rate(peak),
            rate(same)
        );
        if let Some(ns) = through_memory {
            line += &format!(" (C, D in memory {:6.1})", rate(ns));
        }
        let mut fast = op;
        fast.mods.fast = true;
        for backend in Backend::supported().filter(|&backend| backend != Backend::Scalar) {
            let [normal, whole] =
                [Data::Normal, Data::Whole].map(|data| instruction(&op, backend, data, repeat));
            line += &format!(
                "  {backend} {:6.1} | {:6.1} ({:3.0} % | {:3.0} %)",
                rate(normal),
                rate(whole),
                same / normal * 100.0,
                same / whole * 100.0
            );
            if let Some(ns) = through_memory {
                line += &format!(" ({:3.0} % in memory)", ns / normal * 100.0);
            }
            let in_a_wave =
                |data, common| in_a_wave((target, name), &op, backend, (data, common), repeat);
            if let Some(ns) = in_a_wave(Data::Normal, Common::Inputs) {
                line += &format!(" in a loop {:6.1} ({:3.0} %", rate(ns), same / ns * 100.0);
                for (what, data, common) in [
                    ("own A and B", Data::Normal, Common::Nothing),
                    ("along K", Data::Normal, Common::Sums),
                    ("large", Data::Large, Common::Inputs),
                    ("whole", Data::Whole, Common::Inputs),
                ] {
                    if op.a.is_integer() && data != Data::Normal {
                        continue;
                    }
                    let ns = in_a_wave(data, common).unwrap_or(f64::NAN);
                    line += &format!("; {what} {:3.0} %", same / ns * 100.0);
                }
                line += ")";
                if let Some(native) = through_memory {
                    line += &format!(" ({:3.0} % in memory)", native / ns * 100.0);
                }
            }
            if matches!(rule, Rule::Tree | Rule::Fused(_) | Rule::FusedByParity) {
                let fast = instruction(&fast, backend, Data::Normal, repeat);
                line += &format!(" fast {:6.1} ({:3.0} %)", rate(fast), peak / fast * 100.0);
            }
        }
        println!("{line}");
    }
}
