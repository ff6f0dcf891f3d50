//! `rocjitsu coverage`: which instructions of a target have semantics. Every form of the
//! instruction table is tried: an instance of it is made, decoded and lowered.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;
use rocjitsu_exec::families::lower;
use rocjitsu_exec::lower::{Lowering, State};
use rocjitsu_exec::record::Exactness;
use rocjitsu_isa::{FeatureSet, Inst, Row, Target, decode};
use rocjitsu_lanes::Backend;
use serde_json::json;

use super::Status;
use crate::launch::generate::split_mix;
use crate::output::{HEAD, Output, styled};

/// Arguments of `coverage`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// One target; without it, a line for each
    #[arg(long, value_name = "TARGET")]
    target: Option<Target>,
    /// List the instructions without semantics
    #[arg(long)]
    missing: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What became of the forms of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    exact: u32,
    bounded: u32,
    missing: u32,
    /// Forms of which no instance could be made.
    untried: u32,
}

/// What became of the operations of one target, by mnemonic.
#[derive(Debug)]
struct Coverage {
    target: Target,
    operations: BTreeMap<&'static str, Tally>,
}

/// How many operations are covered.
#[derive(Debug, Default, PartialEq, Eq)]
struct Summary {
    exact: usize,
    bounded: usize,
    partly: usize,
    missing: usize,
    untried: usize,
}

/// Prints the coverage.
///
/// # Errors
///
/// Those of writing.
pub fn run(args: &Args, out: &mut Output) -> Result<Status> {
    let executed = |target: &Target| !matches!(target, Target::Gfx908 | Target::Gfx1030);
    let targets = match args.target {
        Some(target) => vec![target],
        None => Target::ALL.into_iter().filter(executed).collect(),
    };
    let all: Vec<Coverage> = targets.into_iter().map(Coverage::of).collect();
    if args.json {
        out.json(
            &all.iter()
                .map(|coverage| coverage.json(args.missing))
                .collect::<Vec<_>>(),
        )?;
        return Ok(Status::Good);
    }
    let head = format!(
        "{:<8} {:>10} {:>6} {:>8} {:>7} {:>8}",
        "target", "operations", "exact", "bounded", "partly", "missing"
    );
    writeln!(out, "{}", styled(HEAD, head))?;
    for coverage in &all {
        let total = coverage.operations.len();
        let Summary {
            exact,
            bounded,
            partly,
            missing,
            untried,
        } = coverage.summary();
        write!(
            out,
            "{:<8} {total:>10} {exact:>6} {bounded:>8} {partly:>7} {missing:>8}",
            coverage.target.name()
        )?;
        writeln!(
            out,
            "{}",
            if untried > 0 {
                format!("  ({untried} not tried)")
            } else {
                String::new()
            }
        )?;
        if args.missing {
            for (name, tally) in coverage
                .operations
                .iter()
                .filter(|(_, tally)| tally.missing > 0)
            {
                let forms = tally.exact + tally.bounded + tally.missing;
                writeln!(out, "  {name} ({} of {forms} forms)", tally.missing)?;
            }
        }
    }
    Ok(Status::Good)
}

/// An instance of a form: its fixed bits, and zeros or random bits elsewhere.
fn instance(row: &Row, set: FeatureSet) -> Option<Inst> {
    let attempt = |fields: u128| {
        let mut bytes = [0; 20];
        bytes[..16].copy_from_slice(&(row.value | row.fill | fields & !row.mask).to_le_bytes());
        let size = usize::from(row.bits) / 8;
        // Bytes behind the encoding are a literal, if the fields ask for one.
        bytes.get_mut(size..).unwrap_or_default().fill(0);
        decode(row.target, set, &bytes)
            .ok()
            .filter(|inst| inst.row().record == row.record)
    };
    let random = |turn: u64| {
        u128::from(split_mix(1, 2 * turn)) | u128::from(split_mix(1, 2 * turn + 1)) << 64
    };
    // DPP and SDWA are asked for by certain codes of the first source, at bit 0 or bit 32.
    let source = |code: u128| attempt(code).or_else(|| attempt(code << 32));
    attempt(0)
        .or_else(|| (0..512).find_map(source))
        .or_else(|| (0..512).find_map(|turn| attempt(random(turn))))
}

impl Coverage {
    fn of(target: Target) -> Self {
        let mut operations: BTreeMap<&'static str, Tally> = BTreeMap::new();
        let waves: &[u32] = match target {
            Target::Gfx1250 => &[32],
            _ if target.is_cdna() => &[64],
            _ => &[32, 64],
        };
        for row in target.table().rows().iter().filter(|row| !row.alternate) {
            // The wave size decides about a form only where it is part of one size's set alone.
            let Some(&wave) = waves
                .iter()
                .find(|&&wave| row.in_set(target.execution_set(wave)))
            else {
                continue;
            };
            let tally = operations.entry(row.op.name()).or_default();
            let Some(inst) = instance(row, target.execution_set(wave)) else {
                tally.untried += 1;
                continue;
            };
            let state = State(0xf0 | u32::from(wave == 64) << 11);
            let mut lowering = Lowering::new(target, Backend::Scalar, state);
            match lower(&inst, 0, &mut lowering).map(|record| record.exactness) {
                None => tally.missing += 1,
                Some(Exactness::Exact) => tally.exact += 1,
                Some(Exactness::Bounded(_)) => tally.bounded += 1,
            }
        }
        Coverage { target, operations }
    }

    fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        for tally in self.operations.values() {
            let slot = match (tally.exact + tally.bounded, tally.missing) {
                (0, 0) => &mut summary.untried,
                (0, _) => &mut summary.missing,
                (_, 1..) => &mut summary.partly,
                _ if tally.bounded > 0 => &mut summary.bounded,
                _ => &mut summary.exact,
            };
            *slot += 1;
        }
        summary
    }

    fn json(&self, list: bool) -> serde_json::Value {
        let Summary {
            exact,
            bounded,
            partly,
            missing,
            untried,
        } = self.summary();
        let missing_names: Vec<&str> = self
            .operations
            .iter()
            .filter(|(_, tally)| tally.missing > 0)
            .map(|(name, _)| *name)
            .collect();
        let mut value = json!({
            "target": self.target.name(),
            "operations": self.operations.len(),
            "exact": exact,
            "bounded": bounded,
            "partly": partly,
            "missing": missing,
            "not_tried": untried,
        });
        if let (true, Some(object)) = (list, value.as_object_mut()) {
            object.insert("without_semantics".to_owned(), json!(missing_names));
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearly_every_form_can_be_tried() {
        for target in Target::ALL {
            let coverage = Coverage::of(target);
            let untried: Vec<&str> = coverage
                .operations
                .iter()
                .filter(|(_, tally)| tally.untried > 0)
                .map(|(name, _)| *name)
                .collect();
            assert!(
                untried.len() * 50 < coverage.operations.len(),
                "{target}: {untried:?}"
            );
            let end = coverage.operations["s_endpgm"];
            assert_eq!((end.missing, end.untried), (0, 0));
        }
    }
}
