//! `throughput`: how fast each dispatch ran and what it was made of, as records of AMD's schema `rocjitsu.throughput.v2`. It takes
//! the engine's own counts and so costs nothing; nobody takes the time of single instructions.

use foldhash::HashMap;
use std::time::Instant;

use rocjitsu_observe::{Dispatch, Ended, Events, Family, Lines, Outcome, Plugin};
use serde_json::{Map, Value, json};

use crate::geometry::{Geometry, describe, record};
use crate::options::Options;

/// The schema of the records.
const SCHEMA: &str = "rocjitsu.throughput.v2";

/// Makes the plugin.
pub fn make(options: Options, lines: Lines) -> Result<Box<dyn Plugin>, String> {
    options.finish(&["file"])?;
    Ok(Box::new(Throughput {
        lines,
        running: HashMap::default(),
        total: Sum::default(),
        dispatches: 0,
        span: None,
    }))
}

#[derive(Clone, Copy, Default)]
struct Sum {
    instructions: u64,
    waves: u64,
    /// Seconds of the dispatches.
    seconds: f64,
    families: [u64; Family::ALL.len()],
}

/// Millions a second; 0 if it took no time.
fn mips(instructions: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        instructions as f64 / seconds / 1e6
    } else {
        0.0
    }
}

/// A family as the schema has it: no instruction was timed by itself.
fn family(instructions: u64, seconds: f64) -> Value {
    let timed = (instructions == 0).then_some(0.0);
    json!({
        "instructions": instructions,
        "untimed_instructions": instructions,
        "execution_timing_valid": timed.is_some(),
        "execution_seconds": timed,
        "execution_mips": timed,
        "dispatch_mips": mips(instructions, seconds),
    })
}

impl Sum {
    fn add(&self, record: &mut Map<String, Value>, wall: f64) {
        let families: Map<String, Value> = Family::ALL
            .iter()
            .zip(self.families)
            .map(|(kind, count)| (kind.name().to_owned(), family(count, self.seconds)))
            .collect();
        let mut add = |key: &str, value: Value| record.insert(key.to_owned(), value);
        add("wall_seconds", json!(wall));
        add("wave_instructions", self.instructions.into());
        add("mips", json!(mips(self.instructions, wall)));
        add("families", families.into());
        add("waves", self.waves.into());
    }
}

struct Throughput {
    lines: Lines,
    /// Dispatches under way, and when they began.
    running: HashMap<u64, (Geometry, Instant)>,
    total: Sum,
    dispatches: u64,
    /// From the first begin to the last end.
    span: Option<(Instant, Instant)>,
}

impl Plugin for Throughput {
    fn events(&self) -> Events {
        Events::DISPATCHES
    }

    fn follows_asynchronous_matrix(&self) -> bool {
        true
    }

    fn dispatch_begins(&mut self, dispatch: &Dispatch<'_>) -> Outcome {
        let begun = (Geometry::of(dispatch), Instant::now());
        self.running.insert(dispatch.id, begun);
        Ok(())
    }

    fn dispatch_ends(&mut self, ended: &Ended<'_>) -> Outcome {
        let now = Instant::now();
        let (geometry, begun) = self.running.remove(&ended.id).unzip();
        let begun = begun.unwrap_or(now);
        let first = self.span.map_or(begun, |(first, _)| first.min(begun));
        self.span = Some((first, now));
        let sum = Sum {
            instructions: ended.instructions,
            waves: ended.waves,
            seconds: ended.seconds,
            families: ended.families,
        };
        self.dispatches += 1;
        self.total.instructions += sum.instructions;
        self.total.waves += sum.waves;
        self.total.seconds += sum.seconds;
        for (total, n) in self.total.families.iter_mut().zip(sum.families) {
            *total += n;
        }
        let mut record = record("throughput", SCHEMA, "dispatch");
        describe(&mut record, ended.id, ended.kernel, geometry.as_ref());
        sum.add(&mut record, sum.seconds);
        if let Some(error) = ended.error {
            record.insert("error".to_owned(), error.into());
        }
        self.lines.line(&Value::from(record).to_string())
    }

    fn finish(&mut self) -> Outcome {
        let mut record = record("throughput", SCHEMA, "summary");
        record.insert("dispatches".to_owned(), self.dispatches.into());
        let sum = self.total.seconds;
        record.insert("dispatch_seconds_sum".to_owned(), json!(sum));
        let span = self.span.map(|(first, last)| last - first);
        let wall = span.map_or(0.0, |span| span.as_secs_f64());
        self.total.add(&mut record, wall);
        self.lines.line(&Value::from(record).to_string())?;
        self.lines.flush()
    }
}
