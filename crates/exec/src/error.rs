//! Why a wave stopped before its end: what happened, where, in which instruction.

use crate::memory::FaultKind;

/// The phrase that names the lane of an access.
fn by(lane: &Option<u32>) -> String {
    match lane {
        Some(lane) => format!(" by lane {lane}"),
        None => " by a scalar instruction".to_owned(),
    }
}

/// What a trap number means (LLVM's AMDGPU usage guide, "Trap Handler ABI").
fn meaning(id: u32) -> &'static str {
    match id {
        2 => {
            ": the program ended itself (llvm.trap: a failed assertion, __builtin_trap, or code that must not be reached)"
        }
        _ => ": no trap handler serves this number",
    }
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// The instruction's bytes are not an instruction of the target.
    #[error("bytes that are no instruction: {why}")]
    Undecodable {
        /// What the decoder says, with target and words.
        why: String,
    },
    /// The instruction decodes but has no semantics here.
    #[error("instruction without semantics: {what}")]
    Unsupported {
        /// Which part of it is missing.
        what: String,
    },
    /// A vector memory access failed.
    #[error("{access} of {bytes} bytes at {address:#x}{}: {kind}{near}", by(lane))]
    Memory {
        /// `load`, `store` or `atomic`.
        access: &'static str,
        /// Size of the access.
        bytes: u32,
        /// GPU address.
        address: u64,
        /// Lane. `None`: a scalar access.
        lane: Option<u32>,
        /// Why.
        kind: FaultKind,
        /// The allocation closest by, as a phrase.
        near: String,
    },
    /// An LDS access outside the workgroup's allocation, where the target faults on it.
    #[error(
        "LDS access of {bytes} bytes at {address:#x} by lane {lane}: the workgroup has {size} bytes"
    )]
    Lds {
        /// Size of the access.
        bytes: u32,
        /// Byte address in LDS.
        address: u32,
        /// Lane.
        lane: u32,
        /// LDS bytes of the workgroup.
        size: u32,
    },
    /// A trap that the program asked for.
    #[error("s_trap {id}{}", meaning(*id))]
    Trap {
        /// Its number.
        id: u32,
    },
    /// Code outside mapped memory.
    #[error("instruction fetch at {address:#x}: {kind}{near}")]
    Fetch {
        /// The address.
        address: u64,
        /// Why.
        kind: FaultKind,
        /// The allocation closest by, as a phrase.
        near: String,
    },
    /// A plugin that watches the run asked for its end.
    #[error("plugin `{plugin}`: {what}")]
    Plugin {
        /// Name of the plugin.
        plugin: String,
        /// What it says.
        what: String,
    },
    /// The wave reached a state that the hardware leaves undefined and that we refuse to guess.
    #[error("{what}")]
    Illegal {
        /// What it did.
        what: String,
    },
}

/// A stopped wave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What went wrong.
    pub cause: Cause,
    /// Address of the instruction.
    pub pc: u64,
}
