//! Scratch memory of waves: a region for each workgroup under way, used again by the next.
//! Dword k of lane l of a wave lies `(k * lanes + l) * 4` bytes behind the wave's base.

use std::sync::{Arc, Mutex};

use super::{Dispatch, DispatchError, ScratchMemory};
use crate::memory::{Memory, Request};

/// What the allocation of a region is for.
pub const LABEL: &str = "scratch";

/// Regions of scratch.
pub struct Scratch<'a> {
    kernel: &'a str,
    /// Bytes of one workgroup.
    per_group: u64,
    /// Memory of the queue that regions are cut from.
    of_queue: Option<ScratchMemory>,
    regions: Mutex<Regions>,
}

/// The regions that a dispatch has. They go with this value.
pub struct Regions {
    memory: Arc<Memory>,
    /// Those that no workgroup has.
    pub free: Vec<u64>,
    /// Allocated ones.
    pub all: Vec<u64>,
    /// How many were cut from the queue's memory.
    pub cut: u64,
}

/// Scratch bytes of a work-item, whole dwords, and of a wave.
pub fn sizes(dispatch: &Dispatch) -> (u64, u64) {
    let per_item = u64::from(dispatch.private_segment).next_multiple_of(16);
    let per_wave = per_item * u64::from(dispatch.descriptor.wave_size);
    (per_item, per_wave)
}

impl Regions {
    /// None yet.
    pub fn new(memory: &Arc<Memory>) -> Regions {
        Regions {
            memory: memory.clone(),
            free: Vec::new(),
            all: Vec::new(),
            cut: 0,
        }
    }
}

impl<'a> Scratch<'a> {
    /// Scratch for a dispatch that has `regions` already; allocates nothing yet.
    pub fn new(dispatch: &'a Dispatch, waves_per_group: u32, regions: Regions) -> Scratch<'a> {
        let (_, per_wave) = sizes(dispatch);
        Scratch {
            kernel: &dispatch.name,
            per_group: per_wave * u64::from(waves_per_group),
            of_queue: dispatch.origin.scratch,
            regions: Mutex::new(regions),
        }
    }

    /// The regions, for a later run of the same dispatch.
    pub fn into_regions(self) -> Regions {
        self.regions.into_inner().unwrap_or_else(|e| e.into_inner())
    }

    /// Scratch bytes of one workgroup.
    pub fn per_group(&self) -> u64 {
        self.per_group
    }

    /// How many workgroups can be under way at once.
    pub fn room(&self) -> u64 {
        match self.of_queue {
            Some(memory) if self.per_group > 0 => memory.bytes / self.per_group,
            _ => u64::MAX,
        }
    }

    /// A region for the waves of a workgroup, or 0 if the kernel has no scratch.
    pub fn take(&self) -> Result<u64, DispatchError> {
        if self.per_group == 0 {
            return Ok(0);
        }
        let mut regions = self.regions.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(region) = regions.free.pop() {
            return Ok(region);
        }
        if let Some(memory) = self.of_queue {
            if regions.cut >= self.room() {
                return Err(DispatchError::Scratch {
                    kernel: self.kernel.to_owned(),
                    bytes: self.per_group,
                    cause: format!(
                        "the queue has {} bytes at {:#x}, which {} workgroups take",
                        memory.bytes, memory.base, regions.cut
                    ),
                });
            }
            regions.cut += 1;
            return Ok(memory.base.wrapping_add((regions.cut - 1) * self.per_group));
        }
        let region = regions
            .memory
            .allocate(&Request::new(self.per_group, LABEL))
            .map_err(|cause| DispatchError::Scratch {
                kernel: self.kernel.to_owned(),
                bytes: self.per_group,
                cause: cause.to_string(),
            })?;
        regions.all.push(region);
        Ok(region)
    }

    /// Gives a region back.
    pub fn give(&self, region: u64) {
        if region != 0 {
            self.regions
                .lock()
                .unwrap_or_else(|e| e.into_inner())
                .free
                .push(region);
        }
    }
}

impl Drop for Regions {
    fn drop(&mut self) {
        for &region in &self.all {
            // A region is freed once, and nobody else knows it; a failure would mean the map is damaged.
            let freed = self.memory.free(region);
            debug_assert!(freed.is_ok(), "scratch region {region:#x}: {freed:?}");
        }
    }
}
