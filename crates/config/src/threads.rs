//! Thread keys of AMD's format, and the number of worker threads that they come to.
//!
//! There, engine threads (`num_threads`, at most one for each die of all GPUs), a dispatch width for each GPU
//! (`cpu_dispatch_threads`) and helpers (`async_helper_threads`) are chosen from a table by a budget. Here all threads do
//! the same work, so that only their sum counts: E + GPUs * (D - 1) + H.

use crate::file::MOST_THREADS;
use crate::json::{Result, Section};

/// The ceiling of engines and dispatch together if no budget is given.
const USUAL_CEILING: u32 = 32;

/// The keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Threads {
    /// Engine threads; 0 for automatic.
    engines: u32,
    /// Dispatch width; 0 for automatic.
    dispatch: u32,
    /// Helpers; none for automatic.
    helpers: Option<u32>,
    budget: u32,
    table: Vec<Row>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    engines: u32,
    dispatch: u32,
    helpers: u32,
}

impl Threads {
    pub fn read(top: &Section<'_>) -> Result<Self> {
        let count = 0..=MOST_THREADS;
        let helpers = top.signed("async_helper_threads", -1..=128)?;
        let mut threads = Threads {
            engines: top.small("num_threads", count.clone())?.unwrap_or(0),
            dispatch: top
                .small("cpu_dispatch_threads", count.clone())?
                .unwrap_or(0),
            helpers: helpers.and_then(|helpers| u32::try_from(helpers).ok()),
            budget: top.small("cpu_thread_budget", count)?.unwrap_or(0),
            table: Vec::new(),
        };
        for row in top.sections("thread_allocations")?.unwrap_or_default() {
            let get = |key, low| row.small(key, low..=MOST_THREADS);
            threads.table.push(Row {
                engines: get("num_threads", 1)?.unwrap_or(1),
                dispatch: get("cpu_dispatch_threads", 1)?.unwrap_or(1),
                helpers: row.small("async_helper_threads", 0..=128)?.unwrap_or(0),
            });
            row.finish()?;
        }
        Ok(threads)
    }

    /// Worker threads for this many GPUs with this many dies of this many compute units each, on
    /// this host.
    pub fn resolve(&self, gpus: u32, xccs: u32, cus: u32) -> u32 {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        self.resolve_on(cores, gpus, xccs, cus)
    }

    fn resolve_on(&self, cores: u32, gpus: u32, xccs: u32, cus: u32) -> u32 {
        let serial = Row {
            engines: 1,
            dispatch: 1,
            helpers: 0,
        };
        let (budget, ceiling) = match self.budget {
            0 => (cores.max(1), USUAL_CEILING),
            given => (given, u32::MAX),
        };
        let cost = |row: Row| {
            let or = |given: u32, row| if given > 0 { given } else { row };
            let engines = or(self.engines, row.engines)
                .min(gpus.saturating_mul(xccs))
                .max(1);
            let dispatch = or(self.dispatch, row.dispatch).min(cus).max(1);
            let working = engines + gpus * (dispatch - 1);
            (working, working + self.helpers.unwrap_or(row.helpers))
        };
        let fitting = self
            .table
            .iter()
            .map(|&row| cost(row))
            .filter(|&(working, total)| working <= ceiling && total <= budget)
            .map(|(_, total)| total)
            .max();
        fitting
            .unwrap_or_else(|| cost(serial).1)
            .clamp(1, MOST_THREADS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(engines: u32, dispatch: u32, helpers: u32) -> Row {
        Row {
            engines,
            dispatch,
            helpers,
        }
    }

    /// The tables of the format's documentation for a GPU with eight dies.
    #[test]
    fn budgets_choose_rows() {
        let mut threads = Threads {
            table: vec![
                row(1, 1, 0),
                row(1, 2, 0),
                row(2, 3, 0),
                row(2, 7, 0),
                row(8, 9, 0),
                row(8, 17, 0),
                row(8, 25, 0),
                row(8, 25, 2),
                row(8, 25, 16),
            ],
            ..Threads::default()
        };
        let on = |threads: &Threads, cores| threads.resolve_on(cores, 1, 8, 32);
        for (cores, total) in [(1, 1), (2, 2), (4, 4), (8, 8), (12, 8), (16, 16), (24, 24)] {
            assert_eq!(on(&threads, cores), total, "{cores} cores");
        }
        for (cores, total) in [(32, 32), (33, 32), (34, 34), (200, 48)] {
            assert_eq!(on(&threads, cores), total, "{cores} cores");
        }
        threads.helpers = Some(0);
        assert_eq!(on(&threads, 200), 32);
        threads.budget = 4;
        assert_eq!(on(&threads, 200), 4);
        // Explicit numbers are taken even beyond the budget, but for what the GPU has.
        threads.engines = 16;
        threads.dispatch = 1;
        assert_eq!(on(&threads, 2), 8);
        // The two-GPU table with one engine.
        let threads = Threads {
            engines: 1,
            table: threads.table,
            budget: 7,
            ..Threads::default()
        };
        assert_eq!(threads.resolve_on(1, 2, 8, 32), 5);
        assert_eq!(Threads::default().resolve_on(64, 1, 8, 38), 1);
    }
}
