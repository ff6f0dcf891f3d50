//! The processor that the topology shows beside the GPUs: the host's own, read from `/proc` and sysfs.
//! What cannot be read (containers hide the caches) is replaced by values of a usual server.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;

/// The processor's node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cpu {
    /// Logical processors.
    pub cores: u32,
    /// The lowest APIC id; libhsakmt finds the processor's name in `/proc/cpuinfo` by it.
    pub core_id_base: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Caches, one entry for each instance.
    pub caches: Vec<CpuCache>,
}

/// A cache of the processor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CpuCache {
    /// 1, 2 or 3.
    pub level: u32,
    /// True if it holds data.
    pub data: bool,
    /// True if it holds instructions.
    pub instructions: bool,
    /// Size in KiB.
    pub kib: u32,
    /// Bytes of a line.
    pub line: u32,
    /// Ways; 0 if not known.
    pub ways: u32,
    /// The logical processors that share it, ascending, from 0.
    pub shared_by: Vec<u32>,
}

/// The most logical processors that the topology lists: beyond it the files of one node would
/// pass the 4096 bytes that libhsakmt reads.
const MOST_CORES: u32 = 1024;

impl Cpu {
    /// The host's processor.
    pub fn host() -> Self {
        Self::read(Path::new("/"))
    }

    /// A processor with this many logical processors and this much memory, and usual caches.
    pub fn usual(cores: u32, memory_bytes: u64) -> Self {
        let cores = cores.clamp(1, MOST_CORES);
        Cpu {
            cores,
            core_id_base: 0,
            memory_bytes,
            caches: usual_caches(cores),
        }
    }

    /// The processor that the files below `root` describe.
    fn read(root: &Path) -> Self {
        let text = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
        let cpuinfo = text("proc/cpuinfo");
        let field = |name: &str| {
            cpuinfo
                .lines()
                .filter_map(move |line| line.split_once(':').filter(|(key, _)| key.trim() == name))
                .filter_map(|(_, value)| value.trim().parse::<u32>().ok())
                .collect::<Vec<_>>()
        };
        let known = field("processor").len() as u32;
        let cores = if known > 0 {
            known
        } else {
            std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
        }
        .min(MOST_CORES);
        let memory_bytes = text("proc/meminfo")
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:"))
            .and_then(|rest| {
                rest.trim()
                    .trim_end_matches("kB")
                    .trim()
                    .parse::<u64>()
                    .ok()
            })
            .map_or(16 << 30, |kib| kib << 10);
        let mut caches = Vec::new();
        for core in 0..cores {
            for index in 0..8 {
                let base = format!("sys/devices/system/cpu/cpu{core}/cache/index{index}");
                if let Some(cache) = read_cache(|name| text(&format!("{base}/{name}")), cores)
                    && cache.shared_by.first() == Some(&core)
                {
                    caches.push(cache);
                }
            }
        }
        if caches.is_empty() {
            caches = usual_caches(cores);
        }
        Cpu {
            cores,
            core_id_base: field("apicid").into_iter().min().unwrap_or(0),
            memory_bytes,
            caches,
        }
    }
}

fn read_cache(text: impl Fn(&str) -> String, cores: u32) -> Option<CpuCache> {
    let number = |name: &str| text(name).trim().parse::<u32>().ok();
    let (data, instructions) = match text("type").trim() {
        "Data" => (true, false),
        "Instruction" => (false, true),
        "Unified" => (true, true),
        _ => return None,
    };
    let shared_by = list(&text("shared_cpu_list"), cores);
    Some(CpuCache {
        level: number("level")?,
        data,
        instructions,
        kib: text("size").trim().trim_end_matches('K').parse().ok()?,
        line: number("coherency_line_size").unwrap_or(64),
        ways: number("ways_of_associativity").unwrap_or(0),
        shared_by,
    })
}

/// The numbers below `limit` of a list such as `0-3,8`.
fn list(text: &str, limit: u32) -> Vec<u32> {
    let mut numbers = BTreeSet::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
            numbers.extend(first..=last.min(limit.saturating_sub(1)));
        }
    }
    numbers.retain(|&number| number < limit);
    numbers.into_iter().collect()
}

fn usual_caches(cores: u32) -> Vec<CpuCache> {
    let cache = |level, data, instructions, kib, ways, shared_by| CpuCache {
        level,
        data,
        instructions,
        kib,
        line: 64,
        ways,
        shared_by,
    };
    let mut caches: Vec<CpuCache> = (0..cores)
        .flat_map(|core| {
            [
                cache(1, true, false, 32, 8, vec![core]),
                cache(1, false, true, 32, 8, vec![core]),
                cache(2, true, true, 1024, 8, vec![core]),
            ]
        })
        .collect();
    caches.push(cache(3, true, true, 32 << 10, 16, (0..cores).collect()));
    caches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_has_cores_memory_and_caches() {
        let cpu = Cpu::host();
        assert!(cpu.cores >= 1 && cpu.memory_bytes > 1 << 20);
        assert!(cpu.caches.iter().any(|cache| cache.data));
    }

    #[test]
    fn absent_files_give_the_usual_processor() {
        let cpu = Cpu::read(Path::new("/nonexistent"));
        assert_eq!(cpu.memory_bytes, 16 << 30);
        assert_eq!(cpu.caches, usual_caches(cpu.cores));
    }

    #[test]
    fn lists_of_processors() {
        assert_eq!(list("0-3,8\n", 64), [0, 1, 2, 3, 8]);
        assert_eq!(list("0-4294967295", 2), [0, 1]);
        assert!(list("", 2).is_empty());
    }
}
