//! Two dispatches at once, of two queues of a GPU or of two GPUs: plugins tell of them what they tell of each alone.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex};

use rocjitsu_cli::launch::Launch;
use rocjitsu_isa::Target;
use rocjitsu_observe::{Access, Concurrency, Events, Outcome, Plugin, State, Step, Touch};
use serde_json::Value;

use super::rig::{Run, Watching, corpus};
use super::seeded::{code, launch_with};

/// Which dispatches have come to an instruction, which have ended, and whose turn it is.
#[derive(Default)]
struct Turns {
    present: BTreeSet<u64>,
    ended: BTreeSet<u64>,
    turn: u64,
}

impl Turns {
    /// Gives the turn to another dispatch, if there is one.
    fn pass(&mut self, from: u64) {
        let others = self.present.iter().filter(|id| !self.ended.contains(id));
        self.turn = others.copied().find(|&id| id != from).unwrap_or(from);
    }
}

/// Lets two dispatches go on in turns, each from one of these events to its next, once both have begun.
#[derive(Clone)]
struct Alternate {
    turns: Arc<(Mutex<Turns>, Condvar)>,
    at: Events,
}

impl Alternate {
    fn at(events: Events) -> Alternate {
        Alternate {
            turns: Arc::default(),
            at: events,
        }
    }
}

/// The instance of a worker.
struct Taker {
    shared: Alternate,
    dispatch: Option<u64>,
}

impl Taker {
    fn pass(&mut self, step: &Step<'_>) -> Outcome {
        let dispatch = step.wave.dispatch;
        self.dispatch = Some(dispatch);
        let (turns, changed) = &*self.shared.turns;
        let mut turns = turns.lock().expect("not poisoned");
        turns.present.insert(dispatch);
        turns.pass(dispatch);
        changed.notify_all();
        let waits = |turns: &mut Turns| turns.present.len() < 2 || turns.turn != dispatch;
        drop(changed.wait_while(turns, waits).expect("not poisoned"));
        Ok(())
    }
}

impl Plugin for Alternate {
    fn events(&self) -> Events {
        self.at
    }
    fn concurrency(&self) -> Concurrency {
        Concurrency::PerWorker
    }
    fn worker(&self) -> Option<Box<dyn Plugin>> {
        let shared = self.clone();
        Some(Box::new(Taker {
            shared,
            dispatch: None,
        }))
    }
}

impl Plugin for Taker {
    fn events(&self) -> Events {
        self.shared.at
    }
    fn before(&mut self, step: &Step<'_>, _: &dyn State) -> Outcome {
        self.pass(step)
    }
    fn reads(&mut self, step: &Step<'_>, _: &[Touch], _: &dyn State) -> Outcome {
        self.pass(step)
    }
    fn accesses(&mut self, step: &Step<'_>, _: &[Access], _: &dyn State) -> Outcome {
        self.pass(step)
    }
    fn writes(&mut self, step: &Step<'_>, _: &[Touch], _: &dyn State) -> Outcome {
        self.pass(step)
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        let Some(dispatch) = self.dispatch else {
            return;
        };
        let (turns, changed) = &*self.shared.turns;
        let mut turns = turns.lock().expect("not poisoned");
        turns.ended.insert(dispatch);
        turns.pass(dispatch);
        changed.notify_all();
    }
}

/// What is told of a dispatch, whatever its number is. `times` adds up.
fn records(watching: &Watching, plugins: usize) -> Vec<String> {
    let mut all: Vec<String> = (0..plugins)
        .flat_map(|i| watching.records(i))
        .filter(|record| record["event"] != "summary")
        .map(|mut record| {
            if let Value::Object(record) = &mut record {
                record.remove("dispatch");
                record.remove("dispatch_id");
                let mnemonics = record.get_mut("mnemonics").and_then(Value::as_object_mut);
                let each = mnemonics.into_iter().flat_map(|all| all.values_mut());
                for mnemonic in each.filter_map(Value::as_object_mut) {
                    mnemonic.remove("first_dispatch");
                }
            }
            record.to_string()
        })
        .collect();
    all.sort();
    all
}

const PLUGINS: [&str; 6] = [
    "race",
    "data_hazard",
    "memcheck:uninitialised=all,heat",
    "fidelity",
    "coverage:missed",
    "instruction_mix",
];

fn alone(run: &Run, launch: &Launch) -> Vec<String> {
    let watching = Watching::new(&PLUGINS);
    run.dispatch(launch, &watching.plugins).expect("runs");
    watching.plugins.finish().expect("finished");
    records(&watching, PLUGINS.len())
}

/// Where a dispatch may be while another one goes on: between two instructions, or within one as well.
fn places() -> [Events; 2] {
    let within = Events::BEFORE | Events::READS | Events::ACCESSES | Events::WRITES;
    [Events::BEFORE, within]
}

/// What is told of both at once, if they take turns at these events.
fn together(both: [(&Run, &Launch); 2], at: Events) -> Vec<String> {
    let mut watching = Watching::new(&[]);
    watching
        .plugins
        .add("alternate", Box::new(Alternate::at(at)));
    watching.add(&PLUGINS);
    let plugins = &watching.plugins;
    std::thread::scope(|scope| {
        let runs = both.map(|(run, launch)| scope.spawn(|| run.dispatch(launch, plugins)));
        runs.map(|run| run.join().expect("no panic").expect("runs"))
    });
    plugins.finish().expect("finished");
    records(&watching, PLUGINS.len())
}

/// A launch of a seeded kernel; `first` is its output.
fn seeded(name: &str, target: Target, first: &str) -> Launch {
    let arguments = [first, "buf:5120:u32:seed=7", "buf:256"];
    launch_with(&code("seeded", target), name, arguments)
}

fn union(parts: [Vec<String>; 2]) -> Vec<String> {
    let mut all = parts.concat();
    all.sort();
    all
}

/// Two GPUs of different targets, whose code and buffers lie at the same addresses. Kernels have names of their own, by
/// which plugins add up.
#[test]
fn two_gpus_are_told_apart() {
    let small = |name| seeded(name, Target::Gfx942, "buf:8192:fill=0");
    let large = |name| seeded(name, Target::Gfx1201, "buf:400000:fill=0");
    let corpus_of = |first, second| {
        (
            corpus(first, Target::Gfx942),
            corpus(second, Target::Gfx1201),
        )
    };
    for (first, second) in [
        (small("race_lds_barrier"), large("race_lds_bytes")),
        (small("hazard_short_wait"), large("hazard_vector_load")),
        (small("good_lds_barrier"), large("good_lds_histogram")),
        (small("memory_uninitialised_lds"), large("good_global_flag")),
        corpus_of("hip_lds_reduce", "softmax_f32"),
        corpus_of("softmax_f32", "hip_lds_reduce"),
        corpus_of("attention_f16", "transpose_f32"),
    ] {
        let runs = || [Run::new(&first), Run::new(&second)];
        let [a, b] = runs();
        let expected = union([alone(&a, &first), alone(&b, &second)]);
        for at in places() {
            let [a, b] = runs();
            let found = together([(&a, &first), (&b, &second)], at);
            let only = |these: &[String], others: &[String]| -> Vec<String> {
                these
                    .iter()
                    .filter(|r| !others.contains(r))
                    .cloned()
                    .collect()
            };
            let differ = (only(&found, &expected), only(&expected, &found));
            assert!(
                found == expected,
                "{} and {} at {at:?}: {differ:#?}",
                first.name,
                second.name
            );
        }
    }
}

/// Two queues of a GPU, which run the same kernel.
#[test]
fn two_queues_are_told_apart() {
    let target = Target::Gfx942;
    for launch in [
        corpus("hip_lds_reduce", target),
        corpus("hip_tiled_matmul", target),
        seeded("good_lds_barrier", target, "buf:8192:fill=0"),
    ] {
        let run = Run::new(&launch);
        let one = alone(&run, &launch);
        let both = together([(&run, &launch), (&run, &launch)], places()[1]);
        let faults = |records: &[String]| {
            let kinds = ["\"race\"", "\"data_hazard\"", "\"error\"", "\"reached\""];
            let is = |record: &&String| kinds.iter().any(|kind| record.contains(kind));
            records.iter().filter(is).cloned().collect::<Vec<_>>()
        };
        assert_eq!(faults(&both), faults(&one), "{}", launch.name);
    }
}
