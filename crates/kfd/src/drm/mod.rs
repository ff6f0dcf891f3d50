//! The DRM side of a GPU: render nodes, and the ioctls that libdrm and the thunk use on them.

pub(crate) mod gem;
mod info;
mod table;

use std::sync::{Arc, Weak};

use rocjitsu_gpu::lock::Mutex;
use rocjitsu_gpu::memory::Memory;

use crate::buffer::Buffer;
use crate::context::Context;
use crate::driver::Driver;
use crate::ranks;
pub(crate) use gem::metadata_of;
pub(crate) use info::gb_addr_config;
pub(crate) use table::TABLE;

/// One open render node.
#[derive(Debug)]
pub(crate) struct RenderFile {
    /// Index of the GPU in the driver's list.
    pub(crate) gpu: usize,
    /// The context that acquired its VM.
    pub(crate) bound: Mutex<Option<Weak<Context>>>,
    /// GEM handles of this file.
    pub(crate) gem: gem::Handles,
    /// The GPU's addresses that belong to this file: a context's once it has acquired them.
    pub(crate) memory: Arc<Memory>,
}

impl RenderFile {
    pub(crate) fn new(gpu: usize) -> Self {
        RenderFile {
            gpu,
            bound: Mutex::new(ranks::BOUND, None),
            gem: Default::default(),
            memory: Arc::new(Memory::for_program()),
        }
    }

    /// Whether the program can name a buffer by this open file: it has a GEM handle, or the context that acquired the
    /// file's addresses has it among its allocations.
    pub(crate) fn names(&self, buffer: &Arc<Buffer>) -> bool {
        self.gem.has(buffer) || {
            let context = self.bound.lock().as_ref().and_then(Weak::upgrade);
            context.is_some_and(|context| context.allocations.has(buffer))
        }
    }
}

/// An ioctl on a render node under way.
pub(crate) struct DrmCall<'a> {
    pub(crate) driver: &'a Driver,
    pub(crate) file: &'a Arc<RenderFile>,
}
