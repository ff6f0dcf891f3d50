//! Warns of a runtime that does not know the simulated GPUs: it shows the program none, and says nothing that a program
//! would fail by.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use rocjitsu_config::unknown_targets;
use rocjitsu_kfd::Driver;

/// The library that refuses a GPU whose target it does not know.
const ROCR: &[u8] = b"libhsa-runtime64.so";

/// Looks at the ROCr that this process has loaded, if it has, and says which of the GPUs it will not show. Once a
/// process; the caller is [`Inside`](crate::guard::Inside).
pub fn check(driver: &Driver) {
    static CHECKED: AtomicBool = AtomicBool::new(false);
    if CHECKED.load(Ordering::Relaxed) {
        return;
    }
    let Some(path) = loaded() else { return };
    if CHECKED.swap(true, Ordering::Relaxed) {
        return;
    }
    let gpus = driver.machine().gpus.iter();
    let targets: BTreeMap<&str, &str> = gpus
        .map(|gpu| (gpu.target.as_str(), gpu.name.as_str()))
        .collect();
    let names = targets.keys().copied();
    let unknown = File::open(&path).and_then(|file| unknown_targets(file, names));
    for target in unknown.unwrap_or_default() {
        eprintln!(
            "rocjitsu: warning: {} does not know {target}: the program will see no {}. Use a newer ROCm, another GPU \
             (`rocjitsu config list`), or `rocjitsu launch`, which needs no ROCm",
            path.display(),
            targets[target],
        );
    }
}

/// Where the loaded ROCr lies. The kernel's list is asked, not the linker's: its lock may be held for ever in a child that
/// was forked while other threads ran.
fn loaded() -> Option<PathBuf> {
    let maps = std::fs::read("/proc/self/maps").ok()?;
    let found = maps.split(|&byte| byte == b'\n').find_map(path_of_rocr)?;
    Some(OsStr::from_bytes(found).into())
}

/// The path in a line of `/proc/self/maps` if it is ROCr's.
fn path_of_rocr(line: &[u8]) -> Option<&[u8]> {
    let path = &line[line.iter().position(|&byte| byte == b'/')?..];
    let name = path.rsplit(|&byte| byte == b'/').next()?;
    name.starts_with(ROCR).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rocr_is_found_by_its_name() {
        let path = "/opt/rocm 7/lib/libhsa-runtime64.so.1.18.0";
        let line = format!("7f0000000000-7f0000002000 r-xp 00001000 00:01 1234   {path}");
        assert_eq!(path_of_rocr(line.as_bytes()), Some(path.as_bytes()));
        for other in [
            "7f0000000000-7f0000002000 r-xp 00001000 00:01 1234   /lib/xlibhsa-runtime64.so.1",
            "7f0000000000-7f0000002000 r-xp 00001000 00:01 1234   /libhsa-runtime64.so/libc.so.6",
            "7ffe00000000-7ffe00002000 rw-p 00000000 00:00 0   [stack]",
            "",
        ] {
            assert_eq!(path_of_rocr(other.as_bytes()), None, "{other}");
        }
    }
}
