//! Builds the measured programs for release and runs the suite of `rocjitsu-bench`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Runs the suite; `more` goes on to `rocjitsu-bench suite`.
///
/// # Errors
/// The build or the suite fails.
pub fn run(root: &Path, more: &[&str]) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    step(
        Command::new(&cargo)
            .args([
                "build",
                "--release",
                "--locked",
                "-p",
                "rocjitsu",
                "-p",
                "rocjitsu-bench",
            ])
            .current_dir(root),
    )?;
    step(
        Command::new(&cargo)
            .args([
                "run",
                "--quiet",
                "--release",
                "--locked",
                "-p",
                "rocjitsu-bench",
                "--",
                "suite",
            ])
            .args(more)
            .current_dir(root),
    )
}

fn step(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    ensure!(status.success(), "{command:?} failed");
    Ok(())
}
