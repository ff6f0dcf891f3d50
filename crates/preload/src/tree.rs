//! What the simulated trees say about a path, in the C library's terms.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libc::{c_int, c_uint};
use rocjitsu_kfd::topology::{self, Kind, Lookup, Node};
use rocjitsu_kfd::{Driver, Errno};

use crate::dirs::Entry;
use crate::real::{Stat, Statx};

type Answer<T> = Option<Result<T, Errno>>;

/// `st_dev` of everything in the trees: an anonymous file system's number that no kernel gives out.
const FILE_SYSTEM: (u32, u32) = (0, 0xff_fff);

/// Time of all files: when the driver was made.
fn born() -> i64 {
    static BORN: OnceLock<i64> = OnceLock::new();
    *BORN.get_or_init(|| {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs().cast_signed())
    })
}

/// Something in the trees.
#[derive(Debug)]
pub enum Found<'a> {
    /// A node of the trees' own.
    Node(&'a Node),
    /// A directory that only holds entries of the trees, since this system does not have it.
    Bare(Vec<topology::Entry>),
}

impl Found<'_> {
    /// What `stat` says of it.
    pub fn stat(&self) -> topology::Stat {
        match self {
            Found::Node(node) => node.stat(),
            Found::Bare(entries) => topology::Stat {
                kind: Kind::Dir,
                mode: libc::S_IFDIR | 0o755,
                // Different for different directories, and from the inodes of the trees.
                inode: entries.first().map_or(1, |entry| entry.inode | 1 << 48),
                bytes: 0,
                links: 2,
                device: (0, 0),
            },
        }
    }
}

/// What the trees have at a path, and its canonical path; `None` if the path is the real system's.
pub fn find<'a>(driver: &'a Driver, path: &Path, follow: bool) -> Answer<(PathBuf, Found<'a>)> {
    let tree = driver.tree();
    Some(match tree.lookup(path, follow) {
        Lookup::NotOurs { path } => {
            let path = PathBuf::from(path);
            let entries = tree.merged(&path);
            if entries.is_empty() || path.symlink_metadata().is_ok() {
                return None;
            }
            Ok((path, Found::Bare(entries)))
        }
        Lookup::Missing => Err(Errno::NOENT),
        Lookup::NotADirectory => Err(Errno::NOTDIR),
        Lookup::Loop => Err(Errno::LOOP),
        Lookup::Found { path, node } => Ok((path.into(), Found::Node(node))),
    })
}

/// The answer of `stat` (or of `lstat`, if `follow` is false).
pub fn stat(driver: &Driver, path: &Path, follow: bool) -> Answer<Stat> {
    Some(find(driver, path, follow)?.map(|(_, found)| to_c(&found.stat())))
}

/// The C structure.
pub fn to_c(stat: &topology::Stat) -> Stat {
    // SAFETY: a stat structure is plain numbers, for which zeros are valid.
    let mut out: Stat = unsafe { std::mem::zeroed() };
    out.st_dev = libc::makedev(FILE_SYSTEM.0, FILE_SYSTEM.1);
    out.st_ino = stat.inode;
    out.st_mode = stat.mode;
    out.st_nlink = stat.links;
    out.st_rdev = libc::makedev(stat.device.0, stat.device.1);
    out.st_size = stat.bytes.cast_signed();
    out.st_blksize = 4096;
    out.st_atime = born();
    out.st_mtime = born();
    out.st_ctime = born();
    out
}

/// `statx` from `stat`.
pub fn to_statx(stat: &Stat) -> Statx {
    // SAFETY: a statx structure is plain numbers, for which zeros are valid.
    let mut out: Statx = unsafe { std::mem::zeroed() };
    out.stx_mask = libc::STATX_BASIC_STATS;
    out.stx_blksize = 4096;
    out.stx_nlink = stat.st_nlink as u32;
    out.stx_mode = stat.st_mode as u16;
    out.stx_ino = stat.st_ino;
    out.stx_size = stat.st_size.cast_unsigned();
    out.stx_atime.tv_sec = stat.st_atime;
    out.stx_mtime.tv_sec = stat.st_mtime;
    out.stx_ctime.tv_sec = stat.st_ctime;
    out.stx_rdev_major = libc::major(stat.st_rdev) as c_uint;
    out.stx_rdev_minor = libc::minor(stat.st_rdev) as c_uint;
    out.stx_dev_major = libc::major(stat.st_dev) as c_uint;
    out.stx_dev_minor = libc::minor(stat.st_dev) as c_uint;
    out
}

/// The answer of `access` for any user: everything may be read, devices written, directories searched.
pub fn access(driver: &Driver, path: &Path, mode: c_int, follow: bool) -> Answer<c_int> {
    Some(find(driver, path, follow)?.and_then(|(_, found)| {
        let has = found.stat().mode;
        let wants = [
            (libc::R_OK, 0o444),
            (libc::W_OK, 0o222),
            (libc::X_OK, 0o111),
        ];
        if wants
            .iter()
            .any(|(want, bits)| mode & want != 0 && has & bits == 0)
        {
            Err(Errno::ACCESS)
        } else {
            Ok(0)
        }
    }))
}

/// The entries of a directory of the trees, with `.` and `..`.
pub fn entries(driver: &Driver, path: &Path) -> Answer<Vec<Entry>> {
    let answer = find(driver, path, true)?;
    Some(answer.and_then(|(_, found)| {
        let inode = found.stat().inode;
        let entries = match found {
            Found::Node(node) => node.entries().ok_or(Errno::NOTDIR)?,
            Found::Bare(entries) => entries,
        };
        let dot = |name: &str| Entry {
            name: name.into(),
            kind: libc::DT_DIR,
            inode,
        };
        Ok([dot("."), dot("..")]
            .into_iter()
            .chain(entries.into_iter().map(to_entry))
            .collect())
    }))
}

/// What a program sees in a real directory that has these `real` entries; `None` if the trees do not touch it.
pub fn merged(
    driver: &Driver,
    path: &Path,
    real: impl FnOnce() -> Vec<Entry>,
) -> Option<Vec<Entry>> {
    let tree = driver.tree();
    let more = tree.merged(path);
    if more.is_empty() {
        return None;
    }
    let mut all = real();
    all.retain(|entry| {
        !entry
            .name
            .to_str()
            .is_some_and(|name| tree.hides(path, name))
    });
    all.extend(more.into_iter().map(to_entry));
    Some(all)
}

fn to_entry(entry: topology::Entry) -> Entry {
    Entry {
        name: entry.name.into(),
        kind: match entry.kind {
            Kind::Dir => libc::DT_DIR,
            Kind::File => libc::DT_REG,
            Kind::Link => libc::DT_LNK,
            Kind::CharDevice => libc::DT_CHR,
        },
        inode: entry.inode,
    }
}

/// Where a link points.
pub fn read_link(driver: &Driver, path: &Path) -> Answer<PathBuf> {
    let answer = find(driver, path, false)?;
    Some(answer.and_then(|(_, found)| match found {
        Found::Node(node) => node.target().map(PathBuf::from).ok_or(Errno::INVAL),
        Found::Bare(_) => Err(Errno::INVAL),
    }))
}

/// The path without links, `.` and `..`.
pub fn canonical(driver: &Driver, path: &Path) -> Answer<PathBuf> {
    Some(find(driver, path, true)?.map(|(path, _)| path))
}
