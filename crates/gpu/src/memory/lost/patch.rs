//! What stands in for lost memory: put there by the signal handler, taken away by the thread that it was put there for.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, MremapFlags, ProtFlags};

use super::Spin;
use crate::memory::maps::{self, Area};
use crate::memory::storage::PAGE;

/// Patches at one time.
const PATCHES: usize = 256;
/// Logarithm of the most pages of a patch: each is twice the last one, so that a kernel that walks through a large buffer
/// that is gone does not come here for every page.
const LARGEST: u32 = 18;

/// Nothing was there.
const FILLED: u32 = 1;
/// A page could not be accessed.
const OPENED: u32 = 2;
/// A page behind the end of its file: the mapping is kept elsewhere.
const COVERED: u32 = 3;

struct Patch {
    /// The thread it was made for; 0: none.
    owner: AtomicU32,
    /// 0: not complete.
    kind: AtomicU32,
    start: AtomicU64,
    end: AtomicU64,
    /// [`FILLED`] and [`COVERED`]: the inode of what was put there, by which it is known again. 0: not known.
    inode: AtomicU64,
    /// [`OPENED`]: the protection before. [`COVERED`]: where the mapping is.
    before: AtomicU64,
    /// [`OPENED`]: the protection that it was given.
    given: AtomicU64,
    /// Those made later are undone first.
    order: AtomicU64,
}

static TABLE: [Patch; PATCHES] = [const {
    Patch {
        owner: AtomicU32::new(0),
        kind: AtomicU32::new(0),
        start: AtomicU64::new(0),
        end: AtomicU64::new(0),
        inode: AtomicU64::new(0),
        before: AtomicU64::new(0),
        given: AtomicU64::new(0),
        order: AtomicU64::new(0),
    }
}; PATCHES];
static ORDER: AtomicU64 = AtomicU64::new(0);
/// Held by who undoes patches, and by who maps something else where one may be. Never by the handler.
static UNDOING: Spin = Spin::new();

const READ: u64 = 1;
const WRITE: u64 = 2;
const EXECUTE: u64 = 4;

fn protection(area: &Area) -> u64 {
    let bit = |on: bool, bit| if on { bit } else { 0 };
    bit(area.read, READ) | bit(area.write, WRITE) | bit(area.execute, EXECUTE)
}

fn me() -> u32 {
    rustix::thread::gettid()
        .as_raw_nonzero()
        .get()
        .cast_unsigned()
}

/// A patch for this thread, not complete.
fn claim() -> Option<&'static Patch> {
    let me = me();
    let free = |patch: &&Patch| {
        let claimed = patch
            .owner
            .compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed);
        claimed.is_ok()
    };
    let patch = TABLE.iter().find(free)?;
    let order = ORDER.fetch_add(1, Ordering::Relaxed);
    patch.order.store(order, Ordering::Relaxed);
    Some(patch)
}

impl Patch {
    fn complete(&self, kind: u32, start: u64, end: u64) -> bool {
        self.start.store(start, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
        self.kind.store(kind, Ordering::Release);
        true
    }

    fn give_up(&self) -> bool {
        self.kind.store(0, Ordering::Relaxed);
        self.owner.store(0, Ordering::Release);
        false
    }
}

fn page_of(address: u64) -> u64 {
    address - address % PAGE
}

/// What is mapped at `address`.
fn area_at(address: u64) -> Option<Area> {
    let mut found = None;
    let mut buffer = [0; 1024];
    let seen = maps::visit(address, address + 1, &mut buffer, |area| {
        found = Some(area);
        false
    });
    seen.ok().and(found)
}

/// Maps zeros at `[start, start + bytes)`. They are a file of their own, as `/proc/self/maps` shows it.
fn zeros(start: u64, bytes: u64, fixed: MapFlags) -> Result<(), Errno> {
    let flags = MapFlags::SHARED | MapFlags::NORESERVE | fixed;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: with NOREPLACE nothing is there; else the page behind a file's end, of which there is another mapping.
    let at = unsafe {
        rustix::mm::mmap_anonymous(start as *mut c_void, bytes as usize, protection, flags)?
    };
    if at as u64 == start {
        return Ok(());
    }
    // Linux before 4.17 knows no NOREPLACE.
    // SAFETY: what was mapped just now.
    let _ = unsafe { rustix::mm::munmap(at, bytes as usize) };
    Err(Errno::EXIST)
}

/// Puts zeros where nothing is mapped.
pub fn fill(address: u64, count: u32) -> bool {
    let Some(patch) = claim() else { return false };
    for log in (0..=count.min(LARGEST)).rev() {
        let bytes = PAGE << log;
        let start = address - address % bytes;
        match zeros(start, bytes, MapFlags::FIXED_NOREPLACE) {
            Ok(()) => {
                let inode = area_at(address).map_or(0, |area| area.file.1);
                patch.inode.store(inode, Ordering::Relaxed);
                return patch.complete(FILLED, start, start + bytes);
            }
            // There is something again.
            Err(Errno::EXIST) if log == 0 => {
                patch.give_up();
                return true;
            }
            Err(_) => {}
        }
    }
    patch.give_up()
}

/// The part of an area from the page of `address` on that a patch takes.
fn part(area: &Area, address: u64, count: u32) -> (u64, u64) {
    let start = page_of(address);
    let bytes = PAGE << count.min(LARGEST);
    (start, start.saturating_add(bytes).min(area.end))
}

fn protect(start: u64, end: u64, bits: u64) -> bool {
    let mut flags = MprotectFlags::empty();
    flags.set(MprotectFlags::READ, bits & READ != 0);
    flags.set(MprotectFlags::WRITE, bits & WRITE != 0);
    flags.set(MprotectFlags::EXEC, bits & EXECUTE != 0);
    // SAFETY: the program's pages, which it lent: more may be done with them for a moment, then as much as before.
    unsafe { rustix::mm::mprotect(start as *mut c_void, (end - start) as usize, flags) }.is_ok()
}

/// Lets pages be accessed that the program has protected.
pub fn open(address: u64, count: u32, write: bool) -> bool {
    let Some(area) = area_at(address) else {
        // It is gone by now: the next attempt finds that.
        return true;
    };
    let before = protection(&area);
    let given = before | READ | if write { WRITE } else { 0 };
    if before == given {
        // Somebody else has opened it meanwhile.
        return true;
    }
    let Some(patch) = claim() else { return false };
    let (start, end) = part(&area, address, count);
    patch.before.store(before, Ordering::Relaxed);
    patch.given.store(given, Ordering::Relaxed);
    if protect(start, end, given) {
        return patch.complete(OPENED, start, end);
    }
    patch.give_up()
}

/// Puts zeros over pages that are behind the end of their file.
pub fn cover(address: u64, count: u32) -> bool {
    let Some(area) = area_at(address) else {
        return true;
    };
    let Some(patch) = claim() else { return false };
    let (start, end) = part(&area, address, count);
    let bytes = (end - start) as usize;
    // SAFETY: a fresh reservation at an address of the kernel's choice.
    let room = unsafe {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::empty(), flags)
    };
    let Ok(room) = room else {
        return patch.give_up();
    };
    let from = start as *mut c_void;
    let flags = MremapFlags::MAYMOVE | MREMAP_DONTUNMAP;
    // SAFETY: the mapping moves into the reservation above; at its old place there are pages without content.
    let kept = unsafe { rustix::mm::mremap_fixed(from, bytes, bytes, flags, room) };
    if kept.is_ok() && zeros(start, end - start, MapFlags::FIXED).is_ok() {
        let inode = area_at(address).map_or(0, |area| area.file.1);
        patch.inode.store(inode, Ordering::Relaxed);
        patch.before.store(room as u64, Ordering::Relaxed);
        return patch.complete(COVERED, start, end);
    }
    if kept.is_ok() {
        // SAFETY: the mapping of the program goes back to its place.
        let _ = unsafe { rustix::mm::mremap_fixed(room, bytes, bytes, MremapFlags::MAYMOVE, from) };
    } else {
        // SAFETY: the reservation above.
        let _ = unsafe { rustix::mm::munmap(room, bytes) };
    }
    patch.give_up()
}

/// `MREMAP_DONTUNMAP` (Linux 5.13 for mappings of files): no other thread can map something in between.
const MREMAP_DONTUNMAP: MremapFlags = MremapFlags::from_bits_retain(4);

/// Gives up a part of a kept mapping, in whose place the program has something else by now.
fn forget(kept: u64, bytes: u64) {
    if bytes > 0 {
        // SAFETY: a part of the reservation that the handler made, and that is still there.
        let _ = unsafe { rustix::mm::munmap(kept as *mut c_void, bytes as usize) };
    }
}

/// Puts back what was before.
fn undo(patch: &Patch) {
    let kind = patch.kind.load(Ordering::Acquire);
    let start = patch.start.load(Ordering::Relaxed);
    let end = patch.end.load(Ordering::Relaxed);
    let inode = patch.inode.load(Ordering::Relaxed);
    let before = patch.before.load(Ordering::Relaxed);
    let given = patch.given.load(Ordering::Relaxed);
    let mut parts = Vec::new();
    let mut buffer = [0; 4096];
    let seen = maps::visit(start, end, &mut buffer, |area| {
        parts.extend(area.cut(start, end));
        true
    });
    if seen.is_err() {
        // Nobody can tell what is there; so it stays.
        parts.clear();
    }
    // Of a kept mapping, what has not gone back.
    let mut left = start;
    for part in parts {
        let at = part.start as *mut c_void;
        let bytes = (part.end - part.start) as usize;
        let ours = inode != 0 && part.file.1 == inode;
        match kind {
            FILLED if ours => {
                // SAFETY: zeros that the handler put there.
                let _ = unsafe { rustix::mm::munmap(at, bytes) };
            }
            OPENED if protection(&part) == given => {
                protect(part.start, part.end, before);
            }
            COVERED if ours => {
                forget(before + (left - start), part.start - left);
                left = part.end;
                let kept = (before + (part.start - start)) as *mut c_void;
                let flags = MremapFlags::MAYMOVE;
                // SAFETY: the program's mapping goes back to its place, over zeros that the handler put there.
                let _ = unsafe { rustix::mm::mremap_fixed(kept, bytes, bytes, flags, at) };
            }
            _ => {}
        }
    }
    if kind == COVERED {
        forget(before + (left - start), end - left);
    }
    patch.give_up();
}

/// Undoes those patches that `which` says, the last one first. The lock is held.
fn undo_if(which: impl Fn(&Patch) -> bool) {
    let complete = |patch: &&Patch| patch.kind.load(Ordering::Acquire) != 0;
    let mut found: Vec<_> = TABLE
        .iter()
        .filter(complete)
        .filter(|patch| which(patch))
        .collect();
    found.sort_by_key(|patch| std::cmp::Reverse(patch.order.load(Ordering::Relaxed)));
    found.into_iter().for_each(undo);
}

/// Undoes all patches that were made for this thread.
pub fn undo_own() {
    let me = me();
    UNDOING.lock();
    undo_if(|patch| patch.owner.load(Ordering::Relaxed) == me);
    UNDOING.unlock();
}

/// While this lives, no patch is undone.
pub struct Held(());

impl Drop for Held {
    fn drop(&mut self) {
        UNDOING.unlock();
    }
}

pub fn hold(ranges: &[Range<u64>]) -> Held {
    UNDOING.lock();
    undo_if(|patch| {
        let start = patch.start.load(Ordering::Relaxed);
        let end = patch.end.load(Ordering::Relaxed);
        ranges
            .iter()
            .any(|range| start < range.end && end > range.start)
    });
    Held(())
}

pub fn after_fork() {
    UNDOING.unlock();
    for patch in &TABLE {
        patch.give_up();
    }
}
