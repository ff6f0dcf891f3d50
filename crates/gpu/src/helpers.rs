//! Threads that take matrix instructions off waves ([`rocjitsu_exec::helpers`]). They belong to the device, start when the
//! first wave may use them, and end with it.

use std::sync::{Arc, Once};
use std::thread::Builder;

use rocjitsu_exec::helpers::{Helpers, Issuer, Policy};

use crate::dispatch::FloatEnvironment;
use crate::pool::block_signals;

/// The helpers of a device.
pub struct Threads {
    count: usize,
    helpers: Arc<Helpers>,
    started: Once,
    /// The process that they are in: a forked child has none.
    process: u32,
}

impl Threads {
    /// That many, which do not run yet.
    pub fn new(count: usize, policy: Policy) -> Threads {
        Threads {
            count,
            helpers: Arc::new(Helpers::new(policy)),
            started: Once::new(),
            process: std::process::id(),
        }
    }

    /// What a worker gives instructions away by; `None` if as many workers do as can, in a forked child, and where
    /// threads cannot be started.
    pub fn issuer(&self) -> Option<Issuer> {
        if std::process::id() != self.process {
            return None;
        }
        self.started
            .call_once(|| (0..self.count).for_each(|_| self.start()));
        self.helpers.has_any().then(|| Issuer::new(&self.helpers))?
    }

    fn start(&self) {
        let helpers = self.helpers.clone();
        helpers.expect_one();
        let started = Builder::new()
            .name("rocjitsu-matrix".to_owned())
            .spawn(move || {
                block_signals();
                let _environment = FloatEnvironment::usual();
                helpers.serve();
            });
        if started.is_err() {
            self.helpers.miss_one();
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.helpers.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_has_none() {
        let threads = Threads::new(1, Policy::Always);
        assert!(threads.issuer().is_some());
        // SAFETY: the child looks at its number and a word, and ends without running anything else.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let none = threads.issuer().is_none();
            // SAFETY: as above.
            unsafe { libc::_exit(if none { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: waits for the child that was just made.
        let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((ended, status), (child, 0));
    }
}
