//! The options that choose the simulated GPU, shared by the commands that run kernels.

use std::path::{Path, PathBuf};

use anyhow::Result;
use rocjitsu_config::{
    Config, ConfigError, Gpu, PluginOptions, preset, preset_for_target, preset_names,
};
use rocjitsu_gpu::dispatch::jit;
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;

use crate::cli::UsageError;
use crate::engine;
use crate::output::warn;

/// What kernels run on.
#[derive(Clone, Debug)]
pub struct Host {
    /// The simulated GPU.
    pub gpu: Gpu,
    /// Worker threads.
    pub threads: usize,
    /// Threads that take matrix instructions off waves, besides these.
    pub helpers: usize,
    /// What computes the lanes.
    pub backend: Backend,
    /// What is compiled.
    pub compiler: jit::Options,
    /// Allocate all declared registers of a wave at once.
    pub eager_registers: bool,
    /// Matrix products are plain chains of FMAs.
    pub fast_matrix: bool,
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
    /// Sum matrix products as plain f32 FMA chains: faster, but not bit for bit what the GPU computes
    #[arg(long)]
    fast_matrix: bool,
}

/// The lane back end with a name.
///
/// # Errors
///
/// The text lists them.
pub fn back_end(name: &str) -> Result<Backend, String> {
    let names = || Backend::ALL.map(Backend::name).join(", ");
    Backend::from_name(name).ok_or_else(|| format!("`{name}` is none of {}", names()))
}

/// Checks that a preset has this name.
///
/// # Errors
///
/// The text lists the presets.
pub fn known(name: &str) -> Result<String, String> {
    match preset(name) {
        Some(_) => Ok(name.to_owned()),
        None => Err(format!(
            "the presets are {}",
            preset_names().collect::<Vec<_>>().join(", ")
        )),
    }
}

/// Reads a configuration file.
///
/// # Errors
///
/// A file that cannot be read; wrong content, which is wrong usage. Names the file.
pub fn read_config(path: &Path) -> Result<Config> {
    Config::read(path).map_err(config_error)
}

fn config_error(error: ConfigError) -> anyhow::Error {
    match error {
        ConfigError::Read { .. } => anyhow::Error::from(error),
        wrong => UsageError(wrong.to_string()).into(),
    }
}

/// Shows on standard error what a configuration asks for and does not get.
pub fn show_warnings(path: &Path, config: &Config) {
    for warning in &config.warnings {
        warn(&format_args!("{}: {warning}", path.display()));
    }
}

/// What was asked of the host, as options and configuration say it: nothing of it has been looked up yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Request {
    /// The preset.
    gpu: Option<String>,
    /// The configuration: its file's name and text.
    config: Option<(String, String)>,
    /// Worker threads.
    pub threads: Option<u32>,
    eager_registers: bool,
    fast_matrix: bool,
}

/// The GPU that options name, with what else a configuration file says of a launch.
struct Named {
    gpu: Gpu,
    threads: Option<u32>,
    helpers: u32,
    lanes: Option<String>,
}

impl Request {
    /// The configuration, if one was given.
    fn config(&self) -> Result<Option<(PathBuf, Config)>> {
        let Some((path, text)) = &self.config else {
            return Ok(None);
        };
        let path = PathBuf::from(path);
        let config = Config::parse(text, &path).map_err(config_error)?;
        Ok(Some((path, config)))
    }

    /// The GPU that was named, if one was: of a configuration the first one.
    fn named(&self) -> Result<Option<Named>> {
        let Some((path, config)) = self.config()? else {
            let Some(name) = &self.gpu else {
                return Ok(None);
            };
            let gpu = preset(name)
                .ok_or_else(|| UsageError(format!("{name} is none of the GPUs known here")))?;
            return Ok(Some(Named {
                gpu,
                threads: None,
                helpers: 0,
                lanes: None,
            }));
        };
        let Some((gpu, _)) = config.cards.into_iter().next() else {
            return Err(UsageError(format!("{} has no GPU", path.display())).into());
        };
        Ok(Some(Named {
            gpu,
            threads: config.options.threads,
            helpers: config.options.helpers,
            lanes: config.options.lanes,
        }))
    }

    /// The GPU for code of a target, and how the host computes, with `lanes` before all others.
    ///
    /// # Errors
    ///
    /// A configuration that cannot be used, a GPU that does not run the target.
    pub fn resolve(&self, target: Target, lanes: Option<Backend>) -> Result<Host> {
        if let Some((path, config)) = self.config()? {
            show_warnings(&path, &config);
        }
        let (gpu, threads, helpers, configured) = match self.named()? {
            Some(named) => (Some(named.gpu), named.threads, named.helpers, named.lanes),
            None => (preset_for_target(target.name()), None, 0, None),
        };
        let threads = self.threads.or(threads);
        let gpu = gpu.ok_or_else(|| UsageError(format!("{target} is decoded, not executed")))?;
        if gpu.target != target.name() {
            return Err(UsageError(format!(
                "{} is a {}, which does not run code for {target}",
                gpu.name, gpu.target
            ))
            .into());
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        // An option goes before the environment, the environment before the file.
        let configured = configured
            .filter(|_| std::env::var_os("ROCJITSU_LANES").is_none_or(|name| name.is_empty()))
            .and_then(|name| Backend::from_name(&name));
        let backend = match lanes.or(configured) {
            Some(backend) => backend,
            None => engine::backend().map_err(|error| UsageError(error.to_string()))?,
        };
        Ok(Host {
            gpu,
            threads: threads.map_or(cores, |threads| threads.clamp(1, 1024) as usize),
            helpers: helpers as usize,
            backend,
            compiler: jit::Options::from_environment().map_err(UsageError)?,
            eager_registers: self.eager_registers,
            fast_matrix: self.fast_matrix,
        })
    }
}

impl GpuArgs {
    /// What the options ask for.
    ///
    /// # Errors
    ///
    /// A configuration that cannot be read.
    pub fn request(&self) -> Result<Request> {
        let config = match &self.config {
            None => None,
            Some(path) => {
                let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
                    path: path.clone(),
                    source,
                })?;
                Some((path.display().to_string(), text))
            }
        };
        Ok(Request {
            gpu: self.gpu.clone(),
            config,
            threads: self.threads,
            eager_registers: self.eager_registers,
            fast_matrix: self.fast_matrix,
        })
    }

    /// The plugins that a configuration asks for.
    ///
    /// # Errors
    ///
    /// A configuration that cannot be used.
    pub fn plugins(&self) -> Result<PluginOptions> {
        match &self.config {
            Some(path) => Ok(read_config(path)?.options.plugins),
            None => Ok(PluginOptions::default()),
        }
    }

    /// The target of the GPU that `--gpu` or `--config` names, if one does.
    ///
    /// # Errors
    ///
    /// A configuration that cannot be used.
    pub fn target(&self) -> Result<Option<Target>> {
        match self.request()?.named()? {
            Some(named) => Ok(Some(named.gpu.target.parse()?)),
            None => Ok(None),
        }
    }

    /// The GPU for code of a target, and how the host computes.
    ///
    /// # Errors
    ///
    /// A configuration that cannot be used, a GPU that does not run the target.
    pub fn resolve(&self, target: Target) -> Result<Host> {
        self.request()?.resolve(target, self.lanes)
    }

    /// The lane back end that the options ask for.
    pub fn lanes(&self) -> Option<Backend> {
        self.lanes
    }
}
