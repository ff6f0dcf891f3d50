//! What the panels show of a launch: counts of now, and how they grew.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::session::Look;

/// Points of the curve of speed.
const POINTS: usize = 512;

/// What stands still while the launch runs.
#[derive(Clone, Debug, Default)]
pub struct Title {
    /// Name of the launch and of its kernel.
    pub name: String,
    /// Target, GPU, threads.
    pub place: String,
}

/// What plugins have recorded for the terminal that the panels are on.
#[derive(Clone, Debug, Default)]
pub struct Records {
    text: String,
    lines: usize,
}

impl Records {
    /// Adds whole lines.
    pub fn add(&mut self, lines: &str) {
        self.text += lines;
        self.lines += lines.lines().count();
    }

    /// All of it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How many lines there are.
    pub fn count(&self) -> usize {
        self.lines
    }

    /// The last `count` lines, in their order.
    pub fn last(&self, count: usize) -> Vec<&str> {
        let mut last: Vec<&str> = self.text.lines().rev().take(count).collect();
        last.reverse();
        last
    }
}

/// What the panels show.
#[derive(Clone, Debug)]
pub struct State {
    /// What stands still.
    pub title: Title,
    /// The counts of now.
    pub look: Look,
    /// Wave instructions a second, the latest last.
    pub speeds: VecDeque<u64>,
    /// Whether the launch stands.
    pub paused: bool,
    /// Time that the launch has run, pauses left out.
    pub ran: Duration,
    /// What plugins record, if there are any.
    pub records: Option<Records>,
    since: Instant,
}

impl State {
    /// Before the first look.
    pub fn new(title: Title) -> State {
        State {
            title,
            look: Look::default(),
            speeds: VecDeque::new(),
            paused: false,
            ran: Duration::ZERO,
            records: None,
            since: Instant::now(),
        }
    }

    /// Takes a look in.
    pub fn sees(&mut self, look: Look) {
        let passed = self.since.elapsed();
        self.since = Instant::now();
        self.adds(look, passed);
    }

    /// Takes a look in, `passed` after the one before.
    fn adds(&mut self, look: Look, passed: Duration) {
        self.ran += passed;
        let new = look.instructions.saturating_sub(self.look.instructions);
        if !passed.is_zero() {
            if self.speeds.len() == POINTS {
                self.speeds.pop_front();
            }
            self.speeds
                .push_back((new as f64 / passed.as_secs_f64()) as u64);
        }
        self.look = look;
    }

    /// The launch goes on after it stood.
    pub fn goes_on(&mut self) {
        self.paused = false;
        self.since = Instant::now();
    }

    /// How much of the launch is done, from 0 to 1.
    pub fn done(&self) -> f64 {
        self.look.done()
    }

    /// How long the rest takes if it takes as long as what is done. `None`: that is not known yet.
    pub fn left(&self) -> Option<Duration> {
        self.look.left(self.ran)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_and_what_is_left_follow_from_looks() {
        let mut state = State::new(Title::default());
        assert_eq!(state.left(), None);
        let look = Look {
            dispatch: 2,
            repeat: 4,
            ended: 5,
            groups: 10,
            instructions: 3000,
            ..Look::default()
        };
        state.adds(look, Duration::from_secs(3));
        assert_eq!(state.speeds, [1000]);
        // One and a half of four dispatches took three seconds.
        let left = state.left().unwrap().as_secs_f64();
        assert!((left - 5.0).abs() < 1e-6, "{left}");
    }
}
