//! `rocjitsu run --root`: the program runs with another directory as its root, such as one that holds a distribution
//! with ROCm. Mounts are made in a mount namespace of this command's own, and go with it.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::fs::{Mode, OFlags, ResolveFlags};

/// Where the program finds what the command brings along: in a fresh `/run`, where nothing of the root is lost.
const OWN: &str = "/run/rocjitsu";
/// Folders of programs in a root.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// What a root shares with the host.
const SHARED: [&str; 3] = ["proc", "sys", "dev"];

/// A root that is ready.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    directory: OwnedFd,
}

impl Root {
    /// Enters a mount namespace in which `path` has the host's `/proc`, `/sys` and `/dev`, and an empty `/run`.
    ///
    /// # Errors
    ///
    /// `path` is no directory or lacks one of those, or this process may not mount.
    pub fn enter(path: &Path) -> Result<Root> {
        let path = path
            .canonicalize()
            .with_context(|| format!("cannot use {} as root", path.display()))?;
        for name in SHARED.into_iter().chain(["run"]) {
            let inside = path.join(name);
            if !std::fs::symlink_metadata(&inside).is_ok_and(|data| data.is_dir()) {
                bail!(
                    "{} cannot be a program's root: it has no directory {name}",
                    path.display()
                );
            }
        }
        // SAFETY: the call takes flags; this process has one thread, whose view of mounts it changes.
        if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
            return Err(io::Error::last_os_error())
                .context("--root mounts directories, which needs the rights of root");
        }
        mount(None, Path::new("/"), None, libc::MS_REC | libc::MS_PRIVATE)?;
        for name in SHARED {
            let from = Path::new("/").join(name);
            mount(
                Some(&from),
                &path.join(name),
                None,
                libc::MS_BIND | libc::MS_REC,
            )?;
        }
        mount(
            None,
            &path.join("run"),
            Some("tmpfs"),
            libc::MS_NOSUID | libc::MS_NODEV,
        )?;
        let own = path.join(OWN.trim_start_matches('/'));
        std::fs::create_dir(&own).with_context(|| format!("cannot make {}", own.display()))?;
        let directory = rustix::fs::open(
            &path,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .with_context(|| format!("cannot open {}", path.display()))?;
        Ok(Root { path, directory })
    }

    /// Makes a file or directory of the host visible in the root, and returns its path there.
    ///
    /// # Errors
    ///
    /// Those of mounting.
    pub fn bring(&self, from: &Path) -> Result<PathBuf> {
        let name = from.file_name().unwrap_or(OsStr::new("root"));
        let inside = Path::new(OWN).join(name);
        let target = self.host(&inside);
        let made = if from.is_dir() {
            std::fs::create_dir(&target)
        } else {
            std::fs::write(&target, [])
        };
        made.with_context(|| format!("cannot make {}", target.display()))?;
        mount(Some(from), &target, None, libc::MS_BIND | libc::MS_REC)?;
        Ok(inside)
    }

    /// Where the host has an absolute path of the root's that contains no link.
    fn host(&self, inside: &Path) -> PathBuf {
        self.path.join(inside.strip_prefix("/").unwrap_or(inside))
    }

    /// Where the host has a path of the root's; links are followed as in the root. `None` if it is not there.
    pub fn resolve(&self, inside: &Path) -> Option<PathBuf> {
        let file = rustix::fs::openat2(
            &self.directory,
            inside,
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::IN_ROOT,
        )
        .ok()?;
        let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        std::fs::read_link(link).ok()
    }

    /// Where the host has the file of a path of the root's, or would have it: its folder is there. Relative paths are taken from
    /// the top, where the program starts.
    pub fn locate(&self, inside: &Path) -> Option<PathBuf> {
        let inside = Path::new("/").join(inside);
        self.resolve(&inside)
            .or_else(|| Some(self.resolve(inside.parent()?)?.join(inside.file_name()?)))
    }

    /// Has the command run in the root, in its top directory.
    ///
    /// # Errors
    ///
    /// A path with a zero byte.
    pub fn confine(&self, command: &mut Command) -> Result<()> {
        let path = text(self.path.as_os_str())?;
        // SAFETY: the closure makes two system calls, which are allowed between fork and exec.
        unsafe {
            command.pre_exec(move || {
                if libc::chroot(path.as_ptr()) != 0 || libc::chdir(c"/".as_ptr()) != 0 {
                    return Err(io::Error::last_os_error());
                }
                Ok(())
            });
        }
        Ok(())
    }
}

fn text(path: &OsStr) -> Result<CString> {
    CString::new(path.as_bytes()).context("a path with a zero byte")
}

fn mount(from: Option<&Path>, to: &Path, kind: Option<&str>, flags: libc::c_ulong) -> Result<()> {
    let from = text(from.map_or(OsStr::new("none"), Path::as_os_str))?;
    let target = text(to.as_os_str())?;
    let kind = kind.map(|kind| text(OsStr::new(kind))).transpose()?;
    // SAFETY: C strings, and no data.
    let done = unsafe {
        libc::mount(
            from.as_ptr(),
            target.as_ptr(),
            kind.as_ref().map_or(std::ptr::null(), |kind| kind.as_ptr()),
            flags,
            std::ptr::null(),
        )
    };
    if done == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error()).with_context(|| {
        format!(
            "cannot mount {} at {}",
            from.to_string_lossy(),
            to.display()
        )
    })
}

/// The variables of a program in a root: not the caller's, whose paths mean other things there.
pub fn environment() -> impl Iterator<Item = (OsString, OsString)> {
    const KEPT: [&str; 5] = ["TERM", "LANG", "LC_ALL", "TZ", "NO_COLOR"];
    let ours = |name: &OsStr| {
        let bytes = name.as_bytes();
        let prefixes: [&[u8]; 5] = [b"ROCJITSU_", b"HSA_", b"HIP_", b"AMD_", b"ROCR_"];
        KEPT.iter().any(|kept| name == *kept)
            || prefixes.iter().any(|prefix| bytes.starts_with(prefix))
    };
    let fixed = [("PATH", PATH), ("HOME", "/root")];
    let fixed = fixed.map(|(name, value)| (name.into(), value.into()));
    std::env::vars_os()
        .filter(move |(name, _)| ours(name))
        .chain(fixed)
}
