//! Where a launch meets what executes it.

use anyhow::Result;
use rocjitsu_config::Gpu;
use rocjitsu_gpu::memory::Memory;

use crate::launch::Launch;
use crate::launch::place::{Placed, Statistics};

/// How to execute.
pub struct Options<'a> {
    /// Worker threads, at least 1.
    pub threads: usize,
    /// The GPU that is simulated.
    pub gpu: &'a Gpu,
    /// Called with the number of workgroups done so far, from any thread.
    pub progress: &'a (dyn Fn(u64) + Sync),
}

/// Executes one dispatch from its first workgroup to its last.
///
/// # Errors
///
/// A fault, with the instruction and address; an instruction that is not implemented.
pub fn run(
    _memory: &Memory,
    launch: &Launch,
    _placed: &Placed,
    _options: &Options<'_>,
) -> Result<Statistics> {
    anyhow::bail!(
        "{} is ready to run, but this build has no execution engine",
        launch.name
    )
}
