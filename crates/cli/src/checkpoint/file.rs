//! The file of a checkpoint: a head, and behind it one zstd stream with the state and the pages of memory that are not zero.
//!
//! Head, little-endian: magic (8 bytes), format (u32), bytes of the head (u32), version of the program that wrote it (32 bytes of
//! text, padded with zeros), bytes of the state (u64), pages (u64), SHA-256 (32 bytes) of all that is before the digest and of the
//! stream. The first 48 bytes are the same in every format. In the stream: the state, then for each page the number of its
//! allocation (u32), its number there (u64), and its bytes; both numbers only grow.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// How checkpoints begin. The last byte is no text.
pub const MAGIC: [u8; 8] = *b"RJCHKPT\x1a";
/// The format that is written, and the only one that is read.
pub const FORMAT: u32 = 2;
/// Bytes of the head.
pub const HEAD: usize = 96;
/// Bytes of the head that are the same in every format.
const COMMON: usize = 48;
/// Bytes of a page of memory.
pub const PAGE: usize = 4096;
/// Most bytes of a state: inputs, expected outputs, registers, LDS.
const MOST_STATE: u64 = 16 << 30;
/// A fast level: registers and buffers are mostly either regular or noise.
const LEVEL: i32 = 1;

/// Why a file is no checkpoint that can be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It is something else.
    #[error("not a checkpoint")]
    Other,
    /// Of another format.
    #[error(
        "a checkpoint of format {format}, written by rocjitsu {version}; this one ({}) reads format {FORMAT}",
        env!("CARGO_PKG_VERSION")
    )]
    Format {
        /// The format.
        format: u32,
        /// Who wrote it.
        version: String,
    },
    /// Not all of it is there, or other bytes.
    #[error("damaged: {0}")]
    Damaged(String),
    /// It says that it has more than can be.
    #[error("damaged: {what} of {bytes} bytes, at most {most} are possible")]
    TooLarge {
        /// What.
        what: &'static str,
        /// How many bytes.
        bytes: u64,
        /// How many there may be.
        most: u64,
    },
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What a stream ends too early or is no stream with.
fn broken(error: io::Error) -> FileError {
    FileError::Damaged(error.to_string())
}

/// Passes bytes on and takes their digest.
struct Hashed<W> {
    inner: W,
    digest: Sha256,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.digest.update(bytes.get(..count).unwrap_or_default());
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn head(state: u64, pages: u64) -> [u8; HEAD - 32] {
    let mut head = [0; HEAD - 32];
    let version = env!("CARGO_PKG_VERSION").as_bytes();
    let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &MAGIC);
    put(8, &FORMAT.to_le_bytes());
    put(12, &(HEAD as u32).to_le_bytes());
    put(16, &version[..version.len().min(32)]);
    put(48, &state.to_le_bytes());
    put(56, &pages.to_le_bytes());
    head
}

/// Takes pages: number of the allocation, number of the page in it, bytes.
pub type PageSink<'a> = dyn FnMut(u32, u64, &[u8]) -> io::Result<()> + 'a;

/// Writes a checkpoint at the start of `to`, and leaves it at the end. `pages` hands all pages to its argument.
///
/// # Errors
///
/// Those of writing, and of `pages`.
pub fn write<W: Write + Seek>(
    mut to: W,
    state: &[u8],
    pages: impl FnOnce(&mut PageSink<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    to.write_all(&[0; HEAD])?;
    let mut hashed = Hashed {
        inner: &mut to,
        digest: Sha256::new(),
    };
    let mut count = 0u64;
    let mut stream = zstd::Encoder::new(&mut hashed, LEVEL)?;
    stream.write_all(state)?;
    pages(&mut |run, page, bytes| {
        count += 1;
        stream.write_all(&run.to_le_bytes())?;
        stream.write_all(&page.to_le_bytes())?;
        stream.write_all(bytes)
    })?;
    stream.finish()?;
    let head = head(state.len() as u64, count);
    let digest = hashed.digest.chain_update(head).finalize();
    to.seek(SeekFrom::Start(0))?;
    to.write_all(&head)?;
    to.write_all(&digest)?;
    to.seek(SeekFrom::End(0))?;
    Ok(())
}

/// Most links that are followed one after the other, as in the kernel.
const MOST_LINKS: usize = 40;

/// Where the file of a path lies or would lie: links are followed.
fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match std::fs::read_link(&path) {
            Ok(to) => path = path.parent().unwrap_or(Path::new("")).join(to),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// The folder of a path.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Whether a checkpoint can be written at a path: there is nothing, or a regular file that it replaces.
///
/// # Errors
///
/// Something else is there; its folder cannot be written.
pub fn can_hold(path: &Path) -> io::Result<()> {
    let path = followed(path)?;
    if std::fs::metadata(&path).is_ok_and(|there| !there.is_file()) {
        return Err(io::Error::other(
            "it is no regular file, and a checkpoint takes the place of what is there",
        ));
    }
    tempfile::tempfile_in(folder(&path)).map(drop)
}

/// Writes a checkpoint so that at `path` there is all of it or what was there before; if that is a symbolic link, then where it
/// points to. Returns its size in bytes.
///
/// # Errors
///
/// As [`write()`]; a folder that cannot be written; something at `path` that is no regular file.
pub fn create(
    path: &Path,
    state: &[u8],
    pages: impl FnOnce(&mut PageSink<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    can_hold(path)?;
    let path = followed(path)?;
    let folder = folder(&path);
    let mut file = tempfile::Builder::new()
        .prefix(".checkpoint-")
        .tempfile_in(folder)?;
    let mut buffer = BufWriter::with_capacity(1 << 20, file.as_file_mut());
    write(&mut buffer, state, pages)?;
    buffer.flush()?;
    drop(buffer);
    file.as_file().sync_all()?;
    let bytes = file.as_file().metadata()?.len();
    file.persist(&path).map_err(|error| error.error)?;
    // The new name is in the folder, which has to reach the disk as well.
    File::open(folder)?.sync_all()?;
    Ok(bytes)
}

/// A checkpoint that is being read: its state is, its pages are not yet.
pub struct Checkpoint<R: Read> {
    /// The state.
    pub state: Vec<u8>,
    /// The version of the program that wrote it.
    pub version: String,
    pages: u64,
    stream: zstd::Decoder<'static, BufReader<R>>,
}

/// Opens a checkpoint and compares its digest; nothing of it has been looked at before that.
///
/// # Errors
///
/// Every [`FileError`].
pub fn read<R: Read + Seek>(mut from: R) -> Result<Checkpoint<R>, FileError> {
    let mut head = Vec::new();
    from.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
    let magic = head.get(..MAGIC.len());
    if magic != Some(&MAGIC) {
        let begins = MAGIC.starts_with(&head) && !head.is_empty();
        return Err(if begins {
            short(head.len())
        } else {
            FileError::Other
        });
    }
    let Some(common) = head.get(..COMMON) else {
        return Err(short(head.len()));
    };
    let number = |at: usize, bytes: usize| {
        let bytes = head.get(at..at + bytes).unwrap_or_default();
        bytes
            .iter()
            .rev()
            .fold(0, |all, &b| all << 8 | u64::from(b))
    };
    let version: String = String::from_utf8_lossy(&common[16..])
        .trim_end_matches('\0')
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    let format = number(8, 4) as u32;
    if format != FORMAT {
        return Err(FileError::Format { format, version });
    }
    if number(12, 4) != HEAD as u64 {
        return Err(FileError::Damaged(format!(
            "a head of {} bytes, where format {FORMAT} has one of {HEAD}",
            number(12, 4)
        )));
    }
    let Some((stated, digest)) = head.split_at_checked(HEAD - 32) else {
        return Err(short(head.len()));
    };
    let (state, pages) = (number(48, 8), number(56, 8));
    let mut found = Hashed {
        inner: io::sink(),
        digest: Sha256::new(),
    };
    io::copy(&mut from, &mut found)?;
    if found.digest.chain_update(stated).finalize().as_slice() != digest {
        return Err(FileError::Damaged(
            "its bytes are not those that were written, or not all of them (SHA-256)".to_owned(),
        ));
    }
    if state > MOST_STATE {
        return Err(FileError::TooLarge {
            what: "a state",
            bytes: state,
            most: MOST_STATE,
        });
    }
    from.seek(SeekFrom::Start(HEAD as u64))?;
    let mut stream = zstd::Decoder::new(from).map_err(broken)?;
    let mut bytes = Vec::new();
    // Grows with what is there, whatever was stated.
    stream
        .by_ref()
        .take(state)
        .read_to_end(&mut bytes)
        .map_err(broken)?;
    if bytes.len() as u64 != state {
        let has = bytes.len();
        return Err(FileError::Damaged(format!(
            "{has} bytes of a state of {state}"
        )));
    }
    Ok(Checkpoint {
        state: bytes,
        version,
        pages,
        stream,
    })
}

fn short(bytes: usize) -> FileError {
    FileError::Damaged(format!("it ends after {bytes} bytes"))
}

impl<R: Read> Checkpoint<R> {
    /// Hands all pages to `each`, which says whether there is such a page.
    ///
    /// # Errors
    ///
    /// Pages out of order, or such that `each` refuses; fewer or more than were stated.
    pub fn pages(
        mut self,
        mut each: impl FnMut(u32, u64, &[u8; PAGE]) -> bool,
    ) -> Result<(), FileError> {
        let mut last = None;
        for _ in 0..self.pages {
            let (mut run, mut page) = ([0; 4], [0; 8]);
            let mut bytes = [0; PAGE];
            self.stream.read_exact(&mut run).map_err(broken)?;
            self.stream.read_exact(&mut page).map_err(broken)?;
            self.stream.read_exact(&mut bytes).map_err(broken)?;
            let place = (u32::from_le_bytes(run), u64::from_le_bytes(page));
            if last >= Some(place) || !each(place.0, place.1, &bytes) {
                let (run, page) = place;
                return Err(FileError::Damaged(format!(
                    "page {page} of allocation {run} is out of place"
                )));
            }
            last = Some(place);
        }
        match self.stream.read(&mut [0]).map_err(broken)? {
            0 => Ok(()),
            _ => Err(FileError::Damaged("more than it says".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn sample() -> Vec<u8> {
        let mut file = Cursor::new(Vec::new());
        write(&mut file, b"the state", |page| {
            page(0, 0, &[1; PAGE])?;
            page(0, 7, &[2; PAGE])?;
            page(3, 1, &[3; PAGE])?;
            Ok(())
        })
        .unwrap();
        file.into_inner()
    }

    /// The state, and run, page and first byte of each page.
    type All = (Vec<u8>, Vec<(u32, u64, u8)>);

    fn all(bytes: &[u8]) -> Result<All, FileError> {
        let checkpoint = read(Cursor::new(bytes))?;
        let state = checkpoint.state.clone();
        let mut pages = Vec::new();
        checkpoint.pages(|run, page, bytes| {
            pages.push((run, page, bytes[9]));
            true
        })?;
        Ok((state, pages))
    }

    #[test]
    fn what_is_written_is_read() {
        let (state, pages) = all(&sample()).unwrap();
        assert_eq!(state, b"the state");
        assert_eq!(pages, [(0, 0, 1), (0, 7, 2), (3, 1, 3)]);
    }

    #[test]
    fn every_truncation_and_every_changed_byte_is_an_error() {
        let good = sample();
        for length in 0..good.len() {
            let error = all(&good[..length]).unwrap_err().to_string();
            assert!(
                length == 0 || error.starts_with("damaged"),
                "{length}: {error}"
            );
        }
        for at in 0..good.len() {
            for bit in [1, 0x80] {
                let mut bad = good.clone();
                bad[at] ^= bit;
                all(&bad).expect_err("a byte is another");
            }
        }
        let more = [&good[..], b"x"].concat();
        all(&more).expect_err("a byte too many");
    }

    #[test]
    fn other_files_and_other_formats_are_named() {
        assert!(matches!(all(b"\x7fELF").unwrap_err(), FileError::Other));
        assert!(matches!(all(b"").unwrap_err(), FileError::Other));
        let mut newer = sample();
        newer[8] = 77;
        newer[16..25].copy_from_slice(b"9.9.9-rc\n");
        let text = all(&newer).unwrap_err().to_string();
        assert!(
            text.contains("format 77, written by rocjitsu 9.9.9-rc?;")
                && text.contains(&format!("format {FORMAT}")),
            "{text}"
        );
    }

    #[test]
    fn a_head_of_another_length_is_damage() {
        for at in 12..16 {
            let mut bad = sample();
            bad[at] ^= 1;
            let text = all(&bad).unwrap_err().to_string();
            assert!(text.starts_with("damaged: a head of "), "{at}: {text}");
        }
    }

    /// A link stays one, and what is no file stays what it is.
    #[test]
    fn a_checkpoint_takes_the_place_of_files_only() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let keep = |name: &str| create(&at(name), b"the state", |_| Ok(()));
        std::fs::write(at("old"), "old").unwrap();
        for (link, to) in [("link", "old"), ("twice", "link"), ("dangling", "new")] {
            std::os::unix::fs::symlink(to, at(link)).unwrap();
        }
        for (name, file) in [("twice", "old"), ("dangling", "new")] {
            keep(name).unwrap();
            assert!(at(name).symlink_metadata().unwrap().is_symlink(), "{name}");
            let bytes = std::fs::read(at(file)).unwrap();
            assert!(bytes.starts_with(&MAGIC), "{name}");
        }
        let pipe = std::process::Command::new("mkfifo")
            .arg(at("pipe"))
            .status();
        assert!(pipe.unwrap().success());
        std::os::unix::fs::symlink("pipe", at("to_pipe")).unwrap();
        std::os::unix::fs::symlink("loop", at("loop")).unwrap();
        std::fs::create_dir(at("folder")).unwrap();
        for name in ["pipe", "to_pipe", "folder", "loop", "nowhere/x"] {
            assert!(
                can_hold(&at(name)).is_err() && keep(name).is_err(),
                "{name}"
            );
        }
        use std::os::unix::fs::FileTypeExt as _;
        assert!(at("pipe").metadata().unwrap().file_type().is_fifo());
        assert!(can_hold(Path::new("/dev/full")).is_err());
    }

    #[test]
    fn pages_out_of_order_or_refused_are_errors() {
        let twice = |first: (u32, u64), second: (u32, u64)| {
            let mut file = Cursor::new(Vec::new());
            write(&mut file, b"", |page| {
                page(first.0, first.1, &[1; PAGE])?;
                page(second.0, second.1, &[1; PAGE])?;
                Ok(())
            })
            .unwrap();
            all(&file.into_inner())
        };
        twice((0, 1), (1, 0)).unwrap();
        for (first, second) in [((0, 1), (0, 1)), ((0, 1), (0, 0)), ((1, 0), (0, 5))] {
            twice(first, second).unwrap_err();
        }
        let good = sample();
        let checkpoint = read(Cursor::new(&good)).unwrap();
        checkpoint.pages(|run, _, _| run == 0).unwrap_err();
    }
}
