//! The program's descriptors that are ours: what each of them is, one byte a descriptor, and its path.
//! Asking about a foreign descriptor costs one load.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use libc::c_int;

use crate::lock::Lock;

/// What a descriptor of ours is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// `/dev/kfd`, a render node, an exported buffer: the driver knows it.
    Device = 1,
    /// A file of the simulated trees: a memfd with its text.
    File = 2,
    /// A directory of the simulated trees, or a real one with additional entries.
    Directory = 3,
    /// A device that the parent opened before it forked: the driver refuses it.
    Inherited = 4,
}

/// Descriptors from here on are not recorded; the hooks do not give such ones out.
pub const LIMIT: usize = 1 << 16;

static KINDS: [AtomicU8; LIMIT] = [const { AtomicU8::new(0) }; LIMIT];
static PATHS: Lock<BTreeMap<c_int, Arc<Path>>> = Lock::new(BTreeMap::new());

fn slot(fd: c_int) -> Option<&'static AtomicU8> {
    usize::try_from(fd).ok().and_then(|fd| KINDS.get(fd))
}

/// What the descriptor is; `None` if it is none of ours.
pub fn kind(fd: c_int) -> Option<Kind> {
    match slot(fd)?.load(Ordering::Acquire) {
        1 => Some(Kind::Device),
        2 => Some(Kind::File),
        3 => Some(Kind::Directory),
        4 => Some(Kind::Inherited),
        _ => None,
    }
}

/// The path a descriptor of ours was opened by.
pub fn path(fd: c_int) -> Option<Arc<Path>> {
    kind(fd)?;
    PATHS.with(|paths| paths.get(&fd).cloned())
}

/// Records a descriptor; false if its number is beyond [`LIMIT`].
pub fn insert(fd: c_int, kind: Kind, path: PathBuf) -> bool {
    insert_shared(fd, kind, Arc::from(path))
}

fn insert_shared(fd: c_int, kind: Kind, path: Arc<Path>) -> bool {
    let Some(slot) = slot(fd) else { return false };
    let old = PATHS.with(|paths| paths.insert(fd, path));
    slot.store(kind as u8, Ordering::Release);
    drop(old);
    true
}

/// `new` is now the same file as `old`; whatever `new` was is forgotten.
pub fn duplicate(old: c_int, new: c_int) {
    match (kind(old), path(old)) {
        (Some(kind), Some(path)) => {
            insert_shared(new, kind, path);
        }
        _ => remove(new),
    }
}

/// Forgets a descriptor.
pub fn remove(fd: c_int) {
    let Some(slot) = slot(fd) else { return };
    if slot.swap(0, Ordering::AcqRel) != 0 {
        let path = PATHS.with(|paths| paths.remove(&fd));
        drop(path);
    }
}

/// The recorded descriptors from `first` to `last`, both included.
pub fn range(first: c_int, last: c_int) -> Vec<c_int> {
    if first > last {
        return Vec::new();
    }
    PATHS.with(|paths| paths.range(first..=last).map(|(fd, _)| *fd).collect())
}

/// Before a fork: the child must find the table whole.
pub fn before_fork() {
    PATHS.hold_for_fork();
}

/// After a fork, in the parent.
pub fn after_fork_in_parent() {
    PATHS.release_after_fork();
}

/// After a fork, in the child: its devices belong to the parent's driver.
pub fn after_fork_in_child() {
    PATHS.release_after_fork();
    range(0, c_int::MAX).into_iter().for_each(inherit);
}

/// The same where [`before_fork`] was not called.
pub fn after_unseen_fork() {
    PATHS.renew_after_fork(BTreeMap::new());
    (0..LIMIT as c_int).for_each(inherit);
}

fn inherit(fd: c_int) {
    if kind(fd) == Some(Kind::Device)
        && let Some(slot) = slot(fd)
    {
        slot.store(Kind::Inherited as u8, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_recorded_duplicated_and_forgotten() {
        let base = 60_000;
        assert_eq!(kind(base), None);
        assert!(insert(base, Kind::Device, PathBuf::from("/dev/kfd")));
        duplicate(base, base + 1);
        assert_eq!(kind(base + 1), Some(Kind::Device));
        assert_eq!(path(base + 1).as_deref(), Some(Path::new("/dev/kfd")));
        assert_eq!(range(base, base + 9), [base, base + 1]);
        // A foreign descriptor that replaces ours by dup2 makes the number foreign.
        duplicate(base + 7, base);
        assert_eq!(kind(base), None);
        remove(base + 1);
        assert_eq!(path(base + 1), None);
        assert!(range(base, base + 9).is_empty());
    }

    #[test]
    fn numbers_out_of_range_are_nobodys() {
        for fd in [-1, c_int::MIN, LIMIT as c_int, c_int::MAX] {
            assert_eq!(kind(fd), None);
            assert!(!insert(fd, Kind::File, PathBuf::new()));
            remove(fd);
        }
    }
}
