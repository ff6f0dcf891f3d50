//! The queue ioctls. What is checked, and with which error, is what `kfd_chardev.c` and
//! `kfd_queue.c` of Linux 6.12 do.

use rocjitsu_gpu::dispatch::Pause;
use rocjitsu_gpu::memory::{Memory, PAGE};
use rocjitsu_gpu::queue::{Aql, AqlParams, Engine, KernelNames, Pm4, Pm4Params, Sdma, SdmaParams};
use rustix::io::Errno;

use super::engines::Engines;
use super::platform::QueuePlatform;
use super::worker::{Processor, Queue};
use crate::abi::{
    AllocQueueGws, CreateQueue, DestroyQueue, GetQueueWaveState, SetCuMask, UpdateQueue, queue_type,
};
use crate::table::{Call, Handled};
use crate::topology::QueueFiles;

/// Smallest ring in bytes (`KFD_MIN_QUEUE_RING_SIZE`).
const SMALLEST_RING: u32 = 0x400;
/// Bytes of an EOP buffer of GFX8 and later.
const EOP_BYTES: u64 = 4096;
/// Highest priority (`KFD_MAX_QUEUE_PRIORITY`).
const HIGHEST_PRIORITY: u32 = 15;

/// Checks what CREATE and UPDATE have in common.
fn check(ring: u64, bytes: u32, percentage: u32, priority: u32) -> Handled {
    if percentage & 0xff > 100 || priority > HIGHEST_PRIORITY {
        return Err(Errno::INVAL);
    }
    if bytes != 0 && (!bytes.is_power_of_two() || bytes < SMALLEST_RING) {
        return Err(Errno::INVAL);
    }
    if ring >> 47 != 0 {
        return Err(Errno::FAULT);
    }
    Ok(())
}

/// Whether packets would run: there is a ring, and a share of time for it.
fn active(ring: u64, bytes: u32, percentage: u32) -> bool {
    ring != 0 && bytes != 0 && percentage & 0xff != 0
}

pub(crate) fn create(call: &Call<'_>, args: &mut CreateQueue) -> Handled {
    check(
        args.ring_base_address,
        args.ring_size,
        args.queue_percentage,
        args.queue_priority,
    )?;
    let index = call.driver.gpu_index(args.gpu_id)?;
    let memory = call.context.memory(index).map_err(|_| Errno::SRCH)?;
    let config = &call.driver.machine().gpus[index];
    let compute = match args.queue_type {
        queue_type::COMPUTE | queue_type::COMPUTE_AQL => true,
        queue_type::SDMA | queue_type::SDMA_XGMI => false,
        queue_type::SDMA_BY_ENGINE_ID => {
            if args.sdma_engine_id >= config.sdma.engines + config.sdma.xgmi_engines {
                return Err(Errno::INVAL);
            }
            false
        }
        _ => return Err(Errno::INVAL),
    };
    if compute {
        let (area, control) = config.save_area();
        if u64::from(args.ctl_stack_size) != control || u64::from(args.ctx_save_restore_size) < area
        {
            return Err(Errno::INVAL);
        }
    }
    if args.ring_size == 0 {
        return Err(Errno::INVAL);
    }
    // The queue's own structures must be there. A pin also asks the pager, if retry is on.
    for (address, bytes, write) in [
        (args.ring_base_address, args.ring_size.into(), false),
        (args.read_pointer_address, 8, true),
        (args.write_pointer_address, 8, false),
    ] {
        check_ends(&memory, address, bytes, write)?;
    }
    if compute && args.eop_buffer_address != 0 {
        if args.eop_buffer_size != EOP_BYTES {
            return Err(Errno::INVAL);
        }
        check_ends(&memory, args.eop_buffer_address, EOP_BYTES, true)?;
    }
    // Nothing is saved there, so that programs without such an area work, too.
    if compute && args.ctx_save_restore_address != 0 {
        let bytes = save_area_bytes(config, args.ctx_save_restore_size);
        check_ends(&memory, args.ctx_save_restore_address, bytes, true)?;
    }
    let engine = match args.queue_type {
        queue_type::SDMA => Some(Engines::General),
        queue_type::SDMA_XGMI => Some(Engines::Links),
        queue_type::SDMA_BY_ENGINE_ID => Some(Engines::One(args.sdma_engine_id)),
        _ => None,
    };
    let seat = engine.map(|which| call.driver.gpus()[index].sdma.take(which));
    let seat = seat.transpose()?;
    let entry = call.driver.files().enter(QueueFiles {
        gpu_id: args.gpu_id,
        bytes: args.ring_size,
        kind: args.queue_type,
    });
    if args.queue_type == queue_type::COMPUTE_AQL {
        announce_reclaim(&memory, &config.target, args);
    }
    let device = call.context.device(call.driver, index)?;
    let doorbells = call.context.doorbells(call.driver, index)?;
    let slot = doorbells.take().ok_or(Errno::NOMEM)?;
    let (ring, ring_bytes) = (args.ring_base_address, u64::from(args.ring_size));
    let threads = call.driver.threads();
    let processor = match args.queue_type {
        queue_type::COMPUTE_AQL => Processor::Aql {
            aql: Aql::new(AqlParams {
                ring,
                ring_bytes,
                read_index: args.read_pointer_address,
                write_index: args.write_pointer_address,
                doorbell: slot.index(),
                threads,
            }),
            write_index: args.write_pointer_address,
        },
        queue_type::COMPUTE => Processor::Pm4(Pm4::new(Pm4Params {
            ring,
            ring_bytes,
            read_pointer: args.read_pointer_address,
            xcc: (args.queue_percentage >> 8) & 0xff,
            threads,
        })),
        _ => Processor::Sdma(Sdma::new(SdmaParams {
            ring,
            ring_bytes,
            read_pointer: args.read_pointer_address,
        })),
    };
    let platform = QueuePlatform {
        events: call.context.events.clone(),
        recorder: call.driver.recorder().clone(),
        monitors: call.driver.monitors().clone(),
        plugins: call.driver.plugins().cloned(),
        memory,
        names: KernelNames::default(),
        engine: match args.queue_type {
            queue_type::COMPUTE_AQL => Engine::Aql,
            queue_type::COMPUTE => Engine::Pm4,
            _ => Engine::Sdma,
        },
        gpu: format!("GPU {index} ({})", config.target),
        gpu_id: args.gpu_id,
        write_index: (args.queue_type == queue_type::COMPUTE_AQL)
            .then_some(args.write_pointer_address),
        save_area: (compute && *call.context.runtime_enabled.lock())
            .then_some(args.ctx_save_restore_address),
        pause: Pause::default(),
        conductor: call
            .driver
            .conductor()
            .map(|conductor| (conductor.clone(), device.clone())),
    };
    args.doorbell_offset = slot.offset();
    let ring = (ring, args.ring_size);
    let suspended = !active(ring.0, ring.1, args.queue_percentage);
    args.queue_id = call.context.queues.add(|poller| {
        let queue = Queue::new(
            index,
            ring,
            slot,
            (seat, entry),
            device,
            platform,
            processor,
            poller,
        );
        if suspended {
            queue.suspend();
        }
        queue
    })?;
    Ok(())
}

/// Whether a buffer's first and last bytes are there. What lies between may be the program's own memory, in several mappings.
///
/// # Errors
/// `EINVAL` if they are not.
fn check_ends(memory: &Memory, address: u64, bytes: u64, write: bool) -> Handled {
    let last = address.checked_add(bytes - 8).ok_or(Errno::INVAL)?;
    for at in [address, last] {
        memory.pin(at, 8, write).map_err(|_| Errno::INVAL)?;
    }
    Ok(())
}

/// Bytes of the context save areas of all XCCs: what was said of one, and room for the debugger's 32 bytes a wave.
fn save_area_bytes(config: &rocjitsu_config::Gpu, of_one: u32) -> u64 {
    let one = u64::from(of_one) + config.save_area_waves().next_multiple_of(2) * 32;
    (one * u64::from(config.xccs.max(1))).next_multiple_of(PAGE)
}

/// On gfx942 and gfx950 the processor follows the fields by which the runtime takes scratch back, and says so when a
/// queue is connected, in `amd_queue_t`. ROCr insists on it. A queue whose indices do not lie as in an `amd_queue_t`
/// is left alone.
fn announce_reclaim(memory: &Memory, target: &str, args: &CreateQueue) {
    const CAPS_BEFORE_WRITE_INDEX: u64 = 56 - 40;
    const READ_AFTER_WRITE_INDEX: u64 = 128 - 56;
    const ASYNC_RECLAIM: u32 = 1;
    let is_queue = args
        .write_pointer_address
        .checked_add(READ_AFTER_WRITE_INDEX)
        == Some(args.read_pointer_address);
    if !is_queue || !matches!(target, "gfx942" | "gfx950") {
        return;
    }
    let caps = args
        .write_pointer_address
        .checked_sub(CAPS_BEFORE_WRITE_INDEX);
    if let Some(Ok(pin)) = caps.map(|at| memory.pin(at, 4, true))
        && let Some(old) = pin.load_u32(0)
    {
        pin.store_u32(0, old | ASYNC_RECLAIM);
    }
}

pub(crate) fn destroy(call: &Call<'_>, args: &mut DestroyQueue) -> Handled {
    call.context.queues.remove(args.queue_id)
}

/// Suspends, resumes, or moves the ring: read and write pointers, the doorbell and a dispatch under way stay.
pub(crate) fn update(call: &Call<'_>, args: &mut UpdateQueue) -> Handled {
    check(
        args.ring_base_address,
        args.ring_size,
        args.queue_percentage,
        args.queue_priority,
    )?;
    let queue = call.context.queues.get(args.queue_id).ok_or(Errno::FAULT)?;
    let ring = (args.ring_base_address, args.ring_size);
    if ring.0 != 0 && ring.1 != 0 && ring != queue.ring() {
        let memory = call.context.memory(queue.gpu).map_err(|_| Errno::INVAL)?;
        check_ends(&memory, ring.0, ring.1.into(), false)?;
        queue.suspend();
        queue.move_to(ring);
    }
    if active(ring.0, ring.1, args.queue_percentage) {
        queue.resume();
    } else {
        queue.suspend();
    }
    Ok(())
}

/// Masks are whole words; which compute units run a wave makes no difference to its results.
pub(crate) fn set_cu_mask(call: &Call<'_>, args: &mut SetCuMask) -> Handled {
    let bits = args.num_cu_mask;
    if bits == 0 || !bits.is_multiple_of(32) {
        return Err(Errno::INVAL);
    }
    // The kernel ignores what is beyond 1024 bits.
    let mut mask = vec![0; (bits.min(1024) / 8) as usize];
    call.user().read(args.cu_mask_ptr, &mut mask)?;
    call.context.queues.get(args.queue_id).ok_or(Errno::FAULT)?;
    Ok(())
}

/// Waves are not saved: there is no state to return.
pub(crate) fn wave_state(call: &Call<'_>, args: &mut GetQueueWaveState) -> Handled {
    call.context.queues.get(args.queue_id).ok_or(Errno::INVAL)?;
    Err(Errno::PERM)
}

/// One queue of a GPU can have its GWS.
pub(crate) fn alloc_gws(call: &Call<'_>, args: &mut AllocQueueGws) -> Handled {
    let queue = call.context.queues.get(args.queue_id).ok_or(Errno::INVAL)?;
    let most = call.driver.machine().gpus[queue.gpu].gws;
    if most == 0 {
        return Err(Errno::NODEV);
    }
    if args.num_gws > most {
        return Err(Errno::INVAL);
    }
    let has = queue.gws(None) != 0;
    if args.num_gws != 0 && (has || call.context.queues.any_gws(queue.gpu)) {
        return Err(Errno::BUSY);
    }
    if args.num_gws == 0 && !has {
        return Err(Errno::INVAL);
    }
    queue.gws(Some(args.num_gws));
    args.first_gws = 0;
    Ok(())
}
