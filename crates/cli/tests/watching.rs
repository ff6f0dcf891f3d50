//! What stays of runs that plugins watch: reports, files, results where something was found; and what is said before a run.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    path.join(name).to_str().unwrap().to_owned()
}

fn rocjitsu(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rocjitsu"))
        .args(args)
        .env_remove("ROCJITSU_PLUGINS")
        .output()
        .unwrap()
}

/// What a command says on standard error that ends with a status.
fn says(status: i32, args: &[&str]) -> String {
    let output = rocjitsu(args);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(status), "{args:?}: {said}");
    said
}

/// An empty folder of a test's own.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("watching-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// A launch of a kernel with faults.
fn seeded<'a>(file: &'a str, kernel: &'a str) -> Vec<&'a str> {
    let mut args = vec!["launch", file, "--kernel", kernel];
    args.extend("--grid 4 --block 256 --arg buf:8192 --arg buf:5120 --arg buf:256".split(' '));
    args
}

/// A plugin that fails the launch for what it has found takes away none of its results: page, report, files and JSON are there, and
/// say so.
#[test]
fn what_is_found_is_in_the_report() {
    let folder = folder("found");
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let file = data("plugins/built/seeded.gfx942.hsaco");
    for (kernel, plugin, title) in [
        ("race_lds_barrier", "race:fail", "Data races"),
        ("hazard_short_wait", "data_hazard:fail", "Data hazards"),
        ("memory_out_of_bounds", "memcheck:fail", "Memory errors"),
    ] {
        let (page, report, buffer) = (path("p.html"), path("r.json"), path("b.bin"));
        let out = format!("0={buffer}");
        for to in [&page, &report] {
            let _ = std::fs::remove_file(&buffer);
            // What was there before is replaced.
            std::fs::write(to, "old").unwrap();
            let mut args = seeded(&file, kernel);
            args.extend(["--plugin", plugin, "--report", to, "--out", &out, "--json"]);
            let output = rocjitsu(&args);
            assert_eq!(output.status.code(), Some(1), "{kernel}");
            let said = String::from_utf8(output.stderr).unwrap();
            let name = plugin.strip_suffix(":fail").unwrap();
            let why = format!("plugin `{name}`: ");
            assert!(said.contains(&format!("error: {why}")), "{said}");
            let printed: Value = serde_json::from_slice(&output.stdout).expect("one value");
            assert_eq!(printed["ok"], false);
            assert!(
                printed["error"].as_str().unwrap().starts_with(&why),
                "{printed}"
            );
            assert!(printed["wave_instructions"].as_u64() > Some(0));
            assert_eq!(std::fs::read(&buffer).unwrap().len(), 8192, "{kernel}");
        }
        let report = json(Path::new(&report));
        assert_eq!(report["ok"], false);
        let records = report["records"].as_array().unwrap();
        assert!(
            records.iter().any(|r| r["event"].is_null()),
            "{kernel}: {report}"
        );
        let page = std::fs::read_to_string(&page).unwrap();
        assert!(page.contains(&format!("<h3>{title}</h3>")), "{kernel}");
        let name = plugin.strip_suffix(":fail").unwrap();
        assert!(page.contains(&format!("plugin `{name}`: ")), "{kernel}");
    }
    // In words it is the same.
    let mut args = seeded(&file, "race_lds_barrier");
    args.extend(["--plugin", "race:fail", "--print", "0:u32:1"]);
    let output = rocjitsu(&args);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(
        printed.contains("wave instructions in") && printed.contains("as u32:"),
        "{printed}"
    );
}

/// Files are known to be writable before the launch runs, and those that were only looked at do not stay behind.
#[test]
fn places_are_looked_at_before_the_run() {
    let folder = folder("places");
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let description = data("corpus/built/vec_add_f32.json");
    let launch = ["launch", &description, "--target", "gfx942"];
    for (option, value, status) in [
        ("--plugin", "trace:timeline=/nowhere/t.json", 2),
        ("--plugin", "coverage:lcov=/nowhere/c.info", 2),
        ("--plugin", "trace:timeline", 2),
        ("--report", "/nowhere/r.html", 1),
    ] {
        let output = rocjitsu(&[&launch[..], &[option, value]].concat());
        assert_eq!(output.status.code(), Some(status), "{value}");
        assert_eq!(output.stdout, b"", "{value}: it has not run");
        let said = says(status, &["run", option, value, "--", "echo", "ran"]);
        assert!(!said.contains("ran\n"), "{said}");
    }
    // A command line that is wrong leaves no report.
    let page = path("p.html");
    says(
        2,
        &[&launch[..], &["--report", &page, "--plugin", "nonsense"]].concat(),
    );
    says(127, &["run", "--report", &page, "--", "/no/such"]);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    // A checkpoint is a file, and there is a place for it.
    let pipe = path("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    for place in [&pipe, "/dev/full", "/nowhere/c", folder.to_str().unwrap()] {
        let at = ["--checkpoint", place, "--at", "dispatch:1"];
        let said = says(1, &[&launch[..], &at].concat());
        assert!(said.contains(&format!("cannot write {place}")), "{said}");
    }
}

#[test]
fn wrong_uses_are_said_by_what_is_wrong() {
    let folder = folder("wrong");
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let empty = path("e.hsaco");
    std::fs::write(&empty, "").unwrap();
    let said = says(2, &["launch", &empty, "--kernel", "k"]);
    assert!(
        said.contains("neither a code object nor a bundle"),
        "{said}"
    );
    let description = data("corpus/built/vec_add_f32.json");
    let said = says(2, &["launch", &description, "--kernel", "k"]);
    assert!(said.contains("is a description"), "{said}");

    // Records on standard output would stand in the JSON.
    let config = path("c.json");
    let text =
        r#"{"gpu": "mi300x", "plugins": {"throughput": {}}, "sinks": {"types": ["stdout"]}}"#;
    std::fs::write(&config, text).unwrap();
    let said = says(2, &["launch", &description, "--config", &config, "--json"]);
    assert!(said.contains("sink stdout"), "{said}");

    // The page of a file that has the page's name.
    let (report, link) = (path("r.html"), path("l.html"));
    let launch = ["launch", &description, "--target", "gfx942", "--json"];
    let record = rocjitsu(&launch).stdout;
    std::fs::write(&report, &record).unwrap();
    std::os::unix::fs::symlink("r.html", &link).unwrap();
    for args in [
        vec!["report", &report],
        vec!["report", &report, "-o", &link],
    ] {
        let said = says(2, &args);
        assert!(said.contains("would take the place of"), "{said}");
    }
    assert_eq!(std::fs::read(&report).unwrap(), record);
    says(0, &["report", &report, "-o", &path("page.html")]);
}

/// A checkpoint before a dispatch that has begun cannot be.
#[test]
fn a_dispatch_that_has_begun_is_no_place_to_stop() {
    let folder = folder("begun");
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (first, second) = (path("a"), path("b"));
    let description = data("corpus/built/hip_lds_reduce.json");
    let launch = ["launch", &description, "--target", "gfx942", "--json"];
    let whole: Value = serde_json::from_slice(&rocjitsu(&launch).stdout).unwrap();
    // In the middle of the third dispatch.
    let count = whole["wave_instructions"].as_u64().unwrap();
    let at = format!("instruction:{}", 2 * count + count / 2);
    let stop = ["--repeat", "4", "--checkpoint", &first, "--at", &at];
    says(0, &[&launch[..4], &stop].concat());
    for (number, status) in [("1", 1), ("3", 1), ("4", 0)] {
        let at = format!("dispatch:{number}");
        let said = says(
            status,
            &["resume", &first, "--checkpoint", &second, "--at", &at],
        );
        let is_said = said.contains("3 have begun already");
        assert_eq!(is_said, status == 1, "{number}: {said}");
        assert_eq!(Path::new(&second).exists(), status == 0, "{number}");
    }
    // Between two dispatches the next one has not begun.
    for (at, status) in [("dispatch:4", 0), ("dispatch:3", 1)] {
        let resume = ["resume", &second, "--checkpoint", &first, "--at", at];
        says(status, &resume);
    }
}

/// From the moment that the command says what the signal does, the signal does it.
#[test]
fn the_signal_for_a_checkpoint_is_waited_for_from_the_beginning() {
    let folder = folder("signal");
    let file = folder.join("c");
    let description = data("corpus/built/hip_lds_reduce.json");
    let mut child = Command::new(env!("CARGO_BIN_EXE_rocjitsu"))
        .args(["launch", &description, "--target", "gfx942"])
        .args(["--repeat", "1000000", "--at", "signal", "--checkpoint"])
        .arg(&file)
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().unwrap()));
    let line = lines.next().unwrap().unwrap();
    let process = child.id().to_string();
    assert!(
        line.contains(&format!("SIGUSR1 to process {process} ")),
        "{line}"
    );
    let kill = Command::new("kill").args(["-USR1", &process]).status();
    assert!(kill.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(file.exists());
}

/// A fault where no instruction is names the jump that led there.
#[test]
fn a_jump_into_nowhere_is_found() {
    let folder = folder("jump");
    let word = |text: u32| text.to_le_bytes();
    // Before the end of the kernel: s_mov_b64 s[20:21], 16; s_setpc_b64 s[20:21]. Or in its place: s_branch 30000.
    let far = [word(0xbe94_0190), word(0xbe80_1d14)].concat();
    for (target, end, patch, jump) in [
        ("gfx90a", 0xbf81_0000, far.clone(), "s_setpc_b64 s[20:21]"),
        ("gfx942", 0xbf81_0000, far, "s_setpc_b64 s[20:21]"),
        (
            "gfx942",
            0xbf81_0000,
            word(0xbf82_7530).into(),
            "s_branch 30000",
        ),
        (
            "gfx1100",
            0xbfb0_0000,
            word(0xbfa0_7530).into(),
            "s_branch 30000",
        ),
        (
            "gfx1201",
            0xbfb0_0000,
            word(0xbfa0_7530).into(),
            "s_branch 30000",
        ),
    ] {
        let mut code =
            std::fs::read(data(&format!("corpus/built/asm_axpy.{target}.hsaco"))).unwrap();
        let at = code
            .windows(4)
            .position(|bytes| bytes == word(end))
            .unwrap();
        let at = if patch.len() == 4 { at } else { at - 8 };
        code[at..at + patch.len()].copy_from_slice(&patch);
        let file = folder.join(format!("{target}.hsaco"));
        std::fs::write(&file, code).unwrap();
        let mut args = vec!["launch", file.to_str().unwrap()];
        args.extend("--grid 1 --block 64 --arg buf:4096 --arg buf:4096 --arg buf:4096 --arg f32:1 --arg u32:64".split(' '));
        let help = says(1, &args);
        assert!(help.contains("instruction fetch at"), "{target}: {help}");
        assert!(help.contains("the wave came from:"), "{target}: {help}");
        let marked = help
            .lines()
            .find(|line| line.starts_with("  -> "))
            .expect(&help);
        assert!(marked.ends_with(jump), "{target}: {help}");
        assert!(
            jump.starts_with("s_branch") || help.contains("s20 0x10"),
            "{target}: {help}"
        );
        // What is no instruction, in the code itself, is shown where it is.
        let mut code = std::fs::read(&file).unwrap();
        code[at..at + 4].copy_from_slice(&[0xff; 4]);
        std::fs::write(&file, code).unwrap();
        let help = says(1, &args);
        let marked = help.lines().find(|line| line.starts_with("  -> "));
        assert!(marked.expect(&help).ends_with(".long 0xffffffff"), "{help}");
        assert!(!help.contains("came from"), "{target}: {help}");
    }
}

/// `sh` with two children that use the driver.
const TWO: &str = "cat /sys/class/kfd/kfd/topology/nodes/1/properties; cat /sys/class/kfd/kfd/topology/nodes/1/properties";

/// Records of several processes go into one file, one behind the other; what an earlier run has left is gone.
#[test]
fn processes_share_a_file() {
    let folder = folder("processes");
    let file = folder.join("r.jsonl");
    let plugin = format!("throughput:file={}", file.display());
    for _ in 0..2 {
        says(0, &["run", "--plugin", &plugin, "--", "sh", "-c", TWO]);
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text.matches("\"record\":\"summary\"").count(), 2, "{text}");
        for line in text.lines() {
            serde_json::from_str::<Value>(line).expect(line);
        }
    }
    // With the process's number each has its own; without `run` as well.
    let plugin = format!("throughput:file={}", folder.join("n-%p.jsonl").display());
    says(0, &["run", "--plugin", &plugin, "--", "sh", "-c", TWO]);
    let names = std::fs::read_dir(&folder).unwrap();
    assert_eq!(names.count(), 3);
}

/// The page of a run has the records of its plugins, in another root as well.
#[test]
fn a_page_of_a_run_has_the_records() {
    let folder = folder("page");
    let (page, file) = (folder.join("p.html"), folder.join("r.jsonl"));
    let page = page.to_str().unwrap();
    let name = "/sys/class/kfd/kfd/topology/nodes/1/properties";
    let has_records = || {
        let text = std::fs::read_to_string(page).unwrap();
        text.contains("<section id=\"throughput\">")
    };
    let plugin = format!("throughput:file={}", file.display());
    says(
        0,
        &[
            "run", "--plugin", &plugin, "--report", page, "--", "cat", name,
        ],
    );
    assert!(has_records());
    // The same by a configuration.
    let config = folder.join("c.json");
    let text = format!(
        r#"{{"gpu": "mi300x", "plugins": {{"throughput": {{"file": {:?}}}}}}}"#,
        file.display().to_string()
    );
    std::fs::write(&config, text).unwrap();
    std::fs::remove_file(page).unwrap();
    let config = config.to_str().unwrap();
    says(
        0,
        &[
            "run", "--config", config, "--report", page, "--", "cat", name,
        ],
    );
    assert!(has_records());
    // As root: a root of its own, which has the file.
    let may_mount = Command::new("unshare").args(["--mount", "true"]).output();
    if !may_mount.is_ok_and(|output| output.status.success()) {
        eprintln!(
            "a_page_of_a_run_has_the_records: the part with a root skipped, no right to mount"
        );
        return;
    }
    let root = folder.join("root");
    for inside in ["proc", "sys", "dev", "run", "usr/bin", "tmp"] {
        std::fs::create_dir_all(root.join(inside)).unwrap();
    }
    std::os::unix::fs::symlink("usr/bin", root.join("bin")).unwrap();
    let cat = std::fs::canonicalize("/usr/bin/cat").unwrap();
    std::fs::copy(&cat, root.join("usr/bin/cat")).unwrap();
    let needed = Command::new("ldd").arg(&cat).output().unwrap().stdout;
    let gcc = "libgcc_s.so.1 => /lib/x86_64-linux-gnu/libgcc_s.so.1 (0)";
    for line in String::from_utf8(needed).unwrap().lines().chain([gcc]) {
        if let Some(library) = line.split_whitespace().find(|word| word.starts_with('/')) {
            let to = root.join(library.trim_start_matches('/'));
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::copy(library, to).unwrap();
        }
    }
    std::fs::remove_file(page).unwrap();
    let top = root.to_str().unwrap();
    for inside in ["/tmp/x.jsonl", "tmp/y.jsonl"] {
        let plugin = format!("throughput:file={inside}");
        says(
            0,
            &[
                "run", "--root", top, "--plugin", &plugin, "--report", page, "--", "cat", name,
            ],
        );
        assert!(
            root.join("tmp")
                .join(inside.rsplit('/').next().unwrap())
                .exists()
        );
        assert!(has_records(), "{inside}");
        std::fs::remove_file(page).unwrap();
    }
    let nowhere = ["--plugin", "throughput:file=/nowhere/x"];
    let said = says(
        2,
        &[&["run", "--root", top], &nowhere[..], &["--", "cat", name]].concat(),
    );
    assert!(said.contains("/nowhere/x"), "{said}");
}
