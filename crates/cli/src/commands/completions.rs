//! `rocjitsu completions`: a completion script for a shell.

use std::io::Write;

use anyhow::Result;
use clap::CommandFactory;

use super::Status;
use crate::cli::Cli;
use crate::output::Output;

/// Arguments of `completions`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

/// Prints the script.
///
/// # Errors
///
/// Those of writing.
pub fn run(args: &Args, out: &mut Output) -> Result<Status> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "rocjitsu", &mut script);
    out.write_all(&script)?;
    Ok(Status::Good)
}
