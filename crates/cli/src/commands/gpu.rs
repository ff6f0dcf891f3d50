//! The options that choose the simulated GPU, shared by the commands that run kernels.

use std::path::PathBuf;

use anyhow::Result;
use rocjitsu_config::{Config, Gpu, preset, preset_for_target, preset_names};
use rocjitsu_isa::Target;

use crate::cli::UsageError;

/// `--gpu`, `--config`, `--threads`.
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
    /// The GPU for code of a target, and the number of threads.
    ///
    /// # Errors
    ///
    /// A configuration that cannot be used, a GPU that does not run the target.
    pub fn resolve(&self, target: Target) -> Result<(Gpu, usize)> {
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
        Ok((gpu, threads.map_or(cores, |threads| threads as usize)))
    }
}
