//! A dispatch that stops and goes on while plugins watch: they hear what they would have heard of one that did not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rocjitsu_isa::Target;
use rocjitsu_observe::{Events, Outcome, Plugin, State, Step};

use super::rig::{Run, Watching, data, described};

/// Asks for a stop at every `every`th instruction.
struct Asks {
    request: Arc<AtomicBool>,
    every: u32,
    seen: AtomicU32,
}

impl Plugin for Asks {
    fn events(&self) -> Events {
        Events::BEFORE
    }

    fn before(&mut self, _: &Step<'_>, _: &dyn State) -> Outcome {
        if self
            .seen
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(self.every)
        {
            self.request.store(true, Ordering::Release);
        }
        Ok(())
    }
}

/// `race` first: with it a dispatch runs on one thread.
const PLUGINS: [&str; 6] = [
    "race",
    "trace:workgroup=3",
    "data_hazard",
    "memcheck:uninitialised=all",
    "instruction_mix",
    "coverage",
];

#[test]
fn plugins_hear_of_all_of_a_dispatch_that_stops_and_goes_on() {
    for name in ["hip_lds_reduce", "hip_tiled_matmul"] {
        let launch = described(&data(&format!("corpus/built/{name}.json")), Target::Gfx942);
        for threads in [1, 3] {
            let chosen = &PLUGINS[usize::from(threads > 1)..];
            let whole = Watching::new(chosen);
            let done = Run::new(&launch).go(&launch, &whole.plugins, threads);
            done.expect("runs");
            let mut parts = Watching::new(chosen);
            let request = Arc::new(AtomicBool::new(false));
            let asks = Asks {
                request: request.clone(),
                every: 200,
                seen: AtomicU32::new(0),
            };
            parts.plugins.add("asks", Box::new(asks));
            let run = Run::new(&launch);
            let stops = run.in_parts(&launch, &parts.plugins, threads, &request);
            assert!(stops.expect("runs") > 3, "{name}");
            assert!(run.is_right(&launch), "{name}");
            for (index, plugin) in chosen.iter().enumerate() {
                // Workgroups of which one ends later than another are told of in another order.
                let lines = |watching: &Watching| {
                    let text = watching.text(index);
                    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
                    lines.sort_unstable();
                    lines
                };
                let (one, other) = (lines(&whole), lines(&parts));
                let counts = (one.len(), other.len());
                assert!(
                    !one.is_empty() && one == other,
                    "{name} {plugin}: {counts:?}"
                );
            }
        }
    }
}
