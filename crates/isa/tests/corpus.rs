//! Every instruction of the corpus and performance kernels decodes, and the mnemonics are as often there as the corpus says.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use object::{Object, ObjectSection};
use rocjitsu_isa::{Target, decode};

/// Mnemonics that also pad code, which the corpus does not count, and one that its disassembler knows by an older name.
const NOT_COMPARED: [&str; 4] = ["s_nop", "s_code_end", "v_dot4_i32_iu8", "v_dot4_i32_i8"];

/// Decodes every code object of a folder and compares the number of each mnemonic with the folder's lists.
fn check(folder: &str) {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../data")
        .join(folder);
    let mut counts: BTreeMap<Target, BTreeMap<String, usize>> = BTreeMap::new();
    for entry in fs::read_dir(root.join("built")).expect("code objects") {
        let path = entry.expect("entry").path();
        let name = path
            .file_name()
            .and_then(|n| n.to_str())
            .expect("name")
            .to_string();
        let Some(target) = name
            .strip_suffix(".hsaco")
            .and_then(|n| n.rsplit('.').next())
        else {
            continue;
        };
        let target: Target = target.parse().expect("target");
        let data = fs::read(&path).expect("code object");
        let elf = object::File::parse(&*data).expect("ELF");
        let code = elf
            .section_by_name(".text")
            .and_then(|s| s.data().ok())
            .expect(".text");
        let set = target.execution_set(target.default_wave());
        let mut at = 0;
        while at < code.len() {
            let inst = decode(target, set, &code[at..])
                .unwrap_or_else(|e| panic!("{name} at {at:#x}: {e}"));
            for half in inst.row().mnemonic.split(" :: ") {
                *counts
                    .entry(target)
                    .or_default()
                    .entry(half.into())
                    .or_default() += 1;
            }
            at += inst.len();
        }
    }
    assert_eq!(counts.len(), 6);
    for (target, mut got) in counts {
        let list =
            fs::read_to_string(root.join(format!("mnemonics.{target}.txt"))).expect("mnemonics");
        let mut want: BTreeMap<String, usize> = list
            .lines()
            .filter_map(|l| l.split_once(' '))
            .map(|(m, n)| (m.to_string(), n.trim().parse().expect("count")))
            .collect();
        for m in NOT_COMPARED {
            want.remove(m);
            got.remove(m);
        }
        assert_eq!(got, want, "{folder} {target}");
    }
}

#[test]
fn corpus_decodes_to_the_counted_mnemonics() {
    check("corpus");
}

#[test]
fn performance_kernels_decode_to_the_counted_mnemonics() {
    check("perf");
}
