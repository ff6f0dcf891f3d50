//! Kernels of `data/perf` and `data/corpus`, timed through the same interface as `rocjitsu launch`.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use rocjitsu_cli::engine::{Engine, Options};
use rocjitsu_cli::launch::Launch;
use rocjitsu_cli::launch::from_description::Selection;
use rocjitsu_cli::launch::place::Statistics;
use rocjitsu_config::preset_for_target;
use rocjitsu_gpu::dispatch::jit;
use rocjitsu_gpu::memory::Memory;
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;
use rocjitsu_observe::Silent;

use crate::native;

/// What computes lanes, and what is compiled.
#[derive(Clone, Copy)]
struct Executor {
    name: &'static str,
    backend: Backend,
    compiler: jit::Options,
}

/// The interpreter with each back end of the host, and the compiler where it has one.
fn executors() -> Vec<Executor> {
    let interpreter = |backend: Backend| Executor {
        name: backend.name(),
        backend,
        compiler: jit::Options::OFF,
    };
    let mut all: Vec<Executor> = Backend::supported().map(interpreter).collect();
    for backend in Backend::supported().filter(|&backend| backend != Backend::Scalar) {
        all.push(Executor {
            name: match backend {
                Backend::Avx512 => "compiled",
                _ => "compiled-avx2",
            },
            backend,
            ..best()
        });
    }
    all
}

/// What a launch uses if nothing else is asked for.
fn best() -> Executor {
    Executor {
        name: "compiled",
        backend: Backend::best(),
        compiler: jit::Options::default(),
    }
}

/// One kernel, timed: the fastest of `repeat` runs on one thread.
fn time(path: &Path, target: Target, executor: Executor, repeat: u32) -> Result<Statistics> {
    let launch = Launch::from_description(
        path,
        Selection {
            target,
            run_as: None,
        },
    )?;
    let gpu = preset_for_target(target.name()).ok_or_else(|| anyhow!("no preset for {target}"))?;
    let memory = Arc::new(Memory::new(gpu.vram_bytes));
    let engine = Engine::new(&gpu, target, executor.backend, executor.compiler, &memory)?;
    let placed = launch.place(&memory)?;
    let options = Options {
        threads: 1,
        eager_registers: false,
        observer: &Silent,
    };
    let mut best: Option<Statistics> = None;
    for _ in 0..repeat.max(1) {
        launch.fill_buffers(&memory, &placed)?;
        let run = engine.run(&launch, &placed, &options)?;
        if best.as_ref().is_none_or(|b| run.seconds < b.seconds) {
            best = Some(run);
        }
    }
    best.ok_or_else(|| anyhow!("no run"))
}

fn ns_each(run: &Statistics) -> f64 {
    run.seconds * 1e9 / run.wave_instructions.max(1) as f64
}

/// Loops of one kind of instruction, for each back end.
pub fn loops(data: &Path, repeat: u32) -> Result<()> {
    let native_valu = native::valu(repeat);
    let native_copy = native::copy(16 << 20, repeat);
    println!("== loops: ns per wave instruction of 64 lanes, one thread (gfx942)");
    println!(
        "native: {native_valu:.2} ns per lane operation on 64 lanes, the loop's own instructions included; {native_copy:.1} ns to copy 256 bytes of 16 MiB"
    );
    println!(
        "VALU, times native: all time of the kernel by its lane operations (a turn has 16, and 3 scalar instructions), over that of the native loop"
    );
    const KERNELS: [(&str, &str); 9] = [
        ("valu_mix_w64", "VALU, all lanes"),
        ("valu_mix_partial_w64", "VALU, half of the lanes"),
        ("pk_f16_loop_w64", "packed f16"),
        ("trans_loop_w64", "transcendental"),
        ("f64_loop_w64", "f64"),
        ("salu_loop_w64", "SALU"),
        ("lds_contiguous", "LDS, contiguous"),
        ("copy_dword", "global copy, 4 bytes a lane"),
        ("copy_dwordx4", "global copy, 16 bytes a lane"),
    ];
    for (kernel, what) in KERNELS {
        let path = data.join(format!("perf/built/{kernel}.json"));
        let mut line = format!("{what:<28}");
        for executor in executors() {
            match time(
                &path,
                Target::Gfx942,
                executor,
                if executor.backend == Backend::Scalar {
                    1
                } else {
                    repeat
                },
            ) {
                Ok(run) => {
                    line += &format!("  {} {:7.2}", executor.name, ns_each(&run));
                    // The native loop does what the kernel does in these only.
                    if kernel.starts_with("valu_mix") {
                        let valu = run.by_class.get("valu").copied().unwrap_or(0).max(1);
                        let times = run.seconds * 1e9 / valu as f64 / native_valu;
                        line += &format!(" ({times:5.1}x native)");
                    }
                }
                Err(error) => line += &format!("  {}: {error:#}", executor.name),
            }
        }
        println!("{line}");
    }
    println!(
        "== matrix loops: ns per instruction, beside the same multiply-adds in a native f32 FMA loop"
    );
    const MATRIX: [(&str, Target, u64); 18] = [
        ("mfma_f32_32x32x2", Target::Gfx90a, 2048),
        ("mfma_f32_32x32x2", Target::Gfx942, 2048),
        ("wmma_f32_16x16x4", Target::Gfx1250, 1024),
        ("mfma_f64_16x16x4", Target::Gfx942, 1024),
        ("mfma_f16_32x32x8", Target::Gfx90a, 8192),
        ("mfma_f16_32x32x8", Target::Gfx942, 8192),
        ("mfma_f16_32x32x16", Target::Gfx950, 16384),
        ("wmma_f16_16x16x16", Target::Gfx1201, 4096),
        ("wmma_f16_16x16x32", Target::Gfx1250, 8192),
        ("mfma_fp8_fnuz_16x16x32", Target::Gfx942, 8192),
        ("mfma_fp8_ocp_16x16x32", Target::Gfx950, 8192),
        ("wmma_fp8_16x16x16", Target::Gfx1201, 4096),
        ("wmma_fp8_16x16x64", Target::Gfx1250, 16384),
        ("mfma_i8_32x32x8", Target::Gfx90a, 8192),
        ("mfma_i8_32x32x16", Target::Gfx942, 16384),
        ("mfma_i8_32x32x16", Target::Gfx950, 16384),
        ("wmma_i8_16x16x16", Target::Gfx1201, 4096),
        ("wmma_i8_16x16x64", Target::Gfx1250, 16384),
    ];
    for (kernel, target, fmas) in MATRIX {
        let path = data.join(format!("perf/built/{kernel}.json"));
        let native = native::fma(fmas, repeat);
        let mut line = format!("{kernel:<24} {:<8} native {native:6.1}", target.name());
        for executor in executors() {
            match time(
                &path,
                target,
                executor,
                if executor.backend == Backend::Scalar {
                    1
                } else {
                    repeat
                },
            ) {
                Ok(run) => {
                    let count = run.by_class.get("matrix").copied().unwrap_or(0).max(1);
                    let each = run.seconds * 1e9 / count as f64;
                    line += &format!("  {} {each:9.1} ({:5.2}x)", executor.name, each / native);
                }
                Err(error) => line += &format!("  {}: {error:#}", executor.name),
            }
        }
        println!("{line}");
    }
    Ok(())
}

/// Every kernel of the corpus and the larger ones of the performance set on gfx942.
pub fn corpus(data: &Path, repeat: u32) -> Result<()> {
    println!(
        "== kernels: time and wave instructions, one thread, {} (gfx942)",
        Backend::best()
    );
    let mut paths = Vec::new();
    for folder in ["corpus", "perf"] {
        for entry in std::fs::read_dir(data.join(folder).join("built"))? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "json")
                && path.with_extension("gfx942.hsaco").exists()
            {
                paths.push(path);
            }
        }
    }
    paths.sort();
    for path in paths {
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        match time(&path, Target::Gfx942, best(), repeat.min(2)) {
            Ok(run) => println!(
                "{name:<32} {:10.3} ms {:>10} instructions {:8.1} M/s {:6.2} ns each",
                run.seconds * 1e3,
                run.wave_instructions,
                run.wave_instructions as f64 / run.seconds / 1e6,
                ns_each(&run)
            ),
            Err(error) => println!(
                "{name:<32} {}",
                format!("{error:#}").lines().next().unwrap_or_default()
            ),
        }
    }
    Ok(())
}
