//! Why a dispatch did not finish.
//! The texts say which kernel, workgroup and instruction, and show the code around it.

use rocjitsu_isa::Target;

/// Why a dispatch did not finish.
#[derive(Debug, thiserror::Error)]
pub enum DispatchError {
    /// The dispatch asks for what the target cannot do.
    #[error("kernel {kernel}: {what}")]
    Invalid {
        /// Kernel name.
        kernel: String,
        /// What is wrong.
        what: String,
    },
    /// A wave was stopped.
    #[error(
        "kernel {kernel}, workgroup {workgroup:?}, wave {wave}, at {pc:#x} (entry + {offset:#x}) on {target}: {cause}{code}"
    )]
    Stopped {
        /// Kernel name.
        kernel: String,
        /// Workgroup id.
        workgroup: [u32; 3],
        /// Wave in the workgroup.
        wave: u32,
        /// Address of the instruction.
        pc: u64,
        /// The same from the kernel's entry.
        offset: i64,
        /// Target.
        target: Target,
        /// Where the wave seems to have come from, if the address is none of the kernel's code.
        from: Option<u64>,
        /// What happened.
        cause: rocjitsu_exec::error::Cause,
        /// Disassembly around the instruction, one line each, and the registers that it uses.
        code: String,
    },
    /// A wave accessed memory that the program had lent and took away at the same time. Some instructions may have executed
    /// since.
    #[error(
        "kernel {kernel}, workgroup {workgroup:?}, wave {wave}: {} at {:#x}: {}; it is {}", if .fault.write { "store" } else { "load" }, .fault.address, .fault.kind, .fault.near
    )]
    Lost {
        /// Kernel name.
        kernel: String,
        /// Workgroup id.
        workgroup: [u32; 3],
        /// Wave in the workgroup.
        wave: u32,
        /// The access.
        fault: crate::memory::AccessFault,
    },
    /// All waves of a workgroup wait for something that cannot come.
    #[error("kernel {kernel}, workgroup {workgroup:?}: {what}")]
    Deadlock {
        /// Kernel name.
        kernel: String,
        /// Workgroup id.
        workgroup: [u32; 3],
        /// Which waves wait where.
        what: String,
    },
    /// A plugin that watches asked for the end.
    #[error("kernel {kernel}: {failure}")]
    Plugin {
        /// Kernel name.
        kernel: String,
        /// Which one, and why.
        failure: rocjitsu_observe::Failure,
    },
    /// No memory for scratch.
    #[error("kernel {kernel}: scratch of {bytes} bytes for a workgroup: {cause}")]
    Scratch {
        /// Kernel name.
        kernel: String,
        /// Bytes wanted.
        bytes: u64,
        /// Why not.
        cause: String,
    },
    /// Somebody asked for an end before the kernel came to it.
    #[error(
        "kernel {kernel}: stopped before its end, {finished} of {workgroups} workgroups had ended"
    )]
    Stop {
        /// Kernel name.
        kernel: String,
        /// Workgroups that had ended.
        finished: u64,
        /// Workgroups of the grid.
        workgroups: u64,
    },
}
