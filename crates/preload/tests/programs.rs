//! C programs with the library loaded into them: every function through which a program can meet the simulated
//! files, and every way in which processes begin and end. Needs a C compiler.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The library lies beside this test's executable.
fn library() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let path = own.with_file_name("librocjitsu_preload.so");
    assert!(path.is_file(), "{} is not built", path.display());
    path
}

fn compile(name: &str) -> PathBuf {
    compile_as(name, name, &[])
}

/// Compiles a source to a file of another name, with further arguments.
fn compile_as(source: &str, name: &str, further: &[&std::ffi::OsStr]) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let done = Command::new("cc")
        .args([
            "-std=gnu11",
            "-O1",
            "-Wall",
            "-Werror",
            "-D_FORTIFY_SOURCE=2",
            "-pthread",
            "-o",
        ])
        .arg(&program)
        .arg(sources.join(source).with_extension("c"))
        .args(further)
        .status()
        .expect("a C compiler (cc) is needed");
    assert!(done.success());
    program
}

fn files() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile("files"))
}

fn processes() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile("processes"))
}

fn memory() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile("memory"))
}

fn lost() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile("lost"))
}

fn with_library(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library());
    for name in [
        "CONFIG", "GDB", "NUM_GPUS", "PLUGINS", "REPORT", "VERBOSE", "THREADS",
    ] {
        command.env_remove(format!("ROCJITSU_{name}"));
    }
    command
}

fn succeeds(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

macro_rules! checks {
    ($($program:ident: $($name:ident,)*;)*) => {$($(
        #[test]
        fn $name() {
            succeeds(with_library($program()).arg(stringify!($name)));
        }
    )*)*};
}

checks! {
    files:
        devices_are_character_devices,
        devices_are_not_read_written_or_sized,
        missing_paths_are_missing,
        success_keeps_errno,
        files_have_their_text,
        directories_list,
        real_directories_get_more,
        links_lead_somewhere,
        globbing_finds_the_trees,
    ;
    processes:
        duplicates_are_the_same_device,
        a_forked_child_opens_anew,
        a_vforked_child_leaves_the_parent_alone,
        spawned_programs_have_gpus_too,
        threads_share_the_driver,
        forks_while_threads_work,
        raw_mappings_are_the_same_pages,
        no_gpu_is_touched,
        handlers_interrupt_waits_as_they_say,
        the_drivers_files_are_not_the_programs,
        few_descriptors_are_enough,
        unseen_children_open_anew,
        handlers_may_do_anything,
        blocked_signals_stay_blocked,
    ;
    memory:
        exported_buffers_have_their_size,
        received_devices_are_devices,
        pages_that_vanish_are_taken_from_the_gpu,
    ;
    lost:
        freed_blocks_are_faults,
        plain_system_calls_are_faults,
        protected_pages_are_faults_and_stay_protected,
        truncated_files_are_faults_and_stay_mapped,
        detached_segments_are_faults,
        a_data_segment_that_shrinks_is_a_fault,
        moved_pages_are_faults,
        memory_may_go_in_the_middle_of_a_copy,
        nothing_is_written_once_it_is_unmapped,
        large_packets_do_not_hold_up_the_program,
        memory_may_go_under_a_kernel,
        what_comes_after_is_not_touched,
        what_stays_keeps_its_registration,
        handlers_of_the_program_are_its_own,
    ;
}

#[test]
fn plain_system_calls_take_the_drivers_files() {
    let name = "plain_system_calls_take_the_drivers_files";
    let output = succeeds(with_library(processes()).arg(name));
    let text = String::from_utf8(output.stderr).unwrap();
    let said = "was closed or replaced by a plain system call";
    assert_eq!(text.matches(said).count(), 1, "{text}");
}

#[test]
fn constructors_may_open() {
    succeeds(
        with_library(processes())
            .arg("constructors_may_open")
            .env("OPEN_EARLY", "1"),
    );
}

/// The constructor of a library that the program needs runs before the preloaded library's.
#[test]
fn libraries_may_open_before_the_preloaded_one_is_ready() {
    let shared = ["-shared", "-fPIC"].map(std::ffi::OsStr::new);
    let library = compile_as("libearly", "libearly.so", &shared);
    let folder = library.parent().unwrap().as_os_str();
    let mut path = std::ffi::OsString::from("-Wl,-rpath,");
    path.push(folder);
    let program = compile_as("early", "early", &[library.as_os_str(), &path]);
    let output = succeeds(with_library(program).env("LD_DEBUG", "files"));
    let order = String::from_utf8_lossy(&output.stderr);
    let begins = |name: &str| {
        let at = order
            .lines()
            .position(|line| line.contains("calling init") && line.ends_with(name));
        at.unwrap_or_else(|| panic!("{name}: {order}"))
    };
    assert!(
        begins("libearly.so") < begins("librocjitsu_preload.so"),
        "{order}"
    );
}

#[test]
fn a_runtime_that_does_not_know_the_target_is_named_once() {
    let shared = ["-shared", "-fPIC"].map(std::ffi::OsStr::new);
    let library = compile_as("libhsa", "libhsa-runtime64.so.1.18.0", &shared);
    let program = compile_as("runtime", "runtime", &[std::ffi::OsStr::new("-ldl")]);
    let said = |name: &str, value: &str| {
        let output = succeeds(with_library(&program).arg(&library).env(name, value));
        String::from_utf8(output.stderr).unwrap()
    };
    let text = said("ROCJITSU_CONFIG", "mi455x");
    let warning = format!("{} does not know gfx1250", library.display());
    assert_eq!(text.matches("warning").count(), 1, "{text}");
    assert!(text.contains(&warning) && text.contains("mi455x"), "{text}");
    for known in ["mi300x", "mi210"] {
        assert_eq!(said("ROCJITSU_CONFIG", known), "");
    }
    assert_eq!(said("ROCJITSU_NUM_GPUS", "0"), "");
}

#[test]
fn only_the_c_library_and_libgcc_are_needed() {
    let output = succeeds(Command::new("ldd").arg(library()));
    let text = String::from_utf8(output.stdout).unwrap();
    for line in text.lines() {
        let name = line.split_whitespace().next().unwrap_or_default();
        let known = ["linux-vdso", "libgcc_s.so.1", "libc.so.6", "ld-linux"];
        assert!(known.iter().any(|known| name.contains(known)), "{line}");
    }
}

#[test]
fn ordinary_programs_behave_as_ever() {
    for command in [
        "ls / | wc -l",
        "cat /etc/passwd | sort",
        "find /usr/include -name 'std*' | sort",
        "echo $$ > /dev/null",
    ] {
        let plain = succeeds(Command::new("sh").args(["-c", command]));
        let loaded = succeeds(with_library("sh").args(["-c", command]));
        assert_eq!(plain.stdout, loaded.stdout, "{command}");
        assert!(loaded.stderr.is_empty(), "{command}");
    }
}

#[test]
fn coreutils_see_the_trees() {
    let run = |command: &str| {
        let output = succeeds(with_library("sh").args(["-c", command]));
        assert!(
            output.stderr.is_empty(),
            "{command}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(run("ls /sys/class/kfd/kfd/topology/nodes"), "0\n1\n");
    assert!(run("ls -l /dev/kfd /dev/dri/renderD128").contains("226, 128"));
    assert!(
        run("find /sys/class/kfd/kfd/topology/nodes -name gpu_id")
            .lines()
            .count()
            == 2
    );
    assert!(
        run("cd / && grep -r simd_count /sys/devices/virtual/kfd/kfd/topology/nodes/1")
            .contains("simd_count")
    );
    assert!(run("test -c /dev/kfd && test -r /dev/kfd && echo yes") == "yes\n");
    assert!(run("readlink -f /sys/class/drm/renderD128").starts_with("/sys/devices/pci"));
    assert!(run("cp /sys/module/amdgpu/initstate /dev/stdout").contains("live"));
}

#[test]
fn a_wrong_configuration_is_said_once_and_the_program_sees_no_gpu() {
    let output = with_library("sh")
        .args(["-c", "cat /dev/kfd /dev/dri/card0"])
        .env("ROCJITSU_CONFIG", "no-such-gpu")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text.matches("no-such-gpu").count(), 1, "{text}");
    assert!(text.contains("No such file or directory"), "{text}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_machine_without_gpus_has_a_processor() {
    let list = "ls /sys/class/kfd/kfd/topology/nodes && grep cpu_cores_count /sys/class/kfd/kfd/topology/nodes/0/properties && test -c /dev/kfd";
    let output = succeeds(
        with_library("sh")
            .args(["-c", list])
            .env("ROCJITSU_NUM_GPUS", "0"),
    );
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("0\ncpu_cores_count "), "{text}");
    assert!(output.stderr.is_empty());
}

#[test]
fn a_program_that_dies_leaves_a_report() {
    for (name, signal, complete) in [("is_killed", 9, false), ("aborts", 6, false)] {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.json"));
        let _ = std::fs::remove_file(&path);
        let output = with_library(processes())
            .arg(name)
            .env("ROCJITSU_REPORT", &path)
            .output()
            .unwrap();
        let ended = std::os::unix::process::ExitStatusExt::signal(&output.status);
        assert_eq!(ended, Some(signal), "{name}");
        let text = std::fs::read_to_string(&path).unwrap();
        let report: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["ioctls"]["CREATE_EVENT"]["calls"], 1, "{text}");
        assert_eq!(report["complete"], complete, "{name}");
    }
}

#[test]
fn a_summary_is_for_those_who_ask() {
    for (verbose, lines) in [("0", 0), ("1", 1)] {
        let output = succeeds(
            with_library(processes())
                .arg("duplicates_are_the_same_device")
                .env("ROCJITSU_VERBOSE", verbose),
        );
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            text.matches("rocjitsu: 0 dispatches").count(),
            lines,
            "{text}"
        );
    }
}

#[test]
fn the_report_is_written_at_every_kind_of_exit() {
    for name in [
        "duplicates_are_the_same_device",
        "a_forked_child_opens_anew",
    ] {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.json"));
        let _ = std::fs::remove_file(&path);
        succeeds(
            with_library(processes())
                .arg(name)
                .env("ROCJITSU_REPORT", &path),
        );
        let text = std::fs::read_to_string(&path).unwrap();
        let report: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(report["ioctls"].is_object(), "{text}");
        assert_eq!(report["complete"], true);
    }
}

#[test]
fn plugins_are_made_with_the_driver_and_finished_at_the_end() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("throughput.jsonl");
    let _ = std::fs::remove_file(&path);
    let plugins = format!("throughput:file={};nonsense", path.display());
    let output = succeeds(
        with_library(processes())
            .arg("duplicates_are_the_same_device")
            .env("ROCJITSU_PLUGINS", plugins),
    );
    let record: serde_json::Value =
        serde_json::from_str(std::fs::read_to_string(&path).unwrap().trim()).unwrap();
    assert_eq!(
        (&record["event"], &record["dispatches"]),
        (&"summary".into(), &0.into())
    );
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("plugin `nonsense`: there is none"), "{text}");
}
