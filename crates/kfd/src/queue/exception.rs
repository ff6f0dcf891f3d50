//! How a queue's errors reach runtimes that have enabled the runtime interface (RUNTIME_ENABLE): a bit in a word of
//! the program's, and an event, both named at the head of the queue's context save area.

use rocjitsu_gpu::memory::Memory;
use rocjitsu_gpu::queue::{QueueFault, error};

use crate::event::Events;

/// Offsets in `kfd_context_save_area_header` (`kfd_ioctl.h`).
const PAYLOAD_ADDRESS: u64 = 24;
const EVENT_ID: u64 = 32;

/// `kfd_dbg_trap_exception_code` of a fault: its number is the bit, counted from 1.
fn code(fault: &QueueFault) -> u32 {
    match fault.code {
        _ if fault.memory.is_some() => 5,
        // `s_trap 2` is what assertions end with.
        error::TRAP => 1,
        error::ILLEGAL_INSTRUCTION => 4,
        error::MEMORY => 5,
        error::DIMENSIONS => 16,
        error::GROUP_SEGMENT => 17,
        error::CODE_OBJECT => 18,
        error::PACKET_FORMAT => 19,
        error::WORKGROUP => 21,
        error::REGISTERS => 22,
        error::VENDOR_PACKET => 23,
        // EC_QUEUE_PREEMPTION_ERROR: the queue does not go on, for no reason that has a code.
        _ => 30,
    }
}

/// Tells the program of a fault by the save area at `area`. False if nothing there says how.
pub(super) fn raise(memory: &Memory, events: &Events, area: u64, fault: &QueueFault) -> bool {
    let word = |offset: u64, bytes: usize| {
        let mut word = [0; 8];
        let at = area.checked_add(offset)?;
        memory.copy_out(at, &mut word[..bytes]).ok()?;
        Some(u64::from_le_bytes(word)).filter(|&word| word != 0)
    };
    let (Some(payload), Some(event)) = (word(PAYLOAD_ADDRESS, 8), word(EVENT_ID, 4)) else {
        return false;
    };
    let Ok(pin) = memory.pin(payload, 8, true) else {
        return false;
    };
    let bit = 1 << (code(fault) - 1);
    if pin
        .load_u64(0)
        .and_then(|old| pin.store_u64(0, old | bit))
        .is_none()
    {
        return false;
    }
    events.interrupt(event as u32);
    true
}
