//! What an access to GPU memory costs: a wave's view of the address map beside a plain page table.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use rocjitsu_exec::memory::{AddressSpace, MemoryPort};
use rocjitsu_gpu::memory::{Access, Arena, Memory, PAGE};

use crate::limits::{Limits, RESOLVER};

/// Reads of one measurement.
const READS: u64 = 4_000_000;
/// Where the memory lies, and its size in bytes.
const VA: u64 = 0x2000_0000_0000;
const BYTES: u64 = 256 << 10;
/// Other allocations in the map.
const OTHERS: u64 = 10_000;

/// A table of one entry for each page, the host address or null.
struct PageTable {
    first: u64,
    pages: Vec<*const u8>,
}

impl PageTable {
    #[inline(always)]
    fn read_u32(&self, address: u64) -> Option<u32> {
        let page = address.checked_sub(self.first)? / PAGE;
        let host = *self.pages.get(page as usize)?;
        let offset = address % PAGE;
        if host.is_null() || offset > PAGE - 4 {
            return None;
        }
        // SAFETY: the page is mapped as long as the memory below, and four bytes are left in it.
        Some(unsafe { host.add(offset as usize).cast::<u32>().read_unaligned() })
    }
}

/// Scattered addresses, each of which depends on the value read before: nothing can be done ahead.
fn chase(mut read: impl FnMut(u64) -> u32) -> f64 {
    let start = Instant::now();
    let mut at = 0u64;
    for _ in 0..READS {
        let value = read(VA + at);
        at = (at * 5 + 0x9e4 + u64::from(value)) & (BYTES - 4);
    }
    black_box(at);
    start.elapsed().as_nanos() as f64 / READS as f64
}

fn best(repeat: u32, mut run: impl FnMut() -> f64) -> f64 {
    (0..repeat.max(1))
        .map(|_| run())
        .fold(f64::INFINITY, f64::min)
}

/// Prints nanoseconds for a read of 4 bytes both ways, and for a look-up that the view does not remember.
pub fn resolver(repeat: u32, limits: &mut Limits) -> Result<()> {
    let arena = Arena::new("bench")?;
    let memory = Arc::new(Memory::for_program());
    let storage = arena.allocate(BYTES, 1)?;
    memory.map(VA, storage.clone(), 0, BYTES, Access::ReadWrite, "data")?;
    for n in 1..=OTHERS {
        let one = arena.allocate(PAGE, 1)?;
        memory.map(VA + n * (1 << 20), one, 0, PAGE, Access::ReadWrite, "other")?;
    }
    let table = PageTable {
        first: VA,
        pages: (0..BYTES / PAGE)
            .map(|page| {
                storage
                    .base()
                    .wrapping_add((page * PAGE) as usize)
                    .cast_const()
            })
            .collect(),
    };
    let plain = best(repeat, || {
        chase(|at| black_box(&table).read_u32(at).unwrap_or(0))
    });
    let mut port = MemoryPort::new(&*memory);
    let view = best(repeat, || {
        chase(|at| {
            port.refresh();
            port.read_u32(at).unwrap_or(0)
        })
    });
    let missed = best(repeat, || {
        let mut n = 0;
        chase(|_| {
            n = n % OTHERS + 1;
            u32::from(memory.find(VA + n * (1 << 20)).is_err())
        })
    });
    println!(
        "== memory: ns for a read of 4 bytes, each address from the value before, {OTHERS} other allocations"
    );
    println!(
        "page table {plain:.2}  address map, checked by generation {view:.2} ({:.2}x)  look-up that misses {missed:.1}",
        view / plain
    );
    limits.at_most(
        "reads through the address map",
        view / plain,
        RESOLVER,
        "times",
    );
    Ok(())
}
