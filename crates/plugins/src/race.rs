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
use order::{Facts, Place, Rules, Wavefront};
use shadow::{Entry, Flags, Shadow};

/// Makes the plugin.
pub fn make(mut options: Options, lines: Lines) -> Result<Box<dyn Plugin>, String> {
    let fail = options.switch("fail", false)?;
    let limit = options.parse("limit")?.unwrap_or(100);
    options.finish(&["fail", "limit", "file"])?;
    Ok(Box::new(Race {
        reports: Reports {
            lines,
            fail,
            limit,
            symbols: Symbols::default(),
            found: BTreeMap::new(),
            total: 0,
            forgotten: 0,
        },
        running: HashMap::default(),
        facts: HashMap::default(),
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
struct Member {
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
    /// Words of memory that atomics of the workgroup have released, whatever their scope.
    near: HashMap<u64, Arc<Clocks>>,
    /// Words that hold a barrier, whose readers acquire what arrived.
    objects: HashSet<u64>,
}

/// What is known of instructions, by target and address; the word tells whether it is still the same one.
type Known = HashMap<(Target, u64), (u128, Arc<Facts>)>;

struct Race {
    reports: Reports,
    /// Dispatches under way, by number: queues and GPUs work at the same time.
    running: HashMap<u64, Running>,
    facts: Known,
}

/// Races of the run.
struct Reports {
    lines: Lines,
    fail: bool,
    /// Races told at most.
    limit: usize,
    symbols: Symbols,
    /// Races by kernel and instructions, with how often they were met.
    found: BTreeMap<(InLds, String, u64, u64), u64>,
    total: u64,
    /// Readers of words that were forgotten, of dispatches and workgroups that have ended.
    forgotten: u64,
}

/// A dispatch under way.
struct Running {
    memory: Arc<dyn MemoryView>,
    kernel: String,
    rules: Rules,
    /// Workgroups of a cluster.
    cluster: u64,
    waves: Vec<Member>,
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
    /// Stores of the instruction under way that meet an earlier one, and the byte that this one left.
    stores: Vec<(Meeting, u8)>,
}

/// The slots of the workgroup's and the cluster's barrier.
const WORKGROUP_BARRIER: u8 = 0;
const CLUSTER_BARRIER: u8 = 17;

impl Running {
    fn new(dispatch: &Dispatch<'_>) -> Running {
        let cluster = dispatch.cluster.iter().map(|&n| u64::from(n));
        Running {
            memory: dispatch.memory.clone(),
            kernel: dispatch.kernel.to_owned(),
            rules: Rules::of(dispatch.target),
            cluster: cluster.product::<u64>().max(1),
            waves: Vec::new(),
            numbers: HashMap::default(),
            groups: HashMap::default(),
            clusters: HashMap::default(),
            global: Shadow::default(),
            sync: HashMap::default(),
            sites: Vec::new(),
            places: HashMap::default(),
            stores: Vec::new(),
        }
    }

    fn number(&mut self, wave: &Wave) -> u32 {
        let next = self.waves.len() as u32;
        let number = *self.numbers.entry((wave.group, wave.index)).or_insert(next);
        if number == next {
            self.waves.push(Member {
                wave: *wave,
                front: Wavefront::new(next),
            });
        }
        number
    }

    fn facts(&self, all: &mut Known, instruction: &Instruction) -> Arc<Facts> {
        let word = instruction.inst.word();
        let place = (instruction.inst.target(), instruction.pc);
        match all.get(&place) {
            Some((known, facts)) if *known == word => facts.clone(),
            _ => {
                let facts = Arc::new(self.rules.facts(instruction));
                all.insert(place, (word, facts.clone()));
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
        reports: &mut Reports,
    ) -> Outcome {
        let Member { wave, front } = &self.waves[number as usize];
        let group = wave.group;
        let global = access.space == Space::Global;
        let class = self.rules.classify(access, facts);
        let writes = access.kind != AccessKind::Load;
        let flags = Flags {
            write: writes,
            atomic: access.kind == AccessKind::Atomic,
            sync: class.sync,
            detached: facts.detached && writes,
            object: facts.object && access.kind == AccessKind::Atomic,
            swaps: facts.swaps,
            cluster: global && self.rules.reaches_cluster(access),
        };
        let entry = Entry::new(number, front.epoch, site, access.lane, flags);
        let mut races = Vec::new();
        let clocks = &front.clocks;
        let (rules, waves, cluster) = (&self.rules, &self.waves, self.cluster);
        let place = |other: u32| match waves[other as usize].wave.group {
            other if other == group => Place::Workgroup,
            other if other / cluster == group / cluster => Place::Cluster,
            _ => Place::Elsewhere,
        };
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
            if !of.write && !writes || rules.both_sync(of, flags, place(old.wave)) {
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
                None => reports.report(self, &race)?,
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
        let atomic = access.kind == AccessKind::Atomic;
        if atomic && access.space == Space::Global && self.rules.scoped_atomics {
            let near = &mut self.groups.entry(known.wave.group).or_default().near;
            let clocks = near.entry(word).or_default();
            let released = if class.narrow {
                known.front.acquire_near(clocks);
                Arc::new(known.front.at_barrier())
            } else {
                known.front.acquire(clocks, false);
                known.front.released(&self.rules, false)
            };
            Arc::make_mut(clocks).join(&released);
        }
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
            if atomic {
                Arc::make_mut(map.entry(word).or_default()).join(&released);
            } else {
                map.insert(word, released);
            }
        }
    }

    fn party(
        &self,
        symbols: &Symbols,
        number: u32,
        site: u32,
        lane: u8,
        (write, atomic): (bool, bool),
    ) -> Value {
        let wave = &self.waves[number as usize].wave;
        let mut party = symbols.describe(&self.sites[site as usize]);
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

    fn wave_ends(&mut self, wave: &Wave) {
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
    }

    fn barrier(&mut self, wave: &Wave, barrier: Barrier) {
        let number = self.number(wave);
        let group = wave.group;
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
    }
}

impl Reports {
    fn report(&mut self, running: &Running, race: &Meeting) -> Outcome {
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
            running.sites[old.site as usize].pc,
            running.sites[site as usize].pc,
        );
        let count = self
            .found
            .entry((lds, running.kernel.clone(), pcs.0, pcs.1))
            .or_default();
        *count += 1;
        if *count > 1 || self.found.len() > self.limit {
            return Ok(());
        }
        let of = old.flags();
        let writes = access.kind != AccessKind::Load;
        let party =
            |number, site, lane, does| running.party(&self.symbols, number, site, lane, does);
        let mut record = json!({
            "plugin": "race",
            "space": if lds { "lds" } else { "global" },
            "kernel": running.kernel,
            "address": format!("{at:#x}"),
            "first": party(old.wave, old.site, old.lane, (of.write, of.atomic)),
            "second": party(number, site, access.lane, (writes, access.kind == AccessKind::Atomic)),
        });
        if !lds {
            record["where"] = running.memory.describe(at).into();
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
        self.reports.symbols.add(code);
        Ok(())
    }

    fn dispatch_begins(&mut self, dispatch: &Dispatch<'_>) -> Outcome {
        self.running.insert(dispatch.id, Running::new(dispatch));
        Ok(())
    }

    fn dispatch_ends(&mut self, ended: &Ended<'_>) -> Outcome {
        if let Some(running) = self.running.remove(&ended.id) {
            let groups = running.groups.values().map(|group| group.lds.forgotten());
            self.reports.forgotten += running.global.forgotten() + groups.sum::<u64>();
        }
        Ok(())
    }

    fn wave_begins(&mut self, wave: &Wave) -> Outcome {
        if let Some(running) = self.running.get_mut(&wave.dispatch) {
            running.number(wave);
        }
        Ok(())
    }

    fn wave_ends(&mut self, wave: &Wave) -> Outcome {
        if let Some(running) = self.running.get_mut(&wave.dispatch) {
            running.wave_ends(wave);
        }
        Ok(())
    }

    fn workgroup_ends(&mut self, workgroup: &Workgroup) -> Outcome {
        if let Some(running) = self.running.get_mut(&workgroup.dispatch)
            && let Some(group) = running.groups.remove(&workgroup.linear)
        {
            self.reports.forgotten += group.lds.forgotten();
        }
        Ok(())
    }

    fn before(&mut self, step: &Step<'_>, _: &dyn State) -> Outcome {
        let Some(running) = self.running.get_mut(&step.wave.dispatch) else {
            return Ok(());
        };
        let number = running.number(step.wave);
        running.resume(number);
        let facts = running.facts(&mut self.facts, step.instruction);
        running.waves[number as usize].front.before(&facts);
        Ok(())
    }

    fn accesses(&mut self, step: &Step<'_>, accesses: &[Access], state: &dyn State) -> Outcome {
        let Some(running) = self.running.get_mut(&step.wave.dispatch) else {
            return Ok(());
        };
        let number = running.number(step.wave);
        let site = running.site(step.instruction);
        let facts = running.facts(&mut self.facts, step.instruction);
        for access in accesses.iter().filter(|a| a.space != Space::Scratch) {
            running.access(number, site, access, &facts, state, &mut self.reports)?;
        }
        Ok(())
    }

    fn after(&mut self, step: &Step<'_>, state: &dyn State) -> Outcome {
        let Some(running) = self.running.get_mut(&step.wave.dispatch) else {
            return Ok(());
        };
        for (race, before) in std::mem::take(&mut running.stores) {
            let now = byte_at(state, race.access.space, race.at);
            if now != Some(before) {
                self.reports.report(running, &race)?;
            }
        }
        Ok(())
    }

    fn barrier(&mut self, step: &Step<'_>, barrier: Barrier) -> Outcome {
        if let Some(running) = self.running.get_mut(&step.wave.dispatch) {
            running.barrier(step.wave, barrier);
        }
        Ok(())
    }

    fn finish(&mut self) -> Outcome {
        let reports = &self.reports;
        let count = reports.found.len();
        let record = json!({
            "plugin": "race",
            "event": "summary",
            "races": count,
            "times": reports.total,
            "forgotten_readers": reports.forgotten,
        });
        reports.lines.line(&record.to_string())?;
        reports.lines.flush()?;
        if reports.fail && count > 0 {
            return Err(format!("{count} data races"));
        }
        Ok(())
    }
}
