//! Whole processes: wall time and peak memory of `rocjitsu launch`.
//! Peak memory is what the process itself reports (VmHWM): the parent's view would include its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// What one process took.
pub struct Run {
    /// The whole process, in milliseconds.
    pub wall_ms: f64,
    /// The dispatch, in seconds.
    pub seconds: f64,
    /// Peak memory in bytes.
    pub peak_bytes: u64,
    /// Wave instructions executed.
    pub instructions: u64,
    pages: u64,
}

/// The `rocjitsu` beside this program.
pub fn program() -> Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name("rocjitsu");
    ensure!(
        program.exists(),
        "{} is not there: run `cargo build --release` first",
        program.display()
    );
    Ok(program)
}

/// Runs `rocjitsu launch --json` on a description with so many worker threads.
///
/// # Errors
/// The process fails, or prints no report.
pub fn launch(program: &Path, description: &Path, threads: &str, more: &[&str]) -> Result<Run> {
    let start = Instant::now();
    let output = Command::new(program)
        .arg("launch")
        .arg(description)
        .args(["--json", "--threads", threads])
        .args(more)
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let wall_ms = start.elapsed().as_secs_f64() * 1e3;
    ensure!(
        output.status.success(),
        "`rocjitsu launch {}` failed: {}",
        description.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    let report: Value = serde_json::from_slice(&output.stdout).context("the report is no JSON")?;
    let number = |key: &str| {
        report[key]
            .as_f64()
            .with_context(|| format!("the report has no `{key}`"))
    };
    Ok(Run {
        wall_ms,
        seconds: number("seconds")?,
        peak_bytes: number("peak_resident_bytes")? as u64,
        instructions: number("wave_instructions")? as u64,
        pages: number("peak_register_pages")? as u64,
    })
}

/// Bytes in MiB.
pub fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// An empty kernel on GPUs of different sizes: prints the least wall time and peak memory over several runs.
pub fn start(data: &Path, repeat: u32) -> Result<()> {
    println!("== start: `rocjitsu launch` on an empty kernel, one process each");
    for (gpu, run) in starts(data, repeat)? {
        println!(
            "{gpu:<8} {:6.2} ms wall, {:6.1} MiB peak",
            run.wall_ms,
            mib(run.peak_bytes)
        );
    }
    Ok(())
}

/// An empty kernel on GPUs of different sizes: the least wall time and the least peak memory of `repeat` runs.
pub fn starts(data: &Path, repeat: u32) -> Result<Vec<(&'static str, Run)>> {
    let program = program()?;
    let path = data.join("perf/built/empty_1.json");
    let mut all = Vec::new();
    for (gpu, target) in [
        ("mi210", "gfx90a"),
        ("mi300x", "gfx942"),
        ("mi355x", "gfx950"),
        ("r9700", "gfx1201"),
        ("mi455x", "gfx1250"),
    ] {
        let arguments = ["--target", target, "--gpu", gpu];
        let mut best = launch(&program, &path, "1", &arguments)?;
        for _ in 1..repeat {
            let run = launch(&program, &path, "1", &arguments)?;
            best.wall_ms = best.wall_ms.min(run.wall_ms);
            best.peak_bytes = best.peak_bytes.min(run.peak_bytes);
        }
        all.push((gpu, best));
    }
    Ok(all)
}

/// The register-saturation kernels, registers allocated when they are first written (lazy) or all at once when a wave
/// starts (eager): seconds of the dispatch and peak memory of the process.
pub fn registers(data: &Path, repeat: u32) -> Result<()> {
    println!(
        "== registers: lazy beside eager allocation, one thread, one process each (gfx942, wave64)"
    );
    let program = program()?;
    for kernel in [
        "regs_8_once",
        "regs_8_rounds",
        "regs_64_once",
        "regs_64_rounds",
        "regs_252_once",
        "regs_252_rounds",
        "regs_512_once",
        "regs_512_rounds",
    ] {
        let path = data.join(format!("perf/built/{kernel}_w64.json"));
        let mut best: [Option<Run>; 2] = [None, None];
        // Alternate, so that a change of the host's speed hits both.
        for _ in 0..repeat.max(1) {
            for (slot, flags) in best.iter_mut().zip([&[][..], &["--eager-registers"][..]]) {
                let mut more = vec!["--target", "gfx942", "--check", "--repeat", "10"];
                more.extend(flags);
                let run = launch(&program, &path, "1", &more)?;
                if slot.as_ref().is_none_or(|b| run.seconds < b.seconds) {
                    *slot = Some(run);
                }
            }
        }
        if let [Some(lazy), Some(eager)] = best {
            let show = |run: &Run| {
                format!(
                    "{:8.3} ms {:4} pages {:5.1} MiB",
                    run.seconds * 1e3,
                    run.pages,
                    mib(run.peak_bytes)
                )
            };
            let ratio = lazy.seconds / eager.seconds;
            println!(
                "{kernel:<16} lazy {}   eager {}   time ratio {ratio:.3}",
                show(&lazy),
                show(&eager)
            );
        }
    }
    Ok(())
}
