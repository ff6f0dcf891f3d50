//! The report that a program leaves behind: where it is written, what is added to it, whether all in it is exact.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use rocjitsu_plugins::writable;
use serde::Deserialize;
use serde_json::Value;

use super::folder::Folder;
use super::{Options, absolute, child};
use crate::commands::fidelity::{FidelityArgs, Row};
use crate::commands::report::{is_page, read};
use crate::output::warn;
use crate::page::{Records, page};

/// The report of a run, or those of all of its processes.
#[derive(Debug)]
pub struct Report {
    /// What the user named.
    path: Option<PathBuf>,
    /// Where the program writes it.
    json: PathBuf,
    /// When the program started.
    begun: SystemTime,
    /// A folder of this command's for the reports of all processes: one that starts another must not hide by its own
    /// report what that executed.
    folder: Option<Folder>,
}

/// The reports in a folder, the latest last.
fn reports(folder: &Folder) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.path())
        .into_iter()
        .flatten()
        .flatten();
    let files = entries.map(|entry| entry.path());
    let mut files: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .map(|path| {
            let time = std::fs::metadata(&path).and_then(|data| data.modified());
            (time.unwrap_or(SystemTime::UNIX_EPOCH), path)
        })
        .collect();
    files.sort();
    files.into_iter().map(|(_, path)| path).collect()
}

/// What of a report decides whether all was exact.
#[derive(Debug, Deserialize)]
struct Executed {
    kernels: BTreeMap<String, Kernel>,
}

#[derive(Debug, Deserialize)]
struct Kernel {
    failed: u64,
    forms: Vec<Row>,
}

impl Report {
    /// The report that the options ask for, if they do.
    ///
    /// # Errors
    ///
    /// It cannot be written: the program could only say so at its end.
    pub fn new(path: Option<&Path>, fidelity: &FidelityArgs) -> Result<Option<Report>> {
        if path.is_none() && !fidelity.require_exact {
            return Ok(None);
        }
        let path = path.map(absolute).transpose()?;
        let mut json = PathBuf::new();
        if let Some(path) = &path {
            json = beside(path);
            let refused = || format!("cannot write the report {}", path.display());
            for file in [path, &json] {
                writable(file).with_context(refused)?;
            }
            // A report of an earlier run must not be taken for this one's.
            if json.is_file()
                && let Err(error) = std::fs::remove_file(&json)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                return Err(error).with_context(refused);
            }
        }
        let folder = fidelity.require_exact.then(Folder::new).transpose()?;
        if let Some(folder) = &folder {
            json = folder.path().join("%p.json");
        }
        Ok(Some(Report {
            path,
            json,
            // Files have the time of the kernel's last tick.
            begun: SystemTime::now() - Duration::from_millis(20),
            folder,
        }))
    }

    /// Where the program writes it.
    pub fn json(&self) -> &Path {
        &self.json
    }

    /// Adds what the program itself could not say: which signal ended it. Makes the page, with what plugins have written: `records`
    /// gives the files of a process since the program began. Says what was not exact, if that is asked for; whether all that
    /// must be is.
    ///
    /// # Errors
    ///
    /// A report that cannot be read or written.
    pub fn finish(
        self,
        end: child::End,
        options: &Options,
        records: impl Fn(u64, SystemTime) -> Vec<PathBuf>,
    ) -> Result<bool> {
        let mut exact = true;
        if let Some(folder) = &self.folder {
            for file in reports(folder) {
                exact &= is_exact(&file, &options.fidelity)?;
            }
        }
        if let Some(path) = &self.path
            && is_page(path)
            && (numbered(path, 0) != *path || !self.json.exists())
        {
            // What an earlier run has left must not be taken for this one's.
            let _ = std::fs::remove_file(path);
        }
        let written = self.written();
        if written.is_empty() {
            warn(&"no report: the program did not use a GPU");
        }
        let Some(path) = &self.path else {
            return Ok(exact);
        };
        for json in written.iter().filter(|json| json.is_file()) {
            if self.folder.is_none() && end.signal.is_none() && !is_page(path) {
                continue;
            }
            let text = std::fs::read_to_string(json)
                .with_context(|| format!("cannot read {}", json.display()))?;
            let mut value: Value = serde_json::from_str(&text)
                .with_context(|| format!("{} is damaged", json.display()))?;
            let process = value.get("process").and_then(Value::as_u64).unwrap_or(0);
            let path = numbered(path, process);
            let is_child = written.len() == 1 || process == u64::from(end.process);
            if let (Some(signal), Some(object), true) =
                (end.signal, value.as_object_mut(), is_child)
            {
                object.insert("signal".to_owned(), signal.into());
            }
            let refused = || format!("cannot write the report {}", path.display());
            std::fs::write(beside(&path), format!("{value:#}\n")).with_context(refused)?;
            if is_page(&path) {
                let mut all = Records::default();
                all.read(&beside(&path).display().to_string(), &value.to_string())?;
                for file in records(process, self.begun) {
                    read(&mut all, &file)?;
                }
                std::fs::write(&path, page(&all)).with_context(refused)?;
            }
        }
        Ok(exact)
    }

    /// The reports that there are now: of all processes if their numbers are in the name, else the latest.
    fn written(&self) -> Vec<PathBuf> {
        if let Some(folder) = &self.folder {
            return reports(folder).pop().into_iter().collect();
        }
        if numbered(&self.json, 0) == self.json {
            return self
                .json
                .exists()
                .then(|| self.json.clone())
                .into_iter()
                .collect();
        }
        let entries = self.json.parent().map(std::fs::read_dir);
        let entries = entries.into_iter().flatten().flatten().flatten();
        let mut files: Vec<PathBuf> = entries
            .filter(|entry| {
                // Not those that an earlier run has left.
                let time = entry.metadata().and_then(|data| data.modified());
                time.is_ok_and(|time| time >= self.begun)
            })
            .map(|entry| entry.path())
            .filter(|path| {
                number(&self.json, path).is_some_and(|number| numbered(&self.json, number) == *path)
            })
            .collect();
        files.sort();
        files
    }
}

/// A path with `%p` in its name replaced by a process's number, as the program does.
fn numbered(path: &Path, number: u64) -> PathBuf {
    let Some(name) = path.file_name().map(OsStr::as_encoded_bytes) else {
        return path.to_owned();
    };
    let number = number.to_string();
    let mut filled = Vec::new();
    for part in name.split_inclusive(|&byte| byte == b'p') {
        match part.strip_suffix(b"%p") {
            Some(before) => filled.extend([before, number.as_bytes()].concat()),
            None => filled.extend_from_slice(part),
        }
    }
    path.with_file_name(OsStr::from_bytes(&filled))
}

/// The digits that a file's name has where another one has its first `%p`.
fn number(pattern: &Path, path: &Path) -> Option<u64> {
    let pattern = pattern.file_name()?.as_encoded_bytes();
    let at = pattern.windows(2).position(|two| two == b"%p")?;
    let rest = path.file_name()?.as_encoded_bytes().get(at..)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}

/// The file for the report as JSON.
fn beside(path: &Path) -> PathBuf {
    match is_page(path) {
        true => path.with_extension("json"),
        false => path.to_owned(),
    }
}

/// Whether all that a process executed is exact or accepted; says what is not.
fn is_exact(file: &Path, fidelity: &FidelityArgs) -> Result<bool> {
    let damaged = || format!("{} is damaged", file.display());
    let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let executed: Executed = serde_json::from_slice(&text).with_context(damaged)?;
    let mut exact = true;
    for (name, kernel) in &executed.kernels {
        if kernel.failed > 0 {
            warn(&format_args!(
                "{} dispatches of kernel {name} failed: what they executed is not known",
                kernel.failed
            ));
            exact = false;
        }
        exact &= fidelity.accepts(name, &kernel.forms);
    }
    Ok(exact)
}
