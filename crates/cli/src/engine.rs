//! Where a launch meets what executes it: a device of the chosen GPU, and its dispatches.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use rocjitsu_config::Gpu;
use rocjitsu_debug::registers::Layout;
use rocjitsu_debug::{Debugger, Facts, Left, Remote, Runner};
use rocjitsu_exec::error::Cause;
use rocjitsu_exec::record::Class;
use rocjitsu_gpu::dispatch::{
    self, Device, Dispatch, DispatchError, HelperPolicy, Limits, Outcome, Stops, Suspended, Why,
    jit,
};
use rocjitsu_gpu::memory::Memory;
use rocjitsu_isa::Target;
use rocjitsu_kfd::FormCount;
use rocjitsu_lanes::Backend;
use rocjitsu_observe::{Code, Observer};
use rocjitsu_plugins::Symbols;

use crate::launch::Launch;
use crate::launch::place::{Compiled, Placed, Statistics};
use crate::output::warn;

/// How to execute.
pub struct Options<'a> {
    /// Worker threads, at least 1.
    pub threads: usize,
    /// Allocate all declared registers of a wave when it starts.
    pub eager_registers: bool,
    /// Told what happens, from any thread.
    pub observer: &'a dyn Observer,
}

/// The lane back end to use: the one that `ROCJITSU_LANES` names, or the best of this host
/// if that is not set or empty.
///
/// # Errors
///
/// A name that is none, or a back end that this host lacks.
pub fn backend() -> Result<Backend> {
    let name = std::env::var_os("ROCJITSU_LANES");
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Ok(Backend::best());
    };
    let name = name.to_string_lossy();
    let backend = Backend::from_name(&name)
        .with_context(|| format!("ROCJITSU_LANES is `{name}`: it takes scalar, avx2 or avx512"))?;
    if !backend.is_supported() {
        let have: Vec<_> = Backend::supported().map(Backend::name).collect();
        bail!(
            "ROCJITSU_LANES asks for `{name}`, which this host lacks; it has {}",
            have.join(", ")
        );
    }
    Ok(backend)
}

/// How a run of a dispatch ended.
pub enum Ended {
    /// With the dispatch.
    Done(Box<Statistics>),
    /// It can go on.
    Suspended(Box<Suspended>),
}

/// The dispatch of a launch that lies in memory.
pub fn dispatch(launch: &Launch, placed: &Placed) -> Dispatch {
    Dispatch {
        name: launch.kernel.name.clone(),
        descriptor: launch.kernel.descriptor,
        entry: placed.entry_address,
        grid: std::array::from_fn(|axis| launch.grid[axis] * launch.block[axis]),
        workgroup: launch.block,
        cluster: launch.cluster,
        group_segment: placed.group_segment_bytes,
        private_segment: placed.private_segment_bytes,
        kernarg: placed.kernarg_address,
        packet: placed.packet_address,
        queue: placed.queue_address,
        id: 0,
        origin: dispatch::Origin::default(),
    }
}

fn how<'a>(options: &Options<'a>, stops: Option<&'a Stops<'a>>) -> dispatch::Options<'a> {
    dispatch::Options {
        threads: options.threads,
        eager_registers: options.eager_registers,
        count_forms: true,
        stops,
        ..dispatch::Options::default()
    }
}

/// Adds to the report of a wave that was stopped the source line of its instruction, if the code object has line tables.
fn with_source(error: DispatchError, launch: &Launch, placed: &Placed) -> DispatchError {
    let mut error = error;
    if let DispatchError::Stopped { pc, from, code, .. } = &mut error {
        let mut symbols = Symbols::default();
        symbols.add(&Code {
            base: placed.code.bias,
            file: launch.code.data(),
        });
        if let Some(place) = symbols.place(from.unwrap_or(*pc)) {
            code.insert_str(0, &format!("\n  source: {}:{}", place.file, place.line));
        }
    }
    error
}

/// The dispatch of a launch as a debugger moves it.
struct Moved<'a> {
    engine: &'a Engine,
    place: (&'a Launch, &'a Placed),
    dispatch: &'a Dispatch,
    options: dispatch::Options<'a>,
    observer: &'a dyn Observer,
    turns: &'a mut dyn Turns,
}

/// Dispatches of the same launch that follow each other under a debugger.
pub trait Turns {
    /// Whether another one follows, with memory made ready for it.
    fn again(&mut self) -> bool;
    /// One has ended.
    fn ended(&mut self, done: Statistics);
}

impl Runner for Moved<'_> {
    fn device(&self) -> &Device {
        &self.engine.device
    }

    fn go(&mut self, from: Option<Suspended>, stops: &Stops<'_>) -> Result<Outcome, DispatchError> {
        let how = dispatch::Options {
            stops: Some(stops),
            ..self.options
        };
        let outcome = match from {
            Some(suspended) => self.device().resume(suspended, how, self.observer),
            None => self.device().start(self.dispatch, how, self.observer),
        };
        let (launch, placed) = self.place;
        let located = |error| with_source(error, launch, placed);
        match outcome.map_err(located)? {
            Outcome::Suspended(suspended, Why::Fault(at, error)) => Ok(Outcome::Suspended(
                suspended,
                Why::Fault(at, located(error)),
            )),
            outcome => Ok(outcome),
        }
    }

    fn again(&mut self) -> bool {
        self.turns.again()
    }

    fn ended(&mut self, done: dispatch::Statistics) {
        self.turns.ended(self.engine.statistics(&done));
    }
}

/// A device that runs launches.
pub struct Engine {
    device: Device,
}

impl Engine {
    /// A device like `gpu` that executes code of `target`, and compiles as `compiler` says.
    ///
    /// # Errors
    ///
    /// This host lacks the back end.
    pub fn new(
        gpu: &Gpu,
        target: Target,
        backend: Backend,
        compiler: jit::Options,
        memory: &Arc<Memory>,
    ) -> Result<Engine> {
        let limits = Limits {
            compute_units: gpu.compute_units,
            waves_per_unit: gpu.simds_per_cu * gpu.waves_per_simd,
            lds_per_unit: gpu.lds_kib << 10,
            xccs: gpu.xccs,
        };
        // Built at the first use, which would count as time of the first dispatch.
        target.table();
        let device = Device::compiling(target, backend, compiler, limits, memory.clone())
            .map_err(|e| anyhow!(e))?;
        Ok(Engine { device })
    }

    /// Makes matrix products plain chains of f32 FMAs: faster, but not the hardware's bits.
    #[must_use]
    pub fn with_fast_matrix(self, fast: bool) -> Self {
        Engine {
            device: self.device.with_fast_matrix(fast),
        }
    }

    /// Gives it threads that take matrix instructions off waves.
    #[must_use]
    pub fn with_helpers(self, count: usize, policy: HelperPolicy) -> Self {
        Engine {
            device: self.device.with_helpers(count, policy),
        }
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Executes one dispatch from its first workgroup to its last.
    ///
    /// # Errors
    ///
    /// A fault, with the instruction and address; an instruction that is not implemented.
    pub fn run(
        &self,
        launch: &Launch,
        placed: &Placed,
        options: &Options<'_>,
    ) -> Result<Statistics> {
        let done = self.device.dispatch(
            &dispatch(launch, placed),
            how(options, None),
            options.observer,
        );
        let done = done.map_err(|error| self.explain(with_source(error, launch, placed)))?;
        Ok(self.statistics(&done))
    }

    /// Executes one dispatch, or what is left of one, to its end or to where `stops` says.
    ///
    /// # Errors
    ///
    /// As [`Engine::run`].
    pub fn go(
        &self,
        launch: &Launch,
        placed: &Placed,
        options: &Options<'_>,
        stops: Option<&Stops<'_>>,
        suspended: Option<Suspended>,
    ) -> Result<Ended> {
        let (how, observer) = (how(options, stops), options.observer);
        let outcome = match suspended {
            Some(suspended) => self.device.resume(suspended, how, observer),
            None => self.device.start(&dispatch(launch, placed), how, observer),
        };
        match outcome.map_err(|error| self.explain(with_source(error, launch, placed)))? {
            Outcome::Done(done) => Ok(Ended::Done(Box::new(self.statistics(&done)))),
            Outcome::Suspended(suspended, _) => Ok(Ended::Suspended(Box::new(suspended))),
        }
    }

    /// Has a debugger move the dispatch, or what is left of one, and those that follow.
    ///
    /// # Errors
    ///
    /// As [`Engine::run`]; the debugger ends the dispatch.
    pub fn debug(
        &self,
        (launch, placed): (&Launch, &Placed),
        options: &Options<'_>,
        suspended: Option<Suspended>,
        remote: Remote,
        turns: &mut dyn Turns,
    ) -> Result<()> {
        let dispatch = dispatch(launch, placed);
        let facts = Facts::of(&dispatch, placed.code.bias);
        let layout = Layout::new(self.device.target(), facts.lanes);
        let runner = Moved {
            engine: self,
            place: (launch, placed),
            dispatch: &dispatch,
            options: how(options, None),
            observer: options.observer,
            turns,
        };
        let mut debugger = Debugger::new(Box::new(runner), facts, layout, suspended);
        debugger.begin().map_err(|error| self.explain(error))?;
        match rocjitsu_debug::serve(&mut debugger, remote) {
            Left::Killed => {
                return Err(match debugger.give_up() {
                    Some(error) => self.explain(error),
                    None => anyhow!("the debugger ended the dispatch"),
                });
            }
            Left::Lost(why) => warn(&format_args!(
                "the debugger is gone ({why}); the launch goes on without it"
            )),
            Left::Detached | Left::Ended => {}
        }
        debugger.finish().map_err(|error| self.explain(error))
    }

    fn statistics(&self, done: &dispatch::Statistics) -> Statistics {
        Statistics {
            wave_instructions: done.total(),
            by_class: Class::ALL
                .into_iter()
                .map(|class| (class.name().to_owned(), done.of(class)))
                .collect(),
            bounded: done.bounded(),
            by_default: done.by_default(),
            forms: FormCount::list(self.device.executed(done).into_iter()),
            waves: done.waves,
            seconds: done.seconds,
            peak_register_pages: done.peak_register_pages as u64,
            lane_back_end: self.device.backend().name().to_owned(),
            compiled: match self.device.compiled() {
                Ok(report) => Compiled::Yes {
                    runs: report.runs,
                    instructions: report.instructions,
                    scalar: report.scalar,
                    refused: report.refused,
                    bytes: report.bytes,
                    seconds: report.seconds,
                    executed: self.device.usage().into(),
                },
                Err(why) => Compiled::No {
                    why: why.to_owned(),
                },
            },
        }
    }

    /// Adds to a fault what lies around the address, by the names of the launch's allocations.
    fn explain(&self, error: DispatchError) -> anyhow::Error {
        match &error {
            DispatchError::Stopped {
                cause: Cause::Memory { address, .. } | Cause::Fetch { address, .. },
                ..
            } => {
                let place = self.device.memory().describe(*address);
                anyhow!("{error}\n  {address:#x} is {place}")
            }
            _ => error.into(),
        }
    }
}
