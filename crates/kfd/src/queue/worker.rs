//! A queue and the thread that works through its packets. The thread starts with the first ring.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rocjitsu_gpu::dispatch::Device;
use rocjitsu_gpu::lock::Mutex;
use rocjitsu_gpu::queue::{Aql, Pm4, QueueFault, Sdma, Step, error};
use rustix::io::Errno;

use super::doorbell::Slot;
use super::engines::Seat;
use super::platform::QueuePlatform;
use super::poller;
use crate::ranks;
use crate::topology::QueueEntry;

/// How long a thread watches its own doorbell before it leaves that to the poller.
const WATCH: Duration = Duration::from_micros(20);
/// How long a packet that waits is tried again without sleeping, and the longest sleep after that:
/// an eighth of the time that it has waited, up to the second value.
const EAGER: Duration = Duration::from_micros(50);
const LATEST: Duration = Duration::from_millis(1);

/// How often a thread that suspends a queue looks whether its waves have stopped.
const STOPPING: Duration = Duration::from_micros(200);

/// What works through packets.
pub(super) enum Processor {
    Aql {
        aql: Aql,
        /// Address of the write index.
        write_index: u64,
    },
    Pm4(Pm4),
    Sdma(Sdma),
}

impl Processor {
    fn step(
        &mut self,
        device: &Device,
        doorbell: u64,
        platform: &QueuePlatform,
        stop: &AtomicBool,
    ) -> Step {
        match self {
            Processor::Aql { aql, .. } => aql.step(device, doorbell, platform, stop),
            Processor::Pm4(pm4) => pm4.step(device, doorbell, platform, stop),
            Processor::Sdma(sdma) => sdma.step(device, doorbell, platform, stop),
        }
    }

    fn move_ring(&mut self, (ring, bytes): (u64, u32)) {
        match self {
            Processor::Aql { aql, .. } => aql.move_ring(ring, bytes.into()),
            Processor::Pm4(pm4) => pm4.move_ring(ring, bytes.into()),
            Processor::Sdma(sdma) => sdma.move_ring(ring, bytes.into()),
        }
    }

    /// The last packet that producers of an AQL queue have claimed, beyond the doorbell. When two
    /// of them ring one after the other, the higher doorbell may be overwritten before anybody
    /// saw it; a packet's header says whether it is there.
    fn claimed(&self, device: &Device, doorbell: u64) -> Option<u64> {
        let Processor::Aql { write_index, .. } = self else {
            return None;
        };
        let mut bytes = [0; 8];
        device.memory().copy_out(*write_index, &mut bytes).ok()?;
        let last = u64::from_le_bytes(bytes).checked_sub(1)?;
        (doorbell != super::doorbell::UNRUNG && last > doorbell).then_some(last)
    }
}

/// A queue of the program.
pub(crate) struct Queue {
    pub(super) gpu: usize,
    slot: Slot,
    /// Its place on a copy engine, if it is a queue of one, and in sysfs.
    _kept: (Option<Seat>, QueueEntry),
    device: Arc<Device>,
    platform: QueuePlatform,
    processor: Mutex<Processor>,
    /// The doorbell that the thread has acted on.
    seen: AtomicU64,
    /// Ends a dispatch under way.
    stop: AtomicBool,
    /// Keeps the thread from starting another packet.
    hold: AtomicBool,
    control: Mutex<Control>,
    changed: Condvar,
    poller: Arc<poller::Shared>,
}

#[derive(Debug, Default)]
struct Control {
    /// Address and bytes of the ring.
    ring: (u64, u32),
    /// The processor has to be told of it.
    moved: bool,
    suspended: bool,
    destroyed: bool,
    /// A fault has stopped the queue.
    dead: bool,
    /// The doorbell has been rung, or the queue resumed.
    work: bool,
    /// The thread is between two sleeps.
    running: bool,
    /// Queue-wide resources (GWS) that were given to it.
    gws: u32,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue")
            .field("gpu", &self.gpu)
            .field("slot", &self.slot)
            .field("control", &self.control)
            .finish_non_exhaustive()
    }
}

impl Queue {
    #[allow(
        clippy::too_many_arguments,
        reason = "each is one part of a queue, and nobody else calls this"
    )]
    pub(super) fn new(
        gpu: usize,
        ring: (u64, u32),
        slot: Slot,
        kept: (Option<Seat>, QueueEntry),
        device: Arc<Device>,
        platform: QueuePlatform,
        processor: Processor,
        poller: Arc<poller::Shared>,
    ) -> Queue {
        platform.recorder.enter(&device);
        Queue {
            gpu,
            seen: AtomicU64::new(super::doorbell::UNRUNG),
            slot,
            _kept: kept,
            device,
            platform,
            processor: Mutex::new(ranks::PROCESSOR, processor),
            stop: AtomicBool::new(false),
            hold: AtomicBool::new(false),
            control: Mutex::new(
                ranks::CONTROL,
                Control {
                    ring,
                    ..Control::default()
                },
            ),
            changed: Condvar::new(),
            poller,
        }
    }

    /// Wakes the thread if the doorbell says something new. Returns whether it did.
    pub(super) fn ring_if_rung(self: &Arc<Self>) -> bool {
        if self.slot.value() == self.seen.load(Ordering::Relaxed) {
            return false;
        }
        let mut control = self.control.lock();
        if control.running || control.suspended || control.destroyed || control.dead {
            return false;
        }
        control.work = true;
        if control.thread.is_none() {
            let queue = self.clone();
            // Without a thread now the next look tries again.
            control.thread = spawn("rocjitsu-queue", move || queue.run()).ok();
        }
        drop(control);
        self.changed.notify_all();
        true
    }

    /// Suspends the queue: returns when none of its waves runs. Those of a dispatch under way stop between two
    /// instructions and stay where they are.
    pub(super) fn suspend(&self) {
        let mut control = self.control.lock();
        control.suspended = true;
        self.hold.store(true, Ordering::Release);
        self.platform.pause.hold();
        // The end of a packet is announced; that waves have stopped is looked for.
        while control.running && control.suspended && !self.platform.pause.is_held() {
            control = control.wait_timeout(&self.changed, STOPPING);
        }
    }

    /// Address and bytes of the ring.
    pub(super) fn ring(&self) -> (u64, u32) {
        self.control.lock().ring
    }

    /// The ring is elsewhere from the next packet on. The queue is suspended.
    pub(super) fn move_to(&self, ring: (u64, u32)) {
        let mut control = self.control.lock();
        control.ring = ring;
        control.moved = true;
    }

    /// Goes on after [`Queue::suspend`].
    pub(super) fn resume(&self) {
        let mut control = self.control.lock();
        if control.suspended && !control.destroyed {
            control.suspended = false;
            self.platform.pause.release();
            control.work = control.thread.is_some();
            self.hold.store(false, Ordering::Release);
            drop(control);
            self.changed.notify_all();
        }
    }

    /// Stops the queue for good, in the middle of a dispatch if there is one.
    pub(super) fn destroy(&self) {
        let mut control = self.control.lock();
        control.destroyed = true;
        self.hold.store(true, Ordering::Release);
        self.stop.store(true, Ordering::Release);
        self.platform.pause.release();
        let thread = control.thread.take();
        drop(control);
        self.changed.notify_all();
        if let Some(thread) = thread {
            // A panic there has left its message.
            let _ = thread.join();
        }
        self.platform.recorder.leave(&self.device);
    }

    /// GWS resources of the queue; `None` only asks.
    pub(super) fn gws(&self, new: Option<u32>) -> u32 {
        let mut control = self.control.lock();
        if let Some(new) = new {
            control.gws = new;
        }
        control.gws
    }

    /// The thread.
    fn run(&self) {
        precise_sleeps();
        loop {
            let mut control = self.control.lock();
            while !control.destroyed && (control.suspended || !control.work) {
                control = control.wait(&self.changed);
            }
            if control.destroyed {
                return;
            }
            control.work = false;
            control.running = true;
            drop(control);
            let alive = self.work();
            let mut control = self.control.lock();
            control.running = false;
            control.dead = !alive;
            drop(control);
            self.changed.notify_all();
            if !alive {
                return;
            }
            self.poller.poke();
        }
    }

    /// Works until there is nothing left to do. Returns whether the queue still can.
    fn work(&self) -> bool {
        let mut processor = self.processor.lock();
        let mut waiting: Option<Instant> = None;
        loop {
            // After a dispatch during which the queue was suspended and resumed, the ring may be another one.
            let mut control = self.control.lock();
            if std::mem::take(&mut control.moved) {
                processor.move_ring(control.ring);
            }
            drop(control);
            if self.hold.load(Ordering::Acquire) {
                return true;
            }
            let doorbell = self.slot.value();
            self.seen.store(doorbell, Ordering::Relaxed);
            match self.step(&mut processor, doorbell) {
                Step::Worked => waiting = None,
                Step::Waiting => back_off(*waiting.get_or_insert_with(Instant::now)),
                Step::Idle => {
                    waiting = None;
                    if self.watch(doorbell) {
                        continue;
                    }
                    match processor.claimed(&self.device, doorbell) {
                        Some(last) if self.step(&mut processor, last) == Step::Worked => {}
                        _ => return true,
                    }
                }
                Step::Fault(fault) => {
                    self.platform.queue_fault(&fault);
                    return false;
                }
            }
        }
    }

    /// Watches the doorbell for a moment. Returns whether it was rung.
    fn watch(&self, doorbell: u64) -> bool {
        let start = Instant::now();
        loop {
            if self.slot.value() != doorbell {
                return true;
            }
            if self.hold.load(Ordering::Relaxed) || start.elapsed() > WATCH {
                return false;
            }
            for _ in 0..16 {
                std::hint::spin_loop();
            }
        }
    }

    /// A step; a panic of the engine stops the queue like a fault.
    fn step(&self, processor: &mut Processor, doorbell: u64) -> Step {
        let step = catch_unwind(AssertUnwindSafe(|| {
            processor.step(&self.device, doorbell, &self.platform, &self.stop)
        }));
        step.unwrap_or_else(|panic| {
            let text = panic
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned());
            Step::Fault(QueueFault {
                code: error::TRAP,
                text: format!(
                    "the simulator itself failed: {}",
                    text.unwrap_or_else(|| "no message".to_owned())
                ),
                memory: None,
            })
        })
    }
}

fn back_off(since: Instant) {
    let waited = since.elapsed();
    if waited < EAGER {
        std::thread::yield_now();
    } else {
        std::thread::sleep((waited / 8).min(LATEST));
    }
}

/// Lets this thread's short sleeps end in time: the usual slack is 50 µs.
pub(super) fn precise_sleeps() {
    // Where it is not allowed, sleeps last longer.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1000));
}

/// Starts a thread that no signal of the program is delivered to.
pub(super) fn spawn(
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, Errno> {
    let blocked = SignalsBlocked::new();
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    drop(blocked);
    thread.map_err(|_| Errno::NOMEM)
}

/// While this lives, signals do not reach the thread; threads that it starts inherit that.
struct SignalsBlocked {
    before: libc::sigset_t,
}

impl SignalsBlocked {
    fn new() -> SignalsBlocked {
        // SAFETY: `all` and `before` are filled by the calls before they are read; the signals
        // that a thread brings on itself stay deliverable.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&mut all);
            for signal in [
                libc::SIGSEGV,
                libc::SIGBUS,
                libc::SIGFPE,
                libc::SIGILL,
                libc::SIGTRAP,
                libc::SIGABRT,
            ] {
                libc::sigdelset(&mut all, signal);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            SignalsBlocked { before }
        }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: `before` is the mask that this thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}
