//! A kernel launch: the code, its arguments, and what comes out. Made from a description or from
//! the command line, placed in the GPU's memory, checked against what was expected.

pub mod arguments;
pub mod compare;
pub mod description;
pub mod element;
pub mod from_description;
pub mod generate;
pub mod kernarg;
pub mod npy;
pub mod outcome;
pub mod place;
mod stated;
pub mod through_driver;

use compare::Tolerance;
use description::Direction;
use element::ElementType;
use kernarg::Kernarg;
use rocjitsu_gpu::code_object::{CodeObject, Kernel};

/// Everything that one launch needs, on the host's side.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Name for reports.
    pub name: String,
    /// The code object.
    pub code: CodeObject,
    /// The kernel in it.
    pub kernel: Kernel,
    /// Workgroups in x, y, z.
    pub grid: [u32; 3],
    /// Threads per workgroup in x, y, z.
    pub block: [u32; 3],
    /// Workgroups per cluster in x, y, z.
    pub cluster: [u32; 3],
    /// LDS in bytes on top of the descriptor's.
    pub lds_dynamic: u32,
    /// Scratch in bytes per thread.
    pub private_bytes: u32,
    /// Arguments.
    pub kernarg: Kernarg,
    /// Buffers that arguments point to.
    pub buffers: Vec<Buffer>,
    /// Which buffer each explicit argument points to, by the argument's number.
    pub arguments: Vec<Option<usize>>,
    /// Instructions that the launch is known to execute, over all waves.
    pub expected_instructions: Option<u64>,
}

/// A buffer of a launch.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Name of the argument.
    pub name: String,
    /// Type of its elements.
    pub element: ElementType,
    /// Extent of each dimension, outermost first.
    pub shape: Vec<usize>,
    /// Content before the launch.
    pub content: Vec<u8>,
    /// Whether somebody has given that content; zeros otherwise, which a kernel should not count on.
    pub given: bool,
    /// What the kernel does with it.
    pub direction: Direction,
    /// Content after the launch, if known.
    pub golden: Option<Golden>,
}

/// What a buffer should hold after the launch.
#[derive(Clone, Debug)]
pub struct Golden {
    /// SHA-256 of the bytes, in hexadecimal.
    pub sha256: String,
    /// The bytes, unless only the hash is known.
    pub content: Option<Vec<u8>>,
    /// When the content counts as right.
    pub tolerance: Tolerance,
}

/// SHA-256 in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Scratch per thread, in bytes, for a kernel whose stack the compiler could not bound.
pub const DYNAMIC_STACK_BYTES: u32 = 16 * 1024;
