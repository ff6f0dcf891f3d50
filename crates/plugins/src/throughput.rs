//! `throughput`: how fast each dispatch ran and what it was made of. It takes the engine's own counts and so costs
//! nothing.

use rocjitsu_observe::{Ended, Events, Family, Lines, Outcome, Plugin};
use serde_json::{Map, Value, json};

use crate::options::Options;

/// Makes the plugin.
pub fn make(options: Options, lines: Lines) -> Result<Box<dyn Plugin>, String> {
    options.finish(&["file"])?;
    Ok(Box::new(Throughput {
        lines,
        total: Sum::default(),
        dispatches: 0,
    }))
}

#[derive(Clone, Copy, Default)]
struct Sum {
    instructions: u64,
    waves: u64,
    seconds: f64,
    families: [u64; Family::ALL.len()],
}

impl Sum {
    fn record(&self) -> Map<String, Value> {
        let rate = if self.seconds > 0.0 {
            self.instructions as f64 / self.seconds / 1e6
        } else {
            0.0
        };
        let families: Map<String, Value> = Family::ALL
            .iter()
            .zip(self.families)
            .map(|(family, count)| (family.name().to_owned(), count.into()))
            .collect();
        let mut record = Map::new();
        record.insert("wave_instructions".to_owned(), self.instructions.into());
        record.insert("waves".to_owned(), self.waves.into());
        record.insert("wall_seconds".to_owned(), json!(self.seconds));
        record.insert("mips".to_owned(), json!(rate));
        record.insert("families".to_owned(), families.into());
        record
    }
}

struct Throughput {
    lines: Lines,
    total: Sum,
    dispatches: u64,
}

impl Plugin for Throughput {
    fn events(&self) -> Events {
        Events::DISPATCHES
    }

    fn follows_asynchronous_matrix(&self) -> bool {
        true
    }

    fn dispatch_ends(&mut self, ended: &Ended<'_>) -> Outcome {
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
        let mut record = sum.record();
        record.insert("plugin".to_owned(), "throughput".into());
        record.insert("event".to_owned(), "dispatch".into());
        record.insert("dispatch".to_owned(), ended.id.into());
        record.insert("kernel".to_owned(), ended.kernel.into());
        if let Some(error) = ended.error {
            record.insert("error".to_owned(), error.into());
        }
        self.lines.line(&Value::from(record).to_string())
    }

    fn finish(&mut self) -> Outcome {
        let mut record = self.total.record();
        record.insert("plugin".to_owned(), "throughput".into());
        record.insert("event".to_owned(), "summary".into());
        record.insert("dispatches".to_owned(), self.dispatches.into());
        self.lines.line(&Value::from(record).to_string())?;
        self.lines.flush()
    }
}
