//! Folders in which the processes of a program leave what the command looks at when it has ended.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};

use super::absolute;

/// A folder that goes with the command.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// One of its own in the folder for temporary files, for this user alone.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub fn new() -> Result<Folder> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let name = format!(
            "rocjitsu-{}-{}",
            std::process::id(),
            since.unwrap_or_default().as_nanos()
        );
        let path = absolute(&std::env::temp_dir().join(name))?;
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Folder(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
