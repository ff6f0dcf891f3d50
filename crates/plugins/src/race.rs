//! `race`: two accesses to the same byte by different waves, one of them a store, that nothing orders.
//!
//! Every wave has a vector clock (`clock`), every word of memory remembers who accessed it last (`shadow`). What
//! orders accesses: the program order of a wave, barriers, and release and acquire between workgroups by atomics or
//! accesses with a scope together with the cache control that the target's memory model asks for (`order`). An
//! access counts from its issue; a store is known to others only when a wait has told that it is complete. Races
//! are found whether they happened to matter in this run or not, whatever the order of the waves was.

mod clock;
mod order;
mod shadow;

use foldhash::{HashMap, HashSet};
use std::collections::BTreeMap;
use std::sync::Arc;

use rocjitsu_isa::Target;
use rocjitsu_observe::{
    Access, AccessKind, Barrier, Code, Concurrency, Dispatch, Ended, Events, Instruction, Lines,
    MemoryView, Outcome, Plugin, Space, State, Step, Wave, Workgroup,
};
use serde_json::{Value, json};

use crate::options::Options;
use crate::symbols::Symbols;
use clock::{Clocks, Kind};
use order::{Facts, Rules, Wavefront};
use shadow::{Entry, Flags, Shadow};

/// Makes the plugin.
pub fn make(mut options: Options, lines: Lines) -> Result<Box<dyn Plugin>, String> {
    let fail = options.switch("fail", false)?;
    let limit = options.parse("limit")?.unwrap_or(100);
    options.finish(&["fail", "limit", "file"])?;
    Ok(Box::new(Race {
        lines,
        fail,
        limit,
        symbols: Symbols::default(),
        memory: None,
        kernel: String::new(),
        rules: Rules::of(Target::Gfx942),
        cluster: 1,
        waves: Vec::new(),
        numbers: HashMap::default(),
        groups: HashMap::default(),
        clusters: HashMap::default(),
        global: Shadow::default(),
        sync: HashMap::default(),
        sites: Vec::new(),
        places: HashMap::default(),
        facts: HashMap::default(),
        found: BTreeMap::new(),
        total: 0,
        stores: Vec::new(),
    }))
}

/// Whether a race is in LDS.
type InLds = bool;

/// Two accesses that nothing orders.
#[derive(Clone, Copy)]
struct Meeting {
    old: Entry,
    number: u32,
    site: u32,
    access: Access,
    at: u64,
}

/// A byte of memory or LDS.
fn byte_at(state: &dyn State, space: Space, at: u64) -> Option<u8> {
    if space == Space::Lds {
        return state.lds().get(at as usize).copied();
    }
    let mut byte = [0];
    state.read(at, &mut byte).then_some(byte[0])
}

/// A wave of the dispatch, by its number in order of appearance.
struct Known {
    wave: Wave,
    front: Wavefront,
}

/// What the waves of a workgroup share.
#[derive(Default)]
struct Group {
    lds: Shadow,
    /// What waves knew when they signalled a phase of a barrier, and which waves these were.
    barriers: HashMap<(u8, u32), (Clocks, Vec<u32>)>,
    /// What waves knew when they ended: barriers no longer wait for them.
    ended: Clocks,
    /// Words of LDS that atomics have released.
    sync: HashMap<u64, Arc<Clocks>>,
    /// Words that hold a barrier, whose readers acquire what arrived.
    objects: HashSet<u64>,
}

struct Race {
    lines: Lines,
    fail: bool,
    /// Races told at most.
    limit: usize,
    symbols: Symbols,
    memory: Option<Arc<dyn MemoryView>>,
    kernel: String,
    rules: Rules,
    /// Workgroups of a cluster.
    cluster: u64,
    waves: Vec<Known>,
    numbers: HashMap<(u64, u32), u32>,
    groups: HashMap<u64, Group>,
    /// Barriers of clusters.
    clusters: HashMap<(u64, u32), Clocks>,
    global: Shadow,
    /// What was known when a word was released.
    sync: HashMap<u64, Arc<Clocks>>,
    /// Instructions that accessed memory, by number.
    sites: Vec<Instruction>,
    places: HashMap<u64, u32>,
    /// What is known of instructions, by address; the word tells whether it is still the same one.
    facts: HashMap<u64, (u128, Arc<Facts>)>,
    /// Races by the instructions, with how often they were met.
    found: BTreeMap<(InLds, u64, u64), u64>,
    total: u64,
    /// Stores of the instruction under way that meet an earlier one, and the byte that this one left.
    stores: Vec<(Meeting, u8)>,
}

/// The slots of the workgroup's and the cluster's barrier.
const WORKGROUP_BARRIER: u8 = 0;
const CLUSTER_BARRIER: u8 = 17;

impl Race {
    fn number(&mut self, wave: &Wave) -> u32 {
        let next = self.waves.len() as u32;
        let number = *self.numbers.entry((wave.group, wave.index)).or_insert(next);
        if number == next {
            self.waves.push(Known {
                wave: *wave,
                front: Wavefront::new(next),
            });
        }
        number
    }

    fn facts(&mut self, instruction: &Instruction) -> Arc<Facts> {
        let word = instruction.inst.word();
        match self.facts.get(&instruction.pc) {
            Some((known, facts)) if *known == word => facts.clone(),
            _ => {
                let facts = Arc::new(self.rules.facts(instruction));
                self.facts.insert(instruction.pc, (word, facts.clone()));
                facts
            }
        }
    }

    fn site(&mut self, instruction: &Instruction) -> u32 {
        let next = self.sites.len() as u32;
        let site = *self.places.entry(instruction.pc).or_insert(next);
        if site == next {
            self.sites.push(instruction.clone());
        }
        site
    }

    /// Takes over what the wave waited for: by now everybody has signalled.
    fn resume(&mut self, number: u32) {
        let known = &mut self.waves[number as usize];
        let Some((slot, phase)) = known.front.waits.take() else {
            return;
        };
        let group = known.wave.group;
        let cluster = (group / self.cluster, phase);
        let from = if slot == CLUSTER_BARRIER {
            self.clusters.get(&cluster)
        } else {
            let group = self.groups.get(&group);
            let barrier = group.and_then(|group| group.barriers.get(&(slot, phase)));
            barrier.map(|(clocks, _)| clocks)
        };
        if let Some(from) = from {
            known.front.clocks.join(from);
        }
    }

    fn access(
        &mut self,
        number: u32,
        site: u32,
        access: &Access,
        facts: &Facts,
        state: &dyn State,
    ) -> Outcome {
        let Known { wave, front } = &self.waves[number as usize];
        let group = wave.group;
        let global = access.space == Space::Global;
        let class = self.rules.classify(access);
        let writes = access.kind != AccessKind::Load;
        let flags = Flags {
            write: writes,
            atomic: access.kind == AccessKind::Atomic,
            sync: class.sync,
            detached: facts.detached && writes,
            object: facts.object && access.kind == AccessKind::Atomic,
            swaps: facts.swaps,
        };
        let entry = Entry::new(number, front.epoch, site, access.lane, flags);
        let mut races = Vec::new();
        let clocks = &front.clocks;
        let rules = &self.rules;
        let mut check = |old: &Entry, at: u64| {
            let of = old.flags();
            let kind = Kind::of(global, of.write, of.detached);
            if old.wave == number {
                // A copy to LDS that is still under way is not ordered before what follows it, unless the wave has
                // seen its arrival at a barrier.
                let under_way = of.detached && front.is_pending(old.epoch);
                let known = clocks.get(number, kind) >= old.epoch || of.object;
                if under_way && !known && !flags.object && old.epoch != entry.epoch {
                    races.push((*old, at));
                }
                return;
            }
            if !of.write && !writes || rules.both_sync(of, flags) {
                return;
            }
            if clocks.get(old.wave, kind) < old.epoch {
                races.push((*old, at));
            }
        };
        let shadow = if global {
            &mut self.global
        } else {
            &mut self.groups.entry(group).or_default().lds
        };
        shadow.access(access.address, access.bytes, entry, &mut check);
        for (old, at) in races {
            let race = Meeting {
                old,
                number,
                site,
                access: *access,
                at,
            };
            // Two stores of the same value are known by what they leave.
            let of = old.flags();
            let stores = of.write && access.kind == AccessKind::Store && !of.atomic;
            match stores.then(|| byte_at(state, access.space, at)).flatten() {
                Some(byte) => self.stores.push((race, byte)),
                None => self.report(&race)?,
            }
        }
        self.synchronise(number, access, class, flags.object);
        Ok(())
    }

    /// Release by a store and acquire by a load of a word that waves synchronise by.
    fn synchronise(&mut self, number: u32, access: &Access, class: order::Class, object: bool) {
        let reads = access.kind != AccessKind::Store;
        let writes = access.kind != AccessKind::Load;
        let known = &mut self.waves[number as usize];
        let word = access.address & !3;
        let mut acquires = class.acquires;
        let map = if access.space == Space::Global {
            &mut self.sync
        } else {
            let group = self.groups.entry(known.wave.group).or_default();
            if object {
                group.objects.insert(word);
            }
            acquires |= group.objects.contains(&word);
            &mut group.sync
        };
        if reads
            && acquires
            && let Some(clocks) = map.get(&word)
        {
            known.front.acquire(clocks, access.space == Space::Lds);
        }
        if writes && class.releases {
            let released = if object {
                known.front.arrived()
            } else {
                let lds = access.space == Space::Lds;
                known.front.released(&self.rules, lds)
            };
            // What an atomic leaves is released by all that came before it, too.
            if access.kind == AccessKind::Atomic {
                Arc::make_mut(map.entry(word).or_default()).join(&released);
            } else {
                map.insert(word, released);
            }
        }
    }

    fn party(&self, number: u32, site: u32, lane: u8, write: bool, atomic: bool) -> Value {
        let wave = &self.waves[number as usize].wave;
        let mut party = self.symbols.describe(&self.sites[site as usize]);
        party["access"] = match (atomic, write) {
            (true, _) => "atomic",
            (false, true) => "store",
            (false, false) => "load",
        }
        .into();
        party["workgroup"] = json!(wave.workgroup);
        party["wave"] = wave.index.into();
        party["lane"] = lane.into();
        party
    }

    fn report(&mut self, race: &Meeting) -> Outcome {
        let Meeting {
            old,
            number,
            site,
            access,
            at,
        } = *race;
        self.total += 1;
        let lds = access.space == Space::Lds;
        let pcs = (
            self.sites[old.site as usize].pc,
            self.sites[site as usize].pc,
        );
        let count = self.found.entry((lds, pcs.0, pcs.1)).or_default();
        *count += 1;
        if *count > 1 || self.found.len() > self.limit {
            return Ok(());
        }
        let of = old.flags();
        let writes = access.kind != AccessKind::Load;
        let mut record = json!({
            "plugin": "race",
            "space": if lds { "lds" } else { "global" },
            "kernel": self.kernel,
            "address": format!("{at:#x}"),
            "first": self.party(old.wave, old.site, old.lane, of.write, of.atomic),
            "second": self.party(number, site, access.lane, writes, access.kind == AccessKind::Atomic),
        });
        if let Some(memory) = self.memory.as_ref().filter(|_| !lds) {
            record["where"] = memory.describe(at).into();
        }
        self.lines.line(&record.to_string())
    }
}

impl Plugin for Race {
    fn events(&self) -> Events {
        Events::DISPATCHES
            | Events::WORKGROUPS
            | Events::WAVES
            | Events::BEFORE
            | Events::AFTER
            | Events::ACCESSES
            | Events::BARRIERS
    }

    fn concurrency(&self) -> Concurrency {
        Concurrency::OneThread
    }

    fn code_loaded(&mut self, code: &Code<'_>) -> Outcome {
        self.symbols.add(code);
        Ok(())
    }

    fn dispatch_begins(&mut self, dispatch: &Dispatch<'_>) -> Outcome {
        self.kernel = dispatch.kernel.to_owned();
        self.rules = Rules::of(dispatch.target);
        self.memory = Some(dispatch.memory.clone());
        self.cluster = dispatch
            .cluster
            .iter()
            .map(|&n| u64::from(n))
            .product::<u64>()
            .max(1);
        Ok(())
    }

    /// A dispatch ends before the next begins: nothing of it can race any more.
    fn dispatch_ends(&mut self, _: &Ended<'_>) -> Outcome {
        self.waves.clear();
        self.numbers.clear();
        self.groups.clear();
        self.clusters.clear();
        self.global = Shadow::default();
        self.sync.clear();
        self.sites.clear();
        self.places.clear();
        Ok(())
    }

    fn wave_begins(&mut self, wave: &Wave) -> Outcome {
        self.number(wave);
        Ok(())
    }

    fn wave_ends(&mut self, wave: &Wave) -> Outcome {
        let number = self.number(wave);
        self.resume(number);
        let known = self.waves[number as usize].front.at_barrier();
        let group = self.groups.entry(wave.group).or_default();
        group.ended.join(&known);
        // Phases that it has not signalled do not wait for it any more, and complete behind its end.
        for ((slot, _), (clocks, signalled)) in &mut group.barriers {
            if *slot == WORKGROUP_BARRIER && !signalled.contains(&number) {
                clocks.join(&known);
            }
        }
        self.waves[number as usize].front.forget();
        Ok(())
    }

    fn workgroup_ends(&mut self, workgroup: &Workgroup) -> Outcome {
        self.groups.remove(&workgroup.linear);
        Ok(())
    }

    fn before(&mut self, step: &Step<'_>, _: &dyn State) -> Outcome {
        let number = self.number(step.wave);
        self.resume(number);
        let facts = self.facts(step.instruction);
        self.waves[number as usize].front.before(&facts);
        Ok(())
    }

    fn accesses(&mut self, step: &Step<'_>, accesses: &[Access], state: &dyn State) -> Outcome {
        let number = self.number(step.wave);
        let site = self.site(step.instruction);
        let facts = self.facts(step.instruction);
        for access in accesses.iter().filter(|a| a.space != Space::Scratch) {
            self.access(number, site, access, &facts, state)?;
        }
        Ok(())
    }

    fn after(&mut self, _: &Step<'_>, state: &dyn State) -> Outcome {
        for (race, before) in std::mem::take(&mut self.stores) {
            let now = byte_at(state, race.access.space, race.at);
            if now != Some(before) {
                self.report(&race)?;
            }
        }
        Ok(())
    }

    fn barrier(&mut self, step: &Step<'_>, barrier: Barrier) -> Outcome {
        let number = self.number(step.wave);
        let group = step.wave.group;
        match barrier {
            Barrier::Signal { slot, phase } => {
                let known = self.waves[number as usize].front.at_barrier();
                if slot == CLUSTER_BARRIER {
                    let key = (group / self.cluster, phase);
                    self.clusters.entry(key).or_default().join(&known);
                } else {
                    let group = self.groups.entry(group).or_default();
                    let (clocks, signalled) = group.barriers.entry((slot, phase)).or_default();
                    clocks.join(&group.ended);
                    clocks.join(&known);
                    signalled.push(number);
                }
            }
            Barrier::Wait { slot, phase } => {
                self.waves[number as usize].front.waits = Some((slot, phase));
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Outcome {
        let record = json!({
            "plugin": "race",
            "event": "summary",
            "races": self.found.len(),
            "times": self.total,
        });
        self.lines.line(&record.to_string())?;
        self.lines.flush()?;
        if self.fail && !self.found.is_empty() {
            return Err(format!("{} data races", self.found.len()));
        }
        Ok(())
    }
}
