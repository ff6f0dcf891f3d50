//! A suspended dispatch as plain data, to be kept in a file, and back. What follows from the dispatch itself is not kept but
//! worked out again; all the rest is checked, so that no data brings a dispatch into a state that no run has.

use std::collections::HashSet;

use rocjitsu_exec::barrier::NAMED_LIMIT;
use rocjitsu_exec::gws;
use rocjitsu_exec::registers::{PAGE_WORDS, PAGES, PagePool};
use rocjitsu_exec::run::Counts;
use rocjitsu_exec::wave::{Barrier, INDEXING, VGPRS, VSKIP, Waiting, Wave, scalar};
use rocjitsu_isa::Target;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::launch::{self, Resident};
use super::scratch::Regions;
use super::suspend::{Position, Progress};
use super::worker::Cluster;
use super::{Device, Dispatch, DispatchError, Statistics, Suspended, Tally, Who};
use crate::memory::PAGE;

/// A suspended dispatch, without the dispatch and the memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Image {
    started: u64,
    clusters: Vec<ClusterImage>,
    turn: u64,
    /// Regions of scratch: those that no workgroup has.
    free: Vec<u64>,
    /// How many regions were cut from the queue's memory.
    cut: u64,
    instructions: Counts,
    waves: u64,
    seconds: f64,
    register_pages: u64,
    lent_turns: u64,
    passed: Vec<(Who, u64)>,
}

/// More than a dispatch can have done of anything: sums of such numbers are numbers.
const MOST: u64 = 1 << 48;

type BarrierImage = [u32; 4];

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ClusterImage {
    barrier: BarrierImage,
    next: u64,
    groups: Vec<GroupImage>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct GroupImage {
    linear: u64,
    lds: ByteBuf,
    barriers: Vec<BarrierImage>,
    scratch: u64,
    was_shared: bool,
    in_order: bool,
    position: Option<(u32, u32, u64)>,
    waves: Vec<WaveImage>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct WaveImage {
    scalars: Vec<u32>,
    scc: bool,
    pc: u64,
    mode: u32,
    /// VGPR banks, indexing, skipping.
    decode_state: u32,
    hwreg: Vec<u32>,
    waiting: WaitImage,
    barrier_phase: Vec<u32>,
    past_barrier: u8,
    named_barrier: u8,
    /// The pages of registers that exist: number, bytes.
    pages: Vec<(u8, ByteBuf)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum WaitImage {
    No,
    Barrier(u8),
    GwsBarrier(u8, u32),
    GwsSemaphore(u8, u64),
    Turn,
    Order,
    Ended,
}

impl From<Waiting> for WaitImage {
    fn from(waiting: Waiting) -> WaitImage {
        match waiting {
            Waiting::No => WaitImage::No,
            Waiting::Barrier(slot) => WaitImage::Barrier(slot),
            Waiting::Gws(gws::Wait::Barrier { resource, phase }) => {
                WaitImage::GwsBarrier(resource, phase)
            }
            Waiting::Gws(gws::Wait::Semaphore { resource, ticket }) => {
                WaitImage::GwsSemaphore(resource, ticket)
            }
            Waiting::Turn => WaitImage::Turn,
            Waiting::Order => WaitImage::Order,
            Waiting::Ended => WaitImage::Ended,
        }
    }
}

impl From<WaitImage> for Waiting {
    fn from(image: WaitImage) -> Waiting {
        match image {
            WaitImage::No => Waiting::No,
            WaitImage::Barrier(slot) => Waiting::Barrier(slot),
            WaitImage::GwsBarrier(resource, phase) => {
                Waiting::Gws(gws::Wait::Barrier { resource, phase })
            }
            WaitImage::GwsSemaphore(resource, ticket) => {
                Waiting::Gws(gws::Wait::Semaphore { resource, ticket })
            }
            WaitImage::Turn => Waiting::Turn,
            WaitImage::Order => Waiting::Order,
            WaitImage::Ended => Waiting::Ended,
        }
    }
}

/// Why data is no state of a dispatch.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The dispatch cannot run on the device.
    #[error(transparent)]
    Dispatch(#[from] DispatchError),
    /// The state cannot be one of the dispatch.
    #[error("no state of kernel {kernel}: {what}")]
    State {
        /// The kernel.
        kernel: String,
        /// What is wrong.
        what: String,
    },
}

fn of_barrier(b: Barrier) -> BarrierImage {
    [b.members, b.ended, b.signalled, b.phase]
}

fn to_barrier([members, ended, signalled, phase]: BarrierImage) -> Result<Barrier, String> {
    if members.max(ended).max(signalled) > 0xff {
        return Err(format!(
            "a barrier of {members} members, {ended} ended, {signalled} signalled"
        ));
    }
    Ok(Barrier {
        members,
        ended,
        signalled,
        phase,
    })
}

impl WaveImage {
    fn of(wave: &Wave) -> WaveImage {
        let page = |(number, words): (usize, &[u32; PAGE_WORDS])| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            (number as u8, ByteBuf::from(bytes))
        };
        WaveImage {
            scalars: wave.s.to_vec(),
            scc: wave.scc,
            pc: wave.pc,
            mode: wave.mode,
            decode_state: wave.decode_state & !VGPRS,
            hwreg: wave.hwreg.to_vec(),
            waiting: wave.waiting.into(),
            barrier_phase: wave.barrier_phase.to_vec(),
            past_barrier: wave.past_barrier,
            named_barrier: wave.named_barrier,
            pages: wave.v.pages().map(page).collect(),
        }
    }

    /// Brings a wave that has been set up to this state.
    fn put(&self, wave: &mut Wave, target: Target, pool: &mut PagePool) -> Result<(), String> {
        let wrong = |what: String| Err(format!("wave {}: {what}", wave.index));
        let (Ok(scalars), Ok(hwreg), Ok(phases)) = (
            self.scalars.as_slice().try_into(),
            self.hwreg.as_slice().try_into(),
            self.barrier_phase.as_slice().try_into(),
        ) else {
            return wrong("other counts of scalar registers or barriers".to_owned());
        };
        let banks = if target == Target::Gfx1250 { 0xff } else { 0 };
        let modes = if target.is_cdna() {
            INDEXING | VSKIP
        } else {
            0
        };
        if self.decode_state & !(banks | modes) != 0 {
            return wrong(format!("decode state {:#x}", self.decode_state));
        }
        let possible = match self.waiting {
            WaitImage::Barrier(slot) => usize::from(slot) < self.barrier_phase.len(),
            WaitImage::GwsBarrier(resource, _) | WaitImage::GwsSemaphore(resource, _) => {
                usize::from(resource) < gws::COUNT
            }
            _ => true,
        };
        if !possible || u32::from(self.named_barrier) > NAMED_LIMIT {
            let (waiting, named) = (self.waiting, self.named_barrier);
            return wrong(format!("waits for {waiting:?}, named barrier {named}"));
        }
        let mut last = None;
        for (number, bytes) in &self.pages {
            if usize::from(*number) >= PAGES || last >= Some(*number) {
                return wrong(format!("page {number} of its registers"));
            }
            if bytes.len() != 4 * PAGE_WORDS {
                return wrong(format!("{} bytes in a page of registers", bytes.len()));
            }
            last = Some(*number);
        }
        wave.s = scalars;
        wave.s[scalar::NULL] = 0;
        wave.hwreg = hwreg;
        wave.barrier_phase = phases;
        wave.scc = self.scc;
        wave.pc = self.pc;
        wave.mode = self.mode;
        wave.decode_state = wave.decode_state & VGPRS | self.decode_state;
        wave.waiting = self.waiting.into();
        wave.past_barrier = self.past_barrier;
        wave.named_barrier = self.named_barrier;
        wave.v.release(pool);
        for (number, bytes) in &self.pages {
            let words = wave.v.page_mut(usize::from(*number), pool);
            for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
                *word = u32::from_le_bytes(*bytes);
            }
        }
        Ok(())
    }
}

impl GroupImage {
    fn of(resident: &Resident) -> GroupImage {
        let group = &resident.group;
        GroupImage {
            linear: group.linear,
            // SAFETY: no wave of a suspended dispatch executes.
            lds: ByteBuf::from(unsafe { group.lds.bytes() }),
            barriers: group.barriers.iter().map(|b| of_barrier(b.get())).collect(),
            scratch: resident.scratch,
            was_shared: resident.was_shared,
            in_order: resident.in_order,
            position: resident.position.map(|p| (p.first, p.place, p.left)),
            waves: resident.waves.iter().map(WaveImage::of).collect(),
        }
    }

    /// Brings a workgroup that has been set up to this state.
    fn put(
        &self,
        resident: &mut Resident,
        target: Target,
        pool: &mut PagePool,
    ) -> Result<(), String> {
        let group = &mut resident.group;
        let wrong = |what: String| Err(format!("workgroup {}: {what}", self.linear));
        if self.lds.len() != group.lds.len() || self.barriers.len() != group.barriers.len() {
            let (has, bytes) = (self.lds.len(), group.lds.len());
            return wrong(format!("{has} bytes of LDS, {bytes} are allocated"));
        }
        if self.waves.len() != resident.waves.len() {
            let (has, count) = (self.waves.len(), resident.waves.len());
            return wrong(format!("{has} waves, it has {count}"));
        }
        group.lds.bytes_mut().copy_from_slice(&self.lds);
        for (to, from) in group.barriers.iter_mut().zip(&self.barriers) {
            to.set(to_barrier(*from)?);
        }
        for (wave, image) in resident.waves.iter_mut().zip(&self.waves) {
            image
                .put(wave, target, pool)
                .map_err(|what| format!("workgroup {}: {what}", self.linear))?;
        }
        let count = resident.waves.len() as u32;
        resident.group.live = count - resident.waiting(Waiting::Ended);
        resident.was_shared = self.was_shared;
        resident.in_order = self.in_order;
        resident.position = match self.position {
            Some((first, place, left)) if first < count && place < count => {
                let left = left.clamp(1, super::worker::QUANTUM);
                Some(Position { first, place, left })
            }
            Some(_) => return wrong("a turn of a wave that it does not have".to_owned()),
            None => None,
        };
        Ok(())
    }
}

impl Suspended {
    /// The state as plain data. Device memory and global wave sync are the device's and are not in it.
    pub fn image(&self) -> Image {
        let Progress {
            turn,
            clusters,
            regions,
            done,
            passed,
            ..
        } = &self.progress;
        let cluster = |cluster: &Cluster| ClusterImage {
            barrier: of_barrier(cluster.barrier),
            next: cluster.next as u64,
            groups: cluster.groups.iter().map(GroupImage::of).collect(),
        };
        Image {
            started: self.started(),
            clusters: clusters.iter().map(cluster).collect(),
            turn: *turn as u64,
            free: regions.as_ref().map_or(Vec::new(), |r| r.free.clone()),
            cut: regions.as_ref().map_or(0, |r| r.cut),
            instructions: done.instructions,
            waves: done.waves,
            seconds: done.seconds,
            register_pages: done.peak_register_pages as u64,
            lent_turns: done.lent_turns,
            passed: passed.clone(),
        }
    }
}

impl Device {
    /// The state of the device's global wave sync, for [`Device::set_global_sync`].
    pub fn global_sync(&self) -> Vec<[u64; 4]> {
        self.sync.gws.state()
    }

    /// Sets the state of global wave sync, while nothing runs. `false`: it is no such state.
    #[must_use]
    pub fn set_global_sync(&self, state: &[[u64; 4]]) -> bool {
        self.sync.gws.set_state(state)
    }

    /// Makes an image of `dispatch` again what it was. The device's memory has to hold what it held then.
    ///
    /// # Errors
    /// A dispatch that the device cannot run; an image that is none of it.
    pub fn restore(&self, dispatch: &Dispatch, image: &Image) -> Result<Suspended, RestoreError> {
        self.check(dispatch)?;
        let state = |what: String| RestoreError::State {
            kernel: dispatch.name.clone(),
            what,
        };
        let groups = super::groups_of(dispatch);
        let total = groups.iter().product::<u64>();
        let waves_per_group = launch::waves_of(dispatch.workgroup, dispatch.descriptor.wave_size);
        let size: u64 = dispatch.cluster.iter().map(|&n| u64::from(n)).product();
        let resident = (image.clusters.len() as u64).saturating_mul(size);
        let finished = image.started.checked_sub(resident);
        let Some(finished) = finished.filter(|_| {
            image.started <= total
                && image.started.is_multiple_of(size)
                && image.turn <= image.clusters.len() as u64
        }) else {
            let (started, clusters) = (image.started, image.clusters.len());
            return Err(state(format!(
                "{started} of {total} workgroups started, {clusters} clusters of {size} under way"
            )));
        };
        let counts = [image.waves, image.register_pages, image.lent_turns];
        if image.instructions.iter().chain(&counts).any(|&n| n > MOST) {
            return Err(state(format!("counts beyond {MOST}")));
        }
        let mut pool = PagePool::default();
        let (mut clusters, mut seen) = (Vec::new(), HashSet::new());
        let mut used = Vec::new();
        for cluster in &image.clusters {
            let first = cluster.groups.first().map_or(u64::MAX, |g| g.linear);
            let in_row = cluster.groups.iter().zip(first..);
            let good = first < image.started
                && first.is_multiple_of(size)
                && cluster.groups.len() as u64 == size
                && cluster.next < size
                && in_row
                    .into_iter()
                    .all(|(group, linear)| group.linear == linear);
            if !good || !seen.insert(first) {
                return Err(state(format!("a cluster of workgroups from {first} on")));
            }
            let mut restored = Cluster {
                barrier: to_barrier(cluster.barrier).map_err(state)?,
                next: cluster.next as usize,
                ..Cluster::default()
            };
            for group in &cluster.groups {
                let mut resident = Resident::empty();
                launch::shape(self, dispatch, group.linear, group.scratch, &mut resident);
                group
                    .put(&mut resident, self.target, &mut pool)
                    .map_err(state)?;
                used.push(group.scratch);
                restored.live += usize::from(resident.group.live > 0);
                restored.groups.push(resident);
            }
            // One that has ended is no longer under way.
            if restored.live == 0 {
                return Err(state(format!("workgroup {first} has ended")));
            }
            clusters.push(restored);
        }
        let regions = self
            .regions(dispatch, waves_per_group, image, &used)
            .map_err(state)?;
        let progress = Progress {
            next: image.started,
            finished,
            clusters,
            turn: image.turn as usize,
            regions: Some(regions),
            done: Statistics {
                instructions: image.instructions,
                // The numbers of forms are this device's own.
                forms: Tally::default(),
                waves: image.waves,
                workgroups: total,
                seconds: image.seconds,
                peak_register_pages: image.register_pages as usize,
                lent_turns: image.lent_turns,
                helped: 0,
            },
            passed: image.passed.clone(),
            watched: None,
        };
        Ok(Suspended::new(dispatch, self.target, progress))
    }

    /// The regions of scratch of an image whose workgroups have `used` ones: each is an allocation of its own.
    fn regions(
        &self,
        dispatch: &Dispatch,
        waves_per_group: u32,
        image: &Image,
        used: &[u64],
    ) -> Result<Regions, String> {
        let mut regions = Regions::new(&self.memory);
        let none = Regions::new(&self.memory);
        let bytes = super::scratch::Scratch::new(dispatch, waves_per_group, none).per_group();
        if bytes == 0 {
            return match image.free.iter().chain(used).find(|&&region| region != 0) {
                Some(region) => Err(format!("scratch at {region:#x}, of which it has none")),
                None => Ok(regions),
            };
        }
        if dispatch.origin.scratch.is_some() || image.cut != 0 {
            return Err("scratch in the memory of a queue".to_owned());
        }
        let mut all = HashSet::new();
        for &region in image.free.iter().chain(used) {
            let own = self.memory.placed(region) == Some(bytes.next_multiple_of(PAGE))
                && self
                    .memory
                    .allocation(region)
                    .is_some_and(|(_, _, label)| label == super::scratch::LABEL);
            if !own || !all.insert(region) {
                return Err(format!("{region:#x} is no scratch of {bytes} bytes"));
            }
        }
        // Only when all are known to be its own does the dispatch free them in the end.
        regions.all = image.free.iter().chain(used).copied().collect();
        regions.free = image.free.clone();
        Ok(regions)
    }
}
