//! Launches that execute: results against the expected ones, arguments from the command line,
//! files and printed elements, faults with their cause.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn corpus(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../data/corpus/built")
        .join(name);
    path.to_str().unwrap().to_owned()
}

/// Exit status, standard output, standard error.
fn rocjitsu(args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_rocjitsu"))
        .args(args)
        .env_remove("ROCJITSU_LANES")
        .env_remove("ROCJITSU_JIT")
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()))
}

#[test]
fn a_description_runs_and_is_checked_on_every_target() {
    let description = corpus("asm_axpy.json");
    for target in [
        "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250",
    ] {
        let (status, stdout, stderr) = rocjitsu(&[
            "launch",
            &description,
            "--target",
            target,
            "--check",
            "--threads",
            "2",
        ]);
        assert_eq!(status, Some(0), "{target}: {stdout}{stderr}");
        assert!(stdout.contains("ok   out: equal"), "{target}: {stdout}");
    }
    let as_other = [
        "launch",
        &description,
        "--target",
        "gfx1100",
        "--run-as",
        "gfx1151",
        "--check",
    ];
    let (status, stdout, stderr) = rocjitsu(&as_other);
    assert_eq!(status, Some(0), "{stdout}{stderr}");
    assert!(stdout.contains("Radeon 8060S"), "{stdout}");
}

#[test]
fn a_gpu_stands_for_its_target() {
    let description = corpus("asm_axpy.json");
    let config = scratch("gpu.json");
    std::fs::write(&config, r#"{"gpu": "w7900", "threads": 1}"#).unwrap();
    let file = config.to_str().unwrap();
    // There is no code for gfx1151: it runs that for gfx1100.
    for (options, product) in [
        (vec!["--gpu", "mi300x"], "MI300X"),
        (vec!["--config", file], "W7900"),
        (vec!["--config", file, "--target", "gfx1100"], "W7900"),
        (vec!["--gpu", "strix-halo"], "8060S"),
        (vec!["--target", "gfx1151"], "8060S"),
        (vec!["--target", "gfx1151", "--run-as", "gfx1151"], "8060S"),
    ] {
        let mut args = vec!["launch", &description, "--check"];
        args.extend(&options);
        let (status, stdout, stderr) = rocjitsu(&args);
        assert_eq!(status, Some(0), "{options:?}: {stdout}{stderr}");
        assert!(stdout.contains(product), "{options:?}: {stdout}");
    }
    let other = ["--config", file, "--target", "gfx1201"];
    let (status, _, stderr) = rocjitsu(&[&["launch", &description], &other[..]].concat());
    assert_eq!(status, Some(2));
    assert!(stderr.contains("does not run code for gfx1201"), "{stderr}");
    std::fs::remove_file(&config).unwrap();
    for (options, product) in [
        (vec!["--gpu", "w7900"], "W7900"),
        (vec!["--gpu", "strix-halo"], "8060S"),
        (vec![], "MI300X"),
    ] {
        let (status, stdout, stderr) = rocjitsu(&[&["demo"], &options[..]].concat());
        assert_eq!(status, Some(0), "{options:?}: {stderr}");
        assert!(stdout.contains(product), "{options:?}: {stdout}");
    }
}

#[test]
fn json_of_a_launch_by_hand_lists_the_buffers_and_that_of_a_fault_the_error() {
    let file = corpus("asm_axpy.gfx942.hsaco");
    let launch = |count: &str| {
        let scalar = format!("i32:{count}");
        let (status, stdout, stderr) = rocjitsu(&[
            "launch", &file, "--grid", "64", "--block", "64", "--arg", "buf:4K", "--arg",
            "buf:64K", "--arg", "buf:64K", "--arg", "f32:1", "--arg", &scalar, "--json",
        ]);
        let json: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        (status, json, stderr)
    };
    let (status, json, stderr) = launch("0");
    assert_eq!((status, &json["ok"]), (Some(0), &true.into()), "{stderr}");
    // The hash is that of 4096 zeros.
    assert_eq!(
        json["buffers"][0],
        serde_json::json!({
            "name": "arg0",
            "bytes": 4096,
            "sha256": "ad7facb2586fc6e966c004d7d1d16b024f5805ff7cb47c7a85dabd8b48892ca7",
            "result": "unchecked",
        })
    );
    assert_eq!(json["buffers"].as_array().unwrap().len(), 3);
    let (status, json, stderr) = launch("4096");
    assert_eq!((status, &json["ok"]), (Some(1), &false.into()));
    let error = json["error"].as_str().unwrap();
    assert!(error.contains("global_store_dword"), "{error}");
    assert!(stderr.contains(error), "{stderr}");
}

#[test]
fn an_empty_name_of_lanes_counts_as_unset() {
    let output = Command::new(env!("CARGO_BIN_EXE_rocjitsu"))
        .arg("demo")
        .env("ROCJITSU_LANES", "")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn the_compiler_is_switched_by_the_environment() {
    let launch = |value: &str| {
        let description = corpus("asm_axpy.json");
        Command::new(env!("CARGO_BIN_EXE_rocjitsu"))
            .args(["launch", &description, "--target", "gfx942", "--json"])
            .env("ROCJITSU_JIT", value)
            .output()
            .unwrap()
    };
    let output = launch("0");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["compiled"]["why"], "switched off");
    let output = launch("perhaps");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("perhaps"));
}

#[test]
fn json_has_the_statistics() {
    let description = corpus("asm_axpy.json");
    let args = [
        "launch",
        &description,
        "--target",
        "gfx942",
        "--check",
        "--json",
        "--repeat",
        "2",
        "--lanes",
        "scalar",
    ];
    let (status, stdout, stderr) = rocjitsu(&args);
    assert_eq!(status, Some(0), "{stderr}");
    let json: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (&json["ok"], &json["waves"], &json["lane_back_end"]),
        (&true.into(), &4.into(), &"scalar".into())
    );
    assert_eq!(json["buffers"][0]["result"], "equal");
    let classes: u64 = json["by_class"]
        .as_object()
        .unwrap()
        .values()
        .map(|count| count.as_u64().unwrap())
        .sum();
    assert_eq!(json["wave_instructions"], classes);
    assert_eq!(json["runs"], 2);
    assert_eq!(json["seconds_of_each_run"].as_array().unwrap().len(), 2);
    assert!(json["peak_resident_bytes"].as_u64().unwrap() > 1 << 20);
    assert!(json["peak_register_pages"].as_u64().unwrap() > 0);
    assert_eq!(json["fast_matrix"], false);
    let why = json["compiled"]["why"].as_str().unwrap();
    assert!(why.contains("scalar"), "{why}");
}

#[test]
fn fast_matrix_products_are_marked() {
    let description = corpus("asm_axpy.json");
    let args = [
        "launch",
        &description,
        "--target",
        "gfx942",
        "--fast-matrix",
    ];
    let (status, stdout, stderr) = rocjitsu(&args);
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stdout.contains("not bit for bit"), "{stdout}");
    let (status, stdout, stderr) = rocjitsu(&[&args[..], &["--json"]].concat());
    assert_eq!(status, Some(0), "{stderr}");
    let json: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(json["fast_matrix"], true);
}

#[test]
fn arguments_from_the_command_line() {
    let file = corpus("asm_axpy.gfx942.hsaco");
    let array = scratch("out.npy");
    let raw = scratch("out.bin");
    let out = format!("out:256:f32={}", array.display());
    let also = format!("0={}", raw.display());
    let args = [
        "launch",
        &file,
        "--kernel",
        "axpy",
        "--grid",
        "1",
        "--block",
        "64",
        "--arg",
        &out,
        "--arg",
        "buf:256:f32:fill=3",
        "--arg",
        "buf:256:f32:fill=0.5",
        "--arg",
        "f32:2",
        "--arg",
        "i32:63",
        "--out",
        &also,
        "--print",
        "0",
        "--print",
        "0:u32:2",
    ];
    let (status, stdout, stderr) = rocjitsu(&args);
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stdout.contains("arg0 as f32: 6.5 6.5 "), "{stdout}");
    assert!(
        stdout.contains(&format!("arg0 as u32: {0} {0}\n", 6.5f32.to_bits())),
        "{stdout}"
    );
    let (npy, bytes) = (std::fs::read(&array).unwrap(), std::fs::read(&raw).unwrap());
    std::fs::remove_file(&raw).unwrap();
    assert_eq!((npy.len(), bytes.len()), (128 + 256, 256));
    assert_eq!(npy[128..], bytes);
    let floats: Vec<f32> = bytes
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
        .collect();
    assert!(
        floats[..63].iter().all(|value| *value == 6.5) && floats[63] == 0.0,
        "{floats:?}"
    );
    // The written array is an argument of the next launch.
    let path = array.to_str().unwrap();
    let again = [
        "launch",
        &file,
        "--grid",
        "1",
        "--block",
        "64",
        "--arg",
        "buf:256:f32",
        "--arg",
        path,
        "--arg",
        path,
        "--arg",
        "f32:1",
        "--arg",
        "i32:64",
        "--print",
        "0::2",
    ];
    let (status, stdout, stderr) = rocjitsu(&again);
    std::fs::remove_file(&array).unwrap();
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stdout.contains("arg0 as f32: 13 13\n"), "{stdout}");
}

#[test]
fn a_store_outside_a_buffer_is_a_fault_that_names_the_place() {
    let file = corpus("asm_axpy.gfx942.hsaco");
    let args = [
        "launch", &file, "--grid", "64", "--block", "64", "--arg", "buf:4K", "--arg", "buf:64K",
        "--arg", "buf:64K", "--arg", "f32:1", "--arg", "i32:4096",
    ];
    let (status, _, stderr) = rocjitsu(&args);
    assert_eq!(status, Some(1), "{stderr}");
    assert!(
        stderr.contains("kernel axpy") && stderr.contains("global_store_dword"),
        "{stderr}"
    );
    assert!(stderr.contains("not mapped"), "{stderr}");
    assert!(
        stderr.contains("is 0x0 bytes past the end of buffer `arg0` ["),
        "{stderr}"
    );
}

#[test]
fn a_wrong_result_has_status_1_and_is_located() {
    // The description with another scalar: every element but the untouched tail differs.
    let root = scratch("wrong");
    std::fs::create_dir_all(root.join("built")).unwrap();
    std::fs::create_dir_all(root.join("golden")).unwrap();
    let text = std::fs::read_to_string(corpus("asm_axpy.json"))
        .unwrap()
        .replacen("0.75", "0.5", 1);
    std::fs::write(root.join("built/wrong.json"), text).unwrap();
    std::fs::copy(
        corpus("asm_axpy.gfx942.hsaco"),
        root.join("built/asm_axpy.gfx942.hsaco"),
    )
    .unwrap();
    std::fs::copy(
        corpus("../golden/asm_axpy.out.npy"),
        root.join("golden/asm_axpy.out.npy"),
    )
    .unwrap();
    let path = root.join("built/wrong.json");
    let (status, stdout, _) = rocjitsu(&[
        "launch",
        path.to_str().unwrap(),
        "--target",
        "gfx942",
        "--check",
    ]);
    assert_eq!(status, Some(1), "{stdout}");
    assert!(
        stdout.contains("FAIL out: 230 of 230 elements differ; first at [0]: got "),
        "{stdout}"
    );
    let (status, ..) = rocjitsu(&["launch", path.to_str().unwrap(), "--target", "gfx942"]);
    assert_eq!(status, Some(0), "without --check");
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn disassembly() {
    let (status, stdout, _) = rocjitsu(&["disasm", &corpus("hip_call_tree.gfx90a.hsaco")]);
    assert_eq!(status, Some(0));
    assert!(
        stdout.contains("<call_tree>:")
            && stdout.contains("<_ZL5pathsjj>:")
            && stdout.contains("s_endpgm")
    );
    assert!(!stdout.contains(".long"), "undecoded instructions");
    let (_, one, _) = rocjitsu(&[
        "disasm",
        &corpus("hip_call_tree.gfx90a.hsaco"),
        "--kernel",
        "call_tree",
    ]);
    assert!(one.len() < stdout.len() && stdout.contains(one.lines().nth(5).unwrap()));
    let (status, stdout, _) = rocjitsu(&["disasm", "--target", "gfx942", "--hex", "7E000280"]);
    assert_eq!(
        (status, stdout.contains("v_mov_b32_e32 v0, 0")),
        (Some(0), true),
        "{stdout}"
    );
    let (status, stdout, _) = rocjitsu(&["disasm", "--target", "gfx942", "--hex", "ffffffff"]);
    assert_eq!(
        (status, stdout.contains(".long 0xffffffff")),
        (Some(1), true),
        "{stdout}"
    );
    assert_eq!(rocjitsu(&["disasm"]).0, Some(2));
}

/// What `disasm --hex` writes for lines on its standard input, with status 0.
fn disassemble_lines(arguments: &[&str], input: &[u8]) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rocjitsu"))
        .args(["disasm", "--hex"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn disassembly_of_lines_on_standard_input() {
    // Bytes and texts from `data/isa/vectors.*`.
    let good = [
        ("000000d802040000", "ds_add_u32 v2, v4"),
        (
            "00007cdc9c640000",
            "flat_store_dwordx4 v[156:157], v[100:103]",
        ),
        (
            "6f1108e000c81c01",
            "buffer_load_format_xyz v[200:202], v0, ttmp[4:7], s1 offen offset:367",
        ),
    ];
    let garbage: [&[u8]; 7] = [
        b"",
        b"hello",
        b"000000d80204000",
        b"000000d8",
        b"000000d80204000000000000",
        b"ffffffff",
        b"\xff\xfe",
    ];
    let (mut input, mut expected) = (Vec::new(), String::new());
    for ((bytes, text), wrong) in good.iter().cycle().zip(garbage) {
        for (line, answer) in [(bytes.as_bytes(), *text), (wrong, "invalid")] {
            input.extend(line);
            input.push(b'\n');
            expected += answer;
            expected += "\n";
        }
    }
    assert_eq!(disassemble_lines(&["--target", "gfx942"], &input), expected);
    // The last line may lack its line feed.
    let line = b"000000d802040000";
    assert_eq!(
        disassemble_lines(&["--target", "gfx942"], line),
        "ds_add_u32 v2, v4\n"
    );
    let line = b"000002cd04091204\n";
    for (arguments, text) in [
        (
            vec!["--target", "gfx1201"],
            "v_interp_p10_f16_f32 v0, v4, v4, v4 wait_exp:0\n",
        ),
        (
            vec!["--target", "gfx1201", "--set", "true16"],
            "v_interp_p10_f16_f32 v0, v4.l, v4, v4.l wait_exp:0\n",
        ),
    ] {
        assert_eq!(disassemble_lines(&arguments, line), text);
    }
    let wave64 = ["--target", "gfx1100", "--set", "wave64"];
    assert_eq!(
        disassemble_lines(&wave64, b"04050502\n"),
        "v_cndmask_b32_e32 v2, v4, v130, vcc\n"
    );
    let both = disassemble_lines(&["--target", "gfx1100"], b"04050502\n");
    assert!(both.ends_with("vcc_lo\n"), "{both}");
}

#[test]
fn disassembly_of_code_for_another_target_is_wrong_usage() {
    let file = corpus("asm_axpy.gfx942.hsaco");
    let (status, _, stderr) = rocjitsu(&["disasm", &file, "--target", "gfx950"]);
    assert_eq!(status, Some(2));
    assert!(
        stderr.contains("is code for gfx942, not gfx950"),
        "{stderr}"
    );
    assert_eq!(
        rocjitsu(&["disasm", &file, "--target", "gfx942"]).0,
        Some(0)
    );
}

#[test]
fn coverage_counts_operations() {
    let (status, stdout, _) = rocjitsu(&["coverage", "--target", "gfx942", "--json", "--missing"]);
    assert_eq!(status, Some(0));
    let json: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let count = |key: &str| json[0][key].as_u64().unwrap();
    let parts: u64 = [
        "exact",
        "bounded",
        "by_default",
        "missing",
        "graphics",
        "not_tried",
    ]
    .map(count)
    .iter()
    .sum();
    assert_eq!(count("forms"), parts);
    assert!(count("exact") > 2000);
}
