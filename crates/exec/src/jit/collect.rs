//! From records to one graph: the longest run of lane operations that can be compiled together.
//! Registers that a run writes are forwarded to their readers; only the last write of each is stored.

use std::collections::{BTreeMap, HashMap};

use rocjitsu_lanes::kernel::{Args, Src};
use rocjitsu_lanes::trace::Recorder;
use rocjitsu_lanes::trace::graph::{Graph, Id, Op};

use crate::record::{Fast, Record, Step as Kind};
use crate::registers::{PAGE_SHIFT, Place, Source};
use crate::wave::scalar;

/// One thing that compiled code does, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Computes a node.
    Compute(Id),
    /// Stores a value to the register with that key, in the active lanes.
    StoreRow(u32, Id),
    /// Stores a condition to the mask at that word of the scalar file.
    StoreMask(u32, Id),
}

/// A run of records as one computation on a group of lanes.
pub struct Run {
    /// All values.
    pub graph: Graph,
    /// What is done, in order.
    pub steps: Vec<Step>,
    /// Lanes that are not active.
    pub inactive: Id,
    /// Pages of registers that are written, a bit for each.
    pub pages: u32,
}

/// A run that is being collected.
struct Collector {
    recorder: Recorder,
    lanes: u32,
    active: Id,
    inactive: Id,
    /// Values of registers and masks that the run has written.
    rows: HashMap<u32, Id>,
    masks: BTreeMap<u32, Id>,
    /// Words of the scalar file that were read as values, and masks that were read.
    words_read: Vec<u32>,
    masks_read: Vec<u32>,
    /// Behind each record: how many nodes there are, and what it has written.
    ends: Vec<(usize, Vec<Write>)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Write {
    Row(u32, Id),
    Mask(u32, Id),
}

/// The run at the start of `records`, and how many of them it takes: as many as can be compiled together.
pub fn collect(records: &[Record], lanes: u32) -> (Run, usize) {
    let mut recorder = Recorder::default();
    let active = recorder.graph.leaf(Op::Mask, scalar::EXEC as u32);
    let inactive = recorder.graph.one(Op::MaskNot, active, 0);
    let mut c = Collector {
        recorder,
        lanes,
        active,
        inactive,
        rows: HashMap::new(),
        masks: BTreeMap::new(),
        words_read: Vec::new(),
        masks_read: Vec::new(),
        ends: Vec::new(),
    };
    let taken = records.iter().take_while(|r| c.take(r).is_some()).count();
    (c.finish(), taken)
}

impl Collector {
    /// Whether two masks share a word.
    fn overlap(&self, a: u32, b: u32) -> bool {
        a.abs_diff(b) < self.lanes / 32
    }

    /// Whether the mask at `n` shares words with `word`.
    fn covers(&self, n: u32, word: u32) -> bool {
        (n..n + self.lanes / 32).contains(&word)
    }

    /// Adds a record, or leaves everything as it is.
    fn take(&mut self, record: &Record) -> Option<()> {
        if record.step == Kind::Handler {
            return None;
        }
        let details = record.valu.as_deref()?;
        let kernel = details.trace?;
        let fast = &record.fast;

        let words = fast.spread.iter().take(usize::from(fast.scalars));
        let words: Vec<u32> = words.map(|&(_, n)| n.into()).collect();
        if words
            .iter()
            .any(|&w| self.masks.keys().any(|&n| self.covers(n, w)))
        {
            return None;
        }
        let mut mask_read = None;
        self.recorder.mask = None;
        if details.takes_mask {
            let n = u32::from(fast.mask);
            self.recorder.mask = Some(match self.masks.get(&n) {
                Some(&id) => id,
                None if self.masks.keys().any(|&w| self.overlap(n, w)) => return None,
                None => {
                    mask_read = Some(n);
                    self.recorder.graph.leaf(Op::Mask, n)
                }
            });
        }
        let mask_written = (fast.mask_out != Fast::NO_MASK).then_some(u32::from(fast.mask_out));
        if let Some(n) = mask_written {
            let read = |w: &u32| self.covers(n, *w);
            let askew = |&m: &u32| m != n && self.overlap(m, n);
            if self.overlap(n, scalar::EXEC as u32)
                || usize::try_from(n).is_ok_and(|n| n >= scalar::COUNT - 1)
                || self.words_read.iter().chain(&words).any(read)
                || self.masks.keys().chain(&self.masks_read).any(askew)
                || mask_read.iter().any(askew)
            {
                return None;
            }
        }

        for slot in 0..3 {
            self.recorder.operands[2 * slot] = self.operand(fast.src[slot], record);
            self.recorder.operands[2 * slot + 1] = self.operand(fast.hi[slot], record);
        }
        let keys = [fast.dst.key(), fast.dst_hi.key()];
        for (part, &key) in keys.iter().enumerate() {
            self.recorder.operands[6 + part] = Some(self.row(key));
        }
        let mut shape = Args {
            dst: std::ptr::null_mut(),
            dst_hi: std::ptr::null_mut(),
            src: [Src::NONE; 3],
            exec: 0,
            mask_in: 0,
            mask_out: 0,
            chunks: 1,
            keep: fast.keep,
            dst_shift: fast.dst_shift.into(),
            aux: record.aux,
        };
        for slot in 0..3 {
            shape.src[slot].shift = fast.shift[slot].into();
        }
        self.recorder.trace(kernel, &shape);
        if self.recorder.failed {
            return None;
        }

        let mut writes = Vec::new();
        for (&key, result) in keys.iter().zip(self.recorder.results) {
            if let Some(id) = result {
                self.rows.insert(key, id);
                writes.push(Write::Row(key, id));
            }
        }
        if let (Some(n), Some(id)) = (mask_written, self.recorder.mask_result) {
            self.masks.insert(n, id);
            let stored = self.recorder.graph.two(Op::MaskAnd, id, self.active, 0);
            writes.push(Write::Mask(n, stored));
        }
        self.words_read.extend(words);
        self.masks_read.extend(mask_read);
        self.ends.push((self.recorder.graph.nodes.len(), writes));
        Some(())
    }

    /// The value of a register at this point.
    fn row(&mut self, key: u32) -> Id {
        let graph = &mut self.recorder.graph;
        let now = self.rows.get(&key).copied();
        now.unwrap_or_else(|| graph.leaf(Op::Row, key))
    }

    fn operand(&mut self, source: Source, record: &Record) -> Option<Id> {
        match source.place() {
            Place::Register(key) => Some(self.row(key)),
            Place::Row(address) => {
                let mut rows = record.constants.iter();
                let row = rows.find(|row| row.0.as_ptr().addr() as u64 == address)?;
                Some(self.recorder.graph.constant(row.0[0]))
            }
            Place::Shared(row) => {
                let mut spread = record.fast.spread.iter();
                let &(_, n) = spread.find(|&&(r, _)| usize::from(r) == row)?;
                Some(self.recorder.graph.leaf(Op::Scalar, n.into()))
            }
        }
    }

    /// Orders what is left when writes that are overwritten, and what only they need, are gone.
    fn finish(self) -> Run {
        let graph = self.recorder.graph;
        let place = |w: &Write| match *w {
            Write::Row(key, _) => (false, key),
            Write::Mask(n, _) => (true, n),
        };
        let mut last = HashMap::new();
        for (index, (_, writes)) in self.ends.iter().enumerate() {
            for write in writes {
                last.insert(place(write), index);
            }
        }
        let mut live = vec![false; graph.nodes.len()];
        live[self.inactive.0 as usize] = true;
        live[self.active.0 as usize] = true;
        for (index, (_, writes)) in self.ends.iter().enumerate() {
            for write in writes.iter().filter(|w| last[&place(w)] == index) {
                let (Write::Row(_, id) | Write::Mask(_, id)) = *write;
                live[id.0 as usize] = true;
            }
        }
        for at in (0..graph.nodes.len()).rev() {
            if live[at] {
                for id in graph.nodes[at].operands() {
                    live[id.0 as usize] = true;
                }
            }
        }
        let mut steps = Vec::new();
        let mut pages = 0;
        let mut next = 0;
        for (index, (end, writes)) in self.ends.iter().enumerate() {
            let nodes = (next..*end).filter(|&at| live[at]);
            steps.extend(nodes.map(|at| Step::Compute(Id(at as u32))));
            next = *end;
            for write in writes.iter().filter(|w| last[&place(w)] == index) {
                steps.push(match *write {
                    Write::Row(key, id) => {
                        pages |= 1 << (key >> PAGE_SHIFT);
                        Step::StoreRow(key, id)
                    }
                    Write::Mask(n, id) => Step::StoreMask(n, id),
                });
            }
        }
        Run {
            graph,
            steps,
            inactive: self.inactive,
            pages,
        }
    }
}
