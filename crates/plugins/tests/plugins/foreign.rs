//! A plugin in C, compiled from the repository's example.

use std::path::{Path, PathBuf};
use std::process::Command;

use rocjitsu_isa::Target;
use rocjitsu_observe::{Lines, Plugins, Sink};
use rocjitsu_plugins::{Chosen, Selection, SinkKind, Sinks, build, make};
use serde_json::Value;

use super::rig::{Run, described, descriptions};

/// Compiles a source against the header.
fn compile(source: &str, name: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory =
        std::env::temp_dir().join(format!("rocjitsu-plugin-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let (file, out) = (directory.join("plugin.c"), directory.join("plugin.so"));
    std::fs::write(&file, source).expect("written");
    let status = Command::new("cc")
        .args([
            "-std=c99",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-unused-parameter",
            "-shared",
            "-fPIC",
            "-I",
        ])
        .arg(here.join("include"))
        .arg("-o")
        .args([&out, &file])
        .status();
    assert!(status.expect("a C compiler").success());
    out
}

fn example() -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(here.join("examples/count_stores.c")).expect("in the repository")
}

fn load(text: &str) -> Result<Plugins, String> {
    load_with(text, Vec::new())
}

fn load_with(text: &str, sinks: Vec<Sink>) -> Result<Plugins, String> {
    let selection: Selection = text.parse()?;
    let plugin = make(&selection, Lines::new(sinks))?;
    let mut plugins = Plugins::new();
    plugins.add("count_stores", plugin);
    Ok(plugins)
}

#[test]
fn the_example_counts_what_a_kernel_stores() {
    let plugin = compile(&example(), "example");
    let target = Target::Gfx942;
    let path = descriptions(target)
        .into_iter()
        .find(|p| p.ends_with("vec_add_f32.json"));
    let launch = described(&path.expect("in the corpus"), target);
    let (sink, lines) = Sink::memory();
    let plugins = load_with(&plugin.display().to_string(), vec![sink]).expect("loads");
    let done = Run::new(&launch).go(&launch, &plugins, 2).expect("runs");
    // One float for each of a thousand elements.
    let want = serde_json::json!({
        "plugin": "plugin",
        "dispatch": 1,
        "kernel": launch.kernel.name,
        "bytes_stored": 4000,
        "wave_instructions": done.wave_instructions,
    });
    let text = String::from_utf8(lines.lock().expect("not poisoned").clone()).expect("text");
    let record: Value = serde_json::from_str(text.trim()).expect("a line");
    assert_eq!(record, want);
    // Its error ends the run, with the text and the name.
    let plugins = load(&format!("{}:limit=100", plugin.display())).expect("loads");
    let error = Run::new(&launch)
        .go(&launch, &plugins, 2)
        .expect_err("the limit is low");
    assert!(
        error.contains("plugin `count_stores`: more than 100 bytes stored, by "),
        "{error}"
    );
    assert!(error.contains("store_dword"), "{error}");
}

#[test]
fn wrong_plugins_and_configurations_are_refused() {
    let plugin = compile(&example(), "refused");
    let refused = |text: &str| load(text).expect_err(text);
    let error = refused(&format!("{}:limit=many", plugin.display()));
    assert!(error.contains("`many` is no integer"), "{error}");
    let error = refused(&format!("{}:colour=red", plugin.display()));
    assert!(
        error.contains("no option `colour`; it has limit"),
        "{error}"
    );
    for version in ["7", "1"] {
        let other = format!(".abi = {version}");
        let other = example().replace(".abi = ROCJITSU_PLUGIN_ABI", &other);
        let error = refused(
            &compile(&other, &format!("version{version}"))
                .display()
                .to_string(),
        );
        let named = error.contains(&format!("version {version}"));
        assert!(named && error.contains("has version 2"), "{error}");
    }
    let threads = example().replace(".schema", ".threads = 3, .schema");
    let error = refused(&compile(&threads, "threads").display().to_string());
    assert!(error.contains("3 for `threads`"), "{error}");
    let events = example().replace("ROCJITSU_DISPATCHES | ", "1024 | ");
    let error = refused(&compile(&events, "events").display().to_string());
    assert!(error.contains("0x480 for `events`"), "{error}");
    let none = compile("int nothing;", "none");
    let error = refused(&none.display().to_string());
    assert!(error.contains("rocjitsu_plugin_entry"), "{error}");
}

/// Records of a loadable plugin go where those of others go: to the sinks of the run, or to the file that an option names. One of
/// the first minor version of the interface has none, and knows its own options only.
#[test]
fn records_from_c_go_to_the_sinks() {
    let plugin = compile(&example(), "sinks");
    let folder = plugin.parent().expect("a folder");
    let file = folder.join("own.jsonl");
    let launch = described(
        &super::rig::data("corpus/built/vec_add_f32.json"),
        Target::Gfx942,
    );
    let with = |text: String| {
        let (also, lines) = Sink::memory();
        let chosen = Chosen {
            plugins: vec![text.parse::<Selection>().expect("a selection")],
            sinks: Sinks {
                kinds: vec![SinkKind::File],
                directory: Some(folder.to_owned()),
                also: Some(also),
                ..Sinks::default()
            },
        };
        let chosen = Chosen {
            plugins: chosen
                .plugins
                .into_iter()
                .map(|s| Selection {
                    required: true,
                    ..s
                })
                .collect(),
            ..chosen
        };
        let plugins = build(&chosen, |e| panic!("{e}")).map_err(|e| e.to_string())?;
        Run::new(&launch).go(&launch, &plugins, 2)?;
        let lines = lines.lock().expect("not poisoned").clone();
        Ok::<_, String>(String::from_utf8(lines).expect("text"))
    };
    let also = with(plugin.display().to_string()).expect("runs");
    assert!(also.contains("\"bytes_stored\":4000"), "{also}");
    let read = |path: &Path| std::fs::read_to_string(path).expect("written");
    assert_eq!(read(&folder.join("plugin.log")), also);
    let also = with(format!("{}:file={}", plugin.display(), file.display())).expect("runs");
    assert_eq!(read(&file), also);
    // As it was compiled before there were records: the word was padding.
    let old = example().replace(".minor = ROCJITSU_PLUGIN_MINOR,", "");
    let old = compile(&old, "old");
    let error = with(format!("{}:file=x", old.display())).expect_err("no such option");
    assert!(error.contains("no option `file`"), "{error}");
    with(old.display().to_string()).expect("it works as ever");
    // What is no object is no record.
    let broken = example().replace("{\\\"dispatch", "[\\\"dispatch");
    assert_ne!(broken, example());
    let error = with(compile(&broken, "broken").display().to_string());
    let error = error.expect_err("no JSON");
    assert!(
        error.contains("the record of a dispatch cannot be written"),
        "{error}"
    );
}

/// Everything that the host offers and every event, from C: the plugin compares what it is told by several ways.
#[test]
fn all_of_the_interface_works_from_c() {
    let source = include_str!("everything.c");
    let target = Target::Gfx942;
    let path = descriptions(target)
        .into_iter()
        .find(|p| p.ends_with("hip_lds_reduce.json"));
    let launch = described(&path.expect("in the corpus"), target);
    for (threads, name) in [
        ("ROCJITSU_SERIAL", "serial"),
        ("ROCJITSU_ONE_THREAD", "one"),
        ("ROCJITSU_CONCURRENT", "concurrent"),
    ] {
        let plugin = compile(&source.replace("THREADS", threads), name);
        let out = plugin.with_file_name("seen.txt");
        let selection = format!("{}:path={}", plugin.display(), out.display());
        let plugins = load(&selection).expect("loads");
        assert_eq!(plugins.one_thread(), name == "one");
        let done = Run::new(&launch).go(&launch, &plugins, 2).expect("runs");
        drop(plugins);
        let text = std::fs::read_to_string(&out).expect("written");
        let groups: u64 = launch.grid.iter().map(|&n| u64::from(n)).product();
        let want = format!(
            "code 1 dispatches 1 workgroups {groups} waves {} before {n} after {n} families {n}\n",
            done.waves,
            n = done.wave_instructions,
        );
        assert!(text.starts_with(&want), "{text} but {want}");
        // What it saw of LDS, SCC and MODE.
        assert!(text.ends_with("lds 1 scc 1 mode 1 destroyed 1\n"), "{text}");
    }
}

/// Two workers are within a callback at once if the plugin says that they may, and else never.
#[test]
fn callbacks_are_concurrent_where_the_plugin_says_so() {
    let source = include_str!("rendezvous.c");
    let target = Target::Gfx942;
    let path = descriptions(target)
        .into_iter()
        .find(|p| p.ends_with("hip_tiled_matmul.json"));
    let launch = described(&path.expect("in the corpus"), target);
    for (threads, patience, met) in [
        ("ROCJITSU_CONCURRENT", 60_000, "met 1\n"),
        ("ROCJITSU_SERIAL", 300, "met 0\n"),
    ] {
        let plugin = compile(&source.replace("THREADS", threads), threads);
        let out = plugin.with_file_name("met.txt");
        let options = format!("path={},patience={patience}", out.display());
        let plugins = load(&format!("{}:{options}", plugin.display())).expect("loads");
        let run = Run::new(&launch);
        run.go(&launch, &plugins, 2).expect("runs");
        let text = std::fs::read_to_string(&out).expect("written");
        assert_eq!(text, met, "{threads}");
    }
}
