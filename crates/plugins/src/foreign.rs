//! Loadable plugins: shared objects with the C interface of `include/rocjitsu_plugin.h`.

mod abi;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rocjitsu_observe::{
    Access, Barrier, Code, Concurrency, Dispatch, Ended, Events, Lines, Outcome, Plugin, State,
    Step, Touch, Wave, Workgroup,
};
use serde_json::{Map, Value};

use crate::options::Options;
use abi::{Description, OwnHost};

/// Longest text of an error that a plugin may write.
const ERROR_BYTES: usize = 512;

/// A plugin that is at work. The shared object is never unloaded.
struct Foreign {
    plugin: &'static Description,
    this: *mut c_void,
    /// What the plugin was given, as long as it is there.
    host: *mut OwnHost,
    /// Whether it made `this` and `host`; what workers are given of a plugin that may be called concurrently calls it only.
    owns: bool,
}

// SAFETY: the interface says that callbacks may come from any thread, one at a time. Workers have copies only of a
// plugin that says that they may also come at once. What the host has is shared by threads (`Lines`) or not changed.
unsafe impl Send for Foreign {}

/// A shared object that describes a plugin.
pub struct Loaded {
    plugin: &'static Description,
    schema: Value,
    /// The file's name without its ending.
    name: String,
}

/// Loads a plugin, without anything of it being called but what describes it.
pub fn load(path: &Path) -> Result<Loaded, String> {
    // The loader searches for names without a slash.
    let path = std::path::absolute(path).map_err(|e| e.to_string())?;
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|e| e.to_string())?;
    // SAFETY: `name` is a string. Initialisers of the object run; the user asked for it by name.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return Err(format!(
            "cannot load {}: {}",
            path.display(),
            loader_error()
        ));
    }
    // SAFETY: `handle` was given by `dlopen`, the symbol's name is a string.
    let entry = unsafe { libc::dlsym(handle, c"rocjitsu_plugin_entry".as_ptr()) };
    if entry.is_null() {
        return Err(format!(
            "{} has no symbol rocjitsu_plugin_entry: it is no plugin",
            path.display()
        ));
    }
    // SAFETY: the symbol is the function that the header declares.
    let entry: extern "C" fn() -> *const Description = unsafe { std::mem::transmute(entry) };
    let description = entry();
    if description.is_null() {
        return Err(format!("{} describes no plugin", path.display()));
    }
    // SAFETY: every version of the description begins with the version.
    let version = unsafe { description.cast::<u32>().read() };
    if version != abi::VERSION {
        return Err(format!(
            "{} is a plugin of version {version} of the interface; this rocjitsu has version {}",
            path.display(),
            abi::VERSION
        ));
    }
    // SAFETY: it is of this version, and stays where it is (header).
    let plugin: &'static Description = unsafe { &*description };
    let schema = match plugin.schema {
        // SAFETY: the header says that it is a string or null.
        text if !text.is_null() => unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned(),
        _ => String::new(),
    };
    let schema = match schema.as_str() {
        "" => Value::Null,
        text => serde_json::from_str(text).map_err(|e| format!("its schema is no JSON: {e}"))?,
    };
    if plugin.threads > abi::CONCURRENT {
        return Err(format!(
            "it has {} for `threads`, which is none of rocjitsu_threads",
            plugin.threads
        ));
    }
    if Events::from_bits(plugin.events).is_none() {
        return Err(format!(
            "it has {:#x} for `events`, which are not all events of version {}.{}",
            plugin.events,
            abi::VERSION,
            abi::MINOR
        ));
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    Ok(Loaded {
        plugin,
        schema,
        name: stem.into_owned(),
    })
}

impl Loaded {
    /// Whether it may write records (since minor version 1).
    pub fn has_records(&self) -> bool {
        self.plugin.minor > 0
    }

    /// Whether an option `file` is the host's: where its records go.
    pub fn leaves_file(&self) -> bool {
        self.has_records() && self.property("file").is_none()
    }

    fn properties(&self) -> Option<&Map<String, Value>> {
        self.schema.get("properties")?.as_object()
    }

    fn property(&self, key: &str) -> Option<&Value> {
        self.properties()?.get(key)
    }

    /// The configuration as JSON, each option as the type that the schema has for it.
    pub fn configure(&self, options: &Options) -> Result<String, String> {
        let mut configuration = Map::new();
        for (key, text) in options.iter() {
            let property = self.property(key).ok_or_else(|| {
                let known = self.properties().into_iter().flat_map(Map::keys);
                let known: Vec<&str> = known.map(String::as_str).collect();
                format!("there is no option `{key}`; it has {}", known.join(", "))
            })?;
            let kind = property
                .get("type")
                .and_then(Value::as_str)
                .unwrap_or("string");
            let value = match kind {
                "string" => Some(Value::from(text)),
                "integer" => text.parse::<i64>().ok().map(Value::from),
                "number" => text.parse::<f64>().ok().map(Value::from),
                "boolean" => match text {
                    "" | "true" | "on" => Some(Value::from(true)),
                    "false" | "off" => Some(Value::from(false)),
                    _ => None,
                },
                other => return Err(format!("its schema has the type `{other}` for `{key}`")),
            };
            let value = value
                .ok_or_else(|| format!("`{text}` is no {kind}, as the option `{key}` wants"))?;
            configuration.insert(key.to_owned(), value);
        }
        Ok(Value::from(configuration).to_string())
    }

    /// Makes the plugin with a configuration; its records go to `lines`.
    pub fn create(self, configuration: &str, lines: Lines) -> Result<Box<dyn Plugin>, String> {
        let plugin = self.plugin;
        let configuration = CString::new(configuration).map_err(|e| e.to_string())?;
        let mut error = [0 as c_char; ERROR_BYTES];
        let create = plugin.create.ok_or("it has no function `create`")?;
        let mut made = Foreign {
            plugin,
            this: std::ptr::null_mut(),
            host: Box::into_raw(Box::new(OwnHost::new(self.name, lines))),
            owns: true,
        };
        made.this = create(
            made.host.cast(),
            configuration.as_ptr(),
            error.as_mut_ptr(),
            ERROR_BYTES,
        );
        if made.this.is_null() {
            error[ERROR_BYTES - 1] = 0;
            // SAFETY: the array ends with zero.
            let text = unsafe { CStr::from_ptr(error.as_ptr()) }.to_string_lossy();
            return Err(match text.is_empty() {
                true => "it could not be made, and does not say why".to_owned(),
                false => text.into_owned(),
            });
        }
        Ok(Box::new(made))
    }
}

fn loader_error() -> String {
    // SAFETY: it returns a string, or null.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no reason given".to_owned();
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

impl Drop for Foreign {
    fn drop(&mut self) {
        if !self.owns {
            return;
        }
        if let (Some(destroy), false) = (self.plugin.destroy, self.this.is_null()) {
            destroy(self.this);
        }
        // SAFETY: it was made by `Box::into_raw`, and the plugin, which knew it, is gone.
        drop(unsafe { Box::from_raw(self.host) });
    }
}

impl Foreign {
    fn outcome(&self, status: c_int) -> Outcome {
        if status == 0 {
            return Ok(());
        }
        let text = self.plugin.error.map(|error| error(self.this));
        match text.filter(|text| !text.is_null()) {
            // SAFETY: the header says that it is a string or null.
            Some(text) => Err(unsafe { CStr::from_ptr(text) }
                .to_string_lossy()
                .into_owned()),
            None => Err(format!("a callback returned {status}")),
        }
    }

    fn with_step(
        &self,
        callback: Option<abi::OnStep>,
        step: &Step<'_>,
        state: Option<&dyn State>,
    ) -> Outcome {
        match callback {
            Some(callback) => {
                abi::with_step(step, state, |step| self.outcome(callback(self.this, step)))
            }
            None => Ok(()),
        }
    }

    fn with_touched(
        &self,
        callback: Option<abi::OnTouched>,
        step: &Step<'_>,
        touched: &[Touch],
        state: &dyn State,
    ) -> Outcome {
        let Some(callback) = callback else {
            return Ok(());
        };
        let all: Vec<abi::Touch> = touched.iter().map(abi::Touch::of).collect();
        abi::with_step(step, Some(state), |step| {
            self.outcome(callback(self.this, step, all.as_ptr(), all.len()))
        })
    }
}

impl Plugin for Foreign {
    fn events(&self) -> Events {
        Events::from_bits(self.plugin.events).unwrap_or(Events::NONE)
    }
    fn concurrency(&self) -> Concurrency {
        match self.plugin.threads {
            abi::ONE_THREAD => Concurrency::OneThread,
            abi::CONCURRENT => Concurrency::PerWorker,
            _ => Concurrency::Serial,
        }
    }
    fn worker(&self) -> Option<Box<dyn Plugin>> {
        let concurrent = self.plugin.threads == abi::CONCURRENT;
        concurrent.then(|| -> Box<dyn Plugin> {
            Box::new(Foreign {
                owns: false,
                ..*self
            })
        })
    }
    fn code_loaded(&mut self, code: &Code<'_>) -> Outcome {
        match self.plugin.code_loaded {
            Some(callback) => self.outcome(callback(self.this, &abi::Code::of(code))),
            None => Ok(()),
        }
    }
    fn dispatch_begins(&mut self, dispatch: &Dispatch<'_>) -> Outcome {
        let Some(callback) = self.plugin.dispatch_begins else {
            return Ok(());
        };
        let kernel = abi::string(dispatch.kernel);
        let target = abi::string(dispatch.target.name());
        let dispatch = abi::Dispatch::of(dispatch, &kernel, &target);
        self.outcome(callback(self.this, &dispatch))
    }
    fn dispatch_ends(&mut self, ended: &Ended<'_>) -> Outcome {
        let Some(callback) = self.plugin.dispatch_ends else {
            return Ok(());
        };
        let error = ended.error.map(abi::string);
        let kernel = abi::string(ended.kernel);
        let end = abi::End::of(ended, &kernel, error.as_deref());
        self.outcome(callback(self.this, &end))
    }
    fn workgroup_begins(&mut self, workgroup: &Workgroup) -> Outcome {
        match self.plugin.workgroup_begins {
            Some(callback) => self.outcome(callback(self.this, &abi::Workgroup::of(workgroup))),
            None => Ok(()),
        }
    }
    fn workgroup_ends(&mut self, workgroup: &Workgroup) -> Outcome {
        match self.plugin.workgroup_ends {
            Some(callback) => self.outcome(callback(self.this, &abi::Workgroup::of(workgroup))),
            None => Ok(()),
        }
    }
    fn wave_begins(&mut self, wave: &Wave) -> Outcome {
        match self.plugin.wave_begins {
            Some(callback) => self.outcome(callback(self.this, &abi::Wave::of(wave))),
            None => Ok(()),
        }
    }
    fn wave_ends(&mut self, wave: &Wave) -> Outcome {
        match self.plugin.wave_ends {
            Some(callback) => self.outcome(callback(self.this, &abi::Wave::of(wave))),
            None => Ok(()),
        }
    }
    fn before(&mut self, step: &Step<'_>, state: &dyn State) -> Outcome {
        self.with_step(self.plugin.before, step, Some(state))
    }
    fn after(&mut self, step: &Step<'_>, state: &dyn State) -> Outcome {
        self.with_step(self.plugin.after, step, Some(state))
    }
    fn reads(&mut self, step: &Step<'_>, touched: &[Touch], state: &dyn State) -> Outcome {
        self.with_touched(self.plugin.reads, step, touched, state)
    }
    fn writes(&mut self, step: &Step<'_>, touched: &[Touch], state: &dyn State) -> Outcome {
        self.with_touched(self.plugin.writes, step, touched, state)
    }
    fn accesses(&mut self, step: &Step<'_>, accesses: &[Access], state: &dyn State) -> Outcome {
        let Some(callback) = self.plugin.accesses else {
            return Ok(());
        };
        let all: Vec<abi::Access> = accesses.iter().map(abi::Access::of).collect();
        abi::with_step(step, Some(state), |step| {
            self.outcome(callback(self.this, step, all.as_ptr(), all.len()))
        })
    }
    fn barrier(&mut self, step: &Step<'_>, barrier: Barrier) -> Outcome {
        let Some(callback) = self.plugin.barrier else {
            return Ok(());
        };
        let (waits, slot, phase) = match barrier {
            Barrier::Signal { slot, phase } => (0, slot, phase),
            Barrier::Wait { slot, phase } => (1, slot, phase),
        };
        abi::with_step(step, None, |step| {
            self.outcome(callback(self.this, step, waits, slot.into(), phase))
        })
    }
    fn matrix(&mut self, step: &Step<'_>) -> Outcome {
        self.with_step(self.plugin.matrix, step, None)
    }
    fn finish(&mut self) -> Outcome {
        let told = match self.plugin.finish {
            Some(callback) => self.outcome(callback(self.this)),
            None => Ok(()),
        };
        // SAFETY: it lives as long as this, and nobody changes it.
        told.and(unsafe { &*self.host }.flush())
    }
}
