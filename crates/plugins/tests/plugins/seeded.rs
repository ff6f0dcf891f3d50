//! Every seeded fault is found, by its source line, and nothing is reported of the kernels without one.

use rocjitsu_cli::launch::Launch;
use rocjitsu_cli::launch::arguments::{Argument, bind};
use rocjitsu_gpu::code_object::{CodeObject, LoadOptions};
use rocjitsu_isa::Target;
use rocjitsu_plugins::{Chosen, MemoryWishes};

use super::rig::{Run, Watching, data};
use serde_json::json;

pub const TARGETS: [Target; 6] = [
    Target::Gfx90a,
    Target::Gfx942,
    Target::Gfx950,
    Target::Gfx1100,
    Target::Gfx1201,
    Target::Gfx1250,
];

/// The kernels of a file of `data/plugins`.
pub fn code(file: &str, target: Target) -> CodeObject {
    let path = data(&format!("plugins/built/{file}.{target}.hsaco"));
    let bytes = std::fs::read(path).expect("a file of the repository");
    CodeObject::parse(bytes, &LoadOptions::default()).expect("a code object")
}

/// A launch of a kernel: 4 workgroups of 256.
fn launch(code: &CodeObject, name: &str) -> Launch {
    launch_with(code, name, ["buf:8192", "buf:5120:u32:seed=7", "buf:256"])
}

/// The same with these arguments.
pub fn launch_with(code: &CodeObject, name: &str, texts: [&str; 3]) -> Launch {
    let kernel = code.kernel(name).expect("in the file").clone();
    let arguments: Vec<Argument> = texts
        .iter()
        .map(|t| t.parse().expect("an argument"))
        .collect();
    let (buffers, arguments, kernarg) = bind(&kernel, &arguments).expect("bound");
    Launch {
        name: name.to_owned(),
        code: code.clone(),
        grid: [4, 1, 1],
        block: [256, 1, 1],
        cluster: [1; 3],
        lds_dynamic: 0,
        private_bytes: kernel.descriptor.private_segment_fixed_size,
        kernel,
        kernarg,
        buffers,
        arguments,
        expected_instructions: None,
    }
}

/// What a plugin's options ask of the memory.
fn wishes(plugin: &str) -> MemoryWishes {
    let chosen = Chosen {
        plugins: vec![plugin.parse().expect("a selection")],
        ..Chosen::default()
    };
    chosen.memory().expect("good options")
}

#[test]
fn seeded_faults_are_found_and_nothing_else() {
    let mut wrong = Vec::new();
    let mut found = 0;
    for target in TARGETS {
        let code = code("seeded", target);
        for kernel in code.kernels() {
            let name = kernel.name.as_str();
            let launch = launch(&code, name);
            let memcheck = match name {
                "memory_uninitialised_memory" => "memcheck:uninitialised=global",
                _ if name.starts_with("memory_redzone") => "memcheck:redzone=1048576",
                _ if name.contains("uninitialised") => "memcheck:uninitialised",
                _ => "memcheck",
            };
            let watching = Watching::new(&["race", "data_hazard", memcheck]);
            let run = Run::with_memory(&launch, wishes(memcheck));
            let run = run.go(&launch, &watching.plugins, 2);
            // These end the dispatch, whatever plugins say of them; LDS out of range where an address is flat, on CDNA.
            let ends = [
                "memory_redzone",
                "memory_redzone_before",
                "memory_misaligned_atomic",
                "memory_lds_out_of_bounds",
            ]
            .contains(&name);
            let stopped = ends && watching.records(2).len() > 1;
            if let (Err(why), false) = (run, stopped) {
                wrong.push(format!("{target} {name}: {why}"));
                continue;
            }
            for (index, prefix) in ["race_", "hazard_", "memory_"].iter().enumerate() {
                let records = watching.records(index);
                let (_, faults) = records.split_last().expect("a summary");
                // Some faults are of two kinds.
                if faults.is_empty() == name.contains(prefix) {
                    let list: Vec<String> = faults.iter().map(ToString::to_string).collect();
                    wrong.push(format!(
                        "{target} {name} ({prefix}): {}",
                        list.join("\n    ")
                    ));
                }
                found += usize::from(!faults.is_empty());
                for fault in faults {
                    let places = ["first", "second", "use", "load", "instruction"];
                    for place in places.iter().filter_map(|p| fault.get(p)) {
                        let source = place["source"].as_str().unwrap_or_default();
                        if !source.contains("seeded.hip:") {
                            wrong.push(format!("{target} {name}: no source line in {fault}"));
                        }
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(found >= 120, "only {found} kernels with faults");
}

#[test]
fn coverage_names_the_lines_of_kernels_that_ran() {
    let code = code("seeded", Target::Gfx942);
    let launch = launch(&code, "good_global_flag");
    let file = std::env::temp_dir().join(format!("rocjitsu-lcov-{}.info", std::process::id()));
    let text = format!("coverage:missed,lcov={}", file.display());
    let watching = Watching::new(&[&text, "instruction_mix"]);
    Run::new(&launch)
        .go(&launch, &watching.plugins, 2)
        .expect("runs");
    let record = &watching.records(0)[0];
    let (all, hit) = (record["instructions"].as_u64(), record["executed"].as_u64());
    assert!(hit > Some(20) && hit <= all, "{record}");
    let missed = record["missed"].as_array().map_or(0, Vec::len) as u64;
    assert_eq!(all.zip(hit).map(|(all, hit)| all - hit), Some(missed));
    let lcov = std::fs::read_to_string(&file).expect("written");
    std::fs::remove_file(&file).expect("removed");
    let source = std::fs::read_to_string(data("plugins/seeded.hip")).expect("a file");
    let lines: Vec<&str> = source.lines().collect();
    let executed = lcov.lines().filter_map(|line| line.strip_prefix("DA:"));
    let executed: Vec<(usize, u64)> = executed
        .map(|line| {
            let (line, count) = line.split_once(',').expect("two numbers");
            (
                line.parse().expect("a number"),
                count.parse().expect("a number"),
            )
        })
        .collect();
    let line_of = |text: &str| {
        lines
            .iter()
            .position(|line| line.contains(text))
            .expect("there")
            + 1
    };
    // The consumer's copy ran once in each wave of its workgroup.
    let copy = line_of("out[256 + item] = out[item];");
    assert!(executed.contains(&(copy, 4)), "{copy}: {executed:?}");
    assert!(lcov.contains("SF:") && lcov.contains("seeded.hip") && lcov.contains("end_of_record"));
}

#[test]
fn a_fault_can_end_the_run() {
    let code = code("seeded", Target::Gfx942);
    for (kernel, plugin) in [
        ("race_lds_barrier", "race:fail"),
        ("hazard_short_wait", "data_hazard:fail"),
        ("memory_out_of_bounds", "memcheck:fail"),
    ] {
        let launch = launch(&code, kernel);
        let watching = Watching::new(&[plugin]);
        let error = Run::new(&launch)
            .go(&launch, &watching.plugins, 1)
            .expect_err(kernel);
        let name = plugin.split(':').next().unwrap_or_default();
        assert!(error.contains(&format!("plugin `{name}`")), "{error}");
    }
}

/// The records of a kernel by one plugin, without the summary.
fn faults(kernel: &str, plugin: &str, arguments: [&str; 3]) -> Vec<serde_json::Value> {
    let code = code("seeded", Target::Gfx942);
    let launch = launch_with(&code, kernel, arguments);
    let watching = Watching::new(&[plugin]);
    // It may stop at an access to nothing.
    let _ = Run::with_memory(&launch, wishes(plugin)).go(&launch, &watching.plugins, 1);
    let mut records = watching.records(0);
    records.pop();
    records
}

const ARGUMENTS: [&str; 3] = ["buf:8192", "buf:5120:u32:seed=7", "buf:256"];

/// Without a red zone as large an access may meet the next buffer, which is no error that anybody could see.
#[test]
fn a_red_zone_keeps_neighbours_apart() {
    assert!(faults("memory_redzone", "memcheck", ARGUMENTS).is_empty());
    let found = faults("memory_redzone", "memcheck:redzone=1048576", ARGUMENTS);
    assert_eq!(found.len(), 1, "{found:?}");
    let fault = &found[0];
    assert_eq!(fault["error"], "out_of_bounds", "{fault}");
    assert_eq!(fault["allocation"], "buffer `arg1`", "{fault}");
    assert_eq!(
        (&fault["bytes"], &fault["offset"]),
        (&json!(5120), &json!(73728))
    );
    // Of two in whose red zones it falls the nearer one, here the later one.
    let found = faults(
        "memory_redzone_before",
        "memcheck:redzone=1048576",
        ARGUMENTS,
    );
    let fault = &found[0];
    assert_eq!(fault["allocation"], "buffer `arg1`", "{fault}");
    assert_eq!(
        (&fault["side"], &fault["distance"], &fault["offset"]),
        (&json!("before"), &json!(4), &json!(-4))
    );
    assert!(wishes("memcheck").redzone.is_none());
    let chosen = Chosen {
        plugins: vec!["memcheck:redzone=0".parse().expect("a selection")],
        ..Chosen::default()
    };
    assert!(chosen.memory().is_err());
}

/// Bytes that the host has given are written, and so are those that the kernel has stored.
#[test]
fn reads_of_memory_that_nothing_has_written_are_found() {
    let of = |kernel, arguments| faults(kernel, "memcheck:uninitialised=global", arguments);
    let found = of("memory_uninitialised_memory", ARGUMENTS);
    assert_eq!(found.len(), 1, "{found:?}");
    let fault = &found[0];
    assert_eq!(fault["error"], "uninitialised_memory", "{fault}");
    assert_eq!(
        (&fault["allocation"], &fault["offset"]),
        (&json!("buffer `arg0`"), &json!(4096))
    );
    let given = ["buf:8192:fill=0", "buf:5120:u32:seed=7", "buf:256"];
    assert!(of("memory_uninitialised_memory", given).is_empty());
    assert!(of("good_global_ranges", ARGUMENTS).is_empty());
    let found = of("good_global_ranges", ["buf:8192", "buf:5120", "buf:256"]);
    assert_eq!(found[0]["allocation"], "buffer `arg1`", "{found:?}");
}

/// The kernarg segment is read by all waves: 16 of gfx942, which are remembered, and 32 of gfx1201.
#[test]
fn readers_that_are_forgotten_are_counted() {
    for (target, forgets) in [(Target::Gfx942, false), (Target::Gfx1201, true)] {
        let code = code("seeded", target);
        let launch = launch(&code, "good_lds_barrier");
        let watching = Watching::new(&["race"]);
        let run = Run::new(&launch).go(&launch, &watching.plugins, 1);
        run.expect("runs");
        let records = watching.records(0);
        let forgotten = records[0]["forgotten_readers"].as_u64().expect("a number");
        assert_eq!(forgotten > 0, forgets, "{target}: {records:?}");
    }
}

#[test]
fn a_pair_that_is_too_close_is_told_with_its_mend() {
    let found = faults("hazard_close", "data_hazard", ARGUMENTS);
    assert_eq!(found.len(), 1, "{found:?}");
    let fault = &found[0];
    let of = |key: &str| fault[key].clone();
    assert_eq!(fault["hazard"], "valu_lane_select", "{fault}");
    assert_eq!(
        [of("register"), of("mend")],
        [json!("s40"), json!("s_nop 3")]
    );
    assert_eq!([of("between"), of("needed")], [json!(0), json!(4)]);
    assert_eq!(fault["first"]["text"], "v_readfirstlane_b32 s40, v1");
    assert_eq!(fault["second"]["text"], "v_readlane_b32 s41, v1, s40");
}

/// Registers that nothing has written: vector and scalar ones, those that hold no work-item ids, and halves.
#[test]
fn registers_that_nothing_has_written_are_named() {
    for (kernel, register, bytes) in [
        ("memory_uninitialised_register", "v20", json!("0xf")),
        ("memory_uninitialised_scalar", "s40", json!(null)),
        ("memory_uninitialised_given", "v2", json!("0xf")),
        ("memory_uninitialised_half", "v20", json!("0xc")),
    ] {
        let found = faults(kernel, "memcheck:uninitialised", ARGUMENTS);
        assert_eq!(found.len(), 1, "{found:?}");
        let fault = &found[0];
        assert_eq!(fault["error"], "uninitialised_register", "{fault}");
        assert_eq!(
            (&fault["register"], &fault["bytes"]),
            (&json!(register), &bytes)
        );
    }
    assert!(faults("good_halves", "memcheck:uninitialised", ARGUMENTS).is_empty());
}

/// A copy to LDS is told with the wait that it needs, also where another wave uses it behind a barrier.
#[test]
fn copies_to_lds_are_told_with_their_wait() {
    let (vmcnt, asynccnt) = ("s_waitcnt vmcnt(0)", "s_wait_asynccnt 0x0");
    let (global, buffer) = ("hazard_race_lds_copy", "hazard_race_lds_buffer");
    for (target, wait, name) in [
        (Target::Gfx90a, vmcnt, buffer),
        (Target::Gfx942, vmcnt, buffer),
        (Target::Gfx950, vmcnt, buffer),
        (Target::Gfx942, vmcnt, global),
        (Target::Gfx950, vmcnt, global),
        (Target::Gfx1250, asynccnt, global),
    ] {
        let code = code("seeded", target);
        for kernel in [name, &format!("{name}_barrier")] {
            let launch = launch(&code, kernel);
            let watching = Watching::new(&["data_hazard"]);
            let run = Run::new(&launch).go(&launch, &watching.plugins, 1);
            run.expect("runs");
            let fault = &watching.records(0)[0];
            assert_eq!(fault["hazard"], "lds_read", "{fault}");
            assert_eq!(fault["wait"], wait, "{fault}");
            let own = fault["wave"] == fault["copied_by"];
            assert_eq!(own, kernel == name, "{fault}");
        }
    }
}

/// The allocation of a misaligned atomic is named.
#[test]
fn misaligned_atomics_are_told_with_their_allocation() {
    let found = faults("memory_misaligned_atomic", "memcheck", ARGUMENTS);
    let fault = &found[0];
    assert_eq!(fault["error"], "misaligned_atomic", "{fault}");
    assert_eq!(fault["allocation"], "buffer `arg0`", "{fault}");
    assert_eq!(
        (&fault["offset"], &fault["bytes"]),
        (&json!(2), &json!(8192))
    );
    // One that goes beyond the end has both faults.
    let short = ["buf:4:fill=0", "buf:5120:u32:seed=7", "buf:256"];
    let found = faults("memory_misaligned_atomic", "memcheck", short);
    let kinds: Vec<_> = found.iter().map(|fault| fault["error"].clone()).collect();
    assert_eq!(
        kinds,
        [json!("out_of_bounds"), json!("misaligned_atomic")],
        "{found:?}"
    );
}

#[test]
fn freed_memory_is_named() {
    let code = code("seeded", Target::Gfx942);
    let launch = launch(&code, "good_global_ranges");
    let watching = Watching::new(&["memcheck"]);
    let run = Run::new(&launch);
    run.go(&launch, &watching.plugins, 1).expect("runs");
    run.memory.free(run.placed.buffers[1]).expect("allocated");
    // The engine ends the dispatch, too.
    run.go(&launch, &watching.plugins, 1)
        .expect_err("an access to nothing");
    let records = watching.records(0);
    let freed: Vec<_> = records
        .iter()
        .filter(|r| r["error"] == "use_after_free")
        .collect();
    assert_eq!(freed.len(), 1, "{records:?}");
    let label = freed[0]["allocation"].as_str().unwrap_or_default();
    assert!(label.starts_with("buffer"), "{label}");
    assert_eq!(
        (&freed[0]["access"], &freed[0]["bytes"]),
        (&"load".into(), &5120.into())
    );
}
