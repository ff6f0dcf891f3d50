//! Answers to the packets of GDB's remote protocol, and the conversation as a whole.

use std::convert::Infallible;
use std::io;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};

use gdbstub::arch::{Arch, RegId, Registers};
use gdbstub::common::{Signal, Tid};
use gdbstub::conn::ConnectionExt as _;
use gdbstub::stub::run_blocking::{BlockingEventLoop, Event, WaitForStopReasonError};
use gdbstub::stub::{DisconnectReason, GdbStub, MultiThreadStopReason};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadResume, MultiThreadResumeOps, MultiThreadSchedulerLocking,
    MultiThreadSchedulerLockingOps, MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::base::single_register_access::{
    SingleRegisterAccess, SingleRegisterAccessOps,
};
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, HwBreakpoint, HwBreakpointOps, HwWatchpoint, HwWatchpointOps,
    SwBreakpoint, SwBreakpointOps, WatchKind,
};
use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd, MonitorCmdOps};
use gdbstub::target::ext::section_offsets::{Offsets, SectionOffsets, SectionOffsetsOps};
use gdbstub::target::ext::target_description_xml_override::{
    TargetDescriptionXmlOverride, TargetDescriptionXmlOverrideOps,
};
use gdbstub::target::ext::thread_extra_info::{ThreadExtraInfo, ThreadExtraInfoOps};
use gdbstub::target::{Target, TargetError, TargetResult};
use rocjitsu_gpu::dispatch::Watchpoint;
use rustix::event::{PollFd, PollFlags, eventfd, poll};

use crate::connection::Remote;
use crate::debugger::{Action, Debugger, Watched};
use crate::packets::CURRENT;
use crate::registers::Register;

/// Bytes of the longest packet.
pub(crate) const PACKET: usize = 1 << 16;
/// Most breakpoints and most watchpoints that a client may set.
const MOST_PLACES: usize = 4096;

/// How a client left.
#[derive(Debug)]
pub enum Left {
    /// The dispatch has ended, and the client knows.
    Ended,
    /// It wants the dispatch to go on.
    Detached,
    /// It wants the dispatch to end.
    Killed,
    /// The connection broke, or it sent what is no such protocol: the reason.
    Lost(String),
}

/// Talks to a client until it leaves or the dispatch has ended.
pub fn serve(debugger: &mut Debugger<'_>, remote: Remote) -> Left {
    let mut packet = vec![0; PACKET];
    let stub = GdbStub::builder(remote)
        .with_packet_buffer(&mut packet)
        .build();
    let stub = match stub {
        Ok(stub) => stub,
        Err(error) => return Left::Lost(error.to_string()),
    };
    match stub.run_blocking::<Events<'_>>(debugger) {
        Ok(DisconnectReason::Disconnect) => Left::Detached,
        Ok(DisconnectReason::Kill) => Left::Killed,
        Ok(DisconnectReason::TargetExited(_) | DisconnectReason::TargetTerminated(_)) => {
            Left::Ended
        }
        Err(error) => Left::Lost(error.to_string()),
    }
}

/// The waves of AMD GPUs.
#[derive(Debug)]
pub enum Amdgpu {}

/// The registers that all lanes share, as the `g` packet has them. The others are asked for one by one: hundreds of rows of lanes
/// would be too much for each stop.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shared {
    pc: u64,
    bytes: Vec<u8>,
}

/// The number of a register in [`crate::registers::Layout`].
#[derive(Clone, Copy, Debug)]
pub struct Number(usize);

impl Arch for Amdgpu {
    type Usize = u64;
    type Registers = Shared;
    type BreakpointKind = usize;
    type RegId = Number;
}

impl RegId for Number {
    fn from_raw_id(id: usize) -> Option<(Number, Option<NonZeroUsize>)> {
        Some((Number(id), None))
    }
}

impl Registers for Shared {
    type ProgramCounter = u64;

    fn pc(&self) -> u64 {
        self.pc
    }

    fn gdb_serialize(&self, mut write_byte: impl FnMut(Option<u8>)) {
        for &byte in &self.bytes {
            write_byte(Some(byte));
        }
    }

    fn gdb_deserialize(&mut self, bytes: &[u8]) -> Result<(), ()> {
        self.bytes = bytes.to_vec();
        Ok(())
    }
}

impl Target for Debugger<'_> {
    type Arch = Amdgpu;
    type Error = Infallible;

    fn base_ops(&mut self) -> BaseOps<'_, Amdgpu, Infallible> {
        BaseOps::MultiThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_monitor_cmd(&mut self) -> Option<MonitorCmdOps<'_, Self>> {
        Some(self)
    }

    fn support_section_offsets(&mut self) -> Option<SectionOffsetsOps<'_, Self>> {
        Some(self)
    }

    fn support_target_description_xml_override(
        &mut self,
    ) -> Option<TargetDescriptionXmlOverrideOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for Debugger<'_> {
    fn read_registers(&mut self, to: &mut Shared, tid: Tid) -> TargetResult<(), Self> {
        self.current = self.who(tid);
        let wave = self.wave(self.current).ok_or(TargetError::NonFatal)?;
        to.pc = wave.pc;
        to.bytes.clear();
        let all = self.layout.registers().iter();
        for (number, _) in all.take_while(|r| !r.is_vector()).enumerate() {
            self.layout.read(wave, number, &mut to.bytes);
        }
        Ok(())
    }

    fn write_registers(&mut self, from: &Shared, tid: Tid) -> TargetResult<(), Self> {
        let who = self.who(tid);
        let suspended = self.suspended.as_mut().ok_or(TargetError::NonFatal)?;
        let mut wave = suspended.wave_mut(who).ok_or(TargetError::NonFatal)?;
        let mut bytes = from.bytes.as_slice();
        for (number, Register { bytes: size, .. }) in self.layout.registers().iter().enumerate() {
            let Some((value, rest)) = bytes.split_at_checked(*size) else {
                break;
            };
            self.layout.write(&mut wave, number, value);
            bytes = rest;
        }
        Ok(())
    }

    fn support_single_register_access(&mut self) -> Option<SingleRegisterAccessOps<'_, Tid, Self>> {
        Some(self)
    }

    fn read_addrs(&mut self, start: u64, data: &mut [u8], tid: Tid) -> TargetResult<usize, Self> {
        let there = self.read_memory(self.who(tid), start, data);
        // More than half a packet may be only the first part of what is read, behind which no byte may be missing.
        if there == 0 && !data.is_empty() || there < data.len() && data.len() > PACKET / 2 {
            return Err(TargetError::NonFatal);
        }
        Ok(there)
    }

    fn write_addrs(&mut self, start: u64, data: &[u8], tid: Tid) -> TargetResult<(), Self> {
        let written = self.write_memory(self.who(tid), start, data);
        written.then_some(()).ok_or(TargetError::NonFatal)
    }

    fn list_active_threads(&mut self, each: &mut dyn FnMut(Tid)) -> Result<(), Infallible> {
        // The client takes the first one to be the one that has stopped.
        if self.wave(self.current).is_some() {
            each(self.tid(self.current));
        }
        for at in self.all() {
            let who = (at.workgroup, at.wave);
            if who != self.current {
                each(self.tid(who));
            }
        }
        Ok(())
    }

    fn is_thread_alive(&mut self, tid: Tid) -> Result<bool, Infallible> {
        Ok(self.wave(self.who(tid)).is_some())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }

    fn support_thread_extra_info(&mut self) -> Option<ThreadExtraInfoOps<'_, Self>> {
        Some(self)
    }
}

impl SingleRegisterAccess<Tid> for Debugger<'_> {
    fn read_register(
        &mut self,
        tid: Tid,
        Number(number): Number,
        to: &mut [u8],
    ) -> TargetResult<usize, Self> {
        self.current = self.who(tid);
        let wave = self.wave(self.current).ok_or(TargetError::NonFatal)?;
        let mut bytes = Vec::new();
        if !self.layout.read(wave, number, &mut bytes) {
            return Err(TargetError::NonFatal);
        }
        let room = to.get_mut(..bytes.len()).ok_or(TargetError::NonFatal)?;
        room.copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn write_register(
        &mut self,
        tid: Tid,
        Number(number): Number,
        value: &[u8],
    ) -> TargetResult<(), Self> {
        let who = self.who(tid);
        let suspended = self.suspended.as_mut().ok_or(TargetError::NonFatal)?;
        let mut wave = suspended.wave_mut(who).ok_or(TargetError::NonFatal)?;
        let written = self.layout.write(&mut wave, number, value);
        written.then_some(()).ok_or(TargetError::NonFatal)
    }
}

impl MultiThreadResume for Debugger<'_> {
    fn resume(&mut self) -> Result<(), Infallible> {
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> Result<(), Infallible> {
        self.action = Action::default();
        Ok(())
    }

    fn set_resume_action_continue(
        &mut self,
        tid: Tid,
        _: Option<Signal>,
    ) -> Result<(), Infallible> {
        self.action.only = Some(self.who(tid));
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadSingleStep for Debugger<'_> {
    fn set_resume_action_step(&mut self, tid: Tid, _: Option<Signal>) -> Result<(), Infallible> {
        self.action.step = Some(match tid.get() {
            CURRENT => self.current,
            _ => self.who(tid),
        });
        Ok(())
    }
}

impl MultiThreadSchedulerLocking for Debugger<'_> {
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), Infallible> {
        self.action.locked = true;
        Ok(())
    }
}

impl ThreadExtraInfo for Debugger<'_> {
    fn thread_extra_info(&self, tid: Tid, to: &mut [u8]) -> Result<usize, Infallible> {
        let text = self.describe(self.who(tid));
        let pairs = to.iter_mut().zip(text.bytes());
        Ok(pairs.map(|(slot, byte)| *slot = byte).count())
    }
}

impl Breakpoints for Debugger<'_> {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_breakpoint(&mut self) -> Option<HwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Debugger<'_> {
    fn add_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        let room = self.software.len() < MOST_PLACES;
        if room {
            self.software.insert(address);
        }
        Ok(room)
    }

    fn remove_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.software.remove(&address))
    }
}

impl HwBreakpoint for Debugger<'_> {
    fn add_hw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        let room = self.hardware.len() < MOST_PLACES;
        if room {
            self.hardware.insert(address);
        }
        Ok(room)
    }

    fn remove_hw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.hardware.remove(&address))
    }
}

impl HwWatchpoint for Debugger<'_> {
    fn add_hw_watchpoint(
        &mut self,
        address: u64,
        bytes: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        let place = self.watchpoint(self.current, address, bytes);
        let Some(place) = place.filter(|_| self.watched.len() < MOST_PLACES) else {
            return Ok(false);
        };
        let place = Watchpoint {
            loads: kind != WatchKind::Write,
            stores: kind != WatchKind::Read,
            ..place
        };
        self.watched.push(Watched {
            address,
            bytes,
            kind,
            place,
        });
        Ok(true)
    }

    fn remove_hw_watchpoint(
        &mut self,
        address: u64,
        bytes: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        let same = |w: &Watched| (w.address, w.bytes, w.kind) == (address, bytes, kind);
        let found = self.watched.iter().position(same);
        Ok(found.map(|at| self.watched.remove(at)).is_some())
    }
}

impl MonitorCmd for Debugger<'_> {
    fn handle_monitor_cmd(
        &mut self,
        command: &[u8],
        mut out: ConsoleOutput<'_>,
    ) -> Result<(), Infallible> {
        // Clients limit the length of a packet.
        for part in self.monitor(command).as_bytes().chunks(1024) {
            out.write_raw(part);
            out.flush();
        }
        Ok(())
    }
}

impl SectionOffsets for Debugger<'_> {
    fn get_section_offsets(&mut self) -> Result<Offsets<u64>, Infallible> {
        Ok(Offsets::Sections {
            text: self.facts.bias,
            data: self.facts.bias,
            bss: None,
        })
    }
}

impl TargetDescriptionXmlOverride for Debugger<'_> {
    fn target_description_xml(
        &self,
        annex: &[u8],
        offset: u64,
        length: usize,
        to: &mut [u8],
    ) -> TargetResult<usize, Self> {
        if annex != b"target.xml" {
            return Err(TargetError::NonFatal);
        }
        let rest = self.xml.as_bytes();
        let rest = rest.get(usize::try_from(offset).unwrap_or(usize::MAX)..);
        let pairs = to.iter_mut().zip(rest.unwrap_or_default()).take(length);
        Ok(pairs.map(|(slot, byte)| *slot = *byte).count())
    }
}

/// Runs the dispatch while it listens to the client.
struct Events<'a>(std::marker::PhantomData<&'a ()>);

impl<'a> BlockingEventLoop for Events<'a> {
    type Target = Debugger<'a>;
    type Connection = Remote;
    type StopReason = MultiThreadStopReason<u64>;

    fn wait_for_stop_reason(
        debugger: &mut Debugger<'a>,
        remote: &mut Remote,
    ) -> Result<Event<Self::StopReason>, WaitForStopReasonError<Infallible, io::Error>> {
        let failed = WaitForStopReasonError::Connection;
        let stop = if remote.has_buffered() {
            None
        } else {
            proceed(debugger, remote).map_err(failed)?
        };
        match stop {
            Some(stop) => Ok(Event::TargetStopped(stop)),
            None => Ok(Event::IncomingData(remote.read().map_err(failed)?)),
        }
    }

    fn on_interrupt(debugger: &mut Debugger<'a>) -> Result<Option<Self::StopReason>, Infallible> {
        Ok(debugger.interrupted())
    }
}

/// Goes on until the dispatch stops, or the client sends something (`None`).
fn proceed(
    debugger: &mut Debugger<'_>,
    remote: &Remote,
) -> io::Result<Option<MultiThreadStopReason<u64>>> {
    let request = AtomicBool::new(false);
    let stopped = eventfd(0, rustix::event::EventfdFlags::CLOEXEC)?;
    std::thread::scope(|scope| {
        let listener = std::thread::Builder::new().name("debugger".to_owned());
        listener.spawn_scoped(scope, || {
            let mut wanted = [
                PollFd::new(remote, PollFlags::IN),
                PollFd::new(&stopped, PollFlags::IN),
            ];
            while let Err(rustix::io::Errno::INTR) = poll(&mut wanted, None) {}
            request.store(true, Ordering::Release);
        })?;
        let stop = debugger.proceed(&request);
        rustix::io::write(&stopped, &1u64.to_ne_bytes())?;
        Ok(stop)
    })
}
