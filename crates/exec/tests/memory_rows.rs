//! Which memory instructions have semantics: every row of the tables, decoded from its test vectors.

mod common;

use std::collections::BTreeSet;

use common::{hex_bytes, read_xz};
use rocjitsu_exec::lower::{Lowering, State};
use rocjitsu_exec::target::EXECUTABLE;
use rocjitsu_isa::{Format, decode};
use rocjitsu_lanes::Backend;

/// Operations of memory formats without semantics, for each target.
fn missing(target: rocjitsu_isa::Target) -> BTreeSet<String> {
    let text = read_xz(&format!("isa/vectors.{target}.tsv.xz"));
    let wave = target.default_wave();
    let mut out = BTreeSet::new();
    for line in text.lines() {
        let bytes = hex_bytes(line.split('\t').next().unwrap());
        let Ok(inst) = decode(target, target.execution_set(wave), &bytes) else {
            continue;
        };
        let memory = matches!(
            inst.format(),
            Format::DS
                | Format::FLAT
                | Format::VFLAT
                | Format::GLOBAL
                | Format::VGLOBAL
                | Format::SCRATCH
                | Format::VSCRATCH
                | Format::MUBUF
                | Format::MTBUF
                | Format::VBUFFER
                | Format::LDSDIR
        ) || inst.op().name().starts_with("tensor_");
        if !memory {
            continue;
        }
        let state = State(if wave == 64 { 1 << 11 } else { 0 });
        let mut lowering = Lowering::new(target, Backend::Scalar, state);
        let found = rocjitsu_exec::vmem::lower(&inst, 0, &mut lowering)
            .or_else(|| rocjitsu_exec::lds::lower(&inst, 0, &mut lowering));
        if found.is_none() {
            let record = inst.row().record;
            let tfe = if record.contains("_TFE") { " tfe" } else { "" };
            let gds = if inst.field(rocjitsu_isa::Name::gds).unwrap_or(0) != 0 {
                " gds"
            } else {
                ""
            };
            out.insert(format!("{}{tfe}{gds}", inst.op().name()));
        }
    }
    out
}

#[test]
fn rows_without_semantics_are_the_expected_ones() {
    for target in EXECUTABLE {
        let got = missing(target);
        println!("{target}: {got:?}");
    }
}
