//! `rocjitsu demo`: runs a kernel that comes with the program, and draws what it computed.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use rocjitsu_config::Machine;
use rocjitsu_isa::Target;

use super::{Status, gpu};
use crate::cli::UsageError;
use crate::launch::Launch;
use crate::launch::description::Description;
use crate::launch::from_description::Selection;
use crate::launch::through_driver;
use crate::output::{BAD, GOOD, Output, count, styled};

/// Arguments of `demo`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Target whose code is run; by default that of the GPU, or gfx942
    #[arg(long)]
    target: Option<Target>,
    #[command(flatten)]
    gpu: gpu::GpuArgs,
}

const DESCRIPTION: &str = include_str!("../../../../data/corpus/built/hip_escape_time.json");

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../../../../data/corpus/", $name)))),*]
    };
}

/// The files that the description names.
const FILES: &[(&str, &[u8])] = files![
    "built/hip_escape_time.gfx90a.hsaco",
    "built/hip_escape_time.gfx942.hsaco",
    "built/hip_escape_time.gfx950.hsaco",
    "built/hip_escape_time.gfx1100.hsaco",
    "built/hip_escape_time.gfx1201.hsaco",
    "built/hip_escape_time.gfx1250.hsaco",
    "golden/hip_escape_time.steps.npy",
    "golden/hip_escape_time.last.npy",
];

/// Extent of the picture that the kernel computes.
const SIDE: usize = 32;

/// The launch of the kernel for a target.
///
/// # Errors
///
/// A target that is not executed.
pub fn launch(target: Target) -> Result<Launch> {
    let description = Description::parse(DESCRIPTION)?;
    let read = |file: &Path| {
        let found = FILES.iter().find(|(name, _)| Path::new(name) == file);
        found
            .map(|(_, content)| content.to_vec())
            .with_context(|| format!("{} is not part of the program", file.display()))
    };
    Launch::from_parts(&description, Selection::of(target), &read)
}

/// Runs the kernel through the simulated driver, draws the picture, compares with the expected result.
///
/// # Errors
///
/// A fault of the execution; those of writing.
pub fn run(args: &Args, out: &mut Output) -> Result<Status> {
    let target = match args.target {
        Some(target) => target,
        None => args.gpu.target()?.unwrap_or(Target::Gfx942),
    };
    let launch = launch(target)?;
    let host = args.gpu.resolve(launch.code.target())?;
    if host.eager_registers {
        bail!(UsageError(
            "--eager-registers compares launches: use it with `rocjitsu launch`".to_owned()
        ));
    }
    let mut machine = Machine::new(vec![host.gpu.clone()]);
    machine.options.threads = u32::try_from(host.threads).ok();
    machine.options.lanes = Some(host.backend.name().to_owned());
    let done = through_driver::run(&launch, machine)?;
    let Some(steps) = done.contents.first() else {
        bail!("the kernel of the demo has no output")
    };
    draw(steps, out)?;
    let dispatch = done.report.dispatches.first();
    let (instructions, seconds) = dispatch.map_or((0, 0.0), |d| (d.instructions, d.seconds));
    let good = launch
        .judge(&done.contents)
        .iter()
        .all(|buffer| buffer.verdict.good());
    writeln!(
        out,
        "Through /dev/kfd: {} ioctls, an AQL queue, a doorbell, an event.",
        done.ioctls
    )?;
    writeln!(
        out,
        "{} on a simulated {}: {} wave instructions in {:.2} ms. {}",
        launch.kernel.name,
        host.gpu.product,
        count(instructions as f64),
        seconds * 1e3,
        if good {
            styled(GOOD, "Every bit as expected.")
        } else {
            styled(BAD, "The result is wrong.")
        }
    )?;
    Ok(if good { Status::Good } else { Status::Bad })
}

/// Draws step counts (0 to 60) as characters, two for each element so that the picture is square.
fn draw(steps: &[u8], out: &mut Output) -> Result<()> {
    const SHADES: &[u8] = b" .:-=+*#%@";
    for row in steps.chunks_exact(SIDE * 4) {
        let mut line = String::new();
        for element in row.chunks_exact(4) {
            let steps = element.first().map_or(0, |byte| usize::from(*byte).min(60));
            // Most points leave within a few steps: spread those over the shades.
            let shade = if steps == 60 {
                SHADES.len() - 1
            } else {
                (steps.max(1).ilog2() as usize * 2).min(SHADES.len() - 2)
            };
            line.extend(std::iter::repeat_n(char::from(SHADES[shade]), 2));
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_every_target_are_part_of_the_program() {
        for target in Target::ALL {
            let decoded_only = matches!(target, Target::Gfx908 | Target::Gfx1030);
            assert_eq!(launch(target).is_err(), decoded_only, "{target}");
        }
    }
}
