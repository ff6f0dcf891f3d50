//! The report of what this process did with the GPUs: written at its end, and while it runs by a thread of its own, so
//! that a program that is killed leaves one that is at most a moment old.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rocjitsu_kfd::{Driver, Report};

use crate::measure;
use crate::process::{is_made, tell, this_process};

/// Time between two looks whether there is something new; at least so many times what writing took.
const PAUSE: Duration = Duration::from_millis(100);
const SHARE: u32 = 20;
/// How long a program that aborts waits for the last report.
const PATIENCE: Duration = Duration::from_secs(2);

/// The process that has written its last report.
static WRITTEN: AtomicI32 = AtomicI32::new(0);
/// The process of which a thread writes, or 0. A forked child finds its parent's number and need not wait.
static WRITER: AtomicI32 = AtomicI32::new(0);
/// Reports that were asked for and those that were written, by [`flush`].
static ASKED: AtomicU32 = AtomicU32::new(0);
static ANSWERED: AtomicU32 = AtomicU32::new(0);

/// One writer at a time; a program at its end waits for a report that is just being written.
struct Writing;

impl Writing {
    fn begin() -> Self {
        let me = this_process();
        loop {
            let other = WRITER.load(Ordering::Acquire);
            if other != me
                && WRITER
                    .compare_exchange(other, me, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
            {
                return Writing;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        WRITER.store(0, Ordering::Release);
    }
}

/// Starts the thread, if a report is wanted. The caller is inside of the driver.
pub fn start(driver: &'static Driver) {
    let Some(path) = path(driver) else { return };
    // A pipe or a terminal gets one report only.
    if path.metadata().is_ok_and(|data| !data.is_file()) {
        return;
    }
    // Without a thread the report comes at the end only.
    let _ = std::thread::Builder::new()
        .name("rocjitsu-report".to_owned())
        .spawn(move || keep(driver, &path));
}

/// Writes whenever something has changed.
fn keep(driver: &Driver, path: &Path) {
    let mut seen = None;
    loop {
        let asked = ASKED.load(Ordering::Acquire);
        let changes = driver.changes();
        let start = Instant::now();
        if seen != Some(changes) {
            let _writing = Writing::begin();
            if WRITTEN.load(Ordering::Relaxed) == this_process() {
                return;
            }
            // Whoever cannot write now says so at the end.
            let _ = replace(path, &report(driver));
            seen = Some(changes);
        }
        ANSWERED.store(asked, Ordering::Release);
        let pause = PAUSE.max(start.elapsed() * SHARE);
        let end = Instant::now() + pause;
        while Instant::now() < end && ASKED.load(Ordering::Acquire) == asked {
            std::thread::sleep(PAUSE.min(Duration::from_millis(5)).min(pause));
        }
    }
}

/// Replaces the file as a whole: who reads it finds the old report or the new one.
fn replace(path: &Path, report: &Report) -> std::io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", this_process()));
    let beside = path.with_file_name(name);
    std::fs::write(&beside, text(report)?)?;
    std::fs::rename(&beside, path).inspect_err(|_| {
        let _ = std::fs::remove_file(&beside);
    })
}

/// The driver's report, with what this library knows.
fn report(driver: &Driver) -> Report {
    Report {
        own: measure::so_far(),
        ..driver.report()
    }
}

fn text(report: &Report) -> std::io::Result<String> {
    Ok(serde_json::to_string_pretty(report)? + "\n")
}

/// Has the thread write and waits for it: for a program that is going to end in a state in which it had better do
/// nothing itself.
pub fn flush() {
    if !is_made() || WRITTEN.load(Ordering::Relaxed) == this_process() {
        return;
    }
    let mut wanted = false;
    tell(|driver| wanted = driver.machine().options.report.is_some());
    if !wanted {
        return;
    }
    let asked = ASKED.fetch_add(1, Ordering::AcqRel) + 1;
    let start = Instant::now();
    while ANSWERED.load(Ordering::Acquire) < asked && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Writes the last report where the configuration or ROCJITSU_REPORT says, if this process has a driver, and says what
/// happened in a few lines if the user wants to be told (ROCJITSU_VERBOSE). `%p` stands for the process's number.
pub fn finish() {
    if !is_made() {
        return;
    }
    tell(|driver| {
        let _writing = Writing::begin();
        let me = this_process();
        if WRITTEN.swap(me, Ordering::Relaxed) == me {
            return;
        }
        let path = path(driver);
        let verbose = driver.machine().options.verbose > 0;
        if path.is_none() && !verbose {
            return;
        }
        let report = Report {
            complete: true,
            ..report(driver)
        };
        if verbose {
            eprint!("rocjitsu: {report}");
        }
        let Some(path) = path else { return };
        let written = text(&report).and_then(|text| std::fs::write(&path, text));
        if let Err(error) = written {
            eprintln!(
                "rocjitsu: cannot write the report {}: {error}",
                path.display()
            );
        }
    });
}

fn path(driver: &Driver) -> Option<PathBuf> {
    let path = driver.machine().options.report.as_ref()?;
    Some(with_process_number(path.as_os_str(), this_process()))
}

fn with_process_number(path: &OsStr, process: i32) -> PathBuf {
    let mut out = Vec::new();
    let mut rest = path.as_bytes();
    while let Some(at) = rest.windows(2).position(|two| two == b"%p") {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(process.to_string().as_bytes());
        rest = &rest[at + 2..];
    }
    out.extend_from_slice(rest);
    PathBuf::from(OsStr::from_bytes(&out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_number_goes_into_the_name_of_the_report() {
        let name = |path: &str| with_process_number(OsStr::new(path), 42);
        assert_eq!(name("/tmp/a.json"), PathBuf::from("/tmp/a.json"));
        assert_eq!(name("a%p-%p.json"), PathBuf::from("a42-42.json"));
        assert_eq!(name("100%"), PathBuf::from("100%"));
    }
}
