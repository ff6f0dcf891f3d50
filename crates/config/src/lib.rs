//! Typed, strict configuration and the presets of the simulated GPUs.
