//! The built-in plugins, and how a run's plugins are chosen: [`Selection`]s name plugins and their options,
//! [`build`] makes the host that runs them. `docs/plugins.md` tells users what each one does.

#![deny(unsafe_code)]

mod counters;
mod coverage;
mod fidelity;
#[allow(unsafe_code, reason = "loadable plugins are C")]
mod foreign;
mod geometry;
mod hazard;
mod logging;
mod memcheck;
mod mix;
mod options;
mod race;
mod select;
mod symbols;
mod tally;
mod throughput;
mod trace;

pub use counters::{Counter, Issue, issued, waited};
pub use memcheck::MemoryWishes;
pub use options::Options;
pub use select::{
    Chosen, Content, NAMES, PluginError, Selection, SinkKind, Sinks, Written, build, check, make,
    numbered, writable,
};
pub use symbols::Symbols;
