//! The program as users call it: output, exit status, what it says of wrong usage and bad files.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../data/corpus/built")
        .join(name)
}

fn rocjitsu(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rocjitsu"))
        .args(args)
        .env_remove("CLICOLOR_FORCE")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs a command that has to fail with a status, and returns what it wrote to standard error.
fn fails(status: i32, args: &[&str]) -> String {
    let output = rocjitsu(args);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{args:?}: {stderr}");
    stderr
}

/// Exit status and standard output.
fn ends(args: &[&str]) -> (Option<i32>, String) {
    let output = rocjitsu(args);
    (output.status.code(), text(&output.stdout))
}

fn succeeds(args: &[&str]) -> String {
    let output = rocjitsu(args);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{args:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

#[test]
fn usage_errors_have_status_2_and_say_what_is_wrong() {
    assert!(fails(2, &[]).contains("Usage:"));
    assert!(fails(2, &["lunch"]).contains("unrecognized subcommand 'lunch'"));
    let json = corpus("asm_axpy.json");
    let json = json.to_str().unwrap();
    assert!(fails(2, &["launch", json]).contains("a description needs --target"));
    assert!(
        fails(2, &["launch", json, "--target", "gfx9000"]).contains("unknown target `gfx9000`")
    );
    assert!(
        fails(2, &["launch", json, "--target", "gfx942", "--grid", "1"])
            .contains("--grid goes with a code object")
    );
    assert!(
        fails(2, &["launch", json, "--target", "gfx942", "--gpu", "mi210"])
            .contains("does not run code for gfx942")
    );
    assert!(
        fails(2, &["launch", json, "--target", "gfx942", "--gpu", "mi300"])
            .contains("the presets are")
    );
    assert!(
        fails(2, &["launch", json, "--target", "gfx942", "--repeat", "0"]).contains("--repeat")
    );
    assert!(
        fails(
            2,
            &["launch", json, "--target", "gfx942", "--out", "9=x.npy"]
        )
        .contains("numbered from 0")
    );
    let elf = corpus("asm_axpy.gfx942.hsaco");
    let elf = elf.to_str().unwrap();
    assert!(fails(2, &["launch", elf]).contains("a code object needs --grid"));
    assert!(fails(2, &["launch", elf, "--check"]).contains("--check needs a description"));
    assert!(fails(2, &["launch", elf, "--grid", "0"]).contains("`0` is no extent"));
    assert!(fails(2, &["launch", elf, "--arg", "i8:300"]).contains("i8 does not hold 300"));
    assert!(
        fails(2, &["launch", elf, "--target", "gfx950"]).contains("is code for gfx942, not gfx950")
    );
    assert!(fails(2, &["config", "show", "mi999"]).contains("neither a preset"));
}

#[test]
fn failures_have_status_1_and_name_the_cause() {
    assert!(fails(1, &["info", "/nonexistent"]).contains("cannot read /nonexistent"));
    let elf = corpus("asm_axpy.gfx942.hsaco");
    let elf = elf.to_str().unwrap();
    let few = fails(
        2,
        &[
            "launch", elf, "--grid", "1", "--block", "64", "--arg", "i32:1",
        ],
    );
    assert!(
        few.contains("arguments, but 1 are given") && few.contains("global_buffer, 8 bytes"),
        "{few}"
    );
    let kernel = fails(
        2,
        &[
            "launch", elf, "--kernel", "other", "--grid", "1", "--block", "64",
        ],
    );
    assert!(kernel.contains("no kernel `other`"), "{kernel}");
    let json = corpus("asm_axpy.json");
    let json = json.to_str().unwrap();
    let other = fails(1, &["launch", json, "--target", "gfx908"]);
    assert!(
        other.contains("has no code for gfx908, only for"),
        "{other}"
    );
    let run_as = fails(
        1,
        &["launch", json, "--target", "gfx942", "--run-as", "gfx950"],
    );
    assert!(run_as.contains("gfx942 cannot run as gfx950"), "{run_as}");
}

#[test]
fn what_a_long_run_would_stumble_over_is_found_before_it() {
    let elf = corpus("asm_axpy.gfx942.hsaco");
    let elf = elf.to_str().unwrap();
    let json = corpus("asm_axpy.json");
    let json = json.to_str().unwrap();
    let folder = fails(
        1,
        &[
            "launch",
            json,
            "--target",
            "gfx942",
            "--out",
            "0=/nonexistent/x.npy",
        ],
    );
    assert!(
        folder.contains("cannot write /nonexistent/x.npy"),
        "{folder}"
    );
    let twice = fails(
        2,
        &[
            "launch",
            json,
            "--target",
            "gfx942",
            "--out",
            "0=/tmp/x.npy",
            "--out",
            "1=/tmp/x.npy",
        ],
    );
    assert!(twice.contains("given for two buffers"), "{twice}");
    assert!(twice.contains("Usage: rocjitsu launch"), "{twice}");
    for (argument, wanted) in [
        ("q32:5", "`q32` is neither an element type"),
        ("null:", "`null` is neither an element type"),
        ("buf:1K:fill=1:seed=2", "one fill=VALUE or seed=NUMBER"),
    ] {
        let text = fails(
            2,
            &[
                "launch", elf, "--grid", "1", "--block", "64", "--arg", argument,
            ],
        );
        assert!(text.contains(wanted), "{argument}: {text}");
    }
}

#[test]
fn options_that_would_do_nothing_are_refused() {
    let elf = corpus("asm_axpy.gfx942.hsaco");
    let elf = elf.to_str().unwrap();
    let other = fails(2, &["info", elf, "--target", "gfx1100"]);
    assert!(other.contains("is code for gfx942, not gfx1100"), "{other}");
    let set = fails(
        2,
        &[
            "disasm", "--target", "gfx942", "--set", "true16", "--hex", "7E000280",
        ],
    );
    assert!(set.contains("gfx942 does not have it"), "{set}");
}

#[test]
fn info_reads_every_code_object() {
    let folder = corpus("");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_none_or(|extension| extension != "hsaco")
        {
            continue;
        }
        let json: serde_json::Value =
            serde_json::from_str(&succeeds(&["info", "--json", path.to_str().unwrap()])).unwrap();
        let target = Path::new(path.file_stem().unwrap())
            .extension()
            .unwrap()
            .to_str()
            .unwrap();
        assert_eq!(json["target"], target, "{}", path.display());
        assert!(!json["kernels"].as_array().unwrap().is_empty());
        count += 1;
    }
    assert_eq!(count, 486);
}

#[test]
fn info_in_words() {
    let path = corpus("hip_launch_facts.gfx90a.hsaco");
    let path = path.to_str().unwrap();
    let shown = succeeds(&["info", path]);
    assert!(
        !shown.contains('\u{1b}'),
        "colour although the output is no terminal"
    );
    for part in [
        "version 6 for gfx90a, xnack any, sramecc any",
        "kernel launch_facts (launch_facts.kd)",
        "hidden_block_count_x",
        "64 lanes",
    ] {
        assert!(shown.contains(part), "{part} is missing in\n{shown}");
    }
    let path = corpus("asm_axpy.gfx1100.hsaco");
    assert!(
        succeeds(&["info", path.to_str().unwrap(), "--run-as", "gfx1151"])
            .contains("gfx1100 run as gfx1151")
    );
}

/// A file in the target's temporary folder, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, content: &[u8]) -> Self {
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        Scratch(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn damaged_files_are_reported_with_the_part() {
    let whole = std::fs::read(corpus("asm_axpy.gfx942.hsaco")).unwrap();
    let cut = Scratch::new("cut.hsaco", &whole[..whole.len() / 2]);
    let error = fails(1, &["info", cut.path()]);
    assert!(
        error.contains("cut.hsaco")
            && (error.contains("section headers") || error.contains("program header")),
        "{error}"
    );
    let text_file = Scratch::new("text.hsaco", b"hello");
    assert!(fails(1, &["info", text_file.path()]).contains("not an ELF file"));
    let bad = Scratch::new(
        "bad.json",
        br#"{"format": 1, "name": "x", "args": [], "target": {}}"#,
    );
    let error = fails(1, &["launch", bad.path(), "--target", "gfx942"]);
    assert!(error.contains("unknown field `target`"), "{error}");
    let newer = Scratch::new(
        "newer.json",
        br#"{"format": 2, "name": "x", "args": [], "targets": {}}"#,
    );
    assert!(fails(1, &["launch", newer.path(), "--target", "gfx942"]).contains("format 2"));
    let original = std::fs::read_to_string(corpus("asm_axpy.json")).unwrap();
    let wrong_hash = original.replacen("init_sha256\": \"", "init_sha256\": \"00", 1);
    let root =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-description", std::process::id()));
    std::fs::create_dir_all(root.join("built")).unwrap();
    std::fs::write(root.join("built/a.json"), wrong_hash).unwrap();
    std::fs::copy(
        corpus("asm_axpy.gfx942.hsaco"),
        root.join("built/asm_axpy.gfx942.hsaco"),
    )
    .unwrap();
    let error = fails(
        1,
        &[
            "launch",
            root.join("built/a.json").to_str().unwrap(),
            "--target",
            "gfx942",
        ],
    );
    std::fs::remove_dir_all(root).unwrap();
    assert!(
        error.contains("the generated content has SHA-256"),
        "{error}"
    );
}

/// Two code objects in one file, as `hipcc --genco` writes them.
fn offload_bundle(parts: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut data = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
    data.extend((parts.len() as u64).to_le_bytes());
    let mut at = data.len() + parts.iter().map(|(id, _)| 24 + id.len()).sum::<usize>();
    for (id, content) in parts {
        for number in [at, content.len(), id.len()] {
            data.extend((number as u64).to_le_bytes());
        }
        data.extend(id.as_bytes());
        at += content.len();
    }
    parts.iter().for_each(|(_, content)| data.extend(content));
    data
}

#[test]
fn offload_bundles_are_opened() {
    let read = |target: &str| std::fs::read(corpus(&format!("asm_axpy.{target}.hsaco"))).unwrap();
    let one = ("hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-", read("gfx90a"));
    let other = ("hipv4-amdgcn-amd-amdhsa--gfx942", read("gfx942"));
    let host = ("host-x86_64-unknown-linux-gnu-", Vec::new());
    let both = Scratch::new(
        "both.hsaco",
        &offload_bundle(&[host.clone(), one.clone(), other]),
    );
    assert!(succeeds(&["info", both.path(), "--target", "gfx942"]).contains("for gfx942"));
    let error = fails(1, &["info", both.path()]);
    assert!(
        error.contains("gfx90a:xnack-, gfx942: choose one with --target"),
        "{error}"
    );
    assert!(fails(1, &["info", both.path(), "--target", "gfx950"]).contains("no part for it"));
    let single = Scratch::new("single.hsaco", &offload_bundle(&[host, one]));
    assert!(succeeds(&["info", single.path()]).contains("for gfx90a"));
    assert!(fails(2, &["launch", single.path()]).contains("a code object needs --grid"));
    let cut = std::fs::read(&both.0).unwrap()[..40].to_vec();
    let cut = Scratch::new("cut-bundle.hsaco", &cut);
    assert!(
        fails(1, &["info", cut.path()]).contains("offload bundle: the size of part 0 is cut off")
    );
}

#[test]
fn configuration() {
    let listed = succeeds(&["config", "list"]);
    for name in [
        "mi300x",
        "mi355x",
        "mi210",
        "mi455x",
        "w7900",
        "r9700",
        "strix-halo",
    ] {
        assert!(listed.contains(name));
    }
    assert!(succeeds(&["config", "show", "mi300x"]).contains("205822885888"));
    let file = Scratch::new(
        "gpu.json",
        br#"{"gpu": "mi300x", "overrides": {"compute_units": 38, "xccs": 1}}"#,
    );
    let json: serde_json::Value =
        serde_json::from_str(&succeeds(&["config", "show", "--json", file.path()])).unwrap();
    assert_eq!(json["gpus"][0]["compute_units"], 38);
    let wrong = Scratch::new(
        "wrong.json",
        br#"{"gpu": "mi300x", "overrides": {"cus": 38}}"#,
    );
    assert!(fails(2, &["config", "show", wrong.path()]).contains("overrides.cus: unknown key"));
}

#[test]
fn configurations_are_checked() {
    let own = Scratch::new(
        "own.json",
        br#"{"gpu": "mi300x", "num_gpus": 2, "partition": "CPX"}"#,
    );
    let amd = Scratch::new(
        "amd.json",
        br#"{"max_ticks": 9, "vm": {"arch": "rdna4"}, "plugins": {"race": {}}}"#,
    );
    let text = succeeds(&["config", "check", own.path(), amd.path()]);
    assert!(text.contains("own.json: 2 × mi300x"), "{text}");
    assert!(text.contains("warning: max_ticks: no effect"), "{text}");
    assert_eq!(
        ends(&["config", "check", "--strict", amd.path()]).0,
        Some(1)
    );
    let wrong = Scratch::new("wrong-too.json", br#"{"gpu": "mi300x", "nun_gpus": 2}"#);
    let (status, text) = ends(&["config", "check", own.path(), wrong.path(), "/absent"]);
    assert_eq!(status, Some(1));
    assert!(
        text.contains("nun_gpus: unknown key; did you mean `num_gpus`?"),
        "{text}"
    );
    assert!(text.contains("cannot read /absent"), "{text}");
    let text = succeeds(&["config", "show", own.path()]);
    assert!(
        text.contains("renderD143") && text.contains("part 8 of 8 (CPX)"),
        "{text}"
    );
}

#[test]
fn the_doctor_reports_and_answers_for_targets() {
    let empty = std::env::temp_dir();
    let root = empty.join("rocjitsu-no-rocm");
    std::fs::create_dir_all(&root).unwrap();
    let root = root.to_str().unwrap();
    let args = ["doctor", "--config", "mi455x", "--root", root];
    let (_, text) = ends(&args);
    assert!(
        text.contains("kernel") && text.contains("no libhsa-runtime64.so in"),
        "{text}"
    );
    let (_, text) = ends(&[&args[..], &["--json"]].concat());
    let checks: serde_json::Value = serde_json::from_str(&text).unwrap();
    for check in checks.as_array().unwrap() {
        assert_eq!(
            check["verdict"] == "good",
            check["remedy"].is_null(),
            "{check}"
        );
    }
    let limited = "ulimit -f 1024; exec \"$0\" doctor";
    let program = env!("CARGO_BIN_EXE_rocjitsu");
    let output = Command::new("sh").args(["-c", limited, program]).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(text.contains("ulimit -f unlimited"), "{text}");
    // By `--gpu`, too, as `run` and `demo`.
    let lib = std::path::Path::new(root).join("usr/lib");
    std::fs::create_dir_all(&lib).unwrap();
    std::fs::write(lib.join("libhsa-runtime64.so.1"), "gfx942").unwrap();
    let (_, text) = ends(&["doctor", "--gpu", "mi455x", "--root", root]);
    assert!(text.contains("No ROCr here knows gfx1250"), "{text}");
    std::fs::remove_dir_all(lib).unwrap();
    let both = ["doctor", "--gpu", "mi455x", "--config", "mi455x"];
    assert!(fails(2, &both).contains("--config"));
    assert!(fails(2, &["doctor", "--gpu", "mi999"]).contains("the presets are"));
    assert!(fails(2, &["doctor", "--config", "mi999"]).contains("neither a preset"));
    assert!(fails(2, &["doctor", "--root", "/absent"]).contains("--root: /absent"));
}

#[test]
fn wrong_configurations_have_status_2_and_name_the_file() {
    for (content, text) in [
        (r#"{"gpu": "mi300"}"#, "unknown preset `mi300`"),
        (
            r#"{"gpu": "mi300x", "overrides": {"xccs": 0}}"#,
            "xccs: 0 is out of range",
        ),
        (r#"{"gpu": "mi300x", "threads": 0}"#, "threads: 0"),
        (r#"{"gpu": 7}"#, "gpu: 7 where a text belongs"),
    ] {
        let file = Scratch::new("refused.json", content.as_bytes());
        let json = corpus("asm_axpy.json");
        let json = json.to_str().unwrap();
        for command in [
            vec!["config", "show", file.path()],
            vec!["launch", json, "--config", file.path()],
            vec!["demo", "--config", file.path()],
        ] {
            let error = fails(2, &command);
            assert!(
                error.contains(text) && error.contains("refused.json: "),
                "{error}"
            );
        }
    }
    let error = fails(1, &["demo", "--config", "/nonexistent.json"]);
    assert_eq!(error.matches("No such file").count(), 1, "{error}");
}

#[test]
fn a_cause_is_printed_once() {
    let path = corpus("asm_axpy.gfx942.hsaco");
    let shown = succeeds(&["info", "--json", path.to_str().unwrap()]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    // The descriptor lies in the first segment, where addresses are offsets in the file; its bytes
    // 12 to 15 are reserved.
    let descriptor = shown["kernels"][0]["descriptor"].as_u64().unwrap() as usize;
    let mut data = std::fs::read(path).unwrap();
    data[descriptor + 12] = 1;
    let file = Scratch::new("reserved.hsaco", &data);
    let error = fails(1, &["info", file.path()]);
    assert_eq!(error.matches("reserved bytes").count(), 1, "{error}");
    assert!(error.contains("descriptor of kernel axpy: "), "{error}");
}

#[test]
fn wrong_arguments_have_status_2() {
    let elf = corpus("asm_axpy.gfx942.hsaco");
    let elf = elf.to_str().unwrap();
    let lds = std::cell::Cell::new("65537");
    let launch = |block: &str, arguments: [&str; 5]| {
        let mut command = vec!["launch", elf, "--grid", "1", "--block", block];
        command.extend(arguments.iter().flat_map(|argument| ["--arg", argument]));
        command.extend(["--lds", lds.get()]);
        fails(2, &command)
    };
    let error = launch("64", ["buf:4K", "buf:4K", "buf:4K", "f32:1", "i32:1"]);
    assert!(error.contains("more than the 65536 of the GPU"), "{error}");
    lds.set("0");
    let error = launch("1025", ["buf:4K", "buf:4K", "buf:4K", "f32:1", "i32:1"]);
    assert!(error.contains("1025 threads per workgroup"), "{error}");
    let error = launch("64", ["buf:4K", "buf:4K", "buf:4K", "f64:1", "i32:1"]);
    assert!(error.contains("argument 3 has 8 bytes"), "{error}");
    let error = launch("64", ["buf:4K", "buf:4K", "buf:4K", "f32:1e999", "i32:1"]);
    assert!(error.contains("larger than any f64"), "{error}");
    let raw = Scratch::new("empty.bin", b"");
    let header =
        b"\x93NUMPY\x01\x00\x3a\x00{'descr': '<f4', 'fortran_order': False, 'shape': (0,), }\n";
    let array = Scratch::new("empty.npy", header);
    for file in [raw, array] {
        let error = launch("64", ["buf:4K", file.path(), "buf:4K", "f32:1", "i32:1"]);
        assert!(
            error.contains("argument 1: ") && error.contains("holds no elements"),
            "{error}"
        );
    }
}

#[test]
fn completions_and_help() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(succeeds(&["completions", shell]).contains("rocjitsu"));
    }
    let help = succeeds(&["launch", "--help"]);
    assert!(
        help.contains("buf:SIZE[:OPTION]") && help.contains("--run-as"),
        "{help}"
    );
}

#[test]
fn a_closed_pipe_is_no_panic() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rocjitsu"))
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), text(&output.stderr).as_str()),
        (Some(0), "")
    );
}

/// Plugins by option: records on standard error or in a file, findings as a failure, wrong ones as wrong usage.
#[test]
fn plugins_watch_a_launch() {
    let json = corpus("vec_add_f32.json");
    let launch = ["launch", json.to_str().unwrap(), "--target", "gfx942"];
    fn with<'a>(launch: &[&'a str], plugin: &'a str) -> Vec<&'a str> {
        [launch, &["--json", "--plugin", plugin]].concat()
    }
    let file = std::env::temp_dir().join(format!("rocjitsu-mix-{}.jsonl", std::process::id()));
    let plugin = format!("instruction_mix:file={}", file.display());
    let report: serde_json::Value =
        serde_json::from_str(&succeeds(&with(&launch, &plugin))).unwrap();
    let record = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let first = record.lines().next().unwrap();
    let record: serde_json::Value = serde_json::from_str(first).unwrap();
    assert_eq!(record["wave_instructions"], report["wave_instructions"]);

    let output = rocjitsu(&with(&launch, "throughput"));
    assert!(output.status.success());
    let stderr = text(&output.stderr);
    assert!(stderr.contains(r#""event":"summary""#), "{stderr}");

    let error = fails(2, &with(&launch, "thruput"));
    assert!(error.contains("plugin `thruput`: there is none"), "{error}");
    let error = fails(2, &with(&launch, "race:colour=red"));
    assert!(error.contains("no option `colour`"), "{error}");

    let seeded =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/plugins/built/seeded.gfx942.hsaco");
    let mut racing = vec!["launch", seeded.to_str().unwrap()];
    racing.extend("--kernel race_lds_barrier --grid 4 --block 256".split(' '));
    racing.extend("--arg buf:8192 --arg buf:5120 --arg buf:256 --plugin race:fail".split(' '));
    // The values are all zero: equal stores and loads of them are races all the same.
    let error = fails(1, &racing);
    assert!(
        error.contains("seeded.hip:") && error.contains("data races"),
        "{error}"
    );
}

/// A configuration says where records go; a run whose records would be lost does not begin.
#[test]
fn records_go_where_the_configuration_says() {
    let folder = std::env::temp_dir().join(format!("rocjitsu-sinks-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let config = folder.join("c.json");
    let description = corpus("vec_add_f32.json");
    let with = |plugins: &str, types: &str, dir: &str, required: bool| {
        let text = format!(
            r#"{{"gpu": "mi300x", "plugins": {plugins}, "require_all_plugins": {required},
                "sinks": {{"types": {types}, "dir": {dir:?}}}}}"#
        );
        std::fs::write(&config, text).unwrap();
        let config = config.to_str().unwrap();
        rocjitsu(&["launch", description.to_str().unwrap(), "--config", config])
    };
    let records = |bytes: &[u8]| text(bytes).matches(r#""plugin":"throughput""#).count();
    let here = folder.to_str().unwrap();
    let one = r#"{"throughput": {}}"#;
    for (types, out, err) in [
        (r#"["stdout"]"#, 2, 0),
        (r#"["stderr"]"#, 0, 2),
        (r#"["stdout", "stderr", "file"]"#, 2, 2),
    ] {
        let output = with(one, types, here, true);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let found = (records(&output.stdout), records(&output.stderr));
        assert_eq!(found, (out, err), "{types}");
    }
    let file = std::fs::read(folder.join("throughput.log")).unwrap();
    assert_eq!(records(&file), 2);
    for required in [true, false] {
        let output = with(one, r#"["file"]"#, "/proc/nowhere", required);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.contains("cannot make the directory /proc/nowhere"),
            "{said}"
        );
    }
    // One that there is not is left out, unless all are required.
    let two = r#"{"throughput": {}, "thruput": {}}"#;
    let output = with(two, r#"["stdout"]"#, here, false);
    assert_eq!(
        (output.status.code(), records(&output.stdout)),
        (Some(0), 2)
    );
    assert!(text(&output.stderr).contains("plugin `thruput`: there is none"));
    assert_eq!(
        with(two, r#"["stdout"]"#, here, true).status.code(),
        Some(2)
    );
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Executions by form with how exact each is, as a failure where that is asked for.
#[test]
fn a_launch_that_must_be_exact_names_what_is_not() {
    let (exact, bounded) = (corpus("vec_add_f32.json"), corpus("attention_f16.json"));
    let launch =
        |file: &Path| ["launch", file.to_str().unwrap(), "--target", "gfx942"].map(str::to_owned);
    let with = |file: &Path, options: &[&str]| {
        let mut arguments = launch(file).to_vec();
        arguments.extend(options.iter().map(|&option| option.to_owned()));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        rocjitsu(&arguments)
    };
    assert!(with(&exact, &["--require-exact"]).status.success());
    let output = with(&bounded, &["--require-exact", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(
        said.contains("x v_exp_f32 (VOP1), bounded: 0.92 ulp"),
        "{said}"
    );
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let sum = |kind: &str| -> u64 {
        let forms = report["forms"].as_array().unwrap().iter();
        let same = forms.filter(|form| form["exactness"] == kind);
        same.map(|form| form["count"].as_u64().unwrap()).sum()
    };
    assert_eq!(report["results"]["exact"], sum("exact"));
    assert_eq!(report["results"]["bounded"], sum("bounded"));
    assert_eq!(report["results"]["by_default"], sum("default"));
    let accepted = ["--require-exact", "--accept", "bounded"];
    assert!(with(&bounded, &accepted).status.success());
    let one = ["--require-exact", "--accept", "v_exp_f32,v_rcp_f32"];
    let said = text(&with(&bounded, &one).stderr);
    assert!(
        said.contains("v_mfma_f32_32x32x8_f16") && !said.contains("v_exp_f32"),
        "{said}"
    );
}

/// The page of a launch with plugins, and the same from its files, in a real browser: tables are filled, sorting works,
/// and the console is silent.
#[test]
fn a_report_opens_in_a_browser() {
    let folder = std::env::temp_dir().join(format!("rocjitsu-page-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (page, json, again) = (path("a.html"), path("a.json"), path("b.html"));
    let (script, timeline) = (path("click.js"), path("t.json"));
    let description = corpus("attention_f16.json");
    let trace = format!("trace:limit=5,timeline={timeline}");
    let launch = |report: &str| {
        succeeds(&[
            "launch",
            description.to_str().unwrap(),
            "--target",
            "gfx942",
            "--report",
            report,
            "--plugin",
            "instruction_mix",
            "--plugin",
            "throughput",
            "--plugin",
            "race",
            "--plugin",
            "memcheck:heat",
            "--plugin",
            "fidelity",
            "--plugin",
            &trace,
        ]);
    };
    launch(&page);
    launch(&json);
    // A kernel with faults, so that the tables of findings are filled.
    let faults = path("faults.html");
    let seeded =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/plugins/built/seeded.gfx942.hsaco");
    let mut faulty = vec!["launch", seeded.to_str().unwrap(), "--report", &faults];
    faulty.extend("--kernel hazard_race_lds_copy --grid 4 --block 256".split(' '));
    faulty.extend("--arg buf:8192 --arg buf:512 --arg buf:256 --plugin race".split(' '));
    faulty.extend("--plugin data_hazard --plugin memcheck".split(' '));
    succeeds(&faulty);
    succeeds(&["report", &json, &timeline, "-o", &again]);
    let click = "const head = document.querySelector('#fidelity thead th:first-child'); head.click();\n\
        const cells = [...document.querySelectorAll('#fidelity tbody')][0].querySelectorAll('td.n');\n\
        document.documentElement.dataset.first = cells[0].textContent;";
    std::fs::write(&script, click).unwrap();
    let browser = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/browser");
    for (file, sections) in [
        (
            &page,
            &[
                "summary",
                "fidelity",
                "findings",
                "mix",
                "heat",
                "throughput",
            ][..],
        ),
        (&again, &["summary", "fidelity", "timeline", "heat"][..]),
        (&faults, &["summary", "fidelity", "findings"][..]),
    ] {
        let output = Command::new(&browser)
            .args([file, &script])
            .output()
            .unwrap();
        if output.status.code() == Some(77) {
            eprintln!(
                "a_report_opens_in_a_browser: 1 test skipped, no browser is installed (scripts/browser --install)"
            );
            break;
        }
        let (dom, said) = (text(&output.stdout), text(&output.stderr));
        assert!(
            output.status.success() && !said.contains("console:"),
            "{said}"
        );
        for section in sections {
            assert!(
                dom.contains(&format!("<section id=\"{section}\">")),
                "{section}"
            );
        }
        let number = |key: &str| -> u64 {
            let rest = dom.split(&format!("data-{key}=\"")).nth(1).unwrap();
            rest.split('"').next().unwrap().parse().unwrap()
        };
        assert!(
            file == &faults || number("tables") >= 6 && number("rows") > 50,
            "{}",
            number("rows")
        );
        if file == &faults {
            // Each of the three tables has the instruction with its line, and only its title says what is wrong.
            for title in ["Data races", "Data hazards", "Memory errors"] {
                let rest = dom.split(&format!("<h3>{title}</h3>")).nth(1).unwrap();
                let table = rest.split("</table>").next().unwrap();
                assert!(
                    table.contains("<tbody>") && table.contains("seeded.hip:"),
                    "{title}: {table}"
                );
            }
            continue;
        }
        // A click on the count brings the form that executed least often to the top; before, it is the last one.
        assert_eq!(number("first"), 16);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A fault of a kernel with line tables names its source line, on standard error and in JSON.
#[test]
fn a_fault_names_the_source_line() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/plugins");
    let source = std::fs::read_to_string(folder.join("seeded.hip")).unwrap();
    let mut lines = source.lines().enumerate();
    lines.find(|(_, line)| line.contains("kernel memory_misaligned_atomic"));
    let (line, _) = lines.find(|(_, l)| l.contains("fetch_add")).unwrap();
    let place = format!("seeded.hip:{}\n", line + 1);
    for target in ["gfx90a", "gfx942", "gfx1100", "gfx1201"] {
        let file = folder.join(format!("built/seeded.{target}.hsaco"));
        let kernel = ["--kernel", "memory_misaligned_atomic"];
        let geometry = ["--grid", "4", "--block", "256"];
        let buffers = ["--arg", "buf:8192", "--arg", "buf:5120", "--arg", "buf:256"];
        let mut args = vec!["launch", file.to_str().unwrap()];
        args.extend([&kernel[..], &geometry, &buffers].concat());
        let stderr = fails(1, &args);
        let (_, source) = stderr.split_once("\n  source: ").expect("a source line");
        assert!(source.split_once(&place).is_some(), "{target}: {stderr}");
        args.push("--json");
        let (status, json) = ends(&args);
        assert_eq!(status, Some(1));
        assert!(json.contains(place.trim_end()), "{target}: {json}");
    }
}
