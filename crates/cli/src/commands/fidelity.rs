//! The options that make a run fail when it executed instructions whose results are not sure to be the hardware's bits.

use std::fmt::Write;

use rocjitsu_isa::Op;
use rocjitsu_kfd::FormCount;
use serde::Deserialize;

use crate::output::warn;

/// `--require-exact` and `--accept`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct FidelityArgs {
    /// Fail, with status 1, if any instruction executed whose results are not exact, and list these (see
    /// docs/fidelity.md)
    #[arg(long)]
    pub require_exact: bool,
    /// Instructions that --require-exact lets pass: mnemonics as in reports, `bounded` for all with a bound, `default` for
    /// all that go by a default
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        requires = "require_exact",
        value_parser = acceptable
    )]
    pub accept: Vec<String>,
}

/// A mnemonic of any target, or a kind of exactness.
fn acceptable(name: &str) -> Result<String, String> {
    match name {
        "bounded" | "default" => Ok(name.to_owned()),
        name if Op::from_name(name).is_some() => Ok(name.to_owned()),
        _ => Err("it is no mnemonic, and neither `bounded` nor `default`".to_owned()),
    }
}

/// Executions of an instruction form, as reports have them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Row {
    /// The mnemonic.
    pub instruction: String,
    /// The encoding.
    pub encoding: String,
    /// `exact`, `bounded` or `default`.
    pub exactness: String,
    /// The bound or the rule.
    #[serde(default)]
    pub reason: Option<String>,
    /// Wave instructions.
    pub count: u64,
}

impl From<&FormCount> for Row {
    fn from(form: &FormCount) -> Row {
        Row {
            instruction: form.instruction.clone(),
            encoding: form.encoding.clone(),
            exactness: form.exactness.to_string(),
            reason: form.reason.as_ref().map(ToString::to_string),
            count: form.count,
        }
    }
}

impl FidelityArgs {
    /// What of a kernel's executions is not to be accepted, as text; nothing if all is.
    pub fn objection(&self, kernel: &str, rows: &[Row]) -> Option<String> {
        let accepts = |row: &&Row| {
            row.exactness == "exact"
                || self
                    .accept
                    .iter()
                    .any(|name| *name == row.instruction || *name == row.exactness)
        };
        let mut refused = rows.iter().filter(|row| !accepts(row)).peekable();
        refused.peek()?;
        let mut text = format!("not exact in kernel {kernel}:");
        for row in refused {
            let kind = match row.exactness.as_str() {
                "default" => "by default",
                other => other,
            };
            let reason = row.reason.as_deref().unwrap_or("no reason given");
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "\n  {} x {} ({}), {kind}: {reason}",
                row.count, row.instruction, row.encoding
            );
        }
        Some(text)
    }

    /// Says what is not to be accepted; whether all is.
    pub fn accepts(&self, kernel: &str, rows: &[Row]) -> bool {
        if !self.require_exact {
            return true;
        }
        let objection = self.objection(kernel, rows);
        if let Some(text) = &objection {
            warn(text);
        }
        objection.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(instruction: &str, exactness: &str) -> Row {
        Row {
            instruction: instruction.to_owned(),
            encoding: "VOP1".to_owned(),
            exactness: exactness.to_owned(),
            reason: Some("1 ulp".to_owned()),
            count: 3,
        }
    }

    #[test]
    fn what_is_not_exact_is_named_unless_it_is_accepted() {
        let rows = [
            row("v_add_f32", "exact"),
            row("v_exp_f32", "bounded"),
            row("s_memtime", "default"),
        ];
        let accepting = |names: &[&str]| FidelityArgs {
            require_exact: true,
            accept: names.iter().map(|&name| name.to_owned()).collect(),
        };
        let text = accepting(&[]).objection("k", &rows).unwrap();
        assert!(!text.contains("v_add_f32"), "{text}");
        assert!(
            text.contains("3 x v_exp_f32 (VOP1), bounded: 1 ulp"),
            "{text}"
        );
        assert!(text.contains("s_memtime (VOP1), by default"), "{text}");
        let text = accepting(&["bounded"]).objection("k", &rows).unwrap();
        assert!(
            !text.contains("v_exp_f32") && text.contains("s_memtime"),
            "{text}"
        );
        assert_eq!(
            accepting(&["v_exp_f32", "s_memtime"]).objection("k", &rows),
            None
        );
        assert_eq!(accepting(&[]).objection("k", &rows[..1]), None);
    }
}
