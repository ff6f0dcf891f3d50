//! Every kernel of the corpus, on every target it exists for and every lane back end of the host, gives
//! the outputs it should. gfx1151 runs the code objects for gfx1100, whose instructions it shares.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocjitsu_cli::engine::{Engine, Options};
use rocjitsu_cli::launch::Launch;
use rocjitsu_cli::launch::from_description::Selection;
use rocjitsu_config::preset_for_target;
use rocjitsu_gpu::dispatch::jit;
use rocjitsu_gpu::memory::Memory;
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;
use rocjitsu_observe::Silent;

fn data(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../data")
        .join(folder)
}

/// Descriptions that have a code object for a target, in alphabetical order.
fn descriptions(folder: &str, target: Target) -> Vec<PathBuf> {
    let built = data(folder).join("built");
    let mut found: Vec<PathBuf> = std::fs::read_dir(&built)
        .expect("the data folder is part of the repository")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .filter(|path| path.with_extension(format!("{target}.hsaco")).exists())
        .collect();
    found.sort();
    found
}

/// What computes lanes, and what is compiled.
type Executor = (Backend, jit::Options);

/// The interpreter with every back end of the host, and code that is compiled before it runs for the first time.
fn executors() -> impl Iterator<Item = Executor> {
    let interpreters = Backend::supported().map(|backend| (backend, jit::Options::OFF));
    let compiler = jit::Options {
        enabled: true,
        threshold: 0,
    };
    let compiled = Backend::Avx512
        .is_supported()
        .then_some((Backend::Avx512, compiler));
    interpreters.chain(compiled)
}

/// Runs a kernel and says what is wrong with its outputs.
fn run(
    path: &Path,
    selection: Selection,
    (backend, compiler): Executor,
    threads: usize,
) -> Result<(), String> {
    let launch = Launch::from_description(path, selection).map_err(|e| format!("{e:#}"))?;
    let target = launch.code.target();
    let gpu = preset_for_target(target.name()).ok_or("no preset")?;
    let memory = Arc::new(Memory::new(gpu.vram_bytes));
    let engine =
        Engine::new(&gpu, target, backend, compiler, &memory).map_err(|e| format!("{e:#}"))?;
    let placed = launch.place(&memory).map_err(|e| format!("{e:#}"))?;
    let options = Options {
        threads,
        eager_registers: false,
        observer: &Silent,
    };
    engine
        .run(&launch, &placed, &options)
        .map_err(|e| format!("{e:#}"))?;
    let contents = launch
        .read_buffers(&memory, &placed)
        .map_err(|e| format!("{e:#}"))?;
    let outcomes = launch.judge(&contents);
    let bad: Vec<String> = outcomes
        .iter()
        .filter(|o| !o.verdict.good())
        .map(|o| format!("{}: {}", o.name, o.describe()))
        .collect();
    if bad.is_empty() {
        Ok(())
    } else {
        Err(bad.join("; "))
    }
}

/// Runs all kernels of a target.
fn whole(target: Target, run_as: Option<Target>) {
    let mut failures = Vec::new();
    let mut count = 0;
    for path in descriptions("corpus", target) {
        for executor in executors() {
            count += 1;
            if let Err(why) = run(&path, Selection { target, run_as }, executor, 2) {
                failures.push(format!(
                    "{} on {executor:?}: {why}",
                    path.file_stem().unwrap_or_default().display()
                ));
            }
        }
    }
    assert!(count > 60, "only {count} kernels found for {target}");
    assert!(
        failures.is_empty(),
        "{} of {count} runs for {target} failed:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn gfx90a() {
    whole(Target::Gfx90a, None);
}
#[test]
fn gfx942() {
    whole(Target::Gfx942, None);
}
#[test]
fn gfx950() {
    whole(Target::Gfx950, None);
}
#[test]
fn gfx1100() {
    whole(Target::Gfx1100, None);
}
#[test]
fn gfx1151() {
    whole(Target::Gfx1100, Some(Target::Gfx1151));
}
#[test]
fn gfx1201() {
    whole(Target::Gfx1201, None);
}
#[test]
fn gfx1250() {
    whole(Target::Gfx1250, None);
}

/// Results do not depend on the number of worker threads (order of float atomics aside).
#[test]
fn any_number_of_threads() {
    for name in [
        "softmax_f32",
        "hip_lds_reduce",
        "lock_accumulate",
        "matmul_f16",
    ] {
        let path = data("corpus").join(format!("built/{name}.json"));
        for threads in [1, 2, 3, 7] {
            let selection = Selection {
                target: Target::Gfx942,
                run_as: None,
            };
            if let Err(why) = run(
                &path,
                selection,
                (Backend::best(), jit::Options::default()),
                threads,
            ) {
                panic!("{name} with {threads} threads: {why}");
            }
        }
    }
}
