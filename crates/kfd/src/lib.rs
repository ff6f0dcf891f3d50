//! The simulated driver: what a program reaches through `/dev/kfd`, `/dev/dri/renderD*` and sysfs.
//! So far the files of its topology.

pub mod topology;
