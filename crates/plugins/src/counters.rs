//! The counters of outstanding operations: which instructions count on which, and what waits wait for.
//! Sources: the manuals' chapters on data dependency resolution, LLVM's `SIInsertWaitcnts`.

use rocjitsu_isa::{Flag, Format, Inst, Name, Op, Target};

/// A counter of operations that are under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Counter {
    /// Vector memory: vmcnt, loadcnt. Before gfx10 of stores, too.
    Load,
    /// Vector stores: vscnt, storecnt.
    Store,
    /// LDS, and before gfx12 scalar memory and messages: lgkmcnt, dscnt.
    Lds,
    /// Scalar memory and messages from gfx12 on: kmcnt.
    Scalar,
    /// Exports and direct loads of LDS.
    Export,
    /// Asynchronous copies to and from LDS (gfx1250).
    Async,
    /// Tensor copies (gfx1250).
    Tensor,
    /// Translation of addresses (gfx1250): until then an access may be replayed, and reads its registers again.
    Translation,
}

impl Counter {
    /// The wait that brings the counter of a target down to `n`, as assembly text.
    pub fn wait(self, target: Target, n: usize) -> String {
        let modern = target.generation() >= 12;
        match (self, modern) {
            (Counter::Load, false) => format!("s_waitcnt vmcnt({n})"),
            (Counter::Lds | Counter::Scalar, false) => format!("s_waitcnt lgkmcnt({n})"),
            (Counter::Export, false) => format!("s_waitcnt expcnt({n})"),
            (Counter::Store, false) => format!("s_waitcnt_vscnt null, {n:#x}"),
            (Counter::Load, true) => format!("s_wait_loadcnt {n:#x}"),
            (Counter::Store, true) => format!("s_wait_storecnt {n:#x}"),
            (Counter::Lds, true) => format!("s_wait_dscnt {n:#x}"),
            (Counter::Scalar, true) => format!("s_wait_kmcnt {n:#x}"),
            (Counter::Export, true) => format!("s_wait_expcnt {n:#x}"),
            (Counter::Async, _) => format!("s_wait_asynccnt {n:#x}"),
            (Counter::Tensor, _) => format!("s_wait_tensorcnt {n:#x}"),
            (Counter::Translation, _) => format!("s_wait_xcnt {n:#x}"),
        }
    }

    /// The name on a target.
    pub fn name(self, target: Target) -> &'static str {
        match (self, target.generation() >= 12) {
            (Counter::Load, false) => "vmcnt",
            (Counter::Load, true) => "loadcnt",
            (Counter::Store, false) => "vscnt",
            (Counter::Store, true) => "storecnt",
            (Counter::Lds | Counter::Scalar, false) => "lgkmcnt",
            (Counter::Lds, true) => "dscnt",
            (Counter::Scalar, true) => "kmcnt",
            (Counter::Export, _) => "expcnt",
            (Counter::Async, _) => "asynccnt",
            (Counter::Tensor, _) => "tensorcnt",
            (Counter::Translation, _) => "xcnt",
        }
    }
}

/// What an instruction adds to a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issue {
    /// The counter.
    pub counter: Counter,
    /// Whether it may complete before operations that were issued earlier, or after later ones: then only a wait
    /// for zero tells that it is complete.
    pub unordered: bool,
}

/// What an instruction adds to counters. A flat instruction may be of two kinds of memory and counts on both.
pub fn issued(inst: &Inst) -> Vec<Issue> {
    let target = inst.target();
    let generation = target.generation();
    let name = inst.op().name();
    let one = |counter, unordered| vec![Issue { counter, unordered }];
    let scalar = if generation >= 12 {
        Counter::Scalar
    } else {
        Counter::Lds
    };
    match inst.format() {
        Format::SMEM => {
            let hint = ["prefetch", "dcache_inv", "gl1_inv", "atc_probe", "discard"];
            if hint.iter().any(|part| name.contains(part)) {
                return Vec::new();
            }
            return one(scalar, true);
        }
        Format::DS => return one(Counter::Lds, false),
        Format::LDSDIR | Format::EXP => return one(Counter::Export, false),
        Format::VIMAGE if name.starts_with("tensor_") => return one(Counter::Tensor, false),
        _ => {}
    }
    if matches!(
        inst.op(),
        Op::s_sendmsg | Op::s_sendmsg_rtn_b32 | Op::s_sendmsg_rtn_b64 | Op::s_get_barrier_state
    ) {
        return one(scalar, true);
    }
    if !is_vector_memory(inst.format()) {
        return Vec::new();
    }
    if name.contains("async_to_lds") || name.contains("async_from_lds") {
        return one(Counter::Async, false);
    }
    // Cache control: invalidations count as loads, write-backs as stores.
    if name.ends_with("_inv") || name.contains("gl0_inv") || name.contains("gl1_inv") {
        return if generation >= 12 || generation == 9 {
            one(Counter::Load, false)
        } else {
            Vec::new()
        };
    }
    if name.contains("prefetch") {
        return Vec::new();
    }
    let returns = inst.row().has_flag(Flag::IsAtomicRet)
        || name.contains("_load") && !name.contains("_atomic_");
    let memory = if generation >= 10 && !returns {
        Counter::Store
    } else {
        Counter::Load
    };
    let flat = matches!(inst.format(), Format::FLAT | Format::VFLAT);
    // On gfx9 both counters may report a flat operation before it is complete.
    let mut all = one(memory, flat && generation == 9);
    if flat {
        all.push(Issue {
            counter: Counter::Lds,
            unordered: generation == 9,
        });
    }
    all
}

/// What an instruction adds to the counter of address translations. Those of scalar memory keep no order.
/// Sources: CDNA5 manual, "State registers" (XCNT) and `S_WAIT_XCNT`; LLVM's `SIInsertWaitcnts`.
pub fn translated(inst: &Inst) -> Option<Issue> {
    let scalar = inst.format() == Format::SMEM;
    let reaches_memory = scalar || is_vector_memory(inst.format());
    let name = inst.op().name();
    let accesses = ["_load", "_store", "_atomic"]
        .iter()
        .any(|part| name.contains(part));
    (inst.target() == Target::Gfx1250 && reaches_memory && accesses).then_some(Issue {
        counter: Counter::Translation,
        unordered: scalar,
    })
}

/// Whether an instruction copies between memory and LDS, past the registers.
pub fn copies_lds(inst: &Inst) -> bool {
    let name = inst.op().name();
    if name.starts_with("tensor_") {
        return true;
    }
    let data = [Name::vdst, Name::vdata];
    let no_register = data.iter().all(|&name| inst.row().operand(name).is_none());
    is_vector_memory(inst.format())
        && (name.contains("_lds") || name.contains("_load") && no_register)
}

/// Whether an encoding is of vector memory, flat and scratch included.
pub fn is_vector_memory(format: Format) -> bool {
    matches!(
        format,
        Format::FLAT
            | Format::VFLAT
            | Format::GLOBAL
            | Format::VGLOBAL
            | Format::SCRATCH
            | Format::VSCRATCH
            | Format::MUBUF
            | Format::MTBUF
            | Format::VBUFFER
    )
}

/// What an instruction waits for: counters, and how many operations may still be under way.
pub fn waited(inst: &Inst) -> Vec<(Counter, usize)> {
    let immediate = inst.field(Name::simm16).unwrap_or(0) as usize;
    let all = [
        Counter::Load,
        Counter::Store,
        Counter::Lds,
        Counter::Scalar,
        Counter::Export,
        Counter::Async,
        Counter::Tensor,
        Counter::Translation,
    ];
    let pair = |high, low| vec![(high, immediate >> 8 & 63), (low, immediate & 63)];
    match inst.op() {
        Op::s_waitcnt => {
            let (load, export, lds) = match inst.target().generation() {
                9 => (
                    immediate & 15 | immediate >> 14 << 4,
                    immediate >> 4 & 7,
                    immediate >> 8 & 15,
                ),
                10 => (
                    immediate & 15 | immediate >> 14 << 4,
                    immediate >> 4 & 7,
                    immediate >> 8 & 63,
                ),
                _ => (immediate >> 10 & 63, immediate & 7, immediate >> 4 & 63),
            };
            vec![
                (Counter::Load, load),
                (Counter::Export, export),
                (Counter::Lds, lds),
            ]
        }
        Op::s_waitcnt_vscnt => vec![(Counter::Store, immediate)],
        Op::s_waitcnt_vmcnt | Op::s_wait_loadcnt => vec![(Counter::Load, immediate)],
        Op::s_waitcnt_lgkmcnt | Op::s_wait_dscnt => vec![(Counter::Lds, immediate)],
        Op::s_waitcnt_expcnt | Op::s_wait_expcnt => vec![(Counter::Export, immediate)],
        Op::s_wait_storecnt => vec![(Counter::Store, immediate)],
        Op::s_wait_kmcnt => vec![(Counter::Scalar, immediate)],
        Op::s_wait_asynccnt => vec![(Counter::Async, immediate)],
        Op::s_wait_tensorcnt => vec![(Counter::Tensor, immediate)],
        Op::s_wait_xcnt => vec![(Counter::Translation, immediate)],
        Op::s_wait_loadcnt_dscnt => pair(Counter::Load, Counter::Lds),
        Op::s_wait_storecnt_dscnt => pair(Counter::Store, Counter::Lds),
        Op::s_wait_idle => all.map(|counter| (counter, 0)).into(),
        _ => Vec::new(),
    }
}

/// Operations of one wave that are under way, each with what its owner wants to know of it.
#[derive(Clone, Debug)]
pub struct Outstanding<T>(Vec<(Issue, T)>);

impl<T> Default for Outstanding<T> {
    fn default() -> Self {
        Outstanding(Vec::new())
    }
}

impl<T> Outstanding<T> {
    /// An operation begins.
    pub fn push(&mut self, issue: Issue, what: T) {
        self.0.push((issue, what));
    }

    /// A wait: operations that are complete are removed, and the last of them returned. Counters count operations in
    /// order, unless one that keeps no order is among them.
    pub fn wait(&mut self, counter: Counter, n: usize) -> Option<T> {
        let of = |(issue, _): &&(Issue, T)| issue.counter == counter;
        let unordered = self.0.iter().filter(of).any(|(issue, _)| issue.unordered);
        if unordered && n > 0 {
            return None;
        }
        let mut complete = self.0.iter().filter(of).count().saturating_sub(n);
        let done = |(issue, _): &mut (Issue, T)| {
            let done = issue.counter == counter && complete > 0;
            complete -= usize::from(done);
            done
        };
        self.0.extract_if(.., done).last().map(|(_, what)| what)
    }

    /// Removes operations.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.0.retain(|(_, what)| keep(what));
    }

    /// Whether one of another order is under way.
    pub fn is_mixed(&self, issue: &Issue) -> bool {
        self.0
            .iter()
            .any(|(known, _)| known.unordered != issue.unordered)
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// All that are under way, in the order of their issue.
    pub fn iter(&self) -> impl Iterator<Item = &(Issue, T)> {
        self.0.iter()
    }

    /// The `count` that were issued last, with what they add to counters.
    pub fn last_mut(&mut self, count: usize) -> impl Iterator<Item = (Issue, &mut T)> {
        let first = self.0.len().saturating_sub(count);
        self.0[first..]
            .iter_mut()
            .map(|(issue, what)| (*issue, what))
    }

    /// The largest `n` for which a wait tells that operation `index` of [`Outstanding::iter`] is complete.
    pub fn sufficient(&self, index: usize) -> usize {
        let counter = self.0[index].0.counter;
        let same = |(issue, _): &&(Issue, T)| issue.counter == counter;
        if self.0.iter().filter(same).any(|(issue, _)| issue.unordered) {
            return 0;
        }
        self.0[index + 1..].iter().filter(same).count()
    }

    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocjitsu_isa::decode;

    fn inst(target: Target, word: u32) -> Inst {
        decode(target, target.execution_set(32), &word.to_le_bytes()).unwrap()
    }

    #[test]
    fn fields_of_waits_lie_where_the_manuals_say() {
        // s_waitcnt vmcnt(17) lgkmcnt(3), expcnt open: as LLVM assembles it for gfx942.
        let wait = inst(Target::Gfx942, 0xbf8c_4371);
        let want = [(Counter::Load, 17), (Counter::Export, 7), (Counter::Lds, 3)];
        assert_eq!(waited(&wait), want);
        // s_waitcnt vmcnt(17) on gfx1100.
        let wait = inst(Target::Gfx1100, 0xbf89_47f7);
        let want = [
            (Counter::Load, 17),
            (Counter::Export, 7),
            (Counter::Lds, 63),
        ];
        assert_eq!(waited(&wait), want);
    }

    #[test]
    fn waits_retire_in_order_unless_scalar_loads_are_among_them() {
        let issue = |unordered| Issue {
            counter: Counter::Lds,
            unordered,
        };
        let mut all = Outstanding::default();
        (0..4).for_each(|i| all.push(issue(false), i));
        assert_eq!(all.sufficient(1), 2);
        all.wait(Counter::Load, 0);
        all.wait(Counter::Lds, 2);
        assert_eq!(all.iter().map(|(_, i)| *i).collect::<Vec<_>>(), [2, 3]);
        all.push(issue(true), 4);
        assert_eq!(all.sufficient(0), 0);
        all.wait(Counter::Lds, 1);
        assert_eq!(all.iter().count(), 3);
        all.wait(Counter::Lds, 0);
        assert!(all.is_empty());
    }
}
