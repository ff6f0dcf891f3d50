//! Which plugins a run has, with which options, and where their records go.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rocjitsu_observe::{Lines, Plugin, Plugins, Sink};

use crate::memcheck::MemoryWishes;
use crate::options::Options;
use crate::{coverage, fidelity, foreign, hazard, logging, memcheck, mix, race, throughput, trace};

/// The built-in plugins.
pub const NAMES: [&str; 9] = [
    "throughput",
    "instruction_mix",
    "logging",
    "trace",
    "race",
    "memcheck",
    "data_hazard",
    "coverage",
    "fidelity",
];

/// A plugin that a run asks for: `NAME[:key=value,...]`. A name with a slash or ending in `.so` is a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Its name, or the path of a loadable one.
    pub name: String,
    /// Its options. `file` names a file for its records, in place of the sinks of the run.
    pub options: Options,
    /// Whether a run without it is an error; otherwise it is a warning.
    pub required: bool,
}

impl FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        if name.is_empty() {
            return Err("a plugin has a name: NAME[:key=value,...]".to_owned());
        }
        let mut options = Options::default();
        for part in rest.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            options.set(key, value);
        }
        Ok(Selection {
            name: name.to_owned(),
            options,
            required: true,
        })
    }
}

/// A kind of place for records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkKind {
    /// Standard error.
    Stderr,
    /// Standard output.
    Stdout,
    /// A file for each plugin, `NAME.jsonl` in [`Sinks::directory`].
    File,
}

impl FromStr for SinkKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "stderr" => Ok(SinkKind::Stderr),
            "stdout" => Ok(SinkKind::Stdout),
            "file" => Ok(SinkKind::File),
            other => Err(format!("`{other}` is none of stderr, stdout, file")),
        }
    }
}

/// Where records go.
#[derive(Clone, Default)]
pub struct Sinks {
    /// The kinds; none is standard error.
    pub kinds: Vec<SinkKind>,
    /// Directory for files.
    pub directory: Option<PathBuf>,
    /// A place for all records beside these and beside plugins' own files.
    pub also: Option<Sink>,
    /// What takes the place of the standard streams while something else is drawn on the terminal.
    pub terminal: Option<Sink>,
}

/// All that a run asks for.
#[derive(Clone, Default)]
pub struct Chosen {
    /// The plugins.
    pub plugins: Vec<Selection>,
    /// Where records go.
    pub sinks: Sinks,
}

impl Chosen {
    /// What a configuration asks for.
    ///
    /// # Errors
    /// A kind of sink that is none.
    pub fn configured(options: &rocjitsu_config::PluginOptions) -> Result<Chosen, String> {
        let required = options.require_all;
        let plugins = options.plugins.iter().map(|(name, settings)| {
            let mut options = Options::default();
            for (key, value) in settings {
                options.set(key, value);
            }
            Selection {
                name: name.clone(),
                options,
                required,
            }
        });
        let kinds = options.sinks.iter().map(|name| name.parse());
        Ok(Chosen {
            plugins: plugins.collect(),
            sinks: Sinks {
                kinds: kinds.collect::<Result<_, _>>()?,
                directory: options.directory.clone(),
                also: None,
                terminal: None,
            },
        })
    }
}

impl Chosen {
    /// What the plugins ask of the memory of a run.
    ///
    /// # Errors
    /// An option that has no such value.
    pub fn memory(&self) -> Result<MemoryWishes, PluginError> {
        let mut all = MemoryWishes::default();
        let of = |s: &&Selection| s.name == "memcheck";
        for selection in self.plugins.iter().filter(of) {
            let wishes = MemoryWishes::of(&selection.options).map_err(|what| PluginError {
                plugin: selection.name.clone(),
                what,
            })?;
            all.redzone = all.redzone.max(wishes.redzone);
            all.touches |= wishes.touches;
        }
        Ok(all)
    }
}

/// A plugin that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("plugin `{plugin}`: {what}")]
pub struct PluginError {
    /// Its name.
    pub plugin: String,
    /// Why.
    pub what: String,
}

/// Makes the host with all plugins of a run. Those that cannot be made are errors if they are required, else
/// they are left out and told to `warn`. Records that have no place to go are an error either way.
///
/// # Errors
/// The first plugin that cannot be made, or whose records cannot be written.
pub fn build(chosen: &Chosen, mut warn: impl FnMut(&PluginError)) -> Result<Plugins, PluginError> {
    let mut plugins = Plugins::new();
    for selection in &chosen.plugins {
        let error = |what| PluginError {
            plugin: selection.name.clone(),
            what,
        };
        match with_sinks(selection, &chosen.sinks) {
            Ok(plugin) => plugins.add(selection.name.clone(), plugin.map_err(error)?),
            Err(what) if selection.required => return Err(error(what)),
            Err(what) => warn(&error(what)),
        }
    }
    Ok(plugins)
}

/// Whether a plugin can be made, without a place for its records.
///
/// # Errors
/// What is wrong with its name or options, or with the file of a loadable one.
pub fn check(selection: &Selection) -> Result<(), PluginError> {
    let mut selection = selection.clone();
    if !selection.is_file() {
        selection.options.text("file");
    }
    match make(&selection, Lines::new(Vec::new())) {
        Ok(_) => Ok(()),
        Err(what) => Err(PluginError {
            plugin: selection.name,
            what,
        }),
    }
}

impl Selection {
    /// Whether its name is the path of a loadable plugin.
    pub fn is_file(&self) -> bool {
        is_file(&self.name)
    }
}

/// Whether a name is the path of a loadable plugin.
fn is_file(name: &str) -> bool {
    name.contains('/') || name.ends_with(".so")
}

/// Makes a plugin with the sinks that it asks for. The outer error says what is wrong with the plugin, the inner one with
/// the places for its records.
fn with_sinks(
    selection: &Selection,
    sinks: &Sinks,
) -> Result<Result<Box<dyn Plugin>, String>, String> {
    if is_file(&selection.name) {
        return make(selection, Lines::new(Vec::new())).map(Ok);
    }
    let mut selection = selection.clone();
    let file = selection.options.text("file");
    // Nothing is written to before it is known that there is such a plugin.
    make(&selection, Lines::new(Vec::new()))?;
    let places = match file {
        Some(path) => open(Path::new(&path)).map(|sink| vec![sink]),
        None => places(&selection.name, sinks),
    };
    let mut places = match places {
        Ok(places) => places,
        Err(what) => return Ok(Err(what)),
    };
    places.extend(sinks.also.clone());
    make(&selection, Lines::new(places)).map(Ok)
}

/// Makes one plugin, whose records go to `lines`.
///
/// # Errors
/// What is wrong with its name or options.
pub fn make(selection: &Selection, lines: Lines) -> Result<Box<dyn Plugin>, String> {
    let options = selection.options.clone();
    let name = selection.name.as_str();
    if is_file(name) {
        return foreign::load(Path::new(name), &options);
    }
    if !NAMES.contains(&name) {
        return Err(format!(
            "there is none of this name; there are {}, and files with a path",
            NAMES.join(", ")
        ));
    }
    match name {
        "throughput" => throughput::make(options, lines),
        "instruction_mix" => mix::make(options, lines),
        "logging" => logging::make(options, lines),
        "trace" => trace::make(options, lines),
        "race" => race::make(options, lines),
        "memcheck" => memcheck::make(options, lines),
        "data_hazard" => hazard::make(options, lines),
        "fidelity" => fidelity::make(options, lines),
        _ => coverage::make(options, lines),
    }
}

/// A new file; `%p` in its name stands for the process's number.
fn open(path: &Path) -> Result<Sink, String> {
    let name = path.to_string_lossy();
    let path = match name.contains("%p") {
        true => PathBuf::from(name.replace("%p", &std::process::id().to_string())),
        false => path.to_owned(),
    };
    Sink::file(&path).map_err(|e| format!("cannot write {}: {e}", path.display()))
}

fn places(name: &str, sinks: &Sinks) -> Result<Vec<Sink>, String> {
    let standard = |is_terminal: bool, stream: Sink| match &sinks.terminal {
        Some(instead) if is_terminal => instead.clone(),
        _ => stream,
    };
    let stderr = || standard(io::stderr().is_terminal(), Sink::Stderr);
    let mut all = Vec::new();
    for kind in &sinks.kinds {
        all.push(match kind {
            SinkKind::Stderr => stderr(),
            SinkKind::Stdout => standard(io::stdout().is_terminal(), Sink::Stdout),
            SinkKind::File => {
                let directory = sinks.directory.as_deref().unwrap_or(Path::new("."));
                std::fs::create_dir_all(directory).map_err(|e| {
                    format!("cannot make the directory {}: {e}", directory.display())
                })?;
                open(&directory.join(format!("{name}.jsonl")))?
            }
        });
    }
    if all.is_empty() {
        all.push(stderr());
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_has_a_name_and_options() {
        let parsed: Selection = "trace:wave=0,timeline=/tmp/t.json,short".parse().unwrap();
        assert_eq!(parsed.name, "trace");
        let options: Vec<_> = parsed.options.iter().collect();
        assert_eq!(
            options,
            [("short", ""), ("timeline", "/tmp/t.json"), ("wave", "0")]
        );
        assert!(Selection::from_str(":a=b").is_err());
    }

    #[test]
    fn unknown_plugins_and_options_are_told_by_name() {
        let chosen = |text: &str, required| Chosen {
            plugins: vec![Selection {
                required,
                ..text.parse().unwrap()
            }],
            sinks: Sinks::default(),
        };
        for (text, part) in [
            ("trase", "there is none of this name"),
            ("throughput:loud=on", "no option `loud`"),
            ("/nowhere/x.so", "/nowhere/x.so"),
        ] {
            let error = build(&chosen(text, true), |_| {}).expect_err(text);
            assert!(error.to_string().contains(part), "{error}");
            let mut warned = Vec::new();
            let plugins = build(&chosen(text, false), |e| warned.push(e.to_string())).unwrap();
            assert!(plugins.is_empty() && warned == [error.to_string()]);
        }
    }
}
