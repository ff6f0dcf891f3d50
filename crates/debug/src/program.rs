//! What is known of the dispatches of a program's queues: which kernels there were, which dispatches are the last ones, and
//! which of those to come is to stop at its beginning.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rocjitsu_gpu::dispatch::Dispatch;

/// Dispatches that are remembered.
const RECENT: usize = 64;
/// Kernels that are told apart; further ones are only counted.
const KERNELS: usize = 4096;

/// The dispatches of a program.
#[derive(Debug, Default)]
pub struct Program(Mutex<Log>);

#[derive(Debug, Default)]
struct Log {
    /// Dispatches that have come.
    count: u64,
    kernels: BTreeMap<String, Kernel>,
    recent: VecDeque<Row>,
    next: Option<Next>,
}

#[derive(Clone, Copy, Debug)]
struct Kernel {
    entry: u64,
    dispatches: u64,
}

#[derive(Debug)]
struct Row {
    number: u64,
    kernel: String,
    gpu: String,
    queue: u32,
    grid: [u32; 3],
    workgroup: [u32; 3],
    state: &'static str,
}

/// Which dispatch stops at its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next one.
    Any,
    /// The next one of a kernel whose name contains this.
    Kernel(String),
}

impl Program {
    fn lock(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a dispatch. Returns its number, from 1 on.
    pub(crate) fn arrives(&self, gpu: &str, dispatch: &Dispatch) -> u64 {
        let mut log = self.lock();
        log.count += 1;
        let number = log.count;
        if let Some(kernel) = log.kernels.get_mut(&dispatch.name) {
            kernel.dispatches += 1;
            kernel.entry = dispatch.entry;
        } else if log.kernels.len() < KERNELS {
            let kernel = Kernel {
                entry: dispatch.entry,
                dispatches: 1,
            };
            log.kernels.insert(dispatch.name.clone(), kernel);
        }
        if log.recent.len() >= RECENT {
            log.recent.pop_front();
        }
        log.recent.push_back(Row {
            number,
            kernel: dispatch.name.clone(),
            gpu: gpu.to_owned(),
            queue: dispatch.origin.doorbell,
            grid: dispatch.grid,
            workgroup: dispatch.workgroup,
            state: "runs",
        });
        number
    }

    /// Notes what has become of a dispatch.
    pub(crate) fn set_state(&self, number: u64, state: &'static str) {
        let mut log = self.lock();
        if let Some(row) = log.recent.iter_mut().rfind(|row| row.number == number) {
            row.state = state;
        }
    }

    /// Says which dispatch is to stop at its beginning.
    pub(crate) fn stop_at(&self, next: Option<Next>) {
        self.lock().next = next;
    }

    /// Whether a dispatch of this kernel is to stop at its beginning; then no further one is.
    pub(crate) fn stops(&self, kernel: &str) -> bool {
        let mut log = self.lock();
        let stops = match &log.next {
            None => false,
            Some(Next::Any) => true,
            Some(Next::Kernel(part)) => kernel.contains(part.as_str()),
        };
        if stops {
            log.next = None;
        }
        stops
    }

    /// The last dispatches, one a line.
    pub(crate) fn dispatches(&self) -> String {
        let log = self.lock();
        let mut text = String::new();
        for row in &log.recent {
            let Row {
                number,
                kernel,
                gpu,
                queue,
                grid,
                workgroup,
                state,
            } = row;
            let _ = writeln!(
                text,
                "{number}: {kernel}, grid {grid:?} of {workgroup:?}, {gpu}, doorbell {queue}, {state}"
            );
        }
        let _ = writeln!(text, "{} in all", log.count);
        text
    }

    /// The kernels that there were, one a line.
    pub(crate) fn kernels(&self) -> String {
        let log = self.lock();
        let mut text = String::new();
        for (name, Kernel { entry, dispatches }) in &log.kernels {
            let _ = writeln!(text, "{name}: entry {entry:#x}, {dispatches} dispatches");
        }
        text
    }

    /// Which dispatch is to stop, in words.
    pub(crate) fn next_text(&self) -> String {
        match &self.lock().next {
            None => "dispatches stop where breakpoints and watchpoints say\n".to_owned(),
            Some(Next::Any) => "the next dispatch stops at its beginning\n".to_owned(),
            Some(Next::Kernel(part)) => {
                format!(
                    "the next dispatch of a kernel with `{part}` in its name stops at its beginning\n"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_dispatch_stops_for_each_wish() {
        let program = Program::default();
        assert!(!program.stops("a"));
        program.stop_at(Some(Next::Kernel("add".to_owned())));
        assert!(!program.stops("copy") && program.next_text().contains("`add`"));
        assert!(program.stops("_Z3addPf") && !program.stops("_Z3addPf"));
        program.stop_at(Some(Next::Any));
        assert!(program.stops("copy") && !program.stops("copy"));
    }
}
