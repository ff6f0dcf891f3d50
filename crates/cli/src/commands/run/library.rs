//! Where the library lies that is loaded into programs.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// The file's name.
const NAME: &str = "librocjitsu_preload.so";

/// Finds the library: where `ROCJITSU_PRELOAD` says, beside this executable, in `deps` beside it (where Cargo leaves
/// it), or in `../lib`.
///
/// # Errors
///
/// It is nowhere; the text says how to build it.
pub fn find() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("ROCJITSU_PRELOAD").filter(|path| !path.is_empty()) {
        let path = std::path::absolute(PathBuf::from(path))?;
        if !path.is_file() {
            bail!(
                "ROCJITSU_PRELOAD names {}, which is no file",
                path.display()
            );
        }
        return Ok(path);
    }
    let executable = std::env::current_exe()?;
    let places = places(&executable);
    match places.iter().find(|place| place.is_file()) {
        Some(place) => Ok(place.clone()),
        None => bail!(
            "{NAME} is not there. `cargo build --release -p rocjitsu-preload` builds it. Looked for: {}",
            places
                .iter()
                .map(|place| place.display().to_string())
                .collect::<Vec<_>>()
                .join(", ")
        ),
    }
}

fn places(executable: &Path) -> Vec<PathBuf> {
    let Some(folder) = executable.parent() else {
        return Vec::new();
    };
    let mut places = vec![folder.join(NAME), folder.join("deps").join(NAME)];
    if let Some(parent) = folder.parent() {
        places.push(parent.join("lib").join(NAME));
    }
    places
}

/// The value of LD_PRELOAD: the library before what is there already.
pub fn preload(library: &Path, before: Option<OsString>) -> OsString {
    let mut value = library.as_os_str().to_owned();
    if let Some(before) = before.filter(|before| !before.is_empty()) {
        value.push(OsStr::new(":"));
        value.push(before);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_goes_before_others() {
        let library = Path::new("/a/b.so");
        assert_eq!(preload(library, None), "/a/b.so");
        assert_eq!(preload(library, Some("".into())), "/a/b.so");
        assert_eq!(
            preload(library, Some("x.so y.so".into())),
            "/a/b.so:x.so y.so"
        );
    }

    #[test]
    fn the_library_is_looked_for_beside_the_executable() {
        let names: Vec<_> = places(Path::new("/opt/rocjitsu/bin/rocjitsu"));
        assert_eq!(
            names,
            ["bin", "bin/deps", "lib"]
                .map(|folder| Path::new("/opt/rocjitsu").join(folder).join(NAME))
        );
    }
}
