//! `rocjitsu config`: the presets, and what a configuration file amounts to.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use rocjitsu_config::{Gpu, PRESETS, preset};

use super::Status;
use super::gpu::read_config;
use crate::cli::UsageError;
use crate::output::{HEAD, Output, bytes, styled};

/// Arguments of `config`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A configuration file is JSON: a preset and what differs from it. Unknown keys are errors.

  {
    \"gpu\": \"mi300x\",
    \"overrides\": { \"compute_units\": 38, \"xccs\": 1, \"vram_bytes\": 25769803776 },
    \"threads\": 4
  }

Overrides: compute_units, waves_per_simd, lds_kib, vram_bytes, xccs, clock_mhz."
)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List the GPUs that can be simulated
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a preset, or the GPU that a configuration file describes
    Show {
        /// Name of a preset or path of a configuration file
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Prints presets or a configuration.
///
/// # Errors
///
/// A file that is no valid configuration; those of writing.
pub fn run(args: &Args, out: &mut Output) -> Result<Status> {
    match &args.action {
        Action::List { json } => list(*json, out)?,
        Action::Show { name, json } => show(name, *json, out)?,
    }
    Ok(Status::Good)
}

fn list(json: bool, out: &mut Output) -> Result<()> {
    let gpus: Vec<Gpu> = PRESETS.iter().map(|preset| preset.gpu()).collect();
    if json {
        return out.json(&gpus);
    }
    let head = format!(
        "{:<10} {:<8} {:>4} {:>4} {:>8} {:>10}  {}",
        "preset", "target", "CUs", "XCCs", "LDS", "memory", "product"
    );
    writeln!(out, "{}", styled(HEAD, head))?;
    for gpu in gpus {
        let (lds, memory) = (format!("{} KiB", gpu.lds_kib), bytes(gpu.vram_bytes));
        writeln!(
            out,
            "{:<10} {:<8} {:>4} {:>4} {lds:>8} {memory:>10}  {}",
            gpu.name, gpu.target, gpu.compute_units, gpu.xccs, gpu.product
        )?;
    }
    Ok(())
}

fn show(name: &str, json: bool, out: &mut Output) -> Result<()> {
    let path = PathBuf::from(name);
    let gpu = match preset(name) {
        Some(gpu) => gpu,
        None if path.exists() => read_config(&path)?.1,
        None => {
            return Err(UsageError(format!(
                "`{name}` is neither a preset (`rocjitsu config list`) nor a file"
            ))
            .into());
        }
    };
    if json {
        return out.json(&gpu);
    }
    writeln!(out, "{}", styled(HEAD, &gpu.product))?;
    for (key, value) in [
        ("preset", gpu.name.clone()),
        ("target", gpu.target.clone()),
        ("compute units", gpu.compute_units.to_string()),
        ("SIMDs per compute unit", gpu.simds_per_cu.to_string()),
        ("waves per SIMD", gpu.waves_per_simd.to_string()),
        ("LDS", format!("{} KiB", gpu.lds_kib)),
        (
            "memory",
            format!("{} ({})", gpu.vram_bytes, bytes(gpu.vram_bytes)),
        ),
        ("XCCs", gpu.xccs.to_string()),
        ("engine clock", format!("{} MHz", gpu.clock_mhz)),
        ("time counter", format!("{} kHz", gpu.counter_khz)),
    ] {
        writeln!(out, "  {key:<24}{value}")?;
    }
    Ok(())
}
