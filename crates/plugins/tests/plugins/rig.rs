//! Runs launches with plugins and collects what they write.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rocjitsu_cli::engine::{Ended, Engine, Options, dispatch};
use rocjitsu_cli::launch::Launch;
use rocjitsu_cli::launch::from_description::Selection;
use rocjitsu_cli::launch::place::{Placed, Statistics};
use rocjitsu_config::preset_for_target;
use rocjitsu_gpu::dispatch::{self, Dispatch, Stops, jit};
use rocjitsu_gpu::memory::Memory;
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;
use rocjitsu_observe::{Code, Lines, Plugins, Sink};
use rocjitsu_plugins::{MemoryWishes, Selection as Chosen, make};
use serde_json::Value;

/// A folder of the repository's data.
pub fn data(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../data")
        .join(folder)
}

/// Descriptions of the corpus that have a code object for a target.
pub fn descriptions(target: Target) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(data("corpus/built")).expect("a folder of the repository");
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .filter(|path| path.with_extension(format!("{target}.hsaco")).exists())
        .collect();
    found.sort();
    found
}

/// The launch of a description.
pub fn described(path: &Path, target: Target) -> Launch {
    let selection = Selection {
        target,
        run_as: None,
    };
    Launch::from_description(path, selection).expect("a launch")
}

/// The launch of a description of the corpus, by its name.
pub fn corpus(name: &str, target: Target) -> Launch {
    let mut all = descriptions(target).into_iter();
    let path = all.find(|path| path.file_stem().is_some_and(|stem| stem == name));
    described(&path.expect("in the corpus"), target)
}

/// Plugins, and what each of them writes.
pub struct Watching {
    /// The host.
    pub plugins: Plugins,
    outputs: Vec<Arc<Mutex<Vec<u8>>>>,
}

impl Watching {
    /// Plugins by name and options.
    pub fn new(texts: &[&str]) -> Watching {
        let mut watching = Watching {
            plugins: Plugins::new(),
            outputs: Vec::new(),
        };
        watching.add(texts);
        watching
    }

    /// More plugins by name and options.
    pub fn add(&mut self, texts: &[&str]) {
        for text in texts {
            let selection: Chosen = text.parse().expect("a selection");
            let (sink, bytes) = Sink::memory();
            let plugin = make(&selection, Lines::new(vec![sink])).expect("a plugin");
            self.plugins.add(selection.name, plugin);
            self.outputs.push(bytes);
        }
    }

    /// What the plugin `index` has written.
    pub fn text(&self, index: usize) -> String {
        let bytes = self.outputs[index].lock().expect("not poisoned");
        String::from_utf8(bytes.clone()).expect("text")
    }

    /// The same as records.
    pub fn records(&self, index: usize) -> Vec<Value> {
        let text = self.text(index);
        let parse = |line: &str| serde_json::from_str(line).expect("a JSON line");
        text.lines().map(parse).collect()
    }
}

/// A launch in memory.
pub struct Run {
    /// The GPU's memory.
    pub memory: Arc<Memory>,
    /// Where things are.
    pub placed: Placed,
    engine: Engine,
}

impl Run {
    /// Places a launch.
    pub fn new(launch: &Launch) -> Run {
        Run::with_memory(launch, MemoryWishes::default())
    }

    /// The same with a memory as plugins want it.
    pub fn with_memory(launch: &Launch, wishes: MemoryWishes) -> Run {
        let target = launch.code.target();
        let gpu = preset_for_target(target.name()).expect("a preset");
        let memory = Arc::new(Memory::new(gpu.vram_bytes));
        memory.set_guard(wishes.redzone.unwrap_or(0));
        if wishes.touches {
            memory.follow_touches().expect("a file in memory");
        }
        let backend = Backend::best();
        let engine = Engine::new(&gpu, target, backend, jit::Options::OFF, &memory);
        let placed = launch.place(&memory).expect("placed");
        Run {
            memory,
            placed,
            engine: engine.expect("an engine"),
        }
    }

    /// Tells plugins of the code; how to run it with them.
    fn watched<'a>(
        &self,
        launch: &Launch,
        plugins: &'a Plugins,
        threads: usize,
    ) -> Result<Options<'a>, String> {
        let code = Code {
            base: self.placed.code.bias,
            file: launch.code.data(),
        };
        plugins.code_loaded(&code).map_err(|e| e.to_string())?;
        Ok(Options {
            threads,
            eager_registers: false,
            observer: plugins,
        })
    }

    /// Runs it, watched, and finishes the plugins.
    pub fn go(
        &self,
        launch: &Launch,
        plugins: &Plugins,
        threads: usize,
    ) -> Result<Statistics, String> {
        let options = self.watched(launch, plugins, threads)?;
        let run = self.engine.run(launch, &self.placed, &options);
        let finished = plugins.finish().map_err(|e| e.to_string());
        let run = run.map_err(|e| format!("{e:#}"))?;
        finished.map(|()| run)
    }

    /// Runs it on one thread as a packet of the queue at an address.
    pub fn on_queue(&self, launch: &Launch, plugins: &Plugins, queue: u64) -> Result<(), String> {
        let dispatch = Dispatch {
            queue,
            ..dispatch(launch, &self.placed)
        };
        let device = self.engine.device();
        let done = device.dispatch(&dispatch, dispatch::Options::default(), plugins);
        done.map(|_| ()).map_err(|e| e.to_string())
    }

    /// Runs it on one thread, watched by plugins that go on with others.
    pub fn dispatch(&self, launch: &Launch, plugins: &Plugins) -> Result<Statistics, String> {
        let options = Options {
            threads: 1,
            eager_registers: false,
            observer: plugins,
        };
        let run = self.engine.run(launch, &self.placed, &options);
        run.map_err(|e| format!("{e:#}"))
    }

    /// The same, where `request` stops the dispatch, which goes on at once. Returns how often it stopped.
    pub fn in_parts(
        &self,
        launch: &Launch,
        plugins: &Plugins,
        threads: usize,
        request: &AtomicBool,
    ) -> Result<u32, String> {
        let options = self.watched(launch, plugins, threads)?;
        let stops = Stops {
            request: Some(request),
            ..Stops::default()
        };
        let (mut suspended, mut count) = (None, 0);
        loop {
            request.store(false, Ordering::Release);
            let ended = self
                .engine
                .go(launch, &self.placed, &options, Some(&stops), suspended);
            match ended.map_err(|e| format!("{e:#}"))? {
                Ended::Done(_) => break,
                Ended::Suspended(left) => suspended = Some(*left),
            }
            count += 1;
        }
        plugins.finish().map_err(|e| e.to_string())?;
        Ok(count)
    }

    /// Whether the buffers hold what they should.
    pub fn is_right(&self, launch: &Launch) -> bool {
        let contents = launch
            .read_buffers(&self.memory, &self.placed)
            .expect("readable");
        launch.judge(&contents).iter().all(|o| o.verdict.good())
    }
}
