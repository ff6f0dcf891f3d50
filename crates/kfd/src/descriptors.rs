//! Which of the process's descriptors are the driver's. Asking about a foreign one takes no lock
//! and no system call, for every `ioctl` and `close` of the program comes through here.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::context::Context;
use crate::drm::RenderFile;
use crate::file::{self, Identity};

/// Descriptors up to this number are known; the driver hands out no larger one.
pub(crate) const MOST: usize = 1 << 16;

/// What a descriptor stands for.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    /// An open `/dev/kfd`.
    Kfd(Arc<Context>),
    /// An open render node.
    Render(Arc<RenderFile>),
    /// What the parent opened before a fork: of no use here.
    Inherited,
}

/// The driver's descriptors by number.
#[derive(Debug)]
pub(crate) struct Descriptors {
    /// Whether a number may be ours; only then is the map looked at.
    marks: Box<[AtomicU8]>,
    objects: RwLock<HashMap<RawFd, (Identity, Object)>>,
}

impl Descriptors {
    pub(crate) fn new() -> Descriptors {
        Descriptors {
            marks: (0..MOST).map(|_| AtomicU8::new(0)).collect(),
            objects: RwLock::default(),
        }
    }

    /// Whether a number may be one of ours: no system call, no lock.
    pub(crate) fn may_be_ours(&self, fd: RawFd) -> bool {
        usize::try_from(fd)
            .ok()
            .and_then(|fd| self.marks.get(fd))
            .is_some_and(|mark| mark.load(Ordering::Acquire) != 0)
    }

    /// Whether the descriptor is one of ours. A number whose descriptor was closed behind the
    /// driver's back and now means another file is forgotten.
    pub(crate) fn get(&self, fd: BorrowedFd<'_>) -> Option<Object> {
        let number = fd.as_raw_fd();
        if !self.may_be_ours(number) {
            return None;
        }
        let now = file::identity(fd).ok();
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        let (identity, object) = objects.get(&number)?;
        if now == Some(*identity) {
            return Some(object.clone());
        }
        drop(objects);
        self.remove(number);
        None
    }

    /// What an unregistered descriptor is if it is a duplicate of a registered one, whose file has this identity. Where
    /// the host cannot compare, it is if there is only one to choose.
    pub(crate) fn duplicate_of(&self, fd: BorrowedFd<'_>, of: Identity) -> Option<Object> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        let same: Vec<_> = objects
            .iter()
            .filter(|(_, (identity, _))| *identity == of)
            .collect();
        let only = same.len() == 1;
        let is = |number| file::is_duplicate(fd, number).unwrap_or(only);
        let found = same.into_iter().find(|(number, _)| is(**number));
        found.map(|(_, (_, object))| object.clone())
    }

    /// Registers a descriptor; whatever its number meant before is forgotten.
    ///
    /// Returns `false` if the number is too large.
    pub(crate) fn insert(&self, fd: RawFd, identity: Identity, object: Object) -> bool {
        let Some(mark) = usize::try_from(fd).ok().and_then(|fd| self.marks.get(fd)) else {
            return false;
        };
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        let before = objects.insert(fd, (identity, object));
        mark.store(1, Ordering::Release);
        drop(objects);
        // Dropped without the lock: the last descriptor of a context stops its queues.
        drop(before);
        true
    }

    /// Forgets a number.
    pub(crate) fn remove(&self, fd: RawFd) {
        if !self.may_be_ours(fd) {
            return;
        }
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        let before = objects.remove(&fd);
        if let Some(mark) = usize::try_from(fd).ok().and_then(|fd| self.marks.get(fd)) {
            mark.store(0, Ordering::Release);
        }
        drop(objects);
        drop(before);
    }

    /// The registered numbers, without a lock: a forked child may ask, too.
    pub(crate) fn marked(&self) -> impl Iterator<Item = RawFd> {
        let marks = self.marks.iter().enumerate();
        marks.filter_map(|(fd, mark)| (mark.load(Ordering::Acquire) != 0).then_some(fd as RawFd))
    }
}
