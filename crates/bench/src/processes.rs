//! Whole processes: wall time and peak memory of `rocjitsu launch`.
//! Peak memory is what the process itself reports (VmHWM): the parent's view would include its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::limits::{Limits, START_MIB, START_MS};

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
    /// Workgroups of the dispatch.
    pub workgroups: u64,
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
    let grid = report["grid"]
        .as_array()
        .context("the report has no `grid`")?;
    Ok(Run {
        wall_ms,
        workgroups: grid.iter().filter_map(Value::as_u64).product(),
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

/// Whole programs with the library loaded into them: what loading it costs, and what the driver costs once a path of its
/// own is touched. Without ROCm: `cat` reads a file of the simulated topology and its own status. With a root that
/// `scripts/rocm-root/make-rocm-root` made: an empty HIP program, and our share of it.
pub fn programs(repeat: u32, root: &Path, limits: &mut Limits) -> Result<()> {
    println!(
        "== programs: `cat` beside `cat` with simulated GPUs (least of {repeat} runs, one process each)"
    );
    let library = program()?
        .with_file_name("deps")
        .join("librocjitsu_preload.so");
    ensure!(library.exists(), "{} is not there", library.display());
    const STATUS: &str = "/proc/self/status";
    const NODE: &str = "/sys/class/kfd/kfd/topology/nodes/1/properties";
    let mut base = (f64::INFINITY, u64::MAX);
    let mut loading = 0.0;
    for (what, gpu, files) in [
        ("without the library", None, &[STATUS][..]),
        ("with it, no GPU touched", Some("mi300x"), &[STATUS]),
        ("topology of a mi300x", Some("mi300x"), &[NODE, STATUS]),
        ("topology of a w7900", Some("w7900"), &[NODE, STATUS]),
    ] {
        let mut best = (f64::INFINITY, u64::MAX);
        for _ in 0..4 * repeat.max(1) {
            let (wall, peak) = cat(gpu.map(|gpu| (library.as_path(), gpu)), files)?;
            best = (best.0.min(wall), best.1.min(peak));
        }
        match files {
            _ if gpu.is_none() => base = best,
            [_] => loading = best.0 - base.0,
            _ => {}
        }
        println!(
            "{what:<26} {:7.2} ms wall, {:6.1} MiB peak; {:7.2} ms and {:6.1} MiB more",
            best.0,
            mib(best.1),
            best.0 - base.0,
            mib(best.1.saturating_sub(base.1))
        );
        if gpu.is_some() {
            let memory = mib(best.1.saturating_sub(base.1));
            limits.at_most(what, best.0 - base.0, START_MS, "ms more");
            limits.at_most(what, memory, START_MIB, "MiB more");
        }
    }
    for (gpu, target) in [("mi300x", "gfx942"), ("w7900", "gfx1100")] {
        let program = format!("opt/hip/empty.{target}");
        if !root.join(&program).exists() {
            println!(
                "no {program} in {}: `scripts/clients --gpu {gpu} hip` makes it",
                root.display()
            );
            continue;
        }
        let all = (0..repeat.max(1)).map(|_| hip(root, &library, gpu, &format!("/{program}")));
        let best = all.reduce(|a, b| Ok(a?.least(b?))).context("no run")??;
        println!(
            "empty HIP program, {gpu:<7} {:7.2} ms and {:6.1} MiB are ours: loading {loading:.2} ms and {:.1} MiB, {} calls {:.2} ms \
             and {:.1} MiB (threads of the driver: {:.2} ms of processor time); the whole process has {:.1} MiB at most",
            loading + best.seconds * 1e3,
            mib(best.loaded + best.resident),
            mib(best.loaded),
            best.calls,
            best.seconds * 1e3,
            mib(best.resident),
            best.thread_seconds * 1e3,
            mib(best.peak),
        );
        let (ours, memory) = (
            loading + best.seconds * 1e3,
            mib(best.loaded + best.resident),
        );
        limits.at_most(&format!("empty HIP program, {gpu}"), ours, START_MS, "ms");
        limits.at_most(
            &format!("empty HIP program, {gpu}"),
            memory,
            START_MIB,
            "MiB",
        );
    }
    Ok(())
}

/// Our share of a program, as the report of the run says; bytes.
struct Share {
    calls: u64,
    seconds: f64,
    thread_seconds: f64,
    loaded: u64,
    resident: u64,
    peak: u64,
}

impl Share {
    fn least(self, other: Self) -> Self {
        Share {
            calls: self.calls.min(other.calls),
            seconds: self.seconds.min(other.seconds),
            thread_seconds: self.thread_seconds.min(other.thread_seconds),
            loaded: self.loaded.min(other.loaded),
            resident: self.resident.min(other.resident),
            peak: self.peak.min(other.peak),
        }
    }
}

/// Runs a program of the root with the library loaded into it, which measures itself.
fn hip(root: &Path, library: &Path, gpu: &str, program: &str) -> Result<Share> {
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../scripts/rocm-root/in-rocm-root"
    );
    let output = Command::new("bash")
        .args([
            script.as_ref(),
            root.as_os_str(),
            "-p".as_ref(),
            library.as_os_str(),
        ])
        .args([
            "-e",
            &format!("ROCJITSU_CONFIG={gpu}"),
            "-e",
            "ROCJITSU_MEASURE=1",
        ])
        .args(["-e", "ROCJITSU_REPORT=/dev/stderr", "--", program])
        .output()
        .context("cannot start in-rocm-root")?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} failed: {text}");
    // Around the report there may be warnings of the runtime.
    let report = text.find("{\n").map_or("", |start| &text[start..]);
    let report: Value = serde_json::Deserializer::from_str(report)
        .into_iter()
        .next()
        .context("no report")?
        .context("the report is no JSON")?;
    let number = |value: &Value, key: &str| {
        let number = value[key].as_f64();
        number.with_context(|| format!("the report has no `{key}`"))
    };
    let own = &report["own"];
    let kib = |value, key| Ok::<_, anyhow::Error>((number(value, key)? * 1024.0) as u64);
    Ok(Share {
        calls: number(own, "calls")? as u64,
        seconds: number(own, "seconds")?,
        thread_seconds: number(own, "thread_seconds")?,
        loaded: kib(own, "loaded_kib")?,
        resident: kib(own, "resident_kib")?,
        peak: kib(&report, "peak_memory_kib")?,
    })
}

/// Milliseconds and peak bytes of a `cat` that reads its own status last.
fn cat(loaded: Option<(&Path, &str)>, files: &[&str]) -> Result<(f64, u64)> {
    let mut command = Command::new("cat");
    command.args(files).env_remove("ROCJITSU_REPORT");
    if let Some((library, gpu)) = loaded {
        command
            .env("LD_PRELOAD", library)
            .env("ROCJITSU_CONFIG", gpu);
    }
    let start = Instant::now();
    let output = command.output().context("cannot start cat")?;
    let wall = start.elapsed().as_secs_f64() * 1e3;
    ensure!(output.status.success(), "cat {files:?} failed");
    let text = String::from_utf8_lossy(&output.stdout);
    let peak = text
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next())
        .and_then(|kib| kib.parse::<u64>().ok())
        .context("no VmHWM in the status")?;
    Ok((wall, peak << 10))
}
