//! Where records go, and what happens if they cannot.

use std::path::PathBuf;

use rocjitsu_isa::Target;
use rocjitsu_observe::Sink;
use rocjitsu_plugins::{Chosen, Selection, SinkKind, Sinks, build};

use super::rig::{Run, data, described};

fn chosen(names: &[&str], sinks: Sinks, required: bool) -> Chosen {
    let plugins = names.iter().map(|text| Selection {
        required,
        ..text.parse().expect("a selection")
    });
    Chosen {
        plugins: plugins.collect(),
        sinks,
    }
}

fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("rocjitsu-sinks-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&path).expect("a directory");
    path
}

/// Each plugin has a file of its own in the directory, unless it names one; `also` gets everything.
#[test]
fn files_hold_the_records_of_their_plugins() {
    // One that is not there is made.
    let directory = directory("files").join("made");
    let own = directory.join("own.%p.txt");
    let (also, bytes) = Sink::memory();
    let sinks = Sinks {
        kinds: vec![SinkKind::File],
        directory: Some(directory.clone()),
        also: Some(also),
        ..Sinks::default()
    };
    let logging = format!("logging:file={}", own.display());
    let names = ["throughput", "instruction_mix", &logging];
    let plugins = build(&chosen(&names, sinks, true), |e| panic!("{e}")).expect("made");
    let launch = described(&data("corpus/built/vec_add_f32.json"), Target::Gfx942);
    Run::new(&launch).go(&launch, &plugins, 1).expect("runs");
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).expect(name);
    let own = read(&format!("own.{}.txt", std::process::id()));
    let files = [read("throughput.jsonl"), read("instruction_mix.jsonl"), own];
    for (file, name) in files
        .iter()
        .zip(["throughput", "instruction_mix", "logging"])
    {
        let of = format!("\"plugin\":\"{name}\"");
        assert!(
            !file.is_empty() && file.lines().all(|line| line.contains(&of)),
            "{file}"
        );
    }
    let also = String::from_utf8(bytes.lock().expect("not poisoned").clone()).expect("text");
    let count = |text: &str| text.lines().count();
    assert_eq!(
        count(&also),
        files.iter().map(|file| count(file)).sum::<usize>()
    );
    assert!(!directory.join("logging.jsonl").exists());
    let outer = directory.parent().expect("a folder");
    std::fs::remove_dir_all(outer).expect("removed");
}

/// A run whose records would be lost does not begin, whether the plugin is required or not.
#[test]
fn places_that_cannot_be_written_are_errors() {
    let nowhere = || Sinks {
        kinds: vec![SinkKind::File],
        directory: Some("/proc/nowhere/records".into()),
        ..Sinks::default()
    };
    for required in [true, false] {
        let error = build(&chosen(&["race"], nowhere(), required), |e| panic!("{e}"));
        let error = error.expect_err("no directory").to_string();
        assert!(
            error.contains("plugin `race`") && error.contains("/proc/nowhere/records"),
            "{error}"
        );
        let own = chosen(&["race:file=/nowhere/x"], Sinks::default(), required);
        let error = build(&own, |e| panic!("{e}"));
        let error = error.expect_err("no directory").to_string();
        assert!(error.contains("/nowhere/x"), "{error}");
    }
    // A plugin that does not exist is a warning unless it is required, and creates no file.
    let directory = directory("warned");
    let sinks = || Sinks {
        kinds: vec![SinkKind::File],
        directory: Some(directory.clone()),
        ..Sinks::default()
    };
    let mut warned = 0;
    let plugins = build(&chosen(&["trase", "race"], sinks(), false), |_| warned += 1);
    drop(plugins.expect("the other one"));
    assert_eq!(warned, 1);
    assert!(
        build(&chosen(&["trase", "race"], sinks(), true), |e| panic!(
            "{e}"
        ))
        .is_err()
    );
    let files = std::fs::read_dir(&directory).expect("there").count();
    assert_eq!(files, 1, "race.jsonl");
    std::fs::remove_dir_all(&directory).expect("removed");
}
