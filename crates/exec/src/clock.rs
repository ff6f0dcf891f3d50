//! The clocks that programs can read: they advance with the host's monotonic clock.

use std::sync::OnceLock;
use std::time::Instant;

/// What is not exact about times: they depend on the host.
pub const NOT_THE_CHIPS: &str = "the time of this simulation, which no chip would show";

/// Ticks per second of [`realtime`]: the reference clock of all targets here (100 MHz, the frequency the
/// driver reports as `xtalk_clk`).
pub const REALTIME_HZ: u64 = 100_000_000;

/// Ticks per second of [`cycles`].
pub const CYCLES_HZ: u64 = 1_000_000_000;

fn nanoseconds() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// The constant-frequency counter: `s_memrealtime`, `s_sendmsg_rtn` with GET_REALTIME, and the counter
/// that the driver reports. Starts at 1 when the process first asks.
pub fn realtime() -> u64 {
    nanoseconds() / (1_000_000_000 / REALTIME_HZ) + 1
}

/// The shader clock: `s_memtime`, SHADER_CYCLES.
pub fn cycles() -> u64 {
    nanoseconds() + 1
}
