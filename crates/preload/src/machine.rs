//! The machine that the environment describes.

use std::sync::Arc;

use rocjitsu_config::Config;
use rocjitsu_kfd::Driver;
use rocjitsu_plugins::{Chosen, PluginError, build};

use crate::gdb;

/// Makes the driver of the machine that `ROCJITSU_CONFIG` and its companions describe.
///
/// # Errors
///
/// The text says which variable or file is wrong.
pub fn driver() -> Result<Driver, String> {
    let variable = |name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let config = Config::from_environment(variable).map_err(|error| error.to_string())?;
    let machine = config.machine().map_err(|error| error.to_string())?;
    let mut chosen = Chosen::configured(&machine.options.plugins)?;
    // `rocjitsu run` has emptied the files that its processes share.
    chosen.sinks.append = variable("ROCJITSU_FINDINGS").is_some();
    let left_out = |error: &PluginError| {
        eprintln!("rocjitsu: warning: {error}; the program runs without it");
    };
    let plugins = build(&chosen, left_out).map_err(|error| error.to_string())?;
    let wishes = chosen.memory().map_err(|error| error.to_string())?;
    let driver = Driver::new(machine).map_err(|error| error.to_string())?;
    let driver = match wishes.redzone {
        Some(bytes) => driver
            .with_red_zones(bytes)
            .map_err(|error| error.to_string())?,
        None => driver,
    };
    let driver = if plugins.is_empty() {
        driver
    } else {
        driver.with_plugins(Arc::new(plugins))
    };
    gdb::attach(driver, &variable)
}
