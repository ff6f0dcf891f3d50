//! The clocks: GPU ticks of 100 MHz and nanoseconds since boot, both from `CLOCK_BOOTTIME`.

use rustix::time::{ClockId, clock_gettime};

use crate::abi::GetClockCounters;
use crate::table::{Call, Handled};

/// Nanoseconds of a clock.
fn nanoseconds(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// GPU ticks of 10 ns since boot.
pub(crate) fn ticks() -> u64 {
    nanoseconds(ClockId::Boottime) / 10
}

pub(crate) fn counters(call: &Call<'_>, args: &mut GetClockCounters) -> Handled {
    args.system_clock_counter = nanoseconds(ClockId::Boottime);
    // A node without a GPU has a counter of 0 (`kfd_ioctl_get_clock_counters`).
    let gpu = call.driver.gpu_index(args.gpu_id);
    args.gpu_clock_counter = gpu.map_or(0, |_| args.system_clock_counter / 10);
    args.cpu_clock_counter = nanoseconds(ClockId::MonotonicRaw);
    args.system_clock_freq = 1_000_000_000;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_advance() {
        let start = ticks();
        assert!(start > 0);
        while ticks() == start {}
        assert!(ticks() > start);
    }
}
