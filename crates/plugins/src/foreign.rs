//! Loadable plugins.
use crate::options::Options;
use rocjitsu_observe::Plugin;
use std::path::Path;
pub fn load(path: &Path, _: &Options) -> Result<Box<dyn Plugin>, String> {
    Err(format!("cannot load {}", path.display()))
}
