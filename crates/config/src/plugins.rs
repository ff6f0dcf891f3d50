//! `plugins`, `sinks` and `require_all_plugins`, whose meaning is that of AMD's rocjitsu. Which plugins there are is
//! not known here: whoever makes them says so.

use std::path::PathBuf;

use crate::file::Warning;
use crate::json::{Result, Section, fault, similar};

const SINKS: [&str; 3] = ["stderr", "stdout", "file"];

/// The plugins that a configuration asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct PluginOptions {
    /// Names, each with its options.
    pub plugins: Vec<(String, Vec<(String, String)>)>,
    /// Whether one that cannot be made ends the run.
    pub require_all: bool,
    /// Where records go: any of `stderr`, `stdout`, `file`. None is `stderr`.
    pub sinks: Vec<String>,
    /// Directory for files.
    pub directory: Option<PathBuf>,
}

impl PluginOptions {
    /// Adds what `ROCJITSU_PLUGINS` holds: `NAME[:key=value,...]`, several separated by `;`.
    pub fn add(&mut self, text: &str) {
        for one in text.split(';').map(str::trim).filter(|one| !one.is_empty()) {
            let (name, rest) = one.split_once(':').unwrap_or((one, ""));
            let options = rest.split(',').filter(|part| !part.is_empty());
            let option = |part: &str| {
                let (key, value) = part.split_once('=').unwrap_or((part, ""));
                (key.to_owned(), value.to_owned())
            };
            self.plugins
                .push((name.to_owned(), options.map(option).collect()));
        }
    }
}

/// Reads the three keys.
pub(crate) fn read(top: &Section<'_>, warnings: &mut Vec<Warning>) -> Result<PluginOptions> {
    let mut read = PluginOptions {
        require_all: top.flag("require_all_plugins")?.unwrap_or(false),
        ..PluginOptions::default()
    };
    if let Some(plugins) = top.section("plugins")? {
        for (name, value) in plugins.others() {
            let section = Section::new(value, plugins.path(name))?;
            let mut options = Vec::new();
            for (key, value) in section.others() {
                let text = match value {
                    serde_json::Value::String(text) => text.clone(),
                    serde_json::Value::Bool(_) | serde_json::Value::Number(_) => value.to_string(),
                    _ => {
                        let what = "a text, a number or a truth value belongs here";
                        return fault(section.path(key), what);
                    }
                };
                options.push((key.to_owned(), text));
            }
            read.plugins.push((name.to_owned(), options));
        }
    }
    let Some(sinks) = top.section("sinks")? else {
        return Ok(read);
    };
    if let Some(types) = sinks.list("types")? {
        for (path, value) in types {
            match value.as_str() {
                Some(name) if SINKS.contains(&name) => read.sinks.push(name.to_owned()),
                Some(name) => {
                    let known = SINKS.join(", ");
                    let similar = similar(name, &SINKS);
                    return fault(path, format!("`{name}` is none of {known}{similar}"));
                }
                None => return fault(path, "a text belongs here"),
            }
        }
    }
    read.directory = sinks.text("dir")?.map(PathBuf::from);
    sinks.finish()?;
    if read.sinks.iter().any(|name| name == "file") && read.directory.is_none() {
        return fault(
            "sinks.dir",
            "the key is missing; the sink `file` needs a directory",
        );
    }
    if read.plugins.is_empty() {
        warnings.push(Warning {
            key: "sinks".to_owned(),
            text: "no plugin is listed that would write there".to_owned(),
        });
    }
    Ok(read)
}
