//! Every kernel of the corpus, on every target it exists for and every lane back end of the host, gives
//! the outputs it should. gfx1151 runs the code objects for gfx1100, whose instructions it shares.

mod kernels;

use std::path::Path;
use std::sync::Arc;

use kernels::descriptions;
use rocjitsu_cli::engine::{Engine, Options};
use rocjitsu_cli::launch::Launch;
use rocjitsu_cli::launch::from_description::Selection;
use rocjitsu_config::preset_for_target;
use rocjitsu_gpu::dispatch::jit;
use rocjitsu_gpu::memory::Memory;
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;
use rocjitsu_observe::Silent;

/// What computes lanes, and what is compiled.
type Executor = (Backend, jit::Options);

/// The interpreter with every back end of the host, and code that is compiled before it runs for the first time.
fn executors() -> impl Iterator<Item = Executor> {
    let interpreters = Backend::supported().map(|backend| (backend, jit::Options::OFF));
    let compiler = jit::Options {
        enabled: true,
        threshold: 0,
    };
    let compiled = Backend::supported()
        .filter(|&backend| backend != Backend::Scalar)
        .map(move |backend| (backend, compiler));
    interpreters.chain(compiled)
}

/// Runs a kernel; returns what was launched and what its buffers hold then.
fn contents(
    path: &Path,
    selection: Selection,
    (backend, compiler): Executor,
    threads: usize,
) -> Result<(Launch, Vec<Vec<u8>>), String> {
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
    let done = engine
        .run(&launch, &placed, &options)
        .map_err(|e| format!("{e:#}"))?;
    let by_form: u64 = done.forms.iter().map(|form| form.count).sum();
    if by_form != done.wave_instructions {
        return Err(format!(
            "{by_form} executions by form of {} instructions",
            done.wave_instructions
        ));
    }
    let contents = launch
        .read_buffers(&memory, &placed)
        .map_err(|e| format!("{e:#}"))?;
    Ok((launch, contents))
}

/// Runs a kernel and says what is wrong with its outputs.
fn run(
    path: &Path,
    selection: Selection,
    executor: Executor,
    threads: usize,
) -> Result<(), String> {
    let (launch, contents) = contents(path, selection, executor, threads)?;
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

/// Kernels whose workgroups add floats to the same places, in an order that no GPU promises: their outputs are close only.
const UNORDERED: &[&str] = &[];

/// Every kernel leaves the same bytes whatever the number of worker threads.
#[test]
fn any_number_of_threads() {
    let executor = (Backend::best(), jit::Options::default());
    let mut failures = Vec::new();
    for target in [
        Target::Gfx90a,
        Target::Gfx942,
        Target::Gfx950,
        Target::Gfx1100,
        Target::Gfx1201,
        Target::Gfx1250,
    ] {
        for path in descriptions("corpus", target) {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            if UNORDERED.contains(&&*name) {
                continue;
            }
            let selection = Selection {
                target,
                run_as: None,
            };
            let run = |threads| {
                let (launch, contents) = contents(&path, selection, executor, threads)?;
                let compared = launch.buffers.iter().zip(contents);
                let compared = compared.filter(|(buffer, _)| buffer.golden.is_some());
                Ok::<_, String>(compared.map(|(_, bytes)| bytes).collect::<Vec<_>>())
            };
            let once = run(1);
            for threads in [2, 8] {
                let more = run(threads);
                if more != once {
                    let why = more.err().unwrap_or_else(|| "other bytes".to_owned());
                    failures.push(format!("{name} for {target} with {threads} threads: {why}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
