//! Which ROCm libraries programs would load, and whether they know the simulated targets.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rocjitsu_config::unknown_targets;

use super::{Check, Verdict};

/// The libraries that refuse a GPU whose target they do not know.
const LIBRARIES: [(&str, &str); 2] = [("ROCr", "libhsa-runtime64.so"), ("HIP", "libamdhip64.so")];
/// Directories that the dynamic linker of some distribution looks into.
const DIRECTORIES: [&str; 7] = [
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/lib64",
    "/usr/lib",
    "/lib",
];
/// Larger files are not searched.
const MOST_BYTES: u64 = 1 << 30;

/// Looks for the libraries below `root`, in further directories, and for the targets in them.
pub fn checks(root: Option<&Path>, further: &[PathBuf], targets: &[String]) -> Vec<Check> {
    let directories = directories(root, further);
    let mut checks = Vec::new();
    let mut unknown: BTreeSet<&str> = targets.iter().map(String::as_str).collect();
    let mut any = false;
    for (name, file) in LIBRARIES {
        let found = find(&directories, file);
        if found.is_empty() {
            let place = root.map_or("here".to_owned(), |root| format!("in {}", root.display()));
            checks.push(Check::not(
                Verdict::Warning,
                name,
                format!("no {file} {place}"),
                "install ROCm, or say where it is: --root DIR, --library-dir DIR, \
                 LD_LIBRARY_PATH; `rocjitsu launch` needs none",
            ));
        }
        for path in found {
            let names = targets.iter().map(String::as_str);
            let lacking = fs::File::open(&path).and_then(|file| unknown_targets(file, names));
            let Ok(lacking) = lacking else {
                continue;
            };
            let shown = path.display();
            if name == "ROCr" {
                any = true;
                unknown.retain(|target| lacking.contains(target));
            }
            checks.push(if lacking.is_empty() {
                Check::good(name, format!("{shown} knows {}", targets.join(", ")))
            } else {
                let lacking = lacking.join(", ");
                Check::not(
                    Verdict::Warning,
                    name,
                    format!("{shown} does not know {lacking}"),
                    format!("programs that load it find no GPU; use one that knows {lacking}"),
                )
            });
        }
    }
    if any {
        for target in unknown {
            checks.push(Check::not(
                Verdict::Warning,
                "target",
                format!("No ROCr here knows {target}"),
                "use `rocjitsu launch`, which needs no ROCr, or another GPU \
                 (`rocjitsu config list`)",
            ));
        }
    }
    checks
}

/// Where to look, in order.
fn directories(root: Option<&Path>, further: &[PathBuf]) -> Vec<PathBuf> {
    let base = root.unwrap_or(Path::new("/"));
    let mut list: Vec<PathBuf> = further.to_vec();
    if root.is_none()
        && let Some(paths) = std::env::var_os("LD_LIBRARY_PATH")
    {
        list.extend(std::env::split_paths(&paths).filter(|path| path.is_absolute()));
    }
    let opt = base.join("opt");
    let mut rocm: Vec<PathBuf> = entries(&opt)
        .into_iter()
        .filter(|path| name_of(path).starts_with("rocm"))
        .flat_map(|path| [path.join("lib"), path.join("lib64")])
        .collect();
    rocm.sort();
    list.extend(rocm);
    let mut linker: Vec<PathBuf> = entries(&base.join("etc/ld.so.conf.d"));
    linker.sort();
    linker.insert(0, base.join("etc/ld.so.conf"));
    for file in linker {
        for line in fs::read_to_string(file).unwrap_or_default().lines() {
            if line.starts_with('/') {
                list.push(below(base, Path::new(line.trim())));
            }
        }
    }
    list.extend(DIRECTORIES.map(|path| below(base, Path::new(path))));
    list
}

/// An absolute path, inside a root.
fn below(root: &Path, path: &Path) -> PathBuf {
    path.components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .fold(root.to_owned(), |joined, part| joined.join(part))
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).map_or(Vec::new(), |entries| {
        entries.flatten().map(|entry| entry.path()).collect()
    })
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .map_or(String::new(), |name| name.to_string_lossy().into_owned())
}

/// The files that are versions of a library, each once however many names it has.
fn find(directories: &[PathBuf], name: &str) -> Vec<PathBuf> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for directory in directories {
        let mut paths: Vec<PathBuf> = entries(directory)
            .into_iter()
            .filter(|path| name_of(path).starts_with(name))
            .collect();
        // The longest name is the file; the others are links to it.
        paths.sort_by_key(|path| std::cmp::Reverse(name_of(path).len()));
        for path in paths {
            let Ok(data) = fs::metadata(&path) else {
                continue;
            };
            let fits = data.is_file() && data.len() <= MOST_BYTES;
            if fits && seen.insert((data.dev(), data.ino())) {
                found.push(path);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_a_root() {
        let root = std::env::temp_dir().join(format!("rocjitsu-doctor-{}", std::process::id()));
        let lib = root.join("opt/rocm-7.2/lib");
        fs::create_dir_all(&lib).unwrap();
        fs::write(lib.join("libhsa-runtime64.so.1.18"), b"..gfx942..").unwrap();
        std::os::unix::fs::symlink(
            "libhsa-runtime64.so.1.18",
            lib.join("libhsa-runtime64.so.1"),
        )
        .unwrap();
        let targets = ["gfx942".to_owned(), "gfx1250".to_owned()];
        let checks = checks(Some(&root), &[], &targets);
        fs::remove_dir_all(&root).unwrap();
        let texts: Vec<_> = checks.iter().map(|check| check.found.as_str()).collect();
        assert_eq!(texts.len(), 3, "{texts:?}");
        assert!(texts[0].ends_with("libhsa-runtime64.so.1.18 does not know gfx1250"));
        assert!(texts[1].starts_with("no libamdhip64.so in "));
        assert_eq!(texts[2], "No ROCr here knows gfx1250");
        assert!(checks.iter().all(|check| check.verdict == Verdict::Warning));
    }
}
