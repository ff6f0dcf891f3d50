//! Values that are not exact are found where they decide something, by source line, and counted in memory, byte by byte.

use serde_json::Value;

use super::rig::{Run, Watching, data, described};
use super::seeded::{TARGETS, code, launch_with};

/// The line of a kernel that is marked.
fn marked(source: &str, kernel: &str) -> usize {
    let mut lines = source.lines().enumerate();
    lines.find(|(_, line)| line.starts_with("kernel") && line.contains(kernel));
    let found = lines.find(|(_, line)| line.contains("// HERE"));
    found.expect("a marked line").0 + 1
}

fn of_event<'a>(records: &'a [Value], event: &str) -> Vec<&'a Value> {
    let same = records.iter().filter(|record| record["event"] == event);
    same.collect()
}

#[test]
fn arrivals_are_named_and_bytes_in_memory_counted() {
    let source = std::fs::read_to_string(data("plugins/taint.hip")).expect("a file");
    let mut wrong = Vec::new();
    for target in TARGETS {
        let code = code("taint", target);
        for kernel in code.kernels() {
            let name = kernel.name.as_str();
            let launch = launch_with(&code, name, ["buf:8192", "buf:8192", "buf:256"]);
            let watching = Watching::new(&["fidelity"]);
            let done = Run::new(&launch).go(&launch, &watching.plugins, 2);
            let records = watching.records(0);
            let arrivals: Vec<_> = records
                .iter()
                .filter(|r| r["reached"].is_string())
                .collect();
            let held: u64 = of_event(&records, "memory")
                .iter()
                .filter_map(|record| record["inexact_bytes"].as_u64())
                .sum();
            let parts: Vec<&str> = name.split('_').collect();
            let good = done.is_ok()
                && match parts[..] {
                    ["reach", kind, ..] => {
                        let place = format!("taint.hip:{}", marked(&source, name));
                        arrivals.iter().any(|record| {
                            let source = record["instruction"]["source"].as_str();
                            record["reached"] == kind
                                && source.is_some_and(|source| source.ends_with(&place))
                                && record["times"].as_u64().is_some_and(|times| times > 0)
                        })
                    }
                    ["hold", bytes, ..] => arrivals.is_empty() && Ok(held) == bytes.parse(),
                    _ => false,
                };
            if !good {
                wrong.push(format!("{target} {name}: {done:?} {records:#?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// With `bounded=off` only defaults are followed, and `fail` fails where something is found.
#[test]
fn options_say_what_is_followed_and_what_fails() {
    let code = code("taint", TARGETS[1]);
    let launch = launch_with(
        &code,
        "reach_address_load",
        ["buf:8192", "buf:8192", "buf:256"],
    );
    let watching = Watching::new(&["fidelity:fail"]);
    let error = Run::new(&launch).go(&launch, &watching.plugins, 1);
    let error = error.expect_err("something was found");
    assert!(error.contains("decided addresses"), "{error}");
    let watching = Watching::new(&["fidelity:fail,bounded=off"]);
    let done = Run::new(&launch).go(&launch, &watching.plugins, 1);
    assert!(done.is_ok(), "{done:?}");
}

/// An attention kernel's results come from exponentials and matrix products; nothing of its control does.
#[test]
fn attention_writes_what_is_not_exact_and_decides_nothing_by_it() {
    let target = TARGETS[1];
    let launch = described(&data("corpus/built/attention_f16.json"), target);
    let watching = Watching::new(&["fidelity"]);
    let run = Run::new(&launch);
    run.go(&launch, &watching.plugins, 1).expect("a run");
    assert!(run.is_right(&launch));
    let records = watching.records(0);
    assert_eq!(
        of_event(&records, "summary")[0]["places"],
        0,
        "{records:#?}"
    );
    let stores = of_event(&records, "stores")[0];
    assert_eq!(stores["bytes"], stores["inexact_bytes"], "{stores}");
}

/// The heat of memory is what a kernel reads and writes of each page.
#[test]
fn heat_counts_bytes_by_page() {
    let code = code("taint", TARGETS[1]);
    let launch = launch_with(&code, "hold_0_exact", ["buf:8192", "buf:8192", "buf:256"]);
    let watching = Watching::new(&["memcheck:heat"]);
    let done = Run::new(&launch).go(&launch, &watching.plugins, 1);
    done.expect("a run");
    let records = watching.records(0);
    let heat = of_event(&records, "heat");
    let pages = |label: &str| {
        let of = heat.iter().find(|record| record["label"] == label);
        of.map(|record| record["pages"].clone())
    };
    let labels: Vec<_> = heat.iter().map(|record| &record["label"]).collect();
    assert_eq!(
        (pages("buffer `arg0`"), pages("buffer `arg1`")),
        (
            Some(serde_json::json!([[0, 0, 4096]])),
            Some(serde_json::json!([[0, 4096, 0]]))
        ),
        "{labels:?}"
    );
}
