//! The structures of the KFD and DRM ioctls as user space lays them out (`linux/kfd_ioctl.h`,
//! `drm/drm.h`, `drm/amdgpu_drm.h`): names and order are the headers', sizes are checked when compiled.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A structure that any bytes are a value of, and that has no padding.
pub trait Abi: FromBytes + IntoBytes + Immutable + KnownLayout + Copy + Default {}

macro_rules! abi {
    ($($(#[$doc:meta])* $name:ident: $size:literal { $($field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[allow(missing_docs)]
        pub struct $name { $(pub $field: $type),* }
        impl Abi for $name {}
        const _: () = assert!(size_of::<$name>() == $size);
    )*};
}

abi! {
    /// GET_VERSION.
    GetVersion: 8 { major_version: u32, minor_version: u32 }

    /// CREATE_QUEUE; the last two words since version 1.17.
    CreateQueue: 96 {
        ring_base_address: u64, write_pointer_address: u64, read_pointer_address: u64,
        doorbell_offset: u64, ring_size: u32, gpu_id: u32, queue_type: u32,
        queue_percentage: u32, queue_priority: u32, queue_id: u32, eop_buffer_address: u64,
        eop_buffer_size: u64, ctx_save_restore_address: u64, ctx_save_restore_size: u32,
        ctl_stack_size: u32, sdma_engine_id: u32, pad: u32,
    }

    /// DESTROY_QUEUE.
    DestroyQueue: 8 { queue_id: u32, pad: u32 }

    /// UPDATE_QUEUE.
    UpdateQueue: 24 {
        ring_base_address: u64, queue_id: u32, ring_size: u32, queue_percentage: u32,
        queue_priority: u32,
    }

    /// SET_CU_MASK; `num_cu_mask` counts bits.
    SetCuMask: 16 { queue_id: u32, num_cu_mask: u32, cu_mask_ptr: u64 }

    /// GET_QUEUE_WAVE_STATE.
    GetQueueWaveState: 24 {
        ctl_stack_address: u64, ctl_stack_used_size: u32, save_area_used_size: u32,
        queue_id: u32, pad: u32,
    }

    /// ALLOC_QUEUE_GWS.
    AllocQueueGws: 16 { queue_id: u32, num_gws: u32, first_gws: u32, pad: u32 }

    /// SET_MEMORY_POLICY.
    SetMemoryPolicy: 32 {
        alternate_aperture_base: u64, alternate_aperture_size: u64, gpu_id: u32,
        default_policy: u32, alternate_policy: u32, pad: u32,
    }

    /// GET_CLOCK_COUNTERS.
    GetClockCounters: 40 {
        gpu_clock_counter: u64, cpu_clock_counter: u64, system_clock_counter: u64,
        system_clock_freq: u64, gpu_id: u32, pad: u32,
    }

    /// One GPU's apertures, an element of the two queries below.
    ProcessDeviceApertures: 56 {
        lds_base: u64, lds_limit: u64, scratch_base: u64, scratch_limit: u64, gpuvm_base: u64,
        gpuvm_limit: u64, gpu_id: u32, pad: u32,
    }

    /// GET_PROCESS_APERTURES, for at most seven GPUs.
    GetProcessApertures: 400 {
        process_apertures: [ProcessDeviceApertures; 7], num_of_nodes: u32, pad: u32,
    }

    /// GET_PROCESS_APERTURES_NEW.
    GetProcessAperturesNew: 16 {
        kfd_process_device_apertures_ptr: u64, num_of_nodes: u32, pad: u32,
    }

    /// CREATE_EVENT.
    CreateEvent: 32 {
        event_page_offset: u64, event_trigger_data: u32, event_type: u32, auto_reset: u32,
        node_id: u32, event_id: u32, event_slot_index: u32,
    }

    /// DESTROY_EVENT, SET_EVENT and RESET_EVENT.
    EventId: 8 { event_id: u32, pad: u32 }

    /// An element of WAIT_EVENTS: the union's 32 bytes, then the id.
    EventData: 48 { payload: [u32; 8], kfd_event_data_ext: u64, event_id: u32, pad: u32 }

    /// The union of [`EventData`] for memory exceptions.
    MemoryException: 32 {
        not_present: u32, read_only: u32, no_execute: u32, imprecise: u32, va: u64, gpu_id: u32,
        error_type: u32,
    }

    /// The union of [`EventData`] for hardware exceptions, padded.
    HwException: 32 {
        reset_type: u32, reset_cause: u32, memory_lost: u32, gpu_id: u32, pad: [u32; 4],
    }

    /// WAIT_EVENTS.
    WaitEvents: 24 {
        events_ptr: u64, num_events: u32, wait_for_all: u32, timeout: u32, wait_result: u32,
    }

    /// SET_SCRATCH_BACKING_VA.
    SetScratchBackingVa: 16 { va_addr: u64, gpu_id: u32, pad: u32 }

    /// GET_TILE_CONFIG.
    GetTileConfig: 40 {
        tile_config_ptr: u64, macro_tile_config_ptr: u64, num_tile_configs: u32,
        num_macro_tile_configs: u32, gpu_id: u32, gb_addr_config: u32, num_banks: u32,
        num_ranks: u32,
    }

    /// SET_TRAP_HANDLER.
    SetTrapHandler: 24 { tba_addr: u64, tma_addr: u64, gpu_id: u32, pad: u32 }

    /// ACQUIRE_VM.
    AcquireVm: 8 { drm_fd: i32, gpu_id: u32 }

    /// ALLOC_MEMORY_OF_GPU.
    AllocMemoryOfGpu: 40 {
        va_addr: u64, size: u64, handle: u64, mmap_offset: u64, gpu_id: u32, flags: u32,
    }

    /// FREE_MEMORY_OF_GPU.
    FreeMemoryOfGpu: 8 { handle: u64 }

    /// AVAILABLE_MEMORY.
    GetAvailableMemory: 16 { available: u64, gpu_id: u32, pad: u32 }

    /// MAP_MEMORY_TO_GPU and UNMAP_MEMORY_FROM_GPU.
    MapMemory: 24 { handle: u64, device_ids_array_ptr: u64, n_devices: u32, n_success: u32 }

    /// GET_DMABUF_INFO.
    GetDmabufInfo: 32 {
        size: u64, metadata_ptr: u64, metadata_size: u32, gpu_id: u32, flags: u32,
        dmabuf_fd: i32,
    }

    /// IMPORT_DMABUF.
    ImportDmabuf: 24 { va_addr: u64, handle: u64, gpu_id: u32, dmabuf_fd: i32 }

    /// EXPORT_DMABUF.
    ExportDmabuf: 16 { handle: u64, flags: u32, dmabuf_fd: i32 }

    /// SMI_EVENTS.
    SmiEvents: 8 { gpuid: u32, anon_fd: i32 }

    /// The head of SVM; `nattr` [`SvmAttribute`]s follow.
    Svm: 24 { start_addr: u64, size: u64, op: u32, nattr: u32 }

    /// An attribute of SVM.
    SvmAttribute: 8 { kind: u32, value: u32 }

    /// SET_XNACK_MODE; −1 asks.
    SetXnackMode: 4 { xnack_enabled: i32 }

    /// CRIU_OP, which is refused.
    CriuOp: 56 { words: [u64; 7] }

    /// RUNTIME_ENABLE.
    RuntimeEnable: 16 { r_debug: u64, mode_mask: u32, capabilities_mask: u32 }

    /// DBG_TRAP, which is refused.
    DbgTrap: 32 { pid: u32, op: u32, operation: [u64; 3] }

    /// IPC_IMPORT_HANDLE, of the out-of-tree driver.
    IpcImportHandle: 48 {
        va_addr: u64, handle: u64, mmap_offset: u64, share_handle: [u32; 4], gpu_id: u32,
        flags: u32,
    }

    /// IPC_EXPORT_HANDLE, of the out-of-tree driver.
    IpcExportHandle: 32 { handle: u64, share_handle: [u32; 4], gpu_id: u32, flags: u32 }

    /// An ioctl whose argument is not looked at.
    Nothing: 0 {}

    /// DRM_IOCTL_VERSION.
    DrmVersion: 64 {
        version_major: i32, version_minor: i32, version_patchlevel: i32, pad: u32,
        name_len: u64, name: u64, date_len: u64, date: u64, desc_len: u64, desc: u64,
    }

    /// DRM_IOCTL_GET_CLIENT.
    DrmClient: 40 { idx: i32, auth: i32, pid: u64, uid: u64, magic: u64, iocs: u64 }

    /// DRM_IOCTL_GEM_CLOSE.
    DrmGemClose: 8 { handle: u32, pad: u32 }

    /// DRM_IOCTL_PRIME_HANDLE_TO_FD and PRIME_FD_TO_HANDLE.
    DrmPrimeHandle: 12 { handle: u32, flags: u32, fd: i32 }

    /// DRM_IOCTL_AMDGPU_GEM_CREATE; the handle comes back in the low half of `bo_size`.
    DrmGemCreate: 32 { bo_size: u64, alignment: u64, domains: u64, domain_flags: u64 }

    /// DRM_IOCTL_AMDGPU_GEM_MMAP: a handle goes in, an offset comes out.
    DrmGemMmap: 8 { value: u64 }

    /// DRM_IOCTL_AMDGPU_INFO; the last four words are a union.
    DrmInfo: 32 { return_pointer: u64, return_size: u32, query: u32, parameters: [u32; 4] }

    /// `drm_amdgpu_info_device`: what AMDGPU_INFO_DEV_INFO answers, as of Linux 6.16. Sizes of
    /// caches are in KiB, `mall_size` in bytes, clocks in kHz.
    DrmDevice: 440 {
        device_id: u32, chip_rev: u32, external_rev: u32, pci_rev: u32, family: u32,
        num_shader_engines: u32, num_shader_arrays_per_engine: u32, gpu_counter_freq: u32,
        max_engine_clock: u64, max_memory_clock: u64, cu_active_number: u32, cu_ao_mask: u32,
        cu_bitmap: [[u32; 4]; 4], enabled_rb_pipes_mask: u32, num_rb_pipes: u32,
        num_hw_gfx_contexts: u32, pcie_gen: u32, ids_flags: u64, virtual_address_offset: u64,
        virtual_address_max: u64, virtual_address_alignment: u32, pte_fragment_size: u32,
        gart_page_size: u32, ce_ram_size: u32, vram_type: u32, vram_bit_width: u32,
        vce_harvest_config: u32, gc_double_offchip_lds_buf: u32, graphics_buffers: [u64; 6],
        wave_front_size: u32, num_shader_visible_vgprs: u32, num_cu_per_sh: u32,
        num_tcc_blocks: u32, gs_vgt_table_depth: u32, gs_prim_buffer_depth: u32,
        max_gs_waves_per_vgt: u32, pcie_num_lanes: u32, cu_ao_bitmap: [[u32; 4]; 4],
        high_va_offset: u64, high_va_max: u64, pa_sc_tile_steering_override: u32, pad: u32,
        tcc_disabled_mask: u64, min_engine_clock: u64, min_memory_clock: u64,
        tcp_cache_size: u32, num_sqc_per_wgp: u32, sqc_data_cache_size: u32,
        sqc_inst_cache_size: u32, gl1c_cache_size: u32, gl2c_cache_size: u32, mall_size: u64,
        enabled_rb_pipes_mask_hi: u32, shadow_size: u32, shadow_alignment: u32, csa_size: u32,
        csa_alignment: u32, userq_ip_mask: u32,
    }

    /// `drm_amdgpu_info_hw_ip`.
    DrmHwIp: 40 {
        version_major: u32, version_minor: u32, capabilities_flags: u64, ib_start_alignment: u32,
        ib_size_alignment: u32, available_rings: u32, ip_discovery_version: u32,
        userq_num_slots: u32, pad: u32,
    }

    /// `drm_amdgpu_heap_info`, in bytes.
    DrmHeap: 32 { total: u64, usable: u64, used: u64, max_allocation: u64 }

    /// `drm_amdgpu_memory_info`.
    DrmMemory: 96 { vram: DrmHeap, cpu_accessible_vram: DrmHeap, gtt: DrmHeap }

    /// `drm_amdgpu_info_firmware`.
    DrmFirmware: 8 { version: u32, feature: u32 }

    /// `drm_amdgpu_info_vbios`.
    DrmVbios: 200 {
        name: [[u8; 32]; 2], part_number: [[u8; 32]; 2], version: u32, pad: u32,
        version_text: [u8; 32], date: [u8; 32],
    }

    /// DRM_IOCTL_AMDGPU_GEM_VA.
    DrmGemVa: 40 {
        handle: u32, pad: u32, operation: u32, flags: u32, va_address: u64, offset_in_bo: u64,
        map_size: u64,
    }

    /// DRM_IOCTL_AMDGPU_GEM_METADATA; the data are 64 words.
    DrmGemMetadata: 288 {
        handle: u32, op: u32, flags: u64, tiling_info: u64, data_size_bytes: u32, data: [[u32; 8]; 8], pad: u32,
    }

    /// DRM_IOCTL_AMDGPU_GEM_OP.
    DrmGemOp: 16 { handle: u32, op: u32, value: u64 }
}

/// Direction, type, number and size that an ioctl request consists of (`asm-generic/ioctl.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Bit 0: user space writes the argument (`_IOC_WRITE`); bit 1: user space reads it.
    pub direction: u8,
    /// `_IOC_TYPE`: 'K' for KFD, 'd' for DRM.
    pub kind: u8,
    /// `_IOC_NR`.
    pub number: u8,
    /// Bytes of the argument.
    pub size: u16,
}

impl From<u32> for Request {
    fn from(request: u32) -> Self {
        Request {
            direction: (request >> 30) as u8,
            kind: (request >> 8) as u8,
            number: request as u8,
            size: (request >> 16) as u16 & 0x3fff,
        }
    }
}

impl From<Request> for u32 {
    fn from(request: Request) -> Self {
        u32::from(request.direction & 3) << 30
            | u32::from(request.size & 0x3fff) << 16
            | u32::from(request.kind) << 8
            | u32::from(request.number)
    }
}

/// Allocation flags of ALLOC_MEMORY_OF_GPU (`KFD_IOC_ALLOC_MEM_FLAGS_*`).
#[allow(missing_docs)]
pub mod alloc_flags {
    pub const VRAM: u32 = 1 << 0;
    pub const GTT: u32 = 1 << 1;
    pub const USERPTR: u32 = 1 << 2;
    pub const DOORBELL: u32 = 1 << 3;
    pub const MMIO_REMAP: u32 = 1 << 4;
    pub const CONTIGUOUS: u32 = 1 << 23;
    pub const EXT_COHERENT: u32 = 1 << 24;
    pub const UNCACHED: u32 = 1 << 25;
    pub const COHERENT: u32 = 1 << 26;
    pub const AQL_QUEUE_MEM: u32 = 1 << 27;
    pub const NO_SUBSTITUTE: u32 = 1 << 28;
    pub const PUBLIC: u32 = 1 << 29;
    pub const EXECUTABLE: u32 = 1 << 30;
    pub const WRITABLE: u32 = 1 << 31;
}

/// Types of queues (`KFD_IOC_QUEUE_TYPE_*`).
#[allow(missing_docs)]
pub mod queue_type {
    pub const COMPUTE: u32 = 0;
    pub const SDMA: u32 = 1;
    pub const COMPUTE_AQL: u32 = 2;
    pub const SDMA_XGMI: u32 = 3;
    pub const SDMA_BY_ENGINE_ID: u32 = 4;
}

/// Types of events (`KFD_IOC_EVENT_*`).
#[allow(missing_docs)]
pub mod event_type {
    pub const SIGNAL: u32 = 0;
    pub const NODECHANGE: u32 = 1;
    pub const DEVICESTATECHANGE: u32 = 2;
    pub const HW_EXCEPTION: u32 = 3;
    pub const SYSTEM_EVENT: u32 = 4;
    pub const DEBUG_EVENT: u32 = 5;
    pub const PROFILE_EVENT: u32 = 6;
    pub const QUEUE_EVENT: u32 = 7;
    pub const MEMORY: u32 = 8;
}

/// Results of WAIT_EVENTS (`KFD_IOC_WAIT_RESULT_*`).
#[allow(missing_docs)]
pub mod wait_result {
    pub const COMPLETE: u32 = 0;
    pub const TIMEOUT: u32 = 1;
    pub const FAIL: u32 = 2;
}
