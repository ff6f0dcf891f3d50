//! Queues: the ioctls that make, change and destroy them.

mod doorbell;

use rustix::io::Errno;

use crate::abi::{
    AllocQueueGws, CreateQueue, DestroyQueue, GetQueueWaveState, SetCuMask, UpdateQueue,
};
use crate::table::{Call, Handled};

pub(crate) use doorbell::{Doorbells, SLICE};

/// The queues of one context.
#[derive(Debug, Default)]
pub(crate) struct Queues {}

impl Queues {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        0
    }
}

pub(crate) fn create(_call: &Call<'_>, _args: &mut CreateQueue) -> Handled {
    Err(Errno::NOSYS)
}

pub(crate) fn destroy(_call: &Call<'_>, _args: &mut DestroyQueue) -> Handled {
    Err(Errno::NOSYS)
}

pub(crate) fn update(_call: &Call<'_>, _args: &mut UpdateQueue) -> Handled {
    Err(Errno::NOSYS)
}

pub(crate) fn set_cu_mask(_call: &Call<'_>, _args: &mut SetCuMask) -> Handled {
    Err(Errno::NOSYS)
}

pub(crate) fn wave_state(_call: &Call<'_>, _args: &mut GetQueueWaveState) -> Handled {
    Err(Errno::NOSYS)
}

pub(crate) fn alloc_gws(_call: &Call<'_>, _args: &mut AllocQueueGws) -> Handled {
    Err(Errno::NOSYS)
}
