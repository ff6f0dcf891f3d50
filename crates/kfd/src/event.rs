//! Events: how the GPU and the driver wake the program.

use rustix::io::Errno;

use crate::abi::{CreateEvent, EventId, WaitEvents};
use crate::table::{Call, Handled};

/// The events of one context.
#[derive(Debug, Default)]
pub(crate) struct Events {}

pub(crate) fn create(_call: &Call<'_>, _args: &mut CreateEvent) -> Handled {
    Err(Errno::NOSYS)
}

pub(crate) fn destroy(_call: &Call<'_>, _args: &mut EventId) -> Handled {
    Err(Errno::NOSYS)
}

pub(crate) fn set(_call: &Call<'_>, _args: &mut EventId) -> Handled {
    Err(Errno::NOSYS)
}

pub(crate) fn reset(_call: &Call<'_>, _args: &mut EventId) -> Handled {
    Err(Errno::NOSYS)
}

pub(crate) fn wait(_call: &Call<'_>, _args: &mut WaitEvents) -> Handled {
    Err(Errno::NOSYS)
}
