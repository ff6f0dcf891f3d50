//! Every description of the corpus becomes a launch: inputs have the stated hashes, golden outputs
//! are read and equal to themselves, kernarg segments agree with the code objects' own metadata.

use std::path::{Path, PathBuf};

use rocjitsu_cli::launch::Launch;
use rocjitsu_cli::launch::description::Description;
use rocjitsu_cli::launch::from_description::Selection;
use rocjitsu_cli::launch::kernarg::{FieldValue, Hidden};
use rocjitsu_cli::launch::outcome::Verdict;
use rocjitsu_gpu::memory::Memory;
use rocjitsu_isa::Target;

fn descriptions() -> Vec<PathBuf> {
    let mut all = Vec::new();
    for folder in ["corpus", "perf"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../data")
            .join(folder)
            .join("built");
        let files = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        all.extend(files.filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        }));
    }
    all.sort();
    all
}

#[test]
fn every_description_becomes_a_launch() {
    let descriptions = descriptions();
    assert_eq!(descriptions.len(), 156);
    let mut launches = 0;
    for path in descriptions {
        let description = Description::read(&path).unwrap_or_else(|error| panic!("{error:#}"));
        for (number, name) in description.targets.keys().enumerate() {
            let target: Target = name.parse().unwrap();
            // Buffers are the same for every target, and making them takes time: check them once.
            if number > 0 {
                launches += 1;
                continue;
            }
            let launch = Launch::from_description(
                &path,
                Selection {
                    target,
                    run_as: None,
                },
            );
            let launch = launch.unwrap_or_else(|error| panic!("{error:#}"));
            check_buffers(&launch);
            launches += 1;
        }
    }
    assert_eq!(launches, 712);
}

/// Judges the expected contents, then the same with one element changed.
fn check_buffers(launch: &Launch) {
    let golden = |buffer: &rocjitsu_cli::launch::Buffer| {
        let golden = buffer
            .golden
            .as_ref()
            .and_then(|golden| golden.content.clone());
        golden.unwrap_or_else(|| buffer.content.clone())
    };
    let contents: Vec<Vec<u8>> = launch.buffers.iter().map(golden).collect();
    for (outcome, buffer) in launch.judge(&contents).iter().zip(&launch.buffers) {
        let only_hash = buffer
            .golden
            .as_ref()
            .is_some_and(|golden| golden.content.is_none());
        assert_eq!(
            outcome.verdict.good(),
            !only_hash,
            "{}: {}: {}",
            launch.name,
            buffer.name,
            outcome.describe()
        );
    }
    let changed: Vec<Vec<u8>> = contents
        .iter()
        .map(|content| {
            let mut content = content.clone();
            if let Some(byte) = content.last_mut() {
                *byte ^= 0x55;
            }
            content
        })
        .collect();
    for (outcome, buffer) in launch.judge(&changed).iter().zip(&launch.buffers) {
        let unchecked = matches!(outcome.verdict, Verdict::Unchecked);
        assert!(
            unchecked || !outcome.verdict.good(),
            "{}: {}",
            launch.name,
            buffer.name
        );
        if let Verdict::Differs { comparison } | Verdict::InputChanged { comparison } =
            &outcome.verdict
        {
            let last: Vec<usize> = buffer.shape.iter().map(|extent| extent - 1).collect();
            assert_eq!(
                comparison.first.as_ref().unwrap().index,
                last,
                "{}",
                launch.name
            );
        }
    }
}

#[test]
fn kernarg_layouts_agree_with_the_metadata() {
    for path in descriptions()
        .iter()
        .filter(|path| path.to_string_lossy().contains("corpus"))
    {
        let description = Description::read(path).unwrap();
        if description.args.iter().any(|argument| matches!(argument, rocjitsu_cli::launch::description::ArgumentDescription::Buffer(b) if b.bytes > 1 << 20)) {
            continue;
        }
        for name in description.targets.keys() {
            let selection = Selection {
                target: name.parse().unwrap(),
                run_as: None,
            };
            let launch = Launch::from_description(path, selection).unwrap();
            let metadata = launch.kernel.metadata.as_ref().unwrap();
            assert!(
                launch.kernarg.bytes >= metadata.kernarg_segment_size as usize,
                "{name} {}",
                launch.name
            );
            for field in &launch.kernarg.fields {
                let argument = metadata
                    .args
                    .iter()
                    .find(|a| a.offset as usize == field.offset);
                let argument = argument.unwrap_or_else(|| {
                    panic!("{name} {}: nothing at {}", launch.name, field.offset)
                });
                assert_eq!(argument.size as usize, field.size, "{name} {}", launch.name);
                match field.value {
                    FieldValue::Buffer(_) => assert_eq!(argument.value_kind, "global_buffer"),
                    FieldValue::Hidden(hidden) => {
                        assert_eq!(Some(hidden), Hidden::from_kind(&argument.value_kind));
                    }
                    FieldValue::Bytes(_) => assert!(!argument.value_kind.starts_with("hidden_")),
                }
            }
        }
    }
}

#[test]
fn a_launch_lies_in_memory_as_the_abi_says() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/corpus/built/hip_launch_facts.json");
    let launch = Launch::from_description(
        &path,
        Selection {
            target: Target::Gfx90a,
            run_as: None,
        },
    )
    .unwrap();
    let memory = Memory::new(1 << 30);
    let placed = launch.place(&memory).unwrap();
    let mut packet = [0; 64];
    memory.read(placed.packet_address, &mut packet).unwrap();
    let half = |at: usize| u16::from_le_bytes([packet[at], packet[at + 1]]);
    let word = |at: usize| u32::from_le_bytes(packet[at..at + 4].try_into().unwrap());
    let long = |at: usize| u64::from_le_bytes(packet[at..at + 8].try_into().unwrap());
    assert_eq!((half(0) & 0xff, half(2)), (2, 3));
    assert_eq!([half(4), half(6), half(8)], [8, 4, 2]);
    assert_eq!([word(12), word(16), word(20)], [24, 8, 4]);
    assert_eq!(
        (long(32), long(40)),
        (placed.descriptor_address, placed.kernarg_address)
    );
    let mut kernarg = [0; 264];
    memory.read(placed.kernarg_address, &mut kernarg).unwrap();
    assert_eq!(kernarg[..8], placed.buffers[0].to_le_bytes());
    assert_eq!(
        kernarg[8..26],
        [3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 8, 0, 4, 0, 2, 0]
    );
    assert_eq!(kernarg[72..74], [3, 0]);
    assert!(placed.buffers.iter().all(|address| address % 256 == 0));
    assert_eq!(
        launch.read_buffers(&memory, &placed).unwrap()[0],
        launch.buffers[0].content
    );
}

/// Descriptions of hostile origin: bytes and numbers changed at random.
mod damage {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = include_str!("../../../data/corpus/built/asm_axpy.json");

    fn launch(text: &str) -> anyhow::Result<()> {
        let description = Description::parse(text)?;
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/corpus");
        let read = |file: &Path| Ok(std::fs::read(folder.join(file))?);
        for name in description.targets.keys() {
            let Ok(target) = name.parse() else { continue };
            let launch = Launch::from_parts(
                &description,
                Selection {
                    target,
                    run_as: None,
                },
                &read,
            )?;
            let memory = Memory::new(1 << 30);
            let placed = launch.place(&memory)?;
            launch.judge(&launch.read_buffers(&memory, &placed)?);
        }
        Ok(())
    }

    #[test]
    fn the_whole_is_good() {
        launch(TEXT).unwrap();
    }

    /// The error of the description with a member of one target changed, or of the whole with a piece replaced.
    fn error(change: impl FnOnce(&mut serde_json::Value)) -> String {
        let mut value: serde_json::Value = serde_json::from_str(TEXT).unwrap();
        change(&mut value);
        let error = launch(&value.to_string()).expect_err("the change is an error");
        format!("{error:#}")
    }

    #[test]
    fn stated_facts_are_held_against_the_file() {
        use serde_json::json;
        for (key, value) in [
            ("bytes", json!(1)),
            ("descriptor", json!("x")),
            ("lds_static", json!(2_147_483_648u32)),
            ("private_bytes", json!(64)),
            ("dynamic_stack", json!(true)),
            ("vgprs", json!(1000)),
            ("sgprs", json!(1000)),
            ("kernarg_preload_dwords", json!(3)),
            ("elf_flags", json!(0)),
            ("code_object_abi", json!(9)),
            ("wave", json!(16)),
        ] {
            let text = error(|whole| whole["targets"]["gfx942"][key] = value);
            assert!(text.contains("stated, but"), "{key}: {text}");
        }
        let text = error(|whole| {
            whole["targets"]["gfx942"]["kernarg"]["fields"][0]["kind"] = json!("hiden_block");
        });
        assert!(text.contains("the kind `hiden_block` is unknown"), "{text}");
        let text = error(|whole| {
            let field = &mut whole["targets"]["gfx942"]["kernarg"]["fields"][0];
            field["arg"] = json!(null);
            field["size"] = json!(1u64 << 63);
        });
        assert!(text.contains("more than a segment"), "{text}");
    }

    #[test]
    fn values_of_other_types_are_refused_with_their_place() {
        use serde_json::json;
        let text = error(|whole| whole["args"][0]["kind"] = json!(0));
        assert!(text.contains("args[0].kind: 0 is no name"), "{text}");
        let text = error(|whole| whole["targets"]["gfx942"]["kernarg"] = json!([8, 8, []]));
        assert!(
            text.contains("targets.gfx942.kernarg: a list is not expected here"),
            "{text}"
        );
        for (text, wanted) in [
            ("", "EOF while parsing"),
            ("[1]", "a list, where the description is an object"),
            ("{\"format\": 1, \"format\": 1}", "duplicate field `format`"),
        ] {
            let error = format!("{:#}", Description::parse(text).unwrap_err());
            assert!(error.contains(wanted), "{text}: {error}");
            assert!(!error.contains("?:") && !error.starts_with(".:"), "{error}");
        }
    }

    #[test]
    fn an_output_without_golden_data_is_not_good() {
        let mut value: serde_json::Value = serde_json::from_str(TEXT).unwrap();
        for argument in value["args"].as_array_mut().unwrap() {
            if let Some(argument) = argument.as_object_mut() {
                argument.remove("golden");
            }
        }
        let description = Description::parse(&value.to_string()).unwrap();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/corpus");
        let read = |file: &Path| Ok(std::fs::read(folder.join(file))?);
        let launch =
            Launch::from_parts(&description, Selection::of(Target::Gfx942), &read).unwrap();
        let contents: Vec<Vec<u8>> = launch.buffers.iter().map(|b| b.content.clone()).collect();
        let outcomes = launch.judge(&contents);
        assert!(
            outcomes
                .iter()
                .any(|outcome| outcome.verdict == Verdict::NoGolden)
        );
        assert!(!outcomes.iter().all(|outcome| outcome.verdict.good()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1500))]

        #[test]
        fn no_change_of_bytes_panics(changes in prop::collection::vec((any::<prop::sample::Index>(), 0x20u8..0x7f), 1..4)) {
            let mut text = TEXT.as_bytes().to_vec();
            for (at, byte) in changes {
                let at = at.index(text.len());
                text[at] = byte;
            }
            let _ = launch(&String::from_utf8(text).unwrap());
        }

        #[test]
        fn no_change_of_a_number_panics(which in any::<prop::sample::Index>(), number in prop_oneof![
            any::<u64>(), any::<u32>().prop_map(u64::from), 0u64..300, Just(u64::MAX), Just(1 << 63),
        ]) {
            // Runs of digits that stand by themselves, not those in names and hashes.
            let bytes = TEXT.as_bytes();
            let starts: Vec<usize> = (1..bytes.len())
                .filter(|&at| bytes[at].is_ascii_digit() && b" [".contains(&bytes[at - 1]))
                .collect();
            let start = starts[which.index(starts.len())];
            let end = start + bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let _ = launch(&format!("{}{number}{}", &TEXT[..start], &TEXT[end..]));
        }
    }
}
