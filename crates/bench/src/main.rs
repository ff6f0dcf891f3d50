//! Speed and memory figures of rocjitsu, beside native loops measured in the same run.
//! `cargo run --release -p rocjitsu-bench -- --help` lists the sections.

mod compiled;
mod dispatch;
mod driver;
mod handover;
mod kernels;
mod limits;
mod loads;
mod matrix;
mod memory;
mod native;
mod plugins;
mod processes;
mod rules;
mod suite;

use anyhow::Result;
use clap::Parser;

/// Measures rocjitsu. Each figure is the least of several runs; ratios are of figures of one run.
#[derive(Parser)]
struct Args {
    /// What to measure; by default everything but the suite
    #[arg(value_parser = SECTIONS)]
    sections: Vec<String>,
    /// Runs of which the fastest counts
    #[arg(long, default_value_t = 5)]
    repeat: u32,
    /// The folder with the kernels
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data"))]
    data: std::path::PathBuf,
    /// Of programs: a root that scripts/rocm-root/make-rocm-root made
    #[arg(long, env = "ROCM_ROOT", default_value = "/var/lib/rocm-root")]
    root: std::path::PathBuf,
    /// Of the suite: the rows of a run under five minutes only
    #[arg(long)]
    quick: bool,
    /// Of the suite: folder for bench.json and bench.html
    #[arg(long, default_value = "target/bench")]
    out: std::path::PathBuf,
    /// Of the suite: a checkout of tinygrad, whose emulator runs the same code objects
    #[arg(long, env = "ROCJITSU_TINYGRAD")]
    tinygrad: Option<std::path::PathBuf>,
    /// Of the suite: the Python interpreter for peers
    #[arg(long, default_value = "python3")]
    python: std::path::PathBuf,
    /// A goal of the suite that is missed, or a limit of driver, programs or memory that is broken, is an error
    #[arg(long)]
    strict: bool,
}

/// What may be measured.
const SECTIONS: [&str; 13] = [
    "loops",
    "matrix",
    "handover",
    "helpers",
    "registers",
    "corpus",
    "dispatch",
    "driver",
    "programs",
    "memory",
    "start",
    "plugins",
    "suite",
];

fn main() -> Result<()> {
    let args = Args::parse();
    if args.sections.iter().any(|s| s == "suite") {
        suite::run(&suite::Options {
            data: args.data.clone(),
            quick: args.quick,
            repeat: args.repeat,
            out: args.out.clone(),
            tinygrad: args.tinygrad.clone(),
            python: args.python.clone(),
            strict: args.strict,
        })?;
    }
    let wanted = |name: &str| args.sections.is_empty() || args.sections.iter().any(|s| s == name);
    let mut limits = limits::Limits::default();
    if wanted("loops") {
        kernels::loops(&args.data, args.repeat)?;
        loads::contiguous(args.repeat)?;
    }
    if wanted("matrix") {
        matrix::instructions(args.repeat);
    }
    if wanted("handover") {
        handover::latency(args.repeat)?;
    }
    if wanted("helpers") {
        matrix::helpers(args.repeat)?;
    }
    if wanted("registers") {
        processes::registers(&args.data, args.repeat)?;
    }
    if wanted("corpus") {
        kernels::corpus(&args.data, args.repeat)?;
    }
    if wanted("dispatch") {
        dispatch::packets(args.repeat)?;
    }
    if wanted("driver") {
        driver::all(args.repeat, &mut limits)?;
    }
    if wanted("programs") {
        processes::programs(args.repeat, &args.root, &mut limits)?;
    }
    if wanted("memory") {
        memory::resolver(args.repeat, &mut limits)?;
    }
    if wanted("plugins") {
        plugins::costs(&args.data, args.repeat)?;
    }
    if wanted("start") {
        processes::start(&args.data, args.repeat)?;
    }
    limits.finish(args.strict)
}
