//! Plugins over the kernels of the corpus: their numbers are the engine's, and correct kernels have no faults.

use std::collections::BTreeMap;

use rocjitsu_isa::{Target, decode};
use serde_json::Value;

use super::rig::{Run, Watching, described, descriptions};

/// Kernels whose every instruction is watched take long; these are left out for that alone.
const LONG: [&str; 5] = [
    "iree_matmul_1x512x768_f16",
    "matmul_f16_huge_tile",
    "matmul_bf16_big_tile",
    "conv3x3_f16",
    "iree_conv_f32",
];

fn name(path: &std::path::Path) -> String {
    path.file_stem().unwrap_or_default().display().to_string()
}

fn sum(value: &Value, key: &str) -> u64 {
    let object = value.as_object().expect("an object");
    object.values().filter_map(|one| one[key].as_u64()).sum()
}

/// The checkers report nothing of correct kernels, whose results stay right; instruction_mix and throughput count what
/// the engine counts.
fn clean(target: Target) {
    let mut failures = Vec::new();
    let mut count = 0;
    for path in descriptions(target) {
        if LONG.contains(&name(&path).as_str()) {
            continue;
        }
        count += 1;
        let launch = described(&path, target);
        let watching = Watching::new(&[
            "instruction_mix",
            "throughput",
            "race",
            "data_hazard",
            "memcheck:uninitialised",
        ]);
        let run = Run::new(&launch);
        let done = match run.go(&launch, &watching.plugins, 2) {
            Ok(done) => done,
            Err(why) => {
                failures.push(format!("{}: {why}", name(&path)));
                continue;
            }
        };
        if !run.is_right(&launch) {
            failures.push(format!("{}: wrong results", name(&path)));
        }
        let mix = &watching.records(0)[0];
        assert_eq!(mix["wave_instructions"], done.wave_instructions);
        assert_eq!(sum(&mix["mnemonics"], "executions"), done.wave_instructions);
        let by_form: u64 = done.forms.iter().map(|form| form.count).sum();
        assert_eq!(by_form, done.wave_instructions, "{}", name(&path));
        let by_name = |starts: &[&str]| -> u64 {
            let counts = mix["mnemonics"].as_object().expect("an object");
            let of = counts
                .iter()
                .filter(|(name, _)| starts.iter().any(|s| name.starts_with(s)));
            of.filter_map(|(_, n)| n["executions"].as_u64()).sum()
        };
        assert_eq!(
            by_name(&["ds_", "lds_"]),
            done.by_class["lds"],
            "{}",
            name(&path)
        );
        assert_eq!(
            by_name(&[
                "global_", "flat_", "buffer_", "tbuffer_", "scratch_", "tensor_", "cluster_"
            ]),
            done.by_class["vmem"],
            "{}",
            name(&path)
        );
        assert_eq!(
            by_name(&["v_mfma", "v_smfmac", "v_wmma", "v_swmmac"]),
            done.by_class["matrix"]
        );
        let dispatch = &watching.records(1)[0];
        assert_eq!(
            sum(&dispatch["families"], "instructions"),
            done.wave_instructions
        );
        let vector = &dispatch["families"]["vector"]["instructions"];
        assert_eq!(*vector, done.by_class["valu"]);
        for plugin in 2..5 {
            let records = watching.records(plugin);
            for record in &records[..records.len() - 1] {
                failures.push(format!("{}: {record}", name(&path)));
            }
        }
    }
    assert!(count > 40, "only {count} kernels found for {target}");
    assert!(
        failures.is_empty(),
        "{} reports of {count} kernels for {target}:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn gfx90a() {
    clean(Target::Gfx90a);
}
#[test]
fn gfx942() {
    clean(Target::Gfx942);
}
#[test]
fn gfx950() {
    clean(Target::Gfx950);
}
#[test]
fn gfx1100() {
    clean(Target::Gfx1100);
}
#[test]
fn gfx1201() {
    clean(Target::Gfx1201);
}
#[test]
fn gfx1250() {
    clean(Target::Gfx1250);
}

/// A trace has every instruction of the wave: each text is that of the bytes at its address, and each address follows
/// from the one before.
#[test]
fn a_trace_is_the_code_that_lies_in_memory() {
    for target in [Target::Gfx942, Target::Gfx1201] {
        let path = descriptions(target)
            .into_iter()
            .find(|p| name(p) == "hip_lds_reduce");
        let launch = described(&path.expect("in the corpus"), target);
        let watching = Watching::new(&["trace:workgroup=1,wave=1", "instruction_mix"]);
        let run = Run::new(&launch);
        let done = run.go(&launch, &watching.plugins, 1).expect("runs");
        let records = watching.records(0);
        assert!(records.len() > 40 && (records.len() as u64) < done.wave_instructions);
        let set = target.execution_set(launch.kernel.descriptor.wave_size);
        let mut expected = run.placed.entry_address;
        for (i, record) in records.iter().enumerate() {
            let pc = record["pc"]
                .as_str()
                .and_then(|t| t.strip_prefix("0x"))
                .expect("a number");
            let pc = u64::from_str_radix(pc, 16).expect("a number");
            let mut bytes = [0; 16];
            run.memory.read(pc, &mut bytes).expect("code");
            let inst = decode(target, set, &bytes).expect("an instruction");
            assert_eq!(record["text"], inst.text(set));
            assert_eq!(record["number"], i);
            let previous = i
                .checked_sub(1)
                .map(|i| records[i]["text"].as_str().unwrap_or(""));
            let jumped = previous.is_some_and(|text| text.contains("branch"));
            assert!(pc == expected || jumped, "{record} after {previous:?}");
            expected = pc + inst.len() as u64;
        }
        assert_eq!(records.last().expect("some")["text"], "s_endpgm");
        let loads = records.iter().filter(|record| {
            let text = record["text"].as_str().unwrap_or("");
            text.contains("_load") && !text.starts_with("s_wait")
        });
        assert!(loads.clone().count() > 1);
        for load in loads {
            assert!(
                !load["writes"].as_object().expect("an object").is_empty(),
                "{load}"
            );
        }
    }
}

/// The time line is a document of complete events: one for each dispatch, one for each workgroup.
#[test]
fn a_time_line_has_every_workgroup() {
    let target = Target::Gfx942;
    let path = descriptions(target)
        .into_iter()
        .find(|p| name(p) == "softmax_f32");
    let launch = described(&path.expect("in the corpus"), target);
    let file = std::env::temp_dir().join(format!("rocjitsu-timeline-{}.json", std::process::id()));
    let watching = Watching::new(&[&format!("trace:timeline={}", file.display())]);
    Run::new(&launch)
        .go(&launch, &watching.plugins, 2)
        .expect("runs");
    let text = std::fs::read_to_string(&file).expect("written");
    std::fs::remove_file(&file).expect("removed");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let events = document["traceEvents"].as_array().expect("a list");
    let mut slices: BTreeMap<u64, Vec<&Value>> = BTreeMap::new();
    for event in events.iter().filter(|e| e["ph"] == "X") {
        assert!(event["ts"].is_f64() && event["dur"].as_f64().is_some_and(|d| d >= 0.0));
        slices
            .entry(event["pid"].as_u64().expect("a number"))
            .or_default()
            .push(event);
    }
    let groups: u64 = launch.grid.iter().map(|&n| u64::from(n)).product();
    assert_eq!(slices[&1].len(), 1);
    assert_eq!(slices[&2].len() as u64, groups);
    let whole = slices[&1][0];
    let end = |e: &Value| e["ts"].as_f64().unwrap_or(0.0) + e["dur"].as_f64().unwrap_or(0.0);
    assert!(
        slices[&2]
            .iter()
            .all(|e| e["ts"].as_f64() >= whole["ts"].as_f64() && end(e) <= end(whole))
    );
}
