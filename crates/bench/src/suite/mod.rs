//! The whole benchmark suite: one table, a JSON file and a page with plots.
//! Every launch is a process of its own, so that its peak memory is its own.

mod page;
mod peers;
mod rows;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rocjitsu_lanes::Backend;
use serde::Serialize;
use serde_json::Value;

use crate::native;
use crate::processes::{self, Run};
use peers::Peers;
use rows::{ROWS, Row};

/// What the suite is asked to do.
pub struct Options {
    /// The folder with the kernels.
    pub data: PathBuf,
    /// The rows of a run under five minutes only.
    pub quick: bool,
    /// Launches of each row of which the fastest counts.
    pub repeat: u32,
    /// Folder for `bench.json` and `bench.html`.
    pub out: PathBuf,
    /// A checkout of tinygrad, whose emulator runs the same code objects.
    pub tinygrad: Option<PathBuf>,
    /// The Python interpreter for peers.
    pub python: PathBuf,
    /// Whether a goal that is missed is an error.
    pub strict: bool,
}

/// The machine that the figures were taken on.
#[derive(Serialize)]
struct Host {
    cpu: String,
    threads: usize,
    lane_back_end: &'static str,
    /// f32 FMA throughput of a native loop, one thread, GFLOP/s.
    peak_one_thread: f64,
    /// The same on all threads at once, GFLOP/s.
    peak_all_threads: f64,
}

/// The figures of one row.
#[derive(Serialize)]
struct Figures {
    group: &'static str,
    kernel: &'static str,
    target: &'static str,
    wave_instructions: u64,
    /// Seconds of the dispatch on one thread.
    seconds: f64,
    /// Seconds of the dispatch on all threads.
    seconds_all_threads: f64,
    million_instructions_per_second: f64,
    gflops: Option<f64>,
    /// GFLOP/s over the host's f32 FMA peak on one thread.
    of_peak: Option<f64>,
    peak_mib: f64,
    scaling: f64,
    /// tinygrad's emulator on the same code object: million wave instructions a second.
    tinygrad_million_per_second: Option<f64>,
    /// Ours over tinygrad's, in wave instructions a second.
    over_tinygrad: Option<f64>,
    /// Goals that were not reached.
    missed: Vec<String>,
    /// Whether anything was asked of this row.
    has_goal: bool,
}

/// Launch of an empty kernel as a process.
#[derive(Serialize)]
struct Start {
    gpu: &'static str,
    wall_ms: f64,
    peak_mib: f64,
}

/// Everything that was measured.
#[derive(Serialize)]
struct Results {
    host: Host,
    rows: Vec<Figures>,
    start: Vec<Start>,
    /// NumPy's f32 products on this host: size, seconds.
    numpy: Vec<(u32, f64)>,
    seconds_of_the_suite: f64,
}

/// Runs the suite, prints the table and writes the files.
///
/// # Errors
/// A launch that fails or gives wrong results, files that cannot be written, missed goals if they are asked to be
/// errors. A peer that cannot run is left out, with a line that says why.
pub fn run(options: &Options) -> Result<()> {
    let begin = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let host = Host {
        cpu: cpu_name(),
        threads,
        lane_back_end: Backend::best().name(),
        peak_one_thread: native::peak_gflops(1, options.repeat),
        peak_all_threads: native::peak_gflops(threads, options.repeat),
    };
    println!(
        "{}, {} threads, {}; native f32 FMA loop {:.0} GFLOP/s on one thread, {:.0} on all",
        host.cpu, host.threads, host.lane_back_end, host.peak_one_thread, host.peak_all_threads
    );
    let peers = Peers::new(options)?;
    let mut figures = Vec::new();
    let mut group = "";
    for row in ROWS.iter().filter(|row| row.quick || !options.quick) {
        if row.group != group {
            group = row.group;
            println!("\n{group}\n{}", Figures::HEAD);
        }
        let measured = measure(row, options, &host, &peers)
            .with_context(|| format!("{} on {}", row.kernel, row.target))?;
        println!("{}", measured.line());
        figures.push(measured);
    }
    let start = processes::starts(&options.data, options.repeat)?
        .into_iter()
        .map(|(gpu, run)| Start {
            gpu,
            wall_ms: run.wall_ms,
            peak_mib: processes::mib(run.peak_bytes),
        })
        .collect::<Vec<_>>();
    println!("\nLaunch of an empty kernel, as a process");
    for start in &start {
        println!(
            "{:<12} {:7.2} ms {:7.1} MiB",
            start.gpu, start.wall_ms, start.peak_mib
        );
    }
    let numpy = peers.numpy();
    for (size, seconds) in &numpy {
        println!("numpy f32 product {size:>5}^3: {:.2} ms", seconds * 1e3);
    }
    let results = Results {
        host,
        rows: figures,
        start,
        numpy,
        seconds_of_the_suite: begin.elapsed().as_secs_f64(),
    };
    write(options, &results)?;
    let missed: Vec<String> = results
        .rows
        .iter()
        .filter(|row| !row.missed.is_empty())
        .map(|row| {
            format!(
                "{} on {}: {}",
                row.kernel,
                row.target,
                row.missed.join(", ")
            )
        })
        .collect();
    ensure!(
        !options.strict || missed.is_empty(),
        "{} goals were missed:\n{}",
        missed.len(),
        missed.join("\n")
    );
    Ok(())
}

fn write(options: &Options, results: &Results) -> Result<()> {
    std::fs::create_dir_all(&options.out)
        .with_context(|| format!("cannot make {}", options.out.display()))?;
    let json = options.out.join("bench.json");
    let text = serde_json::to_string_pretty(results)?;
    std::fs::write(&json, text).with_context(|| format!("cannot write {}", json.display()))?;
    let page = options.out.join("bench.html");
    std::fs::write(&page, page::html(results))
        .with_context(|| format!("cannot write {}", page.display()))?;
    println!(
        "\n{:.0} s; {} and {}",
        results.seconds_of_the_suite,
        json.display(),
        page.display()
    );
    Ok(())
}

/// The fastest of several processes with `threads` workers; every one checks its outputs.
fn fastest(program: &Path, row: &Row, path: &Path, threads: usize, repeat: u32) -> Result<Run> {
    let threads = threads.to_string();
    let mut best: Option<Run> = None;
    for _ in 0..repeat.max(1) {
        let run = processes::launch(
            program,
            path,
            &threads,
            &["--target", row.target, "--check", "--repeat", "3"],
        )?;
        if best.as_ref().is_none_or(|best| run.seconds < best.seconds) {
            best = Some(run);
        }
    }
    best.context("no run")
}

fn measure(row: &Row, options: &Options, host: &Host, peers: &Peers) -> Result<Figures> {
    let program = processes::program()?;
    let path = options
        .data
        .join(row.folder)
        .join("built")
        .join(format!("{}.json", row.kernel));
    let one = fastest(&program, row, &path, 1, options.repeat)?;
    let all = fastest(&program, row, &path, host.threads, options.repeat)?;
    let rate = one.instructions as f64 / one.seconds / 1e6;
    let gflops = flops(&path)?.map(|flops| flops / one.seconds / 1e9);
    let scaling = one.seconds / all.seconds;
    let tinygrad = if row.peer {
        peers.tinygrad(row, &path, one.instructions)
    } else {
        None
    };
    let mut missed = Vec::new();
    let goal = &row.goal;
    if let Some(limit) = goal.seconds.filter(|limit| one.seconds > *limit) {
        missed.push(format!("at most {limit} s on one thread"));
    }
    let peak_mib = processes::mib(one.peak_bytes);
    if let Some(limit) = goal.mib.filter(|limit| peak_mib > *limit) {
        missed.push(format!("at most {limit} MiB"));
    }
    let many = one.workgroups >= rows::MANY;
    let asked = goal.scaling.or(many.then_some(rows::OF_MANY));
    let asked = asked.filter(|_| host.threads >= 2);
    // As far as the host's memory lets any two threads.
    let asked = asked.map(|limit| match goal.copies {
        Some(bytes) => limit.min(native::copy_scaling(bytes, options.repeat.max(5))),
        None => limit,
    });
    if let Some(limit) = asked.filter(|limit| scaling < *limit) {
        missed.push(format!("all threads at least {limit:.2} times one"));
    }
    let over = tinygrad.map(|peer| rate / peer);
    if over.is_some_and(|over| over < 20.0) {
        missed.push("at least 20 times tinygrad's emulator".into());
    }
    Ok(Figures {
        group: row.group,
        kernel: row.kernel,
        target: row.target,
        wave_instructions: one.instructions,
        seconds: one.seconds,
        seconds_all_threads: all.seconds,
        million_instructions_per_second: rate,
        gflops,
        of_peak: gflops.map(|gflops| gflops / host.peak_one_thread),
        peak_mib,
        scaling,
        tinygrad_million_per_second: tinygrad,
        over_tinygrad: over,
        missed,
        has_goal: *goal != rows::Goal::default() || many || tinygrad.is_some(),
    })
}

/// Floating-point operations that a description states for its kernel.
fn flops(path: &Path) -> Result<Option<f64>> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let description: Value = serde_json::from_slice(&text)?;
    Ok(description["estimate"]["flops"].as_f64())
}

impl Figures {
    const HEAD: &str = "kernel                       target   1 thread ms  all ms  scaling  M instr/s  GFLOP/s  of peak    MiB  \
                        tinygrad M/s  ratio";

    fn line(&self) -> String {
        let optional = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        };
        let mut line = format!(
            "{:<28} {:<8} {:11.3} {:7.3} {:8.2} {:10.1} {:>8} {:>8} {:6.1} {:>13} {:>6}",
            self.kernel,
            self.target,
            self.seconds * 1e3,
            self.seconds_all_threads * 1e3,
            self.scaling,
            self.million_instructions_per_second,
            optional(self.gflops, 1),
            self.of_peak
                .map_or_else(|| "-".to_owned(), |part| format!("{:.0} %", part * 100.0)),
            self.peak_mib,
            optional(self.tinygrad_million_per_second, 3),
            optional(self.over_tinygrad, 0),
        );
        for missed in &self.missed {
            line += &format!("  MISSED: {missed}");
        }
        line
    }
}

/// The processor's name.
fn cpu_name() -> String {
    std::fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            text.lines()
                .find_map(|line| line.strip_prefix("model name"))
                .map(|rest| rest.trim_start_matches([' ', '\t', ':']).to_owned())
        })
        .unwrap_or_else(|| "unknown processor".to_owned())
}
