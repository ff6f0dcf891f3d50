//! `rocjitsu coverage`: which instructions of a target have semantics, by encoding. Every form of the
//! instruction table is tried: instances of it are made, decoded and lowered.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;

use anyhow::Result;
use rocjitsu_exec::families::lower;
use rocjitsu_exec::lower::{Lowering, State};
use rocjitsu_exec::record::Exactness;
use rocjitsu_exec::refusal::{is_graphics, reason};
use rocjitsu_exec::target::EXECUTABLE;
use rocjitsu_isa::{FeatureSet, Inst, Row, Target, decode};
use rocjitsu_lanes::Backend;
use serde_json::json;

use super::Status;
use crate::launch::generate::split_mix;
use crate::output::{HEAD, Output, styled};

/// Arguments of `coverage`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A form is a row of the instruction table: an instruction in one encoding. Instances of it with
various operands and modifiers are tried; the form counts as executing when one of them does, so
some of its operands or modifiers may still be refused.")]
pub struct Args {
    /// One target, by encoding; without it, a line for each target
    #[arg(long, value_name = "TARGET")]
    target: Option<Target>,
    /// List the instructions without semantics, and those that no instance could be made of
    #[arg(long)]
    missing: bool,
    /// List the instructions whose results are within a bound, with the bound, and those that follow a rule which no
    /// results of hardware confirm, with the rule
    #[arg(long)]
    bounded: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Counts of forms: rows of the instruction table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    /// They execute as the manual defines them.
    exact: u32,
    /// They execute within a stated bound.
    bounded: u32,
    /// They execute by a rule that nothing confirms.
    by_default: u32,
    /// They decode and do not execute.
    missing: u32,
    /// They decode, belong to graphics, and do not execute.
    graphics: u32,
    /// No instance could be made to try them with.
    untried: u32,
}

/// What became of one form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Support {
    Exact,
    Bounded(&'static str),
    Default(&'static str),
    Missing,
    Untried,
}

/// Why nothing of a target executes that is there to be disassembled only.
const DISASSEMBLED_ONLY: &str = "this target is decoded and disassembled only";

/// Forms of an operation that do not execute.
#[derive(Clone, Copy, Debug, Default)]
struct Gap {
    missing: u32,
    /// Of so many forms.
    forms: u32,
    /// Why, where they were left out on purpose.
    reason: Option<&'static str>,
}

/// What became of the forms of one target.
#[derive(Debug)]
struct Coverage {
    target: Target,
    encodings: BTreeMap<String, Tally>,
    /// Operations with a form that does not execute.
    missing: BTreeMap<&'static str, Gap>,
    /// Graphics operations that do not execute.
    graphics: BTreeSet<&'static str>,
    /// Operations whose results are within a bound, and the bound.
    bounded: BTreeMap<&'static str, &'static str>,
    /// Operations that follow a rule which nothing confirms, and the rule.
    by_default: BTreeMap<&'static str, &'static str>,
    /// Operations with a form that no instance could be made of.
    untried: BTreeSet<&'static str>,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.exact += other.exact;
        self.bounded += other.bounded;
        self.by_default += other.by_default;
        self.missing += other.missing;
        self.graphics += other.graphics;
        self.untried += other.untried;
    }

    fn forms(&self) -> u32 {
        self.executing() + self.missing + self.graphics + self.untried
    }

    fn executing(&self) -> u32 {
        self.exact + self.bounded + self.by_default
    }

    /// Part of the forms outside graphics that execute, in percent.
    fn percent(&self) -> f64 {
        let all = (self.forms() - self.graphics).max(1);
        100.0 * f64::from(self.executing()) / f64::from(all)
    }

    fn line(&self, name: &str) -> String {
        format!(
            "{name:<14} {:>6} {:>6} {:>8} {:>8} {:>8} {:>9} {:>9} {:>8.1}%",
            self.forms(),
            self.exact,
            self.bounded,
            self.by_default,
            self.missing,
            self.graphics,
            self.untried,
            self.percent()
        )
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "forms": self.forms(),
            "exact": self.exact,
            "bounded": self.bounded,
            "by_default": self.by_default,
            "missing": self.missing,
            "graphics": self.graphics,
            "not_tried": self.untried,
            "percent_of_non_graphics": self.percent(),
        })
    }
}

/// Prints the coverage.
///
/// # Errors
///
/// Those of writing.
pub fn run(args: &Args, out: &mut Output) -> Result<Status> {
    let targets = args
        .target
        .map_or_else(|| EXECUTABLE.to_vec(), |target| vec![target]);
    let all: Vec<Coverage> = targets.into_iter().map(Coverage::of).collect();
    if args.json {
        out.json(
            &all.iter()
                .map(|coverage| coverage.json(args))
                .collect::<Vec<_>>(),
        )?;
        return Ok(Status::Good);
    }
    let head = format!(
        "{:<14} {:>6} {:>6} {:>8} {:>8} {:>8} {:>9} {:>9} {:>9}",
        if args.target.is_some() {
            "encoding"
        } else {
            "target"
        },
        "forms",
        "exact",
        "bounded",
        "default",
        "missing",
        "graphics",
        "not tried",
        "executes"
    );
    writeln!(out, "{}", styled(HEAD, head))?;
    for coverage in &all {
        if args.target.is_some() {
            for (encoding, tally) in &coverage.encodings {
                writeln!(out, "{}", tally.line(encoding))?;
            }
        }
        writeln!(out, "{}", coverage.total().line(coverage.target.name()))?;
        if args.missing {
            for (name, gap) in &coverage.missing {
                let (missing, forms) = (gap.missing, gap.forms);
                let reason = gap.reason.map(|r| format!(": {r}")).unwrap_or_default();
                writeln!(out, "  {name} ({missing} of {forms} forms){reason}")?;
            }
            for name in &coverage.untried {
                writeln!(out, "  {name} (not tried)")?;
            }
            for name in &coverage.graphics {
                writeln!(out, "  {name} (graphics)")?;
            }
        }
        if args.bounded {
            for (name, bound) in &coverage.bounded {
                writeln!(out, "  {name}: {bound}")?;
            }
            for (name, rule) in &coverage.by_default {
                writeln!(out, "  {name} (by default): {rule}")?;
            }
        }
    }
    Ok(Status::Good)
}

/// Instances of a form: its fixed bits, and zeros, small numbers or random bits elsewhere.
fn instances(row: &Row, set: FeatureSet) -> impl Iterator<Item = Inst> {
    let row_copy = (
        row.target,
        row.value | row.fill,
        row.mask,
        usize::from(row.bits) / 8,
        row.record,
    );
    let attempt = move |fields: u128| {
        let (target, fixed, mask, size, record) = row_copy;
        let mut bytes = [0; 20];
        bytes[..16].copy_from_slice(&(fixed | fields & !mask).to_le_bytes());
        // Bytes behind the encoding are a literal, if the fields ask for one.
        bytes.get_mut(size..).unwrap_or_default().fill(0);
        decode(target, set, &bytes)
            .ok()
            .filter(|inst| inst.row().record == record)
    };
    let random = |turn: u64| {
        u128::from(split_mix(1, 2 * turn)) | u128::from(split_mix(1, 2 * turn + 1)) << 64
    };
    // DPP and SDWA are asked for by certain codes of the first source, at bit 0 or bit 32; hardware registers
    // and messages by the immediate, of a register all 32 bits.
    let codes = (0..512u128).flat_map(|code| [code, code << 32, code | 31 << 11]);
    codes.chain((0..2048).map(random)).filter_map(attempt)
}

/// Tries a form: it executes if one of its first instances does.
fn support(row: &Row, set: FeatureSet, wave: u32) -> Support {
    // Enough for the codes of messages, which are beyond 0x80 in the order of attempts.
    const TRIES: usize = 400;
    let state = State(0xf0 | u32::from(wave == 64) << 11);
    let mut found = Support::Untried;
    for inst in instances(row, set).take(TRIES) {
        let mut lowering = Lowering::new(row.target, Backend::Scalar, state);
        match lower(&inst, 0, &mut lowering).map(|record| record.exactness) {
            Some(Exactness::Exact) => return Support::Exact,
            Some(Exactness::Bounded(bound)) => return Support::Bounded(bound),
            Some(Exactness::Default(rule)) => return Support::Default(rule),
            None => found = Support::Missing,
        }
    }
    found
}

impl Coverage {
    fn of(target: Target) -> Self {
        let mut coverage = Coverage {
            target,
            encodings: BTreeMap::new(),
            missing: BTreeMap::new(),
            graphics: BTreeSet::new(),
            bounded: BTreeMap::new(),
            by_default: BTreeMap::new(),
            untried: BTreeSet::new(),
        };
        let executes = EXECUTABLE.contains(&target);
        // Rows may have all bits in common and differ in what LLVM's selection needs to know of operands; the decoder
        // finds one of them, which stands for the others.
        let mut by_bits = HashMap::new();
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
            let name = row.op.name();
            let tally = coverage
                .encodings
                .entry(row.format.to_string())
                .or_default();
            let counts = coverage.missing.entry(name).or_default();
            counts.forms += 1;
            counts.reason = if executes {
                reason(row.op)
            } else {
                Some(DISASSEMBLED_ONLY)
            };
            let mut found = support(row, target.execution_set(wave), wave);
            let bits = (row.op, row.format, row.mask, row.value);
            match found {
                Support::Untried => found = *by_bits.get(&bits).unwrap_or(&found),
                _ => {
                    by_bits.insert(bits, found);
                }
            }
            let tried = matches!(
                found,
                Support::Exact | Support::Bounded(_) | Support::Default(_)
            );
            if !executes && tried {
                found = Support::Missing;
            }
            match found {
                Support::Exact => tally.exact += 1,
                Support::Bounded(bound) => {
                    tally.bounded += 1;
                    coverage.bounded.insert(name, bound);
                }
                Support::Default(rule) => {
                    tally.by_default += 1;
                    coverage.by_default.insert(name, rule);
                }
                Support::Untried => {
                    tally.untried += 1;
                    coverage.untried.insert(name);
                }
                Support::Missing if is_graphics(name) => {
                    tally.graphics += 1;
                    coverage.graphics.insert(name);
                }
                Support::Missing => {
                    tally.missing += 1;
                    counts.missing += 1;
                }
            }
        }
        coverage.missing.retain(|_, gap| gap.missing > 0);
        coverage
    }

    fn total(&self) -> Tally {
        let mut total = Tally::default();
        self.encodings.values().for_each(|tally| total.add(tally));
        total
    }

    fn json(&self, args: &Args) -> serde_json::Value {
        let by_encoding: BTreeMap<_, _> = self
            .encodings
            .iter()
            .map(|(name, tally)| (name.clone(), tally.json()))
            .collect();
        let mut value = self.total().json();
        if let Some(object) = value.as_object_mut() {
            object.insert("target".to_owned(), json!(self.target.name()));
            object.insert("encodings".to_owned(), json!(by_encoding));
            if args.bounded {
                object.insert("within_a_bound".to_owned(), json!(self.bounded));
                object.insert("by_a_default".to_owned(), json!(self.by_default));
            }
            if args.missing {
                object.insert("instructions_not_tried".to_owned(), json!(self.untried));
                object.insert(
                    "without_semantics".to_owned(),
                    json!(self.missing.keys().collect::<Vec<_>>()),
                );
                object.insert(
                    "graphics_without_semantics".to_owned(),
                    json!(self.graphics),
                );
            }
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
            let total = Coverage::of(target).total();
            assert!(total.untried * 200 < total.forms(), "{target}: {total:?}");
        }
    }

    #[test]
    fn a_target_that_is_only_disassembled_executes_nothing() {
        let coverage = Coverage::of(Target::Gfx908);
        let total = coverage.total();
        assert_eq!(total.executing(), 0);
        assert!(total.missing > 1000, "{total:?}");
        let gap = coverage.missing.get("v_add_f32").and_then(|gap| gap.reason);
        assert_eq!(gap, Some(DISASSEMBLED_ONLY));
    }

    #[test]
    fn what_does_not_execute_has_a_reason() {
        for target in EXECUTABLE {
            for (name, gap) in Coverage::of(target).missing {
                assert!(gap.reason.is_some(), "{target}: {name} {gap:?}");
            }
        }
    }

    #[test]
    fn at_least_95_percent_of_the_forms_outside_graphics_execute() {
        for target in EXECUTABLE {
            let coverage = Coverage::of(target);
            let percent = coverage.total().percent();
            assert!(
                percent >= 95.0,
                "{target}: {percent:.1} %, {:?} do not",
                coverage.missing
            );
        }
    }
}
