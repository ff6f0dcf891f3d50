//! `amd_signal_t`, the structure behind an `hsa_signal_t`: a value, timestamps, and whom to wake.
//! Source: `amd_hsa_signal.h`. The value lies 8 bytes behind the handle.

use super::bus::{Bus, BusFault};
use super::{Cx, Platform};

const VALUE: u64 = 8;
const EVENT_MAILBOX: u64 = 16;
const EVENT_ID: u64 = 24;
const START: u64 = 32;
const END: u64 = 40;

/// The value of a signal.
pub fn value(bus: &mut Bus<'_>, signal: u64) -> Result<i64, BusFault> {
    Ok(bus.load64(signal.wrapping_add(VALUE))? as i64)
}

/// Stores a value and wakes whoever waits.
pub fn store(
    bus: &mut Bus<'_>,
    platform: &dyn Platform,
    signal: u64,
    value: u64,
) -> Result<(), BusFault> {
    bus.store64(signal.wrapping_add(VALUE), value)?;
    wake(bus, platform, signal)
}

/// What the packet processor does with the completion signal of a packet that is done: timestamps if the
/// queue is profiled, then one less, then the event. Signal 0 is none.
pub fn complete(cx: &mut Cx<'_>, signal: u64, times: Option<[u64; 2]>) -> Result<(), BusFault> {
    if signal == 0 {
        return Ok(());
    }
    if let Some([start, end]) = times {
        cx.bus.store64(signal.wrapping_add(START), start.max(1))?;
        cx.bus.store64(signal.wrapping_add(END), end.max(1))?;
    }
    cx.bus
        .update64(signal.wrapping_add(VALUE), |value| value.wrapping_sub(1))?;
    wake(&mut cx.bus, cx.platform, signal)
}

fn wake(bus: &mut Bus<'_>, platform: &dyn Platform, signal: u64) -> Result<(), BusFault> {
    let mailbox = bus.load64(signal.wrapping_add(EVENT_MAILBOX))?;
    if mailbox != 0 {
        let id = bus.load32(signal.wrapping_add(EVENT_ID))?;
        bus.store64(mailbox, u64::from(id))?;
        platform.interrupt(id);
    }
    Ok(())
}
