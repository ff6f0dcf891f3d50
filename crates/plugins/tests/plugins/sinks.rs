//! Where records go, and what happens if they cannot.

use std::path::PathBuf;

use rocjitsu_isa::Target;
use rocjitsu_observe::Sink;
use rocjitsu_plugins::{Chosen, Selection, SinkKind, Sinks, build};

use super::rig::{Run, Watching, data, described};

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
    let files = [read("throughput.log"), read("instruction_mix.log"), own];
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
    assert!(!directory.join("logging.log").exists());
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
    assert_eq!(files, 1, "race.log");
    std::fs::remove_dir_all(&directory).expect("removed");
}

/// Two plugins that name one file share it, whatever they call it: all lines of both are there. What is written as a whole shares
/// with nobody, and is known to be writable before the run.
#[test]
fn a_file_has_one_writer() {
    let directory = directory("shared");
    let at = |name: &str| directory.join(name).display().to_string();
    std::os::unix::fs::symlink("s.jsonl", at("link.jsonl")).expect("a link");
    let names = [
        format!("throughput:file={}", at("s.jsonl")),
        format!("instruction_mix:file={}", at("./s.jsonl")),
        format!("logging:file={}", at("link.jsonl")),
    ];
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let launch = described(&data("corpus/built/vec_add_f32.json"), Target::Gfx942);
    // The second run begins again.
    for _ in 0..2 {
        let made = build(&chosen(&names, Sinks::default(), true), |e| panic!("{e}"));
        let plugins = made.expect("made");
        Run::new(&launch).go(&launch, &plugins, 1).expect("runs");
        let text = std::fs::read_to_string(at("s.jsonl")).expect("there");
        for line in text.lines() {
            serde_json::from_str::<serde_json::Value>(line).expect(line);
        }
        let count = |name: &str| text.matches(&format!("\"plugin\":\"{name}\"")).count();
        let counts = ["throughput", "instruction_mix", "logging"].map(count);
        assert_eq!(counts, [2, 2, 3], "{text}");
    }
    // Processes of a run add to it.
    let sinks = Sinks {
        append: true,
        ..Sinks::default()
    };
    let before = std::fs::read_to_string(at("s.jsonl")).expect("there");
    let plugins = build(&chosen(&names, sinks, true), |e| panic!("{e}")).expect("made");
    Run::new(&launch).go(&launch, &plugins, 1).expect("runs");
    let after = std::fs::read_to_string(at("s.jsonl")).expect("there");
    assert!(
        after.starts_with(&before) && after.lines().count() == 14,
        "{after}"
    );

    let refused = |names: &[&str]| {
        let made = build(&chosen(names, Sinks::default(), false), |e| panic!("{e}"));
        made.expect_err("it cannot be written").to_string()
    };
    for (text, why) in [
        (
            "trace:timeline=/nowhere/t.json",
            "cannot write /nowhere/t.json",
        ),
        (
            "coverage:lcov=/nowhere/c.info",
            "cannot write /nowhere/c.info",
        ),
        ("coverage:lcov=/proc/self", "cannot write /proc/self"),
    ] {
        assert!(refused(&[text]).contains(why), "{text}");
    }
    let (timeline, records) = (
        format!("trace:timeline={}", at("t.json")),
        format!("race:file={}", at("t.json")),
    );
    for both in [
        [&timeline, &records],
        [&records, &timeline],
        [&timeline, &timeline],
    ] {
        let error = refused(&both.map(String::as_str));
        assert!(error.contains("is written by another option"), "{error}");
    }
    for text in [
        "trace:timeline=",
        "trace:timeline",
        "coverage:lcov",
        "race:file=",
    ] {
        let made = build(&chosen(&[text], Sinks::default(), true), |e| panic!("{e}"));
        let error = made.expect_err(text).to_string();
        assert!(error.contains("takes the name of a file"), "{error}");
    }
    std::fs::remove_dir_all(&directory).expect("removed");
}

/// `%p` stands for the process's number in the names of all files.
#[test]
fn files_can_have_the_processes_number() {
    let directory = directory("numbered");
    let at = |name: &str| directory.join(name).display().to_string();
    let names = [
        format!("trace:timeline={}", at("t-%p.json")),
        format!("coverage:lcov={}", at("c-%p.info")),
        format!("throughput:file={}", at("r-%p.jsonl")),
    ];
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let plugins = build(&chosen(&names, Sinks::default(), true), |e| panic!("{e}")).expect("made");
    let launch = described(&data("corpus/built/vec_add_f32.json"), Target::Gfx942);
    Run::new(&launch).go(&launch, &plugins, 1).expect("runs");
    let mut found: Vec<String> = std::fs::read_dir(&directory)
        .expect("there")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    found.sort();
    let process = std::process::id();
    let expected = [
        format!("c-{process}.info"),
        format!("r-{process}.jsonl"),
        format!("t-{process}.json"),
    ];
    assert_eq!(found, expected);
    std::fs::remove_dir_all(&directory).expect("removed");
}

/// Plugins that had nothing to record say so.
#[test]
fn nothing_is_said_to_be_nothing() {
    let lcov = std::env::temp_dir().join(format!("rocjitsu-none-{}.info", std::process::id()));
    let coverage = format!("coverage:lcov={}", lcov.display());
    let launch = described(&data("corpus/built/asm_axpy.json"), Target::Gfx942);
    let texts = ["trace:kernel=zzz", "trace:workgroup=99999999", &coverage];
    let watching = Watching::new(&texts);
    Run::new(&launch)
        .go(&launch, &watching.plugins, 1)
        .expect("runs");
    for index in 0..3 {
        let last = watching.records(index).pop().expect("a record");
        assert_eq!(last["event"], "nothing", "{last}");
    }
    let kernels = &watching.records(0)[0]["kernels_dispatched"];
    assert_eq!(*kernels, serde_json::json!([launch.kernel.name]));
    assert_eq!(std::fs::read(&lcov).expect("written"), b"");
    std::fs::remove_file(&lcov).expect("removed");
}
