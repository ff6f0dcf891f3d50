//! What a run did: ioctls used and refused, written when the program ends.

use std::collections::BTreeMap;
use std::sync::Mutex;

use rustix::io::Errno;
use serde::Serialize;

use crate::process::lock;

/// Counts while the program runs.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    ioctls: Mutex<BTreeMap<String, IoctlCount>>,
}

/// How often an ioctl was called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct IoctlCount {
    /// Calls.
    pub calls: u64,
    /// Failed calls, by error.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
}

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Ioctls by name; those the driver does not know by number.
    pub ioctls: BTreeMap<String, IoctlCount>,
}

impl Recorder {
    pub(crate) fn ioctl(&self, name: &str, result: Result<(), Errno>) {
        let mut ioctls = lock(&self.ioctls);
        if !ioctls.contains_key(name) {
            ioctls.insert(name.to_owned(), IoctlCount::default());
        }
        if let Some(count) = ioctls.get_mut(name) {
            count.calls += 1;
            if let Err(error) = result {
                *count.errors.entry(error.to_string()).or_default() += 1;
            }
        }
    }

    pub(crate) fn report(&self) -> Report {
        Report {
            ioctls: lock(&self.ioctls).clone(),
        }
    }
}
