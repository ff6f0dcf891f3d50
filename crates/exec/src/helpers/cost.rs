//! Whether the windows of a block gain by helpers, by measuring: how long it takes from one execution of the block to the next
//! with helpers and without. So what it costs to give operands away and to get results back counts as well, wherever
//! it is paid.

/// Executions that are measured in one go.
const GROUP: u32 = 16;
/// Groups of each kind; those with helpers and those without take turns.
const GROUPS: usize = 3;
/// Executions before the first measurement: blocks are compiled meanwhile.
const FIRST: u32 = 256;
/// The shortest time between two executions that may be worth it, in nanoseconds: no more than some messages between two cores.
const WORTH: u32 = 1000;
/// Executions with helpers until it is looked again whether they gain anything.
const AGAIN: u32 = 4096;
/// Executions without after they did not, the first time; twice as many each time after.
const PAUSE: u32 = 1024;
const LONGEST_PAUSE: u32 = 1 << 20;

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// That many executions are not measured.
    Runs {
        /// Whether helpers take part.
        helped: bool,
        /// How many are left.
        left: u32,
    },
    /// Executions are measured.
    Measures {
        /// Whether helpers take part.
        helped: bool,
    },
}

/// What was measured of a block.
#[derive(Debug)]
pub struct Model {
    phase: Phase,
    /// Nanoseconds, without helpers and with them.
    times: [Vec<u32>; 2],
    pause: u32,
}

impl Default for Model {
    fn default() -> Model {
        Model {
            phase: Phase::Runs {
                helped: false,
                left: FIRST,
            },
            times: Default::default(),
            pause: PAUSE,
        }
    }
}

/// The one in the middle: a thread that had to wait for its core, or a loop's end, should not count.
fn median(times: &mut [u32]) -> u32 {
    let middle = times.len() / 2;
    match times.is_empty() {
        true => 0,
        false => *times.select_nth_unstable(middle).1,
    }
}

impl Model {
    /// What is to be done with the next executions.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Those of [`Phase::Runs`] are over.
    pub fn measure(&mut self) {
        self.times.iter_mut().for_each(Vec::clear);
        self.phase = Phase::Measures { helped: false };
    }

    /// An execution that was measured took `nanoseconds`.
    pub fn hears(&mut self, nanoseconds: u32) {
        let Phase::Measures { helped } = self.phase else {
            return;
        };
        let times = &mut self.times[usize::from(helped)];
        times.push(nanoseconds);
        if !times.len().is_multiple_of(GROUP as usize) {
            return;
        }
        let full = times.len() == GROUP as usize * GROUPS;
        if !helped && times.len() == GROUP as usize && median(&mut times.clone()) < WORTH {
            self.rests();
        } else if helped && full {
            let [alone, together] = &mut self.times;
            // At least a tenth, as for waves.
            let gains = u64::from(median(together)) * 10 <= u64::from(median(alone)) * 9;
            if gains {
                self.pause = PAUSE;
                self.phase = Phase::Runs {
                    helped: true,
                    left: AGAIN,
                };
            } else {
                self.rests();
            }
        } else {
            self.phase = Phase::Measures { helped: !helped };
        }
    }

    /// Helpers gain nothing at present.
    fn rests(&mut self) {
        self.phase = Phase::Runs {
            helped: false,
            left: self.pause,
        };
        self.pause = (2 * self.pause).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Executes until the model has decided; returns what it said, and how many executions helpers took part in.
    fn decides(model: &mut Model, alone: u32, together: u32) -> (Phase, u32) {
        let mut helped_ones = 0;
        model.measure();
        for turn in 0..1000 {
            match model.phase() {
                Phase::Measures { helped } => {
                    helped_ones += u32::from(helped);
                    // Now and then another thread has the core.
                    let late = if turn % 7 == 3 { 1_000_000 } else { 0 };
                    model.hears(late + if helped { together } else { alone });
                }
                phase => return (phase, helped_ones),
            }
        }
        panic!("undecided");
    }

    #[test]
    fn helpers_stay_where_they_gain_a_tenth() {
        let mut model = Model::default();
        let runs = |helped, left| Phase::Runs { helped, left };
        assert_eq!(model.phase(), runs(false, FIRST));
        assert_eq!(decides(&mut model, 6000, 5400).0, runs(true, AGAIN));
        assert_eq!(decides(&mut model, 6000, 5500).0, runs(false, PAUSE));
        // Each time they are tried again later, until they gain something.
        assert_eq!(decides(&mut model, 6000, 7000).0, runs(false, 2 * PAUSE));
        assert_eq!(decides(&mut model, 6000, 3000).0, runs(true, AGAIN));
        assert_eq!(decides(&mut model, 6000, 7000).0, runs(false, PAUSE));
        for _ in 0..40 {
            decides(&mut model, 6000, 7000);
        }
        assert_eq!(model.phase(), runs(false, LONGEST_PAUSE));
    }

    #[test]
    fn what_is_short_is_not_even_tried() {
        let (phase, helped) = decides(&mut Model::default(), WORTH - 1, 10);
        assert_eq!(
            (phase, helped),
            (
                Phase::Runs {
                    helped: false,
                    left: PAUSE
                },
                0
            )
        );
        assert!(decides(&mut Model::default(), WORTH, 10).1 > 0);
    }
}
