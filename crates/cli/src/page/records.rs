//! What a page is made of: reports of `run` and `launch`, JSON Lines of plugins, time lines of `trace`.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use serde_json::{Map, Value};

/// A JSON object.
pub type Object = Map<String, Value>;

/// A stretch of time on a track.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// The track, such as a queue.
    pub track: String,
    /// What happened.
    pub name: String,
    /// Seconds.
    pub start: f64,
    /// Seconds.
    pub seconds: f64,
}

/// Records from any number of files.
#[derive(Clone, Debug, Default)]
pub struct Records {
    files: Vec<String>,
    /// Reports of `run`.
    pub runs: Vec<Object>,
    /// Reports of `launch`.
    pub launches: Vec<Object>,
    /// Records of plugins, by plugin.
    pub plugins: BTreeMap<String, Vec<Object>>,
    /// Time lines.
    pub slices: Vec<Slice>,
}

impl Records {
    /// The names of the files read.
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// Reads a file's text: one JSON value, or one on each line.
    ///
    /// # Errors
    ///
    /// Text that is no JSON, values that no command or plugin writes.
    pub fn read(&mut self, name: &str, text: &str) -> Result<()> {
        self.files.push(name.to_owned());
        if text.trim().is_empty() {
            bail!("{name} holds no records");
        }
        if let Ok(value) = serde_json::from_str(text) {
            return self.add(name, value);
        }
        for (at, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let value = serde_json::from_str(line);
            let value = value.map_err(|e| anyhow::anyhow!("{name}, line {}: {e}", at + 1))?;
            self.add(&format!("{name}, line {}", at + 1), value)?;
        }
        Ok(())
    }

    /// Adds a value.
    ///
    /// # Errors
    ///
    /// A value that no command or plugin writes.
    pub fn add(&mut self, name: &str, value: Value) -> Result<()> {
        let Value::Object(mut object) = value else {
            bail!("{name} is neither a report nor a record of a plugin");
        };
        if let Some(Value::Array(records)) = object.remove("records") {
            for record in records {
                self.add(name, record)?;
            }
        }
        let plugin = match object.remove("plugin") {
            Some(Value::String(plugin)) => Some(plugin),
            _ => of_schema(&object),
        };
        if let Some(plugin) = plugin {
            self.plugins.entry(plugin).or_default().push(object);
        } else if let Some(Value::Array(events)) = object.get("traceEvents") {
            let slices = slices(events);
            self.slices.extend(slices);
        } else if object.contains_key("launch") || object.contains_key("file") {
            self.launches.push(object);
        } else if object.contains_key("kernels") && object.contains_key("process") {
            self.slices.extend(dispatches(&object));
            self.runs.push(object);
        } else {
            bail!("{name} is neither a report nor a record of a plugin");
        }
        Ok(())
    }
}

/// The plugin of a record that names a schema, such as `rocjitsu.throughput.v2`, in place of one.
fn of_schema(object: &Object) -> Option<String> {
    let (name, version) = text(object, "schema")
        .strip_prefix("rocjitsu.")?
        .rsplit_once(".v")?;
    let is_number = !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| name.to_owned())
}

/// A number, whatever kind it is of.
pub fn number(object: &Object, key: &str) -> f64 {
    object.get(key).and_then(Value::as_f64).unwrap_or(0.0)
}

/// A text, or nothing.
pub fn text<'a>(object: &'a Object, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or("")
}

/// A list of objects; what is no object is left out.
pub fn objects<'a>(object: &'a Object, key: &str) -> impl Iterator<Item = &'a Object> {
    let list = object.get(key).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_object)
}

/// The complete events of a time line, in microseconds there.
fn slices(events: &[Value]) -> Vec<Slice> {
    let objects: Vec<&Object> = events.iter().filter_map(Value::as_object).collect();
    let id = |event: &Object| (number(event, "pid") as i64, number(event, "tid") as i64);
    let mut tracks = BTreeMap::new();
    let mut groups = BTreeMap::new();
    for event in objects.iter().filter(|event| text(event, "ph") == "M") {
        let name = event.get("args").and_then(|args| args.get("name"));
        let name = name.and_then(Value::as_str).unwrap_or("");
        match text(event, "name") {
            "thread_name" => drop(tracks.insert(id(event), name)),
            "process_name" => drop(groups.insert(id(event).0, name)),
            _ => {}
        }
    }
    let slice = |event: &&Object| {
        let (group, track) = id(event);
        let track = match (tracks.get(&(group, track)), groups.get(&group)) {
            (Some(name), _) => (*name).to_owned(),
            (None, Some(name)) => format!("{name} {track}"),
            (None, None) => format!("{group}.{track}"),
        };
        Slice {
            track,
            name: text(event, "name").to_owned(),
            start: number(event, "ts") / 1e6,
            seconds: number(event, "dur") / 1e6,
        }
    };
    let complete = objects.iter().filter(|event| text(event, "ph") == "X");
    complete.map(slice).collect()
}

/// The dispatches of a run's report.
fn dispatches(run: &Object) -> Vec<Slice> {
    let slice = |dispatch: &Object| Slice {
        track: format!("process {}", number(run, "process")),
        name: text(dispatch, "kernel").to_owned(),
        start: number(dispatch, "start"),
        seconds: number(dispatch, "seconds"),
    };
    objects(run, "dispatches").map(slice).collect()
}
