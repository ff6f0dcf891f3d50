//! The files that a program sees: the driver's topology, DRM devices and device nodes.
//! They are generated from the machine, so that all counts and links agree with what is there.

mod bus;
mod caches;
mod device;
mod links;
mod nodes;
mod process;
#[cfg(test)]
mod tests;
mod tree;

use rocjitsu_config::Machine;

pub(crate) use process::{ProcessFiles, QueueEntry, QueueFiles};
pub use tree::{Content, Entry, Kind, Lookup, Node, Stat, Tree};

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

/// Major number of DRM's device nodes.
pub const DRM_MAJOR: u32 = 226;
/// Major number of `/dev/kfd`. The real one is handed out at run time; programs do not ask.
pub const KFD_MAJOR: u32 = 236;

impl Tree {
    /// The files for a machine.
    pub fn new(machine: &Machine) -> Self {
        let mut tree = Tree::empty();
        let gpus = (1..).zip(&machine.gpus);
        tree.set_gpus(
            gpus.map(|(node, gpu)| GpuIdentity {
                gpu_id: gpu.identity.gpu_id,
                node,
                render_minor: gpu.identity.render_minor,
            })
            .collect(),
        );
        nodes::add(&mut tree, machine);
        bus::add(&mut tree, machine);
        tree
    }
}

/// Lines `key value`, as the driver's property files have them.
fn properties(lines: &[(&str, u64)]) -> String {
    lines
        .iter()
        .map(|(key, value)| format!("{key} {value}\n"))
        .collect()
}
