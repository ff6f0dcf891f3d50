//! Bytes of global memory that nothing has written: those of pages that nobody had touched when a kernel first came to
//! them, but for what kernels have stored there since.

use foldhash::HashMap;

use rocjitsu_observe::{Access, AccessKind, MemoryView};

const PAGE: u64 = 4096;

/// A bit for each byte of a page.
struct Bytes(Box<[u64; PAGE as usize / 64]>);

impl Default for Bytes {
    fn default() -> Bytes {
        Bytes(Box::new([0; PAGE as usize / 64]))
    }
}

/// What is known of the pages that kernels have come to in a dispatch. Between dispatches the host may write anything
/// without anybody's notice.
#[derive(Default)]
pub struct Written {
    /// The bytes written of pages that were untouched; `None` for a page of which nothing is known.
    pages: HashMap<u64, Option<Bytes>>,
}

/// The bits of a page's bytes that lie in `[start, end)`, by word.
fn words(start: u64, end: u64) -> impl Iterator<Item = (usize, u64)> {
    let first = start / 64;
    (first..end.div_ceil(64)).map(move |word| {
        let from = start.saturating_sub(64 * word).min(63);
        let to = (end - 64 * word).min(64);
        (word as usize, u64::MAX >> (64 - (to - from)) << from)
    })
}

impl Written {
    /// A dispatch begins.
    pub fn forget(&mut self) {
        self.pages.clear();
    }

    /// Notes what an access stores that came from elsewhere.
    pub fn store(&mut self, access: &Access) {
        let end = access.address.saturating_add(access.bytes.into());
        let mut at = access.address;
        while at < end {
            let (page, stop) = (at / PAGE, end.min((at / PAGE + 1) * PAGE));
            if let Some(Some(bytes)) = self.pages.get_mut(&page) {
                words(at % PAGE, stop - page * PAGE).for_each(|(word, bits)| bytes.0[word] |= bits);
            }
            at = stop;
        }
    }

    /// Notes what an access stores, and tells of the first byte that it loads although nothing has written it. `scalar`:
    /// a load that may be wider than what the program asks for; it counts only if it has no written byte.
    pub fn access(
        &mut self,
        memory: &dyn MemoryView,
        access: &Access,
        scalar: bool,
    ) -> Option<u64> {
        let end = access.address.checked_add(access.bytes.into())?;
        let mut at = access.address;
        let mut missing = Vec::new();
        while at < end {
            let page = at / PAGE;
            let stop = end.min((page + 1) * PAGE);
            let fresh = || memory.is_untouched(at).then(Bytes::default);
            if let Some(bytes) = self.pages.entry(page).or_insert_with(fresh) {
                let (from, to) = (at % PAGE, stop - page * PAGE);
                let unwritten = |i: &u64| bytes.0[(i / 64) as usize] >> (i % 64) & 1 == 0;
                if access.kind != AccessKind::Store {
                    missing.extend((from..to).filter(unwritten).map(|i| page * PAGE + i));
                }
                // Told once.
                words(from, to).for_each(|(word, bits)| bytes.0[word] |= bits);
            }
            at = stop;
        }
        let &found = missing.first()?;
        if scalar && missing.len() < access.bytes as usize {
            return None;
        }
        // Who has written something else than zeros meanwhile was not seen.
        let mut now = vec![0; access.bytes as usize];
        let known = memory.read(access.address, &mut now);
        let zero = |&byte: &u64| now.get((byte - access.address) as usize) == Some(&0);
        if !known || !missing.iter().all(zero) {
            self.pages.insert(found / PAGE, None);
            return None;
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocjitsu_observe::{Allocation, Scope, Space};

    /// Untouched but for page 1.
    struct Fresh;

    impl MemoryView for Fresh {
        fn read(&self, _: u64, to: &mut [u8]) -> bool {
            to.fill(0);
            true
        }
        fn allocation(&self, _: u64) -> Option<Allocation> {
            None
        }
        fn allocations(&self) -> Vec<Allocation> {
            Vec::new()
        }
        fn describe(&self, _: u64) -> String {
            String::new()
        }
        fn is_untouched(&self, address: u64) -> bool {
            address / PAGE != 1
        }
    }

    fn access(kind: AccessKind, address: u64, bytes: u32) -> Access {
        Access {
            space: Space::Global,
            kind,
            lane: 0,
            address,
            bytes,
            scope: Scope::Wave,
        }
    }

    #[test]
    fn words_cover_what_they_should() {
        let mut bytes = [0u64; 4];
        words(60, 70).for_each(|(word, bits)| bytes[word] |= bits);
        assert_eq!(bytes, [0xf << 60, 0x3f, 0, 0]);
        let all: Vec<_> = words(0, 64).collect();
        assert_eq!(all, [(0, u64::MAX)]);
    }

    #[test]
    fn bytes_are_told_until_something_has_stored_there() {
        let mut written = Written::default();
        let mut step = |kind, address, bytes, scalar| {
            written.access(&Fresh, &access(kind, address, bytes), scalar)
        };
        let (load, store) = (AccessKind::Load, AccessKind::Store);
        assert_eq!(step(store, 0x2000, 6, false), None);
        assert_eq!(step(load, 0x2000, 4, false), None);
        assert_eq!(step(load, 0x2004, 4, false), Some(0x2006));
        // Told once.
        assert_eq!(step(load, 0x2004, 4, false), None);
        assert_eq!(step(AccessKind::Atomic, 0x2010, 4, false), Some(0x2010));
        // Somebody has touched page 1.
        assert_eq!(step(load, 0x1ff8, 8, false), None);
        assert_eq!(step(load, 0x1ffc, 8, false), None);
        // A wide scalar load reaches beyond what is there.
        assert_eq!(step(store, 0x3000, 4, false), None);
        assert_eq!(step(load, 0x3000, 16, true), None);
        assert_eq!(step(load, 0x3100, 16, true), Some(0x3100));
    }
}
