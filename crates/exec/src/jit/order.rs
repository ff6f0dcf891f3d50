//! Scalar instructions between lane operations: those that can be done before or behind a run, so that the run
//! goes on across them.

use std::ops::Range;

use rocjitsu_isa::{Effects, RegFile, RegRange};

use crate::record::{Class, Record};
use crate::wave::scalar;

/// A set of words of the scalar file, and SCC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Words([u64; 3]);

/// The bit of SCC.
const SCC: usize = scalar::COUNT;
const _: () = assert!(SCC < 192);

impl Words {
    /// Adds words that lie in a row.
    pub fn insert(&mut self, words: Range<usize>) {
        for n in words {
            if let Some(part) = self.0.get_mut(n / 64) {
                *part |= 1 << (n % 64);
            }
        }
    }

    /// Adds those of another set.
    pub fn extend(&mut self, other: Words) {
        for (a, b) in self.0.iter_mut().zip(other.0) {
            *a |= b;
        }
    }

    /// Whether the sets share a word.
    pub fn meets(self, other: Words) -> bool {
        self.0.iter().zip(other.0).any(|(a, b)| a & b != 0)
    }
}

/// What an instruction reads and writes of the scalar file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Touched {
    /// Words that it reads.
    pub reads: Words,
    /// Words that it writes.
    pub writes: Words,
}

/// Whether what has these words can change places with `others`.
fn passes(this: &Touched, others: &Touched) -> bool {
    !this.reads.meets(others.writes)
        && !this.writes.meets(others.writes)
        && !this.writes.meets(others.reads)
}

/// What a scalar instruction reads and writes, if it does nothing else and the next instruction always follows.
pub fn touched(record: &Record, lanes: u32) -> Option<Touched> {
    if record.class != Class::Salu || record.ends_block {
        return None;
    }
    let Effects {
        reads,
        writes,
        indirect,
    } = record.inst.effects(lanes);
    if indirect {
        return None;
    }
    let words = |ranges: &[RegRange]| {
        let mut words = Words::default();
        for range in ranges {
            let base = match range.file {
                RegFile::Sgpr => 0,
                RegFile::Scc => SCC,
                RegFile::FlatScratch => scalar::FLAT_SCRATCH,
                RegFile::XnackMask => scalar::XNACK_MASK,
                _ => return None,
            };
            let first = base + usize::from(range.first);
            words.insert(first..first + usize::from(range.count));
        }
        Some(words)
    };
    Some(Touched {
        reads: words(&reads)?,
        writes: words(&writes)?,
    })
}

/// Where the scalar instructions go that stand among the lane operations of a run.
#[derive(Debug, Default)]
pub struct Order {
    /// Records to be done before the run, by number in the block.
    pub before: Vec<usize>,
    /// Records to be done behind it.
    pub after: Vec<usize>,
    lanes: Touched,
    behind: Touched,
}

impl Order {
    /// Finds a place for a scalar instruction, the record `at`. Tells whether there is one.
    pub fn place(&mut self, at: usize, record: &Record, lanes: u32) -> bool {
        if crate::control::is_nop(record.inst.op()) {
            return true;
        }
        let Some(this) = touched(record, lanes) else {
            return false;
        };
        if passes(&this, &self.lanes) && passes(&this, &self.behind) {
            self.before.push(at);
        } else {
            self.after.push(at);
            self.behind.reads.extend(this.reads);
            self.behind.writes.extend(this.writes);
        }
        true
    }

    /// Whether a lane operation with these words can join the run, before all that is done behind it.
    pub fn admits(&self, touched: &Touched) -> bool {
        passes(touched, &self.behind)
    }

    /// Whether a scalar instruction, or a branch that reads these words, has nothing to do with the lane operations of
    /// the run: it can be done before or behind them.
    pub fn is_apart(&self, touched: &Touched) -> bool {
        passes(touched, &self.lanes)
    }

    /// Notes the words of a lane operation that has joined the run.
    pub fn join(&mut self, touched: &Touched) {
        self.lanes.reads.extend(touched.reads);
        self.lanes.writes.extend(touched.writes);
    }

    /// Forgets what stands from record `end` on.
    pub fn end(&mut self, end: usize) {
        self.before.retain(|&at| at < end);
        self.after.retain(|&at| at < end);
    }
}
