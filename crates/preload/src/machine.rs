//! The machine that the environment describes.

use rocjitsu_config::Config;
use rocjitsu_kfd::Driver;

/// Makes the driver of the machine that `ROCJITSU_CONFIG` and its companions describe.
///
/// # Errors
///
/// The text says which variable or file is wrong.
pub fn driver() -> Result<Driver, String> {
    let variable = |name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let config = Config::from_environment(variable).map_err(|error| error.to_string())?;
    let machine = config.machine().map_err(|error| error.to_string())?;
    Driver::new(machine).map_err(|error| error.to_string())
}
