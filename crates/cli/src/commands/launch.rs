//! `rocjitsu launch`: runs one kernel, from a description or from a code object and arguments.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use rocjitsu_isa::Target;
use rocjitsu_observe::{Plugins, Sink};
use serde_json::json;

use super::fidelity::FidelityArgs;
use super::outcome::execute;
use super::plugins::PluginArgs;
use super::report::Destination;
use super::{Status, gpu, info};
use crate::cli::UsageError;
use crate::launch::arguments::{Argument, GRAMMAR, bind};
use crate::launch::element::ElementType;
use crate::launch::from_description::Selection;
use crate::launch::npy::Array;
use crate::launch::{Buffer, DYNAMIC_STACK_BYTES, Launch};
use crate::output::{Output, chain, is_broken_pipe};

/// Arguments of `launch`.
#[derive(Debug, clap::Args)]
#[command(after_help = GRAMMAR, override_usage = "\
rocjitsu launch [OPTIONS] DESCRIPTION.json {--target TARGET | --gpu GPU | --config FILE} [--check]
       rocjitsu launch [OPTIONS] FILE.hsaco --kernel KERNEL --grid X[,Y[,Z]] --block X[,Y[,Z]] [--arg ARG]...")]
pub struct Args {
    /// Launch description (JSON) or code object (ELF); which one, the content says
    file: PathBuf,
    /// The target to run a description on, by default that of the GPU; of an offload bundle, the
    /// part to take. gfx1151 runs the code for gfx1100 if a description has none for it
    #[arg(long, value_name = "TARGET")]
    target: Option<Target>,
    /// Compare the outputs with the expected ones; status 1 if any differs
    #[arg(long, help_heading = "With a description")]
    check: bool,
    /// The kernel's name; not needed if the file has one kernel only
    #[arg(long, value_name = "KERNEL", help_heading = "With a code object")]
    kernel: Option<String>,
    /// Workgroups in each dimension
    #[arg(long, value_name = "X,Y,Z", help_heading = "With a code object")]
    grid: Option<Extents>,
    /// Threads of a workgroup in each dimension
    #[arg(long, value_name = "X,Y,Z", help_heading = "With a code object")]
    block: Option<Extents>,
    /// An argument of the kernel, see below
    #[arg(
        long = "arg",
        value_name = "ARG",
        allow_hyphen_values = true,
        help_heading = "With a code object"
    )]
    args: Vec<Argument>,
    /// LDS in bytes on top of what the kernel declares
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 0,
        help_heading = "With a code object"
    )]
    lds: u32,
    /// Write the buffer of an argument to a file afterwards: N=FILE (.npy or raw), N from 0
    #[arg(long, value_name = "N=FILE")]
    out: Vec<OutFile>,
    /// Print elements of an argument's buffer afterwards: N[:TYPE[:COUNT]], N from 0
    #[arg(long, value_name = "N[:TYPE[:COUNT]]", conflicts_with = "json")]
    print: Vec<Print>,
    /// Run the code as this target: gfx1151 runs code for gfx1100
    #[arg(long, value_name = "TARGET")]
    run_as: Option<Target>,
    /// Run the kernel this many times, on fresh buffers, and report the fastest
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write what the launch did, and what plugins record: as JSON Lines, or as a page if the name ends with .html
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    fidelity: FidelityArgs,
    #[command(flatten)]
    plugins: PluginArgs,
    #[command(flatten)]
    gpu: gpu::GpuArgs,
}

/// One to three extents; those not given are 1.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Extents([u32; 3]);

impl FromStr for Extents {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut extents = [1; 3];
        for (axis, part) in text.split(',').enumerate() {
            let slot = extents.get_mut(axis).ok_or("at most three extents")?;
            let extent = part.trim().parse().ok().filter(|&extent| extent > 0);
            *slot = extent.ok_or_else(|| format!("`{part}` is no extent"))?;
        }
        Ok(Extents(extents))
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

/// Runs the kernel and reports.
///
/// # Errors
///
/// Wrong usage, damaged files, faults of the execution, those of writing. With `--json`, all but
/// wrong usage are reported on standard output as well.
pub fn run(args: &Args, out: &mut Output) -> Result<Status> {
    let result = launch(args, out);
    if let Err(error) = &result
        && args.json
        && !error.is::<UsageError>()
        && !is_broken_pipe(error)
    {
        out.json(&failed(args, error))?;
    }
    result
}

/// The report of a launch that failed.
fn failed(args: &Args, error: &anyhow::Error) -> serde_json::Value {
    json!({
        "file": args.file.display().to_string(),
        "ok": false,
        "error": chain(error),
    })
}

/// What plugins have written into memory.
fn taken(lines: &Mutex<Vec<u8>>) -> Vec<u8> {
    std::mem::take(&mut *lines.lock().unwrap_or_else(PoisonError::into_inner))
}

fn launch(args: &Args, out: &mut Output) -> Result<Status> {
    let launch = &prepare(args)?;
    // Files and prints are checked before the kernel runs, which may take long.
    let mut files = Vec::new();
    for file in &args.out {
        files.push((
            buffer_of(launch, file.argument, "--out")?,
            file.path.as_path(),
        ));
    }
    for (argument, index) in args.args.iter().zip(&launch.arguments) {
        if let (Some(path), Some(index)) = (argument.out(), index) {
            files.push((*index, path));
        }
    }
    writable(&files)?;
    let mut prints = Vec::new();
    for print in &args.print {
        prints.push((buffer_of(launch, print.argument, "--print")?, print));
    }
    let host = args.gpu.resolve(launch.code.target())?;
    let destination = args.report.as_deref().map(Destination::new).transpose()?;
    let (memory, lines) = Sink::memory();
    let also = destination.is_some().then_some(memory);
    let plugins = args.plugins.make(&args.gpu.plugins()?, also)?;
    let report = execute(launch, &host, args.repeat, args.json, plugins.as_ref());
    // They may have something to say of a run that failed; why it failed is more important.
    let told = plugins.as_ref().map_or(Ok(()), Plugins::finish);
    let report = match report {
        Ok(report) => report,
        Err(error) => {
            if let Some(destination) = destination {
                destination.write(failed(args, &error), &taken(&lines))?;
            }
            return Err(error);
        }
    };
    if let Some(destination) = destination {
        destination.write(report.json(args.check), &taken(&lines))?;
    }
    told?;
    for (index, path) in files {
        if let (Some(buffer), Some(content)) =
            (launch.buffers.get(index), report.contents.get(index))
        {
            write_file(buffer, content, path)?;
        }
    }
    if args.json {
        out.json(&report.json(args.check))?;
    } else {
        report.text(args.check, out)?;
    }
    for (index, print) in prints {
        if let (Some(buffer), Some(content)) =
            (launch.buffers.get(index), report.contents.get(index))
        {
            print_elements(buffer, content, print, out)?;
        }
    }
    let exact = args.fidelity.accepts(&launch.kernel.name, &report.forms());
    Ok(if args.check && !report.good() || !exact {
        Status::Bad
    } else {
        Status::Good
    })
}

fn usage(text: impl Into<String>) -> anyhow::Error {
    UsageError(text.into()).into()
}

fn prepare(args: &Args) -> Result<Launch> {
    if is_code_object(&args.file)? {
        from_code_object(args)
    } else {
        from_description(args)
    }
}

fn is_code_object(path: &Path) -> Result<bool> {
    let of = || format!("cannot read {}", path.display());
    let mut start = Vec::new();
    const BUNDLE: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
    std::fs::File::open(path)
        .with_context(of)?
        .take(BUNDLE.len() as u64)
        .read_to_end(&mut start)
        .with_context(of)?;
    Ok(start.starts_with(b"\x7fELF") || start.starts_with(b"CCOB") || start == BUNDLE)
}

fn from_description(args: &Args) -> Result<Launch> {
    let code_object_only = [
        ("--kernel", args.kernel.is_some()),
        ("--grid", args.grid.is_some()),
        ("--block", args.block.is_some()),
        ("--arg", !args.args.is_empty()),
        ("--lds", args.lds != 0),
    ];
    if let Some((option, _)) = code_object_only.iter().find(|(_, given)| *given) {
        return Err(usage(format!(
            "{option} goes with a code object, but {} is a description",
            args.file.display()
        )));
    }
    let target = match args.target {
        Some(target) => target,
        None => args.gpu.target()?.ok_or_else(|| {
            usage("a description needs --target TARGET, or --gpu or --config, which imply one")
        })?,
    };
    let selection = Selection {
        target,
        run_as: args.run_as,
    };
    Launch::from_description(&args.file, selection)
}

fn from_code_object(args: &Args) -> Result<Launch> {
    if args.check {
        return Err(usage(
            "--check needs a description, which says what to expect",
        ));
    }
    let code = info::read(&args.file, args.target, args.run_as)?;
    info::expect_target(&args.file, &code, args.target)?;
    let kernel = match (&args.kernel, code.kernels()) {
        (Some(name), _) => info::kernel(&code, name)?,
        (None, [only]) => only,
        (None, kernels) => {
            let names: Vec<&str> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
            return Err(usage(format!(
                "--kernel is needed, the file has {}",
                names.join(", ")
            )));
        }
    };
    let missing = |option: &str| usage(format!("a code object needs {option} X[,Y[,Z]]"));
    let Extents(grid) = args.grid.ok_or_else(|| missing("--grid"))?;
    let Extents(block) = args.block.ok_or_else(|| missing("--block"))?;
    let kernel = kernel.clone();
    let (buffers, arguments, kernarg) = bind(&kernel, &args.args)?;
    let stack = if kernel.descriptor.properties.uses_dynamic_stack {
        DYNAMIC_STACK_BYTES
    } else {
        0
    };
    let launch = Launch {
        name: args
            .file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        code,
        grid,
        block,
        cluster: [1; 3],
        lds_dynamic: args.lds,
        private_bytes: kernel.descriptor.private_segment_fixed_size.max(stack),
        kernel,
        kernarg,
        buffers,
        arguments,
        expected_instructions: None,
    };
    launch
        .check_geometry()
        .map_err(|wrong| usage(wrong.to_string()))?;
    Ok(launch)
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
fn writable(files: &[(usize, &Path)]) -> Result<()> {
    for (number, (_, path)) in files.iter().enumerate() {
        if files.iter().take(number).any(|(_, other)| other == path) {
            return Err(usage(format!(
                "{} is given for two buffers",
                path.display()
            )));
        }
        let existed = path.exists();
        std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .with_context(|| format!("cannot write {}", path.display()))?;
        if !existed {
            std::fs::remove_file(path)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
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
        assert_eq!("4".parse(), Ok(Extents([4, 1, 1])));
        assert_eq!("4,5,6".parse(), Ok(Extents([4, 5, 6])));
        for wrong in ["", "0", "1,2,3,4", "a", "1,,2"] {
            assert!(wrong.parse::<Extents>().is_err(), "{wrong}");
        }
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
    }
}
