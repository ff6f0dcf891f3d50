//! Attributes of ranges of the program's addresses, as the SVM ioctl sets and asks for them.
//! Rules as `kfd_svm.c` has them: setting splits ranges, asking combines those that overlap.

use std::collections::BTreeMap;

use rustix::io::Errno;

use crate::abi::SvmAttribute;

/// A set of GPUs by index; a machine has at most 128.
pub(super) type GpuSet = u128;

/// Kinds of attributes (`KFD_IOCTL_SVM_ATTR_*`).
pub(super) mod kind {
    pub const PREFERRED_LOC: u32 = 0;
    pub const PREFETCH_LOC: u32 = 1;
    pub const ACCESS: u32 = 2;
    pub const ACCESS_IN_PLACE: u32 = 3;
    pub const NO_ACCESS: u32 = 4;
    pub const SET_FLAGS: u32 = 5;
    pub const CLR_FLAGS: u32 = 6;
    pub const GRANULARITY: u32 = 7;
}

/// `KFD_IOCTL_SVM_FLAG_HOST_ACCESS` and `_COHERENT`, which a range has at first.
const FIRST_FLAGS: u32 = 1 | 2;
/// `KFD_IOCTL_SVM_FLAG_GPU_RO`.
const GPU_READ_ONLY: u32 = 8;
/// `KFD_IOCTL_SVM_LOCATION_SYSMEM`: the processor's memory.
const SYSTEM: u32 = 0;
/// `KFD_IOCTL_SVM_LOCATION_UNDEFINED`.
pub(super) const UNDEFINED: u32 = u32::MAX;
/// Logarithm of the pages that move together at first.
const FIRST_GRANULARITY: u32 = 9;

/// The attributes of one range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attributes {
    preferred: u32,
    prefetch: u32,
    flags: u32,
    granularity: u32,
    access: GpuSet,
    in_place: GpuSet,
}

impl Attributes {
    /// What a range has at first: no GPU's access, or with XNACK that of all `gpus`.
    fn first(xnack: bool, gpus: usize) -> Attributes {
        let all = GpuSet::MAX
            .checked_shr(128 - gpus.min(128) as u32)
            .unwrap_or(0);
        Attributes {
            preferred: UNDEFINED,
            prefetch: UNDEFINED,
            flags: FIRST_FLAGS,
            granularity: FIRST_GRANULARITY,
            access: if xnack { all } else { 0 },
            in_place: 0,
        }
    }

    /// Whether a GPU may access the range.
    pub(super) fn allows(&self, gpu: usize) -> bool {
        gpu < 128 && (self.access | self.in_place) >> gpu & 1 != 0
    }

    /// Whether GPUs may only read it.
    pub(super) fn read_only(&self) -> bool {
        self.flags & GPU_READ_ONLY != 0
    }

    fn set(&mut self, change: Change) {
        match change {
            Change::Preferred(location) => self.preferred = location,
            Change::Prefetch(location) => self.prefetch = location,
            Change::Access(gpu) => {
                self.access |= 1 << gpu;
                self.in_place &= !(1 << gpu);
            }
            Change::InPlace(gpu) => {
                self.access &= !(1 << gpu);
                self.in_place |= 1 << gpu;
            }
            Change::NoAccess(gpu) => {
                self.access &= !(1 << gpu);
                self.in_place &= !(1 << gpu);
            }
            Change::SetFlags(flags) => self.flags |= flags,
            Change::ClearFlags(flags) => self.flags &= !flags,
            Change::Granularity(log) => self.granularity = log.min(0x3f),
        }
    }
}

/// One attribute to set, checked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Preferred(u32),
    Prefetch(u32),
    Access(usize),
    InPlace(usize),
    NoAccess(usize),
    SetFlags(u32),
    ClearFlags(u32),
    Granularity(u32),
}

impl Change {
    /// Checks an attribute; `gpu` finds a `gpu_id`. Flags may be any bits (`svm_range_check_attr` looks at none): the
    /// thunk clears `!flags` before it sets `flags`.
    ///
    /// # Errors
    /// `EINVAL` for an unknown kind or GPU.
    pub(super) fn new(
        attribute: SvmAttribute,
        gpu: impl Fn(u32) -> Result<usize, Errno>,
    ) -> Result<Change, Errno> {
        let value = attribute.value;
        let location = || match value {
            SYSTEM | UNDEFINED => Ok(value),
            gpu_id => gpu(gpu_id).map(|_| value),
        };
        Ok(match attribute.kind {
            kind::PREFERRED_LOC => Change::Preferred(location()?),
            // There is no undefined place to bring memory to.
            kind::PREFETCH_LOC if value == UNDEFINED => return Err(Errno::INVAL),
            kind::PREFETCH_LOC => Change::Prefetch(location()?),
            kind::ACCESS => Change::Access(gpu(value)?),
            kind::ACCESS_IN_PLACE => Change::InPlace(gpu(value)?),
            kind::NO_ACCESS => Change::NoAccess(gpu(value)?),
            kind::SET_FLAGS => Change::SetFlags(value),
            kind::CLR_FLAGS => Change::ClearFlags(value),
            kind::GRANULARITY => Change::Granularity(value),
            _ => return Err(Errno::INVAL),
        })
    }
}

/// A range with its attributes; its start is the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) end: u64,
    pub(super) attributes: Attributes,
    /// Whether the program has changed its mappings there since the range was set.
    pub(super) suspect: bool,
}

/// The ranges that were set, disjoint.
#[derive(Debug, Default)]
pub(super) struct Table {
    ranges: BTreeMap<u64, Range>,
}

impl Table {
    /// The range that contains `address`, with its start.
    pub(super) fn containing(&self, address: u64) -> Option<(u64, &Range)> {
        let (&start, range) = self.ranges.range(..=address).next_back()?;
        (address < range.end).then_some((start, range))
    }

    /// The ranges that have a byte in `[start, end)`, cut to it.
    pub(super) fn overlapping(&self, start: u64, end: u64) -> Vec<(u64, Range)> {
        let first = self.containing(start).map_or(start, |(first, _)| first);
        self.ranges
            .range(first..end)
            .map(|(&at, range)| {
                let end = range.end.min(end);
                (at.max(start), Range { end, ..*range })
            })
            .collect()
    }

    fn split(&mut self, at: u64) {
        if let Some((start, range)) = self.containing(at)
            && start < at
        {
            let upper = *range;
            self.ranges.insert(start, Range { end: at, ..upper });
            self.ranges.insert(at, upper);
        }
    }

    /// Sets attributes of `[start, end)`; what has none yet gets those of a new range first.
    pub(super) fn set(
        &mut self,
        start: u64,
        end: u64,
        changes: &[Change],
        xnack: bool,
        gpus: usize,
    ) {
        self.split(start);
        self.split(end);
        let mut at = start;
        while at < end {
            let next = match self.ranges.get_mut(&at) {
                Some(range) => {
                    changes
                        .iter()
                        .for_each(|&change| range.attributes.set(change));
                    range.suspect = false;
                    range.end
                }
                None => {
                    let mut attributes = Attributes::first(xnack, gpus);
                    changes.iter().for_each(|&change| attributes.set(change));
                    let next = self
                        .ranges
                        .range(at..end)
                        .next()
                        .map_or(end, |(&next, _)| next);
                    let range = Range {
                        end: next,
                        attributes,
                        suspect: false,
                    };
                    self.ranges.insert(at, range);
                    next
                }
            };
            at = next;
        }
        self.merge(start, end);
    }

    /// Joins neighbours that are alike, so that the table grows with what differs only.
    fn merge(&mut self, start: u64, end: u64) {
        let first = start
            .checked_sub(1)
            .and_then(|below| self.containing(below));
        let mut at = first.map_or(start, |(first, _)| first);
        while at < end {
            let Some(range) = self.ranges.get(&at).copied() else {
                return;
            };
            match self.ranges.get(&range.end) {
                Some(next)
                    if (next.attributes, next.suspect) == (range.attributes, range.suspect) =>
                {
                    let joined = Range {
                        end: next.end,
                        ..range
                    };
                    self.ranges.remove(&range.end);
                    self.ranges.insert(at, joined);
                }
                Some(_) => at = range.end,
                None => match self.ranges.range(range.end..).next() {
                    Some((&next, _)) => at = next,
                    None => return,
                },
            }
        }
    }

    /// Removes what is in `[start, end)`.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        self.split(start);
        self.split(end);
        self.ranges
            .extract_if(start..end, |_, _| true)
            .for_each(drop);
    }

    /// Notes that the program changes its mappings in `[start, end)`. Returns whether there is a range.
    pub(super) fn suspect(&mut self, start: u64, end: u64) -> bool {
        if self.overlapping(start, end).is_empty() {
            return false;
        }
        self.split(start);
        self.split(end);
        for (_, range) in self.ranges.range_mut(start..end) {
            range.suspect = true;
        }
        true
    }

    /// Answers in place what is asked of `[start, end)`; `gpu` finds a `gpu_id`.
    ///
    /// # Errors
    /// `EINVAL` for what cannot be asked.
    pub(super) fn get(
        &self,
        start: u64,
        end: u64,
        attributes: &mut [SvmAttribute],
        (xnack, gpus): (bool, usize),
        gpu: impl Fn(u32) -> Result<usize, Errno>,
    ) -> Result<(), Errno> {
        let found = self.overlapping(start, end);
        let mut all = found.iter().map(|(_, range)| range.attributes);
        let first = Attributes::first(xnack, gpus);
        let mut sum = all.next().unwrap_or(first);
        let mut any_flags = sum.flags;
        for one in all {
            if sum.preferred != one.preferred {
                sum.preferred = UNDEFINED;
            }
            if sum.prefetch != one.prefetch {
                sum.prefetch = UNDEFINED;
            }
            sum.access &= one.access;
            sum.in_place &= one.in_place;
            sum.granularity = sum.granularity.min(one.granularity);
            sum.flags &= one.flags;
            any_flags |= one.flags;
        }
        for attribute in attributes {
            match attribute.kind {
                kind::PREFERRED_LOC => attribute.value = sum.preferred,
                kind::PREFETCH_LOC => attribute.value = sum.prefetch,
                kind::ACCESS => {
                    let gpu = gpu(attribute.value)?;
                    attribute.kind = if sum.access >> gpu & 1 != 0 {
                        kind::ACCESS
                    } else if sum.in_place >> gpu & 1 != 0 {
                        kind::ACCESS_IN_PLACE
                    } else {
                        kind::NO_ACCESS
                    };
                }
                kind::SET_FLAGS => attribute.value = sum.flags,
                kind::CLR_FLAGS => attribute.value = !any_flags,
                kind::GRANULARITY => attribute.value = sum.granularity,
                _ => return Err(Errno::INVAL),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(id: u32) -> Result<usize, Errno> {
        if (100..104).contains(&id) {
            Ok(id as usize - 100)
        } else {
            Err(Errno::INVAL)
        }
    }

    fn change(kind: u32, value: u32) -> Result<Change, Errno> {
        Change::new(SvmAttribute { kind, value }, gpu)
    }

    fn ask(
        table: &Table,
        start: u64,
        end: u64,
        xnack: bool,
        kinds: &[(u32, u32)],
    ) -> Result<Vec<(u32, u32)>, Errno> {
        let mut list: Vec<_> = kinds
            .iter()
            .map(|&(kind, value)| SvmAttribute { kind, value })
            .collect();
        table.get(start, end, &mut list, (xnack, 4), gpu)?;
        Ok(list.iter().map(|a| (a.kind, a.value)).collect())
    }

    #[test]
    fn unknown_values_are_refused() {
        for (kind, value) in [
            (0, 99),
            (1, UNDEFINED),
            (1, 104),
            (2, 0),
            (3, 99),
            (4, 1),
            (8, 0),
        ] {
            assert_eq!(
                change(kind, value).unwrap_err(),
                Errno::INVAL,
                "{kind} {value:#x}"
            );
        }
        assert!(change(0, UNDEFINED).is_ok() && change(0, 0).is_ok() && change(1, 0).is_ok());
    }

    #[test]
    fn all_flags_but_the_wanted_ones_can_be_cleared() {
        // What the thunk sets for the save area of a queue (`register_svm_range`).
        let flags = 64 | 16 | 1;
        let all = [
            (kind::PREFETCH_LOC, 100),
            (kind::PREFERRED_LOC, 100),
            (kind::CLR_FLAGS, !flags),
            (kind::SET_FLAGS, flags),
            (kind::ACCESS, 100),
            (kind::GRANULARITY, 0xff),
        ];
        let all = all.map(|(kind, value)| change(kind, value).unwrap());
        let mut table = Table::default();
        table.set(0x1000, 0x2000, &all, false, 4);
        let asked = [(0, 0), (1, 0), (2, 100), (5, 0), (6, 0), (7, 0)];
        assert_eq!(
            ask(&table, 0x1000, 0x2000, false, &asked).unwrap(),
            [
                (0, 100),
                (1, 100),
                (2, 100),
                (5, flags),
                (6, !flags),
                (7, 63)
            ]
        );
    }

    #[test]
    fn what_was_never_set_has_the_first_attributes() {
        let table = Table::default();
        let kinds = [(0, 5), (1, 5), (2, 101), (5, 0), (6, 0), (7, 0)];
        assert_eq!(
            ask(&table, 0x1000, 0x2000, false, &kinds).unwrap(),
            [
                (0, UNDEFINED),
                (1, UNDEFINED),
                (4, 101),
                (5, 3),
                (6, !3),
                (7, 9)
            ]
        );
        assert_eq!(
            ask(&table, 0, 0x1000, true, &[(2, 103)]).unwrap(),
            [(2, 103)]
        );
        assert_eq!(
            ask(&table, 0, 0x1000, false, &[(3, 101)]),
            Err(Errno::INVAL)
        );
        assert_eq!(ask(&table, 0, 0x1000, false, &[(2, 5)]), Err(Errno::INVAL));
    }

    #[test]
    fn setting_splits_and_asking_combines() {
        let mut table = Table::default();
        let set = |table: &mut Table, start, end, kind, value| {
            table.set(start, end, &[change(kind, value).unwrap()], false, 4);
        };
        set(&mut table, 0x1000, 0x5000, kind::ACCESS, 100);
        set(&mut table, 0x2000, 0x3000, kind::ACCESS_IN_PLACE, 100);
        set(&mut table, 0x2000, 0x3000, kind::PREFERRED_LOC, 101);
        set(&mut table, 0x4000, 0x5000, kind::SET_FLAGS, 8);
        set(&mut table, 0x4000, 0x5000, kind::CLR_FLAGS, 2);
        let of = |table: &Table, start, end| {
            ask(
                table,
                start,
                end,
                false,
                &[(0, 0), (2, 100), (5, 0), (6, 0)],
            )
            .unwrap()
        };
        assert_eq!(
            of(&table, 0x2000, 0x3000),
            [(0, 101), (3, 100), (5, 3), (6, !3)]
        );
        assert_eq!(
            of(&table, 0x1000, 0x3000),
            [(0, UNDEFINED), (4, 100), (5, 3), (6, !3)]
        );
        assert_eq!(
            of(&table, 0x3000, 0x5000),
            [(0, UNDEFINED), (2, 100), (5, 1), (6, !11)]
        );
        assert!(table.containing(0x4000).unwrap().1.attributes.read_only());
        assert!(table.containing(0x2fff).unwrap().1.attributes.allows(0));
        assert!(!table.containing(0x2fff).unwrap().1.attributes.allows(1));
        assert!(table.containing(0x5000).is_none());
        set(&mut table, 0x1000, 0x5000, kind::NO_ACCESS, 100);
        assert!(!table.containing(0x1000).unwrap().1.attributes.allows(0));
        table.remove(0x1800, 0x4800);
        let left: Vec<_> = table
            .overlapping(0, 0x10000)
            .iter()
            .map(|(at, range)| (*at, range.end))
            .collect();
        assert_eq!(left, [(0x1000, 0x1800), (0x4800, 0x5000)]);
    }

    #[test]
    fn neighbours_that_are_alike_are_one() {
        let mut table = Table::default();
        for page in [0u64, 2, 1, 5, 3, 4] {
            table.set(
                page << 12,
                (page + 1) << 12,
                &[change(kind::ACCESS, 102).unwrap()],
                false,
                4,
            );
        }
        assert_eq!(table.ranges.len(), 1);
        assert!(table.suspect(0x1000, 0x2000) && !table.suspect(0x6000, 0x7000));
        assert_eq!(table.ranges.len(), 3);
        assert!(
            table.containing(0x1000).unwrap().1.suspect
                && !table.containing(0x2000).unwrap().1.suspect
        );
        table.set(0, 0x6000, &[], false, 4);
        assert_eq!(table.ranges.len(), 1);
    }
}
