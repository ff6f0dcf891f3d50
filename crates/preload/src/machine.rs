//! The machine that the environment describes.

use rocjitsu_config::{Cpu, Machine, Options, PartitionMode, preset};
use rocjitsu_kfd::Driver;

/// Makes the driver of the machine that `ROCJITSU_CONFIG` and its companions describe.
///
/// # Errors
///
/// The text says which variable or file is wrong.
pub fn driver() -> Result<Driver, String> {
    let name = std::env::var("ROCJITSU_CONFIG").unwrap_or_else(|_| "mi300x".to_owned());
    let gpu = preset(&name).ok_or_else(|| format!("ROCJITSU_CONFIG: no GPU `{name}`"))?;
    let count = std::env::var("ROCJITSU_NUM_GPUS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let cards = vec![(gpu, PartitionMode::Spx); count];
    let machine = Machine::new(cards, Cpu::host(), Options::default()).map_err(|error| error.to_string())?;
    Driver::new(machine).map_err(|error| error.to_string())
}
