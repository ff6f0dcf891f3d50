//! Allocations: ALLOC_MEMORY_OF_GPU, FREE, MAP, UNMAP, AVAILABLE_MEMORY.

use rustix::io::Errno;

use crate::abi::{AllocMemoryOfGpu, FreeMemoryOfGpu, GetAvailableMemory, MapMemory};
use crate::table::{Call, Handled};

/// The allocations of one context, by handle.
#[derive(Debug, Default)]
pub(crate) struct Allocations {}

pub(crate) fn alloc(_call: &Call<'_>, _args: &mut AllocMemoryOfGpu) -> Handled {
    Err(Errno::NOSYS)
}

pub(crate) fn free(_call: &Call<'_>, _args: &mut FreeMemoryOfGpu) -> Handled {
    Err(Errno::NOSYS)
}

pub(crate) fn map(_call: &Call<'_>, _args: &mut MapMemory) -> Handled {
    Err(Errno::NOSYS)
}

pub(crate) fn unmap(_call: &Call<'_>, _args: &mut MapMemory) -> Handled {
    Err(Errno::NOSYS)
}

pub(crate) fn available(_call: &Call<'_>, _args: &mut GetAvailableMemory) -> Handled {
    Err(Errno::NOSYS)
}

/// The words of the event page, in the allocation of `handle`.
///
/// # Errors
/// `EINVAL` if there is no such allocation or it is too small.
pub(crate) fn event_page(
    _call: &Call<'_>,
    _handle: u64,
) -> Result<Box<dyn crate::event::Page>, Errno> {
    Err(Errno::INVAL)
}
