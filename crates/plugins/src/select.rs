//! Which plugins a run has, with which options, and where their records go.

use std::io::{self, IsTerminal};
use std::os::unix::fs::MetadataExt;
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
            name: own_name(name),
            options,
            required: true,
        })
    }
}

/// A plugin's name as it is here: AMD writes some with a dash.
fn own_name(name: &str) -> String {
    let ours = name.replace('-', "_");
    match NAMES.contains(&ours.as_str()) {
        true => ours,
        false => name.to_owned(),
    }
}

/// A kind of place for records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkKind {
    /// Standard error.
    Stderr,
    /// Standard output.
    Stdout,
    /// A file for each plugin, `NAME.log` in [`Sinks::directory`].
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
    /// Whether other processes of the run write to the same files, which somebody has emptied before: records go to their ends.
    /// Files with the process's number in their names are new all the same.
    pub append: bool,
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
                name: own_name(name),
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
                ..Sinks::default()
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
/// they are left out and told to `warn`. Records and documents that have no place to go are an error either way. Plugins that
/// name the same file for their records share it.
///
/// # Errors
/// The first plugin that cannot be made, or whose records cannot be written.
pub fn build(chosen: &Chosen, mut warn: impl FnMut(&PluginError)) -> Result<Plugins, PluginError> {
    let mut plugins = Plugins::new();
    let mut opened = Opened::default();
    for selection in &chosen.plugins {
        let error = |what| PluginError {
            plugin: selection.name.clone(),
            what,
        };
        match with_sinks(selection, &chosen.sinks, &mut opened) {
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
    let made = Ready::new(selection).and_then(|ready| ready.make(Lines::new(Vec::new())));
    match made {
        Ok(_) => Ok(()),
        Err(what) => Err(PluginError {
            plugin: selection.name.clone(),
            what,
        }),
    }
}

/// What `%p` in the name of a file stands for: a process's number.
pub fn numbered(name: &str, process: u64) -> PathBuf {
    PathBuf::from(name.replace("%p", &process.to_string()))
}

/// Checks that a file can be written, before a run that may take long, and leaves what is there as it is. What is no regular
/// file (a pipe, a terminal) is not touched.
///
/// # Errors
/// It cannot.
pub fn writable(path: &Path) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    match std::fs::metadata(path) {
        Ok(there) if there.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(there) if !there.is_file() => Ok(()),
        Ok(_) => options.append(true).open(path).map(drop),
        Err(_) => {
            options.append(true).create(true).open(path)?;
            std::fs::remove_file(path)
        }
    }
}

/// What a plugin writes to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Records, which several plugins and processes may write one behind the other.
    Records,
    /// A time line, written as a whole at the end.
    Timeline,
    /// Coverage for lcov, written as a whole at the end.
    Lcov,
}

/// A file that a plugin writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its name, in which `%p` may stand for the process's number.
    pub name: String,
    /// What is in it.
    pub content: Content,
}

/// Options that name files which are written at the end.
const DOCUMENTS: [(&str, Content); 2] = [("timeline", Content::Timeline), ("lcov", Content::Lcov)];

impl Selection {
    /// Files of a built-in plugin that are written at the end.
    fn documents(&self) -> impl Iterator<Item = Written> {
        let all = DOCUMENTS.iter().filter(|_| !self.is_file());
        all.filter_map(|&(key, content)| {
            let (_, name) = self.options.iter().find(|(known, _)| *known == key)?;
            let name = name.to_owned();
            Some(Written { name, content })
        })
    }
}

impl Chosen {
    /// All files that the plugins write by their options and the sinks. What options of loadable plugins mean they have to be
    /// loaded for; where `loads` is not set those are left out.
    pub fn files(&self, loads: bool) -> Vec<Written> {
        let mut all = Vec::new();
        let directory = self.sinks.directory.as_deref().unwrap_or(Path::new("."));
        for selection in &self.plugins {
            let loaded = match selection.is_file() {
                true if !loads => continue,
                true => foreign::load(Path::new(&selection.name)).ok(),
                false => None,
            };
            if selection.is_file() && !loaded.as_ref().is_some_and(|l| l.has_records()) {
                continue;
            }
            let is_ours = loaded.is_none_or(|loaded| loaded.leaves_file());
            let mut options = selection.options.iter();
            let own = options.find(|(key, _)| *key == "file" && is_ours);
            let name = match own {
                Some((_, name)) => Some(name.to_owned()),
                None if self.sinks.kinds.contains(&SinkKind::File) => {
                    let file = directory.join(format!("{}.log", selection.short_name()));
                    Some(file.to_string_lossy().into_owned())
                }
                None => None,
            };
            let content = Content::Records;
            all.extend(name.map(|name| Written { name, content }));
            all.extend(selection.documents());
        }
        all
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

/// A plugin that can be made but for what `create` of a loadable one may find.
struct Ready {
    selection: Selection,
    /// The file for its records, if it names one.
    file: Option<String>,
    loaded: Option<(foreign::Loaded, String)>,
}

impl Ready {
    fn new(selection: &Selection) -> Result<Ready, String> {
        let mut selection = selection.clone();
        let named = |key: &str, name: &str| match name {
            "" => Err(format!("the option `{key}` takes the name of a file")),
            name => Ok(name.to_owned()),
        };
        if selection.is_file() {
            let loaded = foreign::load(Path::new(&selection.name))?;
            let file = match loaded.leaves_file() {
                true => selection.options.text("file"),
                false => None,
            };
            let file = file.map(|name| named("file", &name)).transpose()?;
            let configuration = loaded.configure(&selection.options)?;
            return Ok(Ready {
                selection,
                file,
                loaded: Some((loaded, configuration)),
            });
        }
        let file = selection.options.text("file");
        let file = file.map(|name| named("file", &name)).transpose()?;
        for (key, _) in DOCUMENTS {
            if let Some(name) = selection.options.text(key) {
                let path = numbered(&named(key, &name)?, std::process::id().into());
                selection.options.set(key, path.to_string_lossy());
            }
        }
        built_in(&selection, Lines::new(Vec::new()))?;
        Ok(Ready {
            selection,
            file,
            loaded: None,
        })
    }

    /// Makes it; its records go to `lines`.
    fn make(self, lines: Lines) -> Result<Box<dyn Plugin>, String> {
        match self.loaded {
            Some((loaded, configuration)) => loaded.create(&configuration, lines),
            None => built_in(&self.selection, lines),
        }
    }

    /// Whether it writes records.
    fn has_records(&self) -> bool {
        let loaded = self.loaded.as_ref();
        loaded.is_none_or(|(loaded, _)| loaded.has_records())
    }
}

impl Selection {
    /// Its name, of a file without folder and ending.
    fn short_name(&self) -> String {
        let stem = Path::new(&self.name).file_stem();
        match stem {
            Some(stem) if self.is_file() => stem.to_string_lossy().into_owned(),
            _ => self.name.clone(),
        }
    }
}

/// Makes a plugin with the sinks that it asks for. The outer error says what is wrong with the plugin, the inner one with
/// the places for its records.
fn with_sinks(
    selection: &Selection,
    sinks: &Sinks,
    opened: &mut Opened,
) -> Result<Result<Box<dyn Plugin>, String>, String> {
    // Nothing is written to before it is known that there is such a plugin.
    let ready = Ready::new(selection)?;
    let places = match &ready.file {
        Some(name) => opened.records(name, sinks.append).map(|sink| vec![sink]),
        None if ready.has_records() => places(&selection.short_name(), sinks, opened),
        None => Ok(Vec::new()),
    };
    let mut documents = ready.selection.documents();
    let checked = documents.try_for_each(|file| opened.document(Path::new(&file.name)));
    drop(documents);
    let places = places.and_then(|places| checked.map(|()| places));
    let mut places = match places {
        Ok(places) => places,
        Err(what) => return Ok(Err(what)),
    };
    if ready.has_records() {
        places.extend(sinks.also.clone());
    }
    ready.make(Lines::new(places)).map(Ok)
}

/// Makes one plugin, whose records go to `lines`.
///
/// # Errors
/// What is wrong with its name or options.
pub fn make(selection: &Selection, lines: Lines) -> Result<Box<dyn Plugin>, String> {
    Ready::new(selection)?.make(lines)
}

fn built_in(selection: &Selection, lines: Lines) -> Result<Box<dyn Plugin>, String> {
    let options = selection.options.clone();
    let name = selection.name.as_str();
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

/// The files of a run's plugins, by device and inode: one is opened once, whatever it is called.
#[derive(Default)]
struct Opened {
    records: Vec<((u64, u64), Sink)>,
    documents: Vec<PathBuf>,
}

impl Opened {
    /// A file for records; `%p` in its name stands for the process's number.
    fn records(&mut self, name: &str, append: bool) -> Result<Sink, String> {
        let path = numbered(name, std::process::id().into());
        let failed = |e: io::Error| format!("cannot write {}: {e}", path.display());
        let identity = |path: &Path| {
            let there = std::fs::metadata(path).ok()?;
            there.is_file().then(|| (there.dev(), there.ino()))
        };
        if let Some(this) = identity(&path)
            && let Some((_, sink)) = self.records.iter().find(|(known, _)| *known == this)
        {
            return Ok(sink.clone());
        }
        if self.documents.contains(&path) {
            return Err(format!("{} is written by another option", path.display()));
        }
        let sink = match append && !name.contains("%p") {
            true => Sink::appending(&path),
            false => Sink::file(&path),
        };
        let sink = sink.map_err(failed)?;
        if let Some(this) = identity(&path) {
            self.records.push((this, sink.clone()));
        }
        Ok(sink)
    }

    /// A file that is written at the end.
    fn document(&mut self, path: &Path) -> Result<(), String> {
        writable(path).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
        let known = std::fs::metadata(path).map(|there| (there.dev(), there.ino()));
        let is_known = known.is_ok_and(|this| self.records.iter().any(|(known, _)| *known == this));
        let is_plain = !path.exists() || path.is_file();
        if is_known || is_plain && self.documents.iter().any(|other| other == path) {
            return Err(format!("{} is written by another option", path.display()));
        }
        self.documents.push(path.to_owned());
        Ok(())
    }
}

fn places(name: &str, sinks: &Sinks, opened: &mut Opened) -> Result<Vec<Sink>, String> {
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
                let file = directory.join(format!("{name}.log"));
                opened.records(&file.to_string_lossy(), sinks.append)?
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
        for (text, name) in [
            ("instruction-mix", "instruction_mix"),
            ("./a-b.so", "./a-b.so"),
        ] {
            assert_eq!(Selection::from_str(text).unwrap().name, name);
        }
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
