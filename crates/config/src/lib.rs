//! Typed, strict configuration and the presets of the simulated GPUs.
//! An unknown key, a value of the wrong type or out of range is an error that names the key.

#![forbid(unsafe_code)]

mod file;
mod machine;
mod presets;

pub use file::{Config, ConfigError, Overrides};
pub use machine::Machine;
pub use presets::{Gpu, PRESETS, preset, preset_for_target, preset_names};
