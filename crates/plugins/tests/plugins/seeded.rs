//! Every seeded fault is found, by its source line, and nothing is reported of the kernels without one.

use rocjitsu_cli::launch::Launch;
use rocjitsu_cli::launch::arguments::{Argument, bind};
use rocjitsu_gpu::code_object::{CodeObject, LoadOptions};
use rocjitsu_isa::Target;

use super::rig::{Run, Watching, data};

pub const TARGETS: [Target; 4] = [
    Target::Gfx90a,
    Target::Gfx942,
    Target::Gfx1100,
    Target::Gfx1201,
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

#[test]
fn seeded_faults_are_found_and_nothing_else() {
    let mut wrong = Vec::new();
    let mut found = 0;
    for target in TARGETS {
        let code = code("seeded", target);
        for kernel in code.kernels() {
            let name = kernel.name.as_str();
            let launch = launch(&code, name);
            let memcheck = match name.contains("uninitialised") {
                true => "memcheck:uninitialised",
                false => "memcheck",
            };
            let watching = Watching::new(&["race", "data_hazard", memcheck]);
            let run = Run::new(&launch).go(&launch, &watching.plugins, 2);
            if let Err(why) = run {
                wrong.push(format!("{target} {name}: {why}"));
                continue;
            }
            for (index, prefix) in ["race_", "hazard_", "memory_"].iter().enumerate() {
                let records = watching.records(index);
                let (_, faults) = records.split_last().expect("a summary");
                if faults.is_empty() == name.starts_with(prefix) {
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
    assert!(found >= 60, "only {found} kernels with faults");
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
