//! Matrix instructions on helper threads: kernels of the corpus and of the performance set leave the same bytes whoever
//! executes their matrix instructions, on every lane back end of the host.

mod kernels;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kernels::descriptions;
use rocjitsu_cli::engine::{Engine, dispatch};
use rocjitsu_cli::launch::Launch;
use rocjitsu_cli::launch::from_description::Selection;
use rocjitsu_config::preset_for_target;
use rocjitsu_exec::record::Class;
use rocjitsu_gpu::dispatch::{HelperPolicy, Options, Statistics, jit};
use rocjitsu_gpu::memory::Memory;
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;
use rocjitsu_observe::{Events, Observer, Plugin, Plugins, Silent, State, Step};

/// Kernels with more matrix instructions than this take too long here; others of the same shapes are there.
const MOST: u64 = 20_000;
/// The same for the scalar back end, in multiplications and additions.
const MOST_SCALAR: u64 = 100_000_000;

/// Multiplications and additions, as a description of the performance set says.
fn operations(path: &Path) -> u64 {
    let text = std::fs::read_to_string(path).expect("a description");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    json["estimate"]["flops"].as_u64().unwrap_or(0)
}

/// Runs a kernel with that many helpers; returns what it did and what its buffers hold then.
fn outcome(
    launch: &Launch,
    (backend, compiler): (Backend, jit::Options),
    helpers: usize,
) -> (Statistics, Vec<Vec<u8>>) {
    watched(launch, (backend, compiler), helpers, &Silent)
}

/// The same, with somebody who watches.
fn watched(
    launch: &Launch,
    (backend, compiler): (Backend, jit::Options),
    helpers: usize,
    observer: &dyn Observer,
) -> (Statistics, Vec<Vec<u8>>) {
    let target = launch.code.target();
    let gpu = preset_for_target(target.name()).expect("a preset");
    let memory = Arc::new(Memory::new(gpu.vram_bytes));
    let engine = Engine::new(&gpu, target, backend, compiler, &memory)
        .expect("supported")
        .with_helpers(helpers, HelperPolicy::Always);
    let placed = launch.place(&memory).expect("room");
    let options = Options {
        threads: 1,
        ..Options::default()
    };
    let dispatch = dispatch(launch, &placed);
    let done = engine.device().dispatch(&dispatch, options, observer);
    let contents = launch.read_buffers(&memory, &placed).expect("buffers");
    (done.expect("it runs"), contents)
}

/// Interpreted on each back end, and compiled before it runs for the first time.
fn executors() -> impl Iterator<Item = (Backend, jit::Options)> {
    let compiler = jit::Options {
        enabled: true,
        threshold: 0,
    };
    let interpreted = Backend::supported().map(|backend| (backend, jit::Options::OFF));
    interpreted.chain([(Backend::best(), compiler)])
}

/// Runs the kernels of a target with none, one and two helpers, to which all goes that may.
fn whole(target: Target) {
    let selection = Selection {
        target,
        run_as: None,
    };
    let (mut kernels, mut helped) = (0, 0);
    let all = ["corpus", "perf"].map(|folder| descriptions(folder, target));
    for path in all.into_iter().flatten() {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let launch = Launch::from_description(&path, selection).expect("a launch");
        let usual = (Backend::best(), jit::Options::default());
        let (done, want) = outcome(&launch, usual, 0);
        if !(1..MOST).contains(&done.of(Class::Matrix)) {
            continue;
        }
        kernels += 1;
        let mut any = 0;
        for executor in executors() {
            if executor.0 == Backend::Scalar && operations(&path) > MOST_SCALAR {
                continue;
            }
            for helpers in [1, 2] {
                let (more, got) = outcome(&launch, executor, helpers);
                assert!(got == want, "{name} for {target}, {executor:?}, {helpers}");
                assert_eq!(more.instructions, done.instructions, "{name} for {target}");
                any += more.helped;
            }
        }
        helped += u32::from(any > 0);
    }
    assert!(kernels > 5, "only {kernels} kernels for {target}");
    // The others have chains of products, of which no two are independent.
    assert!(
        helped * 3 > kernels,
        "helpers had something to do in {helped} of {kernels} kernels for {target}"
    );
}

#[test]
fn gfx90a() {
    whole(Target::Gfx90a);
}
#[test]
fn gfx942() {
    whole(Target::Gfx942);
}
#[test]
fn gfx950() {
    whole(Target::Gfx950);
}
#[test]
fn gfx1100() {
    whole(Target::Gfx1100);
}
#[test]
fn gfx1201() {
    whole(Target::Gfx1201);
}
#[test]
fn gfx1250() {
    whole(Target::Gfx1250);
}

/// A kernel of the performance set: four products in a loop.
fn loop_of(target: Target, name: &str) -> Launch {
    let all = descriptions("perf", target).into_iter();
    let mut named = all.filter(|path| path.file_stem().is_some_and(|stem| stem == name));
    let selection = Selection {
        target,
        run_as: None,
    };
    Launch::from_description(&named.next().expect("a kernel"), selection).expect("a launch")
}

/// Counts what it is told of.
struct Counts {
    events: Events,
    follows: bool,
    issued: Arc<AtomicU64>,
}

impl Plugin for Counts {
    fn events(&self) -> Events {
        self.events
    }
    fn follows_asynchronous_matrix(&self) -> bool {
        self.follows
    }
    fn after(&mut self, _: &Step<'_>, _: &dyn State) -> Result<(), String> {
        Ok(())
    }
    fn matrix(&mut self, _: &Step<'_>) -> Result<(), String> {
        self.issued.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Plugins that do not follow instructions whose results come later, or look at the state of waves, switch helpers off.
#[test]
fn plugins_decide() {
    let launch = loop_of(Target::Gfx950, "mfma_f16_32x32x8");
    let usual = (Backend::best(), jit::Options::default());
    let (_, want) = outcome(&launch, usual, 0);
    for (events, follows, expected) in [
        (Events::DISPATCHES, true, true),
        (Events::DISPATCHES, false, false),
        (Events::MATRIX, true, true),
        (Events::MATRIX, false, false),
        (Events::MATRIX | Events::AFTER, true, false),
        (Events::MATRIX | Events::WRITES, true, false),
    ] {
        let issued = Arc::new(AtomicU64::new(0));
        let mut plugins = Plugins::new();
        let counts = Counts {
            events,
            follows,
            issued: issued.clone(),
        };
        plugins.add("counts", Box::new(counts));
        let (done, got) = watched(&launch, usual, 1, &plugins);
        assert!(got == want);
        assert_eq!(done.helped > 0, expected, "{events:?} {follows}");
        if events.any(Events::MATRIX) {
            assert_eq!(issued.load(Ordering::Relaxed), done.of(Class::Matrix));
        }
    }
}

/// As long as it is not known that they gain time, and where they cannot, helpers have nothing to do.
#[test]
fn what_is_compiled_stays_with_the_wave() {
    let launch = loop_of(Target::Gfx1201, "wmma_f16_16x16x16");
    let target = launch.code.target();
    let gpu = preset_for_target(target.name()).expect("a preset");
    let memory = Arc::new(Memory::new(gpu.vram_bytes));
    let usual = (Backend::best(), jit::Options::default());
    let engine = Engine::new(&gpu, target, usual.0, usual.1, &memory)
        .expect("supported")
        .with_helpers(1, HelperPolicy::Measured);
    let placed = launch.place(&memory).expect("room");
    let options = Options::default();
    let dispatch = dispatch(&launch, &placed);
    let done = engine.device().dispatch(&dispatch, options, &Silent);
    let compiles = usual.0 == Backend::from_name("avx512").expect("a name");
    assert!(done.expect("it runs").helped == 0 || !compiles);
}
