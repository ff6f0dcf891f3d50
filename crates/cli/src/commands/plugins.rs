//! The option that chooses plugins, shared by the commands that run kernels.

use std::path::PathBuf;

use anyhow::Result;
use rocjitsu_config::PluginOptions;
use rocjitsu_observe::{Plugins, Sink};
use rocjitsu_plugins::{Chosen, MemoryWishes, Selection, build};

use crate::cli::UsageError;
use crate::output::warn;

/// `--plugin`.
#[derive(Debug, clap::Args)]
pub struct PluginArgs {
    /// Let a plugin watch (see docs/plugins.md): throughput, instruction_mix, logging, trace, race, memcheck,
    /// data_hazard, coverage, fidelity, or the path of a loadable one; may be given several times
    #[arg(long = "plugin", value_name = "NAME[:KEY=VALUE,...]")]
    pub plugins: Vec<Selection>,
}

impl PluginArgs {
    /// The plugins of the options and of a configuration; what they record goes to `also`, too.
    ///
    /// # Errors
    ///
    /// A plugin of the options that cannot be made; one of the configuration, if that requires all.
    pub fn make(&self, configured: &PluginOptions, also: Option<Sink>) -> Result<Option<Plugins>> {
        let mut chosen = self.chosen(configured)?;
        chosen.sinks.also = also;
        let left_out = |error: &rocjitsu_plugins::PluginError| warn(error);
        let plugins = build(&chosen, left_out).map_err(|error| UsageError(error.to_string()))?;
        Ok((!plugins.is_empty()).then_some(plugins))
    }

    fn chosen(&self, configured: &PluginOptions) -> Result<Chosen> {
        let mut chosen = Chosen::configured(configured).map_err(UsageError)?;
        chosen.plugins.extend(self.plugins.iter().cloned());
        Ok(chosen)
    }

    /// What the plugins ask of the memory.
    ///
    /// # Errors
    ///
    /// An option that has no such value.
    pub fn memory(&self, configured: &PluginOptions) -> Result<MemoryWishes> {
        let wishes = self.chosen(configured)?.memory();
        Ok(wishes.map_err(|error| UsageError(error.to_string()))?)
    }

    /// The options' plugins as `ROCJITSU_PLUGINS` holds them.
    pub fn variable(&self) -> String {
        let one = |selection: &Selection| {
            let options: Vec<_> = selection
                .options
                .iter()
                .map(|(k, v)| format!("{k}={v}"))
                .collect();
            format!("{}:{}", selection.name, options.join(","))
        };
        self.plugins.iter().map(one).collect::<Vec<_>>().join(";")
    }

    /// The files that the options' plugins write records or time lines to; `process` is the number in their names.
    pub fn files(&self, process: u64) -> Vec<PathBuf> {
        let options = self.plugins.iter().flat_map(|plugin| plugin.options.iter());
        let files = options.filter(|(key, _)| matches!(*key, "file" | "timeline"));
        let named = |name: &str| name.replace("%p", &process.to_string()).into();
        files.map(|(_, name)| named(name)).collect()
    }
}
