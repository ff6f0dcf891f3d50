//! `rocjitsu config`: the presets, what a configuration amounts to, and whether files are right.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rocjitsu_config::{Config, ConfigError, Gpu, Machine, PRESETS, preset};
use serde_json::json;

use super::Status;
use super::gpu::{read_config, show_warnings};
use crate::cli::UsageError;
use crate::output::{BAD, GOOD, HEAD, Output, bytes, styled};

/// Arguments of `config`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A configuration file is JSON: presets, what differs from them, and how to run.

  {
    \"gpu\": \"mi300x\", \"num_gpus\": 2,
    \"overrides\": { \"compute_units\": 38, \"xccs\": 1, \"vram_bytes\": 25769803776 },
    \"threads\": 4
  }

Files of AMD's rocjitsu (with `vm` and `topology`) load as they are. Unknown keys are errors;
docs/configuration.md lists every key."
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
    /// Show a preset, or the machine that a configuration file describes
    Show {
        /// Name of a preset or path of a configuration file
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check configuration files: status 1 if one is wrong
    Check {
        /// The files
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Take warnings for errors
        #[arg(long)]
        strict: bool,
    },
}

/// Prints presets or a configuration, or checks files.
///
/// # Errors
///
/// A file that is no valid configuration; those of writing.
pub fn run(args: &Args, out: &mut Output) -> Result<Status> {
    match &args.action {
        Action::List { json } => list(*json, out)?,
        Action::Show { name, json } => show(name, *json, out)?,
        Action::Check { files, strict } => return check(files, *strict, out),
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
    if let Some(gpu) = preset(name) {
        return if json {
            out.json(&gpu)
        } else {
            describe(&gpu, out)
        };
    }
    let path = Path::new(name);
    if !path.exists() {
        return Err(UsageError(format!(
            "`{name}` is neither a preset (`rocjitsu config list`) nor a file"
        ))
        .into());
    }
    let config = read_config(path)?;
    let machine = config.machine()?;
    if json {
        return out.json(&json!({
            "gpus": machine.gpus,
            "cpu": machine.cpu,
            "options": machine.options,
            "warnings": config.warnings,
        }));
    }
    show_warnings(path, &config);
    for (gpu, count) in kinds(&config) {
        if count > 1 {
            write!(out, "{count} × ")?;
        }
        describe(&gpu, out)?;
    }
    describe_rest(&machine, out)
}

/// The cards that differ, with their number, in order.
fn kinds(config: &Config) -> Vec<(Gpu, usize)> {
    let mut kinds: Vec<(Gpu, usize)> = Vec::new();
    for (card, _) in &config.cards {
        match kinds.iter_mut().find(|(gpu, _)| gpu == card) {
            Some((_, count)) => *count += 1,
            None => kinds.push((card.clone(), 1)),
        }
    }
    kinds
}

fn describe(gpu: &Gpu, out: &mut Output) -> Result<()> {
    writeln!(out, "{}", styled(HEAD, &gpu.product))?;
    let id = &gpu.identity;
    let modes: Vec<_> = gpu.partition.modes.iter().map(|mode| mode.name()).collect();
    let caches: Vec<_> = gpu
        .caches
        .iter()
        .map(|cache| format!("L{} {:?} {} KiB", cache.level, cache.kind, cache.kib))
        .collect();
    for (key, value) in [
        ("preset", gpu.name.clone()),
        ("target", gpu.target.clone()),
        ("compute units", gpu.compute_units.to_string()),
        (
            "of an XCC",
            format!(
                "{} shader engines, {} arrays of {} places each",
                gpu.shader_engines, gpu.arrays_per_engine, gpu.cus_per_array
            ),
        ),
        ("SIMDs per compute unit", gpu.simds_per_cu.to_string()),
        ("waves per SIMD", gpu.waves_per_simd.to_string()),
        ("LDS", format!("{} KiB", gpu.lds_kib)),
        (
            "memory",
            format!("{} ({})", gpu.vram_bytes, bytes(gpu.vram_bytes)),
        ),
        (
            "memory bus",
            format!(
                "{:?}, {} bits, {} MHz",
                gpu.memory.kind, gpu.memory.width_bits, gpu.memory.clock_mhz
            ),
        ),
        ("caches", caches.join(", ")),
        ("XCCs", gpu.xccs.to_string()),
        ("partitions", modes.join(", ")),
        (
            "copy engines",
            format!(
                "{} and {} for XGMI",
                gpu.sdma.engines, gpu.sdma.xgmi_engines
            ),
        ),
        ("engine clock", format!("{} MHz", gpu.clock_mhz)),
        ("time counter", format!("{} kHz", gpu.counter_khz)),
        (
            "PCI",
            format!(
                "{:04x}:{:04x} revision {:02x}",
                id.vendor_id, id.device_id, id.pci_revision
            ),
        ),
    ] {
        writeln!(out, "  {key:<24}{value}")?;
    }
    Ok(())
}

fn describe_rest(machine: &Machine, out: &mut Output) -> Result<()> {
    writeln!(out, "{}", styled(HEAD, "Nodes"))?;
    for gpu in &machine.gpus {
        let id = &gpu.identity;
        let part = if gpu.partition.count > 1 {
            format!(
                ", part {} of {} ({})",
                gpu.partition.index + 1,
                gpu.partition.count,
                gpu.partition.mode.name()
            )
        } else {
            String::new()
        };
        writeln!(
            out,
            "  renderD{:<17}{} at {}, id {}, {} compute units{part}",
            id.render_minor,
            gpu.name,
            gpu.pci_address(),
            id.gpu_id,
            gpu.compute_units
        )?;
    }
    writeln!(out, "{}", styled(HEAD, "Options"))?;
    let options = &machine.options;
    let or_host = |value: Option<String>| value.unwrap_or_else(|| "as the host has".to_owned());
    for (key, value) in [
        (
            "processor",
            format!(
                "{} cores, {}",
                machine.cpu.cores,
                bytes(machine.cpu.memory_bytes)
            ),
        ),
        (
            "threads",
            or_host(options.threads.map(|threads| threads.to_string())),
        ),
        ("lanes", or_host(options.lanes.clone())),
        ("driver interface", options.kfd_version.to_string()),
        ("shared virtual memory", options.svm.to_string()),
    ] {
        writeln!(out, "  {key:<24}{value}")?;
    }
    Ok(())
}

fn check(files: &[PathBuf], strict: bool, out: &mut Output) -> Result<Status> {
    let mut status = Status::Good;
    for path in files {
        match Config::read(path) {
            Ok(config) => {
                let bad = strict && !config.warnings.is_empty();
                let cards: Vec<_> = kinds(&config)
                    .into_iter()
                    .map(|(gpu, count)| format!("{count} × {}", gpu.name))
                    .collect();
                let (style, word) = if bad { (BAD, "wrong") } else { (GOOD, "good") };
                writeln!(
                    out,
                    "{} {}: {}",
                    styled(style, word),
                    path.display(),
                    if cards.is_empty() {
                        "no GPU".to_owned()
                    } else {
                        cards.join(", ")
                    }
                )?;
                for warning in &config.warnings {
                    writeln!(out, "  warning: {warning}")?;
                }
                if bad {
                    status = Status::Bad;
                }
            }
            Err(error) => {
                status = Status::Bad;
                let text = match error {
                    ConfigError::Value { .. } | ConfigError::Read { .. } => error.to_string(),
                    other => format!("{}: {other}", path.display()),
                };
                writeln!(out, "{} {text}", styled(BAD, "wrong"))?;
            }
        }
    }
    Ok(status)
}
