//! The device: memory, code objects, dispatches, workgroups.

pub mod code_object;
pub mod dispatch;
mod helpers;
pub mod lock;
pub mod memory;
mod pool;
pub mod queue;
