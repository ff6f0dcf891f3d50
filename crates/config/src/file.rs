//! The configuration file: a GPU's preset, what differs from it, and how many threads to use.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::gpu::Gpu;
use crate::presets::{preset, preset_names};

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
    Syntax {
        path: PathBuf,
        key: String,
        reason: String,
    },
    #[error("gpu: unknown preset `{name}`: the presets are {known}")]
    Preset { name: String, known: String },
    #[error("{key}: {value} is out of range: {range}")]
    Range {
        key: &'static str,
        value: u64,
        range: &'static str,
    },
    #[error("partition: {gpu} with {xccs} XCCs cannot be divided as {mode}: its modes are {known}")]
    Partition {
        gpu: String,
        mode: &'static str,
        xccs: u32,
        known: String,
    },
    #[error("gpus: more than {most} GPU nodes; a machine has no more render nodes")]
    TooMany { most: u32 },
}

/// The file, as JSON.
///
/// ```json
/// { "gpu": "mi300x", "overrides": { "compute_units": 38, "xccs": 1 }, "threads": 4 }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Name of the preset.
    pub gpu: String,
    /// What differs from it.
    #[serde(default)]
    pub overrides: Overrides,
    /// Worker threads; absent for as many as the host has cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
}

/// Values that replace the preset's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs)]
pub struct Overrides {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_units: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waves_per_simd: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lds_kib: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vram_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xccs: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_mhz: Option<u32>,
}

impl Config {
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
    /// [`ConfigError::Syntax`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let fault = |key: String, reason: String| ConfigError::Syntax {
            path: path.to_owned(),
            key,
            reason,
        };
        let mut reader = serde_json::Deserializer::from_str(text);
        let config: Config = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let key = error.path().to_string();
            fault(
                if key == "." {
                    "top level".to_owned()
                } else {
                    key
                },
                error.inner().to_string(),
            )
        })?;
        reader
            .end()
            .map_err(|error| fault("after the configuration".to_owned(), error.to_string()))?;
        Ok(config)
    }

    /// The GPU: the preset with the overrides, each checked.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Preset`] and [`ConfigError::Range`].
    pub fn resolve(&self) -> Result<Gpu, ConfigError> {
        let mut gpu = preset(&self.gpu).ok_or_else(|| ConfigError::Preset {
            name: self.gpu.clone(),
            known: preset_names().collect::<Vec<_>>().join(", "),
        })?;
        let change = |key, value: Option<u32>, low: u32, high: u32, range, to: &mut u32| match value
        {
            Some(value) if !(low..=high).contains(&value) => Err(ConfigError::Range {
                key,
                value: value.into(),
                range,
            }),
            Some(value) => {
                *to = value;
                Ok(())
            }
            None => Ok(()),
        };
        let Overrides {
            compute_units,
            waves_per_simd,
            lds_kib,
            vram_bytes,
            xccs,
            clock_mhz,
        } = self.overrides;
        change(
            "overrides.compute_units",
            compute_units,
            1,
            4096,
            "1 to 4096",
            &mut gpu.compute_units,
        )?;
        change(
            "overrides.waves_per_simd",
            waves_per_simd,
            1,
            32,
            "1 to 32",
            &mut gpu.waves_per_simd,
        )?;
        change(
            "overrides.lds_kib",
            lds_kib,
            1,
            4096,
            "1 to 4096",
            &mut gpu.lds_kib,
        )?;
        change("overrides.xccs", xccs, 1, 64, "1 to 64", &mut gpu.xccs)?;
        change(
            "overrides.clock_mhz",
            clock_mhz,
            1,
            10_000,
            "1 to 10000",
            &mut gpu.clock_mhz,
        )?;
        let range = "1 MiB (1048576) to 64 TiB (70368744177664)";
        match vram_bytes {
            Some(value) if !(1 << 20..=1 << 46).contains(&value) => {
                return Err(ConfigError::Range {
                    key: "overrides.vram_bytes",
                    value,
                    range,
                });
            }
            Some(value) => gpu.vram_bytes = value,
            None => {}
        }
        if !gpu.compute_units.is_multiple_of(gpu.xccs) {
            return Err(ConfigError::Range {
                key: "overrides.compute_units",
                value: gpu.compute_units.into(),
                range: "a multiple of the number of XCCs",
            });
        }
        if self.threads == Some(0) {
            return Err(ConfigError::Range {
                key: "threads",
                value: 0,
                range: "at least 1",
            });
        }
        Ok(gpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse(text, Path::new("c.json"))
    }

    #[test]
    fn every_preset_resolves_and_overrides_replace() {
        for name in preset_names() {
            let config = parse(&format!(r#"{{"gpu": "{name}"}}"#)).unwrap();
            assert_eq!(config.resolve().unwrap(), preset(name).unwrap());
        }
        let text = r#"{"gpu": "mi300x", "overrides": {"compute_units": 38, "xccs": 1, "vram_bytes": 1073741824}}"#;
        let gpu = parse(text).unwrap().resolve().unwrap();
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
    fn errors_name_the_key() {
        let text = |json: &str| match parse(json) {
            Err(error) => error.to_string(),
            Ok(config) => config.resolve().unwrap_err().to_string(),
        };
        let unknown = text(r#"{"gpu": "mi300x", "overrides": {"compute_unit": 1}}"#);
        assert!(
            unknown.starts_with("c.json: overrides.compute_unit: unknown field `compute_unit`"),
            "{unknown}"
        );
        let wrong = text(r#"{"gpu": "mi300x", "overrides": {"xccs": "two"}}"#);
        assert!(
            wrong.starts_with("c.json: overrides.xccs: invalid type: string"),
            "{wrong}"
        );
        assert!(
            text(r#"{"gpu": "mi300"}"#)
                .contains("unknown preset `mi300`: the presets are mi210, mi300x")
        );
        assert!(
            text(r#"{"gpu": "r9700", "overrides": {"xccs": 0}}"#)
                .contains("overrides.xccs: 0 is out of range")
        );
        assert!(
            text(r#"{"gpu": "mi300x", "overrides": {"compute_units": 7}}"#)
                .contains("multiple of the number of XCCs")
        );
        assert!(text(r#"{"gpu": "r9700", "threads": 0}"#).contains("threads: 0"));
        assert!(text(r#"{"threads": 1}"#).contains("missing field `gpu`"));
        assert!(text(r#"{"gpu": "r9700"} x"#).contains("after the configuration"));
    }
}
