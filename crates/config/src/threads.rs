//! Thread keys of AMD's format, and the number of worker threads that they come to.
//!
//! There, engine threads (`num_threads`, at most one for each die of all GPUs), a dispatch width for each GPU
//! (`cpu_dispatch_threads`) and helpers (`async_helper_threads`) are chosen from a table by a budget: E + Σ(D − 1) over the
//! GPUs + H. Here the first two do the same work, so that only their sum counts; helpers take matrix instructions off waves.

use crate::file::{MOST_THREADS, Warning};
use crate::json::{Result, Section, fault};
use crate::machine::Options;

/// The ceiling of engines and dispatch together if no budget is given.
const USUAL_CEILING: u32 = 32;

/// How many threads a configuration comes to, and why.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ThreadTable {
    /// Threads that may be used.
    pub budget: u32,
    /// The most that engines and dispatch may have of them together; none if the budget was given.
    pub ceiling: Option<u32>,
    /// GPUs that a dispatch width is for.
    pub gpus: u32,
    /// The rows in the order of the file, explicit keys put in their places. One row if there is no table.
    pub rows: Vec<ThreadRow>,
    /// Index of the row that counts.
    pub chosen: usize,
    /// Worker threads: those that run waves.
    pub threads: u32,
    /// Helpers.
    pub helpers: u32,
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ThreadRow {
    /// Engine threads (`num_threads`), at most one for each die.
    pub engines: u32,
    /// Dispatch width of each GPU (`cpu_dispatch_threads`), at most one for each compute unit of a die.
    pub dispatch: u32,
    /// Helpers (`async_helper_threads`).
    pub helpers: u32,
    /// Threads that it takes.
    pub cost: u32,
    /// Whether the budget allows it.
    pub fits: bool,
}

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
    given: bool,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    engines: u32,
    dispatch: u32,
    helpers: u32,
}

/// What the host and the GPUs allow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Cores of the host.
    pub cores: u32,
    /// GPUs.
    pub gpus: u32,
    /// Dies of each.
    pub xccs: u32,
    /// Compute units of a die.
    pub cus: u32,
}

impl Place {
    /// GPUs on this host.
    pub fn here(gpus: u32, xccs: u32, cus: u32) -> Place {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        Place {
            cores,
            gpus,
            xccs,
            cus,
        }
    }
}

impl Threads {
    pub fn read(top: &Section<'_>) -> Result<Self> {
        let count = 0..=MOST_THREADS;
        let helpers = top.signed("async_helper_threads", -1..=128)?;
        let engines = top.small("num_threads", count.clone())?;
        let dispatch = top.small("cpu_dispatch_threads", count.clone())?;
        let budget = top.small("cpu_thread_budget", count)?;
        let table = top.sections("thread_allocations")?;
        let mut threads = Threads {
            engines: engines.unwrap_or(0),
            dispatch: dispatch.unwrap_or(0),
            helpers: helpers.and_then(|helpers| u32::try_from(helpers).ok()),
            budget: budget.unwrap_or(0),
            table: Vec::new(),
            given: helpers.is_some()
                || table.is_some()
                || engines.or(dispatch).or(budget).is_some(),
        };
        for row in table.unwrap_or_default() {
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

    /// Whether a file has any of the keys.
    pub fn given(&self) -> bool {
        self.given
    }

    /// The table for these GPUs, and warnings: a key that asks for more than the GPUs have.
    ///
    /// # Errors
    /// No row fits a budget that was given, or the one chosen takes more threads than there can be.
    pub fn resolve(&self, place: Place) -> Result<(ThreadTable, Vec<Warning>)> {
        let (budget, ceiling) = match self.budget {
            0 => (place.cores.max(1), Some(USUAL_CEILING)),
            given => (given, None),
        };
        let dies = place.gpus.saturating_mul(place.xccs);
        let explicit = self.engines > 0 && self.dispatch > 0 && self.helpers.is_some();
        let complete = |row: &Row| {
            let or = |given: u32, row| if given > 0 { given } else { row };
            let engines = or(self.engines, row.engines).min(dies).max(1);
            let dispatch = or(self.dispatch, row.dispatch).min(place.cus).max(1);
            let helpers = self.helpers.unwrap_or(row.helpers);
            let working = engines.saturating_add(place.gpus.saturating_mul(dispatch - 1));
            let cost = working.saturating_add(helpers);
            ThreadRow {
                engines,
                dispatch,
                helpers,
                cost,
                fits: explicit || ceiling.is_none_or(|most| working <= most) && cost <= budget,
            }
        };
        const SERIAL: Row = Row {
            engines: 1,
            dispatch: 1,
            helpers: 0,
        };
        let mut rows: Vec<_> = self.table.iter().map(complete).collect();
        // Of equal ones the last.
        let best = (0..rows.len())
            .filter(|&i| rows[i].fits)
            .max_by_key(|&i| rows[i].cost);
        let chosen = match best {
            Some(best) => best,
            None if self.budget > 0 && !rows.is_empty() => {
                let least = rows.iter().map(|row| row.cost).min().unwrap_or(0);
                return fault(
                    "cpu_thread_budget",
                    format!(
                        "{budget} threads are too few for every row of thread_allocations: the smallest takes {least}"
                    ),
                );
            }
            // Explicit keys count even beyond the budget; without any it is one thread.
            None => {
                rows.push(complete(&SERIAL));
                rows.len() - 1
            }
        };
        let row = rows[chosen];
        if row.cost > MOST_THREADS {
            return fault(
                "num_threads",
                format!(
                    "{} engine threads, {} for each of {} GPUs and {} helpers are {} threads: at most {MOST_THREADS} are possible",
                    row.engines, row.dispatch, place.gpus, row.helpers, row.cost
                ),
            );
        }
        let mut warnings = Vec::new();
        for (key, given, most, what) in [
            ("num_threads", self.engines, dies, "dies"),
            (
                "cpu_dispatch_threads",
                self.dispatch,
                place.cus,
                "compute units of a die",
            ),
        ] {
            if given > most {
                let text = format!("{given} are more than the {what}: {most} are used");
                warnings.push(Warning {
                    key: key.to_owned(),
                    text,
                });
            }
        }
        let table = ThreadTable {
            budget,
            ceiling,
            gpus: place.gpus,
            rows,
            chosen,
            threads: row.cost - row.helpers,
            helpers: row.helpers,
        };
        Ok((table, warnings))
    }
}

impl ThreadTable {
    /// Of a configuration that says how many threads there are, or leaves it to the host.
    pub(crate) fn plain(options: &Options, gpus: u32) -> ThreadTable {
        let threads = options.threads;
        let threads = threads.unwrap_or_else(|| Place::here(gpus, 1, 1).cores);
        let helpers = options.helpers;
        ThreadTable {
            budget: threads + helpers,
            ceiling: Some(threads),
            gpus,
            rows: vec![ThreadRow {
                engines: threads,
                dispatch: 1,
                helpers,
                cost: threads + helpers,
                fits: true,
            }],
            chosen: 0,
            threads,
            helpers,
        }
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

    fn on(threads: &Threads, cores: u32, gpus: u32, cus: u32) -> Result<ThreadTable> {
        let place = Place {
            cores,
            gpus,
            xccs: 8,
            cus,
        };
        threads.resolve(place).map(|(table, _)| table)
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
        let count = |threads: &Threads, cores| {
            let table = on(threads, cores, 1, 32).unwrap();
            table.threads + table.helpers
        };
        for (cores, total) in [(1, 1), (2, 2), (4, 4), (8, 8), (12, 8), (16, 16), (24, 24)] {
            assert_eq!(count(&threads, cores), total, "{cores} cores");
        }
        for (cores, total) in [(32, 32), (33, 32), (34, 34), (200, 48)] {
            assert_eq!(count(&threads, cores), total, "{cores} cores");
        }
        threads.helpers = Some(0);
        assert_eq!(count(&threads, 200), 32);
        threads.budget = 4;
        assert_eq!(count(&threads, 200), 4);
        // Explicit numbers are taken even beyond the budget, but for what the GPU has.
        threads.engines = 16;
        threads.dispatch = 1;
        assert_eq!(count(&threads, 2), 8);
        // The two-GPU table with one engine.
        let threads = Threads {
            engines: 1,
            table: threads.table,
            budget: 7,
            ..Threads::default()
        };
        assert_eq!(on(&threads, 1, 2, 32).unwrap().threads, 5);
        assert_eq!(on(&Threads::default(), 64, 1, 38).unwrap().threads, 1);
    }

    #[test]
    fn of_equal_rows_the_last_counts() {
        let threads = Threads {
            table: vec![row(4, 1, 0), row(1, 4, 0), row(2, 2, 1), row(2, 2, 9)],
            ..Threads::default()
        };
        let table = on(&threads, 4, 1, 32).unwrap();
        assert_eq!((table.chosen, table.threads, table.helpers), (2, 3, 1));
        assert_eq!(
            table.rows.iter().map(|row| row.fits).collect::<Vec<_>>(),
            [true, true, true, false]
        );
    }

    #[test]
    fn helpers_come_on_top_of_those_that_run_waves() {
        let place = Place {
            cores: 64,
            gpus: 1,
            xccs: 8,
            cus: 32,
        };
        let split = |threads: &Threads| {
            let (table, warnings) = threads.resolve(place).unwrap();
            assert_eq!(warnings, []);
            (table.threads, table.helpers, table.rows[table.chosen].cost)
        };
        let mut threads = Threads {
            table: vec![row(1, 1, 0), row(2, 2, 3)],
            ..Threads::default()
        };
        assert_eq!(split(&threads), (3, 3, 6));
        threads.helpers = Some(0);
        assert_eq!(split(&threads), (3, 0, 3));
        threads.helpers = Some(1);
        assert_eq!(split(&threads), (3, 1, 4));
        threads.table.clear();
        assert_eq!(split(&threads), (1, 1, 2));
    }

    #[test]
    fn what_the_gpu_does_not_have_is_told() {
        let place = Place {
            cores: 64,
            gpus: 1,
            xccs: 8,
            cus: 32,
        };
        let told = |engines, dispatch| {
            let threads = Threads {
                engines,
                dispatch,
                ..Threads::default()
            };
            let warnings = threads.resolve(place).unwrap().1;
            warnings
                .into_iter()
                .map(|w| (w.key, w.text))
                .collect::<Vec<_>>()
        };
        assert_eq!(told(8, 32), []);
        let both = told(9, 33);
        assert_eq!(both[0].0, "num_threads");
        assert!(
            both[0].1.contains("9 are more than the dies: 8"),
            "{both:?}"
        );
        assert_eq!(both[1].0, "cpu_dispatch_threads");
        assert!(
            both[1]
                .1
                .contains("33 are more than the compute units of a die: 32"),
            "{both:?}"
        );
    }

    #[test]
    fn what_is_impossible_is_an_error() {
        let threads = Threads {
            budget: 3,
            table: vec![row(4, 1, 0), row(2, 4, 0)],
            ..Threads::default()
        };
        let error = on(&threads, 64, 1, 32).unwrap_err();
        assert!(
            error.reason.contains("the smallest takes 4"),
            "{}",
            error.reason
        );
        let threads = Threads {
            dispatch: 600,
            ..Threads::default()
        };
        let error = on(&threads, 64, 2, 1000).unwrap_err();
        assert!(error.reason.contains("1199 threads"), "{}", error.reason);
    }
}
