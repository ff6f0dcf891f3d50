//! Every vector arithmetic row of every executable target has semantics, but for those listed here by name.
//! What has semantics is also run once for every instance in `data/isa`, so that no encoding can stop the program.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{Bench, Memory, hex_bytes, read_xz};
use rocjitsu_exec::error::Cause;
use rocjitsu_exec::record::{Class, Flow};
use rocjitsu_exec::target::EXECUTABLE;
use rocjitsu_isa::{FeatureSet, Target, decode};
use rocjitsu_lanes::Backend;

/// Rows without semantics: mnemonic or its beginning (with `*`), why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("v_interp_*", "interpolation of pixel attributes: graphics"),
    (
        "v_screen_partition_4se_b32",
        "screen tiles of a rasterizer: graphics",
    ),
];

/// Rows that the matrix module executes.
const MATRIX: &[&str] = &["v_mfma", "v_smfmac", "v_wmma", "v_swmmac"];

fn left_out(mnemonic: &str) -> bool {
    LEFT_OUT
        .iter()
        .any(|(name, _)| match name.strip_suffix('*') {
            Some(prefix) => mnemonic.starts_with(prefix),
            None => mnemonic == *name,
        })
}

/// Mnemonics of a target that do not lower, with the number of instances; runs all others.
fn missing(target: Target) -> BTreeMap<String, usize> {
    let memory = Memory::new(0x1_0000, 4096);
    let mut found = BTreeMap::<String, usize>::new();
    let mut files = vec![(FeatureSet::Default, format!("isa/vectors.{target}.tsv.xz"))];
    if target.generation() == 12 {
        files.push((
            FeatureSet::True16,
            format!("isa/vectors.{target}.true16.tsv.xz"),
        ));
    }
    let mut bench = Bench::new(target, target.default_wave(), Backend::best(), &memory);
    let lanes = bench.wave.lanes;
    for register in 0..if target == Target::Gfx1250 { 1024 } else { 512 } {
        let row = bench.wave.v.write(register, &mut bench.unit.pool);
        for (lane, word) in row.iter_mut().enumerate() {
            *word = (register * lanes + lane as u32).wrapping_mul(0x9e37_79b9);
        }
    }
    for (set, file) in files {
        for line in read_xz(&file).lines() {
            let bytes = hex_bytes(line.split('\t').next().unwrap());
            // A few instances are meant for other feature sets.
            let Ok(inst) = decode(target, set, &bytes) else {
                continue;
            };
            let format = format!("{:?}", inst.format());
            let name = inst.op().name();
            if !format.starts_with("VOP") && !format.starts_with("VINT")
                || MATRIX.iter().any(|m| name.starts_with(m))
            {
                continue;
            }
            bench.wave.set_exec(0x5a5a_5a5a_ff00_00ff);
            bench.wave.s[rocjitsu_exec::wave::scalar::M0] = 0xffff_ffff;
            let record = rocjitsu_exec::lower::lower(
                inst,
                0x1000,
                &mut rocjitsu_exec::lower::Lowering::new(
                    target,
                    Backend::best(),
                    rocjitsu_exec::lower::State::of(&bench.wave),
                ),
            );
            let flow = (record.run)(&mut bench.cx(), &record);
            match bench.unit.fault.take().map(|f| f.cause) {
                None => {
                    assert_eq!(flow, Flow::Next, "{target} {line}");
                    assert_eq!(record.class, Class::Valu, "{target} {line}");
                }
                Some(Cause::Unsupported { .. }) => {
                    let name = match inst.op_y() {
                        Some(y) => format!("{name} :: {}", y.name()),
                        None => name.to_owned(),
                    };
                    *found.entry(name).or_default() += 1;
                }
                Some(Cause::Illegal { .. }) if name == "v_illegal" => {}
                Some(other) => panic!("{target} {line}: {other}"),
            }
        }
    }
    found
}

#[test]
fn every_row_has_semantics_but_for_the_listed() {
    let mut used = BTreeSet::new();
    let mut unexpected = Vec::new();
    for target in EXECUTABLE {
        for (name, count) in missing(target) {
            match LEFT_OUT.iter().find(|_| left_out(&name)) {
                Some(_) => {
                    used.insert(name);
                }
                None => unexpected.push(format!("{target} {name} ({count} instances)")),
            }
        }
    }
    assert!(
        unexpected.is_empty(),
        "rows without semantics:\n{}",
        unexpected.join("\n")
    );
    // An entry that nothing needs any more has to go.
    for (name, _) in LEFT_OUT {
        let needed = used.iter().any(|u| match name.strip_suffix('*') {
            Some(prefix) => u.starts_with(prefix),
            None => u == name,
        });
        assert!(
            needed,
            "{name} is listed as left out, but no row of that name lacks semantics"
        );
    }
}
