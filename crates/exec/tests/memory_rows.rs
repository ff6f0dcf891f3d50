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
    let mut lowered = BTreeSet::new();
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
        if found.is_some() {
            lowered.insert(inst.op().name().to_owned());
        } else {
            let gds = if inst.field(rocjitsu_isa::Name::gds).unwrap_or(0) != 0 {
                " gds"
            } else {
                ""
            };
            out.insert(format!("{}{gds}", inst.op().name()));
        }
    }
    // The vectors also have typed instructions with format numbers that mean nothing.
    out.retain(|name| !(name.starts_with("tbuffer_") && lowered.contains(name)));
    out
}

/// Why instructions have no semantics, by the end of what [`missing`] calls them or their beginning.
const REASONS: &[(&str, &str)] = &[
    (
        " gds",
        "global data share: memory between workgroups that the driver never gives to compute",
    ),
    ("ds_add_gs_reg_rtn", "registers of geometry shaders"),
    ("ds_sub_gs_reg_rtn", "registers of geometry shaders"),
    (
        "ds_ordered_count",
        "counts in the order of waves' creation, through the global data share",
    ),
    (
        "ds_bvh_stack",
        "stack of ray tracing, whose intersection instructions are not there either",
    ),
    ("lds_param_load", "attributes of pixel shaders"),
    ("ds_param_load", "attributes of pixel shaders"),
    (
        "global_atomic_ordered_add_b64",
        "streams out of geometry shaders",
    ),
    (
        "tensor_save",
        "saves the tensor mover's state for a context switch",
    ),
    ("tensor_stop", "stops the tensor mover for a context switch"),
];

#[test]
fn rows_without_semantics_are_the_expected_ones() {
    let mut used = BTreeSet::new();
    let mut unexpected = Vec::new();
    for target in EXECUTABLE {
        for name in missing(target) {
            match REASONS
                .iter()
                .find(|(part, _)| name.ends_with(part) || name.starts_with(part))
            {
                Some((part, _)) => {
                    used.insert(*part);
                }
                None => unexpected.push(format!("{target} {name}")),
            }
        }
    }
    assert!(unexpected.is_empty(), "{unexpected:#?}");
    let stale: Vec<_> = REASONS
        .iter()
        .filter(|(part, _)| !used.contains(part))
        .collect();
    assert!(
        stale.is_empty(),
        "no such instruction is missing: {stale:?}"
    );
}
