//! Where devices are found: `/dev/dri`, `/sys/class/drm`, `/sys/dev/char`, the PCI bus, the module.
//! As in the real system most of it is links into the device's own directory.

use rocjitsu_config::Machine;

use super::device::{self, Place};
use super::{DRM_MAJOR, Tree};

pub(super) fn add(tree: &mut Tree, machine: &Machine) {
    tree.own("/dev/dri");
    tree.own("/sys/class/drm");
    tree.own_prefix("/sys/dev/char", "226:");
    tree.file("/sys/class/drm/version", "drm 1.1.0 20060810\n");
    module(tree);
    for (index, gpu) in machine.gpus.iter().enumerate() {
        let place = Place::of(gpu, index as u32);
        device::add(tree, machine, gpu, &place);
        for (name, minor) in [
            (format!("card{}", place.card), place.card),
            (format!("renderD{}", place.render), place.render),
        ] {
            tree.char_device(&format!("/dev/dri/{name}"), DRM_MAJOR, minor);
            let below = format!("{}/drm/{name}", place.below_sys());
            tree.link(&format!("/sys/class/drm/{name}"), &format!("../../{below}"));
            tree.link(
                &format!("/sys/dev/char/{DRM_MAJOR}:{minor}"),
                &format!("../../{below}"),
            );
        }
        if let Some(address) = &place.address {
            for (kind, name) in [
                ("card", format!("card{}", place.card)),
                ("render", format!("renderD{}", place.render)),
            ] {
                tree.link(
                    &format!("/dev/dri/by-path/pci-{address}-{kind}"),
                    &format!("../{name}"),
                );
            }
            tree.link(
                &format!("/sys/bus/pci/devices/{address}"),
                &format!("../../../{}", place.below_sys()),
            );
            tree.link(
                &format!("/sys/bus/pci/drivers/amdgpu/{address}"),
                &format!("../../../../{}", place.below_sys()),
            );
        }
    }
}

/// `/sys/module/amdgpu`: loaded, with the version of a driver package of ROCm 7.
fn module(tree: &mut Tree) {
    tree.own("/sys/module/amdgpu");
    tree.own("/sys/bus/pci/drivers/amdgpu");
    tree.file("/sys/module/amdgpu/initstate", "live\n");
    tree.file("/sys/module/amdgpu/version", "6.16.6\n");
    tree.file("/sys/module/amdgpu/srcversion", "0\n");
    tree.file("/sys/module/amdgpu/refcnt", "1\n");
    tree.link(
        "/sys/module/amdgpu/drivers/pci:amdgpu",
        "../../../bus/pci/drivers/amdgpu",
    );
    tree.link(
        "/sys/bus/pci/drivers/amdgpu/module",
        "../../../../module/amdgpu",
    );
}
