//! Which of the program's addresses were ever lent to a GPU, roughly and without a lock: `munmap` of anything else
//! must cost a program nothing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Logarithm of the bytes that are told apart.
const GRANULE: u32 = 21;
/// Words of 64 granules each.
const WORDS: usize = 1024;
/// Granules of one range that are noted or asked about one by one.
const MOST: u64 = 1 << 12;

/// A filter: it may take other addresses for lent ones, never the other way round.
#[derive(Debug)]
pub struct LentFilter {
    /// A bit for each granule, by a hash of its number. Bits stay.
    granules: [AtomicU64; WORDS],
    /// So much was lent that everything counts.
    all: AtomicBool,
}

/// What was lent in this process. A forked child inherits it.
pub static LENT: LentFilter = LentFilter::new();

/// The granules of a range; `None` if there are too many.
fn granules(start: u64, end: u64) -> Option<std::ops::RangeInclusive<u64>> {
    let (first, last) = (start >> GRANULE, end.saturating_sub(1) >> GRANULE);
    (last.saturating_sub(first) < MOST).then_some(first..=last)
}

impl LentFilter {
    const fn new() -> LentFilter {
        LentFilter {
            granules: [const { AtomicU64::new(0) }; WORDS],
            all: AtomicBool::new(false),
        }
    }

    fn word(&self, granule: u64) -> (&AtomicU64, u64) {
        // Fibonacci hashing: neighbours go to different words.
        let hash = granule.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
        (&self.granules[hash as usize / 64 % WORDS], 1 << (hash % 64))
    }

    /// The program's bytes in `[start, end)` are going to be lent.
    pub fn note(&self, start: u64, end: u64) {
        match granules(start, end) {
            None => self.all.store(true, Ordering::SeqCst),
            Some(granules) => granules.for_each(|granule| {
                let (word, bit) = self.word(granule);
                word.fetch_or(bit, Ordering::SeqCst);
            }),
        }
    }

    /// Whether a byte of `[start, end)` may have been lent.
    pub fn touches(&self, start: u64, end: u64) -> bool {
        let any = |mut granules: std::ops::RangeInclusive<u64>| {
            granules.any(|granule| {
                let (word, bit) = self.word(granule);
                word.load(Ordering::SeqCst) & bit != 0
            })
        };
        self.all.load(Ordering::SeqCst) || granules(start, end).is_none_or(any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lent_is_known_and_most_else_is_not() {
        let lent = LentFilter::new();
        let at = 0x7f12_3456_7000;
        assert!(!lent.touches(at, at + 4096));
        lent.note(at, at + (100 << 20));
        for offset in (0..100u64 << 20).step_by(1 << 20) {
            assert!(lent.touches(at + offset, at + offset + 1), "{offset:#x}");
        }
        assert!(lent.touches(at - 1, at + 1) && lent.touches(0, 1 << 47));
        let others = (0..10_000u64).map(|i| 0x5500_0000_0000 + (i << GRANULE));
        let wrong = others.filter(|&at| lent.touches(at, at + 4096)).count();
        assert!(wrong < 100, "{wrong} of 10000");
        lent.note(0, 1 << 46);
        assert!(lent.touches(at + (1 << 40), at + (1 << 40) + 1));
    }
}
