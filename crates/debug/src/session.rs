//! The thread that talks with the debugger of a program. Dispatches come to it, one has the client's attention, the others
//! wait: while it stands, and when it runs for a turn each, so that kernels that wait for each other get on.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use gdbstub::common::Signal;
use gdbstub::conn::ConnectionExt as _;
use gdbstub::stub::state_machine::GdbStubStateMachine as Machine;
use gdbstub::stub::{DisconnectReason, GdbStub, MultiThreadStopReason as Stop};
use rocjitsu_gpu::dispatch::{Device, DispatchError, Outcome, Stops, Suspended};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd};

use crate::aside::Known;
use crate::connection::{Listener, Remote, Stream};
use crate::debugger::{Debugger, Facts, Runner};
use crate::gate::{Bounds, Event, Inner, Job, Order, Wake};
use crate::protocol::{Left, PACKET};
use crate::registers::Layout;

/// How long a dispatch runs while others wait.
const TURN: Duration = Duration::from_millis(20);

/// A line for the person at the terminal. That it cannot be written is no reason to fail.
pub(crate) fn say(text: &str) {
    use io::Write;
    let _ = writeln!(io::stderr(), "rocjitsu: {text}");
}

/// A dispatch that waits for its turn; one without a state has not begun.
struct Parked {
    job: Rc<Job>,
    suspended: Option<Box<Suspended>>,
}

/// What has happened in the program and has not been dealt with.
struct Inbox {
    events: Receiver<Event>,
    wake: Arc<Wake>,
    waiting: VecDeque<Parked>,
    ran: Option<(u64, Box<Result<Outcome, DispatchError>>)>,
    /// A dispatch whose queue has given it up.
    left: Option<u64>,
    exit: Option<i32>,
}

impl Inbox {
    /// Waits until something happens in the program or there are bytes from `other` to be read; at most for `time`, if
    /// there is one. Returns whether there are bytes.
    fn wait(&mut self, other: Option<BorrowedFd<'_>>, time: Option<Duration>) -> io::Result<bool> {
        let time = time.and_then(|time| Timespec::try_from(time).ok());
        let mut readable = false;
        {
            let mut all = vec![PollFd::new(&self.wake.fd, PollFlags::IN)];
            all.extend(other.map(|other| PollFd::from_borrowed_fd(other, PollFlags::IN)));
            match poll(&mut all, time.as_ref()) {
                Ok(_) => readable = all.get(1).is_some_and(|fd| !fd.revents().is_empty()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut count = [0; 8];
        // It is empty when somebody else's event woke us.
        let _ = rustix::io::read(&self.wake.fd, &mut count);
        while let Ok(event) = self.events.try_recv() {
            self.note(event);
        }
        Ok(readable)
    }

    fn note(&mut self, event: Event) {
        match event {
            Event::Arrived(job) => self.waiting.push_back(Parked {
                job: Rc::new(job),
                suspended: None,
            }),
            Event::Ran(number, outcome) => self.ran = Some((number, outcome)),
            Event::Left(number) => {
                self.waiting.retain(|parked| parked.job.number != number);
                self.left = Some(number);
            }
            Event::Exit(status) => self.exit = Some(status),
        }
    }
}

/// A dispatch that runs on the thread of its queue.
struct OnQueue {
    job: Rc<Job>,
    inbox: Rc<RefCell<Inbox>>,
    client: Arc<Stream>,
    request: Arc<AtomicBool>,
}

impl Runner for OnQueue {
    fn device(&self) -> &Device {
        &self.job.device
    }

    fn go(&mut self, from: Option<Suspended>, stops: &Stops<'_>) -> Result<Outcome, DispatchError> {
        let gone = |what: &str| DispatchError::Invalid {
            kernel: self.job.facts.kernel.clone(),
            what: what.to_owned(),
        };
        let order = Order::Go(from.map(Box::new), Bounds::of(stops, &self.request));
        if self.job.orders.send(order).is_err() {
            return Err(gone("its queue is gone"));
        }
        let mut inbox = self.inbox.borrow_mut();
        let start = Instant::now();
        loop {
            let asked = self.request.load(Ordering::Acquire);
            let takes_turns = stops.request.is_some() && !inbox.waiting.is_empty() && !asked;
            let left = takes_turns.then(|| TURN.saturating_sub(start.elapsed()));
            // Once it is asked to stop there is nothing more to be learnt from the client.
            let client = (!asked).then(|| self.client.as_fd());
            let readable = inbox.wait(client, left);
            let readable = readable.map_err(|error| gone(&error.to_string()))?;
            match inbox.ran.take() {
                Some((number, outcome)) if number == self.job.number => return *outcome,
                _ => {}
            }
            if inbox.left == Some(self.job.number) {
                return Err(gone("its queue has given it up"));
            }
            let over = takes_turns && start.elapsed() >= TURN;
            if readable || over || inbox.exit.is_some() {
                self.request.store(true, Ordering::Release);
            }
        }
    }
}

/// A conversation with the client.
struct Session<'a> {
    gate: &'a Inner,
    inbox: Rc<RefCell<Inbox>>,
    client: Arc<Stream>,
    request: Arc<AtomicBool>,
    layout: Layout,
    /// The dispatch that the debugger has.
    current: Option<Rc<Job>>,
    /// The client has interrupted the program when no dispatch was under way.
    interrupted: bool,
}

/// The thread of the session.
pub(crate) fn run(gate: &Arc<Inner>, listener: Listener, events: Receiver<Event>, wake: Arc<Wake>) {
    let inbox = Rc::new(RefCell::new(Inbox {
        events,
        wake,
        waiting: VecDeque::new(),
        ran: None,
        left: None,
        exit: None,
    }));
    let left = meet(&listener, &inbox).and_then(|remote| {
        drop(listener);
        match remote {
            Some(remote) => talk(gate, &inbox, remote),
            None => Ok(Left::Ended),
        }
    });
    match left {
        Ok(Left::Killed) => (gate.wish.end)(),
        Ok(Left::Lost(why)) => say(&format!(
            "the debugger is gone ({why}); the program goes on without it"
        )),
        Ok(Left::Detached | Left::Ended) => {}
        Err(error) => say(&format!(
            "the debugger failed: {error}; the program goes on"
        )),
    }
    gate.open();
    let mut inbox = inbox.borrow_mut();
    while let Ok(event) = inbox.events.try_recv() {
        inbox.note(event);
    }
    for parked in inbox.waiting.drain(..) {
        let _ = parked.job.orders.send(Order::Free(parked.suspended));
    }
}

/// Waits for the client. `None`: the program has ended before it came.
fn meet(listener: &Listener, inbox: &Rc<RefCell<Inbox>>) -> io::Result<Option<Remote>> {
    let _known = Known::new(listener);
    let mut inbox = inbox.borrow_mut();
    loop {
        if inbox.wait(Some(listener.as_fd()), None)? {
            return listener.accept().map(Some);
        }
        if inbox.exit.is_some() {
            return Ok(None);
        }
    }
}

/// Talks with the client until it leaves or the program has ended.
fn talk(gate: &Inner, inbox: &Rc<RefCell<Inbox>>, remote: Remote) -> io::Result<Left> {
    let client = remote.stream();
    let _known = Known::new(&*client);
    // The dispatch that the client came for may have been given up meanwhile.
    let first = loop {
        let mut inbox = inbox.borrow_mut();
        if let Some(first) = inbox.waiting.pop_front() {
            break first;
        }
        if inbox.exit.is_some() {
            return Ok(Left::Ended);
        }
        inbox.wait(None, None)?;
    };
    let target = first.job.device.target();
    // Waves of either size may come, and clients ask for the registers' sizes once.
    let lanes = match target.has_wave64() && !target.is_cdna() {
        true => 64,
        false => first.job.facts.lanes,
    };
    let mut session = Session {
        gate,
        inbox: inbox.clone(),
        client,
        request: Arc::default(),
        layout: Layout::new(target, lanes),
        current: None,
        interrupted: false,
    };
    let runner = session.runner(&first.job);
    let facts = first.job.facts.clone();
    let mut debugger = Debugger::new(runner, facts, session.layout.clone(), None);
    debugger.program = Some(gate.program.clone());
    session.has(first.job);
    if let Err(error) = debugger.begin() {
        say(&format!("the dispatch does not begin: {error}"));
    }
    let stub = GdbStub::builder(remote).packet_buffer_size(PACKET).build();
    let left = match stub {
        Ok(stub) => session.converse(&mut debugger, stub),
        Err(error) => Ok(Left::Lost(error.to_string())),
    };
    if let Ok(Left::Killed) = left {
        return left;
    }
    gate.open();
    if let Some(job) = session.current {
        let suspended = debugger.suspended.take().map(Box::new);
        let _ = job.orders.send(Order::Free(suspended));
    }
    left
}

impl Session<'_> {
    fn runner(&self, job: &Rc<Job>) -> Box<dyn Runner> {
        Box::new(OnQueue {
            job: job.clone(),
            inbox: self.inbox.clone(),
            client: self.client.clone(),
            request: self.request.clone(),
        })
    }

    fn has(&mut self, job: Rc<Job>) {
        self.gate.program.set_state(job.number, "is debugged");
        self.current = Some(job);
    }

    /// The conversation by the states of the protocol.
    fn converse(
        &mut self,
        debugger: &mut Debugger<'static>,
        stub: GdbStub<'static, Debugger<'static>, Remote>,
    ) -> io::Result<Left> {
        let lost = |error: &dyn std::fmt::Display| Ok(Left::Lost(error.to_string()));
        let mut machine = match stub.run_state_machine(debugger) {
            Ok(machine) => machine,
            Err(error) => return lost(&error),
        };
        loop {
            let next = match machine {
                Machine::Disconnected(machine) => {
                    return Ok(match machine.get_reason() {
                        DisconnectReason::Disconnect => Left::Detached,
                        DisconnectReason::Kill => Left::Killed,
                        DisconnectReason::TargetExited(_)
                        | DisconnectReason::TargetTerminated(_) => Left::Ended,
                    });
                }
                Machine::Idle(mut machine) => {
                    if !machine.borrow_conn().has_buffered() && !self.listen(debugger)? {
                        return Ok(Left::Ended);
                    }
                    match machine.borrow_conn().read() {
                        Ok(byte) => machine.incoming_data(debugger, byte),
                        Err(error) => return lost(&error),
                    }
                }
                Machine::Running(mut machine) => {
                    let stop = match machine.borrow_conn().has_buffered() {
                        true => None,
                        false => self.proceed(debugger)?,
                    };
                    match stop {
                        Some(stop) => machine.report_stop(debugger, stop),
                        None => match machine.borrow_conn().read() {
                            Ok(byte) => machine.incoming_data(debugger, byte),
                            Err(error) => return lost(&error),
                        },
                    }
                }
                Machine::CtrlCInterrupt(machine) => {
                    let stop = match debugger.suspended.is_some() {
                        true => debugger.interrupted(),
                        false => None,
                    };
                    // Between dispatches there is nothing to stop: the next one does at its beginning.
                    self.interrupted |= stop.is_none();
                    machine.interrupt_handled(debugger, stop)
                }
            };
            machine = match next {
                Ok(machine) => machine,
                Err(error) => return lost(&error),
            };
        }
    }

    /// Waits for bytes of a client whose dispatch stands. `false`: the program has ended.
    fn listen(&mut self, debugger: &mut Debugger<'static>) -> io::Result<bool> {
        loop {
            let mut inbox = self.inbox.borrow_mut();
            // A command that has come already is heard: it may wait for the end.
            let time = inbox.exit.map(|_| Duration::ZERO);
            let readable = inbox.wait(Some(self.client.as_fd()), time)?;
            let left = inbox.left.take();
            if left.is_some() && left == self.current.as_ref().map(|job| job.number) {
                self.current = None;
                debugger.suspended = None;
                debugger.has_gone();
            }
            if readable {
                return Ok(true);
            }
            if inbox.exit.is_some() {
                return Ok(false);
            }
        }
    }

    /// Lets dispatches go on. `None`: the client has sent something.
    fn proceed(&mut self, debugger: &mut Debugger<'static>) -> io::Result<Option<Stop<u64>>> {
        loop {
            if self.current.is_some() {
                self.request.store(false, Ordering::Release);
                if let Some(stop) = debugger.advance(&self.request) {
                    return Ok(Some(stop));
                }
                if debugger.suspended.is_none() {
                    self.current = None;
                    self.inbox.borrow_mut().left = None;
                    debugger.has_gone();
                }
            }
            let mut inbox = self.inbox.borrow_mut();
            if let Some(status) = inbox.exit {
                return Ok(Some(Stop::Exited(status as u8)));
            }
            // Without a dispatch there is nothing to do but to wait for one.
            let time =
                (self.current.is_some() || !inbox.waiting.is_empty()).then_some(Duration::ZERO);
            if inbox.wait(Some(self.client.as_fd()), time)? {
                return Ok(None);
            }
            let Some(next) = inbox.waiting.pop_front() else {
                continue;
            };
            if let Some(job) = self.current.take() {
                self.gate.program.set_state(job.number, "waits");
                inbox.waiting.push_back(Parked {
                    job,
                    suspended: debugger.suspended.take().map(Box::new),
                });
            }
            drop(inbox);
            if let Some(stop) = self.turn_to(next, debugger) {
                return Ok(Some(stop));
            }
        }
    }

    /// Gives the debugger another dispatch. Returns why that stops at its beginning, if it does.
    fn turn_to(&mut self, next: Parked, debugger: &mut Debugger<'static>) -> Option<Stop<u64>> {
        let Parked { job, suspended } = next;
        let target = job.device.target();
        if target != self.layout.target() || job.facts.lanes > self.layout.lanes() {
            let (number, kernel, gpu) = (job.number, &job.facts.kernel, &job.gpu);
            say(&format!(
                "dispatch {number}, {kernel}, on {gpu} runs without the debugger, which was told of the registers of {}",
                self.layout.target()
            ));
            let _ = job.orders.send(Order::Free(suspended));
            return None;
        }
        let fresh = suspended.is_none();
        let facts: Facts = job.facts.clone();
        let stops = fresh && (self.interrupted || self.gate.program.stops(&facts.kernel));
        debugger.take(self.runner(&job), facts, suspended.map(|state| *state));
        self.has(job);
        if !stops {
            return None;
        }
        let signal = match std::mem::take(&mut self.interrupted) {
            true => Signal::SIGINT,
            false => Signal::SIGTRAP,
        };
        // Otherwise it has failed before its beginning, and its queue says so.
        debugger.begin().ok()?;
        debugger.settle(signal)
    }
}
