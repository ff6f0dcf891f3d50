//! A dispatch that plugins watch: tells them of it, its workgroups and waves, and runs waves by the watching loop.

use std::sync::Arc;

use rocjitsu_exec::code::CodeView;
use rocjitsu_exec::record::Class;
use rocjitsu_exec::run::{Counts, Stop, run as run_unwatched};
use rocjitsu_exec::step::{Hit, Stepper, Who};
use rocjitsu_exec::watch::{self, Watch};
use rocjitsu_exec::wave::Cx;
use rocjitsu_observe::{
    Allocation, Ended, Events, Failure, Family, MemoryView, Plugins, Watcher, Wave, Workgroup,
};

use super::launch::{Resident, given, waves_of};
use super::{Device, Dispatch, DispatchError, Statistics};
use crate::memory::Memory;

/// What of a dispatch is watched.
#[derive(Clone, Copy)]
pub(super) struct Watched<'a> {
    plugins: &'a Plugins,
    /// The dispatch's number in the run.
    id: u64,
}

impl<'a> Watched<'a> {
    /// Tells `plugins` of a dispatch that begins.
    pub fn begin(
        plugins: &'a Plugins,
        device: &Device,
        dispatch: &Dispatch,
        workgroups: u64,
    ) -> Result<Watched<'a>, DispatchError> {
        let id = plugins.next_dispatch();
        let memory: Arc<dyn MemoryView> = device.memory.clone();
        let descriptor = &dispatch.descriptor;
        plugins
            .dispatch_begins(&rocjitsu_observe::Dispatch {
                id,
                queue: dispatch.queue,
                kernel: &dispatch.name,
                target: device.target,
                lanes: descriptor.wave_size,
                grid: dispatch.grid,
                workgroup: dispatch.workgroup,
                workgroups,
                waves_per_workgroup: waves_of(dispatch.workgroup, descriptor.wave_size),
                lds: dispatch.group_segment,
                scratch: dispatch.private_segment,
                entry: dispatch.entry,
                kernarg: dispatch.kernarg,
                kernarg_bytes: descriptor.kernarg_size,
                cluster: dispatch.cluster,
                given: given(device.target, descriptor),
                memory: &memory,
            })
            .map_err(|failure| refused(dispatch, failure))?;
        Ok(Watched { plugins, id })
    }

    /// The view of a dispatch that was suspended: `plugins` know it by `id`.
    pub fn again(plugins: &'a Plugins, id: u64) -> Watched<'a> {
        Watched { plugins, id }
    }

    /// The dispatch's number in the run.
    pub fn id(self) -> u64 {
        self.id
    }

    /// Whether the dispatch has to run on one thread.
    pub fn one_thread(&self) -> bool {
        self.plugins.one_thread()
    }

    /// Whether helper threads may take matrix instructions.
    pub fn asynchronous_matrix(&self) -> bool {
        self.plugins.asynchronous_matrix()
    }

    /// Tells of the end.
    pub fn end(
        &self,
        dispatch: &Dispatch,
        done: &Statistics,
        error: Option<&str>,
    ) -> Result<(), DispatchError> {
        let mut families = [0; Family::ALL.len()];
        for class in Class::ALL {
            families[watch::family(class) as usize] += done.of(class);
        }
        let ended = Ended {
            families,
            id: self.id,
            kernel: &dispatch.name,
            instructions: done.total(),
            waves: done.waves,
            seconds: done.seconds,
            error,
        };
        let told = self.plugins.dispatch_ends(&ended);
        told.map_err(|failure| refused(dispatch, failure))
    }
}

fn refused(dispatch: &Dispatch, failure: Failure) -> DispatchError {
    DispatchError::Plugin {
        kernel: dispatch.name.clone(),
        failure,
    }
}

/// How a worker runs waves: watched, or not.
pub(super) struct Runner<'a> {
    dispatch: &'a Dispatch,
    watch: Option<Watch<'a>>,
    id: u64,
    instructions: bool,
    /// For a dispatch that is to stop at some instruction.
    stepper: Option<Stepper<'a>>,
}

impl<'a> Runner<'a> {
    /// For a worker that begins.
    pub fn new(
        dispatch: &'a Dispatch,
        watched: Option<Watched<'a>>,
        stepper: Option<Stepper<'a>>,
    ) -> Runner<'a> {
        let inner = Events::WORKGROUPS | Events::WAVES | Events::INSTRUCTIONS;
        let watched = watched.filter(|w| w.plugins.events().any(inner));
        Runner {
            dispatch,
            id: watched.map_or(0, |w| w.id),
            instructions: watched.is_some_and(|w| w.plugins.events().any(Events::INSTRUCTIONS)),
            watch: watched.map(|w| Watch::new(Watcher::new(w.plugins))),
            stepper,
        }
    }

    /// What stopped the last wave, if something did.
    #[inline(always)]
    pub fn take_hit(&mut self) -> Option<Hit> {
        self.stepper.as_mut().and_then(Stepper::take_hit)
    }

    /// Instructions that were left of the turn of a wave that was stopped.
    pub fn rest(&self) -> u64 {
        self.stepper.as_ref().map_or(1, Stepper::rest)
    }

    /// Waves that may pass the breakpoint that they stand at.
    pub fn passed(&mut self) -> Vec<(Who, u64)> {
        self.stepper.take().map_or(Vec::new(), Stepper::into_passed)
    }

    fn workgroup(&self, resident: &Resident) -> Workgroup {
        Workgroup {
            dispatch: self.id,
            id: resident.group.id,
            linear: resident.group.linear,
            waves: resident.waves.len() as u32,
            lds: resident.group.lds.len() as u32,
        }
    }

    /// A workgroup is ready to run.
    pub fn group_begins(&mut self, resident: &Resident) -> Result<(), DispatchError> {
        let (group, id) = (self.workgroup(resident), self.id);
        let Some(watch) = &mut self.watch else {
            return Ok(());
        };
        let mut told = watch.watcher.workgroup_begins(&group);
        for wave in &resident.waves {
            let wave = name(id, &resident.group, wave);
            told = told.and_then(|()| watch.watcher.wave_begins(&wave));
        }
        told.map_err(|failure| refused(self.dispatch, failure))
    }

    /// A workgroup has ended.
    pub fn group_ends(&mut self, resident: &Resident) -> Result<(), DispatchError> {
        let group = self.workgroup(resident);
        let Some(watch) = &mut self.watch else {
            return Ok(());
        };
        let told = watch.watcher.workgroup_ends(&group);
        told.map_err(|failure| refused(self.dispatch, failure))
    }

    /// Gives a wave its turn.
    #[inline(always)]
    pub fn run(
        &mut self,
        cx: &mut Cx<'_, '_>,
        code: &mut CodeView<'_>,
        quantum: u64,
        counts: &mut Counts,
    ) -> Stop {
        match &mut self.watch {
            Some(watch) if self.instructions => {
                let wave = name(self.id, cx.group, cx.wave);
                watch::run(cx, code, quantum, counts, watch, &wave)
            }
            _ => match &mut self.stepper {
                Some(stepper) => stepper.run(cx, code, quantum, counts),
                None => run_unwatched(cx, code, quantum, counts),
            },
        }
    }

    /// A wave has ended.
    #[inline(always)]
    pub fn wave_ends(
        &mut self,
        group: &rocjitsu_exec::wave::Group,
        wave: &rocjitsu_exec::wave::Wave,
    ) -> Result<(), DispatchError> {
        let Some(watch) = &mut self.watch else {
            return Ok(());
        };
        let told = watch.watcher.wave_ends(&name(self.id, group, wave));
        told.map_err(|failure| refused(self.dispatch, failure))
    }

    /// The worker ends.
    pub fn end(self) -> Result<(), DispatchError> {
        let Some(watch) = self.watch else {
            return Ok(());
        };
        let joined = watch.watcher.end();
        joined.map_err(|failure| refused(self.dispatch, failure))
    }
}

/// Who a wave is.
fn name(
    dispatch: u64,
    group: &rocjitsu_exec::wave::Group,
    wave: &rocjitsu_exec::wave::Wave,
) -> Wave {
    Wave {
        dispatch,
        workgroup: group.id,
        group: group.linear,
        index: wave.index,
        lanes: wave.lanes,
    }
}

impl MemoryView for Memory {
    fn read(&self, address: u64, to: &mut [u8]) -> bool {
        self.copy_out(address, to).is_ok()
    }

    fn allocation(&self, address: u64) -> Option<Allocation> {
        let (start, bytes, label) = Memory::allocation(self, address)?;
        Some(Allocation {
            start,
            bytes,
            label,
        })
    }

    fn allocations(&self) -> Vec<Allocation> {
        let all = Memory::allocations(self).into_iter();
        all.map(|(start, bytes, label)| Allocation {
            start,
            bytes,
            label,
        })
        .collect()
    }

    fn describe(&self, address: u64) -> String {
        Memory::describe(self, address)
    }

    fn is_untouched(&self, address: u64) -> bool {
        Memory::is_untouched(self, address)
    }
}
