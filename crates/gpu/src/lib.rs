//! The device: memory, code objects, dispatches, workgroups.
