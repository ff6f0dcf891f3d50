//! Descriptors that live in a program which does not know of them: out of the way of the numbers that it counts on, closed
//! when it starts another program, and known to a forked child, which closes its copies.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

use rocjitsu_gpu::memory::kept::Listed;
pub(crate) use rocjitsu_gpu::memory::kept::high;

/// No descriptor.
const NONE: RawFd = -1;

/// As many as one debugger needs: an event, a listener, a connection; and those of a session that is just ending.
static KNOWN: [AtomicI32; 8] = [const { AtomicI32::new(NONE) }; 8];

/// A descriptor that a forked child knows of, and that the program cannot close by the C library's functions, as long as this lives.
#[derive(Debug)]
pub struct Known {
    number: RawFd,
    _listed: Listed,
}

impl Known {
    /// Makes it known. With more than there is room for it stays open in the child.
    pub fn new(fd: &impl AsFd) -> Known {
        let number = fd.as_fd().as_raw_fd();
        let put = |slot: &AtomicI32| {
            let swapped = slot.compare_exchange(NONE, number, Ordering::AcqRel, Ordering::Relaxed);
            swapped.is_ok()
        };
        let _ = KNOWN.iter().any(put);
        Known {
            number,
            _listed: Listed::fixed(fd.as_fd()),
        }
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        let take = |slot: &AtomicI32| {
            let swapped =
                slot.compare_exchange(self.number, NONE, Ordering::AcqRel, Ordering::Relaxed);
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
