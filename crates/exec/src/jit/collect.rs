//! From records to one graph: the longest run of lane operations that can be compiled together.
//! Registers that a run writes are forwarded to their readers; only the last write of each is stored.

use std::collections::{BTreeMap, HashMap};

use rocjitsu_lanes::kernel::{Args, Kind, Src};
use rocjitsu_lanes::trace::graph::{Graph, Id, Op};
use rocjitsu_lanes::trace::{Recorder, Trace};
use rocjitsu_lanes::vector::Lanes;

use crate::record::{Operand, Record};
use crate::registers::{PAGE_SHIFT, VectorRegisters};
use crate::valu::{Dpp, dual};
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

/// What a record reads of the scalar file, and what it writes.
#[derive(Default)]
struct Effects {
    rows: Vec<(u32, Id)>,
    masks: Vec<(u32, Id)>,
    words_read: Vec<u32>,
    masks_read: Vec<u32>,
}

fn is_half(kind: Kind) -> bool {
    matches!(kind, Kind::B16 | Kind::F16 | Kind::Bf16)
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
        // The halves of a dual instruction read before either writes.
        let mut effects = Effects::default();
        match dual::halves(record) {
            Some(halves) => {
                for half in halves {
                    self.evaluate(half, &mut effects)?;
                }
            }
            None => self.evaluate(record, &mut effects)?,
        }
        self.admit(&effects)?;
        let mut writes = Vec::new();
        for (key, id) in effects.rows {
            self.rows.insert(key, id);
            writes.push(Write::Row(key, id));
        }
        for (n, id) in effects.masks {
            self.masks.insert(n, id);
            let stored = self.recorder.graph.two(Op::MaskAnd, id, self.active, 0);
            writes.push(Write::Mask(n, stored));
        }
        self.words_read.extend(effects.words_read);
        self.masks_read.extend(effects.masks_read);
        self.ends.push((self.recorder.graph.nodes.len(), writes));
        Some(())
    }

    /// Whether the scalar file is read and written in an order that lanes, group by group, can keep.
    fn admit(&self, effects: &Effects) -> Option<()> {
        let covered = |n: &u32| effects.words_read.iter().any(|&w| self.covers(*n, w));
        if self.masks.keys().any(covered) {
            return None;
        }
        let askew = |m: u32, n: u32| m != n && self.overlap(m, n);
        let written = |n: u32| self.masks.keys().any(|&m| askew(m, n));
        if effects.masks_read.iter().any(|&n| written(n)) {
            return None;
        }
        for &(n, _) in &effects.masks {
            let read = |w: &u32| self.covers(n, *w);
            let mut masks = self
                .masks
                .keys()
                .chain(&self.masks_read)
                .chain(&effects.masks_read);
            if self.overlap(n, scalar::EXEC as u32)
                || n as usize >= scalar::COUNT - 1
                || self.words_read.iter().chain(&effects.words_read).any(read)
                || masks.any(|&m| askew(m, n))
            {
                return None;
            }
        }
        Some(())
    }

    /// Traces a lane operation on the registers as they are.
    fn evaluate(&mut self, record: &Record, effects: &mut Effects) -> Option<()> {
        let details = record.valu.as_deref()?;
        let kernel = details.trace?;
        if details.sdwa.is_some() || details.to_exec || record.imm != 0 {
            return None;
        }
        let mut shape = Args {
            dst: std::ptr::null_mut(),
            dst_hi: std::ptr::null_mut(),
            src: [Src::NONE; 3],
            exec: 0,
            mask_in: 0,
            mask_out: 0,
            chunks: 1,
            keep: 0,
            dst_shift: 0,
            aux: record.aux,
        };
        // Lanes that are written as far as they are active.
        let mut written = self.condition(u64::MAX);
        for slot in 0..3 {
            let Some(kind) = details.inputs[slot] else {
                break;
            };
            let mods = &details.source[slot];
            let [mut lo, mut hi] = self.operand(record.src[slot], kind, mods.shift, effects)?;
            if let Some(dpp) = details.dpp.as_ref().filter(|_| slot == 0) {
                let valid;
                ([lo, hi], valid) = self.permuted(dpp, [lo, hi])?;
                written = self.condition(dpp.written);
                if !dpp.bound_ctrl {
                    written = self.recorder.graph.two(Op::MaskAnd, written, valid, 0);
                }
            }
            let shift = match record.src[slot] {
                Operand::Const(_) => 0,
                _ if is_half(kind) => mods.shift,
                _ => 0,
            };
            shape.src[slot].shift = shift;
            let changes = mods.lanes(details.flush_in);
            let values = if details.prepare && !changes.is_none() {
                shape.src[slot].shift = 0;
                let modified = self.recorder.compute(|| {
                    let low = Trace::shr(lo, Trace::splat(shift));
                    changes.apply::<Trace>(kind, low, hi)
                })?;
                [modified.0, modified.1]
            } else {
                [lo, hi]
            };
            self.recorder.operands[2 * slot] = Some(values[0]);
            self.recorder.operands[2 * slot + 1] = Some(values[1]);
        }
        self.recorder.mask = None;
        if details.takes_mask {
            let n = record.mask.scalar()? as u32;
            self.recorder.mask = Some(match self.masks.get(&n) {
                Some(&id) => id,
                None => {
                    effects.masks_read.push(n);
                    self.recorder.graph.leaf(Op::Mask, n)
                }
            });
        }
        let zero = self.recorder.graph.constant(0);
        let keys = record.dst.vector().map(|r| [self.key(r), self.key(r + 1)]);
        let olds = keys.map_or([zero; 2], |keys| keys.map(|key| self.row(key)));
        let finished = details.finish && !details.result_modifiers().is_none();
        if !finished {
            shape.keep = details.keep;
            shape.dst_shift = details.dst_shift;
        }
        self.recorder.operands[6] = Some(olds[0]);
        self.recorder.operands[7] = Some(olds[1]);
        self.recorder.trace(kernel, &shape);
        if self.recorder.failed {
            return None;
        }

        let mut results = self.recorder.results;
        if let (true, Some(lo)) = (finished, results[0]) {
            let changes = details.result_modifiers();
            let hi = results[1].unwrap_or(zero);
            let (half, keep, shift) = (is_half(details.out), details.keep, details.dst_shift);
            let (lo, hi) = self.recorder.compute(|| {
                let (lo, hi) = changes.apply::<Trace>(details.out, lo, hi);
                if !half {
                    return (lo, hi);
                }
                let kept = Trace::and(olds[0], Trace::splat(keep));
                (Trace::or(Trace::shl(lo, Trace::splat(shift)), kept), hi)
            })?;
            results = [Some(lo), results[1].map(|_| hi)];
        }
        for (part, result) in results.into_iter().enumerate() {
            if let Some(id) = result {
                let graph = &mut self.recorder.graph;
                let id = graph.three(Op::Select, written, id, olds[part]);
                effects.rows.push((keys?[part], id));
            }
        }
        if let (true, Some(id)) = (details.gives_mask, self.recorder.mask_result) {
            let id = self.recorder.graph.two(Op::MaskAnd, id, written, 0);
            effects.masks.push((record.dst2.scalar()? as u32, id));
        }
        Some(())
    }

    /// The same lanes of every group, as the first 16 bits say.
    fn condition(&mut self, bits: u64) -> Id {
        self.recorder
            .graph
            .leaf(Op::ConstMask, bits as u32 & 0xffff)
    }

    /// A source whose lanes move within their groups of 16, all groups alike; and the lanes that read an active one.
    fn permuted(&mut self, dpp: &Dpp, words: [Id; 2]) -> Option<([Id; 2], Id)> {
        let first = &dpp.from[..16];
        for group in 1..self.lanes as usize / 16 {
            let alike = |bits: u64| (bits >> (16 * group)) as u16 == bits as u16;
            let moved = first.iter().enumerate().all(|(lane, &from)| {
                let reached = dpp.in_range >> lane & 1 != 0;
                !reached
                    || usize::from(dpp.from[16 * group + lane]) == usize::from(from) + 16 * group
            });
            if !moved || !alike(dpp.in_range) || !alike(dpp.written) {
                return None;
            }
        }
        if dpp.fetch_inactive || first.iter().any(|&from| from > 15) {
            return None;
        }
        let reached = self.condition(dpp.in_range);
        let graph = &mut self.recorder.graph;
        let table = graph.table(std::array::from_fn(|lane| first[lane].into()));
        let (zero, ones) = (graph.constant(0), graph.constant(u32::MAX));
        let active = graph.three(Op::Select, self.active, ones, zero);
        let active = graph.two(Op::Permute, table, active, 0);
        let active = graph.two(Op::TestSet, active, active, 0);
        let valid = graph.two(Op::MaskAnd, active, reached, 0);
        let words = words.map(|word| match word {
            Id::NONE => word,
            word => {
                let moved = graph.two(Op::Permute, table, word, 0);
                graph.three(Op::Select, valid, moved, zero)
            }
        });
        Some((words, valid))
    }

    fn key(&self, register: u32) -> u32 {
        VectorRegisters::slot(self.lanes, register).key()
    }

    /// The value of a register at this point.
    fn row(&mut self, key: u32) -> Id {
        let graph = &mut self.recorder.graph;
        let now = self.rows.get(&key).copied();
        now.unwrap_or_else(|| graph.leaf(Op::Row, key))
    }

    /// Low and high words of a source. `shift` is that of its modifiers.
    fn operand(
        &mut self,
        operand: Operand,
        kind: Kind,
        shift: u32,
        effects: &mut Effects,
    ) -> Option<[Id; 2]> {
        // Bits 0 and 1 of `shift` choose the registers of a pair; bit 2, that a scalar serves both elements.
        let words = match (kind, operand) {
            (Kind::PkF32, Operand::Scalar(_)) if shift & 4 != 0 => [0, 0],
            (Kind::PkF32, Operand::Const(_)) => [0, 0],
            (Kind::PkF32, _) => [shift & 1, shift >> 1 & 1],
            (Kind::B64 | Kind::F64, _) => [0, 1],
            _ => [0, 0],
        };
        let mut ids = [Id::NONE; 2];
        for (id, word) in ids.iter_mut().zip(words) {
            *id = match operand {
                Operand::Vector(r) => self.row(self.key(u32::from(r) + word)),
                Operand::Scalar(n) => {
                    let n = u32::from(n) + word;
                    effects.words_read.push(n);
                    self.recorder.graph.leaf(Op::Scalar, n)
                }
                Operand::Const(k) => self.recorder.graph.constant((k >> (32 * word)) as u32),
                Operand::Special(_) | Operand::None => return None,
            };
        }
        Some(ids)
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
