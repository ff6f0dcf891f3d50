//! `rocjitsu run`: runs an unmodified program with simulated GPUs, by loading the driver into it.

#[allow(unsafe_code, reason = "signal masks are set by the C library's calls")]
mod child;
mod findings;
mod folder;
pub mod library;
mod places;
mod program;
mod report;
#[allow(
    unsafe_code,
    reason = "mounts and the change of the root are system calls"
)]
mod root;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use rocjitsu_config::{MOST_NODES, PluginOptions};
use rocjitsu_debug::{Address, Listener};
use rocjitsu_gpu::dispatch::jit;
use rocjitsu_lanes::Backend;
use rustix::process::{Resource, getrlimit};

use super::ending::{ANY_PORT, debugger_address};
use super::fidelity::FidelityArgs;
use super::plugins::PluginArgs;
use super::{Status, gpu};
use crate::cli::UsageError;
use crate::output::{Output, warn};
use findings::Findings;
use places::Places;
use report::Report;

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    options: Options,
    /// The program, searched for as a shell does, and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    program: Vec<OsString>,
}

/// The form without a command: `rocjitsu --config FILE -- PROGRAM`.
#[derive(Debug, clap::Args)]
pub struct ShortArgs {
    #[command(flatten)]
    options: Options,
    /// A program to run with simulated GPUs, and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

impl ShortArgs {
    /// The arguments of `run`; `None` if no program is named.
    pub fn program(self) -> Option<Args> {
        let ShortArgs { options, program } = self;
        (!program.is_empty()).then_some(Args { options, program })
    }
}

#[derive(Debug, clap::Args)]
struct Options {
    /// GPU to simulate (see `rocjitsu config list`); by default mi300x
    #[arg(long, value_name = "GPU", conflicts_with = "config", value_parser = gpu::known)]
    gpu: Option<String>,
    /// How many of it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=MOST_NODES as i64))]
    num_gpus: Option<u32>,
    /// Configuration file (see `rocjitsu config --help`)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Variable for the program; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Write what the program did with the GPUs: as JSON, or as a page if the name ends with .html. %p in the name
    /// stands for the number of the process, so that each process writes its own
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Run the program with this directory as its root, in a mount namespace of its own with /proc, /sys and /dev of
    /// the host and an empty /run (needs the rights of root)
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Worker threads; by default one for each core of the host
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    #[command(flatten)]
    fidelity: FidelityArgs,
    #[command(flatten)]
    plugins: PluginArgs,
    /// Stop the first dispatch and wait for a debugger that speaks GDB's remote protocol, at HOST:PORT, :PORT or the
    /// path of a Unix socket (with a `/`); by default at any free port of localhost
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = ANY_PORT, require_equals = true,
          conflicts_with = "plugins")]
    gdb: Option<String>,
    /// Debug only dispatches of kernels with this in their names, as the code object has them
    #[arg(long, value_name = "NAME", requires = "gdb")]
    gdb_kernel: Option<String>,
    /// Let the first dispatches pass and stop the Nth, from 1; with --gdb-kernel, of those
    #[arg(long, value_name = "N", requires = "gdb", value_parser = clap::value_parser!(u64).range(1..))]
    gdb_dispatch: Option<u64>,
    /// Say more; up to three times
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("it must have the form NAME=VALUE".to_owned()),
    }
}

/// Runs the command; its exit status is the program's.
///
/// # Errors
///
/// What keeps the program from starting, other than that it is not there (status 127) or not executable (126).
pub fn run(args: &Args, _: &mut Output) -> Result<Status> {
    let Args { options, program } = args;
    let (gdb, program) = debugger(options, program)?;
    let Some((name, arguments)) = program.split_first() else {
        bail!(UsageError("a program is needed".to_owned()));
    };
    // The library in the program would have no way to refuse.
    jit::Options::from_environment().map_err(UsageError)?;
    check_lanes(std::env::var_os("ROCJITSU_LANES"))?;
    check_file_sizes()?;
    let library = library::find()?;
    let report = Report::new(options.report.as_deref(), &options.fidelity)?;
    let root = options.root.as_deref().map(root::Root::enter);
    let root = root.transpose()?;
    let resolve = |path: &Path| match &root {
        None => program::plain(path),
        Some(root) => root.resolve(path),
    };
    let search = match &root {
        None => program::search(),
        Some(_) => root::PATH.into(),
    };
    let there = |path: &Path| resolve(&Path::new("/").join(path)).is_some_and(|path| path.exists());
    let in_root: Option<&dyn Fn(&Path) -> bool> = root.as_ref().map(|_| &there as _);
    findings::refuse(&options.plugins.plugins, in_root)?;
    let found = match program::find(name, &search, &resolve) {
        Ok(found) => found,
        Err(missing) => {
            warn(&missing);
            return Ok(Status::Exit(missing.status()));
        }
    };
    program::check(&found, &resolve)?;
    let mut command = Command::new(&found.path);
    std::os::unix::process::CommandExt::arg0(&mut command, name);
    command.args(arguments);
    let mut before = std::env::var_os("LD_PRELOAD");
    if let Some(root) = &root {
        command.env_clear().envs(root::environment());
        root.confine(&mut command)?;
        before = None;
    }
    let bring = |path: &Path| match &root {
        None => absolute(path),
        Some(root) => root.bring(path),
    };
    let library = bring(&library)?;
    command.env("LD_PRELOAD", library::preload(&library, before));
    let config = options
        .config
        .as_deref()
        .map(gpu::read_config)
        .transpose()?;
    let configured = config.map(|config| {
        if let Some(path) = &options.config {
            gpu::show_warnings(path, &config);
        }
        config.options.plugins
    });
    let configured = configured.unwrap_or_default();
    let locate = |path: &Path| match &root {
        None => Some(path.to_owned()),
        Some(root) => root.locate(path),
    };
    let places = Places::new(&all_plugins(options, &configured), root.is_none(), &locate)?;
    set_environment(options, &configured, report.as_ref(), &bring, &mut command)?;
    let findings = watched(options, &configured)
        .then(Findings::new)
        .transpose()?;
    if let Some(findings) = &findings {
        command.env("ROCJITSU_FINDINGS", bring(findings.folder())?);
    }
    if let Some(address) = &gdb {
        set_debugger(options, address, &mut command)?;
    }
    let file = &found.path;
    if options.verbose > 0 {
        warn(&format_args!(
            "running {} with {}",
            file.display(),
            library.display()
        ));
    }
    let end = child::run(&mut command).with_context(|| format!("cannot run {}", file.display()))?;
    let exact = match report {
        Some(report) => report.finish(end, options, |process, begun| {
            places.written(process, begun, &locate)
        })?,
        None => true,
    };
    let clean = match findings.map(|findings| findings.any()) {
        None => true,
        Some(Ok(any)) => !any,
        Some(Err(error)) => {
            warn(&format_args!("{error:#}"));
            false
        }
    };
    // A program that failed has said why; its status is worth more.
    Ok(Status::Exit(match end.status {
        0 if !exact || !clean => 1,
        status => status,
    }))
}

/// The plugins that processes of the program will have: of the configuration, and of the options or else of the environment.
fn all_plugins(options: &Options, configured: &PluginOptions) -> PluginOptions {
    let mut all = configured.clone();
    let more = match options.plugins.plugins.is_empty() {
        true => std::env::var("ROCJITSU_PLUGINS").unwrap_or_default(),
        false => options.plugins.variable(),
    };
    all.add(&more);
    all
}

/// Whether plugins watch the program.
fn watched(options: &Options, configured: &PluginOptions) -> bool {
    !configured.plugins.is_empty()
        || std::env::var_os("ROCJITSU_PLUGINS").is_some()
        || !options.plugins.plugins.is_empty()
}

/// Refuses a limit of file sizes under which the kernel would end the program, without a word, when it opens a device.
fn check_file_sizes() -> Result<()> {
    // The first size that is tried is larger than any limit (`gpu::memory::Arena`).
    match getrlimit(Resource::Fsize).current {
        Some(most) => bail!(
            "files may have {most} bytes here (ulimit -f), and the memory of a simulated GPU is a sparse file of more: \
             SIGXFSZ would end the program when it opens a device; `ulimit -f unlimited` lifts the limit"
        ),
        None => Ok(()),
    }
}

/// Refuses a lane back end that is none, or that this host does not have.
fn check_lanes(chosen: Option<OsString>) -> Result<()> {
    let Some(chosen) = chosen.filter(|chosen| !chosen.is_empty()) else {
        return Ok(());
    };
    let backend = chosen.to_str().and_then(Backend::from_name);
    if backend.is_some_and(Backend::is_supported) {
        return Ok(());
    }
    bail!(UsageError(format!(
        "ROCJITSU_LANES={}: {}",
        chosen.display(),
        match backend {
            None => "it is none of scalar, avx2, avx512",
            Some(_) => "this host has no such instructions",
        }
    )))
}

/// Where the program waits for a debugger, if it is to, and the program. An address that stands behind `--gdb` without an
/// equals sign looks like the program; it is taken for what it is if no file has that name.
fn debugger<'a>(
    options: &Options,
    program: &'a [OsString],
) -> Result<(Option<Address>, &'a [OsString])> {
    let Some(given) = &options.gdb else {
        return Ok((None, program));
    };
    let first = program.split_first().filter(|_| given == ANY_PORT);
    let address = first.and_then(|(first, rest)| {
        let address = first.to_str()?.parse::<Address>().ok()?;
        (!Path::new(first).exists()).then_some((address, rest))
    });
    let Some((address, rest)) = address else {
        return Ok((Some(debugger_address(given)?), program));
    };
    match rest {
        [first, rest @ ..] if first == "--" => Ok((Some(address), rest)),
        [first, ..] if !first.as_encoded_bytes().starts_with(b"-") => Ok((Some(address), rest)),
        _ => bail!(UsageError(format!(
            "--gdb {address}: options behind an address need `--gdb={address}`"
        ))),
    }
}

/// Tells the library in the program of the debugger. Whether it can listen shows here, not in the middle of the program.
fn set_debugger(options: &Options, address: &Address, command: &mut Command) -> Result<()> {
    let address = match address {
        Address::Unix(path) if options.root.is_none() => Address::Unix(absolute(path)?),
        address => address.clone(),
    };
    if options.root.is_none() || matches!(address, Address::Tcp(_)) {
        let listener = Listener::bind(&address);
        listener.with_context(|| format!("--gdb: cannot listen at {address}"))?;
    }
    command.env("ROCJITSU_GDB", address.to_string());
    if let Some(kernel) = &options.gdb_kernel {
        command.env("ROCJITSU_GDB_KERNEL", kernel);
    }
    if let Some(number) = options.gdb_dispatch {
        command.env("ROCJITSU_GDB_DISPATCH", number.to_string());
    }
    Ok(())
}

/// A path that stays the same when the program changes its directory.
fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("cannot find {}", path.display()))
}

/// The variables by which the library in the program learns what to simulate; `bring` gives the path of a file as the
/// program sees it.
fn set_environment(
    options: &Options,
    configured: &PluginOptions,
    report: Option<&Report>,
    bring: &dyn Fn(&Path) -> Result<PathBuf>,
    command: &mut Command,
) -> Result<()> {
    if let Some(path) = &options.config {
        command.env("ROCJITSU_CONFIG", bring(path)?);
    } else if let Some(name) = &options.gpu {
        command.env("ROCJITSU_CONFIG", name);
    }
    if let Some(count) = options.num_gpus {
        command.env("ROCJITSU_NUM_GPUS", count.to_string());
    }
    if let Some(threads) = options.threads {
        command.env("ROCJITSU_THREADS", threads.to_string());
    }
    if !options.plugins.plugins.is_empty() {
        command.env("ROCJITSU_PLUGINS", options.plugins.variable());
    }
    if let Some(bytes) = options.plugins.memory(configured)?.redzone {
        // The program's runtime chooses addresses: ROCr takes each allocation from the driver then, and leaves pages
        // between them.
        command.env("HSA_DISABLE_FRAGMENT_ALLOCATOR", "1");
        command.env("HSA_SVM_GUARD_PAGES", bytes.div_ceil(4096).to_string());
    }
    if options.verbose > 0 {
        command.env("ROCJITSU_VERBOSE", options.verbose.min(3).to_string());
    }
    if let Some(json) = report.map(Report::json) {
        // The file is made in its folder, which has to be there for the program.
        let (Some(folder), Some(name)) = (json.parent(), json.file_name()) else {
            bail!("cannot write the report {}", json.display());
        };
        command.env("ROCJITSU_REPORT", bring(folder)?.join(name));
    }
    command.envs(options.env.iter().map(|(name, value)| (name, value)));
    Ok(())
}
