//! What can be wrong with a code object, said with the part of the file that is at fault.

use rocjitsu_isa::Target;

use super::descriptor::DescriptorError;
use crate::memory::MemoryError;

/// Why a code object cannot be read, or a kernel in it not found.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum CodeObjectError {
    #[error("offload bundle: {0}")]
    Bundle(String),
    #[error("ELF header: {0}")]
    Header(String),
    #[error("program header {index}: {reason}")]
    ProgramHeader { index: usize, reason: String },
    #[error("section headers: {0}")]
    Sections(String),
    #[error("note: {0}")]
    Note(String),
    #[error("metadata at {path}: {reason}")]
    Metadata { path: String, reason: String },
    #[error("symbol table: {0}")]
    Symbols(String),
    #[error("relocation {index}: {reason}")]
    Relocation { index: usize, reason: String },
    #[error("descriptor of kernel {kernel}: {source}")]
    Descriptor {
        kernel: String,
        source: DescriptorError,
    },
    #[error(
        "the code object is for {name}, a generic target, which is not executed: compile for a processor, such as {example}"
    )]
    GenericTarget {
        name: &'static str,
        example: &'static str,
    },
    #[error("the code object is for {name}, which is not executed{hint}")]
    UnsupportedTarget { name: String, hint: String },
    #[error(
        "a code object for {name} cannot run as {run_as}: the encodings of their instructions differ{hint}"
    )]
    RunAs {
        name: String,
        run_as: Target,
        hint: String,
    },
    #[error("no kernel `{name}` in the code object; it has {available}")]
    NoSuchKernel { name: String, available: String },
}

/// Why a code object cannot be placed in memory.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum LoadError {
    #[error("cannot load the code object: {0}")]
    Memory(#[from] MemoryError),
    #[error(
        "relocation {index} at {offset:#x} ({kind}) names the undefined symbol `{symbol}`: link the code object that defines it"
    )]
    UndefinedSymbol {
        index: usize,
        offset: u64,
        kind: String,
        symbol: String,
    },
    #[error("relocation {index} at {offset:#x}: {reason}")]
    Relocation {
        index: usize,
        offset: u64,
        reason: String,
    },
}
