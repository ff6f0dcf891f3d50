//! `rocjitsu launch`: runs one kernel, from a description or from a code object and arguments.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result};
use rocjitsu_isa::Target;

use super::ending::EndArgs;
use super::plugins::PluginArgs;
use super::{Status, gpu, info};
use crate::cli::UsageError;
use crate::launch::arguments::{Argument, GRAMMAR, bind};
use crate::launch::from_description::Selection;
use crate::launch::{DYNAMIC_STACK_BYTES, Launch};
use crate::output::Output;
use crate::session::Session;

/// Arguments of `launch`.
#[derive(Debug, clap::Args)]
#[command(after_help = GRAMMAR, override_usage = "\
rocjitsu launch [OPTIONS] DESCRIPTION.json {--target TARGET | --gpu GPU | --config FILE} [--check]
       rocjitsu launch [OPTIONS] FILE.hsaco --kernel KERNEL --grid X[,Y[,Z]] --block X[,Y[,Z]] [--arg ARG]...")]
pub struct Args {
    /// Launch description (JSON) or code object (ELF); which one, the content says
    #[arg(required_unless_present = "gdb")]
    file: Option<PathBuf>,
    /// The target to run a description on, by default that of the GPU; of an offload bundle, the
    /// part to take. gfx1151 runs the code for gfx1100 if a description has none for it
    #[arg(long, value_name = "TARGET")]
    target: Option<Target>,
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
    /// Run the code as this target: gfx1151 runs code for gfx1100
    #[arg(long, value_name = "TARGET")]
    run_as: Option<Target>,
    /// Run the kernel this many times, on fresh buffers, and report the fastest
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    #[command(flatten)]
    end: EndArgs,
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

/// Runs the kernel and reports.
///
/// # Errors
///
/// Wrong usage, damaged files, faults of the execution, those of writing. With `--json`, all but
/// wrong usage are reported on standard output as well.
pub fn run(args: &Args, out: &mut Output) -> Result<Status> {
    let file = args.end.file(args.file.as_deref())?;
    args.end.told(file, launch(args, file, out), out)
}

fn launch(args: &Args, file: &Path, out: &mut Output) -> Result<Status> {
    let asked = args.end.wait_for_signal()?;
    let launch = prepare(args, file)?;
    // Files and prints are checked before the kernel runs, which may take long.
    let mut files = Vec::new();
    for (argument, index) in args.args.iter().zip(&launch.arguments) {
        if let (Some(path), Some(index)) = (argument.out(), index) {
            files.push((*index, path.to_owned()));
        }
    }
    let end = args
        .end
        .prepare(&launch, args.file.as_deref(), files, asked)?;
    let request = args.gpu.request()?;
    let host = request.resolve(launch.code.target(), args.gpu.lanes())?;
    lds_fits(args, &launch, host.gpu.lds_kib << 10)?;
    let configured = args.gpu.plugins()?;
    if args.end.is_json() && configured.sinks.iter().any(|sink| sink == "stdout") {
        return Err(usage(
            "--json and the sink stdout of the configuration: what is there would be no JSON",
        ));
    }
    let wishes = args.plugins.memory(&configured)?;
    let plugins = args.plugins.make(&configured, end.sink(), end.is_drawn())?;
    if end.is_kept() && plugins.is_some() {
        return Err(usage(
            "--checkpoint goes with no plugins: they would hear only of a part of the launch",
        ));
    }
    if end.is_debugged() && plugins.is_some() {
        return Err(usage(
            "--gdb goes with no plugins: they cannot follow a dispatch that stops",
        ));
    }
    end.check_repeat(args.repeat)?;
    let mut session = Session::watched(launch, request, host, args.repeat, wishes)?;
    if let Some(watching) = &plugins {
        session.tell(&watching.plugins)?;
    }
    end.run(&mut session, plugins.as_ref(), out)
}

fn usage(text: impl Into<String>) -> anyhow::Error {
    UsageError(text.into()).into()
}

fn prepare(args: &Args, file: &Path) -> Result<Launch> {
    if is_code_object(file)? {
        from_code_object(args, file)
    } else {
        from_description(args, file)
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

fn from_description(args: &Args, file: &Path) -> Result<Launch> {
    let code_object_only = [
        ("--kernel", args.kernel.is_some()),
        ("--grid", args.grid.is_some()),
        ("--block", args.block.is_some()),
        ("--arg", !args.args.is_empty()),
        ("--lds", args.lds != 0),
    ];
    if let Some((option, _)) = code_object_only.iter().find(|(_, given)| *given) {
        let is = match std::fs::read(file) {
            Ok(text) if text.trim_ascii_start().starts_with(b"{") => "a description",
            _ => "neither a code object nor a bundle of them",
        };
        return Err(usage(format!(
            "{option} goes with a code object, but {} is {is}",
            file.display()
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
    Launch::from_description(file, selection)
}

fn from_code_object(args: &Args, file: &Path) -> Result<Launch> {
    if args.end.check {
        return Err(usage(
            "--check needs a description, which says what to expect",
        ));
    }
    let code = info::read(file, args.target, args.run_as)?;
    info::expect_target(file, &code, args.target)?;
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
        name: file
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

/// Refuses an `--lds` that leaves the kernel more than the `limit` bytes that a workgroup of the GPU can have.
fn lds_fits(args: &Args, launch: &Launch, limit: u32) -> Result<()> {
    let declared = launch.kernel.descriptor.group_segment_fixed_size;
    if args.lds > limit.saturating_sub(declared) && declared <= limit {
        let (name, lds) = (&launch.kernel.name, args.lds);
        return Err(usage(format!(
            "--lds {lds}: with the {declared} bytes that {name} declares, that is more than the {limit} of the GPU"
        )));
    }
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
    }
}
