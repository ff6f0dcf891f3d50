//! Who accessed each byte of memory last.

use std::collections::HashMap;

/// What an access is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags {
    /// It writes.
    pub write: bool,
    /// It is a read-modify-write operation.
    pub atomic: bool,
    /// Its scope lets waves of other workgroups see it.
    pub sync: bool,
    /// It is made by a copy that later accesses of the wave do not wait for.
    pub detached: bool,
    /// It arrives at a barrier that lies in LDS.
    pub object: bool,
    /// It compares and swaps.
    pub swaps: bool,
}

/// An access, as memory remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The wave.
    pub wave: u32,
    /// When, in the wave's own time.
    pub epoch: u32,
    /// The instruction.
    pub site: u32,
    /// The lane.
    pub lane: u8,
    /// Bytes of the word, bit 0 the lowest.
    pub mask: u8,
    /// What it is.
    pub flags: Flags,
}

/// Readers that a word remembers at most; of more, the latest.
const READERS: usize = 16;
/// Words of a page.
const WORDS: usize = 1024;

type Word = Vec<Entry>;

/// Entries of all words that were accessed.
#[derive(Default)]
pub struct Shadow(HashMap<u64, Box<[Word]>>);

impl Shadow {
    /// Notes an access and calls `check` with each earlier one of the same bytes and the address of the first of
    /// these.
    pub fn access(
        &mut self,
        address: u64,
        bytes: u32,
        mut entry: Entry,
        check: &mut impl FnMut(&Entry, u64),
    ) {
        let end = address + u64::from(bytes);
        let mut at = address;
        while at < end {
            let page = self.0.entry(at / (4 * WORDS as u64));
            let page = page.or_insert_with(|| vec![Word::new(); WORDS].into());
            let page_end = (at / (4 * WORDS as u64) + 1) * (4 * WORDS as u64);
            while at < end.min(page_end) {
                let word = at & !3;
                let last = (word + 4).min(end);
                entry.mask = (0xf >> (4 - (last - word)) & 0xf << (at - word)) as u8;
                let cell = &mut page[(word / 4) as usize % WORDS];
                for old in cell.iter().filter(|old| old.mask & entry.mask != 0) {
                    let first = (old.mask & entry.mask).trailing_zeros();
                    check(old, word + u64::from(first));
                }
                note(cell, entry);
                at = last;
            }
        }
    }
}

/// Puts an access in the place of those that it makes unnecessary: a store all of the same bytes, a load the
/// same wave's loads of them.
fn note(cell: &mut Word, entry: Entry) {
    let replaced = |old: &Entry| {
        entry.flags.write && !entry.flags.atomic
            || old.wave == entry.wave && old.flags == entry.flags
    };
    cell.retain_mut(|old| {
        if replaced(old) {
            old.mask &= !entry.mask;
        }
        old.mask != 0
    });
    if cell.len() >= READERS {
        cell.remove(0);
    }
    cell.push(entry);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(wave: u32, write: bool) -> Entry {
        Entry {
            wave,
            epoch: 1,
            site: 0,
            lane: 0,
            mask: 0,
            flags: Flags {
                write,
                atomic: false,
                sync: false,
                detached: false,
                object: false,
                swaps: false,
            },
        }
    }

    #[test]
    fn only_the_same_bytes_meet() {
        let mut shadow = Shadow::default();
        let mut met = Vec::new();
        let mut access = |address, bytes, wave, write| {
            met.clear();
            shadow.access(address, bytes, entry(wave, write), &mut |old, at| {
                met.push((old.wave, at))
            });
            met.clone()
        };
        assert!(access(0x1002, 1, 1, true).is_empty());
        assert!(access(0x1003, 1, 2, true).is_empty());
        assert!(access(0x1004, 16, 3, false).is_empty());
        assert_eq!(
            access(0x1000, 8, 4, true),
            [(1, 0x1002), (2, 0x1003), (3, 0x1004)]
        );
        // The store has taken the place of all that it covers.
        assert_eq!(
            access(0x1000, 12, 5, false),
            [(4, 0x1000), (4, 0x1004), (3, 0x1008)]
        );
        assert_eq!(access(0xffe, 4, 6, true), [(4, 0x1000), (5, 0x1000)]);
    }
}
