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
        error::PACKET_FORMAT => 20,
        error::WORKGROUP => 21,
        error::REGISTERS => 22,
        error::VENDOR_PACKET => 23,
        // EC_QUEUE_WAVE_TRAP, for what has no code of its own.
        _ => 2,
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

#[cfg(test)]
mod tests {
    use super::*;
    use rocjitsu_gpu::memory::Request;

    fn fault(code: u64) -> QueueFault {
        QueueFault {
            code,
            text: String::new(),
            memory: None,
        }
    }

    #[test]
    fn a_fault_sets_its_bit_in_the_word_that_the_save_area_names() {
        let memory = Memory::new(1 << 20);
        let area = memory.allocate(&Request::new(4096, "save area")).unwrap();
        let payload = memory.allocate(&Request::new(4096, "signals")).unwrap();
        let events = Events::default();
        let event = events.create(0, true).unwrap();
        let tell = |fault: &QueueFault| raise(&memory, &events, area, fault);
        assert!(!tell(&fault(error::DIMENSIONS)), "nothing says where");
        memory
            .write(area + PAYLOAD_ADDRESS, &(payload + 8).to_le_bytes())
            .unwrap();
        memory.write(area + EVENT_ID, &event.to_le_bytes()).unwrap();
        assert!(tell(&fault(error::DIMENSIONS)));
        assert!(tell(&fault(error::ILLEGAL_INSTRUCTION)));
        let mut word = [0; 8];
        memory.copy_out(payload + 8, &mut word).unwrap();
        assert_eq!(u64::from_le_bytes(word), 1 << 15 | 1 << 3);
        // An address that is nowhere is no reason to fail.
        memory
            .write(area + PAYLOAD_ADDRESS, &u64::MAX.to_le_bytes())
            .unwrap();
        assert!(!tell(&fault(error::TRAP)));
    }
}
