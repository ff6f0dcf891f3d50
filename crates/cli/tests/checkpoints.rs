//! Launches that are kept in the middle and taken up elsewhere: the same bytes come out. Damaged files: an error, never a panic.

use std::io::Cursor;
mod kernels;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rocjitsu_cli::checkpoint::{State, file};
use rocjitsu_cli::commands::gpu::Request;
use rocjitsu_cli::launch::Launch;
use rocjitsu_cli::launch::from_description::Selection;
use rocjitsu_cli::session::{Instead, Session, Until, forge};
use rocjitsu_exec::target::EXECUTABLE;
use rocjitsu_isa::Target;
use rocjitsu_lanes::Backend;

fn built(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../data/corpus/built")
        .join(name)
}

fn session(path: &Path, target: Target, repeat: u32) -> Session {
    let launch = Launch::from_description(path, Selection::of(target)).unwrap();
    let mut request = Request::default();
    // Loops that retry an atomic count the same each time.
    request.threads = Some(1);
    let host = request.resolve(target, None).unwrap();
    Session::new(launch, request, host, repeat).unwrap()
}

/// What a session is in a file.
fn kept(session: &Session) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    session.save(&path).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    std::fs::read(path).unwrap()
}

fn taken_up(bytes: &[u8], threads: u32, lanes: Backend) -> Session {
    let instead = Instead {
        threads: Some(threads),
        lanes: Some(lanes),
    };
    Session::read(Cursor::new(bytes), instead).unwrap_or_else(|e| panic!("{e:#}"))
}

/// Whether the buffers hold what they should, or the same as `other`'s where nothing says what that is.
fn is_good(session: &Session, other: &[Vec<u8>]) -> bool {
    let report = session.report().unwrap();
    report.good() || report.contents == other
}

/// Whether a launch makes atomic updates, so that its results may depend on the order in which threads make them.
fn updates_in_any_order(session: &Session) -> bool {
    let report = session.report().unwrap();
    let forms = report.runs.fastest.unwrap_or_default().forms;
    let moves = ["read", "load", "write", "store", "permute", "swizzle"];
    forms.iter().any(|form| {
        let name = form.instruction.as_str();
        name.contains("atomic")
            || name.starts_with("ds_") && !moves.iter().any(|part| name.contains(part))
    })
}

/// A sequence of numbers that looks random.
fn scattered(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below.max(1)
    }
}

/// A kernel of the corpus, kept twice at points that look random, each time taken up with other threads and lanes.
#[test]
fn kernels_come_to_the_same_bytes_from_any_point() {
    let lanes: Vec<Backend> = Backend::supported().collect();
    let mut random = scattered(1);
    let (mut cases, mut compared) = (0, 0);
    for (number, target) in EXECUTABLE.into_iter().enumerate() {
        for (index, path) in kernels::descriptions("corpus", target).iter().enumerate() {
            if (index + number) % 4 != 0 {
                continue;
            }
            let mut whole = session(path, target, 1);
            assert!(whole.go(Until::End, true, None).unwrap());
            let want = whole.report().unwrap().contents;
            let total = whole.instructions();
            let any_order = updates_in_any_order(&whole);
            let name = path.display();
            assert!(is_good(&whole, &[]) || !want.is_empty(), "{name}");
            let first = random(total);
            let mut part = session(path, target, 1);
            assert!(!part.go(Until::Instruction(first), true, None).unwrap());
            assert_eq!(part.instructions(), first, "{name}");
            let bytes = kept(&part);
            let mut part = taken_up(&bytes, 1, lanes[random(lanes.len() as u64) as usize]);
            let second = first + random(total - first);
            let ended = part.go(Until::Instruction(second), true, None).unwrap();
            assert!(!ended && part.instructions() == second, "{name}");
            let bytes = kept(&part);
            for threads in [1, 4] {
                let lanes = lanes[random(lanes.len() as u64) as usize];
                let mut rest = taken_up(&bytes, threads, lanes);
                assert!(rest.go(Until::End, true, None).unwrap());
                let same = rest.report().unwrap().contents == want;
                compared += u32::from(same);
                assert!(
                    same || any_order && threads > 1 && is_good(&rest, &want),
                    "{name} on {target}, kept at {first} and {second} of {total}, {threads} threads, {lanes}"
                );
                if threads == 1 {
                    assert_eq!(rest.instructions(), total, "{name} on {target}");
                }
            }
            cases += 1;
        }
    }
    assert!(cases > 50, "{cases} kernels");
    assert!(
        100 * compared > 95 * 2 * cases,
        "{compared} of {} came to equal bytes",
        2 * cases
    );
}

#[test]
fn the_dispatches_that_are_left_run_on_fresh_buffers() {
    let path = built("hip_escape_time.json");
    let mut whole = session(&path, Target::Gfx1100, 3);
    assert!(!whole.go(Until::Dispatch(2), true, None).unwrap());
    assert_eq!((whole.dispatches(), whole.workgroups()), (1, None));
    let one = whole.instructions();
    let mut rest = taken_up(&kept(&whole), 2, Backend::Scalar);
    assert!(
        !rest
            .go(Until::Instruction(2 * one + 5), true, None)
            .unwrap()
    );
    assert_eq!(rest.dispatches(), 2);
    let mut rest = taken_up(&kept(&rest), 2, Backend::best());
    assert!(rest.go(Until::End, true, None).unwrap());
    assert_eq!((rest.dispatches(), rest.instructions()), (3, 3 * one));
    let report = rest.report().unwrap();
    assert!(report.good() && report.runs.count == 3);
}

/// A launch in the middle of its dispatch, with LDS, barriers and scratch where there are some.
fn sample() -> Session {
    let mut part = session(&built("hip_lds_reduce.json"), Target::Gfx942, 2);
    assert!(!part.go(Until::Instruction(900), true, None).unwrap());
    part
}

fn error(bytes: &[u8]) -> String {
    match Session::read(Cursor::new(bytes), Instead::default()) {
        Ok(_) => panic!("it was read"),
        Err(error) => format!("{error:#}"),
    }
}

#[test]
fn every_truncation_and_random_changes_are_errors() {
    let good = kept(&sample());
    let step = (good.len() / 500).max(1);
    for length in (0..good.len())
        .step_by(step)
        .chain(good.len() - 40..good.len())
    {
        error(&good[..length]);
    }
    let mut random = scattered(2);
    for _ in 0..500 {
        let mut bad = good.clone();
        let at = random(bad.len() as u64) as usize;
        bad[at] ^= 1 + random(255) as u8;
        error(&bad);
    }
    let mut newer = good.clone();
    newer[8] = 77;
    assert!(error(&newer).contains("a checkpoint of format 77, written by rocjitsu"));
    assert_eq!(error(b"what is this"), "not a checkpoint");
}

/// Bytes that no program wrote, with the right digest: whatever is read from them runs or fails, and never panics.
#[test]
fn forged_states_are_errors_or_launches() {
    let good = kept(&sample());
    let read = file::read(Cursor::new(&good)).unwrap();
    let state = read.state.clone();
    let mut pages = Vec::new();
    read.pages(|run, page, bytes| {
        pages.push((run, page, *bytes));
        true
    })
    .unwrap();
    assert!(error(&forge(&state[..state.len() - 1], &pages).unwrap()).contains("the state in it"));
    let long = [&state[..], &[0]].concat();
    assert!(error(&forge(&long, &pages).unwrap()).contains("1 bytes behind the state"));
    let far = [(9999, 0, [1; file::PAGE])];
    assert!(error(&forge(&state, &far).unwrap()).contains("out of place"));
    // Names, code and buffers come first; the checks are for what follows.
    let rest = State::from_bytes(&state)
        .unwrap()
        .bytes_behind_launch()
        .unwrap();
    let tail = state.len() - rest;
    let mut random = scattered(3);
    let (mut refused, mut run) = (0, 0);
    for _ in 0..1500 {
        let mut bad = state.clone();
        for _ in 0..=random(2) {
            let at = tail + random((bad.len() - tail) as u64) as usize;
            bad[at] = match random(3) {
                0 => 0xff,
                1 => 0,
                _ => random(256) as u8,
            };
        }
        let bytes = forge(&bad, &pages).unwrap();
        let Ok(mut forged) = Session::read(Cursor::new(&bytes), Instead::default()) else {
            refused += 1;
            continue;
        };
        let until = forged.instructions().saturating_add(300);
        let _ = forged.go(Until::Instruction(until), true, None);
        run += 1;
    }
    assert!(refused > 50 && run > 50, "{refused} refused, {run} run");
}

fn rocjitsu(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rocjitsu"))
        .args(args)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_commands_keep_and_take_up() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a checkpoint");
    let file = file.to_str().unwrap();
    let out = folder.path().join("out.npy");
    let json = built("hip_escape_time.json");
    let launch = |more: &[&str]| {
        let args = ["launch", json.to_str().unwrap(), "--target", "gfx942"];
        rocjitsu(&[&args, more].concat())
    };
    let kept = launch(&["--checkpoint", file, "--at", "instruction:900", "--json"]);
    assert_eq!(kept.status.code(), Some(0), "{}", text(&kept.stderr));
    let said: serde_json::Value = serde_json::from_slice(&kept.stdout).unwrap();
    assert_eq!(
        (&said["ok"], &said["wave_instructions"], &said["dispatch"]),
        (&true.into(), &900.into(), &1.into())
    );
    assert_eq!(said["checkpoint"], file);
    let written = format!("0={}", out.display());
    for lanes in Backend::supported() {
        let args = [
            "resume",
            file,
            "--check",
            "--out",
            &written,
            "--threads",
            "3",
        ];
        let end = rocjitsu(&[&args[..], &["--lanes", lanes.name()]].concat());
        assert_eq!(end.status.code(), Some(0), "{}", text(&end.stderr));
        let said = text(&end.stdout);
        assert!(said.contains("22456 wave instructions") && said.contains("ok   steps: equal"));
        assert!(std::fs::read(&out).unwrap().starts_with(b"\x93NUMPY"));
    }
    // A launch that ends before.
    let end = launch(&["--check", "--checkpoint", file, "--at", "instruction:22457"]);
    assert_eq!(end.status.code(), Some(1));
    assert!(text(&end.stderr).contains("came to its end before the checkpoint"));
    // Usage.
    for (more, what) in [
        (&["--checkpoint", file][..], "--at"),
        (&["--at", "signal"], "--checkpoint"),
        (
            &["--checkpoint", file, "--at", "dispatch:2"],
            "the launch has 1",
        ),
        (&["--checkpoint", file, "--at", "wave:2"], "instruction:N"),
        (
            &[
                "--checkpoint",
                file,
                "--at",
                "signal",
                "--plugin",
                "throughput",
            ],
            "no plugins",
        ),
    ] {
        let end = launch(more);
        assert_eq!(end.status.code(), Some(2), "{more:?}");
        assert!(text(&end.stderr).contains(what), "{}", text(&end.stderr));
    }
    // Files that are no checkpoints.
    let good = std::fs::read(file).unwrap();
    for (bytes, what) in [
        (
            &good[..good.len() - 1],
            "damaged: its bytes are not those that were written",
        ),
        (&good[..20], "damaged: it ends after 20 bytes"),
        (&b"{}"[..], "not a checkpoint"),
    ] {
        std::fs::write(file, bytes).unwrap();
        let end = rocjitsu(&["resume", file, "--json"]);
        assert_eq!(end.status.code(), Some(1));
        assert!(text(&end.stderr).contains(what), "{}", text(&end.stderr));
        let said: serde_json::Value = serde_json::from_slice(&end.stdout).unwrap();
        assert_eq!(said["ok"], false);
    }
    let end = launch(&["--checkpoint", "/no/such/folder/file", "--at", "dispatch:1"]);
    assert_eq!(end.status.code(), Some(1));
    assert!(text(&end.stderr).contains("cannot write /no/such/folder/file"));
}

/// A kernel that spins until it is asked to stop; the parent asks once the child has said that it is ready to hear it.
#[test]
fn a_signal_stops_a_launch() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("checkpoint");
    let path = file.to_str().unwrap();
    let json = built("hip_escape_time.json");
    let mut child = Command::new(env!("CARGO_BIN_EXE_rocjitsu"))
        .args(["launch", json.to_str().unwrap(), "--target", "gfx942"])
        .args([
            "--repeat",
            "100000000",
            "--checkpoint",
            path,
            "--at",
            "signal",
        ])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    // Before it listens the signal would end it: the kernel tells which signals a process catches.
    let usr1 = 1u64 << 9;
    loop {
        assert_eq!(child.try_wait().unwrap(), None, "it is not there any more");
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        if caught.is_some_and(|mask| mask & usr1 != 0) {
            break;
        }
        std::thread::yield_now();
    }
    rustix::process::kill_process(pid, rustix::process::Signal::USR1).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let taken = Session::load(&file, Instead::default()).unwrap();
    assert!(taken.instructions() > 0 || taken.dispatches() == 0);
    assert_eq!(taken.repeat(), 100_000_000);
}
