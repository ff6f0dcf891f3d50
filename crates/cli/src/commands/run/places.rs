//! The files that plugins in the processes of a program write: whether they can be is said before it runs, and its report reads
//! them when it has ended.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rocjitsu_config::PluginOptions;
use rocjitsu_plugins::{Chosen, Content, Written, numbered, writable};

use crate::cli::UsageError;

/// Where this command finds a file that the program has under a path. `None`: its folder is not there.
type Find<'a> = &'a dyn Fn(&Path) -> Option<PathBuf>;

/// The files, by their names in the program.
#[derive(Debug, Default)]
pub struct Places {
    files: Vec<Written>,
}

impl Places {
    /// Those of the plugins of a program, which all of its processes have; checked, and those that several processes write emptied.
    /// `loads`: loadable ones are this command's as well, which it may ask what they write.
    ///
    /// # Errors
    ///
    /// One that cannot be written.
    pub fn new(plugins: &PluginOptions, loads: bool, find: Find<'_>) -> Result<Places, UsageError> {
        let chosen = Chosen::configured(plugins).map_err(UsageError)?;
        let files = chosen.files(loads);
        let made = chosen.sinks.directory.as_deref();
        for file in &files {
            let name = numbered(&file.name, std::process::id().into());
            if name.parent().is_some() && name.parent() == made {
                // The folder of sinks is made by the first process.
                let there = find(&name).is_some_and(|path| path.parent().is_some_and(Path::exists));
                if !there {
                    continue;
                }
            }
            let refused = |why: &dyn std::fmt::Display| {
                UsageError(format!("cannot write {}: {why}", name.display()))
            };
            let path = find(&name).ok_or_else(|| refused(&"its folder is not there"))?;
            writable(&path).map_err(|error| refused(&error))?;
            if file.content == Content::Records && !file.name.contains("%p") && path.is_file() {
                File::create(&path).map_err(|error| refused(&error))?;
            }
        }
        Ok(Places { files })
    }

    /// The files that a process has written since a time, as this command finds them.
    pub fn written(&self, process: u64, since: SystemTime, find: Find<'_>) -> Vec<PathBuf> {
        // Coverage is for other tools.
        let paths = self.files.iter();
        let paths = paths.filter(|file| file.content != Content::Lcov);
        let paths = paths.filter_map(|file| find(&numbered(&file.name, process)));
        let mut all: Vec<PathBuf> = Vec::new();
        for path in paths {
            let is_new = std::fs::metadata(&path).is_ok_and(|there| {
                let time = there.modified().is_ok_and(|time| time >= since);
                there.is_file() && there.len() > 0 && time
            });
            if is_new && !all.contains(&path) {
                all.push(path);
            }
        }
        all
    }
}
