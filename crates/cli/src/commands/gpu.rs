//! The options that choose the simulated GPU, shared by the commands that run kernels.

use std::path::PathBuf;

use anyhow::Result;
use rocjitsu_config::{Config, Gpu, preset, preset_for_target, preset_names};
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;

use crate::cli::UsageError;
use crate::engine;

/// What kernels run on.
#[derive(Clone, Debug)]
pub struct Host {
    /// The simulated GPU.
    pub gpu: Gpu,
    /// Worker threads.
    pub threads: usize,
    /// What computes the lanes.
    pub backend: Backend,
    /// Allocate all declared registers of a wave at once.
    pub eager_registers: bool,
}

/// `--gpu`, `--config`, `--threads`, `--lanes`.
#[derive(Debug, clap::Args)]
pub struct GpuArgs {
    /// GPU to simulate (see `rocjitsu config list`); by default the one of the target
    #[arg(long, value_name = "GPU", conflicts_with = "config", value_parser = known)]
    gpu: Option<String>,
    /// Configuration file (see `rocjitsu config --help`)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Worker threads; by default one for each core of the host
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Vector instructions of the host to use: scalar, avx2 or avx512; by default the best it has,
    /// or what the environment variable ROCJITSU_LANES says
    #[arg(long, value_name = "LANES", value_parser = back_end)]
    lanes: Option<Backend>,
    /// Allocate all registers that the kernel declares, not only those it touches (to compare)
    #[arg(long, hide = true)]
    eager_registers: bool,
}

fn back_end(name: &str) -> Result<Backend, String> {
    let names = || Backend::ALL.map(Backend::name).join(", ");
    Backend::from_name(name).ok_or_else(|| format!("`{name}` is none of {}", names()))
}

fn known(name: &str) -> Result<String, String> {
    match preset(name) {
        Some(_) => Ok(name.to_owned()),
        None => Err(format!(
            "the presets are {}",
            preset_names().collect::<Vec<_>>().join(", ")
        )),
    }
}

impl GpuArgs {
    /// The GPU for code of a target, and how the host computes.
    ///
    /// # Errors
    ///
    /// A configuration that cannot be used, a GPU that does not run the target.
    pub fn resolve(&self, target: Target) -> Result<Host> {
        let mut threads = self.threads;
        let gpu = if let Some(path) = &self.config {
            let config = Config::read(path)?;
            threads = threads.or(config.threads);
            Some(config.resolve()?)
        } else if let Some(name) = &self.gpu {
            preset(name)
        } else {
            preset_for_target(target.name())
        };
        let gpu = gpu.ok_or_else(|| UsageError(format!("{target} is decoded, not executed")))?;
        if gpu.target != target.name() {
            return Err(UsageError(format!(
                "{} is a {}, which does not run code for {target}",
                gpu.name, gpu.target
            ))
            .into());
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let backend = match self.lanes {
            Some(backend) => backend,
            None => engine::backend().map_err(|error| UsageError(error.to_string()))?,
        };
        Ok(Host {
            gpu,
            threads: threads.map_or(cores, |threads| threads as usize),
            backend,
            eager_registers: self.eager_registers,
        })
    }
}
