//! Which paths are worth asking the driver about. The test is a comparison of prefixes and allocates nothing, unless a path is
//! spelled oddly.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use libc::{c_char, c_int};

use crate::fds::{self, Kind};
use crate::{guard, process};

/// Where the trees have something: paths that start so may be ours, and make a driver.
const PREFIXES: [&[u8]; 9] = [
    b"/dev/kfd",
    b"/dev/dri",
    b"/sys/class/kfd",
    b"/sys/class/drm",
    b"/sys/devices/virtual/kfd",
    b"/sys/dev/char/226:",
    b"/sys/module/amdgpu",
    b"/sys/bus/pci",
    b"/sys/devices/pci",
];

/// An absolute path without repeated slashes and `.`, if it has any.
fn respelled(path: &[u8]) -> Option<Vec<u8>> {
    let odd = |pair: &[u8]| pair == b"//" || pair == b"/.";
    if !path.windows(2).any(odd) {
        return None;
    }
    let mut plain = Vec::with_capacity(path.len());
    for part in path.split(|byte| *byte == b'/') {
        if !part.is_empty() && part != b"." {
            plain.push(b'/');
            plain.extend(part);
        }
    }
    Some(plain)
}

/// Whether the driver is worth asking about an absolute path. Once there is a driver, everything in `/dev` and `/sys`
/// is: it knows best, and links may lead anywhere.
fn claims(path: &[u8]) -> bool {
    let spelled = respelled(path);
    let path = spelled.as_deref().unwrap_or(path);
    let below = |directory: &[u8]| path.starts_with(directory);
    if !below(b"/dev/") && !below(b"/sys/") {
        return false;
    }
    PREFIXES.iter().any(|prefix| below(prefix)) || process::existing().is_some()
}

/// The path that a call names, if it may be one of ours: an absolute one below a known prefix, or one relative to a
/// directory of ours.
///
/// # Safety
///
/// `path` is null or a C string.
pub unsafe fn candidate(at: c_int, path: *const c_char) -> Option<PathBuf> {
    if path.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    if bytes.first() == Some(&b'/') {
        if !claims(bytes) || guard::is_inside() {
            return None;
        }
        return Some(Path::new(OsStr::from_bytes(bytes)).to_owned());
    }
    if bytes.is_empty() || fds::kind(at) != Some(Kind::Directory) || guard::is_inside() {
        return None;
    }
    let joined = fds::path(at)?.join(OsStr::from_bytes(bytes));
    claims(joined.as_os_str().as_bytes()).then_some(joined)
}

/// Real directories in which the trees put entries of their own.
const WITH_ADDITIONS: [&[u8]; 5] = [
    b"/dev",
    b"/sys/class",
    b"/sys/module",
    b"/sys/dev/char",
    b"/sys/devices/virtual",
];

/// Whether the trees put entries into this real directory.
pub fn has_additions(path: &[u8]) -> bool {
    let end = path
        .iter()
        .rposition(|byte| *byte != b'/')
        .map_or(0, |at| at + 1);
    WITH_ADDITIONS.contains(&&path[..end])
}

/// As [`candidate`], for listing: also real directories with additional entries.
///
/// # Safety
///
/// `path` is null or a C string.
pub unsafe fn directory(at: c_int, path: *const c_char) -> Option<PathBuf> {
    // SAFETY: the caller's promise.
    unsafe {
        if path.is_null() {
            return None;
        }
        let bytes = CStr::from_ptr(path).to_bytes();
        if has_additions(bytes) && !guard::is_inside() {
            return Some(PathBuf::from(OsStr::from_bytes(bytes)));
        }
        candidate(at, path)
    }
}

/// Whether a pattern of `glob` may match something in the trees, by its part before the first wildcard.
///
/// # Safety
///
/// `pattern` is null or a C string.
pub unsafe fn may_match(pattern: *const c_char) -> bool {
    if pattern.is_null() {
        return false;
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { CStr::from_ptr(pattern) }.to_bytes();
    let end = bytes
        .iter()
        .position(|byte| b"*?[{\\".contains(byte))
        .unwrap_or(bytes.len());
    let plain = &bytes[..end];
    plain.len() > 1
        && PREFIXES
            .iter()
            .any(|prefix| prefix.starts_with(plain) || plain.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_the_trees_are_candidates() {
        let ask = |path: &CStr| {
            // SAFETY: a C string.
            unsafe { candidate(libc::AT_FDCWD, path.as_ptr()) }.is_some()
        };
        assert!(ask(c"/dev/kfd") && ask(c"//dev/kfd") && ask(c"/dev//kfd") && ask(c"/./dev/./kfd"));
        assert!(ask(c"/sys//class/kfd/") && !ask(c"//etc/passwd") && !ask(c"/dev/.kfd"));
        assert!(ask(c"/dev/dri/renderD128"));
        assert!(ask(c"/sys/class/kfd/kfd/topology/nodes"));
        assert!(!ask(c"/dev/null"));
        assert!(!ask(c"/etc/passwd"));
        assert!(!ask(c"dev/kfd"));
        assert!(!ask(c""));
        // SAFETY: null is allowed.
        assert!(unsafe { candidate(libc::AT_FDCWD, std::ptr::null()) }.is_none());
    }

    #[test]
    fn patterns_are_judged_by_what_precedes_the_first_wildcard() {
        // SAFETY: C strings.
        let ask = |pattern: &CStr| unsafe { may_match(pattern.as_ptr()) };
        assert!(ask(c"/dev/dri/render*"));
        assert!(ask(c"/sys/class/*/version"));
        assert!(ask(c"/de?/kfd"));
        assert!(!ask(c"/dev/null*"));
        assert!(!ask(c"/etc/*"));
        assert!(!ask(c"/*"));
        assert!(!ask(c"*"));
    }

    #[test]
    fn real_directories_with_additions_are_known_by_their_exact_name() {
        assert!(has_additions(b"/dev"));
        assert!(has_additions(b"/dev//"));
        assert!(!has_additions(b"/"));
        assert!(!has_additions(b"/dev/shm"));
        assert!(!has_additions(b""));
    }
}
