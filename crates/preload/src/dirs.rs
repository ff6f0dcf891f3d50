//! Directory streams of ours: of directories in the simulated trees, and of real ones with additional entries.
//! A stream's pointer is recognised by a set; with no stream of ours open, asking costs one load.

use std::cell::UnsafeCell;
use std::collections::BTreeSet;
use std::ffi::{CStr, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{DIR, c_int, c_long, dirent64};

use crate::lock::Lock;

/// One entry, as `readdir` gives it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: OsString,
    /// `DT_DIR`, `DT_REG`, `DT_LNK`, `DT_CHR`, ...
    pub kind: u8,
    /// Its inode number.
    pub inode: u64,
}

/// What a `DIR` of ours points to.
struct Stream {
    fd: c_int,
    entries: Vec<Entry>,
    next: usize,
    entry: dirent64,
}

static OPEN: AtomicUsize = AtomicUsize::new(0);
static STREAMS: Lock<BTreeSet<usize>> = Lock::new(BTreeSet::new());

/// Makes a stream that owns `fd` and lists `entries`.
pub fn open(fd: c_int, entries: Vec<Entry>) -> *mut DIR {
    // SAFETY: a dirent64 is plain numbers, for which zeros are valid.
    let entry = unsafe { std::mem::zeroed() };
    let stream = Box::into_raw(Box::new(UnsafeCell::new(Stream {
        fd,
        entries,
        next: 0,
        entry,
    })));
    STREAMS.with(|streams| streams.insert(stream.expose_provenance()));
    OPEN.fetch_add(1, Ordering::Release);
    stream.cast()
}

/// Whether the pointer is a stream of ours.
pub fn is_ours(stream: *mut DIR) -> bool {
    OPEN.load(Ordering::Acquire) != 0 && STREAMS.with(|streams| streams.contains(&stream.addr()))
}

/// The stream behind a pointer that [`is_ours`].
///
/// # Safety
///
/// As for the C functions: nobody else uses or closes the stream at the same time.
unsafe fn stream<'a>(stream: *mut DIR) -> &'a mut Stream {
    // SAFETY: the pointer is in the set, so it came from `open` and is not closed; the caller promises the rest.
    unsafe { &mut *(*stream.cast::<UnsafeCell<Stream>>()).get() }
}

fn fill(entry: &Entry, position: usize, out: &mut dirent64) {
    let name = entry.name.as_bytes();
    let name = &name[..name.len().min(out.d_name.len() - 1)];
    out.d_ino = entry.inode;
    out.d_off = position as i64;
    out.d_reclen = size_of::<dirent64>() as u16;
    out.d_type = entry.kind;
    out.d_name.fill(0);
    for (to, from) in out.d_name.iter_mut().zip(name) {
        *to = from.cast_signed();
    }
}

/// The next entry; null at the end.
///
/// # Safety
///
/// `pointer` is ours, and used by one thread at a time.
pub unsafe fn read(pointer: *mut DIR) -> *mut dirent64 {
    // SAFETY: the caller's promise.
    let stream = unsafe { stream(pointer) };
    let Some(entry) = stream.entries.get(stream.next) else {
        return std::ptr::null_mut();
    };
    stream.next += 1;
    fill(entry, stream.next, &mut stream.entry);
    &raw mut stream.entry
}

/// The position, for [`seek`].
///
/// # Safety
///
/// As for [`read`].
pub unsafe fn tell(pointer: *mut DIR) -> c_long {
    // SAFETY: the caller's promise.
    unsafe { stream(pointer) }.next as c_long
}

/// Goes to a position; 0 is the beginning.
///
/// # Safety
///
/// As for [`read`].
pub unsafe fn seek(pointer: *mut DIR, position: c_long) {
    // SAFETY: the caller's promise.
    unsafe { stream(pointer) }.next = usize::try_from(position).unwrap_or(0);
}

/// The descriptor that belongs to the stream.
///
/// # Safety
///
/// As for [`read`].
pub unsafe fn fd(pointer: *mut DIR) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { stream(pointer) }.fd
}

/// Ends the stream and returns its descriptor, which the caller closes.
///
/// # Safety
///
/// As for [`read`]; the pointer is invalid afterwards.
pub unsafe fn close(pointer: *mut DIR) -> c_int {
    STREAMS.with(|streams| streams.remove(&pointer.addr()));
    OPEN.fetch_sub(1, Ordering::Release);
    // SAFETY: the pointer came from `open`, and is in the set no longer.
    let stream = unsafe { Box::from_raw(pointer.cast::<UnsafeCell<Stream>>()) };
    stream.into_inner().fd
}

/// A copy of an entry of ours in memory of the C library's allocator, as `scandir` gives out; null without memory.
///
/// # Safety
///
/// `entry` is what [`read`] returned.
pub unsafe fn allocate(entry: *const dirent64) -> *mut dirent64 {
    // SAFETY: malloc has no requirement; the copy is as large as the original.
    unsafe {
        let out = libc::malloc(size_of::<dirent64>()).cast::<dirent64>();
        if !out.is_null() {
            out.copy_from_nonoverlapping(entry, 1);
        }
        out
    }
}

/// An entry that the C library read.
///
/// # Safety
///
/// `entry` is what `readdir` returned. Its record may be shorter than the structure.
pub unsafe fn from_c(entry: *const dirent64) -> Entry {
    // SAFETY: the caller's promise; the name ends with a zero inside the record.
    unsafe {
        let name = CStr::from_ptr((&raw const (*entry).d_name).cast());
        Entry {
            name: OsStr::from_bytes(name.to_bytes()).to_owned(),
            kind: (&raw const (*entry).d_type).read(),
            inode: (&raw const (*entry).d_ino).read(),
        }
    }
}

/// Before a fork: the child must find the set whole.
pub fn before_fork() {
    STREAMS.hold_for_fork();
}

/// In a forked child, if [`before_fork`] was not called.
pub fn after_unseen_fork() {
    STREAMS.renew_after_fork(BTreeSet::new());
}

/// After a fork, in parent and child: the streams are usable in both.
pub fn after_fork() {
    STREAMS.release_after_fork();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> Entry {
        Entry {
            name: name.into(),
            kind: libc::DT_REG,
            inode: 7,
        }
    }

    #[test]
    fn a_stream_lists_seeks_and_ends() {
        let stream = open(-1, vec![entry("a"), entry("b")]);
        assert!(is_ours(stream));
        // SAFETY: the stream is ours, and only this thread uses it.
        unsafe {
            assert_eq!(from_c(read(stream)), entry("a"));
            let position = tell(stream);
            assert_eq!(from_c(read(stream)), entry("b"));
            assert!(read(stream).is_null());
            seek(stream, position);
            assert_eq!(from_c(read(stream)), entry("b"));
            assert_eq!(close(stream), -1);
        }
        assert!(!is_ours(stream));
    }
}
