//! DRM_IOCTL_VERSION, GET_CLIENT and AMDGPU_INFO: what the render node says of the GPU.

use rustix::io::Errno;

use super::DrmCall;
use crate::abi::{DrmClient, DrmInfo, DrmVersion};
use crate::table::Handled;

/// Version 3.x of "amdgpu". Strings are copied as far as there is room, lengths come back whole.
pub(crate) fn version(call: &DrmCall<'_>, args: &mut DrmVersion) -> Handled {
    args.version_major = 3;
    args.version_minor = 59;
    args.version_patchlevel = 0;
    for (length, address, text) in [
        (&mut args.name_len, args.name, "amdgpu"),
        (&mut args.date_len, args.date, "20150101"),
        (&mut args.desc_len, args.desc, "AMD GPU"),
    ] {
        let room = (*length).min(text.len() as u64) as usize;
        if room > 0 && address != 0 {
            call.driver
                .user()
                .write(address, &text.as_bytes()[..room])?;
        }
        *length = text.len() as u64;
    }
    Ok(())
}

/// The only client is the caller, and it is authenticated.
pub(crate) fn client(_call: &DrmCall<'_>, args: &mut DrmClient) -> Handled {
    if args.idx != 0 {
        return Err(Errno::INVAL);
    }
    args.auth = 1;
    args.pid = rustix::process::getpid().as_raw_nonzero().get() as u64;
    args.uid = u64::from(rustix::process::getuid().as_raw());
    args.magic = 0;
    args.iocs = 0;
    Ok(())
}

/// Answers a query with the topology's values.
pub(crate) fn info(_call: &DrmCall<'_>, _args: &mut DrmInfo) -> Handled {
    Err(Errno::NOSYS)
}
