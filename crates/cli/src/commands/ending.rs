//! What the commands do that run a launch: options of its end, checkpoints on the way, files and reports at the end.

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use rocjitsu_debug::{Address, Listener};
use rocjitsu_observe::Sink;
use rocjitsu_plugins::writable;
use serde_json::{Value, json};

use super::Status;
use super::fidelity::FidelityArgs;
use super::plugins::Watching;
use super::report::Destination;
use crate::checkpoint::file::can_hold;
use crate::cli::UsageError;
use crate::launch::element::ElementType;
use crate::launch::npy::Array;
use crate::launch::{Buffer, Launch};
use crate::output::{HEAD, Output, chain, failure, is_broken_pipe, styled, warn};
use crate::session::{Session, Until};
use crate::tui;

/// Options of what is done at the end, and of an end before the end.
#[derive(Debug, clap::Args)]
pub struct EndArgs {
    /// Compare the outputs with the expected ones, which a description has; status 1 if any differs
    #[arg(long)]
    pub check: bool,
    /// Write the buffer of an argument to a file afterwards: N=FILE (.npy or raw), N from 0
    #[arg(long, value_name = "N=FILE")]
    out: Vec<OutFile>,
    /// Print elements of an argument's buffer afterwards: N[:TYPE[:COUNT]], N from 0
    #[arg(long, value_name = "N[:TYPE[:COUNT]]", conflicts_with = "json")]
    print: Vec<Print>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write what the launch did, and what plugins record: as JSON, or as a page if the name ends with .html
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    fidelity: FidelityArgs,
    /// Write a checkpoint and end, at the point that --at names; `rocjitsu resume` goes on from there
    #[arg(long, value_name = "FILE", requires = "at")]
    checkpoint: Option<PathBuf>,
    /// When: before dispatch N (from 1, see --repeat), after N wave instructions (exactly, on one thread),
    /// or when the process gets SIGUSR1
    #[arg(
        long,
        value_name = "dispatch:N|instruction:N|signal",
        requires = "checkpoint"
    )]
    at: Option<Point>,
    /// Wait for a debugger that speaks GDB's remote protocol, at HOST:PORT, :PORT or the path of a Unix socket (with a `/`)
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = ANY_PORT,
          conflicts_with = "checkpoint")]
    gdb: Option<String>,
    /// Show the launch in panels on the whole terminal; q stops it, p lets it stand for a while
    #[arg(long, conflicts_with_all = ["gdb", "checkpoint"])]
    tui: bool,
}

/// Where a debugger connects if nothing else is said: any port that is free.
pub const ANY_PORT: &str = "localhost:0";

/// The address of `--gdb`.
///
/// # Errors
///
/// It is none.
pub fn debugger_address(text: &str) -> Result<Address> {
    let address = text.parse::<Address>();
    address.map_err(|why| usage(format!("--gdb {text}: {why}")))
}

/// `--at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    Dispatch(u32),
    Instruction(u64),
    Signal,
}

impl FromStr for Point {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let no_number = |number: &str| format!("`{number}` is no number from 1");
        match text.split_once(':') {
            None if text == "signal" => Ok(Point::Signal),
            Some(("dispatch", number)) => match number.parse() {
                Ok(number @ 1..) => Ok(Point::Dispatch(number)),
                _ => Err(no_number(number)),
            },
            Some(("instruction", number)) => match number.parse() {
                Ok(number @ 1..) => Ok(Point::Instruction(number)),
                _ => Err(no_number(number)),
            },
            _ => Err("not of the form dispatch:N, instruction:N or signal".to_owned()),
        }
    }
}

/// `--out N=FILE`.
#[derive(Clone, Debug, PartialEq)]
struct OutFile {
    argument: usize,
    path: PathBuf,
}

impl FromStr for OutFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, path) = text
            .split_once('=')
            .filter(|(_, path)| !path.is_empty())
            .ok_or("not of the form N=FILE")?;
        let argument = number
            .parse()
            .map_err(|_| format!("`{number}` is no argument number"))?;
        Ok(OutFile {
            argument,
            path: PathBuf::from(path),
        })
    }
}

/// `--print N[:TYPE[:COUNT]]`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Print {
    argument: usize,
    element: Option<ElementType>,
    count: usize,
}

impl FromStr for Print {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.splitn(3, ':');
        let number = parts.next().unwrap_or_default();
        let argument = number
            .parse()
            .map_err(|_| format!("`{number}` is no argument number"))?;
        let element = match parts.next() {
            None | Some("") => None,
            Some(name) => Some(ElementType::from_name(name).ok_or_else(|| {
                format!("`{name}` is no element type ({})", ElementType::names())
            })?),
        };
        let count = match parts.next() {
            None => 16,
            Some(count) => count
                .parse()
                .map_err(|_| format!("`{count}` is no count"))?,
        };
        Ok(Print {
            argument,
            element,
            count,
        })
    }
}

fn usage(text: impl Into<String>) -> anyhow::Error {
    UsageError(text.into()).into()
}

/// What is to be done at the end of a launch, all of it known to be possible.
pub struct End<'a> {
    args: &'a EndArgs,
    files: Vec<(usize, PathBuf)>,
    prints: Vec<(usize, Print)>,
    report: Option<Written>,
    gdb: Option<Address>,
    asked: Arc<AtomicBool>,
}

/// A report that is to be written: where, and what plugins record until then.
struct Written {
    destination: Destination,
    sink: Sink,
    lines: Arc<Mutex<Vec<u8>>>,
}

impl Written {
    fn write(&self, report: Value) -> Result<()> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        self.destination.write(report, &std::mem::take(&mut *lines))
    }
}

/// The report of a launch that failed.
fn failed(file: &str, error: &anyhow::Error) -> Value {
    json!({ "file": file, "ok": false, "error": chain(error) })
}

impl EndArgs {
    /// The file that the command is about. Behind `--gdb` alone it looks like the address.
    ///
    /// # Errors
    ///
    /// There is none, or `--gdb` has no address.
    pub fn file<'a>(&'a self, file: Option<&'a Path>) -> Result<&'a Path> {
        self.debugger(file)?;
        match (file, &self.gdb) {
            (Some(file), _) => Ok(file),
            (None, Some(file)) if file != ANY_PORT => Ok(Path::new(file)),
            _ => Err(usage("a FILE is needed")),
        }
    }

    /// Where to wait for a debugger, if one is to come. `file`: as for [`EndArgs::file`].
    fn debugger(&self, file: Option<&Path>) -> Result<Option<Address>> {
        match (&self.gdb, file) {
            (None, _) => Ok(None),
            (Some(address), Some(_)) => debugger_address(address).map(Some),
            (Some(_), None) => debugger_address(ANY_PORT).map(Some),
        }
    }

    /// Waits for SIGUSR1 if a checkpoint is wanted by it: the signal would end the process before. What is returned is set by it.
    ///
    /// # Errors
    ///
    /// The system does not let us.
    pub fn wait_for_signal(&self) -> Result<Arc<AtomicBool>> {
        let asked = Arc::new(AtomicBool::new(false));
        if self.at == Some(Point::Signal) {
            signal_hook::flag::register(signal_hook::consts::SIGUSR1, asked.clone())
                .context("cannot wait for SIGUSR1")?;
            let process = std::process::id();
            warn(&format_args!(
                "SIGUSR1 to process {process} writes the checkpoint"
            ));
        }
        Ok(asked)
    }

    /// Whether JSON is printed.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Checks the options against a launch, before it runs. `file`: as for [`EndArgs::file`]; `files`: buffers that other options
    /// write to files; `asked`: from [`EndArgs::wait_for_signal`].
    ///
    /// # Errors
    ///
    /// Arguments that are no buffers, files that cannot be written.
    pub fn prepare(
        &self,
        launch: &Launch,
        file: Option<&Path>,
        mut files: Vec<(usize, PathBuf)>,
        asked: Arc<AtomicBool>,
    ) -> Result<End<'_>> {
        let gdb = self.debugger(file)?;
        if self.tui && !tui::is_possible() {
            return Err(usage(
                "--tui needs a terminal: standard input and standard error must be one",
            ));
        }
        for file in &self.out {
            let buffer = buffer_of(launch, file.argument, "--out")?;
            files.push((buffer, file.path.clone()));
        }
        all_writable(&files)?;
        if let Some(path) = &self.checkpoint {
            can_hold(path).with_context(|| format!("cannot write {}", path.display()))?;
        }
        let mut prints = Vec::new();
        for print in &self.print {
            prints.push((buffer_of(launch, print.argument, "--print")?, *print));
        }
        let written = |path: &PathBuf| {
            let (sink, lines) = Sink::memory();
            let destination = Destination::new(path)?;
            Ok::<_, anyhow::Error>(Written {
                destination,
                sink,
                lines,
            })
        };
        Ok(End {
            args: self,
            files,
            prints,
            gdb,
            asked,
            report: self.report.as_ref().map(written).transpose()?,
        })
    }

    /// With `--json`, reports an error that is not one of usage on standard output as well.
    ///
    /// # Errors
    ///
    /// The result's, those of writing.
    pub fn told(&self, file: &Path, result: Result<Status>, out: &mut Output) -> Result<Status> {
        if let Err(error) = &result
            && self.json
            && !error.is::<UsageError>()
            && !is_broken_pipe(error)
        {
            out.json(&failed(&file.display().to_string(), error))?;
        }
        result
    }
}

impl End<'_> {
    /// Whether a checkpoint is wanted.
    pub fn is_kept(&self) -> bool {
        self.args.checkpoint.is_some()
    }

    /// Whether a debugger is waited for.
    pub fn is_debugged(&self) -> bool {
        self.gdb.is_some()
    }

    /// Whether how far the launch is is drawn on standard error, if that is a terminal.
    pub fn is_drawn(&self) -> bool {
        self.args.tui || !self.args.json
    }

    /// Where plugins are to record for the report as well.
    pub fn sink(&self) -> Option<Sink> {
        self.report.as_ref().map(|report| report.sink.clone())
    }

    /// Checks that there is the dispatch that the checkpoint is wanted before.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn check_repeat(&self, repeat: u32) -> Result<()> {
        match self.args.at {
            Some(Point::Dispatch(number)) if number > repeat => Err(usage(format!(
                "--at dispatch:{number}: the launch has {repeat} (see --repeat)"
            ))),
            _ => Ok(()),
        }
    }

    /// Runs a launch to its end, reports and writes what is wanted; or to the checkpoint.
    ///
    /// # Errors
    ///
    /// Faults of the execution, those of writing.
    pub fn run(
        &self,
        session: &mut Session,
        plugins: Option<&Watching>,
        out: &mut Output,
    ) -> Result<Status> {
        let until = match self.args.at {
            None => Until::End,
            Some(Point::Dispatch(number)) => {
                // The one under way has begun.
                let begun =
                    u64::from(session.dispatches()) + u64::from(session.workgroups().is_some());
                if u64::from(number) <= begun {
                    bail!("--at dispatch:{number}: {begun} have begun already");
                }
                Until::Dispatch(number)
            }
            Some(Point::Instruction(number)) => {
                let executed = session.instructions();
                if number < executed {
                    bail!("--at instruction:{number}: {executed} have executed already");
                }
                Until::Instruction(number)
            }
            Some(Point::Signal) => Until::Asked(&self.asked),
        };
        let ended = match &self.gdb {
            Some(address) => debug(session, address).map(|()| true),
            None if self.args.tui => show(session, plugins),
            None => match until {
                Until::End => session.finish(self.args.json, plugins),
                until => session.go(
                    until,
                    self.args.json,
                    plugins.map(|watching| &watching.plugins),
                ),
            },
        };
        // They may have something to say of a run that failed; why it failed is more important. What they say of one that did
        // not is no reason to lose its results.
        let told = plugins.map_or(Ok(()), Watching::finish);
        let ended = match (ended, &self.report) {
            (Err(error), Some(report)) => {
                report.write(failed(&session.launch.name, &error))?;
                return Err(error);
            }
            (ended, _) => ended?,
        };
        match &self.args.checkpoint {
            Some(path) if !ended => return self.keep(session, path, out),
            Some(path) => {
                let path = path.display();
                warn(&format_args!(
                    "the launch came to its end before the checkpoint; {path} is not written"
                ));
            }
            None => {}
        }
        let missed = self.is_kept() && self.args.at != Some(Point::Signal);
        let status = self.finish(session, told, out)?;
        Ok(if missed { Status::Bad } else { status })
    }

    /// Writes the checkpoint and says so.
    fn keep(&self, session: &Session, path: &Path, out: &mut Output) -> Result<Status> {
        let bytes = session.save(path)?;
        let (dispatch, instructions) = (session.dispatches() + 1, session.instructions());
        if self.args.json {
            out.json(&json!({
                "launch": session.launch.name,
                "kernel": session.launch.kernel.name,
                "target": session.launch.code.target().name(),
                "gpu": session.host.gpu.name,
                "ok": true,
                "checkpoint": path.display().to_string(),
                "bytes": bytes,
                "dispatch": dispatch,
                "wave_instructions": instructions,
                "workgroups": session.workgroups().map(|(ended, of)| json!({ "ended": ended, "of": of })),
            }))?;
            return Ok(Status::Good);
        }
        let mut place = format!("dispatch {dispatch}");
        if let Some((ended, of)) = session.workgroups() {
            write!(place, ", {ended} of {of} workgroups have ended")?;
        } else {
            place.insert_str(0, "before ");
        }
        let title = format!("{} ({})", session.launch.name, session.launch.kernel.name);
        writeln!(out, "{}", styled(HEAD, title))?;
        let path = path.display();
        let size = crate::output::bytes(bytes);
        writeln!(
            out,
            "  stopped after {instructions} wave instructions: {place}"
        )?;
        writeln!(
            out,
            "  checkpoint {path}, {size}; `rocjitsu resume {path}` goes on"
        )?;
        Ok(Status::Good)
    }

    /// Writes files and reports. `told`: what plugins said at the end.
    fn finish(&self, session: &Session, told: Result<()>, out: &mut Output) -> Result<Status> {
        let (launch, args) = (&session.launch, self.args);
        let report = session.report()?;
        let mut said = report.json(args.check);
        if let Err(error) = &told {
            said["ok"] = false.into();
            said["error"] = chain(error).into();
        }
        for (index, path) in &self.files {
            if let (Some(buffer), Some(content)) =
                (launch.buffers.get(*index), report.contents.get(*index))
            {
                write_file(buffer, content, path)?;
            }
        }
        if let Some(written) = &self.report {
            written.write(said.clone())?;
        }
        if args.json {
            out.json(&said)?;
        } else {
            report.text(args.check, out)?;
        }
        for (index, print) in &self.prints {
            if let (Some(buffer), Some(content)) =
                (launch.buffers.get(*index), report.contents.get(*index))
            {
                print_elements(buffer, content, print, out)?;
            }
        }
        if let Err(error) = &told {
            out.flush()?;
            failure(error);
        }
        let exact = args.fidelity.accepts(&launch.kernel.name, &report.forms());
        Ok(if args.check && !report.good() || !exact || told.is_err() {
            Status::Bad
        } else {
            Status::Good
        })
    }
}

/// Runs the launch in panels. Somebody who stops it gets no results: buffers are not what the kernel makes of them.
fn show(session: &mut Session, plugins: Option<&Watching>) -> Result<bool> {
    let ended = tui::run(session, plugins)?;
    if !ended {
        let (dispatch, repeat) = (session.dispatches() + 1, session.repeat());
        let instructions = session.instructions();
        let (done, of) = session.workgroups().unwrap_or_default();
        bail!(
            "stopped in dispatch {dispatch} of {repeat} after {instructions} wave instructions, \
             {done} of {of} workgroups had ended; there are no results"
        );
    }
    Ok(ended)
}

/// Waits for a debugger and runs the launch under it.
fn debug(session: &mut Session, address: &Address) -> Result<()> {
    let listener = Listener::bind(address);
    let listener = listener.with_context(|| format!("--gdb: cannot listen at {address}"))?;
    let address = listener.address();
    warn(&format_args!("waiting for a debugger at {address}"));
    let remote = listener.accept();
    let remote = remote.with_context(|| format!("--gdb: no connection at {address}"))?;
    drop(listener);
    session.debug(remote)
}

/// The buffer that an argument points to.
fn buffer_of(launch: &Launch, argument: usize, option: &str) -> Result<usize> {
    match launch.arguments.get(argument) {
        Some(Some(index)) => Ok(*index),
        Some(None) => Err(usage(format!(
            "{option} {argument}: that argument is no buffer"
        ))),
        None => {
            let count = launch.arguments.len();
            Err(usage(format!(
                "{option} {argument}: there are {count} arguments, numbered from 0"
            )))
        }
    }
}

/// Checks that each file can be written, before a run that may take long; leaves what is there as it is.
fn all_writable(files: &[(usize, PathBuf)]) -> Result<()> {
    for (number, (_, path)) in files.iter().enumerate() {
        if files.iter().take(number).any(|(_, other)| other == path) {
            return Err(usage(format!(
                "{} is given for two buffers",
                path.display()
            )));
        }
        writable(path).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn write_file(buffer: &Buffer, content: &[u8], path: &Path) -> Result<()> {
    let array = Array::new(buffer.element, &buffer.shape, content.to_vec());
    let as_array = path.extension().is_some_and(|extension| extension == "npy");
    let bytes = if as_array {
        array.to_bytes()
    } else {
        array.data
    };
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

fn print_elements(buffer: &Buffer, content: &[u8], print: &Print, out: &mut Output) -> Result<()> {
    let element = print.element.unwrap_or(buffer.element);
    let elements = content.chunks_exact(element.bytes());
    let all = elements.len();
    let text: Vec<String> = elements
        .take(print.count)
        .map(|bytes| element.decode(bytes).to_string())
        .collect();
    let note = if print.count > all {
        format!(" (all {all})")
    } else {
        String::new()
    };
    writeln!(
        out,
        "{} as {}: {}{note}",
        buffer.name,
        element.name(),
        text.join(" ")
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_grammars() {
        assert_eq!(
            "2=a=b.npy".parse(),
            Ok(OutFile {
                argument: 2,
                path: "a=b.npy".into()
            })
        );
        assert!("2=".parse::<OutFile>().is_err() && "x=y".parse::<OutFile>().is_err());
        assert_eq!(
            "3".parse(),
            Ok(Print {
                argument: 3,
                element: None,
                count: 16
            })
        );
        assert_eq!(
            "3:f16:4".parse(),
            Ok(Print {
                argument: 3,
                element: Some(ElementType::F16),
                count: 4
            })
        );
        assert!("3:half".parse::<Print>().is_err() && "3:f16:x".parse::<Print>().is_err());
        assert_eq!("dispatch:2".parse(), Ok(Point::Dispatch(2)));
        assert_eq!(
            "instruction:9000000000".parse(),
            Ok(Point::Instruction(9_000_000_000))
        );
        assert_eq!("signal".parse(), Ok(Point::Signal));
        for wrong in [
            "",
            "signal:1",
            "dispatch",
            "dispatch:0",
            "instruction:-1",
            "wave:1",
        ] {
            assert!(wrong.parse::<Point>().is_err(), "{wrong}");
        }
    }
}
