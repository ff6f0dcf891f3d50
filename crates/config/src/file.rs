//! Configuration: files in this project's format or in that of AMD's rocjitsu, and environment variables.
//! `docs/configuration.md` lists every key.

use std::path::{Path, PathBuf};

use crate::cpu::Cpu;
use crate::gpu::{Gpu, PartitionMode};
use crate::json::{self, Fault, Section, fault, similar};
use crate::machine::{KfdVersion, MOST_NODES, Machine, MachineError, Options};
use crate::overrides::{check, override_gpu};
use crate::plugins;
use crate::presets::{preset, preset_names};
use crate::reference;
use crate::threads::{Place, ThreadTable, Threads};

/// Lane back ends by name.
const LANES: [&str; 3] = ["scalar", "avx2", "avx512"];
/// The most worker threads.
pub(crate) const MOST_THREADS: u32 = 1024;

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum ConfigError {
    #[error("cannot read {path}: {source}")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path}: {key}: {reason}")]
    Value {
        path: PathBuf,
        key: String,
        reason: String,
    },
    #[error("{variable}={value}: {reason}")]
    Environment {
        variable: &'static str,
        value: String,
        reason: String,
    },
    #[error("`{name}` is neither a preset ({known}) nor a file")]
    Name { name: String, known: String },
    #[error(transparent)]
    Machine(#[from] MachineError),
}

/// A key that is understood, but whose effect is not there.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Warning {
    /// Path of the key, or keys.
    pub key: String,
    /// What happens instead.
    pub text: String,
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.key, self.text)
    }
}

/// A configuration, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The cards, and how each is divided into nodes.
    pub cards: Vec<(Gpu, PartitionMode)>,
    /// The processor beside them.
    pub cpu: Cpu,
    /// How the simulation runs.
    pub options: Options,
    /// How its thread keys were resolved, if it has any.
    pub threads: Option<ThreadTable>,
    /// What the file asks for and does not get. To be shown to the user.
    pub warnings: Vec<Warning>,
}

impl Config {
    /// One card of a preset on the host's processor.
    pub fn preset(name: &str) -> Option<Self> {
        Some(Config {
            cards: vec![(preset(name)?, PartitionMode::Spx)],
            cpu: Cpu::host(),
            options: Options::default(),
            threads: None,
            warnings: Vec::new(),
        })
    }

    /// The configuration of a preset's name or of a file's path. A name that is both is the
    /// preset's.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Name`], or those of [`Config::read`].
    pub fn named(name: &str) -> Result<Self, ConfigError> {
        if let Some(config) = Self::preset(name) {
            return Ok(config);
        }
        let path = Path::new(name);
        if !path.exists() && !name.contains(['/', '.']) {
            let names: Vec<_> = preset_names().collect();
            return Err(ConfigError::Name {
                name: name.to_owned(),
                known: names.join(", ") + &similar(name, &names),
            });
        }
        Self::read(path)
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], which names the file and the key.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, path)
    }

    /// Reads the text of a file; `path` is for errors.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Value`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let at = |Fault { key, reason }| ConfigError::Value {
            path: path.to_owned(),
            key,
            reason,
        };
        let value = json::parse(text).map_err(at)?;
        let top = Section::new(&value, "").map_err(at)?;
        let config = if reference::is_reference(&value) {
            reference::read(&top)
        } else {
            read_own(&top)
        }
        .map_err(at)?;
        // Whether it can be built is a question to the file as well.
        config.machine().map_err(|error| {
            let key = match error {
                _ if value.get("gpus").is_some() => "gpus",
                _ if value.get("vm").is_some() => "vm.gpu.num_gpus",
                MachineError::TooMany { .. } => "num_gpus",
                MachineError::Partition { .. } => "partition",
            };
            at(Fault {
                key: key.to_owned(),
                reason: error.to_string(),
            })
        })?;
        Ok(config)
    }

    /// The configuration that environment variables describe: `ROCJITSU_CONFIG` (a preset's name
    /// or a file's path; without it one MI300X), `ROCJITSU_NUM_GPUS`, `ROCJITSU_THREADS`,
    /// `ROCJITSU_LANES`, `ROCJITSU_REPORT`, `ROCJITSU_KFD_VERSION`, `ROCJITSU_VERBOSE`, `ROCJITSU_PLUGINS`. Those of the
    /// debugger (`ROCJITSU_GDB` and companions) are the preloaded library's.
    ///
    /// `get` gives a variable's value; empty ones count as absent.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], which names the variable.
    pub fn from_environment(
        get: impl Fn(&'static str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let get = |variable| get(variable).filter(|value| !value.is_empty());
        let name = get("ROCJITSU_CONFIG").unwrap_or_else(|| "mi300x".to_owned());
        let mut config = Self::named(&name)?;
        let number = |variable, low: u32, high: u32| match get(variable) {
            None => Ok(None),
            Some(value) => match value.parse::<u32>() {
                Ok(number) if (low..=high).contains(&number) => Ok(Some(number)),
                _ => Err(ConfigError::Environment {
                    variable,
                    value,
                    reason: format!("a number from {low} to {high} belongs here"),
                }),
            },
        };
        if let Some(count) = number("ROCJITSU_NUM_GPUS", 0, MOST_NODES as u32)? {
            config
                .set_count(count as usize)
                .map_err(|reason| ConfigError::Environment {
                    variable: "ROCJITSU_NUM_GPUS",
                    value: count.to_string(),
                    reason,
                })?;
        }
        if let Some(threads) = number("ROCJITSU_THREADS", 1, MOST_THREADS)? {
            config.options.threads = Some(threads);
            config.threads = None;
        }
        if let Some(verbose) = number("ROCJITSU_VERBOSE", 0, 3)? {
            config.options.verbose = verbose;
        }
        if let Some(lanes) = get("ROCJITSU_LANES") {
            if !LANES.contains(&lanes.as_str()) {
                return Err(ConfigError::Environment {
                    variable: "ROCJITSU_LANES",
                    reason: format!("it is none of {}", LANES.join(", ")),
                    value: lanes,
                });
            }
            config.options.lanes = Some(lanes);
        }
        if let Some(plugins) = get("ROCJITSU_PLUGINS") {
            config.options.plugins.add(&plugins);
        }
        if let Some(report) = get("ROCJITSU_REPORT") {
            config.options.report = Some(report.into());
        }
        if let Some(value) = get("ROCJITSU_KFD_VERSION") {
            config.options.kfd_version =
                KfdVersion::from_text(&value).ok_or_else(|| ConfigError::Environment {
                    variable: "ROCJITSU_KFD_VERSION",
                    value,
                    reason: "a version from 1.12 to 1.17 belongs here".to_owned(),
                })?;
        }
        config.machine()?;
        Ok(config)
    }

    /// Makes it this many cards of the one kind that there is.
    ///
    /// # Errors
    ///
    /// A configuration with cards that differ, of which nobody could tell which ones are meant.
    pub fn set_count(&mut self, count: usize) -> Result<(), String> {
        let Some(first) = self.cards.first().cloned() else {
            return if count == 0 {
                Ok(())
            } else {
                Err("the configuration has no GPU to multiply".to_owned())
            };
        };
        if self.cards.iter().any(|card| *card != first) {
            return Err("the configuration lists GPUs that differ".to_owned());
        }
        self.cards = vec![first; count];
        Ok(())
    }

    /// How many threads work, and how that number came about.
    pub fn thread_table(&self) -> ThreadTable {
        match &self.threads {
            Some(table) => table.clone(),
            None => ThreadTable::plain(&self.options, self.cards.len() as u32),
        }
    }

    /// The machine.
    ///
    /// # Errors
    ///
    /// [`MachineError`]; only if `cards` was changed.
    pub fn machine(&self) -> Result<Machine, MachineError> {
        Machine::with_cards(self.cards.clone(), self.cpu.clone(), self.options.clone())
    }
}

/// This project's own format.
fn read_own(top: &Section<'_>) -> json::Result<Config> {
    let mut cards = Vec::new();
    match (top.value("gpu"), top.sections("gpus")?) {
        (Some(_), Some(_)) => return fault("gpus", "`gpu` and `gpus` exclude each other"),
        (None, None) => {
            return fault(
                "top level",
                "a key is missing: `gpu` (a preset's name) or `gpus` (a list)",
            );
        }
        (Some(_), None) => read_cards(top, "gpu", "num_gpus", &mut cards)?,
        (None, Some(list)) => {
            for card in list {
                read_cards(&card, "preset", "count", &mut cards)?;
                card.finish()?;
                if cards.len() > MOST_NODES {
                    break;
                }
            }
        }
    }
    let mut warnings = Vec::new();
    let mut options = Options {
        threads: top.small("threads", 1..=MOST_THREADS)?,
        lanes: top.one_of("lanes", &LANES)?.map(str::to_owned),
        report: top.text("report")?.map(PathBuf::from),
        verbose: top.small("verbose", 0..=3)?.unwrap_or(0),
        ..Options::default()
    };
    if let Some(text) = top.text("kfd_version")? {
        let Some(version) = KfdVersion::from_text(text) else {
            return fault("kfd_version", format!("`{text}` is none of 1.12 to 1.17"));
        };
        options.kfd_version = version;
    }
    if let Some(svm) = top.flag("svm")? {
        options.svm = svm;
    }
    if let Some(debugger) = top.flag("debugger")? {
        options.debugger = debugger;
        if debugger {
            warnings.push(Warning {
                key: "debugger".to_owned(),
                text: "programs are promised a debugger and a trap handler, which are not there"
                    .to_owned(),
            });
        }
    }
    let mut cpu = Cpu::host();
    if let Some(section) = top.section("cpu")? {
        let cores = section.small("cores", 1..=1024)?.unwrap_or(cpu.cores);
        let memory = section
            .number("memory_bytes", 1 << 20..=1 << 46)?
            .unwrap_or(cpu.memory_bytes);
        if cores != cpu.cores {
            cpu = Cpu {
                core_id_base: cpu.core_id_base,
                ..Cpu::usual(cores, memory)
            };
        }
        cpu.memory_bytes = memory;
        section.finish()?;
    }
    options.plugins = plugins::read(top, &mut warnings)?;
    let keys = Threads::read(top)?;
    let mut threads = None;
    if keys.given() {
        if options.threads.is_some() {
            return fault(
                "threads",
                "it excludes num_threads, cpu_dispatch_threads, async_helper_threads, cpu_thread_budget and \
                 thread_allocations",
            );
        }
        let most = |of: fn(&Gpu) -> u32| cards.iter().map(|(gpu, _)| of(gpu)).max().unwrap_or(1);
        let (xccs, cus) = (most(|g| g.xccs), most(|g| g.compute_units / g.xccs.max(1)));
        let (table, told) = keys.resolve(Place::here(cards.len().max(1) as u32, xccs, cus))?;
        options.threads = Some(table.threads);
        options.helpers = table.helpers;
        threads = Some(table);
        warnings.extend(told);
    }
    top.finish()?;
    Ok(Config {
        cards,
        cpu,
        options,
        threads,
        warnings,
    })
}

/// Cards of one kind.
fn read_cards(
    section: &Section<'_>,
    name_key: &'static str,
    count_key: &'static str,
    cards: &mut Vec<(Gpu, PartitionMode)>,
) -> json::Result<()> {
    let Some(name) = section.text(name_key)? else {
        return fault(section.path(name_key), "a preset's name is missing");
    };
    let Some(mut gpu) = preset(name) else {
        let names: Vec<_> = preset_names().collect();
        return fault(
            section.path(name_key),
            format!(
                "unknown preset `{name}`{}; the presets are {}",
                similar(name, &names),
                names.join(", ")
            ),
        );
    };
    let count = section
        .small(count_key, 0..=MOST_NODES as u32)?
        .unwrap_or(1);
    let mode = match section.text("partition")? {
        None => PartitionMode::Spx,
        Some(text) => match PartitionMode::from_name(text) {
            Some(mode) => mode,
            None => {
                return fault(
                    section.path("partition"),
                    format!(
                        "`{text}` is none of {}",
                        PartitionMode::ALL.map(PartitionMode::name).join(", ")
                    ),
                );
            }
        },
    };
    if let Some(overrides) = section.section("overrides")? {
        override_gpu(&overrides, &mut gpu)?;
        overrides.finish()?;
        check(&gpu, &section.path("overrides"), "compute_units")?;
    }
    cards.extend(std::iter::repeat_n((gpu, mode), count as usize));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse(text, Path::new("c.json"))
    }

    fn wrong(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn every_preset_resolves_and_overrides_replace() {
        for name in preset_names() {
            let config = parse(&format!(r#"{{"gpu": "{name}"}}"#)).unwrap();
            assert_eq!(config.cards[0].0, preset(name).unwrap());
            assert_eq!(config, Config::named(name).unwrap());
        }
        let text = r#"{"gpu": "mi300x", "overrides": {"compute_units": 38, "xccs": 1, "vram_bytes": 1073741824}}"#;
        let gpu = &parse(text).unwrap().cards[0].0;
        assert_eq!(
            (
                gpu.compute_units,
                gpu.xccs,
                gpu.vram_bytes,
                gpu.target.as_str()
            ),
            (38, 1, 1 << 30, "gfx942")
        );
    }

    #[test]
    fn several_gpus_and_options() {
        let text = r#"{
            "gpus": [{"preset": "mi300x", "count": 2, "partition": "cpx"}, {"preset": "w7900"}],
            "threads": 3, "lanes": "avx2", "kfd_version": "1.13", "svm": false, "verbose": 2,
            "report": "r.json", "cpu": {"cores": 96, "memory_bytes": 1099511627776}
        }"#;
        let machine = parse(text).unwrap().machine().unwrap();
        assert_eq!(machine.gpus.len(), 17);
        assert_eq!(machine.gpus[16].identity.render_minor, 144);
        assert_eq!((machine.cpu.cores, machine.cpu.memory_bytes), (96, 1 << 40));
        let options = machine.options;
        assert_eq!(options.kfd_version.to_string(), "1.13");
        assert_eq!(
            (options.threads, options.svm, options.verbose),
            (Some(3), false, 2)
        );
        let none = parse(r#"{"gpu": "mi210", "num_gpus": 0}"#).unwrap();
        assert!(none.machine().unwrap().gpus.is_empty());
    }

    #[test]
    fn errors_name_the_key() {
        for (text, part) in [
            (
                r#"{"gpu": "mi300x", "overrides": {"compute_unit": 1}}"#,
                "c.json: overrides.compute_unit: unknown key; did you mean `compute_units`?",
            ),
            (
                r#"{"gpu": "mi300x", "overrides": {"xccs": "two"}}"#,
                "c.json: overrides.xccs: the text `two` where a whole number",
            ),
            (
                r#"{"gpu": "mi300"}"#,
                "c.json: gpu: unknown preset `mi300`; did you mean `mi300x`?",
            ),
            (
                r#"{"gpu": "r9700", "overrides": {"xccs": 0}}"#,
                "overrides.xccs: 0 is out of range",
            ),
            (
                r#"{"gpu": "mi300x", "overrides": {"compute_units": 7}}"#,
                "overrides.compute_units: 7 compute units cannot be shared among 8 XCCs",
            ),
            (
                r#"{"gpu": "r9700", "threads": 0}"#,
                "threads: 0 is out of range",
            ),
            (r#"{"threads": 1}"#, "top level: a key is missing: `gpu`"),
            (r#"{"gpu": "r9700"} x"#, "after the configuration"),
            (r#"{"gpu": "r9700", "gpus": []}"#, "exclude each other"),
            (
                r#"{"gpus": [{"preset": "mi210"}, {"preset": "r9700", "cout": 2}]}"#,
                "gpus[1].cout: unknown key; did you mean `count`?",
            ),
            (
                r#"{"gpu": "w7900", "partition": "cpx"}"#,
                "partition: w7900 with 1 XCCs cannot be divided as CPX",
            ),
            (
                r#"{"gpu": "mi300x", "num_gpus": 17, "partition": "cpx"}"#,
                "num_gpus: ",
            ),
            (
                r#"{"gpu": "r9700", "kfd_version": "1.9"}"#,
                "kfd_version: `1.9` is none",
            ),
            (
                r#"{"gpu": "r9700", "lanes": "avx"}"#,
                "lanes: `avx` is none of scalar",
            ),
            (
                r#"{"gpu": "r9700", "gpu": "mi210"}"#,
                "`gpu` is there twice",
            ),
            ("[1]", "top level: a list where an object belongs"),
        ] {
            let error = wrong(text);
            assert!(error.contains(part), "{text}\n{error}");
        }
    }

    #[test]
    fn environment() {
        let with = |pairs: &'static [(&str, &str)]| {
            Config::from_environment(move |name| {
                let pair = pairs.iter().find(|(key, _)| *key == name)?;
                Some(pair.1.to_owned())
            })
        };
        let config = with(&[]).unwrap();
        assert_eq!(config.cards[0].0.name, "mi300x");
        let config = with(&[
            ("ROCJITSU_CONFIG", "r9700"),
            ("ROCJITSU_NUM_GPUS", "3"),
            ("ROCJITSU_THREADS", "2"),
            ("ROCJITSU_LANES", "scalar"),
            ("ROCJITSU_REPORT", "/tmp/r"),
            ("ROCJITSU_KFD_VERSION", "1.12"),
            ("ROCJITSU_VERBOSE", "3"),
        ])
        .unwrap();
        assert_eq!(config.cards.len(), 3);
        assert_eq!(config.options.kfd_version.minor(), 12);
        assert_eq!(config.options.report.as_deref(), Some(Path::new("/tmp/r")));
        for (pairs, part) in [
            (
                &[("ROCJITSU_NUM_GPUS", "many")][..],
                "ROCJITSU_NUM_GPUS=many: a number",
            ),
            (
                &[("ROCJITSU_KFD_VERSION", "2.0")],
                "ROCJITSU_KFD_VERSION=2.0: ",
            ),
            (&[("ROCJITSU_LANES", "mmx")], "ROCJITSU_LANES=mmx: "),
            (
                &[("ROCJITSU_CONFIG", "mi300")],
                "`mi300` is neither a preset",
            ),
            (
                &[("ROCJITSU_CONFIG", "/nonexistent.json")],
                "cannot read /nonexistent.json",
            ),
        ] {
            let error = with(pairs).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
