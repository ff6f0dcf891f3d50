//! From records to one graph: the longest run of lane operations that can be compiled together.
//! Registers that a run writes are forwarded to their readers; only the last write of each is stored.

use std::collections::{BTreeMap, HashMap};

use rocjitsu_isa::Op as Instruction;
use rocjitsu_lanes::kernel::{Args, Kind, Src};
use rocjitsu_lanes::trace::graph::{Graph, Id, Node, Op};
use rocjitsu_lanes::trace::{Recorder, Trace};
use rocjitsu_lanes::vector::Lanes;

use super::Why;
use super::order::{Order, Touched};
use crate::record::{Class, Operand, Record};
use crate::registers::{PAGE_SHIFT, PAGES, VectorRegisters};
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

/// Whether the host has code for a node.
pub type Supports<'h> = &'h dyn Fn(&Graph, &Node) -> bool;

impl Run {
    /// Page by page the registers that the run writes and does not read before, a bit for each in its page, for
    /// waves of `lanes` lanes.
    pub fn overwritten(&self, lanes: u32) -> Box<[u32]> {
        let (mut written, mut read) = ([0u32; PAGES], [0u32; PAGES]);
        for step in &self.steps {
            let (pages, key) = match *step {
                Step::StoreRow(key, _) => (&mut written, key),
                Step::Compute(id) if self.graph.get(id).op == Op::Row => {
                    (&mut read, self.graph.get(id).imm)
                }
                _ => continue,
            };
            let register = (key & ((1 << PAGE_SHIFT) - 1)) / (4 * lanes);
            if let Some(page) = pages.get_mut((key >> PAGE_SHIFT) as usize) {
                *page |= 1 << register;
            }
        }
        let only = written.iter().zip(read).map(|(w, r)| w & !r);
        only.collect()
    }

    /// Drops the stores of registers that another execution of the run, by the same lanes, overwrites without reading
    /// them, and what only they need. Tells whether there are any.
    pub fn drop_overwritten(&mut self) -> bool {
        let graph = &self.graph;
        let read: Vec<u32> = self
            .steps
            .iter()
            .filter_map(|step| match *step {
                Step::Compute(id) if graph.get(id).op == Op::Row => Some(graph.get(id).imm),
                _ => None,
            })
            .collect();
        let all = self.steps.len();
        self.steps
            .retain(|step| !matches!(step, Step::StoreRow(key, _) if !read.contains(key)));
        let fewer = self.steps.len() < all;
        let mut live = vec![false; graph.nodes.len()];
        live[self.inactive.0 as usize] = true;
        for step in self.steps.iter().rev() {
            match *step {
                Step::StoreRow(_, id) | Step::StoreMask(_, id) => live[id.0 as usize] = true,
                Step::Compute(id) if live[id.0 as usize] => {
                    graph
                        .get(id)
                        .operands()
                        .for_each(|id| live[id.0 as usize] = true);
                }
                Step::Compute(_) => {}
            }
        }
        self.steps
            .retain(|step| !matches!(step, Step::Compute(id) if !live[id.0 as usize]));
        fewer
    }
}

/// A run that is being collected.
struct Collector<'h> {
    supports: Supports<'h>,
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
    /// Scalar instructions among them.
    order: Order,
    /// The last record has written EXEC: the run ends.
    closed: bool,
}

/// A run, and which records make it.
pub struct Collected {
    /// What they compute.
    pub run: Run,
    /// How many lane operations that is.
    pub operations: usize,
    /// How many records it spans, scalar instructions included.
    pub length: usize,
    /// Scalar instructions among them, by number, and where they are done.
    pub order: Order,
}

/// What a record reads of the scalar file, and what it writes.
#[derive(Default)]
struct Effects {
    rows: Vec<(u32, Id)>,
    masks: Vec<(u32, Id)>,
    words_read: Vec<u32>,
    masks_read: Vec<u32>,
    /// Masks that are used, those among them that the run itself has written.
    masks_used: Vec<u32>,
    /// EXEC, if it is among the masks written.
    exec: Option<u32>,
}

fn is_half(kind: Kind) -> bool {
    matches!(kind, Kind::B16 | Kind::F16 | Kind::Bf16)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Write {
    Row(u32, Id),
    Mask(u32, Id),
}

/// The run at the start of `records`: as many of them as can be compiled together.
pub fn collect(records: &[Record], lanes: u32, supports: Supports<'_>) -> Collected {
    let mut c = Collector::new(lanes, supports);
    let (mut operations, mut length) = (0, 0);
    for (at, record) in records.iter().enumerate() {
        if record.class == Class::Valu {
            if c.take(record).is_err() {
                break;
            }
            operations += 1;
            length = at + 1;
        } else if operations == 0 || !c.order.place(at, record, lanes) {
            break;
        }
    }
    c.order.end(length);
    let order = std::mem::take(&mut c.order);
    Collected {
        run: c.finish(),
        operations,
        length,
        order,
    }
}

/// Why a lane operation cannot be compiled, if it cannot.
pub fn obstacle(record: &Record, lanes: u32, supports: Supports<'_>) -> Option<Why> {
    Collector::new(lanes, supports).take(record).err()
}

impl<'h> Collector<'h> {
    fn new(lanes: u32, supports: Supports<'h>) -> Collector<'h> {
        let mut recorder = Recorder::default();
        let active = recorder.graph.leaf(Op::Mask, scalar::EXEC as u32);
        let inactive = recorder.graph.one(Op::MaskNot, active, 0);
        Collector {
            supports,
            recorder,
            lanes,
            active,
            inactive,
            rows: HashMap::new(),
            masks: BTreeMap::new(),
            words_read: Vec::new(),
            masks_read: Vec::new(),
            ends: Vec::new(),
            order: Order::default(),
            closed: false,
        }
    }

    /// Whether two masks share a word.
    fn overlap(&self, a: u32, b: u32) -> bool {
        a.abs_diff(b) < self.lanes / 32
    }

    /// Whether the mask at `n` shares words with `word`.
    fn covers(&self, n: u32, word: u32) -> bool {
        (n..n + self.lanes / 32).contains(&word)
    }

    /// Adds a record, or leaves everything as it is.
    fn take(&mut self, record: &Record) -> Result<(), Why> {
        if self.closed {
            return Err(Why::Exec);
        }
        // The halves of a dual instruction read before either writes.
        let mut effects = Effects::default();
        let first = self.recorder.graph.nodes.len();
        match dual::halves(record) {
            Some(halves) => {
                for half in halves {
                    self.evaluate(half, &mut effects)?;
                }
            }
            None => self.evaluate(record, &mut effects)?,
        }
        let graph = &self.recorder.graph;
        if !graph.nodes[first..]
            .iter()
            .all(|node| (self.supports)(graph, node))
        {
            return Err(Why::Host);
        }
        self.admit(&effects).ok_or(Why::Order)?;
        let touched = self.touched(&effects);
        if !self.order.admits(&touched) {
            return Err(Why::Order);
        }
        self.order.join(&touched);
        self.closed = effects.exec.is_some();
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
        Ok(())
    }

    /// Words of the scalar file that a record reads and writes.
    fn touched(&self, effects: &Effects) -> Touched {
        let mask = |n: u32| n as usize..(n + self.lanes / 32) as usize;
        let mut touched = Touched::default();
        touched.reads.insert(mask(scalar::EXEC as u32));
        for &n in &effects.words_read {
            touched.reads.insert(n as usize..n as usize + 1);
        }
        for &n in &effects.masks_used {
            touched.reads.insert(mask(n));
        }
        for &(n, _) in &effects.masks {
            touched.writes.insert(mask(n));
        }
        touched
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
            if self.overlap(n, scalar::EXEC as u32) && effects.exec != Some(n)
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
    fn evaluate(&mut self, record: &Record, effects: &mut Effects) -> Result<(), Why> {
        if let Some(rows) = self.moved(record, effects) {
            effects.rows.extend(rows);
            return Ok(());
        }
        let details = record.valu.as_deref().ok_or(Why::Kind)?;
        let kernel = details.trace.ok_or(Why::Mode)?;
        if record.imm != 0 {
            return Err(Why::Index);
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
            let [mut lo, mut hi] = self
                .operand(record.src[slot], kind, mods.shift, effects)
                .ok_or(Why::Operand)?;
            if let Some(dpp) = details.dpp.as_ref().filter(|_| slot == 0) {
                let valid;
                ([lo, hi], valid) = self.permuted(dpp, [lo, hi]).ok_or(Why::Dpp)?;
                written = self.condition(dpp.written);
                if !dpp.bound_ctrl {
                    written = self.recorder.graph.two(Op::MaskAnd, written, valid, 0);
                }
            }
            let mut shift = match record.src[slot] {
                Operand::Const(_) => 0,
                _ if is_half(kind) => mods.shift,
                _ => 0,
            };
            if let Some(sdwa) = details.sdwa.as_ref().filter(|_| slot < 2) {
                shift = 0;
                let part = || sdwa.source::<Trace>(slot, lo);
                lo = self.recorder.compute(part).ok_or(Why::Lanes)?;
            }
            shape.src[slot].shift = shift;
            let changes = mods.lanes(details.flush_in);
            let values = if details.prepare && !changes.is_none() {
                shape.src[slot].shift = 0;
                let modified = self.recorder.compute(|| {
                    let low = Trace::shr(lo, Trace::splat(shift));
                    changes.apply::<Trace>(kind, low, hi)
                });
                let modified = modified.ok_or(Why::Lanes)?;
                [modified.0, modified.1]
            } else {
                [lo, hi]
            };
            self.recorder.operands[2 * slot] = Some(values[0]);
            self.recorder.operands[2 * slot + 1] = Some(values[1]);
        }
        self.recorder.mask = None;
        if details.takes_mask {
            let n = record.mask.scalar().ok_or(Why::Operand)? as u32;
            effects.masks_used.push(n);
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
        let selected = details.sdwa.filter(|sdwa| sdwa.selects_result());
        let finished =
            selected.is_some() || details.finish && !details.result_modifiers().is_none();
        if !finished {
            shape.keep = details.keep;
            shape.dst_shift = details.dst_shift;
        }
        self.recorder.operands[6] = Some(olds[0]);
        self.recorder.operands[7] = Some(olds[1]);
        self.recorder.trace(kernel, &shape);
        if self.recorder.failed {
            return Err(Why::Lanes);
        }

        let mut results = self.recorder.results;
        if let (true, Some(lo)) = (finished, results[0]) {
            let changes = details.result_modifiers();
            let hi = results[1].unwrap_or(zero);
            let (half, keep, shift) = (is_half(details.out), details.keep, details.dst_shift);
            let changed = self.recorder.compute(|| {
                let (lo, hi) = changes.apply::<Trace>(details.out, lo, hi);
                if let Some(sdwa) = &selected {
                    return (sdwa.result::<Trace>(lo, olds[0]), hi);
                }
                if !half {
                    return (lo, hi);
                }
                let kept = Trace::and(olds[0], Trace::splat(keep));
                (Trace::or(Trace::shl(lo, Trace::splat(shift)), kept), hi)
            });
            let (lo, hi) = changed.ok_or(Why::Lanes)?;
            results = [Some(lo), results[1].map(|_| hi)];
        }
        for (part, result) in results.into_iter().enumerate() {
            if let Some(id) = result {
                let graph = &mut self.recorder.graph;
                let id = graph.three(Op::Select, written, id, olds[part]);
                effects.rows.push((keys.ok_or(Why::Operand)?[part], id));
            }
        }
        if let (true, Some(id)) = (details.gives_mask, self.recorder.mask_result) {
            let id = self.recorder.graph.two(Op::MaskAnd, id, written, 0);
            match record.dst2.scalar() {
                Some(n) => effects.masks.push((n as u32, id)),
                None if details.to_exec => {}
                None => return Err(Why::Operand),
            }
            if details.to_exec {
                effects.exec = Some(scalar::EXEC as u32);
                effects.masks.push((scalar::EXEC as u32, id));
            }
        }
        Ok(())
    }

    /// What an instruction writes that moves whole words and has no kernel.
    fn moved(&mut self, record: &Record, effects: &mut Effects) -> Option<[(u32, Id); 2]> {
        let to = record.dst.vector()?;
        match record.inst.op() {
            Instruction::v_pk_mov_b32 => {
                let mut rows = [(self.key(to), Id::NONE), (self.key(to + 1), Id::NONE)];
                for (slot, row) in rows.iter_mut().enumerate() {
                    let high = (record.imm2 >> slot & 1) as u16;
                    let from = match record.src[slot] {
                        Operand::Vector(r) => Operand::Vector(r + high),
                        Operand::Scalar(n) => Operand::Scalar(n.checked_add(high as u8)?),
                        other => other,
                    };
                    [row.1, _] = self.operand(from, Kind::B32, 0, effects)?;
                }
                Some(rows)
            }
            Instruction::v_swap_b32 if record.imm == 0 => {
                let from = record.src[0].vector()?;
                let (a, b) = (self.key(to), self.key(from));
                let (old_a, old_b) = (self.row(a), self.row(b));
                Some([(a, old_b), (b, old_a)])
            }
            _ => None,
        }
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
