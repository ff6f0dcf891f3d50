//! How many workgroups a worker claims at a time.

use std::time::{Duration, Instant};

use super::Shared;

/// How many clusters a worker claims at a time: one, unless they are over so soon that threads would get in each other's way.
pub struct Claims {
    count: u64,
    last: Instant,
    /// The first workgroup that nobody had claimed when this worker did so last.
    pub behind: u64,
}

impl Claims {
    /// None yet.
    pub fn new() -> Claims {
        Claims {
            count: 1,
            last: Instant::now(),
            behind: 0,
        }
    }

    /// The most clusters.
    const MOST: u64 = 64;
    /// Clusters of a dispatch for each thread from which on one claims more than one.
    const MANY: u64 = 64;
    /// How long those that were claimed together may take: some dozen times what a claim costs where the cores are far from
    /// each other. Workgroups that wait for earlier ones wait about as long.
    const BRIEF: Duration = Duration::from_micros(20);

    /// How many to claim now, of `total`.
    pub fn count(&mut self, shared: &Shared<'_>, total: u64) -> u64 {
        let threads = shared.threads as u64;
        // What is suspended has no workgroups that are claimed and not started.
        if threads == 1 || total < Claims::MANY * threads || shared.options.stops.is_some() {
            return 1;
        }
        let now = Instant::now();
        let took = now - std::mem::replace(&mut self.last, now);
        // Asking how near the end is would fetch the number's cache line twice.
        let left = total.saturating_sub(self.behind / shared.cluster_size());
        self.adapt(took, left / threads)
    }

    /// The same where those claimed before `took` so long and each thread has a `share` of the rest.
    fn adapt(&mut self, took: Duration, share: u64) -> u64 {
        self.count = if took < Claims::BRIEF {
            (2 * self.count).min(Claims::MOST)
        } else {
            (self.count / 2).max(1)
        };
        // Near the end all threads have something to do.
        self.count.min(share / 4).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brief_workgroups_are_claimed_together_and_the_last_ones_alone() {
        let mut claims = Claims::new();
        let brief = Claims::BRIEF / 2;
        let counts: Vec<u64> = (0..8).map(|_| claims.adapt(brief, 1 << 20)).collect();
        assert_eq!(counts, [2, 4, 8, 16, 32, 64, 64, 64]);
        assert_eq!(claims.adapt(brief, 40), 10);
        assert_eq!(claims.adapt(brief, 3), 1);
        assert_eq!(claims.adapt(2 * Claims::BRIEF, 1 << 20), 32);
    }
}
