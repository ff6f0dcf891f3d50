//! `rocjitsu report`: a page of the records of a run.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use rocjitsu_plugins::writable;

use super::Status;
use crate::cli::UsageError;
use crate::output::Output;
use crate::page::{Records, page};

/// Arguments of `report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Files are reports of `run --report`, `launch --report` and `launch --json`, the JSON Lines of plugins, and the time
lines of the plugin `trace`. All go onto one page, which needs no other file and no network.")]
pub struct Args {
    /// What commands and plugins have written
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Where the page goes; by default beside the first file, with .html in place of its ending
    #[arg(short, long, value_name = "FILE.html")]
    output: Option<PathBuf>,
}

/// Writes the page.
///
/// # Errors
///
/// A file that cannot be read or holds something else, a page that cannot be written.
pub fn run(args: &Args, _: &mut Output) -> Result<Status> {
    let beside = || args.files.first().map(|file| file.with_extension("html"));
    let to = args.output.clone().or_else(beside).unwrap_or_default();
    let place = |path: &Path| path.canonicalize().ok();
    if let Some(there) = place(&to)
        && there.is_file()
        && args
            .files
            .iter()
            .any(|file| place(file).as_ref() == Some(&there))
    {
        return Err(UsageError(format!(
            "the page would take the place of {}, which it is made of; say with --output where it goes",
            to.display()
        ))
        .into());
    }
    let mut records = Records::default();
    for file in &args.files {
        read(&mut records, file)?;
    }
    write(&to, &page(&records))?;
    Ok(Status::Good)
}

/// Reads the records of a file.
///
/// # Errors
///
/// One that cannot be read or holds something else.
pub fn read(records: &mut Records, file: &Path) -> Result<()> {
    let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let text = String::from_utf8_lossy(&text);
    records.read(&file.display().to_string(), &text)
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text)
        .with_context(|| format!("cannot write the report {}", path.display()))
}

/// Whether a report is to be a page.
pub fn is_page(path: &Path) -> bool {
    let end = path.extension();
    end.is_some_and(|end| end.eq_ignore_ascii_case("html") || end.eq_ignore_ascii_case("htm"))
}

/// Where a command's report goes.
#[derive(Debug)]
pub struct Destination(PathBuf);

impl Destination {
    /// A file that can be written.
    ///
    /// # Errors
    ///
    /// It cannot: better to know before a run that may take long.
    pub fn new(path: &Path) -> Result<Destination> {
        let refused = || format!("cannot write the report {}", path.display());
        writable(path).with_context(refused)?;
        Ok(Destination(path.to_owned()))
    }

    /// Writes a report, with the lines that plugins wrote.
    ///
    /// # Errors
    ///
    /// Those of writing.
    pub fn write(&self, mut report: Value, lines: &[u8]) -> Result<()> {
        let lines = String::from_utf8_lossy(lines);
        let lines = lines.lines().filter(|line| !line.trim().is_empty());
        let records: Vec<Value> = lines
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        if !records.is_empty() {
            report["records"] = records.into();
        }
        let text = if is_page(&self.0) {
            let mut records = Records::default();
            records.read(
                &self.0.with_extension("json").display().to_string(),
                &report.to_string(),
            )?;
            page(&records)
        } else {
            format!("{report:#}\n")
        };
        write(&self.0, &text)
    }
}
