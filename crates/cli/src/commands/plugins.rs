//! The option that chooses plugins, shared by the commands that run kernels.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use rocjitsu_config::PluginOptions;
use rocjitsu_observe::{Plugins, Sink};
use rocjitsu_plugins::{Chosen, MemoryWishes, Selection, build};

use crate::cli::UsageError;
use crate::output::{lines, warn};

/// `--plugin`.
#[derive(Debug, clap::Args)]
pub struct PluginArgs {
    /// Let a plugin watch (see docs/plugins.md): throughput, instruction_mix, logging, trace, race, memcheck,
    /// data_hazard, coverage, fidelity, or the path of a loadable one; may be given several times
    #[arg(long = "plugin", value_name = "NAME[:KEY=VALUE,...]")]
    pub plugins: Vec<Selection>,
}

/// The plugins of a launch, and what they have recorded for a terminal on which something else is drawn.
pub struct Watching {
    /// The plugins.
    pub plugins: Plugins,
    records: Option<Arc<Mutex<Vec<u8>>>>,
}

impl Watching {
    /// The records for the terminal since the last call, whole lines.
    pub fn take_records(&self) -> String {
        let Some(records) = &self.records else {
            return String::new();
        };
        let taken = std::mem::take(&mut *records.lock().unwrap_or_else(PoisonError::into_inner));
        String::from_utf8_lossy(&taken).into_owned()
    }

    /// Tells the plugins that the run is over, and writes what they recorded for the terminal, on which nothing is drawn any
    /// more, to standard error.
    ///
    /// # Errors
    ///
    /// The plugin that failed.
    pub fn finish(&self) -> Result<()> {
        let told = self.plugins.finish();
        let records = self.take_records();
        lines(&records);
        Ok(told?)
    }
}

impl PluginArgs {
    /// The plugins of the options and of a configuration; what they record goes to `also`, too. `drawn`: something is drawn
    /// on standard error if that is a terminal; records for it are kept for whoever draws.
    ///
    /// # Errors
    ///
    /// A plugin of the options that cannot be made; one of the configuration, if that requires all.
    pub fn make(
        &self,
        configured: &PluginOptions,
        also: Option<Sink>,
        drawn: bool,
    ) -> Result<Option<Watching>> {
        let mut chosen = self.chosen(configured)?;
        chosen.sinks.also = also;
        let records = (drawn && std::io::stderr().is_terminal()).then(Sink::memory);
        let (sink, records) = records.unzip();
        chosen.sinks.terminal = sink;
        let left_out = |error: &rocjitsu_plugins::PluginError| warn(error);
        let plugins = build(&chosen, left_out).map_err(|error| UsageError(error.to_string()))?;
        Ok((!plugins.is_empty()).then_some(Watching { plugins, records }))
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
}
