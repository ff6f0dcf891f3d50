//! The sections of a page, each made of the records that it is about; those without any are left out.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde_json::{Value, json};

use super::chart;
use super::records::{Object, Records, number, objects, text};
use super::table::{of, table, words};

/// Plugins that have sections of their own, and their records' titles.
const FINDINGS: [(&str, &str); 3] = [
    ("race", "Data races"),
    ("data_hazard", "Data hazards"),
    ("memcheck", "Memory errors"),
];

/// Id, title and content of all sections.
pub fn all(records: &Records) -> Vec<(&'static str, &'static str, Markup)> {
    let mut sections = vec![("summary", "Summary", summary(records))];
    let mut add = |id, title, content: Option<Markup>| {
        if let Some(content) = content {
            sections.push((id, title, content));
        }
    };
    add("fidelity", "Fidelity", fidelity(records));
    add("findings", "Findings", findings(records));
    add("kernels", "Kernels", kernels(records));
    add("timeline", "Time line", timeline(records));
    add("mix", "Instruction mix", mix(records));
    add("heat", "Heat of memory", heat(records));
    add("throughput", "Throughput", throughput(records));
    add("coverage", "Coverage", plain(records, "coverage"));
    add("driver", "Driver", driver(records));
    add("other", "Other records", other(records));
    sections
}

fn rows(values: Vec<Value>) -> Vec<Object> {
    let object = |value| match value {
        Value::Object(object) => Some(object),
        _ => None,
    };
    values.into_iter().filter_map(object).collect()
}

fn summary(records: &Records) -> Markup {
    let run = |run: &Object| {
        let results = run.get("results").cloned().unwrap_or_default();
        json!({
            "process": run.get("process"),
            "command": run.get("command").map(words),
            "gpus": run.get("gpus").map(words),
            "dispatches": objects(run, "dispatches").count() as f64 + number(run, "dispatches_not_listed"),
            "exact": results.get("exact"),
            "bounded": results.get("bounded"),
            "by_default": results.get("by_default"),
            "refused": results.get("refused"),
            "peak_memory_kib": run.get("peak_memory_kib"),
            "ended": match run.get("signal") {
                Some(signal) => format!("by signal {signal}"),
                None if run.get("complete") == Some(&Value::Bool(false)) => "before its report was complete".to_owned(),
                None => "by itself".to_owned(),
            },
        })
    };
    let runs = rows(records.runs.iter().map(run).collect());
    const LAUNCH: [&str; 12] = [
        "launch",
        "kernel",
        "target",
        "gpu",
        "grid",
        "block",
        "ok",
        "waves",
        "wave_instructions",
        "seconds",
        "wave_instructions_per_second",
        "error",
    ];
    let found = |name: &str| {
        let all = records.plugins.get(name)?;
        Some(
            all.iter()
                .filter(|record| text(record, "event").is_empty())
                .count(),
        )
    };
    html! {
        @if !runs.is_empty() { h3 { "Programs" } (table(runs.iter())) }
        @if !records.launches.is_empty() { h3 { "Launches" } (of(&LAUNCH, records.launches.iter())) }
        @for (name, title) in FINDINGS {
            @if let Some(found) = found(name) {
                p { (title) ": " span class=(if found == 0 { "good" } else { "bad" }) { (found) } }
            }
        }
    }
}

/// Forms of all kernels, with the kernel.
fn forms(records: &Records) -> Vec<Object> {
    let mut all = Vec::new();
    let mut add = |kernel: &str, forms: &Object| {
        for form in objects(forms, "forms") {
            let mut row = Object::new();
            row.insert("kernel".to_owned(), kernel.into());
            row.extend(form.clone());
            all.push(row);
        }
    };
    for run in &records.runs {
        let kernels = run.get("kernels").and_then(Value::as_object);
        for (name, kernel) in kernels.into_iter().flatten() {
            if let Some(kernel) = kernel.as_object() {
                add(name, kernel);
            }
        }
    }
    for launch in &records.launches {
        add(text(launch, "kernel"), launch);
    }
    all
}

fn fidelity(records: &Records) -> Option<Markup> {
    let forms = forms(records);
    let taint = records.plugins.get("fidelity");
    if forms.is_empty() && taint.is_none() {
        return None;
    }
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for form in &forms {
        *sums.entry(text(form, "exactness")).or_default() += number(form, "count");
    }
    let sum = |kind| sums.get(kind).copied().unwrap_or(0.0);
    let (exact, bounded, default) = (sum("exact"), sum("bounded"), sum("default"));
    let inexact: Vec<&Object> = forms
        .iter()
        .filter(|form| text(form, "exactness") != "exact")
        .collect();
    let certain: Vec<&Object> = forms
        .iter()
        .filter(|form| text(form, "exactness") == "exact")
        .collect();
    Some(html! {
        @if !forms.is_empty() {
            p {
                span.kind-exact { (exact) " exact" } ", " span.kind-bounded { (bounded) " within a bound" } ", "
                span.kind-default { (default) " by an unconfirmed default" } " (wave instructions)."
            }
            (chart::shares(&[
                ("exact", "var(--good)", exact),
                ("within a bound", "var(--warn)", bounded),
                ("by default", "var(--bad)", default),
            ]))
            @if inexact.is_empty() { p.good { "Every instruction that executed is exact." } }
            @else { h3 { "Not exact" } (table(inexact.into_iter())) }
            details { summary { "Exact instructions" } (table(certain.into_iter())) }
        }
        @if let Some(taint) = taint {
            @let (sums, found): (Vec<_>, Vec<_>) = taint.iter().partition(|record| !text(record, "event").is_empty());
            h3 { "Where values that are not exact arrived" }
            @if found.is_empty() { p.good { "At no address, branch or synchronisation." } }
            @else { (table(found.into_iter())) }
            @if !sums.is_empty() { (table(sums.into_iter())) }
        }
    })
}

fn findings(records: &Records) -> Option<Markup> {
    let present: Vec<_> = FINDINGS
        .iter()
        .filter_map(|(name, title)| Some((title, records.plugins.get(*name)?)))
        .collect();
    if present.is_empty() {
        return None;
    }
    Some(html! {
        @for (title, all) in present {
            @let (sums, found): (Vec<_>, Vec<_>) = all.iter().partition(|record| !text(record, "event").is_empty());
            h3 { (title) }
            @if found.is_empty() { p.good { "None." } } @else { (table(found.into_iter())) }
            @for sum in sums.iter().filter(|sum| text(sum, "event") == "summary") {
                p.note { (words(&Value::Object((*sum).clone()))) }
            }
        }
    })
}

fn kernels(records: &Records) -> Option<Markup> {
    let mut all = Vec::new();
    for run in &records.runs {
        let kernels = run.get("kernels").and_then(Value::as_object);
        for (name, kernel) in kernels.into_iter().flatten() {
            let mut row = Object::new();
            row.insert("kernel".to_owned(), name.as_str().into());
            let fields = kernel.as_object().into_iter().flatten();
            row.extend(
                fields
                    .filter(|(key, _)| *key != "forms")
                    .map(|(k, v)| (k.clone(), v.clone())),
            );
            all.push(row);
        }
    }
    (!all.is_empty()).then(|| table(all.iter()))
}

fn timeline(records: &Records) -> Option<Markup> {
    let dispatches: Vec<&Object> = records
        .runs
        .iter()
        .flat_map(|run| objects(run, "dispatches"))
        .collect();
    (!records.slices.is_empty()).then(|| {
        html! {
            (chart::timeline(&records.slices))
            @if !dispatches.is_empty() {
                details { summary { "Dispatches" } (table(dispatches.iter().copied())) }
            }
        }
    })
}

fn mix(records: &Records) -> Option<Markup> {
    const NAMED: usize = 30;
    let mut kernels: BTreeMap<&str, BTreeMap<&str, f64>> = BTreeMap::new();
    for record in records.plugins.get("instruction_mix")? {
        let mnemonics = record.get("mnemonics").and_then(Value::as_object);
        for (name, one) in mnemonics.into_iter().flatten() {
            // The summary has all of it once more.
            if let Some(kernel) = record.get("kernel_name").and_then(Value::as_str) {
                let count = one.get("executions").and_then(Value::as_f64);
                let all = kernels.entry(kernel).or_default().entry(name).or_default();
                *all += count.unwrap_or(0.0);
            }
        }
    }
    Some(html! {
        @for (kernel, counts) in &kernels {
            @let mut counts: Vec<(String, f64)> = counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
            @let () = counts.sort_by(|a, b| b.1.total_cmp(&a.1));
            @let listed: Vec<Object> = counts.iter().map(|(name, count)| {
                Object::from_iter([("instruction".to_owned(), name.as_str().into()), ("count".to_owned(), json!(count))])
            }).collect();
            h3 { (kernel) }
            (chart::bars(counts.get(..NAMED.min(counts.len())).unwrap_or_default()))
            details { summary { "All " (counts.len()) } (table(listed.iter())) }
        }
    })
}

fn heat(records: &Records) -> Option<Markup> {
    const PAGE: f64 = 4096.0;
    let of_plugins = records.plugins.values().flatten();
    let all: Vec<&Object> = of_plugins
        .filter(|record| text(record, "event") == "heat")
        .collect();
    if all.is_empty() {
        return None;
    }
    let pages = |record: &Object| -> Vec<(u64, f64, f64)> {
        let list = record.get("pages").and_then(Value::as_array);
        let page = |page: &Value| {
            let at = |i: usize| page.get(i).and_then(Value::as_f64);
            Some((at(0)? as u64, at(1)?, at(2)?))
        };
        list.into_iter().flatten().filter_map(page).collect()
    };
    let listed: Vec<Object> = all
        .iter()
        .map(|record| {
            let mut row = (*record).clone();
            let pages = pages(record);
            row.remove("event");
            row.insert("pages".to_owned(), pages.len().into());
            row.insert(
                "bytes_read".to_owned(),
                json!(pages.iter().map(|p| p.1).sum::<f64>()),
            );
            row.insert(
                "bytes_written".to_owned(),
                json!(pages.iter().map(|p| p.2).sum::<f64>()),
            );
            row
        })
        .collect();
    Some(html! {
        p.note { "A cell is a page of 4 KiB: above bytes read, below bytes written, on a logarithmic scale of the allocation's own." }
        (table(listed.iter()))
        @for record in all {
            h3 { (text(record, "label")) " at " (text(record, "start")) ", " (number(record, "bytes")) " bytes" }
            (chart::heat(&pages(record), (number(record, "bytes") / PAGE).ceil().max(1.0) as usize))
        }
    })
}

/// Records of `throughput`, with the instructions of each family in a column.
fn throughput(records: &Records) -> Option<Markup> {
    const COLUMNS: [&str; 10] = [
        "record",
        "dispatch_id",
        "kernel_name",
        "workgroups",
        "dispatches",
        "wave_instructions",
        "wall_seconds",
        "dispatch_seconds_sum",
        "mips",
        "error",
    ];
    let mut columns = COLUMNS.map(str::to_owned).to_vec();
    let mut rows = records.plugins.get("throughput")?.clone();
    for row in &mut rows {
        let Some(Value::Object(families)) = row.remove("families") else {
            continue;
        };
        for (name, family) in families {
            if let Some(count) = family.get("instructions") {
                row.insert(name.clone(), count.clone());
            }
            if !columns.contains(&name) {
                columns.push(name);
            }
        }
    }
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    Some(of(&columns, rows.iter()))
}

fn plain(records: &Records, plugin: &str) -> Option<Markup> {
    Some(table(records.plugins.get(plugin)?.iter()))
}

fn driver(records: &Records) -> Option<Markup> {
    let mut parts: Vec<(&str, Vec<Object>)> = Vec::new();
    let faults = records.runs.iter().flat_map(|run| objects(run, "faults"));
    parts.push(("Faults", faults.cloned().collect()));
    for (key, title) in [
        ("packets", "Packets"),
        ("packets_refused", "Packets refused"),
        ("ioctls", "Ioctls"),
    ] {
        let of_runs = records
            .runs
            .iter()
            .filter_map(|run| run.get(key)?.as_object());
        let row = |(name, value): (&String, &Value)| {
            let mut row = Object::from_iter([("name".to_owned(), name.as_str().into())]);
            match value {
                Value::Object(object) => row.extend(object.clone()),
                other => drop(row.insert("count".to_owned(), other.clone())),
            }
            row
        };
        parts.push((title, of_runs.flatten().map(row).collect()));
    }
    parts.retain(|(_, rows)| !rows.is_empty());
    (!parts.is_empty()).then(|| {
        html! {
            @for (title, rows) in &parts { h3 { (title) } (table(rows.iter())) }
        }
    })
}

fn other(records: &Records) -> Option<Markup> {
    const SHOWN: [&str; 7] = [
        "race",
        "data_hazard",
        "memcheck",
        "fidelity",
        "instruction_mix",
        "throughput",
        "coverage",
    ];
    let rest = records
        .plugins
        .iter()
        .filter(|(name, _)| !SHOWN.contains(&name.as_str()));
    let rest: Vec<_> = rest.collect();
    (!rest.is_empty()).then(|| {
        html! {
            @for (name, all) in rest { h3 { (name) } (table(all.iter())) }
        }
    })
}
