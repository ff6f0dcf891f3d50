//! `rocjitsu resume`: goes on with a launch that was kept in a checkpoint.

use std::path::{Path, PathBuf};

use anyhow::Result;
use rocjitsu_lanes::Backend;

use super::Status;
use super::ending::EndArgs;
use super::gpu::back_end;
use crate::output::Output;
use crate::session::{Instead, Session};

/// Arguments of `resume`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A checkpoint that `rocjitsu launch` or `rocjitsu resume` wrote
    #[arg(required_unless_present = "gdb")]
    file: Option<PathBuf>,
    /// Worker threads, instead of those that the launch asked for
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Vector instructions of the host to use: scalar, avx2 or avx512; by default the best it has,
    /// or what the environment variable ROCJITSU_LANES says
    #[arg(long, value_name = "LANES", value_parser = back_end)]
    lanes: Option<Backend>,
    #[command(flatten)]
    end: EndArgs,
}

/// Runs what is left of the launch and reports as `launch` does.
///
/// # Errors
///
/// A file that is no checkpoint, is damaged or of another format; otherwise those of `launch`.
pub fn run(args: &Args, out: &mut Output) -> Result<Status> {
    let file = args.end.file(args.file.as_deref())?;
    args.end.told(file, resume(args, file, out), out)
}

fn resume(args: &Args, file: &Path, out: &mut Output) -> Result<Status> {
    let asked = args.end.wait_for_signal()?;
    let instead = Instead {
        threads: args.threads,
        lanes: args.lanes,
    };
    let mut session = Session::load(file, instead)?;
    let end = args
        .end
        .prepare(&session.launch, args.file.as_deref(), Vec::new(), asked)?;
    end.check_repeat(session.repeat())?;
    end.run(&mut session, None, out)
}
