//! How far results can be trusted: executions by instruction form, with how exact each form is.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rocjitsu_gpu::dispatch::{Exactness, Form};
use serde::Serialize;

/// Executions of an instruction form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct FormCount {
    /// The mnemonic; both of a dual instruction.
    pub instruction: String,
    /// The encoding.
    pub encoding: String,
    /// `exact`, `bounded` or `default`.
    pub exactness: Cow<'static, str>,
    /// The bound, or the rule that nothing confirms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'static, str>>,
    /// Wave instructions.
    pub count: u64,
}

impl FormCount {
    /// Counts in the order of reports: the least trusted forms first, of these the most frequent.
    pub fn list(counts: impl Iterator<Item = (Form, u64)>) -> Vec<FormCount> {
        let row = |(form, count): (Form, u64)| FormCount {
            instruction: form.name(),
            encoding: format!("{:?}", form.format),
            exactness: form.exactness.kind().into(),
            reason: form.exactness.reason().map(Cow::from),
            count,
        };
        FormCount::sum(counts.map(row))
    }

    /// Adds up the counts of equal forms, in the order of reports.
    pub fn sum(counts: impl Iterator<Item = FormCount>) -> Vec<FormCount> {
        let mut sums: BTreeMap<FormCount, u64> = BTreeMap::new();
        for row in counts {
            let count = row.count;
            let sum = sums.entry(FormCount { count: 0, ..row }).or_default();
            *sum = sum.saturating_add(count);
        }
        let all = sums
            .into_iter()
            .map(|(row, count)| FormCount { count, ..row });
        let mut all: Vec<_> = all.collect();
        let rank = |row: &FormCount| match &*row.exactness {
            "default" => 0,
            "bounded" => 1,
            _ => 2,
        };
        all.sort_by_key(|row| (rank(row), std::cmp::Reverse(row.count)));
        all
    }

    /// Whether the form is not exact.
    pub fn is_inexact(&self) -> bool {
        self.exactness != Exactness::Exact.kind()
    }

    /// A line for people.
    pub fn line(&self) -> String {
        let kind = match &*self.exactness {
            "default" => "by default",
            other => other,
        };
        let reason = self
            .reason
            .as_ref()
            .map(|r| format!(": {r}"))
            .unwrap_or_default();
        let FormCount {
            instruction,
            encoding,
            count,
            ..
        } = self;
        format!("{count} x {instruction} ({encoding}), {kind}{reason}")
    }
}
