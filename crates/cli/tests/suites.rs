//! `scripts/suites` against a test program that passes, fails, skips, dies and never ends. Neither ROCm nor a root is needed:
//! the script's copy finds a stand-in for `in-rocm-root` beside it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs what stands behind `run --gpu NAME --` with the root in front of its path.
const IN_ROOT: &str = r#"#!/bin/bash
root=$1
while [ "$1" != -- ]; do shift; done
[ "$3 $4 $6" = "run --gpu --" ] || exit 99
export GPU=$5
exec "$root$7" "${@:8}"
"#;

/// A program of googletest's manners. It keeps a list of the tests that it ran.
const PROGRAM: &str = r#"#!/bin/bash
case "$1" in --gtest_list_tests)
    printf 'Log of the start\nPlain.\n  passes\n  DISABLED_never\n  skips  # GetParam() = 3\nTyped/0.  # TypeParam = int\n  fails\n  dies\n  spins\n  last\n'
    exit;;
esac
chosen=:${1#--gtest_filter=}:
for test in Plain.passes Plain.skips Typed/0.fails Typed/0.dies Typed/0.spins Typed/0.last; do
    case "$chosen" in *:$test:*) ;; *) continue;; esac
    echo "[ RUN      ] $test"
    echo "$GPU $test" >> "$(dirname "$0")/ran"
    case $test in
        *.skips) echo "[  SKIPPED ] $test (0 ms)";;
        *.fails) echo "[  FAILED  ] $test, where TypeParam = int (1 ms)";;
        *.dies) kill -9 $$;;
        *.spins) while :; do :; done;;
        *) echo "[       OK ] $test (3 ms)";;
    esac
done
"#;

fn script(path: PathBuf, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn every_test_of_a_suite_is_accounted_for_and_none_runs_twice() {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("SKIPPED: scripts/suites needs python3, which is not here");
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("suites");
    let _ = fs::remove_dir_all(&folder);
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/suites");
    script(
        folder.join("scripts/suites"),
        &fs::read_to_string(ours).unwrap(),
    );
    script(folder.join("scripts/rocm-root/in-rocm-root"), IN_ROOT);
    let tests = folder.join("root/usr/libexec/rocm/libhiprand1-tests");
    script(tests.join("test_things"), PROGRAM);
    let suites = |arguments: &[&str]| {
        let output = Command::new("python3")
            .arg(folder.join("scripts/suites"))
            .arg("--root")
            .arg(folder.join("root"))
            .arg("--state")
            .arg(folder.join("state"))
            .args(["--gpu", "w7900", "--test-limit", "1", "--batch", "2"])
            .args(arguments)
            .env("ROCJITSU", env!("CARGO_BIN_EXE_rocjitsu"))
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let answer = text(output.stdout) + &text(output.stderr);
        (output.status.success(), answer)
    };
    let (ended, answer) = suites(&["hiprand"]);
    assert!(ended, "{answer}");
    let row = "| hiprand (6) | 2 / 2 / 1, 1 stopped; all, ";
    assert!(answer.contains(row), "{answer}");
    let (_, failures) = suites(&["--failures", "hiprand"]);
    let mut failures: Vec<&str> = failures.lines().collect();
    failures.sort_unstable();
    assert_eq!(
        failures,
        [
            "died hiprand_test_things.w7900 Typed/0.dies",
            "failed hiprand_test_things.w7900 Typed/0.fails",
            "stopped hiprand_test_things.w7900 Typed/0.spins",
        ]
    );
    // Each ran once, for the GPU that was asked for; a later call finds nothing to do.
    let ran = || {
        let list = fs::read_to_string(tests.join("ran")).unwrap();
        let mut list: Vec<String> = list.lines().map(str::to_owned).collect();
        list.sort_unstable();
        list
    };
    let all = [
        "Plain.passes",
        "Plain.skips",
        "Typed/0.dies",
        "Typed/0.fails",
        "Typed/0.last",
        "Typed/0.spins",
    ]
    .map(|test| format!("w7900 {test}"));
    assert_eq!(ran(), all);
    let (_, answer) = suites(&["hiprand"]);
    assert!(answer.contains(row), "{answer}");
    assert_eq!(ran(), all);
    // An unknown suite is named, and so are those that there are.
    let (ended, answer) = suites(&["hiprande"]);
    assert!(
        !ended && answer.contains("unknown suite hiprande"),
        "{answer}"
    );
}
