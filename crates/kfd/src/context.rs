//! One open `/dev/kfd`: the program's allocations, events and queues on every GPU.

use std::sync::{Arc, Mutex};

use crate::alloc::Allocations;
use crate::drm::RenderFile;
use crate::event::Events;
use crate::queue::Queues;
use crate::svm::Ranges;

/// What the kernel keeps for a process that has opened `/dev/kfd`.
#[derive(Debug)]
pub(crate) struct Context {
    /// By index of the driver's GPUs.
    pub(crate) gpus: Vec<ContextGpu>,
    pub(crate) allocations: Allocations,
    pub(crate) ranges: Ranges,
    pub(crate) events: Events,
    pub(crate) queues: Queues,
    /// Whether RUNTIME_ENABLE has been called.
    pub(crate) runtime_enabled: Mutex<bool>,
}

/// One GPU as a context sees it.
#[derive(Debug, Default)]
pub(crate) struct ContextGpu {
    /// The render node's file that ACQUIRE_VM named.
    pub(crate) vm: Mutex<Option<Arc<RenderFile>>>,
}

impl Context {
    pub(crate) fn new(gpus: usize) -> Context {
        Context {
            gpus: (0..gpus).map(|_| ContextGpu::default()).collect(),
            allocations: Allocations::default(),
            ranges: Ranges::default(),
            events: Events::default(),
            queues: Queues::default(),
            runtime_enabled: Mutex::default(),
        }
    }
}
