//! `rocjitsu doctor`: whether programs can run here, and what to do about what is missing.

mod host;
mod libraries;

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use rocjitsu_config::{Config, ConfigError};
use serde::Serialize;

use super::{Status, gpu};
use crate::cli::UsageError;
use crate::output::{BAD, DIM, GOOD, HEAD, Output, styled};

/// Arguments of `doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Status 1 if something essential is missing. \
    Libraries are looked for as the dynamic linker does: LD_LIBRARY_PATH, /opt/rocm*/lib, \
    the directories of ld.so.conf and the system's.")]
pub struct Args {
    /// GPU that programs are to run with (see `rocjitsu config list`)
    #[arg(long, value_name = "GPU", conflicts_with = "config", value_parser = gpu::known)]
    gpu: Option<String>,
    /// Preset or configuration file that programs are to run with; by default what
    /// ROCJITSU_CONFIG says, or mi300x
    #[arg(long, value_name = "GPU|FILE")]
    config: Option<String>,
    /// Look for libraries in this root file system (a chroot or a container's)
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Look for libraries in this directory too, for instance that of a Python package
    #[arg(long, value_name = "DIR")]
    library_dir: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// In order.
    Good,
    /// Some programs will miss it.
    Warning,
    /// Nothing runs without it.
    Bad,
}

/// A thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What it is.
    pub name: String,
    /// How it ended.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do, unless it is in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Check {
    /// In order.
    pub fn good(name: impl Into<String>, found: impl Into<String>) -> Self {
        Check {
            name: name.into(),
            verdict: Verdict::Good,
            found: found.into(),
            remedy: None,
        }
    }

    /// Not in order.
    pub fn not(
        verdict: Verdict,
        name: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Check {
            name: name.into(),
            verdict,
            found: found.into(),
            remedy: Some(remedy.into()),
        }
    }
}

/// Looks at the host and the libraries, and reports.
///
/// # Errors
///
/// A configuration that cannot be used; those of writing.
pub fn run(args: &Args, out: &mut Output) -> Result<Status> {
    let name = match args.gpu.as_ref().or(args.config.as_ref()) {
        Some(name) => name.clone(),
        None => std::env::var("ROCJITSU_CONFIG")
            .ok()
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| "mi300x".to_owned()),
    };
    let config = Config::named(&name).map_err(|error| match error {
        ConfigError::Read { .. } => anyhow::Error::from(error),
        wrong => UsageError(wrong.to_string()).into(),
    })?;
    let mut targets: Vec<String> = Vec::new();
    for (gpu, _) in &config.cards {
        if !targets.contains(&gpu.target) {
            targets.push(gpu.target.clone());
        }
    }
    let root = args.root.as_deref();
    if let Some(root) = root.filter(|root| !root.is_dir()) {
        return Err(UsageError(format!("--root: {} is no directory", root.display())).into());
    }
    let groups = [
        ("Host", host::checks()),
        ("ROCm", libraries::checks(root, &args.library_dir, &targets)),
    ];
    if args.json {
        let all: Vec<&Check> = groups.iter().flat_map(|(_, checks)| checks).collect();
        out.json(&all)?;
    } else {
        for (title, checks) in &groups {
            writeln!(out, "{}", styled(HEAD, title))?;
            for check in checks {
                show(check, out)?;
            }
        }
    }
    let bad = groups
        .iter()
        .flat_map(|(_, checks)| checks)
        .any(|check| check.verdict == Verdict::Bad);
    Ok(if bad { Status::Bad } else { Status::Good })
}

fn show(check: &Check, out: &mut Output) -> Result<()> {
    let (style, word) = match check.verdict {
        Verdict::Good => (GOOD, "good"),
        Verdict::Warning => (HEAD, "warn"),
        Verdict::Bad => (BAD, "BAD "),
    };
    writeln!(
        out,
        "  {} {:<20}{}",
        styled(style, word),
        check.name,
        check.found
    )?;
    if let Some(remedy) = &check.remedy {
        writeln!(out, "       {} {remedy}", styled(DIM, "→"))?;
    }
    Ok(())
}
