//! A tree of virtual files, directories, links and device nodes, looked up by absolute path.
//! Directories that the real system has too only say what to add to them and what to hide.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::GpuIdentity;

/// Links that a look-up follows before it gives up, as in Linux.
const MOST_LINKS: u32 = 40;

/// What a file holds.
#[derive(Clone)]
pub enum Content {
    /// Always the same bytes.
    Fixed(Vec<u8>),
    /// Made anew each time the file is opened.
    Made(Arc<dyn Fn() -> Vec<u8> + Send + Sync>),
}

impl Content {
    /// The bytes now.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Content::Fixed(bytes) => bytes.clone(),
            Content::Made(make) => make(),
        }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Content::Fixed(bytes) => write!(f, "Fixed({} bytes)", bytes.len()),
            Content::Made(_) => f.write_str("Made"),
        }
    }
}

/// What kind of thing an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    File,
    Dir,
    Link,
    CharDevice,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// What it is; links are not followed.
    pub kind: Kind,
    /// Its inode number.
    pub inode: u64,
}

/// What `stat` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub kind: Kind,
    /// Type and permissions, as `st_mode`.
    pub mode: u32,
    /// Inode number.
    pub inode: u64,
    /// Size in bytes: 4096 for files, as sysfs says, whatever they hold.
    pub bytes: u64,
    /// Links to it.
    pub links: u64,
    /// Major and minor number of a device; zero otherwise.
    pub device: (u32, u32),
}

/// A node of the tree.
#[derive(Clone, Debug)]
pub struct Node {
    inode: u64,
    body: Body,
}

#[derive(Clone, Debug)]
enum Body {
    File(Content),
    Dir(Dir),
    Link(String),
    CharDevice {
        major: u32,
        minor: u32,
    },
    /// Hides what the real system may have under the name.
    Absent,
}

#[derive(Clone, Debug, Default)]
struct Dir {
    children: BTreeMap<String, Node>,
    /// The real system's directory is shown with these children put into it.
    shared: bool,
    /// In a shared directory, names with this start belong to the tree.
    prefix: Option<&'static str>,
    /// Whether it is there now, if it comes and goes.
    present: Option<Present>,
}

/// Says whether a directory is there now.
#[derive(Clone)]
pub(super) struct Present(pub(super) Arc<dyn Fn() -> bool + Send + Sync>);

impl fmt::Debug for Present {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Present({})", (self.0)())
    }
}

impl Dir {
    fn is_present(&self) -> bool {
        self.present.as_ref().is_none_or(|present| (present.0)())
    }
}

/// What the tree knows of a path.
#[derive(Clone, Debug)]
pub enum Lookup<'a> {
    /// The path is the real system's. If links of the tree lead there, `path` is where; otherwise
    /// it names what was asked for. What follows the first name that the tree does not know is
    /// left as it was: only the real system can say what `..` means behind it.
    NotOurs {
        /// The path to ask the real system for.
        path: String,
    },
    /// The path is the tree's, and nothing is there.
    Missing,
    /// A component before the last is no directory.
    NotADirectory,
    /// Too many links.
    Loop,
    /// It is here.
    Found {
        /// Its canonical path.
        path: String,
        /// What it is.
        node: &'a Node,
    },
}

/// The tree. See [`Tree::new`].
#[derive(Clone, Debug)]
pub struct Tree {
    root: Node,
    inodes: u64,
    gpus: Vec<GpuIdentity>,
}

impl Node {
    /// What it is.
    pub fn kind(&self) -> Kind {
        match self.body {
            Body::File(_) => Kind::File,
            Body::Dir(_) | Body::Absent => Kind::Dir,
            Body::Link(_) => Kind::Link,
            Body::CharDevice { .. } => Kind::CharDevice,
        }
    }

    /// A file's bytes.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        match &self.body {
            Body::File(content) => Some(content.bytes()),
            _ => None,
        }
    }

    /// A link's target.
    pub fn target(&self) -> Option<&str> {
        match &self.body {
            Body::Link(target) => Some(target),
            _ => None,
        }
    }

    /// A device's major and minor number.
    pub fn device(&self) -> Option<(u32, u32)> {
        match self.body {
            Body::CharDevice { major, minor } => Some((major, minor)),
            _ => None,
        }
    }

    /// A directory's entries, without `.` and `..`.
    pub fn entries(&self) -> Option<Vec<Entry>> {
        let Body::Dir(dir) = &self.body else {
            return None;
        };
        Some(dir.entries())
    }

    /// What `stat` says of it.
    pub fn stat(&self) -> Stat {
        let kind = self.kind();
        let (mode, bytes) = match &self.body {
            Body::File(_) => (0o100_444, 4096),
            Body::Dir(_) | Body::Absent => (0o040_755, 0),
            Body::Link(target) => (0o120_777, target.len() as u64),
            Body::CharDevice { .. } => (0o020_666, 0),
        };
        Stat {
            kind,
            mode,
            inode: self.inode,
            bytes,
            links: if kind == Kind::Dir { 2 } else { 1 },
            device: self.device().unwrap_or((0, 0)),
        }
    }
}

impl Dir {
    fn entries(&self) -> Vec<Entry> {
        self.children
            .iter()
            .filter(|(_, node)| !matches!(node.body, Body::Absent))
            .filter(|(_, node)| !matches!(&node.body, Body::Dir(dir) if dir.shared || !dir.is_present()))
            .map(|(name, node)| Entry {
                name: name.clone(),
                kind: node.kind(),
                inode: node.inode,
            })
            .collect()
    }
}

impl Tree {
    pub(super) fn empty() -> Self {
        Tree {
            root: Node {
                inode: 1,
                body: Body::Dir(Dir {
                    shared: true,
                    ..Dir::default()
                }),
            },
            inodes: 1 << 32,
            gpus: Vec::new(),
        }
    }

    pub(super) fn set_gpus(&mut self, gpus: Vec<GpuIdentity>) {
        self.gpus = gpus;
    }

    /// The GPUs, in the order of the machine.
    pub fn gpus(&self) -> &[GpuIdentity] {
        &self.gpus
    }

    /// What `stat` says of a path; `None` if nothing of the tree is there.
    pub fn stat(&self, path: &Path) -> Option<Stat> {
        match self.lookup(path, true) {
            Lookup::Found { node, .. } => Some(node.stat()),
            _ => None,
        }
    }

    /// The directory at a path, made with all before it; those not there yet are `shared`.
    fn make(&mut self, path: &str, shared: bool) -> &mut Dir {
        let mut node = &mut self.root;
        for name in components(path) {
            if !matches!(node.body, Body::Dir(_)) {
                node.body = Body::Dir(Dir::default());
            }
            let Body::Dir(dir) = &mut node.body else {
                unreachable!("made a directory above")
            };
            let inside = !dir.shared;
            node = dir.children.entry(name.to_owned()).or_insert_with(|| {
                self.inodes += 1;
                Node {
                    inode: self.inodes,
                    body: Body::Dir(Dir {
                        shared: shared && !inside,
                        ..Dir::default()
                    }),
                }
            });
        }
        match &mut node.body {
            Body::Dir(dir) => dir,
            other => {
                *other = Body::Dir(Dir::default());
                match other {
                    Body::Dir(dir) => dir,
                    _ => unreachable!("made a directory above"),
                }
            }
        }
    }

    /// A directory of the tree alone: what the real system has there is hidden.
    pub(super) fn own(&mut self, path: &str) {
        let (parent, _) = split(path);
        self.make(parent, true);
        self.make(path, false).shared = false;
    }

    /// As [`Tree::own`], for a directory that comes and goes.
    pub(super) fn own_while(&mut self, path: &str, present: Present) {
        self.own(path);
        self.make(path, false).present = Some(present);
    }

    /// A file of the tree whose content is made when it is opened.
    pub(super) fn made(&mut self, path: &str, make: impl Fn() -> Vec<u8> + Send + Sync + 'static) {
        self.put(path, Body::File(Content::Made(Arc::new(make))));
    }

    /// Names of a real directory that start so belong to the tree.
    pub(super) fn own_prefix(&mut self, directory: &str, prefix: &'static str) {
        self.make(directory, true).prefix = Some(prefix);
    }

    fn put(&mut self, path: &str, body: Body) {
        let (parent, name) = split(path);
        self.inodes += 1;
        let inode = self.inodes;
        let node = Node { inode, body };
        self.make(parent, true)
            .children
            .insert(name.to_owned(), node);
    }

    pub(super) fn file(&mut self, path: &str, text: impl Into<Vec<u8>>) {
        self.put(path, Body::File(Content::Fixed(text.into())));
    }

    pub(super) fn link(&mut self, path: &str, target: &str) {
        self.put(path, Body::Link(target.to_owned()));
    }

    pub(super) fn char_device(&mut self, path: &str, major: u32, minor: u32) {
        self.put(path, Body::CharDevice { major, minor });
    }

    pub(super) fn absent(&mut self, path: &str) {
        self.put(path, Body::Absent);
    }

    /// Replaces what a file of the tree holds; the driver puts counters there.
    ///
    /// Says whether there is such a file. Links are followed.
    pub fn set_content(&mut self, path: &Path, content: Content) -> bool {
        let Lookup::Found { path, .. } = self.lookup(path, true) else {
            return false;
        };
        let mut node = &mut self.root;
        for name in components(&path) {
            let Body::Dir(dir) = &mut node.body else {
                return false;
            };
            let Some(child) = dir.children.get_mut(name) else {
                return false;
            };
            node = child;
        }
        match &mut node.body {
            Body::File(old) => {
                *old = content;
                true
            }
            _ => false,
        }
    }

    /// Finds an absolute path; a relative one is never found. `follow` says whether a link in the
    /// last place is followed, as `stat` does and `lstat` does not.
    pub fn lookup(&self, path: &Path, follow: bool) -> Lookup<'_> {
        let not_ours = |path: String| Lookup::NotOurs { path };
        let Some(text) = path.to_str().filter(|text| text.starts_with('/')) else {
            return not_ours(path.to_string_lossy().into_owned());
        };
        let mut links = 0;
        let mut rest: Vec<String> = components(text).rev().map(str::to_owned).collect();
        let mut must_be_dir = text.ends_with('/') && !rest.is_empty();
        let mut done: Vec<(String, &Node)> = Vec::new();
        let join = |done: &[(String, &Node)], rest: &[String]| {
            let mut path = String::new();
            for name in done.iter().map(|(name, _)| name).chain(rest.iter().rev()) {
                path.push('/');
                path.push_str(name);
            }
            if path.is_empty() {
                path.push('/');
            }
            path
        };
        while let Some(name) = rest.pop() {
            let here = done.last().map_or(&self.root, |(_, node)| node);
            if name == "." {
                continue;
            }
            if name == ".." {
                done.pop();
                continue;
            }
            let Body::Dir(dir) = &here.body else {
                return Lookup::NotADirectory;
            };
            let Some(child) = dir.children.get(&name) else {
                let ours = !dir.shared || dir.prefix.is_some_and(|start| name.starts_with(start));
                if ours {
                    return Lookup::Missing;
                }
                rest.push(name);
                return not_ours(join(&done, &rest));
            };
            match &child.body {
                Body::Absent => return Lookup::Missing,
                Body::Dir(dir) if !dir.is_present() => return Lookup::Missing,
                Body::Link(target) if follow || !rest.is_empty() || must_be_dir => {
                    links += 1;
                    if links > MOST_LINKS {
                        return Lookup::Loop;
                    }
                    if target.starts_with('/') {
                        done.clear();
                    }
                    rest.extend(components(target).rev().map(str::to_owned));
                    must_be_dir |= target.ends_with('/');
                }
                _ => done.push((name, child)),
            }
        }
        match done.last() {
            Some((_, node)) => match &node.body {
                Body::Dir(dir) if dir.shared => not_ours(join(&done, &rest)),
                Body::Dir(_) => Lookup::Found {
                    path: join(&done, &rest),
                    node,
                },
                _ if must_be_dir => Lookup::NotADirectory,
                _ => Lookup::Found {
                    path: join(&done, &rest),
                    node,
                },
            },
            None => not_ours("/".to_owned()),
        }
    }

    /// The entries of a directory of the tree.
    pub fn read_dir(&self, path: &Path) -> Option<Vec<Entry>> {
        match self.lookup(path, true) {
            Lookup::Found { node, .. } => node.entries(),
            _ => None,
        }
    }

    /// The bytes of a file of the tree.
    pub fn read(&self, path: &Path) -> Option<Vec<u8>> {
        match self.lookup(path, true) {
            Lookup::Found { node, .. } => node.bytes(),
            _ => None,
        }
    }

    /// What the tree adds to a real directory; empty for one that it does not touch.
    pub fn merged(&self, directory: &Path) -> Vec<Entry> {
        self.shared(directory).map_or(Vec::new(), Dir::entries)
    }

    /// Whether an entry of a real directory is not to be shown, since the tree has something (or
    /// nothing, on purpose) in its place.
    pub fn hides(&self, directory: &Path, name: &str) -> bool {
        self.shared(directory).is_some_and(|dir| {
            dir.prefix.is_some_and(|start| name.starts_with(start))
                || dir
                    .children
                    .get(name)
                    .is_some_and(|node| !matches!(&node.body, Body::Dir(dir) if dir.shared))
        })
    }

    /// The shared directory at a path.
    fn shared(&self, path: &Path) -> Option<&Dir> {
        let Lookup::NotOurs { path } = self.lookup(path, true) else {
            return None;
        };
        let mut node = &self.root;
        for name in components(&path) {
            let Body::Dir(dir) = &node.body else {
                return None;
            };
            node = dir.children.get(name)?;
        }
        match &node.body {
            Body::Dir(dir) if dir.shared => Some(dir),
            _ => None,
        }
    }
}

fn components(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split('/').filter(|name| !name.is_empty())
}

/// Parent and name.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}
