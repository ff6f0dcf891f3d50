//! Buffers that leave the process: EXPORT_DMABUF, IMPORT_DMABUF, GET_DMABUF_INFO, and the older
//! share handles of IPC_EXPORT and IPC_IMPORT.

use rustix::io::Errno;

use crate::abi::{ExportDmabuf, GetDmabufInfo, ImportDmabuf, IpcExportHandle, IpcImportHandle};
use crate::table::{Call, Handled};

pub(crate) fn info(_call: &Call<'_>, _args: &mut GetDmabufInfo) -> Handled {
    Err(Errno::NOSYS)
}

pub(crate) fn import(_call: &Call<'_>, _args: &mut ImportDmabuf) -> Handled {
    Err(Errno::NOSYS)
}

pub(crate) fn export(_call: &Call<'_>, _args: &mut ExportDmabuf) -> Handled {
    Err(Errno::NOSYS)
}

pub(crate) fn ipc_import(_call: &Call<'_>, _args: &mut IpcImportHandle) -> Handled {
    Err(Errno::NOSYS)
}

pub(crate) fn ipc_export(_call: &Call<'_>, _args: &mut IpcExportHandle) -> Handled {
    Err(Errno::NOSYS)
}
