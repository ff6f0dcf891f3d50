//! Where the dispatches of a program's queues meet its debugger. A dispatch that the debugger wants is run by the thread of
//! its queue as before, but only as far as the thread of the session says; all others pass.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Acquire;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rocjitsu_gpu::dispatch::{
    Breakpoint, Device, Dispatch, DispatchError, Options, Outcome, Statistics, Stops, Suspended,
    Watchpoint, Who,
};
use rocjitsu_gpu::queue::loaded_code;
use rocjitsu_observe::Observer;
use rustix::event::{EventfdFlags, eventfd};

use crate::aside::{Known, high};
use crate::connection::{Address, Listener};
use crate::debugger::Facts;
use crate::program::Program;
use crate::session;

/// How often a dispatch that stands still looks whether its queue is taken down.
const LOOK: Duration = Duration::from_millis(20);
/// How long a program that ends waits until the client knows.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a debugger of a program is to do.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Where to wait for it.
    pub address: Address,
    /// Only dispatches of kernels whose names contain this are debugged.
    pub kernel: Option<String>,
    /// Which of these stops at its beginning and waits, from 1 on. Those before it pass.
    pub number: u64,
    /// Ends the program when the debugger says so. Does not return.
    pub end: fn(),
}

/// The debugger of a program.
#[derive(Debug)]
pub struct Gate(Arc<Inner>);

/// What the threads of queues and that of the session share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub wish: Wish,
    pub program: Arc<Program>,
    state: Mutex<State>,
    /// The client knows that the program has ended, or there is none.
    told: Condvar,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// Dispatches of wanted kernels that have come.
    seen: u64,
}

#[derive(Debug)]
enum Phase {
    /// The dispatch that is to stop has not come.
    Before,
    /// There is a session, which wants to know what happens.
    Under(Bell),
    /// Nobody debugs the program any more.
    Free,
}

/// Tells the session something.
#[derive(Clone, Debug)]
pub(crate) struct Bell {
    events: Sender<Event>,
    wake: Arc<Wake>,
}

/// What the session's thread waits for beside its client.
#[derive(Debug)]
pub(crate) struct Wake {
    pub fd: rustix::fd::OwnedFd,
    _known: Known,
}

impl Bell {
    /// `false`: the session is over.
    fn ring(&self, event: Event) -> bool {
        let heard = self.events.send(event).is_ok();
        // A counter that is full wakes as well.
        let _ = rustix::io::write(&self.wake.fd, &1u64.to_ne_bytes());
        heard
    }
}

/// What happens in the program.
pub(crate) enum Event {
    /// A dispatch is ready to begin.
    Arrived(Job),
    /// A dispatch was run as far as it was ordered, or has ended.
    Ran(u64, Box<Result<Outcome, DispatchError>>),
    /// A dispatch has been given up by its queue.
    Left(u64),
    /// The program ends with this status.
    Exit(i32),
}

/// A dispatch as the session knows it.
pub(crate) struct Job {
    /// Its number in the program, from 1 on.
    pub number: u64,
    pub facts: Facts,
    pub device: Arc<Device>,
    pub gpu: String,
    pub orders: Sender<Order>,
}

/// What the thread of a queue is to do with its dispatch.
pub(crate) enum Order {
    /// Run it as far as the bounds say.
    Go(Option<Box<Suspended>>, Bounds),
    /// Run it to its end; nobody debugs it.
    Free(Option<Box<Suspended>>),
}

/// [`Stops`] that can be sent.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    request: Option<Arc<AtomicBool>>,
    after: Option<u64>,
    breakpoints: Vec<Breakpoint>,
    watchpoints: Vec<Watchpoint>,
    step: Option<Who>,
    faults: bool,
}

impl Bounds {
    /// `request` takes the place of the one that the stops have.
    pub fn of(stops: &Stops<'_>, request: &Arc<AtomicBool>) -> Bounds {
        Bounds {
            request: stops.request.map(|_| request.clone()),
            after: stops.after,
            breakpoints: stops.breakpoints.to_vec(),
            watchpoints: stops.watchpoints.to_vec(),
            step: stops.step,
            faults: stops.faults,
        }
    }

    fn stops(&self) -> Stops<'_> {
        Stops {
            request: self.request.as_deref(),
            after: self.after,
            breakpoints: &self.breakpoints,
            watchpoints: &self.watchpoints,
            step: self.step,
            faults: self.faults,
        }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on dispatches pass. What was sent before can still be received.
    pub fn open(&self) {
        self.lock().phase = Phase::Free;
        self.told.notify_all();
    }

    /// Starts a session for the first dispatch that is wanted. The program goes on without one if that fails.
    fn start(self: &Arc<Inner>, first: &str) -> std::io::Result<Bell> {
        let address = &self.wish.address;
        let listener = Listener::bind_aside(address).map_err(|error| {
            std::io::Error::new(error.kind(), format!("cannot listen at {address}: {error}"))
        })?;
        let fd = high(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let wake = Arc::new(Wake {
            _known: Known::new(&fd),
            fd,
        });
        let (events, receiver) = channel();
        let address = listener.address().to_string();
        let thread = std::thread::Builder::new().name("rocjitsu-gdb".to_owned());
        let (gate, heard) = (self.clone(), wake.clone());
        thread.spawn(move || session::run(&gate, listener, receiver, heard))?;
        session::say(&format!("{first} waits for a debugger at {address}"));
        Ok(Bell { events, wake })
    }

    /// Tells the session of a dispatch, if that wants it; `None` if it passes.
    fn admit(
        self: &Arc<Inner>,
        (gpu, device): (&str, &Arc<Device>),
        dispatch: &Dispatch,
    ) -> Option<Admitted> {
        // Held until the session has been told, which so hears of dispatches in the order of their numbers.
        let mut state = self.lock();
        if matches!(state.phase, Phase::Free) {
            return None;
        }
        let number = self.program.arrives(gpu, dispatch);
        let kernel = self.wish.kernel.as_deref().unwrap_or_default();
        let wanted = dispatch.name.contains(kernel);
        state.seen += u64::from(wanted);
        let bell = match &state.phase {
            _ if !wanted => None,
            Phase::Under(bell) => Some(bell.clone()),
            _ if state.seen < self.wish.number => None,
            _ => {
                let first = format!("dispatch {number}, {}, on {gpu}", dispatch.name);
                match self.start(&first) {
                    Ok(bell) => {
                        state.phase = Phase::Under(bell.clone());
                        Some(bell)
                    }
                    Err(error) => {
                        state.phase = Phase::Free;
                        session::say(&format!("no debugger: {error}"));
                        None
                    }
                }
            }
        };
        let Some(bell) = bell else {
            self.program.set_state(number, "is not debugged");
            return None;
        };
        let bias = loaded_code(device.memory(), dispatch.entry).map_or(0, |code| code.base);
        let (orders, inbox) = channel();
        let heard = bell.ring(Event::Arrived(Job {
            number,
            facts: Facts::of(dispatch, bias),
            device: device.clone(),
            gpu: gpu.to_owned(),
            orders,
        }));
        heard.then_some(Admitted {
            bell,
            number,
            inbox,
        })
    }
}

/// A dispatch that the session has been told of.
struct Admitted {
    bell: Bell,
    number: u64,
    inbox: Receiver<Order>,
}

impl Gate {
    /// A debugger as it is wished.
    pub fn new(wish: Wish) -> Gate {
        Gate(Arc::new(Inner {
            wish,
            program: Arc::default(),
            state: Mutex::new(State {
                phase: Phase::Before,
                seen: 0,
            }),
            told: Condvar::new(),
        }))
    }

    /// Runs a dispatch of a queue to its end, as [`Device::dispatch`] does, with the debugger if it is wanted.
    /// `gpu`: what a person calls the device.
    ///
    /// # Errors
    /// As [`Device::dispatch`].
    pub fn run(
        &self,
        (gpu, device): (&str, &Arc<Device>),
        dispatch: &Dispatch,
        options: Options<'_>,
        observer: &dyn Observer,
    ) -> Result<Statistics, DispatchError> {
        let Some(admitted) = self.0.admit((gpu, device), dispatch) else {
            return device.dispatch(dispatch, options, observer);
        };
        let queue = Standing {
            device,
            dispatch,
            options,
            observer,
        };
        let done = queue.obey(&admitted);
        let state = if done.is_ok() { "has ended" } else { "failed" };
        self.0.program.set_state(admitted.number, state);
        done
    }

    /// The program ends: the client is told, if it waits for something. Returns when it knows, or soon.
    pub fn exit(&self, status: i32) {
        let state = self.0.lock();
        let Phase::Under(bell) = &state.phase else {
            return;
        };
        if bell.ring(Event::Exit(status)) {
            let open = |state: &mut State| matches!(state.phase, Phase::Under(_));
            let _ = self.0.told.wait_timeout_while(state, PATIENCE, open);
        }
    }
}

/// A dispatch on the thread of its queue.
struct Standing<'a> {
    device: &'a Device,
    dispatch: &'a Dispatch,
    options: Options<'a>,
    observer: &'a dyn Observer,
}

impl Standing<'_> {
    fn go(
        &self,
        from: Option<Box<Suspended>>,
        stops: Option<&Stops<'_>>,
    ) -> Result<Outcome, DispatchError> {
        let how = Options {
            stops,
            ..self.options
        };
        match from {
            Some(from) => self.device.resume(*from, how, self.observer),
            None => self.device.start(self.dispatch, how, self.observer),
        }
    }

    /// Does what the session says until the dispatch has ended.
    fn obey(&self, admitted: &Admitted) -> Result<Statistics, DispatchError> {
        let Admitted {
            bell,
            number,
            inbox,
        } = admitted;
        let mut begun = false;
        loop {
            let order = self.wait(inbox);
            let (from, bounds) = match order {
                Ok(Order::Go(from, bounds)) => (from, bounds),
                Ok(Order::Free(from)) => return self.to_the_end(from),
                Err(RecvTimeoutError::Timeout) => {
                    bell.ring(Event::Left(*number));
                    return Err(DispatchError::Stop {
                        kernel: self.dispatch.name.clone(),
                        finished: 0,
                        workgroups: 0,
                    });
                }
                // The session failed; what it had of the dispatch is lost.
                Err(RecvTimeoutError::Disconnected) if begun => {
                    return Err(self.failed("the debugger failed and took its state along"));
                }
                Err(RecvTimeoutError::Disconnected) => return self.to_the_end(None),
            };
            begun = true;
            let (told, result) = match self.go(from, Some(&bounds.stops())) {
                Ok(Outcome::Suspended(suspended, why)) => {
                    (Ok(Outcome::Suspended(suspended, why)), None)
                }
                Ok(Outcome::Done(done)) => (Ok(Outcome::Done(done.clone())), Some(Ok(done))),
                Err(error) => (Err(self.failed(&error.to_string())), Some(Err(error))),
            };
            bell.ring(Event::Ran(*number, Box::new(told)));
            if let Some(result) = result {
                return result;
            }
        }
    }

    fn failed(&self, what: &str) -> DispatchError {
        DispatchError::Invalid {
            kernel: self.dispatch.name.clone(),
            what: what.to_owned(),
        }
    }

    /// The next order. `Timeout`: the dispatch is to end, its queue goes away.
    fn wait(&self, inbox: &Receiver<Order>) -> Result<Order, RecvTimeoutError> {
        // Who suspends the queue meanwhile finds its waves standing.
        let _standing = self.options.pause.map(|pause| pause.stand());
        loop {
            match inbox.recv_timeout(LOOK) {
                Err(RecvTimeoutError::Timeout)
                    if !self.options.stop.is_some_and(|stop| stop.load(Acquire)) => {}
                order => return order,
            }
        }
    }

    fn to_the_end(&self, from: Option<Box<Suspended>>) -> Result<Statistics, DispatchError> {
        match self.go(from, None)? {
            Outcome::Done(statistics) => Ok(statistics),
            Outcome::Suspended(..) => Err(self.failed("it stopped without a reason")),
        }
    }
}
