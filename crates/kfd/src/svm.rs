//! Shared virtual memory: ranges of the program's own memory that GPUs may access, and XNACK.

use rustix::io::Errno;

use crate::abi::SetXnackMode;
use crate::table::{Call, Handled};

/// The ranges of one context and its XNACK mode.
#[derive(Debug, Default)]
pub(crate) struct Ranges {}

/// SVM: [`crate::abi::Svm`] followed by its attributes, in place.
pub(crate) fn svm(_call: &Call<'_>, _args: &mut [u8]) -> Handled {
    Err(Errno::NOSYS)
}

pub(crate) fn set_xnack_mode(_call: &Call<'_>, args: &mut SetXnackMode) -> Handled {
    match args.xnack_enabled {
        ..=0 => {
            args.xnack_enabled = 0;
            Ok(())
        }
        _ => Err(Errno::PERM),
    }
}
