//! Files in AMD's format, and a bounded storm of damaged files.

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{Config, ConfigError, Machine, preset};

fn parse(value: &Value) -> Result<Config, ConfigError> {
    Config::parse(&value.to_string(), Path::new("c.json"))
}

fn machine(value: &Value) -> Machine {
    parse(value).unwrap().machine().unwrap()
}

fn wrong(value: &Value) -> String {
    match parse(value) {
        Ok(_) => panic!("{value} was taken"),
        Err(error) => error.to_string(),
    }
}

/// A file in AMD's format with every key that their documentation and samples have.
fn sample() -> Value {
    serde_json::from_str(include_str!("../samples/amd-format.json")).unwrap()
}

fn own_sample() -> Value {
    serde_json::from_str(include_str!("../samples/own-format.json")).unwrap()
}

/// Puts a value at a path of keys.
fn set(value: &mut Value, path: &[&str], new: Value) {
    let mut here = value;
    for key in path {
        here = match here {
            Value::Array(list) => &mut list[key.parse::<usize>().unwrap()],
            other => &mut other[*key],
        };
    }
    *here = new;
}

fn with(path: &[&str], new: Value) -> Value {
    let mut value = sample();
    set(&mut value, path, new);
    value
}

#[test]
fn files_with_the_references_keys_load_as_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/config");
    for (file, target, count, compute_units) in [
        ("gfx90a", "gfx90a", 1, 104),
        ("gfx950-two", "gfx950", 2, 256),
        ("gfx1100", "gfx1100", 1, 96),
        ("gfx1250-four", "gfx1250", 4, 256),
    ] {
        let path = folder.join(file).with_extension("json");
        let config = Config::named(path.to_str().unwrap()).unwrap();
        let machine = config.machine().unwrap();
        assert_eq!(machine.gpus.len(), count, "{file}");
        for gpu in &machine.gpus {
            assert_eq!(
                (gpu.target.as_str(), gpu.compute_units),
                (target, compute_units)
            );
        }
        // All that has no effect is time and what is inside of caches.
        for warning in &config.warnings {
            let known = warning.key.starts_with("topology") || warning.key.ends_with("_assoc");
            assert!(known, "{file}: {warning}");
        }
    }
}

#[test]
fn a_sample_loads_as_it_is() {
    let config = parse(&sample()).unwrap();
    let machine = config.machine().unwrap();
    let [first, second] = &machine.gpus[..] else {
        panic!("two GPUs")
    };
    assert_eq!(
        (first.compute_units, first.xccs, first.shader_engines),
        (304, 8, 4)
    );
    assert_eq!(
        (first.identity.gpu_id, second.identity.gpu_id),
        (50148, 50149)
    );
    assert_eq!(
        (first.identity.render_minor, second.identity.render_minor),
        (130, 131)
    );
    assert_eq!(first.identity.hive_id, 1);
    assert_ne!(first.identity.location_id, second.identity.location_id);
    assert_eq!(first.product, "A name");
    assert_eq!(
        (first.vram_bytes, first.capability),
        (206_158_430_208, 2_889_327_232)
    );
    assert_eq!((first.caches[0].kib, first.caches[0].line), (16, 64));
    assert_eq!(machine.options.threads, Some(1));
    let told: Vec<_> = config
        .warnings
        .iter()
        .map(|warning| warning.key.as_str())
        .collect();
    assert_eq!(
        told,
        [
            "max_ticks",
            "vm.gpu.device.l1_assoc",
            "vm.gpu.device.l2_assoc",
            "vm.gpu.pci.vram_aperture_bytes",
            "topology: num_hbm_stacks, topology: sgprs_per_wf, topology: vgprs_per_wf, topology.links",
        ]
    );
}

#[test]
fn small_files_take_the_preset_of_the_family() {
    for (arch, name) in [
        ("cdna2", "mi210"),
        ("cdna3", "mi300x"),
        ("cdna4", "mi355x"),
        ("cdna5", "mi455x"),
        ("rdna3", "w7900"),
        ("rdna3_5", "strix-halo"),
        ("rdna4", "r9700"),
    ] {
        let machine = machine(&json!({"vm": {"arch": arch}}));
        assert_eq!(machine.gpus, [preset(name).unwrap()]);
        assert_eq!(machine.options.threads, Some(1));
    }
    let one = machine(
        &json!({"cpu_dispatch_threads": 6, "vm": {"arch": "cdna3"}, "topology": {
        "root": {"name": "soc", "type": "soc", "children": [{"name": "xcd[0:2]", "type": "xcd",
            "children": [{"name": "se[0:4]", "type": "shader_engine",
                "children": [{"name": "cu[0:3]", "type": "compute_unit"}]}]}]}}}),
    );
    assert_eq!((one.gpus[0].xccs, one.gpus[0].compute_units), (2, 24));
    assert_eq!(one.options.threads, Some(6));
}

#[test]
fn a_device_that_differs_from_its_components_counts() {
    let mut small = sample();
    small["vm"]["gpu"]["device"]["simd_count"] = json!(128);
    let config = parse(&small).unwrap();
    assert_eq!(config.cards[0].0.compute_units, 32);
    small["topology"]["root"]["children"][2]["children"][2]["name"] = json!("se[0:1]");
    small["topology"]["root"]["children"][2]["children"][2]["children"][0]["name"] =
        json!("cu[0:2]");
    small["vm"]["gpu"]["device"]["lds_size_kb"] = json!(32);
    let config = parse(&small).unwrap();
    assert_eq!(
        (config.cards[0].0.compute_units, config.cards[0].0.lds_kib),
        (32, 32)
    );
    let told: Vec<_> = config.warnings.iter().map(ToString::to_string).collect();
    assert!(
        told.iter()
            .any(|text| text.starts_with("vm.gpu.device.simd_count: 32 compute units count")),
        "{told:?}"
    );
    assert!(
        told.iter()
            .any(|text| text.starts_with("vm.gpu.device.lds_size_kb: 32 KiB count")),
        "{told:?}"
    );
}

#[test]
fn wrong_files_name_the_key() {
    let device = |key: &str, value: Value| with(&["vm", "gpu", "device", key], value);
    let root = |value| with(&["topology", "root"], value);
    for (value, part) in [
        (
            device("simd_cout", json!(4)),
            "vm.gpu.device.simd_cout: unknown key; did you mean `simd_count`",
        ),
        (
            device("simd_count", json!(-4)),
            "vm.gpu.device.simd_count: -4 where a whole number",
        ),
        (
            device("simd_count", json!(1217)),
            "vm.gpu.device.simd_count: 1217 is no multiple",
        ),
        (
            device("simd_count", json!(4096)),
            "vm.gpu.device.simd_count: 128 compute units of an XCC do not fit",
        ),
        (
            device("simd_per_cu", json!(2)),
            "vm.gpu.device.simd_per_cu: 2: it is 4 on gfx942",
        ),
        (
            device("gfx_target_version", json!(90500)),
            "vm.gpu.device.gfx_target_version: it stands for gfx950",
        ),
        (
            device("gfx_target_version", json!(100_300)),
            "100300 is no target",
        ),
        (
            device("capability", json!(0)),
            "vm.gpu.device.capability: 0x0: bits 13:12",
        ),
        (
            device("vram_type", json!(3)),
            "vm.gpu.device.vram_type: 3 is none of 6",
        ),
        (
            with(&["exec_mode"], json!("clocked")),
            "exec_mode: `clocked`",
        ),
        (
            with(&["exec_mode"], json!("fast")),
            "exec_mode: `fast` is none",
        ),
        (with(&["vm", "arch"], json!("rdna2")), "vm.arch: "),
        (
            with(&["vm", "arch"], json!("rdna4")),
            "vm.arch: it stands for gfx1201",
        ),
        (
            with(&["vm", "arch"], json!("cdna33")),
            "did you mean `cdna3`",
        ),
        (
            with(&["async_helper_threads"], json!(-2)),
            "async_helper_threads: -2 is out of range",
        ),
        (
            with(&["thread_alocations"], json!([])),
            "did you mean `thread_allocations`?",
        ),
        (
            with(&["plugins", "race"], json!({"limit": []})),
            "plugins.race.limit: a text, a number or a truth value belongs here",
        ),
        (
            with(&["sinks", "dir"], Value::Null),
            "sinks.dir: null where a text",
        ),
        (
            with(&["sinks"], json!({"types": ["file"]})),
            "sinks.dir: the key is missing",
        ),
        (
            with(&["sinks", "types"], json!(["stdrr"])),
            "sinks.types[0]: `stdrr` is none",
        ),
        (
            root(json!({"name": "soc"})),
            "topology.root.type: the key is missing",
        ),
        (
            root(json!({"name": "soc[0:900]", "type": "soc"})),
            "topology.root.name: `soc[0:900]`",
        ),
        (
            root(json!({"name": "x", "type": "gpu_memry"})),
            "did you mean `gpu_memory`?",
        ),
        (
            json!({"dbt_guest": {"enabled": true}}),
            "dbt_guest: translation",
        ),
        (json!({"vm": {}}), "vm.arch: the key is missing"),
        (json!({"topology": {}}), "vm: the key is missing"),
    ] {
        let error = wrong(&value);
        assert!(error.contains(part), "{part}\n{error}");
    }
}

/// Every number and text of a file, by its path.
fn leaves(value: &Value, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                path.push(key.clone());
                leaves(value, path, found);
                path.pop();
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                path.push(index.to_string());
                leaves(value, path, found);
                path.pop();
            }
        }
        _ => found.push(path.clone()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever one value is replaced by: no panic, and an error names a key on its path.
    #[test]
    fn a_damaged_value_is_an_error_with_its_key(
        own in any::<bool>(),
        place in any::<prop::sample::Index>(),
        new in prop_oneof![
            Just(Value::Null), Just(json!(-1)), Just(json!(0)), Just(json!(1.5)),
            Just(json!(u64::MAX)), Just(json!("")), Just(json!("x[")), Just(json!([])),
            Just(json!({})), Just(json!(true)), any::<u32>().prop_map(|n| json!(n)),
            (0..64_u32).prop_map(|n| json!(n)), ".{0,12}".prop_map(|text| json!(text)),
        ],
    ) {
        let mut value = if own { own_sample() } else { sample() };
        let mut paths = Vec::new();
        leaves(&value, &mut Vec::new(), &mut paths);
        let path = &paths[place.index(paths.len())];
        let mut here = &mut value;
        for key in path {
            here = match here {
                Value::Array(list) => &mut list[key.parse::<usize>().unwrap()],
                other => &mut other[key.as_str()],
            };
        }
        *here = new;
        match parse(&value) {
            Ok(config) => {
                let machine = config.machine().unwrap();
                for gpu in &machine.gpus {
                    prop_assert!(gpu.save_area().0 > 0 && gpu.array_count() > 0);
                }
            }
            Err(ConfigError::Value { key, reason, .. }) => {
                let named = key.split(['.', '[']).next().unwrap_or_default();
                prop_assert!(!reason.is_empty() && value.get(named).is_some(), "{key}: {reason}");
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    /// A key with letters changed is an error that names it.
    #[test]
    fn a_damaged_text_never_panics(
        own in any::<bool>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..4),
    ) {
        let value = if own { own_sample() } else { sample() };
        let mut text = value.to_string().into_bytes();
        for (place, byte, action) in edits {
            let at = place.index(text.len());
            match action {
                0 => text[at] = byte,
                1 => text.insert(at, byte),
                _ => { text.remove(at); }
            }
        }
        let text = String::from_utf8_lossy(&text);
        if let Err(error) = Config::parse(&text, Path::new("c.json")) {
            prop_assert!(error.to_string().starts_with("c.json: "));
        }
    }
}

#[test]
fn plugins_come_from_files_and_the_environment() {
    let text = json!({
        "gpu": "mi300x",
        "plugins": {"race": {"limit": 3, "fail": true}, "logging": {}},
        "require_all_plugins": true,
        "sinks": {"types": ["stderr", "file"], "dir": "/tmp/x"},
    })
    .to_string();
    let config = Config::parse(&text, Path::new("x.json")).unwrap();
    let mut plugins = config.options.plugins;
    plugins.add("trace:wave=0,short; throughput");
    assert!(plugins.require_all && plugins.directory == Some("/tmp/x".into()));
    assert_eq!(plugins.sinks, ["stderr", "file"]);
    let names: Vec<_> = plugins
        .plugins
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(names, ["logging", "race", "trace", "throughput"]);
    let option = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(
        plugins.plugins[1].1,
        [option("fail", "true"), option("limit", "3")]
    );
    assert_eq!(
        plugins.plugins[2].1,
        [option("wave", "0"), option("short", "")]
    );
}
