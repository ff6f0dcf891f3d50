//! The `rocjitsu` command: launching kernels from code objects, looking into them, configuration.
//! Each command has a file of its own; `launch` holds what belongs to a kernel launch.

#![deny(unsafe_code)]

pub mod checkpoint;
pub mod cli;
pub mod commands;
pub mod engine;
pub mod launch;
pub mod output;
pub mod page;
pub mod runs;
pub mod session;
pub mod tui;
