//! What watching costs: a run without plugins, with a plugin that subscribes to one kind of event and does nothing,
//! and with each built-in plugin.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use rocjitsu_cli::engine::{Engine, Options};
use rocjitsu_cli::launch::Launch;
use rocjitsu_cli::launch::from_description::Selection;
use rocjitsu_config::preset_for_target;
use rocjitsu_gpu::dispatch::jit;
use rocjitsu_gpu::memory::Memory;
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;
use rocjitsu_observe::{Code, Events, Lines, Plugin, Plugins, Sink};

/// Subscribes and does nothing.
struct Idle(Events);

impl Plugin for Idle {
    fn events(&self) -> Events {
        self.0
    }
}

const HOOKS: [(&str, Events); 8] = [
    ("dispatches", Events::DISPATCHES),
    ("waves", Events::WAVES),
    ("before", Events::BEFORE),
    ("after", Events::AFTER),
    ("reads", Events::READS),
    ("writes", Events::WRITES),
    ("accesses", Events::ACCESSES),
    ("barriers", Events::BARRIERS),
];

const KERNELS: [(&str, &str); 3] = [
    ("perf", "valu_mix_w64"),
    ("perf", "copy_dwordx4"),
    ("corpus", "hip_tiled_matmul"),
];

/// Makes the plugins of one measurement.
type Make<'a> = Box<dyn Fn() -> Result<Option<Plugins>> + 'a>;

fn built_in(name: &str) -> Result<Option<Plugins>> {
    let selection = name.parse().map_err(|e: String| anyhow!(e))?;
    let (sink, _) = Sink::memory();
    let plugin = rocjitsu_plugins::make(&selection, Lines::new(vec![sink]));
    let mut plugins = Plugins::new();
    plugins.add(name, plugin.map_err(|e| anyhow!(e))?);
    Ok(Some(plugins))
}

/// Nanoseconds for a wave instruction, the least of `repeat` runs on one thread.
fn time(path: &Path, make: &Make<'_>, repeat: u32) -> Result<f64> {
    let target = Target::Gfx942;
    let selection = Selection {
        target,
        run_as: None,
    };
    let launch = Launch::from_description(path, selection)?;
    let gpu = preset_for_target(target.name()).ok_or_else(|| anyhow!("no preset for {target}"))?;
    let memory = Arc::new(Memory::new(gpu.vram_bytes));
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
    print!("{:<28}", "");
    KERNELS
        .iter()
        .for_each(|(_, kernel)| print!("{kernel:>20}"));
    println!();
    let mut rows: Vec<(String, Make<'_>)> = vec![("none".to_owned(), Box::new(|| Ok(None)))];
    for (name, events) in HOOKS {
        let make = move || {
            let mut plugins = Plugins::new();
            plugins.add("idle", Box::new(Idle(events)));
            Ok(Some(plugins))
        };
        rows.push((format!("hook {name}"), Box::new(make)));
    }
    for name in rocjitsu_plugins::NAMES {
        rows.push((name.to_owned(), Box::new(move || built_in(name))));
    }
    for (name, make) in rows {
        print!("{name:<28}");
        for (folder, kernel) in KERNELS {
            let path = data.join(format!("{folder}/built/{kernel}.json"));
            print!("{:>20.1}", time(&path, &make, repeat)?);
        }
        println!();
    }
    Ok(())
}
