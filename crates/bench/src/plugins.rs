//! What watching costs: a run without plugins, with a plugin that subscribes to one kind of event and does nothing,
//! and with each built-in plugin.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use rocjitsu_cli::engine::{Engine, Options};
use rocjitsu_cli::launch::Launch;
use rocjitsu_cli::launch::from_description::Selection as Described;
use rocjitsu_config::preset_for_target;
use rocjitsu_gpu::dispatch::jit;
use rocjitsu_gpu::memory::Memory;
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;
use rocjitsu_observe::{Code, Events, Lines, Plugin, Plugins, Sink};
use rocjitsu_plugins::{Chosen, MemoryWishes, Selection};

/// Subscribes and does nothing.
struct Idle(Events);

impl Plugin for Idle {
    fn events(&self) -> Events {
        self.0
    }
}

const HOOKS: [(&str, Events); 10] = [
    ("dispatches", Events::DISPATCHES),
    ("workgroups", Events::WORKGROUPS),
    ("waves", Events::WAVES),
    ("before", Events::BEFORE),
    ("after", Events::AFTER),
    ("reads", Events::READS),
    ("writes", Events::WRITES),
    ("accesses", Events::ACCESSES),
    ("barriers", Events::BARRIERS),
    ("matrix", Events::MATRIX),
];

/// Options with which built-in plugins do more, beside each of them without any.
const VARIANTS: [&str; 8] = [
    "logging:matrix=off",
    "trace:workgroup=all,limit=1000000000",
    "trace:timeline=/dev/null",
    "memcheck:uninitialised",
    "memcheck:uninitialised=global",
    "memcheck:heat",
    "memcheck:redzone=4096",
    "data_hazard:xcnt",
];

/// Vector arithmetic, memory, LDS with barriers, matrix products.
const KERNELS: [(&str, &str); 4] = [
    ("perf", "valu_mix_w64"),
    ("perf", "copy_dwordx4"),
    ("corpus", "hip_tiled_matmul"),
    ("perf", "gemm_f16_128"),
];

/// Makes the plugins of one measurement.
type Make<'a> = Box<dyn Fn() -> Result<Option<Plugins>> + 'a>;

/// A built-in plugin with options; its records go to memory, as those of `trace` are many.
fn built_in(text: &str) -> Result<Option<Plugins>> {
    let selection: Selection = text.parse().map_err(|e: String| anyhow!(e))?;
    let (sink, _) = Sink::memory();
    let plugin = rocjitsu_plugins::make(&selection, Lines::new(vec![sink]));
    let mut plugins = Plugins::new();
    plugins.add(selection.name, plugin.map_err(|e| anyhow!(e))?);
    Ok(Some(plugins))
}

/// What a plugin asks of the memory.
fn wishes(text: &str) -> Result<MemoryWishes> {
    let selection: Selection = text.parse().map_err(|e: String| anyhow!(e))?;
    let chosen = Chosen {
        plugins: vec![selection],
        ..Chosen::default()
    };
    Ok(chosen.memory()?)
}

/// Nanoseconds for a wave instruction, the least of `repeat` runs on one thread.
fn time(path: &Path, make: &Make<'_>, wishes: MemoryWishes, repeat: u32) -> Result<f64> {
    let target = Target::Gfx942;
    let selection = Described {
        target,
        run_as: None,
    };
    let launch = Launch::from_description(path, selection)?;
    let gpu = preset_for_target(target.name()).ok_or_else(|| anyhow!("no preset for {target}"))?;
    let memory = Arc::new(Memory::new(gpu.vram_bytes));
    memory.set_guard(wishes.redzone.unwrap_or(0));
    if wishes.touches {
        memory.follow_touches()?;
    }
    let backend = Backend::best();
    let engine = Engine::new(&gpu, target, backend, jit::Options::default(), &memory)?;
    let placed = launch.place(&memory)?;
    let mut best = f64::MAX;
    for _ in 0..repeat.max(1) {
        launch.fill_buffers(&memory, &placed)?;
        let plugins = make()?.unwrap_or_default();
        plugins.code_loaded(&Code {
            base: placed.code.bias,
            file: launch.code.data(),
        })?;
        let options = Options {
            threads: 1,
            eager_registers: false,
            observer: &plugins,
        };
        let run = engine.run(&launch, &placed, &options)?;
        plugins.finish()?;
        best = best.min(run.seconds * 1e9 / run.wave_instructions.max(1) as f64);
    }
    Ok(best)
}

/// The table.
pub fn costs(data: &Path, repeat: u32) -> Result<()> {
    println!("== plugins: ns per wave instruction, one thread (gfx942)");
    print!("{:<40}", "");
    KERNELS
        .iter()
        .for_each(|(_, kernel)| print!("{kernel:>18}"));
    println!();
    let nothing = MemoryWishes::default();
    let mut rows: Vec<(String, Make<'_>, MemoryWishes)> =
        vec![("none".to_owned(), Box::new(|| Ok(None)), nothing)];
    for (name, events) in HOOKS {
        let make = move || {
            let mut plugins = Plugins::new();
            plugins.add("idle", Box::new(Idle(events)));
            Ok(Some(plugins))
        };
        rows.push((format!("hook {name}"), Box::new(make), nothing));
    }
    for name in rocjitsu_plugins::NAMES.into_iter().chain(VARIANTS) {
        let make = move || built_in(name);
        rows.push((name.to_owned(), Box::new(make), wishes(name)?));
    }
    for (name, make, wishes) in rows {
        print!("{name:<40}");
        for (folder, kernel) in KERNELS {
            let path = data.join(format!("{folder}/built/{kernel}.json"));
            print!("{:>18.1}", time(&path, &make, wishes, repeat)?);
        }
        println!();
    }
    Ok(())
}
