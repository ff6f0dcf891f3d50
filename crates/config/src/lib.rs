//! Typed, strict configuration and the presets of the simulated GPUs.
//! An unknown key, a value of the wrong type or out of range is an error that names the key.

#![forbid(unsafe_code)]

mod components;
mod cpu;
mod file;
mod gpu;
mod json;
mod library;
mod machine;
mod overrides;
mod plugins;
mod presets;
mod reference;
#[cfg(test)]
mod tests;
mod threads;

pub use cpu::{Cpu, CpuCache};
pub use file::{Config, ConfigError, Warning};
pub use gpu::{
    Cache, CacheKind, CacheScope, Firmware, GC_HWID, Gpu, Identity, IpBlock, MemoryInterface,
    MemoryKind, NBIF_HWID, Partition, PartitionMode, SDMA0_HWID, Sdma,
};
pub use library::unknown_targets;
pub use machine::{KfdVersion, MOST_NODES, Machine, MachineError, Options};
pub use plugins::PluginOptions;
pub use presets::{PRESETS, preset, preset_for_target, preset_names};
pub use threads::{ThreadRow, ThreadTable};
