//! What this library itself costs the program it is loaded into: the time that the program's threads spend in it, and
//! the memory that becomes resident meanwhile. Off unless `ROCJITSU_MEASURE` is set: looking at memory is slow.

use std::cell::Cell;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rocjitsu_kfd::Own;

use crate::guard::Inside;

static WANTED: AtomicBool = AtomicBool::new(false);
static CALLS: AtomicU64 = AtomicU64::new(0);
static NANOSECONDS: AtomicU64 = AtomicU64::new(0);
/// Memory that came and went during calls.
static RESIDENT_KIB: AtomicI64 = AtomicI64::new(0);
/// What of the library's file was resident when it had been loaded.
static LOADED_KIB: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Memory and time at which the call that this thread is in began.
    static BEGUN: Cell<Option<(u64, Instant)>> = const { Cell::new(None) };
}

/// Looks at the environment, once the library is loaded.
pub fn start() {
    // SAFETY: the name is a C string; nothing changes the environment while libraries are loaded.
    if unsafe { libc::getenv(c"ROCJITSU_MEASURE".as_ptr()) }.is_null() {
        return;
    }
    let Some(_inside) = Inside::enter() else {
        return;
    };
    let here = start as *const () as usize;
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    LOADED_KIB.store(resident_of(&smaps, here), Ordering::Relaxed);
    WANTED.store(true, Ordering::Relaxed);
}

/// The thread enters the library: memory is looked at outside of the time that counts.
pub fn begin() {
    if WANTED.load(Ordering::Relaxed) {
        let resident = resident_kib();
        BEGUN.set(Some((resident, Instant::now())));
    }
}

/// The thread leaves the library, or waits as the program.
pub fn end() {
    if !WANTED.load(Ordering::Relaxed) {
        return;
    }
    let Some((resident, begun)) = BEGUN.take() else {
        return;
    };
    let spent = begun.elapsed();
    let grown = resident_kib().cast_signed() - resident.cast_signed();
    CALLS.fetch_add(1, Ordering::Relaxed);
    NANOSECONDS.fetch_add(spent.as_nanos() as u64, Ordering::Relaxed);
    RESIDENT_KIB.fetch_add(grown, Ordering::Relaxed);
}

/// What was measured up to now, if that was wanted. The call that asks is not counted.
pub fn so_far() -> Option<Own> {
    WANTED.load(Ordering::Relaxed).then(|| Own {
        calls: CALLS.load(Ordering::Relaxed),
        seconds: Duration::from_nanos(NANOSECONDS.load(Ordering::Relaxed)).as_secs_f64(),
        thread_seconds: thread_seconds(),
        loaded_kib: LOADED_KIB.load(Ordering::Relaxed),
        resident_kib: RESIDENT_KIB.load(Ordering::Relaxed),
    })
}

/// Resident memory of the process. Exact, unlike `statm`, whose counters lag behind on each processor.
fn resident_kib() -> u64 {
    let mut text = [0; 512];
    let read =
        std::fs::File::open("/proc/self/smaps_rollup").and_then(|mut file| file.read(&mut text));
    let text = text.get(..read.unwrap_or(0)).unwrap_or_default();
    let text = std::str::from_utf8(text).unwrap_or_default();
    text.lines().find_map(rss).unwrap_or(0)
}

/// The number of a line `Rss:   123 kB`.
fn rss(line: &str) -> Option<u64> {
    let number = line.strip_prefix("Rss:")?.trim().strip_suffix("kB")?;
    number.trim_end().parse().ok()
}

/// Resident KiB of all mappings of the file that is mapped at `address`.
fn resident_of(smaps: &str, address: usize) -> u64 {
    // Lines of a mapping: `start-end rwxp offset device inode path`, then `Name: value` lines.
    let mapping = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let range = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
        Some((range, words.nth(4).unwrap_or_default().to_owned()))
    };
    let mut mappings = smaps.lines().filter_map(mapping);
    let Some((_, file)) = mappings.find(|(range, _)| range.contains(&address)) else {
        return 0;
    };
    let mut ours = false;
    let mut sum = 0;
    for line in smaps.lines() {
        if let Some((_, path)) = mapping(line) {
            ours = path == file;
        } else if ours {
            sum += rss(line).unwrap_or(0);
        }
    }
    sum
}

/// Processor time of the driver's threads.
fn thread_seconds() -> f64 {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return 0.0;
    };
    let spent = tasks.flatten().filter_map(|task| {
        let path = task.path();
        let name = std::fs::read_to_string(path.join("comm")).ok()?;
        let spent = std::fs::read_to_string(path.join("schedstat")).ok()?;
        let nanoseconds: u64 = spent.split_ascii_whitespace().next()?.parse().ok()?;
        name.starts_with("rocjitsu").then_some(nanoseconds)
    });
    Duration::from_nanos(spent.sum()).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_mappings_of_the_file_at_an_address_are_summed() {
        let smaps = "\
55e000-55f000 r--p 00000000 fe:00 12 /usr/bin/cat
Size:                  4 kB
Rss:                   4 kB
7f0000-7f2000 r-xp 00000000 fe:00 34 /opt/lib.so
Size:                  8 kB
Rss:                   8 kB
Pss:                   1 kB
7f2000-7f3000 rw-p 00002000 fe:00 34 /opt/lib.so
Rss:                   3 kB
7f3000-7f4000 rw-p 00000000 00:00 0
Rss:                   2 kB
";
        assert_eq!(resident_of(smaps, 0x7f_1fff), 11);
        assert_eq!(resident_of(smaps, 0x55_e000), 4);
        assert_eq!(resident_of(smaps, 0x55_f000), 0);
    }

    #[test]
    fn resident_memory_is_what_a_process_of_tests_has() {
        assert!((100..100 << 20).contains(&resident_kib()));
    }
}
