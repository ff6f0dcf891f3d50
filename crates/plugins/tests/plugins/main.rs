//! Plugins over the corpus and over kernels with seeded faults.

mod concurrent;
mod corpus;
mod effects;
mod failures;
mod fidelity;
mod foreign;
mod formats;
mod hooks;
mod interleaved;
mod mutation;
mod rig;
mod seeded;
mod sinks;
mod suspended;
