//! The table of the KFD ioctls: number, name, direction, size, who needs it, handler.
//! Dispatch, the report and `docs/ioctls.md` all come from it.

use std::sync::Arc;

use rustix::io::Errno;

use crate::abi::*;
use crate::context::Context;
use crate::driver::Driver;
use crate::drm::DrmCall;
use crate::user::User;
use crate::{alloc, clock, dmabuf, event, process, queue, smi, svm};

/// What a handler answers; every ioctl that succeeds returns 0.
pub(crate) type Handled = Result<(), Errno>;

/// A KFD ioctl under way.
pub(crate) struct Call<'a> {
    pub(crate) driver: &'a Driver,
    pub(crate) context: &'a Arc<Context>,
}

impl Call<'_> {
    /// The way to the program's memory.
    pub(crate) fn user(&self) -> &User {
        self.driver.user()
    }
}

/// Which way the argument's bytes go, seen from user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// No argument.
    None,
    /// The driver fills the argument.
    Read,
    /// The driver only reads it.
    Write,
    /// Both.
    ReadWrite,
}

impl Direction {
    /// The two bits of an ioctl request.
    pub fn bits(self) -> u8 {
        match self {
            Direction::None => 0,
            Direction::Write => 1,
            Direction::Read => 2,
            Direction::ReadWrite => 3,
        }
    }
}

/// A handler behind its argument's type.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    Kfd(fn(&Call<'_>, &mut [u8]) -> Handled),
    Drm(fn(&DrmCall<'_>, &mut [u8]) -> Handled),
}

/// An ioctl.
pub struct Row {
    /// `_IOC_NR`.
    pub number: u8,
    /// The header's name without its prefix.
    pub name: &'static str,
    /// Which way the argument goes.
    pub direction: Direction,
    /// Bytes of the argument as this driver knows it.
    pub size: u16,
    /// Who needs it: E rocminfo, S a HIP program, B rocBLAS, G several GPUs, D a debugger; `-` nobody.
    pub need: &'static str,
    /// One line on what it does.
    pub doc: &'static str,
    pub(crate) run: Run,
}

/// Reads the argument from the head of `bytes`, runs the handler, puts the argument back: also
/// after an error, as the kernel does.
pub(crate) fn typed<T: Abi>(bytes: &mut [u8], run: impl FnOnce(&mut T) -> Handled) -> Handled {
    let (mut args, _) = T::read_from_prefix(bytes).map_err(|_| Errno::INVAL)?;
    let done = run(&mut args);
    // The head was long enough to be read.
    let _ = args.write_to_prefix(bytes);
    done
}

macro_rules! rows {
    ($kind:ident; $($number:literal $name:ident: $direction:ident $type:ident $form:ident,
        $need:literal, $handler:expr, $doc:literal;)*) => {
        &[$($crate::table::Row {
            number: $number,
            name: stringify!($name),
            direction: $crate::table::Direction::$direction,
            size: size_of::<$type>() as u16,
            need: $need,
            doc: $doc,
            run: $crate::table::Run::$kind($crate::table::rows!(@run $type $form $handler)),
        }),*]
    };
    (@run $type:ident typed $handler:expr) => {
        |call, bytes| $crate::table::typed(bytes, |args: &mut $type| $handler(call, args))
    };
    (@run $type:ident bytes $handler:expr) => {
        |call, bytes| $handler(call, bytes)
    };
}
pub(crate) use rows;

/// Refuses, whatever the argument.
fn refuse<T>(_call: &Call<'_>, _args: &mut T) -> Handled {
    Err(Errno::PERM)
}

/// Every KFD ioctl that is answered, by number. All others are `ENOTTY`.
pub static KFD: &[Row] = rows! { Kfd;
    0x01 GET_VERSION: Read GetVersion typed, "ESBG", process::version, "version of the interface, 1.17 unless chosen otherwise";
    0x02 CREATE_QUEUE: ReadWrite CreateQueue typed, "SBG", queue::create, "makes an AQL, PM4 or SDMA queue";
    0x03 DESTROY_QUEUE: ReadWrite DestroyQueue typed, "SBG", queue::destroy, "stops a queue and removes it";
    0x04 SET_MEMORY_POLICY: Write SetMemoryPolicy typed, "ESBG", process::set_memory_policy, "checked and accepted: caching is not simulated";
    0x05 GET_CLOCK_COUNTERS: ReadWrite GetClockCounters typed, "ESBG", clock::counters, "GPU ticks (100 MHz), CPU and boot time (ns)";
    0x06 GET_PROCESS_APERTURES: Read GetProcessApertures typed, "-", process::apertures, "apertures of the first seven GPUs";
    0x07 UPDATE_QUEUE: Write UpdateQueue typed, "SB", queue::update, "ring, percentage, priority; percentage 0 suspends";
    0x08 CREATE_EVENT: ReadWrite CreateEvent typed, "SBG", event::create, "makes an event; the first call names the event page, or gets one";
    0x09 DESTROY_EVENT: Write EventId typed, "SBG", event::destroy, "removes an event; waiters fail";
    0x0a SET_EVENT: Write EventId typed, "SBG", event::set, "signals an event";
    0x0b RESET_EVENT: Write EventId typed, "SBG", event::reset, "takes an event's signal back";
    0x0c WAIT_EVENTS: ReadWrite WaitEvents typed, "SBG", event::wait, "waits for one or all of several events";
    0x0d DBG_REGISTER: Write Nothing typed, "-", refuse, "refused: the interface before DBG_TRAP";
    0x0e DBG_UNREGISTER: Write Nothing typed, "-", refuse, "refused";
    0x0f DBG_ADDRESS_WATCH: Write Nothing typed, "-", refuse, "refused";
    0x10 DBG_WAVE_CONTROL: Write Nothing typed, "-", refuse, "refused";
    0x11 SET_SCRATCH_BACKING_VA: ReadWrite SetScratchBackingVa typed, "S", process::set_scratch_backing_va, "checked and accepted: scratch comes from the queue";
    0x12 GET_TILE_CONFIG: ReadWrite GetTileConfig typed, "E", process::tile_config, "no tiling tables; GB_ADDR_CONFIG";
    0x13 SET_TRAP_HANDLER: Write SetTrapHandler typed, "SB", process::set_trap_handler, "checked and accepted: trap handlers do not run";
    0x14 GET_PROCESS_APERTURES_NEW: ReadWrite GetProcessAperturesNew typed, "ESBG", process::apertures_new, "apertures of every GPU";
    0x15 ACQUIRE_VM: Write AcquireVm typed, "ESBG", process::acquire_vm, "binds a render node's file to a GPU";
    0x16 ALLOC_MEMORY_OF_GPU: ReadWrite AllocMemoryOfGpu typed, "ESBG", alloc::alloc, "allocates VRAM, GTT, doorbells, or registers host memory";
    0x17 FREE_MEMORY_OF_GPU: Write FreeMemoryOfGpu typed, "SBG", alloc::free, "frees an allocation";
    0x18 MAP_MEMORY_TO_GPU: ReadWrite MapMemory typed, "ESBG", alloc::map, "makes an allocation accessible to GPUs";
    0x19 UNMAP_MEMORY_FROM_GPU: ReadWrite MapMemory typed, "ESBG", alloc::unmap, "takes GPUs' access away";
    0x1a SET_CU_MASK: Write SetCuMask typed, "S", queue::set_cu_mask, "checked and accepted: CUs are not told apart";
    0x1b GET_QUEUE_WAVE_STATE: ReadWrite GetQueueWaveState typed, "D", queue::wave_state, "refused: waves are not saved";
    0x1c GET_DMABUF_INFO: ReadWrite GetDmabufInfo typed, "G", dmabuf::info, "size, GPU and metadata of a dmabuf";
    0x1d IMPORT_DMABUF: ReadWrite ImportDmabuf typed, "G", dmabuf::import, "makes an allocation of a dmabuf";
    0x1e ALLOC_QUEUE_GWS: ReadWrite AllocQueueGws typed, "S", queue::alloc_gws, "global wave sync for a queue";
    0x1f SMI_EVENTS: ReadWrite SmiEvents typed, "-", smi::smi_events, "a descriptor that tells of memory faults";
    0x20 SVM: ReadWrite Svm bytes, "SB", svm::svm, "attributes of ranges of the program's memory";
    0x21 SET_XNACK_MODE: ReadWrite SetXnackMode typed, "ESBG", svm::set_xnack_mode, "asks for or sets retry of page faults";
    0x22 CRIU_OP: ReadWrite CriuOp typed, "-", refuse, "refused: no checkpoints";
    0x23 AVAILABLE_MEMORY: ReadWrite GetAvailableMemory typed, "S", alloc::available, "bytes of VRAM that are free";
    0x24 EXPORT_DMABUF: ReadWrite ExportDmabuf typed, "G", dmabuf::export, "makes a dmabuf of an allocation";
    0x25 RUNTIME_ENABLE: ReadWrite RuntimeEnable typed, "-", process::runtime_enable, "announces the runtime to debuggers";
    0x26 DBG_TRAP: ReadWrite DbgTrap typed, "D", refuse, "refused: no debugger interface";
    0x80 IPC_IMPORT_HANDLE: ReadWrite IpcImportHandle typed, "G", dmabuf::ipc_import, "makes an allocation of a share handle";
    0x81 IPC_EXPORT_HANDLE: ReadWrite IpcExportHandle typed, "G", dmabuf::ipc_export, "makes a share handle of an allocation";
};

/// The DRM ioctls, by number; driver-specific ones begin at 0x40.
pub static DRM: &[Row] = crate::drm::TABLE;

/// The row of a number.
pub fn row(table: &'static [Row], number: u8) -> Option<(usize, &'static Row)> {
    let index = table.binary_search_by_key(&number, |row| row.number).ok()?;
    Some((index, &table[index]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_by_number() {
        for table in [KFD, DRM] {
            assert!(table.is_sorted_by(|a, b| a.number < b.number));
            for (i, row) in table.iter().enumerate() {
                assert_eq!(super::row(table, row.number).map(|found| found.0), Some(i));
            }
        }
    }

    #[test]
    fn requests_are_what_the_headers_make_of_them() {
        let request = |table: &'static [Row], kind, number| {
            let (_, row) = row(table, number).unwrap();
            u32::from(Request {
                direction: row.direction.bits(),
                kind,
                number,
                size: row.size,
            })
        };
        assert_eq!(request(KFD, b'K', 0x01), 0x8008_4b01);
        assert_eq!(request(KFD, b'K', 0x16), 0xc028_4b16);
        assert_eq!(request(DRM, b'd', 0x00), 0xc040_6400);
        assert_eq!(request(DRM, b'd', 0x05), 0xc028_6405);
        assert_eq!(request(DRM, b'd', 0x09), 0x4008_6409);
        assert_eq!(request(DRM, b'd', 0x2d), 0xc00c_642d);
        assert_eq!(request(DRM, b'd', 0x2e), 0xc00c_642e);
        assert_eq!(request(DRM, b'd', 0x40), 0xc020_6440);
        assert_eq!(request(DRM, b'd', 0x41), 0xc008_6441);
        assert_eq!(request(DRM, b'd', 0x45), 0x4020_6445);
        assert_eq!(request(DRM, b'd', 0x48), 0x4028_6448);
        assert_eq!(request(DRM, b'd', 0x50), 0xc010_6450);
        assert_eq!(Request::from(0xc010_6450).size, 16);
    }
}
