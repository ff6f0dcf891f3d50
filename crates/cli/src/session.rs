//! A launch under way: placed in a GPU's memory, run dispatch by dispatch, kept in a checkpoint and taken up from one.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rocjitsu_debug::Remote;
use rocjitsu_exec::record::Class;
use rocjitsu_exec::wave::{Waiting, Wave};
use rocjitsu_gpu::dispatch::{HelperPolicy, Stops, Suspended};
use rocjitsu_gpu::memory::Memory;
use rocjitsu_kfd::FormCount;
use rocjitsu_lanes::Backend;
use rocjitsu_observe::{Code, Plugins, Progress, Silent, With};
use rocjitsu_plugins::MemoryWishes;

use crate::checkpoint::{Parts, State, file};
use crate::commands::gpu::{Host, Request};
use crate::commands::outcome::Report;
use crate::commands::plugins::Watching;
use crate::engine::{self, Ended, Engine, Turns};
use crate::launch::Launch;
use crate::launch::place::{Placed, Statistics};
use crate::output::{chain, count, lines, peak_resident_bytes, progress};
use crate::runs::Runs;

/// How far to go.
#[derive(Clone, Copy, Debug)]
pub enum Until<'a> {
    /// To the end.
    End,
    /// To where this dispatch would begin, counted from 1.
    Dispatch(u32),
    /// Until as many wave instructions of the launch have executed.
    Instruction(u64),
    /// Until this is set.
    Asked(&'a AtomicBool),
}

/// A launch under way.
pub struct Session {
    /// The launch.
    pub launch: Launch,
    /// What it runs on.
    pub host: Host,
    request: Request,
    memory: Arc<Memory>,
    engine: Engine,
    placed: Placed,
    repeat: u32,
    runs: Runs,
    suspended: Option<Suspended>,
    /// What the dispatch under way executed before it was kept in a file, by form.
    before: Vec<FormCount>,
}

/// Time between two looks for the bar.
const EVERY: Duration = Duration::from_millis(500);

/// How far a launch is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Look {
    /// The dispatch under way, from 1 on.
    pub dispatch: u32,
    /// Dispatches that the launch makes.
    pub repeat: u32,
    /// Workgroups of the dispatch that have ended.
    pub ended: u64,
    /// Workgroups of a dispatch.
    pub groups: u64,
    /// Workgroups under way.
    pub under_way: u64,
    /// Wave instructions of all dispatches up to now.
    pub instructions: u64,
    /// The same by class.
    pub by_class: Vec<(&'static str, u64)>,
    /// Register pages of 4 KiB in use at most.
    pub register_pages: u64,
    /// Waves under way.
    pub waves: u64,
    /// Of them, those that wait at a barrier.
    pub at_barriers: u64,
    /// Bytes of the launch's buffers.
    pub buffers: u64,
    /// Most bytes of memory that this process has had, if that is known.
    pub resident: Option<u64>,
}

impl Look {
    /// How much of the launch is done, from 0 to 1.
    pub fn done(&self) -> f64 {
        let before = f64::from(self.dispatch.saturating_sub(1));
        let part = self.ended as f64 / self.groups.max(1) as f64;
        ((before + part) / f64::from(self.repeat.max(1))).min(1.0)
    }

    /// How long the rest takes if it goes on as it went in the time that it `ran`. `None`: nothing is done yet.
    pub fn left(&self, ran: Duration) -> Option<Duration> {
        let done = self.done();
        let left = ran.as_secs_f64() * (1.0 - done) / done;
        Duration::try_from_secs_f64(left).ok()
    }
}

/// Adds what a dispatch had executed before it was kept in a file.
fn add_forms(done: &mut Statistics, before: &mut Vec<FormCount>) {
    let forms = std::mem::take(&mut done.forms);
    done.forms = FormCount::sum(before.drain(..).chain(forms));
}

/// The dispatches that a debugger moves.
struct UnderDebugger<'a> {
    launch: &'a Launch,
    memory: &'a Memory,
    placed: &'a Placed,
    /// Dispatches that have not ended.
    left: u32,
    runs: &'a mut Runs,
    before: &'a mut Vec<FormCount>,
    wrong: Option<anyhow::Error>,
}

impl Turns for UnderDebugger<'_> {
    fn again(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            self.wrong = self.launch.fill_buffers(self.memory, self.placed).err();
        }
        self.left > 0 && self.wrong.is_none()
    }

    fn ended(&mut self, mut done: Statistics) {
        add_forms(&mut done, self.before);
        self.runs.add(done);
    }
}

/// What is asked of the host where a launch is taken up, in place of what was asked where it began.
#[derive(Clone, Copy, Debug, Default)]
pub struct Instead {
    /// Worker threads.
    pub threads: Option<u32>,
    /// The lane back end.
    pub lanes: Option<Backend>,
}

impl Session {
    /// Places a launch that is to be dispatched `repeat` times, each time with fresh buffers.
    ///
    /// # Errors
    ///
    /// A launch that cannot be placed, a host that cannot run it.
    pub fn new(launch: Launch, request: Request, host: Host, repeat: u32) -> Result<Session> {
        Session::watched(launch, request, host, repeat, MemoryWishes::default())
    }

    /// The same with a memory as plugins want it.
    ///
    /// # Errors
    ///
    /// As [`Session::new`].
    pub fn watched(
        launch: Launch,
        request: Request,
        host: Host,
        repeat: u32,
        wishes: MemoryWishes,
    ) -> Result<Session> {
        let memory = Arc::new(Memory::new(host.gpu.vram_bytes));
        memory.set_guard(wishes.redzone.unwrap_or(0));
        if wishes.touches {
            memory
                .follow_touches()
                .context("cannot make a file in memory")?;
        }
        let engine = engine(&launch, &host, &memory)?;
        let placed = launch.place(&memory)?;
        Ok(Session {
            launch,
            host,
            request,
            memory,
            engine,
            placed,
            repeat,
            runs: Runs::default(),
            suspended: None,
            before: Vec::new(),
        })
    }

    /// Tells plugins of the code, before it runs.
    ///
    /// # Errors
    ///
    /// Those of the plugins.
    pub fn tell(&self, plugins: &Plugins) -> Result<()> {
        Ok(plugins.code_loaded(&Code {
            base: self.placed.code.bias,
            file: self.launch.code.data(),
        })?)
    }

    /// Wave instructions that have executed, over all dispatches.
    pub fn instructions(&self) -> u64 {
        let now = self.suspended.as_ref();
        let now = now.map_or(0, |suspended| suspended.statistics().total());
        self.runs.instructions.saturating_add(now)
    }

    /// Dispatches that the launch is to make.
    pub fn repeat(&self) -> u32 {
        self.repeat
    }

    /// Dispatches that have ended.
    pub fn dispatches(&self) -> u32 {
        self.runs.count
    }

    /// Workgroups of the dispatch under way that have ended, if there is one, and of how many.
    pub fn workgroups(&self) -> Option<(u64, u64)> {
        let suspended = self.suspended.as_ref()?;
        Some((suspended.finished(), suspended.total()))
    }

    /// Goes on as far as `until` says. Returns whether the launch has ended.
    ///
    /// # Errors
    ///
    /// A fault of the execution, one of a plugin.
    pub fn go(&mut self, until: Until<'_>, quiet: bool, plugins: Option<&Plugins>) -> Result<bool> {
        while self.runs.count < self.repeat {
            let turn = self.runs.count;
            if self.suspended.is_none() {
                if matches!(until, Until::Dispatch(number) if number <= turn + 1) {
                    return Ok(false);
                }
                if turn > 0 {
                    self.launch.fill_buffers(&self.memory, &self.placed)?;
                }
            }
            let stops = match until {
                Until::End | Until::Dispatch(_) => None,
                Until::Instruction(number) => Some(Stops {
                    after: Some(number.saturating_sub(self.runs.instructions)),
                    ..Stops::default()
                }),
                Until::Asked(asked) => Some(Stops {
                    request: Some(asked),
                    ..Stops::default()
                }),
            };
            let grid = self.launch.grid.iter().map(|&n| u64::from(n));
            let groups = grid.fold(1, u64::saturating_mul);
            let bar = progress(groups, quiet);
            let advance = Progress(|ended, _| bar.set_position(ended));
            let options = engine::Options {
                threads: self.host.threads,
                eager_registers: self.host.eager_registers,
                observer: &With(advance, plugins),
            };
            let suspended = self.suspended.take();
            let run = self.engine.go(
                &self.launch,
                &self.placed,
                &options,
                stops.as_ref(),
                suspended,
            );
            bar.finish_and_clear();
            match run? {
                Ended::Done(mut statistics) => {
                    add_forms(&mut statistics, &mut self.before);
                    self.runs.add(*statistics);
                }
                Ended::Suspended(suspended) => {
                    self.suspended = Some(*suspended);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Goes on to the end. Where somebody looks on, how far it is is shown on standard error, below what plugins record there.
    ///
    /// # Errors
    ///
    /// As [`Session::go`].
    pub fn finish(&mut self, quiet: bool, watching: Option<&Watching>) -> Result<bool> {
        let plugins = watching.map(|watching| &watching.plugins);
        if quiet || !io::stderr().is_terminal() {
            return self.go(Until::End, quiet, plugins);
        }
        let (bar, start) = (progress(0, false), Instant::now());
        let mut before = (0, Duration::ZERO);
        let wait = || std::thread::park_timeout(EVERY);
        let ended = self.watch(&wait, plugins, &mut |look| {
            let records = watching.map(Watching::take_records).unwrap_or_default();
            if !records.is_empty() {
                bar.suspend(|| lines(&records));
            }
            let (now, new) = (start.elapsed(), look.instructions - before.0);
            let speed = new as f64 / (now - before.1).as_secs_f64().max(1e-6);
            before = (look.instructions, now);
            bar.set_length(look.groups);
            bar.set_position(look.ended);
            let left = look.left(now);
            let left = left.map_or("?".to_owned(), crate::tui::view::time);
            bar.set_message(format!(
                "workgroups of dispatch {} of {}, {} wave instructions/s, {left} left",
                look.dispatch,
                look.repeat,
                count(speed)
            ));
            Ok(ControlFlow::Continue(()))
        });
        bar.finish_and_clear();
        ended
    }

    /// Goes on to the end, and stops whenever `tick`, which runs on a thread of its own, has returned, so that `each` can
    /// look, and stop the launch. Returns whether it has come to its end.
    ///
    /// # Errors
    ///
    /// As [`Session::go`]; those of `each`.
    pub fn watch(
        &mut self,
        tick: &(dyn Fn() + Send + Sync),
        plugins: Option<&Plugins>,
        each: &mut dyn FnMut(Look) -> Result<ControlFlow<()>>,
    ) -> Result<bool> {
        let (asked, over) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let ticks = std::thread::Builder::new().name("looks".to_owned());
            let ticks = ticks.spawn_scoped(scope, || {
                while !over.load(Ordering::Acquire) {
                    tick();
                    asked.store(true, Ordering::Release);
                }
            })?;
            let mut go = || {
                loop {
                    asked.store(false, Ordering::Release);
                    let ended = self.go(Until::Asked(&asked), true, plugins)?;
                    if each(self.look())?.is_break() && !ended {
                        return Ok(false);
                    }
                    if ended {
                        return Ok(true);
                    }
                }
            };
            let ended = go();
            over.store(true, Ordering::Release);
            ticks.thread().unpark();
            ended
        })
    }

    /// How far it is.
    fn look(&self) -> Look {
        let runs = &self.runs;
        let of_class = |class: Class| runs.by_class.get(class.name()).copied().unwrap_or(0);
        let mut look = Look {
            dispatch: self.repeat.min(runs.count.saturating_add(1)),
            repeat: self.repeat,
            instructions: runs.instructions,
            by_class: Class::ALL
                .map(|class| (class.name(), of_class(class)))
                .to_vec(),
            register_pages: runs.peak_register_pages,
            groups: self.launch.grid.iter().map(|&n| u64::from(n)).product(),
            buffers: {
                let sizes = self.launch.buffers.iter().map(|b| b.content.len() as u64);
                sizes.sum()
            },
            resident: peak_resident_bytes(),
            ..Look::default()
        };
        if runs.count >= self.repeat {
            look.ended = look.groups;
        }
        if let Some(suspended) = &self.suspended {
            let done = suspended.statistics();
            look.ended = suspended.finished();
            look.instructions += done.total();
            for ((_, all), class) in look.by_class.iter_mut().zip(Class::ALL) {
                *all += done.of(class);
            }
            let pages = done.peak_register_pages as u64;
            look.register_pages = look.register_pages.max(pages);
            for group in suspended.groups() {
                let live = || group.waves().iter().filter(|w| w.waiting != Waiting::Ended);
                look.under_way += u64::from(live().next().is_some());
                look.waves += live().count() as u64;
                let at_barrier = |wave: &&Wave| matches!(wave.waiting, Waiting::Barrier(_));
                look.at_barriers += live().filter(at_barrier).count() as u64;
            }
        }
        look
    }

    /// Has a debugger move the launch, and goes on to the end when it has left.
    ///
    /// # Errors
    ///
    /// As [`Session::go`]; the debugger ends the launch.
    pub fn debug(&mut self, remote: Remote) -> Result<()> {
        let left = self.repeat.saturating_sub(self.runs.count);
        if left == 0 {
            return Ok(());
        }
        let (launch, memory, placed) = (&self.launch, &self.memory, &self.placed);
        if self.suspended.is_none() && self.runs.count > 0 {
            launch.fill_buffers(memory, placed)?;
        }
        let mut turns = UnderDebugger {
            launch,
            memory,
            placed,
            left,
            runs: &mut self.runs,
            before: &mut self.before,
            wrong: None,
        };
        let options = engine::Options {
            threads: self.host.threads,
            eager_registers: self.host.eager_registers,
            observer: &Silent,
        };
        let suspended = self.suspended.take();
        let what = (launch, placed);
        self.engine
            .debug(what, &options, suspended, remote, &mut turns)?;
        match turns.wrong {
            Some(wrong) => Err(wrong),
            None => Ok(()),
        }
    }

    /// What the launch did.
    ///
    /// # Errors
    ///
    /// Buffers that are not where they were.
    pub fn report(&self) -> Result<Report<'_>> {
        let contents = self.launch.read_buffers(&self.memory, &self.placed)?;
        let buffers = self.launch.judge(&contents);
        Ok(Report {
            launch: &self.launch,
            gpu: &self.host.gpu,
            fast_matrix: self.host.fast_matrix,
            runs: self.runs.clone(),
            contents,
            buffers,
        })
    }

    /// Keeps the launch as it is in a file. Returns its size in bytes.
    ///
    /// # Errors
    ///
    /// Those of writing.
    pub fn save(&self, path: &Path) -> Result<u64> {
        let state = self.state()?.to_bytes()?;
        file::create(path, &state, |sink| self.pages(sink))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    fn state(&self) -> Result<State> {
        Ok(State::of(Parts {
            launch: &self.launch,
            placed: &self.placed,
            request: &self.request,
            map: self.memory.image()?,
            global_sync: self.engine.device().global_sync(),
            repeat: self.repeat,
            runs: &self.runs,
            suspended: self.suspended.as_ref().map(Suspended::image),
            before: self.forms_under_way(),
        }))
    }

    /// What the dispatch under way has executed, by form.
    fn forms_under_way(&self) -> Vec<FormCount> {
        let Some(suspended) = &self.suspended else {
            return Vec::new();
        };
        let since = self.engine.device().executed(suspended.statistics());
        let since = FormCount::list(since.into_iter());
        FormCount::sum(self.before.iter().cloned().chain(since))
    }

    /// Hands all pages of memory that are not zero to `sink`.
    fn pages(&self, sink: &mut file::PageSink<'_>) -> Result<()> {
        for (run, number) in self.memory.image()?.runs.iter().zip(0..) {
            let each = |page, bytes: &[u8]| match sink(number, page, bytes) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::<io::Error>::Break(error),
            };
            if let ControlFlow::Break(error) = self.memory.pages(run, each)? {
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Takes up a launch from a file.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, is no checkpoint, is damaged or of another format; a host that cannot run it.
    pub fn load(path: &Path, instead: Instead) -> Result<Session> {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        Session::read(file, instead).with_context(|| path.display().to_string())
    }

    /// The same with what is in a file.
    ///
    /// # Errors
    ///
    /// As [`Session::load`].
    pub fn read(from: impl io::Read + io::Seek, instead: Instead) -> Result<Session> {
        let checkpoint = file::read(from)?;
        let state = State::from_bytes(&checkpoint.state).context("the state in it")?;
        let mut request = state.request.clone();
        request.threads = instead.threads.or(request.threads);
        let repeat = state.repeat;
        let (launch, placed, runs, rest) = state.restore().context("the launch in it")?;
        // What is wrong with it is not the usage of the command that reads the file.
        let host = request.resolve(launch.code.target(), instead.lanes);
        let host = host.map_err(|error| anyhow!(chain(&error)))?;
        let memory = Arc::new(Memory::new(host.gpu.vram_bytes));
        memory.restore(&rest.map).context("the memory in it")?;
        let runs_of = &rest.map.runs;
        checkpoint.pages(|run, page, bytes| {
            let place = runs_of.get(run as usize).and_then(|run| {
                let offset = page.checked_mul(file::PAGE as u64)?;
                (offset < run.bytes).then_some(run.start + offset)
            });
            place.is_some_and(|address| memory.write(address, bytes).is_ok())
        })?;
        let engine = engine(&launch, &host, &memory)?;
        if !engine.device().set_global_sync(&rest.global_sync) {
            bail!("the global wave sync in it is none");
        }
        let suspended = match &rest.suspended {
            None => None,
            Some(image) => {
                let dispatch = engine::dispatch(&launch, &placed);
                let restored = engine.device().restore(&dispatch, image);
                Some(restored.map_err(|error| anyhow!(error).context("the dispatch in it"))?)
            }
        };
        // What the end needs, so that it does not fail after all the work.
        launch
            .read_buffers(&memory, &placed)
            .context("the buffers in it")?;
        Ok(Session {
            launch,
            host,
            request,
            memory,
            engine,
            placed,
            repeat,
            runs,
            suspended,
            before: rest.before,
        })
    }
}

fn engine(launch: &Launch, host: &Host, memory: &Arc<Memory>) -> Result<Engine> {
    let target = launch.code.target();
    let engine = Engine::new(&host.gpu, target, host.backend, host.compiler, memory)?;
    Ok(engine
        .with_fast_matrix(host.fast_matrix)
        .with_helpers(host.helpers, HelperPolicy::Measured))
}

/// Bytes of a checkpoint of a launch with other state bytes or pages, as no program writes it: for tests.
///
/// # Errors
///
/// Those of writing.
pub fn forge(state: &[u8], pages: &[(u32, u64, [u8; file::PAGE])]) -> Result<Vec<u8>> {
    let mut file = io::Cursor::new(Vec::new());
    file::write(&mut file, state, |sink| {
        for (run, page, bytes) in pages {
            sink(*run, *page, bytes)?;
        }
        Ok(())
    })?;
    Ok(file.into_inner())
}
