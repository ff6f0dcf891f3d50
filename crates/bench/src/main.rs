//! Speed and memory figures of rocjitsu, beside native loops measured in the same run.
//! `cargo run --release -p rocjitsu-bench -- help` lists the sections.

mod dispatch;
mod handover;
mod kernels;
mod loads;
mod matrix;
mod memory;
mod native;
mod processes;
mod rules;

use anyhow::Result;
use clap::Parser;

/// Measures rocjitsu. Each figure is the least of several runs; ratios are of figures of one run.
#[derive(Parser)]
struct Args {
    /// Sections: loops, matrix, handover, registers, corpus, dispatch, memory, start; all by default
    sections: Vec<String>,
    /// Runs of which the fastest counts
    #[arg(long, default_value_t = 5)]
    repeat: u32,
    /// The folder with the kernels
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data"))]
    data: std::path::PathBuf,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let wanted = |name: &str| args.sections.is_empty() || args.sections.iter().any(|s| s == name);
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
    if wanted("registers") {
        processes::registers(&args.data, args.repeat)?;
    }
    if wanted("corpus") {
        kernels::corpus(&args.data, args.repeat)?;
    }
    if wanted("dispatch") {
        dispatch::packets(args.repeat)?;
    }
    if wanted("memory") {
        memory::resolver(args.repeat)?;
    }
    if wanted("start") {
        processes::start(&args.data, args.repeat)?;
    }
    Ok(())
}
