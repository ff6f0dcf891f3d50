//! `rocjitsu run` as users call it: the program's status and output, what is refused, what is passed on.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

fn rocjitsu(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocjitsu"));
    command.args(args);
    for name in [
        "CONFIG", "NUM_GPUS", "REPORT", "VERBOSE", "THREADS", "PRELOAD",
    ] {
        command.env_remove(format!("ROCJITSU_{name}"));
    }
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run(args: &[&str]) -> Output {
    rocjitsu(args).output().unwrap()
}

fn prints(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{args:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

fn fails(status: i32, args: &[&str]) -> String {
    let output = run(args);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{args:?}: {stderr}");
    stderr
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn the_status_is_the_programs() {
    prints(&["run", "--", "true"]);
    prints(&["run", "true"]);
    fails(1, &["run", "--", "false"]);
    fails(42, &["run", "--", "sh", "-c", "exit 42"]);
    fails(128 + 9, &["run", "--", "sh", "-c", "kill -9 $$"]);
    fails(128 + 11, &["run", "--", "sh", "-c", "kill -SEGV $$"]);
}

#[test]
fn arguments_output_and_input_are_the_programs() {
    assert_eq!(
        prints(&["run", "--", "echo", "-n", "a", "--gpu"]),
        "a --gpu"
    );
    assert_eq!(
        prints(&["run", "--env", "A=b=c", "--", "sh", "-c", "echo $A"]),
        "b=c\n"
    );
    assert_eq!(prints(&["run", "--", "sh", "-c", "echo $0"]), "sh\n");
}

#[test]
fn the_chosen_gpu_is_what_the_program_sees() {
    let version = "cat /sys/class/kfd/kfd/topology/nodes/1/properties";
    let target = |args: &[&str]| {
        let args = [&["run"], args, &["--", "sh", "-c", version]].concat();
        let text = prints(&args);
        let line = text
            .lines()
            .find(|line| line.starts_with("gfx_target_version "))
            .unwrap();
        line.rsplit(' ').next().unwrap().to_owned()
    };
    assert_eq!(target(&[]), "90402");
    assert_eq!(target(&["--gpu", "mi210"]), "90010");
    assert_eq!(target(&["--gpu", "r9700"]), "120001");
    let nodes = prints(&[
        "run",
        "--num-gpus",
        "3",
        "--",
        "ls",
        "/sys/class/kfd/kfd/topology/nodes",
    ]);
    assert_eq!(nodes, "0\n1\n2\n3\n");
    let file = scratch("w7900.json");
    std::fs::write(&file, r#"{"gpu": "w7900"}"#).unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(target(&["--config", file]), "110000");
    // The form without a command.
    let text = prints(&["--config", file, "--", "sh", "-c", version]);
    assert!(text.contains("gfx_target_version 110000"), "{text}");
}

#[test]
fn a_configuration_relative_to_the_callers_folder_works_wherever_the_program_goes() {
    let folder = scratch("relative");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("c.json"), r#"{"gpu": "mi210"}"#).unwrap();
    let output = rocjitsu(&[
        "run",
        "--config",
        "c.json",
        "--",
        "sh",
        "-c",
        "cd / && cat /sys/class/kfd/kfd/topology/nodes/1/properties",
    ])
    .current_dir(&folder)
    .output()
    .unwrap();
    assert!(
        text(&output.stdout).contains("gfx_target_version 90010"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn another_preloaded_library_is_kept() {
    let output = rocjitsu(&["run", "--", "sh", "-c", "echo $LD_PRELOAD"])
        .env("LD_PRELOAD", "libm.so.6")
        .output()
        .unwrap();
    let value = text(&output.stdout);
    assert!(
        value.contains("librocjitsu_preload.so:libm.so.6"),
        "{value}"
    );
}

#[test]
fn wrong_usage_is_said_before_anything_runs() {
    assert!(fails(2, &["run"]).contains("PROGRAM"));
    assert!(fails(2, &["run", "--gpu", "mi9", "--", "true"]).contains("the presets are"));
    assert!(fails(2, &["run", "--num-gpus", "129", "--", "true"]).contains("--num-gpus"));
    assert_eq!(
        prints(&["run", "--num-gpus", "128", "--", "echo", "a"]),
        "a\n"
    );
    assert!(fails(2, &["run", "--env", "A", "--", "true"]).contains("NAME=VALUE"));
    assert!(
        fails(1, &["run", "--config", "/nowhere.json", "--", "true"]).contains("/nowhere.json")
    );
    let file = scratch("bad.json");
    std::fs::write(&file, r#"{"gpu": "mi300x", "colour": 1}"#).unwrap();
    assert!(
        fails(
            2,
            &["run", "--config", file.to_str().unwrap(), "--", "true"]
        )
        .contains("colour")
    );
}

#[test]
fn what_the_program_would_only_meet_later_is_refused_before_it_runs() {
    let nowhere = "/nowhere/report.json";
    let said = fails(1, &["run", "--report", nowhere, "--", "echo", "ran"]);
    assert!(said.contains(nowhere), "{said}");
    let folder = std::env::temp_dir();
    fails(
        1,
        &["run", "--report", folder.to_str().unwrap(), "--", "true"],
    );
    for (value, status) in [("foo", 2), ("", 0), ("scalar", 0)] {
        let output = rocjitsu(&["run", "--", "true"])
            .env("ROCJITSU_LANES", value)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(status), "{value:?}");
    }
    let limited = "ulimit -f 1024; exec \"$0\" run -- echo ran";
    let program = env!("CARGO_BIN_EXE_rocjitsu");
    let output = Command::new("sh").args(["-c", limited, program]).output();
    let output = output.unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("1048576 bytes") || said.contains("524288 bytes"),
        "{said}"
    );
    assert!(
        said.contains("ulimit -f unlimited") && output.stdout.is_empty(),
        "{said}"
    );
    for (plugin, why) in [
        ("nonsense", "there is none of this name"),
        ("race:colour=red", "there is no option `colour`"),
        ("./nowhere.so", "nowhere.so"),
    ] {
        let said = fails(2, &["run", "--plugin", plugin, "--", "echo", "ran"]);
        assert!(said.contains(why) && !said.contains("ran\n"), "{said}");
    }
    let said = fails(
        2,
        &["run", "--require-exact", "--accept", "v_nonsense", "true"],
    );
    assert!(said.contains("v_nonsense"), "{said}");
    // A page that nobody filled does not stay behind.
    let page = scratch("unused.html");
    prints(&["run", "--report", page.to_str().unwrap(), "--", "true"]);
    assert!(!page.exists() && !page.with_extension("json").exists());
}

#[test]
fn missing_programs_have_the_status_a_shell_gives() {
    assert!(fails(127, &["run", "--", "no-such-program"]).contains("no-such-program: not found"));
    assert!(fails(126, &["run", "--", "/etc/passwd"]).contains("permission denied"));
    assert!(fails(126, &["run", "--", "/etc"]).contains("is a directory"));
}

#[test]
fn programs_that_load_no_libraries_are_refused() {
    let source = scratch("static.c");
    let program = scratch("static");
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let cc = Command::new("cc")
        .args(["-static", "-o"])
        .arg(&program)
        .arg(&source)
        .status()
        .unwrap();
    assert!(cc.success());
    let program = program.to_str().unwrap();
    assert!(fails(1, &["run", "--", program]).contains("statically linked"));
    // A script's interpreter counts.
    let script = scratch("script");
    std::fs::write(&script, format!("#!{program}\n")).unwrap();
    let mut rights = std::fs::metadata(&script).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut rights, 0o755);
    std::fs::set_permissions(&script, rights).unwrap();
    assert!(fails(1, &["run", "--", script.to_str().unwrap()]).contains("statically linked"));
}

#[test]
fn a_missing_library_is_named_with_what_builds_it() {
    let output = rocjitsu(&["run", "--", "true"])
        .env("ROCJITSU_PRELOAD", "/nowhere.so")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("ROCJITSU_PRELOAD names /nowhere.so"));
    // A copy of the command alone.
    let folder = scratch("alone/bin");
    std::fs::create_dir_all(&folder).unwrap();
    let copy = folder.join("rocjitsu");
    let _ = std::fs::remove_file(&copy);
    std::fs::copy(env!("CARGO_BIN_EXE_rocjitsu"), &copy).unwrap();
    let output = Command::new(&copy)
        .args(["run", "true"])
        .env_remove("ROCJITSU_PRELOAD")
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert!(
        said.contains("cargo build --release -p rocjitsu-preload"),
        "{said}"
    );
}

#[test]
fn signals_go_on_to_the_program() {
    let script = "trap 'echo got; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let mut child = rocjitsu(&["run", "--", "sh", "-c", script])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let done = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(done.success());
    assert_eq!(lines.next().unwrap().unwrap(), "got");
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

/// A root with copies of three of the host's programs and their libraries.
fn small_root(name: &str) -> Option<PathBuf> {
    // Only root may mount; others have nothing to test.
    let id = Command::new("id").arg("-u").output().ok()?;
    let may_mount = Command::new("unshare").args(["--mount", "true"]).status();
    if id.stdout != b"0\n" || !may_mount.is_ok_and(|status| status.success()) {
        return None;
    }
    let root = scratch(name);
    let _ = std::fs::remove_dir_all(&root);
    for folder in ["proc", "sys", "dev", "run", "usr/bin", "tmp"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    std::os::unix::fs::symlink("usr/bin", root.join("bin")).unwrap();
    for program in ["cat", "sh", "ls"] {
        let file = std::fs::canonicalize(Path::new("/usr/bin").join(program)).unwrap();
        std::fs::copy(&file, root.join("usr/bin").join(program)).unwrap();
        let needed = Command::new("ldd").arg(&file).output().unwrap();
        let gcc = "libgcc_s.so.1 => /lib/x86_64-linux-gnu/libgcc_s.so.1 (0)";
        for line in text(&needed.stdout).lines().chain([gcc]) {
            let Some(library) = line.split_whitespace().find(|word| word.starts_with('/')) else {
                continue;
            };
            let to = root.join(library.trim_start_matches('/'));
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::copy(library, to).unwrap();
        }
    }
    Some(root)
}

#[test]
fn a_program_can_have_another_root() {
    let Some(root) = small_root("root") else {
        return;
    };
    let root = root.to_str().unwrap();
    let (report, config) = (scratch("in-root/r.json"), scratch("in-root/c.json"));
    std::fs::create_dir_all(report.parent().unwrap()).unwrap();
    std::fs::write(&config, r#"{"gpu": "w7900"}"#).unwrap();
    let script = "cat /sys/class/kfd/kfd/topology/nodes/1/properties; ls / /run/rocjitsu";
    let out = prints(&[
        "run",
        "--root",
        root,
        "--config",
        config.to_str().unwrap(),
        "--report",
        report.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        script,
    ]);
    assert!(out.contains("gfx_target_version 110000"), "{out}");
    assert!(
        !out.contains("home") && out.contains("librocjitsu_preload.so"),
        "{out}"
    );
    let written = std::fs::read_to_string(&report).unwrap();
    assert!(written.contains("\"complete\": true"), "{written}");
    // Nothing stays behind.
    let run = Path::new(root).join("run");
    assert_eq!(std::fs::read_dir(run).unwrap().count(), 0);
    assert!(fails(127, &["run", "--root", root, "--", "grep"]).contains("not found"));
    assert!(fails(1, &["run", "--root", "/etc", "--", "sh"]).contains("no directory proc"));
}

#[test]
fn the_report_of_a_killed_program_names_the_signal() {
    let json = scratch("killed.json");
    let shown = json.to_str().unwrap();
    // The shell's own driver is what it reports of.
    let script = "exec 3< /dev/kfd; until grep -q complete $0; do sleep 0.05; done; kill -9 $$";
    fails(
        128 + 9,
        &["run", "--report", shown, "--", "sh", "-c", script, shown],
    );
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(report["signal"], 9, "{report}");
    assert_eq!(report["complete"], false);
}

#[test]
fn a_file_of_the_reference_runs_a_program_in_the_short_form() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../config/samples/amd-format.json"
    );
    let nodes = "/sys/class/kfd/kfd/topology/nodes";
    let out = prints(&["--config", file, "--", "ls", nodes]);
    assert_eq!(out, "0\n1\n2\n");
}

#[test]
fn a_program_starts_with_no_signal_blocked() {
    // Unlike a shell, cat does not look at the mask that it is started with.
    let mut child = rocjitsu(&["run", "--", "cat"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, b"ready\n").unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let done = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(done.success());
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while child.try_wait().unwrap().is_none() && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // A program that the signal did not end ends now, with 0.
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
}

#[test]
fn the_report_is_json_or_a_page() {
    let touch = "cat /sys/class/kfd/kfd/topology/nodes/1/gpu_id";
    let json = scratch("report.json");
    prints(&[
        "run",
        "--report",
        json.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        touch,
    ]);
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    assert!(report["ioctls"].is_object(), "{report}");
    let page = scratch("report.html");
    prints(&[
        "run",
        "--report",
        page.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        touch,
    ]);
    assert!(
        std::fs::read_to_string(&page)
            .unwrap()
            .contains("<table class=\"sortable\">")
    );
    // A program that uses no GPU leaves none, and no old one is left behind.
    let output = run(&["run", "--report", json.to_str().unwrap(), "--", "true"]);
    assert!(text(&output.stderr).contains("no report"));
    assert!(!json.exists());
}

#[test]
fn a_report_with_the_number_of_its_process_in_the_name_is_found() {
    let folder = scratch("numbered");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    // One of an earlier run, whatever its number.
    let old = folder.join("a1-1.json");
    std::fs::write(&old, "old").unwrap();
    let past = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    std::fs::File::options()
        .append(true)
        .open(&old)
        .unwrap()
        .set_modified(past)
        .unwrap();
    let names = |end: &str| {
        let entries = std::fs::read_dir(&folder).unwrap().flatten();
        let mut names: Vec<_> = entries
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        names.retain(|name| name.ends_with(end) && name != "a1-1.json");
        names
    };
    // The shell itself and a child of it: two reports.
    let script = "exec 3< /dev/kfd; cat /sys/class/kfd/kfd/topology/nodes/1/gpu_id; \
        until test -s $0/a$$-$$.json; do sleep 0.05; done; kill -9 $$";
    for name in ["a%p-%p.json", "a%p-%p.html"] {
        let path = folder.join(name);
        let output = run(&[
            "run",
            "--report",
            path.to_str().unwrap(),
            "--",
            "sh",
            "-c",
            script,
            folder.to_str().unwrap(),
        ]);
        assert_eq!(output.status.code(), Some(128 + 9));
        assert_eq!(text(&output.stderr), "");
        let found = names(".json");
        assert_eq!(found.len(), 2, "{found:?}");
        let killed = found.iter().filter(|name| {
            let text = std::fs::read_to_string(folder.join(name)).unwrap();
            let report: serde_json::Value = serde_json::from_str(&text).unwrap();
            let number = report["process"].as_u64().unwrap();
            assert_eq!(**name, format!("a{number}-{number}.json"));
            report["signal"] == 9
        });
        assert_eq!(killed.count(), 1, "{found:?}");
        let pages = names(".html");
        assert_eq!(
            pages.len(),
            if name.ends_with("html") { 2 } else { 0 },
            "{pages:?}"
        );
        for name in found.iter().chain(&pages) {
            std::fs::remove_file(folder.join(name)).unwrap();
        }
    }
    let none = folder.join("a%p-%p.json");
    let output = run(&["run", "--report", none.to_str().unwrap(), "--", "true"]);
    assert!(text(&output.stderr).contains("no report"));
}

/// A program of ours that runs a kernel without any runtime; see its source.
fn dispatch() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/dispatch.c");
        let program = scratch("dispatch");
        let done = Command::new("cc")
            .args(["-std=gnu11", "-O1", "-Wall", "-Werror", "-o"])
            .args([&program, &source])
            .status()
            .expect("a C compiler (cc) is needed");
        assert!(done.success());
        program.to_str().unwrap().to_owned()
    })
}

/// `run` with options and the arguments of [`dispatch`].
fn dispatches(options: &[&str], arguments: &[&str]) -> Output {
    let gpu = ["run", "--gpu", "mi300x"];
    run(&[&gpu[..], options, &["--", dispatch()], arguments].concat())
}

/// The program ends well in any case; the command's status is that of what its kernels executed.
#[test]
fn a_program_whose_kernels_must_be_exact_fails_by_what_is_not() {
    let with = |options: &[&str], kernel| {
        let output = dispatches(options, &[kernel]);
        assert_eq!(text(&output.stdout), "done\n", "{}", text(&output.stderr));
        (output.status.code(), text(&output.stderr))
    };
    assert_eq!(
        with(&["--require-exact"], "exact"),
        (Some(0), String::new())
    );
    assert_eq!(with(&[], "bounded").0, Some(0));
    let (status, said) = with(&["--require-exact"], "bounded");
    assert_eq!(status, Some(1), "{said}");
    assert!(
        said.contains("1 x v_exp_f32 (VOP1), bounded: 0.92 ulp"),
        "{said}"
    );
    let accepted = with(&["--require-exact", "--accept", "v_exp_f32"], "bounded");
    assert_eq!(accepted, (Some(0), String::new()));
    // What a kernel that was stopped executed is not known.
    let output = dispatches(&["--require-exact"], &["load", "8192"]);
    let said = text(&output.stderr);
    assert_eq!(text(&output.stdout), "stopped\n", "{said}");
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("failed: what they executed is not known"),
        "{said}"
    );
}

/// A plugin that fails stops the queue; the program goes on, and the message has the plugin's name.
#[test]
fn a_failing_plugin_stops_the_queue_of_a_program() {
    let folder = scratch("failing");
    std::fs::create_dir_all(&folder).unwrap();
    let (source, plugin) = (folder.join("failing.c"), folder.join("failing.so"));
    let text_of = "#include \"rocjitsu_plugin.h\"\n\
        static int self;\n\
        static void *create(const rocjitsu_host *h, const char *j, char *e, size_t n) { return &self; }\n\
        static const char *error(void *data) { return \"on purpose\"; }\n\
        static int before(void *data, const rocjitsu_step *step) { return 1; }\n\
        static const rocjitsu_plugin plugin = {.abi = ROCJITSU_PLUGIN_ABI, .events = ROCJITSU_BEFORE,\n\
            .create = create, .error = error, .before = before};\n\
        const rocjitsu_plugin *rocjitsu_plugin_entry(void) { return &plugin; }\n";
    std::fs::write(&source, text_of).unwrap();
    let done = Command::new("cc")
        .args(["-shared", "-fPIC", "-I"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/include"))
        .arg("-o")
        .args([&plugin, &source])
        .status()
        .expect("a C compiler (cc) is needed");
    assert!(done.success());
    let output = dispatches(&["--plugin", plugin.to_str().unwrap()], &["exact"]);
    let said = text(&output.stderr);
    assert_ne!(output.status.code(), Some(0), "{said}");
    assert!(!text(&output.stdout).contains("done"), "{said}");
    let name = format!("plugin `{}`: on purpose", plugin.display());
    assert!(said.contains(&name), "{said}");
    // Where it was, as for any fault.
    assert!(said.contains("v_add_f32"), "{said}");
}

/// The program ends well; the command's status is that of what plugins found, if they are to fail for it.
#[test]
fn findings_count_for_the_status() {
    let file = scratch("findings.jsonl");
    let with = |options: &str| {
        let plugin = format!(
            "memcheck:uninitialised=global,file={}{options}",
            file.display()
        );
        dispatches(&["--plugin", &plugin], &["load", "0"])
            .status
            .code()
    };
    assert_eq!(with(""), Some(0));
    assert_eq!(with(",fail"), Some(1));
    std::fs::remove_file(&file).unwrap();
    // Where they cannot be known, none is no answer.
    let program = "rm -r \"$ROCJITSU_FINDINGS\"";
    let said = fails(
        1,
        &["run", "--plugin", "memcheck", "--", "sh", "-c", program],
    );
    assert!(said.contains("is not known"), "{said}");
}

/// What can be known of a program's memory: pages that nobody has touched, and who lies beside an address.
#[test]
fn memcheck_knows_pages_that_nobody_has_touched_and_red_zones() {
    let file = scratch("memcheck.jsonl");
    let with = |options: &str, arguments: &[&str]| {
        let plugin = format!("memcheck:file={},{options}", file.display());
        let output = dispatches(&["--plugin", &plugin], arguments);
        let records =
            std::fs::read_to_string(&file).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
        let parse = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
        let mut records: Vec<_> = records.lines().map(parse).collect();
        records.pop();
        records
    };
    let found = with("uninitialised=global", &["load", "0"]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["error"], "uninitialised_memory");
    assert_eq!(
        (&found[0]["allocation"], &found[0]["offset"]),
        (&"VRAM".into(), &0.into())
    );
    // The program has written the page through its own mapping.
    assert!(with("uninitialised=global", &["copied", "0"]).is_empty());
    assert!(with("", &["load", "0"]).is_empty());
    let found = with("redzone=4096", &["load", "4352"]);
    assert_eq!(found[0]["error"], "out_of_bounds", "{found:?}");
    assert_eq!(
        (&found[0]["bytes"], &found[0]["offset"]),
        (&4096.into(), &4352.into())
    );
    let found = with("redzone=4096", &["load", "-256"]);
    assert_eq!(
        (&found[0]["error"], &found[0]["offset"]),
        (&"out_of_bounds".into(), &(-256).into())
    );
    let found = with("", &["load", "4352"]);
    assert_eq!(found[0]["error"], "unmapped", "{found:?}");
    std::fs::remove_file(&file).unwrap();

    // ROCr chooses addresses itself: it is asked to leave room.
    let show = "echo $HSA_DISABLE_FRAGMENT_ALLOCATOR $HSA_SVM_GUARD_PAGES";
    let plugin = [
        "run",
        "--plugin",
        "memcheck:redzone=5000",
        "--",
        "sh",
        "-c",
        show,
    ];
    assert_eq!(prints(&plugin), "1 2\n");
    fails(
        2,
        &["run", "--plugin", "memcheck:redzone=much", "--", "true"],
    );
}
