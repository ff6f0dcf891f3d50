//! What figures must not exceed: each is printed with its limit, and those that do are named at the end.

use anyhow::{Result, bail};

/// Milliseconds that the library and the driver may take of an empty program's time.
pub const START_MS: f64 = 60.0;
/// MiB that they may take of its memory.
pub const START_MIB: f64 = 60.0;
/// A read through the address map beside one through a page table.
pub const RESOLVER: f64 = 1.3;
/// Share of a core, in percent, that queues without work may take.
pub const IDLE: f64 = 2.0;

/// The figures that were compared.
#[derive(Debug, Default)]
pub struct Limits {
    compared: usize,
    broken: Vec<String>,
}

impl Limits {
    /// Prints a figure's limit and whether it is kept. What is no number is not.
    pub fn at_most(&mut self, what: &str, value: f64, most: f64, unit: &str) {
        self.compared += 1;
        let text = format!("{what}: {value:.2} {unit}, limit {most:.2} {unit}");
        if value <= most {
            println!("  kept    {text}");
        } else {
            println!("  BROKEN  {text}");
            self.broken.push(text);
        }
    }

    /// Says how many limits were kept.
    ///
    /// # Errors
    /// With `strict`, one that is broken.
    pub fn finish(&self, strict: bool) -> Result<()> {
        if self.compared == 0 {
            return Ok(());
        }
        let (broken, compared) = (self.broken.len(), self.compared);
        println!("limits: {} of {compared} kept", compared - broken);
        if strict && broken > 0 {
            bail!(
                "{broken} of {compared} limits are broken: {}",
                self.broken.join("; ")
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_limit_is_an_error_where_it_is_asked_for() {
        let mut limits = Limits::default();
        limits.finish(true).unwrap();
        limits.at_most("idle", 2.0, IDLE, "%");
        limits.finish(true).unwrap();
        limits.at_most("resolver", 1.31, RESOLVER, "times");
        limits.at_most("start", f64::NAN, START_MS, "ms");
        limits.finish(false).unwrap();
        let error = limits.finish(true).unwrap_err().to_string();
        assert!(
            error.starts_with("2 of 3") && error.contains("1.31"),
            "{error}"
        );
    }
}
