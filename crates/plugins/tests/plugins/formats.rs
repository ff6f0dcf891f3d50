//! The records that AMD's rocjitsu has a schema for, key by key.

use std::collections::BTreeSet;

use rocjitsu_isa::Target;
use serde_json::Value;

use super::rig::{Run, Watching, corpus};

/// The keys of an object.
fn keys(value: &Value) -> BTreeSet<&str> {
    let object = value.as_object().expect("an object");
    object.keys().map(String::as_str).collect()
}

const FAMILIES: [&str; 7] = [
    "scalar", "vector", "matrix", "lds", "global", "control", "other",
];
/// What both schemas say of a dispatch.
const DISPATCH: [&str; 9] = [
    "schema",
    "record",
    "dispatch_id",
    "kernel_name",
    "kernel_symbol",
    "grid",
    "workgroup",
    "workgroups",
    "waves_per_workgroup",
];
/// Keys of ours that stand in every record, or in those of dispatches.
const OURS: [&str; 2] = ["plugin", "event"];
const OURS_OF_DISPATCHES: [&str; 4] = ["plugin", "event", "dispatch", "kernel"];

fn set<'a>(parts: &[&[&'a str]]) -> BTreeSet<&'a str> {
    parts.iter().copied().flatten().copied().collect()
}

fn number(value: &Value, key: &str) -> f64 {
    let value = &value[key];
    value.as_f64().unwrap_or_else(|| panic!("{key}: {value}"))
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * b.abs().max(1e-9)
}

/// Two dispatches of a kernel, watched by a plugin: their records, the summary, and instructions of each dispatch.
fn two(plugin: &str) -> (Vec<Value>, Value, u64) {
    let launch = corpus("hip_lds_reduce", Target::Gfx942);
    let watching = Watching::new(&[plugin]);
    let run = Run::new(&launch);
    let first = run.dispatch(&launch, &watching.plugins).expect("runs");
    std::thread::sleep(std::time::Duration::from_millis(20));
    let second = run.dispatch(&launch, &watching.plugins).expect("runs");
    assert_eq!(first.wave_instructions, second.wave_instructions);
    watching.plugins.finish().expect("finished");
    let mut records = watching.records(0);
    let summary = records.pop().expect("a summary");
    assert_eq!(records.len(), 2);
    for (record, id) in records.iter().zip(1..) {
        assert_eq!(record["record"], "dispatch");
        assert_eq!(record["dispatch_id"], id);
        assert_eq!(record["kernel_name"], launch.kernel.name.as_str());
        assert_eq!(record["kernel_symbol"], launch.kernel.name.as_str());
        let groups: u32 = launch.grid.iter().product();
        assert_eq!(record["workgroups"], groups);
        assert_eq!(record["workgroup"], serde_json::json!(launch.block));
        let items = [0, 1, 2].map(|axis| launch.grid[axis] * launch.block[axis]);
        assert_eq!(record["grid"], serde_json::json!(items));
        let threads: u32 = launch.block.iter().product();
        assert_eq!(record["waves_per_workgroup"], threads.div_ceil(64));
    }
    assert_eq!(summary["record"], "summary");
    (records, summary, first.wave_instructions)
}

#[test]
fn throughput_v2() {
    let (records, summary, instructions) = two("throughput");
    let measured = ["wall_seconds", "wave_instructions", "mips", "families"];
    let family = set(&[&[
        "instructions",
        "untimed_instructions",
        "execution_timing_valid",
        "execution_seconds",
        "execution_mips",
        "dispatch_mips",
    ]]);
    let check = |record: &Value, instructions: u64, seconds: f64| {
        assert_eq!(record["schema"], "rocjitsu.throughput.v2");
        assert_eq!(record["wave_instructions"], instructions);
        let wall = number(record, "wall_seconds");
        let mips = instructions as f64 / wall / 1e6;
        assert!(close(number(record, "mips"), mips), "{record}");
        let families = &record["families"];
        assert_eq!(keys(families), set(&[&FAMILIES]));
        let mut sum = 0;
        for name in FAMILIES {
            let one = &families[name];
            assert_eq!(keys(one), family, "{name}");
            let count = one["instructions"].as_u64().expect("a count");
            sum += count;
            // Instructions are not timed one by one.
            assert_eq!(one["untimed_instructions"], count);
            assert_eq!(one["execution_timing_valid"], count == 0);
            assert_eq!(one["execution_seconds"].is_null(), count > 0);
            assert_eq!(one["execution_mips"].is_null(), count > 0);
            let mips = count as f64 / seconds / 1e6;
            assert!(close(number(one, "dispatch_mips"), mips), "{name}: {one}");
        }
        assert_eq!(sum, instructions, "families leave nothing out");
    };
    let mut seconds = 0.0;
    for record in &records {
        let all = set(&[&DISPATCH, &measured, &OURS_OF_DISPATCHES, &["waves"]]);
        assert_eq!(keys(record), all);
        check(record, instructions, number(record, "wall_seconds"));
        seconds += number(record, "wall_seconds");
    }
    let own = ["schema", "record", "dispatches", "dispatch_seconds_sum"];
    assert_eq!(keys(&summary), set(&[&own, &measured, &OURS, &["waves"]]));
    assert_eq!(summary["dispatches"], 2);
    assert!(close(number(&summary, "dispatch_seconds_sum"), seconds));
    check(&summary, 2 * instructions, seconds);
    // From the first begin to the last end: what lies between dispatches counts.
    assert!(
        number(&summary, "wall_seconds") > seconds + 0.015,
        "{summary}"
    );
}

#[test]
fn instruction_mix_v1() {
    let (records, summary, instructions) = two("instruction_mix");
    let counted = [
        "wave_instructions",
        "families",
        "distinct_mnemonics",
        "mnemonics",
    ];
    let check = |record: &Value, instructions: u64| {
        assert_eq!(record["schema"], "rocjitsu.instruction_mix.v1");
        assert_eq!(record["wave_instructions"], instructions);
        assert_eq!(keys(&record["families"]), set(&[&FAMILIES]));
        let mnemonics = record["mnemonics"].as_object().expect("an object");
        assert_eq!(record["distinct_mnemonics"], mnemonics.len());
        let mut families = FAMILIES.map(|name| (name, 0));
        for (name, one) in mnemonics {
            let all = [
                "executions",
                "encoding",
                "opcode",
                "bytes",
                "family",
                "first_dispatch",
                "encodings",
            ];
            assert_eq!(keys(one), set(&[&all]), "{name}");
            assert_eq!(
                one["first_dispatch"],
                record["dispatch_id"].as_u64().unwrap_or(1)
            );
            let count = one["executions"].as_u64().expect("a count");
            let forms = one["encodings"].as_object().expect("an object");
            let sum: u64 = forms.values().filter_map(Value::as_u64).sum();
            assert_eq!(sum, count, "{name}");
            let mut families = families.iter_mut();
            let family = families.find(|(family, _)| one["family"] == *family);
            family.expect("one of the seven").1 += count;
        }
        for (name, count) in families {
            assert_eq!(record["families"][name]["instructions"], count, "{name}");
        }
        assert_eq!(families.iter().map(|f| f.1).sum::<u64>(), instructions);
        // Memory goes before the encoding.
        let mut loads = mnemonics
            .iter()
            .filter(|(name, _)| name.starts_with("s_load"));
        assert!(loads.clone().count() > 0 && loads.all(|(_, one)| one["family"] == "global"));
        // As the manual of CDNA 3 has it: SOPP, opcode 1, one word.
        let end = &mnemonics["s_endpgm"];
        let is = (
            &end["encoding"],
            &end["opcode"],
            &end["bytes"],
            &end["family"],
        );
        assert_eq!(
            is,
            (&"SOPP".into(), &1.into(), &4.into(), &"control".into())
        );
    };
    for record in &records {
        assert_eq!(
            keys(record),
            set(&[&DISPATCH, &counted, &OURS_OF_DISPATCHES])
        );
        check(record, instructions);
    }
    let own = ["schema", "record", "dispatches"];
    assert_eq!(keys(&summary), set(&[&own, &counted, &OURS]));
    assert_eq!(summary["dispatches"], 2);
    check(&summary, 2 * instructions);
}
