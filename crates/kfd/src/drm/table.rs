//! The DRM ioctls that are answered; `docs/ioctls.md` is made from this table.

use super::{gem, info};
use crate::abi::*;
use crate::table::{Row, rows};

/// Every DRM ioctl that is answered, by number.
pub(crate) static TABLE: &[Row] = rows! { Drm;
    0x00 VERSION: ReadWrite DrmVersion typed, "ESBG", info::version, "driver name and version 3.x";
    0x05 GET_CLIENT: ReadWrite DrmClient typed, "ESBG", info::client, "the caller, authenticated";
    0x09 GEM_CLOSE: Write DrmGemClose typed, "G", gem::close, "gives a buffer handle back";
    0x2d PRIME_HANDLE_TO_FD: ReadWrite DrmPrimeHandle typed, "G", gem::prime_export, "exports a buffer as dmabuf";
    0x2e PRIME_FD_TO_HANDLE: ReadWrite DrmPrimeHandle typed, "G", gem::prime_import, "imports a dmabuf";
    0x40 AMDGPU_GEM_CREATE: ReadWrite DrmGemCreate typed, "-", gem::create, "allocates a buffer";
    0x41 AMDGPU_GEM_MMAP: ReadWrite DrmGemMmap typed, "G", gem::mmap, "the mmap offset of a buffer";
    0x45 AMDGPU_INFO: Write DrmInfo typed, "ESBG", info::info, "queries the device";
    0x46 AMDGPU_GEM_METADATA: ReadWrite DrmGemMetadata typed, "G", gem::metadata, "notes of the program on a buffer, for whoever imports it";
    0x48 AMDGPU_GEM_VA: Write DrmGemVa typed, "G", gem::va, "maps a buffer at a GPU address";
    0x50 AMDGPU_GEM_OP: ReadWrite DrmGemOp typed, "G", gem::op, "how a buffer was created";
};
