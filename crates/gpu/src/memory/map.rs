//! The address map: disjoint runs of pages, each a part of some storage.
//! Unmapping or protecting a part of a run splits it.

use std::collections::BTreeMap;
use std::sync::Arc;

use rocjitsu_exec::memory::Extent;

use super::{Access, Storage};

/// A run of pages; its start is the key in [`Map`].
#[derive(Clone, Debug)]
pub(super) struct Mapping {
    /// Address after the last.
    pub end: u64,
    pub storage: Arc<Storage>,
    /// Of the first byte in the storage.
    pub offset: u64,
    pub access: Access,
    /// Whether waves may begin there.
    pub executable: bool,
    pub label: Arc<str>,
}

impl Mapping {
    pub fn describe(&self, start: u64) -> String {
        let access = match self.access {
            Access::None => ", not accessible",
            Access::Read => ", read-only",
            Access::ReadWrite => "",
        };
        format!("{} [{start:#x}, {:#x}){access}", self.label, self.end)
    }

    /// Host address of the first byte.
    pub fn host(&self) -> *mut u8 {
        self.storage.base().wrapping_add(self.offset as usize)
    }

    pub fn extent(&self, start: u64) -> Extent {
        Extent {
            start,
            end: self.end,
            host: self.host(),
            writable: self.access == Access::ReadWrite,
        }
    }
}

/// All runs, by their start, and what the thin allocator on top knows.
#[derive(Debug, Default)]
pub(super) struct Map {
    pub runs: BTreeMap<u64, Mapping>,
    /// Allocations that the map placed itself: address to bytes.
    pub placed: BTreeMap<u64, u64>,
    /// Bytes that were asked for, where the map rounded them up.
    pub requested: BTreeMap<u64, u64>,
    /// Sum of `placed`.
    pub used: u64,
    /// Where the next one is tried first.
    pub next: u64,
}

impl Map {
    /// The run that contains `address`, with its start.
    pub fn containing(&self, address: u64) -> Option<(u64, &Mapping)> {
        let (&start, run) = self.runs.range(..=address).next_back()?;
        (address < run.end).then_some((start, run))
    }

    /// The last run that has a byte in `[start, start + bytes)` or in the guards around.
    pub fn conflict(&self, start: u64, bytes: u64, guard: u64) -> Option<(u64, &Mapping)> {
        let end = start.saturating_add(bytes).saturating_add(guard);
        let (&at, run) = self.runs.range(..end).next_back()?;
        (run.end + guard > start).then_some((at, run))
    }

    /// Makes `at` a border between runs if it lies inside one.
    fn split(&mut self, at: u64) {
        let Some((&start, run)) = self.runs.range_mut(..at).next_back() else {
            return;
        };
        if run.end <= at {
            return;
        }
        let mut upper = run.clone();
        upper.offset += at - start;
        run.end = at;
        self.runs.insert(at, upper);
    }

    /// Removes the bytes of `[start, end)` that are mapped, if `which` says so of their storage.
    pub fn remove(
        &mut self,
        start: u64,
        end: u64,
        which: impl Fn(&Storage) -> bool,
    ) -> Vec<(u64, Mapping)> {
        self.split(start);
        self.split(end);
        self.runs
            .extract_if(start..end, |_, run| which(&run.storage))
            .collect()
    }

    /// Sets what the GPU may do with the bytes of `[start, end)` that are mapped.
    pub fn protect(&mut self, start: u64, end: u64, access: Access) {
        self.split(start);
        self.split(end);
        for run in self.runs.range_mut(start..end) {
            run.1.access = access;
        }
    }

    /// Keeps waves from beginning in the bytes of `[start, end)` that are mapped.
    pub fn forbid_execution(&mut self, start: u64, end: u64) {
        self.split(start);
        self.split(end);
        for run in self.runs.range_mut(start..end) {
            run.1.executable = false;
        }
    }

    /// Where `address` lies, in words.
    pub fn describe(&self, address: u64) -> String {
        if let Some((start, run)) = self.containing(address) {
            return format!("{:#x} bytes into {}", address - start, run.describe(start));
        }
        let below = self
            .runs
            .range(..=address)
            .next_back()
            .map(|(&start, run)| {
                let past = address - run.end;
                format!("{past:#x} bytes past the end of {}", run.describe(start))
            });
        let above = address
            .checked_add(1)
            .and_then(|next| self.runs.range(next..).next())
            .map(|(&start, run)| {
                format!(
                    "{:#x} bytes before {}",
                    start - address,
                    run.describe(start)
                )
            });
        match (below, above) {
            (Some(below), Some(above)) => format!("{below}, {above}"),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => "nothing is allocated".to_owned(),
        }
    }

    /// A run as plugins are told of it: start, bytes that were asked for, label.
    pub fn allocation(&self, start: u64, run: &Mapping) -> (u64, u64, String) {
        let whole = run.end - start;
        let bytes = self.requested.get(&start).copied().unwrap_or(whole);
        (start, bytes.min(whole), run.label.to_string())
    }

    /// The run nearest to `address`.
    pub fn near(&self, address: u64) -> Option<Extent> {
        let below = self.runs.range(..=address).next_back();
        let above = self.runs.range(address..).next();
        let (start, run) = match (below, above) {
            (Some(below), Some(above)) => {
                if address.saturating_sub(below.1.end) <= above.0 - address {
                    below
                } else {
                    above
                }
            }
            (one, None) => one?,
            (None, one) => one?,
        };
        Some(run.extent(*start))
    }
}
