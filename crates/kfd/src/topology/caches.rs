//! Caches of the nodes: an entry for each instance with the compute units that share it.
//! As Linux builds them in `kfd_topology.c` from the masks of working compute units.

use std::fmt::Write;

use rocjitsu_config::{self as config, CacheKind, CacheScope, Cpu, Gpu};

use super::properties;

/// An instance of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cache {
    first: u32,
    level: u32,
    kib: u32,
    line: u32,
    ways: u32,
    kind: u32,
    /// Bit n: the processor or compute unit `first + n` shares it. Bytes, lowest first.
    siblings: Vec<u8>,
}

const DATA: u32 = 1;
const INSTRUCTION: u32 = 2;
const CPU: u32 = 4;
const GPU: u32 = 8;
/// Bytes of a sibling map at most, as in the driver; with more, a file would pass 4096 bytes.
const MOST_SIBLING_BYTES: usize = 128;

impl Cache {
    pub fn properties(&self) -> String {
        let mut text = properties(&[
            ("processor_id_low", self.first.into()),
            ("level", self.level.into()),
            ("size", self.kib.into()),
            ("cache_line_size", self.line.into()),
            ("cache_lines_per_tag", 1),
            ("association", self.ways.into()),
            ("latency", 0),
            ("type", self.kind.into()),
        ]);
        text.push_str("sibling_map ");
        let bits = self
            .siblings
            .iter()
            .flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1));
        for (index, bit) in bits.enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let _ = write!(text, "{comma}{bit}");
        }
        text.push('\n');
        text
    }
}

/// The processor's caches.
pub(super) fn cpu_caches(cpu: &Cpu) -> Vec<Cache> {
    cpu.caches
        .iter()
        .map(|cache| {
            let first = cache.shared_by.first().copied().unwrap_or(0);
            let mut siblings = vec![0; 4];
            for &core in &cache.shared_by {
                let bit = (core - first) as usize;
                if bit / 8 < MOST_SIBLING_BYTES {
                    if siblings.len() <= bit / 8 {
                        siblings.resize((bit / 8 + 1).next_multiple_of(4), 0);
                    }
                    siblings[bit / 8] |= 1 << (bit % 8);
                }
            }
            Cache {
                first: cpu.core_id_base + first,
                level: cache.level,
                kib: cache.kib,
                line: cache.line,
                ways: cache.ways,
                kind: CPU
                    | if cache.data { DATA } else { 0 }
                    | if cache.instructions { INSTRUCTION } else { 0 },
                siblings,
            }
        })
        .collect()
}

/// The caches of a GPU whose compute units are counted from `first`.
pub(super) fn gpu_caches(gpu: &Gpu, first: u32) -> Vec<Cache> {
    gpu.caches
        .iter()
        .flat_map(|cache| match cache.scope {
            CacheScope::Cus(count) => of_arrays(gpu, cache, first, count),
            CacheScope::Array => of_arrays(gpu, cache, first, gpu.cus_per_array),
            CacheScope::Node => vec![of_node(gpu, cache, first)],
        })
        .collect()
}

fn entry(cache: &config::Cache, first: u32, siblings: Vec<u8>) -> Cache {
    Cache {
        first,
        level: cache.level,
        kib: cache.kib,
        line: cache.line,
        ways: 0,
        kind: GPU
            | match cache.kind {
                CacheKind::Data | CacheKind::Scalar => DATA,
                CacheKind::Instruction => INSTRUCTION,
            },
        siblings,
    }
}

/// One entry for each group of neighbouring places of a shader array of which any works.
fn of_arrays(gpu: &Gpu, cache: &config::Cache, first: u32, shared: u32) -> Vec<Cache> {
    let mut caches = Vec::new();
    let mut place = first;
    let shared = shared.clamp(1, 32);
    for _ in 0..gpu.xccs {
        for array in 0..gpu.arrays_per_xcc() {
            let mask = gpu.cu_mask(array);
            let mut start = 0;
            while start < gpu.cus_per_array {
                let width = shared.min(gpu.cus_per_array - start);
                let here = mask.checked_shr(start).unwrap_or(0) & (u32::MAX >> (32 - width));
                if here != 0 {
                    let skipped = here.trailing_zeros();
                    caches.push(entry(
                        cache,
                        place + skipped,
                        (here >> skipped).to_le_bytes().to_vec(),
                    ));
                }
                place += width;
                start += width;
            }
        }
    }
    caches
}

/// One entry with the masks of all shader arrays, one after another.
fn of_node(gpu: &Gpu, cache: &config::Cache, first: u32) -> Cache {
    let mut siblings: Vec<u8> = (0..gpu.xccs)
        .flat_map(|_| 0..gpu.arrays_per_xcc())
        .flat_map(|array| gpu.cu_mask(array).to_le_bytes())
        .collect();
    siblings.truncate(MOST_SIBLING_BYTES);
    entry(cache, first, siblings)
}
