//! Every matrix mnemonic of the instruction tables is known and takes the registers it should.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use super::super::{Family, Kind, MatrixOp};

pub(super) fn data(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data").join(name)
}

/// Matrix instructions of a target: mnemonic and widths of the operands in bits.
pub(super) fn table(target: &str) -> BTreeSet<(String, Vec<(String, String)>)> {
    let file = std::fs::File::open(data(&format!("isa/isa.{target}.json.gz"))).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let prefixes = ["v_mfma_", "v_smfmac_", "v_wmma_", "v_swmmac_"];
    json["insts"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|inst| {
            let name = inst["m"].as_str()?;
            prefixes.iter().any(|p| name.starts_with(p)).then(|| {
                let operands = inst["ops"].as_array().unwrap().iter();
                let operands = operands
                    .map(|o| (o[0].as_str().unwrap().into(), o[2].as_str().unwrap_or("").into()))
                    .collect();
                (format!("{name} {}", inst["n"].as_str().unwrap()), operands)
            })
        })
        .collect()
}

/// Registers in an operand type such as `AVSrc_128_Align2`.
fn registers(kind: &str) -> Option<usize> {
    kind.split('_').find_map(|part| part.parse::<usize>().ok()).map(|bits| bits / 32)
}

#[test]
fn knows_every_matrix_mnemonic_of_the_tables() {
    let mut seen = 0;
    for target in ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201", "gfx1250"] {
        let family = Family::from_target(target).unwrap();
        for (names, operands) in table(target) {
            let (name, llvm) = names.split_once(' ').unwrap();
            let op = MatrixOp::from_mnemonic(name, family);
            let mut op = op.unwrap_or_else(|| panic!("{target}: {name} unknown"));
            seen += 1;
            if op.kind == Kind::LoadScale {
                continue;
            }
            let formats: Vec<u8> = ["f8", "f6", "f4"]
                .iter()
                .zip([0u8, 2, 4])
                .flat_map(|(f, code)| llvm.to_lowercase().match_indices(&format!("_{f}")).map(|(at, _)| (at, code)).collect::<Vec<_>>())
                .collect::<std::collections::BTreeMap<_, _>>()
                .into_values()
                .collect();
            if op.f8f6f4 {
                // The name itself holds one "_f8" before the two formats.
                op = op.with_formats(formats[formats.len() - 2], formats[formats.len() - 1]).unwrap();
            }
            if llvm.contains("w64") {
                op.wave = 64;
            }
            let need = op.registers();
            for (operand, kind) in operands {
                let (Some(have), want) = (registers(&kind), match operand.as_str() {
                    // Sparse instructions read C from the registers of D.
                    "vdst" if op.kind == Kind::Sparse => need.d.max(need.c),
                    "vdst" => need.d,
                    "src0" => need.a,
                    "src1" => need.b,
                    "idx" => need.index,
                    "src2" if op.kind == Kind::Sparse && !family.is_mfma() => need.index,
                    "src2" => need.c,
                    "scale_src0" | "scale_src1" => need.scale,
                    _ => continue,
                }) else {
                    continue;
                };
                assert_eq!(want, have, "{target} {llvm}: registers of {operand} ({kind})");
            }
        }
    }
    assert!(seen > 450, "{seen}");
}

#[test]
fn rejects_other_names() {
    for name in ["v_mfma_", "v_wmma_f32_16x16", "v_add_f32", "v_mfma_f32_32x32x8_f17", "v_dot2_f32_f16"] {
        assert_eq!(MatrixOp::from_mnemonic(name, Family::Cdna3), None, "{name}");
    }
}
