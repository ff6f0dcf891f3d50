//! What orders the accesses of one wave for others: waits, releases, acquires. Sources: LLVM's AMDGPU usage guide,
//! memory model of each target.

use std::sync::Arc;

use rocjitsu_isa::Target;
use rocjitsu_observe::{Access, AccessKind, Instruction, Scope, Space};

use super::clock::{Clock, Clocks};
use super::shadow::Flags;
use crate::counters::{Counter, Issue, Outstanding, copies_lds, issued, waited};

/// The memory model of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    target: Target,
    /// Stores carry no scope: any of them may be a release.
    plain_stores_release: bool,
    /// Stores reach other workgroups only by a write-back.
    needs_write_back: bool,
    /// Atomics say how far they are seen (LLVM: the `SCOPE` of gfx12; before, none for the workgroup looks like one for the device).
    pub scoped_atomics: bool,
    /// Scopes tell a cluster from a workgroup.
    clusters: bool,
}

/// What an access does besides moving data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// Waves of other workgroups (in LDS: other waves) see it.
    pub sync: bool,
    /// It reads what others have released.
    pub acquires: bool,
    /// It releases.
    pub releases: bool,
    /// It is an atomic that waves of the same workgroup alone see.
    pub narrow: bool,
}

/// Where a wave is, seen from another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the same workgroup.
    Workgroup,
    /// In another workgroup of the same cluster.
    Cluster,
    /// Neither.
    Elsewhere,
}

/// What the order of accesses needs to know of an instruction.
#[derive(Clone, Debug)]
pub struct Facts {
    waits: Vec<(Counter, usize)>,
    issues: Vec<Issue>,
    stores_lds: bool,
    stores_memory: bool,
    writes_back: bool,
    invalidates: bool,
    /// Later accesses of the wave do not wait for it.
    pub detached: bool,
    /// It arrives at a barrier that lies in LDS (gfx1250), which others read to see whether it is complete.
    pub object: bool,
    /// It compares and swaps.
    pub swaps: bool,
    /// Its scope is the program's, if it is an atomic. Buffer instructions are made of intrinsics that have none: compilers use them for
    /// the device as they are (Triton).
    pub has_scope: bool,
}

impl Rules {
    /// The model of a target.
    pub fn of(target: Target) -> Rules {
        let modern = matches!(target, Target::Gfx942 | Target::Gfx950) || target.generation() >= 12;
        Rules {
            target,
            plain_stores_release: !modern,
            needs_write_back: matches!(target, Target::Gfx942 | Target::Gfx950),
            scoped_atomics: target.generation() >= 12,
            clusters: target == Target::Gfx1250,
        }
    }

    /// What the order of accesses needs to know of an instruction.
    pub fn facts(&self, instruction: &Instruction) -> Facts {
        let name = instruction.mnemonic();
        let copies = copies_lds(&instruction.inst);
        let stores = !name.contains("load") && !name.contains("read") || copies;
        let lds = name.starts_with("ds_") || copies || name.starts_with("flat");
        Facts {
            waits: waited(&instruction.inst),
            issues: issued(&instruction.inst),
            stores_lds: lds && stores,
            stores_memory: !name.starts_with("ds_") && stores,
            writes_back: name.contains("wbl2") && Scope::of(&instruction.inst) >= Scope::Agent,
            invalidates: self.invalidates(instruction),
            detached: copies,
            object: name.contains("barrier_arrive") || name.starts_with("tensor_"),
            swaps: ["cmpst", "cmpswap"].iter().any(|part| name.contains(part)),
            has_scope: self.scoped_atomics && !name.starts_with("buffer_"),
        }
    }

    /// What an access of an instruction does.
    pub fn classify(&self, access: &Access, facts: &Facts) -> Class {
        let atomic = access.kind == AccessKind::Atomic;
        if access.space == Space::Lds {
            return Class {
                sync: atomic,
                acquires: atomic,
                releases: atomic,
                narrow: false,
            };
        }
        let wide = access.scope >= Scope::Agent;
        let narrow = atomic && !wide && facts.has_scope;
        let atomic = atomic && !narrow;
        let store = access.kind == AccessKind::Store;
        let may_release = access.bytes <= 8 && store && self.plain_stores_release;
        Class {
            sync: wide || atomic || may_release,
            acquires: wide || atomic,
            releases: wide || atomic || may_release,
            narrow,
        }
    }

    /// Whether waves of another workgroup of the cluster see an access.
    pub fn reaches_cluster(&self, access: &Access) -> bool {
        self.clusters && access.scope >= Scope::Workgroup
    }

    /// Whether two accesses to the same bytes are meant to meet. `place`: where their waves are.
    pub fn both_sync(&self, old: Flags, new: Flags, place: Place) -> bool {
        if old.object || new.object {
            return true;
        }
        if old.atomic && new.atomic {
            return match place {
                Place::Workgroup => true,
                Place::Cluster => (old.sync || old.cluster) && (new.sync || new.cluster),
                Place::Elsewhere => old.sync && new.sync,
            };
        }
        // A loop that compares and swaps begins with a load, which looks like any other.
        let load = |flags: Flags| !flags.write;
        if old.swaps && load(new) || new.swaps && load(old) {
            return true;
        }
        // A plain store is a release only for those who look for one.
        let plain = |flags: Flags| self.plain_stores_release && flags.write && !flags.atomic;
        old.sync && new.sync && !(plain(old) && plain(new))
    }

    /// Whether loads behind an instruction see what other workgroups have released.
    fn invalidates(&self, instruction: &Instruction) -> bool {
        let name = instruction.mnemonic();
        let wide = Scope::of(&instruction.inst) >= Scope::Agent;
        match self.target.generation() {
            // gfx90a has one kind, which is for the device.
            9 => name.starts_with("buffer_wbinvl1") || name.starts_with("buffer_inv") && wide,
            12 => (name.starts_with("global_inv") || name.starts_with("global_wbinv")) && wide,
            // The invalidation of L0 alone is for the workgroup.
            _ => name.starts_with("buffer_gl1_inv"),
        }
    }
}

/// An operation under way: its time, and the kinds of accesses that it makes.
#[derive(Clone, Copy, Debug)]
struct Pending {
    epoch: u32,
    /// It stores to LDS.
    lds: bool,
    /// It copies to LDS.
    copy: bool,
    /// It stores to memory.
    memory: bool,
}

/// What a wave knows, and what of it is complete.
pub struct Wavefront {
    number: u32,
    /// The time of the wave's next access, from 1.
    pub epoch: u32,
    /// What it knows of others.
    pub clocks: Clocks,
    /// A barrier that it has come to: slot and phase.
    pub waits: Option<(u8, u32)>,
    outstanding: Outstanding<Pending>,
    /// What it knew when it wrote its caches back.
    written_back: Clocks,
    /// What it will know after an invalidation of its caches.
    acquired: Clocks,
    /// What its last release of memory or LDS told, and when that was.
    released: Option<(u32, bool, Arc<Clocks>)>,
}

impl Wavefront {
    /// A wave that begins.
    pub fn new(number: u32) -> Wavefront {
        Wavefront {
            number,
            epoch: Clock::FIRST,
            clocks: Clocks::default(),
            waits: None,
            outstanding: Outstanding::default(),
            written_back: Clocks::default(),
            acquired: Clocks::default(),
            released: None,
        }
    }

    /// An instruction is about to execute.
    pub fn before(&mut self, facts: &Facts) {
        for &(counter, n) in &facts.waits {
            let _ = self.outstanding.wait(counter, n);
        }
        if !facts.issues.is_empty() {
            self.epoch += 1;
            let pending = Pending {
                epoch: self.epoch,
                lds: facts.stores_lds && !facts.detached,
                copy: facts.detached,
                memory: facts.stores_memory,
            };
            for &issue in &facts.issues {
                self.outstanding.push(issue, pending);
            }
        }
        if facts.writes_back {
            // All stores that were issued: the waits behind it are those for them.
            self.written_back = self.known(false);
        }
        if facts.invalidates {
            let acquired = std::mem::take(&mut self.acquired);
            self.clocks.join(&acquired);
        }
    }

    /// Whether an access is still under way.
    pub fn is_pending(&self, epoch: u32) -> bool {
        self.outstanding
            .iter()
            .any(|(_, pending)| pending.epoch == epoch)
    }

    /// What it knows, itself included. `device`: its stores to memory count when waits have told that they are
    /// complete; a workgroup's waves see them in order anyway.
    fn known(&self, device: bool) -> Clocks {
        self.known_without(device, &[])
    }

    /// As [`Wavefront::known`], with the operations that count on `done` complete.
    fn known_without(&self, device: bool, done: &[Counter]) -> Clocks {
        let complete = |of: fn(&Pending) -> bool| {
            let pending = self.outstanding.iter();
            let pending = pending.filter(|(issue, p)| of(p) && !done.contains(&issue.counter));
            let first = pending.map(|(_, p)| p.epoch - 1).min();
            first.unwrap_or(self.epoch)
        };
        let lds = complete(|pending| pending.lds);
        let copy = complete(|pending| pending.copy);
        let store = if device {
            complete(|pending| pending.memory)
        } else {
            self.epoch
        };
        let mut known = self.clocks.clone();
        known.know(
            self.number,
            Clock([self.epoch, lds, copy, self.epoch, store]),
        );
        known
    }

    /// What others learn when it signals a barrier.
    pub fn at_barrier(&self) -> Clocks {
        self.known(false)
    }

    /// What others learn from its arrival at a barrier in LDS, which comes when the copies that it has begun are
    /// complete.
    pub fn arrived(&self) -> Arc<Clocks> {
        Arc::new(self.known_without(false, &[Counter::Async, Counter::Tensor]))
    }

    /// What others learn when they acquire a word that it writes now.
    pub fn released(&mut self, rules: &Rules, lds: bool) -> Arc<Clocks> {
        // The lanes of an instruction release the same.
        if let Some((epoch, of_lds, released)) = &self.released
            && (*epoch, *of_lds) == (self.epoch, lds)
        {
            return released.clone();
        }
        let mut known = self.known(!lds);
        if rules.needs_write_back && !lds {
            known = known.with_stores_of(&self.written_back);
        }
        let known = Arc::new(known);
        self.released = Some((self.epoch, lds, known.clone()));
        known
    }

    /// It has read a word that a wave of its workgroup has released for the workgroup alone.
    pub fn acquire_near(&mut self, released: &Clocks) {
        self.clocks.join(released);
    }

    /// It has read a word that was released. In LDS that is all; memory is known after an invalidation.
    pub fn acquire(&mut self, released: &Clocks, lds: bool) {
        if lds {
            self.clocks.join_lds(released);
        } else {
            self.acquired.join(released);
        }
    }

    /// The wave has ended; nobody asks what it knew.
    pub fn forget(&mut self) {
        self.clocks.clear();
        self.acquired.clear();
        self.written_back.clear();
    }
}
