//! Options of a plugin: texts by key, each taken once. What is left over is an error.

use std::collections::BTreeMap;
use std::str::FromStr;

/// Options of one plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options(BTreeMap<String, String>);

impl Options {
    /// Sets an option.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.0.insert(key.into(), value.into());
    }

    /// All that are set and not taken.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }

    /// Takes a text.
    pub fn text(&mut self, key: &str) -> Option<String> {
        self.0.remove(key)
    }

    /// Takes a number, or whatever else is read from a text.
    ///
    /// # Errors
    /// A value that does not read as one.
    pub fn parse<T: FromStr>(&mut self, key: &str) -> Result<Option<T>, String> {
        let Some(text) = self.0.remove(key) else {
            return Ok(None);
        };
        match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(format!("`{text}` is no value for the option `{key}`")),
        }
    }

    /// Takes a switch: `on` or `true`, `off` or `false`. An option without a value is on.
    ///
    /// # Errors
    /// Any other value.
    pub fn switch(&mut self, key: &str, default: bool) -> Result<bool, String> {
        match self.0.remove(key).as_deref() {
            None => Ok(default),
            Some("" | "on" | "true" | "1") => Ok(true),
            Some("off" | "false" | "0") => Ok(false),
            Some(other) => Err(format!(
                "`{other}` is no value for the option `{key}`: it takes on or off"
            )),
        }
    }

    /// Makes sure that every option was taken.
    ///
    /// # Errors
    /// The first one that was not.
    pub fn finish(&self, known: &[&str]) -> Result<(), String> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(key) if known.is_empty() => {
                Err(format!("there is no option `{key}`; the plugin has none"))
            }
            Some(key) => Err(format!(
                "there is no option `{key}`; it has {}",
                known.join(", ")
            )),
        }
    }
}
