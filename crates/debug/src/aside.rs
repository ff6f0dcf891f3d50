//! Descriptors that live in a program which does not know of them: out of the way of the numbers that it counts on, closed
//! when it starts another program, and known to a forked child, which closes its copies.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::process::{Resource, getrlimit};

/// Numbers that stay free above the ones taken here, and the highest number that is looked for.
const BELOW_LIMIT: u64 = 32;
const HIGHEST: u64 = 60_000;
/// No descriptor.
const NONE: RawFd = -1;

/// As many as one debugger needs: an event, a listener, a connection; and those of a session that is just ending.
static KNOWN: [AtomicI32; 8] = [const { AtomicI32::new(NONE) }; 8];

/// A descriptor that a forked child knows of as long as this lives.
#[derive(Debug)]
pub struct Known(RawFd);

impl Known {
    /// Makes it known. With more than there is room for it stays open in the child.
    pub fn new(fd: &impl AsFd) -> Known {
        let number = fd.as_fd().as_raw_fd();
        let put = |slot: &AtomicI32| {
            let swapped = slot.compare_exchange(NONE, number, Ordering::AcqRel, Ordering::Relaxed);
            swapped.is_ok()
        };
        let _ = KNOWN.iter().any(put);
        Known(number)
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        let take = |slot: &AtomicI32| {
            let swapped = slot.compare_exchange(self.0, NONE, Ordering::AcqRel, Ordering::Relaxed);
            swapped.is_ok()
        };
        let _ = KNOWN.iter().any(take);
    }
}

/// The descriptors of the parent's that a forked child has to close; they are forgotten. Takes no lock.
pub fn inherited() -> impl Iterator<Item = RawFd> {
    let all = KNOWN.iter().map(|slot| slot.swap(NONE, Ordering::AcqRel));
    all.filter(|&fd| fd != NONE)
}

/// The same file under a high number that is closed on exec; under its own where there is none.
pub(crate) fn high<T: AsFd + From<OwnedFd>>(file: T) -> T {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(HIGHEST);
    let first = limit.saturating_sub(BELOW_LIMIT).min(HIGHEST);
    let copy = rustix::io::fcntl_dupfd_cloexec(&file, first as RawFd);
    copy.map_or(file, T::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_gets_a_high_number_and_is_known_while_it_lives() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let low = file.as_raw_fd();
        let file = high(file);
        assert!(file.as_raw_fd() > low + 100);
        let flags = rustix::io::fcntl_getfd(&file).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        let known = Known::new(&file);
        drop(known);
        assert!(inherited().all(|fd| fd != file.as_raw_fd()));
        let _known = Known::new(&file);
        assert!(inherited().any(|fd| fd == file.as_raw_fd()));
        assert!(inherited().all(|fd| fd != file.as_raw_fd()));
    }
}
