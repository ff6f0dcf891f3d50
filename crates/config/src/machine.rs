//! The whole simulated machine: its GPUs and the options of the driver.

use crate::Gpu;

/// What the driver simulates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The GPUs, in the order of their nodes.
    pub gpus: Vec<Gpu>,
    /// Worker threads; `None` for as many as the host offers.
    pub threads: Option<usize>,
    /// Minor version of the KFD interface that is reported (major is 1).
    pub kfd_minor: u32,
}

impl Machine {
    /// A machine with these GPUs and the usual options.
    pub fn new(gpus: Vec<Gpu>) -> Self {
        Machine {
            gpus,
            threads: None,
            kfd_minor: 17,
        }
    }
}
