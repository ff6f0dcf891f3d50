//! `topology` of AMD's format: a tree of components and links between their ports.
//! The numbers of dies, engines and compute units count; nothing else of it has an effect in a simulator without time.

use crate::json::{Result, Section, fault};

/// What a tree of components says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Components {
    /// Accelerator dies.
    pub xcds: Option<u32>,
    /// Shader engines of a die.
    pub engines: Option<u32>,
    /// Compute units of a shader engine.
    pub cus: Option<u32>,
    /// Of a compute unit.
    pub lds_kib: Option<u32>,
    pub wave_slots: Option<u32>,
    ignored: Vec<String>,
    wait_diagnostics: bool,
}

const TYPES: [&str; 8] = [
    "soc",
    "gpu_memory",
    "xcd",
    "l2_cache",
    "command_processor",
    "shader_engine",
    "compute_unit",
    "iod",
];
/// The most of one kind of component in its parent.
const MOST: u32 = 256;

/// Reads `topology`, if it is there.
pub(crate) fn read(top: &Section<'_>) -> Result<Components> {
    let mut found = Components::default();
    let Some(topology) = top.section("topology")? else {
        return Ok(found);
    };
    if let Some(root) = topology.section("root")? {
        found.component(&root, 0)?;
    }
    for link in topology.sections("links")?.unwrap_or_default() {
        found.ignore("topology.links");
        for key in ["pattern", "src", "dst", "where_expr"] {
            link.text(key)?;
        }
        for key in ["latency", "weight"] {
            link.number(key, 0..=u64::from(u32::MAX))?;
        }
        for range in link.sections("for_ranges")?.unwrap_or_default() {
            range.text("var_name")?;
            range.number("start", 0..=u64::from(u32::MAX))?;
            range.number("end", 0..=u64::from(u32::MAX))?;
            range.finish()?;
        }
        link.finish()?;
    }
    topology.finish()?;
    Ok(found)
}

impl Components {
    fn ignore(&mut self, key: &str) {
        if !self.ignored.iter().any(|old| old == key) {
            self.ignored.push(key.to_owned());
        }
    }

    /// Warnings: keys, and why they have no effect.
    pub fn unused(&self) -> Vec<(String, &'static str)> {
        let mut list = Vec::new();
        if !self.ignored.is_empty() {
            list.push((
                self.ignored.join(", "),
                "no effect: registers are those of the target, and caches, links and memory \
                 stacks take no time",
            ));
        }
        if self.wait_diagnostics {
            list.push((
                "memory_wait_diagnostics".to_owned(),
                "the warnings about missing waits are not built",
            ));
        }
        list
    }

    fn component(&mut self, section: &Section<'_>, depth: u32) -> Result<()> {
        if depth > 16 {
            return fault(
                section.path("children"),
                "components lie too deep in each other",
            );
        }
        let count = count(section)?;
        let kind = section.one_of("type", &TYPES)?;
        let sum = |total: &mut Option<u32>| {
            *total = Some((total.unwrap_or(0) + count).min(MOST));
        };
        match kind {
            Some("xcd") => sum(&mut self.xcds),
            Some("shader_engine") => sum(&mut self.engines),
            Some("compute_unit") => sum(&mut self.cus),
            Some(_) => {}
            None => return fault(section.path("type"), "the key is missing"),
        }
        for entry in section.sections("config")?.unwrap_or_default() {
            self.setting(&entry)?;
        }
        for child in section.sections("children")?.unwrap_or_default() {
            self.component(&child, depth + 1)?;
        }
        section.finish()
    }

    /// `{ "key": ..., "value": ... }`, both texts.
    fn setting(&mut self, entry: &Section<'_>) -> Result<()> {
        const KEYS: [&str; 6] = [
            "num_wf_slots",
            "sgprs_per_wf",
            "vgprs_per_wf",
            "lds_size_kb",
            "num_hbm_stacks",
            "memory_wait_diagnostics",
        ];
        let Some(key) = entry.one_of("key", &KEYS)? else {
            return fault(entry.path("key"), "the key is missing");
        };
        let Some(value) = entry.text("value")? else {
            return fault(entry.path("value"), "the key is missing");
        };
        entry.finish()?;
        if key == "memory_wait_diagnostics" {
            match value {
                "off" => {}
                "warn" => self.wait_diagnostics = true,
                other => {
                    return fault(
                        entry.path("value"),
                        format!("`{other}` is none of off, warn"),
                    );
                }
            }
            return Ok(());
        }
        let parsed = value.parse::<u32>().ok();
        let Some(value) = parsed.filter(|value| (1..=4096).contains(value)) else {
            return fault(
                entry.path("value"),
                format!("`{value}`: {key} is a number from 1 to 4096"),
            );
        };
        match key {
            "lds_size_kb" => self.lds_kib = Some(value),
            "num_wf_slots" => self.wave_slots = Some(value),
            other => self.ignore(&format!("topology: {other}")),
        }
        Ok(())
    }
}

/// How many components a name such as `xcd[0:8]` stands for.
fn count(section: &Section<'_>) -> Result<u32> {
    let Some(name) = section.text("name")? else {
        return fault(section.path("name"), "the key is missing");
    };
    let Some((_, range)) = name.split_once('[') else {
        return Ok(1);
    };
    let bounds = range
        .strip_suffix(']')
        .and_then(|range| range.split_once(':'))
        .and_then(|(start, end)| Some((start.parse::<u32>().ok()?, end.parse::<u32>().ok()?)));
    match bounds {
        Some((start, end)) if end > start && end - start <= MOST => Ok(end - start),
        _ => fault(
            section.path("name"),
            format!("`{name}`: a range is written [start:end], with 1 to {MOST} numbers"),
        ),
    }
}
