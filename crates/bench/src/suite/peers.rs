//! Others on the same host in the same run: tinygrad's emulator on the same code objects, NumPy for scale.
//! They are used where they are installed; what cannot run is left out, and a line says why.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Options;
use super::rows::Row;

/// Runs a code object in tinygrad's emulator; see its own head.
const EMULATOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/tinygrad_emulator.py");
/// Times NumPy's f32 products.
const NUMPY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/numpy_products.py");

/// The peers of this run.
pub struct Peers {
    python: PathBuf,
    tinygrad: Option<PathBuf>,
    quick: bool,
}

impl Peers {
    /// # Errors
    /// A folder given for tinygrad that holds no emulator.
    pub fn new(options: &Options) -> Result<Peers> {
        if let Some(folder) = &options.tinygrad {
            let emulator = folder.join("test/mockgpu/amd/emu.py");
            ensure!(
                emulator.exists(),
                "{} is no checkout of tinygrad: {} is not there",
                folder.display(),
                emulator.display()
            );
        } else {
            println!(
                "tinygrad's emulator is left out: give a checkout of tinygrad with --tinygrad"
            );
        }
        Ok(Peers {
            python: options.python.clone(),
            tinygrad: options.tinygrad.clone(),
            quick: options.quick,
        })
    }

    /// Million wave instructions a second of tinygrad's emulator on a row's code object; `instructions` is
    /// how many the whole kernel executes.
    pub fn tinygrad(&self, row: &Row, description: &Path, instructions: u64) -> Option<f64> {
        let folder = self.tinygrad.as_ref()?;
        let limit = if self.quick { "5" } else { "20" };
        let report = self.python(
            Command::new(&self.python)
                .arg(EMULATOR)
                .arg(description)
                .arg(row.target)
                .arg(instructions.to_string())
                .arg(limit)
                .env("PYTHONPATH", folder)
                .env("PYTHONDONTWRITEBYTECODE", "1"),
        );
        match report.and_then(|report| {
            report["instructions_per_second"]
                .as_f64()
                .context("no `instructions_per_second` in its report")
        }) {
            Ok(rate) => Some(rate / 1e6),
            Err(error) => {
                println!("tinygrad's emulator is left out of the next row: {error:#}");
                None
            }
        }
    }

    /// NumPy's f32 products: size and seconds.
    pub fn numpy(&self) -> Vec<(u32, f64)> {
        let report = self.python(Command::new(&self.python).arg(NUMPY));
        match report {
            Ok(report) => {
                let sizes = report.as_object().into_iter().flatten();
                let mut times: Vec<(u32, f64)> = sizes
                    .filter_map(|(size, seconds)| Some((size.parse().ok()?, seconds.as_f64()?)))
                    .collect();
                times.sort_by_key(|(size, _)| *size);
                times
            }
            Err(error) => {
                println!("NumPy is left out: {error:#}");
                Vec::new()
            }
        }
    }

    fn python(&self, command: &mut Command) -> Result<Value> {
        let output = command
            .output()
            .with_context(|| format!("cannot start {}", self.python.display()))?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "{}",
            errors.lines().last().unwrap_or("no message")
        );
        serde_json::from_slice(&output.stdout).context("its report is no JSON")
    }
}
