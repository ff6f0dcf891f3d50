//! Events come in order and as often as things happen: workgroups, waves, instructions, barriers. What `logging` and the
//! time line make of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use rocjitsu_isa::{Op, Target};
use rocjitsu_observe::{
    Access, Barrier, Dispatch, Ended, Events, Outcome, Plugin, Plugins, State, Step, Touch, Wave,
    Workgroup,
};
use serde_json::Value;

use super::rig::{Run, Watching, corpus, described, descriptions};

/// Where a wave is in its instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Between,
    Before,
    Read,
    Accessed,
    Written,
}

#[derive(Default)]
struct Counts {
    groups: u64,
    waves: u64,
    instructions: u64,
    /// Waves that have signalled a phase of a barrier, and those that wait for it, by workgroup, slot and phase.
    barriers: BTreeMap<(u64, u8, u32), [BTreeSet<u32>; 2]>,
    /// `s_barrier` or `s_barrier_wait` that were executed.
    executed: u64,
}

/// Fails if an event comes out of order.
struct Order {
    dispatch: Option<u64>,
    groups: BTreeMap<u64, BTreeSet<u32>>,
    stages: BTreeMap<(u64, u32), Stage>,
    counts: Arc<Mutex<Counts>>,
}

impl Order {
    fn wave(&mut self, step: &Step<'_>) -> Result<&mut Stage, String> {
        let key = (step.wave.group, step.wave.index);
        self.stages
            .get_mut(&key)
            .ok_or(format!("{key:?} has not begun"))
    }

    fn to(&mut self, step: &Step<'_>, from: &[Stage], to: Stage) -> Outcome {
        let stage = self.wave(step)?;
        if !from.contains(stage) {
            return Err(format!(
                "{to:?} after {stage:?}: {}",
                step.instruction.text()
            ));
        }
        *stage = to;
        Ok(())
    }
}

fn check(good: bool, what: &str) -> Outcome {
    good.then_some(()).ok_or(what.to_owned())
}

impl Plugin for Order {
    fn events(&self) -> Events {
        Events::DISPATCHES | Events::WORKGROUPS | Events::WAVES | Events::INSTRUCTIONS
    }
    fn dispatch_begins(&mut self, dispatch: &Dispatch<'_>) -> Outcome {
        check(self.dispatch.replace(dispatch.id).is_none(), "begins twice")
    }
    fn dispatch_ends(&mut self, ended: &Ended<'_>) -> Outcome {
        check(
            self.dispatch.take() == Some(ended.id),
            "ends without a beginning",
        )?;
        check(
            self.groups.is_empty() && self.stages.is_empty(),
            "ends before its workgroups",
        )
    }
    fn workgroup_begins(&mut self, group: &Workgroup) -> Outcome {
        check(self.dispatch == Some(group.dispatch), "of no dispatch")?;
        let fresh = self.groups.insert(group.linear, BTreeSet::new());
        self.counts.lock().expect("not poisoned").groups += 1;
        check(fresh.is_none(), "a workgroup begins twice")
    }
    fn workgroup_ends(&mut self, group: &Workgroup) -> Outcome {
        let ended = self.groups.remove(&group.linear).ok_or("ends unbegun")?;
        check(ended.len() as u32 == group.waves, "ends before its waves")
    }
    fn wave_begins(&mut self, wave: &Wave) -> Outcome {
        check(
            self.groups.contains_key(&wave.group),
            "a wave before its workgroup",
        )?;
        self.counts.lock().expect("not poisoned").waves += 1;
        let fresh = self.stages.insert((wave.group, wave.index), Stage::Between);
        check(fresh.is_none(), "a wave begins twice")
    }
    fn wave_ends(&mut self, wave: &Wave) -> Outcome {
        let stage = self.stages.remove(&(wave.group, wave.index));
        check(
            stage == Some(Stage::Between),
            "a wave ends within an instruction",
        )?;
        let group = self.groups.get_mut(&wave.group).ok_or("of no workgroup")?;
        check(group.insert(wave.index), "a wave ends twice")
    }
    fn before(&mut self, step: &Step<'_>, _: &dyn State) -> Outcome {
        self.to(step, &[Stage::Between], Stage::Before)
    }
    fn matrix(&mut self, step: &Step<'_>) -> Outcome {
        self.to(step, &[Stage::Before], Stage::Before)
    }
    fn reads(&mut self, step: &Step<'_>, _: &[Touch], _: &dyn State) -> Outcome {
        self.to(step, &[Stage::Before], Stage::Read)
    }
    fn accesses(&mut self, step: &Step<'_>, _: &[Access], _: &dyn State) -> Outcome {
        self.to(step, &[Stage::Before, Stage::Read], Stage::Accessed)
    }
    fn writes(&mut self, step: &Step<'_>, _: &[Touch], _: &dyn State) -> Outcome {
        let from = [Stage::Before, Stage::Read, Stage::Accessed];
        self.to(step, &from, Stage::Written)
    }
    fn after(&mut self, step: &Step<'_>, _: &dyn State) -> Outcome {
        let from = [Stage::Before, Stage::Read, Stage::Accessed, Stage::Written];
        self.to(step, &from, Stage::Between)?;
        let mut counts = self.counts.lock().expect("not poisoned");
        counts.instructions += 1;
        let barrier = [Op::s_barrier, Op::s_barrier_wait].contains(&step.instruction.inst.op());
        counts.executed += u64::from(barrier);
        Ok(())
    }
    fn barrier(&mut self, step: &Step<'_>, barrier: Barrier) -> Outcome {
        let (slot, phase, which) = match barrier {
            Barrier::Signal { slot, phase } => (slot, phase, 0),
            Barrier::Wait { slot, phase } => (slot, phase, 1),
        };
        let mut counts = self.counts.lock().expect("not poisoned");
        let waves = counts
            .barriers
            .entry((step.wave.group, slot, phase))
            .or_default();
        check(waves[which].insert(step.wave.index), "twice at a barrier")?;
        // A wave waits for what it has signalled.
        check(
            waves[0].contains(&step.wave.index),
            "waits before it signals",
        )
    }
}

#[test]
fn events_come_in_order_and_once() {
    for target in [
        Target::Gfx90a,
        Target::Gfx942,
        Target::Gfx1100,
        Target::Gfx1201,
        Target::Gfx1250,
    ] {
        for name in ["hip_lds_reduce", "hip_matrix_cores", "softmax_f32"] {
            let mut all = descriptions(target).into_iter();
            let Some(path) = all.find(|p| p.file_stem().is_some_and(|stem| stem == name)) else {
                continue;
            };
            let launch = described(&path, target);
            let counts = Arc::new(Mutex::new(Counts::default()));
            let mut plugins = Plugins::new();
            let order = Order {
                dispatch: None,
                groups: BTreeMap::new(),
                stages: BTreeMap::new(),
                counts: counts.clone(),
            };
            plugins.add("order", Box::new(order));
            let done = Run::new(&launch).go(&launch, &plugins, 2);
            let done = done.unwrap_or_else(|e| panic!("{target} {name}: {e}"));
            let counts = counts.lock().expect("not poisoned");
            let groups: u64 = launch.grid.iter().map(|&n| u64::from(n)).product();
            assert_eq!(counts.groups, groups, "{target} {name}");
            assert_eq!(
                (counts.waves, counts.instructions),
                (done.waves, done.wave_instructions)
            );
            let waves = done.waves / groups;
            for (barrier, [signalled, waited]) in &counts.barriers {
                assert_eq!(signalled.len() as u64, waves, "{target} {name} {barrier:?}");
                assert_eq!(signalled, waited, "{target} {name} {barrier:?}");
            }
            let waits: usize = counts
                .barriers
                .values()
                .map(|[_, waited]| waited.len())
                .sum();
            // A workgroup of one wave has no barriers to wait at.
            assert!(
                waits as u64 == counts.executed || waves == 1,
                "{target} {name}"
            );
            assert!(name != "hip_lds_reduce" || waits > 0, "{target}");
        }
    }
}

fn events<'a>(records: &'a [Value], event: &str) -> Vec<&'a Value> {
    records
        .iter()
        .filter(|record| record["event"] == event)
        .collect()
}

#[test]
fn logging_tells_code_dispatches_arguments_and_the_first_matrix_instruction() {
    for (target, name, matrix) in [
        (Target::Gfx942, "matmul_f16", "v_mfma"),
        (Target::Gfx1201, "matmul_f16", "v_wmma"),
        (Target::Gfx942, "vec_add_f32", ""),
    ] {
        let launch = corpus(name, target);
        let watching = Watching::new(&["logging", "logging:matrix=off"]);
        let run = Run::new(&launch);
        let done = run.go(&launch, &watching.plugins, 2).expect("runs");
        let records = watching.records(0);
        assert!(records.iter().all(|record| record["plugin"] == "logging"));
        assert_eq!(
            events(&records, "code")[0]["bytes"],
            launch.code.data().len()
        );
        let dispatch = events(&records, "dispatch")[0];
        assert_eq!(dispatch["kernel"], launch.kernel.name.as_str());
        assert_eq!(dispatch["target"], target.name());
        assert_eq!(dispatch["workgroup"], serde_json::json!(launch.block));
        let arguments = dispatch["arguments"].as_array().expect("a list");
        let buffer = launch.buffers[0].content.len() as u64;
        let points = arguments.iter().find(|a| a["bytes"] == buffer);
        assert!(
            points.is_some_and(|a| a["points_to"].is_string()),
            "{dispatch}"
        );
        let end = events(&records, "end")[0];
        assert_eq!(end["wave_instructions"], done.wave_instructions);
        assert_eq!(
            (&end["waves"], &end["error"]),
            (&done.waves.into(), &Value::Null)
        );
        let first = events(&records, "first_matrix");
        assert_eq!(
            first.len(),
            usize::from(!matrix.is_empty()),
            "{target} {name}"
        );
        assert!(
            first
                .iter()
                .all(|r| r["text"].as_str().is_some_and(|t| t.starts_with(matrix)))
        );
        let without = watching.records(1);
        assert!(events(&without, "first_matrix").is_empty());
        assert_eq!(events(&without, "end").len(), 1);
    }
}

/// Dispatches of two queues stand on tracks of their own, named by the queue.
#[test]
fn a_time_line_has_a_track_for_each_queue() {
    let launch = corpus("vec_add_f32", Target::Gfx942);
    let file = std::env::temp_dir().join(format!("rocjitsu-queues-{}.json", std::process::id()));
    let watching = Watching::new(&[&format!("trace:timeline={}", file.display())]);
    let run = Run::new(&launch);
    let plugins = &watching.plugins;
    std::thread::scope(|scope| {
        for queue in [0x1000, 0x2000] {
            let run = &run;
            let launch = &launch;
            scope.spawn(move || {
                for _ in 0..2 {
                    run.on_queue(launch, plugins, queue).expect("runs");
                }
            });
        }
    });
    plugins.finish().expect("finished");
    let text = std::fs::read_to_string(&file).expect("written");
    std::fs::remove_file(&file).expect("removed");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let events = document["traceEvents"].as_array().expect("a list");
    let names: BTreeMap<String, u64> = events
        .iter()
        .filter(|e| e["name"] == "thread_name" && e["pid"] == 1)
        .map(|e| {
            (
                e["args"]["name"].to_string(),
                e["tid"].as_u64().expect("a number"),
            )
        })
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    for queue in ["queue 0x1000", "queue 0x2000"] {
        let track = names[&format!("{queue:?}")];
        let dispatches = events
            .iter()
            .filter(|e| e["ph"] == "X" && e["pid"] == 1 && e["tid"] == track);
        let mut times: Vec<(f64, f64)> = dispatches
            .map(|e| {
                (
                    e["ts"].as_f64().expect("a number"),
                    e["dur"].as_f64().expect("a number"),
                )
            })
            .collect();
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert_eq!(times.len(), 2, "{queue}");
        assert!(times[0].0 + times[0].1 <= times[1].0, "{queue}: {times:?}");
    }
}
