//! The library that `rocjitsu run` loads into a program: it stands between the program and the C library, and lets
//! the simulated driver answer what concerns `/dev/kfd`, `/dev/dri` and sysfs's description of AMD GPUs.
//!
//! - [`guard`], [`real`]: who calls, and the C library's own functions.
//! - [`paths`], [`fds`], [`dirs`]: which paths, descriptors and directory streams are ours, decided cheaply.
//! - [`process`], [`machine`]: the one driver of this process.
//! - [`report`]: what the program did, written at its end and while it runs.
//! - [`gdb`]: its debugger, if there is one.
//! - [`measure`]: what this library costs the program, if that is wanted.
//! - [`runtime`]: whether the program's ROCr knows the GPUs.
//! - [`tree`]: what the simulated trees say, in the C library's terms.
//! - `hooks`: the functions the program calls.
//!
//! Nothing of this may be linked into the `rocjitsu` command itself, whose `open` would then be ours: the command only
//! lists this package as a dependency, so that Cargo builds the shared object, and names nothing of it.

pub mod dirs;
pub mod fds;
pub mod gdb;
pub mod guard;
#[cfg_attr(
    test,
    allow(dead_code, reason = "unit tests keep the C library's own functions")
)]
mod hooks;
pub mod lock;
pub mod machine;
pub mod measure;
pub mod paths;
pub mod process;
pub mod real;
pub mod report;
pub mod runtime;
pub mod tree;
