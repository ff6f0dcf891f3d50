//! The plugins of a program: what is wrong with them is said before it runs, and what they find counts for the status.

use std::path::Path;

use anyhow::{Context, Result};
use rocjitsu_plugins::{Selection, check};

use super::folder::Folder;
use crate::cli::UsageError;

/// Where the processes of the program note that a plugin has failed, or has found what it is to fail for.
#[derive(Debug)]
pub struct Findings(Folder);

impl Findings {
    /// A place for them.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub fn new() -> Result<Findings> {
        Folder::new().map(Findings)
    }

    /// The folder, for the variable that tells the program of it.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    /// Whether there are any.
    ///
    /// # Errors
    ///
    /// The folder cannot be read, for example because the program removed it.
    pub fn any(&self) -> Result<bool> {
        let mut entries = std::fs::read_dir(self.folder()).with_context(|| {
            let folder = self.folder().display();
            format!("whether plugins found something is not known: {folder} cannot be read")
        })?;
        Ok(entries.next().is_some())
    }
}

/// Refuses plugins that cannot be made: in the program that would be a warning, and it would run unwatched. Of loadable ones
/// in another root only the file is looked for, where `there` says that it is.
///
/// # Errors
///
/// The first plugin that cannot be made.
pub fn refuse(
    plugins: &[Selection],
    there: Option<&dyn Fn(&Path) -> bool>,
) -> Result<(), UsageError> {
    for plugin in plugins {
        let path = Path::new(&plugin.name);
        match there {
            Some(there) if plugin.is_file() => {
                if !there(path) {
                    let text = format!(
                        "plugin `{}`: there is no such file in the root",
                        plugin.name
                    );
                    return Err(UsageError(text));
                }
            }
            _ => check(plugin).map_err(|error| UsageError(error.to_string()))?,
        }
    }
    Ok(())
}
