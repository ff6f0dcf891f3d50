//! What is known of the dispatches of a launch that have ended: sums, and all of the fastest one. A launch may make millions of
//! them, so that nothing here grows with their number.

use std::collections::BTreeMap;

use crate::launch::place::Statistics;

/// Of as many dispatches, the first ones, the time is kept.
pub const LISTED: usize = 4096;

/// The dispatches that have ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Runs {
    /// How many.
    pub count: u32,
    /// Wave instructions of all of them.
    pub instructions: u64,
    /// The same by class.
    pub by_class: BTreeMap<String, u64>,
    /// The most register pages that one of them had in use.
    pub peak_register_pages: u64,
    /// Seconds of the first [`LISTED`] ones.
    pub seconds: Vec<f64>,
    /// Seconds of all of them.
    pub total_seconds: f64,
    /// The one that took the least time, the first of equals.
    pub fastest: Option<Statistics>,
}

impl Runs {
    /// One more has ended.
    pub fn add(&mut self, run: Statistics) {
        self.count = self.count.saturating_add(1);
        self.instructions = self.instructions.saturating_add(run.wave_instructions);
        for (class, count) in &run.by_class {
            let sum = match self.by_class.get_mut(class) {
                Some(sum) => sum,
                None => self.by_class.entry(class.clone()).or_default(),
            };
            *sum = sum.saturating_add(*count);
        }
        self.peak_register_pages = self.peak_register_pages.max(run.peak_register_pages);
        if self.seconds.len() < LISTED {
            self.seconds.push(run.seconds);
        }
        self.total_seconds += run.seconds;
        let faster = |best: &Statistics| run.seconds.total_cmp(&best.seconds).is_lt();
        if self.fastest.as_ref().is_none_or(faster) {
            self.fastest = Some(run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seconds: f64) -> Statistics {
        Statistics {
            wave_instructions: 10,
            by_class: [("valu".to_owned(), 7), ("salu".to_owned(), 3)].into(),
            peak_register_pages: seconds as u64,
            seconds,
            ..Statistics::default()
        }
    }

    #[test]
    fn runs_are_summed_up_and_the_fastest_is_kept() {
        let mut runs = Runs::default();
        for seconds in [3.0, 2.0, 4.0, 2.0] {
            runs.add(run(seconds));
        }
        assert_eq!((runs.count, runs.instructions), (4, 40));
        assert_eq!(runs.by_class["valu"], 28);
        assert_eq!(runs.peak_register_pages, 4);
        assert_eq!(
            (runs.total_seconds, &runs.seconds[..]),
            (11.0, &[3.0, 2.0, 4.0, 2.0][..])
        );
        assert_eq!(runs.fastest, Some(run(2.0)));
    }

    #[test]
    fn of_many_runs_no_more_is_kept_than_of_some() {
        let mut runs = Runs::default();
        for _ in 0..3 * LISTED {
            runs.add(run(1.0));
        }
        assert_eq!(
            (runs.count as usize, runs.seconds.len()),
            (3 * LISTED, LISTED)
        );
        assert!(runs.seconds.capacity() <= 2 * LISTED);
    }
}
