//! The kernels that are tested.

use std::path::{Path, PathBuf};

use rocjitsu_isa::Target;

/// Descriptions in a folder of `data` that have a code object for a target, in alphabetical order.
pub fn descriptions(folder: &str, target: Target) -> Vec<PathBuf> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../data")
        .join(folder)
        .join("built");
    let mut found: Vec<PathBuf> = std::fs::read_dir(built)
        .expect("the data folder is part of the repository")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .filter(|path| path.with_extension(format!("{target}.hsaco")).exists())
        .collect();
    found.sort();
    found
}
