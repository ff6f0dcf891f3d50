//! GEM and PRIME on a render node: buffer handles, their mmap offsets and addresses.

use rustix::io::Errno;

use super::DrmCall;
use crate::abi::{DrmGemClose, DrmGemCreate, DrmGemMmap, DrmGemOp, DrmGemVa, DrmPrimeHandle};
use crate::table::Handled;

/// The GEM handles of one open render node.
#[derive(Debug, Default)]
pub(crate) struct Handles {}

pub(crate) fn close(_call: &DrmCall<'_>, _args: &mut DrmGemClose) -> Handled {
    Err(Errno::NOSYS)
}

pub(crate) fn prime_export(_call: &DrmCall<'_>, _args: &mut DrmPrimeHandle) -> Handled {
    Err(Errno::NOSYS)
}

pub(crate) fn prime_import(_call: &DrmCall<'_>, _args: &mut DrmPrimeHandle) -> Handled {
    Err(Errno::NOSYS)
}

pub(crate) fn create(_call: &DrmCall<'_>, _args: &mut DrmGemCreate) -> Handled {
    Err(Errno::NOSYS)
}

pub(crate) fn mmap(_call: &DrmCall<'_>, _args: &mut DrmGemMmap) -> Handled {
    Err(Errno::NOSYS)
}

pub(crate) fn va(_call: &DrmCall<'_>, _args: &mut DrmGemVa) -> Handled {
    Err(Errno::NOSYS)
}

pub(crate) fn op(_call: &DrmCall<'_>, _args: &mut DrmGemOp) -> Handled {
    Err(Errno::NOSYS)
}
