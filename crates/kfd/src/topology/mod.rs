//! The virtual files and directories that describe the machine: sysfs topology, DRM devices,
//! the module's state, and the device nodes.

use std::path::Path;

use rocjitsu_config::Machine;

/// What `stat` says of a virtual file or device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// File type and permissions (`st_mode`).
    pub mode: u32,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// Size in bytes.
    pub bytes: u64,
    /// Number of the file, unique in the tree.
    pub inode: u64,
}

/// How the driver names a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuIdentity {
    /// The topology's `gpu_id`, not zero.
    pub gpu_id: u32,
    /// Number of the node in the topology.
    pub node: u32,
    /// Minor number of `/dev/dri/renderD*`.
    pub render_minor: u32,
}

/// The tree of virtual files.
#[derive(Debug)]
pub struct Tree {
    gpus: Vec<GpuIdentity>,
}

impl Tree {
    /// The tree that describes `machine`.
    pub fn new(machine: &Machine) -> Tree {
        let gpus = (0..machine.gpus.len() as u32)
            .map(|i| GpuIdentity {
                gpu_id: 0x4000 + i * 0x101,
                node: i + 1,
                render_minor: 128 + i,
            })
            .collect();
        Tree { gpus }
    }

    /// The GPUs, in the order of the configuration.
    pub fn gpus(&self) -> &[GpuIdentity] {
        &self.gpus
    }

    /// What `stat` says of a path; `None` if it is not one of ours.
    pub fn stat(&self, _path: &Path) -> Option<Stat> {
        None
    }
}
