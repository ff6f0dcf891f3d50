//! The machine that the environment describes.

use rocjitsu_kfd::Driver;

/// Makes the driver of the machine that `ROCJITSU_CONFIG` and its companions describe.
///
/// # Errors
///
/// The text says which variable or file is wrong.
pub fn driver() -> Result<Driver, String> {
    let name = std::env::var("ROCJITSU_CONFIG").unwrap_or_else(|_| "mi300x".to_owned());
    let gpu = rocjitsu_config::preset(&name).ok_or_else(|| format!("no GPU `{name}`"))?;
    Driver::new(rocjitsu_config::Machine::new(vec![gpu])).map_err(|error| error.to_string())
}
