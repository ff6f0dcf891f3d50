//! The simulated driver: what a program reaches through `/dev/kfd`, `/dev/dri/renderD*` and sysfs.
//! One [`Driver`] per process; the preloaded library hands it the program's system calls.

pub mod abi;
mod alloc;
mod buffer;
pub mod client;
mod clock;
mod conductor;
mod context;
mod descriptors;
mod dmabuf;
mod driver;
mod drm;
mod event;
mod fidelity;
mod file;
mod host;
mod process;
mod queue;
mod ranks;
mod redzone;
mod report;
mod smi;
mod svm;
pub mod table;
#[cfg(test)]
mod tests;
pub mod topology;
mod user;

pub use conductor::Conductor;
pub use driver::{Driver, Error, HostChange};
pub use event::{around_waits, has_futex_waitv};
pub use fidelity::FormCount;
pub use report::{
    DispatchLine, Executed, Fault, Forms, Interpreted, IoctlCount, KernelCount, Own, Report,
    Results,
};
pub use rocjitsu_gpu::memory::lost::{after_fork, disposition};
pub use rustix::io::Errno;
