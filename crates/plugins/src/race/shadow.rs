//! Who accessed each byte of memory last.

use foldhash::HashMap;

/// What an access is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// Its scope is at least the cluster: waves of workgroups beside the wave's own see it.
    pub cluster: bool,
}

impl Flags {
    const fn packed(self) -> u8 {
        self.write as u8
            | (self.atomic as u8) << 1
            | (self.sync as u8) << 2
            | (self.detached as u8) << 3
            | (self.object as u8) << 4
            | (self.swaps as u8) << 5
            | (self.cluster as u8) << 6
    }
}

/// An access, as memory remembers it: 16 bytes, of which a page holds one for each word.
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
    /// Bytes of the word, bit 0 the lowest; 0 where there is none.
    mask: u8,
    flags: u8,
    /// In a page: further entries of the word lie beside the page.
    more: bool,
}

impl Entry {
    const NONE: Entry = Entry {
        wave: 0,
        epoch: 0,
        site: 0,
        lane: 0,
        mask: 0,
        flags: 0,
        more: false,
    };

    /// An access of no byte yet.
    pub fn new(wave: u32, epoch: u32, site: u32, lane: u8, flags: Flags) -> Entry {
        Entry {
            wave,
            epoch,
            site,
            lane,
            flags: flags.packed(),
            ..Entry::NONE
        }
    }

    /// What it is.
    pub fn flags(&self) -> Flags {
        let is = |bit: u8| self.flags >> bit & 1 != 0;
        Flags {
            write: is(0),
            atomic: is(1),
            sync: is(2),
            detached: is(3),
            object: is(4),
            swaps: is(5),
            cluster: is(6),
        }
    }

    /// Whether a later access of the same bytes makes it unnecessary: a store all others, a load the same wave's loads.
    fn is_replaced_by(&self, later: &Entry) -> bool {
        const STORE: u8 = Flags {
            write: true,
            ..NO_FLAGS
        }
        .packed();
        const ATOMIC: u8 = Flags {
            atomic: true,
            ..NO_FLAGS
        }
        .packed();
        later.flags & (STORE | ATOMIC) == STORE
            || self.wave == later.wave && self.flags == later.flags
    }
}

const NO_FLAGS: Flags = Flags {
    write: false,
    atomic: false,
    sync: false,
    detached: false,
    object: false,
    swaps: false,
    cluster: false,
};

/// Readers that a word remembers at most; of more, the latest.
const READERS: usize = 16;
/// Words of a page.
const WORDS: usize = 1024;
/// Bytes of memory that a page is about.
const PAGE: u64 = 4 * WORDS as u64;
/// Pages found last that are remembered, by the last bits of their numbers.
const RECENT: usize = 64;

/// The entries of a page's words, the oldest of each.
struct Page {
    words: Box<[Entry; WORDS]>,
    /// The others, from old to new, of words that have several.
    more: HashMap<u16, Vec<Entry>>,
}

/// Entries of all words that were accessed.
pub struct Shadow {
    pages: Vec<Page>,
    /// Indices of pages by their number.
    index: HashMap<u64, u32>,
    recent: [(u64, u32); RECENT],
    /// Readers that words no longer remember.
    forgotten: u64,
}

impl Default for Shadow {
    fn default() -> Shadow {
        Shadow {
            pages: Vec::new(),
            index: HashMap::default(),
            recent: [(u64::MAX, 0); RECENT],
            forgotten: 0,
        }
    }
}

impl Shadow {
    /// How many readers words no longer remember, because others have read them since: a race with one of these is not found.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    fn page(&mut self, number: u64) -> &mut Page {
        let recent = &mut self.recent[number as usize % RECENT];
        if recent.0 != number {
            let next = self.pages.len() as u32;
            let index = *self.index.entry(number).or_insert(next);
            if index == next {
                self.pages.push(Page {
                    words: Box::new([Entry::NONE; WORDS]),
                    more: HashMap::default(),
                });
            }
            *recent = (number, index);
        }
        &mut self.pages[recent.1 as usize]
    }

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
            let mut forgotten = 0;
            let page = self.page(at / PAGE);
            let page_end = (at / PAGE + 1) * PAGE;
            while at < end.min(page_end) {
                let word = at & !3;
                let last = (word + 4).min(end);
                entry.mask = (0xf >> (4 - (last - word)) & 0xf << (at - word)) as u8;
                let forgets = page.note((word / 4) as usize % WORDS, word, entry, check);
                forgotten += u64::from(forgets);
                at = last;
            }
            self.forgotten += forgotten;
        }
    }
}

impl Page {
    /// Notes an access of a word of the page, which lies at an address. Returns whether it drives out another one.
    fn note(
        &mut self,
        index: usize,
        word: u64,
        entry: Entry,
        check: &mut impl FnMut(&Entry, u64),
    ) -> bool {
        let first = &mut self.words[index];
        let mut meets = |old: &Entry| {
            let both = old.mask & entry.mask;
            if both != 0 {
                check(old, word + u64::from(both.trailing_zeros()));
            }
        };
        meets(first);
        if !first.more {
            if first.is_replaced_by(&entry) {
                first.mask &= !entry.mask;
            }
            if first.mask == 0 {
                *first = entry;
            } else {
                first.more = true;
                self.more.insert(index as u16, vec![entry]);
            }
            return false;
        }
        let more = self.more.entry(index as u16).or_default();
        more.iter().for_each(&mut meets);
        for old in std::iter::once(&mut *first).chain(&mut *more) {
            if old.is_replaced_by(&entry) {
                old.mask &= !entry.mask;
            }
        }
        more.retain(|old| old.mask != 0);
        let full = more.len() + 1 >= READERS;
        let forgets = full && first.mask != 0;
        if full {
            first.mask = 0;
        }
        more.push(entry);
        if first.mask == 0 {
            *first = more.remove(0);
        }
        first.more = !more.is_empty();
        if more.is_empty() {
            self.more.remove(&(index as u16));
        }
        forgets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(wave: u32, write: bool) -> Entry {
        let flags = Flags {
            write,
            ..Flags::default()
        };
        Entry::new(wave, 1, 0, 0, flags)
    }

    #[test]
    fn flags_are_kept() {
        for bit in 0..7 {
            let is = |n: u8| n == bit;
            let flags = Flags {
                write: is(0),
                atomic: is(1),
                sync: is(2),
                detached: is(3),
                object: is(4),
                swaps: is(5),
                cluster: is(6),
            };
            assert_eq!(Entry::new(0, 0, 0, 0, flags).flags(), flags);
        }
        assert_eq!(size_of::<Entry>(), 16);
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

    /// What the pages do in place, done with a list of entries for each byte.
    #[test]
    fn random_accesses_meet_what_a_list_for_each_byte_says() {
        let mut shadow = Shadow::default();
        let mut lists: Vec<Vec<(u32, bool)>> = vec![Vec::new(); 64];
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for _ in 0..20000 {
            let (wave, write) = (random(5) as u32, random(4) == 0);
            let (at, bytes) = (random(56), 1 + random(8));
            let mut met = Vec::new();
            let base = PAGE - 32;
            shadow.access(
                base + at,
                bytes as u32,
                entry(wave, write),
                &mut |old, at| met.push((at - base, old.wave, old.flags().write)),
            );
            // Entries are told with the first byte that they share in a word.
            let mut expected = Vec::new();
            for byte in at..at + bytes {
                let list = &mut lists[byte as usize];
                for old in list.iter() {
                    let first = (byte & !3).max(at)..byte;
                    let told = first.clone().any(|b| expected.contains(&(b, old.0, old.1)));
                    if !told {
                        expected.push((byte, old.0, old.1));
                    }
                }
            }
            for byte in at..at + bytes {
                let list = &mut lists[byte as usize];
                list.retain(|old| !write && *old != (wave, write));
                list.push((wave, write));
            }
            met.sort_unstable();
            met.dedup();
            expected.sort_unstable();
            let same = |a: &[(u64, u32, bool)], b: &[(u64, u32, bool)]| {
                let words = |all: &[(u64, u32, bool)]| {
                    let mut words: Vec<_> = all.iter().map(|m| (m.0 / 4, m.1, m.2)).collect();
                    words.sort_unstable();
                    words.dedup();
                    words
                };
                words(a) == words(b)
            };
            assert!(same(&met, &expected), "{at} {bytes}: {met:?}, {expected:?}");
        }
    }

    #[test]
    fn of_many_readers_the_latest_are_remembered() {
        let mut shadow = Shadow::default();
        for wave in 0..40 {
            shadow.access(0, 4, entry(wave, false), &mut |_, _| {});
        }
        let mut met = Vec::new();
        shadow.access(0, 4, entry(99, true), &mut |old, _| met.push(old.wave));
        assert_eq!(met, (24..40).collect::<Vec<_>>());
        assert_eq!(shadow.forgotten(), 24);
        met.clear();
        shadow.access(0, 4, entry(1, false), &mut |old, _| met.push(old.wave));
        assert_eq!(met, [99]);
    }

    /// What later loads of the same wave have replaced makes no room for itself among the readers.
    #[test]
    fn a_wave_that_reads_again_and_again_drives_no_other_reader_out() {
        let mut shadow = Shadow::default();
        let mut met = Vec::new();
        let read = |shadow: &mut Shadow, wave| {
            shadow.access(0, 4, entry(wave, false), &mut |_, _| {});
        };
        read(&mut shadow, 1);
        read(&mut shadow, 2);
        for _ in 0..3 * READERS {
            read(&mut shadow, 3);
        }
        shadow.access(0, 4, entry(9, true), &mut |old, _| met.push(old.wave));
        assert_eq!(met, [1, 2, 3]);
        assert_eq!(shadow.forgotten(), 0);
    }
}
