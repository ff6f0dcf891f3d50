//! The commands, one file each.

pub mod completions;
pub mod config;
pub mod coverage;
pub mod demo;
pub mod disasm;
pub mod doctor;
pub mod ending;
pub mod fidelity;
pub mod gpu;
pub mod info;
pub mod launch;
pub mod outcome;
pub mod plugins;
pub mod report;
pub mod resume;
pub mod run;
pub mod threads;

/// Whether a command that ran to its end found everything in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Exit status 0.
    Good,
    /// Exit status 1.
    Bad,
    /// The exit status of a program that was run.
    Exit(u8),
}
