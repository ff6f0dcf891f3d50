//! Reporting on a launch, in words and as JSON.

use std::io::Write;

use anyhow::Result;
use rocjitsu_config::Gpu;
use serde_json::json;

use super::fidelity::Row;
use crate::launch::outcome::{BufferOutcome, Verdict};
use crate::launch::place::Statistics;
use crate::launch::{Launch, sha256};
use crate::output::{BAD, DIM, GOOD, HEAD, Output, bytes, count, peak_resident_bytes, styled};
use crate::runs::Runs;

/// What a launch did.
pub struct Report<'a> {
    /// The launch.
    pub launch: &'a Launch,
    /// The GPU it ran on.
    pub gpu: &'a Gpu,
    /// Matrix products were plain chains of FMAs: results are not the GPU's bits.
    pub fast_matrix: bool,
    /// The runs.
    pub runs: Runs,
    /// Contents of the buffers after the last run.
    pub contents: Vec<Vec<u8>>,
    /// Verdicts on them.
    pub buffers: Vec<BufferOutcome>,
}

impl Report<'_> {
    /// The run that took the least time.
    fn fastest(&self) -> Statistics {
        self.runs.fastest.clone().unwrap_or_default()
    }

    /// Executions of the run by instruction form.
    pub fn forms(&self) -> Vec<Row> {
        self.fastest().forms.iter().map(Row::from).collect()
    }

    /// Whether every buffer is as it should be.
    pub fn good(&self) -> bool {
        self.buffers.iter().all(|buffer| buffer.verdict.good())
    }

    /// The report as JSON. `check` says whether the verdicts count.
    pub fn json(&self, check: bool) -> serde_json::Value {
        let run = self.fastest();
        let kernel = &self.launch.kernel;
        let rate = if run.seconds > 0.0 {
            run.wave_instructions as f64 / run.seconds
        } else {
            0.0
        };
        let mut buffers = Vec::new();
        for (outcome, content) in self.buffers.iter().zip(&self.contents) {
            let unchecked = BufferOutcome {
                name: outcome.name.clone(),
                verdict: Verdict::Unchecked,
            };
            let mut buffer = json!(if check { outcome } else { &unchecked });
            buffer["bytes"] = json!(content.len());
            buffer["sha256"] = json!(sha256(content));
            buffers.push(buffer);
        }
        json!({
            "launch": self.launch.name,
            "kernel": kernel.name,
            "target": self.launch.code.target().name(),
            "gpu": self.gpu.name,
            "grid": self.launch.grid,
            "block": self.launch.block,
            "ok": !check || self.good(),
            "buffers": buffers,
            "fast_matrix": self.fast_matrix,
            "waves": run.waves,
            "wave_instructions": run.wave_instructions,
            "expected_wave_instructions": self.launch.expected_instructions,
            "by_class": run.by_class,
            "results": {
                "exact": run.exact(),
                "bounded": run.bounded,
                "by_default": run.by_default,
            },
            "forms": run.forms,
            "seconds": run.seconds,
            "runs": self.runs.count,
            "seconds_of_all_runs": self.runs.total_seconds,
            "seconds_of_each_run": self.runs.seconds,
            "wave_instructions_per_second": rate,
            "peak_resident_bytes": peak_resident_bytes(),
            "peak_register_pages": run.peak_register_pages,
            "lane_back_end": run.lane_back_end,
            "compiled": run.compiled,
        })
    }

    /// Writes the report in words.
    ///
    /// # Errors
    ///
    /// Those of writing.
    pub fn text(&self, check: bool, out: &mut Output) -> Result<()> {
        let run = self.fastest();
        let title = format!(
            "{} ({}) on {}",
            self.launch.name, self.launch.kernel.name, self.gpu.product
        );
        writeln!(out, "{}", styled(HEAD, title))?;
        let [x, y, z] = self.launch.grid;
        let [a, b, c] = self.launch.block;
        writeln!(
            out,
            "  {x} x {y} x {z} workgroups of {a} x {b} x {c} threads, {} waves",
            run.waves
        )?;
        let rate = if run.seconds > 0.0 {
            run.wave_instructions as f64 / run.seconds
        } else {
            0.0
        };
        writeln!(
            out,
            "  {} wave instructions in {:.6} s, {} per second",
            run.wave_instructions,
            run.seconds,
            count(rate)
        )?;
        let classes: Vec<String> = run
            .by_class
            .iter()
            .filter(|(_, count)| **count > 0)
            .map(|(class, count)| format!("{class} {count}"))
            .collect();
        if !classes.is_empty() {
            writeln!(out, "  {}", styled(DIM, classes.join(", ")))?;
        }
        if run.bounded + run.by_default > 0 {
            writeln!(
                out,
                "  {} exact, {} within a bound, {} by an unconfirmed default:",
                run.exact(),
                run.bounded,
                run.by_default
            )?;
            for form in run.forms.iter().filter(|form| form.is_inexact()) {
                writeln!(out, "    {}", styled(DIM, form.line()))?;
            }
        }
        if let Some(expected) = self.launch.expected_instructions
            && expected != run.wave_instructions
        {
            writeln!(out, "  {expected} wave instructions were expected")?;
        }
        let resident = peak_resident_bytes().map_or("unknown".to_owned(), bytes);
        let pages = bytes(run.peak_register_pages * 4096);
        writeln!(
            out,
            "  {} lanes, at most {pages} of registers, {resident} resident",
            run.lane_back_end
        )?;
        if self.fast_matrix {
            let note = "matrix products as plain FMA chains: not bit for bit what the GPU computes";
            writeln!(out, "  {}", styled(BAD, note))?;
        }
        if check {
            for buffer in &self.buffers {
                let word = if buffer.verdict.good() {
                    styled(GOOD, "ok  ")
                } else {
                    styled(BAD, "FAIL")
                };
                writeln!(out, "  {word} {}: {}", buffer.name, buffer.describe())?;
            }
        }
        Ok(())
    }
}
